"""A part of samples stands for all; weights are copies; the nearest of a few values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tensorly_smp.samples import values as sample_values
from tensorly_smp.samples.values import (
    effective_size,
    evenly_spaced,
    evenly_weighted,
    merge_equal_rows,
    nearest,
    quantiles,
    ranges,
    representative,
    subsample_evenly,
)

VALUES = hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(-1e6, 1e6))
SHARES = [0.0, 0.005, 0.25, 0.5, 0.9, 1.0]


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(sample_values, "MOST_ROWS", 10)


@given(n=st.integers(0, 10_000_000), n_variables=st.integers(1, 100_000))
def test_positions_are_distinct_in_order_and_even(n, n_variables):
    rows = evenly_spaced(n, n_variables)
    assert min(n, sample_values.LEAST_ROWS) <= len(rows) <= min(n, sample_values.MOST_ROWS)
    assert len(rows) <= max(sample_values.LEAST_ROWS, sample_values.MOST_ENTRIES / n_variables)
    if n:
        gaps = np.diff(rows)
        assert rows[0] == 0
        assert rows[-1] < n
        assert len(gaps) == 0 or (gaps.min() >= 1 and gaps.max() - gaps.min() <= 1)


def test_few_samples_are_all_taken(few):
    values, weights = np.arange(20.0).reshape(10, 2), np.ones(10)
    assert representative(values, weights)[0] is values
    assert representative(values, None) == (values, None)
    assert subsample_evenly(values, None)[0] is values
    many = np.zeros((1000, 3))
    assert representative(many, np.ones(3))[0] is many  # unusable weights are for others to refuse
    assert np.isnan(ranges(np.empty((0, 2)))).all()
    found = ranges(np.array([[np.nan, 1.0], [np.nan, 3.0]]))
    assert np.array_equal(found, [[np.nan, 1.0], [np.nan, 3.0]], equal_nan=True)


def test_extremes_are_among_the_representatives(few):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(1000, 3))
    values[rng.random(values.shape) < 0.2] = np.nan
    kept, weights = representative(values, None)
    assert weights is None
    assert len(kept) == 12
    assert np.array_equal(ranges(kept), ranges(values))
    assert np.array_equal(kept[:10], values[np.arange(10) * 100], equal_nan=True)


def test_samples_of_no_weight_set_no_range_of_those_that_count(few):
    values = np.arange(1000.0)[:, None] * [1.0, -1.0, 2.0]
    sample_weight = np.zeros(1000)
    sample_weight[100:200] = 3.0
    kept, weights = representative(values, sample_weight)
    assert np.array_equal(ranges(kept[weights > 0]), ranges(values[100:200]))
    assert np.array_equal(ranges(kept), ranges(values))
    assert weights[-4:-2].tolist() == [weights[:10].mean()] * 2
    for found, expected in zip(subsample_evenly(values, sample_weight), (values[[100]], [3.0]), strict=True):
        assert np.array_equal(found, expected)


@given(values=VALUES, data=st.data())
def test_integer_weights_are_repeated_values_to_the_last_bit_and_any_give_quantiles_in_order(values, data):
    np.testing.assert_array_equal(quantiles(values, SHARES), np.quantile(values, SHARES))
    weights = data.draw(hnp.arrays(np.int64, len(values), elements=st.integers(1, 5)))
    repeated = np.repeat(values, weights)
    np.testing.assert_array_equal(quantiles(values, SHARES, weights.astype(float)), np.quantile(repeated, SHARES))
    weights = data.draw(hnp.arrays(np.float64, len(values), elements=st.floats(1e-9, 1e9)))
    found = quantiles(values, SHARES, weights)
    assert (np.diff(found) >= -1e-9 * np.abs(values).max()).all()
    assert values.min() <= found.min() <= found.max() <= values.max()


def test_weights_below_one_are_shares():
    values, weights = np.random.default_rng(0).normal(size=50), np.random.default_rng(1).random(50)
    found = quantiles(values, SHARES, weights)
    np.testing.assert_allclose(found, quantiles(values, SHARES, weights / weights.sum()), rtol=1e-9)
    np.testing.assert_allclose(quantiles(values, SHARES, np.full(50, 0.02)), np.quantile(values, SHARES), rtol=1e-9)


@given(st.integers(0, 10**9), st.booleans())
def test_equal_rows_are_merged_as_loops_merge_them(seed, weighted):
    rng = np.random.default_rng(seed)
    values = rng.choice([-0.0, 0.0, 1.5, np.nan], size=(30, rng.integers(1, 4)))
    weights = rng.integers(0, 4, 30).astype(float) if weighted else None
    expected: dict[str, float] = {}
    for m, row in enumerate(values):
        key = str((row + 0.0).tolist())
        expected[key] = expected.get(key, 0.0) + (1.0 if weights is None else weights[m])
    merged, counts = merge_equal_rows(values, weights)
    assert [str((row + 0.0).tolist()) for row in merged] == list(expected)
    assert (counts is None and len(merged) == 30) or counts.tolist() == list(expected.values())


def test_different_rows_stay_as_they_are():
    values = np.random.default_rng(0).normal(size=(20, 3))
    values[::2, 0] = values[1::2, 1] = np.nan
    for weights in (None, np.arange(20.0)):
        merged, counts = merge_equal_rows(values, weights)
        assert merged is values
        assert counts is weights


@given(counts=hnp.arrays(np.int64, st.integers(1, 20), elements=st.integers(0, 5)).filter(np.any))
def test_counts_are_copies_and_other_weights_worth_fewer_samples_where_they_are_uneven(counts):
    assert effective_size(counts.astype(float)) == counts.sum()
    rows, repeats = evenly_weighted(counts.astype(float), counts.sum())
    assert np.repeat(rows, repeats).tolist() == np.repeat(np.arange(len(counts)), counts).tolist()
    assert effective_size(np.full(5, 0.1)) == effective_size(np.full(5, 1e-300)) == 5.0
    assert effective_size(np.array([1.5, 0.5, 1e-9])) == pytest.approx(1.6)


@given(
    st.lists(st.integers(-1000, 1000), min_size=1, max_size=20, unique=True),
    st.lists(st.integers(-1100, 1100), min_size=1, max_size=20),
)
def test_nearest_value_is_that_of_a_loop(values, points):
    values = np.sort(np.array(values, dtype=float))
    for x, position in zip(points, nearest(values, np.array(points, dtype=float)), strict=True):
        assert abs(values[position] - x) == min(abs(value - x) for value in values)
    assert nearest(np.array([-1.7e308, 1.7e308]), np.array([-1e308, 1e308])).tolist() == [0, 1]
