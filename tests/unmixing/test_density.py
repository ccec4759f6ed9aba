"""The density of mixed variables: exact where it says so, numeric elsewhere, and an error where it refuses."""

from dataclasses import replace

import numpy as np
import pytest

import tensorly_smp as smp
from tensorly_smp.densities.conditionals import DiscreteConditionals
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.unmixing.density import UnmixedDensity, project

UNMIXING = np.array([[1.0, 0.5, 0.0], [-0.4, 1.0, 0.0], [0.0, 0.0, 1.0]])


@pytest.fixture(scope="module")
def sources():
    X = smp.datasets.make_smooth_mixture("gamma", 1500, 3, 2, random_state=0).X
    return smp.SmoothProductMixture(2, random_state=0).fit(X).density_


@pytest.fixture(scope="module")
def density(sources):
    return UnmixedDensity(sources, UNMIXING, (0, 1), np.zeros(3))


@pytest.fixture(scope="module")
def draws(density):
    return density.sample(40_000, random_state=0)


def test_density_and_posterior_are_those_of_the_sources(density, sources, draws):
    X = draws[0][:50]
    Z = X @ UNMIXING.T
    np.testing.assert_allclose(density.logpdf(X), sources.logpdf(Z) + np.log(np.linalg.det(UNMIXING)))
    np.testing.assert_allclose(density.pdf(X), np.exp(density.logpdf(X)))
    np.testing.assert_allclose(density.posterior(X), sources.posterior(Z), atol=1e-12)
    np.testing.assert_allclose(np.exp(density.log_joint(X)).sum(axis=1), density.pdf(X))


def test_moments_are_those_of_samples(density, draws):
    X, labels = draws
    np.testing.assert_allclose(density.mean(), X.mean(axis=0), atol=0.05)
    np.testing.assert_allclose(density.cov(), np.cov(X.T), atol=0.15)
    np.testing.assert_allclose(density.var(), np.diag(density.cov()))
    for r in range(2):
        np.testing.assert_allclose(density.mean(r), X[labels == r].mean(axis=0), atol=0.05)
        np.testing.assert_allclose(density.cov(r), np.cov(X[labels == r].T), atol=0.15)
        np.testing.assert_allclose(density.var("all")[:, r], np.diag(density.cov(r)))


def test_densities_of_one_variable(density, sources, draws):
    X, labels = draws
    q = np.array([0.05, 0.3, 0.5, 0.7, 0.95])
    for n, name in enumerate(density.variables[:2]):
        values = np.quantile(X[:, n], q)
        np.testing.assert_allclose(density.cdf_1d(values, name), q, atol=0.012)
        np.testing.assert_allclose(density.cdf_1d(density.quantile_1d(q, name), name), q, atol=1e-6)
        of_first = np.quantile(X[labels == 0, n], q)
        np.testing.assert_allclose(density.cdf_1d(of_first, name, 0), q, atol=0.015)
        x = np.linspace(density.quantile_1d(1e-5, name), density.quantile_1d(1 - 1e-5, name), 20_001)
        assert np.trapezoid(density.pdf_1d(x, name), x) == pytest.approx(1.0, abs=1e-3)
        np.testing.assert_allclose(np.exp(density.logpdf_1d(x[:5], name)), density.pdf_1d(x[:5], name))
    x = np.linspace(-5.0, 5.0, 11)
    np.testing.assert_array_equal(density.pdf_1d(x, "x2"), sources.pdf_1d(x, "x2"))


@pytest.mark.parametrize("coefficients", [[2.0, 0.0, 0.0], [-0.5, 0.0, 0.0], [1.0, -1.0, 0.001]])
def test_projection_has_the_moments_of_the_sum(sources, coefficients):
    a = np.array(coefficients)
    found = project(sources.conditionals, a)
    spread = np.sqrt(a**2 @ sources.var("all"))
    np.testing.assert_allclose(found.mean(), a @ sources.mean("all"), atol=0.01 * spread.min())
    np.testing.assert_allclose(np.sqrt(found.variance()), spread, rtol=0.02)
    if not a[1:].any():
        x = np.linspace(-3.0, 3.0, 7)
        scaled = sources.conditionals[0].cdf(x / a[0])
        np.testing.assert_allclose(found.cdf(x), scaled if a[0] > 0 else 1.0 - scaled, atol=5e-3)


@pytest.mark.parametrize(("name", "argument"), [("marginal", ["x0"]), ("conditional", {"x0": 1.0})])
def test_refused_with_what_to_do_instead(density, name, argument):
    with pytest.raises(InvalidInputError, match=rf"{name} is not available .* Use "):
        getattr(density, name)(argument)


def test_rows_must_be_complete_but_for_what_is_not_mixed(density):
    with pytest.raises(InvalidInputError, match="1 of 2 samples lack a variable that is mixed"):
        density.logpdf([[1.0, np.nan, 0.0], [1.0, 1.0, 0.0]])
    hidden = np.array([[1.0, 1.0, np.nan], [0.5, -1.0, 2.0]])
    assert np.isfinite(density.logpdf(hidden)).all()
    filled = density.impute(hidden)
    np.testing.assert_array_equal(np.delete(filled, 2), np.delete(hidden, 2))
    assert filled[0, 2] == pytest.approx(density.posterior(hidden)[0] @ density.sources.mean("all")[2])
    with pytest.raises(InvalidInputError, match="1 of 1 samples lack a variable that is mixed"):
        density.impute([[1.0, np.nan, 0.0]])
    # Unknown variable.
    with pytest.raises(InvalidInputError, match="'y' is unknown"):
        density.pdf_1d(0.0, "y")


def test_rounded_values_have_the_probabilities_of_their_intervals(density):
    rounding = np.array([0.5, 0.0, 0.0])
    rounded = replace(density, rounding=rounding)
    x = np.array([[1.5, 0.3, 2.0], [0.5, -1.0, 0.4], [4.0, 2.0, np.nan]])
    points = np.linspace(-0.25, 0.25, 2001)
    moved = x[:, None] + points[:, None] * [1.0, 0.0, 0.0]
    within = [np.trapezoid(density.pdf(each), points) for each in moved]
    np.testing.assert_allclose(rounded.pdf(x), within, rtol=0.01)
    # All of them add up to one, and are those of samples.
    lattice = np.arange(-40, 80) * 0.5
    name = density.variables[0]
    masses = rounded.pdf_1d(lattice, name)
    assert masses.sum() == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_allclose(np.cumsum(masses), density.cdf_1d(lattice + 0.25, name), atol=1e-6)
    drawn, _ = rounded.sample(20_000, random_state=0)
    np.testing.assert_array_equal(drawn[:, 0] % 0.5, 0.0)
    shares = (drawn[:, 0, None] == lattice).mean(axis=0)
    np.testing.assert_allclose(shares, masses, atol=0.02)


def test_two_rounded_variables_are_integrated_together(density):
    rounded = replace(density, rounding=np.array([1.0, 2.0, 0.0]))
    lattice = np.stack(np.meshgrid(np.arange(-40.0, 60), np.arange(-80.0, 120, 2), indexing="ij"), axis=-1)
    total = np.full((*lattice.shape[:2], 3), np.nan)
    total[..., :2] = lattice
    assert rounded.pdf(total.reshape(-1, 3)).sum() == pytest.approx(1.0, abs=0.01)


def test_variables_that_others_determine_are_theirs(sources):
    """x2 = 3 - x0 + 2 x1."""
    unmixing = np.array([[1.0, 0.5, 0.0], [-0.4, 1.0, 0.0], [1.0, -2.0, 1.0]])
    constant = DiscreteConditionals(np.array([3.0]), np.ones((1, 2)))
    of_sources = replace(sources, conditionals=(*sources.conditionals[:2], constant))
    density = UnmixedDensity(of_sources, unmixing, (0, 1), np.zeros(3))
    assert density.determined == (2,)
    X, _ = density.sample(500, random_state=0)
    np.testing.assert_allclose(X[:, 2], 3.0 - X[:, 0] + 2.0 * X[:, 1])
    hidden = X * [1.0, 1.0, np.nan]
    np.testing.assert_allclose(density.impute(hidden), X)
    np.testing.assert_allclose(density.logpdf(X), density.logpdf(hidden))
    assert (density.logpdf(X + np.eye(3)[2]) < -600.0).all()
    assert density.mean()[2] == pytest.approx(3.0 - density.mean()[0] + 2.0 * density.mean()[1])
    middle = density.quantile_1d(0.5, density.variables[2])
    assert (X[:, 2] < middle).mean() == pytest.approx(0.5, abs=0.08)


def test_in_words(density):
    assert repr(density) == "UnmixedDensity(3 variables, 2 of them mixed, 2 components)"
    assert "2 of 3" in density._repr_html_()
