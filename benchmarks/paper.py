"""The synthetic experiments of the paper as printed, beside the methods that users would pick instead.

Ten variables, R = 5 and 10 components, M = 1000 to 10 000 samples, the four cases, ten random mixtures each. Every fit
is judged on new samples of the truth: KL(true || learned), with its standard error, and clustering accuracy. All
methods see the same samples, all M the same mixture and the same new samples.

    make bench-paper [BENCH_ARGS="--quick --jobs 2"]
    python benchmarks/paper.py [--quick] [--cases gaussian laplace] [--ranks 5] [--samples 1000 5000] [--truths 3]
                               [--methods "ours" "GMM diag"] [--missing 0 0.3] [--jobs 2] [--redo] [--report]
    python benchmarks/paper.py --ranks 5 --samples 5000 --truths 1 --new 10000 --missing 0 0.1 0.3 0.5
                               --methods ours least iterative nearest mean "true model"
    python benchmarks/paper.py --ranks 5 --samples 5000 --truths 5 --new 10000 --missing 0 0.3
                               --methods "ours, refine=None" "GMM diag" "true model"

The second command removes entries of the samples at random and prints root mean square errors of their imputation, in
standard deviations of the variables; "least" is the conditional mean under the true mixture, which no imputation beats
on average. "holed" is the accuracy on new samples with as many entries missing. The third is the paper's algorithm.

Writes fits.csv in --output, by default output/paper (one row per fit, appended: a run that was stopped goes on where it
was; `--redo` fits anew, `--report` fits nothing), summary.csv, summary.txt and figures. "mass error" is the largest
deviation from one, over the variables, of the numerical integral of the learned density. Seconds are those of the fit,
on one thread.

Reference: N. Kargas, N. D. Sidiropoulos, AISTATS 2019, section 5.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import peers
from common import KINDS, fit_all, options_of, percent_right, read_fits, trouble_lines
from sklearn.experimental import enable_iterative_imputer  # noqa: F401 (makes IterativeImputer importable)
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

import tensorly_smp as smp

# ---- what is compared ----

PAPER_FORM = dict(refine=None, init="gevd", n_init=5, n_bins=15, density="sinc")
OURS: dict[str, dict[str, Any]] = {
    "ours": {},
    "ours, EM": dict(refine="em"),
    "ours, paper form (KL)": dict(loss="kl", **PAPER_FORM),
    "ours, paper form (Frobenius)": dict(loss="frobenius", **PAPER_FORM),
    "ours, refine=None": dict(refine=None, n_bins=15),
}
PEERS = ("GMM diag", "GMM full", "k-means", "EM Laplace", "npEM", "npMSL")
IMPUTERS = {
    "iterative": lambda: IterativeImputer(random_state=0),
    "nearest": lambda: KNNImputer(n_neighbors=5),
    "mean": SimpleImputer,
}
TRUE_MODEL = "true model"
METHODS = (*OURS, *PEERS, "least", *IMPUTERS, TRUE_MODEL)
KEYS = ["case", "rank", "samples", "missing", "truth", "new", "method"]
FIGURES = ["kl", "kl_se", "accuracy", "holed", "below", "rmse", "seconds", "mass_error"]
TABLES = {
    "kl": "KL(true || learned) in nats",
    "below": "points of accuracy below the true model",
    "accuracy": "accuracy in percent on new samples",
    "holed": "accuracy in percent on new samples with as many entries missing",
    "rmse": "imputation, root mean square error in standard deviations",
    "seconds": "seconds a fit, one thread (medians)",
}


def applies(method: str, case: str, samples: int, missing: float) -> bool:
    """The Laplace mixture in its own case, and R's kernel mixtures, whose cost grows with M^2, at the least M."""
    if method in ("least", *IMPUTERS):
        return missing > 0
    if missing and method in PEERS:
        return False
    return case == "laplace" if method == "EM Laplace" else samples == 1000 or method not in ("npEM", "npMSL")


# ---- fits ----


def fit(method: str, X: np.ndarray, rank: int, seed: int) -> Any:
    if method in OURS:
        return smp.SmoothProductMixture(rank, random_state=seed, **OURS[method]).fit(X)
    return peers.fit_peer(method, X, rank, seed)


def judge(case: str, rank: int, samples: int, missing: float, truth: int, n_new: int, method: str) -> dict[str, float]:
    """Figures of one fit."""
    whole, _, mixture = smp.datasets.make_smooth_mixture(case, samples, 10, rank, random_state=truth)
    # The same seed gives the same values; some of them are removed.
    X = smp.datasets.make_smooth_mixture(case, samples, 10, rank, missing=missing, random_state=truth).X
    new, labels = mixture.sample(n_new, random_state=1000 + truth)
    began = time.perf_counter()
    if method in ("least", *IMPUTERS):
        filled = conditional_mean(mixture, X) if method == "least" else IMPUTERS[method]().fit_transform(X)
        return {"rmse": scaled_error(filled, whole, np.isnan(X)), "seconds": time.perf_counter() - began}
    # Not the seed of the truth: starts would be drawn from the very stream that the mixture was.
    model = mixture if method == TRUE_MODEL else fit(method, X, rank, 500 + truth)
    row = {"seconds": time.perf_counter() - began, "accuracy": percent_right(labels, model.predict(new))}
    row["below"] = percent_right(labels, mixture.predict(new)) - row["accuracy"]
    if missing:
        holed = np.where(np.random.default_rng(3000 + truth).random(new.shape) < missing, np.nan, new)
        row["holed"] = percent_right(labels, model.predict(holed))
    if method not in ("k-means", TRUE_MODEL):
        row["mass_error"] = float(np.abs(peers.marginal_masses(model, whole) - 1.0).max())
        row["kl"], row["kl_se"], _ = smp.metrics.kl_divergence_mc(mixture, model, X=new)
    if missing and method in OURS:
        row["rmse"] = scaled_error(model.impute(X), whole, np.isnan(X))
    return row


def conditional_mean(truth: smp.datasets.TrueMixture, X: np.ndarray) -> np.ndarray:
    """X with its holes filled by their expectation given the observed entries of the sample."""
    means = (truth.loc + truth.scale * truth.standard.mean()).mean(axis=2)  # (n_variables, rank)
    return np.where(np.isnan(X), truth.posterior(X) @ means.T, X)


def scaled_error(filled: np.ndarray, whole: np.ndarray, holes: np.ndarray) -> float:
    """Root mean square error of the holes, in standard deviations of their variables."""
    return float(np.sqrt((((filled - whole) / whole.std(axis=0))[holes] ** 2).mean()))


# ---- tables ----


def summarize(fits: pd.DataFrame) -> pd.DataFrame:
    """Means over the truths of the fits that succeeded; kl_se is the Monte Carlo error of the mean KL."""
    grouped = fits[fits["status"] == "ok"].groupby(["case", "rank", "samples", "missing", "method"])
    table = grouped[["kl", "accuracy", "holed", "below", "rmse"]].mean()
    table["kl_se"] = np.sqrt(grouped["kl_se"].agg(lambda errors: np.square(errors).sum())) / grouped.size()
    table["seconds"], table["mass_error"] = grouped["seconds"].median(), grouped["mass_error"].max()
    table["truths"] = grouped.size()
    return table.reset_index()


def against(fits: pd.DataFrame, ours: str, peer: str) -> Iterator[str]:
    """KL, or accuracy where the peer has no density, on the truths that both were fitted to."""
    column = "below" if peer == "k-means" else "kl"
    good = fits[fits["status"] == "ok"]
    wide = good.pivot(index=["case", "rank", "samples", "missing", "truth", "new"], columns="method", values=column)
    if ours not in wide or peer not in wide:
        return
    for cell, both in wide[[ours, peer]].dropna().groupby(["case", "rank", "samples", "missing"]):
        (mean, other), better = both.mean(), (both[ours] < both[peer]).sum()
        word = "ties" if mean == other else "beats" if mean < other else "LOSES"
        name = f"{ours}, {column} against {peer}, {' '.join(map(str, cell))}"
        yield f"{name}: {mean:.3f} {other:.3f} {word} {better}/{len(both)}"


def report(fits: pd.DataFrame, folder: Path) -> None:
    """Print and write everything; the first of ours that was fitted is the one that is compared."""
    summary = summarize(fits)
    parts = []
    for column, title in TABLES.items():
        index = ["case", "rank", "samples", "missing"]
        wide = summary.dropna(subset=[column]).pivot(index=index, columns="method", values=column)
        if len(wide):
            shown = wide[[name for name in METHODS if name in wide]].reset_index()
            parts.append(f"{title}\n{shown.to_string(index=False, float_format='{:.3f}'.format, na_rep='-')}")
    judged = next((name for name in OURS if name in set(fits["method"])), "")
    parts.append("\n".join(line for peer in (*OURS, *PEERS) if peer != judged for line in against(fits, judged, peer)))
    worst = fits.groupby("method")["mass_error"].max().dropna()
    parts.append("largest mass error: " + ", ".join(f"{name} {value:.0e}" for name, value in worst.items()))
    parts.append("\n".join(trouble_lines(fits)))
    text = "\n\n".join(parts)
    print(text)
    (folder / "summary.txt").write_text(text + "\n", encoding="utf-8")
    summary.to_csv(folder / "summary.csv", index=False)


# ---- the paper's figures 3 to 10 ----


def draw(fits: pd.DataFrame, folder: Path) -> None:
    """Two figures per case, KL and accuracy, with a panel per number of components."""
    complete = fits[(fits["status"] == "ok") & (fits["missing"] == 0)]
    for number, (column, case) in enumerate([(column, case) for column in ("kl", "accuracy") for case in KINDS], 3):
        rows = complete[(complete["case"] == case) & complete[column].notna()]
        if len(rows):
            figure = drawn_case(rows, column)
            figure.suptitle(f"{case}: means, bars from the least to the largest")
            figure.savefig(folder / f"fig{number:02d}_{column}_{case}.png", dpi=130)
            plt.close(figure)


def drawn_case(rows: pd.DataFrame, column: str) -> Any:
    """Means over the truths against M; bars reach from the least to the largest of the truths."""
    ranks = sorted(rows["rank"].unique())
    figure, panels = plt.subplots(
        1, len(ranks), figsize=(5.2 * len(ranks) + 0.4, 4.6), sharey=True, squeeze=False, layout="constrained"
    )
    methods = [method for method in METHODS if method in set(rows["method"])]
    for panel, rank in zip(panels[0], ranks, strict=True):
        for place, method in enumerate(methods):
            values = rows[(rows["rank"] == rank) & (rows["method"] == method)].groupby("samples")[column]
            # Shifted a little, so that bars do not hide each other.
            x = values.mean().index * 1.012 ** (place - 0.5 * (len(methods) - 1))
            (line,) = panel.plot(x, values.mean(), marker="osv^DdPX<>*"[place % 11], label=method)
            panel.vlines(x, values.min(), values.max(), color=line.get_color(), linewidth=1.0, alpha=0.6)
        panel.set(xscale="log", title=f"{rank} components", xlabel="samples M")
        panel.grid(axis="y", color="0.9")
    label = {"kl": "KL(true || learned), nats per sample", "accuracy": "clustering accuracy, %"}[column]
    panels[0, 0].set(yscale="log" if column == "kl" else "linear", ylabel=label)
    figure.legend(*panels[0, -1].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return figure


def tasks(options: argparse.Namespace) -> Iterator[tuple]:
    """Truth after truth, so that a run that is stopped has all cells with fewer truths."""
    for truth in range(options.truths or (2 if options.quick else 10)):
        for samples in options.samples:
            for rank in options.ranks:
                for case in options.cases:
                    for missing in options.missing:
                        for method in options.methods:
                            if applies(method, case, samples, missing):
                                yield case, rank, samples, missing, truth, options.new, method


def main(arguments: Sequence[str] | None = None) -> None:
    methods = ("ours", "ours, EM", "ours, paper form (KL)", "ours, paper form (Frobenius)", *PEERS, TRUE_MODEL)
    options = options_of(__doc__, arguments, quick=False, cases=KINDS, ranks=(5, 10), samples=(0,), truths=0, new=2000,
                         missing=(0.0,), methods=methods, jobs=1, redo=False, report=False,
                         output="output/paper")  # fmt: skip
    options.samples = [size for size in options.samples if size]
    options.samples = options.samples or [1000, 5000, 10_000] + ([] if options.quick else [2000, 3000, 7000])
    folder = Path(options.output)
    if not options.report:
        fit_all(tasks(options), judge, folder / "fits.csv", KEYS, FIGURES, options.jobs, options.redo)
    fits = read_fits(folder / "fits.csv", KEYS, FIGURES)
    report(fits, folder)
    draw(fits, folder)


if __name__ == "__main__":
    main()
