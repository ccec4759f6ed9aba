"""The alternating loop of one start: sweeps over all blocks, extrapolated, recorded, stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import tensorly as tl
from tensorly.cp_tensor import CPTensor

from tensorly_smp._support.iteration import Coordinates, StopReason, iterate
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
    """Relative decrease of the loss in each of the last two sweeps (one may be short by chance), or a sweep count.

    Attributes
    ----------
    tol : float or None
    n_iter_max : int
    rounding : float
        Below this no loss can be told from zero.
    offset_error : float
        Error of a constant by which losses are off: these are not compared with zero, and their decrease is not held
        against less than that error.
    """

    tol: float | None
    n_iter_max: int
    rounding: float = 0.0
    offset_error: float = 0.0

    def __call__(self, values: Sequence[float]) -> StopReason | None:
        """Reason to stop after these negative losses, if there is one."""
        loss = -values[-1]
        if loss <= self.rounding and not self.offset_error:
            return StopReason.EXACT
        if self.tol is not None and len(values) > 2:
            least = 2 * self.tol * max(abs(loss), self.offset_error)
            if values[-1] - values[-3] <= least:
                return StopReason.CONVERGED
        return StopReason.MAX_SWEEPS if len(values) > self.n_iter_max else None


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


def coordinates_of(in_logarithms: bool) -> Coordinates[State]:
    """Coordinates in which sweeps are extrapolated.

    In logarithms for a loss whose optimum is positive, else the entries themselves, followed by the projection.
    """

    def pack(state: State) -> Tensor:
        x = state.stack()
        return tl.log(tl.clip(x, floor(x))) if in_logarithms else x

    def unpack(stacked: Tensor, like: State) -> State:
        if in_logarithms:
            stacked = tl.exp(tl.clip(stacked, -150.0 if floor(stacked) < 1e-50 else -27.0, 20.0))
        parts = _on_simplex(in_logarithms, tuple(int(a.shape[0]) for a in like.factors), stacked)
        return State(parts[-1], list(parts[:-1]))

    return Coordinates(pack, unpack)


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


def run_sweeps(
    steps: Steps,
    start: State,
    rule: StoppingRule,
    coordinates: Coordinates[State] | None,
    callback: Callback | None = None,
) -> tuple[State, SweepTrace, StopReason]:
    """The sweeps of one start: last accepted state, the record, and why it ended.

    A sweep begins with the weights: the pass over every triple that they need also gives the loss of the iterate
    before, so that the loss costs no pass of its own.
    """
    rounding = steps.offset.resolution * float(tl.finfo(start.weights.dtype).eps) * 4
    rule = replace(rule, rounding=rounding, offset_error=steps.offset.error)
    states: list[State] = []
    changes: list[float] = []

    def evaluate(state: State) -> tuple[Callable[[], Tensor], float]:
        loss, improved_weights = steps.begin(state.weights, state.factors)
        return improved_weights, -loss

    def advance(state: State, improved_weights: Callable[[], Tensor]) -> State:
        return _sweep(steps, improved_weights(), state.factors)

    def record(state: State, _: Callable[[], Tensor], value: float) -> bool | None:
        changes.append(state.change(states[0]) if states else np.nan)
        states[:] = [state]
        return None if callback is None else callback(CPTensor((state.weights, list(state.factors))), -value)

    reached = iterate(
        start,
        evaluate,
        advance,
        rule=rule,
        coordinates=coordinates,
        lift=partial(_lifted, steps, rule, changes),
        may_fall=True,
        callback=record,
    )
    if not np.isfinite(reached.values[0]):
        raise InvalidInputError(
            "The loss of a start is not a finite number. Expected data that double precision can hold; divide tensors "
            "by their sum, or take other weights."
        )
    # An interrupt may have come between a sweep and its record.
    n_known = min(len(changes), len(reached.values))
    changed = np.append(changes[:n_known], np.full(len(reached.values) - n_known, np.nan))
    return reached.position, SweepTrace(-reached.values, changed, reached.seconds), reached.status


def _lifted(steps: Steps, rule: StoppingRule, changes: list[float], state: State, value: float) -> State | None:
    """A state of lower loss, one sweep on from where entries that were stuck have been lifted; None without any."""
    if len(changes) > rule.n_iter_max:
        return None
    lift = steps.stuck(state.weights, state.factors)
    if lift is None:
        return None
    for height in LIFTS:
        weights, factors = lift(height)
        _, improved_weights = steps.begin(weights, factors)
        moved = _sweep(steps, improved_weights(), factors)
        if steps.begin(moved.weights, moved.factors)[0] < -value:
            return moved
    return None


def _sweep(steps: Steps, weights: Tensor, factors: list[Tensor]) -> State:
    factors = list(factors)
    for n in range(len(factors)):
        factors[n] = steps.improve(n, factors, weights)
    return State(weights, factors)
