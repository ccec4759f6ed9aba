"""Last stage of a fit: from samples in bins to the result.

Starts are those of the search, of the coupled decomposition, or factors that the user hands in. They are refined by
smoothed EM, by the decomposition and EM on the bins, or by the decomposition alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import logsumexp
from tensorly.cp_tensor import CPTensor

from tensorly_smp._support.checks import RandomState, warn
from tensorly_smp._support.iteration import StopReason, SweepTrace, logger, progress_bar
from tensorly_smp._support.parallel import one_blas_thread
from tensorly_smp.codes.encoding import Codes, PackedIndicators, one_hot
from tensorly_smp.decomposition.problem import SolverOptions, as_problem
from tensorly_smp.decomposition.solution import CoupledSolution, factors_to_dataset, solution_to_dataset, with_starts
from tensorly_smp.decomposition.solver import coupled_simplex_parafac
from tensorly_smp.densities.conditionals import ConditionalDensities
from tensorly_smp.densities.smooth import with_smooth_fit
from tensorly_smp.exceptions import ConvergenceWarning, InvalidInputError, SizeLimitError
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.factors.sweeps import Callback
from tensorly_smp.fitting.candidates import NEAR_RIVAL, refine_candidates
from tensorly_smp.fitting.fit_samples import EM_SMOOTHING, FitSamples, Variables, start_logarithms
from tensorly_smp.fitting.results import with_candidates, with_likelihood_trace, with_rivals
from tensorly_smp.likelihood.cells import Cells, choose_cells, curved_cells, exact_values
from tensorly_smp.likelihood.comparison import Candidate, distinct_candidates, find_rivals
from tensorly_smp.likelihood.em import SmoothFit, smooth_em
from tensorly_smp.likelihood.observed import Observed
from tensorly_smp.likelihood.steps import log_joint
from tensorly_smp.marginals.histograms import MAX_BYTES, bytes_of_histograms
from tensorly_smp.marginals.triples import symmetric_sums
from tensorly_smp.samples.values import effective_weights
from tensorly_smp.search.coarse import SearchSamples
from tensorly_smp.search.search import search

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
        return with_starts(factors, self.loss_name, self.traces, self.statuses, self.best)


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


def binned_factors(codes: Codes, posterior: np.ndarray, weights: np.ndarray | None) -> MixtureFactors:
    """Histograms of the components under posteriors (n_samples, rank), with a part of a sample more in every bin."""
    owned = posterior if weights is None else posterior * weights[:, None]
    counts = PackedIndicators(codes.values, codes.n_bins).add_up(owned) + PSEUDO_COUNT
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
        return symmetric_sums(n_bins)[2] > MOST_CELLS_FOR_KL

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


# ---- refinement of the starts ----

#: Starts beside the best one that are followed to their end on the bins, at most.
MOST_FINISHED = 2

#: The Dataset of a fit, and its smooth densities by the position of their variable, as tabulated from the Dataset.
FitResult = tuple[xr.Dataset, Mapping[int, ConditionalDensities] | None]


@dataclass(frozen=True)
class Refinement:
    """Finds the starts of a fit and refines them; settings are those of the estimator.

    `searched` are the results of searches of the same samples, in place of new ones; `near` is a candidate from another
    fit to them, which is tried too.
    """

    refine: str | None
    penalty: str
    shape: str | None
    decomposition: Decomposition
    searched: Sequence[Sequence[Candidate]] | None = None
    near: Candidate | None = None

    def result(self, samples: FitSamples, variables: Variables) -> FitResult:
        """Result of the fit."""
        if self.refine == "smooth":
            return self._by_smoothed_em(samples, variables)
        return self._on_bins(samples, variables), None

    def _starts(self, samples: FitSamples, variables: Variables) -> Starts:
        """Candidates: of the search, of the decomposition, or of factors that go straight to smoothed EM."""
        subsample = samples.subsample
        options = self.decomposition
        if isinstance(options.init, str) and options.init == "auto":
            found = self.searched
            if found is None:
                some = SearchSamples(subsample.values, subsample.weights, variables.discrete, options.rank)
                settings = (options.n_init, options.random_state, options.n_jobs, options.verbose)
                found = search(some, options.rank, *settings)
            if self.near is not None:  # among the first, which are followed
                found = [[found[0][0], self.near, *found[0][1:]], *found[1:]]
            return searched_starts(subsample, found)
        if isinstance(options.init, MixtureFactors) and self.refine == "smooth":
            return start_from_factors(subsample, options.init, options.rank)
        origin = options.init if isinstance(options.init, str) else "given"
        return decomposed_starts(subsample, options.solution(samples), origin)

    def _on_bins(self, samples: FitSamples, variables: Variables) -> xr.Dataset:
        """The Dataset after the coupled decomposition, followed by EM on the bins unless ``refine=None``."""
        is_em = self.refine is not None
        subsample = samples.subsample
        starts = record = self._starts(samples, variables)
        is_searched = starts.solution is None
        first = starts.best_candidate
        first.fit = starts.factors.to_numpy()
        best = replace(first)
        if is_searched and starts.stopped is None:
            record = self._decompose(samples, best, warns=True)
        stopped = record.stopped
        if is_em:
            self._refine_on_bins(samples, best, warns=True, is_stopped=stopped is not None)
        if stopped is not None or best.status is StopReason.INTERRUPTED:
            dataset = record.dataset(best.fit)
            if is_em:
                return _marked(with_likelihood_trace(dataset, best.trace, best.status), stopped)
            # A callback stops its own start only.
            return dataset if stopped is StopReason.CALLBACK else _marked(dataset, stopped)
        others = [each for each in starts.candidates if each is not first]
        if is_searched:
            for each in others:
                each.fit = binned_factors(subsample.codes, each.posterior, subsample.weights)
        if is_searched or is_em:
            others = _rivals_on_bins(subsample, first, others, most=MOST_FINISHED, gain=NEAR_RIVAL)
            for each in others:
                if is_searched:
                    self._decompose(samples, each)
                if is_em:
                    self._refine_on_bins(samples, each)
        ends = [best, *others]
        if is_em:
            # Whichever start ends higher is the result: the best one only began higher.
            best = max(ends, key=lambda each: float(each.trace.penalized[-1]))
        best.fit = best.fit.sort()
        dataset = record.dataset(best.fit)
        if is_em:
            dataset = with_likelihood_trace(dataset, best.trace, best.status)
        rivals = _rivals_on_bins(subsample, best, ends)
        n_steps = "n_passes" if is_em else "n_sweeps"
        datasets = [
            factors_to_dataset(each.fit).assign_attrs(
                {"status": each.status.name.lower(), n_steps: getattr(each.trace, n_steps)}
            )
            for each in rivals
        ]
        return with_rivals(dataset, best, rivals, datasets, subsample.weights)

    def _decompose(self, samples: FitSamples, candidate: Candidate, warns: bool = False) -> Starts:
        """The coupled CPD to its end from the factors of a candidate, which gets its result."""
        solution = replace(self.decomposition, init=candidate.fit, n_init=1, warns=warns).solution(samples)
        candidate.fit = solution.factors.to_numpy()
        candidate.trace = solution.trace
        candidate.status = solution.status
        return decomposed_starts(samples.subsample, solution, candidate.origin)

    def _refine_on_bins(
        self, samples: FitSamples, candidate: Candidate, warns: bool = False, is_stopped: bool = False
    ) -> None:
        """EM on the bins from the factors of a candidate, which gets its result; only its beginning if stopped."""
        solution = samples.refine_em(
            candidate.fit,
            smoothing=EM_SMOOTHING,
            n_iter_max=self.decomposition.max_iter,
            tol=self.decomposition.tol,
            callback=(lambda *_: True) if is_stopped else None,
            verbose=self.decomposition.verbose,
            warns=warns,
        )
        candidate.fit = solution.factors
        candidate.trace = solution.trace
        candidate.status = solution.status

    def _by_smoothed_em(self, samples: FitSamples, variables: Variables) -> FitResult:
        """Result after smoothed EM from the best candidate; without passes if the fit has been stopped.

        Of many samples, candidates are compared on some, and smoothed EM of all goes on from the best one there.
        """
        starts = self._starts(samples, variables)
        subsample = samples.subsample
        candidates, first, stopped = self._compared(samples, variables, starts)
        best = first
        rivals = []
        if stopped is None:
            rivals = _rivals_by_smoothed_em(subsample, best, [each for each in candidates if each.is_finished])
        if not samples.is_complete and stopped is None:
            try:
                best = self.of_all(samples, first)
                stopped = StopReason.INTERRUPTED if best.status is StopReason.INTERRUPTED else None
                if stopped is None and rivals:
                    ends = [best, *(self.of_all(samples, each) for each in rivals)]
                    ends = [each for each in ends if each.status is not StopReason.INTERRUPTED]
                    best = max(ends, key=lambda each: each.criterion)
                    rivals = _rivals_by_smoothed_em(subsample, best, ends)
            except KeyboardInterrupt:  # before its first pass; the fit of some need not be lost
                stopped = StopReason.INTERRUPTED
        fit = best.fit
        if stopped is None and (unfinished := convergence_warning(fit)):
            warn(unfinished)
        plain = starts.dataset(starts.factors)
        bounds = np.array(variables.support, dtype=np.float64)
        dataset, conditionals = with_smooth_fit(plain, fit, bounds)
        dataset = with_candidates(dataset, candidates, first, best.number, subsample.weights)
        if stopped is not None:
            return _marked(dataset, stopped), conditionals
        datasets = [with_smooth_fit(plain, each.fit, bounds)[0] for each in rivals]
        # Posteriors by decreasing weight of the components, as in the Dataset.
        orders = [np.argsort(-each.fit.mixture.log_weights, kind="stable") for each in (best, *rivals)]
        best, *rivals = (
            replace(each, posterior=each.posterior[:, order])
            for each, order in zip((best, *rivals), orders, strict=True)
        )
        return with_rivals(dataset, best, rivals, datasets, subsample.weights), conditionals

    def _compared(
        self, samples: FitSamples, variables: Variables, starts: Starts
    ) -> tuple[list[Candidate], Candidate, StopReason | None]:
        """Candidates after smoothed EM, of many samples on some, the best, and why the fit has been stopped, if so."""
        stopped = starts.stopped
        subsample = samples.subsample
        options = self.decomposition
        values = subsample.values
        weights = subsample.weights
        rank = options.rank
        candidates = distinct_candidates(starts.candidates, weights)
        others: tuple[Cells, ...] = ()

        def chosen_cells(observed: Sequence[Observed] | None = None) -> Cells:
            return choose_cells(values, rank, variables.values, variables.support, weights, observed, self.shape)

        try:
            observed = exact_values(values, weights)
            cells = chosen_cells(observed)
            if stopped is None:
                others = other_cells(cells, subsample, variables, rank, observed)
        except KeyboardInterrupt:
            cells = chosen_cells()
            stopped = StopReason.INTERRUPTED

        def refined(n_iter_max: int) -> tuple[list[Candidate], Candidate]:
            return refine_candidates(
                subsample,
                candidates if n_iter_max else candidates[:1],
                cells,
                others,
                criterion=self.penalty,
                n_iter_max=n_iter_max,
                tol=10.0 * options.tol,
                n_jobs=options.n_jobs,
                callback=None if options.callback is None else _binned_callback(options.callback, samples),
                verbose=options.verbose,
            )

        try:
            found, best = refined(options.max_iter if stopped is None else 0)
        except KeyboardInterrupt:  # before there was any fit; the starts need not be lost
            found, best = refined(0)
            stopped = StopReason.INTERRUPTED
        return found, best, best.status if best.is_stopped else stopped

    def of_all(self, samples: FitSamples, candidate: Candidate) -> Candidate:
        """The candidate after smoothed EM of all samples, from the fit of some; with posteriors of these."""
        began = time.perf_counter()
        options = self.decomposition
        every = samples.assign_to_grid(candidate.fit.cells)
        expected, _ = every.expect(candidate.fit.mixture, np.zeros(candidate.fit.penalty.size))
        with (
            one_blas_thread(),
            progress_bar(options.verbose, "passes over all samples", unit="pass") as passes,
        ):
            found = smooth_em(
                every,
                expected,
                criterion=self.penalty,
                n_iter_max=options.max_iter,
                tol=10.0 * options.tol,
                callback=lambda *_: passes.advance(),
            )
        logger.info(
            "Smoothed EM of all samples: log-likelihood %.6g after %d passes, %s; %.2f s",
            *(found.log_likelihood, found.n_passes, found.status.name.lower(), time.perf_counter() - began),
        )
        of_some = samples.subsample.assign_to_grid(found.cells)
        expected, _ = of_some.expect(found.mixture, np.zeros(found.penalty.size))
        return replace(candidate, posterior=expected.posterior, fit=found, criterion=found.akaike, status=found.status)


def other_cells(
    cells: Cells, samples: FitSamples, variables: Variables, rank: int, observed: Sequence[Observed]
) -> tuple[Cells, ...]:
    """Alternatives to the cells; none for many variables, for which they would take longer than all else."""
    values = samples.values
    if values.shape[1] > MOST_VARIABLES_FOR_STARTS:
        return ()
    return curved_cells(cells, values, rank, variables.support, samples.weights, observed)


def _rivals_on_bins(
    samples: FitSamples, best: Candidate, candidates: Sequence[Candidate], **options: Any
) -> list[Candidate]:
    """Rivals of the best, by the log-likelihood of the bins; a little of the uniform distribution is mixed in.

    Posteriors and criteria of all candidates become those of their factors.
    """
    hot = one_hot(samples.codes)

    def log_densities(candidate: Candidate) -> np.ndarray:
        return np.asarray(logsumexp(log_joint(hot, *start_logarithms(candidate.fit)), axis=1))

    for each in {best, *candidates}:
        expected = samples.expect(each.fit)
        each.posterior = expected.posterior
        each.criterion = expected.log_likelihood
    return find_rivals(best, candidates, log_densities, effective_weights(samples.values, samples.weights), **options)


def _rivals_by_smoothed_em(samples: FitSamples, best: Candidate, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Rivals of the best, by Akaike's criterion; of fits to more samples than these, deviations are of all of them."""

    def log_densities(candidate: Candidate) -> np.ndarray:
        return samples.assign_to_grid(candidate.fit.cells).log_densities(candidate.fit.mixture)

    weights = effective_weights(samples.values, samples.weights)
    return find_rivals(best, candidates, log_densities, weights, n_times=best.fit.total_weight / weights.sum())


def _binned_callback(callback: Callback, samples: FitSamples) -> Callable[[np.ndarray, float], bool | None]:
    """The caller's callback, given histograms on the bins under the posteriors of a pass."""
    subsample = samples.subsample
    total = len(subsample.values) if subsample.weights is None else float(subsample.weights.sum())

    def call(posterior: np.ndarray, value: float) -> bool | None:
        factors = binned_factors(subsample.codes, posterior, subsample.weights)
        return callback(CPTensor((factors.weights, list(factors.factors))), -value / total)

    return call


def convergence_warning(fit: SmoothFit) -> ConvergenceWarning | None:
    """The warning of a fit that has used all of its passes."""
    if fit.status is not StopReason.MAX_SWEEPS:
        return None
    return ConvergenceWarning(
        f"Smoothed EM stopped after {fit.n_passes} passes: {fit.status.explanation}; {fit.status.remedy}."
    )


def _marked(dataset: xr.Dataset, stopped: StopReason | None) -> xr.Dataset:
    if stopped is None:
        return dataset
    return dataset.assign_attrs(status=stopped.name.lower(), status_explanation=stopped.explanation)
