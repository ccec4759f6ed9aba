"""Fits of more samples than the workers' memory holds, on a cluster of processes on this machine.

    OMP_NUM_THREADS=1 python benchmarks/dask_fit.py fit [--samples 20000000] [--workers 2] [--memory 1GB]
    OMP_NUM_THREADS=1 python benchmarks/dask_fit.py kill [--samples 400000 --chunk 25000] [--at 1 3]
    OMP_NUM_THREADS=1 python benchmarks/dask_fit.py cost [--quick]

Samples are drawn where they are needed, chunk by chunk, from a mixture that is known. `fit` prints seconds by stage,
peak memory of the processes, and how far the fit is from that of a sample that fits into memory, which fitted in chunks
must give the same model. The samples are read three times (ranges, codes, cells), everything else works on one to two
bytes an entry. `kill` fits twice, the second time with a worker killed before these E-steps. `cost` times the
stages on one processor (Dask's synchronous scheduler), the sum over all parts, fits the coefficients of their
formulas, checks them outside the range of the fit, and asks them about problems that no single machine fits.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import comb
from typing import Any, NamedTuple

import numpy as np
from common import largest_difference, options_of, peak_megabytes, percent_right, processor_time
from scipy.optimize import nnls

import tensorly_smp as smp
from tensorly_smp._support.parallel import Parts
from tensorly_smp.decomposition.problem import random_start
from tensorly_smp.factors.blocks import ProjectedGradient
from tensorly_smp.factors.implicit import ImplicitLoss, couple_codes
from tensorly_smp.factors.sweeps import Steps
from tensorly_smp.fitting import fit_samples
from tensorly_smp.fitting.fit_samples import ReadSamples
from tensorly_smp.likelihood.cells import choose_cells
from tensorly_smp.likelihood.steps import CellSamples
from tensorly_smp.samples.parts import PART_ENTRIES
from tensorly_smp.samples.values import evenly_spaced

# ---- fits on a cluster ----


def lazy_samples(n_samples: int, options: argparse.Namespace) -> tuple[Any, Any]:
    """A dask array of samples that are drawn when a chunk is asked for, the same every time; and their mixture."""
    import dask
    import dask.array as da

    truth = smp.datasets.make_smooth_mixture(options.kind, 1, options.variables, options.rank, random_state=0).mixture
    shared = dask.delayed(truth, traverse=False)
    sizes = [min(options.chunk, n_samples - first) for first in range(0, n_samples, options.chunk)]
    drawn = [dask.delayed(draw)(shared, size, seed) for seed, size in enumerate(sizes)]
    chunks = [da.from_delayed(part, (size, options.variables), float) for part, size in zip(drawn, sizes, strict=True)]
    return da.concatenate(chunks), truth


def draw(truth: Any, size: int, seed: int) -> np.ndarray:
    return truth.sample(size, random_state=seed)[0]


@contextmanager
def cluster_of(n_workers: int, memory: str) -> Iterator[Any]:
    from distributed import Client, LocalCluster

    options = dict(threads_per_worker=1, memory_limit=memory, processes=True, dashboard_address=None)
    options["silence_logs"] = logging.CRITICAL  # of workers that are stopped
    with LocalCluster(n_workers=n_workers, **options) as cluster, Client(cluster) as client:
        yield client


@contextmanager
def watched(client: Any) -> Iterator[dict[str, float]]:
    """Bytes that all workers together have on disk, at most, looked at twice a second."""
    peaks, stop = {"disk": 0.0}, threading.Event()

    def look() -> None:
        while not stop.wait(0.5):
            workers = client.scheduler_info(n_workers=-1)["workers"].values()
            spilled = [worker.get("metrics", {}).get("spilled_bytes", {}) for worker in workers]
            peaks["disk"] = max(peaks["disk"], float(sum(each.get("disk", 0) for each in spilled)))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield peaks
    finally:
        stop.set()
        thread.join()


def timed_fit(X: Any, rank: int, name: str) -> Any:
    began = time.perf_counter()
    model = smp.SmoothProductMixture(rank, random_state=0).fit(X)
    passes = model.result_.attrs["n_passes"]
    print(f"{name}: {time.perf_counter() - began:.1f} s, {passes} passes", flush=True)
    return model


def fit(options: argparse.Namespace) -> None:
    handler = logging.StreamHandler()  # the library's messages of every stage
    handler.setFormatter(logging.Formatter("  %(message)s"))
    logging.getLogger("tensorly_smp").addHandler(handler)
    logging.getLogger("tensorly_smp").setLevel(logging.INFO)
    X, truth = lazy_samples(options.samples, options)
    print(f"{options.samples} x {options.variables}, {X.nbytes / 1e9:.3g} GB in {X.numblocks[0]} chunks")
    with cluster_of(options.workers, options.memory) as client, watched(client) as peaks:
        model = timed_fit(X, options.rank, "fit")
        of_workers = ", ".join(f"{peak / 1e3:.2f}" for peak in client.run(peak_megabytes).values())
        print(f"peak memory of the workers: {of_workers} GB of {options.memory} each")
        print(f"written to disk at most, all workers: {peaks['disk'] / 1e9:.3g} GB")
    print(f"peak memory of this process: {peak_megabytes() / 1e3:.3g} GB")
    X = lazy_samples(options.sample, options)[0]
    small = timed_fit(X.compute(), options.rank, f"in memory, {options.sample} samples")
    same = timed_fit(X, options.rank, "the same samples in chunks")
    print(f"largest difference of a factor entry {largest_difference(same.factors_, small.factors_):.1e}")
    new, labels = truth.sample(20_000, random_state=10**6)
    for name, one in (("all samples", model), (f"{options.sample} samples", small)):
        loss = float(np.mean(truth.logpdf(new) - one.score_samples(new)))
        weights = np.abs(np.sort(one.weights_) - np.sort(truth.weights)).max()
        print(f"fit of {name}: {loss:.5f} nats a sample below the truth, accuracy "
              f"{percent_right(labels, one.predict(new)):.2f} %, weights off by at most {weights:.5f}")  # fmt: skip


def kill(options: argparse.Namespace) -> None:
    X = lazy_samples(options.samples, options)[0]
    e_step, killed, calls = CellSamples.e_step, [], []

    def killing(self: CellSamples, *logs: Any) -> Any:
        if isinstance(self.parts, Parts):  # not those of the search, in memory
            calls.append(1)
        if isinstance(self.parts, Parts) and len(calls) in options.at:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[-1], signal.SIGKILL)
        return e_step(self, *logs)

    with cluster_of(options.workers, options.memory) as client:
        calm = timed_fit(X, options.rank, "fit")
        CellSamples.e_step = killing
        disturbed = timed_fit(X, options.rank, "fit with workers killed")
        print(f"workers killed: {len(killed)}; alive now: {len(client.run(os.getpid))}")
    print(f"largest difference of a factor entry {largest_difference(calm.factors_, disturbed.factors_):.1e}")


# ---- a model of the cost ----

N_BINS = 15
#: Samples, variables and components: of the fit, of the quick one, and outside it.
POINTS = [(100_000, 10, 5), (400_000, 10, 5), (400_000, 10, 10), (50_000, 20, 5), (200_000, 20, 5), (200_000, 20, 10)]
POINTS += [(25_000, 40, 5), (100_000, 40, 5), (100_000, 40, 10)]
QUICK = [(50_000, 10, 5), (200_000, 10, 5), (200_000, 10, 10), (25_000, 40, 5), (50_000, 40, 10)]
OUTSIDE = [(1_000_000, 10, 8), (50_000, 100, 8)]
#: Samples, variables, components, workers and starts that the model is asked about.
QUESTIONS = [(20e6, 10, 5, 2, 5), (1e9, 100, 10, 64, 5), (1e9, 100, 10, 512, 5)]
QUESTIONS += [(1e6, 10_000, 10, 16, 1), (1e6, 10_000, 10, 64, 1)]


class Stage(NamedTuple):
    """Terms that the seconds of a stage are a sum of, each times a coefficient; is it divided among the workers?"""

    formula: str
    terms: Callable[[float, int, int], list[float]]  # the last one is what a call costs, however small
    is_divided: bool = True


STAGES = {
    "read": Stage("M N, 1", lambda m, n, r: [m * n, 1]),
    "encode": Stage("M N, 1", lambda m, n, r: [m * n, 1]),
    "cells": Stage("M N, 1", lambda m, n, r: [m * n, 1]),
    "count": Stage("M N^3/6, 1", lambda m, n, r: [m * comb(n, 3), 1]),
    "E-step": Stage("M N R, M R, 1", lambda m, n, r: [m * n * r, m * r, 1]),
    "M-step": Stage("N R, 1", lambda m, n, r: [n * r, 1], is_divided=False),
    "sweep": Stage("M N R, N", lambda m, n, r: [m * n * r, n], is_divided=False),
}


def measure(n_samples: int, n_variables: int, rank: int) -> dict[str, float]:
    """Processor seconds of every stage, the best of five."""
    import dask
    import dask.array as da

    X = smp.datasets.make_smooth_mixture("gaussian", n_samples, n_variables, rank, random_state=0).X
    array = da.from_array(X, chunks=(max(1, PART_ENTRIES // n_variables), n_variables))
    with dask.config.set(scheduler="synchronous"):
        read = ReadSamples.of(array)
        samples = replace(read, different=read.parts)  # in chunks, even if they are few
        some = samples.subsample.values
        binning = smp.choose_binning(some, N_BINS)
        cells = choose_cells(some, rank)
        codes = samples.encode(binning)
        on_grid = codes.assign_to_grid(cells)
        tables = np.log(np.random.default_rng(0).random((len(on_grid.prior), rank)))
        expected = on_grid.e_step(np.full(rank, -np.log(rank)), tables)
        penalty, mixture = on_grid.choose(expected, "reml")
        tables = on_grid.log_tables(mixture)
        # A sweep of the starts is over codes in memory.
        steps = Steps(ImplicitLoss(couple_codes(smp.encode_samples(X, binning))), ProjectedGradient())
        start = random_start([N_BINS] * n_variables, rank, np.random.default_rng(0))
        factors = list(start.factors)

        def sweep() -> None:
            steps.begin(start.weights, factors)
            for n in range(n_variables):
                factors[n] = steps.improve(n, factors, start.weights)

        works: dict[str, Callable[[], Any]] = {
            "read": lambda: ReadSamples.of(array),
            "encode": lambda: samples.encode(binning),
            "cells": lambda: codes.assign_to_grid(cells),
            "count": lambda: codes.count("all", None),
            "E-step": lambda: on_grid.e_step(mixture.log_weights, tables),
            "M-step": lambda: on_grid.log_tables(on_grid.maximize(expected, mixture, penalty)),
            "sweep": sweep,
        }
        # Beyond 50 variables the histograms are too many to be counted.
        seconds = {
            name: min(processor_time(work)[1] for _ in range(1 if name == "count" else 5))
            for name, work in works.items()
            if name != "count" or n_variables <= 50
        }
    print(f"M = {n_samples}, N = {n_variables}, R = {rank}: " + ", ".join(f"{k} {v:.3g} s" for k, v in seconds.items()))
    return seconds


def cost(options: argparse.Namespace) -> None:
    points = QUICK if options.quick else POINTS
    measured = {point: measure(*point) for point in points}
    coefficients = {}
    for name, stage in STAGES.items():
        seconds = np.array([measured[point][name] for point in points])
        terms = np.array([stage.terms(*point) for point in points])
        # None negative, with the least relative errors.
        coefficients[name] = nnls(terms / seconds[:, None], np.ones(len(seconds)))[0]
        error = np.abs(terms @ coefficients[name] / seconds - 1).max()
        values = ", ".join(f"{1e9 * value:.3g}" for value in coefficients[name])
        print(f"{name:8} {values:>34} ns of {stage.formula:13}, error where fitted at most {100 * error:.0f} %")

    def predicted(name: str, point: tuple, n_workers: int = 1) -> float:
        return float(np.dot(STAGES[name].terms(*point), coefficients[name])) / (
            n_workers if STAGES[name].is_divided else 1
        )

    for point in [] if options.quick else OUTSIDE:
        ratios = [f"{name} {predicted(name, point) / seconds:.2f}" for name, seconds in measure(*point).items()]
        print(f"    predicted / measured: {', '.join(ratios)}")
    step, of_part = step_seconds()
    print(f"a step on a cluster of two processes: {1e3 * step:.1f} ms, and {1e3 * of_part:.2f} ms a part")
    for m, n, rank, n_workers, n_starts in QUESTIONS:
        seconds = {name: predicted(name, (m, n, rank), n_workers) for name in STAGES}
        parts = np.ceil(m / max(PART_ENTRIES // n, fit_samples.PART_ROWS, m / fit_samples.MOST_PARTS))
        some, is_counted = len(evenly_spaced(int(m), n)), comb(n, 3) * (8 * N_BINS**3 + 256) < 1e8
        # Five sweeps of the starts; ten E-steps over all samples of a fit, which goes on from the fit of some.
        start = seconds["count"] if is_counted else 5 * n_starts * predicted("sweep", (some, n, rank))
        likelihood = 10 * (seconds["E-step"] + seconds["M-step"] + step + of_part * parts)
        reads = seconds["read"] + seconds["encode"] + seconds["cells"]
        megabytes = 8e-6 * 4 * 77 * n * rank  # cells of 80 splines
        print(
            f"{m:.0e} samples x {n} variables, {rank} components, {n_workers} workers, {n_starts} starts: reading "
            f"{reads:.0f} s, starts from {'histograms' if is_counted else f'{some} samples'} {start:.0f} s, likelihood "
            f"{likelihood:.0f} s;\n    workers keep {3e-9 * m * n:.3g} GB (the samples are {8e-9 * m * n:.3g}) in "
            f"{parts:.0f} parts, to and from each of which {megabytes:.3g} MB travel at every E-step"
        )


def step_seconds() -> tuple[float, float]:
    """Seconds of a step without work, and more of them for every part."""
    import dask

    seconds = []
    with cluster_of(2, "1GB"):
        for number in (4, 64):
            parts = Parts.of([dask.delayed(np.zeros)(10) for _ in range(number)]).persist()
            parts.map(np.sum).reduce(sum)
            began = time.perf_counter()
            for _ in range(10):
                parts.map(np.sum).reduce(sum)
            seconds.append((time.perf_counter() - began) / 10)
    slope = max((seconds[1] - seconds[0]) / 60, 0.0)
    return max(seconds[0] - 4 * slope, 0.0), slope


if __name__ == "__main__":
    PARTS = {"fit": fit, "kill": kill, "cost": cost}
    options = options_of(__doc__, words=PARTS, samples=20_000_000, variables=10, rank=5, kind="gmm", chunk=200_000,
                         workers=2, memory="1GB", sample=200_000, at=(1, 3), quick=False)  # fmt: skip
    PARTS[options.part](options)
