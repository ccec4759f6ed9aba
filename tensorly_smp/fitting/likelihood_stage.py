"""Last stage of a fit: from samples in bins to the result.

Starts are found (:mod:`tensorly_smp.fitting.starts`) and refined: by smoothed EM, by the decomposition and EM on the
bins, or by the decomposition alone.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from tensorly.cp_tensor import CPTensor

from tensorly_smp._support.checks import warn
from tensorly_smp._support.iteration import StopReason
from tensorly_smp._support.progress import logger, progress_bar
from tensorly_smp._support.threads import one_blas_thread
from tensorly_smp.decomposition.solution import CoupledSolution, factors_to_dataset, solution_to_dataset
from tensorly_smp.densities.grid import ConditionalDensities
from tensorly_smp.densities.spline_dataset import with_smooth_fit
from tensorly_smp.exceptions import ConvergenceWarning
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.factors.sweeps import Callback
from tensorly_smp.fitting.coupled_stage import MOST_VARIABLES_FOR_STARTS, Decomposition
from tensorly_smp.fitting.fit_samples import EM_SMOOTHING, FitSamples, SamplesInMemory
from tensorly_smp.fitting.multistart import (
    OTHER_CLUSTERS,
    PassCallback,
    RefinedCandidates,
    Rival,
    is_as_near,
    refine_candidates,
)
from tensorly_smp.fitting.other_starts import End, labels_of, near_starts, other_starts
from tensorly_smp.fitting.results import with_candidates, with_likelihood_trace
from tensorly_smp.fitting.rival_records import Solution, with_rivals
from tensorly_smp.fitting.starts import (
    Searched,
    SearchSamples,
    Starts,
    binned_factors,
    decomposed_starts,
    search,
    searched_starts,
    start_from_factors,
    stopped_status,
)
from tensorly_smp.fitting.variables import Variables
from tensorly_smp.likelihood.cells import Cells, choose_cells, curved_cells, exact_values
from tensorly_smp.likelihood.comparison import deviation_of_difference, distinct_clusterings
from tensorly_smp.likelihood.em import LikelihoodSolution, SmoothFit, smooth_em
from tensorly_smp.likelihood.observed import Observed


@dataclass(frozen=True, eq=False)
class FitResult:
    """Result of a fit.

    Attributes
    ----------
    dataset : Dataset
    smooth_conditionals : dict of ConditionalDensities, optional
        Smooth densities, by the position of their variable, as tabulated from the Dataset.
    """

    dataset: xr.Dataset
    smooth_conditionals: Mapping[int, ConditionalDensities] | None = None


@dataclass(frozen=True)
class Refinement:
    """Finds the starts of a fit and refines them; settings are those of the estimator.

    `searched` is the result of a search of the same samples, in place of a new one.
    """

    refine: str | None
    penalty: str
    decomposition: Decomposition
    searched: Searched | None = None

    def result(self, samples: FitSamples, variables: Variables) -> FitResult:
        """Result of the fit."""
        if self.refine == "smooth":
            return self._by_smoothed_em(samples, variables)
        return FitResult(self._on_bins(samples, variables))

    def _on_bins(self, samples: FitSamples, variables: Variables) -> xr.Dataset:
        """The Dataset after the coupled decomposition, followed by EM on the bins unless ``refine=None``."""
        starts = self._searched(samples, variables) if self._is_searched else None
        solution = self._decomposed(samples, starts)
        stopped = stopped_status(solution)
        if self.refine is None:
            dataset = _sorted_dataset(solution, solution.factors.to_numpy())
            if stopped is not None:
                # A callback stops its own start only.
                return dataset if stopped is not StopReason.INTERRUPTED else _marked(dataset, stopped)
            others = self._other_ends(samples, starts, solution)
            return _with_others(dataset, samples.subsample, solution.factors.to_numpy().sort(), others)
        refined = self._refined(samples, solution.factors, stopped is not None)
        if stopped is not None or refined.status is StopReason.INTERRUPTED:
            return _marked(with_likelihood_trace(_sorted_dataset(solution, refined.factors), refined), stopped)
        # Whichever start ends higher is the result: the best one only began higher.
        number = solution.best_start if starts is None else starts.best_candidate
        ends = self._other_ends(samples, starts, solution) | {number: End.of(refined)}
        top = max(ends, key=lambda i: (ends[i].value, i == number))
        found = ends.pop(top).solution
        assert isinstance(found, LikelihoodSolution)
        dataset = with_likelihood_trace(_sorted_dataset(solution, found.factors), found)
        return _with_others(dataset, samples.subsample, found.factors.sort(), ends)

    def _decomposed(self, samples: FitSamples, starts: Starts | None) -> CoupledSolution:
        """The coupled CPD to its end; after a search only from its best result."""
        if starts is None:
            return samples.decompose(self.decomposition)
        return starts.solution if starts.status is not None else self._decomposed_from(samples, starts.solution.factors)

    def _decomposed_from(self, samples: FitSamples, start: MixtureFactors, warns: bool = True) -> CoupledSolution:
        return samples.decompose(replace(self.decomposition, init=start, n_init=1, warns=warns))

    def _refined(
        self, samples: FitSamples, start: MixtureFactors, is_stopped: bool = False, warns: bool = True
    ) -> LikelihoodSolution:
        """EM on the bins; only its beginning if the fit has been stopped."""
        return samples.refine_em(
            start,
            smoothing=EM_SMOOTHING,
            n_iter_max=self.decomposition.max_iter,
            tol=self.decomposition.tol,
            callback=(lambda *_: True) if is_stopped else None,
            verbose=self.decomposition.verbose,
            warns=warns,
        )

    def _other_ends(self, samples: FitSamples, starts: Starts | None, solution: CoupledSolution) -> dict[int, End]:
        """Where other starts, or candidates of the search, end that began near the best one, by their numbers."""
        subsample = samples.subsample
        ends = {}
        if starts is not None:
            begun = {
                i: binned_factors(subsample.codes, c.posterior, subsample.weights)
                for i, c in enumerate(starts.candidates)
            }
            for i in near_starts(subsample, starts.solution.factors, begun):
                ends[i] = End.of(self._decomposed_from(samples, begun[i], warns=False))
        else:
            own = zip(solution.start_factors, solution.start_statuses, solution.start_traces, strict=True)
            for i, (factors, status, trace) in enumerate(own):
                if i != solution.best_start:
                    ends[i] = End(factors.to_numpy(), {"status": status.name.lower(), "n_sweeps": trace.n_sweeps})
        if self.refine is None:
            return ends
        begun = {i: end.factors for i, end in ends.items()}
        followed = list(ends) if starts is not None else near_starts(subsample, solution.factors, begun)
        return {i: End.of(self._refined(samples, begun[i], warns=False)) for i in followed}

    @property
    def _is_searched(self) -> bool:
        return isinstance(self.decomposition.init, str) and self.decomposition.init == "auto"

    def _searched(self, samples: FitSamples, variables: Variables) -> Starts:
        options = self.decomposition
        found = self.searched
        if found is None:
            searched = SearchSamples(
                samples.subsample.values, samples.subsample.weights, variables.discrete, options.rank
            )
            found = search(
                searched, options.rank, options.n_init, options.random_state, options.n_jobs, options.verbose
            )
        return searched_starts(samples.subsample, found)

    def _starts(self, samples: FitSamples, variables: Variables) -> Starts:
        """Candidates for smoothed EM."""
        options = self.decomposition
        if self._is_searched:
            return self._searched(samples, variables)
        if isinstance(options.init, MixtureFactors):
            return start_from_factors(samples.subsample, options.init, options.rank)
        return decomposed_starts(samples.subsample, samples.decompose(options), str(options.init))

    def _by_smoothed_em(self, samples: FitSamples, variables: Variables) -> FitResult:
        """Result after smoothed EM from the best candidate; without passes if the fit has been stopped.

        Of many samples, candidates are compared on some, and smoothed EM of all goes on from the best one there.
        """
        starts = self._starts(samples, variables)
        found, stopped = self._compared(samples, variables, starts)
        fit = found.fit
        rivals = found.rivals
        best = found.best
        if not samples.is_complete and stopped is None:
            try:
                fit = self._of_all(samples, fit)
                stopped = StopReason.INTERRUPTED if fit.status is StopReason.INTERRUPTED else None
                if stopped is None:
                    best, fit, rivals = self._best_of_all(samples, best, fit, rivals)
            except KeyboardInterrupt:  # before its first pass; the fit of some need not be lost
                stopped = StopReason.INTERRUPTED
        if fit.status is StopReason.MAX_SWEEPS and stopped is None:
            warn(
                f"Smoothed EM stopped after {fit.n_passes} passes: {fit.status.explanation}; {fit.status.remedy}.",
                ConvergenceWarning,
            )
        found = replace(found, fit=fit, best=best, rivals=rivals)
        return _smooth_result(samples.subsample, variables, starts.solution, found, stopped)

    def _compared(
        self, samples: FitSamples, variables: Variables, starts: Starts
    ) -> tuple[RefinedCandidates, StopReason | None]:
        """Candidates after smoothed EM, of many samples on some, and why the fit has been stopped, if it has."""
        stopped = starts.status
        subsample = samples.subsample
        options = self.decomposition
        values = subsample.values
        weights = subsample.weights
        rank = options.rank
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
                callback=None if options.callback is None else _binned_callback(options.callback, samples),
                verbose=options.verbose,
            )

        try:
            found = refined(options.max_iter if stopped is None else 0)
        except KeyboardInterrupt:  # before there was any fit; the starts need not be lost
            found = refined(0)
            stopped = StopReason.INTERRUPTED
        if found.fit.status in (StopReason.INTERRUPTED, StopReason.CALLBACK):
            stopped = found.fit.status
        return found, stopped

    def _best_of_all(
        self, samples: FitSamples, best: int, fit: SmoothFit, rivals: dict[int, Rival]
    ) -> tuple[int, SmoothFit, dict[int, Rival]]:
        """The best fit of all samples, by its position, and its rivals: where some of them left open which is best."""
        if not rivals:
            return best, fit, rivals
        of_all = {i: self._of_all(samples, rival.fit) for i, rival in rivals.items()}
        fits = {best: fit} | {i: each for i, each in of_all.items() if each.status is not StopReason.INTERRUPTED}
        order = sorted(fits, key=lambda i: (-fits[i].akaike, i != best))
        first = order[0]
        top = fits[first]
        subsample = samples.subsample
        clusters = [_clusters(subsample, fits[i]) for i in order]
        kept = distinct_clusterings(clusters, top.mixture.rank, subsample.weights, OTHER_CLUSTERS)
        logs = {i: _log_densities(subsample, fits[i]) for i in (order[place] for place in kept)}
        total = len(subsample.values) if subsample.weights is None else float(subsample.weights.sum())
        near = {}
        for i in list(logs)[1:]:
            deviation = deviation_of_difference(logs[first], logs[i], subsample.weights)
            deviation *= (top.total_weight / total) ** 0.5  # of all samples
            if is_as_near(top.akaike - fits[i].akaike, deviation):
                near[i] = Rival(fits[i], deviation)
        return first, top, near

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


def _smooth_result(
    subsample: SamplesInMemory,
    variables: Variables,
    solution: CoupledSolution,
    found: RefinedCandidates,
    stopped: StopReason | None,
) -> FitResult:
    """Result of smoothed EM; its rivals are recorded unless it has been stopped."""
    fit = found.fit
    plain = solution_to_dataset(replace(solution, factors=solution.factors.to_numpy().sort()))
    bounds = np.array(variables.support, dtype=np.float64)
    dataset, conditionals = with_smooth_fit(plain, fit, bounds)
    dataset = with_candidates(dataset, found.origins, found.criteria, found.agreement, found.best)
    if stopped is not None:
        return FitResult(_marked(dataset, stopped), conditionals)
    solutions = [
        Solution(
            dataset=with_smooth_fit(plain, rival.fit, bounds)[0],
            labels=_clusters(subsample, rival.fit),
            criterion=rival.fit.akaike - fit.akaike,
            deviation=rival.deviation,
            candidate=i,
        )
        for i, rival in found.rivals.items()
    ]
    return FitResult(with_rivals(dataset, _clusters(subsample, fit), subsample.weights, solutions), conditionals)


def _sorted_dataset(solution: CoupledSolution, factors: MixtureFactors) -> xr.Dataset:
    """Record of a decomposition, and factors by decreasing weight."""
    return solution_to_dataset(replace(solution, factors=factors.sort()))


def _with_others(
    dataset: xr.Dataset, subsample: SamplesInMemory, factors: MixtureFactors, ends: Mapping[int, End]
) -> xr.Dataset:
    """The Dataset of a fit on bins with those of the other starts that are its rivals."""
    rivals = [
        Solution(factors_to_dataset(each.end.factors).assign_attrs(each.end.attrs), each.labels, *each.numbers)
        for each in other_starts(subsample, factors, ends)
    ]
    return with_rivals(dataset, labels_of(subsample, factors), subsample.weights, rivals)


def _clusters(samples: SamplesInMemory, fit: SmoothFit) -> np.ndarray:
    """Most probable component (n_samples,), numbered by decreasing weight, as in the Dataset."""
    posterior: Any = fit.posterior
    if not isinstance(posterior, np.ndarray) or len(posterior) != len(samples.values):  # of all samples
        posterior = samples.assign_to_grid(fit.cells).expect(fit.mixture, np.zeros(fit.penalty.size))[0].posterior
    order = np.argsort(-fit.mixture.log_weights, kind="stable")
    return posterior[:, order].argmax(axis=1)


def _log_densities(samples: SamplesInMemory, fit: SmoothFit) -> np.ndarray:
    """Log-densities (n_samples,) under a fit."""
    return samples.assign_to_grid(fit.cells).log_densities(fit.mixture)


def _binned_callback(callback: Callback, samples: FitSamples) -> PassCallback:
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
