"""Values of discrete variables."""

from __future__ import annotations

import numpy as np


def nearest(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Position (...) of the value that is nearest to every point.

    Parameters
    ----------
    values : ndarray (n_values,)
        In increasing order.
    x : ndarray (...)

    Examples
    --------
    >>> nearest(np.array([0.0, 1.0, 10.0]), np.array([-3.0, 0.9, 7.0]))
    array([0, 1, 2])
    """
    return np.searchsorted(middles(values), x, side="right")


def middles(values: np.ndarray) -> np.ndarray:
    """Midpoints (n_values - 1,) of neighboring values."""
    return 0.5 * values[:-1] + 0.5 * values[1:]  # halves, since the largest floats have no sum
