import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.marginals.partition import Partition, as_partition, default_partition, paper_partition


@given(st.integers(3, 40))
def test_default_partition_covers_all_variables_in_balance(n_variables):
    partition = default_partition(n_variables)
    assert sorted(sum(partition, ())) == list(range(n_variables))
    assert partition.third == (n_variables - 1,)
    assert 0 <= len(partition.second) - len(partition.first) <= 1


@given(st.integers(5, 40))
def test_paper_partition_is_the_one_printed(n_variables):
    # One-based: {1..h-1}, {h..N-1}, {N} with h = floor((N - 1) / 2).
    h = (n_variables - 1) // 2
    printed = (range(1, h), range(h, n_variables), [n_variables])
    assert paper_partition(n_variables).sets == tuple(tuple(n - 1 for n in group) for group in printed)


@pytest.mark.parametrize("n_variables", [3, 4])
def test_paper_partition_needs_five_variables(n_variables):
    with pytest.raises(InvalidInputError, match="empty first set"):
        paper_partition(n_variables)


def test_sizes_of_unequal_variables():
    partition = Partition((0, 2), (1,), (3,))
    assert partition.stacked_sizes([3, 4, 5, 2]) == (8, 4, 2)
    assert partition.effective_sizes([3, 4, 5, 2]) == (7, 4, 2)


def test_any_three_collections_are_taken_and_need_not_cover():
    assert as_partition([[4], {1}, (0, 2)], 6) == Partition((4,), (1,), (0, 2))
    assert as_partition(Partition((0,), (1,), (2,)), 3) == Partition((0,), (1,), (2,))


@pytest.mark.parametrize(
    ("partition", "error", "message"),
    [
        ([[0], [1]], InvalidTypeError, "three sets"),
        (7, InvalidTypeError, "three sets"),
        ("abc", InvalidTypeError, "three sets"),
        ([[0], [1], []], InvalidInputError, "third set of the partition is empty"),
        ([[0], [1], [1]], InvalidInputError, r"Variables \[1\] occur more than once"),
        ([[0, 0], [1], [2]], InvalidInputError, "more than once"),
        ([[0], [1], [-1]], InvalidInputError, "index of the third set is -1; expected at least 0"),
        ([[0], [1], [9]], InvalidInputError, "names variable 9"),
        ([[0], [1], [2.0]], InvalidTypeError, "index of the third set is 2.0; expected an integer"),
        ([[0], [1], [True]], InvalidTypeError, "index of the third set is True; expected an integer"),
        ([[0], [1], 2], InvalidTypeError, "third set is 2; expected variable indices"),
    ],
)
def test_bad_partitions_are_named(partition, error, message):
    with pytest.raises(error, match=message):
        as_partition(partition, 5)


@pytest.mark.parametrize("make", [default_partition, paper_partition])
def test_too_few_variables(make):
    with pytest.raises(InvalidInputError, match="at least 3"):
        make(2)
    with pytest.raises(InvalidTypeError):
        make(3.0)
