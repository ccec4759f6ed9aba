"""Samples of any accepted kind as a bare matrix, beside their labels."""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import compress
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
import xarray as xr

from tensorly_smp._support.checks import checked_sample_weight, is_among, unmasked_rows
from tensorly_smp._support.representations import listed, reason, short_repr, shown
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.samples.codebook import CATEGORY, ORDERED, TEXT, ValueLabels, missing_codes
from tensorly_smp.samples.labels import (
    ARROW,
    COMPONENT_DIM,
    POLARS,
    SAMPLE_DIM,
    SampleLabels,
    aligned,
    default_names,
    empty_copy,
    plain_names,
    refuse_repeated,
)

# In order of preference, compared in lower case: of the dimensions "time" and "sample" the second holds the samples.
SAMPLE_DIMS = (
    *(SAMPLE_DIM, "samples", "obs", "observation", "observations", "row", "rows", "record", "records"),
    *("index", "time", "date"),
)
VARIABLE_DIMS = (
    *("variable", "variables", "var", "feature", "features", "column", "columns"),
    *("sensor", "sensors", "channel", "channels"),
)
#: What an array of objects may hold beside what is missing, or text alone.
_NUMBERS = (numbers.Real, np.bool_, Decimal)
#: Values of a column, and its labels if it is of text or categories.
_Column = tuple[np.ndarray, ValueLabels | None]
#: Values (n_samples, n_variables), and the labels of every column.
_Matrix = tuple[np.ndarray, tuple[ValueLabels | None, ...]]
#: The same with the names of the columns, if they have any, and what else :class:`SampleLabels` keeps of the object.
_Labelled = tuple[np.ndarray, tuple[ValueLabels | None, ...], tuple[Hashable, ...] | None, dict[str, Any]]
#: No variable has labels: text and categories are refused.
NO_LABELS: Mapping[Hashable, ValueLabels] = {}


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples as a bare matrix beside their names and labels.

    Attributes
    ----------
    values : ndarray of float64 (n_samples, n_variables)
        NaN where an entry is missing, finite elsewhere. Read-only: it may share memory with the caller's array.
    variables : tuple of hashable (n_variables,)
        Names of the columns, all different.
    labels : SampleLabels
    value_labels : mapping from name to ValueLabels
        Labels of the codes of the variables that came as text or categories.
    """

    values: np.ndarray
    variables: tuple[Hashable, ...]
    labels: SampleLabels
    value_labels: Mapping[Hashable, ValueLabels] = field(default_factory=dict)

    __repr__ = short_repr

    def aligned_weights(self, sample_weight: Any) -> np.ndarray | None:
        """Weights (n_samples,) in the order of the samples; see :func:`tensorly_smp.samples.labels.aligned`."""
        if sample_weight is None:
            return None
        like = self.labels.wrap(np.zeros(len(self.values)))
        return checked_sample_weight(aligned(sample_weight, like), len(self.values))


def read_samples(
    X: Any,
    variables: Sequence[Hashable] | None = None,
    sample_dim: Hashable | None = None,
    value_labels: Mapping[Hashable, ValueLabels] | None = NO_LABELS,
) -> Samples:
    """Read samples of any accepted kind into a float64 matrix, and remember their labels.

    NaN, None, ``pandas.NA``, ``NaT`` in object columns, and masked entries are missing. Nothing is dropped, and the
    caller's object is never written to.

    Parameters
    ----------
    X : array_like, masked array, DataFrame, DataArray or Dataset (n_samples, n_variables)
        A DataFrame of pandas or polars, or a table of pyarrow, of which columns that hold the index of a pandas
        DataFrame are no variables. A DataArray has two dimensions in any order; a Dataset
        has one-dimensional variables on one shared dimension. Lazy (dask) arrays are computed.
    variables : sequence of hashable, optional
        Names that the columns shall have, for instance those of a fitted binning. Labelled columns are matched by
        name and reordered; unlabelled ones (arrays, lists, a DataArray without a coordinate of its variables) by
        position. Where `variables` are just the default names "x0", "x1", ..., so that the model was learned without
        names, labelled columns are taken by position too, unless one of them bears such a name.
        Without it, columns keep their labels or get the default names.
    sample_dim : hashable or tuple of hashable, optional
        Dimension of the samples in a DataArray or Dataset; other input ignores it. Of several, such as
        ``("time", "station")``, every combination is a sample. Without it: the one beside the
        dimension whose coordinate has all `variables`, where these are given; else the dimension called sample,
        samples, obs, observation(s), row(s), record(s), index, time or date (the first of these that occurs); else the
        one beside a dimension called variable(s), var, feature(s), column(s), sensor(s) or channel(s); else the one
        beside the only dimension whose coordinate is strings; else the only one with dates for coordinates; else the
        first of two dimensions without names of their own. Where none of these tells, it is an error.
    value_labels : mapping from name to ValueLabels, optional
        Labels of a fit, by which columns of text or categories become codes 0, 1, ...; numbers in their place are such
        codes. By default no variable has any; None takes labels as they come.

    Returns
    -------
    Samples

    Raises
    ------
    InvalidTypeError
        X is not numeric: text and categories without labels, dates, arbitrary objects, sparse matrices.
    InvalidInputError
        X is empty, not two-dimensional, or holds infinite values, complex numbers or unknown labels; names repeat, or
        do not match `variables`.

    Examples
    --------
    >>> from tensorly_smp.samples.reading import read_samples
    >>> samples = read_samples([[1, None, 3], [4, 5, 6]])
    >>> samples.variables
    ('x0', 'x1', 'x2')
    >>> samples.values
    array([[ 1., nan,  3.],
           [ 4.,  5.,  6.]])
    """
    takes_text = value_labels is None or bool(value_labels)
    values: np.ndarray
    if (frame := _as_pandas(X)) is not None:
        values, given, names, form = _read_frame(*frame, takes_text)
    elif isinstance(X, xr.DataArray | xr.Dataset):
        values, given, names, form = _read_xarray(X, variables, sample_dim, takes_text)
    else:
        values, given = _read_array(X, takes_text)
        names = None
        form = {}
    found = default_names(values.shape[1]) if names is None else names
    positions = list(range(len(found)))
    refuse_infinite(np.isinf(values).any(axis=0), found)
    if variables is not None:
        found, positions = _match_names(found, variables, is_labelled=names is not None)
        values = values[:, positions]
        given = tuple(given[position] for position in positions)
    if value_labels is not None:
        values, given = _recoded(values, given, found, value_labels, is_labelled=names is not None)
    of_columns = tuple(given[n] for n in np.argsort(positions))
    labels = SampleLabels(len(values), tuple(positions), value_labels=of_columns, **form)
    # A view, so that the caller's own array stays writable.
    values = values.view()
    values.flags.writeable = False
    return Samples(
        values, found, labels, {name: own for name, own in zip(found, given, strict=True) if own and own.labels}
    )


def _recoded(
    values: np.ndarray,
    given: Sequence[ValueLabels | None],
    names: Sequence[Hashable],
    value_labels: Mapping[Hashable, ValueLabels],
    is_labelled: bool,
) -> _Matrix:
    """Values (n_samples, n_variables) whose codes are those of a fit, and their labels.

    Numbers are codes, and stay numbers; columns of labelled samples without any entry get labels.
    """
    recoded: list[ValueLabels | None] = [None] * len(names)
    for n, (own, name) in enumerate(zip(given, names, strict=True)):
        known = value_labels.get(name)
        if known is None:
            if own is not None and (refusal := label_refusal(values[:, n], own, name)):
                raise refusal
        elif own is None:
            codes = values[~np.isnan(values[:, n]), n]
            if not np.isin(codes, np.arange(len(known.labels))).all():
                expected = f"its labels, {listed(known.labels)}, or their codes 0 to {len(known.labels) - 1}"
                raise InvalidInputError(f"Variable {shown(name)} holds numbers; expected {expected}.")
            recoded[n] = known if is_labelled and np.isnan(values[:, n]).all() else None
        else:
            if own.labels != known.labels:
                values = values.copy()
                values[:, n] = known.recode(values[:, n], own, name)
            recoded[n] = replace(known, kind=own.kind)
    return values, tuple(recoded)


def _as_pandas(X: Any) -> tuple[pd.DataFrame, str, bool] | None:
    """A frame of pandas, polars or pyarrow as one of pandas, its library, and whether its index is of pandas.

    Columns of a table of pyarrow that hold the index of a DataFrame of pandas become its index again.

    Raises
    ------
    InvalidTypeError
        A lazy frame, or a table of another library, whose names would be lost.
    """
    if isinstance(X, pd.DataFrame):
        return X, "dataframe", True
    if is_of(X, POLARS, "LazyFrame"):
        raise InvalidTypeError("X is a polars LazyFrame; expected a DataFrame. Pass X.collect().")
    if is_of(X, POLARS, "DataFrame"):
        columns = {name: _polars_column(X[name], sys.modules[POLARS]) for name in X.columns}
        return pd.DataFrame(columns, index=pd.RangeIndex(X.height)), POLARS, False
    if is_of(X, ARROW, "Table") or is_of(X, ARROW, "RecordBatch"):
        of_index = (X.schema.pandas_metadata or {}).get("index_columns", [])
        try:
            return X.to_pandas(), ARROW, bool(of_index)
        except (TypeError, ValueError):  # types of pandas that it does not find again by their names
            plain = X.drop_columns([each for each in of_index if isinstance(each, str)])
            return plain.to_pandas(ignore_metadata=True), ARROW, False
    if hasattr(X, "__dataframe__"):  # which arrays do not have
        expected = "expected a frame of pandas, polars or pyarrow, or an array. Convert it, as by its to_pandas()"
        raise InvalidTypeError(f"X is {type(X).__module__}.{type(X).__name__}; {expected}.")
    return None


def is_of(X: Any, module: str, name: str) -> bool:
    """`isinstance` check that does not import an optional module."""
    return isinstance(X, getattr(sys.modules.get(module), name, ()))


def _polars_column(column: Any, polars: Any) -> Any:
    """A column of polars as an array (n_samples,), or as categories.

    Categories without an order are shared by all columns: those that occur are taken, sorted.
    """
    if isinstance(column.dtype, polars.Enum | polars.Categorical):
        is_ordered = isinstance(column.dtype, polars.Enum)
        labels = column.dtype.categories.to_list() if is_ordered else sorted(column.drop_nulls().unique().to_list())
        return pd.Categorical(column.cast(polars.String).to_list(), labels, ordered=is_ordered)
    if column.dtype.is_integer():  # 128 bits are more than NumPy has
        column = column.cast(polars.Float64)
    values = None if column.dtype.is_nested() else column.to_numpy()
    return values if values is not None and values.ndim == 1 else np.array([None, *column.to_list()], dtype=object)[1:]


def _read_frame(X: pd.DataFrame, kind: str, is_indexed: bool, takes_text: bool) -> _Labelled:
    names = plain_names(X.columns)
    check_shape(X.shape)
    refuse_repeated(names)
    values, own = _columns(lambda n: _frame_column(X.iloc[:, n], names[n]), len(X), names, takes_text)
    return values, own, names, {"kind": kind, "columns": X.columns, "index": X.index if is_indexed else None}


def _columns(read: Callable[[int], _Column], n_samples: int, names: Sequence[Hashable], takes_text: bool) -> _Matrix:
    """Columns side by side; those that cannot be read are named in one error."""
    values = np.empty((n_samples, len(names)))
    own: list[ValueLabels | None] = [None] * len(names)
    refused = {}
    for n, name in enumerate(names):
        try:
            values[:, n], labels = read(n)
            if labels is not None and not takes_text and (refusal := label_refusal(values[:, n], labels, name)):
                raise refusal
            own[n] = labels
        except InvalidTypeError as error:
            refused[name] = error
    if refused:
        first, *others = refused
        likewise = f" Likewise: {listed(others)}." if others else ""
        raise InvalidTypeError(f"{refused[first]}{likewise}") from refused[first]
    return values, tuple(own)


def _frame_column(column: pd.Series, name: Hashable) -> _Column:
    if isinstance(column.dtype, pd.CategoricalDtype):
        labels = column.dtype.categories
        if len(labels) and all(isinstance(label, str) for label in labels):
            kind = ORDERED if column.dtype.ordered else CATEGORY
            return missing_codes(column.cat.codes.to_numpy()), ValueLabels(tuple(map(str, labels)), kind)
        column = column.astype(object)
    if pd.api.types.is_complex_dtype(column.dtype):
        raise _is_complex(str(column.dtype), (name,))
    if pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_bool_dtype(column.dtype):
        with np.errstate(over="ignore"):  # infinite values are refused later
            return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan)), None
    if pd.api.types.is_object_dtype(column.dtype) or pd.api.types.is_string_dtype(column.dtype):
        return _object_column(column.to_numpy(dtype=object), name)
    if column.isna().all():
        return np.full(len(column), np.nan), None
    first = next((f"; the first is {shown(value)}" for value in column if not pd.isna(value)), "")
    raise not_numeric(f"{column.dtype}{first}", (name,))


def _read_xarray(
    X: xr.DataArray | xr.Dataset, variables: Sequence[Hashable] | None, sample_dim: Hashable | None, takes_text: bool
) -> _Labelled:
    form = {"kind": type(X).__name__.lower(), "template": empty_copy(X)}
    if isinstance(X, xr.DataArray):
        dims = infer_sample_dims(X.dims, sample_dim, X.indexes, variables)
        matrix = X.transpose(*dims, ...)
        shape = (math.prod(X.sizes[dim] for dim in dims), matrix.shape[-1])
        check_shape(shape)
        names = None
        if (variable_dim := matrix.dims[-1]) in X.coords:
            names = plain_names(X[variable_dim].to_index().tolist())
            refuse_repeated(names)
        values, own = _to_float(matrix.values.reshape(shape), names or default_names(shape[1]), takes_text)
        return values, own, names, form | {"sample_dims": dims}
    names = tuple(X.data_vars)
    if not names:
        raise InvalidInputError("X is a Dataset without data variables; expected one-dimensional variables.")
    shared = X[names[0]].dims
    if wrong := [name for name in names if set(X[name].dims) != set(shared)]:
        words = f"X is a Dataset whose variable(s) {listed(wrong)} do not lie on the dimension(s) of {shown(names[0])}"
        raise InvalidInputError(f"{words}; expected one-dimensional variables on one shared dimension. Select these.")
    dims = infer_sample_dims(shared, sample_dim, X.indexes, n_others=0)
    n_samples = math.prod(X.sizes[dim] for dim in dims)
    check_shape((n_samples, len(names)))

    def read(n: int) -> _Column:
        values, own = _to_float(X[names[n]].transpose(*dims).values.reshape(n_samples, 1), names[n : n + 1], takes_text)
        return values[:, 0], own[0]

    values, own = _columns(read, n_samples, names, takes_text)
    return values, own, names, form | {"sample_dims": dims}


def _read_array(X: Any, takes_text: bool) -> _Matrix:
    if scipy.sparse.issparse(X):
        raise InvalidTypeError("X is a sparse matrix; expected a dense one. Pass X.toarray().")
    if isinstance(X, getattr(xr, "DataTree", ())):
        raise InvalidTypeError("X is a DataTree; expected the Dataset of one node. Pass X[path].to_dataset().")
    mask = np.ma.getmaskarray(X) if isinstance(X, np.ma.MaskedArray) else None
    if isinstance(X, list | tuple):
        X = unmasked_rows(X)
    try:
        array = np.asarray(X)
        if array.dtype.kind == "U" and isinstance(X, list):
            array = np.asarray(X, dtype=object)  # numbers beside text as they are
    except Exception as error:  # of whatever object this is
        what = f"X ({type(X).__name__}) cannot be read as a matrix: {str(error)[:200]}."
        raise InvalidInputError(f"{what} Expected rows of equal length, one a sample.") from error
    if array.ndim == 0:
        raise InvalidTypeError(f"X is {type(X).__name__}; expected an array, DataFrame, DataArray, Dataset or rows.")
    check_shape(array.shape)
    if mask is not None and array.dtype.kind in "OUT":
        array = array.astype(object)
        array[mask] = None  # what lies under the mask may be anything
    values, own = _to_float(array, default_names(array.shape[1]), takes_text)
    if mask is not None and mask.any():
        values = np.where(mask, np.nan, values)
    return values, own


def _to_float(array: np.ndarray, names: Sequence[Hashable], takes_text: bool) -> _Matrix:
    """The matrix as float64, the same memory where it is float64 already, and the labels of columns of text."""
    if array.dtype.kind in "biuf":
        with np.errstate(over="ignore"):  # longdouble beyond float64 becomes infinite, which is refused later
            return array.astype(np.float64, copy=False), (None,) * len(names)
    if array.dtype.kind == "O" or (takes_text and array.dtype.kind in "UT"):
        columns = array.astype(object, copy=False).T
        return _columns(lambda n: _object_column(columns[n], names[n]), len(array), names, takes_text)
    if array.dtype.kind == "c":
        raise _is_complex(str(array.dtype), names)
    raise not_numeric(str(array.dtype), names)


def _object_column(column: np.ndarray, name: Hashable) -> _Column:
    """Numbers and missing values of an object column; or codes of text alone, and their labels."""
    values = np.full(len(column), np.nan)
    try:
        present = ~np.asarray(pd.isna(column), dtype=bool)
        kinds = {type(value) for value in column[present]}
        if all(issubclass(kind, str) for kind in kinds):
            codes, own = ValueLabels.of_text(column)
            # Text that is a number would be a category of its own.
            if readable := [label for label in own.labels if _is_number(label)]:
                raise not_numeric(f"text that may be numbers ({shown(readable[0])})", (name,))
            return codes, own
        refused = sorted({kind.__name__ for kind in kinds if not issubclass(kind, _NUMBERS)})
        if refused:
            row = next(m for m, value in enumerate(column) if present[m] and type(value).__name__ in refused)
            words = "an argument must be a string or a number"  # as scikit-learn says it
            received = f"objects ({', '.join(refused)}; the first is {shown(column[row])} in row {row}; {words})"
            raise not_numeric(received, (name,))
        with np.errstate(over="ignore"):  # infinite values are refused later
            values[present] = column[present].astype(np.float64)
    except ArithmeticError as error:
        raise InvalidInputError(f"Variable {shown(name)} holds a number too large for float64; rescale it.") from error
    return values, None


def label_refusal(codes: np.ndarray, own: ValueLabels, name: Hashable, what: str = "") -> InvalidTypeError | None:
    """The error about text or categories where there can be none; None if all entries (n_samples,) miss."""
    present = codes[~np.isnan(codes)]
    if not len(present):
        return None
    kind = "text" if own.kind == TEXT else "categories"
    return not_numeric(f"{kind}; the first is {shown(own.labels[int(present[0])])}{what}", (name,))


def not_numeric(received: str, names: Sequence[Hashable]) -> InvalidTypeError:
    """The error about variables that hold something else than numbers."""
    return InvalidTypeError(
        f"Variable(s) {listed(names)} hold {received}; expected real numbers, with NaN or None for missing, or, in "
        "fits, text or categories of few values. Convert them (text by pandas.to_numeric, stray entries with its "
        "errors='coerce'; codes that are text, and text in dask DataFrames, to categories; yes and no to 1 and 0; "
        "kinds to numbers, as by pandas.factorize, and its -1 to NaN; dates to days since a start) or leave them out."
        f"{_saved_index(names)}"
    )


def _is_complex(received: str, names: Sequence[Hashable]) -> InvalidInputError:
    # A ValueError, and in words, that scikit-learn's users know.
    words = f"Complex data not supported: variable(s) {listed(names)} hold {received}; expected real numbers"
    return InvalidInputError(f"{words}. Pass real and imaginary parts as two variables.")


def _is_number(text: str) -> bool:
    """True for text that Python reads as a float."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_shape(shape: tuple[int, ...]) -> None:
    """Refuse anything but a matrix of at least one sample and one variable."""
    if len(shape) != 2:
        words = f"X has {len(shape)} dimension(s) (shape {shape}); expected 2, samples by variables."
        raise InvalidInputError(f"{words} Reshape your data.")
    for size, what in zip(shape, ("sample", "feature"), strict=True):
        if size == 0:
            raise InvalidInputError(f"X has 0 {what}(s) (shape={shape}) while a minimum of 1 is required.")


def refuse_infinite(infinite: np.ndarray, names: Sequence[Hashable]) -> None:
    """Refuse variables that hold infinite values, given the mask (n_variables,) of these."""
    if wrong := list(compress(names, infinite)):
        advice = "Replace them by a finite value, or by NaN if they are missing"
        raise InvalidInputError(f"Variable(s) {listed(wrong)} hold infinite values; expected finite ones. {advice}.")


def _guess_sample_dim(
    dims: tuple[Hashable, ...], coords: Mapping[Hashable, pd.Index], wanted: Sequence[Hashable] | None
) -> Hashable:
    """Dimension of the samples by what is known, or an error: a wrong guess would be a wrong model."""
    if len(dims) == 1 or dims == ("dim_0", "dim_1"):  # xarray's names for what came without: by position, as arrays
        return dims[0]
    if wanted is not None:
        named = [dim for dim in dims if dim in coords and set(coords[dim]) >= set(wanted)]
        if len(named) == 1:
            return next(dim for dim in dims if dim != named[0])
    by_name = {str(dim).lower(): dim for dim in reversed(dims)}
    as_sample = [by_name[name] for name in SAMPLE_DIMS if name in by_name]
    if as_sample:
        return as_sample[0]
    not_variable = [dim for dim in dims if str(dim).lower() not in VARIABLE_DIMS]
    if len(not_variable) == 1:
        return not_variable[0]
    # Names of variables are strings; samples may have some too, and then this does not tell.
    worded = [dim for dim in dims if dim in coords and all(isinstance(name, str) for name in coords[dim])]
    if len(worded) == 1:
        return next(dim for dim in dims if dim != worded[0])
    dates = [dim for dim in dims if isinstance(coords.get(dim), pd.DatetimeIndex)]
    if len(dates) == 1:
        return dates[0]
    advice = "Neither name tells; pass sample_dim, or rename it 'sample'."
    raise InvalidInputError(f"Which dimension of X holds the samples, {listed(dims)}? {advice}")


def present_dim(X: Any, sample_dim: Hashable | None) -> Hashable | None:
    """The dimension of the samples in a fit, if X has one of that name (or all of several); else None, to be inferred.

    A Dataset may have them without a variable along them.
    """
    dims = getattr(X, "dims", ())
    several = isinstance(sample_dim, tuple) and all(is_among(dim, dims) for dim in sample_dim)
    return sample_dim if sample_dim in dims or several else None


def infer_sample_dims(
    dims: tuple[Hashable, ...],
    sample_dim: Hashable | None,
    coords: Mapping[Hashable, pd.Index],
    wanted: Sequence[Hashable] | None = None,
    n_others: int = 1,
) -> tuple[Hashable, ...]:
    """Dimensions of the samples, all but `n_others`, by the rule that `read_samples` documents."""
    chosen: tuple[Hashable, ...] = ()
    if sample_dim is None and len(dims) == 1 + n_others:
        chosen = (_guess_sample_dim(dims, coords, wanted),)
    elif sample_dim is not None:
        chosen = sample_dim if isinstance(sample_dim, tuple) and not is_among(sample_dim, dims) else (sample_dim,)
        if not all(is_among(dim, dims) for dim in chosen) or len(set(chosen)) < len(chosen):
            expected = f"expected one of the dimensions {listed(dims)}, or a tuple"
            raise InvalidInputError(f"sample_dim is {shown(sample_dim)}; {expected}.")
    if not chosen or len(dims) != len(chosen) + n_others:
        expected = "2, samples by variables" if n_others else "one-dimensional variables on one shared dimension"
        several = tuple(dim for dim in dims if not n_others or str(dim).lower() not in VARIABLE_DIMS)
        several = several[: len(dims) - n_others]
        advice = f"Where all combinations are samples, pass sample_dim={several}, or X.stack(sample={several})."
        raise InvalidInputError(
            f"X has {len(dims)} dimension(s), {listed(dims) or 'none'}; expected {expected}. "
            f"{advice if len(several) > 1 else 'Reshape your data.'}"
        )
    if COMPONENT_DIM in chosen:
        words = f"The samples lie along a dimension called {COMPONENT_DIM!r}, which has the components in results"
        raise InvalidInputError(f"{words}; rename it, for instance to 'sample'.")
    return chosen


def _saved_index(names: Sequence[Hashable]) -> str:
    """A sentence where pandas has read the index of a saved frame as a column."""
    if "Unnamed: 0" not in names:
        return ""
    return " 'Unnamed: 0' looks like the index of a saved frame: read the file with pandas.read_csv(..., index_col=0)."


def _match_names(
    found: Sequence[Hashable], variables: Any, is_labelled: bool
) -> tuple[tuple[Hashable, ...], list[int]]:
    """The wanted variables, and the column of each."""
    try:
        if isinstance(variables, str | bytes):
            raise TypeError("a single name")
        wanted = tuple(variables)
        hash(wanted)
    except TypeError as error:
        words = f"variables is {shown(variables)}; expected a sequence of names"
        raise InvalidTypeError(f"{words} ({reason(error)}).") from error
    learned_without_names = wanted == default_names(len(wanted)) and not set(found) & set(wanted)
    if not is_labelled or learned_without_names:
        if len(found) != len(wanted):
            expected = f"expected {len(wanted)}: {listed(wanted)}, in this order"
            raise InvalidInputError(f"X has {len(found)} variables; {expected}.")
        return wanted, list(range(len(wanted)))
    missing = [name for name in wanted if name not in found]
    unknown = [name for name in found if name not in wanted]
    if missing or unknown:
        advice = "What was not observed may be columns of NaN, or take density_.marginal(names) of the others."
        if unknown:
            advice = f"Select or rename columns; a bare array is matched by position.{_saved_index(unknown)}"
        words = f"missing {listed(missing) or 'none'}; unknown {listed(unknown) or 'none'}; expected {listed(wanted)}"
        raise InvalidInputError(f"The variables of X do not match: {words}. {advice}")
    return wanted, [found.index(name) for name in wanted]
