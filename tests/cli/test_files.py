"""Files of the command line: none is overwritten by mistake, sizes are limited."""

import contextlib
import os
import re
import sys
from pathlib import Path

import pandas as pd
import pytest

import tensorly_smp as smp
from tensorly_smp.cli.parser import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def csv(folder):
    X = smp.datasets.make_smooth_mixture("gaussian", 300, 4, 2, random_state=1).X
    pd.DataFrame(X, columns=["a", "b", "c", "d"]).to_csv(folder / "data.csv", index=False)
    return folder / "data.csv"


def test_outputs_do_not_overwrite_inputs_or_each_other(csv, folder, capsys):
    before = csv.read_bytes()
    model = folder / "model.nc"
    assert main(["fit", str(csv), "--components", "2", "--out", str(model)]) == 0
    saved = model.read_bytes()
    (folder / "link.csv").symlink_to(csv)
    os.link(csv, folder / "hard.csv")
    fit = ["fit", str(csv), "--components", "2"]
    for arguments in (
        [*fit, "--labels", str(csv)],
        [*fit, "--labels", str(folder / "." / csv.name)],
        [*fit, "--labels", str(folder / "link.csv")],
        [*fit, "--labels", str(folder / "hard.csv")],
        [*fit, "--labels", str(folder / "new.png"), "--figure", str(folder / "new.png")],
        [*fit, "--out", str(folder / "new.nc"), "--labels", str(folder / "new.nc")],
        ["predict", str(model), str(csv), "--out", str(csv)],
        ["predict", str(model), str(csv), "--out", str(model)],
    ):
        assert main(arguments) == 2
        assert re.search("would overwrite|no folder", capsys.readouterr().err)
    assert csv.read_bytes() == before
    assert model.read_bytes() == saved
    assert not (folder / "new.png").exists()
    # A column called component names the samples.
    table = pd.read_csv(csv)
    table.insert(0, "component", [f"s{m}" for m in range(len(table))])
    table.to_csv(folder / "named.csv", index=False)
    labels = folder / "labels.csv"
    arguments = ["fit", str(folder / "named.csv"), "--components", "2", "--id-column", "component"]
    assert main([*arguments, "--labels", str(labels)]) == 0
    found = pd.read_csv(labels)
    assert found.columns.tolist() == ["component_", "component"]
    assert found["component_"][0] == "s0"


def test_outputs_that_cannot_be_written_are_found_before_the_fit(csv, folder, capsys, monkeypatch):
    def fit(*_):
        raise AssertionError("fitted")

    monkeypatch.setattr(smp.SmoothProductMixture, "fit", fit)
    (folder / "model.nc").mkdir()
    for option, path in (("--out", folder / "model.nc"), ("--labels", folder), ("--labels", folder / "none" / "a.csv")):
        assert main(["fit", str(csv), "--components", "2", option, str(path)]) == 2
        assert "folder" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device")
def test_devices_are_written_to(csv, folder, capsys, monkeypatch):
    assert main(["fit", str(csv), "--components", "2", "--labels", "/dev/null"]) == 0
    (folder / "full.csv").symlink_to("/dev/full")
    assert main(["fit", str(csv), "--components", "2", "--labels", str(folder / "full.csv")]) == 2
    assert "No space left" in capsys.readouterr().err
    assert (folder / "full.csv").is_symlink()
    device = open("/dev/full", "w")  # noqa: SIM115
    monkeypatch.setattr(sys, "stdout", device)
    assert main(["check", "--variables", "3", "--bins", "2"]) == 2
    with contextlib.suppress(OSError):  # of what is left to write
        device.close()
    assert capsys.readouterr().err == "error: [Errno 28] No space left on device\n"


def test_a_closed_standard_output(csv, folder, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["fit", str(csv), "--components", "2", "--out", "model.nc"]) == 0
    assert main(["predict", "model.nc", str(csv)]) == 2
    assert capsys.readouterr().err == "error: The standard output is closed; give --out FILE.\n"
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["check", "none.nc"]) == 2


def test_numbers_that_would_run_away(csv, capsys):
    fit = ["fit", str(csv), "--components", "2"]
    for arguments in (
        ["check", "--variables", "1000000000", "--bins", "3"],
        [*fit, "--bins", "9" * 400],
        [*fit, "--jobs", "1000000"],
        ["fit", str(csv), "--select", "1:100000"],
    ):
        assert main(arguments) == 2
        assert "expected at most" in capsys.readouterr().err
