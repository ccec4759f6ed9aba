"""Triples of variables: all of them, random ones that use every variable evenly, or a list that is checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, combinations
from math import comb
from typing import Any

import numpy as np

from tensorly_smp._support.checks import RandomState, as_generator, checked_triples, is_integer
from tensorly_smp._support.representations import shown
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError


def symmetric_sums(values: Iterable[Any]) -> tuple[Any, Any, Any]:
    """Elementary symmetric polynomials: sums of the values, of products of two, of products of three."""
    e1: Any = 0
    e2: Any = 0
    e3: Any = 0
    for value in values:
        e3 = e3 + value * e2
        e2 = e2 + value * e1
        e1 = e1 + value
    return e1, e2, e3


def sample_triples(n_variables: int, n_triples: int, random_state: RandomState = None) -> np.ndarray:
    """Random triples that use every variable (almost) equally often.

    A fixed stride through the lexicographic list covers variables unevenly. Here shuffled variable lists are cut in
    threes, so that two variables' counts differ by one, or by a few where almost no triple is left to choose from.

    Parameters
    ----------
    n_variables : int
    n_triples : int
        At most C(n_variables, 3).
    random_state : None, int, Generator or RandomState

    Returns
    -------
    triples : ndarray of int (n_triples, 3)
        Distinct, each with j < k < l, in lexicographic order.
    """
    n_possible = comb(n_variables, 3)
    if 2 * n_triples > n_possible:
        # The rest of an even selection is even, and choosing the smaller part rarely meets a triple twice.
        dropped = {tuple(t) for t in sample_triples(n_variables, n_possible - n_triples, random_state)}
        kept = [t for t in combinations(range(n_variables), 3) if t not in dropped]
        return np.array(kept, dtype=np.intp).reshape(-1, 3)
    rng = as_generator(random_state)
    chosen: set[tuple[int, ...]] = set()
    use_counts = np.zeros(n_variables, dtype=int)
    while len(chosen) < n_triples:
        order = np.lexsort((rng.random(n_variables), use_counts)).tolist()  # least used first, ties at random
        # By the largest position, so that variables late in the order are drawn in as late as possible.
        candidates = (
            tuple(sorted((*pair, order[last])))
            for last in range(2, n_variables)
            for pair in combinations(order[:last], 2)
        )
        triple = next(candidate for candidate in candidates if candidate not in chosen)
        chosen.add(triple)
        use_counts[list(triple)] += 1
    return np.array(sorted(chosen), dtype=np.intp).reshape(-1, 3)


def resolve_triples(
    triples: str | int | Iterable[Sequence[int]], n_variables: int, random_state: RandomState = None
) -> np.ndarray:
    """Triples from "all", a number of random ones, or a list; each sorted to j < k < l.

    All are in lexicographic order, random ones too; a list keeps its order.

    Raises
    ------
    InvalidInputError
        Fewer than three variables, an index out of range or repeated, a triple given twice, a variable in no triple.
    InvalidTypeError
        ``triples`` is none of the three kinds.
    """
    if n_variables < 3:
        raise InvalidInputError(f"{n_variables} variables; at least three are needed: two leave factors undetermined.")
    most = comb(n_variables, 3)
    if isinstance(triples, str) and triples == "all":
        indices = chain.from_iterable(combinations(range(n_variables), 3))
        return np.fromiter(indices, dtype=np.intp, count=3 * most).reshape(-1, 3)
    if isinstance(triples, str | bool | float):
        error = InvalidInputError if isinstance(triples, str) else InvalidTypeError
        raise error(f'triples is {shown(triples)}; expected "all", an integer or a list of index triples.')
    if is_integer(triples):
        fewest = -(-n_variables // 3)
        if not fewest <= triples <= most:
            raise InvalidInputError(
                f"{shown(triples)} triples of {n_variables} variables; expected {fewest} (so that every variable is in "
                f"one) to {most} (all)."
            )
        return sample_triples(n_variables, int(triples), random_state)
    array = np.sort(checked_triples(triples, "triples"), axis=1)
    if array[:, 0].min() < 0 or array[:, 2].max() >= n_variables:
        raise InvalidInputError(
            f"triples have indices from {array.min()} to {array.max()}; expected 0 to {n_variables - 1}."
        )
    if len(np.unique(array, axis=0)) < len(array):
        raise InvalidInputError("A triple is given twice; list each one once.")
    uncovered = sorted(set(range(n_variables)) - set(array.ravel().tolist()))
    if uncovered:
        raise InvalidInputError(f"Variables {uncovered} are in no triple, so their factors cannot be estimated.")
    return array
