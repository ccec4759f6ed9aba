"""All triples without histograms: agreement with counted ones, time of a sweep, and a thousand variables.

(a) Twenty sweeps, implicit and counted, from the same start: largest difference of a factor entry and of the loss.
(b) Seconds of the processor per sweep, medians, over numbers of variables and of samples, and the exponents of both.
(c) Which form is faster on small problems, and which one is taken.
(d) A thousand variables, 166 million triples: start, sweeps and memory, in a process of its own.

    OMP_NUM_THREADS=1 python benchmarks/bench_implicit.py [--parts abcd] [--variables 1000] [--output output]

Takes about five minutes on a quiet machine, most of it for (d).
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tensorly_smp as smp
from tensorly_smp.decomposition.problem import as_problem
from tensorly_smp.decomposition.solver import decompose

RANK, N_BINS = 10, 15
#: n_init and n_screen of (d).
RUNS = [(1, 20), (5, 3), (5, 20)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", default="abcd")
    parser.add_argument("--variables", type=int, default=1000, help="of part (d)")
    parser.add_argument("--samples", type=int, default=10_000, help="of part (d)")
    parser.add_argument("--missing", type=float, default=0.0, help="share of missing entries in part (d)")
    parser.add_argument("--output", type=Path, default=Path("output"), help="folder for the table")
    parser.add_argument("--large", type=Path, help=argparse.SUPPRESS)  # the process of part (d)
    options = parser.parse_args()
    # Runs are cut short on purpose.
    warnings.simplefilter("ignore", smp.exceptions.ConvergenceWarning)
    warnings.simplefilter("ignore", smp.exceptions.EmptyComponentWarning)
    if options.large is not None:
        run_large(options.large)
        return
    options.output.mkdir(parents=True, exist_ok=True)
    with (options.output / "implicit.txt").open("w", encoding="utf-8") as table:
        for part, function in {"a": agreement, "b": scaling, "c": choices, "d": large}.items():
            if part in options.parts:
                for line in function(options):
                    print(line, flush=True)
                    print(line, file=table)


def make_codes(n_samples: int, n_variables: int, missing: float = 0.0, case: str = "gaussian") -> smp.Codes:
    data = smp.datasets.make_smooth_mixture(case, n_samples, n_variables, RANK, random_state=0)
    codes = smp.encode_samples(data.X, smp.choose_binning(data.X, N_BINS))
    if not missing:
        return codes
    hidden = np.random.default_rng(1).random(codes.values.shape) < missing
    return smp.Codes(np.where(hidden, -1, codes.values), codes.binning)


def solve(codes: Any, **options: Any) -> smp.CoupledSolution:
    options = {"loss": "frobenius", "init": "random", "random_state": 0, **options}
    of_problem = {name: options.pop(name) for name in ("loss", "form", "sample_weight") if name in options}
    return decompose(as_problem(codes, rank=RANK, **of_problem), **options)


def sweep_seconds(codes: smp.Codes, n_sweeps: int, **options: Any) -> float:
    """Median seconds of the processor per sweep."""
    times: list[float] = []
    solve(codes, n_iter_max=n_sweeps, tol=0.0, callback=lambda *_: times.append(time.process_time()), **options)
    return float(np.median(np.diff(times)))


# --- (a)


def agreement(options: argparse.Namespace) -> Iterator[str]:
    yield "(a) 20 sweeps, 12 variables, 3000 samples, implicit against counted"
    yield f"{'samples':<24}{'loss':>12}{'loss differs by':>18}{'factors differ by':>20}"
    rng = np.random.default_rng(2)
    for name, missing, sample_weight in [
        ("complete", 0.0, None),
        ("complete, weighted", 0.0, rng.random(3000)),
        ("20 % missing", 0.2, None),
        ("20 % missing, weighted", 0.2, rng.random(3000)),
    ]:
        codes = make_codes(3000, 12, missing)
        same = {"sample_weight": sample_weight, "n_iter_max": 20, "tol": 0.0}
        one, other = (solve(codes, form=form, **same) for form in ("implicit", "counted"))
        loss = np.abs(one.trace.loss - other.trace.loss).max()
        pairs = zip(one.factors.factors, other.factors.factors, strict=True)
        factors = max(np.abs(a - b).max() for a, b in pairs)
        yield f"{name:<24}{one.loss:>12.4f}{loss:>18.1e}{factors:>20.1e}"


# --- (b)


def scaling(options: argparse.Namespace) -> Iterator[str]:
    yield f"\n(b) CPU seconds per sweep, {RANK} components, {N_BINS} bins, median of 6"
    for missing in (0.0, 0.2):
        for name, sizes in {
            "variables": [(10_000, n) for n in (100, 200, 400, 1000)],
            "samples": [(m, 200) for m in (2500, 5000, 10_000, 20_000, 40_000)],
        }.items():
            if missing and name == "samples":
                sizes = sizes[:3]
            seconds = [sweep_seconds(make_codes(*size, missing), 6, form="implicit") for size in sizes]
            counts = [size[1] if name == "variables" else size[0] for size in sizes]
            exponent = np.polyfit(np.log(counts), np.log(seconds), 1)[0]
            fixed = "10 000 samples" if name == "variables" else "200 variables"
            found = "  ".join(f"{n}: {s:.3f}" for n, s in zip(counts, seconds, strict=True))
            kind = f"{missing:.0%} missing" if missing else "complete"
            yield f"{kind:<12}{name:<10}{found}   exponent {exponent:.2f}   ({fixed})"


# --- (c)


def choices(options: argparse.Namespace) -> Iterator[str]:
    yield f"\n(c) CPU milliseconds per sweep, {RANK} components, {N_BINS} bins"
    yield f"{'variables':>9}{'samples':>9}{'missing':>9}{'counted':>10}{'implicit':>10}  taken"
    for n_variables, n_samples, missing in [
        (5, 5000, 0.0),
        (10, 1000, 0.0),
        (10, 5000, 0.0),
        (10, 20_000, 0.0),
        (15, 10_000, 0.0),
        (20, 10_000, 0.0),
        (10, 5000, 0.2),
        (15, 10_000, 0.2),
        (20, 10_000, 0.2),
    ]:
        codes = make_codes(n_samples, n_variables, missing)
        found = [1e3 * sweep_seconds(codes, 8, form=form) for form in ("counted", "implicit")]
        taken = as_problem(codes, rank=RANK, loss="frobenius").form
        yield f"{n_variables:>9}{n_samples:>9}{missing:>9.0%}{found[0]:>10.1f}{found[1]:>10.1f}  {taken}"


# --- (d)


def large(options: argparse.Namespace) -> Iterator[str]:
    """Part (d), in a process that has never seen the data before they were codes."""
    size = f"{options.variables} variables, {options.samples} samples, {options.missing:.0%} missing"
    yield f"\n(d) {size}, {N_BINS} bins, {RANK} components"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "codes.npy"
        np.save(path, make_codes(options.samples, options.variables, options.missing).values)
        command = [sys.executable, __file__, "--large", str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            yield from (line.rstrip("\n") for line in process.stdout)


def run_large(path: Path) -> None:
    codes = smp.Codes(np.load(path), smp.Binning.from_n_bins([N_BINS] * np.load(path, mmap_mode="r").shape[1]))
    print(f"{peak_megabytes():.0f} MB peak before, {codes.values.nbytes / 1e6:.0f} MB of codes")
    began = time.process_time()
    smp.gevd_start(codes, RANK, random_state=0)
    print(f"one algebraic start: {time.process_time() - began:.1f} CPU s, peak {peak_megabytes():.0f} MB", flush=True)
    for n_init, n_screen in RUNS:
        times: list[float] = []
        began, wall = time.process_time(), time.perf_counter()
        solution = solve(
            codes,
            init="gevd",
            n_init=n_init,
            options=smp.SolverOptions(n_screen=n_screen),
            callback=lambda *_, times=times: times.append(time.process_time()),
        )
        total, wall = time.process_time() - began, time.perf_counter() - wall
        seconds = np.diff(times)
        print(
            f"n_init={n_init}, n_screen={n_screen}: {total:.1f} CPU s, {wall:.1f} s in all; before the first sweep "
            f"{times[0] - began:.1f}, then {len(seconds)} sweeps of {np.median(seconds):.2f}; best start "
            f"{solution.trace.n_sweeps} sweeps, {solution.status.name.lower()}, loss {solution.loss:.4f}; peak "
            f"{peak_megabytes():.0f} MB",
            flush=True,
        )


def peak_megabytes() -> float:
    """Most memory that this process has held."""
    status = Path("/proc/self/status")
    if status.exists():  # the other figure begins with that of the parent process
        return int(status.read_text(encoding="utf-8").split("VmHWM:")[1].split()[0]) / 1e3
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3


if __name__ == "__main__":
    main()
