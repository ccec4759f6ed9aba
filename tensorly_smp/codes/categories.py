"""Bins of variables that take few values: one for each."""

from __future__ import annotations

import numpy as np


@np.errstate(over="ignore")
def category_edges(values: np.ndarray, low: float | None = None, high: float | None = None) -> np.ndarray:
    """Edges midway between neighboring values, the outermost as far out as the neighboring edge is.

    With integers that follow each other all bins have width one, so that densities are probabilities.

    Parameters
    ----------
    values : ndarray (n_values,)
        Distinct ones, at least two, in increasing order.
    low, high : float, optional
        Bounds of the variable, which no edge goes beyond.

    Returns
    -------
    ndarray (n_values + 1,)
        Not finite, or not increasing, if the values are too large or too close for that.

    Examples
    --------
    >>> category_edges(np.array([1.0, 2.0, 4.0]))
    array([0.5, 1.5, 3. , 5. ])
    """
    middles = values[:-1] + np.diff(values) / 2
    first = 2 * values[0] - middles[0]
    last = 2 * values[-1] - middles[-1]
    first = first if low is None else max(low, first)
    last = last if high is None else min(high, last)
    return np.concatenate([[first], middles, [last]])


def values_of_bins(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Value that stands for every bin: the one in it, or the nearest where there is none.

    Parameters
    ----------
    values : ndarray (n_values,)
        Distinct ones, at least one, in increasing order; those beyond the edges are in the outermost bins.
    edges : ndarray (n_bins + 1,)

    Returns
    -------
    ndarray (n_bins,)
        NaN for bins that hold several.

    Examples
    --------
    >>> values_of_bins(np.array([1.0, 4.0, 5.0]), np.array([0.0, 2.0, 3.0, 6.0]))
    array([ 1.,  1., nan])
    """
    counts = np.bincount(np.searchsorted(edges[1:-1], values, side="right"), minlength=len(edges) - 1)
    starts = np.cumsum(counts) - counts
    centers = 0.5 * edges[1:] + 0.5 * edges[:-1]
    below, above = (values[np.clip(starts - shift, 0, len(values) - 1)] for shift in (1, 0))
    # Halves, since differences of the largest numbers overflow. `above` is the first value in the bin where it has any.
    nearest = np.where(0.5 * above - 0.5 * centers < np.abs(0.5 * centers - 0.5 * below), above, below)
    return np.where(counts > 1, np.nan, np.where(counts == 1, above, nearest))
