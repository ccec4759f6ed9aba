from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import margins_of, plain_free_directions
from rooms import models_of_all_kinds, random_model

from tensorly_smp import check_identifiability
from tensorly_smp.identifiability import jacobian
from tensorly_smp.identifiability.bounds import KnownMarginals
from tensorly_smp.identifiability.jacobian import ScaledJacobian, local_identifiability, orthogonal_basis

of_triples = KnownMarginals.of_triples
of_samples = KnownMarginals.of_samples


def random_parameters(n_bins, rank, seed=0):
    model = random_model(n_bins, rank, seed)
    return model.weights, list(model.factors)


sizes = st.lists(st.integers(1, 4), min_size=3, max_size=5)


@st.composite
def problems(draw):
    """Models with every kind of degeneracy, and what is known of their distributions."""
    model = draw(models_of_all_kinds(sizes, 4))
    n_variables = model.n_variables
    known = draw(st.sampled_from([of_triples(n_variables), of_samples(n_variables), "some triples", "patterns"]))
    if known == "some triples":
        every = list(combinations(range(n_variables), 3))
        known = of_triples(n_variables, np.array(draw(st.lists(st.sampled_from(every), min_size=1, unique=True))))
    elif known == "patterns":
        rows = st.lists(st.booleans(), min_size=n_variables, max_size=n_variables)
        observed = np.array(draw(st.lists(rows, min_size=1, max_size=4)))
        observed[0] |= ~observed.any(axis=0)
        known = of_samples(n_variables, observed)
    return model.weights, model.factors, known


@settings(deadline=None, max_examples=60)
@given(problems())
def test_free_directions_are_those_of_the_plain_jacobian(problem):
    weights, factors, known = problem
    found = local_identifiability(weights, factors, known=known)
    assert found.n_free_directions == plain_free_directions(weights, factors, margins_of(known))
    # Nowhere near the threshold, so that no other order of summation decides otherwise.
    zeros = found.singular_values[found.singular_values <= found.tolerance]
    assert zeros.max(initial=0.0) < 0.1 * found.tolerance
    scaled = ScaledJacobian(*problem)
    if scaled.n_parameters:
        change = scaled.change(np.eye(scaled.n_parameters))
        np.testing.assert_allclose(change.T @ change, scaled.gram(), atol=1e-12)


def test_triples_one_by_one_or_all_at_once(monkeypatch):
    weights, factors = random_parameters([3, 2, 4, 2, 3], 3)
    scaled = ScaledJacobian(weights, factors, of_triples(5))
    directions = np.random.default_rng(0).normal(size=(scaled.n_parameters, 4))
    listed = scaled.change(directions)
    monkeypatch.setattr(jacobian, "_LISTED_TRIPLES", 0)
    at_once = scaled.change(directions)
    np.testing.assert_allclose(at_once.T @ at_once, listed.T @ listed, atol=1e-12)


@pytest.mark.parametrize(
    ("known", "n_variables", "n_bins", "rank", "n_free", "n_parameters"),
    [
        *((of_triples, 3, 3, 3, 0, 20), (of_triples, 3, 3, 4, 2, 27), (of_triples, 4, 3, 8, 7, 71)),
        *((of_triples, 5, 2, 5, 4, 29), (of_triples, 5, 3, 9, 0, 98), (of_triples, 3, 2, 3, 4, 11)),
        *((of_samples, 3, 2, 2, 0, 7), (of_samples, 4, 2, 3, 1, 14), (of_samples, 5, 2, 5, 0, 29)),
        *((of_samples, 9, 2, 14, 0, 139), (of_samples, 3, 2, 3, 4, 11)),
    ],
)
def test_known_ranks(known, n_variables, n_bins, rank, n_free, n_parameters):
    found = local_identifiability(*random_parameters([n_bins] * n_variables, rank), known(n_variables))
    assert (found.n_free_directions, found.n_parameters) == (n_free, n_parameters)
    assert found.rank == n_parameters - n_free


@settings(deadline=None, max_examples=30)
@given(sizes, st.integers(1, 4), st.integers(0, 100), st.sampled_from([of_triples, of_samples]))
def test_order_of_components_bins_and_variables_does_not_matter(n_bins, rank, seed, known):
    weights, factors = random_parameters(n_bins, rank, seed)
    rng = np.random.default_rng(seed)
    components = rng.permutation(rank)
    shuffled = [factor[rng.permutation(len(factor))][:, components] for factor in factors]
    shuffled = [shuffled[n] for n in rng.permutation(len(n_bins))]
    known = known(len(n_bins))
    before = local_identifiability(weights, factors, known=known)
    after = local_identifiability(weights[components], shuffled, known=known)
    np.testing.assert_allclose(after.singular_values, before.singular_values, atol=1e-10)
    assert after.rank == before.rank


@pytest.mark.parametrize("known", [of_triples(7), of_samples(7)])
def test_small_eigenvalues_are_looked_at_again(known):
    weights, factors = random_parameters([8] * 7, 5)
    for n in range(2, 7):
        factors[n][:, 1] = factors[n][:, 0]
    found = local_identifiability(weights, factors, known=known)
    assert (found.n_free_directions, found.is_decided) == (2, True)
    assert found.singular_values[-2] < 1e-2 * found.tolerance
    # Not quite equal in a third variable: nothing is free, which a Gram matrix cannot tell.
    factors[2][:, 1] = 0.99999 * factors[2][:, 0] + 0.00001 * factors[2][:, 1][::-1]
    found = local_identifiability(weights, factors, known=known)
    assert found.n_free_directions == 0
    assert found.singular_values[-1] > 100 * found.tolerance


def test_too_many_small_eigenvalues_stay_open(monkeypatch):
    monkeypatch.setattr(jacobian, "_AGAIN_OPERATIONS", 0)
    weights, factors = random_parameters([4] * 4, 3)
    for factor in factors:
        factor[:, 1] = factor[:, 0]
    found = local_identifiability(weights, factors, of_triples(4))
    assert not found.is_decided
    assert found.n_free_directions == 13


def test_more_than_a_hundred_variables():
    weights, factors = random_parameters([2] * 101, 3)
    known = of_samples(101)
    assert local_identifiability(weights, factors, known=known).n_free_directions == 0
    for factor in factors[:-2]:
        factor[:, 1] = factor[:, 0]
    assert local_identifiability(weights, factors, known=known).n_free_directions == 2


def test_variables_of_one_bin_tell_nothing():
    for seed in range(5):  # the differences of equal numbers are rounding errors, whatever is largest among them
        found = local_identifiability(*random_parameters([1] * 4, 3, seed), of_triples(4))
        assert found.n_free_directions == found.n_parameters == 2
    none = local_identifiability(*random_parameters([1] * 3, 1), of_triples(3))
    assert none.n_parameters == none.rank == none.n_free_directions == 0


def test_equal_components_empty_ones_and_unseen_variables_are_free():
    weights, factors = random_parameters([4] * 4, 3)
    assert local_identifiability(weights, factors, of_triples(4)).n_free_directions == 0
    empty = local_identifiability(np.array([0.5, 0.5, 0.0]), factors, of_triples(4))
    assert empty.n_free_directions == 4 * 3
    unseen = local_identifiability(weights, factors, of_triples(4, np.array([(0, 1, 2)])))
    assert unseen.n_free_directions == 3 * 3
    for factor in factors:
        factor[:, 1] = factor[:, 0]
    # Two equal components share their weight at will, and may part in opposite directions.
    assert local_identifiability(weights, factors, of_triples(4)).n_free_directions >= 1 + 4 * 3


@pytest.mark.parametrize("known", [of_triples(10), of_samples(10)])
def test_affordable_at_the_papers_size(known):
    report = local_identifiability(*random_parameters([15] * 10, 10), known=known)
    assert (report.rank, report.n_parameters) == (1409, 1409)


def test_bases_are_orthonormal():
    for vector in ([1.0] * 5, [1.0, 2.0, -3.0], [0.0, 0.0, -1.0], [1e-300, 0.0, 1.0], [2.0]):
        basis = orthogonal_basis(np.array(vector))
        np.testing.assert_allclose(basis.T @ basis, np.eye(len(vector) - 1), atol=1e-15)
        np.testing.assert_allclose(vector @ basis, 0, atol=1e-14)


def test_too_many_parameters_are_left_out():
    report = check_identifiability(30, 30, 10, max_parameters=10**6)
    assert "left out: 8709 parameters are more than 8000." in report.notes[0]
    assert report.local is None
