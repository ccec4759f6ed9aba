"""Where the starts of a fit come from: algebra, chance, or the caller."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from tensorly_smp.codes.encoding import Codes
from tensorly_smp.exceptions import AlgebraicStartWarning, InvalidInputError, InvalidTypeError
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.initializers.coupled_gevd import START_BINS, gevd_start, start_partition
from tensorly_smp.initializers.merging import merged_sizes
from tensorly_smp.initializers.random_start import random_start
from tensorly_smp.marginals.histograms import Marginals
from tensorly_smp.marginals.partition import Partition, default_partition

#: Every so many starts one is random, in case the algebra is misled by the same noise every time.
RANDOM_EVERY = 4
#: Bins per variable of successive algebraic starts.
BIN_NUMBERS = (START_BINS, 8)
MOST_PARTITIONS_TRIED = 200
#: Partitions tried before a start is given up: in one of them a variable that carries nothing may stand alone.
MOST_ATTEMPTS = 4
#: Shares of the uniform column, and of uniform weights, in a start whose negative entries were clipped.
CLIPPED_SHARE, CLIPPED_WEIGHT_SHARE = 0.01, 0.1


def random_starts(
    n_bins: tuple[int, ...], rank: int, univariate_marginals: tuple[np.ndarray, ...], streams: list[np.random.Generator]
) -> list[MixtureFactors]:
    """One random start per stream."""
    return [random_start(n_bins, rank, rng, univariate_marginals) for rng in streams]


def gevd_starts(
    data: Marginals | Codes,
    rank: int,
    random: list[MixtureFactors],
    streams: list[np.random.Generator],
    sample_weight: np.ndarray | None = None,
    agree: Callable[..., MixtureFactors | None] | None = None,
) -> list[MixtureFactors]:
    """Algebraic starts with different partitions and numbers of bins, and some random ones among them.

    Parameters
    ----------
    data : Marginals or Codes
        What :func:`gevd_start` decomposes.
    rank : int
    random : list of MixtureFactors
        One random start per stream: every fourth is used, and those of streams whose algebra failed.
    streams : list of Generator
    sample_weight : ndarray (n_samples,), optional
        Of codes: non-negative, a sample of weight 2 counts twice.
    agree : callable, optional
        ``agree(*starts)`` of the first two starts, and then of the first three: what it returns, unless None, is the
        only one. It is not asked about random ones.

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
        found = _first_success(data, sample_weight, rank, position, rng)
        if isinstance(found, str):
            failures.append(found)
        starts.append(fallback if isinstance(found, str) else found)
        if agree is not None and 0 < position < RANDOM_EVERY - 1 and not failures:
            agreed = agree(*starts)
            if agreed is not None:
                return [_checked_start(agreed, starts[0])]
    if failures:
        warnings.warn(
            f"{len(failures)} of {len(random)} starts are random, because the algebra failed: {failures[0]}",
            AlgebraicStartWarning,
            stacklevel=4,
        )
    return starts


def _checked_start(found: Any, like: MixtureFactors) -> MixtureFactors:
    if not isinstance(found, MixtureFactors):
        raise InvalidTypeError(f"agree has returned {type(found).__name__}; expected MixtureFactors, or None.")
    if found.rank != like.rank or found.n_bins != like.n_bins:
        raise InvalidInputError(
            f"agree has returned factors of rank {found.rank} with {found.n_bins} bins; expected rank {like.rank} and "
            f"{like.n_bins} bins."
        )
    return found


def _first_success(
    data: Marginals | Codes, sample_weight: np.ndarray | None, rank: int, position: int, rng: np.random.Generator
) -> MixtureFactors | str:
    """The start, or why the last of several partitions failed."""
    for _ in range(MOST_ATTEMPTS):
        try:
            return _one_start(data, sample_weight, rank, position, rng)
        except InvalidInputError as error:  # AlgebraicStartError is one; blocks that were not counted are another
            reason = str(error)
    return reason


def _one_start(
    data: Marginals | Codes, sample_weight: np.ndarray | None, rank: int, position: int, rng: np.random.Generator
) -> MixtureFactors:
    if isinstance(data, Codes) or data.n_samples > 0:
        n_bins = BIN_NUMBERS[position % len(BIN_NUMBERS)]
        partition = _counted_partition(data, start_partition(data.n_variables, n_bins, rank, rng), rng)
        fits = min(partition.effective_sizes(merged_sizes(data, n_bins, sample_weight))[:2]) >= rank
        merged = n_bins if fits else None
        return gevd_start(data, rank, partition, n_bins=merged, sample_weight=sample_weight, random_state=rng)
    partition = _counted_partition(data, default_partition(data.n_variables), rng)
    start = gevd_start(data, rank, partition, random_state=rng)
    # Exact histograms give exact factors; but if there are zeros, perhaps clipped, no multiplicative step leaves them.
    clipped = any((a == 0).any() for a in start.factors) or (start.weights == 0).any()
    return start.smooth(CLIPPED_SHARE, CLIPPED_WEIGHT_SHARE) if clipped else start


def _counted_partition(data: Marginals | Codes, wanted: Partition, rng: np.random.Generator) -> Partition:
    """The wanted partition, or the first one found all of whose blocks have been counted; else the wanted one."""
    if isinstance(data, Codes):
        return wanted
    counted = {tuple(t) for t in data.triples[data.totals > 0].tolist()}
    for partition in _candidates(wanted, data.n_variables, rng):
        if all(tuple(sorted(block)) in counted for block in product(*partition)):
            return partition
    return wanted


def _candidates(wanted: Partition, n_variables: int, rng: np.random.Generator) -> Iterator[Partition]:
    yield wanted
    for _ in range(MOST_PARTITIONS_TRIED):
        groups = rng.integers(3, size=n_variables)
        sets = [tuple(np.flatnonzero(groups == g).tolist()) for g in range(3)]
        if all(sets):
            yield Partition(*sets)
