"""Conditional densities: one variable as curves or bars with the data behind, and all of them as small multiples."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from tensorly_smp._support.checks import checked_real
from tensorly_smp.codes.values import middles, nearest
from tensorly_smp.densities.conditionals import DiscreteConditionals
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.plotting.scales import (
    MOST_MIDDLES,
    N_POINTS,
    QUANTILES,
    AxisScale,
    axis_of,
    curve_points,
    draw_on,
    highest_shown,
)
from tensorly_smp.plotting.style import (
    DATA_COLOR,
    OTHERS,
    PER_PAGE,
    checked_axes,
    component_legend,
    component_style,
    few_ticks,
    integer_ticks,
    named_panels,
    page_of,
    page_title,
    plain_frame,
    weight_text,
    wrapped,
)
from tensorly_smp.plotting.subject import Subject, read_subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Characters of a line of a name below its panel, at most; of the name of a density beside it.
NAME_WIDTH = 28
DENSITY_WIDTH = 18
#: Width and height of a panel with a name of two lines, in inches.
PANEL = (3.1, 2.5)
#: Of the highest density of a variable, what counts as zero between the points of a band.
LEAST_OF_PEAK = 1e-9
#: A larger share of the values outside of the limits is noted in the panel.
NOTED = 0.01
#: Values of a discrete variable that each have a tick, at most.
MOST_LEVEL_TICKS = 6
#: Characters of a line of all labels below a panel, and lines of a label at most.
LABEL_ROOM = 36
LABEL_LINES = 3
#: Bars of a component that are less probable are left out.
LEAST_BAR = 1e-3
#: More bars than this in a panel are drawn as steps.
MOST_BARS = 60
#: A share of distinct values below this means that values are rounded: the bars of data are then whole steps wide.
TIED = 0.8
#: Bars of data: at least, and at most.
FEWEST_BARS = 8
MOST_DATA_BARS = 40


def plot_conditionals(
    model_or_dataset: Any,
    X: Any = None,
    variables: Sequence[Hashable] | Hashable | None = None,
    page: int = 0,
    axes: Any = None,
    figsize: tuple[float, float] | None = None,
    bootstrap: xr.Dataset | None = None,
    level: float = 0.95,
) -> np.ndarray:
    """Draw the densities of every variable in every component, a panel for each variable.

    Each curve is a density: it integrates to one, whatever the weight of its component, which the legend gives. The
    dotted line is the mixture of them, gray behind it the histogram of the data. A variable that the fit has taken for
    discrete has bars instead, the probabilities of its values. A panel ends where the bins end, or where there is next
    to nothing of any component; with ``refine="smooth"`` densities go on beyond the bins, and a panel with them as long
    as there is something to be seen. A curve that towers above all others leaves it.

    A variable with so long a tail that a linear axis would show some component as a spike has the scale that the fit
    has used: logarithmic if all values are positive, else arsinh. The curves are then densities of the logarithm or
    arsinh, as the label says, so that their areas in the picture are one.

    Other long tails and far values are cut, to leave something to be seen: beyond the quartiles of its components a
    panel shows four times their distance, or as far as nine tenths lie. What is far from all else, such as codes of
    -999, is outside as well. A panel says how many values lie outside if they are more than 1 %.

    Parameters
    ----------
    model_or_dataset : SmoothProductMixture, Dataset, CoupledSolution, MixtureFactors or MixtureDensity
        A fitted model or its ``result_``, also as read from a file.
    X : array_like, DataFrame, DataArray or Dataset (n_samples, n_variables), optional
        Data to be drawn behind, of all variables of the model; missing entries are left out, and the panel says how
        many there are. Units, which densities are per, are those of its attributes: ``units`` of each variable of a
        Dataset, a coordinate ``units`` along the variables of a DataArray, or an attribute ``units`` of a DataArray or
        DataFrame, one for all or a mapping by name.
    variables : sequence of names, or name, optional
        By default all.
    page : int, default 0
        With more than twelve variables, or more than `axes`: which dozen of them.
    axes : Axes or array_like of Axes, optional
        As many variables as there are Axes; Axes left over are switched off. The first is made higher than its curves,
        for the legend. By default those of a new figure.
    figsize : (float, float), optional
        Width and height of a new figure, in inches.
    bootstrap : Dataset, optional
        Replicates, as of :meth:`~tensorly_smp.SmoothProductMixture.bootstrap`: percentile intervals of the densities
        are drawn as bands, point by point; of discrete variables there are none. They show how far samples move the
        fit, and not where smoothing has lowered a peak.
    level : float, default 0.95
        Of the intervals.

    Returns
    -------
    ndarray of Axes (n_shown,)
        In the order of the variables.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        Nothing that has densities, unknown variables, a page that there is not, X of other variables, no Axes,
        replicates of another model.
    MissingDependencyError
        matplotlib is not installed.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> data = smp.datasets.make_smooth_mixture("gaussian", 500, 4, 2, random_state=0)
    >>> model = smp.SmoothProductMixture(2, random_state=0).fit(data.X)
    >>> axes = smp.plotting.plot_conditionals(model, data.X)
    >>> [ax.get_xlabel() for ax in axes]
    ['x0', 'x1', 'x2', 'x3']
    """
    subject = read_subject(model_or_dataset)
    positions = subject.positions(variables)
    values = subject.values(X)
    units = subject.units(X)
    subject.density  # noqa: B018  # errors before there is a figure
    bands = None if bootstrap is None else read_bands(subject, bootstrap, level)
    per_page = PER_PAGE if axes is None else len(checked_axes(axes))
    shown, n_pages = page_of(positions, page, per_page)
    titles = subject.titles(X)
    components = [f"{r} ({weight_text(weight)})" for r, weight in enumerate(subject.weights)]
    places, names = named_panels(
        axes, [titles[n] for n in shown], len(shown), PANEL, None, NAME_WIDTH, figsize, [*components, *OTHERS]
    )
    for ax, n, name in zip(places, shown, names, strict=True):
        draw_variable(ax, subject, n, values)
        if bands is not None and not subject.discrete[n]:
            _draw_bands(ax, bands, n, axis_of(subject, n)[1])
        ax.set_xlabel(name, parse_math=False)
    name_densities(
        places, subject, shown, units, places[0].get_subplotspec().get_gridspec().ncols if axes is None else 1
    )
    plain_frame(places)
    component_legend(places, components, "component (weight)", axes is None)
    if axes is None:
        page_title(places[0].figure, page * per_page, len(shown), len(positions), page, n_pages)
    return places


def read_bands(subject: Subject, bootstrap: Any, level: Any) -> tuple[np.ndarray, np.ndarray]:
    """Points (n_variables, n_points), and ends (2, n_variables, n_points, rank) of the intervals of replicates."""
    if not isinstance(bootstrap, xr.Dataset):
        raise InvalidTypeError(f"bootstrap is {type(bootstrap).__name__}; expected the Dataset of model.bootstrap(X).")
    level = checked_real(level, "level", 0.0, 1.0, "()")
    if "density" not in bootstrap or "x" not in bootstrap:
        raise InvalidInputError("bootstrap has no replicates of densities; expected the Dataset of model.bootstrap(X).")
    density = bootstrap["density"].transpose("replicate", "variable", "point", "component").values
    if density.shape[1::2] != (len(subject.names), subject.rank):
        raise InvalidInputError(
            f"bootstrap is of {density.shape[1]} variables and {density.shape[3]} components; expected "
            f"{len(subject.names)} and {subject.rank}, as the model."
        )
    tail = 0.5 * (1.0 - float(level))
    return bootstrap["x"].transpose("variable", "point").values, np.quantile(density, [tail, 1.0 - tail], axis=0)


def _draw_bands(ax: Any, bands: tuple[np.ndarray, np.ndarray], n: int, scale: AxisScale | None) -> None:
    """Shade the intervals of one variable; the panel grows with them, by half at most."""
    points = bands[0][n]
    low, high = bands[1][:, n]
    start, end = ax.get_xlim()
    bottom, top = ax.get_ylim()
    if scale is not None and scale.is_log:  # splines have a tail below zero, which the axis has not
        low = low[points > 0]
        high = high[points > 0]
        points = points[points > 0]
    fine = np.linspace(start, end, N_POINTS) if scale is None else scale.spaced(start, end, N_POINTS)
    fine = np.union1d(points, fine[(fine >= points[0]) & (fine <= points[-1])])
    low = _between(fine, points, low, scale)
    high = _between(fine, points, high, scale)
    points = fine
    for r in range(low.shape[1]):
        color = component_style(r)["color"]
        ax.fill_between(points, low[:, r], high[:, r], color=color, alpha=0.22, linewidth=0.0, zorder=1.5)
    ax.set_xlim(start, end)
    ax.set_ylim(bottom, min(max(top, 1.03 * float(high.max(initial=0.0))), 1.5 * top))


def _between(fine: np.ndarray, points: np.ndarray, density: np.ndarray, scale: AxisScale | None) -> np.ndarray:
    """Heights (n_fine, rank) on the axis from densities (n_points, rank): logarithms between points are linear.

    Straight lines between the densities themselves would lie far above a tail, where points are few.
    """
    place = (lambda x: x) if scale is None else scale.forward
    least = max(LEAST_OF_PEAK * float(density.max(initial=0.0)), np.finfo(np.float64).tiny)
    logs = np.log(np.maximum(density, least)).T
    found = np.exp([np.interp(place(fine), place(points), each) for each in logs]).T
    return found if scale is None else found * scale.slope(fine)[:, None]


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


def draw_variable(ax: Axes, subject: Subject, n: int, values: np.ndarray | None, with_mixture: bool = True) -> None:
    """Draw one variable in all components, and note how many values lie outside of the panel or are missing."""
    column = None if values is None else values[:, n]
    levels = levels_of(subject, n, values)
    if levels is None:
        _draw_curves(ax, subject, n, column, with_mixture)
    else:
        _draw_levels(ax, levels, column, subject.weights, with_mixture)
    low, high = ax.get_xlim()
    texts = []
    observed = np.empty(0) if column is None else column[~np.isnan(column)]
    if column is not None:
        outside = float(((observed < low) | (observed > high)).mean()) if len(observed) else 0.0
    elif levels is not None:
        is_outside = (levels.centers < low) | (levels.centers > high)
        outside = float((levels.probabilities @ subject.weights)[is_outside].sum())
    else:
        below, above = subject.density.cdf_1d(np.array([low, high]), subject.names[n])
        outside = float(below + 1.0 - above)
    if outside > NOTED:
        texts.append(f"{outside:.0%} of the values lie outside")
    missing = 0.0 if column is None else 1.0 - len(observed) / len(column)
    if missing > 0:
        texts.append(f"{missing:.0%} missing" if missing >= 0.005 else "< 1% missing")
    if texts:
        ax.set_title(", ".join(texts), loc="right", fontsize="small", color="0.3", pad=2.0)


def name_densities(
    places: np.ndarray, subject: Subject, shown: Sequence[int], units: Sequence[str], n_columns: int
) -> None:
    """Name the axes of densities: the first of a row, or all where they differ."""
    titles = []
    for n in shown:
        scale = None if subject.discrete[n] else axis_of(subject, n)[1]
        if scale is not None:
            titles.append(f"density of\nthe {scale.name}")
        elif subject.discrete[n]:
            titles.append("probability")
        else:
            titles.append(wrapped(f"density (per {units[n]})", DENSITY_WIDTH) if units[n] else "density")
    for place, (ax, title) in enumerate(zip(places, titles, strict=True)):
        if place % n_columns == 0 or len(set(titles)) > 1:
            ax.set_ylabel(title, parse_math=False)


def _draw_curves(ax: Axes, subject: Subject, n: int, column: np.ndarray | None, with_mixture: bool) -> None:
    (low, high), scale = axis_of(subject, n)
    x = curve_points(subject.density.conditionals[n], low, high, scale)
    densities = np.asarray(subject.density.pdf_1d(x, subject.names[n], "all"))
    if scale is not None:
        densities = densities * scale.slope(x)[:, None]
    for r in range(subject.rank):
        ax.plot(x, densities[:, r], linewidth=1.6, zorder=3, label=f"component {r}", **component_style(r))
    if with_mixture:
        mixture = densities @ subject.weights
        ax.plot(x, mixture, color="0.35", linewidth=0.9, linestyle=(0, (1, 1.5)), zorder=4, label="mixture")
    top = highest_shown(densities)
    observed = np.empty(0) if column is None else column[~np.isnan(column)]
    if len(observed):
        # The histogram of the observed values, as a density of all of them.
        edges = data_edges(observed, low, high, scale)
        widths = np.diff(edges if scale is None else scale.forward(edges))
        shares = np.histogram(observed, edges)[0] / (len(observed) * widths)
        ax.stairs(shares, edges, fill=True, color=DATA_COLOR, linewidth=0, zorder=1, label="data")
        top = max(top, float(shares.max()))
    ax.set_ylim(min(0.0, 1.05 * float(densities.min())), 1.05 * top)
    if not draw_on(ax, scale, "x", (low, high)):
        few_ticks(ax.xaxis, 4)
    few_ticks(ax.yaxis, 4, at_least=3)


def data_edges(observed: np.ndarray, low: float, high: float, scale: AxisScale | None = None) -> np.ndarray:
    """Edges of the bars of data between low and high, of whole steps where values are rounded."""
    n_bars = int(np.clip(np.sqrt(len(observed)), FEWEST_BARS, MOST_DATA_BARS))
    if scale is not None:
        return scale.spaced(low, high, n_bars + 1)
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


def _draw_levels(ax: Axes, levels: Levels, column: np.ndarray | None, weights: np.ndarray, with_mixture: bool) -> None:
    """Probabilities of the values of a discrete variable, side by side; as steps where bars would be too thin."""
    rank = len(weights)
    width = 0.8 * levels.gap / rank
    for r in range(rank):
        style = component_style(r)
        label = f"component {r}"
        if len(levels.centers) * rank <= MOST_BARS:
            ax.bar(
                levels.centers + width * (r - 0.5 * (rank - 1)), levels.probabilities[:, r], width, zorder=3,
                color=style["color"], hatch="" if style["linestyle"] == "-" else "////", edgecolor="white",
                linewidth=0.0, label=label,
            )  # fmt: skip
        else:
            steps = (levels.probabilities[:, r], levels.edges)
            ax.stairs(*steps, baseline=None, linewidth=1.4, zorder=3, label=label, **style)
    if column is not None:
        observed = column[~np.isnan(column)]
        counts = np.bincount(nearest(levels.centers, observed), minlength=len(levels.centers))
        ax.bar(
            levels.centers, counts / max(len(observed), 1), 0.95 * levels.gap, color=DATA_COLOR, zorder=1, label="data"
        )
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
        texts = [wrapped(label, longest, LABEL_LINES) for label in labels]
        axis.set_ticks(shown[::step], texts, parse_math=False)
    elif len(shown) <= most:
        axis.set_ticks(shown, [f"{center:.6g}" for center in shown])
    elif np.array_equal(shown, np.round(shown)):
        integer_ticks(axis, n_ticks)
    else:
        few_ticks(axis, n_ticks)
