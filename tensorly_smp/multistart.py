"""Several coupled solutions, each refined by smoothed EM, the best one kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tensorly_smp.decomposition import are_many
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.factors.solution import StopReason
from tensorly_smp.fit_samples import SamplesInMemory
from tensorly_smp.likelihood.cell_samples import CellStatistics, SmoothMixture, on_best_cells
from tensorly_smp.likelihood.cells import Cells
from tensorly_smp.likelihood.penalties import FEW_PENALTIES
from tensorly_smp.likelihood.smooth_em import N_ROUNDS, SmoothFit, smooth_em
from tensorly_smp.likelihood.spline_basis import spline_basis
from tensorly_smp.progress import logger, progress_bar
from tensorly_smp.threads import allowed_threads, one_blas_thread, run_each

#: Passes, and basis functions, with which starts are compared; and how many of them go on.
SCREENING_PASSES = 11
SCREENING_BASIS = 40
N_KEPT = 2
#: Of many samples, starts are followed on their bins first, where passes take less time and no penalties are chosen.
BIN_PASSES = 10
#: Of many samples that have been compared, clusters that agree so well (adjusted Rand index) lead to one optimum.
SAME_COMPARED = 0.98


@dataclass(frozen=True, eq=False)
class RefinedStarts:
    """Result of :func:`refine_starts`.

    Attributes
    ----------
    fit : SmoothFit
        Of the best start.
    best : int
        Its position.
    criteria : ndarray (n_starts,)
        Log-likelihood less the effective number of parameters, in nats, as far as a start was followed; NaN for a start
        whose clusters are those of an earlier one.
    """

    fit: SmoothFit
    best: int
    criteria: np.ndarray


def refine_starts(
    samples: SamplesInMemory,
    starts: Sequence[MixtureFactors],
    cells: Cells,
    others: Sequence[Cells] = (),
    *,
    criterion: str = "reml",
    n_iter_max: int = 1000,
    tol: float = 1e-6,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> RefinedStarts:
    """Smoothed EM from several factors; the best by Akaike's criterion.

    Starts that lead to the same clusters are followed once. If more than two are left, all are followed for a few
    passes, and the two that are best then to their end. Of many samples (see `MANY_PER_COMPONENT`) two are compared as
    well, all of them on their bins before that, and those go on whose clusters still differ. With fewer a second start
    whose clusters are nearly the same ends a nat or two higher at times. The likelihood alone would prefer
    solutions with a component of a few samples; the effective number of parameters makes up for that
    (``benchmarks/paper.py`` has what comes out).

    Parameters
    ----------
    samples : SamplesInMemory
        In the bins of the starts.
    starts : sequence of MixtureFactors
    cells : Cells
        Of the smooth densities.
    others : sequence of Cells
        Of which every variable gets those that suit it better, if any do, by the same criterion and the posteriors that
        the best start has got to.
    criterion, n_iter_max, tol
        As for :func:`tensorly_smp.likelihood.smooth_em.smooth_em`.
    n_jobs : int, optional
        Starts at a time; the result does not depend on it.
    verbose : int
        1 shows bars of the starts, 2 also of their passes.

    Returns
    -------
    RefinedStarts
        After a keyboard interrupt, the best that was reached until then.
    """
    began = time.perf_counter()
    laid: CellStatistics = samples.lay(cells)
    options: dict[str, Any] = dict(criterion=criterion, tol=tol)
    is_many = are_many(laid.total_weight, starts[0].rank)
    race = _Race(samples, samples.posteriors(starts), np.full(len(starts), np.nan), options, is_many, n_jobs, verbose)
    distinct = samples.distinct(race.posteriors)
    if is_many and len(distinct) > 1:
        every = tuple(range(len(cells.low)))
        binned = samples.lay(replace(cells, discrete=every, edges=tuple(samples.binning.edges)))
        distinct = race.compared(distinct, binned, min(BIN_PASSES, n_iter_max))
        race.criteria[:] = np.nan  # with those of smooth densities they do not compare
    if len(distinct) > (1 if is_many else N_KEPT) and not race.is_interrupted:
        # Which start is better shows with half as many splines, in a fraction of the time.
        coarse = samples.lay(replace(cells, basis=spline_basis(SCREENING_BASIS)))
        distinct = race.compared(distinct, coarse, min(SCREENING_PASSES, n_iter_max))
    distinct = distinct[: 1 if race.is_interrupted else N_KEPT]
    if others and n_iter_max and not race.is_interrupted:
        with one_blas_thread():
            laid, near = on_best_cells(laid, others, samples.lay, race.posteriors[distinct[0]], criterion)
        race.near[distinct[0]] = near
    fits = race.followed(distinct, laid, 0 if race.is_interrupted else n_iter_max, N_ROUNDS)
    position = int(np.argmax([_but_for_rounding(fit.information) for fit in fits]))
    fit, best = fits[position], distinct[position]
    if race.is_interrupted:
        fit = replace(fit, status=StopReason.INTERRUPTED)
    logger.info(
        "Smoothed EM: %d starts, %d distinct, number %d best: log-likelihood %.6g after %d passes, %s; %.2f s",
        *(len(starts), np.isfinite(race.criteria).sum(), best, fit.log_likelihood, fit.n_passes),
        *(fit.status.name.lower(), time.perf_counter() - began),
    )
    return RefinedStarts(fit, best, race.criteria)


def _but_for_rounding(value: float) -> float:
    """Nine digits: of starts that lead to the same optimum the first is the best, in whatever order sums were made."""
    return float(f"{value:.9g}")


@dataclass(eq=False)
class _Race:
    """Starts on their way: posteriors and criteria as far as they have got, and whether they were interrupted.

    Of some the penalties, and a mixture, that go with their posteriors are known.
    """

    samples: SamplesInMemory
    posteriors: list[np.ndarray]
    criteria: np.ndarray
    options: dict[str, Any]
    is_many: bool
    n_jobs: int | None
    verbose: int
    is_interrupted: bool = False
    near: dict[int, tuple[np.ndarray, SmoothMixture]] = field(default_factory=dict)

    def followed(self, which: list[int], laid: CellStatistics, n_passes: int, n_rounds: int) -> list[SmoothFit]:
        """Fits from the posteriors of some starts; after an interrupt of those that have begun."""

        def follow(i: int, check: Callable[[], None]) -> SmoothFit:
            candidates = FEW_PENALTIES if self.is_many and n_rounds == 1 else None
            begun = dict(near=self.near.get(i), candidates=candidates)
            chosen = self.options | begun | dict(n_rounds=n_rounds, n_iter_max=n_passes)
            fit = smooth_em(laid, self.posteriors[i], callback=passes.counting(check), **chosen)
            bar.advance(criterion=fit.information)
            return fit

        stage = "smoothed EM" if n_rounds > 1 else "smoothed EM, comparing"
        with (
            one_blas_thread(),
            progress_bar(self.verbose, stage, len(which), unit="start") as bar,
            progress_bar(self.verbose, "passes", unit="pass", level=2) as passes,
        ):
            n_threads = allowed_threads(self.n_jobs)
            fits, interrupted = run_each(follow, which, n_threads, lambda fit: fit.status is StopReason.INTERRUPTED)
        self.is_interrupted |= interrupted
        for i, fit in zip(which, fits, strict=False):
            self.criteria[i], self.posteriors[i] = fit.information, fit.posterior
        return fits

    def compared(self, which: list[int], laid: CellStatistics, n_passes: int) -> list[int]:
        """The starts after a few passes, best first; of those of many samples whose clusters now agree, the best."""
        reached = which[: len(self.followed(which, laid, n_passes, 1))]
        reached.sort(key=lambda i: -_but_for_rounding(float(self.criteria[i])))
        if not self.is_many:
            return reached
        return [reached[k] for k in self.samples.distinct([self.posteriors[i] for i in reached], SAME_COMPARED)]
