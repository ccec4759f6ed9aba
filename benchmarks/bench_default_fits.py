"""CPU seconds of default fits of many shapes, beside scikit-learn's diagonal Gaussian mixture with five starts.

    OMP_NUM_THREADS=1 python benchmarks/bench_default_fits.py [--truths 3] [--samples 1000 10000 100000] [--no-wide]

First table: the paper's four cases, ten variables, five and ten components; medians over the mixtures, and for every
number of samples the geometric mean of the ratios. Second table: digits, and more variables than samples. Compiled
kernels are loaded before.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

import tensorly_smp as smp

CASES = ("gaussian", "gmm", "gamma", "laplace")
RANKS = (5, 10)
#: Numbers of samples, variables and components.
WIDE = ((20, 1000, 2), (60, 1000, 3), (30, 200, 2), (5500, 40, 11), (10_000, 1000, 10))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--truths", type=int, default=3, help="random mixtures per case (default 3)")
    parser.add_argument("--samples", nargs="+", type=int, default=[1000, 10_000, 100_000])
    parser.add_argument("--no-wide", action="store_true", help="the first table only")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", smp.exceptions.TensorlySmpWarning)
    with threadpool_limits(1):
        fit(smp.datasets.make_smooth_mixture("gmm", 300, 10, 10, random_state=0).X, 10)
        for n_samples in options.samples:
            ratios = [ratio(case, rank, n_samples, options.truths) for rank in RANKS for case in CASES]
            print(
                f"{n_samples} samples, geometric mean of the ratios: {np.exp(np.mean(np.log(ratios))):.2f}", flush=True
            )
        if not options.no_wide:
            digits = load_digits().images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)
            print(f"digits 4 x 4, 10 components: {cpu(lambda: fit(digits, 10)):.2f} s", flush=True)
            for n_samples, n_variables, rank in WIDE:
                X = smp.datasets.make_smooth_mixture("gaussian", n_samples, n_variables, rank, random_state=0).X
                seconds = cpu(lambda X=X, rank=rank: fit(X, rank))
                print(f"{n_samples} x {n_variables}, {rank} components: {seconds:.2f} s", flush=True)


def ratio(case: str, rank: int, n_samples: int, n_truths: int) -> float:
    """Ratio of the medians of the seconds; prints them."""
    seconds = []
    for seed in range(n_truths):
        X = smp.datasets.make_smooth_mixture(case, n_samples, 10, rank, random_state=seed).X
        mixture = GaussianMixture(rank, covariance_type="diag", n_init=5, random_state=0)
        seconds.append((cpu(lambda X=X: fit(X, rank)), cpu(lambda X=X, mixture=mixture: mixture.fit(X))))
    ours, theirs = np.median(seconds, axis=0)
    name = f"{case:<9s} {rank:>2d} components, {n_samples:>6d} samples"
    print(f"{name}: {ours:.3f} s / {theirs:.3f} s = {ours / theirs:.2f}")
    return float(ours / theirs)


def fit(X: np.ndarray, rank: int) -> smp.SmoothProductMixture:
    return smp.SmoothProductMixture(rank, random_state=0).fit(X)


def cpu(work: Callable[[], Any]) -> float:
    """Seconds of the processor."""
    began = time.process_time()
    work()
    return time.process_time() - began


if __name__ == "__main__":
    main()
