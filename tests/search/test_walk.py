"""From one number of components to the next."""

import numpy as np
import pytest

import tensorly_smp as smp
from tensorly_smp.search.overlapping_bins import Fractions, overlapping_bins
from tensorly_smp.search.split_merge import split_and_merge
from tensorly_smp.search.walk import walk


def problem(kind="gmm", n_samples=400, n_components=4):
    X = smp.datasets.make_smooth_mixture(kind, n_samples, 5, n_components, random_state=0).X
    fractions = Fractions.of(X, (), np.ones(n_samples))
    return fractions, [overlapping_bins(fractions, size) for size in (8, 12)]


def streams():
    return [np.random.default_rng(0)]


@pytest.mark.parametrize("ranks", [[1, 2, 3, 4, 5, 6], [2, 4, 8], [3, 7, 8], [2, 9]])
def test_the_objective_rises_with_the_number_of_components(ranks):
    fractions, levels = problem()
    found = walk(fractions, levels, ranks, streams)
    values = [found[rank].best.value for rank in ranks]
    assert values == sorted(values)


def test_no_number_ends_lower_than_by_its_own_search():
    fractions, levels = problem("laplace")
    found = walk(fractions, levels, [2, 3, 4, 5], streams)
    for rank, each in found.items():
        alone = split_and_merge(fractions, levels, rank, streams()[0]).best.value
        assert each.best.value >= alone
        assert (each.origin == "search") == (each.best.value == alone)
        assert each.best.posterior.shape == (len(fractions.values), rank)
        np.testing.assert_allclose(each.best.posterior.sum(axis=1), 1.0)


def test_a_poor_search_is_mended_by_its_neighbor(monkeypatch):
    fractions, levels = problem("gaussian", 600, 4)
    good = walk(fractions, levels, [3, 4, 5], streams)[4].best.value

    def poor(fractions, levels, rank, rng, *, start=None, check=lambda: None):
        if rank == 4 and start is None:  # all samples are shared: a saddle point
            start = np.full((len(fractions.values), 4), 0.25)
            return split_and_merge(fractions, levels[-1:], 4, rng, start=start)
        return split_and_merge(fractions, levels, rank, rng, start=start, check=check)

    monkeypatch.setattr("tensorly_smp.search.split_merge.MOST_FAILURES", 0)
    monkeypatch.setattr("tensorly_smp.search.walk.split_and_merge", poor)
    monkeypatch.setattr("tensorly_smp.search.walk.FOLLOWED_BELOW", np.inf)
    found = walk(fractions, levels, [3, 4, 5], streams)[4]
    assert found.origin in ("split", "merge")
    assert found.best.value > good - 1.0
