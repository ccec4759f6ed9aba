"""Conditional densities of every variable, as small multiples."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from tensorly_smp._support.checks import checked_real
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.plotting.marginal import N_POINTS, axis_of, density_title, draw_variable, note_left_out
from tensorly_smp.plotting.names import axis_names
from tensorly_smp.plotting.scales import AxisScale
from tensorly_smp.plotting.style import (
    COLUMNS,
    PER_PAGE,
    characters,
    component_legend,
    component_style,
    count_axes,
    page_of,
    page_title,
    panels,
    plain_frame,
    room_for,
    room_for_legend,
    weight_text,
)
from tensorly_smp.plotting.subject import Subject, read_subject

#: Characters of a line of a name below its panel, at most.
NAME_WIDTH = 28
#: Width and height of a panel with a name of two lines, in inches.
PANEL = (3.1, 2.5)
#: Of the highest density of a variable, what counts as zero between the points of a band.
LEAST_OF_PEAK = 1e-9
#: Entries of the legend beside the components.
OTHERS = ("mixture", "data")


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
    per_page = count_axes(axes, PER_PAGE)
    shown, n_pages = page_of(positions, page, per_page)
    places, names = _panels(subject, shown, units, axes, figsize)
    components = list(range(subject.rank))
    scales = {n: None if subject.discrete[n] else axis_of(subject, n)[1] for n in shown}
    titles = {n: density_title(subject, n, scales[n], units[n]) for n in shown}
    differ = len(set(titles.values())) > 1
    columns = places[0].get_subplotspec().get_gridspec().ncols if axes is None else 1
    for place, (ax, n) in enumerate(zip(places, shown, strict=True)):
        draw_variable(ax, subject, n, values, components)
        if bands is not None and not subject.discrete[n]:
            _draw_bands(ax, bands, n, scales[n])
        ax.set_xlabel(names[n])
        if differ or place % columns == 0:
            ax.set_ylabel(titles[n])
        note_left_out(ax, subject, n, values)
    plain_frame(places)
    handles, labels = _legend_entries(places, subject.weights)
    component_legend(places[0], handles, labels, "component (weight)", axes is None)
    if axes is None:
        page_title(places[0].figure, page * per_page, len(shown), len(positions), page, n_pages)
    return places


def _panels(
    subject: Subject, shown: list[int], units: tuple[str, ...], axes: Any, figsize: tuple[float, float] | None
) -> tuple[np.ndarray, list[str]]:
    """Axes (n_shown,) of the variables, and the names of all variables, in lines that fit below them."""
    if axes is not None:
        places = panels(axes, len(shown))
        return places, axis_names(subject.names, units, characters(places, NAME_WIDTH))
    names = axis_names(subject.names, units, NAME_WIDTH)
    n_columns = COLUMNS.get(len(shown), 4)
    below = room_for([names[n] for n in shown], n_columns)
    labels = [*_component_names(subject.weights).values(), *OTHERS]
    more = below + room_for_legend(labels, max(PANEL[0] * n_columns, 5.0))
    return panels(None, len(shown), PANEL, figsize=figsize, more=more), names


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


def _legend_entries(places: np.ndarray, weights: np.ndarray) -> tuple[list[Any], list[str]]:
    """One entry for each thing drawn in any panel: components by their number, the mixture, the data."""
    found: dict[str, Any] = {}
    for ax in places:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    names = _component_names(weights)
    rest = {label: label for label in OTHERS}
    entries = [(found[label], text) for label, text in (names | rest).items() if label in found]
    return [handle for handle, _ in entries], [text for _, text in entries]


def _component_names(weights: np.ndarray) -> dict[str, str]:
    """Labels of the components in a panel, and their names in the legend."""
    return {f"component {r}": f"{r} ({weight_text(weight)})" for r, weight in enumerate(weights)}
