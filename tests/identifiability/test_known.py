"""What is known of the distribution: triples, whole samples, patterns of missing entries."""

from itertools import combinations
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import margins_of, plain_jacobian
from rooms import random_model

from tensorly_smp.identifiability.bounds import KnownMarginals
from tensorly_smp.samples.values import maximal_patterns, observed_patterns

of_triples = KnownMarginals.of_triples
of_samples = KnownMarginals.of_samples


@st.composite
def patterns(draw, n_variables=4):
    rows = st.lists(st.booleans(), min_size=n_variables, max_size=n_variables)
    observed = np.array(draw(st.lists(rows, min_size=1, max_size=6)))
    observed[0] |= ~observed.any(axis=0)
    return observed


@given(patterns())
def test_maximal_patterns_hold_all_others_and_none_another(observed):
    kept = maximal_patterns(observed)
    assert all((kept[:, pattern].all(axis=1)).any() for pattern in observed)
    assert not any((a & ~b).sum() == 0 for a, b in combinations(kept, 2))
    assert not any((b & ~a).sum() == 0 for a, b in combinations(kept, 2))
    np.testing.assert_array_equal(maximal_patterns(kept), kept)


@given(patterns(), st.lists(st.integers(2, 3), min_size=4, max_size=4), st.booleans())
def test_independent_cells_are_the_rank_of_many_components(observed, n_bins, are_triples):
    # So many components that their histograms can move in every direction in which histograms can move at all.
    model = random_model(n_bins, prod(n_bins))
    triples = [triple for triple in combinations(range(4), 3) if observed[0, list(triple)].any()]
    known = of_triples(4, np.array(triples)) if are_triples else of_samples(4, observed)
    reached = np.linalg.matrix_rank(plain_jacobian(model.weights, model.factors, margins_of(known)), tol=1e-10)
    assert known.n_independent_cells(n_bins) == reached
    listed = KnownMarginals("triples", 4, np.array(list(combinations(range(4), 3))))
    assert of_triples(4).n_independent_cells(n_bins) == listed.n_independent_cells(n_bins)


def test_many_patterns_give_an_upper_bound():
    observed = np.array([[n in some for n in range(7)] for some in combinations(range(7), 3)])
    known = of_samples(7, observed)
    assert known.n_independent_cells([2] * 7) == min(35 * 7, 2**7 - 1)
    assert known.n_independent_cells([2] * 7) >= of_triples(7).n_independent_cells([2] * 7)


@pytest.mark.parametrize(
    ("known", "words"),
    [
        (of_triples(3), "the triple known"),
        (of_triples(5), "all 10 triples known"),
        (of_triples(5, np.array([[0, 1, 2], [2, 3, 4]])), "2 of 10 triples known"),
        (of_samples(5), "whole samples known"),
        (of_samples(3, np.array([[True] * 3, [False, True, True]])), "whole samples known"),
        (of_samples(4, np.array([[1, 1, 1, 0], [0, 1, 1, 1]])), "samples known in 2 patterns of 3 variables"),
        (of_samples(4, np.array([[1, 1, 1, 0], [0, 0, 1, 1]])), "samples known in 2 patterns of 2 to 3 variables"),
    ],
)
def test_words(known, words):
    assert known.describe() == words


def test_triples_inside_patterns():
    known = of_samples(5, np.array([[1, 1, 1, 1, 0], [0, 0, 1, 1, 1]]))
    assert known.triples.tolist() == [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3], [2, 3, 4]]
    assert of_samples(5).triples is None
    assert of_samples(5).n_triples == 10
    many = np.ones((2, 200), dtype=bool)
    many[0, 0] = many[1, 1] = False
    assert 20_000 <= of_samples(200, many).n_triples <= 20_010


def test_patterns_of_samples():
    observed = np.array([[True, True, False], [True, False, True], [True, False, False]])
    assert observed_patterns(observed).astype(int).tolist() == [[1, 0, 1], [1, 1, 0]]
    assert observed_patterns(np.vstack([observed, np.ones(3, bool)])) is None
    assert observed_patterns(np.array([[True, True, False]])) is None
    # No more than asked for, but every variable is in one.
    some = np.array(
        [[True, True, True, False, False], [True, True, False, False, True], [True, False, False, True, False]]
    )
    assert observed_patterns(some, most=1).any(axis=0).all()
