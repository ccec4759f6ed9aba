"""Likeness of components: variables in which two are hardly told apart; with sizes and links, what a fit warns of.

The measure is the affinity (Bhattacharyya, 1943) of two distributions of cells, sum_i sqrt(p_i q_i). It stays what it
is if cells are split, or are as wide in another unit or coordinate of the variable, while the cosine of the
probabilities goes by the few cells where a skewed density is highest.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from tensorly_smp._support.representations import clip_names, counted
from tensorly_smp.factors.mixture_factors import EMPTY_WEIGHT, MixtureFactors
from tensorly_smp.identifiability.bounds import (
    Criterion,
    KnownMarginals,
    complete_partitions,
    max_identifiable_rank,
    n_parameters,
)
from tensorly_smp.likelihood.comparison import affinity, stacked_tables

# Unit columns count as dependent at a singular value of this; that of kruskal_rank in double precision.
TOLERANCE = float(np.finfo(np.float64).eps ** (2 / 3))
#: Cosine above which two densities are called nearly parallel. Two Gaussians of the same variance have densities of
#: cosine c, and the affinity sqrt(c).
PARALLEL_COSINE = 0.99
#: Overlap of two components up to which posteriors separate them: at most 5 % of their samples are nearer to the other.
_SEPARATED = 0.1
# Pairs, groups and patterns of a warning; pairs of a report.
_WARNED, _NOTED = 3, 5
# Variables by which a lower bound of the rank is tried first: the best grouping of a thousand takes .2 seconds.
_SOME_VARIABLES = 20


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
    overlap : float
        Affinity of their joint distributions: the product of those of all variables.
    """

    components: tuple[int, int]
    apart: tuple[int, ...]
    equal: tuple[int, ...]
    n_variables: int
    overlap: float = 1.0

    @property
    def near(self) -> tuple[int, ...]:
        """Variables in which they are alike."""
        return tuple(n for n in range(self.n_variables) if n not in self.apart)

    @property
    def is_near_degenerate(self) -> bool:
        """Apart in at most two variables: exactly equal columns in the others would not be identifiable."""
        return len(self.apart) <= 2

    @property
    def is_separated(self) -> bool:
        """Apart in two variables, and so far that their joint distribution tells which sample belongs to which."""
        return len(self.apart) == 2 and self.overlap <= _SEPARATED

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
    stacks = stacked_tables(tables)
    affinities = np.concatenate([affinity(some)[:, first, second] for some in stacks])
    equal = []
    for some in stacks:
        unit = some / np.linalg.norm(some, axis=1)[:, None]
        # A cosine of one says equal to half of the digits only; the difference says it to all.
        cosines = (unit.transpose(0, 2, 1) @ unit)[:, first, second]
        n, close = np.nonzero(cosines > 1 - max(1e-8, 2 * tolerance**2))
        difference = np.linalg.norm(unit[n, :, first[close]] - unit[n, :, second[close]], axis=1)
        equal.append(np.zeros(cosines.shape, dtype=bool))
        equal[-1][n, close] = difference <= 2**0.5 * tolerance
    are_equal = np.concatenate(equal)
    near = (affinities > cosine**0.5) | are_equal
    counts = near.sum(axis=0)
    overlaps = affinities.prod(axis=0)
    order = [p for p in np.argsort(-counts, kind="stable") if counts[p]]
    return tuple(
        ComponentPair(
            (int(first[p]), int(second[p])),
            tuple(np.flatnonzero(~near[:, p]).tolist()),
            tuple(np.flatnonzero(are_equal[:, p]).tolist()),
            len(tables),
            float(overlaps[p]),
        )
        for p in order
    )


def alike_pairs(separation: np.ndarray, weights: np.ndarray, allowed: float) -> list[ComponentPair]:
    """Pairs of components that samples do not tell apart in all variables but two, one or none; the nearest first.

    Parameters
    ----------
    separation : ndarray (n_variables, rank, rank)
        See :func:`tensorly_smp.likelihood.comparison.separations`.
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


def describe_pair(pair: ComponentPair, names: Sequence[Hashable], advise: bool = True) -> str:
    """Sentence about two components, with or without what to do about them.

    Parameters
    ----------
    pair : ComponentPair
    names : sequence of hashable
        Those of the variables.
    advise : bool
        There is nothing to advise against components that posteriors separate.
    """
    r, s = pair.components
    alike = "equal" if len(pair.equal) == len(pair.near) else "nearly equal"
    if not pair.apart:
        where = f"all {pair.n_variables} variables"
    elif pair.is_near_degenerate:
        where = f"all variables but {' and '.join(clip_names([names[n]]) for n in pair.apart)}"
    else:
        where = f"{len(pair.near)} of {pair.n_variables} variables ({clip_names([names[n] for n in pair.near])})"
    advice = ""
    advise = advise and not pair.is_separated
    if advise and pair.is_degenerate:
        advice = ": no histogram can tell what belongs to which. Use fewer components"
    elif advise and pair.is_near_degenerate:
        advice = ": from samples they are hardly told apart. Use fewer components"
    return f"Components {r} and {s} are {alike} in {where}{advice}."


def pair_notes(
    pairs: Sequence[ComponentPair], alike: Sequence[ComponentPair], names: Sequence[Hashable], is_unique: bool
) -> Iterator[str]:
    """Sentences about pairs of components: most alike ones by name, the others counted, those that samples mix up.

    Parameters
    ----------
    pairs : sequence of ComponentPair
        Alike in some variable, those alike in most variables first.
    alike : sequence of ComponentPair
        Hardly told apart by samples.
    names : sequence of hashable
        Those of the variables.
    is_unique : bool
        True if the model is proved to be unique: degenerate pairs are a matter of rounding then.
    """
    shown = [pair for pair in pairs if pair.is_near_degenerate or 2 * len(pair.near) >= pair.n_variables][:_NOTED]
    for pair in shown:
        yield describe_pair(pair, names, not (is_unique and pair.is_degenerate))
    if more := len(pairs) - len(shown):
        others = "more " if shown else ""
        are = "pairs of components are" if more > 1 else "pair of components is"
        yield f"{more} {others}{are} nearly parallel in some variable."
    known = {pair.components for pair in pairs if pair.is_near_degenerate}
    alike = [pair for pair in alike if pair.components not in known]
    for pair in alike[:_NOTED]:
        r, s = pair.components
        but = " but " * bool(pair.apart) + " and ".join(clip_names([names[n]]) for n in pair.apart)
        yield f"Samples do not tell components {r} and {s} apart in any variable{but}: see rivals."
    if len(alike) > _NOTED:
        yield f"{len(alike) - _NOTED} more pairs of components are hardly told apart likewise."


def variable_names(factors: MixtureFactors) -> tuple[Hashable, ...]:
    """Names of the binning, or x0, x1, ..."""
    if factors.binning is not None:
        return factors.binning.variables
    return tuple(f"x{n}" for n in range(factors.n_variables))


def identifiability_issues(
    factors: MixtureFactors, known: KnownMarginals | None = None, fine: Sequence[np.ndarray] | None = None
) -> list[str]:
    """Sentences that a fit should warn with, found in milliseconds: no proofs, and no Jacobian.

    Parameters
    ----------
    factors : MixtureFactors
        At least three variables of at least two bins.
    known : KnownMarginals, optional
        The triples or samples that were fitted, by default all triples. Of whole samples, the sizes are judged by what
        these determine, in the fine cells if these are given.
    fine : sequence of ndarray (n_cells, rank), optional
        Probabilities of the cells of every variable by which components are to be compared, where densities have been
        fitted to more than the bins; by default those of the bins. Columns sum to one; numbers of cells may differ.

    Returns
    -------
    list of str
        A sentence each; empty if there is nothing to say. The rank is above what the numbers of variables and bins
        allow, no triple or sample links some variables with the others, or two components (of more than 1e-6 weight)
        are nearly equal in all but at most two variables, without being separated in these two.

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
    model = factors.to_numpy()
    names = variable_names(model)
    known = KnownMarginals.of_triples(model.n_variables) if known is None else known
    tables = model.factors if fine is None else fine
    sizes = [len(cells) for cells in tables] if known.is_joint else model.n_bins
    issues = [*_size_issues(sizes, model.rank, known), *_link_issues(names, known.margins or ())]
    alike = nearly_parallel_pairs(tables[:_SOME_VARIABLES])
    if len(tables) > _SOME_VARIABLES and any(pair.is_near_degenerate for pair in alike):  # else apart in some already
        alike = nearly_parallel_pairs(tables)
    alike = tuple(pair for pair in alike if model.weights[list(pair.components)].min() >= EMPTY_WEIGHT)
    pairs = [pair for pair in alike if pair.is_near_degenerate and not pair.is_separated]
    issues += [describe_pair(pair, names) for pair in pairs[:_WARNED]]
    if len(pairs) > _WARNED:
        issues.append(f"{len(pairs) - _WARNED} more pairs of components are nearly equal likewise.")
    return issues


def _link_issues(names: Sequence[Hashable], known: Sequence[tuple[int, ...]]) -> list[str]:
    """Groups of variables never known together: components of one are matched to those of another by weight alone."""
    if not known or any(len(some) == len(names) for some in known):
        return []
    pairs = np.array([(some[0], other) for some in known for other in some[1:]]).reshape(-1, 2)
    links = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(names),) * 2)
    n_groups, group = connected_components(links, directed=False)
    if n_groups == 1:
        return []
    groups = [[name for n, name in enumerate(names) if group[n] == g] for g in range(min(n_groups, _WARNED))]
    listed = "; ".join(clip_names(members) for members in groups)
    more = "; ..." if n_groups > _WARNED else ""
    return [
        f"The variables fall into {n_groups} groups that no histogram links ({listed}{more}): which component of one "
        "goes with which of another is known from their weights alone. Add samples, or triples, across the groups."
    ]


def _size_issues(sizes: Sequence[int], rank: int, known: KnownMarginals) -> list[str]:
    """A sentence about sizes that determine too little, or none; counting first, since it is certain."""
    n_together = len(known.patterns[0]) if known.is_joint else known.n_variables
    quick: Criterion = "joint" if known.is_joint else "kruskal"
    is_usable = n_together >= 3 if known.is_joint else known.triples is None
    # Quick, and lower bounds: the smallest number of bins for every variable, and of many variables some.
    if is_usable and any(
        rank <= max_identifiable_rank(n, min(sizes), quick) for n in (min(n_together, _SOME_VARIABLES), n_together)
    ):
        return []
    of, more = ("whole samples", "variables") if known.is_joint else ("the histograms", "bins")
    wanted = n_parameters(sizes, rank)
    found = known.n_independent_cells(sizes)
    if wanted > found:
        free = counted(wanted - found, "direction")
        return [
            f"The model has {wanted} free parameters, more than the {found} independent probabilities of {of}: at "
            f"least {free} stay{'s' * (wanted == found + 1)} free. Use fewer components or more {more}."
        ]
    if known.is_joint:
        patterns = [[sizes[n] for n in pattern] for pattern in known.patterns[:_WARNED] if len(pattern) >= 3]
        bound = max((max_identifiable_rank(len(inside), inside, "joint") for inside in patterns), default=1)
    else:
        partitions: list[Any] = [None]
        if known.triples is not None:
            partitions = complete_partitions(known.triples, known.n_variables, n_seeds=10)
        criteria: tuple[Criterion, ...] = ("kruskal", "generic")
        bound = max(max_identifiable_rank(known.n_variables, sizes, c, p) for c in criteria for p in partitions)
    if rank <= bound:
        return []
    return [
        f"{rank} components are more than {bound}, up to which almost every model of "
        f"{'whole samples of ' * known.is_joint}these numbers of variables and bins is guaranteed by theorems to be "
        f"unique. Use fewer components or more {more}, or see check_identifiability."
    ]
