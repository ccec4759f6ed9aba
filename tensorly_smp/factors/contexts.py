"""Dtype and device of arrays, as the user asks for them or as the data have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorly as tl

from tensorly_smp._support.representations import shown
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.factors.arrays import Tensor, as_tensor

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
    context = _context_of(like)
    if dtype is not None:
        context["dtype"] = getattr(tl.backend, _dtype_name(dtype))
    if device is not None:
        context["device"] = _checked_device(device)
    _try_out(context)
    return context


def _context_of(like: Any) -> dict[str, Any]:
    context: dict[str, Any] = {"dtype": tl.backend.float64}
    if not tl.is_tensor(like):
        return context
    if like.dtype in (tl.backend.float32, tl.backend.float64):
        context["dtype"] = like.dtype
    if tl.get_backend() == "pytorch":
        context["device"] = like.device
    elif tl.get_backend() == "jax" and len(like.devices()) == 1:
        context["device"] = next(iter(like.devices()))
    return context


def _dtype_name(dtype: Any) -> str:
    try:
        name = np.dtype(dtype).name
    except TypeError:
        name = str(dtype).rpartition(".")[2]  # torch.float32
    if name not in DTYPES:
        raise InvalidInputError(f"dtype is {shown(dtype)}; expected one of {list(DTYPES)}, or None.")
    return name


def _checked_device(device: Any) -> Any:
    """The device as the backend wants it."""
    backend = tl.get_backend()
    if not isinstance(device, (str, *_device_classes())):
        raise InvalidTypeError(
            f'device is {shown(device)}; expected a name, such as "cpu" or "cuda:0", or a device of the backend '
            f"{shown(backend)}."
        )
    if backend == "jax":
        return _jax_device(device)
    if backend == "numpy" and device != "cpu":
        raise InvalidInputError(
            f'device is {shown(device)}, and NumPy has its arrays in the memory of the processor. Expected "cpu" or '
            'None; for another device first tensorly.set_backend("pytorch") or ("jax").'
        )
    return device


def _device_classes() -> tuple[type, ...]:
    """Classes of devices of the active backend."""
    if tl.get_backend() == "jax":
        import jax

        return (jax.Device,)
    if tl.get_backend() == "pytorch":
        import torch

        return (torch.device,)
    return ()


def _jax_device(device: Any) -> Any:
    if not isinstance(device, str):
        return device
    import jax

    platform, _, number = device.partition(":")
    try:
        return jax.devices(platform)[int(number or 0)]
    except (RuntimeError, ValueError, IndexError) as error:
        raise _no_device(device, error) from error


def _try_out(context: dict[str, Any]) -> None:
    """An array that is made and added up, so that what the device cannot do is known before the work begins."""
    try:
        total = tl.sum(as_tensor(np.ones(2), context))
        found = float(total)
    # PyTorch's own classes for a device that it was not built for, does not know, or that holds no such numbers.
    except (RuntimeError, AssertionError, TypeError, NotImplementedError, ValueError) as error:
        raise _no_device(context.get("device"), error) from error
    if total.dtype != context["dtype"]:
        raise InvalidInputError(
            f'dtype is float64, and the backend makes {total.dtype} of it. Expected dtype="float32", or in JAX '
            'jax.config.update("jax_enable_x64", True).'
        )
    if found != 2.0:
        raise _no_device(context.get("device"), ValueError(f"1 + 1 gives {found}"))


def _no_device(device: Any, error: BaseException) -> InvalidInputError:
    reason = str(error).partition("\n")[0].rstrip(".")
    return InvalidInputError(
        f"device is {shown(str(device))}, which the backend {shown(tl.get_backend())} cannot use here: {reason}. "
        'Expected "cpu", '
        "a device that this machine has and the backend was built for, or None."
    )
