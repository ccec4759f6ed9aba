"""Compiled kernels run where Numba (extra ``fast``) is installed and there is enough to do.

Every kernel of :mod:`tensorly_smp._support.compiled_kernels` has a plain twin where it is called from, with the same
result to rounding; whole fits agree to their tolerance. Which of the two runs depends on the sizes alone, so that the
same fit repeats to the last bit; and Numba is imported when a kernel first runs, not before. Kernels run in the thread
that calls them and release the interpreter's lock: ``n_jobs`` bounds the threads, there are none inside them, and no
result depends on their number.

The environment variable ``TENSORLY_SMP_FAST`` set to 0 switches them off. Where one cannot be compiled, or loaded from
Numba's cache, the plain twins take the place of all of them, with one warning.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from typing import Any

from tensorly_smp._support.checks import warn
from tensorly_smp._support.representations import shown
from tensorly_smp.exceptions import CompiledKernelWarning

#: Cells x densities from which kernels pay. To import Numba and to load them from its cache takes .4 s, once in a
#: process (10 to 20 s at their very first use, when they are compiled); a fit of some hundred samples takes two thirds
#: of the time of plain code from then on.
LEAST_WORK = 1_000.0


class KernelError(Exception):
    """A kernel cannot be compiled or loaded; the caller goes on with its plain twin."""


class Kernels:
    """Kernels of a module as its attributes; one that fails is not called again.

    Numba compiles, or loads from its cache, when a kernel is first called with arguments of some types. That fails
    where a file of the cache is cut short, or where there is no memory left for LLVM, before anything is written to the
    arguments. Others that have been compiled go on, for those who are in the middle of something.
    """

    def __init__(self, module: Any) -> None:
        self._module = module
        self._failed: set[str] = set()

    @property
    def is_broken(self) -> bool:
        """True once a kernel has failed."""
        return bool(self._failed)

    def __getattr__(self, name: str) -> Any:
        kernel = getattr(self._module, name)

        def guarded(*arguments: Any) -> Any:
            if name in self._failed:
                raise KernelError
            try:
                return kernel(*arguments)
            except Exception as error:
                self._give_up(name, kernel, error)
                raise KernelError from error

        setattr(self, name, guarded)
        return guarded

    def _give_up(self, name: str, kernel: Any, error: Exception) -> None:
        is_first = not self._failed
        self._failed.add(name)
        if not is_first:
            return
        folder = getattr(getattr(kernel, "stats", None), "cache_path", None)
        files = f"compiled_kernels*.nbi and *.nbc in {folder}" if folder else "those of compiled_kernels"
        warn(
            f"Compiled kernels cannot be used, {type(error).__name__}: {shown(str(error))}. Plain code takes their "
            "place in this process, with the same results, more slowly. If files of Numba's cache are damaged, delete "
            f"{files}; if memory is short, set TENSORLY_SMP_FAST=0, which switches kernels off.",
            CompiledKernelWarning,
        )


def compiled(work: float) -> Kernels | None:
    """The kernels, or None where the plain code is to be used.

    Parameters
    ----------
    work : float
        Cells x densities.

    Examples
    --------
    >>> from tensorly_smp._support import kernels
    >>> kernels.compiled(100.0) is None
    True
    """
    if work < LEAST_WORK or os.environ.get("TENSORLY_SMP_FAST") == "0":
        return None
    found = _kernels()
    return None if found is None or found.is_broken else found


@cache
def _kernels() -> Kernels | None:
    try:
        return Kernels(import_module("tensorly_smp._support.compiled_kernels"))
    except (ImportError, SystemError):  # not installed, or not for this NumPy
        return None
