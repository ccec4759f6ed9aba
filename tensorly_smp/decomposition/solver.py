"""Coupled, non-negative, simplex-constrained CPD of tensors that share factors and weights."""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tensorly.cp_tensor import CPTensor

from tensorly_smp._support.checks import checked_integer, checked_tolerance, warn
from tensorly_smp._support.iteration import StopReason
from tensorly_smp._support.progress import checked_verbose, logger, progress_bar
from tensorly_smp._support.randomness import RandomState
from tensorly_smp._support.representations import shown
from tensorly_smp._support.threads import allowed_threads
from tensorly_smp.codes.encoding import Codes
from tensorly_smp.decomposition.options import SolverOptions, checked_options
from tensorly_smp.decomposition.problem import Problem, as_problem
from tensorly_smp.decomposition.restarts import Restarts, Result
from tensorly_smp.decomposition.solution import CoupledSolution
from tensorly_smp.exceptions import ConvergenceWarning, InvalidTypeError
from tensorly_smp.factors.coupled import CoupledTensors
from tensorly_smp.factors.empty import empty_component_warning
from tensorly_smp.factors.implicit import CoupledCodes
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.factors.sweeps import Callback, StoppingRule
from tensorly_smp.marginals.histograms import Marginals
from tensorly_smp.marginals.tensors import to_numpy


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
        counts or probabilities, or a list of these with ``modes``. No entry may be NaN. Each is divided by its sum.
    rank : int
        Number of components.
    modes : sequence of (j, k, l), optional
        For a list of tensors: the variables along the three modes of each, numbered from 0.
    variables : sequence of hashable, optional
        For tensors: names of the variables, for the labels of the solution.
    loss : {"kl", "frobenius"}
        "kl" with weights "count" is the composite likelihood of all triples, statistically better; "frobenius" is
        faster per sweep.
    init : {"gevd", "random"}, MixtureFactors or CPTensor
        "gevd" starts from algebra (:func:`gevd_start`), every start with another partition and every fourth at random;
        where the algebra fails a random start takes its place, with a warning that says why. With given factors the
        first start is from them (never modified) and the others are random. The multiplicative and mirror solvers
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
    options = checked_options(options)
    problem = as_problem(
        data,
        modes,
        rank=rank,
        loss=loss,
        weights=weights,
        sample_weight=sample_weight,
        variables=variables,
        options=options,
    )
    return decompose(
        problem,
        init=init,
        n_init=n_init,
        n_iter_max=n_iter_max,
        tol=tol,
        random_state=random_state,
        callback=callback,
        verbose=verbose,
        options=options,
    )


def decompose(
    problem: Problem,
    *,
    init: str | MixtureFactors | CPTensor = "gevd",
    n_init: int = 1,
    random_state: RandomState = None,
    options: SolverOptions | None = None,
    **settings: Any,
) -> CoupledSolution:
    """Make starts for a problem, and solve it from them.

    Parameters as of :func:`coupled_simplex_parafac`; `settings` are those of :func:`solve`.
    """
    from tensorly_smp.decomposition.starts import make_starts

    options = checked_options(options)
    starts = make_starts(problem, init, n_init, random_state)
    if not (isinstance(init, str) and init == "gevd"):
        options = replace(options, n_screen=None)
    return solve(problem, starts, options, **settings)


def solve(
    problem: Problem,
    starts: Sequence[MixtureFactors],
    options: SolverOptions,
    *,
    n_iter_max: int = 1000,
    tol: float | None = 1e-6,
    callback: Callback | None = None,
    verbose: int = 0,
) -> CoupledSolution:
    """Improve every start until it ends, and keep the one that ends lowest.

    Parameters
    ----------
    problem : Problem
    starts : sequence of MixtureFactors
        Of the problem's rank and bins.
    options : SolverOptions
    n_iter_max, tol, callback, verbose
        As of :func:`coupled_simplex_parafac`.

    Returns
    -------
    CoupledSolution
    """
    if callback is not None and not callable(callback):
        raise InvalidTypeError(f"callback is {shown(callback)}; expected a function of a CPTensor and a loss, or None.")
    verbose = checked_verbose(verbose)
    began = time.perf_counter()
    tensors = problem.tensors
    if isinstance(tensors, CoupledCodes):
        tensors = tensors.calibrated(starts[0])
    run = Restarts(
        tensors=tensors,
        loss=problem.loss,
        solver=options.solver_name(problem.loss),
        n_inner=options.n_inner,
        rule=StoppingRule(
            None if tol is None else checked_tolerance(tol), checked_integer(n_iter_max, "n_iter_max", 0)
        ),
        extrapolate=bool(options.extrapolate),
        callback=callback,
    )
    with (
        progress_bar(verbose, "coupled CPD", len(starts), unit="start") as bar,
        progress_bar(verbose, "sweeps", unit="sweep", level=2) as sweeps,
    ):
        visible = replace(run, bar=bar, callback=sweeps.counting(callback))
        results = visible.all(starts, allowed_threads(options.n_jobs), options.n_screen)
    warns_of_end = options.warn and tol is not None
    solution = _best(_with_one_offset(results, tensors), starts, problem, options.warn, warns_of_end)
    _log(solution, run, time.perf_counter() - began)
    return solution


def _log(solution: CoupledSolution, run: Restarts, seconds: float) -> None:
    logger.info(
        "Coupled CPD: %d components, %d variables; %s loss, %s steps; %d starts, number %d lowest: loss %.6g after %d "
        "sweeps, %s; %.2f s",
        *(solution.factors.rank, solution.factors.n_variables, run.loss, run.solver),
        *(len(solution.start_losses), solution.best_start, solution.loss, solution.trace.n_sweeps),
        *(solution.status.name.lower(), seconds),
    )


def _with_one_offset(results: list[Result], tensors: CoupledTensors | CoupledCodes) -> list[Result]:
    """The results with the offset of the loss estimated at the lowest of them, where it has to be estimated."""
    if isinstance(tensors, CoupledTensors) or not tensors.squared_norm_error:
        return results
    state, *_ = min(results, key=lambda result: result[1].loss[-1])
    shift = tensors.calibrated(MixtureFactors(state.weights, tuple(state.factors))).squared_norm - tensors.squared_norm
    return [(state, replace(trace, loss=trace.loss + shift), status) for state, trace, status in results]


def _best(
    results: list[Result], starts: Sequence[MixtureFactors], problem: Problem, warns: bool, warns_of_end: bool
) -> CoupledSolution:
    losses = np.array([trace.loss[-1] for _, trace, _ in results])
    best = int(np.argmin(losses))
    state, trace, status = results[best]
    if status is StopReason.NONFINITE or (status is StopReason.MAX_SWEEPS and warns_of_end):
        warn(
            f"The coupled CPD stopped after {trace.n_sweeps} sweeps: {status.explanation}; {status.remedy}.",
            ConvergenceWarning,
        )
    advice = "Try fewer components, more starts (n_init) or other ones."
    if warns and (empty := empty_component_warning(to_numpy(state.weights), advice)):
        warn(empty)
    binning = problem.binning
    tensors = problem.tensors
    form = {"histograms": problem.form} if problem.form else {}
    return CoupledSolution(
        factors=MixtureFactors(state.weights, tuple(state.factors), binning),
        trace=trace,
        status=status,
        start_losses=losses,
        start_statuses=tuple(status for *_, status in results),
        loss_name=problem.loss,
        best_start=best,
        start_info={**starts[best].info(), **form},
        start_factors=tuple(MixtureFactors(state.weights, tuple(state.factors), binning) for state, *_ in results),
        start_traces=tuple(trace for _, trace, _ in results),
        triples=tensors.triples,
        squared_norm=tensors.squared_norm,
        totals=tensors.totals if isinstance(tensors, CoupledTensors) else None,
    )
