"""Figures of check_independence and of the quick check inside a fit: false alarms, and power.

    python benchmarks/bench_independence.py alarms [--truths 10] [--samples 1000 5000]
    python benchmarks/bench_independence.py power [--truths 20]

Six variables, false discovery rate 1 %. Fits whose accuracy is a point or more below that of the true model are counted
apart: merged groups are dependent, and a report that says so is right.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from common import KINDS, options_of
from scipy import stats

import tensorly_smp as smp
from tensorly_smp.dependence.pairs import dependence_warning

N_VARIABLES = 6


def fitted(X: np.ndarray, rank: int) -> Any:
    return smp.SmoothProductMixture(rank, random_state=0).fit(X)


def is_poor(model: Any, mixture: Any, seed: int) -> bool:
    """Whether the accuracy on new samples is a point or more below that of the true model."""
    new, labels = mixture.sample(5000, random_state=seed)
    best = float((mixture.predict(new) == labels).mean())
    return smp.metrics.clustering_accuracy(labels, model.predict(new)) <= best - 0.01


def quick(model: Any, X: np.ndarray) -> Any:
    return dependence_warning(X, model.predict_proba(X), None, (), model.binning_.variables)


def alarms(n_truths: int, sizes: list[int]) -> None:
    """Fits to independent samples that report any pair."""
    for n_samples in sizes:
        every = np.zeros((2, 3), dtype=int)
        for rank in (3, 5):
            for kind in KINDS:
                counts = np.zeros((2, 3), dtype=int)  # good, poor; fits, alarms, alarms of the quick check
                for seed in range(n_truths):
                    data = smp.datasets.make_smooth_mixture(kind, n_samples, N_VARIABLES, rank, random_state=100 + seed)
                    model = fitted(data.X, rank)
                    found = smp.check_independence(model, data.X, random_state=0).n_dependent > 0
                    counts[int(is_poor(model, data.mixture, seed))] += [1, found, bool(quick(model, data.X))]
                every += counts
                print(f"{n_samples:6d} samples, {rank} components, {kind:10s} {_counted(counts)}", flush=True)
        print(f"{n_samples:6d} samples, all: {_counted(every)}", flush=True)


def _counted(counts: np.ndarray) -> str:
    (fits, found, warned), (poor, poor_found, poor_warned) = counts.tolist()
    return (
        f"alarms in {found} of {fits} fits (quick: {warned}); of poor fits in {poor_found} of {poor} "
        f"(quick: {poor_warned})"
    )


def coupled_samples(
    kind: str, n_samples: int, rank: int, correlation: float, only: int | None, seed: int
) -> tuple[np.ndarray, Any]:
    """Samples whose first two variables have a Gaussian copula in all components, or in one."""
    data = smp.datasets.make_smooth_mixture(kind, n_samples, N_VARIABLES, rank, random_state=seed)
    rng, X, mixture = np.random.default_rng(seed), data.X.copy(), data.mixture
    rows = np.arange(n_samples) if only is None else np.flatnonzero(data.labels == only)
    r = data.labels[rows]
    # Ranks of the first variable within its component, and ranks of the second that go with them.
    u = mixture.standard.cdf((X[rows, 0] - mixture.loc[0, r, 0]) / mixture.scale[0, r, 0])
    z = correlation * stats.norm.ppf(u) + np.sqrt(1 - correlation**2) * rng.standard_normal(len(rows))
    X[rows, 1] = mixture.loc[1, r, 0] + mixture.scale[1, r, 0] * mixture.standard.ppf(stats.norm.cdf(z))
    return X, mixture


def circle_samples(n_samples: int, seed: int) -> np.ndarray:
    """Two groups; in each the first two variables lie around a circle, without any correlation."""
    rng = np.random.default_rng(seed)
    X, labels, angle = (
        rng.standard_normal((n_samples, N_VARIABLES)),
        rng.integers(2, size=n_samples),
        rng.random(n_samples),
    )
    X[:, 0] = 2.0 * np.cos(2 * np.pi * angle) + 0.5 * X[:, 0]
    X[:, 1] = 2.0 * np.sin(2 * np.pi * angle) + 0.5 * X[:, 1]
    X[:, 2:] += 6.0 * labels[:, None]
    return X


def power(n_truths: int) -> None:
    """Fits that report the pair that depends on each other."""
    for name, only in (("all components", None), ("one component", 0)):
        for kind in ("gaussian", "gamma", "laplace"):
            seen = others = warned = 0
            for seed in range(n_truths):
                X, _ = coupled_samples(kind, 1000, 3, 0.3, only, 200 + seed)
                model = fitted(X, 3)
                pairs = smp.check_independence(model, X, random_state=0).dependent
                seen += ("x0", "x1") in pairs
                others += len(set(pairs) - {("x0", "x1")}) > 0
                warned += bool(quick(model, X))
            print(
                f"correlation .3 in {name}, {kind:10s}: seen in {seen} of {n_truths}; another pair in {others}; "
                f"warning of the fit in {warned}",
                flush=True,
            )
    seen = warned = 0
    for seed in range(n_truths):
        X = circle_samples(1000, seed)
        model = fitted(X, 2)
        seen += ("x0", "x1") in smp.check_independence(model, X, random_state=0).dependent
        warned += bool(quick(model, X))
    print(f"circle without correlation: seen in {seen} of {n_truths}; warning of the fit in {warned}")


if __name__ == "__main__":
    options = options_of(__doc__, words=("alarms", "power"), truths=3, samples=(1000, 5000))
    warnings.simplefilter("ignore")
    if options.part == "alarms":
        alarms(options.truths, options.samples)
    else:
        power(options.truths)
