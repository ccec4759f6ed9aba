"""Tables of numbers in CSV files, for the command line: what cannot be used is named, with what to do about it."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pandas as pd

from tensorly_smp.cli.csv_columns import TextColumn, as_numbers, no_such_column, refusal, repeated_entries
from tensorly_smp.cli.csv_files import opened
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.samples.labels import list_names, repeated_names
from tensorly_smp.storage import require_regular

ROW = "row"
_BYTE_ORDER_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True)
class CsvFormat:
    """Dialect of a CSV file.

    Attributes
    ----------
    separator : str
        Between fields, one character.
    decimal : str
        "." or ",".
    missing : tuple of str
        What stands for a missing entry, besides nothing, NA, NaN, null and the like.
    has_header : bool
        Whether the first line has the names; else they are "x0", "x1", ...
    encoding : str
        Name of a text encoding that Python knows. UTF-8 may have a byte order mark.
    """

    separator: str = ","
    decimal: str = "."
    missing: tuple[str, ...] = ()
    has_header: bool = True
    encoding: str = "utf-8"

    @property
    def codec(self) -> str:
        """The encoding, with a byte order mark that is not part of the first name."""
        return "utf-8-sig" if codecs.lookup(self.encoding).name == "utf-8" else self.encoding


@dataclass(frozen=True)
class Columns:
    """Roles of the columns of a file.

    Attributes
    ----------
    identifier : str or None
        Column that names the samples.
    labels : str or None
        Column of known classes, which take no part in a fit.
    left_out : tuple of str
    only_numbers : bool
        Whether columns are left out too at least half of whose entries are not numbers; else they are an error, as
        others with such entries always are.
    """

    identifier: str | None = None
    labels: str | None = None
    left_out: tuple[str, ...] = ()
    only_numbers: bool = False


@dataclass(frozen=True, eq=False)
class CsvTable:
    """Samples by variables, and what is known about the samples.

    Attributes
    ----------
    X : DataFrame (n_samples, n_variables)
        Numbers; NaN is missing.
    identifiers : Series (n_samples,)
        Named like their column, or the numbers of the rows, from 1.
    labels : Series (n_samples,) or None
        Known classes.
    notes : tuple of str
        What was left out, and why, and what else may be a mistake.
    coded : tuple of str
        Which words of which columns became 1 and 0.
    """

    X: pd.DataFrame
    identifiers: pd.Series
    labels: pd.Series | None
    notes: tuple[str, ...]
    coded: tuple[str, ...] = ()


def read_table(
    path: Path, form: CsvFormat = CsvFormat(), columns: Columns = Columns(), variables: Sequence[Hashable] | None = None
) -> CsvTable:
    r"""Read a table of numbers.

    A first column without a name, as pandas and R write row numbers, names the samples. A column of yes and no, true
    and false, y and n or t and f, in any case, is one of 1 and 0.

    Parameters
    ----------
    path : Path
    form : CsvFormat
    columns : Columns
    variables : sequence of hashable, optional
        Names of the variables of a model. If the file has them all, others are left out, and columns get these names
        (1 for "1"); if it has none of them, columns are what they are. With a model, a column may have just one word
        of a pair such as yes and no.

    Returns
    -------
    CsvTable

    Raises
    ------
    OSError
        There is no such file, or it is a folder.
    InvalidInputError
        It is no table, columns are missing, repeated or not numbers; also those that `only_numbers` would leave out
        although most of their entries are numbers.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from tensorly_smp.cli.csv_tables import Columns, read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "birds.csv"
    ...     _ = path.write_text("species,length,depth\nA,39.1,18.7\nB,,17.4\n")
    ...     table = read_table(path, columns=Columns(labels="species"))
    >>> table.X
       length  depth
    0    39.1   18.7
    1     NaN   17.4
    >>> table.labels.tolist()
    ['A', 'B']
    """
    frame = _read_frame(path, form)
    notes: list[str] = []
    identifier = columns.identifier
    if identifier is None and form.has_header and _is_unnamed(frame.columns[0]):
        identifier = frame.columns[0]
        notes.append("The first column has no name; it is taken to name the samples.")
    wanted = [name for name in (columns.identifier, columns.labels, *columns.left_out) if name is not None]
    if unknown := [name for name in wanted if name not in frame.columns]:
        raise InvalidInputError(no_such_column(path, unknown, frame.columns.tolist()))
    found = [name for name in frame.columns if name not in {identifier, *wanted}]
    chosen, renamed = _chosen(found, variables, path)
    if len(chosen) < len(found):
        notes.append(
            f"Left out, as the model has no such variables: {list_names(name for name in found if name not in chosen)}."
        )
    X, coded, texts = _split(frame[chosen], form, may_lack_one=variables is not None)
    if refused := [text for text in texts if text.is_mostly_numbers or not columns.only_numbers]:
        raise InvalidInputError(refusal(refused))
    if texts:
        notes.append(f"Left out, as they are not numbers: {list_names(text.name for text in texts)}.")
    if not X.shape[1]:
        raise InvalidInputError(f"{path} has no column of numbers; it has {list_names(frame.columns)}.")
    rows = pd.Series(np.arange(1, len(frame) + 1), name=ROW)
    identifiers = rows if identifier is None else _identifiers(frame[identifier])
    if note := repeated_entries(identifiers):
        notes.append(note)
    return CsvTable(
        X=X.set_axis(pd.Index([renamed.get(name, name) for name in X.columns], tupleize_cols=False), axis=1),
        identifiers=identifiers,
        labels=None if columns.labels is None else frame[columns.labels],
        notes=tuple(notes),
        coded=coded,
    )


def _split(
    frame: pd.DataFrame, form: CsvFormat, may_lack_one: bool
) -> tuple[pd.DataFrame, tuple[str, ...], list[TextColumn]]:
    """Columns of numbers, the words that became numbers, and columns that are none."""
    read = {name: as_numbers(frame[name], form.decimal, may_lack_one) for name in frame.columns}
    texts = [column for column, _ in read.values() if isinstance(column, TextColumn)]
    numbers = {name: column for name, (column, _) in read.items() if not isinstance(column, TextColumn)}
    return pd.DataFrame(numbers, index=frame.index), tuple(coded for _, coded in read.values() if coded), texts


def _read_frame(path: Path, form: CsvFormat) -> pd.DataFrame:
    require_regular(path, "a CSV file")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; expected a CSV file.")
    try:
        with opened(path) as file:
            header = _header(file, form) if form.has_header else None
            if header is not None:
                _check_header(header, path, form)
        with opened(path) as file:
            frame = pd.read_csv(
                file,
                sep=form.separator,
                decimal=form.decimal,
                na_values=list(form.missing),
                header=0 if form.has_header else None,
                low_memory=False,  # columns of one dtype each
                skipinitialspace=True,
                encoding=form.codec,
            )
    except InvalidInputError:
        raise
    except UnicodeError as error:
        raise InvalidInputError(_not_text(path, form)) from error
    except pd.errors.EmptyDataError as error:
        raise InvalidInputError(f"{path} is empty.") from error
    except (pd.errors.ParserError, csv.Error, ValueError) as error:
        raise InvalidInputError(f"{path} is not a table: {' '.join(str(error).split())[:500]}.") from error
    if not isinstance(frame.index, pd.RangeIndex):
        raise InvalidInputError(
            f"{path} has rows with more fields than its header has names; give the first column a name, or see whether "
            "the separator or the decimal comma occurs within fields (--sep, --decimal)."
        )
    if not len(frame):
        raise InvalidInputError(f"{path} has no rows below its header.")
    if header is None:
        frame.columns = pd.Index([f"x{n}" for n in range(frame.shape[1])])
    else:
        frame.columns = pd.Index([name if name else f"Unnamed: {n}" for n, name in enumerate(header)])
    return frame


def _not_text(path: Path, form: CsvFormat) -> str:
    with opened(path) as file:
        start = file.read(1024)
    if start.startswith(_BYTE_ORDER_MARKS):
        return f"{path} is not text in {form.encoding}; its first bytes are those of --encoding utf-16."
    if b"\0" in start:
        return f"{path} is no text file; expected a CSV file."
    other = "utf-8" if form.codec != "utf-8-sig" else "latin-1"
    return f"{path} is not text in {form.encoding}; try --encoding {other}."


def _header(file: BinaryIO, form: CsvFormat) -> list[str]:
    """Names as they are in the file: pandas renames repeated ones."""
    lines = io.TextIOWrapper(file, encoding=form.codec, newline="")
    try:
        for line in csv.reader(lines, delimiter=form.separator, skipinitialspace=True):
            if line:
                return [name.strip() for name in line]
        return []
    finally:
        lines.detach()  # the file is closed by who has opened it


def _check_header(header: list[str], path: Path, form: CsvFormat) -> None:
    if len(header) == 1 and any(separator in header[0] for separator in ",;\t|"):
        raise InvalidInputError(
            f"{path} seems to have one column, {header[0][:60]!r}; its separator is not {form.separator!r}. Say which "
            "it is, such as --sep ';' or --sep tab."
        )
    if repeated := repeated_names([name for name in header if name]):
        raise InvalidInputError(f"{path} has more than one column {list_names(repeated)}; rename one of them.")
    if header and all(_is_number(name) for name in header):
        raise InvalidInputError(
            f"The first line of {path} has numbers in place of names, {', '.join(header[:3])}, ...; if there are no "
            "names, say --no-header."
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_unnamed(name: str) -> bool:
    return name.startswith("Unnamed: ")


def _chosen(
    found: list[str], variables: Sequence[Hashable] | None, path: Path
) -> tuple[list[str], dict[str, Hashable]]:
    """Columns that a model wants, and the names that it has for them."""
    if variables is None:
        return found, {}
    named = {str(name): name for name in variables}
    there = [name for name in found if name in named]
    if not there:  # by position, or not at all: the model tells
        return found, {}
    if missing := [name for name in named if name not in there]:
        raise InvalidInputError(
            f"{path} has no column {list_names(missing)}, which the model needs; it has {list_names(found)}. If the "
            "variable was not observed, add an empty column."
        )
    return there, named


def _identifiers(column: pd.Series) -> pd.Series:
    return column.rename("id") if _is_unnamed(str(column.name)) else column
