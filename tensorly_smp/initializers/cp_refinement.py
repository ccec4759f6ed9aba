"""Least-squares refinement of a small CPD by damped Gauss-Newton steps.

The normal equations of a CPD are products with R x R Gram matrices, so the step is found by conjugate gradients without
ever forming them: at rank 30 and 30 x 30 x 30 entries a step costs milliseconds, where factorizing the 2700 x 2700
matrix costs most of a second. The block diagonal is the preconditioner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

Factors: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]

_N_CONJUGATE_GRADIENTS = 20
# the other two modes
_NEXT = [1, 2, 0]
_LAST = [2, 0, 1]


def refine_cp(slices: np.ndarray, factors: Factors, n_steps_max: int, tol: float = 1e-8) -> tuple[Factors, float, int]:
    """Lower || S_kij - sum_r c_kr p_ir q_jr ||^2 from a given start (Levenberg-Marquardt).

    Parameters
    ----------
    slices : ndarray (n_slices, n_rows, n_columns)
    factors : tuple of ndarray
        P (n_rows, rank), Q (n_columns, rank), C (n_slices, rank).
    n_steps_max : int
        Accepted steps.
    tol : float
        Stop when the loss falls by less than this share. Steps are found the less exactly the larger it is.

    Returns
    -------
    factors : tuple of ndarray
        The three columns of a component have equal 2-norms. Never a higher loss than at the start.
    residual : float
        2-norm of the difference relative to that of the slices.
    n_steps : int
    """
    total = float((slices**2).sum()) or 1.0
    floor = (10 * np.finfo(float).eps) ** 2 * total
    current = _balanced(factors)
    difference = _reconstruct(current) - slices
    loss = float((difference**2).sum())
    damping = 1e-3
    n_steps = 0
    while n_steps < n_steps_max and loss > floor:
        gradient = _gradient(difference, current)
        stacked = _stacked(current)
        grams = stacked.transpose(0, 2, 1) @ stacked
        scale = float(np.diagonal(_others(grams), axis1=1, axis2=2).max())
        while damping < 1e8:
            step = _solve(stacked, grams, _stacked(gradient), damping * scale, np.sqrt(tol))
            left, right, third = (factor - move[: len(factor)] for factor, move in zip(current, step, strict=True))
            trial = _balanced((left, right, third))
            trial_difference = _reconstruct(trial) - slices
            trial_loss = float((trial_difference**2).sum())
            if trial_loss < loss:
                break
            damping *= 4
        else:
            break
        gain = loss - trial_loss
        current = trial
        difference = trial_difference
        loss = trial_loss
        damping = max(damping / 5, 1e-12)
        n_steps += 1
        if gain < tol * loss:
            break
    return current, float(np.sqrt(loss / total)), n_steps


def _balanced(factors: Factors) -> Factors:
    """Scale the columns of every component to equal norms, leaving the component as it is."""
    norms = np.stack([np.linalg.norm(factor, axis=0) for factor in factors])
    common = np.cbrt(np.prod(norms, axis=0))
    scales = common / np.where(norms == 0, 1.0, norms)
    return factors[0] * scales[0], factors[1] * scales[1], factors[2] * scales[2]


def _reconstruct(factors: Factors) -> np.ndarray:
    left, right, third = factors
    # k i r times r j
    return (third[:, None, :] * left) @ right.T


def _gradient(difference: np.ndarray, factors: Factors) -> list[np.ndarray]:
    """Half the gradient of the loss: the difference times the Khatri-Rao products of the other two factors."""
    left, right, third = factors
    inner = difference @ right  # k i r
    weighted = np.tensordot(third, difference, axes=(0, 0))  # r i j
    return [
        np.einsum("kir,kr->ir", inner, third),
        np.einsum("rij,ir->jr", weighted, left),
        np.einsum("kir,ir->kr", inner, left),
    ]


def _others(grams: np.ndarray) -> np.ndarray:
    """Diagonal blocks (3, rank, rank) of the normal equations: products of the other two Gram matrices."""
    return grams[_NEXT] * grams[_LAST]


def _stacked(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Matrices of the three modes in one array (3, n_rows, rank), rows of zeros below the shorter ones."""
    stacked = np.zeros((3, max(map(len, parts)), parts[0].shape[1]))
    for place, part in zip(stacked, parts, strict=True):
        place[: len(part)] = part
    return stacked


def _solve(factors: np.ndarray, grams: np.ndarray, gradient: np.ndarray, shift: float, tol: float) -> np.ndarray:
    """Step X with (J'J + shift I) X = gradient, by preconditioned conjugate gradients, cut off early.

    They end when the square of the (preconditioned) residual has fallen to the share `tol`, or after a fixed number.

    All stacked, (3, n_rows, rank): with such small matrices the number of calls is what takes time.
    """
    blocks = _others(grams) + shift * np.eye(grams.shape[1])
    inverses = np.linalg.inv(blocks)
    step = np.zeros_like(gradient)
    rest = gradient
    search = ahead = rest @ inverses
    squared_norm = start_squared_norm = np.vdot(rest, ahead)
    for _ in range(_N_CONJUGATE_GRADIENTS):
        image = _normal_product(factors, grams, blocks, search)
        length = squared_norm / np.vdot(search, image)
        step = step + length * search
        rest = rest - length * image
        ahead = rest @ inverses
        previous = squared_norm
        squared_norm = np.vdot(rest, ahead)
        if squared_norm < tol * start_squared_norm:
            break
        search = ahead + squared_norm / previous * search
    return step


def _normal_product(factors: np.ndarray, grams: np.ndarray, blocks: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """(J'J + shift I) X: block (a, b) maps X_b to F_a (G_c * (X_b' F_b)), c the third mode."""
    crosses = parts.transpose(0, 2, 1) @ factors  # X_b' F_b
    return parts @ blocks + factors @ (grams[_LAST] * crosses[_NEXT] + grams[_NEXT] * crosses[_LAST])
