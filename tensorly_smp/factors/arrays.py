"""The few array operations that the solver needs beyond operators, on any TensorLy backend.

TensorLy's backend is used here and nowhere else in the numerical code; everything that needs NumPy or SciPy proper
(histograms, generalized eigenvalues, densities) starts with :func:`to_numpy`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorly as tl

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
    # The shape that broadcasts along the other axes.
    shape = [-1 if dimension == axis % tl.ndim(tensor) else 1 for dimension in range(tl.ndim(tensor))]
    kept = [1 if dimension == -1 else n for dimension, n in zip(shape, tensor.shape, strict=True)]
    tensor = tensor - tl.reshape(tl.max(tensor, axis), kept)
    counts = tl.reshape(tl.arange(1, tensor.shape[axis] + 1, 1, **tl.context(tensor)), shape)
    upwards = tl.sort(-tensor, axis=axis)
    theta = tl.max((-1.0 - tl.cumsum(upwards, axis)) / counts, axis)
    return tl.clip(tensor - tl.reshape(theta, kept), 0.0)
