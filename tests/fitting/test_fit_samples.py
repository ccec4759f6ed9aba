import numpy as np
import pytest

import tensorly_smp as smp
from tensorly_smp.codes import thinning
from tensorly_smp.fitting.coupled_stage import Decomposition


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
    monkeypatch.setattr("tensorly_smp.fitting.coupled_stage.MOST_CELLS_FOR_KL", 10)
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
