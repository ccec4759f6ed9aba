"""Components of next to no weight."""

from __future__ import annotations

import numpy as np

from tensorly_smp.exceptions import EmptyComponentWarning

#: A component with less weight than this has no columns to speak of.
EMPTY_WEIGHT = 1e-6


def empty_component_warning(weights: np.ndarray, advice: str) -> EmptyComponentWarning | None:
    """A warning of components of next to no weight, by their number, whatever their order; None if there are none.

    Parameters
    ----------
    weights : ndarray (rank,)
    advice : str
        What to try.
    """
    n_empty = int(np.count_nonzero(np.asarray(weights) < EMPTY_WEIGHT))
    if not n_empty:
        return None
    verb, whose = ("is", "its") if n_empty == 1 else ("are", "their")
    return EmptyComponentWarning(
        f"{n_empty} of {len(weights)} components {verb} empty (weight below {EMPTY_WEIGHT}), so {whose} densities are "
        f"arbitrary. {advice}"
    )
