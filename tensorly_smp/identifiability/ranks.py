"""Ranks of the factors of sets of variables, stacked for triples or multiplied for whole samples; the best three sets.

The histograms of all triples with one variable of each set, side by side, are one tensor whose factors are the factors
of the sets stacked over each other. The joint distribution of all variables is one tensor whose factors are the
Khatri-Rao products of the factors of the sets. What is known of the uniqueness of one three-way decomposition holds for
both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, islice, product
from math import comb, prod
from typing import Any

import numpy as np

from tensorly_smp._support.checks import checked_integer, checked_real, float_array
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.identifiability.bounds import (
    Criterion,
    KnownMarginals,
    all_partitions,
    best_partition,
    complete_partitions,
    max_identifiable_rank,
)
from tensorly_smp.identifiability.jacobian import compressed
from tensorly_smp.identifiability.likeness import TOLERANCE
from tensorly_smp.marginals.block_tensor import Partition

# Subsets of columns whose singular values are computed at once.
_CHUNK = 4096
# Subsets of columns that a k-rank may look at: of the partition that is reported, and of each one tried.
_REPORTED_COMBINATIONS, _TRIED_COMBINATIONS = 20_000, 500
# All 966 partitions of 8 variables are tried, and a sample of those of more.
_EXHAUSTIVE_VARIABLES, _SAMPLED_PARTITIONS = 8, 60
# Squares of singular values: of a Gram matrix, which has lost half of the digits.
_GRAM_TOLERANCE = 1e-12
# Smallest eigenvalue of a Gram matrix, relative to the largest, that no rounding could have made.
_CLEAR_GRAM = 1e-6
# Patterns of missing entries that a grouping is looked for in.
_TRIED_PATTERNS = 20


class KruskalRank(int):
    """The integer k, which also says whether it is the k-rank or only a certified lower bound of it.

    Attributes
    ----------
    is_exact : bool
        False if deciding it would have needed more subsets of columns than allowed; the k-rank is then `k` or more.
    """

    is_exact: bool

    def __new__(cls, value: int, is_exact: bool = True) -> KruskalRank:
        """An int with a flag."""
        self = super().__new__(cls, value)
        self.is_exact = bool(is_exact)
        return self

    def __repr__(self) -> str:
        return str(int(self)) if self.is_exact else f"at least {int(self)}"


def kruskal_rank(matrix: Any, tol: float | None = None, max_combinations: int = 50_000) -> KruskalRank:
    """Largest k such that every k columns are linearly independent.

    Parameters
    ----------
    matrix : array_like (n_rows, n_columns)
        Finite and real.
    tol : float, optional
        Columns are scaled to unit 2-norm first; a set of columns counts as dependent if its smallest singular value is
        at most `tol`, and a column counts as zero if its norm is at most `tol` times the largest one. Default:
        ``eps ** (2 / 3)`` of the matrix's dtype, 3.7e-11 in double precision: well above rounding, well below noise.
    max_combinations : int
        Most subsets of columns to look at, 0 or more.

    Returns
    -------
    KruskalRank
        An int. Beyond `max_combinations`, ``is_exact`` is False and the value is a lower bound that holds for certain:
        the larger of the last size whose subsets were all looked at and the bound of the cumulative coherence (a set
        of k unit columns is independent if no column has cosines to k - 1 others that add up to one).

    Raises
    ------
    InvalidInputError
        If the matrix is not two-dimensional, is empty, or holds NaN, infinity or masked entries; a number out of range.
    InvalidTypeError
        If the matrix does not hold real numbers, `tol` is no number, or `max_combinations` no integer.

    See Also
    --------
    tensorly_smp.max_identifiable_rank : What the sizes alone allow.

    Notes
    -----
    J. B. Kruskal, "Three-way arrays: rank and uniqueness of trilinear decompositions", 1977. A CPD of rank R is unique
    if the k-ranks of its three factors add up to at least 2 R + 2.

    Adding a column never raises the smallest singular value, so dependent sets stay dependent when they grow: the
    search may stop at the first dependent set, and the number of singular values above `tol` bounds the k-rank.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> smp.kruskal_rank([[1, 0, 1], [0, 1, 1]])
    2
    >>> smp.kruskal_rank([[1, 0, 2], [0, 1, 0]])
    1
    """
    array = float_array(matrix, "The matrix")
    if array.ndim != 2 or array.size == 0:
        raise InvalidInputError(f"The matrix has shape {array.shape}; expected a non-empty two-dimensional array.")
    if not np.isfinite(array).all():
        raise InvalidInputError("The matrix holds NaN or infinity; expected finite numbers.")
    dtype = np.asarray(matrix).dtype
    precision = np.finfo(dtype if dtype.kind == "f" else np.float64)
    tol = float(precision.eps ** (2 / 3)) if tol is None else checked_real(tol, "tol")
    max_combinations = checked_integer(max_combinations, "max_combinations", 0)
    array = array / (np.abs(array).max() or 1.0)  # so that squares neither overflow nor vanish
    norms = np.linalg.norm(array, axis=0)
    if norms.min() <= tol * norms.max():
        return KruskalRank(0)
    columns = array / norms
    n_columns = columns.shape[1]
    upper = int((np.linalg.svd(columns, compute_uv=False) > tol).sum())
    if upper == n_columns:
        return KruskalRank(n_columns)
    certified = min(coherence_bound(columns, tol), upper)
    if certified == upper:
        return KruskalRank(upper)
    return _search(columns, certified, upper, tol, max_combinations)


def coherence_bound(columns: np.ndarray, tol: float = 0.0) -> int:
    """Lower bound of the k-rank of unit columns, from their cosines alone.

    By Gershgorin's circles the smallest eigenvalue of the Gram matrix of k columns is at least one minus the largest
    sum of k - 1 absolute cosines in a row.

    Parameters
    ----------
    columns : ndarray (n_rows, n_columns)
        Unit 2-norm.
    tol : float
        Smallest singular value that a set of columns has to exceed.

    Returns
    -------
    int
        At least one.
    """
    cosines = np.abs(columns.T @ columns)
    np.fill_diagonal(cosines, 0.0)
    cumulative = np.cumsum(-np.sort(-cosines, axis=1), axis=1).max(axis=0)[:-1]
    # Rounding of the Gram matrix must not turn two parallel columns into independent ones.
    slack = 4 * len(columns) * np.finfo(float).eps
    return 1 + int((1 - cumulative > tol**2 + slack).sum())


def _search(columns: np.ndarray, certified: int, upper: int, tol: float, max_combinations: int) -> KruskalRank:
    """k-rank between the two bounds, level by level from below; the top level first if it fits the budget alone."""
    n_columns = columns.shape[1]
    budget = max_combinations
    if comb(n_columns, upper) <= budget:
        budget -= comb(n_columns, upper)
        if not _has_dependent_subset(columns, upper, tol):
            return KruskalRank(upper)
        upper -= 1
    for size in range(certified + 1, upper + 1):
        if comb(n_columns, size) > budget:
            return KruskalRank(size - 1, is_exact=False)
        budget -= comb(n_columns, size)
        if _has_dependent_subset(columns, size, tol):
            return KruskalRank(size - 1)
    return KruskalRank(upper)


def _has_dependent_subset(columns: np.ndarray, size: int, tol: float) -> bool:
    subsets = combinations(range(columns.shape[1]), size)
    while chunk := list(islice(subsets, _CHUNK)):
        stacks = columns.T[np.array(chunk)]  # (n_subsets, size, n_rows)
        if (np.linalg.svd(stacks, compute_uv=False)[:, size - 1] <= tol).any():
            return True
    return False


@dataclass(frozen=True)
class StackedFactor:
    """The factors of one set of variables, stacked over each other or multiplied, columns scaled to unit 2-norm.

    Attributes
    ----------
    variables : tuple of int
        Positions of the variables.
    rank : int
        Singular values above the tolerance: 3.7e-11, or the uncertainty of samples if the factors were fitted to some.
    k_rank : KruskalRank
        Every so many columns are independent; ``k_rank.is_exact`` is False for a certified lower bound.
    condition : float
        Largest singular value over smallest; infinite if the columns are dependent, NaN if not computed.
    """

    variables: tuple[int, ...]
    rank: int
    k_rank: KruskalRank
    condition: float


@dataclass(frozen=True)
class StackedModel:
    """Three sets of variables, and what their factors say about uniqueness.

    Attributes
    ----------
    partition : Partition
    stacked : tuple of StackedFactor
        In the order of the three sets.
    missing_blocks : int
        Combinations of one variable of each set, or sets together, whose distribution is not known.
    undetermined : tuple of int
        Variables outside the partition that do not follow from those inside.
    """

    partition: Partition
    stacked: tuple[StackedFactor, StackedFactor, StackedFactor]
    n_components: int
    missing_blocks: int = 0
    undetermined: tuple[int, ...] = field(default=())

    @property
    def is_complete(self) -> bool:
        """True if the uniqueness of this decomposition is that of the whole model."""
        return not self.missing_blocks and not self.undetermined

    @property
    def pencil(self) -> int | None:
        """Set with which Leurgans' condition holds: k-rank 2 there, independent columns in both others."""
        for s in (2, 1, 0):
            others = [self.stacked[o].rank for o in range(3) if o != s]
            if min(others) == self.n_components and self.stacked[s].k_rank >= 2:
                return s
        return None

    @property
    def k_rank_sum(self) -> int:
        """Sum of the three k-ranks."""
        return sum(int(stack.k_rank) for stack in self.stacked)

    @property
    def is_kruskal(self) -> bool:
        """Kruskal's condition: the k-ranks add up to 2 R + 2."""
        return self.k_rank_sum >= 2 * self.n_components + 2

    @property
    def merit(self) -> tuple[bool, bool, int]:
        """Larger is more telling."""
        return self.is_complete and self.pencil is not None, self.is_complete and self.is_kruskal, self.k_rank_sum


@dataclass(eq=False)
class FactorSets:
    """Factors of sets of variables of one model, or of almost every model of its sizes, and three sets that prove most.

    Up to scale, the columns of a stacked factor of almost every model fill an open part of a linear space whose
    dimension is the effective size, so that rank and k-rank are the smaller one of that and the number of columns.
    Those of almost every product are as high as the states allow (Allman, Matias and Rhodes, 2009): k-ranks below that
    are zeros of polynomials, and there are models without.

    Parameters
    ----------
    n_bins : sequence of int
    rank : int
    factors : sequence of ndarray (n_bins[n], rank) or None
        Of the model; random ones, or none, if it stands for almost every model.
    known : KnownMarginals
    are_products : bool
        True for Khatri-Rao products, the conditional distributions of groups of variables; False for stacks.
    is_generic : bool
        True if ranks are those of almost every model, by the sizes.
    tolerance : float
        Singular values of unit columns at most this large count as zero.
    """

    n_bins: Sequence[int]
    rank: int
    factors: Sequence[np.ndarray] | None
    known: KnownMarginals
    are_products: bool = False
    is_generic: bool = False
    tolerance: float = TOLERANCE

    def __post_init__(self) -> None:
        # The triangular factor of a QR decomposition has the same dependent columns in at most `rank` rows.
        self.cores = None if self.factors is None else [compressed(factor) for factor in self.factors]
        # Cosines between the columns of every factor (n_variables, rank, rank)
        units = [factor / np.linalg.norm(factor, axis=0) for factor in self.factors or ()]
        self.cosines = np.stack([unit.T @ unit for unit in units]) if units else None
        self._described: dict[tuple[frozenset[int], int], StackedFactor] = {}

    # ---- ranks of one set ----

    def usual_rank(self, variables: Sequence[int]) -> int:
        """Rank and k-rank that almost every model of these sizes has."""
        sizes = [self.n_bins[n] for n in variables]
        return min(self.rank, prod(sizes) if self.are_products else 1 + sum(sizes) - len(sizes))

    def describe(self, variables: Sequence[int], max_combinations: int = _TRIED_COMBINATIONS) -> StackedFactor:
        """Ranks and conditioning of the factors of these variables."""
        key = frozenset(variables), 0 if self.is_generic else max_combinations
        if key not in self._described:
            usual = self.usual_rank(variables)
            if not self.is_generic:
                self._described[key] = self._measured(tuple(variables), max_combinations)
            else:
                condition = np.inf if usual < self.rank else np.nan
                if usual == self.rank and self.cores is not None:
                    condition = self._measured(tuple(variables), 0).condition
                self._described[key] = StackedFactor(tuple(variables), usual, KruskalRank(usual), condition)
        return self._described[key]

    def _measured(self, variables: tuple[int, ...], max_combinations: int) -> StackedFactor:
        """Ranks of the given factors.

        The Gram matrix of the columns of a product is the entrywise product of those of its factors, rank x rank
        whatever the number of states. Where that is far from singular nothing else is needed; otherwise the product
        itself is rotated into `rank` rows, factor by factor.
        """
        assert self.cores is not None
        if self.are_products and self.usual_rank(variables) == self.rank:
            values = np.linalg.eigvalsh(np.exp(self._log_cosines[list(variables)].sum(axis=0)))
            # The square of the smallest singular value, which that of no subset of the columns is below.
            if values[0] > max(_CLEAR_GRAM * values[-1], self.tolerance**2):
                condition = float(np.sqrt(values[-1] / values[0]))
                return StackedFactor(variables, self.rank, KruskalRank(self.rank), condition)
        inside = [self.cores[n] for n in sorted(variables)]
        core = product_core(inside) if self.are_products else compressed(np.concatenate(inside))
        values = np.linalg.svd(core / np.linalg.norm(core, axis=0), compute_uv=False)
        rank = int((values > self.tolerance).sum())
        condition = float(values[0] / values[-1]) if rank == self.rank else np.inf
        k_rank = kruskal_rank(core, self.tolerance, max_combinations)
        if self.are_products and not k_rank.is_exact and len(variables) > 1:
            # Every factor adds its k-rank less one to that of a product (Sidiropoulos and Bro, 2000).
            k_ranks = [self.describe((n,), max_combinations).k_rank for n in variables]
            least = min(1 + sum(int(k) - 1 for k in k_ranks), self.rank) if min(k_ranks) else 0
            if least > k_rank:
                k_rank = KruskalRank(least, least == rank)
        return StackedFactor(variables, rank, k_rank, condition)

    @cached_property
    def _log_cosines(self) -> np.ndarray:
        """Logarithms of cosines, products of many of which underflow; -inf stands for orthogonal columns."""
        assert self.cosines is not None
        with np.errstate(divide="ignore"):
            return np.log(np.clip(self.cosines, 0.0, 1.0))

    # ---- three sets ----

    def model(self, partition: Partition, max_combinations: int = _TRIED_COMBINATIONS) -> StackedModel:
        """Ranks of the factors of the three sets, the blocks whose distribution is not known, and what they leave open.

        The blocks of stacks are triples; products are one block.
        """
        first, second, third = (self.describe(group, max_combinations) for group in partition)
        inside = {n for group in partition for n in group}
        missing = 0
        if self.are_products:
            missing = int(not any(inside <= set(pattern) for pattern in self.known.patterns))
        elif self._known_triples is not None:
            missing = sum(tuple(sorted(block)) not in self._known_triples for block in product(*partition))
        return StackedModel(partition, (first, second, third), self.rank, missing, self.undetermined(inside))

    def best(self, partition: Partition | None = None, may_search: bool = True) -> StackedModel:
        """The given partition, or the one that proves most.

        Parameters
        ----------
        partition : Partition, optional
        may_search : bool
            False if it is known that no partition can prove anything; the best by sizes is taken then.
        """
        if partition is not None:
            return self.model(partition, _REPORTED_COMBINATIONS)
        # Leurgans' condition is looked for only where sizes allow it, and where there are stacks.
        is_algebraic = not self.are_products and self.rank <= max_identifiable_rank(
            len(self.n_bins), self.n_bins, "gevd"
        )
        best: StackedModel | None = None
        for candidate in self._candidates(may_search):
            model = self.model(candidate)
            if best is None or model.merit > best.merit:
                best = model
            if best.merit[:2] >= (is_algebraic, True):
                break
        assert best is not None  # a partition always exists
        return self.model(best.partition, _REPORTED_COMBINATIONS)

    @cached_property
    def complete_partitions(self) -> list[Partition]:
        """Partitions all of whose blocks are known triples, found by growing known triples."""
        return [] if self.known.triples is None else complete_partitions(self.known.triples, len(self.n_bins))

    @cached_property
    def _known_triples(self) -> set[tuple[int, ...]] | None:
        return None if self.known.triples is None else {tuple(triple) for triple in self.known.triples.tolist()}

    def _candidates(self, may_search: bool) -> Iterator[Partition]:
        """Partitions to look at: of stacks those whose blocks are known, of products those inside known patterns."""
        if self.are_products:
            for pattern in [p for p in self.known.patterns if len(p) >= 3][:_TRIED_PATTERNS]:
                yield from self._partitions_of(pattern, may_search)
        elif self.known.triples is not None:
            yield from self.complete_partitions
        else:
            yield from self._partitions_of(range(len(self.n_bins)), may_search)

    def _partitions_of(self, variables: Sequence[int], may_search: bool) -> Iterator[Partition]:
        """Partitions of some of the variables: the best by sizes, then all or a sample."""
        sizes = [self.n_bins[n] for n in variables]
        criteria: tuple[Criterion, ...] = ("joint",) if self.are_products else ("gevd", "kruskal")
        for criterion in criteria:
            yield _renumbered(best_partition(len(sizes), sizes, criterion), variables)
        possible = self.rank <= max(max_identifiable_rank(len(sizes), sizes, c) for c in criteria)
        if not (may_search and possible) or self.is_generic:
            return
        if len(variables) <= _EXHAUSTIVE_VARIABLES:
            yield from (_renumbered(partition, variables) for partition in all_partitions(len(variables)))
            return
        # Random partitions of the variables in an order that does not depend on how they were numbered.
        assert self.cores is not None
        values = {n: np.linalg.svd(self.cores[n], compute_uv=False) for n in variables}
        keys = {n: (self.n_bins[n], tuple(np.round(-v, 9))) for n, v in values.items()}
        order = np.array(sorted(keys, key=keys.__getitem__))
        rng = np.random.default_rng(0)
        for draw in range(_SAMPLED_PARTITIONS):
            mixed = rng.permutation(order).tolist()
            last = 1 if draw % 2 else len(mixed) // 3
            half = (len(mixed) - last) // 2
            sets = mixed[:half], mixed[half:-last], mixed[-last:]
            yield Partition(*(tuple(sorted(some)) for some in sets))

    # ---- variables that follow from others ----

    def undetermined(self, inside: Iterable[int]) -> tuple[int, ...]:
        """Variables that do not follow from a set whose factors, and weights, are unique.

        The joint distribution of another variable and of some of the set is linear in its factor: unique if the
        Khatri-Rao products of theirs have independent columns. These are stacked over all known pairs of variables, or
        those of all variables that are observed with it. It then joins the set.
        """
        inside = set(inside)
        outside = set(range(len(self.n_bins))) - inside
        if not outside or (self.cosines is None and not self.are_products):
            return tuple(sorted(outside))
        while found := self._following(outside, inside):
            inside = inside | found
            outside = outside - found
        return tuple(sorted(outside))

    def _following(self, outside: set[int], inside: set[int]) -> set[int]:
        """Variables outside that follow from the variables inside alone."""
        if self.are_products:
            shared = {
                n: {tuple(sorted(inside.intersection(p))) for p in self.known.patterns if n in p} for n in outside
            }
            return {n for n in outside if any(some and self.describe(some).rank == self.rank for some in shared[n])}
        assert self.cosines is not None
        if self.known.triples is None:
            grams = self.cosines[sorted(inside)]
            # e2, the sum over pairs of the products of the Gram matrices, entry by entry.
            pairs = (grams.sum(axis=0) ** 2 - (grams**2).sum(axis=0)) / 2
            return outside if self._is_regular(pairs) else set()
        sums: dict[int, np.ndarray] = {}
        for triple in self.known.triples.tolist():
            new = [n for n in triple if n not in inside]
            if len(new) == 1:
                j, k = (n for n in triple if n != new[0])
                sums[new[0]] = sums.get(new[0], 0.0) + self.cosines[j] * self.cosines[k]
        return {n for n, gram in sums.items() if self._is_regular(gram)}

    def _is_regular(self, gram: np.ndarray) -> bool:
        """True if columns of one length, whose square is on the diagonal of this Gram matrix, are independent."""
        values = np.linalg.eigvalsh(gram)
        return bool(values[0] > max(_GRAM_TOLERANCE * values[-1], self.tolerance**2 * gram[0, 0]))


def product_core(cores: Sequence[np.ndarray]) -> np.ndarray:
    """The Khatri-Rao product of matrices, unit columns, rotated into at most `rank` rows.

    Columns are scaled after every factor, so that nothing underflows however many factors there are: columns that are
    far apart become orthogonal, which is what they are then.

    Parameters
    ----------
    cores : sequence of ndarray (n_rows, rank)

    Returns
    -------
    ndarray (n_rows, rank)
    """
    core = np.ones((1, cores[0].shape[1]))
    for factor in cores:
        # i row so far, b bin, r component
        core = compressed((core[:, None, :] * factor[None, :, :]).reshape(-1, core.shape[1]))
        core = core / np.linalg.norm(core, axis=0)
    return core


def _renumbered(partition: Partition, variables: Sequence[int]) -> Partition:
    """A partition of positions in a list of variables, as one of the variables."""
    first, second, third = (tuple(variables[n] for n in group) for group in partition)
    return Partition(first, second, third)
