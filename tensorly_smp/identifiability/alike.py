"""Components that samples tell apart in one or two variables only, and which these are: such pairs have rivals."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from tensorly_smp.factors.mixture_factors import EMPTY_WEIGHT
from tensorly_smp.identifiability.issues import clip_names


@dataclass(frozen=True)
class AlikePair:
    """Two components that samples tell apart in at most two variables.

    Attributes
    ----------
    components : tuple of int
    apart : tuple of int
        At most two variables, those in which they differ most first; without these the two are alike.
    cost : float
        What one density in place of both would cost in the other variables, in nats.
    """

    components: tuple[int, int]
    apart: tuple[int, ...]
    cost: float


def separations(tables: Sequence[np.ndarray], weights: np.ndarray, n_samples: float) -> np.ndarray:
    """Evidence, by variable, that two components differ.

    For the affinity (Bhattacharyya) a = sum_i sqrt(p_i q_i) of two densities that describe m and n samples, it is
    4 m n / (m + n) (1 - a): to second order in their difference, the log-likelihood that one common density would lose.

    Parameters
    ----------
    tables : sequence of ndarray (n_cells, rank)
        Probabilities of the cells of every variable.
    weights : ndarray (rank,)
        Of the components.
    n_samples : float

    Returns
    -------
    ndarray (n_variables, rank, rank)
        In nats.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.identifiability.alike import separations
    >>> table = np.array([[0.5, 0.5, 1.0], [0.5, 0.5, 0.0]])
    >>> separations([table], np.full(3, 1 / 3), 300)[0].round(1)
    array([[ 0. ,  0. , 58.6],
           [ 0. ,  0. , 58.6],
           [58.6, 58.6,  0. ]])
    """
    counts = n_samples * np.maximum(weights, 1e-300)
    harmonic = 1.0 / (1.0 / counts[:, None] + 1.0 / counts)
    found = np.empty((len(tables), len(counts), len(counts)))
    for place, table in zip(found, tables, strict=True):
        roots = np.sqrt(table)
        place[:] = 4.0 * harmonic * np.clip(1.0 - roots.T @ roots, 0.0, 1.0)
    return found


def alike_pairs(separation: np.ndarray, weights: np.ndarray, allowed: float) -> list[AlikePair]:
    """Pairs of components that are alike in all variables but two, one or none; the nearest first.

    Parameters
    ----------
    separation : ndarray (n_variables, rank, rank)
        See :func:`separations`.
    weights : ndarray (rank,)
        Components without weight are left out.
    allowed : float
        Two components are alike in some variables if these are worth no more than this share of it together, in
        nats: so many of `allowed` as they are of all variables.

    Returns
    -------
    list of AlikePair
    """
    n_variables = len(separation)
    pairs = []
    for r, s in zip(*np.triu_indices(len(weights), 1), strict=True):
        if min(weights[r], weights[s]) < EMPTY_WEIGHT:
            continue
        order = np.argsort(-separation[:, r, s], kind="stable")
        rest = np.append(np.cumsum(separation[order[::-1], r, s])[::-1], 0.0)
        for n_apart in range(min(2, n_variables - 1) + 1):
            if rest[n_apart] <= allowed * (n_variables - n_apart) / n_variables:
                apart = tuple(order[:n_apart].tolist())
                pairs.append(AlikePair((int(r), int(s)), apart, float(rest[n_apart])))
                break
    return sorted(pairs, key=lambda pair: pair.cost)


def describe_alike(pair: AlikePair, names: Sequence[Hashable]) -> str:
    """Sentence about two components that are alike in all variables but one or two."""
    r, s = pair.components
    if not pair.apart:
        where = "in any variable"
    else:
        where = f"in any variable but {' and '.join(clip_names([names[n]]) for n in pair.apart)}"
    return f"Samples do not tell components {r} and {s} apart {where}: see rivals."
