"""Fits of several numbers of components to the same samples, whole and without a fold, in any process."""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import tensorly as tl
from scipy.special import entr

from tensorly_smp.checks import collected_warnings
from tensorly_smp.codes.binning import Binning
from tensorly_smp.codes.encoding import encode_samples
from tensorly_smp.estimator import SmoothProductMixture
from tensorly_smp.identifiability.concerns import n_parameters
from tensorly_smp.threads import one_blas_thread


@dataclass(frozen=True, eq=False)
class Job:
    """What all fits have in common; it travels to the processes.

    Attributes
    ----------
    values : ndarray (n_samples, n_variables)
        NaN = missing.
    variables : tuple of hashable (n_variables,)
    sample_weight : ndarray (n_samples,) or None
    seed : int
    parameters : dict
        Of the estimator, but for n_components and random_state.
    backend : str
        Of TensorLy; a new process does not know it.
    """

    values: np.ndarray
    variables: tuple[Hashable, ...]
    sample_weight: np.ndarray | None
    seed: int
    parameters: dict[str, Any]
    backend: str

    @property
    def weights(self) -> np.ndarray:
        """Weights (n_samples,), zero of samples without entries: these say nothing, and are not counted."""
        observed = ~np.isnan(self.values).all(axis=1)
        return observed * (1.0 if self.sample_weight is None else self.sample_weight)

    @property
    def counted(self) -> np.ndarray:
        """Which samples count (n_samples,)."""
        return self.weights > 0

    @property
    def total_weight(self) -> float:
        """Number of samples that count, or the sum of their weights."""
        return float(self.weights.sum())


@dataclass
class CandidateFit:
    """What is left of a fit; of the figures nothing where it has failed.

    Attributes
    ----------
    rank : int
    seconds : float
    error : Exception or None
    caught : list of (class, message)
        Warnings.
    log_densities : ndarray
        Of all samples, or of those held out.
    n_parameters, entropy : float
    binning : Binning or None
    discrete : list of hashable
        Names of the variables with a histogram.
    fold : int
        That was held out; -1 for none.
    """

    rank: int
    seconds: float = 0.0
    error: Exception | None = None
    caught: list[tuple[type[Warning], str]] = field(default_factory=list)
    log_densities: np.ndarray = field(default_factory=lambda: np.empty(0))
    n_parameters: float = np.nan
    entropy: float = np.nan
    binning: Binning | None = None
    discrete: list[Hashable] = field(default_factory=list)
    fold: int = -1

    @property
    def failure(self) -> str:
        """Class and message of the error, or nothing."""
        return "" if self.error is None else f"{type(self.error).__name__}: {self.error}"


def fit_whole(job: Job, rank: int) -> CandidateFit:
    """The fit of all samples."""
    fit, model = _fitted(job, rank, np.ones(len(job.values), dtype=bool))
    if model is not None:
        posterior = model.density_.posterior(job.values)
        fit.log_densities = model.density_.logpdf(job.values)
        fit.entropy = float(job.weights @ entr(posterior).sum(axis=1))
        fit.n_parameters = float(model.result_.attrs.get("n_parameters", _n_probabilities(job, model, rank)))
        fit.binning = model.binning_
        if "discrete" in model.result_:
            fit.discrete = [job.variables[n] for n in np.flatnonzero(model.result_["discrete"].values)]
    return fit


def _n_probabilities(job: Job, model: SmoothProductMixture, rank: int) -> int:
    """Free probabilities of weights and bins; those of bins that no sample has ever fallen in are not free but zero."""
    codes = encode_samples(job.values[job.counted], model.binning_).values
    return n_parameters([len(np.unique(column[column >= 0])) for column in codes.T], rank)


def fit_without(job: Job, whole: CandidateFit, held_out: np.ndarray, fold: int) -> CandidateFit:
    """The fit without a fold, in the bins of all samples, and with the same variables discrete.

    Else a variable with few values might be smooth for some folds and not for others, and densities not comparable.
    """
    fit, model = _fitted(job, whole.rank, ~held_out, binning=whole.binning, discrete=whole.discrete)
    fit.fold = fold
    if model is not None:
        fit.log_densities = model.density_.logpdf(job.values[held_out])
    return fit


def _fitted(job: Job, rank: int, rows: np.ndarray, **changes: Any) -> tuple[CandidateFit, SmoothProductMixture | None]:
    """The model of some samples, or why there is none: a failure must not cost the fits of the other numbers."""
    # As objects, or pandas would make something else of names that are tuples.
    names = pd.Index(job.variables, dtype=object, tupleize_cols=False)
    weights = None if job.sample_weight is None else job.sample_weight[rows]
    fit, start = CandidateFit(rank), time.perf_counter()
    with collected_warnings() as caught, tl.backend_context(job.backend, local_threadsafe=True):
        model: SmoothProductMixture | None = None
        try:
            # One BLAS thread: with as many as a job happens to have, rounding would depend on the number of jobs.
            with one_blas_thread():
                model = SmoothProductMixture(rank, **(job.parameters | {"random_state": job.seed} | changes))
                model.fit(pd.DataFrame(job.values[rows], columns=names), sample_weight=weights)
        except Exception as error:
            fit.error, model = error, None
    if model is not None and "interrupted" in {model.result_.attrs["status"], *model.result_["start_status"].values}:
        raise KeyboardInterrupt  # of which a single fit makes the best; here it would be taken for a poor one
    fit.seconds = time.perf_counter() - start
    fit.caught = [(type(each), str(each)) for each in caught]
    return fit, model
