"""Several candidates, each refined by smoothed EM, the best one kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from tensorly_smp._support.iteration import StopReason
from tensorly_smp._support.progress import logger, progress_bar
from tensorly_smp._support.threads import allowed_threads, one_blas_thread, run_each
from tensorly_smp.fitting.fit_samples import SamplesInMemory
from tensorly_smp.fitting.starts import Candidate
from tensorly_smp.likelihood.agreement import SAME_CLUSTERS, adjusted_rand, contingency
from tensorly_smp.likelihood.cell_samples import CellStatistics, SmoothMixture, on_best_cells
from tensorly_smp.likelihood.cells import Cells
from tensorly_smp.likelihood.expectation import Expectation
from tensorly_smp.likelihood.smooth_em import N_ROUNDS, SmoothFit, smooth_em

#: Passes after which candidates are compared, and candidates of a start that are: the first ones.
SCREENING_PASSES, MOST_SCREENED = 10, 8
#: Candidates that are this far below the best by then, in nats, do not go on; nor do more than so many.
KEPT_BELOW, MOST_KEPT = 12.0, 2
#: At the end, coordinates are chosen again, and the best fit is tried again from sharper posteriors, this many times at
#: most, as long as the criterion rises.
MOST_AGAIN = 2
#: Mean of the largest posteriors above which sharper ones are the same.
CLEAR = 0.995

#: Called before every pass with the posteriors and the penalized log-likelihood; returning True stops.
Callback = Callable[[np.ndarray, float], bool | None]


@dataclass(frozen=True, eq=False)
class RefinedCandidates:
    """Result of :func:`refine_candidates`.

    Attributes
    ----------
    fit : SmoothFit
        Of the best candidate.
    best : int
        Its position.
    criteria : ndarray (n_candidates,)
        Log-likelihood less the effective number of parameters, in nats, as far as a candidate was followed.
    agreement : ndarray (n_candidates,)
        Adjusted Rand index of the clusters with those of the best.
    """

    fit: SmoothFit
    best: int
    criteria: np.ndarray
    agreement: np.ndarray


def refine_candidates(
    samples: SamplesInMemory,
    candidates: Sequence[Candidate],
    cells: Cells,
    others: Sequence[Cells] = (),
    *,
    criterion: str = "reml",
    n_iter_max: int = 1000,
    tol: float = 1e-6,
    n_jobs: int | None = None,
    callback: Callback | None = None,
    verbose: int = 0,
) -> RefinedCandidates:
    """Smoothed EM from several candidates; the best by Akaike's criterion.

    The first candidates of a start are followed for a few passes; the very first of them, and those near the best by
    then, are followed to their end. For the best of these the coordinates are chosen once more, and it is tried again
    from sharper posteriors. Every start goes its own way, so that with more of them the criterion never ends lower.

    The likelihood alone would prefer solutions with a component of a few samples; the effective number of parameters
    makes up for that.

    Parameters
    ----------
    samples : SamplesInMemory
    candidates : sequence of Candidate
    cells : Cells
        Of the smooth densities.
    others : sequence of Cells
        Of these every variable gets those that suit it better, if any do, by the same criterion and the posteriors of
        the best candidate, after a few passes and once more at the end.
    criterion, n_iter_max, tol
        As for :func:`tensorly_smp.likelihood.smooth_em.smooth_em`.
    n_jobs : int, optional
        Candidates at a time; the result does not depend on it.
    callback : callable, optional
        Called before every pass of every candidate; returning True stops the candidate.
    verbose : int
        1 shows bars of the candidates, 2 also of their passes.

    Returns
    -------
    RefinedCandidates
        After a keyboard interrupt, the best that was reached until then.
    """
    began = time.perf_counter()
    options = dict[str, Any](criterion=criterion, tol=tol)
    first = samples.assign_to_grid(cells)
    numbers = sorted({candidate.start for candidate in candidates})
    posteriors = [candidate.posterior for candidate in candidates]
    fits: list[SmoothFit | None] = [None] * len(candidates)

    def one_start(number: int, check: Callable[[], None]) -> _Reached:
        def call(_: SmoothMixture, expected: Expectation, value: float) -> bool | None:
            check()
            passes.advance(log_likelihood=value)
            return None if callback is None else callback(expected.posterior, value)

        own = {i: posteriors[i] for i, candidate in enumerate(candidates) if candidate.start == number}
        own = dict(islice(own.items(), MOST_SCREENED))
        run = _Run(first, others, samples.assign_to_grid, samples.weights, options | dict(callback=call), n_iter_max)
        reached = run.follow_all(own)
        bar.advance(criterion=reached.fits[reached.best].information)
        return reached

    with (
        one_blas_thread(),
        progress_bar(verbose, "smoothed EM", len(numbers), unit="start") as bar,
        progress_bar(verbose, "passes", unit="pass", level=2) as passes,
    ):
        reached, is_interrupted = run_each(
            one_start, numbers, allowed_threads(n_jobs), lambda found: found.is_interrupted
        )
    for found in reached:
        for i, each in found.fits.items():
            fits[i] = each
    best = max((found.best for found in reached), key=lambda i: _rounded(_information(fits[i])))
    fit = fits[best]
    assert fit is not None
    if is_interrupted:
        fit = replace(fit, status=StopReason.INTERRUPTED)
    logger.info(
        "Smoothed EM: %d candidates, number %d best: log-likelihood %.6g after %d passes, %s; %.2f s",
        *(len(fits), best, fit.log_likelihood, fit.n_passes, fit.status.name.lower(), time.perf_counter() - began),
    )
    ends = [start if each is None else each.posterior for start, each in zip(posteriors, fits, strict=True)]
    clusters = [posterior.argmax(axis=1) for posterior in ends]
    tables = [contingency(clusters[best], each, fit.mixture.rank, samples.weights) for each in clusters]
    return RefinedCandidates(
        fit, best, np.array([_information(each) for each in fits]), np.array([adjusted_rand(table) for table in tables])
    )


def _information(fit: SmoothFit | None) -> float:
    return np.nan if fit is None else fit.information


def _rounded(value: float) -> float:
    """Nine digits: of candidates that lead to the same optimum the first is best, in whatever order sums were made."""
    return float(f"{value:.9g}")


@dataclass(frozen=True, eq=False)
class _Reached:
    """Fits of the candidates of one start, by position, and the best one."""

    fits: dict[int, SmoothFit]
    best: int
    is_interrupted: bool


class _Run:
    """The candidates of one start on their way."""

    def __init__(
        self,
        samples: CellStatistics,
        others: Sequence[Cells],
        assign_to_grid: Callable[[Cells], CellStatistics],
        weights: np.ndarray | None,
        options: dict[str, Any],
        n_iter_max: int,
    ) -> None:
        self.samples = samples
        self.weights = weights
        self.choices = [*others, samples.cells] if others else []
        self.assign_to_grid = assign_to_grid
        self.options = options
        self.n_iter_max = n_iter_max
        self.fits: dict[int, SmoothFit] = {}
        self.near: dict[int, tuple[np.ndarray, SmoothMixture]] = {}
        self.chosen_by: np.ndarray | None = None

    def follow_all(self, candidates: dict[int, np.ndarray]) -> _Reached:
        """The best fit from posteriors (n_samples, rank), each under its position."""
        for i, posterior in candidates.items():
            self._follow(i, posterior, min(SCREENING_PASSES, self.n_iter_max), 1)
            if self._is_stopped(i):
                return self._reached()
        top = self._best()
        if self.choices and self.n_iter_max:
            self._choose_cells(top)
        near = [i for i in self.fits if self.fits[i].information >= self.fits[top].information - KEPT_BELOW]
        near = sorted(near, key=lambda i: -_rounded(self.fits[i].information))[:MOST_KEPT]
        waiting = sorted({*near, next(iter(candidates))})
        followed: set[int] = set()
        while waiting:
            for i in waiting:
                self._follow(i, self.fits[i].posterior, self.n_iter_max, N_ROUNDS)
                if self._is_stopped(i):
                    return self._reached()
            followed.update(waiting)
            # Penalties that are chosen anew may lower the criterion: then another one is the best, and goes on too.
            waiting = [i for i in (self._best(),) if i not in followed]
        for _ in range(MOST_AGAIN if self.n_iter_max else 0):
            if not self._improved_by_cells() or self._is_stopped(self._best()):
                break
        for _ in range(MOST_AGAIN if self.n_iter_max else 0):
            if self._is_stopped(self._best()) or not self._improved_by_sharper():
                break
        return self._reached()

    def _follow(self, i: int, posterior: np.ndarray, n_passes: int, n_rounds: int) -> None:
        fit = smooth_em(
            self.samples,
            posterior,
            near=self.near.get(i),
            n_rounds=n_rounds,
            n_iter_max=n_passes,
            **self.options,
        )
        self.fits[i] = fit
        self.near[i] = (fit.total_penalty, fit.mixture)

    def _improved_by_cells(self) -> bool:
        """Refit with cells chosen by the posteriors at the end; True if that fit is better.

        They are not chosen again where the clusters are still those that they were chosen by.
        """
        if not self.choices:
            return False
        i = self._best()
        before = self.fits[i]
        if self._is_as_chosen(before.posterior):
            return False
        samples = self.samples
        near = self.near
        if not self._choose_cells(i):
            return False
        self._follow(i, before.posterior, self.n_iter_max, N_ROUNDS)
        if self._is_better(i, before):
            return True
        self.samples, self.near = samples, near
        return False

    def _improved_by_sharper(self) -> bool:
        """Refit from sharper posteriors, with penalties chosen anew; True if that fit is better."""
        i = self._best()
        before = self.fits[i]
        near = self.near.pop(i, None)
        if before.posterior.max(axis=1).mean() > CLEAR:
            return False  # sharper ones are the same
        sharper = before.posterior**2
        sharper /= sharper.sum(axis=1, keepdims=True)
        self._follow(i, sharper, self.n_iter_max, N_ROUNDS)
        if self._is_better(i, before):
            return True
        if near is not None:
            self.near[i] = near
        return False

    def _is_better(self, i: int, before: SmoothFit) -> bool:
        """Compare the fit of a candidate with the one before, and put that back unless the new one is better."""
        after = self.fits[i]
        if not self._is_stopped(i) and after.information > before.information:
            return True
        self.fits[i] = replace(before, status=after.status) if self._is_stopped(i) else before
        return False

    def _choose_cells(self, i: int) -> bool:
        """Put the samples on the cells that suit every variable best, given the posteriors of a candidate."""
        self.chosen_by = self.fits[i].posterior
        chosen, near = on_best_cells(
            self.samples, self.choices, self.assign_to_grid, self.fits[i].posterior, self.options["criterion"]
        )
        if chosen is self.samples:
            return False
        self.samples = chosen
        self.near = {i: near}
        return True

    def _is_as_chosen(self, posterior: np.ndarray) -> bool:
        """True if these posteriors have the clusters that the cells were last chosen by."""
        rank = posterior.shape[1]
        assert self.chosen_by is not None
        table = contingency(self.chosen_by.argmax(axis=1), posterior.argmax(axis=1), rank, self.weights)
        return adjusted_rand(table) >= SAME_CLUSTERS

    def _best(self) -> int:
        return max(self.fits, key=lambda i: _rounded(self.fits[i].information))

    def _is_stopped(self, i: int) -> bool:
        return self.fits[i].status in (StopReason.INTERRUPTED, StopReason.CALLBACK)

    def _reached(self) -> _Reached:
        statuses = {fit.status for fit in self.fits.values()}
        return _Reached(self.fits, self._best(), StopReason.INTERRUPTED in statuses)
