"""Checks of arguments that many functions share, with one wording of what was received and what was expected."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError


def checked_integer(value: Any, name: str, least: int | None = None) -> int:
    """The value as an int.

    Raises
    ------
    InvalidTypeError
        No integer, or True or False, which Python takes for integers.
    InvalidInputError
        Below `least`.
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidTypeError(f"{name} is {value!r}; expected an integer.")
    if least is not None and value < least:
        raise InvalidInputError(f"{name} is {value}; expected at least {least}.")
    return int(value)


def unmasked_array(values: Any, name: str) -> np.ndarray:
    """The values as a bare array, refused where entries are masked.

    Raises
    ------
    InvalidTypeError
        Not readable as an array.
    InvalidInputError
        Masked entries.
    """
    try:
        masked = np.ma.asanyarray(values)  # keeps the mask where there is one
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"The {name} cannot be read as an array: {error}") from error
    if np.ma.is_masked(masked):
        raise InvalidInputError(f"The {name} has masked entries; expected a number in every entry.")
    return masked.data
