"""Which way of diagonalizing the slices stands noise best?

Prints the table that the docstring of ``gevd_parafac`` quotes. The losers live here only.

    python benchmarks/gevd_variants.py [n_trials]

Data: random tensors with Gaussian noise, and block histograms of samples from mixtures (multinomial noise) under the
balanced partition. Error: root mean square distance between true and found unit-norm columns of the first two factors,
components matched and signs aligned (0: exact, 1.4: orthogonal). Every way gets the same compression and the same base.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator

import numpy as np
import scipy.linalg
from scipy.optimize import linear_sum_assignment

from tensorly_smp.exceptions import AlgebraicStartError
from tensorly_smp.initializers.gevd import (
    base_slice,
    decompose_core,
    joint_eigenvectors,
    rank_one_columns,
    real_vectors,
    refine_cp,
    roots,
)
from tensorly_smp.marginals.partition import default_partition

Case = tuple[np.ndarray, list[np.ndarray], int]
Factors = tuple[np.ndarray, np.ndarray, np.ndarray]


# ---------------------------------------------------------------------------------------------------------------- data
def gaussian_case(rng: np.random.Generator, shape: tuple[int, ...], rank: int, decibel: float, common: float) -> Case:
    """Random normal factors whose columns share a part `common`, noise at a signal-to-noise ratio in decibel."""
    factors = []
    for size in shape:
        shared = rng.standard_normal((size, 1))
        factors.append(np.sqrt(1 - common) * rng.standard_normal((size, rank)) + np.sqrt(common) * shared)
    tensor = np.einsum("ir,jr,kr->ijk", *factors)
    noise = rng.standard_normal(shape)
    return tensor + noise * (np.linalg.norm(tensor) / np.linalg.norm(noise) * 10 ** (-decibel / 20)), factors, rank


def histogram_case(
    rng: np.random.Generator, n_variables: int, n_bins: int, rank: int, n_samples: int, width: float, quantile: bool
) -> Case:
    """Block histogram of a Gaussian-shaped mixture; `width` scales the spread of a component within the range."""
    weights = rng.dirichlet(np.full(rank, 5.0))
    fine = 20 * n_bins
    labels = rng.choice(rank, n_samples, p=weights)
    grid = np.arange(fine)[:, None] / fine
    codes, factors = [], []
    for _ in range(n_variables):
        center, spread = rng.random(rank), width * rng.uniform(0.15, 0.3, rank)
        density = np.exp(-0.5 * ((grid - center) / spread) ** 2) + 1e-3
        density /= density.sum(axis=0)
        cell = (rng.random((n_samples, 1)) > np.cumsum(density, axis=0).T[labels]).sum(axis=1).clip(max=fine - 1)
        steps = np.linspace(0, fine, n_bins + 1)[1:-1]
        cuts = np.quantile(cell, np.linspace(0, 1, n_bins + 1)[1:-1]).astype(int) if quantile else steps.astype(int)
        codes.append(np.searchsorted(cuts, cell, side="right"))
        owner = np.searchsorted(cuts, np.arange(fine), side="right")
        factors.append(np.stack([density[owner == i].sum(axis=0) for i in range(n_bins)]))
    sets = default_partition(n_variables).sets
    first, second, third = (np.concatenate([np.eye(n_bins)[codes[n]] for n in group], axis=1) for group in sets)
    tensor = np.stack([(first * third[:, [k]]).T @ second for k in range(third.shape[1])], axis=2) / n_samples
    return tensor, [np.concatenate([factors[n] for n in group]) for group in sets], rank


CASES: dict[str, Callable[[np.random.Generator], Case]] = {
    "normal 12x10x8, R 5, 60 dB": lambda rng: gaussian_case(rng, (12, 10, 8), 5, 60, 0.0),
    "normal 12x10x8, R 5, 30 dB": lambda rng: gaussian_case(rng, (12, 10, 8), 5, 30, 0.0),
    "normal 12x10x8, R 5, 15 dB": lambda rng: gaussian_case(rng, (12, 10, 8), 5, 15, 0.0),
    "collinear 12x10x8, R 5, 30 dB": lambda rng: gaussian_case(rng, (12, 10, 8), 5, 30, 0.7),
    "normal 10x10x3, R 8, 40 dB": lambda rng: gaussian_case(rng, (10, 10, 3), 8, 40, 0.0),
    "normal 20x20x20, R 15, 30 dB": lambda rng: gaussian_case(rng, (20, 20, 20), 15, 30, 0.0),
    "histograms N 10, 6 quantile bins, R 5, M 5000": lambda rng: histogram_case(rng, 10, 6, 5, 5000, 1.0, True),
    "histograms N 10, 15 uniform bins, R 5, M 5000": lambda rng: histogram_case(rng, 10, 15, 5, 5000, 1.0, False),
    "histograms N 10, 6 quantile bins, R 10, M 5000": lambda rng: histogram_case(rng, 10, 6, 10, 5000, 0.5, True),
    "histograms N 10, 15 uniform bins, R 10, M 5000": lambda rng: histogram_case(rng, 10, 15, 10, 5000, 0.5, False),
    "histograms N 10, 8 quantile bins, R 10, M 50000": lambda rng: histogram_case(rng, 10, 8, 10, 50_000, 1.0, True),
    "histograms N 3, 15 quantile bins, R 4, M 50000": lambda rng: histogram_case(rng, 3, 15, 4, 50_000, 0.5, True),
}


# ------------------------------------------------------------------------------------------------------------ the ways
def widest_gap(slices: np.ndarray, rng: np.random.Generator, n_pencils: int) -> np.ndarray:
    """Eigenvectors of the random pencil with the widest relative eigenvalue gap, a real one if there is any."""
    best: tuple[tuple[bool, float], np.ndarray] | None = None
    for _ in range(n_pencils):
        direction = rng.standard_normal(len(slices))
        values, vectors = np.linalg.eig(np.tensordot(direction / np.linalg.norm(direction), slices, axes=1))
        distances = np.abs(values[:, None] - values) + np.diag(np.full(len(values), np.inf))
        key = (not np.iscomplexobj(values), float(distances.min() / np.abs(values).max()))
        if best is None or key > best[0]:
            best = key, real_vectors(values, vectors)
    assert best is not None
    return best[1]


def dominant_pair(core: np.ndarray) -> np.ndarray:
    """Generalized eigenvectors (QZ) of the two slices with the most energy."""
    values, vectors = scipy.linalg.eig(core[1], core[0])
    return real_vectors(values, vectors)


def alternate(core: np.ndarray, factors: Factors, n_sweeps: int) -> Factors:
    """Alternating least squares on the compressed tensor."""
    left, right, third = factors

    def solve(first: np.ndarray, second: np.ndarray, unfolded: np.ndarray) -> np.ndarray:
        products = np.einsum("ir,jr->ijr", first, second).reshape(-1, first.shape[1])
        return np.linalg.lstsq(products, unfolded, rcond=None)[0].T

    rank = core.shape[1]
    for _ in range(n_sweeps):
        left = solve(third, right, core.transpose(0, 2, 1).reshape(-1, rank))
        right = solve(third, left, core.reshape(-1, rank))
        left, right = left / np.linalg.norm(left, axis=0), right / np.linalg.norm(right, axis=0)
        third = solve(left, right, core.reshape(len(core), -1).T)
    return left, right, third


def compressed(tensor: np.ndarray, rank: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Core (third mode first) and orthonormal bases of the truncated multilinear SVD."""
    bases = []
    for mode in range(3):
        unfolding = np.moveaxis(tensor, mode, 0).reshape(tensor.shape[mode], -1)
        bases.append(np.linalg.svd(unfolding, full_matrices=False)[0][:, :rank])
    return np.einsum("ijk,ia,jb,kc->cab", tensor, *bases, optimize=True), bases


def ways(tensor: np.ndarray, rank: int, seed: int) -> Iterator[tuple[str, list[np.ndarray], float]]:
    """Name, factors and seconds (without the common compression) of every way."""
    core, bases = compressed(tensor, rank)
    left_root, right_root, _ = roots(base_slice(core, None, np.random.default_rng(seed)))
    whitened = np.linalg.solve(left_root, core) @ np.linalg.inv(right_root).T

    def lifted(vectors: np.ndarray) -> Factors:
        return rank_one_columns(core, np.linalg.solve(right_root.T, vectors))

    def joint(n_sweeps: int) -> Factors:
        return lifted(joint_eigenvectors(whitened, np.random.default_rng(seed), n_sweeps)[0])

    table: dict[str, Callable[[], Factors]] = {
        "one pencil": lambda: lifted(widest_gap(whitened, np.random.default_rng(seed), 1)),
        "widest gap of 20": lambda: lifted(widest_gap(whitened, np.random.default_rng(seed), 20)),
        "least error of 20": lambda: joint(0),
        "QZ of a pair": lambda: rank_one_columns(core, dominant_pair(core)),
        "joint": lambda: joint(100),
        "least error + 50 ALS": lambda: alternate(core, joint(0), 50),
        "joint + 50 ALS": lambda: alternate(core, joint(100), 50),
        "least error + GN": lambda: refine_cp(core, joint(0), 50)[0],
        "joint + GN": lambda: refine_cp(core, joint(100), 50)[0],
    }
    for name, way in table.items():
        start = time.perf_counter()
        factors = way()
        seconds = time.perf_counter() - start
        yield name, [basis @ factor for basis, factor in zip(bases, factors, strict=True)], seconds
    if tensor.min() >= 0:
        yield from histogram_ways(tensor, rank, seed)


def histogram_ways(tensor: np.ndarray, rank: int, seed: int) -> Iterator[tuple[str, list[np.ndarray], float]]:
    """Compression and whitening by the pair marginal; cells divided by the roots of their one-way marginals."""
    start = time.perf_counter()
    left, values, right = np.linalg.svd(tensor.sum(axis=2))
    root = np.sqrt(values[:rank])
    left, right = left[:, :rank], right[:rank].T
    whitened = np.einsum("ia,ijk,jb->kab", left / root, tensor, right / root, optimize=True)
    vectors, _ = joint_eigenvectors(whitened, np.random.default_rng(seed))
    yield "pair, joint", [left * root @ vectors, right * root @ np.linalg.inv(vectors).T], time.perf_counter() - start

    margins = [tensor.sum(axis=axes) for axes in ((1, 2), (0, 2))]
    scales = [np.sqrt(np.maximum(margin, 1e-6)) for margin in margins]
    for name, factors in (("pair, joint + GN", [np.ones_like(scale) for scale in scales]), ("scaled pair", scales)):
        start = time.perf_counter()
        scaled = tensor / np.outer(*factors)[:, :, None]
        left, _, right = np.linalg.svd(scaled.sum(axis=2))
        left, right = left[:, :rank], right[:rank].T
        slices = np.einsum("ia,ijk,jb->kab", left, scaled, right, optimize=True)
        parts, _ = decompose_core(slices, np.ones(len(slices)), keeps_complex=True, random_state=seed)
        found = [factors[0][:, None] * (left @ parts[0]), factors[1][:, None] * (right @ parts[1])]
        yield name, found, time.perf_counter() - start


# -------------------------------------------------------------------------------------------------------------- figures
def column_error(truth: list[np.ndarray], found: list[np.ndarray]) -> float:
    """Root mean square distance of the unit columns of the first two factors after the best matching."""
    units = [
        (a / np.linalg.norm(a, axis=0), b / np.linalg.norm(b, axis=0))
        for a, b in zip(truth[:2], found[:2], strict=True)
    ]
    cosines = [a.T @ b for a, b in units]
    rows, columns = linear_sum_assignment(-np.abs(cosines[0] * cosines[1]))
    squares = [2 - 2 * np.abs(cosine[rows, columns]) for cosine in cosines]
    return float(np.sqrt(np.maximum(np.mean(squares), 0)))


def main(n_trials: int) -> None:
    """Median error (median milliseconds) of every way on every case."""
    errors: dict[str, dict[str, list[float]]] = {}
    seconds: dict[str, list[float]] = defaultdict(list)
    for case, make in CASES.items():
        errors[case] = defaultdict(list)
        n_failed = 0
        for trial in range(n_trials):
            tensor, truth, rank = make(np.random.default_rng(trial))
            try:
                for name, factors, spent in ways(tensor, rank, trial):
                    errors[case][name].append(column_error(truth, factors))
                    seconds[name].append(spent)
            except (AlgebraicStartError, np.linalg.LinAlgError):
                n_failed += 1
        medians = ", ".join(f"{name} {np.median(values):.2g}" for name, values in errors[case].items())
        print(f"{case} ({n_failed} of {n_trials} failed): {medians}", flush=True)
    names = list(seconds)
    print("\n| case | " + " | ".join(names) + " |\n" + "|---" * (len(names) + 1) + "|")
    for case, row in errors.items():
        print(f"| {case} | " + " | ".join(f"{np.median(row[n]):.2g}" if row[n] else "" for n in names) + " |")
    print("| median milliseconds | " + " | ".join(f"{1e3 * np.median(seconds[n]):.1f}" for n in names) + " |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
