"""Fit of one candidate to all samples, or to those outside a fold; the table of figures that compares fits."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import tensorly as tl
import xarray as xr
from scipy.special import entr
from sklearn.base import clone

from tensorly_smp._support.checks import RandomState, checked_integer, collected_warnings, seed_sequence
from tensorly_smp._support.parallel import one_blas_thread
from tensorly_smp.codes.binning import Binning
from tensorly_smp.codes.encoding import encode_samples
from tensorly_smp.estimators.smooth_product import SmoothProductMixture
from tensorly_smp.estimators.unmixed import UnmixedProductMixture
from tensorly_smp.exceptions import InvalidInputError, SizeLimitError
from tensorly_smp.factors.mixture_factors import empty_component_warning
from tensorly_smp.fitting.stages import convergence_warning
from tensorly_smp.identifiability.bounds import n_parameters
from tensorly_smp.likelihood.comparison import Candidate
from tensorly_smp.samples.codebook import ValueLabels, pandas_frame
from tensorly_smp.samples.reading import read_samples
from tensorly_smp.samples.values import merge_equal_rows


@dataclass(frozen=True, eq=False)
class Job:
    """Data and settings that all fits share; they travel to the processes.

    Attributes
    ----------
    values : ndarray (n_samples, n_variables)
        NaN = missing; equal samples are one.
    variables : tuple of hashable (n_variables,)
    sample_weight : ndarray (n_samples,) or None
    n_counted : int
        Number of samples, before equal ones were merged, that have entries and a positive weight.
    seed : int
    estimator : SmoothProductMixture or UnmixedProductMixture
        Unfitted, with all parameters but n_components and random_state.
    backend : str
        Of TensorLy; a new process does not know it.
    value_labels : mapping from name to ValueLabels
        Of variables that came as text or categories.
    """

    values: np.ndarray
    variables: tuple[Hashable, ...]
    sample_weight: np.ndarray | None
    n_counted: int
    seed: int
    estimator: Any
    backend: str
    value_labels: Mapping[Hashable, ValueLabels]

    @property
    def weights(self) -> np.ndarray:
        """Weights (n_samples,), zero of samples without entries: these say nothing, and are not counted."""
        observed = ~np.isnan(self.values).all(axis=1)
        return observed * (1.0 if self.sample_weight is None else self.sample_weight)

    @property
    def counted(self) -> np.ndarray:
        """Mask (n_samples,) of the samples of positive weight."""
        return self.weights > 0

    @property
    def total_weight(self) -> float:
        """Number of samples that count, or the sum of their weights."""
        return float(self.weights.sum())


@dataclass
class CandidateFit:
    """Summary of one candidate fit; numeric fields are NaN if the fit failed.

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
    origin : str
        Where the start of the fit came from.
    fold : int
        That was held out; -1 for none.
    candidate : Candidate or None
        The solution, if neighbors have helped to find it: not followed to its end, and without a look at rivals.
    """

    rank: int
    seconds: float = 0.0
    error: Exception | None = None
    caught: list[tuple[type[Warning], str]] = field(default_factory=list)
    log_densities: np.ndarray = field(default_factory=lambda: np.empty(0))
    n_parameters: float = np.nan
    entropy: float = np.nan
    binning: Binning | None = None
    origin: str = ""
    fold: int = -1
    candidate: Candidate | None = None

    @property
    def failure(self) -> str:
        """Class and message of the error, or nothing."""
        return "" if self.error is None else f"{type(self.error).__name__}: {self.error}"


def read_job(X: Any, sample_weight: Any, sample_dim: Hashable | None, random_state: RandomState, estimator: Any) -> Job:
    """The job of samples that can be used, and of arguments that are checked."""
    binning = getattr(estimator, "binning", None)
    names = binning.variables if isinstance(binning, Binning) else None
    sample_dim = getattr(estimator, "sample_dim", None) if sample_dim is None else sample_dim
    samples = read_samples(X, names, sample_dim, None)
    weights = samples.aligned_weights(sample_weight)
    is_counted = ~np.isnan(samples.values).all(axis=1) & (True if weights is None else weights > 0)
    values, weights = merge_equal_rows(samples.values, weights)
    sequence = seed_sequence(random_state)  # refuses what is none
    # The integer itself, so that a fit with it is the same; else one drawn.
    seed = int(random_state) if isinstance(random_state, int | np.integer) else int(sequence.generate_state(1)[0])
    settings = seed, estimator, tl.get_backend(), samples.value_labels
    job = Job(values, samples.variables, weights, int(is_counted.sum()), *settings)
    if job.total_weight < 2:
        advice = "expected at least 2. Scale weights to sum to the number of samples that they are worth"
        raise InvalidInputError(f"Samples with entries, or their weights, sum to {job.total_weight:g}; {advice}.")
    return job


def frame_of(job: Job, values: np.ndarray) -> pd.DataFrame:
    """Samples under the names of their variables: as objects, or pandas would take tuples for levels."""
    columns = pd.Index(job.variables, dtype=object, tupleize_cols=False)
    return pandas_frame(values, None, columns, [job.value_labels.get(name) for name in job.variables])


def judged(job: Job, rank: int, near: Candidate | None = None) -> tuple[CandidateFit, Any]:
    """The fit of all samples, from `near` too, with its figures, and the model; None if the fit failed."""
    fit, model = _fitted(job, rank, job.values, job.sample_weight, near)
    if model is not None:
        frame = frame_of(job, job.values)
        fit.log_densities = np.asarray(model.score_samples(frame))
        fit.entropy = float(job.weights @ entr(np.asarray(model.predict_proba(frame))).sum(axis=1))
        if "n_parameters" in model.result_.attrs:
            fit.n_parameters = float(model.n_parameters_)
        else:  # free probabilities: of a bin that no sample has ever fallen in it is not free but zero
            codes = encode_samples(job.values[job.counted], model.binning_).values
            fit.n_parameters = float(n_parameters([len(np.unique(column[column >= 0])) for column in codes.T], rank))
        fit.binning = model.binning_
        if "candidate_origin" in model.result_:
            fit.origin = str(model.result_["candidate_origin"].values[model.result_.attrs["best_candidate"]])
    return fit, model


def fit_without(job: Job, wholes: Sequence[CandidateFit], held_out: np.ndarray, fold: int) -> list[CandidateFit]:
    """Fits of the same numbers as these without the copies (n_samples,) of a fold."""
    points = job.values[held_out > 0]
    fits: list[CandidateFit] = []
    if len(wholes) > 1:
        of_fold, rows, weights = _without(job, held_out, wholes[0].binning)
        fits = walked_fits(of_fold, [whole.rank for whole in wholes], job.values[rows], weights, points)
    for whole in [] if fits else wholes:
        of_fold, rows, weights = _without(job, held_out, whole.binning)
        fit, model = _fitted(of_fold, whole.rank, job.values[rows], weights)
        if model is not None:
            fit.log_densities = np.asarray(model.score_samples(frame_of(of_fold, points)))
        fits.append(fit)
    return [replace(fit, fold=fold) for fit in fits]


def _without(job: Job, held_out: np.ndarray, binning: Binning | None) -> tuple[Job, np.ndarray, np.ndarray | None]:
    """The job without the copies of a fold, its rows and weights; bins and discrete variables are those of all samples.

    Else a variable with few values might be smooth for some folds and not for others, and densities not comparable; and
    a value that only samples held out have would have no probability. The bins of an unmixed model are of its sources,
    which every fold has others of. Labels are codes: a fold may lack some.
    """
    estimator = clone(job.estimator)
    if binning is not None and isinstance(estimator, UnmixedProductMixture):
        mixture = SmoothProductMixture(shape="auto") if estimator.mixture is None else clone(estimator.mixture)
        values = {name: each.tolist() for name, each in binning.values.items() if len(each) > 1}
        estimator.set_params(mixture=mixture.set_params(discrete=values))
    elif binning is not None:
        estimator.set_params(binning=binning)
        if estimator.refine == "smooth":
            estimator.set_params(discrete=list(binning.values))
    rows = (held_out == 0) | (held_out < job.weights)
    weights = None if job.sample_weight is None else (job.sample_weight - held_out)[rows]
    return replace(job, value_labels={}, estimator=estimator), rows, weights


def _fitted(
    job: Job, rank: int, values: np.ndarray, weights: np.ndarray | None, near: Candidate | None = None
) -> tuple[CandidateFit, Any]:
    """The model of some samples, or why there is none: a failure must not cost the fits of the other numbers."""
    fit = CandidateFit(rank)
    began = time.perf_counter()
    with collected_warnings() as caught, tl.backend_context(job.backend, local_threadsafe=True):
        model: Any = None
        try:
            # One BLAS thread: with as many as a job happens to have, rounding would depend on the number of jobs.
            with one_blas_thread():
                model = clone(job.estimator).set_params(n_components=rank, random_state=job.seed)
                if near is None:
                    model.fit(frame_of(job, values), sample_weight=weights)
                else:
                    model._fit(frame_of(job, values), weights, near=replace(near, fit=None, is_finished=False))
        except Exception as error:
            fit.error, model = error, None
    if model is not None and "interrupted" in {model.result_.attrs["status"], *model.result_["start_status"].values}:
        raise KeyboardInterrupt  # of which a single fit makes the best; here it would be taken for a poor one
    fit.seconds = time.perf_counter() - began
    fit.caught = [(type(each), str(each)) for each in caught]
    return fit, model


def walked_fits(
    job: Job, ranks: Sequence[int], values: np.ndarray, weights: np.ndarray | None, points: np.ndarray
) -> list[CandidateFit]:
    """Fits of several numbers to some samples, with log-densities of points; none if one of them fails."""
    start = time.perf_counter()
    with collected_warnings() as caught, tl.backend_context(job.backend, local_threadsafe=True):
        try:
            with one_blas_thread():
                model = clone(job.estimator).set_params(n_components=ranks[0], random_state=job.seed)
                binning, found = model._walk(frame_of(job, values), weights, ranks)
        except Exception:
            return []
    fits = []
    for rank, (best, density) in found.items():
        fit = CandidateFit(rank, (time.perf_counter() - start) / len(ranks), binning=binning, origin=best.origin)
        fit.candidate = best
        fit.log_densities = density.logpdf(points)
        fit.n_parameters = best.fit.n_parameters
        if points is job.values:
            fit.entropy = float(job.weights @ entr(density.posterior(points)).sum(axis=1))
        empty = empty_component_warning(density.weights, "Try fewer components.")
        issues = [*caught, convergence_warning(best.fit), empty]
        fit.caught = [(type(each), str(each)) for each in issues if each is not None]
        fits.append(fit)
    return fits


#: Copies of samples, of integer weights, that are spread over folds, at most.
MOST_COPIES = 100_000_000


def spread_over_folds(job: Job, n_folds: Any) -> np.ndarray:
    """Copies (n_folds, n_samples) of every sample that a fold holds out, drawn at random; folds are equally large."""
    n_folds = checked_integer(n_folds, "n_folds", 2)
    weights = job.weights
    if (broken := weights[weights != np.floor(weights)]).size:
        advice = "expected whole numbers, as copies of a sample are spread over the folds. Round the weights"
        raise InvalidInputError(f"Samples are held out, and a sample_weight is {broken[0]:g}; {advice}.")
    if job.total_weight > MOST_COPIES:
        words = f"{job.total_weight:.3g} samples are too many for folds"
        raise SizeLimitError(f"{words}; expected at most {MOST_COPIES:.0e}.")
    copies = np.repeat(np.arange(len(weights)), weights.astype(np.int64))
    if len(copies) < 2 * n_folds:
        words = f"{len(copies)} samples with entries and a positive weight are too few for {n_folds} folds"
        raise InvalidInputError(f"{words}; expected at least {2 * n_folds}.")
    # A stream apart from those of the fits, which have the seed itself.
    rng = np.random.default_rng(np.random.SeedSequence(job.seed, spawn_key=(1,)))
    held_out = np.zeros((n_folds, len(weights)))
    np.add.at(held_out, (np.arange(len(copies)) % n_folds, rng.permutation(copies)), 1.0)
    return held_out


#: What the table says: long names, and units of what has any.
FIGURES = {
    "criterion": ("what decides; lower is better", ""),
    "log_likelihood": ("log-likelihood of all samples", "nats"),
    "n_parameters": ("effective number of parameters", ""),
    "entropy": ("entropy of the posteriors, summed over samples", "nats"),
    "bic": ("-2 log-likelihood + n_parameters log(n_samples); lower is better", ""),
    "icl": ("bic + 2 entropy; lower is better", ""),
    "aic3": ("-2 log-likelihood + 3 n_parameters; lower is better", ""),
    "origin": ("where the start of the fit came from", ""),
    "seconds": ("time of the fits, added up", "s"),
    "failure": ("why there is no fit, or none without one of the folds", ""),
    "warnings": ("classes of the warnings of the fit of all samples", ""),
    "heldout_log_likelihood": ("log-likelihood per sample of the fold that was held out", "nats"),
    "heldout_mean": ("log-likelihood per sample, each when held out", "nats"),
    "heldout_spread": ("standard deviation over folds of the log-likelihood per sample", "nats"),
    "heldout_error": ("standard error of heldout_mean", "nats"),
    "heldout_gap": ("heldout_mean below that of the best", "nats"),
    "heldout_gap_error": ("standard error of heldout_gap, from differences of the same samples", "nats"),
}


def figures(
    job: Job,
    criterion: str,
    folds: np.ndarray | None,
    fits: Sequence[CandidateFit],
    heldout: Sequence[Sequence[CandidateFit]],
    coordinate: xr.Variable,
) -> xr.Dataset:
    """Table of all fits, each with those of the folds; one fold that fails leaves a fit without a criterion.

    `coordinate` tells the fits apart.
    """
    likelihood = np.array([np.nan if fit.error else job.weights @ fit.log_densities for fit in fits])
    parameters, entropy, seconds = (
        np.array([getattr(fit, name) for fit in fits]) for name in ("n_parameters", "entropy", "seconds")
    )
    bic = -2.0 * likelihood + parameters * np.log(job.total_weight)
    found: dict[str, Any] = {
        "log_likelihood": likelihood,
        "n_parameters": parameters,
        "entropy": entropy,
        "bic": bic,
        "icl": bic + 2.0 * entropy,
        "aic3": -2.0 * likelihood + 3.0 * parameters,
        "origin": np.array([fit.origin for fit in fits]),
        "seconds": seconds,
        "warnings": np.array([" ".join(sorted({category.__name__ for category, _ in fit.caught})) for fit in fits]),
    }
    failure = [fit.failure for fit in fits]
    if folds is not None:
        weights = folds[folds > 0]
        fold_of, _ = np.nonzero(folds)
        log_densities = np.full((len(fits), len(weights)), np.nan)
        for row, fit in ((row, fit) for row, some in enumerate(heldout) for fit in some):
            seconds[row] += fit.seconds
            if fit.error is None:
                log_densities[row, fold_of == fit.fold] = fit.log_densities
            elif not failure[row]:
                failure[row] = f"Without fold {fit.fold}: {fit.failure}"
        parts = [fold_of == fold for fold in range(len(folds))]
        by_fold = np.stack([log_densities[:, part] @ weights[part] / weights[part].sum() for part in parts], axis=1)
        sums = log_densities @ weights
        mean = sums / job.total_weight
        gap, error = _gaps(log_densities, weights)
        found |= {
            "cv": -2.0 * sums,
            "heldout_log_likelihood": by_fold,
            "heldout_mean": mean,
            "heldout_spread": by_fold.std(axis=1, ddof=1),
            "heldout_error": np.sqrt((log_densities - mean[:, None]) ** 2 @ weights) / job.total_weight,
            "heldout_gap": gap,
            "heldout_gap_error": error,
        }
    found |= {"criterion": found[criterion], "failure": np.array(failure)}
    contents = {}
    for name, (text, unit) in FIGURES.items():
        if name in found:
            note = {"long_name": text, **({"units": unit} if unit else {})}
            contents[name] = ((*coordinate.dims, "fold")[: found[name].ndim], found[name], note)
    coords = {coordinate.dims[0]: coordinate}
    return xr.Dataset(contents, coords if folds is None else coords | {"fold": np.arange(len(folds))})


def _gaps(log_densities: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean log-density by which each candidate is below the best, and its standard error; NaN for failed fits.

    Weights (n_values,) are numbers of samples.
    """
    means = log_densities @ weights / weights.sum()
    if np.isnan(means).all():
        return means, means
    below = log_densities[int(np.nanargmax(means))] - log_densities
    gap = below @ weights / weights.sum()
    return gap, np.sqrt((below - gap[:, None]) ** 2 @ weights) / weights.sum()
