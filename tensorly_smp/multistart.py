"""Several coupled solutions, each refined by smoothed EM, the best one kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from joblib import Parallel, delayed
from scipy.sparse import csr_array
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from tensorly_smp.codes.encoding import Codes
from tensorly_smp.codes.one_hot import one_hot
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.likelihood.cell_samples import CellSamples
from tensorly_smp.likelihood.cells import Cells
from tensorly_smp.likelihood.expectation import expectation, log_floored
from tensorly_smp.likelihood.smooth_em import N_ROUNDS, SmoothFit, smooth_em
from tensorly_smp.likelihood.spline_basis import spline_basis

#: Share of the uniform distribution in what a coupled CPD hands over: it leaves exact zeros, and EM cannot leave them.
MIXING = 0.01
#: Starts whose clusters agree so well (adjusted Rand index) are one.
SAME_CLUSTERS = 0.95
#: Passes, and basis functions, with which starts are compared; and how many of them go on.
SCREENING_PASSES = 12
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
    values: np.ndarray,
    codes: Codes,
    starts: Sequence[MixtureFactors],
    cells: Cells,
    *,
    sample_weight: np.ndarray | None = None,
    criterion: str = "reml",
    n_iter_max: int = 1000,
    tol: float = 1e-6,
    n_jobs: int | None = None,
) -> RefinedStarts:
    """Smoothed EM from several factors; the best by Akaike's criterion.

    Starts that lead to the same clusters are followed once. If more than two are left, all are followed for a few
    passes, and the two that are best then to their end. The likelihood alone would prefer solutions with a component of
    a few samples; the effective number of parameters makes up for that (``benchmarks/paper.py`` has what comes out).

    Parameters
    ----------
    values : ndarray (n_samples, n_variables)
        NaN = missing.
    codes : Codes
        The same samples in the bins of the starts.
    starts : sequence of MixtureFactors
    cells : Cells
        Of the smooth densities.
    sample_weight : ndarray (n_samples,), optional
    criterion, n_iter_max, tol
        As for :func:`tensorly_smp.likelihood.smooth_em.smooth_em`.
    n_jobs : int, optional
        Starts at a time; the result does not depend on it.

    Returns
    -------
    RefinedStarts
    """
    hot = one_hot(codes)
    posteriors = [_posterior(hot, start) for start in starts]
    distinct = _distinct([posterior.argmax(axis=1) for posterior in posteriors])

    def follow(posterior: np.ndarray, samples: CellSamples, n_passes: int, n_rounds: int) -> SmoothFit:
        with threadpool_limits(1, user_api="blas"):
            return smooth_em(samples, posterior, criterion=criterion, n_rounds=n_rounds, n_iter_max=n_passes, tol=tol)

    run = Parallel(n_jobs=n_jobs, prefer="threads")
    criteria = np.full(len(starts), np.nan)
    most = max(n_iter_max, 1)
    if len(distinct) > N_KEPT:
        passes = min(SCREENING_PASSES, most)
        # Which start is better shows with half as many splines, in a fraction of the time.
        coarse = CellSamples.lay(values, replace(cells, basis=spline_basis(SCREENING_BASIS)), sample_weight)
        screened = run(delayed(follow)(posteriors[i], coarse, passes, 1) for i in distinct)
        criteria[distinct] = [fit.information for fit in screened]
        for i, fit in zip(distinct, screened, strict=True):
            posteriors[i] = fit.posterior
        distinct = sorted(distinct, key=lambda i: -criteria[i])[:N_KEPT]
    samples = CellSamples.lay(values, cells, sample_weight)
    fits = run(delayed(follow)(posteriors[i], samples, most, N_ROUNDS) for i in distinct)
    criteria[distinct] = [fit.information for fit in fits]
    position = int(np.argmax([fit.information for fit in fits]))
    return RefinedStarts(fits[position], distinct[position], criteria)


def _posterior(hot: csr_array, start: MixtureFactors) -> np.ndarray:
    model = start.to_numpy().smooth(MIXING, MIXING)
    return expectation(hot, np.log(model.weights), log_floored(np.concatenate(model.factors))).posterior


def _distinct(clusters: list[np.ndarray]) -> list[int]:
    """Positions of the first of all that agree."""
    kept: list[int] = []
    for i, labels in enumerate(clusters):
        if all(adjusted_rand_score(clusters[j], labels) < SAME_CLUSTERS for j in kept):
            kept.append(i)
    return kept
