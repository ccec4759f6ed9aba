"""Mixtures whose variables depend on each other within components: one linear map for all makes them independent."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import xarray as xr
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from tensorly_smp._support.checks import RandomState, checked_integer, checked_real, spawn_generators, warn
from tensorly_smp._support.iteration import checked_verbose, logger
from tensorly_smp._support.result_schema import result_values
from tensorly_smp.densities.conditionals import ConditionalDensities
from tensorly_smp.dependence.pairs import dependence_warning
from tensorly_smp.estimators.fitted import FittedMixture
from tensorly_smp.estimators.smooth_product import SmoothProductMixture
from tensorly_smp.exceptions import ConvergenceWarning, InvalidInputError, InvalidTypeError
from tensorly_smp.fitting.results import with_value_labels
from tensorly_smp.samples.codebook import with_units
from tensorly_smp.samples.labels import labelled
from tensorly_smp.storage import storable
from tensorly_smp.unmixing.density import UnmixedDensity
from tensorly_smp.unmixing.fit import SamplesToUnmix, fit_unmixing, without_unmixing

if TYPE_CHECKING:
    from tensorly_smp.plotting.accessor import UnmixedPlots


@storable
class UnmixedProductMixture(FittedMixture):
    """Mixture of smooth product distributions of linear combinations of the variables: z = W x, with one W for all.

    Where variables depend on each other within the components, a product mixture needs several components for one
    group, or merges groups. Here the sources z = W x are independent within every component, with densities of any
    smooth shape, f(x) = abs(det W) sum_r w_r prod_n f_n((W x)_n | r): covariances differ between components only in the
    variances of the sources. W has N (N - 1) free entries, a full Gaussian mixture R N (N - 1) / 2 correlations.

    Parameters
    ----------
    n_components : int, default 2
        Number of mixture components, R.
    mixture : SmoothProductMixture, optional
        Unfitted; how the product mixture of the sources is fitted. It is cloned, and gets `n_components`. Only
        ``refine="smooth"``; bins, factors to start from and supports are refused where they are of variables that are
        mixed. Parameters of one that is given can be set as ``mixture__penalty`` and so on. Its `shape` is that of the
        densities of the sources: None for free ones, "log-concave" for one peak each, "auto" (the default without a
        `mixture`) for those that the data prefer, see the notes.
    max_iter : int, default 500
        Passes of EM with one choice of penalties.
    tol : float, default 1e-3
        Gain of another choice of penalties, and passes with it, in nats per sample, below which the search has ended.
    random_state : None, int, Generator or RandomState
        Of the fit to the sources. The search for W draws its starts by a fixed stream: another seed gives the same W.
    sample_dim : hashable or tuple of hashable, optional
        Dimension of the samples in xarray input. Of several, such as ``("time", "station")``, every combination is a
        sample, and answers have these dimensions. Where it is not given and neither names nor coordinates tell, fit
        raises.
    verbose : int, default 0
        1 shows a bar of the starts; stages go to the logger "tensorly_smp" in any case.

    Attributes
    ----------
    unmixing_ : xarray.DataArray (source, variable)
        W, of the variables that are mixed: neither constant nor discrete, nor determined by others. Every source has
        unit standard deviation in the samples of the fit, is named after the variable that it is nearest to (by their
        correlation within components, no name twice) and grows with it.
    mixing_ : xarray.DataArray (variable, source)
        The inverse of `unmixing_`.
    mixture_ : SmoothProductMixture
        Fitted to the sources; variables that are not mixed are among these. Its `shape` says which one was chosen.
    is_product_ : bool
        True if a product mixture of the variables themselves is preferred; W is diagonal then. By Akaike's criterion
        for small samples with N (N - 1) more parameters for W; with fewer than two samples for every parameter, by BIC.
    density_ : UnmixedDensity
        Density of the variables: joint density, posterior and samples are exact, densities of one variable numeric.
    result_ : xarray.Dataset
        That of `mixture_`, with unmixing (source, variable) and mixing (variable, source) of all variables, mixed
        (variable), unmixing_log_likelihood (alternation), per sample after every pass, and unmixing_start_criterion
        (unmixing_start).
    identifiability_ : IdentifiabilityReport
        Uniqueness of the mixture of the sources.
    labels_ : ndarray of int (n_samples,)
    n_iter_ : int
        Passes of EM from the best start.
    converged_ : bool

    Notes
    -----
    Four starts go on with free densities: of many mixtures with semi-tied covariances A D_r A', of Gaussian and of
    Student distributions, with a prior by which no component is narrow for a few samples (Fraley and Raftery 2007), the
    one whose clusters the likeliest agree on; the clusters of a product mixture; the matrix of a semi-tied mixture of
    more components than wanted; and independent components (Hyvarinen 1999). A pass of EM is an E-step, a quasi-Newton
    step of W and a Newton step of the densities; penalties are chosen anew between rounds of passes. For few samples W
    is shrunk towards a diagonal matrix.

    The likelihood alone does not choose the groups: a component of few samples may raise it, and a source with two
    peaks describes two groups as well as two components do, which are then free to follow something else. So the result
    has the matrix and the groups of this Gaussian or Student mixture, unless another solution is clearly better: unless
    its log-likelihood less effective parameters is higher by some standard deviations of the difference (Vuong 1989).
    They are 2.5 for a matrix that has moved from there, 5 for the matrix of another start, 2.5 for the groups of that
    start too, and, with ``shape="auto"``, 2.5 for log-concave densities, one peak each, in place of free ones. The
    criterion of free densities decides for or against W. A product mixture of the variables themselves has free
    densities.

    With Gaussian sources, W is determined only by how the variances of the sources differ between components; where
    they do not, any W that decorrelates them is as good, and so are its clusters. Every row must be complete in the
    variables that are mixed.

    Numbers with more than five values that a product mixture takes for discrete, such as scores and ages, are mixed if
    they are multiples of a step and complete. They are spread evenly over the step in the fit; their values have the
    probabilities of the intervals of this width, so that likelihoods compare with those of a product mixture, where
    they are discrete. Variables that others determine, such as sums and percentages that add to 100, are left out of W
    with a warning; samples have them, and they can be imputed.

    References
    ----------
    M. J. F. Gales, "Semi-tied covariance matrices for hidden Markov models", IEEE Transactions on Speech and Audio
    Processing 7, 1999. C. Fraley, A. E. Raftery, "Bayesian regularization for normal mixture estimation and model-based
    clustering", Journal of Classification 24, 2007. A. Hyvarinen, "Fast and robust fixed-point algorithms for
    independent component analysis", IEEE Transactions on Neural Networks 10, 1999. X. Zhu, D. R. Hunter, "Clustering
    via finite nonparametric ICA mixture models", Advances in Data Analysis and Classification 13, 2019. Q. H. Vuong,
    "Likelihood ratio tests for model selection and non-nested hypotheses", Econometrica 57, 1989.

    Examples
    --------
    Groups that are long and narrow, along a direction that is no variable's:

    >>> import warnings
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> data = smp.datasets.make_smooth_mixture("gmm", 2000, 3, 2, random_state=0)
    >>> X = data.X @ np.array([[1.0, 0.9, 0.2], [0.1, 1.0, 0.8], [0.5, 0.3, 1.0]])
    >>> model = smp.UnmixedProductMixture(2, random_state=0).fit(X)
    >>> model.unmixing_.dims, model.is_product_
    (('source', 'variable'), False)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter(
    ...         "ignore", smp.exceptions.DependenceWarning
    ...     )  # which advises this estimator
    ...     product = smp.SmoothProductMixture(2, random_state=0).fit(X)
    >>> bool(model.score(X) > product.score(X) + 0.2)
    True
    """

    _writers = ("unmixing",)

    def _stored_parameters(self) -> dict[str, Any]:
        parameters = super()._stored_parameters()
        return parameters | {"mixture": None if self.mixture is None else self.mixture._stored_parameters()}

    @classmethod
    def _of_stored_parameters(cls, parameters: dict[str, Any]) -> UnmixedProductMixture:
        if parameters["mixture"] is not None:
            parameters = parameters | {"mixture": SmoothProductMixture._of_stored_parameters(parameters["mixture"])}
        return cls(**parameters)

    def __init__(
        self,
        n_components: int = 2,
        *,
        mixture: SmoothProductMixture | None = None,
        max_iter: int = 500,
        tol: float = 1e-3,
        random_state: RandomState = None,
        sample_dim: Hashable | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.mixture = mixture
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.sample_dim = sample_dim
        self.verbose = verbose

    def fit(self, X: Any, y: object = None, sample_weight: Any = None) -> Self:
        """Learn the map and the mixture of the sources from samples.

        Parameters
        ----------
        X : array_like, DataFrame, DataArray or Dataset (n_samples, n_variables)
            At least three variables, two of them neither constant nor discrete, and these complete.
        y : ignored
        sample_weight : array_like (n_samples,), optional
            A sample of weight 2 counts twice.

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError, InvalidTypeError
            Missing entries, samples in chunks, too few variables that can be mixed, parameters that cannot be used.

        Warns
        -----
        ConstantVariableWarning
            A variable is constant, or others determine it.
        ConvergenceWarning
            `max_iter` was reached first.
        DependenceWarning
            Sources depend on each other within components: the dependence is not linear, or differs between components.
        TensorlySmpWarning
            Whatever else the fit of the sources gives.
        """
        verbose = checked_verbose(self.verbose)
        began = time.perf_counter()
        mixture = self._checked_mixture()
        tol = checked_real(self.tol, "tol", 0.0, 1.0)
        max_iter = checked_integer(self.max_iter, "max_iter", 1)
        (rng,) = spawn_generators(self.random_state, 1)
        data = SamplesToUnmix.read(X, sample_weight, self.sample_dim, mixture)
        if mixture.random_state is None:
            mixture.set_params(random_state=int(rng.integers(2**31)))
        model, dataset = fit_unmixing(data, mixture, max_iter, tol, verbose)
        if not dataset.attrs["unmixing_converged"]:
            words = f"The search for the unmixing matrix stopped after {max_iter} pass(es) with one choice of penalties"
            warn(f"{words}; raise max_iter.", ConvergenceWarning)
        dataset = dataset.assign_attrs(container=data.samples.labels.container)
        dataset = with_value_labels(with_units(dataset, X, data.samples.variables), data.samples)
        self._set_fitted(dataset, data.samples.variables)
        # With the labels of values, which its samples did not have.
        self.mixture_ = model
        self.mixture_.result_ = with_value_labels(model.result_, data.samples)
        self.mixture_.density_ = replace(model.density_, value_labels=data.samples.value_labels)
        self.labels_ = self.density_.posterior(data.samples.values).argmax(axis=1)
        density = self.density_
        sources = density.to_sources(data.rows)
        discrete = [density.variables.index(name) for name in model.binning_.values]
        of_sources = density.sources, data.weights, discrete, density.variables
        if dependent := dependence_warning(sources, *of_sources, are_sources=True):
            warn(dependent)
        logger.info(
            "Unmixing: %d of %d variables, start %r, %d passes; %.2f s",
            *(len(density.mixed), len(density.variables), dataset.attrs["unmixing_start_name"], self.n_iter_ - 1),
            time.perf_counter() - began,
        )
        return self

    def unmix(self, X: Any) -> Any:
        """Sources of samples, and the variables that are not mixed, as an object like X (n_samples, n_variables)."""
        samples = self._read(X)
        return samples.labels.wrap_variables(self.density_.to_sources(samples.values))

    @property
    def plot(self) -> UnmixedPlots:
        """Pictures of the sources, and of the map: ``model.plot.conditionals(X)``, ``model.plot.unmixing()``, ..."""
        from tensorly_smp.plotting.accessor import UnmixedPlots

        check_is_fitted(self)
        return UnmixedPlots(self)

    def _set_fitted(
        self,
        dataset: xr.Dataset,
        variables: Sequence[Hashable],
        smooth_conditionals: Mapping[int, ConditionalDensities] | None = None,
    ) -> None:
        super()._set_fitted(dataset, variables, smooth_conditionals)
        tabulated = dict(enumerate(self.density_.conditionals))
        matrix = result_values(dataset, "unmixing")
        mixed = tuple(np.flatnonzero(dataset["mixed"].values).tolist())
        if matrix.shape != (len(variables),) * 2 or not np.isfinite(matrix).all():
            raise InvalidInputError("The unmixing matrix of the Dataset is out of shape or range.")
        names = [variables[n] for n in mixed]
        block = np.ix_(mixed, mixed)
        sides = {"source": names, "variable": names}
        self.unmixing_ = labelled(matrix[block], sides, "dataarray", "source_variable")
        sides = {"variable": names, "source": names}
        self.mixing_ = labelled(np.linalg.inv(matrix[block]), sides, "dataarray", "variable_source")
        self.is_product_ = bool(dataset.attrs["is_product"])
        # In the place of that of the sources, with the same methods.
        rounding = result_values(dataset, "rounding")
        self.density_ = UnmixedDensity(self.density_, matrix, mixed, rounding, self.density_.container)
        self.n_iter_ = int(dataset.attrs["unmixing_steps"])
        self.converged_ = bool(dataset.attrs["unmixing_converged"])
        self.mixture_ = self._checked_mixture().set_params(shape=dataset.attrs.get("shape"))
        self.mixture_._set_fitted(without_unmixing(dataset), variables, tabulated)

    def _replicates(self, values: np.ndarray, weights: np.ndarray | None, *options: Any) -> xr.Dataset:
        """Replicates of the mixture of the sources."""
        return self.mixture_._replicates(self.density_.to_sources(values), weights, *options)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        return tags

    def _checked_mixture(self) -> SmoothProductMixture:
        """A clone of the mixture with the number of components."""
        if not isinstance(self.mixture, SmoothProductMixture | None):
            kind = type(self.mixture).__name__
            raise InvalidTypeError(f"mixture is {kind}; expected an unfitted SmoothProductMixture, or None.")
        rank = checked_integer(self.n_components, "n_components", 1)
        mixture = SmoothProductMixture(shape="auto") if self.mixture is None else clone(self.mixture)
        mixture.set_params(n_components=rank, sample_dim=None)
        if mixture.refine != "smooth":
            words = f'mixture has refine={mixture.refine!r}; expected "smooth"'
            raise InvalidInputError(f"{words}: the matrix needs smooth densities.")
        for name in ("binning", "init"):
            if not isinstance(getattr(mixture, name), str):
                raise InvalidInputError(f"mixture has a {name} of its own; expected a name, since sources have others.")
        return mixture
