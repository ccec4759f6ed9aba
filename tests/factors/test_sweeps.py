"""Signs of the multipliers at the end: entries of 1e-20 that ought to grow are not left where they are."""

import numpy as np
import pytest
from backend_problems import tensor

import tensorly_smp as smp
from tensorly_smp._support.checks import to_numpy
from tensorly_smp.factors.blocks import KLLoss
from tensorly_smp.factors.coupled import couple_tensors
from tensorly_smp.factors.sweeps import SMALL, stuck_entries
from tensorly_smp.marginals.histograms import read_tensors


def weighted_case():
    """Of DESIGN's: from a random start the loss ended at .7716676, with a multiplier of -.17."""
    X = smp.datasets.make_smooth_mixture("gmm", 800, n_variables=5, n_components=3, random_state=3).X
    weights = np.random.default_rng(0).integers(0, 4, 800).astype(float)
    codes = smp.encode_samples(X, smp.choose_binning(X, [4, 5, 6, 5, 4]))
    return smp.count_marginals(codes, sample_weight=weights)


def least_multiplier(marginals, solution):
    """Of all entries of the factors, relative to the mean slope of their column."""
    factors = list(solution.factors.factors)
    loss = KLLoss(couple_tensors(marginals, "count"))
    least = np.inf
    for n, a in enumerate(factors):
        slope = -loss.factor_block(n, factors, solution.factors.weights).gradient(a)
        mean = (a * slope).sum(axis=0)
        least = min(least, ((mean - slope) / mean).min())
    return least


@pytest.mark.parametrize("random_state", [0, 1, 2])
def test_no_multiplier_has_the_wrong_sign_at_the_end(random_state):
    marginals = weighted_case()
    solution = smp.coupled_simplex_parafac(
        marginals, 3, init="random", tol=1e-13, n_iter_max=5000, random_state=random_state
    )
    assert solution.status is smp.StopReason.CONVERGED
    assert solution.loss == pytest.approx(0.7716574, abs=1e-7)
    assert least_multiplier(marginals, solution) > -1e-4
    assert (np.diff(solution.trace.loss) <= 1e-14).all()


def test_stuck_entries_are_found_and_lifted_on_every_backend(backend, dtype):
    rng = np.random.default_rng(0)
    truth = [rng.dirichlet(np.ones(4), 2).T for _ in range(3)]
    exact = np.einsum("r,ir,jr,kr->ijk", [0.4, 0.6], *truth)
    loss = KLLoss(couple_tensors(read_tensors(tensor(exact, dtype), None), "count"))
    factors = [a.copy() for a in truth]
    factors[1][2, 0] = 1e-20
    factors[1] /= factors[1].sum(axis=0)
    weights = tensor([0.4, 0.6], dtype)
    there = [tensor(a, dtype) for a in factors]
    lift = stuck_entries(loss, weights, there)
    state = lift(1e-3)
    lifted_weights, lifted = state.weights, state.factors
    np.testing.assert_allclose(to_numpy(lifted_weights), [0.4, 0.6], rtol=1e-6)
    for n in (0, 2):
        np.testing.assert_allclose(to_numpy(lifted[n]), factors[n], rtol=1e-6)
    expected = factors[1].copy()
    expected[2, 0] += 1e-3
    np.testing.assert_allclose(to_numpy(lifted[1]), expected / expected.sum(axis=0), rtol=1e-6)
    factors[1][2, 0] = 2 * SMALL  # comes back by itself
    assert stuck_entries(loss, weights, [tensor(a / a.sum(axis=0), dtype) for a in factors]) is None
    assert stuck_entries(loss, weights, [tensor(a, dtype) for a in truth]) is None


def test_zeros_of_the_truth_stay():
    columns = [np.array([[0.5, 0.0], [0.5, 0.2], [0.0, 0.8]]) for _ in range(4)]
    truth = smp.MixtureFactors([0.3, 0.7], columns)
    solution = smp.coupled_simplex_parafac(truth.to_marginals(), 2, init=truth.smooth(0.1), tol=1e-12)
    assert solution.status.is_converged
    assert smp.metrics.factor_error(solution.factors, truth) < 1e-3
