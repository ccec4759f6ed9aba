"""Several coupled solutions, each refined by smoothed EM, the best one kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from threadpoolctl import threadpool_limits

from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.factors.solution import StopReason
from tensorly_smp.fit_samples import FitSamples
from tensorly_smp.likelihood.cell_samples import CellStatistics
from tensorly_smp.likelihood.cells import Cells
from tensorly_smp.likelihood.smooth_em import N_ROUNDS, SmoothFit, smooth_em
from tensorly_smp.likelihood.spline_basis import spline_basis
from tensorly_smp.progress import logger, progress_bar
from tensorly_smp.threads import run_each

#: Passes, and basis functions, with which starts are compared; and how many of them go on.
SCREENING_PASSES = 11
SCREENING_BASIS = 40
N_KEPT = 2


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
    samples: FitSamples,
    starts: Sequence[MixtureFactors],
    cells: Cells,
    *,
    criterion: str = "reml",
    n_iter_max: int = 1000,
    tol: float = 1e-6,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> RefinedStarts:
    """Smoothed EM from several factors; the best by Akaike's criterion.

    Starts that lead to the same clusters are followed once. If more than two are left, all are followed for a few
    passes, and the two that are best then to their end. The likelihood alone would prefer solutions with a component of
    a few samples; the effective number of parameters makes up for that (``benchmarks/paper.py`` has what comes out).

    Parameters
    ----------
    samples : FitSamples
        In the bins of the starts.
    starts : sequence of MixtureFactors
    cells : Cells
        Of the smooth densities.
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
    posteriors = samples.posteriors(starts)
    distinct = samples.distinct(posteriors)

    def followed(which: list[int], laid: CellStatistics, n_passes: int, n_rounds: int) -> tuple[list[SmoothFit], bool]:
        def follow(i: int, check: Callable[[], None]) -> SmoothFit:
            options: dict[str, Any] = dict(criterion=criterion, n_rounds=n_rounds, n_iter_max=n_passes, tol=tol)
            fit = smooth_em(laid, posteriors[i], callback=passes.counting(check), **options)
            bar.advance(criterion=fit.information)
            return fit

        stage = "smoothed EM" if n_rounds > 1 else "smoothed EM, comparing"
        with (
            threadpool_limits(1, user_api="blas"),
            progress_bar(verbose, stage, len(which), unit="start") as bar,
            progress_bar(verbose, "passes", unit="pass", level=2) as passes,
        ):
            return run_each(follow, which, effective_n_jobs(n_jobs), lambda fit: fit.status is StopReason.INTERRUPTED)

    criteria = np.full(len(starts), np.nan)
    interrupted = False
    if len(distinct) > N_KEPT:
        # Which start is better shows with half as many splines, in a fraction of the time.
        coarse = samples.lay(replace(cells, basis=spline_basis(SCREENING_BASIS)))
        screened, interrupted = followed(distinct, coarse, min(SCREENING_PASSES, n_iter_max), 1)
        distinct = distinct[: len(screened)]
        criteria[distinct] = [fit.information for fit in screened]
        for i, fit in zip(distinct, screened, strict=True):
            posteriors[i] = fit.posterior
        distinct = sorted(distinct, key=lambda i: -criteria[i])[: 1 if interrupted else N_KEPT]
    fits, again = followed(distinct, samples.lay(cells), 0 if interrupted else n_iter_max, N_ROUNDS)
    distinct = distinct[: len(fits)]
    criteria[distinct] = [fit.information for fit in fits]
    position = int(np.argmax([fit.information for fit in fits]))
    fit = fits[position]
    if interrupted or again:
        fit = replace(fit, status=StopReason.INTERRUPTED)
    logger.info(
        "Smoothed EM: %d starts, %d distinct, number %d best: log-likelihood %.6g after %d passes, %s; %.2f s",
        *(len(starts), np.isfinite(criteria).sum(), distinct[position], fit.log_likelihood, fit.n_passes),
        *(fit.status.name.lower(), time.perf_counter() - began),
    )
    return RefinedStarts(fit, distinct[position], criteria)
