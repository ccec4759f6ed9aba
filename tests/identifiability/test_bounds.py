from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.identifiability.bounds import best_partition, max_identifiable_rank, min_bins_for_rank
from tensorly_smp.marginals.block_tensor import Partition, default_partition, paper_partition

CORRECTED = ["gevd", "generic", "kruskal"]
CRITERIA = [*CORRECTED, "paper-gevd", "paper-generic"]


def rank_by_definition(sizes, criterion):
    """The criteria as they are stated, rank by rank."""
    ranks = range(2, 2 * max(sizes) + 2)
    if criterion == "gevd":
        fits = [rank for rank in ranks if rank <= min(sizes[:2]) and sizes[2] >= 2]
    elif criterion == "kruskal":
        fits = [rank for rank in ranks if 2 * rank + 2 <= sum(min(size, rank) for size in sizes)]
    else:
        low, middle, _ = sorted(sizes)
        alpha = max(a for a in range(20) if 2**a <= low)
        beta = max(b for b in range(20) if 2**b <= middle)
        return max(1, int(2.0 ** (alpha + beta - 2)))
    return max(fits, default=1)


def brute_force(n_bins, criterion):
    """Best over every way of putting each variable into one of three sets, or into none."""
    best = 1
    for labels in product(range(4), repeat=len(n_bins)):
        sets = [[n for n, label in enumerate(labels) if label == s] for s in range(3)]
        if all(sets):
            sizes = [sum(n_bins[n] - 1 for n in group) + 1 for group in sets]
            best = max(best, rank_by_definition(sizes, criterion))
    return best


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(2, 9), min_size=3, max_size=5), st.sampled_from(CORRECTED))
def test_best_of_all_partitions(n_bins, criterion):
    n_variables = len(n_bins)
    found = max_identifiable_rank(n_variables, n_bins, criterion)
    assert found == brute_force(n_bins, criterion)
    partition = best_partition(n_variables, n_bins, criterion)
    assert max_identifiable_rank(n_variables, n_bins, criterion, partition) == found
    assert sorted(sum(partition, ())) == list(range(n_variables))
    # Equal bins are one number, and a way of their own.
    assert max_identifiable_rank(n_variables, n_bins[0], criterion) == brute_force(n_bins[:1] * n_variables, criterion)
    assert best_partition(n_variables, n_bins[0]) == default_partition(n_variables)


@given(st.permutations([3, 4, 4, 7, 9, 2]), st.sampled_from(CRITERIA))
def test_order_of_variables_does_not_matter(n_bins, criterion):
    assert max_identifiable_rank(6, n_bins, criterion) == max_identifiable_rank(6, sorted(n_bins), criterion)


@pytest.mark.parametrize(
    ("n_variables", "n_bins", "criterion", "expected"),
    [
        (7, 4, "gevd", 10),
        (7, 4, "paper-gevd", 8),
        (10, 15, "gevd", 57),
        (10, 15, "paper-gevd", 45),
        (10, 15, "paper-generic", 132),
        (10, 15, "generic", 256),
        (10, 15, "kruskal", 70),
        (3, 5, "gevd", 5),
        (3, 2, "gevd", 2),
        (3, 2, "kruskal", 2),
        (3, 2, "generic", 1),
        (3, 4, "generic", 4),
        (3, 5, "paper-gevd", 0),
    ],
)
def test_known_values(n_variables, n_bins, criterion, expected):
    assert max_identifiable_rank(n_variables, n_bins, criterion) == expected
    assert max_identifiable_rank(n_variables, n_bins, criterion.title()) == expected  # as names are written


@pytest.mark.parametrize(
    ("n_bins", "expected"),
    [
        ([2] * 8 + [3] * 2, 32),  # groups of 2, 32 and 36 states
        ([2] * 6 + [3] * 6, 144),  # 2, 144 and 162
        ([2, 2, 2, 3, 7, 3, 7, 2, 2, 2], 112),  # 2, 112 and 126
        ([2] * 1001, 2**500),  # 2, 2^500 and 2^500
        ([2, 3] + [7] * 999, 3 * 7**499),  # 2, 3 7^499 and 7^500
    ],
    ids=["eight-two", "six-six", "ten", "equal", "odd"],
)
def test_best_grouping_of_many_variables(n_bins, expected):
    assert max_identifiable_rank(len(n_bins), n_bins, "joint") == expected


@settings(deadline=None, max_examples=40)
@given(st.lists(st.sampled_from([2, 3, 4, 5, 11, 50]), min_size=3, max_size=7))
def test_best_of_all_groupings(n_bins):
    groupings = {
        tuple(prod(size for size, label in zip(n_bins, labels, strict=True) if label == s) for s in range(3))
        for labels in product(range(3), repeat=len(n_bins))
        if len(set(labels)) == 3
    }
    found = max_identifiable_rank(len(n_bins), n_bins, "joint")
    # Kruskal's condition holds at the rank for some grouping, and at the next one for none.
    for rank, holds in ((found, True), (found + 1, False)):
        assert any(2 * rank + 2 <= sum(min(states, rank) for states in group) for group in groupings) == holds
    partition = best_partition(len(n_bins), n_bins, "joint")
    assert max_identifiable_rank(len(n_bins), n_bins, "joint", partition) == found
    assert sorted(sum(partition, ())) == list(range(len(n_bins)))


def test_given_partition():
    partition = Partition((0,), (1,), (2, 3, 4))
    assert max_identifiable_rank(5, [3, 4, 5, 6, 7], "gevd", partition) == 3
    assert max_identifiable_rank(5, [3, 4, 5, 6, 7], "kruskal", [[0], [1], [2, 3, 4]]) == 5
    # The paper's figures at the paper's own partition.
    for n_variables in (5, 7, 10):
        printed = max_identifiable_rank(n_variables, 6, "paper-gevd")
        assert max_identifiable_rank(n_variables, 6, "paper-gevd", paper_partition(n_variables)) == printed
    thirds = Partition((0, 1), (2, 3), (4, 5))
    assert max_identifiable_rank(6, 5, "paper-generic", thirds) == max_identifiable_rank(6, 5, "paper-generic")


@pytest.mark.parametrize("criterion", [*CORRECTED, "joint"])
def test_constants_change_nothing(criterion):
    rank = max_identifiable_rank(4, [4, 8, 5, 9], criterion)
    assert max_identifiable_rank(6, [4, 1, 8, 5, 1, 9], criterion) == rank > 1
    partition = best_partition(6, [4, 1, 8, 5, 1, 9], criterion)
    assert max_identifiable_rank(6, [4, 1, 8, 5, 1, 9], criterion, partition) == rank
    assert max_identifiable_rank(4, [8, 1, 1, 8], criterion) == 1
    assert max_identifiable_rank(3, [8, 1, 8], criterion, [[0], [1], [2]]) == 1


def test_large_unequal_bins_use_their_bins_in_full():
    n_bins = np.random.default_rng(0).integers(2, 60, 400).tolist()
    total = sum(n_bins) - len(n_bins)
    assert max_identifiable_rank(400, n_bins, "gevd") == (total - 1) // 2 + 1
    assert max_identifiable_rank(400, n_bins, "kruskal") == (total + 1) // 2
    sizes = sorted(best_partition(400, n_bins, "generic").effective_sizes(n_bins))
    assert max_identifiable_rank(400, n_bins, "generic") >= 2 ** (2 * int(np.log2(total // 3)) - 2)
    assert sizes[2] >= sizes[1]
    assert min(max_identifiable_rank(1000, 15, criterion) for criterion in CRITERIA) > 4000


@settings(deadline=None, max_examples=50)
@given(st.integers(5, 12), st.integers(1, 200), st.sampled_from(CRITERIA))
def test_fewest_bins(n_variables, rank, criterion):
    bins = min_bins_for_rank(n_variables, rank, criterion)
    assert max_identifiable_rank(n_variables, bins, criterion) >= rank
    assert bins == 2 or max_identifiable_rank(n_variables, bins - 1, criterion) < rank


@pytest.mark.parametrize(
    ("function", "arguments", "error", "message"),
    [
        (max_identifiable_rank, (3, [4, 5]), InvalidInputError, "2 entries for 3"),
        (max_identifiable_rank, (3, 4.0), InvalidTypeError, "n_bins is 4.0"),
        (max_identifiable_rank, (3, [4, 4, 4.5]), InvalidTypeError, "n_bins is 4.5"),
        (max_identifiable_rank, (3, 4, "leurgans"), InvalidInputError, "criterion"),
        (max_identifiable_rank, (3, 4, "gevd", [[0], [1], [3]]), InvalidInputError, "names variable 3"),
        (best_partition, (6, 4, "paper-gevd"), InvalidInputError, "expected one of"),
        (min_bins_for_rank, (5, 0), InvalidInputError, "rank is 0"),
        (min_bins_for_rank, (4, 2, "paper-gevd"), InvalidInputError, "however many"),
    ],
)
def test_bad_requests(function, arguments, error, message):
    with pytest.raises(error, match=message):
        function(*arguments)
