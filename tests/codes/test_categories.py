"""The nearest of a few values."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tensorly_smp.codes.categories import nearest


@given(
    st.lists(st.integers(-1000, 1000), min_size=1, max_size=20, unique=True),
    st.lists(st.integers(-1100, 1100), min_size=1, max_size=20),
)
def test_nearest_value_is_that_of_a_loop(values, points):
    values = np.sort(np.array(values, dtype=float))
    for x, position in zip(points, nearest(values, np.array(points, dtype=float)), strict=True):
        assert abs(values[position] - x) == min(abs(value - x) for value in values)


def test_nearest_of_the_largest_numbers():
    values = np.array([-1.7e308, 1.7e308])
    assert nearest(values, np.array([-1e308, 1e308])).tolist() == [0, 1]
