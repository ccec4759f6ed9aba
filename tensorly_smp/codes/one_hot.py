"""Codes as a sparse indicator matrix: gathering from tables and adding up in them become matrix products."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from tensorly_smp.codes.encoding import Codes


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
    offsets = np.concatenate([[0], np.cumsum(codes.n_bins)])
    observed = codes.values >= 0
    columns = codes.values.astype(np.int32)
    columns += offsets[:-1].astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(observed.sum(axis=1))])
    indices = columns[observed]
    # Of one type with the indices, or both would become the larger: twice the memory, and slower products.
    starts = starts.astype(index_type(len(indices)))
    return csr_array((np.ones(len(indices)), indices, starts), shape=(codes.n_samples, int(offsets[-1])))


def index_type(n_entries: int) -> type[np.signedinteger]:
    """Type of the indices of a sparse matrix of so many entries (SciPy's own choice is not public before 1.15)."""
    return np.int32 if n_entries <= np.iinfo(np.int32).max else np.int64
