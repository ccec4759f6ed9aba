"""Quantiles of a mixture of densities whose own quantiles are known."""

from __future__ import annotations

import numpy as np

from tensorly_smp.densities.discrete import DiscreteConditionals
from tensorly_smp.densities.grid import ConditionalDensities

# Every second step halves the bracket, so this many always end at neighboring floats; about 20 do in practice.
_MAX_STEPS = 2000


def mixture_quantile(conditionals: ConditionalDensities, weights: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Value below which a share q of the mixture lies; the smallest value up to which it lies if discrete.

    Parameters
    ----------
    conditionals : ConditionalDensities
        Of rank components; proper densities, or probabilities of values.
    weights : ndarray (rank,)
        Sums to one.
    q : ndarray (n_points,)
        Strictly between 0 and 1.

    Returns
    -------
    ndarray (n_points,)
    """
    if isinstance(conditionals, DiscreteConditionals):
        return conditionals.mixed(weights).quantile(q, 0)
    # The mixture's quantile lies between those of its components. Newton's method inside that bracket, in turns with
    # bisection, so that a poor step costs little and the end is certain.
    quantiles = np.stack([conditionals.quantile(q, r) for r in range(len(weights)) if weights[r] > 0])
    low = quantiles.min(axis=0)
    high = quantiles.max(axis=0)
    x = 0.5 * low + 0.5 * high
    for step in range(_MAX_STEPS):
        excess = conditionals.cdf(x) @ weights - q
        low = np.where(excess <= 0, x, low)
        high = np.where(excess >= 0, x, high)
        following = 0.5 * low + 0.5 * high
        if step % 2:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # far out the density is zero
                newton = x - excess / (conditionals.pdf(x) @ weights)
            following = np.where((newton >= low) & (newton <= high), newton, following)
        # half of x, since the spacing of the largest floats overflows
        if np.all(np.abs(following - x) <= 4.0 * np.spacing(0.5 * np.abs(x))):
            return following
        x = following
    return x
