"""Choice of the model: a product mixture, one of log-concave densities, or an unmixed one, on the same samples."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from joblib import Parallel, delayed
from scipy.special import entr

from tensorly_smp._support.checks import RandomState, checked_integer, checked_n_jobs, collected_warnings
from tensorly_smp._support.iteration import checked_verbose, progress_bar
from tensorly_smp.dependence.check import check_independence
from tensorly_smp.estimator import SmoothProductMixture
from tensorly_smp.selection import CandidateFit, Job, _fitted, _folds, _frame, _gaps, _read_job, fit_without
from tensorly_smp.unmixed import UnmixedProductMixture

#: The models, and what a component of each is.
MODELS: dict[str, tuple[Any, str]] = {
    "product": (SmoothProductMixture(), "variables are independent within components, of any smooth density"),
    "log-concave": (
        SmoothProductMixture(shape="log-concave"),
        "variables are independent within components, and every component is one heap",
    ),
    "unmixed": (UnmixedProductMixture(), "linear combinations of the variables are independent within components"),
}
#: Models whose components are one heap of samples each, which is what people mean by groups.
ONE_HEAP = ("log-concave", "unmixed")


def compare_models(
    X: Any,
    n_components: int,
    *,
    n_folds: int = 5,
    sample_weight: Any = None,
    n_jobs: int | None = None,
    random_state: RandomState = None,
    sample_dim: Hashable | None = None,
    verbose: int = 0,
) -> xr.Dataset:
    """Fit the three models of this package to the same samples, and say which to take for densities, which for groups.

    "product" is ``SmoothProductMixture()``; "log-concave" the same with ``shape="log-concave"``, so that every density
    of a component has one peak; "unmixed" is ``UnmixedProductMixture()``, for variables that depend on each other
    within groups. The likelihood prefers what describes the samples: of the first it may be a component of two groups,
    or a group in two components.

    Parameters
    ----------
    X : array_like, DataFrame, DataArray or Dataset (n_samples, n_variables)
        As for :meth:`SmoothProductMixture.fit`.
    n_components : int
        Of all models.
    n_folds : int, default 5
        Parts of the samples that are held out in turn, the same for all models.
    sample_weight : array_like (n_samples,), optional
        Whole numbers: a sample of weight 2 is two samples.
    n_jobs : int, optional
        Fits at a time, in processes; the result, seconds apart, does not depend on it.
    random_state : None, int, Generator or RandomState
        The seed of every fit is an int, this one or one drawn from it; it is ``attrs["random_state"]`` of the result.
    sample_dim : hashable, optional
        Dimension of the samples in xarray input.
    verbose : int, default 0
        1 shows a bar (extra ``progress``) of the fits, which are silent themselves.

    Returns
    -------
    Dataset
        Over the dimension ``model``: ``heldout_mean`` (log-density per sample, each when held out, nats) and its
        standard error ``heldout_error``; ``heldout_gap``, by which that is below the best, and ``heldout_gap_error``
        (from the same samples under both models); ``bic``; ``entropy`` (of the posteriors, per sample, nats: 0 where
        clusters are apart); ``n_dependent`` (pairs of variables, or sources, that :func:`check_independence` calls
        dependent within components); ``seconds`` (of all fits of the model); ``failure`` (why a model has no figures,
        which are NaN then: the unmixed model takes complete rows only, and two continuous variables at least).
        Attributes: ``for_densities`` and ``for_groups`` (names of models), ``advice`` (one sentence that says why),
        ``random_state``, ``n_samples``, ``n_components`` and ``n_folds``. As a table: ``.to_dataframe()``.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        Arguments that cannot be used. If all models fail, whatever the first one raised.
    MissingDependencyError
        A bar is asked for, and tqdm is not installed.

    Notes
    -----
    For densities it is the model with the highest held-out log-density; of those within a standard error of it, the one
    with the fewest effective parameters. For groups it is the same among the models whose components are one heap of
    samples each, "log-concave" and "unmixed" (docs/dependence.md has the figures behind it).

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> data = smp.datasets.make_smooth_mixture("gamma", 300, 4, 2, random_state=0)
    >>> table = smp.compare_models(data.X, 2, n_folds=2, random_state=0)
    >>> table.model.values.tolist()
    ['product', 'log-concave', 'unmixed']
    >>> table.attrs["for_groups"]
    'log-concave'
    """
    rank = checked_integer(n_components, "n_components", 1)
    verbose = checked_verbose(verbose)
    job = _read_job(X, sample_weight, sample_dim, random_state, SmoothProductMixture())
    folds = _folds(job, n_folds)
    jobs = [replace(job, estimator=estimator) for estimator, _ in MODELS.values()]
    with (
        progress_bar(verbose, "models", len(jobs) * (1 + len(folds)), unit="fit") as bar,
        Parallel(n_jobs=checked_n_jobs(n_jobs), prefer="processes", return_as="generator") as run,
    ):
        wholes: list[CandidateFit] = []
        n_dependent: list[float] = []
        for fit, number in run(delayed(_fit_of_all)(each, rank) for each in jobs):
            wholes.append(fit)
            n_dependent.append(number)
            bar.advance()
        tasks = [(k, fold) for k, fit in enumerate(wholes) if fit.error is None for fold in range(len(folds))]
        heldout: list[list[CandidateFit]] = [[] for _ in jobs]
        without = run(delayed(fit_without)(jobs[k], wholes[k], folds[fold], fold) for k, fold in tasks)
        for (k, _), fit in zip(tasks, without, strict=True):
            heldout[k].append(fit)
            bar.advance()
    if all(fit.error is not None for fit in wholes):
        raise next(fit.error for fit in wholes if fit.error is not None)
    dataset = _table(job, folds, wholes, heldout, n_dependent)
    return _with_advice(dataset, np.array([fit.n_parameters for fit in wholes])).assign_attrs(
        random_state=job.seed, n_samples=job.n_counted, n_components=rank, n_folds=len(folds)
    )


def _fit_of_all(job: Job, rank: int) -> tuple[CandidateFit, float]:
    """The fit of all samples, and how many pairs are dependent within its components."""
    fit, model = _fitted(job, rank, job.values, job.sample_weight, None)
    if model is None:
        return fit, np.nan
    X = _frame(job, job.values)
    fit.log_densities = np.asarray(model.score_samples(X))
    fit.entropy = float(job.weights @ entr(np.asarray(model.predict_proba(X))).sum(axis=1))
    fit.n_parameters = float(model.n_parameters_)
    fit.binning = model.binning_
    with collected_warnings():
        report = check_independence(model, X, sample_weight=job.sample_weight, random_state=job.seed)
    return fit, report.n_dependent


def _table(
    job: Job,
    folds: np.ndarray,
    wholes: Sequence[CandidateFit],
    heldout: Sequence[Sequence[CandidateFit]],
    n_dependent: Sequence[float],
) -> xr.Dataset:
    """The figures of all models; a fold that fails leaves a model without those of held-out samples."""
    weights = folds[folds > 0]
    fold_of, _ = np.nonzero(folds)
    held = np.full((len(wholes), len(weights)), np.nan)
    failure = [fit.failure for fit in wholes]
    seconds = [whole.seconds + sum(fit.seconds for fit in fits) for whole, fits in zip(wholes, heldout, strict=True)]
    for k, fit in ((k, fit) for k, fits in enumerate(heldout) for fit in fits):
        if fit.error is None:
            held[k, fold_of == fit.fold] = fit.log_densities
        else:
            failure[k] = failure[k] or f"Without fold {fit.fold}: {fit.failure}"
    total = weights.sum()
    mean = held @ weights / total
    likelihood = np.array([np.nan if fit.error else job.weights @ fit.log_densities for fit in wholes])
    n_parameters = np.array([fit.n_parameters for fit in wholes])
    gap, gap_error = _gaps(held, weights)
    figures = {
        "heldout_mean": (mean, "log-density per sample, each when held out", "nats"),
        "heldout_error": (np.sqrt((held - mean[:, None]) ** 2 @ weights) / total, "standard error of that", "nats"),
        "heldout_gap": (gap, "heldout_mean below that of the best model", "nats"),
        "heldout_gap_error": (gap_error, "standard error of heldout_gap, by differences of the same samples", "nats"),
        "bic": (-2.0 * likelihood + n_parameters * np.log(job.total_weight), "lower is better", ""),
        "entropy": (np.array([fit.entropy for fit in wholes]) / job.total_weight, "of posteriors, per sample", "nats"),
        "n_dependent": (np.array(n_dependent), "pairs that are dependent within components", ""),
        "seconds": (np.array(seconds), "time of the fits, added up", "s"),
        "failure": (np.array(failure), "why there are no figures", ""),
    }
    return xr.Dataset(
        {
            name: ("model", values, {"long_name": text} | ({"units": unit} if unit else {}))
            for name, (values, text, unit) in figures.items()
        },
        {"model": ("model", list(MODELS), {"long_name": "model of all samples"})},
    )


def _with_advice(dataset: xr.Dataset, n_parameters: np.ndarray) -> xr.Dataset:
    """The table with what to take, and one sentence that says why."""
    names = list(MODELS)
    mean = dataset["heldout_mean"].values
    if np.isnan(mean).all():
        return dataset.assign_attrs(
            for_densities="", for_groups="", advice="No model could be fitted without a fold: see failure."
        )
    gap = dataset["heldout_gap"].values
    error = dataset["heldout_gap_error"].values

    def chosen(candidates: Sequence[str]) -> str:
        """The simplest that is as good as the best of some models."""
        numbers = [names.index(name) for name in candidates if np.isfinite(mean[names.index(name)])]
        if not numbers:
            return ""
        best = min(gap[k] for k in numbers)
        return names[min((k for k in numbers if gap[k] - best <= error[k]), key=lambda k: n_parameters[k])]

    density = chosen(names)
    group = chosen(ONE_HEAP)
    others = ", ".join(f"{name} {-value:+.3g}" for name, value in zip(names, gap, strict=True) if value > 0)
    sentence = f"For densities take {density!r}: {MODELS[density][1]}, and held-out samples prefer it"
    sentence += f" (nats a sample: {others} to the best); " if others else "; "
    if not group:
        sentence += "no model whose components are one heap each could be fitted, so look at its components for groups."
    elif group == density:
        sentence += "for groups too, as its components are one heap of samples each."
    else:
        below = gap[names.index(group)]
        sentence += f"for groups take {group!r}, the best of those whose components are one heap of samples each"
        sentence += f", {below:.2g} nats a sample below." if below > 0 else "."
    return dataset.assign_attrs(for_densities=density, for_groups=group, advice=sentence)
