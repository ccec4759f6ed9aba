"""Datasets of all kinds of fits have what the schema says, and files hold it as the schema says."""

import io
import warnings

import numpy as np
import pytest
import xarray as xr
from scipy.io import netcdf_file
from shared import ambiguous_groups

import tensorly_smp as smp
from tensorly_smp._support.result_schema import SCHEMA, STORED, check_result, result_values, with_results, written_by

X = smp.datasets.make_smooth_mixture("gaussian", 300, 4, 2, random_state=1).X
OF_FIT = {*written_by("factors", "binning", "starts")}


FITS = {
    "smooth": (lambda: smp.SmoothProductMixture(2, random_state=0).fit(X), ("splines", "passes", "candidates")),
    "em": (lambda: smp.SmoothProductMixture(2, n_bins=6, refine="em", random_state=0).fit(X), ()),
    "none": (
        lambda: smp.SmoothProductMixture(2, n_bins=6, refine=None, triples=2, random_state=0).fit(X),
        ("triples",),
    ),
    "unmixed": (lambda: smp.UnmixedProductMixture(1, random_state=0).fit(X[:90] @ np.tri(4)), ("splines", "unmixing")),
    "rivals": (  # two of three groups differ in one variable
        lambda: smp.SmoothProductMixture(3, random_state=0).fit(ambiguous_groups(600)[0]),
        ("splines", "rivals", "attributes of rivals"),
    ),
}


@pytest.mark.parametrize("kind", FITS)
def test_fits_write_what_the_schema_says(kind, tmp_path):
    fit, writers = FITS[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", smp.exceptions.TensorlySmpWarning)
        model = fit()
    result = model.result_
    assert {*result.data_vars} >= OF_FIT | {*written_by(*writers)}
    model.save(tmp_path / "model.nc")
    with netcdf_file(io.BytesIO((tmp_path / "model.nc").read_bytes())) as file:
        for name in result.data_vars:
            entry = SCHEMA[name]
            assert result[name].dims == entry.dims, name
            assert result[name].attrs["long_name"] == entry.long_name, name
            of_file = file.variables[name].data.dtype
            if entry.dtype == "str":
                assert (result[name].dtype.kind, of_file.kind) == ("U", "S"), name
            else:
                assert result[name].dtype == entry.dtype, name
                assert of_file.newbyteorder("=") == STORED[entry.dtype], name


def test_values_come_in_the_order_of_the_schema():
    values = np.arange(24.0).reshape(2, 3, 4)
    dataset = with_results(xr.Dataset(), {"spline": values}, {"variable": ["a", "b"]})
    assert dataset.basis.values.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(result_values(dataset.transpose("component", "variable", "basis"), "spline"), values)


def test_results_that_no_fit_makes_are_refused():
    result = smp.SmoothProductMixture(2, n_init=1, random_state=0).fit(X).result_
    check_result(result)
    for name in ("weights", "edges", "start_loss", "spline", "log_likelihood"):
        for wrong in (result[name].expand_dims("other"), result[name].astype(str)):
            with pytest.raises(ValueError, match=f"{name} has dimensions"):
                check_result(result.assign({name: wrong}))
        if SCHEMA[name].writer != "passes":  # which rivals lack
            with pytest.raises(KeyError, match=name):
                check_result(result.drop_vars(name))
    with pytest.raises(KeyError, match="unmixing"):
        check_result(result, "unmixing")
