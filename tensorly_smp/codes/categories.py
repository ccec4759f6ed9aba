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
    first, last = 2 * values[0] - middles[0], 2 * values[-1] - middles[-1]
    first = first if low is None else max(low, first)
    last = last if high is None else min(high, last)
    return np.concatenate([[first], middles, [last]])
