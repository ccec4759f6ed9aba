"""Which triples are counted: all, an even random choice, or a list."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.marginals.triples import all_triples, resolve_triples, sample_triples


def use_counts(triples, n_variables):
    return np.bincount(triples.ravel(), minlength=n_variables)


@pytest.mark.parametrize("n_variables", [3, 4, 7])
def test_all_triples_are_the_combinations(n_variables):
    triples = all_triples(n_variables)
    assert triples.tolist() == [list(t) for t in combinations(range(n_variables), 3)]
    assert triples.dtype == np.intp


@given(st.integers(3, 12), st.data())
def test_random_triples_are_distinct_ordered_and_even(n_variables, data):
    n_triples = data.draw(st.integers(0, comb(n_variables, 3)))
    triples = sample_triples(n_variables, n_triples, data.draw(st.integers(0, 5)))
    assert triples.shape == (n_triples, 3)
    assert (np.diff(triples, axis=1) > 0).all()
    assert len({tuple(t) for t in triples.tolist()}) == n_triples
    assert triples.tolist() == sorted(triples.tolist())
    # One apart, but where almost no triple is left to choose from: two.
    assert np.ptp(use_counts(triples, n_variables)) <= 2


@pytest.mark.parametrize(("n_variables", "n_triples"), [(10, 24), (24, 100), (24, 1012), (60, 20), (60, 1000)])
def test_use_counts_differ_by_one_at_most(n_variables, n_triples):
    for seed in range(3):
        assert np.ptp(use_counts(sample_triples(n_variables, n_triples, seed), n_variables)) <= 1


@given(st.integers(3, 30), st.integers(0, 5))
def test_as_few_triples_as_can_cover_do_cover(n_variables, seed):
    fewest = -(-n_variables // 3)
    assert (use_counts(resolve_triples(fewest, n_variables, seed), n_variables) > 0).all()


def test_seed_decides():
    first, again, other = (sample_triples(20, 50, seed).tolist() for seed in (1, 1, 2))
    assert first == again != other


def test_many_variables_are_used_evenly():
    assert set(use_counts(sample_triples(1000, 2000, 0), 1000)) == {6}


def test_list_is_sorted_within_triples_and_keeps_its_order():
    assert resolve_triples([(3, 0, 1), (2, 1, 0)], 4).tolist() == [[0, 1, 3], [0, 1, 2]]
    assert resolve_triples(iter([(0, 1, 2)]), 3).tolist() == [[0, 1, 2]]
    assert resolve_triples(np.array([[2, 1, 0]], dtype=np.uint8), 3).tolist() == [[0, 1, 2]]


@pytest.mark.parametrize(
    ("triples", "error", "message"),
    [
        ("every", InvalidInputError, '"all"'),
        (2.0, InvalidTypeError, "an integer or a list"),
        (True, InvalidTypeError, "an integer or a list"),
        (None, InvalidTypeError, "list of three"),
        (1, InvalidInputError, "expected 2"),
        (0, InvalidInputError, "expected 2"),
        (-3, InvalidInputError, "expected 2"),
        (11, InvalidInputError, r"to 10 \(all\)"),
        ([], InvalidInputError, "at least one triple"),
        ([(0, 1)], InvalidInputError, r"expected \(n_triples, 3\)"),
        ([(0, 1, 2), (0, 1)], InvalidTypeError, "list of three"),
        ([(0, 1, 2.5)], InvalidTypeError, "integer variable indices"),
        ([(0, 1, "x2")], InvalidTypeError, "integer variable indices"),
        ([(0, 1, 5)], InvalidInputError, "expected 0 to 4"),
        ([(0, 1, -1)], InvalidInputError, "expected 0 to 4"),
        ([(0, 1, 1)], InvalidInputError, r"\(0, 1, 1\) names a variable twice"),
        ([(0, 1, 2), (2, 1, 0), (0, 3, 4)], InvalidInputError, "given twice"),
        ([(0, 1, 2)], InvalidInputError, r"Variables \[3, 4\] are in no triple"),
    ],
)
def test_bad_triples_are_named(triples, error, message):
    with pytest.raises(error, match=message):
        resolve_triples(triples, 5)


@pytest.mark.parametrize("n_variables", [0, 1, 2])
def test_too_few_variables(n_variables):
    with pytest.raises(InvalidInputError, match="at least three"):
        resolve_triples("all", n_variables)
