"""The estimator with a linear map shared by all components."""

import copy
import warnings

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from shared import circle
from sklearn.base import clone

import tensorly_smp as smp
from tensorly_smp.exceptions import (
    ConstantVariableWarning,
    ConvergenceWarning,
    DependenceWarning,
    FileFormatError,
    InvalidInputError,
    InvalidTypeError,
)
from tensorly_smp.fitting.results import fit_summary

MIXING = np.array([[1.0, 0.9, 0.2, 0.0], [0.1, 1.0, 0.8, 0.3], [0.5, 0.3, 1.0, -0.6], [0.2, -0.4, 0.1, 1.0]])


def fit(X, n_components=2, sample_weight=None, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = smp.UnmixedProductMixture(n_components, **({"random_state": 0} | parameters))
        return model.fit(X, sample_weight=sample_weight)


@pytest.fixture(scope="module")
def data():
    return smp.datasets.make_smooth_mixture("gmm", 1000, 4, 2, random_state=0)


@pytest.fixture(scope="module")
def frame(data):
    return pd.DataFrame(data.X @ MIXING.T, columns=["a", "b", "c", "d"])


@pytest.fixture(scope="module")
def model(frame):
    return fit(frame)


@pytest.fixture(scope="module")
def independent():
    """Samples of a product mixture: no map is needed."""
    return smp.datasets.make_smooth_mixture("laplace", 400, 4, 2, random_state=3)


@pytest.fixture(scope="module")
def product_model(independent):
    return fit(independent.X)


def amari(product):
    sizes = np.abs(product)
    n = len(sizes)
    rows, columns = sizes / sizes.max(axis=1, keepdims=True), sizes / sizes.max(axis=0, keepdims=True)
    return (rows.sum() + columns.sum() - 2 * n) / (2 * n * (n - 1))


def test_the_map_is_found_with_its_names_and_density(model, data, frame):
    assert not model.is_product_
    assert amari(model.unmixing_.values @ MIXING) < 0.03
    known = smp.SmoothProductMixture(2, random_state=0).fit(data.X)
    accuracy = [
        smp.metrics.clustering_accuracy(data.labels, labels) for labels in (model.labels_, known.predict(data.X))
    ]
    assert accuracy[0] > accuracy[1] - 0.01
    assert model.score(frame) > known.score(data.X) - np.log(np.linalg.det(MIXING)) - 0.01
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        product = smp.SmoothProductMixture(2, random_state=0).fit(frame)
    assert model.score(frame) > product.score(frame) + 0.3
    # Map has names units and signs.
    unmixing, mixing = model.unmixing_, model.mixing_
    assert unmixing.dims == ("source", "variable")
    assert mixing.dims == ("variable", "source")
    assert unmixing.source.values.tolist() == unmixing["variable"].values.tolist() == ["a", "b", "c", "d"]
    np.testing.assert_allclose(unmixing.values @ mixing.values, np.eye(4), atol=1e-10)
    sources = model.unmix(frame)
    assert isinstance(sources, pd.DataFrame)
    np.testing.assert_allclose(sources.to_numpy(), frame.to_numpy() @ unmixing.values.T)
    np.testing.assert_allclose(sources.std(ddof=0), 1.0, rtol=1e-6)
    # Each grows with the variable that it is named after, within components.
    within = mixing.values * np.sqrt(np.asarray(model.mixture_.density_.var("all")) @ model.weights_)
    assert (np.diag(within) > 0).all()
    # Density in the variables.
    joint = model.score_samples(frame)
    of_sources = model.mixture_.score_samples(model.unmix(frame))
    log_det = np.linalg.slogdet(model.unmixing_.values)[1]
    np.testing.assert_allclose(joint, of_sources + log_det)
    np.testing.assert_allclose(model.predict_proba(frame), model.mixture_.predict_proba(model.unmix(frame)))
    np.testing.assert_array_equal(model.predict(frame), model.labels_)
    X, components = model.sample(2000, random_state=0)
    assert list(X.columns) == list(frame.columns)
    assert len(components) == 2000
    np.testing.assert_allclose(X.mean(), frame.mean(), atol=0.5)
    assert abs(model.score(X) - model.score(frame)) < 0.2


def test_criteria_count_the_map(model, frame, product_model, independent):
    effective = model.mixture_.n_parameters_
    assert model.n_parameters_ == float(model.result_.attrs["n_parameters"]) == effective + 12
    total = -2.0 * model.score(frame) * len(frame)
    assert model.aic(frame) == pytest.approx(total + 2 * model.n_parameters_)
    assert model.bic(frame) == pytest.approx(total + np.log(len(frame)) * model.n_parameters_)
    assert model.bic(frame, np.full(len(frame), 2.0)) == pytest.approx(
        2 * total + np.log(2 * len(frame)) * model.n_parameters_
    )
    assert product_model.n_parameters_ == float(product_model.result_.attrs["n_parameters"])
    plain = smp.SmoothProductMixture(2, refine="em", density="histogram", n_bins=5, random_state=0).fit(independent.X)
    assert plain.n_parameters_ <= 2 * 4 * 4 + 1
    assert plain.aic(independent.X) < plain.bic(independent.X)


def test_units_and_rotation_do_not_matter(frame, model):
    factors = np.array([1e-3, 1.0, 1e4, 10.0])
    scaled = fit(frame * factors)
    np.testing.assert_allclose(scaled.unmixing_.values * factors, model.unmixing_.values, atol=1e-3)
    assert scaled.score(frame * factors) + np.log(factors).sum() == pytest.approx(model.score(frame), abs=1e-3)
    # Rotation does not matter.
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
    turned = pd.DataFrame(frame.to_numpy() @ turn.T, columns=frame.columns)
    assert fit(turned).score(turned) == pytest.approx(model.score(frame), abs=0.01)


def test_arrays_and_data_arrays(data):
    X = data.X[:200] @ MIXING.T
    of_array = fit(X, tol=0.1)
    labelled = xr.DataArray(X.T, dims=("variable", "sample"), coords={"variable": list("pqrs")})
    of_labelled = fit(labelled, tol=0.1)
    np.testing.assert_array_equal(of_array.unmixing_.values, of_labelled.unmixing_.values)
    np.testing.assert_array_equal(of_array.predict_proba(X), of_labelled.predict_proba(labelled))
    assert of_labelled.unmix(labelled).dims == ("variable", "sample")
    assert of_labelled.predict(labelled).dims == ("sample",)
    assert not hasattr(of_array, "feature_names_in_")
    assert of_labelled.feature_names_in_.tolist() == list("pqrs")


def test_discrete_and_constant_variables_stay_out(frame, data):
    rng = np.random.default_rng(0)
    smoker = (rng.random(len(frame)) < np.where(data.labels == 0, 0.1, 0.8)).astype(float)
    wide = frame[["a", "b", "c", "d"]].assign(smoker=smoker, one=1.0)[["smoker", "a", "b", "one", "c", "d"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the constant
        model = smp.UnmixedProductMixture(2, random_state=0).fit(wide)
    assert model.unmixing_.source.values.tolist() == ["a", "b", "c", "d"]
    assert amari(model.unmixing_.values @ MIXING) < 0.03
    assert smp.metrics.clustering_accuracy(data.labels, model.labels_) > 0.9
    X, _ = model.sample(50, random_state=0)
    assert set(X["smoker"]) == {0.0, 1.0}
    shares = model.density_.cdf_1d(0.5, "smoker", "all")
    assert abs(shares[0] - shares[1]) > 0.5
    # An entry of those may be missing.
    hidden = wide.copy()
    hidden.loc[:9, "smoker"] = np.nan
    assert np.isfinite(model.score_samples(hidden)).all()
    filled = model.impute(hidden, "draw", random_state=0)
    assert set(filled["smoker"]) == {0.0, 1.0}
    pd.testing.assert_frame_equal(filled.drop(columns="smoker"), wide.drop(columns="smoker"))


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.DependenceWarning")
def test_rounded_values_do_not_make_a_lattice(frame, model):
    X = frame.iloc[:400].round(0)
    rounded = smp.UnmixedProductMixture(2, tol=0.1, random_state=0).fit(X)
    assert rounded.score(X) < model.score(frame.iloc[:400]) + 0.3


def test_samples_that_cannot_be_unmixed(data):
    X = data.X[:200]
    one = np.random.default_rng(0).normal(size=(200, 1))
    parts = np.exp(np.random.default_rng(0).normal(scale=0.3, size=(150, 4)))
    percentages = 100.0 * parts / parts.sum(axis=1, keepdims=True)
    for values, words in (
        (np.where(np.arange(800).reshape(200, 4) == 13, np.nan, X), r"have missing entries \(NaN\).*impute"),
        (X[:, :2], "at least three"),
        (np.round(X[:, [0, 0, 0, 1]] / 50), "neither constant nor discrete"),
        (one * [1.0, 2.0, 3.0], r"'x0'.*'x2' determine each other"),
        (X * [1.0, 1e-150, 1.0, 1.0], r"'x1'.*rescale"),
        (X * [1.0, 1e150, 1.0, 1.0], r"'x1'.*rescale"),
        # They add up to 100 but for their rounding: the matrix would find that, and nothing else.
        (percentages.round(0), "leave one of them out, such as 'x3'"),
        (percentages.round(2), "leave one of them out, such as 'x3'"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            fit(values)
    dask_array = pytest.importorskip("dask.array")
    with pytest.raises(InvalidInputError, match="in chunks"):
        fit(dask_array.from_array(X, chunks=50))


@pytest.mark.parametrize(
    ("mixture", "error", "words"),
    [
        ("product", InvalidTypeError, "mixture is str"),
        (smp.SmoothProductMixture(refine="em"), InvalidInputError, 'expected "smooth"'),
        (smp.SmoothProductMixture(binning=smp.Binning((np.arange(4.0),) * 4)), InvalidInputError, "has a binning"),
        (smp.SmoothProductMixture(support={"x1": (-100.0, None)}), InvalidInputError, "has a support of 'x1'"),
    ],
)
def test_mixtures_that_cannot_be_used(data, mixture, error, words):
    with pytest.raises(error, match=words):
        smp.UnmixedProductMixture(2, mixture=mixture).fit(data.X)


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.RivalSolutionsWarning")
def test_parameters_of_the_mixture_can_be_set(frame, tmp_path):
    mixture = smp.SmoothProductMixture(penalty="aic", n_bins=8)
    model = clone(smp.UnmixedProductMixture(3, mixture=mixture, random_state=0))
    assert model.set_params(mixture__penalty="bic").get_params()["mixture__penalty"] == "bic"
    fitted = model.set_params(tol=0.1).fit(frame.iloc[:150])
    assert fitted.mixture_.n_components == 3
    assert fitted.mixture_.penalty == "bic"
    assert fitted.mixture_.init == smp.SmoothProductMixture().init
    assert fitted.mixture_.shape is None
    assert mixture.n_components == 2
    assert not hasattr(mixture, "density_")
    fitted.save(tmp_path / "model.nc")
    again = smp.load(tmp_path / "model.nc")
    assert again.mixture.penalty == "bic"
    assert again.mixture_.n_bins == 8


def test_too_few_samples_are_no_copies():
    few = np.random.default_rng(0).normal(size=(20, 60))
    for call in (
        lambda: smp.UnmixedProductMixture(1).fit(few),
        lambda: smp.UnmixedProductMixture(1).fit(np.vstack([few] * 2), sample_weight=np.repeat([1, 0], 20)),
    ):
        with pytest.raises(InvalidInputError, match=r"20 .* of 60 variables to unmix; expected more samples"):
            call()
    with pytest.raises(InvalidInputError, match="'x1' have no observed value"):
        smp.UnmixedProductMixture(1).fit(np.where(np.arange(3) == 1, np.nan, few[:, :3]))


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.TensorlySmpWarning")
def test_a_sample_that_outweighs_all_others_leaves_numbers():
    X = smp.datasets.make_smooth_mixture("gaussian", 60, 4, 2, random_state=0).X
    model = smp.UnmixedProductMixture(2, random_state=0).fit(X, sample_weight=[1e12, *np.ones(59)])
    assert np.isfinite(model.score_samples(X)).all()
    assert np.isfinite(model.unmixing_).all()


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.TensorlySmpWarning")
def test_one_gaussian_component_has_the_likelihood_of_a_gaussian():
    covariance = np.full((4, 4), 0.9999) + 0.0001 * np.eye(4)
    X = np.random.default_rng(0).multivariate_normal(np.zeros(4), covariance, 1000)
    model = smp.UnmixedProductMixture(1, random_state=0).fit(X)
    gaussian = -0.5 * (np.linalg.slogdet(2 * np.pi * np.cov(X.T, ddof=0))[1] + 4)
    assert model.score(X) == pytest.approx(gaussian, abs=0.01)


def test_data_choose_the_shape_and_the_sources(model):
    """Free densities for sources of two peaks; log-concave ones where these are clearly likelier."""
    assert model.mixture_.shape is None
    rng = np.random.default_rng(0)
    boxes = rng.uniform(-1.0, 1.0, (1000, 4)) + 2.5 * (np.arange(1000) % 2)[:, None] * [1.0, 0.5, 0.0, 0.0]
    assert fit(boxes @ MIXING.T).mixture_.shape == "log-concave"
    # A source of two peaks would join these groups as well as two components do.
    rng = np.random.default_rng(0)
    groups = np.arange(300) % 2
    X = rng.normal(size=(300, 4)) + np.where(groups, 2.5, -2.5)[:, None] * [1.0, 0.5, 0.0, 0.0]
    chosen = fit(X @ MIXING)
    assert smp.metrics.clustering_accuracy(groups, chosen.labels_) > 0.97
    # One component is independent component analysis.
    rng = np.random.default_rng(0)
    sources = np.stack([rng.uniform(-1, 1, 1500), rng.exponential(1.0, 1500), rng.laplace(0, 1, 1500)], axis=1)
    model = fit(sources @ MIXING[:3, :3].T, 1)
    assert amari(model.unmixing_.values @ MIXING[:3, :3]) < 0.05


def test_searches_that_have_not_converged_and_dependence_that_bends_are_said(frame):
    with pytest.warns(ConvergenceWarning, match=r"stopped after 1 pass\(es\)"):
        model = smp.UnmixedProductMixture(2, max_iter=1, random_state=0).fit(frame.iloc[:200])
    assert not model.converged_
    assert model.n_iter_ >= 1
    # Dependence that is not linear is said.
    with pytest.warns(DependenceWarning, match="Sources are strongly dependent") as caught:
        smp.UnmixedProductMixture(1, random_state=0).fit(circle())
    assert not any("UnmixedProductMixture" in each.message.advice for each in caught)


def test_record_of_the_search_and_of_no_map(model, product_model, independent):
    assert dict(fit_summary(model.result_))["unmixing"].startswith("4 of 4 variables are combined; start: ")
    assert dict(fit_summary(product_model.result_))["unmixing"].startswith("none: a product mixture of the variables")
    assert "variables are combined" in model._repr_html_()
    result = model.result_
    assert {"unmixing", "mixing", "mixed", "unmixing_log_likelihood", "unmixing_start_criterion"} <= set(result)
    assert "product" in result.unmixing_start.values
    assert result.attrs["unmixing_start_name"] in result.unmixing_start.values
    best = result.unmixing_start_criterion.max()
    assert best > result.unmixing_start_criterion.sel(unmixing_start="product") + 0.3
    assert result.unmixing_log_likelihood.sizes["alternation"] == model.n_iter_
    assert model.identifiability_.rank == 2
    # Product model where no map is needed.
    assert product_model.is_product_
    unmixing = product_model.unmixing_.values
    assert not (unmixing - np.diag(np.diag(unmixing))).any()
    product = smp.SmoothProductMixture(2, random_state=0).fit(independent.X)
    assert product_model.score(independent.X) == pytest.approx(product.score(independent.X), abs=0.01)
    assert (product_model.predict(independent.X) == product.predict(independent.X)).mean() in (
        pytest.approx(1.0, abs=0.02),
        pytest.approx(0.0, abs=0.02),
    )


def test_saved_models_come_back(model, frame, tmp_path):
    model.save(tmp_path / "model.nc")
    for again in (smp.load(tmp_path / "model.nc"), smp.load(model.to_dataset())):
        assert isinstance(again, smp.UnmixedProductMixture)
        np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
        np.testing.assert_array_equal(again.score_samples(frame), model.score_samples(frame))
        for name in ("n_parameters_", "is_product_"):
            assert getattr(again, name) == getattr(model, name)
        assert again.mixture_.shape == model.mixture_.shape
        of_sources = again.mixture_.predict_proba(model.unmix(frame))
        np.testing.assert_allclose(of_sources, model.predict_proba(frame), atol=1e-12)
        xr.testing.assert_identical(again.result_, model.result_)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda result: result.drop_vars("unmixing"), "lacks .*unmixing"),
        (lambda result: result.assign(unmixing=result.unmixing * np.nan), "out of shape or range"),
    ],
)
def test_matrices_that_are_none_are_refused(model, tmp_path, change, match):
    broken = copy.copy(model)
    broken.result_ = change(model.result_)
    with pytest.raises(InvalidInputError, match=match):
        broken.save(tmp_path / "model.nc")
    with pytest.raises(FileFormatError, match=match):
        smp.load(broken.to_dataset())
    assert not list(tmp_path.iterdir())


def test_twenty_thousand_rows_are_enough_for_the_map(data):
    X = data.mixture.sample(25_000, random_state=1)[0] @ MIXING.T
    model = fit(X, max_iter=5, tol=1e-2)
    assert amari(model.unmixing_.values @ MIXING) < 0.02
    assert len(model.labels_) == 25_000


def test_variables_that_others_determine_come_back(frame):
    part = frame.iloc[:200]
    wide = part.assign(rest=100.0 - part["a"] - part["c"], copy=part["b"] * 1.8 + 32.0)
    with pytest.warns(ConstantVariableWarning) as caught:
        model = smp.UnmixedProductMixture(2, random_state=0, tol=0.1).fit(wide)
    assert [each.message.variables for each in caught] == [("rest", "copy")]
    assert model.unmixing_.source.values.tolist() == ["a", "b", "c", "d"]
    plain = fit(part, tol=0.1)
    np.testing.assert_allclose(model.score_samples(wide), plain.score_samples(part))
    assert model.n_parameters_ == pytest.approx(plain.n_parameters_)
    X, _ = model.sample(100, random_state=0)
    np.testing.assert_allclose(X["rest"], 100.0 - X["a"] - X["c"])
    np.testing.assert_allclose(X["copy"], X["b"] * 1.8 + 32.0)
    hidden = wide.assign(rest=np.nan, copy=np.nan)
    pd.testing.assert_frame_equal(model.impute(hidden), wide)
    np.testing.assert_array_equal(model.predict(hidden), model.labels_)


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.TensorlySmpWarning")
def test_determined_variables_beside_discrete_ones_with_missing_entries(frame):
    part = frame.iloc[:100].assign(sum=frame["a"] + frame["b"], kind=[np.nan, *[1.0, 2.0, 3.0] * 33])
    model = smp.UnmixedProductMixture(2, random_state=0, tol=0.1).fit(part)
    pd.testing.assert_frame_equal(model.impute(part.assign(sum=np.nan))[["sum"]], part[["sum"]])


def test_determined_variables_beside_rounded_ones_without_a_map():
    """The product model takes rounded numbers for discrete, so that fewer variables are mixed than were searched."""
    rng = np.random.default_rng(0)
    groups = np.arange(300) % 2
    values = rng.normal(4.0 * groups[:, None], 1.0, (300, 2))
    X = np.column_stack([values, rng.binomial(10, np.where(groups, 0.2, 0.7)), 3.0 * values[:, 0] - 1.0])
    with pytest.warns(ConstantVariableWarning, match="'x3'"):
        model = smp.UnmixedProductMixture(2, random_state=0, tol=0.1).fit(X)
    assert model.is_product_
    hidden = np.where(np.arange(4) == 3, np.nan, X)
    np.testing.assert_allclose(model.impute(hidden), X)
    drawn, _ = model.sample(100, random_state=0)
    assert np.isin(drawn[:, 2], X[:, 2]).all()
    np.testing.assert_allclose(drawn[:, 3], 3.0 * drawn[:, 0] - 1.0)


def test_scores_are_mixed_as_rounded_numbers(data):
    """Integers are discrete in a product mixture; likelihoods of both are of probabilities."""
    X = np.round(data.X[:500] @ MIXING.T / 2.5)
    assert all(5 < len(np.unique(column)) <= 20 for column in X.T)
    model = fit(X)
    assert not model.is_product_
    assert model.unmixing_.shape == (4, 4)
    assert smp.metrics.clustering_accuracy(data.labels[:500], model.labels_) > 0.85
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DependenceWarning)
        product = smp.SmoothProductMixture(2, random_state=0).fit(X)
    assert len(product.binning_.discrete) == 4
    assert product.score(X) < model.score(X) < 0.0
    drawn, _ = model.sample(1000, random_state=0)
    np.testing.assert_array_equal(drawn, np.round(drawn))
    assert model.score(drawn) == pytest.approx(model.score(X), abs=0.5)  # of so many parameters
    again = smp.load(model.to_dataset())
    np.testing.assert_array_equal(again.score_samples(X), model.score_samples(X))
    # Where no map is needed, they are discrete as in a product mixture.
    independent = np.random.default_rng(0).binomial(10, np.where(np.arange(500) % 2, 0.2, 0.7)[:, None], (500, 4))
    chosen = fit(independent)
    assert chosen.is_product_
    product = smp.SmoothProductMixture(2, random_state=0).fit(independent)
    assert chosen.score(independent) == pytest.approx(product.score(independent), abs=1e-3)


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.TensorlySmpWarning")
@pytest.mark.parametrize("digits", [1, 15])
def test_equal_rows_are_the_same_samples_as_counts(data, digits):
    X = np.round(data.X[:80, :3] @ MIXING[:3, :3], digits)
    counts = np.random.default_rng(0).integers(0, 3, len(X))
    model = smp.UnmixedProductMixture(2, max_iter=1, random_state=0)
    weighted = clone(model).fit(X, sample_weight=counts)
    repeated = clone(model).fit(np.repeat(X, counts, axis=0))
    np.testing.assert_allclose(weighted.unmixing_, repeated.unmixing_, rtol=1e-9)
    np.testing.assert_allclose(weighted.score_samples(X), repeated.score_samples(X), rtol=1e-9)


def test_rounding_that_hides_a_copy_is_seen_in_rows_and_in_counts():
    """Off by -3 to 3, but in one of twenty samples only: unweighted, the rows would be far enough apart."""
    rng = np.random.default_rng(0)
    ages = np.repeat(rng.integers(0, 80, 100), 2)
    X = np.column_stack([ages, ages, rng.normal(size=200), rng.normal(size=200)])
    X[::2, 1] += rng.integers(-3, 4, 100)
    counts = np.tile([1, 20], 100)
    # A row of no weight, which is not rounded; weights that are no counts stay at their rows.
    nobody = np.vstack([X, [0.25, 0.5, 0.0, 0.0]]), np.append(1.5 * counts, 0.0)
    for rows, weights in ((X, counts), (np.repeat(X, counts, axis=0), None), nobody):
        with pytest.raises(InvalidInputError, match="but for the rounding"):
            smp.UnmixedProductMixture(2).fit(rows, sample_weight=weights)


@pytest.mark.parametrize("size", [1e2, 1e6])
def test_a_sample_far_out_does_not_decide_about_the_groups(size):
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 2
    X = (rng.normal(size=(200, 4)) + 2.5 * labels[:, None]) @ MIXING.T
    X[0, 0] = size
    model = smp.UnmixedProductMixture(2, random_state=0).fit(X)
    assert smp.metrics.clustering_accuracy(labels, model.labels_) > 0.95


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.TensorlySmpWarning")  # NumPy's are errors
def test_as_many_samples_as_components_are_fitted_in_silence():
    model = smp.UnmixedProductMixture(4, random_state=0).fit(np.random.default_rng(0).normal(size=(4, 3)))
    assert np.isfinite(np.asarray(model.unmixing_)).all()


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.TensorlySmpWarning")
@pytest.mark.parametrize("digits", [1, 15])
def test_order_of_rows_does_not_matter(data, digits):
    X = np.round(data.X[:80, :3] @ MIXING[:3, :3], digits)
    model = smp.UnmixedProductMixture(2, max_iter=1, random_state=0)
    expected = clone(model).fit(X)
    for other in (clone(model).fit(X[::-1]), clone(model).fit(X, sample_weight=np.ones(len(X)))):
        np.testing.assert_allclose(other.score_samples(X), expected.score_samples(X), rtol=1e-9)
