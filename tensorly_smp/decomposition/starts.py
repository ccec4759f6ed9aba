"""Starts of a decomposition: from algebra, from chance, or from the caller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorly_smp._support.checks import checked_integer, warn
from tensorly_smp._support.randomness import RandomState, spawn_generators
from tensorly_smp._support.representations import shown
from tensorly_smp.codes.encoding import Codes
from tensorly_smp.decomposition.problem import Problem
from tensorly_smp.exceptions import AlgebraicStartWarning, InvalidInputError
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.initializers.coupled_gevd import START_BINS, coarse_sizes, gevd_start, start_partition
from tensorly_smp.marginals.block_tensor import counted_partition
from tensorly_smp.marginals.histograms import Marginals

#: Every so many starts one is random, in case the algebra is misled by the same noise every time.
RANDOM_EVERY = 4
#: Bins per variable of successive algebraic starts.
BIN_NUMBERS = (START_BINS, 8)
#: Partitions tried before a start is given up: in one of them a variable that carries nothing may stand alone.
MOST_ATTEMPTS = 4
#: Shares of the uniform column, and of uniform weights, in a start whose negative entries were clipped.
CLIPPED_SHARE = 0.01
CLIPPED_WEIGHT_SHARE = 0.1


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

    Raises
    ------
    InvalidInputError, InvalidTypeError
        An unknown kind of start, or factors of another rank or other bins.
    """
    n_init = checked_integer(n_init, "n_init", 1)
    is_name = isinstance(init, str)
    if is_name and init not in ("gevd", "random"):
        raise InvalidInputError(f'init is {shown(init)}; expected "gevd", "random", MixtureFactors or a CPTensor.')
    streams = spawn_generators(random_state, n_init)
    shares = problem.tensors.univariate_marginals
    n_bins = problem.tensors.n_bins
    if is_name:
        random = [random_start(n_bins, problem.rank, rng, shares) for rng in streams]
        if init == "random":
            return random
        return gevd_starts(problem.algebraic_data, problem.rank, random, streams, problem.sample_weight)
    start = init if isinstance(init, MixtureFactors) else MixtureFactors.from_cp_tensor(init)
    if start.rank != problem.rank or start.n_bins != n_bins:
        raise InvalidInputError(
            f"init has {start.rank} components and {start.n_bins} bins; expected {problem.rank} components and "
            f"{n_bins} bins."
        )
    return [start, *(random_start(n_bins, problem.rank, rng, shares) for rng in streams[1:])]


def gevd_starts(
    data: Marginals | Codes,
    rank: int,
    random: list[MixtureFactors],
    streams: list[np.random.Generator],
    sample_weight: np.ndarray | None = None,
) -> list[MixtureFactors]:
    """Algebraic starts with different partitions and numbers of bins, and some random ones among them.

    Parameters
    ----------
    data : Marginals or Codes
        What :func:`gevd_start` decomposes.
    rank : int
    random : list of MixtureFactors
        One random start per stream, drawn from it before the algebra draws partitions: every fourth is used, and those
        of streams whose algebra failed.
    streams : list of Generator
    sample_weight : ndarray (n_samples,), optional
        Of codes: non-negative, a sample of weight 2 counts twice.

    Returns
    -------
    list of MixtureFactors
        Those that are algebraic are GevdStart.

    Warns
    -----
    AlgebraicStartWarning
        Why an algebraic start failed; a random one takes its place.
    """
    starts: list[MixtureFactors] = []
    failures: list[str] = []
    for position, (fallback, rng) in enumerate(zip(random, streams, strict=True)):
        if position % RANDOM_EVERY == RANDOM_EVERY - 1:
            starts.append(fallback)
            continue
        start = fallback
        for _ in range(MOST_ATTEMPTS):
            try:
                start = _one_start(data, sample_weight, rank, position, rng)
                break
            except InvalidInputError as error:  # AlgebraicStartError is one; blocks that were not counted are another
                reason = str(error)
        if start is fallback:
            failures.append(reason)
        starts.append(start)
    if failures:
        warn(
            f"{len(failures)} of {len(random)} starts are random, because the algebra failed: {failures[0]}",
            AlgebraicStartWarning,
        )
    return starts


def _one_start(
    data: Marginals | Codes, sample_weight: np.ndarray | None, rank: int, position: int, rng: np.random.Generator
) -> MixtureFactors:
    if isinstance(data, Codes) or data.n_samples > 0:
        n_bins = BIN_NUMBERS[position % len(BIN_NUMBERS)]
        partition = start_partition(data.n_variables, n_bins, rank, rng)
        if isinstance(data, Marginals):
            partition = counted_partition(data, partition, rng=rng)
        fits = min(partition.effective_sizes(coarse_sizes(data, n_bins, sample_weight))[:2]) >= rank
        merged = n_bins if fits else None
        return gevd_start(data, rank, partition, n_bins=merged, sample_weight=sample_weight, random_state=rng)
    start = gevd_start(data, rank, random_state=rng)
    # Exact histograms give exact factors; but if there are zeros, perhaps clipped, no multiplicative step leaves them.
    clipped = any((a == 0).any() for a in start.factors) or (start.weights == 0).any()
    return start.smooth(CLIPPED_SHARE, CLIPPED_WEIGHT_SHARE) if clipped else start
