"""Speed of `coupled_simplex_parafac`, one start, on the four synthetic cases of the paper.

Ten variables, ten components, 15 bins, 10 000 samples, all 120 triples, tolerance 1e-6. First the default solvers of
both losses from the algebraic start (the default) and from a random one, medians over some truths, beside one
GaussianMixture(diag, n_init=5) fit for scale. Then, on the first truth and all from the same random start, what they
are to be compared with: no extrapolation, at most 200 sweeps, and ten sweeps of the paper's exponentiated gradient.

    OMP_NUM_THREADS=1 python benchmarks/bench_solver.py [--seeds 3] [--cases gaussian ...] [--output output]

Besides the seconds that pass, the processor's seconds are printed, which other programs disturb less: the solver uses
one BLAS thread, and OMP_NUM_THREADS=1 holds scikit-learn to one too. Takes about two minutes on a quiet machine.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.mixture import GaussianMixture

import tensorly_smp as smp

N_SAMPLES, N_VARIABLES, RANK, N_BINS, TOL = 10_000, 10, 10, 15, 1e-6
CASES = ("gaussian", "gmm", "gamma", "laplace")
RANDOM_STARTS: dict[str, dict[str, Any]] = {
    "KL, random start": {"loss": "kl", "init": "random"},
    "Frobenius, random start": {"loss": "frobenius", "init": "random"},
}
DEFAULTS = {"KL": {"loss": "kl"}, "Frobenius": {"loss": "frobenius"}} | RANDOM_STARTS
PLAIN = smp.SolverOptions(extrapolate=False)
REFERENCES: dict[str, dict[str, Any]] = {
    "KL, not extrapolated": {"loss": "kl", "options": PLAIN, "n_iter_max": 200},
    "KL, mirror": {"loss": "kl", "options": smp.SolverOptions(solver="mirror"), "n_iter_max": 10},
    "Frobenius, not extrapolated": {
        "loss": "frobenius",
        "options": PLAIN,
        "n_iter_max": 200,
    },
    "Frobenius, mirror": {"loss": "frobenius", "options": smp.SolverOptions(solver="mirror"), "n_iter_max": 10},
}
COLUMNS = ["case", "solver", "seconds", "CPU s", "sweeps", "sweeps/CPU s", "final loss"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, help="truths, each with its start, per case (default 3)")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--output", type=Path, default=Path("output"), help="folder for the tables")
    options = parser.parse_args()
    defaults, references = [], []
    for case in options.cases:
        for seed in range(options.seeds):
            rows = default_rows(case, seed)
            defaults += rows
            if seed == 0:
                references += [row for row in rows if row[1] in RANDOM_STARTS]
                same_start = {name: settings | {"init": "random"} for name, settings in REFERENCES.items()}
                references += solver_rows(case, seed, same_start)
    report(pd.DataFrame(defaults, columns=COLUMNS), pd.DataFrame(references, columns=COLUMNS), options)


def default_rows(case: str, seed: int) -> list[tuple[str | float, ...]]:
    """The solvers that are the default, and scikit-learn's mixture of as many Gaussians."""
    X, *_ = smp.datasets.make_smooth_mixture(case, N_SAMPLES, N_VARIABLES, RANK, random_state=seed)
    mixture = GaussianMixture(RANK, covariance_type="diag", n_init=5, max_iter=500, random_state=seed)
    fitted, seconds, cpu = timed(lambda: mixture.fit(X))
    row = (case, "GaussianMixture, 5 starts", seconds, cpu, fitted.n_iter_, np.nan, np.nan)
    return [*solver_rows(case, seed, DEFAULTS), row]


def solver_rows(case: str, seed: int, solvers: dict[str, dict[str, Any]]) -> list[tuple[str | float, ...]]:
    X, *_ = smp.datasets.make_smooth_mixture(case, N_SAMPLES, N_VARIABLES, RANK, random_state=seed)
    marginals = smp.count_marginals(smp.encode_samples(X, smp.choose_binning(X, N_BINS)))
    rows: list[tuple[str | float, ...]] = []
    for name, settings in solvers.items():
        solution, seconds, cpu = timed(lambda settings=settings: factorize(marginals, settings, seed))
        n_sweeps = solution.trace.n_sweeps
        rows.append((case, name, seconds, cpu, n_sweeps, n_sweeps / cpu, solution.trace.loss[-1]))
    return rows


def factorize(marginals: smp.Marginals, settings: dict[str, Any], seed: int) -> smp.CoupledSolution:
    with warnings.catch_warnings():
        # The references are cut short on purpose; a start that leaves a component empty is timed like any other.
        warnings.simplefilter("ignore", smp.exceptions.ConvergenceWarning)
        warnings.simplefilter("ignore", smp.exceptions.EmptyComponentWarning)
        return smp.coupled_simplex_parafac(marginals, RANK, tol=TOL, random_state=seed, **settings)


def timed(function: Callable[[], Any]) -> tuple[Any, float, float]:
    """Result, seconds passed, seconds of the processor."""
    start, start_cpu = time.perf_counter(), time.process_time()
    result = function()
    return result, time.perf_counter() - start, time.process_time() - start_cpu


def report(defaults: pd.DataFrame, references: pd.DataFrame, options: argparse.Namespace) -> None:
    medians = defaults.groupby(["case", "solver"], sort=False).median().reset_index()
    tables = {
        f"default solvers, medians over {options.seeds} truth(s) and start(s)": medians,
        "all solvers, first truth, same random start": references,
    }
    lines = [
        f"{N_VARIABLES} variables, {RANK} components, {N_SAMPLES} samples, {N_BINS} bins, 120 triples, tol {TOL:g}"
    ]
    for caption, table in tables.items():
        lines += ["", caption, table.to_string(index=False, float_format="{:.4g}".format, na_rep="-")]
    print("\n".join(lines))
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "solver.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    pd.concat([medians, references], keys=["default", "first truth"]).to_csv(options.output / "solver.csv")


if __name__ == "__main__":
    main()
