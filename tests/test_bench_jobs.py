"""The table of jobs: what it measures is what it says, at sizes that take no time."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
bench_jobs = importlib.import_module("bench_jobs")


def test_a_line_has_the_ratios():
    line = str(bench_jobs.Line("name", 3.0, {"one": 2.0, "other": 12.0}, "note"))
    assert " ".join(line.split()) == "name 3.0000 one 2 (x 1.5); other 12 (x 0.25); note"
    assert str(bench_jobs.Line("name", 3.0)).split() == ["name", "3.0000"]


def test_seconds_are_those_of_the_works_in_turn():
    calls = []
    works = {"short": lambda: calls.append(0), "long": lambda: (calls.append(1), np.sort(np.arange(10**6)[::-1]))}
    seconds = bench_jobs.seconds_of(works, 3)
    assert 0 < seconds["short"] < seconds["long"]
    assert calls == [0, 1] * 3


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.TensorlySmpWarning")
def test_paper_form_counts_as_many_triples_as_it_says():
    lines = list(bench_jobs.paper(bench_jobs.Size(1, 60)))
    assert [line.name.split(", ")[1:] for line in lines] == [
        ["24 triples", "kl"],
        ["24 triples", "frobenius"],
        ["all triples", "kl"],
        ["all triples", "frobenius"],
    ]
