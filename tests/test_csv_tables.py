"""CSV files as people have them."""

import numpy as np
import pandas as pd
import pytest

from tensorly_smp.csv_tables import Columns, CsvFormat, read_table
from tensorly_smp.exceptions import InvalidInputError


@pytest.fixture
def table(tmp_path):
    """Reads a text as if from a file."""

    def read(text, form=None, columns=None, variables=None):
        path = tmp_path / "data.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_table(path, form or CsvFormat(), columns or Columns(), variables)

    return read


def test_numbers_and_missing_entries(table):
    read = table("a,b,c\n1,2.5,\n,NA,7\nNaN,null,-1e3\n")
    expected = pd.DataFrame({"a": [1.0, np.nan, np.nan], "b": [2.5, np.nan, np.nan], "c": [np.nan, 7.0, -1000.0]})
    pd.testing.assert_frame_equal(read.X, expected)
    assert read.identifiers.name == "row"
    assert read.identifiers.tolist() == [1, 2, 3]
    assert read.labels is None
    assert read.notes == ()


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("a;b\n1,5;2\n", CsvFormat(";", ",")),
        ("a\tb\n1.5\t2\n", CsvFormat("\t")),
        ("\ufeffa, b\n1.5, 2\n", CsvFormat()),
        ("a,b\r\n1.5,2\r\n\r\n", CsvFormat()),
        ("\n\na,b\n1.5,2\n", CsvFormat()),
        ('"a","b"\n"1.5","2"\n', CsvFormat()),
    ],
)
def test_ways_to_write_a_table(table, text, form):
    pd.testing.assert_frame_equal(table(text, form).X, pd.DataFrame({"a": [1.5], "b": [2]}))


def test_other_signs_of_missing_entries(table):
    read = table("a,b\n-999,1\n?,2\n3,3\n", CsvFormat(missing=("-999", "?")))
    np.testing.assert_array_equal(read.X["a"], [np.nan, np.nan, 3.0])


def test_no_header(table):
    read = table("1,2,3\n4,5,6\n", CsvFormat(has_header=False))
    assert list(read.X.columns) == ["x0", "x1", "x2"]
    assert len(read.X) == 2


def test_identifiers_labels_and_columns_left_out(table):
    read = table("name,kind,a,note,b\nP,x,1,hm,2\nQ,,3,,4\n", columns=Columns("name", "kind", ("note",)))
    assert list(read.X.columns) == ["a", "b"]
    assert read.identifiers.name == "name"
    assert read.identifiers.tolist() == ["P", "Q"]
    assert read.labels[0] == "x"
    assert pd.isna(read.labels[1])


def test_row_numbers_without_a_name_are_not_a_variable(table):
    read = table(",a,b\n10,1,2\n11,3,4\n")
    assert list(read.X.columns) == ["a", "b"]
    assert read.identifiers.name == "id"
    assert read.identifiers.tolist() == [10, 11]
    assert "no name" in read.notes[0]


def test_only_numbers(table):
    read = table("name,a,b\nP,1,2\n", columns=Columns(only_numbers=True))
    assert list(read.X.columns) == ["a", "b"]
    assert read.notes == ("Left out, as they are not numbers: 'name'.",)


def test_variables_of_a_model(table):
    read = table("c,2,extra,1\n1,2,text,3\n", variables=[1, 2, "c"])
    assert read.X.iloc[0].to_dict() == {"c": 1, 2: 2, 1: 3}
    assert read.notes == ("Left out, as the model has no such variables: 'extra'.",)
    # None of them: by position, which the model decides.
    assert list(table("a,b\n1,2\n", variables=["x0", "x1"]).X.columns) == ["a", "b"]


WRONG = {
    "nothing": ("", "not a table"),
    "a header only": ("a,b\n", "no rows"),
    "another separator": ("a;b\n1;2\n", "its separator is not ','.*--sep"),
    "tabs": ("a\tb\n1\t2\n", "its separator is not ','.*--sep"),
    "repeated names": ("a,a,b\n1,2,3\n", "more than one column 'a'"),
    "no names": ("1,2,3\n4,5,6\n", "numbers in place of names, 1, 2, 3.*--no-header"),
    "more fields than names": ("a,b\n1,2,3\n", "more fields than its header"),
    "one row of more fields": ("a,b\n1,2\n1,2,3\n", "not a table.*line 3"),
    "an open quote": ('a,b\n"1,2\n', "not a table"),
    "text": ("a,b\n1,one\n2,two\n", "'b' is not numbers: 'one' in row 1, and 1 more.*--drop 'b'"),
    "some text": (
        "a,b\n1,1\n2,-\n3,3\n",
        "'b' is not numbers: '-' in row 2, and 0 more. If that means missing, --missing '-'",
    ),
    "decimal commas": ('a,b\n1,"2,5"\n', "'2,5' in row 1.*decimal comma, --decimal"),
    "dates": ("a,b\n1,2024-01-31\n", "'2024-01-31' in row 1"),
    "several columns of text": ("a,b,c\n1,x,y\n", "Likewise 'c'"),
    "Latin-1": ("größe,b\n1,2\n".encode("latin-1"), "UTF-8"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "UTF-8"),
    "zeros": (b"\0" * 100, "not a table|not numbers|no rows"),
}


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG.keys())
def test_what_is_no_table_of_numbers(table, text, message):
    with pytest.raises(InvalidInputError, match=message):
        table(text)


@pytest.mark.parametrize("columns", [Columns("none"), Columns(labels="none"), Columns(left_out=("a", "none"))])
def test_unknown_columns(table, columns):
    with pytest.raises(InvalidInputError, match=r"no column 'none'; it has 'a', 'b'"):
        table("a,b\n1,2\n", columns=columns)


def test_variables_that_are_missing(table):
    with pytest.raises(InvalidInputError, match=r"no column 'c', which the model needs.*add an empty column"):
        table("a,b\n1,2\n", variables=["a", "b", "c"])


def test_no_column_of_numbers(table):
    with pytest.raises(InvalidInputError, match="no column of numbers"):
        table("a,b\nx,y\n", columns=Columns(only_numbers=True))


def test_missing_file_and_folder(tmp_path):
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(FileNotFoundError, match="There is no file"):
            read_table(path)
