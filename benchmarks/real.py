"""Real labelled data of continuous variables: clusters against the hidden classes, and held-out density.

    make bench-real [BENCH_ARGS="--data iris wine --repeats 3"]
    python benchmarks/real.py [--data ...] [--methods ...] [--repeats 10] [--jobs 2] [--redo] [--output output/real]
    python benchmarks/real.py --report        the tables of the fits that are there, no new ones

Random splits, the same for all methods: 70 % to fit, 10 % to choose the number of bins by their mean log-density, 20 %
to judge. No method sees a class before it is judged. All settings of ours are the defaults but n_components, which is
the number of classes, and n_bins (and refine=None for the paper's own algorithm; with more than 40 variables that one
also gets triples=400, since all triples of many variables take minutes). Ours gets the samples as they are. The others
get them standardized by mean and standard deviation of the 70 %, since k-means compares variables; log-densities are
those of the given units.
Missing entries: ours leaves them out; for the others the mean of the 70 % is put in, so that all are judged on all
samples; log-densities are compared on complete samples, since with entries left out they are of fewer variables.

Gaussian mixtures are scikit-learn's with their default regularization (1e-6 on every variance), five starts each.
Losses are printed as plainly as wins. Writes fits.csv (appended fit by fit: a run that was stopped goes on where it
was), summary.csv, differences.csv and summary.txt.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import fit_table
import joblib
import numpy as np
import pandas as pd
from real_data import DATA, Labelled
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

import tensorly_smp as smp

# ---- what is compared ----

PAPER_BINS = (5, 10)
DEFAULT_BINS = smp.SmoothProductMixture().n_bins
# Settings, and the numbers of bins among which the validation samples choose.
OURS: dict[str, tuple[dict[str, Any], tuple[Any, ...]]] = {
    "ours": ({}, tuple(dict.fromkeys((*PAPER_BINS, DEFAULT_BINS)))),
    "ours, default bins": ({}, (DEFAULT_BINS,)),
    "ours, paper form": ({"refine": None}, PAPER_BINS),
}
MANY_VARIABLES, TRIPLES_OF_MANY = 40, 400
PEERS = ("GMM diag", "GMM full", "k-means")
METHODS = (*OURS, *PEERS)
SHARES = (0.7, 0.1)
REPEATS = 10
KEYS = ["data", "repeat", "method"]
FIGURES = ["accuracy", "ari", "loglik", "n_bins", "seconds"]
MEASURES = {"accuracy": "accuracy, %", "ari": "adjusted Rand index", "loglik": "log-density, nats per sample"}


class Split(NamedTuple):
    """Positions of the samples to fit, to choose the bins, and to judge."""

    fit: np.ndarray
    validation: np.ndarray
    test: np.ndarray


def split(n_samples: int, repeat: int) -> Split:
    """Random parts of 70, 10 and 20 percent."""
    shuffled = np.random.default_rng(repeat).permutation(n_samples)
    ends = np.round(np.cumsum(SHARES) * n_samples).astype(int)
    return Split(*np.split(shuffled, ends))


class Standardized:
    """A model of scikit-learn behind the standardization and the filling-in that it needs.

    Densities are of the original units: a variable divided by s has s times the density.
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: pd.DataFrame) -> Standardized:
        self.mean_, self.scale_ = X.mean(), X.std(ddof=0).replace(0.0, 1.0)
        self.model.fit(self._transform(X))
        return self

    def _transform(self, X: pd.DataFrame) -> np.ndarray:
        return ((X.fillna(self.mean_) - self.mean_) / self.scale_).to_numpy()

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        return self.model.predict(self._transform(X))

    def score_samples(self, X: pd.DataFrame) -> np.ndarray:
        return self.model.score_samples(self._transform(X)) - np.log(self.scale_).sum()


# ---- fits ----


def fit_method(method: str, data: Labelled, parts: Split, seed: int) -> Any:
    """Fitted model with predict and, except for k-means, score_samples."""
    X, rank = data.X.iloc[parts.fit], data.n_classes
    if method == "k-means":
        return Standardized(KMeans(rank, n_init=5, random_state=seed)).fit(X)
    if method in PEERS:
        kind = method.removeprefix("GMM ")
        return Standardized(GaussianMixture(rank, covariance_type=kind, n_init=5, random_state=seed)).fit(X)
    settings, candidates = OURS[method]
    if "paper form" in method and X.shape[1] > MANY_VARIABLES:
        settings = settings | {"triples": TRIPLES_OF_MANY}
    models = [
        smp.SmoothProductMixture(rank, n_bins=n_bins, random_state=seed, **settings).fit(X) for n_bins in candidates
    ]
    validation = data.X.iloc[parts.validation]
    return max(models, key=lambda model: float(np.mean(model.score_samples(validation))))


def judge(name: str, repeat: int, method: str) -> dict[str, Any]:
    """Row of one fit, the choice of the bins included in its seconds; a failure gets a row that says so."""
    data = DATA[name]()
    parts = split(len(data.X), repeat)
    test, classes = data.X.iloc[parts.test], data.classes[parts.test]
    row: dict[str, Any] = {"data": name, "repeat": repeat, "method": method}
    start = time.perf_counter()
    with threadpool_limits(1), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = fit_method(method, data, parts, seed=500 + repeat)
            row["seconds"] = time.perf_counter() - start
            if method in OURS:
                # Of the middle variable, where the library chose a number for each.
                row["n_bins"] = int(np.median(model.result_["n_bins"]))
            found = np.asarray(model.predict(test))
            row["accuracy"] = 100.0 * smp.metrics.clustering_accuracy(classes, found)
            row["ari"] = adjusted_rand_score(classes, found)
            if method != "k-means":
                row["loglik"] = float(np.mean(model.score_samples(test.dropna())))
            row["status"] = "ok"
        except Exception as error:
            row["status"] = f"failed: {type(error).__name__}: {error}"
    row["warnings"] = " ".join(sorted({warning.category.__name__ for warning in caught}))
    return row


def run(options: argparse.Namespace, path: Path) -> None:
    done = fit_table.read_fits(path, KEYS, FIGURES)
    finished = set() if options.redo else set(done[KEYS].itertuples(index=False, name=None))
    # Repeat after repeat, so that a run that is stopped has all data with fewer repeats.
    wanted = [(name, k, m) for k in range(options.repeats) for name in options.data for m in options.methods]
    tasks = [task for task in wanted if task not in finished]
    start = time.perf_counter()
    parallel = joblib.Parallel(n_jobs=options.jobs, return_as="generator_unordered")
    for number, row in enumerate(parallel(joblib.delayed(judge)(*task) for task in tasks), 1):
        fit_table.append_fits([row], path, KEYS, FIGURES)
        figures = f"{row['accuracy']:.1f} %, {row['seconds']:.1f} s" if row["status"] == "ok" else row["status"]
        minutes = (time.perf_counter() - start) / 60.0
        print(
            f"[{number}/{len(tasks)}, {minutes:.1f} min] {row['data']}, repeat {row['repeat']}, {row['method']}: "
            f"{figures}",
            flush=True,
        )


# ---- tables ----


def summarize(good: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation over the repeats, and how often each number of bins was chosen."""
    grouped = good.groupby(["data", "method"], observed=True)
    table = grouped[list(MEASURES)].agg(["mean", "std"])
    table.columns = [f"{measure} {'mean' if kind == 'mean' else 'sd'}" for measure, kind in table.columns]
    table["seconds"], table["repeats"] = grouped["seconds"].median(), grouped.size()
    table["bins"] = grouped["n_bins"].agg(
        lambda bins: ", ".join(f"{int(value)}: {count}" for value, count in bins.value_counts().sort_index().items())
    )
    return table.reset_index()


def differences(good: pd.DataFrame, ours: Sequence[str]) -> pd.DataFrame:
    """Ours less the other, split by split: mean, standard deviation, and on how many splits better and worse."""
    rows = []
    for data, fits in good.groupby("data", observed=True, sort=False):
        for measure in MEASURES:
            wide = fits.pivot(index="repeat", columns="method", values=measure)
            pairs = [(m, p) for m in ours for p in PEERS if m in wide and p in wide]
            for method, peer in pairs:
                change = (wide[method] - wide[peer]).dropna()
                if len(change):
                    better, worse = int((change > 0).sum()), int((change < 0).sum())
                    rows.append((data, measure, method, peer, change.mean(), change.std(), better, worse, word(change)))
    columns = ["data", "measure", "method", "peer", "difference", "sd", "better", "worse", "verdict"]
    return pd.DataFrame(rows, columns=columns)


def word(change: pd.Series) -> str:
    """Of the mean: within its standard error over the splits it is a draw."""
    mean = change.mean()
    error = change.std() / np.sqrt(len(change)) if len(change) > 1 else 0.0
    return "draw" if abs(mean) <= error else "WIN" if mean > 0 else "LOSS"


def report(fits: pd.DataFrame, folder: Path) -> None:
    good = fits[fits["status"] == "ok"].copy()
    if good.empty:
        print("There are no fits to report on.", *trouble_lines(fits))
        return
    for name, values in (("data", list(DATA)), ("method", list(METHODS))):
        good[name] = pd.Categorical(good[name], values, ordered=True)
    good = good.dropna(subset=["data", "method"])
    summary, compared = summarize(good), differences(good, list(OURS))
    text = "\n".join([*data_lines(summary), *summary_lines(summary), *verdict_lines(compared), *trouble_lines(fits)])
    print(text)
    (folder / "summary.txt").write_text(text + "\n", encoding="utf-8")
    summary.to_csv(folder / "summary.csv", index=False)
    compared.to_csv(folder / "differences.csv", index=False)


def data_lines(summary: pd.DataFrame) -> Iterator[str]:
    yield "data: samples x variables, classes"
    for name in summary["data"].unique():
        data = DATA[name]()
        yield f"  {name}: {data.X.shape[0]} x {data.X.shape[1]}, {data.n_classes}. {data.remark}".rstrip()


def summary_lines(summary: pd.DataFrame) -> Iterator[str]:
    for measure, title in MEASURES.items():
        digits = 1 if measure == "accuracy" else 3
        texts = [
            "-" if np.isnan(mean) else f"{mean:.{digits}f} ± {sd:.{digits}f}"
            for mean, sd in zip(summary[f"{measure} mean"], summary[f"{measure} sd"], strict=True)
        ]
        yield f"\n{title} on the 20 %: mean ± standard deviation over the repeats"
        yield pivoted(summary.assign(text=texts), "text")
    yield "\nseconds, the choice of the bins included, median; one thread"
    yield pivoted(summary.assign(text=summary["seconds"].map("{:.2f}".format)), "text")
    yield "\nbins chosen, and how often"
    yield pivoted(summary[summary["bins"] != ""], "bins")


def pivoted(summary: pd.DataFrame, column: str) -> str:
    wide = summary.astype({"data": str, "method": str}).pivot(index="data", columns="method", values=column)
    wide = wide.loc[[name for name in DATA if name in wide.index], [name for name in METHODS if name in wide]]
    return wide.fillna("-").rename_axis(index=None, columns=None).to_string()


def verdict_lines(compared: pd.DataFrame) -> Iterator[str]:
    """Wins, draws and losses by method, peer and measure, then every one of them by name."""
    if compared.empty:
        return
    yield "\nwins, draws (mean difference within its standard error) and losses of ours over the data"
    counts = compared.pivot_table(
        index=["method", "measure", "peer"], columns="verdict", values="data", aggfunc="count", fill_value=0
    )
    yield counts.reindex(columns=["WIN", "draw", "LOSS"], fill_value=0).rename_axis(columns=None).to_string()
    yield "\nours less the other, split by split"
    for row in compared.itertuples():
        yield (
            f"  {row.verdict:<4} {row.data}, {row.measure}: {row.method} - {row.peer} = {row.difference:+.3f} ± "
            f"{row.sd:.3f}, better on {row.better}, worse on {row.worse}"
        )


def trouble_lines(fits: pd.DataFrame) -> Iterator[str]:
    for (data, method, status), rows in fits[fits["status"] != "ok"].groupby(["data", "method", "status"]):
        yield f"\n{data}, {method}: {status} ({len(rows)} repeats)"
    for (method, names), count in fits[fits["warnings"] != ""].groupby(["method", "warnings"]).size().items():
        yield f"\n{method}: {names} ({count} fits)"


def installed(names: Sequence[str]) -> list[str]:
    """Those data whose package is there; the others are named."""
    found = []
    for name in names:
        try:
            DATA[name]()
            found.append(name)
        except ImportError as error:
            print(f"{name}: skipped, {error.name} is not installed")
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--repeats", type=int, default=REPEATS, help=f"random splits, default {REPEATS}")
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time, each on one thread (default 1)")
    parser.add_argument("--redo", action="store_true", help="fit the selection again, even what fits.csv has")
    parser.add_argument("--report", action="store_true", help="no fits: the tables of those that are there")
    parser.add_argument("--output", type=Path, default=Path("output/real"))
    options = parser.parse_args(arguments)
    path = options.output / "fits.csv"
    options.data = installed(options.data)
    if not options.report:
        run(options, path)
    report(fit_table.read_fits(path, KEYS, FIGURES), options.output)


if __name__ == "__main__":
    main()
