import numpy as np
import pytest

from tensorly_smp.codes.characteristic_function import CELLS_PER_BIN, EnergySpectrum, observed_values


def rng():
    return np.random.default_rng(0)


def test_energies_are_the_mean_cosine_over_pairs():
    values = rng().gamma(3.0, size=40)
    width, n_steps = 0.7, 16
    observed, weights = observed_values(values, rng().random(40))
    energies = EnergySpectrum.of(observed, weights, 0.3, width, n_steps).energies(3 * n_steps)
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
    n_cells, first, last = 2 * CELLS_PER_BIN, 4, 12
    cells = rng().integers(0, 80, 30)
    spectrum = EnergySpectrum.of(cells.astype(float), np.full(30, 1 / 30), 0.0, float(CELLS_PER_BIN), 1)
    tail, whole = np.zeros(last + 1), np.ones(last + 1)
    whole[[0, last]] = 0.5
    tail[first:] = 1.0
    tail[[first, last]] = 0.5
    total, (share, error) = whole @ spectrum.energies(last + 1), spectrum.share(first, last)
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
    assert error == pytest.approx(np.sqrt(variance))


def test_nothing_is_observed_where_nothing_has_weight():
    observed, weights = observed_values(np.array([1.0, np.nan, 2.0]), np.array([0.0, 1.0, 0.0]))
    assert len(observed) == len(weights) == 0
