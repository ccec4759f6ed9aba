"""Chunked samples on the cells of smooth densities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, vstack

from tensorly_smp.chunked.indicators import (
    AnyIndicators,
    ChunkedPosterior,
    Indicators,
    SharedIndicators,
    blocks,
    expect_parts,
    join,
)
from tensorly_smp.chunked.parts import Parts, add_up
from tensorly_smp.chunked.reading import Chunk, ChunkedSamples
from tensorly_smp.likelihood.cells import Cells
from tensorly_smp.likelihood.steps import CellStatistics, Expectation, effective_weights, prior_counts


@dataclass(frozen=True, eq=False)
class ChunkedCellSamples(CellStatistics):
    """Samples in cells, which stay on the workers. Make them with :meth:`assign_to_grid`.

    Attributes
    ----------
    parts : Parts of Indicators
        Two bytes an entry; twelve bytes and more for each of those that are spread over cells, if any variable is
        rounded more coarsely than its cells.
    """

    parts: Parts

    @classmethod
    def assign_to_grid(cls, samples: ChunkedSamples, cells: Cells) -> ChunkedCellSamples:
        """Samples in cells: one pass over them."""
        parts = samples.parts.map(_assign_part, cells).group(samples.groups, join).persist()
        overall, total = parts.map(overall_weight, int(cells.offsets[-1])).reduce(add_up)
        return cls(
            cells=cells,
            prior=prior_counts(cells, overall),
            log_volume=float(overall @ cells.log_widths),
            total_weight=total,
            parts=parts,
        )

    def counts_from_posterior(self, posterior: ChunkedPosterior) -> Expectation:
        """Result of the E-step that these posteriors are from."""
        return Expectation(posterior, np.nan, posterior.counts, posterior.component_counts)  # type: ignore[arg-type]

    def e_step(self, log_weights: np.ndarray, log_tables: np.ndarray) -> Expectation:
        """E-step with log-probabilities (rank,) of the components and (n_rows, rank) of the cells."""
        return expect_parts(self.parts, log_weights, log_tables)


def _assign_part(chunk: Chunk, cells: Cells) -> AnyIndicators:
    weights: np.ndarray | None = effective_weights(chunk.values, chunk.weights)
    if weights is not None and (weights == 1.0).all():
        weights = None
    if cells.resolution.any():
        matrices = [cells.membership(chunk.values[rows]) for rows in blocks(len(chunk.values))]
        return SharedIndicators(csr_array(vstack(matrices) if matrices else (0, int(cells.offsets[-1]))), weights)
    blocked = [cells.positions(chunk.values[rows]) for rows in blocks(len(chunk.values))]
    found = np.concatenate(blocked) if blocked else cells.positions(chunk.values)
    return Indicators(found, tuple(np.diff(cells.offsets).tolist()), weights)


def overall_weight(part: AnyIndicators, n_rows: int) -> tuple[np.ndarray, float]:
    """Weight of the samples in every cell, and of all of them."""
    weights = np.ones(part.n_samples) if part.weights is None else part.weights
    total = float(weights.sum())
    if isinstance(part, SharedIndicators):
        return part.matrix.T @ weights, total
    counts = np.zeros(n_rows)
    start = 0
    for column, size in zip(part.values.T, part.sizes, strict=True):
        kept = column >= 0
        counts[start : start + size] = np.bincount(column[kept], weights[kept], minlength=size)
        start += size
    return counts, total
