"""Coverage of bootstrap intervals, and when they say that they are too small.

    python benchmarks/bench_bootstrap.py items [--sets 100] [--samples 1000]
    python benchmarks/bench_bootstrap.py densities [--sets 10]
    python benchmarks/bench_bootstrap.py flatness [--sets 25]

`items` and `densities` count how often 95 % percentile intervals hold the truth: of five 0/1 items in two and three
classes, weights and probabilities; of R = 3 components, M = 1000 samples of N = 10 variables of each of the four
densities, every truth another one, weights, means, and distribution functions and densities at the nine deciles of the
truth. `flatness` prints the standard error in the flattest direction, and counts the fits whose bootstrap warns, of
cases that samples determine and of cases that they do not.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from typing import Any

import numpy as np
from common import KINDS, options_of
from scipy.interpolate import PchipInterpolator
from scipy.optimize import linear_sum_assignment

import tensorly_smp as smp
from tensorly_smp.uncertainty.bootstrap import FLAT

DECILES = np.arange(1, 10) / 10
#: Weights, and probabilities (n_items, rank).
TWO = [0.4, 0.6], [[0.85, 0.2], [0.8, 0.15], [0.9, 0.3], [0.75, 0.1], [0.8, 0.25]]
THREE = [0.4, 0.35, 0.25], [[0.9, 0.1, 0.1], [0.9, 0.2, 0.1], [0.9, 0.9, 0.1], [0.15, 0.9, 0.1], [0.1, 0.85, 0.2]]
NOISE = [0.4, 0.6], [[0.9, 0.2], [0.8, 0.1], [0.5, 0.5]]


def fit(X: np.ndarray, rank: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return smp.SmoothProductMixture(rank, random_state=0).fit(X)


def replicates(model: Any, X: np.ndarray, n_replicates: int, seed: int) -> tuple[Any, bool]:
    """The bootstrap, and whether it warns that the likelihood is flat."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = model.bootstrap(X, n_replicates, random_state=seed)
    return found, any("flat" in str(each.message) for each in caught)


def draw_items(weights: Any, probabilities: Any, n_samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Answers (n_samples, n_items) of 0 and 1, and classes (n_samples,)."""
    rng = np.random.default_rng(seed)
    classes = rng.choice(len(weights), size=n_samples, p=weights)
    return (rng.random((n_samples, len(probabilities))) < np.array(probabilities)[:, classes].T).astype(float), classes


def covers(values: np.ndarray, truth: Any) -> np.ndarray:
    """Whether the 95 % percentile intervals of replicates (n_replicates, ...) hold the truth (...)."""
    low, high = np.quantile(values, [0.025, 0.975], axis=0)
    return np.asarray((low <= truth) & (truth <= high))


def items(n_sets: int, n_replicates: int, n_samples: int) -> None:
    for weights, probabilities in (TWO, THREE):
        rank = len(weights)
        covered = defaultdict(list)
        n_warned = 0
        for seed in range(n_sets):
            X, classes = draw_items(weights, probabilities, n_samples, seed)
            model = fit(X, rank)
            found, is_flat = replicates(model, X, n_replicates, seed)
            n_warned += is_flat
            shared = np.stack([model.predict_proba(X)[classes == r].sum(axis=0) for r in range(rank)])
            order = linear_sum_assignment(-shared)[1]
            of_one = 1.0 - found.cdf.values[:, :, 0, :][..., order]  # the first point is 0
            covered["weights"].append(covers(found.weights.values[:, order], weights))
            covered["probabilities"].append(covers(of_one, probabilities))
            covered["largest standard error of a probability"].append(of_one.std(axis=0).max())
        shares = ", ".join(f"{name} {np.mean(values):.3f}" for name, values in covered.items())
        print(f"five 0/1 items, R = {rank}, M = {n_samples}, {n_sets} data sets: {shares}; {n_warned} warn", flush=True)


def densities(n_sets: int, n_replicates: int) -> None:
    for kind in KINDS:
        covered = defaultdict(list)
        n_warned = 0
        for seed in range(n_sets):
            X, _, truth = smp.datasets.make_smooth_mixture(kind, 1000, n_components=3, random_state=seed)
            model = fit(X, 3)
            found, is_flat = replicates(model, X, n_replicates, seed)
            n_warned += is_flat
            order = linear_sum_assignment(-truth.posterior(X).T @ model.predict_proba(X))[1]
            covered["weights"].append(covers(found.weights.values[:, order], truth.weights))
            new, labels = truth.sample(400_000, random_state=10_000 + seed)
            for s, r in enumerate(order):
                values = new[labels == s]
                covered["means"].append(covers(found["mean"].values[:, :, r], values.mean(axis=0)))
                for n, points in enumerate(np.quantile(values, DECILES, axis=0).T):
                    loc, scale = truth.loc[n, s], truth.scale[n, s]
                    density = (truth.standard.pdf((points[:, None] - loc) / scale) / scale).mean(axis=1)
                    for name, right in (("cdf", DECILES), ("density", density)):
                        curves = PchipInterpolator(found.x.values[n], found[name].values[:, n, :, r], axis=-1)
                        covered[name].append(covers(curves(points), right))
        shares = ", ".join(f"{name} {np.mean(values):.3f}" for name, values in covered.items())
        middle = np.mean(covered["density"], axis=0)[4]
        print(f"{kind}, {n_sets} data sets: {shares} ({middle:.2f} at the median); {n_warned} warn", flush=True)


def gaussians(apart: float, n_informative: int, n_variables: int, seed: int) -> np.ndarray:
    """Two groups of normal variables, 1000 samples, some of the variables with means that far apart."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(2, size=(1000, 1)) * np.repeat([apart, 0.0], [n_informative, n_variables - n_informative])
    return np.asarray(rng.normal(size=(1000, n_variables)) + groups)


def flatness(n_sets: int) -> None:
    """Fits whose bootstrap warns: none of the determined cases ought to, all of the others."""
    cases: dict[str, tuple[int, Any]] = {}
    for rank, truth in ((2, TWO), (3, THREE)):
        for n_samples in (200, 500, 1000, 5000):
            cases[f"determined: five items, R = {rank}, M = {n_samples}"] = (
                rank,
                lambda seed, truth=truth, n_samples=n_samples: draw_items(*truth, n_samples, seed)[0],
            )
    for kind in KINDS:
        for rank, n_variables, n_samples in ((2, 4, 300), (3, 10, 1000), (5, 10, 1000)):
            cases[f"determined: {kind}, R = {rank}, N = {n_variables}, M = {n_samples}"] = (
                rank,
                lambda seed, args=(kind, n_samples, n_variables, rank): (
                    smp.datasets.make_smooth_mixture(*args, random_state=seed).X
                ),
            )
    cases["determined: normal, 2 of 3 variables 3 apart"] = 2, lambda seed: gaussians(3.0, 2, 3, seed)
    for n_samples in (500, 1000, 3000, 10_000):
        cases[f"flat: two items and one of noise, M = {n_samples}"] = (
            2,
            lambda seed, n_samples=n_samples: draw_items(*NOISE, n_samples, seed)[0],
        )
    cases["flat: two items and two of noise, M = 3000"] = (
        2,
        lambda seed: draw_items(NOISE[0], [*NOISE[1], [0.4, 0.4]], 3000, seed)[0],
    )
    cases["flat: four items, R = 3, M = 1000"] = 3, lambda seed: draw_items(THREE[0], THREE[1][:4], 1000, seed)[0]
    cases["flat: five items of two classes, R = 3, M = 1000"] = 3, lambda seed: draw_items(*TWO, 1000, seed)[0]
    cases["flat: five items of one class, R = 2, M = 1000"] = (
        2,
        lambda seed: draw_items([1], [[0.4]] * 5, 1000, seed)[0],
    )
    for name, (rank, draw) in cases.items():
        found = []
        for seed in range(n_sets):
            X = draw(seed)
            refit = fit(X, rank)._refit(X)
            samples = refit.assign_to_grid(X)
            found.append(refit.flattest(samples, refit.posterior(samples)).deviation)
        warned = sum(each > FLAT for each in found)
        print(f"{name}: standard error {min(found):.2f} to {max(found):.2f}; {warned} of {n_sets} warn", flush=True)


if __name__ == "__main__":
    PARTS = {"items": items, "densities": densities, "flatness": flatness}
    options = options_of(__doc__, words=PARTS, sets=25, replicates=100, samples=1000)
    if options.part == "items":
        items(options.sets, options.replicates, options.samples)
    elif options.part == "densities":
        densities(options.sets, options.replicates)
    else:
        flatness(options.sets)
