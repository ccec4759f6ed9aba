"""Known parts of a distribution, and the highest rank that they and the sizes allow, before any data."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, islice, product
from math import asinh, comb, exp, isqrt, log, prod
from typing import Any, Literal, get_args

import numpy as np

from tensorly_smp._support.checks import checked_choice, checked_integer, is_integer
from tensorly_smp._support.representations import number_range, shown
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.marginals.block_tensor import (
    MOST_TABLE_BITS,
    Partition,
    as_partition,
    deal,
    default_partition,
    grown_sets,
    pencil_partition,
)
from tensorly_smp.marginals.triples import symmetric_sums
from tensorly_smp.samples.values import maximal_patterns

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
        sets = grown_sets(seed, range(n_variables), known, [1] * n_variables)
        grown[Partition(*(tuple(sorted(group)) for group in sorted(sets, key=len, reverse=True)))] = None
    return list(grown)


Criterion = Literal["gevd", "generic", "kruskal", "paper-gevd", "paper-generic", "joint"]
# "joint" is the one for whole samples, the others are for histograms of triples.

#: Of the rank, and of all bins together: beyond, bounds overflow.
MAX_SIZE = 2**31
_MAX_BINS = 2**30
# For "joint": entries of a table of groups. Fourteen variables of unequal sizes have as many, and allow a million
# components.
_TABLE = 2**14
# Groups of next to as many states that are compared: the best may be on either side, and rounding of logarithms does
# not tell equal ones apart.
_NEIGHBORS = 16


def max_identifiable_rank(
    n_variables: int,
    n_bins: int | Sequence[int],
    criterion: Criterion = "gevd",
    partition: Partition | Sequence[Sequence[int]] | None = None,
) -> int:
    """Highest rank R up to which a criterion makes almost every mixture identifiable.

    By default the criterion is that of the algebraic start from triples; "kruskal" and "generic" may allow more, and
    "joint" allows what whole samples determine.

    Parameters
    ----------
    n_variables : int
        N, at least 3.
    n_bins : int or sequence of int (n_variables,)
        Bins of every variable; constants have one.
    criterion : {"gevd", "generic", "kruskal", "paper-gevd", "paper-generic", "joint"}
        "gevd" (Leurgans): the algebraic decomposition works, R <= min(s1, s2) and s3 >= 2, where s_i is the sum of
        I_n - 1 over set i of the partition, plus one. Use it to know whether ``init="gevd"`` can succeed.
        "generic" (Chiantini and Ottaviani 2012, Theorem 1.1): R <= 2^(a + b - 2) with 2^a and 2^b the largest powers of
        two within the two *smallest* of s1, s2, s3. Unique for almost every model, but there is no algebra to find it.
        "kruskal": 2 R + 2 <= sum_i min(s_i, R), Kruskal's condition at the k-ranks of almost every model.
        "paper-gevd", "paper-generic": the figures as printed by Kargas and Sidiropoulos (2019), see Notes.
        "joint" (Allman, Matias and Rhodes 2009): Kruskal's condition for the joint distribution of all variables,
        2 R + 2 <= sum_i min(k_i, R), where k_i is the product of I_n over group i: the number of states of the group.
        Capital letters are the same.
    partition : Partition or three collections of variable indices, optional
        Three disjoint sets; the third is the pencil mode of "gevd". Default: the best partition for the criterion.

    Returns
    -------
    int
        At least 1 for the first three criteria, as one product distribution is always unique. "paper-gevd" is 0 for
        fewer than five variables, where it guarantees nothing.

    Raises
    ------
    InvalidInputError
        If sizes are out of range or the criterion is unknown.
    InvalidTypeError
        If sizes are not integers.

    See Also
    --------
    best_partition : The partition behind the figure.
    min_bins_for_rank : The question the other way round.

    Notes
    -----
    The paper counts the rows of a stacked factor, c I for c variables of I bins. As every block of it has columns that
    sum to one, its rank is at most c (I - 1) + 1: the first three criteria use these effective sizes, and
    "paper-gevd" = (floor((N - 1) / 2) - 1) I and "paper-generic" = floor((floor(N / 3) I + 1)^2 / 16) are kept for
    comparison. They are stated for equal numbers of bins; with unequal ones the smallest counts. With a given
    partition, they are the same formulas at the rows of its stacked factors.

    The best partition is exact for equal numbers of bins and wherever a subset-sum table fits (for "gevd", N times the
    sum of I_n up to 2e8; else, N times its square). Beyond, variables are shared out greedily, largest first, and the
    figure is a lower bound. For "joint" it is exact for equal numbers of bins, and while all groups of variables, equal
    ones counted, fit a table (of up to 14 variables they do).

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> smp.max_identifiable_rank(10, 15), smp.max_identifiable_rank(10, 15, "paper-gevd")
    (57, 45)
    >>> smp.max_identifiable_rank(3, [4, 5, 6], "kruskal")
    6

    Latent classes of nine binary items, from triples and from whole samples:

    >>> smp.max_identifiable_rank(9, 2, "kruskal"), smp.max_identifiable_rank(9, 2, "joint")
    (5, 16)
    """
    sizes = checked_sizes(n_variables, n_bins)
    criterion = checked_choice(_in_lower_case(criterion), "criterion", get_args(Criterion))
    chosen = None if partition is None else as_partition(partition, n_variables)
    if criterion in _PAPER_RULES:
        if chosen is None:
            return _PAPER_RULES[criterion][0](n_variables, min(sizes))
        return _PAPER_RULES[criterion][1](chosen.stacked_sizes(sizes))
    if chosen is None:
        chosen = best_partition(n_variables, sizes, criterion)
    if criterion == "joint":
        states = [prod(sizes[n] for n in group) for group in chosen]  # exact, however large
        return int(_kruskal_rule(np.array([states], dtype=object))[0])
    return int(_RANK_RULES[criterion](np.array([chosen.effective_sizes(sizes)]))[0])


def best_partition(n_variables: int, n_bins: int | Sequence[int], criterion: Criterion = "gevd") -> Partition:
    """Partition of all variables that allows the highest rank.

    Parameters
    ----------
    n_variables, n_bins
        As for :func:`max_identifiable_rank`, whose Notes say when it is exact.
    criterion : {"gevd", "generic", "kruskal", "joint"}
        For "gevd", the third set is a single variable with the fewest bins.

    Returns
    -------
    Partition

    Raises
    ------
    InvalidInputError
        If sizes are out of range or the criterion is none of these.

    Examples
    --------
    >>> best_partition(4, [3, 9, 3, 5]).effective_sizes([3, 9, 3, 5])
    (7, 9, 3)
    """
    sizes = checked_sizes(n_variables, n_bins)
    # The criteria of the paper prescribe their partitions.
    criterion = checked_choice(_in_lower_case(criterion), "criterion", (*_RANK_RULES, "joint"))
    telling = [n for n, size in enumerate(sizes) if size > 1]
    if len(telling) < min(len(sizes), 3):
        return default_partition(len(sizes))  # allows one component
    if len(telling) < len(sizes):
        # Constants change nothing, wherever they are.
        partition = best_partition(len(telling), [sizes[n] for n in telling], criterion)
        first, second, third = (tuple(telling[n] for n in group) for group in partition)
        constants = tuple(n for n, size in enumerate(sizes) if size == 1)
        return Partition((*first, *constants), second, third)
    if criterion == "joint":
        return _best_grouping(sizes)
    if criterion == "gevd":
        return pencil_partition(sizes)
    gains = [size - 1 for size in sizes]
    rule = _RANK_RULES[criterion]
    if len(set(gains)) > 1 and len(gains) * (sum(gains) + 1) ** 2 <= MOST_TABLE_BITS:
        return _best_of_all_partitions(gains, rule)
    candidates = _greedy_partitions(gains, criterion)
    effective = np.array([candidate.effective_sizes(sizes) for candidate in candidates])
    return candidates[int(np.argmax(rule(effective)))]


def min_bins_for_rank(n_variables: int, rank: int, criterion: Criterion = "gevd") -> int:
    """Fewest bins, the same for every variable, at which `rank` components are identifiable.

    Parameters
    ----------
    n_variables : int
        At least 3.
    rank : int
        Number of components, at least 1.
    criterion : {"gevd", "generic", "kruskal", "paper-gevd", "paper-generic", "joint"}
        As for :func:`max_identifiable_rank`.

    Returns
    -------
    int
        At least 2.

    Raises
    ------
    InvalidInputError
        If no number of bins is enough ("paper-gevd" with fewer than five variables), or a size is out of range.

    Examples
    --------
    >>> min_bins_for_rank(10, 57), min_bins_for_rank(3, 5, "generic")
    (15, 8)
    """
    rank = checked_integer(rank, "rank", 1, MAX_SIZE)

    def enough(bins: int) -> bool:
        return max_identifiable_rank(n_variables, bins, criterion) >= rank

    high = 2
    while not enough(high):
        if high >= _MAX_BINS:
            raise InvalidInputError(f"{n_variables} variables allow no rank {rank}, however many bins they have.")
        high *= 2
    low = max(high // 2, 2)
    return low + bisect_left(range(low, high), True, key=enough)


# Each rule maps effective sizes (n_partitions, 3) to ranks (n_partitions,).


def _in_lower_case(word: Any) -> Any:
    """The word in lower case; what is none stays as it is, to be refused."""
    return word.lower() if isinstance(word, str) else word


def _gevd_rule(sizes: np.ndarray) -> np.ndarray:
    return np.where(sizes[:, 2] >= 2, sizes[:, :2].min(axis=1), 1)


def _generic_rule(sizes: np.ndarray) -> np.ndarray:
    smallest = np.sort(sizes, axis=1)[:, :2]
    # frexp is exact where log2 may round up just below a power of two.
    exponents = np.frexp(smallest.astype(float))[1] - 1
    return np.where(smallest[:, 0] >= 2, 2 ** np.maximum(exponents.sum(axis=1) - 2, 0), 1)


def _kruskal_rule(sizes: np.ndarray) -> np.ndarray:
    # 2 R + 2 <= min(s1, R) + min(s2, R) + min(s3, R) for R above the middle size; R = 1 is always unique.
    small, middle, large = np.sort(sizes, axis=1).T
    return np.where(small >= 2, np.minimum(small + middle - 2, (small + middle + large - 2) // 2), 1)


_RANK_RULES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "gevd": _gevd_rule,
    "generic": _generic_rule,
    "kruskal": _kruskal_rule,
}
# Of the numbers of variables and bins, and of the rows of stacked factors.
_PAPER_RULES: dict[str, tuple[Callable[[int, int], int], Callable[[tuple[int, int, int]], int]]] = {
    "paper-gevd": (lambda n_variables, n_bins: ((n_variables - 1) // 2 - 1) * n_bins, lambda rows: min(rows[:2])),
    "paper-generic": (
        lambda n_variables, n_bins: (n_variables // 3 * n_bins + 1) ** 2 // 16,
        lambda rows: (sorted(rows)[0] + 1) * (sorted(rows)[1] + 1) // 16,
    ),
}


def _best_grouping(sizes: list[int]) -> Partition:
    """Best for "joint", where sizes are products of bins; variables of as many bins are alike, so that counts decide.

    Groups of a, b and c states, c the most, allow the rank min(a + b - 2, (a + b + c - 2) // 2), where the product P of
    the three is given. For every a, the first number grows with b and the second falls: the best b is next to the one
    where they meet, b (a + b - 2) = P / a. As b is at most sqrt(P / a), only an a with a + sqrt(P / a) - 2 above the
    best rank so far can be better.
    """
    total = prod(sizes)
    order = sorted(range(len(sizes)), key=lambda n: (sizes[n], n))
    counts = Counter(sizes[n] for n in order)

    def n_states(numbers: Sequence[int]) -> int:
        return prod(size ** int(number) for size, number in zip(counts, numbers, strict=True))

    def rank(groups: Sequence[Sequence[int]]) -> int:
        return int(_kruskal_rule(np.array([list(map(n_states, groups))], dtype=object))[0])

    lengths = [log(size) for size in sizes]
    dealt = [[*deal(order[1:], lengths, 2), order[:1]], deal(order, lengths, 3)]
    numbered = [[[sum(sizes[n] == size for n in group) for size in counts] for group in sets] for sets in dealt]
    best = max(numbered, key=rank)
    if prod(count + 1 for count in counts.values()) <= _TABLE:
        table = np.zeros(1)  # logarithms of the states of all groups; numbers of states exceed all floats
        for size, count in counts.items():
            table = table[..., None] + log(size) * np.arange(count + 1)
        table = table[0]
        thirds = np.argwhere((table > 0) & (table <= log(total) / 3 + 1e-9))
        for third in thirds[np.argsort(table[tuple(thirds.T)])]:
            states = n_states(third)
            if states + isqrt(total // states) - 2 <= rank(best):
                continue
            left = np.array(list(counts.values())) - third
            rest = table[tuple(slice(number + 1) for number in left)]
            # The positive root b of b^2 + (a - 2) b = P / a, in logarithms.
            half = log(total // states) / 2
            target = half - asinh(exp(log(states - 2) - half) / 2 if states > 2 else 0.0)
            nearest = np.argsort(np.abs(rest - target), axis=None)[:_NEIGHBORS]
            for second in np.column_stack(np.unravel_index(nearest, rest.shape)):
                if second.any() and (left - second).any():
                    best = max(best, [left - second, second, third], key=rank)
    members = {size: [n for n in order if sizes[n] == size] for size in counts}
    sets = []
    for numbers in reversed(best):
        taken = [members[size].pop(0) for size, number in zip(counts, numbers, strict=True) for _ in range(number)]
        sets.append(tuple(sorted(taken)))
    return Partition(*reversed(sets))


def all_partitions(n_variables: int) -> Iterator[Partition]:
    """Every way to share all variables out to three sets, whatever the order of the sets."""
    for labels in product(range(3), repeat=n_variables):
        found = list(dict.fromkeys(labels))
        if found == [0, 1, 2]:
            first, second, third = (tuple(n for n, label in enumerate(labels) if label == s) for s in range(3))
            yield Partition(first, second, third)


def _best_of_all_partitions(gains: list[int], rule: Callable[[np.ndarray], np.ndarray]) -> Partition:
    """Best of all reachable sums of three sets; bit (s1, s2) of a table is set if these two sums are reachable."""
    total = sum(gains)
    width = total + 1
    tables = [1]
    for gain in gains:
        before = tables[-1]
        tables.append(before | before << gain | before << gain * width)
    n_bytes = (width * width + 7) // 8
    bits = np.frombuffer(tables[-1].to_bytes(n_bytes, "little"), dtype=np.uint8)
    first, second = np.divmod(np.flatnonzero(np.unpackbits(bits, bitorder="little")), width)
    sums = np.column_stack([first, second, total - first - second])
    sums = sums[(sums > 0).all(axis=1)]
    state = sums[np.argmax(rule(sums + 1))]
    position = int(state[0]) * width + int(state[1])
    sets: tuple[list[int], list[int], list[int]] = ([], [], [])
    for n in reversed(range(len(gains))):
        before = tables[n]
        for chosen, step in ((2, 0), (1, gains[n]), (0, gains[n] * width)):
            if position >= step and before >> (position - step) & 1:
                sets[chosen].append(n)
                position -= step
                break
    return Partition(*(tuple(sorted(group)) for group in sets))


def _greedy_partitions(gains: list[int], criterion: str) -> list[Partition]:
    """Candidates among which the best partition is exact for equal gains."""
    order = sorted(range(len(gains)), key=lambda n: gains[n])
    candidates = [deal(order, gains, 3), [*deal(order[1:], gains, 2), order[:1]]]
    if criterion == "generic":
        # Sizes 2^a <= 2^b <= the third: smallest variables first fill two sets up to the sums 2^a - 1 and 2^b - 1, so
        # that they are overshot by little, and the third takes the rest.
        sums = np.cumsum([gains[n] for n in order])
        for large in range(1, sum(gains).bit_length() + 1):
            for small in range(1, large + 1):
                first = int(np.searchsorted(sums, 2**small - 1)) + 1
                second = int(np.searchsorted(sums, sums[min(first, len(sums)) - 1] + 2**large - 1)) + 1
                candidates.append([order[:first], order[first:second], order[second:]])
    return [Partition(*(tuple(sorted(group)) for group in sets)) for sets in candidates if all(sets)]


def checked_sizes(n_variables: Any, n_bins: Any) -> list[int]:
    """Numbers of bins of the variables, given as one number or one for each, then with their number or None."""
    try:
        sizes = None if is_integer(n_bins) else list(n_bins)
    except TypeError:
        raise InvalidTypeError(f"n_bins is {shown(n_bins)}; expected an integer or one for each variable.") from None
    n_variables = len(sizes) if n_variables is None and sizes is not None else n_variables
    n_variables = checked_integer(n_variables, "n_variables", 3)
    sizes = [n_bins] * n_variables if sizes is None else sizes
    if len(sizes) != n_variables:
        raise InvalidInputError(f"n_bins has {len(sizes)} entries for {n_variables} variables; expected one for each.")
    return [checked_integer(size, "n_bins", 1) for size in sizes]
