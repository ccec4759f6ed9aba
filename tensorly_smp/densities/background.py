"""The small density on the whole line that keeps every conditional density above zero."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorly_smp._support.representations import short_repr

# Variance of Student's t with four degrees of freedom, in its unit scale.
_UNIT_VARIANCE = 2.0


@dataclass(frozen=True, eq=False)
class StudentBackground:
    """Student's t with four degrees of freedom, one per component.

    Of the densities on the whole line it is the one whose density, distribution function, quantile and partial moments
    are all elementary, that has a variance, and whose tails fall like a power: the logarithm of its density at a far
    outlier is moderate, so one wild entry neither overflows a sum of logarithms nor outvotes all other variables.

    With s = z / sqrt(4 + z^2) and z = (t - center)/scale: density 12 (4 + z^2)^(-5/2) / scale, distribution function
    1/2 + 3 (s - s^3/3)/4.

    Attributes
    ----------
    center, scale : ndarray (rank,)
    """

    center: np.ndarray
    scale: np.ndarray

    __repr__ = short_repr

    @classmethod
    def matching(cls, mean: np.ndarray, variance: np.ndarray) -> StudentBackground:
        """Background of given means and variances."""
        # A variance that has underflowed still needs a scale to divide by.
        return cls(mean, np.sqrt(np.maximum(variance, np.finfo(np.float64).tiny) / _UNIT_VARIANCE))

    def logpdf(self, t: np.ndarray) -> np.ndarray:
        """Log-density (..., rank) at t (...); finite for every finite t."""
        z = (t[..., None] - self.center) / self.scale
        # hypot, so that z^2 does not overflow
        return np.log(12.0) - 5.0 * np.log(np.hypot(2.0, z)) - np.log(self.scale)

    def below(self, t: np.ndarray) -> np.ndarray:
        """Probability (..., rank) of the values below t (...), to full relative precision in the lower tail."""
        return _lower_tail((t[..., None] - self.center) / self.scale)

    def above(self, t: np.ndarray) -> np.ndarray:
        """Probability (..., rank) of the values above t (...), to full relative precision in the upper tail."""
        return _lower_tail((self.center - t[..., None]) / self.scale)

    def lower_quantile(self, q: np.ndarray, component: int) -> np.ndarray:
        """Value below which a share q (...) <= 1/2 of one component lies."""
        return self.center[component] - self.scale[component] * _upper_quantile(q)

    def upper_quantile(self, q: np.ndarray, component: int) -> np.ndarray:
        """Value above which a share q (...) <= 1/2 of one component lies."""
        return self.center[component] + self.scale[component] * _upper_quantile(q)

    def tail_moments(self, low: float, high: float, size: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        """First and second moment about `center`, in `size`, each (rank,), of what is below `low` and above `high`."""
        below = (low - self.center) / self.scale
        above = (high - self.center) / self.scale
        # The first moment of z above c is (1/2)(1 + c^2/4)^(-3/2), an even function of c.
        first = 4.0 * (np.hypot(2.0, above) ** -3.0 - np.hypot(2.0, below) ** -3.0)
        second = _upper_second_moment(above) + _upper_second_moment(-below)
        return self.scale / size * first, (self.scale / size) ** 2 * second


def _lower_tail(z: np.ndarray) -> np.ndarray:
    """Probability below z: g^2 (3 - g)/4 with g = 1 - |s| for z < 0.

    With a = |z|/2, g = 1/(1 + a^2 + a sqrt(1 + a^2)): nothing cancels, and every step to it grows with a, so that
    rounding keeps the order of two points (the factor 3 - g may cost the last digit of the tail).
    """
    a = 0.5 * np.abs(z)
    with np.errstate(over="ignore", under="ignore"):
        gap = 1.0 / (1.0 + a * a + a * np.sqrt(1.0 + a * a))
        tail = gap * gap * (3.0 - gap) / 4.0
    return np.where(z < 0, tail, 1.0 - tail)


def _upper_second_moment(z: np.ndarray) -> np.ndarray:
    """Integral of z^2 times the density from z up: 1 - s^3."""
    root = np.hypot(2.0, z)
    s = z / root
    gap = np.where(z > 0, (2.0 / root) ** 2 / (1.0 + np.abs(s)), 1.0 - s)
    return gap * (1.0 + s + s * s)


def _upper_quantile(q: np.ndarray) -> np.ndarray:
    """Value above which a share q <= 1/2 lies (Shaw 2006, "Sampling Student's T distribution")."""
    alpha = np.sqrt(4.0 * q * (1.0 - q))
    return 2.0 * np.sqrt(np.maximum(np.cos(np.arccos(np.minimum(alpha, 1.0)) / 3.0) / alpha - 1.0, 0.0))
