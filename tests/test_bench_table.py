"""The table of benchmarks: what it measures is what it says, at sizes that take no time."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import tensorly_smp as smp

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
bench_table = importlib.import_module("bench_table")


def test_line_has_the_ratio():
    line = str(bench_table.Line("name", 3.0, 2.0, 5e6, "note"))
    assert line.split() == ["name", "3.0000", "2.0000", "1.50", "5.0", "note"]
    assert str(bench_table.Line("name", 3.0)).split() == ["name", "3.0000", "-", "-", "-"]


def test_peak_is_the_largest_array_alive_at_a_time():
    def work():
        for _ in range(3):
            np.empty(1_000_000)

    assert bench_table.peak_bytes(work) == pytest.approx(8e6, rel=0.01)


def test_seconds_are_those_of_each_work():
    calls = []
    short, long = bench_table.processor_seconds(
        lambda: calls.append(0), lambda: (calls.append(1), np.sort(np.arange(10**6)[::-1])), repeats=2
    )
    assert 0 < short < long
    assert set(calls) == {0, 1}


def test_implicit_sweep_leaves_its_start_alone_and_repeats():
    # What is timed has to be the same work every time.
    sweep, copy = bench_table.implicit_sweep(50, 5, 2, 3)
    first, again = sweep(), sweep()
    for a, b in zip(first, again, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(a.sum(axis=0), 1.0)
    copy()


def test_limits_stand_beside_a_copy():
    lines = list(bench_table.limits(1, 60))
    assert len(lines) == 3
    assert all(line.seconds > 0 and line.beside > 0 and line.memory > 0 for line in lines)


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.TensorlySmpWarning")
def test_paper_form_counts_as_many_triples_as_it_says():
    lines = list(bench_table.paper(1, 300))
    assert [line.name.split(", ")[1:] for line in lines] == [
        ["24 triples", "kl"],
        ["24 triples", "frobenius"],
        ["all triples", "kl"],
        ["all triples", "frobenius"],
    ]


@pytest.mark.parametrize("name", list(bench_table.GROWING))
@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.TensorlySmpWarning")
def test_growing_works_run(name):
    found = bench_table.GROWING[name](M=200, N=4, R=2, I=4)()
    if name == "default fit":
        assert isinstance(found, smp.SmoothProductMixture)


def test_growth_has_exponents_of_time_and_memory(monkeypatch):
    """Those of a work that allocates M N I numbers; time is not looked at."""
    sizes = {"M": [10_000, 20_000, 40_000], "N": [1, 2, 4], "R": [1, 2, 4], "I": [1, 2, 4]}
    monkeypatch.setattr(bench_table, "SIZES", sizes)
    monkeypatch.setattr(bench_table, "BASE", {"M": 20_000, "N": 1, "R": 1, "I": 1})
    monkeypatch.setattr(bench_table, "GROWING", {"one array": lambda M, N, R, I: lambda: np.empty((M, N, I))})
    (line,) = bench_table.growth(1, bench_table.N_SAMPLES)
    time, memory = line.note.split("; ")
    found = {each[0]: float(each[2:]) for each in memory.removeprefix("memory ").split()}
    assert found == pytest.approx({"M": 1.0, "N": 1.0, "R": 0.0, "I": 1.0}, abs=0.03)
    assert [each[:2] for each in time.removeprefix("time ").split()] == ["M^", "N^", "R^", "I^"]
    assert line.memory == pytest.approx(8 * 20_000 * 4, rel=0.03)
