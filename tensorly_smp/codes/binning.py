"""Cuts of each variable into intervals."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from typing import Any

import numpy as np

from tensorly_smp._support.checks import (
    MOST_BINS,
    checked_choice,
    checked_integer,
    checked_real,
    float_array,
    is_real,
    warn,
)
from tensorly_smp._support.representations import SHOWN, html_summary, joined, listed, reason, shown
from tensorly_smp.exceptions import (
    ConstantVariableWarning,
    InvalidInputError,
    InvalidTypeError,
    MergedBinsWarning,
    NonUniformBinsError,
    OutlierWarning,
    SizeLimitError,
    TensorlySmpWarning,
)
from tensorly_smp.samples.labels import default_names, plain_names, refuse_repeated
from tensorly_smp.samples.reading import read_samples
from tensorly_smp.samples.values import (
    MAX,
    ROUNDING,
    crowded_variables,
    drop_zero_weight,
    middles,
    observed_values,
    quantiles,
    stretched_ranges,
)
from tensorly_smp.samples.values import ranges as extremes


@dataclass(frozen=True, eq=False, repr=False)
class Binning:
    """Edges of the intervals of every variable, or the values of a discrete one.

    Bin ``i`` holds the values from ``edges[i]`` up to, and without, ``edges[i + 1]``; the last bin holds its right edge
    too. A discrete variable has a bin for each of its values, and any other value is in the bin of the nearest. Two
    binnings are equal if their edges, names and values are.

    Attributes
    ----------
    edges : tuple of ndarray (n_bins + 1,)
        Strictly increasing, finite, float64, read-only; in the variable's own unit. At least two bins each. Those of
        discrete variables need not be given (None): they are midway between the values.
    variables : tuple of hashable
        One name per variable; "x0", "x1", ... by default.
    strategy : str
        How the edges were chosen: "uniform", "quantile" or "given".
    constant : frozenset of hashable
        Variables of which `choose_binning` has said that they take a single value.
    values : mapping from name to ndarray (n_bins,)
        Values of the discrete variables, in increasing order, at least one each; read-only.

    Raises
    ------
    InvalidTypeError
        Edges are not real numbers.
    InvalidInputError
        Edges do not increase, are not finite, or lie too far apart or too close for float64; fewer than two bins;
        names repeat or are not as many as the variables.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> smp.Binning(([0, 1, 2], [0, 0.5, 10]), ("age", "dose"))
    Binning(2 variables, strategy='given')
      'age'   2 bins  0 .. 2
      'dose'  2 bins  0 .. 10
    >>> values = {"items": [0, 1, 10]}
    >>> smp.Binning(([0, 1, 2], None), ("age", "items"), values=values).n_bins
    (2, 3)
    """

    edges: tuple[np.ndarray, ...]
    variables: tuple[Hashable, ...] = ()
    strategy: str = "given"
    constant: frozenset[Hashable] = frozenset()
    values: Mapping[Hashable, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            sets_of_edges = tuple(self.edges)
            names = plain_names(self.variables) or default_names(len(sets_of_edges))
            constant = frozenset(plain_names(self.constant))
            hash(names)
        except TypeError as error:
            words = f"Edges or names are of the wrong kind ({reason(error)})"
            raise InvalidTypeError(f"{words}; expected a sequence each.") from error
        if len(names) != len(sets_of_edges) or not names:
            words = f"{len(sets_of_edges)} sets of edges for {len(names)} variables"
            raise InvalidInputError(f"{words}; expected one each.")
        refuse_repeated(names)
        if not isinstance(self.values, Mapping):
            raise InvalidTypeError(f"values is {shown(self.values)}; expected a mapping from names to values.")
        checked_choice(self.strategy, "strategy", ("uniform", "quantile", "given"))
        for what, known in (("Constant", constant), ("values", self.values)):
            if unknown := set(known) - set(names):
                raise InvalidInputError(f"{what} names {listed(unknown)}; expected names of variables.")
        values = {name: checked_values(each, name) for name, each in self.values.items()}
        plain = plain_edges(sets_of_edges)
        edges = tuple(
            edges_between(values[name]) if name in values else plain[n] if n in plain else checked_edges(each, name)
            for n, (each, name) in enumerate(zip(sets_of_edges, names, strict=True))
        )
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "variables", names)
        object.__setattr__(self, "constant", constant)
        object.__setattr__(self, "edges", edges)

    @classmethod
    def from_n_bins(
        cls, n_bins: int | Sequence[int] | Mapping[Any, int], variables: Sequence[Hashable] | None = None
    ) -> Binning:
        """Binning of data that are bin indices already: edges 0, 1, ..., n_bins; of a single bin, the value 0.

        Parameters
        ----------
        n_bins : sequence of int, or mapping from name to int
            An int too if `variables` are given.
        variables : sequence of hashable, optional
        """
        if variables is None:
            given: Any = n_bins
            default = default_names(len(given) if _is_sequence(given) else 1)
            variables = tuple(given) if isinstance(given, Mapping) else default
        try:
            variables = tuple(variables)
        except TypeError as error:
            raise InvalidTypeError(f"variables is {shown(variables)}; expected a sequence of names.") from error
        counts = resolve_n_bins(n_bins, variables, 1)
        single = {name: np.zeros(1) for name, count in zip(variables, counts, strict=True) if count == 1}
        return cls(tuple(np.arange(count + 1.0) for count in counts), tuple(variables), values=single)

    @property
    def n_variables(self) -> int:
        """Number of variables."""
        return len(self.edges)

    @cached_property
    def n_bins(self) -> tuple[int, ...]:
        """Number of bins of every variable."""
        return tuple(len(edges) - 1 for edges in self.edges)

    @property
    def widths(self) -> tuple[np.ndarray, ...]:
        """Widths of the bins, ndarray (n_bins,) per variable; all positive."""
        return tuple(np.diff(edges) for edges in self.edges)

    @property
    def centers(self) -> tuple[np.ndarray, ...]:
        """Midpoints of the bins, or the values of a discrete variable, ndarray (n_bins,) per variable."""
        pairs = zip(self.variables, self.edges, strict=True)
        return tuple(self.values.get(name, edges[:-1] + np.diff(edges) / 2) for name, edges in pairs)

    @property
    def discrete(self) -> dict[int, np.ndarray]:
        """Values (n_bins,) of the discrete variables, by their positions."""
        return {n: self.values[name] for n, name in enumerate(self.variables) if name in self.values}

    @property
    def is_uniform(self) -> tuple[bool, ...]:
        """Per variable, whether its bins are equally wide: to 1e-9 of the width, or to the rounding of the edges."""
        found = []
        for edges, widths in zip(self.edges, self.widths, strict=True):
            mean = (edges[-1] - edges[0]) / len(widths)
            tolerance = max(1e-9 * mean, 4 * _EPS * np.abs(edges).max())
            found.append(bool(np.abs(widths - mean).max() <= tolerance))
        return tuple(found)

    def require_uniform(self) -> None:
        """Raise NonUniformBinsError, naming the variables, unless every continuous variable has bins of equal width.

        Sinc interpolation of a CDF needs its values at equally spaced points.
        """
        pairs = zip(self.variables, self.is_uniform, strict=True)
        if uneven := [name for name, uniform in pairs if not uniform and name not in self.values]:
            words = f"those of variable(s) {listed(uneven)} differ (strategy={shown(self.strategy)})"
            advice = 'Use method="histogram" (of an estimator: density="histogram"), or bins of strategy="uniform"'
            raise NonUniformBinsError(f"Sinc reconstruction needs bins of equal width; {words}. {advice}.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Binning):
            return NotImplemented
        is_same = self.variables == other.variables and self.values.keys() == other.values.keys()
        return is_same and all(map(np.array_equal, self.edges, other.edges))

    def __hash__(self) -> int:
        return hash((self.variables, self.n_bins))

    def __repr__(self) -> str:
        pad = max(len(repr(name)) for name in self.variables[:SHOWN])
        lines = [f"Binning({self.n_variables} variable{'s'[: self.n_variables > 1]}, strategy={self.strategy!r})"]
        for name, n_bins, low, high in self._rows()[:SHOWN]:
            lines.append(f"  {name!r:{pad}}  {n_bins} bins  {low} .. {high}")
        if self.n_variables > SHOWN:
            lines.append(f"  and {self.n_variables - SHOWN} more")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return html_summary(f"Binning, {self.strategy}", (), ("variable", "bins", "from", "to"), self._rows())

    def _rows(self) -> list[tuple[Hashable, int, str, str]]:
        pairs = zip(self.variables, self.edges, strict=True)
        return [(name, len(edges) - 1, f"{edges[0]:.6g}", f"{edges[-1]:.6g}") for name, edges in pairs]


def choose_binning(
    X: Any,
    n_bins: int | Sequence[int] | Mapping[Any, int] = 15,
    strategy: str = "uniform",
    range: Any = None,
    coverage: float | None = None,
    *,
    sample_dim: Hashable | None = None,
    sample_weight: Any = None,
) -> Binning:
    """Choose the intervals of every variable.

    Sinc reconstruction needs ``strategy="uniform"``. If a few values lie far away from the rest, they stretch uniform
    bins until most are empty: then state a `coverage` (or a `range`), and the outermost bins catch what lies beyond.

    Parameters
    ----------
    X : array_like, masked array, DataFrame, DataArray or Dataset (n_samples, n_variables)
        NaN, None, pandas NA and masked entries are missing.
    n_bins : int, sequence of int, or mapping from variable name to int
        At least 2. A sequence or mapping must cover every variable.
    strategy : {"uniform", "quantile"}
        Equally wide bins, or bins of about equally many samples. Quantile edges lie midway between neighboring
        observed values, so that equal values always share a bin; a variable with many ties therefore gets fewer bins
        than asked for, but at least two.
    range : None, pair, sequence of pairs, or mapping from variable name to pair
        First and last edge. One pair holds for all variables. A bound, or pair, that is None comes from the data, and
        so do those of variables that a mapping leaves out.
    coverage : float in (0, 1], optional
        Bounds that come from the data are the ends of this central quantile range instead of the smallest and largest
        value: 0.99 spans from the 0.5 % to the 99.5 % quantile.
    sample_dim : hashable or tuple of hashable, optional
        Dimension of the samples in xarray input; inferred from its name by default.
    sample_weight : array_like (n_samples,), optional
        Non-negative; a sample of weight 2 counts twice in quantile bins and `coverage`, one of weight 0 not at all,
        and it does not set the range either.

    Returns
    -------
    Binning

    Raises
    ------
    InvalidInputError
        X is empty, not two-dimensional or infinite; a variable has no observed value (of positive weight); options do
        not fit the data.
    InvalidTypeError
        X is not numeric, or an option is of the wrong type.

    Warns
    -----
    ConstantVariableWarning
        A variable takes one value only. It gets a range around that value.
    OutlierWarning
        Far values, or a long tail, set the range of a variable.
    MergedBinsWarning
        Ties leave a variable fewer quantile bins than asked for.

    References
    ----------
    N. Kargas, N. D. Sidiropoulos, "Learning Mixtures of Smooth Product Distributions: Identifiability and Algorithm",
    AISTATS 2019, section 4.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> smp.choose_binning([[0.0, 1.0], [3.0, 2.0], [6.0, 5.0]], n_bins=[3, 4]).edges
    (array([0., 2., 4., 6.]), array([1., 2., 3., 4., 5.]))
    """
    samples = read_samples(X, sample_dim=sample_dim)
    values, weights = drop_zero_weight(samples.values, samples.aligned_weights(sample_weight))
    binning, found = binning_of_values(values, samples.variables, n_bins, strategy, range, coverage, weights)
    for each in found:
        warn(each)
    return binning


def binning_of_values(
    values: np.ndarray,
    names: Sequence[Hashable],
    n_bins: int | Sequence[int] | Mapping[Any, int] = 15,
    strategy: str = "uniform",
    range: Any = None,
    coverage: float | None = None,
    weights: np.ndarray | None = None,
    discrete: Mapping[Hashable, np.ndarray] | None = None,
    tells_outliers: bool = True,
) -> tuple[Binning, list[TensorlySmpWarning]]:
    """The intervals of :func:`choose_binning`, and its warnings, which are for the caller to give or to leave.

    Parameters
    ----------
    values : ndarray (n_samples, n_variables)
        Of samples of positive weight; NaN = missing.
    names : sequence of hashable (n_variables,)
    n_bins, strategy, range, coverage
        As for :func:`choose_binning`.
    weights : ndarray (n_samples,), optional
        Positive.
    discrete : mapping from name to ndarray (n_values,), optional
        Values of discrete variables, which need no bins.
    tells_outliers : bool
        False leaves out the warning of far values, and the time that it takes to look for them.

    Returns
    -------
    binning : Binning
    found : list of TensorlySmpWarning
    """
    checked_choice(strategy, "strategy", ("uniform", "quantile"))
    counts = resolve_n_bins(n_bins, names)
    ranges = _resolve_ranges(range, names)
    share = 1.0 if coverage is None else checked_real(coverage, "coverage", 0.0, 1.0, "(]")
    if empty := list(compress(names, np.isnan(values).all(axis=0))):
        raise InvalidInputError(f"Variable(s) {listed(empty)} have no observed value; leave them out.")
    if len(values) == 1 and any(None in pair for pair in ranges) and (weights is None or weights[0] <= 1):
        raise InvalidInputError("X has 1 sample, which tells no range of values; expected at least 2 samples.")
    constant: list[Hashable] = []
    discrete = discrete or {}
    ends = np.tile([0.0, 1.0], (len(names), 1))
    for n, (name, (low, high)) in enumerate(zip(names, extremes(values).T.tolist(), strict=True)):
        if name in discrete:
            constant += [name] * (len(discrete[name]) == 1)
            continue
        ends[n] = bounds_of(values[:, n], (low, high), ranges[n], share, counts[n], name, weights)
        constant += [name] * is_constant(low, high, counts[n])
    edges = _uniform_edges(ends, counts)
    stretched = []
    if strategy == "quantile":
        for n in (n for n, name in enumerate(names) if name not in discrete):
            observed, own = observed_values(values[:, n], weights)
            edges[n] = quantile_edges(observed, float(ends[n, 0]), float(ends[n, 1]), counts[n], own)
    elif tells_outliers:
        far = {*crowded_variables(values, edges, weights), *(stretched_ranges(values, weights) if share == 1.0 else ())}
        # Only a range that the values set themselves: one that was given is meant.
        stretched = [names[n] for n in sorted(far) if None in ranges[n] and names[n] not in {*constant, *discrete}]
    binning = Binning(tuple(edges), tuple(names), strategy, frozenset(constant), discrete)
    merged = {
        name: n_made
        for name, n_made, count, pair in zip(names, binning.n_bins, counts, ranges, strict=True)
        if n_made < count and name not in {*constant, *discrete} and pair == (None, None)
    }
    if not (stretched or constant or merged):
        return binning, []
    columns = values[:, [names.index(name) for name in constant]]
    return binning, _warnings_of_bins(stretched, dict(zip(constant, columns.T, strict=True)), merged)


def _uniform_edges(ends: np.ndarray, counts: Sequence[int]) -> list[np.ndarray]:
    """Equally spaced edges of every variable, between its ends (n_variables, 2)."""
    edges: dict[int, np.ndarray] = {}
    for count in set(counts):
        alike = [n for n, own in enumerate(counts) if own == count]
        edges |= dict(zip(alike, np.linspace(ends[alike, 0], ends[alike, 1], count + 1, axis=1), strict=True))
    return [edges[n] for n in range(len(counts))]


def _warnings_of_bins(
    stretched: Sequence[Hashable], constant: Mapping[Hashable, np.ndarray], merged: Mapping[Hashable, int]
) -> list[TensorlySmpWarning]:
    """Warnings of far values, of variables that take a single value or nearly so, and of fewer bins than asked for."""
    single = [name for name, column in constant.items() if np.nanmin(column) == np.nanmax(column)]
    close = [name for name in constant if name not in single]
    few = joined([f"{shown(name)} ({n_made} bins)" for name, n_made in merged.items()])
    far = (
        f"Far values or a long tail set the range of variable(s) {listed(stretched)}, so that nearly all values share "
        "a few of the uniform bins. Choose bins with coverage=0.99, or less if more values are far: the outermost bins "
        'then catch these. Or set them to NaN if they are errors; or take binning="quantile".'
    )
    useless = f"Variable(s) {listed(single)} take a single value, so they cannot tell components apart; leave them out."
    narrow = (
        f"The values of variable(s) {listed(close)} differ by too little for bins between them, in float64 and at "
        "their distance from zero; they share one bin and cannot tell components apart. Subtract an offset, such as "
        "the mean, before they are rounded, or leave them out."
    )
    tied = (
        f"Values that many samples share leave variable(s) {few} fewer quantile bins than were asked for: equal values "
        'are in one bin. Ask for fewer bins, or take binning="uniform".'
    )
    kinds = (OutlierWarning, ConstantVariableWarning, ConstantVariableWarning, MergedBinsWarning)
    said = zip(kinds, (stretched, single, close, list(merged)), (far, useless, narrow, tied), strict=True)
    return [category(text, variables=names) for category, names, text in said if names]


def resolve_n_bins(n_bins: Any, variables: Sequence[Hashable], fewest: int = 2) -> tuple[int, ...]:
    """Number of bins of every variable, from an int, a sequence or a complete mapping by name."""
    if isinstance(n_bins, Mapping) and (missing := [name for name in variables if name not in n_bins]):
        raise InvalidInputError(f"n_bins has no entry for variable(s) {listed(missing)}; give one for each.")
    counts = _by_variable(n_bins, variables, "n_bins")
    for name, count in zip(variables, counts, strict=True):
        what = f"n_bins of variable {name!r:.60}"
        if checked_integer(count, what, fewest) > MOST_BINS:
            raise SizeLimitError(f"{what} is {shown(count)}; expected at most {MOST_BINS}, say 15.")
    return tuple(int(count) for count in counts)


def _resolve_ranges(ranges: Any, variables: Sequence[Hashable]) -> list[tuple[float | None, float | None]]:
    """Bounds of every variable, None where they come from the data."""
    pairs = [ranges] * len(variables) if _is_pair(ranges) else _by_variable(ranges, variables, "range")
    resolved: list[tuple[float | None, float | None]] = []
    for name, pair in zip(variables, pairs, strict=True):
        what = f"range of variable {name!r:.60}"
        if pair is not None and not _is_pair(pair):
            raise InvalidTypeError(f"{what} is {shown(pair)}; expected two numbers (low, high) or None.")
        given = (None, None) if pair is None else pair
        low, high = (None if bound is None else checked_real(bound, what, -np.inf, np.inf, "()") for bound in given)
        if low is not None and high is not None and low >= high:
            raise InvalidInputError(f"{what} is {shown(pair)}; expected low < high.")
        resolved.append((low, high))
    return resolved


def _by_variable(given: Any, variables: Sequence[Hashable], option: str) -> list[Any]:
    """The entry of every variable: one for all, of a sequence, or of a mapping by name, None where that has none."""
    if isinstance(given, Mapping):
        if unknown := [name for name in given if name not in variables]:
            raise InvalidInputError(f"{option} names {listed(unknown)}; the variables are {listed(variables)}.")
        return [given.get(name) for name in variables]
    if not _is_sequence(given):
        return [given] * len(variables)
    if len(given) != len(variables):
        raise InvalidInputError(f"{option} has {len(given)} entries; expected one for each of {len(variables)}.")
    return list(given)


def _is_sequence(value: Any) -> bool:
    """Tell sequences from single values; an array without dimensions has no length."""
    return isinstance(value, Sequence | np.ndarray) and not isinstance(value, str) and getattr(value, "ndim", 1) > 0


def _is_pair(value: Any) -> bool:
    return _is_sequence(value) and len(value) == 2 and all(bound is None or is_real(bound) for bound in value)


_EPS = float(np.finfo(np.float64).eps)
_TINY = float(np.finfo(np.float64).tiny)
# Up to here bins of width one have edges that are exact to a millionth.
_LARGEST_WITH_UNIT_BINS = 1e-6 / _EPS
#: Bins narrower than this share of the range of all of them leave the range of float64 when squared.
LEAST_SHARE = 1e-280


def is_constant(low: float, high: float, n_bins: int) -> bool:
    """Tell whether all values agree to the rounding that `n_bins` edges between them would suffer."""
    # halves, since high - low may overflow
    return high / 2 - low / 2 <= 2 * n_bins * _EPS * max(abs(low), abs(high))


def bounds_of(
    column: np.ndarray,
    ends: tuple[float, float],
    limits: tuple[float | None, float | None],
    coverage: float,
    n_bins: int,
    name: Hashable,
    weights: np.ndarray | None = None,
) -> tuple[float, float]:
    """First and last edge of one variable, from its values, their ends, and their weights (n_samples,)."""
    low, high = ends
    if is_constant(low, high, n_bins):
        low, high = _around(low, high, n_bins)
    elif coverage < 1 and None in limits:
        _check_span(low, high, name)
        observed, own = observed_values(column, weights)
        low, high = quantiles(observed, [(1 - coverage) / 2, (1 + coverage) / 2], own).tolist()
        if not low < high:
            words = f"The central {coverage:g} of variable {shown(name)} is the single value {low:g}"
            raise InvalidInputError(f"{words}; use a larger coverage.")
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
    return max(low - half, -MAX), min(high + half, MAX)


def _check_span(low: float, high: float, name: Hashable) -> None:
    # With room to spare, so that intermediate results (a width times the number of bins) do not overflow either.
    # Python floats overflow to infinity without a warning.
    if high - low > MAX / 2:
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
    is_left = np.where(np.abs(excess) < ROUNDING, wanted > 0.5, excess < 0)
    nearest = np.where(is_left, left, right)
    return np.concatenate(([low], middles[np.unique(nearest)], [high]))


def checked_values(values: Any, name: Hashable) -> np.ndarray:
    """Read-only float64 copy of the values of a discrete variable."""
    array = _increasing(values, f"Values of the discrete variable {shown(name)}", name, 1)
    if len(array) > MOST_BINS:
        expected = f"expected at most {MOST_BINS} of a discrete variable. Leave it out of discrete"
        raise SizeLimitError(f"Variable {shown(name)} has {len(array)} values; {expected}.")
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
    array = _increasing(edges, f"Edges of variable {name!r:.60}", name, 3)
    least = max(_TINY, LEAST_SHARE * (array[-1] - array[0]))  # 1 / width, a density, would overflow
    if np.diff(array).min() < least:
        advice = "rescale the variable, clip the far values, or set them to NaN if they are errors"
        raise InvalidInputError(f"A bin of variable {shown(name)} is narrower than {least:.1e}; {advice}.")
    return array


def plain_edges(edges: Sequence[Any]) -> dict[int, np.ndarray]:
    """Read-only copies of those edges, by position, that are arrays like the first and valid; all checked at once."""
    chosen = [n for n, each in enumerate(edges) if type(each) is np.ndarray and each.dtype == np.float64]
    chosen = [n for n in chosen if edges[n].ndim == 1 and len(edges[n]) == max(3, len(edges[chosen[0]]))]
    rows = np.array([edges[n] for n in chosen]).reshape(len(chosen), -1 if chosen else 3)
    with np.errstate(over="ignore", invalid="ignore"):
        spans = rows[:, -1] - rows[:, 0]
        are_valid = np.diff(rows, axis=1).min(axis=1) >= np.maximum(_TINY, LEAST_SHARE * spans)
    are_valid &= np.isfinite(rows).all(axis=1) & (spans <= MAX / 2)
    rows.flags.writeable = False
    return {chosen[k]: rows[k] for k in np.flatnonzero(are_valid).tolist()}


def _increasing(numbers: Any, what: str, name: Hashable, fewest: int) -> np.ndarray:
    """Read-only float64 copy of finite numbers in increasing order, at least so many."""
    array = float_array(numbers, what)
    is_vector = array.ndim == 1 and len(array) >= fewest
    if not is_vector or not np.isfinite(array).all() or not (array[1:] > array[:-1]).all():
        advice = "in increasing order. If they were chosen for you, use fewer bins, or subtract an offset and rescale"
        raise InvalidInputError(f"{what} are {shown(numbers)}; expected at least {fewest} finite numbers {advice}.")
    _check_span(float(array[0]), float(array[-1]), name)
    array.flags.writeable = False
    return array
