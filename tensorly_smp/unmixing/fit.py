"""Fit of a linear map and the mixture of the sources: search on some of the samples, then the fit of all."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp, softmax
from sklearn.base import clone

from tensorly_smp._support.checks import collected_warnings
from tensorly_smp._support.progress import progress_bar
from tensorly_smp.codes.binning import Binning
from tensorly_smp.codes.encoding import encode_samples
from tensorly_smp.estimator import SmoothProductMixture
from tensorly_smp.fitting.starts import binned_factors
from tensorly_smp.metrics import clustering_accuracy
from tensorly_smp.unmixing.reading import SamplesToUnmix
from tensorly_smp.unmixing.search import (
    Candidate,
    MixedSamples,
    alternate,
    held_out_gain,
    is_clearly_better,
    search_unmixing,
)
from tensorly_smp.unmixing.starts import within_covariance

#: Evenly spaced rows that the matrix is searched on, if there are more.
MOST_ROWS = 20_000
#: With fewer samples than this for every free entry of the matrix, held-out samples have the last word on it.
SAMPLES_PER_ENTRY = 50
#: Loss, in nats per sample, that a new fit of the sources may have against the one that the search ended with.
REFIT_LOSS = 1e-3
#: Clusters that agree on this share of the samples are the same.
SAME_CLUSTERS = 0.98


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
            found = search_unmixing(
                samples,
                self.mixture.n_components,
                fit_product,
                rng,
                self.max_iter,
                self.tol,
                lambda each: bar.advance(criterion=each.criterion),
            )
        n_free = len(scale) * (len(scale) - 1)
        is_product = found.product.criterion >= found.best.criterion - n_free / samples.total_weight
        if not is_product and samples.total_weight < SAMPLES_PER_ENTRY * n_free:
            gain, error = held_out_gain(samples, found.product, found.best, self.tol)
            # With fewer samples than free entries, a matrix may gain in most parts and lose far more in another.
            is_product = gain <= (error if samples.total_weight < n_free else 0.0)
        candidate = replace(found.product, is_converged=True) if is_product else found.best
        criteria = {each.name: each.criterion for each in (found.product, *found.starts)}
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
        if final.criterion < candidate.criterion - REFIT_LOSS or _differ(final.posterior, candidate.posterior):
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


def _differ(first: np.ndarray, second: np.ndarray) -> bool:
    """Compare the clusters of two posteriors (n_samples, rank), in whatever order."""
    return clustering_accuracy(first.argmax(axis=1), second.argmax(axis=1)) < SAME_CLUSTERS


def source_frame(values: np.ndarray, names: Sequence[Hashable]) -> pd.DataFrame:
    """With names as objects, or pandas would make columns of tuples."""
    return pd.DataFrame(values, columns=pd.Index(list(names), dtype=object, tupleize_cols=False))
