"""Log-densities of sources at any point, and the step that raises the likelihood of the matrix."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorly_smp.splines.basis import LINEAR, ArcsinhTransform, spline_basis
from tensorly_smp.unmixing.sources import LogDensities, Shrinkage, fit_sources, maximize_unmixing

NO_SHRINKAGE = Shrinkage(np.ones(2), 0.0, 0.0)


@pytest.fixture(scope="module")
def mixed():
    """Two sources with two peaks each, and what they are mixed by."""
    rng = np.random.default_rng(0)
    sources = rng.choice([-2.0, 2.0], (2000, 2)) + 0.5 * rng.standard_normal((2000, 2))
    mixing = np.array([[1.0, 0.4], [-0.3, 1.0]])
    return sources @ mixing.T, mixing


def random_density(seed, transform):
    rng = np.random.default_rng(seed)
    basis = spline_basis(40)
    return LogDensities.of(basis, np.cumsum(rng.normal(0, 0.3, (40, 2)), axis=0), -3.0, 5.0, transform)


@pytest.mark.parametrize("transform", [LINEAR, ArcsinhTransform(0.5, 0.7)], ids=["linear", "arsinh"])
@given(st.integers(0, 2**32 - 1))
def test_slopes_are_derivatives(transform, seed):
    density = random_density(seed, transform)
    x = np.random.default_rng(seed).uniform(-4.0, 6.0, 50)
    h = 1e-6
    x = x[np.abs(x[:, None] - np.array([-3.0, 5.0])).min(axis=1) > 1e-3]
    numeric = (density.at(x + h)[0] - density.at(x - h)[0]) / (2 * h)
    np.testing.assert_allclose(density.at(x)[1], numeric, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("transform", [LINEAR, ArcsinhTransform(0.5, 0.7)], ids=["linear", "arsinh"])
def test_densities_integrate_to_one(transform):
    x = np.linspace(-3.0, 5.0, 20_001)
    values = np.exp(random_density(3, transform).at(x)[0])
    np.testing.assert_allclose(np.trapezoid(values, x, axis=0), 1.0, atol=2e-3)


def test_densities_do_not_rise_beyond_their_ends():
    low, high = (
        random_density(1, LINEAR).at(np.array([-3.0, -8.0]))[0],
        random_density(1, LINEAR).at(np.array([5.0, 9.0]))[0],
    )
    assert (low[1] <= low[0]).all()
    assert (high[1] <= high[0]).all()


def test_a_step_raises_the_likelihood(mixed):
    X, mixing = mixed
    weights, unmixing = np.ones(len(X)), np.eye(2)
    posterior = np.ones((len(X), 1))
    before = -np.inf
    for _ in range(6):
        fit = fit_sources(X @ unmixing.T, np.empty((len(X), 0)), (), posterior, weights, "reml", 5)
        reached = fit.log_likelihood / len(X) + np.log(abs(np.linalg.det(unmixing)))
        assert reached > before - 1e-3
        before = reached
        unmixing, gain = maximize_unmixing(
            X, weights, unmixing, fit.log_weights, fit.densities, np.var(X @ unmixing.T, axis=0), NO_SHRINKAGE
        )
        assert gain >= 0.0
    product = np.abs(unmixing @ mixing)
    product = np.sort(product / product.max(axis=1, keepdims=True), axis=1)
    assert product[:, 0].max() < 0.05


def test_gain_is_that_of_the_likelihood(mixed):
    X, _ = mixed
    weights = np.ones(len(X))
    fit = fit_sources(X, np.empty((len(X), 0)), (), np.ones((len(X), 1)), weights, "reml", 5)

    def likelihood(unmixing):
        values = [each.at(column)[0][:, 0] for each, column in zip(fit.densities, (X @ unmixing.T).T, strict=True)]
        return np.sum(values) / len(X) + np.log(abs(np.linalg.det(unmixing)))

    found, gain = maximize_unmixing(
        X, weights, np.eye(2), fit.log_weights, fit.densities, np.ones(2), NO_SHRINKAGE, n_steps=5
    )
    assert gain == pytest.approx(likelihood(found) - likelihood(np.eye(2)), abs=1e-9)


@given(st.integers(0, 2**32 - 1))
def test_shrinkage_has_its_gradient(seed):
    rng = np.random.default_rng(seed)
    shrinkage = Shrinkage(rng.uniform(0.5, 2.0, 3), 7.0, 2.0)
    unmixing, variances, direction = rng.standard_normal((3, 3)), rng.uniform(0.5, 2.0, 3), rng.standard_normal((3, 3))
    h = 1e-6
    up, down = (shrinkage.value_and_gradient(unmixing + sign * h * direction, variances)[0] for sign in (1, -1))
    slope = (shrinkage.value_and_gradient(unmixing, variances)[1] * direction).sum()
    assert (up - down) / (2 * h) == pytest.approx(slope, rel=1e-5, abs=1e-5)


def test_discrete_variables_count(mixed):
    X, _ = mixed
    rng = np.random.default_rng(1)
    labels = rng.integers(2, size=len(X))
    categories = (rng.random(len(X)) < np.where(labels, 0.9, 0.1)).astype(float)[:, None]
    categories[:5] = np.nan
    edges = (np.array([-0.5, 0.5, 1.5]),)
    posterior = np.eye(2)[labels] * 0.8 + 0.1
    fit = fit_sources(X, categories, edges, posterior, np.ones(len(X)), "reml", 0)
    joint = fit.log_joint(X, categories)
    without = fit.log_joint(X, np.full_like(categories, np.nan))
    np.testing.assert_array_equal(joint[:5], without[:5])
    probability = np.exp(joint - without)[5:]
    of_ones = probability[categories[5:, 0] == 1.0]
    np.testing.assert_allclose(of_ones, np.broadcast_to(of_ones[0], of_ones.shape))
    assert abs(of_ones[0] - 0.5).min() > 0.2
