"""Criteria of the penalty against dense algebra, and what they choose."""

import numpy as np
import pytest
from oracles import beta_shares, cell_shares, dense_curvature, dense_penalty

from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.splines.log_spline import LogSplineFit, fit_log_splines
from tensorly_smp.splines.penalties import (
    CRITERIA,
    PENALTIES,
    choose_penalties,
    effective_parameters,
    largest_penalties,
)
from tensorly_smp.splines.spline_basis import spline_basis

SMALL = spline_basis(12)


def test_effective_parameters_are_the_trace():
    shares, rho = beta_shares(SMALL, 3), np.array([1e-2, 1.0, 1e5])
    coefficients = fit_log_splines(SMALL, shares, rho)
    found = effective_parameters(SMALL, coefficients, rho)
    for r in range(3):
        curvature = dense_curvature(SMALL, coefficients[:, r])
        trace = np.trace(np.linalg.solve(curvature + rho[r] * dense_penalty(SMALL), curvature)) - 1.0
        assert found[r] == pytest.approx(trace, rel=1e-4)
    assert 2.0 <= found[2] < 2.05
    assert found[2] < found[1] < found[0] < 11.0


def test_restricted_likelihood_agrees_with_dense_algebra():
    shares, rho, totals = beta_shares(SMALL, 4, 1), np.array([0.3]), np.array([500.0])
    fit = LogSplineFit.at(SMALL, SMALL.transposed @ shares, rho, fit_log_splines(SMALL, shares, rho))
    dense = dense_curvature(SMALL, fit.coefficients[:, 0]) + rho * dense_penalty(SMALL)
    expected = 500.0 * fit.value + 0.5 * (9 * np.log(rho) - np.linalg.slogdet(dense)[1])
    assert CRITERIA["reml"](fit, totals, None) == pytest.approx(expected, rel=1e-6)


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
        values.append(CRITERIA["reml"](fit, totals, None))
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


def test_other_criteria_are_refused():
    with pytest.raises(InvalidInputError, match="expected one of reml, aic, bic"):
        choose_penalties(SMALL, beta_shares(SMALL, 8), np.ones(3), criterion="gcv")
