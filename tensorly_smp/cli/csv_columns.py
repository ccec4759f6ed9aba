"""Columns of a CSV file that came as text: numbers after all, words for 1 and 0, or what to do about them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import pandas as pd

from tensorly_smp._support.representations import joined
from tensorly_smp.samples.labels import list_names

#: Words for 1 and 0, in any case; nothing else is taken for a number.
PAIRS = (("yes", "no"), ("true", "false"), ("y", "n"), ("t", "f"))
_SHOWN_VALUES = 3


@dataclass(frozen=True)
class TextColumn:
    """A column that is not numbers.

    Attributes
    ----------
    name : str
    n_entries : int
        Without those that are missing.
    n_wrong : int
        Entries that are not numbers.
    n_wrong_otherwise : int
        As many if "." and "," changed places.
    other_point : str
        The decimal point that was not expected.
    wrong : tuple of (str, int)
        Different entries that are not numbers, the first of them, with the first row of each, from 1.
    has_more : bool
        Whether there are still others.
    """

    name: str
    n_entries: int
    n_wrong: int
    n_wrong_otherwise: int
    other_point: str
    wrong: tuple[tuple[str, int], ...]
    has_more: bool

    @property
    def has_other_point(self) -> bool:
        """True if more entries are numbers with the other decimal point."""
        return self.n_wrong_otherwise < self.n_wrong

    @property
    def is_mostly_numbers(self) -> bool:
        """True if more than half of the entries are numbers, with one decimal point or the other."""
        return 2 * min(self.n_wrong, self.n_wrong_otherwise) < self.n_entries

    @property
    def share(self) -> str:
        """Count of the entries that are not numbers, in words."""
        return f"{self.n_wrong} of {self.n_entries} entries"


def as_numbers(column: pd.Series, decimal: str, may_lack_one: bool = False) -> tuple[pd.Series | TextColumn, str]:
    """A column as numbers if it can be, and what was made of its words.

    Parameters
    ----------
    column : Series (n_samples,)
    decimal : str
        "." or ",".
    may_lack_one : bool
        Whether one word of a pair, such as yes and no, is enough; else a column of one word is text.

    Returns
    -------
    column : Series (n_samples,) or TextColumn
        Numbers, NaN for missing; else what is wrong.
    coded : str
        Which words became 1 and 0; empty if there were none.

    Examples
    --------
    >>> import pandas as pd
    >>> from tensorly_smp.cli.csv_columns import as_numbers
    >>> numbers, coded = as_numbers(pd.Series(["Yes", None, "no"], name="smoker"), ".")
    >>> numbers.tolist(), coded
    ([1.0, nan, 0.0], 'smoker: yes = 1, no = 0')
    >>> as_numbers(pd.Series(["1.5", "-", "2"], name="length"), ".")[0].share
    '1 of 3 entries'
    """
    # Columns of True and False alone are read as such, and count as numbers for pandas.
    if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype):
        return column, ""
    text = column.dropna().astype(str).str.strip()
    words = set(text.str.lower())
    for one, zero in PAIRS:
        if words == {one, zero} or (may_lack_one and words and words < {one, zero}):
            numbers = (text.str.lower() == one).astype(float).reindex(column.index)
            return numbers, f"{column.name}: {one} = 1, {zero} = 0"
    numbers = _parsed(text, decimal)
    is_wrong = numbers.isna()
    if not is_wrong.any():  # such as integers beyond 64 bits
        return numbers.reindex(column.index), ""
    other = "," if decimal == "." else "."
    different = text[is_wrong].drop_duplicates()
    rows = np.flatnonzero(column.notna())[is_wrong.to_numpy()][(~text[is_wrong].duplicated()).to_numpy()] + 1
    wrong = list(zip(different.tolist(), rows.tolist(), strict=True))
    return TextColumn(
        name=str(column.name),
        n_entries=len(text),
        n_wrong=int(is_wrong.sum()),
        n_wrong_otherwise=int(_parsed(text, other).isna().sum()),
        other_point=other,
        wrong=tuple(wrong[:_SHOWN_VALUES]),
        has_more=len(wrong) > _SHOWN_VALUES,
    ), ""


def _parsed(text: pd.Series, decimal: str) -> pd.Series:
    """Numbers with this decimal point, NaN where there is none."""
    if decimal == ",":  # so that 1.5 is none
        text = text.str.translate(str.maketrans(".,", ",."))
    return pd.to_numeric(text, errors="coerce").astype(float)


def refusal(found: Sequence[TextColumn]) -> str:
    """Error message for columns that are not numbers, which says what to do.

    Parameters
    ----------
    found : sequence of TextColumn
        At least one.
    """
    # A wrong decimal point concerns the whole file, so it comes first.
    first, *others = sorted(found, key=lambda column: not column.has_other_point)
    likewise = joined([f"{column.name!r} ({column.share})" for column in others])
    values = ", ".join(f"{value[:40]!r} in row {row}" for value, row in first.wrong)
    sentences = [f"Column {first.name!r} is not numbers: {first.share}, {values}{', ...' if first.has_more else ''}."]
    if likewise:
        sentences.append(f"Likewise {likewise}.")
    out = f"leave the column out with --drop {first.name!r}"
    if first.has_other_point:
        point = "comma" if first.other_point == "," else "point"
        sentences.append(f"If that is a decimal {point}, say --decimal {first.other_point}; else {out}.")
    elif first.is_mostly_numbers:
        signs = " ".join(_option("--missing", value) for value, _ in first.wrong)
        sentences.append(f"If that means missing, say {signs}; else correct it in the file, or {out}.")
    else:
        sentences.append(f"{out[:1].upper()}{out[1:]}.")
    if any(not column.is_mostly_numbers for column in found):
        sentences.append(
            "Columns most of whose entries are not numbers are all left out with --only-numbers; known classes belong "
            "to --labels-column, names of samples to --id-column."
        )
    return " ".join(sentences)


def _option(name: str, value: str) -> str:
    """An option as it is typed: in quotes where a shell or the parser would take the value for something else."""
    shown = value if re.fullmatch(r"[\w.,:+/-]+", value) else f'"{value}"'
    return f"{name}={shown}" if value.startswith("-") and len(value) > 1 else f"{name} {shown}"


def no_such_column(path: Path, unknown: Sequence[str], columns: Sequence[str]) -> str:
    """Error message for columns that a file lacks, with the ones that may have been meant and those that it has.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tensorly_smp.cli.csv_columns import no_such_column
    >>> no_such_column(Path("data.csv"), ["Patient_ID"], ["patient id", "age"])
    "data.csv has no column 'Patient_ID'; did you mean 'patient id'? It has 'patient id', 'age'."
    """
    by_folded = {name.casefold(): name for name in columns}
    close = [guess for name in unknown for guess in get_close_matches(name.casefold(), by_folded, n=1)]
    guesses = list_names(dict.fromkeys(by_folded[guess] for guess in close))
    hint = f"did you mean {guesses}? It" if guesses else "it"
    return f"{path} has no column {list_names(unknown)}; {hint} has {list_names(columns)}."


def repeated_entries(column: pd.Series) -> str:
    """Error message for a column of names with repeats; empty if every entry is unique.

    Examples
    --------
    >>> import pandas as pd
    >>> from tensorly_smp.cli.csv_columns import repeated_entries
    >>> repeated_entries(pd.Series(["P", "Q", "P"], name="patient"))
    "Column 'patient', which names the samples, is not unique: 'P' is in rows 1 and 3; 1 of 3 entries repeat another."
    """
    entries = column.reset_index(drop=True).dropna()
    repeats = entries[entries.duplicated()]
    if repeats.empty:
        return ""
    value = repeats.iloc[0]
    first, second = entries.index[entries == value][:2] + 1
    shown = repr(value) if isinstance(value, str) else str(value)
    return (
        f"Column {column.name!r}, which names the samples, is not unique: {shown} is in rows {first} and {second}; "
        f"{len(repeats)} of {len(column)} entries repeat another."
    )
