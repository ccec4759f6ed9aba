"""Published latent class fits beside those of this package: the table of docs/latent_classes.md.

    python benchmarks/latent_class.py    ten seconds

Patterns and counts are in data/latent_class. carcinoma: 118 slides judged by seven pathologists (Landis and Koch 1977).
values: 216 persons, four questions on role conflict (Stouffer and Toby 1951, Goodman 1974). cheating: 319 students,
four questions (Dayton 1998). Published fits are those of the R package poLCA (Linzer and Lewis, Journal of Statistical
Software 42, 2011), which smooths nothing.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import pandas as pd

import tensorly_smp as smp

DATA = Path(__file__).parent / "data" / "latent_class"
#: Log-likelihood, BIC and weights, where they are known, by data and number of classes.
PUBLISHED: dict[tuple[str, int], tuple[float | None, int | None, tuple[float, ...]]] = {
    ("carcinoma", 1): (None, 1082, (1.0,)),
    ("carcinoma", 2): (-317.257, 706, ()),
    ("carcinoma", 3): (-293.705, 697, (0.4447, 0.3736, 0.1817)),
    ("carcinoma", 4): (-289.286, 726, ()),
    ("values", 2): (-504.468, None, ()),
    ("cheating", 2): (-440.027, None, (0.841, 0.159)),
}


def patterns(name: str) -> tuple[pd.DataFrame, pd.Series]:
    """Distinct answers, and how often they were given."""
    table = pd.read_csv(DATA / f"{name}.csv")
    return table.drop(columns="count"), table["count"]


def fit(name: str, n_classes: int) -> smp.SmoothProductMixture:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", smp.exceptions.TensorlySmpWarning)  # the table asks for the likelihood alone
        X, counts = patterns(name)
        return smp.SmoothProductMixture(n_classes, random_state=0).fit(X, sample_weight=counts)


def main() -> None:
    print("| data | classes | log-likelihood, published | here | BIC, published | here | weights here | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    for (name, n_classes), (log_likelihood, bic, _) in PUBLISHED.items():
        X, counts = patterns(name)
        start = time.perf_counter()
        model = fit(name, n_classes)
        seconds = time.perf_counter() - start
        found = counts.sum() * model.score(X, sample_weight=counts)
        weights = " ".join(f"{weight:.3f}" for weight in model.weights_)
        print(
            f"| {name} | {n_classes} | {'' if log_likelihood is None else log_likelihood} | {found:.3f} "
            f"| {'' if bic is None else bic} | {model.bic(X, sample_weight=counts):.0f} | {weights} | {seconds:.1f} |"
        )


if __name__ == "__main__":
    main()
