"""Samples of a fit, as they were read and in bins, a list of parts; and kinds, bounds and bins of their variables."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tensorly_smp._support.checks import RandomState, is_among, warn
from tensorly_smp._support.parallel import OnePart, Parts, is_chunked
from tensorly_smp._support.representations import joined, listed, shown
from tensorly_smp.codes.binning import Binning, binning_of_values, checked_values, quantile_edges
from tensorly_smp.codes.encoding import Codes, PackedIndicators, one_hot
from tensorly_smp.densities.mixture_density import MixtureDensity
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError, MergedBinsWarning, RepeatedValueWarning
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.likelihood.bins import LikelihoodSolution, parts_in_bins, refine_on_bins, samples_in_bins
from tensorly_smp.likelihood.cells import Cells
from tensorly_smp.likelihood.observed import Support, are_few, atoms, discrete_variables, distinct_values
from tensorly_smp.likelihood.observed import distinct_values as distinct
from tensorly_smp.likelihood.steps import CellPart, CellSamples, Expectation, expectation, join_parts, log_floored
from tensorly_smp.marginals.histograms import (
    MAX_BYTES,
    Marginals,
    check_constant,
    check_coverage,
    count_chunk,
    fitting_triples,
)
from tensorly_smp.samples.codebook import ValueLabels
from tensorly_smp.samples.labels import SampleLabels
from tensorly_smp.samples.parts import Chunk, layout_of, read_parts, survey_parts
from tensorly_smp.samples.reading import NO_LABELS, Samples, label_refusal, read_samples
from tensorly_smp.samples.values import (
    bin_indices,
    crowded_variables,
    drop_zero_weight,
    evenly_spaced,
    merge_equal_rows,
    observed_values,
    representative,
    stretched_ranges,
    subsample_evenly,
)

#: Share of the uniform distribution in what a coupled CPD hands over: it leaves exact zeros, and EM cannot leave them.
MIXING = 0.01
#: Pseudo-counts per bin of EM on the bins; see `refine_em`.
EM_SMOOTHING = 0.1
#: Codes of parts with fewer samples than this are put together: what comes back from a part at every step is as large
#: as the codes of some ten thousand samples, whatever the number of variables.
PART_ROWS = 2**14
#: And so many that there are no more parts than about this number, each of which takes the scheduler a millisecond or
#: more at every step.
MOST_PARTS = 512


@dataclass(frozen=True, eq=False)
class ReadSamples:
    """Samples of a fit as they were read. Make them with :meth:`of`.

    Attributes
    ----------
    parts : OnePart or Parts of Chunk
        All samples; those of chunks are not kept, and every use reads them anew.
    sizes : tuple of int
        Samples of every part.
    total_weight : float
        Sum of the weights; the number of samples without.
    container : str
        Kind of object that they came in.
    different : OnePart or Parts of Chunk
        In memory, and of few samples in chunks, equal samples as one; see
        :func:`tensorly_smp.samples.values.merge_equal_rows`.
    subsample : Samples
        All different ones, or evenly spaced ones and the extremes, that bins and cells are chosen by; see
        :mod:`tensorly_smp.samples.values`.
    subsample_weights : ndarray or None

    Examples
    --------
    >>> import dask.array as da
    >>> from tensorly_smp.fitting.fit_samples import ReadSamples
    >>> samples = ReadSamples.of(da.random.default_rng(0).normal(size=(1000, 3), chunks=(300, 2)))
    >>> samples.n_samples, samples.variables
    (1000, ('x0', 'x1', 'x2'))
    """

    parts: OnePart | Parts
    sizes: tuple[int, ...]
    total_weight: float
    container: str
    different: OnePart | Parts
    subsample: Samples
    subsample_weights: np.ndarray | None

    @classmethod
    def of(
        cls,
        X: Any,
        sample_weight: Any = None,
        variables: Sequence[Hashable] | None = None,
        sample_dim: Hashable | None = None,
        value_labels: Mapping[Hashable, ValueLabels] | None = NO_LABELS,
    ) -> ReadSamples:
        """Read samples of any kind, those in chunks by one pass, or by two where the sizes of chunks are not known.

        Parameters
        ----------
        X : array_like, DataFrame, DataArray or Dataset, dask array or dask DataFrame (n_samples, n_variables)
            As for :func:`tensorly_smp.samples.reading.read_samples`; a DataArray or Dataset may have dask's arrays.
        sample_weight : array_like, dask array or dask Series (n_samples,), optional
            Where the sizes of chunks are not known, a chunked one needs the same chunks as X.
        variables, sample_dim, value_labels
            As for `read_samples`.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            As `read_samples`, or weights that are of no use.
        """
        parts: OnePart | Parts
        if is_chunked(X):
            layout = layout_of(X, variables, sample_dim, value_labels)
            parts, sizes = read_parts(layout, sample_weight)
            subsample, weights, total = survey_parts(parts, sizes, layout.variables)
            samples = _unlabelled(subsample, layout.variables, layout.value_labels)
            container = layout.labels.container
        else:
            samples = read_samples(X, variables, sample_dim, value_labels)
            weights = samples.aligned_weights(sample_weight)
            parts = OnePart(Chunk(samples.values, weights))
            sizes = (len(samples.values),)
            total = float(sizes[0] if weights is None else weights.sum())
            container = samples.labels.container
        different = parts
        n_samples = sum(sizes)
        if isinstance(parts, OnePart) or len(evenly_spaced(n_samples, len(samples.variables))) == n_samples:
            merged = Chunk(*merge_equal_rows(samples.values, weights))
            different = OnePart(merged)
            values, weights = representative(merged.values, merged.weights)
            if values is not samples.values:
                samples = _unlabelled(values, samples.variables, samples.value_labels)
        return cls(parts, sizes, total, container, different, samples, weights)

    @property
    def variables(self) -> tuple[Hashable, ...]:
        """Names of the variables."""
        return self.subsample.variables

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return sum(self.sizes)

    @property
    def groups(self) -> list[list[int]]:
        """Neighboring parts whose codes are put together."""
        found: list[list[int]] = []
        least = filled = max(PART_ROWS, -(-self.n_samples // MOST_PARTS))
        for i, size in enumerate(self.sizes):
            if filled >= least:
                found.append([])
                filled = 0
            found[-1].append(i)
            filled += size
        return found

    def distinct_values(self, positions: Sequence[int]) -> list[np.ndarray]:
        """Distinct values (n_values,), but for rounding, of some of the variables in all samples."""
        if not positions:
            return []
        found: list[np.ndarray] = self.different.map(_distinct_of_part, positions).reduce(_merged)
        return found

    def encode(self, binning: Binning) -> FitSamples:
        """The samples in bins: one pass over them; of chunks, a byte an entry stays (two with more than 127 bins)."""
        some = in_memory(self.subsample.values, binning, self.subsample_weights)
        if isinstance(self.different, OnePart) and self.different.piece.values is self.subsample.values:
            return some
        coded = self.different.map(_encode_part, binning).group(self.groups, join_parts).persist()
        return FitSamples(binning, self.different, coded, self.n_samples, self.groups, some)

    def count(self, binning: Binning, triples: np.ndarray) -> Marginals:
        """Marginals of these triples (n_triples, 3), to be added to those of other samples."""
        marginals: Marginals = self.parts.map(_encode_part, binning).map(_count_part, binning, triples).reduce(sum)
        return marginals

    def clusters(self, density: MixtureDensity) -> tuple[Any, np.ndarray | None]:
        """Most probable component of every sample, of chunks as a dask array that is not computed yet.

        With them come the posteriors, if they are those of the subsample too.
        """
        if not isinstance(self.parts, OnePart):
            import dask.array as da

            found = self.parts.map(_clusters_of_part, density)
            pieces = zip(found.pieces, self.sizes, strict=True)
            return da.concatenate([da.from_delayed(piece, (size,), np.int64) for piece, size in pieces]), None
        values = self.parts.piece.values
        posterior = density.posterior(values)
        return posterior.argmax(axis=1), posterior if self.subsample.values is values else None


def _unlabelled(
    values: np.ndarray, variables: tuple[Hashable, ...], value_labels: Mapping[Hashable, ValueLabels]
) -> Samples:
    return Samples(values, variables, SampleLabels(len(values), tuple(range(values.shape[1]))), value_labels)


def _distinct_of_part(chunk: Chunk, positions: Sequence[int]) -> list[np.ndarray]:
    counted = chunk.values if chunk.weights is None else chunk.values[chunk.weights > 0]
    return distinct_values(counted, positions)


def _merged(found: Sequence[list[np.ndarray]]) -> list[np.ndarray]:
    """Values of several parts as one list for every variable."""
    if len(found) == 1:
        return found[0]
    return [distinct_values(np.concatenate(lists)[:, None], (0,))[0] for lists in zip(*found, strict=True)]


def _clusters_of_part(chunk: Chunk, density: MixtureDensity) -> np.ndarray:
    return density.posterior(chunk.values).argmax(axis=1) if len(chunk.values) else np.empty(0, dtype=np.int64)


def _encode_part(chunk: Chunk, binning: Binning) -> CellPart:
    """Codes of a part."""
    return CellPart(PackedIndicators(bin_indices(chunk.values, binning.edges), binning.n_bins), chunk.weights)


def _count_part(part: CellPart, binning: Binning, triples: np.ndarray) -> Marginals:
    """Histograms of a part."""
    return count_chunk(part.membership.values, binning, triples, part.weights)


def _ends_of_part(part: CellPart) -> np.ndarray:
    return _ends_of_codes([part.membership.values])


def _ends_of_codes(found: Sequence[np.ndarray]) -> np.ndarray:
    """Lowest and highest code (2, n_variables) of every variable, -1 where there is none."""
    codes = np.concatenate(found)
    highest = codes.max(axis=0, initial=-1)
    return np.stack([np.vstack([np.where(codes < 0, highest, codes), highest]).min(axis=0), highest])


@dataclass(frozen=True, eq=False)
class FitSamples:
    """Samples of a fit in bins that have been chosen.

    Attributes
    ----------
    binning : Binning
    parts : OnePart or Parts of Chunk
    coded : OnePart or Parts of CellPart
        In the bins, packed; kept where they are.
    n_samples : int
    groups : list of list of int
        Neighboring parts that are put together.
    some : FitSamples, optional
        Those that cells are chosen by and starts compared on, in memory, if these are not all.
    """

    binning: Binning
    parts: OnePart | Parts
    coded: OnePart | Parts
    n_samples: int
    groups: Sequence[Sequence[int]] = ()
    some: FitSamples | None = None

    @property
    def subsample(self) -> FitSamples:
        """The samples, in memory, that cells are chosen by and starts compared on: all, or some of many."""
        return self if self.some is None else self.some

    @property
    def is_complete(self) -> bool:
        """True if the subsample has all samples."""
        return self.some is None

    @property
    def is_in_memory(self) -> bool:
        """True if there is one part, with `values`, `codes` and `weights`."""
        return isinstance(self.parts, OnePart)

    @property
    def values(self) -> np.ndarray:
        """Values (n_samples, n_variables) in memory; NaN = missing."""
        return self.parts.gather()[0].values  # type: ignore[no-any-return]

    @property
    def weights(self) -> np.ndarray | None:
        """Weights (n_samples,) in memory."""
        return self.parts.gather()[0].weights  # type: ignore[no-any-return]

    @cached_property
    def codes(self) -> Codes:
        """Bins of the samples in memory."""
        return Codes(self.coded.gather()[0].membership.values, self.binning)

    def thinned(self) -> tuple[Codes, np.ndarray | None]:
        """Codes of evenly spaced samples of positive weight, and their weights."""
        if self.is_in_memory:
            values, weights = subsample_evenly(self.codes.values, self.weights)
        else:
            # The rows below, if any, are the extremes.
            kept = slice(len(evenly_spaced(self.n_samples, len(self.binning.n_bins))))
            own = self.subsample.weights
            values, weights = drop_zero_weight(self.subsample.codes.values[kept], None if own is None else own[kept])
        return Codes(values, self.binning), weights

    def count(self, triples: Any, random_state: RandomState) -> Marginals:
        """Marginals, as :func:`tensorly_smp.count_marginals` counts them: those of the parts, added up.

        Counts of samples are integers, so that without weights the sum is the same to the last bit whatever the chunks.
        """
        index = fitting_triples(triples, self.binning.n_bins, random_state, MAX_BYTES)
        marginals: Marginals = self.coded.map(_count_part, self.binning, index).reduce(sum)
        check_coverage(marginals)
        ends = self.coded.map(_ends_of_part).reduce(_ends_of_codes)
        check_constant(Codes(ends, self.binning))
        return marginals

    def assign_to_grid(self, cells: Cells) -> CellSamples:
        """The samples in cells: one pass over them."""
        if self.is_in_memory:
            return CellSamples.assign_to_grid(self.values, cells, self.weights)
        return CellSamples.of_parts(self.parts.map(_in_cells, cells).group(self.groups, join_parts).persist(), cells)

    def expect(self, factors: MixtureFactors) -> Expectation:
        """E-step in memory with given factors, a little of the uniform distribution being mixed in."""
        return expectation(one_hot(self.codes), *start_logarithms(factors), self.weights)

    def refine_em(self, factors: MixtureFactors, *, smoothing: float = 0.0, **options: Any) -> LikelihoodSolution:
        """EM on the bins; options as of :func:`tensorly_smp.likelihood.bins.refine_on_bins`."""
        if self.is_in_memory:
            samples = samples_in_bins(self.codes, self.weights, smoothing)
        else:
            samples = parts_in_bins(self.coded, self.binning, smoothing)
        return refine_on_bins(samples, factors, self.binning, **options)


def _in_cells(chunk: Chunk, cells: Cells) -> CellPart:
    return CellPart.packed(chunk.values, chunk.weights, cells)


def in_memory(values: np.ndarray, binning: Binning, weights: np.ndarray | None) -> FitSamples:
    """Samples (n_samples, n_variables) in bins."""
    chunk = Chunk(values, weights)
    return FitSamples(binning, OnePart(chunk), OnePart(_encode_part(chunk, binning)), len(values))


def start_logarithms(start: MixtureFactors) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of the weights (rank,) and of the stacked factors (n_rows, rank) that a likelihood starts from."""
    model = start.to_numpy().smooth(MIXING, MIXING)
    return np.log(model.weights), log_floored(np.concatenate(model.factors))


# ---- kinds, bounds and bins of the variables ----

_SHOWN = 5
#: More values of text or categories than this, or than half the rows, are names of the rows or free text.
MOST_LABELS = 100


@dataclass(frozen=True)
class Variables:
    """Bounds and kinds of the variables of some samples.

    Attributes
    ----------
    support : tuple of (low, high)
        Bounds of every variable; None where there is none.
    values : dict from int to ndarray (n_values,)
        Values of the discrete variables, by their positions.
    """

    support: tuple[Support, ...]
    values: dict[int, np.ndarray]

    @property
    def discrete(self) -> tuple[int, ...]:
        """Positions of the discrete variables."""
        return tuple(sorted(self.values))

    @classmethod
    def of(
        cls,
        samples: Samples,
        support: Any = None,
        discrete: Any = None,
        sample_weight: np.ndarray | None = None,
        *,
        binning: Any = None,
        detects: bool = True,
        distinct_values: Callable[[Sequence[int]], list[np.ndarray]] | None = None,
    ) -> Variables:
        """Read the estimator's parameters `support` and `discrete`; if the latter is None, the samples tell.

        Discrete are also text and categories, constant variables, unless nothing but declarations `detects` them, and
        those of which the `binning`, if it is one, knows the values. `discrete` may map names to values.
        `distinct_values` gives the values of all samples, by the positions of the variables, where `samples` are only
        some.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            Unknown names, or bounds that the values do not respect.
        """
        if not isinstance(support, Mapping | None):
            raise InvalidTypeError(f"support is {type(support).__name__}; expected a mapping {{name: (low, high)}}.")
        bounds: list[Support] = [(None, None)] * len(samples.variables)
        for name, pair in (support or {}).items():
            n = _position(name, samples.variables, "support")
            bounds[n] = _checked_bounds(name, pair, samples.values[:, n])
        try:
            if isinstance(discrete, str | bytes):
                raise TypeError
            declared = {
                _position(name, samples.variables, "discrete") for name in (() if discrete is None else discrete)
            }
        except TypeError as error:
            raise InvalidTypeError(
                f"discrete is {shown(discrete)}; expected a list of names, a mapping from names to values, or None."
            ) from error
        declared |= _check_labelled(samples, sample_weight)
        known = binning.discrete if isinstance(binning, Binning) else {}
        if isinstance(discrete, Mapping):
            known = known | {
                samples.variables.index(name): checked_values(each, name) for name, each in discrete.items()
            }
        looking = discrete_variables(samples.values, sample_weight, discrete is not None) if detects else ()
        positions = sorted({*declared, *looking} - known.keys())
        if distinct_values is None:
            found = distinct(samples.values, positions, sample_weight)
        else:
            found = distinct_values(positions)
        # Those that seemed to be discrete may have many values among all samples.
        kept = {n: each for n, each in zip(positions, found, strict=True) if n in declared or are_few(each)}
        return cls(tuple(bounds), known | {n: each for n, each in kept.items() if len(each)})


def _check_labelled(samples: Samples, sample_weight: np.ndarray | None) -> set[int]:
    """Positions of the variables of text or categories; those of too many values are refused."""
    total = len(samples.values) if sample_weight is None else sample_weight.sum()
    labelled = [n for n, name in enumerate(samples.variables) if name in samples.value_labels]
    for n in labelled:
        column = samples.values[:, n]
        n_values = len(np.unique(column[~np.isnan(column)]))
        name = samples.variables[n]
        what = f", of {n_values} values in {total:g} rows"
        refusal = label_refusal(column, samples.value_labels[name], name, what)
        if refusal and n_values > min(MOST_LABELS, total / 2):
            raise refusal
    return set(labelled)


def repeated_value_warning(
    samples: Samples, discrete: Sequence[int], sample_weight: np.ndarray | None
) -> RepeatedValueWarning | None:
    """A warning of variables with values that many samples share, or some far out; None if there are none."""
    found = atoms(samples.values, discrete, sample_weight)
    if not found:
        return None
    named = [f"{shown(samples.variables[n])} ({_listed_values(shared)})" for n, shared in found.items()]
    return RepeatedValueWarning(
        f"Samples share one value of variable(s) {joined(named, _SHOWN)}: so many, or so far from all others, that no "
        "smooth density explains it, and components may follow it. If it stands for missing, set it to NaN. If it "
        "means something (no rain, a limit of detection), say where it is in a variable of its own, of zeros and ones, "
        "and set it to NaN then. Counts can be named in discrete.",
        variables=[samples.variables[n] for n in found],
    )


def _listed_values(shared: Sequence[tuple[float, float]]) -> str:
    """Values and their shares in words."""
    percents = [f"{100 * share:.0f}" if share >= 0.1 else f"{100 * share:.2g}" for _, share in shared]
    return joined([f"{p} % are {value:.6g}" for (value, _), p in zip(shared, percents, strict=True)], _SHOWN)


def _position(name: Any, variables: Sequence[Hashable], parameter: str) -> int:
    if not is_among(name, variables):
        raise InvalidInputError(f"{parameter} names {shown(name)}; expected variables among {listed(variables)}.")
    return list(variables).index(name)


def _checked_bounds(name: Any, pair: Any, values: np.ndarray) -> Support:
    """Bounds that are in order, and that the values respect."""
    try:
        low, high = (None if bound is None else float(bound) for bound in pair)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise InvalidTypeError(
            f"support of {shown(name)} is {shown(pair)}; expected (low, high), each a number or None."
        ) from error
    if any(bound is not None and not np.isfinite(bound) for bound in (low, high)):
        raise InvalidInputError(
            f"support of {shown(name)} is {shown(pair)}; expected finite bounds, or None for no bound."
        )
    observed = values[~np.isnan(values)]
    if not len(observed):
        return low, high  # which is for the choice of bins to refuse
    least = observed.min()
    most = observed.max()
    if (low is not None and least < low) or (high is not None and most > high) or (low is not None and low == high):
        raise InvalidInputError(
            f"support of {shown(name)} is {shown(pair)}, but its values reach from {least:.6g} to {most:.6g}; "
            "expected bounds that contain them."
        )
    return low, high


def choose_bins(
    samples: Samples,
    sample_weight: Any,
    variables: Variables | None,
    n_bins: int | Sequence[int] | Mapping[Any, int],
    binning: str | Binning,
    *,
    is_start: bool = False,
    must_be_uniform: bool = False,
) -> Binning:
    """Bins of all variables, in the order of the samples; values of discrete ones, where these are known.

    Parameters
    ----------
    samples : Samples
    sample_weight : ndarray (n_samples,) or None
    variables : Variables, optional
    n_bins, binning
        As of the estimator.
    is_start : bool
        Whether a refinement starts on them. It has cells of its own, which reach to far values. Bins of a start need
        not: with far values, uniform bins span the central ones only, and where nearly all values would share a few
        bins even so, bins are quantiles.
    must_be_uniform : bool
        Whether they stay uniform even so, because densities are made of them.
    """
    names = binning.variables if isinstance(binning, Binning) else samples.variables
    discrete = {names[n]: each for n, each in variables.values.items()} if variables else {}
    if isinstance(binning, Binning):
        return binning if variables is None else replace(binning, values=discrete)
    used, weights = drop_zero_weight(samples.values, sample_weight)
    ranges = None
    if is_start and binning == "uniform":
        central = {samples.variables[n]: pair for n, pair in stretched_ranges(used, weights).items()}
        ranges = {name: pair for name, pair in central.items() if name not in discrete}
    # Far values have cells of their own, and of how many bins starts are made is no concern of the user.
    settings = n_bins, binning, ranges, None, weights, discrete, not is_start
    chosen, caught = binning_of_values(used, samples.variables, *settings)
    for each in caught:
        if not is_start or not isinstance(each, MergedBinsWarning):
            warn(each)
    if not is_start or must_be_uniform or binning != "uniform":
        return chosen
    edges = list(chosen.edges)
    for n in crowded_variables(used, edges, weights):
        if samples.variables[n] not in discrete:
            observed, own = observed_values(used[:, n], weights)
            ends = float(observed.min()), float(observed.max())
            edges[n] = quantile_edges(observed, *ends, len(edges[n]) - 1, own)
            chosen = replace(chosen, edges=tuple(edges), strategy="given")
    return chosen
