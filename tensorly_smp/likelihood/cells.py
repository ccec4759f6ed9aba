"""Fine cells of every variable, on which smooth densities are tabulated while they are fitted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from tensorly_smp.codes.encoding import PackedIndicators, sparse_rows
from tensorly_smp.likelihood.observed import TIED, Observed, Support, are_distinct, discrete_variables, distinct_values
from tensorly_smp.samples.values import nearest
from tensorly_smp.splines.basis import LINEAR, N_BASIS, ArcsinhTransform, SplineBasis, spline_basis

#: Numbers of basis functions to choose from; those below 40 where components have fewer samples than this on average.
BASIS_NUMBERS = (16, 24, 40, N_BASIS, 2 * N_BASIS)
FEWEST_SAMPLES = 50.0
#: The first one only of more variables than this: then it is enough to resolve the details of this share of them.
#: (Log-density of other samples per variable with 16 and 24, mean of Gaussian, Laplace, GMM, Gamma: 20 x 1000 -2.0459
#: and -2.0471, 60 x 1000 -1.8971 and -1.8972, 30 x 200 -1.9725 and -1.9730; 30 x 6, where there are few, -2.0953 and
#: -2.0927.)
FEW_VARIABLES, OF_MANY = 20, 0.95
#: With fewer samples of a component than this, fewer knots are needed: how fine the details are that samples show goes
#: with the fifth root of their number. (KL with 80 and 40, mean of five truths: GMM 4, 3, 400 .104 and .107, Laplace 6,
#: 3, 400 .177 and .176, Gaussian 6, 3, 400 .064 and .063, GMM and Laplace 10, 5, 1000 .178 and .178, .188 and .189;
#: with 160 and 80, one truth: Gamma and Laplace 10, 10, 10 000 .055 and .056, .046 and .044.)
MANY_SAMPLES = 5000.0
#: Scales of the transform to choose from, beside the variable itself, in lengths of the narrowest component.
SCALES = (1.0, 4.0)

#: Weight, in samples, of a pseudo-sample that every density gets from the overall distribution of its variable: a
#: component of a few equal values stays a density, and an empty one has some.
PRIOR_SAMPLES = 0.01

#: Entries whose cells are found together.
ENTRIES_AT_ONCE = 500_000

#: Ends and transform of the cells of one variable, and the step to which its values are rounded, or 0.
Line = tuple[float, float, ArcsinhTransform, float]
#: Of a discrete variable, which has none.
NO_LINE: Line = (0.0, 1.0, LINEAR, 0.0)


@dataclass(frozen=True, eq=False)
class Cells:
    """Grid of narrow cells for every variable.

    The rows of a table of all cells are those of the smooth variables first, ``basis.n_cells`` for each, then those of
    the discrete ones, one for each of their values.

    Attributes
    ----------
    basis : SplineBasis
        Of the log densities of all smooth variables, each on its own interval.
    low, high : ndarray (n_variables,)
        Ends of the cells of smooth variables.
    transforms : tuple of ArcsinhTransform (n_variables,)
        After which these cells are equally wide.
    resolution : ndarray (n_variables,)
        Step to which values of smooth variables are rounded; 0 where they are not, or the step is finer than a cell.
    discrete : tuple of int
        Positions of the discrete variables.
    values : tuple of ndarray (n_values,)
        Their values, in their order.
    """

    basis: SplineBasis
    low: np.ndarray
    high: np.ndarray
    transforms: tuple[ArcsinhTransform, ...]
    resolution: np.ndarray
    discrete: tuple[int, ...]
    values: tuple[np.ndarray, ...]

    @cached_property
    def smooth(self) -> tuple[int, ...]:
        """Positions of the smooth variables."""
        discrete = {*self.discrete}
        return tuple(n for n in range(len(self.low)) if n not in discrete)

    @cached_property
    def offsets(self) -> np.ndarray:
        """First row of every variable, smooth ones first, and the number of rows."""
        sizes = [self.basis.n_cells] * len(self.smooth) + [len(values) for values in self.values]
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    @property
    def first_value(self) -> int:
        """First row of a discrete variable."""
        return self.basis.n_cells * len(self.smooth)

    def of_shape(self, shape: str | None) -> Cells:
        """Make the same cells for densities of a shape."""
        return replace(self, basis=spline_basis(self.basis.n_basis, shape))

    def split(self, tables: np.ndarray) -> list[np.ndarray]:
        """Views of the rows of every discrete variable, of tables of all their values, one below the other."""
        ends = np.cumsum([len(values) for values in self.values])
        return np.split(tables, ends[:-1]) if len(ends) else []

    @cached_property
    def log_widths(self) -> np.ndarray:
        """Logarithms (n_rows,) of the widths of the cells, in the units of the variables; 0 of values."""
        n_cells = self.basis.n_cells
        found = np.tile((self.high / n_cells - self.low / n_cells)[list(self.smooth), None], n_cells)
        for t, n in enumerate(self.smooth):
            if not self.transforms[n].is_linear:
                found[t] = self.widths(n)
        return np.log(np.concatenate([found.ravel(), np.ones(self.offsets[-1] - self.first_value)]))

    def widths(self, n: int) -> np.ndarray:
        """Widths (n_cells,) of the cells of a smooth variable."""
        low = self.low[n]
        high = self.high[n]
        n_cells = self.basis.n_cells
        transform = self.transforms[n]
        if transform.is_linear:
            return np.full(n_cells, high / n_cells - low / n_cells)
        return transform.scale * np.diff(transform.knots(low, high, n_cells))

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
        if not self.resolution.any():
            return self.packed(values).matrix
        columns = []
        shares = []
        offsets = self.offsets.tolist()
        for n, offset in zip(self.smooth, offsets, strict=False):
            column, share = self._smooth_cells(n, values[:, n])
            columns.append(column + offset)
            shares.append(share)
        for own, n, offset in zip(self.values, self.discrete, offsets[len(self.smooth) :], strict=False):
            column = nearest(own, values[:, n]).astype(np.int32)[:, None]
            columns.append(column + offset)
            shares.append(np.ones(column.shape))
        for n, share in zip((*self.smooth, *self.discrete), shares, strict=True):
            share[np.isnan(values[:, n])] = 0.0
        return sparse_rows(np.concatenate(shares, axis=1), np.concatenate(columns, axis=1), offsets[-1])

    def packed(self, values: np.ndarray) -> PackedIndicators:
        """Find the cells of values (n_samples, n_variables), none of which is spread over several."""
        return PackedIndicators(self.positions(values), tuple(np.diff(self.offsets).tolist()))

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
        n_cells = self.basis.n_cells
        sizes = np.diff(self.offsets)
        found = np.empty((len(values), len(sizes)), dtype=np.min_scalar_type(-int(sizes.max())), order="F")
        plain = [t for t, n in enumerate(self.smooth) if self.transforms[n].is_linear]
        for places in batched(plain, len(values)):
            columns = [self.smooth[t] for t in places]
            low = self.low[columns]
            with np.errstate(over="ignore"):
                position = (values[:, columns] - low) / (self.high[columns] - low) * n_cells
            found[:, places] = np.fmin(np.fmax(position, 0.0), np.nextafter(n_cells, 0.0))
        for t in sorted({*range(len(self.smooth))} - {*plain}):
            n = self.smooth[t]
            found[:, t] = self._smooth_cells(n, values[:, n])[0][:, 0]
        for t, (n, own) in enumerate(zip(self.discrete, self.values, strict=True), len(self.smooth)):
            found[:, t] = nearest(own, values[:, n])
        found[np.isnan(values[:, [*self.smooth, *self.discrete]])] = -1
        return found

    @np.errstate(over="ignore")
    def _smooth_cells(self, n: int, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Cells (n_samples, n_shares) of the values of one variable, and the share of each."""
        n_cells = self.basis.n_cells
        transform = self.transforms[n]
        ends = transform.forward(np.array([self.low[n], self.high[n]]))

        def cells_from_low(x: np.ndarray) -> np.ndarray:
            return (transform.forward(x) - ends[0]) / (ends[1] - ends[0]) * n_cells

        position = np.clip(np.nan_to_num(cells_from_low(values)), 0.0, np.nextafter(n_cells, 0.0))
        half = 0.5 * self.resolution[n]
        if half == 0.0:
            return position.astype(np.int32)[:, None], np.ones((len(values), 1))
        if transform.is_linear:
            half = half / (self.high[n] - self.low[n]) * n_cells
            start = position - half
            end = position + half
        else:
            inside = np.clip(np.nan_to_num(values), self.low[n], self.high[n])
            start = cells_from_low(inside - half)
            end = cells_from_low(inside + half)
        start = np.clip(start, 0.0, n_cells)[:, None]
        end = np.clip(end, 0.0, n_cells)[:, None]
        end = np.maximum(end, np.nextafter(start, np.inf))  # far out, half a step may be less than rounding
        most = int(np.ceil((end - start).max(initial=0.0)))
        cells = start.astype(np.int32) + np.arange(most + 1, dtype=np.int32)
        overlap = np.clip(np.minimum(cells + 1.0, end) - np.maximum(cells, start), 0.0, None)
        return np.minimum(cells, n_cells - 1), overlap / overlap.sum(axis=1, keepdims=True)


def batched(variables: Sequence[int], n_samples: int) -> Iterator[Sequence[int]]:
    """Variables in parts of so many entries, about, that what is found of them at once fits into memory."""
    size = max(1, ENTRIES_AT_ONCE // max(n_samples, 1))
    return (variables[first : first + size] for first in range(0, len(variables), size))


def exact_values(values: np.ndarray, sample_weight: np.ndarray | None = None) -> list[Observed]:
    """Distinct values of every column of samples (n_samples, n_variables), told apart to the last digit."""
    found = []
    ones = np.ones(len(values))
    for some in batched(range(values.shape[1]), len(values)):
        columns = values[:, some[0] : some[-1] + 1].T
        ordered = np.sort(columns, axis=1)  # missing ones last
        are_apart = are_distinct(ordered).all(axis=1)
        for column, own, is_apart in zip(columns, ordered, np.atleast_1d(are_apart), strict=True):
            is_plain = is_apart and sample_weight is None
            found.append(Observed(own, ones) if is_plain else Observed.of(column, sample_weight, rounding=0.0))
    return found


@np.errstate(over="ignore")  # infinite lengths of an absurd support are as good as any
def choose_cells(
    values: np.ndarray,
    rank: int,
    discrete: Mapping[int, np.ndarray] | None = None,
    support: Sequence[Support] | None = None,
    sample_weight: np.ndarray | None = None,
    observed: Sequence[Observed] | None = None,
    shape: str | None = None,
) -> Cells:
    """Cells for samples.

    Parameters
    ----------
    values : ndarray (n_samples, n_variables)
        NaN = missing; every variable has a value.
    rank : int
        Number of components: with more of them, each may be narrower.
    discrete : mapping from int to ndarray (n_values,), optional
        Values of the discrete variables, by their positions; by default those that look discrete, with the values that
        they have. Constant ones always are.
    support : sequence of (low, high), optional
        Bounds of every variable.
    sample_weight : ndarray (n_samples,), optional
    observed : sequence of Observed, optional
        As of :func:`exact_values` of the same samples, where these are known.
    shape : {None, "log-concave"}
        Of the densities on the cells.

    Returns
    -------
    Cells
    """
    every = exact_values(values, sample_weight) if observed is None else observed
    n_variables = values.shape[1]
    bounds = [(None, None)] * n_variables if support is None else support
    lines = [NO_LINE] * n_variables
    knots = []
    of_component = max((each.total for each in every), default=0.0) / rank
    share = min(1.0, of_component / MANY_SAMPLES) ** 0.2
    if discrete is None:
        positions = discrete_variables(values, sample_weight)
        discrete = dict(zip(positions, distinct_values(values, positions, sample_weight), strict=True))
    chosen = dict(discrete)
    easy = _easy_lines(every, len(values), rank, bounds) if sample_weight is None else {}
    for n in range(n_variables):
        if n in chosen:
            continue
        exact = every[n]
        # Where hardly any repeat, no more of them would be equal to rounding but for the small ones of a long tail.
        is_rounded = n not in easy and len(exact.distinct) < TIED * exact.total
        to_rounding = Observed.of(values[:, n], sample_weight) if is_rounded else exact
        if len(to_rounding.distinct) < 2:
            chosen[n] = to_rounding.distinct
            continue
        lines[n], n_knots = easy[n] if n in easy else _needed_line(exact, rank, bounds[n])
        knots.append(n_knots)
    # Of few samples the narrowest interval is narrow by chance in some of many variables.
    are_few = of_component < FEWEST_SAMPLES
    are_many = len(knots) > FEW_VARIABLES
    needed = share * np.quantile(knots, OF_MANY if are_few else 1.0, method="higher") if knots else 0.0
    numbers = BASIS_NUMBERS[(0 if are_many else 1) if are_few else 2 :]
    basis = spline_basis(next((size for size in numbers if size - 3 >= needed), numbers[-1]), shape)
    return _on_lines(basis, lines, chosen)


def bin_cells(sizes: Sequence[int]) -> Cells:
    """Grid of variables with so many values, or bins, each, numbered from 0; none of them is smooth."""
    of_size = {size: np.arange(float(size)) for size in set(sizes)}
    values = {n: of_size[size] for n, size in enumerate(sizes)}
    return _on_lines(spline_basis(N_BASIS), [NO_LINE] * len(sizes), values)


@np.errstate(over="ignore")
def curved_cells(
    cells: Cells,
    values: np.ndarray,
    rank: int,
    support: Sequence[Support] | None = None,
    sample_weight: np.ndarray | None = None,
    observed: Sequence[Observed] | None = None,
) -> tuple[Cells, ...]:
    """Other cells for the same samples, equally wide after a transform that draws far values in.

    Densities with a sharp peak and long tails need fewer parameters there, others more: which one suits a variable is
    for a criterion to say.

    Parameters
    ----------
    cells : Cells
        As of :func:`choose_cells`.
    values, rank, support, sample_weight, observed
        As there.

    Returns
    -------
    tuple of Cells
        One for each of `SCALES`; none where no variable is smooth.
    """
    if not cells.smooth:
        return ()
    every = exact_values(values, sample_weight) if observed is None else observed
    bounds = [(None, None)] * values.shape[1] if support is None else support
    lines = [[NO_LINE] * values.shape[1] for _ in SCALES]
    for n in cells.smooth:
        apart = every[n].without_atoms(rank)
        narrowest = apart.narrowest(rank)
        for line, scale in zip(lines, SCALES, strict=True):
            line[n] = _line(every[n], bounds[n], _arcsinh(apart, narrowest, scale))
    values_of = dict(zip(cells.discrete, cells.values, strict=True))
    return tuple(_on_lines(cells.basis, line, values_of) for line in lines)


def combined_cells(choices: Sequence[Cells], chosen: Mapping[int, int]) -> Cells:
    """Cells of every smooth variable like those of one of several, by the position of the variable."""
    numbers = [chosen.get(n, 0) for n in range(len(choices[0].low))]
    low, high, steps = (
        np.array([getattr(choices[number], name)[n] for n, number in enumerate(numbers)])
        for name in ("low", "high", "resolution")
    )
    transforms = tuple(choices[number].transforms[n] for n, number in enumerate(numbers))
    return replace(choices[0], low=low, high=high, resolution=steps, transforms=transforms)


def cells_along(
    basis: SplineBasis,
    low: np.ndarray,
    high: np.ndarray,
    transforms: tuple[ArcsinhTransform, ...],
    discrete: Mapping[int, np.ndarray],
    values: np.ndarray,
) -> Cells:
    """Cells of a fit that is known by its splines, for its samples (n_samples, n_variables).

    Parameters are those of :class:`Cells` and :func:`choose_cells`; the step to which values are rounded is that of the
    samples.
    """
    steps = [0.0 if n in discrete else Observed.of(own, None, rounding=0.0).step for n, own in enumerate(values.T)]
    return _on_lines(basis, list(zip(low, high, transforms, steps, strict=True)), discrete)


def _line(observed: Observed, bounds: Support, transform: ArcsinhTransform) -> Line:
    """Cells for the values of a variable, within its bounds; of the variable itself where the transform loses them."""
    low, high = observed.interval(bounds, transform)
    if low == high and not transform.is_linear:  # next to each other, far from the center
        return _line(observed, bounds, LINEAR)
    return low, high, transform, observed.step


def _on_lines(basis: SplineBasis, lines: Sequence[Line], discrete: Mapping[int, np.ndarray]) -> Cells:
    """Cells with the ends, transforms and steps of these lines, and the values of the discrete variables."""
    low, high, transforms, rounding = zip(*lines, strict=True)
    positions = tuple(sorted(discrete))
    values = tuple(discrete[n] for n in positions)
    cells = Cells(basis, np.array(low), np.array(high), transforms, np.zeros(len(lines)), positions, values)
    steps = [step if step and step > 0.5 * cells.widths(n).min() else 0.0 for n, step in enumerate(rounding)]
    return replace(cells, resolution=np.array(steps))


def _easy_lines(
    every: Sequence[Observed], n_samples: int, rank: int, bounds: Sequence[Support]
) -> dict[int, tuple[Line, float]]:
    """Find what :func:`_needed_line` finds, of variables that have no value twice, if they need no transform."""
    found = {}
    plain = [n for n, each in enumerate(every) if len(each.distinct) == n_samples > 1]
    for some in batched(plain, n_samples):
        together = Observed(np.stack([every[n].distinct for n in some]), every[some[0]].counts)
        low, high = together.interval(np.array([bounds[n] for n in some], dtype=np.float64).T)
        n_knots = _knots_needed(together, rank, low, high)
        for n, a, b, number in zip(some, low.tolist(), high.tolist(), n_knots.tolist(), strict=True):
            if number <= BASIS_NUMBERS[-1] - 3:
                found[n] = (a, b, LINEAR, 0.0), number
    return found


def _needed_line(observed: Observed, rank: int, bounds: Support) -> tuple[Line, float]:
    """Ends and transform of the cells of one variable, and the number of knots that they need.

    The variable itself, unless even the largest basis is too coarse for its narrowest component. Then an arsinh whose
    scale is the width of that component, if fewer knots are enough under it: of two narrow components that are far
    apart, one would gain and the other lose. Values that many samples share are left out of this, because they would
    look like a component without a width.
    """
    enough = BASIS_NUMBERS[-1] - 3
    line = _line(observed, bounds, LINEAR)
    n_knots = _knots_needed(observed, rank, *line[:2])
    if n_knots <= enough:
        return line, n_knots
    apart = observed.without_atoms(rank)
    needed = _knots_needed(apart, rank, *line[:2])
    curved = _arcsinh(apart, apart.narrowest(rank))
    if needed <= enough or _knots_needed(apart, rank, *line[:2], curved) >= needed:
        return line, n_knots
    line = _line(observed, bounds, curved)
    return line, _knots_needed(observed, rank, *line[:2], curved)


def _arcsinh(observed: Observed, around: tuple[float, float], times: float = 1.0) -> ArcsinhTransform:
    """Transform whose center and scale are those of an interval, as of the narrowest component.

    Of values that are nearly all the same, and of those whose range is next to that of all floats, the variable itself.
    """
    first, last = around
    if observed.distinct[-1] / 8 - observed.distinct[0] / 8 > np.finfo(np.float64).max / 64:
        return LINEAR
    scale = times * max(last - first, observed.step)
    return ArcsinhTransform(0.5 * (first + last), scale) if scale > 0 else LINEAR


def _knots_needed(observed: Observed, rank: int, low: Any, high: Any, transform: ArcsinhTransform = LINEAR) -> Any:
    """Number of knots, two standard deviations of the narrowest component apart, on the interval."""
    start, end = transform.forward(np.array([low, high]))
    first, last = observed.transformed(transform).narrowest(rank)
    narrowest = np.maximum(last - first, observed.step if transform.is_linear else 0.0) / (end - start)
    with np.errstate(divide="ignore"):
        return 0.67 / np.maximum(narrowest, 0.0)


def prior_counts(cells: Cells, overall: np.ndarray) -> np.ndarray:
    """Pseudo-samples (n_rows, 1) from the weight (n_rows,) of all samples in the cells.

    A value of a discrete variable that no sample has, as in a fold or a replicate, counts as if one sample had it.
    """
    found = np.where((overall == 0.0) & (np.arange(len(overall)) >= cells.first_value), 1.0, overall)
    sizes = np.diff(cells.offsets)
    # Alike in all cells where only samples of no weight have the variable.
    totals = np.repeat(np.add.reduceat(found, cells.offsets[:-1]), sizes)
    shares = np.where(totals > 0, found / np.where(totals > 0, totals, 1.0), 1.0 / np.repeat(sizes, sizes))
    return PRIOR_SAMPLES * shares[:, None]
