"""The density of a mixture of product distributions: what a fitted model is used for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from tensorly_smp._support.checks import (
    RandomState,
    as_generator,
    checked_choice,
    checked_entries,
    checked_integer,
    float_array,
    is_integer,
    real_numbers,
)
from tensorly_smp._support.representations import html_weights, listed, shown
from tensorly_smp.densities.conditionals import ConditionalDensities, DiscreteConditionals, GridConditionals
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.factors.mixture_factors import joint_to_posterior
from tensorly_smp.samples.codebook import ValueLabels
from tensorly_smp.samples.labels import (
    LOG_DENSITY,
    POSTERIOR,
    PROBABILITY,
    labelled_matrix,
    labelled_moments,
    labelled_points,
    variable_position,
    variable_positions,
)
from tensorly_smp.samples.reading import read_samples

Component: TypeAlias = 'int | Literal["all"] | None'

_VARIANCE_OVERFLOWS = "Variances exceed the largest float64; express the variables in a larger unit."
# Samples are evaluated in chunks of so many values per variable: 2 MB of float64, times a handful of temporaries.
_CHUNK_CELLS = 2**18
# Every second step halves the bracket, so this many always end at neighboring floats; about 20 do in practice.
_MAX_STEPS = 2000


def points(x: Any, infinite: bool = False) -> np.ndarray:
    """Points of one variable as float64; NaN and masked ones refused, and infinite ones unless allowed."""
    values = real_numbers(x, "An array of points")
    if np.isnan(values).any() or not (infinite or np.isfinite(values).all()):
        raise InvalidInputError("Points hold NaN, masked or infinite values; expected finite numbers.")
    return values


def finite(values: np.ndarray, message: str) -> np.ndarray:
    """The values, or an error with this message if some overflowed."""
    if not np.isfinite(values).all():
        raise InvalidInputError(message)
    return values


def is_all(component: Component) -> bool:
    """Tell whether every component is asked for; an array is not compared with the word."""
    return isinstance(component, str) and component == "all"


def component_number(component: Component, rank: int) -> int:
    """The number of a single component."""
    if not is_integer(component):
        raise InvalidTypeError(f"component is {shown(component)}; expected a number, 'all' or None.")
    if not 0 <= component < rank:
        raise InvalidInputError(f"component is {shown(component)}; expected 0 to {rank - 1}.")
    return int(component)


class SampleDensity(ABC):
    """Density of whole samples, whose answers are labelled as the samples are; subclasses say what it is in numbers."""

    weights: np.ndarray
    variables: tuple[Hashable, ...]
    value_labels: Mapping[Hashable, ValueLabels]

    @property
    def rank(self) -> int:
        """Number of components."""
        return len(self.weights)

    @property
    def n_variables(self) -> int:
        """Number of variables."""
        return len(self.variables)

    @abstractmethod
    def _log_joint(self, values: np.ndarray) -> np.ndarray:
        """Logarithm of w_r f(x | r), (n_samples, rank), of samples (n_samples, n_variables)."""

    def log_joint(self, X: Any) -> Any:
        """Logarithm of w_r prod_n f_n(x_n | r), from which density and posterior follow.

        Parameters
        ----------
        X : array_like, DataFrame, DataArray or Dataset (n_samples, n_variables)

        Returns
        -------
        ndarray, DataFrame or DataArray (n_samples, rank)
            -inf for components of weight zero, else finite.
        """
        samples = read_samples(X, self.variables, value_labels=self.value_labels)
        return samples.labels.wrap(self._log_joint(samples.values), "log_joint")

    def logpdf(self, X: Any) -> Any:
        """Logarithm of the density at every sample; finite everywhere, for any number of variables.

        Parameters
        ----------
        X : array_like, DataFrame, DataArray or Dataset (n_samples, n_variables)

        Returns
        -------
        ndarray, Series or DataArray (n_samples,)
            0 for a sample without any entry.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            Variables that do not match, infinite or not numeric entries.
        """
        samples = read_samples(X, self.variables, value_labels=self.value_labels)
        return samples.labels.wrap(logsumexp(self._log_joint(samples.values), axis=1), LOG_DENSITY)

    def pdf(self, X: Any) -> Any:
        """Density at every sample; underflows to 0 for many variables, where `logpdf` does not.

        Parameters
        ----------
        X : array_like, DataFrame, DataArray or Dataset (n_samples, n_variables)

        Returns
        -------
        ndarray, Series or DataArray (n_samples,)

        Raises
        ------
        InvalidInputError
            Also if the density is too large for float64 (many variables of very small scale): use `logpdf`.
        """
        samples = read_samples(X, self.variables, value_labels=self.value_labels)
        with np.errstate(over="ignore"):
            values = np.exp(logsumexp(self._log_joint(samples.values), axis=1))
        return samples.labels.wrap(
            finite(values, "The density exceeds the largest float64 at some samples; use logpdf."), "density"
        )

    def posterior(self, X: Any) -> Any:
        """Probability of every component given the sample, by Bayes' rule.

        Parameters
        ----------
        X : array_like, DataFrame, DataArray or Dataset (n_samples, n_variables)

        Returns
        -------
        ndarray, DataFrame or DataArray (n_samples, rank)
            Rows sum to one; the weights for a sample without any entry.
        """
        samples = read_samples(X, self.variables, value_labels=self.value_labels)
        return samples.labels.wrap(joint_to_posterior(self._log_joint(samples.values), self.weights), POSTERIOR)


@dataclass(frozen=True, eq=False, repr=False)
class MixtureDensity(SampleDensity):
    """Mixture of product distributions, f(x) = sum_r w_r prod_n f_n(x_n | r).

    Of a discrete variable f_n(x_n | r) is the probability of the value x_n: the joint density is with respect to the
    Lebesgue measure of the continuous and the counting measure of the discrete variables, so that log-likelihoods, and
    BIC and AIC, are those of latent class software. A value that is none of the variable's has probability zero, and
    adds -708.4, the logarithm of the smallest normal float, to a log-density, which stays finite.

    Made by :func:`~tensorly_smp.densities.reconstruct.reconstruct_density`. Samples are given as an array (n_samples,
    n_variables), or as a DataFrame, DataArray or Dataset whose variables are matched by name; what is returned per
    sample is labelled like them. A missing entry (NaN) is integrated out, which in a product distribution means left
    out of the product. Points of a single variable are arrays of any shape, and results are arrays of that shape; a
    Series or a DataArray of points gives the like. The density of a fitted model knows whether its samples had labels:
    of samples in a DataFrame or in an object of xarray, moments are labelled by variable, a Series or a DataArray.

    Where a `component` may be given: None (default) is the whole mixture, a number is that component, and "all" is
    every component, in a new last axis.

    Attributes
    ----------
    weights : ndarray (rank,)
        Non-negative, sums to one; read-only.
    conditionals : tuple of ConditionalDensities
        One per variable, each of all components.
    variables : tuple of hashable
        Names, one per variable.
    clipped_mass : ndarray (n_variables, rank) or None
        Mass of the negative parts that were taken out of the band-limited functions; None for other methods.
    container : {"array", "dataframe", "dataarray", "polars", "pyarrow"}
        What moments are labelled as; "array" is not at all.
    value_labels : mapping from name to ValueLabels
        Of variables whose values are codes 0, 1, ... of text or categories: samples and points may have the labels
        instead. Moments, quantiles and what :meth:`sample` draws are of the codes.

    Examples
    --------
    Two components, told apart by both variables:

    >>> import numpy as np
    >>> from tensorly_smp.codes.binning import Binning
    >>> from tensorly_smp.densities.reconstruct import reconstruct_density
    >>> from tensorly_smp.factors.mixture_factors import MixtureFactors
    >>> factor = np.array([[0.2, 0.0], [0.6, 0.0], [0.2, 0.2], [0.0, 0.6], [0.0, 0.2]])
    >>> binning = Binning((np.arange(6.0), np.arange(6.0)), ("a", "b"))
    >>> factors = MixtureFactors(np.array([0.5, 0.5]), (factor, factor), binning)
    >>> density = reconstruct_density(factors, method="histogram")
    >>> density.posterior([[1.5, 1.5], [np.nan, 2.5]]).round(2)
    array([[1. , 0. ],
           [0.5, 0.5]])
    >>> density.conditional({"a": 3.5}).mean().round(1).tolist()
    [3.5]
    >>> X, labels = density.sample(100, random_state=0)
    >>> X.shape
    (100, 2)
    """

    weights: np.ndarray
    conditionals: tuple[ConditionalDensities, ...]
    variables: tuple[Hashable, ...]
    clipped_mass: np.ndarray | None = None
    container: str = "array"
    value_labels: Mapping[Hashable, ValueLabels] = field(default_factory=dict)

    def __post_init__(self) -> None:
        weights = np.array(float_array(self.weights, "weights"))
        if weights.ndim != 1 or not np.all(weights >= 0) or abs(weights.sum() - 1.0) > 1e-6:
            raise InvalidInputError(
                f"weights have shape {weights.shape} and sum {weights.sum():.6g}; expected (rank,), none negative, sum "
                "one."
            )
        if abs(weights.sum() - 1.0) > 1e-12:  # else kept as they are, so that copies agree to the last bit
            weights /= weights.sum()
        weights.setflags(write=False)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "conditionals", tuple(self.conditionals))
        object.__setattr__(self, "variables", tuple(self.variables))
        if not self.conditionals or not len(self.conditionals) == len(self.variables) == len(set(self.variables)):
            raise InvalidInputError(
                f"{len(self.conditionals)} conditional densities for variables {listed(self.variables)}; expected "
                "one for each, at least one, and no name twice."
            )
        ranks = {each.rank for each in self.conditionals}
        if ranks != {len(weights)}:
            raise InvalidInputError(f"Conditional densities of {sorted(ranks)} components; expected {len(weights)}.")

    def __repr__(self) -> str:
        return f"MixtureDensity({self.n_variables} variables, {self.rank} components)"

    def _repr_html_(self) -> str:
        pairs = [("variables", f"{self.n_variables}: {listed(self.variables)}")]
        return html_weights("MixtureDensity", pairs, self.weights)

    # ---- samples of all variables ----

    def impute(self, X: Any, method: str = "mean", random_state: RandomState = None) -> Any:
        """Fill missing entries in from the observed ones of the same sample.

        Parameters
        ----------
        X : array_like, DataFrame, DataArray or Dataset (n_samples, n_variables)
        method : {"mean", "draw"}
            "mean": expectation given the observed entries, the best guess in the least-squares sense, but less spread
            than the data; so it may lie between the values of a discrete variable, but for text and categories: of
            these the most probable value. "draw": one draw from the
            distribution given the observed entries, for all missing entries of a sample together, as of
            :meth:`sample`; repeat it with other seeds for multiple imputation.
        random_state : None, int, Generator, RandomState or SeedSequence
            For "draw".

        Returns
        -------
        ndarray, DataFrame, DataArray or Dataset (n_samples, n_variables)
            Like X, float64, a copy. Observed entries are the same bit for bit.
        """
        checked_choice(method, "method", ("mean", "draw"))
        samples = read_samples(X, self.variables, value_labels=self.value_labels)
        filled = np.array(samples.values)
        missing = np.isnan(filled)
        rows = np.flatnonzero(missing.any(axis=1))
        # Given the observed entries, the missing ones follow the same mixture with the posterior as its weights.
        shares = joint_to_posterior(self._log_joint(filled[rows]), self.weights)
        if method == "draw":  # one component per sample first, so that its missing entries belong together
            rng = as_generator(random_state)
            cumulative = shares.cumsum(axis=1)
            threshold = rng.random(len(shares)) * cumulative[:, -1]
            components = np.minimum((cumulative <= threshold[:, None]).sum(axis=1), self.rank - 1)
        for n, each in enumerate(self.conditionals):
            here = missing[rows, n]
            if not here.any():
                continue
            if method == "draw":
                values = draw_values(each, components[here], rng)
            elif labels := self.value_labels.get(self.variables[n]):
                codes = np.arange(float(len(labels.labels)))
                values = (shares[here] @ each.pdf(codes).T).argmax(axis=1)
            else:
                values = shares[here] @ each.mean()
            filled[rows[here], n] = values
        return samples.labels.wrap_variables(filled)

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> tuple[np.ndarray, np.ndarray]:
        """Draw samples and the components they came from.

        Parameters
        ----------
        n_samples : int
            At least 1.
        random_state : None, int, Generator, RandomState or SeedSequence
            A Generator advances; an int gives the same samples every time.

        Returns
        -------
        X : ndarray (n_samples, n_variables)
            Columns in the order of `variables`. Discrete ones have values of the samples of the fit, see
            `result_.categories`.
        labels : ndarray of int (n_samples,)
            Components, 0 to rank - 1.
        """
        n_samples = checked_integer(n_samples, "n_samples", 1)
        checked_entries(n_samples, self.n_variables, "The samples")
        rng = as_generator(random_state)
        labels = rng.choice(self.rank, size=n_samples, p=self.weights)
        return np.stack([draw_values(each, labels, rng) for each in self.conditionals], axis=1), labels

    # ---- one variable ----

    def pdf_1d(self, x: ArrayLike, variable: Hashable, component: Component = None) -> Any:
        """Density of one variable, the others integrated out; of a discrete variable the probability of the value x.

        Parameters
        ----------
        x : array_like, Series or DataArray (...)
        variable : hashable
            Its name; or its position, where the names are the default ones ("x0", "x1", ...).
        component : int, "all" or None
            See the class.

        Returns
        -------
        ndarray, Series, DataFrame or DataArray (...) or (..., rank)
            Labelled as x is.
        """
        with np.errstate(over="ignore"):
            values = self._of(variable).pdf(self._points(x, variable))
        values = finite(values, "The density exceeds the largest float64; use logpdf_1d.")
        return labelled_points(x, self._select(values, component), "density")

    def logpdf_1d(self, x: ArrayLike, variable: Hashable, component: Component = None) -> Any:
        """Logarithm of the density of one variable; arguments as for `pdf_1d`."""
        logs = self._of(variable).logpdf(self._points(x, variable))
        chosen = logsumexp(logs, axis=-1, b=self.weights) if component is None else self._select(logs, component)
        return labelled_points(x, np.asarray(chosen), LOG_DENSITY)

    def cdf_1d(self, x: ArrayLike, variable: Hashable, component: Component = None) -> Any:
        """Distribution function of one variable; arguments as for `pdf_1d`, x may be infinite.

        Of a discrete variable the share of values up to x, with a step at each of them.
        """
        values = self._of(variable).cdf(self._points(x, variable, infinite=True))
        if component is not None:
            return labelled_points(x, self._select(values, component), PROBABILITY)
        # Added up in the same order for every point, which a matrix product does not promise, so that rounding keeps
        # the order of two points.
        total = np.zeros(values.shape[:-1])
        for r, weight in enumerate(self.weights):
            total += weight * values[..., r]
        return labelled_points(x, np.minimum(total, 1.0), PROBABILITY)

    def quantile_1d(self, q: ArrayLike, variable: Hashable, component: Component = None) -> Any:
        """Value below which a share q of one variable lies: the inverse of `cdf_1d`.

        Of a discrete variable the smallest of its values up to which that share lies.

        Parameters
        ----------
        q : array_like, Series or DataArray (...)
            Strictly between 0 and 1: at 0 and 1 the quantiles are infinite.
        variable : hashable
        component : int, "all" or None

        Returns
        -------
        ndarray, Series, DataFrame or DataArray (...) or (..., rank)
            Labelled as q is.
        """
        shares = points(q)
        if not np.all((shares > 0) & (shares < 1)):
            raise InvalidInputError(
                f"q ranges from {shares.min():.6g} to {shares.max():.6g}; expected shares strictly between 0 and 1."
            )
        conditionals = self._of(variable)
        flat = shares.ravel()
        if component is None:
            found = mixture_quantile(conditionals, self.weights, flat).reshape(shares.shape)
            return labelled_points(q, found, "quantile")
        chosen = range(self.rank) if is_all(component) else [component_number(component, self.rank)]
        columns = np.stack([conditionals.quantile(flat, r) for r in chosen], axis=-1)
        shape = (*shares.shape, self.rank) if is_all(component) else shares.shape
        return labelled_points(q, columns.reshape(shape), "quantile")

    # ---- moments ----

    def mean(self, component: Component = None) -> Any:
        """Expectation of every variable.

        Returns
        -------
        ndarray, Series, DataFrame or DataArray (n_variables,) or (n_variables, rank)
            Labelled as the samples of the fit were, see the class.
        """
        values = self._select(np.stack([each.mean() for each in self.conditionals]), component)
        return labelled_moments(values, self.variables, self.container, "mean")

    def var(self, component: Component = None) -> Any:
        """Variance of every variable, (n_variables,) or (n_variables, rank), labelled as `mean` is."""
        with np.errstate(over="ignore"):
            values = self._within()
            if component is None:
                values = finite((values + self._deviations() ** 2) @ self.weights, _VARIANCE_OVERFLOWS)
            else:
                values = self._select(values, component)
        return labelled_moments(values, self.variables, self.container, "variance")

    def cov(self) -> Any:
        """Covariance matrix of the mixture (n_variables, n_variables), labelled as `mean` is.

        It is diagonal within a component.
        """
        deviations = self._deviations()
        with np.errstate(over="ignore", invalid="ignore"):
            between = finite((deviations * self.weights) @ deviations.T, _VARIANCE_OVERFLOWS)
        values = between + np.diag(self._within() @ self.weights)
        return labelled_matrix(values, self.variables, self.container, "covariance")

    # ---- other mixtures ----

    def marginal(self, variables: Sequence[Hashable] | Hashable) -> MixtureDensity:
        """Density of some of the variables, the others integrated out.

        Parameters
        ----------
        variables : name, or sequence of names
            In the order wanted.
        """
        return self._reduced(self.weights, variable_positions(variables, self.variables))

    def conditional(self, given: Mapping[Hashable, float]) -> MixtureDensity:
        """Density of the other variables, given the values of some.

        Parameters
        ----------
        given : mapping from name to value
            Finite numbers; at least one variable must remain.

        Returns
        -------
        MixtureDensity
            Of the remaining variables, in their order. The components are the same, their weights are the posterior
            probabilities given the values.
        """
        if not isinstance(given, Mapping):
            raise InvalidTypeError(f"given is {type(given).__name__}; expected a mapping from variable to value.")
        positions = variable_positions(list(given), self.variables) if given else []
        rest = [n for n in range(self.n_variables) if n not in positions]
        if not rest:
            raise InvalidInputError("All variables are given; expected at least one to remain.")
        row = np.full((1, self.n_variables), np.nan)
        for n, value in zip(positions, given.values(), strict=True):
            point = self._points(value, self.variables[n])
            if point.size != 1:
                raise InvalidInputError(f"A given value has shape {point.shape}; expected one number per variable.")
            row[0, n] = point.item()
        return self._reduced(joint_to_posterior(self._log_joint(row), self.weights)[0], rest)

    # ---- inside ----

    def _log_joint(self, values: np.ndarray) -> np.ndarray:
        """Logarithm of w_r prod_n f_n(x_n | r), the product over the observed entries."""
        with np.errstate(divide="ignore"):
            log_weights = np.log(self.weights)
        joint = np.tile(log_weights, (len(values), 1))
        n_rows = max(1, _CHUNK_CELLS // self.rank)
        grids = {n: each for n, each in enumerate(self.conditionals) if isinstance(each, GridConditionals)}
        for start in range(0, len(values), n_rows):
            rows = slice(start, start + n_rows)
            block = joint[rows]
            size = max(1, n_rows // len(block))  # few samples: many variables at a time
            for some in (list(grids)[first : first + size] for first in range(0, len(grids), size)):
                columns = values[rows, some].T
                missing = np.isnan(columns)
                logs = GridConditionals.each_logpdf([grids[n] for n in some], np.where(missing, 0.0, columns))
                logs[missing] = 0.0
                block += logs.sum(axis=0)
            for n in sorted({*range(self.n_variables)} - grids.keys()):
                observed = ~np.isnan(values[rows, n])
                block[observed] += self.conditionals[n].logpdf(values[rows, n][observed])
        return joint

    def _within(self) -> np.ndarray:
        """Variances of the components (n_variables, rank); those of densities are positive."""
        with np.errstate(over="ignore"):
            return finite(np.stack([each.variance() for each in self.conditionals]), _VARIANCE_OVERFLOWS)

    def _deviations(self) -> np.ndarray:
        """Means of the components less that of the mixture (n_variables, rank)."""
        means = np.stack([each.mean() for each in self.conditionals])
        return means - (means @ self.weights)[:, None]

    def _reduced(self, weights: np.ndarray, positions: Sequence[int]) -> MixtureDensity:
        return MixtureDensity(  # of a subclass, too, which may be made of something else
            weights=weights,
            conditionals=tuple(self.conditionals[n] for n in positions),
            variables=tuple(self.variables[n] for n in positions),
            clipped_mass=None if self.clipped_mass is None else self.clipped_mass[list(positions)],
            container=self.container,
            value_labels=self.value_labels,
        )

    def _select(self, values: np.ndarray, component: Component) -> np.ndarray:
        """Mixture, one component, or all, of values (..., rank)."""
        if component is None:
            return np.asarray(values @ self.weights)
        return values if is_all(component) else values[..., component_number(component, self.rank)]

    def _of(self, variable: Hashable) -> ConditionalDensities:
        return self.conditionals[variable_position(variable, self.variables)]

    def _points(self, x: Any, variable: Hashable, infinite: bool = False) -> np.ndarray:
        """Points of a variable, with codes for labels."""
        name = self.variables[variable_position(variable, self.variables)]
        labels = self.value_labels.get(name)
        return points(x if labels is None else labels.points(x, name), infinite)


def draw_values(conditionals: ConditionalDensities, components: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One value of a variable for every component asked for (n_samples,), by inversion."""
    shares = rng.random(len(components))
    values = np.empty(len(components))
    for r in np.unique(components):
        chosen = components == r
        values[chosen] = conditionals.quantile(shares[chosen], int(r))
    return values


def mixture_quantile(conditionals: ConditionalDensities, weights: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Value below which a share q of the mixture lies; the smallest value up to which it lies if discrete.

    Parameters
    ----------
    conditionals : ConditionalDensities
        Of rank components; proper densities, or probabilities of values.
    weights : ndarray (rank,)
        Sums to one.
    q : ndarray (n_points,)
        Strictly between 0 and 1.

    Returns
    -------
    ndarray (n_points,)
    """
    if isinstance(conditionals, DiscreteConditionals):
        return conditionals.mixed(weights).quantile(q, 0)
    # The mixture's quantile lies between those of its components. Newton's method inside that bracket, in turns with
    # bisection, so that a poor step costs little and the end is certain.
    quantiles = np.stack([conditionals.quantile(q, r) for r in range(len(weights)) if weights[r] > 0])
    low = quantiles.min(axis=0)
    high = quantiles.max(axis=0)
    x = 0.5 * low + 0.5 * high
    for step in range(_MAX_STEPS):
        excess = conditionals.cdf(x) @ weights - q
        low = np.where(excess <= 0, x, low)
        high = np.where(excess >= 0, x, high)
        following = 0.5 * low + 0.5 * high
        if step % 2:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # far out the density is zero
                newton = x - excess / (conditionals.pdf(x) @ weights)
            following = np.where((newton >= low) & (newton <= high), newton, following)
        # half of x, since the spacing of the largest floats overflows
        if np.all(np.abs(following - x) <= 4.0 * np.spacing(0.5 * np.abs(x))):
            return following
        x = following
    return x
