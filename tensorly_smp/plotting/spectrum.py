"""Spectrum of the block tensor: singular values of its pair block, of samples or of a fitted model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.initializers.pair_values import pair_values_of
from tensorly_smp.marginals.partition import default_partition
from tensorly_smp.plotting.style import (
    BLUE,
    FRAME,
    GRAY,
    ORANGE,
    integer_ticks,
    log_ticks,
    require_dataset,
    single_axes,
)
from tensorly_smp.plotting.subject import MIXTURES, Subject, read_subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Singular values that are shown beyond the number of components.
MORE = 3
#: Below this share of the first, a singular value is zero but for rounding.
ROUNDING = 1e-12
#: Beyond this ratio of the largest to the least the axis of a model's is logarithmic; else it begins at zero.
WIDE = 20.0


def plot_singular_values(
    model_or_dataset: Any, ax: Axes | None = None, X: Any = None, figsize: tuple[float, float] | None = None
) -> Axes:
    """Draw the singular values of the pair block, without the trivial first.

    The pair block is the block tensor summed over its third mode, in the scale of correspondence analysis. Without
    noise it has as many positive singular values as there are components. Of samples they are drawn beside those of
    shuffled samples, which are noise only: as many as stand out, with the first, is the number of components that the
    samples show. Of a fitted model there are as many as components, exact, and the last of them tells how well samples
    show the component that is hardest to see. A vertical line marks the number of components of the model, or that
    which a selection has chosen.

    Parameters
    ----------
    model_or_dataset : Dataset of select_n_components, or whatever `plot_factors` takes
        The Dataset of :func:`tensorly_smp.select_n_components` has the singular values of the samples; the Notes there
        say how to read them. Of a fitted model, its Dataset or factors those of the factors are computed.
    ax : matplotlib Axes, optional
        By default those of a new figure.
    X : array_like, DataFrame, DataArray or Dataset (n_samples, n_variables), optional
        With a fitted model: the singular values of these samples instead, in six bins of about equally many; of few
        variables with many components in more, to have as many values.
    figsize : (float, float), optional
        Width and height of a new figure, in inches.

    Returns
    -------
    Axes

    Raises
    ------
    InvalidInputError, InvalidTypeError
        None of these, fewer than three variables, or X of other variables.
    MissingDependencyError
        matplotlib is not installed.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> X = smp.datasets.make_smooth_mixture("gaussian", 500, 4, 2, random_state=1).X
    >>> table = smp.select_n_components(X, range(1, 4), random_state=0)
    >>> smp.plotting.plot_singular_values(table).get_yscale()
    'log'
    >>> model = smp.SmoothProductMixture(2, random_state=0).fit(X)
    >>> ax = smp.plotting.plot_singular_values(model)
    >>> ax.get_lines()[0].get_ydata().shape
    (1,)
    """
    if not isinstance(model_or_dataset, xr.Dataset) or "factors" in model_or_dataset:
        subject = read_subject(model_or_dataset, f"the Dataset of select_n_components, {MIXTURES}")
        if X is None:
            return _draw_model(subject, single_axes(ax, figsize))
        dataset = _of_samples(subject, X)
        return _draw_samples(dataset, single_axes(ax, figsize), subject.rank)
    needed = ("singular_values", "shuffled_singular_values")
    require_dataset(model_or_dataset, needed, ("n_above_noise",), "select_n_components")
    return _draw_samples(model_or_dataset, single_axes(ax, figsize), model_or_dataset.attrs.get("best"))


def _draw_samples(dataset: xr.Dataset, ax: Axes, n_components: int | None) -> Axes:
    """Singular values of samples, and of shuffled ones."""
    names = ("singular_values", "shuffled_singular_values")
    order = dataset["order"].values
    (found, shuffled) = (dataset[name].values for name in names)
    level = shuffled[1] if len(shuffled) > 1 else np.nan
    above = (found > level) & (order > 1)
    ax.plot(order[1:], found[1:], color=BLUE, marker="o", markerfacecolor="white", label="singular values")
    ax.plot(order[above], found[above], color=BLUE, marker="o", linestyle="none")
    ax.plot(order[1:], shuffled[1:], color=GRAY, marker=".", linewidth=0.8, label="shuffled samples")
    n_above = int(dataset.attrs["n_above_noise"])
    label = f"noise level; {n_above} are above it, the first among them"
    ax.axhline(level, color=GRAY, linestyle="--", linewidth=0.8, label=label)
    log_ticks(ax.yaxis, np.concatenate([found[1:], shuffled[1:]]))
    ax.set_title("As many stand out of the noise\nas components can be seen", fontsize="small")
    _finish(ax, n_components)
    return ax


def _draw_model(subject: Subject, ax: Axes) -> Axes:
    """Singular values of the factors of a model, as many as it has components."""
    values = model_singular_values(subject)
    order = np.arange(1, len(values) + 1)
    positive = values > ROUNDING * values[0]
    shown = (order > 1) & positive
    ax.plot(
        order[shown],
        values[shown],
        color=BLUE,
        marker="o",
        linestyle="none",
        label="singular values of the fitted factors",
    )
    if not positive.all():
        zero = order[~positive]
        ax.plot(
            zero, np.full(len(zero), 0.03), color=ORANGE, marker="x", linestyle="none", label="zero",
            transform=ax.get_xaxis_transform(),
        )  # fmt: skip
    if shown.any() and values[shown].max() > WIDE * values[shown].min():
        log_ticks(ax.yaxis, values[shown])
    else:
        ax.vlines(order[shown], 0.0, values[shown], color=BLUE, linewidth=1.8)
        # Space for the legend above the stems, which matplotlib's best place does not see.
        ax.set_ylim(0.0, 1.5 * values[shown].max(initial=1.0 if not shown.any() else 0.0))
    ax.set_xlim(0.5, max(len(values), 2) + 0.5)
    ax.set_title("The nearer the last is to zero,\nthe harder it is to see a component", fontsize="small")
    _finish(ax, len(values), "best" if ax.get_yscale() == "log" else "upper left")
    return ax


def _finish(ax: Axes, n_components: int | None, place: str = "best") -> None:
    """Names of the axes, the line of the number of components, and the legend."""
    if n_components is not None:
        label = f"number of components: {n_components}"
        ax.axvline(n_components, color=ORANGE, linestyle=":", linewidth=1.4, zorder=0, label=label)
    ax.set_xlabel("order (the first says nothing and is left out)")
    ax.set_ylabel("singular value of the pair block")
    integer_ticks(ax.xaxis)
    ax.legend(**FRAME | {"loc": place, "fontsize": "small"})


def model_singular_values(subject: Subject) -> np.ndarray:
    """Singular values (rank,) of the pair block of exact histograms, decreasing; the first is trivial.

    The pair block is A^_1 diag(w) A^_2', A^_s the stacked factors of the default partition, divided by the roots of the
    bins' probabilities A^_s w.
    """
    if subject.factors is None:
        raise InvalidInputError("A MixtureDensity has no factors; expected a fitted model, its Dataset or a solution.")
    if len(subject.names) < 3:
        raise InvalidInputError(f"There are {len(subject.names)} variables; expected at least three.")
    factors = [np.asarray(factor) for factor in subject.factors.to_numpy().factors]
    triangles = []
    for group in default_partition(len(factors)).sets[:2]:
        stacked = np.concatenate([factors[n] for n in group])
        probability = stacked @ subject.weights
        seen = probability > 0
        scaled = stacked[seen] * np.sqrt(subject.weights) / np.sqrt(probability[seen])[:, None]
        # B_1 B_2' has the singular values of R_1 R_2', of their triangular factors, which have few rows.
        triangles.append(np.asarray(np.linalg.qr(scaled, mode="r")))
    values = np.zeros(subject.rank)
    found = np.linalg.svd(triangles[0] @ triangles[1].T, compute_uv=False)
    values[: len(found)] = found[: subject.rank]
    return values


def _of_samples(subject: Subject, X: Any) -> xr.Dataset:
    """Singular values of samples, in the form of select_n_components."""
    values = subject.values(X)
    assert values is not None
    values = values[~np.isnan(values).all(axis=1)]
    if len(values) < 2 or np.isnan(values).all(axis=0).any():
        raise InvalidInputError("X has fewer than two samples, or a variable without values; expected more.")
    pair = pair_values_of(values, subject.rank + MORE)
    return xr.Dataset(
        {"singular_values": ("order", pair.found), "shuffled_singular_values": ("order", pair.shuffled)},
        {"order": np.arange(1, len(pair.found) + 1)},
        {"n_above_noise": pair.n_above_noise},
    )
