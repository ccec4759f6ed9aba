"""The criteria of uniqueness, one line each, and what they say together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np

from tensorly_smp.exceptions import SizeLimitError
from tensorly_smp.identifiability.bounds import Criterion, max_identifiable_rank
from tensorly_smp.identifiability.concerns import (
    ComponentPair,
    clip_names,
    n_independent_cells,
    nearly_parallel_pairs,
)
from tensorly_smp.identifiability.jacobian import LocalIdentifiability, local_identifiability
from tensorly_smp.identifiability.kruskal import kruskal_rank
from tensorly_smp.identifiability.question import Question
from tensorly_smp.identifiability.stacked import (
    TOLERANCE,
    FactorStacks,
    GenericStacks,
    PartitionSearch,
    StackedModel,
)

UNIQUE = "unique"
GENERIC = "unique for almost every model"
OPEN = "not guaranteed"
_FREE = "not identifiable"

_CRITERIA: dict[Criterion, tuple[str, str]] = {
    "gevd": ("gevd-bound", "Leurgans' bound"),
    "kruskal": ("kruskal-bound", "Kruskal's bound"),
    "generic": ("generic-bound", "Chiantini-Ottaviani bound"),
    "paper-gevd": ("paper-gevd", "Paper's algebraic bound, as printed"),
    "paper-generic": ("paper-generic", "Paper's generic bound, as printed"),
}
# The blocks of the Gram matrix are made one by one, for every pair of variables.
_MAX_JACOBIAN_VARIABLES = 300
_NAME_WIDTH = 36
_JACOBIAN = "Jacobian (local)"


def not_identifiable(n_free: int) -> str:
    """The verdict for so many free directions."""
    return f"{_FREE}: {n_free} free direction{'' if n_free == 1 else 's'}"


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
        "unique", "unique for almost every model", "not guaranteed", "not identifiable: k free directions", or empty
        where the line decides nothing by itself.
    n_free : int
        Free directions that it proves.
    """

    key: str
    name: str
    value: str
    required: str = ""
    verdict: str = ""
    n_free: int = 0


@dataclass(frozen=True, eq=False)
class Evidence:
    """Everything that was found, and the verdict."""

    lines: tuple[ReportLine, ...]
    notes: tuple[str, ...]
    verdict: str
    at_factors: StackedModel
    max_ranks: dict[str, int]
    pairs: tuple[ComponentPair, ...]
    local: LocalIdentifiability | None


def gather(question: Question) -> Evidence:
    """Look at the model, or at the sizes, by every criterion."""
    pairs = () if question.factors is None else nearly_parallel_pairs(question.factors, question.parallel_cosine)
    degenerate = any(pair.is_degenerate for pair in pairs)
    drawn = None if question.drawn is None else question.drawn[1]
    factors = drawn if question.factors is None else question.factors
    stacks: FactorStacks | GenericStacks
    if question.factors is None:
        stacks = GenericStacks(question.n_bins, question.rank, None if drawn is None else FactorStacks(drawn))
    else:
        stacks = FactorStacks(question.factors)
    search = PartitionSearch(question.n_bins, question.rank, stacks, factors, question.triples)
    model = search.best(question.partition, may_search=not degenerate)
    max_ranks, covered = _bounds(question, search)
    lines = [*_stack_lines(question, model)]
    if not question.is_generic:
        lines += _point_lines(question, model)
    lines += _bound_lines(question, max_ranks, covered)
    lines += _necessary_lines(question, pairs)
    local, skipped = _jacobian(question)
    if local is None:
        lines.append(ReportLine("jacobian", _JACOBIAN, "not looked at", f"{question.n_parameters}"))
    else:
        lines.append(_jacobian_line(local, _overall(lines)))
    verdict = _overall(lines)
    special = "" if question.factors is None or verdict != GENERIC else _special(question, pairs)
    if special:
        verdict = OPEN
        lines = [replace(line, verdict=OPEN) if line.key == "jacobian" and line.verdict else line for line in lines]
        skipped = [*skipped, special]
    notes = [*skipped, *_coverage_notes(question, model), *_free_notes(question, local, lines)]
    return Evidence(tuple(lines), tuple(notes), verdict, model, max_ranks, pairs, local)


def free_directions(evidence: Evidence) -> int | None:
    """Number of free directions, as IdentifiabilityReport defines it."""
    proved = max(line.n_free for line in evidence.lines)
    if proved or evidence.local is not None or evidence.verdict == UNIQUE:
        return proved
    return None


def _overall(lines: Sequence[ReportLine]) -> str:
    n_free = max(line.n_free for line in lines)
    if n_free:
        return not_identifiable(n_free)
    found = {line.verdict for line in lines}
    return next((verdict for verdict in (UNIQUE, GENERIC) if verdict in found), OPEN)


def _special(question: Question, pairs: Sequence[ComponentPair]) -> str:
    """Why the model cannot be taken for almost every one, if so: a single factor with fewer independent columns."""
    assert question.factors is not None
    equal = [n for pair in pairs for n in pair.equal]
    for n, factor in enumerate(question.factors):
        usual = min(factor.shape)
        k_rank = kruskal_rank(factor, TOLERANCE, 5000)
        if n in equal or (k_rank.is_exact and k_rank < usual):
            name = clip_names([question.names[n]])
            return (
                f"The factor of {name} has k-rank {k_rank!r} where that of almost every model has {usual}: what holds "
                "for almost every model does not speak for this one."
            )
    return ""


def _stack_lines(question: Question, model: StackedModel) -> list[ReportLine]:
    lines = []
    for s, stack in enumerate(model.stacked):
        condition = f", condition {stack.condition:.3g}" if np.isfinite(stack.condition) else ""
        value = f"rank {stack.rank}, k-rank {stack.k_rank!r}{condition}"
        names = clip_names([question.names[n] for n in stack.variables], _NAME_WIDTH - 7)
        lines.append(ReportLine(f"set-{s + 1}", f"Set {s + 1}: {names}", value))
    return lines


def _point_lines(question: Question, model: StackedModel) -> list[ReportLine]:
    """Leurgans' and Kruskal's conditions at the factors themselves."""
    proves = model.is_complete and not len(question.empty)
    one = question.rank == 1  # the histograms of the single variables are its factors
    pencil = model.pencil
    shown = 2 if pencil is None else pencil
    ranks = [stack.rank for s, stack in enumerate(model.stacked) if s != shown]
    leurgans = ReportLine(
        "leurgans",
        "Leurgans, at these factors",
        f"ranks {ranks[0]} and {ranks[1]}, k-rank {model.stacked[shown].k_rank!r} of set {shown + 1}",
        "nothing for one component" if one else f"{question.rank}, {question.rank} and >= 2",
        UNIQUE if one or (proves and pencil is not None) else OPEN,
    )
    kruskal = ReportLine(
        "kruskal",
        "Kruskal, at these factors",
        f"k-ranks {' + '.join(str(int(stack.k_rank)) for stack in model.stacked)} = {model.k_rank_sum}",
        "nothing for one component" if one else f">= {2 * question.rank + 2}",
        UNIQUE if one or (proves and model.is_kruskal) else OPEN,
    )
    return [leurgans, kruskal]


def _bounds(question: Question, search: PartitionSearch) -> tuple[dict[str, int], dict[str, bool]]:
    """Highest rank by criterion, and whether its partition speaks for the whole model."""
    sizes = len(question.n_bins), list(question.n_bins)
    max_ranks: dict[str, int] = {}
    covered: dict[str, bool] = {}
    for criterion in get_args(Criterion):
        if question.partition is not None or question.triples is None or criterion.startswith("paper"):
            max_ranks[criterion] = max_identifiable_rank(*sizes, criterion, question.partition)
            covered[criterion] = question.partition is None or search.model(question.partition).is_complete
            continue
        ranks = [(max_identifiable_rank(*sizes, criterion, p), p) for p in search.complete_partitions()]
        ranks.sort(key=lambda pair: -pair[0])
        found = next(((r, True) for r, p in ranks if not search.undetermined(p)), (ranks[0][0], False))
        max_ranks[criterion], covered[criterion] = found
    return max_ranks, covered


def _bound_lines(question: Question, max_ranks: dict[str, int], covered: dict[str, bool]) -> list[ReportLine]:
    lines = []
    for criterion, (key, name) in _CRITERIA.items():
        verdict = ""  # the paper's figures are there to compare with, and prove nothing
        if not criterion.startswith("paper"):
            within = covered[criterion] and question.rank <= max_ranks[criterion]
            verdict = UNIQUE if question.rank == 1 else GENERIC if within else OPEN
        lines.append(ReportLine(key, name, f"rank {question.rank}", f"<= {max_ranks[criterion]}", verdict))
    return lines


def _necessary_lines(question: Question, pairs: Sequence[ComponentPair]) -> list[ReportLine]:
    """Conditions without which no model is identifiable, and which prove nothing where they hold."""
    cells = n_independent_cells(question.n_bins, question.triples)
    excess = max(0, question.n_parameters - cells)
    lines = [
        _necessary("counting", "Counting", f"{question.n_parameters} parameters", f"<= {cells} probabilities", excess)
    ]
    if question.weights is None:
        return lines
    n_free = len(question.empty) * sum(size - 1 for size in question.n_bins)
    lines.append(_necessary("weights", "Smallest weight", f"{question.weights.min():.3g}", "> 0", n_free))
    if question.rank > 1:
        worst = max((pair for pair in pairs), key=lambda pair: len(pair.equal), default=None)
        apart = len(question.n_bins) - (0 if worst is None else len(worst.equal))
        n_free = max((pair.n_free_directions(question.n_bins) for pair in pairs), default=0)
        value = f"all {apart} variables" if apart == len(question.n_bins) else f"{apart} or more variables"
        lines.append(_necessary("distinct", "Any two components differ in", value, ">= 3 variables", n_free))
    return lines


def _necessary(key: str, name: str, value: str, required: str, n_free: int) -> ReportLine:
    return ReportLine(key, name, value, required, not_identifiable(n_free) if n_free else "", n_free)


def _jacobian(question: Question) -> tuple[LocalIdentifiability | None, list[str]]:
    """Jacobian at the model or at random factors, or the reason why there is none."""
    model = question.drawn
    if question.weights is not None and question.factors is not None:
        model = question.weights, question.factors
    reason = f"{question.n_parameters} parameters are more than max_parameters = {question.max_parameters}"
    if len(question.n_bins) > _MAX_JACOBIAN_VARIABLES:
        reason = f"{len(question.n_bins)} variables are more than {_MAX_JACOBIAN_VARIABLES}"
    elif model is not None and question.n_parameters <= question.max_parameters:
        try:
            return _local(question, *model), []
        except SizeLimitError as error:
            reason = str(error).split(";")[0]
    return None, [
        f"The Jacobian was left out: {reason}. Check some of the variables: where they are locally unique, so is every "
        "other variable whose triples with them are known."
    ]


def _local(question: Question, weights: np.ndarray, factors: Sequence[np.ndarray]) -> LocalIdentifiability:
    return local_identifiability(weights, factors, "all" if question.triples is None else question.triples)


def _jacobian_line(local: LocalIdentifiability, verdict: str) -> ReportLine:
    """A full rank proves nothing beyond the neighborhood, so the verdict is that of the other lines then."""
    n_free = local.n_free_directions
    full = "" if n_free else " (full: no other model nearby)"
    value = f"rank {local.rank}{full}, smallest singular value {local.smallest_singular_value:.2g} ({local.method})"
    required = f"{local.n_parameters}"
    return ReportLine("jacobian", _JACOBIAN, value, required, not_identifiable(n_free) if n_free else verdict, n_free)


def _coverage_notes(question: Question, model: StackedModel) -> list[str]:
    """Why a partition does not speak for the whole model."""
    notes: list[str] = []
    if question.rank == 1:
        return notes
    if model.missing_blocks:
        notes.append(
            f"{model.missing_blocks} blocks of the partition are no known triples: its stacked factors prove nothing."
        )
    if model.undetermined:
        names = clip_names([question.names[n] for n in model.undetermined], 2 * _NAME_WIDTH)
        notes.append(f"Variables outside the partition that do not follow from those inside: {names}.")
    return notes


def _free_notes(question: Question, local: LocalIdentifiability | None, lines: Sequence[ReportLine]) -> list[str]:
    """What free directions, or none, mean for this model."""
    proved = {line.key: line.n_free for line in lines if line.n_free}
    if not proved:
        if lines[-1].verdict == OPEN:
            return ["No other model nearby has the same histograms; one further away is not excluded."]
        return []
    notes = []
    if "counting" in proved:
        notes.append("There are more parameters than probabilities: use fewer components, more bins or more variables.")
    if "weights" in proved:
        empty = ", ".join(str(r) for r in question.empty)
        notes.append(f"Components without weight ({empty}) may have any columns: use fewer components.")
    if local is None:
        notes.append("Without the Jacobian, the number of free directions is a lower bound.")
    elif local.n_free_directions:
        notes += _cause_notes(question, local, proved)
        if local.method == "gram" and UNIQUE in {line.verdict for line in lines}:
            notes.append(
                f"Singular values below {local.tolerance:.1e} are not told from zero here: the model may be unique in "
                "exact arithmetic, but no histogram of samples is that precise."
            )
    return notes


def _cause_notes(question: Question, local: LocalIdentifiability, proved: dict[str, int]) -> list[str]:
    """Whether the sizes are to blame or this very model."""
    if question.is_generic or question.drawn is None:
        return []
    usual = _local(question, *question.drawn).n_free_directions
    if usual == local.n_free_directions:
        if "counting" in proved:
            return []
        return ["Almost every model of these sizes has as many: use fewer components, more bins or more variables."]
    if usual:
        return [f"Almost every model of these sizes has {usual} free directions; this one is special and has more."]
    known = "" if {"distinct", "weights"} & set(proved) else " to first order; a small change of it may be unique"
    return [f"Almost every model of these sizes is locally unique; this one is a special point{known}."]
