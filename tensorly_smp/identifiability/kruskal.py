"""Kruskal rank of a matrix."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice
from math import comb
from typing import Any

import numpy as np

from tensorly_smp._support.checks import checked_integer, checked_real, unmasked_array
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError

_CHUNK = 4096


class KruskalRank(int):
    """The integer k, which also says whether it is the k-rank or only a certified lower bound of it.

    Attributes
    ----------
    is_exact : bool
        False if deciding it would have needed more subsets of columns than allowed; the k-rank is then `k` or more.
    """

    is_exact: bool

    def __new__(cls, value: int, is_exact: bool = True) -> KruskalRank:
        """An int with a flag."""
        self = super().__new__(cls, value)
        self.is_exact = bool(is_exact)
        return self

    def __getnewargs__(self) -> tuple[int, bool]:  # type: ignore[override]
        return int(self), self.is_exact

    def __repr__(self) -> str:
        return str(int(self)) if self.is_exact else f"at least {int(self)}"


def kruskal_rank(matrix: Any, tol: float | None = None, max_combinations: int = 50_000) -> KruskalRank:
    """Largest k such that every k columns are linearly independent.

    Parameters
    ----------
    matrix : array_like (n_rows, n_columns)
        Finite and real.
    tol : float, optional
        Columns are scaled to unit 2-norm first; a set of columns counts as dependent if its smallest singular value is
        at most `tol`, and a column counts as zero if its norm is at most `tol` times the largest one. Default:
        ``eps ** (2 / 3)`` of the matrix's dtype, 3.7e-11 in double precision: well above rounding, well below noise.
    max_combinations : int
        Most subsets of columns to look at, 0 or more.

    Returns
    -------
    KruskalRank
        An int. Beyond `max_combinations`, ``is_exact`` is False and the value is a lower bound that holds for certain:
        the larger of the last size whose subsets were all looked at and the bound of the cumulative coherence (a set
        of k unit columns is independent if no column has cosines to k - 1 others that add up to one).

    Raises
    ------
    InvalidInputError
        If the matrix is not two-dimensional, is empty, is complex, or holds NaN, infinity or masked entries; a number
        out of range.
    InvalidTypeError
        If the matrix does not hold numbers, `tol` is no number, or `max_combinations` no integer.

    See Also
    --------
    tensorly_smp.max_identifiable_rank : What the sizes alone allow.

    Notes
    -----
    J. B. Kruskal, "Three-way arrays: rank and uniqueness of trilinear decompositions", 1977. A CPD of rank R is unique
    if the k-ranks of its three factors add up to at least 2 R + 2.

    Adding a column never raises the smallest singular value, so dependent sets stay dependent when they grow: the
    search may stop at the first dependent set, and the number of singular values above `tol` bounds the k-rank.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> smp.kruskal_rank([[1, 0, 1], [0, 1, 1]])
    2
    >>> smp.kruskal_rank([[1, 0, 2], [0, 1, 0]])
    1
    """
    array = _checked_matrix(matrix)
    tol = _default_tolerance(matrix) if tol is None else checked_real(tol, "tol")
    max_combinations = checked_integer(max_combinations, "max_combinations")
    if max_combinations < 0:
        raise InvalidInputError(f"max_combinations is {max_combinations}; expected 0 or more.")
    array = array / (np.abs(array).max() or 1.0)  # so that squares neither overflow nor vanish
    norms = np.linalg.norm(array, axis=0)
    if norms.min() <= tol * norms.max():
        return KruskalRank(0)
    columns = array / norms
    n_columns = columns.shape[1]
    upper = int((np.linalg.svd(columns, compute_uv=False) > tol).sum())
    if upper == n_columns:
        return KruskalRank(n_columns)
    certified = min(coherence_bound(columns, tol), upper)
    if certified == upper:
        return KruskalRank(upper)
    return _search(columns, certified, upper, tol, int(max_combinations))


def coherence_bound(columns: np.ndarray, tol: float = 0.0) -> int:
    """Lower bound of the k-rank of unit columns, from their cosines alone.

    By Gershgorin's circles the smallest eigenvalue of the Gram matrix of k columns is at least one minus the largest
    sum of k - 1 absolute cosines in a row.

    Parameters
    ----------
    columns : ndarray (n_rows, n_columns)
        Unit 2-norm.
    tol : float
        Smallest singular value that a set of columns has to exceed.

    Returns
    -------
    int
        At least one.
    """
    cosines = np.abs(columns.T @ columns)
    np.fill_diagonal(cosines, 0.0)
    cumulative = np.cumsum(-np.sort(-cosines, axis=1), axis=1).max(axis=0)[:-1]
    # Rounding of the Gram matrix must not turn two parallel columns into independent ones.
    slack = 4 * len(columns) * np.finfo(float).eps
    return 1 + int((1 - cumulative > tol**2 + slack).sum())


def _search(columns: np.ndarray, certified: int, upper: int, tol: float, max_combinations: int) -> KruskalRank:
    """k-rank between the two bounds, level by level from below; the top level first if it fits the budget alone."""
    n_columns = columns.shape[1]
    budget = max_combinations
    if comb(n_columns, upper) <= budget:
        budget -= comb(n_columns, upper)
        if not _has_dependent_subset(columns, upper, tol):
            return KruskalRank(upper)
        upper -= 1
    for size in range(certified + 1, upper + 1):
        if comb(n_columns, size) > budget:
            return KruskalRank(size - 1, is_exact=False)
        budget -= comb(n_columns, size)
        if _has_dependent_subset(columns, size, tol):
            return KruskalRank(size - 1)
    return KruskalRank(upper)


def _has_dependent_subset(columns: np.ndarray, size: int, tol: float) -> bool:
    for subset in _chunks(columns.shape[1], size):
        stacks = columns.T[subset]  # (n_subsets, size, n_rows)
        if (np.linalg.svd(stacks, compute_uv=False)[:, size - 1] <= tol).any():
            return True
    return False


def _chunks(n_columns: int, size: int) -> Iterator[np.ndarray]:
    """All subsets of the given size, a few thousand rows at a time."""
    subsets = combinations(range(n_columns), size)
    while chunk := list(islice(subsets, _CHUNK)):
        yield np.array(chunk)


def _checked_matrix(matrix: Any) -> np.ndarray:
    array = unmasked_array(matrix, "matrix")
    if array.ndim != 2 or array.size == 0:
        raise InvalidInputError(f"The matrix has shape {array.shape}; expected a non-empty two-dimensional array.")
    if np.iscomplexobj(array):
        raise InvalidInputError("The matrix is complex; expected real numbers.")
    if array.dtype.kind not in "fiub":
        raise InvalidTypeError(f"The matrix is of dtype {array.dtype}; expected real numbers.")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise InvalidInputError("The matrix holds NaN or infinity; expected finite numbers.")
    return array


def _default_tolerance(matrix: Any) -> float:
    dtype = np.asarray(matrix).dtype
    precision = dtype if np.issubdtype(dtype, np.floating) else np.dtype(np.float64)
    return float(np.finfo(precision).eps ** (2 / 3))
