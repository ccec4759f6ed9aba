"""The two losses, seen block by block.

A *block* is a convex problem in one matrix ``x`` whose lines along ``axis`` lie on the simplex: the factor of one
variable (n_bins, rank) with axis 0, or the weights as (1, rank) with axis 1. Every block tells its value (up to what
does not depend on x) and its gradient; solvers in ``updates`` know nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
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
        """Its gradient, of the shape of x."""


def khatri_rao(unfolding: Unfolding, stacked: Tensor) -> Tensor:
    """Rows of the unweighted Khatri-Rao product that belong to the columns of an unfolding, (n_columns, rank)."""
    product = take(stacked, unfolding.rows_a)
    product *= take(stacked, unfolding.rows_b)
    return product


@dataclass
class KLFactorBlock:
    """-sum U log(A Q') in A; the model's own sum is constant on the simplex."""

    unfolding: Unfolding
    khatri_rao: Tensor
    axis: int = 0

    def model(self, x: Tensor) -> Tensor:
        """Model of every column, (n_bins, n_columns)."""
        model = x @ self.khatri_rao.T
        model += tiny(x)
        return model

    def value(self, x: Tensor) -> Tensor:
        """Loss up to a constant."""
        return -_log_product(self.unfolding, self.model(x))

    def gradient(self, x: Tensor) -> Tensor:
        """Gradient of the value."""
        return -(divide(self.unfolding.values, self.model(x)) @ self.khatri_rao)


@dataclass
class KLWeightBlock:
    """-sum over triples of omega X log(model) in the weights, from every triple once."""

    cover: tuple[Unfolding, ...]
    factors: list[Tensor]
    khatri_raos: list[Tensor]
    axis: int = 1
    _last: tuple[Tensor, list[Tensor]] | None = None

    def models(self, x: Tensor) -> list[Tensor]:
        """Model of every column, one matrix per part of the cover."""
        models = []
        for u, q in zip(self.cover, self.khatri_raos, strict=True):
            model = (self.factors[u.variable] * x) @ q.T
            model += tiny(x)
            models.append(model)
        return models

    def value(self, x: Tensor) -> Tensor:
        """Loss up to a constant."""
        models = self.models(x)
        self._last = (x, models)
        return -sum(_log_product(u, y) for u, y in zip(self.cover, models, strict=True))

    def gradient(self, x: Tensor) -> Tensor:
        """Gradient of the value; at the x of the last value (the same object) its models are used up."""
        models = self._last[1] if self._last is not None and self._last[0] is x else self.models(x)
        self._last = None
        total = 0.0
        for u, q, y in zip(self.cover, self.khatri_raos, models, strict=True):
            total = total - tl.sum(self.factors[u.variable] * (divide(u.values, y) @ q), axis=0)
        return tl.reshape(total, (1, -1))


def _log_product(unfolding: Unfolding, model: Tensor) -> Tensor:
    """Sum U log(model) over the cells in which samples fell: a logarithm costs more than the matrix product."""
    cells, values = unfolding.filled
    return tl.dot(values, tl.log(take(tl.reshape(model, (-1,)), cells)))


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


class Loss(Protocol):
    """A loss over all triples, as blocks."""

    name: str

    def factor_block(self, n: int, factors: list[Tensor], weights: Tensor) -> Block:
        """The loss in the factor of variable n."""

    def weight_block(self, factors: list[Tensor]) -> Block:
        """The loss in the weights."""

    def total(self, block: Any, weights: Tensor) -> float:
        """The loss, given the weight block of the current factors and the weights (1, rank)."""

    @property
    def resolution(self) -> float:
        """Size of the terms whose difference the loss is."""

    @property
    def level_error(self) -> float:
        """Standard error of what all losses have in common: 0 unless the constant part is estimated."""


class KLLoss:
    """sum over triples of omega KL(X || model)."""

    name = "kl"
    level_error = 0.0

    def __init__(self, tensors: CoupledTensors) -> None:
        self.tensors = tensors

    def factor_block(self, n: int, factors: list[Tensor], weights: Tensor) -> KLFactorBlock:
        """The loss in the factor of variable n."""
        unfolding = self.tensors.blocks[n]
        return KLFactorBlock(unfolding, khatri_rao(unfolding, tl.concatenate(factors)) * weights)

    def weight_block(self, factors: list[Tensor]) -> KLWeightBlock:
        """The loss in the weights."""
        stacked = tl.concatenate(factors)
        return KLWeightBlock(self.tensors.cover, factors, [khatri_rao(u, stacked) for u in self.tensors.cover])

    def total(self, block: KLWeightBlock, weights: Tensor) -> float:
        """The loss, given the weight block of the current factors and the weights (1, rank)."""
        return self.tensors.self_information + float(block.value(weights))

    @property
    def resolution(self) -> float:
        """Size of the terms whose difference the loss is: rounding times this is all that can be told apart."""
        return self.tensors.omega_total + abs(self.tensors.self_information)


class FrobeniusLoss:
    """sum over triples of omega ||X - model||^2."""

    name = "frobenius"
    level_error = 0.0

    def __init__(self, tensors: CoupledTensors) -> None:
        self.tensors = tensors

    def factor_block(self, n: int, factors: list[Tensor], weights: Tensor) -> QuadraticBlock:
        """The loss in the factor of variable n."""
        unfolding = self.tensors.blocks[n]
        linear = (unfolding.values @ khatri_rao(unfolding, tl.concatenate(factors))) * weights
        gram = _pair_gram(unfolding, _grams(factors)) * weights * weights[:, None]
        return QuadraticBlock(linear, gram)

    def weight_block(self, factors: list[Tensor]) -> QuadraticBlock:
        """The loss in the weights."""
        stacked, grams = tl.concatenate(factors), _grams(factors)
        linear, gram = 0.0, 0.0
        for u in self.tensors.cover:
            a = factors[u.variable]
            linear = linear + tl.sum(a * (u.values @ khatri_rao(u, stacked)), axis=0)
            gram = gram + grams[u.variable] * _pair_gram(u, grams)
        return QuadraticBlock(tl.reshape(linear, (1, -1)), gram, axis=1)

    def total(self, block: QuadraticBlock, weights: Tensor) -> float:
        """The loss, given the weight block of the current factors and the weights (1, rank); never below zero."""
        return max(self.tensors.energy + float(block.value(weights)), 0.0)

    @property
    def resolution(self) -> float:
        """Size of the terms whose difference the loss is: rounding times this is all that can be told apart."""
        return self.tensors.energy


def _grams(factors: list[Tensor]) -> Tensor:
    return tl.stack([a.T @ a for a in factors])


def _pair_gram(unfolding: Unfolding, grams: Tensor) -> Tensor:
    """Sum over the pairs (j, k) of an unfolding of omega G_j * G_k, (rank, rank)."""
    pairs = take(grams, unfolding.pairs_a) * take(grams, unfolding.pairs_b)
    return tl.tensordot(unfolding.omega, pairs, 1)


LOSSES: dict[str, Callable[[CoupledTensors], Loss]] = {"kl": KLLoss, "frobenius": FrobeniusLoss}
