"""Units, wherever labelled data carry them."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import tensorly_smp as smp
from tensorly_smp.decomposition.solution import factors_to_dataset
from tensorly_smp.samples.codebook import units_of, with_units

NAMES = ("a", "b", "c")


def test_units_of_datasets_arrays_frames_and_what_has_none():
    X = xr.Dataset({name: ("sample", np.arange(3.0)) for name in NAMES})
    X["b"].attrs["units"] = "mm"
    assert units_of(X, NAMES) == ("", "mm", "")
    assert units_of(X, ["b", "unknown"]) == ("mm", "")
    # Dataarray.
    X = xr.DataArray(np.ones((2, 3)), {"variable": list(NAMES)}, ("sample", "variable"))
    assert units_of(X, NAMES) == ("", "", "")
    assert units_of(X.assign_attrs(units="mm"), NAMES) == ("mm",) * 3
    assert units_of(X.assign_attrs(units={"c": "kg"}), NAMES) == ("", "", "kg")
    along = X.assign_coords(units=("variable", ["s", "m", "kg"]))
    assert units_of(along, NAMES) == ("s", "m", "kg")
    assert units_of(along.isel(variable=[2, 0, 1]), NAMES) == ("s", "m", "kg")
    assert units_of(along.drop_vars("variable"), NAMES) == ("s", "m", "kg")
    # Frame and what has none.
    frame = pd.DataFrame(np.ones((2, 3)), columns=list(NAMES))
    frame.attrs["units"] = {"a": " mm ", "b": None, "c": 3}
    assert units_of(frame, NAMES) == ("mm", "", "")
    for other in (None, np.ones((2, 3)), [[1, 2, 3]]):
        assert units_of(other, NAMES) == ("", "", "")


def test_fits_of_chunked_samples_keep_them():
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 3)), columns=list(NAMES))
    frame.attrs["units"] = {"b": "mm"}
    array = xr.DataArray(frame.to_numpy(), {"variable": list(NAMES)}, ("sample", "variable"))
    known = array.assign_coords(units=("variable", ["", "mm", ""]))
    options = dict(n_bins=4, refine=None, density="histogram", n_init=1, random_state=0)
    for samples in (frame, dd.from_pandas(frame, npartitions=3), known, known.chunk(), known.to_dataset("variable")):
        if isinstance(samples, xr.Dataset):
            samples = samples.drop_vars("units")
            samples["b"].attrs["units"] = "mm"
        assert smp.SmoothProductMixture(1, **options).fit(samples).result_["units"].values.tolist() == ["", "mm", ""]


def test_streams_and_datasets_of_fits_keep_them():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 3)), columns=list(NAMES))
    model = smp.SmoothProductMixture(1, n_bins=4, refine=None, density="histogram", random_state=0)
    assert "units" not in model.partial_fit(frame).result_
    known = frame.copy()
    known.attrs["units"] = {"b": "mm"}
    for chunk in (known, frame, frame.iloc[:, ::-1]):
        assert units_of(model.partial_fit(chunk).result_, NAMES) == ("", "mm", "")
    # Units of a fit are kept in its dataset.
    sizes = smp.Binning.from_n_bins(3, NAMES)
    fitted = factors_to_dataset(smp.MixtureFactors(np.ones(1), (np.full((3, 1), 1 / 3),) * 3, sizes))
    frame = pd.DataFrame(np.ones((2, 3)), columns=list(NAMES))
    assert with_units(fitted, frame, NAMES).identical(fitted)
    frame.attrs["units"] = {"b": "mm"}
    known = with_units(fitted, frame, NAMES)
    assert known["units"].dims == ("variable",)
    assert units_of(known, NAMES) == ("", "mm", "")
