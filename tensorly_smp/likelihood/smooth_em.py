"""Smoothed EM: maximum penalized likelihood of a mixture whose conditional densities are log-splines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tensorly_smp._support.checks import checked_integer
from tensorly_smp._support.iteration import Coordinates, Iteration, MeanGain, StopReason, iterate
from tensorly_smp.likelihood.cell_samples import CellStatistics, SmoothMixture
from tensorly_smp.likelihood.cells import Cells
from tensorly_smp.likelihood.expectation import Expectation

#: Penalties are chosen anew after each of these rounds of passes.
N_ROUNDS = 3
#: ... unless fewer than this share of them change by more than this, as a logarithm.
FEW_CHANGES, LEAST_CHANGE = 0.02, 1.5

#: Called before every pass with the mixture, the E-step there and the penalized log-likelihood; returning True stops.
Callback = Callable[[SmoothMixture, Expectation, float], bool | None]


@dataclass(frozen=True, eq=False)
class SmoothFit:
    """Result of :func:`smooth_em`.

    Attributes
    ----------
    mixture : SmoothMixture
    cells : Cells
    penalty : ndarray (n_smooth, rank)
        rho of every density, per sample of its component.
    total_penalty : ndarray (n_smooth * rank,)
        The same times the number of samples of the component: what the objective has, and what `near` takes.
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
    total_penalty: np.ndarray
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
    def akaike(self) -> float:
        """Akaike's criterion as log-likelihood less the effective number of parameters, in nats; higher is better."""
        return self.log_likelihood - self.n_parameters


def smooth_em(
    samples: CellStatistics,
    posterior: Any,
    *,
    criterion: str = "reml",
    near: tuple[np.ndarray, SmoothMixture] | None = None,
    n_rounds: int = N_ROUNDS,
    n_iter_max: int = 100,
    tol: float = 1e-5,
    callback: Callback | None = None,
) -> SmoothFit:
    """Alternate posteriors and penalized log-spline densities until the penalized likelihood rises no further.

    The smoothed EM of Levine, Hunter and Chauveau (2011), with a penalized M-step in place of their kernel smoother:
    it has an objective, which no pass lowers as long as the penalties stay, and on a grid of cells a pass costs
    O(n_samples n_variables rank), not the square of the number of samples. Missing entries are integrated out.

    Parameters
    ----------
    samples : CellStatistics
        CellSamples, or samples elsewhere, on cells of :func:`tensorly_smp.likelihood.cells.choose_cells`. A sample of
        weight 2 counts twice: the weights also say how many samples there are, by which the penalties go.
    posterior : ndarray (n_samples, rank)
        To start from, as of the coupled CPD; of samples elsewhere, what stands for it there.
    criterion : {"reml", "aic", "bic"}
        How penalties are chosen, one per density; see :func:`tensorly_smp.splines.penalties.choose_penalties`.
    near : tuple, optional
        Penalties (n_smooth * rank,), not per sample, and the mixture with them, for the same posteriors: at first those
        within a factor of ten are compared.
    n_rounds : int
        How often penalties are chosen, at most; not again where next to all stay.
    n_iter_max : int
        Passes over the samples, of all rounds together, not counting extrapolations that are taken back. With 0 the
        densities are those of these posteriors.
    tol : float
        A round ends when two passes raise the penalized log-likelihood by less than this each, in nats per sample.
    callback : callable, optional
        ``callback(mixture, expected, value)`` before every pass: SmoothMixture, Expectation and penalized
        log-likelihood; returning True stops. A KeyboardInterrupt, from there or from the keyboard, ends the fit with
        what it has reached.

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
    n_rounds = checked_integer(n_rounds, "n_rounds", 1)
    n_iter_max = checked_integer(n_iter_max, "n_iter_max", 0)
    coordinates = Coordinates(
        pack=SmoothMixture.pack, unpack=lambda vector, like: samples.normalized(like.unpack(vector))
    )
    penalty, mixture = samples.choose(samples.counts_from_posterior(posterior), criterion, near)
    runs: list[Iteration[SmoothMixture, Expectation]] = []
    status = StopReason.CONVERGED
    try:
        for _ in range(n_rounds):
            chosen = penalty
            if runs:
                chosen, mixture = samples.choose(runs[-1].detail, criterion, (penalty, runs[-1].position))
                if np.count_nonzero(np.abs(np.log(chosen / penalty)) > LEAST_CHANGE) <= FEW_CHANGES * penalty.size:
                    break
            reached = iterate(
                mixture,
                partial(samples.expect, penalty=chosen),
                partial(_advance, samples, chosen),
                rule=MeanGain(tol * samples.total_weight, n_iter_max - sum(run.n_steps for run in runs)),
                coordinates=coordinates,
                callback=callback,
            )
            runs.append(reached)
            penalty = chosen
            status = reached.status
            if status is not StopReason.CONVERGED:
                break
    except KeyboardInterrupt:
        if not runs:
            raise
        status = StopReason.INTERRUPTED
    return _smooth_fit(samples, runs, penalty, status)


def _smooth_fit(
    samples: CellStatistics,
    runs: Sequence[Iteration[SmoothMixture, Expectation]],
    penalty: np.ndarray,
    status: StopReason,
) -> SmoothFit:
    """Result of several rounds; the penalties are those of the last one, not per sample."""
    mixture = runs[-1].position
    expected = runs[-1].detail
    values = np.concatenate([run.values for run in runs])
    rounds = np.repeat(np.arange(len(runs)), [len(run.values) for run in runs])
    rho = penalty / samples.shares(expected.counts)[1]
    return SmoothFit(
        mixture=mixture,
        cells=samples.cells,
        penalty=rho.reshape(len(samples.cells.smooth), mixture.rank),
        total_penalty=penalty,
        log_likelihood=expected.log_likelihood - samples.log_volume,
        n_parameters=samples.effective_df(mixture, rho),
        posterior=expected.posterior,
        trace=(values - samples.log_volume) / samples.total_weight,
        rounds=rounds,
        status=status,
        total_weight=samples.total_weight,
    )


def _advance(
    samples: CellStatistics, penalty: np.ndarray, mixture: SmoothMixture, expected: Expectation
) -> SmoothMixture:
    """M-step with these penalties."""
    return samples.maximize(expected, mixture, penalty)
