"""Coverage and cost of bootstrap intervals.

    python benchmarks/bench_bootstrap.py coverage [--sets 10] [--replicates 100] [--method rows] [--first 0]
    python benchmarks/bench_bootstrap.py cost

`coverage` fits R = 3 components to M = 1000 samples of N = 10 variables of each of the four densities, and counts how
often 95 % intervals hold the truth: of weights, of conditional means, and of conditional distribution functions and
densities at the nine deciles of the truth. Three kinds of intervals, of replicates b and the fit t: percentile, [q(b,
.025), q(b, .975)]; basic, [2 t - q(b, .975), 2 t - q(b, .025)]; and percentile with the levels corrected for the median
bias of b against t (Efron 1987, BC). Every truth is another one.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import defaultdict
from typing import Any

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.optimize import linear_sum_assignment
from scipy.stats import norm

import tensorly_smp as smp

KINDS = ("gaussian", "gmm", "gamma", "laplace")
DECILES = np.arange(1, 10) / 10
LEVEL = 0.95


def intervals(replicates: np.ndarray, fit: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Intervals of three kinds from replicates (n_replicates, ...) and the fit (...)."""
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(replicates, [tail, 1 - tail], axis=0)
    n = len(replicates)
    below = np.clip((replicates < fit).mean(axis=0), 0.5 / n, 1 - 0.5 / n)
    shift = 2 * norm.ppf(below)
    ordered = np.sort(replicates, axis=0)

    def at(level: np.ndarray) -> np.ndarray:
        place = np.clip(level * n - 0.5, 0, n - 1)
        first = np.floor(place).astype(int)
        second = np.minimum(first + 1, n - 1)
        share = place - first
        a, b = (np.take_along_axis(ordered, k[None], axis=0)[0] for k in (first, second))
        return (1 - share) * a + share * b

    corrected = at(norm.cdf(shift + norm.ppf(tail))), at(norm.cdf(shift + norm.ppf(1 - tail)))
    return {"percentile": (low, high), "basic": (2 * fit - high, 2 * fit - low), "corrected": corrected}


def matched(model: Any, truth: Any, X: np.ndarray) -> np.ndarray:
    """Component of the fit for every component of the truth."""
    shared = truth.posterior(X).T @ model.predict_proba(X)
    return linear_sum_assignment(-shared)[1]


def at_points(values: np.ndarray, x: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Values (..., n_points) on a grid x at other points."""
    return np.asarray(PchipInterpolator(x, values, axis=-1, extrapolate=True)(points))


def one_set(kind: str, seed: int, n_replicates: int, method: str) -> tuple[dict[tuple[str, str], np.ndarray], float]:
    """Whether each interval covers, by kind of interval and quantity; and seconds of the bootstrap, in default fits."""
    X, _, truth = smp.datasets.make_smooth_mixture(kind, 1000, n_components=3, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        model = smp.SmoothProductMixture(3, random_state=0).fit(X)
        of_fit = time.perf_counter() - began
    began = time.perf_counter()
    found = model.bootstrap(X, n_replicates, method=method, random_state=seed)
    ratio = (time.perf_counter() - began) / of_fit
    order = matched(model, truth, X)
    covered: dict[tuple[str, str], list[np.ndarray]] = defaultdict(list)

    def count(name: str, replicates: np.ndarray, fit: np.ndarray, right: np.ndarray) -> None:
        for interval, (low, high) in intervals(replicates, fit).items():
            covered[interval, name].append((low <= right) & (right <= high))

    count("weights", found.weights.values[:, order], found.fit_weights.values[order], truth.weights)
    new, labels = truth.sample(400_000, random_state=10_000 + seed)
    for s, r in enumerate(order):
        values = np.sort(new[labels == s], axis=0)
        count("mean", found["mean"].values[:, :, r], found.fit_mean.values[:, r], values.mean(axis=0))
        points = np.quantile(values, DECILES, axis=0).T
        for n in range(X.shape[1]):
            x = found.x.values[n]
            right = {"cdf": DECILES, "density": density_of(truth, n, s, points[n])}
            for name, expected in right.items():
                replicates = at_points(found[name].values[:, n, :, r], x, points[n])
                count(name, replicates, at_points(found[f"fit_{name}"].values[n, :, r], x, points[n]), expected)
    return {key: np.concatenate([np.atleast_2d(each) for each in values]) for key, values in covered.items()}, ratio


def density_of(truth: Any, n: int, component: int, points: np.ndarray) -> np.ndarray:
    """Density of one variable in one component of the truth."""
    loc, scale = truth.loc[n, component], truth.scale[n, component]
    return np.asarray((truth.standard.pdf((points[:, None] - loc) / scale) / scale).mean(axis=1))


def coverage(n_sets: int, n_replicates: int, method: str, first: int) -> None:
    """Share of the intervals that cover, by density, quantity and kind of interval."""
    for kind in KINDS:
        every: dict[tuple[str, str], list[np.ndarray]] = defaultdict(list)
        ratios = []
        for seed in range(first, first + n_sets):
            covered, ratio = one_set(kind, seed, n_replicates, method)
            ratios.append(ratio)
            for key, values in covered.items():
                every[key].append(values)
        print(f"{kind}: {n_sets} data sets, {n_replicates} replicates ({method}), {np.median(ratios):.1f} default fits")
        for interval in ("percentile", "basic", "corrected"):
            shares = {name: np.concatenate(every[interval, name]) for name in ("weights", "mean", "cdf", "density")}
            by_point = " ".join(f"{share:.2f}" for share in shares["density"].mean(axis=0))
            line = ", ".join(f"{name} {values.mean():.3f}" for name, values in shares.items())
            print(f"    {interval:10s} {line}; density by decile {by_point}", flush=True)


def cost() -> None:
    """Seconds of 100 replicates over those of a default fit."""
    for rank, n_samples in ((3, 1000), (5, 5000), (10, 5000)):
        for kind in KINDS:
            X = smp.datasets.make_smooth_mixture(kind, n_samples, n_components=rank, random_state=0).X
            taken = []
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for _ in range(3):
                    began = time.perf_counter()
                    model = smp.SmoothProductMixture(rank, random_state=0).fit(X)
                    taken.append(time.perf_counter() - began)
            began = time.perf_counter()
            model.bootstrap(X, 100, random_state=0)
            seconds = time.perf_counter() - began
            print(
                f"{kind:9s} R = {rank}, M = {n_samples}: {seconds:.2f} s, {seconds / min(taken):.1f} fits", flush=True
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["coverage", "cost"])
    parser.add_argument("--sets", type=int, default=10)
    parser.add_argument("--replicates", type=int, default=100)
    parser.add_argument("--method", choices=["rows", "parametric"], default="rows")
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.what == "cost":
        cost()
    else:
        coverage(arguments.sets, arguments.replicates, arguments.method, arguments.first)


if __name__ == "__main__":
    main()
