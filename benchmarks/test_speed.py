"""The hot paths one by one, with pytest-benchmark; never part of the tests.

OMP_NUM_THREADS=1 python -m pytest benchmarks/test_speed.py
"""

from __future__ import annotations

from math import inf

import pytest
from bench_table import em_pass, growing_sweeps, implicit_sweep, mixture_samples

import tensorly_smp as smp
from tensorly_smp import kernels
from tensorly_smp.likelihood.cells import lay_cells

pytest.importorskip("pytest_benchmark")


@pytest.fixture(params=["plain", "fast"])
def variant(request):
    """Without and with compiled kernels."""
    if request.param == "fast":
        pytest.importorskip("numba")
    with kernels.used_from({"plain": inf, "fast": 0.0}[request.param]):
        yield


@pytest.fixture(scope="module")
def samples():
    X = mixture_samples("gmm", 10_000).X
    return X, smp.encode_samples(X, smp.choose_binning(X, n_bins=15))


def test_count(benchmark, samples):
    benchmark(smp.count_marginals, samples[1])


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.ConvergenceWarning")  # cut short on purpose
def test_five_sweeps(benchmark):
    benchmark(growing_sweeps(10_000, 10, 10, 15))


@pytest.mark.usefixtures("variant")
def test_implicit_sweep(benchmark):
    benchmark(implicit_sweep(10_000, 100)[0])


@pytest.mark.usefixtures("variant")
def test_em_pass(benchmark):
    benchmark(em_pass(100_000)[0])


def test_samples_in_cells(benchmark, samples):
    X, codes = samples
    cells = lay_cells(X, 10, codes.binning.edges)
    benchmark(cells.membership, X)
