"""Weighted quantiles and counts are those of repeated values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tensorly_smp.codes.weighted_values import (
    counted_values,
    effective_size,
    evenly_weighted,
    merge_equal_rows,
    quantiles,
)

VALUES = hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(-1e6, 1e6))
SHARES = [0.0, 0.005, 0.25, 0.5, 0.9, 1.0]


@given(values=VALUES, data=st.data())
def test_integer_weights_are_repeated_values_to_the_last_bit(values, data):
    weights = data.draw(hnp.arrays(np.int64, len(values), elements=st.integers(1, 5)))
    repeated = np.repeat(values, weights)
    np.testing.assert_array_equal(quantiles(values, SHARES, weights.astype(float)), np.quantile(repeated, SHARES))
    for found, expected in zip(
        counted_values(values, weights.astype(float)), np.unique(repeated, return_counts=True), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


@given(values=VALUES)
def test_without_weights_they_are_those_of_numpy(values):
    np.testing.assert_array_equal(quantiles(values, SHARES), np.quantile(values, SHARES))
    np.testing.assert_array_equal(counted_values(values)[1], np.unique(values, return_counts=True)[1])


@given(values=VALUES, data=st.data())
def test_any_weights_give_quantiles_in_order_and_within_the_values(values, data):
    weights = data.draw(hnp.arrays(np.float64, len(values), elements=st.floats(1e-9, 1e9)))
    found = quantiles(values, SHARES, weights)
    assert (np.diff(found) >= -1e-9 * np.abs(values).max()).all()
    assert found.min() >= values.min()
    assert found.max() <= values.max()


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
def test_counts_are_copies(counts):
    assert effective_size(counts.astype(float)) == counts.sum()
    rows, repeats = evenly_weighted(counts.astype(float), counts.sum())
    assert np.repeat(rows, repeats).tolist() == np.repeat(np.arange(len(counts)), counts).tolist()


def test_weights_that_are_no_counts_are_worth_fewer_samples_where_they_are_uneven():
    assert effective_size(np.full(5, 0.1)) == effective_size(np.full(5, 1e-300)) == 5.0
    assert effective_size(np.array([1.5, 0.5, 1e-9])) == pytest.approx(1.6)
