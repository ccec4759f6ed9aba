"""Checks of what users pass to a density."""

from __future__ import annotations

import numbers
from decimal import Decimal
from typing import Any, Literal, TypeAlias

import numpy as np

from tensorly_smp._support.checks import is_integer, unmasked_rows
from tensorly_smp._support.representations import reason, shown
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError

Component: TypeAlias = 'int | Literal["all"] | None'


# What an array of objects may hold; None is a missing entry.
_REAL = (numbers.Real, np.bool_, Decimal, type(None))


def real_numbers(x: Any, name: str) -> np.ndarray:
    """A float64 copy of real numbers, masked entries as NaN; complex numbers, text and dates are refused."""
    try:
        array = np.ma.asanyarray(unmasked_rows(x))  # np.asarray would keep the numbers under a mask
        if array.dtype.kind not in "biufO":
            raise InvalidTypeError(f"{name} has values of type {array.dtype}; expected real numbers.")
        if array.dtype.kind == "O":
            refused = {type(each).__name__ for each in array.ravel().tolist() if not isinstance(each, _REAL)}
            if refused:
                raise InvalidTypeError(f"{name} cannot be read as real numbers: it holds {', '.join(sorted(refused))}.")
            array = np.ma.array(array.filled(np.nan))
        with np.errstate(over="ignore"):  # of a longer float, to infinity
            return np.array(array.astype(np.float64).filled(np.nan))
    except OverflowError as error:
        raise InvalidInputError(f"{name} has a number that exceeds the largest float64.") from error
    except (TypeError, ValueError, ArithmeticError) as error:
        if isinstance(error, InvalidTypeError):
            raise
        raise InvalidTypeError(f"{name} cannot be read as an array of numbers: {reason(error)}") from error


def points(x: Any, infinite: bool = False) -> np.ndarray:
    """Points of one variable as float64; NaN and masked ones refused, and infinite ones unless allowed."""
    values = real_numbers(x, "An array of points")
    if np.isnan(values).any() or not (infinite or np.isfinite(values).all()):
        raise InvalidInputError("Points hold NaN, masked or infinite values; expected finite numbers.")
    return values


def number(x: Any) -> float:
    """A single finite number."""
    value = points(x)
    if value.size != 1:
        raise InvalidInputError(f"A given value has shape {value.shape}; expected a single number per variable.")
    return value.item()


def finite(values: np.ndarray, message: str) -> np.ndarray:
    """The values, or an error with this message if some overflowed."""
    if not np.isfinite(values).all():
        raise InvalidInputError(message)
    return values


def is_all(component: Component) -> bool:
    """Tell whether every component is asked for; an array is not compared with the word."""
    return isinstance(component, str) and component == "all"


def component_number(component: Component, rank: int) -> int:
    """The number of a single component."""
    if not is_integer(component):
        raise InvalidTypeError(f"component is {shown(component)}; expected a number, 'all' or None.")
    if not 0 <= component < rank:
        raise InvalidInputError(f"component is {shown(component)}; expected 0 to {rank - 1}.")
    return int(component)
