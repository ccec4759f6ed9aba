from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorly_smp.exceptions import InvalidInputError, SizeLimitError
from tensorly_smp.identifiability.jacobian import (
    dense_jacobian,
    jacobian_gram,
    local_identifiability,
    zero_sum_basis,
)


def random_model(n_bins, rank, seed=0):
    rng = np.random.default_rng(seed)
    weights = 0.5 * rng.dirichlet(np.ones(rank)) + 0.5 / rank
    return weights, [rng.dirichlet(np.ones(size), size=rank).T for size in n_bins]


def all_cells(weights, factors, triples):
    return np.concatenate(
        [
            sum(
                weights[r] * np.multiply.outer(np.multiply.outer(factors[j][:, r], factors[k][:, r]), factors[l][:, r])
                for r in range(len(weights))
            ).ravel()
            for j, k, l in triples
        ]
    )


def jacobian_by_differences(weights, factors, triples):
    """Central differences: exact to rounding, since the map is linear in the weights and in every single column."""
    step = 1e-5
    columns = []

    def slope(change_weights, change_factors):
        ends = [
            all_cells(
                weights + sign * step * change_weights,
                [a + sign * step * b for a, b in zip(factors, change_factors, strict=True)],
                triples,
            )
            for sign in (1, -1)
        ]
        return (ends[0] - ends[1]) / (2 * step)

    still = [np.zeros_like(factor) for factor in factors]
    for direction in zero_sum_basis(len(weights)).T:
        columns.append(slope(direction, still))
    for n, factor in enumerate(factors):
        for direction in zero_sum_basis(len(factor)).T:
            for r in range(len(weights)):
                changes = [change.copy() for change in still]
                changes[n][:, r] = direction
                columns.append(slope(np.zeros_like(weights), changes))
    return np.stack(columns, axis=1) if columns else np.zeros((len(all_cells(weights, factors, triples)), 0))


sizes = st.lists(st.integers(1, 4), min_size=3, max_size=5)


@settings(deadline=None, max_examples=15)
@given(sizes, st.integers(1, 4), st.integers(0, 100), st.data())
def test_gram_and_dense_jacobian_agree_with_differences(n_bins, rank, seed, data):
    weights, factors = random_model(n_bins, rank, seed)
    every = list(combinations(range(len(n_bins)), 3))
    chosen = data.draw(st.none() | st.lists(st.sampled_from(every), min_size=1, unique=True))
    triples = None if chosen is None else np.array(chosen)
    expected = jacobian_by_differences(weights, factors, every if chosen is None else chosen)
    dense = dense_jacobian(weights, factors, triples)
    np.testing.assert_allclose(dense, expected, atol=1e-9)
    np.testing.assert_allclose(jacobian_gram(weights, factors, triples), dense.T @ dense, atol=1e-12)


@pytest.mark.parametrize("method", ["svd", "gram"])
@pytest.mark.parametrize(
    ("n_variables", "n_bins", "rank", "found", "n_parameters"),
    [(3, 3, 3, 20, 20), (3, 3, 4, 25, 27), (4, 3, 8, 64, 71), (5, 2, 5, 25, 29), (5, 3, 9, 98, 98), (3, 2, 3, 7, 11)],
)
def test_known_ranks(n_variables, n_bins, rank, found, n_parameters, method):
    report = local_identifiability(*random_model([n_bins] * n_variables, rank), method=method)
    assert (report.rank, report.n_parameters) == (found, n_parameters)
    assert report.n_free_directions == n_parameters - found


@settings(deadline=None, max_examples=30)
@given(sizes, st.integers(1, 4), st.integers(0, 100))
def test_order_of_components_bins_and_variables_does_not_matter(n_bins, rank, seed):
    weights, factors = random_model(n_bins, rank, seed)
    rng = np.random.default_rng(seed)
    components = rng.permutation(rank)
    shuffled = [factor[rng.permutation(len(factor))][:, components] for factor in factors]
    shuffled = [shuffled[n] for n in rng.permutation(len(n_bins))]
    before = local_identifiability(weights, factors)
    after = local_identifiability(weights[components], shuffled)
    np.testing.assert_allclose(after.singular_values, before.singular_values, atol=1e-12)
    assert after.rank == before.rank


@settings(deadline=None, max_examples=30)
@given(sizes, st.integers(1, 4), st.integers(0, 100))
def test_both_methods_agree(n_bins, rank, seed):
    model = random_model(n_bins, rank, seed)
    svd, gram = (local_identifiability(*model, method=method) for method in ("svd", "gram"))
    np.testing.assert_allclose(gram.singular_values, svd.singular_values, atol=1e-6)
    assert gram.rank == svd.rank


@pytest.mark.parametrize("method", ["svd", "gram"])
def test_variables_of_one_bin_tell_nothing(method):
    for seed in range(20):  # the differences of equal numbers are rounding errors, whatever is largest among them
        found = local_identifiability(*random_model([1] * 4, 3, seed), method=method)
        assert found.n_free_directions == found.n_parameters == 2


def test_equal_components_and_empty_ones_are_free():
    weights, factors = random_model([4] * 4, 3)
    assert local_identifiability(weights, factors).n_free_directions == 0
    for factor in factors:
        factor[:, 1] = factor[:, 0]
    # Two equal components share their weight at will, and may part in opposite directions.
    assert local_identifiability(weights, factors).n_free_directions >= 1 + 4 * 3
    weights, factors = random_model([4] * 4, 3)
    weights = np.array([0.5, 0.5, 0.0])
    assert local_identifiability(weights, factors).n_free_directions == 4 * 3


def test_unseen_variable_is_free():
    model = random_model([3, 3, 3, 3], 2)
    report = local_identifiability(*model, triples=[(0, 1, 2)])
    assert report.n_free_directions == 2 * 2


def test_affordable_at_the_papers_size():
    report = local_identifiability(*random_model([15] * 10, 10))
    assert report.method == "gram"
    assert (report.rank, report.n_parameters) == (1409, 1409)


def test_one_component_of_constants_has_no_parameters():
    report = local_identifiability([1.0], [np.ones((1, 1))] * 3)
    assert report.n_parameters == report.rank == report.n_free_directions == 0
    assert report.smallest_singular_value == 1.0


def test_basis_is_orthonormal_and_sums_to_zero():
    basis = zero_sum_basis(5)
    np.testing.assert_allclose(basis.T @ basis, np.eye(4), atol=1e-15)
    np.testing.assert_allclose(basis.sum(axis=0), 0, atol=1e-15)


def test_bad_input():
    weights, factors = random_model([3, 3, 3], 2)
    for bad, message in [
        ((weights[None], factors), "weights have shape"),
        ((weights, factors[:2]), "at least three"),
        ((weights, [*factors[:2], np.ones((3, 4))]), "Factor 2"),
        ((weights * np.nan, factors), "NaN"),
        ((weights, factors, [(0, 1, 3)]), "outside"),
        ((weights, factors, [(0, 1, 1)]), "twice"),
        ((weights, factors, [0, 1, 2]), "n_triples, 3"),
        ((weights, factors, "all", "qr"), "method"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            local_identifiability(*bad)
    with pytest.raises(SizeLimitError, match="8000"):
        local_identifiability(*random_model([30] * 30, 10))
