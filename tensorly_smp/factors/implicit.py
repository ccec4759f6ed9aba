"""All triples of many variables at once, without a histogram of any: the Frobenius loss as sums over samples.

The histograms of all triples are counts of the same samples. What a sweep needs of them are sums over samples of
products over pairs and over triples of entries, which are elementary symmetric polynomials: with c_mk the bin of sample
m in variable k, and p1, p2, p3 the sums over its entries k of the first, second and third powers of the row A_k[c_mk]
(component by component, zero where an entry is missing),

    e2 = (p1^2 - p2) / 2               sum over pairs of entries of their product,
    e3 = (p1^3 - 3 p1 p2 + 2 p3) / 6   sum over triples.

The linear part of the block of variable n adds e2 of the other entries of every sample to row c_mn, that of the weights
adds up e3. The quadratic part is the same with Gram matrices G_k = A_k' A_k in place of rows, once for every pattern of
missing entries: a single one where nothing is missing. A sweep takes time in proportion to samples x variables x rank,
whatever the number of triples.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import compress
from operator import is_not
from typing import Any

import numpy as np

from tensorly_smp._support.checks import checked_sample_weight, warn
from tensorly_smp.codes.encoding import Codes
from tensorly_smp.exceptions import SparseHistogramWarning
from tensorly_smp.factors.arrays import as_tensor
from tensorly_smp.factors.contexts import checked_context
from tensorly_smp.factors.coupled import require_coverage
from tensorly_smp.factors.losses import Loss, LossOffset, QuadraticBlock
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.factors.steps import BlockSteps, Steps
from tensorly_smp.factors.symmetric_sums import PairSums, PatternGrams, pair_weights
from tensorly_smp.factors.triple_sample import TripleSample
from tensorly_smp.factors.updates import BlockSolver, ProjectedGradient
from tensorly_smp.marginals.histograms import check_constant, univariate_marginals

#: Weight blocks after which the sums over samples are computed anew, so that rounding does not pile up.
MOST_UPDATES = 4


@dataclass(frozen=True, eq=False)
class CoupledCodes:
    """Samples in the form in which all of their triples are factorized without counting one.

    As in ``CoupledTensors``, the histogram of triple jkl has weight T_jkl / mean T with T_jkl the (weighted) number of
    samples that are complete in it, and triples without samples do not count in the mean.

    Attributes
    ----------
    n_bins : tuple of int
    columns : ndarray of int (n_variables, n_used)
        Bins of the samples of positive weight with three entries or more, ``n_bins[n]`` where the entry is missing.
    weights : ndarray (n_used,)
        Weights of these samples over the mean T.
    patterns : ndarray of bool (n_variables, n_patterns)
        Which entries are observed; every pattern that occurs, once.
    pattern_weights : ndarray (n_patterns,)
        Sums of `weights`.
    pair_weights : ndarray (n_variables, n_variables) or None
        Sums of `weights` over the samples with both entries, if there are many patterns.
    univariate_marginals : tuple of ndarray (n_bins[n],)
        Share of samples per bin, in the triples of each variable.
    squared_norm : float
        Sum over triples of omega ||X||^2, the part of the loss that no factor changes.
    squared_norm_error : float
        Its standard error; 0 where it is exact.
    context : dict
        dtype of the factors.
    n_samples : int
    triples : ndarray of int (n_triples, 3) or None
        None for all.
    drawn : ndarray of int (n_drawn, 3)
        Triples of which the squared norm is known: all, or some at random.
    """

    n_bins: tuple[int, ...]
    columns: np.ndarray
    weights: np.ndarray
    patterns: np.ndarray
    pattern_weights: np.ndarray
    pair_weights: np.ndarray | None
    univariate_marginals: tuple[np.ndarray, ...]
    squared_norm: float
    squared_norm_error: float
    context: dict[str, Any]
    n_samples: int
    triples: np.ndarray | None
    drawn: np.ndarray

    @property
    def offset(self) -> LossOffset:
        """Constant that turns the value of a block into the loss, never below zero where it is exact."""
        least = -np.inf if self.squared_norm_error else 0.0
        return LossOffset(self.squared_norm, resolution=self.squared_norm, error=self.squared_norm_error, least=least)

    def steps(self, solver: BlockSolver) -> Steps:
        """The steps of one start."""
        return BlockSteps(ImplicitLoss(self), solver)

    def calibrated(self, model: MixtureFactors) -> CoupledCodes:
        """Copy with the squared norm estimated anew, if it is not exact, by means of a model that is near the data.

        The loss of the model is the mean over the triples drawn, times their number; its difference from the squared
        norm is known exactly. The closer the model, the smaller the error, as that of any mean of small numbers.
        """
        sample = TripleSample(self.columns, self.weights, self.n_bins, self.drawn)
        if sample.is_all:
            return self
        known = model.to_numpy()
        loss, error = _estimated_sum(sample, known)
        weights, *factors = (as_tensor(a, self.context) for a in (known.weights, *known.factors))
        with_error = replace(self, squared_norm_error=error)  # so that no loss is cut off at zero
        value = with_error.steps(ProjectedGradient()).begin(weights, factors)[0] - self.squared_norm
        return replace(with_error, squared_norm=loss - value)


def couple_codes(codes: Codes, sample_weight: Any = None, context: dict[str, Any] | None = None) -> CoupledCodes:
    """Samples ready for the solver; those of no weight or fewer than three entries are left out.

    The context is by default float64. The active backend has to be NumPy.
    """
    context = context or checked_context()
    weights = checked_sample_weight(sample_weight, codes.n_samples)
    observed = codes.values >= 0
    n_observed = np.count_nonzero(observed, axis=1).astype(float)
    # Relative to the largest, so that no sum overflows.
    weights = np.ones(codes.n_samples) if weights is None else weights / weights.max()
    used = np.flatnonzero((n_observed >= 3) & (weights > 0))
    if len(used) < codes.n_samples:
        observed = observed[used]
        n_observed = n_observed[used]
        weights = weights[used]
    check_constant(codes)
    columns = _columns(codes, used, observed)
    sample = TripleSample.draw(columns, weights, codes.n_bins)
    require_coverage(np.flatnonzero(observed.any(axis=0)), codes.binning.variables)
    totals = sample.totals()
    is_counted = totals > 0
    n_counted = sample.n_possible * is_counted.mean()
    if not is_counted.all():
        _warn_of_empty_triples(sample, is_counted)
    # Samples in a triple on average: the sum over all triples is known without counting any.
    mean_total = float(weights @ (n_observed * (n_observed - 1) * (n_observed - 2))) / 6 / n_counted
    # A sample is in the triples of a variable as often as it has pairs of others.
    in_pairs = np.zeros(codes.n_samples)
    in_pairs[used] = weights * (n_observed - 1) * (n_observed - 2)
    weights = weights / mean_total
    patterns, pattern_weights = distinct_patterns(observed, weights)
    squared_norm, error = _estimated_sum(replace(sample, weights=weights))
    return CoupledCodes(
        n_bins=codes.n_bins,
        columns=columns,
        weights=weights,
        patterns=patterns,
        pattern_weights=pattern_weights,
        pair_weights=pair_weights(patterns, pattern_weights),
        univariate_marginals=tuple(univariate_marginals(codes, in_pairs)),
        squared_norm=squared_norm,
        squared_norm_error=error,
        context=context,
        n_samples=len(used),
        triples=sample.triples[is_counted] if sample.is_all and not is_counted.all() else None,
        drawn=sample.triples,
    )


def _columns(codes: Codes, used: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Codes variable by variable, so that those of one lie next to each other, in the smallest type."""
    values = codes.values if len(used) == codes.n_samples else codes.values[used]
    columns = np.ascontiguousarray(values.T).astype(np.min_scalar_type(max(codes.n_bins)))
    for column, present, size in zip(columns, observed.T, codes.n_bins, strict=True):
        column[~present] = size
    return columns


def distinct_patterns(observed: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct rows as columns (n_variables, n_patterns), and the weight of the samples that share each."""
    if observed.all():
        return np.ones((observed.shape[1], 1), dtype=bool), np.array([weights.sum()])
    packed, member = np.unique(np.packbits(observed, axis=1), axis=0, return_inverse=True)
    distinct = np.unpackbits(packed, axis=1, count=observed.shape[1]).astype(bool)
    return np.ascontiguousarray(distinct.T), np.bincount(member.ravel(), weights)


def _warn_of_empty_triples(sample: TripleSample, is_counted: np.ndarray) -> None:
    share = 1 - is_counted.mean()
    number = f"{round(share * sample.n_possible)} of {sample.n_possible} triples"
    warn(
        f"{number if sample.is_all else f'About {share:.1%} of all triples'} have no complete sample and take no part "
        "in the fit.",
        SparseHistogramWarning,
    )


def _estimated_sum(sample: TripleSample, model: MixtureFactors | None = None) -> tuple[float, float]:
    """Sum over all triples of the squared distance from a model, and its standard error; exact if all are counted."""
    terms = sample.squared_distances(model)
    scale = sample.n_possible / len(terms)
    error = 0.0 if sample.is_all else sample.n_possible * float(terms.std(ddof=1)) / len(terms) ** 0.5
    return scale * float(terms.sum()), error


class ImplicitLoss(Loss):
    """sum over all triples of omega ||X - model||^2, from samples.

    The sums over samples are kept between the blocks. Which factors they are of is known by the identity of the arrays,
    so that only what changed is exchanged; each start needs a loss of its own.
    """

    name = "frobenius"

    def __init__(self, coupled: CoupledCodes) -> None:
        self.coupled = coupled
        self._pairs = PairSums(coupled.columns, coupled.weights, max(coupled.n_bins), coupled.context)
        self._grams = PatternGrams(coupled.patterns, coupled.pattern_weights, coupled.pair_weights, coupled.context)
        self._factors: list[np.ndarray] = []
        # The variable that is out of the sums of pairs, since its block is being solved, and its e2 per bin.
        self._open: tuple[int, np.ndarray] | None = None
        self._third: np.ndarray = np.empty(0)
        self._n_updates = 0

    @property
    def offset(self) -> LossOffset:
        """Constant that turns the value of a block into the loss."""
        return self.coupled.offset

    def factor_block(self, n: int, factors: list[np.ndarray], weights: np.ndarray) -> QuadraticBlock:
        """The loss in the factor of variable n."""
        self._follow(factors)
        per_bin = self._pairs.remove(n, factors[n])
        self._open = (n, per_bin)
        gram = self._grams.pairs(n) * weights * weights[:, None]
        return QuadraticBlock(per_bin * weights, gram)

    def weight_block(self, factors: list[np.ndarray]) -> QuadraticBlock:
        """The loss in the weights."""
        self._n_updates += 1
        if self._n_updates >= MOST_UPDATES:
            self._factors = []
        self._follow(factors)
        return QuadraticBlock(self._third[None, :], self._grams.triples(), axis=1)

    def _follow(self, factors: list[np.ndarray]) -> None:
        """Bring the sums to these factors."""
        changed = list(compress(range(len(factors)), map(is_not, factors, self._factors)))
        # To exchange a variable takes twice as long as to add one.
        if not self._factors or len(changed) > len(factors) // 2:
            self._third = self._pairs.compute(factors)
            self._grams.compute(factors)
            self._factors = list(factors)
            self._open = None
            self._n_updates = 0
            return
        if self._open is not None:
            self._put_in(*self._open, factors[self._open[0]])
            self._open = None
        for n in changed:
            if factors[n] is not self._factors[n]:
                self._put_in(n, self._pairs.remove(n, self._factors[n]), factors[n])

    def _put_in(self, n: int, per_bin: np.ndarray, factor: np.ndarray) -> None:
        self._pairs.insert(n, factor)
        # e3 is linear in the rows of any one variable.
        self._third = self._third + ((factor - self._factors[n]) * per_bin).sum(axis=0)
        self._grams.exchange(n, factor)
        self._factors[n] = factor
