"""Progress of long computations: bars where they are asked for, and one log message per stage.

Bars are tqdm's (extra ``progress``), on the standard error stream, and for people: ``verbose`` asks for them. Messages
go to the logger "tensorly_smp", level INFO, whatever ``verbose`` is; nobody sees them unless the program has set up
logging, as by ``logging.basicConfig(level=logging.INFO)``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from typing import Any

from tensorly_smp._support.checks import checked_integer, import_extra

logger = logging.getLogger("tensorly_smp")


class Bar:
    """A bar that any thread may move; without one of tqdm's, nothing is shown."""

    def __init__(self, tqdm_bar: Any = None) -> None:
        self._bar = tqdm_bar
        self._lock = Lock()  # tqdm's own guards the screen, not the count

    def advance(self, **notes: float) -> None:
        """One more step is done; numbers such as the loss are shown behind the bar."""
        if self._bar is not None:
            with self._lock:
                self._bar.set_postfix({name: f"{value:.6g}" for name, value in notes.items()}, refresh=False)
                self._bar.update()

    def extend(self, n_steps: int) -> None:
        """Add steps to those that the bar expects."""
        if self._bar is not None and self._bar.total is not None:
            with self._lock:
                self._bar.total += n_steps

    def counting(self, callback: Callable[..., Any] | None, name: str = "loss") -> Callable[..., Any] | None:
        """The callback, advancing this bar at every call; its last argument, if there is one, is shown under the name.

        The callback itself where nothing is shown.
        """
        if self._bar is None:
            return callback

        def counted(*arguments: Any) -> Any:
            self.advance(**({name: float(arguments[-1])} if arguments else {}))
            return None if callback is None else callback(*arguments)

        return counted


#: For code that is given no bar.
SILENT = Bar()


def checked_verbose(verbose: Any) -> int:
    """The number of levels of bars that are asked for: 0 none, 1 of stages, 2 also of the steps within them.

    Raises
    ------
    InvalidTypeError, InvalidInputError
        No integer, or a negative one.
    MissingDependencyError
        Bars are asked for, and tqdm is not installed.

    Examples
    --------
    >>> from tensorly_smp._support.progress import checked_verbose
    >>> checked_verbose(False)
    0
    """
    level = int(verbose) if isinstance(verbose, bool) else checked_integer(verbose, "verbose", 0)
    if level:
        _tqdm()
    return level


@contextmanager
def progress_bar(
    verbose: int, description: str, total: int | None = None, *, unit: str = "it", level: int = 1
) -> Iterator[Bar]:
    """A bar for the duration of a block, if ``verbose`` is at least ``level``.

    Parameters
    ----------
    verbose : int
    description : str
        What is being done, before the bar.
    total : int, optional
        Number of steps, where it is known; else they are counted only.
    unit : str
        What a step is.
    level : int
        1 for a stage. Bars of level 2, of steps within a stage, vanish when they are through.

    Examples
    --------
    >>> from tensorly_smp._support.progress import progress_bar
    >>> with progress_bar(0, "fits", total=3) as bar:
    ...     for _ in range(3):
    ...         bar.advance()
    """
    if verbose < level:
        yield SILENT
        return
    with _tqdm()(desc=description, total=total, unit=f" {unit}", leave=level == 1) as tqdm_bar:
        yield Bar(tqdm_bar)


def dask_progress(verbose: int, description: str) -> AbstractContextManager[Any]:
    """A bar over the tasks of everything that Dask's schedulers of this process compute in a block.

    The distributed scheduler has its own, ``dask.distributed.progress``, and its dashboard.

    Examples
    --------
    >>> from tensorly_smp._support.progress import dask_progress
    >>> with dask_progress(0, "reading samples"):
    ...     pass
    """
    if not verbose:
        return nullcontext()
    tqdm_class = _tqdm()
    from tqdm.dask import TqdmCallback

    return TqdmCallback(desc=description, tqdm_class=tqdm_class, unit=" task")


def _tqdm() -> Any:
    """Tqdm's bar for wherever this runs: a terminal or a notebook."""
    return import_extra("tqdm.auto", "progress", "verbose=1").tqdm
