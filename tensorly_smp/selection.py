"""Number of components: fits of several numbers, judged by an information criterion or by held-out samples."""

from __future__ import annotations

import time
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import tensorly as tl
import xarray as xr
from joblib import Parallel, delayed
from scipy.sparse.linalg import ArpackError
from scipy.special import entr
from sklearn.base import clone

from tensorly_smp._support.checks import (
    MOST_CANDIDATES,
    RandomState,
    checked_choice,
    checked_integer,
    checked_n_jobs,
    collected_warnings,
    is_integer,
    is_one_of,
    seed_sequence,
    warn,
)
from tensorly_smp._support.iteration import Bar, checked_verbose, logger, progress_bar
from tensorly_smp._support.parallel import one_blas_thread
from tensorly_smp._support.representations import shown
from tensorly_smp.codes.binning import Binning
from tensorly_smp.codes.encoding import encode_samples
from tensorly_smp.codes.values import MOST_ROWS, effective_size, evenly_weighted, merge_equal_rows
from tensorly_smp.estimator import SmoothProductMixture
from tensorly_smp.exceptions import (
    DependenceWarning,
    InvalidInputError,
    InvalidTypeError,
    RivalSolutionsWarning,
    SizeLimitError,
)
from tensorly_smp.factors.mixture_factors import empty_component_warning
from tensorly_smp.fitting.stages import convergence_warning
from tensorly_smp.identifiability.bounds import n_parameters
from tensorly_smp.initializers.coupled_gevd import n_above_noise, pair_singular_values
from tensorly_smp.likelihood.comparison import Candidate
from tensorly_smp.samples.codebook import ValueLabels, pandas_frame
from tensorly_smp.samples.reading import read_samples
from tensorly_smp.unmixed import UnmixedProductMixture


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


def fit_whole(job: Job, ranks: Sequence[int], near: Candidate | None = None) -> list[CandidateFit]:
    """Fits of all samples: of several numbers each helped by its neighbors, of one to its end, from `near` too."""
    if len(ranks) > 1 and (walked := _walked(job, ranks, job.values, job.sample_weight, job.values)):
        return walked
    return [judged(job, rank, near)[0] for rank in ranks]


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
        fits = _walked(of_fold, [whole.rank for whole in wholes], job.values[rows], weights, points)
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


def frame_of(job: Job, values: np.ndarray) -> pd.DataFrame:
    """Samples under the names of their variables: as objects, or pandas would take tuples for levels."""
    columns = pd.Index(job.variables, dtype=object, tupleize_cols=False)
    return pandas_frame(values, None, columns, [job.value_labels.get(name) for name in job.variables])


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


def _walked(
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
        issues = [
            *caught,
            convergence_warning(best.fit),
            empty_component_warning(density.weights, "Try fewer components."),
        ]
        fit.caught = [(type(each), str(each)) for each in issues if each is not None]
        fits.append(fit)
    return fits


CRITERIA = ("bic", "icl", "aic3", "cv")
#: Copies of samples, of integer weights, that are spread over folds, at most.
MOST_COPIES = 100_000_000


def select_n_components(
    X: Any,
    n_components: Collection[int] | int = range(1, 11),
    criterion: str = "bic",
    *,
    estimator: SmoothProductMixture | UnmixedProductMixture | None = None,
    n_folds: int = 5,
    sample_weight: Any = None,
    n_jobs: int | None = None,
    random_state: RandomState = None,
    sample_dim: Hashable | None = None,
    verbose: int = 0,
    **parameters: Any,
) -> xr.Dataset:
    """Fit mixtures with several numbers of components, and tell which number the samples support.

    All numbers are fitted to the same samples, with the same parameters and seed. With ``init="auto"`` and
    ``refine="smooth"`` fits help each other: a number starts from the best splits of the next smaller one and the best
    merges of the next larger one, which takes a fraction of the time of separate fits. The number that is chosen gets
    a search of its own, too, and a look at its rivals, as in a fit of this number alone. All criteria are on the scale
    of -2 log-likelihood, summed over samples: lower is better.

    Parameters
    ----------
    X : array_like, DataFrame, DataArray or Dataset (n_samples, n_variables)
        As for :meth:`SmoothProductMixture.fit`: at least three variables, NaN = missing.
    n_components : collection of int, or int, default range(1, 11)
        Numbers to compare, all different; an int n stands for 1, ..., n.
    criterion : {"bic", "icl", "aic3", "cv"}, default "bic"
        "bic", -2 log-likelihood + n_parameters log(n_samples), asks for the mixture that is the best description of the
        density. "icl", BIC with twice the entropy of the posteriors added, asks for clusters that are apart: two
        components that overlap may count as one. "aic3", -2 log-likelihood + 3 n_parameters, finds more of the
        components where there are only about a hundred samples for each; see Notes. "cv", -2 log-likelihood of samples
        that the fit has not seen, needs no count of parameters, but `n_folds` fits more for every number; see Notes.
        Its weights are whole numbers: every copy of a sample goes to a fold at random.
    estimator : SmoothProductMixture or UnmixedProductMixture, optional
        Unfitted; its ``n_components`` and ``random_state`` are not used.
    n_folds : int, default 5
        Parts of the samples that are held out in turn; for "cv".
    sample_weight : array_like (n_samples,), optional
        Counts: a sample of weight 2 is two samples, also in log(n_samples). Weights of another kind are to be scaled,
        so that they sum to the number of samples that they are worth.
    n_jobs : int, optional
        Fits at a time, in processes; the result, seconds apart, does not depend on it.
    random_state : None, int, Generator or RandomState
        The seed of every fit is an int, this one or one drawn from it; it is ``attrs["random_state"]`` of the result.
    sample_dim : hashable or tuple of hashable, optional
        Dimension of the samples in xarray input; by default that of the estimator.
    verbose : int, default 0
        1 shows a bar (extra ``progress``) of the fits, which are silent themselves.
    **parameters
        Of the estimator, by default :class:`SmoothProductMixture`, such as ``n_bins`` or ``support``.

    Returns
    -------
    Dataset
        Over the dimension ``n_components``, in increasing order: ``criterion`` (what decides), ``log_likelihood`` (of
        the fitted density at all samples, nats), ``n_parameters`` (effective number, from the smoothers), ``entropy``
        (of the posteriors, summed over samples, nats), ``bic``, ``icl``, ``aic3``, ``seconds`` (of all fits of that
        number), ``origin`` (of the start of the fit: "search", "split" of the next smaller number, "merge" of the next
        larger one, "move" if it was made of another solution of the same number, "gevd", "random", "given"; empty
        unless ``refine="smooth"``), ``failure`` (why there is no fit; figures are NaN then) and ``warnings`` (names of
        the classes).
        For "cv" also ``heldout_log_likelihood`` (n_components, fold), per sample, with ``heldout_mean`` over all
        samples, ``heldout_spread`` (standard deviation over folds), ``heldout_error`` (standard error of the mean),
        ``heldout_gap`` (to the best mean) and ``heldout_gap_error`` (standard error of that gap, from the same samples
        under both fits).

        Over the dimension ``order``: ``singular_values`` of the pair block, and ``shuffled_singular_values``, the
        largest of samples whose variables were shuffled against each other; see Notes.

        Attributes of plain types: ``best`` (the number chosen), ``criterion_name``, ``random_state``, ``n_samples``,
        ``total_weight``, ``n_above_noise``, and ``n_folds`` for "cv". Where `best` is the largest candidate, larger
        ones are worth trying. A picture: ``smp.plotting.plot_selection``.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        Arguments that cannot be used. If all fits fail, whatever the first one raised.
    MissingDependencyError
        A bar is asked for, and tqdm is not installed.

    Warns
    -----
    TensorlySmpWarning
        Every class of warning that fits have given once, with the numbers of components that it concerns. Of the fit
        with the best number only: a DependenceWarning, since groups that share a component are dependent in it, and a
        RivalSolutionsWarning, since with more components than groups other solutions are as good; where fits help each
        other, the others are not examined for either.

    Notes
    -----
    The number of parameters is, with ``refine="smooth"``, the trace of each smoother less one, summed over densities,
    and the free weights: a Gaussian counts 2 however many spline coefficients describe it. Otherwise it is the number
    of bin probabilities that are free, and the log-likelihood is that of the densities reconstructed from them, which
    is not maximal.

    "aic3" is Akaike's criterion with 3 in place of 2 (Bozdogan 1994), which finds the number of latent classes where
    BIC takes too few and Akaike's own too many (Andrews and Currim 2003).

    "cv" chooses the smallest number whose gap to the best is within one standard error: a component too many, of a few
    samples, changes the held-out log-likelihood by no more than chance.

    **Singular values.** The variables are parted into two sets and one left out, each variable is cut into six bins of
    equally many samples; the pair block holds the joint probabilities of a bin of the first set and one of the second,
    divided by the root of the product of their own. Without noise it has as many positive singular values as there are
    components (fewer where these depend on each other in a set), the first of them trivial. Noise adds small ones:
    values count if they exceed all those of shuffled samples beyond their trivial first, which is their number
    ``n_above_noise``. It needs no fit and tends to be too small, never decides, and says where to look.

    Measured by ``benchmarks/bench_selection.py``; five components, ten variables, 5000 samples, ten truths a case,
    candidates 3 to 7: five was chosen in all forty by "bic", in 39 by "icl" (four, once, of Laplace), and
    ``n_above_noise`` was five in 39. By "cv", two truths and candidates 4 to 6, in all eight; the largest mean alone
    would have been wrong once. With 1000 samples, five truths: in 19 of twenty by "bic" and by "icl", which take
    four or three for components of Laplace that overlap; ``n_above_noise`` is five in 11 then, and four in the others.

    References
    ----------
    G. Schwarz, "Estimating the dimension of a model", Annals of Statistics 6, 1978. C. Biernacki, G. Celeux, G.
    Govaert, "Assessing a mixture model for clustering with the integrated completed likelihood", IEEE TPAMI 22, 2000.
    H. Bozdogan, "Mixture-model cluster analysis using model selection criteria and a new informational measure of
    complexity", in Proceedings of the first US/Japan conference on the frontiers of statistical modeling, 1994. R. L.
    Andrews, I. S. Currim, "A comparison of segment retention criteria for finite mixture logit models", Journal of
    Marketing Research 40, 2003.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> X = smp.datasets.make_smooth_mixture("gaussian", 500, 4, 2, random_state=1).X
    >>> table = smp.select_n_components(X, range(1, 4), random_state=0)
    >>> table.attrs["best"]
    2
    >>> model = smp.SmoothProductMixture(
    ...     table.attrs["best"], random_state=table.attrs["random_state"]
    ... ).fit(X)
    >>> bool(abs(table.log_likelihood.sel(n_components=2) - model.score(X) * len(X)) < 1e-6)
    True
    """
    verbose = checked_verbose(verbose)
    began = time.perf_counter()
    candidates = _checked_candidates(n_components)
    checked_choice(criterion, "criterion", CRITERIA)
    checked_n_jobs(n_jobs)
    job = read_job(X, sample_weight, sample_dim, random_state, _with_parameters(estimator, parameters))
    folds = spread_over_folds(job, n_folds) if criterion == "cv" else None
    # Processes: of threads only those within NumPy or a kernel would run at a time.
    with (
        progress_bar(verbose, "selection", len(candidates), unit="fit") as bar,
        Parallel(n_jobs=n_jobs, prefer="processes", return_as="generator_unordered") as run,
    ):
        groups = _groups(job, candidates)
        fits = _in_order(run(delayed(fit_whole)(job, group) for group in groups), bar)
        heldout: list[CandidateFit] = []
        if folds is not None:
            good = {fit.rank: fit for fit in fits if fit.error is None}
            bar.extend(len(good) * len(folds))
            wholes = [[good[rank] for rank in group if rank in good] for group in groups]
            tasks = [(some, held_out, k) for some in wholes if some for k, held_out in enumerate(folds)]
            heldout = _in_order(run(delayed(fit_without)(job, *task) for task in tasks), bar)
        while True:
            of_ranks = [[fit for fit in heldout if fit.rank == whole.rank] for whole in fits]
            numbers = xr.Variable("n_components", [fit.rank for fit in fits], {"long_name": "number of components"})
            dataset = _decided(figures(job, criterion, folds, fits, of_ranks, numbers), [*fits, *heldout])
            best = next(fit for fit in fits if fit.rank == dataset.attrs["best"])
            if best.candidate is None:
                break
            (complete,) = fit_whole(job, [best.rank], best.candidate)  # with what is to be said of it
            complete.seconds += best.seconds
            fits[fits.index(best)] = complete
    _give_warnings(candidates, fits, heldout, dataset.attrs["best"])
    logger.info(
        "Selection: %d of %s components by %s; %d fits, %.2f s",
        *(dataset.attrs["best"], candidates, criterion, len(fits) + len(heldout), time.perf_counter() - began),
    )
    return _with_singular_values(dataset, job).assign_attrs(
        criterion_name=criterion,
        random_state=job.seed,
        n_samples=job.n_counted,
        total_weight=job.total_weight,
        **({} if folds is None else {"n_folds": n_folds}),
    )


# ---- what is asked ----


def _checked_candidates(n_components: Any) -> list[int]:
    if is_integer(n_components):
        n_components = range(1, checked_integer(n_components, "n_components", 1) + 1)
    is_scalar = isinstance(n_components, str | bytes | Mapping) or getattr(n_components, "ndim", 1) == 0
    if is_scalar or not isinstance(n_components, Collection):
        raise InvalidTypeError(
            f"n_components is {shown(n_components)}; expected an integer, or a collection of integers to compare, "
            "such as range(1, 11)."
        )
    if len(n_components) > MOST_CANDIDATES:
        raise SizeLimitError(f"n_components holds {len(n_components)} numbers; expected at most {MOST_CANDIDATES}.")
    candidates = sorted(checked_integer(number, "n_components", 1) for number in n_components)
    if not candidates:
        raise InvalidInputError("n_components is empty; expected numbers to compare, such as range(1, 11).")
    if repeated := sorted({a for a, b in pairwise(candidates) if a == b}):
        raise InvalidInputError(f"n_components holds {repeated} more than once; expected different numbers.")
    return candidates


def _with_parameters(estimator: Any, parameters: dict[str, Any]) -> Any:
    """The estimator, a clone, with these parameters."""
    if estimator is None:
        estimator = SmoothProductMixture()
    if not isinstance(estimator, SmoothProductMixture | UnmixedProductMixture):
        raise InvalidTypeError(
            f"estimator is {shown(estimator)}; expected an unfitted SmoothProductMixture or UnmixedProductMixture."
        )
    known = [name for name in estimator.get_params() if name not in ("n_components", "random_state")]
    if unknown := [name for name in parameters if name not in known]:
        raise InvalidTypeError(f"Unknown parameter(s) {unknown}; expected some of {known}.")
    return clone(estimator).set_params(**parameters)


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
    if not job.counted.any():
        raise InvalidInputError("All samples with a weight lack all entries (NaN); expected samples with entries.")
    if job.total_weight < 2:
        raise InvalidInputError(
            f"Samples that count, or their weights, sum to {job.total_weight:g}; expected at least 2. Scale weights to "
            "sum to the number of samples that they are worth."
        )
    return job


def _groups(job: Job, candidates: list[int]) -> list[list[int]]:
    """Numbers whose fits help each other: all that the samples allow if fits search, and no callback looks on."""
    model = job.estimator
    most = max(float(np.count_nonzero(job.counted)), job.total_weight)
    some: list[int] = []
    if (
        isinstance(model, SmoothProductMixture)
        and model.refine == "smooth"
        and is_one_of(model.init, ("auto",))
        and model.callback is None
    ):
        some = [rank for rank in candidates if rank <= most]
    # The largest number takes longest, so that it begins first.
    return [*([some] if some else []), *([rank] for rank in candidates[::-1] if rank not in some)]


def spread_over_folds(job: Job, n_folds: Any) -> np.ndarray:
    """Copies (n_folds, n_samples) of every sample that a fold holds out, drawn at random; folds are equally large."""
    n_folds = checked_integer(n_folds, "n_folds", 2)
    weights = job.weights
    if (broken := weights[weights != np.floor(weights)]).size:
        raise InvalidInputError(
            f"Samples are held out, and a sample_weight is {broken[0]:g}; expected whole numbers of samples, since "
            "copies of a sample are spread over the folds. Round the weights."
        )
    if job.total_weight > MOST_COPIES:
        raise SizeLimitError(
            f"{job.total_weight:.3g} samples are too many for folds; expected at most {MOST_COPIES:.0e}."
        )
    copies = np.repeat(np.arange(len(weights)), weights.astype(np.int64))
    if len(copies) < 2 * n_folds:
        raise InvalidInputError(
            f"{len(copies)} samples with entries and a positive weight are too few for {n_folds} folds; expected at "
            f"least {2 * n_folds}."
        )
    # A stream apart from those of the fits, which have the seed itself.
    rng = np.random.default_rng(np.random.SeedSequence(job.seed, spawn_key=(1,)))
    held_out = np.zeros((n_folds, len(weights)))
    np.add.at(held_out, (np.arange(len(copies)) % n_folds, rng.permutation(copies)), 1.0)
    return held_out


# ---- fits ----


def _in_order(groups: Iterable[Sequence[CandidateFit]], bar: Bar) -> list[CandidateFit]:
    """The fits, which come as they end, by their numbers of components and folds."""
    found: list[CandidateFit] = []
    for fits in groups:
        found += fits
        for fit in fits:
            bar.advance(n_components=fit.rank)
    return sorted(found, key=lambda fit: (fit.rank, fit.fold))


def _give_warnings(
    candidates: Sequence[int], fits: Sequence[CandidateFit], heldout: Sequence[CandidateFit], best: int
) -> None:
    """Each class of warning once, with the message of the smallest number that it concerns.

    In fewer components than there are groups variables depend on each other, of course, and of more components there
    are always rivals: both is said of the best number only.
    """
    messages: dict[type[Warning], dict[int, str]] = {}
    for fit in [*fits, *heldout]:
        for category, message in fit.caught:
            of_best = issubclass(category, DependenceWarning | RivalSolutionsWarning)
            if of_best and (fit.rank != best or fit.fold >= 0):
                continue
            messages.setdefault(category, {}).setdefault(fit.rank, message)
    for category, by_rank in messages.items():
        ranks = sorted(by_rank)
        numbers = ", ".join(map(str, ranks))
        where = "All fits" if ranks == list(candidates) and len(ranks) > 1 else f"n_components = {numbers}"
        warn(f"{where}: {by_rank[ranks[0]]}", category)


# ---- figures ----

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


def _decided(dataset: xr.Dataset, fits: Sequence[CandidateFit]) -> xr.Dataset:
    """The Dataset with the number chosen."""
    values = dataset["criterion"].values
    if np.isnan(values).all():
        raise next(fit.error for fit in fits if fit.error is not None)
    good = values == np.nanmin(values)
    if "heldout_gap" in dataset:
        good = dataset["heldout_gap"].values <= dataset["heldout_gap_error"].values
    return dataset.assign_attrs(best=int(dataset["n_components"].values[good][0]))


# ---- singular values ----


def _with_singular_values(dataset: xr.Dataset, job: Job) -> xr.Dataset:
    """The Dataset with singular values of the pair block, and the largest of shuffled samples."""
    weights = job.weights
    n_copies = int(min(effective_size(weights), max(MOST_ROWS, job.n_counted)))
    values = job.values[np.repeat(*evenly_weighted(weights, n_copies))]
    most = int(dataset["n_components"].values[-1]) + 3
    try:
        found, shuffled = pair_singular_values(values, most)
    except (np.linalg.LinAlgError, ArpackError):  # no reason to lose the fits
        found = np.full(most, np.nan)
        shuffled = np.full((1, most), np.nan)
    note = {"long_name": "singular values of the pair block; the first is trivial"}
    times = f"the largest of {len(shuffled)} shuffles" if len(shuffled) > 1 else "a shuffle"
    shuffled_note = {"long_name": f"the same of samples shuffled against each other; {times}"}
    dataset = dataset.assign(
        singular_values=("order", found, note),
        shuffled_singular_values=("order", shuffled.max(axis=0), shuffled_note),
    )
    dataset = dataset.assign_coords(order=np.arange(1, len(found) + 1))
    return dataset.assign_attrs(n_above_noise=n_above_noise(found, shuffled))
