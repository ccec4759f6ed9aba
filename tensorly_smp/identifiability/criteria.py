"""The criteria of uniqueness, one line of the report each, and the verdict of all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from tensorly_smp._support.representations import number_text
from tensorly_smp.exceptions import SizeLimitError
from tensorly_smp.identifiability.bounds import TRIPLE_CRITERIA, Criterion, max_identifiable_rank
from tensorly_smp.identifiability.issues import ComponentPair, clip_names, n_parameters, nearly_parallel_pairs
from tensorly_smp.identifiability.jacobian import LocalIdentifiability, local_identifiability
from tensorly_smp.identifiability.problem import Problem
from tensorly_smp.identifiability.references import reference
from tensorly_smp.identifiability.stacked import (
    TOLERANCE,
    FactorProducts,
    FactorStacks,
    GenericProducts,
    GenericStacks,
    GroupingSearch,
    PartitionSearch,
    StackedModel,
)
from tensorly_smp.identifiability.supports import forced_variables
from tensorly_smp.identifiability.verdict import (
    GENERIC,
    OPEN,
    UNIQUE,
    ReportLine,
    Strength,
    not_identifiable,
    overall,
    without_contradictions,
)

_BOUNDS: dict[Criterion, tuple[str, str]] = {
    "gevd": ("gevd-bound", "Leurgans' bound"),
    "kruskal": ("kruskal-bound", "Kruskal's bound"),
    "generic": ("generic-bound", "Chiantini-Ottaviani bound"),
    "joint": ("joint-bound", "Whole samples, bound"),
    "paper-gevd": ("paper-gevd", "Paper's algebraic bound, as printed"),
    "paper-generic": ("paper-generic", "Paper's generic bound, as printed"),
}
# The blocks of the Gram matrix are made one by one, for every pair of variables.
_MAX_JACOBIAN_VARIABLES = 300
# Pairs of variables are stacked, to see whether a model is special, up to this number of variables.
_PAIRED_VARIABLES = 30
_SPECIAL_COMBINATIONS = 5000
_NAME_WIDTH = 36


@dataclass(frozen=True, eq=False)
class Criteria:
    """Everything that was found, and the verdict.

    Attributes
    ----------
    lines : tuple of ReportLine
    notes : tuple of str
    verdict : str
    at_factors : StackedModel
        Three sets of variables, for triples.
    at_groups : StackedModel or None
        Three groups of variables, for whole samples.
    max_ranks : dict
    pairs : tuple of ComponentPair
    local : LocalIdentifiability or None
    """

    lines: tuple[ReportLine, ...]
    notes: tuple[str, ...]
    verdict: str
    at_factors: StackedModel
    at_groups: StackedModel | None
    max_ranks: dict[str, int]
    pairs: tuple[ComponentPair, ...]
    local: LocalIdentifiability | None

    @property
    def n_free_directions(self) -> int | None:
        """Number of free directions, as IdentifiabilityReport defines it."""
        proved = max(line.n_free for line in self.lines)
        if proved or self.verdict == UNIQUE or (self.local is not None and self.local.is_decided):
            return proved
        return None


def apply_criteria(problem: Problem) -> Criteria:
    """Look at the model, or at the sizes, by every criterion."""
    pairs = _pairs(problem)
    may_search = not any(pair.is_degenerate for pair in pairs)
    search, grouping = _searches(problem)
    stacked = search.best(problem.partition, may_search)
    grouped = None if grouping is None else grouping.best(problem.partition, may_search)
    max_ranks, covered = _bounds(problem, search)
    lines = _set_lines(problem, stacked, "set")
    if grouped is not None:
        lines += _set_lines(problem, grouped, "group")
    if not problem.is_generic:
        lines += _point_lines(problem, stacked)
        if grouped is not None:
            lines.append(_joint_line(problem, grouped))
        lines += _density_lines(problem, may_search)
    special = _special(problem, search, grouping, (stacked, grouped))
    lines += _bound_lines(problem, max_ranks, covered, special)
    lines += _necessary_lines(problem, pairs)
    local, reason = _jacobian(problem)
    lines.append(_jacobian_line(problem, local))
    lines += _zero_lines(problem, search, grouping, overall(lines))
    verdict = overall(lines)
    shown = without_contradictions(lines)
    if local is not None and local.is_decided and not local.n_free_directions:
        # A full rank proves nothing beyond the neighborhood: its verdict is that of all lines together.
        shown = [replace(line, verdict=verdict) if line.key == "jacobian" else line for line in shown]
    notes = [
        *reason,
        *_coverage_notes(problem, stacked, grouped),
        *_verdict_notes(problem, verdict, special),
        *_free_notes(problem, local, lines, shown, verdict),
        *_tolerance_notes(problem),
    ]
    referenced = tuple(replace(line, reference=reference(line.key)) for line in shown)
    return Criteria(referenced, tuple(notes), verdict, stacked, grouped, max_ranks, pairs, local)


def _pairs(problem: Problem, tolerance: float = TOLERANCE) -> tuple[ComponentPair, ...]:
    """Components that are alike, by the fitted densities where there are any."""
    if problem.factors is None:
        return ()
    if problem.fine is None:
        return nearly_parallel_pairs(problem.factors, problem.parallel_cosine, tolerance)
    # Of square roots of probabilities the cosine that means the same is the root: see PARALLEL_AFFINITY.
    roots = [np.sqrt(cells) for cells in problem.fine]
    return nearly_parallel_pairs(roots, problem.parallel_cosine**0.5, tolerance)


def _searches(problem: Problem) -> tuple[PartitionSearch, GroupingSearch | None]:
    """Searches among the partitions, and for whole samples among the groupings, of the model or of almost every one."""
    sizes = problem.n_bins, problem.rank
    # Random factors stand for almost every model.
    factors = problem.drawn[1] if problem.factors is None and problem.drawn is not None else problem.factors
    stacks: FactorStacks | GenericStacks | None = None if factors is None else FactorStacks(factors, problem.tolerance)
    products: FactorProducts | GenericProducts | None = (
        None if factors is None else FactorProducts(factors, problem.tolerance)
    )
    if problem.factors is None:
        stacks = GenericStacks(*sizes, stacks)  # type: ignore[arg-type]
        products = GenericProducts(*sizes, products)  # type: ignore[arg-type]
    assert stacks is not None
    assert products is not None
    search = PartitionSearch(*sizes, stacks, factors, problem.known)
    return search, GroupingSearch(*sizes, products, factors, problem.known) if problem.known.is_joint else None


def _set_lines(problem: Problem, model: StackedModel, kind: str) -> list[ReportLine]:
    lines = []
    for s, stack in enumerate(model.stacked):
        condition = f", condition {stack.condition:.3g}" if np.isfinite(stack.condition) else ""
        value = f"rank {stack.rank}, k-rank {stack.k_rank!r}{condition}"
        title = "Set" if kind == "set" else "Group"
        names = clip_names([problem.names[n] for n in stack.variables], _NAME_WIDTH - 9)
        lines.append(ReportLine(f"{kind}-{s + 1}", f"{title} {s + 1}: {names}", value))
    return lines


def _proof(key: str, name: str, value: str, required: str, holds: bool) -> ReportLine:
    """A sufficient condition at the factors themselves."""
    strength = Strength.PROVED if holds else Strength.INFORMS
    return ReportLine(key, name, value, required, UNIQUE if holds else OPEN, strength=strength)


def _point_lines(problem: Problem, model: StackedModel) -> list[ReportLine]:
    """Leurgans' and Kruskal's conditions for triples, at the factors themselves."""
    proves = model.is_complete and not len(problem.empty)
    one = problem.rank == 1  # the histograms of the single variables are its factors
    pencil = model.pencil
    shown = 2 if pencil is None else pencil
    ranks = [stack.rank for s, stack in enumerate(model.stacked) if s != shown]
    return [
        _proof(
            "leurgans",
            "Leurgans, at these factors",
            f"ranks {ranks[0]} and {ranks[1]}, k-rank {model.stacked[shown].k_rank!r} of set {shown + 1}",
            "nothing for one component" if one else f"{problem.rank}, {problem.rank} and >= 2",
            one or (proves and pencil is not None),
        ),
        _proof("kruskal", "Kruskal, at these factors", *_kruskal_cells(problem.rank, model),
               one or (proves and model.is_kruskal)),
    ]  # fmt: skip


def _joint_line(problem: Problem, model: StackedModel) -> ReportLine:
    """Kruskal's condition for the products of three groups, at the factors themselves."""
    proves = model.is_complete and not len(problem.empty) and model.is_kruskal
    cells = _kruskal_cells(problem.rank, model)
    return _proof("joint", "Whole samples, at these factors", *cells, problem.rank == 1 or proves)


def _kruskal_cells(rank: int, model: StackedModel) -> tuple[str, str]:
    found = f"k-ranks {' + '.join(str(int(stack.k_rank)) for stack in model.stacked)} = {model.k_rank_sum}"
    return found, "nothing for one component" if rank == 1 else f">= {2 * rank + 2}"


def _density_lines(problem: Problem, may_search: bool) -> list[ReportLine]:
    """Kruskal's condition for products of fitted densities, whose inner products are integrals, to a tolerance.

    Cells are equally wide in the coordinate of the splines, so that products of their probabilities are integrals of
    f_n(.|r) f_n(.|s) up to a factor. Fitted densities are always independent to rounding: what counts is whether they
    are by more than sampling noise.
    """
    if problem.fine is None:
        return []
    n_cells = [len(cells) for cells in problem.fine]
    products = FactorProducts(problem.fine, problem.tolerance)
    model = GroupingSearch(n_cells, problem.rank, products, problem.fine, problem.known).best(None, may_search)
    found, required = _kruskal_cells(problem.rank, model)
    holds = problem.rank == 1 or (model.is_complete and not len(problem.empty) and model.is_kruskal)
    return [
        _proof("densities", "Whole samples, densities", f"{found}, tolerance {problem.tolerance:.2g}", required, holds)
    ]


def _bounds(problem: Problem, search: PartitionSearch) -> tuple[dict[str, int], dict[str, bool]]:
    """Highest rank by criterion, and whether its partition speaks for the whole model."""
    sizes = len(problem.n_bins), list(problem.n_bins)
    max_ranks: dict[str, int] = {}
    covered: dict[str, bool] = {}
    for criterion in TRIPLE_CRITERIA:
        if problem.partition is not None or problem.known.triples is None or criterion.startswith("paper"):
            max_ranks[criterion] = max_identifiable_rank(*sizes, criterion, problem.partition)
            covered[criterion] = problem.partition is None or search.model(problem.partition).is_complete
            continue
        ranks = [(max_identifiable_rank(*sizes, criterion, p), p) for p in search.complete_partitions]
        ranks.sort(key=lambda pair: -pair[0])
        found = next(((r, True) for r, p in ranks if not search.undetermined(p)), (ranks[0][0], False))
        max_ranks[criterion], covered[criterion] = found
    if problem.known.is_joint:
        max_ranks["joint"], covered["joint"] = _joint_bound(problem)
    return max_ranks, covered


def _joint_bound(problem: Problem) -> tuple[int, bool]:
    """Bound for whole samples, that of the pattern with the highest one, and whether it speaks for all variables."""
    sizes = list(problem.n_bins)
    if problem.partition is not None:
        model = _generic_groups(problem).model(problem.partition)
        return max_identifiable_rank(len(sizes), sizes, "joint", problem.partition), model.is_complete
    best = 0, False
    for pattern in problem.known.patterns:
        if len(pattern) >= 3:
            inside = [sizes[n] for n in pattern]
            bound = max_identifiable_rank(len(inside), inside, "joint")
            rest = _generic_groups(problem).undetermined_beyond(set(pattern))
            best = max(best, (bound, not rest), key=lambda pair: (pair[1], pair[0]))
    return best


def _generic_groups(problem: Problem) -> GroupingSearch:
    return GroupingSearch(
        problem.n_bins, problem.rank, GenericProducts(problem.n_bins, problem.rank), None, problem.known
    )


def _bound_lines(
    problem: Problem, max_ranks: dict[str, int], covered: dict[str, bool], special: dict[str, str]
) -> list[ReportLine]:
    """Bounds by sizes: proofs if sizes are the problem, withdrawn if the model at hand is a special one."""
    lines = []
    for criterion, (key, name) in _BOUNDS.items():
        if criterion not in max_ranks:
            continue
        # the paper's figures are there to compare with, and prove nothing
        verdict = ""
        strength = Strength.INFORMS
        if not criterion.startswith("paper"):
            is_special = ("joint" if criterion == "joint" else "triples") in special
            within = covered[criterion] and problem.rank <= max_ranks[criterion] and not is_special
            verdict = UNIQUE if problem.rank == 1 else GENERIC if within else OPEN
            if verdict != OPEN:
                is_proof = problem.is_generic or problem.rank == 1
                strength = Strength.PROVED if is_proof else Strength.GENERIC
        required = f"<= {number_text(max_ranks[criterion])}"
        lines.append(ReportLine(key, name, f"rank {problem.rank}", required, verdict, strength=strength))
    return lines


def _special(
    problem: Problem, search: PartitionSearch, grouping: GroupingSearch | None, models: Sequence[StackedModel | None]
) -> dict[str, str]:
    """A set of variables, for "triples" and for "joint", whose ranks are lower than those of almost every model."""
    found: dict[str, str] = {}
    if problem.is_generic or problem.rank == 1:
        return found
    for name, way, model in zip(("triples", "joint"), (search, grouping), models, strict=True):
        if way is None or model is None:
            continue
        stacks = way.stacks
        assert isinstance(stacks, FactorStacks)
        for variables in _looked_at(len(problem.n_bins), model):
            usual = stacks.usual_rank(variables)
            described = stacks.describe(variables, _SPECIAL_COMBINATIONS)
            if described.rank < usual or (described.k_rank.is_exact and described.k_rank < usual):
                names = clip_names([problem.names[n] for n in variables])
                way_of = "Stacked" if name == "triples" else "Multiplied"
                subject = (
                    f"The factor of {names} has" if len(variables) == 1 else f"{way_of}, the factors of {names} have"
                )
                found[name] = (
                    f"{subject} rank {described.rank} and k-rank {described.k_rank!r} where almost every model has "
                    f"{usual}: what holds for almost every model does not speak for this one."
                )
                break
    return found


def _looked_at(n_variables: int, model: StackedModel) -> Iterator[tuple[int, ...]]:
    """Single variables, pairs of them, and the three sets."""
    yield from ((n,) for n in range(n_variables))
    if n_variables <= _PAIRED_VARIABLES:
        yield from combinations(range(n_variables), 2)
    yield from model.partition


def _necessary_lines(problem: Problem, pairs: Sequence[ComponentPair]) -> list[ReportLine]:
    """Conditions without which no model is identifiable, and which prove nothing where they hold."""
    sizes = problem.n_bins if problem.fine is None else [len(cells) for cells in problem.fine]
    wanted = n_parameters(sizes, problem.rank)
    cells = problem.known.n_independent_cells(sizes)
    value = f"{number_text(wanted)} parameters"
    required = f"<= {number_text(cells)} probabilities"
    lines = [_necessary("counting", "Counting", value, required, max(0, wanted - cells))]
    if problem.weights is None:
        return lines
    n_free = len(problem.empty) * sum(size - 1 for size in problem.n_bins)
    lines.append(_necessary("weights", "Smallest weight", f"{problem.weights.min():.3g}", "> 0", n_free))
    if problem.rank > 1:
        # Told apart by more than the uncertainty of the samples; only columns that are equal to rounding refute.
        apart = len(problem.n_bins) - max((len(pair.equal) for pair in _pairs(problem, problem.tolerance)), default=0)
        n_free = max((pair.n_free_directions(problem.n_bins) for pair in pairs), default=0)
        value = f"all {apart} variables" if apart == len(problem.n_bins) else f"{apart} or more variables"
        lines.append(_necessary("distinct", "Any two components differ in", value, ">= 3 variables", n_free))
    return lines


def _necessary(key: str, name: str, value: str, required: str, n_free: int) -> ReportLine:
    if not n_free:
        return ReportLine(key, name, value, required)
    return ReportLine(key, name, value, required, not_identifiable(n_free), n_free, Strength.REFUTED)


def _jacobian(problem: Problem) -> tuple[LocalIdentifiability | None, list[str]]:
    """Jacobian at the model or at random factors, or the reason why there is none."""
    model = problem.drawn
    if problem.weights is not None and problem.factors is not None:
        model = problem.weights, problem.factors
    reason = f"{problem.n_parameters} parameters are more than max_parameters = {problem.max_parameters}"
    if len(problem.n_bins) > _MAX_JACOBIAN_VARIABLES:
        reason = f"{len(problem.n_bins)} variables are more than {_MAX_JACOBIAN_VARIABLES}"
    elif model is not None and problem.n_parameters <= problem.max_parameters:
        try:
            local = local_identifiability(*model, known=problem.known)
            # Free to rounding, or not: between the two, the samples do not tell.
            if problem.n_samples and not local.n_free_directions and local.singular_values[-1] <= problem.tolerance:
                local = replace(local, tolerance=problem.tolerance, is_decided=False)
            return local, []
        except SizeLimitError as error:
            reason = str(error).split(";")[0]
    return None, [
        f"The Jacobian was left out: {reason}. Check some of the variables: where they are locally unique, so is every "
        f"other variable whose {'samples' if problem.known.is_joint else 'triples'} with them are known."
    ]


def _jacobian_line(problem: Problem, local: LocalIdentifiability | None) -> ReportLine:
    """Rank of the Jacobian, and a verdict only if directions are free."""
    name = "Jacobian (local)" if problem.fine is None else "Jacobian (local), of the bins"
    if local is None:
        return ReportLine("jacobian", name, "not looked at", number_text(problem.n_parameters))
    n_free = local.n_free_directions
    full = "" if n_free else " (full: no other model nearby)"
    if not local.is_decided:
        full = " or more (the rest is not told from zero)"
    # Zeros are not printed: their digits are rounding, and another machine's are others.
    nonzero = local.singular_values[local.singular_values > local.tolerance]
    other = "other " if n_free else ""
    smallest = f", smallest {other}singular value {nonzero[-1]:.2g}" if len(nonzero) else ""
    value = f"rank {local.rank}{full}{smallest} ({local.method})"
    line = ReportLine("jacobian", name, value, f"{local.n_parameters}")
    # Bins that leave directions free say nothing of densities on finer cells.
    if not n_free or not local.is_decided or problem.fine is not None:
        return line
    return replace(line, verdict=not_identifiable(n_free), n_free=n_free, strength=Strength.NUMERICAL)


def _zero_lines(
    problem: Problem, search: PartitionSearch, grouping: GroupingSearch | None, so_far: str
) -> list[ReportLine]:
    """Uniqueness among non-negative models that zeros of the factors force, where nothing else proves it."""
    if problem.factors is None or problem.weights is None or so_far == UNIQUE or problem.fine is not None:
        return []
    forced = forced_variables(problem.weights, problem.factors, problem.known)
    if not forced or (grouping or search).undetermined_beyond(set(forced)):
        return []
    names = clip_names([problem.names[n] for n in forced], _NAME_WIDTH)
    return [_proof("zeros", "Zeros of the factors", f"supports are forced by {names}", "forced supports", True)]


def _coverage_notes(problem: Problem, stacked: StackedModel, grouped: StackedModel | None) -> list[str]:
    """Reasons why sets of variables do not speak for the whole model."""
    notes: list[str] = []
    if problem.rank == 1:
        return notes
    if stacked.missing_blocks and grouped is None:
        notes.append(
            f"{stacked.missing_blocks} blocks of the partition are no known triples: its stacked factors prove nothing."
        )
    model = stacked if grouped is None else grouped
    if grouped is not None and grouped.missing_blocks:
        notes.append("The variables of the three groups are never observed together: their products prove nothing.")
    if model.undetermined:
        names = clip_names([problem.names[n] for n in model.undetermined], 2 * _NAME_WIDTH)
        notes.append(f"Variables outside the partition that do not follow from those inside: {names}.")
    return notes


def _verdict_notes(problem: Problem, verdict: str, special: dict[str, str]) -> list[str]:
    """Notes on a verdict about almost every model, for the one at hand."""
    if problem.is_generic:
        return []
    if verdict == GENERIC:
        return [
            "Models of these sizes without this property have measure zero. That proves nothing of the model at hand; "
            "none of its factors, alone or in the sets above, shows that it is an exception."
        ]
    if verdict == OPEN:
        return list(dict.fromkeys(special.values()))[-1:]
    return []


def _tolerance_notes(problem: Problem) -> list[str]:
    """Note on the tolerance of all lines of a fit."""
    if problem.n_samples is None:
        return []
    return [
        f"Columns of a fit count as dependent within the uncertainty of its {problem.n_samples} samples: scaled to "
        f"unit length, up to a singular value of {problem.tolerance:.2g}."
    ]


def _free_notes(
    problem: Problem,
    local: LocalIdentifiability | None,
    found: Sequence[ReportLine],
    shown: Sequence[ReportLine],
    verdict: str,
) -> list[str]:
    """Notes on free directions, or none; `found` are the lines before contradictions were settled."""
    free = {line.key: line.n_free for line in shown if line.n_free}
    outranked = {line.key: line.n_free for line in found if line.n_free and line.key not in free}
    if outranked:
        return _outranked_notes(outranked, verdict)
    if not free:
        return _locally_unique_notes(problem, local, verdict)
    notes = []
    if "counting" in free:
        notes.append("There are more parameters than probabilities: use fewer components, more bins or more variables.")
    if "weights" in free:
        empty = ", ".join(str(r) for r in problem.empty)
        notes.append(f"Components without weight ({empty}) may have any columns: use fewer components.")
    if local is None or not local.is_decided:
        notes.append("Without the Jacobian, the number of free directions is a lower bound.")
    elif local.n_free_directions:
        notes += _cause_notes(problem, local, free)
    if problem.factors is not None and any((factor == 0).any() for factor in problem.factors):
        notes.append(
            "Directions are counted for factors of any sign, so that the verdict holds up to signs: zeros of this "
            "model may block some of them."
        )
    return notes


def _outranked_notes(outranked: dict[str, int], verdict: str) -> list[str]:
    if verdict == UNIQUE and set(outranked) & {"counting", "distinct", "weights"}:
        return [
            f"Factors of any sign could move in {max(outranked.values())} directions; non-negative ones cannot, "
            "because of their zeros."
        ]
    return [
        f"{max(outranked.values())} singular values of the Jacobian are not told from zero, which is rounding: a proof "
        "outranks it. No histogram of samples is that precise."
    ]


def _locally_unique_notes(problem: Problem, local: LocalIdentifiability | None, verdict: str) -> list[str]:
    if verdict != OPEN or local is None:
        return []
    known = "distribution" if problem.known.is_joint else "histograms"
    if not local.is_decided:
        return [f"{local.n_free_directions} singular values of the Jacobian are too small to be told from zero."]
    if local.n_free_directions:
        return [
            f"The bins of the report leave {local.n_free_directions} directions free; the densities were fitted to "
            "finer cells, which determine more."
        ]
    return [f"No other model nearby has the same {known}; one further away is not excluded."]


def _cause_notes(problem: Problem, local: LocalIdentifiability, free: dict[str, int]) -> list[str]:
    """Note that blames the sizes or this very model for free directions."""
    if problem.is_generic or problem.drawn is None:
        return []
    usual = local_identifiability(*problem.drawn, known=problem.known).n_free_directions
    if usual == local.n_free_directions:
        if "counting" in free:
            return []
        return ["Almost every model of these sizes has as many: use fewer components, more bins or more variables."]
    if usual:
        return [f"Almost every model of these sizes has {usual} free directions; this one is special and has more."]
    known = "" if {"distinct", "weights"} & set(free) else " to first order; a small change of it may be unique"
    return [f"Almost every model of these sizes is locally unique; this one is a special point{known}."]
