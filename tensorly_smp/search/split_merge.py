"""Split-and-merge EM on overlapping bins: starts that are as good as the best optimum of the coarse model."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tensorly_smp._support.iteration import StopReason
from tensorly_smp.likelihood.comparison import distinct_clusterings
from tensorly_smp.likelihood.em import run_em
from tensorly_smp.likelihood.steps import CellSamples, SmoothMixture, log_joint
from tensorly_smp.search.moves import candidates, merge_components, split_components
from tensorly_smp.search.overlapping_bins import Fractions, log_tables, mixture_of
from tensorly_smp.search.seeds import seeded_posteriors

#: Intervals between the knots of every variable, level after level: from a coarse model with few optima to a finer one,
#: whose optima are nearer to those of smooth densities.
LEVELS = (8, 12, 16)
#: Random starts on the first level, and their EM passes before the best goes on.
N_SEEDED, SEEDED_PASSES = 4, 12
#: EM has converged when two passes gain this much together, in nats summed over samples.
TOL = 0.02
#: EM passes at most.
MOST_PASSES = 500
#: Rounds without a better optimum after which a level ends, and a move that gains less, in nats, is none.
MOST_FAILURES, LEAST_GAIN = 2, 0.1
#: A candidate of a round is followed to its optimum if it is no more than this below the best optimum, in nats: what
#: is farther below did not get above it in 68 successful rounds of eight kinds of problems (at most 30.3 below).
FOLLOWED_BELOW, MOST_FOLLOWED = 35.0, 4
#: Optima that are no more than this below the best of their level, in nats, are results too: the order of the coarse
#: model need not be that of smooth densities.
NEAR = 10.0
#: Where the merge of two components costs no more than this, in nats, a result too is the optimum in which they are
#: one and the component that becomes free follows the least likely sample: of few samples, the parameters of a
#: component may cost more than it gains.
DISSOLVED_BELOW = 60.0


@dataclass(frozen=True, eq=False)
class Optimum:
    """A local optimum of the coarse model.

    Attributes
    ----------
    value : float
        Penalized log-likelihood, in nats summed over samples.
    mixture : SmoothMixture
    posterior : ndarray (n_samples, rank)
        Of the samples that were searched on.
    samples : CellSamples
        Those, in the bins of the coarse model.
    """

    value: float
    mixture: SmoothMixture
    posterior: np.ndarray
    samples: CellSamples


@dataclass(eq=False)
class SearchResult:
    """Result of :func:`split_and_merge`.

    Attributes
    ----------
    optima : list of Optimum
        The best of the last level first, and those near it whose clusters differ.
    trace : list of (float, float)
        Objective of the best optimum of the first level after every round, and seconds; it never falls within a level.
    levels : list of int
        Level that each entry of the trace belongs to.
    status : StopReason
    """

    optima: list[Optimum] = field(default_factory=list)
    trace: list[tuple[float, float]] = field(default_factory=list)
    levels: list[int] = field(default_factory=list)
    status: StopReason = StopReason.CONVERGED

    @property
    def best(self) -> Optimum:
        """The highest optimum of the last level."""
        return self.optima[0]


def split_and_merge(
    fractions: Fractions,
    levels: Sequence[CellSamples],
    rank: int,
    rng: np.random.Generator,
    *,
    start: np.ndarray | None = None,
    check: Callable[[], None] = lambda: None,
) -> SearchResult:
    """Search for the best mixtures of the coarse model.

    On every level EM is followed to its optimum. Then, round by round, two components are merged and another is split,
    so that their number stays: the losses and gains of all merges and splits are computed, the most promising
    combinations are tried with a few EM passes of the three components alone, and the best of these with EM of all. The
    first that ends higher is where the next round begins (Ueda, Nakano, Ghahramani and Hinton 2000). The value of the
    best optimum never falls on a level.

    Parameters
    ----------
    fractions : Fractions
        The samples to search on, in canonical order.
    levels : sequence of CellSamples
        These samples in :func:`overlapping_bins`, from coarse to fine.
    rank : int
        Number of components.
    rng : Generator
    start : ndarray (n_samples, rank), optional
        Posteriors to begin with; seeded ones by default.
    check : callable
        ``check()`` between rounds; may raise KeyboardInterrupt.

    Returns
    -------
    SearchResult
        After a keyboard interrupt what was reached, if anything was.

    References
    ----------
    N. Ueda, R. Nakano, Z. Ghahramani, G. E. Hinton, "SMEM algorithm for mixture models", Neural Computation 12, 2000.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> from tensorly_smp.search.overlapping_bins import Fractions, overlapping_bins
    >>> from tensorly_smp.search.split_merge import split_and_merge
    >>> X, labels, _ = smp.datasets.make_smooth_mixture("gaussian", 500, 4, 3, random_state=0)
    >>> fractions = Fractions.of(X, (), np.ones(500))
    >>> found = split_and_merge(fractions, [overlapping_bins(fractions, 12)], 3, np.random.default_rng(0))
    >>> bool(smp.metrics.clustering_accuracy(labels, found.best.posterior.argmax(axis=1)) > 0.97)
    True
    """
    result = SearchResult()
    every: list[list[Optimum]] = []
    began = time.perf_counter()
    try:
        posterior = _best_seeded(fractions, levels[0], rank, rng) if start is None else start
        is_close = True
        for number, samples in enumerate(levels):
            found = [optimize_posterior(samples, posterior)]
            every.append(found)
            # Where no move comes near on a level, none does on a finer one.
            failures = 0 if is_close else MOST_FAILURES
            while True:
                result.trace.append((found[0].value, time.perf_counter() - began))
                result.levels.append(number)
                if failures >= MOST_FAILURES or rank < 3:
                    break
                check()
                better = _round(fractions, found, rng)
                if better is None:
                    is_close = False
                    break
                failures = 0 if better else failures + 1
            posterior = found[0].posterior
    except KeyboardInterrupt:
        if not every:
            raise
        result.status = StopReason.INTERRUPTED
    if result.status is StopReason.CONVERGED and rank > 1:
        every.append(_dissolved(every[0][0]))
    near = [
        each
        for found in [*reversed(every[: len(levels)]), *every[len(levels) :]]
        for each in found
        if each.value >= found[0].value - NEAR
    ]
    clusters = [each.posterior.argmax(axis=1) for each in near]
    result.optima = [near[i] for i in distinct_clusterings(clusters, rank, levels[-1].sample_weight)]
    return result


def _round(fractions: Fractions, found: list[Optimum], rng: np.random.Generator) -> bool | None:
    """One round from the best optimum: whether there is a better one now; None where no move comes near.

    What the moves lead to is put among the optima, best first.
    """
    best = found[0]
    splits = split_components(best.samples, fractions, best.mixture, best.posterior, rng)
    merges = merge_components(best.samples, best.mixture, best.posterior)
    tried = candidates(best.samples, best.mixture, splits, merges)
    near = [mixture for value, mixture in tried[:MOST_FOLLOWED] if value > best.value - FOLLOWED_BELOW]
    for mixture in near:
        optimum = optimize(best.samples, mixture)
        found.append(optimum)
        if optimum.value > best.value + LEAST_GAIN:
            found.sort(key=lambda each: -each.value)
            return True
    found[1:] = sorted(found[1:], key=lambda each: -each.value)
    return False if near else None


def _dissolved(best: Optimum) -> list[Optimum]:
    """The optimum next to this one in which the two components that are merged at the least loss are one, if any."""
    merges = merge_components(best.samples, best.mixture, best.posterior)
    least = int(np.argmin(merges.losses))
    if merges.losses[least] > DISSOLVED_BELOW:
        return []
    kept, freed = merges.pairs[:, least]
    posterior = best.posterior.copy()
    posterior[:, kept] += posterior[:, freed]
    posterior[:, freed] = 0.0
    joint = log_joint(best.samples.membership, best.mixture.log_weights, best.mixture.tables)
    outlier = int(np.argmin(joint.max(axis=1)))
    posterior[outlier] = 0.0
    posterior[outlier, freed] = 1.0
    return [optimize_posterior(best.samples, posterior)]


def optimize_posterior(samples: CellSamples, posterior: np.ndarray) -> Optimum:
    """EM on the coarse model to its optimum, from posteriors (n_samples, rank)."""
    return optimize(samples, mixture_of(samples, posterior))


def optimize(samples: CellSamples, mixture: SmoothMixture) -> Optimum:
    """EM on the coarse model, to its optimum."""
    reached = run_em(
        samples,
        samples.feasible(mixture.pack(), mixture),
        np.empty(0),
        tol=0.5 * TOL,
        n_iter_max=MOST_PASSES,
        fast_gain=1e-3 * samples.total_weight,
    )
    if reached.status is StopReason.INTERRUPTED:
        raise KeyboardInterrupt
    return Optimum(reached.value, reached.position, reached.detail.posterior, samples)


def _best_seeded(fractions: Fractions, samples: CellSamples, rank: int, rng: np.random.Generator) -> np.ndarray:
    """Posteriors (n_samples, rank) of the best of a few starts after a few EM passes, all of them side by side."""
    posterior = seeded_posteriors(fractions, rank, N_SEEDED, rng)
    n_samples, n_starts, _ = posterior.shape
    weights = samples.sample_weight
    values = np.zeros(n_starts)
    for _ in range(SEEDED_PASSES):
        owned = (posterior * weights[:, None, None]).reshape(n_samples, -1)
        tables = log_tables(samples, samples.transposed @ owned)
        joint = samples.membership @ tables
        joint += np.log(np.maximum(owned.sum(axis=0) / samples.total_weight, 1e-60))
        joint = joint.reshape(n_samples, n_starts, rank)
        peak = joint.max(axis=2)
        joint -= peak[:, :, None]
        np.exp(joint, out=joint)
        total = joint.sum(axis=2)
        posterior = joint / total[:, :, None]
        penalty = float(samples.prior[0, 0]) * tables.reshape(-1, n_starts, rank).sum(axis=(0, 2))
        values = weights @ (peak + np.log(total)) + penalty
    return posterior[:, int(np.argmax(values))]
