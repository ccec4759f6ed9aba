"""EM with a record, a stopping rule and acceleration, of several mixtures together: penalized densities, values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorly_smp._support.iteration import Coordinates, Iteration, MeanGain, StopReason, iterate_together, walk_of
from tensorly_smp.likelihood.cells import Cells, combined_cells
from tensorly_smp.likelihood.steps import CellSamples, Expectation, Mixture
from tensorly_smp.splines.log_spline import FEW_PENALTIES, choose_penalties, effective_parameters, fit_log_splines

#: Penalties are chosen anew after each of these rounds of passes.
N_ROUNDS = 3
#: ... unless fewer than this share of them change by more than this, as a logarithm.
FEW_CHANGES, LEAST_CHANGE = 0.02, 1.5
#: Of clear posteriors, which so many variables may have, none is farther from zero and one than this.
CLEAR_FROM, CLEAR = 20, 1e-9
#: Where grids are compared, densities are followed until a Newton step promises less than this, in nats per sample.
REFITTED_TO = 1e-6

#: Called before every pass with the mixture, the E-step there and the penalized log-likelihood; returning True stops.
PassCallback = Callable[[Mixture, Expectation, float], bool | None]
#: Penalties (n_smooth * rank,), not per sample, and the mixture with them, that a fit begins near.
WarmStart = tuple[np.ndarray, Mixture]


def run_em(
    samples: CellSamples,
    mixtures: Sequence[Mixture],
    penalties: Sequence[np.ndarray],
    *,
    tol: float,
    n_iter_max: Sequence[int],
    extrapolates: bool = True,
    fast_gain: float = math.inf,
    callback: PassCallback | None = None,
) -> list[Iteration[Mixture, Expectation]]:
    """Passes of EM from mixtures, until their penalized log-likelihoods rise no further.

    Every mixture goes its own way, as if it were alone, but all of them take every step together.

    Parameters
    ----------
    samples : CellSamples
    mixtures : sequence of Mixture
    penalties : sequence of ndarray (n_smooth * rank,)
        Of the log-splines of every mixture, not per sample.
    tol : float
        Stop when two passes gain at most this much each, in nats summed over samples.
    n_iter_max : sequence of int
        Passes of every mixture, at most.
    extrapolates : bool
        Whether pairs of passes are extrapolated (SQUAREM).
    fast_gain : float
        Gain of a pass, in nats summed over samples, above which nothing is extrapolated.
    callback : callable, optional
        ``callback(mixture, expected, value)`` before every pass of every mixture; returning True stops the mixture.

    Returns
    -------
    list of Iteration
        Of every mixture; its position is the mixture, its detail the last E-step.
    """

    def evaluate(numbers: list[int], positions: list[Mixture]) -> list[tuple[Expectation, float]]:
        expected, values = samples.expect(Mixture.side_by_side(positions), joined(numbers))
        return list(zip(expected.split(), values.tolist(), strict=True))

    def advance(numbers: list[int], positions: list[Mixture], expected: list[Expectation]) -> list[Mixture]:
        together = Expectation.side_by_side(expected)
        are_clear = [is_clear(each.posterior) for each in expected] if len(samples.cells.smooth) >= CLEAR_FROM else ()
        return samples.maximize(together, Mixture.side_by_side(positions), joined(numbers), are_clear).split()

    def joined(numbers: list[int]) -> np.ndarray:
        return side_by_side([penalties[number] for number in numbers], [mixtures[number].rank for number in numbers])

    walks = [
        walk_of(
            mixture,
            rule=MeanGain(tol, most),
            coordinates=Coordinates(Mixture.pack, samples.feasible) if extrapolates else None,
            fast_gain=fast_gain,
            callback=callback,
        )
        for mixture, most in zip(mixtures, n_iter_max, strict=True)
    ]
    return iterate_together(walks, evaluate, advance)


def is_clear(posterior: np.ndarray) -> bool:
    """True if every sample belongs to one component, to rounding, as with many variables."""
    return len(posterior) > 0 and bool((posterior.max(axis=1) > 1.0 - CLEAR).all())


def is_near(posterior: np.ndarray, other: np.ndarray) -> bool:
    """True if no posterior differs by more than clear ones do from zero and one."""
    return len(posterior) > 0 and posterior.shape == other.shape and float(np.abs(posterior - other).max()) < CLEAR


@dataclass(frozen=True, eq=False)
class SmoothFit:
    """Result of :func:`smooth_em`.

    Attributes
    ----------
    mixture : Mixture
    cells : Cells
    penalty : ndarray (n_smooth, rank)
        rho of every density, per sample of its component.
    total_penalty : ndarray (n_smooth * rank,)
        The same times the number of samples of the component: what the objective has, and what `warm_start` takes.
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

    mixture: Mixture
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
    samples: CellSamples,
    start: np.ndarray | Expectation,
    *,
    warm_start: WarmStart | None = None,
    **options: Any,
) -> SmoothFit:
    """Alternate posteriors and penalized log-spline densities until the penalized likelihood rises no further.

    The smoothed EM of Levine, Hunter and Chauveau (2011), with a penalized M-step in place of their kernel smoother:
    it has an objective, which no pass lowers as long as the penalties stay, and on a grid of cells a pass costs
    O(n_samples n_variables rank), not the square of the number of samples. Missing entries are integrated out.

    Parameters
    ----------
    samples : CellSamples
        On cells of :func:`tensorly_smp.likelihood.cells.choose_cells`. A sample of weight 2 counts twice: the weights
        also say how many samples there are, by which the penalties go.
    start : ndarray (n_samples, rank) or Expectation
        Posteriors to start from, as of the coupled CPD, or the result of an E-step.
    warm_start : tuple, optional
        Penalties (n_smooth * rank,), not per sample, and the mixture with them, for the same posteriors: at first those
        within a factor of ten are compared.
    **options
        As for :func:`smooth_em_together`.

    Returns
    -------
    SmoothFit

    References
    ----------
    M. Levine, D. R. Hunter, D. Chauveau, "Maximum smoothed likelihood for multivariate mixtures", Biometrika 98, 2011.
    """
    return smooth_em_together(samples, [start], warm_starts=[warm_start], **options)[0]


def smooth_em_together(
    samples: CellSamples,
    starts: Sequence[np.ndarray | Expectation],
    *,
    warm_starts: Sequence[WarmStart | None] | None = None,
    criterion: str = "reml",
    n_rounds: int = N_ROUNDS,
    n_iter_max: int = 100,
    tol: float = 1e-5,
    callback: PassCallback | None = None,
) -> list[SmoothFit]:
    """Fits of :func:`smooth_em` from several starts, to rounding, in a fraction of the time that they take in turn.

    Parameters
    ----------
    samples : CellSamples
    starts, warm_starts
        Sequences of what `smooth_em` takes; numbers of components may differ.
    criterion : {"reml", "aic", "bic"}
        How penalties are chosen, one per density; see :func:`tensorly_smp.splines.log_spline.choose_penalties`.
    n_rounds : int
        How often penalties are chosen, at most; not again where next to all stay, or densities are log-concave.
    n_iter_max : int
        Passes over the samples, of all rounds together, not counting extrapolations that are taken back. With 0 the
        densities are those of these posteriors.
    tol : float
        A round ends when two passes raise the penalized log-likelihood by less than this each, in nats per sample.
    callback : callable, optional
        ``callback(mixture, expected, value)`` before every pass: Mixture, Expectation and penalized
        log-likelihood; returning True stops. A KeyboardInterrupt, from there or from the keyboard, ends the fit with
        what it has reached.

    Returns
    -------
    list of SmoothFit

    Raises
    ------
    InvalidInputError
        Another criterion.
    """
    if samples.cells.basis.shape is not None:
        n_rounds = 1  # it is the shape that smooths: the criterion is nearly flat, and penalties would change each time
    details = [each if isinstance(each, Expectation) else samples.counts_from_posterior(each) for each in starts]
    chosen = choose_together(samples, details, criterion, warm_starts or [None] * len(starts))
    runs: list[list[Iteration[Mixture, Expectation]]] = [[] for _ in starts]
    penalties = [penalty for penalty, _ in chosen]
    statuses = [StopReason.CONVERGED] * len(starts)
    going = list(range(len(starts)))
    try:
        for number in range(n_rounds):
            if number:
                # Of the same posteriors, penalties chosen anew would be the same.
                going = [k for k in going if not is_near(runs[k][-1].detail.posterior, details[k].posterior)]
                known = [(penalties[k], runs[k][-1].position) for k in going]
                chosen = choose_together(samples, [runs[k][-1].detail for k in going], criterion, known)
                changes = [np.abs(np.log(own[0] / old[0])) for own, old in zip(chosen, known, strict=True)]
                is_new = [np.count_nonzero(each > LEAST_CHANGE) > FEW_CHANGES * each.size for each in changes]
                going = [k for k, new in zip(going, is_new, strict=True) if new]
                details = [runs[k][-1].detail if k in going else each for k, each in enumerate(details)]
                chosen = [each for each, new in zip(chosen, is_new, strict=True) if new]
            if not going:
                break
            reached = run_em(
                samples,
                [mixture for _, mixture in chosen],
                [penalty for penalty, _ in chosen],
                tol=tol * samples.total_weight,
                n_iter_max=[n_iter_max - sum(run.n_steps for run in runs[k]) for k in going],
                callback=callback,
            )
            for k, run, (penalty, _) in zip(going, reached, chosen, strict=True):
                runs[k].append(run)
                penalties[k] = penalty
                statuses[k] = run.status
            going = [k for k in going if statuses[k] is StopReason.CONVERGED]
            if StopReason.INTERRUPTED in statuses:
                break
    except KeyboardInterrupt:
        if not all(runs):
            raise
        for k in going:
            statuses[k] = StopReason.INTERRUPTED
    return fits_of(samples, runs, penalties, statuses)


def choose_together(
    samples: CellSamples, details: Sequence[Expectation], criterion: str, warm_starts: Sequence[WarmStart | None]
) -> list[WarmStart]:
    """Penalties and mixtures of several E-steps: those near known ones together, and all others together."""
    found: list[Any] = [None] * len(details)
    for is_known in (False, True):
        numbers = [k for k, known in enumerate(warm_starts) if (known is not None) == is_known]
        if not numbers:
            continue
        ranks = [len(details[k].component_counts) for k in numbers]
        start = None
        if is_known:
            known = [each for each in warm_starts if each is not None]
            start = side_by_side([each[0] for each in known], ranks), Mixture.side_by_side([each[1] for each in known])
        penalty, mixture = samples.choose(Expectation.side_by_side([details[k] for k in numbers]), criterion, start)
        own = np.split(penalty.reshape(-1, sum(ranks)), np.cumsum(ranks)[:-1], axis=1)
        for k, columns, each in zip(numbers, own, mixture.split(), strict=True):
            found[k] = (columns.ravel(), each)
    return found


def side_by_side(penalties: Sequence[np.ndarray], ranks: Sequence[int]) -> np.ndarray:
    """Penalties (n_smooth * rank,) of several mixtures as those of all their components."""
    if len(penalties) == 1:
        return penalties[0]
    return np.concatenate([each.reshape(-1, rank) for each, rank in zip(penalties, ranks, strict=True)], axis=1).ravel()


def fits_of(
    samples: CellSamples,
    runs: Sequence[Sequence[Iteration[Mixture, Expectation]]],
    penalties: Sequence[np.ndarray],
    statuses: Sequence[StopReason],
) -> list[SmoothFit]:
    """Results of EM in several rounds; the penalties are those of the last one, not per sample."""
    mixtures = [own[-1].position for own in runs]
    together = Expectation.side_by_side([own[-1].detail for own in runs])
    penalty = side_by_side(penalties, [mixture.rank for mixture in mixtures])
    rho = penalty / samples.shares(together.counts)[1]
    n_parameters = samples.effective_df(Mixture.side_by_side(mixtures), rho)
    ends = np.cumsum([mixture.rank for mixture in mixtures])
    own_rho = np.split(rho.reshape(-1, ends[-1]), ends[:-1], axis=1)
    found = []
    for k, (own, mixture) in enumerate(zip(runs, mixtures, strict=True)):
        values = np.concatenate([run.values for run in own])
        expected = own[-1].detail
        found.append(
            SmoothFit(
                mixture=mixture,
                cells=samples.cells,
                penalty=own_rho[k],
                total_penalty=penalties[k],
                log_likelihood=expected.log_likelihood - samples.log_volume,
                n_parameters=float(n_parameters[k]),
                posterior=expected.posterior,
                trace=(values - samples.log_volume) / samples.total_weight,
                rounds=np.repeat(np.arange(len(own)), [len(run.values) for run in own]),
                status=statuses[k],
                total_weight=samples.total_weight,
            )
        )
    return found


def akaike_by_variable(
    grids: Iterable[CellSamples], posterior: np.ndarray, criterion: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Akaike's criterion of the cells of every smooth variable on several grids, given posteriors.

    It is the log-likelihood of the variable's entries less the effective number of parameters, in nats, with the best
    of a few penalties; in the unit of the variable, so that it compares with that of other cells.

    Parameters
    ----------
    grids : iterable of CellSamples
        The samples on grids of the same basis, one of which is kept at a time.
    posterior : ndarray (n_samples, rank)
    criterion : {"reml", "aic", "bic"}
        Of the penalties.

    Returns
    -------
    values : ndarray (n_grids, n_smooth)
    penalties : ndarray (n_grids, n_smooth * rank)
        Not per sample.
    coefficients : ndarray (n_grids, n_basis, n_smooth, rank)
    """
    found = []
    for samples in grids:
        counts = samples.counts_from_posterior(posterior).counts
        shares, totals = samples.shares(counts)
        log_widths = samples.cells.log_widths[: samples.cells.first_value].reshape(-1, len(shares)).T
        found.append((shares, totals, samples.by_density(counts), log_widths))
        basis = samples.cells.basis
    shares, totals, counts, log_widths = (np.concatenate(arrays, axis=-1) for arrays in zip(*found, strict=True))
    rho, columns = choose_penalties(basis, shares, totals, FEW_PENALTIES, criterion)
    # The penalties lie between those compared: the densities must be theirs, or grids differ by chance.
    columns = fit_log_splines(basis, shares, rho, columns, tol=REFITTED_TO)
    shape = (len(found), -1, posterior.shape[1])
    logs = basis.log_probabilities(columns) - np.repeat(log_widths, shape[2], axis=1)
    values = (counts * logs).sum(axis=0) - effective_parameters(basis, columns, rho)
    coefficients = columns.reshape(len(columns), *shape).transpose(1, 0, 2, 3)
    return values.reshape(shape).sum(axis=2), (rho * totals).reshape(len(found), -1), coefficients


def on_best_cells(
    on_grid: CellSamples,
    others: Sequence[Cells],
    assign_to_grid: Callable[[Cells], CellSamples],
    posterior: np.ndarray,
    criterion: str,
) -> tuple[CellSamples, tuple[np.ndarray, Mixture]]:
    """The samples on the cells that suit every variable best, given posteriors.

    Parameters
    ----------
    on_grid : CellSamples
    others : sequence of Cells
        To be compared with those of `on_grid`, see :func:`akaike_by_variable`.
    assign_to_grid : callable
        Of cells, returns the samples on them.
    posterior : ndarray (n_samples, rank)
    criterion : {"reml", "aic", "bic"}
        Of the penalties.

    Returns
    -------
    on_grid : CellSamples
    warm_start : tuple
        The penalties that were found there, not per sample, and the mixture with them.
    """
    expected = on_grid.counts_from_posterior(posterior)
    if not on_grid.cells.smooth:
        return on_grid, on_grid.choose(expected, criterion)
    grids = (on_grid if number == 0 else assign_to_grid(others[number - 1]) for number in range(len(others) + 1))
    values, penalties, coefficients = akaike_by_variable(grids, posterior, criterion)
    best = np.argmax(values, axis=0)
    own = (best, np.arange(len(best)))  # of every smooth variable, what was found on its cells
    penalty = penalties.reshape(*values.shape, -1)[own].ravel()
    columns = np.ascontiguousarray(coefficients.transpose(0, 2, 1, 3)[own].transpose(1, 0, 2))
    mixture = on_grid.mixture_of(expected, columns.reshape(len(columns), -1))
    if best.any():
        chosen = dict(zip(on_grid.cells.smooth, best.tolist(), strict=True))
        on_grid = assign_to_grid(combined_cells([on_grid.cells, *others], chosen))
    return on_grid, (penalty, mixture)
