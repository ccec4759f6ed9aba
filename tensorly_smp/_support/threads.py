"""Independent pieces of work, one after the other or in threads, that the keyboard may interrupt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from threading import Event, Lock
from typing import Any, TypeVar

from joblib import effective_n_jobs
from joblib.parallel import get_active_backend
from threadpoolctl import threadpool_limits

Item = TypeVar("Item")
Result = TypeVar("Result")


def allowed_threads(n_jobs: int | None) -> int:
    """Number of threads, as joblib counts jobs: None is 1 (or what parallel_config says), -1 is all processors.

    But one inside a worker of joblib, whose neighbors keep the other processors busy: each of two processes would start
    as many threads as were meant for both.

    Parameters
    ----------
    n_jobs : int, optional

    Returns
    -------
    int

    Examples
    --------
    >>> from joblib import Parallel, delayed
    >>> from tensorly_smp._support.threads import allowed_threads
    >>> allowed_threads(4)
    4
    >>> Parallel(n_jobs=2, backend="threading")(delayed(allowed_threads)(4) for _ in range(2))
    [1, 1]
    """
    backend, *_ = get_active_backend()
    # Joblib itself would let its workers have any number of threads, and only what these start in turn have one.
    return 1 if backend.nesting_level else int(effective_n_jobs(n_jobs))


class _BlasLimit:
    """One thread for BLAS while anyone asks for it.

    Of some libraries the number is one for the whole process: several threads that each set and restored it would
    restore each other's, and the process would keep a single one. There the last to leave restores what the first had
    found. Of others every thread has a number of its own.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._n_users = 0
        self._is_of_thread = False
        self._first: Any = None

    def enter(self) -> Any:
        with self._lock:
            limits = threadpool_limits(1, user_api="blas")
            if not self._n_users:
                self._first = limits
            elif limits.get_original_num_threads()["blas"] not in (1, None):  # what another thread set is not seen here
                self._is_of_thread = True
            self._n_users += 1
            return limits

    def leave(self, limits: Any) -> None:
        with self._lock:
            self._n_users -= 1
            if self._is_of_thread:
                limits.restore_original_limits()
            elif not self._n_users:
                self._first.restore_original_limits()


_blas_limit = _BlasLimit()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """A block in which BLAS has one thread, in however many threads there are such blocks at a time.

    With as many as there happen to be, rounding would depend on the number of jobs.

    Examples
    --------
    >>> from tensorly_smp._support.threads import one_blas_thread
    >>> with one_blas_thread():
    ...     pass
    """
    limits = _blas_limit.enter()
    try:
        yield
    finally:
        _blas_limit.leave(limits)


def run_each(
    work: Callable[[Item, Callable[[], None]], Result],
    items: Sequence[Item],
    n_threads: int,
    is_interrupted: Callable[[Result], bool],
) -> tuple[list[Result], bool]:
    """Results of the items, in their order, and whether there was an interrupt; then of those that have begun only.

    Not joblib.Parallel: it loses what was computed when the keyboard interrupts, and leaves the threads running.

    Parameters
    ----------
    work : callable
        ``work(item, check)``; it calls ``check()`` now and then, which raises KeyboardInterrupt once another item has
        been interrupted, and answers a KeyboardInterrupt with what it has so far.
    items : sequence
    n_threads : int
    is_interrupted : callable
        Whether a result says that it was interrupted.

    Returns
    -------
    results : list
    interrupted : bool

    Raises
    ------
    KeyboardInterrupt
        Before any item has a result.
    """
    stop = Event()

    def check() -> None:
        if stop.is_set():
            raise KeyboardInterrupt

    def one(item: Item) -> Result:
        result = work(item, check)
        if is_interrupted(result):
            stop.set()
        return result

    if len(items) <= 1 or n_threads <= 1:
        results: list[Result] = []
        for item in items:
            try:
                results.append(one(item))
            except KeyboardInterrupt:
                if not results:
                    raise
                stop.set()
            if stop.is_set():
                break
        return results, stop.is_set()
    with ThreadPoolExecutor(n_threads) as pool:
        futures: list[Future[Result]] = []
        try:
            for item in items:  # the first may be interrupted before the last has been handed over
                futures.append(pool.submit(copy_context().run, one, item))
            for future in futures:
                future.result()
        except BaseException as error:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            results = [f.result() for f in futures if not f.cancelled() and f.exception() is None]
            if not isinstance(error, KeyboardInterrupt) or not results:
                raise
            return results, True
    return [future.result() for future in futures], stop.is_set()
