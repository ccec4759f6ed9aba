"""Scales of axes of variables with long tails: logarithmic or arsinh, where a linear axis shows only spikes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorly_smp.plotting.subject import Subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: A linear axis that is this many times wider than the middle half of some component shows that component as a spike.
CROWDED = 40.0
#: Components of less weight are no reason for another scale.
LEAST_WEIGHT = 0.01
#: An axis ends at these quantiles of the outermost components, and a share of its length beyond.
ENDS = np.array([0.01, 0.99])
BEYOND = 0.06
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


def scaled_limits(subject: Subject, n: int, scale: AxisScale) -> tuple[float, float]:
    """Range of variable n on its scale: from tail to tail of the outermost components."""
    used = np.flatnonzero(subject.weights > 0).tolist()
    ends = np.array([subject.density.conditionals[n].quantile(ENDS, r) for r in used])
    low, high = scale.forward([ends[:, 0].min(), ends[:, 1].max()]).tolist()
    edges = subject.edges(n)
    if scale.is_log and edges is not None:
        low = max(low, float(scale.forward(0.5 * edges[0])))
    more = BEYOND * (high - low)
    start, end = scale.inverse([low - more, high + more]).tolist()
    return start, end


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
