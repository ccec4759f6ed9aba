"""The distinct values of one variable: how many there are, where they end, how densely they lie."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tensorly_smp.samples.values import distance_of_equals, ranges
from tensorly_smp.splines.basis import LINEAR, MARGIN, ArcsinhTransform

#: Bounds of the values of one variable; None where there is none.
Support = tuple[float | None, float | None]

#: They end at a bound that is no farther from the values than this many times their range; out to one far away, cells
#: would be too wide for the density (values of 1000 and a range of 16: 0.15 nats a sample lost over four variables).
BOUND_REACH = 1.0
#: With at most this many distinct values a variable is taken for discrete; with this many if all of them are integers.
FEW_VALUES, FEW_INTEGERS = 10, 20
#: Fewer samples than this per distinct value, and nothing is said to be discrete.
LEAST_REPEATED = 3.0
#: Samples that are looked at first.
HEAD = 1000
#: Cells do not reach farther beyond the central 98 % of the values than this many times their range, nor beyond the
#: middle half than `FARTHEST_HALVES` times its; what lies beyond is in the outermost cells. With few samples such
#: quantiles say nothing, and the limit is where squares would overflow.
FARTHEST, FARTHEST_HALVES, FARTHEST_OF_FEW = 4.0, 1e8, 1e100
FEWEST_FOR_OUTLIERS = 50.0
#: A value that so large a share of the samples have, and so many times as many as any of its five neighbors on either
#: side, is no accident.
ATOM_SHARE, ATOM_TIMES, NEIGHBORS = 0.03, 5.0, 5
#: Rounded values have favorites, such as multiples of ten, so that it takes a larger share, and fewer peaks than this.
#: (Wine: one of 6 %; iris: 19 %, but four times as many as the neighbors.)
ROUNDED_SHARE, FEWEST_FAVORITES = 0.1, 3
#: Nor are a few last values, one of which so many samples have, and which are farther from the next than all others
#: from each other; of categories, which may be few, so many times as far, and less if the codes are several, or the
#: only ones of their sign.
FEWEST_AT_END, MOST_AT_END, END_TIMES_OF_CATEGORIES, END_TIMES_OF_CODES = 3.0, 5, 10.0, 2.0
#: Nor is the last value alone, if so many samples have it, and it is farther from the next than the middle half of all
#: is wide, and this many times as far as its neighbors from each other. (Rounding brings samples to one value too: the
#: chance that all of them come to it, if they might as well lie in between, is below the last number.)
FEWEST_AT_GAP, GAP_TIMES, GAP_CHANCE = 5.0, 2.5, 1e-3
#: Nor are a few last values of a sign of their own, such as -8 and -9 beside ages, of which each has so many times as
#: many samples as any of its five neighbors of the other sign.
SIGN_TIMES = 3.0
#: A share of distinct values below this means that values are rounded, and repeat for that reason.
TIED = 0.8
#: Values closer than this, relative to the range of the middle half, are equal but for rounding errors.
ROUNDING = 1e-13
_LARGEST = float(np.finfo(np.float64).max)
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Observed:
    """Distinct values of one variable, in order, and how many samples have them (sum of their weights).

    Those of several variables that have as many values, none of them twice, may stand below each other, `distinct` then
    being (n_variables, n_values): :meth:`interval` and :meth:`narrowest` have arrays (n_variables,) for numbers.
    """

    distinct: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, sample_weight: np.ndarray | None, rounding: float = ROUNDING) -> Observed:
        """Values closer than rounding errors are taken for one; samples of no weight do not count."""
        weights = np.ones(len(values)) if sample_weight is None else sample_weight
        kept = ~np.isnan(values) & (weights > 0)
        if not kept.any():
            weights = np.ones(len(values))
            kept = ~np.isnan(values)
            if not kept.any():
                return cls(np.empty(0), np.empty(0))
        if sample_weight is None:  # to sort takes a fraction of the time that it takes to find the order
            ordered = np.sort(values[kept])
            weights = weights[kept]
        else:
            order = np.argsort(values[kept], kind="stable")
            ordered = values[kept][order]
            weights = weights[kept][order]
        # By the middle half, not by the range, which far values may stretch; integers are what they are.
        low, high = cls(ordered, weights)._central(0.25)
        near = 0.0 if np.all(ordered == np.floor(ordered)) else rounding * high - rounding * low
        starts = np.flatnonzero(np.concatenate([[True], are_distinct(ordered, near)]))
        return cls(ordered[starts], np.add.reduceat(weights, starts))

    @cached_property
    def total(self) -> float:
        """Number of samples."""
        return float(self.counts.sum())

    @property
    def looks_discrete(self) -> bool:
        """True if there are so few distinct values, for so many samples, that they must be categories."""
        return are_few(self.distinct) and self.total >= LEAST_REPEATED * len(self.distinct)

    @property
    def atoms(self) -> list[tuple[float, float]]:
        """Values that far more samples share than any density explains, in order, with the shares of the samples.

        Of values that are not rounded, apart from these peaks, neighboring peaks do not hide each other. Rounded ones
        have favorites, such as multiples of ten; there peaks must be few and large, or apart from all others, or last.
        """
        if len(self.distinct) < 3 or self.total < FEWEST_FOR_OUTLIERS:
            return []
        is_shared = self.counts >= ATOM_SHARE * self.total
        rest = self.without(self.distinct[is_shared])
        is_rounded = len(rest.distinct) <= NEIGHBORS or rest.step > 0
        padded = np.pad(self.counts if is_rounded else np.where(is_shared, 0.0, self.counts), NEIGHBORS)
        windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * NEIGHBORS + 1)
        most = np.delete(windows, NEIGHBORS, axis=1).max(axis=1)
        is_peak = is_shared & (self.counts >= ATOM_TIMES * most)
        if is_rounded:
            gaps = np.pad(_gaps(self.distinct), 1, constant_values=np.inf)
            is_apart = np.maximum(gaps[1:], gaps[:-1]) > ATOM_TIMES * np.median(gaps)
            is_favorite = is_peak.sum() >= FEWEST_FAVORITES
            is_peak &= is_apart | (not is_favorite and self.counts >= ROUNDED_SHARE * self.total)
        return [self._shared(position) for position in np.flatnonzero(is_peak).tolist()]

    def sentinel_values(self, is_discrete: bool = False) -> list[tuple[float, float]]:
        """Values at the ends that most likely stand for something else, with the shares of the samples.

        Such as 998 and 999 beside ages. Groups of them are looked for on either side, then again without those found.
        """
        rest = self
        found = list[float]()
        while len(group := rest._far_group(is_discrete)):
            found += rest.distinct[group].tolist()
            rest = self.without(found)
        return [(value, self.share(value)) for value in sorted(found)]

    def _far_group(self, is_discrete: bool) -> np.ndarray:
        """Positions of a few last values on one side that are far from all others; empty if there are none."""
        values = self.distinct
        counts = self.counts
        if len(values) < 3 or self.total < FEWEST_FOR_OUTLIERS:
            return np.empty(0, dtype=int)
        for size in range(1, min(MOST_AT_END, len(values) - 2) + 1):
            for is_upper in (False, True):
                group = np.arange(len(values) - size, len(values)) if is_upper else np.arange(size)
                others = np.arange(len(values) - size) if is_upper else np.arange(size, len(values))
                if counts[group].sum() > counts[others].sum() or counts[group].max() < FEWEST_AT_END:
                    continue
                near, far = (others[-1], group[0]) if is_upper else (group[-1], others[0])
                # Halves, since the range may overflow.
                gap = float(values[far]) / 2 - float(values[near]) / 2
                span = float(values[others[-1]]) / 2 - float(values[others[0]]) / 2
                is_odd = size > 1 or (values[group[0]] < 0 <= values[others[0]])
                times = (END_TIMES_OF_CODES if is_odd else END_TIMES_OF_CATEGORIES) if is_discrete else 1.0
                is_behind_a_gap = size == 1 and not is_discrete and self._is_behind_a_gap(others, 2 * gap, is_upper)
                if gap > times * span or is_behind_a_gap or self._has_its_own_sign(group, others, is_upper):
                    return group
        return np.empty(0, dtype=int)

    def _is_behind_a_gap(self, others: np.ndarray, gap: float, is_upper: bool) -> bool:
        """True if many samples share the last value on one side, behind a gap that is wide for that."""
        rest = Observed(self.distinct[others], self.counts[others])
        values = rest.distinct
        count = self.counts[-1 if is_upper else 0]
        if count < FEWEST_AT_GAP or len(values) <= NEIGHBORS:
            return False
        low, high = map(float, rest._central(0.25))
        gaps = _gaps(values)
        nearby = gaps[-NEIGHBORS:] if is_upper else gaps[:NEIGHBORS]
        chance = (gaps.min() / gap) ** (count - 1.0) if self.step > 0 else 0.0
        return bool(gap > max(high - low, GAP_TIMES * nearby.max()) and chance < GAP_CHANCE)

    def _has_its_own_sign(self, group: np.ndarray, others: np.ndarray, is_upper: bool) -> bool:
        """True if a few last values are the only ones of their sign, and more frequent than those next to zero."""
        sign = 1.0 if is_upper else -1.0
        nearby = self.counts[others[-NEIGHBORS:] if is_upper else others[:NEIGHBORS]]
        least = max(FEWEST_AT_GAP, SIGN_TIMES * float(nearby.max()))
        of_one_sign = (sign * self.distinct[group] > 0).all() and (sign * self.distinct[others] <= 0).all()
        return bool(of_one_sign and self.counts[group].min() >= least)

    def without(self, values: Iterable[float]) -> Observed:
        """Copy without some of the distinct values."""
        kept = ~np.isin(self.distinct, list(values))
        return Observed(self.distinct[kept], self.counts[kept])

    def share(self, value: float) -> float:
        """Share of the samples that have one of the distinct values."""
        return self._shared(int(np.searchsorted(self.distinct, value)))[1]

    def _shared(self, position: int) -> tuple[float, float]:
        """A value, and the share of the samples that have it."""
        return float(self.distinct[position]), float(self.counts[position] / self.total)

    @property
    def step(self) -> float:
        """The step to which values are rounded, if they are; else 0."""
        is_rounded = 1 < self.distinct.shape[-1] < TIED * self.total
        return float(np.diff(self.distinct).min()) if is_rounded else 0.0

    def interval(self, support: Any, transform: ArcsinhTransform = LINEAR) -> Any:
        """Ends of the cells: bounds near the values, or a margin beyond these, but not out to single ones far away.

        The margin is a share of the transformed range. There may be one pair of bounds for every variable, (2, ...),
        NaN where there is none.
        """
        least = self.distinct[..., 0]
        most = self.distinct[..., -1]
        is_many = self.total >= FEWEST_FOR_OUTLIERS
        for tail, times in ((0.01, FARTHEST), (0.25, FARTHEST_HALVES)) if is_many else ((0.25, FARTHEST_OF_FEW),):
            low, high = self._central(tail)
            reach = np.where(high > low, times * (high - low), np.inf)
            least = np.maximum(least, low - reach)
            most = np.minimum(most, high + reach)
        start, end = transform.forward(np.array([least, most]))
        margin = MARGIN * (end - start)
        near = BOUND_REACH * (most - least)
        ends = transform.inverse(np.array([start - margin, end + margin]))
        lower, upper = np.array(support, dtype=np.float64)
        low = np.where(lower >= least - near, lower, np.maximum(ends[0], -_LARGEST))
        high = np.where(upper <= most + near, upper, np.minimum(ends[1], _LARGEST))
        return low[()], high[()]

    def narrowest(self, rank: int) -> Any:
        """Ends of the narrowest interval that holds half as many values as the average component.

        Of a Gaussian, half the mass lies within 1.35 standard deviations.
        """
        number = self._half_a_component(rank) * (1.0 - 1e-9)
        if (self.counts == 1.0).all():
            ends = self.distinct[..., int(np.ceil(number)) - 1 :]
        else:
            above = np.concatenate([[0.0], self._cumulated[0]])
            last = np.searchsorted(above, above[:-1] + number) - 1
            ends = self.distinct[..., last[last < len(last)]]
        starts = self.distinct[..., : ends.shape[-1]]
        if not starts.shape[-1]:
            return self.distinct[..., 0], self.distinct[..., -1]
        lengths = ends - starts
        # Of several, the one nearest to the middle, so that it is the same of mirrored values.
        ties = lengths <= lengths.min(axis=-1, keepdims=True) * (1.0 + 1e-9)
        low, high = self._central(0.25)
        nearest = np.argmax(ties, axis=-1)[..., None]
        if (np.count_nonzero(ties, axis=-1) > 1).any():
            off = np.where(ties, np.abs(0.5 * starts + 0.5 * ends - (0.5 * low + 0.5 * high)[..., None]), np.inf)
            nearest = np.argmin(off, axis=-1)[..., None]
        return tuple(np.take_along_axis(each, nearest, axis=-1)[..., 0] for each in (starts, ends))

    def without_atoms(self, rank: int) -> Observed:
        """Copy without values that half as many samples share as the average component has, unless nothing is left."""
        kept = self.counts < self._half_a_component(rank)
        return Observed(self.distinct[kept], self.counts[kept]) if 1 < kept.sum() < len(kept) else self

    def transformed(self, transform: ArcsinhTransform) -> Observed:
        """Copy with transformed values."""
        return self if transform.is_linear else replace(self, distinct=transform.forward(self.distinct))

    @cached_property
    def _cumulated(self) -> tuple[np.ndarray, np.ndarray]:
        """Sums of the counts from the least value up, and from the largest down."""
        return np.cumsum(self.counts), np.cumsum(self.counts[::-1])

    def _central(self, tail: float) -> tuple[Any, Any]:
        """Ends of the values but for a share of the samples on either side; the same of mirrored values."""
        upwards, downwards = self._cumulated
        least = tail * (1.0 - 1e-9) * upwards[-1]
        low = np.searchsorted(upwards, least)
        high = len(upwards) - 1 - np.searchsorted(downwards, least)
        return self.distinct[..., low], self.distinct[..., high]

    def _half_a_component(self, rank: int) -> float:
        return max(5.0, 0.5 * self.total / rank)


def are_distinct(ordered: np.ndarray, near: Any = 0.0) -> np.ndarray:
    """Tell which values (..., n_values), in order, differ from the one before by more than their rounding, and `near`.

    False of missing ones, which are the last.
    """
    rounding = 4.0 * _EPS * np.maximum(np.abs(ordered[..., 1:]), np.abs(ordered[..., :-1]))
    return np.asarray(_gaps(ordered) > np.maximum(rounding, near))


def are_few(distinct: np.ndarray) -> bool:
    """True for so few values (n_values,), fewer if they are not integers, that they may be categories."""
    return len(distinct) <= (FEW_INTEGERS if np.all(distinct == np.floor(distinct)) else FEW_VALUES)


def distinct_values(
    values: np.ndarray, positions: Sequence[int], sample_weight: np.ndarray | None = None
) -> list[np.ndarray]:
    """Values (n_values,) of discrete variables, from values (n_samples, n_variables).

    Of values that are equal but for rounding, the most frequent one is listed.
    """
    return [_listed(values[:, n], sample_weight) for n in positions]


def _listed(column: np.ndarray, sample_weight: np.ndarray | None) -> np.ndarray:
    weights = np.ones(len(column)) if sample_weight is None else sample_weight
    kept = ~np.isnan(column)
    if (kept & (weights > 0)).any():
        kept &= weights > 0
    values, inverse = np.unique(column[kept], return_inverse=True)
    if not len(values):
        return values
    counts = np.bincount(inverse, weights[kept])
    # A value and those little above it; not chains of neighbors, the ends of which may be far apart.
    ends = np.searchsorted(values, values + distance_of_equals(values), side="right")
    found = []
    start = 0
    while start < len(values):
        found.append(start + int(np.argmax(counts[start : ends[start]])))
        start = int(ends[start])
    return np.asarray(values[found])


def discrete_variables(
    values: np.ndarray, sample_weight: np.ndarray | None = None, only_constant: bool = False
) -> tuple[int, ...]:
    """Positions of the variables that look discrete or are constant, of values (n_samples, n_variables)."""
    found = []
    # A glance at the first samples tells most continuous ones: they have too many values, however these are rounded.
    head_weight = None if sample_weight is None else sample_weight[:HEAD]
    counted = values[:HEAD] if head_weight is None else values[:HEAD][head_weight > 0]
    ordered = np.sort(counted, axis=0).T
    least, most = ranges(counted)
    n_apart = are_distinct(ordered, (ROUNDING * most - ROUNDING * least)[:, None]).sum(axis=1) + 1
    enough: float = FEW_INTEGERS
    if len(values) <= HEAD:
        total = len(counted) if head_weight is None else float(head_weight.sum())
        enough = min(enough, max(1.0, total / LEAST_REPEATED))
    for n in np.flatnonzero(~(n_apart > enough)).tolist():
        head = Observed.of(values[:HEAD, n], head_weight)
        if len(head.distinct) > FEW_INTEGERS:
            continue
        observed = head if len(values) <= HEAD else Observed.of(values[:, n], sample_weight)
        if len(observed.distinct) == 1 or (observed.looks_discrete and not only_constant):
            found.append(n)
    return tuple(found)


def atoms(
    values: np.ndarray, discrete: Sequence[int], sample_weight: np.ndarray | None = None
) -> dict[int, list[tuple[float, float]]]:
    """Values that samples share without being of a density, by position: the values, and the shares of the samples.

    Those that many have though their variable is not discrete, and those that some have far from all others.

    Parameters
    ----------
    values : ndarray (n_samples, n_variables)
        NaN = missing.
    discrete : sequence of int
        Positions of the discrete variables.
    sample_weight : ndarray (n_samples,), optional
    """
    found = {}
    some = np.sort(values[:: max(1, len(values) // HEAD)], axis=0)
    is_common = (some[1:] == some[:-1]).any(axis=0) | np.isnan(some[-2:]).all(axis=0)
    for end in ranges(values):
        is_common |= np.count_nonzero(values == end, axis=0) > 1
    # At a glance, no value of the others repeats.
    for n in np.flatnonzero(is_common | (sample_weight is not None)).tolist():
        column = values[:, n]
        if np.isnan(column).all():
            continue
        # Shared to the last digits: the small values of a long tail are not one for being small.
        observed = Observed.of(column, sample_weight, rounding=0.0)
        shared = dict(observed.sentinel_values(n in discrete))
        if n not in discrete:
            shared |= {value: observed.share(value) for value, _ in observed.without(shared).atoms}
        if shared:
            found[n] = sorted(shared.items())
    return found


def _gaps(ordered: np.ndarray) -> np.ndarray:
    """Distances of neighboring values; infinite where they exceed all floats."""
    with np.errstate(over="ignore"):
        return np.diff(ordered)
