"""Smoothed EM: maximum penalized likelihood of a mixture whose conditional densities are log-splines."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array
from scipy.special import logsumexp

from tensorly_smp.factors.solution import StopReason
from tensorly_smp.likelihood.cells import Cells
from tensorly_smp.likelihood.expectation import Expectation, expectation
from tensorly_smp.likelihood.log_spline import (
    PENALTIES,
    choose_penalties,
    effective_parameters,
    fit_log_splines,
    log_probabilities,
    roughness,
)

#: Weight, in samples, of a pseudo-sample that every density gets from the overall distribution of its variable: a
#: component of a few equal values stays a density, and an empty one has some.
PRIOR_SAMPLES = 0.01
#: Penalties are chosen anew after each of these rounds of passes.
N_ROUNDS = 3
_LEAST_WEIGHT = 1e-12
_LONGEST_STEP = 8.0


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
    sample_weight: np.ndarray | None
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
        logs = log_probabilities(basis, mixture.coefficients.reshape(basis.n_basis, -1))
        stacked = logs.reshape(basis.n_cells, -1, rank).transpose(1, 0, 2).reshape(-1, rank)
        return np.concatenate([stacked, mixture.tables])

    def expect(self, mixture: SmoothMixture) -> tuple[Expectation, float]:
        """E-step, and the penalized log-likelihood."""
        tables = self.log_tables(mixture)
        expected = expectation(self.membership, mixture.log_weights, tables, self.sample_weight)
        rough = roughness(self.cells.basis, mixture.coefficients.reshape(self.cells.basis.n_basis, -1))
        penalized = expected.log_likelihood - 0.5 * float(self.penalty @ rough) + float((self.prior * tables).sum())
        return expected, penalized

    def shares(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Shares (n_cells, n_densities) of the samples in the cells, and how many samples these are."""
        columns = self.columns(counts + self.prior)
        totals = columns.sum(axis=0)
        return columns / totals, totals

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

    def choose(self, expected: Expectation, criterion: str, near: np.ndarray | None) -> SmoothMixture:
        """Penalties for the counts of an E-step, and the densities with them.

        Those within a factor of ten of `near` (n_densities,) are compared, or all.
        """
        basis, rank = self.cells.basis, expected.posterior.shape[1]
        shares, totals = self.shares(expected.counts)
        candidates = PENALTIES if near is None else near * np.array([0.1, 1.0, 10.0])[:, None]
        candidates = np.clip(candidates, PENALTIES[0], PENALTIES[-1])
        rho, coefficients = choose_penalties(basis, shares, totals, candidates, criterion)
        self.penalty = rho * totals
        stacked = coefficients.reshape(basis.n_basis, len(self.cells.smooth), rank)
        return SmoothMixture(self.log_weights(expected), stacked, self.bin_tables(expected.counts))


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
    criterion : {"reml", "aic", "bic"}
        How penalties are chosen, one per density; see :func:`tensorly_smp.likelihood.log_spline.choose_penalties`.
    n_rounds : int
        How often penalties are chosen.
    n_iter_max : int
        Passes over the samples, of all rounds together.
    tol : float
        A round ends when a pass raises the penalized log-likelihood by less than this, in nats per sample.

    Returns
    -------
    SmoothFit

    References
    ----------
    M. Levine, D. R. Hunter, D. Chauveau, "Maximum smoothed likelihood for multivariate mixtures", Biometrika 98, 2011.
    """
    problem = _problem(values, cells, sample_weight)
    expected = _given(problem, posterior)
    trace: list[float] = []
    rounds: list[int] = []
    near: np.ndarray | None = None
    status = StopReason.CONVERGED
    for number in range(n_rounds):
        mixture = problem.choose(expected, criterion, near)
        left = n_iter_max - len(trace)
        mixture, expected, values_of_round, converged = _passes(problem, mixture, max(left, 1), tol)
        trace += values_of_round
        rounds += [number] * len(values_of_round)
        if not converged:
            status = StopReason.MAX_SWEEPS
            break
        near = problem.penalty / problem.shares(expected.counts)[1]
    return _fit(
        problem,
        mixture,
        expected,
        (np.array(trace) - problem.log_volume) / problem.total_weight,
        np.array(rounds),
        status,
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
    return problem.choose(_given(problem, posterior), criterion, None), problem.total_weight


def _problem(values: np.ndarray, cells: Cells, sample_weight: np.ndarray | None) -> _Problem:
    membership = cells.membership(values)
    # A sample without entries says nothing, and is not to count in the weights of the components.
    weights = np.where(np.isnan(values).all(axis=1), 0.0, 1.0 if sample_weight is None else sample_weight)
    overall = membership.T @ weights
    prior = np.empty((len(overall), 1))
    offsets = cells.offsets
    for a, b in pairwise(offsets):
        prior[a:b, 0] = PRIOR_SAMPLES * overall[a:b] / overall[a:b].sum()
    return _Problem(cells, membership, weights, float(weights.sum()), prior, float(overall @ cells.log_widths))


def _given(problem: _Problem, posterior: np.ndarray) -> Expectation:
    """What an E-step would have returned with these posteriors."""
    weighted = posterior if problem.sample_weight is None else posterior * problem.sample_weight[:, None]
    return Expectation(posterior, np.nan, problem.membership.T @ weighted, weighted.sum(axis=0))


def _passes(
    problem: _Problem, mixture: SmoothMixture, n_passes: int, tol: float
) -> tuple[SmoothMixture, Expectation, list[float], bool]:
    """Passes with fixed penalties, extrapolated (SQUAREM); the last mixture, its E-step, the trace, whether converged.

    An extrapolation that turns out lower than where it came from is taken back, so that the trace never falls.
    """
    trace: list[float] = []
    history: list[np.ndarray] = []
    fallback: SmoothMixture | None = None
    longest = _LONGEST_STEP
    accepted, accepted_expected = mixture, None
    for _ in range(2 * n_passes):
        expected, value = problem.expect(mixture)
        if fallback is not None and not value >= trace[-1]:
            mixture, fallback, history, longest = fallback, None, [], max(2.0, longest / 2.0)
            continue
        fallback = None
        gain = value - trace[-1] if trace else np.inf
        trace.append(value)
        accepted, accepted_expected = mixture, expected
        if gain <= tol * problem.total_weight:
            return accepted, accepted_expected, trace, True
        if len(trace) >= n_passes:
            break
        history.append(mixture.pack())
        mixture = problem.maximize(expected, mixture)
        if len(history) == 2:
            proposal = _extrapolated(history, mixture.pack(), longest)
            history = []
            if proposal is not None:
                fallback, mixture = mixture, mixture.unpack(proposal)
    assert accepted_expected is not None
    return accepted, accepted_expected, trace, False


def _extrapolated(history: list[np.ndarray], last: np.ndarray, longest: float) -> np.ndarray | None:
    """The point ahead of three iterates (Varadhan and Roland 2008), or None where it is not ahead."""
    first = history[1] - history[0]
    second = last - 2.0 * history[1] + history[0]
    step = min(float(np.linalg.norm(first)) / max(float(np.linalg.norm(second)), 1e-300), longest)
    return None if step <= 1.0 else history[0] + 2.0 * step * first + step * step * second


def _fit(
    problem: _Problem,
    mixture: SmoothMixture,
    expected: Expectation,
    trace: np.ndarray,
    rounds: np.ndarray,
    status: StopReason,
) -> SmoothFit:
    cells, basis, rank = problem.cells, problem.cells.basis, mixture.rank
    rho = problem.penalty / problem.shares(expected.counts)[1]
    freedom = effective_parameters(basis, mixture.coefficients.reshape(basis.n_basis, -1), rho).sum()
    freedom += rank * sum(len(edges) - 2 for edges in cells.edges) + rank - 1
    return SmoothFit(
        mixture=mixture,
        cells=cells,
        penalty=rho.reshape(len(cells.smooth), rank),
        log_likelihood=expected.log_likelihood - problem.log_volume,
        n_parameters=float(freedom),
        posterior=expected.posterior,
        trace=trace,
        rounds=rounds,
        status=status,
        total_weight=problem.total_weight,
    )
