"""Distinct values of a variable, and those that stand out."""

import numpy as np
import pytest

from tensorly_smp.densities.conditionals import DiscreteConditionals
from tensorly_smp.likelihood.observed import FARTHEST_HALVES, Observed, atoms, distinct_values
from tensorly_smp.splines.basis import ArcsinhTransform

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


EVERY = np.arange(1000)
AGES = np.round(50 + 12 * NORMAL)
RATINGS = np.random.default_rng(0).integers(1, 6, 1000).astype(float)


def shares_of(values, *numbers):
    return [(number, pytest.approx((values == number).mean())) for number in numbers]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.where(EVERY % 5 == 0, 99.0, NORMAL), [99]),
        (np.where(EVERY % 5 == 0, 99.0, np.where(EVERY % 5 == 1, -99.0, NORMAL)), [-99, 99]),  # limits
        (np.where(EVERY % 4 == 0, np.take([7.0, 8.5, 9.0, -3.0], EVERY % 16 // 4), NORMAL), [-3, 7, 8.5, 9]),
        (np.where(EVERY % 7 == 0, 999.0, AGES), [999]),  # ages, and a code
        (np.random.default_rng(0).poisson(np.where(EVERY % 2, 12.0, 0.3)).astype(float), []),
        (np.where(EVERY % 2, 10 * np.round(5 + NORMAL), AGES), []),  # favorites
        (NORMAL, []),
        (np.round(NORMAL, 1), []),
        (np.where(EVERY % 100 == 0, 99.0, NORMAL), []),  # one in a hundred
        (np.array([0.0] * 20 + [1.0, 2.0, 3.0]), []),  # too few to say
        (np.repeat(0.5, 1000), []),
        # Inside the range, whatever the share of it.
        *((np.where(10 * percent > EVERY, 0.5, NORMAL), [0.5]) for percent in (10, 19, 21, 40, 70, 90)),
        *((np.where(10 * percent > EVERY, 50.0, AGES), [50]) for percent in (21, 40, 70)),  # and in rounded data
    ],
)
def test_values_that_many_samples_share(values, expected):
    assert Observed.of(values, None).atoms == shares_of(values, *expected)
    assert Observed.of(-values, None).atoms == shares_of(-values, *(-number for number in expected[::-1]))


@pytest.mark.parametrize(
    ("values", "is_discrete", "expected"),
    [
        (np.where(EVERY < 50, 998.0, np.where(EVERY < 100, 999.0, AGES)), False, [998, 999]),
        (np.where(EVERY < 50, -99.0, np.where(EVERY < 100, 999.0, AGES)), False, [-99, 999]),  # on either side
        (np.where(EVERY < 50, 99.0, np.where(EVERY < 100, 9999.0, np.minimum(AGES, 40))), False, [99, 9999]),
        (np.where(EVERY < 50, 98.0, np.where(EVERY < 100, 99.0, RATINGS)), True, [98, 99]),
        (np.where(EVERY < 50, -8.0, np.where(EVERY < 100, -9.0, RATINGS)), True, [-9, -8]),
        (np.where(EVERY < 50, -9.0, RATINGS), True, [-9]),
        # Not far, but of another sign than all ages, and each as frequent as no age is.
        (np.where(EVERY < 50, -8.0, np.where(EVERY < 100, -9.0, AGES)), False, [-9, -8]),
        (np.where(EVERY < 20, -1.0, np.abs(NORMAL)), False, [-1]),
        (np.round(4 + 2 * NORMAL), False, []),  # a few are below zero
        (np.maximum(np.round(3 * NORMAL), 0.0), False, []),
        (RATINGS, True, []),
        (np.where(EVERY < 50, 8.0, RATINGS), True, []),
        (AGES, False, []),
        # A limit of detection is the last value of a density, not one beyond a gap.
        (np.maximum(NORMAL, -2.0), False, []),
        # Zeros in place of missing entries: glucose, and body mass index.
        (np.where(np.arange(768) < 5, 0.0, np.clip(np.round(121 + 30 * NORMAL[:768]), 44, 199)), False, [0]),
        (np.where(np.arange(768) < 11, 0.0, np.clip(np.round(32 + 7 * NORMAL[:768], 1), 18.2, 67.1)), False, [0]),
        # Far samples of different values are outliers, and so are two of the same.
        (np.concatenate([NORMAL, [100.0, 110.0, 120.0]]), False, []),
        (np.concatenate([NORMAL, [100.0, 100.0]]), False, []),
        (np.round(np.exp(2 * NORMAL)), False, []),
    ],
)
def test_codes_at_the_ends(values, is_discrete, expected):
    assert Observed.of(values, None).sentinel_values(is_discrete) == shares_of(values, *expected)
    if expected != [-9]:  # which stands out by its sign
        mirrored = shares_of(-values, *(-n for n in expected[::-1]))
        assert Observed.of(-values, None).sentinel_values(is_discrete) == mirrored


@pytest.mark.parametrize("number", [100, 123, 5000])
def test_central_values_of_mirrored_values(number):
    ordered, ones = np.arange(float(number)), np.ones(number)
    for tail in (0.01, 0.1, 0.25):
        low, high = Observed(ordered, ones)._central(tail)
        assert (low, high) == Observed(ordered, np.full(number, 0.1))._central(tail)
        assert Observed(-ordered[::-1], ones)._central(tail) == (-high, -low)
        assert low == number - 1 - high == np.ceil(tail * number) - 1


def test_atoms_of_variables_that_are_not_discrete():
    values = np.column_stack([NORMAL, np.where(NORMAL > 0.5, 0.5, NORMAL), np.arange(1000) % 2])
    found = atoms(values, [2])
    assert list(found) == [1]
    assert found[1] == [(0.5, pytest.approx((NORMAL > 0.5).mean()))]
    assert atoms(values[:, :2], [], np.where(NORMAL > 0.5, 0.0, 1.0)) == {}
    assert atoms(values, [1, 2]) == {}


@pytest.mark.parametrize("n_samples", [100, 20_000])
def test_a_few_samples_of_one_value_far_from_all_others(n_samples):
    values = np.random.default_rng(0).normal(40.0, 10.0, n_samples).round(1)
    values[[3, 50, 77]] = -999.0
    assert atoms(values[:, None], [])[0] == [(-999.0, 3.0 / n_samples)]
    assert atoms(-values[:, None], [])[0] == [(999.0, 3.0 / n_samples)]
    values[77] = 40.0  # two may agree by chance
    assert atoms(values[:, None], []) == {}
    values[[3, 50, 77]] = values.max() + 0.5 * np.ptp(values[values > -999.0])  # far, yet a long tail may go there
    assert atoms(values[:, None], []) == {}
    kinds = np.random.default_rng(0).integers(0, 3, 300).astype(float)
    for value, expected in ((99.0, {0: [(99.0, 7.0 / 300.0)]}), (9.0, {})):  # categories
        kinds[:7] = value
        assert atoms(kinds[:, None], [0]) == expected


def test_atoms_that_come_late_and_samples_without_atoms():
    values = np.arange(2000.0)
    values[1200:] = -999.0
    assert atoms(values[:, None], [])[0] == [(-999.0, 0.4)]
    assert atoms(np.exp(20.0 * NORMAL)[:, None], []) == {}  # small values of a long tail are none
    found = Observed.of(np.where(np.arange(1000) % 2 == 0, 0.0, NORMAL), None)
    assert found.without_atoms(2).total == 500
    assert Observed.of(np.repeat([1.0, 2.0], 50), None).without_atoms(1).total == 100


def test_transformed_values_and_cells_that_end_at_far_values_that_are_many():
    found = Observed.of(NORMAL, None)
    assert found.transformed(ArcsinhTransform()) is found
    np.testing.assert_allclose(found.transformed(ArcsinhTransform(0.0, 1.0)).distinct, np.arcsinh(np.sort(NORMAL)))
    values = NORMAL.copy()
    values[:50] = 1e30
    low, high = Observed.of(values, None).interval((None, None))
    assert low < NORMAL.min()
    assert high < 1.2 * (FARTHEST_HALVES + 1) * np.diff(np.quantile(values, [0.25, 0.75]))[0]


@pytest.mark.parametrize("scale", [1e3, 1e6, 1e7, 3e7, 1e8])
def test_values_of_rounding_noise_are_one_value_and_all_samples_have_one(scale):
    rng = np.random.default_rng(0)
    clean = rng.integers(0, 4, 300) / 10
    terms = scale * rng.random(300)
    column = (clean + terms) - terms
    parts = [distinct_values(part[:, None], [0])[0] for part in np.split(column, 3)]
    whole = distinct_values(column[:, None], [0])[0]
    merged = distinct_values(np.concatenate(parts)[:, None], [0])[0]
    for values in (whole, merged):
        assert set(values) <= set(column)
        assert len(values) == 4 or scale > 1e7  # whose noise is beyond an eighth of single precision
        item = DiscreteConditionals(values, np.ones((len(values), 1)))
        assert item.pdf(column).min() > 0
        assert not item.pdf(np.array([0.05, 0.1 + 1e-6, 0.31])).any()


def test_of_equal_values_the_most_frequent_is_listed():
    column = np.array([0.0, 0.1, 0.1 + 1e-12, 0.1 + 1e-12, 0.1 + 2e-12, 0.7, np.nan])
    assert distinct_values(column[:, None], [0])[0].tolist() == [0.0, 0.1 + 1e-12, 0.7]
    weights = np.array([1.0, 5.0, 1.0, 1.0, 1.0, 0.0, 1.0])
    assert distinct_values(column[:, None], [0], weights)[0].tolist() == [0.0, 0.1]
    integers = np.array([0.0, 1.0, 2.0, 1e18])
    assert distinct_values(integers[:, None], [0])[0].tolist() == integers.tolist()
