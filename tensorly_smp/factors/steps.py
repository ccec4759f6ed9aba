"""Parts of a sweep: the loss with the improved weights, and the improved factor of one variable.

How a block is improved, step size and line search included, is for the solvers in :mod:`tensorly_smp.factors.updates`.

Blocks are solved as they are, or, on JAX, in compiled functions: one for the weights and one for the factors, which all
variables share whose unfoldings have the same shape. A whole sweep as one function, for ten variables of 15 bins, takes
3 to 35 percent less time once it is compiled, which itself takes 20 to 45 percent longer: no fit of fewer than some
four hundred sweeps would earn that back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from tensorly_smp.factors.arrays import Tensor
from tensorly_smp.factors.compilation import compiled
from tensorly_smp.factors.coupled import Unfolding
from tensorly_smp.factors.losses import ExplicitLoss, Loss
from tensorly_smp.factors.multipliers import Lift, stuck_entries
from tensorly_smp.factors.updates import BlockSolver

AnyLoss = TypeVar("AnyLoss", bound=Loss)


class Steps(ABC, Generic[AnyLoss]):
    """A solver at work on the blocks of a loss; of one start alone, for it keeps what the solver remembers of each."""

    def __init__(self, loss: AnyLoss, solver: BlockSolver) -> None:
        self.loss = loss
        self.offset = loss.offset
        self.solver = solver
        self.memory: dict[int, Any] = {}

    @abstractmethod
    def begin(self, weights: Tensor, factors: list[Tensor]) -> tuple[float, Callable[[], Tensor]]:
        """Loss of an iterate, and a function that gives its improved weights: both need the same pass over the data."""

    @abstractmethod
    def improve(self, n: int, factors: list[Tensor], weights: Tensor) -> Tensor:
        """Improved factor of variable n."""

    def stuck(self, weights: Tensor, factors: list[Tensor]) -> Lift | None:
        """Function that lifts entries which the solver cannot bring back though it should; None without any."""
        return stuck_entries(self.loss, weights, factors) if self.solver.can_be_stuck else None


class BlockSteps(Steps[Loss]):
    """A solver at work on the blocks of a loss."""

    def begin(self, weights: Tensor, factors: list[Tensor]) -> tuple[float, Callable[[], Tensor]]:
        """Loss, and how to improve the weights."""
        block = self.loss.weight_block(factors)
        row = weights[None, :]
        loss = self.loss.total(block, row)

        def improved() -> Tensor:
            moved, self.memory[-1] = self.solver(block, row, self.memory.get(-1))
            return moved[0]

        return loss, improved

    def improve(self, n: int, factors: list[Tensor], weights: Tensor) -> Tensor:
        """Improved factor of variable n."""
        block = self.loss.factor_block(n, factors, weights)
        moved, self.memory[n] = self.solver(block, factors[n], self.memory.get(n))
        return moved


class CompiledSteps(Steps[ExplicitLoss]):
    """A solver at work on the blocks of unfoldings, compiled on JAX.

    The weights are improved along with the loss, in one compiled function, which is wasted where an extrapolation is
    taken back.
    """

    def begin(self, weights: Tensor, factors: list[Tensor]) -> tuple[float, Callable[[], Tensor]]:
        """Loss, and the improved weights."""
        cover = self.loss.tensors.cover
        variables = tuple(u.variable for u in cover)
        arrays = tuple(u.arrays for u in cover)
        value, moved, memory = _improved_weights(
            type(self.loss), self.solver, variables, arrays, tuple(factors), weights, self.memory.get(-1)
        )

        def improved() -> Tensor:
            self.memory[-1] = memory
            return moved

        return self.offset.loss(value), improved

    def improve(self, n: int, factors: list[Tensor], weights: Tensor) -> Tensor:
        """Improved factor of variable n."""
        arrays = self.loss.tensors.blocks[n].arrays
        moved, self.memory[n] = _improved_factor(
            type(self.loss), self.solver, arrays, tuple(factors), factors[n], weights, self.memory.get(n)
        )
        return moved


@compiled(static=(0, 1, 2))
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
    return value, moved[0], memory


@compiled(static=(0, 1))
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
