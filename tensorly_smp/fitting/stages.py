"""Last stage of a fit: from samples in bins to the result.

Starts are found (:mod:`tensorly_smp.fitting.starts`) and refined: by smoothed EM, by the decomposition and EM on the
bins, or by the decomposition alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import logsumexp
from tensorly.cp_tensor import CPTensor

from tensorly_smp._support.checks import warn
from tensorly_smp._support.iteration import StopReason
from tensorly_smp._support.progress import logger, progress_bar
from tensorly_smp._support.threads import one_blas_thread
from tensorly_smp.codes.encoding import one_hot
from tensorly_smp.decomposition.solution import factors_to_dataset
from tensorly_smp.densities.grid import ConditionalDensities
from tensorly_smp.densities.smooth import with_smooth_fit
from tensorly_smp.exceptions import ConvergenceWarning
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.factors.sweeps import Callback
from tensorly_smp.fitting.candidates import NEAR_RIVAL, refine_candidates
from tensorly_smp.fitting.coupled_stage import MOST_VARIABLES_FOR_STARTS, Decomposition
from tensorly_smp.fitting.fit_samples import EM_SMOOTHING, FitSamples, start_logarithms
from tensorly_smp.fitting.results import with_candidates, with_likelihood_trace, with_rivals
from tensorly_smp.fitting.starts import (
    Starts,
    binned_factors,
    decomposed_starts,
    searched_starts,
    start_from_factors,
)
from tensorly_smp.fitting.variables import Variables
from tensorly_smp.likelihood.cells import Cells, choose_cells, curved_cells, exact_values
from tensorly_smp.likelihood.comparison import Candidate, distinct_candidates, find_rivals
from tensorly_smp.likelihood.em import smooth_em
from tensorly_smp.likelihood.observed import Observed
from tensorly_smp.likelihood.steps import effective_weights, log_joint
from tensorly_smp.search.coarse import SearchSamples
from tensorly_smp.search.search import search

#: Starts beside the best one that are followed to their end on the bins, at most.
MOST_FINISHED = 2

#: The Dataset of a fit, and its smooth densities by the position of their variable, as tabulated from the Dataset.
FitResult = tuple[xr.Dataset, Mapping[int, ConditionalDensities] | None]


@dataclass(frozen=True)
class Refinement:
    """Finds the starts of a fit and refines them; settings are those of the estimator.

    `searched` are the results of searches of the same samples, in place of new ones.
    """

    refine: str | None
    penalty: str
    decomposition: Decomposition
    searched: Sequence[Sequence[Candidate]] | None = None

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
                best = self._of_all(samples, first)
                stopped = StopReason.INTERRUPTED if best.status is StopReason.INTERRUPTED else None
                if stopped is None and rivals:
                    ends = [best, *(self._of_all(samples, each) for each in rivals)]
                    ends = [each for each in ends if each.status is not StopReason.INTERRUPTED]
                    best = max(ends, key=lambda each: each.criterion)
                    rivals = _rivals_by_smoothed_em(subsample, best, ends)
            except KeyboardInterrupt:  # before its first pass; the fit of some need not be lost
                stopped = StopReason.INTERRUPTED
        fit = best.fit
        if fit.status is StopReason.MAX_SWEEPS and stopped is None:
            warn(
                f"Smoothed EM stopped after {fit.n_passes} passes: {fit.status.explanation}; {fit.status.remedy}.",
                ConvergenceWarning,
            )
        plain = starts.dataset(starts.factors)
        bounds = np.array(variables.support, dtype=np.float64)
        dataset, conditionals = with_smooth_fit(plain, fit, bounds)
        dataset = with_candidates(dataset, candidates, first, best.number, subsample.weights)
        if stopped is not None:
            return _marked(dataset, stopped), conditionals
        datasets = [with_smooth_fit(plain, each.fit, bounds)[0] for each in rivals]
        best, *rivals = (_in_order(each) for each in (best, *rivals))
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
            return choose_cells(values, rank, variables.values, variables.support, weights, observed)

        try:
            observed = exact_values(values, weights)
            cells = chosen_cells(observed)
            # Of more variables, this would take longer than all else.
            if values.shape[1] <= MOST_VARIABLES_FOR_STARTS and stopped is None:
                others = curved_cells(cells, values, rank, variables.support, weights, observed)
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

    def _of_all(self, samples: FitSamples, candidate: Candidate) -> Candidate:
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


def _in_order(candidate: Candidate) -> Candidate:
    """The candidate with posteriors by decreasing weight of the components, as in the Dataset."""
    order = np.argsort(-candidate.fit.mixture.log_weights, kind="stable")
    return replace(candidate, posterior=candidate.posterior[:, order])


def _binned_callback(callback: Callback, samples: FitSamples) -> Callable[[np.ndarray, float], bool | None]:
    """The caller's callback, given histograms on the bins under the posteriors of a pass."""
    subsample = samples.subsample
    total = len(subsample.values) if subsample.weights is None else float(subsample.weights.sum())

    def call(posterior: np.ndarray, value: float) -> bool | None:
        factors = binned_factors(subsample.codes, posterior, subsample.weights)
        return callback(CPTensor((factors.weights, list(factors.factors))), -value / total)

    return call


def _marked(dataset: xr.Dataset, stopped: StopReason | None) -> xr.Dataset:
    if stopped is None:
        return dataset
    return dataset.assign_attrs(status=stopped.name.lower(), status_explanation=stopped.explanation)
