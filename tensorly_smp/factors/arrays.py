"""The few array operations that the solver needs beyond operators, on any TensorLy backend.

TensorLy's backend is used here and nowhere else in the numerical code; everything that needs NumPy or SciPy proper
(histograms, generalized eigenvalues, densities) starts with :func:`to_numpy`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorly as tl
from scipy.linalg.blas import dger
from scipy.sparse import csc_array

#: Numbers of an array that is worked on in pieces, so that what a pass touches stays in the processor's cache.
CACHED = 50_000

#: An array of the active TensorLy backend.
Tensor = Any


def to_numpy(tensor: Tensor) -> np.ndarray:
    """Float64 NumPy copy of a tensor of any backend."""
    return np.array(tl.to_numpy(tensor) if tl.is_tensor(tensor) else tensor, dtype=np.float64)


def as_tensor(array: np.ndarray, context: dict[str, Any]) -> Tensor:
    """Array in the backend, dtype and device of ``context``; the array itself where it is that already."""
    if tl.get_backend() == "numpy":
        return np.asarray(array, dtype=context["dtype"])
    return tl.tensor(array, **context)


def index_tensor(index: np.ndarray, context: dict[str, Any]) -> Tensor:
    """Integer tensor for :func:`take`, on the device of ``context``."""
    if tl.get_backend() == "numpy":
        return index.astype(np.intp)
    device = {"device": context["device"]} if "device" in context else {}
    return tl.tensor(index.astype(np.int32), dtype=tl.backend.int32, **device)


def take(tensor: Tensor, index: Tensor) -> Tensor:
    """Rows of a tensor; NumPy's ``take`` is three times faster than its fancy indexing."""
    if tl.get_backend() == "numpy":
        return tensor.take(index, axis=0)
    return tensor[index]


def code_tensor(codes: np.ndarray, context: dict[str, Any]) -> Tensor:
    """Bin indices for :func:`take` and :class:`ScatterAdd`; in NumPy they stay in their small integer type."""
    return codes if tl.get_backend() == "numpy" else index_tensor(codes, context)


class ScatterAdd:
    """Weighted rows of a matrix, added up by index: the adjoint of :func:`take`.

    Parameters
    ----------
    weights : tensor (n_samples,)
        What every row is multiplied with.
    n_rows : int
        All indices are below.
    """

    def __init__(self, weights: Tensor, n_rows: int) -> None:
        self.weights = weights
        if tl.get_backend() == "numpy":
            # An indicator matrix with one entry per column, whose rows are overwritten call by call: making a new one
            # would take half as long again, bincount component by component four times as long.
            start = np.arange(len(weights) + 1, dtype=np.int32)
            self.one_hot = csc_array((weights, np.zeros_like(start[1:]), start), shape=(n_rows, len(weights)))
        else:
            self.rows = index_tensor(np.arange(n_rows), tl.context(weights))

    def __call__(self, values: Tensor, index: Tensor) -> Tensor:
        """Sums (n_rows, rank) of weights[m] * values[m] over the m of every index."""
        if tl.get_backend() == "numpy":
            self.one_hot.indices[:] = index
            return self.one_hot @ values
        # TensorLy has no scatter: the weighted indicator matrix of this index, as a dense one.
        weighted = self.weights[None, :]
        return tl.where(index[None, :] == self.rows[:, None], weighted, 0.0 * weighted) @ values


def add_outer(matrix: Tensor, column: Tensor, row: Tensor) -> Tensor:
    """Matrix plus an outer product; in NumPy it overwrites the matrix (float64, in C order)."""
    if tl.get_backend() == "numpy":
        return dger(1.0, row, column, a=matrix.T, overwrite_a=True).T
    return matrix + column[:, None] * row[None, :]


def take_into(tensor: Tensor, index: Tensor, out: Tensor) -> Tensor:
    """Rows of a tensor; in NumPy written to ``out``, since a new array of the size of the samples costs page faults."""
    if tl.get_backend() == "numpy":
        return tensor.take(index, axis=0, out=out, mode="clip")  # "raise", the default, would copy twice
    return tensor[index]


def multiply_into(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
    """Product; in NumPy written to ``out``."""
    if tl.get_backend() == "numpy":
        return np.multiply(a, b, out=out)
    return a * b


def weighted_squares(weights: Tensor, matrix: Tensor) -> Tensor:
    """Sum over the rows of a matrix of their weight times their square, (n_columns,)."""
    if tl.get_backend() != "numpy":
        return weights @ (matrix * matrix)
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
    """The same with half the calls: the matrices are so small that these are what takes time."""
    shifted = array - array.max(axis=axis, keepdims=True)
    theta = np.sort(-shifted, axis=axis).cumsum(axis=axis)
    theta += 1.0
    counts = np.arange(1, array.shape[axis] + 1, dtype=array.dtype)
    theta /= counts.reshape(-1, *[1] * (array.ndim - 1 - axis % array.ndim))
    # The cumulative sums have the opposite sign, so that the largest quotient is the smallest here.
    shifted += theta.min(axis=axis, keepdims=True)
    return np.maximum(shifted, 0.0, out=shifted)
