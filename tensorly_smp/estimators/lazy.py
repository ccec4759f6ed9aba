"""Predictions for chunked samples: objects of the same kind, computed chunk by chunk when they are computed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from tensorly_smp._support.checks import RandomState, seed_sequence
from tensorly_smp._support.parallel import require_dask
from tensorly_smp.densities.mixture_density import MixtureDensity
from tensorly_smp.samples.codebook import ValueLabels, pandas_frame
from tensorly_smp.samples.labels import COMPONENT_DIM, LABEL, LOG_DENSITY, POSTERIOR, SampleLabels, empty_copy
from tensorly_smp.samples.parts import Layout, block_values, is_chunked_frame, layout_of, stacked

#: Takes the density, samples (n_samples, n_variables), at least one, and the position of their chunk.
Function = Callable[[MixtureDensity, np.ndarray, int], Any]


@dataclass(frozen=True, eq=False)
class LazySamples:
    """Chunked samples beside the density that is to be evaluated there. Make them with :meth:`of`.

    Attributes
    ----------
    X : dask array, dask DataFrame or DataArray
    layout : Layout
    density : MixtureDensity
    dataset : Dataset or None
        What X was made of.

    Examples
    --------
    >>> import dask.array as da
    >>> import tensorly_smp as smp
    >>> from tensorly_smp.estimators.lazy import LazySamples
    >>> density = smp.datasets.make_smooth_mixture("gaussian", 500, n_variables=3, n_components=2, random_state=0)[2]
    >>> model = smp.SmoothProductMixture(2, random_state=0).fit(density.sample(500, random_state=1)[0])
    >>> LazySamples.of(da.zeros((10, 3), chunks=(4, 3)), model.density_, None).clusters()
    dask.array<_of_block, shape=(10,), dtype=int64, chunksize=(4,), chunktype=numpy.ndarray>
    """

    X: Any
    layout: Layout
    density: MixtureDensity
    dataset: xr.Dataset | None = None

    @classmethod
    def of(cls, X: Any, density: MixtureDensity, sample_dim: Hashable | None) -> LazySamples:
        """Match the columns of X to the variables of the density; a Dataset becomes a DataArray."""
        if isinstance(X, xr.Dataset):
            array = stacked(X, sample_dim)
            return cls(array, layout_of(array, density.variables, array.dims[0]), density, X)
        return cls(X, layout_of(X, density.variables, sample_dim, density.value_labels), density)

    def clusters(self) -> Any:
        """Most probable component of every sample, (n_samples,)."""
        return self._per_sample(lambda density, x, _: density.posterior(x).argmax(axis=1), np.int64, LABEL)

    def log_densities(self) -> Any:
        """Logarithm of the density at every sample, (n_samples,)."""
        return self._per_sample(lambda density, x, _: density.logpdf(x), np.float64, LOG_DENSITY)

    def have_entries(self) -> Any:
        """Mask (n_samples,) of the samples that are not missing altogether."""
        return self._per_sample(lambda _, x, __: ~np.isnan(x).all(axis=1), np.bool_, None)

    def posterior(self) -> Any:
        """Posterior probability of every component, (n_samples, rank)."""
        rank = len(self.density.weights)

        def posterior(density: MixtureDensity, values: np.ndarray, _: int) -> Any:
            return density.posterior(values)

        if self._is_frame:
            columns = pd.RangeIndex(rank, name=COMPONENT_DIM)
            return self._frame(posterior, pd.DataFrame(np.empty((0, rank)), self.X._meta.index, columns), None)
        found = self._array(posterior, rank)
        return self._labels().wrap(found, POSTERIOR) if self._is_labelled else found

    def imputed(self, method: str, random_state: RandomState) -> Any:
        """The samples with missing entries filled in; draws of every chunk come from a stream of their own."""
        # So that a wrong method is refused here.
        self.density.impute(np.full((1, len(self.layout.variables)), np.nan), method, 0)
        seed = seed_sequence(random_state) if method == "draw" else None
        function = partial(_imputed, method=method, seed=seed)
        if self._is_frame:
            columns = self.X.columns
            own = self.layout.labels.value_labels
            meta = pandas_frame(np.empty((0, len(columns))), self.X._meta.index, columns, own)
            return self._frame(function, meta, own)
        found = self._array(function, len(self.layout.variables))
        if self.dataset is not None:
            columns = found[:, np.argsort(self.layout.positions)]
            names = enumerate(self.dataset.data_vars)
            return self.dataset.assign({name: self.dataset[name].copy(data=columns[:, n]) for n, name in names})
        if self._is_labelled:
            return self._labels().wrap_variables(found).rename(self.X.name)
        return found[:, np.argsort(self.layout.positions)]

    @property
    def _is_labelled(self) -> bool:
        return isinstance(self.X, xr.DataArray)

    @property
    def _is_frame(self) -> bool:
        return is_chunked_frame(self.X)

    def _per_sample(self, function: Function, dtype: Any, name: str | None) -> Any:
        if self._is_frame:
            return self._frame(function, pd.Series(np.empty(0, dtype), self.X._meta.index, name=name), None)
        found = self._array(function, None, dtype)
        return self._labels().wrap(found).rename(name) if self._is_labelled else found

    def _labels(self) -> SampleLabels:
        """Labels of all samples."""
        (dim,) = self.layout.labels.sample_dims
        return replace(self.layout.labels, n_samples=self.X.sizes[dim], template=empty_copy(self.X))

    def _array(self, function: Function, n_columns: int | None, dtype: Any = np.float64) -> Any:
        """Apply a function to a dask array (n_samples, n_variables); gives (n_samples,), or that many columns."""
        array = self.X
        if self._is_labelled:
            array = array.transpose(*self.layout.labels.sample_dims, ...).data
        array = array.rechunk({1: -1})
        shaped: dict[str, Any] = dict(drop_axis=1, meta=np.empty(0, dtype))
        if n_columns is not None:
            shaped = dict(chunks=(array.chunks[0], (n_columns,)), meta=np.empty((0, 0), dtype))
        empty = np.empty(0 if n_columns is None else (0, n_columns), dtype)
        run = partial(_of_block, function=function, positions=self.layout.positions, empty=empty)
        density = require_dask().delayed(self.density, pure=False, traverse=False)
        return array.map_blocks(run, density=density, dtype=dtype, **shaped)

    def _frame(self, function: Function, meta: Any, own: tuple[ValueLabels | None, ...] | None) -> Any:
        """Apply a function to the partitions of a dask DataFrame; gives a dask DataFrame or Series.

        Where the answer has the columns of the partitions, `own` are the labels of their codes.
        """
        import dask.dataframe as dd

        run = require_dask().delayed(_of_partition, pure=False)
        settings = function, self.density, self.layout.positions, self.layout.of_blocks, meta, own
        shared = require_dask().delayed(settings, pure=False, traverse=False)
        partitions = [run(block, i, shared) for i, block in enumerate(self.layout.blocks)]
        divisions = self.X.divisions if self.X.known_divisions else None
        return dd.from_delayed(partitions, meta=meta, divisions=divisions, verify_meta=False)


def _imputed(
    density: MixtureDensity, values: np.ndarray, chunk: int, method: str, seed: np.random.SeedSequence | None
) -> np.ndarray:
    """Samples with missing entries filled in; every chunk draws from the child stream of its position."""
    child = None if seed is None else np.random.SeedSequence(entropy=seed.entropy, spawn_key=(*seed.spawn_key, chunk))
    return np.asarray(density.impute(values, method, child))


def _of_block(
    block: np.ndarray,
    function: Function,
    density: MixtureDensity,
    positions: Sequence[int],
    empty: np.ndarray,
    block_id: tuple[int, ...] = (0,),
) -> np.ndarray:
    return function(density, block_values(block, positions), block_id[0]) if len(block) else empty


def _of_partition(frame: pd.DataFrame, position: int, shared: tuple[Any, ...]) -> pd.DataFrame | pd.Series:
    function, density, positions, of_blocks, meta, own = shared
    if not len(frame):
        return meta
    found = function(density, block_values(frame, positions, of_blocks), position)
    if isinstance(meta, pd.Series):
        return pd.Series(found, index=frame.index, name=meta.name)
    if own is not None:
        return pandas_frame(found[:, np.argsort(positions)], frame.index, meta.columns, own)
    return pd.DataFrame(found, index=frame.index, columns=meta.columns)
