"""Fit of a linear map and the mixture of the sources: samples, search on some of them, fit of all, and its Dataset."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.optimize import linear_sum_assignment
from scipy.special import softmax
from sklearn.base import clone

from tensorly_smp._support.checks import collected_warnings, warn
from tensorly_smp._support.iteration import progress_bar
from tensorly_smp._support.parallel import is_chunked
from tensorly_smp._support.representations import listed
from tensorly_smp._support.result_schema import with_results
from tensorly_smp.exceptions import ConstantVariableWarning, DependenceWarning, InvalidInputError
from tensorly_smp.fitting.fit_samples import Variables
from tensorly_smp.likelihood.comparison import Candidate
from tensorly_smp.likelihood.observed import Observed, discrete_variables
from tensorly_smp.samples.reading import Samples, read_samples
from tensorly_smp.samples.values import MOST_ROWS as MOST_REPEATED
from tensorly_smp.samples.values import at_most, evenly_spaced, merge_equal_rows
from tensorly_smp.unmixing.passes import MixedSamples, UnmixingCandidate, follow, log_joint_of
from tensorly_smp.unmixing.search import PASS_TOL, search_unmixing
from tensorly_smp.unmixing.starts import copies, within_covariance

#: Evenly spaced rows, if there are more, that the matrix is searched on, and that the best one goes on with.
SEARCH_ROWS, MOST_ROWS = 4_000, 20_000
#: Numbers with more values than this are mixed, though a product mixture takes them for discrete.
FEW_CATEGORIES = 5
#: Decimal places to which values may be rounded.
DECIMALS = range(-3, 9)
#: Variances of rounding errors that, at most, a linear combination has that is a constant before values are rounded.
MOST_ROUNDING = 2.0
#: Values of this size have squares, and sums of squares, that are floats.
LARGEST = 1e100
#: Attributes that it has beside those of the mixture of the sources.
EXTRA_ATTRIBUTES = ("is_product", "unmixing_start_name", "unmixing_steps", "unmixing_converged")


@dataclass(frozen=True, eq=False)
class SamplesToUnmix:
    """Samples, their weights, and which variables are discrete or mixed.

    Attributes
    ----------
    samples : Samples
        As they were read.
    rows : ndarray (n_rows, n_variables)
        Their values in ascending order, whatever order they came in. Equal samples are one row with a weight, so that
        counts and repeated rows are the same samples; but rows of rounded values are repeated, as far as they are not
        too many, to be spread one by one.
    values : ndarray (n_rows, n_variables)
        The same, but rounded values are spread evenly over the step: combinations of them would lie on a lattice,
        along whose lines a density may be as high as it likes.
    weights : ndarray (n_rows,) or None
    discrete : dict from int to ndarray (n_values,)
        Values of the discrete variables, by their positions.
    mixed : tuple of int
        Positions of those that are mixed.
    rounding : dict from int to float
        Steps of mixed variables whose values have probabilities: a product mixture takes them for discrete.
    determined : dict from int to ndarray (n_mixed,)
        Of all other variables, by their positions, the coefficients of the mixed ones that determine them.
    """

    samples: Samples
    rows: np.ndarray
    values: np.ndarray
    weights: np.ndarray | None
    discrete: dict[int, np.ndarray]
    mixed: tuple[int, ...]
    rounding: dict[int, float]
    determined: dict[int, np.ndarray]

    @classmethod
    def read(cls, X: Any, sample_weight: Any, sample_dim: Hashable | None, mixture: Any) -> SamplesToUnmix:
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
        weights = samples.aligned_weights(sample_weight)
        counted = samples.values if weights is None else samples.values[weights > 0]
        variables = Variables.of(samples, mixture.support, mixture.discrete, weights, binning=mixture.binning)
        rounding = _rounding(samples, counted, weights, None if mixture.discrete is None else variables.values)
        discrete = {n: each for n, each in variables.values.items() if n not in rounding}
        mixed = tuple(n for n in range(len(samples.variables)) if n not in discrete)
        _check_mixed(samples, mixed)
        _check_values(samples, counted, mixed)
        mixed, determined = _determined(samples, counted, mixed)
        if bounded := [samples.variables[n] for n in mixed if variables.support[n] != (None, None)]:
            raise InvalidInputError(
                f"mixture has a support of {listed(bounded)}; expected none of variables that are mixed, since "
                "bounds of a variable are none of a source. Transform it, by a logarithm for instance."
            )
        steps = {n: Observed.of(samples.values[:, n], weights).step for n in mixed}
        rows, counts = _in_one_order(samples.values, weights, any(steps.values()))
        _check_rounded(samples, rows, counts, mixed)
        values = np.array(rows)
        # Not of the random state, so that fits with several are to the same samples, and their criteria compare.
        rng = np.random.default_rng(0)
        for n, step in steps.items():
            values[:, n] += step * rng.uniform(-0.5, 0.5, len(values))
        rounding = {n: step for n, step in rounding.items() if n in mixed}
        return cls(samples, rows, values, counts, discrete, mixed, rounding, determined)

    def without_rounding(self) -> SamplesToUnmix:
        """Samples whose rounded variables are discrete, unless others depend on them."""
        needed = {self.mixed[i] for each in self.determined.values() for i in np.flatnonzero(each)}
        rounding = {n: step for n, step in self.rounding.items() if n in needed}
        values = {n: np.unique(self.rows[self.every_weight > 0, n]) for n in self.rounding.keys() - rounding.keys()}
        is_mixed = np.array([n not in values for n in self.mixed])
        return replace(
            self,
            discrete=self.discrete | values,
            mixed=tuple(np.array(self.mixed)[is_mixed].tolist()),
            rounding=rounding,
            determined={n: each[is_mixed] for n, each in self.determined.items()},
        )

    @property
    def every_weight(self) -> np.ndarray:
        """Weights (n_samples,)."""
        return np.ones(len(self.rows)) if self.weights is None else self.weights


def _in_one_order(
    values: np.ndarray, weights: np.ndarray | None, one_by_one: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """Rows (n_rows, n_variables) in ascending order and their weights: equal ones are one, or repeated one by one."""
    rows, counts = merge_equal_rows(values, weights)
    if one_by_one and counts is not None:
        is_few = weights is None or counts.sum() <= MOST_REPEATED
        if is_few and np.array_equal(counts, np.floor(counts)):
            rows = np.repeat(rows, counts.astype(np.int64), axis=0)
            counts = None
        else:
            rows = values
            counts = weights
    order = np.lexsort(rows.T[::-1])
    return rows[order], None if counts is None else counts[order]


def _check_mixed(samples: Samples, mixed: tuple[int, ...]) -> None:
    """Refuse too few variables to mix, and incomplete ones."""
    n_samples, n_variables = samples.values.shape
    if empty := [samples.variables[n] for n in np.flatnonzero(np.isnan(samples.values).all(axis=0))]:
        raise InvalidInputError(f"Variable(s) {listed(empty)} have no observed value; leave them out.")
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
            "more components than groups, which keeps most of the correlations. In Python: "
            'X = SmoothProductMixture(10).fit(X).impute(X, method="draw").'
        )


def _check_values(samples: Samples, counted: np.ndarray, mixed: tuple[int, ...]) -> None:
    """Refuse values whose squares are no floats, and variables that determine each other."""
    names = samples.variables
    columns = counted[:, mixed]
    with np.errstate(over="ignore"):
        ranges = np.ptp(columns, axis=0) if len(columns) else np.zeros(len(mixed))
    is_extreme = ~((ranges > 1 / LARGEST) & (np.abs(columns).max(axis=0, initial=0.0) < LARGEST))
    if extreme := [names[n] for n, flag in zip(mixed, is_extreme, strict=True) if flag]:
        raise InvalidInputError(
            f"Variable(s) {listed(extreme)} have values of {LARGEST:g} or more, or a range of {1 / LARGEST:g} or "
            "less, whose squares are out of the range of floats; rescale them."
        )
    if len(counted) <= len(mixed):
        raise InvalidInputError(
            f"{len(counted)} sample(s) with a weight, of {len(mixed)} variables to unmix; expected more samples than "
            "variables, since fewer determine no matrix. Leave variables out, or use SmoothProductMixture."
        )


def _rounding(
    samples: Samples, counted: np.ndarray, weights: np.ndarray | None, declared: Collection[int] | None
) -> dict[int, float]:
    """Steps, by position, of complete variables of numbers that look discrete and may be mixed all the same.

    Scores, grades, ages: multiples of a step. They have more than `FEW_CATEGORIES` values, or are none of the variables
    that the user has `declared` discrete.
    """
    found = {}
    fewest = FEW_CATEGORIES if declared is None else 1
    for n in discrete_variables(samples.values, weights):
        column = counted[:, n]
        values = np.unique(column)
        if n in (declared or ()) or samples.variables[n] in samples.value_labels or len(values) <= fewest:
            continue
        step = float(np.diff(values).min())
        if np.isfinite(column).all() and np.allclose(values / step, np.round(values / step), rtol=0.0, atol=1e-6):
            found[n] = step
    return found


def _check_rounded(samples: Samples, rows: np.ndarray, weights: np.ndarray | None, mixed: tuple[int, ...]) -> None:
    """Refuse variables whose rounding alone keeps others from determining them, such as rounded percentages."""
    counted = slice(None) if weights is None else weights > 0
    values = rows[counted][:, mixed]
    covariance = np.cov(values.T, aweights=None if weights is None else weights[counted], ddof=0)
    spread = np.sqrt(np.diag(covariance))
    steps = [
        next((10.0**-n for n in DECIMALS if np.allclose(column, np.round(column, n), rtol=1e-12, atol=0.0)), 0.0)
        for column in values.T
    ]
    noise = np.array(steps) ** 2 / 12.0 / spread**2
    lengths, directions = np.linalg.eigh(covariance / spread / spread[:, None])
    if lengths[0] <= MOST_ROUNDING * directions[:, 0] ** 2 @ noise:
        involved = [samples.variables[mixed[i]] for i in np.flatnonzero(np.abs(directions[:, 0]) > 0.1)]
        raise InvalidInputError(
            f"Variable(s) {listed(involved)} determine each other, but for the rounding of their values, as "
            f"percentages that add up to 100 do; leave one of them out, such as {involved[-1]!r}."
        )


def _determined(
    samples: Samples, counted: np.ndarray, mixed: tuple[int, ...]
) -> tuple[tuple[int, ...], dict[int, np.ndarray]]:
    """The variables that are mixed without those that others before them determine; and how they do."""
    names = samples.variables
    kept = list(mixed)
    while involved := copies(counted[:, kept]):
        if len(kept) == 2:
            every = listed([names[n] for n in mixed])
            raise InvalidInputError(f"Variable(s) {every} determine each other, but for rounding; leave them out.")
        kept.pop(involved[-1])
    centered = counted - counted.mean(axis=0)
    scale = centered[:, kept].std(axis=0)
    found = {}
    for n in sorted(set(mixed).difference(kept)):
        coefficients = np.linalg.lstsq(centered[:, kept] / scale, centered[:, n])[0]
        negligible = np.abs(coefficients) < 1e-6 * np.abs(coefficients).max()
        found[n] = np.where(negligible, 0.0, coefficients / scale)
    if found:
        left_out = [names[n] for n in found]
        warn(
            ConstantVariableWarning(
                f"Other variables determine variable(s) {listed(left_out)}, but for rounding: they are no part of "
                "the matrix and tell no components apart; samples and imputed entries have them.",
                variables=left_out,
            )
        )
    return tuple(kept), found


def fit_unmixing(data: SamplesToUnmix, mixture: Any, max_iter: int, tol: float, verbose: int) -> tuple[Any, xr.Dataset]:
    """Search for the matrix on evenly spaced rows of many, and fit the sources of all samples.

    Parameters
    ----------
    data : SamplesToUnmix
    mixture : SmoothProductMixture
        Unfitted, of the sources.
    max_iter, tol, verbose
        As of the estimator.

    Returns
    -------
    model : SmoothProductMixture
        Fitted to the sources.
    dataset : Dataset
        That of the sources with the matrix and the record of the search.
    """
    shapes = (None, "log-concave") if mixture.shape == "auto" else (mixture.shape,)
    weights = data.every_weight
    rows = np.flatnonzero(weights > 0)
    rows = rows[at_most(len(rows), MOST_ROWS)]
    every, scale = _standardized(data, rows, mixture.penalty)
    samples = every.rows(rows)
    some = samples.rows(at_most(len(rows), SEARCH_ROWS))
    with progress_bar(verbose, "unmixing", unit="start") as bar:
        report = lambda each: bar.advance(criterion=each.criterion)  # noqa: E731
        best, product, starts = search_unmixing(some, mixture.n_components, shapes, max_iter, tol, report)
    if is_product := best is product:
        samples = some
    elif len(rows) > SEARCH_ROWS:
        begun = replace(best, posterior=softmax(log_joint_of(samples, best), axis=1), fit=None)
        best = follow(replace(samples, shape=best.shape), begun, max_iter, PASS_TOL)
    posterior = softmax(log_joint_of(every, best), axis=1)
    best = _arranged(samples, best)
    log_scale = float(np.log(scale).sum())
    best.trace = replace(best.trace, loss=best.trace.loss + log_scale)
    criteria = {each.origin: each.criterion / some.total_weight - log_scale for each in (product, *starts)}
    matrix = np.eye(len(data.samples.variables))
    matrix[np.ix_(data.mixed, data.mixed)] = best.unmixing / scale
    if is_product:
        data = data.without_rounding()
        matrix[list(data.discrete)] = np.eye(len(matrix))[list(data.discrete)]
    model = _fit_sources(data, clone(mixture).set_params(shape=best.shape), matrix, posterior, best, is_product)
    return model, _with_unmixing(model.result_, data, matrix, best, criteria, is_product)


def _fit_sources(
    data: SamplesToUnmix,
    model: Any,
    matrix: np.ndarray,
    posterior: np.ndarray,
    best: UnmixingCandidate,
    is_product: bool,
) -> Any:
    """Fit a mixture to the sources; rows of the matrix for the variables that others determine are filled in.

    Warnings of this fit are given, but for those of dependence, whose remedy is the unmixing, and of the sources of
    these variables, which are constants.
    """
    names = data.samples.variables
    mixed = list(data.mixed)
    # Densities of the variables themselves know what to do about values that are rounded.
    sources = np.array(data.rows if is_product else data.values)
    sources[:, mixed] = sources[:, mixed] @ matrix[np.ix_(mixed, mixed)].T
    discrete = dict(data.discrete)
    for n, coefficients in data.determined.items():
        matrix[n, mixed] = -coefficients
        discrete[n] = np.average(data.rows[:, n] - data.rows[:, mixed] @ coefficients, weights=data.weights)[None]
        sources[:, n] = discrete[n]
    searched = None
    # The fit of the sources merges equal rows, and chooses cells by some of very many.
    if not is_product and len(merge_equal_rows(sources, data.weights)[0]) == len(evenly_spaced(*sources.shape)):
        searched = [[Candidate(posterior, "search", criterion=best.criterion, trace=best.trace)]]
    model.set_params(discrete={names[n]: each.tolist() for n, each in discrete.items()})
    # Names as objects, or pandas would make columns of tuples.
    frame = pd.DataFrame(sources, columns=pd.Index(names, dtype=object, tupleize_cols=False))
    with collected_warnings() as caught:
        model._fit(frame, data.weights, searched)
    determined = {names[n] for n in data.determined}
    for each in caught:
        is_known = isinstance(each, ConstantVariableWarning) and determined.issuperset(each.variables)
        if not is_known and not isinstance(each, DependenceWarning):
            warn(each)
    return model


def _standardized(data: SamplesToUnmix, rows: np.ndarray, criterion: str) -> tuple[MixedSamples, np.ndarray]:
    """Samples with unit variance in some rows (n_rows,), and the scales (n_mixed,) of their variables."""
    values = data.values[:, data.mixed]
    weights = data.every_weight
    center = np.average(values[rows], axis=0, weights=weights[rows])
    scale = np.sqrt(np.average((values[rows] - center) ** 2, axis=0, weights=weights[rows]))
    samples = MixedSamples(
        values=(values - center) / scale,
        weights=weights,
        categories=data.values[:, list(data.discrete)],
        category_values=list(data.discrete.values()),
        criterion=criterion,
    )
    return samples, scale


def _arranged(samples: MixedSamples, candidate: UnmixingCandidate) -> UnmixingCandidate:
    """The candidate with sources of unit variance, each in the place of the variable it is nearest to.

    Near by the correlation within components, those of all sources together being largest.
    """
    unmixing = candidate.unmixing
    variables = np.diag(within_covariance(samples.values, candidate.posterior, samples.weights))
    sources = np.diag(within_covariance(samples.values @ unmixing.T, candidate.posterior, samples.weights))
    # x_j = sum_n A_jn z_n with independent z_n: the correlation of both is A_jn sd(z_n) / sd(x_j).
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = np.linalg.inv(unmixing) * np.sqrt(sources) / np.sqrt(variables)[:, None]
    correlation = np.nan_to_num(correlation, posinf=1.0, neginf=-1.0)
    rows, columns = linear_sum_assignment(-(correlation**2))
    ordered = unmixing[columns] * np.where(correlation[rows, columns] < 0, -1.0, 1.0)[:, None]
    spread = np.sqrt(np.average((samples.values @ ordered.T) ** 2, axis=0, weights=samples.weights))
    return replace(candidate, unmixing=ordered / spread[:, None])


def _with_unmixing(
    dataset: xr.Dataset,
    data: SamplesToUnmix,
    matrix: np.ndarray,
    candidate: UnmixingCandidate,
    criteria: dict[str, float],
    is_product: bool,
) -> xr.Dataset:
    """The Dataset of the sources with the record of the search; `criteria` are those of the starts, by their names."""
    positions = np.arange(dataset.sizes["variable"])
    dataset = with_results(
        dataset,
        {
            "unmixing": matrix,
            "mixing": np.linalg.inv(matrix),
            "mixed": np.isin(positions, data.mixed).astype(np.int8),
            "rounding": np.array([data.rounding.get(n, 0.0) for n in positions.tolist()]),
            "unmixing_log_likelihood": -candidate.trace.loss,
            "unmixing_start_criterion": np.array(list(criteria.values())),
        },
        {"source": dataset["variable"].values.copy(), "unmixing_start": list(criteria)},
    )
    dataset = _with_parameters(dataset, 0 if is_product else len(data.mixed) * (len(data.mixed) - 1))
    return dataset.assign_attrs(
        is_product=int(is_product),
        unmixing_start_name=candidate.origin,
        unmixing_steps=candidate.trace.n_sweeps + 1,
        unmixing_converged=int(candidate.status.is_converged),
    )


def without_unmixing(dataset: xr.Dataset) -> xr.Dataset:
    """The Dataset of the sources alone."""
    n_mixed = int(dataset["mixed"].sum())
    kept = _with_parameters(dataset, 0 if dataset.attrs["is_product"] else -n_mixed * (n_mixed - 1))
    kept = kept.drop_dims(("source", "unmixing_start", "alternation")).drop_vars(["mixed", "rounding"])
    kept.attrs = {name: value for name, value in kept.attrs.items() if name not in EXTRA_ATTRIBUTES}
    return kept


def _with_parameters(dataset: xr.Dataset, n_more: int) -> xr.Dataset:
    """The Dataset with more parameters, of the solution and its rivals: the free entries of the matrix."""
    if "rival_n_parameters" in dataset:
        dataset = dataset.assign(rival_n_parameters=dataset["rival_n_parameters"] + n_more)
    return dataset.assign_attrs(n_parameters=dataset.attrs["n_parameters"] + n_more)
