"""Likeness of components: the variables in which two of them are hardly told apart, in a model and between two models.

The measure is the affinity (Bhattacharyya, 1943) of two distributions of cells, sum_i sqrt(p_i q_i). It stays what it
is if cells are split, or are as wide in another unit or coordinate of the variable, while the cosine of the
probabilities goes by the few cells where a skewed density is highest.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tensorly_smp.factors.mixture_factors import EMPTY_WEIGHT

# Unit columns count as dependent at a singular value of this; that of kruskal_rank in double precision.
TOLERANCE = float(np.finfo(np.float64).eps ** (2 / 3))
#: Cosine above which two densities are called nearly parallel. Two Gaussians of the same variance have densities of
#: cosine c, and the affinity sqrt(c).
PARALLEL_COSINE = 0.99


@dataclass(frozen=True)
class ComponentPair:
    """Two components that are alike in at least one variable.

    Attributes
    ----------
    components : tuple of int
    apart : tuple of int
        Variables in which they are not alike.
    equal : tuple of int
        Variables in which the columns are equal, to rounding unless another tolerance is given.
    n_variables : int
        Of the model.
    """

    components: tuple[int, int]
    apart: tuple[int, ...]
    equal: tuple[int, ...]
    n_variables: int

    @property
    def near(self) -> tuple[int, ...]:
        """Variables in which they are alike."""
        return tuple(n for n in range(self.n_variables) if n not in self.apart)

    @property
    def is_near_degenerate(self) -> bool:
        """Apart in at most two variables: exactly equal columns in the others would not be identifiable."""
        return len(self.apart) <= 2

    @property
    def is_degenerate(self) -> bool:
        """Different in at most two variables, so not identifiable."""
        return self.n_variables - len(self.equal) <= 2

    def n_free_directions(self, n_bins: Sequence[int]) -> int:
        """Free directions that this pair alone causes.

        Equal everywhere, the two can share their weight at will, and part in opposite directions in every variable:
        1 + sum (I_n - 1). Different in one variable of I bins, only their mean column there is determined: I. Different
        in two, their joint histogram is a matrix of rank 2, which has a two-dimensional family of factorizations.
        """
        apart = [n for n in range(self.n_variables) if n not in self.equal]
        if len(apart) > 2:
            return 0
        return 1 + sum(size - 1 for size in n_bins) if not apart else (int(n_bins[apart[0]]) if len(apart) == 1 else 2)


def affinity(first: np.ndarray, second: np.ndarray | None = None) -> np.ndarray:
    """Affinities of the columns of one table of probabilities, or of those of two.

    Parameters
    ----------
    first : ndarray (n_cells, rank)
        Columns sum to one.
    second : ndarray (n_cells, other_rank), optional
        Default: the first.

    Returns
    -------
    ndarray (rank, other_rank)
        From zero to one.
    """
    roots = np.sqrt(np.maximum(first, 0.0))
    others = roots if second is None else np.sqrt(np.maximum(second, 0.0))
    return np.clip(roots.T @ others, 0.0, 1.0)


def nearly_parallel_pairs(
    tables: Sequence[np.ndarray], cosine: float = PARALLEL_COSINE, tolerance: float = TOLERANCE
) -> tuple[ComponentPair, ...]:
    """Pairs of components with nearly parallel columns, those parallel in most variables first.

    Parameters
    ----------
    tables : sequence of ndarray (n_cells[n], rank)
        Probabilities of bins or of fine cells.
    cosine : float
        The affinity has to be above its square root.
    tolerance : float
        Two columns are equal if the smaller singular value of both, scaled to unit length, is at most this.

    Returns
    -------
    tuple of ComponentPair
    """
    first, second = np.triu_indices(tables[0].shape[1], 1)
    near = np.zeros((len(tables), len(first)), dtype=bool)
    equal = np.zeros_like(near)
    for n, table in enumerate(tables):
        unit = table / np.linalg.norm(table, axis=0)
        # A cosine of one says equal to half of the digits only; the difference says it to all.
        (close,) = np.nonzero((unit.T @ unit)[first, second] > 1 - max(1e-8, 2 * tolerance**2))
        difference = np.linalg.norm(unit[:, first[close]] - unit[:, second[close]], axis=0)
        equal[n, close] = difference <= 2**0.5 * tolerance
        near[n] = (affinity(table)[first, second] > cosine**0.5) | equal[n]
    counts = near.sum(axis=0)
    order = [p for p in np.argsort(-counts, kind="stable") if counts[p]]
    return tuple(
        ComponentPair(
            (int(first[p]), int(second[p])),
            tuple(np.flatnonzero(~near[:, p]).tolist()),
            tuple(np.flatnonzero(equal[:, p]).tolist()),
            len(tables),
        )
        for p in order
    )


def separations(tables: Sequence[np.ndarray], weights: np.ndarray, n_samples: float) -> np.ndarray:
    """Evidence, by variable, that two components differ.

    For the affinity a of two densities that describe m and n samples, it is 4 m n / (m + n) (1 - a): to second order in
    their difference, the log-likelihood that one common density would lose.

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
    >>> from tensorly_smp.identifiability.likeness import separations
    >>> table = np.array([[0.5, 0.5, 1.0], [0.5, 0.5, 0.0]])
    >>> separations([table], np.full(3, 1 / 3), 300)[0].round(1)
    array([[ 0. ,  0. , 58.6],
           [ 0. ,  0. , 58.6],
           [58.6, 58.6,  0. ]])
    """
    counts = n_samples * np.maximum(weights, 1e-300)
    harmonic = 1.0 / (1.0 / counts[:, None] + 1.0 / counts)
    return np.stack([4.0 * harmonic * (1.0 - affinity(table)) for table in tables])


def alike_pairs(separation: np.ndarray, weights: np.ndarray, allowed: float) -> list[ComponentPair]:
    """Pairs of components that samples do not tell apart in all variables but two, one or none; the nearest first.

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
    list of ComponentPair
        The variable in which they differ most is the first of those in which they are apart.
    """
    n_variables = len(separation)
    costs: dict[ComponentPair, float] = {}
    for r, s in zip(*np.triu_indices(len(weights), 1), strict=True):
        if min(weights[r], weights[s]) < EMPTY_WEIGHT:
            continue
        order = np.argsort(-separation[:, r, s], kind="stable")
        rest = np.append(np.cumsum(separation[order[::-1], r, s])[::-1], 0.0)
        for n_apart in range(min(2, n_variables - 1) + 1):
            if rest[n_apart] <= allowed * (n_variables - n_apart) / n_variables:
                pair = ComponentPair((int(r), int(s)), tuple(order[:n_apart].tolist()), (), n_variables)
                costs[pair] = float(rest[n_apart])
                break
    return sorted(costs, key=costs.__getitem__)


def describe_pair(
    pair: ComponentPair, names: Sequence[Hashable], numbers: Sequence[int] | np.ndarray, advise: bool = True
) -> str:
    """Sentence about two components, with or without what to do about them.

    Parameters
    ----------
    pair : ComponentPair
    names : sequence of hashable
        Those of the variables.
    numbers : sequence of int
        Those of the components.
    advise : bool
    """
    r, s = (int(numbers[c]) for c in pair.components)
    alike = "equal" if len(pair.equal) == len(pair.near) else "nearly equal"
    if not pair.apart:
        where = f"all {pair.n_variables} variables"
    elif pair.is_near_degenerate:
        where = f"all variables but {' and '.join(clip_names([names[n]]) for n in pair.apart)}"
    else:
        where = f"{len(pair.near)} of {pair.n_variables} variables ({clip_names([names[n] for n in pair.near])})"
    advice = ""
    if advise and pair.is_degenerate:
        advice = ": no histogram can tell what belongs to which. Use fewer components"
    elif advise and pair.is_near_degenerate:
        advice = ": from samples they are hardly told apart. Use fewer components"
    return f"Components {r} and {s} are {alike} in {where}{advice}."


def clip_names(names: Iterable[Hashable], width: int = 40) -> str:
    """Names in a row, as many as fit."""
    shown = [" ".join(str(name).split()) for name in names]
    text = ", ".join(shown)
    if len(text) <= width:
        return text
    kept = len(shown)
    while kept > 1 and len(text) > width:
        kept -= 1
        text = f"{', '.join(shown[:kept])}, ... ({len(shown)})"
    return text if len(text) <= 2 * width else f"{text[: width - 3]}..."
