"""Starts of a fit: the search, the coupled decomposition, or factors that the user hands in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import comb
from typing import Any

import numpy as np
import xarray as xr

from tensorly_smp._support.checks import RandomState
from tensorly_smp._support.iteration import StopReason, SweepTrace
from tensorly_smp.codes.encoding import Codes, one_hot
from tensorly_smp.decomposition.problem import SolverOptions, as_problem
from tensorly_smp.decomposition.solution import CoupledSolution, factors_to_dataset, solution_to_dataset, with_starts
from tensorly_smp.decomposition.solver import coupled_simplex_parafac
from tensorly_smp.exceptions import InvalidInputError, SizeLimitError
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.factors.sweeps import Callback
from tensorly_smp.fitting.fit_samples import FitSamples
from tensorly_smp.likelihood.comparison import Candidate, distinct_candidates
from tensorly_smp.marginals.histograms import MAX_BYTES, bytes_of_histograms, cells_of_all_triples

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
    counts = one_hot(codes).T @ owned + pseudo_count
    columns = np.split(counts, np.cumsum(codes.n_bins)[:-1])
    totals = np.add.reduceat(counts, np.cumsum([0, *codes.n_bins[:-1]]), axis=0)
    shares = np.maximum(owned.sum(axis=0), 1e-12)
    return MixtureFactors(
        shares / shares.sum(), tuple(c / t for c, t in zip(columns, totals, strict=True)), codes.binning
    )


# ---- the coupled decomposition as the estimator asks for it: which loss, how many starts, how far ----

#: Cells of all histograms up to which loss="auto" takes the KL loss.
MOST_CELLS_FOR_KL = 2_000_000
#: Variables up to which n_init="auto" may take several starts.
MOST_VARIABLES_FOR_STARTS = 100
#: Sweeps after which the likelihood takes over with refine="smooth", if starts come from the coupled decomposition;
#: fewer where they are over all triples of many variables, which are within a percent of their end then.
START_SWEEPS, START_SWEEPS_OF_MANY = 10, 5
#: Starts of n_init="auto".
N_STARTS = 5


@dataclass(frozen=True)
class Decomposition:
    """Parameters of the estimator, and whether the solution is a start of a refinement only."""

    rank: int
    triples: str | int | Iterable[Sequence[int]]
    loss: str
    init: str | MixtureFactors
    n_init: int | str
    is_start: bool
    max_iter: int
    tol: float
    n_jobs: int | None
    random_state: RandomState
    callback: Callback | None
    verbose: int
    warns: bool = True

    @property
    def is_of_all_triples(self) -> bool:
        """True if no triple is left out."""
        return isinstance(self.triples, str) and self.triples == "all"

    def is_large(self, n_bins: Sequence[int]) -> bool:
        """True if the histograms of all triples are too large for the KL loss."""
        return cells_of_all_triples(n_bins) > MOST_CELLS_FOR_KL

    def settings(self, n_bins: Sequence[int]) -> dict[str, Any]:
        """Options of the solver for variables of so many bins."""
        is_large = self.is_large(n_bins)
        n_init: Any = self.n_init
        if isinstance(n_init, str) and n_init == "auto":
            is_one = isinstance(self.init, MixtureFactors) or len(n_bins) > MOST_VARIABLES_FOR_STARTS
            n_init = 1 if is_one else N_STARTS
        sweeps = START_SWEEPS_OF_MANY if is_large else START_SWEEPS
        return dict(
            loss=self.loss if self.loss != "auto" else ("frobenius" if is_large else "kl"),
            init=self.init if not isinstance(self.init, str) or self.init != "auto" else "gevd",
            n_init=n_init,
            n_iter_max=min(self.max_iter, sweeps) if self.is_start else self.max_iter,
            tol=self.tol,
            random_state=self.random_state,
            callback=self.callback,
            verbose=self.verbose,
            # A start is cut short on purpose.
            options=SolverOptions(n_jobs=self.n_jobs, warn=self.warns and not self.is_start),
        )

    def solution(self, samples: FitSamples) -> CoupledSolution:
        """The coupled CPD: to its end, or as far as a refinement needs it.

        Raises
        ------
        SizeLimitError
            The histograms of all triples would be too large. Samples in memory need none with the Frobenius loss.
        """
        n_bins = samples.binning.n_bins
        settings = self.settings(n_bins)
        is_large = self.is_of_all_triples and self.is_large(n_bins)
        if is_large and (self.is_start or samples.is_in_memory):
            # For a start, a part of many samples is as good.
            codes, weights = samples.thinned() if self.is_start else (samples.codes, samples.weights)
            return coupled_simplex_parafac(codes, self.rank, sample_weight=weights, **settings)
        if is_large and (size := bytes_of_histograms(n_bins)) > MAX_BYTES:
            n_variables = len(n_bins)
            raise SizeLimitError(
                f"The histograms of all {comb(n_variables, 3)} triples of {n_variables} variables would take "
                f"{size / 1e9:.3g} GB, over the limit of {MAX_BYTES / 1e9:.3g} GB, and of samples in chunks they have "
                f"to be counted. Expected a number of triples, as triples={10 * n_variables}, which uses all variables "
                'evenly; fewer bins; refine="smooth", which needs no histograms of many variables; or samples in '
                "memory."
            )
        marginals = samples.count(self.triples, self.random_state)
        if self.is_of_all_triples and not is_large:
            return coupled_simplex_parafac(marginals, self.rank, **settings)
        # The algebraic start is of the samples: some triples make no block tensor, and that of all is large.
        codes, weights = samples.thinned()
        problem = as_problem(
            marginals, self.rank, settings["loss"], samples=codes, sample_weight=weights, options=settings["options"]
        )
        solution = coupled_simplex_parafac(problem, self.rank, **settings)
        if not is_large:
            return solution
        is_complete = solution.triples is not None and len(solution.triples) == comb(len(n_bins), 3)
        return replace(
            solution,
            start_info={**solution.start_info, "histograms": "counted"},
            triples=None if is_complete else solution.triples,
        )
