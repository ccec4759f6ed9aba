"""The whole way, samples to densities, as one scikit-learn estimator."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import xarray as xr
from sklearn.base import BaseEstimator, ClusterMixin, DensityMixin
from sklearn.utils.validation import check_is_fitted

from tensorly_smp.codes.binning import Binning, choose_binning
from tensorly_smp.codes.encoding import encode_samples
from tensorly_smp.densities.reconstruct import reconstruct_density
from tensorly_smp.exceptions import InvalidTypeError
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.factors.solution import StopReason
from tensorly_smp.factors.solver import coupled_simplex_parafac
from tensorly_smp.factors.sweeps import Callback
from tensorly_smp.labels import Samples, default_names, read_samples
from tensorly_smp.marginals.histograms import count_marginals
from tensorly_smp.randomness import RandomState
from tensorly_smp.results import solution_to_dataset


class SmoothProductMixture(ClusterMixin, DensityMixin, BaseEstimator):
    """Mixture of smooth product distributions, f(x) = sum_r w_r prod_n f_n(x_n | r).

    Nothing is assumed about the shape of the conditional densities but smoothness. Variables are cut into bins, the
    histograms of all variable triples are factorized jointly, and the factors become continuous densities (Kargas &
    Sidiropoulos, AISTATS 2019). Samples may be incomplete: NaN, None, pandas NA and masked entries are missing.

    Parameters
    ----------
    n_components : int, default 2
        Number of mixture components, R.
    n_bins : int, sequence of int or mapping by variable name, default 15
        Bins per variable. Fewer bins need fewer samples; more bins follow narrower densities.
    binning : {"uniform", "quantile"} or Binning, default "uniform"
        How bins are chosen, or the bins. "sinc" needs uniform ones.
    coverage : float, optional
        Central share of each variable's values that the bins span, the outermost bins catching the rest, such as 0.99
        against far outliers; by default the whole range.
    triples : "all", int or list of (j, k, l), default "all"
        Histograms that are counted: all, this many random ones, or these.
    loss : {"kl", "frobenius"}, default "kl"
    init : {"random"} or MixtureFactors, default "random"
    n_init : int, default 5
        Starts; the best is kept.
    density : {"sinc", "histogram"}, default "sinc"
        How factors become densities.
    max_iter : int, default 1000
        Sweeps per start.
    tol : float, default 1e-6
        Relative decrease of the loss per sweep below which a start has converged.
    n_jobs : int, optional
        Starts at a time; the result does not depend on it.
    random_state : None, int, Generator or RandomState
    callback : callable, optional
        ``callback(cp_tensor, loss)`` before every sweep; returning True stops.

    Attributes
    ----------
    result_ : xarray.Dataset
        weights (component), factors (variable, bin, component), edges (variable, edge), n_bins (variable), loss,
        change and seconds (sweep), start_loss and start_status (start); attributes of plain types. Components are
        sorted by decreasing weight.
    density_ : MixtureDensity
    factors_ : MixtureFactors
    binning_ : Binning
    weights_ : ndarray (n_components,)
    labels_ : ndarray of int (n_samples,)
        Most probable component of every sample of the fit.
    n_iter_ : int
        Sweeps of the best start.
    converged_ : bool
    n_features_in_ : int
    feature_names_in_ : ndarray of str (n_features_in_,)
        Only where the samples came with names that are strings.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> data = smp.datasets.make_smooth_mixture("gaussian", n_samples=1000, n_components=3, random_state=0)
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
        coverage: float | None = None,
        triples: str | int | Iterable[Sequence[int]] = "all",
        loss: str = "kl",
        init: str | MixtureFactors = "random",
        n_init: int = 5,
        density: str = "sinc",
        max_iter: int = 1000,
        tol: float = 1e-6,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        callback: Callback | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_bins = n_bins
        self.binning = binning
        self.coverage = coverage
        self.triples = triples
        self.loss = loss
        self.init = init
        self.n_init = n_init
        self.density = density
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback

    def fit(self, X: Any, y: object = None, sample_weight: Any = None) -> Self:
        """Learn the mixture from samples.

        Parameters
        ----------
        X : array_like, DataFrame, DataArray or Dataset (n_samples, n_variables)
            At least three variables.
        y : ignored
        sample_weight : array_like (n_samples,), optional

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError, InvalidTypeError
            Samples or parameters that cannot be used; the message says what was expected.
        """
        samples = read_samples(X)
        binning = self._chosen_binning(X)
        if self.density == "sinc":
            binning.require_uniform()
        codes = encode_samples(X, binning)
        marginals = count_marginals(codes, self.triples, sample_weight, random_state=self.random_state)
        solution = coupled_simplex_parafac(
            marginals,
            self.n_components,
            loss=self.loss,
            init=self.init,
            n_init=self.n_init,
            n_iter_max=self.max_iter,
            tol=self.tol,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
            callback=self.callback,
        )
        solution = replace(solution, factors=solution.factors.to_numpy().sort())
        dataset = solution_to_dataset(solution).assign_attrs(density=self.density, n_samples=codes.n_samples)
        self._set_fitted(dataset, solution.factors)
        # Labels of X itself would come back labelled, and in another order of the columns.
        ordered = samples.values[:, [samples.variables.index(name) for name in binning.variables]]
        self.labels_ = self.density_.posterior(ordered).argmax(axis=1)
        return self

    def _chosen_binning(self, X: Any) -> Binning:
        if isinstance(self.binning, Binning):
            return self.binning
        if not isinstance(self.binning, str):
            raise InvalidTypeError(
                f'binning is {type(self.binning).__name__}; expected "uniform", "quantile" or a Binning.'
            )
        return choose_binning(X, self.n_bins, self.binning, coverage=self.coverage)

    def _set_fitted(self, dataset: xr.Dataset, factors: MixtureFactors) -> None:
        """Everything that a fitted model has, from its Dataset; used by fit and by load."""
        self.result_ = dataset
        self.factors_ = factors
        self.binning_ = factors.binning
        self.density_ = reconstruct_density(factors, method=self.density)
        self.weights_ = factors.weights
        self.n_iter_ = int(dataset.attrs["n_sweeps"])
        self.converged_ = StopReason[dataset.attrs["status"].upper()].is_converged
        self.n_features_in_ = factors.n_variables
        names = self.binning_.variables
        if names != default_names(len(names)) and all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def fit_predict(self, X: Any, y: object = None, **fit_params: Any) -> Any:
        """Fit, and the most probable component of every sample, labelled like X (n_samples,)."""
        return self.fit(X, y, **fit_params).predict(X)

    def predict(self, X: Any) -> Any:
        """Most probable component of every sample.

        Parameters
        ----------
        X : array_like, DataFrame, DataArray or Dataset (n_samples, n_variables)
            Labelled variables are matched by name; missing entries are integrated out.

        Returns
        -------
        ndarray, Series or DataArray of int (n_samples,)
        """
        samples = self._read(X)
        labels = self.density_.posterior(samples.values).argmax(axis=1)
        return samples.labels.wrap(labels, name="component")

    def predict_proba(self, X: Any) -> Any:
        """Posterior probability of every component, (n_samples, n_components), rows sum to one."""
        check_is_fitted(self)
        return self.density_.posterior(X)

    def score_samples(self, X: Any) -> Any:
        """Logarithm of the density at every sample, (n_samples,); the density integrates to one."""
        check_is_fitted(self)
        return self.density_.logpdf(X)

    def score(self, X: Any, y: object = None) -> float:
        """Mean log-likelihood per sample, in nats."""
        return float(np.mean(np.asarray(self.score_samples(X))))

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> tuple[np.ndarray, np.ndarray]:
        """Draw samples (n_samples, n_variables), columns as in ``density_.variables``, and their components."""
        check_is_fitted(self)
        return self.density_.sample(n_samples, random_state)

    def impute(self, X: Any, method: str = "mean", random_state: RandomState = None) -> Any:
        """Fill missing entries in, by their mean given the observed ones or by a draw; an object like X."""
        check_is_fitted(self)
        return self.density_.impute(X, method, random_state)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a netCDF file (extra ``io``), for :func:`tensorly_smp.load`."""
        from tensorly_smp.storage import save_model

        check_is_fitted(self)
        save_model(self, path)

    def _read(self, X: Any) -> Samples:
        check_is_fitted(self)
        return read_samples(X, self.binning_.variables)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "density_")
