"""Models as Datasets and as files: there and back, and what is none."""

import copy
import datetime as dt
import json
import os
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import tensorly_smp as smp
from tensorly_smp import storage
from tensorly_smp.exceptions import FileFormatError, InvalidInputError, InvalidTypeError

X = smp.datasets.make_smooth_mixture("gaussian", 400, 4, 2, random_state=1, missing=0.1).X
STEPS = np.column_stack([X[:, :2], np.round(X[:, 2]), np.abs(X[:, 3])])  # one discrete, one that ends at zero


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


@pytest.fixture(scope="module")
def content(model, tmp_path_factory):
    """Bytes of a saved model."""
    path = tmp_path_factory.mktemp("saved") / "model.nc"
    model.save(path)
    return path.read_bytes()


def there_and_back(model, path):
    """The model out of a file, and out of its Dataset."""
    model.save(path)
    return smp.load(path), smp.load(model.to_dataset())


def same_model(loaded, model, data=X):
    for method in ("predict", "predict_proba", "score_samples", "impute"):
        ours, theirs = (np.asarray(getattr(each, method)(data)) for each in (loaded, model))
        assert ours.tobytes() == theirs.tobytes(), method
    np.testing.assert_array_equal(loaded.sample(20, 0)[0], model.sample(20, 0)[0])
    xr.testing.assert_identical(loaded.result_, model.result_)
    assert all(loaded.result_[name].dtype == model.result_[name].dtype for name in model.result_.variables)
    assert loaded.binning_ == model.binning_
    for name in ("n_iter_", "converged_", "n_features_in_"):
        assert getattr(loaded, name) == getattr(model, name)
    none = np.array(())
    names = [getattr(each, "feature_names_in_", none).tolist() for each in (loaded, model)]
    assert names[0] == names[1]


# ---- there and back ----


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.DependenceWarning")
@pytest.mark.parametrize(
    "parameters",
    [
        {"refine": None},
        {"refine": None, "n_bins": [8, 9, 10, 11], "density": "histogram", "binning": "quantile", "loss": "frobenius"},
        {"refine": "em", "n_bins": np.array([8, 9, 10, 11]), "n_components": np.int64(2), "tol": np.float64(1e-5)},
        {"refine": "em", "triples": [(0, 1, 2), (1, 2, 3)], "n_bins": (8, 9, 10, 11), "max_iter": 300},
        {"triples": 2, "n_jobs": 1, "penalty": "aic", "shape": "log-concave"},
        {"n_components": 1},
    ],
    ids=str,
)
def test_predictions_are_the_same_to_the_last_bit(path, parameters):
    model = fit(**parameters)
    for loaded in there_and_back(model, path):
        same_model(loaded, model)
        for name, value in model.get_params().items():
            np.testing.assert_equal(loaded.get_params()[name], value, name)
    # The parameters fit the same model again.
    np.testing.assert_array_equal(loaded.fit(X).predict_proba(X), model.predict_proba(X))


def test_discrete_and_bounded_variables_and_long_tails(path):
    values = STEPS.copy()
    values[:, 0] = np.exp(3.0 * values[:, 0])
    model = fit(values, discrete=["x2"], support={"x3": (0, None)})
    assert model.result_.discrete.values.tolist() == [0, 0, 1, 0]
    assert np.isfinite(model.result_.spline_scale[0])
    for loaded in there_and_back(model, path):
        same_model(loaded, model, values)
        assert loaded.discrete == ["x2"]
        assert loaded.support == {"x3": (0, None)}
        assert loaded.density_.pdf_1d([-1.0, -0.01], "x3").max() < 1e-300
        assert np.isin(np.asarray(loaded.impute(np.full((50, 4), np.nan), "draw", 0))[:, 2], STEPS[:, 2]).all()


@pytest.mark.parametrize(
    "names",
    [
        ["a", "b", "c", "d"],
        [4, 3, 2, 2**40],
        [1, "1", 2.5, ("b", 0)],
        ["größe", "体重", "x/y", " "],
        [True, None, 2, "None"],
        pd.date_range("2024-01-01", periods=4),
        pd.date_range("2024-01-01", periods=4, tz="Europe/Oslo"),
        [dt.date(2024, 1, 1), dt.datetime(2024, 1, 1), dt.date(2024, 1, 2), pd.Timestamp("2024-01-03")],
    ],
    ids=str,
)
def test_names(path, names):
    frame = pd.DataFrame(X)
    frame.columns = pd.Index(names, dtype=object, tupleize_cols=False)
    model = fit(frame, n_bins=dict.fromkeys(names, 8), refine=None)
    shuffled = frame.iloc[:, [2, 0, 3, 1]]
    for loaded in there_and_back(model, path):
        same_model(loaded, model, frame)
        assert loaded.binning_.variables == model.binning_.variables
        assert [type(name) for name in loaded.binning_.variables] == [type(name) for name in model.binning_.variables]
        assert loaded.n_bins == model.n_bins
        pd.testing.assert_series_equal(loaded.predict(shuffled), model.predict(shuffled))


def test_objects_that_steer_a_fit_and_later_parameters_change_no_model(model, path):
    steered = fit(
        init=model.factors_, binning=model.binning_, random_state=np.random.default_rng(0), callback=lambda *_: None
    )
    for loaded in there_and_back(steered, path):
        same_model(loaded, steered)
        assert loaded.binning == model.binning_
        assert (loaded.init, loaded.random_state, loaded.callback) == ("auto", None, None)
    # Parameters set after the fit do not change the model.
    model = fit().set_params(density="histogram")
    for loaded in there_and_back(model, path):
        same_model(loaded, model)
        assert loaded.density == "histogram"


VALUES = ["Oslo", "", "å", 3, 2**40, 2.5, True, None, [1, 2], (1.0, 2.0), ["a", "b"], {"a": [1]}]


def test_what_was_added_to_the_result_is_kept(model, path):
    changed = copy.copy(model)
    arrays = {
        "wide": ("component", np.array([2**40, -1])),
        "half": ("component", np.array([0.5, np.nan], dtype=np.float16)),
        "truth": ("component", np.array([True, False])),
        "unsigned": ("component", np.array([0, 2**63], dtype=np.uint64)),
        "words": ("component", np.array(["", "größe"])),
        "day": ("component", np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[ns]")),
    }
    changed.result_ = model.result_.assign(arrays).assign_coords(station="Oslo")
    changed.result_.attrs |= {f"value{i}": value for i, value in enumerate([*VALUES, np.arange(3), np.float32(1)])}
    changed.result_["weights"].attrs |= {f"value{i}": value for i, value in enumerate(VALUES)}
    for _ in range(2):  # and once more
        changed.save(path)
        loaded = smp.load(path)
        same_model(loaded, changed)
        for i, value in enumerate(VALUES):
            for attrs in (loaded.result_.attrs, loaded.result_["weights"].attrs):
                np.testing.assert_array_equal(attrs[f"value{i}"], value)
                assert type(attrs[f"value{i}"]) is (np.ndarray if isinstance(value, list) else type(value))
        changed = loaded
    assert {name: type(value) for name, value in loaded.result_.attrs.items() if name in model.result_.attrs} == {
        name: type(value) for name, value in model.result_.attrs.items()
    }


def of_dictionary(dataset, folder):
    return xr.Dataset.from_dict(json.loads(json.dumps(dataset.to_dict(), default=np.ndarray.tolist)))


def of_netcdf4(dataset, folder):
    pytest.importorskip("h5netcdf")
    dataset.to_netcdf(folder / "a.nc", engine="h5netcdf")
    return xr.open_dataset(folder / "a.nc", engine="h5netcdf", decode_times=False)


def of_netcdf3(dataset, folder):
    dataset.to_netcdf(folder / "a.nc", engine="scipy")
    return xr.open_dataset(folder / "a.nc", engine="scipy", decode_times=False)


def of_zarr(dataset, folder):
    pytest.importorskip("zarr")
    dataset.to_zarr(folder / "a.zarr", zarr_format=2)
    return xr.open_zarr(folder / "a.zarr", decode_timedelta=False)


def of_chunks(dataset, folder):
    pytest.importorskip("dask")
    return dataset.chunk()


STORES = [of_dictionary, of_netcdf4, of_netcdf3, of_zarr, of_chunks, lambda dataset, folder: copy.deepcopy(dataset)]


@pytest.mark.parametrize("keep", STORES)
def test_any_store_keeps_the_dataset(model, tmp_path, keep):
    before = model.to_dataset().copy(deep=True)
    kept = keep(model.to_dataset(), tmp_path)
    loaded = smp.load(kept)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    xr.testing.assert_equal(loaded.result_, model.result_)
    assert loaded.get_params() == model.get_params()
    xr.testing.assert_identical(model.to_dataset(), before)
    kept.close()


@pytest.mark.parametrize("options", [{"n_init": 3, "init": "random", "weights": "uniform"}, {"loss": "frobenius"}])
def test_solutions(options, tmp_path):
    codes = smp.encode_samples(pd.DataFrame(X, columns=["a", "b", "c", 3]), smp.choose_binning(X, n_bins=[4, 5, 6, 5]))
    # Codes in place of histograms have no totals.
    counted = codes if "loss" in options else smp.count_marginals(codes, triples=[(0, 1, 2), (1, 2, 3)])
    solution = smp.coupled_simplex_parafac(counted, 2, n_iter_max=50, random_state=0, **options)
    for keep in (*STORES[:2], lambda dataset, folder: dataset):
        again = smp.load(keep(solution.to_dataset(), tmp_path))
        assert isinstance(again, smp.CoupledSolution)
        xr.testing.assert_identical(again.to_dataset(), solution.to_dataset())
        assert again.factors.binning == solution.factors.binning
        for one, other in zip(again.factors.factors, solution.factors.factors, strict=True):
            np.testing.assert_array_equal(one, other)
        for one, other in zip(again.start_traces, solution.start_traces, strict=True):
            np.testing.assert_array_equal([one.loss, one.change], [other.loss, other.change])
        for name in ("triples", "totals", "start_losses"):
            np.testing.assert_array_equal(getattr(again, name), getattr(solution, name))
        for name in ("status", "start_statuses", "loss_name", "best_start", "squared_norm", "start_info"):
            assert getattr(again, name) == getattr(solution, name), name


# ---- other readers ----


def test_plain_xarray_reads_files(content, model, path):
    path.write_bytes(content)
    with xr.open_dataset(path, engine="scipy") as opened:
        assert set(opened.variables) == set(model.result_.variables)
        assert set(opened.coords) == set(model.result_.coords)
        for name in opened.variables:
            np.testing.assert_array_equal(opened[name], model.result_[name])
            assert opened[name].attrs.get("long_name") == model.result_[name].attrs.get("long_name")
        assert opened.attrs["status_explanation"] == model.result_.attrs["status_explanation"]
        same_model(smp.load(opened), model)
    # Netcdf c reads files.
    netcdf4 = pytest.importorskip("netCDF4")
    path.write_bytes(content)
    with netcdf4.Dataset(path) as file:
        assert file.n_samples == 400
        for name in ("weights", "spline", "n_bins", "edges"):
            assert file[name].dimensions == model.result_[name].dims
            np.testing.assert_array_equal(np.ma.filled(file[name][:], np.nan), model.result_[name])


# ---- files and Datasets that are none ----

SIGNS = [b"", b"\0" * 1000, b"CDF\x01", b"x,y\n1,2\n", b"\x89PNG\r\n\x1a\n", b'{"format": 1}', b"PK\3\4"]


def test_foreign_files(path, content):
    for start in SIGNS:
        for data in {start, start + content} - {content}:
            path.write_bytes(data)
            with pytest.raises(FileFormatError, match=r"model\.nc (was not written by|is damaged)"):
                smp.load(path)


def test_damaged_files(content, model, path):
    def refuses(data):
        path.write_bytes(data)
        try:
            loaded = smp.load(path)
        except FileFormatError:
            return True
        xr.testing.assert_identical(loaded.result_, model.result_)  # padding, and which NaN it is
        return False

    def flipped(position):
        data = bytearray(content)
        data[position] ^= 1 << rng.integers(8)
        return bytes(data)

    rng = np.random.default_rng(0)
    assert all(refuses(content[:size]) for size in np.linspace(4, len(content) - 1, 10).astype(int))
    for position in rng.integers(len(content), size=40):
        refuses(flipped(position))
    for name in ("weights", "factors", "edges", "loss"):
        values = model.result_[name].values.astype(">f8").tobytes()
        start = content.index(values)
        assert all(refuses(flipped(start + offset)) for offset in rng.integers(len(values), size=5)), name
    for text in (b"tensorly_smp.SmoothProductMixture", b"n_components", b"factors", b"component"):
        assert refuses(flipped(content.index(text)))


def test_files_of_earlier_versions_and_of_others(path, model, content):
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    with pytest.raises(FileFormatError, match="expected a netCDF-3 file"):
        smp.load(path)
    for version in (1, 3, "1" * 10**6):
        with pytest.raises(FileFormatError, match=r"has format version \d{1,20}; this release reads version 2"):
            smp.load(model.to_dataset().assign_attrs(format_version=version))
    for other in (xr.Dataset({"rain": ("day", np.arange(3.0))}), model.result_):
        other.to_netcdf(path, engine="scipy")
        for source in (path, other):
            with pytest.raises(FileFormatError, match="was not written by"):
                smp.load(source)
    model.to_dataset().to_netcdf(path, engine="scipy")  # without a checksum
    with pytest.raises(FileFormatError, match="lacks 'sha256'"):
        smp.load(path)
    path.write_bytes(content)
    with xr.open_dataset(path, engine="scipy") as opened:
        edited = opened.load().assign(weights=("component", opened.weights.values[::-1]))
    with pytest.raises(FileFormatError, match="not what was written"):
        smp.load(edited)


def without(dataset, attribute):
    kept = dataset.copy()
    del kept.attrs[attribute]
    return kept


EDITS = {
    "parameters: not JSON": lambda d: d.assign_attrs(parameters="rm -rf"),
    "parameters: JSON of great depth": lambda d: d.assign_attrs(parameters="[" * 100_000),
    "parameters: a list": lambda d: d.assign_attrs(parameters="[1, 2]"),
    "parameters: an unknown one": lambda d: d.assign_attrs(parameters='{"mapping": [["shell", "rm"]]}'),
    "parameters: keys that are lists": lambda d: d.assign_attrs(parameters='{"mapping": [[[1], 2]]}'),
    "parameters: none": lambda d: without(d, "parameters"),
    "names: fewer": lambda d: d.assign_attrs(variable_names='["a"]'),
    "names: repeated": lambda d: d.assign_attrs(variable_names='["a", "a", "b", "c"]'),
    "names: an unknown time": lambda d: d.assign_attrs(variable_names='[{"time": ["system", "rm"]}, 1, 2, 3]'),
    "names: an enormous integer": lambda d: d.assign_attrs(variable_names="9" * 5000),
    "names: none": lambda d: without(d, "variable_names"),
    "density: unknown": lambda d: d.assign_attrs(density="wavelet"),
    "density: none": lambda d: without(d, "density"),
    "status: unknown": lambda d: d.assign_attrs(status="great"),
    "sweeps: text": lambda d: d.assign_attrs(n_sweeps="many", n_passes="many"),
    "sweeps: infinite": lambda d: d.assign_attrs(n_sweeps=np.inf),
    "weights: none": lambda d: d.drop_vars("weights"),
    "weights: NaN": lambda d: d.assign(weights=d.weights * np.nan),
    "weights: negative": lambda d: d.assign(weights=("component", np.array([1.5, -0.5]))),
    "weights: sum 2": lambda d: d.assign(weights=d.weights * 2),
    "weights: huge": lambda d: d.assign(weights=d.weights * 1e308),
    "factors: negative": lambda d: d.assign(factors=-d.factors),
    "factors: infinite": lambda d: d.assign(factors=d.factors + np.inf),
    "factors: of other dimensions": lambda d: d.assign(factors=d.factors.rename(bin="basket")),
    "factors: transposed": lambda d: d.assign(factors=d.factors.transpose("component", "bin", "variable")),
    "no components": lambda d: d.isel(component=[]),
    "no variables": lambda d: d.isel(variable=[]),
    "no loss": lambda d: d.drop_vars("loss"),
    "n_bins: negative": lambda d: d.assign(n_bins=-d.n_bins),
    "n_bins: fewer than the factors have": lambda d: d.assign(n_bins=d.n_bins - 2),
    "n_bins: enormous": lambda d: d.assign(n_bins=d.n_bins * 10**15),
    "edges: decreasing": lambda d: d.assign(edges=-d.edges),
    "edges: NaN": lambda d: d.assign(edges=d.edges * np.nan),
    "edges: huge": lambda d: d.assign(edges=np.sign(d.edges) * 1e308),
    "edges: unequal bins for sinc": lambda d: d.assign(edges=d.edges**3).assign_attrs(density="sinc"),
    "splines: none": lambda d: d.drop_vars("spline"),
    "splines: infinite": lambda d: d.assign(spline=d.spline + np.inf),
    "splines: of two functions": lambda d: d.isel(basis=slice(2)),
    "splines: of a negative scale": lambda d: d.assign(spline_center=d.spline_center.fillna(0), spline_scale=-d.n_bins),
    "interval: reversed": lambda d: d.assign(interval=-d.interval),
    "bounds: inside the interval": lambda d: d.assign(bounds=d.interval * 0.5),
    "background: more than all": lambda d: d.assign(background=d.background + 1),
    "discrete: text": lambda d: d.assign(discrete=("variable", np.array(["no"] * d.sizes["variable"]))),
}


@pytest.mark.parametrize("change", EDITS.values(), ids=EDITS.keys())
def test_datasets_that_were_edited(model, change):
    with pytest.raises(FileFormatError, match="The Dataset is damaged or was edited"):
        smp.load(change(model.to_dataset()))


def test_edited_solutions_are_refused_and_huge_splines_are_numbers(model):
    codes = smp.encode_samples(X, smp.choose_binning(X, n_bins=5))
    dataset = smp.coupled_simplex_parafac(codes, 2, random_state=0).to_dataset()
    for edit in (dataset.drop_vars("factors"), dataset.assign_attrs(status="?"), dataset.assign_attrs(parameters="[]")):
        with pytest.raises(FileFormatError, match="damaged or was edited"):
            smp.load(edit)
    # Huge splines are a model of finite numbers.
    dataset = model.to_dataset()
    huge = smp.load(dataset.assign(spline=dataset.spline * 1e306))
    drawn = huge.sample(50, 0)[0]
    for values in (drawn, huge.score_samples(drawn), huge.density_.mean(), huge.impute(drawn * np.nan)):
        assert np.isfinite(values).all()


def test_no_pickle(model, path, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("pickled")

    for name in ("dump", "dumps", "load", "loads", "Pickler", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    there_and_back(model, path)


# ---- when saving fails ----


def test_what_cannot_be_saved(path, model):
    frame = pd.DataFrame(X, columns=[frozenset("ab"), "b", "c", "d"])
    with pytest.raises(InvalidInputError, match="frozenset"):
        fit(frame).save(path)
    model.save(path)
    before = path.read_bytes()
    broken = copy.copy(model)
    for name, change in {
        "edges": lambda result: result.drop_vars("edges"),
        "has dimensions": lambda result: result.expand_dims("member"),
        "attributes": lambda result: result.assign_attrs(station=object()),
        "model to be saved is damaged or was edited": lambda result: result.assign_attrs(note="a\0b\0"),
        "written as netCDF": lambda result: result.assign_attrs({"a/b": 1}),
    }.items():
        broken.result_ = change(model.result_)
        with pytest.raises(InvalidInputError, match=name):
            broken.save(path)
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert path.read_bytes() == before


def test_a_full_disk_is_an_oserror(model, path):
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            model.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not any(path.parent.iterdir())


def test_devices_pipes_and_what_is_no_path_are_no_models(tmp_path, model):
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        if path.exists():
            with pytest.raises(OSError, match="a device, a pipe or a socket"):
                smp.load(path)
    with pytest.raises(FileNotFoundError, match=r"none\.nc"):
        smp.load(tmp_path / "none.nc")
    for wrong in ("", "a\0b.nc", b"model.nc", 3):
        for call in (model.save, smp.load):
            with pytest.raises((InvalidInputError, InvalidTypeError), match="path is"):
                call(wrong)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="needs an ordinary user")
def test_files_without_permission(model, path, tmp_path):
    model.save(path)
    path.chmod(0)
    with pytest.raises(PermissionError, match="permission denied"):
        smp.load(path)
    path.chmod(0o444)
    with pytest.raises(PermissionError, match="read-only"):
        model.save(path)
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match="read-only"):
        model.save(tmp_path / "new.nc")
    tmp_path.chmod(0o700)


# ---- files that are there whole or not at all ----


def test_new_and_replaced_and_what_cannot_be_written(tmp_path):
    target = tmp_path / "table.csv"
    beside = tmp_path / "beside"
    beside.touch()
    storage.write_whole(target, b"earlier")
    assert target.stat().st_mode == beside.stat().st_mode  # the usual permissions
    target.chmod(0o640)
    (tmp_path / "link.csv").symlink_to(target)
    storage.write_whole(tmp_path / "link.csv", b"new")
    assert (tmp_path / "link.csv").is_symlink()
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o640
    assert len(list(tmp_path.iterdir())) == 3
    # What cannot be written is known beforehand.
    storage.require_writable(tmp_path / "new.csv")
    for call in (storage.require_writable, lambda path: storage.write_whole(path, b"")):
        with pytest.raises(FileNotFoundError, match="no folder"):
            call(tmp_path / "none" / "new.csv")
        with pytest.raises(IsADirectoryError, match="is a folder"):
            call(tmp_path)


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_an_error_leaves_what_was_there(tmp_path, monkeypatch, step):
    (tmp_path / "table.csv").write_text("earlier")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="disk full"):
        storage.write_whole(tmp_path / "table.csv", b"new")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["earlier"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device")
def test_devices_are_written_to_and_not_replaced(tmp_path):
    (tmp_path / "link").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        storage.write_whole(tmp_path / "link", b"x")
    storage.write_whole(Path("/dev/null"), b"x")
    assert not Path("/dev/null").is_file()
