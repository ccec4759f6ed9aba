"""The few array operations that the solver needs beyond operators and TensorLy's own, on any TensorLy backend.

Tensors of a user are checked where they are (:mod:`tensorly_smp.marginals.histograms`); otherwise arrays of the backend
are computed with in this folder only. What needs NumPy or SciPy proper (histograms, generalized eigenvalues, densities)
starts with a copy that :func:`tensorly_smp.marginals.histograms.to_numpy` has made. Where the backends differ, the
functions here say how: arrays, dtype and device, and loops that JAX compiles and the other backends run as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, TypeVar

import numpy as np
import tensorly as tl

from tensorly_smp._support.representations import shown
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError

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


Function = TypeVar("Function", bound=Callable[..., Any])
Carry = TypeVar("Carry")


def compiled(static: tuple[int, ...] = ()) -> Callable[[Function], Function]:
    """Decorator: on JAX the function is compiled, once per shapes and per static arguments; else it is called as it is.

    Parameters
    ----------
    static : tuple of int
        Positions of the arguments that are no arrays: hashable, and equal where they mean the same.

    Notes
    -----
    Arguments are given by position: arrays, numbers, None, and tuples (also named ones) of these. The cache belongs to
    the process: all starts, and later fits of the same shapes, share what was compiled.
    """

    def decorate(function: Function) -> Function:
        @wraps(function)
        def call(*arguments: Any) -> Any:
            if tl.get_backend() != "jax":
                return function(*arguments)
            return _jit(function, static)(*arguments)

        return call  # type: ignore[return-value]

    return decorate


@cache
def _jit(function: Callable[..., Any], static: tuple[int, ...]) -> Callable[..., Any]:
    import jax

    @wraps(function)
    def traced(*arguments: Any) -> Any:
        # JAX would multiply single-precision matrices in fewer bits where the hardware can.
        with jax.default_matmul_precision("highest"):
            return function(*arguments)

    return jax.jit(traced, static_argnums=static)


def while_loop(condition: Callable[[Carry], Tensor], body: Callable[[Carry], Carry], carry: Carry) -> Carry:
    """``while condition(carry): carry = body(carry)``; JAX runs it on the device, with types and shapes that stay."""
    if tl.get_backend() == "jax":
        from jax import lax

        return lax.while_loop(condition, body, carry)
    while bool(condition(carry)):
        carry = body(carry)
    return carry


def choose(condition: Tensor, one: Any, other: Any) -> Any:
    """``one if condition else other``, of a scalar condition; JAX has both and picks on the device."""
    if tl.get_backend() == "jax":
        return tl.where(condition, one, other)
    return one if bool(condition) else other


def if_needed(condition: Tensor, function: Callable[[], Tensor], otherwise: Tensor) -> Tensor:
    """``function() if condition else otherwise``, the function being called where it is needed only."""
    if tl.get_backend() == "jax":
        from jax import lax

        return lax.cond(condition, function, lambda: otherwise)
    return function() if bool(condition) else otherwise


def repeat(n: int, body: Callable[[Carry], Carry], carry: Carry) -> Carry:
    """The body n times; JAX compiles it once, not n copies of it."""
    if tl.get_backend() == "jax":
        from jax import lax

        return lax.fori_loop(0, n, lambda _, current: body(current), carry)
    for _ in range(n):
        carry = body(carry)
    return carry


DTYPES = ("float32", "float64")


def checked_context(dtype: Any = None, device: Any = None, like: Tensor = None) -> dict[str, Any]:
    """Keyword arguments that make arrays of this kind, for :func:`as_tensor`.

    Parameters
    ----------
    dtype : str or dtype of NumPy, PyTorch or JAX, optional
        "float32" or "float64"; by default that of `like`, and float64 where this is no floating tensor of these.
    device : str or device of PyTorch or JAX, optional
        Such as "cpu", "cuda", "cuda:1"; by default that of `like`, and otherwise the backend's own choice.
    like : optional
        A tensor of the active backend, or anything else, which says nothing.

    Returns
    -------
    dict
        "dtype", and "device" where one is given.

    Raises
    ------
    InvalidInputError
        Another dtype; a device that the backend does not have, or that cannot hold this dtype.
    InvalidTypeError
        A device that is neither a name nor one of the backend's devices.
    """
    context: dict[str, Any] = {"dtype": tl.backend.float64}
    if tl.is_tensor(like):
        if like.dtype in (tl.backend.float32, tl.backend.float64):
            context["dtype"] = like.dtype
        if tl.get_backend() == "pytorch":
            context["device"] = like.device
        elif tl.get_backend() == "jax" and len(like.devices()) == 1:
            context["device"] = next(iter(like.devices()))
    if dtype is not None:
        try:
            name = np.dtype(dtype).name
        except TypeError:
            name = str(dtype).rpartition(".")[2]  # torch.float32
        if name not in DTYPES:
            raise InvalidInputError(f"dtype is {shown(dtype)}; expected one of {list(DTYPES)}, or None.")
        context["dtype"] = getattr(tl.backend, name)
    # Classes of PyTorch and JAX; the backend itself refuses one of the other.
    origin = type(device).__module__.partition(".")[0]
    if not isinstance(device, str | None) and origin not in ("torch", "jax", "jaxlib"):
        raise InvalidTypeError(
            f'device is {shown(device)}; expected a name, such as "cpu" or "cuda:0", or a device of the backend.'
        )
    # An array is made and added up, so that what the device cannot do is known before the work begins.
    try:
        if tl.get_backend() == "jax" and isinstance(device, str):
            import jax

            platform, _, number = device.partition(":")
            context["device"] = jax.devices(platform)[int(number or 0)]
        elif tl.get_backend() == "numpy" and device not in (None, "cpu"):
            raise ValueError('its arrays are in main memory (for others, tensorly.set_backend("pytorch") or "jax")')
        elif device is not None:
            context["device"] = device
        total = tl.sum(as_tensor(np.ones(2), context))
        float(total)
    # PyTorch's own classes for a device that it was not built for, does not know, or that holds no such numbers.
    except (RuntimeError, AssertionError, TypeError, NotImplementedError, ValueError, IndexError) as error:
        message = str(error).partition("\n")[0].rstrip(".")
        name = shown(str(device or context.get("device")))
        raise InvalidInputError(
            f"device is {name}, which the backend {shown(tl.get_backend())} cannot use here: {message}. "
            'Expected "cpu", a device that this machine has and the backend was built for, or None.'
        ) from error
    if total.dtype != context["dtype"]:
        raise InvalidInputError(
            f'dtype is float64, and the backend makes {total.dtype} of it; expected "float32", or jax_enable_x64.'
        )
    return context
