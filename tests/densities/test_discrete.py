"""Probabilities of the values of a discrete variable."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorly_smp as smp
from tensorly_smp.densities.conditionals import DiscreteConditionals
from tensorly_smp.densities.mixture_density import MixtureDensity

VALUES = np.array([-3.5, 0.0, 1.0, 10.0])
SHARES = np.array([[0.1, 0.0, 0.25], [0.2, 0.5, 0.25], [0.3, 0.0, 0.25], [0.4, 0.5, 0.25]])
WEIGHTS = np.array([0.5, 0.3, 0.2])
ITEM = DiscreteConditionals(VALUES, SHARES)
DENSITY = MixtureDensity(WEIGHTS, (ITEM,), ("x",))
FAR = [float(np.iinfo(np.int64).min), -3.4e38, -1e17, 1e17]


@pytest.mark.parametrize("x", [-9.0, -3.5, -1.0, 0.0, 0.4, 1.0, 9.9, 10.0, 11.0])
def test_probability_and_distribution_function_are_sums(x):
    for r in range(3):
        at = sum(p for value, p in zip(VALUES, SHARES[:, r], strict=True) if value == x)
        below = sum(p for value, p in zip(VALUES, SHARES[:, r], strict=True) if value <= x)
        assert DENSITY.pdf_1d(x, "x", r) == pytest.approx(at, abs=1e-15)
        assert DENSITY.cdf_1d(x, "x", r) == pytest.approx(below, abs=1e-15)
        expected = np.log(at) if at else np.log(np.finfo(float).tiny)
        assert DENSITY.logpdf_1d(x, "x", r) == pytest.approx(expected, abs=1e-12)
    assert DENSITY.pdf_1d(x, "x") == pytest.approx(DENSITY.pdf_1d(x, "x", "all") @ WEIGHTS, abs=1e-15)


def test_moments():
    for r in range(3):
        mean = sum(p * value for value, p in zip(VALUES, SHARES[:, r], strict=True))
        square = sum(p * value**2 for value, p in zip(VALUES, SHARES[:, r], strict=True))
        assert DENSITY.mean(r) == pytest.approx(mean)
        assert DENSITY.var(r) == pytest.approx(square - mean**2)
    mixed = SHARES @ WEIGHTS
    assert DENSITY.var() == pytest.approx(VALUES**2 @ mixed - (VALUES @ mixed) ** 2)
    assert DENSITY.cov().item() == pytest.approx(DENSITY.var().item())


@given(st.floats(1e-9, 1 - 1e-9), st.sampled_from([0, 1, 2, None]))
def test_quantile_is_the_smallest_value_up_to_which_the_share_lies(q, component):
    found = float(DENSITY.quantile_1d(q, "x", component))
    assert found in VALUES
    assert DENSITY.cdf_1d(found, "x", component) >= q - 1e-15
    assert DENSITY.cdf_1d(np.nextafter(found, -np.inf) - 1e-3, "x", component) < q


def test_draws_are_values_as_often_as_they_are_probable():
    X, components = DENSITY.sample(20_000, random_state=0)
    for r in range(3):
        shares = (X[components == r] == VALUES).mean(axis=0)
        np.testing.assert_allclose(shares, SHARES[:, r], atol=4 / np.sqrt((components == r).sum()))


def test_values_within_rounding_are_the_same():
    item = DiscreteConditionals(np.array([0.0, 0.1, 1.0]), np.array([[0.2], [0.3], [0.5]]))
    x = np.array([1e-17, 0.1 + 1e-17, np.float32(0.1), 1.0 - 1e-16, 0.11])
    assert item.pdf(x)[:, 0].tolist() == [0.2, 0.3, 0.3, 0.5, 0.0]
    np.testing.assert_allclose(item.cdf(x)[:, 0], [0.2, 0.5, 0.5, 1.0, 0.5])
    near = DiscreteConditionals(np.array([1e9, 1e9 + 1.0]), np.array([[0.4], [0.6]]))  # closer than single precision
    assert near.pdf(np.array([1e9, 1e9 + 0.5, 1e9 + 1.0]))[:, 0].tolist() == [0.4, 0.0, 0.6]


def test_a_constant_has_no_variance():
    constant = DiscreteConditionals(np.array([7.0]), np.ones((1, 2)))
    density = MixtureDensity(np.array([0.4, 0.6]), (constant, DiscreteConditionals(VALUES, SHARES[:, :2])), ("a", "b"))
    assert density.mean()[0] == 7.0
    assert density.var()[0] == 0.0
    assert density.cov()[0].tolist() == [0.0, 0.0]
    assert density.quantile_1d(0.3, "a") == 7.0


@pytest.mark.parametrize("far", FAR)
@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.TensorlySmpWarning")
def test_discrete_variable_with_one_far_value_fits_and_can_be_loaded(far, tmp_path):
    X, labels, _ = smp.datasets.make_smooth_mixture("gaussian", 400, 4, 2, random_state=0)
    X[:, 0] = labels + np.random.default_rng(0).integers(0, 2, 400)
    X[0, 0] = far
    model = smp.SmoothProductMixture(2, random_state=0).fit(X)
    assert np.isfinite(model.predict_proba(X)).all()
    assert np.isfinite(model.score_samples(X)).all()
    assert np.isfinite(model.density_.mean()).all()
    assert smp.metrics.clustering_accuracy(labels, model.predict(X)) > 0.95
    model.save(tmp_path / "model.nc")
    np.testing.assert_array_equal(smp.load(tmp_path / "model.nc").predict_proba(X), model.predict_proba(X))
