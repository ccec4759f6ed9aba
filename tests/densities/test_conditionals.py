"""Conditional densities of one variable, smooth and histogram: what makes them densities, for any bin probabilities."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from tensorly_smp.densities.conditionals import (
    BACKGROUND_SHARE,
    GridConditionals,
    StudentBackground,
    bin_moments,
    histogram_conditionals,
)
from tensorly_smp.densities.mixture_density import mixture_quantile
from tensorly_smp.densities.sinc import (
    MARGIN_POINTS,
    POINTS_PER_BIN,
    POLYGON_SHARE,
    band_limited_basis,
    frequency_polygon,
    grid_points,
    project_above,
    sinc_conditionals,
    sinc_step_derivative,
    trapezoid_weights,
)

MAKERS = {"sinc": lambda *pair: sinc_conditionals(*pair)[0], "histogram": histogram_conditionals}
SHARES = np.array([1e-9, 1e-4, 0.01, 0.2, 0.5, 0.77, 0.99, 1 - 1e-4])


@st.composite
def bin_probabilities(draw):
    """Columns (n_bins, rank): random ones of any roughness, one-hot, uniform, with zeros at the ends."""
    n_bins, rank = draw(st.integers(2, 25)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    kinds = st.sampled_from(["rough", "smooth", "one-hot", "uniform", "zeros at the ends"])
    columns = []
    for kind in draw(st.lists(kinds, min_size=rank, max_size=rank)):
        column = rng.dirichlet(np.full(n_bins, 0.2 if kind == "rough" else 5.0))
        if kind == "one-hot":
            column = np.eye(n_bins)[rng.integers(n_bins)]
        elif kind == "uniform":
            column = np.full(n_bins, 1 / n_bins)
        elif kind == "zeros at the ends" and n_bins > 4:
            column[[0, 1, -1]] = 0
        columns.append(column / column.sum())
    return np.stack(columns, axis=1)


def uniform_edges(probabilities, origin=-1.5, width=0.7):
    return origin + width * np.arange(len(probabilities) + 1)


def integral(conditionals, power=0):
    """Of x^power times every density over the whole line (rank,): Simpson in every cell, quadrature in the tails."""
    knots = conditionals.origin + conditionals.unit * conditionals.knots
    # Inside the cells: histograms jump at the knots. Open formula of degree three.
    nodes = knots[:-1, None] + np.diff(knots)[:, None] * (0.5 + np.array([-0.5, 0.5]) / np.sqrt(3))
    values = conditionals.pdf(nodes) * nodes[..., None] ** power
    total = (np.diff(knots)[:, None] * values.mean(axis=1)).sum(axis=0)
    for r in range(conditionals.rank):
        for low, high in [(-np.inf, knots[0]), (knots[-1], np.inf)]:
            total[r] += quad(lambda x, r=r: x**power * conditionals.pdf(np.array(x))[r], low, high, limit=300)[0]
    return total


@pytest.mark.parametrize("method", MAKERS)
@settings(max_examples=12)
@given(probabilities=bin_probabilities())
def test_integrates_to_one(method, probabilities):
    conditionals = MAKERS[method](uniform_edges(probabilities), probabilities)
    np.testing.assert_allclose(integral(conditionals), 1.0, atol=1e-7)


@pytest.mark.parametrize("method", MAKERS)
@settings(max_examples=12)
@given(probabilities=bin_probabilities())
def test_moments_are_those_of_the_density(method, probabilities):
    conditionals = MAKERS[method](uniform_edges(probabilities), probabilities)
    mean = integral(conditionals, 1)
    np.testing.assert_allclose(conditionals.mean(), mean, atol=1e-5)
    np.testing.assert_allclose(conditionals.variance(), integral(conditionals, 2) - mean**2, rtol=2e-3)
    assert (conditionals.variance() > 0).all()


@pytest.mark.parametrize("method", MAKERS)
@settings(max_examples=12)
@given(probabilities=bin_probabilities())
def test_distribution_function(method, probabilities):
    edges = uniform_edges(probabilities)
    conditionals = MAKERS[method](edges, probabilities)
    span = edges[-1] - edges[0]
    x = np.unique(np.concatenate([np.linspace(edges[0] - span, edges[-1] + span, 2001), edges]))
    cdf = conditionals.cdf(np.concatenate([[-np.inf], x, [np.inf]]))
    assert (np.diff(cdf, axis=0) >= 0).all()
    np.testing.assert_array_equal(cdf[0], 0)
    np.testing.assert_array_equal(cdf[-1], 1)
    assert (conditionals.pdf(x) > 0).all()
    # Its slope is the density, away from the knots.
    middle = conditionals.origin + conditionals.unit * (conditionals.knots[1:] + conditionals.knots[:-1]) / 2
    step = 1e-3 * conditionals.unit / POINTS_PER_BIN
    slope = (conditionals.cdf(middle + step) - conditionals.cdf(middle - step)) / (2 * step)
    np.testing.assert_allclose(slope, conditionals.pdf(middle), atol=1e-9, rtol=1e-6)


@pytest.mark.parametrize("method", MAKERS)
@given(probabilities=bin_probabilities())
def test_quantile_is_the_inverse(method, probabilities):
    edges = uniform_edges(probabilities)
    conditionals = MAKERS[method](edges, probabilities)
    x = np.linspace(edges[0] - 1, edges[-1] + 1, 101)
    for r in range(conditionals.rank):
        np.testing.assert_allclose(conditionals.cdf(conditionals.quantile(SHARES, r))[:, r], SHARES, rtol=1e-9)
        # Where the density is tiny, a rounding of F moves its inverse by much.
        clear = conditionals.pdf(x)[:, r] > 1e-4
        np.testing.assert_allclose(conditionals.quantile(conditionals.cdf(x)[:, r], r)[clear], x[clear], atol=1e-9)


@given(bin_probabilities(), st.integers(0, 10**6))
def test_quantile_of_the_mixture(probabilities, seed):
    weights = np.random.default_rng(seed).dirichlet(np.ones(probabilities.shape[1]))
    conditionals = sinc_conditionals(uniform_edges(probabilities), probabilities)[0]
    x = mixture_quantile(conditionals, weights, SHARES)
    np.testing.assert_allclose(conditionals.cdf(x) @ weights, SHARES, rtol=1e-9)


@pytest.mark.parametrize("method", MAKERS)
@pytest.mark.parametrize(("origin", "width"), [(1e12, 1e3), (-1e12, 0.125), (0.0, 1e-12), (3e-12, 1e-12), (0.0, 1e200)])
def test_location_and_scale_carry_over(method, origin, width):
    probabilities = np.random.default_rng(0).dirichlet(np.ones(8), 3).T
    plain = MAKERS[method](np.arange(9.0), probabilities)
    moved = MAKERS[method](origin + width * np.arange(9.0), probabilities)
    t = np.array([-3.0, 0.0, 0.25, 3.375, 7.75, 8.0, 30.0])
    np.testing.assert_allclose(moved.logpdf(origin + width * t) + np.log(width), plain.logpdf(t), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(moved.cdf(origin + width * t), plain.cdf(t), atol=1e-6)
    np.testing.assert_allclose((moved.mean() - origin) / width, plain.mean(), atol=1e-3)
    if width < 1e150:  # else the variance is beyond float64
        np.testing.assert_allclose(moved.variance() / width / width, plain.variance(), rtol=1e-6)


@pytest.mark.parametrize("method", MAKERS)
def test_every_finite_point_has_a_finite_logarithm(method):
    conditionals = MAKERS[method](1e-12 * np.arange(401.0), np.eye(400)[:, [0, 200, 399]])
    x = np.array([-1.7e308, -1e200, -1.0, 0.0, 2e-10, 4e-10, 1.0, 1.7e308])
    assert np.isfinite(conditionals.logpdf(x)).all()


@pytest.mark.parametrize("method", MAKERS)
def test_shapes_and_a_single_point(method):
    conditionals = MAKERS[method](np.arange(6.0), np.random.default_rng(0).dirichlet(np.ones(5), 2).T)
    x = np.linspace(-2, 8, 12).reshape(3, 4)
    assert conditionals.logpdf(x).shape == conditionals.cdf(x).shape == (3, 4, 2)
    before = conditionals.left.copy(), conditionals.right.copy()
    for each in (-9.0, 0.3, 2.5, 20.0):
        np.testing.assert_array_equal(conditionals.logpdf(np.array(each)), conditionals.logpdf(np.array([each]))[0])
        np.testing.assert_array_equal(conditionals.cdf(np.array(each)), conditionals.cdf(np.array([each]))[0])
    np.testing.assert_array_equal(before, (conditionals.left, conditionals.right))
    assert conditionals.quantile(np.array(0.3), 1).shape == ()


def test_histogram_is_flat_in_every_bin_and_keeps_its_mass():
    edges, probabilities = np.array([0.0, 1.0, 1.5, 4.0]), np.array([[0.2, 0.0], [0.5, 0.0], [0.3, 1.0]])
    conditionals = histogram_conditionals(edges, probabilities)
    heights = conditionals.pdf(np.array([0.1, 0.9, 1.1, 1.4, 1.6, 3.9]))
    np.testing.assert_allclose(heights[::2], heights[1::2])
    expected = (1 - BACKGROUND_SHARE) * probabilities / np.diff(edges)[:, None]
    np.testing.assert_array_less(expected, heights[::2])
    np.testing.assert_allclose(heights[::2], expected, atol=BACKGROUND_SHARE)
    inside = np.diff(conditionals.cdf(edges), axis=0)
    np.testing.assert_allclose(inside, probabilities, atol=BACKGROUND_SHARE)


def test_bin_moments():
    edges, probabilities = np.array([0.0, 1.0, 3.0]), np.array([[0.25, 1.0], [0.75, 0.0]])
    mean, variance = bin_moments(edges, probabilities)
    np.testing.assert_allclose(mean, [0.25 * 0.5 + 0.75 * 2, 0.5])
    np.testing.assert_allclose(variance, [0.25 / 3 + 0.75 * 13 / 3 - mean[0] ** 2, 1 / 12])


@pytest.mark.parametrize("n_bins", [2, 3, 15])
def test_basis_is_the_raw_density_of_every_bin(n_bins):
    points = grid_points(n_bins)
    assert points[0] == -MARGIN_POINTS / POINTS_PER_BIN
    assert points[-1] == n_bins + MARGIN_POINTS / POINTS_PER_BIN
    raw = sinc_step_derivative(points[:, None] - np.arange(1.0, n_bins + 1.0))
    np.testing.assert_allclose(band_limited_basis(n_bins), raw, atol=1e-13)


@given(bin_probabilities())
def test_frequency_polygon(probabilities):
    n_bins = len(probabilities)
    polygon, points = frequency_polygon(probabilities), grid_points(n_bins)
    centers = np.arange(-0.5, n_bins + 1)
    for r, column in enumerate(probabilities.T):
        np.testing.assert_allclose(polygon[:, r], np.interp(points, centers, [0, *column, 0]), atol=1e-15)
    np.testing.assert_allclose(trapezoid_weights(len(points)) @ polygon, 1.0)


def nearest_by_bisection(raw, floor, weights):
    """max(raw - xi, floor) with xi found by halving, one component."""
    low, high = raw.min() - 10, raw.max() + 10
    for _ in range(200):
        xi = (low + high) / 2
        low, high = (xi, high) if weights @ np.maximum(raw - xi, floor) > 1 else (low, xi)
    return np.maximum(raw - xi, floor)


@given(bin_probabilities(), st.sampled_from([0.0, 0.5, POLYGON_SHARE, 0.99]))
def test_projection(probabilities, share):
    raw, floor = band_limited_basis(len(probabilities)) @ probabilities, share * frequency_polygon(probabilities)
    weights = trapezoid_weights(len(raw))
    nearest = project_above(raw, floor)
    assert (nearest >= floor).all()
    np.testing.assert_allclose(weights @ nearest, 1.0, atol=1e-12)
    for r in range(raw.shape[1]):
        np.testing.assert_allclose(nearest[:, r], nearest_by_bisection(raw[:, r], floor[:, r], weights), atol=1e-11)


@settings(max_examples=12)
@given(bin_probabilities())
def test_clipped_mass_is_the_negative_part(probabilities):
    edges = uniform_edges(probabilities)
    _, clipped = sinc_conditionals(edges, probabilities)
    half = 0.5 * (edges[1] - edges[0])
    x = np.linspace(edges[0] - half, edges[-1] + half, 4001)
    raw = sinc_step_derivative((x[:, None] - edges[1:]) / (2.0 * half)) @ probabilities / (2.0 * half)
    expected = np.trapezoid(np.maximum(-raw, 0), x, axis=0)
    np.testing.assert_allclose(clipped, expected, atol=5e-3)


def test_smooth_density_is_close_to_the_raw_one():
    edges = np.linspace(-8, 8, 17)
    probabilities = np.exp(-0.5 * ((edges[:-1] + 0.5) / 1.5) ** 2)[:, None]
    probabilities /= probabilities.sum()
    conditionals, clipped = sinc_conditionals(edges, probabilities)
    x = np.linspace(-8, 8, 500)
    raw = sinc_step_derivative(x[:, None] - edges[1:]) @ probabilities
    assert clipped[0] < 1e-3
    assert np.abs(conditionals.pdf(x) - raw).max() < 1.5 * BACKGROUND_SHARE * raw.max()


def test_grid_of_another_method():
    # What a later method does: any density on a fine grid.
    knots = np.linspace(-4, 4, 801)
    background = StudentBackground.matching(np.zeros(1), np.ones(1))
    values = 3 * np.exp(-(knots[:, None] ** 2) / 2)
    conditionals = GridConditionals.from_knots(10.0, 2.0, knots, values, background)
    np.testing.assert_allclose(integral(conditionals), 1.0, atol=1e-7)
    np.testing.assert_allclose(conditionals.mean(), 10.0, atol=1e-12)
    np.testing.assert_allclose(conditionals.variance(), 4.0, rtol=5e-3)


def test_cells_far_narrower_than_the_span_keep_a_density():
    edges = np.array([0.0, 1.0, 2.0, 1e20])
    narrow = histogram_conditionals(edges, np.array([[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]]))
    knots = (edges - edges[0]) / narrow.unit
    by_hand = BACKGROUND_SHARE * np.exp(narrow.background.logpdf(knots[:1]))[0] / narrow.unit
    np.testing.assert_allclose(narrow.pdf(np.array(0.5))[0], by_hand[0], rtol=1e-12)
    extreme = histogram_conditionals(np.array([0.0, 1e-300, 1.0]), np.eye(2))
    assert np.isfinite(extreme.logpdf(np.array([0.0, 5e-301, 0.5, 2.0]))).all()
    assert np.isfinite(extreme.quantile(np.array([1e-300, 0.5]), 0)).all()


@pytest.mark.parametrize("method", MAKERS)
@pytest.mark.parametrize("seed", range(5))
def test_distribution_function_is_monotone_to_the_last_digit(method, seed):
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.full(7, 0.4), 3).T
    conditionals = MAKERS[method](uniform_edges(probabilities), probabilities)
    points = [rng.uniform(-2.0, 4.0, 2000), conditionals.origin + conditionals.unit * conditionals.knots]
    for _ in range(4):
        points += [np.nextafter(each, np.inf) for each in points[-2:]]
    assert (np.diff(conditionals.cdf(np.sort(np.concatenate(points))), axis=0) >= -1e-18).all()


def test_variance_of_a_small_unit():
    probabilities = np.array([[0.2], [0.5], [0.3]])
    one = histogram_conditionals(np.arange(4.0), probabilities).variance()
    small = histogram_conditionals(1e-153 * np.arange(4.0), probabilities).variance()
    np.testing.assert_allclose(small, one * 1e-306, rtol=1e-12)
