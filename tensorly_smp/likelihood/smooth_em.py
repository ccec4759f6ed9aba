"""Smoothed EM: maximum penalized likelihood of a mixture whose conditional densities are log-splines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorly_smp.checks import checked_integer
from tensorly_smp.factors.extrapolation import SquaredExtrapolation
from tensorly_smp.factors.solution import StopReason
from tensorly_smp.likelihood.cell_samples import CellStatistics, SmoothMixture
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
    trace : ndarray (n_passes + n_rounds,)
        Penalized log-likelihood per unit of sample weight at the start of every round and after every pass; within a
        round it never falls.
    rounds : ndarray of int (n_passes + n_rounds,)
        Round that the entry belongs to: penalties are chosen anew between two rounds.
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
    def n_passes(self) -> int:
        """Passes over the samples, of all rounds together."""
        return len(self.trace) - len(np.unique(self.rounds))

    @property
    def information(self) -> float:
        """Log-likelihood less the effective number of parameters (Akaike), in nats; higher is better."""
        return self.log_likelihood - self.n_parameters


def smooth_em(
    samples: CellStatistics,
    posterior: Any,
    *,
    criterion: str = "reml",
    near: tuple[np.ndarray, SmoothMixture] | None = None,
    candidates: np.ndarray | None = None,
    n_rounds: int = N_ROUNDS,
    n_iter_max: int = 100,
    tol: float = 1e-5,
    callback: Callable[[], None] | None = None,
) -> SmoothFit:
    """Alternate posteriors and penalized log-spline densities until the penalized likelihood rises no further.

    The smoothed EM of Levine, Hunter and Chauveau (2011), with a penalized M-step in place of their kernel smoother:
    it has an objective, which no pass lowers as long as the penalties stay, and on a grid of cells a pass costs
    O(n_samples n_variables rank), not the square of the number of samples. Missing entries are integrated out.

    Parameters
    ----------
    samples : CellStatistics
        CellSamples, or samples elsewhere, on cells of :func:`tensorly_smp.likelihood.cells.lay_cells`. A sample of
        weight 2 counts twice: the weights also say how many samples there are, by which the penalties go.
    posterior : ndarray (n_samples, rank)
        To start from, as of the coupled CPD; of samples elsewhere, what stands for it there.
    criterion : {"reml", "aic", "bic"}
        How penalties are chosen, one per density; see :func:`tensorly_smp.likelihood.penalties.choose_penalties`.
    near : tuple, optional
        Penalties (n_smooth * rank,), not per sample, and the mixture with them, for the same posteriors: at first those
        within a factor of ten are compared.
    candidates : ndarray (n_candidates,), optional
        Penalties rho that are compared at first otherwise, increasing; all of `PENALTIES` by default.
    n_rounds : int
        How often penalties are chosen, at most; not again where next to all stay.
    n_iter_max : int
        Passes over the samples, of all rounds together, not counting extrapolations that are taken back. With 0 the
        densities are those of the posteriors given.
    tol : float
        A round ends when a pass raises the penalized log-likelihood by less than this, in nats per sample.
    callback : callable, optional
        ``callback()`` before every pass. A KeyboardInterrupt, from there or from the keyboard, ends the fit with what
        it has reached.

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
    n_rounds, n_iter_max = checked_integer(n_rounds, "n_rounds", 1), checked_integer(n_iter_max, "n_iter_max", 0)
    penalty, mixture = samples.choose(samples.given(posterior), criterion, near, candidates)
    point = _Point.start(samples, mixture, penalty)
    status = StopReason.CONVERGED
    try:
        for number in range(n_rounds):
            if number:
                penalty, mixture = samples.choose(point.expected, criterion, (point.penalty, point.mixture))
                if np.count_nonzero(np.abs(np.log(penalty / point.penalty)) > 1.0) <= FEW_CHANGES * penalty.size:
                    break
                point = _Point.start(samples, mixture, penalty, point.trace)
            converged = False
            if point.n_passes < n_iter_max:
                for reached, converged in _passes(samples, point, tol, callback):
                    point = reached
                    if converged or point.n_passes >= n_iter_max:
                        break
            if not converged:
                status = StopReason.MAX_SWEEPS
                break
    except KeyboardInterrupt:
        status = StopReason.INTERRUPTED
    mixture, expected = point.mixture, point.expected
    rounds, values = zip(*point.trace, strict=True)
    rho = point.penalty / samples.shares(expected.counts)[1]
    return SmoothFit(
        mixture=mixture,
        cells=samples.cells,
        penalty=rho.reshape(len(samples.cells.smooth), mixture.rank),
        log_likelihood=expected.log_likelihood - samples.log_volume,
        n_parameters=samples.freedom(mixture, rho),
        posterior=expected.posterior,
        trace=(np.array(values) - samples.log_volume) / samples.total_weight,
        rounds=np.array(rounds),
        status=status,
        total_weight=samples.total_weight,
    )


@dataclass(frozen=True, eq=False)
class _Point:
    """Where the fit is: replaced as a whole, so that an interrupt finds everything of the same pass.

    The trace has a pair (round, value) for every start of a round and every pass.
    """

    mixture: SmoothMixture
    penalty: np.ndarray
    expected: Expectation
    trace: tuple[tuple[int, float], ...]

    @classmethod
    def start(
        cls,
        samples: CellStatistics,
        mixture: SmoothMixture,
        penalty: np.ndarray,
        trace: tuple[tuple[int, float], ...] = (),
    ) -> _Point:
        """Of the round after those of the trace."""
        expected, value = samples.expect(mixture, penalty)
        return cls(mixture, penalty, expected, (*trace, (trace[-1][0] + 1 if trace else 0, value)))

    def moved(self, mixture: SmoothMixture, expected: Expectation, value: float) -> _Point:
        """After a pass."""
        return _Point(mixture, self.penalty, expected, (*self.trace, (self.trace[-1][0], value)))

    @property
    def value(self) -> float:
        """Penalized log-likelihood."""
        return self.trace[-1][1]

    @property
    def n_passes(self) -> int:
        """So far, of all rounds."""
        return len(self.trace) - self.trace[-1][0] - 1


def _passes(
    samples: CellStatistics, point: _Point, tol: float, callback: Callable[[], None] | None
) -> Iterator[tuple[_Point, bool]]:
    """Passes with fixed penalties: after each where it has led, and whether that is the end.

    Extrapolated over pairs of passes. What turns out lower is taken back, so that the trace never falls.
    """
    squared = SquaredExtrapolation()
    while True:
        if callback is not None:
            callback()
        proposed = after = samples.maximize(point.expected, point.mixture, point.penalty)
        vector = squared.propose(point.mixture.pack(), after.pack())
        if vector is not None:
            proposed = samples.normalized(point.mixture.unpack(vector))
        found, reached = samples.expect(proposed, point.penalty)
        if vector is not None and not reached >= point.value:
            squared.reject()
            proposed = after
            found, reached = samples.expect(proposed, point.penalty)
        if not reached >= point.value:  # EM itself climbs, but for rounding
            yield point, True
            return
        gain = reached - point.value
        point = point.moved(proposed, found, reached)
        yield point, gain <= tol * samples.total_weight
