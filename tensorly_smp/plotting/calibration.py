"""Calibration curves: posterior probabilities against known classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from tensorly_smp._support.checks import checked_integer, float_array
from tensorly_smp.exceptions import InvalidInputError, SizeLimitError
from tensorly_smp.metrics import label_codes
from tensorly_smp.plotting.names import short_names
from tensorly_smp.plotting.style import component_marker, component_style, plain_frame, single_axes
from tensorly_smp.samples.labels import aligned

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Samples times classes: more are a sign of values, not of classes.
MOST_PREDICTIONS = 25_000_000
#: More classes than this, and the curves of single ones are left out.
MOST_CLASSES = 10
#: Bins of fewer predictions are not joined with the others.
FEW_PREDICTIONS = 5
#: Of a new figure, in inches: square axes, and a legend beside them.
SIZE = (7.4, 4.6)


def plot_calibration(
    probabilities: Any,
    labels: Any,
    n_bins: int = 10,
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
) -> Axes:
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
    figsize : (float, float), optional
        Width and height of a new figure, in inches.

    Returns
    -------
    Axes
        A black curve of all classes together, and a thin one of each class in the color of its component. Bins of fewer
        than five predictions are hollow points, since their share says little; curves join neighboring bins of more.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        Probabilities that are none, labels that are missing or not as many as the samples.
    MissingDependencyError
        matplotlib is not installed.

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
    is_new = ax is None
    ax = single_axes(ax, SIZE if figsize is None else figsize)
    ax.plot([0, 1], [0, 1], color="black", linestyle=":", linewidth=1.0, label="perfectly calibrated", zorder=1)
    groups = [np.flatnonzero(matching == c) for c in range(len(classes))]
    if len(classes) <= MOST_CLASSES:
        names = short_names(classes, 20)
        for c in sorted(range(len(classes)), key=lambda c: groups[c].min(initial=len(matching))):
            if len(groups[c]):
                first = int(groups[c][0])
                numbers = short_names([", ".join(map(str, groups[c].tolist()))], 12)[0]
                style = component_style(first) | {"marker": component_marker(first)["marker"]}
                style |= {"linewidth": 1.0, "markersize": 3.5, "alpha": 0.9}
                label = f"class {names[c]} (component {numbers})"
                _draw_curve(ax, right[:, c], predicted[:, c], n_bins, label, style)
    style = {"color": "black", "marker": "o", "markersize": 5, "linewidth": 1.8}
    _draw_curve(ax, right.ravel(), predicted.ravel(), n_bins, "all classes", style)
    ax.set(xlim=(-0.04, 1.04), ylim=(-0.04, 1.04), aspect="equal")
    ax.set_xlabel("posterior probability of the class")
    ax.set_ylabel("share of samples that are of it")
    plain_frame([ax])
    if is_new:
        ax.figure.legend(frameon=False, fontsize="small", loc="outside right upper")
    else:
        ax.legend(frameon=False, fontsize="small", loc="upper left")
    return ax


def _draw_curve(
    ax: Axes, right: np.ndarray, predicted: np.ndarray, n_bins: int, label: str, style: dict[str, Any]
) -> None:
    """Draw the share of right predictions (n_predictions,) against their mean, by bins of equal width."""
    bins = np.minimum((predicted * n_bins).astype(int), n_bins - 1)
    counts = np.bincount(bins, minlength=n_bins)
    used = counts > 0
    x = np.bincount(bins, predicted, n_bins)[used] / counts[used]
    y = np.bincount(bins, right, n_bins)[used] / counts[used]
    full = counts[used] >= FEW_PREDICTIONS
    # A line joins neighboring bins only: it would pass over the bins in between as if nothing were known of them.
    breaks = np.flatnonzero(np.diff(np.flatnonzero(used)[full]) > 1) + 1
    ax.plot(np.insert(x[full], breaks, np.nan), np.insert(y[full], breaks, np.nan), label=label, zorder=3, **style)
    hollow = style | {"linestyle": "none", "markerfacecolor": "white"}
    if not full.all():
        ax.plot(x[~full], y[~full], label="_few", zorder=2, **hollow)


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


def _checked_probabilities(probabilities: Any) -> np.ndarray:
    posterior = float_array(probabilities, "probabilities")
    if posterior.ndim != 2 or 0 in posterior.shape:
        raise InvalidInputError(f"probabilities have shape {posterior.shape}; expected (n_samples, n_components).")
    if not (posterior >= 0).all() or not np.allclose(posterior.sum(axis=1), 1.0, atol=1e-4):
        raise InvalidInputError("probabilities are negative, missing, or do not sum to one in every row.")
    return posterior


def _checked_labels(labels: Any, n_samples: int) -> tuple[np.ndarray, list[Any]]:
    """Numbers (n_samples,) of the labels, and the distinct labels."""
    codes, classes = label_codes(labels, "labels")
    if len(codes) != n_samples:
        raise InvalidInputError(f"labels have shape {codes.shape}; expected ({n_samples},), one for each sample.")
    if n_samples * len(classes) > MOST_PREDICTIONS:
        raise SizeLimitError(
            f"labels have {len(classes)} distinct values, of {n_samples} samples; expected classes, not measurements."
        )
    return codes, classes
