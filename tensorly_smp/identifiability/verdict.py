"""One verdict from single criteria: the order of evidence.

A proof that holds at the factors themselves outranks a proof of non-uniqueness, which speaks of factors of any sign;
both outrank a rank that was computed with rounding; and what holds for almost every model comes last, since it proves
nothing of the one at hand. A criterion that a stronger one contradicts loses its verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

UNIQUE = "unique"
GENERIC = "unique for almost every model"
OPEN = "not guaranteed"
_FREE = "not identifiable"


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
        where the line decides nothing by itself or was outranked.
    n_free : int
        Free directions that it shows.
    strength : Strength
        Rank in the order of evidence.
    reference : str
        Authors, year and theorem.
    """

    key: str
    name: str
    value: str
    required: str = ""
    verdict: str = ""
    n_free: int = 0
    strength: Strength = Strength.INFORMS
    reference: str = ""


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


def without_contradictions(lines: Sequence[ReportLine]) -> list[ReportLine]:
    """The lines, those that say "free" without a verdict if another one proves uniqueness."""
    if not any(line.strength == Strength.PROVED for line in lines):
        return list(lines)
    return [replace(line, verdict="", n_free=0, strength=Strength.INFORMS) if line.n_free else line for line in lines]
