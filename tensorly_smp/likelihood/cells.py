"""Fine cells of every variable, on which smooth densities are tabulated while they are fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, get_index_dtype

from tensorly_smp.likelihood.spline_basis import N_BASIS, SplineBasis, spline_basis

#: Bounds of the values of one variable; None where there is none.
Support = tuple[float | None, float | None]

#: The cells reach this share of the range of the values beyond it, where the density has no bound.
MARGIN = 0.1
#: They end at a bound that is no farther from the values than this many times their range; out to one far away, cells
#: would be too wide for the density (values of 1000 and a range of 16: 0.15 nats a sample lost over four variables).
BOUND_REACH = 1.0
#: Numbers of basis functions to choose from.
BASIS_NUMBERS = (N_BASIS, 2 * N_BASIS)
#: With at most this many distinct values a variable is taken for discrete; with this many if all of them are integers.
FEW_VALUES, FEW_INTEGERS = 10, 20
#: Fewer samples than this per distinct value, and nothing is said to be discrete.
LEAST_REPEATED = 3.0
#: Samples that are looked at first.
HEAD = 1000
#: Cells do not reach farther beyond the central 98 % of the values than this many times their range; what lies beyond
#: is in the outermost cells. With few samples such quantiles say nothing.
FARTHEST = 4.0
FEWEST_FOR_OUTLIERS = 50.0
#: Values closer than this, relative to the range of the middle half, are equal but for rounding errors.
ROUNDING = 1e-9
#: A share of distinct values below this means that values are rounded, and repeat for that reason.
TIED = 0.8
_LARGEST = float(np.finfo(np.float64).max)
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Cells:
    """Where the cells of the variables lie.

    The rows of a table of all cells are those of the smooth variables first, ``basis.n_cells`` for each, then those of
    the discrete ones, one for each of their bins.

    Attributes
    ----------
    basis : SplineBasis
        Of the log densities of all smooth variables, each on its own interval.
    low, high : ndarray (n_variables,)
        Ends of the cells of smooth variables.
    resolution : ndarray (n_variables,)
        Step to which values of smooth variables are rounded; 0 where they are not, or the step is finer than a cell.
    discrete : tuple of int
        Positions of the variables that keep a histogram.
    edges : tuple of ndarray (n_bins + 1,)
        Bins of the discrete variables, in their order.
    """

    basis: SplineBasis
    low: np.ndarray
    high: np.ndarray
    resolution: np.ndarray
    discrete: tuple[int, ...]
    edges: tuple[np.ndarray, ...]

    @property
    def smooth(self) -> tuple[int, ...]:
        """Positions of the smooth variables."""
        return tuple(n for n in range(len(self.low)) if n not in self.discrete)

    @property
    def offsets(self) -> np.ndarray:
        """First row of every variable, smooth ones first, and the number of rows."""
        sizes = [self.basis.n_cells] * len(self.smooth) + [len(edges) - 1 for edges in self.edges]
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    @property
    def first_bin(self) -> int:
        """First row of a discrete variable."""
        return self.basis.n_cells * len(self.smooth)

    def split(self, tables: np.ndarray) -> list[np.ndarray]:
        """Views of the rows of every discrete variable, of tables of all their bins, one below the other."""
        ends = np.cumsum([len(edges) - 1 for edges in self.edges])
        return np.split(tables, ends[:-1]) if len(ends) else []

    @property
    def log_widths(self) -> np.ndarray:
        """Logarithms (n_rows,) of the widths of the cells and bins, in the units of the variables."""
        smooth = list(self.smooth)
        with np.errstate(over="ignore"):
            widths = self.high[smooth] / self.basis.n_cells - self.low[smooth] / self.basis.n_cells
        parts = [np.repeat(widths, self.basis.n_cells), *map(np.diff, self.edges)]
        return np.asarray(np.log(np.concatenate(parts)))

    def membership(self, values: np.ndarray) -> csr_array:
        """Share of every cell in every entry.

        One for the cell that a value is in; a value that is rounded is spread evenly over the cells within half a step
        of it, so that no density is drawn to the steps. Values beyond the cells are in the outermost ones.

        Parameters
        ----------
        values : ndarray (n_samples, n_variables)
            NaN = missing.

        Returns
        -------
        csr_array (n_samples, n_rows)
            Every observed entry has a sum of one, a missing one has none.
        """
        columns, shares, sizes = [], [], []
        offsets = self.offsets.tolist()
        for n, offset in zip(self.smooth, offsets, strict=False):
            column, share = self._smooth_cells(n, values[:, n])
            columns.append(column + offset)
            shares.append(share)
        for edges, n, offset in zip(self.edges, self.discrete, offsets[len(self.smooth) :], strict=False):
            column = np.searchsorted(edges[1:-1], values[:, n], side="right").astype(np.int32)[:, None]
            columns.append(column + offset)
            shares.append(np.ones(column.shape))
        for n, share in zip((*self.smooth, *self.discrete), shares, strict=True):
            share[np.isnan(values[:, n])] = 0.0
            sizes.append((share > 0).sum(axis=1))
        all_shares, all_columns = np.concatenate(shares, axis=1), np.concatenate(columns, axis=1)
        kept = all_shares > 0
        starts = np.concatenate([[0], np.cumsum(np.sum(sizes, axis=0))])
        starts = starts.astype(get_index_dtype(maxval=int(starts[-1])))  # of one type with the columns, as in one_hot
        shape = (len(values), offsets[-1])
        return csr_array((all_shares[kept], all_columns[kept], starts), shape=shape)

    def positions(self, values: np.ndarray) -> np.ndarray:
        """Cell that every entry is in, where no variable is rounded so coarsely that its values are spread.

        Parameters
        ----------
        values : ndarray (n_samples, n_variables)
            NaN = missing.

        Returns
        -------
        ndarray of int (n_samples, n_variables)
            Smooth variables first, as in the table of all cells; the row in the variable's own part of that, in the
            smallest type; -1 where the entry is missing.
        """
        sizes = np.diff(self.offsets)
        found = np.empty((len(values), len(sizes)), dtype=np.min_scalar_type(-int(sizes.max())))
        for t, n in enumerate(self.smooth):
            found[:, t] = self._smooth_cells(n, values[:, n])[0][:, 0]
        for t, (n, edges) in enumerate(zip(self.discrete, self.edges, strict=True), len(self.smooth)):
            found[:, t] = np.searchsorted(edges[1:-1], values[:, n], side="right")
        found[np.isnan(values[:, [*self.smooth, *self.discrete]])] = -1
        return found

    @np.errstate(over="ignore")
    def _smooth_cells(self, n: int, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Cells (n_samples, n_shares) of the values of one variable, and the share of each."""
        n_cells = self.basis.n_cells
        position = (values - self.low[n]) / (self.high[n] - self.low[n]) * n_cells
        position = np.clip(np.nan_to_num(position), 0.0, np.nextafter(n_cells, 0.0))
        half = 0.5 * self.resolution[n] / (self.high[n] - self.low[n]) * n_cells
        if half == 0.0:
            return position.astype(np.int32)[:, None], np.ones((len(values), 1))
        start, end = np.clip(position - half, 0.0, n_cells)[:, None], np.clip(position + half, 0.0, n_cells)[:, None]
        cells = start.astype(np.int32) + np.arange(int(np.ceil(2.0 * half)) + 1, dtype=np.int32)
        overlap = np.clip(np.minimum(cells + 1.0, end) - np.maximum(cells, start), 0.0, None)
        return np.minimum(cells, n_cells - 1), overlap / overlap.sum(axis=1, keepdims=True)


@np.errstate(over="ignore")  # infinite lengths of an absurd support are as good as any
def lay_cells(
    values: np.ndarray,
    rank: int,
    edges: Sequence[np.ndarray],
    discrete: Sequence[int] | None = None,
    support: Sequence[Support] | None = None,
    sample_weight: np.ndarray | None = None,
) -> Cells:
    """Cells for samples.

    Parameters
    ----------
    values : ndarray (n_samples, n_variables)
        NaN = missing; every variable has a value.
    rank : int
        Number of components: with more of them, each may be narrower.
    edges : sequence of ndarray (n_bins[n] + 1,)
        Bins of all variables; discrete ones keep them.
    discrete : sequence of int, optional
        Positions of the variables that are discrete; by default those that look it, see :func:`looks_discrete`.
        Constant ones always are.
    support : sequence of (low, high), optional
        Bounds of every variable.
    sample_weight : ndarray (n_samples,), optional

    Returns
    -------
    Cells
    """
    n_variables = values.shape[1]
    low, high, steps = np.zeros(n_variables), np.ones(n_variables), np.zeros(n_variables)
    narrowest, chosen = 1.0, []
    for n in range(n_variables):
        observed = _Observed.of(values[:, n], sample_weight)
        declared = looks_discrete(observed.distinct, observed.total) if discrete is None else n in discrete
        if len(observed.distinct) < 2 or declared:
            chosen.append(n)
            continue
        low[n], high[n] = observed.interval((None, None) if support is None else support[n])
        if len(observed.distinct) < TIED * observed.total:
            steps[n] = float(np.diff(observed.distinct).min())
        narrowest = min(narrowest, max(observed.narrowest(rank), steps[n]) / (high[n] - low[n]))
    needed = 0.67 / narrowest if narrowest > 0 else np.inf  # knots two standard deviations apart at most
    basis = spline_basis(next((size for size in BASIS_NUMBERS if size - 3 >= needed), BASIS_NUMBERS[-1]))
    width = (high - low) / basis.n_cells
    return Cells(
        basis=basis,
        low=low,
        high=high,
        resolution=np.where(steps > 0.5 * width, steps, 0.0),
        discrete=tuple(chosen),
        edges=tuple(np.asarray(edges[n]) for n in chosen),
    )


def discrete_variables(values: np.ndarray, sample_weight: np.ndarray | None = None) -> tuple[int, ...]:
    """Positions of the variables that look discrete, see :func:`looks_discrete`; of values (n_samples, n_variables)."""
    found = []
    for n, column in enumerate(values.T):
        # A glance at the first samples tells most continuous ones.
        head = _Observed.of(column[:HEAD], None if sample_weight is None else sample_weight[:HEAD])
        if len(head.distinct) > FEW_INTEGERS:
            continue
        observed = _Observed.of(column, sample_weight)
        if looks_discrete(observed.distinct, observed.total):
            found.append(n)
    return tuple(found)


def distinct_values(values: np.ndarray) -> np.ndarray:
    """Distinct ones among the values of one variable (n_samples,), in order; NaN = missing.

    Those closer than rounding errors are taken for one.
    """
    return _Observed.of(values, None).distinct


def looks_discrete(distinct: np.ndarray, n_observed: float) -> bool:
    """Whether these distinct values (n_distinct,) are so few, for so many samples, that they must be categories."""
    most = FEW_INTEGERS if np.all(distinct == np.floor(distinct)) else FEW_VALUES
    return len(distinct) <= most and n_observed >= LEAST_REPEATED * len(distinct)


@dataclass(frozen=True, eq=False)
class _Observed:
    """Distinct values of one variable, in order, and how many samples have them (sum of their weights)."""

    distinct: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, sample_weight: np.ndarray | None) -> _Observed:
        """Values closer than rounding errors are taken for one; samples of no weight do not count."""
        weights = np.ones(len(values)) if sample_weight is None else sample_weight
        kept = ~np.isnan(values) & (weights > 0)
        if not kept.any():
            weights, kept = np.ones(len(values)), ~np.isnan(values)
            if not kept.any():
                return cls(np.empty(0), np.empty(0))
        order = np.argsort(values[kept], kind="stable")
        ordered, weights = values[kept][order], weights[kept][order]
        # By the middle half, not by the range, which far values may stretch; integers are what they are.
        low, high = ordered[np.searchsorted(np.cumsum(weights), np.array([0.25, 0.75 - 1e-9]) * weights.sum())]
        near = 4.0 * _EPS * np.maximum(np.abs(ordered[1:]), np.abs(ordered[:-1]))
        if not np.all(ordered == np.floor(ordered)):
            near = np.maximum(near, ROUNDING * high - ROUNDING * low)
        starts = np.flatnonzero(np.concatenate([[True], np.diff(ordered) > near]))
        return cls(ordered[starts], np.add.reduceat(weights, starts))

    @property
    def total(self) -> float:
        return float(self.counts.sum())

    def interval(self, support: Support) -> tuple[float, float]:
        """Ends of the cells: bounds near the values, or a margin beyond these, but not out to single ones far away."""
        least, most = self.distinct[0], self.distinct[-1]
        if self.total >= FEWEST_FOR_OUTLIERS:
            q01, q99 = _central(self.distinct, self.counts)
            if q99 > q01:
                reach = FARTHEST * (q99 - q01)
                least, most = max(least, q01 - reach), min(most, q99 + reach)
        margin = MARGIN * (most - least)
        near = BOUND_REACH * (most - least)
        low, high = max(least - margin, -_LARGEST), min(most + margin, _LARGEST)
        if support[0] is not None and support[0] >= least - near:
            low = support[0]
        if support[1] is not None and support[1] <= most + near:
            high = support[1]
        return float(low), float(high)

    def narrowest(self, rank: int) -> float:
        """Width of the narrowest interval that holds half as many values as the average component.

        Of a Gaussian, half the mass lies within 1.35 standard deviations.
        """
        above = np.concatenate([[0.0], np.cumsum(self.counts)])
        wanted = max(5.0, 0.5 * self.total / rank)
        last = np.searchsorted(above, above[:-1] + wanted * (1.0 - 1e-9)) - 1
        inside = last < len(self.distinct)
        if not inside.any():
            return float(self.distinct[-1] - self.distinct[0])
        return float((self.distinct[last[inside]] - self.distinct[inside]).min())


def _central(ordered: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Ends of the central 98 % of the values."""
    below = np.cumsum(weights)
    low, high = ordered[np.searchsorted(below / below[-1], [0.01, 0.99 - 1e-9])]
    return low, high
