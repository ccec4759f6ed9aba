import numpy as np
import pytest

from tensorly_smp.codes.energy import EnergySpectrum, bin_spectrum, observed_values, value_weights
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError


def rng():
    return np.random.default_rng(0)


def test_energies_are_the_mean_cosine_over_pairs():
    values = rng().gamma(3.0, size=40)
    width, n_steps = 0.7, 16
    observed, weights = observed_values(values, rng().random(40))
    energies = bin_spectrum(observed, weights, 0.3, width, n_steps).energies(3 * n_steps)
    for k in range(0, len(energies), 5):
        cosines, total = 0.0, 0.0
        for i in range(40):
            for j in range(40):
                if i != j:
                    frequency = k * np.pi / (n_steps * width)
                    cosines += weights[i] * weights[j] * np.cos(frequency * (observed[i] - observed[j]))
                    total += weights[i] * weights[j]
        assert energies[k] == pytest.approx(cosines / total, abs=0.01)  # cells are as wide as 0.07 radians at most


def test_standard_error_by_loops():
    # On cells, so that nothing is rounded: Hoeffding's variance of the U-statistic of the ratio's kernel.
    n_cells, first, last = 64, 4, 12
    cells = rng().integers(0, 20, 30)
    spectrum = EnergySpectrum.of(cells.astype(float), np.full(30, 1 / 30), n_cells)
    tail, whole = np.zeros(last + 1), np.ones(last + 1)
    whole[[0, last]] = 0.5
    tail[first:] = 1.0
    tail[[first, last]] = 0.5
    total, share = whole @ spectrum.energies(last + 1), spectrum.share(first, last)
    assert share == pytest.approx(tail @ spectrum.energies(last + 1) / total)
    kernel = np.zeros((30, 30))
    for i in range(30):
        for j in range(30):
            cosines = np.cos(2 * np.pi * np.arange(last + 1) * (cells[i] - cells[j]) / n_cells)
            kernel[i, j] = (tail - share * whole) @ cosines / total
    pairs = kernel[~np.eye(30, dtype=bool)]
    # 30 * 29 / 2 pairs: kernel.mean(axis=1) includes the pair with itself, which is the same for all
    zeta_1, zeta_2 = kernel.mean(axis=1).var(), pairs.var()
    variance = 4 / 30 * max(zeta_1 - zeta_2 / 30, 0) + 2 / 30**2 * zeta_2
    assert spectrum.share_error(first, last) == pytest.approx(np.sqrt(variance))


def test_value_weights_by_loops():
    values, weights = rng().integers(0, 5, 30).astype(float), rng().random(30)
    for given_weights in (weights, np.full(30, 1 / 30)):
        distinct, shares = value_weights(values, given_weights)
        assert distinct.tolist() == sorted(set(values))
        for value, share in zip(distinct, shares, strict=True):
            assert share == pytest.approx(
                sum(w for x, w in zip(values, given_weights, strict=True) if x == value), abs=1e-12
            )


@pytest.mark.parametrize(
    ("values", "weight", "error", "match"),
    [
        ([1.0, np.inf], None, InvalidInputError, "infinite"),
        ([[1.0, 2.0]], None, InvalidInputError, "one dimension"),
        (["a", "b"], None, InvalidTypeError, "values are not real numbers"),
        ([1.0, 2.0], [1.0], InvalidInputError, "sample_weight"),
        ([1.0, 2.0], [1.0, -1.0], InvalidInputError, "non-negative"),
        ([1.0, 2.0], [1.0, np.nan], InvalidInputError, "finite"),
    ],
)
def test_values_and_weights_that_are_refused(values, weight, error, match):
    with pytest.raises(error, match=match):
        observed_values(np.array(values), weight)


def test_nothing_is_observed_where_nothing_has_weight():
    observed, weights = observed_values(np.array([1.0, np.nan, 2.0]), np.array([0.0, 1.0, 0.0]))
    assert len(observed) == len(weights) == 0
