"""The two losses, seen block by block, and the solvers of a block.

A *block* is a convex problem in one matrix ``x`` whose lines along ``axis`` lie on the simplex: the factor of one
variable (n_bins, rank) with axis 0, or the weights as (1, rank) with axis 1. Every block tells its value (up to what
does not depend on x) and its gradient; solvers know nothing else. They lower the value of one block and stay on the
simplex.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol

import tensorly as tl

from tensorly_smp.factors import backend
from tensorly_smp.factors.backend import Tensor
from tensorly_smp.factors.coupled import CoupledTensors, Unfolding


class Block(Protocol):
    """A convex problem in one block of parameters, the others fixed."""

    axis: int

    def value(self, x: Tensor) -> Tensor:
        """Loss up to a constant, a scalar tensor."""

    def gradient(self, x: Tensor) -> Tensor:
        """Gradient of the value, of the shape of x."""


def khatri_rao(unfolding: Unfolding, stacked: Tensor) -> Tensor:
    """Rows of the unweighted Khatri-Rao product that belong to the columns of an unfolding, (n_columns, rank)."""
    product = backend.take(stacked, unfolding.rows_a)
    product *= backend.take(stacked, unfolding.rows_b)
    return product


@dataclass
class KLFactorBlock:
    """-sum U log(A diag(w) Q') in A; the model's own sum is constant on the simplex."""

    unfolding: Unfolding
    khatri_rao: Tensor
    weights: Tensor
    axis: int = 0

    def model(self, x: Tensor) -> Tensor:
        """Model of every column, (n_bins, n_columns)."""
        return _model(x * self.weights, self.khatri_rao)

    def value(self, x: Tensor) -> Tensor:
        """Loss up to a constant."""
        return -_log_product(self.unfolding, self.model(x))

    def gradient(self, x: Tensor) -> Tensor:
        """Gradient of the value."""
        return (backend.divide(self.unfolding.values, self.model(x)) @ self.khatri_rao) * -self.weights


@dataclass
class KLWeightBlock:
    """-sum over triples of omega X log(model) in the weights, from every triple once."""

    cover: tuple[Unfolding, ...]
    factors: Sequence[Tensor]
    khatri_raos: list[Tensor]
    axis: int = 1
    _last: tuple[Tensor, Tensor] | None = None

    def value(self, x: Tensor) -> Tensor:
        """Loss up to a constant."""
        # The gradient at the same point is nearly always wanted next, and each model is in the cache now.
        total = 0.0
        gradient = 0.0
        for u, q, model in self._models(x):
            total = total - _log_product(u, model)
            gradient = gradient + self._gradient(u, q, model)
        self._last = (x, gradient)
        return total

    def gradient(self, x: Tensor) -> Tensor:
        """Gradient of the value; it is known at the x of the last value (the same object)."""
        if self._last is not None and self._last[0] is x:
            return tl.reshape(self._last[1], (1, -1))
        return tl.reshape(sum(self._gradient(*part) for part in self._models(x)), (1, -1))

    def _models(self, x: Tensor) -> Iterator[tuple[Unfolding, Tensor, Tensor]]:
        """Part by part of the cover, its Khatri-Rao product and the model of every column."""
        for u, q in zip(self.cover, self.khatri_raos, strict=True):
            yield u, q, _model(self.factors[u.variable] * x, q)

    def _gradient(self, unfolding: Unfolding, khatri_rao: Tensor, model: Tensor) -> Tensor:
        """Gradient (rank,) of one part; the model is used up."""
        return -tl.sum(
            self.factors[unfolding.variable] * (backend.divide(unfolding.values, model) @ khatri_rao), axis=0
        )


def _model(columns: Tensor, khatri_rao: Tensor) -> Tensor:
    """Model of every column of an unfolding, nowhere zero."""
    model = columns @ khatri_rao.T
    model += backend.tiny(columns)
    return model


def _log_product(unfolding: Unfolding, model: Tensor) -> Tensor:
    """Sum U log(model); in NumPy over the cells in which samples fell: logarithms cost more than the matrix product."""
    if tl.get_backend() == "numpy":
        cells, values = unfolding.filled
        return tl.dot(values, tl.log(backend.take(tl.reshape(model, (-1,)), cells)))
    # Row by row first: a single long sum would lose digits in single precision.
    return tl.sum(tl.sum(unfolding.values * tl.log(model), axis=1))


@dataclass
class QuadraticBlock:
    """trace(x gram x') - 2 <x, linear>: the Frobenius loss in a factor or in the weights."""

    linear: Tensor
    gram: Tensor
    axis: int = 0

    def value(self, x: Tensor) -> Tensor:
        """Loss up to a constant."""
        return tl.sum(x * (x @ self.gram - 2.0 * self.linear))

    def gradient(self, x: Tensor) -> Tensor:
        """Gradient of the value."""
        return 2.0 * (x @ self.gram - self.linear)

    @cached_property
    def curvature(self) -> Tensor:
        """Bound of the gradient's growth, one per line on the simplex.

        gram is non-negative, so the diagonal matrix of its row sums minus gram is diagonally dominant, hence positive
        semidefinite. A line along axis 1 mixes all columns and needs their largest.
        """
        sums = 2.0 * tl.sum(self.gram, axis=0) + backend.tiny(self.gram)
        return sums if self.axis == 0 else tl.max(sums)


ARMIJO_SHARE = 1e-4
MOST_HALVINGS = 40
#: Values closer than so many units in the last place, relatively, are equal but for rounding.
ROUNDING = 8.0
#: In default steps, which change no entry by more than a factor; where no step hurts, doubling would end in infinity.
LONGEST_STEP = 1e25


class BlockSolver(Protocol):
    """Lowers a block; hashable, and equal to another one that does the same, for it is compiled on JAX."""

    name: ClassVar[str]
    #: Entries that have become very small hardly come back.
    can_be_stuck: ClassVar[bool]
    #: Sweeps may be extrapolated.
    is_extrapolated: ClassVar[bool]

    def __call__(self, block: Block, x: Tensor, memory: Any = None) -> tuple[Tensor, Any]:
        """Improved x, on the simplex, and what to remember until the next call for the same block (None at first)."""


@dataclass(frozen=True)
class Multiplicative:
    """x <- normalize(x * -gradient): the EM step of the KL loss, monotone and without a step size."""

    n_inner: int = 2
    name: ClassVar[str] = "multiplicative"
    can_be_stuck: ClassVar[bool] = True
    is_extrapolated: ClassVar[bool] = True

    def __call__(self, block: Block, x: Tensor, memory: Any = None) -> tuple[Tensor, None]:
        """Improved x; there is nothing to remember."""
        for _ in range(self.n_inner):
            x = backend.normalize(x * -block.gradient(x), block.axis)
        return tl.clip(x, backend.floor(x)), None


class _Point(NamedTuple):
    """A state of mirror descent, or a step that is tried.

    x, its value, the step size that led there, the number of steps or of tries so far, and whether the last moved x, or
    is low enough.
    """

    x: Tensor
    value: Tensor
    step: Tensor
    n_steps: Tensor
    has_moved: Tensor


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
    name: ClassVar[str] = "mirror"
    # It stays the paper's algorithm.
    can_be_stuck: ClassVar[bool] = False
    is_extrapolated: ClassVar[bool] = False

    def __call__(self, block: Block, x: Tensor, memory: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Improved x, and the last accepted step."""
        value = block.value(x)
        # One step for the weights: several, while the factors are far off, can drive a component's weight to nothing,
        # from where multiplicative steps do not come back.
        n_steps = self.n_inner if block.axis == 0 else 1
        start = _Point(x, value, 0.0 * value if memory is None else memory, 0.0 * value, value == value)
        end = backend.while_loop(
            lambda point: point.has_moved & (point.n_steps < n_steps), lambda point: self._step(block, point), start
        )
        return end.x, end.step

    def _step(self, block: Block, point: _Point) -> _Point:
        gradient = block.gradient(point.x)
        # On the simplex a constant added to a line of the gradient changes nothing; the smallest entry at zero keeps
        # the exponential from overflowing.
        smallest = -tl.max(-gradient, block.axis)
        slope = gradient - (smallest[None, :] if block.axis == 0 else smallest[:, None])

        def trial(step: Tensor, n_tried: Tensor) -> _Point:
            moved = tl.clip(backend.normalize(point.x * tl.exp(-step * slope), block.axis), backend.floor(point.x))
            value = block.value(moved)
            predicted = tl.sum(gradient * (moved - point.x))
            is_lower = value <= point.value + ARMIJO_SHARE * predicted
            is_level = ~is_lower & (abs(value - point.value) <= rounding * abs(point.value))
            falls = backend.if_needed(is_level, lambda: _falls(block, point.x, moved), is_level)
            return _Point(moved, value, step, n_tried, is_lower | falls)

        rounding = ROUNDING * backend.resolution(point.x)
        default = 0.5 / (tl.max(slope) + backend.tiny(slope))
        longer = 2.0 * backend.choose(point.step > 0, point.step, default)
        longest = LONGEST_STEP * backend.choose(default < 1e5, default, 1e5 + 0.0 * default)
        first = trial(backend.choose(longer < longest, longer, longest), 0.0 * point.value + 1.0)
        last = backend.while_loop(
            lambda tried: ~tried.has_moved & (tried.n_steps < MOST_HALVINGS),
            lambda tried: trial(tried.step / 2.0, tried.n_steps + 1.0),
            first,
        )
        has_moved = last.has_moved & (tl.max(tl.abs(last.x - point.x)) > 0)
        return _Point(
            x=backend.choose(has_moved, last.x, point.x),
            value=backend.choose(has_moved, last.value, point.value),
            step=backend.choose(last.has_moved, last.step, 0.0 * last.step),
            n_steps=point.n_steps + 1.0,
            has_moved=has_moved,
        )


def _falls(block: Block, start: Tensor, end: Tensor) -> Tensor:
    """Tell whether the value of a block still falls at the end of a step."""
    gradient = block.gradient(end)
    # Lines of a step add up to nothing, but for rounding; so may a constant be taken from the gradient.
    level = tl.sum(gradient * end, axis=block.axis, keepdims=True)
    return tl.sum((gradient - level) * (end - start)) <= 0


@dataclass(frozen=True)
class ProjectedGradient:
    """Accelerated projected gradient (FISTA) for the Frobenius loss, with one step size per column.

    Momentum may overshoot: where the value ends above that of the start, one plain step is taken instead, which
    cannot.
    """

    n_inner: int = 8
    name: ClassVar[str] = "projected-gradient"
    can_be_stuck: ClassVar[bool] = False
    is_extrapolated: ClassVar[bool] = True

    def __call__(self, block: Any, x: Tensor, memory: Any = None) -> tuple[Tensor, None]:
        """Improved x, of a QuadraticBlock; there is nothing to remember."""
        curvature = block.curvature  # known before the loop, for it is kept in the block

        def step(y: Tensor) -> Tensor:
            return backend.project_simplex(y - block.gradient(y) / curvature, block.axis)

        def accelerate(iterates: tuple[Tensor, Tensor, Any]) -> tuple[Tensor, Tensor, Any]:
            """The next iterate, the point ahead of it from which the next step starts, and the momentum."""
            previous, ahead, last_momentum = iterates
            current = step(ahead)
            momentum = (1.0 + (1.0 + 4.0 * last_momentum * last_momentum) ** 0.5) / 2.0
            return current, current + ((last_momentum - 1.0) / momentum) * (current - previous), momentum

        first = step(x)
        last, _, _ = backend.repeat(self.n_inner - 1, accelerate, (first, first, 1.0))
        return tl.where(block.value(last) <= block.value(first), last, first), None


class Loss(ABC):
    """A loss over all triples, as blocks.

    Attributes
    ----------
    constant : float
        What no factor changes: it turns the value of a block into the loss.
    resolution : float
        Size of the terms whose difference the loss is: rounding times this is all that can be told apart.
    error : float
        Standard error of the constant: 0 unless it is estimated.
    least : float
        No loss is below this.
    """

    constant: float
    resolution: float
    error: float = 0.0
    least: float = -math.inf

    @abstractmethod
    def factor_block(self, n: int, factors: list[Tensor], weights: Tensor) -> Block:
        """The loss in the factor of variable n."""

    @abstractmethod
    def weight_block(self, factors: list[Tensor]) -> Block:
        """The loss in the weights."""

    def of_value(self, value: Any) -> float:
        """The loss, given the value of a block as a scalar tensor, which comes to the host."""
        return max(self.constant + float(value), self.least)


class ExplicitLoss(Loss):
    """A loss over counted histograms, its blocks made of unfoldings.

    Attributes
    ----------
    name, label : str
        The name that users give, and that of pictures.
    solvers : tuple of type
        Classes of its block solvers; the first is the default.
    in_logarithms : bool
        Sweeps are extrapolated in logarithms, for a loss whose optimum is positive; else in the entries themselves.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    solvers: ClassVar[tuple[Any, ...]]
    in_logarithms: ClassVar[bool]

    def __init__(self, tensors: CoupledTensors) -> None:
        self.tensors = tensors

    def factor_block(self, n: int, factors: list[Tensor], weights: Tensor) -> Block:
        """The loss in the factor of variable n."""
        return self.block_of_factor(self.tensors.blocks[n], factors, weights)

    def weight_block(self, factors: list[Tensor]) -> Block:
        """The loss in the weights."""
        return self.block_of_weights(self.tensors.cover, factors)

    @staticmethod
    @abstractmethod
    def block_of_factor(unfolding: Unfolding, factors: Sequence[Tensor], weights: Tensor) -> Block:
        """The loss in the factor of the variable of an unfolding of all triples that contain it."""

    @staticmethod
    @abstractmethod
    def block_of_weights(cover: tuple[Unfolding, ...], factors: Sequence[Tensor]) -> Block:
        """The loss in the weights, from unfoldings that hold every triple once."""


class KLLoss(ExplicitLoss):
    """sum over triples of omega KL(X || model)."""

    name = "kl"
    label = "KL loss"
    solvers = (Multiplicative, MirrorDescent)
    in_logarithms = True

    def __init__(self, tensors: CoupledTensors) -> None:
        super().__init__(tensors)
        self.constant = tensors.negative_entropy
        self.resolution = float(tensors.omega.sum()) + abs(self.constant)

    @staticmethod
    def block_of_factor(unfolding: Unfolding, factors: Sequence[Tensor], weights: Tensor) -> KLFactorBlock:
        """The loss in the factor of the variable of an unfolding of all triples that contain it."""
        return KLFactorBlock(unfolding, khatri_rao(unfolding, tl.concatenate(factors)), weights)

    @staticmethod
    def block_of_weights(cover: tuple[Unfolding, ...], factors: Sequence[Tensor]) -> KLWeightBlock:
        """The loss in the weights, from unfoldings that hold every triple once."""
        stacked = tl.concatenate(factors)
        return KLWeightBlock(cover, factors, [khatri_rao(u, stacked) for u in cover])


class FrobeniusLoss(ExplicitLoss):
    """sum over triples of omega ||X - model||^2, never below zero."""

    name = "frobenius"
    label = "Frobenius loss"
    solvers = (ProjectedGradient, MirrorDescent)
    in_logarithms = False

    def __init__(self, tensors: CoupledTensors) -> None:
        super().__init__(tensors)
        self.constant = tensors.squared_norm
        self.resolution = tensors.squared_norm
        self.least = 0.0

    @staticmethod
    def block_of_factor(unfolding: Unfolding, factors: Sequence[Tensor], weights: Tensor) -> QuadraticBlock:
        """The loss in the factor of the variable of an unfolding of all triples that contain it."""
        linear = (unfolding.values @ khatri_rao(unfolding, tl.concatenate(factors))) * weights
        gram = _pair_gram(unfolding, _grams(factors)) * weights * weights[:, None]
        return QuadraticBlock(linear, gram)

    @staticmethod
    def block_of_weights(cover: tuple[Unfolding, ...], factors: Sequence[Tensor]) -> QuadraticBlock:
        """The loss in the weights, from unfoldings that hold every triple once."""
        stacked = tl.concatenate(factors)
        grams = _grams(factors)
        linear = 0.0
        gram = 0.0
        for u in cover:
            a = factors[u.variable]
            linear = linear + tl.sum(a * (u.values @ khatri_rao(u, stacked)), axis=0)
            gram = gram + grams[u.variable] * _pair_gram(u, grams)
        return QuadraticBlock(tl.reshape(linear, (1, -1)), gram, axis=1)


def _grams(factors: Sequence[Tensor]) -> Tensor:
    return tl.stack([a.T @ a for a in factors])


def _pair_gram(unfolding: Unfolding, grams: Tensor) -> Tensor:
    """Sum over the pairs (j, k) of an unfolding of omega G_j * G_k, (rank, rank)."""
    pairs = backend.take(grams, unfolding.pairs_a) * backend.take(grams, unfolding.pairs_b)
    return tl.tensordot(unfolding.omega, pairs, 1)


#: Losses by name.
LOSSES: dict[str, type[ExplicitLoss]] = {loss.name: loss for loss in (KLLoss, FrobeniusLoss)}
