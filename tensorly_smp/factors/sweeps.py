"""The alternating loop of one start: sweeps over all blocks, extrapolated, recorded, stopped.

Blocks are solved as they are, or, on JAX, in compiled functions: one for the weights and one for the factors, which all
variables share whose unfoldings have the same shape. A whole sweep as one function, for ten variables of 15 bins, takes
3 to 35 percent less time once it is compiled, which itself takes 20 to 45 percent longer: no fit of fewer than some
four hundred sweeps would earn that back.

Some entries may be so small that a multiplicative step cannot bring them back, though the loss would be lower if they
grew. At a minimum of a block on the simplex the multipliers of the bounds x >= 0 are not negative: -gradient is at most
lambda, its mean over a line weighted by x. A multiplicative step multiplies an entry by -gradient / lambda, so that one
of 1e-20 that ought to grow takes a hundred steps in which the loss does not change. The loop would call that converged;
such entries are lifted, and the sweeps go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorly as tl
from tensorly.cp_tensor import CPTensor

from tensorly_smp._support.iteration import Coordinates, StopReason, SweepTrace, iterate
from tensorly_smp.codes.binning import Binning
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.factors import backend
from tensorly_smp.factors.backend import Tensor
from tensorly_smp.factors.blocks import Block, BlockSolver, ExplicitLoss, Loss
from tensorly_smp.factors.coupled import Unfolding
from tensorly_smp.factors.mixture_factors import MixtureFactors

#: Entries below this may be stuck: from there on steps get them back by themselves.
SMALL = 1e-5
#: Relative excess of -gradient over lambda from which a multiplier has the wrong sign; less is rounding.
EXCESS = 1e-2
#: Heights that stuck entries are lifted to; the first that lowers the loss is taken.
LIFTS = (3e-2, 1e-3, 3e-5)

#: Called after every sweep with the current CPTensor and loss; returning True stops.
Callback = Callable[[CPTensor, float], bool | None]


@dataclass
class State:
    """Weights and factors, all in the backend's arrays."""

    weights: Tensor
    factors: list[Tensor]

    @classmethod
    def of_start(cls, start: MixtureFactors, context: dict[str, Any]) -> State:
        """Entries of a start without exact zeros: a column whose bins hold no sample would be zero after a step."""
        model = start.to_numpy()
        weights, *factors = (backend.as_tensor(a, context) for a in (model.weights, *model.factors))
        return cls(tl.clip(weights, backend.floor(weights)), [tl.clip(a, backend.floor(a)) for a in factors])

    def stack(self) -> Tensor:
        """All entries in one matrix, the weights in the last row."""
        return tl.concatenate([*self.factors, self.weights[None, :]])

    def change(self, other: State) -> float:
        """Largest difference of an entry."""
        return float(tl.max(tl.abs(self.stack() - other.stack())))

    def mixture(self, binning: Binning | None = None) -> MixtureFactors:
        """MixtureFactors, checked."""
        return MixtureFactors(self.weights, tuple(self.factors), binning)


def coordinates_of(in_logarithms: bool) -> Coordinates[State]:
    """Coordinates in which sweeps are extrapolated.

    In logarithms for a loss whose optimum is positive, else the entries themselves, followed by the projection.
    """

    def pack(state: State) -> Tensor:
        x = state.stack()
        return tl.log(tl.clip(x, backend.floor(x))) if in_logarithms else x

    def unpack(stacked: Tensor, like: State) -> State:
        if in_logarithms:
            stacked = tl.exp(tl.clip(stacked, -150.0 if backend.floor(stacked) < 1e-50 else -27.0, 20.0))
        parts = _on_simplex(in_logarithms, tuple(int(a.shape[0]) for a in like.factors), stacked)
        return State(parts[-1], list(parts[:-1]))

    return Coordinates(pack, unpack)


@backend.compiled(static=(0, 1))
def _on_simplex(in_logarithms: bool, sizes: tuple[int, ...], stacked: Tensor) -> tuple[Tensor, ...]:
    """Matrices with these numbers of rows, and the last row, every line along the first axis on the simplex."""
    onto = backend.normalize if in_logarithms else backend.project_simplex
    parts: list[Tensor] = [None] * len(sizes)
    first = np.concatenate([[0], np.cumsum(sizes)])
    for size in sorted(set(sizes)):  # all of one size at a time: many small matrices would take long one by one
        members = [n for n, other in enumerate(sizes) if other == size]
        lines = (first[members][:, None] + np.arange(size)).ravel()
        block = backend.take(stacked, backend.index_tensor(lines, tl.context(stacked)))
        block = onto(tl.reshape(block, (len(members), size, -1)), 1)
        for position, n in enumerate(members):
            parts[n] = block[position]
    return *parts, onto(stacked[int(first[-1])], 0)


class Steps:
    """A solver at work on the blocks of a loss; of one start alone, for it keeps what the solver remembers of each.

    Steps are compiled on JAX. The weights are improved along with the loss there, in one compiled function, which is
    wasted where an extrapolation is taken back.
    """

    def __init__(self, loss: Loss, solver: BlockSolver) -> None:
        self.loss = loss
        self.solver = solver
        self.memory: dict[int, Any] = {}

    def begin(self, weights: Tensor, factors: list[Tensor]) -> tuple[float, Callable[[], Tensor]]:
        """Loss of an iterate, and a function that gives its improved weights: both need the same pass over the data."""
        solution: list[Any] = []
        row = weights[None, :]
        if tl.get_backend() == "jax":
            assert isinstance(self.loss, ExplicitLoss)  # samples without histograms are for NumPy alone
            cover = self.loss.tensors.cover
            variables = tuple(u.variable for u in cover)
            arrays = tuple(u.arrays for u in cover)
            value, *solution = _improved_weights(
                type(self.loss), self.solver, variables, arrays, tuple(factors), weights, self.memory.get(-1)
            )
        else:
            block = self.loss.weight_block(factors)
            value = block.value(row)

        def improved_weights() -> Tensor:
            moved, self.memory[-1] = solution or self.solver(block, row, self.memory.get(-1))
            return moved[0]

        return self.loss.of_value(value), improved_weights

    def improve(self, n: int, factors: list[Tensor], weights: Tensor) -> Tensor:
        """Improved factor of variable n."""
        memory = self.memory.get(n)
        if tl.get_backend() == "jax":
            assert isinstance(self.loss, ExplicitLoss)
            arrays = self.loss.tensors.blocks[n].arrays
            moved, self.memory[n] = _improved_factor(
                type(self.loss), self.solver, arrays, tuple(factors), factors[n], weights, memory
            )
        else:
            moved, self.memory[n] = self.solver(self.loss.factor_block(n, factors, weights), factors[n], memory)
        return moved

    def sweep(self, weights: Tensor, factors: list[Tensor]) -> State:
        """Every factor improved in turn, given the improved weights."""
        factors = list(factors)
        for n in range(len(factors)):
            factors[n] = self.improve(n, factors, weights)
        return State(weights, factors)

    def lifted(self, state: State, loss: float) -> State | None:
        """A state of lower loss, one sweep on from where stuck entries have been lifted; None without any."""
        lift = stuck_entries(self.loss, state.weights, state.factors) if self.solver.can_be_stuck else None
        if lift is None:
            return None
        for height in LIFTS:
            higher = lift(height)
            moved = self.sweep(self.begin(higher.weights, higher.factors)[1](), higher.factors)
            if self.begin(moved.weights, moved.factors)[0] < loss:
                return moved
        return None


@backend.compiled(static=(0, 1, 2))
def _improved_weights(
    kind: type[ExplicitLoss],
    solver: BlockSolver,
    variables: tuple[int, ...],
    cover: tuple[tuple[Tensor, ...], ...],
    factors: Sequence[Tensor],
    weights: Tensor,
    memory: Any,
) -> tuple[Tensor, Tensor, Any]:
    unfoldings = tuple(Unfolding(n, *arrays) for n, arrays in zip(variables, cover, strict=True))
    block = kind.block_of_weights(unfoldings, factors)
    row = weights[None, :]
    value = block.value(row)
    moved, memory = solver(block, row, memory)
    return value, moved, memory


@backend.compiled(static=(0, 1))
def _improved_factor(
    kind: type[ExplicitLoss],
    solver: BlockSolver,
    arrays: tuple[Tensor, ...],
    factors: Sequence[Tensor],
    factor: Tensor,
    weights: Tensor,
    memory: Any,
) -> tuple[Tensor, Any]:
    # Which variable it is makes no difference, so that those of the same shape share what is compiled.
    return solver(kind.block_of_factor(Unfolding(-1, *arrays), factors, weights), factor, memory)


def stuck_entries(loss: Loss, weights: Tensor, factors: Sequence[Tensor]) -> Callable[[float], State] | None:
    """Find entries whose multipliers have the wrong sign, and return a function that lifts them, or None.

    Parameters
    ----------
    loss : Loss
    weights : tensor (rank,)
    factors : sequence of tensor (n_bins[n], rank)

    Returns
    -------
    callable or None
        Takes a height; returns the weights and factors with all of these entries raised by it.
    """
    arrays = list(factors)
    row = weights[None, :]

    def wrong_signs(block: Block, x: Tensor) -> Tensor:
        """One where an entry is small and its multiplier has the wrong sign, else zero."""
        slope = -block.gradient(x)
        mean = tl.sum(x * slope, axis=block.axis, keepdims=True)
        one = 0.0 * x + 1.0
        is_small = tl.where(x < SMALL, one, 0.0 * one)
        return tl.where(slope > (1.0 + EXCESS) * mean, is_small, 0.0 * one)

    weight_mask = wrong_signs(loss.weight_block(arrays), row)
    masks = [wrong_signs(loss.factor_block(n, arrays, weights), a) for n, a in enumerate(arrays)]
    if not any(float(tl.max(mask)) for mask in (weight_mask, *masks)):
        return None

    def lifted(height: float) -> State:
        moved = [backend.normalize(a + height * mask, 0) for a, mask in zip(arrays, masks, strict=True)]
        return State(backend.normalize(row + height * weight_mask, 1)[0], moved)

    return lifted


def run_sweeps(
    steps: Steps,
    start: State,
    tol: float | None,
    n_iter_max: int,
    coordinates: Coordinates[State] | None = None,
    callback: Callback | None = None,
) -> tuple[State, SweepTrace, StopReason]:
    """The sweeps of one start: last accepted state, the record, and why it ended.

    A sweep begins with the weights: the pass over every triple that they need also gives the loss of the iterate
    before, so that the loss costs no pass of its own.

    Parameters
    ----------
    steps : Steps
    start : State
    tol : float or None
        Relative decrease of the loss in each of the last two sweeps (one may be short by chance) at which they end.
    n_iter_max : int
        Sweeps at most.
    coordinates : Coordinates, optional
        In which pairs of sweeps are extrapolated.
    callback : callable, optional
    """
    states: list[State] = []
    changes: list[float] = []

    def evaluate(state: State) -> tuple[Callable[[], Tensor], float]:
        value, improved_weights = steps.begin(state.weights, state.factors)
        return improved_weights, -value

    def advance(state: State, improved_weights: Callable[[], Tensor]) -> State:
        return steps.sweep(improved_weights(), state.factors)

    def lift(state: State, value: float) -> State | None:
        return None if len(changes) > n_iter_max else steps.lifted(state, -value)

    def record(state: State, _: Callable[[], Tensor], value: float) -> bool | None:
        changes.append(state.change(states[0]) if states else np.nan)
        states[:] = [state]
        return None if callback is None else callback(CPTensor((state.weights, list(state.factors))), -value)

    reached = iterate(
        start,
        evaluate,
        advance,
        rule=_stopping_rule(steps.loss, start, tol, n_iter_max),
        coordinates=coordinates,
        lift=lift,
        may_fall=True,
        callback=record,
    )
    if not np.isfinite(reached.values[0]):
        raise InvalidInputError("The loss of a start is not a finite number; divide the tensors by their sums.")
    # An interrupt may have come between a sweep and its record.
    n_known = min(len(changes), len(reached.values))
    changed = np.append(changes[:n_known], np.full(len(reached.values) - n_known, np.nan))
    return reached.position, SweepTrace(-reached.values, changed, reached.seconds), reached.status


def _stopping_rule(
    loss: Loss, start: State, tol: float | None, n_iter_max: int
) -> Callable[[Sequence[float]], StopReason | None]:
    """Rule of an iteration that raises negative losses."""
    # Below this no loss can be told from zero.
    rounding = loss.resolution * float(tl.finfo(start.weights.dtype).eps) * 4

    def stop(values: Sequence[float]) -> StopReason | None:
        # Losses that are off by the error of a constant are not compared with zero, and their decrease is not held
        # against less than that error.
        last = -values[-1]
        if last <= rounding and not loss.error:
            return StopReason.EXACT
        if tol is not None and len(values) > 2 and -last - values[-3] <= 2 * tol * max(abs(last), loss.error):
            return StopReason.CONVERGED
        return StopReason.MAX_SWEEPS if len(values) > n_iter_max else None

    return stop
