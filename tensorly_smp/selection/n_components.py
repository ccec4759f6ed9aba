"""Number of components: fits of several numbers, judged by an information criterion or by held-out samples."""

from __future__ import annotations

import time
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from joblib import Parallel, delayed
from scipy.sparse.linalg import ArpackError
from sklearn.base import clone

from tensorly_smp._support.checks import (
    MOST_CANDIDATES,
    RandomState,
    checked_choice,
    checked_integer,
    checked_n_jobs,
    is_integer,
    is_one_of,
    warn,
)
from tensorly_smp._support.iteration import Bar, checked_verbose, logger, progress_bar
from tensorly_smp._support.representations import shown
from tensorly_smp.estimators.smooth_product import SmoothProductMixture
from tensorly_smp.estimators.unmixed import UnmixedProductMixture
from tensorly_smp.exceptions import (
    DependenceWarning,
    InvalidInputError,
    InvalidTypeError,
    RivalSolutionsWarning,
    SizeLimitError,
)
from tensorly_smp.initializers.coupled_gevd import n_above_noise, pair_singular_values
from tensorly_smp.likelihood.comparison import Candidate
from tensorly_smp.samples.values import MOST_ROWS, effective_size, evenly_weighted
from tensorly_smp.selection.fits import (
    CandidateFit,
    Job,
    figures,
    fit_without,
    judged,
    read_job,
    spread_over_folds,
    walked_fits,
)

CRITERIA = ("bic", "icl", "aic3", "cv")


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


def _checked_candidates(n_components: Any) -> list[int]:
    if is_integer(n_components):
        n_components = range(1, checked_integer(n_components, "n_components", 1) + 1)
    expected = f"; expected an integer, or 1 to {MOST_CANDIDATES} different integers to compare, such as range(1, 11)."
    is_scalar = isinstance(n_components, str | bytes | Mapping) or getattr(n_components, "ndim", 1) == 0
    if is_scalar or not isinstance(n_components, Collection):
        raise InvalidTypeError(f"n_components is {shown(n_components)}{expected}")
    if len(n_components) > MOST_CANDIDATES:
        raise SizeLimitError(f"n_components holds {len(n_components)} numbers; expected at most {MOST_CANDIDATES}.")
    candidates = sorted(checked_integer(number, "n_components", 1) for number in n_components)
    if not candidates or len(set(candidates)) < len(candidates):
        raise InvalidInputError(f"n_components is {shown(candidates)}{expected}")
    return candidates


def _with_parameters(estimator: Any, parameters: dict[str, Any]) -> Any:
    """The estimator, a clone, with these parameters."""
    if estimator is None:
        estimator = SmoothProductMixture()
    if not isinstance(estimator, SmoothProductMixture | UnmixedProductMixture):
        expected = "expected an unfitted SmoothProductMixture or UnmixedProductMixture"
        raise InvalidTypeError(f"estimator is {shown(estimator)}; {expected}.")
    known = [name for name in estimator.get_params() if name not in ("n_components", "random_state")]
    if unknown := [name for name in parameters if name not in known]:
        raise InvalidTypeError(f"Unknown parameter(s) {unknown}; expected some of {known}.")
    return clone(estimator).set_params(**parameters)


def _groups(job: Job, candidates: list[int]) -> list[list[int]]:
    """Numbers whose fits help each other: all that the samples allow if fits search, and no callback looks on."""
    model = job.estimator
    most = max(float(np.count_nonzero(job.counted)), job.total_weight)
    searches = isinstance(model, SmoothProductMixture) and model.refine == "smooth" and is_one_of(model.init, ("auto",))
    some = [rank for rank in candidates if searches and model.callback is None and rank <= most]
    # The largest number takes longest, so that it begins first.
    return [*([some] if some else []), *([rank] for rank in candidates[::-1] if rank not in some)]


def fit_whole(job: Job, ranks: Sequence[int], near: Candidate | None = None) -> list[CandidateFit]:
    """Fits of all samples: of several numbers each helped by its neighbors, of one to its end, from `near` too."""
    if len(ranks) > 1 and (walked := walked_fits(job, ranks, job.values, job.sample_weight, job.values)):
        return walked
    return [judged(job, rank, near)[0] for rank in ranks]


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


def _decided(dataset: xr.Dataset, fits: Sequence[CandidateFit]) -> xr.Dataset:
    """The Dataset with the number chosen."""
    values = dataset["criterion"].values
    if np.isnan(values).all():
        raise next(fit.error for fit in fits if fit.error is not None)
    good = values == np.nanmin(values)
    if "heldout_gap" in dataset:
        good = dataset["heldout_gap"].values <= dataset["heldout_gap_error"].values
    return dataset.assign_attrs(best=int(dataset["n_components"].values[good][0]))


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
    shuffled_note = {"long_name": f"the largest of {len(shuffled)} shuffles of the samples against each other"}
    contents = {
        "singular_values": ("order", found, note),
        "shuffled_singular_values": ("order", shuffled.max(axis=0), shuffled_note),
    }
    dataset = dataset.assign(contents).assign_coords(order=np.arange(1, len(found) + 1))
    return dataset.assign_attrs(n_above_noise=n_above_noise(found, shuffled))
