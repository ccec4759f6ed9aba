"""The known part of a distribution: histograms of triples, or whole samples in patterns of observed variables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, islice
from math import comb, prod
from typing import Any, Literal

import numpy as np

from tensorly_smp._support.representations import number_range
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.marginals.block_tensor import Partition

KnownName = Literal["triples", "samples"]
#: Values of the argument `known`.
KNOWN: tuple[KnownName, ...] = ("triples", "samples")

# Triples inside the patterns are listed up to this number; beyond, the patterns alone are used.
_MOST_TRIPLES = 20_000
# Intersections of this many patterns are added and subtracted when their cells are counted.
_MOST_COUNTED_PATTERNS = 12


@dataclass(frozen=True, eq=False)
class KnownMarginals:
    """Sets of variables whose joint distribution is known exactly.

    Attributes
    ----------
    name : {"triples", "samples"}
    n_variables : int
    triples : ndarray of int (n_triples, 3) or None
        The known triples, those inside a pattern of whole samples included; None if all are known, which for a
        thousand variables are too many to list.
    patterns : tuple of tuple of int
        For "samples", the variables that are observed together, each set in increasing order and none inside another.
        Empty for "triples".
    """

    name: KnownName
    n_variables: int
    triples: np.ndarray | None = None
    patterns: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def of_triples(cls, n_variables: int, triples: np.ndarray | None = None) -> KnownMarginals:
        """Histograms of triples, by default all of them."""
        if triples is not None and len(triples) == comb(n_variables, 3):
            triples = None
        return cls("triples", n_variables, triples)

    @classmethod
    def of_samples(cls, n_variables: int, observed: np.ndarray | None = None) -> KnownMarginals:
        """Whole samples, or the patterns of observed variables (n_patterns, n_variables) in them."""
        full = (tuple(range(n_variables)),)
        patterns: tuple[tuple[int, ...], ...] = full
        if observed is not None:
            patterns = tuple(tuple(np.flatnonzero(pattern).tolist()) for pattern in maximal_patterns(observed))
        if patterns == full:
            return cls("samples", n_variables, None, full)
        # Up to a limit: a part of what is known proves no less truly.
        found: dict[tuple[int, ...], None] = {}
        for pattern in patterns:
            room = max(_MOST_TRIPLES - len(found), 1)
            found |= dict.fromkeys(islice((t for t in combinations(pattern, 3) if t not in found), room))
        return cls("samples", n_variables, np.array(sorted(found), dtype=np.intp).reshape(-1, 3), patterns)

    @property
    def is_joint(self) -> bool:
        """True if whole samples are known."""
        return self.name == "samples"

    @property
    def n_triples(self) -> int:
        """Number of known triples; those inside many patterns are counted up to a limit."""
        return comb(self.n_variables, 3) if self.triples is None else len(self.triples)

    @cached_property
    def margins(self) -> tuple[tuple[int, ...], ...] | None:
        """Sets of variables whose joint distributions are the data; None for all triples."""
        if self.is_joint:
            return self.patterns
        return None if self.triples is None else tuple(tuple(triple) for triple in self.triples.tolist())

    def describe(self) -> str:
        """The known distributions in a few words, such as "all 10 triples known"."""
        if not self.is_joint:
            possible = comb(self.n_variables, 3)
            if self.n_triples == possible:
                return "the triple known" if possible == 1 else f"all {possible} triples known"
            return f"{self.n_triples} of {possible} triples known"
        if self.patterns == (tuple(range(self.n_variables)),):
            return "whole samples known"
        n_patterns = len(self.patterns)
        span = number_range(map(len, self.patterns))
        return f"samples known in {n_patterns} pattern{'s' * (n_patterns > 1)} of {span} variables"

    def n_independent_cells(self, n_bins: Sequence[int]) -> int:
        """Free probabilities of the known distributions, or an upper bound if there are many patterns.

        The distribution of a set of variables is made of one interaction for each of its subsets T, of dimension
        prod (I_n - 1) over T. Distributions of two sets share those of the common subsets: triples the pair, or the
        variable, in which they overlap.

        Parameters
        ----------
        n_bins : sequence of int
        """
        gains = [int(size) - 1 for size in n_bins]
        if not self.is_joint and self.triples is None:
            return int(sum(symmetric_sums(gains)))
        if self.triples is not None and not self.is_joint:
            subsets = {
                some for triple in self.triples.tolist() for size in (1, 2, 3) for some in combinations(triple, size)
            }
            return sum(prod(gains[n] for n in some) for some in subsets)
        sizes = [prod(int(n_bins[n]) for n in pattern) - 1 for pattern in self.patterns]
        if len(self.patterns) > _MOST_COUNTED_PATTERNS:
            return min(sum(sizes), prod(int(size) for size in n_bins) - 1)
        total = 0
        for count in range(1, len(self.patterns) + 1):
            for some in combinations(self.patterns, count):
                shared = set(some[0]).intersection(*some[1:])
                total -= (-1) ** count * (prod(int(n_bins[n]) for n in shared) - 1)
        return total


def symmetric_sums(values: Iterable[Any]) -> tuple[Any, Any, Any]:
    """Elementary symmetric polynomials: sums of the values, of products of two, of products of three."""
    e1: Any = 0
    e2: Any = 0
    e3: Any = 0
    for value in values:
        e3 = e3 + value * e2
        e2 = e2 + value * e1
        e1 = e1 + value
    return e1, e2, e3


def maximal_patterns(observed: Any) -> np.ndarray:
    """Patterns of observed variables that lie in no other one: these determine what all of them determine.

    Parameters
    ----------
    observed : array_like of bool (n_patterns, n_variables)
        Which variables are observed together; rows may repeat.

    Returns
    -------
    ndarray of bool (n_maximal, n_variables)
        Those with most variables first.

    Raises
    ------
    InvalidInputError
        If the array is not two-dimensional, or a variable is in no pattern.
    InvalidTypeError
        If it does not hold booleans.

    Examples
    --------
    >>> maximal_patterns([[True, True, False], [True, False, False], [False, True, True]]).astype(int).tolist()
    [[0, 1, 1], [1, 1, 0]]
    """
    array = np.asarray(observed)
    if array.ndim != 2 or array.size == 0:
        raise InvalidInputError(f"patterns has shape {array.shape}; expected (n_patterns, n_variables).")
    if array.dtype != bool and not np.isin(array, (0, 1)).all():
        raise InvalidTypeError(f"patterns is of type {array.dtype}; expected booleans, True where a variable is seen.")
    array = np.unique(array.astype(bool), axis=0)
    if not array.any(axis=0).all():
        raise InvalidInputError(f"Variables {np.flatnonzero(~array.any(axis=0)).tolist()} are in no pattern.")
    array = array[np.argsort(-array.sum(axis=1), kind="stable")]
    kept = np.zeros((0, array.shape[1]), dtype=bool)
    for pattern in array:
        if not (kept | ~pattern).all(axis=1).any():
            kept = np.vstack([kept, pattern])
    return kept


def observed_patterns(observed: np.ndarray, most: int = 200) -> np.ndarray | None:
    """Patterns of observed variables that a report on samples with missing entries is about.

    Parameters
    ----------
    observed : ndarray of bool (n_samples, n_variables)
    most : int
        No more patterns than this are taken, those with most variables first, and one more for every variable that is
        in none of them. Fewer patterns prove less, and nothing that is not so.

    Returns
    -------
    ndarray of bool (n_patterns, n_variables) or None
        None if some sample is complete: whole samples are then known.

    Examples
    --------
    >>> observed_patterns(np.array([[True, True, False], [False, True, True], [False, True, False]])).shape
    (2, 3)
    """
    if observed.all(axis=1).any() or not observed.any(axis=0).all():
        return None
    patterns = np.unique(observed, axis=0)
    patterns = patterns[np.argsort(-patterns.sum(axis=1), kind="stable")]
    uncovered = np.flatnonzero(~patterns[:most].any(axis=0))
    chosen = [*range(min(most, len(patterns))), *(int(np.argmax(patterns[:, n])) for n in uncovered)]
    return maximal_patterns(patterns[chosen])


def n_parameters(n_bins: Sequence[int], rank: int) -> int:
    """Free parameters of the model: R - 1 weights and I_n - 1 probabilities per column."""
    return rank - 1 + rank * sum(int(size) - 1 for size in n_bins)


def complete_partitions(triples: np.ndarray, n_variables: int, n_seeds: int = 200) -> list[Partition]:
    """Partitions all of whose blocks are among the triples: known triples, grown variable by variable.

    Parameters
    ----------
    triples : ndarray of int (n_triples, 3)
    n_variables : int
    n_seeds : int
        Most triples to start from.

    Returns
    -------
    list of Partition
        Distinct, at least one.
    """
    known = {tuple(triple) for triple in triples.tolist()}
    seeds = triples[np.unique(np.linspace(0, len(triples) - 1, min(n_seeds, len(triples))).astype(int))]
    grown: dict[Partition, None] = {}
    for seed in seeds.tolist():
        sets = [[n] for n in seed]
        for n in range(n_variables):
            if n in seed:
                continue
            for s in sorted(range(3), key=lambda s: len(sets[s])):
                a, b = (sets[o] for o in range(3) if o != s)
                if all(tuple(sorted((n, j, k))) in known for j in a for k in b):
                    sets[s].append(n)
                    break
        grown[Partition(*(tuple(sorted(group)) for group in sorted(sets, key=len, reverse=True)))] = None
    return list(grown)
