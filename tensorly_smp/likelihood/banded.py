"""Many symmetric banded systems at a time: Cholesky factor, solution, determinant, bands of the inverse.

SciPy solves one such system per call, and a fit has one per variable and component. Here a stack of matrices of the
same size is an array (bandwidth + 1, n, n_systems) with ``bands[d, k]`` holding the entries (k + d, k) of all of them,
so that each step of the recurrences is one operation on contiguous numbers.
"""

from __future__ import annotations

import numpy as np


def cholesky(bands: np.ndarray) -> np.ndarray:
    """Lower Cholesky factors L, A = L L'.

    Parameters
    ----------
    bands : ndarray (bandwidth + 1, n, n_systems)
        Positive definite. Entries below the last row of the matrix are not read.

    Returns
    -------
    ndarray (bandwidth + 1, n, n_systems)
        Bands of L.
    """
    factor = bands.copy()
    width, n = factor.shape[:2]
    for k in range(n):
        np.sqrt(factor[0, k], out=factor[0, k])
        last = min(width, n - k)
        factor[1:last, k] /= factor[0, k]
        for d in range(1, last):
            factor[: last - d, k + d] -= factor[d, k] * factor[d:last, k]
    return factor


def solve(factor: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solutions x (n, n_systems) of L L' x = right."""
    x = right.copy()
    width, n = factor.shape[:2]
    for k in range(n):
        x[k] /= factor[0, k]
        last = min(width, n - k)
        x[k + 1 : k + last] -= factor[1:last, k] * x[k]
    for k in range(n - 1, -1, -1):
        last = min(width, n - k)
        x[k] -= (factor[1:last, k] * x[k + 1 : k + last]).sum(axis=0)
        x[k] /= factor[0, k]
    return x


def log_determinant(factor: np.ndarray) -> np.ndarray:
    """Logarithms (n_systems,) of the determinants of L L'."""
    return 2.0 * np.log(factor[0]).sum(axis=0)


def inverse_bands(factor: np.ndarray) -> np.ndarray:
    """Those entries of the inverse of L L' that lie within the bandwidth, as bands.

    With A = L L' and Z its inverse, L' Z = L^-1 is lower triangular, so that every column of Z follows upwards from
    entries of Z within the band (Takahashi, Fagan and Chin 1973).
    """
    width, n = factor.shape[:2]
    inverse = np.zeros_like(factor)
    for k in range(n - 1, -1, -1):
        below = range(1, min(width, n - k))
        for j in below:
            # sum over i > k of L[i, k] Z[i, j], Z symmetric
            total = sum(factor[i, k] * inverse[abs(i - j), k + min(i, j)] for i in below)
            inverse[j, k] = -total / factor[0, k]
        total = sum(factor[i, k] * inverse[i, k] for i in below)
        inverse[0, k] = (1.0 / factor[0, k] - total) / factor[0, k]
    return inverse


def trace_of_product(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Trace (n_systems,) of the products of symmetric matrices, one of which is zero outside the band."""
    product = first * second
    return 2.0 * product.sum(axis=(0, 1)) - product[0].sum(axis=0)
