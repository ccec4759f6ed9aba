"""Elementary symmetric polynomials of rows over samples, and of Gram matrices over patterns of missing entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tensorly_smp.factors.arrays import CACHED, ScatterAdd, add_outer, as_tensor, weighted_squares

#: Patterns of missing entries handled at a time where all variables are needed at once.
PATTERN_CHUNK = 2048


class PairSums:
    """Sums of the factors' rows over the entries of every sample, and over pairs of them: e1 and e2.

    A variable is exchanged by taking it out and putting it in again.

    Parameters
    ----------
    columns : ndarray of int (n_variables, n_samples)
        Bins, the number of bins where the entry is missing.
    weights : ndarray (n_samples,)
    most_bins : int
        Largest number of bins.
    context : dict
    """

    def __init__(self, columns: np.ndarray, weights: np.ndarray, most_bins: int, context: dict[str, Any]) -> None:
        self.columns = columns
        self.weights = as_tensor(weights, context)
        self.n_rows = most_bins + 1  # one for the missing entries
        self.parts: list[_Part] = []

    def compute(self, factors: Sequence[np.ndarray]) -> np.ndarray:
        """Sums of these factors; returns the weighted sum over samples of e3, (rank,)."""
        if not self.parts:
            self.parts = self._new_parts(int(factors[0].shape[1]))
        tables = [_table(factor) for factor in factors]
        return np.sum([part.compute(tables, self.columns) for part in self.parts], axis=0)

    def remove(self, n: int, factor: np.ndarray) -> np.ndarray:
        """Take a variable out of the sums; returns the weighted sum of e2 without it over the samples in each bin."""
        table = _table(factor)
        index = self.columns[n]
        found = [part.remove(table, index) for part in self.parts]
        return np.sum(found, axis=0)[: factor.shape[0]]

    def insert(self, n: int, factor: np.ndarray) -> None:
        """Put a variable into the sums."""
        table = _table(factor)
        index = self.columns[n]
        for part in self.parts:
            part.insert(table, index)

    def _new_parts(self, rank: int) -> list[_Part]:
        n_samples = len(self.weights)
        n_parts = min(n_samples, -(-n_samples * rank // CACHED))
        edges = [n_samples * i // n_parts for i in range(n_parts + 1)]
        parts = [slice(*pair) for pair in pairwise(edges)]
        longest = max(part.stop - part.start for part in parts)
        scratch = [np.zeros((longest, rank), dtype=self.weights.dtype) for _ in range(2)]
        return [_Part(part, self.weights[part], self.n_rows, scratch) for part in parts]


def _table(factor: np.ndarray) -> np.ndarray:
    """The factor with one more row, of zeros, for missing entries."""
    return np.concatenate([factor, 0.0 * factor[:1]])


class _Part:
    """The sums of some of the samples; the arrays for intermediate results are shared by all parts."""

    def __init__(self, part: slice, weights: np.ndarray, n_rows: int, scratch: list[np.ndarray]) -> None:
        self.part = part
        self.weights = weights
        self.scatter_add = ScatterAdd(weights, n_rows)
        self.rows, self.products = (array[: part.stop - part.start] for array in scratch)
        self.first: np.ndarray = np.empty(0)
        self.second: np.ndarray = np.empty(0)

    def compute(self, tables: list[np.ndarray], index: np.ndarray) -> np.ndarray:
        """Sums of all variables, and of e3 over the samples. All terms are positive: nothing is lost to rounding."""
        self.first = tables[0].take(index[0][self.part], axis=0)
        self.second = 0.0 * self.first
        third = 0.0 * self.first[0]
        for table, codes in zip(tables[1:], index[1:], strict=True):
            rows = self._rows(table, codes[self.part])
            third = third + self.weights @ np.multiply(rows, self.second, out=self.products)
            self.second += np.multiply(rows, self.first, out=self.products)
            self.first += rows
        return third

    def remove(self, table: np.ndarray, index: np.ndarray) -> np.ndarray:
        codes = index[self.part]
        rows = self._rows(table, codes)
        self.first -= rows
        self.second -= np.multiply(rows, self.first, out=self.products)
        return self.scatter_add(self.second, codes)

    def _rows(self, table: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Rows of a table, in memory of their own: a new array of the size of the samples costs page faults."""
        return table.take(index, axis=0, out=self.rows, mode="clip")  # "raise", the default, would copy twice

    def insert(self, table: np.ndarray, index: np.ndarray) -> None:
        rows = self._rows(table, index[self.part])
        self.second += np.multiply(rows, self.first, out=self.products)
        self.first += rows


class PatternGrams:
    """Gram matrices summed over pairs and triples of the observed variables, over all patterns of missing entries.

    For every pattern the sum p1 over its variables of G_k is kept, upper triangles only, and the sum p2 of the squared
    entries. Where there are more patterns than variables, sums over patterns that are linear in p1 or p2 come from the
    weights of pairs of variables instead, and p2 is not kept: that halves the time.

    Parameters
    ----------
    patterns : ndarray of bool (n_variables, n_patterns)
        Observed variables.
    weights : ndarray (n_patterns,)
    pair_weights : ndarray (n_variables, n_variables) or None
        See :func:`pair_weights`.
    context : dict
    """

    def __init__(
        self, patterns: np.ndarray, weights: np.ndarray, pair_weights: np.ndarray | None, context: dict[str, Any]
    ) -> None:
        self.patterns = patterns
        self.context = context
        self.weights = as_tensor(weights, context)
        self.variable_weights = as_tensor(patterns @ weights, context)
        self.pair_weights = None if pair_weights is None else as_tensor(pair_weights, context)
        self.grams: np.ndarray = np.empty(0)
        self.squares: np.ndarray = np.empty(0)
        self.first: np.ndarray = np.empty(0)
        self.second: np.ndarray = np.empty(0)

    def compute(self, factors: Sequence[np.ndarray]) -> None:
        """Sums of these factors."""
        self.rank = int(factors[0].shape[1])
        rows, columns = np.triu_indices(self.rank)
        self.upper = rows * self.rank + columns
        self.unpack = packed_positions(self.rank)
        self.grams = np.stack([self._gram(a) for a in factors])
        self.squares = self.grams * self.grams
        self.first = np.concatenate([chunk @ self.grams for chunk in self._chunks()])
        if self.pair_weights is None:
            self.second = np.concatenate([chunk @ self.squares for chunk in self._chunks()])

    def exchange(self, n: int, factor: np.ndarray) -> None:
        """Another factor for a variable."""
        gram = self._gram(factor)
        square = gram * gram
        observed = as_tensor(self.patterns[n], self.context)
        self.first = add_outer(self.first, observed, gram - self.grams[n])
        if self.pair_weights is None:
            self.second = add_outer(self.second, observed, square - self.squares[n])
        self.grams[n] = gram
        self.squares[n] = square

    def pairs(self, n: int) -> np.ndarray:
        """Sum of G_k * G_l over pairs of other variables and the patterns with variable n, (rank, rank)."""
        weights = as_tensor(self.patterns[n], self.context) * self.weights
        if self.pair_weights is None:
            first = weights @ self.first
            second = weights @ self.second
        else:
            first = self.pair_weights[n] @ self.grams
            second = self.pair_weights[n] @ self.squares
        # ((p1 - G_n)^2 - (p2 - G_n^2)) / 2, summed over the patterns.
        pairs = 0.5 * (weighted_squares(weights, self.first) - second)
        return self._square(pairs - self.grams[n] * first + self.variable_weights[n] * self.squares[n])

    def triples(self) -> np.ndarray:
        """Sum of G_j * G_k * G_l over triples of variables and the patterns that have them, (rank, rank)."""
        total = self.variable_weights @ (self.squares * self.grams) / 3.0
        start = 0
        for chunk in self._chunks():
            part = slice(start, start + chunk.shape[0])
            p1 = self.first[part]
            p2 = chunk @ self.squares
            total = total + self.weights[part] @ (p1 * (p1 * p1 - 3.0 * p2)) / 6.0
            start = part.stop
        return self._square(total)

    def _chunks(self) -> Iterator[np.ndarray]:
        """The patterns as rows (n_patterns, n_variables) of numbers, some at a time."""
        for start in range(0, self.patterns.shape[1], PATTERN_CHUNK):
            yield as_tensor(self.patterns[:, start : start + PATTERN_CHUNK].T, self.context)

    def _gram(self, factor: np.ndarray) -> np.ndarray:
        return (factor.T @ factor).ravel().take(self.upper)

    def _square(self, upper: np.ndarray) -> np.ndarray:
        # Rounding may leave a zero negative, and the step sizes need entries that are not.
        return np.maximum(upper.take(self.unpack).reshape(self.rank, self.rank), 0.0)


def packed_positions(rank: int) -> np.ndarray:
    """Position in the packed upper triangle of every entry of a symmetric matrix, (rank * rank,)."""
    positions = np.zeros((rank, rank), dtype=int)
    positions[np.triu_indices(rank)] = np.arange(rank * (rank + 1) // 2)
    return np.maximum(positions, positions.T).ravel()


def pair_weights(patterns: np.ndarray, weights: np.ndarray) -> np.ndarray | None:
    """Weight of the patterns that have both variables of a pair; None where there are fewer patterns than variables.

    Parameters
    ----------
    patterns : ndarray of bool (n_variables, n_patterns)
    weights : ndarray (n_patterns,)

    Returns
    -------
    ndarray (n_variables, n_variables) or None
    """
    n_variables, n_patterns = patterns.shape
    if n_patterns <= n_variables:
        return None
    total = np.zeros((n_variables, n_variables))
    for start in range(0, n_patterns, PATTERN_CHUNK):
        part = patterns[:, start : start + PATTERN_CHUNK]
        total += (part * weights[start : start + PATTERN_CHUNK]) @ part.T.astype(float)
    return total
