"""Zeros that force non-negative factors: what is found is unique, and what is not unique is not found."""

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import joint_distribution

from tensorly_smp.identifiability.known import Known
from tensorly_smp.identifiability.supports import forced_variables


def test_a_diagonal_matrix_has_one_non_negative_factorization():
    factors = [np.eye(2), np.eye(2), np.full((2, 2), 0.5)]
    for known in (Known.of_triples(3), Known.of_samples(3)):
        assert forced_variables(np.array([0.4, 0.6]), factors, known) == (0, 1)
    assert forced_variables(np.array([1.0, 0.0]), factors, Known.of_samples(3)) == ()


def test_zeros_that_leave_a_choice():
    # One zero in two variables: the matrix of rank 2 can be split in many ways.
    first = np.array([[0.0, 0.5], [1.0, 0.5]])
    factors = [first, np.array([[0.3, 0.6], [0.7, 0.4]]), np.full((2, 2), 0.5)]
    assert forced_variables(np.array([0.5, 0.5]), factors, Known.of_samples(3)) == ()
    positive = [np.full((2, 2), 0.5)] * 3
    assert forced_variables(np.array([0.5, 0.5]), positive, Known.of_samples(3)) == ()


def test_overlapping_supports_can_be_forced():
    # Every component has a bin of its own, in two variables; in one of them only is not enough.
    a = np.array([[0.5, 0.0], [0.5, 0.5], [0.0, 0.5]])
    weights, constant = np.array([0.3, 0.7]), np.ones((1, 2))
    assert forced_variables(weights, [a, a, constant], Known.of_samples(3)) == (0, 1)
    positive = np.array([[0.5, 0.2], [0.5, 0.8]])
    assert forced_variables(weights, [a, positive, constant], Known.of_samples(3)) == ()


def non_negative_em(target, shape, rank, rng, n_passes=3000):
    """Another exact non-negative model by EM on the joint distribution, and what is left of the difference."""
    weights, factors = rng.dirichlet(np.ones(rank)), [rng.dirichlet(np.ones(size), size=rank).T for size in shape]
    for _ in range(n_passes):
        joints = np.stack([weights[r] * joint_distribution(factors, range(len(shape)), r) for r in range(rank)])
        total = joints.sum(axis=0)
        shares = joints * np.divide(target, total, out=np.zeros_like(target), where=total > 0)
        weights = shares.reshape(rank, -1).sum(axis=1)
        axes = range(1, len(shape) + 1)
        for n in range(len(shape)):
            sums = shares.sum(axis=tuple(a for a in axes if a != n + 1))
            factors[n] = (sums / np.maximum(weights, 1e-300)[:, None]).T
    return weights, factors, np.abs(total - target).max()


@settings(deadline=None, max_examples=12)
@given(st.integers(0, 10_000))
def test_what_is_forced_has_no_second_model(seed):
    rng = np.random.default_rng(seed)
    rank, shape = 2, (3, 3)
    factors = []
    for size in shape:
        support = rng.random((size, rank)) < 0.6
        support[rng.integers(size), ~support.any(axis=0)] = True
        factors.append(np.where(support, rng.uniform(0.2, 1, support.shape), 0.0))
    factors = [factor / factor.sum(axis=0) for factor in factors]
    weights = np.array([0.4, 0.6])
    known = Known("samples", 2, None, ((0, 1),))
    if forced_variables(weights, factors, known) != (0, 1):
        return
    target = sum(weights[r] * joint_distribution(factors, (0, 1), r) for r in range(rank))
    for _ in range(3):
        found_weights, found, error = non_negative_em(target, shape, rank, rng)
        if error > 1e-9:
            continue
        difference = min(
            max(
                np.abs(found_weights[list(order)] - weights).max(),
                *(np.abs(a[:, list(order)] - b).max() for a, b in zip(found, factors, strict=True)),
            )
            for order in permutations(range(rank))
        )
        assert difference < 1e-3


@pytest.mark.parametrize("n_variables", [3, 5])
def test_pairs_and_triples_are_looked_at_in_what_is_known(n_variables):
    rng = np.random.default_rng(0)
    factors = [rng.dirichlet(np.ones(3), size=2).T for _ in range(n_variables)]
    factors[0] = factors[2] = np.eye(2)
    weights = np.array([0.5, 0.5])
    assert forced_variables(weights, factors, Known.of_triples(n_variables)) == (0, 2)
    without = np.array([t for t in combinations(range(n_variables), 3) if not {0, 2} <= set(t)]).reshape(-1, 3)
    if len(without):
        assert forced_variables(weights, factors, Known.of_triples(n_variables, without)) == ()
