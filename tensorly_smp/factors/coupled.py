"""The coupled tensors, unfolded once so that a block update is two matrix products.

For variable n the mode-n unfoldings of all triples that contain it stand side by side in one matrix U_n
(n_bins[n], n_columns). Column c belongs to a pair of bins, one of each of the other two variables; ``rows_a[c]`` and
``rows_b[c]`` are the rows of these bins in the factors stacked over all variables, S. The weighted Khatri-Rao product
that goes with U_n is then S[rows_a] * S[rows_b] * w, whatever the numbers of bins, and a column in which no sample
fell is left out: it contributes nothing to a gradient (KL: the sum of the model over it is known, Frobenius: its model
part is in the Gram matrix).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tensorly as tl

from tensorly_smp._support.representations import shown
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.factors.arrays import Tensor, as_tensor, index_tensor, tiny
from tensorly_smp.factors.contexts import checked_context
from tensorly_smp.marginals.histograms import Marginals
from tensorly_smp.marginals.tensors import is_single_tensor, read_tensors, to_numpy

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
    offsets : ndarray of int (n_variables + 1,)
        First row of each variable in the stacked factors.
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
    offsets: np.ndarray
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

    @property
    def n_variables(self) -> int:
        """Number of variables."""
        return len(self.n_bins)


def couple_marginals(marginals: Marginals, weights: str, context: dict[str, Any] | None = None) -> CoupledTensors:
    """Coupled tensors of counted histograms, by default in float64; triples without samples are left out."""
    keep = np.flatnonzero(marginals.totals > 0)
    require_coverage(marginals.triples[keep], marginals.binning.variables)
    totals = marginals.totals[keep]
    tensors = _Shares([marginals.counts[t] for t in keep], totals)
    omega = _omega(totals, weights)
    context = context or checked_context()
    return _couple(tensors, marginals.triples[keep], omega, marginals.n_bins, context, marginals.n_samples)


def require_coverage(covered: np.ndarray, variables: Sequence[Hashable]) -> None:
    """Refuse data in which a variable is not among those, by index, that some complete triple contains."""
    found = set(covered.ravel().tolist())
    lost = [name for n, name in enumerate(variables) if n not in found]
    if lost:
        raise InvalidInputError(
            f"Variables {lost} have no sample that is complete in any counted triple. Remove them, or add samples in "
            "which they are observed together with two others."
        )


def couple_tensors(
    data: Any, modes: Sequence[Sequence[int]] | None, weights: str, dtype: Any = None, device: Any = None
) -> CoupledTensors:
    """Coupled tensors of third-order arrays of the active backend, which stay on their device; see `read_tensors`.

    Each is divided by its sum. The dtype and the device are by default those of the first.
    """
    tensors, mode_array, n_bins, totals = read_tensors(data, modes)
    first = data if is_single_tensor(data) else data[0]
    context = checked_context(dtype, device, first)
    return _couple(_Shares(tensors, totals), mode_array, _omega(totals, weights), n_bins, context, 0)


def _omega(totals: np.ndarray, weights: str) -> np.ndarray:
    """Weights of the triples, one on average, so that complete data gives the paper's plain sum."""
    check_weights(weights)
    if weights == "uniform":
        return np.ones(len(totals))
    # Not zero: a variable in no other triple would be left without a factor.
    return np.maximum(totals / totals.mean(), SMALLEST_OMEGA)


def check_weights(weights: Any) -> None:
    """Refuse a name of weights that is none."""
    if not isinstance(weights, str) or weights not in ("count", "uniform"):
        raise InvalidInputError(f'weights is {shown(weights)}; expected "count" or "uniform".')


@dataclass(frozen=True, eq=False)
class _Shares:
    """Tensors divided by their sums, one at a time, so that there is no second copy of them all."""

    counts: Sequence[Tensor]
    totals: np.ndarray

    def __getitem__(self, position: int) -> Tensor:
        return self.counts[position] / float(self.totals[position])


def _couple(
    tensors: _Shares,
    modes: np.ndarray,
    omega: np.ndarray,
    n_bins: tuple[int, ...],
    context: dict[str, Any],
    n_samples: int,
) -> CoupledTensors:
    offsets = np.concatenate([[0], np.cumsum(n_bins)])
    containing: list[list[int]] = [[] for _ in n_bins]
    leading: list[list[int]] = [[] for _ in n_bins]
    for t, mode in enumerate(modes.tolist()):
        for n in mode:
            containing[n].append(t)
        leading[min(mode, key=lambda n: len(leading[n]))].append(t)

    def unfold(n: int) -> tuple[Unfolding, Unfolding | None]:
        led = set(leading[n])
        members = leading[n] + [t for t in containing[n] if t not in led]
        return _unfold(n, [(tensors[t], modes[t], omega[t]) for t in members], len(leading[n]), offsets, context)

    unfolded = [unfold(n) for n in range(len(n_bins))]
    entropy = 0.0
    squares = 0.0
    for t, weight in enumerate(omega.tolist()):
        share = tensors[t]
        entropy += weight * _x_log_x(share)
        squares += weight * float((share * share).sum())
    return CoupledTensors(
        n_bins=n_bins,
        offsets=offsets,
        blocks=tuple(block for block, _ in unfolded),
        cover=tuple(part for _, part in unfolded if part is not None),
        omega=omega,
        totals=tensors.totals,
        negative_entropy=entropy,
        squared_norm=squares,
        univariate_marginals=tuple(_univariate_marginal(block) for block, _ in unfolded),
        context=context,
        n_samples=n_samples,
        triples=np.unique(np.sort(modes, axis=1), axis=0),
    )


def _x_log_x(tensor: Tensor) -> float:
    if isinstance(tensor, np.ndarray):
        positive = tensor[tensor > 0]
        return float(positive @ np.log(positive))
    # Where it is zero the logarithm is of a number so small that the product is.
    return float((tensor * tl.log(tl.clip(tensor, tiny(tensor)))).sum())


def _univariate_marginal(block: Unfolding) -> np.ndarray:
    total = to_numpy(tl.sum(block.values, axis=1))
    return np.asarray(total / total.sum())


def _unfold(
    n: int,
    members: list[tuple[Tensor, np.ndarray, float]],
    n_leading: int,
    offsets: np.ndarray,
    context: dict[str, Any],
) -> tuple[Unfolding, Unfolding | None]:
    """Unfoldings of all tensors, and of the first ones alone, in the same memory where the backend lets them be."""
    values = []
    rows_a = []
    rows_b = []
    pairs = []
    for tensor, mode, omega in members:
        axis = mode.tolist().index(n)
        a, b = (int(m) for m in mode if m != n)
        size_b = tensor.shape[2 if axis < 2 else 1]
        unfolded, filled = _filled_columns(omega * tensor, axis)
        values.append(unfolded)
        rows_a.append(offsets[a] + filled // size_b)
        rows_b.append(offsets[b] + filled % size_b)
        pairs.append((a, b))
    is_numpy = isinstance(values[0], np.ndarray)
    matrix = np.concatenate(values, axis=1) if is_numpy else tl.concatenate(values, axis=1)
    if tl.get_backend() == "numpy":
        matrix = as_tensor(matrix, context)
    rows = [np.concatenate(rows_a), np.concatenate(rows_b)]
    sides = np.array(pairs).T
    weights = np.array([omega for *_, omega in members])

    def of_first(number: int) -> Unfolding:
        n_columns = sum(len(part) for part in rows_a[:number])
        more = _n_more_columns(n_columns)
        part = as_tensor(_padded(matrix[:, :n_columns], more), context)
        row_a, row_b = (index_tensor(np.pad(row[:n_columns], (0, more)), context) for row in rows)
        pair_a, pair_b = (index_tensor(side[:number], context) for side in sides)
        return Unfolding(n, part, row_a, row_b, pair_a, pair_b, as_tensor(weights[:number], context))

    return of_first(len(members)), of_first(n_leading) if n_leading else None


def _filled_columns(tensor: Tensor, axis: int) -> tuple[Tensor, np.ndarray]:
    """Unfolding along an axis without the columns in which no sample fell, and the numbers of those that are left.

    Of a tensor that is on a device of its own all are left: which are empty would have to come to the host.
    """
    size = int(tensor.shape[axis])
    if not isinstance(tensor, np.ndarray):
        unfolded = tl.moveaxis(tensor, axis, 0).reshape((size, -1))
        return unfolded, np.arange(unfolded.shape[1])
    unfolded = np.moveaxis(tensor, axis, 0).reshape(size, -1)
    filled = np.flatnonzero(unfolded.any(axis=0))
    return unfolded.take(filled, axis=1), filled


def _padded(matrix: Tensor, n_more: int) -> Tensor:
    """The matrix with so many columns of zeros more."""
    if not n_more:
        return matrix
    if isinstance(matrix, np.ndarray):
        return np.pad(matrix, ((0, 0), (0, n_more)))
    return tl.concatenate([matrix, 0.0 * matrix[:, :1].repeat(n_more, 1)], axis=1)


def _n_more_columns(n_columns: int) -> int:
    """Empty columns to add, which change nothing: JAX compiles once per shape, so there had better be few shapes.

    Up to the next of the numbers that have four binary digits before their zeros: an eighth more at most.
    """
    if tl.get_backend() != "jax":
        return 0
    return -n_columns % 2 ** max(0, n_columns.bit_length() - 4)
