"""Independent pieces of work: in threads, which the keyboard may interrupt, or as tasks of Dask.

All that the package knows of Dask's scheduling is here: pieces are tasks of a graph, so that any scheduler runs them
(threads, or a ``distributed`` cluster where a client is active). Functions and arguments travel to the pieces; their
results come back merged, eight at a time on the workers.
"""

from __future__ import annotations

import sys
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from functools import cache
from threading import Event, Lock, current_thread, main_thread
from typing import Any, TypeVar

import xarray as xr
from joblib import effective_n_jobs
from joblib.parallel import get_active_backend
from threadpoolctl import ThreadpoolController

from tensorly_smp._support.checks import import_extra

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
    >>> from tensorly_smp._support.parallel import allowed_threads
    >>> allowed_threads(4)
    4
    >>> Parallel(n_jobs=2, backend="threading")(delayed(allowed_threads)(4) for _ in range(2))
    [1, 1]
    """
    backend, *_ = get_active_backend()
    # Joblib itself would let its workers have any number of threads, and only what these start in turn have one.
    return 1 if backend.nesting_level else int(effective_n_jobs(n_jobs))


_blas_lock = Lock()
#: How many blocks want one thread for BLAS, the limits of the first of them, and whether every thread has its own.
_blas: dict[str, Any] = {"users": 0, "first": None, "is_of_thread": False}


@cache
def _libraries() -> ThreadpoolController:
    """The libraries that are loaded: NumPy's and SciPy's are from the start, and to look for them takes 2 ms."""
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """A block in which BLAS has one thread, in however many threads there are such blocks at a time.

    With as many as there happen to be, rounding would depend on the number of jobs.

    Of some libraries the number is one for the whole process: several threads that each set and restored it would
    restore each other's, and the process would keep a single one. There the last to leave restores what the first had
    found. Of others every thread has a number of its own.

    Examples
    --------
    >>> from tensorly_smp._support.parallel import one_blas_thread
    >>> with one_blas_thread():
    ...     pass
    """
    with _blas_lock:
        limits = _libraries().limit(limits=1, user_api="blas")
        if not _blas["users"]:
            _blas["first"] = limits
        elif limits.get_original_num_threads()["blas"] not in (1, None):  # what another thread set is not seen here
            _blas["is_of_thread"] = True
        _blas["users"] += 1
    try:
        yield
    finally:
        with _blas_lock:
            _blas["users"] -= 1
            if _blas["is_of_thread"]:
                limits.restore_original_limits()
            elif not _blas["users"]:
                _blas["first"].restore_original_limits()


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


#: Results that are merged at a time.
FAN_IN = 8


def require_dask() -> Any:
    """The module ``dask``.

    Raises
    ------
    MissingDependencyError
        It is not installed.
    """
    return import_extra("dask", "dask", "A fit to samples in chunks")


def add_up(found: Sequence[Sequence[Any]]) -> list[Any]:
    """Results of several pieces, numbers or arrays, added up position by position."""
    return [sum(position[1:], position[0]) for position in zip(*found, strict=True)]


def is_chunked(X: Any) -> bool:
    """Tell whether X is a dask array, a dask DataFrame, or a DataArray or Dataset of such arrays.

    Nothing can be where Dask has not been imported, so that it is not imported here.

    Parameters
    ----------
    X : object

    Examples
    --------
    >>> import dask.array as da
    >>> from tensorly_smp._support.parallel import is_chunked
    >>> is_chunked(da.zeros((10, 3))), is_chunked([[1, 2, 3]])
    (True, False)
    """
    dask = sys.modules.get("dask")
    if dask is None or not hasattr(dask, "is_dask_collection"):
        return False
    if isinstance(X, xr.Dataset):
        return any(array.chunks is not None for array in X.data_vars.values())
    if isinstance(X, xr.DataArray):  # a coordinate alone may be dask's
        return X.chunks is not None
    return bool(dask.is_dask_collection(X))


@dataclass(frozen=True, eq=False)
class OnePart:
    """A single piece, in memory: the methods of :class:`Parts` without any scheduler.

    Attributes
    ----------
    piece : object

    Examples
    --------
    >>> from tensorly_smp._support.parallel import OnePart
    >>> OnePart("abc").map(len).reduce(sum)
    3
    """

    piece: Any

    def map(self, function: Callable[..., Any], *arguments: Any) -> OnePart:
        """``function(piece, *arguments)``, computed at once."""
        return OnePart(function(self.piece, *arguments))

    def group(self, groups: object, merge: object) -> OnePart:
        """The piece is not put together with any other."""
        return self

    def persist(self) -> OnePart:
        """The piece is kept already."""
        return self

    def gather(self) -> list[Any]:
        """The piece alone."""
        return [self.piece]

    def reduce(self, merge: Callable[[list[Any]], Any]) -> Any:
        """Merge the piece alone."""
        return merge([self.piece])


@dataclass(frozen=True, eq=False)
class Parts:
    """Pieces of something, in their order. Make them with :meth:`of`.

    Pieces of tasks of their own would lie on a worker until they are used. It makes all of them while it waits for the
    arguments of the first such task, if what they are made of is there already. So pieces can also be made anew within
    every task that uses them.

    Attributes
    ----------
    keys : tuple of str
        What Dask calls the pieces; or, with `make`, lists of its arguments with ``dask.delayed`` objects among them.
    graph : HighLevelGraph or None
        How they are computed, or where they are.
    make : callable, optional
        Makes a piece of its arguments, within the tasks that use it.

    Examples
    --------
    >>> import dask
    >>> from tensorly_smp._support.parallel import Parts
    >>> words = Parts.of([dask.delayed(word) for word in ("a", "bc", "def")])
    >>> words.map(len).reduce(sum)
    6
    >>> Parts.of([[dask.delayed(2)], [3]], range).map(list).gather()
    [[0, 1], [0, 1, 2]]
    """

    keys: tuple[Any, ...]
    graph: Any
    make: Callable[..., Any] | None = None

    @classmethod
    def of(cls, pieces: Sequence[Any], make: Callable[..., Any] | None = None) -> Parts:
        """Make parts of ``dask.delayed`` objects, or of lists of arguments with such objects among them."""
        if make is not None:
            return cls(tuple(pieces), None, make)
        return cls(tuple(piece.key for piece in pieces), _graph("pieces", {}, pieces))

    @property
    def pieces(self) -> list[Any]:
        """The pieces as ``dask.delayed`` objects."""
        if self.make is not None:
            return [require_dask().delayed(self.make)(*arguments) for arguments in self.keys]
        return [_delayed(key, self.graph) for key in self.keys]

    def map(self, function: Callable[..., Any], *arguments: Any, each: Sequence[int] | None = None) -> Parts:
        """``function(piece, *arguments)`` of every piece, not computed yet.

        With `each`, ``function(piece, own, *arguments)`` with a number `own` for every piece.
        """
        name = f"{getattr(function, '__name__', 'map')}-{uuid.uuid4().hex}"
        # The arguments are a task that all others depend on, so that they travel once to every worker.
        call = _Call(function, arguments, self.make)
        own: Sequence[tuple[int, ...]] = [()] * len(self.keys) if each is None else [(number,) for number in each]
        keys = [f"{name}-{i}" for i in range(len(own))]
        tasks = list(zip(keys, self.keys, own, strict=True))
        if self.make is not None:
            delayed = require_dask().delayed
            shared = delayed(call, f"{name}-arguments", traverse=False)
            run = delayed(_apply, pure=False)
            return Parts.of([run(shared, piece, *mine, dask_key_name=key) for key, piece, mine in tasks])
        layer: dict[Any, Any] = {f"{name}-arguments": call}
        layer |= {key: (_apply, f"{name}-arguments", piece, *mine) for key, piece, mine in tasks}
        return Parts(tuple(keys), _graph(name, layer, [self]))

    def group(self, groups: Sequence[Sequence[int]], merge: Callable[[list[Any]], Any]) -> Parts:
        """Pieces of these positions put together, not computed yet."""
        if all(len(group) == 1 for group in groups):
            return self
        name = f"grouped-{uuid.uuid4().hex}"
        layer: dict[Any, Any] = {
            f"{name}-{i}": (merge, [self.keys[position] for position in group]) for i, group in enumerate(groups)
        }
        return Parts(tuple(layer), _graph(name, layer, [self]))

    def persist(self) -> Parts:
        """Computed, and kept where they are."""
        return Parts.of(_quietly(require_dask().persist, *self.pieces))

    def gather(self) -> list[Any]:
        """Computed, and brought here."""
        return list(_computed(self.pieces))

    def reduce(self, merge: Callable[[list[Any]], Any]) -> Any:
        """All pieces merged into one, `FAN_IN` at a time on the workers, and brought here.

        The order is that of the pieces, so that the same pieces give the same result to the last bit.
        """
        name = f"merged-{uuid.uuid4().hex}"
        layer: dict[Any, Any] = {}
        level = list(self.keys)
        while len(level) > 1 or not layer:
            above = []
            for i in range(0, len(level), FAN_IN):
                above.append(f"{name}-{len(layer)}")
                layer[above[-1]] = (merge, level[i : i + FAN_IN])
            level = above
        return _computed([_delayed(level[0], _graph(name, layer, [self]))])[0]

    # What makes an object one of Dask's collections, as far as graphs are put together.
    def __dask_graph__(self) -> Any:
        return self.graph

    def __dask_keys__(self) -> list[Any]:
        return list(self.keys)

    def __dask_layers__(self) -> tuple[str, ...]:
        return tuple(self.graph.layers)


@dataclass(frozen=True, eq=False)
class _Call:
    """A function, its arguments but the first, and what makes the first."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    make: Callable[..., Any] | None


def _apply(call: _Call, piece: Any, *own: Any) -> Any:
    return call.function(piece if call.make is None else call.make(*piece), *own, *call.arguments)


def _graph(name: str, layer: dict[Any, Any], dependencies: Sequence[Any]) -> Any:
    from dask.highlevelgraph import HighLevelGraph

    return HighLevelGraph.from_collections(name, layer, dependencies=dependencies)


def _delayed(key: Any, graph: Any) -> Any:
    from dask.delayed import Delayed

    return Delayed(key, graph, layer=next(name for name, layer in graph.layers.items() if key in layer))


def _computed(pieces: list[Any]) -> Any:
    """Results of pieces, in their order, from whatever scheduler is the current one."""
    return _quietly(require_dask().compute, *pieces)


def _quietly(run: Callable[..., Any], *pieces: Any) -> Any:
    if current_thread() is not main_thread():  # filters of warnings are those of all threads
        return run(*pieces)
    with warnings.catch_warnings():
        # Weights of samples, or the factors of many variables, may be part of what is sent.
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
        return run(*pieces)
