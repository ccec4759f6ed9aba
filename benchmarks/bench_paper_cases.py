"""The four synthetic cases of the paper: accuracy and divergence beside the truth and a Gaussian mixture.

Ten variables, five components, 5000 samples, 15 uniform bins, the paper's algorithm (refine=None, sinc densities), all
other settings the defaults of SmoothProductMixture. Judged on 2000 new samples;
KL(true || learned) of the normalized density on 10 000 new samples.
Then with 30 % of the entries removed at random, for two of the cases.

    python benchmarks/bench_paper_cases.py [--truths 5] [--cases gaussian gmm gamma laplace] [--output output]

Prints the tables, says for every promised bound whether it holds, and writes them as text and CSV. Five truths take
about four minutes on one core. Reference: N. Kargas, N. D. Sidiropoulos, AISTATS 2019, section 5.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from fit_table import percent_right
from sklearn.mixture import GaussianMixture

import tensorly_smp as smp

N_SAMPLES, N_VARIABLES, RANK, N_BINS = 5000, 10, 5, 15
N_NEW, N_NEW_KL, MISSING = 2000, 10_000, 0.3
# Points of accuracy that the fit with the KL loss may stay below the true model, and that missing entries may cost.
BOUNDS = {"gaussian": 0.5, "gmm": 2.5, "gamma": 0.5, "laplace": 4.5}
MISSING_CASES, MISSING_BOUND = ("gaussian", "gmm"), 5.0
LOSSES = {"ours, KL": "kl", "ours, Frobenius": "frobenius"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--truths", type=int, default=5, help="random mixtures per case (default 5)")
    parser.add_argument("--cases", nargs="+", choices=list(BOUNDS), default=list(BOUNDS))
    parser.add_argument("--output", type=Path, default=Path("output"), help="folder for the tables")
    options = parser.parse_args()
    complete = pd.concat([complete_rows(case, seed) for case in options.cases for seed in range(options.truths)])
    tables = {"complete": complete_table(complete)}
    if cases := [case for case in options.cases if case in MISSING_CASES]:
        rows = pd.concat([missing_rows(case, seed) for case in cases for seed in range(options.truths)])
        tables["missing"] = missing_table(rows, complete)
    report(tables, options)


# ---- fits ----


def complete_rows(case: str, seed: int) -> pd.DataFrame:
    """One row per method: accuracy, divergence and seconds, all on the same new samples."""
    X, _, truth = smp.datasets.make_smooth_mixture(case, N_SAMPLES, N_VARIABLES, RANK, random_state=seed)
    models = {method: fit(X, loss, seed) for method, loss in LOSSES.items()}
    start = time.perf_counter()
    gaussian = GaussianMixture(RANK, covariance_type="diag", n_init=5, random_state=seed).fit(X)
    models["Gaussian mixture"] = gaussian, time.perf_counter() - start
    points, labels = new_samples(truth, seed)
    for_divergence, _ = truth.sample(N_NEW_KL, random_state=2000 + seed)
    best = percent_right(labels, truth.predict(points))
    rows = []
    for method, (model, seconds) in models.items():
        divergence = smp.metrics.kl_divergence_mc(truth, model, X=for_divergence)
        found = percent_right(labels, model.predict(points))
        rows.append((case, method, seed, found, best, divergence.value, divergence.standard_error, seconds))
    return pd.DataFrame(rows, columns=["case", "method", "truth", "accuracy", "true model", "KL", "SE", "seconds"])


def missing_rows(case: str, seed: int) -> pd.DataFrame:
    """Accuracy of fits to incomplete samples of the same truth, on new samples with and without all entries."""
    # The same seed gives the same mixture and the same values: only the removed entries differ from complete_rows.
    X, _, truth = smp.datasets.make_smooth_mixture(
        case, N_SAMPLES, N_VARIABLES, RANK, missing=MISSING, random_state=seed
    )
    points, labels = new_samples(truth, seed)
    holed = np.where(np.random.default_rng(3000 + seed).random(points.shape) < MISSING, np.nan, points)
    best = percent_right(labels, truth.predict(holed))
    rows = []
    for method, loss in LOSSES.items():
        model, seconds = fit(X, loss, seed)
        on_complete, on_holed = (percent_right(labels, model.predict(given)) for given in (points, holed))
        rows.append((case, method, seed, on_complete, on_holed, best, seconds))
    return pd.DataFrame(rows, columns=["case", "method", "truth", "complete", "holed", "true model, holed", "seconds"])


def fit(X: np.ndarray, loss: str, seed: int) -> tuple[smp.SmoothProductMixture, float]:
    start = time.perf_counter()
    with warnings.catch_warnings():
        # Gamma densities with a steep flank ring, and are clipped: part of what is measured here.
        warnings.simplefilter("ignore", smp.exceptions.ClippedMassWarning)
        model = smp.SmoothProductMixture(RANK, n_bins=N_BINS, loss=loss, refine=None, random_state=seed).fit(X)
    return model, time.perf_counter() - start


def new_samples(truth: smp.datasets.TrueMixture, seed: int) -> tuple[np.ndarray, np.ndarray]:
    return truth.sample(N_NEW, random_state=1000 + seed)


# ---- tables ----


def complete_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Means over the truths; the standard error is that of the mean KL on the given truths."""
    grouped = rows.assign(below=rows["true model"] - rows["accuracy"], square=rows["SE"] ** 2).groupby(
        ["case", "method"], sort=False
    )
    table = grouped[["accuracy", "true model", "below"]].mean()
    table["worst"] = grouped["below"].max()
    table["bound"] = [BOUNDS[case] if method == "ours, KL" else np.nan for case, method in table.index]
    table["KL(true||learned)"] = grouped["KL"].mean()
    table["SE"] = np.sqrt(grouped["square"].sum()) / grouped.size()
    table["median s"] = grouped["seconds"].median()
    return table.reset_index()


def missing_table(rows: pd.DataFrame, complete: pd.DataFrame) -> pd.DataFrame:
    """Fall in accuracy against the fits to complete samples, on complete new samples and on incomplete ones."""
    before = complete.set_index(["case", "method", "truth"])["accuracy"]
    rows = rows.join(before, on=["case", "method", "truth"])
    rows["fall"], rows["fall, holed"] = rows["accuracy"] - rows["complete"], rows["accuracy"] - rows["holed"]
    grouped = rows.groupby(["case", "method"], sort=False)
    table = grouped[["accuracy", "complete", "fall"]].mean()
    table["worst fall"] = grouped["fall"].max()
    table["bound"] = MISSING_BOUND
    # What the true model loses to the holes in the new samples, no fit can hold.
    table[["holed", "true model, holed", "fall, holed"]] = grouped[["holed", "true model, holed", "fall, holed"]].mean()
    table["median s"] = grouped["seconds"].median()
    return table.reset_index().rename(columns={"accuracy": "fit to all entries", "complete": "fit to 70 %"})


def report(tables: dict[str, pd.DataFrame], options: argparse.Namespace) -> None:
    captions = {
        "complete": "accuracy in percent on new samples, points below the true model, KL in nats per sample",
        "missing": f"{MISSING:.0%} of the entries removed; 'holed': from the new samples as well",
    }
    lines = [
        f"{options.truths} truths a case, {N_VARIABLES} variables, {RANK} components, {N_SAMPLES} samples, "
        f"{N_BINS} bins; means over the truths"
    ]
    for name, table in tables.items():
        lines += ["", captions[name], table.to_string(index=False, float_format="{:.3f}".format, na_rep="-"), ""]
        lines += verdicts(table, "below" if name == "complete" else "fall")
        options.output.mkdir(parents=True, exist_ok=True)
        table.to_csv(options.output / f"paper_cases_{name}.csv", index=False)
    text = "\n".join(lines)
    print(text)
    (options.output / "paper_cases.txt").write_text(text + "\n", encoding="utf-8")


def verdicts(table: pd.DataFrame, column: str) -> list[str]:
    bounded = table[table["bound"].notna()]
    return [
        f"{row['case']}, {row['method']}: {row[column]:.2f} points, bound {row['bound']:g}: "
        f"{'holds' if row[column] <= row['bound'] else 'MISSED'}"
        for _, row in bounded.iterrows()
    ]


if __name__ == "__main__":
    main()
