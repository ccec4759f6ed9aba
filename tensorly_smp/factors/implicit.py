"""All triples of many variables at once, without a histogram of any: the Frobenius loss as sums over samples.

The histograms of all triples are counts of the same samples. What a sweep needs of them are sums over samples of
products over pairs and over triples of entries, which are elementary symmetric polynomials: with c_mk the bin of sample
m in variable k, and p1, p2, p3 the sums over its entries k of the first, second and third powers of the row A_k[c_mk]
(component by component, zero where an entry is missing),

    e2 = (p1^2 - p2) / 2               sum over pairs of entries of their product,
    e3 = (p1^3 - 3 p1 p2 + 2 p3) / 6   sum over triples.

The linear part of the block of variable n adds e2 of the other entries of every sample to row c_mn, that of the weights
adds up e3. The quadratic part is the same with Gram matrices G_k = A_k' A_k in place of rows, once for every pattern of
missing entries: a single one where nothing is missing. A sweep takes time in proportion to samples x variables x rank,
whatever the number of triples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress, pairwise
from math import comb
from operator import is_not
from typing import Any

import numpy as np
from scipy.linalg.blas import dger, sger
from scipy.sparse import csc_array

from tensorly_smp._support.checks import checked_sample_weight, warn
from tensorly_smp.codes.encoding import Codes
from tensorly_smp.exceptions import SparseHistogramWarning
from tensorly_smp.factors.backend import as_tensor, checked_context
from tensorly_smp.factors.blocks import Loss, QuadraticBlock
from tensorly_smp.factors.coupled import require_coverage
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.marginals.histograms import check_constant, univariate_marginals
from tensorly_smp.marginals.triples import resolve_triples

#: Numbers of an array that is worked on in pieces, so that what a pass touches stays in the processor's cache.
CACHED = 50_000

#: Up to so many triples all are counted, else a random part.
MOST_COUNTED = 5000
#: Size of that part: each variable is in it about evenly, and it is the same for the same number of variables.
N_DRAWN = 2000
#: Fewer are drawn where the entries to look at would exceed this.
MOST_ENTRIES = 2e8
FEWEST_DRAWN = 200


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
        self.parts: list[tuple[slice, csc_array]] = []

    def compute(self, factors: Sequence[np.ndarray]) -> np.ndarray:
        """Sums of these factors; returns the weighted sum over samples of e3, (rank,).

        All terms are positive: nothing is lost to rounding.
        """
        if not self.parts:
            self._allocate(int(factors[0].shape[1]))
        tables = [_table(factor) for factor in factors]
        third = 0.0 * tables[0][-1]
        for part, _ in self.parts:
            first = self.first[part]
            second = self.second[part]
            tables[0].take(self.columns[0][part], axis=0, out=first, mode="clip")
            second[:] = 0.0
            for table, codes in zip(tables[1:], self.columns[1:], strict=True):
                rows, products = self._rows(table, codes[part])
                third = third + self.weights[part] @ np.multiply(rows, second, out=products)
                second += np.multiply(rows, first, out=products)
                first += rows
        return third

    def remove(self, n: int, factor: np.ndarray) -> np.ndarray:
        """Take a variable out of the sums; returns the weighted sum of e2 without it over the samples in each bin."""
        table = _table(factor)
        total = np.zeros((self.n_rows, factor.shape[1]), dtype=factor.dtype)
        for part, one_hot in self.parts:
            codes = self.columns[n][part]
            rows, products = self._rows(table, codes)
            self.first[part] -= rows
            self.second[part] -= np.multiply(rows, self.first[part], out=products)
            one_hot.indices[:] = codes
            total += one_hot @ self.second[part]
        return total[: factor.shape[0]]

    def insert(self, n: int, factor: np.ndarray) -> None:
        """Put a variable into the sums."""
        table = _table(factor)
        for part, _ in self.parts:
            rows, products = self._rows(table, self.columns[n][part])
            self.second[part] += np.multiply(rows, self.first[part], out=products)
            self.first[part] += rows

    def _allocate(self, rank: int) -> None:
        n_samples = len(self.weights)
        n_parts = min(n_samples, -(-n_samples * rank // CACHED))
        for start, stop in pairwise(n_samples * i // n_parts for i in range(n_parts + 1)):
            # Adds rows up by bin: an indicator matrix with one entry per column, whose rows are overwritten call by
            # call. Making a new one would take half as long again, bincount component by component four times as long.
            columns = np.arange(stop - start + 1, dtype=np.int32)
            entries = (self.weights[start:stop], np.zeros_like(columns[1:]), columns)
            self.parts.append((slice(start, stop), csc_array(entries, shape=(self.n_rows, stop - start))))
        longest = max(part.stop - part.start for part, _ in self.parts)
        self.first, self.second = (np.empty((n_samples, rank), dtype=self.weights.dtype) for _ in range(2))
        self.scratch = [np.empty((longest, rank), dtype=self.weights.dtype) for _ in range(2)]

    def _rows(self, table: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows of a table, and an array for products with them: new arrays of this size would cost page faults."""
        rows, products = (array[: len(codes)] for array in self.scratch)
        return table.take(codes, axis=0, out=rows, mode="clip"), products  # "raise", the default, would copy twice


def _table(factor: np.ndarray) -> np.ndarray:
    """The factor with one more row, of zeros, for missing entries."""
    return np.concatenate([factor, 0.0 * factor[:1]])


def add_outer(matrix: np.ndarray, column: np.ndarray, row: np.ndarray) -> np.ndarray:
    """NumPy's matrix plus an outer product; it overwrites the matrix (in C order)."""
    update = dger if matrix.dtype == np.float64 else sger
    return update(1.0, row, column, a=matrix.T, overwrite_a=True).T


def weighted_squares(weights: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Sum over the rows of NumPy's matrix of their weight times their square, (n_columns,)."""
    total = np.zeros(matrix.shape[1], dtype=matrix.dtype)
    step = max(1, CACHED // matrix.shape[1])
    for start in range(0, len(matrix), step):
        part = matrix[start : start + step]
        total += weights[start : start + step] @ (part * part)
    return total


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

    def compute(self, factors: Sequence[np.ndarray]) -> None:
        """Sums of these factors."""
        self.rank = int(factors[0].shape[1])
        rows, columns = np.triu_indices(self.rank)
        self.upper = rows * self.rank + columns
        # Position in the packed upper triangle of every entry of a symmetric matrix.
        positions = np.zeros((self.rank, self.rank), dtype=int)
        positions[rows, columns] = np.arange(len(rows))
        self.unpack = np.maximum(positions, positions.T).ravel()
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
            total = total + self.weights[part] @ (p1 * (p1 * p1 - 3.0 * (chunk @ self.squares))) / 6.0
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


#: Weight blocks after which the sums over samples are computed anew, so that rounding does not pile up.
MOST_UPDATES = 4


@dataclass(frozen=True, eq=False)
class CoupledCodes:
    """Samples in the form in which all of their triples are factorized without counting one.

    As in ``CoupledTensors``, the histogram of triple jkl has weight T_jkl / mean T with T_jkl the (weighted) number of
    samples that are complete in it, and triples without samples do not count in the mean.

    Attributes
    ----------
    n_bins : tuple of int
    columns : ndarray of int (n_variables, n_used)
        Bins of the samples of positive weight with three entries or more, ``n_bins[n]`` where the entry is missing.
    weights : ndarray (n_used,)
        Weights of these samples over the mean T.
    patterns : ndarray of bool (n_variables, n_patterns)
        Which entries are observed; every pattern that occurs, once.
    pattern_weights : ndarray (n_patterns,)
        Sums of `weights`.
    pair_weights : ndarray (n_variables, n_variables) or None
        Sums of `weights` over the samples with both entries, if there are many patterns.
    univariate_marginals : tuple of ndarray (n_bins[n],)
        Share of samples per bin, in the triples of each variable.
    squared_norm : float
        Sum over triples of omega ||X||^2, the part of the loss that no factor changes.
    squared_norm_error : float
        Its standard error; 0 where it is exact.
    context : dict
        dtype of the factors.
    n_samples : int
    triples : ndarray of int (n_triples, 3) or None
        None for all.
    drawn : ndarray of int (n_drawn, 3)
        Triples of which the squared norm is known: all, or some at random.
    """

    n_bins: tuple[int, ...]
    columns: np.ndarray
    weights: np.ndarray
    patterns: np.ndarray
    pattern_weights: np.ndarray
    pair_weights: np.ndarray | None
    univariate_marginals: tuple[np.ndarray, ...]
    squared_norm: float
    squared_norm_error: float
    context: dict[str, Any]
    n_samples: int
    triples: np.ndarray | None
    drawn: np.ndarray

    @property
    def is_exact(self) -> bool:
        """True if the squared norm is known of all triples."""
        return len(self.drawn) == comb(len(self.n_bins), 3)

    def calibrated(self, model: MixtureFactors) -> CoupledCodes:
        """Copy with the squared norm estimated anew, if it is not exact, by means of a model that is near the data.

        The loss of the model is the mean over the triples drawn, times their number; its difference from the squared
        norm is known exactly. The closer the model, the smaller the error, as that of any mean of small numbers.
        """
        if self.is_exact:
            return self
        known = model.to_numpy()
        loss, error = self.estimated_loss(known)
        weights, *factors = (as_tensor(a, self.context) for a in (known.weights, *known.factors))
        value = float(ImplicitLoss(self).weight_block(factors).value(weights[None, :]))
        return replace(self, squared_norm=loss - value, squared_norm_error=error)

    def estimated_loss(self, model: MixtureFactors | None = None) -> tuple[float, float]:
        """Weighted sum over all triples of ||X - model||^2, or ||X||^2 without a model, and its standard error.

        It is the mean over the triples drawn, times the number of all: exact, with error 0, if these are all.
        """
        terms = np.array([self._squared_distance(triple, model) for triple in self.drawn.tolist()])
        n_possible = comb(len(self.n_bins), 3)
        error = 0.0 if self.is_exact else n_possible * float(terms.std(ddof=1)) / len(terms) ** 0.5
        return n_possible / len(terms) * float(terms.sum()), error

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


def couple_codes(codes: Codes, sample_weight: Any = None, context: dict[str, Any] | None = None) -> CoupledCodes:
    """Samples ready for the solver; those of no weight or fewer than three entries are left out.

    The context is by default float64. The active backend has to be NumPy.
    """
    weights = checked_sample_weight(sample_weight, codes.n_samples)
    observed = codes.values >= 0
    n_observed = np.count_nonzero(observed, axis=1).astype(float)
    # Relative to the largest, so that no sum overflows.
    weights = np.ones(codes.n_samples) if weights is None else weights / weights.max()
    used = np.flatnonzero((n_observed >= 3) & (weights > 0))
    values = codes.values
    if len(used) < codes.n_samples:
        parts: list[Any] = [a[used] for a in (values, observed, n_observed, weights)]
        values, observed, n_observed, weights = parts
    check_constant(codes)
    # Variable by variable, so that the codes of one lie next to each other, in the smallest type.
    columns = np.ascontiguousarray(values.T).astype(np.min_scalar_type(max(codes.n_bins)))
    for column, present, size in zip(columns, observed.T, codes.n_bins, strict=True):
        column[~present] = size
    drawn = draw_triples(codes.n_variables, len(used))
    require_coverage(np.flatnonzero(observed.any(axis=0)), codes.binning.variables)
    n_possible = comb(codes.n_variables, 3)
    is_counted = _have_samples(observed, drawn)
    # Samples in a triple on average: the sum over all triples is known without counting any.
    in_triples = float(weights @ (n_observed * (n_observed - 1) * (n_observed - 2))) / 6
    mean_total = in_triples / (n_possible * is_counted.mean())
    # A sample is in the triples of a variable as often as it has pairs of others.
    in_pairs = np.zeros(codes.n_samples)
    in_pairs[used] = weights * (n_observed - 1) * (n_observed - 2)
    weights = weights / mean_total
    patterns, pattern_weights = distinct_patterns(observed, weights)
    coupled = CoupledCodes(
        n_bins=codes.n_bins,
        columns=columns,
        weights=weights,
        patterns=patterns,
        pattern_weights=pattern_weights,
        pair_weights=pair_weights(patterns, pattern_weights),
        univariate_marginals=tuple(univariate_marginals(codes, in_pairs)),
        squared_norm=np.nan,
        squared_norm_error=np.nan,
        context=context or checked_context(),
        n_samples=len(used),
        triples=drawn[is_counted] if len(drawn) == n_possible and not is_counted.all() else None,
        drawn=drawn,
    )
    squared_norm, error = coupled.estimated_loss()
    return replace(coupled, squared_norm=squared_norm, squared_norm_error=error)


def _have_samples(observed: np.ndarray, triples: np.ndarray) -> np.ndarray:
    """Mask of the triples that some sample is complete in, with a warning of the others."""
    if observed.all():
        return np.ones(len(triples), dtype=bool)
    by_variable = np.ascontiguousarray(observed.T)
    is_counted = np.array([by_variable[triple].all(axis=0).any() for triple in triples])
    if not is_counted.all():
        number = f"About {1 - is_counted.mean():.1%} of all"
        if len(triples) == comb(len(by_variable), 3):
            number = f"{np.count_nonzero(~is_counted)} of {len(triples)}"
        warn(f"{number} triples have no complete sample and take no part in the fit.", SparseHistogramWarning)
    return is_counted


def draw_triples(n_variables: int, n_samples: int) -> np.ndarray:
    """All triples (n_triples, 3), or if these are many an even random part of a fixed seed."""
    if comb(n_variables, 3) <= MOST_COUNTED:
        return resolve_triples("all", n_variables)
    n_drawn = max(FEWEST_DRAWN, -(-n_variables // 3), min(N_DRAWN, int(MOST_ENTRIES / n_samples)))
    return resolve_triples(n_drawn, n_variables, 0)


def distinct_patterns(observed: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct rows as columns (n_variables, n_patterns), and the weight of the samples that share each."""
    if observed.all():
        return np.ones((observed.shape[1], 1), dtype=bool), np.array([weights.sum()])
    packed, member = np.unique(np.packbits(observed, axis=1), axis=0, return_inverse=True)
    distinct = np.unpackbits(packed, axis=1, count=observed.shape[1]).astype(bool)
    return np.ascontiguousarray(distinct.T), np.bincount(member.ravel(), weights)


class ImplicitLoss(Loss):
    """sum over all triples of omega ||X - model||^2, from samples.

    The sums over samples are kept between the blocks. Which factors they are of is known by the identity of the arrays,
    so that only what changed is exchanged; each start needs a loss of its own.
    """

    def __init__(self, coupled: CoupledCodes) -> None:
        self.constant = coupled.squared_norm
        self.resolution = coupled.squared_norm
        self.error = coupled.squared_norm_error
        self.least = -np.inf if self.error else 0.0
        self._pairs = PairSums(coupled.columns, coupled.weights, max(coupled.n_bins), coupled.context)
        self._grams = PatternGrams(coupled.patterns, coupled.pattern_weights, coupled.pair_weights, coupled.context)
        self._factors: list[np.ndarray] = []
        # The variable that is out of the sums of pairs, since its block is being solved, and its e2 per bin.
        self._open: tuple[int, np.ndarray] | None = None
        self._third: np.ndarray = np.empty(0)
        self._n_updates = 0

    def factor_block(self, n: int, factors: list[np.ndarray], weights: np.ndarray) -> QuadraticBlock:
        """The loss in the factor of variable n."""
        self._follow(factors)
        per_bin = self._pairs.remove(n, factors[n])
        self._open = (n, per_bin)
        gram = self._grams.pairs(n) * weights * weights[:, None]
        return QuadraticBlock(per_bin * weights, gram)

    def weight_block(self, factors: list[np.ndarray]) -> QuadraticBlock:
        """The loss in the weights."""
        self._n_updates += 1
        if self._n_updates >= MOST_UPDATES:
            self._factors = []
        self._follow(factors)
        return QuadraticBlock(self._third[None, :], self._grams.triples(), axis=1)

    def _follow(self, factors: list[np.ndarray]) -> None:
        """Bring the sums to these factors."""
        changed = list(compress(range(len(factors)), map(is_not, factors, self._factors)))
        # To exchange a variable takes twice as long as to add one.
        if not self._factors or len(changed) > len(factors) // 2:
            self._third = self._pairs.compute(factors)
            self._grams.compute(factors)
            self._factors = list(factors)
            self._open = None
            self._n_updates = 0
            return
        if self._open is not None:
            self._put_in(*self._open, factors[self._open[0]])
            self._open = None
        for n in changed:
            if factors[n] is not self._factors[n]:
                self._put_in(n, self._pairs.remove(n, self._factors[n]), factors[n])

    def _put_in(self, n: int, per_bin: np.ndarray, factor: np.ndarray) -> None:
        self._pairs.insert(n, factor)
        # e3 is linear in the rows of any one variable.
        self._third = self._third + ((factor - self._factors[n]) * per_bin).sum(axis=0)
        self._grams.exchange(n, factor)
        self._factors[n] = factor
