"""One unmixing matrix for all components against a matrix for every component, on real labelled data.

    python benchmarks/bench_own_matrices.py [--splits 5] [--data iris wine ...]

Half of the samples are fitted, the other half judges: log-density per sample (variables in units of their standard
deviation) and adjusted Rand index of the clusters with the classes. The model with a matrix for every component,
f(x) = sum_r w_r |det W_r| prod_n f_n((W_r x)_n | r), is the mixture of Zhu and Hunter (2019) with log-splines in place
of kernels. It is not part of the package. It starts from the fit with one matrix, and from a full Gaussian mixture with
whitened and with independent components (FastICA); of the three ends the one with the highest log-likelihood less
effective parameters is taken. Run it with OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass

import numpy as np
from real_data import DATA
from scipy.special import logsumexp
from sklearn.decomposition import FastICA
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

import tensorly_smp as smp
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.likelihood.observed import Observed
from tensorly_smp.unmixing.sources import Shrinkage, SourceFit, fit_sources, maximize_unmixing
from tensorly_smp.unmixing.starts import inverse_root, shrinkage_to_diagonal

NAMES = ("iris", "wine", "breast cancer", "penguins", "penguins, body", "diabetes, 2", "diabetes, 3", "Indian Pines")
#: Rounds of densities and matrices, rounds without a gain after which they end, and rounds with the same coordinates.
N_ROUNDS, PATIENCE, KEPT = 25, 5, 8


@dataclass(frozen=True, eq=False)
class OwnMatrices:
    """Log-weights, matrices and densities of the sources, by component."""

    log_weights: np.ndarray
    matrices: list[np.ndarray]
    fits: list[SourceFit]

    def log_joint(self, X: np.ndarray) -> np.ndarray:
        """Logarithm of w_r f_r(x), (n_samples, rank)."""
        none = np.empty((len(X), 0))
        columns = [
            fit.log_joint(X @ matrix.T, none)[:, 0] + np.linalg.slogdet(matrix)[1]
            for fit, matrix in zip(self.fits, self.matrices, strict=True)
        ]
        return self.log_weights + np.stack(columns, axis=1)


def fit_own_matrices(X: np.ndarray, posterior: np.ndarray, matrices: list[np.ndarray]) -> tuple[float, OwnMatrices]:
    """The best model on the way from posteriors and matrices, and its log-likelihood less effective parameters."""
    n_samples, n = X.shape
    rank = posterior.shape[1]
    none = np.empty((n_samples, 0))
    every = np.ones((n_samples, 1))
    fits: list[SourceFit | None] = [None] * rank
    best, since = (-np.inf, None), 0
    for step in range(N_ROUNDS):
        fits = [
            fit_sources(
                X @ matrices[r].T, none, (), every, posterior[:, r], "reml", 1, fits[r] if step % KEPT else None
            )
            for r in range(rank)
        ]
        model = OwnMatrices(np.log(np.maximum(posterior.mean(axis=0), 1e-12)), list(matrices), list(fits))
        joint = model.log_joint(X)
        log_densities = logsumexp(joint, axis=1)
        n_parameters = rank * n * (n - 1) + sum(fit.n_parameters for fit in fits)
        criterion = float(log_densities.sum() - n_parameters)
        since = 0 if criterion > best[0] + 0.1 else since + 1
        if criterion > best[0]:
            best = criterion, model
        if since >= PATIENCE:
            break
        posterior = np.exp(joint - log_densities[:, None])
        matrices = [moved(X, posterior[:, r] + 1e-12, matrices[r], fits[r]) for r in range(rank)]
    return best


def moved(X: np.ndarray, weights: np.ndarray, matrix: np.ndarray, fit: SourceFit) -> np.ndarray:
    """The matrix of one component after a search with the densities held, shrunk as the package shrinks its own."""
    centered = X - weights @ X / weights.sum()
    variances, within = (
        np.maximum(weights @ values**2 / weights.sum(), 1e-8) for values in (centered, centered @ matrix.T)
    )
    share = shrinkage_to_diagonal(centered, weights)
    shrinkage = Shrinkage(variances, weights.sum() * min(share / max(1.0 - share, 1e-3), 1.0), 1.0)
    return maximize_unmixing(X, weights, matrix, np.zeros(1), fit.densities, within, shrinkage)[0]


def starts(X: np.ndarray, shared: smp.UnmixedProductMixture, gaussian: GaussianMixture) -> list[tuple]:
    """Posteriors and matrices of the components."""
    posterior = gaussian.predict_proba(X)
    n = X.shape[1]
    matrix = shared.unmixing_.values if len(shared.unmixing_) == n else np.eye(n)
    whitened = [inverse_root(covariance + 1e-3 * np.eye(n)) for covariance in gaussian.covariances_]
    independent = []
    for r, root in enumerate(whitened):
        rows = X[posterior[:, r] > 0.5]
        if len(rows) <= n:
            independent.append(root)
            continue
        found = FastICA(whiten=False, random_state=0, max_iter=300).fit((rows - rows.mean(axis=0)) @ root.T)
        independent.append(found.components_ @ root)
    return [
        (shared.predict_proba(X), [matrix] * shared.n_components),
        (posterior, whitened),
        (posterior, independent),
    ]


def compare(X: np.ndarray, classes: np.ndarray, rank: int, seed: int) -> np.ndarray:
    """Held-out log-density and adjusted Rand index (3, 2): one matrix, own matrices, full Gaussian mixture."""
    order = np.random.default_rng(seed).permutation(len(X))
    half = len(X) // 2
    train, test = X[order[:half]], X[order[half:]]
    center, scale = train.mean(axis=0), train.std(axis=0)
    train, test = (train - center) / scale, (test - center) / scale
    shared = smp.UnmixedProductMixture(rank, random_state=0).fit(train)
    gaussian = GaussianMixture(rank, n_init=5, random_state=0, reg_covar=1e-3).fit(train)
    # Rounded values lie on lines along which a density may be as high as it likes: spread evenly over the step.
    steps = np.array([Observed.of(column, None).step for column in train.T])
    spread = train + steps * np.random.default_rng(0).uniform(-0.5, 0.5, train.shape)
    ends = []
    for posterior, matrices in starts(spread, shared, gaussian):
        try:
            ends.append(fit_own_matrices(spread, posterior, matrices))
        except InvalidInputError:  # a component of one sample
            continue
    own = max(ends, key=lambda end: end[0])[1].log_joint(test)
    kinds = classes[order[half:]]
    rows = [
        (shared.score(test), adjusted_rand_score(kinds, shared.predict(test))),
        (logsumexp(own, axis=1).mean(), adjusted_rand_score(kinds, own.argmax(axis=1))),
        (gaussian.score(test), adjusted_rand_score(kinds, gaussian.predict(test))),
    ]
    return np.array(rows) - [[np.log(scale).sum(), 0.0]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--data", nargs="*", default=NAMES, help="names of real data")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(
        f"{'data':16s}{'M x N, R':>14s} | {'one matrix':>16s} {'own matrices':>16s} {'full Gaussian':>16s} | own ahead"
    )
    for name in arguments.data:
        data = DATA[name]()
        complete = data.X.notna().all(axis=1).to_numpy()
        X, classes = data.X.to_numpy()[complete], data.classes[complete]
        X = X / X.std(axis=0)
        found = np.array([compare(X, classes, data.n_classes, split) for split in range(arguments.splits)])
        cells = " ".join(f"{density:9.3f} / {index:.2f} " for density, index in found.mean(axis=0))
        ahead = int((found[:, 1, 0] > found[:, 0, 0]).sum())
        size = f"{len(X) // 2} x {X.shape[1]}, {data.n_classes}"
        print(f"{name:16s}{size:>14s} | {cells}| {ahead} of {arguments.splits}", flush=True)


if __name__ == "__main__":
    main()
