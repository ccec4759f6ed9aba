"""The table of benchmarks: what it measures is what it says, at sizes that take no time."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

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
