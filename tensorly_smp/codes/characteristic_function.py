"""The energy of a variable's spectrum, |phi|^2, estimated from samples.

The squared empirical characteristic function of M samples is too large by the noise, E|phi_M|^2 = |phi|^2 (1 - q) + q
with q = 1/M (M the effective size of weighted samples), so that (|phi_M|^2 - q)/(1 - q) is unbiased. It is the mean of
cos t(x - x') over all pairs of different samples, and every integral of it is a U-statistic, whose standard error
follows from the same transforms. (Chiu, Annals of Statistics 19, 1991; Hoeffding, 1948.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorly_smp.codes.weighted_values import effective_size

#: Cells a bin of the grid, which is periodic: values far away need no room. At 3 pi/T, rounding takes 0.05 %.
CELLS_PER_BIN = 128
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
    def of(cls, observed: np.ndarray, weights: np.ndarray, origin: float, width: float, n_steps: int) -> EnergySpectrum:
        """Transform values near `origin`, of positive weights; pi / width lies at `n_steps` steps."""
        n_cells = 2 * n_steps * CELLS_PER_BIN
        with np.errstate(over="ignore"):
            positions = np.clip((observed - origin) / width * CELLS_PER_BIN, -_FARTHEST, _FARTHEST)
        # The nearest cell, not the one below: values on a lattice then keep to its points in spite of rounding.
        shares = weights / weights.max()  # so that no sum overflows
        counts = np.bincount(np.rint(positions).astype(np.int64) % n_cells, shares / shares.sum(), n_cells)
        return cls(np.fft.rfft(counts), min(1.0 / effective_size(weights), _MOST_NOISE))

    def energies(self, n_frequencies: int) -> np.ndarray:
        """Unbiased |phi|^2 at 0, 1, ..., n_frequencies - 1 steps, (n_frequencies,); 1 at 0, negative in places."""
        power = np.abs(self.transform[:n_frequencies]) ** 2
        return (power - self.noise) / (1.0 - self.noise)

    def share(self, first: int, last: int) -> tuple[float, float]:
        """Energy between two frequencies (in steps) over that from 0 to `last`, and its standard error.

        Both energies are U-statistics with kernel K(x, x') = sum_k m_k cos(t_k (x - x')), and the ratio is one to first
        order, with m = (m_tail - share m_total) / total. Its variance is 4 q zeta_1 + 2 q^2 zeta_2: zeta_1 that of the
        kernel's mean over x', zeta_2 that of the kernel.
        """
        n_cells = 2 * (len(self.transform) - 1)
        energies = self.energies(last + 1)
        # At least the half of the first step that every density has.
        total = max(float(trapezoid(0, last) @ energies), 0.5)
        share = float(trapezoid(first, last) @ energies / total)
        mask = (trapezoid(first, last) - share * trapezoid(0, last)) / total
        # Half of the cosine's weight belongs to the negative frequency, but for zero, which is its own.
        half = np.zeros(len(self.transform))
        half[: last + 1] = mask * np.where(np.arange(last + 1) == 0, 1.0, 0.5)
        counts = np.fft.irfft(self.transform, n_cells)
        pairs = np.fft.irfft(np.abs(self.transform) ** 2, n_cells)  # by distance, every sample with itself too
        kernel = n_cells * np.fft.irfft(half, n_cells)
        means = n_cells * np.fft.irfft(half * self.transform, n_cells)
        zeta_1 = float(counts @ means**2 - (counts @ means) ** 2)
        pairs[0] -= self.noise
        pairs /= 1.0 - self.noise
        zeta_2 = max(float(pairs @ kernel**2 - (pairs @ kernel) ** 2), 0.0)
        # The means over x' are those over the samples; their own noise is not of the density.
        zeta_1 = max(zeta_1 - self.noise * zeta_2, 0.0)
        return share, float(np.sqrt(4.0 * self.noise * zeta_1 + 2.0 * self.noise**2 * zeta_2))


def trapezoid(first: int, last: int) -> np.ndarray:
    """Weights (last + 1,) of the trapezoid rule from `first` to `last`, zero below."""
    weights = np.zeros(last + 1)
    weights[first:] = 1.0
    weights[[first, last]] = 0.5
    return weights


def observed_values(values: np.ndarray, sample_weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Values of one variable (n_samples,) that are observed and have a positive weight, and those weights."""
    weights = np.ones(len(values)) if sample_weight is None else sample_weight
    kept = ~np.isnan(values) & (weights > 0)
    return values[kept], weights[kept]
