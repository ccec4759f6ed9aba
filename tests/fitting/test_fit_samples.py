import warnings

import numpy as np
import pytest

import tensorly_smp as smp
from tensorly_smp.fitting.fit_samples import in_memory
from tensorly_smp.fitting.stages import Decomposition
from tensorly_smp.samples import values as thinning


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
    monkeypatch.setattr("tensorly_smp.fitting.stages.MOST_CELLS_FOR_KL", 10)
    X = smp.datasets.make_smooth_mixture("gaussian", 1500, n_variables=5, n_components=2, random_state=0).X
    weights = np.random.default_rng(0).integers(0, 3, 1500).astype(float) if weighted else None
    samples = in_memory(X, smp.choose_binning(X, 6), weights)
    codes = samples.codes
    options = dict(loss="auto", init="gevd", n_init=2, max_iter=5, tol=1e-6, n_jobs=None, random_state=0)
    found = Decomposition(2, "all", **options, is_start=True, callback=None, verbose=0).solution(samples)
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


def fit_and_warnings(X, n_components, sample_weight=None):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = smp.SmoothProductMixture(n_components, random_state=0).fit(X, sample_weight=sample_weight)
    return model, [(each.category, str(each.message)) for each in caught]


@pytest.mark.filterwarnings("ignore:The likelihood is next to flat")
@pytest.mark.parametrize(("kind", "seed"), [("missing items", 1), ("continuous", 2)])
def test_patterns_with_counts_are_the_repeated_rows(kind, seed):
    rng = np.random.default_rng(seed)
    n_components = 2 + seed % 3
    n_variables = 4 + seed
    if kind == "continuous":
        patterns = smp.datasets.make_smooth_mixture("gmm", 200, 4, n_components, random_state=seed).X
        counts = rng.integers(1, 5, 200)
        rows = np.repeat(patterns, counts, axis=0)
    else:
        labels = rng.integers(n_components, size=400)
        sizes = rng.integers(2, 4, n_variables)
        below = [np.cumsum(rng.dirichlet(np.ones(size), n_components), axis=1)[labels, :-1] for size in sizes]
        rows = np.stack([(rng.random((400, 1)) > each).sum(axis=1) for each in below], axis=1).astype(float)
        rows[rng.random(rows.shape) < 0.1] = np.nan
        patterns, counts = np.unique(rows, axis=0, return_counts=True)
    first, given = fit_and_warnings(patterns, n_components, counts)
    second, again = fit_and_warnings(rows, n_components)
    assert again == given
    np.testing.assert_allclose(second.score_samples(patterns), first.score_samples(patterns), rtol=0, atol=1e-6)
    tests = [
        smp.check_independence(model, X, sample_weight=weights, random_state=0).tests.p_value
        for model, X, weights in ((first, patterns, counts), (second, rows, None))
    ]
    np.testing.assert_allclose(*tests, rtol=0, atol=1e-6)
    assert len(second.labels_) == len(rows)
    replicates = [
        model.bootstrap(X, 2, sample_weight=weights, random_state=0).weights.values
        for model, X, weights in ((first, patterns, counts), (second, np.repeat(patterns, counts, axis=0), None))
    ]
    np.testing.assert_allclose(*replicates, rtol=0, atol=1e-6)
