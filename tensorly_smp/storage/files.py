"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError

#: The folder or file that was there before, inside the temporary folder of a replacement that is under way.
EARLIER = "earlier"
#: Temporary folders of other computers are left over when they are older than this.
_SECONDS_OF_OTHERS = 24 * 3600.0


def as_path(path: Any, name: str = "path") -> Path:
    """The path, or an InvalidTypeError."""
    try:
        if not isinstance(path, str | os.PathLike):
            raise TypeError
        made = Path(path)
    except TypeError as error:
        raise InvalidTypeError(f"{name} is {type(path).__name__}; expected a string or a path object.") from error
    if not str(path):
        raise InvalidInputError(f"{name} is empty; expected the path of a file.")
    if "\0" in str(made):
        raise InvalidInputError(f"{name} contains a null character, which no file name can have.")
    return made


def require_folder(target: Path) -> None:
    """Raise FileNotFoundError unless the folder is there that `target` is to be written to."""
    if not target.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {target.parent} to write {target.name} to.")


def require_writable(target: Path, may_be_folder: bool = False) -> None:
    """Raise an OSError if it is clear beforehand that `target` cannot be written.

    Parameters
    ----------
    target : Path
    may_be_folder : bool
        Whether a folder of that name is to be replaced by a folder.

    Raises
    ------
    OSError
        The folder of the target does not exist or is read-only, the target is a folder, or a file that is read-only.
    """
    real = _real(target)
    require_folder(real if target.is_symlink() else target)
    if real.is_dir() and not may_be_folder:
        raise IsADirectoryError(f"{target} is a folder; expected the path of a file.")
    if real.exists() and not os.access(real, os.W_OK):
        raise PermissionError(f"{target} is read-only.")
    if not _is_special(real) and not os.access(real.parent, os.W_OK | os.X_OK):
        raise PermissionError(f"{target} cannot be written: the folder {real.parent} is read-only.")


def require_regular(source: Path, name: str) -> None:
    """Raise an OSError unless `source` is a readable file, or a folder; devices and pipes might never end.

    Parameters
    ----------
    source : Path
    name : str
        What is expected, for the message.
    """
    if not source.exists():
        raise FileNotFoundError(f"There is no file {source}.")
    if _is_special(source):
        raise OSError(f"{source} is a device, a pipe or a socket; expected {name}.")
    if not os.access(source, os.R_OK):
        raise PermissionError(f"{source} cannot be read: permission denied.")


@contextmanager
def written_whole(target: Path) -> Iterator[Path]:
    """A path beside the target to write a file or a folder to, which takes the target's place at the end.

    So no reader ever sees half of it, and after an error the target is as it was. A file takes the place of an earlier
    file in one step, with its permissions. Where an earlier folder is replaced by a folder, there is none for an
    instant, since systems do not exchange folders (see `interrupted_replacement`); a folder is never replaced by a
    file, nor a file by a folder. A symbolic link stays one: what it points to is replaced. Into a device or a pipe,
    such as ``/dev/stdout``, the content is copied. What earlier processes left behind, because they were killed, is
    removed at the end.

    Raises
    ------
    OSError
        The folder of the target does not exist, or cannot be written to.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from tensorly_smp.storage.files import written_whole
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with written_whole(Path(folder) / "table.csv") as path:
    ...         _ = path.write_text("x,y")
    ...     (Path(folder) / "table.csv").read_text()
    'x,y'
    """
    real = _real(target)
    require_folder(real if target.is_symlink() else target)
    if _is_special(real):
        with tempfile.TemporaryDirectory() as folder:
            written = Path(folder) / f"written{target.suffix}"
            yield written
            with written.open("rb") as source, real.open("wb") as device:
                shutil.copyfileobj(source, device)
        return
    if real.exists() and not os.access(real, os.W_OK):
        raise PermissionError(f"{target} is read-only.")
    # In a folder of its own, so that the file gets the usual permissions (a temporary file is for its owner only).
    with tempfile.TemporaryDirectory(dir=real.parent, prefix=f"{_prefix(real)}{_host()}.{os.getpid()}.") as folder:
        written = Path(folder) / f"written{target.suffix}"  # some writers go by the suffix
        yield written
        if real.exists():
            os.chmod(written, stat.S_IMODE(real.stat().st_mode))
        _replace(written, real, Path(folder) / EARLIER)
    _remove_left_over(real)


def interrupted_replacement(target: Path) -> Path | None:
    """The earlier folder, if a process was killed between taking it away and putting the new one into its place.

    Parameters
    ----------
    target : Path

    Returns
    -------
    Path or None
        None too where `target` exists.
    """
    real = _real(target)
    if real.exists() or not real.parent.is_dir():
        return None
    found = [folder / EARLIER for folder in _temporary_folders(real) if (folder / EARLIER).is_dir()]
    return max(found, key=lambda folder: folder.stat().st_mtime, default=None)


def _replace(written: Path, target: Path, earlier: Path) -> None:
    """Put what was written into the place of the target."""
    if not (written.is_dir() and target.is_dir()):
        os.replace(written, target)
        return
    os.replace(target, earlier)
    try:
        os.replace(written, target)
    except BaseException:
        os.replace(earlier, target)
        raise


def _real(target: Path) -> Path:
    """Path with all links resolved; it need not exist."""
    return Path(os.path.realpath(target))


def _is_special(path: Path) -> bool:
    """True for a device, a pipe or a socket."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _prefix(target: Path) -> str:
    return f".{target.name}."


def _host() -> str:
    """A short sign of this computer: a process number says nothing about processes of others."""
    return f"{zlib.crc32(socket.gethostname().encode()):08x}"


def _temporary_folders(target: Path) -> list[Path]:
    """Temporary folders of replacements of the target, under way or left over."""
    found = [folder for folder in target.parent.iterdir() if folder.name.startswith(_prefix(target))]
    return [folder for folder in found if folder.name.count(".") == target.name.count(".") + 4 and folder.is_dir()]


def _remove_left_over(target: Path) -> None:
    """Remove temporary folders whose process no longer runs."""
    for folder in _temporary_folders(target):
        *_, host, process, _ = folder.name.split(".")
        try:
            is_old = time.time() - folder.stat().st_mtime > _SECONDS_OF_OTHERS
        except FileNotFoundError:  # of another process, which has just ended
            continue
        if is_old or (host == _host() and process.isdecimal() and not _is_running(int(process))):
            shutil.rmtree(folder, ignore_errors=True)


def _is_running(process: int) -> bool:
    if os.name != "posix":  # where signal 0 is not a question
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
