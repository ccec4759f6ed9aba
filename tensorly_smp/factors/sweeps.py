"""The alternating loop of one start: sweeps over all blocks, extrapolated, recorded, stopped."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import tensorly as tl
from tensorly.cp_tensor import CPTensor

from tensorly_smp._support.extrapolation import SquaredExtrapolation
from tensorly_smp._support.iteration import StopReason
from tensorly_smp._support.representations import short_repr
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.factors.arrays import Tensor, floor, index_tensor, normalize, project_simplex, take
from tensorly_smp.factors.compilation import compiled
from tensorly_smp.factors.multipliers import LIFTS
from tensorly_smp.factors.steps import Steps

#: Called after every sweep with the current CPTensor and loss; returning True stops.
Callback = Callable[[CPTensor, float], bool | None]


@dataclass(frozen=True, eq=False)
class SweepTrace:
    """Record of an iteration, one entry per sweep and one for the start: n_sweeps + 1 entries each.

    Attributes
    ----------
    loss : ndarray (n_sweeps + 1,)
        Weighted sum over triples of the loss.
    change : ndarray (n_sweeps + 1,)
        Largest change of a weight or factor entry in the sweep; NaN at the start.
    seconds : ndarray (n_sweeps + 1,)
        Since the start.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> data = smp.datasets.make_smooth_mixture("gaussian", 500, 4, 2, random_state=0)
    >>> codes = smp.encode_samples(data.X, smp.choose_binning(data.X, n_bins=5))
    >>> trace = smp.coupled_simplex_parafac(codes, rank=2, random_state=0).trace
    >>> bool((trace.loss[1:] <= trace.loss[:-1]).all())
    True
    """

    loss: np.ndarray
    change: np.ndarray
    seconds: np.ndarray

    __repr__ = short_repr

    @property
    def n_sweeps(self) -> int:
        """Number of sweeps that are kept in the result."""
        return len(self.loss) - 1

    def followed_by(self, later: SweepTrace) -> SweepTrace:
        """Record of both, the start of the later being the end of this one."""
        if not isinstance(later, SweepTrace):
            raise InvalidTypeError(f"later is {type(later).__name__}; expected a SweepTrace.")
        return SweepTrace(
            np.concatenate([self.loss, later.loss[1:]]),
            np.concatenate([self.change, later.change[1:]]),
            np.concatenate([self.seconds, self.seconds[-1] + later.seconds[1:]]),
        )


@dataclass(frozen=True)
class StoppingRule:
    """Relative decrease of the loss in each of the last two sweeps (one may be short by chance), or a sweep count."""

    tol: float | None
    n_iter_max: int

    def reason(self, losses: list[float], rounding: float, offset_error: float = 0.0) -> StopReason | None:
        """Why to stop after these losses, or None.

        Below ``rounding`` no loss can be told from zero. Losses that are known but for a constant, with an error, are
        not compared with zero, and their decrease is not held against less than that error.
        """
        if losses[-1] <= rounding and not offset_error:
            return StopReason.EXACT
        if (
            self.tol is not None
            and len(losses) > 2
            and (losses[-3] - losses[-1] <= 2 * self.tol * max(abs(losses[-1]), offset_error))
        ):
            return StopReason.CONVERGED
        if len(losses) > self.n_iter_max:
            return StopReason.MAX_SWEEPS
        return None


@dataclass
class State:
    """Weights and factors, all in the backend's arrays."""

    weights: Tensor
    factors: list[Tensor]

    def stack(self) -> Tensor:
        """All entries in one matrix, the weights in the last row."""
        return tl.concatenate([*self.factors, self.weights[None, :]])

    def change(self, other: State) -> float:
        """Largest difference of an entry."""
        return float(tl.max(tl.abs(self.stack() - other.stack())))


@dataclass
class Extrapolation:
    """Squared extrapolation over pairs of sweeps.

    In logarithms for a loss whose optimum is positive, else followed by the projection. The loop keeps it only where
    the loss did not rise, and says so by ``reject``.
    """

    in_logarithms: bool
    squared: SquaredExtrapolation = field(default_factory=SquaredExtrapolation)

    def propose(self, before: State, after: State) -> State | None:
        """The next start, or None where it would be no step ahead."""
        proposal = self.squared.propose(self._coordinates(before), self._coordinates(after))
        return None if proposal is None else self._on_simplex(proposal, after)

    def _coordinates(self, state: State) -> Tensor:
        x = state.stack()
        return tl.log(tl.clip(x, floor(x))) if self.in_logarithms else x

    def _on_simplex(self, stacked: Tensor, like: State) -> State:
        if self.in_logarithms:
            stacked = tl.exp(tl.clip(stacked, -150.0 if floor(stacked) < 1e-50 else -27.0, 20.0))
        parts = _on_simplex(self.in_logarithms, tuple(int(a.shape[0]) for a in like.factors), stacked)
        return State(parts[-1], list(parts[:-1]))

    def reject(self) -> None:
        """Take back the last proposal."""
        self.squared.reject()


@compiled(static=(0, 1))
def _on_simplex(in_logarithms: bool, sizes: tuple[int, ...], stacked: Tensor) -> tuple[Tensor, ...]:
    """Matrices with these numbers of rows, and the last row, every line along the first axis on the simplex."""
    onto = normalize if in_logarithms else project_simplex
    parts: list[Tensor] = [None] * len(sizes)
    first = np.concatenate([[0], np.cumsum(sizes)])
    for size in sorted(set(sizes)):  # all of one size at a time: many small matrices would take long one by one
        members = [n for n, other in enumerate(sizes) if other == size]
        lines = (first[members][:, None] + np.arange(size)).ravel()
        block = take(stacked, index_tensor(lines, tl.context(stacked)))
        block = onto(tl.reshape(block, (len(members), size, -1)), 1)
        for position, n in enumerate(members):
            parts[n] = block[position]
    return *parts, onto(stacked[int(first[-1])], 0)


class Sweeper:
    """Runs the sweeps of one start.

    A sweep begins with the weights: the pass over every triple that they need also gives the loss of the iterate
    before, so that the loss costs no pass of its own.
    """

    def __init__(self, steps: Steps, rule: StoppingRule, extrapolation: Extrapolation | None) -> None:
        self.steps = steps
        self.rule = rule
        self.extrapolation = extrapolation

    def run(self, start: State, callback: Callback | None = None) -> tuple[State, SweepTrace, StopReason]:
        """Last accepted state, the record, and why it ended."""
        state = start
        previous = start
        accepted = start
        fallback: State | None = None
        losses: list[float] = []
        changes: list[float] = []
        seconds: list[float] = []
        began = time.perf_counter()
        status = StopReason.INTERRUPTED
        rounding = self.steps.offset.resolution * float(tl.finfo(start.weights.dtype).eps) * 4
        try:
            while True:
                value, improved_weights = self.steps.begin(state.weights, state.factors)
                if fallback is not None and self.extrapolation is not None and not value <= losses[-1]:
                    self.extrapolation.reject()
                    state = fallback
                    fallback = None
                    continue
                fallback = None
                if not np.isfinite(value):
                    status = StopReason.NONFINITE
                    break
                accepted = state
                losses.append(value)
                changes.append(state.change(previous) if len(losses) > 1 else np.nan)
                seconds.append(time.perf_counter() - began)
                status_now = self._status(state, losses, rounding, callback)
                if status_now is StopReason.CONVERGED and len(losses) <= self.rule.n_iter_max:
                    freed = self._freed(state, value)
                    if freed is not None:
                        previous = state
                        state = freed
                        continue
                if status_now is not None:
                    status = status_now
                    break
                previous = state
                state = self._sweep(improved_weights(), state.factors)
                if self.extrapolation is not None:
                    proposal = self.extrapolation.propose(previous, state)
                    if proposal is not None:
                        fallback = state
                        state = proposal
        except KeyboardInterrupt:
            if not seconds:
                raise
        return accepted, _record(losses, changes, seconds), status

    def _freed(self, state: State, loss: float) -> State | None:
        """A state of lower loss, one sweep on from where entries that were stuck have been lifted; None without any."""
        lift = self.steps.stuck(state.weights, state.factors)
        if lift is None:
            return None
        for height in LIFTS:
            weights, factors = lift(height)
            _, improved_weights = self.steps.begin(weights, factors)
            moved = self._sweep(improved_weights(), factors)
            if self.steps.begin(moved.weights, moved.factors)[0] < loss:
                return moved
        return None

    def _status(
        self, state: State, losses: list[float], rounding: float, callback: Callback | None
    ) -> StopReason | None:
        # bool(): a comparison of NumPy numbers is not the object True.
        if callback is not None and bool(callback(CPTensor((state.weights, list(state.factors))), losses[-1])):
            return StopReason.CALLBACK
        return self.rule.reason(losses, rounding, self.steps.offset.error)

    def _sweep(self, weights: Tensor, factors: list[Tensor]) -> State:
        factors = list(factors)
        for n in range(len(factors)):
            factors[n] = self.steps.improve(n, factors, weights)
        return State(weights, factors)


def _record(losses: list[float], changes: list[float], seconds: list[float]) -> SweepTrace:
    if not seconds:
        raise InvalidInputError(
            "The loss of a start is not a finite number. Expected data that double precision can hold; divide tensors "
            "by their sum, or take other weights."
        )
    n = len(seconds)  # the interrupt may have come between two of the three
    return SweepTrace(np.array(losses[:n]), np.array(changes[:n]), np.array(seconds))
