"""Dependence within components, variable by variable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensorly_smp.dependence.report import IndependenceReport
from tensorly_smp.plotting.names import short_names
from tensorly_smp.plotting.style import heat_map_of_variables, require_dataset, single_axes, variable_map_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: More variables than this, and no numbers are written into the cells.
MOST_WRITTEN = 12


def plot_independence(report: Any, ax: Axes | None = None, figsize: tuple[float, float] | None = None) -> Axes:
    """Draw a report on independence as a heat map, variable by variable.

    Below the diagonal is the rank correlation in the component where the two variables depend on each other most, above
    it the strength there, which also sees dependence that bends. Pairs that are called dependent have a frame; the
    others are pale, since small components show some strength by chance.

    Parameters
    ----------
    report : IndependenceReport or its Dataset
        Result of :func:`tensorly_smp.check_independence`.
    ax : Axes, optional
        By default those of a new figure.
    figsize : (float, float), optional
        Width and height of a new figure, in inches.

    Returns
    -------
    Axes

    Raises
    ------
    InvalidInputError, InvalidTypeError
        No such report.
    MissingDependencyError
        matplotlib is not installed.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> X = smp.datasets.make_smooth_mixture("gaussian", 500, 4, 2, random_state=0).X
    >>> report = smp.check_independence(
    ...     smp.SmoothProductMixture(2, random_state=0).fit(X), X, random_state=0
    ... )
    >>> ax = smp.plotting.plot_independence(report)
    >>> [label.get_text() for label in ax.get_xticklabels()]
    ['x0', 'x1', 'x2', 'x3']
    """
    from matplotlib.patches import Rectangle

    dataset = report.to_dataset() if isinstance(report, IndependenceReport) else report
    require_dataset(dataset, ("rank_correlation", "strength", "is_dependent"), ("level",), "an IndependenceReport")
    strength = np.nan_to_num(dataset["strength"].values)
    worst = strength.argmax(axis=2)[:, :, None]
    correlation = np.take_along_axis(np.nan_to_num(dataset["rank_correlation"].values), worst, axis=2)[:, :, 0]
    n = len(strength)
    shown = np.where(np.tri(n, k=-1, dtype=bool), correlation, strength.max(axis=2))
    np.fill_diagonal(shown, np.nan)
    ax = single_axes(ax, variable_map_size(n) if figsize is None else figsize)
    names = short_names([str(name) for name in dataset["variable"].values], 16)
    is_dependent = dataset["is_dependent"].values > 0
    label = "below: rank correlation; above: strength"
    heat_map_of_variables(ax, shown, names, names, MOST_WRITTEN, label, is_pale=~is_dependent)
    for j, k in np.argwhere(is_dependent).tolist():
        ax.add_patch(Rectangle((k - 0.46, j - 0.46), 0.92, 0.92, fill=False, edgecolor="black", linewidth=1.2))
    what = "sources" if dataset.attrs.get("are_sources") else "variables"
    pairs = f"{dataset.attrs['n_dependent']} of {n * (n - 1) // 2} pairs of {what}"
    ax.set_title(f"{pairs} dependent", fontsize="medium")
    return ax
