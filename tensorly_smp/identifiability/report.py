"""Can the answer be trusted? Every criterion of uniqueness, on one model or on sizes alone, as one table."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.factors.solution import CoupledSolution
from tensorly_smp.identifiability.concerns import PARALLEL_COSINE, ComponentPair, describe_pair
from tensorly_smp.identifiability.evidence import (
    GENERIC,
    OPEN,
    UNIQUE,
    Evidence,
    ReportLine,
    free_directions,
    gather,
)
from tensorly_smp.identifiability.jacobian import LocalIdentifiability
from tensorly_smp.identifiability.question import Question, read_question
from tensorly_smp.identifiability.stacked import StackedFactor
from tensorly_smp.marginals.partition import Partition
from tensorly_smp.randomness import RandomState
from tensorly_smp.representations import html_summary, shown

if TYPE_CHECKING:
    import xarray as xr

_SHOWN_PAIRS = 5


@dataclass(frozen=True, eq=False, repr=False)
class IdentifiabilityReport:
    """Whether weights and factors are the only ones that give their histograms, and why; prints as a table.

    Attributes
    ----------
    verdict : str
        Overall: "unique", "unique for almost every model", "not guaranteed" or "not identifiable: k free directions".
    lines : tuple of ReportLine
        One per criterion, each with key, name, value, required and verdict; the verdict is empty where a line decides
        nothing by itself.
    notes : tuple of str
        What the numbers mean for this model: cause of free directions, nearly parallel components, what was left out.
    partition : Partition
        The three sets of variables whose stacked factors were looked at.
    stacked : tuple of StackedFactor
        Ranks, k-ranks and condition numbers of the three stacked factors.
    max_ranks : dict
        Highest rank by criterion: "gevd", "kruskal", "generic", "paper-gevd", "paper-generic".
    pairs : tuple of ComponentPair
        Components with nearly parallel columns, those parallel in most variables first.
    local : LocalIdentifiability or None
        Singular values of the Jacobian; None if there are too many parameters.
    n_free_directions : int or None
        Directions in which the model can move, to first order, without changing a histogram. Without a Jacobian, a
        lower bound if it is positive, 0 if uniqueness is proved, else None.
    rank : int
    n_bins : tuple of int
    variables : tuple of hashable
        Names of the variables.
    n_triples : int
        Known triples.
    n_parameters : int
    from_sizes : bool
        Whether only sizes were given, so that verdicts are about almost every model.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> report = smp.check_identifiability(n_variables=5, n_bins=4, rank=3)
    >>> report.verdict, report.max_ranks["gevd"], report["kruskal-bound"].verdict
    ('unique for almost every model', 7, 'unique for almost every model')
    """

    verdict: str
    lines: tuple[ReportLine, ...]
    notes: tuple[str, ...]
    partition: Partition
    stacked: tuple[StackedFactor, StackedFactor, StackedFactor]
    max_ranks: dict[str, int]
    pairs: tuple[ComponentPair, ...]
    local: LocalIdentifiability | None
    n_free_directions: int | None
    rank: int
    n_bins: tuple[int, ...]
    variables: tuple[Hashable, ...]
    n_triples: int
    n_parameters: int
    from_sizes: bool

    def __getitem__(self, key: str) -> ReportLine:
        """The line with this key, such as ``report["kruskal"]``."""
        for line in self.lines:
            if line.key == key:
                return line
        raise InvalidInputError(
            f"The report has no line {shown(key)}; expected one of {[line.key for line in self.lines]}."
        )

    @property
    def is_unique(self) -> bool:
        """Proved for this very model."""
        return self.verdict == UNIQUE

    @property
    def is_generically_unique(self) -> bool:
        """Proved for this very model, or for almost every model of its sizes."""
        return self.verdict in (UNIQUE, GENERIC)

    @property
    def is_locally_unique(self) -> bool | None:
        """No other model nearby has the same histograms, by first order; None if that was not looked at."""
        return None if self.n_free_directions is None else self.n_free_directions == 0

    @property
    def is_near_degenerate(self) -> bool:
        """Two components are nearly parallel in all but at most two variables."""
        return any(pair.is_near_degenerate for pair in self.pairs)

    def summary(self) -> str:
        """One sentence, without a full stop."""
        reasons = [line for line in self.lines if line.verdict == self.verdict]
        if not reasons or self.verdict == OPEN:
            return f"{self._subject()}: {self.verdict}"
        name, value, required, _ = _cells(reasons[0])
        return f"{self._subject()}: {self.verdict} ({name}: {value}; required {required})"

    def to_dataset(self) -> xr.Dataset:
        """The report as an xarray.Dataset of plain types, which files can hold.

        Returns
        -------
        Dataset
            ``value``, ``required`` and ``verdict`` (line), ``stacked_rank``, ``k_rank``, ``k_rank_is_exact`` and
            ``condition`` (set), ``max_rank`` (criterion), ``partition`` (variable; number of the set, -1 for none),
            ``n_bins`` (variable), ``n_nearly_parallel`` (component, other_component; number of variables; only
            of given factors), ``singular_values`` (parameter; only with a Jacobian). Attributes: verdict, summary,
            notes, rank, n_triples, n_parameters, from_sizes, and n_free_directions (-1 if unknown).
        """
        import xarray as xr

        sets = np.full(len(self.n_bins), -1)
        for s, group in enumerate(self.partition):
            sets[list(group)] = s
        texts = {
            name: ("line", np.array([getattr(line, name) for line in self.lines]))
            for name in ("name", "value", "required", "verdict")
        }
        data: dict[str, Any] = {
            **texts,
            "stacked_rank": ("set", np.array([stack.rank for stack in self.stacked])),
            "k_rank": ("set", np.array([int(stack.k_rank) for stack in self.stacked])),
            "k_rank_is_exact": ("set", np.array([int(stack.k_rank.is_exact) for stack in self.stacked])),
            "condition": ("set", np.array([stack.condition for stack in self.stacked])),
            "max_rank": ("criterion", np.array(list(self.max_ranks.values()))),
            "partition": ("variable", sets),
            "n_bins": ("variable", np.array(self.n_bins)),
        }
        coords: dict[str, Any] = {
            "line": np.array([line.key for line in self.lines]),
            "set": np.arange(3),
            "criterion": np.array(list(self.max_ranks)),
            "variable": _coordinate(self.variables),
        }
        if not self.from_sizes:
            data["n_nearly_parallel"] = (("component", "other_component"), self._pair_counts())
            coords |= {"component": np.arange(self.rank), "other_component": np.arange(self.rank)}
        if self.local is not None and self.local.n_parameters:
            data["singular_values"] = ("parameter", np.array(self.local.singular_values))
        attrs = {
            "verdict": self.verdict,
            "summary": self.summary(),
            "notes": "\n".join(self.notes),
            "rank": self.rank,
            "n_triples": self.n_triples,
            "n_parameters": min(self.n_parameters, 2**63 - 1),
            "from_sizes": int(self.from_sizes),
            "n_free_directions": -1 if self.n_free_directions is None else self.n_free_directions,
        }
        return xr.Dataset(data, coords, attrs)

    def __repr__(self) -> str:
        rows = [("Criterion", "Found", "Required", "Verdict"), *map(_cells, self.lines)]
        widths = [max(len(row[c]) for row in rows) for c in range(4)]
        text = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        text.insert(1, "  ".join("-" * width for width in widths))
        head = [f"Identifiability of {self._subject()}, {self._triples()}", f"Verdict: {self.verdict}", ""]
        notes = ["", *(f"- {note}" for note in self.notes)] if self.notes else []
        return "\n".join([*head, *text, *notes])

    def _repr_html_(self) -> str:
        title = f"Identifiability of {self._subject()}, {self._triples()}"
        rows = [_cells(line) for line in self.lines]
        header = ("Criterion", "Found", "Required", "Verdict")
        return html_summary(title, [("Verdict", self.verdict)], header, rows, self.notes, limit=len(rows))

    def _subject(self) -> str:
        sizes = f"{min(self.n_bins)}" if len(set(self.n_bins)) == 1 else f"{min(self.n_bins)} to {max(self.n_bins)}"
        plural = "" if self.rank == 1 else "s"
        return f"{self.rank} component{plural} of {len(self.n_bins)} variables with {sizes} bins"

    def _triples(self) -> str:
        possible = comb(len(self.n_bins), 3)
        if self.n_triples == possible:
            return "the triple known" if possible == 1 else f"all {possible} triples known"
        return f"{self.n_triples} of {possible} triples known"

    def _pair_counts(self) -> np.ndarray:
        counts = np.diag(np.full(self.rank, len(self.n_bins)))
        for pair in self.pairs:
            r, s = pair.components
            counts[r, s] = counts[s, r] = len(pair.near)
        return counts


def check_identifiability(
    subject: CoupledSolution | MixtureFactors | xr.Dataset | None = None,
    *,
    n_variables: int | None = None,
    n_bins: int | Sequence[int] | None = None,
    rank: int | None = None,
    partition: Partition | Sequence[Sequence[int]] | None = None,
    triples: str | int | Iterable[Sequence[int]] | None = None,
    parallel_cosine: float = PARALLEL_COSINE,
    max_parameters: int = 3000,
    random_state: RandomState = 0,
) -> IdentifiabilityReport:
    """Say whether weights and factors are the only ones that give their histograms.

    Either a model is given, and the report is about this very model, or sizes only, before any data, and the report is
    about almost every model of these sizes.

    Parameters
    ----------
    subject : CoupledSolution, MixtureFactors or Dataset, optional
        A fit, or true factors. A Dataset as made by ``solution.to_dataset()``, or an estimator's ``result_``.
    n_variables : int, optional
        Without a subject: N, at least 3. Not needed if `n_bins` has one entry per variable.
    n_bins : int or sequence of int (n_variables,), optional
        Without a subject: at least 2.
    rank : int, optional
        Without a subject: number of components.
    partition : Partition or three collections of variable indices, optional
        Whose stacked factors to look at. By default the partition that proves most.
    triples : None, "all", int or list of (j, k, l)
        The triples whose histograms are known; an int draws so many. None (default): those that a solution or the
        Dataset of a fit was made from, else all.
    parallel_cosine : float
        Two columns are called nearly parallel if their cosine is above it.
    max_parameters : int
        The Jacobian is left out if the model has more free parameters than this; its time grows with the third power.
        It is left out beyond 8000 parameters or 300 variables too.
    random_state : None, int, Generator or RandomState
        For an int number of triples, and for the random factors that stand for almost every model.

    Returns
    -------
    IdentifiabilityReport

    Raises
    ------
    InvalidInputError
        Sizes out of range, both a subject and sizes, a Dataset that is no result.
    InvalidTypeError
        Any other kind of subject, sizes that are not integers.

    See Also
    --------
    max_identifiable_rank : How many components can I ask for?
    min_bins_for_rank : How many bins do I need?

    Notes
    -----
    "unique": Kruskal's condition, or that of Leurgans, which is a special case, holds at these very factors; up to the
    order of the components.
    "unique for almost every model": the rank is within a bound that holds for all models of these sizes but a set of
    measure zero, and no factor by itself shows that the model is special.
    "not identifiable: k free directions": the Jacobian has k columns too many, so that to first order the model can
    move in k directions without any change of a histogram; or two components differ in at most two variables, a
    component has no weight, or there are more parameters than probabilities.
    "not guaranteed": none of these; with a Jacobian of full rank the model is then still the only one nearby.

    The model is seen without its signs: a direction counts as free even if it leads out of the non-negative factors.
    Verdicts do not depend on the order of components, bins and variables; with more than 8 variables, or some triples
    only, and components that are alike in many variables, not all partitions are tried, so that a proof may be missed.

    J. B. Kruskal, 1977. S. E. Leurgans, R. T. Ross and R. B. Abel, 1993. L. Chiantini and G. Ottaviani, 2012.
    N. Kargas and N. D. Sidiropoulos, AISTATS 2019, whose bounds are shown as printed.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> report = smp.check_identifiability(n_variables=3, n_bins=2, rank=3)
    >>> report.verdict
    'not identifiable: 4 free directions'
    >>> report["counting"].value, report["counting"].required
    ('11 parameters', '<= 7 probabilities')
    >>> smp.check_identifiability(n_variables=10, n_bins=15, rank=5).verdict
    'unique for almost every model'
    """
    question = read_question(
        subject, n_variables, n_bins, rank, partition, triples, parallel_cosine, max_parameters, random_state
    )
    return _assemble(question, gather(question))


_SCOPE = (
    "All this is about exact histograms: whether other factors have the same ones. It says neither how many components "
    "there are nor how far sampling noise moves them."
)


def _assemble(question: Question, evidence: Evidence) -> IdentifiabilityReport:
    stacked = evidence.at_factors
    return IdentifiabilityReport(
        verdict=evidence.verdict,
        lines=evidence.lines,
        notes=(*evidence.notes, *_pair_notes(question, evidence.pairs), *([] if question.is_generic else [_SCOPE])),
        partition=stacked.partition,
        stacked=stacked.stacked,
        max_ranks=evidence.max_ranks,
        pairs=evidence.pairs,
        local=evidence.local,
        n_free_directions=free_directions(evidence),
        rank=question.rank,
        n_bins=question.n_bins,
        variables=question.names,
        n_triples=question.n_triples,
        n_parameters=question.n_parameters,
        from_sizes=question.is_generic,
    )


def _pair_notes(question: Question, pairs: Sequence[ComponentPair]) -> list[str]:
    """Pairs that are alike in most variables, by name, and how many more there are."""
    shown = [pair for pair in pairs if pair.is_near_degenerate or 2 * len(pair.near) >= len(question.n_bins)]
    shown = shown[:_SHOWN_PAIRS]
    notes = [describe_pair(pair, question.names, range(question.rank)) for pair in shown]
    more = len(pairs) - len(shown)
    if more:
        others = "more pair" if shown else "pair"
        notes.append(f"{more} {others}{'s' * (more > 1)} of components nearly parallel in some variable: see pairs.")
    return notes


def _cells(line: ReportLine) -> tuple[str, str, str, str]:
    return line.name, line.value, line.required or "-", line.verdict or "-"


def _coordinate(names: Sequence[Hashable]) -> np.ndarray:
    if all(isinstance(name, int | np.integer) and not isinstance(name, bool) for name in names):
        return np.array(names)
    return np.array([str(name) for name in names])
