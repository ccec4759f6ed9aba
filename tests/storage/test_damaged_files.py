"""Files that are no saved models, or no longer: the list of benchmarks/damaged_files.py."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import tensorly_smp as smp
from tensorly_smp.exceptions import FileFormatError
from tensorly_smp.storage import content as file_content

pytest.importorskip("zarr")
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
damaged_files = importlib.import_module("damaged_files")


@pytest.fixture(scope="module")
def model():
    return damaged_files.small_model()


@pytest.fixture(scope="module")
def content(model, tmp_path_factory):
    """What a file holds."""
    path = tmp_path_factory.mktemp("saved") / "model.nc"
    model.save(path)
    return damaged_files.read(path)


@pytest.mark.slow
def test_every_file_is_refused_with_a_clear_error(model, tmp_path):
    gave = {
        name: damaged_files.outcome(path, model)
        for name, path in damaged_files.damaged_files(tmp_path, model, with_forged=False)
    }
    harmless = [name for name, outcome in gave.items() if outcome == "the model, unchanged"]
    refused = [name for name, outcome in gave.items() if outcome.startswith("FileFormatError: ")]
    assert set(gave) == {*harmless, *refused}
    assert all(name.endswith("inverted, anywhere") for name in harmless)
    assert len(refused) > 100
    assert not (tmp_path / "executed").exists()
    # Each message names its file.
    files = {name: f"{number:03d}.nc" for number, name in enumerate(gave)}
    assert all(files[name] in gave[name] for name in refused)


@pytest.mark.parametrize("change", damaged_files.EDITS.values(), ids=damaged_files.EDITS.keys())
def test_edits_whose_checksum_is_right(content, change):
    with pytest.raises(FileFormatError, match=r"model\.nc (is damaged or was edited|has format version)"):
        file_content.model_of_dataset(damaged_files.signed(change(content)), "model.nc", [smp.SmoothProductMixture])


def test_an_edit_that_changes_nothing(content, model):
    # So that the test above fails for the reasons that it names.
    loaded = file_content.model_of_dataset(damaged_files.signed(content), "model.nc", [smp.SmoothProductMixture])
    X = model.sample(20, 0)[0]
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_a_forged_file(content, tmp_path):
    path = tmp_path / "model.nc"
    damaged_files.signed(damaged_files.EDITS["weights: none"](content)).to_netcdf(path, engine="h5netcdf")
    with pytest.raises(FileFormatError, match=r"model\.nc is damaged.*weights"):
        smp.load(path)


def test_the_pickle_in_the_list_would_execute(tmp_path):
    # Else the test above says nothing.
    import pickle

    pickle.loads(pickle.dumps(damaged_files.Evil(tmp_path / "executed")))
    assert (tmp_path / "executed").exists()


def test_huge_splines_are_a_model_of_finite_numbers(content):
    edited = content.assign(spline=content.spline * 1e306)
    model = file_content.model_of_dataset(damaged_files.signed(edited), "model.nc", [smp.SmoothProductMixture])
    X = model.sample(50, 0)[0]
    for values in (X, model.score_samples(X), model.predict_proba(X), model.density_.mean(), model.impute(X * np.nan)):
        assert np.isfinite(values).all()
