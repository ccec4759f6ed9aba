"""The likelihood of samples in bins, as the passes of EM see it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from tensorly_smp._support.checks import is_real
from tensorly_smp._support.representations import shown
from tensorly_smp.codes.encoding import Codes
from tensorly_smp.codes.one_hot import one_hot
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.likelihood.expectation import SMALLEST_PROBABILITY, Expectation, expectation, log_floored

#: Pseudo-counts per bin and unit of sample weight at most, so that the counts of the samples are not rounded away.
_LARGEST_SMOOTHING = 1e9


@dataclass(frozen=True, eq=False)
class BinLikelihood:
    """The likelihood of samples in bins. Where they are, and how they are added up, is for subclasses to say.

    Its argument is all logarithms in one matrix, those of the weights in the last row.

    Attributes
    ----------
    n_samples : int
        Total weight of the samples, whose weights are one on average.
    pseudo_count : float
        Of every bin, in samples of average weight.
    n_bins : tuple of int
    """

    n_samples: int
    pseudo_count: float
    n_bins: tuple[int, ...]

    def e_step(self, logs: np.ndarray) -> Expectation:
        """The E-step, with weights that are one on average."""
        raise NotImplementedError

    @cached_property
    def first_rows(self) -> np.ndarray:
        """Row of the first bin of every variable."""
        return np.concatenate([[0], np.cumsum(self.n_bins[:-1])])

    def expect(self, logs: np.ndarray) -> tuple[Expectation, float, float]:
        """The E-step, and the log-likelihood per sample without and with the prior."""
        result = self.e_step(logs)
        penalty = self.pseudo_count * float(logs[:-1].sum()) if self.pseudo_count else 0.0
        return result, result.log_likelihood / self.n_samples, (result.log_likelihood + penalty) / self.n_samples

    def maximize(self, result: Expectation, logs: np.ndarray) -> np.ndarray:
        """The M-step: shares of the expected counts. A column without counts stays as it was: any would do."""
        counts = result.counts + self.pseudo_count
        totals = self._per_row(np.add.reduceat(counts, self.first_rows, axis=0))
        tables = np.where(totals > 1e-300, counts / np.maximum(totals, 1e-300), np.exp(logs[:-1]))
        weights = result.component_counts / result.component_counts.sum()
        return log_floored(np.vstack([tables, weights]))

    def feasible(self, logs: np.ndarray) -> np.ndarray:
        """Any matrix as logarithms of probabilities that sum to one, none below the smallest."""
        lowest = np.log(SMALLEST_PROBABILITY)
        # The largest of each column (for the weights of the row) at zero: no exponential overflows.
        tables = logs[:-1] - self._per_row(np.maximum.reduceat(logs[:-1], self.first_rows, axis=0))
        tables = np.exp(np.maximum(tables, lowest))
        weights = np.exp(np.maximum(logs[-1] - logs[-1].max(), lowest))
        tables /= self._per_row(np.add.reduceat(tables, self.first_rows, axis=0))
        return log_floored(np.vstack([tables, weights / weights.sum()]))

    def _per_row(self, per_variable: np.ndarray) -> np.ndarray:
        return np.repeat(per_variable, self.n_bins, axis=0)


@dataclass(frozen=True, eq=False)
class _CodeLikelihood(BinLikelihood):
    """Binned likelihood of codes in memory.

    Attributes
    ----------
    hot : csr_array (n_samples, n_rows)
    sample_weight : ndarray (n_samples,) or None
        One on average.
    """

    hot: csr_array
    sample_weight: np.ndarray | None

    def e_step(self, logs: np.ndarray) -> Expectation:
        """The E-step, with weights that are one on average."""
        return expectation(self.hot, logs[-1], logs[:-1], self.sample_weight)


def code_likelihood(codes: Codes, weights: np.ndarray | None, smoothing: Any) -> BinLikelihood:
    """Binned likelihood of codes in memory; weights (n_samples,) of any scale, pseudo-counts per bin in samples."""
    average = 1.0
    if weights is not None:
        peak = float(weights.max())
        weights = weights / peak  # its mean cannot underflow
        average = float(weights.mean())
        weights = weights / average
        average *= peak
    smoothing = checked_number(smoothing, "smoothing", _LARGEST_SMOOTHING * codes.n_samples * average)
    return _CodeLikelihood(
        n_samples=codes.n_samples,
        pseudo_count=smoothing / average if smoothing else 0.0,
        n_bins=codes.n_bins,
        hot=one_hot(codes),
        sample_weight=weights,
    )


def checked_number(value: Any, name: str, most: float) -> float:
    """A number from 0 to `most`."""
    if not is_real(value):
        raise InvalidTypeError(f"{name} is {shown(value)}; expected a number.")
    if not 0 <= value <= most:
        raise InvalidInputError(f"{name} is {shown(value)}; expected a number from 0 to {most:.3g}.")
    return float(value)
