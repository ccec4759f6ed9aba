"""Pairs of variables: contours of the components over the samples."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import rel_entr

from tensorly_smp.densities.mixture_density import mixture_quantile
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.plotting import style
from tensorly_smp.plotting.conditionals import draw_variable
from tensorly_smp.plotting.subject import Subject, VariableAxis, axis_of, read_subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Variables that are shown unless some are named, and that may be named.
SHOWN = 4
MOST = 8
#: Contours hold these shares of a component; with more components than this, only the first.
SHARES = (0.8, 0.4)
MANY_COMPONENTS = 6
#: Points along each variable where densities are evaluated.
N_GRID = 90
#: Tails of a component that the grid leaves out.
TAIL = 0.002
#: Samples that are drawn at most, evenly chosen.
MOST_SAMPLES = 1500
#: Shares of the mixture between the bins of which variables are compared.
SHARES_BELOW = np.linspace(0.02, 0.98, 49)
#: Samples of a discrete variable are spread over this part of the gap between its values.
SPREAD = 0.6
#: Values of a discrete variable that each have a tick, at most: the panels are small.
MOST_LEVEL_TICKS = 4


def plot_pairs(
    model_or_dataset: Any,
    X: Any = None,
    variables: Sequence[Hashable] | None = None,
    axes: Any = None,
    figsize: tuple[float, float] | None = None,
) -> np.ndarray:
    """Draw pairs of variables: contours of every component, and samples in the color of their most probable one.

    A contour is the smallest region that holds 80 %, the inner one 40 %, of the component; with more than six
    components there are only the outer ones; a note in the corner says so. On the diagonal are the conditional
    densities. Samples of discrete variables are spread around their values, to be seen. Long tails and far values are
    cut as by :func:`plot_conditionals`, and contours hold their shares of what is left.

    Parameters
    ----------
    model_or_dataset : SmoothProductMixture, Dataset, CoupledSolution, MixtureFactors or MixtureDensity
        A fitted model or its ``result_``, also as read from a file.
    X : array_like, DataFrame, DataArray or Dataset (n_samples, n_variables), optional
        Samples, of all variables of the model; 1500 of them are drawn at most, those whose entry is missing not in the
        panels of that variable. Units as for :func:`plot_conditionals`.
    variables : sequence of names, optional
        Two to eight. By default the four that tell the components apart best, in their order: those with the most
        information on the component.
    axes : array_like of Axes (n_shown, n_shown), optional
        By default those of a new figure.
    figsize : (float, float), optional
        Width and height of a new figure, in inches.

    Returns
    -------
    ndarray of Axes (n_shown, n_shown)
        Those above the diagonal are not visible.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        Nothing that has densities, raw band-limited functions, unknown variables, fewer than two or more than eight, X
        of other variables, too few Axes.
    MissingDependencyError
        matplotlib is not installed.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> data = smp.datasets.make_smooth_mixture("gaussian", 500, 4, 2, random_state=0)
    >>> model = smp.SmoothProductMixture(2, random_state=0).fit(data.X)
    >>> axes = smp.plotting.plot_pairs(model, data.X, variables=["x0", "x3"])
    >>> axes[1, 0].get_xlabel(), axes[1, 0].get_ylabel()
    ('x0', 'x3')
    """
    subject = read_subject(model_or_dataset)
    positions = list(range(len(subject.names))) if variables is None else subject.positions(variables)
    if len(positions) < 2 or (variables is not None and len(positions) > MOST):
        raise InvalidInputError(f"{len(positions)} variable(s) for pairs; expected 2 to {MOST}.")
    if variables is None:
        positions = most_telling(subject, SHOWN)
    values = subject.values(X)
    side = len(positions)
    places = style.panels(axes, side * side, (2.3, 2.1), side, figsize).reshape(side, side)
    names = style.fitted_names(subject.titles(X, positions), places)
    labels = None if values is None else np.asarray(subject.density.posterior(values)).argmax(axis=1)
    shown = {n: axis_of(subject, n, values) for n in positions}
    for ax in places[np.triu_indices(side, 1)]:
        ax.set_visible(False)
    for row, k in enumerate(positions):
        for column, j in enumerate(positions[: row + 1]):
            ax = places[row, column]
            if column == row:
                draw_variable(ax, subject, k, values, with_mixture=False)
                ax.set_yticks([])
                ax.spines["left"].set_visible(False)
            else:
                _draw_pair(ax, subject, {n: shown[n] for n in (j, k)}, values, labels)
                shown[k].apply(ax, "y", 3, MOST_LEVEL_TICKS)
            shown[j].apply(ax, "x", 3, MOST_LEVEL_TICKS)
            ax.tick_params(labelbottom=row == side - 1, labelleft=column == 0)
            if row == side - 1:
                ax.set_xlabel(names[column], parse_math=False)
            if column == 0 and row > 0:
                ax.set_ylabel(names[row], parse_math=False)
    style.plain_frame(places.ravel())
    is_choice = variables is None and side < len(subject.names)
    _draw_note(places, subject, is_choice, 0 if values is None else len(values))
    entries = [f"{r} ({style.weight_text(weight)})" for r, weight in enumerate(subject.weights)]
    # Nothing is drawn there but the note, at the top.
    beside: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (1.02, 0.0), "ncols": 1 + (subject.rank > 5)}
    style.component_legend(places, entries, "component (weight)", axes is None, **beside)
    return places


def _draw_note(places: np.ndarray, subject: Subject, is_choice: bool, n_samples: int) -> None:
    """Say in the corner above the diagonal which variables these are, what contours hold, which samples are drawn.

    The text belongs to the first panel, since those in the corner are not visible.
    """
    side = len(places)
    lines = []
    if is_choice:
        lines.append(f"The {side} of {len(subject.names)} variables that tell the components apart best")
    is_single = subject.rank > MANY_COMPONENTS
    held = " and ".join(f"{share:.0%}" for share in sorted(SHARES[: 1 if is_single else None]))
    lines.append(f"{'The contour holds' if is_single else 'Contours hold'} {held} of a component")
    if n_samples > MOST_SAMPLES:
        lines.append(f"{MOST_SAMPLES} of {n_samples} samples are drawn")
    # A panel and its neighbor above the diagonal are free from three variables on.
    text = "\n".join(style.wrapped(line, 26 if side == 2 else 44) for line in lines)
    note = places[0, 0].text(
        1.0, 1.0, text, transform=places[0, -1].transAxes, ha="right", va="top", fontsize="small", color="0.3",
        clip_on=False,
    )  # fmt: skip
    note.set_in_layout(False)


def most_telling(subject: Subject, n_shown: int) -> list[int]:
    """Positions of the variables that tell components apart best, in their order.

    By the information that a variable has on the component, sum_r w_r KL(f_n(. | r) || f_n), of fifty bins that are
    equally probable in the mixture.
    """
    weights = subject.weights[subject.weights > 0]
    information = []
    for each in subject.density.conditionals:
        below = each.cdf(mixture_quantile(each, subject.weights, SHARES_BELOW))[:, subject.weights > 0]
        table = np.maximum(np.diff(below, axis=0, prepend=0.0, append=1.0), 0.0)
        information.append(float(rel_entr(table, table @ weights[:, None]).sum(axis=0) @ weights))
    return sorted(np.argsort(-np.array(information), kind="stable")[:n_shown].tolist())


def _draw_pair(
    ax: Axes, subject: Subject, pair: dict[int, VariableAxis], values: np.ndarray | None, labels: np.ndarray | None
) -> None:
    if values is not None and labels is not None:
        chosen = np.unique(np.linspace(0, len(values) - 1, min(len(values), MOST_SAMPLES)).astype(int))
        places = []
        for seed, (n, axis) in enumerate(pair.items()):
            column = values[chosen, n]
            low, high = axis.limits
            if axis.is_linear:
                # Samples far outside the picture would take Matplotlib's own sums out of the range of float64.
                column = np.clip(column, low - (high - low), high + (high - low))
            if axis.levels is not None:
                column = column + SPREAD * axis.levels.gap * (np.random.default_rng(seed).random(len(column)) - 0.5)
            places.append(column)
        for r in range(subject.rank):
            mine = labels[chosen] == r
            look = style.component_style(r, is_point=True) | {"s": 7.0, "alpha": 0.35, "linewidths": 0.0, "zorder": 1}
            ax.scatter(places[0][mine], places[1][mine], rasterized=True, **look)
    shares = SHARES if subject.rank <= MANY_COMPONENTS else SHARES[:1]
    for r in np.flatnonzero(subject.weights > 0).tolist():
        (x, f, width), (y, g, height) = (_profile(subject, n, r, axis) for n, axis in pair.items())
        surface = g[:, None] * f
        heights = region_heights(surface, height[:, None] * width, shares)
        if heights:
            look = style.component_style(r)
            drawn = ax.contour(x, y, surface, levels=heights, colors=[look["color"]], linewidths=1.3)
            drawn.set_linestyle(look["linestyle"])
            drawn.set_zorder(3)


def _profile(subject: Subject, n: int, component: int, axis: VariableAxis) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points (n_points,) where a component has its mass, its density there in units of the highest, and steps."""
    levels = axis.levels
    if levels is not None:
        # Steps of components stand beside each other, not on each other.
        tiny = (0.02 + 0.03 * (component % len(style.COLORS))) * levels.gap
        x = np.stack([levels.edges[:-1] + tiny, levels.edges[1:] - tiny], axis=1).ravel()
        density = np.repeat(levels.probabilities[:, component] / np.diff(levels.edges), 2)
        # Contours close at the ends.
        x = np.concatenate([[levels.edges[0]], x, [levels.edges[-1]]])
        density = np.concatenate([[0.0], density, [0.0]])
    else:
        conditionals = subject.density.conditionals[n]
        low, high = np.clip(conditionals.quantile(np.array([TAIL, 1.0 - TAIL]), component), *axis.limits).tolist()
        if not high > low:
            low, high = axis.limits
        x = axis.spaced(low, high, N_GRID)
        logs = conditionals.logpdf(x)[:, component] + np.log(axis.slope(x))
        density = np.exp(logs - logs.max())
    return x, density / density.max(), np.gradient(axis.place(x))


def region_heights(surface: np.ndarray, areas: np.ndarray, shares: Sequence[float]) -> list[float]:
    """Heights of a surface above which these shares of its mass lie, increasing; those that bound no region left out.

    Parameters
    ----------
    surface, areas : ndarray (n_rows, n_columns)
        Density, and area of the cell around each point.
    shares : sequence of float
        Decreasing.
    """
    order = np.argsort(-surface, axis=None)
    mass = np.cumsum((surface * areas).ravel()[order])
    places = [min(int(np.searchsorted(mass, share * mass[-1])), len(mass) - 1) for share in shares]
    heights = np.unique(surface.ravel()[order][places])
    # A region of equal heights has its contour just below them.
    heights = heights * (1.0 - 1e-9)
    return [float(height) for height in heights if surface.min() < height < surface.max()]
