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

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import fit_all, options_of, percent_right, read_fits, trouble_lines
from peers import fit_peer
from real_data import DATA, Labelled
from sklearn.metrics import adjusted_rand_score

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
KEYS = ["repeat", "data", "method"]
FIGURES = ["accuracy", "ari", "loglik", "n_bins", "seconds"]
MEASURES = {"accuracy": "accuracy, %", "ari": "adjusted Rand index", "loglik": "log-density, nats per sample"}


def split(n_samples: int, repeat: int) -> list[np.ndarray]:
    """Random positions of the samples to fit, to choose the bins, and to judge: 70, 10 and 20 percent."""
    shuffled = np.random.default_rng(repeat).permutation(n_samples)
    return np.split(shuffled, np.round(np.cumsum([0.7, 0.1]) * n_samples).astype(int))


class Standardized:
    """A peer behind the standardization and the filling-in that it needs.

    Densities are of the original units: a variable divided by s has s times the density.
    """

    def __init__(self, method: str, X: pd.DataFrame, rank: int, seed: int) -> None:
        self.mean_, self.scale_ = X.mean(), X.std(ddof=0).replace(0.0, 1.0)
        self.model = fit_peer(method, self._transform(X), rank, seed)

    def _transform(self, X: pd.DataFrame) -> np.ndarray:
        return ((X.fillna(self.mean_) - self.mean_) / self.scale_).to_numpy()

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        return self.model.predict(self._transform(X))

    def score_samples(self, X: pd.DataFrame) -> np.ndarray:
        return self.model.score_samples(self._transform(X)) - np.log(self.scale_).sum()


# ---- fits ----


def fit_method(method: str, data: Labelled, parts: Sequence[np.ndarray], seed: int) -> Any:
    """Fitted model with predict and, except for k-means, score_samples."""
    X, rank = data.X.iloc[parts[0]], data.n_classes
    if method in PEERS:
        return Standardized(method, X, rank, seed)
    settings, candidates = OURS[method]
    if "paper form" in method and X.shape[1] > MANY_VARIABLES:
        settings = settings | {"triples": TRIPLES_OF_MANY}
    models = [
        smp.SmoothProductMixture(rank, n_bins=n_bins, random_state=seed, **settings).fit(X) for n_bins in candidates
    ]
    validation = data.X.iloc[parts[1]]
    return max(models, key=lambda model: float(np.mean(model.score_samples(validation))))


def judge(repeat: int, name: str, method: str) -> dict[str, float]:
    """Figures of one fit, the choice of the bins included in its seconds."""
    data = DATA[name]()
    parts = split(len(data.X), repeat)
    test, classes = data.X.iloc[parts[2]], data.classes[parts[2]]
    began = time.perf_counter()
    # Not the seed of the split.
    model = fit_method(method, data, parts, 500 + repeat)
    row = {"seconds": time.perf_counter() - began}
    labels = model.predict(test)
    row |= {"accuracy": percent_right(classes, labels), "ari": adjusted_rand_score(classes, labels)}
    if method in OURS:
        row["n_bins"] = int(np.median(model.result_["n_bins"]))
    if method != "k-means":
        row["loglik"] = float(np.mean(model.score_samples(test.dropna())))
    return row


# ---- tables ----


def differences(good: pd.DataFrame, measure: str) -> Iterator[tuple]:
    """Ours less the other, split by split: mean, standard deviation, and on how many splits better and worse."""
    for data, fits in good.groupby("data", observed=True, sort=False):
        wide = fits.pivot(index="repeat", columns="method", values=measure)
        for method, peer in [(m, p) for m in OURS for p in PEERS if m in wide and p in wide]:
            change = (wide[method] - wide[peer]).dropna()
            if len(change):
                counts = int((change > 0).sum()), int((change < 0).sum())
                yield data, measure, method, peer, change.mean(), change.std(), *counts, word(change)


def word(change: pd.Series) -> str:
    """Verdict on the mean: within its standard error over the splits it is a draw."""
    mean = change.mean()
    error = change.std() / np.sqrt(len(change)) if len(change) > 1 else 0.0
    return "draw" if abs(mean) <= error else "WIN" if mean > 0 else "LOSS"


def report(fits: pd.DataFrame, folder: Path) -> None:
    good = fits[fits["status"] == "ok"].copy()
    good["data"], good["method"] = (pd.Categorical(good[k], list(v)) for k, v in (("data", DATA), ("method", METHODS)))
    parts = []
    grouped = good.groupby(["data", "method"], observed=True)
    for name in good["data"].unique():
        data = DATA[name]()
        parts.append(f"{name}: {data.X.shape[0]} x {data.X.shape[1]}, {data.n_classes} classes. {data.remark}".rstrip())
    for measure, title in MEASURES.items():
        digits = 1 if measure == "accuracy" else 3
        text = grouped[measure].agg(
            lambda v, d=digits: "-" if v.isna().all() else f"{v.mean():.{d}f} ± {v.std():.{d}f}"
        )
        parts.append(f"\n{title} on the 20 %: mean ± standard deviation over the repeats\n{text.unstack().to_string()}")
    parts.append("\nseconds, the choice of the bins included, median; one thread")
    parts.append(grouped["seconds"].median().unstack().to_string(float_format="{:.2f}".format))
    chosen = good.dropna(subset=["n_bins"]).groupby(["method", "data", "n_bins"], observed=True).size()
    parts.append(f"\nnumbers of bins, and how often they were chosen\n{chosen.unstack(fill_value=0).to_string()}")
    columns = ["data", "measure", "method", "peer", "difference", "sd", "better", "worse", "verdict"]
    compared = pd.DataFrame([row for measure in MEASURES for row in differences(good, measure)], columns=columns)
    counts = compared.groupby(["method", "measure", "peer"])["verdict"].value_counts().unstack(fill_value=0)
    parts.append(f"\nours less the other, split by split; a draw is within its standard error\n{counts.to_string()}")
    for row in compared.itertuples():
        name = f"{row.data}, {row.measure}: {row.method} - {row.peer}"
        counted = f"better on {row.better}, worse on {row.worse}"
        parts.append(f"  {row.verdict:<4} {name} = {row.difference:+.3f} ± {row.sd:.3f}, {counted}")
    text = "\n".join([*parts, *trouble_lines(fits)])
    print(text)
    (folder / "summary.txt").write_text(text + "\n", encoding="utf-8")
    compared.to_csv(folder / "differences.csv", index=False)


def main(arguments: Sequence[str] | None = None) -> None:
    options = options_of(__doc__, arguments, data=tuple(DATA), methods=METHODS, repeats=10, jobs=1, redo=False,
                         report=False, output="output/real")  # fmt: skip
    folder = Path(options.output)
    if not options.report:
        # Repeat after repeat, so that a run that is stopped has all data with fewer repeats.
        tasks = [(k, name, m) for k in range(options.repeats) for name in options.data for m in options.methods]
        fit_all(tasks, judge, folder / "fits.csv", KEYS, FIGURES, options.jobs, options.redo)
    report(read_fits(folder / "fits.csv", KEYS, FIGURES), folder)


if __name__ == "__main__":
    main()
