"""Doubts about a model: too many parameters, variables that nothing links, components that are hardly told apart."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from tensorly_smp._support.checks import is_integer
from tensorly_smp._support.representations import shown
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.factors.mixture_factors import EMPTY_WEIGHT, MixtureFactors
from tensorly_smp.identifiability.bounds import Criterion, max_identifiable_rank
from tensorly_smp.identifiability.known import Known, KnownName
from tensorly_smp.identifiability.stacked import TOLERANCE, complete_partitions
from tensorly_smp.marginals.triples import resolve_triples

#: Cosine above which two columns are called nearly parallel.
PARALLEL_COSINE = 0.99
#: The same of the square roots of the probabilities of fine cells, sum_i sqrt(p_i q_i). This affinity (Bhattacharyya,
#: 1943) stays what it is if cells are split, or are as wide in another unit or coordinate of the variable, while the
#: cosine of the probabilities themselves goes by the few cells where a skewed density is highest. Two Gaussians of the
#: same variance have densities of cosine c and square roots of cosine sqrt(c), so that the threshold means the same.
PARALLEL_AFFINITY = PARALLEL_COSINE**0.5
_SHOWN = 3


@dataclass(frozen=True)
class ComponentPair:
    """Two components with a nearly parallel column in at least one variable.

    Attributes
    ----------
    components : tuple of int
    near : tuple of int
        Variables in which the cosine of their columns exceeds the threshold.
    equal : tuple of int
        Those of them in which the columns are equal, to rounding unless another tolerance is given.
    n_variables : int
        Of the model.
    """

    components: tuple[int, int]
    near: tuple[int, ...]
    equal: tuple[int, ...]
    n_variables: int

    @property
    def is_near_degenerate(self) -> bool:
        """Apart in at most two variables: exactly equal columns in the others would not be identifiable."""
        return self.n_variables - len(self.near) <= 2

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


def nearly_parallel_pairs(
    factors: Sequence[np.ndarray], threshold: float = PARALLEL_COSINE, tolerance: float = TOLERANCE
) -> tuple[ComponentPair, ...]:
    """Pairs of components with nearly parallel columns, those parallel in most variables first.

    Parameters
    ----------
    factors : sequence of ndarray (n_bins[n], rank)
    threshold : float
        Cosine.
    tolerance : float
        Two columns are equal if the smaller singular value of both, scaled to unit length, is at most this.

    Returns
    -------
    tuple of ComponentPair
    """
    rank = factors[0].shape[1]
    first, second = np.triu_indices(rank, 1)
    near = np.zeros((len(factors), len(first)), dtype=bool)
    equal = np.zeros_like(near)
    for n, factor in enumerate(factors):
        unit = factor / np.linalg.norm(factor, axis=0)
        cosines = (unit.T @ unit)[first, second]
        # A cosine of one says equal to half of the digits only; the difference says it to all.
        (close,) = np.nonzero(cosines > 1 - max(1e-8, 2 * tolerance**2))
        difference = np.linalg.norm(unit[:, first[close]] - unit[:, second[close]], axis=0)
        equal[n, close] = difference <= 2**0.5 * tolerance
        near[n] = (cosines > threshold) | equal[n]
    counts = near.sum(axis=0)
    order = [p for p in np.argsort(-counts, kind="stable") if counts[p]]
    return tuple(
        ComponentPair(
            (int(first[p]), int(second[p])),
            tuple(np.flatnonzero(near[:, p]).tolist()),
            tuple(np.flatnonzero(equal[:, p]).tolist()),
            len(factors),
        )
        for p in order
    )


def n_parameters(n_bins: Sequence[int], rank: int) -> int:
    """Free parameters of the model: R - 1 weights and I_n - 1 probabilities per column."""
    return rank - 1 + rank * sum(int(size) - 1 for size in n_bins)


def identifiability_issues(
    factors: MixtureFactors,
    triples: str | int | Iterable[Sequence[int]] = "all",
    fine: Sequence[np.ndarray] | None = None,
    *,
    known: KnownName = "triples",
    patterns: Any = None,
) -> list[str]:
    """Sentences that a fit should warn with, found in milliseconds: no proofs, and no Jacobian.

    Parameters
    ----------
    factors : MixtureFactors
        At least three variables of at least two bins.
    triples : "all", int or list of (j, k, l)
        The triples that were fitted; of a number of random ones, only the number is known here and they are not
        looked at.
    fine : sequence of ndarray (n_cells, rank), optional
        Probabilities of the cells of every variable by which components are to be compared, where densities have been
        fitted to more than the bins; by default those of the bins. Columns sum to one; numbers of cells may differ.
    known : {"triples", "samples"}
        With "samples", the sizes are judged by what whole samples determine, in the fine cells if these are given.
    patterns : array_like of bool (n_patterns, n_variables), optional
        With "samples", variables that are observed together; default: all.

    Returns
    -------
    list of str
        A sentence each; empty if there is nothing to say. The rank is above what the numbers of variables and bins
        allow, no triple or sample links some variables with the others, or two components (of more than 1e-6 weight)
        are nearly equal in all but at most two variables.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        No MixtureFactors, fewer than three variables or two bins, triples out of range, fine cells of other variables
        or components.

    See Also
    --------
    check_identifiability : The whole report.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> rng = np.random.default_rng(0)
    >>> factors = smp.MixtureFactors(np.full(3, 1 / 3), [rng.dirichlet(np.ones(2), 3).T for _ in range(3)])
    >>> print(identifiability_issues(factors)[0])
    The model has 11 free parameters, more than the 7 independent probabilities of the histograms: at least 4 directions
    stay free. Use fewer components or more bins.
    """
    if not isinstance(factors, MixtureFactors):
        raise InvalidTypeError(f"factors is {type(factors).__name__}; expected MixtureFactors.")
    model = factors.to_numpy()
    names = variable_names(model)
    chosen = None
    if not isinstance(triples, str) and not is_integer(triples):
        chosen = resolve_triples(triples, model.n_variables)
    elif triples != "all" and isinstance(triples, str):
        raise InvalidInputError(f'triples is {shown(triples)}; expected "all", an integer or a list of index triples.')
    joint = known == "samples"
    sizes = [len(cells) for cells in fine] if joint and fine is not None else model.n_bins
    found = Known.of_samples(model.n_variables, patterns) if joint else Known.of_triples(model.n_variables, chosen)
    issues = [*_size_issues(sizes, model.rank, found), *_link_issues(names, found.margins or ())]
    kept = model.weights >= EMPTY_WEIGHT
    numbers = np.flatnonzero(kept)
    pairs = [pair for pair in _alike(model, kept, fine) if pair.is_near_degenerate]
    issues += [describe_pair(pair, names, numbers) for pair in pairs[:_SHOWN]]
    if len(pairs) > _SHOWN:
        issues.append(f"{len(pairs) - _SHOWN} more pairs of components are nearly equal likewise.")
    return issues


def _alike(model: MixtureFactors, kept: np.ndarray, fine: Sequence[np.ndarray] | None) -> tuple[ComponentPair, ...]:
    """Pairs of the components kept that are alike in some variable, by its bins, or by the fine cells if given."""
    if fine is None:
        return nearly_parallel_pairs([a[:, kept] for a in model.factors])
    shapes = [np.shape(a) for a in fine]
    if len(fine) != model.n_variables or any(shape[1:] != (model.rank,) for shape in shapes):
        raise InvalidInputError(
            f"fine has arrays of shapes {shapes}; expected {model.n_variables}, each (n_cells, {model.rank})."
        )
    return nearly_parallel_pairs([np.sqrt(a[:, kept]) for a in fine], PARALLEL_AFFINITY)


def _link_issues(names: Sequence[Hashable], known: Sequence[tuple[int, ...]]) -> list[str]:
    """Groups of variables never known together: components of one are matched to those of another by weight alone."""
    if not known or any(len(some) == len(names) for some in known):
        return []
    pairs = np.array([(some[0], other) for some in known for other in some[1:]]).reshape(-1, 2)
    links = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(names),) * 2)
    n_groups, group = connected_components(links, directed=False)
    if n_groups == 1:
        return []
    groups = [[name for n, name in enumerate(names) if group[n] == g] for g in range(min(n_groups, _SHOWN))]
    listed = "; ".join(clip_names(members) for members in groups)
    more = "; ..." if n_groups > _SHOWN else ""
    return [
        f"The variables fall into {n_groups} groups that no histogram links ({listed}{more}): which component of one "
        "goes with which of another is known from their weights alone. Add samples, or triples, across the groups."
    ]


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
    apart = [clip_names([names[n]]) for n in range(pair.n_variables) if n not in pair.near]
    r, s = (int(numbers[c]) for c in pair.components)
    alike = "equal" if len(pair.equal) == len(pair.near) else "nearly equal"
    if not apart:
        where = f"all {pair.n_variables} variables"
    elif len(apart) <= 2:
        where = f"all variables but {' and '.join(apart)}"
    else:
        where = f"{len(pair.near)} of {pair.n_variables} variables ({clip_names([names[n] for n in pair.near])})"
    advice = ""
    if not advise:
        pass
    elif pair.is_degenerate:
        advice = ": no histogram can tell what belongs to which. Use fewer components"
    elif pair.is_near_degenerate:
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


def variable_names(factors: MixtureFactors) -> tuple[Hashable, ...]:
    """Names of the binning, or x0, x1, ..."""
    if factors.binning is not None:
        return factors.binning.variables
    return tuple(f"x{n}" for n in range(factors.n_variables))


def _size_issues(sizes: Sequence[int], rank: int, known: Known) -> list[str]:
    """A sentence about sizes that determine too little, or none; counting first, since it is certain."""
    n_together = len(known.patterns[0]) if known.is_joint else known.n_variables
    quick: Criterion = "joint" if known.is_joint else "kruskal"
    is_usable = n_together >= 3 if known.is_joint else known.triples is None
    # Quick, and a lower bound: the smallest number of bins for every variable.
    if is_usable and rank <= max_identifiable_rank(n_together, min(sizes), quick):
        return []
    of, more = ("whole samples", "variables") if known.is_joint else ("the histograms", "bins")
    wanted = n_parameters(sizes, rank)
    found = known.n_independent_cells(sizes)
    if wanted > found:
        return [
            f"The model has {wanted} free parameters, more than the {found} independent probabilities of {of}: at "
            f"least {wanted - found} directions stay free. Use fewer components or more {more}."
        ]
    bound = _highest_rank(sizes, known)
    if rank <= bound:
        return []
    return [
        f"{rank} components are more than {bound}, up to which almost every model of "
        f"{'whole samples of ' * known.is_joint}these numbers of variables and bins is guaranteed by theorems to be "
        f"unique. Use fewer components or more {more}, or see check_identifiability."
    ]


def _highest_rank(sizes: Sequence[int], known: Known) -> int:
    """Highest bound of some of what is known."""
    if known.is_joint:
        patterns = [[sizes[n] for n in pattern] for pattern in known.patterns[:_SHOWN] if len(pattern) >= 3]
        return max((max_identifiable_rank(len(inside), inside, "joint") for inside in patterns), default=1)
    n_variables = known.n_variables
    partitions: list[Any] = [None]
    if known.triples is not None:
        partitions = complete_partitions(known.triples, n_variables, n_seeds=10)
    criteria: tuple[Criterion, ...] = ("kruskal", "generic")
    return max(max_identifiable_rank(n_variables, sizes, c, p) for c in criteria for p in partitions)
