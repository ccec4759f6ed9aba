"""The energy of a variable's spectrum, |phi|^2, estimated from samples.

The squared empirical characteristic function of M samples is too large by the noise, E|phi_M|^2 = |phi|^2 (1 - q) + q
with q = 1/M (with normalized weights w, q = sum w^2), so that (|phi_M|^2 - q)/(1 - q) is unbiased. It is the mean of
cos t(x - x') over all pairs of different samples, and every integral of it is a U-statistic, whose standard error
follows from the same transforms.

All of it takes one histogram on a fine grid and a few Fourier transforms, O(M + n log n) a variable: 0.1 s for a
million samples. The grid is periodic: at the frequencies of its transform a value and its images are the same, so that
values far away need no room.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorly_smp.checks import unmasked_array
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError

# Cells of the grid a bin: at 12 pi/T, rounding to cells takes 0.7 % of the energy. (At 48 pi/T, where repeated values
# are looked for with four times the bins, 11 %.)
_CELLS_PER_BIN = 128
_FARTHEST = 1e12  # in widths; rounding has eaten the position there, and nothing overflows
_MOST_NOISE = 1.0 - 1e-12  # one sample has all the weight: nothing is known, but nothing is divided by zero


@dataclass(frozen=True, eq=False)
class EnergySpectrum:
    """Squared characteristic function of one variable, without its noise, on an even grid of frequencies.

    Attributes
    ----------
    transform : ndarray of complex (n_cells // 2 + 1,)
        Empirical characteristic function (conjugate) at the multiples of the step.
    noise : float
        q, the expected square of the transform where the density has none.
    """

    transform: np.ndarray
    noise: float

    @classmethod
    def of(cls, positions: np.ndarray, weights: np.ndarray, n_cells: int) -> EnergySpectrum:
        """Of values given in cells of a periodic grid.

        Parameters
        ----------
        positions : ndarray (n_values,)
            In cells, from anywhere; the step of the frequencies is 2 pi / `n_cells`.
        weights : ndarray (n_values,)
            Sum to one.
        n_cells : int
            Even.
        """
        # The nearest cell, not the one below: values on a lattice then keep to its points in spite of rounding.
        cells = np.rint(np.clip(positions, -_FARTHEST, _FARTHEST)).astype(np.int64) % n_cells
        counts = np.bincount(cells, weights, n_cells)
        return cls(np.fft.rfft(counts), min(float(weights @ weights), _MOST_NOISE))

    def energies(self, n_frequencies: int) -> np.ndarray:
        """Unbiased |phi|^2 at 0, 1, ..., n_frequencies - 1 steps, (n_frequencies,); 1 at 0, negative in places."""
        power = np.abs(self.transform[:n_frequencies]) ** 2
        return (power - self.noise) / (1.0 - self.noise)

    def share(self, first: int, last: int) -> float:
        """Energy between two frequencies (in steps, trapezoid rule), over that from 0 to `last`."""
        return float(trapezoid(first, last) @ self.energies(last + 1) / self.total(last))

    def share_error(self, first: int, last: int) -> float:
        """Standard error of `share`.

        Both energies are U-statistics with kernel K(x, x') = sum_k m_k cos(t_k (x - x')), and the ratio is one to first
        order, with m = (m_tail - share m_total) / total. Its variance is 4 q zeta_1 + 2 q^2 zeta_2: zeta_1 that of the
        kernel's mean over x', zeta_2 that of the kernel (Hoeffding, 1948).
        """
        n_cells = 2 * (len(self.transform) - 1)
        mask = (trapezoid(first, last) - self.share(first, last) * trapezoid(0, last)) / self.total(last)
        # Half of the cosine's weight belongs to the negative frequency, but for zero, which is its own.
        half = np.zeros(len(self.transform))
        half[: last + 1] = mask * np.where(np.arange(last + 1) == 0, 1.0, 0.5)
        counts = np.fft.irfft(self.transform, n_cells)
        pairs = np.fft.irfft(np.abs(self.transform) ** 2, n_cells)  # by distance, with every sample's pair with itself
        kernel = n_cells * np.fft.irfft(half, n_cells)
        means = n_cells * np.fft.irfft(half * self.transform, n_cells)
        zeta_1 = float(counts @ means**2 - (counts @ means) ** 2)
        pairs[0] -= self.noise
        pairs /= 1.0 - self.noise
        zeta_2 = max(float(pairs @ kernel**2 - (pairs @ kernel) ** 2), 0.0)
        # The means over x' are those over the samples; their own noise is not of the density.
        zeta_1 = max(zeta_1 - self.noise * zeta_2, 0.0)
        return float(np.sqrt(4.0 * self.noise * zeta_1 + 2.0 * self.noise**2 * zeta_2))

    def total(self, last: int) -> float:
        """Energy from 0 to `last` steps, at least the half of the first step that every density has."""
        return max(float(trapezoid(0, last) @ self.energies(last + 1)), 0.5)


def trapezoid(first: int, last: int) -> np.ndarray:
    """Weights (last + 1,) of the trapezoid rule from `first` to `last`, zero below."""
    weights = np.zeros(last + 1)
    weights[first:] = 1.0
    weights[[first, last]] = 0.5
    return weights


def bin_spectrum(
    observed: np.ndarray, weights: np.ndarray, origin: float, width: float, n_steps: int
) -> EnergySpectrum:
    """Spectrum on a grid of frequencies that has pi / width at `n_steps` steps, good up to 12 times that.

    Parameters
    ----------
    observed, weights : ndarray (n_values,)
        As of :func:`observed_values`.
    origin : float
        Any number near the values.
    width : float
        Positive.
    n_steps : int

    Returns
    -------
    EnergySpectrum
    """
    with np.errstate(over="ignore"):  # limited by `of`
        positions = (observed - origin) / width * _CELLS_PER_BIN
    return EnergySpectrum.of(positions, weights, 2 * n_steps * _CELLS_PER_BIN)


def observed_values(values: np.ndarray, sample_weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Values that are observed and have a positive weight, and those weights with sum one.

    Parameters
    ----------
    values : ndarray (n_samples,)
        NaN = missing.
    sample_weight : ndarray (n_samples,) or None

    Returns
    -------
    observed, weights : ndarray (n_observed,)
    """
    values = _numbers(values, "values")
    if values.ndim != 1 or np.isinf(values).any():
        raise InvalidInputError(f"Values have shape {values.shape}; expected one dimension, and no infinite value.")
    kept = ~np.isnan(values)
    if sample_weight is None:
        observed = values[kept]
        return observed, np.full(len(observed), 1.0 / max(len(observed), 1))
    given = _numbers(sample_weight, "sample_weight")
    if given.shape != values.shape or not np.isfinite(given).all() or (given < 0).any():
        raise InvalidInputError(
            f"sample_weight has shape {given.shape}; expected {values.shape}, finite and non-negative."
        )
    kept &= given > 0
    weights = given[kept] / given[kept].max(initial=0.0) if kept.any() else given[kept]
    return values[kept], weights / weights.sum() if len(weights) else weights


def _numbers(values: np.ndarray, name: str) -> np.ndarray:
    try:
        return np.asarray(unmasked_array(values, name), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"The {name} are not real numbers: {error}") from error


def value_weights(observed: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Different values in ascending order, and the weight of each."""
    if len(weights) and weights.min() == weights.max():  # twice as fast
        distinct, counts = np.unique(observed, return_counts=True)
        return distinct, counts / len(observed)
    distinct, inverse = np.unique(observed, return_inverse=True)
    return distinct, np.bincount(inverse, weights, len(distinct))
