"""A solution and one of its rivals, one above the other."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.fitting.results import n_rivals, rival_dataset, telling_variables, why_none
from tensorly_smp.plotting.conditionals import draw_variable, name_densities
from tensorly_smp.plotting.style import component_legend, named_panels, plain_frame, weight_text
from tensorly_smp.plotting.subject import Subject, read_subject

#: Variables that are shown unless some are named, and at most.
SHOWN, MOST = 4, 8
#: Characters of a line of a name below its panel, at most.
NAME_WIDTH = 22


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
        positions = telling_variables(subject.dataset, int(rival))[:SHOWN]
    else:
        positions = subject.positions(variables)
    if len(positions) > MOST:
        raise InvalidInputError(f"{len(positions)} variables; expected at most {MOST}.")
    values = subject.values(X)
    units = subject.units(X)
    subject.density, other.density  # noqa: B018  # errors before there is a figure
    n_shown = len(positions)
    titles = subject.titles(X)
    places, names = named_panels(
        axes, [titles[n] for n in positions], 2 * n_shown, (2.6, 2.2), n_shown, NAME_WIDTH, figsize
    )
    places = places.reshape(2, n_shown)
    below = -float(subject.dataset["rival_criterion"].values[int(rival)])
    heads = ("this solution", f"rival {int(rival)}, {abs(below):.1f} nats {'below' if below >= 0 else 'above'}")
    for row, each, head in zip(places, (subject, other), heads, strict=True):
        for ax, n in zip(row, positions, strict=True):
            draw_variable(ax, each, n, values, with_mixture=False)
        name_densities(row, each, positions, units, n_shown)
        row[0].set_title(head, loc="left", fontsize="medium")
    for (upper, lower), name in zip(places.T, names, strict=True):
        lower.set_xlabel(name, parse_math=False)
        if upper.get_xscale() == lower.get_xscale():
            limits = np.array([upper.get_xlim(), lower.get_xlim()])
            for ax in (upper, lower):
                ax.set_xlim(limits[:, 0].min(), limits[:, 1].max())
    plain_frame(places.ravel())
    pairs = zip(subject.weights, other.weights, strict=True)
    labels = [f"{r} ({weight_text(first)}, {weight_text(second)})" for r, (first, second) in enumerate(pairs)]
    component_legend(places, labels, "component (weight here, weight in the rival)", axes is None)
    return places
