"""All triples of chunked samples at once, without a histogram: the implicit Frobenius loss as sums over parts.

Every sum over samples in :mod:`tensorly_smp.factors.implicit` is one over parts, and so are those over patterns of
missing entries. A part keeps, between the blocks, the sums of its samples; the factors travel to it, with numbers that
tell which of them are new, and the block's two matrices come back. A part that lost its sums, because it was written to
disk or is computed anew on another worker, computes them from the factors: it is slower then, and not wrong.
"""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np
import tensorly as tl

from tensorly_smp.chunked.coding import ChunkedCodes, add_up, count_part, warn_of_constant
from tensorly_smp.chunked.indicators import Indicators
from tensorly_smp.chunked.parts import Parts
from tensorly_smp.exceptions import SparseHistogramWarning
from tensorly_smp.factors.arrays import Tensor, as_tensor, to_numpy
from tensorly_smp.factors.contexts import checked_context
from tensorly_smp.factors.coupled import require_coverage
from tensorly_smp.factors.implicit import CoupledCodes, ImplicitLoss, distinct_patterns
from tensorly_smp.factors.losses import QuadraticBlock
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.factors.steps import BlockSteps, Steps
from tensorly_smp.factors.symmetric_sums import pair_weights
from tensorly_smp.factors.triple_sample import TripleSample
from tensorly_smp.factors.updates import BlockSolver, ProjectedGradient
from tensorly_smp.marginals.histograms import Marginals

#: Cells of the histograms that are counted at a time, of the triples whose energy is known.
CELLS_AT_A_TIME = 4_000_000


@dataclass(frozen=True, eq=False, kw_only=True)
class ChunkedCoupledCodes(CoupledCodes):
    """CoupledCodes whose samples are on the workers: the arrays of samples have none.

    Attributes
    ----------
    parts : Parts of SweepPart
    histograms : tuple of ndarray
        Shares of the samples in the cells of the triples drawn.
    totals : ndarray (n_drawn,)
        Weights of these triples.
    n_possible : int
        Number of all triples.
    """

    parts: Parts
    histograms: tuple[np.ndarray, ...]
    totals: np.ndarray
    n_possible: int

    def steps(self, solver: BlockSolver) -> Steps:
        """The steps of one start."""
        return BlockSteps(ChunkedLoss(self), solver)

    def calibrated(self, model: MixtureFactors) -> ChunkedCoupledCodes:
        """With the energy estimated anew, if it is not exact, by means of a model that is near the data."""
        if len(self.drawn) == self.n_possible:
            return self
        known = model.to_numpy()
        loss, error = self.estimated_sum(known)
        weights, *factors = (as_tensor(a, self.context) for a in (known.weights, *known.factors))
        with_error = replace(self, energy_error=error)
        value = with_error.steps(ProjectedGradient()).begin(weights, factors)[0] - self.energy
        return replace(with_error, energy=loss - value)

    def estimated_sum(self, model: MixtureFactors | None = None) -> tuple[float, float]:
        """Sum over all triples of the squared distance from a model, and its standard error; exact if all are drawn."""
        terms = np.zeros(len(self.drawn))
        for t, (triple, shares) in enumerate(zip(self.drawn.tolist(), self.histograms, strict=True)):
            if model is not None:
                # r component; i, j, k bins of the three variables
                columns = [model.factors[n] for n in triple]
                shares = shares - np.einsum("r,ir,jr,kr->ijk", model.weights, *columns, optimize=True)
            terms[t] = self.totals[t] * float((shares**2).sum())
        scale = self.n_possible / len(terms)
        is_all = len(terms) == self.n_possible
        error = 0.0 if is_all else self.n_possible * float(terms.std(ddof=1)) / len(terms) ** 0.5
        return scale * float(terms.sum()), error


def couple_chunks(codes: ChunkedCodes) -> ChunkedCoupledCodes:
    """Chunked samples ready for the solver; in memory :func:`tensorly_smp.factors.implicit.couple_codes` does that.

    Parameters
    ----------
    codes : ChunkedCodes

    Returns
    -------
    ChunkedCoupledCodes

    Warns
    -----
    SparseHistogramWarning
        Triples without samples.
    ConstantVariableWarning
        All samples of a variable are in one bin.
    """
    n_bins, largest = codes.n_bins, codes.samples.largest_weight
    n_used, in_triples, present, *moments = codes.parts.map(_used_sums, largest).reduce(add_up)
    warn_of_constant(codes)
    require_coverage(np.flatnonzero(present), codes.binning.variables)
    # Which triples are drawn depends on the numbers of variables and samples only.
    like = np.broadcast_to(np.int8(0), (len(n_bins), int(n_used)))
    sample = TripleSample.draw(like, np.empty(0), n_bins)
    histograms, totals = _histograms(codes, sample.triples)
    is_counted = totals > 0
    if not is_counted.all():
        share = 1 - is_counted.mean()
        number = f"{round(share * sample.n_possible)} of {sample.n_possible} triples"
        warnings.warn(
            f"{number if sample.is_all else f'About {share:.1%} of all triples'} have no complete sample and take no "
            "part in the fit.",
            SparseHistogramWarning,
            stacklevel=5,
        )
    scale = sample.n_possible * float(is_counted.mean()) * 6 / float(in_triples)
    coupled = ChunkedCoupledCodes(
        n_bins=n_bins,
        columns=np.empty((len(n_bins), 0), dtype=np.int8),
        weights=np.empty(0),
        patterns=np.empty((len(n_bins), 0), dtype=bool),
        pattern_weights=np.empty(0),
        pair_weights=None,
        first_moments=tuple(count / count.sum() for count in moments),
        energy=0.0,
        energy_error=0.0,
        context=checked_context(),
        n_samples=int(n_used),
        triples=sample.triples[is_counted] if sample.is_all and not is_counted.all() else None,
        drawn=sample.triples,
        parts=codes.parts.map(SweepPart.of, scale, largest).persist(),
        histograms=histograms,
        totals=totals * scale / largest,
        n_possible=sample.n_possible,
    )
    energy, error = coupled.estimated_sum()
    return replace(coupled, energy=energy, energy_error=error)


def _used(part: Indicators, largest: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which entries are observed, of the samples of positive weight with at least three; these; their weights."""
    observed = part.values >= 0
    n_observed = np.count_nonzero(observed, axis=1)
    # Relative to the largest, so that no sum overflows.
    weights = np.ones(len(observed)) if part.weights is None else part.weights / largest
    used = np.flatnonzero((n_observed >= 3) & (weights > 0))
    return observed[used], used, weights[used]


def _used_sums(part: Indicators, largest: float) -> list[np.ndarray]:
    """Number of these samples, their weight in all triples, samples per variable; and in bins, over their pairs."""
    observed, used, weights = _used(part, largest)
    n_observed = np.count_nonzero(observed, axis=1).astype(float)
    in_pairs = weights * (n_observed - 1) * (n_observed - 2)
    counts = [np.array(len(used)), np.array(in_pairs @ n_observed), np.count_nonzero(observed, axis=0)]
    for column, present, size in zip(part.values[used].T, observed.T, part.sizes, strict=True):
        counts.append(np.bincount(column[present], in_pairs[present], minlength=size))
    return counts


def _histograms(codes: ChunkedCodes, triples: np.ndarray) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Shares in the cells of some triples, and the weights of these."""
    sizes = np.asarray(codes.n_bins, dtype=float)[triples].prod(axis=1)
    batch = (np.cumsum(sizes) // CELLS_AT_A_TIME).astype(int)
    shares: list[np.ndarray] = []
    totals: list[np.ndarray] = []
    for number in np.unique(batch):
        counted: Marginals = codes.parts.map(count_part, codes.binning, triples[batch == number]).reduce(sum)
        totals.append(counted.totals)
        for count, total in zip(counted.counts, counted.totals, strict=True):
            shares.append(count / total if total > 0 else count)
    return tuple(shares), np.concatenate(totals)


@dataclass(frozen=True, eq=False)
class _SentFactors:
    """Factors of a start, and a number for each of them that changes when it does."""

    start: str
    versions: tuple[int, ...]
    arrays: tuple[np.ndarray, ...]


class SweepPart:
    """Some of the samples, and the sums that the blocks of a start need of them."""

    def __init__(self, coupled: CoupledCodes | None) -> None:
        self.coupled = coupled
        self._forget()

    @classmethod
    def of(cls, part: Indicators, scale: float, largest: float) -> SweepPart:
        """Of the codes of a part."""
        observed, used, weights = _used(part, largest)
        if not len(used):
            return cls(None)
        weights = weights * scale
        columns = np.ascontiguousarray(part.values[used].T).astype(np.min_scalar_type(max(part.sizes)))
        for column, present, size in zip(columns, observed.T, part.sizes, strict=True):
            column[~present] = size
        patterns, pattern_weights = distinct_patterns(observed, weights)
        return cls(
            CoupledCodes(
                n_bins=part.sizes,
                columns=columns,
                weights=weights,
                patterns=patterns,
                pattern_weights=pattern_weights,
                pair_weights=pair_weights(patterns, pattern_weights),
                first_moments=(),
                energy=0.0,
                energy_error=0.0,
                context={"dtype": np.float64},
                n_samples=len(used),
                triples=None,
                drawn=np.empty((0, 3), dtype=np.intp),
            )
        )

    def _forget(self) -> None:
        self._lock = Lock()
        self._start = ""
        self._versions: tuple[int, ...] = ()
        self._factors: list[np.ndarray] = []
        self._loss: ImplicitLoss | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"coupled": self.coupled}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.coupled = state["coupled"]
        self._forget()

    def __sizeof__(self) -> int:
        if self.coupled is None:
            return 0
        return sum(int(a.nbytes) for a in (self.coupled.columns, self.coupled.weights, self.coupled.patterns))

    def factor_sums(self, sent: _SentFactors, n: int, weights: np.ndarray) -> list[np.ndarray]:
        """Linear and quadratic part of the block of variable n."""
        if self.coupled is None:
            rank = len(weights)
            return [np.zeros(sent.arrays[n].shape), np.zeros((rank, rank))]
        with self._lock, tl.backend_context("numpy", local_threadsafe=True):
            block = self._loss_at(sent).factor_block(n, self._factors, weights)
            return [block.linear, block.gram]

    def weight_sums(self, sent: _SentFactors) -> list[np.ndarray]:
        """Linear and quadratic part of the block of the weights."""
        if self.coupled is None:
            rank = sent.arrays[0].shape[1]
            return [np.zeros((1, rank)), np.zeros((rank, rank))]
        with self._lock, tl.backend_context("numpy", local_threadsafe=True):
            block = self._loss_at(sent).weight_block(self._factors)
            return [block.linear, block.gram]

    def _loss_at(self, sent: _SentFactors) -> ImplicitLoss:
        """The loss, after the factors that are new have been put in the place of the old ones.

        The loss tells by the identity of the arrays what has changed; arrays that travel lose it, versions do not.
        """
        assert self.coupled is not None  # checked by the callers
        if self._loss is None or self._start != sent.start:
            self._loss, self._start = ImplicitLoss(self.coupled), sent.start
            self._versions, self._factors = sent.versions, list(sent.arrays)
        for n, (mine, theirs) in enumerate(zip(self._versions, sent.versions, strict=True)):
            if mine != theirs:
                self._factors[n] = sent.arrays[n]
        self._versions = sent.versions
        return self._loss


class ChunkedLoss:
    """sum over all triples of omega ||X - model||^2, from samples on the workers; each start needs one of its own."""

    name = "frobenius"

    def __init__(self, coupled: ChunkedCoupledCodes) -> None:
        self.parts = coupled.parts
        self.level = coupled.level
        self.context = coupled.context
        self._start = uuid.uuid4().hex
        self._seen: list[Tensor] = []
        self._versions: list[int] = []

    def factor_block(self, n: int, factors: list[Tensor], weights: Tensor) -> QuadraticBlock:
        """The loss in the factor of variable n."""
        sums = self.parts.map(SweepPart.factor_sums, self._sent(factors), n, to_numpy(weights)).reduce(add_up)
        linear, gram = (as_tensor(each, self.context) for each in sums)
        return QuadraticBlock(linear, gram)

    def weight_block(self, factors: list[Tensor]) -> QuadraticBlock:
        """The loss in the weights."""
        sums = self.parts.map(SweepPart.weight_sums, self._sent(factors)).reduce(add_up)
        linear, gram = (as_tensor(each, self.context) for each in sums)
        return QuadraticBlock(linear, gram, axis=1)

    def total(self, block: QuadraticBlock, weights: Tensor) -> float:
        """The loss, given the weight block of the current factors and the weights (1, rank)."""
        return self.level.loss(block.value(weights))

    def _sent(self, factors: Sequence[Tensor]) -> _SentFactors:
        if not self._seen:
            self._seen, self._versions = list(factors), [0] * len(factors)
        latest = max(self._versions)
        for n, factor in enumerate(factors):
            if factor is not self._seen[n]:
                self._seen[n], self._versions[n] = factor, latest + 1
        return _SentFactors(self._start, tuple(self._versions), tuple(to_numpy(factor) for factor in factors))
