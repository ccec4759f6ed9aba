"""A bin for each of a few values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorly_smp.codes.categories import category_edges


@given(st.lists(st.integers(-1000, 1000), min_size=2, max_size=20, unique=True))
def test_every_value_is_alone_in_its_bin(values):
    values = np.sort(np.array(values, dtype=float))
    edges = category_edges(values)
    np.testing.assert_array_equal(np.searchsorted(edges, values, side="right") - 1, np.arange(len(values)))
    assert (np.diff(edges) > 0).all()


def test_consecutive_integers_have_bins_of_width_one():
    np.testing.assert_array_equal(category_edges(np.arange(3.0)), [-0.5, 0.5, 1.5, 2.5])


@pytest.mark.parametrize(("bounds", "ends"), [((0.0, None), (0.0, 2.5)), ((-9.0, 2.0), (-0.5, 2.0)), ((0, 2), (0, 2))])
def test_no_edge_beyond_the_bounds(bounds, ends):
    edges = category_edges(np.arange(3.0), *bounds)
    assert (edges[0], edges[-1]) == ends


def test_values_too_large_for_edges():
    assert not np.isfinite(category_edges(np.array([-1.7e308, 0.0, 1.7e308]))).all()
