"""Checks of arguments that many functions share, with one wording of what was received and what was expected."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal
from importlib import import_module
from numbers import Integral, Real
from types import FrameType
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import tensorly as tl

from tensorly_smp._support.representations import reason, shown
from tensorly_smp.exceptions import (
    InvalidInputError,
    InvalidTypeError,
    MissingDependencyError,
    SampleWeightWarning,
    SizeLimitError,
)

#: Of fewer samples nothing can be learned.
LEAST_TOTAL_WEIGHT = 2.0
#: Weights that are not whole are hardly numbers of samples if they are larger than this on average.
MOST_MEAN_WEIGHT = 2.0


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
        advice = f'pip install "tensorly_smp[{extra}]"'
        raise MissingDependencyError(f"{what} needs {package}, which is not installed: {advice}.") from error


#: Where the warnings of this thread go; None is where Python shows them.
_collector: ContextVar[list[Warning] | None] = ContextVar("_collector", default=None)


def warn(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Give a warning at the line outside of this package that led to it."""
    warning = message if isinstance(message, Warning) else category(message)
    collected = _collector.get()
    if collected is not None:
        collected.append(warning)
        return
    package = __name__.partition(".")[0]
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == package:
        frame = frame.f_back
        level += 1
    warnings.warn(warning, stacklevel=level)


@contextmanager
def collected_warnings() -> Iterator[list[Warning]]:
    """Keep the warnings that this package gives in the block, in this thread and those that it starts, from the user.

    The filters of warnings that ``warnings.catch_warnings`` sets and restores are those of all threads of the process.

    Examples
    --------
    >>> from tensorly_smp._support.checks import collected_warnings, warn
    >>> with collected_warnings() as caught:
    ...     warn("Nobody sees this.")
    >>> caught
    [UserWarning('Nobody sees this.')]
    """
    caught: list[Warning] = []
    token = _collector.set(caught)
    try:
        yield caught
    finally:
        _collector.reset(token)


#: The most that sizes may be, so that a typing error is an error at once and does not take all time or memory;
#: docs/scaling.md has the list. Whatever is not named here has to be exact as a float.
MOST = {"n_variables": 20_000, "n_components": 10_000, "rank": 10_000, "n_init": 10_000, "n_jobs": 1024}
_MOST_OF_ALL = 2**53
#: Bins of a variable.
MOST_BINS = 10_000
#: Entries of samples that are drawn at once, and candidates of a selection.
MOST_ENTRIES = 10**10
MOST_CANDIDATES = 1000


def is_integer(value: Any) -> TypeGuard[int]:
    """True for values of an integer type; booleans and NumPy's time spans do not count."""
    return isinstance(value, Integral) and not isinstance(value, bool | np.bool_ | np.timedelta64)


def is_real(value: Any) -> TypeGuard[float]:
    """True for values of a real number type; booleans and NumPy's time spans do not count."""
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_ | np.timedelta64)


def checked_integer(value: Any, name: str, least: int | None = None, most: int | None = None) -> int:
    """The value as an int.

    Raises
    ------
    InvalidTypeError
        No integer, or True or False, which Python takes for integers.
    InvalidInputError
        Below `least`.
    SizeLimitError
        Above `most`, by default the limit of its name, see `MOST`.
    """
    if not is_integer(value):
        raise InvalidTypeError(f"{name} is {shown(value)}; expected an integer.")
    if least is not None and value < least:
        raise InvalidInputError(f"{name} is {shown(value)}; expected at least {least}.")
    most = MOST.get(name, _MOST_OF_ALL) if most is None else most
    if not -_MOST_OF_ALL <= int(value) <= most:
        raise SizeLimitError(f"{name} is {shown(value)}; expected at most {most}.")
    return int(value)


def checked_flag(value: Any, name: str) -> bool:
    """The value as a bool.

    Raises
    ------
    InvalidTypeError
        Neither True nor False.
    """
    if not isinstance(value, bool | np.bool_):
        raise InvalidTypeError(f"{name} is {shown(value)}; expected True or False.")
    return bool(value)


def checked_entries(n_rows: int, n_columns: int, what: str) -> None:
    """Raise SizeLimitError where an array would have more entries than `MOST_ENTRIES`."""
    if n_rows * n_columns > MOST_ENTRIES:
        expected = f"expected at most {MOST_ENTRIES:.0e}. Make them in parts"
        raise SizeLimitError(f"{what} would have {n_rows} x {n_columns} entries; {expected}.")


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


def is_one_of(value: Any, words: Iterable[str]) -> bool:
    """True for a string that equals one of these words; anything that is no string is not compared."""
    return isinstance(value, str) and value in tuple(words)


def float_array(values: Any, name: str) -> np.ndarray:
    """A float64 copy of the values, of any shape.

    Raises
    ------
    InvalidTypeError
        Anything but real numbers.
    InvalidInputError
        Masked entries.
    """
    if np.ma.is_masked(values):
        raise InvalidInputError(f"{name} has masked entries; expected a number in every entry.")
    return real_numbers(values, name)


# What an array of objects may hold; None is a missing entry.
_REAL = (Real, np.bool_, Decimal, type(None))


def to_numpy(tensor: Any) -> np.ndarray:
    """Float64 NumPy copy of a tensor of any backend, the active one or not."""
    if hasattr(tensor, "detach"):  # PyTorch's, which NumPy alone cannot read from a GPU, nor without a warning
        tensor = tensor.detach().cpu().numpy()
    is_foreign = not isinstance(tensor, np.ndarray) and tl.is_tensor(tensor)
    array = np.asarray(tl.to_numpy(tensor) if is_foreign else tensor)
    if array.dtype.kind == "c":
        raise TypeError("complex numbers")
    return np.array(array, dtype=np.float64)


def real_numbers(x: Any, name: str) -> np.ndarray:
    """A float64 copy of real numbers, masked entries as NaN; complex numbers, text and dates are refused."""
    if type(x) is np.ndarray and x.dtype.kind in "biuf" and x.itemsize <= 8:  # a thousand of these take no time
        return x.astype(np.float64)
    try:
        array = np.ma.asanyarray(unmasked_rows(x))  # np.asarray would keep the numbers under a mask
        if array.dtype.kind not in "biufO":
            raise TypeError(f"it has values of type {array.dtype}")
        if array.dtype.kind == "O":
            if refused := {type(each).__name__ for each in array.ravel().tolist() if not isinstance(each, _REAL)}:
                raise TypeError(f"it holds {', '.join(sorted(refused))}")
            array = np.ma.array(array.filled(np.nan))
        with np.errstate(over="ignore"):  # of a longer float, to infinity
            return np.array(array.astype(np.float64).filled(np.nan))
    except OverflowError as error:
        raise InvalidInputError(f"{name} has a number that exceeds the largest float64.") from error
    except (TypeError, ValueError, ArithmeticError) as error:
        raise InvalidTypeError(f"{name} cannot be read as real numbers: {reason(error)}.") from error


def is_among(value: Any, names: Iterable[Any]) -> bool:
    """True for a value that equals one of the names; pandas NA, arrays and the like count as unequal."""
    try:
        hash(value)
        return any(value is name or bool(value == name) for name in names)
    except (TypeError, ValueError):
        return False


def unmasked_rows(rows: Any) -> Any:
    """Nested lists or tuples with NaN in place of NumPy's sign of a masked entry, of which NumPy itself warns."""
    if not isinstance(rows, list | tuple):
        return np.nan if rows is np.ma.masked else rows
    if not any(each is np.ma.masked or isinstance(each, list | tuple) for each in rows):
        return rows
    return [unmasked_rows(each) for each in rows]


def checked_triples(rows: Any, name: str) -> np.ndarray:
    """Rows of three different integers as an array (n_triples, 3)."""
    try:
        array = np.asarray(unmasked_rows(list(rows)))
    except (TypeError, ValueError, ArithmeticError) as error:
        raise InvalidTypeError(f"{name} must be a list of three variable indices each: {reason(error)}.") from error
    if array.ndim != 2 or array.shape[1] != 3 or len(array) == 0:
        raise InvalidInputError(f"{name} has shape {array.shape}; expected (n, 3), such as [(0, 1, 2)].")
    if array.dtype.kind not in "iu":
        raise InvalidTypeError(f"{name} are of type {array.dtype}; expected integer variable indices.")
    for triple in array.tolist():
        if len(set(triple)) < 3:
            raise InvalidInputError(f"{name} has {tuple(triple)}, which names a variable twice.")
    return array.astype(np.intp)


def checked_real(value: Any, name: str, low: float = 0.0, high: float = np.inf, ends: str = "[)") -> float:
    """The value as a float between two ends, each of which `ends` includes (square bracket) or excludes (round one).

    Raises
    ------
    InvalidTypeError
        Not a number.
    InvalidInputError
        Outside.

    Examples
    --------
    >>> from tensorly_smp._support.checks import checked_real
    >>> checked_real(0, "tol", 0.0, 1.0, "[)")
    0.0
    """
    if not is_real(value):
        raise InvalidTypeError(f"{name} is {shown(value)}; expected a number.")
    is_above = low <= value if ends[0] == "[" else low < value
    is_below = value <= high if ends[1] == "]" else value < high
    if not (is_above and is_below):
        expected = f"expected a number in {ends[0]}{low:.3g}, {high:.3g}{ends[1]}"
        raise InvalidInputError(f"{name} is {shown(value)}; {expected}.")
    try:
        return float(value)
    except OverflowError as error:
        if ends[1] == "]":
            return np.inf
        raise InvalidInputError(f"{name} is {shown(value)}; expected a finite float.") from error


def checked_choice(value: Any, name: str, choices: Iterable[str | None]) -> Any:
    """The value, which is one of the words, or None where that is among them.

    Raises
    ------
    InvalidInputError
        Any other value.
    """
    words = list(choices)
    if not isinstance(value, str | None) or value not in words:
        raise InvalidInputError(f"{name} is {shown(value)}; expected one of {words}.")
    return value


def checked_callback(callback: Any, arguments: str) -> Any:
    """The callback, a function of these `arguments`, or None.

    Raises
    ------
    InvalidTypeError
        Anything that cannot be called.
    """
    if callback is not None and not callable(callback):
        raise InvalidTypeError(f"callback is {shown(callback)}; expected a function of {arguments}, or None.")
    return callback


def weights_warning(weights: np.ndarray | None, total: float) -> SampleWeightWarning | None:
    """A warning of weights that do not look like numbers of samples; None if they do.

    Parameters
    ----------
    weights : ndarray (n_samples,) or None
        Valid ones, or some of them.
    total : float
        Sum of all.

    Raises
    ------
    InvalidInputError
        They stand for next to no sample.
    """
    if weights is None:
        return None
    advice = (
        "Weights are numbers of samples; scale others to sum to the number that they are worth: w / w.mean() "
        "for the number of rows, w * w.sum() / (w**2).sum() for what uneven ones are worth."
    )
    if total < LEAST_TOTAL_WEIGHT:
        expected = f"expected at least {LEAST_TOTAL_WEIGHT:g}"
        raise InvalidInputError(f"sample_weight sums to {total:.3g}; {expected}. {advice}")
    counted = weights[weights > 0]
    mean = float(counted.mean()) if len(counted) else 0.0
    if mean > MOST_MEAN_WEIGHT and (counted != np.floor(counted)).any():
        words = (
            f"sample_weight is {mean:.3g} on average, and not of whole numbers: every row is taken for as many samples"
        )
        return SampleWeightWarning(f"{words}, so that more components seem supported than are. {advice}")
    return None


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
    weights = float_array(sample_weight, "sample_weight")
    if weights.shape != (n_samples,):
        raise InvalidInputError(f"sample_weight has shape {weights.shape}; expected ({n_samples},).")
    with np.errstate(over="ignore", invalid="ignore"):
        total = weights.sum()
    if not (weights >= 0).all() or not 0 < total < np.inf:
        raise InvalidInputError("sample_weight must be finite (its sum too), non-negative and not all zero.")
    return weights


RandomState: TypeAlias = "int | np.random.Generator | np.random.RandomState | np.random.SeedSequence | None"


def seed_sequence(random_state: RandomState) -> np.random.SeedSequence:
    """SeedSequence of any accepted ``random_state``; a Generator or RandomState advances by one draw."""
    if random_state is None or is_integer(random_state) or isinstance(random_state, bool):
        if random_state is not None and random_state < 0:
            raise InvalidInputError(f"random_state is {shown(random_state)}; expected a non-negative integer.")
        return np.random.SeedSequence(None if random_state is None else int(random_state))
    if isinstance(random_state, np.random.SeedSequence):
        return random_state
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(random_state.integers(2**32, size=4).tolist())
    if isinstance(random_state, np.random.RandomState):
        return np.random.SeedSequence(random_state.randint(2**31, size=4).tolist())
    expected = "expected None, an int, numpy.random.Generator, RandomState or SeedSequence"
    raise InvalidTypeError(f"random_state is {type(random_state).__name__}; {expected}.")


def as_generator(random_state: RandomState) -> np.random.Generator:
    """Generator of any accepted ``random_state``; a Generator is passed through, so that it advances."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(seed_sequence(random_state))


def spawn_generators(
    random_state: RandomState, n_streams: int, purpose: int | None = None
) -> list[np.random.Generator]:
    """Independent child streams: stream 3 is the same whether 4 or 40 are asked for.

    Two purposes have other streams of the same seed. Who draws samples with seed 0 and draws them again with seed 0
    would else draw with the numbers that have made them, and draw some groups of them only.
    """
    root = seed_sequence(random_state)
    # spawn() counts children on the object itself; a fresh copy keeps a caller's SeedSequence unchanged.
    key = root.spawn_key if purpose is None else (*root.spawn_key, purpose)
    fresh = np.random.SeedSequence(entropy=root.entropy, spawn_key=key, pool_size=root.pool_size)
    return [np.random.default_rng(child) for child in fresh.spawn(n_streams)]
