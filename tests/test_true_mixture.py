"""The exact truth of synthetic mixtures, against quadrature, Bayes' rule by hand, and its own samples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from tensorly_smp.codes.binning import Binning
from tensorly_smp.datasets import TrueMixture, make_smooth_mixture
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError

KINDS = ["gaussian", "gmm", "gamma", "laplace"]


def truth(kind, n_variables=4, n_components=3, seed=0):
    return make_smooth_mixture(kind, 1, n_variables, n_components, random_state=seed).mixture


def conditional_by_hand(mixture, x, n, r):
    """f_n(x | r) in a plain loop."""
    parts = zip(mixture.loc[n, r], mixture.scale[n, r], strict=True)
    return np.mean([mixture.standard.pdf((x - loc) / scale) / scale for loc, scale in parts])


def joint_by_hand(mixture, row):
    """w_r prod_n f_n(x_n | r) over the observed entries, in a plain loop."""
    joint = []
    for r, weight in enumerate(mixture.weights):
        product = weight
        for n, x in enumerate(row):
            if not np.isnan(x):
                product *= conditional_by_hand(mixture, x, n, r)
        joint.append(product)
    return np.array(joint)


# --- densities ---


@pytest.mark.parametrize("kind", KINDS)
def test_conditional_densities_integrate_to_one_and_are_the_derivative_of_the_cdf(kind):
    mixture = truth(kind)
    # The corner of the Laplace density and the edge of the Gamma's support are nodes: quadrature stays accurate.
    grid = np.unique(np.concatenate([np.linspace(-60, 60, 40_001), mixture.loc.ravel()]))
    for variable in range(2):
        for component in [None, *range(mixture.rank)]:
            density = mixture.pdf_1d(grid, variable, component)
            cdf = mixture.cdf_1d(grid, variable, component)
            assert density.min() >= 0
            assert np.diff(cdf).min() >= 0
            np.testing.assert_allclose(cdf[[0, -1]], [0, 1], atol=1e-9)
            np.testing.assert_allclose(integrate.cumulative_trapezoid(density, grid), cdf[1:], atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 10**6), missing=st.sampled_from([0.0, 0.4]))
def test_density_and_posterior_by_hand(kind, seed, missing):
    X, _, mixture = make_smooth_mixture(kind, 3, 4, 3, missing=missing, random_state=seed)
    joint = np.array([joint_by_hand(mixture, row) for row in X])
    np.testing.assert_allclose(mixture.pdf(X), joint.sum(axis=1), rtol=1e-9)
    np.testing.assert_allclose(mixture.logpdf(X), np.log(joint.sum(axis=1)), rtol=1e-9, atol=1e-9)
    posterior = mixture.posterior(X)
    np.testing.assert_allclose(posterior, joint / joint.sum(axis=1, keepdims=True), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(posterior.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(mixture.predict(X), joint.argmax(axis=1))


@pytest.mark.parametrize("kind", KINDS)
def test_it_has_the_methods_of_a_density(kind):
    """Moments are those of samples, quantiles those of the distribution function, and shares follow Bayes' rule."""
    mixture = truth(kind)
    for component in (None, 1):
        x = mixture.quantile_1d([0.01, 0.3, 0.9], 2, component)
        np.testing.assert_allclose(mixture.cdf_1d(x, 2, component), [0.01, 0.3, 0.9], rtol=1e-9)
    X, _ = mixture.sample(20_000, random_state=1)
    np.testing.assert_allclose(mixture.mean(), X.mean(axis=0), atol=5 * X.std() / np.sqrt(len(X)))
    np.testing.assert_allclose(np.diag(mixture.cov()), mixture.var(), rtol=1e-12)
    rest = mixture.conditional({"x0": X[0, 0]})
    assert rest.variables == ("x1", "x2", "x3")
    np.testing.assert_allclose(rest.weights, mixture.posterior([[X[0, 0], *[np.nan] * 3]])[0], rtol=1e-12)
    assert np.array_equal(mixture.impute(X[:1]), X[:1])
    np.testing.assert_allclose(mixture.marginal(["x2"]).pdf([[0.5]]), [mixture.pdf_1d(0.5, "x2")], rtol=1e-12)


# --- samples ---


@pytest.mark.parametrize("kind", KINDS)
def test_samples_follow_the_distribution(kind):
    mixture = truth(kind)
    X, labels = mixture.sample(4000, random_state=3)
    assert stats.chisquare(np.bincount(labels), 4000 * mixture.weights).pvalue > 1e-4
    for variable in range(mixture.n_variables):
        assert stats.kstest(X[:, variable], lambda x, n=variable: mixture.cdf_1d(x, n)).pvalue > 1e-4
        for r in range(mixture.rank):
            given = X[labels == r, variable]
            assert stats.kstest(given, lambda x, n=variable, r=r: mixture.cdf_1d(x, n, r)).pvalue > 1e-4


def test_moments_of_samples():
    mixture = truth("gmm", n_variables=3, n_components=2)
    X, labels = mixture.sample(50_000, random_state=4)
    parts_mean = mixture.loc + mixture.scale * mixture.standard.mean()
    parts_variance = mixture.scale**2 * mixture.standard.var()
    variance = parts_variance.mean(axis=2) + parts_mean.var(axis=2)
    for r in range(2):
        given = X[labels == r]
        error = np.sqrt(variance[:, r] / len(given))
        assert (abs(given.mean(axis=0) - parts_mean.mean(axis=2)[:, r]) < 5 * error).all()
        np.testing.assert_allclose(given.var(axis=0), variance[:, r], rtol=0.1)
        # Independent given the component, also between the halves of a blend.
        assert abs(np.corrcoef(given.T) - np.eye(3)).max() < 0.04


# --- exact factors ---


@pytest.mark.parametrize("kind", KINDS)
def test_bin_probabilities_against_quadrature(kind):
    mixture = truth(kind)
    edges = np.linspace(-3, 4, 6)
    for variable in range(2):
        table = mixture.bin_probabilities(edges, variable, catch_tails=False)
        assert table.shape == (5, 3)
        for i, r in np.ndindex(table.shape):
            corners = [loc for loc in mixture.loc[variable, r] if edges[i] < loc < edges[i + 1]]
            exact = integrate.quad(
                lambda x, n=variable, r=r: conditional_by_hand(mixture, x, n, r),
                edges[i],
                edges[i + 1],
                points=corners or None,
            )[0]
            assert table[i, r] == pytest.approx(exact, abs=1e-9)


def test_outer_bins_catch_the_tails():
    mixture = truth("laplace")
    edges = np.linspace(-3, 4, 6)
    caught, inner = mixture.bin_probabilities(edges, 0), mixture.bin_probabilities(edges, 0, catch_tails=False)
    np.testing.assert_allclose(caught.sum(axis=0), 1, rtol=1e-14)
    np.testing.assert_array_equal(caught[1:-1], inner[1:-1])
    for r in range(3):
        assert inner[:, r].sum() == pytest.approx(mixture.cdf_1d(4, 0, r) - mixture.cdf_1d(-3, 0, r), rel=1e-12)
    infinite = np.r_[-np.inf, edges[1:-1], np.inf]
    np.testing.assert_array_equal(mixture.bin_probabilities(infinite, 0, catch_tails=False), caught)
    # Far tails keep their digits.
    mixture = TrueMixture([1.0], stats.norm(), np.zeros((1, 1, 1)), np.ones((1, 1, 1)))
    right = mixture.bin_probabilities([9, 10, 11], 0, catch_tails=False)
    left = mixture.bin_probabilities([-11, -10, -9], 0, catch_tails=False)
    np.testing.assert_allclose(right, left[::-1], rtol=1e-12)
    assert right[0, 0] == pytest.approx(stats.norm.sf(9), rel=1e-3)


def test_factors_predict_the_histogram_of_a_triple():
    X, _, mixture = make_smooth_mixture("gmm", 50_000, 3, 2, random_state=0)
    edges = np.array([-20.0, -3, 0, 3, 20])
    binning = Binning((edges, edges, edges), ("a", "b", "c"))
    factors = mixture.factors(binning)
    assert factors.binning is binning
    for factor in factors.factors:
        np.testing.assert_allclose(factor.sum(axis=0), 1, rtol=1e-12)
    # r component; i j k bins of the three variables
    expected = np.einsum("r,ir,jr,kr->ijk", factors.weights, *factors.factors)
    observed = np.histogramdd(X, bins=[edges] * 3)[0] / len(X)
    assert abs(observed - expected).max() < 5 * np.sqrt(0.25 / len(X))


# --- input ---


def test_mixture_keeps_its_own_read_only_arrays():
    loc = np.zeros((1, 1, 1))
    mixture = TrueMixture([1.0], stats.norm(), loc, np.ones((1, 1, 1)))
    loc[:] = 5
    assert mixture.loc[0, 0, 0] == 0
    with pytest.raises(ValueError, match="read-only"):
        mixture.loc[:] = 1


def test_wrong_positions_components_and_edges():
    call = truth("gaussian").cdf_1d
    np.testing.assert_array_equal(call(0.5, "x1", "all"), call(0.5, 1, "all"))
    with pytest.raises(InvalidInputError, match="4 is unknown"):
        call(0.0, 4)
    with pytest.raises(InvalidInputError, match="component is -1"):
        call(0.0, 0, -1)
    for edges in ([0.0], [0, 0], [1, 0], [0, np.nan], [[0, 1]]):
        with pytest.raises(InvalidInputError, match="strictly increasing"):
            truth("gaussian").bin_probabilities(edges, 0)
    with pytest.raises(InvalidInputError, match="binning has 1 variables; expected 4"):
        truth("gmm").factors(Binning((np.arange(3.0),), ("a",)))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"weights": [0.5, 0.6]}, InvalidInputError, "sum to one"),
        ({"weights": [1.0, 0.0]}, InvalidInputError, "positive"),
        ({"weights": [0.5, np.nan]}, InvalidInputError, "weights has shape"),
        ({"weights": [1.0]}, InvalidInputError, "disagree"),
        ({"loc": np.zeros((3, 2))}, InvalidInputError, "loc has shape"),
        ({"loc": np.zeros((3, 2, 2))}, InvalidInputError, "disagree"),
        ({"loc": np.zeros((0, 2, 1)), "scale": np.ones((0, 2, 1))}, InvalidInputError, "disagree"),
        ({"scale": np.zeros((3, 2, 1))}, InvalidInputError, "scale 0; expected positive numbers"),
        ({"standard": "norm"}, InvalidTypeError, "frozen"),
    ],
)
def test_wrong_mixture(change, error, message):
    good = {"weights": [0.5, 0.5], "standard": stats.norm(), "loc": np.zeros((3, 2, 1)), "scale": np.ones((3, 2, 1))}
    with pytest.raises(error, match=message):
        TrueMixture(**{**good, **change})


@pytest.mark.parametrize("standard", [stats.gamma(5), stats.norm(), stats.weibull_min(2), stats.gumbel_r()])
def test_far_points_have_density_zero_and_the_weights_as_posterior(standard):
    mixture = TrueMixture([0.25, 0.75], standard, np.zeros((3, 2, 1)), np.full((3, 2, 1), 0.1))
    far = [[1e308] * 3, [-1e308] * 3]
    np.testing.assert_array_equal(mixture.logpdf(far), [-np.inf, -np.inf])
    np.testing.assert_allclose(mixture.posterior(far), [[0.25, 0.75]] * 2)
    np.testing.assert_array_equal(mixture.pdf_1d([1e308, -1e308], 0), [0.0, 0.0])
    np.testing.assert_array_equal(mixture.logpdf_1d([1e308, -1e308], 0), [-np.inf, -np.inf])
    np.testing.assert_array_equal(mixture.cdf_1d([-np.inf, np.inf], 0), [0.0, 1.0])


def test_distribution_function_is_at_most_one():
    for weights in np.random.default_rng(0).dirichlet(np.ones(7), 30):
        assert TrueMixture(weights, stats.norm(), np.zeros((1, 7, 1)), np.ones((1, 7, 1))).cdf_1d(50.0, 0) <= 1.0
