"""Fewer, fuller bins for the algebra, and the way back to the bins of the data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tensorly_smp.codes.binning import Binning
from tensorly_smp.codes.encoding import Codes
from tensorly_smp.marginals.histograms import Marginals, univariate_marginals


def coarse_sizes(data: Marginals | Codes, n_bins: int, weights: np.ndarray | None = None) -> tuple[int, ...]:
    """Bins per variable that :func:`gevd_start` decomposes with this ``n_bins``; weights are those of codes."""
    return tuple(int(coarse_bins(share, n_bins).max()) + 1 for share in univariate_marginals(data, weights))


def coarse_bins(share: np.ndarray, n_bins: int) -> np.ndarray:
    """Merged bin of every bin: consecutive bins, about equally many samples each; empty bins join a neighbor."""
    target = min(n_bins, int(np.count_nonzero(share)))
    # Bins that hold more than an equal part count as one part, so that the others share what they leave.
    descending = np.sort(share)[::-1]
    rest = np.cumsum(descending[::-1])[::-1]
    for k in range(target):
        part = rest[k] / (target - k)
        if descending[k] <= part:
            break
    held = np.minimum(share, part)
    group = np.minimum(((np.cumsum(held) - held / 2) / part).astype(int), target - 1)
    # Numbers without gaps: a part may hold the middle of no bin.
    group = np.unique(group, return_inverse=True)[1]
    if target == 1:  # a constant; there are no variables of one bin
        group[-1] = 1
    return group


def sum_groups(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Sums over the bins of every merged bin."""
    return np.bincount(group, values, minlength=int(group.max()) + 1)


def refine(column: np.ndarray, share: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Merged bins back to bins, in proportion to the overall histogram."""
    total = sum_groups(share, group)
    within = share / np.where(total == 0, 1.0, total)[group] + 1e-6  # not zero where by chance no sample fell
    within /= sum_groups(within, group)[group]
    return column[group] * within[:, None]


def coarsen(data: Marginals | Codes, groups: list[np.ndarray]) -> Marginals | Codes:
    """The data at merged bins; ``groups`` has the merged bin of every bin of each variable."""
    sizes = [int(group.max()) + 1 for group in groups]
    binning = Binning.from_n_bins(sizes, data.binning.variables)
    if isinstance(data, Codes):
        values = np.stack([np.append(g, -1)[c] for g, c in zip(groups, data.values.T, strict=True)], axis=1)
        return Codes(values, binning)
    firsts = [np.searchsorted(group, np.arange(size)) for size, group in zip(sizes, groups, strict=True)]
    counts = tuple(
        _merge_counts(count, *(firsts[n] for n in triple))
        for triple, count in zip(data.triples.tolist(), data.counts, strict=True)
    )
    return replace(data, counts=counts, binning=binning)


def _merge_counts(count: np.ndarray, *firsts: np.ndarray) -> np.ndarray:
    """One histogram at merged bins, given the first bin of each along its three modes: they are runs of bins."""
    for axis, first in enumerate(firsts):
        count = np.add.reduceat(count, first, axis=axis)
    return count
