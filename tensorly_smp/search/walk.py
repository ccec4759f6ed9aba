"""Steps to the next number of components: splits and merges of the best optimum that is known for its neighbor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tensorly_smp._support.iteration import StopReason
from tensorly_smp.likelihood.steps import CellSamples, SmoothMixture
from tensorly_smp.search.moves import merge_components, split_components
from tensorly_smp.search.overlapping_bins import Fractions
from tensorly_smp.search.split_merge import (
    FOLLOWED_BELOW,
    LEAST_GAIN,
    Optimum,
    SearchResult,
    optimize,
    optimize_posterior,
    split_and_merge,
)


@dataclass(eq=False)
class Walked:
    """The best that is known for one number of components.

    Attributes
    ----------
    result : SearchResult
        Of the search, with what was found from a neighbor in front if that is better.
    origin : {"search", "split", "merge"}
        Where the best optimum comes from.
    """

    result: SearchResult
    origin: str = "search"

    @property
    def best(self) -> Optimum:
        """The best optimum."""
        return self.result.best


def walk(
    fractions: Fractions,
    levels: Sequence[CellSamples],
    ranks: Sequence[int],
    make_streams: Callable[[], Sequence[np.random.Generator]],
) -> dict[int, Walked]:
    """Search for the best mixtures of several numbers of components, each helped by its neighbors.

    Every number has searches of its own, one for every stream. Then, upwards, the components of the best optimum that
    gain most by it are split, and downwards the pairs that lose least are merged; where this leads higher than the
    search, it takes the first place, after a search for better moves from there.

    Parameters
    ----------
    fractions : Fractions
        The samples to search on, in canonical order.
    levels : sequence of CellSamples
        These samples in :func:`overlapping_bins`, from coarse to fine.
    ranks : sequence of int
        Numbers of components, increasing.
    make_streams : callable
        Generators in the same states at every call: every number begins with the same.

    Returns
    -------
    dict of {rank: Walked}

    Raises
    ------
    KeyboardInterrupt

    Examples
    --------
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> from tensorly_smp.search.overlapping_bins import Fractions, overlapping_bins
    >>> from tensorly_smp.search.walk import walk
    >>> X = smp.datasets.make_smooth_mixture("gaussian", 500, 4, 3, random_state=0).X
    >>> fractions = Fractions.of(X, (), np.ones(500))
    >>> levels = [overlapping_bins(fractions, 12)]
    >>> found = walk(fractions, levels, [2, 3, 4], lambda: [np.random.default_rng(0)])
    >>> bool(found[2].best.value < found[3].best.value < found[4].best.value)
    True
    """
    found = {}
    for rank in ranks:
        results = [split_and_merge(fractions, levels, rank, rng) for rng in make_streams()]
        if StopReason.INTERRUPTED in {result.status for result in results}:
            raise KeyboardInterrupt
        found[rank] = Walked(max(results, key=lambda result: result.best.value))
    for rank, following in pairwise(ranks):
        if following <= 2 * rank:
            start = _split(fractions, found[rank].best, following - rank, make_streams()[0])
            _take_if_better(found[following], start, "split", fractions, levels, make_streams()[0])
    for following, rank in pairwise(reversed(ranks)):
        if following <= 2 * rank:
            start = _merged(found[following].best, following - rank)
            _take_if_better(found[rank], start, "merge", fractions, levels, make_streams()[0])
    return found


def _take_if_better(
    known: Walked,
    start: Optimum,
    origin: str,
    fractions: Fractions,
    levels: Sequence[CellSamples],
    rng: np.random.Generator,
) -> None:
    """Put what moves from an optimum lead to in the first place, if it is higher than what is known."""
    if start.value < known.best.value - FOLLOWED_BELOW:
        return
    better = split_and_merge(fractions, levels[-1:], start.posterior.shape[1], rng, start=start.posterior)
    if better.best.value > known.best.value + LEAST_GAIN:
        known.result.optima.insert(0, better.best)
        known.origin = origin


def _split(fractions: Fractions, best: Optimum, n_more: int, rng: np.random.Generator) -> Optimum:
    """The optimum next to the one where the components that gain most by it are split."""
    mixture = best.mixture
    splits = split_components(best.samples, fractions, mixture, best.posterior, rng)
    chosen = np.argsort(-splits.gains, kind="stable")[:n_more]
    kept = np.setdiff1d(np.arange(len(splits.gains)), chosen)
    halves = [splits.tables[:, chosen, half] for half in (0, 1)]
    shares = [mixture.log_weights[chosen] + splits.log_weights[chosen, half] for half in (0, 1)]
    start = SmoothMixture(
        log_weights=np.concatenate([mixture.log_weights[kept], *shares]),
        coefficients=np.empty((len(mixture.coefficients), 0, len(kept) + 2 * len(chosen))),
        tables=np.hstack([mixture.tables[:, kept], *halves]),
    )
    return optimize(best.samples, start)


def _merged(best: Optimum, n_less: int) -> Optimum:
    """The optimum next to the one where pairs of components that lose least by it are merged."""
    merges = merge_components(best.samples, best.mixture, best.posterior)
    posterior = best.posterior.copy()
    gone: set[int] = set()
    used: set[int] = set()
    for pair in merges.pairs[:, np.argsort(merges.losses, kind="stable")].T.tolist():
        kept, freed = pair
        if len(gone) < n_less and not {kept, freed} & used:
            posterior[:, kept] += posterior[:, freed]
            gone.add(freed)
            used |= {kept, freed}
    # Too few disjoint pairs among those that were computed: the smallest components join the others.
    sizes = posterior.sum(axis=0)
    smallest = [r for r in np.argsort(sizes, kind="stable").tolist() if r not in gone]
    gone |= set(smallest[: n_less - len(gone)])
    left = [r for r in range(posterior.shape[1]) if r not in gone]
    shared = np.maximum(posterior[:, left], 1e-12)
    return optimize_posterior(best.samples, shared / shared.sum(axis=1, keepdims=True))
