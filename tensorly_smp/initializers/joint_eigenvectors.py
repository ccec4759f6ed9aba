"""Eigenvectors shared by several matrices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorly_smp._support.randomness import RandomState, as_generator


@dataclass(frozen=True, eq=False)
class JointEigenvectors:
    """Approximate common eigenvectors of matrices T_k ~ E diag(d_k) E^-1.

    Attributes
    ----------
    vectors : ndarray (rank, rank)
        E, real, columns of unit 2-norm.
    values : ndarray (n_slices, rank)
        The diagonals of E^-1 T_k E.
    gap : float
        Smallest distance between two columns of `values`, relative to the longest column. Errors of the slices are
        amplified by its inverse.
    pencil_gap : float
        Smallest distance between two eigenvalues, complex ones included, of the one combination that the search started
        from, relative to the largest.
    condition : float
        2-norm condition number of E.
    complex_pair : bool
        True if every combination of slices that was tried had complex eigenvalues; the search then started from the
        real and imaginary parts of the eigenvectors of the best one.
    off_diagonal : float
        2-norm of the off-diagonal parts of all E^-1 T_k E, relative to that of all T_k.
    n_sweeps : int
        Refinement steps taken.
    """

    vectors: np.ndarray
    values: np.ndarray
    gap: float
    pencil_gap: float
    condition: float
    complex_pair: bool
    off_diagonal: float
    n_sweeps: int


def joint_eigenvectors(
    slices: np.ndarray,
    n_pencils: int = 20,
    n_sweeps_max: int = 100,
    tol: float = 1e-6,
    random_state: RandomState = None,
) -> JointEigenvectors:
    """Real matrix that diagonalizes all slices as well as it can, by similarity.

    Starts from the eigenvectors of one random combination of slices: of `n_pencils`, that with the smallest predicted
    error and no complex pair. Then all slices are diagonalized together: each step solves E <- E (I + Z), Z with zero
    diagonal, for the off-diagonal entries to first order, which is one least-squares problem with one unknown per
    entry. It converges quadratically on exact slices.

    Parameters
    ----------
    slices : ndarray (n_slices, rank, rank)
        Matrices T_k, at least one.
    n_pencils : int
        Random combinations tried, at least 1.
    n_sweeps_max : int
        Refinement steps; 0 keeps the eigenvectors of the best pencil.
    tol : float
        Stop when the squared off-diagonal part falls by less than this share.
    random_state : None, int, numpy Generator or RandomState

    Returns
    -------
    JointEigenvectors

    Raises
    ------
    InvalidInputError
        If the slices are not a finite (n_slices, rank, rank) array.

    Notes
    -----
    The predicted error of the eigenvectors of M = E diag(v) E^-1 is the sum over i, j of
    (|row i of E^-1| |column j of E| / |v_i - v_j|)^2: first-order perturbation by white noise. The widest gap
    alone, the usual choice, ignores the condition of E.

    The first-order step is that of joint eigenvalue decomposition by Luciani and Albera (2014) and Andre, Luciani and
    Moreau (2018), with a line search added so that no step makes the off-diagonal part larger.
    """
    vectors, pencil_values = _best_pencil(slices, max(1, n_pencils), as_generator(random_state))
    vectors, n_sweeps = _diagonalize_all(slices, vectors, n_sweeps_max, tol)
    rotated = _similar(slices, vectors)
    values = np.einsum("kii->ki", rotated).copy()
    total = float(np.linalg.norm(slices)) or 1.0
    return JointEigenvectors(
        vectors=vectors,
        values=values,
        gap=relative_gap(values),
        pencil_gap=relative_gap(np.stack([pencil_values.real, pencil_values.imag])),
        condition=float(np.linalg.cond(vectors)),
        complex_pair=bool(np.any(pencil_values.imag)),
        off_diagonal=float(np.sqrt(_off_diagonal(rotated))) / total,
        n_sweeps=n_sweeps,
    )


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


def _best_pencil(slices: np.ndarray, n_pencils: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Real starting vectors, and the eigenvalues that they belong to."""
    directions = rng.standard_normal((n_pencils, len(slices)))
    pencils = np.tensordot(directions / np.linalg.norm(directions, axis=1, keepdims=True), slices, axes=1)
    values, vectors = np.linalg.eig(pencils)
    is_complex = np.abs(values.imag).max(axis=1) > 0
    # A real pencil beats every complex one; then the smaller predicted error.
    errors = [_predicted_error(v, e) for v, e in zip(values, vectors, strict=True)]
    best = min(range(n_pencils), key=lambda p: (is_complex[p], errors[p]))
    return real_vectors(values[best], vectors[best]), values[best]


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


def _diagonalize_all(slices: np.ndarray, vectors: np.ndarray, n_sweeps_max: int, tol: float) -> tuple[np.ndarray, int]:
    rotated = _similar(slices, vectors)
    loss = _off_diagonal(rotated)
    floor = (np.finfo(float).eps * np.linalg.norm(slices)) ** 2
    for sweep in range(n_sweeps_max):
        if loss <= floor:
            return vectors, sweep
        step = _first_order_step(rotated)
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
            return vectors, sweep
        gain = loss - trial_loss
        vectors = trial
        rotated = trial_rotated
        loss = trial_loss
        if gain < tol * loss:
            return vectors, sweep + 1
    return vectors, n_sweeps_max


def _first_order_step(rotated: np.ndarray) -> np.ndarray:
    """Z that minimizes sum_k (t_kij + z_ij (d_ki - d_kj))^2 for every i != j."""
    diagonals = np.einsum("kii->ki", rotated)
    differences = diagonals[:, :, None] - diagonals[:, None, :]
    curvature = (differences**2).sum(axis=0)
    slope = (rotated * differences).sum(axis=0)
    # Equal diagonals leave the entry undetermined: no step there.
    usable = curvature > np.finfo(float).tiny
    return np.where(usable, -slope / np.where(usable, curvature, 1.0), 0.0)


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
