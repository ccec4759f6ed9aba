"""Can the answer be trusted? Every criterion of uniqueness, on one model or on sizes alone, as one table; warnings."""

from __future__ import annotations

import textwrap
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from tensorly_smp._support.checks import RandomState, is_integer
from tensorly_smp._support.representations import html_summary, number_range, shown
from tensorly_smp.decomposition.solution import CoupledSolution, plain_coordinate
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError, MissingDependencyError
from tensorly_smp.factors.mixture_factors import EMPTY_WEIGHT, MixtureFactors
from tensorly_smp.identifiability.bounds import Criterion, max_identifiable_rank
from tensorly_smp.identifiability.criteria import GENERIC, OPEN, UNIQUE, ReportLine, apply_criteria
from tensorly_smp.identifiability.jacobian import LocalIdentifiability
from tensorly_smp.identifiability.likeness import (
    PARALLEL_COSINE,
    ComponentPair,
    clip_names,
    describe_pair,
    nearly_parallel_pairs,
)
from tensorly_smp.identifiability.problem import (
    KnownMarginals,
    KnownName,
    n_parameters,
    read_problem,
    variable_names,
)
from tensorly_smp.identifiability.ranks import StackedFactor, complete_partitions
from tensorly_smp.marginals.block_tensor import Partition
from tensorly_smp.marginals.histograms import Marginals, resolve_triples

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

# Pairs, groups and patterns of a warning.
_WARNED = 3
# Variables by which a lower bound of the rank is tried first: the best grouping of a thousand takes .2 seconds.
_SOME_VARIABLES = 20
#: Characters of a line of the printed report, and of the columns of its table, two blanks apart.
_WIDTH = 100
_COLUMNS = {"Criterion": 25, "Found": 29, "Required": 16, "Verdict": 17, "Ref.": 5}
_LARGEST = 2**63 - 1


@dataclass(frozen=True, eq=False, repr=False)
class IdentifiabilityReport:
    """Verdict on the uniqueness of weights and factors, with every criterion and its reference; prints as a table.

    It takes the model for granted: whether variables are independent within components is for
    :func:`check_independence`, how far other samples would move the fit for ``model.bootstrap``.

    Attributes
    ----------
    verdict : str
        Overall: "unique", "unique for almost every model", "not guaranteed" or "not identifiable: k free directions".
    lines : tuple of ReportLine
        One per criterion, each with key, name, value, required and verdict; the verdict is empty where a line decides
        nothing by itself.
    notes : tuple of str
        What the numbers mean for this model: cause of free directions, nearly parallel components, what was left out.
    known : KnownMarginals
        The distributions that are known: triples or whole samples; ``known.name`` is "triples" or "samples".
    partition : Partition
        The three sets of variables whose stacked factors were looked at.
    stacked : tuple of StackedFactor
        Ranks, k-ranks and condition numbers of the three stacked factors.
    grouping : Partition or None
        For whole samples, the three groups of variables whose joint distributions were looked at.
    products : tuple of StackedFactor
        For whole samples, ranks, k-ranks and condition numbers of the Khatri-Rao products of the three groups.
    max_ranks : dict
        Highest rank by criterion: "gevd", "kruskal", "generic", "paper-gevd", "paper-generic", and for whole samples
        "joint".
    pairs : tuple of ComponentPair
        Components with nearly parallel columns, those parallel in most variables first.
    local : LocalIdentifiability or None
        Singular values of the Jacobian; None if there are too many parameters.
    n_free_directions : int or None
        Directions in which the model can move, to first order, without changing what is known. Without a Jacobian, a
        lower bound if it is positive, 0 if uniqueness is proved, else None.
    rank : int
    n_bins : tuple of int
    variables : tuple of hashable
        Names of the variables.
    n_parameters : int
    n_rivals : int
        Other solutions of a fit that samples do not tell from it; each has a note.
    from_sizes : bool
        True if only sizes were given, so that verdicts are about almost every model.

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
    known: KnownMarginals
    partition: Partition
    stacked: tuple[StackedFactor, StackedFactor, StackedFactor]
    grouping: Partition | None
    products: tuple[StackedFactor, ...]
    max_ranks: dict[str, int]
    pairs: tuple[ComponentPair, ...]
    local: LocalIdentifiability | None
    n_free_directions: int | None
    rank: int
    n_bins: tuple[int, ...]
    variables: tuple[Hashable, ...]
    n_parameters: int
    n_rivals: int
    from_sizes: bool

    def __getitem__(self, key: str) -> ReportLine:
        """Return the line with this key, such as ``report["kruskal"]``."""
        keys = [line.key for line in self.lines]
        if key not in keys:
            raise InvalidInputError(f"The report has no line {shown(key)}; expected one of {keys}.")
        return self.lines[keys.index(key)]

    @property
    def n_triples(self) -> int:
        """Number of known triples, those inside whole samples included."""
        return self.known.n_triples

    @property
    def is_unique(self) -> bool:
        """True if uniqueness is proved for this very model."""
        return self.verdict == UNIQUE

    @property
    def is_generically_unique(self) -> bool:
        """True if uniqueness is proved for this very model, or for almost every model of its sizes."""
        return self.verdict in (UNIQUE, GENERIC)

    @property
    def is_locally_unique(self) -> bool | None:
        """True if no other model nearby has the same distributions, to first order; None if not looked at."""
        return None if self.n_free_directions is None else self.n_free_directions == 0

    @property
    def is_near_degenerate(self) -> bool:
        """True if two components are nearly parallel in all but at most two variables."""
        return any(pair.is_near_degenerate for pair in self.pairs)

    def summary(self) -> str:
        """Return the verdict and its reason in one sentence, without a full stop."""
        reasons = [line for line in self.lines if line.verdict == self.verdict]
        subject = f"{self._subject()}, {self.known.describe()}"
        if not reasons or self.verdict == OPEN:
            return f"{subject}: {self.verdict}"
        name, value, required, _ = _cells(reasons[0])
        return f"{subject}: {self.verdict} ({name}: {value}; required {required})"

    def to_dataframe(self) -> pd.DataFrame:
        """Return the table of criteria.

        Returns
        -------
        DataFrame
            A row per line, by its key; columns criterion, found, required, verdict, reference, all strings.

        Examples
        --------
        >>> import tensorly_smp as smp
        >>> table = smp.check_identifiability(9, 2, 14, known="samples").to_dataframe()
        >>> table.loc["joint-bound", ["found", "required", "verdict"]].tolist()
        ['rank 14', '<= 16', 'unique for almost every model']
        """
        import pandas as pd

        rows = {line.key: (line.name, line.value, line.required, line.verdict, line.reference) for line in self.lines}
        names = ["criterion", "found", "required", "verdict", "reference"]
        return pd.DataFrame.from_dict(rows, orient="index", columns=names).rename_axis("key")

    def to_markdown(self) -> str:
        """Return the table of criteria in Markdown, for a report or an issue.

        Examples
        --------
        >>> import tensorly_smp as smp
        >>> print(smp.check_identifiability(3, 2, 3).to_markdown().splitlines()[0])
        | criterion | found | required | verdict | reference |
        """
        table = self.to_dataframe()
        rows = [list(table.columns), ["---"] * table.shape[1], *table.to_numpy().tolist()]
        return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows)

    def to_latex(self) -> str:
        """Return the table of criteria in LaTeX, by pandas; needs the package booktabs in the document.

        Raises
        ------
        MissingDependencyError
            If Jinja2, which pandas writes LaTeX with, is not installed.
        """
        try:
            return self.to_dataframe().to_latex(index=False, escape=True)
        except ImportError as error:
            raise MissingDependencyError("to_latex needs Jinja2: pip install jinja2.") from error

    def to_dataset(self) -> xr.Dataset:
        """Return the report as an xarray.Dataset of plain types, which files can hold.

        Returns
        -------
        Dataset
            ``value``, ``required`` and ``verdict`` (line), ``stacked_rank``, ``k_rank``, ``k_rank_is_exact`` and
            ``condition`` (set), ``max_rank`` (criterion), ``partition`` (variable; number of the set, -1 for none),
            ``n_bins`` (variable), ``reference`` (line), ``n_nearly_parallel`` (component, other_component; number of
            variables; only of given factors), ``singular_values`` (parameter; only with a Jacobian); for whole samples
            ``product_rank``, ``product_k_rank``, ``product_condition`` (set) and ``grouping`` (variable). Attributes:
            verdict, summary, notes, known, rank, n_triples, n_parameters, from_sizes, and n_free_directions (-1 if
            unknown). Numbers beyond those of 64 bits are the largest of these.
        """
        import xarray as xr

        data: dict[str, Any] = {
            name: ("line", np.array([getattr(line, name) for line in self.lines]))
            for name in ("name", "value", "required", "verdict", "reference")
        }
        data["k_rank_is_exact"] = "set", np.array([int(stack.k_rank.is_exact) for stack in self.stacked])
        data["max_rank"] = "criterion", np.array([min(rank, _LARGEST) for rank in self.max_ranks.values()])
        data["n_bins"] = "variable", np.array(self.n_bins)
        for sets, rank, prefix, stacks, partition in (
            ("partition", "stacked_rank", "", self.stacked, self.partition),
            ("grouping", "product_rank", "product_", self.products, self.grouping),
        ):
            if partition is None:
                continue
            numbers = np.full(len(self.n_bins), -1)
            for s, group in enumerate(partition):
                numbers[list(group)] = s
            data[sets] = "variable", numbers
            data[rank] = "set", np.array([stack.rank for stack in stacks])
            data[f"{prefix}k_rank"] = "set", np.array([int(stack.k_rank) for stack in stacks])
            data[f"{prefix}condition"] = "set", np.array([stack.condition for stack in stacks])
        coords: dict[str, Any] = {
            "line": np.array([line.key for line in self.lines]),
            "set": np.arange(3),
            "criterion": np.array(list(self.max_ranks)),
            "variable": plain_coordinate(self.variables),
        }
        if not self.from_sizes:
            counts = np.diag(np.full(self.rank, len(self.n_bins)))
            for pair in self.pairs:
                r, s = pair.components
                counts[r, s] = counts[s, r] = len(pair.near)
            data["n_nearly_parallel"] = (("component", "other_component"), counts)
            coords |= {"component": np.arange(self.rank), "other_component": np.arange(self.rank)}
        if self.local is not None and self.local.n_parameters:
            data["singular_values"] = ("parameter", np.array(self.local.singular_values))
        attrs = {
            "verdict": self.verdict,
            "summary": self.summary(),
            "notes": "\n".join(self.notes),
            "known": self.known.name,
            "rank": self.rank,
            "n_triples": min(self.n_triples, _LARGEST),
            "n_parameters": min(self.n_parameters, _LARGEST),
            "from_sizes": int(self.from_sizes),
            "n_free_directions": -1 if self.n_free_directions is None else min(self.n_free_directions, _LARGEST),
        }
        return xr.Dataset(data, coords, attrs)

    def __repr__(self) -> str:
        sources = list(dict.fromkeys(line.reference for line in self.lines))
        rows = [[*_cells(line), f"[{sources.index(line.reference) + 1}]"] for line in self.lines]
        text = [*_row(list(_COLUMNS)), "  ".join("-" * width for width in _COLUMNS.values())]
        for row in rows:
            text += _row(row)
        rivals = [f"Rivals: {self._rivals()}"] if self.n_rivals else []
        head = [*_wrapped(self._title()), f"Verdict: {self.verdict}", *rivals, ""]
        notes = ["", *(line for note in self.notes for line in _wrapped(note, "- "))] if self.notes else []
        found = [line for s, source in enumerate(sources, 1) for line in _wrapped(source, f"[{s}] ")]
        return "\n".join([*head, *text, *notes, "", *found])

    def _repr_html_(self) -> str:
        rows = [(*_cells(line), line.reference) for line in self.lines]
        header = ("Criterion", "Found", "Required", "Verdict", "Reference")
        facts = [("Verdict", self.verdict), *([("Rivals", self._rivals())] if self.n_rivals else [])]
        return html_summary(self._title(), facts, header, rows, self.notes, limit=len(rows))

    def _title(self) -> str:
        return f"Identifiability of {self._subject()}, {self.known.describe()}"

    def _rivals(self) -> str:
        solutions = "solution is" if self.n_rivals == 1 else "solutions are"
        return f"{self.n_rivals} other {solutions} nearly as likely by the samples, see the notes"

    def _subject(self) -> str:
        plural = "" if self.rank == 1 else "s"
        return f"{self.rank} component{plural} of {len(self.n_bins)} variables with {number_range(self.n_bins)} bins"


def check_identifiability(
    subject: CoupledSolution | MixtureFactors | Marginals | xr.Dataset | int | None = None,
    n_bins: int | Sequence[int] | None = None,
    rank: int | None = None,
    *,
    n_variables: int | None = None,
    known: Literal["triples", "samples"] | None = None,
    partition: Partition | Sequence[Sequence[int]] | None = None,
    triples: str | int | Iterable[Sequence[int]] | None = None,
    patterns: Any = None,
    parallel_cosine: float = PARALLEL_COSINE,
    max_parameters: int = 3000,
    random_state: RandomState = 0,
) -> IdentifiabilityReport:
    """Say whether weights and factors are the only ones that give what is known of the distribution.

    Either a model is given, and the report is about this very model, or sizes only, before any data, and the report is
    about almost every model of these sizes.

    Parameters
    ----------
    subject : SmoothProductMixture, CoupledSolution, MixtureFactors, Marginals, Dataset or int, optional
        A fit, or true factors; a Dataset as made by ``solution.to_dataset()``, or an estimator's ``result_``. Marginals
        give sizes and triples, and want the rank. An integer is the number of variables:
        ``check_identifiability(4, 3, 5)`` is about five components of four variables with three bins.
    n_bins : int or sequence of int (n_variables,), optional
        Without a subject: at least 2.
    rank : int, optional
        Without a subject: number of components.
    n_variables : int, optional
        Without a subject: N, at least 3. Not needed if `n_bins` has one entry per variable.
    known : {"triples", "samples"}, optional
        What is known of the distribution: histograms of triples of variables, or the joint distribution of whole
        samples, which determines more. Default: what made the subject, that is "samples" after a fit with
        ``refine="em"`` or ``"smooth"``, else "triples".
    partition : Partition or three collections of variable indices, optional
        Whose stacked factors to look at, and whose joint distributions. By default those that prove most.
    triples : None, "all", int or list of (j, k, l)
        With ``known="triples"``, those whose histograms are known; an int draws so many. None (default): those that a
        solution or the Dataset of a fit was made from, else all.
    patterns : array_like of bool (n_patterns, n_variables), optional
        With ``known="samples"``, the variables that are observed together. Default: those recorded by a fit to samples
        with missing entries, else all.
    parallel_cosine : float
        Two columns are called nearly parallel if their affinity, sum_i sqrt(p_i q_i), is above its square root: that is
        the affinity of two Gaussians of one variance whose densities have this cosine.
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
        Sizes out of range, both a subject and sizes, a Dataset that is no result, triples together with whole samples.
    InvalidTypeError
        Any other kind of subject, sizes that are not integers.

    See Also
    --------
    max_identifiable_rank : How many components can I ask for?
    min_bins_for_rank : How many bins do I need?

    Notes
    -----
    "unique": Kruskal's condition, or that of Leurgans, which is a special case, holds at these very factors.
    Always up to the order of the components, and among models with as many components.
    "unique for almost every model": the rank is within a bound that holds for all models of these sizes but a set of
    measure zero. That proves nothing of the model at hand, and is withdrawn where ranks of its factors are unusual.
    "not identifiable: k free directions": the Jacobian has k columns too many, so that to first order the model can
    move in k directions without any change of what is known; or two components differ in at most two variables, a
    component has no weight, or there are more parameters than probabilities.
    "not guaranteed": none of these; with a Jacobian of full rank the model is then still the only one nearby.

    Where lines disagree the order of evidence decides: a proof at these factors, a proof of non-uniqueness, a rank
    computed with rounding, a statement about almost every model. Lines that are outranked lose their verdict.

    Directions are counted for factors of any sign: one counts as free even if it leads out of the non-negative factors.
    Where some factors are zero, the verdict holds up to signs.
    Verdicts do not depend on the order of components, bins and variables; with more than 8 variables, or some triples
    only, and components that are alike in many variables, not all partitions are tried, so that a proof may be missed.

    A fit with ``refine="smooth"`` is judged by its densities as well, by their products over three groups of variables;
    one of discrete variables alone by the probabilities of their values. Columns of fitted factors are always
    independent to rounding: in every line of a fit they count as independent if no unit combination of them is shorter
    than 1 / sqrt(n_samples), or 1e-3 if that is larger, where a sample of weight 2 counts twice. Directions are free
    only if they are to rounding. Other factors are exact. Components of less than 1e-6 weight count as empty.

    References are printed with every line. E. S. Allman, C. Matias and J. A. Rhodes, 2009, for whole samples.
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

    Fourteen latent classes of nine binary items, from triples and from whole samples:

    >>> smp.check_identifiability(9, 2, 14).verdict
    'not identifiable: 10 free directions'
    >>> smp.check_identifiability(9, 2, 14, known="samples").verdict
    'unique for almost every model'
    """
    given = known, partition, triples, patterns
    problem = read_problem(subject, (n_variables, n_bins, rank), given, parallel_cosine, max_parameters, random_state)
    return IdentifiabilityReport(
        **apply_criteria(problem),
        known=problem.known,
        rank=problem.rank,
        n_bins=problem.n_bins,
        variables=problem.names,
        n_parameters=problem.n_parameters,
        n_rivals=len(problem.rivals),
        from_sizes=problem.is_generic,
    )


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
    is_listed = not is_integer(triples) and not (isinstance(triples, str) and triples == "all")
    chosen = resolve_triples(triples, model.n_variables) if is_listed else None
    tables = model.factors if fine is None else fine
    shapes = [np.shape(a) for a in tables]
    if len(tables) != model.n_variables or any(shape[1:] != (model.rank,) for shape in shapes):
        raise InvalidInputError(
            f"fine has arrays of shapes {shapes}; expected {model.n_variables}, each (n_cells, {model.rank})."
        )
    is_joint = known == "samples"
    data = KnownMarginals.of_triples(model.n_variables, chosen)
    if is_joint:
        data = KnownMarginals.of_samples(model.n_variables, patterns)
    sizes = [len(cells) for cells in tables] if is_joint else model.n_bins
    issues = [*_size_issues(sizes, model.rank, data), *_link_issues(names, data.margins or ())]
    numbers = np.flatnonzero(model.weights >= EMPTY_WEIGHT)
    pairs = [p for p in nearly_parallel_pairs([a[:, numbers] for a in tables]) if p.is_near_degenerate]
    issues += [describe_pair(pair, names, numbers) for pair in pairs[:_WARNED]]
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
        return [
            f"The model has {wanted} free parameters, more than the {found} independent probabilities of {of}: at "
            f"least {wanted - found} directions stay free. Use fewer components or more {more}."
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


def _cells(line: ReportLine) -> tuple[str, str, str, str]:
    return line.name, line.value, line.required or "-", line.verdict or "-"


def _row(cells: Sequence[str]) -> list[str]:
    """A row of the printed table, cells wrapped to their columns."""
    widths = _COLUMNS.values()
    columns = [textwrap.wrap(cell, width) or [""] for cell, width in zip(cells, widths, strict=True)]
    return [
        "  ".join(part.ljust(width) for part, width in zip(parts, widths, strict=True)).rstrip()
        for parts in zip_longest(*columns, fillvalue="")
    ]


def _wrapped(text: str, bullet: str = "") -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=bullet, subsequent_indent=" " * len(bullet)) or [bullet]
