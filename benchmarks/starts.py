"""Where starts of the coupled decomposition lead: algebra and chance, with exact histograms, samples and noise.

    python benchmarks/starts.py optimum [--seeds 5] [--ranks 5 10] [--samples 1000 5000]
    python benchmarks/starts.py recovery
    python benchmarks/starts.py bounds
    python benchmarks/starts.py diagonalize [--trials 20]

`optimum`: how often a KL fit (the paper's four cases, 15 bins, all triples) ends at most 0.002 nats per sample above
the fit from the true factors; loss summed over the 120 triples, and averaged. `recovery`: errors of ten random starts,
exact histograms, by loss and block solver. `bounds`: largest errors of the algebraic start with exact histograms at the
ranks up to the bound c1 (I - 1) + 1 of the balanced partition, and what happens one above it and at the paper's bound.
`diagonalize`: ways to diagonalize the slices of a noisy tensor, the table in the docstring of `gevd_parafac`: root mean
square distance between true and computed unit columns of two factors, the same compression and base for all ways.
"""

from __future__ import annotations

import time
import warnings
from collections import defaultdict
from functools import partial

import numpy as np
import scipy.linalg
from common import KINDS, largest_difference, options_of
from scipy.optimize import linear_sum_assignment

import tensorly_smp as smp
from tensorly_smp.exceptions import AlgebraicStartError
from tensorly_smp.initializers.joint_diagonalization import (
    base_slice,
    joint_eigenvectors,
    rank_one_columns,
    real_vectors,
    refine_cp,
    roots,
)

# ---- how often a start leads to the optimum ----

STARTS = {
    "1 algebraic": ("gevd", 1),
    "5 screened": ("gevd", 5),
    "10 screened": ("gevd", 10),
    "1 random": ("random", 1),
    "5 random": ("random", 5),
}


def timed_fit(marginals, rank, **options):
    began = time.perf_counter()
    solution = smp.coupled_simplex_parafac(marginals, rank, random_state=0, **options)
    return solution.loss, time.perf_counter() - began


def above_truth(kind, rank, n_samples, seed):
    """Loss above the fit from the truth, and seconds, by kind of start."""
    data = smp.datasets.make_smooth_mixture(kind, n_samples, 10, rank, random_state=seed)
    binning = smp.choose_binning(data.X, 15)
    marginals = smp.count_marginals(smp.encode_samples(data.X, binning))
    # A little of the uniform column, since a true probability below rounding could never grow again.
    best, _ = timed_fit(marginals, rank, init=data.mixture.factors(binning).smooth(1e-3))
    ends = [timed_fit(marginals, rank, init=init, n_init=n_init) for init, n_init in STARTS.values()]
    return np.array(ends) - [best, 0.0]


def optimum(options):
    print(f"share at the optimum, loss summed / averaged over triples; median seconds; {options.seeds} truths each")
    print(f"{'case':<10}{'R':>3}{'M':>7}  " + "".join(f"{start:>18}" for start in STARTS))

    def line(rows):
        shares = [np.mean(rows[:, :, 0] <= 0.002 * n, axis=0) for n in (1, 120)]
        columns = zip(*shares, np.median(rows[:, :, 1], axis=0), strict=True)
        return "".join(f"{one:7.0%} /{other:4.0%}{seconds:6.1f}" for one, other, seconds in columns)

    parts = []
    for rank in options.ranks:
        for n_samples in options.samples:
            for kind in KINDS:
                parts.append(np.array([above_truth(kind, rank, n_samples, seed) for seed in range(options.seeds)]))
                print(f"{kind:<10}{rank:3d}{n_samples:7d}  {line(parts[-1])}", flush=True)
    print(f"{'all':<22}{line(np.concatenate(parts))}")


# ---- exact histograms ----


def random_truth(n_variables, n_bins, rank, seed):
    rng = np.random.default_rng([n_variables, n_bins, rank, seed])
    columns = [rng.dirichlet(np.ones(n_bins), rank).T for _ in range(n_variables)]
    return smp.MixtureFactors(rng.dirichlet(np.full(rank, 10.0)), columns)


def recovery(options):
    """Ten random starts of 30 sweeps; the lowest of them is run to its end."""
    print(f"{'N  I  R':<9}{'loss':<11}{'solver':<20}{'error':>8}{'asked':>8}{'':>5}{'sweeps':>8}  ended")
    for size in [(3, 4, 2), (3, 5, 4), (4, 4, 3), (5, 4, 4), (6, 5, 4)]:
        for loss, fastest in (("kl", "multiplicative"), ("frobenius", "projected-gradient")):
            for solver in (fastest, "mirror"):
                n_sweeps, n_truths, asked = (6000, 1, 1e-3) if solver == "mirror" else (5000, 2, 1e-4)
                errors, sweeps, ended = [], [], set()
                for seed in range(n_truths):
                    truth = random_truth(*size, seed)
                    chosen = {"loss": loss, "options": smp.SolverOptions(solver=solver)}
                    fit = partial(smp.coupled_simplex_parafac, truth.to_marginals(), truth.rank, **chosen)
                    start = fit(init="random", n_init=10, n_iter_max=30, random_state=0).factors
                    solution = fit(init=start, n_iter_max=n_sweeps)
                    errors.append(smp.metrics.factor_error(solution.factors, truth))
                    sweeps.append(solution.trace.n_sweeps)
                    ended.add(solution.status.name.lower())
                verdict = "yes" if max(errors) <= asked else "NO"
                print(
                    f"{'  '.join(map(str, size)):<9}{loss:<11}{solver:<20}{max(errors):8.0e}{asked:8.0e}{verdict:>5}"
                    f"{max(sweeps):8d}  {', '.join(sorted(ended))}",
                    flush=True,
                )


def algebraic_error(n_variables, n_bins, rank, partition):
    """Largest error of an entry; infinite where the start says that it cannot be done.

    Of three random models the one whose stacked factors have the smallest condition number: near the bound some draws
    are all but singular.
    """

    def condition(truth):
        stacks = (np.concatenate([truth.factors[n] for n in group]) for group in (partition.first, partition.second))
        return max(map(np.linalg.cond, stacks))

    truth = min((random_truth(n_variables, n_bins, rank, seed) for seed in range(3)), key=condition)
    try:
        start = smp.gevd_start(truth.to_marginals(), rank, partition, random_state=0)
    except AlgebraicStartError:
        return np.inf
    return largest_difference(start.permute(smp.metrics.match_components(start, truth)), truth)


def bounds(options):
    """Asked: 1e-8 below the bound, 1e-5 at the last two ranks below it and at it, an AlgebraicStartError one above."""
    print(
        f"{'N':>3}{'I':>3}{'bound':>7}{'below':>8}{'near':>8}{'above':>7}  the paper's bound (corrected): error; holds"
    )
    for n_variables in range(3, 11):
        partition = smp.default_partition(n_variables)
        for n_bins in (3, 4, 8):
            bound = smp.max_identifiable_rank(n_variables, n_bins)
            errors = [algebraic_error(n_variables, n_bins, rank, partition) for rank in range(1, bound + 2)]
            below, near, above = max(errors[:-4], default=0.0), max(errors[-4:-1]), errors[-1]
            holds = below < 1e-8 and near < 1e-5 and np.isinf(above)
            printed = "no partition"
            if n_variables >= 5:
                of_paper = smp.paper_partition(n_variables)
                rank = smp.max_identifiable_rank(n_variables, n_bins, "paper-gevd")
                corrected = smp.max_identifiable_rank(n_variables, n_bins, "gevd", of_paper)
                error = algebraic_error(n_variables, n_bins, rank, of_paper)
                printed = f"{rank} ({corrected}): {error:.0e}"
                holds &= bool(np.isinf(error) if rank > corrected else error < 1e-5)
            print(f"{n_variables:3d}{n_bins:3d}{bound:7d}{below:8.0e}{near:8.0e}{above:7.0e}  {printed}; "
                  f"{'yes' if holds else 'NO'}", flush=True)  # fmt: skip


# ---- noisy tensors ----


def normal_case(shape, rank, decibel, common, rng):
    """Random normal factors whose columns share a part `common`, noise at a signal-to-noise ratio in decibel."""
    factors = []
    for size in shape:
        shared = rng.standard_normal((size, 1))
        factors.append(np.sqrt(1 - common) * rng.standard_normal((size, rank)) + np.sqrt(common) * shared)
    tensor = np.einsum("ir,jr,kr->ijk", *factors)
    noise = rng.standard_normal(shape)
    return tensor + noise * (np.linalg.norm(tensor) / np.linalg.norm(noise) * 10 ** (-decibel / 20)), factors, rank


def histogram_case(n_bins, rank, n_samples, width, rng):
    """Block histogram of ten variables in quantile bins; `width` scales the spread of the Gaussian components."""
    fine, labels = 20 * n_bins, rng.choice(rank, n_samples, p=rng.dirichlet(np.full(rank, 5.0)))
    grid = np.arange(fine)[:, None] / fine
    codes, factors = [], []
    for _ in range(10):
        center, spread = rng.random(rank), width * rng.uniform(0.15, 0.3, rank)
        density = np.exp(-0.5 * ((grid - center) / spread) ** 2) + 1e-3
        density /= density.sum(axis=0)
        cell = (rng.random((n_samples, 1)) > np.cumsum(density, axis=0).T[labels]).sum(axis=1).clip(max=fine - 1)
        cuts = np.quantile(cell, np.linspace(0, 1, n_bins + 1)[1:-1]).astype(int)
        codes.append(np.searchsorted(cuts, cell, side="right"))
        owner = np.searchsorted(cuts, np.arange(fine), side="right")
        factors.append(np.stack([density[owner == i].sum(axis=0) for i in range(n_bins)]))
    sets = smp.default_partition(10).sets
    first, second, third = (np.concatenate([np.eye(n_bins)[codes[n]] for n in group], axis=1) for group in sets)
    tensor = np.stack([(first * third[:, [k]]).T @ second for k in range(third.shape[1])], axis=2) / n_samples
    return tensor, [np.concatenate([factors[n] for n in group]) for group in sets], rank


CASES = {
    "normal 12x10x8, R 5, 30 dB": partial(normal_case, (12, 10, 8), 5, 30, 0.0),
    "collinear 12x10x8, R 5, 30 dB": partial(normal_case, (12, 10, 8), 5, 30, 0.7),
    "normal 10x10x3, R 8, 40 dB": partial(normal_case, (10, 10, 3), 8, 40, 0.0),
    "normal 20x20x20, R 15, 30 dB": partial(normal_case, (20, 20, 20), 15, 30, 0.0),
    "histograms, 6 bins, R 5, M 5000": partial(histogram_case, 6, 5, 5000, 1.0),
    "histograms, 6 bins, R 10, M 5000": partial(histogram_case, 6, 10, 5000, 0.5),
    "histograms, 8 bins, R 10, M 50000": partial(histogram_case, 8, 10, 50_000, 1.0),
}


def widest_gap(slices, seed, n_pencils):
    """Eigenvectors of the random pencil with the widest relative eigenvalue gap, a real one if there is any."""
    rng, best = np.random.default_rng(seed), None
    for _ in range(n_pencils):
        direction = rng.standard_normal(len(slices))
        values, vectors = np.linalg.eig(np.tensordot(direction / np.linalg.norm(direction), slices, axes=1))
        distances = np.abs(values[:, None] - values) + np.diag(np.full(len(values), np.inf))
        key = (not np.iscomplexobj(values), float(distances.min() / np.abs(values).max()))
        if best is None or key > best[0]:
            best = key, real_vectors(values, vectors)
    return best[1]


def alternate(core, factors):
    """Fifty sweeps of alternating least squares on the compressed tensor."""
    left, right, third = factors
    rank = core.shape[1]

    def solve(first, second, unfolded):
        products = np.einsum("ir,jr->ijr", first, second).reshape(-1, rank)
        return np.linalg.lstsq(products, unfolded, rcond=None)[0].T

    for _ in range(50):
        left = solve(third, right, core.transpose(0, 2, 1).reshape(-1, rank))
        right = solve(third, left, core.reshape(-1, rank))
        left, right = left / np.linalg.norm(left, axis=0), right / np.linalg.norm(right, axis=0)
        third = solve(left, right, core.reshape(len(core), -1).T)
    return left, right, third


def ways(tensor, rank, seed):
    """Name, first two factors and seconds, without the common compression, of every way."""
    unfoldings = [np.moveaxis(tensor, mode, 0).reshape(tensor.shape[mode], -1) for mode in range(3)]
    bases = [np.linalg.svd(unfolding, full_matrices=False)[0][:, :rank] for unfolding in unfoldings]
    core = np.einsum("ijk,ia,jb,kc->cab", tensor, *bases, optimize=True)
    left_root, right_root, _ = roots(base_slice(core, None, np.random.default_rng(seed)))
    whitened = np.linalg.solve(left_root, core) @ np.linalg.inv(right_root).T

    def lifted(vectors):
        return rank_one_columns(core, np.linalg.solve(right_root.T, vectors))

    def joint(n_sweeps):
        return lifted(joint_eigenvectors(whitened, np.random.default_rng(seed), n_sweeps)[0])

    for name, way in {
        "pencil": lambda: lifted(widest_gap(whitened, seed, 1)),
        "gap": lambda: lifted(widest_gap(whitened, seed, 20)),
        "error": lambda: joint(0),
        "QZ": lambda: rank_one_columns(core, real_vectors(*scipy.linalg.eig(core[1], core[0]))),
        "joint": lambda: joint(100),
        "ALS": lambda: alternate(core, joint(100)),
        "GN": lambda: refine_cp(core, joint(100), 50)[0],
    }.items():
        began = time.perf_counter()
        factors = way()
        yield name, [basis @ factor for basis, factor in zip(bases[:2], factors[:2], strict=True)], began
    if tensor.min() >= 0:
        # Compression and whitening by the pair marginal.
        began = time.perf_counter()
        left, values, right = np.linalg.svd(tensor.sum(axis=2))
        root = np.sqrt(values[:rank])
        left, right = left[:, :rank], right[:rank].T
        slices = np.einsum("ia,ijk,jb->kab", left / root, tensor, right / root, optimize=True)
        vectors = joint_eigenvectors(slices, np.random.default_rng(seed))[0]
        yield "pair", [left * root @ vectors, right * root @ np.linalg.inv(vectors).T], began


def column_error(truth, columns):
    """Root mean square distance of the unit columns of two factors after the best matching."""
    cosines = [
        (a / np.linalg.norm(a, axis=0)).T @ (b / np.linalg.norm(b, axis=0)) for a, b in zip(truth, columns, strict=True)
    ]
    order = linear_sum_assignment(-np.abs(cosines[0] * cosines[1]))
    return float(np.sqrt(np.maximum(np.mean([2 - 2 * np.abs(cosine[order]) for cosine in cosines]), 0)))


def diagonalize(options):
    """Median errors, and median milliseconds of all cases."""
    milliseconds = defaultdict(list)
    for case, make in CASES.items():
        errors = defaultdict(list)
        for trial in range(options.trials):
            tensor, truth, rank = make(np.random.default_rng(trial))
            try:
                for name, factors, began in ways(tensor, rank, trial):
                    milliseconds[name].append(1e3 * (time.perf_counter() - began))
                    errors[name].append(column_error(truth[:2], factors))
            except (AlgebraicStartError, np.linalg.LinAlgError) as error:
                print(f"{case}, trial {trial} failed: {error}")
        print(f"{case:<40}" + ", ".join(f"{name} {np.median(values):.2g}" for name, values in errors.items()))
    print("milliseconds: " + ", ".join(f"{name} {np.median(values):.1f}" for name, values in milliseconds.items()))


if __name__ == "__main__":
    warnings.simplefilter("ignore", smp.exceptions.TensorlySmpWarning)  # starts are cut short on purpose
    PARTS = {"optimum": optimum, "recovery": recovery, "bounds": bounds, "diagonalize": diagonalize}
    options = options_of(__doc__, words=PARTS, seeds=1, ranks=(5, 10), samples=(1000, 5000), trials=20)
    PARTS[options.part](options)
