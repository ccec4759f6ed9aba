import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata

from tensorly_smp.search.coarse import (
    MidRanks,
    canonical,
    distances,
    draw,
    mixture_of,
    overlapping_bins,
    seeded_posteriors,
    subsample_for_search,
)


def make_values(seed, n_samples=40, n_variables=4, missing=0.1, rounded=False):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_samples, n_variables))
    values = np.round(values, 1) if rounded else values
    values[rng.random(values.shape) < missing] = np.nan
    values[0] = 0.1
    return values, rng.integers(1, 4, n_samples).astype(float)


@given(st.integers(0, 10**9), st.booleans())
def test_fractions_are_middle_ranks_and_weights_are_repeats(seed, rounded):
    values, weights = make_values(seed, rounded=rounded)
    found = MidRanks.of(values, (), weights).values
    counts = weights.astype(int)
    repeated = np.repeat(values, counts, axis=0)
    for n in range(values.shape[1]):
        column = repeated[:, n]
        expected = (rankdata(column[~np.isnan(column)]) - 0.5) / np.sum(~np.isnan(column))
        present = ~np.isnan(values[:, n])
        np.testing.assert_allclose(np.repeat(found[present, n], counts[present]), expected, atol=1e-12)
        assert np.isnan(found[~present, n]).all()


@given(st.integers(0, 10**9), st.integers(2, 20))
def test_shares_sum_to_one_and_have_the_fraction_as_their_mean(seed, n_intervals):
    values, weights = make_values(seed)
    mid_ranks = MidRanks.of(values, (), weights)
    samples = overlapping_bins(mid_ranks, n_intervals)
    knots = np.tile(np.arange(n_intervals + 1) / n_intervals, 4)
    for n in range(4):
        own = slice(n * (n_intervals + 1), (n + 1) * (n_intervals + 1))
        shares = samples.membership.toarray()[:, own]
        present = ~np.isnan(values[:, n])
        np.testing.assert_allclose(shares.sum(axis=1), present, atol=1e-12)
        np.testing.assert_allclose((shares @ knots[own])[present], mid_ranks.values[present, n], atol=1e-12)
        assert (np.count_nonzero(shares, axis=1) <= 2).all()


def test_a_discrete_variable_has_a_bin_for_each_value():
    values = np.array([[3.0, 0.1], [1.0, 0.2], [3.0, 0.3], [np.nan, 0.4], [7.0, 0.5]])
    samples = overlapping_bins(MidRanks.of(values, (0,), np.ones(5)), 4)
    assert samples.cells.offsets.tolist() == [0, 3, 8]
    assert samples.membership.toarray()[:, :3].tolist() == [[0, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize("discrete", [(), (1,)])
def test_the_objective_never_falls_and_is_that_of_a_plain_loop(discrete):
    values, weights = make_values(3, n_samples=60, rounded=True)
    samples = overlapping_bins(MidRanks.of(values, discrete, weights), 5)
    mixture = mixture_of(samples, np.random.default_rng(0).dirichlet(np.ones(3), 60))
    before = -np.inf
    for _ in range(20):
        expected, value = samples.expect(mixture, np.empty(0))
        joint = mixture.log_weights + samples.membership.toarray() @ mixture.tables
        by_hand = weights @ np.log(np.exp(joint).sum(axis=1)) + (samples.prior * mixture.tables).sum()
        assert value == pytest.approx(by_hand, rel=1e-12)
        assert value >= before - 1e-9
        before, mixture = value, samples.maximize(expected, mixture, np.empty(0))


def mid_ranks_of(values, weights=None):
    return MidRanks.of(values, (), np.ones(len(values)) if weights is None else weights)


def in_order(mid_ranks):
    """Rows with their weights, whatever the order and the direction of the variables."""
    return np.sort(np.abs(mid_ranks.centered), axis=1), mid_ranks.weights


@given(st.integers(0, 10**9), st.booleans())
def test_order_of_rows_and_variables_and_their_signs_change_nothing(seed, missing):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(30, 4)) @ rng.normal(size=(4, 4)) + rng.exponential(size=(30, 4))
    if missing:
        values[rng.random(values.shape) < 0.1] = np.nan
    expected = canonical(mid_ranks_of(values))
    variables = rng.permutation(4)
    moved = values[rng.permutation(30)][:, variables] * rng.choice([-1.0, 1.0], 4)
    for found, other in zip(in_order(canonical(mid_ranks_of(moved))), in_order(expected), strict=True):
        np.testing.assert_allclose(found, other, atol=1e-12)


@given(st.integers(0, 10**9))
def test_repeats_are_weights(seed):
    rng = np.random.default_rng(seed)
    values, counts = rng.normal(size=(20, 3)), rng.integers(1, 4, 20)
    weighted = canonical(mid_ranks_of(values, counts.astype(float)))
    repeated = canonical(mid_ranks_of(np.repeat(values, counts, axis=0)))
    assert np.array_equal(weighted.weights, repeated.weights)
    np.testing.assert_allclose(weighted.values, repeated.values, atol=1e-12)


@pytest.mark.parametrize("n_variables", [4, 6, 8])
def test_different_patterns_stay_different(n_variables):
    # Ranks of binary items are half apart, where sums of multiples of the golden ratio coincide.
    rng = np.random.default_rng(n_variables)
    patterns = np.stack(np.meshgrid(*[[0.0, 1.0]] * n_variables), axis=-1).reshape(-1, n_variables)
    counts = rng.integers(1, 50, len(patterns)).astype(float)
    expected = canonical(mid_ranks_of(patterns, counts))
    assert sorted(expected.weights) == sorted(counts)
    order = rng.permutation(len(patterns))
    found = canonical(mid_ranks_of(patterns[order][:, ::-1], counts[order]))
    assert found.weights.tolist() == expected.weights.tolist()
    assert np.array_equal(found.values[:, ::-1], expected.values)


@pytest.mark.parametrize("rank", [2, 20, 100])
def test_many_samples_are_thinned_to_equal_weights(rank):
    mid_ranks = mid_ranks_of(np.random.default_rng(0).normal(size=(10_000, 3)))
    found = subsample_for_search(canonical(mid_ranks), rank)
    assert len(found.values) == {2: 1500, 20: 3000, 100: 4500}[rank]
    assert found.weights.sum() == pytest.approx(10_000)
    np.testing.assert_allclose(found.weights, 10_000 / len(found.values))
    assert subsample_for_search(mid_ranks, 100_000) is not mid_ranks
    few = mid_ranks.take(np.arange(100), np.ones(100))
    assert subsample_for_search(few, rank) is few


def test_distances_draws_and_seeds():
    mid_ranks = mid_ranks_of(np.random.default_rng(0).normal(size=(200, 3)))
    points = mid_ranks.centered
    expected = ((points[:, None] - points[[3, 5]]) ** 2).sum(axis=2)
    np.testing.assert_allclose(distances(mid_ranks, np.array([3, 5])), expected, atol=1e-12)
    cumulated = np.cumsum([[1.0], [0.0], [3.0]], axis=0)
    found = [draw(cumulated, np.array([u]))[0] for u in (0.0, 0.2, 0.3, 0.999, 1.0)]
    assert found == [0, 0, 2, 2, 2]
    # Every sample belongs to its nearest seed.
    posterior = seeded_posteriors(mid_ranks, 5, 2, np.random.default_rng(1))
    assert posterior.shape == (200, 2, 5)
    np.testing.assert_allclose(posterior.sum(axis=2), 1.0)
    assert (np.unique(posterior.argmax(axis=2)[:, 0]) == np.arange(5)).all()
