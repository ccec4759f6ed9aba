"""Mixtures whose variables depend on each other within components: one linear map for all makes them independent."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import pandas as pd
import xarray as xr
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp, softmax
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from tensorly_smp._support.checks import checked_integer, checked_sample_weight, checked_tolerance
from tensorly_smp._support.progress import checked_verbose, logger, progress_bar
from tensorly_smp._support.randomness import RandomState, spawn_generators
from tensorly_smp.chunked.reading import is_chunked
from tensorly_smp.codes.binning import Binning
from tensorly_smp.codes.encoding import encode_samples
from tensorly_smp.codes.one_hot import one_hot
from tensorly_smp.dependence.check import dependence_issues, quick_rows
from tensorly_smp.dependence.search import (
    Candidate,
    MixedSamples,
    alternate,
    held_out_gain,
    is_clearly_better,
    search_unmixing,
)
from tensorly_smp.dependence.starts import copies, within_covariance
from tensorly_smp.dependence.unmixed_density import UnmixedDensity
from tensorly_smp.estimator import SmoothProductMixture
from tensorly_smp.exceptions import (
    ConvergenceWarning,
    DependenceWarning,
    InvalidInputError,
    InvalidTypeError,
)
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.fitted import FittedMixture
from tensorly_smp.fitting.discretization import Discretization
from tensorly_smp.fitting.variables import Variables
from tensorly_smp.likelihood.observed import Observed
from tensorly_smp.metrics import clustering_accuracy
from tensorly_smp.samples.labels import aligned, list_names
from tensorly_smp.samples.reading import Samples, read_samples
from tensorly_smp.samples.units import with_units

if TYPE_CHECKING:
    from tensorly_smp.plotting.unmixing import UnmixedPlots

#: Evenly spaced rows that the matrix is searched on, if there are more.
MOST_ROWS = 20_000
#: With fewer samples than this for every free entry of the matrix, held-out samples have the last word on it.
SAMPLES_PER_ENTRY = 50
#: Loss, in nats per sample, that a new fit of the sources may have against the one that the search ended with.
REFIT_LOSS = 1e-3
#: Clusters that agree on this share of the samples are the same.
SAME_CLUSTERS = 0.98
#: What the Dataset has beside the product mixture of the sources.
EXTRA = (
    *("unmixing", "mixing", "mixed", "unmixing_log_likelihood", "unmixing_start_criterion"),
    *("source", "unmixing_start", "alternation"),
)
#: Values of this size have squares, and sums of squares, that are floats.
_LARGEST = 1e100


def _mixture_has(name: str) -> Callable[[object], bool]:
    """Check for :func:`available_if`: product mixtures have a method of this name."""
    return lambda model: hasattr(SmoothProductMixture, name)


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
        mixed. Its parameters can be set as ``mixture__penalty`` and so on.
    max_iter : int, default 100
        Alternations of densities and matrix from the best start.
    tol : float, default 1e-4
        Gain of an alternation, in nats per sample, below which the search has converged.
    random_state : None, int, Generator or RandomState
    sample_dim : hashable, optional
        Dimension of the samples in xarray input.
    verbose : int, default 0
        1 shows a bar of the starts; stages go to the logger "tensorly_smp" in any case.

    Attributes
    ----------
    unmixing_ : xarray.DataArray (source, variable)
        W, of the variables that are mixed: neither constant nor discrete. Every source has unit standard deviation in
        the samples of the fit, is named after the variable that it is nearest to (by their correlation within
        components, no name twice) and grows with it.
    mixing_ : xarray.DataArray (variable, source)
        The inverse of `unmixing_`.
    mixture_ : SmoothProductMixture
        Fitted to the sources; variables that are not mixed are among these.
    is_product_ : bool
        True if a product mixture of the variables themselves is preferred; W is diagonal then. By Akaike's criterion
        with N (N - 1) more parameters for W, and, with fewer than fifty samples for each of these, by samples held out.
    density_ : UnmixedDensity
        Density of the variables: joint density, posterior and samples are exact, densities of one variable numeric.
    result_ : xarray.Dataset
        That of `mixture_`, with unmixing (source, variable) and mixing (variable, source) of all variables, mixed
        (variable), unmixing_log_likelihood (alternation), per sample, and unmixing_start_criterion (unmixing_start).
    identifiability_ : IdentifiabilityReport
        Uniqueness of the mixture of the sources.
    labels_ : ndarray of int (n_samples,)
    n_iter_ : int
        Alternations.
    converged_ : bool

    Notes
    -----
    The search starts from (a) the inverse root of the covariance within the components of a product mixture, (b)
    independent components (FastICA), (c) the joint diagonalization of the covariances of a Gaussian mixture with more
    components than wanted: under the model every local covariance is A D A' with a diagonal D; and for each from the
    matrix that diagonalizes the covariances of the R components found with it. From the best, densities and W are
    raised in turn; W by L-BFGS, with log abs(det W). For few samples W is shrunk towards a diagonal matrix.

    With Gaussian sources, W is determined only by how the variances of the sources differ between components; where
    they do not, any W that decorrelates them is as good, and so are its clusters. Every row must be complete.

    References
    ----------
    M. J. F. Gales, "Semi-tied covariance matrices for hidden Markov models", IEEE Transactions on Speech and Audio
    Processing 7, 1999. X. Zhu, D. R. Hunter, "Clustering via finite nonparametric ICA mixture models", Advances in Data
    Analysis and Classification 13, 2019.

    Examples
    --------
    Groups that are long and narrow, along a direction that is no variable's:

    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> data = smp.datasets.make_smooth_mixture("gmm", 2000, 3, 2, random_state=0)
    >>> X = data.X @ np.array([[1.0, 0.9, 0.2], [0.1, 1.0, 0.8], [0.5, 0.3, 1.0]])
    >>> model = smp.UnmixedProductMixture(2, random_state=0).fit(X)
    >>> model.unmixing_.dims, model.is_product_
    (('source', 'variable'), False)
    >>> product = smp.SmoothProductMixture(2, random_state=0).fit(X)
    >>> bool(model.score(X) > product.score(X) + 0.2)
    True
    """

    _stored_name = "UnmixedProductMixture"

    def __init__(
        self,
        n_components: int = 2,
        *,
        mixture: SmoothProductMixture | None = None,
        max_iter: int = 100,
        tol: float = 1e-4,
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
        ConvergenceWarning
            `max_iter` was reached first.
        DependenceWarning
            Sources depend on each other within components: the dependence is not linear, or differs between components.
        TensorlySmpWarning
            Whatever else the fit of the sources gives.
        """
        verbose, began = checked_verbose(self.verbose), time.perf_counter()
        mixture, tol = self._checked_mixture(), checked_tolerance(self.tol)
        max_iter = checked_integer(self.max_iter, "max_iter", 1)
        search_rng, mixture_rng, spread_rng = spawn_generators(self.random_state, 3)
        data = _read(X, sample_weight, self.sample_dim, mixture, spread_rng)
        if mixture.random_state is None:
            mixture.set_params(random_state=int(mixture_rng.integers(2**31)))
        mixture.set_params(discrete=[data.samples.variables[n] for n in data.discrete] or None)
        job = _Job(data, mixture, max_iter, tol)
        found = job.search(search_rng, verbose)
        final = job.finished(found)
        for each in final.caught:
            if each.category is not DependenceWarning:  # whose remedy is this estimator
                warnings.warn(str(each.message), each.category, stacklevel=2)
        candidate = final.candidate
        if not candidate.is_converged:
            warnings.warn(
                f"The search for the unmixing matrix stopped after {max_iter} alternation(s) from the best "
                f"start, with gains above {tol:g} nats a sample; raise max_iter, or tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        dataset = _with_unmixing(final.model.result_, final, found, data.mixed)
        dataset = dataset.assign_attrs(container=data.samples.labels.container)
        self._set_fitted(with_units(dataset, X, data.samples.variables), data.samples.variables)
        self.mixture_ = final.model
        self.labels_ = self.density_.posterior(data.samples.values).argmax(axis=1)
        if concerns := self._dependence_issues(data):
            warnings.warn(" ".join(concerns), DependenceWarning, stacklevel=2)
        logger.info(
            "Unmixing: %d of %d variables, start %r, %d alternations; %.2f s",
            *(len(data.mixed), len(data.samples.variables), candidate.name, len(candidate.trace)),
            time.perf_counter() - began,
        )
        return self

    def fit_predict(self, X: Any, y: object = None, **fit_params: Any) -> Any:
        """Fit, and the most probable component of every sample, labelled like X (n_samples,)."""
        return self.fit(X, y, **fit_params).predict(X)

    def unmix(self, X: Any) -> Any:
        """Sources of samples, and the variables that are not mixed, as an object like X (n_samples, n_variables)."""
        samples = self._read(X)
        return samples.labels.wrap_variables(self._unmixed_density.to_sources(samples.values))

    def impute(self, X: Any, method: str = "mean", random_state: RandomState = None) -> Any:
        """Raise an error that says what to do instead: every source depends on all variables.

        Raises
        ------
        InvalidInputError
        """
        check_is_fitted(self)
        return self.density_.impute(X, method, random_state)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model, for :func:`tensorly_smp.load`; as :meth:`SmoothProductMixture.save`."""
        super().save(path)

    @available_if(_mixture_has("rivals"))
    def rivals(self, *args: Any, **kwargs: Any) -> Any:
        """Other models of the sources that are nearly as likely: as of the product mixture, ``mixture_.rivals``."""
        check_is_fitted(self)
        return self.mixture_.rivals(*args, **kwargs)  # type: ignore[attr-defined]

    @available_if(_mixture_has("bootstrap"))
    def bootstrap(self, X: Any, *args: Any, **kwargs: Any) -> Any:
        """Replicates of the mixture of the sources, the matrix held: as ``mixture_.bootstrap`` of the sources of X."""
        check_is_fitted(self)
        return self.mixture_.bootstrap(self._source_frame(X), *args, **kwargs)  # type: ignore[attr-defined]

    @property
    def plot(self) -> UnmixedPlots:
        """Pictures of the sources, and of the map: ``model.plot.conditionals(X)``, ``model.plot.unmixing()``, ..."""
        from tensorly_smp.plotting.unmixing import UnmixedPlots

        check_is_fitted(self)
        return UnmixedPlots(self)

    @property
    def n_parameters_(self) -> float:
        """Effective number of parameters of the mixture of the sources, and free entries of W."""
        of_sources, n = super().n_parameters_, len(self.unmixing_)
        return of_sources + (0 if self.is_product_ else n * (n - 1))

    @classmethod
    def _of_stored_parameters(cls, parameters: dict[str, Any]) -> UnmixedProductMixture:
        if parameters["mixture"] is not None:
            parameters = parameters | {"mixture": SmoothProductMixture._of_stored_parameters(parameters["mixture"])}
        return cls(**parameters)

    def _set_fitted(self, dataset: xr.Dataset, variables: Sequence[Hashable]) -> None:
        super()._set_fitted(dataset, variables)
        matrix = dataset["unmixing"].transpose("source", "variable").values
        mixed = tuple(np.flatnonzero(dataset["mixed"].values).tolist())
        if matrix.shape != (len(variables),) * 2 or not np.isfinite(matrix).all() or not mixed:
            raise InvalidInputError("The unmixing matrix of the Dataset is out of shape or range.")
        names = [variables[n] for n in mixed]
        block = np.ix_(mixed, mixed)
        self.unmixing_ = _labelled(matrix[block], ("source", "variable"), names)
        self.mixing_ = _labelled(np.linalg.inv(matrix[block]), ("variable", "source"), names)
        self.is_product_ = bool(dataset.attrs["is_product"])
        # In the place of that of the sources, with the same methods.
        self.density_ = UnmixedDensity(  # type: ignore[assignment]
            self.density_, matrix, mixed, self.density_.container
        )
        self.n_iter_ = int(dataset.attrs["unmixing_steps"])
        self.converged_ = bool(dataset.attrs["unmixing_converged"])
        self.mixture_ = self._checked_mixture()
        self.mixture_._set_fitted(_without_unmixing(dataset), variables)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        return tags

    def _dependence_issues(self, data: _Data) -> list[str]:
        """Quick check of the sources for dependence; see :func:`check_independence`."""
        density = self._unmixed_density
        rows = quick_rows(len(data.values), density.n_variables, density.rank)
        sources = density.to_sources(data.samples.values[rows])
        weights = None if data.weights is None else data.weights[rows]
        posterior = density.sources.posterior(sources)
        return dependence_issues(sources, posterior, weights, data.discrete, density.variables, are_sources=True)

    @property
    def _unmixed_density(self) -> UnmixedDensity:
        return cast(UnmixedDensity, self.density_)

    def _source_frame(self, X: Any) -> pd.DataFrame:
        """Sources under the names of the variables, for methods of `mixture_`."""
        return _frame(self._unmixed_density.to_sources(self._read(X).values), self.binning_.variables)

    def _checked_mixture(self) -> SmoothProductMixture:
        """A clone of the mixture with the number of components."""
        if not isinstance(self.mixture, SmoothProductMixture | None):
            raise InvalidTypeError(
                f"mixture is {type(self.mixture).__name__}; expected an unfitted SmoothProductMixture, or None."
            )
        rank = checked_integer(self.n_components, "n_components", 1)
        mixture = SmoothProductMixture() if self.mixture is None else clone(self.mixture)
        mixture.set_params(n_components=rank, sample_dim=None)
        if mixture.refine != "smooth":
            raise InvalidInputError(
                f'mixture has refine={mixture.refine!r}; expected "smooth": the matrix needs smooth densities.'
            )
        for name in ("binning", "init"):
            if not isinstance(getattr(mixture, name), str):
                raise InvalidInputError(f"mixture has a {name} of its own; expected a name, since sources have others.")
        return mixture


@dataclass(frozen=True, eq=False)
class _Data:
    """Samples, their weights, and which variables are discrete (constant ones too) or mixed.

    `values` are those of the samples, but values that are rounded are spread evenly over the step: combinations of
    them would lie on a lattice, along whose lines a density may be as high as it likes.
    """

    samples: Samples
    values: np.ndarray
    weights: np.ndarray | None
    discrete: tuple[int, ...]
    mixed: tuple[int, ...]
    edges: tuple[np.ndarray, ...]

    @property
    def every_weight(self) -> np.ndarray:
        """Weights (n_samples,)."""
        return np.ones(len(self.samples.values)) if self.weights is None else self.weights


def _read(
    X: Any, sample_weight: Any, sample_dim: Hashable | None, mixture: SmoothProductMixture, rng: np.random.Generator
) -> _Data:
    if is_chunked(X):
        raise InvalidInputError(
            "X is in chunks (dask); expected samples in memory. Pass X.compute(), or fit a SmoothProductMixture."
        )
    samples = read_samples(X, None, sample_dim)
    names, values = samples.variables, samples.values
    if len(names) < 3:
        raise InvalidInputError(f"X has {len(names)} feature(s); expected at least three.")
    weights = checked_sample_weight(aligned(sample_weight, X), len(values))
    counted = values if weights is None else values[weights > 0]
    variables = Variables.of(samples, mixture.support, mixture.discrete, weights)
    with np.errstate(invalid="ignore", over="ignore"):
        ranges = [np.ptp(column[~np.isnan(column)]) if not np.isnan(column).all() else 0.0 for column in counted.T]
    discrete = tuple(sorted({*variables.discrete, *(n for n, size in enumerate(ranges) if size == 0)}))
    mixed = tuple(n for n in range(len(names)) if n not in discrete)
    if len(mixed) < 2:
        raise InvalidInputError(
            f"Of {len(names)} variables, with n_samples = {len(values)}, {len(mixed)} are neither constant nor "
            "discrete; expected at least two to unmix. Use SmoothProductMixture, or name the discrete variables in "
            "mixture's discrete."
        )
    if incomplete := int(np.isnan(values[:, mixed]).any(axis=1).sum()):
        raise InvalidInputError(
            f"{incomplete} of {len(values)} samples have missing entries (NaN); expected complete samples, because "
            "every source depends on all variables. Leave them out, or fill them in with a product model first: "
            'SmoothProductMixture(...).fit(X).impute(X, method="draw").'
        )
    largest = np.abs(counted).max(axis=0)
    extreme = [names[n] for n in mixed if not (ranges[n] > 1 / _LARGEST and largest[n] < _LARGEST)]
    if extreme:
        raise InvalidInputError(
            f"Variable(s) {list_names(extreme)} have values of {_LARGEST:g} or more, or a range of {1 / _LARGEST:g} or "
            "less, whose squares are out of the range of floats; rescale them."
        )
    if involved := [names[mixed[i]] for i in copies(counted[:, mixed])]:
        raise InvalidInputError(
            f"Variable(s) {list_names(involved)} determine each other, but for rounding; leave one of them out."
        )
    bounded = [names[n] for n in mixed if variables.support[n] != (None, None)]
    if bounded:
        raise InvalidInputError(
            f"mixture has a support of {list_names(bounded)}; expected none of variables that are mixed, since bounds "
            "of a variable are none of a source. Transform it, by a logarithm for instance."
        )
    edges: tuple[np.ndarray, ...] = ()
    if discrete:
        parts = Discretization(mixture.n_bins, mixture.binning, None, mixture.n_components)
        # Its warnings the fit of the sources will give.
        binning = parts.bins_of_starts(samples, weights, replace(variables, discrete=discrete), warns=False)
        edges = tuple(binning.edges[n] for n in discrete)
    spread = np.array(values)
    for n in mixed:
        step = Observed.of(values[:, n], weights).step
        spread[:, n] += step * rng.uniform(-0.5, 0.5, len(spread))
    return _Data(samples, spread, weights, discrete, mixed, edges)


@dataclass(frozen=True, eq=False)
class _Found:
    """A search. Its matrices are of variables that are centered and divided by `scale`, on some of the rows."""

    samples: MixedSamples
    scale: np.ndarray
    rows: np.ndarray
    candidate: Candidate
    criteria: dict[str, float]
    is_product: bool


@dataclass(frozen=True, eq=False)
class _Final:
    """A fit of the sources of all samples, and the warnings that it gave.

    Criterion, log-densities and posteriors are those of the rows of the search, as of :class:`Candidate`.
    """

    model: SmoothProductMixture
    candidate: Candidate
    matrix: np.ndarray
    criterion: float
    caught: list[warnings.WarningMessage]
    log_densities: np.ndarray
    posterior: np.ndarray


@dataclass(frozen=True, eq=False)
class _Job:
    """The steps of a fit."""

    data: _Data
    mixture: SmoothProductMixture
    max_iter: int
    tol: float

    def search(self, rng: np.random.Generator, verbose: int) -> _Found:
        """The best matrix, on evenly spaced rows of many."""
        values, weights = self.data.values, self.data.every_weight
        rows = np.flatnonzero(weights > 0)
        if len(rows) > MOST_ROWS:
            rows = rows[np.linspace(0, len(rows) - 1, MOST_ROWS).astype(np.int64)]
        mixed, used = values[rows][:, list(self.data.mixed)], weights[rows]
        center = np.average(mixed, axis=0, weights=used)
        scale = np.sqrt(np.average((mixed - center) ** 2, axis=0, weights=used))
        samples = MixedSamples(
            values=(mixed - center) / scale,
            weights=used,
            categories=values[rows][:, list(self.data.discrete)],
            edges=self.data.edges,
            criterion=self.mixture.penalty,
        )

        def fit_product(sources: np.ndarray) -> np.ndarray:
            beside = values[rows]
            beside[:, self.data.mixed] = sources
            model, _ = self._fitted(beside, used)
            return np.asarray(model.density_.posterior(beside))

        with progress_bar(verbose, "unmixing", 6, unit="start") as bar:
            found = search_unmixing(
                samples,
                self.mixture.n_components,
                fit_product,
                rng,
                self.max_iter,
                self.tol,
                lambda each: bar.advance(criterion=each.criterion),
            )
        n_free = len(scale) * (len(scale) - 1)
        is_product = found.product.criterion >= found.best.criterion - n_free / samples.total_weight
        if not is_product and samples.total_weight < SAMPLES_PER_ENTRY * n_free:
            is_product = held_out_gain(samples, found.product, found.best, self.tol) <= 0.0
        candidate = replace(found.product, is_converged=True) if is_product else found.best
        criteria = {each.name: each.criterion for each in (found.product, *found.starts)}
        return _Found(samples, scale, rows, candidate, criteria, is_product)

    def finished(self, found: _Found) -> _Final:
        """The fit of the sources of all samples.

        They are fitted anew, from starts of their own. Where that finds a better mixture than the search, the search
        goes on from there; where it finds a worse one, the fit starts from the posteriors of the search.
        """
        samples, total = found.samples, found.samples.total_weight
        final = self._of_all(found, _arranged(samples, found.candidate))
        before, gain = final.candidate, final.criterion - final.candidate.criterion
        if not found.is_product and is_clearly_better(
            final.log_densities, before.log_densities, samples.weights, total * gain
        ):
            begun = Candidate(before.name, before.unmixing, final.posterior, trace=before.trace)
            again = alternate(samples, begun, self.max_iter, self.tol)
            if again.criterion > before.criterion:
                final = self._of_all(found, _arranged(samples, again))
        candidate = final.candidate
        if final.criterion < candidate.criterion - REFIT_LOSS or _differ(final.posterior, candidate.posterior):
            other = self._of_all(found, candidate, final.model.binning_)
            if not is_clearly_better(
                final.log_densities, other.log_densities, samples.weights, total * (final.criterion - other.criterion)
            ):
                final = other
        return final

    def _of_all(self, found: _Found, candidate: Candidate, binning: Binning | None = None) -> _Final:
        """The fit of all sources; with bins given, from the posteriors of the candidate."""
        matrix = np.eye(len(self.data.samples.variables))
        matrix[np.ix_(self.data.mixed, self.data.mixed)] = candidate.unmixing / found.scale
        sources, log_det = self._sources(matrix, found.is_product), float(np.linalg.slogdet(candidate.unmixing)[1])
        changes: dict[str, Any] = {}
        if binning is not None:
            init = _factors(sources[found.rows], binning, candidate.posterior, found.samples.weights)
            changes = dict(binning=binning, init=init, n_init=1)
        model, caught = self._fitted(sources, self.data.weights, **changes)
        attrs, total = model.result_.attrs, found.samples.total_weight
        if len(found.rows) == len(sources):
            log_likelihood = float(attrs["total_log_likelihood"])
        else:  # of the same rows as that of the search
            log_likelihood = float(found.samples.weights @ model.density_.logpdf(sources[found.rows]))
        criterion = (log_likelihood - float(attrs["n_parameters"])) / total + log_det
        joint = np.asarray(model.density_.log_joint(sources[found.rows])) + log_det
        return _Final(model, candidate, matrix, criterion, caught, logsumexp(joint, axis=1), softmax(joint, axis=1))

    def _fitted(
        self, sources: np.ndarray, weights: np.ndarray | None, **changes: Any
    ) -> tuple[SmoothProductMixture, list[warnings.WarningMessage]]:
        """A product mixture of sources and discrete variables, and the warnings that it gave."""
        original = self.mixture.get_params(deep=False)
        model = clone(self.mixture).set_params(**changes)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(_frame(sources, self.data.samples.variables), sample_weight=weights)
        return model.set_params(**{name: original[name] for name in changes}), caught

    def _sources(self, matrix: np.ndarray, is_product: bool = False) -> np.ndarray:
        """Sources of all samples, beside the discrete variables (n_samples, n_variables)."""
        # Densities of the variables themselves know what to do about values that are rounded.
        sources = np.array(self.data.samples.values if is_product else self.data.values)
        mixed = list(self.data.mixed)
        sources[:, mixed] = sources[:, mixed] @ matrix[np.ix_(mixed, mixed)].T
        return sources


def _arranged(samples: MixedSamples, candidate: Candidate) -> Candidate:
    """The candidate with sources of unit variance, each in the place of the variable it is nearest to.

    Near by the correlation within components, those of all sources together being largest.
    """
    unmixing = candidate.unmixing
    variables = np.diag(within_covariance(samples.values, candidate.posterior, samples.weights))
    sources = np.diag(within_covariance(samples.values @ unmixing.T, candidate.posterior, samples.weights))
    # x_j = sum_n A_jn z_n with independent z_n: the correlation of both is A_jn sd(z_n) / sd(x_j).
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = np.linalg.inv(unmixing) * np.sqrt(sources) / np.sqrt(variables)[:, None]
    correlation = np.nan_to_num(correlation, posinf=1.0, neginf=-1.0)
    rows, columns = linear_sum_assignment(-(correlation**2))
    ordered = unmixing[columns] * np.where(correlation[rows, columns] < 0, -1.0, 1.0)[:, None]
    spread = np.sqrt(np.average((samples.values @ ordered.T) ** 2, axis=0, weights=samples.weights))
    return replace(candidate, unmixing=ordered / spread[:, None])


def _differ(first: np.ndarray, second: np.ndarray) -> bool:
    """Compare the clusters of two posteriors (n_samples, rank), in whatever order."""
    return clustering_accuracy(first.argmax(axis=1), second.argmax(axis=1)) < SAME_CLUSTERS


def _factors(sources: np.ndarray, binning: Binning, posterior: np.ndarray, weights: np.ndarray) -> MixtureFactors:
    """Weights and shares of the bins of every component, by posteriors."""
    shares = posterior * weights[:, None]
    totals = np.maximum(shares.sum(axis=0), 1e-12)
    counts = one_hot(encode_samples(_frame(sources, binning.variables), binning)).T @ shares
    factors, start = [], 0
    for size in binning.n_bins:
        table = counts[start : start + size] + 1e-6
        factors.append(table / table.sum(axis=0))
        start += size
    return MixtureFactors(totals / totals.sum(), tuple(factors), binning)


def _frame(values: np.ndarray, names: Sequence[Hashable]) -> pd.DataFrame:
    """With names as objects, or pandas would make columns of tuples."""
    return pd.DataFrame(values, columns=pd.Index(list(names), dtype=object, tupleize_cols=False))


def _labelled(matrix: np.ndarray, dims: tuple[str, str], names: Sequence[Hashable]) -> xr.DataArray:
    """A square matrix whose rows and columns bear the same names."""
    objects = np.empty(len(names), dtype=object)
    objects[:] = names
    index = list(names) if all(isinstance(name, str) for name in names) else objects
    return xr.DataArray(matrix, {dim: index for dim in dims}, dims, name="_".join(dims))


def _with_unmixing(dataset: xr.Dataset, final: _Final, found: _Found, mixed: Sequence[int]) -> xr.Dataset:
    """The Dataset of the sources with the record of the search."""
    n_variables, candidate = dataset.sizes["variable"], final.candidate
    inverse = np.linalg.inv(final.matrix)
    contents = {
        "unmixing": (("source", "variable"), final.matrix, "sources are these linear combinations of the variables"),
        "mixing": (("variable", "source"), inverse, "variables are these linear combinations of the sources"),
        "mixed": ("variable", np.isin(np.arange(n_variables), mixed).astype(np.int8), "whether the variable is mixed"),
        "unmixing_log_likelihood": (
            "alternation",
            np.array(candidate.trace) - np.log(found.scale).sum(),
            "log-likelihood per sample after every update of the densities, in nats",
        ),
        "unmixing_start_criterion": (
            "unmixing_start",
            np.array(list(found.criteria.values())) - np.log(found.scale).sum(),
            "log-likelihood less effective parameters, per sample, after the first alternations from the start",
        ),
    }
    dataset = dataset.assign(
        {name: (dims, array, {"long_name": text}) for name, (dims, array, text) in contents.items()}
    )
    dataset = dataset.assign_coords(
        source=dataset["variable"].values.copy(),
        unmixing_start=np.array(list(found.criteria)),
        alternation=np.arange(len(candidate.trace)),
    )
    return dataset.assign_attrs(
        estimator=UnmixedProductMixture._stored_name,
        is_product=int(found.is_product),
        unmixing_start_name=candidate.name,
        unmixing_steps=len(candidate.trace),
        unmixing_converged=int(candidate.is_converged),
    )


def _without_unmixing(dataset: xr.Dataset) -> xr.Dataset:
    """The Dataset of the sources alone."""
    kept = dataset.drop_vars([name for name in dataset.variables if name in EXTRA])
    names = ("estimator", "is_product", "unmixing_start_name", "unmixing_steps", "unmixing_converged")
    kept.attrs = {name: value for name, value in dataset.attrs.items() if name not in names}
    return kept
