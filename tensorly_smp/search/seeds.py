"""An order of the samples that nothing but their values decides, some of them, and seeds of clusters."""

from __future__ import annotations

import numpy as np

from tensorly_smp.codes.weighted_values import evenly_weighted
from tensorly_smp.search.overlapping_bins import Fractions

#: Samples that are searched on, if there are more: so many for each component, within these limits.
SAMPLES_PER_COMPONENT, LEAST_SAMPLES, MOST_SAMPLES = 150, 1500, 4500
_GOLDEN = 0.6180339887498949


def canonical(fractions: Fractions) -> Fractions:
    """The samples in an order, and with weights, that do not depend on how they came; see :func:`canonical_rows`."""
    return fractions.take(*canonical_rows(fractions))


def canonical_rows(fractions: Fractions) -> tuple[np.ndarray, np.ndarray]:
    """Positions and weights of the samples in an order that does not depend on how they came.

    Equal samples become one of their added weights. The order of the rows, repeats in place of weights, the order of
    the variables, and their signs change nothing in it but where samples or variables tie.
    """
    centered = fractions.centered
    squares = (centered**2).sum(axis=1) * fractions.weights
    # Odd in a variable, even in all others: its sign tells the variable's direction, its size the variable's place.
    skewness = squares @ centered
    place = np.argsort(np.argsort(np.abs(skewness), kind="stable"), kind="stable")
    mixing = np.sign(skewness) * (1.0 + (place + 1) * _GOLDEN % 1.0)
    columns = np.where(np.isnan(fractions.values), 0.75 * np.abs(mixing), centered * mixing)[:, np.argsort(place)]
    # Sums decide, and where they tie the columns: multiples of the golden ratio are not independent, and other samples
    # of few values have the same sum.
    order = np.lexsort([*columns.T, columns.sum(axis=1)])
    starts = np.flatnonzero(np.concatenate([[True], (np.diff(columns[order], axis=0) != 0.0).any(axis=1)]))
    return order[starts], np.add.reduceat(fractions.weights[order], starts)


def thinned(fractions: Fractions, rank: int) -> Fractions:
    """Subsample large enough for a search, evenly spaced in cumulated weight, of equal weights but for repeats."""
    n_kept = min(max(SAMPLES_PER_COMPONENT * rank, LEAST_SAMPLES), MOST_SAMPLES)
    if len(fractions.values) <= n_kept:
        return fractions
    rows, repeats = evenly_weighted(fractions.weights, n_kept)
    return fractions.take(rows, repeats * (fractions.weights.sum() / n_kept))


def draw(cumulated: np.ndarray, fractions: np.ndarray) -> np.ndarray:
    """Positions (n_columns,) at which the cumulated weights (n_samples, n_columns) reach fractions of their totals."""
    found = [
        np.searchsorted(column, u * column[-1], side="right") for column, u in zip(cumulated.T, fractions, strict=True)
    ]
    return np.minimum(found, len(cumulated) - 1)


def distances(fractions: Fractions, rows: np.ndarray) -> np.ndarray:
    """Squared distances (n_samples, n_rows) of all samples from some."""
    points = fractions.centered
    squares = (points**2).sum(axis=1)
    found = squares[:, None] + squares[rows] - 2.0 * points @ points[rows].T
    return np.maximum(found, 0.0)


def seeded_posteriors(fractions: Fractions, rank: int, n_starts: int, rng: np.random.Generator) -> np.ndarray:
    """Posteriors (n_samples, n_starts, rank) around seeds that are drawn as k-means++ draws them.

    Every sample belongs to its nearest seed by nine tenths. (Arthur and Vassilvitskii, "k-means++: the advantages of
    careful seeding", SODA 2007.)
    """
    n_samples = len(fractions.values)
    weights = fractions.weights
    nearest = np.full((n_samples, n_starts), np.inf)
    owner = np.zeros((n_samples, n_starts), dtype=np.int64)
    chances = np.repeat(weights[:, None], n_starts, axis=1)
    for r in range(rank):
        rows = draw(np.cumsum(chances, axis=0), rng.random(n_starts))
        found = distances(fractions, rows)
        owner[found < nearest] = r
        nearest = np.minimum(nearest, found)
        chances = np.maximum(nearest * weights[:, None], 1e-300)
    posterior = np.full((n_samples, n_starts, rank), 0.1 / rank)
    np.put_along_axis(posterior, owner[:, :, None], 0.9 + 0.1 / rank, axis=2)
    return posterior
