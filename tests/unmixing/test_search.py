"""The search for an unmixing matrix: it rises, it tells what samples tell, and it keeps clusters clear."""

from dataclasses import replace

import numpy as np
import pytest

import tensorly_smp as smp
from tensorly_smp.unmixing.search import (
    Candidate,
    MixedSamples,
    alternate,
    clearest,
    diagonalized,
    held_out_gain,
    is_clearly_better,
)
from tensorly_smp.unmixing.starts import within_covariance

MIXING = np.array([[1.0, 0.8, 0.1], [-0.2, 1.0, 0.6], [0.4, 0.1, 1.0]])


@pytest.fixture(scope="module")
def data():
    return smp.datasets.make_smooth_mixture("gmm", 900, 3, 2, random_state=0)


@pytest.fixture(scope="module")
def samples(data):
    X = data.X @ MIXING.T
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return MixedSamples(X, np.ones(len(X)), np.empty((len(X), 0)), ())


@pytest.fixture(scope="module")
def begun(data):
    posterior = 0.9 * np.eye(2)[data.labels] + 0.05
    return Candidate("test", np.eye(3), posterior)


@pytest.fixture(scope="module")
def ended(samples, begun):
    return alternate(samples, begun, 30, 1e-4)


def test_alternation_rises(ended):
    assert ended.is_converged
    assert ended.criterion <= ended.log_likelihood
    assert np.diff(ended.trace).min() > -0.01  # penalties are chosen anew in every step
    assert ended.trace[-1] > ended.trace[0] + 0.1
    assert ended.log_densities.mean() == pytest.approx(ended.log_likelihood, abs=0.05)


def test_alternation_goes_on_where_it_stopped(samples, begun, ended):
    first = alternate(samples, begun, 3, 1e-4)
    assert not first.is_converged
    second = alternate(samples, first, 30, 1e-4)
    assert second.trace[: len(first.trace)] == first.trace
    assert second.criterion == pytest.approx(ended.criterion, abs=0.01)


def test_diagonalized_covariances(samples, ended):
    found = diagonalized(samples, ended)
    assert found.name == "test, diagonalized"
    pooled = within_covariance(samples.values @ found.unmixing.T, ended.posterior, samples.weights)
    off = pooled - np.diag(np.diag(pooled))
    assert np.abs(off).max() < 0.15 * np.diag(pooled).min()


def test_held_out_samples_want_the_map(samples, begun, ended):
    product = alternate(samples, replace(begun, unmixing=np.eye(3)), 1, 1e-4)
    gain, error = held_out_gain(samples, product, ended, 1e-4)
    assert gain > 0.1
    assert 0.0 < error < gain


def test_held_out_samples_want_no_map_of_noise():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    samples = MixedSamples(X, np.ones(60), np.empty((60, 0)), ())
    product = alternate(samples, Candidate("product", np.eye(5), np.ones((60, 1))), 1, 1e-4)
    mixed = alternate(samples, Candidate("noise", np.eye(5), np.ones((60, 1))), 20, 1e-4)
    assert mixed.log_likelihood > product.log_likelihood
    assert held_out_gain(samples, product, mixed, 1e-4)[0] < 0.0


def test_what_samples_tell():
    rng = np.random.default_rng(0)
    first, weights = rng.normal(0.0, 1.0, 1000), np.ones(1000)
    second = first - rng.normal(0.0, 0.5, 1000)
    assert not is_clearly_better(first, second, weights, 20.0)
    assert is_clearly_better(first, second, weights, 40.0)
    assert is_clearly_better(first, first, weights, 0.1)
    assert not is_clearly_better(first, first, weights, -0.1)


def test_ties_go_to_the_clearest_clusters(samples, ended):
    noise = np.random.default_rng(0).normal(0.0, 0.1, len(samples.values))
    blurred = replace(
        ended,
        posterior=0.5 * ended.posterior + 0.25,
        criterion=ended.criterion + 1e-4,
        log_densities=ended.log_densities + noise,
    )
    assert clearest(samples, [blurred, ended]) is ended
    better = replace(blurred, criterion=ended.criterion + 1.0)
    assert clearest(samples, [better, ended]) is better
