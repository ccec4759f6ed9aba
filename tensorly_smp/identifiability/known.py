"""The known part of the distribution: the histograms of triples, or the joint distribution of whole samples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb, prod
from typing import Any, Literal

import numpy as np

from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError

KnownName = Literal["triples", "samples"]
#: Values of the argument `known`.
KNOWN: tuple[KnownName, ...] = ("triples", "samples")

# Triples inside the patterns are listed up to this number; beyond, the patterns alone are used.
_MOST_TRIPLES = 20_000
# Intersections of this many patterns are added and subtracted when their cells are counted.
_MOST_COUNTED_PATTERNS = 12


@dataclass(frozen=True, eq=False)
class Known:
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
    def of_triples(cls, n_variables: int, triples: np.ndarray | None = None) -> Known:
        """Histograms of triples, by default all of them."""
        if triples is not None and len(triples) == comb(n_variables, 3):
            triples = None
        return cls("triples", n_variables, triples)

    @classmethod
    def of_samples(cls, n_variables: int, observed: np.ndarray | None = None) -> Known:
        """Whole samples, or the patterns of observed variables (n_patterns, n_variables) in them."""
        full = (tuple(range(n_variables)),)
        patterns = full if observed is None else _sets(maximal_patterns(observed))
        if patterns == full:
            return cls("samples", n_variables, None, full)
        return cls("samples", n_variables, _triples_inside(patterns), patterns)

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
        sizes = sorted({len(pattern) for pattern in self.patterns})
        span = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        n_patterns = len(self.patterns)
        return f"samples known in {n_patterns} pattern{'s' * (n_patterns > 1)} of {span} variables"

    def n_independent_cells(self, n_bins: Sequence[int]) -> int:
        """Free probabilities of the known distributions, or an upper bound if there are many patterns.

        The distribution of a set of variables is made of one interaction for each of its subsets T, of dimension
        prod (I_n - 1) over T. Distributions of two sets share those of the common subsets.
        """
        if not self.is_joint:
            return n_independent_cells(n_bins, self.triples)
        sizes = [prod(int(n_bins[n]) for n in pattern) - 1 for pattern in self.patterns]
        if len(self.patterns) > _MOST_COUNTED_PATTERNS:
            return min(sum(sizes), prod(int(size) for size in n_bins) - 1)
        total = 0
        for count in range(1, len(self.patterns) + 1):
            for some in combinations(self.patterns, count):
                shared = set(some[0]).intersection(*some[1:])
                total -= (-1) ** count * (prod(int(n_bins[n]) for n in shared) - 1)
        return total


def n_independent_cells(n_bins: Sequence[int], triples: np.ndarray | None = None) -> int:
    """Numbers that the histograms of the triples determine.

    Two triples agree on the pair and on the variables that they share. What is left over are I_n - 1 probabilities for
    every variable, and products of these for every known pair and every known triple.

    Parameters
    ----------
    n_bins : sequence of int
    triples : ndarray of int (n_triples, 3), optional
        Default: all.

    Returns
    -------
    int
    """
    gains = [int(size) - 1 for size in n_bins]
    if triples is None:
        return int(sum(symmetric_sums(gains)))
    known = [tuple(triple) for triple in triples.tolist()]
    pairs = {pair for j, k, l in known for pair in ((j, k), (j, l), (k, l))}
    singles = {n for triple in known for n in triple}
    return (
        sum(gains[n] for n in singles)
        + sum(gains[j] * gains[k] for j, k in pairs)
        + sum(gains[j] * gains[k] * gains[l] for j, k, l in known)
    )


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


def _sets(patterns: np.ndarray) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(np.flatnonzero(pattern).tolist()) for pattern in patterns)


def _triples_inside(patterns: Sequence[Sequence[int]]) -> np.ndarray:
    """Triples inside a pattern (n_triples, 3), up to a limit; a part of what is known proves no less truly."""
    found: dict[tuple[int, ...], None] = {}
    for pattern in patterns:
        for triple in combinations(pattern, 3):
            found[triple] = None
            if len(found) >= _MOST_TRIPLES:
                break
    return np.array(sorted(found), dtype=np.intp).reshape(-1, 3)
