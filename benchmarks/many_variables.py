"""All triples without histograms: agreement with counted ones, time of a sweep, and a thousand variables.

    OMP_NUM_THREADS=1 python benchmarks/many_variables.py agreement   20 sweeps, implicit and counted, same start
    OMP_NUM_THREADS=1 python benchmarks/many_variables.py sweeps      seconds by numbers of variables and samples
    OMP_NUM_THREADS=1 python benchmarks/many_variables.py forms       which form is faster, and which one is taken
    OMP_NUM_THREADS=1 python benchmarks/many_variables.py start       the algebraic start of 1000 variables, 8 bins
    OMP_NUM_THREADS=1 python benchmarks/many_variables.py fits        default fits up to 1000 variables, exponents

Seconds are of the processor. `--scale 0.1` takes a tenth of the samples and variables.
"""

from __future__ import annotations

import argparse
import warnings
from time import process_time
from typing import Any

import numpy as np
from common import largest_difference, options_of, peak_megabytes, percent_right, processor_time

import tensorly_smp as smp
from tensorly_smp.decomposition.problem import as_problem
from tensorly_smp.decomposition.solver import coupled_simplex_parafac

RANK = 10


def make_codes(n_samples: int, n_variables: int, missing: float = 0.0) -> smp.Codes:
    X = smp.datasets.make_smooth_mixture("gaussian", n_samples, n_variables, RANK, random_state=0).X
    codes = smp.encode_samples(X, smp.choose_binning(X, 15))
    hidden = np.random.default_rng(1).random(codes.values.shape) < missing
    return smp.Codes(np.where(hidden, -1, codes.values), codes.binning)


def solve(codes: Any, form: str, sample_weight: Any = None, **options: Any) -> smp.CoupledSolution:
    problem = as_problem(codes, rank=RANK, loss="frobenius", form=form, sample_weight=sample_weight)
    return coupled_simplex_parafac(problem, RANK, init="random", random_state=0, tol=0.0, **options)


def sweep_seconds(codes: smp.Codes, n_sweeps: int, form: str) -> float:
    """Median seconds of a sweep."""
    times: list[float] = []
    solve(codes, form, n_iter_max=n_sweeps, callback=lambda *_: times.append(process_time()))
    return float(np.median(np.diff(times)))


def exponent(sizes: list[int], seconds: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def agreement(options: argparse.Namespace) -> None:
    print(f"{'samples':<24}{'loss':>12}{'loss differs by':>18}{'factors differ by':>20}")
    weights = np.random.default_rng(2).random((2, 3000))
    for name, missing, sample_weight in [
        ("complete", 0.0, None),
        ("complete, weighted", 0.0, weights[0]),
        ("20 % missing", 0.2, None),
        ("20 % missing, weighted", 0.2, weights[1]),
    ]:
        codes = make_codes(3000, 12, missing)
        one, other = (solve(codes, form, sample_weight, n_iter_max=20) for form in ("implicit", "counted"))
        loss = np.abs(one.trace.loss - other.trace.loss).max()
        print(f"{name:<24}{one.loss:>12.4f}{loss:>18.1e}{largest_difference(one.factors, other.factors):>20.1e}")


def sweeps(options: argparse.Namespace) -> None:
    for missing in (0.0, 0.2):
        for name, sizes in {
            "variables, 10 000 samples": [(10_000, n) for n in (100, 200, 400, 1000)],
            "samples, 200 variables": [(m, 200) for m in (2500, 5000, 10_000, *(() if missing else (20_000, 40_000)))],
        }.items():
            sizes = [(int(options.scale * m), int(options.scale * n)) for m, n in sizes]
            seconds = [sweep_seconds(make_codes(*size, missing), 6, "implicit") for size in sizes]
            grown = [size[name.startswith("variables")] for size in sizes]
            shown = "  ".join(f"{n}: {s:.3f}" for n, s in zip(grown, seconds, strict=True))
            print(f"{missing:.0%} missing, {name}: {shown}, exponent {exponent(grown, seconds):.2f}", flush=True)


def forms(options: argparse.Namespace) -> None:
    print(f"{'variables':>9}{'samples':>9}{'missing':>9}{'counted':>10}{'implicit':>10}  taken   (milliseconds)")
    complete = [(5, 5000), (10, 1000), (10, 5000), (10, 20_000), (15, 10_000), (20, 10_000)]
    for n_variables, n_samples, missing in [
        *((*size, 0.0) for size in complete),
        *((10, 5000, 0.2), (15, 10_000, 0.2), (20, 10_000, 0.2)),
    ]:
        codes = make_codes(int(options.scale * n_samples), n_variables, missing)
        seconds = [1e3 * sweep_seconds(codes, 8, form) for form in ("counted", "implicit")]
        taken = as_problem(codes, rank=RANK, loss="frobenius").form
        print(
            f"{n_variables:>9}{n_samples:>9}{missing:>9.0%}{seconds[0]:>10.1f}{seconds[1]:>10.1f}  {taken}", flush=True
        )


def start(options: argparse.Namespace) -> None:
    """The limits are a minute and 1 GB for the whole process."""
    for kind in ("gaussian", "laplace"):
        size = int(options.scale * 10_000), int(options.scale * 1000), RANK
        X, labels, _ = smp.datasets.make_smooth_mixture(kind, *size, random_state=0)
        codes = smp.encode_samples(X, smp.choose_binning(X, 8))
        before = peak_megabytes()
        factors, seconds = processor_time(lambda codes=codes: smp.gevd_start(codes, RANK, random_state=0))
        right = percent_right(labels, factors.posterior(codes).argmax(axis=1))
        print(
            f"{kind}: {seconds:.1f} s, peak {before:.0f} MB before, {peak_megabytes():.0f} after, {right:.1f} % right"
        )


def fits(options: argparse.Namespace) -> None:
    for name, place, sizes in (
        ("variables", 1, [(10_000, n) for n in (125, 250, 500, 1000)]),
        ("samples", 0, [(m, 200) for m in (5000, 10_000, 20_000, 40_000)]),
    ):
        seconds, grown = [], []
        for size in sizes:
            size = int(options.scale * size[0]), int(options.scale * size[1])
            X, _, truth = smp.datasets.make_smooth_mixture(options.kind, *size, RANK, random_state=0)
            new, labels = truth.sample(1000, random_state=1)
            fit = smp.SmoothProductMixture(RANK, random_state=0).fit
            model, taken = processor_time(lambda X=X, fit=fit: fit(X))
            seconds.append(taken)
            grown.append(size[place])
            print(f"{options.kind}, {size[0]} x {size[1]}: {taken:.1f} s, {model.result_.attrs['n_passes']} passes, "
                  f"{percent_right(labels, model.predict(new)):.1f} % right", flush=True)  # fmt: skip
        print(f"seconds grow with the number of {name} to the power {exponent(grown, seconds):.2f}")
        print(f"peak memory of the process {peak_megabytes() / 1e3:.2f} GB")


if __name__ == "__main__":
    warnings.simplefilter("ignore", smp.exceptions.TensorlySmpWarning)  # runs are cut short on purpose
    PARTS = {"agreement": agreement, "sweeps": sweeps, "forms": forms, "start": start, "fits": fits}
    options = options_of(__doc__, words=PARTS, kind="gaussian", scale=1.0)
    PARTS[options.part](options)
