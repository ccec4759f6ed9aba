"""Densities of one mixed variable: a weighted sum of independent sources in every component, by convolution."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorly_smp.densities.background import StudentBackground
from tensorly_smp.densities.grid import ConditionalDensities, GridConditionals

#: Cells of the grid, and how many standard deviations it reaches beyond the means of the components.
N_CELLS, REACH = 4096, 9.0
#: Share of the Student background, for what lies beyond the grid.
SHARE = 1e-4


def project(sources: Sequence[ConditionalDensities], coefficients: np.ndarray) -> GridConditionals:
    """Densities of sum_n coefficients_n z_n for independent z_n with given densities, of every component.

    Parameters
    ----------
    sources : sequence of ConditionalDensities (n,)
    coefficients : ndarray (n,)
        Not all zero.

    Returns
    -------
    GridConditionals
        Numeric: exact up to the width of a cell, a few thousandths of a standard deviation.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> from tensorly_smp.dependence.projections import project
    >>> X = smp.datasets.make_smooth_mixture("gaussian", 2000, 3, 2, random_state=0).X
    >>> density = smp.SmoothProductMixture(2, random_state=0).fit(X).density_
    >>> total = project(density.conditionals, np.ones(3))
    >>> bool(np.allclose(total.mean(), density.mean("all").sum(axis=0), rtol=1e-3))
    True
    """
    used = [(each, a) for each, a in zip(sources, coefficients.tolist(), strict=True) if a]
    means = sum(a * each.mean() for each, a in used)
    variances = sum(a * a * each.variance() for each, a in used)
    spread = np.sqrt(np.asarray(variances))
    low = float((means - REACH * spread).min())
    high = float((means + REACH * spread).max())
    width = (high - low) / N_CELLS
    rank = used[0][0].rank
    masses = np.empty((N_CELLS, rank))
    for r in range(rank):
        # Each source on cells about its own mean, so that no sum leaves the circle of the transform.
        transform = np.ones(N_CELLS // 2 + 1, dtype=complex)
        for each, a in used:
            edges = a * each.mean()[r] + width * (np.arange(N_CELLS + 1) - 0.5 * N_CELLS)
            below = each.cdf(edges / a)[:, r]
            below = below if a > 0 else 1.0 - below
            below[0], below[-1] = 0.0, 1.0
            transform = transform * np.fft.rfft(np.fft.ifftshift(np.diff(below)))
        total = np.fft.fftshift(np.fft.irfft(transform, N_CELLS))
        # A cell of the sum is centered half a cell beside the mean for every source: positions add up, cells are
        # counted from the middle.
        centers = means[r] + width * (np.arange(N_CELLS) - 0.5 * N_CELLS + 0.5 * len(used))
        wanted = low + width * (np.arange(N_CELLS) + 0.5)
        masses[:, r] = np.interp(wanted, centers, np.maximum(total, 0.0), left=0.0, right=0.0)
    masses /= masses.sum(axis=0)
    knots = np.arange(N_CELLS) + 0.5
    background = StudentBackground.matching((means - low) / width, 9.0 * variances / width**2)
    return GridConditionals.from_knots(low, width, knots, masses + 1e-300, background, SHARE)
