"""Search for an unmixing matrix: many Gaussian starts, a few with free densities, the best to its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy.special import entr

from tensorly_smp.likelihood.comparison import deviation_of_difference, distinct_candidates
from tensorly_smp.search.coarse import SearchSamples
from tensorly_smp.search.search import search
from tensorly_smp.unmixing.passes import MixedSamples, UnmixingCandidate, follow, log_densities_of
from tensorly_smp.unmixing.starts import (
    copies,
    gaussian_mixture,
    independent_components,
    inverse_root,
    joint_diagonalizer,
    shrinkage_to_diagonal,
    within_covariance,
)

#: Components of the full Gaussian mixture for every component wanted, at most; and samples for every variable of each.
LOCAL_PER_COMPONENT, SAMPLES_PER_VARIABLE = 8, 6
#: Passes of a Gaussian mixture, and the gain per sample, in nats, below which it has converged.
GAUSSIAN_PASSES, GAUSSIAN_TOL = 60, 1e-4
#: Random seeds, and clusterings by k-means of variables and of whitened ones.
N_SEEDS = 3
#: Gaussian mixtures that go on with free densities; passes of the first round of these; how many go on from there.
N_GAUSSIAN, SCREENING_PASSES, N_FOLLOWED = 3, 25, 3
#: Gain of a pass, in nats per sample, below which a round ends, but at least so many nats of all samples.
PASS_TOL, LEAST_GAIN = 1e-5, 0.002
#: Rounds with new grids and penalties at most, for the candidates that are followed and for the best.
FOLLOWED_ROUNDS, MOST_ROUNDS = 2, 6
#: Parts of the samples that are held out in turn, and passes without each.
N_FOLDS, FOLD_PASSES = 3, 30


def clearest(samples: MixedSamples, candidates: Sequence[UnmixingCandidate]) -> UnmixingCandidate:
    """Candidate with the clearest clusters among the best one and those that are not clearly worse (Vuong 1989).

    A source with two peaks describes two groups as well as two components do, whose posteriors then follow something
    else: the likelihood hardly tells, and the components are what a mixture is fitted for.
    """
    best = max(candidates, key=lambda each: each.criterion)
    of_best = log_densities_of(samples, best)
    tied = [
        each
        for each in candidates
        if each is best
        or best.criterion - each.criterion
        <= 2.0 * deviation_of_difference(of_best, log_densities_of(samples, each), samples.weights)
    ]
    return min(tied, key=lambda each: float(samples.weights @ entr(each.posterior).sum(axis=1)))


def gaussian_starts(
    samples: MixedSamples, rank: int, rng: np.random.Generator
) -> tuple[list[UnmixingCandidate], list[UnmixingCandidate]]:
    """Matrices and posteriors of semi-tied Gaussian mixtures from many starts, the likeliest first; and other starts.

    The others begin with free densities at once: independent components, and the joint diagonalization of the local
    covariances of a full Gaussian mixture of more components than wanted, each of which is A D A' under the model; with
    the clusters that the search of the product model sees in these sources, as in the variables themselves.
    """
    from sklearn.cluster import KMeans  # half a second that others need not wait for

    values = samples.values
    weights = samples.weights
    n = values.shape[1]
    ones = np.ones((len(values), 1))
    covariance = within_covariance(values, ones, weights)
    share = shrinkage_to_diagonal(values, weights)
    whitener = inverse_root(covariance * (1.0 - share * (1.0 - np.eye(n))))
    whitened = values @ whitener.T

    def clustered(of: np.ndarray, n_clusters: int) -> np.ndarray:
        kmeans = KMeans(n_clusters, n_init=1, max_iter=30, random_state=int(rng.integers(2**31)))
        return np.eye(n_clusters)[kmeans.fit(of, sample_weight=weights).labels_]

    def searched(sources: np.ndarray) -> np.ndarray:
        both = np.concatenate([sources, samples.categories], axis=1)
        some = SearchSamples(both, weights, range(n, both.shape[1]), rank)
        return search(some, rank, 1, int(rng.integers(2**31)), 1, 0)[0][0].posterior

    n_distinct = len(np.unique(whitened, axis=0))
    n_local = max(min(LOCAL_PER_COMPONENT * rank, int(samples.total_weight / (SAMPLES_PER_VARIABLE * n))), rank + 1, 2)
    local_posterior = clustered(whitened, min(n_local, n_distinct))
    _, shares, covariances, _, _ = gaussian_mixture(whitened, weights, local_posterior, GAUSSIAN_PASSES, GAUSSIAN_TOL)
    local = joint_diagonalizer(covariances, shares) @ whitener
    independent = independent_components(whitened, weights, rng) @ whitener
    product = searched(values)
    others = [UnmixingCandidate(product, "product", unmixing=np.eye(n))]
    within = within_covariance(values, product, weights)
    others.append(UnmixingCandidate(product, "covariance within components", unmixing=inverse_root(within)))
    for name, matrix in (("independent components", independent), ("local covariances", local)):
        others.append(UnmixingCandidate(searched(values @ matrix.T), name, unmixing=matrix))
    posteriors = {f"{each.origin}, Gaussian": each.posterior for each in others[1:]}
    if rank <= n_distinct:
        posteriors["k-means"] = clustered(values, rank)
        posteriors["k-means, whitened"] = clustered(whitened, rank)
        full = gaussian_mixture(whitened, weights, posteriors["k-means, whitened"], GAUSSIAN_PASSES, GAUSSIAN_TOL)
        posteriors["Gaussian components"] = full[3]
        likely = weights / weights.sum()
        for number in range(N_SEEDS):
            seeds = whitened[rng.choice(len(values), rank, replace=bool(np.count_nonzero(likely) < rank), p=likely)]
            distances = [((whitened - seed) ** 2).sum(axis=1) for seed in seeds]
            posteriors[f"seeds {number}"] = np.eye(rank)[np.argmin(distances, axis=0)]
    tied = []
    for name, posterior in posteriors.items():
        counts = posterior * weights[:, None]
        means = counts.T @ values / np.maximum(counts.sum(axis=0), 1e-300)[:, None]
        own_share = shrinkage_to_diagonal(values - posterior @ means, weights)
        reached, _, _, own, matrix = gaussian_mixture(
            values, weights, posterior, GAUSSIAN_PASSES, GAUSSIAN_TOL, own_share
        )
        tied.append(UnmixingCandidate(own, name, unmixing=matrix, criterion=reached * samples.total_weight))
    tied.sort(key=lambda each: -each.rounded)
    return tied, others


def search_unmixing(
    samples: MixedSamples,
    rank: int,
    rng: np.random.Generator,
    n_passes: int,
    tol: float,
    callback: Callable[[UnmixingCandidate], None] | None = None,
) -> tuple[UnmixingCandidate, UnmixingCandidate, list[UnmixingCandidate]]:
    """Find the unmixing matrix of highest likelihood among those that several starts lead to.

    Parameters
    ----------
    samples : MixedSamples
    rank : int
    rng : Generator
    n_passes : int
        Passes of a round, at most.
    tol : float
        Gain of a round, in nats per sample, below which the search has converged.
    callback : callable, optional
        ``callback(candidate)`` after every start.

    Returns
    -------
    best : UnmixingCandidate
    product : UnmixingCandidate
        Without any mixing: the matrix is the identity.
    starts : list of UnmixingCandidate
        Every start with free densities after its first passes.
    """
    weights = samples.weights
    pass_tol = max(PASS_TOL, LEAST_GAIN / samples.total_weight)
    tied, others = gaussian_starts(samples, rank, rng)
    product = follow(samples, others[0], n_passes, pass_tol, is_fixed=True)
    chosen: list[UnmixingCandidate] = distinct_candidates(tied, weights)[:N_GAUSSIAN]  # type: ignore[assignment]
    screened = min(SCREENING_PASSES, n_passes)
    starts = []
    for each in [*others[1:], *chosen]:
        starts.append(follow(samples, each, screened, pass_tol, grids="plain"))
        if callback is not None:
            callback(starts[-1])
    starts.sort(key=lambda each: -each.rounded)
    followed: list[UnmixingCandidate] = distinct_candidates(starts, weights)[:N_FOLLOWED]  # type: ignore[assignment]
    ends = [finished(samples, each, n_passes, pass_tol, tol, FOLLOWED_ROUNDS) for each in followed]
    best = clearest(samples, ends)
    return finished(samples, best, n_passes, pass_tol, tol, MOST_ROUNDS), product, starts


def finished(
    samples: MixedSamples, candidate: UnmixingCandidate, n_passes: int, pass_tol: float, tol: float, n_rounds: int
) -> UnmixingCandidate:
    """The best of a candidate after several rounds, until one gains no more than `tol`, in nats per sample."""
    best = candidate
    for number in range(n_rounds):
        reached = follow(samples, candidate, n_passes, pass_tol)
        gain = reached.criterion - (best.criterion if number else -np.inf)
        best = reached if gain > 0.0 else replace(best, trace=reached.trace)
        candidate = reached
        if gain <= tol * samples.total_weight:
            break
    return best


def held_out_gain(samples: MixedSamples, product: UnmixingCandidate, best: UnmixingCandidate) -> tuple[float, float]:
    """Log-likelihood that a matrix gains over the product model on samples held out, in nats per sample.

    Both models are fitted again to each part of the samples but one, from where they have got to with all of them.

    Returns
    -------
    gain, error : float
        Mean over the parts, and its standard error.
    """
    folds = np.arange(len(samples.values)) % N_FOLDS
    gains = np.zeros(N_FOLDS)
    for fold in range(N_FOLDS):
        kept = samples.rows(folds != fold)
        out = samples.rows(folds == fold)
        if copies(kept.values):  # a matrix that hangs on a few samples
            return -np.inf, 0.0
        for sign, candidate in ((-1.0, product), (1.0, best)):
            begun = replace(candidate, posterior=candidate.posterior[folds != fold])
            reached = follow(kept, begun, FOLD_PASSES, 1e-4, grids="kept", is_fixed=candidate is product)
            gains[fold] += sign * float(out.weights @ log_densities_of(out, reached)) / out.total_weight
    return float(gains.mean()), float(gains.std(ddof=1) / N_FOLDS**0.5)
