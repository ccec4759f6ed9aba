"""Conditional densities: curves or bars with the data behind, as small multiples; a solution and one of its rivals."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from tensorly_smp._support.checks import checked_real
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.fitting.results import n_rivals, rival_dataset, telling_variables, why_none
from tensorly_smp.plotting import style
from tensorly_smp.plotting.subject import (
    Levels,
    Subject,
    VariableAxis,
    axis_of,
    curve_points,
    highest_shown,
    read_subject,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Variables that are shown unless some are named, and at most.
RIVAL_SHOWN, RIVAL_MOST = 4, 8
#: Characters of a line of the name of a density, beside its panel.
DENSITY_WIDTH = 18
#: A larger share of the values outside of the limits is noted in the panel.
NOTED = 0.01
#: More bars than this in a panel are drawn as steps.
MOST_BARS = 60
#: A share of distinct values below this means that values are rounded: the bars of data are then whole steps wide.
TIED = 0.8
#: Bars of data: at least, and at most.
FEWEST_BARS = 8
MOST_DATA_BARS = 40
#: Line of the mixture of all components.
MIXTURE: dict[str, Any] = {"color": "0.35", "linewidth": 0.9, "linestyle": (0, (1, 1.5))}


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
        As many variables as there are Axes; Axes left over are switched off. The first has the legend. By default
        those of a new figure.
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
    per_page = style.PER_PAGE if axes is None else len(style.checked_axes(axes))
    shown, title = style.page_of(positions, page, per_page)
    places = style.panels(axes, len(shown), figsize=figsize)
    names = style.fitted_names(subject.titles(X, shown), places)
    for ax, n, name in zip(places, shown, names, strict=True):
        axis = draw_variable(ax, subject, n, values)
        if bands is not None and not subject.discrete[n]:
            _draw_bands(ax, bands, n, axis)
        ax.set_xlabel(name, parse_math=False)
    name_densities(places, subject, shown, units)
    style.plain_frame(places)
    components = [f"{r} ({style.weight_text(weight)})" for r, weight in enumerate(subject.weights)]
    style.component_legend(places, components, "component (weight)", axes is None)
    if axes is None and title:
        places[0].figure.suptitle(title, fontsize="medium")
    return places


def read_bands(subject: Subject, bootstrap: Any, level: Any) -> tuple[np.ndarray, np.ndarray]:
    """Points (n_variables, n_points), and ends (2, n_variables, n_points, rank) of the intervals of replicates."""
    style.require_dataset(bootstrap, ("density", "x"), (), "model.bootstrap(X)")
    level = checked_real(level, "level", 0.0, 1.0, "()")
    density = bootstrap["density"].transpose("replicate", "variable", "point", "component").values
    if density.shape[1::2] != (expected := (len(subject.names), subject.rank)):
        raise InvalidInputError(f"bootstrap is of {density.shape[1::2]} variables and components; expected {expected}.")
    tail = 0.5 * (1.0 - float(level))
    return bootstrap["x"].transpose("variable", "point").values, np.quantile(density, [tail, 1.0 - tail], axis=0)


def _draw_bands(ax: Any, bands: tuple[np.ndarray, np.ndarray], n: int, axis: VariableAxis) -> None:
    """Shade the intervals of one variable; the panel grows with them, by half at most."""
    points = bands[0][n]
    shown = points > 0 if axis.is_log else np.ones(len(points), dtype=bool)  # splines have a tail below zero
    points = points[shown]
    low, high = bands[1][:, n, shown] * axis.slope(points)[:, None]
    for r in range(low.shape[1]):
        color = style.component_style(r)["color"]
        ax.fill_between(points, low[:, r], high[:, r], color=color, alpha=0.22, linewidth=0.0, zorder=1.5)
    bottom, top = ax.get_ylim()
    ax.set(xlim=axis.limits, ylim=(bottom, min(max(top, 1.03 * float(high.max(initial=0.0))), 1.5 * top)))


def draw_variable(
    ax: Axes, subject: Subject, n: int, values: np.ndarray | None, with_mixture: bool = True
) -> VariableAxis:
    """Draw one variable in all components, and note how many values lie outside of the panel or are missing."""
    column = None if values is None else values[:, n]
    observed = np.empty(0) if column is None else column[~np.isnan(column)]
    axis = axis_of(subject, n, values)
    if axis.levels is None:
        _draw_curves(ax, subject, n, axis, observed, with_mixture)
    else:
        _draw_levels(ax, axis.levels, observed, subject.weights, with_mixture)
    axis.apply(ax, "x", 4)
    style.some_ticks(ax.yaxis, 4, at_least=3)
    low, high = axis.limits
    texts = []
    if column is None:
        below, above = subject.density.cdf_1d(np.array([low, high]), subject.names[n])
        outside = float(below + 1.0 - above)
    else:
        outside = float(((observed < low) | (observed > high)).mean()) if len(observed) else 0.0
    if outside > NOTED:
        texts.append(f"{outside:.0%} of the values lie outside")
    missing = 0.0 if column is None else 1.0 - len(observed) / len(column)
    if missing > 0:
        texts.append(f"{missing:.0%} missing" if missing >= 0.005 else "< 1% missing")
    if texts:
        ax.set_title(", ".join(texts), loc="right", fontsize="small", color="0.3", pad=2.0)
    return axis


def name_densities(places: np.ndarray, subject: Subject, shown: Sequence[int], units: Sequence[str]) -> None:
    """Name the axes of densities: the first of a row, or all where they differ."""
    titles = []
    for ax, n in zip(places, shown, strict=True):
        plain = style.wrapped(f"density (per {units[n]})", DENSITY_WIDTH) if units[n] else "density"
        scaled = {"log": "density of\nthe logarithm", "function": "density of\nthe arsinh"}
        titles.append("probability" if subject.discrete[n] else scaled.get(ax.get_xscale(), plain))
    for ax, title in zip(places, titles, strict=True):
        spec = ax.get_subplotspec()
        if spec is None or spec.is_first_col() or len(set(titles)) > 1:
            ax.set_ylabel(title, parse_math=False)


def _draw_curves(
    ax: Axes, subject: Subject, n: int, axis: VariableAxis, observed: np.ndarray, with_mixture: bool
) -> None:
    x = curve_points(subject.density.conditionals[n], axis)
    densities = np.asarray(subject.density.pdf_1d(x, subject.names[n], "all")) * axis.slope(x)[:, None]
    for r in range(subject.rank):
        ax.plot(x, densities[:, r], linewidth=1.6, zorder=3, label=f"component {r}", **style.component_style(r))
    if with_mixture:
        ax.plot(x, densities @ subject.weights, zorder=4, label="mixture", **MIXTURE)
    top = highest_shown(densities)
    if len(observed):
        # The histogram of the observed values, as a density of all of them.
        edges = data_edges(observed, axis)
        shares = np.histogram(observed, edges)[0] / (len(observed) * np.diff(axis.place(edges)))
        ax.stairs(shares, edges, fill=True, color=style.DATA_COLOR, linewidth=0, zorder=1, label="data")
        top = max(top, float(shares.max()))
    ax.set_ylim(min(0.0, 1.05 * float(densities.min())), 1.05 * top)


def data_edges(observed: np.ndarray, axis: VariableAxis) -> np.ndarray:
    """Edges of the bars of data within the limits, of whole steps where values are rounded."""
    low, high = axis.limits
    n_bars = int(np.clip(np.sqrt(len(observed)), FEWEST_BARS, MOST_DATA_BARS))
    distinct = np.unique(observed)
    if axis.is_linear and 2 <= len(distinct) < TIED * len(observed):
        step = float(np.diff(distinct).min())
        if step > 1e-3 * (high - low) / n_bars:
            width = ceil((high - low) / (n_bars * step)) * step
            edges = np.arange(low - (low - distinct[0] + 0.5 * step) % width, high + width, width)
            if (np.diff(edges) > 0).all():  # else rounding has lost them, far from zero
                return edges
    return axis.spaced(low, high, n_bars + 1)


def _draw_levels(ax: Axes, levels: Levels, observed: np.ndarray, weights: np.ndarray, with_mixture: bool) -> None:
    """Probabilities of the values of a discrete variable, side by side; as steps where bars would be too thin."""
    rank = len(weights)
    width = 0.8 * levels.gap / rank
    for r in range(rank):
        look = style.component_style(r)
        label = f"component {r}"
        if len(levels.centers) * rank <= MOST_BARS:
            ax.bar(
                levels.centers + width * (r - 0.5 * (rank - 1)), levels.probabilities[:, r], width, zorder=3,
                color=look["color"], hatch="" if look["linestyle"] == "-" else "////", edgecolor="white",
                linewidth=0.0, label=label,
            )  # fmt: skip
        else:
            steps = (levels.probabilities[:, r], levels.edges)
            ax.stairs(*steps, baseline=None, linewidth=1.4, zorder=3, label=label, **look)
    if len(observed):
        counts = np.histogram(observed, levels.edges)[0]
        ax.bar(
            levels.centers, counts / len(observed), 0.95 * levels.gap, color=style.DATA_COLOR, zorder=1, label="data"
        )
    if with_mixture:
        ends = levels.centers - 0.475 * levels.gap, levels.centers + 0.475 * levels.gap
        ax.hlines(levels.probabilities @ weights, *ends, zorder=4, label="mixture", **MIXTURE)
    ax.set_ylim(bottom=0.0)


def plot_rivals(
    model_or_dataset: Any,
    X: Any = None,
    rival: int = 0,
    variables: Sequence[Hashable] | Hashable | None = None,
    axes: Any = None,
    figsize: tuple[float, float] | None = None,
) -> np.ndarray:
    """Draw the densities of a solution above those of a rival, which samples do not tell from it.

    Components of the rival have the color of the component of this solution that they share most samples with. The
    legend gives both weights. See :meth:`tensorly_smp.SmoothProductMixture.rivals`.

    Parameters
    ----------
    model_or_dataset : SmoothProductMixture or Dataset
        A fitted model that has rivals, or its ``result_``, also as read from a file.
    X : array_like, DataFrame, DataArray or Dataset (n_samples, n_variables), optional
        Data to be drawn behind.
    rival : int, default 0
        Its number.
    variables : sequence of names, or name, optional
        At most eight. By default four: first those in which components differ that are one in the other solution, then
        those in which the two solutions differ most.
    axes : array_like of Axes, optional
        Twice as many as variables, those of the solution first. By default those of a new figure.
    figsize : (float, float), optional
        Width and height of a new figure, in inches.

    Returns
    -------
    ndarray of Axes (2, n_shown)
        The solution in the first row, the rival in the second.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        No fit, a fit without rivals, unknown variables, too few Axes.
    MissingDependencyError
        matplotlib is not installed.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> centers = np.array(
    ...     [[0, 0, 0, 0, 0], [0, 0, 7, 0, 0], [6, 5, 3, 4, 5]]
    ... )  # two differ in one variable
    >>> X = np.random.default_rng(2).normal(size=(600, 5)) + centers[np.arange(600) % 3]
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", smp.exceptions.RivalSolutionsWarning)
    ...     model = smp.SmoothProductMixture(3, random_state=0).fit(X)
    >>> smp.plotting.plot_rivals(model, X, variables=["x2", "x3"]).shape
    (2, 2)
    """
    subject = read_subject(model_or_dataset)
    if subject.dataset is None:
        name = type(model_or_dataset).__name__
        raise InvalidInputError(f"{name} has no rivals; expected a fitted model, or its Dataset.")
    if not n_rivals(subject.dataset):
        raise InvalidInputError(f"The model has no rivals: {why_none(subject.dataset)}.")
    read = read_subject(rival_dataset(subject.dataset, rival))
    other = Subject(subject.names, read.weights, read.dataset, read.factors, None, subject.sample_dim)
    if variables is None:
        positions = telling_variables(subject.dataset, int(rival))[:RIVAL_SHOWN]
    else:
        positions = subject.positions(variables)
    if len(positions) > RIVAL_MOST:
        raise InvalidInputError(f"{len(positions)} variables; expected at most {RIVAL_MOST}.")
    values = subject.values(X)
    units = subject.units(X)
    subject.density, other.density  # noqa: B018  # errors before there is a figure
    n_shown = len(positions)
    places = style.panels(axes, 2 * n_shown, (2.6, 2.2), n_shown, figsize).reshape(2, n_shown)
    names = style.fitted_names(subject.titles(X, positions), places)
    below = -float(subject.dataset["rival_criterion"].values[int(rival)])
    heads = ("this solution", f"rival {int(rival)}, {abs(below):.1f} nats {'below' if below >= 0 else 'above'}")
    for row, each, head in zip(places, (subject, other), heads, strict=True):
        for ax, n in zip(row, positions, strict=True):
            draw_variable(ax, each, n, values, with_mixture=False)
        name_densities(row, each, positions, units)
        row[0].set_title(head, loc="left", fontsize="medium")
    for (upper, lower), name in zip(places.T, names, strict=True):
        lower.set_xlabel(name, parse_math=False)
        if upper.get_xscale() == lower.get_xscale():
            limits = np.array([upper.get_xlim(), lower.get_xlim()])
            for ax in (upper, lower):
                ax.set_xlim(limits[:, 0].min(), limits[:, 1].max())
    style.plain_frame(places.ravel())
    pairs = zip(*(map(style.weight_text, each.weights) for each in (subject, other)), strict=True)
    labels = [f"{r} ({first}, {second})" for r, (first, second) in enumerate(pairs)]
    style.component_legend(places, labels, "component (weight here, weight in the rival)", axes is None)
    return places
