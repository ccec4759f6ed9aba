import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorly_smp.search.overlapping_bins import Fractions
from tensorly_smp.search.seeds import canonical, distances, draw, seeded_posteriors, thinned


def fractions_of(values, weights=None):
    return Fractions.of(values, (), np.ones(len(values)) if weights is None else weights)


def in_order(fractions):
    """Rows with their weights, whatever the order and the direction of the variables."""
    return np.sort(np.abs(fractions.centered), axis=1), fractions.weights


@given(st.integers(0, 10**9), st.booleans())
def test_order_of_rows_and_variables_and_their_signs_change_nothing(seed, missing):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(30, 4)) @ rng.normal(size=(4, 4)) + rng.exponential(size=(30, 4))
    if missing:
        values[rng.random(values.shape) < 0.1] = np.nan
    expected = canonical(fractions_of(values))
    variables = rng.permutation(4)
    moved = values[rng.permutation(30)][:, variables] * rng.choice([-1.0, 1.0], 4)
    for found, other in zip(in_order(canonical(fractions_of(moved))), in_order(expected), strict=True):
        np.testing.assert_allclose(found, other, atol=1e-12)


@given(st.integers(0, 10**9))
def test_repeats_are_weights(seed):
    rng = np.random.default_rng(seed)
    values, counts = rng.normal(size=(20, 3)), rng.integers(1, 4, 20)
    weighted = canonical(fractions_of(values, counts.astype(float)))
    repeated = canonical(fractions_of(np.repeat(values, counts, axis=0)))
    assert np.array_equal(weighted.weights, repeated.weights)
    np.testing.assert_allclose(weighted.values, repeated.values, atol=1e-12)


@pytest.mark.parametrize("n_variables", [4, 6, 8])
def test_different_patterns_stay_different(n_variables):
    # Ranks of binary items are half apart, where sums of multiples of the golden ratio coincide.
    rng = np.random.default_rng(n_variables)
    patterns = np.stack(np.meshgrid(*[[0.0, 1.0]] * n_variables), axis=-1).reshape(-1, n_variables)
    counts = rng.integers(1, 50, len(patterns)).astype(float)
    expected = canonical(fractions_of(patterns, counts))
    assert sorted(expected.weights) == sorted(counts)
    order = rng.permutation(len(patterns))
    found = canonical(fractions_of(patterns[order][:, ::-1], counts[order]))
    assert found.weights.tolist() == expected.weights.tolist()
    assert np.array_equal(found.values[:, ::-1], expected.values)


@pytest.mark.parametrize("rank", [2, 20, 100])
def test_many_samples_are_thinned_to_equal_weights(rank):
    fractions = fractions_of(np.random.default_rng(0).normal(size=(10_000, 3)))
    found = thinned(canonical(fractions), rank)
    assert len(found.values) == {2: 1500, 20: 3000, 100: 4500}[rank]
    assert found.weights.sum() == pytest.approx(10_000)
    np.testing.assert_allclose(found.weights, 10_000 / len(found.values))
    assert thinned(fractions, 100_000) is not fractions
    few = fractions.take(np.arange(100), np.ones(100))
    assert thinned(few, rank) is few


def test_draws_follow_the_weights():
    cumulated = np.cumsum([[1.0], [0.0], [3.0]], axis=0)
    found = [draw(cumulated, np.array([u]))[0] for u in (0.0, 0.2, 0.3, 0.999, 1.0)]
    assert found == [0, 0, 2, 2, 2]


def test_distances_by_hand():
    fractions = fractions_of(np.random.default_rng(0).normal(size=(12, 3)))
    points = fractions.centered
    expected = ((points[:, None] - points[[3, 5]]) ** 2).sum(axis=2)
    np.testing.assert_allclose(distances(fractions, np.array([3, 5])), expected, atol=1e-12)


def test_every_sample_belongs_to_its_nearest_seed():
    fractions = fractions_of(np.random.default_rng(0).normal(size=(200, 3)))
    posterior = seeded_posteriors(fractions, 5, 2, np.random.default_rng(1))
    assert posterior.shape == (200, 2, 5)
    np.testing.assert_allclose(posterior.sum(axis=2), 1.0)
    assert (np.unique(posterior.argmax(axis=2)[:, 0]) == np.arange(5)).all()
