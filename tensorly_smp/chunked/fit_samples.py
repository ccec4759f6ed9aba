"""What the likelihood asks of the samples of a fit, where they are in chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorly_smp.chunked.coding import ChunkedCodes, encode_chunks
from tensorly_smp.chunked.decomposing import decompose_chunks
from tensorly_smp.chunked.indicators import AnyIndicators, ChunkedPosterior, blocks, expect_parts
from tensorly_smp.chunked.laying import ChunkedCellSamples
from tensorly_smp.chunked.parts import Parts
from tensorly_smp.chunked.reading import ChunkedSamples
from tensorly_smp.codes.binning import Binning
from tensorly_smp.decomposition import Decomposition
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.factors.solution import CoupledSolution
from tensorly_smp.fit_samples import SAME_CLUSTERS, contingency, distinct_clusters, start_logarithms
from tensorly_smp.likelihood.bin_likelihood import BinLikelihood
from tensorly_smp.likelihood.cells import Cells
from tensorly_smp.likelihood.em import LikelihoodSolution, raise_likelihood
from tensorly_smp.likelihood.expectation import Expectation, log_joint


@dataclass(frozen=True, eq=False)
class SamplesInChunks:
    """The samples on the workers.

    Attributes
    ----------
    codes : ChunkedCodes
    """

    codes: ChunkedCodes

    @classmethod
    def encode(cls, samples: ChunkedSamples, binning: Binning) -> SamplesInChunks:
        """The samples in bins."""
        return cls(encode_chunks(samples, binning))

    @property
    def binning(self) -> Binning:
        """The bins."""
        return self.codes.binning

    @property
    def few(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Values and weights of the samples that the cells are chosen by."""
        return self.codes.samples.few.values, self.codes.samples.few_weights

    def posteriors(self, starts: Sequence[MixtureFactors]) -> list[ChunkedPosterior]:
        """Posteriors for every start, a little of the uniform distribution being mixed in."""
        return [ChunkedPosterior(self.codes.parts, *start_logarithms(start)) for start in starts]

    def distinct(self, posteriors: Sequence[ChunkedPosterior], same: float = SAME_CLUSTERS) -> list[int]:
        """Positions of the first of all whose most probable components agree, to this adjusted Rand index."""
        if len(posteriors) == 1:
            return [0]
        logs = [(posterior.log_weights, posterior.log_tables) for posterior in posteriors]
        # All are of the same parts: of the codes, or of cells.
        tables = posteriors[0].parts.map(_contingencies, logs).reduce(_add_tables)
        return distinct_clusters(len(posteriors), lambda i, j: tables[i, j], same)

    def lay(self, cells: Cells) -> ChunkedCellSamples:
        """The samples in cells."""
        return ChunkedCellSamples.lay(self.codes.samples, cells)

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


def _contingencies(part: AnyIndicators, logs: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Tables (n_starts, n_starts, rank, rank) of every start with every later one."""
    n_starts, rank = len(logs), len(logs[0][0])
    tables = np.zeros((n_starts, n_starts, rank, rank), dtype=np.int64 if part.weights is None else np.float64)
    for rows in blocks(part.n_samples):
        hot = part.hot(rows)
        clusters = [log_joint(hot, *each).argmax(axis=1) for each in logs]
        weights = None if part.weights is None else part.weights[rows]
        for j in range(n_starts):
            for i in range(j):
                tables[i, j] += contingency(clusters[i], clusters[j], rank, weights)
    return tables


def _add_tables(tables: list[np.ndarray]) -> np.ndarray:
    return np.asarray(sum(tables[1:], tables[0]))
