"""The mixture density against Bayes' rule by hand, quadrature, and the closed forms of a Gaussian mixture."""

from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import logsumexp

from tensorly_smp.densities import mixture_density
from tensorly_smp.densities.conditionals import GridConditionals, StudentBackground, bin_moments
from tensorly_smp.densities.mixture_density import MixtureDensity
from tensorly_smp.densities.reconstruct import histogram_conditionals
from tensorly_smp.densities.sinc import sinc_conditionals
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError

NAN = np.nan
WEIGHTS = np.array([0.3, 0.7])
LOC = np.array([[-2.0, 1.0], [0.0, 3.0], [1.0, -1.0]])  # variable, component
SD = np.array([[1.0, 0.7], [1.5, 1.0], [0.6, 2.0]])


def random_density(seed, n_variables=3, rank=3, kind="sinc"):
    """Rough densities, unequal numbers of bins, named "v0", "v1", ..."""
    rng = np.random.default_rng(seed)
    conditionals = []
    for n in range(n_variables):
        probabilities, edges = rng.dirichlet(np.full(4 + n, 0.7), rank).T, np.linspace(-2.0, 3.0, 5 + n)
        of_histogram = histogram_conditionals(edges, probabilities)
        conditionals.append(sinc_conditionals(edges, probabilities)[0] if kind == "sinc" else of_histogram)
    return MixtureDensity(rng.dirichlet(np.ones(rank)), tuple(conditionals), tuple(f"v{n}" for n in range(n_variables)))


def random_samples(seed, n_samples=20, n_variables=3, missing=0.3):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 4, (n_samples, n_variables))
    X[rng.random(X.shape) < missing] = NAN
    return X


def joint_by_hand(density, row):
    joint = []
    for r, weight in enumerate(density.weights):
        product = weight
        for n, value in enumerate(row):
            if not np.isnan(value):
                product *= density.conditionals[n].pdf(np.array(value))[r]
        joint.append(product)
    return np.array(joint)


@pytest.fixture(scope="module")
def gaussians():
    """A Gaussian mixture as histograms of so many bins, and so little background, that its closed forms hold."""
    conditionals = []
    for loc, sd in zip(LOC, SD, strict=True):
        edges = np.linspace(-15.0, 15.0, 6001)
        probabilities = np.diff(stats.norm.cdf(edges[:, None], loc, sd), axis=0)
        probabilities /= probabilities.sum(axis=0)
        background = StudentBackground.matching(*bin_moments(edges, probabilities))
        conditionals.append(GridConditionals.from_cells(0.0, 1.0, edges, probabilities, background, share=1e-12))
    return MixtureDensity(WEIGHTS, tuple(conditionals), ("a", "b", "c"))


def gaussian_posterior(row):
    """Closed form, missing entries left out."""
    seen = ~np.isnan(row)
    joint = WEIGHTS * stats.norm.pdf(row[seen, None], LOC[seen], SD[seen]).prod(axis=0)
    return joint / joint.sum()


# ---- samples of all variables ----


@settings(max_examples=12)
@given(st.integers(0, 10**6), st.sampled_from(["sinc", "histogram"]), st.integers(1, 4))
def test_density_and_posterior_by_hand(seed, kind, rank):
    density, X = random_density(seed, rank=rank, kind=kind), random_samples(seed)
    joint = np.stack([joint_by_hand(density, row) for row in X])
    np.testing.assert_allclose(density.log_joint(X), np.log(joint), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(density.pdf(X), joint.sum(axis=1), rtol=1e-10)
    np.testing.assert_allclose(density.logpdf(X), np.log(joint.sum(axis=1)), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(density.posterior(X), joint / joint.sum(axis=1, keepdims=True), rtol=1e-10)


@pytest.mark.parametrize("row", [[-1.0, 2.0, 0.5], [0.3, NAN, -2.0], [NAN, 1.0, NAN], [NAN, NAN, NAN], [6.0, 8.0, 5.0]])
def test_posterior_of_a_gaussian_mixture(gaussians, row):
    # A histogram of 0.005 wide bins is a Gaussian to about x/sd^2 times the bin width.
    tolerance = 5e-3 if np.nanmax(np.abs([*row, 0.0])) < 5 else 2e-2
    np.testing.assert_allclose(gaussians.posterior([row])[0], gaussian_posterior(np.array(row)), atol=tolerance)


@pytest.mark.parametrize("value", [50.0, -1e9, 1e150, -1.7e308])
def test_far_outliers(value):
    density = random_density(1)
    for X in ([[value] * 3], [[value, NAN, 0.0]]):
        assert np.isfinite(density.logpdf(X)).all()
        np.testing.assert_allclose(density.posterior(X).sum(axis=1), 1.0)
        assert np.isfinite(density.impute([[value, NAN, NAN]])).all()


def test_a_thousand_variables_do_not_underflow():
    n_variables = 1000
    density = random_density(2, n_variables=1)
    many = MixtureDensity(density.weights, density.conditionals * n_variables, tuple(range(n_variables)))
    X = np.full((2, n_variables), 40.0)
    expected = np.log(density.weights) + n_variables * density.conditionals[0].logpdf(np.array(40.0))
    np.testing.assert_allclose(many.logpdf(X), logsumexp(expected), rtol=1e-10)
    np.testing.assert_array_equal(many.pdf(X), 0.0)
    np.testing.assert_allclose(many.posterior(X).sum(axis=1), 1.0)


def test_chunks_change_nothing(monkeypatch):
    density, X = random_density(3), random_samples(3, n_samples=53)
    before = density.log_joint(X)
    monkeypatch.setattr(mixture_density, "_CHUNK_CELLS", 7)
    np.testing.assert_allclose(density.log_joint(X), before, rtol=1e-13)


def test_a_component_of_weight_zero():
    density = random_density(4, rank=2)
    density = MixtureDensity([0.0, 1.0], density.conditionals, density.variables)
    X = random_samples(4)
    np.testing.assert_array_equal(density.posterior(X), np.tile([0.0, 1.0], (20, 1)))
    x = np.linspace(-3, 3, 9)
    np.testing.assert_allclose(density.logpdf_1d(x, "v0"), density.logpdf_1d(x, "v0", 1))
    np.testing.assert_allclose(density.quantile_1d([0.2, 0.9], "v0"), density.quantile_1d([0.2, 0.9], "v0", 1))
    assert (density.sample(50, random_state=0)[1] == 1).all()
    assert np.isfinite(density.impute(X, "draw", 0)).all()


# ---- labels ----


def test_labelled_in_labelled_out():
    density, X = random_density(5), random_samples(5)
    index = pd.Index([f"s{m}" for m in range(20)], name="who")
    frame = pd.DataFrame(X, index=index, columns=list(density.variables))[["v2", "v0", "v1"]]
    array = xr.DataArray(X.T, dims=("variable", "sample"), coords={"variable": list(density.variables)})
    for method in ("logpdf", "pdf"):
        bare = getattr(density, method)(X)
        series = getattr(density, method)(frame)
        assert isinstance(series, pd.Series)
        np.testing.assert_array_equal(series, bare)
        pd.testing.assert_index_equal(series.index, index)
        labelled = getattr(density, method)(array)
        assert labelled.dims == ("sample",)
        np.testing.assert_array_equal(labelled, bare)
    posterior = density.posterior(array)
    assert posterior.dims == ("sample", "component")
    np.testing.assert_array_equal(density.posterior(frame), density.posterior(X))
    filled = density.impute(frame)
    assert list(filled.columns) == ["v2", "v0", "v1"]
    np.testing.assert_array_equal(filled[list(density.variables)], density.impute(X))
    assert density.impute(array).dims == ("variable", "sample")


# ---- one variable ----


@settings(max_examples=12)
@given(st.integers(0, 10**6), st.integers(0, 2))
def test_one_variable(seed, n):
    density, name = random_density(seed), f"v{n}"
    x = np.linspace(-4, 5, 24).reshape(4, 6)
    row = np.full((24, 3), NAN)
    row[:, n] = x.ravel()
    np.testing.assert_allclose(density.pdf_1d(x, name).ravel(), density.pdf(row), rtol=1e-10)
    np.testing.assert_allclose(np.exp(density.logpdf_1d(x, name)), density.pdf_1d(x, name), rtol=1e-10)
    for function in (density.pdf_1d, density.logpdf_1d, density.cdf_1d):
        everything = function(x, name, "all")
        assert everything.shape == (4, 6, 3)
        for r in range(3):
            np.testing.assert_array_equal(function(x, name, r), everything[..., r])
    np.testing.assert_allclose(density.cdf_1d(x, name), density.cdf_1d(x, name, "all") @ density.weights)
    q = np.array([[0.01, 0.3], [0.5, 0.999]])
    np.testing.assert_allclose(density.cdf_1d(density.quantile_1d(q, name), name), q, rtol=1e-9)
    assert density.quantile_1d(q, name, "all").shape == (2, 2, 3)
    np.testing.assert_allclose(density.cdf_1d(density.quantile_1d(q, name, 1), name, 1), q, rtol=1e-9)
    assert density.pdf_1d(0.5, name).shape == density.quantile_1d(0.5, name).shape == ()
    np.testing.assert_allclose(density.cdf_1d([-np.inf, np.inf], name), [0, 1], rtol=1e-15)
    # Back from the CDF, wherever it rises enough to tell points apart.
    inside = x[density.pdf_1d(x, name) > 1e-3]
    np.testing.assert_allclose(density.quantile_1d(density.cdf_1d(inside, name), name), inside, atol=1e-9)


def test_one_variable_moments_and_conditional_means_of_a_gaussian_mixture(gaussians):
    x = np.linspace(-4, 6, 30)
    np.testing.assert_allclose(gaussians.pdf_1d(x, "b"), stats.norm.pdf(x[:, None], LOC[1], SD[1]) @ WEIGHTS, atol=1e-3)
    np.testing.assert_allclose(gaussians.cdf_1d(x, "b"), stats.norm.cdf(x[:, None], LOC[1], SD[1]) @ WEIGHTS, atol=1e-6)
    quantiles = stats.norm.ppf([0.1, 0.9], LOC[2, 0], SD[2, 0])
    np.testing.assert_allclose(gaussians.quantile_1d([0.1, 0.9], "c", 0), quantiles, atol=1e-4)
    mean = LOC @ WEIGHTS
    covariance = ((LOC - mean[:, None]) * WEIGHTS) @ (LOC - mean[:, None]).T + np.diag(SD**2 @ WEIGHTS)
    np.testing.assert_allclose(gaussians.mean("all"), LOC, atol=1e-6)
    np.testing.assert_allclose(gaussians.var("all"), SD**2, rtol=1e-4)
    np.testing.assert_allclose(gaussians.mean(), mean, atol=1e-6)
    np.testing.assert_allclose(gaussians.cov(), covariance, atol=1e-4)
    np.testing.assert_allclose(gaussians.var(), np.diag(covariance), atol=1e-4)
    np.testing.assert_array_equal(gaussians.mean(1), gaussians.mean("all")[:, 1])
    X = np.array([[-1.0, NAN, 0.4], [NAN, NAN, 1.0], [0.0, 2.5, NAN], [NAN, NAN, NAN]])
    expected = np.array([np.where(np.isnan(row), LOC @ gaussian_posterior(row), row) for row in X])
    np.testing.assert_allclose(gaussians.impute(X), expected, atol=1e-2)


# ---- moments ----


# ---- other mixtures ----


@given(st.integers(0, 10**6))
def test_marginal_leaves_the_others_out(seed):
    density, X = random_density(seed), random_samples(seed)
    part = density.marginal(["v2", "v0"])
    assert part.variables == ("v2", "v0")
    without = X.copy()
    without[:, 1] = NAN
    np.testing.assert_allclose(part.logpdf(X[:, [2, 0]]), density.logpdf(without), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(density.marginal("v1").mean(), density.mean()[[1]], rtol=1e-12)
    np.testing.assert_array_equal(density.marginal(density.variables).logpdf(X), density.logpdf(X))


def test_marginal_is_an_integral():
    density = random_density(7, n_variables=2)
    y = np.linspace(-60, 60, 60_001)
    for x in (-1.0, 0.7):
        total = np.trapezoid(density.pdf(np.column_stack([np.full_like(y, x), y])), y)
        assert total == pytest.approx(density.pdf_1d(x, "v0"), rel=1e-4)


def test_names_that_are_tuples_or_numbers_and_weights_that_stay_the_callers():
    weights = np.array([0.2, 0.3, 0.5])
    density = MixtureDensity(weights, random_density(8).conditionals, (0, ("a", "b"), "v2"))
    assert density.marginal(("a", "b")).variables == (("a", "b"),)
    assert density.marginal(0).variables == (0,)
    assert density.marginal([("a", "b"), 0]).variables == (("a", "b"), 0)
    weights[0] = 9
    np.testing.assert_array_equal(density.weights, [0.2, 0.3, 0.5])
    assert not density.weights.flags.writeable
    assert repr(density) == "MixtureDensity(3 variables, 3 components)"


@given(st.integers(0, 10**6), st.floats(-5, 6), st.floats(-5, 6))
def test_joint_is_marginal_times_conditional(seed, first, third):
    density = random_density(seed)
    given_values = {"v2": third, "v0": first}
    conditional = density.conditional(given_values)
    assert conditional.variables == ("v1",)
    y = np.linspace(-4, 5, 10)
    rows = np.column_stack([np.full(10, first), y, np.full(10, third)])
    marginal = density.marginal(["v0", "v2"]).logpdf([[first, third]])
    np.testing.assert_allclose(density.logpdf(rows), marginal + conditional.logpdf(y[:, None]), rtol=1e-9, atol=1e-9)


def test_conditional_of_a_gaussian_mixture(gaussians):
    conditional = gaussians.conditional({"b": 1.2})
    posterior = gaussian_posterior(np.array([NAN, 1.2, NAN]))
    np.testing.assert_allclose(conditional.weights, posterior, atol=2e-3)
    np.testing.assert_allclose(conditional.mean(), LOC[[0, 2]] @ posterior, atol=5e-3)
    x = np.linspace(-5, 5, 40)
    expected = stats.norm.cdf(x[:, None], LOC[2], SD[2]) @ posterior
    np.testing.assert_allclose(conditional.cdf_1d(x, "c"), expected, atol=2e-3)
    assert gaussians.conditional({}).variables == ("a", "b", "c")


# ---- draws ----


def test_samples_follow_the_density():
    density = random_density(9)
    X, labels = density.sample(4000, random_state=0)
    assert X.shape == (4000, 3)
    assert stats.chisquare(np.bincount(labels, minlength=3), 4000 * density.weights).pvalue > 1e-3
    for n, name in enumerate(density.variables):
        assert stats.kstest(X[:, n], lambda x, name=name: density.cdf_1d(x, name)).pvalue > 1e-3
        for r in range(3):
            drawn = X[labels == r, n]
            assert stats.kstest(drawn, lambda x, name=name, r=r: density.cdf_1d(x, name, r)).pvalue > 1e-3
    np.testing.assert_allclose(np.cov(X.T), density.cov(), atol=0.3)


def test_same_seed_same_draws():
    density, X = random_density(10), random_samples(10)
    for seed in (0, np.random.default_rng(3)):
        again = 0 if seed == 0 else np.random.default_rng(3)
        np.testing.assert_array_equal(density.sample(9, seed)[0], density.sample(9, again)[0])
    np.testing.assert_array_equal(density.impute(X, "draw", 5), density.impute(X, "draw", 5))
    generator = np.random.default_rng(0)
    assert not np.array_equal(density.sample(9, generator)[0], density.sample(9, generator)[0])


@settings(max_examples=10)
@given(st.integers(0, 10**6), st.sampled_from(["mean", "draw"]))
def test_imputing_keeps_what_was_observed(seed, method):
    density, X = random_density(seed), random_samples(seed)
    X[0] = -0.0
    X[1] = NAN
    before = X.copy()
    filled = density.impute(X, method, random_state=seed)
    observed = ~np.isnan(X)
    assert filled[observed].tobytes() == X[observed].tobytes()
    assert np.isfinite(filled).all()
    np.testing.assert_array_equal(X, before)
    if method == "mean":
        np.testing.assert_allclose(filled[1], density.mean())
        for row, full in zip(X, filled, strict=True):
            joint = joint_by_hand(density, row)
            expected = density.mean("all") @ (joint / joint.sum())
            np.testing.assert_allclose(full[np.isnan(row)], expected[np.isnan(row)], rtol=1e-9, atol=1e-9)


def test_drawn_entries_follow_the_conditional_distribution(gaussians):
    X = np.tile([NAN, 1.2, NAN], (4000, 1))
    drawn = gaussians.impute(X, "draw", random_state=0)
    posterior = gaussian_posterior(X[0])
    for n in (0, 2):

        def exact(x, n=n):
            return stats.norm.cdf(np.asarray(x)[:, None], LOC[n], SD[n]) @ posterior

        assert stats.kstest(drawn[:, n], exact).pvalue > 1e-3
    # The missing entries of a sample are drawn together: they covary as the components do.
    mean = LOC @ posterior
    covariance = ((LOC[0] - mean[0]) * (LOC[2] - mean[2])) @ posterior
    assert np.cov(drawn[:, 0], drawn[:, 2])[0, 1] == pytest.approx(covariance, abs=0.12)
    conditional, _ = gaussians.conditional({"b": 1.2}).sample(4000, random_state=1)
    assert stats.ks_2samp(conditional[:, 0], drawn[:, 0]).pvalue > 1e-3
    assert stats.ks_2samp(conditional[:, 1], drawn[:, 2]).pvalue > 1e-3


# ---- errors ----


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda d: d.logpdf([[0.0, 1.0]]), InvalidInputError, "2 variables; expected 3"),
        (lambda d: d.pdf_1d([NAN], "v0"), InvalidInputError, "NaN"),
        (lambda d: d.pdf_1d(0.0, "nobody"), InvalidInputError, "'nobody' is unknown.*'v0'"),
        (lambda d: d.pdf_1d(0.0, np.array([0, 1])), InvalidInputError, "unknown"),
        (lambda d: d.pdf_1d(0.0, "v0", 3), InvalidInputError, "component is 3; expected 0 to 2"),
        (lambda d: d.pdf_1d(0.0, "v0", "every"), InvalidTypeError, "'all' or None"),
        (lambda d: d.quantile_1d(0.5, "v0", np.array([0, 1])), InvalidTypeError, "'all' or None"),
        (lambda d: d.quantile_1d([0.0, 0.5], "v0"), InvalidInputError, "strictly between"),
        (lambda d: d.marginal([]), InvalidInputError, "at least one"),
        (lambda d: d.marginal(["v0", "v0"]), InvalidInputError, "none twice"),
        (lambda d: d.conditional({"v0": 1, "v1": 1, "v2": 1}), InvalidInputError, "at least one to remain"),
        (lambda d: d.conditional({"v0": NAN}), InvalidInputError, "NaN"),
        (lambda d: d.conditional({"v0": [1.0, 2.0]}), InvalidInputError, "one number"),
        (lambda d: d.conditional("v0"), InvalidTypeError, "mapping"),
        (lambda d: d.impute([[NAN] * 3], "median"), InvalidInputError, "'mean', 'draw'"),
        (lambda d: MixtureDensity([0.5, 0.6], d.conditionals, d.variables), InvalidInputError, "sum"),
        (lambda d: MixtureDensity([0.5, 0.5], d.conditionals, d.variables), InvalidInputError, "expected 2"),
        (lambda d: MixtureDensity([1.0], (), ()), InvalidInputError, "at least one"),
        (lambda d: MixtureDensity(d.weights, d.conditionals, ("a", "a", "b")), InvalidInputError, "no name twice"),
    ],
)
def test_errors_say_what_was_expected(call, error, message):
    with pytest.raises(error, match=message):
        call(random_density(0))


def test_overflow_is_an_error_not_infinity():
    probabilities = np.full((4, 1), 0.25)
    tiny = histogram_conditionals(1e-100 * np.arange(5.0), probabilities)
    huge = histogram_conditionals(1e200 * np.arange(5.0), probabilities)
    density = MixtureDensity([1.0], (tiny,) * 4, tuple("abcd"))
    with pytest.raises(InvalidInputError, match="use logpdf"):
        density.pdf([[1e-100] * 4])
    assert np.isfinite(density.logpdf([[1e-100] * 4])).all()
    for refused in (MixtureDensity([1.0], (huge,), ("a",)).var, MixtureDensity([1.0], (huge,), ("a",)).cov):
        with pytest.raises(InvalidInputError, match="larger unit"):
            refused()


def test_cells_far_narrower_than_the_span_leave_no_nan():
    columns = np.eye(3)
    factors = [columns[:, order] for order in ([0, 2], [2, 0], [0, 2])]
    edges = np.array([0.0, 1.0, 2.0, 1e20])
    conditionals = tuple(histogram_conditionals(edges, factor) for factor in factors)
    density = MixtureDensity([0.5, 0.5], conditionals, ("a", "b", "c"))
    row = [[0.5, 0.5, NAN]]
    # The first two variables point to different components, equally strongly.
    np.testing.assert_allclose(density.posterior(row), [[0.5, 0.5]])
    np.testing.assert_allclose(density.impute(row), [[0.5, 0.5, density.mean()[2]]])
    assert density.conditional({"a": 0.5}).weights.argmax() == 0


def test_a_sample_that_no_component_allows_has_the_weights_as_posterior():
    zero = SimpleNamespace(rank=2, logpdf=lambda x: np.full((*x.shape, 2), -np.inf))
    density = MixtureDensity([0.25, 0.75], (zero, random_density(0, rank=2).conditionals[0]), ("a", "b"))
    np.testing.assert_allclose(density.posterior([[0.0, NAN]]), [[0.25, 0.75]])
    np.testing.assert_allclose(density.conditional({"a": 0.0}).weights, [0.25, 0.75])


@pytest.mark.parametrize(
    ("x", "error"),
    [
        (np.ma.masked, InvalidInputError),
        (np.ma.array([1.0, 2.0], mask=[True, False]), InvalidInputError),
        ([np.ma.masked, 1.0], InvalidInputError),
        (10**400, InvalidInputError),
        ([None, 1.0], InvalidInputError),
        ([1 + 2j], InvalidTypeError),
        (np.array(["1"], dtype=object), InvalidTypeError),
        (pd.to_datetime(pd.Series(["2020-01-01"])), InvalidTypeError),
    ],
)
def test_points_that_are_no_numbers(x, error):
    density = random_density(0)
    for call in (
        lambda: density.pdf_1d(x, "v0"),
        lambda: density.quantile_1d(x, "v0"),
        lambda: density.conditional({"v0": x}),
    ):
        with pytest.raises(error):
            call()


def test_points_of_other_kinds_are_read():
    density = random_density(0)
    unmasked = np.ma.array([1.0, 2.0], mask=[False, False])
    objects = np.array([1, 2.0], "O")
    for x in (unmasked, pd.Series([1, 2]), xr.DataArray([1.0, 2.0]), [Fraction(1), Decimal(2)], objects):
        np.testing.assert_array_equal(density.pdf_1d(x, "v0"), density.pdf_1d([1.0, 2.0], "v0"))


def test_distribution_function_of_the_mixture_is_monotone_and_has_an_inverse():
    density = random_density(0, n_variables=1, rank=5)
    x = np.sort(np.random.default_rng(0).uniform(-20.0, 20.0, 3000))
    x = np.sort(np.concatenate([x, np.nextafter(x, np.inf), [-np.inf, np.inf, 1e10, 1e300]]))
    values = density.cdf_1d(x, "v0")
    assert (np.diff(values) >= -1e-18).all()
    assert (values[0], values.max() <= 1.0) == (0.0, True)
    np.testing.assert_allclose(values, density.cdf_1d(x, "v0", "all") @ density.weights, rtol=1e-13)
    q = np.array([1e-300, 1e-290, 1e-100, 1e-20, 0.3, 1 - 1e-16])
    x = density.quantile_1d(q, "v0")
    assert (np.diff(x) >= 0).all()
    np.testing.assert_allclose(density.cdf_1d(x, "v0"), q, rtol=1e-9)
    conditionals = histogram_conditionals(3e307 * np.arange(-2.0, 3.0), np.eye(4)[:, [0, 3]])
    huge = MixtureDensity([0.5, 0.5], (conditionals,), ("a",))
    np.testing.assert_allclose(huge.cdf_1d(huge.quantile_1d([0.3, 0.7], "a"), "a"), [0.3, 0.7], rtol=1e-9)
    assert np.isfinite(huge.quantile_1d([1e-300, 1 - 1e-16], "a")).all()
