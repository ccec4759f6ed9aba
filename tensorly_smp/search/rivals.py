"""Rivals of a fit: other mixtures of nearly the same density, in which two components are one and another is two.

Two components that differ in one variable only are, together, one product with another density of that variable. So the
mixture with the two as one has the same density, and its free component may be half of any other: such rivals form a
continuum, and which of them a search finds is chance. Read backwards, a component with two peaks in one variable may be
two components, wherever two others can be spared. Arrays are indexed by m sample, r component.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.special import expit, logsumexp

from tensorly_smp.identifiability.likeness import separations
from tensorly_smp.likelihood.comparison import Candidate
from tensorly_smp.likelihood.em import SmoothFit
from tensorly_smp.likelihood.steps import CellSamples, log_joint
from tensorly_smp.search.coarse import MidRanks, canonical, mixture_of, overlapping_bins, subsample_for_search
from tensorly_smp.search.moves import split_components

#: A pair is merged if that costs at most this, in nats, beyond the parameters of one component, which it saves.
MERGE_BELOW = 30.0
#: Pairs whose loss is computed, of more those that the fewest variables tell apart; pairs that are merged, and models
#: that are tried, at most.
MOST_LOOKED_AT, MOST_PAIRS, MOST_TRIED = 500, 3, 6
#: A density has two peaks if it falls between them to this share of the lower one, and has this share on either side.
VALLEY, LEAST_SIDE = 0.5, 0.05
#: Intervals of the coarse model in which components are split.
N_INTERVALS = 12
_LEAST = 1e-300


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
    pairs = _mergeable(samples, fit, tables, saved)
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


def _mergeable(
    samples: CellSamples, fit: SmoothFit, tables: np.ndarray, saved: float
) -> list[tuple[tuple[int, int], float]]:
    """Pairs of components, and the log-likelihood that is lost if each is one with the mean of their densities."""
    log_weights = fit.mixture.log_weights
    joint = log_joint(samples.membership, log_weights, tables)
    before = logsumexp(joint, axis=1)
    # Of every sample, the mass of all components, the largest being one, so that those of a pair can be taken away.
    peak = joint.max(axis=1)
    mass = np.exp(joint - peak[:, None])
    total = mass.sum(axis=1)
    found = []
    for pair in _nearest(samples, fit, tables):
        both = np.logaddexp(*(tables[:, r] + log_weights[r] for r in pair))  # with the weight of the two
        weight = np.logaddexp(*(log_weights[r] for r in pair))
        merged = samples.membership @ (both - weight) + weight
        others = np.maximum(total - mass[:, pair].sum(axis=1), 0.0)
        after = np.logaddexp(np.log(np.maximum(others, _LEAST)) + peak, merged)
        loss = float(samples.sample_weight @ (before - after))
        if loss <= MERGE_BELOW + saved:
            found.append((pair, loss))
    return sorted(found, key=lambda item: item[1])[:MOST_PAIRS]


def _nearest(samples: CellSamples, fit: SmoothFit, tables: np.ndarray) -> list[tuple[int, int]]:
    """Pairs of components, of many those that are told apart least once their two most different variables are out."""
    first, second = np.triu_indices(fit.mixture.rank, 1)
    if len(first) > MOST_LOOKED_AT:
        offsets = samples.cells.offsets
        probabilities = [np.exp(tables[a:b]) for a, b in pairwise(offsets)]
        separation = separations(probabilities, np.exp(fit.mixture.log_weights), fit.total_weight)
        rest = np.sort(separation[:, first, second], axis=0)[:-2].sum(axis=0)
        kept = np.sort(np.argsort(rest, kind="stable")[:MOST_LOOKED_AT])
        first = first[kept]
        second = second[kept]
    return list(zip(first.tolist(), second.tolist(), strict=True))


def _valleys(samples: CellSamples, fit: SmoothFit, tables: np.ndarray) -> list[tuple[int, np.ndarray, float]]:
    """Components with two peaks in a variable, each with its share (n_samples,) on the left; nothing is lost by it."""
    cells = samples.cells
    rank = fit.mixture.rank
    n_cells = cells.basis.n_cells
    found = []
    for t in range(len(cells.smooth)):
        rows = slice(t * n_cells, (t + 1) * n_cells)
        membership = samples.membership[:, rows]
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
