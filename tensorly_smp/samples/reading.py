"""Samples of any accepted kind as a bare matrix, beside their labels."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
import xarray as xr

from tensorly_smp._support.checks import is_among, unmasked_rows
from tensorly_smp._support.representations import reason, short_repr, shown
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.samples.arrow_frames import column_names, column_values, frame_kind, without_index
from tensorly_smp.samples.labels import (
    COMPONENT_DIM,
    SAMPLE_DIM,
    DataArrayLabels,
    DatasetLabels,
    FrameLabels,
    OtherFrameLabels,
    SampleLabels,
    default_names,
    list_names,
    plain_names,
    repeated_names,
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
#: What an array of objects may hold beside what is missing.
_NUMBERS = (numbers.Real, np.bool_, Decimal)


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
    """

    values: np.ndarray
    variables: tuple[Hashable, ...]
    labels: SampleLabels

    __repr__ = short_repr


def read_samples(X: Any, variables: Sequence[Hashable] | None = None, sample_dim: Hashable | None = None) -> Samples:
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
    sample_dim : hashable, optional
        Dimension of the samples in a DataArray or Dataset; other input ignores it. Without it: the one beside the
        dimension whose coordinate has all `variables`, where these are given; else the dimension called sample,
        samples, obs, observation(s), row(s), record(s), index, time or date (the first of these that occurs); else the
        one beside a dimension called variable(s), var, feature(s), column(s), sensor(s) or channel(s); else the one
        beside the only dimension whose coordinate is strings; else the only one with dates for coordinates; else the
        first of two dimensions without names of their own. Where none of these tells, it is an error.

    Returns
    -------
    Samples

    Raises
    ------
    InvalidTypeError
        X is not numeric: text, dates, categories, arbitrary objects, sparse matrices.
    InvalidInputError
        X is empty, not two-dimensional, or holds infinite values or complex numbers; names repeat, or do not match
        `variables`.

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
    names: tuple[Hashable, ...] | None
    labels: SampleLabels
    if isinstance(X, pd.DataFrame):
        values, names, labels = _read_frame(X)
    elif (kind := frame_kind(X)) is not None:
        values, names, labels = _read_other_frame(X, kind)
    elif isinstance(X, xr.DataArray):
        values, names, labels = _read_dataarray(X, variables, sample_dim)
    elif isinstance(X, xr.Dataset):
        values, names, labels = _read_dataset(X, sample_dim)
    else:
        values, names, labels = _read_array(X)
    found = default_names(values.shape[1]) if names is None else names
    refuse_infinite(np.isinf(values).any(axis=0), found)
    if variables is not None:
        wanted = _checked_names(variables)
        positions = _match_names(found, wanted, labelled=names is not None)
        values = values[:, positions]
        found = wanted
        labels = replace(labels, positions=tuple(positions))
    # A view, so that the caller's own array stays writable.
    values = values.view()
    values.flags.writeable = False
    return Samples(values, found, labels)


def _read_frame(X: pd.DataFrame) -> tuple[np.ndarray, tuple[Hashable, ...], SampleLabels]:
    names = plain_names(X.columns.tolist())
    check_shape(X.shape)
    _refuse_repeated(names)
    values = _columns(lambda n: _frame_column(X.iloc[:, n], names[n]), len(X), names)
    return values, names, FrameLabels(len(X), tuple(range(len(names))), X.index, X.columns)


def _read_other_frame(X: Any, kind: str) -> tuple[np.ndarray, tuple[Hashable, ...], SampleLabels]:
    X, index = without_index(X)
    names = column_names(X)
    check_shape(X.shape)
    _refuse_repeated(names)
    values = _columns(lambda n: _to_float(column_values(X, n)[:, np.newaxis], names[n : n + 1])[:, 0], len(X), names)
    return values, names, OtherFrameLabels(len(X), tuple(range(len(names))), names, kind, index)


def _columns(read: Callable[[int], np.ndarray], n_samples: int, names: Sequence[Hashable]) -> np.ndarray:
    """Columns side by side; those that cannot be read are named in one error."""
    values = np.empty((n_samples, len(names)))
    refused = {}
    for n, name in enumerate(names):
        try:
            values[:, n] = read(n)
        except InvalidTypeError as error:
            refused[name] = error
    if refused:
        first, *others = refused
        likewise = f" Likewise: {list_names(others)}." if others else ""
        raise InvalidTypeError(f"{refused[first]}{likewise}") from refused[first]
    return values


def _frame_column(column: pd.Series, name: Hashable) -> np.ndarray:
    if isinstance(column.dtype, pd.CategoricalDtype):
        categories = column.dtype.categories.dtype
        if pd.api.types.is_numeric_dtype(categories) and not pd.api.types.is_complex_dtype(categories):
            column = column.astype(categories if column.notna().all() else np.float64)
        elif pd.api.types.is_object_dtype(categories):
            column = column.astype(object)
    if pd.api.types.is_complex_dtype(column.dtype):
        raise _is_complex(str(column.dtype), (name,))
    if pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_bool_dtype(column.dtype):
        with np.errstate(over="ignore"):  # infinite values are refused later
            return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    if pd.api.types.is_object_dtype(column.dtype):
        return _object_column(column.to_numpy(), name)
    if column.isna().all():
        return np.full(len(column), np.nan)
    first = next((f"; the first is {shown(value)}" for value in column if not pd.isna(value)), "")
    raise _not_numeric(f"{column.dtype}{first}", (name,))


def _read_dataarray(
    X: xr.DataArray, variables: Sequence[Hashable] | None, sample_dim: Hashable | None
) -> tuple[np.ndarray, tuple[Hashable, ...] | None, SampleLabels]:
    check_shape(X.shape)
    sample_dim = infer_sample_dim(X.dims, sample_dim, X.indexes, variables)
    (variable_dim,) = (dim for dim in X.dims if dim != sample_dim)
    matrix = X.transpose(sample_dim, variable_dim)
    names = None
    if variable_dim in X.coords:
        names = plain_names(X[variable_dim].to_index().tolist())
        _refuse_repeated(names)
    n_samples, n_variables = matrix.shape
    values = _to_float(matrix.values, names or default_names(n_variables))
    labels = DataArrayLabels(
        n_samples,
        tuple(range(n_variables)),
        sample_dim,
        X.coords.to_dataset(),
        dims=X.dims,
        name=X.name,
        attrs=dict(X.attrs),
    )
    return values, names, labels


def _read_dataset(X: xr.Dataset, sample_dim: Hashable | None) -> tuple[np.ndarray, tuple[Hashable, ...], SampleLabels]:
    names = tuple(X.data_vars)
    if not names:
        raise InvalidInputError("X is a Dataset without data variables; expected one-dimensional variables.")
    dims = X[names[0]].dims
    wrong = [name for name in names if len(X[name].dims) != 1 or X[name].dims != dims]
    if wrong:
        raise InvalidInputError(
            f"X is a Dataset whose variable(s) {list_names(wrong)} are not one-dimensional or not on the dimension of "
            "the others; expected one-dimensional variables on one shared dimension. Select these, or pass a DataArray."
        )
    sample_dim = infer_sample_dim(dims, sample_dim, X.indexes, None)
    shape = (X.sizes[sample_dim], len(names))
    check_shape(shape)
    values = np.empty(shape)
    for n, name in enumerate(names):
        values[:, n : n + 1] = _to_float(np.asarray(X[name].values)[:, np.newaxis], (name,))
    template = X.coords.to_dataset().assign_attrs(X.attrs)
    attrs = {name: dict(X[name].attrs) for name in names}
    return values, names, DatasetLabels(shape[0], tuple(range(len(names))), sample_dim, template, attrs=attrs)


def _read_array(X: Any) -> tuple[np.ndarray, None, SampleLabels]:
    if scipy.sparse.issparse(X):
        raise InvalidTypeError("X is a sparse matrix; expected a dense one. Pass X.toarray().")
    mask = np.ma.getmaskarray(X) if isinstance(X, np.ma.MaskedArray) else None
    if isinstance(X, list | tuple):
        X = unmasked_rows(X)
    try:
        array = np.asarray(X)
    except Exception as error:  # of whatever object this is
        raise InvalidInputError(
            f"X ({type(X).__name__}) cannot be read as a matrix: {str(error)[:200]}. Expected rows of equal length, "
            "one a sample."
        ) from error
    if array.ndim == 0:
        raise InvalidTypeError(
            f"X is {type(X).__name__}; expected an array, DataFrame, DataArray, Dataset or list of rows."
        )
    check_shape(array.shape)
    if mask is not None and array.dtype.kind == "O":
        array = array.copy()
        array[mask] = None  # what lies under the mask may be anything
    values = _to_float(array, default_names(array.shape[1]))
    if mask is not None and mask.any():
        values = np.where(mask, np.nan, values)
    return values, None, SampleLabels(values.shape[0], tuple(range(values.shape[1])))


def _to_float(array: np.ndarray, names: Sequence[Hashable]) -> np.ndarray:
    """The matrix as float64; the same memory where it is float64 already."""
    if array.dtype.kind in "biuf":
        with np.errstate(over="ignore"):  # longdouble beyond float64 becomes infinite, which is refused later
            return array.astype(np.float64, copy=False)
    if array.dtype.kind == "O":
        return np.stack([_object_column(array[:, n], name) for n, name in enumerate(names)], axis=1)
    if array.dtype.kind == "c":
        raise _is_complex(str(array.dtype), names)
    raise _not_numeric(str(array.dtype), names)


def _object_column(column: np.ndarray, name: Hashable) -> np.ndarray:
    """Numbers and missing values of an object column."""
    values = np.full(len(column), np.nan)
    try:
        present = ~np.asarray(pd.isna(column), dtype=bool)
        kinds = {type(value) for value in column[present]}
        refused = sorted({kind.__name__ for kind in kinds if not issubclass(kind, _NUMBERS)})
        if refused:
            row = next(m for m, value in enumerate(column) if present[m] and type(value).__name__ in refused)
            received = f"objects ({', '.join(refused)}; the first is {shown(column[row])} in row {row})"
            raise _not_numeric(received, (name,), _words_of_float(column[row]))
        with np.errstate(over="ignore"):  # infinite values are refused later
            values[present] = column[present].astype(np.float64)
    except OverflowError as error:
        raise InvalidInputError(f"Variable {shown(name)} holds a number too large for float64; rescale it.") from error
    except ArithmeticError as error:  # of decimal
        raise InvalidInputError(f"Variable {shown(name)} holds a decimal number that signals an error.") from error
    return values


def _not_numeric(received: str, names: Sequence[Hashable], cause: str = "") -> InvalidTypeError:
    return InvalidTypeError(
        f"Variable(s) {list_names(names)} hold {received}; expected real numbers, with NaN or None for missing. "
        "Convert them (text by pandas.to_numeric, stray entries with its errors='coerce'; yes and no to 1 and 0; kinds "
        "to numbers, as by pandas.factorize, and its -1 to NaN; dates to days since a start) or leave them out."
        f"{cause}{_saved_index(names)}"
    )


def _is_complex(received: str, names: Sequence[Hashable]) -> InvalidInputError:
    # A ValueError, and in words, that scikit-learn's users know.
    return InvalidInputError(
        f"Complex data not supported: variable(s) {list_names(names)} hold {received}; expected real numbers. Pass "
        "real and imaginary parts as two variables, or the absolute values."
    )


def _words_of_float(value: Any) -> str:
    """Python's message about an object that is no number; empty for text, which might be one."""
    try:
        float(value)
    except TypeError as error:
        return f" Python says: {str(error)[:200]}."
    except Exception:
        pass
    return ""


def check_shape(shape: tuple[int, ...]) -> None:
    """Refuse anything but a matrix of at least one sample and one variable."""
    if len(shape) != 2:
        raise InvalidInputError(
            f"X has {len(shape)} dimension(s) (shape {shape}); expected 2, samples by variables. Reshape your data."
        )
    for size, what in zip(shape, ("sample", "feature"), strict=True):
        if size == 0:
            raise InvalidInputError(f"X has 0 {what}(s) (shape={shape}) while a minimum of 1 is required.")


def _refuse_repeated(names: Sequence[Hashable]) -> None:
    repeated = repeated_names(names)
    if repeated:
        raise InvalidInputError(f"Variable name(s) {list_names(repeated)} occur more than once; rename the columns.")


def refuse_infinite(infinite: np.ndarray, names: Sequence[Hashable]) -> None:
    """Refuse variables that hold infinite values, given the mask (n_variables,) of these."""
    if infinite.any():
        wrong = [name for name, is_wrong in zip(names, infinite, strict=True) if is_wrong]
        raise InvalidInputError(
            f"Variable(s) {list_names(wrong)} hold infinite values; expected finite ones. Replace them by a finite "
            "value, or by NaN if they are missing."
        )


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
    raise InvalidInputError(
        f"Which dimension of X holds the samples, {list_names(dims)}? Neither name tells; pass "
        "sample_dim, or rename it 'sample'."
    )


def present_dim(X: Any, sample_dim: Hashable | None) -> Hashable | None:
    """The dimension of the samples in a fit, if X has one of that name; else None, to be inferred."""
    return sample_dim if sample_dim in getattr(X, "dims", ()) else None


def infer_sample_dim(
    dims: tuple[Hashable, ...],
    sample_dim: Hashable | None,
    coords: Mapping[Hashable, pd.Index],
    wanted: Sequence[Hashable] | None,
) -> Hashable:
    """Dimension of the samples, by the rule that `read_samples` documents."""
    if sample_dim is not None and not is_among(sample_dim, dims):
        raise InvalidInputError(
            f"sample_dim is {shown(sample_dim)}; expected one of the dimensions {list_names(dims)}."
        )
    if sample_dim is None:
        sample_dim = _guess_sample_dim(dims, coords, wanted)
    if sample_dim == COMPONENT_DIM:
        raise InvalidInputError(
            f"The samples lie along a dimension called {COMPONENT_DIM!r}, which names the mixture components in "
            "results; rename it, for instance to 'sample'."
        )
    return sample_dim


def _checked_names(variables: Any) -> tuple[Hashable, ...]:
    try:
        if isinstance(variables, str | bytes):
            raise TypeError("a single name")
        wanted = tuple(variables)
        hash(wanted)
    except TypeError as error:
        raise InvalidTypeError(
            f"variables is {shown(variables)}; expected a sequence of names ({reason(error)})."
        ) from error
    return wanted


def _mended(missing: Sequence[Hashable], unknown: Sequence[Hashable]) -> str:
    """Sentences that say what to do where names of variables are missing or unknown."""
    if not unknown:
        return (
            "Variables that were not observed may be columns of NaN, and density_.marginal(names) is the density of "
            "some variables; both are for product mixtures."
        )
    return f"Select or rename the columns, or pass a bare array to match them by position.{_saved_index(unknown)}"


def _saved_index(names: Sequence[Hashable]) -> str:
    """A sentence where pandas has read the index of a saved frame as a column."""
    if "Unnamed: 0" not in names:
        return ""
    return " 'Unnamed: 0' looks like the index of a saved frame: read the file with pandas.read_csv(..., index_col=0)."


def _match_names(found: Sequence[Hashable], wanted: Sequence[Hashable], labelled: bool) -> list[int]:
    """Column of every wanted variable."""
    learned_without_names = wanted == default_names(len(wanted)) and not set(found) & set(wanted)
    if not labelled or learned_without_names:
        if len(found) != len(wanted):
            raise InvalidInputError(
                f"X has {len(found)} variables; expected {len(wanted)}: {list_names(wanted)}, in this order."
            )
        return list(range(len(wanted)))
    missing = [name for name in wanted if name not in found]
    unknown = [name for name in found if name not in wanted]
    if missing or unknown:
        raise InvalidInputError(
            f"The variables of X do not match: missing {list_names(missing) or 'none'}; unknown "
            f"{list_names(unknown) or 'none'}; expected {list_names(wanted)}. {_mended(missing, unknown)}"
        )
    position = {name: n for n, name in enumerate(found)}
    return [position[name] for name in wanted]
