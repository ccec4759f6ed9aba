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
from typing import Any

import numpy as np

from tensorly_smp._support.parallel import OnePart
from tensorly_smp.codes.encoding import sparse_rows
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.likelihood.cells import Cells, bin_cells
from tensorly_smp.likelihood.em import SmoothFit
from tensorly_smp.likelihood.steps import SMALLEST_PROBABILITY, CellPart, CellSamples, Mixture
from tensorly_smp.samples.values import evenly_weighted

#: Pseudo-counts that the bins of a variable share, per component.
PSEUDO_SAMPLES = 0.5
#: Intervals between the knots of every variable, level after level: from a coarse model with few optima to a finer one,
#: whose optima are nearer to those of smooth densities.
LEVELS = (8, 12, 16)
#: Samples that are searched on, if there are more: so many for each component, within these limits.
SAMPLES_PER_COMPONENT, LEAST_SAMPLES, MOST_SAMPLES = 150, 1500, 4500
#: Entries that are in bins at once, where posteriors of all samples are wanted.
VALUES_AT_ONCE = 100_000
_GOLDEN = 0.6180339887498949


@dataclass(frozen=True, eq=False)
class MidRanks:
    """Values as fractions of their variable's distribution, between 0 and 1.

    Attributes
    ----------
    values : ndarray (n_samples, n_variables)
        Weighted share of the samples below, and half of those that are equal; NaN = missing.
    categories : dict from int to ndarray (n_categories,)
        Mid-ranks of the distinct values of the discrete variables, by their positions.
    weights : ndarray (n_samples,)
    """

    values: np.ndarray
    categories: dict[int, np.ndarray]
    weights: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, discrete: Sequence[int], weights: np.ndarray) -> MidRanks:
        """Mid-ranks of samples (n_samples, n_variables) of positive weights (n_samples,)."""
        n_samples, n_variables = values.shape
        found = np.empty(values.shape)
        categories = {}
        place = np.arange(n_samples)
        are_weighted = bool((weights != 1.0).any())
        size = max(1, VALUES_AT_ONCE // n_samples)
        for first in range(0, n_variables, size):
            columns = np.ascontiguousarray(values[:, first : first + size].T)
            order = np.argsort(columns, axis=1)  # missing ones last
            ordered = np.take_along_axis(columns, order, axis=1)
            is_new = np.diff(ordered, axis=1, prepend=-np.inf) > 0
            middle = np.broadcast_to((place + 0.5) / n_samples, order.shape)
            if are_weighted or not is_new.all():
                counts = weights[order]
                counts[np.isnan(ordered)] = 0.0
                upto = np.cumsum(counts, axis=1)
                total = np.maximum(counts.sum(axis=1, keepdims=True), 1e-300)
                # Equal values, from the first to the last of them, share the place of all.
                start = np.maximum.accumulate(np.where(is_new, place, 0), axis=1)
                last = np.where(np.roll(is_new, -1, axis=1) | (place == n_samples - 1), place, n_samples)
                end = np.minimum.accumulate(last[:, ::-1], axis=1)[:, ::-1]
                below = np.take_along_axis(upto - counts, start, axis=1)
                upto = np.take_along_axis(upto, end, axis=1)
                middle = (upto - 0.5 * (upto - below)) / total
                middle[np.isnan(ordered)] = np.nan
            placed = np.empty(columns.shape)
            np.put_along_axis(placed, order, middle, axis=1)
            found[:, first : first + size] = placed.T
            for n in {*discrete} & {*range(first, first + len(columns))}:
                categories[n] = middle[n - first, is_new[n - first]]
        return cls(found, categories, weights)

    def take(self, rows: np.ndarray | slice, weights: np.ndarray) -> MidRanks:
        """Some of the samples, with other weights."""
        return MidRanks(self.values[rows], self.categories, weights)

    @cached_property
    def centered(self) -> np.ndarray:
        """MidRanks less one half; missing entries are 0, in the middle."""
        found = self.values - 0.5
        found[np.isnan(found)] = 0.0
        return found


def overlapping_bins(mid_ranks: MidRanks, n_intervals: int, cells: Cells | None = None) -> CellSamples:
    """Samples in bins around `n_intervals` + 1 knots, as EM takes them; `cells` are those of other samples so far.

    Of a discrete variable with no more values, there is one bin for each value.
    """
    n_samples, n_variables = mid_ranks.values.shape
    is_missing = np.isnan(mid_ranks.values)
    position = np.where(is_missing, 0.0, mid_ranks.values) * n_intervals
    left = np.minimum(position.astype(np.int32), n_intervals - 1)
    position -= left
    sizes = np.full(n_variables, n_intervals + 1)
    for n, categories in mid_ranks.categories.items():
        if len(categories) <= n_intervals + 1:
            sizes[n] = len(categories)
            nearest = np.searchsorted(categories, np.nan_to_num(mid_ranks.values[:, n]) - 1e-12)
            left[:, n] = np.minimum(nearest, len(categories) - 1)
            position[:, n] = 0.0
    left += np.concatenate([[0], np.cumsum(sizes[:-1])]).astype(np.int32)
    rows = np.stack([left, left + 1], axis=2)
    data = np.stack([1.0 - position, position], axis=2)
    data[is_missing] = 0.0
    shares = sparse_rows(data.reshape(n_samples, -1), rows.reshape(n_samples, -1), int(sizes.sum()))
    return CellSamples(
        cells=cells or bin_cells(sizes.tolist()),
        prior=np.full((int(sizes.sum()), 1), PSEUDO_SAMPLES / (n_intervals + 1)),
        log_volume=0.0,
        total_weight=float(mid_ranks.weights.sum()),
        parts=OnePart(CellPart(shares, mid_ranks.weights)),
    )


def log_tables(samples: CellSamples, counts: np.ndarray) -> np.ndarray:
    """M-step of any number of components: log-probabilities (n_rows, n_columns) from expected counts."""
    smoothed = counts + samples.prior
    totals = np.log(np.add.reduceat(smoothed, samples.first_rows, axis=0))
    return np.asarray(np.log(smoothed) - samples.per_row(totals))


def mixture_of(samples: CellSamples, posterior: np.ndarray) -> Mixture:
    """M-step from posteriors (n_samples, rank)."""
    weighted = posterior * samples.sample_weight[:, None]
    shares = np.maximum(weighted.sum(axis=0) / samples.total_weight, SMALLEST_PROBABILITY)
    coefficients = np.empty((samples.cells.basis.n_basis, 0, len(shares)))
    return Mixture(np.log(shares), coefficients, log_tables(samples, samples.transposed @ weighted))


def canonical(mid_ranks: MidRanks) -> MidRanks:
    """Samples in an order, and with weights, that do not depend on how they came.

    Equal samples become one of their added weights. The order of the rows, repeats in place of weights, the order of
    the variables, and their signs change nothing in it but where samples or variables tie.
    """
    centered = mid_ranks.centered
    squares = (centered**2).sum(axis=1) * mid_ranks.weights
    # Odd in a variable, even in all others: its sign tells the variable's direction, its size the variable's place.
    skewness = squares @ centered
    place = np.argsort(np.argsort(np.abs(skewness), kind="stable"), kind="stable")
    mixing = np.sign(skewness) * (1.0 + (place + 1) * _GOLDEN % 1.0)
    in_place = np.argsort(place)

    def signed(rows: Any) -> np.ndarray:
        is_missing = np.isnan(mid_ranks.values[rows])
        return np.where(is_missing, 0.75 * np.abs(mixing), centered[rows] * mixing)[:, in_place]

    # Sums decide, and where they tie the columns: multiples of the golden ratio are not independent, and other samples
    # of few values have the same sum.
    size = max(1, VALUES_AT_ONCE // len(place))
    sums = np.concatenate([signed(slice(a, a + size)).sum(axis=1) for a in range(0, len(centered), size)])
    order = np.argsort(sums, kind="stable")
    if (np.diff(sums[order]) == 0.0).any():
        order = np.lexsort([*signed(slice(None)).T, sums])
    same_sum = np.flatnonzero(np.diff(sums[order]) == 0.0) + 1
    is_repeated = np.zeros(len(order), dtype=bool)
    is_repeated[same_sum] = (signed(order[same_sum]) == signed(order[same_sum - 1])).all(axis=1)
    starts = np.flatnonzero(~is_repeated)
    return mid_ranks.take(order[starts], np.add.reduceat(mid_ranks.weights[order], starts))


def subsample_for_search(mid_ranks: MidRanks, rank: int) -> MidRanks:
    """Subsample large enough for a search, evenly spaced in cumulated weight, of equal weights but for repeats."""
    n_kept = min(max(SAMPLES_PER_COMPONENT * rank, LEAST_SAMPLES), MOST_SAMPLES)
    if len(mid_ranks.values) <= n_kept:
        return mid_ranks
    rows, repeats = evenly_weighted(mid_ranks.weights, n_kept)
    return mid_ranks.take(rows, repeats * (mid_ranks.weights.sum() / n_kept))


def draw(cumulated: np.ndarray, fractions: np.ndarray) -> np.ndarray:
    """Positions (n_columns,) at which the cumulated weights (n_samples, n_columns) reach fractions of their totals."""
    found = [
        np.searchsorted(column, u * column[-1], side="right") for column, u in zip(cumulated.T, fractions, strict=True)
    ]
    return np.minimum(found, len(cumulated) - 1)


def distances(mid_ranks: MidRanks, rows: np.ndarray) -> np.ndarray:
    """Squared distances (n_samples, n_rows) of all samples from some."""
    points = mid_ranks.centered
    squares = (points**2).sum(axis=1)
    found = squares[:, None] + squares[rows] - 2.0 * points @ points[rows].T
    return np.maximum(found, 0.0)


def seeded_posteriors(mid_ranks: MidRanks, rank: int, n_starts: int, rng: np.random.Generator) -> np.ndarray:
    """Posteriors (n_samples, n_starts, rank) around seeds that are drawn as k-means++ draws them.

    Every sample belongs to its nearest seed by nine tenths. (Arthur and Vassilvitskii, "k-means++: the advantages of
    careful seeding", SODA 2007.)
    """
    n_samples = len(mid_ranks.values)
    weights = mid_ranks.weights
    nearest = np.full((n_samples, n_starts), np.inf)
    owner = np.zeros((n_samples, n_starts), dtype=np.int64)
    chances = np.repeat(weights[:, None], n_starts, axis=1)
    for r in range(rank):
        rows = draw(np.cumsum(chances, axis=0), rng.random(n_starts))
        found = distances(mid_ranks, rows)
        owner[found < nearest] = r
        nearest = np.minimum(nearest, found)
        chances = np.maximum(nearest * weights[:, None], 1e-300)
    posterior = np.full((n_samples, n_starts, rank), 0.1 / rank)
    np.put_along_axis(posterior, owner[:, :, None], 0.9 + 0.1 / rank, axis=2)
    return posterior


class SearchSamples:
    """Samples of a search: in canonical order, fewer of many, on all levels of the coarse model.

    Parameters
    ----------
    values : ndarray (n_samples, n_variables)
        NaN = missing.
    weights : ndarray (n_samples,) or None
    discrete : sequence of int
        Positions of the discrete variables.
    rank : int
        Largest number of components that is searched for.

    Raises
    ------
    InvalidInputError
        More components than samples that count.
    """

    def __init__(self, values: np.ndarray, weights: np.ndarray | None, discrete: Sequence[int], rank: int) -> None:
        self.weights = np.ones(len(values)) if weights is None else weights
        self.counted = (self.weights > 0) & ~np.isnan(values).all(axis=1)
        if rank > (n_useful := max(self.counted.sum(), self.weights[self.counted].sum())):
            raise InvalidInputError(
                f"{rank} components with {n_useful:.6g} samples that have entries and a positive weight; "
                "expected at most one component per sample."
            )
        self._all = MidRanks.of(values[self.counted], discrete, self.weights[self.counted])
        self.some = subsample_for_search(canonical(self._all), rank)
        self.levels = [overlapping_bins(self.some, size) for size in LEVELS]

    def posteriors(self, fits: Sequence[SmoothFit]) -> list[np.ndarray]:
        """Posteriors of all samples (n_samples, rank) under fits of some of them on a level.

        Those of samples without entries are the weights.
        """
        found = [np.tile(np.exp(fit.mixture.log_weights), (len(self.counted), 1)) for fit in fits]
        numbers = [next(i for i, samples in enumerate(self.levels) if samples.cells is fit.cells) for fit in fits]
        counted = np.flatnonzero(self.counted)
        size = max(1, VALUES_AT_ONCE // self._all.values.shape[1])
        for start in range(0, len(counted), size):
            rows = slice(start, start + size)
            some = self._all.take(rows, self._all.weights[rows])
            for number in sorted(set(numbers)):
                in_bins = overlapping_bins(some, LEVELS[number], self.levels[number].cells)
                for k, fit in enumerate(fits):
                    if numbers[k] == number:
                        expected = in_bins.e_step(fit.mixture.log_weights, fit.mixture.tables)
                        found[k][counted[rows]] = expected.posterior
        return found
