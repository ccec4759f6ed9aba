"""The density of mixed variables: exact where it says so, numeric elsewhere, and an error where it refuses."""

import numpy as np
import pytest

import tensorly_smp as smp
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.unmixing.density import UnmixedDensity, project

UNMIXING = np.array([[1.0, 0.5, 0.0], [-0.4, 1.0, 0.0], [0.0, 0.0, 1.0]])


@pytest.fixture(scope="module")
def sources():
    X = smp.datasets.make_smooth_mixture("gamma", 1500, 3, 2, random_state=0).X
    return smp.SmoothProductMixture(2, random_state=0).fit(X).density_


@pytest.fixture(scope="module")
def density(sources):
    return UnmixedDensity(sources, UNMIXING, (0, 1))


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


@pytest.mark.parametrize(
    ("name", "argument"), [("marginal", ["x0"]), ("conditional", {"x0": 1.0}), ("impute", [[1.0, 2.0, 3.0]])]
)
def test_refused_with_what_to_do_instead(density, name, argument):
    with pytest.raises(InvalidInputError, match=rf"{name} is not available .* Use "):
        getattr(density, name)(argument)


def test_rows_must_be_complete_but_for_what_is_not_mixed(density):
    with pytest.raises(InvalidInputError, match="1 of 2 samples lack a variable that is mixed"):
        density.logpdf([[1.0, np.nan, 0.0], [1.0, 1.0, 0.0]])
    assert np.isfinite(density.logpdf([[1.0, 1.0, np.nan]])).all()


def test_unknown_variable(density):
    with pytest.raises(InvalidInputError, match="'y' is unknown"):
        density.pdf_1d(0.0, "y")


def test_in_words(density):
    assert repr(density) == "UnmixedDensity(3 variables, 2 of them mixed, 2 components)"
    assert "2 of 3" in density._repr_html_()
