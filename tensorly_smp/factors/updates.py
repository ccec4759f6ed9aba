"""Block solvers by name: each lowers the value of one block and stays on the simplex."""

from __future__ import annotations

from typing import Protocol

import tensorly as tl

from tensorly_smp.factors.arrays import Tensor, floor, normalize, project_simplex
from tensorly_smp.factors.losses import Block, QuadraticBlock

ARMIJO_SHARE = 1e-4
MOST_HALVINGS = 40


class BlockSolver(Protocol):
    """Lowers a block; ``key`` names the block, for solvers that remember a step size."""

    def __call__(self, block: Block, x: Tensor, key: int) -> Tensor:
        """Improved x, on the simplex."""


class Multiplicative:
    """x <- normalize(x * -gradient): the EM step of the KL loss, monotone and without a step size."""

    def __init__(self, n_inner: int = 2) -> None:
        self.n_inner = n_inner

    def __call__(self, block: Block, x: Tensor, key: int) -> Tensor:
        """Improved x."""
        for _ in range(self.n_inner):
            x = normalize(x * -block.gradient(x), block.axis)
        return tl.clip(x, floor(x))


class MirrorDescent:
    """The paper's block solver: exponentiated gradient with Armijo steps (Kargas & Sidiropoulos 2019, Algorithm 1).

    x <- normalize(x * exp(-step * gradient)). The step starts at twice the last accepted one of the same block and is
    halved until the value falls by ``ARMIJO_SHARE`` of what the gradient promises. Where no step does, the block is
    left as it was.
    """

    def __init__(self, n_inner: int = 5) -> None:
        self.n_inner = n_inner
        self.steps: dict[int, float] = {}

    def __call__(self, block: Block, x: Tensor, key: int) -> Tensor:
        """Improved x."""
        value = float(block.value(x))
        # One step for the weights: several, while the factors are far off, can drive a component's weight to nothing,
        # from where multiplicative steps do not come back.
        for _ in range(self.n_inner if block.axis == 0 else 1):
            moved, value_moved = self._step(block, x, value, key)
            if value_moved >= value:
                break
            x, value = moved, value_moved
        return x

    def _step(self, block: Block, x: Tensor, value: float, key: int) -> tuple[Tensor, float]:
        gradient = block.gradient(x)
        # On the simplex a constant added to a line of the gradient changes nothing; the smallest entry at zero keeps
        # the exponential from overflowing.
        slope = gradient - _line_minimum(gradient, block.axis)
        step = 2.0 * self.steps.get(key, 0.5 / max(float(tl.max(tl.abs(slope))), 1e-300))
        for _ in range(MOST_HALVINGS):
            moved = tl.clip(normalize(x * tl.exp(-step * slope), block.axis), floor(x))
            promised = float(tl.sum(gradient * (moved - x)))
            value_moved = float(block.value(moved))
            if value_moved <= value + ARMIJO_SHARE * promised:
                self.steps[key] = step
                return moved, value_moved
            step /= 2.0
        self.steps.pop(key, None)
        return x, value


def _line_minimum(x: Tensor, axis: int) -> Tensor:
    smallest = -tl.max(-x, axis)
    return smallest[None, :] if axis == 0 else smallest[:, None]


class ProjectedGradient:
    """Accelerated projected gradient (FISTA) for the Frobenius loss, with one step size per column.

    Momentum may overshoot: where the value ends above that of the start, one plain step is taken instead, which
    cannot.
    """

    def __init__(self, n_inner: int = 8) -> None:
        self.n_inner = n_inner

    def __call__(self, block: QuadraticBlock, x: Tensor, key: int) -> Tensor:
        """Improved x."""

        def step(y: Tensor) -> Tensor:
            return project_simplex(y - block.gradient(y) / block.curvature, block.axis)

        first = current = step(x)
        momentum = 1.0
        ahead = first
        for _ in range(self.n_inner - 1):
            momentum_next = (1.0 + (1.0 + 4.0 * momentum * momentum) ** 0.5) / 2.0
            previous, current = current, step(ahead)
            ahead = current + ((momentum - 1.0) / momentum_next) * (current - previous)
            momentum = momentum_next
        return tl.where(block.value(current) <= block.value(first), current, first)


#: Block solvers per loss; the first is the default.
BLOCK_SOLVERS: dict[str, dict[str, type]] = {
    "kl": {"multiplicative": Multiplicative, "mirror": MirrorDescent},
    "frobenius": {"projected-gradient": ProjectedGradient, "mirror": MirrorDescent},
}
