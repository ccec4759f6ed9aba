"""Several candidates for the result of a fit, followed by smoothed EM; the best one wins."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tensorly_smp._support.iteration import StopReason, logger, progress_bar
from tensorly_smp._support.parallel import allowed_threads, one_blas_thread, run_each
from tensorly_smp.fitting.fit_samples import FitSamples
from tensorly_smp.likelihood.cells import Cells
from tensorly_smp.likelihood.comparison import Candidate, find_rivals
from tensorly_smp.likelihood.em import N_ROUNDS, on_best_cells, smooth_em_together
from tensorly_smp.likelihood.steps import CellSamples, Expectation, Mixture
from tensorly_smp.search.moves import rival_moves

#: Passes of EM after which candidates are compared, and how many of a start take part: its first ones.
SCREENING_PASSES, MOST_SCREENED = 6, 8
#: Coordinates and penalties are chosen by posteriors raised to this power, from which a fit goes on.
SHARPER = 5
#: Where the largest posterior of a sample is below the first of these on average, first passes come before that choice.
#: The choice is made again at the end where it is below the second, or below the third and there were no first passes.
UNCLEAR, CLEAR, VERY_CLEAR = 0.85, 0.97, 0.9985
#: Samples of a component, on average, from which on the choice is not made again.
MANY_SAMPLES = 1000
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

    The first candidates of a start are followed for a few passes; the very first of them, and the best by then, which
    goes on from sharper posteriors, are followed to their end. The better of the two is tried again from sharper
    posteriors. Then its rivals are followed: candidates near it whose clusters differ, among them models in which a
    pair of its components is one, for which another component is two. A start that is given is followed, not tried
    again and without rivals. Every start goes its own way, so that with more of them the criterion never ends lower.

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
        posteriors of a clear start, or those of the best candidate after a few passes, made sharper, and once more at
        the end.
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
        self.as_read = samples
        self.choices = [*others, first.cells] if others else []
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
        # Skip the search for better fits and for rivals if the user supplied the start.
        is_searched = not is_draft and any(each.origin != "given" for each in candidates)
        # First passes draw posteriors to their coordinates: those of a search are better guides to others, if clear.
        is_screened = len(candidates) > 1 or (bool(self.choices) and self._clarity(best) < UNCLEAR)
        waiting = [best]
        if is_screened:
            if not self._screen(candidates):
                return
            best = self.best
            waiting = [each for each in candidates if each in (best, candidates[0])]
        if self.choices and self.n_iter_max:
            self._sharpen(best)
        if not self._finish(waiting) or not self.n_iter_max or not is_searched:
            return
        per_component = self.samples.total_weight / self.best.posterior.shape[1]
        is_clear = self._clarity(self.best) >= (CLEAR if is_screened else VERY_CLEAR)
        if per_component < MANY_SAMPLES and not is_clear and self._try_again():
            self._try_again(chooses_cells=False)
        if self.best.is_stopped:
            return
        best = self.best
        moves = rival_moves(self.samples, best.fit, self.as_read.values)
        # Most of their components are those of the best.
        self.warm_starts |= dict.fromkeys(moves, self.warm_starts[best])
        if self._screen(moves):
            near = dict.fromkeys([self.best, *self._near(best)])
            self._finish([each for each in near if not each.is_finished])

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

    def _near(self, best: Candidate) -> list[Candidate]:
        """Candidates with other clusters that may be rivals of the best at their end."""
        weights = self.samples.sample_weight
        return find_rivals(best, self.followed, self._log_densities, weights, most=MOST_FOLLOWED, gain=NEAR_RIVAL)

    def _log_densities(self, candidate: Candidate) -> np.ndarray:
        cells = candidate.fit.cells
        samples = self.samples if cells is self.samples.cells else self.as_read.assign_to_grid(cells)
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

    def _try_again(self, chooses_cells: bool = True) -> bool:
        """Refit the best from sharper posteriors, with coordinates and penalties chosen anew; True if that is better.

        Posteriors adapt to the coordinates, which therefore seem to suit them better than they do.
        """
        best = self.best
        before = replace(best)
        samples = self.samples
        warm_starts = self.warm_starts
        self._sharpen(best, chooses_cells)
        self._follow([best], self.n_iter_max, N_ROUNDS)
        is_better = best.criterion > before.criterion and not best.is_stopped
        if not is_better:
            best.status = best.status if best.is_stopped else before.status
            best.fit = replace(before.fit, status=best.status)
            best.posterior = before.posterior
            best.criterion = before.criterion
            self.samples = samples
            self.warm_starts = warm_starts
        return is_better

    def _clarity(self, candidate: Candidate) -> float:
        """Largest posterior of a sample, on average."""
        return float(np.average(candidate.posterior.max(axis=1), weights=self.as_read.weights))

    def _sharpen(self, candidate: Candidate, chooses_cells: bool = True) -> None:
        """Sharpen the posteriors of a candidate, and put the samples on the cells that suit every variable best."""
        sharper = candidate.posterior**SHARPER
        candidate.posterior = sharper / sharper.sum(axis=1, keepdims=True)
        if not self.choices or not chooses_cells:
            self.warm_starts = {}
            return
        others = [cells for cells in self.choices if cells is not self.samples.cells]
        self.samples, warm_start = on_best_cells(
            self.samples, others, self.as_read.assign_to_grid, candidate.posterior, self.options["criterion"]
        )
        self.warm_starts = {candidate: warm_start}
