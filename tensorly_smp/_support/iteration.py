"""One loop for every iteration that climbs: steps, squared extrapolation, record, stopping rule, interrupts, progress.

Bars are tqdm's (extra ``progress``), on the standard error stream, and for people: ``verbose`` asks for them. Messages
go to the logger "tensorly_smp", level INFO, whatever ``verbose`` is; nobody sees them unless the program has set up
logging, as by ``logging.basicConfig(level=logging.INFO)``.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from enum import Enum
from threading import Lock
from typing import Any, Generic, TypeVar

import numpy as np

from tensorly_smp._support.checks import checked_integer, import_extra
from tensorly_smp._support.representations import short_repr
from tensorly_smp.exceptions import InvalidTypeError

Position = TypeVar("Position")
Detail = TypeVar("Detail")


class StopReason(Enum):
    """Reasons why an iteration ended; each member says what it means and what to do about it.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> smp.StopReason.MAX_SWEEPS.remedy
    'raise n_iter_max (max_iter of the estimator), or the tolerance tol'
    >>> [reason.name for reason in smp.StopReason if reason.is_converged]
    ['CONVERGED', 'EXACT']
    """

    CONVERGED = ("the improvement per sweep fell below the tolerance", "nothing to do")
    EXACT = ("the loss is down to rounding error: the model explains the histograms exactly", "nothing to do")
    MAX_SWEEPS = (
        "the largest number of sweeps was reached first",
        "raise n_iter_max (max_iter of the estimator), or the tolerance tol",
    )
    SCREENED = ("other starts were lower after the sweeps of the screening", "to run all to their end: n_screen=None")
    CALLBACK = ("the callback asked to stop", "nothing to do if that was meant")
    NONFINITE = (
        "the loss was not a finite number any more; the result is the last one that was",
        "take double precision (dtype), or another start",
    )
    INTERRUPTED = ("the keyboard interrupted the iteration", "start again from these factors: init=solution.factors")

    def __init__(self, explanation: str, remedy: str) -> None:
        self.explanation = explanation
        self.remedy = remedy

    @property
    def is_converged(self) -> bool:
        """True if the iteration ended by itself."""
        return self in (StopReason.CONVERGED, StopReason.EXACT)

    def __str__(self) -> str:
        return f"{self.name.lower()}: {self.explanation}"


@dataclass(frozen=True, eq=False)
class SweepTrace:
    """Record of an iteration, one entry per sweep and one for the start: n_sweeps + 1 entries each.

    Attributes
    ----------
    loss : ndarray (n_sweeps + 1,)
        Weighted sum over triples of the loss.
    change : ndarray (n_sweeps + 1,)
        Largest change of a weight or factor entry in the sweep; NaN at the start.
    seconds : ndarray (n_sweeps + 1,)
        Since the start.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> data = smp.datasets.make_smooth_mixture("gaussian", 500, 4, 2, random_state=0)
    >>> codes = smp.encode_samples(data.X, smp.choose_binning(data.X, n_bins=5))
    >>> trace = smp.coupled_simplex_parafac(codes, rank=2, random_state=0).trace
    >>> bool((trace.loss[1:] <= trace.loss[:-1]).all())
    True
    """

    loss: np.ndarray
    change: np.ndarray
    seconds: np.ndarray

    __repr__ = short_repr

    @property
    def n_sweeps(self) -> int:
        """Number of sweeps that are kept in the result."""
        return len(self.loss) - 1

    def followed_by(self, later: SweepTrace) -> SweepTrace:
        """Record of both, the start of the later being the end of this one."""
        if not isinstance(later, SweepTrace):
            raise InvalidTypeError(f"later is {type(later).__name__}; expected a SweepTrace.")
        return SweepTrace(
            np.concatenate([self.loss, later.loss[1:]]),
            np.concatenate([self.change, later.change[1:]]),
            np.concatenate([self.seconds, self.seconds[-1] + later.seconds[1:]]),
        )


@dataclass(frozen=True, eq=False)
class Iteration(Generic[Position, Detail]):
    """Result of :func:`iterate`.

    Attributes
    ----------
    position : object
        Where the iteration has got to.
    detail : object
        What `evaluate` returned beside the value there.
    values : ndarray (n_steps + 1,)
        Objective at the start and after every step; it never falls, but for rounding where that was allowed.
    seconds : ndarray (n_steps + 1,)
        Time since the start.
    status : StopReason
    """

    position: Position
    detail: Detail
    values: np.ndarray
    seconds: np.ndarray
    status: StopReason

    @property
    def value(self) -> float:
        """Objective at the end."""
        return float(self.values[-1])

    @property
    def n_steps(self) -> int:
        """Number of accepted steps."""
        return len(self.values) - 1


@dataclass(frozen=True)
class Coordinates(Generic[Position]):
    """Vectors in which an iteration is extrapolated.

    Attributes
    ----------
    pack : callable
        The vector of a position.
    unpack : callable
        The feasible position nearest to a vector; called with the vector and a position of the same shape.
    """

    pack: Callable[[Position], Any]
    unpack: Callable[[Any, Position], Position]


@dataclass(frozen=True)
class MeanGain:
    """Stopping rule: the mean gain of the last two steps (one may be short by chance), or a number of steps.

    Attributes
    ----------
    tol : float
        The iteration has converged once the mean gain is at most this.
    n_iter_max : int
        Number of accepted steps at most.
    """

    tol: float
    n_iter_max: int

    def __call__(self, values: Sequence[float]) -> StopReason | None:
        """Reason to stop after these values of the objective, if there is one."""
        if len(values) > 2 and values[-1] - values[-3] <= 2 * self.tol:
            return StopReason.CONVERGED
        return StopReason.MAX_SWEEPS if len(values) > self.n_iter_max else None


def iterate(
    start: Position,
    evaluate: Callable[[Position], tuple[Detail, float]],
    advance: Callable[[Position, Detail], Position],
    **options: Any,
) -> Iteration[Position, Detail]:
    """Raise an objective step by step until it rises no further.

    A step that would lower the objective is not taken: after an extrapolation the plain step is tried instead, and if
    that is lower too, which can only be rounding, the iteration has converged.

    Parameters
    ----------
    start : object
        Position to begin at.
    evaluate : callable
        Returns the detail that the next step needs (an E-step, say) and the value of the objective at a position.
    advance : callable
        Takes a position and its detail; returns the next position, where the objective is no lower.
    rule : callable
        Takes the values so far, the start's first; returns why to stop, or None. See `MeanGain`.
    coordinates : Coordinates, optional
        Extrapolates over pairs of steps (SQUAREM) in these; without them no step is extrapolated.
    fast_gain : float
        Steps that gain more than this are not extrapolated.
    lift : callable, optional
        Takes the position where the rule finds convergence, and the value there; returns a higher position to go on
        from, or None if there is none.
    may_fall : bool
        Whether plain steps are taken where they lower the objective, by rounding; the rule stops the iteration then.
    callback : callable, optional
        ``callback(position, detail, value)`` at the start and after every step; returning True stops. A
        KeyboardInterrupt, from there or from the keyboard, ends the iteration with what it has reached.

    Returns
    -------
    Iteration
        ``status`` is NONFINITE where the value at the start, or of a plain step, is not finite.

    References
    ----------
    R. Varadhan, C. Roland, "Simple and globally convergent methods for accelerating the convergence of any EM
    algorithm", Scandinavian Journal of Statistics 35, 2008.

    Examples
    --------
    >>> from tensorly_smp._support.iteration import MeanGain, iterate
    >>> halved = iterate(8.0, lambda x: (None, -x), lambda x, _: x / 2, rule=MeanGain(0.1, 50))
    >>> halved.position, halved.n_steps, halved.status.name
    (0.0625, 7, 'CONVERGED')
    """
    (found,) = iterate_together(
        [walk_of(start, **options)],
        lambda _, positions: [evaluate(position) for position in positions],
        lambda _, positions, details: [advance(*pair) for pair in zip(positions, details, strict=True)],
    )
    return found


#: An iteration that asks for what it needs: it yields a position alone, to be evaluated, or with its detail, for the
#: next position; it is sent what `evaluate` and `advance` return, and returns its `Iteration`.
Walk = Generator[tuple[Any, ...], Any, Iteration[Position, Detail]]


def iterate_together(
    walks: Sequence[Walk[Position, Detail]],
    evaluate: Callable[[list[int], list[Position]], Sequence[tuple[Detail, float]]],
    advance: Callable[[list[int], list[Position], list[Detail]], Sequence[Position]],
) -> list[Iteration[Position, Detail]]:
    """Several iterations in step with each other, each of which goes its own way, as if it were alone.

    Parameters
    ----------
    walks : sequence of Walk
        As of :func:`walk_of`.
    evaluate, advance : callable
        As those of :func:`iterate`, for the positions of several iterations, whose numbers they get first.

    Returns
    -------
    list of Iteration
    """
    ends: dict[int, Iteration[Position, Detail]] = {}
    wishes: dict[int, tuple[Any, ...]] = {}

    def resume(number: int, act: Callable[..., Any], *answer: Any) -> None:
        try:
            wishes[number] = act(*answer)
        except StopIteration as end:
            wishes.pop(number, None)
            ends[number] = end.value

    for number, walk in enumerate(walks):
        resume(number, next, walk)
    while wishes:
        try:
            # Evaluations first: those that take a step back catch up with the others.
            numbers = [number for number, wish in wishes.items() if len(wish) == 1]
            answers: Sequence[Any]
            if numbers:
                answers = evaluate(numbers, [wishes[number][0] for number in numbers])
            else:
                numbers = list(wishes)
                answers = advance(numbers, *map(list, zip(*wishes.values(), strict=True)))
            for number, answer in zip(numbers, answers, strict=True):
                resume(number, walks[number].send, answer)
            is_interrupted = any(end.status is StopReason.INTERRUPTED for end in ends.values())
        except KeyboardInterrupt:
            is_interrupted = True
        for number in list(wishes) if is_interrupted else ():
            resume(number, walks[number].throw, KeyboardInterrupt())
    return [ends[number] for number in range(len(walks))]


def walk_of(
    start: Position,
    *,
    rule: Callable[[Sequence[float]], StopReason | None],
    coordinates: Coordinates[Position] | None = None,
    fast_gain: float = math.inf,
    lift: Callable[[Position, float], Position | None] | None = None,
    may_fall: bool = False,
    callback: Callable[[Position, Detail, float], bool | None] | None = None,
) -> Walk[Position, Detail]:
    """An iteration for :func:`iterate_together`; parameters as of :func:`iterate`."""
    squared = SquaredExtrapolation()
    began = time.perf_counter()
    detail, value = yield (start,)
    reached: tuple[Position, Detail, tuple[float, ...], tuple[float, ...]] = (start, detail, (value,), (0.0,))
    status = StopReason.INTERRUPTED
    try:
        while True:
            position, detail, values, seconds = reached
            value = values[-1]
            if not math.isfinite(value):
                found: StopReason | None = StopReason.NONFINITE
            elif callback is not None and bool(callback(position, detail, value)):  # NumPy's True is not Python's
                found = StopReason.CALLBACK
            else:
                found = rule(values)
            lifted = lift(position, value) if lift is not None and found is StopReason.CONVERGED else None
            if found is not None and lifted is None:
                status = found
                break
            plain = lifted
            if plain is None:
                plain = yield (position, detail)
            after = plain
            is_slow = math.isinf(fast_gain) or (len(values) > 1 and value - values[-2] <= fast_gain)
            if lifted is None and coordinates is not None and is_slow:
                vector = squared.propose(coordinates.pack(position), coordinates.pack(plain))
                if vector is not None:
                    after = coordinates.unpack(vector, plain)
            else:
                squared.history = []  # extrapolation needs consecutive steps
            detail, new = yield (after,)
            if after is not plain and not new >= value:
                squared.reject()
                after = plain
                detail, new = yield (after,)
            if not math.isfinite(new):
                status = StopReason.NONFINITE
                break
            if new < value and not may_fall:  # plain steps climb, but for rounding
                status = StopReason.CONVERGED
                break
            # Replaced as a whole, so that an interrupt finds everything of the same step.
            reached = (after, detail, (*values, new), (*seconds, time.perf_counter() - began))
    except KeyboardInterrupt:
        pass
    position, detail, values, seconds = reached
    return Iteration(position, detail, np.array(values), np.array(seconds), status)


@dataclass
class SquaredExtrapolation:
    """Squared extrapolation (SQUAREM, Varadhan and Roland 2008, scheme 3) over pairs of steps of any iteration.

    From three iterates a, b, c the next start is a + 2 s (b - a) + s^2 (c - 2 b + a) with s = |b - a| / |c - 2 b + a|.
    Which coordinates the iterates are in, and how a point is brought back to where it is feasible, is up to the caller,
    who keeps it only where the objective gets no worse, and says so by ``reject``.
    """

    largest_step: float = 4.0
    history: list[Any] = field(default_factory=list)

    def propose(self, before: Any, after: Any) -> Any | None:
        """The next start, or None where it would be no step ahead."""
        self.history.append(before)
        if len(self.history) < 2:
            return None
        a, b = self.history
        c = after
        self.history = []
        first = b - a
        second = c - 2.0 * b + a
        step = (float((first**2).sum()) / max(float((second**2).sum()), 1e-300)) ** 0.5
        if step <= 1.0:
            return None
        if step >= self.largest_step:
            step = self.largest_step
            self.largest_step = 2.0 * self.largest_step
        return a + 2.0 * step * first + step * step * second

    def reject(self) -> None:
        """Take back the last proposal: shorter steps from now on."""
        self.largest_step = max(2.0, self.largest_step / 2.0)
        self.history = []


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
    >>> from tensorly_smp._support.iteration import checked_verbose
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
    >>> from tensorly_smp._support.iteration import progress_bar
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
    >>> from tensorly_smp._support.iteration import dask_progress
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
