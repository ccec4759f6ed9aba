"""Compiled functions and loops for JAX, which the other backends run as they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, TypeVar

import tensorly as tl

from tensorly_smp.factors.arrays import Tensor

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
