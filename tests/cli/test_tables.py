"""Tables as people have them."""

import bz2
import gzip
import io
import lzma
import re
import zipfile

import numpy as np
import pandas as pd
import pytest

from tensorly_smp.cli.tables import read_table
from tensorly_smp.exceptions import InvalidInputError

FLAGS = ("--sep", "--decimal", "--thousands", "--comment", "--skip-rows", "--skip-footer", "--no-header", "--encoding")


@pytest.fixture
def table(tmp_path):
    """Reads a text as if from a file."""

    def read(text, name="data.csv", **ways):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_table(path, **ways)

    return read


def test_numbers_and_missing_entries(table):
    read = table("a,b,c\n1,2.5,\n,NA,7\nNaN,null,-1e3\n")
    expected = pd.DataFrame({"a": [1.0, np.nan, np.nan], "b": [2.5, np.nan, np.nan], "c": [np.nan, 7.0, -1000.0]})
    pd.testing.assert_frame_equal(read.X, expected)
    assert read.identifiers.name == "row"
    assert read.identifiers.tolist() == [1, 2, 3]
    assert (read.labels, read.notes) == (None, ())
    # Other signs of missing entries.
    read = table("a,b\n-999,1\n?,2\n3,3\n", missing=("-999", "?"))
    np.testing.assert_array_equal(read.X["a"], [np.nan, np.nan, 3.0])
    # Large integers and typeset minus signs are numbers.
    assert table("a\n1\n100000000000000000000000\n").X["a"].tolist() == [1, 1e23]
    assert table("a\n\u22121.5\n2\n").X["a"].tolist() == [-1.5, 2]


@pytest.mark.parametrize(
    ("text", "ways"),
    [
        ("a;b\n1,5;2\n", {"decimal": ","}),
        ("a\tb\n1.5\t2\n", {}),
        ("a:b\n1.5:2\n", {"sep": ":"}),
        ('"a;b",b\n1.5,2\n', {"drop": []}),
        ("\ufeffa, b\n1.5, 2\n", {}),
        ("a,b\r\n1.5,2\r\n\r\n", {}),
        ('\n\n"a" ,b\n"1.5",2\n', {}),
        ("a;b\n1.000.001,5;2\n", {"decimal": ",", "thousands": "."}),
        ("made today\nby me; and you\na,b\n1.5,2\n", {"skip_rows": 2}),
        ("# by me\na,b\n1.5,2 # first\n", {"comment": "#"}),
        ("größe,b\n1.5,2\n".encode("latin-1"), {"encoding": "latin-1"}),
        ("a,b\n1.5,2\n".encode("utf-16"), {"encoding": "utf-16"}),
        ("1.5,2\n", {"no_header": True}),
        ("a,b\n1.5,2\nTotal,2\nby me\n", {"skip_footer": 2}),
        ("a,b\n1.5,2,\n", {}),
        ("1.5,2,\n", {"no_header": True}),
        ('a,b\n"1,000,001.5",2\n', {"thousands": ","}),
    ],
)
def test_ways_to_write_a_table(table, text, ways):
    X = table(text, **ways).X
    np.testing.assert_array_equal(X, [[1_000_001.5 if "thousands" in ways else 1.5, 2]])
    names = {"latin-1": ["größe", "b"]}.get(ways.get("encoding"), ["x0", "x1"] if "no_header" in ways else ["a", "b"])
    assert X.columns.tolist() == (["a;b", "b"] if "drop" in ways else names)


def zipped(content):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("data.csv", content)
    return made.getvalue()


PACKED = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zip": zipped}


@pytest.mark.parametrize("kind", PACKED)
def test_compressed_tables(table, kind):
    content = pd.DataFrame(np.random.default_rng(0).normal(size=(100, 2))).to_csv(index=False).replace("0,1", "a,b")
    packed = PACKED[kind](content.encode())
    pd.testing.assert_frame_equal(table(packed, f"data.csv.{kind}").X, table(content).X)
    for damaged in (packed[: len(packed) // 2], b"no archive"):
        with pytest.raises(InvalidInputError, match=rf"data\.csv\.{kind} is not read as a table: .* --encoding"):
            table(damaged, f"data.csv.{kind}")


def test_identifiers_labels_and_columns_left_out(table):
    read = table("name,kind,a,note,b\nP,x,1,hm,2\nP,,3,,4\n", id_column="name", labels_column="kind", drop=("note",))
    assert list(read.X.columns) == ["a", "b"]
    assert read.identifiers.name == "name"
    assert read.identifiers.tolist() == ["P", "P"]
    assert read.labels[0] == "x"
    assert pd.isna(read.labels[1])
    assert read.notes == ("Column 'name', which names the samples, has entries that repeat another: 1.",)
    for ways in ({"id_column": "none"}, {"labels_column": "none"}, {"drop": ("a", "none")}):
        with pytest.raises(InvalidInputError, match=r"no column 'none'; it has 'a', 'b'"):
            table("a,b\n1,2\n", **ways)


def test_row_numbers_without_a_name_are_not_a_variable(table):
    read = table(",a,b\n10,1,2\n11,3,4\n")
    assert list(read.X.columns) == ["a", "b"]
    assert read.identifiers.name == "id"
    assert read.identifiers.tolist() == [10, 11]
    assert "no name" in read.notes[0]


def test_text_is_a_variable_or_left_out(table):
    text = "smoker,kind,a\nyes,x ,1\nno,,2\n,y,3\n"
    read = table(text)
    assert read.X["kind"].tolist()[::2] == ["x", "y"]
    assert read.X.isna().sum().tolist() == [1, 1, 0]
    assert read.notes == ("Text, taken for discrete variables: 'smoker', 'kind'; --only-numbers leaves them out.",)
    read = table(text, only_numbers=True)
    assert list(read.X.columns) == ["a"]
    assert read.notes == ("Left out, as they are text: 'smoker', 'kind'.",)
    # Truth values are text, whether pandas reads them as such or, with missing entries, not.
    assert table("a,b\n1,TRUE\n2,False\n").X["b"].tolist() == ["True", "False"]
    assert table("a,b\n1,TRUE\n2,\n").X["b"].tolist()[0] == "True"
    with pytest.raises(InvalidInputError, match="no column to fit"):
        table("a,b\nx,y\n", only_numbers=True)


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("179.58,5.1\n180.2,4.9\n", "numbers for names, '179.58', '5.1'; .*--no-header"),
        ("no,a\n1,5\n2,3\n3,9\n4,2\n", "'no' counts the rows; .*--drop no"),
        ("a,b\n0,5\n1,3\n2,9\n3,2\n", "'a' counts the rows"),
        ("a,name,b\n1.5,x,2\n2,y,7\n5,z,4\n8.5,Total,13\n", "sums of the others; .*--skip-footer 1"),
        ("no,a\n1,5\n2,3\n3,9\n,17\n", "sums of the others"),
        ("a,b\n1,5\n2,3\n4,9\n7,16\n", ""),
        ("a,b\n1,5\n2,3\n3,9\n5,17\n", ""),
    ],
)
def test_what_may_be_a_mistake_is_said(table, text, note):
    notes = [each for each in table(text).notes if "Text" not in each]
    assert len(notes) == bool(note)
    assert re.search(note, " ".join(notes))


def test_variables_of_a_model(table):
    read = table("c,2,extra,1\n1,2,text,3\n", variables=[1, 2, "c"])
    assert read.X.iloc[0].to_dict() == {"c": 1, 2: 2, 1: 3}
    assert read.notes == ("Left out, as the model has no such variables: 'extra'.",)
    # None of them: by position, which the model decides.
    assert list(table("a,b\n1,2\n", variables=["x0", "x1"]).X.columns) == ["a", "b"]
    with pytest.raises(InvalidInputError, match=r"no column 'c', which the model needs.*add an empty column"):
        table("a,b\n1,2\n", variables=["a", "b", "c"])


MIXED = {
    "a stray sign": ("a,b\n1,1\n2,-\n3,3\n", "'b' has numbers and text: 1 of 3 entries .*, the first '-' in row 2"),
    "decimal commas": ("a;b\n1;2,5\n2;3\n", "'b' has numbers and text: 1 of 2 .*'2,5' in row 1.*--decimal"),
    "only decimal commas": ("a;b\n1;2,5\n2;3,5\n", "2 of 2 entries are no numbers, the first '2,5' in row 1"),
    "decimal points": ("a;b\n1;2.5\n2;3,5\n", "'2.5' in row 1", {"decimal": ","}),
    "a limit": ("a\n1\n> 14\n2\n", "the first '> 14' in row 2. Say --missing"),
    "groups of thousands": ('a,b\n1,"1,234"\n2,"9,414.0"\n', "'1,234' in row 1. Say --thousands , if"),
    "a last line": ("a,b\n1,1\n2,2\nTotal,3\n", "'Total' in row 3. Say --skip-footer 1 if"),
}


@pytest.mark.parametrize("only_numbers", [False, True])
@pytest.mark.parametrize("name", MIXED)
def test_no_column_of_numbers_is_lost_by_a_stray_entry(table, name, only_numbers):
    text, message, *ways = MIXED[name]
    with pytest.raises(InvalidInputError, match=message):
        table(text, only_numbers=only_numbers, **(ways[0] if ways else {}))


WRONG = {
    "nothing": ("", "No columns"),
    "blank lines only": ("\n \n", "is not read|no rows"),
    "a header only": ("a,b\n", "no rows"),
    "more fields than names": ("a,b\n1,2,3\n", "more fields than its header"),
    "one row of more fields": ("a,b\n1,2\n1,2,3\n", "line 3"),
    "an open quote": ('a,b\n"1,2\n', "EOF"),
    "Latin-1": ("größe,b\n1,2\n".encode("latin-1"), "utf-8"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "utf-8"),
}


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG.keys())
def test_what_is_no_table(table, text, message):
    with pytest.raises(InvalidInputError, match=message) as caught:
        table(text)
    assert all(flag in str(caught.value) for flag in FLAGS)


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no file"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(IsADirectoryError, match=r"is a folder; expected the file of a table\."):
        read_table(tmp_path)
