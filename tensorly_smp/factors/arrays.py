"""The few array operations that the solver needs beyond operators and TensorLy's own, on any TensorLy backend.

Tensors of a user are checked where they are (:mod:`tensorly_smp.marginals.tensors`); otherwise arrays of the backend
are computed with in this folder only. What needs NumPy or SciPy proper (histograms, generalized eigenvalues, densities)
starts with a copy that :func:`tensorly_smp.marginals.tensors.to_numpy` has made. Where the backends differ, the
functions here say how; for the whole solver compiled, see :mod:`tensorly_smp.factors.compilation`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorly as tl
from scipy.linalg.blas import dger, sger
from scipy.sparse import csc_array

#: Numbers of an array that is worked on in pieces, so that what a pass touches stays in the processor's cache.
CACHED = 50_000

#: An array of the active TensorLy backend.
Tensor = Any


def as_tensor(array: np.ndarray, context: dict[str, Any]) -> Tensor:
    """Array in the backend, dtype and device of ``context``; the array itself where it is that already."""
    if tl.get_backend() == "numpy":
        return np.asarray(array, dtype=context["dtype"])
    return on_device(array, context, context["dtype"])


def index_tensor(index: np.ndarray, context: dict[str, Any]) -> Tensor:
    """Integer tensor for :func:`take`, on the device of ``context``."""
    if tl.get_backend() == "numpy":
        return index.astype(np.intp)
    return on_device(index.astype(np.int32), context)


def on_device(array: Any, context: dict[str, Any], dtype: Any = None) -> Tensor:
    """The array, of NumPy or the backend, on the device of ``context``, in its own dtype or another one."""
    # TensorLy's function knows no device in JAX, and in PyTorch goes there by way of the default one.
    if tl.get_backend() == "jax":
        import jax

        if isinstance(array, jax.Array):
            array = array if dtype is None else array.astype(dtype)
        else:
            array = np.asarray(array, dtype=dtype)
        return jax.device_put(array, context.get("device"))
    if tl.get_backend() == "pytorch":
        import torch

        if isinstance(array, torch.Tensor):
            return array.to(dtype=dtype, device=context.get("device"))
        return torch.tensor(array, dtype=dtype, device=context.get("device"))
    return tl.tensor(array, dtype=dtype)


def take(tensor: Tensor, index: Tensor) -> Tensor:
    """Rows of a tensor; ``take`` and ``index_select`` are three times faster than indexing in NumPy and PyTorch."""
    if tl.get_backend() == "numpy":
        return tensor.take(index, axis=0)
    if tl.get_backend() == "pytorch":
        return tensor.index_select(0, index)
    return tensor[index]


class ScatterAdd:
    """Weighted rows of a matrix of NumPy, added up by index: the adjoint of :func:`take`.

    Parameters
    ----------
    weights : ndarray (n_samples,)
        What every row is multiplied with.
    n_rows : int
        All indices are below.
    """

    def __init__(self, weights: np.ndarray, n_rows: int) -> None:
        # An indicator matrix with one entry per column, whose rows are overwritten call by call: making a new one would
        # take half as long again, bincount component by component four times as long.
        start = np.arange(len(weights) + 1, dtype=np.int32)
        self.one_hot = csc_array((weights, np.zeros_like(start[1:]), start), shape=(n_rows, len(weights)))

    def __call__(self, values: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Sums (n_rows, rank) of weights[m] * values[m] over the m of every index."""
        self.one_hot.indices[:] = index
        return self.one_hot @ values


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


def tiny(tensor: Tensor) -> float:
    """Keeps a quotient finite: far below any probability, and its reciprocal far below the largest number."""
    return 1e-200 if tensor.dtype == tl.backend.float64 else 1e-30


def floor(tensor: Tensor) -> float:
    """Smallest factor entry: products of three stay clear of subnormal numbers, which are slow."""
    return 1e-60 if tensor.dtype == tl.backend.float64 else 1e-12


def resolution(tensor: Tensor) -> float:
    """Distance from one to the next larger number."""
    return float(np.finfo(np.float64 if tensor.dtype == tl.backend.float64 else np.float32).eps)


def divide(numerator: Tensor, denominator: Tensor) -> Tensor:
    """Quotient; in NumPy it overwrites the denominator, since a new array of this size costs page faults."""
    if tl.get_backend() == "numpy":
        return np.divide(numerator, denominator, out=denominator)
    return numerator / denominator


def normalize(tensor: Tensor, axis: int) -> Tensor:
    """Divide by the sums along ``axis``."""
    return tensor / tl.sum(tensor, axis=axis, keepdims=True)


def project_simplex(tensor: Tensor, axis: int) -> Tensor:
    """Euclidean projection of every line along ``axis`` onto the probability simplex.

    max(v - theta, 0) with theta = max_k (u_1 + ... + u_k - 1) / k for u = v sorted downwards. Zeroing negative entries
    and rescaling is not the projection. A constant added to a line changes nothing: with its largest entry at zero the
    result sums to one however large the entries are.
    """
    if tl.get_backend() == "numpy":
        return _project_simplex_numpy(tensor, axis)
    # The shape that broadcasts along the other axes.
    shape = [-1 if dimension == axis % tl.ndim(tensor) else 1 for dimension in range(tl.ndim(tensor))]
    kept = [1 if dimension == -1 else n for dimension, n in zip(shape, tensor.shape, strict=True)]
    tensor = tensor - tl.reshape(tl.max(tensor, axis), kept)
    counts = tl.reshape(tl.arange(1, tensor.shape[axis] + 1, 1, **tl.context(tensor)), shape)
    upwards = tl.sort(-tensor, axis=axis)
    theta = tl.max((-1.0 - tl.cumsum(upwards, axis)) / counts, axis)
    return tl.clip(tensor - tl.reshape(theta, kept), 0.0)


def _project_simplex_numpy(array: np.ndarray, axis: int) -> np.ndarray:
    """NumPy's twin with half the calls: the matrices are so small that calls are what takes time."""
    shifted = array - array.max(axis=axis, keepdims=True)
    theta = np.sort(-shifted, axis=axis).cumsum(axis=axis)
    theta += 1.0
    counts = np.arange(1, array.shape[axis] + 1, dtype=array.dtype)
    theta /= counts.reshape(-1, *[1] * (array.ndim - 1 - axis % array.ndim))
    # The cumulative sums have the opposite sign, so that the largest quotient is the smallest here.
    shifted += theta.min(axis=axis, keepdims=True)
    return np.maximum(shifted, 0.0, out=shifted)
