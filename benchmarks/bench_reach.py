"""How often a default fit ends as high as the same fit that is started at the truth.

    OMP_NUM_THREADS=1 python benchmarks/bench_reach.py                   ten truths of ten cases: ten minutes
    OMP_NUM_THREADS=1 python benchmarks/bench_reach.py --truths 2 --cases 8 9

Both fits go on to tol=1e-8. The one at the truth starts from histograms counted from the true labels
(init=MixtureFactors). The criterion is the one by which candidates are compared, log-likelihood less the effective
number of parameters (result_.start_criterion), in nats summed over samples. Accuracy (in points below the true model)
and KL(true || learned) are of 2000 new samples. CPU seconds are of a default fit with its own tolerance, and beside
scikit-learn's diagonal Gaussian mixture with five starts.

"gap" is the criterion of the default fit less that of the fit from the truth; a fit has reached it if that is no less
than -2.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from common import options_of, processor_time
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

import tensorly_smp as smp

#: Kind, numbers of variables, components and samples, and the concentration of the weights' Dirichlet distribution.
CASES = (
    ("gmm", 4, 3, 1000, 10.0),
    ("laplace", 4, 4, 2000, 10.0),
    ("gmm", 6, 8, 3000, 10.0),
    ("gaussian", 5, 12, 2000, 10.0),
    ("gmm", 20, 20, 4000, 10.0),
    ("laplace", 10, 20, 5000, 10.0),
    ("gaussian", 10, 30, 6000, 10.0),
    ("gamma", 6, 15, 4000, 10.0),
    ("gmm", 10, 5, 300, 1.0),
    ("laplace", 10, 10, 1000, 10.0),
)
N_NEW = 2000
N_BINS = 15
REACHED = -2.0


def main(arguments: list[str] | None = None) -> None:
    options = options_of(__doc__, arguments, truths=10, cases=tuple(range(len(CASES))), samples=0)
    warnings.simplefilter("ignore", smp.exceptions.TensorlySmpWarning)
    print(
        f"{'case':<26s} {'reached':>8s} {'worst':>7s} {'points':>14s} {'KL':>14s} {'CPU s':>6s} {'beside':>7s}   gaps"
    )
    every: list[np.ndarray] = []
    with threadpool_limits(1):
        for number in options.cases:
            every.append(one_case(number, options.truths, options.samples or None))
    rows = np.concatenate(every)
    low = rows[:, 0] < REACHED
    print(f"reached: {np.sum(~low)} of {len(rows)}, {100 * np.mean(~low):.0f} %")
    if low.any():
        lost = rows[low, 1] - rows[low, 2]
        print(
            f"accuracy lost by those that end lower: {np.max(lost):.1f} points at most, {np.mean(lost):.1f} in the mean"
        )


def one_case(number: int, n_truths: int, n_samples: int | None) -> np.ndarray:
    """Gap, points, points from the truth, KL, KL from the truth, seconds and seconds beside (n_truths, 7)."""
    kind, n_variables, rank, samples, concentration = CASES[number]
    rows = np.array([one_truth(number, seed, n_samples or samples) for seed in range(n_truths)])
    mean, gaps = rows.mean(axis=0), rows[:, 0]
    name = f"{kind} {n_variables}, {rank}, {n_samples or samples}" + (" unequal" if concentration < 10 else "")
    shown = " ".join(f"{gap:.0f}" for gap in gaps)
    reached = np.sum(gaps >= REACHED)
    print(
        f"{name:<26s} {reached:>4d}/{len(gaps):<3d} {gaps.min():>7.1f} {mean[1]:>6.2f} /{mean[2]:>6.2f} "
        f"{mean[3]:>6.3f} /{mean[4]:>6.3f} {mean[5]:>6.2f} {mean[6]:>7.2f}   {shown}",
        flush=True,
    )
    return rows


def one_truth(number: int, seed: int, n_samples: int) -> tuple[float, ...]:
    kind, n_variables, rank, _, concentration = CASES[number]
    truth = smp.datasets.make_smooth_mixture(kind, 1, n_variables, rank, random_state=seed).mixture
    rng = np.random.default_rng(seed)
    if concentration < 10:
        shares = np.maximum(rng.dirichlet(np.full(rank, concentration)), 1e-3)
        truth = smp.datasets.TrueMixture(shares / shares.sum(), truth.standard, truth.loc, truth.scale)
    X, labels = truth.sample(n_samples, random_state=rng)
    new, new_labels = truth.sample(N_NEW, random_state=rng)
    options: dict[str, Any] = dict(n_bins=N_BINS, random_state=seed)
    _, seconds = processor_time(lambda: smp.SmoothProductMixture(rank, **options).fit(X))
    gaussian = GaussianMixture(rank, covariance_type="diag", n_init=5, random_state=seed)
    _, beside = processor_time(lambda: gaussian.fit(X))
    options |= dict(tol=1e-9, max_iter=20_000)  # the tolerance of smoothed EM is ten times tol
    found = smp.SmoothProductMixture(rank, **options).fit(X)
    started = smp.SmoothProductMixture(rank, init=label_factors(X, labels, rank), **options).fit(X)
    best_possible = smp.metrics.clustering_accuracy(new_labels, truth.predict(new))
    figures = []
    for model in (found, started):
        accuracy = smp.metrics.clustering_accuracy(new_labels, model.predict(new))
        figures.append((100 * (best_possible - accuracy), smp.metrics.kl_divergence_mc(truth, model, X=new).value))
    (points, divergence), (started_points, started_divergence) = figures
    gap = criterion(found) - criterion(started)
    return gap, points, started_points, divergence, started_divergence, seconds, beside


def label_factors(X: np.ndarray, labels: np.ndarray, rank: int) -> smp.MixtureFactors:
    """Histograms of the true components."""
    codes = smp.encode_samples(X, smp.choose_binning(X, n_bins=N_BINS))
    members = np.eye(rank)[labels] + 1e-9
    columns = [np.eye(N_BINS)[codes.values[:, n]].T @ members for n in range(X.shape[1])]
    return smp.MixtureFactors(
        members.sum(axis=0) / members.sum(), tuple(a / a.sum(axis=0) for a in columns), codes.binning
    )


def criterion(model: smp.SmoothProductMixture) -> float:
    return float(model.result_.start_criterion[model.result_.attrs["best_candidate"]])


if __name__ == "__main__":
    main()
