import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorly_smp.codes import thinning
from tensorly_smp.codes.thinning import evenly_spaced, ranges, representative, thinned


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(thinning, "MOST_ROWS", 10)


@given(n=st.integers(0, 10_000_000), n_variables=st.integers(1, 100_000))
def test_positions_are_distinct_in_order_and_even(n, n_variables):
    rows = evenly_spaced(n, n_variables)
    assert min(n, thinning.LEAST_ROWS) <= len(rows) <= min(n, thinning.MOST_ROWS)
    assert len(rows) <= max(thinning.LEAST_ROWS, thinning.MOST_ENTRIES / n_variables)
    if n:
        gaps = np.diff(rows)
        assert rows[0] == 0
        assert rows[-1] < n
        assert len(gaps) == 0 or (gaps.min() >= 1 and gaps.max() - gaps.min() <= 1)


def test_few_samples_are_all_taken(few):
    values, weights = np.arange(20.0).reshape(10, 2), np.ones(10)
    assert representative(values, weights)[0] is values
    assert representative(values, None) == (values, None)
    assert thinned(values, None)[0] is values


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
    for found, expected in zip(thinned(values, sample_weight), (values[[100]], [3.0]), strict=True):
        assert np.array_equal(found, expected)


def test_unusable_weights_are_for_others_to_refuse(few):
    values = np.zeros((1000, 3))
    assert representative(values, np.ones(3))[0] is values


def test_range_of_nothing_is_missing():
    assert np.isnan(ranges(np.empty((0, 2)))).all()
    found = ranges(np.array([[np.nan, 1.0], [np.nan, 3.0]]))
    assert np.array_equal(found, [[np.nan, 1.0], [np.nan, 3.0]], equal_nan=True)
