"""Band-limited functions from uniformly spaced samples of a CDF: the paper's reconstruction, with its tail exact.

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

import numpy as np
from scipy.special import polygamma, psi

from tensorly_smp.exceptions import InvalidInputError, NonUniformBinsError

# Above this argument the differences of digammas lose more digits than the asymptotic series drops.
_ASYMPTOTIC_FROM = 64.0


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


def uniform_spacing(points: np.ndarray) -> float:
    """Distance between neighboring points; an error if they are not equally spaced (to 1e-9 of the distance)."""
    points = np.asarray(points, dtype=np.float64)
    if points.ndim != 1 or points.size < 2 or not np.all(np.isfinite(points)):
        raise InvalidInputError(
            f"Sampling points have shape {points.shape}; expected at least two finite points in one dimension."
        )
    # A far origin rounds the points themselves; that is no fault of the spacing.
    rounding = 4.0 * np.finfo(np.float64).eps * np.max(np.abs(points))
    steps = np.diff(points)
    spacing = float(points[-1] / steps.size - points[0] / steps.size)
    if spacing <= 0 or np.any(np.abs(steps - spacing) > 1e-9 * spacing + rounding):
        raise NonUniformBinsError(
            f"Sinc reconstruction needs bins of equal width; received widths from {steps.min():.6g} to "
            f'{steps.max():.6g}. Choose bins with strategy="uniform", or reconstruct with method="histogram".'
        )
    return spacing


def sinc_cdf(x: np.ndarray, edges: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Raw band-limited CDF of bin probabilities, the paper's formula with all of its infinitely many terms.

    Parameters
    ----------
    x : array_like (...)
    edges : array_like (n_bins + 1,)
        Equally spaced. The CDF is 0 at the first edge and before, 1 at the last edge and after.
    probabilities : array_like (n_bins,) or (n_bins, rank)
        Probability of every bin.

    Returns
    -------
    ndarray (...) or (..., rank)
        Passes through the samples of the CDF at the edges. It rings, so it is not monotone and leaves [0, 1].

    Raises
    ------
    NonUniformBinsError
        If the edges are not equally spaced.

    Examples
    --------
    >>> from tensorly_smp.densities.sinc import sinc_cdf
    >>> sinc_cdf([0.0, 2.0, 4.0, 6.0], [0.0, 2.0, 4.0, 6.0], [0.2, 0.5, 0.3]).round(12).tolist()
    [0.0, 0.2, 0.7, 1.0]
    """
    probabilities = np.asarray(probabilities, dtype=np.float64)
    u, _ = _bin_units(x, edges, len(probabilities))
    return sinc_step(u) @ probabilities


def sinc_pdf(x: np.ndarray, edges: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Raw band-limited density of bin probabilities: the derivative of :func:`sinc_cdf`.

    Parameters
    ----------
    x : array_like (...)
    edges : array_like (n_bins + 1,)
        Equally spaced.
    probabilities : array_like (n_bins,) or (n_bins, rank)

    Returns
    -------
    ndarray (...) or (..., rank)
        Integrates to one, but is negative in places.

    Raises
    ------
    NonUniformBinsError
        If the edges are not equally spaced.

    Examples
    --------
    >>> from tensorly_smp.densities.sinc import sinc_pdf
    >>> sinc_pdf([1.0, 3.0, 5.0], [0.0, 2.0, 4.0, 6.0], [0.2, 0.5, 0.3]).round(6).tolist()
    [0.095047, 0.264812, 0.151635]
    """
    probabilities = np.asarray(probabilities, dtype=np.float64)
    u, spacing = _bin_units(x, edges, len(probabilities))
    return sinc_step_derivative(u) @ probabilities / spacing


def _bin_units(x: np.ndarray, edges: np.ndarray, n_bins: int) -> tuple[np.ndarray, float]:
    """Distance of every x from the upper edge of every bin in bin widths (..., n_bins), and the width."""
    edges = np.asarray(edges, dtype=np.float64)
    spacing = uniform_spacing(edges)
    if edges.size != n_bins + 1:
        raise InvalidInputError(f"{edges.size} edges and {n_bins} bin probabilities; expected one edge more than bins.")
    u = (np.asarray(x, dtype=np.float64) - edges[0]) / spacing
    return u[..., None] - np.arange(1, n_bins + 1), spacing
