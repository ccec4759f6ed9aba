"""Samples of a fit with a linear map: which variables are mixed, and what must hold of them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorly_smp._support.checks import checked_sample_weight
from tensorly_smp.chunked.reading import is_chunked
from tensorly_smp.codes.values import MOST_ROWS, merge_equal_rows
from tensorly_smp.estimator import SmoothProductMixture
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.fitting.variables import Variables
from tensorly_smp.likelihood.observed import Observed
from tensorly_smp.samples.labels import aligned, list_names
from tensorly_smp.samples.reading import Samples, read_samples
from tensorly_smp.unmixing.starts import copies

#: Values of this size have squares, and sums of squares, that are floats.
LARGEST = 1e100


@dataclass(frozen=True, eq=False)
class SamplesToUnmix:
    """Samples, their weights, and which variables are discrete or mixed.

    Attributes
    ----------
    samples : Samples
        As they were read.
    rows : ndarray (n_rows, n_variables)
        Their values. Equal samples are one row with a weight, so that counts and repeated rows are the same samples;
        but rows of rounded values are repeated, as far as they are not too many, to be spread one by one.
    values : ndarray (n_rows, n_variables)
        The same, but rounded values are spread evenly over the step: combinations of them would lie on a lattice,
        along whose lines a density may be as high as it likes.
    weights : ndarray (n_rows,) or None
    discrete : dict from int to ndarray (n_values,)
        Values of the discrete variables, by their positions.
    mixed : tuple of int
        Positions of the others.
    """

    samples: Samples
    rows: np.ndarray
    values: np.ndarray
    weights: np.ndarray | None
    discrete: dict[int, np.ndarray]
    mixed: tuple[int, ...]

    @classmethod
    def read(
        cls,
        X: Any,
        sample_weight: Any,
        sample_dim: Hashable | None,
        mixture: SmoothProductMixture,
        rng: np.random.Generator,
    ) -> SamplesToUnmix:
        """Read samples for a fit with these parameters of the mixture.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            Chunks, too few variables, entries that are missing or out of range, bounds, copies.
        """
        if is_chunked(X):
            raise InvalidInputError(
                "X is in chunks (dask); expected samples in memory. Pass X.compute(), or fit a SmoothProductMixture."
            )
        samples = read_samples(X, None, sample_dim, None)
        if len(samples.variables) < 3:
            raise InvalidInputError(f"X has {len(samples.variables)} feature(s); expected at least three.")
        weights = checked_sample_weight(aligned(sample_weight, X), len(samples.values))
        counted = samples.values if weights is None else samples.values[weights > 0]
        variables = Variables.of(samples, mixture.support, mixture.discrete, weights, binning=mixture.binning)
        ranges = _ranges(counted)
        mixed = tuple(n for n in range(len(ranges)) if n not in variables.values)
        _check_mixed(samples, mixed)
        _check_values(samples, counted, ranges, mixed)
        _check_bounds(samples, variables, mixed)
        rows, counts = merge_equal_rows(samples.values, weights)
        steps = {n: Observed.of(rows[:, n], counts).step for n in mixed}
        if any(steps.values()) and counts is not None:
            if counts.sum() <= MOST_ROWS and np.array_equal(counts, np.floor(counts)):
                rows, counts = np.repeat(rows, counts.astype(np.int64), axis=0), None
            else:
                rows, counts = samples.values, weights
        values = np.array(rows)
        for n, step in steps.items():
            values[:, n] += step * rng.uniform(-0.5, 0.5, len(values))
        return cls(samples, rows, values, counts, variables.values, mixed)

    @property
    def every_weight(self) -> np.ndarray:
        """Weights (n_samples,)."""
        return np.ones(len(self.rows)) if self.weights is None else self.weights


def _ranges(values: np.ndarray) -> np.ndarray:
    """Range of every column, zero where all is missing."""
    with np.errstate(invalid="ignore", over="ignore"):
        present = [column[~np.isnan(column)] for column in values.T]
        return np.array([np.ptp(column) if len(column) else 0.0 for column in present])


def _check_mixed(samples: Samples, mixed: tuple[int, ...]) -> None:
    """Refuse too few variables to mix, and incomplete ones."""
    n_samples, n_variables = samples.values.shape
    if empty := [samples.variables[n] for n in np.flatnonzero(np.isnan(samples.values).all(axis=0))]:
        raise InvalidInputError(f"Variable(s) {list_names(empty)} have no observed value; leave them out.")
    if len(mixed) < 2:
        raise InvalidInputError(
            f"Of {n_variables} variables, with n_samples = {n_samples}, {len(mixed)} are neither constant nor "
            "discrete; expected at least two to unmix. Use SmoothProductMixture, or name the discrete variables in "
            "mixture's discrete."
        )
    if incomplete := int(np.isnan(samples.values[:, mixed]).any(axis=1).sum()):
        raise InvalidInputError(
            f"{incomplete} of {n_samples} samples have missing entries (NaN); expected complete samples, because "
            "every source depends on all variables. Leave them out, or impute them first with a product mixture of "
            "more components than groups, which keeps most of the correlations: "
            'X = SmoothProductMixture(10).fit(X).impute(X, method="draw").'
        )


def _check_values(samples: Samples, counted: np.ndarray, ranges: np.ndarray, mixed: tuple[int, ...]) -> None:
    """Refuse values whose squares are no floats, and variables that determine each other."""
    names = samples.variables
    largest = np.abs(counted).max(axis=0)
    extreme = [names[n] for n in mixed if not (ranges[n] > 1 / LARGEST and largest[n] < LARGEST)]
    if extreme:
        raise InvalidInputError(
            f"Variable(s) {list_names(extreme)} have values of {LARGEST:g} or more, or a range of {1 / LARGEST:g} or "
            "less, whose squares are out of the range of floats; rescale them."
        )
    if len(counted) <= len(mixed):
        raise InvalidInputError(
            f"{len(counted)} sample(s) with a weight, of {len(mixed)} variables to unmix; expected more samples than "
            "variables, since fewer determine no matrix. Leave variables out, or use SmoothProductMixture."
        )
    if involved := [names[mixed[i]] for i in copies(counted[:, mixed])]:
        raise InvalidInputError(
            f"Variable(s) {list_names(involved)} determine each other, but for rounding; leave one of them out."
        )


def _check_bounds(samples: Samples, variables: Variables, mixed: tuple[int, ...]) -> None:
    bounded = [samples.variables[n] for n in mixed if variables.support[n] != (None, None)]
    if bounded:
        raise InvalidInputError(
            f"mixture has a support of {list_names(bounded)}; expected none of variables that are mixed, since bounds "
            "of a variable are none of a source. Transform it, by a logarithm for instance."
        )
