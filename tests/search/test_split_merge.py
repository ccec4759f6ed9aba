import numpy as np
import pytest

import tensorly_smp as smp
from tensorly_smp._support.iteration import StopReason
from tensorly_smp.likelihood.steps import SmoothMixture
from tensorly_smp.search.moves import candidates, merge_components, split_components
from tensorly_smp.search.overlapping_bins import Fractions, mixture_of, overlapping_bins
from tensorly_smp.search.split_merge import NEAR, split_and_merge


def problem(kind="gaussian", n_samples=600, n_variables=5, rank=4, seed=0):
    X, labels, _ = smp.datasets.make_smooth_mixture(kind, n_samples, n_variables, rank, random_state=seed)
    fractions = Fractions.of(X, (), np.ones(n_samples))
    return fractions, [overlapping_bins(fractions, size) for size in (6, 10)], labels


def merged_and_split(labels):
    """Posteriors with two components as one, and another in halves at random."""
    found = np.where(labels == 1, 0, labels)
    found[labels == 3] = np.where(np.random.default_rng(0).random((labels == 3).sum()) < 0.5, 1, 3)
    return 0.9 * np.eye(4)[found] + 0.025


def test_merges_and_splits_are_what_they_say():
    fractions, (samples, _), labels = problem()
    mixture = mixture_of(samples, 0.9 * np.eye(4)[labels] + 0.025)
    expected, value = samples.expect(mixture, np.empty(0))
    merges = merge_components(samples, mixture, expected.posterior)
    for p, (i, j) in enumerate(merges.pairs.T):
        kept = [r for r in range(4) if r not in (i, j)]
        log_weights = np.append(mixture.log_weights[kept], merges.log_weights[p])
        tables = np.column_stack([mixture.tables[:, kept], merges.tables[:, p]])
        changed_value = samples.expect(SmoothMixture(log_weights, np.empty((0, 0, 3)), tables), np.empty(0))[1]
        assert value - changed_value == pytest.approx(merges.losses[p], rel=1e-6, abs=1e-6)
    splits = split_components(samples, fractions, mixture, expected.posterior, np.random.default_rng(0))
    np.testing.assert_allclose(np.exp(splits.log_weights).sum(axis=1), 1.0, atol=1e-9)
    # Components of a product hardly gain by a split; one that is two of them does.
    both = mixture_of(samples, merged_and_split(labels))
    posterior = samples.expect(both, np.empty(0))[0].posterior
    found = split_components(samples, fractions, both, posterior, np.random.default_rng(0))
    assert found.gains.argmax() == 0
    assert found.gains[0] > 5 * splits.gains.max()


def test_candidates_have_the_objective_that_they_report():
    fractions, (samples, _), labels = problem()
    mixture = mixture_of(samples, merged_and_split(labels))
    expected, value = samples.expect(mixture, np.empty(0))
    splits = split_components(samples, fractions, mixture, expected.posterior, np.random.default_rng(0))
    tried = candidates(samples, mixture, splits, merge_components(samples, mixture, expected.posterior))
    values = [found for found, _ in tried]
    assert values == sorted(values, reverse=True)
    for found, changed in tried:
        assert found == pytest.approx(
            samples.expect(samples.feasible(changed.pack(), changed), np.empty(0))[1], rel=1e-6
        )
    assert values[0] > value  # one move undoes both


def test_a_wrong_start_is_left_and_the_objective_never_falls_on_a_level():
    fractions, levels, labels = problem()
    rng = np.random.default_rng(0)
    found = split_and_merge(fractions, levels, 4, rng, start=merged_and_split(labels))
    assert smp.metrics.clustering_accuracy(labels, found.best.posterior.argmax(axis=1)) > 0.98
    for number in range(len(levels)):
        values = [value for (value, _), level in zip(found.trace, found.levels, strict=True) if level == number]
        assert (np.diff(values) >= 0).all()
    assert found.status is StopReason.CONVERGED


@pytest.mark.parametrize("kind", ["gmm", "laplace"])
def test_the_search_ends_as_high_as_from_the_true_labels(kind):
    fractions, levels, labels = problem(kind, 900, 6, 4, seed=1)
    found = split_and_merge(fractions, levels, 4, np.random.default_rng(0))
    truth = split_and_merge(fractions, levels, 4, np.random.default_rng(0), start=np.eye(4)[labels] * 0.9 + 0.025)
    assert found.best.value > truth.best.value - 2.0


def test_other_optima_are_near_the_best_of_their_level_and_differ():
    fractions, levels, _ = problem("gmm", 200, 4, 4)
    found = split_and_merge(fractions, levels, 4, np.random.default_rng(0))
    best = {}
    for optimum in found.optima:
        best.setdefault(len(optimum.mixture.tables), optimum.value)
    assert all(each.value > best[len(each.mixture.tables)] - NEAR - 1e-9 or each.value < 0 for each in found.optima)
    clusters = [each.posterior.argmax(axis=1) for each in found.optima]
    assert len({cluster.tobytes() for cluster in clusters}) == len(clusters)


@pytest.mark.parametrize("rank", [1, 2])
def test_one_or_two_components_need_no_moves(rank):
    fractions, levels, _ = problem()
    found = split_and_merge(fractions, levels, rank, np.random.default_rng(0))
    np.testing.assert_allclose(found.best.posterior.sum(axis=1), 1.0)


def test_the_same_seed_gives_the_same_result_and_an_interrupt_keeps_what_was_reached():
    fractions, levels, _ = problem()
    one, two = (split_and_merge(fractions, levels, 4, np.random.default_rng(5)) for _ in range(2))
    assert np.array_equal(one.best.posterior, two.best.posterior)
    calls = []

    def interrupt():
        calls.append(1)
        raise KeyboardInterrupt

    found = split_and_merge(fractions, levels, 4, np.random.default_rng(5), check=interrupt)
    assert (found.status, len(calls)) == (StopReason.INTERRUPTED, 1)
    assert np.isfinite(found.best.value)
