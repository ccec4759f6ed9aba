"""What the likelihood asks of the samples of a fit, wherever they are, and its answer for samples in memory."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from tensorly_smp.checks import checked_sample_weight
from tensorly_smp.codes.binning import Binning
from tensorly_smp.codes.encoding import Codes, encode_samples
from tensorly_smp.codes.one_hot import one_hot
from tensorly_smp.codes.thinning import representative
from tensorly_smp.decomposition import Decomposition
from tensorly_smp.densities.mixture_density import MixtureDensity
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.factors.solution import CoupledSolution
from tensorly_smp.labels import SampleLabels, aligned
from tensorly_smp.likelihood.bin_likelihood import code_likelihood
from tensorly_smp.likelihood.cell_samples import CellSamples, CellStatistics
from tensorly_smp.likelihood.cells import Cells
from tensorly_smp.likelihood.em import LikelihoodSolution, refine_em
from tensorly_smp.likelihood.expectation import expectation, log_floored
from tensorly_smp.marginals.histograms import Marginals, count_chunk
from tensorly_smp.samples import Samples, read_samples

#: Share of the uniform distribution in what a coupled CPD hands over: it leaves exact zeros, and EM cannot leave them.
MIXING = 0.01
#: Pseudo-counts per bin of EM on the bins; see `refine_em`.
EM_SMOOTHING = 0.1
#: More samples than this are told from infinitely many by no digit of an adjusted Rand index.
MOST_PAIRED = 1e17
#: Starts whose clusters agree so well (adjusted Rand index) are one.
SAME_CLUSTERS = 0.95
#: Passes of EM on the bins, after each of which three may come to agree, and how well then. (Two are not enough: in one
#: of 240 fits to 5000 samples and more, both led to a lower maximum, by 0.01 nats a new sample, and the third did not.)
AGREEMENT_PASSES, SAME_AFTER_PASSES = 25, 0.98


class FitSamples(Protocol):
    """Samples of a fit, in bins that have been chosen. What a posterior is, is theirs alone to know."""

    @property
    def binning(self) -> Binning:
        """The bins."""

    @property
    def few(self) -> SamplesInMemory:
        """The samples that cells are chosen by and starts compared on: all, or some of many."""

    @property
    def are_few(self) -> bool:
        """Whether these are all."""

    def lay(self, cells: Cells) -> CellStatistics:
        """The samples in cells."""

    def decompose(self, decomposition: Decomposition) -> CoupledSolution:
        """The coupled CPD."""

    def refine_em(self, factors: MixtureFactors, **options: Any) -> LikelihoodSolution:
        """EM on the bins; options as of :func:`tensorly_smp.likelihood.em.refine_em`."""


@dataclass(frozen=True, eq=False)
class ReadSamples:
    """Samples of a fit as they were read.

    Attributes
    ----------
    samples : Samples
    weights : ndarray (n_samples,) or None
    few : Samples
        All of them, or evenly spaced ones and the extremes, that bins and cells are chosen by; see
        :mod:`tensorly_smp.codes.thinning`.
    few_weights : ndarray or None
    """

    samples: Samples
    weights: np.ndarray | None
    few: Samples
    few_weights: np.ndarray | None

    @classmethod
    def of(
        cls, X: Any, sample_weight: Any, variables: Sequence[Hashable] | None, sample_dim: Hashable | None
    ) -> ReadSamples:
        """Read samples of any kind; parameters as of :func:`tensorly_smp.samples.read_samples`."""
        samples = read_samples(X, variables, sample_dim)
        weights = checked_sample_weight(aligned(sample_weight, X), len(samples.values))
        values, few_weights = representative(samples.values, weights)
        few = samples
        if values is not samples.values:
            few = Samples(values, samples.variables, SampleLabels(len(values), tuple(range(values.shape[1]))))
        return cls(samples, weights, few, few_weights)

    @property
    def variables(self) -> tuple[Hashable, ...]:
        """Names of the variables."""
        return self.samples.variables

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.samples.values)

    @property
    def container(self) -> str:
        """Kind of object that they came in."""
        return self.samples.labels.container

    def encode(self, binning: Binning) -> SamplesInMemory:
        """The samples in bins."""
        samples = in_memory(self.samples.values, binning, self.weights)
        if self.few is self.samples:
            return samples
        return replace(samples, some=in_memory(self.few.values, binning, self.few_weights))

    def count(self, binning: Binning, triples: np.ndarray) -> Marginals:
        """Marginals of these triples (n_triples, 3), to be added to those of other samples."""
        return count_chunk(encode_samples(self.samples.values, binning).values, binning, triples, self.weights)

    def clusters(self, density: MixtureDensity) -> np.ndarray:
        """Most probable component of every sample (n_samples,)."""
        return density.posterior(self.samples.values).argmax(axis=1)


@dataclass(frozen=True, eq=False)
class SamplesInMemory:
    """The samples themselves.

    Attributes
    ----------
    values : ndarray (n_samples, n_variables)
        NaN = missing.
    codes : Codes
        The same samples.
    weights : ndarray (n_samples,) or None
    some : SamplesInMemory, optional
        Those that cells are chosen by and starts compared on, if these are not all.
    """

    values: np.ndarray
    codes: Codes
    weights: np.ndarray | None
    some: SamplesInMemory | None = None

    @property
    def few(self) -> SamplesInMemory:
        """The samples that cells are chosen by and starts compared on: all, or some of many."""
        return self if self.some is None else self.some

    @property
    def are_few(self) -> bool:
        """Whether these are all."""
        return self.some is None

    @property
    def binning(self) -> Binning:
        """The bins."""
        return self.codes.binning

    def posteriors(self, starts: Sequence[MixtureFactors]) -> list[np.ndarray]:
        """Posteriors (n_samples, rank) for every start, a little of the uniform distribution being mixed in."""
        hot = one_hot(self.codes)
        return [expectation(hot, *start_logarithms(start)).posterior for start in starts]

    def distinct(self, posteriors: Sequence[np.ndarray], same: float = SAME_CLUSTERS) -> list[int]:
        """Positions of the first of all whose most probable components agree, to this adjusted Rand index."""
        clusters, rank = [posterior.argmax(axis=1) for posterior in posteriors], posteriors[0].shape[1]
        kept: list[int] = []
        for i, found in enumerate(clusters):
            tables = (contingency(clusters[j], found, rank, self.weights) for j in kept)
            if all(adjusted_rand(table) < same for table in tables):
                kept.append(i)
        return kept

    def agree(self, *starts: MixtureFactors) -> MixtureFactors | None:
        """The likelier of two starts, if they have the same clusters; else None.

        Of more starts, once they have come to the same clusters by a few passes of EM on the bins, the likeliest after
        these passes: from where it began, another way might lead elsewhere.
        """
        likelihood = code_likelihood(self.codes, self.weights, EM_SMOOTHING)
        points = [np.vstack([tables, weights]) for weights, tables in map(start_logarithms, starts)]
        for number in range(1 + (AGREEMENT_PASSES if len(starts) > 2 else 0)):
            found = [likelihood.e_step(logs) for logs in points]
            same = SAME_AFTER_PASSES if number else SAME_CLUSTERS
            if len(self.distinct([result.posterior for result in found], same)) == 1:
                best = int(np.argmax([result.log_likelihood for result in found]))
                if not number:
                    return starts[best]
                tables = np.split(np.exp(points[best][:-1]), likelihood.first_rows[1:])
                return replace(starts[best], weights=np.exp(points[best][-1]), factors=tuple(tables))
            points = [likelihood.maximize(result, logs) for result, logs in zip(found, points, strict=True)]
        return None

    def lay(self, cells: Cells) -> CellSamples:
        """The samples in cells."""
        return CellSamples.lay(self.values, cells, self.weights)

    def decompose(self, decomposition: Decomposition) -> CoupledSolution:
        """The coupled CPD."""
        return decomposition.solution(self.codes, self.weights)

    def refine_em(self, factors: MixtureFactors, **options: Any) -> LikelihoodSolution:
        """EM on the bins; options as of :func:`tensorly_smp.likelihood.em.refine_em`."""
        return refine_em(factors, self.codes, sample_weight=self.weights, **options)


def in_memory(values: np.ndarray, binning: Binning, weights: np.ndarray | None) -> SamplesInMemory:
    """Samples (n_samples, n_variables) in bins."""
    return SamplesInMemory(values, encode_samples(values, binning), weights)


def start_logarithms(start: MixtureFactors) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of the weights (rank,) and of the stacked factors (n_rows, rank) that a likelihood starts from."""
    model = start.to_numpy().smooth(MIXING, MIXING)
    return np.log(model.weights), log_floored(np.concatenate(model.factors))


def contingency(first: np.ndarray, second: np.ndarray, rank: int, weights: np.ndarray | None = None) -> np.ndarray:
    """(Weighted) number of samples (rank, rank) in every pair of clusters, of numbers (n_samples,) below `rank`."""
    return np.bincount(first * rank + second, weights, rank * rank).reshape(rank, rank)


def adjusted_rand(table: np.ndarray) -> float:
    """Adjusted Rand index of two clusterings, from the number of samples in every pair of clusters.

    scikit-learn's takes the samples themselves, which cannot have weights, and its integers overflow beyond some
    billions of them.

    Parameters
    ----------
    table : ndarray (n_clusters, n_clusters)

    Returns
    -------
    float
        One if they agree, around zero by chance.

    References
    ----------
    L. Hubert, P. Arabie, "Comparing partitions", Journal of Classification 2, 1985.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.fit_samples import adjusted_rand
    >>> adjusted_rand(np.array([[0, 5], [3, 0]]))
    1.0
    """
    counts = np.asarray(table, dtype=float)
    if (total := counts.sum()) > MOST_PAIRED:  # whose square might overflow
        counts = counts / total * MOST_PAIRED
    together, of_rows, of_columns, every = (
        float((n * np.maximum(n - 1.0, 0.0) / 2.0).sum())
        for n in (counts, counts.sum(axis=1), counts.sum(axis=0), counts.sum())
    )
    by_chance = of_rows * of_columns / every if every else 0.0
    most = (of_rows + of_columns) / 2.0
    return 1.0 if most == by_chance else (together - by_chance) / (most - by_chance)
