"""Split-and-merge EM on overlapping bins: starts that are as good as the best optimum of the coarse model."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tensorly_smp._support.checks import RandomState, spawn_generators
from tensorly_smp._support.iteration import StopReason, SweepTrace, logger, progress_bar
from tensorly_smp._support.parallel import allowed_threads, run_each
from tensorly_smp.likelihood.comparison import Candidate, distinct_candidates
from tensorly_smp.likelihood.em import CLEAR_FROM, fits_of, is_clear, run_em
from tensorly_smp.likelihood.steps import CellSamples, Mixture, log_joint
from tensorly_smp.search.coarse import MidRanks, SearchSamples, log_tables, mixture_of, seeded_posteriors
from tensorly_smp.search.moves import SETTLED, candidates, merge_components, split_components

#: Independent searches of n_init="auto": more of few variables with fewer samples a component than this on average,
#: where optima are many. (GMM 10, 5, 300 with unequal weights, 24 truths: one search more is never lower and in 12
#: higher, by 5 nats in the mean; KL .630 and .592, clusters 89.3 and 92.3 % right.)
N_SEARCHES, N_SEARCHES_OF_FEW, FEW_SAMPLES, FEW_VARIABLES = 1, 2, 100.0, 20
#: Random starts on the first level, and their EM passes before the best goes on.
N_SEEDED, SEEDED_PASSES = 4, 12
#: EM has converged when two passes gain this much together, in nats summed over samples.
TOL = 0.02
#: EM passes at most.
MOST_PASSES = 500
#: Rounds without a better optimum after which a level ends, and a move that gains less, in nats, is none.
MOST_FAILURES, LEAST_GAIN = 2, 0.1
#: A candidate of a round is followed to its optimum if it is no more than this below the best optimum, in nats: what
#: is farther below did not get above it in 68 successful rounds of eight kinds of problems (at most 30.3 below). Of few
#: samples, no more than this per sample.
FOLLOWED_BELOW, FOLLOWED_BELOW_EACH, MOST_FOLLOWED = 35.0, 0.02, 4
#: Optima that are no more than this below the best of their level, in nats, are results too: the order of the coarse
#: model need not be that of smooth densities.
NEAR = 10.0
#: Where the merge of two components costs no more than this, in nats, a result too is the optimum in which they are
#: one and the component that becomes free follows the least likely sample: of few samples, the parameters of a
#: component may cost more than it gains.
DISSOLVED_BELOW = 60.0


def search(
    samples: SearchSamples,
    rank: int,
    n_init: int | str,
    random_state: RandomState,
    n_jobs: int | None,
    verbose: int,
) -> list[list[Candidate]]:
    """Independent split-and-merge searches.

    Parameters
    ----------
    samples : SearchSamples
    rank : int
    n_init : int or "auto"
        Number of searches.
    random_state : None, int, Generator or RandomState
        Every search has its own stream, so that the first are the same however many there are.
    n_jobs : int, optional
        Searches at a time; the result does not depend on it.
    verbose : int

    Returns
    -------
    list of list of Candidate
        What every search has found, the best first, with posteriors of all samples.
    """
    began = time.perf_counter()
    is_of_few = samples.some.weights.sum() < FEW_SAMPLES * rank and samples.some.values.shape[1] < FEW_VARIABLES
    n_auto = N_SEARCHES_OF_FEW if is_of_few and rank > 1 else N_SEARCHES
    n_searches = n_auto if n_init == "auto" else int(n_init)

    def one_search(rng: np.random.Generator, check: Callable[[], None]) -> list[Candidate]:
        found = split_and_merge(samples.some, samples.levels, rank, rng, check=check)
        bar.advance(objective=found[0].criterion)
        return found

    with progress_bar(verbose, "search", n_searches, unit="start") as bar:
        results, _ = run_each(
            one_search,
            spawn_generators(random_state, n_searches),
            allowed_threads(n_jobs),
            lambda found: found[0].is_stopped,
        )
    logger.info(
        "Search: %d searches on %d samples, objective %.6g, %d candidates; %.2f s",
        *(len(results), len(samples.some.values), max(found[0].criterion for found in results)),
        *(sum(map(len, results)), time.perf_counter() - began),
    )
    posteriors = iter(samples.posteriors([each.fit for found in results for each in found]))
    return [
        [replace(each, posterior=next(posteriors), start=start, fit=None) for each in found]
        for start, found in enumerate(results)
    ]


def split_and_merge(
    mid_ranks: MidRanks,
    levels: Sequence[CellSamples],
    rank: int,
    rng: np.random.Generator,
    *,
    start: np.ndarray | None = None,
    check: Callable[[], None] = lambda: None,
) -> list[Candidate]:
    """Search for the best mixtures of the coarse model.

    On every level EM is followed to its optimum. Then, round by round, two components are merged and another is split,
    so that their number stays: the losses and gains of all merges and splits are computed, the most promising
    combinations are tried with a few EM passes of the three components alone, and the best of these with EM of all. The
    first that ends higher is where the next round begins (Ueda, Nakano, Ghahramani and Hinton 2000). The value of the
    best optimum never falls on a level.

    Parameters
    ----------
    mid_ranks : MidRanks
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
    list of Candidate
        The best of the last level, with the trace of that level, and those near the best of a level with other
        clusters. After a keyboard interrupt what was reached, if anything was.

    References
    ----------
    N. Ueda, R. Nakano, Z. Ghahramani, G. E. Hinton, "SMEM algorithm for mixture models", Neural Computation 12, 2000.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> from tensorly_smp.search.coarse import MidRanks, overlapping_bins
    >>> from tensorly_smp.search.search import split_and_merge
    >>> X, labels, _ = smp.datasets.make_smooth_mixture("gaussian", 500, 4, 3, random_state=0)
    >>> mid_ranks = MidRanks.of(X, (), np.ones(500))
    >>> found = split_and_merge(mid_ranks, [overlapping_bins(mid_ranks, 12)], 3, np.random.default_rng(0))
    >>> bool(smp.metrics.clustering_accuracy(labels, found[0].posterior.argmax(axis=1)) > 0.97)
    True
    """
    most_failures = min(MOST_FAILURES, max(rank - 2, 0))  # of three components, there are three moves
    every: list[list[Candidate]] = []
    passed: list[Candidate] = []
    trace: list[tuple[float, float]] = []
    status = StopReason.CONVERGED
    began = time.perf_counter()
    try:
        posterior = _best_seeded(mid_ranks, levels[0], rank, rng) if start is None else start
        is_close = True
        for samples in levels:
            # Without moves, and with samples that belong to one component each, a finer level changes nothing.
            has_moves = is_close and most_failures > 0
            if every and not has_moves and mid_ranks.values.shape[1] >= CLEAR_FROM and is_clear(posterior):
                break
            found = optimize(samples, [mixture_of(samples, posterior)])
            first = found[0]
            every.append(found)
            trace = []
            # Where no move comes near on a level, none does on a finer one.
            failures = 0 if is_close else most_failures
            while True:
                trace.append((found[0].criterion, time.perf_counter() - began))
                if failures >= most_failures:
                    break
                check()
                better = _round(samples, mid_ranks, found, rng)
                if better is None:
                    is_close = False
                    break
                failures = 0 if better else failures + 1
            posterior = found[0].posterior
            # The best optimum of a level that leads to the best one of the next is no other result.
            passed += [each[0] for each in every[-2:-1] if found[0] is first]
    except KeyboardInterrupt:
        if not every:
            raise
        status = StopReason.INTERRUPTED
    if status is StopReason.CONVERGED and rank > 1:
        every.insert(0, _dissolved(levels[0], every[0][0]))
    near = [
        each
        for found in reversed(every)
        for each in found
        if each.criterion >= found[0].criterion - NEAR and each not in passed
    ]
    kept = distinct_candidates(near, levels[-1].sample_weight)
    values, seconds = np.array(trace).T
    kept[0].trace = SweepTrace(-values / levels[-1].total_weight, np.full(len(values), np.nan), seconds)
    kept[0].status = status
    return kept


def _round(samples: CellSamples, mid_ranks: MidRanks, found: list[Candidate], rng: np.random.Generator) -> bool | None:
    """One round from the best optimum: True if there is a better one now; None where no move comes near.

    What the moves lead to is put among the optima, best first.
    """
    best = found[0]
    mixture = best.fit.mixture
    splits = split_components(samples, mid_ranks, mixture, best.posterior, rng)
    merges = merge_components(samples, mixture, best.posterior)
    tried = candidates(samples, mixture, splits, merges)
    least = best.criterion - min(FOLLOWED_BELOW, FOLLOWED_BELOW_EACH * samples.total_weight)
    near = [moved for value, moved in tried[:MOST_FOLLOWED] if value > least]
    for together in (near[:1], near[1:]):  # most rounds that lead higher do so by the first
        found += optimize(samples, together) if together else []
        if max(each.criterion for each in found) > best.criterion + LEAST_GAIN:
            found.sort(key=lambda each: -each.criterion)
            return True
    found[1:] = sorted(found[1:], key=lambda each: -each.criterion)
    return False if near else None


def _dissolved(samples: CellSamples, best: Candidate) -> list[Candidate]:
    """The optimum next to this one in which the two components that are merged at the least loss are one, if any."""
    mixture = best.fit.mixture
    merges = merge_components(samples, mixture, best.posterior)
    least = int(np.argmin(merges.losses))
    if merges.losses[least] > DISSOLVED_BELOW:
        return []
    kept, freed = merges.pairs[:, least]
    posterior = best.posterior.copy()
    posterior[:, kept] += posterior[:, freed]
    posterior[:, freed] = 0.0
    joint = log_joint(samples.membership, mixture.log_weights, mixture.tables)
    outlier = int(np.argmin(joint.max(axis=1)))
    posterior[outlier] = 0.0
    posterior[outlier, freed] = 1.0
    return optimize(samples, [mixture_of(samples, posterior)])


def optimize(samples: CellSamples, mixtures: Sequence[Mixture]) -> list[Candidate]:
    """EM on the coarse model to the optima next to mixtures; criteria are penalized log-likelihoods of all samples."""
    reached = run_em(
        samples,
        [samples.feasible(mixture.pack(), mixture) for mixture in mixtures],
        [np.empty(0)] * len(mixtures),
        tol=0.5 * TOL,
        n_iter_max=[MOST_PASSES] * len(mixtures),
        fast_gain=1e-3 * samples.total_weight,
    )
    if any(run.status is StopReason.INTERRUPTED for run in reached):
        raise KeyboardInterrupt
    fits = fits_of(samples, [[run] for run in reached], [np.empty(0)] * len(reached), [run.status for run in reached])
    return [
        Candidate(fit.posterior, "search", fit=fit, criterion=run.value) for fit, run in zip(fits, reached, strict=True)
    ]


def _best_seeded(mid_ranks: MidRanks, samples: CellSamples, rank: int, rng: np.random.Generator) -> np.ndarray:
    """Posteriors (n_samples, rank) of the best of a few starts after a few EM passes, all of them side by side."""
    posterior = seeded_posteriors(mid_ranks, rank, N_SEEDED, rng)
    n_samples, n_starts, _ = posterior.shape
    weights = samples.sample_weight
    values = np.zeros(n_starts)
    for _ in range(SEEDED_PASSES):
        before = values
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
        if (np.abs(values - before) <= SETTLED * np.abs(values)).all():
            break
    return posterior[:, int(np.argmax(values))]
