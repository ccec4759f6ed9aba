import pickle
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.identifiability.ranks import KruskalRank, coherence_bound, kruskal_rank

small_integers = hnp.arrays(np.int64, st.tuples(st.integers(1, 5), st.integers(1, 6)), elements=st.integers(-2, 2))


def brute_force(matrix):
    n_columns = matrix.shape[1]
    for size in range(1, n_columns + 1):
        for subset in combinations(range(n_columns), size):
            if np.linalg.matrix_rank(matrix[:, subset], tol=1e-9) < size:
                return size - 1
    return n_columns


@settings(deadline=None, max_examples=50)
@given(small_integers, st.randoms(use_true_random=False), st.integers(0, 12))
def test_agrees_with_brute_force_in_any_order_and_scale(matrix, random, budget):
    found, exact = kruskal_rank(matrix), brute_force(matrix)
    assert (found, found.is_exact) == (exact, True)
    rows, columns = list(range(matrix.shape[0])), list(range(matrix.shape[1]))
    random.shuffle(rows)
    random.shuffle(columns)
    scales = np.array([random.uniform(0.1, 10) for _ in columns])
    assert kruskal_rank(matrix[rows][:, columns] * scales) == exact
    # A small budget gives a lower bound.
    limited = kruskal_rank(matrix, max_combinations=budget)
    assert limited <= exact
    assert not limited.is_exact or limited == exact


@pytest.mark.parametrize(
    ("matrix", "expected"),
    [
        (np.eye(4), 4),
        (np.ones((3, 1)), 1),
        (np.zeros((3, 2)), 0),
        ([[1, 2, 0], [0, 0, 1]], 1),
        ([[1, 0, 1, 1], [0, 1, 1, 2]], 2),
        ([[1e-200, 0], [0, 1e-200]], 2),
        ([[1e200, 0], [0, 1e200]], 2),
    ],
)
def test_known_values(matrix, expected):
    assert kruskal_rank(matrix) == expected


def test_generic_matrix_beyond_the_budget_has_an_int_that_pickles_with_its_flag():
    found = kruskal_rank(np.random.default_rng(0).standard_normal((15, 40)), max_combinations=1000)
    assert 2 <= found <= 15
    assert not found.is_exact
    assert repr(found) == f"at least {int(found)}"
    copy = pickle.loads(pickle.dumps(KruskalRank(3, is_exact=False)))
    assert (copy, copy.is_exact, 2 * copy + 1) == (3, False, 7)


def test_coherence_alone_certifies_nearly_orthogonal_columns():
    rng = np.random.default_rng(0)
    matrix = np.eye(300)[:, :40] + 1e-3 * rng.standard_normal((300, 40))
    assert coherence_bound(matrix / np.linalg.norm(matrix, axis=0)) == 40
    # 41 columns in 300 dimensions, two of them equal: the bound must see it.
    twice = np.hstack([matrix, matrix[:, :1]])
    assert coherence_bound(twice / np.linalg.norm(twice, axis=0)) == 1


def test_tolerance_is_on_unit_columns():
    matrix = np.array([[1.0, 1.0], [0.0, 1e-4]])
    assert kruskal_rank(matrix) == 2
    assert kruskal_rank(matrix, tol=1e-3) == 1
    assert kruskal_rank(np.array([[1.0, 1.0], [0.0, 1e-6]], dtype=np.float32)) == 1


@pytest.mark.parametrize(
    ("matrix", "error", "message"),
    [
        ([1.0, 2.0], InvalidInputError, "."),
        ([[]], InvalidInputError, "."),
        ([[np.nan]], InvalidInputError, "."),
        ([["a"]], InvalidTypeError, "real numbers"),
        ([[1.0], [1.0, 2.0]], InvalidTypeError, "cannot be read"),
        (np.ma.array(np.eye(2), mask=np.eye(2)), InvalidInputError, "masked"),
    ],
)
def test_bad_matrices(matrix, error, message):
    with pytest.raises(error, match=message):
        kruskal_rank(matrix)
    assert kruskal_rank(np.ma.array(np.eye(2), mask=np.zeros((2, 2)))) == 2  # a mask that hides nothing
