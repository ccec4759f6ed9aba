"""Edges of the bins of one variable: from its values, and checked."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from scipy.special import entr

from tensorly_smp._support.checks import MOST_BINS, float_array
from tensorly_smp._support.representations import reason, shown
from tensorly_smp.codes.values import middles, quantiles
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError, SizeLimitError

_EPS = float(np.finfo(np.float64).eps)
_TINY = float(np.finfo(np.float64).tiny)
_MAX = float(np.finfo(np.float64).max)
# Up to here bins of width one have edges that are exact to a millionth.
_LARGEST_WITH_UNIT_BINS = 1e-6 / _EPS
# Shares of samples closer than this are equal but for rounding.
_TIE = 1e-12
#: Bins narrower than this share of the range of all of them leave the range of float64 when squared.
LEAST_SHARE = 1e-280
# A range this many times that of the central 98 % of the values is called stretched: a Laplace distribution has 2 to 3,
# a log-normal one (sigma = 1) 3 to 4 with 5000 samples. With few samples such quantiles say nothing.
STRETCH = 5.0
FEWEST_FOR_OUTLIERS = 50
#: Values whose histogram is as uneven as if only this share of the bins were in use, all evenly, are called crowded.
#: The paper's cases use 29 % or more of 5 to 30 bins (Laplace, R = 5), a log-normal distribution (sigma = 1, 3000
#: samples) 10 %.
CROWDED = 0.25


def stretched_range(values: np.ndarray, weights: np.ndarray | None = None) -> tuple[float, float] | None:
    """Ends of the central 98 % of the values (n_samples,), if a few far ones set the range; NaN = missing."""
    present = ~np.isnan(values)
    observed = values[present]
    if weights is not None:
        weights = weights[present]
    if (len(observed) if weights is None else weights.sum()) < FEWEST_FOR_OUTLIERS:
        return None
    # Floats of Python: their difference overflows without a warning.
    low, high = quantiles(observed, [0.01, 0.99], weights).tolist()
    least = float(observed.min())
    most = float(observed.max())
    return (low, high) if 0 < (high - low) * STRETCH < most - least <= _MAX / 2 else None


def are_crowded(values: np.ndarray, edges: np.ndarray, weights: np.ndarray | None = None) -> bool:
    """Tell whether nearly all values (n_samples,) share a few bins, though they are many; NaN = missing.

    By the exponential of the entropy of the histogram: the number of bins that are in use.
    """
    present = ~np.isnan(values)
    n_bins = len(edges) - 1
    observed = values[present]
    weights = None if weights is None else weights[present]
    counts = np.bincount(np.searchsorted(edges[1:-1], observed, side="right"), weights, n_bins)
    if counts.sum() < FEWEST_FOR_OUTLIERS:
        return False
    if float(np.exp(entr(counts / counts.sum()).sum())) >= CROWDED * n_bins:
        return False
    return len(np.unique(observed)) > n_bins


def is_constant(observed: np.ndarray, n_bins: int) -> bool:
    """Tell whether all values agree to the rounding that `n_bins` edges between them would suffer."""
    low = float(observed.min())
    high = float(observed.max())
    # halves, since high - low may overflow
    return high / 2 - low / 2 <= 2 * n_bins * _EPS * max(abs(low), abs(high))


def bounds_of(
    observed: np.ndarray,
    limits: tuple[float | None, float | None],
    coverage: float,
    n_bins: int,
    name: Hashable,
    weights: np.ndarray | None = None,
) -> tuple[float, float]:
    """First and last edge of one variable, from its observed values and their weights (n_observed,)."""
    low = float(observed.min())
    high = float(observed.max())
    if is_constant(observed, n_bins):
        low, high = _around(low, high, n_bins)
    elif coverage < 1 and None in limits:
        _check_span(low, high, name)
        low, high = map(float, quantiles(observed, [(1 - coverage) / 2, (1 + coverage) / 2], weights))
        if not low < high:
            raise InvalidInputError(
                f"The central {coverage:g} of variable {shown(name)} is the single value {low:g}; use a larger "
                "coverage."
            )
    low = low if limits[0] is None else limits[0]
    high = high if limits[1] is None else limits[1]
    if not low < high:
        raise InvalidInputError(f"range of variable {shown(name)} is {limits}, but no data lie inside; widen it.")
    _check_span(low, high, name)
    return low, high


def _around(low: float, high: float, n_bins: int) -> tuple[float, float]:
    """Ends of bins of width one, the value in the middle of one: so its density there is its probability.

    Wider ones where float64 does not resolve such bins.
    """
    below = n_bins // 2 + 0.5
    if max(abs(low), abs(high)) < _LARGEST_WITH_UNIT_BINS:
        return low - below, low - below + n_bins
    half = max(n_bins / 2, abs(high) / 4)
    return max(low - half, -_MAX), min(high + half, _MAX)


def _check_span(low: float, high: float, name: Hashable) -> None:
    # With room to spare, so that intermediate results (a width times the number of bins) do not overflow either.
    # Python floats overflow to infinity without a warning.
    if high - low > _MAX / 2:
        raise InvalidInputError(f"Variable {shown(name)} spans {low:g} to {high:g}, too wide for float64; rescale it.")


def quantile_edges(
    observed: np.ndarray, low: float, high: float, n_bins: int, weights: np.ndarray | None = None
) -> np.ndarray:
    """Edges midway between neighboring values, where the share of samples below is nearest to i / n_bins.

    Equal values cannot be parted, so several i may want the same place and the variable gets fewer bins.
    """
    inside = (observed >= low) & (observed <= high)
    values, inverse = np.unique(observed[inside], return_inverse=True)
    counts = np.bincount(inverse, None if weights is None else weights[inside])
    gaps = np.diff(values)
    # Values closer than rounding are ties too: an edge between them would make a bin too narrow to divide by.
    apart = gaps > np.maximum(4 * _EPS * np.maximum(np.abs(values[:-1]), np.abs(values[1:])), 4 * _TINY)
    if not apart.any():
        return np.linspace(low, high, 3)
    middles = (values[:-1] + gaps / 2)[apart]
    below = (np.cumsum(counts)[:-1] / counts.sum())[apart]
    wanted = np.arange(1, n_bins) / n_bins
    right = np.searchsorted(below, wanted).clip(0, len(below) - 1)
    left = (right - 1).clip(0)
    # Of two as near as each other, the one nearer to the middle: mirrored values have mirrored bins.
    excess = (wanted - below[left]) - (below[right] - wanted)
    is_left = np.where(np.abs(excess) < _TIE, wanted > 0.5, excess < 0)
    nearest = np.where(is_left, left, right)
    return np.concatenate(([low], middles[np.unique(nearest)], [high]))


def checked_values(values: Any, name: Hashable) -> np.ndarray:
    """Read-only float64 copy of the values of a discrete variable."""
    array = np.array(float_array(values, f"values of variable {shown(name)}"))
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all() or not (array[1:] > array[:-1]).all():
        raise InvalidInputError(
            f"Values of the discrete variable {shown(name)} are {shown(values)}; expected finite numbers in increasing "
            "order."
        )
    if len(array) > MOST_BINS:
        raise SizeLimitError(
            f"Variable {shown(name)} has {len(array)} values; expected at most {MOST_BINS} of a discrete variable. "
            "Leave it out of discrete: so many values are as good as continuous."
        )
    _check_span(float(array[0]), float(array[-1]), name)
    array.flags.writeable = False
    return array


def edges_between(values: np.ndarray) -> np.ndarray:
    """Edges (n_values + 1,) of one bin for each value: the middles, and the outermost values; read-only.

    Between values that are next to each other in float64 a bin may have no width.
    """
    if len(values) == 1:
        edges = np.array(_around(float(values[0]), float(values[0]), 1))
    else:
        edges = np.concatenate([values[:1], middles(values), values[-1:]])
    edges.flags.writeable = False
    return edges


def checked_edges(edges: Any, name: Hashable) -> np.ndarray:
    """Read-only float64 copy of valid edges."""
    try:
        array = np.array(edges)
        if array.dtype.kind not in "iuf":
            raise TypeError(f"dtype {array.dtype}")
    except (TypeError, ValueError, ArithmeticError) as error:
        raise InvalidTypeError(f"Edges of variable {shown(name)} are not real numbers: {reason(error)}.") from error
    array = array.astype(np.float64)
    if array.ndim != 1 or len(array) < 3:
        raise InvalidInputError(
            f"Edges of variable {shown(name)} have shape {array.shape}; expected (n_bins + 1,) with at least 2 bins."
        )
    if not np.isfinite(array).all():
        raise InvalidInputError(
            f"Edges of variable {shown(name)} are not finite; clip the range of the outermost bins."
        )
    if not (array[1:] > array[:-1]).all():
        raise InvalidInputError(
            f"Edges of variable {shown(name)} do not increase strictly; sort them and drop repeated ones. If they were "
            "chosen for you, the range is too narrow for float64: use fewer bins, or subtract an offset and rescale."
        )
    _check_span(float(array[0]), float(array[-1]), name)
    if np.diff(array).min() < _TINY:  # 1 / width, a density, would overflow
        raise InvalidInputError(f"Bins of variable {shown(name)} are narrower than {_TINY:.1e}; rescale the variable.")
    if np.diff(array).min() < LEAST_SHARE * (array[-1] - array[0]):
        raise InvalidInputError(
            f"A bin of variable {shown(name)} is narrower than {LEAST_SHARE:.0e} of the range of all its bins; clip "
            "the far values, or set them to NaN if they are errors."
        )
    array.flags.writeable = False
    return array


def have_equal_widths(edges: np.ndarray) -> bool:
    """Tell whether the bins are equally wide, but for rounding."""
    widths = np.diff(edges)
    mean = (edges[-1] - edges[0]) / len(widths)
    tolerance = max(1e-9 * mean, 4 * _EPS * np.abs(edges).max())
    return bool(np.abs(widths - mean).max() <= tolerance)
