"""Figures of UnmixedProductMixture: is the map recovered, does it pay on real data, what does it cost without need?

    python benchmarks/bench_unmixed.py truths [--truths 10]     x = A z, the paper's four cases
    python benchmarks/bench_unmixed.py rotation [--truths 2]    the same samples rotated, and rescaled
    python benchmarks/bench_unmixed.py product [--truths 5]     no map at all: what the unmixed model loses held out
    python benchmarks/bench_unmixed.py real [--splits 10]       real labelled data: the three models beside others
                                                    [--folds 5] and the one that compare_models advises for groups

Real data: half of the samples are fitted, the other half judges, by log-density (variables in units of their standard
deviation) and adjusted Rand index of clusters and classes.
Run it with OMP_NUM_THREADS=1: matrices are small.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator

import numpy as np
from common import KINDS, options_of, processor_time
from real_data import DATA
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

import tensorly_smp as smp
from tensorly_smp.selection.models import MODELS

# ---- drawn samples ----


def random_mixing(n: int, condition: float, seed: int) -> np.ndarray:
    """Matrix (n, n) with singular values from 1 to `condition`, evenly spaced on a logarithmic scale."""
    rng = np.random.default_rng(seed)
    left, right = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    return left @ np.diag(np.geomspace(1.0, condition, n)) @ right


def amari_distance(product: np.ndarray) -> float:
    """Between 0, for a product W A that only permutes and scales, and 1."""
    sizes = np.abs(product)
    n = len(sizes)
    rows, columns = ((sizes / sizes.max(axis=axis, keepdims=True)).sum() for axis in (1, 0))
    return float((rows + columns - 2 * n) / (2 * n * (n - 1)))


def fitted(X: np.ndarray, kind: type = smp.UnmixedProductMixture) -> smp.UnmixedProductMixture:
    return kind(3, random_state=0).fit(X)


def truths(options: argparse.Namespace) -> None:
    """Accuracy and likelihood beside the fit that knows A and the product mixture; Amari distance; CPU seconds."""
    print("case      truth | accuracy: true knows A product unmixed | log-lik.: knows A unmixed | Amari, seconds")
    for kind in KINDS:
        for seed in range(options.truths):
            data = smp.datasets.make_smooth_mixture(kind, options.samples[-1], 6, 3, random_state=seed)
            mixing = random_mixing(6, 10.0, 1000 + seed)
            X = data.X @ mixing.T
            known, product = (fitted(values, smp.SmoothProductMixture) for values in (data.X, X))
            model, seconds = processor_time(lambda X=X: fitted(X))
            labels = data.mixture.predict(data.X), known.predict(data.X), product.predict(X), model.labels_
            right = "   ".join(f"{smp.metrics.clustering_accuracy(data.labels, found):.3f}" for found in labels)
            likelihood = known.score(data.X) - np.linalg.slogdet(mixing)[1]
            amari = amari_distance(model.unmixing_.values @ mixing)
            print(f"{kind:10s}{seed:5d} | {right} | {likelihood:.3f} {model.score(X):.3f} | {amari:.3f} {seconds:.1f}",
                  flush=True)  # fmt: skip


def rotation(options: argparse.Namespace) -> None:
    """Log-likelihood of samples, of the same samples rotated, and rescaled."""
    scales = np.geomspace(1e-3, 1e3, 6)
    for kind in KINDS:
        for seed in range(options.truths):
            X = smp.datasets.make_smooth_mixture(kind, options.samples[-1], 6, 3, random_state=seed).X
            X = X @ random_mixing(6, 10.0, 1000 + seed).T
            turned = X @ random_mixing(6, 1.0, 2000 + seed).T
            plain, rotated, scaled = (fitted(values).score(values) for values in (X, turned, X * scales))
            scaled += np.log(scales).sum()
            print(f"{kind:10s}{seed:3d} | {plain:8.4f}; rotated {rotated - plain:+8.4f}, rescaled "
                  f"{scaled - plain:+10.6f} nats a sample", flush=True)  # fmt: skip


def product(options: argparse.Namespace) -> None:
    """What the unmixed model loses held out where the product model is right."""
    for kind in KINDS:
        for n_samples in options.samples:
            losses, preferred = [], 0
            for seed in range(options.truths):
                data = smp.datasets.make_smooth_mixture(kind, n_samples, 6, 3, random_state=seed)
                new, _ = data.mixture.sample(20_000, random_state=seed + 1)
                model = fitted(data.X)
                losses.append(fitted(data.X, smp.SmoothProductMixture).score(new) - model.score(new))
                preferred += model.is_product_
            print(f"{kind:10s}{n_samples:6d} samples: loss mean {np.mean(losses):+.4f}, most {np.max(losses):+.4f} "
                  f"nats a sample; product model preferred in {preferred} of {options.truths}", flush=True)  # fmt: skip


# ---- real data ----


def halves(options: argparse.Namespace) -> Iterator[tuple]:
    """Name, size, and for all splits the half that is fitted, the other one and its classes."""
    for name in options.data:
        data = DATA[name]()
        complete = data.X.notna().all(axis=1).to_numpy()
        X, classes, half = data.X.to_numpy()[complete], data.classes[complete], complete.sum() // 2
        if X.shape[1] < 3:
            continue
        X = X / X.std(axis=0)
        orders = [np.random.default_rng(split).permutation(len(X)) for split in range(options.splits)]
        parts = [(X[order[:half]], X[order[half:]], classes[order[half:]]) for order in orders]
        yield f"{name}, {half} × {X.shape[1]}, {data.n_classes}", data.n_classes, parts


def real(options: argparse.Namespace) -> None:
    """Log-density and adjusted Rand index of all models, and which models are chosen; then the means of the indices."""
    names = [*MODELS, "full", "diagonal", "k-means"] + (["for groups"] if options.folds else [])
    print(
        "data, samples x variables, components | " + " | ".join(names) + " | unmixed: product, log-concave; for groups"
    )
    means = []
    for name, rank, parts in halves(options):
        rows, chosen, advised = [], np.zeros(2, dtype=int), []
        for train, test, kinds in parts:
            models = {each: clone(model).set_params(n_components=rank, random_state=0).fit(train)
                      for each, (model, _) in MODELS.items()}  # fmt: skip
            unmixed = models["unmixed"]
            chosen += unmixed.is_product_, unmixed.mixture_.shape is not None
            for kind in ("full", "diag"):
                gaussian = GaussianMixture(rank, covariance_type=kind, n_init=5, random_state=0, reg_covar=1e-3)
                models[kind] = gaussian.fit(train)
            models["k-means"] = KMeans(rank, n_init=5, random_state=0).fit(train)
            if options.folds:
                table = smp.compare_models(train, rank, n_folds=options.folds, random_state=0)
                advised.append(table.attrs["for_groups"])
                models["for groups"] = models[advised[-1]]
            rows.append([(np.nan if isinstance(each, KMeans) else each.score(test),
                          adjusted_rand_score(kinds, each.predict(test))) for each in models.values()])  # fmt: skip
        means.append(np.mean(rows, axis=0))
        cells = [f"{density:.2f}, {index:.2f}".removeprefix("nan, ") for density, index in means[-1]]
        counts = ", ".join(f"{each} {advised.count(each)}" for each in MODELS if each in advised)
        print(f"| {name} | {' | '.join(cells)} | {chosen[0]}, {chosen[1]} of {len(parts)}; {counts}", flush=True)
    print("mean index | " + " | ".join(f"{index:.3f}" for index in np.mean(means, axis=0)[:, 1]))


if __name__ == "__main__":
    PARTS = {"truths": truths, "rotation": rotation, "product": product, "real": real}
    options = options_of(__doc__, words=PARTS, truths=2, samples=(1000, 5000), splits=3, folds=0, data=tuple(DATA))
    warnings.simplefilter("ignore")
    PARTS[options.part](options)
