"""Criteria of the penalty against dense algebra, and what they choose."""

import numpy as np
import pytest
from oracles import beta_shares, cell_shares, dense_curvature, dense_penalty
from scipy import stats

from tensorly_smp.splines.basis import spline_basis
from tensorly_smp.splines.log_spline import (
    CRITERIA,
    PENALTIES,
    LogSplineFit,
    _overlap,
    choose_penalties,
    criterion_of,
    effective_parameters,
    fit_log_splines,
    largest_penalties,
    ungroup,
)

SMALL = spline_basis(12)
CONCAVE = spline_basis(12, "log-concave")


def free_directions(basis, coefficients):
    """Directions (n_basis, n_free) of one log-spline along which the shape lets it move both ways.

    By them two values and the second differences that are not at their bound change by one each.
    """
    bends = basis.bends.toarray()
    is_free = bends @ coefficients < -1e-6 if basis.shape else np.ones(len(bends), dtype=bool)
    return np.linalg.inv(np.vstack([np.eye(basis.n_basis)[:2], bends]))[:, [True, True, *is_free]]


@pytest.mark.parametrize("basis", [SMALL, CONCAVE], ids=["free", "log-concave"])
def test_effective_parameters_are_the_trace(basis):
    shares, rho = beta_shares(SMALL, 3), np.array([1e-2, 1.0, 1e5])
    coefficients = fit_log_splines(basis, shares, rho)
    found = effective_parameters(basis, coefficients, rho)
    for r in range(3):
        free = free_directions(basis, coefficients[:, r])
        curvature = free.T @ dense_curvature(basis, coefficients[:, r]) @ free
        penalty = free.T @ dense_penalty(basis) @ free
        trace = np.trace(np.linalg.solve(curvature + rho[r] * penalty, curvature)) - 1.0
        assert found[r] == pytest.approx(trace, rel=1e-3)
    assert 2.0 <= found[2] < 2.05
    assert found[2] < found[1] < found[0] < 11.0


@pytest.mark.parametrize("basis", [SMALL, CONCAVE], ids=["free", "log-concave"])
def test_restricted_likelihood_agrees_with_dense_algebra(basis):
    two_peaks = beta_shares(SMALL, 4, 2).mean(axis=1, keepdims=True)
    shares, rho, totals = np.tile(two_peaks, 4), np.array([1e-4, 1e-2, 1.0, 1e3]), np.full(4, 500.0)
    fit = LogSplineFit.at(basis, SMALL.transposed @ shares, rho, fit_log_splines(basis, shares, rho))
    expected = 500.0 * fit.value
    numbers = []
    for r in range(4):
        free = free_directions(basis, fit.coefficients[:, r])
        penalty = rho[r] * free.T @ dense_penalty(SMALL) @ free
        eigenvalues = np.linalg.eigvalsh(penalty)
        numbers.append(free.shape[1])
        prior = np.log(eigenvalues[eigenvalues > 1e-9 * eigenvalues[-1]]).sum()
        curvature = free.T @ dense_curvature(SMALL, fit.coefficients[:, r]) @ free
        expected[r] += 0.5 * (prior - np.linalg.slogdet(curvature + penalty)[1])
    found = criterion_of(fit, totals, np.full(4, np.nan))
    if basis is CONCAVE:
        assert min(numbers) < max(numbers) == 12  # some second differences are held, or none
        np.testing.assert_allclose(found, expected, atol=1e-2)
    else:  # up to a constant: the determinant of the second differences
        np.testing.assert_allclose(found - found[0], expected - expected[0], rtol=1e-6)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_penalties_follow_the_data(criterion):
    basis, rng = spline_basis(40), np.random.default_rng(0)
    gaussian = rng.normal(0.5, 0.1, 1000)
    two_peaks = np.concatenate([rng.normal(0.3, 0.05, 500), rng.normal(0.7, 0.05, 500)])
    shares = np.hstack([cell_shares(basis, gaussian), cell_shares(basis, two_peaks)])
    penalty, coefficients = choose_penalties(basis, shares, np.full(2, 1000.0), criterion=criterion)
    assert penalty[0] >= 100 * penalty[1]
    assert (penalty <= np.minimum(PENALTIES[-1], largest_penalties(basis, shares))).all()
    # The coefficients are those of the chosen penalties.
    again = fit_log_splines(basis, shares, penalty, coefficients)
    logs = [basis.log_probabilities(each) for each in (coefficients, again)]
    assert np.abs(np.exp(logs[0]) - np.exp(logs[1])).max() < 1e-3


def test_chosen_penalty_has_the_largest_criterion():
    basis, shares = spline_basis(40), beta_shares(spline_basis(40), 5)
    totals = np.array([50.0, 300.0, 3000.0])
    penalty, _ = choose_penalties(basis, shares, totals)
    values = []
    limits = largest_penalties(basis, shares)
    for each in (*PENALTIES[:, None] * np.ones(3), limits, penalty):
        rho = np.minimum(each, limits)
        fit = LogSplineFit.at(basis, basis.transposed @ shares, rho, fit_log_splines(basis, shares, rho))
        values.append(criterion_of(fit, totals, np.full(3, np.nan)))
    assert (values[-1] >= np.max(values, axis=0) - 0.05).all()


@pytest.mark.parametrize("cells", [[5], [0], [20, 21], [3, 30]])
def test_shares_in_few_cells_stay_finite(cells):
    shares = np.zeros((SMALL.n_cells, 1))
    shares[cells] = 1.0 / len(cells)
    for total in (1e-2, 3.0, 1e6):
        _, coefficients = choose_penalties(SMALL, shares, np.array([total]))
        logs = SMALL.log_probabilities(coefficients)
        assert np.isfinite(logs).all()
        assert np.exp(logs).sum() == pytest.approx(1.0)


def test_the_largest_penalty_leaves_a_gaussian():
    basis = spline_basis(40)
    shares = np.exp(-0.5 * ((basis.centers[:, None] - 0.5) / [0.04, 0.08]) ** 2)
    shares /= shares.sum(axis=0)
    rho = largest_penalties(basis, shares)
    found = effective_parameters(basis, fit_log_splines(basis, shares, rho), rho)
    assert ((found > 2.005) & (found < 2.03)).all()  # whatever the standard deviation


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
    np.testing.assert_allclose(overlap.sum(axis=0), 1.0)
    np.testing.assert_allclose(overlap @ cells, probabilities, atol=2e-3)
    assert np.isfinite(ungroup(edges, np.eye(10)[:, :1], np.array([3.0]))[1]).all()  # all mass in one bin


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
