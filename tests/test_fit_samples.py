from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

import tensorly_smp as smp
from tensorly_smp.codes import thinning
from tensorly_smp.decomposition import Decomposition
from tensorly_smp.fit_samples import adjusted_rand, contingency, in_memory


@given(st.integers(0, 10**9), st.integers(1, 5), st.integers(1, 60))
def test_adjusted_rand_index_agrees_with_scikit_learn(seed, rank, n):
    first, second = np.random.default_rng(seed).integers(rank, size=(2, n))
    found = adjusted_rand(contingency(first, second, rank))
    assert found == pytest.approx(adjusted_rand_score(first, second), abs=1e-12)


def test_adjusted_rand_index_of_many_samples_does_not_overflow():
    small = np.array([[50, 3], [4, 60]])
    assert adjusted_rand(small * 10**9) == pytest.approx(adjusted_rand(small * 10**7), rel=1e-6)


def test_contingency_counts_weights():
    rng = np.random.default_rng(0)
    (first, second), weights = rng.integers(0, 3, (2, 50)), rng.integers(0, 4, 50)
    repeated = contingency(np.repeat(first, weights), np.repeat(second, weights), 3)
    assert np.array_equal(contingency(first, second, 3, weights.astype(float)), repeated)
    assert adjusted_rand(contingency(first, second, 3, np.full(50, 1e-3))) == 1.0  # less than one sample tells nothing


def test_contingency_is_a_count_of_pairs():
    first, second = np.array([0, 0, 1, 2]), np.array([1, 1, 0, 2])
    assert contingency(first, second, 3).tolist() == [[0, 2, 0], [1, 0, 0], [0, 0, 1]]


def test_first_of_all_that_agree_is_kept():
    a, b = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 1, 0, 1, 0, 1])
    posteriors = [np.eye(2)[clusters] for clusters in (a, 1 - a, b, a, 1 - b)]
    X = np.arange(6.0)[:, None]
    samples = in_memory(X, smp.choose_binning(X, 2), None)
    assert samples.distinct(posteriors) == [0, 2]
    assert samples.distinct(posteriors, same=-1.0) == [0]
    # Of the samples that count, all of them have the same clusters.
    assert replace(samples, weights=np.array([1.0, 0, 1, 0, 0, 1])).distinct(posteriors[::2]) == [0]


def test_bins_and_cells_of_many_samples_come_from_some_of_them_and_the_extremes(monkeypatch):
    """Fits with the choices made from a tenth of the samples: the ranges are exact, the densities next to the same."""
    X, labels, _ = smp.datasets.make_smooth_mixture("gaussian", 4000, n_variables=5, n_components=3, random_state=0)
    whole = smp.SmoothProductMixture(3, random_state=0).fit(X)
    monkeypatch.setattr(thinning, "MOST_ROWS", 400)
    some = smp.SmoothProductMixture(3, random_state=0).fit(X)
    assert some.binning_ == whole.binning_
    assert some.score(X) == pytest.approx(whole.score(X), abs=2e-3)
    assert smp.metrics.clustering_accuracy(labels, some.labels_) > 0.99


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("weighted", [False, True])
def test_start_of_many_samples_of_many_variables_is_that_of_some_of_them(weighted, monkeypatch):
    monkeypatch.setattr(thinning, "MOST_ROWS", 300)
    monkeypatch.setattr("tensorly_smp.decomposition.MOST_CELLS_FOR_KL", 10)
    X = smp.datasets.make_smooth_mixture("gaussian", 1500, n_variables=5, n_components=2, random_state=0).X
    weights = np.random.default_rng(0).integers(0, 3, 1500).astype(float) if weighted else None
    codes = smp.encode_samples(X, smp.choose_binning(X, 6))
    options = dict(loss="auto", init="gevd", n_init=2, max_iter=5, tol=1e-6, n_jobs=None, random_state=0)
    found = Decomposition(2, "all", **options, is_start=True, callback=None, verbose=0).solution(codes, weights)
    some = smp.Codes(codes.values[::5], codes.binning)
    expected = smp.coupled_simplex_parafac(
        some,
        2,
        sample_weight=None if weights is None else weights[::5],
        loss="frobenius",
        n_init=2,
        n_iter_max=5,
        random_state=0,
    )
    assert all(map(np.allclose, found.factors.factors, expected.factors.factors))


def of_labels(samples, labels):
    """Factors of clusters."""
    of, codes = np.eye(3)[labels], samples.codes
    columns = [np.eye(size)[codes.values[:, n]].T @ of / of.sum(axis=0) for n, size in enumerate(codes.n_bins)]
    return smp.MixtureFactors(of.mean(axis=0), tuple(columns))


def test_starts_agree_that_have_the_same_clusters_or_come_to_have_them():
    X, labels, _ = smp.datasets.make_smooth_mixture("gaussian", 1500, 5, 3, random_state=0)
    samples = in_memory(X, smp.choose_binning(X, n_bins=8), None)
    rng = np.random.default_rng(0)
    start = of_labels(samples, labels)
    vague = of_labels(samples, np.where(rng.random(1500) < 0.3, labels, rng.integers(3, size=1500)))
    assert len(samples.distinct(samples.posteriors([start, vague]))) == 2
    # One cluster in halves, and the others as one: EM does not leave that in a few passes.
    split = of_labels(samples, np.where(labels == 2, rng.integers(1, 3, size=1500), 0))
    turned = smp.MixtureFactors(start.weights[::-1], [a[:, ::-1] for a in start.factors])
    assert samples.agree(start, turned) in (start, turned)
    assert samples.agree(start.smooth(0.3), start) is start
    assert samples.agree(start, vague) is None
    assert samples.agree(start, vague, split) is None
    # After passes it is where these have led, not where they began.
    found = samples.agree(vague, start, vague)
    assert smp.metrics.factor_error(found, start) < 0.1 < smp.metrics.factor_error(vague, start)
