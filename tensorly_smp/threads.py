"""Independent pieces of work, one after the other or in threads, that the keyboard may interrupt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import TypeVar

from joblib import effective_n_jobs
from joblib.parallel import get_active_backend

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
    >>> from tensorly_smp.threads import allowed_threads
    >>> allowed_threads(4)
    4
    >>> Parallel(n_jobs=2, backend="threading")(delayed(allowed_threads)(4) for _ in range(2))
    [1, 1]
    """
    backend, *_ = get_active_backend()
    # Joblib itself would let its workers have any number of threads, and only what these start in turn have one.
    return 1 if backend.nesting_level else int(effective_n_jobs(n_jobs))


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
                futures.append(pool.submit(one, item))
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
