"""Weighted quantiles and counts are those of repeated values."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tensorly_smp.codes.weighted_values import counted_values, quantiles

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
