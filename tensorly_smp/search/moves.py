"""Moves of the search: two components become one, another one becomes two.

All candidates of a round are computed at once, side by side in the columns of one matrix product. Arrays are indexed by
m sample, r component, p pair of components, k candidate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy.special import expit

from tensorly_smp.codes.encoding import PackedIndicators
from tensorly_smp.likelihood.comparison import Candidate, separations
from tensorly_smp.likelihood.em import SmoothFit
from tensorly_smp.likelihood.steps import CellSamples, Mixture, log_joint
from tensorly_smp.search.coarse import (
    MidRanks,
    canonical,
    distances,
    draw,
    log_tables,
    mixture_of,
    overlapping_bins,
    subsample_for_search,
)

#: Passes end before the last where posteriors, or relative objectives, change by no more than this: with many variables
#: a few are enough.
SETTLED = 1e-13
#: Attempts to split every component, and EM passes of each.
SPLIT_TRIES, SPLIT_PASSES = 2, 8
#: Candidates of a round, and their EM passes, in which all other components stay as they are.
MOST_CANDIDATES, PARTIAL_PASSES = 8, 6
#: Pairs of components whose merged likelihood is computed; of more components, those with the most alike posteriors,
#: beside a fit those that the fewest variables tell apart.
MOST_PAIRS = 500
#: Posterior below which a sample is no member of a component whose split has much to do: more products than this.
LEAST_MEMBER, LARGE = 1e-9, 2_000_000
_LEAST = 1e-300
_LEAST_WEIGHT = 1e-60
_LARGEST_EXPONENT = 700.0


@dataclass(frozen=True, eq=False)
class Splits:
    """Every component as two.

    Attributes
    ----------
    gains : ndarray (rank,)
        Rise of the objective, in nats, with the posterior of the component shared between its halves.
    log_weights : ndarray (rank, 2)
        Logarithms of the weights of the halves, relative to their component.
    tables : ndarray (n_rows, rank, 2)
        Log-probabilities of the bins.
    """

    gains: np.ndarray
    log_weights: np.ndarray
    tables: np.ndarray


@dataclass(frozen=True, eq=False)
class Merges:
    """Pairs of components as one.

    Attributes
    ----------
    pairs : ndarray of int (2, n_pairs)
    losses : ndarray (n_pairs,)
        Fall of the objective, in nats.
    log_weights : ndarray (n_pairs,)
    tables : ndarray (n_rows, n_pairs)
    """

    pairs: np.ndarray
    losses: np.ndarray
    log_weights: np.ndarray
    tables: np.ndarray


def split_components(
    samples: CellSamples,
    mid_ranks: MidRanks,
    mixture: Mixture,
    posterior: np.ndarray,
    rng: np.random.Generator,
) -> Splits:
    """Split every component by EM within its own posterior (n_samples, rank), from two of its samples as seeds."""
    rank = posterior.shape[1]
    component = np.tile(np.arange(rank), SPLIT_TRIES)
    n_halves = len(component)
    owned = posterior * samples.sample_weight[:, None]
    pseudo_count = float(samples.prior[0, 0])
    # One pseudo-joint per component: what its samples have in it alone.
    whole = np.einsum("mr,mr->r", owned, samples.membership @ mixture.tables)
    whole += pseudo_count * mixture.tables.sum(axis=0)
    totals = np.maximum(owned.sum(axis=0), _LEAST)
    owned = np.maximum(owned[:, component], _LEAST)
    to_first = distances(mid_ranks, draw(np.cumsum(owned, axis=0), rng.random(n_halves)))
    second = draw(np.cumsum(np.maximum(owned * to_first, _LEAST), axis=0), rng.random(n_halves))
    to_second = distances(mid_ranks, second)
    half = np.where(to_first < to_second, 0.9, 0.1)
    half[to_first == to_second] = 0.5
    tables = np.empty((len(mixture.tables), n_halves, 2))
    log_weights = np.empty((n_halves, 2))
    gains = np.empty(n_halves)
    # Where components share few samples and there is much to do, a split looks at the samples of its component alone.
    members = posterior > LEAST_MEMBER
    is_shared = np.count_nonzero(members) > 0.5 * members.size or samples.membership.nnz * n_halves < LARGE
    for r in [None] if is_shared else range(rank):
        rows = slice(None) if r is None else np.flatnonzero(members[:, r])
        columns = slice(None) if r is None else slice(r, None, rank)
        membership = samples.membership if r is None else samples.membership[rows]
        transposed = samples.transposed if r is None else membership.T
        weights = owned[rows, columns]
        share = half[rows, columns]
        for _ in range(SPLIT_PASSES):
            shares = np.stack([weights * share, weights * (1.0 - share)], axis=2)
            shared = shares.reshape(len(shares), 2 * shares.shape[1])
            found = log_tables(samples, transposed @ shared)
            sums = shared.sum(axis=0).reshape(-1, 2) / totals[component[columns], None]
            logs = np.log(np.maximum(sums, _LEAST_WEIGHT))
            joint = (membership @ found).reshape(*share.shape, 2) + logs
            gap = joint[:, :, 1] - joint[:, :, 0]
            before = share
            share = 1.0 / (1.0 + np.exp(np.minimum(gap, _LARGEST_EXPONENT)))
            if np.abs(share - before).max(initial=0.0) <= SETTLED:
                break
        log_sums = np.maximum(joint[:, :, 0], joint[:, :, 1]) + np.log1p(np.exp(-np.abs(gap)))
        tables[:, columns] = found.reshape(len(found), -1, 2)
        log_weights[columns] = logs
        penalty = pseudo_count * found.sum(axis=0).reshape(-1, 2).sum(axis=1)
        gains[columns] = np.einsum("mk,mk->k", weights, log_sums) + penalty
    gains -= whole[component]
    best = gains.reshape(SPLIT_TRIES, rank).argmax(axis=0) * rank + np.arange(rank)
    return Splits(gains[best], log_weights[best], tables[:, best])


def merge_components(samples: CellSamples, mixture: Mixture, posterior: np.ndarray) -> Merges:
    """Merge pairs of components, each with the M-step of their common posterior, all others as they are."""
    rank = posterior.shape[1]
    pairs = np.stack(np.triu_indices(rank, 1))
    owned = posterior * samples.sample_weight[:, None]
    if pairs.shape[1] > MOST_PAIRS:
        likeness = (posterior.T @ owned)[tuple(pairs)]
        lengths = np.sqrt((posterior * owned).sum(axis=0))
        likeness = likeness / np.maximum(lengths[pairs[0]] * lengths[pairs[1]], _LEAST)
        pairs = pairs[:, np.sort(np.argsort(-likeness, kind="stable")[:MOST_PAIRS])]
    first, second = pairs
    counts = samples.transposed @ owned
    weights = owned.sum(axis=0)
    tables = log_tables(samples, counts[:, first] + counts[:, second])
    log_weights = np.log(np.maximum((weights[first] + weights[second]) / samples.total_weight, _LEAST_WEIGHT))
    joint = log_joint(samples.membership, mixture.log_weights, mixture.tables)
    peak = joint.max(axis=1, keepdims=True)
    mass = np.exp(joint - peak)
    total = mass.sum(axis=1, keepdims=True)
    merged = np.exp(np.minimum(log_joint(samples.membership, log_weights, tables) - peak, _LARGEST_EXPONENT))
    merged += np.maximum(total - mass[:, first] - mass[:, second], 0.0)
    losses = samples.sample_weight @ (np.log(total) - np.log(np.maximum(merged, _LEAST)))
    sums = mixture.tables.sum(axis=0)
    losses += float(samples.prior[0, 0]) * (sums[first] + sums[second] - tables.sum(axis=0))
    return Merges(pairs, losses, log_weights, tables)


def candidates(samples: CellSamples, mixture: Mixture, splits: Splits, merges: Merges) -> list[tuple[float, Mixture]]:
    """Best combinations of a merge and a split of another component, after a few EM passes of the three.

    Returns
    -------
    list of (value, mixture)
        Objective and mixture, best first.
    """
    estimated = splits.gains - merges.losses[:, None]
    every = np.arange(merges.pairs.shape[1])
    estimated[every, merges.pairs[0]] = -np.inf
    estimated[every, merges.pairs[1]] = -np.inf
    order = np.argsort(-estimated, axis=None, kind="stable")[:MOST_CANDIDATES]
    pair, split = np.unravel_index(order[np.isfinite(estimated.ravel()[order])], estimated.shape)
    # The components of every candidate: merged, one half in place of the merged pair's second, the other half.
    trio = np.stack([*merges.pairs[:, pair], split])
    tables = np.stack([merges.tables[:, pair], splits.tables[:, split, 0], splits.tables[:, split, 1]], axis=2)
    halves = mixture.log_weights[split][:, None] + splits.log_weights[split]
    log_weights = np.concatenate([merges.log_weights[pair][:, None], halves], axis=1)
    joint = log_joint(samples.membership, mixture.log_weights, mixture.tables)
    peak = joint.max(axis=1)
    mass = np.exp(joint - peak[:, None])
    others = np.maximum(mass.sum(axis=1)[:, None] - mass[:, trio].sum(axis=1), 0.0)
    share = np.exp(mixture.log_weights)[trio].sum(axis=0)
    sums = mixture.tables.sum(axis=0)
    pseudo_count = float(samples.prior[0, 0])
    kept = pseudo_count * (sums.sum() - sums[trio].sum(axis=0))
    n_samples = len(peak)
    n_rows = len(tables)
    n_tried = len(pair)
    before = np.full((n_samples, 3 * n_tried), np.inf)
    for number in range(PARTIAL_PASSES + 1):
        found = (samples.membership @ tables.reshape(n_rows, -1)).reshape(n_samples, n_tried, 3)
        found = np.exp(np.minimum(found + log_weights - peak[:, None, None], _LARGEST_EXPONENT))
        total = np.maximum(found.sum(axis=2) + others, _LEAST)
        owned = (found / total[:, :, None] * samples.sample_weight[:, None, None]).reshape(n_samples, -1)
        if number == PARTIAL_PASSES or np.abs(owned - before).max(initial=0.0) <= SETTLED:
            break
        before = owned
        tables = log_tables(samples, samples.transposed @ owned).reshape(n_rows, n_tried, 3)
        weights = np.maximum(owned.sum(axis=0).reshape(n_tried, 3), _LEAST_WEIGHT)
        log_weights = np.log(weights / weights.sum(axis=1, keepdims=True) * share[:, None])
    values = samples.sample_weight @ (peak[:, None] + np.log(total)) + kept + pseudo_count * tables.sum(axis=(0, 2))
    changed = []
    for k in np.argsort(-values, kind="stable"):
        moved_tables = mixture.tables.copy()
        moved_tables[:, trio[:, k]] = tables[:, k]
        moved_weights = mixture.log_weights.copy()
        moved_weights[trio[:, k]] = log_weights[k]
        moved = replace(mixture, log_weights=moved_weights, tables=moved_tables)
        changed.append((float(values[k]), moved))
    return changed


# ---- rivals of a fit: mixtures of nearly the same density, in which two components are one and another is two ----
#
# Two components that differ in one variable only are, together, one product with another density of that variable. So
# the mixture with the two as one has the same density, and its free component may be half of any other: such rivals
# form a continuum, and which of them a search finds is chance. Read backwards, a component with two peaks in one
# variable may be two components, wherever two others can be spared.

#: A pair is merged if that costs at most this, in nats, beyond the parameters of one component, which it saves.
MERGE_BELOW = 30.0
#: Pairs that are merged, and models that are tried, at most.
MOST_MERGED, MOST_TRIED = 3, 6
#: Splits or merges of a fit from which those of another number of components start.
MOST_NEIGHBORS = 4
#: Samples by which most pairs are seen to be too far apart.
FEW_SAMPLES = 1000
#: A density has two peaks if it falls between them to this share of the lower one, and has this share on either side.
VALLEY, LEAST_SIDE = 0.5, 0.05
#: Intervals of the coarse model in which components are split.
N_INTERVALS = 12


def rival_moves(samples: CellSamples, fit: SmoothFit, values: np.ndarray) -> list[Candidate]:
    """Models to try beside a fit: its nearest pairs of components as one, and another component as two.

    In the clear case, where no two components can be one at a small loss, that is found in milliseconds.

    Parameters
    ----------
    samples : CellSamples
        On the cells of the fit.
    fit : SmoothFit
    values : ndarray (n_samples, n_variables)
        The same samples.

    Returns
    -------
    list of Candidate
        Posteriors to start from, the most promising first; empty if no pair can be merged. A pair of components is one
        in the place of its first, and the place of its second has one half of another component, which is two; the
        criterion is what is gained, in nats, by a rough guess.
    """
    rank = fit.mixture.rank
    if rank < 2:
        return []
    saved = fit.n_parameters / rank
    tables = samples.log_tables(fit.mixture)
    pairs = _mergeable(samples, fit, tables, MERGE_BELOW + saved)[:MOST_MERGED]
    if not pairs:
        return []
    halves = [*_valleys(samples, fit, tables), *_splits(samples, fit, values, saved)]
    moves = [
        Candidate(_moved(fit.posterior, pair, split, half), "move", criterion=gain - loss)
        for pair, loss in pairs
        for split, half, gain in halves
        if split not in pair or rank == 2
    ]
    return sorted(moves, key=lambda move: -move.criterion)[:MOST_TRIED]


def neighbors(samples: CellSamples, fit: SmoothFit, values: np.ndarray, rank: int) -> list[Candidate]:
    """Models with one component more or fewer next to a fit: its best splits, or its nearest pairs as one.

    Parameters
    ----------
    samples, fit, values
        As for :func:`rival_moves`.
    rank : int
        Number of components: one more than the fit has, or one less.

    Returns
    -------
    list of Candidate
        Posteriors to start from.
    """
    found = []
    if rank > fit.mixture.rank:
        halves = sorted(_splits(samples, fit, values, 0.0), key=lambda half: -half[2])
        for split, half, _ in halves[:MOST_NEIGHBORS]:
            moved = np.column_stack([fit.posterior, fit.posterior[:, split] * (1.0 - half)])
            moved[:, split] *= half
            found.append(Candidate(moved, "split"))
        return found
    for (kept, freed), _ in _mergeable(samples, fit, samples.log_tables(fit.mixture), np.inf)[:MOST_NEIGHBORS]:
        moved = fit.posterior.copy()
        moved[:, kept] += moved[:, freed]
        found.append(Candidate(np.delete(moved, freed, axis=1), "merge"))
    return found


def _mergeable(
    samples: CellSamples, fit: SmoothFit, tables: np.ndarray, most_lost: float
) -> list[tuple[tuple[int, int], float]]:
    """Pairs of components, and the log-likelihood that is lost if each is one with the mean of their densities.

    Those that lose least are the first, and none loses more than `most_lost`.
    """
    log_weights = fit.mixture.log_weights
    weighted = np.exp(tables + log_weights)  # the logarithm of a sum takes a fifth of the time of numpy's logaddexp
    found = [(pair, 0.0) for pair in _nearest(samples, fit, tables)]
    # Where some of the samples lose too much, all lose more.
    for step in sorted({1, -(-samples.membership.shape[0] // FEW_SAMPLES)}, reverse=True):
        membership = samples.membership[::step]
        joint = log_joint(membership, log_weights, tables)
        # Of every sample, the mass of all components, the largest being one, so that those of a pair can be taken away.
        peak = joint.max(axis=1)
        mass = np.exp(joint - peak[:, None])
        total = mass.sum(axis=1)
        for number, (pair, _) in enumerate(found):
            both = np.log(np.maximum(weighted[:, pair].sum(axis=1), _LEAST))  # with the weight of the two
            weight = np.logaddexp(*(log_weights[r] for r in pair))
            others = np.maximum(total - mass[:, pair[0]] - mass[:, pair[1]], _LEAST)
            after = np.logaddexp(np.log(others), membership @ (both - weight) + weight - peak)
            found[number] = pair, float(samples.sample_weight[::step] @ (np.log(total) - after))
        found = [each for each in found if each[1] <= most_lost]
        if not found:
            break
    return sorted(found, key=lambda item: item[1])


def _nearest(samples: CellSamples, fit: SmoothFit, tables: np.ndarray) -> list[tuple[int, int]]:
    """Pairs of components, of many those that are told apart least once their two most different variables are out."""
    first, second = np.triu_indices(fit.mixture.rank, 1)
    if len(first) > MOST_PAIRS:
        offsets = samples.cells.offsets
        probabilities = [np.exp(tables[a:b]) for a, b in pairwise(offsets)]
        separation = separations(probabilities, np.exp(fit.mixture.log_weights), fit.total_weight)
        rest = np.sort(separation[:, first, second], axis=0)[:-2].sum(axis=0)
        kept = np.sort(np.argsort(rest, kind="stable")[:MOST_PAIRS])
        first = first[kept]
        second = second[kept]
    return list(zip(first.tolist(), second.tolist(), strict=True))


def _valleys(samples: CellSamples, fit: SmoothFit, tables: np.ndarray) -> list[tuple[int, np.ndarray, float]]:
    """Components with two peaks in a variable, each with its share (n_samples,) on the left; nothing is lost by it."""
    cells = samples.cells
    rank = fit.mixture.rank
    n_cells = cells.basis.n_cells
    every = samples.membership
    sparse = every.matrix if isinstance(every, PackedIndicators) else every
    found = []
    for t in range(len(cells.smooth)):
        rows = slice(t * n_cells, (t + 1) * n_cells)
        membership = sparse[:, rows]
        for r in range(rank):
            cut = _valley(np.exp(tables[rows, r]))
            if cut is None:
                continue
            left = np.exp(tables[rows, r])[:cut].sum()
            inside = membership[:, :cut].sum(axis=1)
            is_missing = membership.sum(axis=1) < 0.5
            found.append((r, np.where(is_missing, left, inside), 0.0))
    return found


def _valley(density: np.ndarray) -> int | None:
    """First cell right of the deepest valley of a density (n_cells,) with two peaks; None if it has one."""
    peaks = np.minimum(np.maximum.accumulate(density), np.maximum.accumulate(density[::-1])[::-1])
    below = np.cumsum(density)
    sides = np.minimum(below, 1.0 - below)
    depth = np.where(sides >= LEAST_SIDE, density / np.maximum(peaks, _LEAST), 1.0)
    cut = int(np.argmin(depth))
    return cut if depth[cut] <= VALLEY else None


def _splits(
    samples: CellSamples, fit: SmoothFit, values: np.ndarray, saved: float
) -> list[tuple[int, np.ndarray, float]]:
    """Every component as two by EM on a coarse model: its share (n_samples,) of the first half, and what is gained.

    Seeds are drawn with a stream of its own, the same in every fit: rivals depend on the samples alone, not on their
    order.
    """
    weights = samples.sample_weight
    rank = fit.mixture.rank
    counted = weights > 0
    every = MidRanks.of(values[counted], samples.cells.discrete, weights[counted])
    some = subsample_for_search(canonical(every), rank)
    of_every = overlapping_bins(every, N_INTERVALS)
    of_some = overlapping_bins(some, N_INTERVALS)
    mixture = mixture_of(of_every, fit.posterior[counted])
    expected = of_some.e_step(mixture.log_weights, mixture.tables)
    splits = split_components(of_some, some, mixture, expected.posterior, np.random.default_rng(0))
    found = []
    for r in range(rank):
        joint = of_every.membership @ splits.tables[:, r] + splits.log_weights[r]
        half = np.full(len(values), 0.5)
        half[counted] = expit(joint[:, 0] - joint[:, 1])
        found.append((r, half, float(splits.gains[r]) - saved))
    return found


def _moved(posterior: np.ndarray, pair: tuple[int, int], split: int, half: np.ndarray) -> np.ndarray:
    """Posteriors with a pair of components as one, and another component shared between two."""
    moved = posterior.copy()
    kept, freed = pair
    moved[:, kept] += moved[:, freed]
    whole = kept if split == freed else split
    moved[:, freed] = moved[:, whole] * (1.0 - half)
    moved[:, whole] *= half
    return moved
