"""Heat maps: probabilities of bins, dependence of variables within components, the map from variables to sources."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorly_smp.dependence.check import IndependenceReport
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.plotting import style
from tensorly_smp.plotting.subject import read_subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Variables of a page at most, each a row.
ROWS = 30
#: Panels side by side at most.
MOST_COLUMNS = 5
#: Characters of a line of a name beside its row, in factors and in maps of variables.
NAME_WIDTH = 28
MAP_WIDTH = 20
#: Opacity of cells that mean little.
PALE = 0.35


def plot_factors(
    model_or_dataset: Any,
    variables: Sequence[Hashable] | Hashable | None = None,
    page: int = 0,
    axes: Any = None,
    figsize: tuple[float, float] | None = None,
) -> np.ndarray:
    """Draw the factors as heat maps, a panel for each component: rows are variables, columns their bins.

    The color is the probability of the bin in the component, on one scale for all panels, so that a row sums to one.
    Variables with fewer bins than others have shorter rows. It needs no bin edges, so that factors of any tensors can
    be drawn.

    Parameters
    ----------
    model_or_dataset : SmoothProductMixture, Dataset, CoupledSolution or MixtureFactors
        A fitted model or its ``result_``, also as read from a file.
    variables : sequence of names, or name, optional
        By default all.
    page : int, default 0
        With more than thirty variables: which thirty of them.
    axes : Axes or array_like of Axes, optional
        One for each component at least; Axes left over are switched off. By default those of a new figure.
    figsize : (float, float), optional
        Width and height of a new figure, in inches.

    Returns
    -------
    ndarray of Axes (rank,)
        In the order of the components.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        Nothing that has factors, unknown variables, a page that there is not, too few Axes.
    MissingDependencyError
        matplotlib is not installed.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> data = smp.datasets.make_smooth_mixture("gaussian", 500, 4, 2, random_state=0)
    >>> model = smp.SmoothProductMixture(2, random_state=0).fit(data.X)
    >>> axes = smp.plotting.plot_factors(model)
    >>> [label.get_text() for label in axes[0].get_yticklabels()]
    ['x0', 'x1', 'x2', 'x3']
    """
    subject = read_subject(model_or_dataset)
    if subject.factors is None:
        raise InvalidInputError("A MixtureDensity has no factors; expected a fitted model, its Dataset or a solution.")
    positions = subject.positions(variables)
    shown, title = style.page_of(positions, page, ROWS)
    factors = [np.asarray(factor) for factor in subject.factors.to_numpy().factors]
    # NaN beyond the last bin of variables with fewer.
    table = np.full((len(shown), max(len(factors[n]) for n in shown), subject.rank), np.nan)
    for probabilities, n in zip(table, shown, strict=True):
        probabilities[: len(factors[n])] = factors[n]
    n_columns = ceil(subject.rank / ceil(subject.rank / MOST_COLUMNS))  # rows of about equally many
    names = [style.wrapped(subject.names[n], NAME_WIDTH) for n in shown]
    height = 0.02 + style.LINE * max(name.count("\n") + 1 for name in names)
    # Names and the scale beside them take about two inches of a row.
    size = (2.0 + 2.2 / n_columns, 0.9 + max(height * len(shown), 1.14))
    places = style.panels(axes, subject.rank, size, n_columns, figsize)
    for r, ax in enumerate(places):
        image = ax.imshow(table[:, :, r], aspect="auto", interpolation="nearest", vmin=0.0, vmax=np.nanmax(table))
        ax.set_facecolor("white")
        color = style.component_style(r)["color"]
        ax.set_title(f"component {r} ({style.weight_text(subject.weights[r])})", fontsize="medium", color=color)
        ax.set_xlabel("bin")
        style.some_ticks(ax.xaxis, 5, integer=True)
        is_first = axes is not None or r % n_columns == 0
        ax.set_yticks(range(len(shown)), names if is_first else [""] * len(names), fontsize="small", parse_math=False)
        if is_first:
            ax.set_ylabel("variable")
        ax.tick_params(axis="y", length=0)
        ax.spines[:].set_visible(False)
        # Rows are distributions of their own: a line between them, or neighbors run into one another.
        for row in range(1, len(shown)):
            ax.axhline(row - 0.5, color="white", linewidth=0.8)
    figure = places[0].figure
    figure.colorbar(image, ax=places.tolist(), label="probability", shrink=0.9, aspect=30)
    if axes is None and title:
        figure.suptitle(title, fontsize="medium")
    return places


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
    contents = ("rank_correlation", "strength", "is_dependent")
    style.require_dataset(dataset, contents, ("level",), "an IndependenceReport")
    strength = np.nan_to_num(dataset["strength"].values)
    worst = strength.argmax(axis=2)[:, :, None]
    correlation = np.take_along_axis(np.nan_to_num(dataset["rank_correlation"].values), worst, axis=2)[:, :, 0]
    n = len(strength)
    shown = np.where(np.tri(n, k=-1, dtype=bool), correlation, strength.max(axis=2))
    np.fill_diagonal(shown, np.nan)
    is_dependent = dataset["is_dependent"].values > 0
    label = "below: rank correlation; above: strength"
    ax = _map_of_variables(ax, figsize, shown, dataset["variable"].values.tolist(), label, ~is_dependent)
    for j, k in np.argwhere(is_dependent).tolist():
        ax.add_patch(Rectangle((k - 0.46, j - 0.46), 0.92, 0.92, fill=False, edgecolor="black", linewidth=1.2))
    what = "sources" if dataset.attrs.get("are_sources") else "variables"
    pairs = f"{dataset.attrs['n_dependent']} of {n * (n - 1) // 2} pairs of {what}"
    ax.set_title(f"{pairs} dependent", fontsize="medium")
    return ax


def plot_unmixing(model: Any, ax: Axes | None = None, figsize: tuple[float, float] | None = None) -> Axes:
    """Draw the map from variables to sources as a heat map: every source in a row, every variable in a column.

    Entries are what a variable contributes to a source per standard deviation within components, divided by the largest
    of the row. A map that leaves the variables alone is a diagonal.

    Parameters
    ----------
    model : UnmixedProductMixture
        Fitted.
    ax : Axes, optional
        By default those of a new figure.
    figsize : (float, float), optional
        Width and height of a new figure, in inches.

    Returns
    -------
    Axes

    Raises
    ------
    InvalidInputError
        No variable is mixed.
    InvalidTypeError
        Another kind of object.
    MissingDependencyError
        matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> X = smp.datasets.make_smooth_mixture("gmm", 1000, 3, 2, random_state=0).X
    >>> X[:, 1] += X[:, 0]
    >>> ax = smp.plotting.plot_unmixing(smp.UnmixedProductMixture(2, random_state=0).fit(X))
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('variable', 'source')
    """
    unmixing = getattr(model, "unmixing_", None)
    if unmixing is None:
        raise InvalidTypeError(f"model is {type(model).__name__}; expected a fitted UnmixedProductMixture.")
    density = model.density_
    mixed = list(model.density_.mixed)
    if not mixed:
        raise InvalidInputError("No variable is mixed: a product mixture of discrete variables is preferred.")
    shown = unmixing.values * np.sqrt(np.asarray(density.var("all"))[mixed] @ density.weights)
    shown = shown / np.abs(shown).max(axis=1, keepdims=True)
    ax = _map_of_variables(ax, figsize, shown, [density.variables[j] for j in mixed], "share of the largest")
    ax.set_xlabel("variable")
    ax.set_ylabel("source")
    return ax


def _map_of_variables(
    ax: Axes | None,
    figsize: tuple[float, float] | None,
    values: np.ndarray,
    variables: Sequence[Hashable],
    label: str,
    is_pale: np.ndarray | None = None,
) -> Axes:
    """Draw numbers from -1 to 1 (n_variables, n_variables) as colors, written out unless there are many; NaN is blank.

    Cells where `is_pale` (n_variables, n_variables) is true have a weaker color.
    """
    names = [style.wrapped(name, MAP_WIDTH) for name in variables]
    lines = max(name.count("\n") + 1 for name in names)
    side = float(np.clip(0.3 * (lines + 1) * len(names), 2.0, 20.0))
    ax = style.single_axes(ax, (side + 2.4, side + 1.4) if figsize is None else figsize)
    pale = np.zeros(values.shape, dtype=bool) if is_pale is None else is_pale
    image = ax.imshow(values, cmap="RdBu_r", vmin=-1.0, vmax=1.0, aspect="auto", alpha=np.where(pale, PALE, 1.0))
    at = np.arange(len(names))
    ax.set_xticks(at, names, rotation=90, parse_math=False)
    ax.set_yticks(at, names, parse_math=False)
    style.root_figure(ax).colorbar(image, ax=ax, label=label)
    style.write_cells(ax, values, ".2f", (np.abs(values) > 0.6) & ~pale)
    return ax
