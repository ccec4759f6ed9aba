"""Common parts of all pictures: axes, names, colors and legend of components, the error without matplotlib."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from contextlib import suppress
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
#: Of a line in an inch, about; of a line of a name at least.
CHARACTERS = 12
LEAST = 12
#: Lines of a name at most; what is longer ends there.
MOST_LINES = 4
#: Height of a line of a label, in inches.
LINE = 0.17
#: Columns of panels, by their number; more than this have four.
COLUMNS = {1: 1, 2: 2, 3: 3, 4: 2, 5: 3, 6: 3, 9: 3}
#: Maps of more rows than this have no numbers in their cells.
MOST_WRITTEN = 12
#: Around every panel, in inches.
PADDING = 0.07
#: Panels of a new figure at most; more go to further pages.
PER_PAGE = 12


def component_style(component: int, is_point: bool = False) -> dict[str, Any]:
    """Color and line of a component, or marker of its points, the same in every picture."""
    row, column = divmod(component, len(COLORS))
    kind = {"marker": MARKERS[row % len(MARKERS)]} if is_point else {"linestyle": LINES[row % len(LINES)]}
    return {"color": COLORS[column], **kind}


def weight_text(weight: float) -> str:
    """A weight in two or three digits; small ones are not rounded to nothing."""
    return f"{weight:.2f}" if weight >= 0.1 else f"{weight:.2g}"


def single_axes(ax: Axes | None, size: tuple[float, float] | None = None) -> Axes:
    """Return the given Axes, or new ones of a figure of this width and height in inches."""
    return panels(None if ax is None else [ax], 1, figsize=(6.4, 4.8) if size is None else size)[0]


def panels(
    axes: Any,
    n_panels: int,
    size: tuple[float, float] = (3.1, 2.8),
    n_columns: int | None = None,
    figsize: tuple[float, float] | None = None,
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
    """
    plt = import_extra("matplotlib.pyplot", "plot", "A picture")
    if axes is None:
        n_columns = COLUMNS.get(n_panels, 4) if n_columns is None else n_columns
        n_rows = ceil(n_panels / n_columns)
        if figsize is None:
            figsize = (max(size[0] * n_columns, 5.0), max(size[1] * n_rows, 3.2))
        sides = float_array(figsize, "figsize")
        if sides.shape != (2,) or not ((sides >= 1.0) & (sides <= 200.0)).all():
            raise InvalidInputError(f"figsize is {shown(figsize)}; expected width and height in inches, from 1 to 200.")
        figure = plt.figure(figsize=figsize, layout="constrained")
        # Labels of neighbors would touch.
        cast("Any", figure.get_layout_engine()).set(w_pad=PADDING, h_pad=PADDING)
        grid = figure.add_gridspec(n_rows, n_columns)
        places = [figure.add_subplot(grid[divmod(p, n_columns)]) for p in range(n_panels)]
        return np.array(places, dtype=object)
    received = checked_axes(axes)
    if len(received) < n_panels:
        raise InvalidInputError(f"axes are {len(received)}; expected at least {n_panels}, one for each panel.")
    for ax in received[n_panels:]:
        ax.set_axis_off()
    return received[:n_panels]


def wrapped(text: Any, width: int, most: int = MOST_LINES) -> str:
    """Text in lines of at most `width` characters; Matplotlib wraps at the edge of the figure only."""
    words = str(text).replace("_", "_ ")  # identifiers break after their marks
    filled = textwrap.fill(words, width, max_lines=most, placeholder="…", break_on_hyphens=False)
    return filled.replace("_ ", "_") or repr(text)


def fitted_names(names: Iterable[str], places: np.ndarray) -> list[str]:
    """Names in lines that fit below these Axes."""
    inches = min(ax.get_window_extent().width / root_figure(ax).dpi for ax in places.flat)
    return [wrapped(name, max(int(CHARACTERS * inches), LEAST)) for name in names]


def page_of(items: Sequence[Any], page: Any, per_page: int) -> tuple[list[Any], str]:
    """The items of one page, and a title that says which they are, if not all; pages are counted from zero."""
    n_all = len(items)
    last = max(ceil(n_all / per_page), 1) - 1
    page = checked_integer(page, "page", 0)
    if page > last:
        raise InvalidInputError(f"page is {page}; expected 0 to {last}, for {n_all} variables.")
    start = page * per_page
    end = min(start + per_page, n_all)
    title = f"variables {start + 1} to {end} of {n_all} (page={page}, the last is {last})" if last else ""
    return list(items[start:end]), title


def component_legend(places: np.ndarray, names: Sequence[str], title: str, is_new: bool, **place: Any) -> None:
    """One legend: below the panels of a new figure, or in the first of given Axes.

    Parameters
    ----------
    places : ndarray of Axes
    names : sequence of str (rank,)
        Of the components; the mixture and the data follow where a panel shows them.
    title : str
    is_new : bool
        Whether the figure is ours.
    place
        ``loc``, ``bbox_to_anchor`` and ``ncols`` as in matplotlib, for given Axes.
    """
    drawn_as: dict[str, Any] = {}
    for ax in places.ravel()[::-1]:
        handles, labels = ax.get_legend_handles_labels()
        drawn_as |= dict(zip(labels, handles, strict=True))
    handles = [drawn_as[f"component {r}"] for r in range(len(names))]
    others = [label for label in ("mixture", "data") if label in drawn_as]
    handles += [drawn_as[label] for label in others]
    labels = [*names, *others]
    options: dict[str, Any] = {"title": title, "fontsize": "small", "title_fontsize": "small"}
    if is_new:
        figure = root_figure(places.flat[0])
        options["ncols"] = max(1, int(figure.get_figwidth() * 11 / (max(map(len, labels)) + 5)))
        figure.legend(handles, labels, loc="outside lower center", frameon=False, **options)
    else:
        options |= {"ncols": ceil(len(labels) / 6), "handlelength": 1.3, "columnspacing": 1.0} | FRAME | place
        places.flat[0].legend(handles, labels, **options).set_in_layout(False)


def root_figure(ax: Axes) -> Figure:
    """The figure, where axes may be in a part of one."""
    return ax.figure.figure  # what get_figure(root=True) is from Matplotlib 3.10 on


def some_ticks(axis: Any, n_ticks: int = 8, at_least: int = 2, integer: bool = False) -> None:
    """About so many ticks, at whole numbers only if `integer`."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(n_ticks, integer=integer, min_n_ticks=1 if integer else at_least))


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


def write_cells(ax: Axes, values: np.ndarray, form: str, is_dark: np.ndarray) -> None:
    """Write numbers into the cells of a map, unless there are many; NaN stays blank, and dark cells have white ones."""
    if len(values) <= MOST_WRITTEN:
        for row, column in np.argwhere(np.isfinite(values)).tolist():
            color = "white" if is_dark[row, column] else "black"
            text = format(values[row, column], form)
            ax.text(column, row, text, ha="center", va="center", fontsize="small", color=color)


def plain_frame(axes: Iterable[Axes]) -> None:
    """Remove the upper and the right line, which say nothing."""
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)


def checked_axes(axes: Any) -> np.ndarray:
    """The Axes (n_axes,), or an error if they are none."""
    from matplotlib.axes import Axes

    flat = np.empty(0, dtype=object)
    with suppress(IndexError, TypeError, ValueError):  # of what is no array, however it is asked
        flat = np.array(axes, dtype=object).ravel()
    if not len(flat) or not all(isinstance(ax, Axes) for ax in flat):
        raise InvalidTypeError(f"axes are {type(axes).__name__}; expected matplotlib Axes, at least one.")
    return flat


def require_dataset(dataset: Any, names: tuple[str, ...], attributes: tuple[str, ...], source: str) -> None:
    """Raise unless this is a Dataset with these contents and attributes, of this function."""
    if not isinstance(dataset, xr.Dataset):
        raise InvalidTypeError(f"dataset is {type(dataset).__name__}; expected the Dataset of {source}.")
    lacking = [name for name in names if name not in dataset]
    lacking += [name for name in attributes if name not in dataset.attrs]
    if lacking:
        raise InvalidInputError(f"The Dataset lacks {lacking}; expected one of {source}.")
