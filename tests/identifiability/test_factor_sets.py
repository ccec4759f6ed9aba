"""Ranks of stacked factors and of Khatri-Rao products, against the matrices themselves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rooms import models_of_all_kinds

from tensorly_smp.identifiability.bounds import KnownMarginals
from tensorly_smp.identifiability.ranks import FactorSets, kruskal_rank, product_core
from tensorly_smp.marginals.block_tensor import Partition

SIZES = st.lists(st.integers(2, 4), min_size=1, max_size=4)


def khatri_rao(factors):
    product = factors[0]
    for factor in factors[1:]:
        product = np.stack([np.kron(product[:, r], factor[:, r]) for r in range(factor.shape[1])], axis=1)
    return product


def sets_of(factors, known=None, **options):
    known = known or KnownMarginals.of_samples(len(factors))
    return FactorSets([len(factor) for factor in factors], factors[0].shape[1], factors, known, **options)


@settings(deadline=None, max_examples=60)
@given(models_of_all_kinds(SIZES, 6).map(lambda model: model.factors), st.sampled_from([1e-9, 0.05, 0.3]))
def test_products_and_stacks_have_the_ranks_of_the_matrices(found, tolerance):
    everything = range(len(found))
    for are_products, matrix in ((True, khatri_rao(found)), (False, np.concatenate(found))):
        unit = matrix / np.linalg.norm(matrix, axis=0)
        described = sets_of(found, are_products=are_products, tolerance=tolerance).describe(everything, 20_000)
        values = np.linalg.svd(unit, compute_uv=False)
        assert described.rank == (values > tolerance).sum()
        assert described.k_rank == kruskal_rank(unit, tolerance)
        assert described.k_rank.is_exact
        if described.rank == unit.shape[1]:
            assert described.condition == pytest.approx(values[0] / values[-1], rel=1e-6)


@given(models_of_all_kinds(SIZES, 6).map(lambda model: model.factors))
def test_cores_keep_lengths_and_angles(found):
    core, product = product_core(found), khatri_rao(found)
    unit = product / np.linalg.norm(product, axis=0)
    np.testing.assert_allclose(core.T @ core, unit.T @ unit, atol=1e-13)


def test_usual_ranks_are_those_of_random_factors():
    rng = np.random.default_rng(0)
    n_bins, rank = [2, 3, 2, 4], 9
    found = [rng.dirichlet(np.ones(size), size=rank).T for size in n_bins]
    for are_products in (True, False):
        model = sets_of(found, are_products=are_products)
        sizes = FactorSets(n_bins, rank, None, model.known, are_products=are_products, is_generic=True)
        for variables in ((0,), (0, 1), (1, 3), (0, 1, 2, 3)):
            usual = sizes.describe(variables)
            assert model.usual_rank(variables) == usual.rank == usual.k_rank
            assert model.describe(variables).rank == usual.rank
            assert model.describe(variables).k_rank <= usual.k_rank


def test_k_rank_beyond_the_budget_is_bounded_by_those_of_the_factors():
    rng = np.random.default_rng(0)
    found = [rng.dirichlet(np.ones(4), size=40).T for _ in range(2)]
    described = sets_of(found, are_products=True).describe((0, 1), 0)
    assert described.rank == 16
    assert not described.k_rank.is_exact
    assert 1 <= described.k_rank <= 16
    # Small budgets still find the k-ranks of few rows, and their sum.
    assert sets_of(found, are_products=True).describe((0, 1), 100_000).k_rank >= 4 + 4 - 1


def test_a_thousand_variables_neither_underflow_nor_take_long():
    rng = np.random.default_rng(0)
    found = [rng.dirichlet(np.ones(15), size=10).T for _ in range(1000)]
    described = sets_of(found, are_products=True).describe(range(1000))
    assert described.rank == described.k_rank == 10
    assert described.condition == pytest.approx(1.0)
    for factor in found[1:]:
        factor[:, 1] = factor[:, 0]
    described = sets_of(found, are_products=True).describe(range(1000))
    assert described.rank == 10
    assert sets_of(found, are_products=True).describe(range(1, 1000)).rank == 9


def test_groups_inside_one_pattern_and_variables_that_follow():
    rng = np.random.default_rng(0)
    found = [rng.dirichlet(np.ones(3), size=3).T for _ in range(5)]

    def search(observed):
        return sets_of(found, KnownMarginals.of_samples(5, np.array(observed)), are_products=True)

    groups = Partition((0,), (1,), (2,))
    linked = search([[1, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1]]).model(groups)
    assert (linked.is_complete, linked.is_kruskal) == (True, True)
    apart = search([[1, 1, 1, 0, 0], [0, 0, 0, 1, 1]]).model(groups)
    assert apart.undetermined == (3, 4)
    never = search([[1, 1, 0, 0, 0], [0, 0, 1, 1, 1], [0, 1, 1, 0, 0]]).model(groups)
    assert never.missing_blocks == 1
