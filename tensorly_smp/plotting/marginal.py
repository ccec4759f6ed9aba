"""One variable: densities of all components as curves or bars, the data behind."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorly_smp.codes.values import middles, nearest
from tensorly_smp.densities.discrete import DiscreteConditionals
from tensorly_smp.densities.mixture_density import mixture_quantile
from tensorly_smp.plotting.names import density_name
from tensorly_smp.plotting.scales import AxisScale, draw_on, scale_of, scaled_limits
from tensorly_smp.plotting.style import DATA_COLOR, component_style, few_ticks, integer_ticks
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
#: A larger share of the values outside of the limits is noted in the panel.
NOTED = 0.01
#: Values of a discrete variable that each have a tick, at most.
MOST_LEVEL_TICKS = 6
#: Characters of all labels below a panel; longer labels are cut.
LABEL_ROOM = 36
#: Bars of a component that are less probable are left out.
LEAST_BAR = 1e-3
#: More bars than this in a panel are drawn as steps.
MOST_BARS = 60
#: A share of distinct values below this means that values are rounded: the bars of data are then whole steps wide.
TIED = 0.8
#: Bars of data: at least, and at most.
FEWEST_BARS = 8
MOST_DATA_BARS = 40
#: A curve that is this many times higher than those of all other components together leaves the panel.
TOWERING = 6.0


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

    def limits(self, weights: np.ndarray) -> tuple[float, float]:
        """The outermost edges; values far from the middle half of a mixture with these weights (rank,) are outside."""
        below = np.cumsum(self.probabilities @ weights)
        places = np.searchsorted(below, QUANTILES * below[-1]).clip(max=len(below) - 1)
        _, outer, lower, upper, outer_above, _ = self.centers[places].tolist()
        middle_half = MOST_MIDDLES * max(upper - lower, self.gap)  # all of them may be one value
        low = min(lower - middle_half, outer)
        high = max(upper + middle_half, outer_above)
        kept = np.flatnonzero((self.centers >= low) & (self.centers <= high))
        edges = self.edges
        first = kept[0]
        last = kept[-1]
        start = edges[first]
        end = edges[last + 1]
        if first > 0:  # no farther out than in, since the next level is left out
            start = max(start, 2.0 * self.centers[first] - edges[first + 1])
        if last < len(self.centers) - 1:
            end = min(end, 2.0 * self.centers[last] - edges[last])
        return float(start), float(end)


def levels_of(subject: Subject, n: int, values: np.ndarray | None) -> Levels | None:
    """Values of a discrete variable with a noticeable probability, or with data; None of a continuous one."""
    if not subject.discrete[n]:
        return None
    conditionals = subject.density.conditionals[n]
    assert isinstance(conditionals, DiscreteConditionals)
    column = np.empty(0) if values is None else values[~np.isnan(values[:, n]), n]
    counts = np.bincount(nearest(conditionals.values, column), minlength=len(conditionals.values))
    kept = (conditionals.probabilities.max(axis=1) > LEAST_BAR) | (counts > 0)
    centers = conditionals.values[kept]
    own = subject.value_labels.get(subject.names[n])
    labels = None if own is None else tuple(own.decode(centers).tolist())
    return Levels(centers, conditionals.probabilities[kept], labels)


def axis_of(subject: Subject, n: int) -> tuple[tuple[float, float], AxisScale | None]:
    """Range to be shown of a continuous variable, and the scale of its axis, None if linear."""
    linear = span(subject, n)
    scale = scale_of(subject, n, linear)
    return (linear, None) if scale is None else (scaled_limits(subject, n, scale), scale)


def span(subject: Subject, n: int) -> tuple[float, float]:
    """Range to be shown of a continuous variable on a linear axis: inside the bins, around the bulk of a component.

    Log-splines go on beyond the bins, which may be those of the central 98 % of the samples: with them, as far as there
    is something to be seen. Long tails are cut, and a component far from all others, for whose sake they would be a
    spike at the edge.
    """
    conditionals = subject.density.conditionals[n]
    edges = subject.edges(n)
    low, high = (-np.inf, np.inf) if edges is None else (float(edges[0]), float(edges[-1]))
    used = np.flatnonzero(subject.weights > 0).tolist()
    quantiles = np.array([conditionals.quantile(QUANTILES, r) for r in used])
    ends = np.array([_reach(each) for each in quantiles])
    first = float(ends[:, 0].min())
    last = float(ends[:, 1].max())
    if subject.dataset is not None and subject.dataset.attrs.get("density") == "logspline":
        seen = _seen(conditionals, used, first, last)
        low = min(low, seen[0])
        high = max(high, seen[1])
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


def _seen(conditionals: Any, components: list[int], low: float, high: float) -> tuple[float, float]:
    """Range between low and high where one of these components is to be seen, and a little more, within bounds."""
    x = curve_points(conditionals, low, high)
    densities = conditionals.pdf(x)[:, components]
    seen = x[(densities > SEEN * _top(densities)).any(axis=1)]
    after = AFTER * (seen[-1] - seen[0])
    least, most = conditionals.bounds
    return max(least, float(seen[0] - after)), min(most, float(seen[-1] + after))


def curve_points(conditionals: Any, low: float, high: float, scale: AxisScale | None = None) -> np.ndarray:
    """Points to evaluate densities at: evenly spaced, and on both sides of the places where they may jump."""
    even = np.linspace(low, high, N_POINTS) if scale is None else scale.spaced(low, high, N_POINTS)
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
        column = None if values is None else values[:, n]
        return _draw_levels(ax, levels, column, components, subject.weights, with_mixture)
    return _draw_curves(ax, subject, n, None if values is None else values[:, n], components, with_mixture)


def density_title(subject: Subject, n: int, scale: AxisScale | None, unit: str) -> str:
    """Name of the axis of the densities of one variable, whose own axis has this scale and this unit."""
    if scale is not None:
        return f"density of\nthe {scale.name}"
    return density_name(bool(subject.discrete[n]), unit)


def note_left_out(ax: Axes, subject: Subject, n: int, values: np.ndarray | None) -> None:
    """Note on the share of a variable outside of the limits, of samples or else of the mixture.

    It also tells how much is missing, if anything.
    """
    texts = []
    outside = _share_outside(subject, n, values, *ax.get_xlim())
    if outside > NOTED:
        texts.append(f"{outside:.0%} of the values lie outside")
    missing = 0.0 if values is None else float(np.isnan(values[:, n]).mean())
    if missing > 0:
        texts.append(f"{missing:.0%} missing" if missing >= 0.005 else "< 1% missing")
    if texts:
        ax.set_title(", ".join(texts), loc="right", fontsize="small", color="0.3", pad=2.0)


def _share_outside(subject: Subject, n: int, values: np.ndarray | None, low: float, high: float) -> float:
    """Share of the observed values, or of the mixture, that is not between low and high."""
    if values is not None:
        observed = values[~np.isnan(values[:, n]), n]
        return float(((observed < low) | (observed > high)).mean()) if len(observed) else 0.0
    levels = levels_of(subject, n, None)
    if levels is not None:
        return float((levels.probabilities @ subject.weights)[(levels.centers < low) | (levels.centers > high)].sum())
    below, above = subject.density.cdf_1d(np.array([low, high]), subject.names[n])
    return float(below + 1.0 - above)


def _draw_curves(
    ax: Axes, subject: Subject, n: int, column: np.ndarray | None, components: list[int], with_mixture: bool
) -> list[Any]:
    (low, high), scale = axis_of(subject, n)
    x = curve_points(subject.density.conditionals[n], low, high, scale)
    densities = np.asarray(subject.density.pdf_1d(x, subject.names[n], "all"))
    if scale is not None:
        densities = densities * scale.slope(x)[:, None]
    drawn = [
        ax.plot(x, densities[:, r], linewidth=1.6, zorder=3, label=f"component {r}", **component_style(r))[0]
        for r in components
    ]
    if with_mixture:
        mixture = densities @ subject.weights
        ax.plot(x, mixture, color="0.35", linewidth=0.9, linestyle=(0, (1, 1.5)), zorder=4, label="mixture")
    top = _top(densities[:, components])
    if column is not None:
        top = max(top, _draw_data(ax, column, low, high, scale))
    ax.set_ylim(min(0.0, 1.05 * float(densities[:, components].min())), 1.05 * top)
    if not draw_on(ax, scale, "x", (low, high)):
        few_ticks(ax.xaxis, 4)
    few_ticks(ax.yaxis, 4, at_least=3)
    return drawn


def _top(densities: np.ndarray) -> float:
    """Highest value that the panel shows: a single component of towering density must not flatten the others."""
    peaks = np.sort(densities.max(axis=0))
    if len(peaks) > 1 and peaks[-1] > TOWERING * peaks[-2]:
        return float(TOWERING * peaks[-2])
    return float(peaks[-1])


def _draw_data(ax: Axes, column: np.ndarray, low: float, high: float, scale: AxisScale | None = None) -> float:
    """Draw the histogram of the observed values, as a density of all of them, and return its height; 0 if none."""
    observed = column[~np.isnan(column)]
    if not len(observed):
        return 0.0
    if scale is None:
        edges = data_edges(observed, low, high)
        widths = np.diff(edges)
    else:
        edges = scale.spaced(low, high, n_bars_of(observed) + 1)
        widths = np.diff(scale.forward(edges))
    heights, _ = np.histogram(observed, edges)
    shares = heights / (len(observed) * widths)
    ax.stairs(shares, edges, fill=True, color=DATA_COLOR, linewidth=0, zorder=1, label="data")
    return float(shares.max())


def data_edges(observed: np.ndarray, low: float, high: float) -> np.ndarray:
    """Edges of the bars of data between low and high, of whole steps where values are rounded."""
    n_bars = n_bars_of(observed)
    distinct = np.unique(observed)
    width = (high - low) / n_bars
    if 2 <= len(distinct) < TIED * len(observed):
        step = float(np.diff(distinct).min())
        if step > 1e-3 * width:
            width = ceil(width / step) * step
            start = distinct[0] - 0.5 * step
            first = np.floor((low - start) / width)
            last = np.ceil((high - start) / width)
            if 1 <= last - first <= 2.0 * MOST_DATA_BARS:
                edges = start + width * np.arange(first, last + 1.0)
                if (np.diff(edges) > 0).all():  # else rounding has lost them, far from the first value
                    return np.asarray(edges)
    return np.linspace(low, high, n_bars + 1)


def n_bars_of(observed: np.ndarray) -> int:
    """Number of bars for so many values."""
    return int(np.clip(np.sqrt(len(observed)), FEWEST_BARS, MOST_DATA_BARS))


def _draw_levels(
    ax: Axes, levels: Levels, column: np.ndarray | None, components: list[int], weights: np.ndarray, with_mixture: bool
) -> list[Any]:
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
        counts = np.bincount(nearest(levels.centers, observed), minlength=len(levels.centers))
        ax.bar(levels.centers, counts / len(observed), 0.95 * levels.gap, color=DATA_COLOR, zorder=1, label="data")
    if with_mixture:
        half = 0.475 * levels.gap
        ax.hlines(
            levels.probabilities @ weights, levels.centers - half, levels.centers + half, color="0.35",
            linewidth=0.9, linestyle=(0, (1, 1.5)), zorder=4, label="mixture",
        )  # fmt: skip
    ax.set_xlim(*levels.limits(weights))
    ax.set_ylim(bottom=0.0)
    level_ticks(ax.xaxis, levels, 5)
    few_ticks(ax.yaxis, 4, at_least=3)
    return drawn


def level_ticks(axis: Any, levels: Levels | None, n_ticks: int, most: int = MOST_LEVEL_TICKS) -> None:
    """A tick at every value of a discrete variable that is shown if there are few, else about `n_ticks`."""
    if levels is None:
        few_ticks(axis, n_ticks)
        return
    low, high = axis.get_view_interval()
    is_shown = (levels.centers >= low) & (levels.centers <= high)
    shown = levels.centers[is_shown]
    if levels.labels is not None:
        step = -(-len(shown) // most)
        labels = [label for label, is_here in zip(levels.labels, is_shown, strict=True) if is_here][::step]
        longest = max(4, LABEL_ROOM // len(labels))
        texts = [label if len(label) <= longest else f"{label[: longest - 1]}…" for label in labels]
        axis.set_ticks(shown[::step], texts)
    elif len(shown) <= most:
        axis.set_ticks(shown, [f"{center:.6g}" for center in shown])
    elif np.array_equal(shown, np.round(shown)):
        integer_ticks(axis, n_ticks)
    else:
        few_ticks(axis, n_ticks)
