import sys

import pytest

from tensorly_smp._support.parts import FAN_IN, OnePart, Parts, require_dask
from tensorly_smp.exceptions import MissingDependencyError

dask = pytest.importorskip("dask")


def numbers(n):
    return Parts.of([dask.delayed(i) for i in range(n)])


def joined(strings):
    return "(" + " ".join(map(str, strings)) + ")"


@pytest.mark.parametrize("n", [1, 2, FAN_IN, FAN_IN + 1, FAN_IN**2 + 3])
def test_reduction_merges_all_pieces_in_their_order(n):
    merged = numbers(n).reduce(joined)
    assert [int(word) for word in merged.replace("(", "").replace(")", "").split()] == list(range(n))
    # A tree: no merge has more than FAN_IN pieces.
    assert max(group.count(" ") for group in merged.replace(")", "(").split("(")) < FAN_IN


def test_functions_get_the_piece_then_its_own_argument_then_the_shared_ones():
    parts = numbers(3)
    assert parts.map(joined_arguments, "a", [1]).gather() == [(0, "a", [1]), (1, "a", [1]), (2, "a", [1])]
    assert parts.map(joined_arguments, "a", each=[7, 8, 9]).gather() == [(0, 7, "a"), (1, 8, "a"), (2, 9, "a")]


def joined_arguments(*arguments):
    return arguments


def add_one(number):
    return number + 1


def test_arguments_are_passed_as_they_are():
    """Dask would run a tuple that begins with a function, and takes strings for names of tasks."""
    parts = numbers(2)
    strange = (len, "abc")
    assert parts.map(joined_arguments, strange, parts.keys[0]).gather()[1] == (1, strange, parts.keys[0])


def test_kept_pieces_are_not_computed_again():
    calls = []

    def counted(number):
        calls.append(number)
        return number

    kept = numbers(3).map(counted).persist()
    assert sorted(calls) == [0, 1, 2]
    assert kept.map(add_one).gather() == [1, 2, 3]
    assert kept.reduce(sum) == 3
    assert len(calls) == 3


def test_a_part_in_memory_is_mapped_and_merged_like_one_of_many():
    first = numbers(1)
    for parts in (OnePart(0), first):
        kept = parts.map(joined_arguments, "a", [1]).group([[0]], tuple).persist()
        assert kept.gather() == [(0, "a", [1])]
        assert kept.reduce(joined) == "((0, 'a', [1]))"


def test_groups_are_put_together():
    parts = numbers(5)
    assert parts.group([[0], [1, 2, 3], [4]], tuple).gather() == [(0,), (1, 2, 3), (4,)]
    assert parts.group([[i] for i in range(5)], tuple) is parts


def test_pieces_made_where_they_are_used_are_in_no_task_of_their_own():
    made = Parts.of([[[dask.delayed(i)], i] for i in range(3)], joined_arguments)
    found = made.map(joined_arguments, (len, "abc"), each=[7, 8, 9])
    assert found.gather() == [(([i], i), 7 + i, (len, "abc")) for i in range(3)]
    # One for each input, one for each piece, and the arguments.
    assert len(found.graph.to_dict()) == 3 + 3 + 1


def test_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(MissingDependencyError, match=r"tensorly_smp\[dask\]"):
        require_dask()
