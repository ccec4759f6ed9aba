"""Knowledge of each variable before anything is fitted: its bounds, whether it is discrete, and its bins."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensorly_smp._support.checks import is_among, warn
from tensorly_smp._support.representations import joined, shown
from tensorly_smp.codes.binning import (
    Binning,
    binning_of_values,
    checked_values,
    quantile_edges,
)
from tensorly_smp.codes.values import are_crowded, drop_zero_weight, observed_values, stretched_range
from tensorly_smp.exceptions import (
    InvalidInputError,
    InvalidTypeError,
    MergedBinsWarning,
    RepeatedValueWarning,
)
from tensorly_smp.likelihood.observed import Support, are_few, atoms, discrete_variables
from tensorly_smp.likelihood.observed import distinct_values as distinct
from tensorly_smp.samples.labels import list_names
from tensorly_smp.samples.reading import Samples, label_refusal

_SHOWN = 5
#: More values of text or categories than this, or than half the rows, are names of the rows or free text.
MOST_LABELS = 100


@dataclass(frozen=True)
class Variables:
    """Bounds and kinds of the variables of some samples.

    Attributes
    ----------
    support : tuple of (low, high)
        Bounds of every variable; None where there is none.
    values : dict from int to ndarray (n_values,)
        Values of the discrete variables, by their positions.
    """

    support: tuple[Support, ...]
    values: dict[int, np.ndarray]

    @property
    def discrete(self) -> tuple[int, ...]:
        """Positions of the discrete variables."""
        return tuple(sorted(self.values))

    @classmethod
    def of(
        cls,
        samples: Samples,
        support: Any = None,
        discrete: Any = None,
        sample_weight: np.ndarray | None = None,
        *,
        binning: Any = None,
        detects: bool = True,
        distinct_values: Callable[[Sequence[int]], list[np.ndarray]] | None = None,
    ) -> Variables:
        """Read the estimator's parameters `support` and `discrete`; if the latter is None, the samples tell.

        Discrete are also text and categories, constant variables, unless nothing but declarations `detects` them, and
        those of which the `binning`, if it is one, knows the values. `discrete` may map names to values.
        `distinct_values` gives the values of all samples, by the positions of the variables, where `samples` are only
        some.

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
        try:
            if isinstance(discrete, str | bytes):
                raise TypeError
            declared = {
                _position(name, samples.variables, "discrete") for name in (() if discrete is None else discrete)
            }
        except TypeError as error:
            raise InvalidTypeError(
                f"discrete is {shown(discrete)}; expected a list of names, a mapping from names to values, or None."
            ) from error
        declared |= _check_labelled(samples, sample_weight)
        known = binning.discrete if isinstance(binning, Binning) else {}
        if isinstance(discrete, Mapping):
            known = known | {
                samples.variables.index(name): checked_values(each, name) for name, each in discrete.items()
            }
        looking = discrete_variables(samples.values, sample_weight, only_constant=discrete is not None)
        looking = looking if detects else ()
        positions = sorted({*declared, *looking} - known.keys())
        if distinct_values is None:
            found = distinct(samples.values, positions, sample_weight)
        else:
            found = distinct_values(positions)
        # Those that seemed to be discrete may have many values among all samples.
        kept = {n: each for n, each in zip(positions, found, strict=True) if n in declared or are_few(each)}
        return cls(tuple(bounds), known | {n: each for n, each in kept.items() if len(each)})


def _check_labelled(samples: Samples, sample_weight: np.ndarray | None) -> set[int]:
    """Positions of the variables of text or categories; those of too many values are refused."""
    total = len(samples.values) if sample_weight is None else sample_weight.sum()
    labelled = [n for n, name in enumerate(samples.variables) if name in samples.value_labels]
    for n in labelled:
        column = samples.values[:, n]
        n_values = len(np.unique(column[~np.isnan(column)]))
        name = samples.variables[n]
        what = f", of {n_values} values in {total:g} rows"
        refusal = label_refusal(column, samples.value_labels[name], name, what)
        if refusal and n_values > min(MOST_LABELS, total / 2):
            raise refusal
    return set(labelled)


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


def choose_bins(
    samples: Samples,
    sample_weight: Any,
    variables: Variables | None,
    n_bins: int | Sequence[int] | Mapping[Any, int],
    binning: str | Binning,
    *,
    is_start: bool = False,
    must_be_uniform: bool = False,
) -> Binning:
    """Bins of all variables, in the order of the samples; values of discrete ones, where these are known.

    Parameters
    ----------
    samples : Samples
    sample_weight : ndarray (n_samples,) or None
    variables : Variables, optional
    n_bins, binning
        As of the estimator.
    is_start : bool
        Whether a refinement starts on them. It has cells of its own, which reach to far values. Bins of a start need
        not: with far values, uniform bins span the central ones only, and where nearly all values would share a few
        bins even so, bins are quantiles.
    must_be_uniform : bool
        Whether they stay uniform even so, because densities are made of them.
    """
    names = binning.variables if isinstance(binning, Binning) else samples.variables
    discrete = {names[n]: each for n, each in variables.values.items()} if variables else {}
    if isinstance(binning, Binning):
        return binning if variables is None else replace(binning, values=discrete)
    used, weights = drop_zero_weight(samples.values, sample_weight)
    ranges = None
    if is_start and binning == "uniform":
        columns = zip(samples.variables, used.T, strict=True)
        central = {name: stretched_range(*observed_values(column, weights)) for name, column in columns}
        ranges = {name: pair for name, pair in central.items() if pair is not None and name not in discrete}
    # Far values have cells of their own, and of how many bins starts are made is no concern of the user.
    settings = n_bins, binning, ranges, None, weights, discrete, not is_start
    chosen, caught = binning_of_values(used, samples.variables, *settings)
    for each in caught:
        if not is_start or not isinstance(each, MergedBinsWarning):
            warn(each)
    if not is_start or must_be_uniform or binning != "uniform":
        return chosen
    edges = list(chosen.edges)
    for n, name in enumerate(samples.variables):
        observed, own = observed_values(used[:, n], weights)
        if name not in discrete and are_crowded(observed, edges[n], own):
            ends = float(observed.min()), float(observed.max())
            edges[n] = quantile_edges(observed, *ends, len(edges[n]) - 1, own)
            chosen = replace(chosen, edges=tuple(edges), strategy="given")
    return chosen
