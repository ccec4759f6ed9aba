"""Components of next to no weight."""

from __future__ import annotations

import numpy as np

from tensorly_smp.exceptions import EmptyComponentWarning

#: A component with less weight than this has no columns to speak of.
EMPTY_WEIGHT = 1e-6


def empty_component_warning(weights: np.ndarray, advice: str) -> EmptyComponentWarning | None:
    """A warning that names the components of next to no weight; None if there are none.

    Parameters
    ----------
    weights : ndarray (rank,)
    advice : str
        What to try.
    """
    empty = np.flatnonzero(np.asarray(weights) < EMPTY_WEIGHT)
    if not len(empty):
        return None
    return EmptyComponentWarning(
        f"Components {empty.tolist()} are empty (weight below {EMPTY_WEIGHT}), so their columns are arbitrary. {advice}"
    )
