"""Whether posterior probabilities can be believed, where the classes are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment

from tensorly_smp.checks import checked_integer
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError, SizeLimitError
from tensorly_smp.labels import aligned
from tensorly_smp.plotting.names import short_names
from tensorly_smp.plotting.style import (
    DATA_COLOR,
    component_marker,
    component_style,
    plain_frame,
    single_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Bins of probabilities with fewer samples than this are no points of the curves of single classes.
FEWEST = 10
#: Samples times classes: more are a sign of values, not of classes.
MOST_PREDICTIONS = 25_000_000
#: More classes than this, and the curves of single ones are left out.
MOST_CLASSES = 10
#: Of a new figure, in inches: square axes, and a legend beside them.
SIZE = (7.4, 4.6)
#: Half the width of the bars, in standard errors.
N_ERRORS = 2.0
#: Classes are drawn so far from each other, and all of them together at most, in points of print.
GREATEST_STEP, WIDTH_OF_STEPS = 4.0, 14.0


def plot_calibration(probabilities: Any, labels: Any, n_bins: int = 10, ax: Axes | None = None) -> Axes:
    """Draw how often a class is right that has a certain posterior probability.

    Components are matched to classes first, one to one, so that the posteriors of the true classes are as large as
    they can be together; components left over go to the class that they share most with, and probabilities of one class
    are added. Every sample then makes one prediction per class. Probabilities are calibrated if, of those near 0.8,
    four of five are right: on the diagonal. Below it they are too sure, and above it not sure enough.

    Parameters
    ----------
    probabilities : array_like or DataFrame or DataArray (n_samples, n_components)
        Posterior probabilities, rows sum to one: ``model.predict_proba(X)``.
    labels : array_like (n_samples,)
        Known classes, of any hashable kind, none missing. A Series is matched to a DataFrame of probabilities by their
        indexes.
    n_bins : int, default 10
        Bins of equal width, of the probabilities.
    ax : matplotlib Axes, optional
        By default those of a new figure.

    Returns
    -------
    Axes
        The black line is of all classes together, with bars of two standard errors (Wilson's, which stay between 0 and
        1); thin ones, in the color of their component, of each class, set beside each other by a few points lest one
        hides another. Gray bars at the bottom are not on the scale of the axis: they tell how the predictions spread,
        and the highest, whose share the legend gives, is a quarter of the axis. The expected calibration error in the
        legend is the mean distance of the black line from the diagonal, each point counting by its predictions.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        Probabilities that are none, labels that are missing or not as many as the samples.
    MissingDependencyError
        matplotlib is not installed.

    Notes
    -----
    Expected calibration error: C. Guo, G. Pleiss, Y. Sun, K. Weinberger, "On calibration of modern neural networks",
    ICML 2017. Bars: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22,
    1927. The error is here of all classes and not of the most probable one only. Predictions of one sample depend on
    each other, which the bars do not know.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> data = smp.datasets.make_smooth_mixture("gaussian", 500, 4, 2, random_state=0)
    >>> model = smp.SmoothProductMixture(2, random_state=0).fit(data.X)
    >>> ax = smp.plotting.plot_calibration(model.predict_proba(data.X), data.labels)
    >>> ax.get_xlabel()
    'posterior probability of the class'
    """
    posterior = _checked_probabilities(probabilities)
    codes, classes = _checked_labels(aligned(labels, probabilities, "labels", "probabilities"), len(posterior))
    n_bins = checked_integer(n_bins, "n_bins", 2)
    matching = match_classes(posterior, codes, len(classes))
    sums = [posterior[:, matching == c].sum(axis=1) for c in range(len(classes))]
    predicted = np.minimum(np.stack(sums, axis=1), 1.0)  # but for rounding
    right = codes[:, None] == np.arange(len(classes))
    is_new, ax = ax is None, single_axes(ax, SIZE)
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=1.0, linestyle="--", zorder=0)
    _draw_spread(ax, predicted, n_bins)
    if len(classes) <= MOST_CLASSES:
        names = short_names(classes, 20)
        groups = [np.flatnonzero(matching == c) for c in range(len(classes))]
        order = sorted(range(len(classes)), key=lambda c: groups[c].min(initial=len(matching)))
        for place, c in enumerate(order):
            drawn = _draw_class(ax, _Curve.of(predicted[:, c], right[:, c], n_bins), groups[c], names[c])
            _set_aside(drawn, place - 0.5 * (len(order) - 1), len(order))
    pooled = _Curve.of(predicted.ravel(), right.ravel(), n_bins)
    label = f"all classes (calibration error {pooled.distance:.3f})"
    ax.errorbar(
        pooled.probability, pooled.frequency, pooled.bars, color="black", marker="o", markersize=5,
        linewidth=1.8, capsize=2.5, elinewidth=1.0, zorder=4, label=label,
    )  # fmt: skip
    ax.set_xlim(-0.04, 1.04)
    ax.set_ylim(-0.02, 1.02)
    ax.set_xlabel("posterior probability of the class")
    ax.set_ylabel("share of samples that are of it")
    plain_frame([ax])
    if is_new:
        ax.figure.legend(frameon=False, fontsize="small", loc="outside right upper")
    else:
        ax.legend(frameon=False, fontsize="small", loc="upper left")
    return ax


def match_classes(posterior: np.ndarray, codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Class (rank,) of every component.

    Parameters
    ----------
    posterior : ndarray (n_samples, rank)
    codes : ndarray of int (n_samples,)
        Numbers of the classes.
    n_classes : int

    Returns
    -------
    ndarray of int (rank,)
        One to one as far as there are as many, by the Hungarian method on the summed posteriors of the classes' own
        samples; each component left over has the class with its largest sum. Classes left over do not appear.
    """
    shared = np.zeros((n_classes, posterior.shape[1]))
    np.add.at(shared, codes, posterior)
    matching = shared.argmax(axis=0)
    rows, columns = linear_sum_assignment(shared, maximize=True)
    matching[columns] = rows
    return matching


@dataclass(frozen=True, eq=False)
class _Curve:
    """Points of a reliability diagram, of the bins that have predictions, (n_points,) each."""

    probability: np.ndarray
    frequency: np.ndarray
    count: np.ndarray

    @classmethod
    def of(cls, predicted: np.ndarray, right: np.ndarray, n_bins: int) -> _Curve:
        place = np.minimum((predicted * n_bins).astype(int), n_bins - 1)
        count = np.bincount(place, minlength=n_bins)
        used = count > 0
        sums = [np.bincount(place, weights, n_bins)[used] for weights in (predicted, right)]
        return cls(sums[0] / count[used], sums[1] / count[used], count[used])

    @property
    def bars(self) -> np.ndarray:
        """Distances (2, n_points) to the ends of Wilson's interval: the p within N_ERRORS of its errors of frequency.

        It ends between 0 and 1, and is no point where all or none were right.
        """
        spread = N_ERRORS**2 / self.count
        middle = (self.frequency + 0.5 * spread) / (1.0 + spread)
        half = np.sqrt(spread * (self.frequency * (1.0 - self.frequency) + 0.25 * spread)) / (1.0 + spread)
        ends = np.stack([self.frequency - (middle - half), middle + half - self.frequency])
        return np.maximum(ends, 0.0)  # but for rounding

    @property
    def distance(self) -> float:
        """Expected calibration error."""
        return float(np.abs(self.probability - self.frequency) @ self.count / self.count.sum())


def _draw_class(ax: Axes, curve: _Curve, components: np.ndarray, name: str) -> list[Any]:
    """The curve of one class, in the color of its first component."""
    kept = curve.count >= FEWEST
    if not len(components) or not kept.any():
        return []
    numbers = ", ".join(map(str, components.tolist()))
    style = component_style(int(components[0])) | {"marker": component_marker(int(components[0]))["marker"]}
    label = f"class {name} (component {short_names([numbers], 12)[0]})"
    return ax.plot(
        curve.probability[kept], curve.frequency[kept], linewidth=1.0, markersize=3.5, alpha=0.9, label=label,
        clip_on=False, zorder=5, **style,
    )  # fmt: skip


def _set_aside(lines: list[Any], place: float, n_places: int) -> None:
    """Move lines sideways by some points of print, their data staying what they are."""
    from matplotlib.transforms import ScaledTranslation

    step = min(GREATEST_STEP, WIDTH_OF_STEPS / n_places)
    for line in lines:
        aside = ScaledTranslation(place * step / 72.0, 0.0, line.axes.figure.dpi_scale_trans)
        line.set_transform(line.axes.transData + aside)


def _draw_spread(ax: Axes, predicted: np.ndarray, n_bins: int) -> None:
    """The histogram of the predictions, a quarter of the axis high; the label tells what that is."""
    counts, edges = np.histogram(predicted, n_bins, (0.0, 1.0))
    label = f"share of predictions (highest: {counts.max() / counts.sum():.0%})"
    ax.stairs(0.25 * counts / counts.max(), edges, fill=True, color=DATA_COLOR, linewidth=0, zorder=0, label=label)


def _checked_probabilities(probabilities: Any) -> np.ndarray:
    try:
        posterior = np.asarray(probabilities, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"probabilities must be numbers: {error}.") from error
    if posterior.ndim != 2 or 0 in posterior.shape:
        raise InvalidInputError(f"probabilities have shape {posterior.shape}; expected (n_samples, n_components).")
    if not (posterior >= 0).all() or not np.allclose(posterior.sum(axis=1), 1.0, atol=1e-4):
        raise InvalidInputError("probabilities are negative, missing, or do not sum to one in every row.")
    return posterior


def _checked_labels(labels: Any, n_samples: int) -> tuple[np.ndarray, list[Any]]:
    """Numbers (n_samples,) of the labels, and the distinct labels."""
    values = labels if isinstance(labels, pd.Series | pd.Index) else np.ma.asanyarray(labels)
    if np.shape(values) != (n_samples,):
        raise InvalidInputError(f"labels have shape {np.shape(values)}; expected ({n_samples},), one for each sample.")
    if np.ma.is_masked(values):
        raise InvalidInputError("labels are masked; expected one for each sample.")
    try:
        codes, classes = pd.factorize(pd.Series(values), sort=False)
    except TypeError as error:
        raise InvalidTypeError(f"labels are not hashable: {error}") from error
    if (codes < 0).any():
        raise InvalidInputError("labels are missing; expected one for each sample. Leave out samples without.")
    if n_samples * len(classes) > MOST_PREDICTIONS:
        raise SizeLimitError(
            f"labels have {len(classes)} distinct values, of {n_samples} samples; expected classes, not measurements."
        )
    return codes, list(classes)
