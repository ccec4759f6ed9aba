"""The coupled solver: descent, record, endings, starts, symmetries, recovery, screening, and hostile input.

What is about numbers runs on every backend, with even shapes, which JAX compiles once.
"""

import inspect
import itertools
import os
import signal
import threading
import time
import warnings
from unittest import mock

import numpy as np
import pytest
import tensorly as tl
from backend_problems import MODES as EVEN_MODES
from backend_problems import N_BINS as EVEN_BINS
from backend_problems import SOLVERS, tensor
from oracles import coupled_loss
from rooms import arrays, assert_same, interrupting_after, random_model, solved
from tensorly.cp_tensor import CPTensor
from tensorly.decomposition import non_negative_parafac
from tensorly.testing import assert_class_wrapper_correctly_passes_arguments

from tensorly_smp._support.checks import to_numpy
from tensorly_smp._support.iteration import StopReason, SweepTrace
from tensorly_smp.codes.encoding import Codes
from tensorly_smp.decomposition.problem import SolverOptions
from tensorly_smp.decomposition.solver import N_KEPT, CoupledSimplexCP, coupled_simplex_parafac
from tensorly_smp.exceptions import ConvergenceWarning, EmptyComponentWarning, InvalidInputError, InvalidTypeError
from tensorly_smp.factors.blocks import KLLoss
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.marginals.histograms import count_marginals
from tensorly_smp.metrics import factor_error

MODES = [(0, 1, 2), (0, 1, 3), (1, 2, 3)]
N_BINS = (3, 4, 2, 5)
EVERY_SOLVER = pytest.mark.parametrize(
    ("loss", "solver"), [(loss, solver) for loss in SOLVERS for solver in SOLVERS[loss]]
)


def make_tensors(seed=0, modes=MODES, n_bins=N_BINS):
    rng = np.random.default_rng(seed)
    return [rng.random([n_bins[n] for n in mode]) for mode in modes]


def make_marginals(seed=0, n_samples=300, missing=0.1, n_bins=N_BINS):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n_samples)
    values = np.column_stack([rng.binomial(size - 1, 0.25 + 0.5 * labels) for size in n_bins])
    values[rng.random(values.shape) < missing] = -1
    return count_marginals(Codes.from_array(values, n_bins=n_bins))


def solve(data=None, rank=2, **options):
    """The solver from a random start on made-up tensors, without a word about how it went."""
    data = make_tensors() if data is None else data
    options = {"init": "random", "random_state": 0, **({} if hasattr(data, "counts") else {"modes": MODES}), **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", EmptyComponentWarning)
        return solved(data, rank, **options)


def even_tensors(dtype):
    """Tensors of the backend, of EVEN_MODES."""
    return [tensor(t, dtype) for t in make_tensors(modes=EVEN_MODES, n_bins=EVEN_BINS)]


def exact_tensors(truth, dtype):
    """Marginals of all triples as tensors of the backend, and their modes."""
    marginals = truth.to_marginals()
    return [tensor(count, dtype) for count in marginals.counts], marginals.triples


# --- descent and record


@EVERY_SOLVER
@pytest.mark.parametrize(("source", "extrapolate"), [("tensors", False), ("marginals", True)])
def test_loss_never_rises_and_every_sweep_is_recorded(loss, solver, source, extrapolate):
    data = make_tensors() if source == "tensors" else make_marginals()
    solution = solve(data, 3, loss=loss, solver=solver, extrapolate=extrapolate, n_iter_max=25, tol=0.0)
    trace = solution.trace
    assert (np.diff(trace.loss) <= 1e-14 * np.abs(trace.loss[0])).all()
    assert trace.loss[-1] < trace.loss[0]
    assert trace.n_sweeps == 25
    assert trace.loss.shape == trace.change.shape == trace.seconds.shape == (26,)
    assert np.isnan(trace.change[0])
    assert (trace.change[1:] >= 0).all()
    assert (np.diff(trace.seconds) >= 0).all()
    assert solution.loss_name == loss
    assert solution.factors.binning is getattr(data, "binning", None)
    for a in arrays(solution):
        assert (a >= 0).all()
        np.testing.assert_allclose(a.sum(axis=0), 1.0, rtol=1e-12)


@EVERY_SOLVER
def test_sweeps_are_those_of_numpy_and_their_loss_that_of_the_loops(backend, dtype, loss, solver):
    modes, n_bins = (EVEN_MODES, EVEN_BINS) if backend == "jax" else (MODES, N_BINS)
    tensors, weights = make_tensors(modes=modes, n_bins=n_bins), {"float32": "uniform", "float64": "count"}[dtype]
    # Without extrapolation, which enlarges rounding.
    options = {"modes": modes, "loss": loss, "solver": solver, "weights": weights, "extrapolate": False}
    solution = solve([tensor(t, dtype) for t in tensors], 3, n_iter_max=4, **options)
    with tl.backend_context("numpy"):
        plain = solve(tensors, 3, n_iter_max=4, **options)
    # Where a line search may accept another step because of rounding, nearly the same.
    eps = 1e-4 if solver == "mirror" and dtype == "float32" else np.finfo(dtype).eps
    np.testing.assert_allclose(solution.trace.loss, plain.trace.loss, rtol=1e3 * eps, atol=100 * eps)
    assert solution.trace.loss.dtype == np.float64
    for a in (solution.factors.weights, *solution.factors.factors):
        assert tl.is_tensor(a)
        assert a.dtype == getattr(tl.backend, dtype)
        np.testing.assert_allclose(to_numpy(tl.sum(a, axis=0)), 1.0, rtol=20 * np.finfo(dtype).eps)
    assert_same(solution, plain, atol=100 * eps)
    totals = np.array([t.sum() for t in tensors])
    omega = totals / totals.mean() if weights == "count" else np.ones(len(modes))
    w, *factors = arrays(solution)
    expected = coupled_loss([t / t.sum() for t in tensors], modes, omega, w, factors, loss)
    # The KL loss is a difference of terms of size ten.
    np.testing.assert_allclose(solution.loss, expected, rtol=1e-10, atol=200 * np.finfo(dtype).eps)
    assert solution.start_losses[solution.best_start] == solution.loss


@pytest.mark.parametrize(("loss", "default"), [("kl", "multiplicative"), ("frobenius", "projected-gradient")])
def test_solvers_of_a_loss_end_at_the_same_value(loss, default):
    assert next(iter(SOLVERS[loss])) == default
    # From the same neighborhood of an optimum: of several optima each may find its own.
    near = solve(loss=loss, tol=1e-4).factors.smooth()
    found = [solve(loss=loss, solver=solver, init=near, tol=1e-6, n_iter_max=300).loss for solver in SOLVERS[loss]]
    np.testing.assert_allclose(found, found[0], rtol=2e-3)


# --- recovery


@pytest.mark.parametrize(
    ("loss", "solver", "n_bins", "rank", "seed"),
    [
        ("kl", "multiplicative", (5,) * 3, 3, 1),
        ("frobenius", "projected-gradient", (4,) * 5, 3, 3),
        ("kl", "mirror", (4,) * 4, 2, 3),
        ("frobenius", "mirror", (4,) * 4, 2, 2),
    ],
)
def test_exact_marginals_give_the_truth_back(loss, solver, n_bins, rank, seed):
    # More sizes, and every start: benchmarks/starts.py recovery.
    truth = random_model(n_bins, rank, seed)
    options = {"loss": loss, "solver": solver, "tol": 1e-7}
    starts = solve(truth.to_marginals(), rank, n_init=4, n_iter_max=30, **options)
    solution = solve(truth.to_marginals(), rank, init=starts.factors, n_iter_max=2000, **options)
    assert factor_error(solution.factors, truth) < (1e-3 if solver == "mirror" else 1e-4)


@pytest.mark.parametrize("loss", SOLVERS)
def test_started_at_the_truth_it_stays(backend, dtype, loss):
    truth = random_model(EVEN_BINS, 3)
    tensors, modes = exact_tensors(truth, dtype)
    solution = solve(tensors, 3, modes=modes, loss=loss, init=truth)
    assert (solution.status, solution.trace.n_sweeps) == (StopReason.EXACT, 0)
    assert_same(solution, truth, rtol=1e-12 if dtype == "float64" else 1e-6)
    # Sums of the start that are one to rounding only do not count as descent.
    rounded = MixtureFactors(truth.weights * (1 + 5e-5), [a * (1 + 5e-5) for a in truth.factors])
    found = solve(truth.to_marginals(), 3, loss=loss, init=rounded).trace.loss
    assert found[0] > -1e-12
    assert (np.diff(found) <= 1e-14).all()


def test_rank_one_is_the_product_of_the_marginals(backend, dtype):
    marginals = make_marginals(missing=0.0, n_bins=EVEN_BINS)
    solution = solve(marginals, 1, dtype=dtype)
    for n, a in enumerate(arrays(solution)[1:]):
        t, axis = next((t, triple.tolist().index(n)) for t, triple in enumerate(marginals.triples) if n in triple)
        histogram = marginals.histogram(t).sum(axis=tuple({0, 1, 2} - {axis}))
        np.testing.assert_allclose(a[:, 0], histogram, rtol=1e-9 if dtype == "float64" else 1e-4)


# --- endings


@pytest.mark.parametrize("n_iter_max", [0, 7])
def test_too_few_sweeps_warn_and_still_give_the_result(n_iter_max):
    options = {"modes": MODES, "init": "random", "random_state": 0}
    assert coupled_simplex_parafac(make_tensors(), 2, **options).status is StopReason.CONVERGED  # without a warning
    with pytest.warns(ConvergenceWarning, match=f"after {n_iter_max} sweeps.*raise n_iter_max") as record:
        solution = coupled_simplex_parafac(make_tensors(), 2, n_iter_max=n_iter_max, **options)
    assert record[0].filename == __file__
    assert solution.status is StopReason.MAX_SWEEPS
    assert solution.trace.n_sweeps == n_iter_max
    assert solution.factors.rank == 2


@pytest.mark.parametrize("answer", [True, np.True_, 1])
def test_callback_sees_every_sweep_and_may_stop(answer):
    seen = []

    def callback(cp_tensor, loss):
        assert isinstance(cp_tensor, CPTensor)
        assert isinstance(loss, float)
        seen.append((cp_tensor, loss))
        return answer if len(seen) == 4 else None

    solution = solve(callback=callback)
    assert (solution.status, solution.trace.n_sweeps) == (StopReason.CALLBACK, 3)
    assert [loss for _, loss in seen] == solution.trace.loss.tolist()
    assert (seen[-1][0].weights == solution.factors.weights).all()
    for n_jobs in (1, 2):  # errors of its own are passed on
        with pytest.raises(ZeroDivisionError):
            solve(n_init=2, n_jobs=n_jobs, callback=lambda cp_tensor, loss: 1 / 0)


def test_interrupt_returns_the_state_so_far_and_ends_the_later_starts_too():
    first = solve()
    solution = solve(callback=interrupting_after(5))
    assert solution.status is StopReason.INTERRUPTED
    assert solution.trace.n_sweeps == 4
    assert (solution.trace.loss == first.trace.loss[:5]).all()
    assert_same(solution, solve(callback=lambda cp, loss: loss == solution.loss))
    solution = solve(n_init=4, callback=interrupting_after(len(first.trace.loss) + 3))
    assert solution.start_statuses == (first.status, StopReason.INTERRUPTED)
    assert solution.start_losses[0] == first.loss


def test_interrupt_inside_a_sweep(monkeypatch):
    expected = solve().trace.loss
    original, calls = SOLVERS["kl"]["multiplicative"].__call__, []

    def interrupted(self, block, x, key):
        calls.append(key)
        if len(calls) == 23:
            raise KeyboardInterrupt
        return original(self, block, x, key)

    monkeypatch.setattr(SOLVERS["kl"]["multiplicative"], "__call__", interrupted)
    solution = solve()
    assert solution.status is StopReason.INTERRUPTED
    assert 0 < solution.trace.n_sweeps < 23
    assert (solution.trace.loss == expected[: len(solution.trace.loss)]).all()
    totals = np.array([t.sum() for t in make_tensors()])
    shares = [t / t.sum() for t in make_tensors()]
    loss = coupled_loss(shares, MODES, totals / totals.mean(), solution.factors.weights, solution.factors.factors, "kl")
    np.testing.assert_allclose(loss, solution.loss, rtol=1e-10)
    # Before anything is known, there is nothing to return.
    monkeypatch.setattr("tensorly_smp.factors.blocks.KLLoss.weight_block", mock.Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        solve()


@pytest.mark.parametrize("loss", SOLVERS)
def test_a_loss_that_is_no_number_ends_with_the_last_one_that_was(monkeypatch, loss):
    solver = next(iter(SOLVERS[loss].values()))
    original, calls = solver.__call__, []

    def breaking(self, block, x, memory=None):
        calls.append(x)
        moved, memory = original(self, block, x, memory)
        return (np.nan * moved if len(calls) == 23 else moved), memory

    monkeypatch.setattr(solver, "__call__", breaking)
    with pytest.warns(ConvergenceWarning, match="was not a finite number any more"):
        solution = coupled_simplex_parafac(
            make_tensors(), 2, modes=MODES, loss=loss, init="random", random_state=0, tol=0.0,
            options=SolverOptions(extrapolate=False),
        )  # fmt: skip
    assert solution.status is StopReason.NONFINITE
    assert not solution.status.is_converged
    assert solution.trace.n_sweeps == 4
    assert np.isfinite(solution.trace.loss).all()
    assert all(np.isfinite(a).all() for a in arrays(solution))


# --- starts


def test_starts_are_the_same_however_many_run_and_in_however_many_threads():
    few, many, parallel = (solve(n_init=n, n_jobs=jobs) for n, jobs in ((2, 1), (5, 1), (5, 2)))
    assert many.start_losses.shape == (5,)
    assert (many.start_losses[:2] == few.start_losses).all()
    assert (many.start_losses == parallel.start_losses).all()
    assert many.start_statuses == parallel.start_statuses
    assert many.best_start == parallel.best_start == np.argmin(many.start_losses)
    assert many.loss == many.start_losses.min()
    assert_same(many, parallel)
    assert len(set(many.start_losses)) > 1


@pytest.mark.parametrize("loss", SOLVERS)
def test_same_seed_same_bits(backend, dtype, loss):
    options = {"modes": EVEN_MODES, "loss": loss, "n_iter_max": 20}
    first, second, other = (solve(even_tensors(dtype), 3, random_state=seed, **options) for seed in (3, 3, 4))
    assert (first.trace.loss == second.trace.loss).all()
    assert_same(first, second)
    assert first.trace.loss[0] != other.trace.loss[0]


def test_given_factors_are_the_first_start():
    init = random_model((3,) * 4, 2, seed=5)
    tensors, before = make_tensors(n_bins=(3, 3, 3, 3)), [a.copy() for a in arrays(init)]
    given = solve(tensors, init=init, n_init=3)
    assert (given.start_losses[1:] == solve(tensors, n_init=3).start_losses[1:]).all()
    assert solve(tensors, init=init).loss == given.start_losses[0]
    scaled = CPTensor((3.0 * init.weights, [2.0 * a for a in init.factors]))
    for other in (init.to_cp_tensor(), scaled, (init.weights, list(init.factors))):
        np.testing.assert_allclose(solve(tensors, init=other).loss, given.start_losses[0], rtol=1e-6)
    assert all((a == b).all() for a, b in zip(arrays(init), before, strict=True))
    assert (scaled.factors[0] == 2.0 * init.factors[0]).all()


@EVERY_SOLVER
def test_init_with_zeros_where_the_samples_are(backend, dtype, loss, solver):
    # No column has mass where a sample fell; a multiplicative step would leave nothing of it.
    tensors = [np.zeros((3, 3, 3)) for _ in MODES]
    for array in tensors:
        array[:2, :2, :2] = 1.0
    init = MixtureFactors([0.5, 0.5], [np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]])] * 4)
    if backend == "jax":
        pytest.skip("the shapes are those of this test alone")
    solution = solve([tensor(t, dtype) for t in tensors], init=init, loss=loss, solver=solver, n_iter_max=20)
    assert all(np.isfinite(a).all() for a in arrays(solution))
    assert np.isfinite(solution.trace.loss).all()


@pytest.mark.parametrize(
    ("init", "error", "message"),
    [
        ("svd", InvalidInputError, "init is 'svd'"),
        (random_model((3,) * 4, 3), InvalidInputError, "3 components and .* expected 2 components"),
        (random_model((3,) * 3, 2), InvalidInputError, r"expected 2 components and \(3, 4, 2, 5\) bins"),
        ((None, [np.ones((n, 2)) for n in (3, 4, 2)]), InvalidInputError, "expected 2 components"),
        (None, InvalidTypeError, "not a CP tensor"),
    ],
)
def test_bad_init(init, error, message):
    with pytest.raises(error, match=message):
        solve(init=init)


def test_empty_component_is_announced():
    init = MixtureFactors([1.0 - 1e-9, 1e-9], [np.full((size, 2), 1.0 / size) for size in N_BINS])
    with (
        pytest.warns(EmptyComponentWarning, match="1 of 2 components is empty") as record,
        pytest.warns(ConvergenceWarning),
    ):
        coupled_simplex_parafac(make_tensors(), 2, modes=MODES, init=init, n_iter_max=1, tol=0.9)
    assert record[0].filename == __file__


# --- symmetries


@EVERY_SOLVER
def test_order_of_components_modes_and_tensors_does_not_matter(backend, dtype, loss, solver):
    init, order = random_model(EVEN_BINS, 3, seed=1), [2, 0, 1]
    options = {"loss": loss, "solver": solver, "n_iter_max": 2, "extrapolate": False}
    tensors = even_tensors(dtype)
    plain, permuted = (
        solve(tensors, 3, modes=EVEN_MODES, init=start, **options) for start in (init, init.permute(order))
    )
    turned = [tensor(to_numpy(t).transpose(1, 2, 0), dtype) for t in tensors[::-1]]
    other = solve(turned, 3, modes=[(b, c, a) for a, b, c in EVEN_MODES[::-1]], init=init, **options)
    tolerance = {"atol": 1e-10 if dtype == "float64" else 1e-4}
    assert_same(permuted, plain.factors.permute(order), **tolerance)
    assert_same(other, plain, **tolerance)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_common_scale_of_the_tensors_does_not_matter(scale):
    tensors = make_tensors()
    expected = solve(tensors)
    np.testing.assert_allclose(solve([scale * t for t in tensors]).loss, expected.loss, rtol=1e-6)
    scales = (1.0, scale, 3.0)
    uniform = solve([s * t for s, t in zip(scales, tensors, strict=True)], weights="uniform")
    np.testing.assert_allclose(uniform.loss, solve(tensors, weights="uniform").loss, rtol=1e-6)


# --- hostile input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "rank is 0"),
        ({"data": np.zeros((3, 3, 3))}, "modes has 3 rows; expected one for each tensor: 1"),
        ({"data": []}, "modes has 3 rows; .*: 0"),
        ({"data": make_tensors()[:2] + make_tensors(n_bins=(3, 5, 2, 5))[2:]}, "5"),
        ({"solver": "projected-gradient"}, 'solver for loss="kl"'),
        ({"solver": "multiplicative", "loss": "frobenius"}, 'solver for loss="frobenius"'),
        ({"data": make_marginals(n_samples=20), "modes": MODES}, "data is Marginals, which has its variables"),
        ({"data": make_marginals(n_samples=20), "rank": 21}, r"21 components with \d+ samples"),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(InvalidInputError, match=message):
        solve(**options)


# --- screening


FOUR_MODES = [(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)]
N_INIT, N_SCREEN = N_KEPT + 4, 5


def solve_many(n_init=N_INIT, **options):
    """Many starts on tensors without structure, so that they end in different places."""
    rng = np.random.default_rng(0)
    tensors = [rng.random((4, 4, 4)) for _ in FOUR_MODES]
    options = {"init": "gevd", "random_state": 0, "tol": 1e-5, "n_screen": N_SCREEN, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return solved(tensors, 2, modes=FOUR_MODES, n_init=n_init, **options)


def test_only_the_lowest_go_on_and_their_record_goes_through_the_screening():
    solution = solve_many()
    everything = solve_many(n_screen=None)
    at_screening = solve_many(n_screen=None, n_iter_max=N_SCREEN).start_losses
    screened = np.array([status is StopReason.SCREENED for status in solution.start_statuses])
    assert screened.sum() == N_INIT - N_KEPT
    assert (solution.start_losses[screened] == at_screening[screened]).all()
    assert at_screening[~screened].max() <= at_screening[screened].min()
    assert (solution.start_losses[~screened] < at_screening[~screened]).all()
    assert solution.status is solution.start_statuses[solution.best_start] is StopReason.CONVERGED
    assert solution.loss == solution.start_losses.min()
    assert everything.loss <= solution.loss * (1 + 1e-6)
    assert StopReason.SCREENED not in everything.start_statuses
    trace = solution.trace
    assert trace.n_sweeps > N_SCREEN
    assert trace.loss.shape == trace.change.shape == trace.seconds.shape == (trace.n_sweeps + 1,)
    assert (np.diff(trace.loss) <= 1e-14).all()
    assert (np.diff(trace.seconds) >= 0).all()
    assert np.isnan(trace.change).tolist() == [True] + [False] * trace.n_sweeps
    dataset = solution.to_dataset()
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


@pytest.mark.parametrize(
    ("n_init", "options"),
    [(N_INIT, {"n_iter_max": N_SCREEN}), (N_KEPT, {})],
    ids=["as long as the fit", "no more starts than go on"],
)
def test_nothing_to_screen(n_init, options):
    with_screening, without = solve_many(n_init, **options), solve_many(n_init, **{**options, "n_screen": None})
    assert with_screening.start_statuses == without.start_statuses
    assert (with_screening.start_losses == without.start_losses).all()
    if n_init == N_INIT:  # nor starts that are given or random, and those that end in the screening
        for init in ("random", without.factors.smooth()):
            assert StopReason.SCREENED not in solve_many(init=init).start_statuses
        assert set(solve_many(tol=0.3).start_statuses) == {StopReason.CONVERGED}
        solution = solve_many(n_iter_max=N_SCREEN + 3, tol=0.0)  # sweeps count over both parts
        assert (solution.trace.n_sweeps, solution.status) == (N_SCREEN + 3, StopReason.MAX_SWEEPS)


# --- interrupts and callbacks


def test_interrupt_during_and_after_the_screening_keeps_the_best():
    during = solve_many(callback=interrupting_after(N_SCREEN + 4))
    assert during.start_statuses == (StopReason.INTERRUPTED, StopReason.INTERRUPTED)
    assert during.trace.n_sweeps <= N_SCREEN
    after = solve_many(callback=interrupting_after(N_INIT * (N_SCREEN + 1) + 4))
    # Of those that go on, one was interrupted and the others had not begun.
    assert after.start_statuses.count(StopReason.INTERRUPTED) == N_KEPT
    assert after.start_statuses.count(StopReason.SCREENED) == N_INIT - N_KEPT
    assert after.trace.n_sweeps == N_SCREEN + 3
    for solution in (during, after):
        assert (solution.status, solution.loss) == (StopReason.INTERRUPTED, solution.start_losses.min())
    # And without a warning of too few sweeps.
    tensors = [np.random.default_rng(seed).random((5, 5, 5)) for seed in range(4)]
    solved(tensors, 2, modes=FOUR_MODES, n_init=N_INIT, n_screen=5, callback=interrupting_after(9), random_state=0)


def test_interrupt_before_anything_goes_on_keeps_the_screening(monkeypatch):
    original, calls = KLLoss.weight_block, []

    def interrupted(self, factors):
        calls.append(1)
        if len(calls) > n_blocks:
            raise KeyboardInterrupt
        return original(self, factors)

    monkeypatch.setattr(KLLoss, "weight_block", interrupted)
    n_blocks = 10**9
    at_screening = solve_many(n_screen=None, n_iter_max=N_SCREEN)
    n_blocks, calls[:] = len(calls), []
    solution = solve_many()
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

    solution = solve_many(n_jobs=2, tol=0.0, n_iter_max=10**6, n_screen=N_SCREEN, callback=callback)
    assert solution.status is StopReason.INTERRUPTED
    assert solution.loss == solution.start_losses.min()
    # A thread that was just being started is not waited for, but ends by itself.
    deadline = time.monotonic() + 10
    while threading.active_count() > threads and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= threads


def test_callback_is_called_for_every_entry_and_where_a_start_goes_on():
    losses = []
    solution = solve_many(callback=lambda cp_tensor, loss: losses.append(loss))
    assert losses[: N_SCREEN + 1] == sorted(losses[: N_SCREEN + 1], reverse=True)
    n_calls = N_INIT * (N_SCREEN + 1)
    # The lowest of those that were screened goes on first.
    assert losses[n_calls] == min(losses[N_SCREEN : n_calls : N_SCREEN + 1])
    assert set(solution.trace.loss) <= set(losses)
    calls = itertools.count(1)
    solution = solve_many(callback=lambda cp_tensor, loss: next(calls) > n_calls + 3)
    assert solution.status is StopReason.CALLBACK
    assert solution.start_statuses.count(StopReason.CALLBACK) == N_KEPT
    assert solution.start_statuses.count(StopReason.SCREENED) == N_INIT - N_KEPT


# --- the class in TensorLy's manner


def test_parameters_and_defaults_are_those_of_the_function(monkeypatch):
    function = dict(inspect.signature(coupled_simplex_parafac).parameters)
    function.pop("data")
    assert inspect.signature(CoupledSimplexCP).parameters == function
    assert_class_wrapper_correctly_passes_arguments(monkeypatch, coupled_simplex_parafac, CoupledSimplexCP, rank=3)


def test_cp_tensor_in_cp_tensor_out_and_anew_for_every_fit():
    tensor = np.random.default_rng(0).random((4, 5, 6))
    start = non_negative_parafac(tensor, 2, random_state=0)
    before = [a.copy() for a in start.factors]
    decomposition = CoupledSimplexCP(2, modes=[(0, 1, 2)], loss="frobenius", init=start, n_iter_max=500)
    with pytest.raises(AttributeError, match="solution_"):
        decomposition.decomposition_  # noqa: B018
    found = decomposition.fit_transform([tensor])
    assert isinstance(found, CPTensor)
    for a, b in zip(start.factors, before, strict=True):
        np.testing.assert_array_equal(a, b)
    # The end of one is the start of another, which has nothing left to do.
    again = CoupledSimplexCP(2, modes=[(0, 1, 2)], loss="frobenius", init=found).fit([tensor])
    assert again.solution_.trace.n_sweeps <= 3
    np.testing.assert_allclose(again.solution_.loss, decomposition.solution_.loss, rtol=1e-4)
    other = decomposition.fit_transform([2 - tensor])
    assert other is decomposition.decomposition_
    assert not np.allclose(other.weights, found.weights)
