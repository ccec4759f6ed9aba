"""Row of stacked tables that every entry picks, in a few bytes, and the E-step over all parts.

An indicator matrix (:func:`tensorly_smp.codes.encoding.one_hot`) takes 12 bytes an entry. What stays on the workers is
the row alone, one or two bytes; the matrix of some samples at a time is made of it where it is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, vstack

from tensorly_smp.chunked.parts import Parts, add_up
from tensorly_smp.codes.encoding import indicator_matrix
from tensorly_smp.likelihood.steps import Expectation, expectation

#: Samples whose indicator matrix is made at a time.
BLOCK = 16384


@dataclass(frozen=True, eq=False)
class Indicators:
    """Rows that the entries of some samples pick, one of every table.

    Attributes
    ----------
    values : ndarray of int (n_samples, n_tables)
        Row in the table, -1 where the entry is missing; perhaps no sample at all.
    sizes : tuple of int (n_tables,)
        Rows of the tables.
    weights : ndarray (n_samples,) or None
        Of the samples.
    """

    values: np.ndarray
    sizes: tuple[int, ...]
    weights: np.ndarray | None

    def __sizeof__(self) -> int:
        # By which Dask decides what to write to disk.
        return int(self.values.nbytes) + (0 if self.weights is None else int(self.weights.nbytes))

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.values)

    def hot(self, rows: slice) -> csr_array:
        """Indicator matrix (n_rows, sum of sizes) of some samples."""
        return indicator_matrix(self.values[rows], self.sizes)


@dataclass(frozen=True, eq=False)
class SharedIndicators:
    """Rows and their shares, where an entry may be spread over several rows of its table.

    Attributes
    ----------
    matrix : csr_array (n_samples, n_rows)
    weights : ndarray (n_samples,) or None
    """

    matrix: csr_array
    weights: np.ndarray | None

    def __sizeof__(self) -> int:
        return int(self.matrix.data.nbytes + self.matrix.indices.nbytes + self.matrix.indptr.nbytes)

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return int(self.matrix.shape[0])

    def hot(self, rows: slice) -> csr_array:
        """Membership matrix of some samples."""
        return self.matrix[rows]


AnyIndicators = Indicators | SharedIndicators


def join(found: list[AnyIndicators]) -> AnyIndicators:
    """Indicators of several parts, one below the other."""
    weights = None
    if any(each.weights is not None for each in found):
        weights = np.concatenate([np.ones(each.n_samples) if each.weights is None else each.weights for each in found])
    if isinstance(found[0], Indicators):
        pieces = [each for each in found if isinstance(each, Indicators)]
        return Indicators(np.concatenate([each.values for each in pieces]), found[0].sizes, weights)
    return SharedIndicators(csr_array(vstack([each.hot(slice(None)) for each in found])), weights)


def blocks(n_samples: int) -> Iterator[slice]:
    """Ranges of samples to go through one after the other."""
    for start in range(0, n_samples, BLOCK):
        yield slice(start, min(start + BLOCK, n_samples))


@dataclass(frozen=True, eq=False)
class ChunkedPosterior:
    """Posteriors of all samples, as what an E-step has counted with them; they themselves are kept nowhere.

    Attributes
    ----------
    counts : ndarray (n_rows, rank)
    component_counts : ndarray (rank,)
    """

    counts: np.ndarray
    component_counts: np.ndarray


def expect_parts(parts: Parts, log_weights: np.ndarray, log_tables: np.ndarray) -> Expectation:
    """The E-step of :func:`tensorly_smp.likelihood.steps.expectation` over all parts.

    The tables travel to the parts, counts of the same size come back.

    Parameters
    ----------
    parts : Parts of Indicators
    log_weights : ndarray (rank,)
    log_tables : ndarray (n_rows, rank)

    Returns
    -------
    Expectation
        With a :class:`ChunkedPosterior`.
    """
    sums = parts.map(_sums_of_part, log_weights, log_tables).reduce(add_up)
    return Expectation(ChunkedPosterior(*sums[1:]), *sums)  # type: ignore[arg-type]


_Sums = tuple[float, np.ndarray, np.ndarray]


def _sums_of_part(part: AnyIndicators, log_weights: np.ndarray, log_tables: np.ndarray) -> _Sums:
    counts = np.zeros(log_tables.shape)
    component_counts = np.zeros(len(log_weights))
    log_likelihood = 0.0
    for rows in blocks(part.n_samples):
        weights = None if part.weights is None else part.weights[rows]
        found = expectation(part.hot(rows), log_weights, log_tables, weights)
        counts += found.counts
        component_counts += found.component_counts
        log_likelihood += found.log_likelihood
    return log_likelihood, counts, component_counts
