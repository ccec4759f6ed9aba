"""The report on uniqueness at a glance."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from tensorly_smp.exceptions import InvalidTypeError
from tensorly_smp.identifiability.criteria import GENERIC, UNIQUE
from tensorly_smp.identifiability.report import IdentifiabilityReport, check_identifiability
from tensorly_smp.plotting import style
from tensorly_smp.plotting.subject import MIXTURES, read_subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CRITERIA = {
    "gevd": "algebra (GEVD)",
    "kruskal": "Kruskal",
    "generic": "generic",
    "joint": "whole samples",
    "paper-gevd": "paper: algebra",
    "paper-generic": "paper: generic",
}
#: Verdicts that stand whatever single criteria say.
PROVED = (UNIQUE, GENERIC)
LIGHT_BLUE = "#9ecae1"
#: A condition number above this costs a start by algebra most of its digits' worth of samples.
POOR_CONDITION = 30.0


def plot_identifiability(report: Any, axes: Any = None, figsize: tuple[float, float] | None = None) -> np.ndarray:
    """Draw an identifiability report: how many components the sizes allow, and how close the model is to the limits.

    Up to four panels, as far as the report has them. The highest rank that every criterion allows, beside the line of
    the number of components: blue bars reach it, and one is enough; the paper's own figures are gray. Rank and k-rank
    of the factors of three sets of variables, stacked or, where whole samples are known, multiplied, with their
    condition numbers: best are as many as components; the columns of a set with fewer are dependent, which the other
    sets can make up for. What stands against uniqueness is orange, unless the model is unique in spite of it: the panel
    then says why that is enough. The singular values of the Jacobian: zeros, marked, are directions in which the model
    can move without any change of what is known. And in how many variables every two components are nearly parallel.

    Parameters
    ----------
    report : IdentifiabilityReport or its Dataset
        Of :func:`tensorly_smp.check_identifiability`. A fitted model, its ``result_``, a solution or factors are
        checked first.
    axes : Axes or array_like of Axes, optional
        As many as there are panels, at least; Axes left over are switched off. By default those of a new figure, whose
        title is the verdict.
    figsize : (float, float), optional
        Width and height of a new figure, in inches.

    Returns
    -------
    ndarray of Axes (n_panels,)

    Raises
    ------
    InvalidInputError, InvalidTypeError
        None of these, too few Axes.
    MissingDependencyError
        matplotlib is not installed.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> report = smp.check_identifiability(n_variables=10, n_bins=15, rank=5)
    >>> axes = smp.plotting.plot_identifiability(report)
    >>> [label.get_text() for label in axes[0].get_yticklabels()]
    ['algebra (GEVD)', 'Kruskal', 'generic', 'paper: algebra', 'paper: generic']
    """
    dataset = _read_report(report)
    drawers: list[Callable[[Axes, xr.Dataset], None]] = [_draw_bounds, _draw_stacks]
    if "singular_values" in dataset:
        drawers.append(_draw_jacobian)
    if "n_nearly_parallel" in dataset and dataset.sizes["component"] > 1:
        drawers.append(_draw_parallel)
    places = style.panels(axes, len(drawers), (4.2, 3.0), figsize=figsize)
    for draw, ax in zip(drawers, places, strict=True):
        draw(ax, dataset)
    style.plain_frame(places)
    if axes is None:
        components = "1 component" if dataset.attrs["rank"] == 1 else f"{dataset.attrs['rank']} components"
        places[0].figure.suptitle(f"{components}: {dataset.attrs['verdict']}", fontsize="medium")
    return places


def _read_report(report: Any) -> xr.Dataset:
    if isinstance(report, IdentifiabilityReport):
        return report.to_dataset()
    if isinstance(report, xr.Dataset) and "max_rank" in report:
        contents = ("stacked_rank", "k_rank", "condition")
        style.require_dataset(report, contents, ("rank", "verdict"), "an IdentifiabilityReport")
        return report
    known = getattr(report, "identifiability_", None)
    if isinstance(known, IdentifiabilityReport):
        return known.to_dataset()
    subject = read_subject(report, f"an IdentifiabilityReport, its Dataset, {MIXTURES}")
    if subject.dataset is None:
        raise InvalidTypeError("A MixtureDensity has no factors; expected an IdentifiabilityReport, or a fitted model.")
    return check_identifiability(subject.dataset).to_dataset()


def _draw_bounds(ax: Axes, dataset: xr.Dataset) -> None:
    """Highest rank by every criterion."""
    rank = int(dataset.attrs["rank"])
    order = np.argsort([str(name).startswith("paper") for name in dataset["criterion"].values], kind="stable")
    names = [str(name) for name in dataset["criterion"].values[order]]  # the paper's own figures last
    is_proved = dataset.attrs["verdict"] in PROVED
    highest = dataset["max_rank"].values[order].astype(float)
    is_paper = np.array([name.startswith("paper") for name in names])
    is_reached = highest >= rank
    short = LIGHT_BLUE if is_proved else style.ORANGE
    colors = np.where(is_paper, "0.75", np.where(is_reached, style.BLUE, short)).tolist()
    at = np.arange(len(names))[::-1]
    ax.barh(at, highest, 0.65, color=colors, zorder=2)
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    for place, most in zip(at, highest, strict=True):
        number = f"{most:.0f}" if most < 1e5 else f"{most:.0e}"
        ax.text(1.06 * max(most, 1.0), place, number, va="center", fontsize="small", zorder=4, bbox=box)
    ax.axvline(rank, color="black", linestyle="--", linewidth=1.2, zorder=3)
    ax.text(rank, 1.02, f"components: {rank}", transform=ax.get_xaxis_transform(), ha="center", fontsize="small")
    right = 2.5 * max(float(highest.max()), rank)
    style.log_ticks(ax.xaxis, np.array([1.0, right]))
    ax.set_xlim(0.85, right)
    ax.set_yticks(at, [CRITERIA.get(name, name) for name in names])
    is_short = is_proved and not (is_reached | is_paper).all()
    enough = "\n(one criterion that reaches the line is enough)" if is_short else ""
    ax.set_xlabel("highest number of components" + enough)


def _draw_stacks(ax: Axes, dataset: xr.Dataset) -> None:
    """Rank and k-rank of the factors of three sets of variables: stacked, or multiplied where samples are known."""
    rank = int(dataset.attrs["rank"])
    at = np.arange(3)
    is_proved = dataset.attrs["verdict"] in PROVED
    is_joint = "product_rank" in dataset
    ranks, k_ranks, conditions, sets = (
        ("product_rank", "product_k_rank", "product_condition", "grouping")
        if is_joint
        else ("stacked_rank", "k_rank", "condition", "partition")
    )
    ax.bar(at - 0.2, dataset[ranks].values, 0.38, color=LIGHT_BLUE, zorder=2, label="rank")
    ax.bar(at + 0.2, dataset[k_ranks].values, 0.38, color=style.BLUE, zorder=2, label="k-rank")
    for place, condition in enumerate(dataset[conditions].values):
        if np.isinf(condition):
            known = "dependent\ncolumns"
        else:
            digits = f"{condition:.3g}" if condition < 1000 else f"{condition:.0e}"
            known = "" if np.isnan(condition) else f"condition\n{digits}"
        color = style.ORANGE if condition > POOR_CONDITION and not is_proved else "black"
        above = ax.get_xaxis_transform()
        ax.text(place, 1.02, known, transform=above, ha="center", fontsize="small", color=color)
    ax.axhline(rank, color="black", linestyle="--", linewidth=1.2, zorder=3)
    sizes = [int((dataset[sets].values == s).sum()) for s in range(3)] if sets in dataset else []
    gap = "\n" if max(sizes, default=0) > 9 else " "  # names of neighbors would touch
    kind = "group" if is_joint else "set"  # as the report calls them
    names = [f"{kind} {s + 1}\n({size}{gap}variable{'' if size == 1 else 's'})" for s, size in enumerate(sizes)]
    ax.set_xticks(at, names, fontsize="small")
    values = dataset[conditions].values
    concerns = []
    if np.isinf(values).any():
        reason = "the others make up for it" if is_proved else "fewer independent ones than components"
        concerns.append(f"dependent columns: {reason}")
    if (np.isfinite(values) & (values > POOR_CONDITION)).any():
        concerns.append(f"condition above {POOR_CONDITION:g}: sensitive to noise")
    ax.set_xlabel("\n".join(concerns), fontsize="small")
    ax.set_ylabel(f"of the {'multiplied' if is_joint else 'stacked'} factors")
    ax.set_ylim(0, 1.25 * rank)
    style.some_ticks(ax.yaxis, 5, integer=True)
    ax.legend(frameon=False, fontsize="small", ncols=2, loc="upper right")


def _draw_jacobian(ax: Axes, dataset: xr.Dataset) -> None:
    values = dataset["singular_values"].values
    order = np.arange(1, len(values) + 1)
    free = max(int(dataset.attrs.get("n_free_directions", 0)), 0)
    kept = len(values) - free
    positive = values > 0
    ax.plot(order[:kept], values[:kept], color=style.BLUE, linewidth=1.8, label=f"{kept} determined directions")
    if free:
        floor = values[positive].min() if positive.any() else 1.0
        shown = np.maximum(values[kept:], floor)
        ax.plot(order[kept:], shown, color=style.ORANGE, marker="x", linestyle="none", label=f"{free} free directions")
    if positive.any():
        style.log_ticks(ax.yaxis, values)
    ax.set_xlabel("parameter direction")
    ax.set_ylabel("singular value\nof the Jacobian")
    ax.legend(frameon=False, fontsize="small", loc="center left" if free else "lower left")
    style.some_ticks(ax.xaxis, 6, integer=True)


def _draw_parallel(ax: Axes, dataset: xr.Dataset) -> None:
    """Bars of the number of variables in which two components are nearly parallel; none is best."""
    counts = dataset["n_nearly_parallel"].values.astype(float)
    n_variables = dataset.sizes["variable"]
    np.fill_diagonal(counts, np.nan)
    image = ax.imshow(counts, cmap="cividis", vmin=0, vmax=n_variables, interpolation="nearest")
    style.write_cells(ax, np.where(counts > 0, counts, np.nan), ".0f", counts <= 0.5 * n_variables)
    colorbar = ax.figure.colorbar(image, ax=ax, shrink=0.9)
    style.some_ticks(colorbar.ax.yaxis, 5, integer=True)
    colorbar.set_label(f"variables of {n_variables} nearly parallel", fontsize="small")
    for axis in (ax.xaxis, ax.yaxis):
        style.some_ticks(axis, 10, integer=True)
    ax.set_xlabel("component")
    ax.set_ylabel("component")
