"""Square slices S_k ~ P diag(c_k) Q', diagonalized together: what a CPD is once two modes have been compressed.

A least-squares refinement by damped Gauss-Newton steps ends it. The normal equations of a CPD are products with R x R
Gram matrices, so the step is found by conjugate gradients without ever forming them: at rank 30 and 30 x 30 x 30
entries a step costs milliseconds, where factorizing the 2700 x 2700 matrix costs most of a second. The block diagonal
is the preconditioner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tensorly_smp._support.checks import RandomState, as_generator
from tensorly_smp._support.representations import short_repr
from tensorly_smp.exceptions import AlgebraicStartError

Factors: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]

#: Random combinations of slices that are tried.
N_PENCILS = 20
#: Gauss-Newton steps at most.
N_REFINEMENTS_MAX = 50
#: The slices are diagonalized together until the squared off-diagonal part falls by less than this share.
JOINT_TOL = 1e-6
# Below these ratios, what would divide is rounding.
SINGULAR_RATIO = 1e-12
GAP_RATIO = 1e-8
# Two components whose columns nearly cancel (Harshman's triple cosine) have no finite limit: there is no real CPD here.
DEGENERATE_COSINE = -0.85

_N_CONJUGATE_GRADIENTS = 20
# the other two modes
_NEXT = [1, 2, 0]
_LAST = [2, 0, 1]


@dataclass(frozen=True, eq=False)
class GevdDiagnostics:
    """Diagnostics that tell how far an algebraic decomposition can be trusted.

    Attributes
    ----------
    singular_values : tuple of ndarray
        Of what was compressed: the unfoldings of the first two modes, or the pair block; more than `rank` of them where
        there are, so that the drop after the rank-th can be seen. Empty if the slices came compressed.
    eigenvalue_gap : float
        Smallest distance between two components in the pencil mode, relative to the longest.
    eigenvector_condition : float
        Condition number of the joint eigenvectors. Noise in the slices is amplified by about condition / gap.
    complex_pair : bool
        Every pencil had complex eigenvalues: exact data of this rank would have no real decomposition.
    residual : float
        Relative 2-norm of what the decomposition leaves of the compressed tensor.
    """

    singular_values: tuple[np.ndarray, ...]
    eigenvalue_gap: float
    eigenvector_condition: float
    complex_pair: bool
    residual: float

    __repr__ = short_repr


def require_rank(values: np.ndarray, rank: int, where: str, advice: str) -> None:
    """Raise AlgebraicStartError if fewer than `rank` singular values are above rounding."""
    if len(values) < rank or values[rank - 1] <= SINGULAR_RATIO * values[0]:
        ratio = values[rank - 1] / values[0] if len(values) >= rank and values[0] else 0.0
        raise AlgebraicStartError(
            f"Singular values: number {rank}{where} is {ratio:.1e} of the first; above {SINGULAR_RATIO:.0e} is needed. "
            f"{advice}"
        )


def decompose_core(
    slices: np.ndarray,
    base: np.ndarray | None = None,
    tol: float = 1e-8,
    keeps_complex: bool = False,
    random_state: RandomState = None,
) -> tuple[Factors, GevdDiagnostics]:
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
        Default: the best conditioned of the dominant combination and ``N_PENCILS`` random ones.
    tol : float
        The least-squares steps end when the sum of squares falls by less than this share.
    keeps_complex : bool
        Where every pencil has complex eigenvalues, which noise makes them often and the refinement mends: go on even
        if two components end up cancelling each other, the sign that no real decomposition is near.
    random_state : None, int, numpy Generator or RandomState

    Returns
    -------
    factors : tuple of ndarray
        P (rank, rank), Q (rank, rank), C (n_slices, rank); the scale of a component is spread evenly over its columns.
    diagnostics : GevdDiagnostics

    Raises
    ------
    AlgebraicStartError
        Naming the condition: the slices have less than full rank (singular values), two components are the same in the
        pencil mode (eigenvalue gap), or no real decomposition (complex pair).
    """
    n_slices, rank, _ = slices.shape
    rng = as_generator(random_state)
    # The slices span at most `rank` dimensions, the rest is noise.
    modes, spread, directions = np.linalg.svd(slices.reshape(n_slices, -1), full_matrices=False)
    modes = modes[:, :rank]
    core = (spread[:rank, None] * directions[:rank]).reshape(-1, rank, rank)
    left_root, right_root = roots(base_slice(core, None if base is None else base @ modes, rng))
    whitened = np.linalg.solve(left_root, core) @ np.linalg.inv(right_root).T
    vectors, pencil_values = joint_eigenvectors(whitened, rng)
    rotated = _similar(whitened, vectors)
    gap = relative_gap(np.einsum("kii->ki", rotated))
    is_complex = bool(np.any(pencil_values.imag))
    complex_pair = AlgebraicStartError(
        f"Complex pair: each of {N_PENCILS} combinations of slices has complex eigenvalues with {rank} components, so "
        "that no real decomposition into as many is near the data. Take fewer, other bins or another partition, or "
        "start at random."
    )
    # The two of a complex pair have the same real part: they are different, but not over the real numbers.
    differ = is_complex and relative_gap(np.stack([pencil_values.real, pencil_values.imag])) >= GAP_RATIO
    if gap < GAP_RATIO and not differ:
        raise AlgebraicStartError(
            f"Eigenvalue gap: two of the {rank} components agree in the pencil mode to {gap:.1e} of its size "
            f"(k-rank below 2; {GAP_RATIO:.0e} is needed). Try another pencil mode or partition, or fewer components."
        )
    if gap < GAP_RATIO and not keeps_complex:
        raise complex_pair
    start = rank_one_columns(core, np.linalg.solve(right_root.T, vectors))
    (left, right, third), residual = refine_cp(core, start, N_REFINEMENTS_MAX, tol)
    if is_complex and not keeps_complex and triple_cosines(left, right, third).min() < DEGENERATE_COSINE:
        raise complex_pair
    diagnostics = GevdDiagnostics(
        singular_values=(),
        eigenvalue_gap=gap,
        eigenvector_condition=float(np.linalg.cond(vectors)),
        complex_pair=is_complex,
        residual=residual,
    )
    return (left, right, modes @ third), diagnostics


def base_slice(core: np.ndarray, base: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    """The combination to divide by: of unit combinations, that with the largest smallest singular value."""
    if base is not None:
        return np.tensordot(base, core, axes=1)
    directions = np.vstack([np.eye(1, len(core)), rng.standard_normal((N_PENCILS, len(core)))])
    candidates = np.tensordot(directions / np.linalg.norm(directions, axis=1, keepdims=True), core, axes=1)
    return candidates[np.argmax(np.linalg.svd(candidates, compute_uv=False)[:, -1])]


def roots(pivot: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """L and R with L R' = pivot."""
    left, values, right = np.linalg.svd(pivot)
    advice = "The first two factors have fewer independent columns: take fewer, another partition or more bins."
    require_rank(values, len(values), " of every combination of slices tried", advice)
    root = np.sqrt(values)
    return left * root, right.T * root


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


def joint_eigenvectors(
    slices: np.ndarray, rng: np.random.Generator, n_sweeps_max: int = 100
) -> tuple[np.ndarray, np.ndarray]:
    """Real matrix that diagonalizes all slices as well as it can, by similarity: T_k ~ E diag(d_k) E^-1.

    Starts from the eigenvectors of one random combination of slices: of ``N_PENCILS``, that with the smallest predicted
    error and no complex pair. Then all slices are diagonalized together: each step solves E <- E (I + Z), Z with zero
    diagonal, for the off-diagonal entries to first order, which is one least-squares problem with one unknown per
    entry. It converges quadratically on exact slices.

    Parameters
    ----------
    slices : ndarray (n_slices, rank, rank)
        Matrices T_k, at least one.
    rng : Generator
        For the combinations.
    n_sweeps_max : int
        Refinement steps; 0 keeps the eigenvectors of the best pencil.

    Returns
    -------
    vectors : ndarray (rank, rank)
        E, columns of unit 2-norm.
    pencil_values : ndarray (rank,)
        Eigenvalues of the combination that the search started from. They are complex if those of all combinations were;
        it then started from the real and imaginary parts of the eigenvectors of the best one.

    Notes
    -----
    The predicted error of the eigenvectors of M = E diag(v) E^-1 is the sum over i, j of
    (|row i of E^-1| |column j of E| / |v_i - v_j|)^2: first-order perturbation by white noise. The widest gap
    alone, the usual choice, ignores the condition of E.

    The first-order step is that of joint eigenvalue decomposition by Luciani and Albera (2014) and Andre, Luciani and
    Moreau (2018), with a line search added so that no step makes the off-diagonal part larger.
    """
    directions = rng.standard_normal((N_PENCILS, len(slices)))
    pencils = np.tensordot(directions / np.linalg.norm(directions, axis=1, keepdims=True), slices, axes=1)
    values, vectors = np.linalg.eig(pencils)
    is_complex = np.abs(values.imag).max(axis=1) > 0
    # A real pencil beats every complex one; then the smaller predicted error.
    errors = [_predicted_error(v, e) for v, e in zip(values, vectors, strict=True)]
    best = min(range(N_PENCILS), key=lambda p: (is_complex[p], errors[p]))
    return _diagonalize_all(slices, real_vectors(values[best], vectors[best]), n_sweeps_max), values[best]


def relative_gap(values: np.ndarray) -> float:
    """Smallest distance between columns, relative to the longest column; 1 for a single column.

    Parameters
    ----------
    values : ndarray (n_slices, rank)

    Returns
    -------
    float
    """
    longest = float(np.linalg.norm(values, axis=0).max())
    if values.shape[1] < 2 or longest == 0:
        return float(values.shape[1] < 2)
    distances = np.linalg.norm(values[:, :, None] - values[:, None, :], axis=0)
    return float(distances[np.triu_indices(values.shape[1], 1)].min()) / longest


def _predicted_error(values: np.ndarray, vectors: np.ndarray) -> float:
    distances = np.abs(values[:, None] - values)
    np.fill_diagonal(distances, np.inf)
    if distances.min() == 0:
        return np.inf
    try:
        inverse = np.linalg.inv(vectors)
    except np.linalg.LinAlgError:
        return np.inf
    products = np.outer(np.linalg.norm(inverse, axis=1), np.linalg.norm(vectors, axis=0))
    return float(((products / distances) ** 2).sum())


def real_vectors(values: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Real and imaginary parts in place of conjugate pairs, which LAPACK returns side by side; unit columns."""
    real = np.real(vectors).copy()
    after_pair = np.flatnonzero(np.imag(values) > 0) + 1
    real[:, after_pair] = np.imag(vectors)[:, after_pair]
    return real / np.linalg.norm(real, axis=0)


def _diagonalize_all(slices: np.ndarray, vectors: np.ndarray, n_sweeps_max: int) -> np.ndarray:
    rotated = _similar(slices, vectors)
    loss = _off_diagonal(rotated)
    floor = (np.finfo(float).eps * np.linalg.norm(slices)) ** 2
    for _ in range(n_sweeps_max):
        if loss <= floor:
            break
        # Z that minimizes sum_k (t_kij + z_ij (d_ki - d_kj))^2 for every i != j.
        diagonals = np.einsum("kii->ki", rotated)
        differences = diagonals[:, :, None] - diagonals[:, None, :]
        curvature = (differences**2).sum(axis=0)
        slope = (rotated * differences).sum(axis=0)
        # Equal diagonals leave the entry undetermined: no step there.
        usable = curvature > np.finfo(float).tiny
        step = np.where(usable, -slope / np.where(usable, curvature, 1.0), 0.0)
        size = 1.0
        while size > 1e-3:
            trial = vectors + size * vectors @ step
            trial = trial / np.linalg.norm(trial, axis=0)
            trial_rotated = _similar(slices, trial)
            trial_loss = _off_diagonal(trial_rotated)
            if trial_loss < loss:
                break
            size /= 2
        else:
            break
        gain = loss - trial_loss
        vectors = trial
        rotated = trial_rotated
        loss = trial_loss
        if gain < JOINT_TOL * loss:
            break
    return vectors


def _similar(slices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """E^-1 T_k E; NaN if E is singular, which no comparison accepts."""
    try:
        return np.linalg.solve(vectors, slices @ vectors)
    except np.linalg.LinAlgError:
        return np.full_like(slices, np.nan)


def _off_diagonal(rotated: np.ndarray) -> float:
    off = rotated.copy()
    np.einsum("kii->ki", off)[...] = 0.0
    return float((off**2).sum())


def refine_cp(slices: np.ndarray, factors: Factors, n_steps_max: int, tol: float = 1e-8) -> tuple[Factors, float]:
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
    """
    total = float((slices**2).sum()) or 1.0
    floor = (10 * np.finfo(float).eps) ** 2 * total
    current = _balanced(factors)
    difference = _reconstruct(current) - slices
    loss = float((difference**2).sum())
    damping = 1e-3
    for _ in range(n_steps_max):
        if loss <= floor:
            break
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
        if gain < tol * loss:
            break
    return current, float(np.sqrt(loss / total))


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
        # (J'J + shift I) X: block (a, b) maps X_b to F_a (G_c * (X_b' F_b)), c the third mode.
        crosses = search.transpose(0, 2, 1) @ factors
        image = search @ blocks + factors @ (grams[_LAST] * crosses[_NEXT] + grams[_NEXT] * crosses[_LAST])
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
