"""Algebraic decomposition of a compressed tensor: square slices S_k ~ P diag(c_k) Q'."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from tensorly_smp._support.checks import is_one_of
from tensorly_smp._support.randomness import RandomState, as_generator
from tensorly_smp._support.representations import short_repr, shown
from tensorly_smp.exceptions import AlgebraicStartError, InvalidInputError
from tensorly_smp.initializers.cp_refinement import refine_cp
from tensorly_smp.initializers.joint_eigenvectors import JointEigenvectors, joint_eigenvectors

ComplexPairs = Literal["refine", "keep", "raise"]

# Below these ratios, what would divide is rounding.
SINGULAR_RATIO = 1e-12
GAP_RATIO = 1e-8
# Two components whose columns nearly cancel (Harshman's triple cosine) have no finite limit: there is no real CPD here.
DEGENERATE_COSINE = -0.85


@dataclass(frozen=True, eq=False)
class GevdDiagnostics:
    """Diagnostics that tell how far an algebraic decomposition can be trusted.

    Attributes
    ----------
    singular_values : tuple of ndarray
        Of what was compressed: the unfoldings of the first two modes, or the pair block; more than `rank` of them where
        there are, so that the drop after the rank-th can be seen. Empty if the slices came compressed.
    base_condition : float
        Condition number of the combination of slices that the others are divided by.
    eigenvalue_gap : float
        Smallest distance between two components in the pencil mode, relative to the longest.
    eigenvector_condition : float
        Condition number of the joint eigenvectors. Noise in the slices is amplified by about condition / gap.
    complex_pair : bool
        Every pencil had complex eigenvalues: exact data of this rank would have no real decomposition.
    off_diagonal : float
        What the joint eigenvectors leave off the diagonal, relative to the slices.
    residual : float
        Relative 2-norm of what the decomposition leaves of the compressed tensor.
    """

    singular_values: tuple[np.ndarray, ...]
    base_condition: float
    eigenvalue_gap: float
    eigenvector_condition: float
    complex_pair: bool
    off_diagonal: float
    residual: float

    __repr__ = short_repr


@dataclass(frozen=True, eq=False)
class CoreDecomposition:
    """S_k ~ left diag(third[k]) right'; the scale of a component is spread evenly over its three columns.

    Attributes
    ----------
    left, right : ndarray (rank, rank)
    third : ndarray (n_slices, rank)
    diagnostics : GevdDiagnostics
    """

    left: np.ndarray
    right: np.ndarray
    third: np.ndarray
    diagnostics: GevdDiagnostics


def decompose_core(
    slices: np.ndarray,
    base: np.ndarray | None = None,
    n_pencils: int = 20,
    n_refinements_max: int = 50,
    tol: float = 1e-8,
    complex_pairs: ComplexPairs = "refine",
    random_state: RandomState = None,
) -> CoreDecomposition:
    """Decompose square slices S_k = P diag(c_k) Q' with P, Q of full rank, for all k at once.

    The slices are what a third-order tensor becomes when its first two modes are compressed to `rank` by orthonormal
    bases U1, U2: S_k = U1' T[:, :, k] U2. They can be accumulated without the tensor (sums over samples); the factors
    of the first two modes are then U1 P and U2 Q.

    Parameters
    ----------
    slices : ndarray (n_slices, rank, rank)
        At least two slices if rank > 1. Orthonormal compression, not whitening: the least-squares steps at the end take
        the noise to be about equal in all entries.
    base : ndarray (n_slices,), optional
        Combination of slices that the others are divided by, e.g. ones where the sum of slices is the best determined.
        Default: the best conditioned of the dominant combination and `n_pencils` random ones.
    n_pencils : int
        Random combinations tried.
    n_refinements_max : int
        Least-squares (Gauss-Newton) steps on the slices after the algebra; 0 for algebra only.
    tol : float
        They end when the sum of squares falls by less than this share.
    complex_pairs : {"refine", "keep", "raise"}
        If every pencil has complex eigenvalues. Noise makes them often, and the refinement mends them: "refine" raises
        only if two components end up cancelling each other, the sign that no real decomposition is near. "keep" goes on
        whatever comes of it, "raise" gives up at once.
    random_state : None, int, numpy Generator or RandomState

    Returns
    -------
    CoreDecomposition

    Raises
    ------
    AlgebraicStartError
        Naming the condition: the slices have less than full rank (singular values), two components are the same in the
        pencil mode (eigenvalue gap), or no real decomposition (complex pair).
    InvalidInputError
        If the slices are not a finite (n_slices, rank, rank) array.
    """
    if not is_one_of(complex_pairs, get_args(ComplexPairs)):
        raise InvalidInputError(f"complex_pairs is {shown(complex_pairs)}; expected 'refine', 'keep' or 'raise'.")
    n_slices, rank, _ = slices.shape
    rng = as_generator(random_state)
    # The slices span at most `rank` dimensions, the rest is noise.
    modes, spread, directions = np.linalg.svd(slices.reshape(n_slices, -1), full_matrices=False)
    modes = modes[:, :rank]
    core = (spread[:rank, None] * directions[:rank]).reshape(-1, rank, rank)
    pivot = base_slice(core, None if base is None else base @ modes, n_pencils, rng)
    left_root, right_root, base_condition = roots(pivot)
    whitened = np.linalg.solve(left_root, core) @ np.linalg.inv(right_root).T
    joint = joint_eigenvectors(whitened, n_pencils, random_state=rng)
    if joint.complex_pair and complex_pairs == "raise":
        raise AlgebraicStartError(_complex_pair_message(rank, n_pencils))
    _check_gap(joint, rank, n_pencils, complex_pairs)
    start = rank_one_columns(core, np.linalg.solve(right_root.T, joint.vectors))
    (left, right, third), residual, _ = refine_cp(core, start, n_refinements_max, tol)
    is_suspect = joint.complex_pair and complex_pairs == "refine"
    if is_suspect and triple_cosines(left, right, third).min() < DEGENERATE_COSINE:
        raise AlgebraicStartError(_complex_pair_message(rank, n_pencils))
    diagnostics = GevdDiagnostics(
        singular_values=(),
        base_condition=base_condition,
        eigenvalue_gap=joint.gap,
        eigenvector_condition=joint.condition,
        complex_pair=joint.complex_pair,
        off_diagonal=joint.off_diagonal,
        residual=residual,
    )
    return CoreDecomposition(left, right, modes @ third, diagnostics)


def base_slice(core: np.ndarray, base: np.ndarray | None, n_pencils: int, rng: np.random.Generator) -> np.ndarray:
    """The combination to divide by: of unit combinations, that with the largest smallest singular value."""
    if base is not None:
        return np.tensordot(base, core, axes=1)
    directions = np.vstack([np.eye(1, len(core)), rng.standard_normal((max(1, n_pencils), len(core)))])
    candidates = np.tensordot(directions / np.linalg.norm(directions, axis=1, keepdims=True), core, axes=1)
    return candidates[np.argmax(np.linalg.svd(candidates, compute_uv=False)[:, -1])]


def roots(pivot: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """L and R with L R' = pivot, and its condition number."""
    left, values, right = np.linalg.svd(pivot)
    if values[-1] <= SINGULAR_RATIO * values[0]:
        rank = len(values)
        ratio = values[-1] / values[0] if values[0] else 0.0
        raise AlgebraicStartError(
            f"Singular values: number {rank} is {ratio:.1e} of the first in every combination of slices tried; above "
            f"{SINGULAR_RATIO:.0e} is needed. The first two factors do not have {rank} independent columns: take "
            "fewer components, another partition or more bins."
        )
    root = np.sqrt(values)
    return left * root, right.T * root, float(values[0] / values[-1])


def _check_gap(joint: JointEigenvectors, rank: int, n_pencils: int, complex_pairs: ComplexPairs) -> None:
    if joint.gap >= GAP_RATIO:
        return
    # The two of a complex pair have the same real part: they are different, but not over the real numbers.
    if joint.complex_pair and joint.pencil_gap >= GAP_RATIO:
        if complex_pairs == "keep":
            return
        raise AlgebraicStartError(_complex_pair_message(rank, n_pencils))
    raise AlgebraicStartError(
        f"Eigenvalue gap: two of the {rank} components agree in the pencil mode to {joint.gap:.1e} of its size "
        f"(k-rank below 2; at least {GAP_RATIO:.0e} is needed). Try another pencil mode, another partition, or "
        "fewer components."
    )


def rank_one_columns(core: np.ndarray, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Factors from V = Q^-T: column r of all S_k V is the rank-one matrix p_r c_r'."""
    columns = np.moveaxis(core @ vectors, 2, 0)  # (rank, n_slices, rank)
    outer, values, inner = np.linalg.svd(columns, full_matrices=False)
    return inner[:, 0].T, np.linalg.inv(vectors).T, (outer[:, :, 0] * values[:, :1]).T


def triple_cosines(*factors: np.ndarray) -> np.ndarray:
    """Products (rank, rank) of the three cosines between two components; near -1, they cancel each other."""
    product = np.ones((factors[0].shape[1],) * 2)
    for factor in factors:
        norms = np.linalg.norm(factor, axis=0)
        columns = factor / np.where(norms == 0, 1.0, norms)
        product *= columns.T @ columns
    np.fill_diagonal(product, 1.0)
    return product


def _complex_pair_message(rank: int, n_pencils: int) -> str:
    return (
        f"Complex pair: each of {n_pencils} combinations of slices has complex eigenvalues with {rank} components, so "
        "that no real decomposition into as many is near the data. Take fewer, other bins or another partition, or "
        "start at random."
    )
