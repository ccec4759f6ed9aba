"""Tables in text files, for the command line: pandas reads them, and an error names the flags that say how."""

from __future__ import annotations

import io
import shlex
import sys
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tensorly_smp._support.checks import checked_integer
from tensorly_smp._support.representations import listed
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.storage import require_regular

_FLAGS = (
    "--sep, --decimal, --thousands, --comment, --skip-rows, --skip-footer, --no-header and --encoding say how the file "
    "is written."
)
#: Stands for the standard input or output in place of a file.
STANDARD = Path("-")
#: Separators that are looked for; one that stands in each of the first lines, the first of these.
_SEPARATORS = "\t;|,"
_LINES = 5
#: An entry that is, or may be, a number: with another point, groups of thousands, a unit or a sign before it.
_THOUSANDS = r"[-+]?\d{1,3}(,\d{3})+(\.\d*)?"
_LIKE_NUMBER = r"\W*\d[\d.,'\s]*(?:[eE][+-]?\d+)?\W*"


@dataclass(frozen=True, eq=False)
class Table:
    """Samples by variables, and what is known about the samples.

    Attributes
    ----------
    X : DataFrame (n_samples, n_variables)
        Numbers, or text; NaN is missing.
    identifiers : Series (n_samples,)
        Named like their column, or the numbers of the rows, from 1.
    labels : Series (n_samples,) or None
        Known classes.
    notes : tuple of str
        What was left out or is text, and what may be a mistake.
    frame : DataFrame (n_samples, n_columns)
        All columns, as they were read.
    """

    X: pd.DataFrame
    identifiers: pd.Series
    labels: pd.Series | None
    notes: tuple[str, ...]
    frame: pd.DataFrame


def read_table(
    path: Path,
    *,
    id_column: str | None = None,
    labels_column: str | None = None,
    drop: Sequence[str] = (),
    only_numbers: bool = False,
    variables: Sequence[Hashable] | None = None,
    **ways: Any,
) -> Table:
    r"""Read a table of samples.

    A first column without a name, as pandas and R write row numbers, names the samples.

    Parameters
    ----------
    path : Path
        Perhaps compressed, as its suffix says (.gz, .bz2, .xz, .zip and what else pandas knows).
    id_column, labels_column : str, optional
        Columns that name the samples, and of known classes, which take no part in a fit.
    drop : sequence of str
        Columns that are left out.
    only_numbers : bool
        Leave out columns of text; else they are discrete variables.
    variables : sequence of hashable, optional
        Names of the variables of a model. If the file has them all, others are left out, and columns get these names
        (1 for "1"); if it has none of them, columns are what they are.
    **ways
        How the file is written, see :func:`read_frame`.

    Raises
    ------
    OSError
        There is no such file, or it is a folder.
    InvalidInputError
        It is no table, columns are missing, or have numbers and text.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from tensorly_smp.cli.tables import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "birds.csv"
    ...     _ = path.write_text("species;length;depth\nA;39.1;18.7\nB;;17.4\n")
    ...     table = read_table(path, labels_column="species")
    >>> table.X
       length  depth
    0    39.1   18.7
    1     NaN   17.4
    >>> table.labels.tolist()
    ['A', 'B']
    """
    frame = read_frame(path, **ways)
    notes = []
    first = str(frame.columns[0])
    if id_column is None and first.startswith("Unnamed: "):
        frame = frame.rename(columns={first: "id"})
        id_column = "id"
        notes.append("The first column has no name; it is taken to name the samples.")
    wanted = [name for name in (id_column, labels_column, *drop) if name is not None]
    if unknown := [name for name in wanted if name not in frame.columns]:
        raise InvalidInputError(f"{path} has no column {listed(unknown)}; it has {listed(frame.columns)}.")
    X = frame.drop(columns=wanted)
    named = {str(name): name for name in variables or ()}
    if any(name in named for name in X.columns):  # else by position, or not at all: the model tells
        if lacking := [name for name in named if name not in X.columns]:
            raise InvalidInputError(
                f"{path} has no column {listed(lacking)}, which the model needs; it has {listed(X.columns)}. "
                "If the variable was not observed, add an empty column."
            )
        if others := [name for name in X.columns if name not in named]:
            notes.append(f"Left out, as the model has no such variables: {listed(others)}.")
        X = X.drop(columns=others)
    X = X.apply(_as_numbers, decimal=ways.get("decimal") or ".", thousands=ways.get("thousands") or "")
    if text := [name for name in X.columns if not pd.api.types.is_numeric_dtype(X[name])]:
        if only_numbers:
            X = X.drop(columns=text)
            notes.append(f"Left out, as they are text: {listed(text)}.")
        elif variables is None:
            notes.append(f"Text, taken for discrete variables: {listed(text)}; --only-numbers leaves them out.")
    notes += _mistakes(X, variables is not None)
    if not X.shape[1]:
        raise InvalidInputError(f"{path} has no column to fit; it has {listed(frame.columns)}.")
    rows = pd.Series(np.arange(1, len(frame) + 1), name="row")
    identifiers = rows if id_column is None else frame[id_column]
    if repeated := int(identifiers.dropna().duplicated().sum()):
        notes.append(f"Column {id_column!r}, which names the samples, has entries that repeat another: {repeated}.")
    X.columns = pd.Index([named.get(name, name) for name in X.columns], tupleize_cols=False)
    return Table(X, identifiers, None if labels_column is None else frame[labels_column], tuple(notes), frame)


def _mistakes(X: pd.DataFrame, is_known: bool) -> list[str]:
    """Sentences about what may be a mistake; columns of known variables are none."""
    notes = []
    numeric = [name for name in X.columns if pd.notna(pd.to_numeric(name, errors="coerce"))]
    if numeric and not is_known:
        found = f"The first line has numbers for names, {listed(numeric)}"
        notes.append(f"{found}; if it is a sample, say --no-header.")
    columns = X.select_dtypes("number")
    numbers = columns.to_numpy(dtype=float)
    steps = numbers - np.arange(len(numbers))[:, None]
    counts = (steps == steps[:1]).all(axis=0) & np.isin(steps[0], (0, 1)) & (len(steps) > 3)
    if counts.any() and not is_known:
        name = str(columns.columns[counts][0])
        notes.append(f"Column {name!r} counts the rows; if it is no variable, say --drop {shlex.quote(name)}.")
    last = numbers[-1]
    is_sum = np.isclose(last, np.nansum(numbers[:-1], axis=0), rtol=1e-6) & (last != 0)
    if len(numbers) > 3 and is_sum.any() and (is_sum | np.isnan(last) | counts).all():
        notes.append("The last line has the sums of the others; if it is no sample, say --skip-footer 1.")
    return notes


def read_frame(
    path: Path,
    *,
    sep: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    comment: str | None = None,
    skip_rows: int = 0,
    skip_footer: int = 0,
    no_header: bool = False,
    encoding: str | None = None,
    missing: Sequence[str] = (),
) -> pd.DataFrame:
    """Read all columns as they are, but for a last one without names and entries, as commas at the ends of lines make.

    Parameters
    ----------
    path : Path
        "-" is the standard input.
    sep : str, optional
        Between fields; by default a tab, ";", "|" or ",", the first of these that is in each of the first lines.
    decimal, thousands : str, optional
        Decimal point, and what separates thousands.
    comment : str, optional
        What a comment begins with, which goes to the end of the line.
    skip_rows, skip_footer : int
        Lines before the table, and rows at its end.
    no_header : bool
        The first line has no names: they are "x0", "x1", ...
    encoding : str, optional
        UTF-8 by default.
    missing : sequence of str
        What stands for a missing entry, besides nothing, NA, NaN, null and the like.

    Raises
    ------
    OSError
        There is no such file, or it is a folder.
    InvalidInputError
        What pandas says, and the flags.
    """
    source: Any = path
    if path == STANDARD:
        source = io.BytesIO(sys.stdin.buffer.read())
    elif path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; expected the file of a table.")
    else:
        require_regular(path, "a table")
    is_utf8 = (encoding or "utf-8").lower().replace("_", "-") in ("utf-8", "utf8")
    # A byte order mark is not part of the first name.
    way: dict[str, Any] = {"comment": comment, "encoding": "utf-8-sig" if is_utf8 else encoding}
    way["skiprows"] = checked_integer(skip_rows, "--skip-rows", 0)
    try:
        frame = pd.read_csv(
            source,
            sep=sep or _separator(source, way),
            decimal=decimal or ".",
            thousands=thousands,
            na_values=list(missing),
            header=None if no_header else 0,
            low_memory=False,  # columns of one dtype each
            skipinitialspace=True,
            **way,
        )
    except (MemoryError, Warning):
        raise
    except Exception as error:  # of pandas, of text encodings, and of all kinds of compression
        reason = " ".join(str(error).split())[:300].rstrip(".")
        raise InvalidInputError(f"{path} is not read as a table: {reason}. {_FLAGS}") from error
    frame.columns = pd.Index([f"x{name}" if no_header else str(name).strip() for name in frame.columns])
    frame = _without_open_end(frame, no_header)
    if not isinstance(frame.index, pd.RangeIndex):
        raise InvalidInputError(f"{path} has rows with more fields than its header has names. {_FLAGS}")
    frame = frame[: max(len(frame) - checked_integer(skip_footer, "--skip-footer", 0), 0)]
    if not len(frame):
        raise InvalidInputError(f"{path} has no rows below its header. {_FLAGS}")
    return frame


def _separator(source: Any, way: dict[str, Any]) -> str:
    """Find the separator that stands in each of the first lines of a file, or of bytes, which are rewound."""
    lines = pd.read_csv(source, sep="\x01", quoting=3, header=None, nrows=_LINES, dtype=str, **way)[0]
    if isinstance(source, io.BytesIO):
        source.seek(0)
    return next((each for each in _SEPARATORS if lines.str.contains(each, regex=False).all()), ",")


def _without_open_end(frame: pd.DataFrame, no_header: bool) -> pd.DataFrame:
    """A table without the column that separators at the end of every line make."""
    if frame.shape[1] < 2 or not frame.iloc[:, -1].isna().all():
        return frame
    if not isinstance(frame.index, pd.RangeIndex | pd.MultiIndex):  # but of the header: pandas shifts names
        return frame.reset_index().iloc[:, :-1].set_axis(frame.columns, axis=1)
    return frame.iloc[:, :-1] if no_header or frame.columns[-1].startswith("Unnamed: ") else frame


def _as_numbers(column: pd.Series, decimal: str, thousands: str) -> pd.Series:
    """A column as numbers, or as text none of whose entries may be one.

    Raises
    ------
    InvalidInputError
        Some entries are numbers, or may be, and others are not.
    """
    if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype):
        return column
    text = column.astype(str).str.strip().where(column.notna())
    plain = text.str.replace("\N{MINUS SIGN}", "-", regex=False).str.replace(thousands, "", regex=False)
    if decimal == ",":  # so that 1.5 is none
        plain = plain.str.translate(str.maketrans(".,", ",."))
    numbers = pd.to_numeric(plain, errors="coerce")
    is_wrong = (numbers.isna() & text.notna()).to_numpy()
    if not is_wrong.any():  # such as integers beyond 64 bits, or nothing
        return numbers.astype(float)
    if not text.dropna().str.fullmatch(_LIKE_NUMBER).any():
        return text
    row = int(np.argmax(is_wrong))
    advice = "Say --missing TEXT if that means missing, --decimal or --thousands if it is a number"
    if plain[is_wrong].str.fullmatch(_THOUSANDS).all():
        advice = "Say --thousands , if these are numbers"
    elif row == len(text) - 1:
        advice = "Say --skip-footer 1 if the last line is no sample"
    raise InvalidInputError(
        f"Column {column.name!r} has numbers and text: {is_wrong.sum()} of {text.notna().sum()} entries are no "
        f"numbers, the first {text.iloc[row][:40]!r} in row {row + 1}. {advice}; or leave the column out, --drop "
        f"{column.name!r}."
    )
