"""Conditional densities of one variable, by kind: piecewise linear on a grid, and probabilities of values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from tensorly_smp._support.representations import short_repr
from tensorly_smp.samples.values import SINGLE, distance_of_equals, nearest

# Share of the background in every density. KL(true || learned) of sinc densities by benchmarks/densities.py sinc, the
# paper's cases Gaussian / GMM / Gamma / Laplace:
#                1000 samples               5000 samples               50 000 samples
#   0.001   0.346 0.372 0.541 0.408    0.088 0.088 0.352 0.196    0.014 0.032 0.468 0.226
#   0.01    0.311 0.348 0.502 0.370    0.081 0.091 0.347 0.187    0.014 0.039 0.468 0.224
#   0.05    0.277 0.356 0.467 0.323    0.077 0.134 0.344 0.174    0.017 0.089 0.467 0.217
# More helps small samples and harms densities with a gap in the middle.
BACKGROUND_SHARE = 0.01

# Arguments are limited to this many grid units, so that no later product overflows.
_FARTHEST = 1e300
_LARGEST = float(np.finfo(np.float64).max)
_TINY = float(np.finfo(np.float64).tiny)
# Smallest probability that `quantile` distinguishes from zero.
_LEAST_PROBABILITY = 1e-300
# In grid units. Bounds are limited to this: it is outside everything for any moment of interest, and finite.
_BEYOND = 1e150
# Variance of Student's t with four degrees of freedom, in its unit scale.
_UNIT_VARIANCE = 2.0
#: Bounds of a variable that has none.
NO_BOUNDS = (-np.inf, np.inf)


class ConditionalDensities(Protocol):
    """Interface to one variable that :class:`~tensorly_smp.densities.mixture_density.MixtureDensity` needs.

    New axes are last: for x of shape (...), values of all components have shape (..., rank).
    """

    @property
    def rank(self) -> int:
        """Number of components."""

    def pdf(self, x: np.ndarray) -> np.ndarray:
        """Densities (..., rank)."""

    def logpdf(self, x: np.ndarray) -> np.ndarray:
        """Logarithms of the densities (..., rank)."""

    def cdf(self, x: np.ndarray) -> np.ndarray:
        """Distribution functions (..., rank)."""

    def quantile(self, q: np.ndarray, component: int) -> np.ndarray:
        """Inverse (...) of the distribution function of one component."""

    def mean(self) -> np.ndarray:
        """Means (rank,)."""

    def variance(self) -> np.ndarray:
        """Variances (rank,)."""


@dataclass(frozen=True, eq=False)
class StudentBackground:
    """Student's t with four degrees of freedom, one per component.

    Of the densities on the whole line it is the one whose density, distribution function, quantile and partial moments
    are all elementary, that has a variance, and whose tails fall like a power: the logarithm of its density at a far
    outlier is moderate, so one wild entry neither overflows a sum of logarithms nor outvotes all other variables.

    With s = z / sqrt(4 + z^2) and z = (t - center)/scale: density 12 (4 + z^2)^(-5/2) / scale, distribution function
    1/2 + 3 (s - s^3/3)/4.

    Attributes
    ----------
    center, scale : ndarray (rank,)
    """

    center: np.ndarray
    scale: np.ndarray

    __repr__ = short_repr

    @classmethod
    def matching(cls, mean: np.ndarray, variance: np.ndarray) -> StudentBackground:
        """Background of given means and variances."""
        # A variance that has underflowed still needs a scale to divide by.
        return cls(mean, np.sqrt(np.maximum(variance, np.finfo(np.float64).tiny) / _UNIT_VARIANCE))

    def logpdf(self, t: np.ndarray) -> np.ndarray:
        """Log-density (..., rank) at t (...); finite for every finite t."""
        z = (t[..., None] - self.center) / self.scale
        # hypot, so that z^2 does not overflow
        return np.log(12.0) - 5.0 * np.log(np.hypot(2.0, z)) - np.log(self.scale)

    def pdf(self, t: np.ndarray) -> np.ndarray:
        """Density (..., rank) at t (...); zero where it is less than all floats."""
        with np.errstate(over="ignore", under="ignore"):
            z = (t[..., None] - self.center) / self.scale
            inverse = 1.0 / (4.0 + z * z)
            return 12.0 * inverse * inverse * np.sqrt(inverse) / self.scale

    def below(self, t: np.ndarray) -> np.ndarray:
        """Probability (..., rank) of the values below t (...), to full relative precision in the lower tail."""
        return _lower_tail((t[..., None] - self.center) / self.scale)

    def above(self, t: np.ndarray) -> np.ndarray:
        """Probability (..., rank) of the values above t (...), to full relative precision in the upper tail."""
        return _lower_tail((self.center - t[..., None]) / self.scale)

    def tail_moments(self, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
        """First and second moment about `center`, each (rank,), of what is below `low` and above `high`."""
        below = (low - self.center) / self.scale
        above = (high - self.center) / self.scale
        # The first moment of z above c is (1/2)(1 + c^2/4)^(-3/2), an even function of c.
        first = 4.0 * (np.hypot(2.0, above) ** -3.0 - np.hypot(2.0, below) ** -3.0)
        second = _upper_second_moment(above) + _upper_second_moment(-below)
        return self.scale * first, self.scale**2 * second


@dataclass(frozen=True, eq=False)
class GridConditionals:
    """Densities of one variable given each component, linear in every cell of a grid.

    A density is (1 - share) g + share b: g is non-negative on the grid and zero outside, b is the background of each
    component on the whole line. Inside the grid the sum is kept as one piecewise linear function (it may jump between
    cells, so that histograms fit in), outside it is share b exactly. Integral, distribution function, quantile and
    moments are closed forms everywhere. Make one with :meth:`from_knots` or :meth:`from_cells`.

    Attributes
    ----------
    origin, unit : float
        A value x of the variable lies at t = (x - origin)/unit; all else is in t, so that neither a far origin nor a
        very small unit costs digits.
    knots : ndarray (n_knots,)
        Strictly increasing, in t.
    left, right : ndarray (n_knots - 1, rank)
        Density at the two ends of every cell, per unit of t; positive.
    background : StudentBackground
        In t.
    share : float or ndarray (rank,)
        Share of the background, positive.
    bounds : (float, float)
        Bounds of the variable, at the ends of the grid or beyond them; infinite where there are none. There is nothing
        beyond a bound, so the density there is zero (its logarithm that of the smallest float, to be finite).
    """

    origin: float
    unit: float
    knots: np.ndarray
    left: np.ndarray
    right: np.ndarray
    background: StudentBackground
    share: float | np.ndarray = BACKGROUND_SHARE
    bounds: tuple[float, float] = NO_BOUNDS

    __repr__ = short_repr

    @cached_property
    def _cumulative(self) -> np.ndarray:
        """Distribution functions (n_knots, rank) at the knots."""
        below = self._outside(self.knots[[0, -1]])[0][0]
        return _cumulated(np.diff(self.knots)[:, None], self.left, self.right, below)

    @classmethod
    def from_knots(
        cls,
        origin: float,
        unit: float,
        knots: np.ndarray,
        values: np.ndarray,
        background: StudentBackground,
        share: float | np.ndarray = BACKGROUND_SHARE,
        bounds: tuple[float, float] = NO_BOUNDS,
    ) -> GridConditionals:
        """Densities that are continuous on the grid.

        Parameters
        ----------
        origin, unit : float
            As for the class.
        knots : ndarray (n_knots,)
        values : ndarray (n_knots, rank)
            The part g at the knots, non-negative; any positive multiple of a density.
        background : StudentBackground
        share : float or ndarray (rank,)
        bounds : (float, float)
            As for the class.
        """
        origins = np.array([origin])
        units = np.array([unit])
        background = StudentBackground(background.center[None], background.scale[None])
        return cls.each_from_knots(origins, units, knots[:, None], values[:, None], background, share, [bounds])[0]

    @classmethod
    def each_from_knots(
        cls,
        origins: np.ndarray,
        units: np.ndarray,
        knots: np.ndarray,
        values: np.ndarray,
        background: StudentBackground,
        share: float | np.ndarray,
        bounds: Sequence[tuple[float, float]],
    ) -> list[GridConditionals]:
        """Densities of several variables at once, as :meth:`from_knots` makes those of one.

        Parameters
        ----------
        origins, units : ndarray (n_variables,)
        knots : ndarray (n_knots, n_variables)
        values : ndarray (n_knots, n_variables, rank)
        background : StudentBackground
            Arrays (n_variables, rank).
        share : float or ndarray (rank,)
        bounds : sequence of (float, float)
        """
        widths = np.diff(knots, axis=0)[:, :, None]
        inside = values * ((1.0 - share) / _trapezoid(values, widths)) + share * background.pdf(knots)
        # Linear pieces change the integral of the background a little.
        reach = _reach(origins, units, np.transpose(bounds))
        below, above = _tails(background, share, knots[[0, -1]], reach)
        inside *= (1.0 - below[0] - above[1]) / _trapezoid(inside, widths)
        np.maximum(inside, _TINY, out=inside)  # the logarithm of a density stays finite
        cumulated = _cumulated(widths, inside[:-1], inside[1:], below[0]).transpose(1, 0, 2).copy()
        inside = inside.transpose(1, 0, 2).copy()
        backgrounds = map(StudentBackground, background.center, background.scale)
        lines = origins.tolist(), units.tolist(), knots.T.copy(), inside[:, :-1], inside[:, 1:], backgrounds
        found = [cls(*line) for line in zip(*lines, [share] * len(bounds), bounds, strict=True)]
        for each, own in zip(found, cumulated, strict=True):
            each.__dict__["_cumulative"] = own
        return found

    @classmethod
    def from_cells(
        cls,
        origin: float,
        unit: float,
        knots: np.ndarray,
        probabilities: np.ndarray,
        background: StudentBackground,
        share: float = BACKGROUND_SHARE,
    ) -> GridConditionals:
        """Densities that are constant in every cell.

        Parameters
        ----------
        origin, unit : float
            As for the class.
        knots : ndarray (n_cells + 1,)
        probabilities : ndarray (n_cells, rank)
            Probability of every cell under g; columns sum to one.
        background : StudentBackground
        share : float
        """
        below = background.below(knots)
        above = background.above(knots)
        widths = np.diff(knots)[:, None]
        # Difference of the smaller of the two tails, so that little cancels; in a very narrow cell all of it does, but
        # there the density is constant.
        inner = np.where(below[1:] <= 0.5, np.diff(below, axis=0), -np.diff(above, axis=0))
        middle = widths * background.pdf(knots[:-1] + 0.5 * np.diff(knots))
        masses = (1.0 - share) * probabilities + share * np.where(inner > 0, inner, middle)
        heights = np.maximum(masses / widths, _TINY)  # the logarithm of a density stays finite
        return cls(origin, unit, knots, heights, heights, background, share)

    @property
    def rank(self) -> int:
        """Number of components."""
        return self.left.shape[1]

    def pdf(self, x: np.ndarray) -> np.ndarray:
        """Densities (..., rank) at x (...)."""
        return np.exp(self.logpdf(x))

    def logpdf(self, x: np.ndarray) -> np.ndarray:
        """Log-densities (..., rank) at x (...); finite for every finite x."""
        return self.each_logpdf([self], np.reshape(x, (1, -1))).reshape(*np.shape(x), self.rank)

    @classmethod
    def each_logpdf(cls, grids: Sequence[GridConditionals], x: np.ndarray) -> np.ndarray:
        """Log-densities (n_variables, n_points, rank) of several variables at points x (n_variables, n_points)."""
        t, cells, step, width, outside = cls._locate(grids, x)
        left = np.concatenate([each.left for each in grids])
        right = np.concatenate([each.right for each in grids])
        values = (right - left)[cells]
        values *= (step / width)[..., None]
        values += left[cells]
        if (lost := values <= 0.0).any():  # at the low end of a cliff, by rounding
            values[lost] = np.minimum(left, right)[cells][lost]
        np.log(values, out=values)
        for n in np.flatnonzero(outside.any(axis=1)).tolist():
            own = outside[n]
            values[n, own] = np.log(grids[n].share) + grids[n].background.logpdf(t[n, own])
        values -= np.log([each.unit for each in grids])[:, None, None]
        low, high = np.transpose([each.bounds for each in grids])[:, :, None]
        values[(x < low) | (x > high)] = np.log(_TINY)
        return values

    def cdf(self, x: np.ndarray) -> np.ndarray:
        """Distribution functions (..., rank) at x (...), which may be infinite."""
        return self.each_cdf([self], np.reshape(x, (1, -1))).reshape(*np.shape(x), self.rank)

    @classmethod
    def each_cdf(cls, grids: Sequence[GridConditionals], x: np.ndarray) -> np.ndarray:
        """Distribution functions (n_variables, n_points, rank) of several variables at x (n_variables, n_points)."""
        t, cells, step, width, outside = cls._locate(grids, x)
        left = np.concatenate([each.left for each in grids])[cells]
        right = np.concatenate([each.right for each in grids])[cells]
        start = np.concatenate([each._cumulative[:-1] for each in grids])[cells]
        end = np.concatenate([each._cumulative[1:] for each in grids])[cells]
        width = width[..., None]
        step = step[..., None]
        rest = width - step
        half_slope = 0.5 * np.abs(right - left) / width
        # Monotone to the last digit: mass from the start of the cell where the density rises, and less the mass up to
        # its end where it falls, is made of steps that rounding keeps in order.
        rising = start + step * (left + step * half_slope)
        falling = end - rest * (right + rest * half_slope)
        values = np.clip(np.where((right >= left) | (step == 0.0), rising, falling), start, end)
        for n in np.flatnonzero(outside.any(axis=1)).tolist():
            own = outside[n]
            below, above = grids[n]._outside(t[n, own])
            beyond = np.maximum(1.0 - above, grids[n]._cumulative[-1])
            values[n, own] = np.where(t[n, own, None] < grids[n].knots[0], below, beyond)
        low, high = np.transpose([each.bounds for each in grids])[:, :, None]
        values[x <= low] = 0.0
        values[x >= high] = 1.0
        return np.clip(values, 0.0, 1.0)

    def quantile(self, q: np.ndarray, component: int) -> np.ndarray:
        """Value (...) of one component below which a share q (...) lies, 0 < q < 1."""
        q = np.asarray(q, dtype=np.float64)
        cumulative = self._cumulative[:, component]
        # that it lies in, or the nearest
        cell = np.clip(np.searchsorted(cumulative, q, side="right") - 1, 0, len(self.knots) - 2)
        width = self.knots[cell + 1] - self.knots[cell]
        left = self.left[cell, component]
        right = self.right[cell, component]
        # Root of left y + (right - left)/(2 width) y^2 = mass, in the form that does not cancel; densities are relative
        # to the larger end of the cell, so that the square of a high one does not overflow.
        top = np.maximum(left, right)
        start = left / top
        end = right / top
        mass = np.clip(q - cumulative[cell], 0.0, 0.5 * width * (left + right)) / np.maximum(width * top, _TINY)
        root = np.sqrt(np.maximum(start * start + 2.0 * (end - start) * mass, 0.0))
        t = np.asarray(self.knots[cell] + width * np.minimum(2.0 * mass / (start + root), 1.0))
        low = q < cumulative[0]
        high = q > cumulative[-1]
        share = np.broadcast_to(self.share, (self.rank,))[component]
        reach = _reach(self.origin, self.unit, self.bounds)
        below = self.background.below(reach)[0, component]
        above = self.background.above(reach)[1, component]
        center = self.background.center[component]
        scale = self.background.scale[component]
        t[low] = center - scale * upper_quantile(np.maximum(q[low], _LEAST_PROBABILITY) / share + below)
        t[high] = center + scale * upper_quantile((1.0 - q[high]) / share + above)
        with np.errstate(over="ignore"):
            x = self.origin + self.unit * t
        return np.clip(x, max(self.bounds[0], -_LARGEST), min(self.bounds[1], _LARGEST))

    def mean(self) -> np.ndarray:
        """Means (rank,)."""
        return self.origin + self.unit * (self.background.center + self._central_moments()[0])

    def variance(self) -> np.ndarray:
        """Variances (rank,)."""
        first, second = self._central_moments()
        # Squares alone may overflow or vanish where the product does not.
        return self.unit * (self.unit * (second - first**2))

    def _central_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """First and second moment (rank,) of t about the center of the background."""
        width = np.diff(self.knots)[:, None]
        start = self.knots[:-1, None] - self.background.center
        mass = 0.5 * width * (self.left + self.right)
        inner_first = width**2 * (self.left + 2.0 * self.right) / 6.0  # about the start of the cell
        inner_second = width**3 * (self.left + 3.0 * self.right) / 12.0
        first = (start * mass + inner_first).sum(axis=0)
        second = (start**2 * mass + 2.0 * start * inner_first + inner_second).sum(axis=0)
        tail_first, tail_second = self.background.tail_moments(self.knots[0], self.knots[-1])
        low, high = _reach(self.origin, self.unit, self.bounds)
        beyond_first, beyond_second = self.background.tail_moments(low, high)
        first = first + self.share * (tail_first - beyond_first)
        return first, second + self.share * (tail_second - beyond_second)

    def _outside(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Probability (..., rank) below and above points t (...) outside the grid, up to the bounds."""
        return _tails(self.background, self.share, t, _reach(self.origin, self.unit, self.bounds))

    @staticmethod
    def _locate(
        grids: Sequence[GridConditionals], x: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Position in t, cell among those of all variables, distance from its start, its width, whether outside.

        Each like x. Cell and distance of points outside are those of the nearest end of the grid.
        """
        origins = np.array([[each.origin] for each in grids])
        units = np.array([[each.unit] for each in grids])
        with np.errstate(over="ignore"):
            t = np.clip((x - origins) / units, -_FARTHEST, _FARTHEST)
        starts = np.concatenate([each.knots[:-1] for each in grids])
        ends = np.concatenate([each.knots[1:] for each in grids])
        sizes = np.array([[len(each.left)] for each in grids])
        last_cells = np.cumsum(sizes)[:, None] - 1
        first_cells = last_cells - sizes + 1
        cells = first_cells + np.clip(t, 0, sizes - 1).astype(np.intp)  # where knots are 0, 1, 2, ...
        is_wrong = ((t < starts[cells]) & (cells > first_cells)) | ((t >= ends[cells]) & (cells < last_cells))
        for n in np.flatnonzero(is_wrong.any(axis=1)).tolist():
            place = np.searchsorted(grids[n].knots, t[n], side="right") - 1
            cells[n] = np.clip(place + first_cells[n], first_cells[n], last_cells[n])
        first = starts[first_cells]
        last = ends[last_cells]
        is_outside = (t < first) | (t > last)
        starts = starts[cells]
        return t, cells, np.clip(t, first, last) - starts, ends[cells] - starts, is_outside


def _trapezoid(values: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Integral (..., rank) of a piecewise linear function."""
    return 0.5 * (widths * (values[1:] + values[:-1])).sum(axis=0)


def _cumulated(widths: np.ndarray, left: np.ndarray, right: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Distribution functions (n_knots, ..., rank) at the knots, from the probability (..., rank) below the first."""
    found = np.empty((len(left) + 1, *left.shape[1:]))
    found[0] = below
    np.cumsum(0.5 * widths * (left + right), axis=0, out=found[1:])
    found[1:] += below
    return found


@np.errstate(over="ignore")
def _reach(
    origin: float | np.ndarray, unit: float | np.ndarray, bounds: tuple[float, float] | np.ndarray
) -> np.ndarray:
    """Bounds (2, ...) in t, finite. By the formula of `_locate`: a knot at a bound is at the same t."""
    return np.clip((np.asarray(bounds) - origin) / unit, -_BEYOND, _BEYOND)


def _tails(
    background: StudentBackground, share: float | np.ndarray, t: np.ndarray, reach: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Probability (..., rank) below and above points t (...) outside the grid, up to the bounds (2, ...)."""
    below = background.below(t) - background.below(reach)[0]
    above = background.above(t) - background.above(reach)[1]
    return share * np.maximum(below, 0.0), share * np.maximum(above, 0.0)


def _lower_tail(z: np.ndarray) -> np.ndarray:
    """Probability below z: g^2 (3 - g)/4 with g = 1 - |s| for z < 0.

    With a = |z|/2, g = 1/(1 + a^2 + a sqrt(1 + a^2)): nothing cancels, and every step to it grows with a, so that
    rounding keeps the order of two points (the factor 3 - g may cost the last digit of the tail).
    """
    a = 0.5 * np.abs(z)
    with np.errstate(over="ignore", under="ignore"):
        gap = 1.0 / (1.0 + a * a + a * np.sqrt(1.0 + a * a))
        tail = gap * gap * (3.0 - gap) / 4.0
    return np.where(z < 0, tail, 1.0 - tail)


def _upper_second_moment(z: np.ndarray) -> np.ndarray:
    """Integral of z^2 times the density from z up: 1 - s^3."""
    root = np.hypot(2.0, z)
    s = z / root
    gap = np.where(z > 0, (2.0 / root) ** 2 / (1.0 + np.abs(s)), 1.0 - s)
    return gap * (1.0 + s + s * s)


def upper_quantile(q: np.ndarray) -> np.ndarray:
    """Value above which a share q <= 1/2 of the background of unit scale about zero lies.

    Shaw 2006, "Sampling Student's T distribution".
    """
    alpha = np.sqrt(4.0 * q * (1.0 - q))
    return 2.0 * np.sqrt(np.maximum(np.cos(np.arccos(np.minimum(alpha, 1.0)) / 3.0) / alpha - 1.0, 0.0))


@dataclass(frozen=True, eq=False)
class DiscreteConditionals:
    """Probabilities of the values of one variable given each component.

    They are densities with respect to the counting measure. A point counts as a value if it differs from it by the
    rounding of single precision. Any other point has probability zero; the logarithm of that is given as -708.4, the
    logarithm of the smallest normal float, so that a sum of logarithms stays finite.

    Attributes
    ----------
    values : ndarray (n_values,)
        Strictly increasing.
    probabilities : ndarray (n_values, rank)
        Non-negative; columns are made to sum to one.

    Examples
    --------
    >>> import numpy as np
    >>> item = DiscreteConditionals(np.array([0.0, 1.0, 10.0]), np.array([[0.2], [0.6], [0.2]]))
    >>> item.pdf(np.array([1.0, 5.0])).tolist(), item.cdf(np.array([5.0])).round(1).tolist()
    ([[0.6], [0.0]], [[0.8]])
    >>> item.mean().round(1).tolist(), item.quantile(np.array([0.1, 0.9]), 0).tolist()
    ([2.6], [0.0, 10.0])
    """

    values: np.ndarray
    probabilities: np.ndarray
    _cumulative: np.ndarray = field(init=False, repr=False)

    __repr__ = short_repr

    def __post_init__(self) -> None:
        probabilities = self.probabilities / self.probabilities.sum(axis=0)
        cumulative = np.cumsum(np.pad(probabilities, ((1, 0), (0, 0))), axis=0)
        cumulative[-1] = 1.0
        object.__setattr__(self, "probabilities", probabilities)
        object.__setattr__(self, "_cumulative", np.minimum(cumulative, 1.0))

    @property
    def rank(self) -> int:
        """Number of components."""
        return self.probabilities.shape[1]

    def pdf(self, x: np.ndarray) -> np.ndarray:
        """Probabilities (..., rank) of the points x (...), zero for those that are no value."""
        position, is_value = self._locate(x)
        return np.where(is_value[..., None], self.probabilities[position], 0.0)

    def logpdf(self, x: np.ndarray) -> np.ndarray:
        """Logarithms of the probabilities (..., rank), -708.4 for a probability of zero."""
        return np.log(np.maximum(self.pdf(x), _TINY))

    def cdf(self, x: np.ndarray) -> np.ndarray:
        """Distribution functions (..., rank): steps at the values; x may be infinite."""
        position, is_value = self._locate(x)
        return self._cumulative[np.where(is_value, position + 1, np.searchsorted(self.values, x, side="right"))]

    def quantile(self, q: np.ndarray, component: int) -> np.ndarray:
        """Smallest value (...) of one component up to which a share q (...) lies, 0 < q < 1."""
        return self.values[np.searchsorted(self._cumulative[1:, component], q)]

    def mean(self) -> np.ndarray:
        """Means (rank,)."""
        return self.values @ self.probabilities

    def variance(self) -> np.ndarray:
        """Variances (rank,)."""
        return np.asarray(((self.values[:, None] - self.mean()) ** 2 * self.probabilities).sum(axis=0))

    def mixed(self, weights: np.ndarray) -> DiscreteConditionals:
        """Distribution of the mixture with these weights (rank,), as a single component."""
        return DiscreteConditionals(self.values, (self.probabilities @ weights)[:, None])

    def _locate(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Position (...) of the nearest value, and whether a point is that value."""
        x = np.asarray(x, dtype=np.float64)
        position = nearest(self.values, x)
        least_gap = np.diff(self.values).min(initial=np.inf)
        tolerance = min(SINGLE * float(np.abs(self.values).max()), 0.25 * float(least_gap))
        # Lists of parts of the samples are merged once more, so that a sample may be twice as far from its value.
        tolerance = max(tolerance, 2.5 * distance_of_equals(self.values))
        return position, np.abs(x - self.values[position]) <= tolerance


def bin_moments(edges: np.ndarray, probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of piecewise constant densities.

    Parameters
    ----------
    edges : ndarray (n_bins + 1, ...)
        Of one variable, or of several.
    probabilities : ndarray (n_bins, ..., rank)

    Returns
    -------
    mean, variance : ndarray (..., rank)
        The variance is positive: it includes the spread inside the bins.
    """
    centers = 0.5 * (edges[1:] + edges[:-1])[..., None]
    mean = (centers * probabilities).sum(axis=0)
    # (n_bins, ..., rank); about the mean, so that nothing cancels
    spread = (centers - mean) ** 2 + np.diff(edges, axis=0)[..., None] ** 2 / 12.0
    return mean, (spread * probabilities).sum(axis=0)
