"""The coupled tensors, unfolded once so that a block update is two matrix products.

For variable n the mode-n unfoldings of all triples that contain it stand side by side in one matrix U_n
(n_bins[n], n_columns). Column c belongs to a pair of bins, one of each of the other two variables; ``rows_a[c]`` and
``rows_b[c]`` are the rows of these bins in the factors stacked over all variables, S. The weighted Khatri-Rao product
that goes with U_n is then S[rows_a] * S[rows_b] * w, whatever the numbers of bins, and a column in which no sample
fell is left out: it contributes nothing to a gradient (KL: the sum of the model over it is known, Frobenius: its model
part is in the Gram matrix).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tensorly as tl

from tensorly_smp._support.checks import to_numpy
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.factors.backend import Tensor, as_tensor, checked_context, index_tensor, tiny
from tensorly_smp.marginals.histograms import Marginals, ReadTensors

#: Lowest weight of a triple: far from what single precision rounds to zero.
SMALLEST_OMEGA = 1e-30


@dataclass(frozen=True, eq=False)
class Unfolding:
    """Side-by-side unfoldings of some triples along one variable, each times its weight omega."""

    variable: int
    values: Tensor
    rows_a: Tensor
    rows_b: Tensor
    pairs_a: Tensor
    pairs_b: Tensor
    omega: Tensor

    @property
    def arrays(self) -> tuple[Tensor, ...]:
        """All arrays in the order of the fields."""
        return self.values, self.rows_a, self.rows_b, self.pairs_a, self.pairs_b, self.omega

    @cached_property
    def filled(self) -> tuple[np.ndarray, np.ndarray]:
        """Cells of NumPy's values in which samples fell: flat positions, and contents."""
        flat = self.values.ravel()
        cells = np.flatnonzero(flat)
        return cells, flat[cells]


@dataclass(frozen=True, eq=False)
class CoupledTensors:
    """Third-order tensors that share factors and weights, ready for the solver.

    Attributes
    ----------
    n_bins : tuple of int
    blocks : tuple of Unfolding
        One per variable: all triples that contain it.
    cover : tuple of Unfolding
        Every triple once.
    omega : ndarray (n_tensors,)
        Weights of the tensors, one on average.
    totals : ndarray (n_tensors,)
        Sums of their entries, by which they are divided.
    negative_entropy : float
        sum of omega X log X, the part of the KL loss that no factor changes.
    squared_norm : float
        sum of omega X^2, the same for the Frobenius loss.
    univariate_marginals : tuple of ndarray (n_bins[n],)
        Share of samples per bin of each variable.
    context : dict
        dtype and device, as of ``tensorly.context``.
    n_samples : int
        0 where unknown.
    triples : ndarray of int (n_triples, 3) or None
        Variables of the tensors, j < k < l, each triple once; None for all of samples.
    """

    n_bins: tuple[int, ...]
    blocks: tuple[Unfolding, ...]
    cover: tuple[Unfolding, ...]
    omega: np.ndarray
    totals: np.ndarray
    negative_entropy: float
    squared_norm: float
    univariate_marginals: tuple[np.ndarray, ...]
    context: dict[str, Any]
    n_samples: int
    triples: np.ndarray | None


def require_coverage(covered: np.ndarray, variables: Sequence[Hashable]) -> None:
    """Refuse data in which a variable is not among those, by index, that some complete triple contains."""
    known = set(covered.ravel().tolist())
    lost = [name for n, name in enumerate(variables) if n not in known]
    if lost:
        raise InvalidInputError(f"Variables {lost} have no sample that is complete in any counted triple; drop them.")


def couple_tensors(
    data: Marginals | ReadTensors, weights: str, dtype: Any = None, device: Any = None
) -> CoupledTensors:
    """Coupled tensors of histograms, of which those without samples are left out, or of a user, on their device.

    Parameters
    ----------
    data : Marginals or ReadTensors
    weights : {"count", "uniform"}
    dtype, device : optional
        Of the sweeps, see `checked_context`; by default those of the first tensor.
    """
    context = checked_context(dtype, device, data.first if isinstance(data, ReadTensors) else None)
    keep = np.flatnonzero(data.totals > 0)
    modes = data.triples[keep]
    totals = data.totals[keep]
    require_coverage(modes, range(len(data.n_bins)) if data.binning is None else data.binning.variables)
    # One on average, so that complete data gives the paper's plain sum. Not zero: a variable in no other triple would
    # be left without a factor.
    omega = np.ones(len(totals)) if weights == "uniform" else np.maximum(totals / totals.mean(), SMALLEST_OMEGA)

    def share(t: int) -> Tensor:
        """A tensor divided by its sum, one at a time, so that there is no second copy of them all."""
        return data.counts[keep[t]] / float(totals[t])

    blocks, cover = _blocks_and_cover(share, modes, omega, data.n_bins, context)
    entropy = 0.0
    squares = 0.0
    for t, weight in enumerate(omega.tolist()):
        tensor = share(t)
        if isinstance(tensor, np.ndarray):  # histograms, on every backend
            positive = tensor[tensor > 0]
            entropy += weight * float((positive * np.log(positive)).sum())
        else:  # where it is zero the logarithm is of a number so small that the product is
            entropy += weight * float((tensor * tl.log(tl.clip(tensor, tiny(tensor)))).sum())
        squares += weight * float((tensor * tensor).sum())
    univariate = [to_numpy(tl.sum(block.values, axis=1)) for block in blocks]
    return CoupledTensors(
        n_bins=data.n_bins,
        blocks=blocks,
        cover=cover,
        omega=omega,
        totals=totals,
        negative_entropy=entropy,
        squared_norm=squares,
        univariate_marginals=tuple(total / total.sum() for total in univariate),
        context=context,
        n_samples=data.n_samples,
        triples=np.unique(np.sort(modes, axis=1), axis=0),
    )


def _blocks_and_cover(
    share: Callable[[int], Tensor],
    modes: np.ndarray,
    omega: np.ndarray,
    n_bins: tuple[int, ...],
    context: dict[str, Any],
) -> tuple[tuple[Unfolding, ...], tuple[Unfolding, ...]]:
    """Unfoldings of all tensors by variable, and of every tensor once, in the same memory where the backend lets them.

    Every tensor is led by one of its variables, and those that a variable leads come first in its unfolding.
    """
    offsets = np.concatenate([[0], np.cumsum(n_bins)])
    containing: list[list[int]] = [[] for _ in n_bins]
    leading: list[list[int]] = [[] for _ in n_bins]
    for t, mode in enumerate(modes.tolist()):
        for n in mode:
            containing[n].append(t)
        leading[min(mode, key=lambda n: len(leading[n]))].append(t)
    blocks = []
    cover = []
    for n, led in enumerate(leading):
        members = led + [t for t in containing[n] if t not in set(led)]
        parts = [(share(t), modes[t], omega[t]) for t in members]
        unfolding, of_leading = _unfold(n, parts, len(led), offsets, context)
        blocks.append(unfolding)
        if led:
            cover.append(of_leading)
    return tuple(blocks), tuple(cover)


def _unfold(
    n: int,
    members: list[tuple[Tensor, np.ndarray, float]],
    n_leading: int,
    offsets: np.ndarray,
    context: dict[str, Any],
) -> tuple[Unfolding, Unfolding]:
    """Unfoldings along a variable of all tensors, and of the first ones alone."""
    values = []
    rows_a = []
    rows_b = []
    pairs = []
    for tensor, mode, omega in members:
        axis = mode.tolist().index(n)
        a, b = (int(m) for m in mode if m != n)
        size_b = tensor.shape[2 if axis < 2 else 1]
        is_numpy = isinstance(tensor, np.ndarray)
        unfolded = (np if is_numpy else tl).moveaxis(omega * tensor, axis, 0).reshape((tensor.shape[axis], -1))
        filled = np.arange(unfolded.shape[1])
        if is_numpy:  # without columns in which no sample fell; GPU tensors keep them, to avoid a transfer
            filled = np.flatnonzero(unfolded.any(axis=0))
            unfolded = unfolded.take(filled, axis=1)
        values.append(unfolded)
        rows_a.append(offsets[a] + filled // size_b)
        rows_b.append(offsets[b] + filled % size_b)
        pairs.append((a, b))
    matrix = (np if is_numpy else tl).concatenate(values, axis=1)
    if tl.get_backend() == "numpy":
        matrix = as_tensor(matrix, context)
    rows = [np.concatenate(rows_a), np.concatenate(rows_b)]
    weights = np.array([omega for *_, omega in members])

    def of_first(number: int) -> Unfolding:
        n_columns = sum(len(part) for part in rows_a[:number])
        n_more = 0
        # Empty columns change nothing. JAX compiles once per shape, so there had better be few shapes: the numbers that
        # have four binary digits before their zeros, an eighth more at most.
        if tl.get_backend() == "jax":
            n_more = -n_columns % 2 ** max(0, n_columns.bit_length() - 4)
        part = matrix[:, :n_columns]
        indices = [row[:n_columns] for row in rows]
        if n_more:
            indices = [np.pad(row, (0, n_more)) for row in indices]
            more = np.zeros((len(part), n_more)) if is_numpy else 0.0 * part[:, :1].repeat(n_more, 1)
            part = (np if is_numpy else tl).concatenate([part, more], axis=1)
        row_a, row_b = (index_tensor(row, context) for row in indices)
        pair_a, pair_b = (index_tensor(side[:number], context) for side in np.array(pairs).T)
        weight = as_tensor(weights[:number], context)
        return Unfolding(n, as_tensor(part, context), row_a, row_b, pair_a, pair_b, weight)

    return of_first(len(members)), of_first(n_leading)
