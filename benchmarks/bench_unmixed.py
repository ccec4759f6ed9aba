"""Figures of UnmixedProductMixture: is the map recovered, does it pay on real data, what does it cost without need?

    python benchmarks/bench_unmixed.py truths [--truths 10]     x = A z, the paper's four cases
    python benchmarks/bench_unmixed.py rotation [--truths 2]    the same samples rotated
    python benchmarks/bench_unmixed.py product [--truths 5]     no map at all: what the unmixed model loses held out
    python benchmarks/bench_unmixed.py real [--splits 10]       real labelled data beside other mixtures

Run it with OMP_NUM_THREADS=1: matrices are small.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from real_data import DATA
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

import tensorly_smp as smp

KINDS = ("gaussian", "gmm", "gamma", "laplace")


def random_mixing(n: int, condition: float, seed: int) -> np.ndarray:
    """Matrix (n, n) with singular values from 1 to `condition`, evenly spaced on a logarithmic scale."""
    rng = np.random.default_rng(seed)
    left, right = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    return left @ np.diag(np.geomspace(1.0, condition, n)) @ right


def amari_distance(product: np.ndarray) -> float:
    """Between 0, for a product W A that only permutes and scales, and 1."""
    sizes = np.abs(product)
    n = len(sizes)
    rows = (sizes / sizes.max(axis=1, keepdims=True)).sum()
    columns = (sizes / sizes.max(axis=0, keepdims=True)).sum()
    return float((rows + columns - 2 * n) / (2 * n * (n - 1)))


def truths(n_truths: int) -> None:
    """Accuracy and likelihood beside the fit that knows A and the product mixture; Amari distance; CPU seconds."""
    head = "accuracy: true  knows A  product unmixed | log-lik.: knows A unmixed | Amari seconds"
    print(f"{'case':10s}{'truth':>6s} | {head}")
    n_good = 0
    for kind in KINDS:
        for seed in range(n_truths):
            data = smp.datasets.make_smooth_mixture(kind, 5000, 6, 3, random_state=seed)
            mixing = random_mixing(6, 10.0, 1000 + seed)
            X = data.X @ mixing.T
            known = smp.SmoothProductMixture(3, random_state=0).fit(data.X)
            product = smp.SmoothProductMixture(3, random_state=0).fit(X)
            began = time.process_time()
            model = smp.UnmixedProductMixture(3, random_state=0).fit(X)
            seconds = time.process_time() - began
            accuracy = [
                smp.metrics.clustering_accuracy(data.labels, labels)
                for labels in (data.mixture.predict(data.X), known.predict(data.X), product.predict(X), model.labels_)
            ]
            likelihood = known.score(data.X) - np.linalg.slogdet(mixing)[1], model.score(X)
            amari = amari_distance(model.unmixing_.values @ mixing)
            n_good += accuracy[3] >= accuracy[1] - 0.01
            print(
                f"{kind:10s}{seed:6d} |          {accuracy[0]:5.3f}    {accuracy[1]:5.3f}    {accuracy[2]:5.3f}   "
                f"{accuracy[3]:5.3f} |          {likelihood[0]:8.3f}{likelihood[1]:8.3f} | {amari:5.3f} {seconds:7.1f}",
                flush=True,
            )
    print(f"Within one point of the fit that knows A: {n_good} of {len(KINDS) * n_truths}")


def rotation(n_truths: int) -> None:
    """Log-likelihood of samples and of the same samples rotated."""
    for kind in KINDS:
        for seed in range(n_truths):
            data = smp.datasets.make_smooth_mixture(kind, 5000, 6, 3, random_state=seed)
            X = data.X @ random_mixing(6, 10.0, 1000 + seed).T
            turned = X @ random_mixing(6, 1.0, 2000 + seed).T
            scaled = X * np.geomspace(1e-3, 1e3, 6)
            scores = [
                smp.UnmixedProductMixture(3, random_state=0).fit(each).score(each) for each in (X, turned, scaled)
            ]
            scores[2] += np.log(np.geomspace(1e-3, 1e3, 6)).sum()
            print(
                f"{kind:10s}{seed:3d} | {scores[0]:8.4f}; rotated {scores[1] - scores[0]:+8.4f}, rescaled "
                f"{scores[2] - scores[0]:+10.6f} nats a sample",
                flush=True,
            )


def product(n_truths: int) -> None:
    """What the unmixed model loses held out where the product model is right."""
    worst = 0.0
    for kind in KINDS:
        for n_samples in (1000, 5000):
            losses, preferred = [], 0
            for seed in range(n_truths):
                data = smp.datasets.make_smooth_mixture(kind, n_samples, 6, 3, random_state=seed)
                new, _ = data.mixture.sample(20_000, random_state=seed + 1)
                right = smp.SmoothProductMixture(3, random_state=0).fit(data.X).score(new)
                model = smp.UnmixedProductMixture(3, random_state=0).fit(data.X)
                losses.append(right - model.score(new))
                preferred += model.is_product_
            worst = max(worst, *losses)
            print(
                f"{kind:10s}{n_samples:6d} samples: loss mean {np.mean(losses):+.4f}, most {np.max(losses):+.4f} nats "
                f"a sample; product model preferred in {preferred} of {n_truths}",
                flush=True,
            )
    print(f"Largest loss {worst:.4f}")


def real(n_splits: int, names: list[str] | None) -> None:
    """Held-out log-density and adjusted Rand index, means over splits into halves."""
    columns = ("product", "unmixed", "full", "diagonal", "k-means")
    print(f"{'data':22s}{'M x N, R':>15s} | " + " ".join(f"{c:>16s}" for c in columns) + " | product chosen, seconds")
    for name, load in DATA.items():
        if names and name not in names:
            continue
        try:
            data = load()
        except ImportError as error:
            print(f"{name}: {error}")
            continue
        complete = data.X.notna().all(axis=1).to_numpy()
        X, classes = data.X.to_numpy()[complete], data.classes[complete]
        if X.shape[1] < 3:
            continue
        X = X / X.std(axis=0)
        rows: dict[str, list[tuple[float, float]]] = {column: [] for column in columns}
        chosen, seconds = 0, 0.0
        for split in range(n_splits):
            order = np.random.default_rng(split).permutation(len(X))
            train, test = X[order[: len(X) // 2]], X[order[len(X) // 2 :]]
            kinds, rank = classes[order[len(X) // 2 :]], data.n_classes
            began = time.process_time()
            unmixed = smp.UnmixedProductMixture(rank, random_state=0).fit(train)
            seconds, chosen = seconds + time.process_time() - began, chosen + unmixed.is_product_
            gaussian = dict(n_init=5, random_state=0, reg_covar=1e-3)
            models = {
                "product": smp.SmoothProductMixture(rank, random_state=0).fit(train),
                "unmixed": unmixed,
                "full": GaussianMixture(rank, covariance_type="full", **gaussian).fit(train),
                "diagonal": GaussianMixture(rank, covariance_type="diag", **gaussian).fit(train),
                "k-means": KMeans(rank, n_init=5, random_state=0).fit(train),
            }
            for column, model in models.items():
                density = np.nan if column == "k-means" else model.score(test)
                rows[column].append((density, adjusted_rand_score(kinds, model.predict(test))))
        cells = [f"{d:8.3f} / {a:5.3f}" for d, a in (np.mean(rows[column], axis=0) for column in columns)]
        size = f"{len(X) // 2} x {X.shape[1]}, {data.n_classes}"
        print(f"{name:22s}{size:>15s} | {' '.join(f'{c:>16s}' for c in cells)} | {chosen} of {n_splits}, "
              f"{seconds / n_splits:.1f}", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["truths", "rotation", "product", "real"], default="truths")
    parser.add_argument("--truths", type=int, default=2)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--data", nargs="*", help="names of real data, by default all")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.what == "real":
        real(arguments.splits, arguments.data)
    else:
        {"truths": truths, "rotation": rotation, "product": product}[arguments.what](arguments.truths)


if __name__ == "__main__":
    main()
