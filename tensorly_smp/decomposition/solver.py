"""Coupled, non-negative, simplex-constrained CPD of tensors that share factors and weights."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
import tensorly as tl
from tensorly.cp_tensor import CPTensor
from tensorly.decomposition._base_decomposition import DecompositionMixin

from tensorly_smp._support.checks import (
    RandomState,
    checked_callback,
    checked_choice,
    checked_integer,
    checked_real,
    to_numpy,
    warn,
)
from tensorly_smp._support.iteration import Bar, StopReason, SweepTrace, checked_verbose, logger, progress_bar
from tensorly_smp._support.parallel import allowed_threads, one_blas_thread, run_each
from tensorly_smp.codes.encoding import Codes
from tensorly_smp.decomposition.problem import Problem, SolverOptions, as_problem, make_starts
from tensorly_smp.decomposition.solution import CoupledSolution
from tensorly_smp.exceptions import ConvergenceWarning, InvalidTypeError
from tensorly_smp.factors.blocks import LOSSES, BlockSolver, ExplicitLoss
from tensorly_smp.factors.coupled import CoupledTensors
from tensorly_smp.factors.implicit import CoupledCodes, ImplicitLoss
from tensorly_smp.factors.mixture_factors import MixtureFactors, empty_component_warning
from tensorly_smp.factors.sweeps import Callback, State, Steps, coordinates_of, run_sweeps
from tensorly_smp.marginals.histograms import Marginals

#: Starts that go on after the screening.
N_KEPT = 2

Result: TypeAlias = tuple[State, SweepTrace, StopReason]


def coupled_simplex_parafac(
    data: Marginals | Codes | Any,
    rank: int,
    *,
    modes: Sequence[Sequence[int]] | None = None,
    variables: Sequence[Hashable] | None = None,
    loss: str = "kl",
    init: str | MixtureFactors | CPTensor = "gevd",
    n_init: int = 1,
    n_iter_max: int = 1000,
    tol: float | None = 1e-6,
    weights: str = "count",
    sample_weight: Any = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
    verbose: int = 0,
    options: SolverOptions | None = None,
) -> CoupledSolution:
    """Factorize third-order tensors jointly: one set of weights and factors, all on the probability simplex.

    Minimizes sum_jkl omega_jkl D(X_jkl, [[w; A_j, A_k, A_l]]) over w and A_1..A_N, every column and w summing to one
    (Kargas & Sidiropoulos, AISTATS 2019, eq. 9), by alternating over w and the factors. The problem is not convex:
    use several starts (``n_init``).

    Parameters
    ----------
    data : Marginals, Codes, tensor or sequence of tensor
        From :func:`count_marginals`; or from :func:`encode_samples`, for all triples of however many variables (see
        Notes); or a third-order tensor of the active TensorLy backend (NumPy, PyTorch, JAX; float32 or float64), of
        counts or probabilities, a DataArray, or a list of these with ``modes``. No entry may be NaN. Each is divided by
        its sum.
    rank : int
        Number of components.
    modes : sequence of (j, k, l), optional
        For a list of tensors: the variables along the three modes of each, numbered from 0 or by name. Dimensions of
        DataArrays are names.
    variables : sequence of hashable, optional
        For tensors: names of the variables, in their order, for the labels of the solution.
    loss : {"kl", "frobenius"}
        "kl" with weights "count" is the composite likelihood of all triples, statistically better; "frobenius" is
        faster per sweep.
    init : {"gevd", "random"}, MixtureFactors or CPTensor
        "gevd" starts from algebra (:func:`gevd_start`), every start with another partition and every fourth at random;
        where the algebra fails a random start takes its place, with a warning that says why. With given factors the
        first start is from them (never modified; columns may have either sign) and the others are random. The
        multiplicative and mirror solvers
        cannot leave exact zeros: see ``MixtureFactors.smooth``.
    n_init : int, default 1
        Starts; the one that ends lowest is returned, and all final losses are kept.
    n_iter_max : int, default 1000
        Sweeps over all blocks.
    tol : float or None, default 1e-6
        Stop when the relative decrease of the loss per sweep, over two sweeps, is below this. None makes all
        ``n_iter_max`` sweeps, without a warning.
    weights : {"count", "uniform"}
        omega: proportional to the number of samples of the triple (one on average), or all one.
    sample_weight : array_like (n_samples,), optional
        For codes: non-negative, a sample of weight 2 counts twice (``count_marginals`` has its own).
    random_state : None, int, Generator or RandomState
        Every start has its own stream, so the first starts are the same whatever ``n_init``.
    callback : callable, optional
        ``callback(cp_tensor, loss)`` before every sweep and at the end; returning True stops.
    verbose : int, default 0
        1 shows a bar (extra ``progress``) of the starts, of which those that go on after the screening count again; 2
        also one of the sweeps of all of them. What was chosen, and seconds, go to the logger "tensorly_smp", level
        INFO, in any case.
    options : SolverOptions, optional
        Block solver and its steps, extrapolation, screening, number of jobs, dtype and device.

    Returns
    -------
    CoupledSolution
        Factors in the arrays of the active backend, the record of every sweep, and why it stopped.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        Input that cannot be used; the message says what was expected.
    MissingDependencyError
        Bars are asked for, and tqdm is not installed.

    Warns
    -----
    ConvergenceWarning
        The best start did not converge.
    EmptyComponentWarning
        A component has next to no weight.
    AlgebraicStartWarning
        Why a start is random instead of algebraic.

    Notes
    -----
    Codes are counted first, or, for the Frobenius loss on NumPy, left as they are: the same sweeps to rounding, as sums
    over samples, in a time that grows with samples x variables x rank and not with the number of triples. That is done
    where it is faster, or where the histograms would take more than 1 GB; ``solution.start_info["histograms"]`` says
    which. With the KL loss the histograms have to be counted: where they are too large, take ``loss="frobenius"``, or
    some triples, ``count_marginals(codes, triples=1000)``, which use all variables evenly.

    Without histograms the sum over triples of omega ||X||^2, which no factor changes, serves one purpose: the offset
    of the reported loss. Up to 5000 triples it is exact. Beyond, it is estimated without bias from 2000 of them (fewer
    beyond 100 000 samples; a fixed seed), by their distance from the factors found, which leaves the reported losses
    off by one and the same amount, a few tenths of a percent of the lowest. Sweeps, and differences of losses, are
    exact; the tolerance is relative to the loss, so that a run may end a sweep earlier or later. A callback sees the
    offset as estimated at the first start.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> rng = np.random.default_rng(0)
    >>> truth = smp.MixtureFactors(
    ...     [0.3, 0.7], [rng.dirichlet(np.ones(4), 2).T for _ in range(4)]
    ... )
    >>> solution = smp.coupled_simplex_parafac(
    ...     truth.to_marginals(), rank=2, tol=1e-9, n_init=3, random_state=0
    ... )
    >>> bool(smp.metrics.factor_error(solution.factors, truth) < 1e-3)
    True

    All 19 600 triples of fifty variables, from the samples:

    >>> data = smp.datasets.make_smooth_mixture(
    ...     "gaussian", 2000, n_variables=50, n_components=3, random_state=0
    ... )
    >>> codes = smp.encode_samples(data.X, smp.choose_binning(data.X, n_bins=8))
    >>> solution = smp.coupled_simplex_parafac(
    ...     codes, rank=3, loss="frobenius", random_state=0
    ... )
    >>> solution.start_info["histograms"]
    'implicit'
    >>> labels = solution.factors.posterior(codes).argmax(axis=1)
    >>> bool(smp.metrics.clustering_accuracy(data.labels, labels) > 0.95)
    True

    A TensorLy user's own tensors; a solution is unpacked as a CPTensor is:

    >>> tensors = [rng.random((3, 3, 3)), rng.random((3, 3, 2))]
    >>> weights, factors = smp.coupled_simplex_parafac(
    ...     tensors, 2, modes=[(0, 1, 2), (0, 1, 3)], random_state=0
    ... )
    >>> [factor.shape for factor in factors]
    [(3, 2), (3, 2), (3, 2), (2, 2)]
    """
    if options is None:
        options = SolverOptions()
    elif not isinstance(options, SolverOptions):
        raise InvalidTypeError(f"options is {type(options).__name__}; expected SolverOptions, or None.")
    read = (data, rank, loss, weights, modes, variables, sample_weight)
    problem: Problem = data if isinstance(data, Problem) else as_problem(*read, options=options)
    tol = None if tol is None else checked_real(tol, "tol", 0.0, 1.0)
    n_iter_max = checked_integer(n_iter_max, "n_iter_max", 0)
    checked_callback(callback, "a CPTensor and a loss")
    verbose = checked_verbose(verbose)
    starts = make_starts(problem, init, n_init, random_state)
    began = time.perf_counter()
    solver = _block_solver(LOSSES[problem.loss], options)
    is_screened = isinstance(init, str) and init == "gevd" and len(starts) > N_KEPT and options.n_screen is not None
    with (
        progress_bar(verbose, "coupled CPD", len(starts), unit="start") as bar,
        progress_bar(verbose, "sweeps", unit="sweep", level=2) as sweeps,
        # One BLAS thread per start: the matrices are small, threads would only wait for each other, and the rounding
        # stays the same for any number of jobs.
        one_blas_thread(),
    ):
        n_screen = min(options.n_screen or n_iter_max, n_iter_max) if is_screened else n_iter_max
        results = _results(problem, starts, solver, options, tol, n_screen, n_iter_max, sweeps.counting(callback), bar)
    solution = _solution(results, starts, problem, options.warn, tol is not None)
    logger.info(
        "Coupled CPD: %d components, %d variables; %s loss, %s steps; %d starts, number %d lowest: loss %.6g after %d "
        "sweeps, %s; %.2f s",
        *(problem.rank, solution.factors.n_variables, problem.loss, solver.name),
        *(len(results), solution.best_start, solution.loss, solution.trace.n_sweeps),
        *(solution.status.name.lower(), time.perf_counter() - began),
    )
    return solution


def _block_solver(loss: type[ExplicitLoss], options: SolverOptions) -> BlockSolver:
    """The solver that the options name, or the default one of the loss."""
    solvers = {solver.name: solver for solver in loss.solvers}
    solver = loss.solvers[0]
    if options.solver != "auto":
        solver = solvers[checked_choice(options.solver, f'solver for loss="{loss.name}"', solvers)]
    return solver() if options.n_inner is None else solver(options.n_inner)


def _results(
    problem: Problem,
    starts: list[MixtureFactors],
    solver: BlockSolver,
    options: SolverOptions,
    tol: float | None,
    n_screen: int,
    n_iter_max: int,
    callback: Callback | None,
    bar: Bar,
) -> list[Result]:
    """Results of the starts, in their order; only the ``N_KEPT`` lowest after `n_screen` sweeps go on to their end."""
    backend = tl.get_backend()
    loss = LOSSES[problem.loss]
    coordinates = coordinates_of(loss.in_logarithms) if options.extrapolate and solver.is_extrapolated else None
    n_threads = allowed_threads(options.n_jobs)
    tensors = problem.tensors
    if isinstance(tensors, CoupledCodes):
        tensors = tensors.calibrated(starts[0])

    def run(states: list[State], n_sweeps: int) -> list[Result]:
        """Results of some starts; after an interrupt of those that have begun."""
        in_threads = len(states) > 1 and n_threads > 1

        def one(state: State, check: Callable[[], None]) -> Result:
            def stoppable(cp_tensor: CPTensor, value: float) -> bool | None:
                """The callback, interrupting once another start has been interrupted."""
                check()
                return None if callback is None else callback(cp_tensor, value)

            if in_threads:
                tl.set_backend(backend, local_threadsafe=True)  # of this thread only
            # The loss and the steps are of this start alone: they may remember where it is.
            steps = Steps(ImplicitLoss(tensors) if isinstance(tensors, CoupledCodes) else loss(tensors), solver)
            result = run_sweeps(steps, state, tol, n_sweeps, coordinates, stoppable if in_threads else callback)
            bar.advance(loss=result[1].loss[-1])
            return result

        results, interrupted = run_each(one, states, n_threads, lambda result: result[2] is StopReason.INTERRUPTED)
        return [_renamed(r, StopReason.INTERRUPTED) for r in results] if in_threads and interrupted else results

    results = run([State.of_start(start, tensors.context) for start in starts], n_screen)
    if n_screen < n_iter_max:
        results = _continued(results, run, n_iter_max - n_screen, bar)
    if isinstance(tensors, CoupledCodes) and tensors.squared_norm_error:
        # The offset of the loss is estimated at the lowest of them.
        state, *_ = min(results, key=lambda result: result[1].loss[-1])
        shift = tensors.calibrated(state.mixture()).squared_norm - tensors.squared_norm
        results = [(state, replace(trace, loss=trace.loss + shift), status) for state, trace, status in results]
    return results


def _continued(
    results: list[Result], run: Callable[[list[State], int], list[Result]], n_sweeps: int, bar: Bar
) -> list[Result]:
    """Results of the screening, of which the lowest have been continued to their end."""
    if any(status is StopReason.INTERRUPTED for *_, status in results):
        return [_renamed(result, StopReason.INTERRUPTED) for result in results]
    kept = np.argsort([trace.loss[-1] for _, trace, _ in results], kind="stable")[:N_KEPT].tolist()
    unfinished = [i for i in kept if results[i][2] is StopReason.MAX_SWEEPS]
    bar.extend(len(unfinished))
    continued: list[Result] = []
    with suppress(KeyboardInterrupt):  # before any of them has got on: what the screening found is kept
        continued = run([results[i][0] for i in unfinished], n_sweeps)
    # An interrupt leaves some of the kept ones where the screening ended.
    merged = [
        _renamed(result, StopReason.INTERRUPTED if i in unfinished else StopReason.SCREENED)
        for i, result in enumerate(results)
    ]
    for i, (state, trace, status) in zip(unfinished, continued, strict=False):
        merged[i] = (state, results[i][1].followed_by(trace), status)
    return merged


def _renamed(result: Result, status: StopReason) -> Result:
    """The result with a status that says why its start got no further than the screening."""
    return (*result[:2], status) if result[2] is StopReason.MAX_SWEEPS else result


def _solution(
    results: list[Result], starts: Sequence[MixtureFactors], problem: Problem, warns: bool, warns_of_end: bool
) -> CoupledSolution:
    losses = np.array([trace.loss[-1] for _, trace, _ in results])
    best = int(np.argmin(losses))
    state, trace, status = results[best]
    if status is StopReason.NONFINITE or (status is StopReason.MAX_SWEEPS and warns and warns_of_end):
        warn(
            f"The coupled CPD stopped after {trace.n_sweeps} sweeps: {status.explanation}; {status.remedy}.",
            ConvergenceWarning,
        )
    advice = "Try fewer components, more starts (n_init) or other ones."
    if warns and (empty := empty_component_warning(to_numpy(state.weights), advice)):
        warn(empty)
    tensors = problem.tensors
    factors = tuple(state.mixture(problem.binning) for state, *_ in results)
    return CoupledSolution(
        factors=factors[best],
        trace=trace,
        status=status,
        start_losses=losses,
        start_statuses=tuple(status for *_, status in results),
        loss_name=problem.loss,
        best_start=best,
        start_info={**starts[best].info(), **({"histograms": problem.form} if problem.form else {})},
        start_factors=factors,
        start_traces=tuple(trace for _, trace, _ in results),
        triples=tensors.triples,
        squared_norm=tensors.squared_norm,
        totals=tensors.totals if isinstance(tensors, CoupledTensors) else None,
    )


_PARAMETERS = list(inspect.signature(coupled_simplex_parafac).parameters.values())[1:]


class CoupledSimplexCP(DecompositionMixin):
    """Coupled, non-negative, simplex-constrained CP decomposition of tensors that share factors and weights.

    Parameters are those of :func:`coupled_simplex_parafac`, `data` excepted.

    Attributes
    ----------
    decomposition_ : CPTensor
    solution_ : CoupledSolution

    Examples
    --------
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> rng = np.random.default_rng(0)
    >>> tensors = [rng.random((3, 4, 5)), rng.random((3, 4, 2))]
    >>> decomposition = smp.CoupledSimplexCP(
    ...     rank=2, modes=[(0, 1, 2), (0, 1, 3)], random_state=0
    ... )
    >>> weights, factors = decomposition.fit_transform(tensors)
    >>> [factor.shape for factor in factors]
    [(3, 2), (4, 2), (5, 2), (2, 2)]
    """

    __signature__ = inspect.Signature(_PARAMETERS)

    def __init__(self, *arguments: Any, **parameters: Any) -> None:
        bound = self.__signature__.bind(*arguments, **parameters)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            setattr(self, name, value)

    def fit(self, data: Any) -> Self:
        """Decompose Marginals, Codes, a third-order tensor or a list of these; returns self."""
        self.__dict__.pop("decomposition_", None)  # of an earlier fit
        parameters = {parameter.name: getattr(self, parameter.name) for parameter in _PARAMETERS}
        # By the module, where tensorly.testing puts the function that checks what is passed on.
        self.solution_ = coupled_simplex_parafac(data, **parameters)
        return self

    def fit_transform(self, data: Any) -> CPTensor:
        """Decompose as :meth:`fit` does; returns the CPTensor (weights, factors)."""
        return self.fit(data).decomposition_

    @cached_property
    def decomposition_(self) -> CPTensor:
        """Weights and factors of the solution, in the backend's arrays."""
        return self.solution_.to_cp_tensor()
