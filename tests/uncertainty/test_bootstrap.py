"""Replicates of a fit: what theory says of their spread, and what is held."""

import copy
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from sklearn.exceptions import NotFittedError

import tensorly_smp as smp
from tensorly_smp import StopReason
from tensorly_smp.exceptions import (
    ConstantVariableWarning,
    ConvergenceWarning,
    InvalidInputError,
    InvalidTypeError,
    SizeLimitError,
    TensorlySmpWarning,
)
from tensorly_smp.uncertainty.bootstrap import points_of, run_bootstrap

DATA = smp.datasets.make_smooth_mixture("gaussian", 600, 5, 2, random_state=0)
X = DATA.X
KINDS = ["smooth", "em", None]
NAMES = list("abcde")
MIXED = pd.DataFrame(
    {"count": np.random.default_rng(0).poisson(1 + 4 * DATA.labels), "a": X[:, 0], "b": X[:, 1], "c": X[:, 2]}
)


def fit(values=X, sample_weight=None, n_components=2, **parameters):
    return smp.SmoothProductMixture(n_components, random_state=0, **parameters).fit(values, sample_weight=sample_weight)


@pytest.fixture(scope="module")
def models():
    return {refine: fit(refine=refine, density="auto" if refine == "smooth" else "histogram") for refine in KINDS}


@pytest.fixture(scope="module")
def replicates(models):
    return models["smooth"].bootstrap(X, 60, random_state=0)


@pytest.mark.parametrize("refine", KINDS)
def test_fitted_again_to_its_own_samples_a_model_stays(models, refine):
    model = models[refine]
    refit = model._refit(X)
    samples = refit.assign_to_grid(X)
    posterior = refit.posterior(samples)
    np.testing.assert_allclose(posterior, model.predict_proba(X), atol=0.02)
    mixture, _, status = refit.again(samples, X, posterior, refit.flattest(samples, posterior), None)
    np.testing.assert_allclose(np.exp(mixture.log_weights), model.weights_, atol=1e-3)
    for one, two in zip(refit.conditionals(mixture, 600.0), model.density_.conditionals, strict=True):
        points = np.linspace(-6, 6, 30)
        np.testing.assert_allclose(one.cdf(points), two.cdf(points), atol=0.01)
    assert status.is_converged


def test_of_clear_groups_the_spread_is_that_of_shares_and_means(models, replicates):
    """The seed is that of the samples, too: streams must not be theirs."""
    weights, sd = models["smooth"].weights_, np.sqrt(models["smooth"].density_.var("all"))
    np.testing.assert_allclose(replicates.weights.std("replicate"), np.sqrt(weights * (1 - weights) / 600), rtol=0.3)
    np.testing.assert_allclose(replicates["mean"].std("replicate"), sd / np.sqrt(600 * weights), rtol=0.4)
    np.testing.assert_allclose(replicates.weights.mean("replicate"), weights, atol=0.01)
    below = replicates.fit_cdf.values
    spread = np.sqrt(below * (1 - below) / (600 * weights))
    middle = (below > 0.2) & (below < 0.8)
    ratio = replicates.cdf.std("replicate").values[middle] / spread[middle]
    assert 0.6 < np.median(ratio) < 1.1  # smoothing makes it smaller


def test_the_dataset_is_one_of_densities(models, replicates):
    assert replicates.weights.dims == ("replicate", "component")
    assert replicates["mean"].dims == ("replicate", "variable", "component")
    assert replicates.cdf.dims == replicates.density.dims == ("replicate", "variable", "point", "component")
    assert replicates["variable"].values.tolist() == ["x0", "x1", "x2", "x3", "x4"]
    np.testing.assert_allclose(replicates.weights.sum("component"), 1.0)
    assert (replicates.cdf.diff("point") >= 0).all()
    assert (replicates.density >= 0).all()
    np.testing.assert_array_equal(replicates.fit_weights, models["smooth"].weights_)
    assert replicates.attrs == {"n_switched": 0, "method": "rows"}
    assert replicates.converged.all()
    assert float(replicates.agreement.min()) > 0.9
    for n, name in enumerate(models["smooth"].binning_.variables):
        points = replicates.x.values[n]
        assert (np.diff(points) >= 0).all()
        np.testing.assert_array_equal(replicates.fit_cdf[n], models["smooth"].density_.cdf_1d(points, name, "all"))
        np.testing.assert_array_equal(replicates.fit_density[n], models["smooth"].density_.pdf_1d(points, name, "all"))
    assert all(each.attrs["long_name"] for each in replicates.data_vars.values())
    bounds = replicates.quantile([0.025, 0.975], "replicate")
    assert bounds.weights.shape == (2, 2)


def test_the_first_replicates_depend_on_neither_their_number_nor_threads_nor_a_file(models, replicates, tmp_path):
    some = models["smooth"].bootstrap(X, 3, n_jobs=2, random_state=0)
    xr.testing.assert_allclose(some.drop_attrs(), replicates.isel(replicate=slice(3)).drop_attrs(), rtol=1e-9)
    other = models["smooth"].bootstrap(X, 3, random_state=1)
    assert (other.weights != some.weights).any()
    # A loaded model has the same.
    models["smooth"].save(tmp_path / "model.nc")
    again = smp.load(tmp_path / "model.nc").bootstrap(X, 2, random_state=0)
    xr.testing.assert_allclose(again.drop_attrs(), replicates.isel(replicate=slice(2)).drop_attrs(), rtol=1e-9)


@pytest.mark.parametrize("method", ["rows", "parametric"])
@pytest.mark.parametrize("refine", KINDS)
def test_every_kind_of_fit_has_them(models, refine, method):
    found = models[refine].bootstrap(X, 6, method=method, random_state=0)
    assert found.attrs["method"] == method
    np.testing.assert_allclose(found.weights.mean("replicate"), models[refine].weights_, atol=0.05)
    assert (found.agreement > 0.9).all()
    assert (found.weights.std("replicate") > 0.005).all()


class Recording:
    """A refit that keeps what it is fitted to, and returns the first fit, perhaps with components turned."""

    def __init__(self, model, turns=False, interrupted=-1):
        self.refit, self.turns, self.interrupted = model._refit(X), turns, interrupted
        self.weights, self.values = [], []

    def __getattr__(self, name):
        return getattr(self.refit, name)

    def flattest(self, *_):
        return SimpleNamespace(is_flat=False)  # as a handful of samples is not

    def again(self, samples, values, posterior, *_):
        self.weights.append(samples.sample_weight)
        self.values.append(values)
        is_last = len(self.weights) - 1 == self.interrupted
        order = [1, 0] if self.turns else [0, 1]
        mixture = replace(
            self.mixture,
            log_weights=self.mixture.log_weights[order],
            coefficients=self.mixture.coefficients[:, :, order],
        )
        return mixture, posterior[:, order], StopReason.INTERRUPTED if is_last else StopReason.CONVERGED


OPTIONS = dict(method="rows", n_replicates=4, n_points=10, n_jobs=None, random_state=0)


def test_rows_are_drawn_as_often_as_weights_say_unless_they_are_empty(models):
    model = models["smooth"]
    refit = Recording(model)
    weights = np.zeros(600)
    weights[:5] = [0.0, 1.0, 2.0, 3.0, 4.5]
    run_bootstrap(refit, model.density_, X, weights, **(OPTIONS | dict(n_replicates=200, n_points=2)))
    assert {draw.sum() for draw in refit.weights} == {10.0}  # 10.5 is rounded
    np.testing.assert_allclose(np.mean(refit.weights, axis=0), 10 * weights / weights.sum(), atol=0.4)
    assert not np.any([draw[0] for draw in refit.weights])
    # Samples without entries say nothing.
    model = models["smooth"]
    refit = Recording(model)
    run_bootstrap(refit, model.density_, np.vstack([X, np.full((50, 5), np.nan)]), np.ones(650), **OPTIONS)
    assert len(refit.weights) == 4
    for weights in refit.weights:
        assert weights.sum() == 600
        assert not weights[600:].any()
    with pytest.raises(InvalidInputError, match="lack all entries"):
        run_bootstrap(refit, model.density_, X * np.nan, np.ones(600), **OPTIONS)


@pytest.mark.parametrize("weights", [[1.0, 0.0, 2.0], [0.5, 0.0, 2.5]])
def test_drawn_samples_have_the_patterns_of_the_rows(models, weights):
    model = models["smooth"]
    refit = Recording(model)
    missing = np.array([[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 1, 0]], dtype=bool)
    values = np.where(missing, np.nan, X[:3])
    run_bootstrap(refit, model.density_, values, np.array(weights), **(OPTIONS | dict(method="parametric")))
    for drawn in refit.values:
        assert len(drawn) == 3
        assert set(map(tuple, np.isnan(drawn))) <= {tuple(missing[0]), tuple(missing[2])}


def test_missing_and_rounded_values_stay_so():
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    model = fit(holes)
    for method in ("rows", "parametric"):
        found = model.bootstrap(holes, 5, method=method, random_state=0)
        np.testing.assert_allclose(found.weights.mean("replicate"), model.weights_, atol=0.05)
    # Rounded values are spread as in the fit.
    rounded = X.round(0)
    model = fit(rounded, discrete=[])
    refit = model._refit(rounded)
    samples = refit.assign_to_grid(rounded)
    assert samples.cells.resolution.any()
    posterior = refit.posterior(samples)
    mixture, _, _ = refit.again(samples, rounded, posterior, refit.flattest(samples, posterior), None)
    np.testing.assert_allclose(np.exp(mixture.log_weights), model.weights_, atol=1e-3)


def test_of_discrete_variables_there_are_points_at_the_values():
    model = fit(MIXED)
    found = model.bootstrap(MIXED, 5, random_state=0).sel(variable="count")
    points = found.x.values[~np.isnan(found.x.values)]
    assert set(points) <= set(range(20))
    assert len(points) > 5
    assert np.isnan(found.cdf.values[:, len(points) :]).all()
    assert np.isfinite(found.cdf.values[:, : len(points)]).all()
    # What the fit has warned of is not said for each replicate.
    constant = np.column_stack([X, np.zeros(600)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantVariableWarning)
        model = fit(constant, refine=None, density="histogram")
    assert model.bootstrap(constant, 2, random_state=0).sizes["replicate"] == 2


def test_weights_are_numbers_of_samples():
    weights = np.random.default_rng(0).integers(0, 4, 600)
    model = fit(sample_weight=weights)
    found = model.bootstrap(X, 60, sample_weight=weights, random_state=0)
    of_weights = found.weights.std("replicate").values
    share = model.weights_
    np.testing.assert_allclose(of_weights, np.sqrt(share * (1 - share) / weights.sum()), rtol=0.35)


def test_components_that_change_places_are_put_back_and_counted(models):
    model = models["smooth"]
    found = run_bootstrap(Recording(model, turns=True), model.density_, X, np.ones(600), **OPTIONS)
    assert found.attrs["n_switched"] == 4
    assert found.switched.all()
    for name in ("weights", "mean", "cdf", "density"):
        np.testing.assert_allclose(found[name][0], found[f"fit_{name}"], atol=1e-9)
    np.testing.assert_array_equal(found.agreement, 1.0)


def test_an_interrupt_leaves_the_replicates_that_are_complete(models):
    model = models["smooth"]
    with pytest.warns(ConvergenceWarning, match="2 of 4 replicates"):
        found = run_bootstrap(Recording(model, interrupted=2), model.density_, X, np.ones(600), **OPTIONS)
    assert found.sizes["replicate"] == 2
    with pytest.raises(KeyboardInterrupt):
        run_bootstrap(Recording(model, interrupted=0), model.density_, X, np.ones(600), **OPTIONS)


def test_columns_go_by_their_names_and_rows_by_their_number(models):
    frame = pd.DataFrame(X, columns=NAMES)
    model = fit(frame, refine="em", density="histogram")
    expected = model.bootstrap(X, 2, random_state=0)
    xr.testing.assert_identical(model.bootstrap(frame[NAMES[::-1]], 2, random_state=0), expected)
    for others in (frame.rename(columns={"a": "z"}), frame[NAMES[1:]], X[:, 1:]):
        with pytest.raises(ValueError, match=r"z|a|4 features"):
            model.bootstrap(others, 1)
    with pytest.raises(InvalidInputError, match="500 samples; expected the 600"):
        models["smooth"].bootstrap(X[:500])


def test_parameters_set_after_the_fit_change_nothing(models):
    others = dict(
        n_components=5, tol=0.1, max_iter=1, penalty="bic", loss="frobenius", n_init=1, refine="em", triples=1
    )
    for model in models.values():
        since = copy.deepcopy(model).set_params(**others)
        xr.testing.assert_identical(*(each.bootstrap(X, 2, random_state=0) for each in (since, model)))


def test_points_are_dense_where_the_density_is(models):
    density = models["smooth"].density_
    grid = points_of(density, 40)
    assert grid.shape == (5, 40)
    for row, name in zip(grid, density.variables, strict=True):
        below = density.cdf_1d(row, name)
        assert below[0] < 0.01 < 0.99 < below[-1]
        assert np.diff(below).max() < 0.1
    # Points follow the coordinate of the splines.
    rng = np.random.default_rng(0)
    X = np.exp(2.0 * rng.normal(size=(500, 3)))
    density = smp.SmoothProductMixture(1, random_state=0).fit(X).density_
    grid = points_of(density, 40)[0]
    below = density.cdf_1d(grid, "x0")
    assert np.sum(below > 0.97) < 15  # of points that are equally spaced, half are beyond


def test_of_unmixed_models_they_are_of_the_sources():
    linked = X[:100, :3] @ (np.eye(3) + 0.8 * np.eye(3, k=1))
    model = smp.UnmixedProductMixture(2, random_state=0).fit(linked)
    found = model.bootstrap(linked, 5, random_state=0)
    np.testing.assert_array_equal(found.fit_weights, model.weights_)
    expected = model.mixture_.bootstrap(model.unmix(linked), 5, random_state=0)
    np.testing.assert_allclose(found.weights, expected.weights)
    chunks = pytest.importorskip("dask.array").from_array(linked, chunks=100)
    with pytest.raises(InvalidInputError, match=r"in chunks.*compute"):
        model.bootstrap(chunks)


def test_what_cannot_be_is_refused(models):
    model = models["smooth"]
    with pytest.raises(NotFittedError):
        smp.SmoothProductMixture().bootstrap(X)
    with pytest.raises(InvalidInputError, match="'rows', 'parametric'"):
        model.bootstrap(X, method="jackknife")
    with pytest.raises(InvalidInputError, match="n_replicates is 0"):
        model.bootstrap(X, 0)
    with pytest.raises(InvalidTypeError, match="n_points"):
        model.bootstrap(X, n_points=2.5)
    with pytest.raises(InvalidInputError, match="n_jobs is 0"):
        model.bootstrap(X, n_jobs=0)
    with pytest.raises(SizeLimitError, match="smaller n_points"):
        model.bootstrap(X, 10**6, n_points=10**6)
    # More samples than can be are refused.
    model = models["smooth"]
    many = OPTIONS | dict(method="parametric")
    with pytest.raises(SizeLimitError, match="samples of a replicate"):
        run_bootstrap(Recording(model), model.density_, X, np.full(600, 1e9), **many)
    # Replicates of fewer samples than components say so.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TensorlySmpWarning)
        model = fit(X[:5], n_components=4, refine=None, density="histogram")
    with pytest.raises(InvalidInputError, match="different samples, too few for 4 components"):
        model.bootstrap(X[:5], 20, random_state=0)


def test_bands(models, replicates):
    axes = models["smooth"].plot.conditionals(X, ["x1"], bootstrap=replicates, level=0.9)
    bands = axes[0].collections
    assert len(bands) == 2
    low, high = np.quantile(replicates.density.values[:, 1, :, 0], [0.05, 0.95], axis=0)
    vertices = bands[0].get_paths()[0].vertices
    assert {*np.round(vertices[:, 1], 12)} >= {*np.round(low, 12), *np.round(high, 12)}
    assert len(models["smooth"].plot.conditionals(X, ["x1"])[0].collections) == 0
    with pytest.raises(InvalidTypeError, match="dataset is"):
        models["smooth"].plot.conditionals(bootstrap=3)
    with pytest.raises(InvalidInputError, match="lacks"):
        models["smooth"].plot.conditionals(bootstrap=models["smooth"].result_)
    with pytest.raises(InvalidInputError, match="level"):
        models["smooth"].plot.conditionals(bootstrap=replicates, level=95)
    with pytest.raises(InvalidInputError, match=r"expected \(5, 2\)"):
        models["smooth"].plot.conditionals(bootstrap=replicates.isel(component=[0]))
