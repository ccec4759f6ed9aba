"""The whole way, samples to densities, as one scikit-learn estimator."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Self

import pandas as pd

from tensorly_smp.checks import checked_integer
from tensorly_smp.codes.bin_number import auto_n_bins
from tensorly_smp.codes.binning import Binning, choose_binning
from tensorly_smp.codes.encoding import encode_samples
from tensorly_smp.codes.spectrum import nyquist_concerns
from tensorly_smp.decomposition import Decomposition, counted
from tensorly_smp.exceptions import (
    IdentifiabilityWarning,
    InvalidInputError,
    InvalidTypeError,
    NonUniformBinsError,
    NyquistWarning,
)
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.factors.sweeps import Callback
from tensorly_smp.fitted import FittedMixture
from tensorly_smp.identifiability.concerns import identifiability_concerns
from tensorly_smp.labels import aligned_weights
from tensorly_smp.randomness import RandomState
from tensorly_smp.refinement import Refinement
from tensorly_smp.samples import Samples, read_samples

CHOICES: dict[str, tuple[str | None, ...]] = {
    "loss": ("auto", "kl", "frobenius"),
    "refine": ("smooth", "em", None),
    "density": ("auto", "logspline", "sinc", "histogram"),
    "penalty": ("reml", "aic", "bic"),
}


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
    n_bins : int, sequence of int, mapping by variable name, or "auto", default 15
        Bins per variable. Fewer bins need fewer samples; more bins follow narrower densities. "auto" chooses by the
        number of samples per component and the spectrum of every variable. With ``refine="smooth"`` little depends on
        it; the paper's way, bins by validated likelihood, is ``GridSearchCV(model, {"n_bins": [5, 10]})``.
    binning : {"uniform", "quantile"} or Binning, default "uniform"
        How bins are chosen, or the bins. "sinc" needs uniform ones.
    coverage : float, optional
        Central share of each variable's values that the bins span, the outermost bins catching the rest, such as 0.99
        against far outliers; by default the whole range.
    triples : "all", int or list of (j, k, l), default "all"
        Histograms that are counted: all, this many random ones, or these.
    loss : {"auto", "kl", "frobenius"}, default "auto"
        "auto" is "kl" as long as the histograms have at most two million cells, else "frobenius", which does without
        histograms where they would be larger still.
    init : {"gevd", "random"} or MixtureFactors, default "gevd"
        "gevd" starts from algebra (:func:`gevd_start`), every fourth start at random; all "random" starts are.
    n_init : int or "auto", default "auto"
        Starts; the best is kept. "auto" is 5, and 1 for more than a hundred variables, which leave little to chance.
        With ``refine="smooth"`` the likelihood chooses among all of them after a few sweeps; otherwise, of algebraic
        ones, only the two that are lowest after 20 sweeps run to their end.
    refine : {"smooth", "em"} or None, default "smooth"
        None is the paper's algorithm: the coupled CPD is the result. "em" goes on from there to the maximum likelihood
        of the binned samples (:func:`refine_em`). "smooth" follows every start for a few sweeps only, and goes on from
        there by smoothed EM: penalized likelihood with log-spline densities in place of histograms, so that neither the
        width of the bins nor ringing limits them.
    density : {"auto", "logspline", "sinc", "histogram"}, default "auto"
        How factors become densities; "auto" is "logspline" with ``refine="smooth"``, which that needs, else "sinc".
    penalty : {"reml", "aic", "bic"}, default "reml"
        How ``refine="smooth"`` chooses the smoothness of every density.
    support : mapping by variable name, optional
        Bounds of variables, such as ``{"price": (0, None)}``, for densities that may end there with a cliff; for
        ``refine="smooth"``.
    discrete : sequence of names, optional
        Variables that keep a histogram with ``refine="smooth"``; by default those with few distinct values, see
        ``result_.discrete``.
    max_iter : int, default 1000
        Sweeps per start, and passes of the refinement.
    tol : float, default 1e-6
        Relative decrease of the loss per sweep below which a start has converged; and gain per pass of EM, in nats
        per sample, ten times that for smoothed EM.
    n_jobs : int, optional
        Starts at a time; the result does not depend on it.
    random_state : None, int, Generator or RandomState
    callback : callable, optional
        ``callback(cp_tensor, loss)`` before every sweep; returning True stops the start, and there is no refinement
        then. Neither is there one after a keyboard interrupt of the sweeps; fit returns what it has so far.
    sample_dim : hashable, optional
        Dimension of the samples in xarray input; where it is not given and neither names nor coordinates tell, fit
        raises.

    Attributes
    ----------
    result_ : xarray.Dataset
        weights (component), factors (variable, bin, component), edges (variable, edge), n_bins (variable), loss,
        change and seconds (sweep), start_loss and start_status (start); triples (triple, mode) unless all were
        factorized; attributes of plain types. Components are sorted by decreasing weight. With ``refine="smooth"``
        also the splines of the log densities, their penalties, which variables are discrete, the log-likelihood
        (em_pass) and what starts were compared by (start_criterion); weights and factors are the refined ones, and
        loss, change and seconds are of the start that was lowest after its sweeps.
    density_ : MixtureDensity
    factors_ : MixtureFactors
    binning_ : Binning
    weights_ : ndarray (n_components,)
    identifiability_ : IdentifiabilityReport
        Whether the fitted factors are unique, computed when first asked for.
    labels_ : ndarray of int (n_samples,)
        Most probable component of every sample of the fit.
    n_iter_ : int
        Sweeps of the best start.
    converged_ : bool
    n_features_in_ : int
    feature_names_in_ : ndarray of str (n_features,)
        Only where the variables have names that are strings, other than the default ones "x0", "x1", ...

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
        n_bins: int | str | Sequence[int] | Mapping[Any, int] = 15,
        binning: str | Binning = "uniform",
        coverage: float | None = None,
        triples: str | int | Iterable[Sequence[int]] = "all",
        loss: str = "auto",
        init: str | MixtureFactors = "gevd",
        n_init: int | str = "auto",
        refine: str | None = "smooth",
        density: str = "auto",
        penalty: str = "reml",
        support: Mapping[Any, tuple[float | None, float | None]] | None = None,
        discrete: Sequence[Hashable] | None = None,
        max_iter: int = 1000,
        tol: float = 1e-6,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        callback: Callback | None = None,
        sample_dim: Hashable | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_bins = n_bins
        self.binning = binning
        self.coverage = coverage
        self.triples = triples
        self.loss = loss
        self.init = init
        self.n_init = n_init
        self.refine = refine
        self.density = density
        self.penalty = penalty
        self.support = support
        self.discrete = discrete
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback
        self.sample_dim = sample_dim

    def fit(self, X: Any, y: object = None, sample_weight: Any = None) -> Self:
        """Learn the mixture from samples.

        Parameters
        ----------
        X : array_like, DataFrame, DataArray or Dataset (n_samples, n_variables)
            At least three variables.
        y : ignored
        sample_weight : array_like (n_samples,), optional
            Non-negative; a sample of weight 2 counts twice, one of weight 0 not at all. They are numbers of samples:
            weights that sum to one stand for a single one, of which nothing can be learned. Quantile bins and
            `coverage` leave out samples of weight 0, but do not use the weights further.

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError, InvalidTypeError
            Samples or parameters that cannot be used; the message says what was expected.
        """
        self._check_parameters()
        sample_weight = aligned_weights(sample_weight, X)
        given = self.binning.variables if isinstance(self.binning, Binning) else None
        # With bins given, columns are matched to their variables; else the bins are of the columns as they come.
        samples = read_samples(X, given, self.sample_dim)
        n_variables = len(samples.variables)
        if n_variables < 3:
            raise InvalidInputError(
                f"X has {n_variables} feature(s); expected at least three, because the joint histograms of fewer "
                "variables leave the factors undetermined."
            )
        binning = self._chosen_binning(samples, sample_weight)
        density = self._density_name()
        if density == "sinc":
            try:
                binning.require_uniform()
            except NonUniformBinsError as error:
                raise NonUniformBinsError(f'{error} Here: density="histogram", or binning="uniform".') from error
            if concerns := nyquist_concerns(samples.values, binning, sample_weight):
                warnings.warn(" ".join(concerns), NyquistWarning, stacklevel=2)
        codes = encode_samples(samples.values, binning)
        decomposition = Decomposition(
            rank=self.n_components,
            triples=self.triples,
            loss=self.loss,
            init=self.init,
            n_init=self.n_init,
            is_start=self.refine == "smooth",
            max_iter=self.max_iter,
            tol=self.tol,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
            callback=self.callback,
        )
        solution = decomposition.solution(codes, sample_weight)
        refinement = Refinement(
            self.refine, self.penalty, self.support, self.discrete, self.max_iter, self.tol, self.n_jobs
        )
        dataset = refinement.dataset(solution, samples, codes, sample_weight)
        dataset = dataset.assign_attrs(
            density=density,
            refine=str(self.refine).lower(),
            n_samples=codes.n_samples,
            container=samples.labels.container,
        )
        self._set_fitted(dataset, binning.variables)
        self.labels_ = self.density_.posterior(samples.values).argmax(axis=1)
        concerns = identifiability_concerns(self.factors_, "all" if solution.triples is None else solution.triples)
        if concerns:
            warnings.warn(" ".join(concerns), IdentifiabilityWarning, stacklevel=2)
        return self

    def fit_predict(self, X: Any, y: object = None, **fit_params: Any) -> Any:
        """Fit, and the most probable component of every sample, labelled like X (n_samples,)."""
        return self.fit(X, y, **fit_params).predict(X)

    def _density_name(self) -> str:
        if self.density == "auto":
            return "logspline" if self.refine == "smooth" else "sinc"
        return self.density

    def _check_parameters(self) -> None:
        """Refuse what no later stage would, or only after the work is done."""
        if isinstance(self.n_bins, str) and self.n_bins != "auto":
            raise InvalidInputError(f'n_bins is {self.n_bins!r}; expected numbers of bins, or "auto".')
        if not isinstance(self.binning, str | Binning):
            raise InvalidTypeError(
                f'binning is {type(self.binning).__name__}; expected "uniform", "quantile" or a Binning.'
            )
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            if not isinstance(value, str | None) or value not in choices:
                raise InvalidInputError(f"{name} is {value!r}; expected one of {list(choices)}.")
        if self.density == "logspline" and self.refine != "smooth":
            raise InvalidInputError(
                f'density="logspline" with refine={self.refine!r}; expected refine="smooth", which fits them. For log-'
                'splines from other factors: reconstruct_density(factors, method="logspline", samples=X).'
            )
        if not isinstance(self.support, Mapping | None):
            raise InvalidTypeError(
                f"support is {type(self.support).__name__}; expected a mapping {{name: (low, high)}}."
            )
        if isinstance(self.discrete, str) or not isinstance(self.discrete, Sequence | None):
            raise InvalidTypeError(f"discrete is {self.discrete!r}; expected a list of names, or None.")
        if self.callback is not None and not callable(self.callback):
            raise InvalidTypeError(f"callback is {type(self.callback).__name__}; expected a function, or None.")
        # The solver checks these too, but knows them by other names.
        for name, least in (("n_components", 1), ("max_iter", 0)):
            checked_integer(getattr(self, name), name, least)
        if self.n_jobs is not None and checked_integer(self.n_jobs, "n_jobs") == 0:
            raise InvalidInputError("n_jobs is 0; expected at least 1, or -1 for all processors.")

    def _chosen_binning(self, samples: Samples, sample_weight: Any) -> Binning:
        if isinstance(self.binning, Binning):
            return self.binning
        # Names for the messages, and for n_bins by name; as objects, or pandas would make something else of tuples.
        names = pd.Index(samples.variables, dtype=object, tupleize_cols=False)
        frame = pd.DataFrame(counted(samples.values, sample_weight), columns=names)
        n_bins = self.n_bins
        if isinstance(n_bins, str):
            with warnings.catch_warnings():  # the bins that are kept will warn
                warnings.simplefilter("ignore")
                choose_binning(frame, 2, self.binning, coverage=self.coverage)  # refuses unusable values by their names
            n_bins = auto_n_bins(samples.values, self.n_components, sample_weight, self.coverage)
        return choose_binning(frame, n_bins, self.binning, coverage=self.coverage)
