"""Histograms of triples as one third-order tensor, whose modes stack the variables of the three sets of a partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorly_smp._support.checks import checked_integer
from tensorly_smp._support.representations import shown
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.marginals.histograms import Marginals

if TYPE_CHECKING:
    import xarray as xr

#: Size of the table of reachable sums up to which the best split of the bins is found.
MOST_TABLE_BITS = 200_000_000


@dataclass(frozen=True)
class Partition:
    """Three disjoint, non-empty sets of variable indices; mode s of the block tensor stacks the variables of set s.

    Iterating gives the three sets. A partition need not cover all variables. The third set is the pencil mode of the
    algebraic decomposition: its variables only have to tell components apart, the first two have to hold `rank`
    independent columns.

    Attributes
    ----------
    first, second, third : tuple of int
        Variable indices, in the order in which their bins are stacked.

    Examples
    --------
    >>> partition = Partition((0, 1), (2, 3), (4,))
    >>> partition.stacked_sizes([4, 4, 4, 4, 4]), partition.effective_sizes([4, 4, 4, 4, 4])
    ((8, 8, 4), (7, 7, 4))
    """

    first: tuple[int, ...]
    second: tuple[int, ...]
    third: tuple[int, ...]

    def __post_init__(self) -> None:
        for name in ("first", "second", "third"):
            group = getattr(self, name)
            try:
                members = tuple(group)
            except TypeError:
                raise InvalidTypeError(f"The {name} set is {shown(group)}; expected variable indices.") from None
            if not members:
                raise InvalidInputError(f"The {name} set of the partition is empty; expected at least one variable.")
            indices = tuple(checked_integer(index, f"A variable index of the {name} set", 0) for index in members)
            object.__setattr__(self, name, indices)
        every = self.first + self.second + self.third
        repeated = sorted(index for index, count in Counter(every).items() if count > 1)
        if repeated:
            raise InvalidInputError(f"Variables {repeated} occur more than once; expected disjoint sets.")

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return iter(self.sets)

    @property
    def sets(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """The three sets as tuples."""
        return self.first, self.second, self.third

    def stacked_sizes(self, n_bins: Sequence[int]) -> tuple[int, int, int]:
        """Rows of the three stacked factors: the shape of the block tensor."""
        return self._summed(n_bins, 0)

    def effective_sizes(self, n_bins: Sequence[int]) -> tuple[int, int, int]:
        """Highest rank that each stacked factor can have.

        Every block of c stacked factors has columns that sum to one, which ties c - 1 of the rows:
        sum of (I_n - 1), plus one.
        """
        return self._summed(n_bins, 1)

    def _summed(self, n_bins: Any, n_tied: int) -> tuple[int, int, int]:
        """Sums over each set of the numbers of bins, less those that are tied in every variable but the last."""
        try:
            sizes = [checked_integer(size, "A number of bins", 1) for size in n_bins]
        except TypeError as error:
            raise InvalidTypeError(f"n_bins is {shown(n_bins)}; expected one number for each variable.") from error
        if len(sizes) <= (highest := max(max(group) for group in self.sets)):
            raise InvalidInputError(f"n_bins has {len(sizes)} entries, and the partition names variable {highest}.")
        first, second, third = (sum(sizes[n] - n_tied for n in group) + n_tied for group in self.sets)
        return first, second, third


def default_partition(n_variables: int) -> Partition:
    """Balanced partition: the last variable is the pencil, the others are shared as evenly as they can be.

    Parameters
    ----------
    n_variables : int
        At least 3.

    Returns
    -------
    Partition
        With sizes floor((N - 1) / 2), N - 1 - floor((N - 1) / 2) and 1.

    Raises
    ------
    InvalidInputError
        If there are fewer than three variables.

    Notes
    -----
    It allows a higher rank than :func:`paper_partition`, and exists from three variables on.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> smp.default_partition(6).sets
    ((0, 1), (2, 3, 4), (5,))
    """
    n_variables = checked_integer(n_variables, "n_variables", 3)
    size = (n_variables - 1) // 2
    return Partition(tuple(range(size)), tuple(range(size, n_variables - 1)), (n_variables - 1,))


def pencil_partition(n_bins: Sequence[int]) -> Partition:
    """Partition of all variables that allows the algebra the highest rank: the best of `default_partition`'s kind.

    The variable with the fewest bins is the pencil, and the others are shared so that the bins of the first two sets
    are as even as can be. Exchanging the pencil for a variable with more bins could only shrink the halves. Of very
    many bins, the halves are dealt out, largest first. Variables of a single bin join the pencil.

    Parameters
    ----------
    n_bins : sequence of int
        Of every variable, at least three.

    Examples
    --------
    >>> from tensorly_smp.marginals.block_tensor import pencil_partition
    >>> pencil_partition([3, 4, 5, 4]).sets
    ((2,), (1, 3), (0,))
    """
    gains = [size - 1 for size in n_bins]
    if len(set(gains)) == 1:
        return default_partition(len(gains))
    single = [n for n, gain in enumerate(gains) if gain == 0]
    if len(gains) - len(single) < 3:
        single = []
    pencil, *others = sorted((n for n in range(len(gains)) if n not in single), key=lambda n: gains[n])
    half = sum(gains[n] for n in others) // 2
    if len(others) * (2 * half + 1) <= MOST_TABLE_BITS:
        first = _subset_nearest(others, gains, half)
    else:
        first = deal(others, gains, 2)[0]
    return Partition(tuple(first), tuple(sorted(set(others) - set(first))), (pencil, *single))


def deal(order: list[int], gains: Sequence[float], n_sets: int) -> list[list[int]]:
    """Largest first, each to the set with the smallest sum so far."""
    sets: list[list[int]] = [[] for _ in range(n_sets)]
    sums = [0.0] * n_sets
    for n in reversed(order):
        smallest = sums.index(min(sums))
        sets[smallest].append(n)
        sums[smallest] += gains[n]
    return sets


def _subset_nearest(items: list[int], gains: list[int], target: int) -> list[int]:
    """Subset with the largest sum that is at most `target`: bit s of a table is set if s is a reachable sum."""
    tables = [1]
    for n in items:
        tables.append((tables[-1] | tables[-1] << gains[n]) & ((1 << (target + 1)) - 1))
    total = tables[-1].bit_length() - 1
    subset = []
    for n, before in zip(reversed(items), reversed(tables[:-1]), strict=True):
        if not before >> total & 1:
            subset.append(n)
            total -= gains[n]
    return sorted(subset)


def paper_partition(n_variables: int) -> Partition:
    """Partition of Kargas and Sidiropoulos (2019), section 3: {1..h-1}, {h..N-1}, {N} with h = floor((N - 1) / 2).

    Parameters
    ----------
    n_variables : int
        At least 5: the paper's first set is empty for fewer.

    Returns
    -------
    Partition
        Indices from zero.

    Raises
    ------
    InvalidInputError
        If there are fewer than five variables.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> smp.paper_partition(7).sets
    ((0, 1), (2, 3, 4, 5), (6,))
    """
    n_variables = checked_integer(n_variables, "n_variables", 3)
    if n_variables < 5:
        raise InvalidInputError(
            f"n_variables is {n_variables}, and the paper's partition has an empty first set below 5."
        )
    size = (n_variables - 1) // 2 - 1
    return Partition(tuple(range(size)), tuple(range(size, n_variables - 1)), (n_variables - 1,))


def as_partition(partition: Any, n_variables: int | None = None) -> Partition:
    """Partition from a Partition or from any three collections of variable indices, checked.

    Parameters
    ----------
    partition : Partition or sequence of three collections of int
    n_variables : int, optional
        If given, every index must be below it.

    Returns
    -------
    Partition

    Raises
    ------
    InvalidTypeError
        If it is not three collections of integers.
    InvalidInputError
        If a set is empty, a variable occurs twice, or an index is out of range.
    """
    if not isinstance(partition, Partition):
        sets = tuple(partition) if np.iterable(partition) else ()
        if isinstance(partition, str | bytes) or len(sets) != 3:
            raise InvalidTypeError(
                f"partition is {shown(partition)}; expected three sets of indices such as ((0, 1), (2, 3), (4,))."
            )
        partition = Partition(*sets)
    if n_variables is not None:
        highest = max(max(group) for group in partition)
        if highest >= n_variables:
            raise InvalidInputError(f"The partition names variable {highest}; expected 0 to {n_variables - 1}.")
    return partition


#: Triples from which partitions are grown whose blocks have been counted.
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
        Disjoint and not empty; by default :func:`default_partition`, or, where not all of its blocks have been counted,
        another one whose blocks have, of as many variables as possible.
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
    """The wanted partition if all of its blocks have been counted, else one that has grown from a counted triple.

    Parameters
    ----------
    marginals : Marginals
    wanted : Partition
    rank : int
        That the first two sets should allow.
    rng : Generator, optional
        By default the same partitions are tried every time.

    Returns
    -------
    Partition
        Of those tried that allow the rank, or come nearest, one of as many variables as possible.
    """
    counted = {tuple(t) for t in marginals.triples[marginals.totals > 0].tolist()}
    if all(tuple(sorted(block)) in counted for block in product(*wanted)):
        return wanted
    gains = [size - 1 for size in marginals.n_bins]
    rng = np.random.default_rng(0) if rng is None else rng
    best = wanted
    reached = (0, 0)
    for seed in rng.permutation(sorted(counted))[:MOST_PARTITIONS_TRIED].tolist():
        sets = grown_sets(seed, rng.permutation(marginals.n_variables).tolist(), counted, gains)
        # The order of the sets is free: the one with the fewest bins is the pencil.
        partition = Partition(*sorted(map(tuple, sets), key=lambda group: -sum(gains[m] for m in group)))
        allowed = min(partition.effective_sizes(marginals.n_bins)[:2])
        score = (min(allowed, rank), sum(map(len, sets)))
        if score > reached:
            best = partition
            reached = score
        if reached == (rank, marginals.n_variables):
            break
    return best


def grown_sets(
    seed: Iterable[int], order: Iterable[int], known: Container[tuple[int, ...]], gains: Sequence[int]
) -> list[list[int]]:
    """Three sets all of whose blocks are known triples: variables in turn join the smallest set that allows it.

    Parameters
    ----------
    seed : iterable of int
        A known triple.
    order : iterable of int
        Of the variables.
    known : container of (int, int, int)
        Triples j < k < l.
    gains : sequence of int
        What a variable adds to the size of its set.
    """
    sets = [[n] for n in seed]
    for n in order:
        for group in sorted(sets, key=lambda group: sum(gains[m] for m in group)):
            others = [each for each in sets if each is not group]
            # Sorted triples have three different variables; one that is in a set already makes none that is known.
            if all(tuple(sorted((n, j, k))) in known for j, k in product(*others)) and n not in group:
                group.append(n)
                break
    return sets


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
