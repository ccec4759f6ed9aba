"""Moves of the search: two components become one, another one becomes two.

All candidates of a round are computed at once, side by side in the columns of one matrix product. Arrays are indexed by
m sample, r component, p pair of components, k candidate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tensorly_smp.likelihood.steps import CellSamples, Mixture, log_joint
from tensorly_smp.search.coarse import MidRanks, distances, draw, log_tables

#: Attempts to split every component, and EM passes of each.
SPLIT_TRIES, SPLIT_PASSES = 2, 8
#: Candidates of a round, and their EM passes, in which all other components stay as they are.
MOST_CANDIDATES, PARTIAL_PASSES = 8, 6
#: Pairs of components whose merged likelihood is computed; of more components, those with the most alike posteriors.
MOST_PAIRS = 500
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
    n_samples, rank = posterior.shape
    component = np.tile(np.arange(rank), SPLIT_TRIES)
    n_halves = len(component)
    owned = posterior * samples.sample_weight[:, None]
    pseudo_count = float(samples.prior[0, 0])
    # One pseudo-joint per component: what its samples have in it alone.
    whole = np.einsum("mr,mr->r", owned, samples.membership @ mixture.tables) + samples.prior[
        0, 0
    ] * mixture.tables.sum(axis=0)
    totals = np.maximum(owned.sum(axis=0), _LEAST)
    owned = np.maximum(owned[:, component], _LEAST)
    to_first = distances(mid_ranks, draw(np.cumsum(owned, axis=0), rng.random(n_halves)))
    second = draw(np.cumsum(np.maximum(owned * to_first, _LEAST), axis=0), rng.random(n_halves))
    to_second = distances(mid_ranks, second)
    half = np.where(to_first < to_second, 0.9, 0.1)
    half[to_first == to_second] = 0.5
    for _ in range(SPLIT_PASSES):
        shared = np.stack([owned * half, owned * (1.0 - half)], axis=2).reshape(n_samples, -1)
        tables = log_tables(samples, samples.transposed @ shared)
        log_weights = np.log(np.maximum(shared.sum(axis=0).reshape(-1, 2) / totals[component, None], _LEAST_WEIGHT))
        joint = (samples.membership @ tables).reshape(n_samples, n_halves, 2) + log_weights
        gap = joint[:, :, 1] - joint[:, :, 0]
        half = 1.0 / (1.0 + np.exp(np.minimum(gap, _LARGEST_EXPONENT)))
    log_sums = np.maximum(joint[:, :, 0], joint[:, :, 1]) + np.log1p(np.exp(-np.abs(gap)))
    tables = tables.reshape(-1, n_halves, 2)
    gains = np.einsum("mk,mk->k", owned, log_sums) + pseudo_count * tables.sum(axis=(0, 2)) - whole[component]
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
    for number in range(PARTIAL_PASSES + 1):
        found = (samples.membership @ tables.reshape(n_rows, -1)).reshape(n_samples, n_tried, 3)
        found = np.exp(np.minimum(found + log_weights - peak[:, None, None], _LARGEST_EXPONENT))
        total = np.maximum(found.sum(axis=2) + others, _LEAST)
        if number == PARTIAL_PASSES:
            break
        owned = (found / total[:, :, None] * samples.sample_weight[:, None, None]).reshape(n_samples, -1)
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
