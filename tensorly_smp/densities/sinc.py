"""Band-limited densities of one variable: the paper's functions with their tails exact, and densities near to them.

They are tabulated here, and evaluated at points by :class:`tensorly_smp.densities.conditionals.GridConditionals`.

The cumulative sums of a column of bin probabilities are samples F(d_0 + kT) of a conditional CDF at the edges, and
Shannon's interpolation turns them into a function on the whole line,

    F(x) = sum_k F(d_0 + kT) sinc((x - d_0 - kT) / T),        f(x) = dF(x)/dx.

Past the last edge F = 1 for ever, so the sum has infinitely many terms, and it converges so slowly that any cut-off is
visible. It has a closed form. With u = (x - d_0)/T, let S(u) = sum_{k >= 0} sinc(u - k) be the interpolation of one
unit step. F is a sum of steps, p_i high at the upper edge of bin i, hence

    F(x) = sum_i p_i S(u - i),        f(x) = (1/T) sum_i p_i S'(u - i),        i = 1..I,

in which no term of the paper's sum is missing and none is written out.

Source: N. Kargas, N. D. Sidiropoulos, "Learning Mixtures of Smooth Product Distributions: Identifiability and
Algorithm", AISTATS 2019.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import polygamma, psi

from tensorly_smp.densities.conditionals import BACKGROUND_SHARE, GridConditionals, StudentBackground, bin_moments

# Above this argument the differences of digammas lose more digits than the asymptotic series drops.
_ASYMPTOTIC_FROM = 64.0

# A band-limited function bends at most by (pi/width)^2 times its height, so linear pieces miss it by at most
# (pi/32)^2/8 = 0.12 % of the height; a Gaussian two bins wide by 0.003 %.
POINTS_PER_BIN = 32

# The densities reach half a bin past the outermost edges, as far as the frequency polygon does: a new value a little
# out of the range of the old ones is no surprise. Worth 0.1 to 0.2 nats at 200 samples; at 5000 it costs 0.02 for
# Gammas, whose edge is sharp, and nothing for the others.
MARGIN_POINTS = POINTS_PER_BIN // 2

# No density falls below this share of the frequency polygon. Ringing digs holes of zero density beside a peak, and a
# test point that falls in costs more than all else. KL(true || learned) by benchmarks/densities.py sinc, the paper's
# cases Gaussian / GMM / Gamma / Laplace:
#               1000 samples               5000 samples               50 000 samples
#   0      0.571 0.553 0.788 0.888    0.153 0.144 0.455 0.715    0.026 0.046 0.590 1.271
#   0.3    0.390 0.431 0.551 0.574    0.104 0.110 0.331 0.397    0.017 0.035 0.434 0.548
#   0.5    0.351 0.390 0.519 0.478    0.094 0.099 0.328 0.299    0.014 0.033 0.434 0.361
#   0.7    0.311 0.348 0.502 0.370    0.081 0.091 0.347 0.187    0.014 0.039 0.468 0.224
#   0.9    0.247 0.285 0.512 0.279    0.072 0.100 0.413 0.129    0.036 0.081 0.579 0.222
# The histogram has 0.307 0.352 0.710 0.536 at 5000 samples. Cutting at zero and dividing by the integral, in place of
# the projection, was worse than the first row for Gammas (by 0.1) and as good for the others.
POLYGON_SHARE = 0.7

# More steps than the finite iteration has ever needed (about ten).
_MAX_STEPS = 200


def _sin_cos_pi(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sine and cosine of pi u, exact in the period: u is reduced before it is multiplied by the rounded pi."""
    nearest = np.rint(u)
    sign = 1.0 - 2.0 * np.abs(np.fmod(nearest, 2.0))
    angle = np.pi * (u - nearest)
    return sign * np.sin(angle), sign * np.cos(angle)


def _alternating_sum(a: np.ndarray) -> np.ndarray:
    """b(a) = sum_{k >= 0} (-1)^k / (a + k) = [psi((a + 1)/2) - psi(a/2)] / 2, for a >= 1/2."""
    series = 1.0 / np.maximum(a, _ASYMPTOTIC_FROM)
    square = series * series
    far = 0.5 * series + square * (0.25 - square * (0.125 - square * (0.25 - square * 1.0625)))
    near_a = np.minimum(a, _ASYMPTOTIC_FROM)
    near = 0.5 * (psi(0.5 * (near_a + 1.0)) - psi(0.5 * near_a))
    return np.where(a > _ASYMPTOTIC_FROM, far, near)


def _alternating_sum_derivative(a: np.ndarray) -> np.ndarray:
    """b'(a) = [psi'((a + 1)/2) - psi'(a/2)] / 4, for a >= 1/2."""
    series = 1.0 / np.maximum(a, _ASYMPTOTIC_FROM)
    square = series * series
    far = -0.5 * square * (1.0 + series * (1.0 - square * (1.0 - square * (3.0 - square * 17.0))))
    near_a = np.minimum(a, _ASYMPTOTIC_FROM)
    near = 0.25 * (polygamma(1, 0.5 * (near_a + 1.0)) - polygamma(1, 0.5 * near_a))
    return np.where(a > _ASYMPTOTIC_FROM, far, near)


def sinc_step(u: np.ndarray) -> np.ndarray:
    """Band-limited interpolation of a unit step: S(u) = sum_{k >= 0} sinc(u - k).

    Parameters
    ----------
    u : array_like (...)
        Position in sampling intervals; the samples 0, -1, -2, ... of the step are 0 below zero and 1 from zero on.

    Returns
    -------
    ndarray (...)
        Equal to 0 at the negative integers and to 1 at 0, 1, 2, ...

    Examples
    --------
    >>> from tensorly_smp.densities.sinc import sinc_step
    >>> sinc_step([-3.0, -0.5, 0.0, 7.0]).round(12).tolist()
    [0.0, 0.5, 1.0, 1.0]
    """
    u = np.asarray(u, dtype=np.float64)
    # All terms alternate in sign, sinc(u - k) = (-1)^k sin(pi u) / (pi (u - k)), so S(u) = -(sin(pi u)/pi) b(-u). The
    # function b has poles where its argument is 0, -1, ...; S(u) + S(-1 - u) = 1 keeps the argument above 1/2.
    low = np.minimum(u, -1.0 - u)
    sine, _ = _sin_cos_pi(low)
    lower = -sine / np.pi * _alternating_sum(-low)
    return np.where(u < -0.5, lower, 1.0 - lower)


def sinc_step_derivative(u: np.ndarray) -> np.ndarray:
    """S'(u), the band-limited impulse that one unit step contributes to the density; symmetric about u = -1/2.

    Parameters
    ----------
    u : array_like (...)
        Position in sampling intervals, as for :func:`sinc_step`.

    Returns
    -------
    ndarray (...)

    Examples
    --------
    >>> from tensorly_smp.densities.sinc import sinc_step_derivative
    >>> sinc_step_derivative([-0.5, 0.0, -1.0]).round(6).tolist()
    [1.166244, 0.693147, 0.693147]
    """
    u = np.asarray(u, dtype=np.float64)
    low = np.minimum(u, -1.0 - u)
    sine, cosine = _sin_cos_pi(low)
    return sine / np.pi * _alternating_sum_derivative(-low) - cosine * _alternating_sum(-low)


def sinc_conditionals(
    edges: np.ndarray,
    probabilities: np.ndarray,
    polygon_share: float = POLYGON_SHARE,
    background_share: float = BACKGROUND_SHARE,
) -> tuple[GridConditionals, np.ndarray]:
    """Proper densities close to the band-limited ones.

    In the least-squares sense they are the nearest functions to the raw ones, among all that live between the outermost
    edges and half a bin past them, integrate to one and nowhere fall below a share of the frequency polygon (straight
    lines through the bin heights at the bin centers). These are max(f - xi, share polygon) with one constant xi per
    component, as Glad, Hjort and Ushakov (2003), "Correction of density estimators that are not densities", found for a
    bound of zero; where the raw functions are well above the bound, nothing changes but that small constant. Then a
    small background on the whole line is mixed in.

    Parameters
    ----------
    edges : ndarray (n_bins + 1,)
        Equally spaced.
    probabilities : ndarray (n_bins, rank)
        Probability of every bin; columns sum to one.
    polygon_share : float
        From 0 to less than 1.
    background_share : float
        Between 0 and 1, positive.

    Returns
    -------
    conditionals : GridConditionals
    clipped_mass : ndarray (rank,)
        Integral of the negative parts of the raw functions on that interval; their positive parts hold about that
        much more than one.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.densities.sinc import sinc_conditionals
    >>> edges, probabilities = np.arange(5.0), np.array([[0.1], [0.4], [0.4], [0.1]])
    >>> conditionals, clipped_mass = sinc_conditionals(edges, probabilities)
    >>> conditionals.cdf(np.array([1.0, 2.0])).round(1).tolist()
    [[0.1], [0.5]]
    >>> float(clipped_mass[0]) < 0.01
    True
    """
    n_bins = len(probabilities)
    origin = edges[0]
    unit = edges[-1] / n_bins - edges[0] / n_bins
    raw = band_limited_basis(n_bins) @ probabilities
    clipped_mass = trapezoid_weights(len(raw)) @ np.maximum(-raw, 0.0)
    values = project_above(raw, polygon_share * frequency_polygon(probabilities))
    background = StudentBackground.matching(*bin_moments(np.arange(n_bins + 1.0), probabilities))
    proper = GridConditionals.from_knots(origin, unit, grid_points(n_bins), values, background, background_share)
    return proper, clipped_mass


def grid_points(n_bins: int) -> np.ndarray:
    """Points (n_points,) of the grid in bin widths from the first edge, half a bin past the last."""
    return np.arange(-MARGIN_POINTS, n_bins * POINTS_PER_BIN + MARGIN_POINTS + 1) / POINTS_PER_BIN


@lru_cache(maxsize=8)
def band_limited_basis(n_bins: int) -> np.ndarray:
    """Raw density on the grid, in bin widths, from one unit of probability in each bin.

    Returns
    -------
    ndarray (n_points, n_bins)
        A read-only view of one long function: what a bin contributes is what its neighbor does, one bin further.
    """
    first = -n_bins * POINTS_PER_BIN - MARGIN_POINTS
    last = (n_bins - 1) * POINTS_PER_BIN + MARGIN_POINTS
    # S'(u) at all differences u between a grid point and an upper bin edge, in order.
    impulse = sinc_step_derivative(np.arange(first, last + 1) / POINTS_PER_BIN)
    windows = np.lib.stride_tricks.sliding_window_view(impulse, (n_bins - 1) * POINTS_PER_BIN + 1)
    return windows[:, ::-POINTS_PER_BIN]


def frequency_polygon(probabilities: np.ndarray) -> np.ndarray:
    """Straight lines through the bin heights at the bin centers, on the grid, integral one.

    Parameters
    ----------
    probabilities : ndarray (n_bins, rank)

    Returns
    -------
    ndarray (n_points, rank)
        Zero at both ends of the grid.
    """
    padded = np.pad(probabilities, ((1, 2), (0, 0)))  # entry i is the height at (i - 1/2) bin widths
    position = grid_points(len(probabilities)) + 0.5
    start = np.floor(position).astype(int)
    fraction = (position - start)[:, None]
    return (1.0 - fraction) * padded[start] + fraction * padded[start + 1]


def project_above(raw: np.ndarray, floor: np.ndarray) -> np.ndarray:
    """Nearest function of integral one that is nowhere below `floor`: max(raw - xi, floor).

    Parameters
    ----------
    raw, floor : ndarray (n_points, rank)
        On the grid, in bin widths; the integral of `floor` is less than one.

    Returns
    -------
    ndarray (n_points, rank)
    """
    weights = trapezoid_weights(len(raw))
    excess = raw - floor
    room = 1.0 - weights @ floor
    # The integral of max(excess - xi, 0) is convex in xi: Newton's method from the left climbs to its root and is there
    # once the set of points above stays the same, after finitely many steps.
    xi = (weights @ excess - room) / weights.sum()
    for _ in range(_MAX_STEPS):
        above = excess > xi
        following = (weights @ np.where(above, excess, 0.0) - room) / (weights @ above)
        if np.all(following <= xi):
            break
        xi = np.maximum(following, xi)
    return floor + np.maximum(excess - xi, 0.0)


def trapezoid_weights(n_points: int) -> np.ndarray:
    """Weights (n_points,) that integrate a piecewise linear function on the grid, in bin widths."""
    weights = np.full(n_points, 1.0 / POINTS_PER_BIN)
    weights[[0, -1]] *= 0.5
    return weights
