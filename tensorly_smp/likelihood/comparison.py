"""Comparison of two fits: agreement of their clusters, and how far samples tell which is nearer to the truth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

#: Largest total weight in an adjusted Rand index. Above it the index no longer changes in double precision.
MOST_PAIRED = 1e17
#: Clusterings that agree better than this (adjusted Rand index) count as one.
SAME_CLUSTERS = 0.99


def contingency(first: np.ndarray, second: np.ndarray, rank: int, weights: np.ndarray | None = None) -> np.ndarray:
    """(Weighted) number of samples (rank, rank) in every pair of clusters, of numbers (n_samples,) below `rank`."""
    return np.bincount(first * rank + second, weights, rank * rank).reshape(rank, rank)


def adjusted_rand(table: np.ndarray) -> float:
    """Adjusted Rand index of two clusterings, from the number of samples in every pair of clusters.

    scikit-learn's takes the samples themselves, which cannot have weights, and its integers overflow beyond some
    billions of them.

    Parameters
    ----------
    table : ndarray (n_clusters, n_clusters)

    Returns
    -------
    float
        One if they agree, around zero by chance.

    References
    ----------
    L. Hubert, P. Arabie, "Comparing partitions", Journal of Classification 2, 1985.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.likelihood.comparison import adjusted_rand
    >>> adjusted_rand(np.array([[0, 5], [3, 0]]))
    1.0
    """
    counts = np.asarray(table, dtype=float)
    total = counts.sum()
    if total > MOST_PAIRED:  # its square might overflow
        counts = counts / total * MOST_PAIRED
    together, of_rows, of_columns, every = (
        float((n * np.maximum(n - 1.0, 0.0) / 2.0).sum())
        for n in (counts, counts.sum(axis=1), counts.sum(axis=0), counts.sum())
    )
    by_chance = of_rows * of_columns / every if every else 0.0
    most = (of_rows + of_columns) / 2.0
    return 1.0 if most == by_chance else (together - by_chance) / (most - by_chance)


def distinct_clusterings(
    clusterings: Sequence[np.ndarray], rank: int, weights: np.ndarray | None = None, same: float = SAME_CLUSTERS
) -> list[int]:
    """Positions of the first of all clusterings (n_samples,) that agree to the adjusted Rand index `same`."""
    kept: list[int] = []
    for i, found in enumerate(clusterings):
        tables = (contingency(clusterings[j], found, rank, weights) for j in kept)
        if all(adjusted_rand(table) < same for table in tables):
            kept.append(i)
    return kept


def deviation_of_difference(first: np.ndarray, second: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """Standard deviation of the difference of two log-likelihoods, from sample to sample.

    The difference is a sum over samples. If both models are equally near to the truth, it is zero on average and
    nearly normal with this standard deviation; a smaller one says nothing about which is nearer.

    Parameters
    ----------
    first, second : ndarray (n_samples,)
        Log-densities of the samples under the two models.
    sample_weight : ndarray (n_samples,), optional
        Numbers of samples.

    Returns
    -------
    float
        In nats.

    References
    ----------
    Q. H. Vuong, "Likelihood ratio tests for model selection and non-nested hypotheses", Econometrica 57, 1989.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.likelihood.comparison import deviation_of_difference
    >>> deviation_of_difference(np.array([-1.0, -2.0, -1.0, -2.0]), np.array([-2.0, -1.0, -2.0, -1.0]))
    2.0
    """
    difference = first - second
    weights = np.ones(len(difference)) if sample_weight is None else sample_weight
    total = float(weights.sum())
    if total <= 0.0:
        return 0.0
    mean = float(weights @ difference) / total
    return float(np.sqrt(weights @ (difference - mean) ** 2))
