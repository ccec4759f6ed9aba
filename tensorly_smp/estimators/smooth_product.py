"""The whole way, samples to densities, as one scikit-learn estimator."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import xarray as xr
from sklearn.utils.metaestimators import available_if

from tensorly_smp._support.checks import (
    RandomState,
    checked_callback,
    checked_choice,
    checked_integer,
    checked_n_jobs,
    checked_real,
    is_one_of,
    warn,
    weights_warning,
)
from tensorly_smp._support.iteration import checked_verbose, dask_progress, logger
from tensorly_smp._support.parallel import is_chunked
from tensorly_smp._support.representations import listed, shown
from tensorly_smp.codes.binning import Binning
from tensorly_smp.decomposition.solution import solution_to_dataset
from tensorly_smp.decomposition.solver import coupled_simplex_parafac
from tensorly_smp.densities.mixture_density import MixtureDensity
from tensorly_smp.densities.smooth import background_share, fine_probabilities, smooth_conditionals
from tensorly_smp.dependence.pairs import dependence_warning
from tensorly_smp.estimators.fitted import FittedMixture
from tensorly_smp.exceptions import IdentifiabilityWarning, InvalidInputError, InvalidTypeError
from tensorly_smp.factors.blocks import LOSSES
from tensorly_smp.factors.mixture_factors import MixtureFactors, empty_component_warning
from tensorly_smp.factors.sweeps import Callback
from tensorly_smp.fitting.fit_samples import FitSamples, ReadSamples, Variables, choose_bins, repeated_value_warning
from tensorly_smp.fitting.results import rivals_warning, with_patterns, with_value_labels
from tensorly_smp.fitting.stages import Decomposition, Refinement
from tensorly_smp.fitting.walk import walk
from tensorly_smp.identifiability.bounds import KnownMarginals
from tensorly_smp.identifiability.likeness import identifiability_issues
from tensorly_smp.likelihood.comparison import Candidate
from tensorly_smp.marginals.histograms import MAX_BYTES, Marginals, fitting_triples
from tensorly_smp.samples.codebook import ATTRIBUTE, units_of, with_units
from tensorly_smp.samples.reading import NO_LABELS
from tensorly_smp.samples.values import effective_weights, merge_equal_rows
from tensorly_smp.splines.basis import SHAPES
from tensorly_smp.storage import storable
from tensorly_smp.uncertainty.bootstrap import Refit, run_bootstrap

CHOICES: dict[str, tuple[str | None, ...]] = {
    "loss": ("auto", *LOSSES),
    "refine": ("smooth", "em", None),
    "density": ("auto", "logspline", "sinc", "histogram"),
    "penalty": ("reml", "aic", "bic"),
    "shape": SHAPES,
}


def _is_streamable(model: SmoothProductMixture) -> bool:
    """Tell scikit-learn whether the model has ``partial_fit``; the error says why not, where it has not."""
    if model.refine is not None:
        advice = "a refinement needs all samples, at once or as a dask array, and a stream keeps histograms only"
        raise InvalidInputError(f"partial_fit with refine={model.refine!r}; expected refine=None: {advice}.")
    return True


@storable
class SmoothProductMixture(FittedMixture):
    """Mixture of smooth product distributions, f(x) = sum_r w_r prod_n f_n(x_n | r).

    Nothing is assumed about the shape of the conditional densities but smoothness. Variables are cut into bins, the
    histograms of all variable triples are factorized jointly, and the factors become continuous densities (Kargas &
    Sidiropoulos, AISTATS 2019); by default the likelihood of the samples then refines these. Samples may be incomplete:
    NaN, None, pandas NA and masked entries are missing.

    Parameters
    ----------
    n_components : int, default 2
        Number of mixture components, R.
    n_bins : int, sequence of int or mapping by variable name, default 15
        Bins per variable. Fewer bins need fewer samples; more bins follow narrower densities. With ``refine="smooth"``
        little depends on it; else choose it as in the paper, by validated likelihood:
        ``GridSearchCV(model, {"n_bins": [5, 10]})``.
    binning : {"uniform", "quantile"} or Binning, default "uniform"
        How bins are chosen, or the bins. "sinc" needs uniform ones. Against far outliers, with `refine` None or "em":
        ``choose_binning(X, coverage=0.99)``. ``refine="smooth"`` needs none: bins are for the starts only, and far
        values or long tails do not stretch them (uniform ones span the central 98 %, or are quantiles).
    triples : "all", int or list of (j, k, l), default "all"
        Histograms that are counted: all, this many random ones, or these.
    loss : {"auto", "kl", "frobenius"}, default "auto"
        "auto" is "kl" as long as the histograms have at most two million cells, else "frobenius", which does without
        histograms where they would be larger still.
    init : {"auto", "gevd", "random"} or MixtureFactors, default "auto"
        "auto" searches the samples for the best start (split-and-merge EM on a coarse model, see docs/refinement.md);
        without samples, in ``partial_fit``, it means "gevd". "gevd" starts the coupled decomposition from algebra
        (:func:`gevd_start`), every fourth start at random; "random" starts it at random. Factors go straight to the
        refinement. The paper's algorithm is ``refine=None`` with "gevd" or "random".
    n_init : int or "auto", default "auto"
        Independent starts; the best fit is kept. With the search "auto" is one, or two with fewer than 100 samples a
        component of fewer than 20 variables; a second one ends higher at times, and more never end lower with the same
        seed. Otherwise it is five, and one for more than a hundred variables.
    refine : {"smooth", "em"} or None, default "smooth"
        None is the paper's algorithm: the coupled CPD is the result. "em" goes on from there to the maximum likelihood
        of the binned samples (:func:`refine_em`). "smooth" goes on from the start by smoothed EM: penalized likelihood
        with log-spline densities in place of histograms, so that neither the width of the bins nor ringing limits them.
        After a search there are no coupled sweeps then, and `loss` and `triples` have no part in the fit. The splines
        are of the variable, or of a coordinate that draws its far values in, whichever describes it with fewer
        parameters.
    density : {"auto", "logspline", "sinc", "histogram"}, default "auto"
        How factors become densities; "auto" is "logspline" with ``refine="smooth"``, which that needs, else "sinc".
    penalty : {"reml", "aic", "bic"}, default "reml"
        How ``refine="smooth"`` chooses the smoothness of every density.
    shape : {None, "log-concave"}, default None
        Shape of the densities of a component. None is any. "log-concave" gives every density of every component one
        peak, and tails that fall at least exponentially in the coordinate of its splines, so that a component is one
        group of samples rather than two at once. Discrete variables are exempt. With ``refine="smooth"`` only.
    support : mapping by variable name, optional
        Bounds of variables, such as ``{"price": (0, None)}``, for densities that may end there with a cliff. Without
        them :meth:`sample` may draw values beyond. With ``refine="smooth"`` only.
    discrete : sequence of names, or mapping from names to values, optional
        Variables that have a probability for each of their values, those in the samples of the fit, and no density. By
        default those with few distinct values, see ``result_.discrete``, unless bins are given and `refine` is None or
        "em". A mapping such as ``{"grade": [1, 2, 3]}``, or a `Binning`, lists the values, which may be more than the
        samples have.
    max_iter : int, default 1000
        Sweeps per start, and passes of the refinement.
    tol : float, default 1e-6
        Relative decrease of the loss per sweep below which a start has converged; and gain per pass of EM, in nats
        per sample, ten times that for smoothed EM.
    n_jobs : int, optional
        Starts at a time; the result does not depend on it.
    random_state : None, int, Generator or RandomState
    callback : callable, optional
        ``callback(cp_tensor, loss)`` before every sweep, and with ``refine="smooth"`` before every pass, with
        histograms on the bins and minus the penalized log-likelihood per sample; returning True stops the start, and
        there is no refinement then. Neither is there one after a keyboard interrupt of the sweeps. After an interrupt,
        of the sweeps or of the refinement, fit returns what it has so far, and ``result_.attrs["status"]`` says so.
    sample_dim : hashable or tuple of hashable, optional
        Dimension of the samples in xarray input. Of several, such as ``("time", "station")``, every combination is a
        sample, and answers have these dimensions. Where it is not given and neither names nor coordinates tell, fit
        raises.
    verbose : int, default 0
        1 shows bars (extra ``progress``) of the starts, of the sweeps' and of the refinement's; 2 also of sweeps and
        passes. Messages of every stage, with sizes and seconds, go to the logger "tensorly_smp", level INFO, in any
        case.

    Attributes
    ----------
    result_ : xarray.Dataset
        weights (component), factors (variable, bin, component), edges (variable, edge), n_bins (variable), discrete
        (variable) and the values of discrete variables (categories: variable, bin), of which `factors` are the
        probabilities; loss, change and seconds (sweep), start_loss and start_status (start), start_trace (start,
        start_sweep), the loss of each; for searches a sweep is a round, and the loss minus their objective; triples
        (triple, mode) unless all were factorized; patterns (pattern, variable) of entries observed together where no
        sample is complete; units (variable) where X has any; attributes of plain types, total_weight among them if
        samples have weights. Values of text and categories are codes 0, 1, ...; the attribute value_labels has their
        labels (JSON: for every variable null, or its kind and labels). Components are sorted by decreasing weight. With
        ``refine="smooth"`` also the splines of the log densities, their penalties, the log-likelihood (em_pass) and of
        every candidate (candidate) the criterion by which they were compared (start_criterion), the agreement of its
        clusters with the best (candidate_agreement) and how it was found (candidate_origin); weights and factors are
        the refined ones. If there are rivals (rival), see :meth:`rivals`: their criterion less that of this solution
        and its standard deviation (rival_criterion, rival_deviation), a sentence about the difference
        (rival_description), number among the candidates, agreement and overlap of clusters (rival_candidate,
        rival_agreement, rival_overlap), weights (rival_weights) and all that makes the model.
    density_ : MixtureDensity
    factors_ : MixtureFactors
    binning_ : Binning
    weights_ : ndarray (n_components,)
    identifiability_ : IdentifiabilityReport
        Whether the fitted factors are unique, computed when first asked for.
    labels_ : ndarray of int (n_samples,)
        Most probable component of every sample of the fit; a dask array after a fit to samples in chunks.
    marginals_ : Marginals
        After ``partial_fit`` only: histograms of all chunks so far.
    n_iter_ : int
        Passes of the refinement, or sweeps with ``refine=None``.
    converged_ : bool
    n_features_in_ : int
    feature_names_in_ : ndarray of str (n_features,)
        Only where the variables have names that are strings, other than the default ones "x0", "x1", ...

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> data = smp.datasets.make_smooth_mixture(
    ...     "gaussian", n_samples=1000, n_components=3, random_state=0
    ... )
    >>> model = smp.SmoothProductMixture(n_components=3, random_state=0).fit(data.X)
    >>> bool(smp.metrics.clustering_accuracy(data.labels, model.predict(data.X)) > 0.99)
    True
    >>> model.result_.factors.dims
    ('variable', 'bin', 'component')
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_bins: int | Sequence[int] | Mapping[Any, int] = 15,
        binning: str | Binning = "uniform",
        triples: str | int | Iterable[Sequence[int]] = "all",
        loss: str = "auto",
        init: str | MixtureFactors = "auto",
        n_init: int | str = "auto",
        refine: str | None = "smooth",
        density: str = "auto",
        penalty: str = "reml",
        shape: str | None = None,
        support: Mapping[Any, tuple[float | None, float | None]] | None = None,
        discrete: Sequence[Hashable] | Mapping[Hashable, Sequence[float]] | None = None,
        max_iter: int = 1000,
        tol: float = 1e-6,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        callback: Callback | None = None,
        sample_dim: Hashable | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_bins = n_bins
        self.binning = binning
        self.triples = triples
        self.loss = loss
        self.init = init
        self.n_init = n_init
        self.refine = refine
        self.density = density
        self.penalty = penalty
        self.shape = shape
        self.support = support
        self.discrete = discrete
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback
        self.sample_dim = sample_dim
        self.verbose = verbose

    def fit(self, X: Any, y: object = None, sample_weight: Any = None) -> Self:
        """Learn the mixture from samples.

        Parameters
        ----------
        X : array_like, DataFrame, DataArray or Dataset (n_samples, n_variables)
            At least three variables. Columns of text or categories (of at most 100 values, and half as many as rows)
            are discrete variables. A dask array or DataFrame, or a DataArray of the former (extra ``dask``), is
            fitted chunk by chunk: see docs/scaling.md. Of more than 100 000 samples, evenly spaced ones and the
            extremes are what bins, cells and algebraic starts are chosen by.
        y : ignored
        sample_weight : array_like (n_samples,), optional
            Non-negative; a sample of weight 2 counts twice, one of weight 0 not at all. They are numbers of samples:
            weights that sum to one stand for a single one, of which nothing can be learned. Patterns with counts are
            the same samples as the repeated rows: equal rows are merged and their weights added before anything else,
            so that the fit, its warnings and its bootstrap are the same.

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError, InvalidTypeError
            Samples or parameters that cannot be used; the message says what was expected.

        Warns
        -----
        IdentifiabilityWarning
            More components than the numbers of variables and bins allow, variables that no histogram links, or two
            components that are nearly equal in all but at most two variables: by the log-spline densities with
            ``refine="smooth"``, else by the bins.
        EmptyComponentWarning
            A component has next to no weight.
        ConvergenceWarning
            `max_iter` was reached first.
        RivalSolutionsWarning
            Other solutions, with other clusters, that may be as good; see :meth:`rivals`.
        SampleWeightWarning
            Weights that do not look like numbers of samples.
        DependenceWarning
            Variables depend on each other within components, grossly: see :func:`check_independence`.
        RepeatedValueWarning, OutlierWarning, ClippedMassWarning
            A value that many samples share, or some far from all others (``refine="smooth"``); otherwise far values
            that leave a few bins to the others, and bins too wide, or of too few samples, for sinc densities.
        """
        return self._fit(X, sample_weight)

    def _fit(
        self,
        X: Any,
        sample_weight: Any,
        searched: Sequence[Sequence[Candidate]] | None = None,
        near: Candidate | None = None,
    ) -> Self:
        """The fit; `searched` and `near` as for :class:`tensorly_smp.fitting.stages.Refinement`."""
        self._check_parameters()
        verbose = checked_verbose(self.verbose)
        began = time.perf_counter()
        data, variables, samples = self._encoded(X, sample_weight, verbose)
        binning = samples.binning
        missing = np.isnan(data.subsample.values)
        refinement = Refinement(self.refine, self.penalty, self.shape, self._decomposition(verbose), searched, near)
        dataset, smooth_conditionals = refinement.result(samples, variables)
        weight = {} if sample_weight is None else {"total_weight": data.total_weight}
        dataset = dataset.assign_attrs(n_samples=data.n_samples, container=data.container, **weight, **self._recorded())
        dataset = with_value_labels(dataset, data.subsample)
        dataset = with_patterns(with_units(dataset, X, binning.variables), ~missing)
        self._set_fitted(dataset, binning.variables, smooth_conditionals)
        if self.refine == "smooth" and (empty := empty_component_warning(self.weights_, "Try fewer components.")):
            warn(empty)
        self.labels_, posterior = data.clusters(self.density_)
        self.__dict__.pop("marginals_", None)  # those of a stream end here
        seconds = time.perf_counter() - began
        logger.info("Fit: %d components, %s densities; %.2f s", self.n_components, self._density_name(), seconds)
        self._warn_if_not_unique()
        if rivals := rivals_warning(dataset, binning.variables):
            warn(rivals)
        some = data.subsample.values, self.density_ if posterior is None else posterior, data.subsample_weights
        if dependent := dependence_warning(*some, variables.discrete, binning.variables):
            warn(dependent)
        return self

    def _walk(
        self, X: Any, sample_weight: Any, ranks: Sequence[int]
    ) -> tuple[Binning, dict[int, tuple[Candidate, MixtureDensity]]]:
        """Fits of several numbers of components, and their densities; see :func:`tensorly_smp.fitting.walk.walk`."""
        self._check_parameters()
        _, variables, samples = self._encoded(X, sample_weight, 0)
        refinement = Refinement(self.refine, self.penalty, self.shape, self._decomposition(0))
        ends = np.array(variables.support, dtype=float)  # None is NaN
        bounds = np.where(np.isnan(ends), (-np.inf, np.inf), ends).tolist()
        found = {}
        for rank, best in walk(samples, variables, ranks, refinement).items():
            mixture = best.fit.mixture
            weights = np.exp(mixture.log_weights)
            share = background_share(weights * best.fit.total_weight)
            conditionals = smooth_conditionals(best.fit.cells, mixture, share, bounds)
            found[rank] = best, MixtureDensity(weights / weights.sum(), conditionals, samples.binning.variables)
        return samples.binning, found

    def _encoded(self, X: Any, sample_weight: Any, verbose: int) -> tuple[ReadSamples, Variables, FitSamples]:
        """The samples of a fit: read, with what is known of their variables, and in bins."""
        data = self._training_data(X, sample_weight, verbose)
        variables = Variables.of(
            data.subsample,
            self.support,
            self.discrete,
            data.subsample_weights,
            binning=self.binning,
            # Bins of the user that are fitted themselves stay as they are.
            detects=self.refine == "smooth" or not isinstance(self.binning, Binning),
            distinct_values=data.distinct_values,
        )
        binning = self._chosen_binning(data, variables, self._density_name())
        with dask_progress(verbose if is_chunked(X) else 0, "encoding samples"):
            samples = data.encode(binning)
        logger.info(
            "Samples: %d, of %d variables in %d to %d bins; %.3g %% of the entries missing",
            *(data.n_samples, binning.n_variables, min(binning.n_bins), max(binning.n_bins)),
            100.0 * np.isnan(data.subsample.values).mean(),
        )
        return data, variables, samples

    def _training_data(self, X: Any, sample_weight: Any, verbose: int) -> ReadSamples:
        """The samples of a fit, read and checked."""
        # Columns are matched to the variables of the user's bins; without these, bins are of the columns as they come.
        names = self.binning.variables if isinstance(self.binning, Binning) else None
        with dask_progress(verbose if is_chunked(X) else 0, "reading samples"):
            data = ReadSamples.of(X, sample_weight, names, self.sample_dim, None)
        n_variables = len(data.variables)
        if n_variables < 3:
            reason = "the joint histograms of fewer variables leave the factors undetermined"
            raise InvalidInputError(f"X has {n_variables} feature(s); expected at least three, because {reason}.")
        checked_integer(n_variables, "n_variables")
        weights = effective_weights(data.subsample.values, data.subsample_weights)
        n_useful = max(int(np.count_nonzero(weights)), int(weights.sum()))
        if self.n_components > n_useful > 0:
            words = f"{self.n_components} components with {n_useful} samples"
            raise InvalidInputError(f"{words}; expected at most one component per sample.")
        if weighted := weights_warning(data.subsample_weights, data.total_weight):
            warn(weighted)
        return data

    def _chosen_binning(self, data: ReadSamples, variables: Variables, density: str) -> Binning:
        """Bins of the samples, with warnings about those that suit no start or no density."""
        subsample = data.subsample
        weights = data.subsample_weights
        is_start = self.refine == "smooth"
        given = subsample, weights, variables, self.n_bins, self.binning
        binning = choose_bins(*given, is_start=is_start, must_be_uniform=density == "sinc")
        if is_start and (repeated := repeated_value_warning(subsample, variables.discrete, weights)):
            warn(repeated)
        if density == "sinc":
            binning.require_uniform()
        is_counted = is_one_of(self.init, ("gevd", "random")) or is_one_of(self.triples, ("all",))
        if self.refine == "smooth" and not is_counted:
            # These starts count no triples, but what is asked for is wrong all the same.
            fitting_triples(self.triples, binning.n_bins, 0, MAX_BYTES)
        return binning

    @available_if(_is_streamable)
    def partial_fit(self, X: Any, y: object = None, sample_weight: Any = None) -> Self:
        """Learn from one more chunk of samples; for streams, with ``refine=None``.

        The histograms of all chunks are kept, as ``marginals_``, and added up; the samples are not. After every chunk
        the model is fitted to the sum, from new starts, so that it does not depend on the order of the chunks (with an
        integer `random_state`, and bins that are given: otherwise the first chunk decides). To fit once, after the last
        of many chunks, add ``count_marginals`` of them up, and pass the sum to :func:`coupled_simplex_parafac`.

        Parameters
        ----------
        X : array_like, DataFrame, DataArray or Dataset (n_samples, n_variables)
            The first chunk decides on the bins, unless ``binning`` gives them: values of later ones that lie beyond are
            in the outermost bins. So the first chunk had better be a large one, or the bins be given. Variables are
            those of the first chunk; labelled ones are matched by name.
        y : ignored
        sample_weight : array_like (n_samples,), optional
            As for :meth:`fit`.

        Returns
        -------
        self
            Without ``labels_``.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            As :meth:`fit`; or where the chunks so far are too few for a fit, which counts them
            all the same; or `discrete` names variables whose values `binning` does not list, as one chunk may lack
            some of them.
        AttributeError
            With another `refine` the model has no ``partial_fit``.

        Examples
        --------
        >>> import tensorly_smp as smp
        >>> X = smp.datasets.make_smooth_mixture(
        ...     "gaussian", 2000, n_components=3, random_state=0
        ... ).X
        >>> binning = smp.choose_binning(X, range=(-15, 15))
        >>> model = smp.SmoothProductMixture(3, binning=binning, refine=None, random_state=0)
        >>> for chunk in (X[:1000], X[1000:]):
        ...     model = model.partial_fit(chunk)
        >>> model.marginals_.n_samples
        2000
        """
        self._check_parameters()
        verbose = checked_verbose(self.verbose)
        before: Marginals | None = getattr(self, "marginals_", None)
        known = self.binning if before is None else before.binning
        if before is not None:
            self._check_width(X, before.binning.variables)
        names = known.variables if isinstance(known, Binning) else None
        data = ReadSamples.of(X, sample_weight, names, self.sample_dim, NO_LABELS)
        binning = choose_bins(data.subsample, data.subsample_weights, None, self.n_bins, known)
        if unlisted := [name for name in self.discrete or () if name not in binning.values]:
            advice = f"expected Binning(..., values={{{shown(unlisted[0])}: [0, 1]}}), because a chunk may lack some"
            raise InvalidInputError(f"discrete names {listed(unlisted)}, whose values the bins do not list; {advice}.")
        if self._density_name() == "sinc":
            binning.require_uniform()
        if before is None:
            triples = fitting_triples(self.triples, binning.n_bins, self.random_state, MAX_BYTES)
            self.marginals_ = data.count(binning, triples)
        else:
            self.marginals_ = before + data.count(binning, before.triples)
        settings = self._decomposition(verbose).settings(binning.n_bins)
        solution = coupled_simplex_parafac(self.marginals_, self.n_components, **settings)
        dataset = solution_to_dataset(replace(solution, factors=solution.factors.to_numpy().sort())).assign_attrs(
            n_samples=self.marginals_.n_samples, container=data.container, **self._recorded()
        )
        # Units of earlier chunks, where this one has none.
        has_units = before is None or any(units_of(X, binning.variables))
        dataset = with_units(dataset, X if has_units else getattr(self, "result_", None), binning.variables)
        self._set_fitted(dataset, binning.variables)
        self._warn_if_not_unique()
        return self

    def _warn_if_not_unique(self) -> None:
        result = self.result_
        n = self.factors_.n_variables
        known = KnownMarginals.of_triples(n, result["triples"].values if "triples" in result else None)
        if self.refine is not None:
            known = KnownMarginals.of_samples(n, result["patterns"].values if "patterns" in result else None)
        if issues := identifiability_issues(self.factors_, known, fine_probabilities(result, self.factors_)):
            warn(" ".join(issues), IdentifiabilityWarning)

    def _replicates(self, values: np.ndarray, weights: np.ndarray | None, *options: Any) -> xr.Dataset:
        """Replicates of the fit to `values` (n_samples, n_variables), options as of :func:`run_bootstrap`."""
        if len(values) != (n_fitted := int(self.result_.attrs["n_samples"])):
            raise InvalidInputError(f"X has {len(values)} samples; expected the {n_fitted} of the fit.")
        values, weights = merge_equal_rows(values, weights)
        weights = np.ones(len(values)) if weights is None else weights
        dataset = run_bootstrap(self._refit(values), self.density_, values, weights, *options)
        kept = {name: text for name, text in self.result_.attrs.items() if name == ATTRIBUTE}
        return dataset.assign_coords(variable=self.result_["variable"].values).assign_attrs(method=options[1], **kept)

    def _refit(self, values: np.ndarray) -> Refit:
        """The fit of a replicate, given the samples of this one."""
        return Refit.of_fit(self.result_, self.factors_, values, self._decomposition(0))

    def _recorded(self) -> dict[str, Any]:
        """Parameters that made the model, or that a replicate needs, by the names of attributes of the Dataset."""
        shape = {} if self.shape is None else {"shape": self.shape}
        kinds = {"density": self._density_name(), "refine": str(self.refine).lower(), **shape}
        return {**kinds, "penalty_criterion": self.penalty, "max_iter": int(self.max_iter), "tol": float(self.tol)}

    def _decomposition(self, verbose: int) -> Decomposition:
        own = ("triples", "loss", "init", "n_init", "max_iter", "tol", "n_jobs", "random_state", "callback")
        options = {name: getattr(self, name) for name in own}
        return Decomposition(rank=self.n_components, is_start=self.refine == "smooth", verbose=verbose, **options)

    def _density_name(self) -> str:
        if self.density == "auto":
            return "logspline" if self.refine == "smooth" else "sinc"
        return self.density

    def _check_parameters(self) -> None:
        """Refuse what no later stage would, or only after the work is done."""
        if not isinstance(self.binning, str | Binning):
            kind = type(self.binning).__name__
            raise InvalidTypeError(f'binning is {kind}; expected "uniform", "quantile" or a Binning.')
        for name, choices in CHOICES.items():
            checked_choice(getattr(self, name), name, choices)
        of_smooth = [name for name in ("support", "shape") if getattr(self, name) is not None]
        of_smooth += ['density="logspline"'] * (self.density == "logspline")
        if of_smooth and self.refine != "smooth":
            raise InvalidInputError(f'{of_smooth[0]} with refine={shown(self.refine)}; expected refine="smooth".')
        checked_callback(self.callback, "a CPTensor and a loss")
        if not is_one_of(self.n_init, ("auto",)):
            checked_integer(self.n_init, "n_init", 1)
        # The solver checks these too, but knows them by other names.
        for name, least in (("n_components", 1), ("max_iter", 0)):
            checked_integer(getattr(self, name), name, least)
        checked_real(self.tol, "tol", 0.0, 1.0)
        checked_n_jobs(self.n_jobs)
