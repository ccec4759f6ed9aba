"""Codes as a sparse indicator matrix: gathering from tables and adding up in them become matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.sparse import csr_array

from tensorly_smp.codes.encoding import Codes

#: Arrays of ones up to this length are kept: new memory costs as much as what is done with it.
KEPT_ONES = 2**20


def one_hot(codes: Codes) -> csr_array:
    """Indicator matrix of the bins of all variables side by side.

    With tables of all variables stacked, T of shape (sum of n_bins, rank), ``one_hot(codes) @ T`` is the sum over the
    observed entries of a sample of their rows, and ``one_hot(codes).T @ V`` adds up V (n_samples, rank) per bin.

    Parameters
    ----------
    codes : Codes

    Returns
    -------
    csr_array (n_samples, sum of n_bins)
        One where the entry is in the bin; a missing entry has no one, so it takes no part in any sum.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> from tensorly_smp.codes.one_hot import one_hot
    >>> one_hot(smp.Codes.from_array([[0, 1], [1, -1]])).toarray()
    array([[1., 0., 0., 1.],
           [0., 1., 0., 0.]])
    """
    return indicator_matrix(codes.values, codes.n_bins)


def indicator_matrix(values: np.ndarray, sizes: Sequence[int]) -> csr_array:
    """Indicator matrix (n_samples, sum of sizes) of the rows that entries pick in tables that stand side by side.

    Parameters
    ----------
    values : ndarray of int (n_samples, n_tables)
        Row in the table, -1 where the entry is missing.
    sizes : sequence of int (n_tables,)
        Rows of the tables.
    """
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    columns = values.astype(np.int32)
    columns += offsets[:-1]
    observed = values >= 0
    indices = columns.ravel() if observed.all() else columns[observed]
    starts = np.concatenate([[0], np.cumsum(np.count_nonzero(observed, axis=1))])
    # Of one type with the indices, or both would become the larger: twice the memory, and slower products.
    starts = starts.astype(index_type(len(indices)))
    # Nobody writes to kept ones; marked as read-only, kernels would be compiled once more.
    ones = _kept_ones()[: len(indices)] if len(indices) <= KEPT_ONES else np.ones(len(indices))
    return csr_array((ones, indices, starts), shape=(len(values), int(offsets[-1])))


@lru_cache(maxsize=1)
def _kept_ones() -> np.ndarray:
    return np.ones(KEPT_ONES)


def index_type(n_entries: int) -> type[np.signedinteger]:
    """Type of the indices of a sparse matrix of so many entries (SciPy's own choice is not public before 1.15)."""
    return np.int32 if n_entries <= np.iinfo(np.int32).max else np.int64
