"""Checks of what users pass to a density."""

from __future__ import annotations

import numbers
from typing import Any, Literal, TypeAlias

import numpy as np

from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError

Component: TypeAlias = 'int | Literal["all"] | None'


def points(x: Any, infinite: bool = False) -> np.ndarray:
    """Points of one variable as float64; NaN refused, and infinite ones unless allowed."""
    try:
        values = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"Points are {type(x).__name__} that cannot be read as numbers: {error}.") from error
    if np.isnan(values).any() or not (infinite or np.isfinite(values).all()):
        raise InvalidInputError("Points hold NaN or infinite values; expected finite numbers.")
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


def component_number(component: Component, rank: int) -> int:
    """The number of a single component."""
    if isinstance(component, bool) or not isinstance(component, numbers.Integral):
        raise InvalidTypeError(f"component is {component!r}; expected a number, 'all' or None.")
    if not 0 <= component < rank:
        raise InvalidInputError(f"component is {component}; expected 0 to {rank - 1}.")
    return int(component)
