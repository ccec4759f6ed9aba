"""Files that are there whole or not at all."""

import os
from pathlib import Path

import pytest

from tensorly_smp.exceptions import InvalidTypeError
from tensorly_smp.storage.files import as_path, require_writable, written_whole


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


def test_permissions_and_links_stay(tmp_path):
    (tmp_path / "table.csv").write_text("earlier")
    (tmp_path / "table.csv").chmod(0o640)
    (tmp_path / "link.csv").symlink_to(tmp_path / "table.csv")
    with written_whole(tmp_path / "link.csv") as written:
        written.write_text("new")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "table.csv").read_text() == "new"
    assert (tmp_path / "table.csv").stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device")
def test_devices_are_written_to_and_not_replaced(tmp_path):
    (tmp_path / "link").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"), written_whole(tmp_path / "link") as written:
        written.write_text("x")
    with written_whole(Path("/dev/null")) as written:
        written.write_text("x")
    assert not Path("/dev/null").is_file()


def test_what_killed_processes_left_is_removed(tmp_path):
    from tensorly_smp.storage import files

    left = tmp_path / f".table.csv.{files._host()}.{2**22 + 1}.abc"  # beyond all process numbers
    running = tmp_path / f".table.csv.{files._host()}.{os.getppid()}.abc"
    elsewhere, mine = tmp_path / ".table.csv.0000.1.abc", tmp_path / ".table.csv.backup"
    for folder in (left, running, elsewhere, mine):
        folder.mkdir()
    with written_whole(tmp_path / "table.csv") as written:
        written.touch()
    assert sorted(tmp_path.iterdir()) == sorted([running, elsewhere, mine, tmp_path / "table.csv"])


def test_what_cannot_be_written_is_known_beforehand(tmp_path):
    require_writable(tmp_path / "new.csv")
    with pytest.raises(FileNotFoundError):
        require_writable(tmp_path / "none" / "new.csv")
    with pytest.raises(IsADirectoryError):
        require_writable(tmp_path)
    require_writable(tmp_path, may_be_folder=True)
    if os.geteuid() != 0:
        tmp_path.chmod(0o500)
        with pytest.raises(PermissionError):
            require_writable(tmp_path / "new.csv")
        tmp_path.chmod(0o700)
