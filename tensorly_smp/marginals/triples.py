"""Lists of variable triples: all, a number of random ones, or given ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, combinations
from math import comb
from typing import Any

import numpy as np

from tensorly_smp._support.checks import is_integer, unmasked_rows
from tensorly_smp._support.randomness import RandomState, as_generator
from tensorly_smp._support.representations import reason, shown
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError


def all_triples(n_variables: int) -> np.ndarray:
    """All index triples j < k < l, in lexicographic order, as an integer array (n_triples, 3)."""
    indices = chain.from_iterable(combinations(range(n_variables), 3))
    return np.fromiter(indices, dtype=np.intp, count=3 * comb(n_variables, 3)).reshape(-1, 3)


def cells_of_all_triples(n_bins: Sequence[int]) -> float:
    """Cells of the histograms of all triples: the third elementary symmetric polynomial of the numbers of bins."""
    p1, p2, p3 = (sum(float(size) ** power for size in n_bins) for power in (1, 2, 3))
    return (p1**3 - 3.0 * p1 * p2 + 2.0 * p3) / 6.0


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
        order = np.lexsort((rng.random(n_variables), use_counts))  # least used first, ties at random
        triple = _first_unused(order, chosen)
        chosen.add(triple)
        use_counts[list(triple)] += 1
    return np.array(sorted(chosen), dtype=np.intp).reshape(-1, 3)


def _first_unused(order: np.ndarray, chosen: set[tuple[int, ...]]) -> tuple[int, ...]:
    """First triple not chosen yet, trying the variables that come first in ``order`` first."""
    # Ordered by the largest position, so that variables late in the order are drawn in as late as possible.
    for last in range(2, len(order)):
        for pair in combinations(range(last), 2):
            triple = tuple(sorted(int(order[position]) for position in (*pair, last)))
            if triple not in chosen:
                return triple
    raise InvalidInputError(f"All {len(chosen)} triples of {len(order)} variables are already chosen.")


def resolve_triples(
    triples: str | int | Iterable[Sequence[int]], n_variables: int, random_state: RandomState = None
) -> np.ndarray:
    """Triples from "all", a number of random ones, or a list; each sorted to j < k < l.

    Raises
    ------
    InvalidInputError
        Fewer than three variables, an index out of range or repeated, a triple given twice, a variable in no triple.
    InvalidTypeError
        ``triples`` is none of the three kinds.
    """
    if n_variables < 3:
        raise InvalidInputError(f"{n_variables} variables; at least three are needed: two leave factors undetermined.")
    if isinstance(triples, str) and triples == "all":
        return all_triples(n_variables)
    if isinstance(triples, str | bool | float):
        error = InvalidInputError if isinstance(triples, str) else InvalidTypeError
        raise error(f'triples is {shown(triples)}; expected "all", an integer or a list of index triples.')
    if is_integer(triples):
        fewest = -(-n_variables // 3)
        most = comb(n_variables, 3)
        if not fewest <= triples <= most:
            raise InvalidInputError(
                f"{shown(triples)} triples of {n_variables} variables; expected {fewest} (so that every variable is in "
                f"one) to {most} (all)."
            )
        return sample_triples(n_variables, int(triples), random_state)
    return _checked_list(triples, n_variables)


def _checked_list(triples: Any, n_variables: int) -> np.ndarray:
    try:
        array = np.asarray(unmasked_rows(list(triples)))
    except (TypeError, ValueError, ArithmeticError) as error:
        raise InvalidTypeError(f"triples must be a list of three variable indices each: {reason(error)}.") from error
    if array.ndim != 2 or array.shape[1] != 3 or len(array) == 0:
        raise InvalidInputError(f"triples has shape {array.shape}; expected (n_triples, 3) with at least one triple.")
    if array.dtype.kind not in "iu":
        raise InvalidTypeError(f"triples are of type {array.dtype}; expected integer variable indices.")
    if array.min() < 0 or array.max() >= n_variables:
        raise InvalidInputError(
            f"triples have indices from {array.min()} to {array.max()}; expected 0 to {n_variables - 1}."
        )
    array = np.sort(array.astype(np.intp), axis=1)
    repeated = (array[:, 0] == array[:, 1]) | (array[:, 1] == array[:, 2])
    if repeated.any():
        raise InvalidInputError(f"Triple {tuple(array[repeated][0].tolist())} names a variable twice.")
    if len(np.unique(array, axis=0)) < len(array):
        raise InvalidInputError("A triple is given twice; list each one once.")
    uncovered = sorted(set(range(n_variables)) - set(array.ravel().tolist()))
    if uncovered:
        raise InvalidInputError(f"Variables {uncovered} are in no triple, so their factors cannot be estimated.")
    return array
