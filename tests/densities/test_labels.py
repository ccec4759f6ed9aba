"""Answers of densities are labelled as what they are given, or as the samples of the fit were."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import tensorly_smp as smp

NAMES = ["mass", "length", "age"]


@pytest.fixture(scope="module")
def samples():
    data = smp.datasets.make_smooth_mixture("gaussian", 400, 3, 2, random_state=0)
    array = xr.DataArray(data.X, dims=("sample", "variable"), coords={"variable": NAMES}, attrs={"title": "Fish"})
    return {"array": data.X, "dataframe": pd.DataFrame(data.X, columns=NAMES), "dataarray": array}


@pytest.fixture(scope="module")
def models(samples):
    return {kind: smp.SmoothProductMixture(2, random_state=0).fit(X) for kind, X in samples.items()}


KINDS = {"array": (np.ndarray,) * 3, "dataframe": (pd.Series, pd.DataFrame), "dataarray": (xr.DataArray,) * 2}


@pytest.mark.parametrize("kind", KINDS)
def test_moments_are_labelled_as_the_samples_were(models, kind):
    density = models[kind].density_
    one, two = KINDS[kind][:2]
    plain = models["array"].density_
    for method in ("mean", "var"):
        for component, expected in ((None, one), (0, one), ("all", two)):
            found = getattr(density, method)(component)
            assert type(found) is expected
            np.testing.assert_array_equal(np.asarray(found), getattr(plain, method)(component))
    assert type(density.cov()) is two
    np.testing.assert_array_equal(np.asarray(density.cov()), plain.cov())


def test_labels_of_moments_and_of_reduced_densities(models, tmp_path):
    frame = models["dataframe"].density_
    assert frame.mean().index.tolist() == NAMES
    assert (frame.mean("all").columns.name, frame.mean("all").columns.tolist()) == ("component", [0, 1])
    assert frame.cov().loc["mass", "mass"] == pytest.approx(frame.var()["mass"])
    array = models["dataarray"].density_
    assert array.mean("all").dims == ("variable", "component")
    assert array.mean("all").sel(variable="age", component=1) == array.mean(1).sel(variable="age")
    assert array.cov().dims == ("variable", "other_variable")
    assert frame.conditional({"mass": 0.5}).mean().index.tolist() == ["length", "age"]
    assert array.marginal(["age", "mass"]).mean()["variable"].values.tolist() == ["age", "mass"]
    models["dataframe"].save(tmp_path / "fit.nc")
    pd.testing.assert_series_equal(smp.load(tmp_path / "fit.nc").density_.mean(), frame.mean())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["pdf_1d", "logpdf_1d", "cdf_1d", "quantile_1d"])
def test_values_at_points_are_labelled_as_the_points_are(models, kind, method):
    call = getattr(models[kind].density_, method)
    variable = models[kind].density_.variables[0]
    points = np.array([[0.1, 0.5, 0.7], [0.2, 0.3, 0.9]])
    for component in (None, 1, "all"):
        plain = call(points, variable, component)
        assert type(plain) is np.ndarray
        array = call(xr.DataArray(points, dims=("a", "b"), coords={"b": list("xyz")}), variable, component)
        assert array.dims == (("a", "b", "component") if component == "all" else ("a", "b"))
        assert array.b.values.tolist() == list("xyz")
        np.testing.assert_allclose(array, plain, rtol=1e-12)
        series = call(pd.Series(points[0], index=list("xyz")), variable, component)
        assert type(series) is (pd.DataFrame if component == "all" else pd.Series)
        np.testing.assert_allclose(series.to_numpy(), plain[0], rtol=1e-12)
        assert series.index.tolist() == list("xyz")
        assert type(call([0.5], variable, component)) is np.ndarray
    named = xr.DataArray([0.1, 0.2], dims="q", coords={"q": [1, 2], "component": 7})
    assert call(named, variable, "all").component.values.tolist() == [0, 1]


def test_unmixed_models_have_the_same_labels(samples):
    frame = samples["dataframe"].assign(length=lambda x: x["length"] + x["mass"]).iloc[:60]
    labelled = smp.UnmixedProductMixture(1, random_state=0).fit(frame).density_
    np.testing.assert_allclose(labelled.mean(), frame.mean(), atol=0.3)
    assert labelled.mean().index.tolist() == labelled.var().index.tolist() == NAMES
    assert labelled.cov().columns.tolist() == labelled.mean("all").index.tolist() == NAMES


def test_descriptions_of_samples_are_kept(samples, models, tmp_path):
    dataset = samples["dataarray"].to_dataset("variable").assign_attrs(title="Fish", depth=12.5, made=["a"])
    dataset["mass"].attrs = {"units": "kg", "long_name": "mass of the fish"}
    model = smp.SmoothProductMixture(2, random_state=0).fit(dataset)
    model.result_.attrs["station"] = "North"  # one's own
    model.save(tmp_path / "fit.nc")
    for found in (model.result_, smp.load(tmp_path / "fit.nc").result_):
        assert found.long_names.values.tolist() == ["mass of the fish", "", ""]
        assert (found.attrs["samples_title"], found.attrs["samples_depth"]) == ("Fish", 12.5)
        assert "samples_made" not in found.attrs
        assert found.attrs["station"] == "North"
    assert models["dataarray"].result_.attrs["samples_title"] == "Fish"
