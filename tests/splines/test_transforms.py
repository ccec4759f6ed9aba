"""The coordinate in which cells are equally wide."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorly_smp.splines.basis import LINEAR, ArcsinhTransform


@given(st.floats(-1e3, 1e3), st.floats(1e-3, 1e6), st.floats(-20, 20))
def test_knots_are_equally_wide_in_the_coordinate_and_end_where_they_should(center, scale, u):
    transform = ArcsinhTransform(center, scale)
    assert transform.forward(transform.inverse(np.array([u])))[0] == pytest.approx(u, abs=1e-8)
    low, high = center - 3.0 * scale, center + 1e4 * scale
    knots = transform.knots(low, high, 50)
    assert (np.diff(knots) > 0).all()
    assert knots[0] == (low - center) / scale
    assert knots[-1] == (high - center) / scale
    widths = np.diff(np.arcsinh(knots))
    np.testing.assert_allclose(widths, widths.mean(), rtol=1e-6)


def test_like_the_variable_near_the_center_and_like_its_logarithm_far_away():
    transform = ArcsinhTransform(5.0, 2.0)
    near = 5.0 + 2.0 * np.linspace(-0.01, 0.01, 5)
    np.testing.assert_allclose(transform.forward(near), (near - 5.0) / 2.0, atol=1e-6)
    far = 5.0 + np.array([1e6, 1e7])
    assert np.diff(transform.forward(far))[0] == pytest.approx(np.log(10.0))
    assert transform.forward(np.array([np.nan, 1e308])).tolist()[1] > 700


def test_values_beyond_all_floats_stay_finite():
    transform = ArcsinhTransform(-1e308, 1e-3)
    assert np.isfinite(transform.forward(np.array([-1.7e308, 1.7e308]))).all()
    knots = transform.knots(-1.7e308, 1.7e308, 20)
    assert np.isfinite(knots).all()
    assert (np.diff(knots) > 0).all()


def test_the_variable_itself():
    x = np.array([1.0, -1e300, np.nan])
    assert LINEAR.is_linear
    assert LINEAR.forward(x) is x
    assert LINEAR.inverse(x) is x
    assert not ArcsinhTransform(0.0, 1.0).is_linear
