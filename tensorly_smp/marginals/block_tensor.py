"""Histograms of triples arranged as one third-order tensor, whose modes stack the variables of three sets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.marginals.histograms import Marginals
from tensorly_smp.marginals.partition import Partition, as_partition, default_partition

if TYPE_CHECKING:
    import xarray as xr


def block_tensor(marginals: Marginals, partition: Partition | Sequence[Iterable[int]] | None = None) -> xr.DataArray:
    """Block tensor Y of the paper: block (j, k, l) is the histogram X_jkl, j in S1, k in S2, l in S3.

    Its CPD is [[w; A_1, A_2, A_3]] with the factors of the variables of each set stacked (Kargas & Sidiropoulos,
    AISTATS 2019, section 3), so that the algebra for one tensor gives the factors of all variables.

    Parameters
    ----------
    marginals : Marginals
        With a histogram for every block.
    partition : Partition or three collections of variable indices, optional
        Disjoint and not empty; by default :func:`default_partition`.

    Returns
    -------
    DataArray (first, second, third)
        Each mode is a MultiIndex (variable, bin).

    Raises
    ------
    InvalidInputError
        A block has not been counted, or has no sample; the message names its variables.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> marginals = smp.count_marginals(smp.encode_samples(X, smp.choose_binning(X, n_bins=4)))
    >>> Y = smp.block_tensor(marginals)
    >>> Y.shape
    (8, 8, 4)
    >>> Y.sel(first_variable="x0", second_variable="x3", third_variable="x4").shape
    (4, 4, 4)
    """
    import pandas as pd
    import xarray as xr

    if not isinstance(marginals, Marginals):
        raise InvalidTypeError(f"marginals is {type(marginals).__name__}; expected Marginals, as of count_marginals.")
    sets = default_partition(marginals.n_variables) if partition is None else partition
    parts = as_partition(sets, marginals.n_variables)
    coords: dict[Any, Any] = {}
    for dim, group in zip(("first", "second", "third"), parts, strict=True):
        labels = [(marginals.binning.variables[n], i) for n in group for i in range(marginals.n_bins[n])]
        index = pd.MultiIndex.from_tuples(labels, names=[f"{dim}_variable", f"{dim}_bin"])
        coords.update(xr.Coordinates.from_pandas_multiindex(index, dim))
    return xr.DataArray(
        stack_blocks(marginals, parts),
        coords=coords,
        dims=("first", "second", "third"),
        name="block_tensor",
        attrs={"long_name": "joint probability of three bins"},
    )


def stack_blocks(marginals: Marginals, partition: Partition) -> np.ndarray:
    """The block tensor as a bare array; see :func:`block_tensor`."""
    position = {tuple(triple): t for t, triple in enumerate(marginals.triples.tolist())}
    needed = [(j, k, m) for j in partition.first for k in partition.second for m in partition.third]
    missing = [
        block
        for block in needed
        if (key := tuple(sorted(block))) not in position or marginals.totals[position[key]] <= 0
    ]
    if missing:
        names = [tuple(marginals.binning.variables[n] for n in block) for block in missing[:5]]
        raise InvalidInputError(
            f"{len(missing)} of {len(needed)} blocks of the partition have not been counted, or have no sample: "
            f"{names}{'...' if len(missing) > 5 else ''}. Count all triples, or choose a partition of those counted."
        )
    starts = []
    for group in partition:
        sizes = [marginals.n_bins[n] for n in group]
        starts.append(dict(zip(group, np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(int), strict=True)))
    result = np.empty(partition.stacked_sizes(marginals.n_bins))
    for block in needed:
        key = tuple(sorted(block))
        histogram = marginals.histogram(position[key]).transpose([key.index(n) for n in block])
        corner = [start[n] for start, n in zip(starts, block, strict=True)]
        result[tuple(slice(c, c + size) for c, size in zip(corner, histogram.shape, strict=True))] = histogram
    return result
