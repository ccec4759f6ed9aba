"""Factors of sets of variables, stacked for triples or multiplied for whole samples; the three sets that prove most.

The histograms of all triples with one variable of each set, side by side, are one tensor whose factors are the factors
of the sets stacked over each other. The joint distribution of all variables is one tensor whose factors are the
Khatri-Rao products of the factors of the sets. What is known of the uniqueness of one three-way decomposition holds for
both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from math import prod

import numpy as np

from tensorly_smp.identifiability.bounds import Criterion, all_partitions, best_partition, max_identifiable_rank
from tensorly_smp.identifiability.known import Known
from tensorly_smp.identifiability.kruskal import KruskalRank, kruskal_rank
from tensorly_smp.identifiability.sweeps import compressed, product_core
from tensorly_smp.marginals.partition import Partition

# Unit columns count as dependent at a singular value of this; that of kruskal_rank in double precision.
TOLERANCE = float(np.finfo(np.float64).eps ** (2 / 3))
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


class FactorStacks:
    """Stacked factors of one model, each looked at once.

    Parameters
    ----------
    factors : sequence of ndarray (n_bins[n], rank)
    tolerance : float
        Singular values of unit columns at most this large count as zero.
    """

    def __init__(self, factors: Sequence[np.ndarray], tolerance: float = TOLERANCE) -> None:
        # The triangular factor of a QR decomposition has the same dependent columns in at most `rank` rows.
        self.cores: list[np.ndarray] = [compressed(factor) for factor in factors]
        self.n_bins = [len(factor) for factor in factors]
        self.rank: int = factors[0].shape[1]
        self.tolerance = tolerance
        self._described: dict[tuple[frozenset[int], int], StackedFactor] = {}

    def describe(self, variables: Sequence[int], max_combinations: int = _TRIED_COMBINATIONS) -> StackedFactor:
        """Ranks and conditioning of the factors of these variables."""
        key = frozenset(variables), max_combinations
        if key not in self._described:
            self._described[key] = self._describe(tuple(variables), max_combinations)
        return self._described[key]

    def usual_rank(self, variables: Sequence[int]) -> int:
        """Rank and k-rank that almost every model of these sizes has."""
        return min(self.rank, _effective_size(self.n_bins, variables))

    def _describe(self, variables: tuple[int, ...], max_combinations: int) -> StackedFactor:
        core = self._core(variables)
        values = np.linalg.svd(core / np.linalg.norm(core, axis=0), compute_uv=False)
        rank = int((values > self.tolerance).sum())
        condition = float(values[0] / values[-1]) if rank == self.rank else np.inf
        return StackedFactor(variables, rank, kruskal_rank(core, self.tolerance, max_combinations), condition)

    def _core(self, variables: Sequence[int]) -> np.ndarray:
        return compressed(np.concatenate([self.cores[n] for n in sorted(variables)]))


class FactorProducts(FactorStacks):
    """Khatri-Rao products of the factors of one model: conditional distributions of groups of variables.

    The Gram matrix of the columns of a product is the entrywise product of those of its factors, rank x rank whatever
    the number of states. Where that is far from singular nothing else is needed; otherwise the product itself is
    rotated into `rank` rows, factor by factor.
    """

    def __init__(self, factors: Sequence[np.ndarray], tolerance: float = TOLERANCE) -> None:
        super().__init__(factors, tolerance)
        cosines = np.minimum(unit_grams(factors), 1.0)
        # Products of many cosines underflow; a logarithm of -inf stands for orthogonal columns.
        self._logs = np.log(np.where(cosines > 0, cosines, 1.0))
        self._logs[cosines <= 0] = -np.inf

    def usual_rank(self, variables: Sequence[int]) -> int:
        """Rank and k-rank that almost every model of these sizes has."""
        return min(self.rank, prod(self.n_bins[n] for n in variables))

    def _describe(self, variables: tuple[int, ...], max_combinations: int) -> StackedFactor:
        if self.usual_rank(variables) == self.rank:
            values = np.linalg.eigvalsh(np.exp(self._logs[list(variables)].sum(axis=0)))
            # The square of the smallest singular value, which that of no subset of the columns is below.
            if values[0] > max(_CLEAR_GRAM * values[-1], self.tolerance**2):
                condition = float(np.sqrt(values[-1] / values[0]))
                return StackedFactor(variables, self.rank, KruskalRank(self.rank), condition)
        found = super()._describe(variables, max_combinations)
        if found.k_rank.is_exact or len(variables) == 1:
            return found
        # Every factor adds its k-rank less one to that of a product (Sidiropoulos and Bro, 2000).
        k_ranks = [self.describe((n,), max_combinations).k_rank for n in variables]
        least = min(1 + sum(int(k_rank) - 1 for k_rank in k_ranks), self.rank) if min(k_ranks) else 0
        return replace(found, k_rank=KruskalRank(least, least == found.rank)) if least > found.k_rank else found

    def _core(self, variables: Sequence[int]) -> np.ndarray:
        return product_core([self.cores[n] for n in sorted(variables)])


class GenericStacks:
    """Stacked factors of almost every model of the given sizes.

    Up to scale, the columns of a stacked factor fill an open part of a linear space whose dimension is the effective
    size, so that rank and k-rank are the smaller one of that and the number of columns.

    Parameters
    ----------
    n_bins : sequence of int
    rank : int
    drawn : FactorStacks, optional
        Random factors of these sizes, for the conditioning.
    """

    def __init__(self, n_bins: Sequence[int], rank: int, drawn: FactorStacks | None = None) -> None:
        self.n_bins, self.rank, self.drawn = n_bins, rank, drawn

    def describe(self, variables: Sequence[int], max_combinations: int = 0) -> StackedFactor:
        """Ranks and conditioning of the factors of these variables."""
        rank = min(self.rank, self._size(variables))
        if rank < self.rank:
            condition = np.inf
        else:
            condition = np.nan if self.drawn is None else self.drawn.describe(variables, 0).condition
        return StackedFactor(tuple(variables), rank, KruskalRank(rank), condition)

    def _size(self, variables: Sequence[int]) -> int:
        return _effective_size(self.n_bins, variables)


class GenericProducts(GenericStacks):
    """Khatri-Rao products of almost every model of the given sizes: rank and k-rank are as high as the states allow.

    Allman, Matias and Rhodes (2009): k-ranks below that are zeros of polynomials, and there are models without.
    """

    def _size(self, variables: Sequence[int]) -> int:
        return prod(self.n_bins[n] for n in variables)


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


class PartitionSearch:
    """Partitions of one model, compared by what their stacked factors prove.

    Parameters
    ----------
    n_bins : sequence of int
    rank : int
    stacks : FactorStacks or GenericStacks
    factors : sequence of ndarray, optional
        Where known, variables outside a partition are looked at too.
    known : Known
    """

    criteria: tuple[Criterion, ...] = ("gevd", "kruskal")

    def __init__(
        self,
        n_bins: Sequence[int],
        rank: int,
        stacks: FactorStacks | GenericStacks,
        factors: Sequence[np.ndarray] | None,
        known: Known,
    ) -> None:
        self.n_bins = n_bins
        self.rank = rank
        self.stacks = stacks
        self.known = known
        self.triples = known.triples
        self.cosines = None if factors is None else unit_grams(factors)
        self._listed = None if known.triples is None else {tuple(triple) for triple in known.triples.tolist()}

    def model(self, partition: Partition, max_combinations: int = _TRIED_COMBINATIONS) -> StackedModel:
        """Ranks of the factors of the three sets, and the variables that they leave open."""
        first, second, third = (self.stacks.describe(group, max_combinations) for group in partition)
        missing = self._missing(partition)
        undetermined = self.undetermined(partition)
        return StackedModel(partition, (first, second, third), self.rank, missing, undetermined)

    def best(self, partition: Partition | None = None, may_search: bool = True) -> StackedModel:
        """The given partition, or the one that proves most.

        Parameters
        ----------
        partition : Partition, optional
        may_search : bool
            False if it is known that no partition can prove anything; the best by sizes is taken then.
        """
        chosen = partition
        if chosen is None:
            models = (self.model(partition) for partition in self._candidates(may_search))
            chosen = self._most_telling(models).partition
        return self.model(chosen, _REPORTED_COMBINATIONS)

    @cached_property
    def complete_partitions(self) -> list[Partition]:
        """Partitions all of whose blocks are known triples, found by growing known triples."""
        return [] if self.triples is None else complete_partitions(self.triples, len(self.n_bins))

    def _missing(self, partition: Partition) -> int:
        return missing_blocks(partition, self._listed)

    def undetermined(self, partition: Partition) -> tuple[int, ...]:
        """Variables outside the partition that do not follow from those inside."""
        return self.undetermined_beyond({n for group in partition for n in group})

    def undetermined_beyond(self, inside: set[int]) -> tuple[int, ...]:
        """Variables that do not follow from a set whose factors are unique."""
        outside = set(range(len(self.n_bins))) - inside
        if not outside or self.cosines is None:
            return tuple(sorted(outside))
        return undetermined_variables(inside, self.cosines, self.triples, getattr(self.stacks, "tolerance", TOLERANCE))

    def _most_telling(self, models: Iterable[StackedModel]) -> StackedModel:
        goal = self._goal()
        best: StackedModel | None = None
        for model in models:
            if best is None or model.merit > best.merit:
                best = model
            if best.merit[:2] >= goal:
                break
        assert best is not None  # a partition always exists
        return best

    def _goal(self) -> tuple[bool, bool]:
        """Merits beyond which no partition is looked for: Leurgans' condition only where sizes allow it."""
        return self.rank <= self._bound("gevd"), True

    def _candidates(self, may_search: bool) -> Iterator[Partition]:
        if self.triples is not None:
            yield from self.complete_partitions
        else:
            yield from self._partitions_of(range(len(self.n_bins)), may_search)

    def _partitions_of(self, variables: Sequence[int], may_search: bool) -> Iterator[Partition]:
        """Partitions of some of the variables: the best by sizes, then all or a sample."""
        sizes = [self.n_bins[n] for n in variables]
        for criterion in self.criteria:
            yield _renumbered(best_partition(len(sizes), sizes, criterion), variables)
        possible = self.rank <= max(max_identifiable_rank(len(sizes), sizes, c) for c in self.criteria)
        if may_search and possible and isinstance(self.stacks, FactorStacks):
            if len(variables) <= _EXHAUSTIVE_VARIABLES:
                yield from (_renumbered(partition, variables) for partition in all_partitions(len(variables)))
            else:
                yield from self._sampled_partitions(variables)

    def _sampled_partitions(self, variables: Sequence[int]) -> Iterator[Partition]:
        """Random partitions of the variables in an order that does not depend on how they were numbered."""
        assert isinstance(self.stacks, FactorStacks)
        values = {n: np.linalg.svd(self.stacks.cores[n], compute_uv=False) for n in variables}
        keys = {n: (self.n_bins[n], tuple(np.round(-v, 9))) for n, v in values.items()}
        order = np.array(sorted(keys, key=keys.__getitem__))
        rng = np.random.default_rng(0)
        for draw in range(_SAMPLED_PARTITIONS):
            mixed = rng.permutation(order).tolist()
            thirds = len(mixed) // 3
            last = 1 if draw % 2 else thirds
            half = (len(mixed) - last) // 2
            first = mixed[:half]
            second = mixed[half:-last]
            third = mixed[-last:]
            yield Partition(tuple(sorted(first)), tuple(sorted(second)), tuple(sorted(third)))

    def _bound(self, criterion: Criterion) -> int:
        return max_identifiable_rank(len(self.n_bins), self.n_bins, criterion)


class GroupingSearch(PartitionSearch):
    """Groupings of the variables of one model into three, compared by what the products of their factors prove.

    Parameters are those of :class:`PartitionSearch`, with FactorProducts or GenericProducts as `stacks`.
    """

    criteria = ("joint",)

    def _goal(self) -> tuple[bool, bool]:
        return False, True

    def _missing(self, partition: Partition) -> int:
        inside = {n for group in partition for n in group}
        return int(not any(inside <= set(pattern) for pattern in self.known.patterns))

    def undetermined_beyond(self, inside: set[int]) -> tuple[int, ...]:
        """Variables that do not follow from a set whose factors are unique.

        With w and the factors of a set of variables known, the joint distribution of another variable and of those of
        the set that are observed with it is linear in its factor: unique if the product of theirs has independent
        columns.
        """
        inside = set(inside)
        outside = set(range(len(self.n_bins))) - inside
        while outside:
            found = {n for n in outside if self._follows(n, inside)}
            if not found:
                break
            inside |= found
            outside -= found
        return tuple(sorted(outside))

    def _follows(self, n: int, inside: set[int]) -> bool:
        shared = (tuple(sorted(inside.intersection(p))) for p in self.known.patterns if n in p)
        return any(some and self.stacks.describe(some).rank == self.rank for some in shared)

    def _candidates(self, may_search: bool) -> Iterator[Partition]:
        for pattern in [p for p in self.known.patterns if len(p) >= 3][:_TRIED_PATTERNS]:
            yield from self._partitions_of(pattern, may_search)


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


def missing_blocks(partition: Partition, known: set[tuple[int, ...]] | None) -> int:
    """Number of blocks of the block tensor whose triple is not known; None knows all."""
    if known is None:
        return 0
    return sum(tuple(sorted(block)) not in known for block in product(*partition))


def undetermined_variables(
    inside: set[int], cosines: np.ndarray, triples: np.ndarray | None, tolerance: float = TOLERANCE
) -> tuple[int, ...]:
    """Variables that do not follow from others whose factors are unique.

    With w and the factors of a set of variables known, X_jkm for j, k in the set is linear in A_m: it is unique if the
    Khatri-Rao products of A_j and A_k, stacked over all known pairs, have independent columns. It then joins the set.

    Parameters
    ----------
    inside : set of int
        Variables whose factors are unique.
    cosines : ndarray (n_variables, rank, rank)
        Of :func:`unit_grams`.
    triples : ndarray of int (n_triples, 3) or None
        The known triples; None: all.
    tolerance : float
        Singular values of unit columns at most this large count as zero.
    """
    inside = set(inside)
    outside = set(range(len(cosines))) - inside
    if triples is None:
        grams = cosines[sorted(inside)]
        # e2, the sum over pairs of the products of the Gram matrices, entry by entry.
        pairs = (grams.sum(axis=0) ** 2 - (grams**2).sum(axis=0)) / 2
        return () if not outside or _is_regular(pairs, tolerance) else tuple(sorted(outside))
    while outside:
        sums: dict[int, np.ndarray] = {}
        for triple in triples.tolist():
            new = [n for n in triple if n not in inside]
            if len(new) == 1:
                j, k = (n for n in triple if n != new[0])
                sums[new[0]] = sums.get(new[0], 0.0) + cosines[j] * cosines[k]
        found = {n for n, gram in sums.items() if _is_regular(gram, tolerance)}
        if not found:
            break
        inside |= found
        outside -= found
    return tuple(sorted(outside))


def _effective_size(n_bins: Sequence[int], variables: Sequence[int]) -> int:
    return 1 + sum(n_bins[n] - 1 for n in variables)


def _renumbered(partition: Partition, variables: Sequence[int]) -> Partition:
    """A partition of positions in a list of variables, as one of the variables."""
    first, second, third = (tuple(variables[n] for n in group) for group in partition)
    return Partition(first, second, third)


def unit_grams(factors: Sequence[np.ndarray]) -> np.ndarray:
    """Cosines between the columns of every factor, ndarray (n_variables, rank, rank)."""
    units = (factor / np.linalg.norm(factor, axis=0) for factor in factors)
    return np.stack([unit.T @ unit for unit in units])


def _is_regular(gram: np.ndarray, tolerance: float) -> bool:
    """True if columns of this Gram matrix, all of the same length, are independent."""
    values = np.linalg.eigvalsh(gram)
    return bool(values[0] > max(_GRAM_TOLERANCE * values[-1], tolerance**2 * gram[0, 0]))
