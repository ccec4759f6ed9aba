"""Conditional densities that are constant in every bin."""

from __future__ import annotations

import numpy as np

from tensorly_smp.densities.background import StudentBackground
from tensorly_smp.densities.grid import GridConditionals


def bin_moments(edges: np.ndarray, probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of piecewise constant densities.

    Parameters
    ----------
    edges : ndarray (n_bins + 1,)
    probabilities : ndarray (n_bins, rank)

    Returns
    -------
    mean, variance : ndarray (rank,)
        The variance is positive: it includes the spread inside the bins.
    """
    centers, widths = 0.5 * (edges[1:] + edges[:-1]), np.diff(edges)
    mean = centers @ probabilities
    # (n_bins, rank); about the mean, so that nothing cancels
    spread = (centers[:, None] - mean) ** 2 + widths[:, None] ** 2 / 12.0
    return mean, (spread * probabilities).sum(axis=0)


def histogram_conditionals(edges: np.ndarray, probabilities: np.ndarray) -> GridConditionals:
    """Piecewise constant densities of one variable, with the same small background as the smooth ones.

    Parameters
    ----------
    edges : ndarray (n_bins + 1,)
        Strictly increasing; widths may differ.
    probabilities : ndarray (n_bins, rank)
        Probability of every bin; columns sum to one.

    Returns
    -------
    GridConditionals

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.densities.histogram import histogram_conditionals
    >>> conditionals = histogram_conditionals(np.array([0.0, 1.0, 4.0]), np.array([[0.7], [0.3]]))
    >>> conditionals.pdf(np.array([0.5, 2.0])).round(2).tolist()
    [[0.7], [0.1]]
    """
    n_bins = len(edges) - 1
    unit = edges[-1] / n_bins - edges[0] / n_bins
    knots = (edges - edges[0]) / unit
    background = StudentBackground.matching(*bin_moments(knots, probabilities))
    return GridConditionals.from_cells(edges[0], unit, knots, probabilities, background)
