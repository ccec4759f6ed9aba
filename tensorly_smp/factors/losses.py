"""The two losses, seen block by block.

A *block* is a convex problem in one matrix ``x`` whose lines along ``axis`` lie on the simplex: the factor of one
variable (n_bins, rank) with axis 0, or the weights as (1, rank) with axis 1. Every block tells its value (up to what
does not depend on x) and its gradient; solvers in ``updates`` know nothing else.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import tensorly as tl

from tensorly_smp.factors.arrays import Tensor, divide, take, tiny
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
    product = take(stacked, unfolding.rows_a)
    product *= take(stacked, unfolding.rows_b)
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
        return (divide(self.unfolding.values, self.model(x)) @ self.khatri_rao) * -self.weights


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
        return -tl.sum(self.factors[unfolding.variable] * (divide(unfolding.values, model) @ khatri_rao), axis=0)


def _model(columns: Tensor, khatri_rao: Tensor) -> Tensor:
    """Model of every column of an unfolding, nowhere zero."""
    model = columns @ khatri_rao.T
    model += tiny(columns)
    return model


def _log_product(unfolding: Unfolding, model: Tensor) -> Tensor:
    """Sum U log(model); in NumPy over the cells in which samples fell: logarithms cost more than the matrix product."""
    if tl.get_backend() == "numpy":
        cells, values = unfolding.filled
        return tl.dot(values, tl.log(take(tl.reshape(model, (-1,)), cells)))
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
        sums = 2.0 * tl.sum(self.gram, axis=0) + tiny(self.gram)
        return sums if self.axis == 0 else tl.max(sums)


@dataclass(frozen=True)
class LossOffset:
    """Constant that turns the value of a block into the loss.

    Attributes
    ----------
    constant : float
        What no factor changes.
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

    def loss(self, value: Any) -> float:
        """The loss, given the value of a block as a scalar tensor, which comes to the host."""
        return max(self.constant + float(value), self.least)


class Loss(ABC):
    """A loss over all triples, as blocks."""

    name: str

    @property
    @abstractmethod
    def offset(self) -> LossOffset:
        """Constant that turns the value of a block into the loss."""

    @abstractmethod
    def factor_block(self, n: int, factors: list[Tensor], weights: Tensor) -> Block:
        """The loss in the factor of variable n."""

    @abstractmethod
    def weight_block(self, factors: list[Tensor]) -> Block:
        """The loss in the weights."""

    def total(self, block: Block, weights: Tensor) -> float:
        """The loss, given the weight block of the current factors and the weights (1, rank)."""
        return self.offset.loss(block.value(weights))


class ExplicitLoss(Loss):
    """A loss over counted histograms, its blocks made of unfoldings."""

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

    @property
    def offset(self) -> LossOffset:
        """Constant that turns the value of a block into the loss."""
        entropy = self.tensors.negative_entropy
        return LossOffset(entropy, resolution=float(self.tensors.omega.sum()) + abs(entropy))

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

    @property
    def offset(self) -> LossOffset:
        """Constant that turns the value of a block into the loss."""
        return LossOffset(self.tensors.squared_norm, resolution=self.tensors.squared_norm, least=0.0)

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
    pairs = take(grams, unfolding.pairs_a) * take(grams, unfolding.pairs_b)
    return tl.tensordot(unfolding.omega, pairs, 1)


LOSSES: dict[str, type[ExplicitLoss]] = {"kl": KLLoss, "frobenius": FrobeniusLoss}
