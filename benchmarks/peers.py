"""The other methods of the benchmarks, all with the same two questions to answer: which component, and what density.

Gaussian mixtures and k-means are scikit-learn's, the mixture of product Laplace distributions is fitted here, the
kernel mixtures npEM and npMSL by R's package mixtools (benchmarks/mixtools_fit.R), where R and the package are
installed. Every density here integrates to one; `marginal_masses` measures it.

`python benchmarks/peers.py` prints the table of docs/tensors.md: TensorLy's decompositions of one tensor beside ours.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, Self

import numpy as np
import tensorly as tl
from scipy.special import logsumexp, softmax
from scipy.stats import norm
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture
from tensorly.decomposition import non_negative_parafac, non_negative_parafac_hals, parafac
from threadpoolctl import threadpool_limits

import tensorly_smp as smp

MIXTOOLS_SCRIPT = Path(__file__).with_name("mixtools_fit.R")
MIXTOOLS_SECONDS = 1800


class ProductMixture:
    """What mixtures of products share: subclasses give weights_ and conditional_logpdf (n_points, n_components)."""

    weights_: np.ndarray

    def log_joint(self, X: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            joint = np.log(self.weights_) + np.zeros((len(X), 1))
        for n in range(X.shape[1]):
            joint += self.conditional_logpdf(X[:, n], n)
        return joint

    def score_samples(self, X: np.ndarray) -> np.ndarray:
        return logsumexp(self.log_joint(X), axis=1)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.log_joint(X).argmax(axis=1)


# ---- mixture of product Laplace distributions (the paper's "EM LMM") ----


class LaplaceMixture(ProductMixture):
    """Maximum likelihood by EM. Locations are weighted medians, scales weighted mean absolute deviations from them.

    The best of `n_init` starts is kept: in turn the clusters of k-means, and those of randomly chosen samples. `trace_`
    has the mean log-likelihood after every step, which never falls; loc_ and scale_ are (n_variables, n_components).
    """

    def __init__(
        self, n_components: int, n_init: int = 5, max_iter: int = 500, tol: float = 1e-5, random_state: int = 0
    ) -> None:
        self.n_components, self.n_init, self.max_iter, self.tol = n_components, n_init, max_iter, tol
        self.random_state = random_state

    def fit(self, X: np.ndarray) -> Self:
        order = np.argsort(X, axis=0)
        # A component on one point would have scale 0 and infinite likelihood; scikit-learn's Gaussians have the like.
        self._least_scale = 1e-3 * np.abs(X - np.median(X, axis=0)).mean(axis=0) + np.finfo(float).tiny
        best: tuple[float, dict[str, Any]] = (-np.inf, {})
        for start in range(self.n_init):
            self._climb(X, order, self._start(X, start))
            if self.trace_[-1] > best[0]:
                best = self.trace_[-1], vars(self).copy()
        vars(self).update(best[1])
        return self

    def _start(self, X: np.ndarray, start: int) -> np.ndarray:
        """Responsibilities (n_samples, n_components), all 0 or 1."""
        if start % 2 == 0:
            seed = self.random_state + 1000 * start
            labels = KMeans(self.n_components, n_init=1, random_state=seed).fit_predict(X)
        else:
            chosen = np.random.default_rng((self.random_state, start)).choice(len(X), self.n_components, replace=False)
            labels = np.abs(X[:, None, :] - X[chosen]).sum(axis=2).argmin(axis=1)
        return np.eye(self.n_components)[labels]

    def _climb(self, X: np.ndarray, order: np.ndarray, responsibilities: np.ndarray) -> None:
        self.trace_ = []
        for _ in range(self.max_iter):
            self._maximize(X, order, responsibilities)
            joint = self.log_joint(X)
            self.trace_.append(float(logsumexp(joint, axis=1).mean()))
            if len(self.trace_) > 1 and self.trace_[-1] - self.trace_[-2] < self.tol:
                break
            responsibilities = softmax(joint, axis=1)

    def _maximize(self, X: np.ndarray, order: np.ndarray, responsibilities: np.ndarray) -> None:
        # An empty component would divide by zero; it stays, with a weight of zero.
        totals = responsibilities.sum(axis=0)
        self.weights_, safe = totals / totals.sum(), np.maximum(totals, np.finfo(float).tiny)
        shape = X.shape[1], self.n_components
        self.loc_, self.scale_ = np.empty(shape), np.empty(shape)
        for n, x in enumerate(X.T):
            self.loc_[n] = weighted_medians(x, responsibilities, order[:, n])
            deviations = np.abs(x[:, None] - self.loc_[n])
            self.scale_[n] = np.maximum((responsibilities * deviations).sum(axis=0) / safe, self._least_scale[n])

    def conditional_logpdf(self, x: np.ndarray, variable: int) -> np.ndarray:
        loc, scale = self.loc_[variable], self.scale_[variable]
        return -np.abs(x[:, None] - loc) / scale - np.log(2.0 * scale)


def weighted_medians(x: np.ndarray, weights: np.ndarray, order: np.ndarray) -> np.ndarray:
    """For every column of `weights` (n_samples, n_columns), the value of `x` that minimizes sum_m w_m |x_m - value|.

    `order` sorts x. The least such value, where there are several.
    """
    running = np.cumsum(weights[order], axis=0)
    return x[order][(running >= 0.5 * running[-1]).argmax(axis=0)]


# ---- mixtools ----


class KernelMixture(ProductMixture):
    """The densities of mixtools' npEM and npMSL: Gaussian kernels on the samples, weighted by their posteriors.

    On a grid that reaches one range of the data beyond them on either side, at least `floor` everywhere (with Gaussian
    tails alone, one outlier among the new samples decides the whole divergence), linear between the points, and
    divided by its integral, which for a function that is linear between the points is the trapezoidal sum exactly.
    """

    def __init__(
        self, X: np.ndarray, posteriors: np.ndarray, weights: np.ndarray, bandwidth: float, floor: float = 1e-5
    ) -> None:
        self.weights_ = weights / weights.sum()
        parts = posteriors / posteriors.sum(axis=0)
        self.grids_, self.values_ = [], []
        for x in X.T:
            span = max(np.ptp(x), 10.0 * bandwidth)
            grid = np.linspace(x.min() - span, x.max() + span, int(np.ceil(3.0 * span / (0.1 * bandwidth))) + 1)
            kernels = np.exp(-0.5 * ((grid[:, None] - x) / bandwidth) ** 2) / (np.sqrt(2.0 * np.pi) * bandwidth)
            values = np.maximum(kernels @ parts, floor)
            self.grids_.append(grid)
            self.values_.append(values / np.trapezoid(values, grid, axis=0))

    def conditional_logpdf(self, x: np.ndarray, variable: int) -> np.ndarray:
        grid, values = self.grids_[variable], self.values_[variable]
        columns = [np.interp(x, grid, column, left=0.0, right=0.0) for column in values.T]
        with np.errstate(divide="ignore"):
            return np.log(np.column_stack(columns))


@functools.cache
def has_mixtools() -> bool:
    rscript = shutil.which("Rscript")
    question = 'quit(status = !requireNamespace("mixtools", quietly = TRUE))'
    return rscript is not None and subprocess.run([rscript, "-e", question], capture_output=True).returncode == 0


def fit_mixtools(method: str, X: np.ndarray, n_components: int, seed: int) -> KernelMixture:
    """Fit npEM or npMSL with their defaults, in R."""
    if not has_mixtools():
        raise ModuleNotFoundError("R, or its package mixtools, is not installed.")
    with tempfile.TemporaryDirectory() as folder:
        np.savetxt(Path(folder, "samples.csv"), X, delimiter=",", fmt="%.17g")
        command = ["Rscript", os.fspath(MIXTOOLS_SCRIPT), method, str(n_components), str(seed), folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=MIXTOOLS_SECONDS)
        if done.returncode:
            raise RuntimeError(f"Rscript failed: {done.stderr.strip()[-200:]}")
        read = functools.partial(np.loadtxt, delimiter=",", ndmin=2)
        posteriors, weights, bandwidth = (
            read(Path(folder, f"{name}.csv")) for name in ("posteriors", "weights", "bandwidth")
        )
    return KernelMixture(X, posteriors, weights.ravel(), bandwidth.item())


# ---- fits by name ----


def fit_peer(method: str, X: np.ndarray, n_components: int, seed: int) -> Any:
    """Fitted model with predict and, except for k-means, score_samples."""
    if method in ("GMM diag", "GMM full"):
        kind = method.removeprefix("GMM ")
        return GaussianMixture(n_components, covariance_type=kind, n_init=5, random_state=seed).fit(X)
    if method == "k-means":
        return KMeans(n_components, n_init=5, random_state=seed).fit(X)
    if method == "EM Laplace":
        return LaplaceMixture(n_components, random_state=seed).fit(X)
    return fit_mixtools(method, X, n_components, seed)


# ---- normalization ----


def marginal_logpdf(model: Any, x: np.ndarray, variable: int, n_variables: int) -> np.ndarray:
    """Log-density (n_points,) of one variable, of any of the models of the benchmarks."""
    if isinstance(model, smp.SmoothProductMixture):
        # Missing entries are integrated out: this goes the way of every other call of score_samples.
        others_missing = np.full((len(x), n_variables), np.nan)
        others_missing[:, variable] = x
        return model.score_samples(others_missing)
    if isinstance(model, GaussianMixture):
        logs = norm.logpdf(x[:, None], model.means_[:, variable], _scales(model, variable))
    else:
        logs = model.conditional_logpdf(x, variable)
    return logsumexp(logs, b=model.weights_, axis=1)


def marginal_masses(model: Any, X: np.ndarray, n_points: int = 4001) -> np.ndarray:
    """Numerical integral (n_variables,) of the density of every variable over the whole line.

    Trapezoidal sum over points center + width sinh(t): fine among the samples, and out to 10^5 times their spread; and
    as fine about the center of every component of the models that have one, which may be narrower than that.
    """
    t = np.linspace(-13.0, 13.0, n_points)
    masses = []
    for n, samples in enumerate(X.T):
        centers, widths = [samples.mean()], [samples.std()]
        if isinstance(model, LaplaceMixture):
            centers, widths = np.r_[centers, model.loc_[n]], np.r_[widths, model.scale_[n]]
        elif isinstance(model, GaussianMixture):
            centers, widths = np.r_[centers, model.means_[:, n]], np.r_[widths, _scales(model, n)]
        x = np.unique(np.array(centers)[:, None] + np.array(widths)[:, None] * np.sinh(t))
        masses.append(np.trapezoid(np.exp(marginal_logpdf(model, x, n, X.shape[1])), x))
    return np.array(masses)


def _scales(model: GaussianMixture, variable: int) -> np.ndarray:
    covariances = model.covariances_[:, variable]
    return np.sqrt(covariances if model.covariance_type == "diag" else covariances[:, variable])


# ---- decompositions of one tensor ----

#: Entries along a mode, components, counts (0: the exact tensor).
TENSORS = ((30, 10, 0), (60, 20, 1_000_000), (120, 10, 1_000_000))
N_TRUTHS = 3


def decompositions() -> dict[str, Any]:
    """Functions of a tensor and a rank that return a CPTensor; TensorLy's with its defaults but for more iterations."""

    def ours(loss: str) -> Any:
        return lambda tensor, rank: smp.coupled_simplex_parafac(tensor, rank, loss=loss, random_state=0).to_cp_tensor(
            scale=True
        )

    theirs = [non_negative_parafac_hals, non_negative_parafac, parafac]
    options: dict[str, Any] = {"n_iter_max": 500, "random_state": 0}
    return {
        "coupled_simplex_parafac, KL": ours("kl"),
        "coupled_simplex_parafac, Frobenius": ours("frobenius"),
        **{each.__name__: functools.partial(each, **options) for each in theirs},
    }


def compare_decompositions() -> None:
    """Distance from the true tensor, relative to its norm, and processor seconds: medians over truths."""
    methods = decompositions()
    print(f"{'':36}" + "".join(f"{f'{size}^3, rank {rank}, {count:,} counts':>32}" for size, rank, count in TENSORS))
    cells: dict[str, list[str]] = {name: [] for name in methods}
    for size, rank, count in TENSORS:
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in methods}
        for seed in range(N_TRUTHS):
            rng = np.random.default_rng(seed)
            columns = [rng.dirichlet(np.ones(size), rank).T for _ in range(3)]
            truth = tl.cp_to_tensor((rng.dirichlet(np.full(rank, 5.0)), columns))
            tensor = rng.poisson(count * truth).astype(float) if count else truth
            for name, method in methods.items():
                began = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = tl.cp_to_tensor(method(tensor, rank)) / (count or 1)
                seconds = time.process_time() - began
                found[name].append((float(tl.norm(model - truth) / tl.norm(truth)), seconds))
        for name, pairs in found.items():
            distance, seconds = np.median(pairs, axis=0)
            cells[name].append(f"{f'{distance:.2g} ({seconds:.2g} s)':>32}")
    for name, row in cells.items():
        print(f"{name:36}" + "".join(row), flush=True)


if __name__ == "__main__":
    with threadpool_limits(1):
        compare_decompositions()
