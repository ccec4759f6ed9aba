"""Samples of a fit that are in chunks, with the methods that the likelihood calls."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tensorly_smp.chunked.coupled import decompose_chunks
from tensorly_smp.chunked.encoding import ChunkedCodes
from tensorly_smp.chunked.grid_counts import ChunkedCellSamples, overall_weight
from tensorly_smp.chunked.parts import add_up
from tensorly_smp.codes.binning import Binning
from tensorly_smp.codes.values import evenly_spaced
from tensorly_smp.decomposition.solution import CoupledSolution
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.fitting.coupled_stage import Decomposition
from tensorly_smp.fitting.fit_samples import SamplesInMemory, in_memory
from tensorly_smp.likelihood.cells import Cells, bin_cells
from tensorly_smp.likelihood.em import LikelihoodSolution, refine_on_bins
from tensorly_smp.likelihood.steps import with_prior_of_values


@dataclass(frozen=True, eq=False)
class SamplesInChunks:
    """The samples on the workers.

    Attributes
    ----------
    codes : ChunkedCodes
    """

    codes: ChunkedCodes

    @property
    def binning(self) -> Binning:
        """The bins."""
        return self.codes.binning

    @cached_property
    def subsample(self) -> SamplesInMemory:
        """The samples that cells are chosen by and starts compared on: all, or some of many."""
        return in_memory(self.codes.samples.subsample.values, self.binning, self.codes.samples.subsample_weights)

    @property
    def is_complete(self) -> bool:
        """True if the subsample is all of the samples."""
        n_samples = self.codes.samples.n_samples
        return len(evenly_spaced(n_samples, len(self.codes.n_bins))) == n_samples

    def assign_to_grid(self, cells: Cells) -> ChunkedCellSamples:
        """The samples in cells."""
        return ChunkedCellSamples.assign_to_grid(self.codes.samples, cells)

    def decompose(self, decomposition: Decomposition) -> CoupledSolution:
        """The coupled CPD."""
        return decompose_chunks(decomposition, self.codes)

    def refine_em(self, factors: MixtureFactors, *, smoothing: float = 0.0, **options: Any) -> LikelihoodSolution:
        """EM on the bins; options as of :func:`tensorly_smp.likelihood.em.refine_on_bins`."""
        cells = bin_cells(self.codes.n_bins)
        samples = ChunkedCellSamples(
            cells=cells,
            prior=np.full((int(cells.offsets[-1]), 1), smoothing),
            log_volume=0.0,
            total_weight=self.codes.samples.total_weight,
            parts=self.codes.parts,
        )
        if smoothing and self.binning.discrete:
            overall, _ = self.codes.parts.map(overall_weight, int(cells.offsets[-1])).reduce(add_up)
            samples = with_prior_of_values(samples, self.binning.discrete, overall)
        return refine_on_bins(samples, factors, self.codes.binning, **options)
