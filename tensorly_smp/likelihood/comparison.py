"""Candidates for the result of a fit, their agreement, which of two is nearer to the truth; unlike components."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from tensorly_smp._support.iteration import StopReason

#: Clusterings that agree better than this (adjusted Rand index) count as one.
SAME_CLUSTERS = 0.99
#: Solutions that are no more than this below the best are its rivals: in nats, or in standard deviations of the
#: difference, whichever is more (the test of Vuong 1989 at 5 %).
RIVAL_BELOW, RIVAL_DEVIATIONS = 3.0, 1.96
#: Most rivals that are kept, and the agreement (adjusted Rand index) below which their clusters count as others than
#: those of the best and of each other.
MOST_RIVALS, OTHER_CLUSTERS = 5, 0.9
#: Candidates that are farther below the best than this, in nats, are not looked at.
HOPELESS = 100.0
#: Variables whose tables are one array.
TABLES_AT_ONCE = 64


@dataclass(eq=False)
class Candidate:
    """A solution that may become the result of a fit, as far as it has been followed.

    Attributes
    ----------
    posterior : ndarray (n_samples, rank)
        Where it starts, and after it has been followed where it is.
    origin : str
        "search", "split" and "merge" (of a search for another number of components), "gevd", "random" or "given"; or
        "move", if it was tried beside the best one.
    start : int
        The search, or the start of a decomposition, that it is a result of.
    fit : SmoothFit, MixtureFactors, CoupledSolution or LikelihoodSolution, optional
        The solution, as far as there is one.
    criterion : float
        What candidates are compared by, in nats; higher is better. NaN before it has been followed.
    status : StopReason
        Why it was followed no further.
    trace : SweepTrace or LikelihoodTrace, optional
        Of the sweeps or passes that it was followed. Of the best candidate of a search, the record of the search: its
        loss is minus the objective per unit of sample weight, on the last level, and a sweep is a round.
    number : int
        Position among the candidates of a fit.
    is_finished : bool
        True if it was followed to its end.
    deviation : float
        Of a rival, the standard deviation of the difference of its log-likelihood from that of the best, in nats.
    """

    posterior: np.ndarray
    origin: str
    start: int = 0
    fit: Any = None
    criterion: float = np.nan
    status: StopReason = StopReason.CONVERGED
    trace: Any = None
    number: int = 0
    is_finished: bool = False
    deviation: float = np.nan

    @property
    def clusters(self) -> np.ndarray:
        """Most probable component (n_samples,)."""
        return self.posterior.argmax(axis=1)

    @property
    def rounded(self) -> float:
        """The criterion in nine digits: of candidates of one optimum the first is best, in whatever order sums are."""
        return float(f"{self.criterion:.9g}")

    @property
    def is_stopped(self) -> bool:
        """True if the user has stopped it."""
        return self.status in (StopReason.INTERRUPTED, StopReason.CALLBACK)


AnyCandidate = TypeVar("AnyCandidate", bound=Candidate)


def distinct_candidates(
    candidates: Sequence[AnyCandidate], weights: np.ndarray | None, same: float = SAME_CLUSTERS
) -> list[AnyCandidate]:
    """The first of all candidates that agree to the adjusted Rand index `same`; weights (n_samples,)."""
    if len(candidates) < 2:
        return list(candidates)
    clusters = [candidate.clusters for candidate in candidates]
    rank = candidates[0].posterior.shape[1]
    kept: list[int] = []
    for i, own in enumerate(clusters):
        if all(adjusted_rand(contingency(clusters[j], own, rank, weights)) < same for j in kept):
            kept.append(i)
    return [candidates[i] for i in kept]


def find_rivals(
    best: Candidate,
    candidates: Sequence[Candidate],
    log_densities: Callable[[Candidate], np.ndarray],
    weights: np.ndarray | None,
    *,
    most: int = MOST_RIVALS,
    gain: float = 0.0,
    n_times: float = 1.0,
) -> list[Candidate]:
    """Candidates that may be as good as the best one and have other clusters, the most likely first.

    Their deviations are written down.

    Parameters
    ----------
    best : Candidate
    candidates : sequence of Candidate
        The best may be among them.
    log_densities : callable
        Log-densities (n_samples,) of the samples under a candidate.
    weights : ndarray (n_samples,) or None
        Of the samples; zero for those without entries.
    most : int
    gain : float
        What those that are not at their end may still gain, in nats.
    n_times : float
        How many times as many samples the criteria are of.
    """
    order = sorted((each for each in candidates if each is not best), key=lambda each: -each.rounded)
    of_best = None
    found: list[Candidate] = []
    for candidate in distinct_candidates([best, *order], weights, OTHER_CLUSTERS)[1:]:
        below = best.criterion - candidate.criterion - gain
        if below > HOPELESS or len(found) >= most:
            break
        of_best = log_densities(best) if of_best is None else of_best
        candidate.deviation = deviation_of_difference(of_best, log_densities(candidate), weights) * n_times**0.5
        if below <= max(RIVAL_BELOW, RIVAL_DEVIATIONS * candidate.deviation):
            found.append(candidate)
    return found


def contingency(first: np.ndarray, second: np.ndarray, rank: int, weights: np.ndarray | None = None) -> np.ndarray:
    """(Weighted) number of samples (rank, rank) in every pair of clusters, of numbers (n_samples,) below `rank`."""
    return np.bincount(first * rank + second, weights, rank * rank).reshape(rank, rank)


def adjusted_rand(table: np.ndarray) -> float:
    """Adjusted Rand index of two clusterings, from the number of samples in every pair of clusters.

    scikit-learn's takes the samples themselves, which cannot have weights, and its integers overflow beyond some
    billions of them.

    Parameters
    ----------
    table : ndarray (n_clusters, n_clusters)

    Returns
    -------
    float
        One if they agree, around zero by chance.

    References
    ----------
    L. Hubert, P. Arabie, "Comparing partitions", Journal of Classification 2, 1985.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.likelihood.comparison import adjusted_rand
    >>> adjusted_rand(np.array([[0, 5], [3, 0]]))
    1.0
    """
    counts = np.asarray(table, dtype=float)
    size = max(float(counts.sum()), 1.0)  # whose square may be beyond all floats
    together, of_rows, of_columns, every = (
        float((n / size * (np.maximum(n - 1.0, 0.0) / size)).sum())
        for n in (counts, counts.sum(axis=1), counts.sum(axis=0), counts.sum())
    )
    by_chance = of_rows * of_columns / every if every else 0.0
    most = (of_rows + of_columns) / 2.0
    return 1.0 if most == by_chance else (together - by_chance) / (most - by_chance)


def deviation_of_difference(first: np.ndarray, second: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """Standard deviation of the difference of two log-likelihoods, from sample to sample.

    The difference is a sum over samples. If both models are equally near to the truth, it is zero on average and
    nearly normal with this standard deviation; a smaller one says nothing about which is nearer.

    Parameters
    ----------
    first, second : ndarray (n_samples,)
        Log-densities of the samples under the two models.
    sample_weight : ndarray (n_samples,), optional
        Numbers of samples.

    Returns
    -------
    float
        In nats.

    References
    ----------
    Q. H. Vuong, "Likelihood ratio tests for model selection and non-nested hypotheses", Econometrica 57, 1989.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.likelihood.comparison import deviation_of_difference
    >>> deviation_of_difference(np.array([-1.0, -2.0, -1.0, -2.0]), np.array([-2.0, -1.0, -2.0, -1.0]))
    2.0
    """
    difference = first - second
    weights = np.ones(len(difference)) if sample_weight is None else sample_weight
    total = float(weights.sum())
    if total <= 0.0:
        return 0.0
    mean = float(weights @ difference) / total
    return float(np.sqrt(weights @ (difference - mean) ** 2))


def affinity(first: np.ndarray, second: np.ndarray | None = None) -> np.ndarray:
    """Affinities of the columns of one table of probabilities, or of those of two.

    Parameters
    ----------
    first : ndarray (..., n_cells, rank)
        Columns sum to one.
    second : ndarray (..., n_cells, other_rank), optional
        Default: the first.

    Returns
    -------
    ndarray (..., rank, other_rank)
        From zero to one.
    """
    roots = np.sqrt(np.maximum(first, 0.0))
    others = roots if second is None else np.sqrt(np.maximum(second, 0.0))
    return np.clip(np.swapaxes(roots, -1, -2) @ others, 0.0, 1.0)


def stacked_tables(tables: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Tables (n_cells[n], rank) of some variables at a time as one array (n_some, most_cells, rank), zeros below."""
    found = []
    for start in range(0, len(tables), TABLES_AT_ONCE):
        some = tables[start : start + TABLES_AT_ONCE]
        found.append(np.zeros((len(some), max(map(len, some)), some[0].shape[1])))
        for place, table in zip(found[-1], some, strict=True):
            place[: len(table)] = table
    return found


def separations(tables: Sequence[np.ndarray], weights: np.ndarray, n_samples: float) -> np.ndarray:
    """Evidence, by variable, that two components differ.

    For the affinity a of two densities that describe m and n samples, it is 4 m n / (m + n) (1 - a): to second order in
    their difference, the log-likelihood that one common density would lose.

    Parameters
    ----------
    tables : sequence of ndarray (n_cells, rank)
        Probabilities of the cells of every variable.
    weights : ndarray (rank,)
        Of the components.
    n_samples : float

    Returns
    -------
    ndarray (n_variables, rank, rank)
        In nats.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.likelihood.comparison import separations
    >>> table = np.array([[0.5, 0.5, 1.0], [0.5, 0.5, 0.0]])
    >>> separations([table], np.full(3, 1 / 3), 300)[0].round(1)
    array([[ 0. ,  0. , 58.6],
           [ 0. ,  0. , 58.6],
           [58.6, 58.6,  0. ]])
    """
    counts = n_samples * np.maximum(weights, 1e-300)
    harmonic = 1.0 / (1.0 / counts[:, None] + 1.0 / counts)
    return np.concatenate([4.0 * harmonic * (1.0 - affinity(some)) for some in stacked_tables(tables)])
