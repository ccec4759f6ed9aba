"""Many starts, the hopeless ones given up after a few sweeps."""

import os
import signal
import threading
import time
import warnings

import numpy as np
import pytest
from rooms import interrupting_after, solved

from tensorly_smp._support.iteration import StopReason
from tensorly_smp.decomposition.solver import N_KEPT, coupled_simplex_parafac
from tensorly_smp.exceptions import ConvergenceWarning
from tensorly_smp.factors.blocks import KLLoss
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.factors.sweeps import SweepTrace
from tensorly_smp.metrics import factor_error

MODES = [(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)]
N_INIT, N_SCREEN = N_KEPT + 4, 5


def solve(n_init=N_INIT, **options):
    """Many starts on tensors without structure, so that they end in different places."""
    rng = np.random.default_rng(0)
    tensors = [rng.random((4, 4, 4)) for _ in MODES]
    options = {"init": "gevd", "random_state": 0, "tol": 1e-5, "n_screen": N_SCREEN, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return solved(tensors, 2, modes=MODES, n_init=n_init, **options)


def arrays(solution):
    return [solution.factors.weights, *solution.factors.factors]


def test_only_the_lowest_go_on():
    solution = solve()
    everything = solve(n_screen=None)
    at_screening = solve(n_screen=None, n_iter_max=N_SCREEN).start_losses
    screened = np.array([status is StopReason.SCREENED for status in solution.start_statuses])
    assert screened.sum() == N_INIT - N_KEPT
    assert (solution.start_losses[screened] == at_screening[screened]).all()
    assert at_screening[~screened].max() <= at_screening[screened].min()
    assert (solution.start_losses[~screened] < at_screening[~screened]).all()
    assert solution.status is solution.start_statuses[solution.best_start] is StopReason.CONVERGED
    assert solution.loss == solution.start_losses.min()
    assert everything.loss <= solution.loss * (1 + 1e-6)
    assert StopReason.SCREENED not in everything.start_statuses


def test_record_goes_through_the_screening():
    trace = solve().trace
    assert trace.n_sweeps > N_SCREEN
    assert trace.loss.shape == trace.change.shape == trace.seconds.shape == (trace.n_sweeps + 1,)
    assert (np.diff(trace.loss) <= 1e-14).all()
    assert (np.diff(trace.seconds) >= 0).all()
    assert np.isnan(trace.change).tolist() == [True] + [False] * trace.n_sweeps
    dataset = solve().to_dataset()
    assert dataset.sizes["sweep"] == trace.n_sweeps + 1 == dataset.attrs["n_sweeps"] + 1
    assert dataset.start_status.values.tolist().count("screened") == N_INIT - N_KEPT


def test_two_records_in_one():
    first = SweepTrace(np.array([5.0, 4.0]), np.array([np.nan, 1.0]), np.array([0.5, 2.0]))
    later = SweepTrace(np.array([4.0, 3.0, 2.0]), np.array([np.nan, 0.5, 0.25]), np.array([0.125, 1.0, 1.5]))
    both = first.followed_by(later)
    assert both.loss.tolist() == [5.0, 4.0, 3.0, 2.0]
    assert both.change[1:].tolist() == [1.0, 0.5, 0.25]
    assert both.seconds.tolist() == [0.5, 2.0, 3.0, 3.5]
    assert both.n_sweeps == first.n_sweeps + later.n_sweeps


def test_largest_number_of_sweeps_holds_over_both_parts():
    solution = solve(n_iter_max=N_SCREEN + 3, tol=0.0)
    assert solution.trace.n_sweeps == N_SCREEN + 3
    assert solution.status is StopReason.MAX_SWEEPS


@pytest.mark.parametrize(
    ("n_init", "options"),
    [(N_INIT, {"n_screen": 1000}), (N_INIT, {"n_iter_max": N_SCREEN}), (N_KEPT, {})],
    ids=["longer than the fit", "as long as the fit", "no more starts than go on"],
)
def test_nothing_to_screen(n_init, options):
    with_screening, without = solve(n_init, **options), solve(n_init, **{**options, "n_screen": None})
    assert with_screening.start_statuses == without.start_statuses
    assert (with_screening.start_losses == without.start_losses).all()


def test_starts_that_are_given_or_random_all_run_to_their_end():
    given = solve(n_screen=None).factors.smooth()
    for init in ("random", given):
        assert StopReason.SCREENED not in solve(init=init).start_statuses


def test_starts_that_ended_in_the_screening_are_not_called_screened():
    solution = solve(tol=0.3)
    assert set(solution.start_statuses) == {StopReason.CONVERGED}


# --- interrupts and callbacks


def test_interrupt_during_the_screening_keeps_the_best():
    solution = solve(callback=interrupting_after(N_SCREEN + 4))
    assert solution.start_statuses == (StopReason.INTERRUPTED, StopReason.INTERRUPTED)
    assert solution.status is StopReason.INTERRUPTED
    assert solution.loss == solution.start_losses.min()
    assert solution.trace.n_sweeps <= N_SCREEN


def test_interrupt_gives_no_warning_of_too_few_sweeps():
    tensors = [np.random.default_rng(seed).random((5, 5, 5)) for seed in range(4)]
    solved(tensors, 2, modes=MODES, n_init=N_INIT, n_screen=5, callback=interrupting_after(9), random_state=0)


def test_interrupt_after_the_screening_keeps_the_best():
    calls_of_screening = N_INIT * (N_SCREEN + 1)
    solution = solve(callback=interrupting_after(calls_of_screening + 4))
    # Of those that go on, one was interrupted and the others had not begun.
    assert solution.start_statuses.count(StopReason.INTERRUPTED) == N_KEPT
    assert solution.start_statuses.count(StopReason.SCREENED) == N_INIT - N_KEPT
    assert solution.loss == solution.start_losses.min()
    assert solution.trace.n_sweeps == N_SCREEN + 3


def test_interrupt_before_anything_goes_on_keeps_the_screening(monkeypatch):
    original, calls = KLLoss.weight_block, []

    def interrupted(self, factors):
        calls.append(1)
        if len(calls) > n_blocks:
            raise KeyboardInterrupt
        return original(self, factors)

    monkeypatch.setattr(KLLoss, "weight_block", interrupted)
    n_blocks = 10**9
    at_screening = solve(n_screen=None, n_iter_max=N_SCREEN)
    n_blocks, calls[:] = len(calls), []
    solution = solve()
    assert solution.status is StopReason.INTERRUPTED
    assert (solution.start_losses == at_screening.start_losses).all()


@pytest.mark.parametrize("n_calls", [8, N_INIT * (N_SCREEN + 1) + 6])
@pytest.mark.parametrize("in_main_thread", [False, True])
def test_interrupt_in_threads(n_calls, in_main_thread):
    threads, calls, lock = threading.active_count(), [], threading.Lock()

    def callback(cp_tensor, loss):
        with lock:
            calls.append(loss)
            last, late = len(calls) == n_calls, len(calls) > n_calls
        if late:
            time.sleep(0.01)  # on a busy machine the starts could end before the main thread hears of the signal
        if last and in_main_thread:
            os.kill(os.getpid(), signal.SIGINT)  # Python delivers it to the main thread, which waits or hands over
        elif last:
            raise KeyboardInterrupt

    solution = solve(n_jobs=2, tol=0.0, n_iter_max=10**6, n_screen=N_SCREEN, callback=callback)
    assert solution.status is StopReason.INTERRUPTED
    assert solution.loss == solution.start_losses.min()
    # A thread that was just being started is not waited for, but ends by itself.
    deadline = time.monotonic() + 10
    while threading.active_count() > threads and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= threads


def test_callback_is_called_for_every_entry_and_where_a_start_goes_on():
    losses = []
    solution = solve(callback=lambda cp_tensor, loss: losses.append(loss))
    assert losses[: N_SCREEN + 1] == sorted(losses[: N_SCREEN + 1], reverse=True)
    screening = losses[: N_INIT * (N_SCREEN + 1)]
    rest = losses[len(screening) :]
    ends = screening[N_SCREEN :: N_SCREEN + 1]
    assert rest[0] in ends
    assert rest[0] == min(ends)
    assert set(solution.trace.loss) <= set(losses)


def test_callback_that_stops_after_the_screening():
    calls = []

    def callback(cp_tensor, loss):
        calls.append(loss)
        return len(calls) > N_INIT * (N_SCREEN + 1) + 3

    solution = solve(callback=callback)
    assert solution.status is StopReason.CALLBACK
    assert solution.start_statuses.count(StopReason.CALLBACK) == N_KEPT
    assert solution.start_statuses.count(StopReason.SCREENED) == N_INIT - N_KEPT


# --- from algebra to the end


@pytest.mark.parametrize("loss", ["kl", "frobenius"])
@pytest.mark.parametrize("n_init", [1, N_INIT])
def test_algebraic_start_of_exact_histograms_is_the_truth(loss, n_init):
    rng = np.random.default_rng(0)
    truth = MixtureFactors(rng.dirichlet(np.full(3, 10.0)), [rng.dirichlet(np.ones(4), 3).T for _ in range(4)])
    solution = coupled_simplex_parafac(truth.to_marginals(), 3, loss=loss, n_init=n_init, random_state=0)
    assert solution.status is StopReason.EXACT
    assert factor_error(solution.factors, truth) < 1e-10
