"""Several starts of the same problem, in threads, the hopeless ones given up early."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import tensorly as tl
from tensorly.cp_tensor import CPTensor

from tensorly_smp._support.iteration import StopReason
from tensorly_smp._support.progress import SILENT, Bar
from tensorly_smp._support.threads import one_blas_thread, run_each
from tensorly_smp.factors.arrays import as_tensor, floor
from tensorly_smp.factors.coupled import CoupledTensors
from tensorly_smp.factors.implicit import CoupledCodes
from tensorly_smp.factors.losses import LOSSES
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.factors.steps import BlockSteps, CompiledSteps, Steps
from tensorly_smp.factors.sweeps import Callback, State, StoppingRule, SweepTrace, coordinates_of, run_sweeps
from tensorly_smp.factors.updates import BLOCK_SOLVERS, BlockSolver

#: Starts that go on after the screening.
N_KEPT = 2

Result: TypeAlias = tuple[State, SweepTrace, StopReason]


@dataclass(frozen=True)
class Restarts:
    """Everything that the starts have in common."""

    tensors: CoupledTensors | CoupledCodes
    loss: str
    solver: str
    n_inner: int | None
    rule: StoppingRule
    extrapolate: bool
    callback: Callback | None
    bar: Bar = SILENT

    def all(self, starts: Sequence[MixtureFactors], n_threads: int, n_screen: int | None = None) -> list[Result]:
        """Results of the starts, in their order; after an interrupt of those that have begun.

        With ``n_screen``, only the ``N_KEPT`` lowest after that many sweeps go on.
        """
        states = [self._state(start) for start in starts]
        # One BLAS thread per start: the matrices are small, threads would only wait for each other, and the rounding
        # stays the same for any number of jobs.
        with one_blas_thread():
            if n_screen is None or len(states) <= N_KEPT or n_screen >= self.rule.n_iter_max:
                return self._each(states, n_threads)
            results = replace(self, rule=replace(self.rule, n_iter_max=n_screen))._each(states, n_threads)
            if any(status is StopReason.INTERRUPTED for *_, status in results):
                return [_renamed(result, StopReason.INTERRUPTED) for result in results]
            return self._continue(results, n_screen, n_threads)

    def _continue(self, results: list[Result], n_screen: int, n_threads: int) -> list[Result]:
        """Run the lowest results on to their end."""
        kept = np.argsort([trace.loss[-1] for _, trace, _ in results], kind="stable")[:N_KEPT].tolist()
        unfinished = [i for i in kept if results[i][2] is StopReason.MAX_SWEEPS]
        self.bar.extend(len(unfinished))
        rule = replace(self.rule, n_iter_max=self.rule.n_iter_max - n_screen)
        continued: list[Result] = []
        with suppress(KeyboardInterrupt):  # before any of them has got on: what the screening found is kept
            continued = replace(self, rule=rule)._each([results[i][0] for i in unfinished], n_threads)
        # An interrupt leaves some of the kept ones where the screening ended.
        merged = [
            _renamed(result, StopReason.INTERRUPTED if i in unfinished else StopReason.SCREENED)
            for i, result in enumerate(results)
        ]
        for i, (state, trace, status) in zip(unfinished, continued, strict=False):
            merged[i] = (state, results[i][1].followed_by(trace), status)
        return merged

    def _each(self, states: list[State], n_threads: int) -> list[Result]:
        backend = tl.get_backend()

        def one(state: State, check: Callable[[], None]) -> Result:
            if not in_threads:
                return self._one(state)
            tl.set_backend(backend, local_threadsafe=True)  # of this thread only
            return replace(self, callback=_stoppable(self.callback, check))._one(state)

        in_threads = len(states) > 1 and n_threads > 1
        results, interrupted = run_each(one, states, n_threads, lambda result: result[2] is StopReason.INTERRUPTED)
        if in_threads and interrupted:
            return [_renamed(result, StopReason.INTERRUPTED) for result in results]
        return results

    def _state(self, start: MixtureFactors) -> State:
        """The start in the backend's arrays, without exact zeros.

        A column whose bins hold no sample would otherwise be zero after a multiplicative step.
        """
        context = self.tensors.context
        model = start.to_numpy()
        weights, *factors = (as_tensor(a, context) for a in (model.weights, *model.factors))
        return State(tl.clip(weights, floor(weights)), [tl.clip(a, floor(a)) for a in factors])

    def _one(self, state: State) -> Result:
        solver_class = BLOCK_SOLVERS[self.loss][self.solver]
        solver = solver_class() if self.n_inner is None else solver_class(self.n_inner)
        coordinates = coordinates_of(self.loss == "kl") if self.extrapolate and self.solver != "mirror" else None
        result = run_sweeps(self._steps(solver), state, self.rule, coordinates, self.callback)
        self.bar.advance(loss=result[1].loss[-1])
        return result

    def _steps(self, solver: BlockSolver) -> Steps:
        """The steps of one start alone: they may remember where it is."""
        if isinstance(self.tensors, CoupledCodes):
            return self.tensors.steps(solver)
        kind = CompiledSteps if tl.get_backend() == "jax" else BlockSteps
        return kind(LOSSES[self.loss](self.tensors), solver)


def _renamed(result: Result, status: StopReason) -> Result:
    """The result with a status that says why its start got no further than the screening."""
    return (*result[:2], status) if result[2] is StopReason.MAX_SWEEPS else result


def _stoppable(callback: Callback | None, check: Callable[[], None]) -> Callback:
    """The callback, interrupting once another start has been interrupted."""

    def stoppable(cp_tensor: CPTensor, loss: float) -> bool | None:
        check()
        return None if callback is None else callback(cp_tensor, loss)

    return stoppable
