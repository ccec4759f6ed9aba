import numpy as np
import pytest

import tensorly_smp as smp
from tensorly_smp._support.iteration import StopReason
from tensorly_smp.likelihood.steps import Mixture
from tensorly_smp.search.coarse import MidRanks, mixture_of, overlapping_bins
from tensorly_smp.search.moves import candidates, merge_components, split_components
from tensorly_smp.search.search import NEAR, split_and_merge


def problem(kind="gaussian", n_samples=600, n_variables=5, rank=4, seed=0):
    X, labels, _ = smp.datasets.make_smooth_mixture(kind, n_samples, n_variables, rank, random_state=seed)
    mid_ranks = MidRanks.of(X, (), np.ones(n_samples))
    return mid_ranks, [overlapping_bins(mid_ranks, size) for size in (6, 10)], labels


def merged_and_split(labels):
    """Posteriors with two components as one, and another in halves at random."""
    found = np.where(labels == 1, 0, labels)
    found[labels == 3] = np.where(np.random.default_rng(0).random((labels == 3).sum()) < 0.5, 1, 3)
    return 0.9 * np.eye(4)[found] + 0.025


def test_merges_and_splits_are_what_they_say(monkeypatch):
    mid_ranks, (samples, _), labels = problem()
    mixture = mixture_of(samples, 0.9 * np.eye(4)[labels] + 0.025)
    expected, value = samples.expect(mixture, np.empty(0))
    merges = merge_components(samples, mixture, expected.posterior)
    for p, (i, j) in enumerate(merges.pairs.T):
        kept = [r for r in range(4) if r not in (i, j)]
        log_weights = np.append(mixture.log_weights[kept], merges.log_weights[p])
        tables = np.column_stack([mixture.tables[:, kept], merges.tables[:, p]])
        changed_value = samples.expect(Mixture(log_weights, np.empty((0, 0, 3)), tables), np.empty(0))[1]
        assert value - changed_value == pytest.approx(merges.losses[p], rel=1e-6, abs=1e-6)
    splits = split_components(samples, mid_ranks, mixture, expected.posterior, np.random.default_rng(0))
    np.testing.assert_allclose(np.exp(splits.log_weights).sum(axis=1), 1.0, atol=1e-9)
    # Components of a product hardly gain by a split; one that is two of them does.
    both = mixture_of(samples, merged_and_split(labels))
    posterior = samples.expect(both, np.empty(0))[0].posterior
    found = split_components(samples, mid_ranks, both, posterior, np.random.default_rng(0))
    assert found.gains.argmax() == 0
    assert found.gains[0] > 5 * splits.gains.max()
    # A component without members can be split.
    monkeypatch.setattr("tensorly_smp.search.moves.LARGE", 0)
    posterior = np.eye(5)[labels]
    splits = split_components(samples, mid_ranks, mixture_of(samples, posterior), posterior, np.random.default_rng(0))
    assert all(np.isfinite(each).all() for each in (splits.gains, splits.log_weights, splits.tables))


def test_candidates_have_the_objective_that_they_report():
    mid_ranks, (samples, _), labels = problem()
    mixture = mixture_of(samples, merged_and_split(labels))
    expected, value = samples.expect(mixture, np.empty(0))
    splits = split_components(samples, mid_ranks, mixture, expected.posterior, np.random.default_rng(0))
    tried = candidates(samples, mixture, splits, merge_components(samples, mixture, expected.posterior))
    values = [found for found, _ in tried]
    assert values == sorted(values, reverse=True)
    for found, changed in tried:
        assert found == pytest.approx(
            samples.expect(samples.feasible(changed.pack(), changed), np.empty(0))[1], rel=1e-6
        )
    assert values[0] > value  # one move undoes both


def test_a_wrong_start_is_left_and_the_objective_never_falls_on_a_level():
    mid_ranks, levels, labels = problem()
    rng = np.random.default_rng(0)
    found = split_and_merge(mid_ranks, levels, 4, rng, start=merged_and_split(labels))
    assert smp.metrics.clustering_accuracy(labels, found[0].posterior.argmax(axis=1)) > 0.98
    for each in (found, split_and_merge(mid_ranks, levels[:1], 4, rng, start=merged_and_split(labels))):
        assert (np.diff(each[0].trace.loss) <= 0).all()
    assert found[0].status is StopReason.CONVERGED


@pytest.mark.parametrize("kind", ["gmm", "laplace"])
def test_the_search_ends_as_high_as_from_the_true_labels(kind):
    mid_ranks, levels, labels = problem(kind, 600, 6, 4, seed=1)
    found = split_and_merge(mid_ranks, levels, 4, np.random.default_rng(0))
    truth = split_and_merge(mid_ranks, levels, 4, np.random.default_rng(0), start=np.eye(4)[labels] * 0.9 + 0.025)
    assert found[0].criterion > truth[0].criterion - 2.0


def test_other_optima_are_near_the_best_of_their_level_and_differ():
    mid_ranks, levels, _ = problem("gmm", 200, 4, 4)
    found = split_and_merge(mid_ranks, levels, 4, np.random.default_rng(0))
    best = {}
    for optimum in found:
        best.setdefault(optimum.fit.cells, optimum.criterion)
    assert all(each.criterion > best[each.fit.cells] - NEAR - 1e-9 or each.criterion < 0 for each in found)
    clusters = [each.posterior.argmax(axis=1) for each in found]
    assert len({cluster.tobytes() for cluster in clusters}) == len(clusters)


def test_one_or_two_components_need_no_moves():
    mid_ranks, levels, _ = problem()
    for rank in (1, 2):
        found = split_and_merge(mid_ranks, levels, rank, np.random.default_rng(0))
        np.testing.assert_allclose(found[0].posterior.sum(axis=1), 1.0)


def test_the_same_seed_gives_the_same_result_and_an_interrupt_keeps_what_was_reached():
    mid_ranks, levels, _ = problem()
    one, two = (split_and_merge(mid_ranks, levels, 4, np.random.default_rng(5)) for _ in range(2))
    assert np.array_equal(one[0].posterior, two[0].posterior)
    calls = []

    def interrupt():
        calls.append(1)
        raise KeyboardInterrupt

    found = split_and_merge(mid_ranks, levels, 4, np.random.default_rng(5), check=interrupt)
    assert (found[0].status, len(calls)) == (StopReason.INTERRUPTED, 1)
    assert np.isfinite(found[0].criterion)
