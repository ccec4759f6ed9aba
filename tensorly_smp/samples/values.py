"""Values of samples and their weights: a part of the samples in place of all, quantiles, patterns of what is missing.

Weights are numbers of copies: quantiles, counts and sizes are those of samples that are repeated as often.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import entr

from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError

#: Sums of weights closer than this, relatively, are equal but for rounding.
ROUNDING = 1e-12
#: Rounding of single precision, relative to the value.
SINGLE = float(np.finfo(np.float32).eps)
#: Samples that choices before a fit are made from, if there are more: a share of them is off by 0.16 % at most (one
#: standard error).
MOST_ROWS = 100_000
#: Of more variables than 500, only so many that they have this number of entries, or ten thousand: 0.5 % at most.
MOST_ENTRIES = 50_000_000
LEAST_ROWS = 10_000
MAX = float(np.finfo(np.float64).max)
# A range this many times that of the central 98 % of the values is called stretched: a Laplace distribution has 2 to 3,
# a log-normal one (sigma = 1) 3 to 4 with 5000 samples. With few samples such quantiles say nothing.
STRETCH = 5.0
FEWEST_FOR_OUTLIERS = 50
#: Values whose histogram is as uneven as if only this share of the bins were in use, all evenly, are called crowded.
#: The paper's cases use 29 % or more of 5 to 30 bins (Laplace, R = 5), a log-normal distribution (sigma = 1, 3000
#: samples) 10 %.
CROWDED = 0.25
#: Bins up to which codes are found by comparing with every edge, and entries that are compared at once.
FEW_BINS, ENTRIES_AT_ONCE = 32, 65_536


def evenly_spaced(n_samples: int, n_variables: int) -> np.ndarray:
    """Positions of all samples, or of 100 000 evenly spaced ones; of many variables fewer.

    By position, so that they are the same whatever chunks the samples come in.

    Parameters
    ----------
    n_samples, n_variables : int

    Returns
    -------
    ndarray of int (n_kept,)

    Examples
    --------
    >>> from tensorly_smp.samples.values import evenly_spaced
    >>> evenly_spaced(3, 10), evenly_spaced(250_000, 10)[:4], len(evenly_spaced(250_000, 1000))
    (array([0, 1, 2]), array([0, 2, 5, 7]), 50000)
    """
    most = min(MOST_ROWS, max(LEAST_ROWS, MOST_ENTRIES // n_variables))
    return at_most(n_samples, most)


def at_most(n_samples: int, most: int) -> np.ndarray:
    """Positions (n_kept,) of all samples, or of so many evenly spaced ones."""
    return np.arange(n_samples) if n_samples <= most else np.arange(most) * n_samples // most


def subsample_evenly(values: np.ndarray, sample_weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Evenly spaced samples of positive weight, and their weights; all evenly spaced ones where there is none.

    By position too, so that a sample is kept or not whatever its weight: a weighted mean of those kept is one of all.

    Parameters
    ----------
    values : ndarray (n_samples, n_variables)
    sample_weight : ndarray (n_samples,) or None

    Returns
    -------
    values : ndarray (n_kept, n_variables)
    sample_weight : ndarray (n_kept,) or None
        None also where no weight is positive.
    """
    rows = evenly_spaced(*values.shape)
    if len(rows) == len(values):
        return drop_zero_weight(values, sample_weight)
    return drop_zero_weight(values[rows], None if sample_weight is None else np.asarray(sample_weight)[rows])


def drop_zero_weight(values: np.ndarray, sample_weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Samples that count, and their weights; all of them, and no weights, where none does."""
    if sample_weight is None:
        return values, None
    weights = np.asarray(sample_weight)
    counted = weights > 0
    if counted.all():
        return values, weights
    return (values[counted], weights[counted]) if counted.any() else (values, None)


def effective_weights(values: np.ndarray, sample_weight: np.ndarray | None) -> np.ndarray:
    """Weights (n_samples,), zero for samples (n_samples, n_variables) without entries."""
    weights = np.ones(len(values)) if sample_weight is None else sample_weight
    missing = np.isnan(values)
    return np.where(missing.all(axis=1), 0.0, weights) if missing.any() else np.array(weights)


def ranges(values: np.ndarray) -> np.ndarray:
    """Smallest and largest value of every variable, (2, n_variables); NaN where there is none.

    Parameters
    ----------
    values : ndarray (n_samples, n_variables)
        NaN = missing.
    """
    found = np.full((2, values.shape[1]), np.nan)
    if len(values):
        found[0] = np.minimum.reduce(values)
        found[1] = np.maximum.reduce(values)
        # fmin and fmax, which take three times as long, pass over NaN, and say nothing where there is nothing else.
        if len(some := np.flatnonzero(np.isnan(found[0]))):
            found[0, some] = np.fmin.reduce(values[:, some])
            found[1, some] = np.fmax.reduce(values[:, some])
    return found


def representative(values: np.ndarray, sample_weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Samples from which bins, cells and kinds of variables are chosen: all, or evenly spaced ones and the extremes.

    Parameters
    ----------
    values : ndarray (n_samples, n_variables)
        NaN = missing.
    sample_weight : ndarray (n_samples,) or None

    Returns
    -------
    values : ndarray (n_kept, n_variables)
    sample_weight : ndarray (n_kept,) or None
    """
    rows = evenly_spaced(*values.shape)
    if len(rows) == len(values) or (sample_weight is not None and np.shape(sample_weight) != (len(values),)):
        return values, sample_weight
    if sample_weight is None:
        return with_extremes(values[rows], None, ranges(values), ranges(values[:0]))
    weights = np.asarray(sample_weight)
    return with_extremes(values[rows], weights[rows], ranges(values[weights > 0]), ranges(values))


def with_extremes(
    values: np.ndarray, sample_weight: np.ndarray | None, counted: np.ndarray, every: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
    """Samples, and below them the ends of the ranges of all that they stand for.

    Parameters
    ----------
    values : ndarray (n_kept, n_variables)
    sample_weight : ndarray (n_kept,) or None
    counted : ndarray (2, n_variables)
        Ranges of the samples of positive weight; they get the mean weight.
    every : ndarray (2, n_variables)
        Ranges of all samples; with weights, they get none.

    Returns
    -------
    values : ndarray
    sample_weight : ndarray or None
    """
    if sample_weight is None:
        return np.concatenate([values, counted]), None
    mean = sample_weight.mean() if (sample_weight > 0).any() else 1.0
    return np.concatenate([values, counted, every]), np.concatenate([sample_weight, [mean, mean, 0.0, 0.0]])


def merge_equal_rows(values: np.ndarray, sample_weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Equal samples become one of their added weight, so that counted patterns and repeated rows are the same samples.

    Those that are left are in the order in which they first come.

    Parameters
    ----------
    values : ndarray (n_samples, n_variables)
        NaN = missing.
    sample_weight : ndarray (n_samples,) or None

    Returns
    -------
    values : ndarray (n_different, n_variables)
    sample_weight : ndarray (n_different,) or None

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.samples.values import merge_equal_rows
    >>> values, counts = merge_equal_rows(np.array([[2.0, np.nan], [1.0, 5.0], [2.0, np.nan]]), None)
    >>> values.tolist(), counts.tolist()
    ([[2.0, nan], [1.0, 5.0]], [2.0, 1.0])
    """
    if any(len(np.unique(column)) == len(column) for column in values.T):
        return values, sample_weight  # a glance tells most continuous ones
    order = np.lexsort(values.T[::-1])
    ordered = values[order]
    is_equal = (ordered[1:] == ordered[:-1]) | (np.isnan(ordered[1:]) & np.isnan(ordered[:-1]))
    starts = np.flatnonzero(np.concatenate([[True], ~is_equal.all(axis=1)]))
    if len(starts) == len(values):
        return values, sample_weight
    weights = np.ones(len(values)) if sample_weight is None else sample_weight[order]
    first = order[starts]  # the sort is stable
    come = np.argsort(first)
    return values[first[come]], np.add.reduceat(weights, starts)[come]


def effective_size(weights: np.ndarray) -> float:
    """Number of samples that weights stand for: the sum of integers, which are counts, else (sum w)^2 / sum w^2.

    Parameters
    ----------
    weights : ndarray (n_samples,)
        Non-negative.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.samples.values import effective_size
    >>> effective_size(np.array([3.0, 1.0, 0.0])), round(effective_size(np.array([1.5, 0.5])), 3)
    (4.0, 1.6)
    """
    if np.array_equal(weights, np.floor(weights)):
        return float(weights.sum())
    shares = weights / weights.max()  # so that no sum overflows
    return float(shares.sum() ** 2 / (shares @ shares))


def evenly_weighted(weights: np.ndarray, n_kept: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions evenly spaced in cumulated weight, and how many of the `n_kept` fall on each."""
    above = np.cumsum(weights)
    places = np.searchsorted(above, (np.arange(n_kept) + 0.5) * above[-1] / n_kept, side="right")
    return np.unique(np.minimum(places, len(above) - 1), return_counts=True)


def quantiles(values: np.ndarray, shares: Sequence[float], weights: np.ndarray | None = None) -> np.ndarray:
    """Quantiles, by linear interpolation, as of :func:`numpy.quantile`.

    Parameters
    ----------
    values : ndarray (n_values,)
        At least one; none missing.
    shares : sequence of float
        From 0 to 1.
    weights : ndarray (n_values,), optional
        Positive; by default one each. Of integers the quantiles are, to the last bit, those of the repeated values.
        Weights below one on average are taken for shares of as many samples as there are values.

    Returns
    -------
    ndarray (n_shares,)

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.samples.values import quantiles
    >>> values = np.array([1.0, 2.0, 10.0])
    >>> quantiles(values, [0.5], np.array([3.0, 1.0, 2.0])), np.quantile([1, 1, 1, 2, 10, 10], [0.5])
    (array([1.5]), array([1.5]))
    """
    if weights is None:
        return np.asarray(np.quantile(values, shares))
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    reached = np.cumsum(weights[order])
    if reached[-1] < len(values):
        reached = reached / reached[-1] * len(values)
    positions = np.asarray(shares) * (reached[-1] - 1.0)  # among the repeated values, counted from 0
    below = np.floor(positions)
    reached *= 1.0 - ROUNDING
    ends = [np.searchsorted(reached, place, side="right").clip(max=len(ordered) - 1) for place in (below, below + 1.0)]
    # Between two values NumPy interpolates as it does between any.
    pairs = zip(ordered[ends[0]], ordered[ends[1]], positions - below, strict=True)
    return np.array([np.quantile([low, high], share) for low, high, share in pairs])


def observed_values(column: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Values of one variable (n_samples,) that are not missing, and their weights, if there are any."""
    present = ~np.isnan(column)
    return column[present], None if weights is None else weights[present]


def stretched_ranges(values: np.ndarray, weights: np.ndarray | None = None) -> dict[int, tuple[float, float]]:
    """Ends of the central 98 % of the values of the variables in which a few far ones set the range, by position.

    Parameters
    ----------
    values : ndarray (n_samples, n_variables)
        NaN = missing.
    weights : ndarray (n_samples,), optional
    """
    central = np.full((2, values.shape[1]), np.nan)
    is_plain = ~np.isnan(values).any(axis=0) & (weights is None)
    if len(values) >= FEWEST_FOR_OUTLIERS:
        for some in np.array_split(np.flatnonzero(is_plain), 1 + is_plain.sum() // 64):
            central[:, some] = np.quantile(values[:, some], [0.01, 0.99], axis=0)
    for n in np.flatnonzero(~is_plain).tolist():
        observed, own = observed_values(values[:, n], weights)
        if (len(observed) if own is None else own.sum()) >= FEWEST_FOR_OUTLIERS:
            central[:, n] = quantiles(observed, [0.01, 0.99], own)
    with np.errstate(over="ignore"):
        length = np.diff(np.stack([*ranges(values)]), axis=0)[0]
        least = np.diff(central, axis=0)[0] * STRETCH
    far = np.flatnonzero((least > 0) & (least < length) & (length <= MAX / 2))
    return {n: (low, high) for n, (low, high) in zip(far.tolist(), central[:, far].T.tolist(), strict=True)}


def crowded_variables(values: np.ndarray, edges: Sequence[np.ndarray], weights: np.ndarray | None = None) -> list[int]:
    """Positions of the variables nearly all of whose values share a few bins, though they are many.

    By the exponential of the entropy of the histogram: the number of bins that are in use.

    Parameters
    ----------
    values : ndarray (n_samples, n_variables)
        NaN = missing.
    edges : sequence of ndarray (n_bins[n] + 1,)
    weights : ndarray (n_samples,), optional
    """
    if weights is None and len(values) < FEWEST_FOR_OUTLIERS:
        return []
    n_bins = np.array([len(own) - 1 for own in edges])
    codes = bin_indices(values, edges)
    present = codes >= 0
    is_complete = weights is None and bool(present.all())
    counts = np.zeros((len(edges), n_bins.max()))
    for n, size in enumerate(n_bins.tolist()):
        kept = slice(None) if is_complete else present[:, n]
        counts[n, :size] = np.bincount(codes[kept, n], None if weights is None else weights[kept], size)
    totals = counts.sum(axis=1)
    in_use = np.exp(entr(counts / np.maximum(totals, 1e-300)[:, None]).sum(axis=1))
    few = np.flatnonzero((totals >= FEWEST_FOR_OUTLIERS) & (in_use < CROWDED * n_bins)).tolist()
    return [n for n in few if len(np.unique(values[present[:, n], n])) > n_bins[n]]


def bin_indices(values: np.ndarray, edges: Sequence[np.ndarray]) -> np.ndarray:
    """Bin of every value (n_samples, n_variables), the outermost for those beyond, -1 for a missing one.

    Parameters
    ----------
    values : ndarray (n_samples, n_variables)
    edges : sequence of ndarray (n_bins[n] + 1,)

    Returns
    -------
    ndarray of int (n_samples, n_variables)
        Of the smallest signed type that holds -1 and all bins.
    """
    most = max(map(len, edges)) - 1
    found = np.empty(values.shape, dtype=np.min_scalar_type(-most))
    if most > FEW_BINS:
        for n, own in enumerate(edges):
            found[:, n] = np.searchsorted(own[1:-1], values[:, n], side="right")
        found[np.isnan(values)] = -1
        return found
    # How many of the inner edges it reaches: to count them takes half the time of a search.
    inner = np.full((most - 1, len(edges), 1), np.inf)
    for n, own in enumerate(edges):
        inner[: len(own) - 2, n, 0] = own[1:-1]
    size = max(1, ENTRIES_AT_ONCE // len(edges))
    for start in range(0, len(values), size):
        columns = np.ascontiguousarray(values[start : start + size].T)
        reached = np.zeros(columns.shape, dtype=np.int8)
        for each in inner:
            reached += (columns >= each).view(np.int8)
        reached[np.isnan(columns)] = -1
        found[start : start + size] = reached.T
    return found


def nearest(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Position (...) of the value that is nearest to every point.

    Parameters
    ----------
    values : ndarray (n_values,)
        In increasing order.
    x : ndarray (...)

    Examples
    --------
    >>> nearest(np.array([0.0, 1.0, 10.0]), np.array([-3.0, 0.9, 7.0]))
    array([0, 1, 2])
    """
    return np.searchsorted(middles(values), x, side="right")


def distance_of_equals(values: np.ndarray) -> float:
    """Distance up to which values of a discrete variable are one: an eighth of single precision of their range.

    Integers are what they are.

    Parameters
    ----------
    values : ndarray (n_values,)
        In increasing order, at least one.

    Examples
    --------
    >>> distance_of_equals(np.array([0.0, 0.1, 0.4])) < 1e-8, distance_of_equals(np.array([0.0, 1e9]))
    (True, 0.0)
    """
    if np.all(values == np.floor(values)):
        return 0.0
    return float(0.125 * SINGLE * values[-1] - 0.125 * SINGLE * values[0])


def middles(values: np.ndarray) -> np.ndarray:
    """Midpoints (n_values - 1,) of neighboring values, above the lower value of every pair."""
    halfway = 0.5 * values[:-1] + 0.5 * values[1:]  # halves, since the largest floats have no sum
    return np.maximum(halfway, np.nextafter(values[:-1], np.inf))  # of adjacent floats it may round to the lower one


def maximal_patterns(observed: Any) -> np.ndarray:
    """Patterns of observed variables that lie in no other one: these determine what all of them determine.

    Parameters
    ----------
    observed : array_like of bool (n_patterns, n_variables)
        Which variables are observed together; rows may repeat.

    Returns
    -------
    ndarray of bool (n_maximal, n_variables)
        Those with most variables first.

    Raises
    ------
    InvalidInputError
        If the array is not two-dimensional, or a variable is in no pattern.
    InvalidTypeError
        If it does not hold booleans.

    Examples
    --------
    >>> maximal_patterns([[True, True, False], [True, False, False], [False, True, True]]).astype(int).tolist()
    [[0, 1, 1], [1, 1, 0]]
    """
    array = np.asarray(observed)
    if array.ndim != 2 or array.size == 0:
        raise InvalidInputError(f"patterns has shape {array.shape}; expected (n_patterns, n_variables).")
    if array.dtype != bool and not np.isin(array, (0, 1)).all():
        raise InvalidTypeError(f"patterns is of type {array.dtype}; expected booleans, True where a variable is seen.")
    array = np.unique(array.astype(bool), axis=0)
    if not array.any(axis=0).all():
        raise InvalidInputError(f"Variables {np.flatnonzero(~array.any(axis=0)).tolist()} are in no pattern.")
    array = array[np.argsort(-array.sum(axis=1), kind="stable")]
    kept = np.zeros((0, array.shape[1]), dtype=bool)
    for pattern in array:
        if not (kept | ~pattern).all(axis=1).any():
            kept = np.vstack([kept, pattern])
    return kept


def observed_patterns(observed: np.ndarray, most: int = 200) -> np.ndarray | None:
    """Patterns of observed variables that a report on samples with missing entries is about.

    Parameters
    ----------
    observed : ndarray of bool (n_samples, n_variables)
    most : int
        No more patterns than this are taken, those with most variables first, and one more for every variable that is
        in none of them. Fewer patterns prove less, and nothing that is not so.

    Returns
    -------
    ndarray of bool (n_patterns, n_variables) or None
        None if some sample is complete: whole samples are then known.

    Examples
    --------
    >>> observed_patterns(np.array([[True, True, False], [False, True, True], [False, True, False]])).shape
    (2, 3)
    """
    if observed.all(axis=1).any() or not observed.any(axis=0).all():
        return None
    patterns = np.unique(observed, axis=0)
    patterns = patterns[np.argsort(-patterns.sum(axis=1), kind="stable")]
    uncovered = np.flatnonzero(~patterns[:most].any(axis=0))
    chosen = [*range(min(most, len(patterns))), *(int(np.argmax(patterns[:, n])) for n in uncovered)]
    return maximal_patterns(patterns[chosen])
