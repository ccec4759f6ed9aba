"""Fit of a linear map and the mixture of the sources: samples, search on some of them, fit of all, and its Dataset."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp, softmax
from sklearn.base import clone

from tensorly_smp._support.checks import checked_sample_weight, collected_warnings
from tensorly_smp._support.iteration import progress_bar
from tensorly_smp._support.parallel import is_chunked
from tensorly_smp._support.result_schema import with_results
from tensorly_smp.codes.binning import Binning
from tensorly_smp.codes.encoding import encode_samples
from tensorly_smp.codes.values import MOST_ROWS as MOST_REPEATED
from tensorly_smp.codes.values import merge_equal_rows
from tensorly_smp.estimator import SmoothProductMixture
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.fitting.starts import binned_factors
from tensorly_smp.fitting.variables import Variables
from tensorly_smp.likelihood.observed import Observed
from tensorly_smp.metrics import clustering_accuracy
from tensorly_smp.samples.labels import aligned, list_names
from tensorly_smp.samples.reading import Samples, read_samples
from tensorly_smp.unmixing.search import (
    Candidate,
    MixedSamples,
    alternate,
    held_out_gain,
    is_clearly_better,
    search_unmixing,
)
from tensorly_smp.unmixing.starts import copies, within_covariance

#: Evenly spaced rows that the matrix is searched on, if there are more.
MOST_ROWS = 20_000
#: With fewer samples than this for every free entry of the matrix, held-out samples have the last word on it.
SAMPLES_PER_ENTRY = 50
#: Loss, in nats per sample, that a new fit of the sources may have against the one that the search ended with.
REFIT_LOSS = 1e-3
#: Clusters that agree on this share of the samples are the same.
SAME_CLUSTERS = 0.98
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
        mixed = tuple(n for n in range(len(samples.variables)) if n not in variables.values)
        _check_mixed(samples, mixed)
        _check_values(samples, counted, mixed)
        if bounded := [samples.variables[n] for n in mixed if variables.support[n] != (None, None)]:
            raise InvalidInputError(
                f"mixture has a support of {list_names(bounded)}; expected none of variables that are mixed, since "
                "bounds of a variable are none of a source. Transform it, by a logarithm for instance."
            )
        rows, counts = merge_equal_rows(samples.values, weights)
        steps = {n: Observed.of(rows[:, n], counts).step for n in mixed}
        if any(steps.values()) and weights is None:
            rows, counts = samples.values, None
        elif any(steps.values()) and counts is not None:
            if counts.sum() <= MOST_REPEATED and np.array_equal(counts, np.floor(counts)):
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


def _check_values(samples: Samples, counted: np.ndarray, mixed: tuple[int, ...]) -> None:
    """Refuse values whose squares are no floats, and variables that determine each other."""
    names = samples.variables
    columns = counted[:, mixed]
    with np.errstate(over="ignore"):
        ranges = np.ptp(columns, axis=0) if len(columns) else np.zeros(len(mixed))
    is_extreme = ~((ranges > 1 / LARGEST) & (np.abs(columns).max(axis=0, initial=0.0) < LARGEST))
    extreme = [names[n] for n, flag in zip(mixed, is_extreme, strict=True) if flag]
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


@dataclass(frozen=True, eq=False)
class FoundUnmixing:
    """Result of the search for the matrix.

    Attributes
    ----------
    samples : MixedSamples
        Some of the rows, with variables that are centered and divided by `scale`.
    scale : ndarray (n_mixed,)
        Standard deviations of the variables.
    rows : ndarray of int (n_rows,)
        Positions of the rows.
    candidate : Candidate
        The best one; its matrix is of the scaled variables.
    criteria : dict from str to float
        Criterion of every start.
    is_product : bool
        True if a product mixture of the variables is preferred.
    """

    samples: MixedSamples
    scale: np.ndarray
    rows: np.ndarray
    candidate: Candidate
    criteria: dict[str, float]
    is_product: bool


@dataclass(frozen=True, eq=False)
class SourceMixture:
    """Fit of the sources of all samples.

    Attributes
    ----------
    model : SmoothProductMixture
    candidate : Candidate
        What the search ended with.
    matrix : ndarray (n_variables, n_variables)
        From variables to sources, in the units of the variables.
    criterion : float
        As of :class:`Candidate`, on the rows of the search.
    caught : list of Warning
        Given by the fit.
    log_densities : ndarray (n_rows,)
    posterior : ndarray (n_rows, rank)
    """

    model: SmoothProductMixture
    candidate: Candidate
    matrix: np.ndarray
    criterion: float
    caught: list[Warning]
    log_densities: np.ndarray
    posterior: np.ndarray


@dataclass(frozen=True, eq=False)
class UnmixingFit:
    """Steps of a fit; `max_iter` and `tol` are those of the estimator, `mixture` is the unfitted mixture of sources."""

    data: SamplesToUnmix
    mixture: SmoothProductMixture
    max_iter: int
    tol: float

    def search(self, rng: np.random.Generator, verbose: int) -> FoundUnmixing:
        """The best matrix, on evenly spaced rows of many."""
        values = self.data.values
        weights = self.data.every_weight
        rows = np.flatnonzero(weights > 0)
        if len(rows) > MOST_ROWS:
            rows = rows[np.linspace(0, len(rows) - 1, MOST_ROWS).astype(np.int64)]
        mixed = values[rows][:, list(self.data.mixed)]
        used = weights[rows]
        center = np.average(mixed, axis=0, weights=used)
        scale = np.sqrt(np.average((mixed - center) ** 2, axis=0, weights=used))
        samples = MixedSamples(
            values=(mixed - center) / scale,
            weights=used,
            categories=values[rows][:, list(self.data.discrete)],
            category_values=list(self.data.discrete.values()),
            criterion=self.mixture.penalty,
        )

        def fit_product(sources: np.ndarray) -> np.ndarray:
            beside = values[rows]
            beside[:, self.data.mixed] = sources
            model, _ = self._fitted(beside, used)
            return np.asarray(model.density_.posterior(beside))

        with progress_bar(verbose, "unmixing", 6, unit="start") as bar:
            best, product, starts = search_unmixing(
                samples,
                self.mixture.n_components,
                fit_product,
                rng,
                self.max_iter,
                self.tol,
                lambda each: bar.advance(criterion=each.criterion),
            )
        n_free = len(scale) * (len(scale) - 1)
        is_product = product.criterion >= best.criterion - n_free / samples.total_weight
        if not is_product and samples.total_weight < SAMPLES_PER_ENTRY * n_free:
            gain, error = held_out_gain(samples, product, best, self.tol)
            # With fewer samples than free entries, a matrix may gain in most parts and lose far more in another.
            is_product = gain <= (error if samples.total_weight < n_free else 0.0)
        candidate = replace(product, is_converged=True) if is_product else best
        criteria = {each.name: each.criterion for each in (product, *starts)}
        return FoundUnmixing(samples, scale, rows, candidate, criteria, is_product)

    def finished(self, found: FoundUnmixing) -> SourceMixture:
        """The fit of the sources of all samples.

        They are fitted anew, from starts of their own. Where that finds a better mixture than the search, the search
        goes on from there; where it finds a worse one, the fit starts from the posteriors of the search.
        """
        samples = found.samples
        total = samples.total_weight
        final = self._of_all(found, _arranged(samples, found.candidate))
        before = final.candidate
        gain = final.criterion - before.criterion
        if not found.is_product and is_clearly_better(
            final.log_densities, before.log_densities, samples.weights, total * gain
        ):
            begun = Candidate(before.name, before.unmixing, final.posterior, trace=before.trace)
            again = alternate(samples, begun, self.max_iter, self.tol)
            if again.criterion > before.criterion:
                final = self._of_all(found, _arranged(samples, again))
        candidate = final.candidate
        agreement = clustering_accuracy(final.posterior.argmax(axis=1), candidate.posterior.argmax(axis=1))
        if final.criterion < candidate.criterion - REFIT_LOSS or agreement < SAME_CLUSTERS:
            other = self._of_all(found, candidate, final.model.binning_)
            if not is_clearly_better(
                final.log_densities, other.log_densities, samples.weights, total * (final.criterion - other.criterion)
            ):
                final = other
        return final

    def _of_all(self, found: FoundUnmixing, candidate: Candidate, binning: Binning | None = None) -> SourceMixture:
        """The fit of all sources; with bins given, from the posteriors of the candidate."""
        matrix = np.eye(len(self.data.samples.variables))
        matrix[np.ix_(self.data.mixed, self.data.mixed)] = candidate.unmixing / found.scale
        # Densities of the variables themselves know what to do about values that are rounded.
        sources = self._sources(matrix, are_spread=not found.is_product)
        log_det = float(np.linalg.slogdet(candidate.unmixing)[1])
        changes: dict[str, Any] = {}
        if binning is not None:
            codes = encode_samples(source_frame(sources[found.rows], binning.variables), binning)
            init = binned_factors(codes, candidate.posterior, found.samples.weights, 1e-6)
            changes = dict(binning=binning, init=init, n_init=1)
        model, caught = self._fitted(sources, self.data.weights, **changes)
        attrs = model.result_.attrs
        total = found.samples.total_weight
        if len(found.rows) == len(sources):
            log_likelihood = float(attrs["total_log_likelihood"])
        else:  # of the same rows as that of the search
            log_likelihood = float(found.samples.weights @ model.density_.logpdf(sources[found.rows]))
        criterion = (log_likelihood - float(attrs["n_parameters"])) / total + log_det
        joint = np.asarray(model.density_.log_joint(sources[found.rows])) + log_det
        return SourceMixture(
            model, candidate, matrix, criterion, caught, logsumexp(joint, axis=1), softmax(joint, axis=1)
        )

    def _fitted(
        self, sources: np.ndarray, weights: np.ndarray | None, **changes: Any
    ) -> tuple[SmoothProductMixture, list[Warning]]:
        """A product mixture of sources and discrete variables, and the warnings that it gave."""
        original = self.mixture.get_params(deep=False)
        model = clone(self.mixture).set_params(**changes)
        with collected_warnings() as caught:
            model.fit(source_frame(sources, self.data.samples.variables), sample_weight=weights)
        return model.set_params(**{name: original[name] for name in changes}), caught

    def _sources(self, matrix: np.ndarray, are_spread: bool = True) -> np.ndarray:
        """Sources of all samples, beside the discrete variables (n_samples, n_variables)."""
        sources = np.array(self.data.values if are_spread else self.data.rows)
        mixed = list(self.data.mixed)
        sources[:, mixed] = sources[:, mixed] @ matrix[np.ix_(mixed, mixed)].T
        return sources


def _arranged(samples: MixedSamples, candidate: Candidate) -> Candidate:
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


def source_frame(values: np.ndarray, names: Sequence[Hashable]) -> pd.DataFrame:
    """With names as objects, or pandas would make columns of tuples."""
    return pd.DataFrame(values, columns=pd.Index(list(names), dtype=object, tupleize_cols=False))


def with_unmixing(dataset: xr.Dataset, final: SourceMixture, found: FoundUnmixing, mixed: Sequence[int]) -> xr.Dataset:
    """The Dataset of the sources with the record of the search."""
    n_variables = dataset.sizes["variable"]
    candidate = final.candidate
    log_scale = np.log(found.scale).sum()
    dataset = with_results(
        dataset,
        {
            "unmixing": final.matrix,
            "mixing": np.linalg.inv(final.matrix),
            "mixed": np.isin(np.arange(n_variables), mixed).astype(np.int8),
            "unmixing_log_likelihood": np.array(candidate.trace) - log_scale,
            "unmixing_start_criterion": np.array(list(found.criteria.values())) - log_scale,
        },
        {"source": dataset["variable"].values.copy(), "unmixing_start": list(found.criteria)},
    )
    dataset = _with_parameters(dataset, 0 if found.is_product else len(mixed) * (len(mixed) - 1))
    return dataset.assign_attrs(
        is_product=int(found.is_product),
        unmixing_start_name=candidate.name,
        unmixing_steps=len(candidate.trace),
        unmixing_converged=int(candidate.is_converged),
    )


def without_unmixing(dataset: xr.Dataset) -> xr.Dataset:
    """The Dataset of the sources alone."""
    n_mixed = int(dataset["mixed"].sum())
    kept = _with_parameters(dataset, 0 if dataset.attrs["is_product"] else -n_mixed * (n_mixed - 1))
    kept = kept.drop_dims(("source", "unmixing_start", "alternation")).drop_vars("mixed")
    kept.attrs = {name: value for name, value in kept.attrs.items() if name not in EXTRA_ATTRIBUTES}
    return kept


def _with_parameters(dataset: xr.Dataset, n_more: int) -> xr.Dataset:
    """The Dataset with more parameters, of the solution and its rivals: the free entries of the matrix."""
    if "rival_n_parameters" in dataset:
        dataset = dataset.assign(rival_n_parameters=dataset["rival_n_parameters"] + n_more)
    return dataset.assign_attrs(n_parameters=dataset.attrs["n_parameters"] + n_more)
