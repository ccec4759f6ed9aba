"""A report on identifiability in a few sentences, for the command line."""

from __future__ import annotations

import textwrap

from tensorly_smp.identifiability.evidence import ReportLine
from tensorly_smp.identifiability.report import IdentifiabilityReport

#: What is known up to a bound.
BOUNDS = {
    "gevd": "found by algebra, for almost every model",
    "kruskal": "unique for almost every model, by Kruskal's condition",
    "generic": "unique for almost every model, by Chiantini and Ottaviani",
}
_WIDTH = 100


def brief(report: IdentifiabilityReport) -> str:
    """Verdict, its reasons and what else there is to say, in lines of at most 100 characters.

    Parameters
    ----------
    report : IdentifiabilityReport

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> from tensorly_smp.brief_report import brief
    >>> print(brief(smp.check_identifiability(n_variables=3, n_bins=2, rank=3)))
    Identifiability of 3 components of 3 variables with 2 bins, the triple known
    Verdict: not identifiable: 4 free directions
    <BLANKLINE>
    - Counting: 11 parameters; required <= 7 probabilities.
    - The model can be moved in 4 directions without any change of its histograms.
    - There are more parameters than probabilities: use fewer components, more bins or more variables.
    """
    head = repr(report).split("\n", 1)[0]
    reasons = [_reason(report, line) for line in report.lines if _is_reason(report, line)]
    points = [*dict.fromkeys(reasons), *(without_pointers(note) for note in report.notes)]
    wrapped = [textwrap.fill(point, _WIDTH, initial_indent="- ", subsequent_indent="  ") for point in points]
    return "\n".join([textwrap.fill(head, _WIDTH), f"Verdict: {report.verdict}", "", *wrapped])


def without_pointers(text: str) -> str:
    """A report without what only Python has: the attribute that lists pairs of components."""
    return text.replace(": see pairs.", ".")


def _is_reason(report: IdentifiabilityReport, line: ReportLine) -> bool:
    if line.n_free:
        return True
    # Of a verdict left open, a Jacobian of full rank is no reason, and a note says what it means.
    return line.verdict == report.verdict and (line.key != "jacobian" or report.is_generically_unique)


def _reason(report: IdentifiabilityReport, line: ReportLine) -> str:
    """What a criterion says, as a sentence."""
    if report.rank == 1 and line.key != "jacobian":
        return "A single component is always unique."
    proves = report.is_generically_unique
    criterion = line.key.removesuffix("-bound")
    if line.key in ("leurgans", "kruskal"):
        return (
            f"The condition of {line.name.split(',')[0]} {'holds' if proves else 'does not hold'} at these components."
        )
    if criterion in BOUNDS:
        relation = "of up to" if proves else "more than"
        return f"{report.rank} components, {relation} {report.max_ranks[criterion]} that are {BOUNDS[criterion]}."
    if line.key == "jacobian":
        if not line.n_free:
            return "No other model nearby has the same histograms."
        number = "1 direction" if line.n_free == 1 else f"{line.n_free} directions"
        return f"The model can be moved in {number} without any change of its histograms."
    return f"{line.name}: {line.value}; required {line.required}."
