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
from tensorly_smp.likelihood.steps import SMALLEST_PROBABILITY, CellSamples, SmoothMixture

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


def overlapping_bins(fractions: Fractions, n_intervals: int) -> CellSamples:
    """Samples in bins around `n_intervals` + 1 knots, as EM takes them.

    Of a discrete variable with no more values, there is one bin for each value.
    """
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
    pseudo_count = PSEUDO_SAMPLES / (n_intervals + 1)
    return CellSamples.in_bins(shares, sizes.tolist(), fractions.weights, pseudo_count)


def log_tables(samples: CellSamples, counts: np.ndarray) -> np.ndarray:
    """M-step of any number of components: log-probabilities (n_rows, n_columns) from expected counts."""
    smoothed = counts + samples.prior
    totals = np.log(np.add.reduceat(smoothed, samples.first_rows, axis=0))
    return np.asarray(np.log(smoothed) - samples.per_row(totals))


def mixture_of(samples: CellSamples, posterior: np.ndarray) -> SmoothMixture:
    """M-step from posteriors (n_samples, rank)."""
    weighted = posterior * samples.sample_weight[:, None]
    shares = np.maximum(weighted.sum(axis=0) / samples.total_weight, SMALLEST_PROBABILITY)
    coefficients = np.empty((samples.cells.basis.n_basis, 0, len(shares)))
    return SmoothMixture(np.log(shares), coefficients, log_tables(samples, samples.transposed @ weighted))
