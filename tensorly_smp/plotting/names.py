"""Names that fit, and that are still different from each other."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tensorly_smp.samples.labels import repeated_names

#: Characters that a name has at least, whatever its unit.
LEAST = 12
#: Names without spaces are broken after one of these, if they have one.
MARKS = "_-./:,;…"
#: Characters of a unit beside the name of a density, and of one on a line of its own, at most.
SHORT = 4
MOST_IN_DENSITY = 15
#: A shortened name ends between words unless that leaves less than this share of it.
MOST_KEPT = 0.6


def axis_names(names: Sequence[Any], units: Sequence[str], width: int = 32) -> list[str]:
    """Name and unit of every variable for an axis, in lines of at most `width` characters.

    A name and a short unit take two lines at most. A unit that has no room there follows on lines of its own; a unit is
    never shortened.
    """
    tails = [f" ({unit})" if unit else "" for unit in units]
    # Lines break between words, so that some of them is left empty.
    room = 2 * width - width // 3
    found = []
    for name, tail in zip(_fitting(names, room), tails, strict=True):
        if len(name) + len(tail) <= room:
            found.append(_in_two_lines(name + tail, width))
        else:
            lines = textwrap.wrap(tail.strip(), width, break_on_hyphens=False)
            found.append("\n".join([_in_two_lines(name, width), *map(_literal, lines)]))
    return found


def density_name(is_discrete: bool, unit: str) -> str:
    """Name of the axis of a density, with its unit: that of the variable, to the power of -1, unless it is long."""
    if is_discrete:
        return "probability"
    if not 0 < len(unit) <= MOST_IN_DENSITY:
        return "density"
    return _literal(f"density{' ' if len(unit) <= SHORT else chr(10)}(per {unit})")


def short_names(names: Sequence[Any], width: int) -> list[str]:
    """Every name on one line of at most `width` characters, for ticks and legends."""
    return [_literal(name) for name in _fitting(names, max(width, LEAST))]


def _fitting(names: Sequence[Any], width: int) -> list[str]:
    """Names of at most `width` characters, different if they were.

    A longer name loses its middle, between words where that costs little. Names that are the same then show the part in
    which they differ instead. Those that still are get the position of their variable, and the others stay.
    """
    whole = [re.sub(r"\s+", " ", str(name)).strip() or repr(name) for name in names]
    short = [_cut(name, width) for name in whole]
    if repeated_names(short):
        counts = Counter(short)
        alike = {shown: [each for each, cut in zip(whole, short, strict=True) if cut == shown] for shown in counts}
        short = [
            _window(name, alike[shown], width) if counts[shown] > 1 else shown
            for name, shown in zip(whole, short, strict=True)
        ]
    counts = Counter(short)
    return [
        _numbered(name, n, width) if counts[shown] > 1 else shown
        for n, (name, shown) in enumerate(zip(whole, short, strict=True))
    ]


def _numbered(name: str, position: int, width: int) -> str:
    """A name with the position of its variable, as far as there is room."""
    mark = f" (variable {position})"
    room = width - len(mark)
    return _cut(name, room) + mark if room >= len("ab…cd") else mark.strip(" ()")


def _n_common(texts: Sequence[str]) -> int:
    """Characters that all texts begin with."""
    return next((n for n, each in enumerate(zip(*texts, strict=False)) if len(set(each)) > 1), min(map(len, texts)))


def _cut(text: str, width: int) -> str:
    """The text without its middle if it is longer."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{_whole_words(text, width - 1 - tail)}…{_whole_words(text[::-1], tail)[::-1]}"


def _whole_words(text: str, width: int) -> str:
    """The first characters of a text, without the beginning of a word at their end if that is short."""
    kept = text[:width]
    if text[width : width + 1] in ("", " "):
        return kept.rstrip()
    last = kept.rfind(" ")
    return kept[:last].rstrip() if last >= MOST_KEPT * width else kept.rstrip()


def _window(text: str, alike: Sequence[str], width: int) -> str:
    """Part of a text of at most so many characters, with what tells it from those that are alike in its middle."""
    if len(text) <= width:
        return text
    start = _n_common(alike)
    end = len(text) - _n_common([each[::-1] for each in alike])
    # Whole words around it, as many as there is room for.
    while start > 0 and (further := text.rfind(" ", 0, start - 1) + 1) < start and end - further <= width - 2:
        start = further
    while end < len(text) and end + 1 <= (further := (text + " ").find(" ", end + 1)) <= start + width - 2:
        end = further
    if 0 < end - start <= width - 2:
        shown = text[start:end].strip()
        return ("…" if start > 0 else "") + shown + ("…" if end < len(text) else "")
    first = min(max((start + end - width) // 2, 0), len(text) - width)
    shown = text[first : first + width]
    if first > 0:
        shown = "…" + shown[1:]
    return shown[:-1] + "…" if first + width < len(text) else shown


def _in_two_lines(text: str, width: int) -> str:
    """A text of at most twice the width, broken between words, else after a mark, else inside of the word."""
    if len(text) <= width:
        return _literal(text)
    # Places that leave neither line too long.
    places = range(width, max(len(text) - width, 1) - 1, -1)
    at_space = (p for p in places if text[p] == " ")
    at_mark = (p for p in places if text[p - 1] in MARKS and text[p] not in MARKS)
    place = next(at_space, next(at_mark, width))
    return _literal(f"{text[:place].strip()}\n{text[place:].strip()}")


def _literal(text: str) -> str:
    """Dollar signs stay what they are: matplotlib would read mathematics between two of them."""
    return text.replace("$", r"\$")
