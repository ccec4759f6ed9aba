"""Knowledge of each variable before anything is fitted: its bounds, and whether it is discrete."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorly_smp._support.checks import is_among
from tensorly_smp._support.representations import joined, shown
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError, RepeatedValueWarning
from tensorly_smp.likelihood.observed import Support, atoms, discrete_variables
from tensorly_smp.samples.labels import list_names
from tensorly_smp.samples.reading import Samples

_SHOWN = 5


@dataclass(frozen=True)
class Variables:
    """Bounds and kinds of the variables of some samples.

    Attributes
    ----------
    support : tuple of (low, high)
        Bounds of every variable; None where there is none.
    discrete : tuple of int
        Positions of the variables that keep a histogram.
    """

    support: tuple[Support, ...]
    discrete: tuple[int, ...]

    @classmethod
    def of(cls, samples: Samples, support: Any, discrete: Any, sample_weight: np.ndarray | None) -> Variables:
        """Read the estimator's parameters `support` and `discrete`; if the latter is None, the samples tell.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            Unknown names, or bounds that the values do not respect.
        """
        if not isinstance(support, Mapping | None):
            raise InvalidTypeError(f"support is {type(support).__name__}; expected a mapping {{name: (low, high)}}.")
        bounds: list[Support] = [(None, None)] * len(samples.variables)
        for name, pair in (support or {}).items():
            n = _position(name, samples.variables, "support")
            bounds[n] = _checked_bounds(name, pair, samples.values[:, n])
        if discrete is None:
            return cls(tuple(bounds), discrete_variables(samples.values, sample_weight))
        try:
            if isinstance(discrete, str | bytes | Mapping):
                raise TypeError
            names = list(discrete)
        except TypeError as error:
            raise InvalidTypeError(f"discrete is {shown(discrete)}; expected a list of names, or None.") from error
        return cls(tuple(bounds), tuple(sorted({_position(name, samples.variables, "discrete") for name in names})))


def repeated_value_warning(
    samples: Samples, discrete: Sequence[int], sample_weight: np.ndarray | None
) -> RepeatedValueWarning | None:
    """A warning of variables with values that many samples share, or some far out; None if there are none."""
    found = atoms(samples.values, discrete, sample_weight)
    if not found:
        return None
    named = [f"{shown(samples.variables[n])} ({_listed_values(shared)})" for n, shared in found.items()]
    return RepeatedValueWarning(
        f"Samples share one value of variable(s) {joined(named, _SHOWN)}: so many, or so far from all others, that no "
        "smooth density explains it, and components may follow it. If it stands for missing, set it to NaN. If it "
        "means something (no rain, a limit of detection), say where it is in a variable of its own, of zeros and ones, "
        "and set it to NaN then. Counts can be named in discrete.",
        variables=[samples.variables[n] for n in found],
    )


def _listed_values(shared: Sequence[tuple[float, float]]) -> str:
    """Values and their shares in words."""
    percents = [f"{100 * share:.0f}" if share >= 0.1 else f"{100 * share:.2g}" for _, share in shared]
    return joined([f"{p} % are {value:.6g}" for (value, _), p in zip(shared, percents, strict=True)], _SHOWN)


def _position(name: Any, variables: Sequence[Hashable], parameter: str) -> int:
    if not is_among(name, variables):
        raise InvalidInputError(f"{parameter} names {shown(name)}; expected variables among {list_names(variables)}.")
    return list(variables).index(name)


def _checked_bounds(name: Any, pair: Any, values: np.ndarray) -> Support:
    """Bounds that are in order, and that the values respect."""
    try:
        low, high = (None if bound is None else float(bound) for bound in pair)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise InvalidTypeError(
            f"support of {shown(name)} is {shown(pair)}; expected (low, high), each a number or None."
        ) from error
    if any(bound is not None and not np.isfinite(bound) for bound in (low, high)):
        raise InvalidInputError(
            f"support of {shown(name)} is {shown(pair)}; expected finite bounds, or None for no bound."
        )
    observed = values[~np.isnan(values)]
    if not len(observed):
        return low, high  # which is for the choice of bins to refuse
    least = observed.min()
    most = observed.max()
    if (low is not None and least < low) or (high is not None and most > high) or (low is not None and low == high):
        raise InvalidInputError(
            f"support of {shown(name)} is {shown(pair)}, but its values reach from {least:.6g} to {most:.6g}; "
            "expected bounds that contain them."
        )
    return low, high
