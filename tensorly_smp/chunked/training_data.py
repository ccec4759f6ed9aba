"""The door through which the estimator reads samples, in memory or in chunks; and its form for chunks."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from tensorly_smp.chunked.encoding import count_part, encode_chunks, encode_part
from tensorly_smp.chunked.fit_samples import SamplesInChunks
from tensorly_smp.chunked.prediction import clusters_of_parts
from tensorly_smp.chunked.reading import Chunk, ChunkedSamples, is_chunked, read_chunks
from tensorly_smp.codes.binning import Binning
from tensorly_smp.densities.mixture_density import MixtureDensity
from tensorly_smp.fitting.fit_samples import ReadSamples
from tensorly_smp.likelihood.observed import Observed, distinct_values
from tensorly_smp.marginals.histograms import Marginals
from tensorly_smp.samples.value_labels import ValueLabels


def read_training_data(
    X: Any,
    sample_weight: Any,
    variables: Sequence[Hashable] | None,
    sample_dim: Hashable | None,
    value_labels: Mapping[Hashable, ValueLabels] | None,
) -> ReadSamples | ReadChunks:
    """The samples of a fit, in memory or in chunks; parameters as of `read_samples`."""
    kind = ReadChunks if is_chunked(X) else ReadSamples
    return kind.of(X, sample_weight, variables, sample_dim, value_labels)


class ReadChunks(ChunkedSamples):
    """Chunked samples that were read once; the counterpart of `ReadSamples`, which are in memory."""

    @classmethod
    def of(
        cls,
        X: Any,
        sample_weight: Any,
        variables: Sequence[Hashable] | None,
        sample_dim: Hashable | None,
        value_labels: Mapping[Hashable, ValueLabels] | None,
    ) -> ReadChunks:
        """The samples after one pass over them, as :func:`read_chunks` makes it."""
        return cls(**vars(read_chunks(X, sample_weight, variables, sample_dim, value_labels)))

    def distinct_values(self, positions: Sequence[int]) -> list[np.ndarray]:
        """Distinct values (n_values,), but for rounding, of some of the variables in all samples, by a pass over it."""
        if len(self.subsample.values) == self.n_samples:
            return distinct_values(self.subsample.values, positions, self.subsample_weights)
        if not positions:
            return []
        found: list[np.ndarray] = self.parts.map(_distinct_of_part, positions).reduce(_merged)
        return found

    def encode(self, binning: Binning) -> SamplesInChunks:
        """The samples in bins."""
        return SamplesInChunks(encode_chunks(self, binning))

    def count(self, binning: Binning, triples: np.ndarray) -> Marginals:
        """Marginals of these triples (n_triples, 3), to be added to those of other samples."""
        marginals: Marginals = self.parts.map(encode_part, binning).map(count_part, binning, triples).reduce(sum)
        return marginals

    def clusters(self, density: MixtureDensity) -> tuple[Any, None]:
        """Most probable component of every sample, a dask array (n_samples,) not computed yet; no posteriors."""
        return clusters_of_parts(self.parts, self.sizes, density), None


def _distinct_of_part(chunk: Chunk, positions: Sequence[int]) -> list[np.ndarray]:
    counted = chunk.values if chunk.weights is None else chunk.values[chunk.weights > 0]
    return distinct_values(counted, positions)


def _merged(found: Sequence[list[np.ndarray]]) -> list[np.ndarray]:
    """Values of several parts as one list for every variable."""
    return [Observed.of(np.concatenate(lists), None).distinct for lists in zip(*found, strict=True)]
