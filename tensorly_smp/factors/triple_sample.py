"""Histograms of single triples counted one after the other, for the few numbers that need them one by one."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np

from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.marginals.triples import resolve_triples

#: Up to so many triples all are counted, else a random part.
MOST_COUNTED = 5000
#: Size of that part: each variable is in it about evenly, and it is the same for the same number of variables.
N_DRAWN = 2000
#: Fewer are drawn where the entries to look at would exceed this.
MOST_ENTRIES = 2e8
FEWEST_DRAWN = 200


@dataclass(frozen=True, eq=False)
class TripleSample:
    """All triples of some variables, or a random part of them, and the samples to count in them.

    Attributes
    ----------
    columns : ndarray of int (n_variables, n_samples)
        Bins, ``n_bins[n]`` where the entry is missing.
    weights : ndarray (n_samples,)
    n_bins : tuple of int
    triples : ndarray of int (n_triples, 3)
    """

    columns: np.ndarray
    weights: np.ndarray
    n_bins: tuple[int, ...]
    triples: np.ndarray

    @classmethod
    def draw(cls, columns: np.ndarray, weights: np.ndarray, n_bins: tuple[int, ...]) -> TripleSample:
        """All triples, or if these are many an even random part of a fixed seed."""
        n_variables, n_samples = columns.shape
        if comb(n_variables, 3) <= MOST_COUNTED:
            return cls(columns, weights, n_bins, resolve_triples("all", n_variables))
        n_drawn = max(FEWEST_DRAWN, -(-n_variables // 3), min(N_DRAWN, int(MOST_ENTRIES / n_samples)))
        return cls(columns, weights, n_bins, resolve_triples(n_drawn, n_variables, 0))

    @property
    def n_possible(self) -> int:
        """Number of all triples."""
        return comb(len(self.n_bins), 3)

    @property
    def is_all(self) -> bool:
        """True if no triple is left out, so that sums are exact."""
        return len(self.triples) == self.n_possible

    def totals(self) -> np.ndarray:
        """Weight of the samples complete in each of the triples, (n_triples,)."""
        observed = self.columns != np.array(self.n_bins)[:, None]
        if observed.all():
            return np.full(len(self.triples), self.weights.sum())
        return np.array([self.weights[observed[t].all(axis=0)].sum() for t in self.triples])

    def squared_distances(self, model: MixtureFactors | None = None) -> np.ndarray:
        """Total of each triple times ||X - model||^2, or ||X||^2 without a model, (n_triples,)."""
        return np.array([self._squared_distance(triple, model) for triple in self.triples.tolist()])

    def _squared_distance(self, triple: list[int], model: MixtureFactors | None) -> float:
        cells, counts = self._count(triple)
        total = counts.sum()
        if not total > 0:
            return 0.0
        shares = counts / total
        distance = float(shares @ shares)
        if model is not None:
            columns = [model.factors[n] for n in triple]
            rows = [a[index] for a, index in zip(columns, cells, strict=True)]
            gram = np.prod([a.T @ a for a in columns], axis=0)
            distance += float(model.weights @ gram @ model.weights)
            distance -= 2.0 * float(shares @ (rows[0] * rows[1] * rows[2] @ model.weights))
        return float(total) * distance

    def _count(self, triple: list[int]) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        """Bins of the cells in which samples fell, and the weight of the samples there."""
        shape = tuple(self.n_bins[n] + 1 for n in triple)  # a last bin for the missing entries
        # In 64 bits only where need be: the passes over the samples are what takes time.
        cell = self.columns[triple[0]].astype(np.int32 if np.prod(shape, dtype=float) < 2**31 else np.int64)
        for n, size in zip(triple[1:], shape[1:], strict=True):
            cell *= size
            cell += self.columns[n]
        names = None
        if np.prod(shape, dtype=float) > 8 * len(cell):  # far more cells than samples
            names, cell = np.unique(cell, return_inverse=True)
        counts = np.bincount(cell, self.weights)
        filled = np.flatnonzero(counts)
        counts = counts[filled]
        bins = np.unravel_index(filled if names is None else names[filled], shape)
        complete = np.all([index < size - 1 for index, size in zip(bins, shape, strict=True)], axis=0)
        return tuple(index[complete] for index in bins), counts[complete]
