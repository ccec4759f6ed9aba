"""Starts of a fit: the search, the coupled decomposition, or factors that the user hands in."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array

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
from tensorly_smp.likelihood.comparison import distinct_clusterings
from tensorly_smp.likelihood.steps import CellSamples
from tensorly_smp.search.overlapping_bins import Fractions, overlapping_bins
from tensorly_smp.search.seeds import canonical, thinned
from tensorly_smp.search.split_merge import LEVELS, Optimum, SearchResult, split_and_merge
from tensorly_smp.search.walk import walk

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
        "search", "split" and "merge" (of a search for another number of components), "gevd", "random" or "given".
    start : int
        The search that it is a result of; 0 for all candidates of a coupled decomposition, whichever of its starts they
        come from. Candidates of one start are compared with each other; the first of them is its best one.
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

    @property
    def best_candidate(self) -> int:
        """Position of the candidate that the solution is of; the first if it was no different from an earlier one."""
        own = (i for i, candidate in enumerate(self.candidates) if candidate.start == self.solution.best_start)
        return next(own, 0)


def stopped_status(solution: CoupledSolution) -> StopReason | None:
    """INTERRUPTED or CALLBACK if any start of a solution ended so."""
    stopped = (StopReason.INTERRUPTED, StopReason.CALLBACK)
    return next((status for status in stopped if status in solution.start_statuses), None)


@dataclass(frozen=True, eq=False)
class Searched:
    """Result of searches for one number of components.

    Attributes
    ----------
    candidates : list of Candidate
        Of different clusters, the best first.
    posterior : ndarray (n_samples, rank)
        Of the best optimum.
    traces : tuple of SweepTrace
        Record of every search; its loss is minus the objective per unit of sample weight, on the last level.
    statuses : tuple of StopReason
    best : int
        The search that found the best optimum.
    """

    candidates: list[Candidate]
    posterior: np.ndarray
    traces: tuple[SweepTrace, ...]
    statuses: tuple[StopReason, ...]
    best: int


class SearchSamples:
    """Samples of a search: in canonical order, thinned, on all levels of the coarse model.

    Parameters
    ----------
    values : ndarray (n_samples, n_variables)
        NaN = missing.
    weights : ndarray (n_samples,) or None
    discrete : sequence of int
        Positions of the discrete variables.
    rank : int
        Largest number of components that is searched for.

    Raises
    ------
    InvalidInputError
        More components than samples that count.
    """

    def __init__(self, values: np.ndarray, weights: np.ndarray | None, discrete: Sequence[int], rank: int) -> None:
        self.weights = np.ones(len(values)) if weights is None else weights
        self.counted = (self.weights > 0) & ~np.isnan(values).all(axis=1)
        if rank > (n_useful := max(self.counted.sum(), self.weights[self.counted].sum())):
            raise InvalidInputError(
                f"{rank} components with {n_useful:.6g} samples that have entries and a positive weight; "
                "expected at most one component per sample."
            )
        self.every = Fractions.of(values[self.counted], discrete, self.weights[self.counted])
        self.some = thinned(canonical(self.every), rank)
        self.levels = [overlapping_bins(self.some, size) for size in LEVELS]
        self._bins: dict[int, CellSamples] = {}

    def result(self, results: Sequence[SearchResult], origin: str = "search") -> Searched:
        """Candidates from the optima of searches, for all samples; the best one is of this origin."""
        best = int(np.argmax([found.best.value for found in results]))
        candidates = [
            Candidate(self._posterior(optimum), origin if optimum is results[best].best else "search", start)
            for start, found in enumerate(results)
            for optimum in found.optima
        ]
        posterior = next(candidate.posterior for candidate in candidates if candidate.start == best)
        return Searched(
            candidates=_distinct(candidates, self.weights),
            posterior=posterior,
            traces=tuple(_trace(found, self.levels[-1].total_weight) for found in results),
            statuses=tuple(found.status for found in results),
            best=best,
        )

    def _posterior(self, optimum: Optimum) -> np.ndarray:
        """Posteriors of all samples (n_samples, rank); those without entries have the weights."""
        size = LEVELS[next(i for i, bins in enumerate(self.levels) if bins is optimum.samples)]
        if size not in self._bins:
            self._bins[size] = overlapping_bins(self.every, size)
        mixture = optimum.mixture
        posterior = np.tile(np.exp(mixture.log_weights), (len(self.counted), 1))
        posterior[self.counted] = self._bins[size].e_step(mixture.log_weights, mixture.tables).posterior
        return posterior


def search(
    samples: SearchSamples,
    rank: int,
    n_init: int | str,
    random_state: RandomState,
    n_jobs: int | None,
    verbose: int,
) -> Searched:
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
    Searched
    """
    began = time.perf_counter()
    n_searches = _n_searches(n_init)

    def one_search(rng: np.random.Generator, check: Callable[[], None]) -> SearchResult:
        found = split_and_merge(samples.some, samples.levels, rank, rng, check=check)
        bar.advance(objective=found.best.value)
        return found

    with progress_bar(verbose, "search", n_searches, unit="start") as bar:
        results, _ = run_each(
            one_search,
            spawn_generators(random_state, n_searches),
            allowed_threads(n_jobs),
            lambda found: found.status is StopReason.INTERRUPTED,
        )
    found = samples.result(results)
    logger.info(
        "Search: %d searches on %d samples, objective %.6g, %d candidates; %.2f s",
        len(results),
        len(samples.some.values),
        results[found.best].best.value,
        len(found.candidates),
        time.perf_counter() - began,
    )
    return found


def _n_searches(n_init: int | str) -> int:
    return N_SEARCHES if n_init == "auto" else int(n_init)


def search_each(
    samples: SearchSamples, ranks: Sequence[int], n_init: int | str, random_state: RandomState
) -> dict[int, Searched]:
    """Searches for several numbers of components, in increasing order, each helped by its neighbors; see `walk`."""
    n_searches = _n_searches(n_init)
    found = walk(samples.some, samples.levels, ranks, lambda: spawn_generators(random_state, n_searches))
    return {rank: samples.result([each.result], each.origin) for rank, each in found.items()}


def searched_starts(samples: SamplesInMemory, found: Searched) -> Starts:
    """Candidates from searches of the same samples."""
    solution = CoupledSolution(
        factors=binned_factors(samples.codes, found.posterior, samples.weights),
        trace=found.traces[found.best],
        status=found.statuses[found.best],
        start_losses=np.array([trace.loss[-1] for trace in found.traces]),
        start_statuses=found.statuses,
        loss_name="search",
        best_start=found.best,
        start_traces=found.traces,
    )
    return Starts(found.candidates, solution)


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


def start_from_factors(samples: SamplesInMemory, factors: MixtureFactors, rank: int) -> Starts:
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
        kept = np.flatnonzero(codes.values[:, n] >= 0)
        members = csr_array((np.ones(len(kept)), (codes.values[kept, n], kept)), shape=(size, len(owned)))
        counts = members @ owned + PSEUDO_COUNT
        columns.append(counts / counts.sum(axis=0))
    shares = np.maximum(owned.sum(axis=0), 1e-12)
    return MixtureFactors(shares / shares.sum(), tuple(columns), codes.binning)


def _distinct(candidates: list[Candidate], weights: np.ndarray) -> list[Candidate]:
    clusters = [candidate.posterior.argmax(axis=1) for candidate in candidates]
    rank = candidates[0].posterior.shape[1]
    return [candidates[i] for i in distinct_clusterings(clusters, rank, weights)]


def _trace(found: SearchResult, total: float) -> SweepTrace:
    last = [entry for entry, level in zip(found.trace, found.levels, strict=True) if level == found.levels[-1]]
    values, seconds = np.array(last).T
    return SweepTrace(-values / total, np.full(len(values), np.nan), seconds)
