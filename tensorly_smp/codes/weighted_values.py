"""Weights are numbers of copies: quantiles, counts and sizes are those of samples that are repeated as often."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

#: Sums of weights closer than this, relatively, are equal but for rounding.
ROUNDING = 1e-12


def merge_equal_rows(values: np.ndarray, sample_weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Equal samples become one of their added weight, so that counted patterns and repeated rows are the same samples.

    Those that are left are in the order in which they first come.

    Parameters
    ----------
    values : ndarray (n_samples, n_variables)
        NaN = missing.
    sample_weight : ndarray (n_samples,) or None

    Returns
    -------
    values : ndarray (n_different, n_variables)
    sample_weight : ndarray (n_different,) or None

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.codes.weighted_values import merge_equal_rows
    >>> values, counts = merge_equal_rows(np.array([[2.0, np.nan], [1.0, 5.0], [2.0, np.nan]]), None)
    >>> values.tolist(), counts.tolist()
    ([[2.0, nan], [1.0, 5.0]], [2.0, 1.0])
    """
    if any(len(np.unique(column)) == len(column) for column in values.T):
        return values, sample_weight  # a glance tells most continuous ones
    order = np.lexsort(values.T[::-1])
    ordered = values[order]
    is_equal = (ordered[1:] == ordered[:-1]) | (np.isnan(ordered[1:]) & np.isnan(ordered[:-1]))
    starts = np.flatnonzero(np.concatenate([[True], ~is_equal.all(axis=1)]))
    if len(starts) == len(values):
        return values, sample_weight
    weights = np.ones(len(values)) if sample_weight is None else sample_weight[order]
    first = order[starts]  # the sort is stable
    come = np.argsort(first)
    return values[first[come]], np.add.reduceat(weights, starts)[come]


def effective_size(weights: np.ndarray) -> float:
    """Number of samples that weights stand for: the sum of integers, which are counts, else (sum w)^2 / sum w^2.

    Parameters
    ----------
    weights : ndarray (n_samples,)
        Non-negative.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.codes.weighted_values import effective_size
    >>> effective_size(np.array([3.0, 1.0, 0.0])), effective_size(np.array([1.5, 0.5, 0.0]))
    (4.0, 1.6)
    """
    if np.array_equal(weights, np.floor(weights)):
        return float(weights.sum())
    shares = weights / weights.max()  # so that no sum overflows
    return float(shares.sum() ** 2 / (shares @ shares))


def evenly_weighted(weights: np.ndarray, n_kept: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions evenly spaced in cumulated weight, and how many of the `n_kept` fall on each."""
    above = np.cumsum(weights)
    places = np.searchsorted(above, (np.arange(n_kept) + 0.5) * above[-1] / n_kept, side="right")
    return np.unique(np.minimum(places, len(above) - 1), return_counts=True)


def quantiles(values: np.ndarray, shares: Sequence[float], weights: np.ndarray | None = None) -> np.ndarray:
    """Quantiles, by linear interpolation, as of :func:`numpy.quantile`.

    Parameters
    ----------
    values : ndarray (n_values,)
        At least one; none missing.
    shares : sequence of float
        From 0 to 1.
    weights : ndarray (n_values,), optional
        Positive; by default one each. Of integers the quantiles are, to the last bit, those of the repeated values.
        Weights below one on average are taken for shares of as many samples as there are values.

    Returns
    -------
    ndarray (n_shares,)

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.codes.weighted_values import quantiles
    >>> values = np.array([1.0, 2.0, 10.0])
    >>> quantiles(values, [0.5], np.array([3.0, 1.0, 2.0])), np.quantile([1, 1, 1, 2, 10, 10], [0.5])
    (array([1.5]), array([1.5]))
    """
    if weights is None:
        return np.asarray(np.quantile(values, shares))
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    reached = np.cumsum(weights[order])
    if reached[-1] < len(values):
        reached = reached / reached[-1] * len(values)
    positions = np.asarray(shares) * (reached[-1] - 1.0)  # among the repeated values, counted from 0
    below = np.floor(positions)
    reached *= 1.0 - ROUNDING
    ends = [np.searchsorted(reached, place, side="right").clip(max=len(ordered) - 1) for place in (below, below + 1.0)]
    # Between two values NumPy interpolates as it does between any.
    pairs = zip(ordered[ends[0]], ordered[ends[1]], positions - below, strict=True)
    return np.array([np.quantile([low, high], share) for low, high, share in pairs])


def counted_values(values: np.ndarray, weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Different values in ascending order, and how many there are of each.

    Parameters
    ----------
    values : ndarray (n_values,)
    weights : ndarray (n_values,), optional
        Positive; by default one each.

    Returns
    -------
    values, counts : ndarray (n_different,)

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.codes.weighted_values import counted_values
    >>> counted_values(np.array([2.0, 1.0, 2.0]), np.array([1.0, 5.0, 3.0]))
    (array([1., 2.]), array([5., 4.]))
    """
    if weights is None:
        different, counts = np.unique(values, return_counts=True)
        return different, counts
    different, inverse = np.unique(values, return_inverse=True)
    return different, np.bincount(inverse, weights, len(different))
