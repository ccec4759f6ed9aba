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

from tensorly_smp.codes.binning import Binning
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.factors.arrays import Tensor, as_tensor, index_tensor, to_numpy
from tensorly_smp.factors.contexts import checked_context
from tensorly_smp.marginals.histograms import Marginals
from tensorly_smp.representations import reason, shown

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
        """All but the variable, in the order in which they are given."""
        return self.values, self.rows_a, self.rows_b, self.pairs_a, self.pairs_b, self.omega

    @cached_property
    def filled(self) -> tuple[np.ndarray, np.ndarray]:
        """Of NumPy's values: positions, flattened, of the cells in which samples fell, and what is in these."""
        flat = self.values.ravel()
        cells = np.flatnonzero(flat)
        return cells, flat[cells]


@dataclass(frozen=True, eq=False)
class CoupledTensors:
    """Third-order tensors that share factors, ready for the solver.

    Attributes
    ----------
    n_bins : tuple of int
    offsets : ndarray of int (n_variables + 1,)
        First row of each variable in the stacked factors.
    blocks : tuple of Unfolding
        One per variable: all triples that contain it.
    cover : tuple of Unfolding
        Every triple once.
    omega_total : float
        Sum of the weights.
    self_information : float
        sum of omega X log X, the part of the KL loss that no factor changes.
    energy : float
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
    omega_total: float
    self_information: float
    energy: float
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
    tensors: Sequence[Tensor],
    modes: Sequence[Sequence[int]],
    weights: str,
    dtype: Any = None,
    device: Any = None,
) -> CoupledTensors:
    """Coupled tensors of a list of third-order arrays of the active backend; each is divided by its sum.

    The dtype and the device are by default those of the first.
    """
    tensors = list(tensors)
    arrays = [_checked_tensor(tensor, position) for position, tensor in enumerate(tensors)]
    mode_array = _checked_modes(modes, len(arrays))
    n_bins = _checked_sizes(arrays, mode_array)
    with np.errstate(over="ignore"):
        totals = np.array([a.sum() for a in arrays])
        overflow = not np.isfinite(totals.sum())
    if overflow:
        raise InvalidInputError("The tensors sum to more than the largest number; divide them all by the same number.")
    if (totals <= 0).any():
        raise InvalidInputError(f"Tensor {int(np.argmin(totals))} is all zero; leave it out.")
    context = checked_context(dtype, device, tensors[0])
    return _couple(_Shares(arrays, totals), mode_array, _omega(totals, weights), n_bins, context, 0)


def tensors_to_marginals(tensors: Sequence[Tensor], modes: Sequence[Sequence[int]]) -> Marginals:
    """Checked tensors as Marginals of unknown sample size, each mode sorted to j < k < l."""
    counts, triples = [], []
    for tensor, mode in zip(tensors, modes, strict=True):
        order = np.argsort(mode)
        counts.append(to_numpy(tensor).transpose(order))
        triples.append([int(mode[axis]) for axis in order])
    sizes = {
        n: size
        for triple, count in zip(triples, counts, strict=True)
        for n, size in zip(triple, count.shape, strict=True)
    }
    if single := [n for n, size in sizes.items() if size < 2]:
        raise InvalidInputError(
            f"The tensors have a single entry along mode(s) {single}, as modes= numbers them, which tells components "
            "not "
            'apart; expected at least 2 for an algebraic start. Take init="random".'
        )
    totals = np.array([count.sum() for count in counts])
    binning = Binning.from_n_bins([sizes[n] for n in sorted(sizes)])
    return Marginals(tuple(counts), np.array(triples), totals, binning, 0)


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


def _checked_tensor(tensor: Tensor, position: int) -> np.ndarray:
    if not tl.is_tensor(tensor) and not isinstance(tensor, np.ndarray | list | tuple):
        raise InvalidTypeError(
            f"Tensor {position} is {type(tensor).__name__}; expected an array of the active TensorLy backend "
            f'("{tl.get_backend()}"; see tensorly.set_backend).'
        )
    try:
        array = np.asarray(tl.to_numpy(tensor) if tl.is_tensor(tensor) else tensor)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise InvalidTypeError(f"Tensor {position} is not numeric: {reason(error)}.") from error
    if array.dtype.kind not in "biuf":
        raise InvalidTypeError(f"Tensor {position} is of type {array.dtype}; expected real numbers.")
    if np.ma.is_masked(tensor):
        raise InvalidInputError(f"Tensor {position} has masked entries; expected all of them to be known.")
    array = array.astype(np.float64)
    if array.ndim != 3 or array.size == 0:
        raise InvalidInputError(f"Tensor {position} has shape {array.shape}; expected three non-empty modes.")
    if np.isnan(array).any():
        raise InvalidInputError(
            f"Tensor {position} has NaN entries, and incomplete tensors are not supported; expected every entry to be "
            "known. Sum the tensor over a mode or take slices without NaN; of samples with missing entries, count the "
            "histograms by count_marginals."
        )
    if not np.isfinite(array).all() or (array < 0).any():
        raise InvalidInputError(
            f"Tensor {position} has entries that are negative or infinite; expected counts or probabilities."
        )
    return array


def _checked_modes(modes: Sequence[Sequence[int]], n_tensors: int) -> np.ndarray:
    try:
        array = np.asarray(modes)
    except ValueError as error:
        raise InvalidInputError(f"modes must name three variables per tensor: {reason(error)}.") from error
    if array.shape != (n_tensors, 3) or n_tensors == 0:
        raise InvalidInputError(f"modes has shape {array.shape}; expected ({n_tensors}, 3): one triple per tensor.")
    if array.dtype.kind not in "iu":
        raise InvalidTypeError(f"modes are of type {array.dtype}; expected integer variable indices.")
    repeated = [tuple(mode) for mode in array.tolist() if len(set(mode)) < 3]
    if repeated:
        raise InvalidInputError(f"modes {repeated[0]} repeat a variable; the three of a tensor must differ.")
    used = np.unique(array).tolist()
    if used != list(range(len(used))):
        missing = sorted(set(range(len(used))) - set(used))
        raise InvalidInputError(
            f"modes name variables from {used[0]} to {used[-1]}; expected all from 0 to the largest, but {missing} are "
            "in no tensor. Number the variables without gaps."
        )
    return array.astype(np.intp)


def _checked_sizes(arrays: list[np.ndarray], modes: np.ndarray) -> tuple[int, ...]:
    sizes: dict[int, int] = {}
    for position, (array, mode) in enumerate(zip(arrays, modes.tolist(), strict=True)):
        for n, size in zip(mode, array.shape, strict=True):
            if sizes.setdefault(n, size) != size:
                raise InvalidInputError(
                    f"Tensor {position} has {size} entries along variable {n}, an earlier one {sizes[n]}."
                )
    return tuple(sizes[n] for n in range(len(sizes)))


@dataclass(frozen=True, eq=False)
class _Shares:
    """Tensors divided by their sums, one at a time, so that there is no second copy of them all."""

    counts: list[np.ndarray]
    totals: np.ndarray

    def __getitem__(self, position: int) -> np.ndarray:
        return self.counts[position] / self.totals[position]


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
    information, energy = 0.0, 0.0
    for t, weight in enumerate(omega.tolist()):
        share = tensors[t]
        information += weight * _x_log_x(share)
        energy += weight * float((share**2).sum())
    return CoupledTensors(
        n_bins=n_bins,
        offsets=offsets,
        blocks=tuple(block for block, _ in unfolded),
        cover=tuple(part for _, part in unfolded if part is not None),
        omega_total=float(omega.sum()),
        self_information=information,
        energy=energy,
        univariate_marginals=tuple(_univariate_marginal(block) for block, _ in unfolded),
        context=context,
        n_samples=n_samples,
        triples=np.unique(np.sort(modes, axis=1), axis=0),
    )


def _x_log_x(tensor: np.ndarray) -> float:
    positive = tensor[tensor > 0]
    return float(positive @ np.log(positive))


def _univariate_marginal(block: Unfolding) -> np.ndarray:
    total = to_numpy(tl.sum(block.values, axis=1))
    return np.asarray(total / total.sum())


def _unfold(
    n: int,
    members: list[tuple[np.ndarray, np.ndarray, float]],
    n_leading: int,
    offsets: np.ndarray,
    context: dict[str, Any],
) -> tuple[Unfolding, Unfolding | None]:
    """Unfoldings of all tensors, and of the first ones alone, in the same memory where the backend lets them be."""
    values, rows_a, rows_b, pairs = [], [], [], []
    for tensor, mode, omega in members:
        axis = mode.tolist().index(n)
        a, b = (int(m) for m in mode if m != n)
        unfolded = omega * np.moveaxis(tensor, axis, 0)
        size_b = unfolded.shape[2]
        unfolded = unfolded.reshape(len(unfolded), -1)
        filled = np.flatnonzero(unfolded.any(axis=0))
        values.append(unfolded.take(filled, axis=1))
        rows_a.append(offsets[a] + filled // size_b)
        rows_b.append(offsets[b] + filled % size_b)
        pairs.append((a, b))
    matrix = np.concatenate(values, axis=1)
    if tl.get_backend() == "numpy":
        matrix = as_tensor(matrix, context)
    rows, sides = [np.concatenate(rows_a), np.concatenate(rows_b)], np.array(pairs).T
    weights = np.array([omega for *_, omega in members])

    def of_first(number: int) -> Unfolding:
        n_columns = sum(part.shape[1] for part in values[:number])
        more, part = _n_more_columns(n_columns), matrix[:, :n_columns]
        part = as_tensor(np.pad(part, ((0, 0), (0, more))) if more else part, context)
        row_a, row_b = (index_tensor(np.pad(row[:n_columns], (0, more)), context) for row in rows)
        pair_a, pair_b = (index_tensor(side[:number], context) for side in sides)
        return Unfolding(n, part, row_a, row_b, pair_a, pair_b, as_tensor(weights[:number], context))

    return of_first(len(members)), of_first(n_leading) if n_leading else None


def _n_more_columns(n_columns: int) -> int:
    """Empty columns to add, which change nothing: JAX compiles once per shape, so there had better be few shapes.

    Up to the next of the numbers that have four binary digits before their zeros: an eighth more at most.
    """
    if tl.get_backend() != "jax":
        return 0
    return -n_columns % 2 ** max(0, n_columns.bit_length() - 4)
