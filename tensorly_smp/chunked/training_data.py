"""Chunked samples as the estimator takes them in."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from tensorly_smp.chunked.encoding import count_part, encode_chunks, encode_part
from tensorly_smp.chunked.fit_samples import SamplesInChunks
from tensorly_smp.chunked.prediction import clusters_of_parts
from tensorly_smp.chunked.reading import ChunkedSamples, is_chunked, read_chunks
from tensorly_smp.codes.binning import Binning
from tensorly_smp.densities.mixture_density import MixtureDensity
from tensorly_smp.fitting.fit_samples import ReadSamples
from tensorly_smp.marginals.histograms import Marginals


def read_training_data(
    X: Any, sample_weight: Any, variables: Sequence[Hashable] | None, sample_dim: Hashable | None
) -> ReadSamples | ReadChunks:
    """The samples of a fit, in memory or in chunks; parameters as of `read_samples`."""
    kind = ReadChunks if is_chunked(X) else ReadSamples
    return kind.of(X, sample_weight, variables, sample_dim)


class ReadChunks(ChunkedSamples):
    """Chunked samples that were read once; the counterpart of `ReadSamples`, which are in memory."""

    @classmethod
    def of(
        cls, X: Any, sample_weight: Any, variables: Sequence[Hashable] | None, sample_dim: Hashable | None
    ) -> ReadChunks:
        """The samples after one pass over them, as :func:`read_chunks` makes it."""
        return cls(**vars(read_chunks(X, sample_weight, variables, sample_dim)))

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
