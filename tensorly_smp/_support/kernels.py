"""Compiled kernels run where Numba (extra ``fast``) is installed and there is enough to do.

Every kernel of :mod:`tensorly_smp._support.compiled_kernels` has a plain twin where it is called from, with the same
result to rounding. Which of the two runs depends on the sizes alone, so that the same fit repeats to the last bit; and
Numba is imported when a kernel first runs, not before. Kernels run in the thread that calls them and release the
interpreter's lock: ``n_jobs`` bounds the threads, there are none inside them, and no result depends on their number.

The environment variable ``TENSORLY_SMP_FAST`` set to 0 switches them off.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import ModuleType

#: Products samples x variables x components of one pass from which kernels pay: to import Numba and to load
#: them from its cache takes a second (15 s at their very first use, when they are compiled). A pass of this size saves
#: 4 ms, and several fits, as of a choice among numbers of components, make hundreds; a single one gains nothing yet.
LEAST_WORK = 1e6

_least_work = LEAST_WORK


def compiled(work: float) -> ModuleType | None:
    """The kernels, or None where the plain code is to be used.

    Parameters
    ----------
    work : float
        Samples x variables x components of a pass, or what takes as long.

    Examples
    --------
    >>> from tensorly_smp._support import kernels
    >>> kernels.compiled(1000.0) is None
    True
    """
    if work < _least_work or os.environ.get("TENSORLY_SMP_FAST") == "0":
        return None
    return _kernels()


@contextmanager
def used_from(work: float) -> Iterator[None]:
    """Kernels from this much work on, in all threads: 0 for always, infinity for never. For tests and benchmarks.

    Examples
    --------
    >>> from tensorly_smp._support import kernels
    >>> with kernels.used_from(float("inf")):
    ...     kernels.compiled(1e12) is None
    True
    """
    global _least_work
    before, _least_work = _least_work, work
    try:
        yield
    finally:
        _least_work = before


@cache
def _kernels() -> ModuleType | None:
    try:
        return import_module("tensorly_smp._support.compiled_kernels")
    except (ImportError, SystemError):  # not installed, or not for this NumPy
        return None
