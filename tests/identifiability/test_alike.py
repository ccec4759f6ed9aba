"""Pairs of components that samples do not tell apart."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorly_smp.identifiability.alike import alike_pairs, describe_alike, separations


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
    for pair in found:
        rest = np.delete(separation[:, *pair.components], pair.apart)
        assert pair.cost == pytest.approx(rest.sum())
        assert not pair.apart or separation[pair.apart[0]][pair.components] == separation[:, *pair.components].max()


def test_components_without_weight_are_none():
    assert alike_pairs(np.zeros((3, 2, 2)), np.array([1.0, 0.0]), 1.0) == []


def test_words():
    separation = np.zeros((3, 2, 2))
    separation[1] = 50.0 * (1 - np.eye(2))
    (pair,) = alike_pairs(separation, np.array([0.5, 0.5]), 1.0)
    assert describe_alike(pair, ["a", "b", "c"]) == (
        "Samples do not tell components 0 and 1 apart in any variable but b: see rivals."
    )
    (pair,) = alike_pairs(np.zeros((3, 2, 2)), np.array([0.5, 0.5]), 1.0)
    assert describe_alike(pair, ["a", "b", "c"]) == (
        "Samples do not tell components 0 and 1 apart in any variable: see rivals."
    )
