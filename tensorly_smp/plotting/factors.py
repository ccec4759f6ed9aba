"""Factors as heat maps: the probability of every bin, variable by variable."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import ceil
from typing import Any

import numpy as np

from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.plotting.names import short_names
from tensorly_smp.plotting.style import component_style, integer_ticks, page_of, page_title, panels, weight_text
from tensorly_smp.plotting.subject import Subject, read_subject

#: Variables of a page at most, each a row.
ROWS = 30
#: Panels side by side at most.
MOST_COLUMNS = 5
#: Length of the bar of colors at most, in inches.
LONGEST_BAR = 6.0
#: Characters of a name beside its row.
NAME_WIDTH = 28


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
    shown, n_pages = page_of(positions, page, ROWS)
    table = _table(subject, shown)
    n_columns = ceil(subject.rank / ceil(subject.rank / MOST_COLUMNS))  # rows of about equally many
    names = short_names(subject.names, NAME_WIDTH)
    # Names and the scale beside them take about two inches of a row.
    places = panels(
        axes, subject.rank, (2.0 + 2.2 / n_columns, 0.9 + 0.19 * max(len(shown), 6)), n_columns, figsize=figsize
    )
    for r, ax in enumerate(places):
        image = ax.imshow(table[:, :, r], aspect="auto", interpolation="nearest", vmin=0.0, vmax=np.nanmax(table))
        ax.set_facecolor("white")
        color = component_style(r)["color"]
        ax.set_title(f"component {r} ({weight_text(subject.weights[r])})", fontsize="medium", color=color)
        ax.set_xlabel("bin")
        integer_ticks(ax.xaxis, 5)
        is_first = axes is not None or r % n_columns == 0
        ax.set_yticks(range(len(shown)), [names[n] if is_first else "" for n in shown], fontsize="small")
        if is_first:
            ax.set_ylabel("variable")
        ax.tick_params(axis="y", length=0)
        ax.spines[:].set_visible(False)
        # Rows are distributions of their own: a line between them, or neighbors run into one another.
        for row in range(1, len(shown)):
            ax.axhline(row - 0.5, color="white", linewidth=0.8)
    figure = places[0].figure
    shrink = min(0.9, LONGEST_BAR / figure.get_figheight())
    figure.colorbar(image, ax=places.tolist(), label="probability", shrink=shrink, aspect=30)
    if axes is None:
        page_title(figure, page * ROWS, len(shown), len(positions), page, n_pages)
    return places


def _table(subject: Subject, positions: Sequence[int]) -> np.ndarray:
    """Factors (n_shown, n_bins, rank) of these variables; NaN beyond the last bin of those with fewer."""
    assert subject.factors is not None
    factors = [np.asarray(factor) for factor in subject.factors.to_numpy().factors]
    chosen = [factors[n] for n in positions]
    table = np.full((len(chosen), max(map(len, chosen)), subject.rank), np.nan)
    for row, factor in zip(table, chosen, strict=True):
        row[: len(factor)] = factor
    return table
