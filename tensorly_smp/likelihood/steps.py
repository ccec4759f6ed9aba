"""The two steps of EM for a mixture of products, on a grid of cells and bins.

The tables of all variables are stacked into one matrix (n_rows, rank), one row per cell of a smooth variable, then one
per value, or bin, of a discrete one. A smooth variable's probabilities are a log-spline, tabulated on fine cells; those
of a discrete variable are free. ``membership`` (n_samples, n_rows) picks the row of every observed entry, as of
:func:`tensorly_smp.codes.encoding.one_hot`, or spreads the entry over several rows of its variable by shares that sum
to one; a missing entry picks none, which integrates it out. All samples of the package meet EM here: on fine cells, in
the bins of histograms, and between the knots of the coarse model of the search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_array, vstack
from scipy.special import logsumexp

from tensorly_smp._support.parallel import OnePart, Parts, add_up
from tensorly_smp.codes.encoding import PackedIndicators, compiled_products
from tensorly_smp.likelihood.cells import Cells, prior_counts
from tensorly_smp.samples.values import effective_weights
from tensorly_smp.splines.log_spline import (
    FEW_PENALTIES,
    PENALTIES,
    choose_penalties,
    effective_parameters,
    fit_log_splines,
)

#: Samples at a time: intermediate arrays stay in the processor's cache, and small however many samples there are.
_BLOCK = 16384
#: Smallest probability in a table, as in the coupled solver: as good as impossible, yet its logarithm is finite, and
#: so is that of a product over any number of variables.
SMALLEST_PROBABILITY = 1e-60
_LOWEST = float(np.log(SMALLEST_PROBABILITY))
_TINY = 1e-300
#: Entries from which samples in memory are packed, where the products of these are compiled.
LEAST_PACKED = 500_000
#: Components of fewer samples than this, on average, do not tell a factor of ten between penalties: a hundred is
#: compared. (Log-density of other samples per variable, 10 to 15 samples of a component, the paper's four kinds, 6 to
#: 1000 variables: higher in all 24 cases, by .001 to .027; with 22 to 26 samples lower for GMM, by .003 to .007.)
FEW_SAMPLES = 20.0
#: In mixtures that are clear an M-step ends when Newton's steps promise less than this, in nats.
CLEAR_GAIN = 1e-3


@dataclass(frozen=True, eq=False)
class Expectation:
    """Result of :func:`expectation`.

    Attributes
    ----------
    posterior : ndarray (n_samples, rank)
        Pr(component | observed entries of the sample), rows sum to one; of samples in parts left out, (0, rank).
    log_likelihoods : ndarray (n_mixtures,)
        Weighted sum over samples of log Pr(observed entries), in nats.
    counts : ndarray (n_rows, rank)
        Expected weight of the samples with an entry in this row that belong to the component.
    component_counts : ndarray (rank,)
        Expected weight of the samples of the component.
    sizes : tuple of int (n_mixtures,)
        Numbers of components of the mixtures that stand side by side.
    """

    posterior: np.ndarray
    log_likelihoods: np.ndarray
    counts: np.ndarray
    component_counts: np.ndarray
    sizes: tuple[int, ...]

    @property
    def log_likelihood(self) -> float:
        """The log-likelihood of a single mixture."""
        return float(self.log_likelihoods[0])

    @classmethod
    def side_by_side(cls, found: Sequence[Expectation]) -> Expectation:
        """Several as one, without posteriors."""
        if len(found) == 1:
            return found[0]
        return cls(
            np.empty((0, 0)),
            np.concatenate([each.log_likelihoods for each in found]),
            np.concatenate([each.counts for each in found], axis=1),
            np.concatenate([each.component_counts for each in found]),
            tuple(size for each in found for size in each.sizes),
        )

    def split(self) -> list[Expectation]:
        """The mixtures one by one."""
        if len(self.sizes) == 1:
            return [self]
        return [
            Expectation(self.posterior[:, a:b], own, self.counts[:, a:b], self.component_counts[a:b], (b - a,))
            for (a, b), own in zip(pairwise([0, *np.cumsum(self.sizes)]), self.log_likelihoods[:, None], strict=True)
        ]


def log_floored(probabilities: np.ndarray) -> np.ndarray:
    """Logarithms, those of smaller numbers being that of SMALLEST_PROBABILITY, so that all are finite."""
    return np.log(np.maximum(probabilities, SMALLEST_PROBABILITY))


def log_joint(hot: csr_array, log_weights: np.ndarray, log_tables: np.ndarray) -> np.ndarray:
    """Logarithm of w_r Pr(observed entries of a sample | r).

    Parameters
    ----------
    hot : csr_array (n_samples, n_rows)
        Ones at the rows that the entries of a sample are in, or shares of an entry that sum to one.
    log_weights : ndarray (rank,)
    log_tables : ndarray (n_rows, rank)
        Finite: see :func:`log_floored`.

    Returns
    -------
    ndarray (n_samples, rank)
        The log weights where no entry is observed.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> from tensorly_smp.codes.encoding import one_hot
    >>> from tensorly_smp.likelihood.steps import log_joint
    >>> hot = one_hot(smp.Codes.from_array([[0, 1], [1, -1]]))
    >>> tables = np.array([[0.9, 0.5], [0.1, 0.5], [0.2, 0.5], [0.8, 0.5]])
    >>> np.exp(log_joint(hot, np.log([0.5, 0.5]), np.log(tables))).round(3)
    array([[0.36 , 0.125],
           [0.05 , 0.25 ]])
    """
    joint = hot @ log_tables
    joint += log_weights
    return joint


def expectation(
    hot: csr_array | PackedIndicators,
    log_weights: np.ndarray,
    log_tables: np.ndarray,
    sample_weight: np.ndarray | None = None,
    sizes: tuple[int, ...] = (),
    blocks: Iterable[Block] | None = None,
    keeps_posterior: bool = True,
) -> Expectation:
    """Posteriors, log-likelihood and expected counts of a mixture (the E-step of Dempster, Laird and Rubin 1977).

    Of several mixtures at once, if their components stand side by side.

    Parameters
    ----------
    hot : csr_array or PackedIndicators (n_samples, n_rows)
        As for :func:`log_joint`. A sample without entries has the weights for posterior and adds nothing to the
        log-likelihood.
    log_weights : ndarray (rank,)
        Exponentials sum to one.
    log_tables : ndarray (n_rows, rank)
        Finite: see :func:`log_floored`.
    sample_weight : ndarray (n_samples,), optional
        Non-negative; all one by default.
    sizes : tuple of int, optional
        Numbers of components of several mixtures.
    blocks : iterable of Block, optional
        Of `hot`, where these are known.
    keeps_posterior : bool
        False leaves the posteriors (0, rank) out.

    Returns
    -------
    Expectation

    References
    ----------
    A. P. Dempster, N. M. Laird, D. B. Rubin, "Maximum likelihood from incomplete data via the EM algorithm", Journal
    of the Royal Statistical Society B 39, 1977.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> from tensorly_smp.codes.encoding import one_hot
    >>> from tensorly_smp.likelihood.steps import expectation
    >>> hot = one_hot(smp.Codes.from_array([[0, 1], [1, -1]]))
    >>> tables = np.array([[0.9, 0.5], [0.1, 0.5], [0.2, 0.5], [0.8, 0.5]])
    >>> result = expectation(hot, np.log([0.5, 0.5]), np.log(tables))
    >>> result.posterior.round(3)
    array([[0.742, 0.258],
           [0.167, 0.833]])
    >>> result.counts.round(3)
    array([[0.742, 0.258],
           [0.167, 0.833],
           [0.   , 0.   ],
           [0.742, 0.258]])
    """
    sizes = sizes or (len(log_weights),)
    ends = np.cumsum(sizes)
    mixture = np.repeat(np.arange(len(sizes)), sizes)  # that a column belongs to
    belongs = np.eye(len(sizes))[mixture]
    posterior = np.empty((hot.shape[0] if keeps_posterior else 0, len(log_weights)))
    counts = np.zeros(log_tables.shape)
    component_counts = np.zeros(len(log_weights))
    log_likelihoods = np.zeros(len(sizes))
    for rows, block, add_up_block in _blocks(hot) if blocks is None else blocks:
        joint = log_joint(block, log_weights, log_tables)
        # Column by column, NumPy's maximum is three times faster than along the short rows, and the product with ones
        # five times faster than their sum.
        columns = joint.T
        peak = np.stack([reduce(np.maximum, columns[b - a : b]) for a, b in zip(sizes, ends, strict=True)], axis=1)
        joint -= peak if len(sizes) == 1 else peak[:, mixture]
        np.exp(joint, out=joint)
        total = joint @ belongs
        share = 1.0 / total
        own = np.multiply(
            joint, share if len(sizes) == 1 else share[:, mixture], out=posterior[rows] if keeps_posterior else joint
        )
        peak += np.log(total)
        if sample_weight is None:
            weighted = own
            log_likelihoods += peak.sum(axis=0)
        else:
            weighted = np.multiply(own, sample_weight[rows, None], out=joint)
            log_likelihoods += sample_weight[rows] @ peak
        counts += add_up_block(weighted)
        component_counts += weighted.sum(axis=0)
    return Expectation(posterior, log_likelihoods, counts, component_counts, sizes)


#: Some rows of an indicator matrix, these rows as a matrix, and the product with its transpose.
Block = tuple[slice, Any, Callable[[np.ndarray], np.ndarray]]


def _blocks(hot: csr_array | PackedIndicators) -> Iterator[Block]:
    for start in range(0, hot.shape[0], _BLOCK):
        rows = slice(start, start + _BLOCK)
        block: Any = hot[rows] if hot.shape[0] > _BLOCK or isinstance(hot, PackedIndicators) else hot
        yield rows, block, block.add_up if isinstance(block, PackedIndicators) else block.T.__matmul__


@dataclass(frozen=True, eq=False)
class Mixture:
    """Parameters of a mixture, or of several on the same cells, whose components stand side by side.

    Attributes
    ----------
    log_weights : ndarray (rank,)
        The exponentials of a mixture sum to one.
    coefficients : ndarray (n_basis, n_smooth, rank)
        Of the log-splines of the smooth variables.
    tables : ndarray (n_rows, rank)
        Log-probabilities of the values of the discrete variables, one below the other.
    parts : tuple of int
        Numbers of components of several mixtures; empty of a single one.
    """

    log_weights: np.ndarray
    coefficients: np.ndarray
    tables: np.ndarray
    parts: tuple[int, ...] = ()

    @classmethod
    def side_by_side(cls, mixtures: Sequence[Mixture]) -> Mixture:
        """Several mixtures as one record."""
        if len(mixtures) == 1:
            return mixtures[0]
        return cls(
            np.concatenate([each.log_weights for each in mixtures]),
            np.concatenate([each.coefficients for each in mixtures], axis=2),
            np.concatenate([each.tables for each in mixtures], axis=1),
            tuple(size for each in mixtures for size in each.sizes),
        )

    @property
    def rank(self) -> int:
        """Number of components, of all mixtures together."""
        return len(self.log_weights)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of components of the mixtures."""
        return self.parts or (self.rank,)

    def split(self) -> list[Mixture]:
        """The mixtures one by one."""
        if not self.parts:
            return [self]
        return [
            Mixture(self.log_weights[a:b], self.coefficients[:, :, a:b], self.tables[:, a:b])
            for a, b in pairwise([0, *np.cumsum(self.parts)])
        ]

    @property
    def columns(self) -> np.ndarray:
        """The coefficients as (n_basis, n_smooth * rank), one column per density."""
        return self.coefficients.reshape(len(self.coefficients), -1)

    def pack(self) -> np.ndarray:
        """All parameters in one vector."""
        return np.concatenate([self.tables.ravel(), self.log_weights, self.coefficients.ravel()])

    def unpack(self, vector: np.ndarray) -> Mixture:
        """Parameters of this shape from a vector."""
        first = self.tables.size
        second = first + self.rank
        coefficients = vector[second:].reshape(self.coefficients.shape)
        return Mixture(vector[first:second], coefficients, vector[:first].reshape(self.tables.shape), self.parts)


@dataclass(frozen=True, eq=False)
class CellPart:
    """Some samples in cells.

    Attributes
    ----------
    membership : csr_array or PackedIndicators (n_samples, n_rows)
        Share of every row in every entry; packed if there are many samples, none of whose entries is spread.
    weights : ndarray (n_samples,) or None
        Zero for samples without entries, which say nothing; None if all are one.
    """

    membership: Any
    weights: np.ndarray | None

    @cached_property
    def _kept_blocks(self) -> list[Block]:
        return list(_blocks(self.membership))

    @property
    def blocks(self) -> Iterable[Block]:
        """The membership in blocks, which are kept but of packed samples."""
        return self._kept_blocks if isinstance(self.membership, csr_array) else _blocks(self.membership)

    def add_up(self, values: np.ndarray) -> np.ndarray:
        """Sums (n_rows, ...) over the samples in every row of values (n_samples, ...)."""
        found = np.zeros((self.membership.shape[1], *values.shape[1:]))
        for rows, _, add_up_block in self.blocks:
            found += add_up_block(values[rows])
        return found

    @classmethod
    def packed(cls, values: np.ndarray, sample_weight: np.ndarray | None, cells: Cells) -> CellPart:
        """Many samples (n_samples, n_variables) in cells: two bytes an entry, more if entries are spread over cells."""
        weights = effective_weights(values, sample_weight)
        own = None if (weights == 1.0).all() else weights
        blocks = [values[start : start + _BLOCK] for start in range(0, max(1, len(values)), _BLOCK)]
        if cells.resolution.any():
            return cls(csr_array(vstack([cells.membership(block) for block in blocks])), own)
        return cls(cells.packed(values), own)

    def __sizeof__(self) -> int:  # by which Dask decides what to write to disk
        found = self.membership
        arrays = [found.values] if isinstance(found, PackedIndicators) else [found.data, found.indices, found.indptr]
        return sum(int(array.nbytes) for array in arrays) + (0 if self.weights is None else int(self.weights.nbytes))


def join_parts(found: list[CellPart]) -> CellPart:
    """Samples of several parts, one below the other."""
    weights = None
    if any(part.weights is not None for part in found):
        own = [np.ones(part.membership.shape[0]) if part.weights is None else part.weights for part in found]
        weights = np.concatenate(own)
    matrices = [part.membership for part in found]
    if isinstance(matrices[0], PackedIndicators):
        values = np.concatenate([matrix.values for matrix in matrices])
        return CellPart(PackedIndicators(values, matrices[0].sizes), weights)
    return CellPart(csr_array(vstack(matrices)), weights)


def overall_weight(part: CellPart) -> tuple[np.ndarray, float]:
    """Weight of the samples in every row, and of all of them."""
    weights = np.ones(part.membership.shape[0]) if part.weights is None else part.weights
    return part.add_up(weights), float(weights.sum())


def _expect_part(
    part: CellPart, log_weights: np.ndarray, log_tables: np.ndarray, sizes: tuple[int, ...], keeps_posterior: bool
) -> Expectation:
    return expectation(part.membership, log_weights, log_tables, part.weights, sizes, part.blocks, keeps_posterior)


def _add_expectations(found: list[Expectation]) -> Expectation:
    if len(found) == 1:
        return found[0]
    likelihoods, counts, component_counts = add_up(
        [(part.log_likelihoods, part.counts, part.component_counts) for part in found]
    )
    return Expectation(found[0].posterior[:0], likelihoods, counts, component_counts, found[0].sizes)


@dataclass(frozen=True, eq=False)
class CellSamples:
    """Samples in cells, and the two steps of EM on them; several fits may share them.

    Attributes
    ----------
    cells : Cells
    prior : ndarray (n_rows, 1)
        Pseudo-samples that are added to the counts.
    log_volume : float
        Weighted sum over entries of the logarithm of their cell's width.
    total_weight : float
        Sum of the sample weights.
    parts : OnePart or Parts of CellPart
        In memory there is one, with posteriors, `membership` and `sample_weight`; many lie on workers.
    """

    cells: Cells
    prior: np.ndarray
    log_volume: float
    total_weight: float
    parts: OnePart | Parts

    @classmethod
    def assign_to_grid(cls, values: np.ndarray, cells: Cells, sample_weight: np.ndarray | None = None) -> CellSamples:
        """Samples (n_samples, n_variables), NaN = missing, of weights (n_samples,), in cells."""
        weights = effective_weights(values, sample_weight)
        is_packed = values.size >= LEAST_PACKED and not cells.resolution.any() and compiled_products(values.size)
        membership = cells.packed(values) if is_packed else cells.membership(values)
        return cls.of_parts(OnePart(CellPart(membership, weights)), cells)

    @classmethod
    def of_parts(cls, parts: OnePart | Parts, cells: Cells) -> CellSamples:
        """Samples that are in the cells already, in parts."""
        overall, total = parts.map(overall_weight).reduce(add_up)
        return cls(cells, prior_counts(cells, overall), float(overall @ cells.log_widths), total, parts)

    @cached_property
    def _in_memory(self) -> CellPart:
        (part,) = self.parts.gather()
        return part  # type: ignore[no-any-return]

    @property
    def membership(self) -> Any:
        """Share (n_samples, n_rows) of every row in every entry, of samples in memory: sparse, or packed."""
        return self._in_memory.membership

    @property
    def sample_weight(self) -> np.ndarray:
        """Weights (n_samples,) of samples in memory."""
        return self._in_memory.weights  # type: ignore[return-value]

    @cached_property
    def transposed(self) -> csr_array:
        """The membership by row (n_rows, n_samples), for many columns at a time."""
        return csr_array(self.membership.T)

    def reweighted(self, sample_weight: np.ndarray) -> CellSamples:
        """Copy with other weights (n_samples,) and the pseudo-samples of these."""
        has_entries = self.membership @ np.ones(self.membership.shape[1]) > 0
        weights = np.where(has_entries, sample_weight, 0.0)
        log_volume = float(weights @ (self.membership @ self.cells.log_widths))
        parts = OnePart(CellPart(self.membership, weights))
        return replace(self, log_volume=log_volume, total_weight=float(weights.sum()), parts=parts)

    def counts_from_posterior(self, *posteriors: np.ndarray) -> Expectation:
        """Expected counts of posteriors (n_samples, rank), of one mixture or more, in place of those of an E-step."""
        posterior = np.concatenate(posteriors, axis=1) if len(posteriors) > 1 else posteriors[0]
        weighted = posterior * self.sample_weight[:, None]
        sizes = tuple(each.shape[1] for each in posteriors)
        unknown = np.full(len(sizes), np.nan)
        return Expectation(posterior, unknown, self._in_memory.add_up(weighted), weighted.sum(axis=0), sizes)

    def e_step(self, log_weights: np.ndarray, log_tables: np.ndarray, sizes: tuple[int, ...] = ()) -> Expectation:
        """E-step with log-probabilities (rank,) of the components and (n_rows, rank) of the cells.

        The tables travel to the parts, counts of the same size come back.
        """
        keeps = isinstance(self.parts, OnePart)
        expected = self.parts.map(_expect_part, log_weights, log_tables, sizes, keeps)
        found: Expectation = expected.reduce(_add_expectations)
        return found

    def log_densities(self, mixture: Mixture) -> np.ndarray:
        """Log-density (n_samples,) of the observed entries of every sample in memory, in the units of the variables."""
        joint = log_joint(self.membership, mixture.log_weights, self.log_tables(mixture))
        return np.asarray(logsumexp(joint, axis=1) - self.membership @ self.cells.log_widths)

    def log_tables(self, mixture: Mixture) -> np.ndarray:
        """Log-probabilities (n_rows, rank) of all rows."""
        if not self.cells.smooth:
            return mixture.tables
        basis = self.cells.basis
        rank = mixture.rank
        logs = basis.log_probabilities(mixture.columns)
        stacked = logs.reshape(basis.n_cells, -1, rank).transpose(1, 0, 2).reshape(-1, rank)
        return np.concatenate([stacked, mixture.tables]) if len(mixture.tables) else stacked

    def expect(self, mixture: Mixture, penalty: np.ndarray) -> tuple[Expectation, np.ndarray]:
        """E-step, and the penalized log-likelihoods (n_mixtures,); the penalty (n_smooth * rank,) is not per sample."""
        tables = self.log_tables(mixture)
        expected = self.e_step(mixture.log_weights, tables, mixture.sizes)
        prior = self.prior[:, 0] @ tables
        if self.cells.smooth:
            prior -= 0.5 * (penalty * self.cells.basis.roughness(mixture.columns)).reshape(-1, mixture.rank).sum(axis=0)
        return expected, expected.log_likelihoods + sum_by_mixture(prior, mixture.sizes)

    def shares(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Shares (n_cells, n_densities) of the samples in the cells, and how many samples these are."""
        n_rows = self.cells.first_value
        columns = self.by_density(counts[:n_rows] + self.prior[:n_rows])
        totals = columns.sum(axis=0)
        return columns / totals, totals

    def by_density(self, rows: np.ndarray) -> np.ndarray:
        """Numbers (n_rows, rank) of the smooth variables as (n_cells, n_smooth * rank), one column per density."""
        n_cells = self.cells.basis.n_cells
        rank = rows.shape[1]
        smooth = rows[: self.cells.first_value].reshape(-1, n_cells, rank)
        return smooth.transpose(1, 0, 2).reshape(n_cells, -1)

    def feasible(self, vector: np.ndarray, like: Mixture) -> Mixture:
        """The mixture nearest to a packed vector, as after an extrapolation: probabilities are made to sum to one."""
        mixture = like.unpack(vector)
        largest = np.maximum.reduceat(mixture.log_weights, first_columns(mixture.sizes))
        weights = np.exp(np.maximum(mixture.log_weights - np.repeat(largest, mixture.sizes), _LOWEST))
        log_weights = log_floored(weights / np.repeat(sum_by_mixture(weights, mixture.sizes), mixture.sizes))
        tables = mixture.tables
        if len(tables):
            # The largest of each column at zero: no exponential overflows.
            tables = tables - self.per_row(np.maximum.reduceat(tables, self.first_rows, axis=0))
            tables = np.exp(np.maximum(tables, _LOWEST))
            tables = log_floored(tables / self.per_row(np.add.reduceat(tables, self.first_rows, axis=0)))
        coefficients = self.cells.basis.shaped(mixture.columns).reshape(mixture.coefficients.shape)
        return Mixture(log_weights, coefficients, tables, mixture.parts)

    def maximize(
        self, expected: Expectation, mixture: Mixture, penalty: np.ndarray, are_clear: Sequence[bool] = ()
    ) -> Mixture:
        """M-step: shares of the expected counts and, for every smooth density, one Newton step.

        It raises what the E-step has found, not more; to the end in mixtures that are clear, as their posteriors, and
        with these the counts, stay. A discrete variable of a component without counts stays as it was: any would do.
        """
        if not self.cells.smooth:
            return self.mixture_of(expected, mixture.columns, mixture.tables)
        shares, totals = self.shares(expected.counts)
        tol: Any = np.inf
        if any(are_clear):
            promised = np.where(np.repeat(are_clear, mixture.sizes), CLEAR_GAIN, np.inf)
            tol = (promised / totals.reshape(-1, mixture.rank)).ravel()
        moved = fit_log_splines(self.cells.basis, shares, penalty / totals, mixture.columns, tol=tol)
        return self.mixture_of(expected, moved, mixture.tables)

    @cached_property
    def first_rows(self) -> np.ndarray:
        """First row of every discrete variable in the tables of all of them."""
        return self.cells.offsets[len(self.cells.smooth) : -1] - self.cells.first_value

    def per_row(self, per_variable: np.ndarray) -> np.ndarray:
        """Rows of the discrete variables (n_discrete, n_columns), repeated for each of their values."""
        return np.repeat(per_variable, np.diff(self.cells.offsets)[len(self.cells.smooth) :], axis=0)

    def choose(
        self,
        expected: Expectation,
        criterion: str = "reml",
        warm_start: tuple[np.ndarray, Mixture] | None = None,
    ) -> tuple[np.ndarray, Mixture]:
        """Penalties for the counts of an E-step, not per sample, and the mixture with them.

        Given penalties and their mixture, the next ones on either side are compared, from its densities on; otherwise
        all of `PENALTIES`, or `FEW_PENALTIES`.
        """
        if not self.cells.smooth:
            return np.empty(0), self.mixture_of(expected, np.empty((self.cells.basis.n_basis, 0)))
        shares, totals = self.shares(expected.counts)
        are_few = totals.mean() < FEW_SAMPLES
        candidates = FEW_PENALTIES if are_few else PENALTIES
        start = None
        if warm_start is not None:
            times = 100.0 if are_few else 10.0
            nearby = warm_start[0] / totals * np.array([1.0 / times, 1.0, times])[:, None]
            candidates = np.clip(nearby, PENALTIES[0], PENALTIES[-1])
            start = warm_start[1].columns
        rho, coefficients = choose_penalties(self.cells.basis, shares, totals, candidates, criterion, start)
        return rho * totals, self.mixture_of(expected, coefficients)

    def effective_df(self, mixture: Mixture, rho: np.ndarray) -> np.ndarray:
        """Effective numbers of parameters (n_mixtures,): those of smoothers, and free probabilities."""
        smooth = effective_parameters(self.cells.basis, mixture.columns, rho).reshape(-1, mixture.rank).sum(axis=0)
        n_free = sum(len(values) - 1 for values in self.cells.values)
        return sum_by_mixture(smooth + n_free + 1.0, mixture.sizes) - 1.0

    def mixture_of(self, expected: Expectation, columns: np.ndarray, before: np.ndarray | None = None) -> Mixture:
        """The mixture with these log-splines (n_basis, n_smooth * rank), all else as the E-step has it."""
        sizes = expected.sizes
        own = np.repeat(sum_by_mixture(expected.component_counts, sizes), sizes)
        log_weights = log_floored(expected.component_counts / own)
        parts = sizes if len(sizes) > 1 else ()
        coefficients = columns.reshape(len(columns), len(self.cells.smooth), len(log_weights))
        counts = expected.counts[self.cells.first_value :] + self.prior[self.cells.first_value :]
        if not len(counts):
            return Mixture(log_weights, coefficients, counts, parts)
        totals = self.per_row(np.add.reduceat(counts, self.first_rows, axis=0))
        tables = counts / np.maximum(totals, _TINY)
        if before is not None and not (totals > _TINY).all():
            tables = np.where(totals > _TINY, tables, np.exp(before))
        return Mixture(log_weights, coefficients, log_floored(tables), parts)


def first_columns(sizes: Sequence[int]) -> np.ndarray:
    """First column of every one of several mixtures that stand side by side."""
    return np.cumsum(sizes) - sizes


def sum_by_mixture(columns: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Sums (n_mixtures,) of numbers of the components (rank,) of several mixtures."""
    return np.asarray(np.add.reduceat(columns, first_columns(sizes)))
