"""Many starts, the hopeless ones given up after a few sweeps."""

import warnings

import numpy as np
import pytest

from tensorly_smp.exceptions import ConvergenceWarning
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.factors.restarts import N_KEPT
from tensorly_smp.factors.solution import StopReason
from tensorly_smp.factors.solver import coupled_simplex_parafac
from tensorly_smp.metrics import factor_error

MODES = [(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)]


def solve(n_init=6, **options):
    rng = np.random.default_rng(0)
    tensors = [rng.random((5, 5, 5)) for _ in MODES]
    options = {"init": "gevd", "random_state": 0, "tol": 1e-7, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return coupled_simplex_parafac(tensors, 2, modes=MODES, n_init=n_init, **options)


def test_only_the_lowest_go_on():
    solution = solve(n_screen=5)
    everything = solve(n_screen=None)
    screened = [status is StopReason.SCREENED for status in solution.start_statuses]
    assert sum(screened) == 6 - N_KEPT
    assert solution.status is StopReason.CONVERGED
    assert solution.loss == solution.start_losses.min()
    assert everything.loss <= solution.loss * (1 + 1e-6)
    assert StopReason.SCREENED not in everything.start_statuses


def test_record_goes_through_the_screening():
    trace = solve(n_screen=5).trace
    assert trace.n_sweeps > 5
    assert trace.loss.shape == trace.change.shape == trace.seconds.shape
    assert (np.diff(trace.loss) <= 1e-14).all()
    assert (np.diff(trace.seconds) >= 0).all()
    assert np.isnan(trace.change).tolist() == [True] + [False] * trace.n_sweeps


def test_largest_number_of_sweeps_holds_over_both_parts():
    solution = solve(n_screen=5, n_iter_max=8, tol=0.0)
    assert solution.trace.n_sweeps == 8
    assert solution.status is StopReason.MAX_SWEEPS


def test_threads_do_not_change_the_result():
    one, two = (solve(n_screen=5, n_jobs=jobs) for jobs in (1, 2))
    assert (one.start_losses == two.start_losses).all()
    assert one.start_statuses == two.start_statuses
    assert (one.trace.loss == two.trace.loss).all()


def test_interrupt_in_either_part_keeps_the_best():
    calls_of_screening = 6 * 6
    for n_calls in (9, calls_of_screening + 4):
        calls = []

        def callback(cp_tensor, loss, calls=calls, n_calls=n_calls):
            calls.append(loss)
            if len(calls) == n_calls:
                raise KeyboardInterrupt

        solution = solve(n_screen=5, callback=callback)
        assert StopReason.INTERRUPTED in solution.start_statuses
        assert solution.loss == solution.start_losses.min()


@pytest.mark.parametrize("loss", ["kl", "frobenius"])
def test_algebraic_start_of_exact_histograms_is_the_truth(loss):
    rng = np.random.default_rng(0)
    truth = MixtureFactors(rng.dirichlet(np.full(3, 10.0)), [rng.dirichlet(np.ones(4), 3).T for _ in range(4)])
    solution = coupled_simplex_parafac(truth.to_marginals(), 3, loss=loss, random_state=0)
    assert solution.status is StopReason.EXACT
    assert factor_error(solution.factors, truth) < 1e-10
