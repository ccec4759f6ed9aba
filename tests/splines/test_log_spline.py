"""Penalized log-splines against a general optimizer, finite differences, and their limits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import beta_shares, cell_shares, dense_penalty
from scipy.optimize import minimize
from scipy.stats import gamma, laplace, logistic, norm, uniform

from tensorly_smp.splines.basis import SHAPES, spline_basis
from tensorly_smp.splines.log_spline import LogSplineFit, fit_log_splines

SMALL = spline_basis(12)
CONCAVE = spline_basis(12, "log-concave")


@given(st.integers(0, 10**6), st.sampled_from([1e-3, 1.0, 1e3]), st.sampled_from(SHAPES), st.booleans())
@settings(max_examples=30)
def test_maximum_is_that_of_a_general_optimizer(seed, rho, shape, has_two_peaks):
    shares = beta_shares(SMALL, seed, 2)
    shares = 0.5 * (shares[:, :1] + shares[::-1, 1:]) if has_two_peaks else shares[:, :1]
    fitted = fit_log_splines(spline_basis(12, shape), shares, np.array([rho]))
    design, penalty = SMALL.at_cells.toarray(), dense_penalty(SMALL)

    def negative(beta):
        eta = design @ beta
        gradient = design.T @ (np.exp(eta) - shares[:, 0]) + rho * penalty @ beta
        return np.exp(eta).sum() - shares[:, 0] @ eta + 0.5 * rho * beta @ penalty @ beta, gradient

    value, gradient = negative(fitted[:, 0])
    start = SMALL.gaussian(shares)[:, 0]
    bends = SMALL.bends.toarray()
    if shape is None:
        other = minimize(negative, start, jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 2000})
        assert value <= other.fun + 1e-9
        assert np.abs(gradient).max() < 1e-4
    else:
        assert (bends @ fitted).max() < 1e-9
        # Karush, Kuhn and Tucker: only second differences at their bound pull, and all of them to the other side.
        active = bends[(bends @ fitted)[:, 0] > -1e-6]
        multipliers = np.linalg.pinv(active.T) @ -gradient
        np.testing.assert_allclose(active.T @ multipliers, -gradient, atol=1e-4)
        assert multipliers.min(initial=0.0) > -1e-4
    assert np.exp(design @ fitted).sum() == pytest.approx(1.0, abs=1e-6)


def test_gradient_and_hessian_agree_with_differences():
    rng = np.random.default_rng(1)
    shares, coefficients = beta_shares(SMALL, 1, 1), 0.3 * rng.standard_normal((12, 1)) - 3.0
    fit = LogSplineFit.at(SMALL, SMALL.transposed @ shares, np.array([0.5]), coefficients)
    for k in range(12):
        step, below = np.eye(12)[:, k : k + 1], min(12 - k, 4)
        slope = (fit.moved(1e-6 * step).value - fit.moved(-1e-6 * step).value) / 2e-6
        assert slope == pytest.approx(fit.gradient()[k], abs=1e-7)
        slope = (fit.moved(1e-5 * step).gradient() - fit.moved(-1e-5 * step).gradient())[:, 0] / 2e-5
        np.testing.assert_allclose(-slope[k : k + below], fit.hessian()[0][k, :below], atol=1e-6)


@pytest.mark.parametrize("n_basis", [40, 80])
def test_heavy_smoothing_is_the_gaussian_of_the_moments(n_basis):
    basis = spline_basis(n_basis)
    values = np.random.default_rng(0).normal(0.5, 0.1, 2000)
    shares = cell_shares(basis, values)
    fitted = np.exp(basis.log_probabilities(fit_log_splines(basis, shares, np.array([1e6]))))[:, 0]
    mean = basis.centers @ shares[:, 0]
    deviation = np.sqrt((basis.centers - mean) ** 2 @ shares[:, 0])
    expected = norm.pdf(basis.centers, mean, deviation) / basis.n_cells
    np.testing.assert_allclose(fitted, expected, atol=1e-4 * expected.max())
    assert basis.centers @ fitted == pytest.approx(mean, abs=1e-7)


def test_columns_do_not_depend_on_each_other():
    shares = np.tile(beta_shares(SMALL, 6, 1), 300)
    result = fit_log_splines(SMALL, shares, np.full(300, 0.1))
    np.testing.assert_allclose(result, np.tile(result[:, :1], 300), rtol=1e-10)


@given(st.integers(0, 10**6), st.floats(-300.0, 300.0), st.sampled_from([0.0, 1.0, 30.0]), st.sampled_from(SHAPES))
def test_f_never_ends_lower_than_at_the_start(seed, constant, distance, shape):
    basis = spline_basis(12, shape)
    rng = np.random.default_rng(seed)
    shares, rho = beta_shares(SMALL, seed, 2), 10.0 ** rng.uniform(-5, 5, 2)
    start = constant + distance * rng.standard_normal((12, 2))
    before = start.copy()

    def best_constant(coefficients):
        return LogSplineFit.at(
            basis, basis.transposed @ shares, rho, basis.normalized(basis.shaped(coefficients))
        ).value

    for n_steps in (1, 5):
        fitted = fit_log_splines(basis, shares, rho, start, n_steps=n_steps)
        assert (best_constant(fitted) >= best_constant(start) - 1e-9 * (1 + np.abs(best_constant(start)))).all()
    np.testing.assert_array_equal(start, before)


@given(st.integers(0, 10**6), st.sampled_from([0.1, 1.0, 30.0]))
def test_turned_down_coefficients_are_concave_and_keep_what_is_concave(seed, distance):
    coefficients = distance * np.random.default_rng(seed).standard_normal((12, 4))
    bent = CONCAVE.shaped(coefficients)
    assert (CONCAVE.bends @ bent).max() < 1e-10 * distance
    assert (bent <= coefficients + 1e-10 * distance).all()
    peak = np.clip(coefficients.argmax(axis=0), 1, 10)
    np.testing.assert_array_equal(bent[peak, range(4)], coefficients[peak, range(4)])
    np.testing.assert_allclose(CONCAVE.shaped(coefficients[::-1]), bent[::-1], atol=1e-10 * distance)
    np.testing.assert_allclose(
        CONCAVE.bends @ bent, np.minimum(CONCAVE.bends @ coefficients, 0.0), atol=1e-10 * distance
    )


@pytest.mark.parametrize(
    "truth", [laplace(), gamma(2), logistic(), uniform()], ids=["laplace", "gamma", "logistic", "uniform"]
)
def test_log_concave_fits_of_log_concave_truths_are_nearer_to_them(truth):
    free, concave = spline_basis(40), spline_basis(40, "log-concave")
    ends = truth.ppf([1e-4, 1.0 - 1e-4])
    rng = np.random.default_rng(0)
    drawn = (truth.rvs((20, 500), random_state=rng) - ends[0]) / (ends[1] - ends[0])
    shares = np.hstack([cell_shares(free, row) for row in drawn])
    probabilities = np.diff(truth.cdf(ends[0] + (ends[1] - ends[0]) * np.linspace(0.0, 1.0, free.n_cells + 1)))
    rho = np.full(20, 1e-2)
    losses = [
        -(probabilities @ basis.log_probabilities(fit_log_splines(basis, shares, rho))).mean()
        for basis in (concave, free)
    ]
    assert losses[0] < losses[1]
