"""Scores of dependence: equal to their definition, calibrated under independence, blind to nothing they should see."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import tensorly_smp as smp
from tensorly_smp.dependence.pairs import (
    DEGREE,
    NullScores,
    PairScores,
    judge_pairs,
    legendre,
    rank_functions,
    weighted_ranks,
)

SEEDS = st.integers(0, 2**32 - 1)


def all_pairs(n_variables):
    return np.array(list(combinations(range(n_variables), 2)))


def random_problem(seed, n_samples=60, n_variables=4, rank=2):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((n_samples, n_variables))
    values[:, 1] = np.round(values[:, 1])
    values[rng.random(values.shape) < 0.1] = np.nan
    return values, rng.dirichlet(np.ones(rank), n_samples), rng.integers(0, 3, n_samples).astype(float)


def test_polynomials_are_orthonormal_and_as_many_as_values_allow():
    u = (np.arange(100_000) + 0.5) / 100_000
    functions = legendre(u, 4)
    np.testing.assert_allclose(functions.T @ functions / len(u), np.eye(4), atol=1e-6)
    np.testing.assert_allclose(functions.mean(axis=0), 0.0, atol=1e-6)
    # A variable of two values has one function.
    rng = np.random.default_rng(0)
    values = rng.integers(2, size=(200, 1)).astype(float)
    (each,) = rank_functions(values, np.ones((200, 1)), np.ones(200), 3)
    assert np.abs(each[:, 0, 0]).min() > 0
    assert not each[:, 0, 1:].any()


@given(SEEDS)
def test_ranks_are_shares_of_smaller_values(seed):
    values, shares, _ = random_problem(seed)
    for column in values.T:
        present = ~np.isnan(column)
        ranks = weighted_ranks(column, shares * present[:, None])
        for m in np.flatnonzero(present)[:5]:
            below = shares[present & (column < column[m])].sum(axis=0)
            equal = shares[present & (column == column[m])].sum(axis=0)
            expected = (below + 0.5 * equal) / shares[present].sum(axis=0)
            np.testing.assert_allclose(ranks[m], expected, atol=1e-12)


@given(SEEDS)
def test_functions_are_orthonormal_in_every_component(seed):
    values, posterior, weights = random_problem(seed)
    for column, each in zip(values.T, rank_functions(values, posterior, weights, 3), strict=True):
        present = ~np.isnan(column)
        assert not each[~present].any()
        for r in range(posterior.shape[1]):
            share = weights * present * posterior[:, r]
            gram = (each[:, r] * share[:, None]).T @ each[:, r] / share.sum()
            kept = np.diag(gram) > 0
            np.testing.assert_allclose(gram[np.ix_(kept, kept)], np.eye(kept.sum()), atol=1e-8)
            np.testing.assert_allclose(share @ each[:, r] / share.sum(), 0.0, atol=1e-8)


@given(SEEDS)
def test_scores_by_their_definition(seed):
    values, posterior, weights = random_problem(seed)
    scores = PairScores.of(values, posterior, weights)
    functions = rank_functions(values, posterior, weights, DEGREE)
    for i, (j, k) in enumerate(all_pairs(4).tolist()):
        both = ~np.isnan(values[:, [j, k]]).any(axis=1)
        for r in range(2):
            share = weights * posterior[:, r]
            expected = [
                (share * functions[j][:, r, a] * functions[k][:, r, b]).sum()
                for a in range(DEGREE)
                for b in range(DEGREE)
            ]
            np.testing.assert_allclose(scores.sums[i, r], expected, atol=1e-10)
            assert scores.sizes[i, r] == pytest.approx((share * both).sum())
            assert scores.squares[i, r] == pytest.approx((share * posterior[:, r] * both).sum())


@given(SEEDS)
def test_a_weight_of_two_is_two_samples(seed):
    values, posterior, weights = random_problem(seed)
    counts = weights.astype(int)
    repeated = PairScores.of(
        np.repeat(values, counts, axis=0), np.repeat(posterior, counts, axis=0), np.ones(counts.sum())
    )
    for name in ("sums", "sizes", "squares"):
        np.testing.assert_allclose(
            getattr(PairScores.of(values, posterior, weights), name), getattr(repeated, name), atol=1e-9
        )


def test_known_components_give_uniform_p_values_and_sharp_ones_the_covariance_of_theory():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(150):
        labels = rng.integers(2, size=300)
        values = rng.standard_normal((300, 3)) ** 3 + 2.0 * labels[:, None]
        tests = judge_pairs(PairScores.of(values, np.eye(2)[labels], np.ones(300)))
        found.append(tests.p_component[:, :2].ravel())
    assert stats.kstest(np.concatenate(found), "uniform").pvalue > 1e-3
    # Draws of a model with sharp components agree with theory.
    data = smp.datasets.make_smooth_mixture("gamma", 3000, 3, 2, random_state=0)
    posterior = np.eye(2)[data.labels]
    null = NullScores(all_pairs(3), 2, 3)
    null.add(data.X, posterior)
    (covariance, *_) = null.covariances(3000.0)
    for r in range(2):
        size = (data.labels == r).sum()
        np.testing.assert_allclose(covariance[r, :, r] / size, np.eye(DEGREE**2), atol=0.3)


def test_nuisance_takes_variance_away():
    data = smp.datasets.make_smooth_mixture("laplace", 3000, 4, 3, random_state=1)
    posterior = data.mixture.posterior(data.X)
    for is_shared in (True, False):
        null = NullScores(all_pairs(4), 3, 4, is_shared)
        null.add(data.X, posterior)
        explained = null._second[0] - null.covariances(null.total)[0].reshape(null._second[0].shape)
        values = np.linalg.eigvalsh(explained)
        assert values.min() > -1e-6 * values.max()
        assert values.max() > 0


@pytest.mark.parametrize("shape", ["line", "circle"])
def test_dependence_is_seen(shape):
    rng = np.random.default_rng(0)
    values, angle = rng.standard_normal((800, 3)), 2 * np.pi * rng.random(800)
    if shape == "line":
        values[:, 1] += 0.4 * values[:, 0]
    else:
        values[:, 0], values[:, 1] = np.cos(angle) + 0.1 * values[:, 0], np.sin(angle) + 0.1 * values[:, 1]
    tests = judge_pairs(PairScores.of(values, np.ones((800, 1)), np.ones(800)))
    assert tests.p_value.argmin() == 0
    assert tests.p_value[0] < 1e-9
    assert tests.p_value[1:].min() > 1e-4
    assert (abs(tests.correlation[0, 0]) > 0.25) == (shape == "line")
    assert tests.strength[0, 0] > 0.25


def test_neither_small_components_nor_constants_are_tested():
    values = np.random.default_rng(0).standard_normal((100, 2))
    posterior = np.tile([0.9, 0.1], (100, 1))
    tests = judge_pairs(PairScores.of(values, posterior, np.ones(100)))
    assert np.isnan(tests.strength[0]).tolist() == [False, True]
    assert tests.p_component[0, 1] == 1.0
    none = judge_pairs(PairScores.of(values[:20], posterior[:20], np.ones(20)))
    assert none.p_value.tolist() == [1.0]
    # Constant variables depend on nothing.
    values = np.random.default_rng(0).standard_normal((100, 2))
    values[:, 1] = 3.0
    tests = judge_pairs(PairScores.of(values, np.ones((100, 1)), np.ones(100)))
    assert tests.p_value[0] > 0.999
    assert tests.strength.tolist() == [[0.0]]
