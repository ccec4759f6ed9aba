import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorly_smp as smp
from tensorly_smp.codes.categories import category_edges
from tensorly_smp.densities.histogram import histogram_conditionals

FAR = [float(np.iinfo(np.int64).min), -3.4e38, -1e17, 1e17, -1e300, 1e307]


@pytest.mark.parametrize("far", FAR)
def test_one_far_category_leaves_the_others_their_bins(far):
    values = np.sort([0.0, 1.0, 2.0, far])
    made = histogram_conditionals(category_edges(values), np.full((4, 1), 0.25), categories=values)
    assert np.isfinite(made.logpdf(values)).all()
    np.testing.assert_allclose(np.exp(made.logpdf(np.array([0.0, 1.0, 2.0])))[1:-1], 0.25, rtol=0.02)
    steps = made.cdf(np.array([-np.inf, 0.5, 1.5, np.inf]))[:, 0]
    assert (np.diff(steps) > 0.2).all()
    assert steps[-1] == 1.0
    assert set(made.value_quantile(np.linspace(0.01, 0.99, 99), 0)) == set(values)


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


@pytest.mark.parametrize("far", FAR[:4])
@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.TensorlySmpWarning")
def test_discrete_variable_with_one_far_value_fits_and_can_be_loaded(far, tmp_path):
    pytest.importorskip("h5netcdf")
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
