"""Codes of chunked samples, which stay on the workers, and what is counted of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tensorly_smp._support.randomness import RandomState
from tensorly_smp.chunked.indicators import Indicators, join
from tensorly_smp.chunked.parts import Parts, add_up
from tensorly_smp.chunked.reading import Chunk, ChunkedSamples
from tensorly_smp.codes.binning import Binning
from tensorly_smp.codes.encoding import Codes, encode_samples
from tensorly_smp.codes.values import drop_zero_weight, evenly_spaced
from tensorly_smp.marginals.histograms import (
    MAX_BYTES,
    Marginals,
    check_constant,
    check_coverage,
    count_chunk,
    fitting_triples,
)


@dataclass(frozen=True, eq=False)
class ChunkedCodes:
    """Codes in parts.

    Attributes
    ----------
    parts : Parts of Indicators
        Rows are bins; kept by the workers.
    binning : Binning
    subsample : Codes
        Of evenly spaced samples of positive weight, for starts.
    subsample_weights : ndarray or None
        Weights of these.
    samples : ChunkedSamples
    """

    parts: Parts
    binning: Binning
    subsample: Codes
    subsample_weights: np.ndarray | None
    samples: ChunkedSamples

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.samples.n_samples

    @property
    def n_bins(self) -> tuple[int, ...]:
        """Number of bins of every variable."""
        return self.binning.n_bins

    @property
    def n_variables(self) -> int:
        """Number of variables."""
        return self.binning.n_variables


def encode_chunks(samples: ChunkedSamples, binning: Binning) -> ChunkedCodes:
    """Codes of chunked samples: one pass over them; a byte per entry (two with more than 127 bins) stays.

    Parameters
    ----------
    samples : ChunkedSamples
    binning : Binning
        Of the same variables in the same order.

    Returns
    -------
    ChunkedCodes

    Examples
    --------
    >>> import dask.array as da
    >>> import tensorly_smp as smp
    >>> from tensorly_smp.chunked import encoding, reading
    >>> samples = reading.read_chunks(da.from_array([[0.5, 1, 2], [1.5, 0, 0]], chunks=1))
    >>> codes = encoding.encode_chunks(samples, smp.Binning(([0, 1, 2],) * 3))
    >>> encoding.count_chunks(codes)
    Marginals(1 triples of 3 variables, 2 bins, 2 samples)
    """
    # The rows below, if any, are the extremes.
    n_subsample = len(evenly_spaced(samples.n_samples, binning.n_variables))
    weights = None if samples.subsample_weights is None else samples.subsample_weights[:n_subsample]
    values, subsample_weights = drop_zero_weight(samples.subsample.values[:n_subsample], weights)
    subsample = encode_samples(values, binning)
    parts = samples.parts.map(encode_part, binning).group(samples.groups, join).persist()
    return ChunkedCodes(parts, binning, subsample, subsample_weights, samples)


def encode_part(chunk: Chunk, binning: Binning) -> Indicators:
    """Codes of a part."""
    codes = np.empty(chunk.values.shape, dtype=np.int8)
    if len(chunk.values):
        codes = encode_samples(chunk.values, binning).values
    return Indicators(codes, binning.n_bins, chunk.weights)


def count_chunks(
    codes: ChunkedCodes,
    triples: str | int | Iterable[Sequence[int]] = "all",
    *,
    random_state: RandomState = None,
    max_bytes: float = MAX_BYTES,
) -> Marginals:
    """Marginals of chunked samples: those of the parts, added up.

    Counts of samples are integers, so that without weights the sum is the same to the last bit whatever the chunks.

    Parameters
    ----------
    codes : ChunkedCodes
    triples, random_state, max_bytes
        As for :func:`tensorly_smp.count_marginals`.

    Returns
    -------
    Marginals

    Raises
    ------
    SizeLimitError, InvalidInputError
        As `count_marginals`.
    """
    index = fitting_triples(triples, codes.n_bins, random_state, max_bytes)
    marginals: Marginals = codes.parts.map(count_part, codes.binning, index).reduce(sum)
    check_coverage(marginals)
    warn_of_constant(codes)
    return marginals


def count_part(part: Indicators, binning: Binning, triples: np.ndarray) -> Marginals:
    """Histograms of a part."""
    return count_chunk(part.values, binning, triples, part.weights)


def warn_of_constant(codes: ChunkedCodes) -> None:
    """Warn of variables all of whose samples are in one bin."""
    counts: list[np.ndarray] = codes.parts.map(_bin_counts).reduce(add_up)
    # A few samples with the same filled bins tell the same.
    filled = [np.flatnonzero(count) for count in counts]
    rows = np.full((max(1, max(map(len, filled))), codes.n_variables), -1)
    for n, bins in enumerate(filled):
        rows[: len(bins), n] = bins
    check_constant(Codes(rows, codes.binning))


def _bin_counts(part: Indicators) -> list[np.ndarray]:
    return [
        np.bincount(column[column >= 0], minlength=size) for column, size in zip(part.values.T, part.sizes, strict=True)
    ]
