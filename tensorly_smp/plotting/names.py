"""Names that fit, and that are still different from each other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tensorly_smp.samples.labels import repeated_names

#: Characters that a name has at least, whatever its unit.
LEAST = 12
#: Names without spaces are broken after one of these, if they have one.
MARKS = "_-./:,;…"


def axis_names(names: Sequence[Any], units: Sequence[str], width: int = 32) -> list[str]:
    """Name and unit of every variable for an axis, in at most two lines of `width` characters."""
    tails = [f" ({_cut(unit, width // 2)})" if unit else "" for unit in units]
    # Lines break between words, so that some of them is left empty.
    room = 2 * width - width // 3 - max(map(len, tails), default=0)
    return [_in_two_lines(name + tail, width) for name, tail in zip(_fitting(names, room), tails, strict=True)]


def density_name(is_discrete: bool, unit: str) -> str:
    """Name of the axis of a density, with its unit: that of the variable, to the power of -1."""
    if is_discrete:
        return "probability"
    return _literal(f"density (per {_cut(unit, LEAST)})") if unit else "density"


def short_names(names: Sequence[Any], width: int) -> list[str]:
    """Every name on one line of at most `width` characters, for ticks and legends."""
    return [_literal(name) for name in _fitting(names, max(width, LEAST))]


def _fitting(names: Sequence[Any], width: int) -> list[str]:
    """Names of at most `width` characters, different if they were.

    Of longer ones the middle is left out; if some are the same then, what all have in common at both ends; and if some
    still are, they are numbered.
    """
    whole = [re.sub(r"\s+", " ", str(name)).strip() or repr(name) for name in names]
    short = [_cut(name, width) for name in whole]
    if repeated_names(short):
        start = _n_common(whole)
        end = _n_common([name[::-1] for name in whole])
        short = [_window(name, start, len(name) - end, width) for name in whole]
    if repeated_names(short):
        marks = [f" [{n}]" for n in range(len(whole))]
        short = [_cut(name, width - len(mark)) + mark for name, mark in zip(whole, marks, strict=True)]
    return short


def _n_common(texts: Sequence[str]) -> int:
    """Characters that all texts begin with."""
    return next((n for n, each in enumerate(zip(*texts, strict=False)) if len(set(each)) > 1), min(map(len, texts)))


def _cut(text: str, width: int) -> str:
    """The text without its middle if it is longer."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail].rstrip()}…{text[len(text) - tail :].lstrip()}"


def _window(text: str, start: int, end: int, width: int) -> str:
    """So many characters of the text, with those from start to end in their middle."""
    if len(text) <= width:
        return text
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
