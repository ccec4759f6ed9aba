"""The search for an unmixing matrix: its starts, which end is preferred, and whether a map is wanted."""

from dataclasses import replace

import numpy as np
import pytest

import tensorly_smp as smp
from tensorly_smp.unmixing.passes import MixedSamples, UnmixingCandidate, follow
from tensorly_smp.unmixing.search import (
    independent_matrix,
    lead_of_product,
    local_matrix,
    preferred,
    random_clusters,
    search_unmixing,
    typical_mixture,
)
from tensorly_smp.unmixing.starts import GAUSSIAN

MIXING = np.array([[1.0, 0.8, 0.1], [-0.2, 1.0, 0.6], [0.4, 0.1, 1.0]])


X = smp.datasets.make_smooth_mixture("gmm", 500, 3, 2, random_state=0).X @ MIXING.T


@pytest.fixture(scope="module")
def samples():
    return MixedSamples((X - X.mean(axis=0)) / X.std(axis=0), np.ones(len(X)), np.empty((len(X), 0)), ())


@pytest.fixture(scope="module")
def found(samples):
    return search_unmixing(samples, 2, (None,), 200, 1e-3)


def test_the_best_is_no_worse_than_the_first_start(samples, found):
    best, product, starts = found
    assert best.criterion >= starts[0].criterion
    assert best.criterion > product.criterion + 50.0
    np.testing.assert_allclose(product.unmixing, np.diag(np.diag(product.unmixing)))
    again = follow(samples, best, 200, 1e-4, n_rounds=2)
    assert again.criterion == pytest.approx(best.criterion, abs=2.0)
    # The map is preferred where samples have one.
    assert lead_of_product(samples, product, best) < -50.0


def test_starts_are_likely_mixtures(samples):
    rng = np.random.default_rng(0)
    clusters = random_clusters(samples, 2, 6, rng)
    tied = typical_mixture(samples, clusters, (GAUSSIAN, 5.0))
    each = [typical_mixture(samples, {name: start}, (GAUSSIAN,)) for name, start in clusters.items()]
    # The likeliest third of twelve agrees on it; it is none of the rare and unlikely ones.
    assert tied.criterion > np.median([one.criterion for one in each]) - 0.1
    np.testing.assert_allclose(tied.posterior.sum(axis=1), 1.0)
    assert np.isfinite(np.linalg.slogdet(tied.unmixing)[1])
    # Local covariances see the matrix, though these sources are no Gaussians.
    product = np.abs(local_matrix(samples, 2, rng) @ (MIXING / X.std(axis=0)[:, None]))
    assert (np.sort(product / product.max(axis=1, keepdims=True), axis=1)[:, 1] < 0.5).all()


def test_independent_components_are_the_sources_of_one_component():
    values = np.random.default_rng(0).uniform(-1.0, 1.0, (2000, 3)) @ MIXING.T
    samples = MixedSamples(values - values.mean(axis=0), np.ones(2000), np.empty((2000, 0)), ())
    product = np.abs(independent_matrix(samples) @ MIXING)
    assert (np.sort(product / product.max(axis=1, keepdims=True), axis=1)[:, 1] < 0.2).all()


@pytest.mark.parametrize("n_samples", [60, 400], ids=["Schwarz", "Akaike"])
def test_no_map_of_noise_is_preferred(n_samples):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, 5))
    samples = MixedSamples(X, np.ones(n_samples), np.empty((n_samples, 0)), ())
    one = UnmixingCandidate(np.ones((n_samples, 1)), "noise", unmixing=np.eye(5))
    product = follow(samples, one, 50, 1e-4, is_fixed=True)
    mixed = follow(samples, one, 50, 1e-4)
    assert mixed.trace.loss[-1] < product.trace.loss[-1]
    assert lead_of_product(samples, product, mixed) > 0.0


def test_the_first_candidate_is_preferred_where_the_likelihood_does_not_tell(samples, found):
    best = found[0]
    first = replace(best, criterion=best.criterion - 1e-9)
    assert preferred(samples, first, best, 2.5) is best  # the same densities
    even = np.full(best.posterior.shape, 0.5)
    other = follow(samples, UnmixingCandidate(even, "even", unmixing=best.unmixing), 1, 1e-3)
    other.criterion = best.criterion - 1.0
    assert preferred(samples, other, best, 2.5) is other
    other.criterion = best.criterion - 500.0
    assert preferred(samples, other, best, 2.5) is best
    assert preferred(samples, other, best, 1e4) is other


def test_a_candidate_goes_on_from_its_densities(samples, found):
    first = follow(samples, UnmixingCandidate(found[0].posterior, "known", unmixing=np.eye(3)), 3, 1e-5)
    second = follow(samples, first, 3, 1e-5, goes_on=True)
    assert second.criterion > first.criterion
    n_before = len(first.trace.loss)
    assert second.trace.loss[n_before] == pytest.approx(first.trace.loss[-1], abs=0.05)  # with another prior
    peaked = follow(replace(samples, shape="log-concave"), second, 3, 1e-5, goes_on=True, is_fixed=True)
    assert peaked.shape == "log-concave"
    np.testing.assert_array_equal(peaked.unmixing, second.unmixing)
    np.testing.assert_array_equal(peaked.fit.cells.low, second.fit.cells.low)


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.TensorlySmpWarning")
def test_the_product_is_no_result_where_only_the_map_of_its_clusters_stalls():
    """Gaussian groups with strong correlations: the product's components are slices of all groups."""
    rng = np.random.default_rng(3066)
    mixing = rng.normal(size=(6, 6))
    groups = np.arange(60) % 3
    values = (rng.normal(size=(60, 6)) + 4.0 * rng.normal(size=(3, 6))[groups]) @ mixing.T
    model = smp.UnmixedProductMixture(3, random_state=0).fit(values)
    assert not model.is_product_
    assert smp.metrics.clustering_accuracy(groups, model.labels_) > 0.98


def test_fits_with_several_seeds_agree(samples):
    first, second = (smp.UnmixedProductMixture(2, random_state=seed).fit(samples.values[:200]) for seed in (0, 1))
    np.testing.assert_array_equal(first.labels_, second.labels_)
    np.testing.assert_allclose(first.unmixing_, second.unmixing_, rtol=1e-6)
