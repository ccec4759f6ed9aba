"""Pairs of components that are alike, and those that samples do not tell apart."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rooms import nearly_equal, random_model

from tensorly_smp.identifiability.likeness import alike_pairs, clip_names, nearly_parallel_pairs
from tensorly_smp.likelihood.comparison import affinity, separations


def common_loss(p, q, m, n):
    """Log-likelihood that m and n samples of two densities lose if both have their mean."""
    mean = (m * p + n * q) / (m + n)
    return m * p @ np.log(p / mean) + n * q @ np.log(q / mean)


@given(st.integers(0, 100), st.floats(0.05, 0.95))
def test_to_second_order_it_is_what_one_common_density_loses(seed, weight):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(6, 5.0))
    q = p * (1 + 0.02 * rng.standard_normal(6))
    q /= q.sum()
    weights = np.array([weight, 1 - weight])
    found = separations([np.stack([p, q], axis=1)], weights, 1000)[0]
    assert found[0, 1] == pytest.approx(common_loss(p, q, *(1000 * weights)), rel=0.05)
    assert found[0, 1] == found[1, 0]


def brute_force(separation, weights, allowed):
    n, found = len(separation), {}
    for r in range(len(weights)):
        for s in range(r + 1, len(weights)):
            values = sorted(separation[:, r, s])
            for apart in range(3):
                if sum(values[: n - apart]) <= allowed * (n - apart) / n:
                    found[r, s] = apart
                    break
    return found


@given(st.integers(0, 200))
def test_pairs_are_those_of_a_plain_loop(seed):
    rng = np.random.default_rng(seed)
    half = rng.exponential(3.0, size=(4, 5, 5)) * (rng.random((4, 5, 5)) < 0.6)
    separation = half + half.transpose(0, 2, 1)
    weights = np.full(5, 0.2)
    found = alike_pairs(separation, weights, 8.0)
    assert {pair.components: len(pair.apart) for pair in found} == brute_force(separation, weights, 8.0)
    costs = []
    for pair in found:
        rest = np.delete(separation[:, *pair.components], pair.apart)
        costs.append(rest.sum())
        assert not pair.apart or separation[pair.apart[0]][pair.components] == separation[:, *pair.components].max()
    assert costs == sorted(costs)


def test_pairs():
    model = nearly_equal(random_model([6] * 5, 4), 1, 3, [0, 2])
    model = nearly_equal(model, 0, 2, [4], share=0.0)
    first, second = nearly_parallel_pairs(model.factors)[:2]
    assert (first.components, first.near, first.equal) == ((1, 3), (0, 2), ())
    assert (second.components, second.near, second.equal) == ((0, 2), (4,), (4,))
    assert not first.is_near_degenerate
    assert first.n_free_directions(model.n_bins) == second.n_free_directions(model.n_bins) == 0
    assert nearly_parallel_pairs([a[:, :1] for a in model.factors]) == ()
    assert alike_pairs(np.zeros((3, 2, 2)), np.array([1.0, 0.0]), 1.0) == []  # components without weight are none


@given(st.integers(0, 100))
def test_affinity_is_the_sum_of_a_plain_loop(seed):
    rng = np.random.default_rng(seed)
    first, second = rng.dirichlet(np.ones(4), 3).T, rng.dirichlet(np.ones(4), 2).T
    for r in range(3):
        for s in range(2):
            plain = sum(np.sqrt(first[i, r] * second[i, s]) for i in range(4))
            assert affinity(first, second)[r, s] == pytest.approx(plain)
    np.testing.assert_allclose(affinity(first).diagonal(), 1.0)


def test_long_lists_of_names_are_clipped():
    assert clip_names(["a", 7, "b\nc"]) == "a, 7, b c"
    assert clip_names([f"x{n}" for n in range(100)], 21) == "x0, x1, x2, ... (100)"
    assert len(clip_names(["y" * 500])) <= 40
