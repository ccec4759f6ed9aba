"""Samples of any chunked kind as parts: bare matrices beside their weights; and one pass that surveys all of them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from tensorly_smp._support.checks import checked_sample_weight
from tensorly_smp._support.parallel import Parts, is_chunked
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.samples.codebook import ValueLabels
from tensorly_smp.samples.labels import SampleLabels, plain_names
from tensorly_smp.samples.reading import (
    NO_LABELS,
    Samples,
    check_shape,
    infer_sample_dims,
    is_of,
    not_numeric,
    read_samples,
    refuse_infinite,
)
from tensorly_smp.samples.values import evenly_spaced, ranges, with_extremes

#: Chunks are put together up to this many entries: smaller ones would be all overhead.
PART_ENTRIES = 2**21


def is_chunked_frame(X: Any) -> bool:
    """Tell whether X is a dask DataFrame."""
    return is_of(X, "dask.dataframe", "DataFrame")


def stacked(X: xr.Dataset, sample_dim: Hashable | None = None) -> Any:
    """A Dataset of dask arrays as one DataArray (sample, variable), nothing computed.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        Variables that are not one-dimensional on a shared dimension, or no real numbers.
    """
    # What is wrong with names, dimensions and dtypes is said as of a Dataset in memory, of one row.
    read_samples(
        xr.Dataset({name: (x.dims, np.zeros((1,) * x.ndim, x.dtype)) for name, x in X.data_vars.items()}),
        sample_dim=sample_dim,
    )
    dim = _one_of(X[next(iter(X.data_vars))].dims)
    variable_dim = "variable"
    while variable_dim in (*X.variables, *X.dims):
        variable_dim += "_"
    array = X.astype(np.float64).to_dataarray(variable_dim).transpose(dim, variable_dim)
    return array.chunk({variable_dim: -1})


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some samples.

    Attributes
    ----------
    values : ndarray of float64 (n_samples, n_variables)
        NaN where an entry is missing.
    weights : ndarray (n_samples,) or None
    """

    values: np.ndarray
    weights: np.ndarray | None


@dataclass(frozen=True, eq=False)
class Layout:
    """Blocks of a chunked object along its samples, and the meaning of their columns.

    Attributes
    ----------
    blocks : tuple of dask.delayed.Delayed
        Each a matrix or a DataFrame of some samples.
    sizes : tuple of int or None
        Samples per block, where known.
    variables : tuple of hashable (n_variables,)
    positions : tuple of int
        Column of every variable in the blocks.
    labels : SampleLabels
        Of a single sample, with the labels of the columns.
    value_labels : mapping from name to ValueLabels
        Of the variables.
    of_blocks : mapping from name to ValueLabels
        The same by the names of the columns of the blocks.
    """

    blocks: tuple[Any, ...]
    sizes: tuple[int, ...] | None
    variables: tuple[Hashable, ...]
    positions: tuple[int, ...]
    labels: SampleLabels
    value_labels: Mapping[Hashable, ValueLabels]
    of_blocks: Mapping[Hashable, ValueLabels]


def layout_of(
    X: Any,
    variables: Sequence[Hashable] | None = None,
    sample_dim: Hashable | None = None,
    value_labels: Mapping[Hashable, ValueLabels] | None = NO_LABELS,
) -> Layout:
    """Blocks and columns of a chunked object; nothing is computed.

    Parameters
    ----------
    X : dask array, dask DataFrame or DataArray (n_samples, n_variables)
    variables, sample_dim, value_labels
        As for :func:`tensorly_smp.samples.reading.read_samples`. If they come as they are, columns of categories of a
        dask DataFrame have labels, and text has none.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        As for `read_samples`; or another kind of object, or categories that are not known.
    """
    if isinstance(X, xr.Dataset):
        # The one dimension of its variables is that of the samples, whatever its name.
        X = stacked(X, sample_dim)
        sample_dim = X.dims[0]
    if isinstance(X, xr.DataArray):
        dim = _one_of(infer_sample_dims(X.dims, sample_dim, X.indexes, variables))
        check_shape(X.shape)
        probe = X.isel({dim: slice(0, 1)})
        probe = probe.copy(data=np.zeros(probe.shape, dtype=X.dtype))
        return _array_layout(X.transpose(dim, ...).data, read_samples(probe, variables, dim))
    if is_chunked_frame(X):
        row = _probe_of_frame(X, takes_unknown=value_labels is not None)
        read = read_samples(row, variables, None, value_labels)
        names = plain_names(row.columns)
        pairs = zip(read.variables, read.labels.positions, strict=True)
        known = read.value_labels if value_labels is None else value_labels
        of_blocks = {names[position]: known[name] for name, position in pairs if name in known}
        return Layout(tuple(X.to_delayed()), None, read.variables, read.labels.positions, read.labels, known, of_blocks)
    if not is_of(X, "dask.array", "Array"):
        raise InvalidTypeError(f"X is {type(X).__name__}; expected a dask array, a dask DataFrame or a DataArray.")
    check_shape(X.shape)
    return _array_layout(X, read_samples(np.zeros((min(1, X.shape[0]), X.shape[1]), dtype=X.dtype), variables))


def _one_of(sample_dims: tuple[Hashable, ...]) -> Hashable:
    if len(sample_dims) > 1:
        advice = f"Pass X.stack(sample={sample_dims})"
        raise InvalidInputError(f"X is in chunks (dask), with samples along {sample_dims}; expected one. {advice}.")
    return sample_dims[0]


def _array_layout(array: Any, read: Samples) -> Layout:
    array = array.rechunk({1: -1})
    rows = array.chunks[0]
    sizes = None if np.isnan(rows).any() else tuple(int(size) for size in rows)
    blocks = tuple(array.to_delayed().ravel())
    return Layout(blocks, sizes, read.variables, read.labels.positions, read.labels, {}, {})


def _probe_of_frame(frame: Any, takes_unknown: bool) -> pd.DataFrame:
    """One row of the frame's types, categories missing.

    What is neither of numbers nor categories may be all missing: that is for the partitions to check.
    """
    from dask.dataframe.dispatch import meta_nonempty
    from dask.dataframe.utils import has_known_categories

    probe = meta_nonempty(frame._meta).iloc[:1]
    columns: list[Any] = []
    for n, (name, kind) in enumerate(probe.dtypes.items()):
        if isinstance(kind, pd.CategoricalDtype):
            if not takes_unknown and not has_known_categories(frame._meta.iloc[:, n]):
                raise not_numeric("categories that are not known yet (call X.categorize() first)", (name,))
            columns.append(pd.Categorical([None], dtype=frame._meta.dtypes.iloc[n]))
        elif pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_bool_dtype(kind):
            columns.append(probe.iloc[:, n].array)
        else:
            columns.append(np.full(1, np.nan))
    made = pd.DataFrame(dict(enumerate(columns)), index=probe.index)
    return made.set_axis(probe.columns, axis=1)


def read_parts(layout: Layout, sample_weight: Any) -> tuple[Parts, tuple[int, ...]]:
    """Parts of samples, small blocks put together, and their sizes; weights by position.

    Parts are read where they are used, so that nothing of them lies beside the blocks even for a moment.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        No samples, or weights of another shape.
    """
    sizes = layout.sizes
    if sizes is None:
        sizes = tuple(Parts.of([[block] for block in layout.blocks], len).gather())
    if not sum(sizes):
        raise InvalidInputError("X has 0 sample(s) while a minimum of 1 is required.")
    weights = None
    if sample_weight is not None:  # in memory: there is one number for a sample
        given = np.asarray(sample_weight) if is_chunked(sample_weight) else sample_weight
        weights = np.split(np.asarray(checked_sample_weight(given, sum(sizes))), np.cumsum(sizes)[:-1])
    groups: list[list[int]] = []
    filled = np.inf
    for i, size in enumerate(sizes):  # neighboring blocks make a part
        if (filled + size) * len(layout.variables) > PART_ENTRIES:
            groups.append([])
            filled = 0.0
        groups[-1].append(i)
        filled += size
    own = [None if weights is None else [weights[i] for i in group] for group in groups]
    inputs = [[[layout.blocks[i] for i in group], some] for group, some in zip(groups, own, strict=True)]
    read = partial(_read, positions=list(layout.positions), value_labels=layout.of_blocks)
    return Parts.of(inputs, read), tuple(sum(sizes[i] for i in group) for group in groups)


def _read(
    blocks: list[Any], weights: list[Any] | None, positions: list[int], value_labels: Mapping[Hashable, ValueLabels]
) -> Chunk:
    matrices = [block_values(block, positions, value_labels) for block in blocks]
    values = matrices[0] if len(matrices) == 1 else np.concatenate(matrices)
    return Chunk(values, None if weights is None else np.concatenate(weights))


def block_values(
    block: Any, positions: Sequence[int], value_labels: Mapping[Hashable, ValueLabels] = NO_LABELS
) -> np.ndarray:
    """A block of samples as a float64 matrix of these columns, never the block's own memory.

    Parameters
    ----------
    block : ndarray or DataFrame (n_samples, n_columns)
    positions : sequence of int (n_variables,)
    value_labels : mapping from name to ValueLabels
        By the names of the columns.

    Returns
    -------
    ndarray (n_samples, n_variables)
    """
    if not len(block):
        return np.empty((0, len(positions)))
    if isinstance(block, np.ndarray) and block.dtype.kind in "biuf" and not isinstance(block, np.ma.MaskedArray):
        return np.asarray(block[:, list(positions)], dtype=np.float64)
    return read_samples(block, value_labels=value_labels).values[:, list(positions)]


def survey_parts(
    parts: Parts, sizes: Sequence[int], variables: Sequence[Hashable]
) -> tuple[np.ndarray, np.ndarray | None, float]:
    """Survey all samples by one pass over them.

    Returns
    -------
    subsample : ndarray (n_kept, n_variables)
        That of :func:`representative` of all samples.
    subsample_weights : ndarray (n_kept,) or None
    total_weight : float

    Raises
    ------
    InvalidInputError
        Infinite values, or weights that are of no use.
    """
    n_samples = sum(sizes)
    firsts = np.cumsum([0, *sizes])[:-1].tolist()
    found = parts.map(_survey_part, n_samples, each=firsts).reduce(_merge_surveys)
    subsample, weights, counted, every, total = found
    refuse_infinite(np.isinf(every).any(axis=0), variables)
    if n_samples > len(subsample):
        subsample, weights = with_extremes(subsample, weights, counted, every)
    subsample.flags.writeable = False
    return subsample, weights, total


def _survey_part(chunk: Chunk, first: int, n_samples: int) -> tuple[Any, ...]:
    """Subsample and its weights, ranges of what counts and of all, and total weight of a part.

    Its first sample has the position `first` among all. The total is NaN if some weight is of no use.
    """
    values = chunk.values
    rows = evenly_spaced(n_samples, values.shape[1])
    rows = rows[np.searchsorted(rows, first) : np.searchsorted(rows, first + len(values))] - first
    every = ranges(values)
    if chunk.weights is None:
        return values[rows], None, every, every, float(len(values))
    weights = chunk.weights
    return values[rows], weights[rows], ranges(values[weights > 0]), every, float(weights.sum())


def _merge_surveys(surveys: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Merge surveys of several parts into one."""
    rows, weights, counted, every, totals = zip(*surveys, strict=True)
    own = None if weights[0] is None else np.concatenate(weights)
    return np.concatenate(rows), own, ranges(np.concatenate(counted)), ranges(np.concatenate(every)), sum(totals)
