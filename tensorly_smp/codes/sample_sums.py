"""Sums over samples by which they are known again, in whatever order, container or chunks they come."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

#: Names of the sums.
SUMS = ("weight", "entries", "cosine", "sine", "size")
#: Values are no farther from the bins than so many of their ranges.
FARTHEST = 1e9
#: Entries that are summed up at a time.
BLOCK_ENTRIES = 2**20
#: Rounding that samples may have gone through, in shares of a value: that of single precision, sixteen times.
ROUNDING = 1e-6
#: Rounding of the sums themselves, in shares of the weight.
ROUNDING_OF_SUMS = 1e-9


def sample_sums(
    values: np.ndarray, weights: np.ndarray | None, edges: Sequence[np.ndarray], sizes: np.ndarray | None = None
) -> np.ndarray:
    """Sums over samples that other samples have not.

    With z the position of a value between the first edge and the last, and q the sum of z over the variables, each
    with a factor of its own, these are the sums of weights, of observed entries, and of the cosine and the sine of q:
    the empirical characteristic function of the samples at one point. The last one says how far rounding can move q.

    Parameters
    ----------
    values : ndarray (n_samples, n_variables)
        NaN = missing.
    weights : ndarray (n_samples,) or None
    edges : sequence of ndarray (n_variables,)
        Bin edges.
    sizes : ndarray (n_samples, n_variables), optional
        Absolute values that rounding is a share of, if these are not those of `values`.

    Returns
    -------
    ndarray (5,)
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
        block = values[start : start + step]
        own = np.ones(len(block)) if weights is None else weights[start : start + step]
        present = ~np.isnan(block)
        own_sizes = np.abs(block) if sizes is None else sizes[start : start + step]
        with np.errstate(over="ignore"):
            # Halves, since the difference of two floats need not be one.
            position = np.clip((block / 2 - low) / span - 0.5, -FARTHEST, FARTHEST)
            relative = np.minimum(own_sizes / 2 / span, FARTHEST)
        angle = np.where(present, position, 0.0) @ factors
        size = np.sqrt((np.where(present, relative, 0.0) ** 2) @ factors**2)
        found += own.sum(), own @ present.sum(axis=1), own @ np.cos(angle), own @ np.sin(angle), own @ size
    return found


def difference_from_fit(
    recorded: np.ndarray, values: np.ndarray, weights: np.ndarray | None, edges: Sequence[np.ndarray]
) -> str | None:
    """Say how samples differ from those with the recorded sums, or return None.

    Parameters
    ----------
    recorded : ndarray (5,)
        As of :func:`sample_sums`.
    values, weights, edges
        As of :func:`sample_sums`.

    Returns
    -------
    str or None
        None also for the same samples in single precision.
    """
    found = sample_sums(values, weights, edges)
    total = recorded[0]
    if abs(found[0] - total) > ROUNDING * total:
        return f"the weights of samples sum to {found[0]:.6g}, in the fit to {total:.6g}"
    if abs(found[1] - recorded[1]) > ROUNDING * total:
        return f"{found[1]:.10g} entries are observed, in the fit {recorded[1]:.10g}"
    # The size of these samples would excuse those that are far off.
    allowed = ROUNDING * recorded[4] + ROUNDING_OF_SUMS * total
    if np.abs(found[2:4] - recorded[2:4]).max() > allowed:
        return "their values are others than those of the fit"
    return None


def _scales(edges: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Halves of the first edges and of the ranges, and the factors, each (n_variables,)."""
    low, high = np.array([[each[0] / 2, each[-1] / 2] for each in edges]).T
    golden = (5**0.5 - 1) / 2
    factors = 0.5 + golden * np.arange(1, len(edges) + 1) % 1.0
    return low, high - low, 2 * np.pi / np.sqrt(len(edges)) * factors
