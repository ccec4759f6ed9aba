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
from tensorly_smp._support.iteration import StopReason, logger, progress_bar
from tensorly_smp._support.parallel import allowed_threads, one_blas_thread, run_each
from tensorly_smp.codes.encoding import one_hot
from tensorly_smp.decomposition.solution import factors_to_dataset
from tensorly_smp.densities.conditionals import ConditionalDensities
from tensorly_smp.densities.smooth import with_smooth_fit
from tensorly_smp.exceptions import ConvergenceWarning
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.factors.sweeps import Callback
from tensorly_smp.fitting.fit_samples import EM_SMOOTHING, FitSamples, Variables, start_logarithms
from tensorly_smp.fitting.results import with_candidates, with_likelihood_trace, with_rivals
from tensorly_smp.fitting.starts import (
    MOST_VARIABLES_FOR_STARTS,
    Decomposition,
    Starts,
    binned_factors,
    decomposed_starts,
    searched_starts,
    start_from_factors,
)
from tensorly_smp.likelihood.cells import Cells, choose_cells, curved_cells, exact_values
from tensorly_smp.likelihood.comparison import (
    Candidate,
    distinct_candidates,
    find_rivals,
)
from tensorly_smp.likelihood.em import N_ROUNDS, SmoothFit, on_best_cells, smooth_em, smooth_em_together
from tensorly_smp.likelihood.observed import Observed
from tensorly_smp.likelihood.steps import CellSamples, Expectation, Mixture, effective_weights, log_joint
from tensorly_smp.search.coarse import SearchSamples
from tensorly_smp.search.moves import rival_moves
from tensorly_smp.search.search import search

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


# ---- several candidates, each refined by smoothed EM, the best one kept ----

#: Passes of EM after which candidates are compared, and how many of a start take part: its first ones.
SCREENING_PASSES, MOST_SCREENED = 6, 8
#: Coordinates are chosen by posteriors raised to this power, and the best fit is tried again from such posteriors, with
#: coordinates chosen anew, unless the largest posterior of a sample is above this on average.
SHARPER, CLEAR = 5, 0.9
#: Most times that rivals are looked for; again only if one of them turned out better than the best fit.
MOST_AGAIN = 2
#: Nats that a candidate with other clusters may still gain on the best after the first passes: those that would then be
#: rivals are followed to their end, at most so many at a time.
NEAR_RIVAL, MOST_FOLLOWED = 8.0, 4

#: Called before every pass with the posteriors and the penalized log-likelihood; returning True stops.
PassCallback = Callable[[np.ndarray, float], bool | None]


def refine_candidates(
    samples: FitSamples,
    candidates: Sequence[Candidate],
    cells: Cells,
    others: Sequence[Cells] = (),
    *,
    criterion: str = "reml",
    n_iter_max: int = 1000,
    tol: float = 1e-6,
    n_jobs: int | None = None,
    callback: PassCallback | None = None,
    verbose: int = 0,
) -> tuple[list[Candidate], Candidate]:
    """Smoothed EM from several candidates, of which the one with the highest `SmoothFit.akaike` wins.

    The first candidates of a start are followed for a few passes; the very first of them, and the best by then, are
    followed to their end. The better of the two is tried again from sharper posteriors. Then its rivals are looked for:
    other candidates near it whose clusters differ, and models in which a pair of components is one, for which another
    component is two; not beside a start that is given. Every start goes its own way, so that with more of them the
    criterion never ends lower.

    The likelihood alone would prefer solutions with a component of a few samples; the effective number of parameters
    makes up for that.

    Parameters
    ----------
    samples : FitSamples
    candidates : sequence of Candidate
    cells : Cells
        Of the smooth densities.
    others : sequence of Cells
        Alternatives to `cells`: every variable gets the ones that suit it best by Akaike's criterion, given the
        posteriors of the best candidate after a few passes, and once more at the end, given sharper ones.
    criterion, n_iter_max, tol
        As for :func:`tensorly_smp.likelihood.em.smooth_em`.
    n_jobs : int, optional
        Candidates at a time; the result does not depend on it.
    callback : callable, optional
        Called before every pass of every candidate; returning True stops the candidate.
    verbose : int
        1 shows bars of the candidates, 2 also of their passes.

    Returns
    -------
    candidates : list of Candidate
        With their fits, as far as they were followed, and those that were tried beside the best of a start.
    best : Candidate
        After a keyboard interrupt, the best that was reached until then.
    """
    began = time.perf_counter()
    candidates = [replace(each, fit=None, criterion=np.nan, status=StopReason.CONVERGED) for each in candidates]
    groups: dict[int, list[Candidate]] = {}
    for each in candidates:  # all starts of a decomposition are compared with each other
        groups.setdefault(0 if each.origin in ("gevd", "random") else each.start, []).append(each)
    first = samples.assign_to_grid(cells)

    def one_start(number: int, check: Callable[[], None]) -> CandidateRun:
        is_stopped = False

        def call(_: Mixture, expected: Expectation, value: float) -> bool:
            nonlocal is_stopped
            check()
            passes.advance(log_likelihood=value)
            if callback is not None and not is_stopped:
                is_stopped = True  # who stops one candidate, or interrupts it, stops those that go with it
                is_stopped = bool(callback(expected.posterior, value))
            return is_stopped

        run = CandidateRun(first, others, samples, dict(criterion=criterion, tol=tol, callback=call), n_iter_max)
        run.follow_all(groups[number][:MOST_SCREENED])
        bar.advance(criterion=run.best.criterion)
        return run

    with (
        one_blas_thread(),
        progress_bar(verbose, "smoothed EM", len(groups), unit="start") as bar,
        progress_bar(verbose, "passes", unit="pass", level=2) as passes,
    ):
        runs, is_interrupted = run_each(
            one_start, sorted(groups), allowed_threads(n_jobs), lambda run: run.is_interrupted
        )
    candidates += [each for run in runs for each in run.followed if each.origin == "move"]
    best = max((each for each in candidates if each.fit is not None), key=lambda each: each.rounded)
    for number, each in enumerate(candidates):
        each.number = number
    if is_interrupted:
        best.status = StopReason.INTERRUPTED
        best.fit = replace(best.fit, status=best.status)
    logger.info(
        "Smoothed EM: %d candidates, number %d best: log-likelihood %.6g after %d passes, %s; %.2f s",
        *(len(candidates), candidates.index(best), best.fit.log_likelihood, best.fit.n_passes),
        *(best.fit.status.name.lower(), time.perf_counter() - began),
    )
    return candidates, best


class CandidateRun:
    """Smoothed EM of the candidates of one start: which are followed, how far, and on which cells.

    `warm_starts` has the penalties and the mixture that the next fit of a candidate begins near.
    """

    def __init__(
        self,
        first: CellSamples,
        others: Sequence[Cells],
        samples: FitSamples,
        options: dict[str, Any],
        n_iter_max: int,
    ) -> None:
        self.samples = first
        self.values = samples.values
        self.weights = samples.weights
        self.choices = [*others, first.cells] if others else []
        self.assign_to_grid = samples.assign_to_grid
        self.options = options
        self.n_iter_max = n_iter_max
        self.followed: list[Candidate] = []
        self.warm_starts: dict[Candidate, tuple[np.ndarray, Mixture]] = {}

    @property
    def best(self) -> Candidate:
        """The best of the candidates that were followed."""
        return max(self.followed, key=lambda each: each.rounded)

    @property
    def is_interrupted(self) -> bool:
        """True if the keyboard has interrupted a fit."""
        return any(each.status is StopReason.INTERRUPTED for each in self.followed)

    def follow_all(self, candidates: Sequence[Candidate], is_draft: bool = False) -> None:
        """The best fit from these posteriors, and those near it; a draft is not tried again, and has no rivals."""
        best = candidates[0]
        waiting = candidates
        if len(candidates) > 1 or (self.choices and not self._is_clear(best)):  # else first passes decide nothing
            if not self._screen(candidates):
                return
            best = self.best
            waiting = [each for each in candidates if each in (best, candidates[0])]
        if self.choices and self.n_iter_max:
            self._choose_cells(best, _sharpened(best.posterior))
        if not self._finish(waiting) or not self.n_iter_max or is_draft:
            return
        if not self.best.is_stopped:
            self._improve_by_sharper()
        # Skip the search for rivals if the user supplied the start.
        if any(each.origin != "given" for each in candidates) and not self.best.is_stopped:
            self._look_for_rivals()

    def try_also(self, candidates: Sequence[Candidate]) -> None:
        """The best fit, from these posteriors too."""
        if self.n_iter_max and self._screen(candidates) and not self.best.is_finished:
            self._finish([self.best])

    def _screen(self, candidates: Sequence[Candidate]) -> bool:
        """The first passes of candidates; False if one was stopped."""
        return self._follow(candidates, min(SCREENING_PASSES, self.n_iter_max), 1)

    def _finish(self, waiting: Sequence[Candidate]) -> bool:
        """Follow candidates to their end, and the one that is the best then; False if one was stopped."""
        while waiting:
            if not self._follow(waiting, self.n_iter_max, N_ROUNDS):
                return False
            for each in waiting:
                each.is_finished = True
            # Penalties that are chosen anew may lower the criterion: then another one is the best, and goes on too.
            waiting = [self.best] if not self.best.is_finished else []
        return True

    def _look_for_rivals(self) -> None:
        """Follow what may be a rival of the best: other candidates near it, and models with other components as one.

        Where one of these is better than the best, its own rivals are looked for too.
        """
        if not self._finish(self._near_best()):
            return
        for _ in range(MOST_AGAIN):
            best = self.best
            moves = rival_moves(self.samples, best.fit, self.values)
            # Most of their components are those of the best.
            self.warm_starts |= dict.fromkeys(moves, self.warm_starts[best])
            if not self._screen(moves):
                return
            if not self._finish(self._near_best()) or self.best is best:
                return

    def _near_best(self) -> list[Candidate]:
        """Candidates that are not at their end: the best if it is one, and those near it with other clusters."""
        best = self.best
        chosen = [] if best.is_finished else [best]
        waiting = [each for each in self.followed if not each.is_finished]
        most = MOST_FOLLOWED - len(chosen)
        return chosen + find_rivals(
            best, waiting, self._log_densities, self.samples.sample_weight, most=most, gain=NEAR_RIVAL
        )

    def _log_densities(self, candidate: Candidate) -> np.ndarray:
        cells = candidate.fit.cells
        samples = self.samples if cells is self.samples.cells else self.assign_to_grid(cells)
        return samples.log_densities(candidate.fit.mixture)

    def _follow(self, candidates: Sequence[Candidate], n_passes: int, n_rounds: int) -> bool:
        """Smoothed EM of candidates from their posteriors, all of them together; False if one was stopped."""
        if not candidates:
            return True
        fits = smooth_em_together(
            self.samples,
            [each.posterior for each in candidates],
            warm_starts=[self.warm_starts.get(each) for each in candidates],
            n_rounds=n_rounds,
            n_iter_max=n_passes,
            **self.options,
        )
        for each, fit in zip(candidates, fits, strict=True):
            if each not in self.followed:
                self.followed.append(each)
            each.fit = fit
            each.posterior = fit.posterior
            each.criterion = fit.akaike
            each.status = fit.status
            self.warm_starts[each] = (fit.total_penalty, fit.mixture)
        return not any(each.is_stopped for each in candidates)

    def _improve_by_sharper(self) -> None:
        """Refit from sharper posteriors, with coordinates and penalties chosen anew by these; kept if that is better.

        Posteriors adapt to the coordinates, which therefore seem to suit them better than they do.
        """
        best = self.best
        before = replace(best)
        if self._is_clear(best):
            return
        sharper = _sharpened(before.posterior)
        samples = self.samples
        warm_starts = self.warm_starts
        self.warm_starts = {}
        if self.choices:
            self._choose_cells(best, sharper)
        best.posterior = sharper
        self._follow([best], self.n_iter_max, N_ROUNDS)
        if best.is_stopped or best.criterion <= before.criterion:
            best.status = best.status if best.is_stopped else before.status
            best.fit = replace(before.fit, status=best.status)
            best.posterior = before.posterior
            best.criterion = before.criterion
            self.samples = samples
            self.warm_starts = warm_starts

    def _is_clear(self, candidate: Candidate) -> bool:
        return bool(np.average(candidate.posterior.max(axis=1), weights=self.weights) > CLEAR)

    def _choose_cells(self, candidate: Candidate, posterior: np.ndarray) -> None:
        """Put the samples on the cells that suit every variable best, given posteriors near those of a candidate."""
        others = [cells for cells in self.choices if cells is not self.samples.cells]
        self.samples, warm_start = on_best_cells(
            self.samples, others, self.assign_to_grid, posterior, self.options["criterion"]
        )
        self.warm_starts = {candidate: warm_start}


def _sharpened(posterior: np.ndarray) -> np.ndarray:
    sharper = posterior**SHARPER
    return np.asarray(sharper / sharper.sum(axis=1, keepdims=True))
