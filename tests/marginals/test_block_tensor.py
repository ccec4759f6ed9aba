"""Histograms of triples arranged as one third-order tensor."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rooms import random_model

from tensorly_smp.codes.encoding import Codes
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.marginals.block_tensor import (
    Partition,
    as_partition,
    block_tensor,
    default_partition,
    paper_partition,
)
from tensorly_smp.marginals.histograms import count_marginals


@given(st.integers(3, 40))
def test_default_partition_covers_all_variables_in_balance_and_the_papers_is_the_one_printed(n_variables):
    partition = default_partition(n_variables)
    assert sorted(sum(partition, ())) == list(range(n_variables))
    assert partition.third == (n_variables - 1,)
    assert 0 <= len(partition.second) - len(partition.first) <= 1
    if n_variables < 5:
        with pytest.raises(InvalidInputError, match="empty first set"):
            paper_partition(n_variables)
    else:  # one-based: {1..h-1}, {h..N-1}, {N} with h = floor((N - 1) / 2)
        h = (n_variables - 1) // 2
        printed = (range(1, h), range(h, n_variables), [n_variables])
        assert paper_partition(n_variables).sets == tuple(tuple(n - 1 for n in group) for group in printed)


def test_any_three_collections_are_taken_and_need_not_cover():
    assert as_partition([[4], {1}, (0, 2)], 6) == Partition((4,), (1,), (0, 2))
    assert as_partition(Partition((0,), (1,), (2,)), 3) == Partition((0,), (1,), (2,))
    partition = Partition((0, 2), (1,), (3,))
    assert partition.stacked_sizes([3, 4, 5, 2]) == (8, 4, 2)
    assert partition.effective_sizes([3, 4, 5, 2]) == (7, 4, 2)


@pytest.mark.parametrize(
    ("partition", "error", "message"),
    [
        ([[0], [1]], InvalidTypeError, "three sets"),
        ("abc", InvalidTypeError, "three sets"),
        ([[0], [1], []], InvalidInputError, "third set of the partition is empty"),
        ([[0], [1], [1]], InvalidInputError, r"Variables \[1\] occur more than once"),
        ([[0, 0], [1], [2]], InvalidInputError, "more than once"),
        ([[0], [1], [9]], InvalidInputError, "names variable 9"),
        ([[0], [1], [2.0]], InvalidTypeError, "index of the third set is 2.0; expected an integer"),
        ([[0], [1], 2], InvalidTypeError, "third set is 2; expected variable indices"),
    ],
)
def test_bad_partitions_are_named(partition, error, message):
    with pytest.raises(error, match=message):
        as_partition(partition, 5)


def khatri_rao(a, b):
    """Column r is the Kronecker product of the columns r, row by row."""
    return np.array([np.kron(x, y) for x, y in zip(a.T, b.T, strict=True)]).T


@st.composite
def sizes_and_partition(draw):
    """Unequal bins and three sets in any order, which may leave variables out."""
    n_bins = draw(st.lists(st.integers(2, 4), min_size=3, max_size=6))
    order = draw(st.permutations(range(len(n_bins))))
    used = draw(st.integers(3, len(n_bins)))
    first = draw(st.integers(1, used - 2))
    second = draw(st.integers(first + 1, used - 1))
    return n_bins, (order[:first], order[first:second], order[second:used])


@given(sizes_and_partition())
def test_unfolding_is_the_khatri_rao_expression_of_the_paper(case):
    n_bins, sets = case
    truth = random_model(n_bins, 3)
    found = block_tensor(truth.to_marginals(), sets)
    first, second, third = (np.concatenate([truth.factors[n] for n in group]) for group in sets)
    assert found.shape == (len(first), len(second), len(third))
    unfolding = (first * truth.weights) @ khatri_rao(second, third).T
    np.testing.assert_allclose(found.values.reshape(len(first), -1), unfolding, atol=1e-15)


def test_only_the_triples_of_the_partition_are_needed_and_missing_blocks_are_named():
    truth, sets = random_model([3, 2, 4, 2, 3], 3), ((4, 0), (2,), (1, 3))
    some = truth.to_marginals([sorted(block) for block in product(*sets)])
    np.testing.assert_array_equal(block_tensor(some, sets), block_tensor(truth.to_marginals(), sets))
    some = random_model([2] * 5, 3, names=list("abcde")).to_marginals([(0, 1, 2), (0, 3, 4)])
    with pytest.raises(InvalidInputError, match=r"1 of 2 blocks.*\[\('b', 'a', 'd'\)\]. Count all triples, or"):
        block_tensor(some, ([1], [0], [3, 2]))
    with pytest.raises(InvalidInputError, match=r"6 of 6 blocks .*\.\.\.\. Count"):
        block_tensor(random_model([2] * 6, 3).to_marginals([(0, 1, 2), (3, 4, 5)]), ([3, 4], [0, 1, 2], [5]))
    assert block_tensor(some, ([2], [0], [1])).shape == (2, 2, 2)


def test_modes_are_labelled_by_variable_and_bin():
    marginals = random_model([3, 2, 4, 2], 3, names=["mass", "length", "depth", "age"]).to_marginals()
    found = block_tensor(marginals, ((3, 1), (0,), (2,)))
    assert found.dims == ("first", "second", "third")
    assert found.indexes["first"].tolist() == [("age", 0), ("age", 1), ("length", 0), ("length", 1)]
    assert found.indexes["third"].names == ["third_variable", "third_bin"]
    one = found.sel(first_variable="age", first_bin=1, second_variable="mass", third_variable="depth")
    np.testing.assert_array_equal(one, marginals.histogram(2)[:, :, 1])  # (mass, depth, age)
    assert found.sum() == pytest.approx(2)  # every block sums to one
    found[:] = 0
    assert marginals.counts[0].any()


@pytest.mark.parametrize("names", [(10, 20, 30), ("a", 1, 2.5), (("a", 1), ("a", 2), ("b", 1)), (0, "0", "")])
def test_names_of_any_kind(names):
    marginals = random_model([2, 3, 4], 3, names=names).to_marginals()
    found = block_tensor(marginals)
    groups = zip(("first", "second", "third"), default_partition(3), strict=True)
    for dim, group in groups:
        assert [variable for variable, _ in found.indexes[dim]] == [
            names[n] for n in group for _ in range(marginals.n_bins[n])
        ]
    np.testing.assert_array_equal(found, marginals.histogram(0))


def test_block_without_samples_is_named():
    # The third and the fourth variable are never observed together.
    values = np.array([[0, 1, 1, -1], [1, 0, 0, -1], [0, 0, -1, 1], [1, 1, -1, 0]])
    codes = Codes.from_array(values, n_bins=2)
    with pytest.warns(UserWarning, match="no complete sample"):
        marginals = count_marginals(codes)
    with pytest.raises(InvalidInputError, match=r"1 of 2 blocks.*no sample.*\('x0', 'x2', 'x3'\)"):
        block_tensor(marginals, ([0], [1, 2], [3]))
    assert np.isfinite(block_tensor(marginals, ([0], [1], [2, 3]))).all()


@pytest.mark.parametrize(
    ("marginals", "partition", "error", "message"),
    [
        (None, None, InvalidTypeError, "data is NoneType"),
        (np.ones((2, 2)), None, InvalidInputError, "expected three non-empty modes"),
        (random_model([2] * 3, 3), None, InvalidTypeError, "data is MixtureFactors"),
        (random_model([2] * 4, 3).to_marginals(), Partition((0,), (1,), (7,)), InvalidInputError, "names variable 7"),
    ],
)
def test_hostile_input(marginals, partition, error, message):
    with pytest.raises(error, match=message):
        block_tensor(marginals, partition)
