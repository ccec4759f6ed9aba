"""Conditional densities that are constant in every bin."""

from __future__ import annotations

import numpy as np

from tensorly_smp.densities.grid import GridConditionals, StudentBackground

# Bins narrower than this share of the mean width are measured in a smaller unit.
_NARROW, _FARTHEST = 1e-100, 1e140
# Bins narrower than this share of the range lose digits if they are measured from its end.
_LOST = 1e-6


def bin_moments(edges: np.ndarray, probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of piecewise constant densities.

    Parameters
    ----------
    edges : ndarray (n_bins + 1, ...)
        Of one variable, or of several.
    probabilities : ndarray (n_bins, ..., rank)

    Returns
    -------
    mean, variance : ndarray (..., rank)
        The variance is positive: it includes the spread inside the bins.
    """
    centers = 0.5 * (edges[1:] + edges[:-1])[..., None]
    mean = (centers * probabilities).sum(axis=0)
    # (n_bins, ..., rank); about the mean, so that nothing cancels
    spread = (centers - mean) ** 2 + np.diff(edges, axis=0)[..., None] ** 2 / 12.0
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
    origin, unit = _grid(edges)
    knots = (edges - origin) / unit
    background = StudentBackground.matching(*bin_moments(knots, probabilities))
    return GridConditionals.from_cells(origin, unit, knots, probabilities, background)


def _grid(edges: np.ndarray) -> tuple[float, float]:
    """Origin and unit in which no two edges coincide, however far apart the bins lie.

    Between 0, 1 and -1e17 the edges 0.5 and 1.5 are the same number of steps of 1e17 away from the first one. So the
    origin is at the narrowest bin, next to which subtraction is exact, and the unit, a power of two, divides exactly.
    """
    widths = np.diff(edges)
    n_bins = len(widths)
    narrowest = int(np.argmin(widths))
    mean = edges[-1] / n_bins - edges[0] / n_bins
    # Densities are per unit, and squares of the range are taken: neither must overflow.
    if widths[narrowest] < mean * _NARROW:
        mean = max(np.sqrt(mean) * np.sqrt(widths[narrowest]), mean / _FARTHEST)
    unit = float(2.0 ** np.floor(np.log2(mean)))
    origin = float(edges[0] if widths[narrowest] > _LOST * (edges[-1] - edges[0]) else edges[narrowest])
    if not (np.diff((edges - origin) / unit) > 0).all():
        origin = 0.0  # subtracts nothing: numbers that differ keep differing, at the cost of digits inside the bins
    return origin, unit
