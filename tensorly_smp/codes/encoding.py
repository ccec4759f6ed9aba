"""Samples as bin indices, and these as sparse indicator matrices: sums and gathering become matrix products."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from tensorly_smp._support import kernels
from tensorly_smp._support.checks import checked_choice
from tensorly_smp._support.kernels import KernelError, Kernels
from tensorly_smp._support.representations import html_summary, listed, number_range, reason
from tensorly_smp.codes.binning import Binning, resolve_n_bins
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.samples.labels import SampleLabels
from tensorly_smp.samples.reading import read_samples
from tensorly_smp.samples.values import bin_indices

MISSING = -1
#: Picking so many numbers takes as long as one of the units that kernels are decided by.
PICKED = 100


@dataclass(frozen=True, eq=False)
class Codes:
    """Bin index of every entry of a sample matrix.

    Attributes
    ----------
    values : ndarray of int (n_samples, n_variables)
        Bin index, or -1 where the entry is missing. Smallest signed integer type that holds the number of bins;
        read-only.
    binning : Binning
    samples : SampleLabels or None
        Labels of the samples, carried along untouched by the numerical code.

    Raises
    ------
    InvalidTypeError
        Values are not integers.
    InvalidInputError
        Values do not fit the binning.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> binning = smp.Binning(([0, 1, 2], [0, 10, 20]), ("a", "b"))
    >>> codes = smp.encode_samples([[0.5, 15.0], [1.5, None]], binning)
    >>> codes.values
    array([[ 0,  1],
           [ 1, -1]], dtype=int8)
    """

    values: np.ndarray
    binning: Binning
    samples: SampleLabels | None = None

    def __post_init__(self) -> None:
        try:
            values = np.asarray(self.values)
        except (TypeError, ValueError) as error:
            raise InvalidTypeError(f"Codes are no matrix: {reason(error)}.") from error
        if values.dtype.kind not in "iu":
            raise InvalidTypeError(f"Codes are of dtype {values.dtype}; expected integers. See Codes.from_array.")
        if not isinstance(self.binning, Binning):
            raise InvalidTypeError(f"binning is {type(self.binning).__name__}; expected a Binning.")
        n_bins = self.binning.n_bins
        if values.ndim != 2 or values.shape[1] != len(n_bins) or not len(values):
            raise InvalidInputError(f"Codes have shape {values.shape}; expected (n_samples, {len(n_bins)}).")
        outside = (values.min(axis=0) < MISSING) | (values.max(axis=0) >= np.array(n_bins))
        if names := list(compress(self.binning.variables, outside)):
            expected = f"expected {MISSING} (missing) to n_bins - 1"
            raise InvalidInputError(f"Codes of variable(s) {listed(names)} are out of range; {expected}.")
        values = values.astype(np.min_scalar_type(-max(n_bins)), copy=False).view()
        values.flags.writeable = False
        object.__setattr__(self, "values", values)

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.values.shape[0]

    @property
    def n_variables(self) -> int:
        """Number of variables."""
        return self.values.shape[1]

    @property
    def n_bins(self) -> tuple[int, ...]:
        """Number of bins of every variable."""
        return self.binning.n_bins

    def __repr__(self) -> str:
        return "Codes(" + ", ".join(f"{what} {word}" for word, what in self._described()) + ")"

    def _repr_html_(self) -> str:
        return html_summary("Codes", [*self._described(), ("names", listed(self.binning.variables))])

    def _described(self) -> list[tuple[str, str]]:
        missing = float((self.values == MISSING).mean())
        return [
            ("samples", f"{self.n_samples}"),
            ("variables", f"{self.n_variables}"),
            ("bins", number_range(self.n_bins)),
            ("missing", f"{missing:.3g}" if 0 < missing < 0.001 else f"{missing:.1%}"),
        ]

    @classmethod
    def from_array(
        cls,
        values: Any,
        n_bins: int | Sequence[int] | Mapping[Any, int] | None = None,
        variables: Sequence[Hashable] | None = None,
    ) -> Codes:
        """Codes of data that are bin indices already, such as categories numbered from 0.

        Parameters
        ----------
        values : array_like, DataFrame, DataArray or Dataset of int (n_samples, n_variables)
            -1, NaN, None, pandas NA and masked entries are missing.
        n_bins : int, sequence of int or mapping from name to int, optional
            By default the largest code plus one, and at least 2.
        variables : sequence of hashable, optional
            Names of the columns of unlabelled values; columns to match by name otherwise.

        Raises
        ------
        InvalidInputError
            Values are not whole, below -1 or not below `n_bins`; a variable has no value and no `n_bins`.

        Examples
        --------
        >>> import tensorly_smp as smp
        >>> codes = smp.Codes.from_array([[0, 2], [1, -1], [0, 1]])
        >>> codes.n_bins
        (2, 3)
        """
        samples = read_samples(values, variables)
        names = samples.variables
        numbers = np.where(np.isnan(samples.values), MISSING, samples.values)
        # Before the cast, which is undefined beyond the integers; the bins are checked by the constructor.
        wrong = ((numbers != np.floor(numbers)) | (np.abs(numbers) > 2**31)).any(axis=0)
        if bad := list(compress(names, wrong)):
            raise InvalidInputError(f"Codes of variable(s) {listed(bad)} are not whole numbers, or too large.")
        integers = numbers.astype(np.int64)
        if n_bins is None:
            largest = integers.max(axis=0)
            if empty := list(compress(names, largest == MISSING)):
                raise InvalidInputError(f"Variable(s) {listed(empty)} have no observed value; give n_bins.")
            n_bins = [max(2, int(code) + 1) for code in largest]
        return cls(integers, Binning.from_n_bins(resolve_n_bins(n_bins, names), names), samples.labels)


def encode_samples(
    X: Any, binning: Binning, out_of_range: str = "clip", *, sample_dim: Hashable | None = None
) -> Codes:
    """Bin index of every entry.

    A value on an edge belongs to the bin on its right, and the last edge to the last bin.

    Parameters
    ----------
    X : array_like, masked array, DataFrame, DataArray or Dataset (n_samples, n_variables)
        Labelled columns are matched by name and may come in any order, others by position.
        NaN, None, pandas NA and masked entries are missing.
    binning : Binning
    out_of_range : {"clip", "missing"}
        Values beyond the first or last edge belong to the outermost bins, or count as missing.
    sample_dim : hashable or tuple of hashable, optional
        Dimension of the samples in xarray input; inferred from its name by default.

    Returns
    -------
    Codes

    Raises
    ------
    InvalidInputError
        X is empty, not two-dimensional or infinite, or its variables are not those of the binning.
    InvalidTypeError
        X is not numeric, or `binning` is not a Binning.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> binning = smp.Binning(([0, 1, 2], [0, 5, 10]))
    >>> smp.encode_samples([[0.5, 5.0], [2.0, None], [7.0, 1.0]], binning).values
    array([[ 0,  1],
           [ 1, -1],
           [ 1,  0]], dtype=int8)
    """
    if not isinstance(binning, Binning):
        raise InvalidTypeError(f"binning is {type(binning).__name__}; expected a Binning, as of choose_binning.")
    checked_choice(out_of_range, "out_of_range", ("clip", "missing"))
    samples = read_samples(X, binning.variables, sample_dim)
    codes = bin_indices(samples.values, binning.edges)
    if out_of_range == "missing":
        low, high = np.transpose([(edges[0], edges[-1]) for edges in binning.edges])
        codes[(samples.values < low) | (samples.values > high)] = MISSING
    return Codes(codes, binning, samples.labels)


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
    >>> from tensorly_smp.codes.encoding import one_hot
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
    return sparse_rows(values >= 0, columns, int(offsets[-1]))


def sparse_rows(shares: np.ndarray, columns: np.ndarray, n_columns: int) -> csr_array:
    """Sparse matrix (n_samples, n_columns) of the positive shares (n_samples, n_entries), which belong to columns.

    Parameters
    ----------
    shares : ndarray of float or bool (n_samples, n_entries)
    columns : ndarray of int32 (n_samples, n_entries)
    n_columns : int
    """
    kept = shares > 0
    is_full = bool(kept.all())  # views, where of many entries copies would take long
    data, indices = (each.ravel() if is_full else each[kept] for each in (shares, columns))
    starts = np.concatenate([[0], np.cumsum(np.count_nonzero(kept, axis=1))])
    # Of one type with the indices, or both would become the larger: twice the memory, and slower products.
    starts = starts.astype(index_type(len(indices)))
    return csr_array((data.astype(np.float64, copy=False), indices, starts), shape=(len(shares), n_columns))


@dataclass(frozen=True, eq=False)
class PackedIndicators:
    """An indicator matrix in one or two bytes an entry, not 12, and its products with tables.

    Of many entries these are compiled, where that is possible: they go from variable to variable, as the tables of a
    thousand do not fit into the processor's cache. The plain twin is the sparse matrix.

    Attributes
    ----------
    values : ndarray of int (n_samples, n_tables)
        Row in the table, -1 where the entry is missing; perhaps no sample at all.
    sizes : tuple of int (n_tables,)
        Rows of the tables.
    """

    values: np.ndarray
    sizes: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix."""
        return len(self.values), sum(self.sizes)

    def __getitem__(self, rows: slice) -> PackedIndicators:
        """Select some of the samples."""
        return PackedIndicators(self.values[rows], self.sizes)

    @cached_property
    def matrix(self) -> csr_array:
        """The sparse matrix."""
        return indicator_matrix(self.values, self.sizes)

    @cached_property
    def _by_table(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows (n_tables, n_samples) in the tables, and the first row of each in all of them."""
        return np.ascontiguousarray(self.values.T), np.cumsum(self.sizes) - self.sizes

    def __matmul__(self, tables: np.ndarray) -> np.ndarray:
        """Sums (n_samples, ...) of the rows of tables (sum of sizes, ...) that the entries of a sample pick."""
        compiled = compiled_products(self.values.size * tables[0].size)
        if compiled is not None:
            found = np.zeros((len(self.values), tables[0].size))
            with suppress(KernelError):
                compiled.add_picked_rows(*self._by_table, np.ascontiguousarray(tables).reshape(len(tables), -1), found)
                return found.reshape(-1, *tables.shape[1:])
        return np.asarray(self.matrix @ tables)

    def add_up(self, values: np.ndarray) -> np.ndarray:
        """Sums (sum of sizes, ...) of values (n_samples, ...) over the samples that pick a row."""
        compiled = compiled_products(self.values.size * values[0].size) if len(values) else None
        if compiled is not None:
            found = np.zeros((sum(self.sizes), values[0].size))
            with suppress(KernelError):
                compiled.add_to_picked_rows(*self._by_table, values.reshape(len(values), -1), found)
                return found.reshape(-1, *values.shape[1:])
        return np.asarray(self.matrix.T @ values)


def compiled_products(work: float) -> Kernels | None:
    """The compiled kernels where so many numbers are picked, in all, that they pay."""
    return kernels.compiled(work / PICKED)


def index_type(n_entries: int) -> type[np.signedinteger]:
    """Type of the indices of a sparse matrix of so many entries (SciPy's own choice is not public before 1.15)."""
    return np.int32 if n_entries <= np.iinfo(np.int32).max else np.int64
