"""CSV files as people have them."""

import numpy as np
import pandas as pd
import pytest

from tensorly_smp.cli.csv_tables import Columns, CsvFormat, read_table
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
    "nothing": ("", "data.csv is empty"),
    "blank lines only": ("\n \n", "data.csv is empty|no rows"),
    "a header only": ("a,b\n", "no rows"),
    "another separator": ("a;b\n1;2\n", "its separator is not ','.*--sep"),
    "tabs": ("a\tb\n1\t2\n", "its separator is not ','.*--sep"),
    "repeated names": ("a,a,b\n1,2,3\n", "more than one column 'a'"),
    "no names": ("1,2,3\n4,5,6\n", "numbers in place of names, 1, 2, 3.*--no-header"),
    "more fields than names": ("a,b\n1,2,3\n", "more fields than its header"),
    "one row of more fields": ("a,b\n1,2\n1,2,3\n", "not a table.*line 3"),
    "an open quote": ('a,b\n"1,2\n', "not a table"),
    "text": (
        "a,b\n1,one\n2,two\n",
        "'b' is not numbers: 2 of 2 entries, 'one' in row 1, 'two' in row 2. Leave .*--drop 'b'",
    ),
    "some text": (
        "a,b\n1,1\n2,-\n3,3\n",
        "^Column 'b' is not numbers: 1 of 3 entries, '-' in row 2. If that means missing, say --missing -; else "
        "correct it in the file, or leave the column out with --drop 'b'.$",
    ),
    "signs that a shell knows": ("a\n1\n--\n> 14\n2\n3\n", '--missing=-- --missing "> 14"; else'),
    "many signs": (
        "a\n1\n-\n?\n!\n.\n2\n3\n4\n5\n",
        r"4 of 9 entries, '-' in row 2, '\?' in row 3, '!' in row 4, \.\.\.",
    ),
    "one word of a pair": ("a,b\n1,yes\n2,\n", "'b' is not numbers: 1 of 1 entries, 'yes' in row 1"),
    "one truth": ("a,b\n1,True\n2,True\n", "'b' is not numbers: 2 of 2 entries, 'True' in row 1"),
    "words of two pairs": ("a,b\n1,yes\n2,n\n", "'b' is not numbers"),
    "a third word": ("a,b\n1,yes\n2,no\n3,maybe\n", "'b' is not numbers"),
    "decimal commas": ('a,b\n1,"2,5"\n', "'2,5' in row 1.*decimal comma, say --decimal ,"),
    "decimal commas after text": ('a,b\nx,"2,5"\ny,"3,5"\n', "^Column 'b' .*'2,5' in row 1, .*'a' .*say --decimal ,;"),
    "a comma among points": ('a\n1.5\n2.5\n"3,5"\n', "'3,5' in row 3. If that means missing"),
    "dates": ("a,b\n1,2024-01-31\n", "'2024-01-31' in row 1"),
    "several columns of text": ("a,b,c\n1,x,y\n", "Likewise 'c' .1 of 1 entries"),
    "text and a stray sign": ("a,b\nx,1\ny,-\nz,2\n", "Likewise 'b' .1 of 3 entries.*--only-numbers"),
    "Latin-1": ("größe,b\n1,2\n".encode("latin-1"), "data.csv is not text in utf-8; try --encoding latin-1"),
    "UTF-16": ("a,b\n1,2\n".encode("utf-16"), "--encoding utf-16"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "no text file"),
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


def test_close_names_are_suggested(table):
    text = "patient id,a,b\n1,2,3\n"
    with pytest.raises(
        InvalidInputError, match=r"no column 'Patient_ID'; did you mean 'patient id'\? It has 'patient id'"
    ):
        table(text, columns=Columns("Patient_ID"))
    with pytest.raises(InvalidInputError, match=r"no column 'none', 'B'; did you mean 'b'\? It has"):
        table(text, columns=Columns("none", left_out=("B",)))


@pytest.mark.parametrize("word", ["-", "5,3", "> 14"])
def test_only_numbers_keeps_no_secret_of_stray_entries(table, word):
    text = f'name,a,b\nP,1,1\nQ,2,"{word}"\nR,3,3\n'
    with pytest.raises(InvalidInputError, match=f"'b' is not numbers: 1 of 3 entries, '{word}' in row 2.*--drop 'b'.$"):
        table(text, columns=Columns(only_numbers=True))
    half = table("a,b\n1,1\n2,x\n", columns=Columns(only_numbers=True))
    assert half.notes == ("Left out, as they are not numbers: 'b'.",)


@pytest.mark.parametrize(("point", "other"), [(",", "."), (".", ",")])
def test_only_numbers_says_which_decimal_point(table, point, other):
    text = "name;a;b\nP;1;1,5\nQ;2;2,5\n".replace(",", point)
    with pytest.raises(InvalidInputError, match=rf"'1\{point}5' in row 1.*say --decimal \{point};"):
        table(text, CsvFormat(";", other), Columns(only_numbers=True))
    assert list(table(text, CsvFormat(";", point), Columns(only_numbers=True)).X.columns) == ["a", "b"]


def test_stray_entries_beside_decimal_commas_are_counted(table):
    with pytest.raises(InvalidInputError, match=r"1 of 3 entries, '-' in row 2\..*--missing -;"):
        table("a;b\n1,5;1\n-;2\n2,5;3\n", CsvFormat(";", ","))


@pytest.mark.parametrize(("one", "zero"), [("yes", "no"), ("True", "FALSE"), ("Y", "n"), ("t", "F"), ("true", "false")])
def test_pairs_of_words_are_one_and_zero(table, one, zero):
    read = table(f"a,b\n1,{one}\n2,\n3,{zero}\n4,{one.upper()} \n")
    np.testing.assert_array_equal(read.X["b"], [1, np.nan, 0, 1])
    assert read.coded == (f"b: {one.lower()} = 1, {zero.lower()} = 0",)
    whole = table(f"a,b\n1,{one}\n3,{zero}\n")  # which pandas may read as truth values
    np.testing.assert_array_equal(whole.X["b"], [1.0, 0.0])
    assert whole.X["b"].dtype == float


def test_one_word_of_a_pair_is_enough_for_a_model(table):
    read = table("a,b\n1,no\n2,no\n", variables=["a", "b"])
    assert read.X["b"].tolist() == [0, 0]
    assert read.coded == ("b: yes = 1, no = 0",)
    assert table("a,b\n1,2\n", variables=["a", "b"]).coded == ()


def test_large_integers_are_numbers(table):
    assert table("a\n1\n100000000000000000000000\n").X["a"].tolist() == [1, 1e23]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "UTF8"])
def test_encodings(table, encoding):
    read = table("größe,b\n1,2\n".encode(encoding), CsvFormat(encoding=encoding))
    assert list(read.X.columns) == ["größe", "b"]


def test_identifiers_that_repeat(table):
    text = "name,a\nP,1\n,2\nQ,3\nP,4\n,5\n"
    (note,) = table(text, columns=Columns("name")).notes
    assert note == (
        "Column 'name', which names the samples, is not unique: 'P' is in rows 1 and 4; 1 of 5 entries repeat another."
    )


def test_no_column_of_numbers(table):
    with pytest.raises(InvalidInputError, match="no column of numbers"):
        table("a,b\nx,y\n", columns=Columns(only_numbers=True))


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no file"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(IsADirectoryError, match=r"is a folder; expected a CSV file\."):
        read_table(tmp_path)
