"""Methods of fitted models; everything comes from the Dataset, so that a loaded model is the saved one."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import xarray as xr
from sklearn.base import BaseEstimator, ClusterMixin, DensityMixin, clone
from sklearn.utils.validation import check_is_fitted

from tensorly_smp._support.checks import RandomState, checked_sample_weight, warn
from tensorly_smp._support.iteration import StopReason
from tensorly_smp._support.parallel import is_chunked
from tensorly_smp._support.representations import html_weights, joined, listed
from tensorly_smp._support.result_schema import check_result
from tensorly_smp.decomposition.solution import factors_from_dataset
from tensorly_smp.densities.conditionals import ConditionalDensities
from tensorly_smp.densities.reconstruct import reconstruct_density
from tensorly_smp.densities.smooth import spline_density
from tensorly_smp.estimators.lazy import LazySamples
from tensorly_smp.exceptions import InvalidInputError, UnitsWarning
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.fitting.results import fit_summary, n_rivals, rival_dataset
from tensorly_smp.identifiability.report import IdentifiabilityReport, check_identifiability
from tensorly_smp.samples.codebook import ATTRIBUTE, differing_units, from_json
from tensorly_smp.samples.labels import LABEL, LOG_DENSITY, POSTERIOR, aligned, default_names, labelled_samples
from tensorly_smp.samples.reading import Samples, present_dim, read_samples
from tensorly_smp.storage import described, save

if TYPE_CHECKING:
    from tensorly_smp.plotting.accessor import ModelPlots

#: In place of bins that the user has given: they are those of the Dataset.
_GIVEN = "given"


class FittedMixture(ClusterMixin, DensityMixin, BaseEstimator):
    """Base of the estimator: the methods that need a fitted mixture, and nothing of how it was fitted."""

    sample_dim: Hashable | None
    density_: Any  # a MixtureDensity, or one with its methods
    factors_: MixtureFactors
    labels_: Any
    _identifiability: IdentifiabilityReport | None = None
    #: Stages that write to the Dataset of this class only, see `result_schema`.
    _writers: tuple[str, ...] = ()
    _is_shown = False  # while scikit-learn lists the attributes

    @property
    def identifiability_(self) -> IdentifiabilityReport:
        """Report on the uniqueness of the fitted factors; computed when first asked for, up to seconds."""
        check_is_fitted(self)
        if self._is_shown:
            raise AttributeError("The report is not computed for a table of attributes.")
        if self._identifiability is None:
            self._identifiability = check_identifiability(self.result_)
        return self._identifiability

    @property
    def plot(self) -> ModelPlots:
        """Pictures of the fitted model (extra ``plot``): ``model.plot.conditionals(X)`` and others."""
        from tensorly_smp.plotting.accessor import ModelPlots

        check_is_fitted(self)
        return ModelPlots(self)

    def _stored_parameters(self) -> dict[str, Any]:
        """Constructor parameters for a file, without objects that only steer a fit."""
        parameters = self.get_params(deep=False)
        if not isinstance(parameters.get("binning", ""), str):
            parameters["binning"] = _GIVEN
        if not isinstance(parameters.get("init", ""), str):
            del parameters["init"]
        if not isinstance(parameters["random_state"], int | np.integer | None):
            del parameters["random_state"]
        parameters.pop("callback", None)
        return parameters

    @classmethod
    def _of_stored_parameters(cls, parameters: dict[str, Any]) -> Any:
        """The unfitted estimator with the parameters that a file holds."""
        return cls(**parameters)

    @classmethod
    def _from_dataset(cls, dataset: xr.Dataset, names: Sequence[Hashable], parameters: dict[str, Any]) -> Any:
        """The model of :meth:`to_dataset`; an error of any kind if there is none."""
        check_result(dataset, *cls._writers)
        model = cls._of_stored_parameters(parameters)
        model._set_fitted(dataset, names)
        if getattr(model, "binning", None) == _GIVEN:
            model.set_params(binning=model.binning_)
        middle = np.array([[float(centers[len(centers) // 2]) for centers in model.binning_.centers]])
        # Densities of rivals that are made of bins are not made here, as they may warn.
        for k in range(n_rivals(dataset)):
            factors_from_dataset(rival_dataset(dataset, k))
        n_smooth = n_rivals(dataset) if "spline" in dataset else 0
        for fitted in (model, *map(model.rivals, range(n_smooth))):
            if not np.isfinite(fitted.density_.logpdf(middle)).all():
                raise ValueError("a density is not finite")
        return model

    def _set_fitted(
        self,
        dataset: xr.Dataset,
        variables: Sequence[Hashable],
        smooth_conditionals: Mapping[int, ConditionalDensities] | None = None,
    ) -> None:
        """Everything that a fitted model has, from its Dataset alone, so that load repeats fit to the last bit.

        Smooth densities that have been tabulated from the Dataset already need not be again.
        """
        factors = factors_from_dataset(dataset, variables)
        if factors.binning is None:
            raise InvalidInputError("The Dataset has no bin edges, so it is not of a fitted model.")
        # Not self.density: the parameters of a fitted model may have been set to something else since.
        method = dataset.attrs["density"]
        if method == "logspline":
            density = spline_density(dataset, factors, smooth_conditionals)
        else:
            density = reconstruct_density(factors, method=method)
        labels = from_json(dataset.attrs.get(ATTRIBUTE), factors.binning.variables)
        self.density_ = replace(density, container=str(dataset.attrs["container"]), value_labels=labels)
        self.result_ = dataset
        self._identifiability = None
        self.__dict__.pop("labels_", None)  # of the fit before
        self.factors_ = factors
        self.binning_ = factors.binning
        self.weights_ = factors.weights
        n_sweeps = int(dataset.attrs["n_sweeps"])
        self.n_iter_ = int(dataset.attrs.get("n_passes", n_sweeps))
        self.converged_ = StopReason[dataset.attrs["status"].upper()].is_converged
        self.n_features_in_ = factors.n_variables
        names = factors.binning.variables
        if names != default_names(len(names)) and all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def predict(self, X: Any) -> Any:
        """Most probable component of every sample.

        Parameters
        ----------
        X : array_like, DataFrame, DataArray or Dataset (n_samples, n_variables)
            Labelled variables are matched by name; missing entries are integrated out. Text and categories are read by
            the labels of the fit; another label is an error. A dask array or DataFrame, or a
            DataArray of the former, stays lazy, here and in the other methods: so does what is returned.

        Returns
        -------
        ndarray, Series or DataArray of int (n_samples,)
            A Series and a DataArray are named "label".
        """
        if is_chunked(X):
            return self._lazy(X).clusters()
        samples = self._read(X)
        labels = self.density_.posterior(samples.values).argmax(axis=1)
        return samples.labels.wrap(labels, LABEL)

    def fit_predict(self, X: Any, y: object = None, **fit_params: Any) -> Any:
        """Fit, and the most probable component of every sample, labelled like X (n_samples,)."""
        return self.fit(X, y, **fit_params).predict(X)

    def predict_proba(self, X: Any) -> Any:
        """Posterior probability of every component, (n_samples, n_components), rows sum to one.

        A DataArray is named "posterior", so that ``xarray.merge([X, model.predict(X), model.predict_proba(X)])`` puts
        the answers beside the samples of a Dataset.
        """
        if is_chunked(X):
            return self._lazy(X).posterior()
        samples = self._read(X)
        return samples.labels.wrap(self.density_.posterior(samples.values), POSTERIOR)

    def score_samples(self, X: Any) -> Any:
        """Logarithm of the density at every sample, (n_samples,); the density integrates to one.

        It is with respect to the Lebesgue measure of the continuous and the counting measure of the discrete variables,
        so that log-likelihoods, :meth:`bic` and :meth:`aic` are those of latent class software. A value that a discrete
        variable did not have in the fit adds -708.4, the logarithm of the smallest normal float.
        """
        if is_chunked(X):
            return self._lazy(X).log_densities()
        samples = self._read(X)
        return samples.labels.wrap(self.density_.logpdf(samples.values), LOG_DENSITY)

    def score(self, X: Any, y: object = None, sample_weight: Any = None) -> float:
        """Mean log-likelihood per sample, in nats; a sample of weight 2 counts twice."""
        likelihood, total = self._log_likelihood(X, sample_weight)
        return likelihood / total

    @property
    def n_parameters_(self) -> float:
        """Effective number of parameters: of smooth densities that of their smoothers, else bins that are not empty.

        Free entries of an unmixing matrix are added.
        """
        check_is_fitted(self)
        known = self.result_.attrs.get("n_parameters")
        if known is not None:
            return float(known)
        filled = sum(int((factor > 0).any(axis=1).sum()) - 1 for factor in self.factors_.factors)
        return float(self.factors_.rank * filled + self.factors_.rank - 1)

    def aic(self, X: Any, sample_weight: Any = None) -> float:
        """Akaike's criterion of samples, -2 log-likelihood + 2 `n_parameters_`, in nats; lower is better."""
        return -2.0 * self._log_likelihood(X, sample_weight)[0] + 2.0 * self.n_parameters_

    def bic(self, X: Any, sample_weight: Any = None) -> float:
        """Schwarz's criterion of samples, -2 log-likelihood + `n_parameters_` log(n_samples); lower is better.

        Samples without any entry do not count.
        """
        likelihood, _ = self._log_likelihood(X, sample_weight)
        if is_chunked(X):
            counted = np.asarray(self._lazy(X).have_entries())
            weights = checked_sample_weight(sample_weight, len(counted))
        else:
            samples = self._read(X)
            counted = ~np.isnan(samples.values).all(axis=1)
            weights = samples.aligned_weights(sample_weight)
        total = counted.sum() if weights is None else weights[counted].sum()
        return -2.0 * likelihood + float(np.log(total)) * self.n_parameters_

    def _log_likelihood(self, X: Any, sample_weight: Any) -> tuple[float, float]:
        """Log-likelihood of samples, and their number."""
        scores = self.score_samples(X)
        log_densities = np.ravel(scores)  # of samples along several dimensions, too
        weights = checked_sample_weight(aligned(sample_weight, scores), len(log_densities))
        if weights is None:
            return float(log_densities.sum()), float(len(log_densities))
        return float(weights @ log_densities), float(weights.sum())

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> tuple[Any, Any]:
        """Draw samples and the components they come from.

        A smooth density reaches a little beyond the samples of the fit: rain that is drawn may be negative, unless
        ``support={"rain": (0, None)}`` of the estimator bounds it.

        Parameters
        ----------
        n_samples : int
        random_state : None, int, Generator or RandomState

        Returns
        -------
        X : ndarray, DataFrame or DataArray (n_samples, n_variables)
            Of the kind that the model was fitted to; a DataArray (sample, variable) after a Dataset too. Discrete
            variables take values that they had in the fit, see `result_.categories`; text and categories too.
        components : ndarray, Series or DataArray of int (n_samples,)
        """
        check_is_fitted(self)
        X, components = self.density_.sample(n_samples, random_state)
        container = str(self.result_.attrs["container"])
        return labelled_samples(X, components, self.binning_.variables, container, self.density_.value_labels)

    def impute(self, X: Any, method: str = "mean", random_state: RandomState = None) -> Any:
        """Fill missing entries in, by their mean given the observed ones or by a draw; an object like X.

        Draws of discrete variables are values that these had in the fit. A mean of numbers, also of zeros and ones,
        may lie between the values, where the probability is zero: take ``method="draw"`` for values of the list. Text
        and categories have no mean, and get the most probable value. Booleans come back as numbers.
        """
        if is_chunked(X):
            return self._lazy(X).imputed(method, random_state)
        samples = self._read(X)
        return samples.labels.wrap_variables(self.density_.impute(samples.values, method, random_state))

    def rivals(self, k: int = 0) -> Self:
        """Return another solution that may be as good as this one, as a fitted model.

        Beside the best solution, a fit keeps others whose clusters differ from it (adjusted Rand index below 0.9) and
        whose criterion, log-likelihood less the effective number of parameters, is no more than 3 nats lower, or 1.96
        standard deviations of the difference: samples leave open which of the two is nearer to the truth (Vuong). It
        gives a :class:`~tensorly_smp.exceptions.RivalSolutionsWarning` then. How near they are, and how their clusters
        overlap, is in ``result_``, by the dimension ``rival``.

        Candidates are the other optima of the search (with ``refine=None`` or ``"em"`` the other starts), and, with
        ``refine="smooth"``, models in which a pair of components is one, for which another component is two: where two
        components differ in one variable only, these have the same density.

        Parameters
        ----------
        k : int, default 0
            Number of the rival; 0 is the one with the highest criterion.

        Returns
        -------
        model of the same class
            Without ``labels_``, and without rivals of its own. Its components are not sorted by their weights: each has
            the number of the component of this model that it shares most samples with, as far as each is given once.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            There is no such rival.

        References
        ----------
        Q. H. Vuong, "Likelihood ratio tests for model selection and non-nested hypotheses", Econometrica 57, 1989.

        Examples
        --------
        >>> import warnings
        >>> import numpy as np
        >>> import tensorly_smp as smp
        >>> centers = np.array(
        ...     [[0, 0, 0, 0, 0], [0, 0, 7, 0, 0], [6, 5, 3, 4, 5]]
        ... )  # two differ in one variable
        >>> groups = np.arange(600) % 3
        >>> X = np.random.default_rng(2).normal(size=(600, 5)) + centers[groups]
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", smp.exceptions.RivalSolutionsWarning)
        ...     model = smp.SmoothProductMixture(3, random_state=0).fit(X)
        >>> others = [model.rivals(k) for k in model.result_.rival.values]
        >>> right = [
        ...     smp.metrics.clustering_accuracy(groups, each.predict(X)) > 0.99
        ...     for each in (model, *others)
        ... ]
        >>> right[0], any(right)
        (False, True)
        """
        check_is_fitted(self)
        rival = clone(self)
        rival._set_fitted(rival_dataset(self.result_, k), self.binning_.variables)
        return rival

    def bootstrap(
        self,
        X: Any,
        n_replicates: int = 100,
        *,
        method: str = "rows",
        sample_weight: Any = None,
        n_points: int = 50,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> xr.Dataset:
        """Say how far weights and densities would move with other samples: replicates of the fit, by the bootstrap.

        Every replicate is fitted from where this fit ended, and its components are put in the order of those that they
        share most samples with. Bins or cells, and with ``refine="smooth"`` the knots and the coordinates of the
        splines, are held; penalties are chosen once more, within a factor of ten. The number of components is held, and
        so is the solution: a replicate does not go looking for another one, see :meth:`rivals`. An unmixing matrix is
        held, too, and replicates are of its sources, under the names of the variables that they are nearest to.

        Parameters
        ----------
        X : array_like, DataFrame, DataArray or Dataset (n_samples, n_variables)
            The samples of the fit, in any order of the rows, container or precision. Another number of samples, or
            other variables, are refused.
        n_replicates : int, default 100
        method : {"rows", "parametric"}, default "rows"
            "rows" draws rows of X with replacement, which keep their pattern of missing entries. "parametric" draws
            samples of the fitted density, as many, with the same entries missing.
        sample_weight : array_like (n_samples,), optional
            Those of the fit, numbers of samples: rows are drawn in proportion, as often as the weights sum to.
        n_points : int, default 50
            Points of every variable at which distribution functions and densities are kept.
        n_jobs : int, optional
            Replicates at a time; the result does not depend on it.
        random_state : None, int, Generator or RandomState
            Every replicate has its own stream, so that the first are the same however many there are.

        Returns
        -------
        Dataset
            ``weights`` (replicate, component), ``mean`` (replicate, variable, component), ``cdf`` and ``density``
            (replicate, variable, point, component) at ``x`` (variable, point). Points of a discrete variable are its
            values (of text and categories codes, see `result_`), and NaN after the last of them. Of the fit itself
            ``fit_weights`` and so on. ``agreement`` (replicate): adjusted Rand index of the clusters with those of the
            fit; ``switched`` and ``converged`` (replicate). The attribute ``n_switched`` counts replicates whose
            components had changed places.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            Samples in chunks; another number of samples, or other variables, than in the fit; parameters that cannot be
            used.
        SizeLimitError
            Replicates of more than 4 GB, or of too many samples.
        KeyboardInterrupt
            Before any replicate is complete.

        Warns
        -----
        ConvergenceWarning
            The keyboard interrupted: the result holds the replicates that were complete.
        IdentifiabilityWarning
            The likelihood is next to flat, so that intervals may be too small.

        Notes
        -----
        ``result.quantile([0.025, 0.975], "replicate")`` are percentile intervals of 95 %. They say how far samples move
        the fit, not how far it lies from the truth: smooth densities are lower at peaks and higher in valleys than the
        truth, by an amount that no interval around them covers (docs/uncertainty.md).

        References
        ----------
        B. Efron, R. J. Tibshirani, "An introduction to the bootstrap", Chapman and Hall, 1993.

        Examples
        --------
        >>> import tensorly_smp as smp
        >>> data = smp.datasets.make_smooth_mixture("gaussian", 500, 4, 2, random_state=0)
        >>> model = smp.SmoothProductMixture(2, random_state=0).fit(data.X)
        >>> replicates = model.bootstrap(data.X, 20, random_state=0)
        >>> replicates.weights.dims, replicates.density.dims
        (('replicate', 'component'), ('replicate', 'variable', 'point', 'component'))
        >>> low, high = replicates.weights.quantile([0.025, 0.975], "replicate").values
        >>> bool((low < model.weights_).all() and (model.weights_ < high).all())
        True
        """
        check_is_fitted(self)
        if is_chunked(X):
            raise InvalidInputError("X is in chunks (dask); expected samples in memory. Pass X.compute().")
        samples = self._read(X)
        weights = samples.aligned_weights(sample_weight)
        return self._replicates(samples.values, weights, n_replicates, method, n_points, n_jobs, random_state)

    def to_dataset(self) -> xr.Dataset:
        """Everything that the model is, as a Dataset; :func:`tensorly_smp.load` makes the model again.

        It is ``result_`` with the parameters and the names of the variables as attributes (JSON). Whatever keeps a
        Dataset keeps the model: ``model.to_dataset().to_zarr(path)``, and ``smp.load(xarray.open_zarr(path))``.
        Parameters that only steer a fit and are objects (`callback`, `init` if it is factors, `random_state` if it is a
        generator) are left out: a loaded model has their defaults.

        Raises
        ------
        InvalidInputError
            A parameter, or the name of a variable, is neither text, number nor time, nor made of these.
        """
        check_is_fitted(self)
        return described(self.result_, type(self), self.binning_.variables, self._stored_parameters())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a netCDF file, for :func:`tensorly_smp.load`.

        The file is netCDF-3, whatever its name, and any program that reads netCDF reads it. It is loaded again before
        it is written, and takes its place in one step.

        Raises
        ------
        InvalidInputError
            The model holds what a file cannot hold, or its ``result_`` was changed so that it is no longer that of a
            fit.
        OSError
            The folder does not exist, or cannot be written to, or the disk is full. What was there is left as it was.
        """
        save(self.to_dataset(), path)

    def _read(self, X: Any) -> Samples:
        """Samples in the order of the fit's variables."""
        check_is_fitted(self)
        self._check_width(X, self.binning_.variables)
        self._check_units(X)
        here = present_dim(X, self.sample_dim)
        return read_samples(X, self.binning_.variables, here, self.density_.value_labels)

    @abstractmethod
    def _replicates(self, values: np.ndarray, weights: np.ndarray | None, *options: Any) -> xr.Dataset:
        """Replicates of the fit to `values` (n_samples, n_variables), for :meth:`bootstrap`."""

    def _check_width(self, X: Any, variables: Sequence[Hashable]) -> None:
        """Refuse a bare array of another number of columns; in scikit-learn's words, and which variables they are."""
        if isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] != len(variables):
            words = f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {len(variables)} features"
            raise InvalidInputError(f"{words} as input: {listed(variables)}, in this order.")

    def _check_units(self, X: Any) -> None:
        """Warn where samples say that they are in other units than those of the fit."""
        if differing := differing_units(X, self.result_, self.binning_.variables):
            advice = "Numbers are taken as they are; convert them to the units of the fit, or correct the attribute."
            words = f"Samples are in other units than those of the fit: variable(s) {joined(differing)}."
            warn(f"{words} {advice}", UnitsWarning)

    def _lazy(self, X: Any) -> LazySamples:
        """Chunked samples, not computed yet."""
        check_is_fitted(self)
        self._check_units(X)
        here = present_dim(X, self.sample_dim)
        return LazySamples.of(X, self.density_, here)

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        """scikit-learn's table of all attributes, for which it gets each of them: not the one that takes seconds."""
        self._is_shown = self._identifiability is None
        try:
            return super()._get_fitted_attr_html(doc_link)
        finally:
            self.__dict__.pop("_is_shown", None)  # another thread may have been first

    def _repr_html_inner(self) -> str:
        """scikit-learn's diagram, and below it what came out of the fit."""
        diagram = super()._repr_html_inner()
        if not self.__sklearn_is_fitted__():
            return diagram
        pairs = [(word, text) for word, text in fit_summary(self.result_) if word != "components"]
        return f"{diagram}{html_weights('Fit', pairs, self.result_['weights'].values)}"

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle = super()._repr_mimebundle_(**kwargs)
        return bundle | {"text/html": self._repr_html_inner()} if "text/html" in bundle else bundle

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "density_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
