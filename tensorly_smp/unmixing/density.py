"""The density of a linear mixture of sources whose density is a mixture of products."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats.qmc import Sobol

from tensorly_smp._support.checks import RandomState
from tensorly_smp._support.representations import html_weights, listed, shown
from tensorly_smp.densities.conditionals import (
    ConditionalDensities,
    DiscreteConditionals,
    GridConditionals,
    StudentBackground,
)
from tensorly_smp.densities.mixture_density import Component, MixtureDensity, SampleDensity
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.samples.codebook import ValueLabels
from tensorly_smp.samples.labels import labelled_matrix, labelled_moments
from tensorly_smp.samples.reading import read_samples

_REFUSED = (
    "{} is not available of a density with an unmixing matrix: given a component, the variables depend on each other, "
    "and the integral over the others has no closed form. {}"
)


@dataclass(frozen=True, eq=False, repr=False)
class UnmixedDensity(SampleDensity):
    """Density of x where z = W x has a mixture of product densities: f(x) = abs(det W) sum_r w_r prod_n f_n((W x)_n).

    Joint density, posterior, samples, means and covariances are exact. `pdf_1d`, `cdf_1d` and `quantile_1d` are
    numeric: the densities of the sources are convolved on a grid of 4096 cells. `marginal` and `conditional` are
    refused with an error that says what to do instead, and `impute` for a variable that is mixed.

    Of a rounded variable, the joint density has the probability of the interval that is rounded to its value, as a
    discrete variable has the probability of its value. The integral is a mean over 32 points of the intervals. Samples
    are rounded; means and covariances are those before rounding.

    Attributes
    ----------
    sources : MixtureDensity
        Density of the sources and of the variables that are not mixed, under the names of the variables.
    unmixing : ndarray (n_variables, n_variables)
        W; rows and columns of variables that are not mixed are those of the identity matrix.
    mixed : tuple of int
        Positions of the variables that are mixed. Of the others, a row of W that has entries beside the diagonal is of
        a variable that those determine: its source has a single value.
    rounding : ndarray (n_variables,)
        Step that a mixed variable is rounded to, of which its values are multiples; zero for the others.
    container : {"array", "dataframe", "dataarray", "polars", "pyarrow"}
        What moments are labelled as, see :class:`tensorly_smp.MixtureDensity`.
    """

    sources: MixtureDensity
    unmixing: np.ndarray
    mixed: tuple[int, ...]
    rounding: np.ndarray
    container: str = "array"
    _projected: dict[int, ConditionalDensities] = field(default_factory=dict, init=False)

    def __repr__(self) -> str:
        return f"UnmixedDensity({self.n_variables} variables, {len(self.mixed)} of them mixed, {self.rank} components)"

    def _repr_html_(self) -> str:
        pairs = [("variables", listed(self.variables)), ("mixed", f"{len(self.mixed)} of {self.n_variables}")]
        return html_weights("UnmixedDensity", pairs, self.weights)

    @property
    def weights(self) -> np.ndarray:  # type: ignore[override]
        """Weights (rank,) of the components."""
        return self.sources.weights

    @property
    def variables(self) -> tuple[Hashable, ...]:  # type: ignore[override]
        """Names of the variables."""
        return self.sources.variables

    @cached_property
    def mixing(self) -> np.ndarray:
        """Inverse (n_variables, n_variables) of W."""
        return np.linalg.inv(self.unmixing)

    @cached_property
    def log_det(self) -> float:
        """Logarithm of abs(det W), which turns a density of sources into one of variables."""
        return float(np.linalg.slogdet(self.unmixing)[1])

    @cached_property
    def determined(self) -> tuple[int, ...]:
        """Positions of the variables that mixed ones determine."""
        others = np.setdiff1d(np.arange(self.n_variables), self.mixed)
        return tuple(others[(self.unmixing[others][:, self.mixed] != 0).any(axis=1)].tolist())

    def to_sources(self, values: np.ndarray) -> np.ndarray:
        """Sources (n_samples, n_variables) of samples; missing entries of variables that are not mixed stay missing.

        Raises
        ------
        InvalidInputError
            A mixed variable is missing in some sample.
        """
        mixed = list(self.mixed)
        incomplete = np.isnan(values[:, mixed]).any(axis=1)
        if incomplete.any():
            raise InvalidInputError(
                f"{int(incomplete.sum())} of {len(values)} samples lack a variable that is mixed (NaN); expected "
                "complete ones, because every source depends on all of them. Leave these samples out, or fill them in "
                'with a product model first: SmoothProductMixture(...).fit(X).impute(X, method="draw").'
            )
        sources = np.array(values)
        sources[:, mixed] = values[:, mixed] @ self.unmixing[np.ix_(mixed, mixed)].T
        for n in self.determined:
            constant = float(self.sources.conditionals[n].mean()[0])
            terms = np.concatenate([values[:, [n]], values[:, mixed] * self.unmixing[n, mixed]], axis=1)
            sources[:, n] = terms.sum(axis=1)
            is_equal = np.abs(sources[:, n] - constant) <= EQUAL * np.abs(terms).sum(axis=1)
            sources[is_equal, n] = constant
        return sources

    def _to_variables(self, sources: np.ndarray) -> np.ndarray:
        """Variables (n_samples, n_variables) of sources, rounded."""
        mixed = list(self.mixed)
        values = np.array(sources)
        values[:, mixed] = sources[:, mixed] @ self.mixing[np.ix_(mixed, mixed)].T
        rounded = np.flatnonzero(self.rounding)
        values[:, rounded] = np.round(values[:, rounded] / self.rounding[rounded]) * self.rounding[rounded] + 0.0
        determined = list(self.determined)
        values[:, determined] -= values[:, mixed] @ self.unmixing[np.ix_(determined, mixed)].T
        return values

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> tuple[np.ndarray, np.ndarray]:
        """Draw samples (n_samples, n_variables) and the components (n_samples,) they came from."""
        drawn, labels = self.sources.sample(n_samples, random_state)
        return self._to_variables(drawn), labels

    def mean(self, component: Component = None) -> Any:
        """Expectation of every variable, (n_variables,) or (n_variables, rank) for "all"; labelled as the samples."""
        values = self.mixing @ np.asarray(self.sources.mean(component))
        return labelled_moments(values, self.variables, self.container, "mean")

    def var(self, component: Component = None) -> Any:
        """Variance of every variable, (n_variables,) or (n_variables, rank) for "all"; labelled as the samples."""
        if component is None:
            values = np.diag(self._cov(None)).copy()
        else:
            values = self.mixing**2 @ np.asarray(self.sources.var(component))
        return labelled_moments(values, self.variables, self.container, "variance")

    def cov(self, component: int | None = None) -> Any:
        """Covariance matrix (n_variables, n_variables) of the mixture or of one component; labelled as the samples."""
        return labelled_matrix(self._cov(component), self.variables, self.container, "covariance")

    def _cov(self, component: int | None) -> np.ndarray:
        sources = self.sources.cov() if component is None else np.diag(np.asarray(self.sources.var(component)))
        return np.asarray(self.mixing @ np.asarray(sources) @ self.mixing.T)

    def pdf_1d(self, x: ArrayLike, variable: Hashable, component: Component = None) -> Any:
        """Density of one variable, numerically; arguments as of ``MixtureDensity.pdf_1d``."""
        return self._one(variable).pdf_1d(x, variable, component)

    def logpdf_1d(self, x: ArrayLike, variable: Hashable, component: Component = None) -> Any:
        """Logarithm of the density of one variable, numerically."""
        return self._one(variable).logpdf_1d(x, variable, component)

    def cdf_1d(self, x: ArrayLike, variable: Hashable, component: Component = None) -> Any:
        """Distribution function of one variable, numerically."""
        return self._one(variable).cdf_1d(x, variable, component)

    def quantile_1d(self, q: ArrayLike, variable: Hashable, component: Component = None) -> Any:
        """Value below which a share q of one variable lies, numerically."""
        return self._one(variable).quantile_1d(q, variable, component)

    def marginal(self, variables: Sequence[Hashable] | Hashable) -> NoReturn:
        """Raise an error that says what to do instead; see the class."""
        raise InvalidInputError(_REFUSED.format("marginal", "Use pdf_1d for one variable, or sample and keep columns."))

    def conditional(self, given: Mapping[Hashable, float]) -> NoReturn:
        """Raise an error that says what to do instead; see the class."""
        raise InvalidInputError(_REFUSED.format("conditional", "Use a product model, or weight samples of this one."))

    def impute(self, X: Any, method: str = "mean", random_state: RandomState = None) -> Any:
        """Fill missing entries of variables that are not mixed in; arguments as of ``MixtureDensity.impute``.

        Raises
        ------
        InvalidInputError
            A mixed variable is missing in some sample.
        """
        samples = read_samples(X, self.variables, value_labels=self.value_labels)
        filled = np.array(samples.values)
        imputed = self._to_variables(np.asarray(self.sources.impute(self.to_sources(filled), method, random_state)))
        return samples.labels.wrap_variables(np.where(np.isnan(filled), imputed, filled))

    def _log_joint(self, values: np.ndarray) -> np.ndarray:
        sources = self.to_sources(values)
        rounded = np.flatnonzero(self.rounding)
        if not len(rounded):
            return np.asarray(self.sources.log_joint(sources) + self.log_det)
        # Every variable has one point in each of equal parts of its interval, all pairs of variables nearly so.
        points = Sobol(len(rounded), scramble=False).random(N_POINTS) + 0.5 / N_POINTS - 0.5
        mixed = list(self.mixed)
        shifts = (points * self.rounding[rounded]) @ self.unmixing[mixed][:, rounded].T
        total = np.full((len(values), self.rank), -np.inf)
        moved = np.array(sources)
        for shift in shifts:
            moved[:, mixed] = sources[:, mixed] + shift
            total = np.logaddexp(total, self.sources.log_joint(moved))
        return total + (np.log(self.rounding[rounded]).sum() + self.log_det - np.log(N_POINTS))

    def _one(self, variable: Hashable) -> MixtureDensity:
        """Mixture of one variable."""
        if variable not in self.variables:
            raise InvalidInputError(f"Variable {shown(variable)} is unknown; expected one of {listed(self.variables)}.")
        n = self.variables.index(variable)
        if n not in self.mixed + self.determined:
            return self.sources.marginal([variable])
        if n not in self._projected:
            projected = project(self.sources.conditionals, self.mixing[n])
            self._projected[n] = rounded_conditionals(projected, self.rounding[n]) if self.rounding[n] else projected
        return MixtureDensity(self.weights, (self._projected[n],), (variable,))

    @property
    def value_labels(self) -> Mapping[Hashable, ValueLabels]:  # type: ignore[override]
        """Labels of the codes of variables of text and categories, which are not mixed."""
        return self.sources.value_labels


#: Points of the intervals of rounded variables, by which the density is integrated.
N_POINTS = 32
#: A variable that others determine differs from what it should be by no more than this, relative to the largest terms.
EQUAL = 1e-5
#: Cells of the grid, and how many standard deviations it reaches beyond the means of the components.
N_CELLS, REACH = 4096, 9.0
#: Share of the Student background, for what lies beyond the grid.
SHARE = 1e-4


def project(sources: Sequence[ConditionalDensities], coefficients: np.ndarray) -> GridConditionals:
    """Densities of sum_n coefficients_n z_n for independent z_n with given densities, of every component.

    Parameters
    ----------
    sources : sequence of ConditionalDensities (n,)
    coefficients : ndarray (n,)
        Not all zero.

    Returns
    -------
    GridConditionals
        Numeric: exact up to the width of a cell, a few thousandths of a standard deviation.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> from tensorly_smp.unmixing.density import project
    >>> X = smp.datasets.make_smooth_mixture("gaussian", 2000, 3, 2, random_state=0).X
    >>> density = smp.SmoothProductMixture(2, random_state=0).fit(X).density_
    >>> total = project(density.conditionals, np.ones(3))
    >>> bool(np.allclose(total.mean(), density.mean("all").sum(axis=0), rtol=1e-3))
    True
    """
    used = [(each, a) for each, a in zip(sources, coefficients.tolist(), strict=True) if a]
    means = sum(a * each.mean() for each, a in used)
    variances = sum(a * a * each.variance() for each, a in used)
    spread = np.sqrt(np.asarray(variances))
    low = float((means - REACH * spread).min())
    high = float((means + REACH * spread).max())
    width = (high - low) / N_CELLS
    rank = used[0][0].rank
    masses = np.empty((N_CELLS, rank))
    for r in range(rank):
        # Each source on cells about its own mean, so that no sum leaves the circle of the transform.
        transform = np.ones(N_CELLS // 2 + 1, dtype=complex)
        for each, a in used:
            edges = a * each.mean()[r] + width * (np.arange(N_CELLS + 1) - 0.5 * N_CELLS)
            below = each.cdf(edges / a)[:, r]
            below = below if a > 0 else 1.0 - below
            below[0], below[-1] = 0.0, 1.0
            transform = transform * np.fft.rfft(np.fft.ifftshift(np.diff(below)))
        total = np.fft.fftshift(np.fft.irfft(transform, N_CELLS))
        # A cell of the sum is centered half a cell beside the mean for every source: positions add up, cells are
        # counted from the middle.
        centers = means[r] + width * (np.arange(N_CELLS) - 0.5 * N_CELLS + 0.5 * len(used))
        wanted = low + width * (np.arange(N_CELLS) + 0.5)
        masses[:, r] = np.interp(wanted, centers, np.maximum(total, 0.0), left=0.0, right=0.0)
    masses /= masses.sum(axis=0)
    knots = np.arange(N_CELLS) + 0.5
    background = StudentBackground.matching((means - low) / width, 9.0 * variances / width**2)
    return GridConditionals.from_knots(low, width, knots, masses + 1e-300, background, SHARE)


def rounded_conditionals(conditionals: ConditionalDensities, step: float) -> DiscreteConditionals:
    """Probabilities of the multiples of a step, of a variable with these densities that is rounded to them."""
    reach = REACH * np.sqrt(conditionals.variance()).max()
    first = np.floor((conditionals.mean().min() - reach) / step)
    last = np.ceil((conditionals.mean().max() + reach) / step)
    multiples = np.arange(first, last + 1.0)
    below = conditionals.cdf((np.append(multiples, last + 1.0) - 0.5) * step)
    return DiscreteConditionals(multiples * step, np.diff(below, axis=0))
