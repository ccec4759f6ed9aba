"""Common parts of all pictures: axes, colors of components, the error without matplotlib."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import xarray as xr

from tensorly_smp._support.checks import checked_integer, float_array, import_extra
from tensorly_smp._support.representations import shown
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Distinguishable with any kind of color vision (Okabe and Ito); without their yellow, which is lost on white.
BLUE = "#0072B2"
ORANGE = "#E69F00"
GRAY = "0.45"
COLORS = (BLUE, ORANGE, "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000")
# Components beyond the seventh have the colors again, and another line.
LINES = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (6, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D")
#: Data behind the curves: darker than the page, lighter than every component.
DATA_COLOR = "0.86"
#: Of a legend that lies on data: they are seen through it.
FRAME: dict[str, Any] = {"frameon": True, "framealpha": 0.85, "edgecolor": "none"}
#: Of the height of a panel, for a legend in it.
MOST_OF_PANEL = 0.5
#: Of a line in an inch, about.
CHARACTERS = 12
#: Height of a line of a label, and of a row of a legend, in inches.
LINE = 0.17
LEGEND_ROW = 0.2
#: Columns of panels, by their number; more than this have four.
COLUMNS = {1: 1, 2: 2, 3: 3, 4: 2, 5: 3, 6: 3, 9: 3}
#: Around every panel, in inches.
PADDING = 0.07
#: Sides of a figure in inches.
SMALLEST = 1.0
LARGEST = 200.0
#: Opacity of cells of a heat map that mean little.
PALE = 0.35
#: Panels of a new figure at most; more go to further pages.
PER_PAGE = 12


def pyplot() -> Any:
    """The module matplotlib.pyplot."""
    return import_extra("matplotlib.pyplot", "plot", "A picture")


def component_style(component: int) -> dict[str, Any]:
    """Color and line of a component, the same in every picture."""
    row, column = divmod(component, len(COLORS))
    return {"color": COLORS[column], "linestyle": LINES[row % len(LINES)]}


def component_marker(component: int) -> dict[str, Any]:
    """Color and marker of a component, of the color of its line."""
    row, column = divmod(component, len(COLORS))
    return {"color": COLORS[column], "marker": MARKERS[row % len(MARKERS)]}


def weight_text(weight: float) -> str:
    """A weight in two or three digits; small ones are not rounded to nothing."""
    return f"{weight:.2f}" if weight >= 0.1 else f"{weight:.2g}"


def single_axes(ax: Axes | None, size: tuple[float, float] | None = None) -> Axes:
    """Return the given Axes, or new ones of a figure of this width and height in inches."""
    plt = pyplot()
    if ax is None:
        return plt.figure(figsize=_checked_size(size), layout="constrained").add_subplot()
    return _checked_axes([ax])[0]


def _checked_size(size: Any) -> tuple[float, float] | None:
    """Width and height of a figure in inches, or an error if they are none."""
    if size is None:
        return None
    sides = float_array(size, "figsize")
    if sides.shape != (2,) or not ((sides >= SMALLEST) & (sides <= LARGEST)).all():
        raise InvalidInputError(
            f"figsize is {shown(size)}; expected width and height in inches, from {SMALLEST:g} to {LARGEST:g}."
        )
    return float(sides[0]), float(sides[1])


def panels(
    axes: Any,
    n_panels: int,
    size: tuple[float, float] = (3.1, 2.5),
    n_columns: int | None = None,
    figsize: tuple[float, float] | None = None,
    more: float = 0.0,
) -> np.ndarray:
    """Axes (n_panels,): the first of those given, the others switched off; or those of a new figure.

    Parameters
    ----------
    axes : Axes, array_like of Axes or None
        At least `n_panels`.
    n_panels : int
    size : (float, float)
        Width and height of a panel of a new figure, in inches.
    n_columns : int, optional
        By default those of COLUMNS.
    figsize : (float, float), optional
        Width and height of a new figure, by default as the panels have them.
    more : float, default 0
        Height of a new figure beside that of its panels, in inches: for long labels, and the rows of a legend.
    """
    plt = pyplot()
    if axes is None:
        n_columns = COLUMNS.get(n_panels, 4) if n_columns is None else n_columns
        n_rows = ceil(n_panels / n_columns)
        if figsize is None:
            figsize = (max(size[0] * n_columns, 5.0), max(size[1] * n_rows, 3.2) + more)
        figsize = _checked_size(figsize)
        figure = plt.figure(figsize=figsize, layout="constrained")
        # Labels of neighbors would touch.
        cast("Any", figure.get_layout_engine()).set(w_pad=PADDING, h_pad=PADDING)
        grid = figure.add_gridspec(n_rows, n_columns)
        places = [figure.add_subplot(grid[divmod(p, n_columns)]) for p in range(n_panels)]
        return _as_array(places)
    received = _checked_axes(axes)
    if len(received) < n_panels:
        raise InvalidInputError(f"axes are {len(received)}; expected at least {n_panels}, one for each panel.")
    for ax in received[n_panels:]:
        ax.set_axis_off()
    return received[:n_panels]


def room_for(names: Sequence[str], n_columns: int, usual: int = 2) -> float:
    """Height in inches for the lines of these names below rows of panels, beyond the usual number of lines."""
    rows = [names[start : start + n_columns] for start in range(0, len(names), n_columns)]
    return LINE * sum(max(0, *(name.count("\n") + 1 - usual for name in row)) for row in rows)


def room_for_legend(labels: Sequence[str], width: float) -> float:
    """Height in inches for the rows of a legend below a figure of this width, beyond the first."""
    return LEGEND_ROW * (ceil(len(labels) / _n_across(labels, width)) - 1)


def count_axes(axes: Any, default: int) -> int:
    """Number of axes that are given, or the default."""
    return default if axes is None else len(_checked_axes(axes))


def characters(places: np.ndarray, most: int) -> int:
    """Characters of a line of a name that fit below each of these axes, at most `most`."""
    from tensorly_smp.plotting.names import LEAST

    inches = min(ax.get_window_extent().width / _root(ax).dpi for ax in places)
    return int(np.clip(CHARACTERS * inches, LEAST, most))


def page_of(items: Sequence[Any], page: Any, per_page: int) -> tuple[list[Any], int]:
    """The items of one page, and the number of pages; pages are counted from zero."""
    n_pages = max(ceil(len(items) / per_page), 1)
    page = checked_integer(page, "page", 0)
    if page >= n_pages:
        raise InvalidInputError(f"page is {page}; expected 0 to {n_pages - 1}, for {len(items)} variables.")
    return list(items[page * per_page : (page + 1) * per_page]), n_pages


def page_title(figure: Figure, first: int, n_shown: int, n_all: int, page: int, n_pages: int) -> None:
    """Say which variables are shown, if not all of them."""
    if n_pages > 1:
        figure.suptitle(
            f"variables {first + 1} to {first + n_shown} of {n_all} (page={page}, the last is {n_pages - 1})",
            fontsize="medium",
        )


def component_legend(
    ax: Axes, handles: Sequence[Any], labels: Sequence[str], title: str, is_new: bool, **place: Any
) -> None:
    """One legend: below the panels of a new figure, row by row; in given axes where `place` is, or else above all data.

    Parameters
    ----------
    ax : Axes
        The first panel; in given axes its upper limit is raised, unless there is a `place`.
    handles, labels : sequence
    title : str
    is_new : bool
        Whether the figure is ours.
    place
        ``loc``, ``bbox_to_anchor`` and ``ncols`` as in matplotlib, for given axes.
    """
    options: dict[str, Any] = {"title": title, "fontsize": "small", "title_fontsize": "small"}
    if not is_new:
        if not place:
            _root(ax).draw_without_rendering()  # layout engines place panels only now
        if not place and _lines_above(ax, labels) > _most_lines(ax):
            # Components alone, without their weights.
            entries = [(handle, label.split(" (")[0]) for handle, label in zip(handles, labels, strict=True)]
            handles, labels = zip(*[entry for entry in entries if entry[1].isdigit()] or entries, strict=True)
            options["title"] = title.split(" (")[0]
        place = place or {"loc": "upper center", "ncols": _room_above(ax, labels)}
        legend = ax.legend(handles, labels, **options, **FRAME, **place, handlelength=1.3, columnspacing=1.0)
        legend.set_in_layout(False)
        return
    n_rows = ceil(len(labels) / _n_across(labels, _root(ax).get_figwidth()))
    n_columns = ceil(len(labels) / n_rows)
    # matplotlib fills column after column, and gives what is left over to the first ones.
    rows = [range(start, min(start + n_columns, len(labels))) for start in range(0, len(labels), n_columns)]
    order = [row[column] for column in range(n_columns) for row in rows if column < len(row)]
    handles = [handles[place] for place in order]
    labels = [labels[place] for place in order]
    _root(ax).legend(handles, labels, loc="outside lower center", ncols=n_columns, frameon=False, **options)


def _n_across(labels: Sequence[str], width: float) -> int:
    """Entries of a legend beside each other, at most, in a figure of this width in inches."""
    return max(1, int(width * 11 / (max(map(len, labels)) + 5)))  # about eleven characters an inch


def _columns_above(ax: Axes, labels: Sequence[str]) -> int:
    """Columns of a legend in the width of a panel, of about fifteen characters an inch."""
    width = ax.get_window_extent().width / _root(ax).dpi
    return int(np.clip(15 * width / (max(map(len, labels)) + 4), 1, len(labels)))


def _lines_above(ax: Axes, labels: Sequence[str]) -> int:
    """Lines of a legend in a panel, its title among them."""
    return 1 + ceil(len(labels) / _columns_above(ax, labels))


def _most_lines(ax: Axes) -> float:
    """Lines of a legend for which a panel has room."""
    return (MOST_OF_PANEL * ax.get_window_extent().height / _root(ax).dpi - 0.1) / LINE


def _room_above(ax: Axes, labels: Sequence[str]) -> int:
    """Raise the upper limit to have room for a legend with these labels, and return its number of columns."""
    height = ax.get_window_extent().height / _root(ax).dpi
    n_columns = _columns_above(ax, labels)
    share = min((LINE * _lines_above(ax, labels) + 0.1) / height, MOST_OF_PANEL)
    low, high = ax.get_ylim()
    ax.set_ylim(low, low + (high - low) / (1.0 - share))
    return n_columns


def _root(ax: Axes) -> Figure:
    """The figure, where axes may be in a part of one."""
    return ax.figure.figure  # what get_figure(root=True) is from Matplotlib 3.10 on


def integer_ticks(axis: Any, n_ticks: int = 8) -> None:
    """Ticks at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(n_ticks, integer=True, min_n_ticks=1))


def log_ticks(axis: Any, values: np.ndarray) -> None:
    """Logarithmic axis of these values; where they span few powers of ten, with ticks between them in plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    positive = values[np.isfinite(values) & (values > 0)]
    if not len(positive):
        return
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    decades = float(np.log10(positive.max() / positive.min()))
    if decades > 3.0:
        axis.set_minor_formatter(NullFormatter())
        return
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 4.0, 6.0, 8.0) if decades < 1.0 else (1.0, 3.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def few_ticks(axis: Any, n_ticks: int, at_least: int = 2) -> None:
    """Limit the number of ticks to about so many."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(n_ticks, min_n_ticks=at_least))


def plain_frame(axes: Iterable[Axes]) -> None:
    """Remove the upper and the right line, which say nothing."""
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)


def _checked_axes(axes: Any) -> np.ndarray:
    """The Axes (n_axes,), or an error if they are none."""
    from matplotlib.axes import Axes

    if isinstance(axes, Axes):
        return _as_array([axes])
    flat = axes.ravel().tolist() if isinstance(axes, np.ndarray) else axes
    if isinstance(flat, str) or not isinstance(flat, Sequence):
        raise InvalidTypeError(f"axes are {type(axes).__name__}; expected matplotlib Axes, or an array of them.")
    wrong = [type(ax).__name__ for ax in flat if not isinstance(ax, Axes)]
    if wrong:
        raise InvalidTypeError(f"axes hold {wrong[0]}; expected matplotlib Axes only.")
    if not len(flat):
        raise InvalidInputError("axes are empty; expected at least one.")
    return _as_array(flat)


def _as_array(axes: Sequence[Any]) -> np.ndarray:
    array = np.empty(len(axes), dtype=object)
    array[:] = axes
    return array


def heat_map_of_variables(
    ax: Axes,
    values: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    most_written: int,
    label: str,
    is_pale: np.ndarray | None = None,
) -> None:
    """Draw numbers from -1 to 1 (n_rows, n_columns) as colors, written out unless there are many; NaN is blank.

    Cells where `is_pale` (n_rows, n_columns) is true have a weaker color.
    """
    pale = np.zeros(values.shape, dtype=bool) if is_pale is None else is_pale
    image = ax.imshow(values, cmap="RdBu_r", vmin=-1.0, vmax=1.0, aspect="auto", alpha=np.where(pale, PALE, 1.0))
    ax.set_xticks(np.arange(len(columns)), columns, rotation=45, ha="right", rotation_mode="anchor")
    ax.set_yticks(np.arange(len(rows)), rows)
    _root(ax).colorbar(image, ax=ax, label=label)
    if max(values.shape) > most_written:
        return
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            color = "white" if abs(value) > 0.6 and not pale[row, column] else "black"
            ax.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize="small", color=color)


def variable_map_size(n_variables: int) -> tuple[float, float]:
    """Width and height of a heat map of so many variables, in inches, with room for their names."""
    side = float(np.clip(0.55 * n_variables, 2.0, 9.0))
    return side + 2.4, side + 1.4


def require_dataset(dataset: Any, names: tuple[str, ...], attributes: tuple[str, ...], source: str) -> None:
    """Raise unless this is a Dataset with these contents and attributes, of this function."""
    if not isinstance(dataset, xr.Dataset):
        raise InvalidTypeError(f"dataset is {type(dataset).__name__}; expected the Dataset of {source}.")
    lacking = [name for name in names if name not in dataset]
    lacking += [name for name in attributes if name not in dataset.attrs]
    if lacking:
        raise InvalidInputError(f"The Dataset lacks {lacking}; expected one of {source}.")
