"""Tensors, histograms or codes become a coupled problem, with options checked; and its starts."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from math import comb
from typing import Any

import numpy as np
import tensorly as tl

from tensorly_smp._support.checks import (
    RandomState,
    checked_choice,
    checked_flag,
    checked_integer,
    checked_n_jobs,
    checked_sample_weight,
    spawn_generators,
    warn,
)
from tensorly_smp._support.representations import shown
from tensorly_smp.codes.binning import Binning
from tensorly_smp.codes.encoding import Codes
from tensorly_smp.exceptions import AlgebraicStartWarning, InvalidInputError
from tensorly_smp.factors.backend import checked_context
from tensorly_smp.factors.blocks import LOSSES
from tensorly_smp.factors.coupled import CoupledTensors, couple_tensors
from tensorly_smp.factors.implicit import CoupledCodes, couple_codes, distinct_patterns
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.initializers.coupled_gevd import START_BINS, gevd_start
from tensorly_smp.marginals.histograms import (
    MAX_BYTES,
    Marginals,
    ReadTensors,
    bytes_of_histograms,
    count_marginals,
    read_tensors,
)
from tensorly_smp.samples.values import subsample_evenly

#: Nanoseconds of a sweep, see ``benchmarks/many_variables.py forms``. Counted: per column of an unfolding and
#: component, and for each of its bins. Implicit: per entry and component, per Gram entry of a pattern, per variable.
COLUMN = 4.1
COLUMN_BIN = 0.06
ENTRY = 6.5
PATTERN = 2.0
VARIABLE = 8e4


@dataclass(frozen=True)
class SolverOptions:
    """Options of :func:`coupled_simplex_parafac` that hardly anybody has to set.

    Parameters
    ----------
    solver : {"auto", "multiplicative", "projected-gradient", "mirror"}
        Block solver. "auto" is "multiplicative" for KL and "projected-gradient" for Frobenius; "mirror" is the paper's
        exponentiated gradient with Armijo steps, for both, slower.
    n_inner : int, optional
        Steps of the block solver per block and sweep; by default 2 (multiplicative), 5 (mirror; 1 for the weights), 8
        (projected-gradient).
    extrapolate : bool, default True
        Extrapolate over pairs of sweeps (SQUAREM), kept only where the loss does not rise; never with "mirror", which
        stays the paper's algorithm.
    n_screen : int or None, default 20
        With ``init="gevd"``: after this many sweeps only the two lowest starts go on. None runs all to their end, as
        the other kinds of start always do.
    n_jobs : int, optional
        Starts run at a time, in threads, as in joblib; the result does not depend on it.
    dtype : {"float32", "float64"} or a dtype of NumPy, PyTorch or JAX, optional
        Precision of the sweeps; by default that of the first tensor, and float64 for Marginals and Codes.
    device : str, torch.device or jax.Device, optional
        Where the sweeps are done, with PyTorch or JAX, such as "cuda" or "cpu"; by default where the first tensor is,
        and for Marginals and Codes the backend's own choice. See ``docs/backends.md``.
    warn : bool, default True
        Whether to warn where the result has not converged or has empty components; its ``status`` and weights say so in
        any case.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        A number out of range, or no number. Names are checked where the loss and the backend are known.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> tensor = np.random.default_rng(0).random((3, 4, 5))
    >>> options = smp.SolverOptions(solver="mirror", extrapolate=False)
    >>> smp.coupled_simplex_parafac(
    ...     tensor, 2, random_state=0, tol=1e-4, options=options
    ... ).status.is_converged
    True
    """

    solver: str = "auto"
    n_inner: int | None = None
    extrapolate: bool = True
    n_screen: int | None = 20
    n_jobs: int | None = None
    dtype: Any = None
    device: Any = None
    warn: bool = True

    def __post_init__(self) -> None:
        for name in ("n_inner", "n_screen"):
            value = getattr(self, name)
            if value is not None:
                checked_integer(value, name, 1)
        for name in ("extrapolate", "warn"):
            checked_flag(getattr(self, name), name)
        checked_n_jobs(self.n_jobs)


@dataclass(frozen=True, eq=False)
class Problem:
    """A coupled decomposition that is to be solved.

    Attributes
    ----------
    tensors : CoupledTensors or CoupledCodes
        Ready for the solver.
    rank : int
    loss : str
        "kl" or "frobenius".
    binning : Binning or None
        Names and edges, where known.
    data : Marginals, Codes or ReadTensors
        For the algebraic start.
    sample_weight : ndarray (n_samples,) or None
        Of codes.
    form : str
        "counted" or "implicit" for codes, empty for anything else.
    """

    tensors: CoupledTensors | CoupledCodes
    rank: int
    loss: str
    binning: Binning | None
    data: Marginals | Codes | ReadTensors
    sample_weight: np.ndarray | None = None
    form: str = ""


def as_problem(
    data: Any,
    rank: int,
    loss: str = "kl",
    weights: str = "count",
    modes: Sequence[Sequence[Hashable]] | None = None,
    variables: Sequence[Hashable] | None = None,
    sample_weight: Any = None,
    *,
    samples: Codes | None = None,
    form: str = "auto",
    options: SolverOptions | None = None,
) -> Problem:
    """Read what is to be factorized.

    Parameters
    ----------
    data : Marginals, Codes, tensor or sequence of tensor
    rank : int
    loss : {"kl", "frobenius"}
    weights : {"count", "uniform"}
    modes : sequence of (j, k, l), optional
        Of tensors.
    variables : sequence of hashable, optional
        Names of the variables of tensors.
    sample_weight : array_like (n_samples,), optional
        Of codes, as `data` or as `samples`.
    samples : Codes, optional
        Of Marginals: what the algebraic start decomposes in their place, where not all triples have been counted; with
        the same bins.
    form : {"auto", "counted", "implicit"}
        Of codes: histograms, or sums over samples without any, which is for the Frobenius loss on NumPy; "auto" takes
        the faster one.
    options : SolverOptions, optional
        For the dtype and the device.

    Returns
    -------
    Problem

    Raises
    ------
    InvalidInputError, InvalidTypeError
        Input that cannot be used; the message says what was expected.
    SizeLimitError
        The histograms of codes have to be counted but take more than 1 GB.
    """
    options = options or SolverOptions()
    rank = checked_integer(rank, "rank", 1)
    checked_choice(loss, "loss", LOSSES)
    checked_choice(weights, "weights", ("count", "uniform"))
    if isinstance(data, Marginals | Codes) and (modes is not None or variables is not None):
        raise InvalidInputError(
            f"data is {type(data).__name__}, which has its variables; give modes and variables with tensors only."
        )
    if isinstance(data, Codes):
        problem = _problem_of_codes(data, rank, loss, weights, form, sample_weight, options)
    elif sample_weight is not None and samples is None:
        raise InvalidInputError(
            f"data is {type(data).__name__}; sample_weight is for Codes, and for count_marginals as it counts them."
        )
    elif isinstance(data, Marginals):
        tensors = couple_tensors(data, weights, options.dtype, options.device)
        kept = None if samples is None else checked_sample_weight(sample_weight, samples.n_samples)
        problem = Problem(tensors, rank, loss, data.binning, samples or data, kept)
    else:
        read = read_tensors(data, modes, variables)
        tensors = couple_tensors(read, weights, options.dtype, options.device)
        problem = Problem(tensors, rank, loss, read.binning, read)
    if 0 < problem.tensors.n_samples < rank:
        raise InvalidInputError(
            f"{rank} components with {problem.tensors.n_samples} samples; expected at most one component per sample."
        )
    return problem


def _problem_of_codes(
    codes: Codes, rank: int, loss: str, weights: str, form: str, sample_weight: Any, options: SolverOptions
) -> Problem:
    """Problem of all triples of samples, counted or implicit; the algebra takes a part of them where they are many."""
    context = checked_context(options.dtype, options.device)
    # Sums over samples weight triples by their counts, which are the same where all samples are in all triples.
    by_count = weights == "count" or bool((codes.values >= 0).all())
    can_be_implicit = loss == "frobenius" and by_count and tl.get_backend() == "numpy"
    if form == "auto":
        form = "implicit" if can_be_implicit and _is_better_implicit(codes, rank) else "counted"
    values, kept = subsample_evenly(codes.values, checked_sample_weight(sample_weight, codes.n_samples))
    some = codes if values is codes.values else Codes(values, codes.binning)
    if form == "implicit":
        return Problem(couple_codes(codes, sample_weight, context), rank, loss, codes.binning, some, kept, form)
    marginals = count_marginals(codes, "all", sample_weight, max_bytes=MAX_BYTES)
    tensors = couple_tensors(marginals, weights, options.dtype, options.device)
    if tensors.triples is not None and len(tensors.triples) == comb(codes.n_variables, 3):
        tensors = replace(tensors, triples=None)
    return Problem(tensors, rank, loss, codes.binning, some, kept, form)


def _is_better_implicit(codes: Codes, rank: int) -> bool:
    """Tell whether histograms would be too large, or a sweep over them slower than one over the samples."""
    if bytes_of_histograms(codes.n_bins) > MAX_BYTES:
        return True
    sizes = np.array(codes.n_bins, dtype=float)
    pairs = np.minimum(np.outer(sizes, sizes), codes.n_samples)  # columns at most: those without samples are left out
    np.fill_diagonal(pairs, 0.0)
    # Pairs of the other variables, for every variable; and once more, each triple once, for the weights.
    n_columns = pairs.sum() / 2 - pairs.sum(axis=1)
    counted = float(n_columns @ (COLUMN + COLUMN_BIN * sizes)) * rank * 4 / 3
    observed = codes.values >= 0
    n_patterns = 1 if observed.all() else distinct_patterns(observed, np.ones(len(observed)))[0].shape[1]
    grams = PATTERN * n_patterns * rank * (rank + 1) / 2
    return len(sizes) * (ENTRY * codes.n_samples * rank + grams + VARIABLE) < counted


#: Every so many starts one is random, in case the algebra is misled by the same noise every time.
RANDOM_EVERY = 4
#: Bins per variable of successive algebraic starts.
BIN_NUMBERS = (START_BINS, 8)
#: Partitions tried before a start is given up: in one of them a variable that carries nothing may stand alone.
MOST_ATTEMPTS = 4
#: Shares of the uniform column, and of uniform weights, in a start whose negative entries were clipped.
CLIPPED_SHARE = 0.01
CLIPPED_WEIGHT_SHARE = 0.1
#: Histograms that a start reproduces to this are its own: zeros, as of empty slices, are right.
EXACT_FIT = 1e-12


def random_start(
    n_bins: Sequence[int], rank: int, rng: np.random.Generator, univariate_marginals: Sequence[np.ndarray] | None = None
) -> MixtureFactors:
    """Equal weights and columns drawn from the uniform distribution on the simplex, times the overall histogram.

    Parameters
    ----------
    n_bins : sequence of int
    rank : int
    rng : Generator
    univariate_marginals : sequence of ndarray (n_bins[n],), optional
        Overall histogram of each variable: a column then has more mass where there are more samples.

    Returns
    -------
    MixtureFactors
    """
    columns = []
    for n, size in enumerate(n_bins):
        column = rng.standard_exponential((size, rank))
        if univariate_marginals is not None:
            column *= univariate_marginals[n][:, None] + 1e-3 / size
        columns.append(column / column.sum(axis=0))
    return MixtureFactors(np.full(rank, 1.0 / rank), tuple(columns))


def make_starts(
    problem: Problem, init: Any = "gevd", n_init: int = 1, random_state: RandomState = None
) -> list[MixtureFactors]:
    """Starts for a problem; each has a random stream of its own, so that the first are the same whatever their number.

    Parameters
    ----------
    problem : Problem
    init : {"gevd", "random"}, MixtureFactors or CPTensor
        Given factors are the first start, and the others are random.
    n_init : int
    random_state : None, int, Generator or RandomState

    Returns
    -------
    list of MixtureFactors
        Those that are algebraic are GevdStart, with different partitions and numbers of bins; every fourth is random.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        An unknown kind of start, or factors of another rank or other bins.

    Warns
    -----
    AlgebraicStartWarning
        Why an algebraic start failed; a random one takes its place.
    """
    n_init = checked_integer(n_init, "n_init", 1)
    n_bins = problem.tensors.n_bins
    given = None
    if not isinstance(init, str):
        given = init if isinstance(init, MixtureFactors) else MixtureFactors.from_cp_tensor(init)
        if given.rank != problem.rank or given.n_bins != n_bins:
            raise InvalidInputError(
                f"init has {given.rank} components and {given.n_bins} bins; expected {problem.rank} components and "
                f"{n_bins} bins."
            )
    elif init not in ("gevd", "random"):
        raise InvalidInputError(f'init is {shown(init)}; expected "gevd", "random", MixtureFactors or a CPTensor.')
    data = None
    if given is None and init == "gevd":
        # Tensors come to the host here, and not before.
        data = problem.data.to_marginals() if isinstance(problem.data, ReadTensors) else problem.data
    starts = []
    failures = []
    for position, rng in enumerate(spawn_generators(random_state, n_init)):
        start = random_start(n_bins, problem.rank, rng, problem.tensors.univariate_marginals)
        if given is not None and position == 0:
            start = given
        elif data is not None and position % RANDOM_EVERY < RANDOM_EVERY - 1:
            try:
                start = algebraic_start(data, problem.rank, problem.sample_weight, position, rng)
            except InvalidInputError as error:  # AlgebraicStartError is one; blocks that were not counted are another
                failures.append(str(error))
        starts.append(start)
    if failures:
        warn(
            f"{len(failures)} of {n_init} starts are random, because the algebra failed: {failures[0]}",
            AlgebraicStartWarning,
        )
    return starts


def algebraic_start(
    data: Marginals | Codes, rank: int, sample_weight: np.ndarray | None, position: int, rng: np.random.Generator
) -> MixtureFactors:
    """Start by algebra, of samples with a random partition and a number of bins that depends on the position."""
    exact = data if isinstance(data, Marginals) and data.n_samples == 0 else None
    n_bins = None if exact else BIN_NUMBERS[position % len(BIN_NUMBERS)]
    for attempt in range(MOST_ATTEMPTS):
        try:
            start = gevd_start(data, rank, n_bins=n_bins, sample_weight=sample_weight, random_state=rng)
            break
        except InvalidInputError:
            if attempt == MOST_ATTEMPTS - 1:
                raise
    # Exact histograms give exact factors; but if there are zeros, perhaps clipped, no multiplicative step leaves them.
    if exact and any((a == 0).any() for a in (start.weights, *start.factors)):
        fitted = start.to_marginals(exact.triples.tolist())
        parts = zip(fitted.counts, exact.counts, exact.totals, strict=True)
        if any(np.abs(own - count / total).max() > EXACT_FIT for own, count, total in parts):
            return start.smooth(CLIPPED_SHARE, CLIPPED_WEIGHT_SHARE)
    return start
