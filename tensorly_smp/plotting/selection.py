"""Number of components: the selection curve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from tensorly_smp.plotting.style import BLUE, GRAY, ORANGE, integer_ticks, require_dataset, single_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CRITERION_NAMES = {"bic": "BIC", "icl": "ICL", "cv": "held-out samples"}
#: Differences of criteria, on the scale of -2 log-likelihood, below which the axis is linear. Above ten the evidence is
#: very strong: R. E. Kass, A. E. Raftery, "Bayes factors", JASA 90, 1995.
LINEAR_BELOW = 10.0


# Beyond this, the arithmetic of Matplotlib's axes leaves the range of float64.
_LARGEST_DRAWN = 1e150


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
    require_dataset(dataset, ("criterion", "bic", "icl", "failure"), ("best", "criterion_name"), "select_n_components")
    ax = single_axes(ax, figsize)
    numbers = dataset["n_components"].values
    decisive = str(dataset.attrs["criterion_name"])
    for name, line in (("bic", "--"), ("icl", ":")):
        if name != decisive:
            above = _above_least(dataset[name].values)
            ax.plot(numbers, above, color=GRAY, marker=".", linestyle=line, label=CRITERION_NAMES[name])
    above = _above_least(dataset["criterion"].values)
    ax.plot(
        numbers, above, color=BLUE, marker="o", linewidth=2.0, zorder=3, label=CRITERION_NAMES.get(decisive, decisive)
    )
    lowest = 0.0
    if "heldout_gap_error" in dataset:
        # Per sample and in nats, to the scale of -2 log-likelihood of all samples, and two of them.
        errors = np.asarray(dataset["heldout_gap_error"].values, dtype=np.float64)
        errors = np.where((errors >= 0) & (errors <= _LARGEST_DRAWN), errors, np.nan)
        bars = 4.0 * float(dataset.attrs["total_weight"]) * errors
        ax.errorbar(numbers, above, bars, fmt="none", ecolor=BLUE, capsize=3.0, zorder=3)
        lowest = float(np.nanmin(above - bars, initial=0.0))
    best = int(dataset.attrs["best"])
    ring: dict[str, Any] = dict(
        marker="o", markersize=13, markerfacecolor="none", markeredgewidth=2.0, linestyle="none", zorder=4
    )
    ax.plot(best, above[numbers == best], color=ORANGE, label=f"chosen: {best}", **ring)
    failed = numbers[dataset["failure"].values != ""]
    if len(failed):
        top = np.full(len(failed), 0.97)
        transform = ax.get_xaxis_transform()  # whatever the values are
        ax.plot(failed, top, color="black", marker="x", linestyle="none", transform=transform, label="failed")
    ax.set_yscale("symlog", linthresh=LINEAR_BELOW)
    ax.set_ylim(min(-0.1 * LINEAR_BELOW, 1.1 * lowest), max(ax.get_ylim()[1], LINEAR_BELOW))
    ax.axhline(0.0, color=GRAY, linewidth=0.6, zorder=0)
    ax.set_xlabel("number of components")
    ax.set_ylabel(f"criterion above its least value\n(linear up to {LINEAR_BELOW:g}, logarithmic above)")
    integer_ticks(ax.xaxis)
    ax.legend(frameon=False)
    return ax


def _above_least(values: np.ndarray) -> np.ndarray:
    """Differences to the least value; NaN where there is none, or none that can be drawn."""
    drawn = np.where(np.abs(values) <= _LARGEST_DRAWN, values, np.nan)
    return drawn - np.nanmin(drawn) if np.isfinite(drawn).any() else drawn
