"""Samples of a fit that are in chunks, with the methods that the likelihood calls."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tensorly_smp.chunked.coupled import decompose_chunks
from tensorly_smp.chunked.encoding import ChunkedCodes
from tensorly_smp.chunked.grid_counts import ChunkedCellSamples
from tensorly_smp.chunked.indicators import expect_parts
from tensorly_smp.chunked.parts import Parts
from tensorly_smp.codes.binning import Binning
from tensorly_smp.codes.thinning import evenly_spaced
from tensorly_smp.decomposition.solution import CoupledSolution
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.fitting.coupled_stage import Decomposition
from tensorly_smp.fitting.fit_samples import SamplesInMemory, in_memory
from tensorly_smp.likelihood.bin_likelihood import BinLikelihood
from tensorly_smp.likelihood.cells import Cells
from tensorly_smp.likelihood.em import LikelihoodSolution, raise_likelihood
from tensorly_smp.likelihood.expectation import Expectation


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
        """EM on the bins; options as of :func:`tensorly_smp.likelihood.em.refine_em`."""
        samples = self.codes.samples
        likelihood = ChunkedLikelihood(
            n_samples=samples.n_samples,
            pseudo_count=smoothing * samples.n_samples / samples.total_weight,
            n_bins=self.codes.n_bins,
            parts=self.codes.parts,
            average=samples.total_weight / samples.n_samples,
        )
        return raise_likelihood(likelihood, factors, self.codes.binning, **options)


@dataclass(frozen=True, eq=False)
class ChunkedLikelihood(BinLikelihood):
    """The likelihood of chunked codes.

    Attributes
    ----------
    parts : Parts of Indicators
    average : float
        Weight of a sample, by which all sums are divided.
    """

    parts: Parts
    average: float

    def e_step(self, logs: np.ndarray) -> Expectation:
        """The E-step, with weights that are one on average."""
        found = expect_parts(self.parts, logs[-1], logs[:-1])
        if self.average == 1.0:
            return found
        sums = (found.log_likelihood, found.counts, found.component_counts)
        return Expectation(found.posterior, *(value / self.average for value in sums))  # type: ignore[arg-type]
