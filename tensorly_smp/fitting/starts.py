"""Where a fit starts from: the search, the coupled decomposition, or factors that are given."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tensorly_smp._support.iteration import StopReason
from tensorly_smp._support.progress import logger, progress_bar
from tensorly_smp._support.randomness import RandomState, spawn_generators
from tensorly_smp._support.threads import allowed_threads, run_each
from tensorly_smp.codes.encoding import Codes
from tensorly_smp.decomposition.solution import CoupledSolution
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.factors.sweeps import SweepTrace
from tensorly_smp.fitting.fit_samples import SamplesInMemory
from tensorly_smp.likelihood.agreement import distinct_clusterings
from tensorly_smp.search.overlapping_bins import Fractions, OverlappingBins
from tensorly_smp.search.seeds import canonical, thinned
from tensorly_smp.search.split_merge import LEVELS, SearchResult, split_and_merge

#: Independent searches of n_init="auto".
N_SEARCHES = 1
#: Pseudo-counts per bin of the histograms that a search hands over.
PSEUDO_COUNT = 0.1


@dataclass(frozen=True, eq=False)
class Candidate:
    """Posteriors that a refinement may go on from.

    Attributes
    ----------
    posterior : ndarray (n_samples, rank)
    origin : str
        "search", "gevd", "random" or "given".
    start : int
        The start that it is a result of; the first candidate of every start is its best one.
    """

    posterior: np.ndarray
    origin: str
    start: int


@dataclass(frozen=True, eq=False)
class Starts:
    """Candidates for a refinement, and the record of how they were found.

    Attributes
    ----------
    candidates : list of Candidate
        Of different clusters; the best by what the starts themselves went by is the first.
    solution : CoupledSolution
        Factors on the bins, losses, traces and statuses of all starts. Of searches the loss is minus their objective
        per unit of sample weight, on their last level, and a sweep is a round.
    """

    candidates: list[Candidate]
    solution: CoupledSolution

    @property
    def status(self) -> StopReason | None:
        """INTERRUPTED or CALLBACK if any start ended so."""
        return stopped_status(self.solution)


def stopped_status(solution: CoupledSolution) -> StopReason | None:
    """INTERRUPTED or CALLBACK if any start of a solution ended so."""
    stopped = (StopReason.INTERRUPTED, StopReason.CALLBACK)
    return next((status for status in stopped if status in solution.start_statuses), None)


def searched_starts(
    samples: SamplesInMemory,
    rank: int,
    discrete: Sequence[int],
    n_init: int | str,
    random_state: RandomState,
    n_jobs: int | None,
    verbose: int,
) -> Starts:
    """Independent split-and-merge searches, and the algebraic start where it succeeds.

    Parameters
    ----------
    samples : SamplesInMemory
        Of many, some in place of all.
    rank : int
    discrete : sequence of int
        Positions of the discrete variables.
    n_init : int or "auto"
        Number of searches.
    random_state : None, int, Generator or RandomState
        Every search has its own stream, so that the first are the same however many there are.
    n_jobs : int, optional
        Searches at a time; the result does not depend on it.
    verbose : int

    Returns
    -------
    Starts

    Raises
    ------
    InvalidInputError
        More components than samples that count.
    """
    began = time.perf_counter()
    n_searches = N_SEARCHES if n_init == "auto" else int(n_init)
    weights = np.ones(len(samples.values)) if samples.weights is None else samples.weights
    counted = (weights > 0) & ~np.isnan(samples.values).all(axis=1)
    if counted.sum() < rank:
        raise InvalidInputError(
            f"{rank} components with {counted.sum()} samples that have entries and a positive weight; expected at most "
            "one component per sample."
        )
    every = Fractions.of(samples.values[counted], discrete, weights[counted])
    some = thinned(canonical(every), rank)
    levels = [OverlappingBins.of(some, size) for size in LEVELS]
    streams = spawn_generators(random_state, n_searches)

    def search(rng: np.random.Generator, check: Callable[[], None]) -> SearchResult:
        found = split_and_merge(some, levels, rank, rng, check=check)
        bar.advance(objective=found.best.value)
        return found

    with progress_bar(verbose, "search", n_searches, unit="start") as bar:
        results, _ = run_each(
            search, streams, allowed_threads(n_jobs), lambda found: found.status is StopReason.INTERRUPTED
        )
    best = int(np.argmax([found.best.value for found in results]))
    candidates = _candidates(results, every, levels, counted)
    posterior = next(candidate.posterior for candidate in candidates if candidate.start == best)
    candidates = _distinct(candidates, weights)
    logger.info(
        "Search: %d searches on %d samples, objective %.6g, %d candidates; %.2f s",
        *(len(results), len(some.values), results[best].best.value, len(candidates), time.perf_counter() - began),
    )
    traces = tuple(_trace(found, levels[-1].total) for found in results)
    solution = CoupledSolution(
        factors=binned_factors(samples.codes, posterior, samples.weights),
        trace=traces[best],
        status=results[best].status,
        start_losses=np.array([trace.loss[-1] for trace in traces]),
        start_statuses=tuple(found.status for found in results),
        loss_name="search",
        best_start=best,
        start_traces=traces,
    )
    return Starts(candidates, solution)


def decomposed_starts(samples: SamplesInMemory, solution: CoupledSolution, origin: str) -> Starts:
    """Candidates from the ends of all starts of a coupled decomposition.

    Parameters
    ----------
    samples : SamplesInMemory
        Of many, some in place of all.
    solution : CoupledSolution
    origin : {"gevd", "random"}
    """
    weights = np.ones(len(samples.values)) if samples.weights is None else samples.weights
    order = [solution.best_start, *(i for i in range(len(solution.start_factors)) if i != solution.best_start)]
    posteriors = samples.posteriors([solution.start_factors[i] for i in order])
    candidates = [Candidate(posterior, origin, 0) for posterior in posteriors]
    return Starts(_distinct(candidates, weights), solution)


def given_start(samples: SamplesInMemory, factors: MixtureFactors, rank: int) -> Starts:
    """The candidate of factors that are given; their loss is minus the log-likelihood per sample of the bins."""
    if factors.rank != rank or factors.n_bins != samples.codes.n_bins:
        raise InvalidInputError(
            f"init has {factors.rank} components and {factors.n_bins} bins; expected {rank} components and "
            f"{samples.codes.n_bins} bins."
        )
    expected = samples.expect(factors)
    total = len(samples.values) if samples.weights is None else float(samples.weights.sum())
    trace = SweepTrace(np.array([-expected.log_likelihood / total]), np.array([np.nan]), np.zeros(1))
    solution = CoupledSolution(
        factors=replace(factors.to_numpy(), binning=samples.binning),
        trace=trace,
        status=StopReason.MAX_SWEEPS,
        start_losses=trace.loss,
        start_statuses=(StopReason.MAX_SWEEPS,),
        loss_name="given",
        start_traces=(trace,),
    )
    return Starts([Candidate(expected.posterior, "given", 0)], solution)


def binned_factors(codes: Codes, posterior: np.ndarray, weights: np.ndarray | None) -> MixtureFactors:
    """Histograms of the components under posteriors (n_samples, rank), a tenth of a sample in every bin."""
    owned = posterior if weights is None else posterior * weights[:, None]
    columns = []
    for n, size in enumerate(codes.n_bins):
        kept = codes.values[:, n] >= 0
        counts = np.full((size, owned.shape[1]), PSEUDO_COUNT)
        np.add.at(counts, codes.values[kept, n], owned[kept])
        columns.append(counts / counts.sum(axis=0))
    shares = np.maximum(owned.sum(axis=0), 1e-12)
    return MixtureFactors(shares / shares.sum(), tuple(columns), codes.binning)


def _candidates(
    results: Sequence[SearchResult], every: Fractions, levels: Sequence[OverlappingBins], counted: np.ndarray
) -> list[Candidate]:
    """Posteriors of all samples for all optima of all searches; those without entries have the weights."""
    sizes = {id(some): size for some, size in zip(levels, LEVELS, strict=True)}
    bins: dict[int, OverlappingBins] = {}
    found = []
    for start, result in enumerate(results):
        for optimum in result.optima:
            level = id(optimum.bins)
            if level not in bins:
                bins[level] = OverlappingBins.of(every, sizes[level])
            posterior = np.tile(np.exp(optimum.logs[-1]), (len(counted), 1))
            posterior[counted] = bins[level].e_step(optimum.logs).posterior
            found.append(Candidate(posterior, "search", start))
    return found


def _distinct(candidates: list[Candidate], weights: np.ndarray) -> list[Candidate]:
    clusters = [candidate.posterior.argmax(axis=1) for candidate in candidates]
    rank = candidates[0].posterior.shape[1]
    return [candidates[i] for i in distinct_clusterings(clusters, rank, weights)]


def _trace(found: SearchResult, total: float) -> SweepTrace:
    last = [entry for entry, level in zip(found.trace, found.levels, strict=True) if level == found.levels[-1]]
    values, seconds = np.array(last).T
    return SweepTrace(-values / total, np.full(len(values), np.nan), seconds)
