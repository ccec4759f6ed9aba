"""The alternating loop of one start: sweeps over all blocks, extrapolated, recorded, stopped."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import tensorly as tl
from tensorly.cp_tensor import CPTensor

from tensorly_smp.factors.arrays import Tensor, floor, normalize, project_simplex
from tensorly_smp.factors.losses import Block, Loss
from tensorly_smp.factors.solution import StopReason, SweepTrace
from tensorly_smp.factors.updates import BlockSolver

#: Called after every sweep with the current CPTensor and loss; returning True stops.
Callback = Callable[[CPTensor, float], bool | None]


@dataclass(frozen=True)
class StoppingRule:
    """Relative decrease of the loss in each of the last two sweeps (one may be short by chance), or a sweep count."""

    tol: float
    n_iter_max: int

    def reason(self, losses: list[float], rounding: float) -> StopReason | None:
        """Why to stop after these losses, or None; below ``rounding`` no loss can be told from zero."""
        if losses[-1] <= rounding:
            return StopReason.EXACT
        if len(losses) > 2 and losses[-3] - losses[-1] <= 2 * self.tol * abs(losses[-1]):
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
    """Squared extrapolation (SQUAREM, Varadhan and Roland 2008) over pairs of sweeps.

    From three iterates a, b, c the next start is a + 2 s (b - a) + s^2 (c - 2 b + a) with s = |b - a| / |c - 2 b + a|,
    in logarithms for a loss whose optimum is positive, else followed by the projection. The loop keeps it only where
    the loss did not rise, and says so by ``reject``.
    """

    in_logarithms: bool
    largest_step: float = 4.0
    history: list[Tensor] = field(default_factory=list)

    def propose(self, before: State, after: State) -> State | None:
        """The next start, or None where it would be no step ahead."""
        self.history.append(before.stack())
        if len(self.history) < 2:
            return None
        a, b, c = (*self.history, after.stack())
        self.history = []
        if self.in_logarithms:
            a, b, c = (tl.log(tl.clip(x, floor(x))) for x in (a, b, c))
        first, second = b - a, c - 2.0 * b + a
        step = float(tl.norm(first)) / max(float(tl.norm(second)), 1e-300)
        if step <= 1.0:
            return None
        if step >= self.largest_step:
            step, self.largest_step = self.largest_step, 2.0 * self.largest_step
        return self._on_simplex(a + 2.0 * step * first + step * step * second, after)

    def _on_simplex(self, stacked: Tensor, like: State) -> State:
        if self.in_logarithms:
            stacked = tl.exp(tl.clip(stacked, -150.0 if floor(stacked) < 1e-50 else -27.0, 20.0))
        parts, row = [], 0
        for a in like.factors:
            part = stacked[row : row + a.shape[0]]
            parts.append(normalize(part, 0) if self.in_logarithms else project_simplex(part, 0))
            row += a.shape[0]
        weights = stacked[row]
        return State(normalize(weights, 0) if self.in_logarithms else project_simplex(weights, 0), parts)

    def reject(self) -> None:
        """Take back the last proposal: shorter steps from now on."""
        self.largest_step = max(2.0, self.largest_step / 2.0)
        self.history = []


class Sweeper:
    """Runs the sweeps of one start.

    A sweep begins with the weight block: the pass over every triple that it needs also gives the loss of the iterate
    before, so that the loss costs no pass of its own.
    """

    def __init__(self, loss: Loss, solver: BlockSolver, rule: StoppingRule, extrapolate: bool) -> None:
        self.loss = loss
        self.solver = solver
        self.rule = rule
        self.extrapolation = Extrapolation(loss.name == "kl") if extrapolate else None

    def run(self, start: State, callback: Callback | None = None) -> tuple[State, SweepTrace, StopReason]:
        """Last accepted state, the record, and why it ended."""
        state, previous = start, start
        fallback: State | None = None
        losses: list[float] = []
        changes: list[float] = []
        seconds: list[float] = []
        began = time.perf_counter()
        status = StopReason.INTERRUPTED
        rounding = self.loss.resolution * float(tl.finfo(start.weights.dtype).eps) * 4
        accepted = start
        try:
            while True:
                block = self.loss.weight_block(state.factors)
                row = state.weights[None, :]
                value = self.loss.total(block, row)
                if fallback is not None and self.extrapolation is not None and not value <= losses[-1]:
                    self.extrapolation.reject()
                    state, fallback = fallback, None
                    continue
                fallback = None
                accepted = state
                losses.append(value)
                changes.append(state.change(previous) if len(losses) > 1 else np.nan)
                seconds.append(time.perf_counter() - began)
                status_now = self._status(state, losses, rounding, callback)
                if status_now is not None:
                    status = status_now
                    break
                previous = state
                state = self._sweep(block, row, state.factors)
                if self.extrapolation is not None:
                    proposal = self.extrapolation.propose(previous, state)
                    if proposal is not None:
                        fallback, state = state, proposal
        except KeyboardInterrupt:
            if not seconds:
                raise
        n = len(seconds)  # the interrupt may have come between two of the three
        return accepted, SweepTrace(np.array(losses[:n]), np.array(changes[:n]), np.array(seconds)), status

    def _status(
        self, state: State, losses: list[float], rounding: float, callback: Callback | None
    ) -> StopReason | None:
        # bool(): a comparison of NumPy numbers is not the object True.
        if callback is not None and bool(callback(CPTensor((state.weights, list(state.factors))), losses[-1])):
            return StopReason.CALLBACK
        return self.rule.reason(losses, rounding)

    def _sweep(self, weight_block: Block, row: Tensor, factors: list[Tensor]) -> State:
        weights = self.solver(weight_block, row, key=-1)[0]
        factors = list(factors)
        for n in range(len(factors)):
            factors[n] = self.solver(self.loss.factor_block(n, factors, weights), factors[n], key=n)
        return State(weights, factors)
