"""Search for an unmixing matrix: many Gaussian starts, some with smooth densities, the best to its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tensorly_smp.likelihood.comparison import adjusted_rand, contingency, deviation_of_difference
from tensorly_smp.search.coarse import SearchSamples
from tensorly_smp.search.search import search
from tensorly_smp.unmixing.passes import MixedSamples, UnmixingCandidate, follow, log_densities_of
from tensorly_smp.unmixing.starts import GAUSSIAN, inverse_root, student_mixtures, within_covariance

#: Components of the local Gaussian mixture for every component wanted, at most; and samples for every variable of each.
LOCAL_PER_COMPONENT, SAMPLES_PER_VARIABLE = 8, 6
#: Passes of Gaussian and Student mixtures, first those of all, then those of the likeliest third; the change per
#: sample, in nats, below which they have converged.
FIRST_PASSES, GAUSSIAN_PASSES, GAUSSIAN_TOL = 6, 40, 1e-3
#: Random seeds, from which a mixture of Gaussians and one of Student distributions start; seeds of the local ones;
#: degrees of freedom of Student distributions; ranges between the quartiles beyond which a value is as far from the
#: median as that.
N_SEEDS, N_LOCAL_SEEDS, HEAVY, FAR = 12, 4, 5.0, 10.0
#: Passes of FastICA, and the change of a direction below which it has converged.
ICA_PASSES, ICA_TOL = 200, 1e-5
#: Nats per sample by which a mixture is below the likeliest if its clusters count e times less.
COMPARABLE = 0.1
#: Passes by which starts with smooth densities are compared. A product mixture is the result if it is ahead of what
#: begins at its clusters by more than so many times the gain of the last few of these, if that still gains.
SCREENING_PASSES, LAST_PASSES, FURTHER_GAINS = 10, 6, 4.0
#: Standard deviations of the difference of two criteria by which one is clearly better; and one with other clusters.
CLEARLY, CLEARLY_OTHER = 2.5, 5.0
#: Gain of a pass, in nats per sample, below which a round ends, but at least so many nats of all samples.
PASS_TOL, LEAST_GAIN = 1e-4, 0.02
#: Rounds with new penalties at most.
MOST_ROUNDS = 3
#: With fewer samples than this for every parameter, Schwarz's criterion decides for or against the matrix.
SAMPLES_PER_PARAMETER = 2.0


def coarse_clusters(samples: MixedSamples, rank: int, unmixing: np.ndarray) -> np.ndarray:
    """Posteriors (n_samples, rank) of the search of the product model in the sources of a matrix."""
    n = len(unmixing)
    sources = samples.sources(unmixing)
    some = SearchSamples(sources, samples.weights, range(n, sources.shape[1]), rank)
    return search(some, rank, 1, 0, 1, 0)[0][0].posterior


def local_matrix(samples: MixedSamples, rank: int, rng: np.random.Generator) -> np.ndarray:
    """Matrix (n, n) of a semi-tied Gaussian mixture of more components than wanted: several for every density."""
    n_local = int(samples.total_weight / (SAMPLES_PER_VARIABLE * samples.values.shape[1]))
    n_local = max(min(LOCAL_PER_COMPONENT * rank, n_local), rank + 1, 2)
    return typical_mixture(samples, random_clusters(samples, n_local, N_LOCAL_SEEDS, rng), (GAUSSIAN,)).unmixing


def independent_matrix(samples: MixedSamples) -> np.ndarray:
    """Matrix (n, n) to independent components, as if there were one component (symmetric FastICA, tanh).

    scikit-learn's takes no weights, and warns whatever its thread.

    References
    ----------
    A. Hyvarinen, "Fast and robust fixed-point algorithms for independent component analysis", IEEE Transactions on
    Neural Networks 10, 1999.
    """
    whitener = whitener_of(samples)
    whitened = samples.values @ whitener
    shares = (samples.weights / samples.total_weight)[:, None]
    turned = np.eye(len(whitener))
    for _ in range(ICA_PASSES):
        bent = np.tanh(whitened @ turned.T)
        slopes = (shares * (1.0 - bent**2)).sum(axis=0)
        left, _, right = np.linalg.svd((bent * shares).T @ whitened - slopes[:, None] * turned)
        before = turned
        turned = left @ right  # the nearest orthogonal matrix
        if np.abs(np.abs((turned * before).sum(axis=1)) - 1.0).max() < ICA_TOL:
            break
    return np.asarray(turned @ whitener)


def whitener_of(samples: MixedSamples) -> np.ndarray:
    """Symmetric matrix (n, n) to uncorrelated variables of unit variance."""
    one = np.ones((len(samples.weights), 1))
    return inverse_root(within_covariance(samples.values, one, samples.weights))


def random_clusters(
    samples: MixedSamples, n_clusters: int, n_seeds: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Clusters (n_samples, n_clusters), as zeros and ones, by the nearest of some samples that are drawn.

    Near as the variables are, and whitened, in turn.
    """
    weights = samples.weights
    spaces = samples.values, samples.values @ whitener_of(samples)
    has_few = bool((weights > 0).sum() < n_clusters)
    found = {}
    for k in range(n_seeds):
        values = spaces[k % 2]
        drawn = rng.choice(len(values), n_clusters, replace=has_few, p=weights / weights.sum())
        distances = [((values - values[seed]) ** 2).sum(axis=1) for seed in drawn]
        found[f"seeds {k}"] = np.eye(n_clusters)[np.argmin(distances, axis=0)]
    return found


def typical_mixture(
    samples: MixedSamples, clusters: Mapping[str, np.ndarray], degrees: Sequence[float]
) -> UnmixingCandidate:
    """Semi-tied mixture, with any of some degrees of freedom, whose clusters the likeliest ones agree on.

    Gaussians are not the truth, and the likeliest mixture of many may be a rare one: the clusters of a mixture are
    compared with those of all, of which the likeliest count most.

    Parameters
    ----------
    samples : MixedSamples
    clusters : mapping from str to ndarray (n_samples, n_components)
        Posteriors from which mixtures start, and their names.
    degrees : sequence of float
    """
    names = [f"{name}, {'Gaussian' if each == GAUSSIAN else 'Student'}" for each in degrees for name in clusters]
    posteriors = np.stack(list(clusters.values()) * len(degrees))
    freedom = np.repeat(degrees, len(clusters))
    low, median, high = np.quantile(samples.values, (0.25, 0.5, 0.75), axis=0)
    farthest = np.where(high > low, FAR * (high - low), np.inf)
    values = np.clip(samples.values, median - farthest, median + farthest)
    values = values - samples.weights @ values / samples.total_weight
    scale = np.sqrt(samples.weights @ values**2 / samples.total_weight)
    scale = np.where(scale > 0.0, scale, 1.0)
    values = values / scale
    for n_passes in (FIRST_PASSES, GAUSSIAN_PASSES):
        ends = student_mixtures(values, samples.weights, posteriors, freedom, n_passes, GAUSSIAN_TOL)
        # Rounded: of mixtures that reach the same, the first is likeliest in whatever order sums are.
        order = np.argsort(-ends[0].round(9), kind="stable")[: max(1, len(names) // 3)]
        criteria, posteriors, matrices = (each[order] for each in ends)
        freedom = freedom[order]
        names = [names[k] for k in order]
    labels = posteriors.argmax(axis=2)
    tables = [[contingency(one, other, posteriors.shape[2], samples.weights) for other in labels] for one in labels]
    agreement = np.array([[adjusted_rand(table) for table in row] for row in tables])
    k = int((agreement @ np.exp((criteria - criteria[0]) / COMPARABLE)).round(9).argmax())
    criterion = criteria[k] * samples.total_weight
    return UnmixingCandidate(posteriors[k], names[k], unmixing=matrices[k] / scale, criterion=criterion)


def search_unmixing(
    samples: MixedSamples,
    rank: int,
    shapes: Sequence[str | None],
    n_passes: int,
    tol: float,
    callback: Callable[[UnmixingCandidate], None] = lambda _: None,
) -> tuple[UnmixingCandidate, UnmixingCandidate, list[UnmixingCandidate]]:
    """Find the unmixing matrix among those that several starts lead to.

    That of the typical semi-tied mixture, unless another is clearly better, see :func:`preferred`; then the other, with
    the clusters of this mixture unless its own are clearly better again.

    The starts are drawn by a fixed stream: fits to the same samples agree.

    Parameters
    ----------
    samples : MixedSamples
    rank : int
    shapes : sequence of {None, "log-concave"}
        Of the densities. All starts are followed with the first, by which it is decided whether a map is wanted. The
        last is taken where it is clearly better.
    n_passes : int
        Passes of a round, at most.
    tol : float
        Gain of a round, in nats per sample, below which no other follows.
    callback : callable
        ``callback(candidate)`` after every start.

    Returns
    -------
    best : UnmixingCandidate
        `product` itself if that is preferred, see :func:`lead_of_product`.
    product : UnmixingCandidate
        Without any mixing: the matrix is the identity.
    starts : list of UnmixingCandidate
        The others as far as they were followed.
    """
    pass_tol = max(PASS_TOL, LEAST_GAIN / samples.total_weight)
    free = replace(samples, shape=shapes[0])
    one_peak = replace(samples, shape=shapes[-1])
    rng = np.random.default_rng(1)

    def screen(some: MixedSamples, candidate: UnmixingCandidate, **options: bool) -> UnmixingCandidate:
        reached = follow(some, candidate, min(SCREENING_PASSES, n_passes), pass_tol, **options)
        callback(reached)
        return reached

    def finish(some: MixedSamples, candidate: UnmixingCandidate, **options: bool) -> UnmixingCandidate:
        return follow(some, candidate, n_passes, pass_tol, n_rounds=MOST_ROUNDS, round_tol=tol, **options)

    identity = np.eye(samples.values.shape[1])
    begun = UnmixingCandidate(coarse_clusters(samples, rank, identity), "product", unmixing=identity)
    product = follow(free, begun, n_passes, pass_tol, is_fixed=True)
    other = screen(free, replace(product, origin="product, moved"), goes_on=True)
    clusters = {begun.origin: begun.posterior} | random_clusters(samples, rank, N_SEEDS, rng)
    kept = finish(free, typical_mixture(samples, clusters, (GAUSSIAN, HEAVY)), is_fixed=True)
    ahead = max(kept, other, key=lambda each: each.rounded)
    gain = 0.0 if ahead.status.is_converged else np.ptp(ahead.trace.loss[-LAST_PASSES:])
    if lead_of_product(samples, product, ahead) > FURTHER_GAINS * gain * samples.total_weight:
        return product, product, [kept, other]
    moved = screen(free, replace(kept, origin=f"{kept.origin}, moved"), goes_on=True)
    best = preferred(samples, kept, moved, CLEARLY)
    starts = [kept, moved, other]
    matrices = {"local covariances": local_matrix(samples, rank, rng)}
    matrices["independent components"] = independent_matrix(samples)
    for name, each in matrices.items():
        started = UnmixingCandidate(coarse_clusters(samples, rank, each), name, unmixing=each)
        starts.append(screen(free, started))
    likeliest = max(starts[2:], key=lambda each: each.rounded)
    if best is moved and preferred(samples, best, likeliest, CLEARLY_OTHER) is best:
        best = finish(free, moved)
    if likeliest.rounded > best.rounded:
        likeliest = finish(free, likeliest)
        if preferred(samples, best, likeliest, CLEARLY_OTHER) is likeliest:
            regrouped = replace(kept, origin=f"{kept.origin}, {likeliest.origin}", unmixing=likeliest.unmixing)
            best = preferred(samples, finish(free, regrouped), likeliest, CLEARLY)
    if lead_of_product(samples, product, best) >= 0.0:
        return product, product, starts
    if len(shapes) > 1:
        peaked = screen(one_peak, best, goes_on=True, is_fixed=True)
        if preferred(samples, best, peaked, CLEARLY) is peaked:
            best = finish(one_peak, peaked, goes_on=True, is_fixed=best is kept)
    return best, product, starts


def preferred(
    samples: MixedSamples, first: UnmixingCandidate, second: UnmixingCandidate, clearly: float
) -> UnmixingCandidate:
    """The first candidate, unless the second one is clearly better.

    Clearly by so many standard deviations of the difference of Akaike's criteria (Vuong 1989): a component of few
    samples, or two peaks of a source, may raise the likelihood, but a group is one heap of samples unless they say
    otherwise.
    """
    densities = log_densities_of(samples, first), log_densities_of(samples, second)
    margin = clearly * deviation_of_difference(*densities, samples.weights)
    return second if second.criterion - first.criterion > margin else first


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
