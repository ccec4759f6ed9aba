"""Ranges and scales of the axes of variables: logarithmic or arsinh, where a linear axis shows only spikes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorly_smp.densities.mixture_density import mixture_quantile
from tensorly_smp.plotting.subject import Subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
#: Ticks of an arsinh axis at most, and their least distance as a share of its length.
MOST_TICKS = 5
LEAST_GAP = 0.19


@dataclass(frozen=True)
class AxisScale:
    """Transformation u of the values x of an axis: log(x), or arsinh((x - center) / width).

    Attributes
    ----------
    is_log : bool
    center, width : float
        In the unit of the variable; of no meaning for a logarithm.
    """

    is_log: bool
    center: float = 0.0
    width: float = 1.0

    @property
    def name(self) -> str:
        """Name of the transformation for the axis of a density."""
        return "logarithm" if self.is_log else "arsinh"

    def forward(self, x: Any) -> np.ndarray:
        """Transformed values."""
        x = np.asarray(x, dtype=np.float64)
        if self.is_log:
            return np.log(np.maximum(x, np.finfo(np.float64).tiny))
        return np.arcsinh((x - self.center) / self.width)

    def inverse(self, u: Any) -> np.ndarray:
        """Values of transformed ones."""
        u = np.asarray(u, dtype=np.float64)
        return np.exp(u) if self.is_log else self.center + self.width * np.sinh(u)

    def slope(self, x: np.ndarray) -> np.ndarray:
        """Derivative dx/du at x: a density of x times this is the density of u."""
        return x if self.is_log else np.hypot(x - self.center, self.width)

    def spaced(self, low: float, high: float, n_points: int) -> np.ndarray:
        """Points from low to high that are evenly spaced on the axis."""
        low_u, high_u = self.forward([low, high]).tolist()
        points = self.inverse(np.linspace(low_u, high_u, n_points))
        points[[0, -1]] = low, high
        return points

    def apply(self, axis: Any) -> None:
        """Give an axis this scale and its ticks; its limits are those that it has."""
        from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

        low, high = axis.get_view_interval()
        set_scale = getattr(axis.axes, f"set_{axis.axis_name}scale")
        if self.is_log:
            set_scale("log")
            decades = np.log10(high / low)
            axis.set_major_locator(LogLocator(subs=(1.0,) if decades > 2.0 else (1.0, 3.0), numticks=6))
            axis.set_minor_formatter(NullFormatter())
            if decades <= 2.0:
                axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        else:
            set_scale("function", functions=(self.forward, self.inverse))
            axis.set_major_locator(FixedLocator(self._ticks(low, high)))
            axis.set_major_formatter(FuncFormatter(_plain))
            axis.set_minor_locator(NullLocator())
        getattr(axis.axes, f"set_{axis.axis_name}lim")(low, high)

    def _ticks(self, low: float, high: float) -> list[float]:
        """Zero and round numbers of either sign between low and high, none too near another on the axis."""
        largest = max(abs(low), abs(high))
        powers = 10.0 ** np.arange(np.floor(np.log10(largest)), np.floor(np.log10(self.width)) - 2.0, -1.0)
        candidates = [0.0, *(sign * power * step for step in (1, 3) for power in powers for sign in (1, -1))]
        low_u, high_u = self.forward([low, high]).tolist()
        chosen: list[float] = []
        for value in candidates:
            place = (float(self.forward(value)) - low_u) / (high_u - low_u)
            places = [(float(self.forward(each)) - low_u) / (high_u - low_u) for each in chosen]
            if 0.0 <= place <= 1.0 and all(abs(place - each) >= LEAST_GAP for each in places):
                chosen.append(value)
        return sorted(chosen[:MOST_TICKS])


def axis_of(subject: Subject, n: int) -> tuple[tuple[float, float], AxisScale | None]:
    """Range to be shown of a continuous variable, and the scale of its axis, None if linear.

    A scaled axis reaches from tail to tail of the outermost components.
    """
    linear = span(subject, n)
    scale = scale_of(subject, n, linear)
    if scale is None:
        return linear, None
    used = np.flatnonzero(subject.weights > 0).tolist()
    ends = np.array([subject.density.conditionals[n].quantile(ENDS, r) for r in used])
    low, high = scale.forward([ends[:, 0].min(), ends[:, 1].max()]).tolist()
    edges = subject.edges(n)
    if scale.is_log and edges is not None:
        low = max(low, float(scale.forward(0.5 * edges[0])))
    more = AFTER_ENDS * (high - low)
    start, end = scale.inverse([low - more, high + more]).tolist()
    return (start, end), scale


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
        x = curve_points(conditionals, first, last)
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


def curve_points(conditionals: Any, low: float, high: float, scale: AxisScale | None = None) -> np.ndarray:
    """Points to evaluate densities at: evenly spaced, and on both sides of the places where they may jump."""
    even = np.linspace(low, high, N_POINTS) if scale is None else scale.spaced(low, high, N_POINTS)
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


def scale_of(subject: Subject, n: int, linear: tuple[float, float]) -> AxisScale | None:
    """Scale for variable n, or None where a linear axis with these limits shows every component.

    It is that of the fit: a variable that was fitted as it is, or that has no log-splines, is drawn so. Where the fit
    has taken an arsinh, and no value is negative, the axis is logarithmic.
    """
    dataset = subject.dataset
    if dataset is None or "spline_scale" not in dataset or subject.discrete[n]:
        return None
    width = float(dataset["spline_scale"].values[n])
    if not np.isfinite(width):
        return None
    conditionals = subject.density.conditionals[n]
    used = np.flatnonzero(subject.weights >= min(LEAST_WEIGHT, subject.weights.max())).tolist()
    quartiles = np.array([conditionals.quantile(np.array([0.25, 0.75]), r) for r in used])
    if linear[1] - linear[0] <= CROWDED * np.diff(quartiles, axis=1).min():
        return None
    edges = subject.edges(n)
    if edges is not None and edges[0] > 0:
        return AxisScale(is_log=True)
    return AxisScale(False, float(dataset["spline_center"].values[n]), width)


def draw_on(ax: Axes, scale: AxisScale | None, axis: str, limits: tuple[float, float]) -> bool:
    """Set limits and scale of one axis, and return whether the scale is another than linear."""
    getattr(ax, f"set_{axis}lim")(*limits)
    if scale is None:
        return False
    scale.apply(getattr(ax, f"{axis}axis"))
    return True


def _plain(value: float, _: Any = None) -> str:
    """A tick in few characters: 3000 and 0.01, but 1e5."""
    return f"{value:g}" if abs(value) < 1e5 else f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
