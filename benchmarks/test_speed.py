"""The hot paths one by one, with pytest-benchmark; never part of the tests.

make bench-speed [BENCH_ARGS="-k m_step"]
OMP_NUM_THREADS=1 python -m pytest benchmarks/test_speed.py
"""

from __future__ import annotations

import importlib
import sys
from math import inf
from pathlib import Path

import numpy as np
import pytest

import tensorly_smp as smp
from tensorly_smp._support import kernels
from tensorly_smp.likelihood.cells import choose_cells
from tensorly_smp.likelihood.steps import CellSamples

pytest.importorskip("pytest_benchmark")
sys.path.append(str(Path(__file__).parent))  # which pytest does not do
bench_table = importlib.import_module("bench_table")


@pytest.fixture(params=["plain", "fast"])
def variant(request):
    """Without and with compiled kernels."""
    if request.param == "fast":
        pytest.importorskip("numba")
    with kernels.used_from({"plain": inf, "fast": 0.0}[request.param]):
        yield


@pytest.fixture(scope="module")
def samples():
    X = bench_table.mixture_samples("gmm", 10_000).X
    return X, smp.encode_samples(X, smp.choose_binning(X, n_bins=15))


def test_count(benchmark, samples):
    benchmark(smp.count_marginals, samples[1])


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.ConvergenceWarning")  # cut short on purpose
def test_five_sweeps(benchmark):
    benchmark(bench_table.growing_sweeps(10_000, 10, 10, 15))


@pytest.mark.usefixtures("variant")
def test_implicit_sweep(benchmark):
    benchmark(bench_table.implicit_sweep(10_000, 100)[0])


@pytest.mark.usefixtures("variant")
def test_em_pass(benchmark):
    benchmark(bench_table.em_pass(100_000)[0])


def test_samples_in_cells(benchmark, samples):
    X, _ = samples
    cells = choose_cells(X, bench_table.RANK)
    benchmark(cells.membership, X)


@pytest.mark.usefixtures("variant")
def test_m_step(benchmark, samples):
    X, _ = samples
    on_grid = CellSamples.assign_to_grid(X, choose_cells(X, bench_table.RANK))
    expected = on_grid.counts_from_posterior(np.random.default_rng(0).dirichlet(np.ones(bench_table.RANK), len(X)))
    penalty, mixture = on_grid.choose(expected, "reml")
    benchmark(on_grid.maximize, expected, mixture, penalty)
