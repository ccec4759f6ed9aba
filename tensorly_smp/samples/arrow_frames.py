"""DataFrames of polars and tables of pyarrow: their columns, and answers of the same kind; neither is imported here."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from tensorly_smp.exceptions import InvalidTypeError, MissingDependencyError
from tensorly_smp.samples.value_labels import CATEGORY, ORDERED, TEXT, ValueLabels

POLARS, ARROW = "polars", "pyarrow"


def frame_kind(X: Any) -> str | None:
    """The library that a DataFrame other than pandas' is of: "polars" or "pyarrow"; None for anything else.

    Raises
    ------
    InvalidTypeError
        A lazy frame, or a table of another library, whose names would be lost.
    """
    polars = sys.modules.get(POLARS)
    arrow = sys.modules.get(ARROW)
    if polars is not None and hasattr(polars, "DataFrame"):
        if isinstance(X, polars.DataFrame):
            return POLARS
        if isinstance(X, polars.LazyFrame):
            raise InvalidTypeError("X is a polars LazyFrame; expected a DataFrame. Pass X.collect().")
    if arrow is not None and hasattr(arrow, "Table") and isinstance(X, arrow.Table | arrow.RecordBatch):
        return ARROW
    if hasattr(X, "__dataframe__"):  # which arrays do not have
        raise InvalidTypeError(
            f"X is {type(X).__module__}.{type(X).__name__}; expected a DataFrame of pandas or polars, a table of "
            "pyarrow, a DataArray, a Dataset or an array. Convert it, by its to_pandas() for instance."
        )
    return None


def column_names(X: Any) -> tuple[str, ...]:
    """Names of the columns of a frame of one of the kinds above."""
    return tuple(X.columns) if hasattr(X, "iter_columns") else tuple(X.schema.names)


def column_values(X: Any, position: int) -> np.ndarray:
    """A column as an array (n_samples,), of objects where that is what its entries are."""
    if hasattr(X, "to_series"):
        return np.asarray(X.to_series(position).to_numpy())
    column = X.column(position)
    options = {} if hasattr(column, "chunks") else {"zero_copy_only": False}
    return np.asarray(column.to_numpy(**options))


def column_categories(X: Any, position: int) -> tuple[tuple[str, ...], np.ndarray, bool] | None:
    """Labels, codes (n_samples,) with -1 for missing, and whether they have an order; None if it has no categories.

    Categories of polars without an order are shared by all columns: those that occur are taken, sorted.
    """
    polars = sys.modules.get(POLARS)
    if polars is not None and isinstance(X, polars.DataFrame):
        column = X.to_series(position)
        if not isinstance(column.dtype, polars.Enum | polars.Categorical):
            return None
        is_ordered = isinstance(column.dtype, polars.Enum)
        labels = column.dtype.categories.to_list() if is_ordered else sorted(column.drop_nulls().unique().to_list())
        codes = column.cast(polars.String).cast(polars.Enum(labels)).to_physical()
        return tuple(labels), codes.cast(polars.Int64).fill_null(-1).to_numpy(), is_ordered
    kind = X.schema.field(position).type
    if not hasattr(kind, "index_type") or "string" not in str(kind.value_type):
        return None
    categorical = X.column(position).to_pandas().array
    return tuple(categorical.categories), categorical.codes, bool(kind.ordered)


def without_index(X: Any) -> tuple[Any, Any]:
    """A frame without the columns that hold the index of a pandas DataFrame, and a frame of these, or None.

    Parameters
    ----------
    X : DataFrame of polars, table or record batch of pyarrow
        Tables of pyarrow that were made of pandas say so. An index of text without a name is a column called
        "__index_level_0__"; a RangeIndex is no column, but is known to the second frame, which has none then.
    """
    described = getattr(getattr(X, "schema", None), "pandas_metadata", None) or {}
    of_index = described.get("index_columns")
    if not of_index:
        return X, None
    names = column_names(X)
    found = [n for n, name in enumerate(names) if name in of_index]
    return X.select([n for n in range(len(names)) if n not in found]), X.select(found)


def with_index(frame: Any, index: Any) -> Any:
    """A table of pyarrow with the columns of an index, so that pandas makes an index of them again."""
    for n, name in enumerate(index.schema.names):
        frame = frame.append_column(name, index.column(n))
    return frame.replace_schema_metadata(index.schema.metadata)


def made_frame(kind: str, names: list[str], values: np.ndarray, value_labels: Sequence[ValueLabels | None] = ()) -> Any:
    """A frame with these columns, from an array (n_samples, n_columns); codes become columns of their labels."""
    library = _library(kind)
    columns = dict(zip(names, np.array(values.T, order="C"), strict=True))
    for name, own in zip(names, value_labels or [None] * len(names), strict=True):
        if own is None:
            continue
        labels = own.decode(columns[name]).tolist()
        if kind == POLARS:
            kinds = {TEXT: library.String, CATEGORY: library.Categorical, ORDERED: library.Enum(own.labels)}
            columns[name] = library.Series(name, labels, dtype=kinds[own.kind])
        else:
            column = library.array(labels, library.string())
            if own.kind != TEXT:
                codes = library.array(columns[name], from_pandas=True).cast(library.int32())
                column = library.DictionaryArray.from_arrays(codes, list(own.labels), ordered=own.kind == ORDERED)
            columns[name] = column
    return library.DataFrame(columns) if kind == POLARS else library.table(columns)


def made_column(kind: str, values: np.ndarray, name: str | None) -> Any:
    """A single column, from an array (n_samples,)."""
    library = _library(kind)
    return library.Series(name or "", np.ascontiguousarray(values)) if kind == POLARS else library.array(values)


def _library(kind: str) -> Any:
    try:
        return import_module(kind)
    except ImportError as error:
        raise MissingDependencyError(
            f"The model was fitted to a frame of {kind}, which is not installed, so that no other can be made: pip "
            f"install {kind}, or use model.density_.sample."
        ) from error
