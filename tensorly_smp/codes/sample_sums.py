"""Sums over samples by which they are known again, in whatever order, container or chunks they come."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

#: Names of the sums.
SUMS = ("weight", "entries", "cosine", "sine", "size", "double")
#: Values are no farther from the bins than so many of their ranges.
FARTHEST = 1e12
#: Entries that are summed up at a time.
BLOCK_ENTRIES = 2**20
#: Rounding of values, as a share of them: sixteen times that of the format, if the one or the other samples have been
#: in single precision, or neither.
OF_SINGLE, OF_DOUBLE = 1e-6, 4e-15
#: Rounding of weights, which may have been in single precision, and of the sums themselves, as a share of the weight.
OF_SUMS = 1e-7


def sample_sums(
    values: np.ndarray,
    weights: np.ndarray | None,
    edges: Sequence[np.ndarray],
    originals: np.ndarray | None = None,
    matrix: np.ndarray | None = None,
) -> np.ndarray:
    """Sums over samples that other samples have not.

    With z the position of a value between the first edge and the last, and q the sum of z over the variables, each
    with a factor of its own, these are the sums of weights, of observed entries, and of the cosine and the sine of q:
    the empirical characteristic function of the samples at one point. The last two say how far rounding can move q, and
    how many entries single precision would have rounded.

    Parameters
    ----------
    values : ndarray (n_samples, n_variables)
        NaN = missing.
    weights : ndarray (n_samples,) or None
    edges : sequence of ndarray (n_variables,)
        Bin edges.
    originals, matrix : ndarray (n_samples, n_variables), ndarray (n_variables, n_variables), optional
        What `values` were computed from, if they are linear combinations, and by which matrix.

    Returns
    -------
    ndarray (6,)
        In the order of `SUMS`. Those of parts add up to those of all.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.codes.sample_sums import sample_sums
    >>> values, edges = np.array([[0.0, 3.0], [1.0, np.nan]]), [np.array([0.0, 2.0])] * 2
    >>> found = sample_sums(values, None, edges)
    >>> found[:2], np.allclose(found, sample_sums(values[::-1], None, edges))
    (array([2., 3.]), True)
    """
    low, span, factors = _scales(edges)
    found = np.zeros(len(SUMS))
    step = max(1, BLOCK_ENTRIES // max(1, len(edges)))
    for start in range(0, len(values), step):
        rows = slice(start, start + step)
        block = values[rows]
        read = block if originals is None else originals[rows]
        own = np.ones(len(block)) if weights is None else weights[rows]
        present = ~np.isnan(block)
        sizes = np.abs(np.nan_to_num(read))
        with np.errstate(over="ignore"):
            if matrix is not None:
                sizes = sizes @ np.abs(matrix).T
            # Halves, since the difference of two floats need not be one.
            position = np.clip((block / 2 - low) / span - 0.5, -FARTHEST, FARTHEST)
            relative = np.minimum(sizes / 2 / span, FARTHEST)
            is_double = present & (read != read.astype(np.float32)) & (own > 0)[:, None]
        # Without BLAS, so that the same samples have the same sums to the last bit wherever they lie in memory.
        angle = np.einsum("mn,n->m", np.ascontiguousarray(np.where(present, position, 0.0)), factors)
        relative = np.ascontiguousarray(np.where(present, relative, 0.0))
        size = np.sqrt(np.einsum("mn,n->m", relative**2, factors**2))
        found += [
            own.sum(),
            (own * present.sum(axis=1)).sum(),
            (own * np.cos(angle)).sum(),
            (own * np.sin(angle)).sum(),
            (own * size).sum(),
            is_double.sum(),
        ]
    return found


def difference_of_samples(found: np.ndarray, recorded: np.ndarray) -> str | None:
    """Say how samples differ from those of a fit, by the sums of both, or return None.

    Parameters
    ----------
    found, recorded : ndarray (6,)
        As of :func:`sample_sums`, of the samples and of those of the fit.

    Returns
    -------
    str or None
        None also for the same samples in single precision.
    """
    total = recorded[0]
    if abs(found[0] - total) > OF_SINGLE * total:
        return f"the weights of samples sum to {found[0]:.6g}, in the fit to {total:.6g}"
    if abs(found[1] - recorded[1]) > OF_SINGLE * total:
        return f"{found[1]:.10g} entries are observed, in the fit {recorded[1]:.10g}"
    # By the size of the fit's own samples: that of others would excuse those that are far off.
    is_rounded = found[5] != recorded[5]
    allowed = (OF_SINGLE if is_rounded else OF_DOUBLE) * recorded[4] + OF_SUMS * total
    if np.abs(found[2:4] - recorded[2:4]).max() > allowed:
        return "their values are others than those of the fit"
    return None


def _scales(edges: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Halves of the first edges and of the ranges, and the factors, each (n_variables,)."""
    low, high = np.array([[each[0] / 2, each[-1] / 2] for each in edges]).T
    golden = (5**0.5 - 1) / 2
    factors = 0.5 + golden * np.arange(1, len(edges) + 1) % 1.0
    return low, high - low, 2 * np.pi / np.sqrt(len(edges)) * factors
