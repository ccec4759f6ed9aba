"""One pass over the parts of chunked samples: what has to be known of all of them before a fit."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tensorly_smp.codes.values import evenly_spaced, ranges


@dataclass(frozen=True, eq=False)
class Survey:
    """Summary of some of the samples, needed before a fit.

    Attributes
    ----------
    subsample : ndarray (n_kept, n_variables)
        Evenly spaced ones among all.
    subsample_weights : ndarray (n_kept,) or None
    counted, every : ndarray (2, n_variables)
        Ranges of those of positive weight, and of all.
    infinite : ndarray of bool (n_variables,)
    total_weight, largest_weight : float
    are_weights_usable : bool
    """

    subsample: np.ndarray
    subsample_weights: np.ndarray | None
    counted: np.ndarray
    every: np.ndarray
    infinite: np.ndarray
    total_weight: float
    largest_weight: float
    are_weights_usable: bool


def survey_part(values: np.ndarray, weights: np.ndarray | None, first: int, n_samples: int) -> Survey:
    """Survey a part whose first sample has this position among all."""
    rows = evenly_spaced(n_samples, values.shape[1])
    rows = rows[np.searchsorted(rows, first) : np.searchsorted(rows, first + len(values))] - first
    every = ranges(values)
    if weights is None:
        return Survey(
            subsample=values[rows],
            subsample_weights=None,
            counted=every,
            every=every,
            infinite=np.isinf(every).any(axis=0),
            total_weight=float(len(values)),
            largest_weight=1.0,
            are_weights_usable=True,
        )
    usable = bool((weights >= 0).all() and np.isfinite(weights).all())
    with np.errstate(over="ignore"):  # which is refused later
        total = float(weights.sum()) if usable else np.nan
    return Survey(
        subsample=values[rows],
        subsample_weights=weights[rows],
        counted=ranges(values[weights > 0]),
        every=every,
        infinite=np.isinf(every).any(axis=0),
        total_weight=total,
        largest_weight=float(weights.max(initial=0.0)) if usable else np.nan,
        are_weights_usable=usable,
    )


def merge_surveys(surveys: list[Survey]) -> Survey:
    """Merge surveys of several parts into one."""
    weighted = surveys[0].subsample_weights is not None
    return replace(
        surveys[0],
        subsample=np.concatenate([survey.subsample for survey in surveys]),
        subsample_weights=np.concatenate([survey.subsample_weights for survey in surveys]) if weighted else None,
        counted=_hull([survey.counted for survey in surveys]),
        every=_hull([survey.every for survey in surveys]),
        infinite=np.any([survey.infinite for survey in surveys], axis=0),
        total_weight=sum(survey.total_weight for survey in surveys),
        largest_weight=max(survey.largest_weight for survey in surveys),
        are_weights_usable=all(survey.are_weights_usable for survey in surveys),
    )


def _hull(found: list[np.ndarray]) -> np.ndarray:
    stacked = np.stack(found)
    return np.stack([np.fmin.reduce(stacked[:, 0]), np.fmax.reduce(stacked[:, 1])])
