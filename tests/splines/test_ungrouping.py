import numpy as np
import pytest
from scipy import stats

from tensorly_smp.splines.ungrouping import _overlap, ungroup


@pytest.mark.parametrize(
    "distribution", [stats.norm(), stats.gamma(5), stats.norm(0, 1e9)], ids=["norm", "gamma", "wide"]
)
def test_bins_have_their_probabilities(distribution):
    edges = np.linspace(*distribution.ppf([1e-4, 1 - 1e-4]), 11)
    inner = [-np.inf, *edges[1:-1], np.inf]
    probabilities = np.diff(distribution.cdf(inner))[:, None]
    basis, coefficients, low, high = ungroup(edges, probabilities, np.array([1e5]))
    cells = np.exp(basis.log_probabilities(coefficients))
    overlap = _overlap(np.linspace(low, high, basis.n_cells + 1), np.array([low, *edges[1:-1], high]))
    np.testing.assert_allclose(overlap @ cells, probabilities, atol=2e-3)


@pytest.mark.parametrize("scale", [1.0, 1e9])
def test_smooth_density_from_wide_bins(scale):
    truth = stats.norm(0, scale)
    edges = np.linspace(-4.0 * scale, 4.0 * scale, 11)
    probabilities = np.diff(truth.cdf([-np.inf, *edges[1:-1], np.inf]))[:, None]
    basis, coefficients, low, high = ungroup(edges, probabilities, np.array([1e5]))
    density = np.exp(basis.log_probabilities(coefficients))[:, 0] * basis.n_cells / (high - low)
    expected = truth.pdf(low + (high - low) * basis.centers)
    assert np.abs(density - expected).max() < 0.01 * expected.max()


def test_unequal_bins_and_columns_at_once():
    edges = np.array([-4.0, -2.0, -1.5, 0.0, 0.2, 1.0, 3.0, 4.0])
    means = np.array([-1.0, 0.5])
    inner = np.array([-np.inf, *edges[1:-1], np.inf])
    probabilities = np.diff(stats.norm.cdf(inner[:, None], means), axis=0)
    basis, coefficients, low, high = ungroup(edges, probabilities, np.full(2, 1e4))
    cells = np.exp(basis.log_probabilities(coefficients))
    np.testing.assert_allclose((low + (high - low) * basis.centers) @ cells, means, atol=0.05)


def test_overlap_covers_every_cell_once():
    overlap = _overlap(np.linspace(0, 1, 11), np.array([0.0, 0.33, 0.5, 1.0]))
    np.testing.assert_allclose(overlap.sum(axis=0), 1.0)
    np.testing.assert_allclose(overlap[:, 3], [0.3, 0.7, 0.0])


def test_all_mass_in_one_bin():
    probabilities = np.eye(5)[:, :1]
    _, coefficients, _, _ = ungroup(np.arange(6.0), probabilities, np.array([3.0]))
    assert np.isfinite(coefficients).all()
