"""Student's t with four degrees of freedom, against scipy."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from tensorly_smp.densities.conditionals import StudentBackground

CENTER, SCALE = np.array([-2.0, 0.5, 7.0]), np.array([0.3, 1.0, 4.0])
POINTS = np.array([-1e4, -30.0, -2.0, 0.0, 0.49, 0.51, 7.0, 25.0, 1e5])


@pytest.fixture
def background():
    return StudentBackground(CENTER, SCALE)


def test_density_and_tails(background):
    reference = stats.t(4, CENTER, SCALE)
    np.testing.assert_allclose(background.logpdf(POINTS), reference.logpdf(POINTS[:, None]), rtol=1e-12)
    np.testing.assert_allclose(background.below(POINTS), reference.cdf(POINTS[:, None]), rtol=1e-10)
    np.testing.assert_allclose(background.above(POINTS), reference.sf(POINTS[:, None]), rtol=1e-10)


@pytest.mark.parametrize("component", range(3))
def test_quantiles_invert_the_tails(background, component):
    q = np.array([1e-200, 1e-30, 1e-6, 0.01, 0.3, 0.5])
    low, high = background.lower_quantile(q, component), background.upper_quantile(q, component)
    np.testing.assert_allclose(background.below(low)[:, component], q, rtol=1e-10)
    np.testing.assert_allclose(background.above(high)[:, component], q, rtol=1e-10)


def test_matching_mean_and_variance():
    matched = StudentBackground.matching(np.array([1.0, -3.0]), np.array([4.0, 0.25]))
    mean, variance = stats.t(4, matched.center, matched.scale).stats("mv")
    np.testing.assert_allclose(mean, [1.0, -3.0])
    np.testing.assert_allclose(variance, [4.0, 0.25])


@pytest.mark.parametrize("limits", [(-3.0, 9.0), (0.0, 1.0), (-40.0, 60.0)])
def test_tail_moments(background, limits):
    first, second = background.tail_moments(*limits)
    for r, (center, scale) in enumerate(zip(CENTER, SCALE, strict=True)):
        density = stats.t(4, center, scale).pdf
        for power, moment in ((1, first[r]), (2, second[r])):
            pieces = [
                quad(lambda x, p=power, c=center, f=density: (x - c) ** p * f(x), low, high, epsabs=1e-11, limit=200)[0]
                for low, high in [(-np.inf, limits[0]), (limits[1], np.inf)]
            ]
            assert moment == pytest.approx(sum(pieces), abs=1e-8, rel=1e-6)


def test_any_finite_point_has_a_finite_logarithm(background):
    far = np.array([-1e300, 1e300])
    assert np.isfinite(background.logpdf(far)).all()
    np.testing.assert_array_equal(background.below(far), [[0] * 3, [1] * 3])
