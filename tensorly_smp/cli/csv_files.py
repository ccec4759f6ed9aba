"""Bytes of a CSV file, which may be compressed."""

from __future__ import annotations

import gzip
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from tensorly_smp.exceptions import InvalidInputError

#: First bytes of compressed files that are read, and the module of Python that does it.
_READ = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\xfd7zXZ\0": "lzma"}
_ZIP = (b"PK\3\4", b"PK\5\6")
#: Of those that are not.
_NOT_READ = {
    b"\x28\xb5\x2f\xfd": "Zstandard",
    b"7z\xbc\xaf\x27\x1c": "7-Zip",
    b"Rar!": "RAR",
    b"\x04\x22\x4d\x18": "LZ4",
    b"\x1f\x9d": "compress",
}
_TAR, _AT_TAR = b"ustar", 257
_LOOKED_AT = _AT_TAR + len(_TAR)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The content of a file, out of gzip, bzip2, xz or zip by its first bytes, whatever the name.

    Raises
    ------
    InvalidInputError
        Another kind of compression, an archive of several files, or a damaged one.

    Examples
    --------
    >>> import gzip, tempfile
    >>> from pathlib import Path
    >>> from tensorly_smp.cli.csv_files import opened
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "table.csv.gz"
    ...     _ = path.write_bytes(gzip.compress(b"x,y"))
    ...     with opened(path) as file:
    ...         file.read()
    b'x,y'
    """
    with path.open("rb") as file:
        start = file.read(_LOOKED_AT)
    _refuse(start, path)
    module = next((name for first, name in _READ.items() if start.startswith(first)), "")
    try:
        if start.startswith(_ZIP):
            with zipfile.ZipFile(path) as archive, archive.open(_only_member(archive, path)) as member:
                yield _looked_at(member, path)
        elif module:
            with _module(module, path).open(path, "rb") as file:
                yield _looked_at(file, path)
        else:
            with path.open("rb") as file:
                yield file
    except InvalidInputError:
        raise
    except Exception as error:
        is_damage = isinstance(error, EOFError | zlib.error | zipfile.BadZipFile | NotImplementedError)
        if not is_damage and type(error) not in (RuntimeError, *_damages(module)):
            raise
        raise InvalidInputError(f"{path} cannot be unpacked: {error}.") from error


def _damages(module: str) -> tuple[type[Exception], ...]:
    """Errors that a decompression module raises for damaged files, beside those that all of them raise."""
    if module == "lzma":
        return (import_module(module).LZMAError,)
    return {"gzip": (gzip.BadGzipFile,), "bz2": (OSError,)}.get(module, ())


def _looked_at(file: Any, path: Path) -> BinaryIO:
    """An unpacked file, at its start, if it is no archive itself."""
    _refuse(file.read(_LOOKED_AT), path)
    file.seek(0)
    found: BinaryIO = file
    return found


def _refuse(start: bytes, path: Path) -> None:
    kind = next((name for first, name in _NOT_READ.items() if start.startswith(first)), "")
    if start[_AT_TAR:] == _TAR:
        kind = "tar"
    if kind:
        raise InvalidInputError(f"{path} is a {kind} file; expected a CSV file, or one in gzip, bzip2, xz or zip.")


def _only_member(archive: zipfile.ZipFile, path: Path) -> str:
    names = [info.filename for info in archive.infolist() if not info.is_dir()]
    if len(names) != 1:
        raise InvalidInputError(f"{path} has {len(names)} files in it; expected a single CSV file.")
    return names[0]


def _module(name: str, path: Path) -> Any:
    try:
        return import_module(name)
    except ImportError as error:  # of a Python that was built without it
        raise InvalidInputError(f"{path} is a compressed file that this Python cannot read: {error}.") from error
