"""The distinct values of one variable: how many there are, where they end, how densely they lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tensorly_smp.likelihood.coordinate import LINEAR, Coordinate

#: Bounds of the values of one variable; None where there is none.
Support = tuple[float | None, float | None]

#: The cells reach this share of the range of the values beyond it, where the density has no bound.
MARGIN = 0.1
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
#: quantiles say nothing.
FARTHEST, FARTHEST_HALVES = 4.0, 1e8
FEWEST_FOR_OUTLIERS = 50.0
#: A value that so large a share of the samples have, and so many times as many as any of its five neighbors on either
#: side, is no accident; nor of rounding (iris: 19 %, but four times as many as the neighbors).
ATOM_SHARE, ATOM_TIMES, NEIGHBORS = 0.03, 5.0, 5
#: Nor is a last value that so many samples have and that is farther from the next than all others from each other; of
#: categories, which may be few, so many times as far.
FEWEST_AT_END, END_TIMES_OF_CATEGORIES = 3.0, 10.0
#: A share of distinct values below this means that values are rounded, and repeat for that reason.
TIED = 0.8
#: Values closer than this, relative to the range of the middle half, are equal but for rounding errors.
ROUNDING = 1e-13
_LARGEST = float(np.finfo(np.float64).max)
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Observed:
    """Distinct values of one variable, in order, and how many samples have them (sum of their weights)."""

    distinct: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, sample_weight: np.ndarray | None, rounding: float = ROUNDING) -> Observed:
        """Values closer than rounding errors are taken for one; samples of no weight do not count."""
        weights = np.ones(len(values)) if sample_weight is None else sample_weight
        kept = ~np.isnan(values) & (weights > 0)
        if not kept.any():
            weights, kept = np.ones(len(values)), ~np.isnan(values)
            if not kept.any():
                return cls(np.empty(0), np.empty(0))
        if sample_weight is None:  # to sort takes a fraction of the time that it takes to find the order
            ordered, weights = np.sort(values[kept]), weights[kept]
        else:
            order = np.argsort(values[kept], kind="stable")
            ordered, weights = values[kept][order], weights[kept][order]
        # By the middle half, not by the range, which far values may stretch; integers are what they are.
        low, high = _central(ordered, weights, 0.25)
        near = 4.0 * _EPS * np.maximum(np.abs(ordered[1:]), np.abs(ordered[:-1]))
        if not np.all(ordered == np.floor(ordered)):
            near = np.maximum(near, rounding * high - rounding * low)
        starts = np.flatnonzero(np.concatenate([[True], np.diff(ordered) > near]))
        return cls(ordered[starts], np.add.reduceat(weights, starts))

    @property
    def total(self) -> float:
        """Number of samples."""
        return float(self.counts.sum())

    @property
    def looks_discrete(self) -> bool:
        """Whether there are so few distinct values, for so many samples, that they must be categories."""
        most = FEW_INTEGERS if np.all(self.distinct == np.floor(self.distinct)) else FEW_VALUES
        return len(self.distinct) <= most and self.total >= LEAST_REPEATED * len(self.distinct)

    @property
    def atom(self) -> tuple[float, float] | None:
        """The value that far more samples share than any density explains, and their share; None if there is none.

        Rounded values have favorites, such as multiples of ten; there it must be apart from the others, or the last.
        """
        if len(self.distinct) < 3 or self.total < FEWEST_FOR_OUTLIERS:
            return None
        padded = np.pad(self.counts, NEIGHBORS)
        windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * NEIGHBORS + 1)
        most = np.delete(windows, NEIGHBORS, axis=1).max(axis=1)
        found = self.counts >= np.maximum(ATOM_SHARE * self.total, ATOM_TIMES * most)
        if self.step > 0:
            gaps = np.pad(np.diff(self.distinct), 1, constant_values=np.inf)
            found &= np.maximum(gaps[1:], gaps[:-1]) > ATOM_TIMES * np.median(gaps)
        if not found.any():
            return None
        return self._shared(int(np.argmax(found * self.counts)))

    def far_end(self, times: float = 1.0) -> tuple[float, float] | None:
        """A first or last value of several samples, `times` as far from the next as all others from each other.

        With the share of the samples that have it; None if there is none. Most likely it stands for something else than
        a value.
        """
        if len(self.distinct) < 3 or self.total < FEWEST_FOR_OUTLIERS:
            return None
        values = self.distinct
        for end, next_to_it, other_end in ((0, 1, -1), (-1, -2, 0)):
            with np.errstate(over="ignore"):
                is_far = abs(values[next_to_it] - values[end]) > times * abs(values[other_end] - values[next_to_it])
            if is_far and self.counts[end] >= FEWEST_AT_END:
                return self._shared(end)
        return None

    def _shared(self, position: int) -> tuple[float, float]:
        """A value, and the share of the samples that have it."""
        return float(self.distinct[position]), float(self.counts[position] / self.total)

    @property
    def step(self) -> float:
        """The step to which values are rounded, if they are; else 0."""
        return float(np.diff(self.distinct).min()) if len(self.distinct) < TIED * self.total else 0.0

    def interval(self, support: Support, coordinate: Coordinate = LINEAR) -> tuple[float, float]:
        """Ends of the cells: bounds near the values, or a margin beyond these, but not out to single ones far away.

        The margin is a share of the range in the coordinate of the cells.
        """
        least, most = self.distinct[0], self.distinct[-1]
        if self.total >= FEWEST_FOR_OUTLIERS:
            for tail, times in ((0.01, FARTHEST), (0.25, FARTHEST_HALVES)):
                low, high = _central(self.distinct, self.counts, tail)
                if high > low:
                    reach = times * (high - low)
                    least, most = max(least, low - reach), min(most, high + reach)
        start, end = coordinate.forward(np.array([least, most]))
        margin = MARGIN * (end - start)
        near = BOUND_REACH * (most - least)
        ends = coordinate.inverse(np.array([start - margin, end + margin]))
        low, high = max(ends[0], -_LARGEST), min(ends[1], _LARGEST)
        if support[0] is not None and support[0] >= least - near:
            low = support[0]
        if support[1] is not None and support[1] <= most + near:
            high = support[1]
        return float(low), float(high)

    def narrowest(self, rank: int) -> tuple[float, float]:
        """Ends of the narrowest interval that holds half as many values as the average component.

        Of a Gaussian, half the mass lies within 1.35 standard deviations.
        """
        above = np.concatenate([[0.0], np.cumsum(self.counts)])
        last = np.searchsorted(above, above[:-1] + self._half_a_component(rank) * (1.0 - 1e-9)) - 1
        inside = np.flatnonzero(last < len(self.distinct))
        if not len(inside):
            return float(self.distinct[0]), float(self.distinct[-1])
        first = inside[np.argmin(self.distinct[last[inside]] - self.distinct[inside])]
        return float(self.distinct[first]), float(self.distinct[last[first]])

    def without_atoms(self, rank: int) -> Observed:
        """Without values that half as many samples share as the average component has; all, if nothing is left."""
        kept = self.counts < self._half_a_component(rank)
        return Observed(self.distinct[kept], self.counts[kept]) if kept.sum() > 1 else self

    def along(self, coordinate: Coordinate) -> Observed:
        """The same in another coordinate."""
        return self if coordinate.is_linear else replace(self, distinct=coordinate.forward(self.distinct))

    def _half_a_component(self, rank: int) -> float:
        return max(5.0, 0.5 * self.total / rank)


def discrete_variables(values: np.ndarray, sample_weight: np.ndarray | None = None) -> tuple[int, ...]:
    """Positions of the variables that look discrete; of values (n_samples, n_variables)."""
    found = []
    for n, column in enumerate(values.T):
        # A glance at the first samples tells most continuous ones.
        head = Observed.of(column[:HEAD], None if sample_weight is None else sample_weight[:HEAD])
        if len(head.distinct) > FEW_INTEGERS:
            continue
        if Observed.of(column, sample_weight).looks_discrete:
            found.append(n)
    return tuple(found)


def atoms(
    values: np.ndarray, discrete: Sequence[int], sample_weight: np.ndarray | None = None
) -> dict[int, tuple[float, float]]:
    """Values that samples share without being of a density, by position: the value, and the share.

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
    for n in range(values.shape[1]):
        column = values[:, n]
        if np.isnan(column).all():
            continue
        some = column[:: max(1, len(values) // HEAD)]
        ends = np.nanmin(column), np.nanmax(column)
        if len(np.unique(some)) == len(some) and max(np.count_nonzero(column == end) for end in ends) < FEWEST_AT_END:
            continue  # at a glance, none repeats
        # Shared to the last digits: the small values of a long tail are not one for being small.
        observed = Observed.of(column, sample_weight, rounding=0.0)
        atom = observed.far_end(END_TIMES_OF_CATEGORIES) if n in discrete else observed.atom or observed.far_end()
        if atom is not None:
            found[n] = atom
    return found


def _central(ordered: np.ndarray, weights: np.ndarray, tail: float) -> tuple[float, float]:
    """Ends of the values but for a share of them on either side."""
    below = np.cumsum(weights)
    low, high = ordered[np.searchsorted(below / below[-1], [tail, 1.0 - tail - 1e-9])]
    return float(low), float(high)
