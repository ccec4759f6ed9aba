"""The synthetic experiments of the paper as printed, beside the methods that users would pick instead.

Ten variables, R = 5 and 10 components, M = 1000 to 10 000 samples, the four cases, ten random mixtures each. Every fit
is judged on 2000 new samples of the truth: KL(true || learned), with its standard error, and clustering accuracy beside
the true model's. All methods see the same samples, all M the same mixture and the same new samples.

    make bench-paper [BENCH_ARGS="--quick --jobs 2"]
    python benchmarks/paper.py [--quick] [--cases gaussian laplace] [--ranks 5] [--samples 1000 5000] [--truths 3]
                               [--methods "ours" "GMM diag"] [--jobs 2] [--redo] [--output output/paper]
    python benchmarks/paper.py --report       tables and figures of the fits that are there, no new ones

Writes fits.csv (one row per fit, appended as each cell is done: a run that was stopped goes on where it was),
fits.nc (the same by case, rank, samples, truth and method), summary.csv, summary.txt and the figures. Fits of another
version of the library are not recognized as such: `--redo` makes the selected ones anew, as does deleting fits.csv.

"mass error" is the largest deviation from one, over the variables, of the numerical integral of the learned density:
the densities of all methods are compared as densities. Seconds are those of the fit, on one thread.

Reference: N. Kargas, N. D. Sidiropoulos, AISTATS 2019, section 5.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import fit_table
import joblib
import numpy as np
import pandas as pd
import paper_figures
import paper_tables
import peers
from threadpoolctl import threadpool_limits

import tensorly_smp as smp

# ---- what is compared ----

PAPER_FORM = dict(refine=None, init="gevd", n_init=5, n_bins=15, density="sinc")
OURS: dict[str, dict[str, Any]] = {
    "ours": {},
    "ours, EM": dict(refine="em"),
    "ours, paper form (KL)": dict(loss="kl", **PAPER_FORM),
    "ours, paper form (Frobenius)": dict(loss="frobenius", **PAPER_FORM),
}
PEERS = ("GMM diag", "GMM full", "k-means", "EM Laplace", "npEM", "npMSL")
TRUE_MODEL = "true model"
METHODS = (*OURS, *PEERS, TRUE_MODEL)

CASES = ("gaussian", "gmm", "gamma", "laplace")
RANKS = (5, 10)
SAMPLES = (1000, 2000, 3000, 5000, 7000, 10_000)
QUICK_SAMPLES, QUICK_TRUTHS, TRUTHS = (1000, 5000, 10_000), 2, 10
N_VARIABLES, N_NEW = 10, 2000
NOT_INSTALLED = "not installed"
KEYS = ["case", "rank", "samples", "truth", "method"]
FIGURES = ["kl", "kl_se", "accuracy", "true_accuracy", "seconds", "mass_error"]


class Cell(NamedTuple):
    """One training set, and the methods that are still to be fitted to it."""

    case: str
    rank: int
    samples: int
    truth: int
    methods: tuple[str, ...]


def applies(method: str, case: str, samples: int) -> bool:
    """The Laplace mixture in its own case, and R's kernel mixtures, whose cost grows with M^2, at the least M."""
    if method == "EM Laplace":
        return case == "laplace"
    return samples == 1000 or method not in ("npEM", "npMSL")


# ---- fits ----


def fit_cell(cell: Cell) -> list[dict[str, Any]]:
    """One row per method. One thread, so that seconds mean the same for all methods and numbers of jobs."""
    with threadpool_limits(1):
        X, _, truth = smp.datasets.make_smooth_mixture(
            cell.case, cell.samples, N_VARIABLES, cell.rank, random_state=cell.truth
        )
        new, labels = truth.sample(N_NEW, random_state=1000 + cell.truth)
        right = fit_table.percent_right(labels, truth.predict(new))
        base = dict(zip(KEYS, cell, strict=False)) | {"true_accuracy": right}
        return [base | {"method": method} | judge(method, cell, X, new, labels, truth) for method in cell.methods]


def judge(
    method: str, cell: Cell, X: np.ndarray, new: np.ndarray, labels: np.ndarray, truth: smp.datasets.TrueMixture
) -> dict[str, Any]:
    """Status and figures of one fit; a method that fails gets a row that says so, and the others go on."""
    if method == TRUE_MODEL:
        right = fit_table.percent_right(labels, truth.predict(new))
        return {"status": "ok", "kl": 0.0, "kl_se": 0.0, "accuracy": right, "seconds": 0.0, "mass_error": 0.0}
    row: dict[str, Any] = {}
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            # Not the seed of the truth: starts would be drawn from the very stream that the mixture was.
            model = fit(method, X, cell.rank, seed=500 + cell.truth)
            row["seconds"] = time.perf_counter() - start
            row["accuracy"] = fit_table.percent_right(labels, model.predict(new))
            if method != "k-means":
                row["mass_error"] = float(np.abs(peers.marginal_masses(model, X) - 1.0).max())
                row["kl"], row["kl_se"], _ = smp.metrics.kl_divergence_mc(truth, model, X=new)
            row["status"] = "ok"
        except peers.NotInstalledError:
            row["status"] = NOT_INSTALLED
        except Exception as error:
            row["status"] = f"failed: {type(error).__name__}: {error}"
    row["warnings"] = " ".join(sorted({warning.category.__name__ for warning in caught}))
    return row


def fit(method: str, X: np.ndarray, rank: int, seed: int) -> Any:
    if method in OURS:
        return smp.SmoothProductMixture(rank, random_state=seed, **OURS[method]).fit(X)
    return peers.fit_peer(method, X, rank, seed)


# ---- what is there already, and what is to do ----


def cells_to_do(options: argparse.Namespace, done: pd.DataFrame) -> Iterator[Cell]:
    """Truth after truth, so that a run that is stopped has all cells with fewer truths."""
    if peers.has_mixtools():
        done = done[done["status"] != NOT_INSTALLED]
    finished = set() if options.redo else set(done[KEYS].itertuples(index=False, name=None))
    for truth in range(options.truths):
        for samples in options.samples:
            for rank in options.ranks:
                for case in options.cases:
                    wanted = [method for method in options.methods if applies(method, case, samples)]
                    methods = tuple(m for m in wanted if (case, rank, samples, truth, m) not in finished)
                    if methods:
                        yield Cell(case, rank, samples, truth, methods)


def run(options: argparse.Namespace, path: Path) -> None:
    cells = list(cells_to_do(options, fit_table.read_fits(path, KEYS, FIGURES)))
    start = time.perf_counter()
    parallel = joblib.Parallel(n_jobs=options.jobs, return_as="generator_unordered")
    for number, rows in enumerate(parallel(joblib.delayed(fit_cell)(cell) for cell in cells), 1):
        fit_table.append_fits(rows, path, KEYS, FIGURES)
        minutes = (time.perf_counter() - start) / 60.0
        print(f"[{number}/{len(cells)}, {minutes:.1f} min] {progress(rows)}", flush=True)


def progress(rows: list[dict[str, Any]]) -> str:
    first = rows[0]
    parts = []
    for row in rows:
        if row["status"] == NOT_INSTALLED:
            continue
        if row["status"] != "ok":
            parts.append(f"{row['method']} {row['status']}")
        elif row["method"] != TRUE_MODEL:
            figure = f"KL {row['kl']:.3f}" if "kl" in row else f"{row['accuracy']:.1f} %"
            parts.append(f"{row['method']} {figure} {row['seconds']:.1f} s")
    return f"{first['case']} R={first['rank']} M={first['samples']} truth {first['truth']}: " + "; ".join(parts)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two truths, M = 1000, 5000 and 10 000")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--ranks", nargs="+", type=int, default=list(RANKS))
    parser.add_argument("--samples", nargs="+", type=int, help=f"default {' '.join(map(str, SAMPLES))}")
    parser.add_argument("--truths", type=int, help=f"random mixtures per case, default {TRUTHS}")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time, each on one thread (default 1)")
    parser.add_argument("--redo", action="store_true", help="fit the selection again, even what fits.csv has")
    parser.add_argument("--report", action="store_true", help="no fits: tables and figures of those that are there")
    parser.add_argument("--output", type=Path, default=Path("output/paper"))
    options = parser.parse_args(arguments)
    options.samples = options.samples or list(QUICK_SAMPLES if options.quick else SAMPLES)
    options.truths = options.truths or (QUICK_TRUTHS if options.quick else TRUTHS)
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "fits.csv"
    if not options.report:
        run(options, path)
    fits = fit_table.read_fits(path, KEYS, FIGURES)
    order = {"method": METHODS, "case": CASES}
    paper_tables.write(fits, order, list(OURS), options.output)
    paper_figures.draw(fits, order, options.output)


if __name__ == "__main__":
    main()
