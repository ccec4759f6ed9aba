"""The benchmarks of backends: sizes that fit are measured, others say why not; timed are sweeps that descend."""

import argparse
import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorly as tl

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
gpu, backend_agreement = map(importlib.import_module, ("gpu", "backend_agreement"))

SMALL = ["--bins", "4", "--rank", "2", "--sweeps", "1", "--device", "cpu"]


def lines(script, arguments, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["script", *arguments])
    script.main()
    return capsys.readouterr().out.splitlines()


def test_sizes_are_measured_or_say_why_not(monkeypatch, capsys):
    pytest.importorskip("torch")
    monkeypatch.setattr(gpu.Side, "free_bytes", lambda side: 1e6)
    sizes = ["--variables", "3", "5", "--samples", "50", "1000000"]
    printed = lines(gpu, [*SMALL, *sizes], monkeypatch, capsys)
    cells = [line.split() for line in printed if line.split()[0] in ("3", "5") and line.split()[1].isdigit()]
    assert [tuple(map(int, row[:2])) for row in cells] == [(3, 50), (5, 50), (3, 10**6), (5, 10**6)]
    for row in cells[:2]:
        assert all(0 <= float(value) < np.inf for value in row[2:])  # seconds, rounded
        assert len(row) == 5  # two times and their ratio
    assert [row[2:] for row in cells[2:]] == [["memory", "memory"]] * 2


def test_budget_is_kept(monkeypatch, capsys):
    pytest.importorskip("torch")
    arguments = [*SMALL, "--variables", "3", "--samples", "50", "60", "--budget", "0"]
    printed = lines(gpu, arguments, monkeypatch, capsys)
    rows = [line.split()[2:] for line in printed if line.split()[0] == "3"]
    assert rows == [["time", "time"]] * 2


def test_prediction_is_in_proportion_to_the_largest_that_was_measured():
    side = gpu.Side("numpy", "cpu", 1.0, [(10, 5.0), (100, 2.0)])
    assert [side.predicted(n) for n in (50, 100, 300)] == [2.0, 2.0, 6.0]
    assert gpu.Side("numpy", "cpu", 1.0).predicted(10**9) == 0.0


@pytest.mark.parametrize("backend", ["numpy", "pytorch"])
def test_what_is_timed_are_sweeps(backend):
    pytest.importorskip({"numpy": "numpy", "pytorch": "torch"}[backend])
    options = argparse.Namespace(bins=3, rank=2)
    rng = np.random.default_rng(0)
    with tl.backend_context(backend):
        context = gpu.checked_context("float64", "cpu")
        steps = gpu.make_steps(4, 60, options, context)
        weights, *factors = (
            gpu.as_tensor(a, context) for a in (np.full(2, 0.5), *(rng.dirichlet(np.ones(3), 2).T for _ in range(4)))
        )
        losses = []
        for _ in range(4):
            loss, improved = steps.begin(weights, factors)
            losses.append(loss)
            weights = improved()
            for n in range(4):
                factors[n] = steps.improve(n, factors, weights)
    assert (np.diff(losses) < 0).all()


def test_agreement_is_that_of_the_same_problem(monkeypatch, capsys):
    monkeypatch.setattr(backend_agreement, "MODULES", {"numpy": "numpy"})
    arguments = ["--samples", "200", "--variables", "4", "--bins", "3", "--rank", "2", "--sweeps", "3"]
    printed = lines(backend_agreement, arguments, monkeypatch, capsys)
    table = [line.split() for line in printed if "float32" in line]
    assert [row[:2] for row in table] == [["kl", "explicit"], ["frobenius", "explicit"], ["frobenius", "implicit"]]
    for row in table:
        assert 0 < float(row[4]) < 1e-4
        assert 0 < float(row[5]) < 1e-4
