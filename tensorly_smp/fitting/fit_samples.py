"""Samples of a fit: what the stages ask of them, wherever they are, and those that are in memory."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from tensorly_smp._support.checks import checked_sample_weight
from tensorly_smp.codes.binning import Binning
from tensorly_smp.codes.encoding import Codes, encode_samples, one_hot
from tensorly_smp.codes.values import merge_equal_rows, representative
from tensorly_smp.decomposition.solution import CoupledSolution
from tensorly_smp.densities.mixture_density import MixtureDensity
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.fitting.coupled_stage import Decomposition
from tensorly_smp.likelihood.cells import Cells
from tensorly_smp.likelihood.em import LikelihoodSolution, refine_on_bins, samples_in_bins
from tensorly_smp.likelihood.observed import distinct_values
from tensorly_smp.likelihood.steps import CellSamples, CellStatistics, Expectation, expectation, log_floored
from tensorly_smp.marginals.histograms import Marginals, count_chunk
from tensorly_smp.samples.labels import SampleLabels, aligned
from tensorly_smp.samples.reading import NO_LABELS, Samples, read_samples
from tensorly_smp.samples.value_labels import ValueLabels

#: Share of the uniform distribution in what a coupled CPD hands over: it leaves exact zeros, and EM cannot leave them.
MIXING = 0.01
#: Pseudo-counts per bin of EM on the bins; see `refine_em`.
EM_SMOOTHING = 0.1


class FitSamples(Protocol):
    """Samples of a fit, in bins that have been chosen: in memory, or in chunks.

    In memory a posterior is an array; in chunks it is kept nowhere, and what stands for it are its counts.
    """

    @property
    def binning(self) -> Binning:
        """The bins."""

    @property
    def subsample(self) -> SamplesInMemory:
        """The samples that cells are chosen by and starts compared on: all, or some of many."""

    @property
    def is_complete(self) -> bool:
        """True if the subsample has all samples."""

    def assign_to_grid(self, cells: Cells) -> CellStatistics:
        """The samples in cells."""

    def decompose(self, decomposition: Decomposition) -> CoupledSolution:
        """The coupled CPD."""

    def refine_em(self, factors: MixtureFactors, **options: Any) -> LikelihoodSolution:
        """EM on the bins; options as of :func:`tensorly_smp.likelihood.em.refine_on_bins`."""


@dataclass(frozen=True, eq=False)
class ReadSamples:
    """Samples of a fit as they were read.

    Attributes
    ----------
    samples : Samples
    weights : ndarray (n_samples,) or None
    different : Samples
        Equal samples as one; see :func:`tensorly_smp.codes.values.merge_equal_rows`.
    different_weights : ndarray or None
    subsample : Samples
        All different ones, or evenly spaced ones and the extremes, that bins and cells are chosen by; see
        :mod:`tensorly_smp.codes.values`.
    subsample_weights : ndarray or None
    """

    samples: Samples
    weights: np.ndarray | None
    different: Samples
    different_weights: np.ndarray | None
    subsample: Samples
    subsample_weights: np.ndarray | None

    @classmethod
    def of(
        cls,
        X: Any,
        sample_weight: Any,
        variables: Sequence[Hashable] | None,
        sample_dim: Hashable | None,
        value_labels: Mapping[Hashable, ValueLabels] | None = NO_LABELS,
    ) -> ReadSamples:
        """Read samples of any kind; parameters as of :func:`tensorly_smp.samples.reading.read_samples`."""
        samples = read_samples(X, variables, sample_dim, value_labels)
        weights = checked_sample_weight(aligned(sample_weight, X), len(samples.values))
        different, different_weights = _replaced(samples, *merge_equal_rows(samples.values, weights))
        subsample = _replaced(different, *representative(different.values, different_weights))
        return cls(samples, weights, different, different_weights, *subsample)

    @property
    def variables(self) -> tuple[Hashable, ...]:
        """Names of the variables."""
        return self.samples.variables

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.samples.values)

    @property
    def total_weight(self) -> float:
        """Sum of the weights; the number of samples without."""
        return float(self.n_samples if self.weights is None else self.weights.sum())

    @property
    def container(self) -> str:
        """Kind of object that they came in."""
        return self.samples.labels.container

    def distinct_values(self, positions: Sequence[int]) -> list[np.ndarray]:
        """Distinct values (n_values,), but for rounding, of some of the variables in all samples."""
        return distinct_values(self.samples.values, positions, self.weights)

    def encode(self, binning: Binning) -> SamplesInMemory:
        """The samples in bins."""
        samples = in_memory(self.different.values, binning, self.different_weights)
        if self.subsample is self.different:
            return samples
        return replace(samples, some=in_memory(self.subsample.values, binning, self.subsample_weights))

    def count(self, binning: Binning, triples: np.ndarray) -> Marginals:
        """Marginals of these triples (n_triples, 3), to be added to those of other samples."""
        return count_chunk(encode_samples(self.samples.values, binning).values, binning, triples, self.weights)

    def clusters(self, density: MixtureDensity) -> tuple[np.ndarray, np.ndarray | None]:
        """Most probable component of every sample (n_samples,), and posteriors if the subsample has all samples."""
        posterior = density.posterior(self.samples.values)
        return posterior.argmax(axis=1), posterior if self.subsample is self.samples else None


def _replaced(samples: Samples, values: np.ndarray, weights: np.ndarray | None) -> tuple[Samples, np.ndarray | None]:
    """Samples in place of others, without labels, and their weights; the same object if they are the same."""
    if values is samples.values:
        return samples, weights
    labels = SampleLabels(len(values), tuple(range(values.shape[1])))
    return Samples(values, samples.variables, labels, samples.value_labels), weights


@dataclass(frozen=True, eq=False)
class SamplesInMemory:
    """Samples of a fit that are in memory, in bins that have been chosen.

    Attributes
    ----------
    values : ndarray (n_samples, n_variables)
        NaN = missing.
    codes : Codes
        Their bins.
    weights : ndarray (n_samples,) or None
    some : SamplesInMemory, optional
        Those that cells are chosen by and starts compared on, if these are not all.
    """

    values: np.ndarray
    codes: Codes
    weights: np.ndarray | None
    some: SamplesInMemory | None = None

    @property
    def subsample(self) -> SamplesInMemory:
        """The samples that cells are chosen by and starts compared on: all, or some of many."""
        return self if self.some is None else self.some

    @property
    def is_complete(self) -> bool:
        """True if the subsample has all samples."""
        return self.some is None

    @property
    def binning(self) -> Binning:
        """The bins."""
        return self.codes.binning

    def expect(self, factors: MixtureFactors) -> Expectation:
        """E-step with given factors, a little of the uniform distribution being mixed in."""
        return expectation(one_hot(self.codes), *start_logarithms(factors), self.weights)

    def posteriors(self, starts: Sequence[MixtureFactors]) -> list[np.ndarray]:
        """Posteriors (n_samples, rank) for every start, a little of the uniform distribution being mixed in."""
        return [self.expect(start).posterior for start in starts]

    def assign_to_grid(self, cells: Cells) -> CellSamples:
        """The samples in cells."""
        return CellSamples.assign_to_grid(self.values, cells, self.weights)

    def decompose(self, decomposition: Decomposition) -> CoupledSolution:
        """The coupled CPD."""
        return decomposition.solution(self.codes, self.weights)

    def refine_em(self, factors: MixtureFactors, *, smoothing: float = 0.0, **options: Any) -> LikelihoodSolution:
        """EM on the bins; options as of :func:`tensorly_smp.likelihood.em.refine_on_bins`."""
        samples = samples_in_bins(self.codes, self.weights, smoothing)
        return refine_on_bins(samples, factors, self.codes.binning, **options)


def in_memory(values: np.ndarray, binning: Binning, weights: np.ndarray | None) -> SamplesInMemory:
    """Samples (n_samples, n_variables) in bins."""
    return SamplesInMemory(values, encode_samples(values, binning), weights)


def start_logarithms(start: MixtureFactors) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of the weights (rank,) and of the stacked factors (n_rows, rank) that a likelihood starts from."""
    model = start.to_numpy().smooth(MIXING, MIXING)
    return np.log(model.weights), log_floored(np.concatenate(model.factors))
