"""Course of a fit: loss by sweep, final losses of all starts, likelihood of the refinement; numbers of components."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from tensorly_smp._support.iteration import StopReason
from tensorly_smp._support.result_schema import result_values
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.factors.blocks import LOSSES
from tensorly_smp.plotting import style
from tensorly_smp.plotting.subject import read_subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Beyond this ratio of the largest to the least loss the axis is logarithmic.
WIDE = 20.0
#: An axis shows no less than this share of its values: differences that do not matter shall not look large.
LEAST_SPAN = 1e-3
#: Statuses of starts that smoothed EM has not given more sweeps, since it goes on from them in its own way.
CUT_SHORT = (StopReason.MAX_SWEEPS.name, StopReason.SCREENED.name)
CRITERION_NAMES = {"bic": "BIC", "icl": "ICL", "cv": "held-out samples"}
#: Differences of criteria, on the scale of -2 log-likelihood, below which the axis is linear. Above ten the evidence is
#: very strong: R. E. Kass, A. E. Raftery, "Bayes factors", JASA 90, 1995.
LINEAR_BELOW = 10.0


# Beyond this, the arithmetic of Matplotlib's axes leaves the range of float64.
_LARGEST_DRAWN = 1e150


def plot_loss(model_or_dataset: Any, axes: Any = None, figsize: tuple[float, float] | None = None) -> np.ndarray:
    """Draw how the fit went.

    Up to four panels, as far as the fit has them: the loss after every sweep (of a search, the negative objective after
    every round) of the start that ended lowest, and of the others, thin; of several starts the final loss of each,
    hollow where it had not converged; of several candidates the criterion by which ``refine="smooth"`` compared them;
    and the log-likelihood before every pass of the refinement. A ring marks what was chosen.

    With ``refine="smooth"`` sweeps are cut short on purpose: that says nothing against a start, and the candidate that
    was chosen need not have the lowest loss, but has the largest likelihood less parameters.

    Parameters
    ----------
    model_or_dataset : SmoothProductMixture, Dataset or CoupledSolution
        A fitted model or its ``result_``, also as read from a file.
    axes : Axes or array_like of Axes, optional
        As many as there are panels, at least; Axes left over are switched off. By default those of a new figure.
    figsize : (float, float), optional
        Width and height of a new figure, in inches.

    Returns
    -------
    ndarray of Axes (n_panels,)

    Raises
    ------
    InvalidInputError, InvalidTypeError
        Nothing that has the record of a fit, too few Axes.
    MissingDependencyError
        matplotlib is not installed.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> data = smp.datasets.make_smooth_mixture("gaussian", 500, 4, 2, random_state=0)
    >>> model = smp.SmoothProductMixture(2, refine="em", random_state=0).fit(data.X)
    >>> [ax.get_xlabel() for ax in smp.plotting.plot_loss(model)]
    ['sweep', 'pass of the refinement']
    """
    dataset = read_subject(model_or_dataset).dataset
    lacking = [name for name in ("loss", "start_loss", "start_status") if dataset is None or name not in dataset]
    if dataset is None or lacking:
        raise InvalidInputError(f"There is no record of a fit (it lacks {', '.join(lacking)}); expected that of a fit.")
    drawers: list[Callable[[Axes, xr.Dataset], None]] = [_draw_sweeps]
    if dataset.sizes["start"] > 1:
        drawers.append(_draw_starts)
    if "start_criterion" in dataset and dataset["start_criterion"].size > 1:
        drawers.append(_draw_criteria)
    if "log_likelihood" in dataset:
        drawers.append(_draw_likelihood)
    places = style.panels(axes, len(drawers), (4.0, 2.9), figsize=figsize)
    for draw, ax in zip(drawers, places, strict=True):
        draw(ax, dataset)
    style.plain_frame(places)
    return places


def _draw_sweeps(ax: Axes, dataset: xr.Dataset) -> None:
    loss = dataset["loss"].values
    shown = [loss]
    if "start_trace" in dataset and dataset.sizes["start"] > 1:
        others = result_values(dataset, "start_trace")
        label = "other starts"
        for other in others[[not np.array_equal(row[np.isfinite(row)], loss) for row in others]]:
            ax.plot(other, color=style.GRAY, linewidth=0.8, zorder=1, label=label)
            shown.append(other)
            label = ""
    ax.plot(loss, color=style.BLUE, marker="." if len(loss) <= 50 else "", label="lowest start")
    if len(shown) > 1:
        ax.legend(frameon=False, fontsize="small")
    ax.set_xlabel("round of the search" if dataset.attrs.get("loss_name") == "search" else "sweep")
    ax.set_ylabel(_loss_label(dataset))
    style.some_ticks(ax.xaxis, integer=True)
    _scale(ax, np.concatenate(shown))


def _draw_starts(ax: Axes, dataset: xr.Dataset) -> None:
    loss = dataset["start_loss"].values
    statuses = [str(status).upper() for status in dataset["start_status"].values]
    reasons = StopReason.__members__
    converged = np.array([status in reasons and reasons[status].is_converged for status in statuses])
    is_cut = np.array(["start_criterion" in dataset and status in CUT_SHORT for status in statuses])
    if is_cut.any():
        ax.set_title("cut short on purpose; the likelihood\nof the next panel chooses, not the loss", fontsize="small")
    best = int(dataset.attrs.get("best_start", -1))
    _draw_points(ax, loss, best, converged | is_cut, "cut short" if is_cut.any() else "converged", "not converged")
    ax.set_ylabel(f"final {_loss_label(dataset)}")
    ax.legend(frameon=False, fontsize="small")


def _draw_criteria(ax: Axes, dataset: xr.Dataset) -> None:
    values = dataset["start_criterion"].values
    chosen = int(dataset.attrs.get("best_candidate", -1))
    _draw_points(ax, values, chosen, np.isfinite(values), "compared", "")
    ax.set_xlabel("candidate")
    ax.legend(frameon=False, fontsize="small")
    ax.set_ylabel("log-likelihood less\nparameters (nats)")


def _draw_likelihood(ax: Axes, dataset: xr.Dataset) -> None:
    values = dataset["log_likelihood"].values
    ax.plot(values, color=style.BLUE, marker="." if len(values) <= 50 else "", label="log-likelihood")
    if "round" in dataset:
        changes = np.flatnonzero(np.diff(dataset["round"].values)) + 1
        for place, change in enumerate(changes.tolist()):
            label = "penalties chosen anew" if place == 0 else None
            ax.axvline(change, color=style.GRAY, linewidth=0.8, linestyle=":", zorder=0, label=label)
        if len(changes):
            ax.legend(frameon=False, fontsize="small")
    ax.set_xlabel("pass of the refinement")
    ax.set_ylabel("penalized log-likelihood\nper sample (nats)")
    style.some_ticks(ax.xaxis, integer=True)
    _scale(ax, values)


def _draw_points(ax: Axes, values: np.ndarray, best: int, filled: np.ndarray, name: str, other_name: str) -> None:
    """One point a start with a value, hollow where not `filled`, and a ring around the one that was chosen."""
    number = np.arange(len(values))
    for chosen, face, label in ((filled, style.BLUE, name), (~filled, "white", other_name)):
        if (chosen & np.isfinite(values)).any():
            ax.plot(number[chosen], values[chosen], "o", color=style.BLUE, markerfacecolor=face, label=label, zorder=3)
    if 0 <= best < len(values):
        _draw_ring(ax, best, values[best], "chosen")
    ax.set_xlabel("start")
    margin = max(0.5, 0.04 * len(values))  # for the whole ring around the last
    ax.set_xlim(-margin, len(values) - 1.0 + margin)
    style.some_ticks(ax.xaxis, integer=True)
    _scale(ax, values)


def _draw_ring(ax: Axes, x: float, y: Any, label: str) -> None:
    """Ring around what was chosen."""
    ax.plot(x, y, "o", color=style.ORANGE, ms=13, mfc="none", mew=2.0, zorder=4, label=label)


def _scale(ax: Axes, values: np.ndarray) -> None:
    """Logarithmic where values differ by orders of magnitude, no closer than is of interest, plain numbers."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return
    low = float(finite.min())
    high = float(finite.max())
    if low > 0 and high > WIDE * low:
        style.log_ticks(ax.yaxis, finite)
        return
    half = 0.58 * max(high - low, LEAST_SPAN * max(abs(low), abs(high)))
    if half > 0:
        ax.set_ylim(0.5 * (low + high) - half, 0.5 * (low + high) + half)
    ax.ticklabel_format(axis="y", useOffset=False)


def _loss_label(dataset: xr.Dataset) -> str:
    """Name of the loss for an axis."""
    name = str(dataset.attrs.get("loss_name", ""))
    labels = {loss.name: loss.label for loss in LOSSES.values()} | {
        "search": "negative objective\nof the search (nats)",
        "given": "negative log-likelihood\nof the bins per sample (nats)",
    }
    return labels.get(name, f"{name} loss" if name else "loss")


def plot_selection(dataset: xr.Dataset, ax: Axes | None = None, figsize: tuple[float, float] | None = None) -> Axes:
    """Draw how much worse every number of components is than the best one.

    The axis is linear up to 10, logarithmic above, since a component too few usually costs a hundred times as much as
    one too many. Information criteria that have not decided are drawn thinly. Bars, for held-out samples, are two
    standard errors of the difference from the best.

    Parameters
    ----------
    dataset : Dataset
        Of :func:`tensorly_smp.select_n_components`.
    ax : matplotlib Axes, optional
        By default those of a new figure.
    figsize : (float, float), optional
        Width and height of a new figure, in inches.

    Returns
    -------
    Axes

    Raises
    ------
    InvalidInputError, InvalidTypeError
        Not such a Dataset.
    MissingDependencyError
        matplotlib is not installed.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> X = smp.datasets.make_smooth_mixture("gaussian", 500, 4, 2, random_state=1).X
    >>> table = smp.select_n_components(X, range(1, 4), random_state=0)
    >>> smp.plotting.plot_selection(table).get_xlabel()
    'number of components'
    """
    contents = ("criterion", "bic", "icl", "failure")
    style.require_dataset(dataset, contents, ("best", "criterion_name"), "select_n_components")
    ax = style.single_axes(ax, figsize)
    numbers = dataset["n_components"].values
    decisive = str(dataset.attrs["criterion_name"])
    for name, line in (("bic", "--"), ("icl", ":")):
        if name != decisive:
            above = _above_least(dataset[name].values)
            ax.plot(numbers, above, color=style.GRAY, marker=".", linestyle=line, label=CRITERION_NAMES[name])
    above = _above_least(dataset["criterion"].values)
    name = CRITERION_NAMES.get(decisive, decisive)
    ax.plot(numbers, above, "o-", color=style.BLUE, linewidth=2.0, zorder=3, label=name)
    lowest = 0.0
    if "heldout_gap_error" in dataset:
        # Per sample and in nats, to the scale of -2 log-likelihood of all samples, and two of them.
        errors = np.asarray(dataset["heldout_gap_error"].values, dtype=np.float64)
        errors = np.where((errors >= 0) & (errors <= _LARGEST_DRAWN), errors, np.nan)
        bars = 4.0 * float(dataset.attrs["total_weight"]) * errors
        ax.errorbar(numbers, above, bars, fmt="none", ecolor=style.BLUE, capsize=3.0, zorder=3)
        lowest = float(np.nanmin(above - bars, initial=0.0))
    best = int(dataset.attrs["best"])
    _draw_ring(ax, best, above[numbers == best], f"chosen: {best}")
    failed = numbers[dataset["failure"].values != ""]
    if len(failed):
        top = np.full(len(failed), 0.97)  # of the panel, whatever the values are
        ax.plot(failed, top, "x", color="black", transform=ax.get_xaxis_transform(), label="failed")
    ax.set_yscale("symlog", linthresh=LINEAR_BELOW)
    ax.set_ylim(min(-0.1 * LINEAR_BELOW, 1.1 * lowest), max(ax.get_ylim()[1], LINEAR_BELOW))
    ax.axhline(0.0, color=style.GRAY, linewidth=0.6, zorder=0)
    ax.set_xlabel("number of components")
    ax.set_ylabel(f"criterion above its least value\n(linear up to {LINEAR_BELOW:g}, logarithmic above)")
    style.some_ticks(ax.xaxis, integer=True)
    ax.legend(frameon=False)
    return ax


def _above_least(values: np.ndarray) -> np.ndarray:
    """Differences to the least value; NaN where there is none, or none that can be drawn."""
    drawn = np.where(np.abs(values) <= _LARGEST_DRAWN, values, np.nan)
    return drawn - np.nanmin(drawn) if np.isfinite(drawn).any() else drawn
