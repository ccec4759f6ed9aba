"""Random factors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorly_smp.factors.mixture_factors import MixtureFactors


def random_start(
    n_bins: Sequence[int], rank: int, rng: np.random.Generator, univariate_marginals: Sequence[np.ndarray] | None = None
) -> MixtureFactors:
    """Equal weights and columns drawn from the uniform distribution on the simplex, times the overall histogram.

    Parameters
    ----------
    n_bins : sequence of int
    rank : int
    rng : Generator
    univariate_marginals : sequence of ndarray (n_bins[n],), optional
        Overall histogram of each variable: a column then has more mass where there are more samples.

    Returns
    -------
    MixtureFactors
    """
    columns = []
    for n, size in enumerate(n_bins):
        column = rng.standard_exponential((size, rank))
        if univariate_marginals is not None:
            column *= univariate_marginals[n][:, None] + 1e-3 / size
        columns.append(column / column.sum(axis=0))
    return MixtureFactors(np.full(rank, 1.0 / rank), tuple(columns))
