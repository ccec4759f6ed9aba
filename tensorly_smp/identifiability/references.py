"""Sources of the criteria: authors, year and theorem."""

from __future__ import annotations

# Numbers of theorems of Allman et al. and of Rothenberg were not checked against the printed papers.
_ALLMAN = "Allman, Matias and Rhodes, Annals of Statistics 37, 2009"
_KARGAS = "Kargas and Sidiropoulos, AISTATS 2019"
_KRUSKAL = "Kruskal, Linear Algebra and its Applications 18, 1977"
_LEURGANS = "Leurgans, Ross and Abel, SIAM Journal on Matrix Analysis and Applications 14, 1993"
_GOODMAN = "Goodman, Biometrika 61, 1974"
_HERE = "tensorly_smp, docs/identifiability.md"

#: Reference by key of a report line; sets and groups by the beginning of theirs.
REFERENCES = {
    "set": f"{_KARGAS}, section 3",
    "group": _ALLMAN,
    "leurgans": _LEURGANS,
    "kruskal": f"{_KRUSKAL}, uniqueness theorem",
    "joint": f"{_ALLMAN}, Theorem 4, by Kruskal 1977",
    "densities": f"{_ALLMAN}, Theorems 8 and 9",
    "zeros": f"{_HERE}, zeros that force the supports",
    "gevd-bound": _LEURGANS,
    "kruskal-bound": f"{_KRUSKAL}, uniqueness theorem",
    "generic-bound": "Chiantini and Ottaviani, SIAM Journal on Matrix Analysis and Applications 33, 2012, Theorem 1.1",
    "joint-bound": f"{_ALLMAN}, Theorem 4 and Corollary 5",
    "paper-gevd": f"{_KARGAS}, section 3",
    "paper-generic": f"{_KARGAS}, section 3",
    "counting": _GOODMAN,
    "weights": f"{_HERE}, free directions",
    "distinct": f"{_HERE}, free directions",
    "jacobian": f"{_GOODMAN}; Rothenberg, Econometrica 39, 1971, Theorem 1",
}


def reference(key: str) -> str:
    """Reference of a report line.

    Examples
    --------
    >>> reference("set-1")
    'Kargas and Sidiropoulos, AISTATS 2019, section 3'
    """
    return REFERENCES[key] if key in REFERENCES else REFERENCES[key.split("-")[0]]
