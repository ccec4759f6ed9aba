"""The sums of :mod:`symmetric_sums` as values that functions take and return: for PyTorch, and for JAX to compile.

NumPy's twin works in parts that stay in the processor's cache. Here all samples are worked on at once, which is what a
GPU wants. PyTorch overwrites the old sums (``+=``), JAX is given their memory: whoever calls has them no longer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorly as tl

from tensorly_smp.factors.arrays import (
    Tensor,
    add_by_code,
    as_tensor,
    code_tensor,
    index_tensor,
    is_on_processor,
    on_device,
    take,
    take_codes,
)
from tensorly_smp.factors.compilation import compiled
from tensorly_smp.factors.losses import QuadraticBlock
from tensorly_smp.factors.symmetric_sums import packed_positions
from tensorly_smp.factors.updates import BlockSolver

#: Entries of the matrix of patterns that are turned into numbers at a time.
MOST_PATTERN_ENTRIES = 100_000_000


class Samples(NamedTuple):
    """Samples and their patterns of missing entries, on the device.

    Attributes
    ----------
    columns : tensor of int (n_variables, n_samples)
        Bins, the number of bins where the entry is missing.
    weights : tensor (n_samples,)
    patterns : tensor of bool (n_variables, n_patterns)
        Observed variables.
    pattern_weights : tensor (n_patterns,)
    variable_weights : tensor (n_variables,)
        Sums of the weights of the patterns with each variable.
    pair_weights : tensor (n_variables, n_variables) or None
        See :func:`symmetric_sums.pair_weights`.
    rows : tensor of int or None
        See :func:`arrays.add_by_code`.
    """

    columns: Tensor
    weights: Tensor
    patterns: Tensor
    pattern_weights: Tensor
    variable_weights: Tensor
    pair_weights: Tensor | None
    rows: Tensor | None

    @classmethod
    def of(
        cls,
        columns: np.ndarray,
        weights: np.ndarray,
        patterns: np.ndarray,
        pattern_weights: np.ndarray,
        pair_weights: np.ndarray | None,
        most_bins: int,
        context: dict[str, Any],
    ) -> Samples:
        """NumPy's arrays in the dtype and on the device of ``context``; `most_bins` is the largest number of bins."""
        codes = code_tensor(columns, context)
        return cls(
            columns=codes,
            weights=as_tensor(weights, context),
            patterns=on_device(patterns, context),
            pattern_weights=as_tensor(pattern_weights, context),
            variable_weights=as_tensor(patterns @ pattern_weights, context),
            pair_weights=None if pair_weights is None else as_tensor(pair_weights, context),
            rows=None if is_on_processor(codes) else code_tensor(np.arange(most_bins + 1), context),
        )


class Packing(NamedTuple):
    """Where the upper triangle of a symmetric matrix is, and where its entries are in that."""

    upper: Tensor
    unpack: Tensor

    @classmethod
    def of(cls, rank: int, context: dict[str, Any]) -> Packing:
        """For matrices (rank, rank)."""
        rows, columns = np.triu_indices(rank)
        return cls(index_tensor(rows * rank + columns, context), index_tensor(packed_positions(rank), context))


class Sums(NamedTuple):
    """What is kept between the blocks: e1, e2 of every sample, e3 of all, and p1, p2 of the Gram matrices.

    Attributes
    ----------
    first, second : tensor (n_samples, rank)
    third : tensor (rank,)
    grams, squares : tensor (n_variables, rank * (rank + 1) / 2)
        Upper triangle of the Gram matrix of every factor, and its square entry by entry.
    gram_first : tensor (n_patterns, rank * (rank + 1) / 2)
        Sums of the Gram matrices of the observed variables.
    gram_second : tensor of the same shape or None
        Sums of their squares; None where `pair_weights` serve instead.
    """

    first: Tensor
    second: Tensor
    third: Tensor
    grams: Tensor
    squares: Tensor
    gram_first: Tensor
    gram_second: Tensor | None

    @classmethod
    def empty(cls, samples: Samples, rank: int) -> Sums:
        """No variable is in the sums yet."""
        n_variables, n_patterns = samples.patterns.shape
        n_entries = rank * (rank + 1) // 2

        def zeros(*shape: int) -> Tensor:
            # Of the samples' weights, and so on their device, which a new array would not be in JAX.
            return (0.0 * samples.weights[:1]).reshape((1,) * len(shape)) + tl.zeros(
                shape, **tl.context(samples.weights)
            )

        return cls(
            first=zeros(samples.weights.shape[0], rank),
            second=zeros(samples.weights.shape[0], rank),
            third=zeros(rank),
            grams=zeros(n_variables, n_entries),
            squares=zeros(n_variables, n_entries),
            gram_first=zeros(n_patterns, n_entries),
            gram_second=zeros(n_patterns, n_entries) if samples.pair_weights is None else None,
        )


@compiled(donated=(2,))
def inserted(samples: Samples, packing: Packing, sums: Sums, n: int, factor: Tensor) -> Sums:
    """The sums with one more variable."""
    first, second, third = sums.first, sums.second, sums.third
    rows = _rows(factor, samples.columns[n])
    third = third + samples.weights @ (rows * second)
    second += rows * first
    first += rows
    return _with_gram(samples, packing, sums._replace(first=first, second=second, third=third), n, factor)


@compiled(static=(0,), donated=(3,))
def improved_factor(
    solver: BlockSolver,
    samples: Samples,
    packing: Packing,
    sums: Sums,
    n: int,
    factor: Tensor,
    weights: Tensor,
    memory: Any,
) -> tuple[Tensor, Any, Sums]:
    """The factor of a variable improved by the solver, what the solver remembers, and the sums of the new factor.

    The variable leaves the sums, so that they give its block, and comes back with its new factor.
    """
    first, second = sums.first, sums.second
    codes = samples.columns[n]
    rows = _rows(factor, codes)
    first -= rows
    second -= rows * first
    n_bins = factor.shape[0]
    per_bin = add_by_code(samples.weights[:, None] * second, codes, n_bins + 1, samples.rows)[:n_bins]
    gram = _square(_pair_grams(samples, sums, n), packing)
    moved, memory = solver(QuadraticBlock(per_bin * weights, gram * weights * weights[:, None]), factor, memory)
    rows = _rows(moved, codes)
    second += rows * first
    first += rows
    # e3 is linear in the rows of any one variable.
    third = sums.third + tl.sum((moved - factor) * per_bin, axis=0)
    sums = sums._replace(first=first, second=second, third=third)
    return moved, memory, _with_gram(samples, packing, sums, n, moved)


@compiled(static=(0,))
def improved_weights(
    solver: BlockSolver, samples: Samples, packing: Packing, sums: Sums, row: Tensor, memory: Any
) -> tuple[Tensor, Tensor, Any]:
    """Value of the block of the weights at ``row`` (1, rank), the weights improved, what the solver remembers."""
    block = QuadraticBlock(tl.reshape(sums.third, (1, -1)), _square(_triple_grams(samples, sums), packing), axis=1)
    value = block.value(row)
    return value, *solver(block, row, memory)


def _rows(factor: Tensor, codes: Tensor) -> Tensor:
    """The factor's row of every sample, zeros for missing entries."""
    return take_codes(tl.concatenate([factor, 0.0 * factor[:1]]), codes)


def _with_gram(samples: Samples, packing: Packing, sums: Sums, n: int, factor: Tensor) -> Sums:
    """The sums over the Gram matrices with another factor for a variable."""
    gram = take(tl.reshape(factor.T @ factor, (-1,)), packing.upper)
    square = gram * gram
    one = tl.ones(1, **tl.context(gram))
    observed = tl.where(samples.patterns[n], one, 0.0 * one)[:, None]
    gram_first, gram_second = sums.gram_first, sums.gram_second
    gram_first += observed * (gram - sums.grams[n])
    if gram_second is not None:
        gram_second += observed * (square - sums.squares[n])
    return sums._replace(
        grams=tl.index_update(sums.grams, tl.index[n], gram),
        squares=tl.index_update(sums.squares, tl.index[n], square),
        gram_first=gram_first,
        gram_second=gram_second,
    )


def _pair_grams(samples: Samples, sums: Sums, n: int) -> Tensor:
    """Sum of G_k * G_l over pairs of other variables and the patterns with variable n, packed."""
    weights = tl.where(samples.patterns[n], samples.pattern_weights, 0.0 * samples.pattern_weights)
    if samples.pair_weights is None:
        first, second = weights @ sums.gram_first, weights @ sums.gram_second
    else:
        first, second = samples.pair_weights[n] @ sums.grams, samples.pair_weights[n] @ sums.squares
    # ((p1 - G_n)^2 - (p2 - G_n^2)) / 2, summed over the patterns.
    pairs = 0.5 * (weights @ (sums.gram_first * sums.gram_first) - second)
    return pairs - sums.grams[n] * first + samples.variable_weights[n] * sums.squares[n]


def _triple_grams(samples: Samples, sums: Sums) -> Tensor:
    """Sum of G_j * G_k * G_l over triples of variables and the patterns that have them, packed."""
    total = samples.variable_weights @ (sums.squares * sums.grams) / 3.0
    one = tl.ones(1, **tl.context(sums.grams))
    n_variables, n_patterns = samples.patterns.shape
    step = max(1, MOST_PATTERN_ENTRIES // n_variables)
    for start in range(0, n_patterns, step):
        part = slice(start, start + step)
        p1 = sums.gram_first[part]
        p2 = tl.where(samples.patterns[:, part], one, 0.0 * one).T @ sums.squares
        total = total + samples.pattern_weights[part] @ (p1 * (p1 * p1 - 3.0 * p2)) / 6.0
    return total


def _square(packed: Tensor, packing: Packing) -> Tensor:
    """The whole matrix (rank, rank)."""
    rank = round(packing.unpack.shape[0] ** 0.5)
    # Rounding may leave a zero negative, and the step sizes need entries that are not.
    return tl.clip(tl.reshape(take(packed, packing.unpack), (rank, rank)), 0.0)
