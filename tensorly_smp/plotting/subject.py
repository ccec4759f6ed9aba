"""The mixture to be drawn, read from a fitted model, a Dataset, factors or a density; axes of its variables."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from sklearn.utils.validation import check_is_fitted

from tensorly_smp.codes.binning import Binning
from tensorly_smp.decomposition.solution import CoupledSolution, factors_from_dataset, factors_to_dataset
from tensorly_smp.densities.conditionals import DiscreteConditionals
from tensorly_smp.densities.mixture_density import MixtureDensity, mixture_quantile
from tensorly_smp.densities.reconstruct import CLIP_WARNING, reconstruct_density
from tensorly_smp.densities.smooth import spline_density, spline_transforms
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.plotting.style import log_ticks, some_ticks, wrapped
from tensorly_smp.samples.codebook import ATTRIBUTE, ValueLabels, from_json, units_of
from tensorly_smp.samples.labels import variable_positions
from tensorly_smp.samples.reading import present_dim, read_samples
from tensorly_smp.samples.values import middles, nearest
from tensorly_smp.splines.basis import LINEAR, ArcsinhTransform

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Units that say that there is none: "1" is that of the CF conventions.
NO_UNITS = ("1", "-", "dimensionless", "unitless")
#: What `read_subject` takes, in words.
MIXTURES = "a fitted model, its result_ (a Dataset), a solution, factors or a MixtureDensity"

#: Points of a curve, besides the places where it jumps.
N_POINTS = 400
#: Tails of a component beyond these quantiles set no limits of an axis, but for a share of the width in between.
TAIL = 0.01
BEYOND = 0.35
#: No axis goes farther beyond the quartiles than so many times their distance, unless a tenth would be cut there.
MOST_MIDDLES = 4.0
OUTER = 0.1
#: Shares of the quantiles that `_reach` looks at.
QUANTILES = np.array([TAIL, OUTER, 0.25, 0.75, 1.0 - OUTER, 1.0 - TAIL])
#: Of densities that go on beyond the bins, what is lower than this share of the panel is not seen; white after it.
SEEN = 0.005
AFTER = 0.02
#: An axis this many times longer than the mixture needs leaves out a component that lies alone there.
FAR = 5.0
#: A curve that is this many times higher than those of all other components together leaves the panel.
TOWERING = 6.0
#: A linear axis that is this many times wider than the middle half of some component shows that component as a spike.
CROWDED = 40.0
#: Components of less weight are no reason for another scale.
LEAST_WEIGHT = 0.01
#: A scaled axis ends at these quantiles of the outermost components, and a share of its length beyond.
ENDS = np.array([0.01, 0.99])
AFTER_ENDS = 0.06
#: Characters of a line of all labels below a panel, and lines of a label at most.
LABEL_ROOM = 36
LABEL_LINES = 3
#: Bars of a component that are less probable are left out.
LEAST_BAR = 1e-3
#: Values of a discrete variable that each have a tick, at most.
MOST_LEVEL_TICKS = 6


@dataclass(frozen=True, eq=False)
class Subject:
    """A mixture to be drawn.

    Attributes
    ----------
    names : tuple of hashable
        Of the variables.
    weights : ndarray (rank,)
    dataset : Dataset or None
        None of a density alone.
    factors : MixtureFactors or None
        None of a density alone.
    own_density : MixtureDensity or None
    sample_dim : hashable or tuple of hashable, optional
        Of the samples in xarray objects, as the model has it.
    """

    names: tuple[Hashable, ...]
    weights: np.ndarray
    dataset: xr.Dataset | None
    factors: MixtureFactors | None
    own_density: MixtureDensity | None = None
    sample_dim: Hashable | None = None

    @property
    def rank(self) -> int:
        """Number of components."""
        return len(self.weights)

    @cached_property
    def density(self) -> MixtureDensity:
        """The density, made from the factors where there is none."""
        if self.own_density is not None:
            return self.own_density
        if self.dataset is None or self.factors is None or self.factors.binning is None:
            raise InvalidInputError("Densities need the bin edges, and the factors have none; plot_factors draws them.")
        binning: Binning = self.factors.binning
        fitted = self.dataset.attrs.get("density")
        method = str(fitted or ("sinc" if all(binning.is_uniform) else "histogram"))
        if method == "logspline" and "spline" in self.dataset:
            return spline_density(self.dataset, self.factors)
        # The fit has warned of what is clipped.
        limit = CLIP_WARNING if fitted is None else np.inf
        return reconstruct_density(self.factors, method=method, clip_warning=limit)

    @cached_property
    def discrete(self) -> np.ndarray:
        """Mask (n_variables,) of the discrete variables."""
        return np.array([isinstance(each, DiscreteConditionals) for each in self.density.conditionals])

    @cached_property
    def value_labels(self) -> Mapping[Hashable, ValueLabels]:
        """Labels of the codes of variables of text and categories."""
        if self.own_density is not None:
            return self.own_density.value_labels
        return {} if self.dataset is None else from_json(self.dataset.attrs.get(ATTRIBUTE), self.names)

    def edges(self, n: int) -> np.ndarray | None:
        """Bin edges (n_bins + 1,) of a variable, where they are known."""
        return None if self.factors is None or self.factors.binning is None else self.factors.binning.edges[n]

    def positions(self, variables: Any) -> list[int]:
        """Positions of variables, given by name; of all of them for None."""
        if variables is None:
            return list(range(len(self.names)))
        return variable_positions(variables, self.names)

    def values(self, X: Any) -> np.ndarray | None:
        """Samples (n_samples, n_variables) in the order of the variables, NaN where an entry is missing."""
        if X is None:
            return None
        return read_samples(X, self.names, present_dim(X, self.sample_dim), self.value_labels).values

    def titles(self, X: Any, positions: Sequence[int]) -> list[str]:
        """Names of some variables with their units."""
        units = self.units(X)
        return [f"{self.names[n]} ({units[n]})" if units[n] else str(self.names[n]) for n in positions]

    def units(self, X: Any) -> tuple[str, ...]:
        """Units of the variables, "" where there is none: those of X, else those that the Dataset has recorded."""
        for source in (X, self.dataset):
            found = units_of(source, self.names)
            if any(found):
                return tuple("" if unit.strip() in NO_UNITS else unit for unit in found)
        return ("",) * len(self.names)


def read_subject(subject: Any, expected: str = MIXTURES) -> Subject:
    """Read whatever can be drawn; `expected` are the words for it in an error.

    Raises
    ------
    InvalidTypeError
        Another kind of object.
    InvalidInputError
        A Dataset that is not of a mixture.
    sklearn.exceptions.NotFittedError
        A model that is not fitted.
    """
    if isinstance(subject, MixtureDensity):
        return Subject(subject.variables, subject.weights, None, None, subject)
    if isinstance(subject, xr.Dataset):
        return _of_dataset(subject)
    if not isinstance(subject, type) and hasattr(subject, "fit") and hasattr(subject, "score_samples"):
        check_is_fitted(subject)
        density = getattr(subject, "density_", None)
        if not isinstance(density, MixtureDensity):
            what = f"{type(subject).__name__} has no densities of its variables (model.plot draws those of sources)"
            raise InvalidTypeError(f"{what}; expected {expected}.")
        names = subject.binning_.variables
        return Subject(names, subject.weights_, subject.result_, subject.factors_, density, subject.sample_dim)
    subject = getattr(subject, "solution_", subject)  # of CoupledSimplexCP
    if isinstance(subject, CoupledSolution):
        return _of_dataset(subject.to_dataset(), subject.factors)
    if isinstance(subject, MixtureFactors):
        return _of_dataset(factors_to_dataset(subject), subject)
    raise InvalidTypeError(f"Received {type(subject).__name__}; expected {expected}.")


def _of_dataset(dataset: xr.Dataset, factors: MixtureFactors | None = None) -> Subject:
    """The mixture of a Dataset, or of factors whose names are as they are, where a Dataset has strings."""
    factors = factors_from_dataset(dataset) if factors is None else factors.to_numpy()
    names = factors.binning.variables if factors.binning is not None else tuple(dataset["variable"].values.tolist())
    return Subject(names, np.asarray(factors.weights), dataset, factors)


# ---- axes: ranges and scales, logarithmic or arsinh where a linear axis shows only spikes ----


@dataclass(frozen=True, eq=False)
class Levels:
    """Values of a discrete variable that are to be seen.

    Attributes
    ----------
    centers : ndarray (n_levels,)
    probabilities : ndarray (n_levels, rank)
    labels : tuple of str (n_levels,), optional
        Of the values, if they are codes of text or categories.
    """

    centers: np.ndarray
    probabilities: np.ndarray
    labels: tuple[str, ...] | None = None

    @property
    def edges(self) -> np.ndarray:
        """Ends (n_levels + 1,) of steps around the values, midway between them."""
        between = middles(self.centers)
        first, last = self.centers[[0, -1]]
        ends = (2.0 * first - between[0], 2.0 * last - between[-1]) if len(between) else (first - 0.5, last + 0.5)
        return np.concatenate([ends[:1], between, ends[1:]])

    @property
    def gap(self) -> float:
        """Least distance of two neighbors."""
        return float(np.diff(self.edges).min())


def levels_of(subject: Subject, n: int, values: np.ndarray | None) -> Levels | None:
    """Values of a discrete variable with a noticeable probability, or with data; None of a continuous one.

    Values far from the middle half of the mixture are left out.
    """
    if not subject.discrete[n]:
        return None
    conditionals = subject.density.conditionals[n]
    assert isinstance(conditionals, DiscreteConditionals)
    column = np.empty(0) if values is None else values[~np.isnan(values[:, n]), n]
    counts = np.bincount(nearest(conditionals.values, column), minlength=len(conditionals.values))
    kept = (conditionals.probabilities.max(axis=1) > LEAST_BAR) | (counts > 0)
    outer, lower, upper, outer_above = mixture_quantile(conditionals, subject.weights, QUANTILES[1:-1]).tolist()
    # All of them may be one value.
    room = MOST_MIDDLES * max(upper - lower, np.diff(conditionals.values[kept]).min(initial=np.inf))
    kept &= (conditionals.values >= min(lower - room, outer)) & (conditionals.values <= max(upper + room, outer_above))
    centers = conditionals.values[kept]
    own = subject.value_labels.get(subject.names[n])
    labels = None if own is None else tuple(own.decode(centers).tolist())
    return Levels(centers, conditionals.probabilities[kept], labels)


@dataclass(frozen=True, eq=False)
class VariableAxis:
    """Axis of a variable, to be drawn along x or y.

    Attributes
    ----------
    limits : (float, float)
    transform : ArcsinhTransform
        Places on the axis are the transformed values.
    is_log : bool
        True if places are logarithms, whatever the transform.
    levels : Levels or None
        None of a continuous variable.
    """

    limits: tuple[float, float]
    transform: ArcsinhTransform = LINEAR
    is_log: bool = False
    levels: Levels | None = None

    @property
    def is_linear(self) -> bool:
        """True if places are the values themselves."""
        return self.transform.is_linear and not self.is_log

    def place(self, x: np.ndarray) -> np.ndarray:
        """Places of values on the axis, up to a linear map."""
        return np.log(np.maximum(x, np.finfo(np.float64).tiny)) if self.is_log else self.transform.forward(x)

    def value(self, u: np.ndarray) -> np.ndarray:
        """Values at places on the axis."""
        return np.exp(u) if self.is_log else self.transform.inverse(u)

    def slope(self, x: np.ndarray) -> np.ndarray:
        """Factors that make densities of values those of places."""
        if self.is_linear:
            return np.ones_like(x)
        return x if self.is_log else np.hypot(x - self.transform.center, self.transform.scale)

    def spaced(self, low: float, high: float, n_points: int) -> np.ndarray:
        """Points from low to high that are evenly spaced on the axis."""
        first, last = self.place(np.array([low, high])).tolist()
        points = self.value(np.linspace(first, last, n_points))
        points[[0, -1]] = low, high
        return points

    def apply(self, ax: Axes, which: str, n_ticks: int, most: int = MOST_LEVEL_TICKS) -> None:
        """Give an axis of a panel its scale, its limits, and a tick at every level if there are few."""
        axis: Any = getattr(ax, f"{which}axis")
        levels = self.levels
        if self.is_log:
            log_ticks(axis, np.array(self.limits))
        elif not self.is_linear:
            getattr(ax, f"set_{which}scale")("function", functions=(self.place, self.value))
            ticks = self._round_ticks()
            axis.set_ticks(
                ticks, [f"{tick:.0e}".replace("e+0", "e") if abs(tick) >= 1e4 else f"{tick:g}" for tick in ticks]
            )
        elif levels is not None and levels.labels is not None:
            step = ceil(len(levels.centers) / most)
            texts = levels.labels[::step]
            lines = [wrapped(text, max(4, LABEL_ROOM // len(texts)), LABEL_LINES) for text in texts]
            axis.set_ticks(levels.centers[::step], lines, parse_math=False)
        elif levels is not None and len(levels.centers) <= most:
            axis.set_ticks(levels.centers, [f"{center:.6g}" for center in levels.centers])
        else:
            are_whole = levels is not None and np.array_equal(levels.centers, np.round(levels.centers))
            some_ticks(axis, n_ticks, integer=are_whole)
        getattr(ax, f"set_{which}lim")(*self.limits)

    def _round_ticks(self) -> list[float]:
        """Numbers of one digit, about a quarter of the axis apart; zero, if it is on the axis, among them."""
        low, high = self.place(np.array(self.limits))
        zero = self.place(np.zeros(1))
        step = (high - low) / 4
        numbers = np.arange(np.ceil((low - zero[0]) / step), (high - zero[0]) / step)
        values = np.where(numbers == 0, 0.0, self.value(zero + step * numbers))
        return sorted({float(f"{value:.0e}") for value in values.tolist()})


def axis_of(subject: Subject, n: int, values: np.ndarray | None) -> VariableAxis:
    """Range of a variable that is shown, its scale and its levels.

    The scale is that of the fit, if a linear axis would show some component as a spike: arsinh, or, if no value is
    negative, the logarithm. It reaches from tail to tail of the outermost components. A variable that was fitted as it
    is, or that has no log-splines, has a linear axis.
    """
    levels = levels_of(subject, n, values)
    if levels is not None:
        low, high = levels.edges[[0, -1]].tolist()
        return VariableAxis((low, high), levels=levels)
    low, high = span(subject, n)
    dataset = subject.dataset
    transform = LINEAR if dataset is None or "spline_scale" not in dataset else spline_transforms(dataset)[n]
    if transform.is_linear:
        return VariableAxis((low, high))
    conditionals = subject.density.conditionals[n]
    used = np.flatnonzero(subject.weights >= min(LEAST_WEIGHT, subject.weights.max())).tolist()
    quartiles = np.array([conditionals.quantile(np.array([0.25, 0.75]), r) for r in used])
    if high - low <= CROWDED * np.diff(quartiles, axis=1).min():
        return VariableAxis((low, high))
    edges = subject.edges(n)
    axis = VariableAxis((low, high), transform, is_log=edges is not None and edges[0] > 0)
    ends = np.array([conditionals.quantile(ENDS, r) for r in np.flatnonzero(subject.weights > 0).tolist()])
    first = max(ends[:, 0].min(), 0.5 * edges[0]) if axis.is_log and edges is not None else ends[:, 0].min()
    first, last = axis.place(np.array([first, ends[:, 1].max()])).tolist()
    more = AFTER_ENDS * (last - first)
    low, high = axis.value(np.array([first - more, last + more])).tolist()
    return replace(axis, limits=(low, high))


def span(subject: Subject, n: int) -> tuple[float, float]:
    """Range to be shown of a continuous variable on a linear axis: inside the bins, around the bulk of a component.

    Log-splines go on beyond the bins, which may be those of the central 98 % of the samples: with them, as far as there
    is something to be seen. Long tails are cut, and a component far from all others, for whose sake they would be a
    spike at the edge.
    """
    conditionals: Any = subject.density.conditionals[n]
    edges = subject.edges(n)
    low, high = (-np.inf, np.inf) if edges is None else (float(edges[0]), float(edges[-1]))
    used = np.flatnonzero(subject.weights > 0).tolist()
    quantiles = np.array([conditionals.quantile(QUANTILES, r) for r in used])
    ends = np.array([_reach(each) for each in quantiles])
    first = float(ends[:, 0].min())
    last = float(ends[:, 1].max())
    if subject.dataset is not None and subject.dataset.attrs.get("density") == "logspline":
        # The range where one of these components is to be seen, and a little more, within bounds.
        x = curve_points(conditionals, VariableAxis((first, last)))
        densities = conditionals.pdf(x)[:, used]
        seen = x[(densities > SEEN * highest_shown(densities)).any(axis=1)]
        after = AFTER * (seen[-1] - seen[0])
        least, most = conditionals.bounds
        low = min(low, max(least, float(seen[0] - after)))
        high = max(high, min(most, float(seen[-1] + after)))
    low = max(low, first)
    high = min(high, last)
    needed = _reach(mixture_quantile(conditionals, subject.weights, QUANTILES))
    # Components that are wide on the long axis are to be seen there, however small; what is narrow and far is not.
    wide = quantiles[quantiles[:, 3] - quantiles[:, 2] > 0.1 / FAR * (high - low)]
    first = min(needed[0], wide[:, 2].min(initial=np.inf))
    last = max(needed[1], wide[:, 3].max(initial=-np.inf))
    if high - low > FAR * (last - first) > 0:
        return max(low, float(first)), min(high, float(last))
    return low, high


def _reach(quantiles: np.ndarray) -> tuple[float, float]:
    """Limits of an axis, from the quantiles (6,) at QUANTILES."""
    tail, outer, lower, upper, outer_above, tail_above = quantiles.tolist()
    beyond = BEYOND * (tail_above - tail)
    middles = MOST_MIDDLES * (upper - lower)
    return (
        max(tail - beyond, min(lower - middles, outer)),
        min(tail_above + beyond, max(upper + middles, outer_above)),
    )


def curve_points(conditionals: Any, axis: VariableAxis) -> np.ndarray:
    """Points to evaluate densities at: evenly spaced, and on both sides of the places where they may jump."""
    low, high = axis.limits
    even = axis.spaced(low, high, N_POINTS)
    if not hasattr(conditionals, "knots"):
        return even
    knots = conditionals.origin + conditionals.unit * conditionals.knots
    jumps = np.concatenate([np.nextafter(knots, -np.inf), knots, np.nextafter(knots, np.inf)])
    return np.unique(np.concatenate([even, jumps[(jumps >= low) & (jumps <= high)]]))


def highest_shown(densities: np.ndarray) -> float:
    """Highest density that a panel shows: a single component of towering density must not flatten the others."""
    peaks = np.sort(densities.max(axis=0))
    if len(peaks) > 1 and peaks[-1] > TOWERING * peaks[-2]:
        return float(TOWERING * peaks[-2])
    return float(peaks[-1])
