"""From the coupled solution to the refined one: what an estimator does after the decomposition."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from tensorly_smp.decomposition import MOST_VARIABLES_FOR_STARTS
from tensorly_smp.exceptions import ConvergenceWarning
from tensorly_smp.factors.solution import CoupledSolution, StopReason
from tensorly_smp.fit_samples import EM_SMOOTHING, FitSamples
from tensorly_smp.likelihood.cells import Cells, curved_cells, lay_cells
from tensorly_smp.likelihood.smooth_em import SmoothFit, smooth_em
from tensorly_smp.multistart import RefinedStarts, refine_starts
from tensorly_smp.progress import logger, progress_bar
from tensorly_smp.results import solution_to_dataset, with_likelihood_trace, with_smooth_fit
from tensorly_smp.threads import one_blas_thread
from tensorly_smp.variables import Variables


@dataclass(frozen=True)
class Refinement:
    """How a coupled solution is refined; all as the parameters of the estimator."""

    refine: str | None
    penalty: str
    max_iter: int
    tol: float
    n_jobs: int | None
    verbose: int

    def dataset(self, solution: CoupledSolution, samples: FitSamples, variables: Variables) -> xr.Dataset:
        """The Dataset of the solution, refined as asked for, unless the callback or the keyboard has stopped it."""
        stopped = next((s for s in (StopReason.INTERRUPTED, StopReason.CALLBACK) if s in solution.start_statuses), None)
        is_stopped = stopped is not None
        if self.refine is None:
            dataset = solution_to_dataset(replace(solution, factors=solution.factors.to_numpy().sort()))
            if stopped is not StopReason.INTERRUPTED:  # a callback stops its own start only
                return dataset
        elif self.refine == "em":
            dataset = self._by_em(solution, samples, is_stopped)
        else:
            dataset = self._by_smoothed_em(solution, samples, variables, is_stopped)
        if stopped is None:
            return dataset
        return dataset.assign_attrs(status=stopped.name.lower(), status_explanation=stopped.explanation)

    def _by_em(self, solution: CoupledSolution, samples: FitSamples, is_stopped: bool) -> xr.Dataset:
        """After EM on the bins; without passes if the fit has been stopped."""
        refined = samples.refine_em(
            solution.factors,
            smoothing=EM_SMOOTHING,
            n_iter_max=self.max_iter,
            tol=self.tol,
            callback=(lambda *_: True) if is_stopped else None,
            verbose=self.verbose,
        )
        dataset = solution_to_dataset(replace(solution, factors=refined.factors.sort()))
        return with_likelihood_trace(dataset, refined)

    def _by_smoothed_em(
        self, solution: CoupledSolution, samples: FitSamples, variables: Variables, is_stopped: bool
    ) -> xr.Dataset:
        """After smoothed EM from the best of all starts; without passes if the fit has been stopped.

        Of many samples, starts are compared on some, and what is best there is where all of them go on from.
        """
        few = samples.few
        values, weights = few.values, few.weights
        edges, rank = samples.binning.edges, solution.factors.rank
        others: tuple[Cells, ...] = ()

        def laid() -> Cells:
            return lay_cells(values, rank, edges, variables.discrete, variables.support, weights)

        is_interrupted = False
        try:
            cells = laid()
            if len(edges) <= MOST_VARIABLES_FOR_STARTS:  # of more, this would take longer than all else
                others = curved_cells(cells, values, rank, variables.support, weights)
        except KeyboardInterrupt:
            cells, is_interrupted = laid(), True

        def refined(n_iter_max: int) -> RefinedStarts:
            return refine_starts(
                few,
                solution.start_factors,
                cells,
                others,
                criterion=self.penalty,
                n_iter_max=n_iter_max,
                tol=10.0 * self.tol,
                n_jobs=self.n_jobs,
                verbose=self.verbose,
            )

        try:
            starts = refined(0 if is_stopped or is_interrupted else self.max_iter)
        except KeyboardInterrupt:  # before there was any fit; the sweeps need not be lost
            starts, is_interrupted = refined(0), True
        is_interrupted |= starts.fit.status is StopReason.INTERRUPTED
        if not (samples.are_few or is_stopped or is_interrupted):
            try:
                starts = replace(starts, fit=self._of_all(samples, starts.fit))
            except KeyboardInterrupt:  # before its first pass; the fit of some need not be lost
                is_interrupted = True
        if is_interrupted:
            starts = replace(starts, fit=replace(starts.fit, status=StopReason.INTERRUPTED))
        if starts.fit.status is StopReason.MAX_SWEEPS and not is_stopped:
            warnings.warn(
                f"Smoothed EM stopped after {starts.fit.n_passes} passes: {starts.fit.status.explanation}; "
                f"{starts.fit.status.remedy}.",
                ConvergenceWarning,
                stacklevel=4,
            )
        dataset = solution_to_dataset(replace(solution, factors=solution.factors.to_numpy().sort()))
        dataset = with_smooth_fit(dataset, starts.fit, np.array(variables.support, dtype=np.float64))
        note = {"long_name": "log-likelihood less effective parameters, in nats; NaN where clusters repeat"}
        dataset["start_criterion"] = ("start", starts.criteria, note)
        return dataset.assign_attrs(best_start=starts.best)

    def _of_all(self, samples: FitSamples, fit: SmoothFit) -> SmoothFit:
        """Smoothed EM of all samples, from the fit of some."""
        began = time.perf_counter()
        laid = samples.lay(fit.cells)
        expected, _ = laid.expect(fit.mixture, np.zeros(fit.penalty.size))
        with (
            one_blas_thread(),
            progress_bar(self.verbose, "passes over all samples", unit="pass") as passes,
        ):
            found = smooth_em(
                laid,
                expected.posterior,
                criterion=self.penalty,
                n_iter_max=self.max_iter,
                tol=10.0 * self.tol,
                callback=passes.counting(None),
            )
        logger.info(
            "Smoothed EM of all samples: log-likelihood %.6g after %d passes, %s; %.2f s",
            *(found.log_likelihood, found.n_passes, found.status.name.lower(), time.perf_counter() - began),
        )
        return found
