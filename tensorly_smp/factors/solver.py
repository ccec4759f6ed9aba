"""Coupled, non-negative, simplex-constrained CPD of tensors that share factors."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tensorly.cp_tensor import CPTensor

from tensorly_smp.checks import MOST, checked_integer, checked_n_jobs, checked_sample_weight, checked_tolerance
from tensorly_smp.codes.binning import Binning
from tensorly_smp.codes.encoding import Codes
from tensorly_smp.codes.thinning import thinned
from tensorly_smp.exceptions import (
    ConvergenceWarning,
    InvalidInputError,
    InvalidTypeError,
    SizeLimitError,
)
from tensorly_smp.factors.arrays import to_numpy
from tensorly_smp.factors.contexts import checked_context
from tensorly_smp.factors.coupled import CoupledTensors, couple_marginals, couple_tensors, tensors_to_marginals
from tensorly_smp.factors.empty import empty_component_warning
from tensorly_smp.factors.forms import FORMS, couple_samples
from tensorly_smp.factors.implicit import CoupledCodes
from tensorly_smp.factors.losses import LOSSES
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.factors.restarts import Restarts, Result
from tensorly_smp.factors.solution import CoupledSolution, StopReason
from tensorly_smp.factors.sweeps import Callback, StoppingRule
from tensorly_smp.factors.updates import BLOCK_SOLVERS
from tensorly_smp.marginals.histograms import Marginals
from tensorly_smp.progress import checked_verbose, logger, progress_bar
from tensorly_smp.randomness import RandomState, spawn_generators
from tensorly_smp.representations import shown
from tensorly_smp.threads import allowed_threads


def coupled_simplex_parafac(
    data: Marginals | Codes | CoupledCodes | Sequence[Any],
    rank: int,
    *,
    modes: Sequence[Sequence[int]] | None = None,
    loss: str = "kl",
    solver: str = "auto",
    init: str | MixtureFactors | CPTensor = "gevd",
    n_init: int = 1,
    n_screen: int | None = 20,
    agree: Callable[..., MixtureFactors | None] | None = None,
    weights: str = "count",
    histograms: str = "auto",
    sample_weight: Any = None,
    n_iter_max: int = 1000,
    tol: float = 1e-6,
    n_inner: int | None = None,
    extrapolate: bool = True,
    n_jobs: int | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
    codes: Codes | None = None,
    verbose: int = 0,
    dtype: Any = None,
    device: Any = None,
    warn: bool = True,
) -> CoupledSolution:
    """Factorize third-order tensors jointly: one set of weights and factors, all on the probability simplex.

    Minimizes sum_jkl omega_jkl D(X_jkl, [[w; A_j, A_k, A_l]]) over w and A_1..A_N, every column and w summing to one
    (Kargas & Sidiropoulos, AISTATS 2019, eq. 9), by alternating over w and the factors. The problem is not convex:
    use several starts (``n_init``).

    Parameters
    ----------
    data : Marginals, Codes or sequence of tensor
        From :func:`count_marginals`; or from :func:`encode_samples`, for all triples of however many variables (see
        ``histograms``); or third-order tensors of the active TensorLy backend (NumPy, PyTorch, JAX; float32 or
        float64), counts or probabilities, with ``modes``. Each is divided by its sum.
    rank : int
        Number of components.
    modes : sequence of (j, k, l), optional
        For a list of tensors: the variables along the three modes of each, numbered from 0.
    loss : {"kl", "frobenius"}
        "kl" with weights "count" is the composite likelihood of all triples, statistically better; "frobenius" is
        faster per sweep.
    solver : {"auto", "multiplicative", "projected-gradient", "mirror"}
        Block solver. "auto" is "multiplicative" for KL and "projected-gradient" for Frobenius; "mirror" is the paper's
        exponentiated gradient with Armijo steps, for both, slower.
    init : {"gevd", "random"}, MixtureFactors or CPTensor
        "gevd" starts from algebra (:func:`gevd_start`), every start with another partition and every fourth at random;
        where the algebra fails a random start takes its place, with a warning that says why. With given factors the
        first start is from them (never modified) and the others are random. The multiplicative and mirror solvers
        cannot leave exact zeros: see ``MixtureFactors.smooth``.
    n_init : int, default 1
        Starts, unless ``agree`` ends them; the one that ends lowest is returned, and all final losses are kept.
    n_screen : int or None, default 20
        With ``init="gevd"``: after this many sweeps only the two lowest starts go on. None runs all to their end, as
        the other kinds of start always do.
    agree : callable, optional
        With ``init="gevd"``: ``agree(*starts)`` of the first two starts (MixtureFactors), and then of the first three,
        before any sweep. What it returns, unless None, is the only start: partitions that lead to the same factors
        leave little to further ones. It is not asked about random starts, nor once the algebra has failed.
    weights : {"count", "uniform"}
        omega: proportional to the number of samples of the triple (one on average), or all one.
    histograms : {"auto", "counted", "implicit"}, default "auto"
        For codes. "counted" counts all triples first. "implicit" is for the Frobenius loss and counts none: the same
        sweeps to rounding, as sums over samples, in a time that grows with samples x variables x rank and not with the
        number of triples (see Notes). "auto" is the faster one, and "implicit" where the histograms would take more
        than 1 GB. With the KL loss the histograms have to be counted: where they are too large, take
        ``loss="frobenius"``, or some triples, ``count_marginals(codes, triples=1000)``, which use all variables evenly.
        Which of the two it was is in ``solution.start_info["histograms"]``.
    sample_weight : array_like (n_samples,), optional
        For codes, as ``data`` or as ``codes``: non-negative, a sample of weight 2 counts twice, in the algebraic start
        too (``count_marginals`` has its own).
    n_iter_max : int, default 1000
        Sweeps over all blocks.
    tol : float, default 1e-6
        Stop when the relative decrease of the loss per sweep, over two sweeps, is below this.
    n_inner : int, optional
        Steps of the block solver per block and sweep; by default 2 (multiplicative), 5 (mirror; 1 for
        the weights), 8 (projected-gradient).
    extrapolate : bool, default True
        Extrapolate over pairs of sweeps (SQUAREM), kept only where the loss does not rise; never with "mirror", which
        stays the paper's algorithm.
    n_jobs : int, optional
        Starts run at a time, in threads, as in joblib; the result does not depend on it.
    random_state : None, int, Generator or RandomState
        Every start has its own stream, so the first starts are the same whatever ``n_init``.
    callback : callable, optional
        ``callback(cp_tensor, loss)`` before every sweep and at the end; returning True stops.
    codes : Codes, optional
        The samples, for the algebraic start where not all triples have been counted; by default it uses ``data``.
    verbose : int, default 0
        1 shows a bar (extra ``progress``) of the starts, of which those that go on after the screening count again; 2
        also one of the sweeps of all of them. What was chosen, and seconds, go to the logger "tensorly_smp", level
        INFO, in any case.
    dtype : {"float32", "float64"} or a dtype of NumPy, PyTorch or JAX, optional
        Precision of the sweeps; by default that of the first tensor of a list, and float64 for Marginals and Codes.
    device : str, torch.device or jax.Device, optional
        Where the sweeps are done, with PyTorch or JAX, such as "cuda" or "cpu"; by default where the first tensor of a
        list is, and for Marginals and Codes the backend's own choice. See ``docs/backends.md``.
    warn : bool, default True
        Whether to warn where the result has not converged or has empty components; its ``status`` and weights say so in
        any case.

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
    In the implicit form the sum over triples of omega ||X||^2, which no factor changes, serves one purpose: the level
    of the reported loss. Up to 5000 triples it is exact. Beyond, it is estimated without bias from 2000 of them (fewer
    beyond 100 000 samples; a fixed seed), by their distance from the factors found, which leaves the reported losses
    off by one and the same amount, a few tenths of a percent of the lowest. Sweeps, and differences of losses, are
    exact; the tolerance is relative to the loss, so that a run may end a sweep earlier or later. A callback sees the
    level as estimated at the first start.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> rng = np.random.default_rng(0)
    >>> truth = smp.MixtureFactors([0.3, 0.7], [rng.dirichlet(np.ones(4), 2).T for _ in range(4)])
    >>> solution = smp.coupled_simplex_parafac(truth.to_marginals(), rank=2, tol=1e-9, n_init=3, random_state=0)
    >>> bool(smp.metrics.factor_error(solution.factors, truth) < 1e-3)
    True

    All 19 600 triples of fifty variables, from the samples:

    >>> data = smp.datasets.make_smooth_mixture("gaussian", 2000, n_variables=50, n_components=3, random_state=0)
    >>> codes = smp.encode_samples(data.X, smp.choose_binning(data.X, n_bins=8))
    >>> solution = smp.coupled_simplex_parafac(codes, rank=3, loss="frobenius", random_state=0)
    >>> solution.start_info["histograms"]
    'implicit'
    >>> labels = solution.factors.posterior(codes).argmax(axis=1)
    >>> bool(smp.metrics.clustering_accuracy(data.labels, labels) > 0.95)
    True

    A TensorLy user's own tensors:

    >>> tensors = [rng.random((3, 3, 3)), rng.random((3, 3, 2))]
    >>> cp = smp.coupled_simplex_parafac(tensors, rank=2, modes=[(0, 1, 2), (0, 1, 3)], random_state=0).to_cp_tensor()
    >>> [factor.shape for factor in cp.factors]
    [(3, 2), (3, 2), (3, 2), (2, 2)]
    """
    if callback is not None and not callable(callback):
        raise InvalidTypeError(f"callback is {shown(callback)}; expected a function of a CPTensor and a loss, or None.")
    if agree is not None and not callable(agree):
        raise InvalidTypeError(f"agree is {shown(agree)}; expected a function of two or three MixtureFactors, or None.")
    verbose, began = checked_verbose(verbose), time.perf_counter()
    loss = _named(loss, LOSSES, "loss")
    if (rank := checked_integer(rank, "rank", 1)) > MOST["n_components"]:
        raise SizeLimitError(f"rank is {rank}; expected at most {MOST['n_components']}.")
    _check_options_of_codes(data, modes, codes, histograms, sample_weight)
    tensors: CoupledTensors | CoupledCodes
    binning: Binning | None
    if isinstance(data, Codes):
        context = checked_context(dtype, device)
        tensors, binning = couple_samples(data, rank, loss, weights, histograms, sample_weight, context), data.binning
    elif isinstance(data, CoupledCodes):  # of samples that are elsewhere
        tensors, binning = data, None if codes is None else codes.binning
    else:
        tensors, binning = _coupled(data, modes, weights, dtype, device)
    if 0 < tensors.n_samples < rank:
        raise InvalidInputError(
            f"{rank} components with {tensors.n_samples} samples; expected at most one component per sample."
        )
    run = Restarts(
        tensors=tensors,
        loss=loss,
        solver=_solver_name(solver, loss),
        n_inner=None if n_inner is None else checked_integer(n_inner, "n_inner", 1),
        rule=StoppingRule(checked_tolerance(tol), checked_integer(n_iter_max, "n_iter_max", 0)),
        extrapolate=bool(extrapolate),
        callback=callback,
    )
    n_init = checked_integer(n_init, "n_init", 1)
    screening = None if n_screen is None else checked_integer(n_screen, "n_screen", 1)
    is_algebraic = isinstance(init, str) and init == "gevd"
    _check_codes(codes, tensors.n_bins)
    algebra, own_weight = _algebra(data, modes, codes, sample_weight) if is_algebraic else (None, None)
    starts = _starts(tensors, algebra, own_weight, rank, init, n_init, agree, random_state)
    if isinstance(tensors, CoupledCodes):
        run = replace(run, tensors=tensors.calibrated(starts[0]))
    n_threads = allowed_threads(checked_n_jobs(n_jobs))
    results = _with_bars(run, verbose, starts, n_threads, screening if is_algebraic else None)
    solution = _best(_on_one_level(results, run.tensors), starts, loss, binning)
    if warn:
        _warn(solution)
    if isinstance(data, Codes):
        form = "implicit" if isinstance(tensors, CoupledCodes) else "counted"
        solution = replace(solution, start_info={**solution.start_info, "histograms": form})
    _log(solution, run, time.perf_counter() - began)
    return replace(solution, triples=tensors.triples)


def _with_bars(
    run: Restarts, verbose: int, starts: list[MixtureFactors], n_threads: int, n_screen: int | None
) -> list[Result]:
    """Results of all starts, with a bar of them, and one of their sweeps."""
    with (
        progress_bar(verbose, "coupled CPD", len(starts), unit="start") as bar,
        progress_bar(verbose, "sweeps", unit="sweep", level=2) as sweeps,
    ):
        return replace(run, bar=bar, callback=sweeps.counting(run.callback)).all(starts, n_threads, n_screen)


def _log(solution: CoupledSolution, run: Restarts, seconds: float) -> None:
    logger.info(
        "Coupled CPD: %d components, %d variables; %s loss, %s steps; %d starts, number %d lowest: loss %.6g after %d "
        "sweeps, %s; %.2f s",
        *(solution.factors.rank, solution.factors.n_variables, run.loss, run.solver),
        *(len(solution.start_losses), solution.best_start, solution.loss, solution.trace.n_sweeps),
        *(solution.status.name.lower(), seconds),
    )


def _check_options_of_codes(data: Any, modes: Any, codes: Any, histograms: Any, sample_weight: Any) -> None:
    _named(histograms, dict.fromkeys(FORMS), "histograms")
    if isinstance(data, Codes):
        if modes is not None or codes is not None:
            raise InvalidInputError("data are codes already, of all triples; expected neither modes nor codes besides.")
    elif histograms != "auto" or (sample_weight is not None and codes is None):
        raise InvalidInputError(
            f"data is {type(data).__name__}; sample_weight and histograms are for Codes. count_marginals weights the "
            "samples as it counts them."
        )


def _coupled(data: Any, modes: Any, weights: str, dtype: Any, device: Any) -> tuple[CoupledTensors, Any]:
    if isinstance(data, Marginals):
        if modes is not None:
            raise InvalidInputError("modes are part of Marginals already; give them with a list of tensors only.")
        return couple_marginals(data, weights, checked_context(dtype, device)), data.binning
    if isinstance(data, str | bytes) or not isinstance(data, Sequence):
        raise InvalidTypeError(
            f"data is {type(data).__name__}; expected Marginals, Codes, or a list of third-order tensors with modes=."
        )
    if modes is None:
        raise InvalidInputError("A list of tensors needs modes=[(j, k, l), ...]: the variables along each one's modes.")
    return couple_tensors(data, modes, weights, dtype, device), None


def _check_codes(codes: Any, n_bins: tuple[int, ...]) -> None:
    if codes is None:
        return
    if not isinstance(codes, Codes):
        raise InvalidTypeError(f"codes is {type(codes).__name__}; expected Codes, as of encode_samples.")
    if codes.n_bins != n_bins:
        raise InvalidInputError(f"codes have {codes.n_bins} bins; expected those of the histograms, {n_bins}.")


def _algebra(
    data: Any, modes: Any, codes: Codes | None, sample_weight: Any
) -> tuple[Marginals | Codes, np.ndarray | None]:
    """What the algebraic start decomposes, and weights if that is samples."""
    if isinstance(data, Codes):
        kept, weights = thinned(data.values, checked_sample_weight(sample_weight, data.n_samples))
        return data if kept is data.values else Codes(kept, data.binning), weights
    if codes is not None:
        return codes, checked_sample_weight(sample_weight, codes.n_samples)
    return data if isinstance(data, Marginals) else tensors_to_marginals(data, modes), None


def _on_one_level(results: list[Result], tensors: CoupledTensors | CoupledCodes) -> list[Result]:
    """The results with the level of the loss estimated at the lowest of them, where it has to be estimated."""
    if isinstance(tensors, CoupledTensors) or not tensors.energy_error:
        return results
    state, *_ = min(results, key=lambda result: result[1].loss[-1])
    level = tensors.calibrated(MixtureFactors(state.weights, tuple(state.factors))).energy - tensors.energy
    return [(state, replace(trace, loss=trace.loss + level), status) for state, trace, status in results]


def _named(name: Any, table: dict[str, Any], what: str) -> str:
    if not isinstance(name, str) or name not in table:
        raise InvalidInputError(f"{what} is {shown(name)}; expected one of {list(table)}.")
    return name


def _solver_name(solver: Any, loss: str) -> str:
    known = BLOCK_SOLVERS[_named(loss, LOSSES, "loss")]
    return next(iter(known)) if solver == "auto" else _named(solver, known, f'solver for loss="{loss}"')


def _starts(
    tensors: CoupledTensors | CoupledCodes,
    algebra: Marginals | Codes | None,
    sample_weight: np.ndarray | None,
    rank: int,
    init: Any,
    n_init: int,
    agree: Callable[..., MixtureFactors | None] | None,
    random_state: RandomState,
) -> list[MixtureFactors]:
    from tensorly_smp.initializers.starts import gevd_starts, random_starts

    streams = spawn_generators(random_state, n_init)
    starts = random_starts(tensors.n_bins, rank, tensors.univariate_marginals, streams)
    if isinstance(init, str):
        if init == "random":
            return starts
        if algebra is not None:
            return gevd_starts(algebra, rank, starts, streams, sample_weight, agree)
        raise InvalidInputError(f'init is {shown(init)}; expected "gevd", "random", MixtureFactors or a CPTensor.')
    given = init if isinstance(init, MixtureFactors) else MixtureFactors.from_cp_tensor(init)
    if given.rank != rank or given.n_bins != tensors.n_bins:
        raise InvalidInputError(
            f"init has {given.rank} components and {given.n_bins} bins; expected {rank} components and "
            f"{tensors.n_bins} bins."
        )
    return [given, *starts[1:]]


def _best(results: list[Result], starts: list[MixtureFactors], loss: str, binning: Any) -> CoupledSolution:
    losses = np.array([trace.loss[-1] for _, trace, _ in results])
    best = int(np.argmin(losses))
    state, trace, status = results[best]
    return CoupledSolution(
        factors=MixtureFactors(state.weights, tuple(state.factors), binning),
        trace=trace,
        status=status,
        start_losses=losses,
        start_statuses=tuple(status for *_, status in results),
        loss_name=loss,
        best_start=best,
        start_info=starts[best].info(),
        start_factors=tuple(MixtureFactors(state.weights, tuple(state.factors), binning) for state, *_ in results),
        start_traces=tuple(trace for _, trace, _ in results),
    )


def _warn(solution: CoupledSolution) -> None:
    """Warn where the solution has not converged, or has empty components."""
    status = solution.status
    if status is StopReason.MAX_SWEEPS:
        warnings.warn(
            f"The coupled CPD stopped after {solution.trace.n_sweeps} sweeps: {status.explanation}; {status.remedy}.",
            ConvergenceWarning,
            stacklevel=3,
        )
    advice = "Try fewer components, more starts (n_init) or other ones."
    if empty := empty_component_warning(to_numpy(solution.factors.weights), advice):
        warnings.warn(empty, stacklevel=3)
