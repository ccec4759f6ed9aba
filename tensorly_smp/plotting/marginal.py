"""One variable: densities of all components as curves or bars, the data behind."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorly_smp.plotting.style import DATA_COLOR, component_style, few_ticks
from tensorly_smp.plotting.subject import Subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Points of a curve, besides the places where it jumps.
N_POINTS = 400
#: Tails of a component beyond these quantiles set no limits of an axis, but for a share of the width in between.
TAIL, BEYOND = 0.01, 0.35
#: Bars of a component that are less probable are left out.
LEAST_BAR = 1e-3
#: More bars than this in a panel are drawn as steps.
MOST_BARS = 60
#: A share of distinct values below this means that values are rounded: the bars of data are then whole steps wide.
TIED = 0.8
#: Bars of data: at least, and at most.
FEWEST_BARS, MOST_DATA_BARS = 8, 40
#: A curve that is this many times higher than those of all other components together leaves the panel.
TOWERING = 6.0


@dataclass(frozen=True, eq=False)
class Levels:
    """Values of a discrete variable that have a probability, and how wide their cells are.

    Attributes
    ----------
    centers : ndarray (n_levels,)
    edges : ndarray (n_levels + 1,)
        Midway between the centers.
    probabilities : ndarray (n_levels, rank)
    bins : ndarray (n_levels + 1,)
        Where data are counted.
    """

    centers: np.ndarray
    edges: np.ndarray
    probabilities: np.ndarray
    bins: np.ndarray

    @property
    def gap(self) -> float:
        """Least distance of two neighbors."""
        return float(np.diff(self.edges).min())

    @property
    def range(self) -> tuple[float, float]:
        """The outermost edges."""
        return float(self.edges[0]), float(self.edges[-1])

    @classmethod
    def of(cls, edges: np.ndarray, factor: np.ndarray, values: np.ndarray | None) -> Levels:
        """From bin edges (n_bins + 1,), the factor (n_bins, rank) and, to find them exactly, samples of the variable.

        Bins without noticeable probability are no level, unless there are data in them.
        """
        cell = np.searchsorted(edges[1:-1], [] if values is None else values[~np.isnan(values)], side="right")
        counts = np.bincount(cell, minlength=len(factor))
        kept = np.flatnonzero((factor.max(axis=1) > LEAST_BAR) | (counts > 0))
        centers = 0.5 * (edges[kept] + edges[kept + 1])
        if values is not None:
            observed = values[~np.isnan(values)]
            for place, b in enumerate(kept):
                found = np.unique(observed[cell == b])
                centers[place] = found[0] if len(found) == 1 else centers[place]
        middles = centers[:-1] + 0.5 * np.diff(centers)
        half = np.diff(edges).mean() / 2 if len(centers) == 1 else None
        first = centers[0] - (half if half is not None else middles[0] - centers[0])
        last = centers[-1] + (half if half is not None else centers[-1] - middles[-1])
        between = edges[kept[1:]]
        bins = np.concatenate([[-np.inf], between, [np.inf]])
        return cls(centers, np.concatenate([[first], middles, [last]]), factor[kept], bins)


def levels_of(subject: Subject, n: int, values: np.ndarray | None) -> Levels | None:
    """Levels of a discrete variable; None of a continuous one."""
    edges = subject.edges(n)
    if not subject.discrete[n] or subject.factors is None or edges is None:
        return None
    return Levels.of(edges, np.asarray(subject.factors.factors[n]), None if values is None else values[:, n])


def span(subject: Subject, n: int) -> tuple[float, float]:
    """Where something is to be seen of a continuous variable: inside the bins, and of the bulk of some component."""
    conditionals, edges = subject.density.conditionals[n], subject.edges(n)
    low, high = (-np.inf, np.inf) if edges is None else (float(edges[0]), float(edges[-1]))
    if not conditionals.is_proper:
        return low, high
    used = np.flatnonzero(subject.weights > 0).tolist()
    ends = np.array([conditionals.quantile(np.array([TAIL, 1.0 - TAIL]), r) for r in used])
    reach = BEYOND * (ends[:, 1] - ends[:, 0])
    return max(low, float((ends[:, 0] - reach).min())), min(high, float((ends[:, 1] + reach).max()))


def curve_points(conditionals: Any, low: float, high: float) -> np.ndarray:
    """Where densities are evaluated: evenly, and on both sides of the places where they may jump."""
    even = np.linspace(low, high, N_POINTS)
    if not hasattr(conditionals, "knots"):
        return even
    knots = conditionals.origin + conditionals.unit * conditionals.knots
    jumps = np.concatenate([np.nextafter(knots, -np.inf), knots, np.nextafter(knots, np.inf)])
    return np.unique(np.concatenate([even, jumps[(jumps >= low) & (jumps <= high)]]))


def draw_variable(
    ax: Axes, subject: Subject, n: int, values: np.ndarray | None, components: list[int], with_mixture: bool = True
) -> list[Any]:
    """Draw one variable, and return the lines or bars of the components, for a legend."""
    levels = levels_of(subject, n, values)
    if levels is not None:
        return _draw_levels(ax, levels, None if values is None else values[:, n], components)
    return _draw_curves(ax, subject, n, None if values is None else values[:, n], components, with_mixture)


def note_missing(ax: Axes, column: np.ndarray) -> None:
    """How much of a variable (n_samples,) is missing, if anything."""
    share = float(np.isnan(column).mean())
    if share > 0:
        text = f"{share:.0%} missing" if share >= 0.005 else "< 1% missing"
        ax.set_title(text, loc="right", fontsize="x-small", color="0.3", pad=2.0)


def _draw_curves(
    ax: Axes, subject: Subject, n: int, column: np.ndarray | None, components: list[int], with_mixture: bool
) -> list[Any]:
    low, high = span(subject, n)
    x = curve_points(subject.density.conditionals[n], low, high)
    densities = subject.density.pdf_1d(x, subject.names[n], "all")
    drawn = [
        ax.plot(x, densities[:, r], linewidth=1.6, zorder=3, label=f"component {r}", **component_style(r))[0]
        for r in components
    ]
    if with_mixture:
        mixture = densities @ subject.weights
        ax.plot(x, mixture, color="0.35", linewidth=0.9, linestyle=(0, (1, 1.5)), zorder=4, label="mixture")
    top = _top(densities[:, components])
    if column is not None:
        top = max(top, _draw_data(ax, column, low, high))
    ax.set_xlim(low, high)
    ax.set_ylim(min(0.0, 1.05 * float(densities[:, components].min())), 1.05 * top)
    few_ticks(ax.xaxis, 4)
    few_ticks(ax.yaxis, 3)
    return drawn


def _top(densities: np.ndarray) -> float:
    """Highest value that the panel shows: a single component of towering density must not flatten the others."""
    peaks = np.sort(densities.max(axis=0))
    if len(peaks) > 1 and peaks[-1] > TOWERING * peaks[-2]:
        return float(TOWERING * peaks[-2])
    return float(peaks[-1])


def _draw_data(ax: Axes, column: np.ndarray, low: float, high: float) -> float:
    """The histogram of the observed values, as a density of all of them; returns how high it is."""
    observed = column[~np.isnan(column)]
    edges = data_edges(observed, low, high)
    heights, _ = np.histogram(observed, edges)
    shares = heights / (len(observed) * np.diff(edges))
    ax.stairs(shares, edges, fill=True, color=DATA_COLOR, linewidth=0, zorder=1, label="data")
    return float(shares.max())


def data_edges(observed: np.ndarray, low: float, high: float) -> np.ndarray:
    """Edges of the bars of data between low and high, of whole steps where values are rounded."""
    n_bars = int(np.clip(np.sqrt(len(observed)), FEWEST_BARS, MOST_DATA_BARS))
    distinct = np.unique(observed)
    width = (high - low) / n_bars
    if 2 <= len(distinct) < TIED * len(observed):
        step = float(np.diff(distinct).min())
        if step > 1e-3 * width:
            width = ceil(width / step) * step
            start = distinct[0] - 0.5 * step
            first, last = np.floor((low - start) / width), np.ceil((high - start) / width)
            return np.asarray(start + width * np.arange(first, last + 1.0))
    return np.linspace(low, high, n_bars + 1)


def _draw_levels(ax: Axes, levels: Levels, column: np.ndarray | None, components: list[int]) -> list[Any]:
    """Probabilities of the values of a discrete variable, side by side; as steps where bars would be too thin."""
    drawn: list[Any] = []
    width = 0.8 * levels.gap / len(components)
    for place, r in enumerate(components):
        style = component_style(r)
        if len(levels.centers) * len(components) <= MOST_BARS:
            at = levels.centers + width * (place - 0.5 * (len(components) - 1))
            hatch = "" if style["linestyle"] == "-" else "////"
            bars = ax.bar(
                at, levels.probabilities[:, r], width, color=style["color"], hatch=hatch, edgecolor="white",
                linewidth=0.0, zorder=3, label=f"component {r}",
            )  # fmt: skip
            drawn.append(bars)
        else:
            drawn.append(
                ax.stairs(
                    levels.probabilities[:, r], levels.edges, baseline=None, linewidth=1.4, zorder=3,
                    label=f"component {r}", **style,
                )
            )  # fmt: skip
    if column is not None:
        observed = column[~np.isnan(column)]
        counts = np.bincount(np.searchsorted(levels.bins[1:-1], observed, side="right"), minlength=len(levels.centers))
        ax.bar(levels.centers, counts / len(observed), 0.95 * levels.gap, color=DATA_COLOR, zorder=1, label="data")
    ax.set_xlim(levels.edges[0], levels.edges[-1])
    ax.set_ylim(bottom=0.0)
    if len(levels.centers) <= 6:
        ax.set_xticks(levels.centers, [f"{center:.6g}" for center in levels.centers])
    else:
        few_ticks(ax.xaxis, 5)
    few_ticks(ax.yaxis, 3)
    return drawn
