"""Smoothed EM: maximum penalized likelihood of a mixture whose conditional densities are log-splines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorly_smp.checks import checked_integer
from tensorly_smp.factors.extrapolation import SquaredExtrapolation
from tensorly_smp.factors.solution import StopReason
from tensorly_smp.likelihood.cell_samples import CellSamples, SmoothMixture
from tensorly_smp.likelihood.cells import Cells
from tensorly_smp.likelihood.expectation import Expectation

#: Penalties are chosen anew after each of these rounds of passes.
N_ROUNDS = 3
#: ... unless fewer than this share of them change.
FEW_CHANGES = 0.02


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


def smooth_em(
    samples: CellSamples,
    posterior: np.ndarray,
    *,
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
    samples : CellSamples
        On cells of :func:`tensorly_smp.likelihood.cells.lay_cells`. A sample of weight 2 counts twice: the weights also
        say how many samples there are, by which the penalties go.
    posterior : ndarray (n_samples, rank)
        To start from, as of the coupled CPD.
    criterion : {"reml", "aic", "bic"}
        How penalties are chosen, one per density; see :func:`tensorly_smp.likelihood.penalties.choose_penalties`.
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
    expected = samples.given(posterior)
    penalty, mixture = samples.choose(expected, criterion)
    trace: list[float] = []
    rounds: list[int] = []
    for number in range(n_rounds):
        if number:
            chosen, proposed = samples.choose(expected, criterion, (penalty, mixture))
            if np.count_nonzero(np.abs(np.log(chosen / penalty)) > 1.0) <= FEW_CHANGES * penalty.size:
                break
            penalty, mixture = chosen, proposed
        left = max(n_iter_max - len(trace), 1)
        mixture, expected, values_of_round, converged = _passes(samples, mixture, penalty, left, tol)
        trace += values_of_round
        rounds += [number] * len(values_of_round)
        if not converged:
            break
    rho = penalty / samples.shares(expected.counts)[1]
    return SmoothFit(
        mixture=mixture,
        cells=samples.cells,
        penalty=rho.reshape(len(samples.cells.smooth), mixture.rank),
        log_likelihood=expected.log_likelihood - samples.log_volume,
        n_parameters=samples.freedom(mixture, rho),
        posterior=expected.posterior,
        trace=(np.array(trace) - samples.log_volume) / samples.total_weight,
        rounds=np.array(rounds),
        status=StopReason.CONVERGED if converged else StopReason.MAX_SWEEPS,
        total_weight=samples.total_weight,
    )


def _passes(
    samples: CellSamples, mixture: SmoothMixture, penalty: np.ndarray, n_passes: int, tol: float
) -> tuple[SmoothMixture, Expectation, list[float], bool]:
    """Passes with fixed penalties; the last mixture, its E-step, the trace, and whether it converged.

    Extrapolated over pairs of passes. What turns out lower is taken back, so that the trace never falls.
    """
    squared = SquaredExtrapolation()
    expected, value = samples.expect(mixture, penalty)
    trace = [value]
    while len(trace) < n_passes:
        proposed = after = samples.maximize(expected, mixture, penalty)
        point = squared.propose(mixture.pack(), after.pack())
        if point is not None:
            proposed = samples.normalized(mixture.unpack(point))
        found, reached = samples.expect(proposed, penalty)
        if point is not None and not reached >= value:
            squared.reject()
            proposed = after
            found, reached = samples.expect(proposed, penalty)
        if not reached >= value:  # EM itself climbs, but for rounding
            return mixture, expected, trace, True
        gain = reached - value
        mixture, expected, value = proposed, found, reached
        trace.append(value)
        if gain <= tol * samples.total_weight:
            return mixture, expected, trace, True
    return mixture, expected, trace, False
