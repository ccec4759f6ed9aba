"""Distinct values of a variable, and those that stand out."""

import numpy as np
import pytest

from tensorly_smp.likelihood.coordinate import Coordinate
from tensorly_smp.likelihood.observed import FARTHEST_HALVES, Observed, atoms

RNG = np.random.default_rng(0)
NORMAL = RNG.normal(size=1000)


def test_narrowest_interval_against_all_intervals():
    values = np.round(RNG.normal(size=60), 1)
    found = Observed.of(values, None).narrowest(3)
    ordered = np.sort(values)
    lengths = [
        (b - a, a, b) for a in ordered for b in ordered if ((values >= a) & (values <= b)).sum() >= 0.5 * 60 / 3 - 1e-9
    ]
    assert found[1] - found[0] == pytest.approx(min(lengths)[0])
    assert ((values >= found[0]) & (values <= found[1])).sum() >= 10


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.where(np.arange(1000) % 5 == 0, 99.0, NORMAL), (99.0, 0.2)),
        (np.where(np.arange(1000) % 5 == 0, 99.0, np.where(np.arange(1000) % 5 == 1, -99.0, NORMAL)), 0.2),  # limits
        (np.where(np.arange(1000) % 4 == 0, np.take([7.0, 8.5, 9.0, -3.0], np.arange(1000) % 16 // 4), NORMAL), 0.062),
        (np.where(np.arange(1000) % 7 == 0, 999.0, np.round(50 + 12 * NORMAL)), (999.0, 0.143)),  # ages, and a code
        (np.random.default_rng(0).poisson(np.where(np.arange(1000) % 2, 12.0, 0.3)).astype(float), None),
        (np.where(np.arange(1000) % 2, 10 * np.round(5 + NORMAL), np.round(50 + 12 * NORMAL)), None),  # favorites
        (NORMAL, None),
        (np.round(NORMAL, 1), None),
        (np.where(np.arange(1000) % 100 == 0, 99.0, NORMAL), None),  # one in a hundred
        (np.array([0.0] * 20 + [1.0, 2.0, 3.0]), None),  # too few to say
        (np.repeat(0.5, 1000), None),
    ],
)
def test_values_that_many_samples_share(values, expected):
    found = Observed.of(values, None).atom
    if isinstance(expected, float):
        assert found[1] == pytest.approx(expected, abs=1e-3)
    else:
        assert found == (None if expected is None else pytest.approx(expected, abs=1e-3))


def test_atoms_of_variables_that_are_not_discrete():
    values = np.column_stack([NORMAL, np.where(NORMAL > 0.5, 0.5, NORMAL), np.arange(1000) % 2])
    found = atoms(values, [2])
    assert list(found) == [1]
    assert found[1] == (0.5, pytest.approx((NORMAL > 0.5).mean()))
    assert atoms(values[:, :2], [], np.where(NORMAL > 0.5, 0.0, 1.0)) == {}
    assert atoms(values, [1, 2]) == {}


@pytest.mark.parametrize("n_samples", [100, 20_000])
def test_a_few_samples_of_one_value_far_from_all_others(n_samples):
    values = np.random.default_rng(0).normal(40.0, 10.0, n_samples).round(1)
    values[[3, 50, 77]] = -999.0
    assert atoms(values[:, None], [])[0] == (-999.0, 3.0 / n_samples)
    assert atoms(-values[:, None], [])[0] == (999.0, 3.0 / n_samples)
    values[77] = 40.0  # two may agree by chance
    assert atoms(values[:, None], []) == {}
    values[[3, 50, 77]] = values.max() + 0.5 * np.ptp(values[values > -999.0])  # far, yet a long tail may go there
    assert atoms(values[:, None], []) == {}


def test_a_category_far_from_all_others():
    kinds = np.random.default_rng(0).integers(0, 3, 300).astype(float)
    kinds[:7] = 99.0
    assert atoms(kinds[:, None], [0])[0] == (99.0, 7.0 / 300.0)
    kinds[:7] = 9.0
    assert atoms(kinds[:, None], [0]) == {}


def test_atoms_that_come_late():
    values = np.arange(2000.0)
    values[1200:] = -999.0
    assert atoms(values[:, None], [])[0] == (-999.0, 0.4)


def test_small_values_of_a_long_tail_are_no_atom():
    assert atoms(np.exp(20.0 * NORMAL)[:, None], []) == {}


def test_without_atoms():
    observed = Observed.of(np.where(np.arange(1000) % 2 == 0, 0.0, NORMAL), None)
    assert observed.without_atoms(2).total == 500
    assert Observed.of(np.repeat([1.0, 2.0], 50), None).without_atoms(1).total == 100


def test_along_a_coordinate():
    observed = Observed.of(NORMAL, None)
    assert observed.along(Coordinate()) is observed
    np.testing.assert_allclose(observed.along(Coordinate(0.0, 1.0)).distinct, np.arcsinh(np.sort(NORMAL)))


def test_cells_end_at_far_values_that_are_many():
    values = NORMAL.copy()
    values[:50] = 1e30
    low, high = Observed.of(values, None).interval((None, None))
    assert low < NORMAL.min()
    quartiles = np.quantile(values, [0.25, 0.75])
    assert high < 1.2 * (FARTHEST_HALVES + 1) * np.diff(quartiles)[0]
