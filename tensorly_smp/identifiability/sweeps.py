"""The Jacobian of known distributions, rotated into few rows by orthogonal sweeps over the variables.

A component and its derivatives are products over the variables. Built up variable by variable, with a QR decomposition
after each, the columns of the Jacobian keep their lengths and angles while their number of rows stays within that of
the columns: there are never prod I_n of them. No squares are taken, so that singular values come out to full precision
where a Gram matrix loses half of the digits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# Blocks of rows are gathered until there are so many times more rows than columns.
_GATHERED = 3


class Rows:
    """Rows of a matrix, gathered in blocks and compressed to as many as there are columns.

    Parameters
    ----------
    n_columns : int
    """

    def __init__(self, n_columns: int) -> None:
        self._blocks = [np.zeros((0, n_columns))]
        self._limit = _GATHERED * max(n_columns, 64)

    def add(self, block: np.ndarray) -> None:
        """One more block (n_rows, n_columns)."""
        self._blocks.append(block)
        if sum(map(len, self._blocks)) > self._limit:
            self._blocks = [compressed(np.concatenate(self._blocks))]

    def matrix(self) -> np.ndarray:
        """All rows up to a rotation, ndarray (at most n_columns, n_columns)."""
        return compressed(np.concatenate(self._blocks))


def compressed(matrix: np.ndarray) -> np.ndarray:
    """The matrix, or its triangular factor if that has fewer rows."""
    if len(matrix) <= matrix.shape[1] or not matrix.size:
        return matrix
    triangle: np.ndarray = np.linalg.qr(matrix, mode="r")  # type: ignore[assignment]
    return triangle


def product_core(cores: Sequence[np.ndarray]) -> np.ndarray:
    """The Khatri-Rao product of matrices, unit columns, rotated into at most `rank` rows.

    Columns are scaled after every factor, so that nothing underflows however many factors there are: columns that are
    far apart become orthogonal, which is what they are then.

    Parameters
    ----------
    cores : sequence of ndarray (n_rows, rank)

    Returns
    -------
    ndarray (n_rows, rank)
    """
    core = np.ones((1, cores[0].shape[1]))
    for factor in cores:
        # i row so far, b bin, r component
        core = compressed((core[:, None, :] * factor[None, :, :]).reshape(-1, core.shape[1]))
        core = core / np.linalg.norm(core, axis=0)
    return core


def joint_jacobian(factors: Sequence[np.ndarray], bases: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Components and their derivatives in one joint distribution, rotated into few rows.

    Parameters
    ----------
    factors : sequence of ndarray (n_bins[n], rank)
        Those of the variables of the distribution, columns of any scale.
    bases : sequence of ndarray (n_bins[n], n_directions[n])
        Directions in which a column of the variable may move.

    Returns
    -------
    components : ndarray (n_rows, rank)
    derivatives : ndarray (n_rows, rank, n_directions in total)
        In the order of the variables.
    """
    rank = factors[0].shape[1]
    joint = np.ones((1, rank))
    moved = np.zeros((1, rank, 0))
    for factor, basis in zip(factors, bases, strict=True):
        # i row so far, b bin, r component, q direction
        old = moved[:, None, :, :] * factor[None, :, :, None]
        new = joint[:, None, :, None] * basis[None, :, None, :]
        moved = np.concatenate([old, np.broadcast_to(new, (*old.shape[:3], basis.shape[1]))], axis=-1)
        joint, moved = _compress(joint[:, None, :] * factor[None, :, :], moved)
    return joint, moved


def joint_change(factors: Sequence[np.ndarray], changes: Sequence[np.ndarray], starts: np.ndarray) -> np.ndarray:
    """First-order changes of one joint distribution when weights and all factors change at once, in few rows.

    Parameters
    ----------
    factors : sequence of ndarray (n_bins[n], rank)
    changes : sequence of ndarray (n_bins[n], rank, n_changes)
    starts : ndarray (rank, n_changes)
        Changes of the weights.

    Returns
    -------
    ndarray (n_rows, n_changes)
    """
    joint = np.ones((1, factors[0].shape[1]))
    moved = np.zeros((1, *changes[0].shape[1:]))
    for factor, change in zip(factors[:-1], changes[:-1], strict=True):
        joint, moved = _compress(*_chosen(joint, moved, factor, change))
    # Components are added up before the last rotation, which is then that of a few columns only.
    joint, moved = _chosen(joint, moved, factors[-1], changes[-1])
    return compressed(joint @ starts + moved.sum(axis=1))


def triples_change(factors: Sequence[np.ndarray], changes: Sequence[np.ndarray], starts: np.ndarray) -> np.ndarray:
    """First-order changes of the histograms of all triples: every variable is chosen or left out.

    Parameters and return value are those of :func:`joint_change`. Columns of the factors sum to one and changes to
    zero, so that a variable that is left out changes nothing.
    """
    # rows of the histograms of so many of the variables so far
    n_columns = (1, *changes[0].shape[1:])
    levels = [(np.ones((1, factors[0].shape[1])), np.zeros(n_columns))]
    levels += [(np.zeros((0, factors[0].shape[1])), np.zeros((0, *n_columns[1:])))] * 3
    for factor, change in zip(factors, changes, strict=True):
        for level in (3, 2, 1):
            left_out = levels[level]
            chosen = _chosen(*levels[level - 1], factor, change)
            levels[level] = _compress(*(np.concatenate(pair) for pair in zip(left_out, chosen, strict=True)))
    joint, moved = levels[3]
    return compressed(joint @ starts + moved.sum(axis=1))


def _chosen(
    joint: np.ndarray, moved: np.ndarray, factor: np.ndarray, change: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """One more variable in the distribution: the product rule."""
    # i row so far, b bin, r component, q change
    product = moved[:, None, :, :] * factor[None, :, :, None] + joint[:, None, :, None] * change[None, :, :, :]
    rows, bins, rank, n_changes = product.shape
    return (joint[:, None, :] * factor).reshape(-1, rank), product.reshape(rows * bins, rank, n_changes)


def _compress(joint: np.ndarray, moved: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both arrays with their rows merged, and rotated together if there are more rows than columns."""
    rank, n_changes = moved.shape[-2:]
    joint = joint.reshape(-1, rank)
    moved = moved.reshape(len(joint), rank * n_changes)
    if len(joint) > rank * (1 + n_changes):
        both = compressed(np.hstack([joint, moved]))
        joint = both[:, :rank]
        moved = both[:, rank:]
    return joint, moved.reshape(len(joint), rank, n_changes)
