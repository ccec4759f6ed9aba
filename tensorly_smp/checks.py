"""Checks of arguments that many functions share, with one wording of what was received and what was expected."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from numbers import Integral
from types import FrameType
from typing import Any

import numpy as np

from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError, MissingDependencyError


def import_extra(module: str, extra: str, what: str) -> Any:
    """Import a module of an optional package.

    Raises
    ------
    MissingDependencyError
        It is not installed; the message names the extra that brings it, and `what` needs it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingDependencyError(
            f'{what} needs {package}, which is not installed: pip install "tensorly_smp[{extra}]".'
        ) from error


def warn(message: str, category: type[Warning]) -> None:
    """Give a warning at the line outside of this package that led to it."""
    package = __name__.partition(".")[0]
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == package:
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


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


def checked_n_jobs(n_jobs: Any) -> int | None:
    """Number of jobs as of joblib: positive, negative to count from the number of processors, or None.

    Raises
    ------
    InvalidTypeError
        No integer.
    InvalidInputError
        Zero.
    """
    if n_jobs is not None and checked_integer(n_jobs, "n_jobs") == 0:
        raise InvalidInputError("n_jobs is 0; expected a positive number, -1 for all processors, or None.")
    return None if n_jobs is None else int(n_jobs)


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


def checked_tolerance(tol: Any) -> float:
    """The tolerance as a float.

    Raises
    ------
    InvalidTypeError
        Not a number.
    InvalidInputError
        Not from 0 to below 1.
    """
    if isinstance(tol, bool) or not isinstance(tol, int | float | np.floating | np.integer):
        raise InvalidTypeError(f"tol is {tol!r}; expected a number.")
    if not 0 <= tol < 1:
        raise InvalidInputError(f"tol is {tol}; expected a number from 0 to below 1.")
    return float(tol)


def checked_sample_weight(sample_weight: Any, n_samples: int) -> np.ndarray | None:
    """The weights as an array (n_samples,), or None.

    Raises
    ------
    InvalidTypeError
        Not numbers.
    InvalidInputError
        Another shape, or weights that are negative, not finite or all zero.
    """
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"sample_weight must be numbers: {error}.") from error
    if weights.shape != (n_samples,):
        raise InvalidInputError(f"sample_weight has shape {weights.shape}; expected ({n_samples},).")
    with np.errstate(over="ignore", invalid="ignore"):
        total = weights.sum()
    if not (weights >= 0).all() or not 0 < total < np.inf:
        raise InvalidInputError("sample_weight must be finite (its sum too), non-negative and not all zero.")
    return weights
