"""Penalized log-splines against dense algebra, a general optimizer, and their limits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import norm

from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.likelihood.log_spline import (
    CRITERIA,
    PENALTIES,
    _Fit,
    choose_penalties,
    effective_parameters,
    fit_log_splines,
    largest_penalties,
    log_probabilities,
    roughness,
    spline_basis,
)

SMALL = spline_basis(12)


def histogram(basis, values):
    cells = np.clip((np.asarray(values) * basis.n_cells).astype(int), 0, basis.n_cells - 1)
    return np.bincount(cells, minlength=basis.n_cells)[:, None] / len(cells)


def random_shares(basis, seed, n_densities=3):
    rng = np.random.default_rng(seed)
    return np.hstack([histogram(basis, rng.beta(*rng.uniform(1, 6, 2), 300)) for _ in range(n_densities)])


def dense_curvature(basis, coefficients):
    design = basis.at_cells.toarray()
    return design.T @ (np.exp(design @ coefficients)[:, None] * design)


def dense_penalty(basis):
    return (basis.differences.T @ basis.differences).toarray()


def test_basis_is_a_partition_of_unity_that_contains_quadratics():
    np.testing.assert_allclose(SMALL.at_cells.sum(axis=1), 1.0)
    powers = SMALL.centers[:, None] ** np.arange(3)
    np.testing.assert_allclose(SMALL.at_cells @ SMALL.quadratics, powers, atol=1e-12)
    np.testing.assert_allclose(SMALL.differences @ SMALL.quadratics, 0.0, atol=1e-10)


def test_bands_are_those_of_the_dense_matrices():
    coefficients = np.random.default_rng(0).standard_normal((12, 1))
    curvature = SMALL.curvature(np.exp(SMALL.at_cells @ coefficients))
    dense, penalty = dense_curvature(SMALL, coefficients[:, 0]), dense_penalty(SMALL)
    for d in range(4):
        np.testing.assert_allclose(curvature[0, : 12 - d, d], np.diag(dense, -d), atol=1e-14)
        np.testing.assert_allclose(SMALL.penalty_bands[: 12 - d, d], np.diag(penalty, -d), atol=1e-10)
        assert not curvature[0, 12 - d :, d].any()
        assert not SMALL.penalty_bands[12 - d :, d].any()
    assert np.abs(np.triu(penalty, 4)).max() < 1e-10


@given(st.integers(0, 10**6), st.sampled_from([1e-3, 1.0, 1e3]))
@settings(max_examples=15)
def test_maximum_is_that_of_a_general_optimizer(seed, rho):
    shares = random_shares(SMALL, seed, 1)
    fitted = fit_log_splines(SMALL, shares, np.array([rho]))
    design, penalty = SMALL.at_cells.toarray(), dense_penalty(SMALL)

    def negative(beta):
        eta = design @ beta
        gradient = design.T @ (np.exp(eta) - shares[:, 0]) + rho * penalty @ beta
        return np.exp(eta).sum() - shares[:, 0] @ eta + 0.5 * rho * beta @ penalty @ beta, gradient

    value, gradient = negative(fitted[:, 0])
    start = SMALL.gaussian(shares)[:, 0]
    other = minimize(negative, start, jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 2000})
    assert value <= other.fun + 1e-9
    assert np.abs(gradient).max() < 1e-4
    assert np.exp(design @ fitted).sum() == pytest.approx(1.0, abs=1e-6)


def test_gradient_agrees_with_differences():
    rng = np.random.default_rng(1)
    shares, coefficients = random_shares(SMALL, 1, 1), 0.3 * rng.standard_normal((12, 1)) - 3.0
    fit = _Fit.at(SMALL, SMALL.transposed @ shares, np.array([0.5]), coefficients)
    for k in range(12):
        step = np.zeros((12, 1))
        step[k] = 1e-6
        slope = (fit.moved(step).value - fit.moved(-step).value) / 2e-6
        assert slope == pytest.approx(fit.gradient()[k], abs=1e-7)


@pytest.mark.parametrize("n_basis", [40, 80])
def test_heavy_smoothing_is_the_gaussian_of_the_moments(n_basis):
    basis = spline_basis(n_basis)
    values = np.random.default_rng(0).normal(0.5, 0.1, 2000)
    shares = histogram(basis, values)
    fitted = np.exp(log_probabilities(basis, fit_log_splines(basis, shares, np.array([1e6]))))[:, 0]
    mean = basis.centers @ shares[:, 0]
    deviation = np.sqrt((basis.centers - mean) ** 2 @ shares[:, 0])
    expected = norm.pdf(basis.centers, mean, deviation) / basis.n_cells
    np.testing.assert_allclose(fitted, expected, atol=1e-4 * expected.max())
    assert basis.centers @ fitted == pytest.approx(mean, abs=1e-7)


def test_rho_means_the_same_for_any_number_of_basis_functions():
    # A smooth logarithm has the same roughness in any basis that can follow it.
    def rough(n_basis):
        basis = spline_basis(n_basis)
        wave = 2.0 * np.sin(4.0 * basis.centers)[:, None]
        design = basis.at_cells.toarray()
        return roughness(basis, np.linalg.lstsq(design, wave, rcond=None)[0])[0]

    assert rough(40) == pytest.approx(rough(80), rel=0.05)
    assert rough(160) == pytest.approx(rough(80), rel=0.05)


def test_effective_parameters_are_the_trace():
    shares, rho = random_shares(SMALL, 3), np.array([1e-2, 1.0, 1e5])
    coefficients = fit_log_splines(SMALL, shares, rho)
    found = effective_parameters(SMALL, coefficients, rho)
    for r in range(3):
        curvature = dense_curvature(SMALL, coefficients[:, r])
        trace = np.trace(np.linalg.solve(curvature + rho[r] * dense_penalty(SMALL), curvature)) - 1.0
        assert found[r] == pytest.approx(trace, rel=1e-4)
    assert 2.0 <= found[2] < 2.05
    assert found[2] < found[1] < found[0] < 11.0


def test_restricted_likelihood_agrees_with_dense_algebra():
    shares, rho, totals = random_shares(SMALL, 4, 1), np.array([0.3]), np.array([500.0])
    fit = _Fit.at(SMALL, SMALL.transposed @ shares, rho, fit_log_splines(SMALL, shares, rho))
    dense = dense_curvature(SMALL, fit.coefficients[:, 0]) + rho * dense_penalty(SMALL)
    expected = 500.0 * fit.value + 0.5 * (9 * np.log(rho) - np.linalg.slogdet(dense)[1])
    assert CRITERIA["reml"](fit, totals) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_penalties_follow_the_data(criterion):
    basis, rng = spline_basis(40), np.random.default_rng(0)
    gaussian = rng.normal(0.5, 0.1, 1000)
    two_peaks = np.concatenate([rng.normal(0.3, 0.05, 500), rng.normal(0.7, 0.05, 500)])
    shares = np.hstack([histogram(basis, gaussian), histogram(basis, two_peaks)])
    penalty, coefficients = choose_penalties(basis, shares, np.full(2, 1000.0), criterion=criterion)
    assert penalty[0] >= 100 * penalty[1]
    assert (penalty <= np.minimum(PENALTIES[-1], largest_penalties(basis, shares))).all()
    # The coefficients are those of the chosen penalties.
    again = fit_log_splines(basis, shares, penalty, coefficients)
    logs = [log_probabilities(basis, each) for each in (coefficients, again)]
    assert np.abs(np.exp(logs[0]) - np.exp(logs[1])).max() < 1e-3


def test_chosen_penalty_has_the_largest_criterion():
    basis, shares = spline_basis(40), random_shares(spline_basis(40), 5)
    totals = np.array([50.0, 300.0, 3000.0])
    penalty, _ = choose_penalties(basis, shares, totals)
    values = []
    limits = largest_penalties(basis, shares)
    for each in (*PENALTIES[:, None] * np.ones(3), limits, penalty):
        rho = np.minimum(each, limits)
        fit = _Fit.at(basis, basis.transposed @ shares, rho, fit_log_splines(basis, shares, rho))
        values.append(CRITERIA["reml"](fit, totals))
    assert (values[-1] >= np.max(values, axis=0) - 0.05).all()


@pytest.mark.parametrize("n_densities", [1, 600])
def test_columns_do_not_depend_on_each_other(n_densities):
    shares = np.tile(random_shares(SMALL, 6, 1), n_densities)
    rho = np.full(n_densities, 0.1)
    result = fit_log_splines(SMALL, shares, rho)
    np.testing.assert_allclose(result, np.tile(result[:, :1], n_densities), rtol=1e-10)


@pytest.mark.parametrize("cells", [[5], [0], [20, 21], [3, 30]])
def test_shares_in_few_cells_stay_finite(cells):
    shares = np.zeros((SMALL.n_cells, 1))
    shares[cells] = 1.0 / len(cells)
    for total in (1e-2, 3.0, 1e6):
        _, coefficients = choose_penalties(SMALL, shares, np.array([total]))
        logs = log_probabilities(SMALL, coefficients)
        assert np.isfinite(logs).all()
        assert np.exp(logs).sum() == pytest.approx(1.0)


def test_hessian_is_the_slope_of_the_gradient():
    rng = np.random.default_rng(7)
    shares, coefficients = random_shares(SMALL, 7, 1), 0.3 * rng.standard_normal((12, 1)) - 3.0
    fit = _Fit.at(SMALL, SMALL.transposed @ shares, np.array([0.5]), coefficients)
    bands = fit.hessian()[0]
    for k in range(12):
        step = np.zeros((12, 1))
        step[k] = 1e-5
        slope = (fit.moved(step).gradient() - fit.moved(-step).gradient())[:, 0] / 2e-5
        below = np.minimum(12 - k, 4)
        np.testing.assert_allclose(-slope[k : k + below], bands[k, :below], atol=1e-6)


@given(st.integers(0, 10**6), st.floats(-300.0, 300.0), st.sampled_from([0.0, 1.0, 30.0]))
def test_f_never_ends_lower_than_at_the_start(seed, constant, distance):
    rng = np.random.default_rng(seed)
    shares, rho = random_shares(SMALL, seed, 2), 10.0 ** rng.uniform(-5, 5, 2)
    start = constant + distance * rng.standard_normal((12, 2))
    before = start.copy()

    def best_constant(coefficients):
        return _Fit.at(SMALL, SMALL.transposed @ shares, rho, SMALL.normalized(coefficients)).value

    for n_steps in (1, 5):
        fitted = fit_log_splines(SMALL, shares, rho, start, n_steps=n_steps)
        assert (best_constant(fitted) >= best_constant(start) - 1e-9 * (1 + np.abs(best_constant(start)))).all()
    np.testing.assert_array_equal(start, before)


def test_the_largest_penalty_leaves_a_gaussian():
    basis = spline_basis(40)
    shares = np.exp(-0.5 * ((basis.centers[:, None] - 0.5) / [0.04, 0.08]) ** 2)
    shares /= shares.sum(axis=0)
    rho = largest_penalties(basis, shares)
    found = effective_parameters(basis, fit_log_splines(basis, shares, rho), rho)
    assert ((found > 2.005) & (found < 2.03)).all()  # whatever the standard deviation


def test_other_criteria_are_refused():
    with pytest.raises(InvalidInputError, match="expected one of reml, aic, bic"):
        choose_penalties(SMALL, random_shares(SMALL, 8), np.ones(3), criterion="gcv")
