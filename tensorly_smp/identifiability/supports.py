"""Uniqueness that zeros force: factors of any sign may move where non-negative ones cannot.

A component is positive on a box of cells, the product of the supports of its columns, and all boxes lie inside the
cells where the joint distribution is positive. Let every component r have a cell e_r in its box such that, for
s different from r, no box inside the positive cells holds both e_s and a cell of a line through e_r (a cell that
differs from e_r in one variable at most, e_r among them). Then any other R non-negative components have R boxes that
cover e_1, ..., e_R, no two of these in one box: one each. The box with e_r is the only one that reaches the lines
through e_r, so that the distribution there is that of one component alone. Its values along a line are the column of
that component up to scale, and its value at e_r is the weight: there is no choice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from tensorly_smp.identifiability.known import Known

# Sets of variables that are looked at, and variables in which two cells may differ for all cells between them to be.
_TRIED_SETS, _MOST_APART = 200, 10


def forced_variables(weights: np.ndarray, factors: Sequence[np.ndarray], known: Known) -> tuple[int, ...]:
    """A known set of variables whose zeros make their factors and the weights unique among non-negative ones.

    Parameters
    ----------
    weights : ndarray (rank,)
        All positive, or nothing is found.
    factors : sequence of ndarray (n_bins[n], rank)
    known : Known

    Returns
    -------
    tuple of int
        Empty if no such set was found; there may be one all the same.
    """
    if weights.min() <= 0 or not any((factor == 0).any() for factor in factors):
        return ()
    supports = [factor > 0 for factor in factors]
    for variables in _candidates(supports, known):
        if _is_forced([supports[n] for n in variables]):
            return variables
    return ()


def _candidates(supports: Sequence[np.ndarray], known: Known) -> Iterator[tuple[int, ...]]:
    """Pairs and triples of variables with zeros that are known together, and whole patterns."""
    margins = known.margins or (tuple(range(len(supports))),)
    largest = 3 if known.margins is None else len(supports)
    tried: dict[tuple[int, ...], None] = {}
    for margin in margins:
        zeros = [n for n in margin if not supports[n].all()]
        sets = [c for size in (2, 3) for c in combinations(zeros, size)]
        if len(zeros) <= largest:
            sets.append(tuple(zeros))
        for variables in sets:
            if variables and variables not in tried:
                tried[variables] = None
                yield variables
            if len(tried) >= _TRIED_SETS:
                return


def _is_forced(supports: Sequence[np.ndarray]) -> bool:
    """The condition of the module for one joint distribution, with one choice of the cells e_r."""
    rank = supports[0].shape[1]
    # n variable, r component: the bin of the component that fewest components share
    cells = np.array([np.where(s, s.sum(axis=1, keepdims=True), rank + 1).argmin(axis=0) for s in supports])
    for r in range(rank):
        lines = [cells[:, r]]
        for n, support in enumerate(supports):
            for i in range(len(support)):
                line = cells[:, r].copy()
                line[n] = i
                lines.append(line)
        for line in lines:
            if not _is_positive(line[:, None], supports)[0]:
                continue
            if any(_share_a_box(line, cells[:, s], supports) for s in range(rank) if s != r):
                return False
    return True


def _share_a_box(first: np.ndarray, second: np.ndarray, supports: Sequence[np.ndarray]) -> bool:
    """True unless a cell between the two, each of its bins being one of theirs, is certainly zero."""
    (apart,) = np.nonzero(first != second)
    if len(apart) > _MOST_APART:
        return True
    choices = (np.arange(2 ** len(apart))[None, :] >> np.arange(len(apart))[:, None]) & 1
    between = np.repeat(first[:, None], choices.shape[1], axis=1)
    between[apart] = np.where(choices, second[apart, None], first[apart, None])
    return bool(_is_positive(between, supports).all())


def _is_positive(cells: np.ndarray, supports: Sequence[np.ndarray]) -> np.ndarray:
    """True (n_cells,) for the cells (n_variables, n_cells) where some component is positive."""
    inside = np.ones((cells.shape[1], supports[0].shape[1]), dtype=bool)
    for support, bins in zip(supports, cells, strict=True):
        inside &= support[bins]
    return np.logical_or.reduce(inside, axis=1)
