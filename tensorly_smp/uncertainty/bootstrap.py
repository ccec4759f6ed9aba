"""The bootstrap of a fitted mixture: replicates of weights, means, distribution functions and densities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from scipy.optimize import linear_sum_assignment

from tensorly_smp._support.checks import checked_entries, warn
from tensorly_smp._support.iteration import StopReason
from tensorly_smp._support.randomness import RandomState, spawn_generators
from tensorly_smp._support.threads import allowed_threads, one_blas_thread, run_each
from tensorly_smp.densities.discrete import DiscreteConditionals
from tensorly_smp.densities.grid import ConditionalDensities, GridConditionals
from tensorly_smp.densities.mixture_density import MixtureDensity
from tensorly_smp.exceptions import ConvergenceWarning, InvalidInputError, SizeLimitError
from tensorly_smp.factors.mixture_factors import EMPTY_WEIGHT
from tensorly_smp.likelihood.comparison import adjusted_rand, contingency
from tensorly_smp.uncertainty.refits import Refit, Refitted
from tensorly_smp.uncertainty.replicates import Drawn, Rows

#: Tails of a component beyond these quantiles have no points.
TAIL = 1e-3
#: Bytes of all replicates together, at most.
MAX_BYTES = 4 * 10**9
#: Samples of a replicate, at most: numbers up to this one are exact as floats.
MOST_SAMPLES = 2**53
#: Of the random streams.
PURPOSE = 0xB007
STATISTICS = ("weights", "mean", "cdf", "density")


@dataclass(frozen=True, eq=False)
class Statistics:
    """Figures of a fit.

    Attributes
    ----------
    weights : ndarray (rank,)
    mean : ndarray (n_variables, rank)
    cdf, density : ndarray (n_variables, n_points, rank)
    """

    weights: np.ndarray
    mean: np.ndarray
    cdf: np.ndarray
    density: np.ndarray

    @classmethod
    def of(cls, weights: np.ndarray, conditionals: Sequence[ConditionalDensities], grid: np.ndarray) -> Statistics:
        """At points (n_variables, n_points), NaN after the last of a variable."""
        rank = len(weights)
        cdf, density = np.full((2, *grid.shape, rank), np.nan)
        for n, (each, row) in enumerate(zip(conditionals, grid, strict=True)):
            points = row[~np.isnan(row)]
            cdf[n, : len(points)] = each.cdf(points)
            density[n, : len(points)] = each.pdf(points)
        return cls(weights, np.stack([each.mean() for each in conditionals]), cdf, density)

    def take(self, order: np.ndarray) -> Statistics:
        """Components in another order."""
        return Statistics(*(np.ascontiguousarray(getattr(self, name)[..., order]) for name in STATISTICS))


@dataclass(frozen=True, eq=False)
class _Found:
    statistics: Statistics
    agreement: float
    is_switched: bool
    status: StopReason


def run_bootstrap(
    refit: Refit,
    density: MixtureDensity,
    values: np.ndarray,
    weights: np.ndarray,
    *,
    is_parametric: bool,
    n_replicates: int,
    n_points: int,
    n_jobs: int | None,
    random_state: RandomState,
) -> xr.Dataset:
    """Draw replicates, fit each, match its components to those of the first fit, and keep the statistics.

    Parameters
    ----------
    refit : Refit
    density : MixtureDensity
        Of the first fit.
    values : ndarray (n_samples, n_variables)
        Samples of the first fit, NaN = missing.
    weights : ndarray (n_samples,)
        Numbers of samples.
    is_parametric : bool
    n_replicates, n_points, n_jobs, random_state
        As of :meth:`tensorly_smp.SmoothProductMixture.bootstrap`.

    Returns
    -------
    Dataset
        Without the names of the variables. After a keyboard interrupt, of the replicates that are complete.

    Raises
    ------
    InvalidInputError
        No sample has both entries and a weight.
    SizeLimitError
        Replicates, or the samples of one, would be too large.
    KeyboardInterrupt
        Before any replicate is complete.

    Warns
    -----
    ConvergenceWarning
        The keyboard interrupted.
    IdentifiabilityWarning
        The likelihood is next to flat: intervals may be too small.
    """
    weights = np.where(np.isnan(values).all(axis=1), 0.0, weights)  # samples without entries say nothing
    rank = density.rank
    size = 16 * n_replicates * density.n_variables * n_points * rank
    if size > MAX_BYTES:
        raise SizeLimitError(
            f"Replicates at {n_points} points of {density.n_variables} variables would take {size / 1e9:.3g} GB, over "
            f"the limit of {MAX_BYTES / 1e9:g} GB. Use a smaller n_points, or fewer replicates."
        )
    _check_total(weights.sum(), density.n_variables, is_parametric)
    grid = points_of(density, n_points)
    source: Rows | Drawn
    on_grid = refit.assign_to_grid(values)
    posterior = refit.posterior(on_grid)
    flattest = refit.flattest(on_grid, weights, posterior)
    if is_parametric:
        source = Drawn(density, np.isnan(values), weights, refit.assign_to_grid, refit.posterior)
    else:
        source = Rows(on_grid, posterior, weights)

    def one(rng: np.random.Generator, check: Callable[[], None]) -> _Found:
        check()
        on_grid, weights, posterior = source.draw(rng)
        return _matched(refit.refit(on_grid, weights, posterior, flattest, rng), posterior, weights, grid)

    streams = spawn_generators(random_state, n_replicates, PURPOSE)
    with one_blas_thread():
        found, _ = run_each(one, streams, allowed_threads(n_jobs), lambda each: each.status is StopReason.INTERRUPTED)
    complete = [each for each in found if each.status is not StopReason.INTERRUPTED]
    if not complete:
        raise KeyboardInterrupt
    if len(complete) < n_replicates:
        warn(
            f"The keyboard interrupted the bootstrap: the result holds {len(complete)} of {n_replicates} replicates, "
            "those that were complete.",
            ConvergenceWarning,
        )
    if flattest is not None and flattest.is_flat:
        warn(flattest.warning())
    return _dataset(complete, Statistics.of(density.weights, density.conditionals, grid), grid)


def _check_total(total: float, n_variables: int, is_parametric: bool) -> None:
    """Refuse numbers of samples that no replicate can have."""
    if not total > 0:
        raise InvalidInputError(
            "All samples with a weight lack all entries (NaN); expected the samples of the fit, some with entries."
        )
    if total > MOST_SAMPLES:
        raise SizeLimitError(
            f"The weights sum to {total:.3g}; expected at most {MOST_SAMPLES:.1e} samples. Scale them, so that they "
            "sum to the number of samples that they are worth."
        )
    if is_parametric:
        checked_entries(round(total), n_variables, "The samples of a replicate")


def points_of(density: MixtureDensity, n_points: int) -> np.ndarray:
    """Points (n_variables, n_points) at which densities are kept; of a discrete variable its values, NaN after these.

    Half of them are equally spaced from the first to the last quantile of any component, in the coordinate of its
    splines if it has one; the others are quantiles of the mixture. So they are dense where the density is.
    """
    grid = np.full((density.n_variables, n_points), np.nan)
    kept = np.flatnonzero(density.weights >= EMPTY_WEIGHT)
    n_even = (n_points + 1) // 2
    shares = (np.arange(n_points - n_even) + 0.5) / max(n_points - n_even, 1)
    for n, (each, name) in enumerate(zip(density.conditionals, density.variables, strict=True)):
        if isinstance(each, DiscreteConditionals):
            n_values = len(each.values)
            chosen = np.linspace(0, n_values - 1, min(n_points, n_values)).round().astype(int)
            grid[n, : len(chosen)] = each.values[chosen]
            continue
        ends = np.stack([each.quantile(np.array([TAIL, 1.0 - TAIL]), int(r)) for r in kept])
        even = _spaced(each, float(ends[:, 0].min()), float(ends[:, 1].max()), n_even)
        grid[n] = np.sort(np.concatenate([even, density.quantile_1d(shares, name)]))
    return grid


def _spaced(conditionals: ConditionalDensities, low: float, high: float, n_points: int) -> np.ndarray:
    """Points from low to high, equally spaced by the cells that the densities are tabulated on, where there are any."""
    if not isinstance(conditionals, GridConditionals):
        return np.linspace(low, high, n_points)
    knots = conditionals.origin + conditionals.unit * conditionals.knots
    numbers = np.arange(len(knots))
    start, end = np.interp([low, high], knots, numbers).tolist()
    points = np.interp(np.linspace(start, end, n_points), numbers, knots)
    points[[0, -1]] = low, high  # in the tails beyond the cells, if they reach so far
    return points


def _matched(fit: Refitted, posterior: np.ndarray, weights: np.ndarray, grid: np.ndarray) -> _Found:
    """The statistics of a fit, its components in the order of those of the first one that they share most with."""
    rank = len(fit.weights)
    shared = posterior.T @ (fit.posterior * weights[:, None])
    _, order = linear_sum_assignment(-shared)
    table = contingency(posterior.argmax(axis=1), fit.posterior.argmax(axis=1), rank, weights)
    return _Found(
        Statistics.of(fit.weights, fit.conditionals, grid).take(order),
        adjusted_rand(table),
        not np.array_equal(order, np.arange(rank)),
        fit.status,
    )


def _dataset(found: Sequence[_Found], first: Statistics, grid: np.ndarray) -> xr.Dataset:
    dims = {
        "weights": ("component",),
        "mean": ("variable", "component"),
        "cdf": ("variable", "point", "component"),
        "density": ("variable", "point", "component"),
    }
    names = {
        "weights": "probability of the component",
        "mean": "mean of the variable in the component",
        "cdf": "probability of values up to x in the component",
        "density": "density of the variable at x in the component, of a discrete variable the probability of x",
    }
    data: dict[str, Any] = {}
    for name in STATISTICS:
        values = np.stack([getattr(each.statistics, name) for each in found])
        data[name] = (("replicate", *dims[name]), values, {"long_name": names[name]})
        data[f"fit_{name}"] = (dims[name], getattr(first, name), {"long_name": f"{names[name]}, of the fit itself"})
    data["x"] = (("variable", "point"), grid, {"long_name": "where cdf and density are, in the unit of the variable"})
    agreement = np.array([each.agreement for each in found])
    note = "adjusted Rand index of clusters with those of the fit"
    data["agreement"] = ("replicate", agreement, {"long_name": note})
    is_switched = np.array([each.is_switched for each in found], dtype=np.int8)
    note = "whether components had changed places, and were put back"
    data["switched"] = ("replicate", is_switched, {"long_name": note})
    is_converged = np.array([each.status.is_converged for each in found], dtype=np.int8)
    data["converged"] = ("replicate", is_converged, {"long_name": "whether the tolerance was met"})
    coords = {
        "replicate": np.arange(len(found)),
        "component": np.arange(len(first.weights)),
        "point": np.arange(grid.shape[1]),
    }
    return xr.Dataset(data, coords, {"n_switched": int(is_switched.sum())})
