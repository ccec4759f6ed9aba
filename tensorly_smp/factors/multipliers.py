"""Entries so small that a multiplicative step cannot bring them back, though the loss would be lower if they grew.

At a minimum of a block on the simplex the multipliers of the bounds x >= 0 are not negative: -gradient is at most
lambda, its mean over a line weighted by x. A multiplicative step multiplies an entry by -gradient / lambda, so that one
of 1e-20 that ought to grow takes a hundred steps in which the loss does not change. The loop would call that converged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorly as tl

from tensorly_smp.factors.arrays import Tensor, normalize
from tensorly_smp.factors.losses import Block, Loss

#: Entries below this are looked at: from there on steps get them back by themselves.
SMALL = 1e-5
#: Relative excess of -gradient over lambda from which a multiplier has the wrong sign; less is rounding.
EXCESS = 1e-2
#: What such entries are lifted to, the first that lowers the loss being taken.
LIFTS = (3e-2, 1e-3, 3e-5)

#: Weights and factors with all of these entries lifted to a number.
Lift = Callable[[float], tuple[Tensor, list[Tensor]]]


def stuck_entries(loss: Loss, weights: Tensor, factors: Sequence[Tensor]) -> Lift | None:
    """Find entries whose multipliers have the wrong sign, and return a function that lifts them, or None.

    Parameters
    ----------
    loss : Loss
    weights : tensor (rank,)
    factors : sequence of tensor (n_bins[n], rank)
    """
    arrays = list(factors)
    row = weights[None, :]
    masks = [_wrong_signs(loss.weight_block(arrays), row)]
    masks += [_wrong_signs(loss.factor_block(n, arrays, weights), a) for n, a in enumerate(arrays)]
    if not any(float(tl.max(mask)) for mask in masks):
        return None

    def lifted(height: float) -> tuple[Tensor, list[Tensor]]:
        moved = [_lifted(a, mask, height, 0) for a, mask in zip(arrays, masks[1:], strict=True)]
        return _lifted(row, masks[0], height, 1)[0], moved

    return lifted


def _wrong_signs(block: Block, x: Tensor) -> Tensor:
    """One where an entry is small and its multiplier has the wrong sign, else zero."""
    slope = -block.gradient(x)
    mean = tl.sum(x * slope, axis=block.axis, keepdims=True)
    one = 0.0 * x + 1.0
    is_small = tl.where(x < SMALL, one, 0.0 * one)
    return tl.where(slope > (1.0 + EXCESS) * mean, is_small, 0.0 * one)


def _lifted(x: Tensor, mask: Tensor, height: float, axis: int) -> Tensor:
    return normalize(x + height * mask, axis)
