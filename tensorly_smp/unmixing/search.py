"""Search for an unmixing matrix: many Gaussian starts, a few with smooth densities, the best to its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tensorly_smp.likelihood.comparison import deviation_of_difference, distinct_candidates
from tensorly_smp.search.coarse import SearchSamples
from tensorly_smp.search.search import search
from tensorly_smp.unmixing.passes import MixedSamples, UnmixingCandidate, follow, log_densities_of
from tensorly_smp.unmixing.starts import (
    GAUSSIAN,
    independent_components,
    inverse_root,
    shrinkage_to_diagonal,
    student_mixtures,
    within_covariance,
)

#: Components of the local Gaussian mixture for every component wanted, at most; and samples for every variable of each.
LOCAL_PER_COMPONENT, SAMPLES_PER_VARIABLE = 8, 6
#: Passes of these mixtures, and the change per sample, in nats, below which they have converged.
GAUSSIAN_PASSES, GAUSSIAN_TOL = 20, 1e-3
#: Random seeds, from which a mixture of Gaussians and one of Student distributions start; degrees of freedom of these.
N_SEEDS, HEAVY = 12, 5.0
#: Likeliest of these that go on with smooth densities; passes of the first round, from which the best goes on.
N_GAUSSIAN, SCREENING_PASSES = 3, 10
#: Standard deviations of the difference of two criteria by which one is clearly better.
CLEARLY = 2.5
#: Gain of a pass, in nats per sample, below which a round of the best ends, but at least so many nats of all samples;
#: times as much for those that are only compared.
PASS_TOL, LEAST_GAIN, COMPARED_TOL = 1e-5, 0.002, 10.0
#: Rounds with new grids and penalties at most.
MOST_ROUNDS = 8
#: With fewer samples than this for every parameter, Schwarz's criterion decides for or against the matrix.
SAMPLES_PER_PARAMETER = 2.0


def other_starts(
    samples: MixedSamples, rank: int, whitener: np.ndarray, rng: np.random.Generator
) -> list[UnmixingCandidate]:
    """Starts that are no Gaussian mixtures of as many components: the variables themselves, matrices from elsewhere.

    Independent components, and the matrix of a semi-tied Gaussian mixture of more components than wanted, several for
    every density that is not Gaussian; with the clusters that the search of the product model sees in these sources,
    as in the variables themselves.
    """
    values = samples.values
    weights = samples.weights
    n = values.shape[1]
    whitened = values @ whitener.T

    def searched(sources: np.ndarray) -> np.ndarray:
        both = np.concatenate([sources, samples.categories], axis=1)
        some = SearchSamples(both, weights, range(n, both.shape[1]), rank)
        return search(some, rank, 1, int(rng.integers(2**31)), 1, 0)[0][0].posterior

    n_local = max(min(LOCAL_PER_COMPONENT * rank, int(samples.total_weight / (SAMPLES_PER_VARIABLE * n))), rank + 1, 2)
    seeded = _seeded(whitened, n_local, weights, rng)[None]
    local = student_mixtures(values, weights, seeded, np.array([GAUSSIAN]), GAUSSIAN_PASSES, GAUSSIAN_TOL)[2][0]
    independent = independent_components(whitened, weights, rng) @ whitener
    product = searched(values)
    within = inverse_root(within_covariance(values, product, weights))
    return [
        UnmixingCandidate(product, "product", unmixing=np.eye(n)),
        UnmixingCandidate(product, "covariance within components", unmixing=within),
        UnmixingCandidate(searched(values @ independent.T), "independent components", unmixing=independent),
        UnmixingCandidate(searched(values @ local.T), "local covariances", unmixing=local),
    ]


def gaussian_starts(
    samples: MixedSamples,
    rank: int,
    others: Sequence[UnmixingCandidate],
    whitener: np.ndarray,
    rng: np.random.Generator,
) -> list[UnmixingCandidate]:
    """Matrices and posteriors of semi-tied mixtures, Gaussian ones and ones with heavy tails, the likeliest first.

    From the posteriors of other starts and from random seeds, to which samples are near as they are or whitened.
    """
    spaces = samples.values, samples.values @ whitener.T
    starts = {each.origin: each.posterior for each in others}
    starts |= {f"seeds {k}": _seeded(spaces[k % 2], rank, samples.weights, rng) for k in range(N_SEEDS)}
    every = np.stack(list(starts.values()) * 2)
    degrees = np.repeat([GAUSSIAN, HEAVY], len(starts))
    ends = student_mixtures(samples.values, samples.weights, every, degrees, GAUSSIAN_PASSES, GAUSSIAN_TOL)
    names = [f"{name}, {kind}" for kind in ("Gaussian", "Student") for name in starts]
    tied = [
        UnmixingCandidate(posterior, name, unmixing=unmixing, criterion=reached * samples.total_weight)
        for name, reached, posterior, unmixing in zip(names, *ends, strict=True)
    ]
    return sorted(tied, key=lambda each: -each.rounded)


def _seeded(values: np.ndarray, n_clusters: int, weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Clusters (n_samples, n_clusters), as zeros and ones, of samples by the nearest of some that are drawn."""
    has_few = bool((weights > 0).sum() < n_clusters)
    drawn = rng.choice(len(values), n_clusters, replace=has_few, p=weights / weights.sum())
    distances = [((values - values[seed]) ** 2).sum(axis=1) for seed in drawn]
    return np.eye(n_clusters)[np.argmin(distances, axis=0)]


def search_unmixing(
    samples: MixedSamples,
    rank: int,
    shapes: Sequence[str | None],
    n_passes: int,
    tol: float,
    callback: Callable[[UnmixingCandidate], None] = lambda _: None,
) -> tuple[UnmixingCandidate, UnmixingCandidate, list[UnmixingCandidate]]:
    """Find the unmixing matrix of highest likelihood among those that several starts lead to.

    The starts are drawn by a fixed stream: fits to the same samples agree.

    Parameters
    ----------
    samples : MixedSamples
    rank : int
    shapes : sequence of {None, "log-concave"}
        Of the densities. All starts are followed with the first, whose best end decides whether a map is wanted. The
        last is that of the end of the likeliest Gaussian or Student mixture, which is compared with the best one; see
        :func:`preferred`.
    n_passes : int
        Passes of a round, at most.
    tol : float
        Gain of a round, in nats per sample, below which the search has converged.
    callback : callable
        ``callback(candidate)`` after every start.

    Returns
    -------
    best : UnmixingCandidate
        `product` itself if that is preferred, see :func:`prefers_product`.
    product : UnmixingCandidate
        Without any mixing: the matrix is the identity.
    starts : list of UnmixingCandidate
        Every other start after its first passes, with densities of the first shape.
    """
    weights = samples.weights
    pass_tol = max(PASS_TOL, LEAST_GAIN / samples.total_weight)
    share = shrinkage_to_diagonal(samples.values, weights)
    covariance = within_covariance(samples.values, np.ones((len(weights), 1)), weights)
    whitener = inverse_root(covariance * (1.0 - share * (1.0 - np.eye(len(covariance)))))
    rng = np.random.default_rng(0)
    unmixed, *others = other_starts(samples, rank, whitener, rng)
    tied = distinct_candidates(gaussian_starts(samples, rank, others, whitener, rng), weights)[:N_GAUSSIAN]
    samples = replace(samples, shape=shapes[0])
    product = follow(samples, unmixed, n_passes, pass_tol, is_fixed=True)
    starts = []
    for each in [*others, *tied]:
        starts.append(follow(samples, each, min(SCREENING_PASSES, n_passes), COMPARED_TOL * pass_tol, has_best=False))
        callback(starts[-1])
    starts.sort(key=lambda each: -each.rounded)
    likeliest = finished(samples, starts[0], n_passes, pass_tol, tol, MOST_ROUNDS)
    if prefers_product(samples, product, likeliest):
        return product, product, starts
    samples = replace(samples, shape=shapes[-1])
    ends = [finished(samples, tied[0], n_passes, COMPARED_TOL * pass_tol, tol, MOST_ROUNDS)]
    if len(shapes) > 1 and len(distinct_candidates([*ends, likeliest], weights)) > 1:
        begun = replace(likeliest, is_finished=False)
        ends.append(finished(samples, begun, n_passes, COMPARED_TOL * pass_tol, tol, MOST_ROUNDS))
    return preferred(samples, [*ends, likeliest]), product, starts


def preferred(samples: MixedSamples, candidates: Sequence[UnmixingCandidate]) -> UnmixingCandidate:
    """The first candidate, unless a later one is clearly better.

    Clearly by 2.5 standard deviations of the difference of Akaike's criteria (Vuong 1989): a component of few samples,
    or two peaks of a source, may raise the likelihood, but a group is one heap of samples unless they say otherwise.
    """
    best, *others = candidates
    for each in others:
        densities = log_densities_of(samples, best), log_densities_of(samples, each)
        if each.criterion - best.criterion > CLEARLY * deviation_of_difference(*densities, samples.weights):
            best = each
    return best


def prefers_product(samples: MixedSamples, product: UnmixingCandidate, best: UnmixingCandidate) -> bool:
    """True if a product mixture of the variables is preferred to the best matrix.

    By Akaike's criterion for small samples (Hurvich and Tsai 1989), with the free entries of the matrix among the
    parameters; where samples are too few for that, by Schwarz's.
    """
    n_samples = samples.total_weight
    n_free = len(best.unmixing) * (len(best.unmixing) - 1)
    numbers = product.fit.n_parameters, best.fit.n_parameters + n_free
    is_enough = n_samples > SAMPLES_PER_PARAMETER * max(numbers)
    values = [
        candidate.criterion
        + candidate.fit.n_parameters
        - number * (n_samples / (n_samples - number - 1.0) if is_enough else 0.5 * np.log(n_samples))
        for candidate, number in zip((product, best), numbers, strict=True)
    ]
    return bool(values[0] >= values[1])


def finished(
    samples: MixedSamples, candidate: UnmixingCandidate, n_passes: int, pass_tol: float, tol: float, n_rounds: int
) -> UnmixingCandidate:
    """The best of a candidate after several rounds, until one gains no more than `tol`, in nats per sample."""
    best = candidate
    for _ in range(n_rounds):
        reached = replace(follow(samples, candidate, n_passes, pass_tol), is_finished=True)
        gain = reached.criterion - (best.criterion if best.is_finished else -np.inf)
        best = reached if gain > 0.0 else replace(best, trace=reached.trace)
        candidate = reached
        if gain <= tol * samples.total_weight:
            break
    return best
