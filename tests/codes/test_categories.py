"""A bin for each of a few values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorly_smp.codes.categories import category_edges, values_of_bins


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


@given(
    st.lists(st.integers(-20, 20), min_size=1, max_size=12, unique=True),
    st.lists(st.integers(-9, 9), min_size=2, unique=True),
)
def test_values_of_bins_are_those_of_a_loop(values, edges):
    values, edges = np.sort(np.array(values, dtype=float)), np.sort(np.array(edges, dtype=float))
    inside = [[] for _ in edges[1:]]
    for value in values:  # those beyond the edges are in the outermost bins
        inside[min(max(int((edges <= value).sum()) - 1, 0), len(inside) - 1)].append(value)
    for found, drawn, center in zip(inside, values_of_bins(values, edges), (edges[1:] + edges[:-1]) / 2, strict=True):
        if len(found) > 1:
            assert np.isnan(drawn)
        elif found:
            assert drawn == found[0]
        else:
            assert drawn in values
            assert abs(drawn - center) == np.abs(values - center).min()


def test_nearest_value_of_the_largest_numbers():
    values, edges = np.array([-1.7e308, 1.7e308]), np.array([-1.7e308, -1.0e308, 0.0, 1.0e308, 1.7e308])
    np.testing.assert_array_equal(values_of_bins(values, edges), np.repeat(values, 2))


@given(st.lists(st.integers(-1000, 1000), min_size=2, max_size=20, unique=True))
def test_every_value_is_that_of_its_own_bin(values):
    values = np.sort(np.array(values, dtype=float))
    np.testing.assert_array_equal(values_of_bins(values, category_edges(values)), values)
