"""Samples on a few overlapping bins a variable: the coarse model in which starts are searched for.

A value at the fraction u of its variable's distribution lies between two of K + 1 equally spaced knots and belongs to
both, in proportion to its distance. With shares B of the entries (n_samples, n_rows) and log-probabilities T
(n_rows, rank), the mixture is

    sum_m log sum_r w_r exp((B T)_mr) + a sum T,    columns of exp(T) sum to one per variable,

which EM raises exactly as it does for bins that do not overlap: the counts are B'P. It is the smoothed likelihood of
Levine, Hunter and Chauveau (2011) with a piecewise linear smoother. Plain bins of the same number lead to optima that
are farther from those of smooth densities: of 54 problems (seven kinds, 300 to 5000 samples, 3 to 20 components) the
smooth fit from the best optimum with 8 plain bins ended at most 2 nats below the fit from the true labels in 60 %, with
12 or 16 overlapping ones in 84 and 86 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from tensorly_smp.codes.one_hot import index_type
from tensorly_smp.likelihood.bin_likelihood import BinLikelihood
from tensorly_smp.likelihood.expectation import Expectation, expectation

#: Pseudo-counts that the bins of a variable share, per component.
PSEUDO_SAMPLES = 0.5


@dataclass(frozen=True, eq=False)
class Fractions:
    """Values as fractions of their variable's distribution, between 0 and 1.

    Attributes
    ----------
    values : ndarray (n_samples, n_variables)
        Weighted share of the samples below, and half of those that are equal; NaN = missing.
    categories : tuple of ndarray (n_categories,) or None
        Fractions of the distinct values of a discrete variable; None for the others.
    weights : ndarray (n_samples,)
    """

    values: np.ndarray
    categories: tuple[np.ndarray | None, ...]
    weights: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, discrete: Sequence[int], weights: np.ndarray) -> Fractions:
        """Fractions of samples (n_samples, n_variables) of positive weights (n_samples,)."""
        found = np.full(values.shape, np.nan)
        categories: list[np.ndarray | None] = []
        for n in range(values.shape[1]):
            present = ~np.isnan(values[:, n])
            _, position = np.unique(values[present, n], return_inverse=True)
            counts = np.bincount(position, weights[present])
            middle = (np.cumsum(counts) - 0.5 * counts) / max(counts.sum(), 1e-300)
            found[present, n] = middle[position]
            categories.append(middle if n in discrete else None)
        return cls(found, tuple(categories), weights)

    def take(self, rows: np.ndarray, weights: np.ndarray) -> Fractions:
        """Some of the samples, with other weights."""
        return Fractions(self.values[rows], self.categories, weights)

    @cached_property
    def centered(self) -> np.ndarray:
        """Fractions less one half; missing entries are 0, in the middle."""
        return np.nan_to_num(self.values - 0.5)


@dataclass(frozen=True, eq=False)
class OverlappingBins(BinLikelihood):
    """Likelihood of samples that are spread over neighboring bins. Make it with :meth:`of`.

    Attributes
    ----------
    shares : csr_array (n_samples, n_rows)
        Share of every bin in every entry; a missing entry has none.
    weights : ndarray (n_samples,)
    total : float
        Sum of the weights.
    """

    shares: csr_array
    weights: np.ndarray
    total: float

    @classmethod
    def of(cls, fractions: Fractions, n_intervals: int) -> OverlappingBins:
        """Bins around `n_intervals` + 1 knots; of a discrete variable with no more values, one bin for each value."""
        n_samples, n_variables = fractions.values.shape
        is_missing = np.isnan(fractions.values)
        position = np.where(is_missing, 0.0, fractions.values) * n_intervals
        left = np.minimum(position.astype(np.int32), n_intervals - 1)
        position -= left
        sizes = np.full(n_variables, n_intervals + 1)
        for n, categories in enumerate(fractions.categories):
            if categories is not None and len(categories) <= n_intervals + 1:
                sizes[n] = len(categories)
                nearest = np.searchsorted(categories, np.nan_to_num(fractions.values[:, n]) - 1e-12)
                left[:, n] = np.minimum(nearest, len(categories) - 1)
                position[:, n] = 0.0
        left += np.concatenate([[0], np.cumsum(sizes[:-1])]).astype(np.int32)
        rows = np.stack([left, left + 1], axis=2).reshape(n_samples, -1)
        data = np.stack([1.0 - position, position], axis=2)
        data[is_missing] = 0.0
        data = data.reshape(n_samples, -1)
        kept = data > 0
        starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
        starts = starts.astype(index_type(int(starts[-1])))
        shares = csr_array((data[kept], rows[kept], starts), shape=(n_samples, int(sizes.sum())))
        total = float(fractions.weights.sum())
        return cls(
            n_samples=len(fractions.values),
            pseudo_count=PSEUDO_SAMPLES / (n_intervals + 1),
            n_bins=tuple(sizes.tolist()),
            shares=shares,
            weights=fractions.weights,
            total=total,
        )

    @cached_property
    def transposed(self) -> csr_array:
        """The shares by bin (n_rows, n_samples)."""
        return csr_array(self.shares.T)

    def e_step(self, logs: np.ndarray) -> Expectation:
        """E-step with log-probabilities of the bins and, in the last row, of the components."""
        return expectation(self.shares, logs[-1], logs[:-1], self.weights)

    def objective(self, logs: np.ndarray) -> tuple[Expectation, float]:
        """E-step, and the penalized log-likelihood in nats, summed over samples."""
        result = self.e_step(logs)
        return result, result.log_likelihood + self.pseudo_count * float(logs[:-1].sum())

    def log_tables(self, counts: np.ndarray) -> np.ndarray:
        """M-step of any number of components: log-probabilities (n_rows, n_columns) from expected counts."""
        smoothed = counts + self.pseudo_count
        totals = np.log(np.add.reduceat(smoothed, self.first_rows, axis=0))
        return np.asarray(np.log(smoothed) - self._per_row(totals))

    def logs_of(self, posterior: np.ndarray) -> np.ndarray:
        """M-step from posteriors (n_samples, rank): the logarithms that :meth:`e_step` takes."""
        weighted = posterior * self.weights[:, None]
        shares = np.log(np.maximum(weighted.sum(axis=0) / self.total, 1e-60))
        return np.vstack([self.log_tables(self.transposed @ weighted), shares])
