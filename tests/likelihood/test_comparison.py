import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import adjusted_rand_score

from tensorly_smp.likelihood.comparison import (
    Candidate,
    adjusted_rand,
    contingency,
    deviation_of_difference,
    distinct_candidates,
)

RNG = np.random.default_rng(0)
FIRST, SECOND = RNG.normal(size=(2, 50))


@given(st.integers(0, 10**9), st.integers(1, 5), st.integers(1, 60))
def test_adjusted_rand_index_agrees_with_scikit_learn(seed, rank, n):
    first, second = np.random.default_rng(seed).integers(rank, size=(2, n))
    found = adjusted_rand(contingency(first, second, rank))
    assert found == pytest.approx(adjusted_rand_score(first, second), abs=1e-12)
    small = np.array([[50, 3], [4, 60]])  # many samples do not overflow
    assert adjusted_rand(small * 10**9) == pytest.approx(adjusted_rand(small * 10**7), rel=1e-6)


def test_contingency_counts_pairs_and_weights():
    first, second = np.array([0, 0, 1, 2]), np.array([1, 1, 0, 2])
    assert contingency(first, second, 3).tolist() == [[0, 2, 0], [1, 0, 0], [0, 0, 1]]
    rng = np.random.default_rng(0)
    (first, second), weights = rng.integers(0, 3, (2, 50)), rng.integers(0, 4, 50)
    repeated = contingency(np.repeat(first, weights), np.repeat(second, weights), 3)
    assert np.array_equal(contingency(first, second, 3, weights.astype(float)), repeated)
    assert adjusted_rand(contingency(first, second, 3, np.full(50, 1e-3))) == 1.0  # less than one sample tells nothing


def test_first_of_all_that_agree_is_kept():
    a, b = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 1, 0, 1, 0, 1])
    candidates = [Candidate(np.eye(2)[clusters], "search") for clusters in (a, 1 - a, b, a, 1 - b)]
    assert distinct_candidates(candidates, None) == [candidates[0], candidates[2]]
    assert distinct_candidates(candidates, None, same=-1.0) == candidates[:1]
    # Of the samples that count, all of them have the same clusters.
    assert distinct_candidates(candidates[::2], np.array([1.0, 0, 1, 0, 0, 1])) == candidates[:1]


def test_deviation_is_that_of_the_sum_and_weights_are_repeats():
    expected = np.sqrt(50) * np.std(FIRST - SECOND)
    assert deviation_of_difference(FIRST, SECOND) == pytest.approx(expected)
    assert deviation_of_difference(FIRST, FIRST + 3.0) == pytest.approx(0.0, abs=1e-9)
    weights = RNG.integers(0, 4, 50)
    repeated = (np.repeat(each, weights) for each in (FIRST, SECOND))
    assert deviation_of_difference(FIRST, SECOND, weights) == pytest.approx(deviation_of_difference(*repeated))
    assert deviation_of_difference(FIRST, SECOND, np.zeros(50)) == 0.0


def test_of_two_models_that_are_equally_near_the_difference_has_it():
    """Normal truth between two normal models: over many samples, differences have this standard deviation."""
    one, two = stats.norm(-0.2), stats.norm(0.2)
    X = RNG.normal(size=(2000, 100))
    differences = (one.logpdf(X) - two.logpdf(X)).sum(axis=1)
    estimate = np.mean([deviation_of_difference(one.logpdf(x), two.logpdf(x)) for x in X])
    assert estimate == pytest.approx(differences.std(), rel=0.06)
