"""Samples of a fit, as they were read and in bins: a list of parts; in memory there is one."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tensorly_smp._support.checks import RandomState
from tensorly_smp._support.parallel import OnePart, Parts, is_chunked
from tensorly_smp.chunked.prediction import clusters_of_parts
from tensorly_smp.chunked.reading import Chunk, layout_of, read_parts, survey_parts
from tensorly_smp.codes.binning import Binning
from tensorly_smp.codes.encoding import Codes, PackedIndicators, encode_samples, one_hot
from tensorly_smp.codes.values import (
    drop_zero_weight,
    evenly_spaced,
    merge_equal_rows,
    representative,
    subsample_evenly,
)
from tensorly_smp.densities.mixture_density import MixtureDensity
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.likelihood.cells import Cells
from tensorly_smp.likelihood.em import LikelihoodSolution, parts_in_bins, refine_on_bins, samples_in_bins
from tensorly_smp.likelihood.observed import distinct_values
from tensorly_smp.likelihood.steps import (
    CellPart,
    CellSamples,
    Expectation,
    expectation,
    join_parts,
    log_floored,
)
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
from tensorly_smp.samples.reading import NO_LABELS, Samples, read_samples

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
        :func:`tensorly_smp.codes.values.merge_equal_rows`.
    subsample : Samples
        All different ones, or evenly spaced ones and the extremes, that bins and cells are chosen by; see
        :mod:`tensorly_smp.codes.values`.
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
            return clusters_of_parts(self.parts, self.sizes, density), None
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


def _encode_part(chunk: Chunk, binning: Binning) -> CellPart:
    """Codes of a part."""
    codes = np.empty(chunk.values.shape, dtype=np.int8)
    if len(chunk.values):
        codes = encode_samples(chunk.values, binning).values
    return CellPart(PackedIndicators(codes, binning.n_bins), chunk.weights)


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
        """EM on the bins; options as of :func:`tensorly_smp.likelihood.em.refine_on_bins`."""
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
