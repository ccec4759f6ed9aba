"""Search for an unmixing matrix: many Gaussian starts, three with smooth densities, the best to its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tensorly_smp.likelihood.comparison import deviation_of_difference
from tensorly_smp.search.coarse import SearchSamples
from tensorly_smp.search.search import search
from tensorly_smp.unmixing.passes import MixedSamples, UnmixingCandidate, follow, log_densities_of
from tensorly_smp.unmixing.starts import GAUSSIAN, inverse_root, student_mixtures, within_covariance

#: Components of the local Gaussian mixture for every component wanted, at most; and samples for every variable of each.
LOCAL_PER_COMPONENT, SAMPLES_PER_VARIABLE = 8, 6
#: Passes of Gaussian and Student mixtures, first those of all, then those of the likeliest third; the change per
#: sample, in nats, below which they have converged.
FIRST_PASSES, GAUSSIAN_PASSES, GAUSSIAN_TOL = 6, 14, 1e-3
#: Random seeds, from which a mixture of Gaussians and one of Student distributions start; seeds of the local ones;
#: degrees of freedom of Student distributions.
N_SEEDS, N_LOCAL_SEEDS, HEAVY = 12, 2, 5.0
#: Passes of the first round with smooth densities, from which the best start goes on. No start is given up for a
#: product mixture that it would reach with the gain of the last half of these, this many times.
SCREENING_PASSES, FURTHER_GAINS = 10, 4.0
#: Standard deviations of the difference of two criteria by which one is clearly better.
CLEARLY = 2.5
#: Gain of a pass, in nats per sample, below which a round of the best ends, but at least so many nats of all samples;
#: times as much for those that are only compared.
PASS_TOL, LEAST_GAIN, COMPARED_TOL = 1e-5, 0.002, 10.0
#: Rounds with new grids and penalties at most.
MOST_ROUNDS = 8
#: With fewer samples than this for every parameter, Schwarz's criterion decides for or against the matrix.
SAMPLES_PER_PARAMETER = 2.0


def coarse_clusters(samples: MixedSamples, rank: int, unmixing: np.ndarray) -> np.ndarray:
    """Posteriors (n_samples, rank) of the search of the product model in the sources of a matrix."""
    n = len(unmixing)
    sources = samples.sources(unmixing)
    some = SearchSamples(sources, samples.weights, range(n, sources.shape[1]), rank)
    return search(some, rank, 1, 0, 1, 0)[0][0].posterior


def local_start(samples: MixedSamples, rank: int, rng: np.random.Generator) -> UnmixingCandidate:
    """Matrix of a semi-tied Gaussian mixture of more components than wanted, and clusters of the product model there.

    Several Gaussians describe every density that is none.
    """
    n_local = int(samples.total_weight / (SAMPLES_PER_VARIABLE * samples.values.shape[1]))
    n_local = max(min(LOCAL_PER_COMPONENT * rank, n_local), rank + 1, 2)
    unmixing = likeliest_mixture(samples, n_local, N_LOCAL_SEEDS, (GAUSSIAN,), rng).unmixing
    return UnmixingCandidate(coarse_clusters(samples, rank, unmixing), "local covariances", unmixing=unmixing)


def likeliest_mixture(
    samples: MixedSamples, n_components: int, n_seeds: int, degrees: Sequence[float], rng: np.random.Generator
) -> UnmixingCandidate:
    """Matrix and posteriors of the likeliest semi-tied mixture, with any of some degrees of freedom.

    From random seeds, to which samples are near as they are or whitened.
    """
    one = np.ones((len(samples.values), 1))
    whitener = inverse_root(within_covariance(samples.values, one, samples.weights))
    spaces = samples.values, samples.values @ whitener
    seeded = [_seeded(spaces[k % 2], n_components, samples.weights, rng) for k in range(n_seeds)]
    names = [f"seeds {k}, {'Gaussian' if each == GAUSSIAN else 'Student'}" for each in degrees for k in range(n_seeds)]
    posteriors = np.stack(seeded * len(degrees))
    freedom = np.repeat(degrees, n_seeds)
    for n_passes in (FIRST_PASSES, GAUSSIAN_PASSES):
        reached, *ends = student_mixtures(samples.values, samples.weights, posteriors, freedom, n_passes, GAUSSIAN_TOL)
        every = [
            UnmixingCandidate(posterior, name, unmixing=unmixing, criterion=criterion * samples.total_weight)
            for name, criterion, posterior, unmixing in zip(names, reached, *ends, strict=True)
        ]
        order = sorted(range(len(every)), key=lambda k: -every[k].rounded)[: max(1, len(every) // 3)]
        names = [names[k] for k in order]
        posteriors = ends[0][order]
        freedom = freedom[order]
    return every[order[0]]


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
        `product` itself if that is preferred, see :func:`lead_of_product`.
    product : UnmixingCandidate
        Without any mixing: the matrix is the identity.
    starts : list of UnmixingCandidate
        Every other start after its first passes, with densities of the first shape.
    """
    pass_tol = max(PASS_TOL, LEAST_GAIN / samples.total_weight)
    compared_tol = COMPARED_TOL * pass_tol
    rng = np.random.default_rng(0)
    tied = likeliest_mixture(samples, rank, N_SEEDS, (GAUSSIAN, HEAVY), rng)
    identity = np.eye(samples.values.shape[1])
    product = UnmixingCandidate(coarse_clusters(samples, rank, identity), "product", unmixing=identity)
    samples = replace(samples, shape=shapes[0])

    def screen(candidate: UnmixingCandidate) -> UnmixingCandidate:
        reached = follow(samples, candidate, min(SCREENING_PASSES, n_passes), compared_tol, has_best=False)
        callback(reached)
        return reached

    starts = [screen(replace(product, origin="product clusters")), screen(tied)]
    product = follow(samples, product, n_passes, compared_tol, has_best=False, is_fixed=True)
    likeliest = max(starts, key=lambda each: each.rounded)
    losses = likeliest.trace.loss
    promised = FURTHER_GAINS * samples.total_weight * (losses[len(losses) // 2] - losses[-1])
    if lead_of_product(samples, product, likeliest) > promised:
        return product, product, starts
    starts.append(screen(local_start(samples, rank, rng)))
    likeliest = max(starts, key=lambda each: each.rounded)
    is_open = lead_of_product(samples, product, likeliest) >= 0.0
    likeliest = finished(samples, likeliest, n_passes, pass_tol, tol, MOST_ROUNDS)
    if is_open:
        product = follow(samples, product, n_passes, pass_tol, is_fixed=True)
        if lead_of_product(samples, product, likeliest) >= 0.0:
            return product, product, starts
    end = finished(replace(samples, shape=shapes[-1]), tied, n_passes, compared_tol, tol, MOST_ROUNDS)
    return preferred(samples, [end, likeliest]), product, starts


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


def lead_of_product(samples: MixedSamples, product: UnmixingCandidate, best: UnmixingCandidate) -> float:
    """Nats by which a product mixture of the variables is ahead of the best matrix.

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
    return float(values[0] - values[1])


def finished(
    samples: MixedSamples, candidate: UnmixingCandidate, n_passes: int, pass_tol: float, tol: float, n_rounds: int
) -> UnmixingCandidate:
    """The best of a candidate after several rounds, until one gains no more than ten `tol`, in nats per sample."""
    best = candidate
    for _ in range(n_rounds):
        reached = replace(follow(samples, candidate, n_passes, pass_tol), is_finished=True)
        gain = reached.criterion - (best.criterion if best.is_finished else -np.inf)
        best = reached if gain > 0.0 else replace(best, trace=reached.trace)
        candidate = reached
        if gain <= COMPARED_TOL * tol * samples.total_weight:
            break
    return best
