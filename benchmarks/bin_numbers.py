"""Number of bins: the rule of codes/bin_number.py beside fixed numbers, on the paper's four cases.

KL(true || learned) of sinc densities (refine=None) on 5000 new points, in nats per sample, and points of clustering
accuracy below the true model; ten variables, all other settings the defaults of SmoothProductMixture. What a choice
loses is what it loses to the best fixed number of bins, which nobody knows beforehand.

    python benchmarks/bin_numbers.py              R = 5, M = 1000 and 5000; a minute
    python benchmarks/bin_numbers.py --smooth     with refine="smooth", which hardly depends on the number of bins
    python benchmarks/bin_numbers.py --full       R = 2, 5, 10, M = 200, 1000, 5000, 50 000; half an hour
    python benchmarks/bin_numbers.py --posterior  the same from the true posteriors, without fits, more bins; a minute
    python benchmarks/bin_numbers.py --shares     KL from exact bin probabilities by the share of the spectrum that is
                                                  lost: behind SHARE_THRESHOLD of codes/spectrum.py; seconds

Writes the rows to output/bin_numbers*.csv.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import tensorly_smp as smp
from tensorly_smp.codes.bin_number import auto_n_bins
from tensorly_smp.codes.binning import choose_binning
from tensorly_smp.densities.band_limited import sinc_conditionals

KINDS = ("gaussian", "gmm", "gamma", "laplace")
N_VARIABLES, N_NEW = 10, 5000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--smooth", action="store_true")
    parser.add_argument("--posterior", action="store_true")
    parser.add_argument("--shares", action="store_true")
    parser.add_argument("--truths", type=int, default=1, help="random mixtures per case (default 1)")
    parser.add_argument("--output", type=Path, default=Path("output"), help="folder for the tables")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    if options.shares:
        shares(options)
    elif options.posterior:
        from_posteriors(options)
    else:
        from_fits(options)


# ---- fits ----


def from_fits(options: argparse.Namespace) -> None:
    grid = (5, 8, 10, 12, 15, 20, 25) if options.full else (5, 10, 15, 20)
    ranks, sizes = ((2, 5, 10), (200, 1000, 5000, 50_000)) if options.full else ((5,), (1000, 5000))
    warnings.simplefilter("ignore", smp.exceptions.TensorlySmpWarning)  # few samples in many bins: what is measured
    rows = []
    print(f"KL of {list(grid)} bins, of the rule | points below the true model, the same | bins by the rule")
    for n_samples in sizes:
        for rank in ranks:
            for kind in KINDS:
                for seed in range(options.truths):
                    rows += one_truth(kind, rank, n_samples, seed, grid, "smooth" if options.smooth else None)
                print_line(rows[-(len(grid) + 1) * options.truths :], grid)
    table = pd.DataFrame(rows)
    table.to_csv(options.output / "bin_numbers.csv", index=False)
    losses(table, grid)


def one_truth(kind: str, rank: int, n_samples: int, seed: int, grid: tuple[int, ...], refine: str | None) -> list[dict]:
    X, _, truth = smp.datasets.make_smooth_mixture(kind, n_samples, N_VARIABLES, rank, random_state=seed)
    points, labels = truth.sample(N_NEW, random_state=1000 + seed)
    best = smp.metrics.clustering_accuracy(labels, truth.predict(points))
    rows = []
    for name, n_bins in [*((str(number), number) for number in grid), ("auto", auto_n_bins(X, rank))]:
        model = smp.SmoothProductMixture(rank, n_bins=n_bins, refine=refine, random_state=0).fit(X)
        kl = smp.metrics.kl_divergence_mc(truth, model, X=points).value
        below = 100 * (best - smp.metrics.clustering_accuracy(labels, model.predict(points)))
        where = {"M": n_samples, "R": rank, "case": kind, "truth": seed}
        rows.append({**where, "bins": name, "KL": kl, "below": below, "mean bins": np.mean(n_bins)})
    return rows


def print_line(rows: list[dict], grid: tuple[int, ...]) -> None:
    means = pd.DataFrame(rows).groupby("bins")[["KL", "below", "mean bins"]].mean().loc[[*map(str, grid), "auto"]]
    head = f"M {rows[0]['M']:6d} R {rows[0]['R']:2d} {rows[0]['case']:<9}"
    numbers = " ".join(f"{value:6.3f}" for value in means["KL"])
    below = " ".join(f"{value:5.1f}" for value in means["below"])
    print(f"{head}{numbers} | {below} | {means['mean bins'].iloc[-1]:4.1f}", flush=True)


def losses(table: pd.DataFrame, grid: tuple[int, ...]) -> None:
    """What every choice loses to the best fixed one of the same truth: by number of samples, mean, and worst cell."""
    keys = ["M", "R", "case", "truth"]
    wide = table.pivot_table(index=keys, columns="bins", values="KL")
    loss = wide.sub(wide[[str(number) for number in grid]].min(axis=1), axis=0).groupby(["M", "R", "case"]).mean()
    summary = loss.groupby("M").mean().T
    summary["mean"], summary["worst"] = loss.mean(), loss.max()
    summary["accuracy below"] = table.groupby("bins")["below"].mean()
    order = [*(str(number) for number in grid), *(name for name in summary.index if not name.isdigit())]
    print("\nKL lost to the best fixed number of bins, by number of samples")
    print(summary.loc[order].to_string(float_format="{:.3f}".format))


# ---- without fits ----


def from_posteriors(options: argparse.Namespace) -> None:
    """The best number is that of each variable here, and a density is judged given the component."""
    grid = (4, 5, 6, 7, 8, 10, 12, 15, 18, 20, 25, 30)
    rows = []
    for n_samples in (200, 1000, 5000, 50_000):
        for rank in (2, 5, 10):
            for kind in KINDS:
                for seed in range(options.truths):
                    rows += posterior_rows(kind, rank, n_samples, seed, grid)
    table = pd.DataFrame(rows)
    table.to_csv(options.output / "bin_numbers_posterior.csv", index=False)
    wide = table.pivot_table(index=["M", "R", "case", "truth", "variable"], columns="bins", values="KL")
    loss = N_VARIABLES * wide.sub(wide[[str(number) for number in grid]].min(axis=1), axis=0)
    loss = loss.groupby(["M", "R", "case"]).mean()
    summary = loss.groupby("M").mean().T
    summary["mean"], summary["worst"] = loss.mean(), loss.max()
    order = [*(str(number) for number in grid), "auto"]
    print("KL, sum over ten variables, lost to the best fixed number of each variable, by number of samples")
    print(summary.loc[order].to_string(float_format="{:.3f}".format))


def posterior_rows(kind: str, rank: int, n_samples: int, seed: int, grid: tuple[int, ...]) -> list[dict]:
    X, _, truth = smp.datasets.make_smooth_mixture(kind, n_samples, N_VARIABLES, rank, random_state=seed)
    points, labels = truth.sample(N_NEW, random_state=1000 + seed)
    posterior, chosen = truth.posterior(X), np.arange(N_NEW)
    rows = []
    for n, auto in enumerate(auto_n_bins(X, rank)):
        numbers = {str(number): number for number in grid} | {"auto": auto}
        exact = np.log(truth.pdf_1d(points[:, n], n, "all")[chosen, labels])
        for name, number in numbers.items():
            edges = np.linspace(X[:, n].min(), X[:, n].max(), number + 1)
            codes = np.searchsorted(edges[1:-1], X[:, n], side="right")
            counts = np.stack([np.bincount(codes, column, number) for column in posterior.T], axis=1)
            conditionals, _ = sinc_conditionals(edges, counts / counts.sum(axis=0))
            kl = np.mean(exact - conditionals.logpdf(points[:, n])[chosen, labels])
            where = {"M": n_samples, "R": rank, "case": kind, "truth": seed, "variable": n}
            rows.append({**where, "bins": name, "KL": kl})
    return rows


# ---- shares ----


def shares(options: argparse.Namespace) -> None:
    """KL of one variable's sinc density from exact bin probabilities, by the exact share of the spectrum beyond."""
    rows = []
    for kind in KINDS:
        for seed in range(2 * options.truths):
            X, _, truth = smp.datasets.make_smooth_mixture(kind, 5000, N_VARIABLES, 5, random_state=seed)
            for n in range(N_VARIABLES):
                rows += share_rows(kind, X[:, n], n, truth)
    table = pd.DataFrame(rows)
    table.to_csv(options.output / "bin_numbers_shares.csv", index=False)
    limits = [-1.0, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 1.0]
    for by in ("bins", pd.cut(table["share"], limits)):
        means = table.groupby(["case", by], observed=True)[["share", "KL"]].mean().unstack(0)
        print(means.to_string(float_format="{:.4f}".format, na_rep="-"), "\n")


def share_rows(kind: str, column: np.ndarray, n: int, truth: smp.datasets.TrueMixture) -> list[dict]:
    low, high = column.min(), column.max()
    grid = np.linspace(low - (high - low) / 2, high + (high - low) / 2, 2**15, endpoint=False)
    step = grid[1] - grid[0]
    density, conditional = truth.pdf_1d(grid, n), truth.pdf_1d(grid, n, "all")
    energies = np.abs(np.fft.rfft(density)) ** 2
    frequencies = 2 * np.pi * np.fft.rfftfreq(len(grid), step)
    rows = []
    for n_bins in (5, 6, 8, 10, 12, 15, 20, 25, 30):
        (edges,) = choose_binning(column[:, None], n_bins).edges
        learned, _ = sinc_conditionals(edges, truth.bin_probabilities(edges, n))
        log_ratio = np.log(np.maximum(conditional, 1e-300)) - learned.logpdf(grid)
        limit = np.pi * n_bins / (high - low)
        share = energies[frequencies > limit].sum() / energies.sum()
        kl = (conditional * log_ratio).sum(axis=0) * step @ truth.weights
        rows.append({"case": kind, "bins": n_bins, "share": share, "KL": kl})
    return rows


if __name__ == "__main__":
    main()
