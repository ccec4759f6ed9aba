"""Log-spline densities of one variable: what makes them those of their splines, in any coordinate."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from oracles import rough_splines
from rooms import smooth_densities
from scipy import stats

import tensorly_smp as smp
from tensorly_smp.densities.conditionals import NO_BOUNDS
from tensorly_smp.densities.smooth import BACKGROUND_SAMPLES, BACKGROUND_SPREAD, background_share
from tensorly_smp.splines.basis import ArcsinhTransform, spline_basis

LOW, HIGH = -2.0, 5.0
BASIS = spline_basis(24)
SHARES = np.array([1e-12, 1e-6, 0.01, 0.2, 0.5, 0.77, 0.99, 1 - 1e-6])


@example(0.0, 5.0, 80)  # two ends at which this was wrong
@example(0.0, 10.0, 80)
@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.sampled_from([24, 80]))
def test_a_value_at_a_bound_is_not_beyond_it(low, width, n_basis):
    # By rounding, (high - low) / unit may exceed the number of cells.
    high = low + width
    flat = np.zeros((n_basis, 1))
    conditionals = smooth_densities(spline_basis(n_basis), flat, low, high, np.array([1e-3]), (low, high))
    points = np.array([low, np.nextafter(low, high), 0.5 * low + 0.5 * high, np.nextafter(high, low), high])
    np.testing.assert_allclose(conditionals.pdf(points)[:, 0] * (high - low), 1.0, atol=2e-3)


# ---- splines ----


@given(st.integers(0, 10**6))
def test_follows_the_spline(seed):
    coefficients = rough_splines(BASIS, seed, rank=2, roughness=1.0)
    conditionals = smooth_densities(BASIS, coefficients, LOW, HIGH, np.full(2, 1e-13))
    t = np.linspace(0, 1, BASIS.n_cells + 1)
    logs, found = BASIS.values(t) @ coefficients, conditionals.logpdf(LOW + (HIGH - LOW) * t)
    clear = logs > logs.max(axis=0) - 15  # above the background
    difference = found - logs
    reference = np.array([np.median(difference[clear[:, r], r]) for r in range(2)])
    np.testing.assert_allclose((difference - reference)[clear], 0.0, atol=1e-4)


def test_quadratic_logarithms_are_gaussians():
    basis, truth = spline_basis(80), stats.norm(1.3, 0.6)
    shares = truth.pdf(LOW + (HIGH - LOW) * basis.centers)[:, None]
    gaussian = basis.gaussian(shares / shares.sum())
    conditionals = smooth_densities(basis, gaussian, LOW, HIGH, np.array([1e-6]))
    x = np.linspace(-1.0, 3.5, 50)
    np.testing.assert_allclose(conditionals.pdf(x)[:, 0], truth.pdf(x), atol=1e-3)
    np.testing.assert_allclose(conditionals.quantile(SHARES[2:-1], 0), truth.ppf(SHARES[2:-1]), atol=2e-3)
    np.testing.assert_allclose(conditionals.mean(), 1.3, atol=1e-4)
    np.testing.assert_allclose(conditionals.variance(), 0.36, rtol=2e-3)


@given(st.integers(0, 10**6), st.floats(-500, 500))
def test_a_constant_changes_nothing(seed, constant):
    x, coefficients, share = np.linspace(LOW - 1, HIGH + 1, 50), rough_splines(BASIS, seed), np.full(3, 0.01)
    plain, raised = (
        smooth_densities(BASIS, beta, LOW, HIGH, share) for beta in (coefficients, coefficients + constant)
    )
    np.testing.assert_allclose(raised.logpdf(x), plain.logpdf(x), atol=1e-9)


@pytest.mark.parametrize(("origin", "scale"), [(1e12, 1e3), (-3e-5, 1e-9), (0.0, 1e200)])
@pytest.mark.parametrize("bounds", [NO_BOUNDS, (LOW, np.inf), (LOW - 1, HIGH)])
def test_location_and_scale_carry_over(origin, scale, bounds):
    coefficients, share = rough_splines(BASIS, 3), np.full(3, 0.01)
    plain = smooth_densities(BASIS, coefficients, LOW, HIGH, share, bounds)
    ends = [origin + scale * end for end in (LOW, HIGH, *bounds)]
    moved = smooth_densities(BASIS, coefficients, *ends[:2], share, tuple(ends[2:]))
    x = np.linspace(LOW - 0.75, HIGH + 2, 89)  # fractions of two: exact at the farther origin
    x = x[(x > bounds[0]) & (x < bounds[1])]
    np.testing.assert_allclose(moved.logpdf(origin + scale * x) + np.log(scale), plain.logpdf(x), atol=1e-6)
    np.testing.assert_allclose(moved.cdf(origin + scale * x), plain.cdf(x), atol=1e-6)
    np.testing.assert_allclose((moved.mean() - origin) / scale, plain.mean(), atol=1e-6)


# ---- background ----


@given(st.floats(0, 1e9))
def test_share_of_the_background(n_samples):
    share, more = background_share(np.array([n_samples, 2 * n_samples + 1]))
    assert 0 < more <= share <= 0.05
    if n_samples >= BACKGROUND_SAMPLES / 0.05:
        assert share * n_samples == pytest.approx(BACKGROUND_SAMPLES)


@pytest.mark.parametrize("bounds", [NO_BOUNDS, (LOW - 3.0, HIGH + 40.0)])
def test_outside_the_grid_there_is_the_background(bounds):
    share = np.array([0.05, 0.001])
    conditionals = smooth_densities(BASIS, rough_splines(BASIS, 4, rank=2), LOW, HIGH, share, bounds)
    x = np.array([LOW - 2.5, LOW - 0.1, HIGH + 0.1, HIGH + 30.0])
    inner = smooth_densities(BASIS, rough_splines(BASIS, 4, rank=2), LOW, HIGH, np.full(2, 1e-12))
    scale = np.sqrt(BACKGROUND_SPREAD**2 * inner.variance() / 2)
    expected = share * stats.t(df=4, loc=inner.mean(), scale=scale).pdf(x[:, None])
    np.testing.assert_allclose(conditionals.pdf(x), expected, rtol=1e-2)


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.DependenceWarning")  # two groups, one component
@pytest.mark.parametrize(("seed", "criterion"), [(0, "reml"), (1, "aic"), (1, "bic")])
def test_single_far_values_do_not_outweigh_the_others(criterion, seed):
    # Cauchy samples: a few are alone in the outermost cells.
    rng = np.random.default_rng(seed)
    X = rng.standard_cauchy((300, 3)) + 6 * rng.integers(0, 2, 300)[:, None]
    model = smp.SmoothProductMixture(1, penalty=criterion, random_state=0).fit(X)
    for n, name in enumerate(model.density_.variables):
        below = model.density_.cdf_1d(np.quantile(X[:, n], [0.25, 0.5, 0.75]), name)
        np.testing.assert_allclose(below, [0.25, 0.5, 0.75], atol=0.15)
    assert model.score(X) > -16.0


@pytest.mark.parametrize("bounds", [NO_BOUNDS, (0.0, np.inf), (0.0, 1e5)])
def test_densities_in_another_coordinate_are_densities_of_the_variable(bounds):
    transform = ArcsinhTransform(1.0, 0.5)
    low, high = 0.0, 1e5
    share = background_share(np.full(3, 1e4))
    found = smooth_densities(BASIS, rough_splines(BASIS, 4), low, high, share, bounds, transform)
    x = transform.center + transform.scale * transform.knots(low, high, BASIS.n_cells)
    # The definition: exp of the spline at u(x), times du/dx; background and linear pieces change little here.
    t = np.linspace(0.0, 1.0, BASIS.n_cells + 1)
    slope = 1.0 / np.hypot(x - transform.center, transform.scale)
    expected = np.exp(BASIS.values(t) @ rough_splines(BASIS, 4)) * slope[:, None]
    ratio = found.pdf(x) / expected
    visible = found.pdf(x) > 1e2 * share * np.exp(found.background.logpdf((x - found.origin) / found.unit)) / found.unit
    assert visible.sum() > BASIS.n_cells
    for r in range(3):
        kept = ratio[visible[:, r], r]
        np.testing.assert_allclose(kept, np.median(kept), rtol=0.02)
    inside = found.cdf(x)
    heights = found.pdf(x)
    areas = 0.5 * (heights[1:] + heights[:-1]) * np.diff(x)[:, None]
    np.testing.assert_allclose(np.diff(inside, axis=0), areas, atol=1e-9)
    for r in range(3):
        q = np.array([0.01, 0.3, 0.9])
        np.testing.assert_allclose(found.cdf(found.quantile(q, r))[:, r], q, atol=1e-9)


@pytest.mark.parametrize("bin_number", [0, 7])
def test_a_component_that_fills_an_outermost_bin_stays_within_the_range(bin_number):
    edges = np.array([0.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 20.0])
    full = np.eye(8)[bin_number]
    factor = np.column_stack([np.full(8, 1 / 8), full, 0.92 * full + 0.01])
    factors = smp.MixtureFactors(np.full(3, 1 / 3), [factor], smp.Binning([edges], ("x",)))
    density = smp.reconstruct_density(factors, "logspline")
    below, above = density.cdf_1d([0.0, 20.0], "x", "all")
    assert below.max() < 0.01
    assert (1 - above).max() < 0.01
    np.testing.assert_allclose(np.diff(density.cdf_1d(edges, "x", "all"), axis=0), factor, atol=0.06)
