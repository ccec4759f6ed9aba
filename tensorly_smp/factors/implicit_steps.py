"""Sweeps over all triples of samples in PyTorch and JAX, whose sums are passed along from block to block."""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any

from tensorly_smp.factors.arrays import Tensor
from tensorly_smp.factors.losses import Level
from tensorly_smp.factors.tensor_sums import Packing, Samples, Sums, improved_factor, improved_weights, inserted
from tensorly_smp.factors.updates import BlockSolver

#: Sweeps after which the sums over samples are computed anew, so that rounding does not pile up.
MOST_SWEEPS = 4


class ImplicitSteps:
    """Steps of the Frobenius loss over all triples, of one start alone.

    Which factors the sums are of is known by the identity of the arrays.

    Parameters
    ----------
    samples : Samples
    level : Level
    context : dict
    solver : BlockSolver
    """

    def __init__(self, samples: Samples, level: Level, context: dict[str, Any], solver: BlockSolver) -> None:
        self.samples = samples
        self.level = level
        self.context = context
        self.solver = solver
        self.memory: dict[int, Any] = {}
        self._factors: list[Tensor] = []
        self._sums: Sums | None = None
        self._n_sweeps = 0

    def begin(self, weights: Tensor, factors: list[Tensor]) -> tuple[float, Callable[[], Tensor]]:
        """Loss, and the improved weights."""
        self._n_sweeps += 1
        if self._n_sweeps >= MOST_SWEEPS:
            self._factors = []
        sums = self._sums_of(factors)
        value, moved, memory = improved_weights(
            self.solver, self.samples, self._packing, sums, weights[None, :], self.memory.get(-1)
        )

        def improved() -> Tensor:
            self.memory[-1] = memory
            return moved[0]

        return self.level.loss(value), improved

    def improve(self, n: int, factors: list[Tensor], weights: Tensor) -> Tensor:
        """Improved factor of variable n."""
        sums = self._sums_of(factors)
        self._sums = None  # an interrupt must not leave sums behind that are half of one factor, half of the other
        moved, self.memory[n], self._sums = improved_factor(
            self.solver, self.samples, self._packing, sums, n, factors[n], weights, self.memory.get(n)
        )
        self._factors[n] = moved
        return moved

    def _sums_of(self, factors: list[Tensor]) -> Sums:
        is_known = len(factors) == len(self._factors) and all(map(is_, factors, self._factors))
        if self._sums is not None and is_known:
            return self._sums
        rank = int(factors[0].shape[1])
        self._packing = Packing.of(rank, self.context)
        self._sums = None  # its memory is free before that of the new one is taken
        sums = Sums.empty(self.samples, rank)
        for n, factor in enumerate(factors):
            sums = inserted(self.samples, self._packing, sums, n, factor)
        self._sums, self._factors, self._n_sweeps = sums, list(factors), 0
        return sums
