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
from tensorly_smp.likelihood.cells import Cells
from tensorly_smp.likelihood.comparison import (
    SAME_CLUSTERS,
    adjusted_rand,
    contingency,
    deviation_of_difference,
    distinct_clusterings,
)
from tensorly_smp.likelihood.em import N_ROUNDS, SmoothFit, smooth_em
from tensorly_smp.likelihood.steps import CellSamples, Expectation, SmoothMixture, on_best_cells
from tensorly_smp.search.rivals import rival_moves

#: Passes of EM after which candidates are compared, and how many of a start take part: its first ones.
SCREENING_PASSES, MOST_SCREENED = 6, 8
#: At the end, the best fit is tried again from its posteriors raised to this power, by which the coordinates are then
#: chosen as well.
SHARPER = 5
#: If the largest posterior of a sample is above this on average, sharper ones would be the same.
CLEAR = 0.995
#: Most times that rivals are looked for; again only if one of them turned out better than the best fit.
MOST_AGAIN = 2
#: Solutions that are no more than this below the best are its rivals: in nats, or in standard deviations of the
#: difference, whichever is more (the test of Vuong 1989 at 5 %).
RIVAL_BELOW, RIVAL_DEVIATIONS = 3.0, 1.96
#: Most rivals that are kept, and the agreement (adjusted Rand index) below which their clusters count as others than
#: those of the best and of each other.
MOST_RIVALS, OTHER_CLUSTERS = 5, 0.9
#: Nats that a candidate with other clusters may still gain on the best after the first passes: those that would then be
#: rivals are followed to their end, at most so many at a time.
NEAR_RIVAL, MOST_FOLLOWED = 8.0, 4
#: Candidates that are farther below the best than this, in nats, are not looked at.
HOPELESS = 100.0

#: Called before every pass with the posteriors and the penalized log-likelihood; returning True stops.
PassCallback = Callable[[np.ndarray, float], bool | None]


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
        `SmoothFit.akaike` of every candidate, as far as it was followed; NaN for those that were not.
    agreement : ndarray (n_candidates,)
        Adjusted Rand index of the clusters with those of the best.
    origins : list of str
        How every candidate was found; "move" for those that were tried beside the best, which come last.
    rivals : dict of Rival
        Candidates that may be as good as the best and have other clusters, by position, best first.
    """

    fit: SmoothFit
    best: int
    criteria: np.ndarray
    agreement: np.ndarray
    origins: list[str]
    rivals: dict[int, Rival]


@dataclass(frozen=True, eq=False)
class Rival:
    """A fit that may be as good as the best one.

    Attributes
    ----------
    fit : SmoothFit
    deviation : float
        Standard deviation of the difference of the log-likelihoods, in nats.
    """

    fit: SmoothFit
    deviation: float


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
    callback: PassCallback | None = None,
    verbose: int = 0,
) -> RefinedCandidates:
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
    samples : SamplesInMemory
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
    RefinedCandidates
        After a keyboard interrupt, the best that was reached until then.
    """
    began = time.perf_counter()
    options = dict[str, Any](criterion=criterion, tol=tol)
    first = samples.assign_to_grid(cells)
    numbers = sorted({candidate.start for candidate in candidates})
    posteriors = [candidate.posterior for candidate in candidates]

    def one_start(number: int, check: Callable[[], None]) -> _Reached:
        def call(_: SmoothMixture, expected: Expectation, value: float) -> bool | None:
            check()
            passes.advance(log_likelihood=value)
            return None if callback is None else callback(expected.posterior, value)

        own = {i: posteriors[i] for i, candidate in enumerate(candidates) if candidate.start == number}
        own = dict(islice(own.items(), MOST_SCREENED))
        run = _Run(first, others, samples, options | dict(callback=call), n_iter_max)
        # Who gives a start wants the solution there.
        reached = run.follow_all(own, with_rivals=any(candidates[i].origin != "given" for i in own))
        bar.advance(criterion=reached.best.akaike)
        return reached

    with (
        one_blas_thread(),
        progress_bar(verbose, "smoothed EM", len(numbers), unit="start") as bar,
        progress_bar(verbose, "passes", unit="pass", level=2) as passes,
    ):
        reached, is_interrupted = run_each(
            one_start, numbers, allowed_threads(n_jobs), lambda found: found.is_interrupted
        )
    fits, followed = _of_all_starts(reached, len(candidates))
    best = max(range(len(fits)), key=lambda i: _ranked(fits[i]))
    fit = fits[best]
    assert fit is not None
    if is_interrupted:
        fit = replace(fit, status=StopReason.INTERRUPTED)
    logger.info(
        "Smoothed EM: %d candidates, number %d best: log-likelihood %.6g after %d passes, %s; %.2f s",
        *(len(fits), best, fit.log_likelihood, fit.n_passes, fit.status.name.lower(), time.perf_counter() - began),
    )
    starts = posteriors + [np.empty(0)] * (len(fits) - len(posteriors))
    ends = [start if each is None else each.posterior for start, each in zip(starts, fits, strict=True)]
    clusters = [posterior.argmax(axis=1) for posterior in ends]
    tables = [contingency(clusters[best], each, fit.mixture.rank, samples.weights) for each in clusters]
    criteria = np.array([np.nan if each is None else each.akaike for each in fits])
    is_stopped = is_interrupted or fit.status is StopReason.CALLBACK
    rivals = {} if is_stopped else _rivals({i: end for i in followed if (end := fits[i])}, best, samples)
    return RefinedCandidates(
        fit=fit,
        best=best,
        criteria=criteria,
        agreement=np.array([adjusted_rand(table) for table in tables]),
        origins=[candidate.origin for candidate in candidates] + ["move"] * (len(fits) - len(candidates)),
        rivals=rivals,
    )


def _of_all_starts(reached: Sequence[_Reached], n_candidates: int) -> tuple[list[SmoothFit | None], set[int]]:
    """Fits of all candidates, then those tried beside them; None where there is none. And which are at their end."""
    fits: list[SmoothFit | None] = [None] * n_candidates
    followed: set[int] = set()
    for found in reached:
        for i, each in found.fits.items():
            fits[i] = each
        followed |= found.followed
        for is_at_end, moved in found.moved:
            if is_at_end:
                followed.add(len(fits))
            fits.append(moved)
    return fits, followed


def _rivals(fits: dict[int, SmoothFit], best: int, samples: SamplesInMemory) -> dict[int, Rival]:
    """Fits at their end that may be as good as the best one, and have other clusters; best first."""
    on_grids: list[CellSamples] = []

    def on_cells(cells: Cells) -> CellSamples:
        known = [each for each in on_grids if each.cells is cells]
        if not known:
            on_grids.append(samples.assign_to_grid(cells))
        return (known or on_grids[-1:])[0]

    others = {i: fits[i] for i in fits if i != best}
    found: dict[int, Rival] = {}
    for i in _with_other_clusters(others, fits[best], samples.weights):
        below = fits[best].akaike - others[i].akaike
        if below > HOPELESS:
            break
        rival = Rival(others[i], _deviation(others[i], fits[best], on_cells))
        if is_as_near(below, rival.deviation) and len(found) < MOST_RIVALS:
            found[i] = rival
    return found


def is_as_near(below: float, deviation: float) -> bool:
    """Whether samples leave open which of two solutions is nearer to the truth.

    Parameters
    ----------
    below : float
        How far the criterion of one is below that of the other, in nats.
    deviation : float
        Standard deviation of the difference.
    """
    return below <= max(RIVAL_BELOW, RIVAL_DEVIATIONS * deviation)


def _deviation(fit: SmoothFit, best: SmoothFit, on_cells: Callable[[Cells], CellSamples]) -> float:
    first = on_cells(best.cells)
    second = on_cells(fit.cells)
    log_densities = (first.log_densities(best.mixture), second.log_densities(fit.mixture))
    return deviation_of_difference(*log_densities, first.sample_weight)


def _with_other_clusters(fits: dict[int, SmoothFit], best: SmoothFit, weights: np.ndarray | None) -> list[int]:
    """Fits whose clusters differ from those of the best and of each other, best first."""
    order = sorted(fits, key=lambda i: (-_ranked(fits[i]), i))
    clusters = [each.posterior.argmax(axis=1) for each in (best, *(fits[i] for i in order))]
    kept = distinct_clusterings(clusters, best.mixture.rank, weights, OTHER_CLUSTERS)
    return [order[i - 1] for i in kept[1:]]


def _ranked(fit: SmoothFit | None) -> float:
    return -np.inf if fit is None else _rounded(fit.akaike)


def _rounded(value: float) -> float:
    """Nine digits: of candidates that lead to the same optimum the first is best, in whatever order sums were made."""
    return float(f"{value:.9g}")


@dataclass(frozen=True, eq=False)
class _Reached:
    """Fits of the candidates of one start, by position, which of them are at their end, and the best of all.

    `moved` are the models that were tried beside it, each with whether it is at its end.
    """

    fits: dict[int, SmoothFit]
    followed: set[int]
    best: SmoothFit
    moved: list[tuple[bool, SmoothFit]]
    is_interrupted: bool


class _Run:
    """Smoothed EM of the candidates of one start: which are followed, how far, and on which cells.

    `warm_starts` has the penalties and the mixture that the next fit of a candidate begins near.
    """

    def __init__(
        self,
        first: CellSamples,
        others: Sequence[Cells],
        samples: SamplesInMemory,
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
        self.fits: dict[int, SmoothFit] = {}
        self.followed: set[int] = set()
        self.warm_starts: dict[int, tuple[np.ndarray, SmoothMixture]] = {}
        self.chosen_by: np.ndarray | None = None
        self.first_move = 0

    def follow_all(self, candidates: dict[int, np.ndarray], with_rivals: bool = True) -> _Reached:
        """The best fit from posteriors (n_samples, rank), each under its position, and those near it."""
        self.first_move = max(candidates) + 1
        for i, posterior in candidates.items():
            self._follow(i, posterior, min(SCREENING_PASSES, self.n_iter_max), 1)
            if self._is_stopped(i):
                return self._reached()
        top = self._best()
        if self.choices and self.n_iter_max:
            self._choose_cells(top, self.fits[top].posterior)
        if not self._follow_to_end(sorted({top, next(iter(candidates))})) or not self.n_iter_max:
            return self._reached()
        if not self._is_stopped(self._best()):
            self._improve_by_sharper()
        if with_rivals:
            self._look_for_rivals()
        return self._reached()

    def _follow_to_end(self, waiting: list[int]) -> bool:
        """Follow candidates to their end, and every one that is the best then; False if that was stopped."""
        while waiting:
            for i in waiting:
                self._follow(i, self.fits[i].posterior, self.n_iter_max, N_ROUNDS)
                if self._is_stopped(i):
                    return False
            self.followed.update(waiting)
            # Penalties that are chosen anew may lower the criterion: then another one is the best, and goes on too.
            waiting = [i for i in (self._best(),) if i not in self.followed]
        return True

    def _look_for_rivals(self) -> None:
        """Follow what may be a rival of the best: other candidates near it, and models with other components as one.

        Where one of these is better than the best, its own rivals are looked for too.
        """
        if self._is_stopped(self._best()) or not self._follow_to_end(self._near_best()):
            return
        for _ in range(MOST_AGAIN):
            best = self._best()
            for move in rival_moves(self.samples, self.fits[best], self.values):
                i = max(self.fits) + 1
                self._follow(i, move.posterior, min(SCREENING_PASSES, self.n_iter_max), 1)
                if self._is_stopped(i):
                    return
            if not self._follow_to_end(self._near_best()) or self._best() == best:
                return

    def _near_best(self) -> list[int]:
        """Candidates that are not at their end: the best if it is one, and those near it with other clusters."""
        best = self._best()
        waiting = {i: each for i, each in self.fits.items() if i not in self.followed and i != best}
        chosen = [] if best in self.followed else [best]
        for i in _with_other_clusters(waiting, self.fits[best], self.weights):
            below = self.fits[best].akaike - waiting[i].akaike - NEAR_RIVAL
            if below > HOPELESS or len(chosen) >= MOST_FOLLOWED:
                break
            if is_as_near(below, _deviation(waiting[i], self.fits[best], self._on_cells)):
                chosen.append(i)
        return chosen

    def _on_cells(self, cells: Cells) -> CellSamples:
        return self.samples if cells is self.samples.cells else self.assign_to_grid(cells)

    def _follow(self, i: int, posterior: np.ndarray, n_passes: int, n_rounds: int) -> None:
        fit = smooth_em(
            self.samples,
            posterior,
            near=self.warm_starts.get(i),
            n_rounds=n_rounds,
            n_iter_max=n_passes,
            **self.options,
        )
        self.fits[i] = fit
        self.warm_starts[i] = (fit.total_penalty, fit.mixture)

    def _improve_by_sharper(self) -> None:
        """Refit from sharper posteriors, with coordinates and penalties chosen anew by these; kept if that is better.

        At the end, posteriors have adapted to the coordinates, which therefore seem to suit them better than they do.
        """
        i = self._best()
        before = self.fits[i]
        if np.average(before.posterior.max(axis=1), weights=self.weights) > CLEAR and self._is_as_chosen(
            before.posterior
        ):
            return  # sharper ones are the same
        sharper = before.posterior**SHARPER
        sharper /= sharper.sum(axis=1, keepdims=True)
        samples = self.samples
        warm_starts = self.warm_starts
        self.warm_starts = {}
        if self.choices:
            self._choose_cells(i, sharper)
        self._follow(i, sharper, self.n_iter_max, N_ROUNDS)
        if not self._is_better(i, before):
            self.samples = samples
            self.warm_starts = warm_starts

    def _is_better(self, i: int, before: SmoothFit) -> bool:
        """Compare the fit of a candidate with the one before, and put that back unless the new one is better."""
        after = self.fits[i]
        if not self._is_stopped(i) and after.akaike > before.akaike:
            return True
        self.fits[i] = replace(before, status=after.status) if self._is_stopped(i) else before
        return False

    def _choose_cells(self, i: int, posterior: np.ndarray) -> None:
        """Put the samples on the cells that suit every variable best, given posteriors of a candidate."""
        self.chosen_by = posterior
        others = [cells for cells in self.choices if cells is not self.samples.cells]
        self.samples, near = on_best_cells(
            self.samples, others, self.assign_to_grid, posterior, self.options["criterion"]
        )
        self.warm_starts = {i: near}

    def _is_as_chosen(self, posterior: np.ndarray) -> bool:
        """True if these posteriors have the clusters that the cells were last chosen by, if there is a choice."""
        if self.chosen_by is None:
            return True
        rank = posterior.shape[1]
        table = contingency(self.chosen_by.argmax(axis=1), posterior.argmax(axis=1), rank, self.weights)
        return adjusted_rand(table) >= SAME_CLUSTERS

    def _best(self) -> int:
        return max(self.fits, key=lambda i: _rounded(self.fits[i].akaike))

    def _is_stopped(self, i: int) -> bool:
        return self.fits[i].status in (StopReason.INTERRUPTED, StopReason.CALLBACK)

    def _reached(self) -> _Reached:
        statuses = {fit.status for fit in self.fits.values()}
        best = self.fits[self._best()]
        moved = [(i in self.followed, self.fits.pop(i)) for i in sorted(self.fits) if i >= self.first_move]
        followed = {i for i in self.followed if i < self.first_move}
        return _Reached(self.fits, followed, best, moved, StopReason.INTERRUPTED in statuses)
