"""Quantiles and counts of weighted values: those of values that are repeated as often as their weight says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

#: Sums of weights closer than this, relatively, are equal but for rounding.
ROUNDING = 1e-12


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
