"""The criteria of uniqueness, one line of the report each, and the verdict of all of them: the order of evidence.

A proof that holds at the factors themselves outranks a proof of non-uniqueness, which speaks of factors of any sign;
both outrank a rank that was computed with rounding; and what holds for almost every model comes last, since it proves
nothing of the one at hand. A criterion that a stronger one contradicts loses its verdict.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from tensorly_smp._support.representations import clip_names, counted, joined, number_text
from tensorly_smp.factors.mixture_factors import EMPTY_WEIGHT
from tensorly_smp.identifiability.bounds import Criterion, KnownMarginals, max_identifiable_rank, n_parameters
from tensorly_smp.identifiability.jacobian import MAX_PARAMETERS, LocalIdentifiability, local_identifiability
from tensorly_smp.identifiability.likeness import TOLERANCE, ComponentPair, nearly_parallel_pairs, pair_notes
from tensorly_smp.identifiability.ranks import FactorSets, StackedModel
from tensorly_smp.marginals.block_tensor import Partition

UNIQUE = "unique"
GENERIC = "unique for almost every model"
OPEN = "not guaranteed"
WITHDRAWN = "withdrawn"
_FREE = "not identifiable"

# Sources of the criteria: authors, year and theorem. Numbers of theorems of Allman et al. and of Rothenberg were not
# checked against the printed papers.
_ALLMAN = "Allman, Matias and Rhodes, Annals of Statistics 37, 2009"
_KARGAS = "Kargas and Sidiropoulos, AISTATS 2019, section 3"
_KRUSKAL = "Kruskal, Linear Algebra and its Applications 18, 1977, uniqueness theorem"
_LEURGANS = "Leurgans, Ross and Abel, SIAM Journal on Matrix Analysis and Applications 14, 1993"
_CHIANTINI = "Chiantini and Ottaviani, SIAM Journal on Matrix Analysis and Applications 33, 2012, Theorem 1.1"
_GOODMAN = "Goodman, Biometrika 61, 1974"
_HERE = "tensorly_smp, docs/identifiability.md, free directions"
#: Name for people and reference by key of a report line; sets and groups by the beginning of theirs.
CRITERIA = {
    "set": ("Set", _KARGAS),
    "group": ("Group", _ALLMAN),
    "leurgans": ("Leurgans, at these factors", _LEURGANS),
    "kruskal": ("Kruskal, at these factors", _KRUSKAL),
    "joint": ("Whole samples, at these factors", f"{_ALLMAN}, Theorem 4, by Kruskal 1977"),
    "densities": ("Whole samples, densities", f"{_ALLMAN}, Theorems 8 and 9"),
    "gevd-bound": ("Leurgans' bound", _LEURGANS),
    "kruskal-bound": ("Kruskal's bound", _KRUSKAL),
    "generic-bound": ("Chiantini-Ottaviani bound", _CHIANTINI),
    "joint-bound": ("Whole samples, bound", f"{_ALLMAN}, Theorem 4 and Corollary 5"),
    "paper-gevd": ("Paper's algebraic bound, as printed", _KARGAS),
    "paper-generic": ("Paper's generic bound, as printed", _KARGAS),
    "counting": ("Counting", _GOODMAN),
    "weights": ("Smallest weight", _HERE),
    "distinct": ("Any two components differ in", _HERE),
    "jacobian": ("Jacobian (local)", f"{_GOODMAN}; Rothenberg, Econometrica 39, 1971, Theorem 1"),
}
# Bounds by sizes, in the order of their lines.
_BOUNDS: tuple[Criterion, ...] = ("gevd", "kruskal", "generic", "joint", "paper-gevd", "paper-generic")
_SCOPE = (
    "All this takes the model for granted, independence within components included (check_independence tests that). It "
    "is about exact distributions: whether other factors have the same ones. It says neither how many components there "
    "are nor how far sampling noise moves them (model.bootstrap does)."
)
# The blocks of the Gram matrix are made one by one, for every pair of variables.
_MAX_JACOBIAN_VARIABLES = 300
# To see whether a model is special: pairs are stacked up to this number of variables; subsets of columns of a k-rank.
_PAIRED_VARIABLES, _SPECIAL_COMBINATIONS = 30, 5000
# Fitted factors are never asked for independence to more digits than this, however many samples there are.
_FITTED_TOLERANCE = 1e-3
_NAME_WIDTH = 36


@dataclass(frozen=True, eq=False)
class IdentifiabilityProblem:
    """Sizes, known distributions and, unless it is about almost every model, weights and factors.

    Attributes
    ----------
    n_bins : tuple of int
    rank : int
    names : tuple of hashable
        Of the variables.
    known : KnownMarginals
        Sets of variables whose joint distribution is known.
    partition : Partition or None
        The given one.
    weights, factors : ndarray (rank,) and tuple of ndarray (n_bins[n], rank), or None
        None if only sizes are given.
    fine : tuple of ndarray (n_cells, rank) or None
        Probabilities of equally wide cells of fitted densities, where whole samples are known and some variable has
        more than its bins: factors of discrete variables are the probabilities of their values.
    n_samples : float or None
        Sum of the weights of the samples that the factors were fitted to; None if they are exact, or that is unknown.
    alike : tuple of ComponentPair
        Pairs of components that samples tell apart in at most two variables, where densities were fitted to some.
    rivals : tuple of str
        Sentences about the other solutions of a fit that may be as good.
    drawn : weights and factors, or None
        A random model of the same sizes, which stands for almost every one; None if it would be too large.
    parallel_cosine : float
    max_parameters : int
    """

    n_bins: tuple[int, ...]
    rank: int
    names: tuple[Hashable, ...]
    known: KnownMarginals
    partition: Partition | None
    weights: np.ndarray | None
    factors: tuple[np.ndarray, ...] | None
    fine: tuple[np.ndarray, ...] | None
    n_samples: float | None
    alike: tuple[ComponentPair, ...]
    rivals: tuple[str, ...]
    drawn: tuple[np.ndarray, tuple[np.ndarray, ...]] | None
    parallel_cosine: float
    max_parameters: int

    @property
    def is_generic(self) -> bool:
        """True if only sizes are given."""
        return self.factors is None

    @cached_property
    def n_parameters(self) -> int:
        """Free parameters of the model."""
        return n_parameters(self.n_bins, self.rank)

    @cached_property
    def empty(self) -> np.ndarray:
        """Components of next to no weight."""
        if self.weights is None:
            return np.zeros(0, dtype=int)
        return np.flatnonzero(self.weights < EMPTY_WEIGHT)

    @property
    def tolerance(self) -> float:
        """Singular values of unit columns that count as zero: rounding, or the uncertainty of the samples of a fit."""
        if self.n_samples is None:
            return TOLERANCE if self.fine is None else _FITTED_TOLERANCE
        return max(_FITTED_TOLERANCE, max(self.n_samples, 1) ** -0.5)


class Strength(IntEnum):
    """Rank of a criterion in the order of evidence; a higher member outranks a lower one."""

    INFORMS = 0
    """It decides nothing."""
    GENERIC = 1
    """It holds for almost every model of these sizes, which the given one need not belong to."""
    NUMERICAL = 2
    """A rank of a Jacobian, computed with rounding."""
    REFUTED = 3
    """It proves that factors of any sign are not unique."""
    PROVED = 4
    """It proves uniqueness: of the given model, or of almost every one if that is the question."""


def not_identifiable(n_free: int) -> str:
    """The verdict for so many free directions."""
    return f"{_FREE}: {counted(n_free, 'free direction')}"


@dataclass(frozen=True)
class ReportLine:
    """One criterion.

    Attributes
    ----------
    key : str
        Short name for programs.
    name : str
        Name for people.
    value : str
        What was found.
    required : str
        What would be needed; empty for a line that only informs.
    verdict : str
        "unique", "unique for almost every model", "not guaranteed", "not identifiable: k free directions", "withdrawn:
        ..." of a bound that does not speak for this model, or empty where the line decides nothing by itself or was
        outranked.
    n_free : int
        Free directions that it shows.
    strength : Strength
        Rank in the order of evidence.
    """

    key: str
    name: str
    value: str
    required: str = ""
    verdict: str = ""
    n_free: int = 0
    strength: Strength = Strength.INFORMS

    @property
    def reference(self) -> str:
        """Authors, year and theorem."""
        return CRITERIA[self.key if self.key in CRITERIA else self.key.split("-")[0]][1]


def overall(lines: Sequence[ReportLine]) -> str:
    """The verdict of all lines together: that of the strongest.

    Parameters
    ----------
    lines : sequence of ReportLine

    Returns
    -------
    str

    Examples
    --------
    >>> proof = ReportLine("kruskal", "Kruskal", "8", ">= 8", UNIQUE, strength=Strength.PROVED)
    >>> rounding = ReportLine("jacobian", "Jacobian", "7", "9", not_identifiable(2), 2, Strength.NUMERICAL)
    >>> overall([rounding]), overall([rounding, proof])
    ('not identifiable: 2 free directions', 'unique')
    """
    strongest = max(line.strength for line in lines)
    if strongest in (Strength.REFUTED, Strength.NUMERICAL):
        return not_identifiable(max(line.n_free for line in lines))
    found = {line.verdict for line in lines if line.strength == strongest}
    return next((verdict for verdict in (UNIQUE, GENERIC) if verdict in found), OPEN)


def apply_criteria(problem: IdentifiabilityProblem) -> dict[str, Any]:
    """Look at the model, or at the sizes, by every criterion.

    Returns
    -------
    dict
        Attributes of :class:`IdentifiabilityReport`.
    """
    pairs = _pairs(problem)
    may_search = not any(pair.is_degenerate for pair in pairs)
    # Random factors stand for almost every model.
    factors = problem.factors if problem.factors is not None or problem.drawn is None else problem.drawn[1]
    options: dict[str, Any] = {"is_generic": problem.is_generic, "tolerance": problem.tolerance}
    stacks = FactorSets(problem.n_bins, problem.rank, factors, problem.known, **options)
    stacked = stacks.best(problem.partition, may_search)
    looked_at = [(stacks, stacked)]
    grouped = None
    lines = _set_lines(problem, stacked, "set")
    if problem.known.is_joint:
        products = FactorSets(problem.n_bins, problem.rank, factors, problem.known, are_products=True, **options)
        grouped = products.best(problem.partition, may_search)
        looked_at.append((products, grouped))
        lines += _set_lines(problem, grouped, "group")
    if not problem.is_generic:
        lines += _point_lines(problem, stacked, grouped, may_search)
    special = {} if problem.is_generic or problem.rank == 1 else _special(problem, looked_at)
    bounds, max_ranks = _bound_lines(problem, stacks, special)
    local, reasons = _jacobian(problem)
    lines += [*bounds, *_necessary_lines(problem, pairs), _jacobian_line(problem, local)]
    verdict = overall(lines)
    shown = _settled(lines, local, verdict)
    n_free = max(line.n_free for line in shown)
    is_settled = n_free or verdict == UNIQUE or (local is not None and local.is_decided)
    notes = [*reasons, *_coverage_notes(problem, stacked, grouped)]
    notes += _verdict_notes(problem, local, lines, shown, verdict, special)
    notes += [*pair_notes(pairs, problem.alike, problem.names, verdict == UNIQUE), *problem.rivals]
    return {
        "lines": tuple(shown),
        "notes": tuple(notes if problem.is_generic else [*notes, _SCOPE]),
        "verdict": verdict,
        "partition": stacked.partition,
        "stacked": stacked.stacked,
        "grouping": None if grouped is None else grouped.partition,
        "products": () if grouped is None else grouped.stacked,
        "max_ranks": max_ranks,
        "pairs": pairs,
        "local": local,
        "n_free_directions": n_free if is_settled else None,
        "known": problem.known,
        "rank": problem.rank,
        "n_bins": problem.n_bins,
        "variables": problem.names,
        "n_parameters": problem.n_parameters,
        "n_rivals": len(problem.rivals),
        "from_sizes": problem.is_generic,
    }


def _settled(lines: list[ReportLine], local: LocalIdentifiability | None, verdict: str) -> list[ReportLine]:
    """The lines without verdicts that a proof contradicts."""
    if any(line.strength == Strength.PROVED for line in lines):
        outranked: dict[str, Any] = {"verdict": "", "n_free": 0, "strength": Strength.INFORMS}
        lines = [replace(line, **outranked) if line.n_free else line for line in lines]
    if local is not None and local.is_decided and not local.n_free_directions:
        # A full rank proves nothing beyond the neighborhood: its verdict is that of all lines.
        lines = [replace(line, verdict=verdict) if line.key == "jacobian" else line for line in lines]
    return lines


def _pairs(problem: IdentifiabilityProblem, tolerance: float = TOLERANCE) -> tuple[ComponentPair, ...]:
    """Components that are alike, by the fitted densities where there are any."""
    tables = problem.factors if problem.fine is None else problem.fine
    return () if tables is None else nearly_parallel_pairs(tables, problem.parallel_cosine, tolerance)


# ---- lines ----


def _free_line(
    key: str, value: str, required: str, n_free: int, strength: Strength = Strength.REFUTED, of: str = ""
) -> ReportLine:
    """Line that shows free directions, or informs if there are none."""
    name = CRITERIA[key][0] + of
    if not n_free:
        return ReportLine(key, name, value, required)
    return ReportLine(key, name, value, required, not_identifiable(n_free), n_free, strength)


def _set_lines(problem: IdentifiabilityProblem, model: StackedModel, kind: str) -> list[ReportLine]:
    lines = []
    for s, stack in enumerate(model.stacked, 1):
        condition = f", condition {stack.condition:.3g}" if np.isfinite(stack.condition) else ""
        names = clip_names([problem.names[n] for n in stack.variables], _NAME_WIDTH - 9)
        value = f"rank {stack.rank}, k-rank {stack.k_rank!r}{condition}"
        lines.append(ReportLine(f"{kind}-{s}", f"{CRITERIA[kind][0]} {s}: {names}", value))
    return lines


def _point_lines(
    problem: IdentifiabilityProblem, stacked: StackedModel, grouped: StackedModel | None, may_search: bool
) -> list[ReportLine]:
    """Sufficient conditions at the factors themselves, of Leurgans and Kruskal, for triples and whole samples.

    Kruskal's condition is looked at for products of fitted densities too, whose inner products are integrals: cells are
    equally wide in the coordinate of the splines, so that products of their probabilities are integrals of
    f_n(.|r) f_n(.|s) up to a factor.
    """
    lines = []

    def add(key: str, value: str, required: str, model: StackedModel, condition: bool) -> None:
        holds = model.is_complete and not len(problem.empty) and condition
        if problem.rank == 1:  # the histograms of the single variables are its factors
            holds = True
            required = "nothing for one component"
        strength = Strength.PROVED if holds else Strength.INFORMS
        verdict = UNIQUE if holds else OPEN
        lines.append(ReportLine(key, CRITERIA[key][0], value, required, verdict, strength=strength))

    def add_kruskal(key: str, model: StackedModel, tolerance: str = "") -> None:
        k_ranks = " + ".join(str(int(stack.k_rank)) for stack in model.stacked)
        value = f"k-ranks {k_ranks} = {model.k_rank_sum}{tolerance}"
        add(key, value, f">= {2 * problem.rank + 2}", model, model.is_kruskal)

    pencil = stacked.pencil
    shown = 2 if pencil is None else pencil
    first, second = (stack.rank for s, stack in enumerate(stacked.stacked) if s != shown)
    value = f"ranks {first} and {second}, k-rank {stacked.stacked[shown].k_rank!r} of set {shown + 1}"
    add("leurgans", value, f"{problem.rank}, {problem.rank} and >= 2", stacked, pencil is not None)
    add_kruskal("kruskal", stacked)
    if grouped is not None:
        add_kruskal("joint", grouped)
    if problem.fine is not None:
        n_cells = [len(cells) for cells in problem.fine]
        options: dict[str, Any] = {"are_products": True, "tolerance": problem.tolerance}
        best = FactorSets(n_cells, problem.rank, problem.fine, problem.known, **options).best(None, may_search)
        add_kruskal("densities", best, f", tolerance {problem.tolerance:.2g}")
    return lines


def _bound_lines(
    problem: IdentifiabilityProblem, stacks: FactorSets, special: dict[str, str]
) -> tuple[list[ReportLine], dict[str, int]]:
    """Bounds by sizes, and the highest rank by criterion: proofs if sizes are the problem, else of almost every model.

    Bounds are withdrawn for a special model, or if a partition does not speak for all variables. The paper's prove
    nothing.
    """
    products = FactorSets(problem.n_bins, problem.rank, None, problem.known, are_products=True, is_generic=True)
    lines = []
    max_ranks: dict[str, int] = {}
    for criterion in _BOUNDS:
        key = criterion if criterion.startswith("paper") else f"{criterion}-bound"
        is_joint = criterion == "joint"
        if is_joint and not problem.known.is_joint:
            continue
        bound, is_covered = _bound(problem, criterion, products if is_joint else stacks)
        max_ranks[criterion] = bound
        verdict = GENERIC if problem.rank <= bound else OPEN
        if criterion.startswith("paper"):
            verdict = ""
        elif problem.rank == 1:
            verdict = UNIQUE
        elif verdict == GENERIC and ("joint" if is_joint else "triples") in special:
            verdict = f"{WITHDRAWN}: special factors"
        elif verdict == GENERIC and not is_covered:
            verdict = f"{WITHDRAWN}: not for all variables"
        strength = Strength.INFORMS
        if verdict in (UNIQUE, GENERIC):
            strength = Strength.PROVED if problem.is_generic or problem.rank == 1 else Strength.GENERIC
        required = f"<= {number_text(bound)}"
        lines.append(ReportLine(key, CRITERIA[key][0], f"rank {problem.rank}", required, verdict, strength=strength))
    return lines, max_ranks


def _bound(problem: IdentifiabilityProblem, criterion: Criterion, sets: FactorSets) -> tuple[int, bool]:
    """The highest rank by one criterion, and True if it speaks for all variables; one that does comes first."""
    sizes = problem.n_bins
    partition = problem.partition
    is_joint = criterion == "joint"
    all_known = problem.known.triples is None and not is_joint
    if partition is not None or all_known or criterion.startswith("paper"):
        bound = max_identifiable_rank(len(sizes), sizes, criterion, partition)
        return bound, partition is None or sets.model(partition).is_complete
    if is_joint:
        patterns = [pattern for pattern in problem.known.patterns if len(pattern) >= 3]
        bounds = [(max_identifiable_rank(len(p), [sizes[n] for n in p], criterion), p) for p in patterns]
    else:
        partitions = sets.complete_partitions
        bounds = [(max_identifiable_rank(len(sizes), sizes, criterion, p), sum(p, ())) for p in partitions]
    bounds.sort(key=lambda pair: -pair[0])
    return next(((bound, True) for bound, inside in bounds if not sets.undetermined(inside)), (bounds[0][0], False))


def _special(problem: IdentifiabilityProblem, looked_at: Sequence[tuple[FactorSets, StackedModel]]) -> dict[str, str]:
    """A set of variables, for "triples" and for "joint", whose ranks are lower than those of almost every model."""
    found: dict[str, str] = {}
    small = list(combinations(range(len(problem.n_bins)), 1))
    if len(small) <= _PAIRED_VARIABLES:
        small += combinations(range(len(problem.n_bins)), 2)
    for factors, model in looked_at:
        for variables in (*small, *model.partition):
            usual = factors.usual_rank(variables)
            described = factors.describe(variables, _SPECIAL_COMBINATIONS)
            if described.rank < usual or (described.k_rank.is_exact and described.k_rank < usual):
                names = clip_names([problem.names[n] for n in variables])
                way = "Multiplied" if factors.are_products else "Stacked"
                subject = f"The factor of {names} has" if len(variables) == 1 else f"{way}, the factors of {names} have"
                found["joint" if factors.are_products else "triples"] = (
                    f"{subject} rank {described.rank} and k-rank {described.k_rank!r} where almost every model has "
                    f"{usual}: what holds for almost every model does not speak for this one."
                )
                break
    return found


def _necessary_lines(problem: IdentifiabilityProblem, pairs: Sequence[ComponentPair]) -> list[ReportLine]:
    """Conditions without which no model is identifiable, and which prove nothing where they hold."""
    sizes = problem.n_bins if problem.fine is None else [len(cells) for cells in problem.fine]
    wanted = n_parameters(sizes, problem.rank)
    cells = problem.known.n_independent_cells(sizes)
    required = f"<= {number_text(cells)} probabilities"
    lines = [_free_line("counting", f"{number_text(wanted)} parameters", required, max(0, wanted - cells))]
    if problem.weights is None:
        return lines
    n_free = len(problem.empty) * sum(size - 1 for size in problem.n_bins)
    lines.append(_free_line("weights", f"{problem.weights.min():.3g}", "> 0", n_free))
    if problem.rank > 1:
        # Told apart by more than the uncertainty of the samples; only columns that are equal to rounding refute.
        apart = len(problem.n_bins) - max((len(pair.equal) for pair in _pairs(problem, problem.tolerance)), default=0)
        n_free = max((pair.n_free_directions(problem.n_bins) for pair in pairs), default=0)
        value = f"all {apart} variables" if apart == len(problem.n_bins) else f"{apart} or more variables"
        lines.append(_free_line("distinct", value, ">= 3 variables", n_free))
    return lines


def _jacobian(problem: IdentifiabilityProblem) -> tuple[LocalIdentifiability | None, list[str]]:
    """Jacobian at the model or at random factors, or the reason why there is none."""
    model = problem.drawn
    if problem.weights is not None and problem.factors is not None:
        model = problem.weights, problem.factors
    most = min(problem.max_parameters, MAX_PARAMETERS)
    name = "max_parameters = " if most == problem.max_parameters else ""
    reason = f"{problem.n_parameters} parameters are more than {name}{most}"
    if len(problem.n_bins) > _MAX_JACOBIAN_VARIABLES:
        reason = f"{len(problem.n_bins)} variables are more than {_MAX_JACOBIAN_VARIABLES}"
    elif model is not None and problem.n_parameters <= most:
        local = local_identifiability(*model, known=problem.known)
        # Free to rounding, or not: between the two, the samples do not tell.
        if problem.n_samples and not local.n_free_directions and local.singular_values[-1] <= problem.tolerance:
            local = replace(local, tolerance=problem.tolerance, is_decided=False)
        return local, []
    return None, [
        f"The Jacobian was left out: {reason}. Check some of the variables: where they are locally unique, so is every "
        f"other variable whose {'samples' if problem.known.is_joint else 'triples'} with them are known."
    ]


def _jacobian_line(problem: IdentifiabilityProblem, local: LocalIdentifiability | None) -> ReportLine:
    """Rank of the Jacobian, and a verdict only if directions are free."""
    of = "" if problem.fine is None else ", of the bins"
    if local is None:
        return _free_line("jacobian", "not looked at", number_text(problem.n_parameters), 0, of=of)
    n_free = local.n_free_directions
    full = "" if n_free else " (full: no other model nearby)"
    if not local.is_decided:
        full = " or more (the rest is not told from zero)"
    # Zeros are not printed: their digits are rounding, and another machine's are others.
    nonzero = local.singular_values[local.singular_values > local.tolerance]
    other = "other " if n_free else ""
    smallest = f", smallest {other}singular value {nonzero[-1]:.2g}" if len(nonzero) else ""
    # Bins that leave directions free say nothing of densities on finer cells.
    refuted = n_free if local.is_decided and problem.fine is None else 0
    value = f"rank {local.rank}{full}{smallest}"
    return _free_line("jacobian", value, f"{local.n_parameters}", refuted, Strength.NUMERICAL, of)


# ---- notes ----


def _coverage_notes(problem: IdentifiabilityProblem, stacked: StackedModel, grouped: StackedModel | None) -> list[str]:
    """Reasons why sets of variables do not speak for the whole model."""
    if problem.rank == 1:
        return []
    notes = []
    model = stacked if grouped is None else grouped
    if model.missing_blocks:
        of_stacks = f"{stacked.missing_blocks} blocks of the partition are no known triples: its stacked factors"
        of_products = "The variables of the three groups are never observed together: their products"
        notes.append(f"{of_stacks if grouped is None else of_products} prove nothing.")
    if model.undetermined:
        names = clip_names([problem.names[n] for n in model.undetermined], 2 * _NAME_WIDTH)
        notes.append(f"Variables outside the partition that do not follow from those inside: {names}.")
    return notes


def _verdict_notes(
    problem: IdentifiabilityProblem,
    local: LocalIdentifiability | None,
    lines: Sequence[ReportLine],
    shown: Sequence[ReportLine],
    verdict: str,
    special: dict[str, str],
) -> Iterator[str]:
    """Notes on the verdict; `lines` are those before contradictions were settled."""
    if not problem.is_generic and verdict == GENERIC:
        yield (
            "Models of these sizes without this property have measure zero. That proves nothing of the model at hand; "
            "none of its factors, alone or in the sets above, shows that it is an exception."
        )
    elif verdict == OPEN:
        yield from list(dict.fromkeys(special.values()))[-1:]
    free = {line.key: line.n_free for line in shown if line.n_free}
    outranked = [line.n_free for line in lines if line.n_free and line.key not in free]
    if outranked:
        yield (
            f"{counted(max(outranked), 'singular value')} of the Jacobian cannot be told from zero, which is "
            "rounding: a proof outranks it. No histogram of samples is that precise."
        )
    elif free:
        yield from _free_notes(problem, local, free)
    elif verdict == OPEN and local is not None:
        if not local.is_decided:
            yield f"{counted(local.n_free_directions, 'singular value')} of the Jacobian cannot be told from zero."
        elif local.n_free_directions:
            yield (
                f"The bins of the report leave {counted(local.n_free_directions, 'direction')} free; the densities "
                "were fitted to finer cells, which determine more."
            )
        else:
            known = "distribution" if problem.known.is_joint else "histograms"
            yield f"No other model nearby has the same {known}; one further away is not excluded."
    if problem.n_samples is not None:
        yield (
            f"Columns of a fit count as dependent within the uncertainty of its {problem.n_samples:.0f} samples: "
            f"scaled to unit length, up to a singular value of {problem.tolerance:.2g}."
        )


def _free_notes(
    problem: IdentifiabilityProblem, local: LocalIdentifiability | None, free: dict[str, int]
) -> Iterator[str]:
    """Notes on free directions, by key of the line that shows them: what they come from, and what signs do."""
    if "counting" in free:
        yield "There are more parameters than probabilities: use fewer components, more bins or more variables."
    if "weights" in free:
        empty = joined([str(r) for r in problem.empty])
        yield f"Components without weight ({empty}) may have any columns: use fewer components."
    if local is None or not local.is_decided:
        yield "Without the Jacobian, the number of free directions is a lower bound."
    elif local.n_free_directions and not problem.is_generic and problem.drawn is not None:
        usual = local_identifiability(*problem.drawn, known=problem.known).n_free_directions
        almost = "Almost every model of these sizes"
        if not usual:
            known = "" if {"distinct", "weights"} & set(free) else " to first order; a small change of it may be unique"
            yield f"{almost} is locally unique; this one is a special point{known}."
        elif usual != local.n_free_directions:
            yield f"{almost} has {counted(usual, 'free direction')}; this one is special and has more."
        elif "counting" not in free:
            yield f"{almost} has as many: use fewer components, more bins or more variables."
    if problem.factors is not None and any((factor == 0).any() for factor in problem.factors):
        yield (
            "Directions are counted for factors of any sign, so that the verdict holds up to signs: zeros of this "
            "model may block some of them."
        )
