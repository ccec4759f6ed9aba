"""Many symmetric banded systems at a time: Cholesky factor, solution, determinant, bands of the inverse.

A fit has one such system per variable and component. Here a stack of matrices of the same size is an array (n_systems,
n, bandwidth + 1) with ``bands[s, k, d]`` holding the entry (k + d, k) of matrix s, and zeros where there is none. One
below the other, they are the bands of one large block-diagonal matrix as LAPACK stores them, which factorizes and
solves all of them in one call.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpbtrf, dpbtrs

#: Added to the diagonal of a matrix that is not positive definite to working precision, relative to its largest entry;
#: ten times as much whenever that is not enough.
_JITTER = 1e-15


def cholesky(bands: np.ndarray) -> np.ndarray:
    """Lower Cholesky factors L, A = L L'.

    Parameters
    ----------
    bands : ndarray (n_systems, n, bandwidth + 1)
        Finite. Of matrices that are positive definite, or would be but for rounding errors: these are moved to the
        nearest multiple of the identity away that is.

    Returns
    -------
    ndarray (n_systems, n, bandwidth + 1)
        Bands of L.
    """
    if not len(bands):
        return bands.copy()
    factor, failed = dpbtrf(_stacked(bands), lower=1)
    if not failed:
        return np.asarray(factor.T).reshape(bands.shape)
    return np.stack([_shifted_cholesky(system) for system in bands])


def _shifted_cholesky(system: np.ndarray) -> np.ndarray:
    """Factor (n, bandwidth + 1) of one matrix, or of one with a larger diagonal."""
    factor, failed = dpbtrf(system.T, lower=1)
    shift = _JITTER * np.abs(system).max()
    while failed:
        shifted = system.copy()
        shifted[:, 0] += shift
        factor, failed = dpbtrf(shifted.T, lower=1)
        shift = max(10.0 * shift, np.finfo(np.float64).tiny)
    return np.asarray(factor.T)


def solve(factor: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solutions x (n, n_systems) of L L' x = right."""
    if not len(factor):
        return right.copy()
    x, _ = dpbtrs(_stacked(factor), right.T.reshape(-1, 1), lower=1)
    return np.asarray(x).reshape(len(factor), -1).T


def _stacked(bands: np.ndarray) -> np.ndarray:
    return bands.reshape(-1, bands.shape[2]).T


def log_determinant(factor: np.ndarray) -> np.ndarray:
    """Logarithms (n_systems,) of the determinants of L L'."""
    return 2.0 * np.log(factor[:, :, 0]).sum(axis=1)


def inverse_bands(factor: np.ndarray) -> np.ndarray:
    """Entries of the inverse of L L' within the bandwidth, as bands.

    With A = L L' and Z its inverse, L' Z = L^-1 is lower triangular, so that every column of Z follows upwards from
    entries of Z within the band (Takahashi, Fagan and Chin 1973).
    """
    lower = np.ascontiguousarray(factor.transpose(2, 1, 0))  # each step of the recurrence on contiguous numbers
    width, n = lower.shape[:2]
    inverse = np.zeros_like(lower)
    for k in range(n - 1, -1, -1):
        below = range(1, min(width, n - k))
        for j in below:
            # sum over i > k of L[i, k] Z[i, j], Z symmetric
            total = sum(lower[i, k] * inverse[abs(i - j), k + min(i, j)] for i in below)
            inverse[j, k] = -total / lower[0, k]
        total = sum(lower[i, k] * inverse[i, k] for i in below)
        inverse[0, k] = (1.0 / lower[0, k] - total) / lower[0, k]
    return inverse.transpose(2, 1, 0)


def trace_of_product(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Trace (n_systems,) of the products of symmetric matrices, one of which is zero outside the band."""
    product = first * second
    return 2.0 * product.sum(axis=(1, 2)) - product[:, :, 0].sum(axis=1)
