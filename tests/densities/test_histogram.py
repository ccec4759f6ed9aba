import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorly_smp.densities.conditionals import histogram_conditionals


@given(st.lists(st.floats(-1e300, 1e300), min_size=3, max_size=8, unique=True))
def test_edges_that_differ_are_knots_that_differ(edges):
    edges = np.sort(edges)
    if np.diff(edges).min() < 1e-290 or np.diff(edges).min() < 1e-280 * np.ptp(edges):
        return
    probabilities = np.full((len(edges) - 1, 1), 1.0 / (len(edges) - 1))
    made = histogram_conditionals(edges, probabilities)
    assert (np.diff(made.knots) > 0).all()
    assert np.isfinite(made.logpdf(edges)).all()
    below = made.cdf(edges)[:, 0]
    assert (np.diff(below) >= 0).all()
    assert below[-1] == pytest.approx(1.0, abs=0.011)


def test_mirrored_bins_have_mirrored_densities():
    edges, probabilities = np.array([-3e17, -1e17, 0.5, 1.5, 2.5]), np.array([0.1, 0.4, 0.3, 0.2])[:, None]
    made = histogram_conditionals(edges, probabilities)
    mirrored = histogram_conditionals(-edges[::-1], probabilities[::-1])
    x = np.array([-2e17, -1.0, 1.0, 2.0, 5.0])
    np.testing.assert_allclose(made.logpdf(x), mirrored.logpdf(-x), rtol=1e-12)
