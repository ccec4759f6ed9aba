"""Fits of several numbers of components that help each other."""

import numpy as np
import pytest

import tensorly_smp as smp
from tensorly_smp.fitting import walk as module


def walked(X, ranks, **parameters):
    model = smp.SmoothProductMixture(ranks[0], random_state=0, **parameters)
    return model._walk(X, None, ranks)


@pytest.mark.parametrize("ranks", [[1, 2, 3, 4], [2, 7]])
def test_fits_of_all_numbers_are_mixtures_and_no_number_is_far_below_a_smaller_one(ranks):
    X = smp.datasets.make_smooth_mixture("gmm", 400, 5, 4, random_state=0).X
    binning, found = walked(X, ranks)
    assert list(found) == ranks
    likelihoods = []
    for rank, (best, density) in found.items():
        assert best.posterior.shape == (400, rank)
        np.testing.assert_allclose(best.posterior.sum(axis=1), 1.0)
        assert density.weights.shape == (rank,)
        # Densities are constant in cells for the fit, with a little of a wide one mixed in where they are read.
        likelihoods.append(best.fit.log_likelihood)
        assert density.logpdf(X).sum() == pytest.approx(best.fit.log_likelihood, abs=0.05 * 400)
    assert (np.diff(likelihoods) > -0.01 * 400).all()
    assert binning.n_variables == 5


def test_a_poor_start_is_mended_by_neighbors(monkeypatch):
    X, labels, _ = smp.datasets.make_smooth_mixture("gaussian", 600, 5, 4, random_state=0)
    good = walked(X, [3, 4, 5])[1][4][0]
    assert smp.metrics.clustering_accuracy(labels, good.clusters) > 0.98
    neighbors = module.neighbors

    def poor(samples, fit, values, rank):
        found = neighbors(samples, fit, values, rank)
        if rank == 4 and fit.posterior.shape[1] == 3:  # at random, and so upwards
            found[:] = [module.Candidate(np.full((600, 4), 0.25), "split")]
        return found

    monkeypatch.setattr(module, "neighbors", poor)
    mended = walked(X, [3, 4, 5])[1][4][0]
    assert mended.origin == "merge"
    assert mended.criterion == pytest.approx(good.criterion, abs=3.0)


def test_many_samples_are_walked_on_some_and_fitted_with_all(monkeypatch):
    X = smp.datasets.make_smooth_mixture("gaussian", 30_000, 4, 2, random_state=0).X
    _, found = walked(X, [1, 2])
    assert all(best.fit.total_weight == 30_000 for best, _ in found.values())
