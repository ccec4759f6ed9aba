"""Smoothed EM: maximum penalized likelihood of a mixture whose conditional densities are log-splines."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array
from scipy.special import logsumexp

from tensorly_smp.checks import checked_integer
from tensorly_smp.factors.extrapolation import SquaredExtrapolation
from tensorly_smp.factors.solution import StopReason
from tensorly_smp.likelihood.cells import Cells
from tensorly_smp.likelihood.expectation import Expectation, expectation
from tensorly_smp.likelihood.log_spline import fit_log_splines
from tensorly_smp.likelihood.penalties import PENALTIES, choose_penalties, effective_parameters

#: Weight, in samples, of a pseudo-sample that every density gets from the overall distribution of its variable: a
#: component of a few equal values stays a density, and an empty one has some.
PRIOR_SAMPLES = 0.01
#: Penalties are chosen anew after each of these rounds of passes.
N_ROUNDS = 3
#: ... unless fewer than this share of them change.
FEW_CHANGES = 0.02
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
        Log-probabilities of the bins of the discrete variables, one below the other.
    """

    log_weights: np.ndarray
    coefficients: np.ndarray
    tables: np.ndarray

    @property
    def rank(self) -> int:
        """Number of components."""
        return len(self.log_weights)

    def pack(self) -> np.ndarray:
        """All parameters in one vector."""
        return np.concatenate([self.log_weights, self.coefficients.ravel(), self.tables.ravel()])

    def unpack(self, vector: np.ndarray) -> SmoothMixture:
        """Parameters of this shape from a vector; weights are made to sum to one."""
        first, second = self.rank, self.rank + self.coefficients.size
        log_weights = vector[:first] - logsumexp(vector[:first])
        coefficients = vector[first:second].reshape(self.coefficients.shape)
        return SmoothMixture(log_weights, coefficients, vector[second:].reshape(self.tables.shape))


@dataclass(frozen=True, eq=False)
class SmoothFit:
    """Result of :func:`smooth_em`.

    Attributes
    ----------
    mixture : SmoothMixture
    cells : Cells
    penalty : ndarray (n_smooth, rank)
        rho of every density, per sample of its component.
    log_likelihood : float
        Of the observed entries, weighted sum over samples, in nats; of densities that are constant in every cell, so
        that fits on other cells compare.
    n_parameters : float
        Effective number of parameters of all densities and the weights.
    posterior : ndarray (n_samples, rank)
    trace : ndarray (n_passes,)
        Penalized log-likelihood per unit of sample weight before every pass; within a round it never falls.
    rounds : ndarray of int (n_passes,)
        Round that the pass belongs to: penalties are chosen anew between two rounds.
    status : StopReason
    total_weight : float
        Sum of the sample weights.
    """

    mixture: SmoothMixture
    cells: Cells
    penalty: np.ndarray
    log_likelihood: float
    n_parameters: float
    posterior: np.ndarray
    trace: np.ndarray
    rounds: np.ndarray
    status: StopReason
    total_weight: float

    @property
    def information(self) -> float:
        """Log-likelihood less the effective number of parameters (Akaike), in nats; higher is better."""
        return self.log_likelihood - self.n_parameters


@dataclass
class _Problem:
    """Samples, and the penalties of a round."""

    cells: Cells
    membership: csr_array
    sample_weight: np.ndarray
    total_weight: float
    prior: np.ndarray  # (n_rows, 1), what PRIOR_SAMPLES add to the counts
    log_volume: float  # sum over entries of the logarithm of their cell's width
    penalty: np.ndarray = field(default_factory=lambda: np.empty(0))  # lambda (n_smooth * rank,), not per sample

    @property
    def n_smooth_rows(self) -> int:
        return self.cells.basis.n_cells * len(self.cells.smooth)

    def columns(self, rows: np.ndarray) -> np.ndarray:
        """Rows (n_smooth_rows, rank) of the smooth variables as (n_cells, n_smooth * rank), one column per density."""
        n_cells, rank = self.cells.basis.n_cells, rows.shape[1]
        return rows[: self.n_smooth_rows].reshape(-1, n_cells, rank).transpose(1, 0, 2).reshape(n_cells, -1)

    def log_tables(self, mixture: SmoothMixture) -> np.ndarray:
        """Log-probabilities (n_rows, rank) of all cells."""
        basis, rank = self.cells.basis, mixture.rank
        logs = basis.log_probabilities(mixture.coefficients.reshape(basis.n_basis, -1))
        stacked = logs.reshape(basis.n_cells, -1, rank).transpose(1, 0, 2).reshape(-1, rank)
        return np.concatenate([stacked, mixture.tables])

    def expect(self, mixture: SmoothMixture) -> tuple[Expectation, float]:
        """E-step, and the penalized log-likelihood."""
        tables = self.log_tables(mixture)
        expected = expectation(self.membership, mixture.log_weights, tables, self.sample_weight)
        rough = self.cells.basis.roughness(mixture.coefficients.reshape(self.cells.basis.n_basis, -1))
        penalized = expected.log_likelihood - 0.5 * float(self.penalty @ rough) + float((self.prior * tables).sum())
        return expected, penalized

    def shares(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Shares (n_cells, n_densities) of the samples in the cells, and how many samples these are."""
        columns = self.columns(counts + self.prior)
        totals = columns.sum(axis=0)
        return columns / totals, totals

    def normalized(self, mixture: SmoothMixture) -> SmoothMixture:
        """The mixture with tables that sum to one, as they do not after an extrapolation."""
        tables, first = mixture.tables.copy(), 0
        for edges in self.cells.edges:
            rows = slice(first, first + len(edges) - 1)
            tables[rows] -= logsumexp(tables[rows], axis=0)
            first = rows.stop
        return replace(mixture, tables=tables)

    def maximize(self, expected: Expectation, mixture: SmoothMixture) -> SmoothMixture:
        """M-step: one Newton step for every density, which raises what the E-step has found, not more."""
        basis = self.cells.basis
        shares, totals = self.shares(expected.counts)
        start = mixture.coefficients.reshape(basis.n_basis, -1)
        moved = fit_log_splines(basis, shares, self.penalty / totals, start, n_steps=1)
        return SmoothMixture(
            self.log_weights(expected), moved.reshape(mixture.coefficients.shape), self.bin_tables(expected.counts)
        )

    def log_weights(self, expected: Expectation) -> np.ndarray:
        shares = np.maximum(expected.component_counts / self.total_weight, _LEAST_WEIGHT)
        return np.asarray(np.log(shares / shares.sum()))

    def bin_tables(self, counts: np.ndarray) -> np.ndarray:
        """Log-probabilities of the bins of the discrete variables."""
        offsets = self.cells.offsets[len(self.cells.smooth) :]
        smoothed = np.maximum(counts + self.prior, 1e-300)
        parts = [np.log(smoothed[a:b] / smoothed[a:b].sum(axis=0)) for a, b in pairwise(offsets)]
        return np.concatenate([np.empty((0, counts.shape[1])), *parts])

    def choose(
        self, expected: Expectation, criterion: str, before: SmoothMixture | None = None
    ) -> tuple[np.ndarray, SmoothMixture]:
        """Penalties for the counts of an E-step, not per sample, and the mixture with them.

        Given a mixture, penalties within a factor of ten of the present ones are compared, from its densities on;
        otherwise all.
        """
        basis, rank = self.cells.basis, expected.posterior.shape[1]
        shares, totals = self.shares(expected.counts)
        candidates = start = None
        if before is not None:
            near = self.penalty / totals * np.array([0.1, 1.0, 10.0])[:, None]
            candidates = np.clip(near, PENALTIES[0], PENALTIES[-1])
            start = before.coefficients.reshape(basis.n_basis, -1)
        rho, coefficients = choose_penalties(basis, shares, totals, candidates, criterion, start)
        stacked = coefficients.reshape(basis.n_basis, len(self.cells.smooth), rank)
        return rho * totals, SmoothMixture(self.log_weights(expected), stacked, self.bin_tables(expected.counts))

    def freedom(self, expected: Expectation, mixture: SmoothMixture) -> float:
        """Effective number of parameters. A bin that is empty in all components is none."""
        basis, rho = self.cells.basis, self.penalty / self.shares(expected.counts)[1]
        smooth = effective_parameters(basis, mixture.coefficients.reshape(basis.n_basis, -1), rho).sum()
        filled = [np.count_nonzero(self.prior[a:b]) for a, b in pairwise(self.cells.offsets[len(self.cells.smooth) :])]
        return float(smooth) + mixture.rank * sum(number - 1 for number in filled) + mixture.rank - 1


def smooth_em(
    values: np.ndarray,
    posterior: np.ndarray,
    cells: Cells,
    *,
    sample_weight: np.ndarray | None = None,
    criterion: str = "reml",
    n_rounds: int = N_ROUNDS,
    n_iter_max: int = 100,
    tol: float = 1e-5,
) -> SmoothFit:
    """Alternate posteriors and penalized log-spline densities until the penalized likelihood rises no further.

    The smoothed EM of Levine, Hunter and Chauveau (2011), with a penalized M-step in place of their kernel smoother:
    it has an objective, which no pass lowers as long as the penalties stay, and on a grid of cells a pass costs
    O(n_samples n_variables rank), not the square of the number of samples. Missing entries are integrated out.

    Parameters
    ----------
    values : ndarray (n_samples, n_variables)
        NaN = missing.
    posterior : ndarray (n_samples, rank)
        To start from, as of the coupled CPD.
    cells : Cells
        See :func:`tensorly_smp.likelihood.cells.lay_cells`.
    sample_weight : ndarray (n_samples,), optional
        A sample of weight 2 counts twice: the weights also say how many samples there are, by which the penalties go.
    criterion : {"reml", "aic", "bic"}
        How penalties are chosen, one per density; see :func:`tensorly_smp.likelihood.log_spline.choose_penalties`.
    n_rounds : int
        How often penalties are chosen, at most; not again where next to all stay.
    n_iter_max : int
        Passes over the samples, of all rounds together, not counting extrapolations that are taken back. A round that
        is begun has one at least.
    tol : float
        A round ends when a pass raises the penalized log-likelihood by less than this, in nats per sample.

    Returns
    -------
    SmoothFit

    Raises
    ------
    InvalidInputError, InvalidTypeError
        Another criterion, or a number of rounds or passes that is no positive integer.

    References
    ----------
    M. Levine, D. R. Hunter, D. Chauveau, "Maximum smoothed likelihood for multivariate mixtures", Biometrika 98, 2011.
    """
    n_rounds, n_iter_max = checked_integer(n_rounds, "n_rounds", 1), checked_integer(n_iter_max, "n_iter_max", 1)
    problem = _problem(values, cells, sample_weight)
    expected = _given(problem, posterior)
    problem.penalty, mixture = problem.choose(expected, criterion)
    trace: list[float] = []
    rounds: list[int] = []
    for number in range(n_rounds):
        if number:
            penalty, proposed = problem.choose(expected, criterion, mixture)
            n_changed = np.count_nonzero(np.abs(np.log(penalty / problem.penalty)) > 1.0)
            if n_changed <= FEW_CHANGES * penalty.size:
                break
            problem.penalty, mixture = penalty, proposed
        left = max(n_iter_max - len(trace), 1)
        mixture, expected, values_of_round, converged = _passes(problem, mixture, left, tol)
        trace += values_of_round
        rounds += [number] * len(values_of_round)
        if not converged:
            break
    return SmoothFit(
        mixture=mixture,
        cells=cells,
        penalty=(problem.penalty / problem.shares(expected.counts)[1]).reshape(len(cells.smooth), mixture.rank),
        log_likelihood=expected.log_likelihood - problem.log_volume,
        n_parameters=problem.freedom(expected, mixture),
        posterior=expected.posterior,
        trace=(np.array(trace) - problem.log_volume) / problem.total_weight,
        rounds=np.array(rounds),
        status=StopReason.CONVERGED if converged else StopReason.MAX_SWEEPS,
        total_weight=problem.total_weight,
    )


def smooth_densities(
    values: np.ndarray,
    posterior: np.ndarray,
    cells: Cells,
    sample_weight: np.ndarray | None = None,
    criterion: str = "reml",
) -> tuple[SmoothMixture, float]:
    """Log-spline densities of given posteriors, without iteration; parameters as of :func:`smooth_em`.

    Returns
    -------
    SmoothMixture
    total_weight : float
        Of the samples.
    """
    problem = _problem(values, cells, sample_weight)
    return problem.choose(_given(problem, posterior), criterion)[1], problem.total_weight


def _problem(values: np.ndarray, cells: Cells, sample_weight: np.ndarray | None) -> _Problem:
    membership = cells.membership(values)
    # A sample without entries says nothing, and is not to count in the weights of the components.
    weights = np.where(np.isnan(values).all(axis=1), 0.0, 1.0 if sample_weight is None else sample_weight)
    overall = membership.T @ weights
    prior = np.empty((len(overall), 1))
    for a, b in pairwise(cells.offsets):
        # Alike in all cells where only samples of no weight have the variable.
        found = overall[a:b] if overall[a:b].any() else np.ones(b - a)
        prior[a:b, 0] = PRIOR_SAMPLES * found / found.sum()
    return _Problem(cells, membership, weights, float(weights.sum()), prior, float(overall @ cells.log_widths))


def _given(problem: _Problem, posterior: np.ndarray) -> Expectation:
    """What an E-step would have returned with these posteriors."""
    weighted = posterior * problem.sample_weight[:, None]
    return Expectation(posterior, np.nan, problem.membership.T @ weighted, weighted.sum(axis=0))


def _passes(
    problem: _Problem, mixture: SmoothMixture, n_passes: int, tol: float
) -> tuple[SmoothMixture, Expectation, list[float], bool]:
    """Passes with fixed penalties; the last mixture, its E-step, the trace, and whether it converged.

    Extrapolated over pairs of passes. What turns out lower is taken back, so that the trace never falls.
    """
    squared = SquaredExtrapolation()
    expected, value = problem.expect(mixture)
    trace = [value]
    while len(trace) < n_passes:
        proposed = after = problem.maximize(expected, mixture)
        point = squared.propose(mixture.pack(), after.pack())
        if point is not None:
            proposed = problem.normalized(mixture.unpack(point))
        found, reached = problem.expect(proposed)
        if point is not None and not reached >= value:
            squared.reject()
            proposed = after
            found, reached = problem.expect(proposed)
        if not reached >= value:  # EM itself climbs, but for rounding
            return mixture, expected, trace, True
        gain = reached - value
        mixture, expected, value = proposed, found, reached
        trace.append(value)
        if gain <= tol * problem.total_weight:
            return mixture, expected, trace, True
    return mixture, expected, trace, False
