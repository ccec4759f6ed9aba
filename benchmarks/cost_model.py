"""Seconds and bytes of the stages of a fit of chunked samples: a model fitted to measurements, and what it predicts.

Every stage is timed on one processor (Dask's synchronous scheduler), the sum over all parts, at several numbers M of
samples, N of variables and R of components; the coefficients of each stage's formula are fitted to these times, and
checked at two points outside the range of the fit. The time of a step that computes nothing is measured on a cluster of
two processes. Then the model is asked about problems that no single machine fits.

    OMP_NUM_THREADS=1 python benchmarks/cost_model.py [--quick]

Takes about four minutes on a quiet machine; --quick one, with less to go by.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
from scipy.optimize import nnls

import tensorly_smp as smp
from tensorly_smp.chunked import reading
from tensorly_smp.chunked.encoding import count_chunks, encode_chunks
from tensorly_smp.chunked.grid_counts import ChunkedCellSamples
from tensorly_smp.chunked.parts import Parts
from tensorly_smp.codes.values import evenly_spaced
from tensorly_smp.decomposition.starts import random_start
from tensorly_smp.factors.blocks import ProjectedGradient
from tensorly_smp.factors.implicit import ImplicitLoss, couple_codes
from tensorly_smp.factors.sweeps import Steps
from tensorly_smp.likelihood.cells import choose_cells

N_BINS = 15
#: (samples, variables, components): of the fit, and outside it.
POINTS = [
    *((100_000, 10, 5), (400_000, 10, 5), (400_000, 10, 10), (50_000, 20, 5), (200_000, 20, 5), (200_000, 20, 10)),
    *((25_000, 40, 5), (100_000, 40, 5), (100_000, 40, 10)),
]
QUICK = [(50_000, 10, 5), (200_000, 10, 5), (200_000, 10, 10), (25_000, 40, 5), (50_000, 40, 10)]
OUTSIDE = [(1_000_000, 10, 8), (50_000, 100, 8)]
#: Variables from which on the histograms are too many to be counted.
MOST_COUNTED = 50
#: E-steps over all samples of a fit with refine="smooth", which goes on from the fit of some, and sweeps of its starts.
E_STEPS, SWEEPS = 10, 5
#: (samples, variables, components, workers, starts) that the model is asked about.
QUESTIONS = [
    (20e6, 10, 5, 2, 5),
    (1e9, 100, 10, 64, 5),
    (1e9, 100, 10, 512, 5),
    (1e6, 10_000, 10, 16, 1),
    (1e6, 10_000, 10, 64, 1),
]


@dataclass(frozen=True)
class Stage:
    """A stage, and the terms that its seconds are a sum of, each times a coefficient."""

    name: str
    formula: str
    terms: Callable[[float, int, int], list[float]]  # the last one is what a call costs, however small
    is_divided: bool = True  # among the workers


STAGES = [
    Stage("read", "M N, 1", lambda m, n, r: [m * n, 1]),
    Stage("encode", "M N, 1", lambda m, n, r: [m * n, 1]),
    Stage("cells", "M N, 1", lambda m, n, r: [m * n, 1]),
    Stage("count", "M N^3/6, 1", lambda m, n, r: [m * comb(n, 3), 1]),
    Stage("E-step", "M N R, M R, 1", lambda m, n, r: [m * n * r, m * r, 1]),
    Stage("M-step", "N R, 1", lambda m, n, r: [n * r, 1], is_divided=False),
    Stage("sweep", "M N R, N", lambda m, n, r: [m * n * r, n], is_divided=False),
]


def n_parts(n_samples: float, n_variables: int) -> float:
    """Parts that samples are kept in."""
    rows = max(reading.PART_ENTRIES // n_variables, reading.PART_ROWS, n_samples / reading.MOST_PARTS)
    return float(np.ceil(n_samples / rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    points = QUICK if parser.parse_args().quick else POINTS
    measured = {point: measure(*point) for point in points}
    coefficients = {stage.name: fitted(stage, measured) for stage in STAGES}
    print(f"{'stage':8} {'coefficients, in nanoseconds':>34}  of             error where fitted, largest")
    for stage in STAGES:
        errors = [abs(predicted(stage, coefficients, p) / seconds[stage.name] - 1) for p, seconds in measured.items()]
        values = ", ".join(f"{1e9 * each:.3g}" for each in coefficients[stage.name])
        print(f"{stage.name:8} {values:>34}  {stage.formula:13}  {100 * max(errors):.0f} %")
    for point in OUTSIDE:
        check(point, coefficients)
    latency = step_seconds()
    print(f"a step on a cluster of two processes: {1e3 * latency[0]:.1f} ms, and {1e3 * latency[1]:.2f} ms a part")
    for question in QUESTIONS:
        answer(question, coefficients, latency)


def measure(n_samples: int, n_variables: int, rank: int) -> dict[str, float]:
    """Processor seconds of every stage, the best of five."""
    import dask
    import dask.array as da

    X = smp.datasets.make_smooth_mixture("gaussian", n_samples, n_variables, rank, random_state=0).X
    array = da.from_array(X, chunks=(max(1, reading.PART_ENTRIES // n_variables), n_variables))
    with dask.config.set(scheduler="synchronous"):
        samples = reading.read_chunks(array)
        binning = smp.choose_binning(samples.subsample.values, N_BINS)
        codes = encode_chunks(samples, binning)
        cells = choose_cells(samples.subsample.values, rank)
        on_grid = ChunkedCellSamples.assign_to_grid(samples, cells)
        found = {
            "read": timed(lambda: reading.read_chunks(array)),
            "encode": timed(lambda: encode_chunks(samples, binning)),
            "cells": timed(lambda: ChunkedCellSamples.assign_to_grid(samples, cells)),
            "count": np.nan if n_variables > MOST_COUNTED else timed(lambda: count_chunks(codes), 1),
            **em_seconds(on_grid, rank),
            "sweep": sweep_seconds(smp.encode_samples(X, binning), rank),
        }
    print(f"M = {n_samples}, N = {n_variables}, R = {rank}: " + ", ".join(f"{k} {v:.3g} s" for k, v in found.items()))
    return found


def em_seconds(on_grid: ChunkedCellSamples, rank: int) -> dict[str, float]:
    """Of an E-step, and of an M-step with the tables that it leads to, of the smoothed EM."""
    tables = np.log(np.random.default_rng(0).random((len(on_grid.prior), rank)))
    expected = on_grid.e_step(np.full(rank, -np.log(rank)), tables)
    penalty, mixture = on_grid.choose(expected, "reml")
    tables = on_grid.log_tables(mixture)
    return {
        "E-step": timed(lambda: on_grid.e_step(mixture.log_weights, tables)),
        "M-step": timed(lambda: on_grid.log_tables(on_grid.maximize(expected, mixture, penalty))),
    }


def sweep_seconds(codes: smp.Codes, rank: int) -> float:
    """Seconds of one sweep over all triples without histograms, of samples in memory, as the starts make."""
    steps = Steps(ImplicitLoss(couple_codes(codes)), ProjectedGradient())
    model = random_start(codes.n_bins, rank, np.random.default_rng(0))
    factors, weights = list(model.factors), model.weights

    def sweep() -> None:
        steps.begin(weights, factors)
        for n in range(len(factors)):
            factors[n] = steps.improve(n, factors, weights)

    sweep()
    return timed(sweep)


def timed(function: Callable[[], Any], n_times: int = 5) -> float:
    found = []
    for _ in range(n_times):
        start = time.process_time()
        function()
        found.append(time.process_time() - start)
    return min(found)


def fitted(stage: Stage, measured: dict[tuple[int, int, int], dict[str, float]]) -> np.ndarray:
    """Coefficients, none negative, with the least relative errors."""
    terms = np.array([stage.terms(*point) for point in measured])
    seconds = np.array([each[stage.name] for each in measured.values()])
    return np.asarray(nnls(terms / seconds[:, None], np.ones(len(seconds)))[0])


def predicted(stage: Stage, coefficients: dict[str, np.ndarray], point: tuple[float, int, int]) -> float:
    return float(np.dot(stage.terms(*point), coefficients[stage.name]))


def check(point: tuple[int, int, int], coefficients: dict[str, np.ndarray]) -> None:
    seconds = measure(*point)
    ratios = ", ".join(
        f"{stage.name} {predicted(stage, coefficients, point) / seconds[stage.name]:.2f}"
        for stage in STAGES
        if np.isfinite(seconds[stage.name])
    )
    print(f"outside the fit, M = {point[0]}, N = {point[1]}, R = {point[2]}: predicted over measured: {ratios}")


def step_seconds() -> tuple[float, float]:
    """Seconds of a step without work, and more of them for every part."""
    import dask
    from dask_fit import cluster_of

    numbers, seconds = (4, 64), []
    with cluster_of(2, "1GB"):
        for number in numbers:
            parts = Parts.of([dask.delayed(np.zeros)(10) for _ in range(number)]).persist()
            parts.map(np.sum).reduce(sum)
            start = time.perf_counter()
            for _ in range(10):
                parts.map(np.sum).reduce(sum)
            seconds.append((time.perf_counter() - start) / 10)
    slope = max((seconds[1] - seconds[0]) / (numbers[1] - numbers[0]), 0.0)
    return max(seconds[0] - numbers[0] * slope, 0.0), slope


def answer(question: tuple[float, int, int, int, int], coefficients: dict[str, np.ndarray], latency: Any) -> None:
    """Seconds and bytes of a fit, by the model."""
    m, n, rank, n_workers, n_starts = question
    seconds = {stage.name: predicted(stage, coefficients, (m, n, rank)) for stage in STAGES}
    seconds = {s.name: seconds[s.name] / (n_workers if s.is_divided else 1) for s in STAGES}
    parts = n_parts(m, n)
    step = latency[0] + latency[1] * parts
    cells = 4 * 77 * n  # of 80 splines
    table = 8.0 * cells * rank
    is_counted = comb(n, 3) * (8 * N_BINS**3 + 256) < 1e8
    some = len(evenly_spaced(int(m), n))
    start = seconds["count"] if is_counted else n_starts * SWEEPS * predicted(STAGES[-1], coefficients, (some, n, rank))
    reads = seconds["read"] + seconds["encode"] + seconds["cells"]
    likelihood = E_STEPS * (seconds["E-step"] + seconds["M-step"] + step)
    form = "from histograms" if is_counted else f"from {some} of the samples"
    print(
        f"{m:.0e} samples x {n} variables, {rank} components, {n_workers} workers, {n_starts} starts:\n"
        f"    reading {span(reads)}, starts {form} {span(start)}, likelihood {span(likelihood)}\n"
        f"    workers keep {3e-9 * m * n:.3g} GB (the samples are {8e-9 * m * n:.3g}) in {parts:.0f} parts, to and "
        f"from each of which {1e-6 * table:.3g} MB travel at every E-step"
    )


def span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


if __name__ == "__main__":
    main()
