"""Samples on the cells of smooth densities, and the two steps of EM there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import csr_array
from scipy.special import logsumexp

from tensorly_smp.likelihood.cells import Cells, combined_cells
from tensorly_smp.likelihood.expectation import Expectation, expectation, log_joint
from tensorly_smp.splines.log_spline import fit_log_splines
from tensorly_smp.splines.penalties import FEW_PENALTIES, PENALTIES, choose_penalties, effective_parameters

#: Weight, in samples, of a pseudo-sample that every density gets from the overall distribution of its variable: a
#: component of a few equal values stays a density, and an empty one has some.
PRIOR_SAMPLES = 0.01
#: Where grids are compared, densities are followed until a Newton step promises less than this, in nats per sample.
REFITTED_TO = 1e-6
_LEAST_WEIGHT = 1e-12


@dataclass(frozen=True, eq=False)
class SmoothMixture:
    """Parameters of the mixture.

    Attributes
    ----------
    log_weights : ndarray (rank,)
    coefficients : ndarray (n_basis, n_smooth, rank)
        Of the log-splines of the smooth variables.
    tables : ndarray (n_rows, rank)
        Log-probabilities of the values of the discrete variables, one below the other.
    """

    log_weights: np.ndarray
    coefficients: np.ndarray
    tables: np.ndarray

    @property
    def rank(self) -> int:
        """Number of components."""
        return len(self.log_weights)

    @property
    def columns(self) -> np.ndarray:
        """The coefficients as (n_basis, n_smooth * rank), one column per density."""
        return self.coefficients.reshape(len(self.coefficients), -1)

    def pack(self) -> np.ndarray:
        """All parameters in one vector."""
        return np.concatenate([self.log_weights, self.coefficients.ravel(), self.tables.ravel()])

    def unpack(self, vector: np.ndarray) -> SmoothMixture:
        """Parameters of this shape from a vector; weights are made to sum to one."""
        first = self.rank
        second = self.rank + self.coefficients.size
        log_weights = vector[:first] - logsumexp(vector[:first])
        coefficients = vector[first:second].reshape(self.coefficients.shape)
        return SmoothMixture(log_weights, coefficients, vector[second:].reshape(self.tables.shape))


@dataclass(frozen=True, eq=False)
class CellStatistics:
    """The two steps of EM on cells. Where the samples are, and how they are added up, is for subclasses to say.

    Attributes
    ----------
    cells : Cells
    prior : ndarray (n_rows, 1)
        What `PRIOR_SAMPLES` add to the counts.
    log_volume : float
        Weighted sum over entries of the logarithm of their cell's width.
    total_weight : float
        Sum of the sample weights.
    """

    cells: Cells
    prior: np.ndarray
    log_volume: float
    total_weight: float

    def counts_from_posterior(self, posterior: Any) -> Expectation:
        """Expected counts of posteriors (n_samples, rank) that the caller has, in place of those of an E-step."""
        raise NotImplementedError

    def e_step(self, log_weights: np.ndarray, log_tables: np.ndarray) -> Expectation:
        """E-step with log-probabilities (rank,) of the components and (n_rows, rank) of the cells."""
        raise NotImplementedError

    def log_tables(self, mixture: SmoothMixture) -> np.ndarray:
        """Log-probabilities (n_rows, rank) of all cells."""
        basis = self.cells.basis
        rank = mixture.rank
        logs = basis.log_probabilities(mixture.columns)
        stacked = logs.reshape(basis.n_cells, -1, rank).transpose(1, 0, 2).reshape(-1, rank)
        return np.concatenate([stacked, mixture.tables])

    def expect(self, mixture: SmoothMixture, penalty: np.ndarray) -> tuple[Expectation, float]:
        """E-step, and the penalized log-likelihood; the penalty (n_smooth * rank,) is not per sample."""
        tables = self.log_tables(mixture)
        expected = self.e_step(mixture.log_weights, tables)
        roughness = self.cells.basis.roughness(mixture.columns)
        penalized = expected.log_likelihood - 0.5 * float(penalty @ roughness) + float((self.prior * tables).sum())
        return expected, penalized

    def shares(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Shares (n_cells, n_densities) of the samples in the cells, and how many samples these are."""
        n_cells = self.cells.basis.n_cells
        rank = counts.shape[1]
        rows = (counts + self.prior)[: n_cells * len(self.cells.smooth)]
        columns = rows.reshape(-1, n_cells, rank).transpose(1, 0, 2).reshape(n_cells, -1)
        totals = columns.sum(axis=0)
        return columns / totals, totals

    def normalized(self, mixture: SmoothMixture) -> SmoothMixture:
        """The mixture with tables that sum to one, as they do not after an extrapolation."""
        tables = mixture.tables.copy()
        for table in self.cells.split(tables):
            table -= logsumexp(table, axis=0)
        return replace(mixture, tables=tables)

    def maximize(self, expected: Expectation, mixture: SmoothMixture, penalty: np.ndarray) -> SmoothMixture:
        """M-step: one Newton step for every density, which raises what the E-step has found, not more."""
        shares, totals = self.shares(expected.counts)
        moved = fit_log_splines(self.cells.basis, shares, penalty / totals, mixture.columns, n_steps=1)
        return self._mixture(expected, moved)

    def choose(
        self,
        expected: Expectation,
        criterion: str,
        near: tuple[np.ndarray, SmoothMixture] | None = None,
    ) -> tuple[np.ndarray, SmoothMixture]:
        """Penalties for the counts of an E-step, not per sample, and the mixture with them.

        Given penalties and their mixture, those within a factor of ten are compared, from its densities on; otherwise
        all of `PENALTIES`.
        """
        shares, totals = self.shares(expected.counts)
        candidates = PENALTIES
        start = None
        if near is not None:
            candidates = np.clip(near[0] / totals * np.array([0.1, 1.0, 10.0])[:, None], PENALTIES[0], PENALTIES[-1])
            start = near[1].columns
        rho, coefficients = choose_penalties(self.cells.basis, shares, totals, candidates, criterion, start)
        return rho * totals, self._mixture(expected, coefficients)

    def effective_df(self, mixture: SmoothMixture, rho: np.ndarray) -> float:
        """Effective number of parameters: of smooth densities that of their smoothers, else free probabilities."""
        smooth = effective_parameters(self.cells.basis, mixture.columns, rho).sum()
        n_free = sum(len(values) - 1 for values in self.cells.values)
        return float(smooth) + mixture.rank * n_free + mixture.rank - 1

    def akaike_by_variable(self, expected: Expectation, criterion: str) -> tuple[np.ndarray, np.ndarray, SmoothMixture]:
        """Akaike's criterion (n_smooth,) of the cells of every smooth variable, by the posteriors of an E-step.

        It is the log-likelihood of the variable's entries less the effective number of parameters, in nats, with the
        best of a few penalties; in the unit of the variable, so that it compares with that of other cells. Returned
        with it are these penalties, not per sample, and the mixture under them.
        """
        shares, totals = self.shares(expected.counts)
        rho, columns = choose_penalties(self.cells.basis, shares, totals, FEW_PENALTIES, criterion)
        # The penalties lie between those compared: the densities must be theirs, or grids differ by chance.
        columns = fit_log_splines(self.cells.basis, shares, rho, columns, tol=REFITTED_TO)
        mixture = self._mixture(expected, columns)
        n_smooth = len(self.cells.smooth)
        first = self.cells.first_value
        logs = self.log_tables(mixture)[:first] - self.cells.log_widths[:first, None]
        likelihood = (expected.counts[:first] * logs).reshape(n_smooth, -1).sum(axis=1)
        effective_df = effective_parameters(self.cells.basis, columns, rho).reshape(n_smooth, -1).sum(axis=1)
        return np.asarray(likelihood - effective_df), rho * totals, mixture

    def _mixture(self, expected: Expectation, columns: np.ndarray) -> SmoothMixture:
        """The mixture with these log-splines (n_basis, n_smooth * rank), all else as the E-step has it."""
        shares = np.maximum(expected.component_counts / self.total_weight, _LEAST_WEIGHT)
        counts = np.maximum((expected.counts + self.prior)[self.cells.first_value :], 1e-300)
        tables = np.log(counts)
        for table, count in zip(self.cells.split(tables), self.cells.split(counts), strict=True):
            table -= np.log(count.sum(axis=0))
        coefficients = columns.reshape(len(columns), len(self.cells.smooth), len(shares))
        return SmoothMixture(np.log(shares / shares.sum()), coefficients, tables)


AnyStatistics = TypeVar("AnyStatistics", bound=CellStatistics)


def on_best_cells(
    on_grid: AnyStatistics,
    others: Sequence[Cells],
    assign_to_grid: Callable[[Cells], AnyStatistics],
    posterior: Any,
    criterion: str,
) -> tuple[AnyStatistics, tuple[np.ndarray, SmoothMixture]]:
    """The samples on the cells that suit every variable best, given posteriors.

    Parameters
    ----------
    on_grid : CellStatistics
    others : sequence of Cells
        To be compared with those of `on_grid`, see :meth:`CellStatistics.akaike_by_variable`.
    assign_to_grid : callable
        Of cells, returns the samples on them.
    posterior : ndarray (n_samples, rank)
        Or what stands for it.
    criterion : {"reml", "aic", "bic"}
        Of the penalties.

    Returns
    -------
    on_grid : CellStatistics
    near : tuple
        The penalties that were found there, not per sample, and the mixture with them.
    """
    found = [on_grid.akaike_by_variable(on_grid.counts_from_posterior(posterior), criterion)]
    for cells in others:
        other = assign_to_grid(cells)  # one at a time is kept
        found.append(other.akaike_by_variable(other.counts_from_posterior(posterior), criterion))
    values, penalties, mixtures = zip(*found, strict=True)
    best = np.argmax(values, axis=0)
    if not best.any():
        return on_grid, found[0][1:]
    chosen = dict(zip(on_grid.cells.smooth, best.tolist(), strict=True))
    own = (best, np.arange(len(best)))  # of every smooth variable, what was found on its cells
    coefficients = np.stack([mixture.coefficients.transpose(1, 0, 2) for mixture in mixtures])[own].transpose(1, 0, 2)
    penalty = np.stack([penalty.reshape(len(best), -1) for penalty in penalties])[own].ravel()
    near = penalty, replace(mixtures[0], coefficients=coefficients)
    return assign_to_grid(combined_cells([on_grid.cells, *others], chosen)), near


@dataclass(frozen=True, eq=False)
class CellSamples(CellStatistics):
    """Samples in cells. Make them with :meth:`assign_to_grid`; several fits may share them.

    Attributes
    ----------
    membership : csr_array (n_samples, n_rows)
        Share of every cell in every entry.
    sample_weight : ndarray (n_samples,)
        Zero for samples without entries, which say nothing.
    """

    membership: csr_array
    sample_weight: np.ndarray

    @classmethod
    def assign_to_grid(cls, values: np.ndarray, cells: Cells, sample_weight: np.ndarray | None = None) -> CellSamples:
        """Samples (n_samples, n_variables), NaN = missing, of weights (n_samples,), in cells."""
        membership = cells.membership(values)
        weights = telling_weights(values, sample_weight)
        overall = membership.T @ weights
        return cls(
            cells=cells,
            prior=prior_counts(cells, overall),
            log_volume=float(overall @ cells.log_widths),
            total_weight=float(weights.sum()),
            membership=membership,
            sample_weight=weights,
        )

    def reweighted(self, sample_weight: np.ndarray) -> CellSamples:
        """The same samples with other weights (n_samples,)."""
        weights = np.where(np.diff(self.membership.indptr) > 0, sample_weight, 0.0)
        overall = self.membership.T @ weights
        return replace(
            self,
            prior=prior_counts(self.cells, overall),
            log_volume=float(overall @ self.cells.log_widths),
            total_weight=float(weights.sum()),
            sample_weight=weights,
        )

    def counts_from_posterior(self, posterior: np.ndarray) -> Expectation:
        """Expected counts of posteriors (n_samples, rank) that the caller has, in place of those of an E-step."""
        weighted = posterior * self.sample_weight[:, None]
        return Expectation(posterior, np.nan, self.membership.T @ weighted, weighted.sum(axis=0))

    def e_step(self, log_weights: np.ndarray, log_tables: np.ndarray) -> Expectation:
        """E-step with log-probabilities (rank,) of the components and (n_rows, rank) of the cells."""
        return expectation(self.membership, log_weights, log_tables, self.sample_weight)

    def log_densities(self, mixture: SmoothMixture) -> np.ndarray:
        """Log-density (n_samples,) of the observed entries of every sample, in the units of the variables."""
        joint = log_joint(self.membership, mixture.log_weights, self.log_tables(mixture))
        return np.asarray(logsumexp(joint, axis=1) - self.membership @ self.cells.log_widths)


def telling_weights(values: np.ndarray, sample_weight: np.ndarray | None) -> np.ndarray:
    """Weights (n_samples,), zero for samples (n_samples, n_variables) without entries."""
    return np.where(np.isnan(values).all(axis=1), 0.0, 1.0 if sample_weight is None else sample_weight)


def prior_counts(cells: Cells, overall: np.ndarray) -> np.ndarray:
    """Pseudo-samples (n_rows, 1) from the weight (n_rows,) of all samples in the cells.

    A value of a discrete variable that no sample has, as in a fold or a replicate, counts as if one sample had it.
    """
    prior = np.empty((len(overall), 1))
    for a, b in pairwise(cells.offsets.tolist()):
        # Alike in all cells where only samples of no weight have the variable.
        found = overall[a:b] if overall[a:b].any() else np.ones(b - a)
        if a >= cells.first_value:
            found = np.where(found > 0, found, 1.0)
        prior[a:b, 0] = PRIOR_SAMPLES * found / found.sum()
    return prior
