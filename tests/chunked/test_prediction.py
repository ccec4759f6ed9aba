import numpy as np
import pandas as pd
import pytest
import xarray as xr

import tensorly_smp as smp
from tensorly_smp.exceptions import InvalidInputError

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

NAMES = ["a", "b", "c", "d"]
METHODS = ["predict", "predict_proba", "score_samples", "impute"]


@pytest.fixture(scope="module")
def model():
    X = smp.datasets.make_smooth_mixture("gaussian", 400, n_variables=4, n_components=2, random_state=0).X
    return smp.SmoothProductMixture(2, random_state=0).fit(pd.DataFrame(X, columns=NAMES))


@pytest.fixture(scope="module")
def values():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(50, 4)) * 3
    X[rng.random(X.shape) < 0.2] = np.nan
    return X


def frame(values):
    index = pd.Index(np.arange(len(values)) * 2, name="number")
    return pd.DataFrame(values, index, NAMES)[["c", "a", "d", "b"]]


def dataarray(values):
    coords = {"variable": NAMES, "sample": np.arange(len(values)) * 3, "site": ("sample", np.arange(len(values)) % 4)}
    return xr.DataArray(values.T, coords, ("variable", "sample"), name="level", attrs={"units": "m"})


@pytest.mark.parametrize("method", METHODS)
def test_arrays(model, values, method):
    found = getattr(model, method)(da.from_array(values, chunks=(20, 3)))
    expected = getattr(model, method)(values)
    assert isinstance(found, da.Array)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    assert np.allclose(found.compute(), expected)
    X = da.from_array(values, chunks=(20, 4))[da.from_array(np.arange(50) < 30, chunks=20)]  # the last chunk is empty
    assert np.allclose(getattr(model, method)(X).compute(), expected[:30])


@pytest.mark.parametrize("method", METHODS)
def test_frames(model, values, method):
    whole = frame(values)
    chunked = dd.from_pandas(whole, npartitions=3)
    found, expected = getattr(model, method)(chunked), getattr(model, method)(whole)
    compare = pd.testing.assert_series_equal if isinstance(expected, pd.Series) else pd.testing.assert_frame_equal
    assert found.divisions == chunked.divisions
    compare(found.compute(), expected)
    compare(found._meta, expected.iloc[:0])
    empty_at_the_end = chunked[chunked["a"] > 1e6]
    assert len(getattr(model, method)(empty_at_the_end).compute()) == 0


@pytest.mark.parametrize("method", METHODS)
def test_dataarrays(model, values, method):
    whole = dataarray(values)
    found, expected = getattr(model, method)(whole.chunk({"sample": 20})), getattr(model, method)(whole)
    assert found.chunks is not None
    xr.testing.assert_allclose(found.compute(), expected)
    assert found.name == expected.name
    assert found.attrs == expected.attrs
    assert found.dims == expected.dims


@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_computed_before_it_is_asked_for(model, method):
    def never():
        raise AssertionError("computed")

    array = da.from_delayed(dask.delayed(never)(), (100, 4), float)
    getattr(model, method)(array)
    getattr(model, method)(xr.DataArray(array, {"variable": NAMES}, ("sample", "variable")))
    meta = pd.DataFrame(np.empty((0, 4)), columns=NAMES)
    getattr(model, method)(dd.from_delayed([dask.delayed(never)()], meta=meta, verify_meta=False))


def test_draws_are_repeatable_and_those_of_every_chunk_its_own(model, values):
    whole = np.tile(np.array([[np.nan, 1.0, np.nan, 0.0]]), (40, 1))
    X = da.from_array(whole, chunks=(20, 4))
    first = model.impute(X, "draw", random_state=3)
    assert np.array_equal(first.compute(), model.impute(X, "draw", random_state=3).compute())
    assert np.array_equal(first.compute(), first.compute())
    assert not np.array_equal(first[:20].compute(), first[20:].compute())
    assert np.array_equal(first[:, [1, 3]].compute(), whole[:, [1, 3]])
    drawn = model.impute(dd.from_pandas(frame(values), npartitions=3), "draw", random_state=3)
    pd.testing.assert_frame_equal(drawn.compute(), drawn.compute())


def test_scores_are_means_over_all_chunks_and_errors_come_at_once(model, values):
    weights = np.arange(50.0)
    found = model.score(da.from_array(values, chunks=(20, 4)), sample_weight=weights)
    assert found == pytest.approx(model.score(values, sample_weight=weights), rel=1e-12)
    # Wrong variables and methods are refused at once.
    with pytest.raises(InvalidInputError, match="4"):
        model.predict(da.zeros((10, 3)))
    with pytest.raises(InvalidInputError, match="missing 'a'"):
        model.predict(dd.from_pandas(frame(values).rename(columns={"a": "z"}), npartitions=2))
    with pytest.raises(InvalidInputError, match="method"):
        model.impute(da.zeros((10, 4)), "guess")
