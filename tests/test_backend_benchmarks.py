"""The benchmarks of backends: sweeps are timed on both sides, and the problem is the same for all backends."""

import importlib
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
backends = importlib.import_module("backends")


def lines(arguments, capsys):
    backends.main(arguments)
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_agreement_is_that_of_the_same_problem(monkeypatch, capsys):
    monkeypatch.setattr(backends, "MODULES", {"numpy": "numpy"})
    arguments = ["agreement", "--samples", "200", "--variables", "4", "--bins", "3", "--rank", "2", "--sweeps", "3"]
    table = [line for line in lines(arguments, capsys) if "float32" in line]
    assert [row[:2] for row in table] == [["kl", "explicit"], ["frobenius", "explicit"], ["frobenius", "implicit"]]
    for row in table:
        assert 0 < float(row[4]) < 1e-4
        assert 0 < float(row[5]) < 1e-4
