"""Algebraic CPD of one third-order tensor: compressed, diagonalized, and refined by least squares."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.linalg
import tensorly as tl
from tensorly.cp_tensor import CPTensor

from tensorly_smp._support.checks import RandomState, checked_integer, float_array, warn
from tensorly_smp.exceptions import AlgebraicStartError, InvalidInputError, NearDegenerateWarning
from tensorly_smp.initializers.joint_diagonalization import (
    DEGENERATE_COSINE,
    Factors,
    GevdDiagnostics,
    decompose_core,
    require_rank,
    triple_cosines,
)


def gevd_parafac(tensor: Any, rank: int, pencil_mode: int = 2, random_state: RandomState = None) -> CPTensor:
    """Algebraic CPD of a third-order tensor: exact where one exists, without iterating from a random start.

    Parameters
    ----------
    tensor : tensor (I1, I2, I3)
        Real and finite, of the active TensorLy backend or array_like.
    rank : int
        At most the smaller of the two sizes other than `pencil_mode`.
    pencil_mode : {0, 1, 2}
        The mode whose slices are diagonalized. The factors of the other two have to have `rank` independent columns;
        those of this one only have to be different from each other (k-rank 2), e.g. two rows are enough.
    random_state : None, int, numpy Generator or RandomState

    Returns
    -------
    CPTensor
        Weights (rank,), positive, largest first, and three factors with columns of unit 2-norm; in the first two modes
        the entry of largest magnitude of a column is positive. In the backend, dtype and on the device of `tensor`.

    Raises
    ------
    AlgebraicStartError
        Naming the condition that failed: singular values (a factor has fewer than `rank` independent columns),
        eigenvalue gap (two components agree in the pencil mode), complex pair (no real CPD of this rank).
    InvalidInputError
        If the tensor is not third-order, has masked entries or such that are not finite, a number is out of range, or
        a weight exceeds the largest number of the tensor's dtype.
    InvalidTypeError
        If the tensor does not hold real numbers, or the rank, a mode or a count is no integer.

    Warns
    -----
    NearDegenerateWarning
        Two components nearly cancel each other; the message names them.

    Notes
    -----
    S. E. Leurgans, R. T. Ross, R. B. Abel, "A decomposition for three-way arrays", 1993. The first two modes are
    compressed to `rank` by truncated SVD, all slices are then diagonalized together, and at most 50 Gauss-Newton steps
    on the compressed tensor follow, of which exact data need none.

    **Which way of diagonalizing.** ``benchmarks/starts.py diagonalize`` compares them under noise: distance between
    true and computed unit columns (0 exact, 1.4 orthogonal), median of 20 trials.

    ============================================  ======  ======  ======  ======  ======  ======  ======
    data                                          pencil  gap     error   QZ      joint   ALS     GN
    ============================================  ======  ======  ======  ======  ======  ======  ======
    normal 12x10x8, R = 5, 30 dB                  0.057   0.024   0.021   0.053   0.013   0.011   0.011
    the same with collinear columns               0.23    0.12    0.083   0.28    0.039   0.024   0.024
    normal 10x10x3, R = 8, 40 dB                  0.15    0.094   0.093   0.19    0.061   0.031   0.022
    normal 20x20x20, R = 15, 30 dB                0.35    0.32    0.23    0.27    0.030   0.0073  0.0073
    histograms, 6 quantile bins, R = 5, M = 5000  0.46    0.26    0.19    0.39    0.18    0.16    0.15
    the same with R = 10                          0.57    0.51    0.51    0.55    0.23    0.18    0.16
    histograms, 8 bins, R = 10, M = 50 000        0.66    0.67    0.64    0.63    0.53    0.44    0.36
    ============================================  ======  ======  ======  ======  ======  ======  ======

    *pencil*: eigenvectors of one random combination of slices; *gap*: of 20, the one with the widest eigenvalue gap;
    *error*: of 20, the one with the smallest predicted error; *QZ*: the pair of slices with the most energy; *joint*:
    all slices, from *error*; *ALS*: 50 sweeps on the compressed tensor, from *joint*; *GN*: Gauss-Newton on it, from
    *joint*, the winner and what is done here. A pencil or a pair sees the noise of two slices, the others average it.
    All take milliseconds: *gap* 4, *joint* 4, *GN* 23 in the median.

    **Complex pairs.** Under noise, often no pencil has real eigenvalues although the tensor is near a real CPD. The
    search then starts from real and imaginary parts, and the refinement mends them. An error is raised only if it ends
    with two components that cancel each other (triple cosine below -0.85), the sign that no real CPD is near.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> rng = np.random.default_rng(0)
    >>> a, b, c = (rng.standard_normal((size, 4)) for size in (5, 4, 2))
    >>> tensor = np.einsum("ir,jr,kr->ijk", a, b, c)
    >>> cp = smp.gevd_parafac(tensor, rank=4, random_state=0)
    >>> bool(np.allclose(cp.to_tensor(), tensor))
    True
    """
    is_masked = np.ma.isMaskedArray(tensor)  # TensorLy would drop the mask
    array = tl.to_numpy(tensor) if tl.is_tensor(tensor) and not is_masked else tensor
    weights, factors, _ = gevd_decomposition(array, rank, pencil_mode, random_state)
    context = tl.context(tensor) if tl.is_tensor(tensor) and np.issubdtype(array.dtype, np.floating) else {}
    dtype = array.dtype if context else np.dtype(np.float64)
    if not (weights <= np.finfo(dtype).max).all():
        raise InvalidInputError(f"Weights exceed the largest {dtype}; divide the tensor by its largest entry.")
    # The two components that cancel each other most.
    cosines = triple_cosines(*factors)
    first, second = (int(n) for n in sorted(np.unravel_index(int(cosines.argmin()), cosines.shape)))
    if cosines[first, second] < DEGENERATE_COSINE:
        warn(
            f"Components {first} and {second} nearly cancel each other (triple cosine {cosines[first, second]:.3f}, "
            f"below {DEGENERATE_COSINE}): the tensor has most likely no best approximation of this rank, and their "
            "weights and columns mean little. Take a lower rank, or a constrained decomposition.",
            NearDegenerateWarning,
        )
    return CPTensor((tl.tensor(weights, **context), [tl.tensor(factor, **context) for factor in factors]))


def gevd_decomposition(
    tensor: Any, rank: int, pencil_mode: int = 2, random_state: RandomState = None
) -> tuple[np.ndarray, Factors, GevdDiagnostics]:
    """Weights, factors and diagnostics of :func:`gevd_parafac`, of NumPy arrays in NumPy arrays."""
    array, rank, pencil_mode = _checked_tensor(tensor, rank, pencil_mode)
    order = [mode for mode in range(3) if mode != pencil_mode] + [pencil_mode]
    array = array.transpose(order)
    magnitude = float(np.abs(array).max())
    if magnitude == 0:
        raise AlgebraicStartError("Singular values: all are zero, the tensor holds nothing but zeros.")
    array = array / magnitude  # so that squares neither overflow nor vanish
    left_basis, left_values = _leading_subspace(array.reshape(len(array), -1), rank, order[0])
    right_basis, right_values = _leading_subspace(array.transpose(1, 0, 2).reshape(array.shape[1], -1), rank, order[1])
    # a b compressed rows and columns
    slices = np.einsum("ijk,ia,jb->kab", array, left_basis, right_basis, optimize=True)
    (left, right, third), diagnostics = decompose_core(slices, random_state=random_state)
    factors: list[Any] = [None, None, None]
    parts = (left_basis @ left, right_basis @ right, third)
    for mode, factor in zip(order, parts, strict=True):
        factors[mode] = factor
    weights, scaled = unit_columns(factors)
    with np.errstate(over="ignore"):
        weights = weights * magnitude
    return weights, scaled, replace(diagnostics, singular_values=(left_values, right_values))


def unit_columns(factors: Any) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Unit 2-norm columns, positive weights largest first, entry of largest magnitude positive in the first two modes.

    Parameters
    ----------
    factors : sequence of three ndarray (size, rank)

    Returns
    -------
    weights : ndarray (rank,)
    factors : tuple of ndarray
    """
    norms = np.stack([np.linalg.norm(factor, axis=0) for factor in factors])
    weights = norms.prod(axis=0)
    order = np.argsort(-weights, kind="stable")
    signs = np.ones_like(norms)
    for sign, factor in zip(signs[:2], factors, strict=False):
        peak = np.take_along_axis(factor, np.abs(factor).argmax(axis=0)[None], axis=0)[0]
        sign[peak < 0] = -1.0
    signs[2] = signs[0] * signs[1]
    scales = signs / np.where(norms == 0, 1.0, norms)
    first, second, third = (factor[:, order] * scale[order] for factor, scale in zip(factors, scales, strict=True))
    return weights[order], (first, second, third)


def _leading_subspace(unfolding: np.ndarray, rank: int, mode: int) -> tuple[np.ndarray, np.ndarray]:
    """Orthonormal basis of the leading left singular vectors, and all singular values."""
    # The triangular factor of a wide matrix has the same left singular vectors and is small.
    wide = unfolding.shape[1] > unfolding.shape[0]
    small = scipy.linalg.qr(unfolding.T, mode="r")[0][: len(unfolding)].T if wide else unfolding
    basis, values, _ = np.linalg.svd(small, full_matrices=False)
    advice = "The tensor has fewer components there: take fewer, or add bins or variables to this mode."
    require_rank(values, rank, f" of mode {mode}", advice)
    return basis[:, :rank], values


def _checked_tensor(tensor: Any, rank: Any, pencil_mode: Any) -> tuple[np.ndarray, int, int]:
    array = float_array(tensor, "The tensor")
    if array.ndim != 3 or array.size == 0:
        raise InvalidInputError(f"The tensor has shape {array.shape}; expected three non-empty modes.")
    if not np.isfinite(array).all():
        raise InvalidInputError("The tensor holds NaN or infinity; expected finite numbers: take slices without them.")
    pencil_mode = checked_integer(pencil_mode, "pencil_mode", 0, 2)
    rank = checked_integer(rank, "rank")
    limit = min(size for mode, size in enumerate(array.shape) if mode != pencil_mode)
    if not 1 <= rank <= limit:
        raise InvalidInputError(f"rank is {rank}; expected 1 to {limit}, with this pencil mode of {array.shape}.")
    if rank > 1 and array.shape[pencil_mode] < 2:
        raise AlgebraicStartError(f"Eigenvalue gap: pencil mode {pencil_mode} has a single slice; choose another.")
    return array, rank, pencil_mode
