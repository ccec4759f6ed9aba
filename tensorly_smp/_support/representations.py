"""Short texts and small HTML tables for what notebooks show: sizes, names and outcomes, never whole arrays."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from decimal import Decimal
from itertools import zip_longest
from typing import Any

import numpy as np

#: Rows of a table, and entries of a list, that are shown.
SHOWN = 12
_LONGEST = 80
# Integers are written out up to this one.
_WRITTEN_DIGITS = 10**7


def short_repr(record: Any) -> str:
    """Text of a dataclass or named tuple, with the shapes of arrays in place of their entries.

    To be used as a method: ``__repr__ = short_repr``.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from tensorly_smp._support.representations import short_repr
    >>> @dataclass
    ... class Trace:
    ...     loss: np.ndarray
    ...     name: str
    ...
    ...     __repr__ = short_repr
    >>> Trace(np.zeros(1000), "kl")
    Trace(loss=<(1000,) float64>, name='kl')
    """
    names = [each.name for each in fields(record) if each.repr] if is_dataclass(record) else record._fields
    shown = ", ".join(f"{name}={_short(getattr(record, name))}" for name in names)
    return f"{type(record).__name__}({shown})"


def _short(value: Any) -> str:
    if getattr(value, "ndim", 0) and hasattr(value, "dtype"):
        return f"<{tuple(value.shape)} {value.dtype}>"
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        inside = ", ".join(_short(each) for each in value[:SHOWN])
        if len(value) <= SHOWN and len(inside) <= _LONGEST:
            trailing = "," if isinstance(value, tuple) and len(value) == 1 else ""
            return f"({inside}{trailing})" if isinstance(value, tuple) else f"[{inside}]"
        return f"<{type(value).__name__} of {len(value)}>"
    text = repr(value)
    return text if len(text) <= _LONGEST and "\n" not in text else f"<{type(value).__name__}>"


def shown(value: Any, longest: int = _LONGEST) -> str:
    """A value in a message, cut off after a few characters; its type only where it cannot be shown.

    Examples
    --------
    >>> from tensorly_smp._support.representations import shown
    >>> shown("a"), shown("a" * 1000, 10), shown(10**5000)
    ("'a'", "'aaaaaaaaa...", '<int>')
    """
    if isinstance(value, str | bytes) and len(value) > longest:
        return f"{value[: longest - 1]!r}"[:longest] + "..."
    try:
        text = " ".join(repr(value).split())
    except Exception:  # integers of thousands of digits, and objects of others
        return f"<{type(value).__name__}>"
    return text if len(text) <= longest else f"{text[:longest]}..."


def reason(error: Exception, longest: int = 200) -> str:
    """The message of an error from another library, cut off since it may repeat a whole cell.

    Examples
    --------
    >>> from tensorly_smp._support.representations import reason
    >>> reason(ValueError("could not convert 'aaaaa'"), 20)
    "could not convert 'a..."
    """
    text = " ".join(str(error).split()).rstrip(".")
    return text if len(text) <= longest else f"{text[:longest]}..."


def listed(names: Iterable[object], limit: int = 10) -> str:
    """Names in quotes, the first `limit` of them; all if only one would be left.

    Examples
    --------
    >>> from tensorly_smp._support.representations import listed
    >>> listed(["a", 1, "b"], 2), listed(["a", 1, "b", "c"], 2)
    ("'a', 1, 'b'", "'a', 1 and 2 more")
    """
    return joined([shown(name) for name in names], limit)


def joined(texts: Sequence[str], limit: int = 10) -> str:
    """Texts in a row, the first `limit` of them; all if only one would be left: it takes no more room than "1 more"."""
    if len(texts) <= limit + 1:
        return ", ".join(texts)
    return f"{', '.join(texts[:limit])} and {len(texts) - limit} more"


def counted(number: int, noun: str) -> str:
    """A number of things, such as "1 pair" and "2 pairs"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def number_range(numbers: Iterable[int]) -> str:
    """Least and greatest as "5" or "5 to 8".

    Examples
    --------
    >>> from tensorly_smp._support.representations import number_range
    >>> number_range([5, 5]), number_range([8, 5])
    ('5', '5 to 8')
    """
    distinct = sorted(set(numbers))
    return f"{distinct[0]}" if len(distinct) == 1 else f"{distinct[0]} to {distinct[-1]}"


def number_text(number: int) -> str:
    """An integer, in powers of ten if it is long: the number of states of a thousand variables is.

    Examples
    --------
    >>> from tensorly_smp._support.representations import number_text
    >>> number_text(256), number_text(15**1000)
    ('256', '1.23e+1176')
    """
    return str(number) if abs(number) < _WRITTEN_DIGITS else f"{Decimal(number):.2e}"


def text_table(header: Sequence[str], rows: Iterable[Sequence[str]], widths: Sequence[int] | None = None) -> list[str]:
    r"""Lines of a table with two blanks between columns; cells are wrapped to the widths, if there are any.

    Examples
    --------
    >>> from tensorly_smp._support.representations import text_table
    >>> print("\n".join(text_table(["a", "b"], [["1", "some words"]], [1, 5])))
    a  b
    -  -----
    1  some
       words
    """
    rows = list(rows)
    if widths is None:
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = []
    for row in (header, ["-" * width for width in widths], *rows):
        columns = [textwrap.wrap(cell, width) or [""] for cell, width in zip(row, widths, strict=True)]
        for parts in zip_longest(*columns, fillvalue=""):
            lines.append("  ".join(part.ljust(width) for part, width in zip(parts, widths, strict=True)).rstrip())
    return lines


def html_summary(
    title: str,
    pairs: Iterable[tuple[str, object]] = (),
    header: Sequence[str] = (),
    rows: Sequence[Sequence[object]] = (),
    notes: Iterable[str] = (),
    limit: int = SHOWN,
) -> str:
    """A title, what there is to say in pairs of words, a table and notes; all is escaped.

    Parameters
    ----------
    title : str
    pairs : iterable of (word, what it is)
    header : sequence of str
        Of the table.
    rows : sequence of rows
        Of the table.
    notes : iterable of str
    limit : int
        Rows that are shown; the others are counted.

    Examples
    --------
    >>> from tensorly_smp._support.representations import html_summary
    >>> html_summary("Codes", [("variables", "a < b")])
    '<div><p><strong>Codes</strong></p><table><tbody><tr><th>variables</th><td>a &lt; b</td></tr></tbody></table></div>'
    """
    described = "".join(f"<tr><th>{_text(word)}</th><td>{_text(what)}</td></tr>" for word, what in pairs)
    table = f"<table><tbody>{described}</tbody></table>" if described else ""
    if header:
        head = _row(header, "th")
        body = "".join(_row(row, "td") for row in rows[:limit])
        table += f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"
        if len(rows) > limit:
            table += f"<p>and {len(rows) - limit} more</p>"
    listed = "".join(f"<li>{_text(note)}</li>" for note in notes)
    return f"<div><p><strong>{_text(title)}</strong></p>{table}{f'<ul>{listed}</ul>' if listed else ''}</div>"


def html_weights(title: str, pairs: Iterable[tuple[str, object]], weights: np.ndarray) -> str:
    """HTML summary with a table of the weights (rank,) of components."""
    return html_summary(title, pairs, ("component", "weight"), [(r, f"{w:.3g}") for r, w in enumerate(weights)])


def _row(cells: Sequence[object], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{_text(cell)}</{tag}>" for cell in cells) + "</tr>"


def _text(value: object) -> str:
    return html.escape(str(value))


def clip_names(names: Iterable[Hashable], width: int = 40) -> str:
    """Names in a row, as many as fit."""
    words = [" ".join(str(name).split()) for name in names]
    text = ", ".join(words)
    if len(text) <= width:
        return text
    kept = len(words)
    while kept > 1 and len(text) > width:
        kept -= 1
        text = f"{', '.join(words[:kept])}, ... ({len(words)})"
    return text if len(text) <= 2 * width else f"{text[: width - 3]}..."
