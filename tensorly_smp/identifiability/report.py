"""Can the answer be trusted? Every criterion of uniqueness, on one model or on sizes alone, as one table; warnings."""

from __future__ import annotations

import textwrap
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from tensorly_smp._support.checks import RandomState, as_generator, checked_integer, checked_real, is_integer
from tensorly_smp._support.representations import counted, html_summary, number_range, reason, shown, text_table
from tensorly_smp._support.result_schema import result_values
from tensorly_smp.decomposition.solution import CoupledSolution, factors_from_dataset, plain_coordinate
from tensorly_smp.densities.smooth import fine_probabilities
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError, SizeLimitError, TensorlySmpError
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.identifiability.bounds import KNOWN, MAX_SIZE, KnownMarginals, checked_sizes
from tensorly_smp.identifiability.criteria import (
    GENERIC,
    OPEN,
    UNIQUE,
    IdentifiabilityProblem,
    ReportLine,
    apply_criteria,
)
from tensorly_smp.identifiability.jacobian import LocalIdentifiability
from tensorly_smp.identifiability.likeness import PARALLEL_COSINE, ComponentPair, alike_pairs, variable_names
from tensorly_smp.identifiability.ranks import StackedFactor
from tensorly_smp.likelihood.comparison import separations
from tensorly_smp.marginals.block_tensor import Partition, as_partition
from tensorly_smp.marginals.histograms import Marginals
from tensorly_smp.marginals.triples import resolve_triples

if TYPE_CHECKING:
    import pandas as pd

#: Characters of a line of the printed report, and of the columns of its table, two blanks apart.
_WIDTH = 100
_COLUMNS = {"Criterion": 25, "Found": 29, "Required": 16, "Verdict": 17, "Ref.": 5}
_LARGEST = 2**63 - 1
# Random factors for sizes without data: no more entries, and no more columns, than these.
_MAX_DRAWN_ENTRIES, _MAX_DRAWN_RANK = 5_000_000, 500


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
        ImportError
            If Jinja2, which pandas writes LaTeX with, is not installed.
        """
        return self.to_dataframe().to_latex(index=False, escape=True)

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
        text = text_table(list(_COLUMNS), rows, list(_COLUMNS.values()))
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
        of = f"{len(self.n_bins)} variables with {number_range(self.n_bins)} bins"
        return f"{counted(self.rank, 'component')} of {of}"


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
    if is_integer(subject):
        if n_variables is not None:
            raise InvalidInputError(f"n_variables is given twice, as {shown(subject)} and as {shown(n_variables)}.")
        n_variables = subject
        subject = None
    bins, components, names, factors = _read_subject(subject, n_variables, n_bins, rank)
    dataset: Any = getattr(subject, "result_", subject)
    recorded = getattr(dataset, "data_vars", ())
    rng = as_generator(random_state)
    data = _read_known(known, triples, patterns, dataset, len(bins), rng)
    is_smooth = data.is_joint and "spline" in recorded
    cells = fine_probabilities(dataset, factors) if is_smooth and factors is not None else None
    attrs = {} if factors is None else getattr(dataset, "attrs", {})
    n_samples = attrs.get("total_weight", attrs.get("n_samples"))
    drawn = None
    if components <= _MAX_DRAWN_RANK and components * sum(bins) <= _MAX_DRAWN_ENTRIES:
        # Weights and factors that stand for almost every model.
        weights = 0.5 * rng.dirichlet(np.ones(components)) + 0.5 / components
        drawn = weights, tuple(rng.dirichlet(np.ones(size), size=components).T for size in bins)
    problem = IdentifiabilityProblem(
        n_bins=bins,
        rank=components,
        names=names,
        known=data,
        partition=None if partition is None else as_partition(partition, len(bins)),
        weights=None if factors is None else factors.weights,
        factors=None if factors is None else factors.factors,
        fine=None if cells is None or bool(dataset["discrete"].all()) else tuple(cells),
        n_samples=None if n_samples is None else float(n_samples),
        alike=() if cells is None or factors is None else _alike(dataset, cells, factors.weights, n_samples),
        rivals=tuple(dataset["rival_description"].values.tolist()) if "rival_description" in recorded else (),
        drawn=drawn,
        parallel_cosine=checked_real(parallel_cosine, "parallel_cosine", 0.0, 1.0, "()"),
        max_parameters=checked_integer(max_parameters, "max_parameters", 0),
    )
    return IdentifiabilityReport(**apply_criteria(problem))


def _read_subject(
    subject: Any, n_variables: Any, n_bins: Any, rank: Any
) -> tuple[tuple[int, ...], int, tuple[Hashable, ...], MixtureFactors | None]:
    """Numbers of bins, number of components, names of the variables, and factors if the subject has them."""
    sizes = {"n_variables": n_variables, "n_bins": n_bins} | ({} if isinstance(subject, Marginals) else {"rank": rank})
    if subject is not None and (named := [name for name, size in sizes.items() if size is not None]):
        raise InvalidInputError(f"{type(subject).__name__} has its own sizes; leave {named} out.")
    if subject is None or isinstance(subject, Marginals):
        if subject is not None:
            n_variables = subject.n_variables
            n_bins = subject.n_bins
        bins, components = _checked_sizes(n_variables, n_bins, rank)
        names = tuple(f"x{n}" for n in range(len(bins))) if subject is None else subject.binning.variables
        return bins, components, names, None
    dataset = getattr(subject, "result_", subject)
    if isinstance(subject, CoupledSolution | MixtureFactors):
        factors = (subject if isinstance(subject, MixtureFactors) else subject.factors).to_numpy()
    elif isinstance(dataset, xr.Dataset):
        try:
            factors = factors_from_dataset(dataset).to_numpy()
        except TensorlySmpError:
            raise
        except (KeyError, IndexError, TypeError, ValueError) as error:
            message = f"The Dataset is none that to_dataset() or fit made: {reason(error)}."
            raise InvalidInputError(message) from error
    else:
        raise InvalidTypeError(
            f"subject is {type(subject).__name__}; expected a fitted model, its Dataset, a solution, MixtureFactors, "
            "Marginals with a rank, or sizes, as check_identifiability(n_variables=10, n_bins=15, rank=5)."
        )
    bins, components = _checked_sizes(factors.n_variables, factors.n_bins, factors.rank)
    return bins, components, variable_names(factors), factors


def _read_known(
    known: Any, triples: Any, patterns: Any, dataset: Any, n_variables: int, rng: np.random.Generator
) -> KnownMarginals:
    """The known distributions: those that are given, else those that made the subject, where it tells."""
    recorded = getattr(dataset, "data_vars", ())
    if known is None:
        is_refined = getattr(dataset, "attrs", {}).get("refine", "none") in ("em", "smooth")
        known = "samples" if triples is None and (patterns is not None or is_refined) else "triples"
    if not isinstance(known, str) or known not in KNOWN:
        raise InvalidInputError(f"known is {shown(known)}; expected one of {list(KNOWN)}.")
    if known == "triples":
        if patterns is not None:
            raise InvalidInputError('patterns are of whole samples; expected known="samples" with them.')
        if triples is None and (isinstance(dataset, CoupledSolution | Marginals) or "triples" in recorded):
            triples = getattr(dataset, "triples", None)
        if triples is None or (isinstance(triples, str) and triples == "all"):
            return KnownMarginals.of_triples(n_variables)
        triples = triples.values if isinstance(triples, xr.DataArray) else triples
        return KnownMarginals.of_triples(n_variables, resolve_triples(triples, n_variables, rng))
    if triples is not None:
        raise InvalidInputError('triples are given and known="samples"; expected known="triples" with them.')
    if patterns is None and "patterns" in recorded:
        patterns = result_values(dataset, "patterns")
    patterns = None if patterns is None else np.asarray(patterns)
    if patterns is not None and patterns.ndim == 2 and patterns.shape[1] != n_variables:
        raise InvalidInputError(f"patterns has {patterns.shape[1]} columns; expected {n_variables}, one per variable.")
    found = KnownMarginals.of_samples(n_variables, patterns)
    if max(map(len, found.patterns)) < 3:
        raise InvalidInputError("No sample has three observed variables; expected patterns of at least three.")
    return found


def _alike(
    dataset: Any, fine: Sequence[np.ndarray], weights: np.ndarray, n_samples: float | None
) -> tuple[ComponentPair, ...]:
    """Pairs whose densities, but for those of two variables, would be one by Akaike's criterion."""
    if n_samples is None or "n_parameters" not in dataset.attrs:
        return ()
    separation = separations(fine, weights, float(n_samples))
    n_mixed = 0 if "mixed" not in dataset or dataset.attrs["is_product"] else int(dataset["mixed"].sum())
    n_densities = float(dataset.attrs["n_parameters"]) - n_mixed * (n_mixed - 1)  # the rest are those of a matrix
    return tuple(alike_pairs(separation, weights, n_densities / len(weights)))


def _checked_sizes(n_variables: Any, n_bins: Any, rank: Any) -> tuple[tuple[int, ...], int]:
    if n_bins is None or rank is None:
        raise InvalidInputError("Expected a model, or n_variables, n_bins and rank (of max_identifiable_rank).")
    checked = tuple(checked_sizes(n_variables, n_bins))
    if sum(checked) > MAX_SIZE:
        raise SizeLimitError(f"{sum(checked)} bins; expected at most {MAX_SIZE} of all variables together.")
    return checked, checked_integer(rank, "rank", 1, MAX_SIZE)


def _cells(line: ReportLine) -> tuple[str, str, str, str]:
    return line.name, line.value, line.required or "-", line.verdict or "-"


def _wrapped(text: str, bullet: str = "") -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=bullet, subsequent_indent=" " * len(bullet)) or [bullet]
