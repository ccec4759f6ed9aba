"""Models to files and back, and files that are none."""

import json
import os
import pickle
import sys
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import tensorly_smp as smp
from tensorly_smp import storage
from tensorly_smp.exceptions import FileFormatError, InvalidInputError, InvalidTypeError, MissingDependencyError

X = smp.datasets.make_smooth_mixture("gaussian", 400, 4, 2, random_state=1, missing=0.1).X


def fit(data=X, **parameters):
    return smp.SmoothProductMixture(
        **{"n_components": 2, "n_bins": 8, "n_init": 1, "random_state": 0, **parameters}
    ).fit(data)


@pytest.fixture(scope="module")
def model():
    return fit()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.nc"


@pytest.fixture
def saved(model, path):
    model.save(path)
    return path


def same_model(loaded, model, data=X):
    for method in ("predict", "predict_proba", "score_samples", "impute"):
        ours, theirs = (np.asarray(getattr(each, method)(data)) for each in (loaded, model))
        assert ours.tobytes() == theirs.tobytes(), method
    np.testing.assert_array_equal(loaded.sample(20, 0)[0], model.sample(20, 0)[0])
    xr.testing.assert_identical(loaded.result_, model.result_)
    assert loaded.binning_ == model.binning_
    assert loaded.density_.variables == model.density_.variables
    for name in ("n_iter_", "converged_", "n_features_in_"):
        assert getattr(loaded, name) == getattr(model, name)
    assert getattr(loaded, "feature_names_in_", np.array(())).tolist() == (
        getattr(model, "feature_names_in_", np.array(())).tolist()
    )


# There and back


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"n_bins": [8, 9, 10, 11]},
        {"n_bins": (8, 9, 10, 11)},
        {"n_bins": np.array([8, 9, 10, 11])},
        {"density": "histogram", "binning": "quantile", "loss": "frobenius"},
        {"coverage": 0.98, "triples": 2, "n_jobs": 1, "tol": np.float64(1e-5), "n_components": np.int64(2)},
        {"triples": [(0, 1, 2), (1, 2, 3)]},
        {"n_components": 1},
    ],
)
def test_predictions_are_the_same_to_the_last_bit(path, parameters):
    model = fit(**parameters)
    model.save(path)
    loaded = smp.load(path)
    same_model(loaded, model)
    for name, value in model.get_params().items():
        np.testing.assert_equal(loaded.get_params()[name], value, name)
    # The parameters fit the same model again.
    np.testing.assert_array_equal(loaded.fit(X).predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    "names",
    [
        ["a", "b", "c", "d"],
        [4, 3, 2, 1],
        [1, "1", 2.5, ("b", 0)],
        ["größe", "体重", "x/y", " "],
        [True, None, 2, "None"],
    ],
    ids=str,
)
def test_names(path, names):
    frame = pd.DataFrame(X)
    frame.columns = pd.Index(names, dtype=object, tupleize_cols=False)
    model = fit(frame, n_bins=dict.fromkeys(names, 8))
    model.save(path)
    loaded = smp.load(path)
    same_model(loaded, model, frame)
    assert [type(name) for name in loaded.binning_.variables] == [type(name) for name in model.binning_.variables]
    assert loaded.n_bins == model.n_bins
    shuffled = frame.iloc[:, [2, 0, 3, 1]]
    pd.testing.assert_series_equal(loaded.predict(shuffled), model.predict(shuffled))


def test_given_bins(model, path):
    given = fit(binning=model.binning_)
    given.save(path)
    loaded = smp.load(path)
    same_model(loaded, given)
    assert loaded.binning == model.binning_


def test_objects_that_steer_a_fit_are_left_out(model, path):
    steered = fit(
        init=model.factors_, random_state=np.random.default_rng(0), callback=lambda cp, loss: None, n_components=2
    )
    steered.save(path)
    loaded = smp.load(path)
    same_model(loaded, steered)
    assert loaded.init == "gevd"
    assert loaded.random_state is None
    assert loaded.callback is None


def test_parameters_set_after_the_fit_do_not_change_the_model(path):
    model = fit().set_params(density="histogram")
    model.save(path)
    loaded = smp.load(path)
    same_model(loaded, model)
    assert loaded.density == "histogram"


def test_save_what_was_loaded(saved, model, tmp_path):
    smp.load(saved).save(tmp_path / "again.nc")
    same_model(smp.load(tmp_path / "again.nc"), model)


def test_plain_xarray_reads_it(saved, model):
    with xr.open_dataset(saved, engine="h5netcdf") as opened:
        for name in opened.variables:
            np.testing.assert_array_equal(opened[name], model.result_[name])
        for name, value in model.result_.attrs.items():
            np.testing.assert_array_equal(opened.attrs[name], value)
        assert json.loads(opened.attrs["parameters"])


def test_strings_as_paths(model, path):
    model.save(str(path))
    same_model(smp.load(os.fspath(path)), model)


def test_no_pickle(model, path, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("pickled")

    for name in ("dump", "dumps", "load", "loads", "Pickler", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    model.save(path)
    smp.load(path)


# Files that are none of ours


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.nc"):
        smp.load(tmp_path / "none.nc")


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"x,y\n1,2\n", b"CDF\x01" + b"\0" * 60, b"\x89HDF\r\n\x1a\n"])
def test_other_kinds_of_files(path, content):
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=r"model\.nc is not a readable"):
        smp.load(path)
    assert path.read_bytes() == content


def test_directory(tmp_path):
    with pytest.raises(FileFormatError, match="not a readable"):
        smp.load(tmp_path)


def test_pickled_model(path, model):
    path.write_bytes(pickle.dumps(model))
    with pytest.raises(FileFormatError, match="not a readable"):
        smp.load(path)


def test_netcdf_of_something_else(path, model):
    xr.Dataset({"rain": ("day", np.arange(3.0))}).to_netcdf(path, engine="h5netcdf")
    with pytest.raises(FileFormatError, match=r"not written by SmoothProductMixture\.save"):
        smp.load(path)
    # The result alone is not a model either.
    model.result_.to_netcdf(path, engine="h5netcdf", mode="w")
    with pytest.raises(FileFormatError, match=r"not written by SmoothProductMixture\.save"):
        smp.load(path)


def test_truncated_anywhere(saved):
    content = saved.read_bytes()
    for size in np.linspace(0, len(content) - 1, 30).astype(int):
        saved.write_bytes(content[:size])
        with pytest.raises(FileFormatError):
            smp.load(saved)


def test_flipped_bits_are_found_or_harmless(saved, model):
    content = saved.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for position, bit in zip(rng.integers(len(content), size=50), rng.integers(8, size=50), strict=True):
        damaged = bytearray(content)
        damaged[position] ^= 1 << bit
        saved.write_bytes(damaged)
        try:
            loaded = smp.load(saved)
        except FileFormatError:
            refused += 1
        else:  # in unused space
            xr.testing.assert_identical(loaded.result_, model.result_)
            np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert refused > 25


@pytest.mark.parametrize("name", ["weights", "factors", "edges", "n_bins", "loss"])
def test_changed_numbers_are_found(saved, name):
    with h5py.File(saved, "r+") as file:
        file[name][...] = file[name][...] * 2
    with pytest.raises(FileFormatError, match="damaged or was edited"):
        smp.load(saved)


def test_changed_parameters_are_found(saved):
    with h5py.File(saved, "r+") as file:
        file.attrs["parameters"] = file.attrs["parameters"].replace('"random_state", 0', '"random_state", 1')
    with pytest.raises(FileFormatError, match="damaged or was edited"):
        smp.load(saved)


def test_version_of_a_later_release(saved):
    with h5py.File(saved, "r+") as file:
        file.attrs["format_version"] = 99
    with pytest.raises(FileFormatError, match="version 99"):
        smp.load(saved)


def signed(dataset):
    """A copy that says that all is well with it."""
    return dataset.assign_attrs(sha256=storage._digest(dataset))


@pytest.fixture(scope="module")
def content(model, tmp_path_factory):
    """What a file holds."""
    path = tmp_path_factory.mktemp("saved") / "model.nc"
    model.save(path)
    with xr.open_dataset(path, engine="h5netcdf") as opened:
        return opened.load()


def without(dataset, attribute):
    """A copy without this attribute."""
    copy = dataset.copy()
    del copy.attrs[attribute]
    return copy


HOSTILE = {
    "not JSON": lambda d: d.assign_attrs(parameters="rm -rf"),
    "deep JSON": lambda d: d.assign_attrs(parameters="[" * 100_000),
    "parameters that are a list": lambda d: d.assign_attrs(parameters="[1, 2]"),
    "parameters that are a number": lambda d: d.assign_attrs(parameters=3.5),
    "unknown parameters": lambda d: d.assign_attrs(parameters='{"mapping": [["shell", "rm"]]}'),
    "names of other number": lambda d: d.assign_attrs(variable_names='["a"]'),
    "names that are a number": lambda d: d.assign_attrs(variable_names="5"),
    "names that repeat": lambda d: d.assign_attrs(variable_names='["a", "a", "b", "c"]'),
    "names that are no names": lambda d: d.assign_attrs(variable_names='[["a"], ["b"], ["c"], ["d"]]'),
    "unknown density": lambda d: d.assign_attrs(density="wavelet"),
    "unknown status": lambda d: d.assign_attrs(status="great"),
    "status that is a number": lambda d: d.assign_attrs(status=3),
    "no status": lambda d: without(d, "status"),
    "no parameters": lambda d: without(d, "parameters"),
    "sweeps that are text": lambda d: d.assign_attrs(n_sweeps="many"),
    "no weights": lambda d: d.drop_vars("weights"),
    "no factors": lambda d: d.drop_vars("factors"),
    "no edges": lambda d: d.drop_vars("edges"),
    "weights that are NaN": lambda d: d.assign(weights=d.weights * np.nan),
    "weights of another sum": lambda d: d.assign(weights=d.weights * 2),
    "weights that are text": lambda d: d.assign(weights=("component", np.array(["a", "b"]))),
    "negative factors": lambda d: d.assign(factors=-d.factors),
    "infinite factors": lambda d: d.assign(factors=d.factors + np.inf),
    "factors of other dims": lambda d: d.assign(factors=d.factors.rename(bin="basket")),
    "factors without components": lambda d: d.isel(component=[]),
    "no variables": lambda d: d.isel(variable=[]),
    "edges that decrease": lambda d: d.assign(edges=-d.edges),
    "edges that are NaN": lambda d: d.assign(edges=d.edges * np.nan),
    "unequal bins for sinc": lambda d: d.assign(edges=d.edges**3).assign_attrs(density="sinc"),
    "no splines": lambda d: d.drop_vars("spline"),
    "splines that are NaN": lambda d: d.assign(spline=d.spline * np.nan),
    "splines of few functions": lambda d: d.isel(basis=slice(2)),
    "an interval that is reversed": lambda d: d.assign(interval=-d.interval),
    "a background of more than all": lambda d: d.assign(background=d.background + 1),
    "negative n_bins": lambda d: d.assign(n_bins=-d.n_bins),
    "enormous n_bins": lambda d: d.assign(n_bins=d.n_bins * 10**15),
    "fractional n_bins": lambda d: d.assign(n_bins=d.n_bins + 0.5),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_content(content, change):
    with pytest.raises(FileFormatError, match="damaged"):
        storage._model_from_dataset(signed(change(content)), "model.nc")


def test_content_that_is_not_hostile(content, model):
    # So that the test above fails for the reasons that it names.
    same_model(storage._model_from_dataset(signed(content), "model.nc"), model)


def test_hostile_file(content, path):
    signed(HOSTILE["no weights"](content)).to_netcdf(path, engine="h5netcdf")
    with pytest.raises(FileFormatError, match=r"model\.nc is damaged.*weights"):
        smp.load(path)


# When saving fails


def folder_content(path):
    return sorted(each.name for each in path.parent.iterdir())


def test_failing_leaves_the_earlier_file_and_nothing_else(saved, model, monkeypatch):
    before = saved.read_bytes()

    def write_half(self, path, **kwargs):
        Path(path).write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(xr.Dataset, "to_netcdf", write_half)
    with pytest.raises(OSError, match="disk full"):
        model.save(saved)
    assert saved.read_bytes() == before
    assert folder_content(saved) == ["model.nc"]


def test_names_that_files_cannot_hold(path):
    frame = pd.DataFrame(X, columns=pd.date_range("2024-01-01", periods=4))
    with pytest.raises(InvalidInputError, match="Timestamp"):
        fit(frame).save(path)
    nul = pd.DataFrame(X, columns=["a\0b", "b", "c", "d"])
    with pytest.raises(InvalidInputError, match="netCDF"):
        fit(nul).save(path)
    assert not list(path.parent.iterdir())


def test_a_folder_that_is_missing(model, tmp_path):
    with pytest.raises(FileNotFoundError, match="no folder"):
        model.save(tmp_path / "missing" / "model.nc")


def test_a_folder_in_the_place_of_the_file(model, path):
    path.mkdir()
    with pytest.raises(OSError, match=r"model\.nc"):
        model.save(path)
    assert folder_content(path) == ["model.nc"]


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_usual_permissions(saved):
    beside = saved.with_name("beside")
    beside.touch()
    assert saved.stat().st_mode == beside.stat().st_mode


@pytest.mark.parametrize("wrong", [None, 3, ["model.nc"]])
def test_paths_of_wrong_types(model, wrong):
    with pytest.raises(InvalidTypeError, match="path is"):
        model.save(wrong)
    with pytest.raises(InvalidTypeError, match="path is"):
        smp.load(wrong)


# Without the optional package


def test_missing_dependency(saved, model, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "h5netcdf", None)
    for call in (lambda: model.save(tmp_path / "other.nc"), lambda: smp.load(saved)):
        with pytest.raises(MissingDependencyError, match=r"pip install \"tensorly_smp\[io\]\"") as caught:
            call()
        assert isinstance(caught.value, ImportError)
    assert folder_content(saved) == ["model.nc"]
