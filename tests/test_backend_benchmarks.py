"""The benchmarks of backends: sweeps are timed on both sides, and the problem is the same for all backends."""

import importlib
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
gpu, backend_agreement = map(importlib.import_module, ("gpu", "backend_agreement"))


def lines(script, arguments, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["script", *arguments])
    script.main()
    return capsys.readouterr().out.splitlines()


def test_sweeps_are_timed_on_both_sides(monkeypatch, capsys):
    pytest.importorskip("torch")
    arguments = ["--bins", "4", "--rank", "2", "--sweeps", "2", "--device", "cpu", "--variables", "3", "5"]
    rows = [line.split() for line in lines(gpu, arguments, monkeypatch, capsys)[2:]]
    assert [row[:2] for row in rows] == [["kl", "3"], ["kl", "5"], ["frobenius", "3"], ["frobenius", "5"]]
    assert all(float(value) >= 0 for row in rows for value in row[2:])
    assert {len(row) for row in rows} == {5}


def test_agreement_is_that_of_the_same_problem(monkeypatch, capsys):
    monkeypatch.setattr(backend_agreement, "MODULES", {"numpy": "numpy"})
    arguments = ["--samples", "200", "--variables", "4", "--bins", "3", "--rank", "2", "--sweeps", "3"]
    printed = lines(backend_agreement, arguments, monkeypatch, capsys)
    table = [line.split() for line in printed if "float32" in line]
    assert [row[:2] for row in table] == [["kl", "explicit"], ["frobenius", "explicit"], ["frobenius", "implicit"]]
    for row in table:
        assert 0 < float(row[4]) < 1e-4
        assert 0 < float(row[5]) < 1e-4
