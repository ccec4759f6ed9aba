"""Three models of the same samples: figures against their definitions, what is advised, failures in words."""

import warnings

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import tensorly_smp as smp
from tensorly_smp.exceptions import DependenceWarning, InvalidInputError, TensorlySmpError
from tensorly_smp.selection import models as model_choice
from tensorly_smp.selection.fits import CandidateFit

X = smp.datasets.make_smooth_mixture("gamma", 200, 3, 2, random_state=1).X


def compare(data=X, n_components=2, **arguments):
    return smp.compare_models(data, n_components, **{"n_folds": 2, "random_state": 0, **arguments})


@pytest.fixture(scope="module")
def table():
    return compare()


def test_figures_are_those_of_the_models(table):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DependenceWarning)
        models = [
            smp.SmoothProductMixture(2, random_state=0).fit(X),
            smp.SmoothProductMixture(2, shape="log-concave", random_state=0).fit(X),
            smp.UnmixedProductMixture(2, random_state=0).fit(X),
        ]
    assert table.model.values.tolist() == ["product", "log-concave", "unmixed"]
    np.testing.assert_allclose(table.bic, [model.bic(X) for model in models], rtol=1e-9)
    posteriors = [model.predict_proba(X) for model in models]
    entropies = [-np.sum(p * np.log(np.maximum(p, 1e-300))) for p in posteriors]
    np.testing.assert_allclose(table.entropy, entropies, rtol=1e-9, atol=1e-9)
    counts = [smp.check_independence(model, X, random_state=0).n_dependent for model in models]
    assert table.n_dependent.values.tolist() == counts
    assert (table.failure == "").all()
    assert (table.seconds > 0).all()


def test_all_models_are_held_out_on_the_same_folds(table):
    job = model_choice.read_job(X, None, None, 0, smp.SmoothProductMixture())
    folds = model_choice.spread_over_folds(job, 2) > 0
    assert (folds.sum(axis=0) == 1).all()
    log_densities = np.empty((2, len(job.values)))
    for fold in folds:
        for k, shape in enumerate((None, "log-concave")):
            model = smp.SmoothProductMixture(2, shape=shape, random_state=0).fit(job.values[~fold])
            log_densities[k, fold] = model.score_samples(job.values[fold])
    mean = log_densities.mean(axis=1)
    # Bins, which searches do without, are held as in the fit of all samples.
    np.testing.assert_allclose(table.heldout_mean[:2], mean, rtol=1e-6)
    np.testing.assert_allclose(table.heldout_error[:2], log_densities.std(axis=1) / np.sqrt(len(X)), rtol=1e-6)
    gap = log_densities[0] - log_densities[1]
    difference = float(table.heldout_gap[1] - table.heldout_gap[0])
    assert difference == pytest.approx(gap.mean(), abs=1e-9)
    assert table.heldout_gap.min() == 0.0


@pytest.mark.parametrize(
    ("gaps", "errors", "n_parameters", "is_free_product", "expected"),
    [
        ([0.0, 0.5, 0.5], [0.0, 0.1, 0.1], [50, 40, 60], False, ("product", "log-concave")),
        ([0.0, 0.5, 0.0], [0.0, 0.1, 0.0], [50, 40, 50], True, ("product", "product")),
        ([3e-5, 0.5, 0.0], [2e-5, 0.1, 0.0], [50, 40, 50], True, ("product", "product")),
        ([0.05, 0.0, 0.3], [0.1, 0.0, 0.1], [50, 40, 60], False, ("log-concave", "log-concave")),
        ([0.9, 1.0, 0.0], [0.1, 0.1, 0.0], [50, 40, 60], False, ("unmixed", "unmixed")),
        ([0.0, 0.4, np.nan], [0.0, 0.1, np.nan], [50, 40, np.nan], False, ("product", "log-concave")),
        ([np.nan] * 3, [np.nan] * 3, [50, 40, np.nan], False, ("", "")),
    ],
)
def test_the_simplest_of_the_best_is_advised(gaps, errors, n_parameters, is_free_product, expected):
    dataset = xr.Dataset({"heldout_gap": ("model", gaps), "heldout_gap_error": ("model", errors)})
    fits = [CandidateFit(2, log_densities=np.array([k]), n_parameters=n) for k, n in enumerate(n_parameters)]
    wholes = [model_choice._Whole(fit) for fit in fits]
    wholes[-1] = wholes[-1]._replace(is_free_product=is_free_product)
    attrs = model_choice._with_advice(dataset, wholes).attrs
    assert (attrs["for_densities"], attrs["for_groups"]) == expected
    for name in filter(None, expected):
        assert repr(name) in attrs["advice"]
    assert attrs["advice"].endswith((".", "says why."))


def test_a_model_that_refuses_the_table_says_so():
    holes = X.copy()
    holes[::9, 1] = np.nan
    found = compare(pd.DataFrame(holes, columns=list("abc")))
    refused = found.sel(model="unmixed")
    assert "missing entries" in str(refused.failure.values)
    assert np.isnan([float(refused[name]) for name in ("heldout_mean", "heldout_error", "bic", "entropy")]).all()
    assert "Without figures: 'unmixed'" in found.attrs["advice"]
    assert found.attrs["for_densities"] in ("product", "log-concave")
    discrete = compare(np.random.default_rng(0).integers(0, 2, (100, 4)), 1)
    assert (discrete.failure != "").values.tolist() == [False, False, True]
    assert discrete.attrs["for_groups"] == "product"  # no density has peaks, so that both products are the same


def test_variables_that_others_determine_are_not_compared():
    # In other units the density of a sum is another one, and the unmixed model has none of it.
    found = compare(pd.DataFrame(X, columns=list("abc")).assign(total=1e4 * X.sum(axis=1)))
    assert "Others determine variable(s) 'total'" in str(found.failure.sel(model="unmixed").values)
    assert np.isnan(float(found.heldout_mean.sel(model="unmixed")))
    assert "unmixed" not in (found.attrs["for_densities"], found.attrs["for_groups"])


@pytest.mark.slow
def test_result_does_not_depend_on_the_number_of_jobs(table):
    other = compare(n_jobs=2)
    assert other.drop_vars("seconds").identical(table.drop_vars("seconds"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(n_components=0), "n_components"),
        (dict(n_folds=1), "n_folds"),
        (dict(data=X[:, :2]), "at least three"),
        (dict(n_components=500), "one component per sample"),
        (dict(data=X[:5], n_components=4), "one component per sample"),
        (dict(data=X[:3]), "at least 4.$"),
        (dict(sample_weight=np.full(200, 0.5)), "Round the weights.$"),
    ],
    ids=[
        *("no components", "one fold", "two variables", "too many components", "too many without a fold"),
        *("few samples", "fractions"),
    ],
)
def test_what_cannot_be_compared_is_refused(arguments, message):
    with pytest.raises(TensorlySmpError, match=message) as caught:
        compare(**arguments)
    assert isinstance(caught.value, InvalidInputError)
