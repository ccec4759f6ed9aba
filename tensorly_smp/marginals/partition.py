"""Three disjoint sets of variables: the modes of a block tensor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorly_smp._support.checks import checked_integer
from tensorly_smp._support.representations import shown
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError

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
            object.__setattr__(self, name, _variable_indices(getattr(self, name), name))
        every = self.first + self.second + self.third
        repeated = sorted(index for index, count in Counter(every).items() if count > 1)
        if repeated:
            raise InvalidInputError(
                f"Variables {repeated} occur more than once in the partition {self.sets}; expected disjoint sets."
            )

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return iter(self.sets)

    @property
    def sets(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """The three sets as tuples."""
        return self.first, self.second, self.third

    def stacked_sizes(self, n_bins: Sequence[int]) -> tuple[int, int, int]:
        """Rows of the three stacked factors: the shape of the block tensor."""
        sizes = self._checked_sizes(n_bins)
        first, second, third = (sum(sizes[n] for n in group) for group in self.sets)
        return first, second, third

    def effective_sizes(self, n_bins: Sequence[int]) -> tuple[int, int, int]:
        """Highest rank that each stacked factor can have.

        Every block of c stacked factors has columns that sum to one, which ties c - 1 of the rows:
        sum of (I_n - 1), plus one.
        """
        sizes = self._checked_sizes(n_bins)
        first, second, third = (sum(sizes[n] - 1 for n in group) + 1 for group in self.sets)
        return first, second, third

    def _checked_sizes(self, n_bins: Any) -> list[int]:
        """Number of bins of every variable that the partition may name."""
        if not np.iterable(n_bins):
            raise InvalidTypeError(f"n_bins is {shown(n_bins)}; expected one number for each variable.")
        try:
            sizes = [checked_integer(size, "A number of bins", 1) for size in n_bins]
        except TypeError as error:  # sparse matrices
            raise InvalidTypeError(f"n_bins is {shown(n_bins)}; expected one number for each variable.") from error
        if len(sizes) <= (highest := max(max(group) for group in self.sets)):
            raise InvalidInputError(f"n_bins has {len(sizes)} entries, and the partition names variable {highest}.")
        return sizes


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
    many bins, the halves are dealt out, largest first.

    Parameters
    ----------
    n_bins : sequence of int
        Of every variable, at least three.

    Examples
    --------
    >>> from tensorly_smp.marginals.partition import pencil_partition
    >>> pencil_partition([3, 4, 5, 4]).sets
    ((2,), (1, 3), (0,))
    """
    gains = [size - 1 for size in n_bins]
    if len(set(gains)) == 1:
        return default_partition(len(gains))
    order = sorted(range(len(gains)), key=lambda n: gains[n])
    pencil = order[0]
    others = order[1:]
    half = sum(gains[n] for n in others) // 2
    if len(others) * (2 * half + 1) <= MOST_TABLE_BITS:
        first = _subset_nearest(others, gains, half)
    else:
        first = deal(others, gains, 2)[0]
    return Partition(tuple(first), tuple(sorted(set(others) - set(first))), (pencil,))


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
            f"The paper's partition has an empty first set for {n_variables} variables: take default_partition below 5."
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
            raise InvalidInputError(
                f"The partition names variable {highest}; expected indices from 0 to {n_variables - 1}."
            )
    return partition


def _variable_indices(group: Any, name: str) -> tuple[int, ...]:
    """One set as a tuple of Python integers."""
    try:
        members = tuple(group)
    except TypeError:
        raise InvalidTypeError(f"The {name} set is {shown(group)}; expected variable indices.") from None
    if not members:
        raise InvalidInputError(f"The {name} set of the partition is empty; expected at least one variable in each.")
    return tuple(checked_integer(index, f"A variable index of the {name} set", 0) for index in members)
