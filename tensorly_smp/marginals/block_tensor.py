"""Histograms of triples arranged as one third-order tensor, whose modes stack the variables of three sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, product
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.marginals.histograms import Marginals
from tensorly_smp.marginals.partition import Partition, as_partition, default_partition

if TYPE_CHECKING:
    import xarray as xr

#: Random partitions that are looked at for one whose blocks have been counted.
MOST_PARTITIONS_TRIED = 200


def block_tensor(
    marginals: Marginals | Any,
    partition: Partition | Sequence[Iterable[int]] | None = None,
    *,
    modes: Sequence[Sequence[int]] | None = None,
) -> xr.DataArray:
    """Block tensor Y of the paper: block (j, k, l) is the histogram X_jkl, j in S1, k in S2, l in S3.

    Its CPD is [[w; A_1, A_2, A_3]] with the factors of the variables of each set stacked (Kargas & Sidiropoulos,
    AISTATS 2019, section 3), so that the algebra for one tensor gives the factors of all variables.

    Parameters
    ----------
    marginals : Marginals, tensor or sequence of tensor
        With a histogram for every block.
    partition : Partition or three collections of variable indices, optional
        Disjoint and not empty; by default :func:`default_partition`, or another one of all variables whose blocks have
        been counted.
    modes : sequence of (j, k, l), optional
        For tensors, see :meth:`Marginals.from_tensors`.

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
    >>> marginals = smp.count_marginals(
    ...     smp.encode_samples(X, smp.choose_binning(X, n_bins=4))
    ... )
    >>> Y = smp.block_tensor(marginals)
    >>> Y.shape
    (8, 8, 4)
    >>> Y.sel(first_variable="x0", second_variable="x3", third_variable="x4").shape
    (4, 4, 4)
    """
    import pandas as pd
    import xarray as xr

    marginals = as_marginals(marginals, modes)
    if partition is None:
        parts = counted_partition(marginals, default_partition(marginals.n_variables))
    else:
        parts = as_partition(partition, marginals.n_variables)
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


def as_marginals(data: Any, modes: Sequence[Sequence[int]] | None = None) -> Marginals:
    """Marginals as they are, and tensors as exact histograms."""
    if not isinstance(data, Marginals):
        return Marginals.from_tensors(data, modes)
    if modes is not None:
        raise InvalidInputError("data is Marginals, which has its modes; give modes with tensors only.")
    return data


def counted_partition(
    marginals: Marginals, wanted: Partition, rank: int = 1, rng: np.random.Generator | None = None
) -> Partition:
    """The wanted partition, or a random one of all variables, all of whose blocks have been counted.

    Parameters
    ----------
    marginals : Marginals
    wanted : Partition
    rank : int
        One whose first two sets allow this rank is taken first.
    rng : Generator, optional
        By default the same partitions are tried every time.

    Returns
    -------
    Partition
        The wanted one where there is none.
    """
    counted = {tuple(t) for t in marginals.triples[marginals.totals > 0].tolist()}
    of_lower_rank: Partition | None = None
    for partition in _candidates(wanted, marginals.n_bins, np.random.default_rng(0) if rng is None else rng):
        if not all(tuple(sorted(block)) in counted for block in product(*partition)):
            continue
        if min(partition.effective_sizes(marginals.n_bins)[:2]) >= rank:
            return partition
        of_lower_rank = of_lower_rank or partition
    return of_lower_rank or wanted


def _candidates(wanted: Partition, n_bins: Sequence[int], rng: np.random.Generator) -> Iterator[Partition]:
    yield wanted
    n_variables = sum(map(len, wanted))
    for _ in range(MOST_PARTITIONS_TRIED):
        groups = rng.integers(3, size=n_variables)
        sets = [tuple(np.flatnonzero(groups == g).tolist()) for g in range(3)]
        if all(sets):
            # The order of the sets is free: the one with the fewest bins is the pencil.
            yield Partition(*sorted(sets, key=lambda group: -sum(n_bins[n] - 1 for n in group)))


def stack_blocks(marginals: Marginals, partition: Partition) -> np.ndarray:
    """The block tensor as a bare array; see :func:`block_tensor`."""
    position = {tuple(triple): t for t, triple in enumerate(marginals.triples.tolist()) if marginals.totals[t] > 0}
    needed = [(j, k, m) for j in partition.first for k in partition.second for m in partition.third]
    missing = [block for block in needed if tuple(sorted(block)) not in position]
    if missing:
        names = [tuple(marginals.binning.variables[n] for n in block) for block in missing[:5]]
        raise InvalidInputError(
            f"{len(missing)} of {len(needed)} blocks of the partition have not been counted, or have no sample: "
            f"{names}{'...' if len(missing) > 5 else ''}. Count all triples, or choose a partition of those counted."
        )
    starts = [
        dict(zip(group, accumulate((marginals.n_bins[n] for n in group), initial=0), strict=False))
        for group in partition
    ]
    result = np.empty(partition.stacked_sizes(marginals.n_bins))
    for block in needed:
        key = tuple(sorted(block))
        histogram = marginals.histogram(position[key]).transpose([key.index(n) for n in block])
        corner = [start[n] for start, n in zip(starts, block, strict=True)]
        result[tuple(slice(c, c + size) for c, size in zip(corner, histogram.shape, strict=True))] = histogram
    return result
