"""Files that are there whole or not at all."""

import os

import pytest

from tensorly_smp.exceptions import InvalidTypeError
from tensorly_smp.files import as_path, written_whole


def content(folder):
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def make(path, is_folder, text):
    if is_folder:
        path.mkdir()
        path = path / "part"
    path.write_text(text)


@pytest.fixture(params=[False, True], ids=["file", "folder"])
def is_folder(request):
    return request.param


def test_new_and_replaced(tmp_path, is_folder):
    name = "store/part" if is_folder else "store"
    for text in ("first", "second"):
        with written_whole(tmp_path / "store") as written:
            make(written, is_folder, text)
            # What was there is there while the new one is written.
            assert content(tmp_path).get(name) == (None if text == "first" else "first")
        assert content(tmp_path) == {name: text}


def test_an_error_leaves_what_was_there(tmp_path, is_folder):
    make(tmp_path / "store", is_folder, "earlier")
    before = content(tmp_path)

    def write_half():
        with written_whole(tmp_path / "store") as written:
            make(written, is_folder, "half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_half()
    assert content(tmp_path) == before


def test_a_rename_that_fails_brings_the_earlier_folder_back(tmp_path, monkeypatch):
    make(tmp_path / "store", True, "earlier")
    rename, calls = os.replace, []

    def fails_the_second_time(source, target):
        calls.append(source)
        if len(calls) == 2:
            raise OSError("no rename")
        rename(source, target)

    monkeypatch.setattr(os, "replace", fails_the_second_time)

    def write():
        with written_whole(tmp_path / "store") as written:
            make(written, True, "new")

    with pytest.raises(OSError, match="no rename"):
        write()
    assert len(calls) == 3
    assert content(tmp_path) == {"store/part": "earlier"}


@pytest.mark.parametrize("was_folder", [False, True])
def test_files_and_folders_do_not_replace_each_other(tmp_path, was_folder):
    make(tmp_path / "store", was_folder, "earlier")
    before = content(tmp_path)

    def write():
        with written_whole(tmp_path / "store") as written:
            make(written, not was_folder, "new")

    with pytest.raises(OSError, match="store"):
        write()
    assert content(tmp_path) == before


def test_the_suffix_is_kept(tmp_path):
    with written_whole(tmp_path / "picture.png") as written:
        assert written.suffix == ".png"
        written.touch()


def test_missing_folder_and_wrong_types(tmp_path):
    with pytest.raises(FileNotFoundError, match="no folder"), written_whole(tmp_path / "none" / "a.csv"):
        pass
    with pytest.raises(InvalidTypeError, match="out is int"):
        as_path(3, "out")
