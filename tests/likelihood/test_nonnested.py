"""The standard deviation of a difference of log-likelihoods."""

import numpy as np
import pytest
from scipy import stats

from tensorly_smp.likelihood.nonnested import deviation_of_difference

RNG = np.random.default_rng(0)
FIRST, SECOND = RNG.normal(size=(2, 50))


def test_it_is_that_of_the_sum():
    expected = np.sqrt(50) * np.std(FIRST - SECOND)
    assert deviation_of_difference(FIRST, SECOND) == pytest.approx(expected)
    assert deviation_of_difference(FIRST, FIRST + 3.0) == pytest.approx(0.0, abs=1e-9)


def test_weights_are_repeats():
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
