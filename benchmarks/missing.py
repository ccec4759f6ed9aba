"""Incomplete data: what is lost of density, clusters and values when entries are missing at random.

The four synthetic cases of the paper with five components; 0, 10, 30 and 50 % of the entries of the training samples
are removed, the others stay the same. SmoothProductMixture, with its defaults, is fitted to what is left:

- density and clusters: KL(true || learned), with its standard error, and clustering accuracy on complete new samples,
  beside the fit to complete data (missing 0 %) and the true model's accuracy;
- imputation: root mean square error of the removed entries, each in standard deviations of its variable, of `impute`
  beside scikit-learn's imputers and the mean. "bound" is the conditional mean under the true mixture given the observed
  entries of the sample: no imputation has a smaller expected error.

    python benchmarks/missing.py [--quick] [--cases gaussian laplace] [--samples 5000] [--truths 1] [--components 5]
                                 [--output output/missing.csv]

Prints a table of means over truths, and writes one row per fit. A few minutes for one truth at 5000 samples.
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
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401 (makes IterativeImputer importable)
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from threadpoolctl import threadpool_limits

import tensorly_smp as smp
from tensorly_smp.datasets import TrueMixture, make_smooth_mixture

CASES = ("gaussian", "gmm", "gamma", "laplace")
SHARES = (0.0, 0.1, 0.3, 0.5)
N_VARIABLES, N_NEW = 10, 10_000
SAMPLES, QUICK_SAMPLES, QUICK_CASES = 5000, 2000, ("gaussian", "laplace")
IMPUTERS: dict[str, Callable[[], Any]] = {
    "iterative": lambda: IterativeImputer(random_state=0),
    "nearest": lambda: KNNImputer(n_neighbors=5),
    "mean": SimpleImputer,
}
IMPUTED = ("bound", "ours", *IMPUTERS)


# ---- one mixture ----


def one_truth(case: str, n_samples: int, rank: int, truth_number: int) -> list[dict[str, Any]]:
    """One row per share of missing entries."""
    whole, _, truth = make_smooth_mixture(case, n_samples, N_VARIABLES, rank, random_state=truth_number)
    new, labels = truth.sample(N_NEW, random_state=1000 + truth_number)
    rows = []
    for share in SHARES:
        # The same values, some of them removed.
        X = make_smooth_mixture(case, n_samples, N_VARIABLES, rank, missing=share, random_state=truth_number).X
        row = {"case": case, "samples": n_samples, "rank": rank, "truth": truth_number, "missing": share}
        row["true_accuracy"] = 100.0 * smp.metrics.clustering_accuracy(labels, truth.predict(new))
        model, found = fitted(X, rank, seed=500 + truth_number)  # another stream than the one of the truth
        row |= found | judged(model, truth, new, labels)
        if share > 0:
            row |= imputation_errors(X, whole, model, truth)
        rows.append(row)
    return rows


def fitted(X: np.ndarray, rank: int, seed: int) -> tuple[smp.SmoothProductMixture, dict[str, Any]]:
    """The model, seconds, and the names of the warnings there were."""
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = smp.SmoothProductMixture(rank, random_state=seed).fit(X)
    names = " ".join(sorted({warning.category.__name__ for warning in caught}))
    return model, {"seconds": time.perf_counter() - start, "warnings": names}


def judged(
    model: smp.SmoothProductMixture, truth: TrueMixture, new: np.ndarray, labels: np.ndarray
) -> dict[str, float]:
    """Density and clusters, on complete new samples."""
    kl, kl_se, _ = smp.metrics.kl_divergence_mc(truth, model, X=new)
    return {"kl": kl, "kl_se": kl_se, "accuracy": 100.0 * smp.metrics.clustering_accuracy(labels, model.predict(new))}


# ---- imputation ----


def imputation_errors(
    X: np.ndarray, whole: np.ndarray, model: smp.SmoothProductMixture, truth: TrueMixture
) -> dict[str, float]:
    """Error of every way to fill the holes of X in, and the seconds that scikit-learn's ways take."""
    figures = {}
    filled = {"bound": conditional_mean(truth, X), "ours": model.impute(X)}
    for name, make in IMPUTERS.items():
        start = time.perf_counter()
        with warnings.catch_warnings():
            # Of the ten rounds that IterativeImputer takes by default, which are not always enough for its tolerance.
            warnings.simplefilter("ignore", ConvergenceWarning)
            filled[name] = make().fit_transform(X)
        figures[f"seconds_{name}"] = time.perf_counter() - start
    return {name: scaled_error(values, whole, np.isnan(X)) for name, values in filled.items()} | figures


def conditional_mean(truth: TrueMixture, X: np.ndarray) -> np.ndarray:
    """X with its holes filled by their expectation given the observed entries of the sample."""
    means = (truth.loc + truth.scale * truth.standard.mean()).mean(axis=2)  # (n_variables, rank)
    return np.where(np.isnan(X), truth.posterior(X) @ means.T, X)


def scaled_error(filled: np.ndarray, whole: np.ndarray, holes: np.ndarray) -> float:
    """Root mean square error of the holes, in standard deviations of their variables."""
    errors = (filled - whole) / whole.std(axis=0)
    return float(np.sqrt((errors[holes] ** 2).mean()))


# ---- table ----


def summary(rows: pd.DataFrame) -> str:
    """Means over truths, one line per case and share of missing entries."""
    means = rows.groupby(["case", "samples", "rank", "missing"], sort=False).mean(numeric_only=True).reset_index()
    accuracy = {"accuracy": means["accuracy"].round(2), "true model": means["true_accuracy"].round(2)}
    lines = pd.DataFrame(
        {
            "case": means["case"],
            "missing": (100 * means["missing"]).round().astype(int),
            "KL": means["kl"].round(4),
            "s.e.": means["kl_se"].round(4),
            **accuracy,
            **{f"error, {name}": means[name].round(4) for name in IMPUTED},
            "seconds": means["seconds"].round(1),
        }
    )
    return lines.to_string(index=False, na_rep="")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one truth of two cases, 2000 samples")
    parser.add_argument("--truths", type=int, default=1, help="random mixtures per case (default 1)")
    parser.add_argument("--cases", nargs="+", choices=CASES, help="default all; with --quick two")
    parser.add_argument("--samples", type=int, help=f"default {SAMPLES}; with --quick {QUICK_SAMPLES}")
    parser.add_argument("--components", type=int, default=5, help="of truths and models (default 5)")
    parser.add_argument("--output", type=Path, default=Path("output/missing.csv"))
    options = parser.parse_args(arguments)
    cases = options.cases or (QUICK_CASES if options.quick else CASES)
    n_samples = options.samples or (QUICK_SAMPLES if options.quick else SAMPLES)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for truth_number in range(options.truths):
        for case in cases:
            start = time.perf_counter()
            with threadpool_limits(1):
                rows += one_truth(case, n_samples, options.components, truth_number)
            # After every truth, so that a run that is stopped leaves what it has.
            pd.DataFrame(rows).to_csv(options.output, index=False)
            print(f"{case} truth {truth_number}: {time.perf_counter() - start:.0f} s", flush=True)
    print("\n" + summary(pd.DataFrame(rows)))


if __name__ == "__main__":
    main()
