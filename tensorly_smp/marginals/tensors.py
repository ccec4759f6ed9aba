"""Third-order tensors of any TensorLy backend as a user hands them in: read and checked where they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorly as tl

from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError


def is_single_tensor(data: Any) -> bool:
    """Tell whether `data` is one array, not a list of them."""
    return isinstance(data, np.ndarray) or tl.is_tensor(data)


def read_tensors(
    data: Any, modes: Sequence[Sequence[int]] | None
) -> tuple[list[Any], np.ndarray, tuple[int, ...], np.ndarray]:
    """Check one third-order tensor, or several that share variables; none of them leaves its device.

    Parameters
    ----------
    data : tensor or sequence of tensor
        Of the active backend, or array_like.
    modes : sequence of (j, k, l), optional
        Variables along the three modes of each, numbered from 0; may be left out for a single tensor.

    Returns
    -------
    tensors : list of tensor
        Of floating-point numbers; of NumPy float64.
    modes : ndarray of int (n_tensors, 3)
    n_bins : tuple of int
        Of every variable.
    totals : ndarray (n_tensors,)
        Sums of the entries, positive.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        Data that cannot be used; the message names the tensor.
    """
    is_one = is_single_tensor(data)
    if not is_one and (isinstance(data, str | bytes) or not isinstance(data, Sequence)):
        raise InvalidTypeError(
            f"data is {type(data).__name__}; expected Marginals, Codes, a third-order tensor, or a list of these with "
            "modes=."
        )
    listed = [data] if is_one else list(data)
    tensors = [_checked_tensor(tensor, position) for position, tensor in enumerate(listed)]
    if modes is None and len(tensors) == 1:
        modes = [(0, 1, 2)]
    if modes is None:
        raise InvalidInputError("A list of tensors needs modes=[(j, k, l), ...]: the variables along each one's modes.")
    mode_array = _checked_modes(modes, len(tensors))
    n_bins = _checked_sizes(tensors, mode_array)
    with np.errstate(over="ignore"):
        totals = np.array([float(tensor.sum()) for tensor in tensors])
        overflow = not np.isfinite(totals.sum())
    if overflow:
        raise InvalidInputError("The tensors sum to more than the largest number; divide them all by the same number.")
    if (totals <= 0).any():
        raise InvalidInputError(f"Tensor {int(np.argmin(totals))} is all zero; leave it out.")
    return tensors, mode_array, n_bins, totals


def to_numpy(tensor: Any) -> np.ndarray:
    """Float64 NumPy copy of a tensor of any backend, the active one or not."""
    if hasattr(tensor, "detach"):  # PyTorch's, which NumPy alone cannot read from a GPU, nor without a warning
        tensor = tensor.detach().cpu().numpy()
    array = np.asarray(tl.to_numpy(tensor) if tl.is_tensor(tensor) else tensor)
    if array.dtype.kind == "c":
        raise TypeError("complex numbers")
    return np.array(array, dtype=np.float64)


def _checked_tensor(tensor: Any, position: int) -> Any:
    if not tl.is_tensor(tensor) and not isinstance(tensor, np.ndarray | list | tuple):
        raise InvalidTypeError(
            f"Tensor {position} is {type(tensor).__name__}; expected an array of the active TensorLy backend "
            f'("{tl.get_backend()}"; see tensorly.set_backend).'
        )
    if np.ma.is_masked(tensor):
        raise InvalidInputError(f"Tensor {position} has masked entries; expected all of them to be known.")
    is_elsewhere = tl.is_tensor(tensor) and not isinstance(tensor, np.ndarray)
    array = _floating(tensor, position) if is_elsewhere else _float64(tensor, position)
    if array.ndim != 3 or 0 in array.shape:
        raise InvalidInputError(f"Tensor {position} has shape {tuple(array.shape)}; expected three non-empty modes.")
    least = float(array.min())
    if least != least:
        raise InvalidInputError(
            f"Tensor {position} has NaN entries, and incomplete tensors are not supported; expected every entry to be "
            "known. Sum the tensor over a mode or take slices without NaN; of samples with missing entries, count the "
            "histograms by count_marginals."
        )
    if not (least >= 0 and float(array.max()) < np.inf):
        raise InvalidInputError(
            f"Tensor {position} has entries that are negative or infinite; expected counts or probabilities."
        )
    return array


def _float64(tensor: Any, position: int) -> np.ndarray:
    try:
        array = np.asarray(tensor)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"Tensor {position} is not numeric: {error}.") from error
    if array.dtype.kind not in "biuf":
        raise InvalidTypeError(f"Tensor {position} is of type {array.dtype}; expected real numbers.")
    return array.astype(np.float64)


def _floating(tensor: Any, position: int) -> Any:
    """A tensor of PyTorch or JAX, on its device, in single or double precision."""
    if "complex" in str(tensor.dtype):
        raise InvalidTypeError(f"Tensor {position} is of type {tensor.dtype}; expected real numbers.")
    if hasattr(tensor, "detach"):
        tensor = tensor.detach()
    if tensor.dtype in (tl.backend.float32, tl.backend.float64):
        return tensor
    if tl.get_backend() == "pytorch":
        return tensor.to(tl.backend.float64)
    return tensor.astype(tl.backend.float64)


def _checked_modes(modes: Sequence[Sequence[int]], n_tensors: int) -> np.ndarray:
    try:
        array = np.asarray(modes)
    except ValueError as error:
        raise InvalidInputError(f"modes must name three variables per tensor: {error}.") from error
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


def _checked_sizes(tensors: list[Any], modes: np.ndarray) -> tuple[int, ...]:
    sizes: dict[int, int] = {}
    for position, (tensor, mode) in enumerate(zip(tensors, modes.tolist(), strict=True)):
        for n, size in zip(mode, tensor.shape, strict=True):
            if sizes.setdefault(n, int(size)) != size:
                raise InvalidInputError(
                    f"Tensor {position} has {size} entries along variable {n}, an earlier one {sizes[n]}."
                )
    return tuple(sizes[n] for n in range(len(sizes)))
