"""Block solvers by name: each lowers the value of one block and stays on the simplex; line searches are here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import tensorly as tl

from tensorly_smp.factors.arrays import Tensor, floor, normalize, project_simplex, resolution, tiny
from tensorly_smp.factors.compilation import choose, if_needed, repeat, while_loop
from tensorly_smp.factors.losses import Block

ARMIJO_SHARE = 1e-4
MOST_HALVINGS = 40
#: Values closer than so many units in the last place, relatively, are equal but for rounding.
ROUNDING = 8.0
#: In default steps, which change no entry by more than a factor; where no step hurts, doubling would end in infinity.
LONGEST_STEP = 1e25


class BlockSolver(Protocol):
    """Lowers a block; hashable, and equal to another one that does the same, for it is compiled on JAX."""

    @property
    def can_be_stuck(self) -> bool:
        """True if entries that have become very small hardly come back."""

    def __call__(self, block: Block, x: Tensor, memory: Any = None) -> tuple[Tensor, Any]:
        """Improved x, on the simplex, and what to remember until the next call for the same block (None at first)."""


@dataclass(frozen=True)
class Multiplicative:
    """x <- normalize(x * -gradient): the EM step of the KL loss, monotone and without a step size."""

    n_inner: int = 2
    can_be_stuck: ClassVar[bool] = True

    def __call__(self, block: Block, x: Tensor, memory: Any = None) -> tuple[Tensor, None]:
        """Improved x; there is nothing to remember."""
        for _ in range(self.n_inner):
            x = normalize(x * -block.gradient(x), block.axis)
        return tl.clip(x, floor(x)), None


class _Point(NamedTuple):
    """State of mirror descent: x, its value, the last accepted step size, steps so far, whether the last moved x."""

    x: Tensor
    value: Tensor
    step: Tensor
    n_steps: Tensor
    has_moved: Tensor


class _Trial(NamedTuple):
    """A step that is tried: where it leads, the value there, whether that is low enough, and which try it is."""

    step: Tensor
    x: Tensor
    value: Tensor
    is_accepted: Tensor
    n_tried: Tensor


@dataclass(frozen=True)
class MirrorDescent:
    """The paper's block solver: exponentiated gradient with Armijo steps (Kargas & Sidiropoulos 2019, Algorithm 1).

    x <- normalize(x * exp(-step * gradient)). The step starts at twice the last accepted one of the same block and is
    halved until the value falls by ``ARMIJO_SHARE`` of what the gradient promises. Where no step does, the block is
    left as it was, and the step forgotten (zero).

    Values that differ by no more than their rounding say nothing. Then a step is accepted if the block still falls
    along it at its end: blocks are convex, so that f(moved) <= f(x) + <gradient(moved), moved - x>.
    """

    n_inner: int = 5
    can_be_stuck: ClassVar[bool] = False  # it stays the paper's algorithm

    def __call__(self, block: Block, x: Tensor, memory: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Improved x, and the last accepted step."""
        value = block.value(x)
        # One step for the weights: several, while the factors are far off, can drive a component's weight to nothing,
        # from where multiplicative steps do not come back.
        n_steps = self.n_inner if block.axis == 0 else 1
        start = _Point(x, value, 0.0 * value if memory is None else memory, 0.0 * value, value == value)
        end = while_loop(
            lambda point: point.has_moved & (point.n_steps < n_steps), lambda point: self._step(block, point), start
        )
        return end.x, end.step

    def _step(self, block: Block, point: _Point) -> _Point:
        gradient = block.gradient(point.x)
        # On the simplex a constant added to a line of the gradient changes nothing; the smallest entry at zero keeps
        # the exponential from overflowing.
        slope = gradient - _line_minimum(gradient, block.axis)

        def trial(step: Tensor, n_tried: Tensor) -> _Trial:
            moved = tl.clip(normalize(point.x * tl.exp(-step * slope), block.axis), floor(point.x))
            value = block.value(moved)
            predicted = tl.sum(gradient * (moved - point.x))
            is_lower = value <= point.value + ARMIJO_SHARE * predicted
            is_level = ~is_lower & (abs(value - point.value) <= rounding * abs(point.value))
            falls = if_needed(is_level, lambda: _falls(block, point.x, moved), is_level)
            return _Trial(step, moved, value, is_lower | falls, n_tried)

        rounding = ROUNDING * resolution(point.x)
        default = 0.5 / (tl.max(slope) + tiny(slope))
        longer = 2.0 * choose(point.step > 0, point.step, default)
        longest = LONGEST_STEP * choose(default < 1e5, default, 1e5 + 0.0 * default)
        first = trial(choose(longer < longest, longer, longest), 0.0 * point.value + 1.0)
        last = while_loop(
            lambda tried: ~tried.is_accepted & (tried.n_tried < MOST_HALVINGS),
            lambda tried: trial(tried.step / 2.0, tried.n_tried + 1.0),
            first,
        )
        has_moved = last.is_accepted & (tl.max(tl.abs(last.x - point.x)) > 0)
        return _Point(
            x=choose(has_moved, last.x, point.x),
            value=choose(has_moved, last.value, point.value),
            step=choose(last.is_accepted, last.step, 0.0 * last.step),
            n_steps=point.n_steps + 1.0,
            has_moved=has_moved,
        )


def _falls(block: Block, start: Tensor, end: Tensor) -> Tensor:
    """Tell whether the value of a block still falls at the end of a step."""
    gradient = block.gradient(end)
    # Lines of a step add up to nothing, but for rounding; so may a constant be taken from the gradient.
    level = tl.sum(gradient * end, axis=block.axis, keepdims=True)
    return tl.sum((gradient - level) * (end - start)) <= 0


def _line_minimum(x: Tensor, axis: int) -> Tensor:
    smallest = -tl.max(-x, axis)
    return smallest[None, :] if axis == 0 else smallest[:, None]


class _Momentum(NamedTuple):
    """Two iterates of the accelerated gradient, and how far it looks ahead of them."""

    current: Tensor
    ahead: Tensor
    momentum: Any


@dataclass(frozen=True)
class ProjectedGradient:
    """Accelerated projected gradient (FISTA) for the Frobenius loss, with one step size per column.

    Momentum may overshoot: where the value ends above that of the start, one plain step is taken instead, which
    cannot.
    """

    n_inner: int = 8
    can_be_stuck: ClassVar[bool] = False

    def __call__(self, block: Any, x: Tensor, memory: Any = None) -> tuple[Tensor, None]:
        """Improved x, of a QuadraticBlock; there is nothing to remember."""
        curvature = block.curvature  # known before the loop, for it is kept in the block

        def step(y: Tensor) -> Tensor:
            return project_simplex(y - block.gradient(y) / curvature, block.axis)

        def accelerate(last: _Momentum) -> _Momentum:
            current = step(last.ahead)
            momentum = (1.0 + (1.0 + 4.0 * last.momentum * last.momentum) ** 0.5) / 2.0
            ahead = current + ((last.momentum - 1.0) / momentum) * (current - last.current)
            return _Momentum(current, ahead, momentum)

        first = step(x)
        last = repeat(self.n_inner - 1, accelerate, _Momentum(first, first, 1.0)).current
        return tl.where(block.value(last) <= block.value(first), last, first), None


#: Block solvers per loss; the first is the default.
BLOCK_SOLVERS: dict[str, dict[str, type]] = {
    "kl": {"multiplicative": Multiplicative, "mirror": MirrorDescent},
    "frobenius": {"projected-gradient": ProjectedGradient, "mirror": MirrorDescent},
}
