"""Some of the samples in place of all, where a choice needs no more: evenly spaced ones, and the extremes."""

from __future__ import annotations

import numpy as np

#: Samples that choices before a fit are made from, if there are more: a share of them is off by 0.16 % at most (one
#: standard error).
MOST_ROWS = 100_000
#: Of more variables than 500, only so many that they have this number of entries, or ten thousand: 0.5 % at most.
MOST_ENTRIES = 50_000_000
LEAST_ROWS = 10_000


def evenly_spaced(n_samples: int, n_variables: int) -> np.ndarray:
    """Positions of all samples, or of 100 000 evenly spaced ones; of many variables fewer.

    By position, so that they are the same whatever chunks the samples come in.

    Parameters
    ----------
    n_samples, n_variables : int

    Returns
    -------
    ndarray of int (n_kept,)

    Examples
    --------
    >>> from tensorly_smp.codes.thinning import evenly_spaced
    >>> evenly_spaced(3, 10), evenly_spaced(250_000, 10)[:4], len(evenly_spaced(250_000, 1000))
    (array([0, 1, 2]), array([0, 2, 5, 7]), 50000)
    """
    most = min(MOST_ROWS, max(LEAST_ROWS, MOST_ENTRIES // n_variables))
    return at_most(n_samples, most)


def at_most(n_samples: int, most: int) -> np.ndarray:
    """Positions (n_kept,) of all samples, or of so many evenly spaced ones."""
    return np.arange(n_samples) if n_samples <= most else np.arange(most) * n_samples // most


def thinned(values: np.ndarray, sample_weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Evenly spaced samples of positive weight, and their weights; all evenly spaced ones where there is none.

    By position too, so that a sample is kept or not whatever its weight: a weighted mean of those kept is one of all.

    Parameters
    ----------
    values : ndarray (n_samples, n_variables)
    sample_weight : ndarray (n_samples,) or None

    Returns
    -------
    values : ndarray (n_kept, n_variables)
    sample_weight : ndarray (n_kept,) or None
        None also where no weight is positive.
    """
    rows = evenly_spaced(*values.shape)
    if len(rows) == len(values):
        return of_positive_weight(values, sample_weight)
    return of_positive_weight(values[rows], None if sample_weight is None else np.asarray(sample_weight)[rows])


def of_positive_weight(values: np.ndarray, sample_weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Samples that count, and their weights; all of them, and no weights, where none does."""
    if sample_weight is None:
        return values, None
    weights = np.asarray(sample_weight)
    counted = weights > 0
    if counted.all():
        return values, weights
    return (values[counted], weights[counted]) if counted.any() else (values, None)


def ranges(values: np.ndarray) -> np.ndarray:
    """Smallest and largest value of every variable, (2, n_variables); NaN where there is none.

    Parameters
    ----------
    values : ndarray (n_samples, n_variables)
        NaN = missing.
    """
    found = np.full((2, values.shape[1]), np.nan)
    if len(values):
        # fmin and fmax pass over NaN, and say nothing where there is nothing else.
        found[0] = np.fmin.reduce(values)
        found[1] = np.fmax.reduce(values)
    return found


def representative(values: np.ndarray, sample_weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Samples from which bins, cells and kinds of variables are chosen: all, or evenly spaced ones and the extremes.

    Parameters
    ----------
    values : ndarray (n_samples, n_variables)
        NaN = missing.
    sample_weight : ndarray (n_samples,) or None

    Returns
    -------
    values : ndarray (n_kept, n_variables)
    sample_weight : ndarray (n_kept,) or None
    """
    rows = evenly_spaced(*values.shape)
    if len(rows) == len(values) or (sample_weight is not None and np.shape(sample_weight) != (len(values),)):
        return values, sample_weight
    if sample_weight is None:
        return with_extremes(values[rows], None, ranges(values), ranges(values[:0]))
    weights = np.asarray(sample_weight)
    return with_extremes(values[rows], weights[rows], ranges(values[weights > 0]), ranges(values))


def with_extremes(
    values: np.ndarray, sample_weight: np.ndarray | None, counted: np.ndarray, every: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
    """Samples, and below them the ends of the ranges of all that they stand for.

    Parameters
    ----------
    values : ndarray (n_kept, n_variables)
    sample_weight : ndarray (n_kept,) or None
    counted : ndarray (2, n_variables)
        Ranges of the samples of positive weight; they get the mean weight.
    every : ndarray (2, n_variables)
        Ranges of all samples; with weights, they get none.

    Returns
    -------
    values : ndarray
    sample_weight : ndarray or None
    """
    if sample_weight is None:
        return np.concatenate([values, counted]), None
    mean = sample_weight.mean() if (sample_weight > 0).any() else 1.0
    return np.concatenate([values, counted, every]), np.concatenate([sample_weight, [mean, mean, 0.0, 0.0]])
