"""Choice of the model: a product mixture, one of log-concave densities, or an unmixed one, on the same samples."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from joblib import Parallel, delayed

from tensorly_smp._support.checks import RandomState, checked_integer, checked_n_jobs, collected_warnings
from tensorly_smp._support.iteration import checked_verbose, progress_bar
from tensorly_smp._support.representations import listed
from tensorly_smp.dependence.check import check_independence
from tensorly_smp.estimators.smooth_product import SmoothProductMixture
from tensorly_smp.estimators.unmixed import UnmixedProductMixture
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.selection.fits import (
    CandidateFit,
    Job,
    figures,
    fit_without,
    frame_of,
    judged,
    read_job,
    spread_over_folds,
)

#: The models, simple ones first, and what is said of them.
MODELS: dict[str, tuple[Any, str]] = {
    "product": (SmoothProductMixture(), "whose densities may have any shape"),
    "log-concave": (SmoothProductMixture(shape="log-concave"), "whose densities have one peak in every component"),
    "unmixed": (UnmixedProductMixture(), "in which linear combinations of the variables are independent"),
}
#: Figures of the comparison, in the order of the table.
COMPARED = (
    *("heldout_mean", "heldout_error", "heldout_gap", "heldout_gap_error"),
    *("bic", "entropy", "n_dependent", "seconds", "failure"),
)


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
        (from the same samples under both models); ``bic``; ``entropy`` (of the posteriors, summed over samples, nats:
        0 where clusters are apart); ``n_dependent`` (pairs of variables, or sources, that
        :func:`check_independence` calls dependent within components); ``seconds`` (of all fits of the model);
        ``failure`` (why a model has no figures, which are NaN then: the unmixed model takes complete rows only, and two
        continuous variables at least; what it leaves out, since others determine it, cannot be compared).
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
    with the fewest effective parameters. For groups it is the better of "log-concave" and "unmixed" by the same rule:
    what free densities gain in a product model is often a component of two groups (docs/dependence.md has figures).
    Where the unmixed model prefers a product of free densities itself, that stands for it.

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
    job = read_job(X, sample_weight, sample_dim, random_state, SmoothProductMixture())
    folds = spread_over_folds(job, n_folds)
    jobs = [replace(job, estimator=estimator) for estimator, _ in MODELS.values()]
    with (
        progress_bar(verbose, "models", len(jobs) * (1 + len(folds)), unit="fit") as bar,
        Parallel(n_jobs=checked_n_jobs(n_jobs), prefer="processes", return_as="generator") as run,
    ):
        wholes = []
        for whole in run(delayed(_fit_of_all)(each, rank) for each in jobs):
            wholes.append(whole)
            bar.advance()
        tasks = [(k, fold) for k, whole in enumerate(wholes) if whole.fit.error is None for fold in range(len(folds))]
        heldout: list[list[CandidateFit]] = [[] for _ in jobs]
        without = run(delayed(fit_without)(jobs[k], [wholes[k].fit], folds[fold], fold) for k, fold in tasks)
        for (k, _), fits in zip(tasks, without, strict=True):
            heldout[k] += fits
            bar.advance()
    models = xr.Variable("model", list(MODELS), {"long_name": "model of all samples"})
    dataset = figures(job, "cv", folds, [whole.fit for whole in wholes], heldout, models)
    if np.isnan(dataset["heldout_mean"]).all():
        fits = [fit for whole, some in zip(wholes, heldout, strict=True) for fit in (whole.fit, *some)]
        raise next(fit.error for fit in fits if fit.error is not None)
    note = {"long_name": "pairs that are dependent within components"}
    dataset = dataset.assign(n_dependent=("model", [float(whole.n_dependent) for whole in wholes], note))
    return _with_advice(dataset[list(COMPARED)], wholes).assign_attrs(
        random_state=job.seed, n_samples=job.n_counted, n_components=rank, n_folds=len(folds)
    )


class _Whole(NamedTuple):
    """The fit of all samples, how many pairs are dependent within components, and if it is a product that is free."""

    fit: CandidateFit
    n_dependent: float = np.nan
    is_free_product: bool = False


def _fit_of_all(job: Job, rank: int) -> _Whole:
    fit, model = judged(job, rank)
    if model is None:
        return _Whole(fit)
    if names := [model.density_.variables[n] for n in getattr(model.density_, "determined", ())]:
        reason = f"Others determine variable(s) {listed(names)}, which it leaves out; so do, to compare."
        return _Whole(CandidateFit(rank, fit.seconds, InvalidInputError(reason)))
    with collected_warnings():
        X = frame_of(job, job.values)
        report = check_independence(model, X, sample_weight=job.sample_weight, random_state=job.seed)
    is_free = "shape" not in model.result_.attrs
    return _Whole(fit, report.n_dependent, is_free and getattr(model, "is_product_", True))


def _with_advice(dataset: xr.Dataset, wholes: Sequence[_Whole]) -> xr.Dataset:
    """The table with what to take for densities, for groups, and one sentence that says why."""
    names = list(MODELS)
    n_parameters = [whole.fit.n_parameters for whole in wholes]
    gap = dataset["heldout_gap"].values
    error = dataset["heldout_gap_error"].values

    def chosen(*some: str) -> str:
        """The simplest that is as good as the best of some models."""
        numbers = [k for k, name in enumerate(names) if name in some and np.isfinite(gap[k])]
        best = min((gap[k] for k in numbers), default=0.0)
        good = [k for k in numbers if gap[k] - best <= error[k]]
        return names[min(good, key=lambda k: round(n_parameters[k]))] if good else ""

    density = chosen(*names[:-1] if wholes[-1].is_free_product else names)
    # Without continuous variables both product models are the same.
    is_same = np.array_equal(wholes[0].fit.log_densities, wholes[1].fit.log_densities)
    group = chosen("product" if is_same else "log-concave", "product" if wholes[-1].is_free_product else "unmixed")
    below = [f"{name!r} is {gap[k]:.2g}" for k, name in enumerate(names) if name != density and gap[k] >= 0.001]
    sentence = f"For densities take {density!r}, {MODELS[density][1]}" if density else "No model has figures"
    if below:
        sentence += f" (held out, {' and '.join(below)} nats a sample below the best)"
    if group == density:
        sentence += "; for groups take it too." if group else "."
    elif group:
        sentence += f"; for groups take {group!r}, {MODELS[group][1]}: of free densities a component may be two groups."
    if missing := [repr(name) for k, name in enumerate(names) if not np.isfinite(gap[k])]:
        sentence += f" Without figures: {', '.join(missing)}, `failure` says why."
    return dataset.assign_attrs(for_densities=density, for_groups=group, advice=sentence)
