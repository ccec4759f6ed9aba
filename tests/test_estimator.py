"""SmoothProductMixture as users and scikit-learn see it."""

import warnings

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from shared import DATA, FRAME, HOLES, NAMES, X, estimator
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import tensorly_smp as smp
from tensorly_smp.exceptions import (
    ConvergenceWarning,
    IdentifiabilityWarning,
    InvalidInputError,
    NonUniformBinsError,
    OutlierWarning,
)
from tensorly_smp.identifiability.likeness import identifiability_issues


@pytest.fixture(scope="module")
def model():
    return estimator().fit(X)


@pytest.fixture(scope="module")
def named():
    return estimator().fit(FRAME)


def accuracy(model, data=X):
    return smp.metrics.clustering_accuracy(DATA.labels, model.predict(data))


def same_fit(one, other):
    # All but the time it took, the kind of object that was fitted, and what that says of itself.
    first, second = (model.result_.drop_vars("seconds").assign_attrs(container="any") for model in (one, other))
    for dataset in (first, second):
        dataset.attrs = {name: value for name, value in dataset.attrs.items() if not name.startswith("samples_")}
    xr.testing.assert_identical(first, second)
    np.testing.assert_array_equal(one.score_samples(X), other.score_samples(X))


# What is learned


@pytest.mark.parametrize("options", [{}, {"refine": "em"}, {"refine": None, "loss": "frobenius"}])
def test_learns_the_mixture(options):
    fitted = estimator(**options).fit(X)
    assert accuracy(fitted) > 0.97
    assert (np.diff(fitted.weights_) <= 0).all()
    assert fitted.weights_.sum() == pytest.approx(1)
    fresh, labels = DATA.mixture.sample(1000, random_state=5)
    assert smp.metrics.clustering_accuracy(labels, fitted.predict(fresh)) > 0.97
    assert fitted.score(fresh) > DATA.mixture.logpdf(fresh).mean() - 0.5


def test_attributes_agree_and_imputation_helps(model):
    assert isinstance(model.result_, xr.Dataset)
    assert isinstance(model.density_, smp.MixtureDensity)
    assert isinstance(model.binning_, smp.Binning)
    np.testing.assert_array_equal(model.weights_, model.result_.weights)
    np.testing.assert_array_equal(model.factors_.weights, model.density_.weights)
    np.testing.assert_array_equal(model.labels_, model.predict(X))
    assert model.labels_.dtype.kind == "i"
    assert model.n_features_in_ == 4
    assert not hasattr(model, "feature_names_in_")
    assert model.converged_
    assert model.n_iter_ == model.result_.attrs["n_passes"] > 0
    posterior = model.predict_proba(X)
    np.testing.assert_allclose(posterior.sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict(X), posterior.argmax(axis=1))
    assert model.score(X) == model.score_samples(X).mean()
    assert isinstance(model.score(X), float)
    # Imputed means are better than the mean.
    missing = np.isnan(HOLES)
    error = (model.impute(HOLES) - X)[missing].std()
    plain = (np.where(missing, np.nanmean(HOLES, axis=0), HOLES) - X)[missing].std()
    assert error < 0.8 * plain


def test_stopped_fits_say_so():
    overlapping = smp.datasets.make_smooth_mixture("laplace", 500, 4, 3, random_state=0).X
    with pytest.warns(ConvergenceWarning):
        fitted = estimator(n_components=3, max_iter=2, tol=0.0).fit(overlapping)
    assert not fitted.converged_
    assert fitted.n_iter_ == 2
    assert fitted.result_.attrs["status"] == "max_sweeps"
    # Callback stops.
    losses = []
    fitted = estimator(refine=None, callback=lambda cp, loss: losses.append(loss) or len(losses) == 3).fit(X)
    assert len(losses) == 3
    assert fitted.result_.attrs["status"] == "callback"


def test_unfitted_sample_and_save(tmp_path):
    with pytest.raises(NotFittedError):
        estimator().sample()
    with pytest.raises(NotFittedError):
        estimator().save(tmp_path / "model.nc")
    assert not list(tmp_path.iterdir())


def test_sample(named):
    samples, labels = named.sample(2000, random_state=1)
    assert samples.shape == (2000, 4)
    np.testing.assert_allclose(np.bincount(labels) / 2000, named.weights_, atol=0.05)
    assert (named.predict(samples) == labels).mean() > 0.95
    assert list(samples.columns) == NAMES
    assert labels.name == "component"
    for other in (estimator().fit(sample_array(True)), estimator().fit(X)):
        np.testing.assert_array_equal(other.sample(2000, random_state=1)[0], samples)


# The same seed, the same result


@pytest.mark.parametrize("make", [np.int64, np.random.default_rng, np.random.RandomState, np.random.SeedSequence])
def test_generators_as_seed(make):
    same_fit(estimator(random_state=make(3)).fit(X), estimator(random_state=make(3)).fit(X))


def test_neither_jobs_nor_an_earlier_fit_change_a_bit():
    fitted = estimator(n_init=4).fit(X)
    same_fit(estimator(n_init=4, n_jobs=2).fit(X), fitted)
    assert fitted.result_.sizes["start"] == 4
    assert fitted.result_.start_loss.min() == fitted.result_.loss[-1]
    # Refit forgets the earlier fit.
    fitted = estimator().fit(FRAME).fit(X[:, :3])
    assert fitted.n_features_in_ == 3
    assert not hasattr(fitted, "feature_names_in_")
    same = estimator().fit(X[:, :3])
    np.testing.assert_array_equal(fitted.predict(X[:, :3]), same.predict(X[:, :3]))


def test_neither_init_nor_the_model_is_modified(named):
    model = estimator(refine=None).fit(X)
    init = smp.MixtureFactors(model.factors_.weights.copy(), [a.copy() for a in model.factors_.factors])
    fitted = estimator(init=init, refine=None).fit(X)
    assert fitted.n_iter_ <= model.n_iter_
    assert fitted.result_.loss[0] == pytest.approx(model.result_.loss[-1].item())
    np.testing.assert_array_equal(init.weights, model.factors_.weights)
    for given_factor, factor in zip(init.factors, model.factors_.factors, strict=True):
        np.testing.assert_array_equal(given_factor, factor)
    # Changing a result does not change the model.
    fitted = estimator().fit(X)
    fitted.result_.factors[:] = 0
    fitted.result_.weights[:] = 0
    assert fitted.factors_.weights.sum() == pytest.approx(1)
    np.testing.assert_array_equal(fitted.predict(X), named.predict(X))


# Labelled in, labelled out


def test_frames_keep_their_index_and_go_by_their_columns(named, model):
    assert named.feature_names_in_.tolist() == NAMES
    assert named.result_.indexes["variable"].tolist() == NAMES
    for result in (named.predict(FRAME), named.score_samples(FRAME)):
        assert isinstance(result, pd.Series)
        assert result.index is FRAME.index or result.index.equals(FRAME.index)
    posterior = named.predict_proba(FRAME)
    assert posterior.index.equals(FRAME.index)
    assert posterior.columns.tolist() == [0, 1]
    holes = FRAME.where(~np.isnan(HOLES))
    filled = named.impute(holes)
    assert filled.index.equals(FRAME.index)
    assert filled.columns.equals(FRAME.columns)
    assert isinstance(named.labels_, np.ndarray)
    # Columns in another order.
    shuffled = FRAME[["mass", "age", "length", "depth"]]
    pd.testing.assert_series_equal(named.predict(shuffled), named.predict(FRAME))
    pd.testing.assert_series_equal(named.score_samples(shuffled), named.score_samples(FRAME))
    pd.testing.assert_frame_equal(named.predict_proba(shuffled), named.predict_proba(FRAME))
    holes = FRAME.where(~np.isnan(HOLES))
    filled = named.impute(holes[shuffled.columns])
    assert filled.columns.equals(shuffled.columns)
    pd.testing.assert_frame_equal(filled[NAMES], named.impute(holes))
    # Arrays and frames after fits to the other.
    pd.testing.assert_series_equal(model.predict(FRAME), named.predict(FRAME))
    np.testing.assert_array_equal(named.predict(X), named.predict(FRAME).to_numpy())
    assert isinstance(named.predict(X), np.ndarray)
    with pytest.raises(InvalidInputError, match=r"X has 3 features, but SmoothProductMixture is expecting 4.*'length'"):
        named.predict(X[:, :3])


def sample_array(transposed):
    array = xr.DataArray(
        X,
        dims=("sample", "variable"),
        coords={"sample": FRAME.index, "variable": NAMES, "site": ("sample", np.arange(len(X)) % 3)},
        attrs={"source": "made up"},
        name="measurement",
    )
    return array.T if transposed else array


def test_dataarrays_and_datasets_keep_dims_and_coordinates(named):
    array = sample_array(transposed=True)
    fitted = estimator().fit(array)
    same_fit(fitted, named)
    assert fitted.feature_names_in_.tolist() == NAMES
    assert fitted.sample(3)[0].dims == ("sample", "variable")
    for result in (fitted.predict(array), fitted.score_samples(array)):
        assert isinstance(result, xr.DataArray)
        assert result.dims == ("sample",)
        xr.testing.assert_identical(result.site.variable, array.site.variable)
    np.testing.assert_array_equal(fitted.predict(array), named.predict(X))
    posterior = fitted.predict_proba(array)
    assert posterior.dims == ("sample", "component")
    holes = array.where(~np.isnan(xr.DataArray(HOLES, array.coords, ("sample", "variable"))))
    filled = fitted.impute(holes.transpose(*array.dims).assign_attrs(array.attrs))
    assert filled.dims == array.dims
    assert filled.attrs == array.attrs
    np.testing.assert_array_equal(filled.transpose("sample", "variable"), named.impute(HOLES))
    # Dataset.
    dataset = sample_array(False).to_dataset("variable")
    fitted = estimator().fit(dataset)
    same_fit(fitted, named)
    xr.testing.assert_identical(fitted.impute(dataset), dataset)
    merged = xr.merge([dataset, fitted.predict(dataset), fitted.predict_proba(dataset)], compat="equals")
    assert {*merged.data_vars} == {*dataset.data_vars, "label", "posterior"}
    assert merged.label.dims == ("sample",)
    np.testing.assert_array_equal(merged.posterior.argmax(axis=1), merged.label)


# Missing entries


def test_learns_from_incomplete_samples(model):
    fitted = estimator().fit(HOLES)
    assert accuracy(fitted) > accuracy(model) - 0.02
    assert accuracy(fitted, HOLES) > 0.85
    for result in (fitted.predict_proba(HOLES), fitted.score_samples(HOLES), fitted.impute(HOLES)):
        assert np.isfinite(result).all()


def test_sample_without_any_entry(model):
    row = np.full((1, 4), np.nan)
    np.testing.assert_allclose(model.predict_proba(row)[0], model.weights_, rtol=1e-12)
    assert model.predict(row).tolist() == [0]
    assert model.score_samples(row).item() == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(model.impute(row)[0], model.density_.mean())
    # In a fit it counts in no histogram.
    fitted = estimator().fit(np.vstack([X, row]))
    np.testing.assert_array_equal(fitted.score_samples(X), model.score_samples(X))


# Outliers


@settings(max_examples=15)
@given(st.lists(st.floats(allow_nan=True, allow_infinity=False), min_size=4, max_size=4))
def test_any_sample_gets_finite_answers(model, row):
    assert np.isfinite(model.score_samples([row])).all()
    assert model.predict_proba([row]).sum() == pytest.approx(1)
    assert np.isfinite(model.impute([row])).all()


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.DependenceWarning")
def test_coverage_against_one_far_outlier(model):
    spoiled = X.copy()
    spoiled[0] = 1e4
    with pytest.warns(OutlierWarning, match=r"coverage=0\.99"):
        blind = estimator(refine=None, density="histogram").fit(spoiled)
    robust = estimator(binning=smp.choose_binning(spoiled, 10, coverage=0.98)).fit(spoiled)
    assert accuracy(robust) > accuracy(model) - 0.01 > accuracy(blind) + 0.2
    assert max(edges[-1] for edges in robust.binning_.edges) < 20


# Weights of samples


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "options",
    [
        {"refine": "em", "binning": "quantile", "n_init": "auto"},
        {"refine": "em", "triples": 3},
        {"refine": None, "loss": "frobenius"},
    ],
)
def test_integer_weights_are_repeated_samples(options):
    fitted = estimator(max_iter=50, density="histogram", **options)
    weights = np.random.default_rng(0).integers(0, 4, len(X))
    weighted = clone(fitted).fit(X, sample_weight=weights)
    repeated = clone(fitted).fit(np.repeat(X, weights, axis=0))
    assert weighted.binning_ == repeated.binning_
    np.testing.assert_allclose(weighted.score_samples(X), repeated.score_samples(X), rtol=1e-6)


def test_samples_of_no_weight_do_not_count(model):
    spoiled = np.vstack([X, np.full((3, 4), 1e4)])
    weights = np.r_[np.ones(len(X)), np.zeros(3)]
    fitted = estimator().fit(spoiled, sample_weight=weights)
    assert fitted.binning_ == model.binning_
    np.testing.assert_allclose(fitted.score_samples(X), model.score_samples(X), rtol=1e-9)
    assert len(fitted.labels_) == len(spoiled)


# Bins and triples


def test_quantile_bins_need_histogram_densities():
    fitted = estimator(binning="quantile", density="histogram").fit(X)
    assert accuracy(fitted) > 0.97
    assert fitted.result_.attrs["binning_strategy"] == "quantile"
    with pytest.raises(NonUniformBinsError, match='density="histogram"'):
        estimator(binning="quantile", refine=None).fit(X)
    assert accuracy(estimator(binning="quantile").fit(X)) > 0.97  # splines do without bins


def test_unequal_numbers_of_bins():
    by_name = {"depth": 9, "age": 11, "length": 8, "mass": 10}
    fitted = estimator(n_bins=by_name).fit(FRAME)
    assert fitted.binning_.n_bins == (8, 9, 10, 11)
    same_fit(fitted, estimator(n_bins=np.array([8, 9, 10, 11])).fit(FRAME))
    assert fitted.result_.n_bins.values.tolist() == [8, 9, 10, 11]


def test_given_bins(model, named):
    same = estimator(binning=model.binning_, n_bins=99).fit(X)
    same_fit(same, estimator().fit(X))
    assert same.result_.attrs["binning_strategy"] == "uniform"
    # Names of the bins and no names of the samples, and the other way round: by position.
    by_position = estimator(binning=named.binning_).fit(X)
    np.testing.assert_array_equal(by_position.labels_, named.labels_)
    assert by_position.feature_names_in_.tolist() == NAMES
    np.testing.assert_array_equal(estimator(binning=model.binning_).fit(FRAME).labels_, model.labels_)
    # Names of both, in another order.
    same_fit(estimator(binning=named.binning_).fit(FRAME[["age", "mass", "depth", "length"]]), named)


# The algebraic start and the identifiability report


def test_start_is_reported():
    fitted = estimator(init="gevd").fit(X)
    attrs = fitted.result_.attrs
    assert sorted(int(n) for n in attrs["gevd_partition"].replace(";", "").split()) == [0, 1, 2, 3]
    assert len(attrs["gevd_bins"]) == 4
    assert (np.diff(attrs["gevd_singular_values"]) <= 0).all()
    # Some triples are no hindrance to the algebra.
    # No warning (they are errors here) that blocks have not been counted: the samples themselves are at hand.
    fitted = estimator(init="gevd", triples=[(0, 1, 2), (1, 2, 3)]).fit(X)
    assert "gevd_partition" in fitted.result_.attrs
    assert fitted.result_.triples.shape == (2, 3)
    assert accuracy(fitted) > 0.97


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.EmptyComponentWarning")
@pytest.mark.parametrize("refine", [None, "em"])
def test_more_components_than_the_sizes_allow(refine):
    quick = estimator(n_components=3, n_bins=2, refine=refine, density="histogram", init="random")
    with pytest.warns(IdentifiabilityWarning, match="at least 4 directions stay free") as record:
        fitted = quick.fit(X[:, :3])
    assert record[0].filename == __file__
    assert fitted.identifiability_.n_free_directions >= 4
    fewer = estimator(n_components=4, n_bins=3, refine=refine, density="histogram", init="random")
    with pytest.warns(IdentifiabilityWarning, match=r"4 components are more than 3|at least"):
        fewer.fit(X[:, :3])


LABELS = np.random.default_rng(0).integers(2, size=600)
NOISE = np.random.default_rng(1).normal(size=(600, 4))


def test_components_that_are_the_same_after_smoothed_em():
    same = smp.MixtureFactors([0.5, 0.5], [np.full((15, 2), 1 / 15)] * 4 + [np.full((2, 2), 1 / 2)])
    with pytest.warns(IdentifiabilityWarning, match="Components 0 and 1 are equal in all 5 variables") as record:
        fitted = smp.SmoothProductMixture(2, init=same, random_state=0).fit(np.column_stack([NOISE, LABELS]))
    assert {each.filename for each in record} == {__file__}
    assert "not identifiable" in str(fitted.identifiability_)


def test_components_are_told_apart_by_what_was_fitted():
    X = NOISE + 1.5 * LABELS[:, None]
    smp.SmoothProductMixture(2, random_state=0).fit(X)  # where warnings are errors
    skewed = np.exp(2 * X)
    # Everything is in the first bin.
    edges = tuple(np.linspace(column.min(), 20 * column.max(), 16) for column in skewed.T)
    binning = smp.Binning(edges, ("x0", "x1", "x2", "x3"))
    fitted = smp.SmoothProductMixture(2, binning=binning, random_state=0).fit(skewed)
    assert "equal in all 4" in " ".join(identifiability_issues(fitted.factors_))


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.DependenceWarning")
def test_report_is_kept_until_the_next_fit(model, named):
    assert isinstance(model.identifiability_, smp.IdentifiabilityReport)
    assert model.identifiability_.is_unique
    assert "mass" in str(named.identifiability_)
    fitted = estimator(n_components=1).fit(X)
    before = fitted.identifiability_
    assert fitted.set_params(n_components=2).fit(X).identifiability_ is not before
    with pytest.raises(NotFittedError):
        estimator().identifiability_  # noqa: B018


@pytest.mark.parametrize(
    ("triples", "refine"), [("all", None), (4, "smooth"), ([(0, 1, 2), (3, 4, 5), (1, 2, 3)], None)]
)
def test_loaded_models_report_the_same(triples, refine, tmp_path):
    data = smp.datasets.make_smooth_mixture("gaussian", 300, 6, 2, random_state=1)
    fitted = estimator(triples=triples, refine=refine, random_state=np.random.default_rng(0)).fit(data.X)
    fitted.save(tmp_path / "model.nc")
    loaded = smp.load(tmp_path / "model.nc")
    assert str(loaded.identifiability_) == str(fitted.identifiability_)
    xr.testing.assert_identical(loaded.identifiability_.to_dataset(), fitted.identifiability_.to_dataset())
    known = {"all": 20, "4": 4}.get(str(triples), 3)
    words = "whole samples known" if refine else "all 20 triples" if known == 20 else f"{known} of 20 triples"
    assert words in str(loaded.identifiability_)


# A good neighbor of scikit-learn


def test_representation():
    model = estimator().fit(X)
    assert repr(model) == "SmoothProductMixture(n_bins=8, n_init=1, random_state=0)"
    page = model._repr_html_()
    assert "SmoothProductMixture" in page
    assert model._identifiability is None  # seconds of work that nobody has asked for
    report = model.identifiability_
    assert model.identifiability_ is report
    if "weights_" in page:  # scikit-learn lists attributes, since 1.9
        assert "identifiability_" not in page
        assert "identifiability_" in model._repr_html_()


# New samples


def test_sample_dimension_by_name_and_weights_by_index():
    array = xr.DataArray(X, dims=("station", "gauge"))
    with pytest.raises(InvalidInputError, match="pass sample_dim"):
        estimator().fit(array)
    fitted = estimator(sample_dim="station").fit(array.T)
    assert fitted.n_features_in_ == X.shape[1]
    assert fitted.predict(array).dims == ("station",)
    # Weights are matched by index.
    frame = pd.DataFrame(X)
    weights = pd.Series(np.random.default_rng(0).integers(1, 4, len(X)), index=frame.index)
    same_fit(estimator().fit(frame, sample_weight=weights.iloc[::-1]), estimator().fit(frame, sample_weight=weights))
    with pytest.raises(InvalidInputError, match="index differs"):
        estimator().fit(frame, sample_weight=weights.set_axis(weights.index + 1))


def test_variables_that_are_never_seen_together():
    rng = np.random.default_rng(0)
    split = rng.normal(np.where(rng.integers(2, size=600), 2, -2)[:, None], 1, (600, 6))
    split[::2, :3] = np.nan
    split[1::2, 3:] = np.nan
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = estimator().fit(split)
    assert any("2 groups" in str(w.message) for w in caught if w.category is IdentifiabilityWarning)
    assert fitted.identifiability_.n_triples == 2
    for subject in (fitted, fitted.result_):
        assert smp.check_identifiability(subject).verdict == "not guaranteed"
