"""Starts of a fit: the search, the coupled decomposition, or factors that the user hands in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr
from scipy.sparse import csr_array

from tensorly_smp._support.iteration import StopReason
from tensorly_smp.codes.encoding import Codes
from tensorly_smp.decomposition.solution import CoupledSolution, factors_to_dataset, solution_to_dataset, with_starts
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.factors.sweeps import SweepTrace
from tensorly_smp.fitting.fit_samples import FitSamples
from tensorly_smp.likelihood.comparison import Candidate, distinct_candidates

#: Pseudo-counts per bin of the histograms that a search hands over.
PSEUDO_COUNT = 0.1


@dataclass(frozen=True, eq=False)
class Starts:
    """Candidates for a refinement, and the record of how they were found.

    Attributes
    ----------
    candidates : list of Candidate
        The best by what the starts themselves went by is the first; of a search they have different clusters.
    factors : MixtureFactors
        Of the best start.
    traces : tuple of SweepTrace
        Record of every start. Of searches the loss is minus their objective per unit of sample weight, on their last
        level, and a sweep is a round; of given factors it is minus the log-likelihood per sample of the bins.
    statuses : tuple of StopReason
        Of every start.
    best : int
        Number of the best start.
    loss_name : {"kl", "frobenius", "search", "given"}
    solution : CoupledSolution, optional
        Of a decomposition.
    """

    candidates: list[Candidate]
    factors: MixtureFactors
    traces: tuple[SweepTrace, ...]
    statuses: tuple[StopReason, ...]
    best: int
    loss_name: str
    solution: CoupledSolution | None = None

    @property
    def stopped(self) -> StopReason | None:
        """INTERRUPTED or CALLBACK if any start ended so."""
        return next((each for each in (StopReason.INTERRUPTED, StopReason.CALLBACK) if each in self.statuses), None)

    @property
    def best_candidate(self) -> Candidate:
        """The candidate of the best start; the first one if it was no different from an earlier one."""
        return next((each for each in self.candidates if each.start == self.best), self.candidates[0])

    def dataset(self, factors: MixtureFactors) -> xr.Dataset:
        """Factors, by decreasing weight, and the record of the starts."""
        factors = factors.to_numpy().sort()
        if self.solution is not None:
            return solution_to_dataset(replace(self.solution, factors=factors))
        return with_starts(factors_to_dataset(factors), self.loss_name, self.traces, self.statuses, self.best)


def searched_starts(samples: FitSamples, searches: Sequence[Sequence[Candidate]]) -> Starts:
    """Candidates from searches of the same samples, as of :func:`tensorly_smp.search.search.search`."""
    firsts = [found[0] for found in searches]
    best = int(np.argmax([each.criterion for each in firsts]))
    candidates = distinct_candidates([each for found in searches for each in found], samples.weights)
    for number, each in enumerate(candidates):
        each.number = number
    return Starts(
        candidates=candidates,
        factors=binned_factors(samples.codes, firsts[best].posterior, samples.weights),
        traces=tuple(each.trace for each in firsts),
        statuses=tuple(each.status for each in firsts),
        best=best,
        loss_name="search",
    )


def decomposed_starts(samples: FitSamples, solution: CoupledSolution, origin: str) -> Starts:
    """Candidates from the ends of all starts of a coupled decomposition.

    Parameters
    ----------
    samples : FitSamples
        Of many, some in place of all.
    solution : CoupledSolution
    origin : {"gevd", "random", "given"}
    """
    best = solution.best_start
    candidates = [
        Candidate(
            samples.expect(factors).posterior, origin, i, factors.to_numpy(), status=status, trace=trace, number=i
        )
        for i, (factors, status, trace) in enumerate(
            zip(solution.start_factors, solution.start_statuses, solution.start_traces, strict=True)
        )
    ]
    candidates.insert(0, candidates.pop(best))
    return Starts(
        candidates=candidates,
        factors=solution.factors,
        traces=solution.start_traces,
        statuses=solution.start_statuses,
        best=best,
        loss_name=solution.loss_name,
        solution=solution,
    )


def start_from_factors(samples: FitSamples, factors: MixtureFactors, rank: int) -> Starts:
    """The candidate of factors that are given."""
    if factors.rank != rank or factors.n_bins != samples.codes.n_bins:
        raise InvalidInputError(
            f"init has {factors.rank} components and {factors.n_bins} bins; expected {rank} components and "
            f"{samples.codes.n_bins} bins."
        )
    expected = samples.expect(factors)
    total = len(samples.values) if samples.weights is None else float(samples.weights.sum())
    trace = SweepTrace(np.array([-expected.log_likelihood / total]), np.array([np.nan]), np.zeros(1))
    return Starts(
        candidates=[Candidate(expected.posterior, "given")],
        factors=replace(factors.to_numpy(), binning=samples.binning),
        traces=(trace,),
        statuses=(StopReason.MAX_SWEEPS,),
        best=0,
        loss_name="given",
    )


def binned_factors(
    codes: Codes, posterior: np.ndarray, weights: np.ndarray | None, pseudo_count: float = PSEUDO_COUNT
) -> MixtureFactors:
    """Histograms of the components under posteriors (n_samples, rank), with a part of a sample more in every bin."""
    owned = posterior if weights is None else posterior * weights[:, None]
    columns = []
    for n, size in enumerate(codes.n_bins):
        kept = np.flatnonzero(codes.values[:, n] >= 0)
        members = csr_array((np.ones(len(kept)), (codes.values[kept, n], kept)), shape=(size, len(owned)))
        counts = members @ owned + pseudo_count
        columns.append(counts / counts.sum(axis=0))
    shares = np.maximum(owned.sum(axis=0), 1e-12)
    return MixtureFactors(shares / shares.sum(), tuple(columns), codes.binning)
