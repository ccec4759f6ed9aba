"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tensorly_smp.exceptions import InvalidTypeError


def as_path(path: Any, name: str = "path") -> Path:
    """The path, or an InvalidTypeError."""
    try:
        return Path(path)
    except TypeError as error:
        raise InvalidTypeError(f"{name} is {type(path).__name__}; expected a string or a path object.") from error


def require_folder(target: Path) -> None:
    """Raise FileNotFoundError unless the folder is there that `target` is to be written to."""
    if not target.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {target.parent} to write {target.name} to.")


@contextmanager
def written_whole(target: Path) -> Iterator[Path]:
    """A path beside the target to write a file or a folder to, which takes the target's place at the end.

    So no reader ever sees half of it, and after an error the target is as it was. A file takes the place of an earlier
    file in one step. Where an earlier folder is replaced by a folder, there is none for an instant, since systems do
    not exchange folders; a folder is never replaced by a file, nor a file by a folder.

    Raises
    ------
    OSError
        The folder of the target does not exist, or cannot be written to.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from tensorly_smp.files import written_whole
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with written_whole(Path(folder) / "table.csv") as path:
    ...         _ = path.write_text("x,y")
    ...     (Path(folder) / "table.csv").read_text()
    'x,y'
    """
    require_folder(target)
    # In a folder of its own, so that the file gets the usual permissions (a temporary file is for its owner only).
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
        written = Path(folder) / f"written{target.suffix}"  # some writers go by the suffix
        yield written
        if not (written.is_dir() and target.is_dir()):
            os.replace(written, target)
            return
        earlier = Path(folder) / "earlier"
        os.replace(target, earlier)
        try:
            os.replace(written, target)
        except BaseException:
            os.replace(earlier, target)
            raise
