"""Last stage of a fit: from the starts to the result, by EM, by smoothed EM, or by the decomposition alone."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr
from tensorly.cp_tensor import CPTensor

from tensorly_smp._support.checks import warn
from tensorly_smp._support.iteration import StopReason
from tensorly_smp._support.progress import logger, progress_bar
from tensorly_smp._support.threads import one_blas_thread
from tensorly_smp.decomposition.solution import CoupledSolution, solution_to_dataset
from tensorly_smp.densities.spline_dataset import with_smooth_fit
from tensorly_smp.exceptions import ConvergenceWarning
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.factors.sweeps import Callback
from tensorly_smp.fitting.coupled_stage import MOST_VARIABLES_FOR_STARTS, Decomposition
from tensorly_smp.fitting.fit_samples import EM_SMOOTHING, FitSamples
from tensorly_smp.fitting.multistart import Callback as PassCallback
from tensorly_smp.fitting.multistart import RefinedCandidates, refine_candidates
from tensorly_smp.fitting.results import with_candidates, with_likelihood_trace
from tensorly_smp.fitting.starts import (
    Searched,
    SearchedSamples,
    Starts,
    binned_factors,
    decomposed_starts,
    search,
    searched_starts,
    start_from_factors,
    stopped_status,
)
from tensorly_smp.fitting.variables import Variables
from tensorly_smp.likelihood.cells import Cells, choose_cells, curved_cells
from tensorly_smp.likelihood.smooth_em import SmoothFit, smooth_em


@dataclass(frozen=True)
class Refinement:
    """Settings by which starts are found and refined; all as the parameters of the estimator.

    `searched` is the result of a search of the same samples, in place of a new one.
    """

    refine: str | None
    penalty: str
    decomposition: Decomposition
    searched: Searched | None = None

    def dataset(self, samples: FitSamples, variables: Variables) -> xr.Dataset:
        """The Dataset of the fit."""
        if self.refine == "smooth":
            return self._by_smoothed_em(samples, variables)
        solution = self._decomposed(samples, variables)
        stopped = stopped_status(solution)
        if self.refine is None:
            dataset = solution_to_dataset(replace(solution, factors=solution.factors.to_numpy().sort()))
            # A callback stops its own start only.
            return dataset if stopped is not StopReason.INTERRUPTED else _marked(dataset, stopped)
        refined = samples.refine_em(
            solution.factors,
            smoothing=EM_SMOOTHING,
            n_iter_max=self.decomposition.max_iter,
            tol=self.decomposition.tol,
            callback=None if stopped is None else (lambda *_: True),
            verbose=self.decomposition.verbose,
        )
        dataset = solution_to_dataset(replace(solution, factors=refined.factors.sort()))
        return _marked(with_likelihood_trace(dataset, refined), stopped)

    @property
    def _is_searched(self) -> bool:
        return isinstance(self.decomposition.init, str) and self.decomposition.init == "auto"

    def _searched(self, samples: FitSamples, variables: Variables) -> Starts:
        options = self.decomposition
        found = self.searched
        if found is None:
            searched = SearchedSamples(
                samples.subsample.values, samples.subsample.weights, variables.discrete, options.rank
            )
            found = search(
                searched, options.rank, options.n_init, options.random_state, options.n_jobs, options.verbose
            )
        return searched_starts(samples.subsample, found)

    def _decomposed(self, samples: FitSamples, variables: Variables) -> CoupledSolution:
        """The coupled CPD to its end; after a search only from its best result."""
        if not self._is_searched:
            return samples.decompose(self.decomposition)
        starts = self._searched(samples, variables)
        if starts.status is not None:
            return starts.solution
        start = starts.solution.factors
        return samples.decompose(replace(self.decomposition, init=start, n_init=1))

    def _starts(self, samples: FitSamples, variables: Variables) -> Starts:
        """Candidates for smoothed EM."""
        options = self.decomposition
        if self._is_searched:
            return self._searched(samples, variables)
        if isinstance(options.init, MixtureFactors):
            return start_from_factors(samples.subsample, options.init, options.rank)
        return decomposed_starts(samples.subsample, samples.decompose(options), str(options.init))

    def _by_smoothed_em(self, samples: FitSamples, variables: Variables) -> xr.Dataset:
        """The Dataset after smoothed EM from the best candidate; without passes if the fit has been stopped.

        Of many samples, candidates are compared on some, and smoothed EM of all goes on from the best one there.
        """
        starts = self._starts(samples, variables)
        stopped = starts.status
        subsample = samples.subsample
        options = self.decomposition
        values = subsample.values
        weights = subsample.weights
        edges = samples.binning.edges
        rank = options.rank
        others: tuple[Cells, ...] = ()

        def chosen_cells() -> Cells:
            return choose_cells(values, rank, edges, variables.discrete, variables.support, weights)

        try:
            cells = chosen_cells()
            # Of more variables, this would take longer than all else.
            if len(edges) <= MOST_VARIABLES_FOR_STARTS and stopped is None:
                others = curved_cells(cells, values, rank, variables.support, weights)
        except KeyboardInterrupt:
            cells = chosen_cells()
            stopped = StopReason.INTERRUPTED

        def refined(n_iter_max: int) -> RefinedCandidates:
            return refine_candidates(
                subsample,
                starts.candidates if n_iter_max else starts.candidates[:1],
                cells,
                others,
                criterion=self.penalty,
                n_iter_max=n_iter_max,
                tol=10.0 * options.tol,
                n_jobs=options.n_jobs,
                callback=None if options.callback is None else _on_bins(options.callback, samples),
                verbose=options.verbose,
            )

        try:
            found = refined(options.max_iter if stopped is None else 0)
        except KeyboardInterrupt:  # before there was any fit; the starts need not be lost
            found = refined(0)
            stopped = StopReason.INTERRUPTED
        fit = found.fit
        if fit.status in (StopReason.INTERRUPTED, StopReason.CALLBACK):
            stopped = fit.status
        if not samples.is_complete and stopped is None:
            try:
                fit = self._of_all(samples, fit)
                stopped = StopReason.INTERRUPTED if fit.status is StopReason.INTERRUPTED else None
            except KeyboardInterrupt:  # before its first pass; the fit of some need not be lost
                stopped = StopReason.INTERRUPTED
        if fit.status is StopReason.MAX_SWEEPS and stopped is None:
            warn(
                f"Smoothed EM stopped after {fit.n_passes} passes: {fit.status.explanation}; {fit.status.remedy}.",
                ConvergenceWarning,
            )
        solution = starts.solution
        dataset = solution_to_dataset(replace(solution, factors=solution.factors.to_numpy().sort()))
        dataset = with_smooth_fit(dataset, fit, np.array(variables.support, dtype=np.float64))
        origins = [candidate.origin for candidate in starts.candidates[: len(found.criteria)]]
        dataset = with_candidates(dataset, origins, found.criteria, found.agreement, found.best)
        return _marked(dataset, stopped)

    def _of_all(self, samples: FitSamples, fit: SmoothFit) -> SmoothFit:
        """Smoothed EM of all samples, from the fit of some."""
        began = time.perf_counter()
        options = self.decomposition
        every = samples.assign_to_grid(fit.cells)
        expected, _ = every.expect(fit.mixture, np.zeros(fit.penalty.size))
        with (
            one_blas_thread(),
            progress_bar(options.verbose, "passes over all samples", unit="pass") as passes,
        ):
            found = smooth_em(
                every,
                expected.posterior,
                criterion=self.penalty,
                n_iter_max=options.max_iter,
                tol=10.0 * options.tol,
                callback=lambda *_: passes.advance(),
            )
        logger.info(
            "Smoothed EM of all samples: log-likelihood %.6g after %d passes, %s; %.2f s",
            *(found.log_likelihood, found.n_passes, found.status.name.lower(), time.perf_counter() - began),
        )
        return found


def _on_bins(callback: Callback, samples: FitSamples) -> PassCallback:
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
