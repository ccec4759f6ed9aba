"""Conditional distributions of one variable, of all kinds: what makes them densities, against quadrature and SciPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import rough_splines
from rooms import smooth_densities
from scipy import stats
from scipy.integrate import quad

import tensorly_smp as smp
from tensorly_smp.densities.conditionals import (
    BACKGROUND_SHARE,
    NO_BOUNDS,
    DiscreteConditionals,
    GridConditionals,
    StudentBackground,
    bin_moments,
    upper_quantile,
)
from tensorly_smp.densities.mixture_density import MixtureDensity, mixture_quantile
from tensorly_smp.densities.reconstruct import histogram_conditionals
from tensorly_smp.densities.sinc import sinc_conditionals
from tensorly_smp.densities.smooth import background_share
from tensorly_smp.splines.basis import spline_basis

MAKERS = {"sinc": lambda *pair: sinc_conditionals(*pair)[0], "histogram": histogram_conditionals}
SHARES = np.array([1e-12, 1e-9, 1e-6, 0.01, 0.2, 0.5, 0.77, 0.99, 1 - 1e-6])
LOW, HIGH = -2.0, 5.0
BASIS = spline_basis(24)
NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(200)
# None, at one or both ends of the grid, beyond it, and so far away that they do not matter.
BOUNDS = [
    NO_BOUNDS,
    (LOW, np.inf),
    (-np.inf, HIGH),
    (LOW, HIGH),
    (LOW - 0.5, np.inf),
    (LOW - 3.0, HIGH + 40.0),
    (-1e9, HIGH),
    (-1e300, 1e300),
]


def random_splines(seed, bounds=NO_BOUNDS):
    rng = np.random.default_rng(seed)
    share = background_share(10.0 ** rng.uniform(0, 4, 3))
    return smooth_densities(BASIS, rough_splines(BASIS, seed), LOW, HIGH, share, bounds)


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
    """Of x^power times every density, (rank,), with Gauss's formula in every cell and in both tails."""
    origin, unit, knots = conditionals.origin, conditionals.unit, conditionals.knots
    nodes, weights = np.polynomial.legendre.leggauss(2)
    inside = knots[:-1, None] + 0.5 * np.diff(knots)[:, None] * (1.0 + nodes)
    values = np.exp(conditionals.logpdf(origin + unit * inside) + np.log(unit)) * inside[..., None] ** power
    total = 0.5 * np.einsum("c,cgr,g->r", np.diff(knots), values, weights)
    for end, bound, sign in zip(knots[[0, -1]], conditionals.bounds, (-1.0, 1.0), strict=True):
        total += [tail(conditionals, r, end, (bound - origin) / unit, sign, power) for r in range(conditionals.rank)]
    return total


def tail(conditionals, r, end, bound, sign, power):
    """Integral over what lies outside the grid, up to the bound: with t = end + sign * reach * u/(1 - u)."""
    background = conditionals.background
    reach = np.hypot(background.scale[r], end - background.center[r])
    distance = abs(bound - end) / reach
    last = 1.0 if np.isinf(distance) else distance / (1.0 + distance)
    u = 0.5 * last * (1.0 + NODES)
    t = end + sign * reach * u / (1.0 - u)
    density = np.exp(conditionals.logpdf(conditionals.origin + conditionals.unit * t)[:, r] + np.log(conditionals.unit))
    return 0.5 * last * NODE_WEIGHTS @ (density * t**power * reach / (1.0 - u) ** 2)


def assert_proper(conditionals, low, high):
    """Integral, moments, distribution function, quantiles and logarithms belong together, whatever the kind."""
    bounds = conditionals.bounds
    np.testing.assert_allclose(integral(conditionals), 1.0, atol=1e-7)
    mean = integral(conditionals, 1)  # in grid units
    np.testing.assert_allclose(conditionals.mean(), conditionals.origin + conditionals.unit * mean, atol=1e-5)
    variance = integral(conditionals, 2) - mean**2
    np.testing.assert_allclose(conditionals.variance(), conditionals.unit**2 * variance, rtol=2e-3)
    assert (conditionals.variance() > 0).all()
    # Points inside and outside the grid, and the floats around its ends and the bounds.
    ends = np.array([low, high, *np.clip(bounds, -1e301, 1e301)])
    span = high - low
    x = [
        ends,
        np.nextafter(ends, -np.inf),
        np.nextafter(ends, np.inf),
        np.linspace(low - 3 * span, high + 3 * span, 601),
    ]
    x = np.unique(np.concatenate(x))
    cdf = conditionals.cdf(np.concatenate([[-np.inf], x, [np.inf]]))
    assert (np.diff(cdf, axis=0) >= 0).all()
    np.testing.assert_array_equal(cdf[0], 0.0)
    np.testing.assert_array_equal(cdf[-1], 1.0)
    logs = conditionals.logpdf(x)
    assert np.isfinite(logs).all()
    beyond = (x < bounds[0]) | (x > bounds[1])
    assert (logs[beyond] < -700).all()
    assert (logs[~beyond & (np.abs(x) < 1e3)] > -100).all()  # the background is there, and at the bounds as well
    for bound, value in zip(bounds, (0.0, 1.0), strict=True):
        if np.isfinite(bound):
            np.testing.assert_array_equal(conditionals.cdf(np.array([bound])), value)
    # The slope of the distribution function is the density, away from the knots.
    middle = conditionals.origin + conditionals.unit * (conditionals.knots[1:] + conditionals.knots[:-1]) / 2
    step = 1e-4 * conditionals.unit * np.diff(conditionals.knots).min()
    slope = (conditionals.cdf(middle + step) - conditionals.cdf(middle - step)) / (2 * step)
    np.testing.assert_allclose(slope, conditionals.pdf(middle), rtol=1e-5, atol=1e-6 / span)
    inside = x[(x > max(bounds[0], low - 0.2 * span)) & (x < min(bounds[1], high + 0.2 * span))][::4]
    for r in range(conditionals.rank):
        back = conditionals.cdf(conditionals.quantile(SHARES, r))[:, r]
        np.testing.assert_allclose(back, SHARES, rtol=1e-9, atol=1e-15)
        clear = conditionals.pdf(inside)[:, r] > 1e-4  # where it is tiny, a rounding of F moves its inverse by much
        there = conditionals.quantile(conditionals.cdf(inside)[:, r], r)
        np.testing.assert_allclose(there[clear], inside[clear], atol=1e-8)
        extreme = conditionals.quantile(np.array([1e-300, 1e-17, 1 - 1e-16]), r)
        assert np.isfinite(extreme).all()
        assert bounds[0] <= extreme.min() <= extreme.max() <= bounds[1]


@pytest.mark.parametrize("method", MAKERS)
@settings(max_examples=15)
@given(probabilities=bin_probabilities())
def test_densities_of_bins_are_proper(method, probabilities):
    edges = uniform_edges(probabilities)
    assert_proper(MAKERS[method](edges, probabilities), edges[0], edges[-1])


@pytest.mark.parametrize(("seed", "bounds"), list(enumerate(BOUNDS)))
def test_log_splines_are_proper_between_their_bounds(seed, bounds):
    assert_proper(random_splines(seed, bounds), LOW, HIGH)


@settings(max_examples=10)
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
def test_shapes_single_points_and_far_points(method):
    conditionals = MAKERS[method](np.arange(6.0), np.random.default_rng(0).dirichlet(np.ones(5), 2).T)
    x = np.linspace(-2, 8, 12).reshape(3, 4)
    assert conditionals.logpdf(x).shape == conditionals.cdf(x).shape == (3, 4, 2)
    before = conditionals.left.copy(), conditionals.right.copy()
    for each in (-9.0, 0.3, 2.5, 20.0):
        np.testing.assert_array_equal(conditionals.logpdf(np.array(each)), conditionals.logpdf(np.array([each]))[0])
        np.testing.assert_array_equal(conditionals.cdf(np.array(each)), conditionals.cdf(np.array([each]))[0])
    np.testing.assert_array_equal(before, (conditionals.left, conditionals.right))
    assert conditionals.quantile(np.array(0.3), 1).shape == ()
    narrow = MAKERS[method](1e-12 * np.arange(401.0), np.eye(400)[:, [0, 200, 399]])
    assert np.isfinite(narrow.logpdf(np.array([-1.7e308, -1e200, -1.0, 0.0, 2e-10, 4e-10, 1.0, 1.7e308]))).all()


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
    one, small = (histogram_conditionals(unit * edges, probabilities).variance() for unit in (1.0, 1e-153))
    np.testing.assert_allclose(small, one * 1e-306, rtol=1e-12)


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
def test_distribution_function_is_monotone_to_the_last_digit(method):
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.full(7, 0.4), 3).T
    conditionals = MAKERS[method](uniform_edges(probabilities), probabilities)
    points = [rng.uniform(-2.0, 4.0, 2000), conditionals.origin + conditionals.unit * conditionals.knots]
    for _ in range(4):
        points += [np.nextafter(each, np.inf) for each in points[-2:]]
    assert (np.diff(conditionals.cdf(np.sort(np.concatenate(points))), axis=0) >= -1e-18).all()


# ---- histograms ----


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


def test_one_share_or_one_per_component():
    knots = np.linspace(-4, 4, 81)
    values = np.exp(-(knots[:, None] ** 2) / [2, 4])
    background = StudentBackground.matching(np.zeros(2), np.ones(2))
    one, each = (
        GridConditionals.from_knots(0.0, 1.0, knots, values, background, share, (-5.0, np.inf))
        for share in (0.02, np.full(2, 0.02))
    )
    x = np.linspace(-6, 8, 41)
    np.testing.assert_array_equal(one.logpdf(x), each.logpdf(x))
    np.testing.assert_array_equal(one.cdf(x), each.cdf(x))
    np.testing.assert_array_equal(one.quantile(SHARES, 1), each.quantile(SHARES, 1))


@pytest.mark.parametrize("drop", [1e-14, 1e-17, 1e-200])
def test_the_low_end_of_a_cliff_is_no_zero(drop):
    knots = 3.0 + np.cumsum(np.random.default_rng(0).random(400))
    high = np.ones((399, 1))
    steep = GridConditionals(0.3, 0.7, knots, high, drop * high, StudentBackground.matching(np.zeros(1), np.ones(1)))
    ends = 0.3 + 0.7 * knots[1:]
    with np.errstate(all="raise"):
        found = steep.logpdf(np.concatenate([np.nextafter(ends, 0), ends, np.nextafter(ends, np.inf)]))
    assert (found >= np.log(drop) - 0.1).all()
    far = np.append(np.linspace(-4, 4, 81), [1e100, 1e111])  # where the background is below the smallest float
    values = np.where(far < 5, np.exp(-(far**2) / 2, where=far < 5, out=np.zeros(83)), 0.0)[:, None]
    flat = GridConditionals.from_knots(0.0, 1.0, far, values, StudentBackground.matching(np.zeros(1), np.ones(1)))
    assert np.isfinite(flat.logpdf(np.array([0.0, 1e100, 5e110, 1e111]))).all()


# ---- background ----


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
    far = np.array([-1e300, 1e300])
    assert np.isfinite(background.logpdf(far)).all()
    np.testing.assert_array_equal(background.below(far), [[0] * 3, [1] * 3])


def test_quantiles_invert_the_tails(background):
    q = np.array([1e-200, 1e-30, 1e-6, 0.01, 0.3, 0.5])
    for r in range(3):
        far = background.scale[r] * upper_quantile(q)
        low, high = background.center[r] - far, background.center[r] + far
        np.testing.assert_allclose(background.below(low)[:, r], q, rtol=1e-10)
        np.testing.assert_allclose(background.above(high)[:, r], q, rtol=1e-10)


def test_matching_mean_and_variance():
    matched = StudentBackground.matching(np.array([1.0, -3.0]), np.array([4.0, 0.25]))
    mean, variance = stats.t(4, matched.center, matched.scale).stats("mv")
    np.testing.assert_allclose(mean, [1.0, -3.0])
    np.testing.assert_allclose(variance, [4.0, 0.25])


@pytest.mark.parametrize("limits", [(-3.0, 9.0), (0.0, 60.0)])
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


# ---- discrete ----


VALUES = np.array([-3.5, 0.0, 1.0, 10.0])
TABLE = np.array([[0.1, 0.0, 0.25], [0.2, 0.5, 0.25], [0.3, 0.0, 0.25], [0.4, 0.5, 0.25]])
WEIGHTS = np.array([0.5, 0.3, 0.2])
ITEM = DiscreteConditionals(VALUES, TABLE)
DENSITY = MixtureDensity(WEIGHTS, (ITEM,), ("x",))
FAR = [float(np.iinfo(np.int64).min), 1e17]


@pytest.mark.parametrize("x", [-9.0, -3.5, -1.0, 0.0, 0.4, 1.0, 9.9, 10.0, 11.0])
def test_probability_and_distribution_function_are_sums(x):
    for r in range(3):
        at = sum(p for value, p in zip(VALUES, TABLE[:, r], strict=True) if value == x)
        below = sum(p for value, p in zip(VALUES, TABLE[:, r], strict=True) if value <= x)
        assert DENSITY.pdf_1d(x, "x", r) == pytest.approx(at, abs=1e-15)
        assert DENSITY.cdf_1d(x, "x", r) == pytest.approx(below, abs=1e-15)
        expected = np.log(at) if at else np.log(np.finfo(float).tiny)
        assert DENSITY.logpdf_1d(x, "x", r) == pytest.approx(expected, abs=1e-12)
    assert DENSITY.pdf_1d(x, "x") == pytest.approx(DENSITY.pdf_1d(x, "x", "all") @ WEIGHTS, abs=1e-15)


def test_moments_and_draws():
    for r in range(3):
        mean = sum(p * value for value, p in zip(VALUES, TABLE[:, r], strict=True))
        square = sum(p * value**2 for value, p in zip(VALUES, TABLE[:, r], strict=True))
        assert DENSITY.mean(r) == pytest.approx(mean)
        assert DENSITY.var(r) == pytest.approx(square - mean**2)
    mixed = TABLE @ WEIGHTS
    assert DENSITY.var() == pytest.approx(VALUES**2 @ mixed - (VALUES @ mixed) ** 2)
    assert DENSITY.cov().item() == pytest.approx(DENSITY.var().item())
    X, components = DENSITY.sample(20_000, random_state=0)
    for r in range(3):
        shares = (X[components == r] == VALUES).mean(axis=0)
        np.testing.assert_allclose(shares, TABLE[:, r], atol=4 / np.sqrt((components == r).sum()))
    constant = DiscreteConditionals(np.array([7.0]), np.ones((1, 2)))
    density = MixtureDensity(np.array([0.4, 0.6]), (constant, DiscreteConditionals(VALUES, TABLE[:, :2])), ("a", "b"))
    assert (density.mean()[0], density.var()[0], density.quantile_1d(0.3, "a")) == (7.0, 0.0, 7.0)
    assert density.cov()[0].tolist() == [0.0, 0.0]


@given(st.floats(1e-9, 1 - 1e-9), st.sampled_from([0, 1, 2, None]))
def test_quantile_is_the_smallest_value_up_to_which_the_share_lies(q, component):
    found = float(DENSITY.quantile_1d(q, "x", component))
    assert found in VALUES
    assert DENSITY.cdf_1d(found, "x", component) >= q - 1e-15
    assert DENSITY.cdf_1d(np.nextafter(found, -np.inf) - 1e-3, "x", component) < q


def test_values_within_rounding_are_the_same():
    item = DiscreteConditionals(np.array([0.0, 0.1, 1.0]), np.array([[0.2], [0.3], [0.5]]))
    x = np.array([1e-17, 0.1 + 1e-17, np.float32(0.1), 1.0 - 1e-16, 0.11])
    assert item.pdf(x)[:, 0].tolist() == [0.2, 0.3, 0.3, 0.5, 0.0]
    np.testing.assert_allclose(item.cdf(x)[:, 0], [0.2, 0.5, 0.5, 1.0, 0.5])
    near = DiscreteConditionals(np.array([1e9, 1e9 + 1.0]), np.array([[0.4], [0.6]]))  # closer than single precision
    assert near.pdf(np.array([1e9, 1e9 + 0.5, 1e9 + 1.0]))[:, 0].tolist() == [0.4, 0.0, 0.6]


@pytest.mark.parametrize("far", FAR)
@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.TensorlySmpWarning")
def test_discrete_variable_with_one_far_value_fits_and_can_be_loaded(far, tmp_path):
    X, labels, _ = smp.datasets.make_smooth_mixture("gaussian", 200, 4, 2, random_state=0)
    X[:, 0] = labels + np.random.default_rng(0).integers(0, 2, 200)
    X[0, 0] = far
    model = smp.SmoothProductMixture(2, random_state=0).fit(X)
    assert np.isfinite(model.predict_proba(X)).all()
    assert np.isfinite(model.score_samples(X)).all()
    assert np.isfinite(model.density_.mean()).all()
    assert smp.metrics.clustering_accuracy(labels, model.predict(X)) > 0.95
    model.save(tmp_path / "model.nc")
    np.testing.assert_array_equal(smp.load(tmp_path / "model.nc").predict_proba(X), model.predict_proba(X))
