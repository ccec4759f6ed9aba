"""Models to files and back, and files that are none."""

import datetime as dt
import importlib.util
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import tensorly_smp as smp
from tensorly_smp.exceptions import FileFormatError, InvalidInputError, InvalidTypeError, MissingDependencyError
from tensorly_smp.storage import content as file_content
from tensorly_smp.storage import probes as file_probes

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


SUFFIXES = [".nc", ".zarr"]


@pytest.fixture(params=SUFFIXES)
def any_path(request, tmp_path):
    """Of either kind of file."""
    if request.param == ".zarr":
        pytest.importorskip("zarr")
    return tmp_path / f"model{request.param}"


def unchecked(model, path):
    """Write what save would refuse."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_content, "_refuse_additions", lambda model: None)
        file_content.dataset_of_model(model).to_netcdf(path, engine="h5netcdf")


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


def there_and_back(model, folder):
    """The model out of a file of either kind."""
    for suffix in SUFFIXES if importlib.util.find_spec("zarr") else SUFFIXES[:1]:
        model.save(folder / f"model{suffix}")
        yield smp.load(folder / f"model{suffix}")


@pytest.mark.parametrize(
    "suffix", [".csv", ".CSV", ".json", ".joblib", ".npy", ".npz", ".parquet", ".pickle", ".pkl", ".xlsx"]
)
def test_a_suffix_of_another_format_is_refused(suffix, model, tmp_path):
    with pytest.raises(InvalidInputError, match=rf"mine\{suffix}, .*\.nc \(netCDF\) or \.zarr"):
        model.save(tmp_path / f"mine{suffix}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["mine", "mine.h5", "mine.v2"])
def test_other_names_are_netcdf(name, model, tmp_path):
    model.save(tmp_path / name)
    assert smp.load(tmp_path / name).binning_ == model.binning_


# There and back

STEPS = np.column_stack([X[:, :2], np.round(X[:, 2]), np.abs(X[:, 3])])  # one discrete, one that ends at zero


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.DependenceWarning")
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"refine": None},
        {"refine": None, "n_bins": [8, 9, 10, 11], "density": "histogram", "binning": "quantile", "loss": "frobenius"},
        {"refine": None, "n_bins": (8, 9, 10, 11), "coverage": 0.98, "tol": np.float64(1e-5)},
        {"refine": "em", "n_bins": np.array([8, 9, 10, 11]), "n_components": np.int64(2)},
        {"refine": "em", "triples": [(0, 1, 2), (1, 2, 3)], "max_iter": 300},
        {"triples": 2, "n_jobs": 1, "penalty": "aic"},
        {"n_components": 1},
    ],
    ids=str,
)
def test_predictions_are_the_same_to_the_last_bit(tmp_path, parameters):
    model = fit(**parameters)
    for loaded in there_and_back(model, tmp_path):
        same_model(loaded, model)
        for name, value in model.get_params().items():
            np.testing.assert_equal(loaded.get_params()[name], value, name)
    # The parameters fit the same model again.
    np.testing.assert_array_equal(loaded.fit(X).predict_proba(X), model.predict_proba(X))


def test_discrete_and_bounded_variables(tmp_path):
    model = fit(STEPS, discrete=["x2"], support={"x3": (0, None)})
    assert model.result_.discrete.values.tolist() == [0, 0, 1, 0]
    for loaded in there_and_back(model, tmp_path):
        same_model(loaded, model, STEPS)
        assert loaded.discrete == ["x2"]
        assert loaded.support == {"x3": (0, None)}
        assert loaded.density_.pdf_1d([-1.0, -0.01], "x3").max() < 1e-300
        drawn, holes = loaded.sample(50, 0)[0], np.full((50, 4), np.nan)
        for values in (drawn, np.asarray(loaded.impute(holes, "draw", 0))):
            assert np.isin(values[:, 2], STEPS[:, 2]).all()


def test_coordinates_of_long_tails(tmp_path, monkeypatch):
    values = np.exp(3.0 * STEPS[:, [0, 1, 3]])
    model = fit(values)
    assert np.isfinite(model.result_.spline_scale).all()
    for loaded in there_and_back(model, tmp_path):
        same_model(loaded, model, values)
    kept = model.result_
    model.result_ = kept.assign(spline_scale=-kept.spline_scale)
    unchecked(model, tmp_path / "wrong.nc")
    with pytest.raises(FileFormatError, match="Coordinates of the splines"):
        smp.load(tmp_path / "wrong.nc")
    monkeypatch.setattr("tensorly_smp.fitting.likelihood_stage.curved_cells", lambda *_: ())
    gaussians = smp.datasets.make_smooth_mixture("gaussian", 400, 4, 2, random_state=5).X
    plain = fit(gaussians)
    assert np.isnan(plain.result_.spline_scale).all()
    plain.result_ = plain.result_.drop_vars(["spline_center", "spline_scale"])  # as before there were coordinates
    plain.save(tmp_path / "old.nc")
    old = smp.load(tmp_path / "old.nc")
    np.testing.assert_array_equal(old.score_samples(gaussians), plain.score_samples(gaussians))


def test_files_from_before_discrete_variables_had_values(tmp_path):
    model = fit(STEPS, discrete=["x2"])
    kept = model.result_
    model.result_ = kept.drop_vars("categories")
    model.save(tmp_path / "old.nc")
    old = smp.load(tmp_path / "old.nc")
    np.testing.assert_array_equal(old.score_samples(STEPS), model.score_samples(STEPS))
    assert "categories" not in old.result_
    drawn = old.sample(200, 0)[0]
    np.testing.assert_array_equal(drawn[:, [0, 1, 3]], model.sample(200, 0)[0][:, [0, 1, 3]])
    assert not np.isin(drawn[:, 2], STEPS[:, 2]).any()
    for wrong, match in (
        (kept.categories.fillna(0).astype(int), "categories has"),
        (kept.categories.rename(bin="edge2"), "categories has"),
        (xr.where(kept.discrete == 1, np.inf, kept.categories).transpose("variable", "bin"), "infinite"),
    ):
        model.result_ = kept.drop_vars("categories").assign(categories=wrong)
        unchecked(model, tmp_path / "wrong.nc")
        with pytest.raises(FileFormatError, match=match):
            smp.load(tmp_path / "wrong.nc")


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
def test_names(tmp_path, names):
    frame = pd.DataFrame(X)
    frame.columns = pd.Index(names, dtype=object, tupleize_cols=False)
    model = fit(frame, n_bins=dict.fromkeys(names, 8), refine=None)
    shuffled = frame.iloc[:, [2, 0, 3, 1]]
    for loaded in there_and_back(model, tmp_path):
        same_model(loaded, model, frame)
        assert [type(name) for name in loaded.binning_.variables] == [type(name) for name in model.binning_.variables]
        assert loaded.n_bins == model.n_bins
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
    assert loaded.init == "auto"
    assert loaded.random_state is None
    assert loaded.callback is None


def test_parameters_set_after_the_fit_do_not_change_the_model(path):
    model = fit().set_params(density="histogram")
    model.save(path)
    loaded = smp.load(path)
    same_model(loaded, model)
    assert loaded.density == "histogram"


def test_attributes_are_of_the_types_that_fit_gives(model, any_path):
    model.save(any_path)
    loaded = smp.load(any_path).result_.attrs
    assert {name: type(value) for name, value in loaded.items()} == {
        name: type(value) for name, value in model.result_.attrs.items()
    }


def assert_opened_is_whole(opened, model):
    assert set(opened.variables) == set(model.result_.variables)
    for name in opened.variables:
        np.testing.assert_array_equal(opened[name], model.result_[name])
        assert opened[name].dims == model.result_[name].dims
        assert opened[name].attrs.get("long_name") == model.result_[name].attrs.get("long_name")
    assert set(opened.coords) == set(model.result_.coords)
    for name, value in model.result_.attrs.items():
        np.testing.assert_array_equal(opened.attrs[name], value)
    assert all(isinstance(value, str | int | float | list | np.ndarray | np.generic) for value in opened.attrs.values())
    assert json.loads(opened.attrs["parameters"])


def test_plain_xarray_reads_it(model, any_path):
    model.save(any_path)
    engine = {".nc": "h5netcdf", ".zarr": None}[any_path.suffix]
    with xr.open_dataset(any_path, engine=engine) as opened:
        assert_opened_is_whole(opened, model)


READ_BY_NETCDF_C = """
import json, sys, netCDF4
with netCDF4.Dataset(sys.argv[1]) as file:
    file.set_auto_mask(False)
    variables = {k: [v.dimensions, str(v.dtype), v[:].tolist()] for k, v in file.variables.items()}
    sizes = {name: len(dimension) for name, dimension in file.dimensions.items()}
    print(json.dumps([sizes, variables, file.status_explanation, file.getncattr("n_samples").dtype.kind]))
"""


def test_netcdf_c_reads_it(saved, model):
    pytest.importorskip("netCDF4")
    # In a process of its own: two libraries for HDF5 in one, that of h5py and that of netCDF4, need not get on.
    command = [sys.executable, "-W", "ignore", "-c", READ_BY_NETCDF_C, str(saved)]
    sizes, variables, explanation, kind = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert sizes == dict(model.result_.sizes)
    for name, (dims, dtype, values) in variables.items():
        expected = model.result_[name]
        assert tuple(dims) == expected.dims
        assert dtype == ("<class 'str'>" if expected.dtype.kind == "U" else str(expected.dtype))
        np.testing.assert_array_equal(np.array(values, dtype=expected.dtype), expected)
    assert variables["variable"][2] == list(model.binning_.variables)
    assert (explanation, kind) == (model.result_.attrs["status_explanation"], "i")


def test_long_names_of_many_variables(path):
    # Attributes of HDF5 are limited to 64 KiB, strings in them are not.
    text = json.dumps([f"variable number {n}" for n in range(10_000)])
    xr.Dataset(attrs={"format": file_content.FORMAT, "names": text}).to_netcdf(path, engine="h5netcdf")
    file_probes.probe_netcdf(path)
    with xr.open_dataset(path, engine="h5netcdf") as opened:
        assert opened.attrs["names"] == text


def test_the_checksum_does_not_depend_on_how_numbers_are_printed(path, model):
    model.save(path)
    with np.printoptions(precision=1, threshold=2):
        same_model(smp.load(path), model)


def test_a_sign_of_nan_is_no_damage(path, model):
    # Arithmetic makes NaN of either sign, files return one.
    changed = model.result_.assign(
        change=model.result_.change.copy(data=np.full(model.result_.sizes["sweep"], -np.nan))
    )
    assert file_content.digest(changed) == file_content.digest(changed.assign(change=np.abs(changed.change)))


def test_no_pickle(model, any_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("pickled")

    for name in ("dump", "dumps", "load", "loads", "Pickler", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    model.save(any_path)
    smp.load(any_path)


# Files that are none of ours


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.nc"):
        smp.load(tmp_path / "none.nc")


def test_netcdf_of_something_else(path, model):
    xr.Dataset({"rain": ("day", np.arange(3.0))}).to_netcdf(path, engine="h5netcdf")
    with pytest.raises(FileFormatError, match=r"not written by SmoothProductMixture\.save"):
        smp.load(path)
    # The result alone is not a model either.
    model.result_.to_netcdf(path, engine="h5netcdf", mode="w")
    with pytest.raises(FileFormatError, match=r"not written by SmoothProductMixture\.save"):
        smp.load(path)


# When saving fails


def folder_content(path):
    return sorted(each.name for each in path.parent.iterdir())


def whole(path):
    """Content of a file, or of all files in a folder."""
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    return {str(file): file.read_bytes() for file in files}


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.DependenceWarning")
def test_saving_replaces_the_earlier_model(any_path, model):
    fit(n_components=1, refine=None).save(any_path)
    model.save(any_path)
    same_model(smp.load(any_path), model)
    assert folder_content(any_path) == [any_path.name]


TIMES = [
    pd.date_range("2024-01-01", periods=4),
    pd.date_range("2024-01-01", periods=4, tz="Europe/Oslo"),
    pd.period_range("2024-01", periods=4, freq="M"),
    pd.timedelta_range("1h", periods=4),
    pd.Index([dt.date(2024, 1, day) for day in range(1, 5)], dtype=object),
    pd.Index([dt.datetime(2024, 1, 1), np.datetime64("2024-01-02"), dt.timedelta(1), "d"], dtype=object),
]


@pytest.mark.parametrize("columns", TIMES, ids=lambda columns: str(columns[0]))
def test_columns_named_by_times(columns, tmp_path):
    frame = pd.DataFrame(X, columns=columns)
    model = fit(frame)
    for loaded in there_and_back(model, tmp_path):
        same_model(loaded, model, frame)
        assert loaded.binning_.variables == model.binning_.variables


def test_names_that_files_cannot_hold(path):
    frame = pd.DataFrame(X, columns=[frozenset("ab"), "b", "c", "d"])
    with pytest.raises(InvalidInputError, match="frozenset"):
        fit(frame).save(path)
    nul = pd.DataFrame(X, columns=["a\0b", "b", "c", "d"])
    with pytest.raises(InvalidInputError, match="netCDF"):
        fit(nul).save(path)
    assert not list(path.parent.iterdir())


def test_a_folder_in_the_place_of_the_file(model, path):
    path.mkdir()
    with pytest.raises(OSError, match=r"model\.nc is a folder"):
        model.save(path)
    assert folder_content(path) == ["model.nc"]


def test_folders_of_others_are_not_replaced(model, tmp_path):
    pytest.importorskip("zarr")
    path = tmp_path / "data.zarr"
    xr.Dataset({"rain": ("day", np.arange(3.0))}).to_zarr(path, zarr_format=2, consolidated=True)
    before = whole(path)
    with pytest.raises(FileExistsError, match="no saved model"):
        model.save(path)
    assert whole(path) == before
    assert folder_content(path) == ["data.zarr"]


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_usual_permissions(saved):
    beside = saved.with_name("beside")
    beside.touch()
    assert saved.stat().st_mode == beside.stat().st_mode


# Without the optional package


@pytest.mark.parametrize(("package", "extra"), [("h5netcdf", "io"), ("zarr", "zarr")])
def test_missing_dependency(package, extra, model, monkeypatch, tmp_path):
    pytest.importorskip(package)
    saved = tmp_path / ("model.nc" if extra == "io" else "model.zarr")
    model.save(saved)
    monkeypatch.setitem(sys.modules, package, None)
    for call in (lambda: model.save(saved.with_stem("other")), lambda: smp.load(saved)):
        with pytest.raises(MissingDependencyError, match=rf"pip install \"tensorly_smp\[{extra}\]\"") as caught:
            call()
        assert isinstance(caught.value, ImportError)
    assert folder_content(saved) == [saved.name]


# Nothing is written that cannot be loaded

CHANGES = {
    "station": lambda result: result.assign_coords(station="Oslo"),
    "extra": lambda result: result.assign(extra=("component", np.zeros(2))),
    "member": lambda result: result.expand_dims("member"),
    "edges": lambda result: result.drop_vars("edges"),
    "weights": lambda result: result.assign(weights=result.weights * np.nan),
    "factors": lambda result: result.transpose(),
    "sha256": lambda result: result.assign_attrs(sha256="0"),
    "table": lambda result: result.assign_attrs(table={"a": 1}),
    "loss": lambda result: result.assign(loss=result.loss.assign_attrs(words=["a", "b"])),
}


@pytest.mark.parametrize("name", CHANGES)
def test_save_refuses_by_name_what_load_would_not_read(any_path, name):
    model = fit()
    model.save(any_path)
    fitted, model.result_ = model.result_, CHANGES[name](model.result_)
    with pytest.raises(InvalidInputError, match=name):
        model.save(any_path)
    model.result_ = fitted
    same_model(smp.load(any_path), model)  # the file is as it was
    assert [path.name for path in any_path.parent.iterdir()] == [any_path.name]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("refine", "best"), ("penalty_criterion", "?"), ("n_samples", "many"), ("n_samples", 0)],
        *[("max_iter", -5), ("max_iter", 2.5), ("tol", "abc"), ("tol", -1.0)],
    ],
)
def test_what_a_bootstrap_could_not_use_is_refused(tmp_path, name, value):
    pytest.importorskip("h5netcdf")
    model = fit()
    model.result_.attrs[name] = value
    with pytest.raises(InvalidInputError, match=f"could not be loaded again: .*{name} is"):
        model.save(tmp_path / "model.nc")


def test_an_empty_path_is_refused(model):
    for call in (model.save, smp.load):
        with pytest.raises(InvalidInputError, match="path is empty"):
            call("")


@pytest.mark.parametrize(
    "value", ["Oslo", "", "å", 3, 2.5, True, [1, 2], (1.0, 2.0), np.arange(3), np.float32(1)], ids=str
)
def test_attributes_that_were_added_are_kept(any_path, value):
    model = fit()
    model.result_ = model.result_.assign_attrs(station=value)
    model.result_["weights"].attrs["note"] = value
    model.save(any_path)
    loaded = smp.load(any_path)
    for found in (loaded.result_.attrs["station"], loaded.result_["weights"].attrs["note"]):
        np.testing.assert_array_equal(found, value)
    loaded.save(any_path)  # and once more
    same_model(smp.load(any_path), loaded)


def test_another_netcdf_library_may_save_the_file_again(saved, tmp_path, model):
    pytest.importorskip("netCDF4")
    again = tmp_path / "again.nc"
    write = (
        "import sys, xarray as xr\n"
        "dataset = xr.load_dataset(sys.argv[1], engine='h5netcdf')\n"
        "compressed = {'factors': {'zlib': True}} if sys.argv[3] == 'compressed' else {}\n"
        "dataset.to_netcdf(sys.argv[2], engine='netcdf4', encoding=compressed)"
    )
    for how in ("plain", "compressed"):
        subprocess.run([sys.executable, "-c", write, saved, again, how], check=True)
        if how == "plain":
            same_model(smp.load(again), model)
        else:
            with pytest.raises(FileFormatError, match="another program has saved the file again"):
                smp.load(again)


@pytest.mark.skipif(sys.platform == "win32", reason="no limits of file sizes")
def test_a_full_disk_is_an_oserror_and_the_process_lives(model, any_path):
    script = (
        "import pickle, resource, sys\n"
        "model, path = pickle.load(sys.stdin.buffer), sys.argv[1]\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))\n"
        "try:\n"
        "    model.save(path)\n"
        "except OSError as error:\n"
        "    print(type(error).__name__, 'only')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, any_path], input=pickle.dumps(model), capture_output=True
    )
    assert (ended.returncode, ended.stdout) == (0, b"OSError only\n"), ended.stderr
    assert not any(any_path.parent.iterdir())


def test_a_store_is_found_after_a_kill_between_the_renames(model, tmp_path):
    pytest.importorskip("zarr")
    path, other = tmp_path / "model.zarr", tmp_path / ".model.zarr.mine"
    other.mkdir()
    model.save(path)
    script = (
        "import os, pickle, sys\n"
        "model, path, replace = pickle.load(sys.stdin.buffer), sys.argv[1], os.replace\n"
        "def killed(source, target):\n"
        "    os._exit(9) if str(target) == path else replace(source, target)\n"
        "os.replace = killed\n"
        "model.save(path)\n"
    )
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", script, path], input=pickle.dumps(model))
    assert ended.returncode == 9
    assert not path.exists()
    same_model(smp.load(path), model)
    model.save(path)
    same_model(smp.load(path), model)
    assert sorted(tmp_path.iterdir()) == [other, path]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_devices_and_pipes_are_no_models(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        if path.exists():
            with pytest.raises(OSError, match="a device, a pipe or a socket"):
                smp.load(path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="needs an ordinary user")
def test_files_without_permission(saved, model):
    saved.chmod(0)
    with pytest.raises(PermissionError, match="permission denied"):
        smp.load(saved)
    saved.chmod(0o444)
    with pytest.raises(PermissionError, match="read-only"):
        model.save(saved)


@pytest.mark.parametrize("path", ["a\0b.nc", b"model.nc", 3])
def test_what_is_no_path(model, path):
    for call in (model.save, smp.load):
        with pytest.raises((InvalidInputError, InvalidTypeError), match="path"):
            call(path)
