"""From the coupled solution to the refined one: what an estimator does after the decomposition."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from tensorly_smp.codes.encoding import Codes
from tensorly_smp.exceptions import ConvergenceWarning, InvalidInputError, InvalidTypeError
from tensorly_smp.factors.solution import CoupledSolution, StopReason
from tensorly_smp.labels import list_names
from tensorly_smp.likelihood.cells import Support, lay_cells
from tensorly_smp.likelihood.em import refine_em
from tensorly_smp.multistart import refine_starts
from tensorly_smp.results import solution_to_dataset, with_likelihood_trace, with_smooth_fit
from tensorly_smp.samples import Samples

#: Pseudo-counts per bin with refine="em"; see `refine_em`.
EM_SMOOTHING = 0.1


@dataclass(frozen=True)
class Refinement:
    """How a coupled solution is refined; all as the parameters of the estimator."""

    refine: str | None
    penalty: str
    support: Mapping[Any, tuple[float | None, float | None]] | None
    discrete: Sequence[Hashable] | None
    max_iter: int
    tol: float
    n_jobs: int | None

    def dataset(self, solution: CoupledSolution, samples: Samples, codes: Codes, sample_weight: Any) -> xr.Dataset:
        """The Dataset of the solution, refined as asked for, unless the callback or the keyboard has stopped it."""
        if self.refine is None:
            return solution_to_dataset(replace(solution, factors=solution.factors.to_numpy().sort()))
        stopped = next((s for s in (StopReason.INTERRUPTED, StopReason.CALLBACK) if s in solution.start_statuses), None)
        if self.refine == "em":
            dataset = self._by_em(solution, codes, sample_weight, stopped is not None)
        else:
            dataset = self._by_smoothed_em(solution, samples, codes, sample_weight, stopped is not None)
        if stopped is None:
            return dataset
        return dataset.assign_attrs(status=stopped.name.lower(), status_explanation=stopped.explanation)

    def _by_em(self, solution: CoupledSolution, codes: Codes, sample_weight: Any, is_stopped: bool) -> xr.Dataset:
        """After EM on the bins; without passes if the fit has been stopped."""
        refined = refine_em(
            solution.factors,
            codes,
            sample_weight=sample_weight,
            smoothing=EM_SMOOTHING,
            n_iter_max=self.max_iter,
            tol=self.tol,
            callback=(lambda *_: True) if is_stopped else None,
        )
        dataset = solution_to_dataset(replace(solution, factors=refined.factors.sort()))
        return with_likelihood_trace(dataset, refined)

    def _by_smoothed_em(
        self, solution: CoupledSolution, samples: Samples, codes: Codes, sample_weight: Any, is_stopped: bool
    ) -> xr.Dataset:
        """After smoothed EM from the best of all starts; without passes if the fit has been stopped."""
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        support, discrete = self._support(samples), self._discrete(samples)
        cells = lay_cells(samples.values, solution.factors.rank, codes.binning.edges, discrete, support, weights)
        starts = refine_starts(
            samples.values,
            codes,
            solution.start_factors,
            cells,
            sample_weight=weights,
            criterion=self.penalty,
            n_iter_max=1 if is_stopped else self.max_iter,
            tol=10.0 * self.tol,
            n_jobs=self.n_jobs,
        )
        if not starts.fit.status.is_converged and not is_stopped:
            warnings.warn(
                f"Smoothed EM stopped after {len(starts.fit.trace) - 1} passes: {starts.fit.status.explanation}; "
                f"{starts.fit.status.remedy}.",
                ConvergenceWarning,
                stacklevel=4,
            )
        dataset = solution_to_dataset(replace(solution, factors=solution.factors.to_numpy().sort()))
        dataset = with_smooth_fit(dataset, starts.fit, np.array(support, dtype=np.float64))
        note = {"long_name": "log-likelihood less effective parameters, in nats; NaN where clusters repeat"}
        dataset["start_criterion"] = ("start", starts.criteria, note)
        return dataset.assign_attrs(best_start=starts.best)

    def _discrete(self, samples: Samples) -> list[int] | None:
        """Positions of the variables that are declared discrete."""
        if self.discrete is None:
            return None
        return [_position(name, samples.variables, "discrete") for name in self.discrete]

    def _support(self, samples: Samples) -> list[Support]:
        """Bounds of every variable."""
        support: list[Support] = [(None, None)] * len(samples.variables)
        for name, pair in (self.support or {}).items():
            n = _position(name, samples.variables, "support")
            support[n] = _checked_bounds(name, pair, samples.values[:, n])
        return support


def _position(name: Any, variables: Sequence[Hashable], parameter: str) -> int:
    if not isinstance(name, Hashable) or name not in variables:
        raise InvalidInputError(f"{parameter} names {name!r}; expected variables among {list_names(variables)}.")
    return list(variables).index(name)


def _checked_bounds(name: Any, pair: Any, values: np.ndarray) -> Support:
    """Bounds that are in order, and that the values respect."""
    try:
        low, high = (None if bound is None else float(bound) for bound in pair)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(
            f"support of {name!r} is {pair!r}; expected (low, high), each a number or None."
        ) from error
    least, most = np.nanmin(values), np.nanmax(values)
    if any(bound is not None and not np.isfinite(bound) for bound in (low, high)):
        raise InvalidInputError(f"support of {name!r} is {pair!r}; expected finite bounds, or None for no bound.")
    if (low is not None and least < low) or (high is not None and most > high) or (low is not None and low == high):
        raise InvalidInputError(
            f"support of {name!r} is {pair!r}, but its values reach from {least:.6g} to {most:.6g}; expected bounds "
            "that contain them."
        )
    return low, high
