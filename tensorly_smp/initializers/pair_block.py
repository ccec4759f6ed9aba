"""The pair block of a partition, compressed, and the slices that are left: from histograms, or from codes.

From codes neither the block tensor nor the pair block is formed when they are large: the products with one-hot codes
are sums over samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse.linalg import LinearOperator, svds

from tensorly_smp.codes.encoding import Codes
from tensorly_smp.codes.one_hot import indicator_matrix
from tensorly_smp.marginals.block_tensor import stack_blocks
from tensorly_smp.marginals.histograms import Marginals
from tensorly_smp.marginals.partition import Partition

#: Above this size of the pair block only its leading singular vectors are computed.
DENSE_PAIR = 600


@dataclass(frozen=True)
class PairBlock:
    """Compressed pair block and slices, from histograms or from codes."""

    n_bins: tuple[int, ...]
    partition: Partition
    left: np.ndarray
    right: np.ndarray
    singular_values: np.ndarray
    slices: np.ndarray
    left_scale: np.ndarray
    right_scale: np.ndarray


def compress_marginals(marginals: Marginals, partition: Partition, rank: int) -> PairBlock:
    """Pair block and slices from histograms."""
    tensor = stack_blocks(marginals, partition)
    first_bins = marginals.n_bins[partition.third[0]]
    pair = tensor[:, :, :first_bins].sum(axis=2)
    left_scale = _cell_scale(pair.sum(axis=1) / len(partition.second))
    right_scale = _cell_scale(pair.sum(axis=0) / len(partition.first))
    left, values, right = np.linalg.svd(left_scale[:, None] * pair * right_scale, full_matrices=False)
    left = left[:, :rank]
    right = right[:rank].T
    # i j cells of the first two modes, k third mode, a b compressed
    slices = np.einsum(
        "ijk,ia,jb->kab", tensor, left_scale[:, None] * left, right_scale[:, None] * right, optimize=True
    )
    return PairBlock(marginals.n_bins, partition, left, right, values, slices, left_scale, right_scale)


def compress_codes(codes: Codes, partition: Partition, rank: int, weights: np.ndarray | None = None) -> PairBlock:
    """Pair block and slices from codes, without forming either tensor or pair block when they are large.

    Weights (n_samples,) say how often a sample counts; by default once.
    """
    n_samples = codes.n_samples if weights is None else float(weights.sum())
    observed = (codes.values >= 0).mean(axis=0) if weights is None else weights @ (codes.values >= 0) / n_samples
    first, second = (_one_hot(codes, group, observed) for group in partition.sets[:2])
    left_scale, right_scale = (_cell_scale(_column_sums(hot, weights) / n_samples) for hot in (first, second))
    first = first @ scipy.sparse.diags_array(left_scale)
    second = second @ scipy.sparse.diags_array(right_scale)
    if weights is not None:  # all that follows is sums over samples of one times the other
        second = scipy.sparse.diags_array(weights) @ second
    shape = (first.shape[1], second.shape[1])
    n_values = min(rank + 3, min(shape) - 1)  # the iterative method cannot find them all
    if max(shape) <= DENSE_PAIR or n_values < rank:
        left, values, right = np.linalg.svd((first.T @ second).toarray() / n_samples, full_matrices=False)
    else:
        operator = LinearOperator(
            shape,
            matvec=lambda v: first.T @ (second @ v) / n_samples,
            rmatvec=lambda v: second.T @ (first @ v) / n_samples,
            matmat=lambda v: first.T @ (second @ v) / n_samples,
            dtype=float,
        )
        start = np.random.default_rng(0).standard_normal(min(shape))
        # The noise of the samples is far above this tolerance; to rounding would take twice as long.
        left, values, right = svds(operator, k=n_values, v0=start, tol=1e-2)
        order = np.argsort(-values)
        left = left[:, order]
        values = values[order]
        right = right[order]
    left = left[:, :rank]
    right = right[:rank].T
    first_scores = first @ left
    second_scores = second @ right
    slices = []
    n_bins = codes.n_bins
    for n in partition.third:
        column = codes.values[:, n]
        for i in range(n_bins[n]):
            chosen = column == i
            slices.append(first_scores[chosen].T @ second_scores[chosen] / (n_samples * observed[n]))
    return PairBlock(codes.n_bins, partition, left, right, values, np.stack(slices), left_scale, right_scale)


def _one_hot(codes: Codes, group: Sequence[int], observed: np.ndarray) -> Any:
    """Sparse (n_samples, stacked bins); missing entries are zero, and observed ones weighted up for them."""
    chosen = list(group)
    sizes = [codes.n_bins[n] for n in chosen]
    hot = indicator_matrix(codes.values[:, chosen], sizes)
    return hot @ scipy.sparse.diags_array(np.repeat(1.0 / observed[chosen], sizes))


def _column_sums(hot: Any, weights: np.ndarray | None) -> np.ndarray:
    return np.asarray(hot.sum(axis=0) if weights is None else weights @ hot).ravel()


def _cell_scale(probability: np.ndarray) -> np.ndarray:
    """Reciprocal root of every cell's probability; 1 for cells that are empty."""
    return 1.0 / np.sqrt(np.where(probability > 0, probability, 1.0))
