"""Conditional densities from penalized log-splines, and their place in the Dataset of a fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from tensorly_smp._support.result_schema import result_values, with_results
from tensorly_smp.densities.conditionals import (
    NO_BOUNDS,
    ConditionalDensities,
    DiscreteConditionals,
    GridConditionals,
    StudentBackground,
    bin_moments,
)
from tensorly_smp.densities.mixture_density import MixtureDensity
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.likelihood.cells import Cells
from tensorly_smp.likelihood.em import SmoothFit
from tensorly_smp.likelihood.steps import Mixture
from tensorly_smp.splines.basis import LINEAR, ArcsinhTransform, SplineBasis, spline_basis

# The splines have tails of their own, so the background is only for what lies beyond everything seen: half a sample of
# each component, over three times its standard deviation. KL(true || learned) with the true posteriors, mean of two
# truths, R = 5, by benchmarks/densities.py penalties, for other values of the two constants:
#                   1000 samples                     5000 samples
#             Gaussian  GMM   Gamma  Laplace   Gaussian  GMM     Gamma   Laplace
#   1e-4 x 1    0.077  0.153  0.226  0.294     0.0207   0.0458  0.0514  0.0767
#   0.5  x 2    0.069  0.156  0.182  0.234     0.0183   0.0465  0.0491  0.0652
#   0.5  x 3    0.070  0.159  0.179  0.225     0.0185   0.0471  0.0491  0.0629
#   1    x 3    0.073  0.166  0.180  0.216     0.0190   0.0485  0.0498  0.0614
#   2    x 3    0.079  0.182  0.186  0.208     0.0202   0.0514  0.0515  0.0599
BACKGROUND_SAMPLES = 0.5
BACKGROUND_SPREAD = 3.0
_LARGEST_SHARE = 0.05
#: Densities that are tabulated at once: their tables fit into the cache.
COLUMNS_AT_ONCE = 512
#: The logarithm of a density rises no more than this from the middle of a cell to its edge.
MOST_RISE = 1.0


def background_share(n_samples: np.ndarray) -> np.ndarray:
    """Share (rank,) of the background in components of so many samples (rank,)."""
    return np.asarray(np.minimum(BACKGROUND_SAMPLES / np.maximum(n_samples, BACKGROUND_SAMPLES), _LARGEST_SHARE))


def log_spline_conditionals(
    basis: SplineBasis,
    coefficients: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    share: np.ndarray,
    bounds: Sequence[tuple[float, float]],
    transforms: Sequence[ArcsinhTransform],
) -> list[GridConditionals]:
    """Densities of several variables whose logarithms, as functions of the transformed variable, are cubic splines.

    Parameters
    ----------
    basis : SplineBasis
    coefficients : ndarray (n_basis, n_variables, rank)
        As of :func:`tensorly_smp.splines.log_spline.fit_log_splines`; a constant added to a column changes nothing.
    low, high : ndarray (n_variables,)
        Ends of the intervals, in the units of the variables.
    share : ndarray (rank,)
        Of a Student background, wider than the density itself, on the whole line up to the bounds; see
        :func:`background_share`.
    bounds : sequence of (float, float) (n_variables,)
        Of the variables, at the ends of the intervals or beyond them: there is no density past them. Infinite where
        there are none.
    transforms : sequence of ArcsinhTransform (n_variables,)
        After which the knots of the splines are equally spaced.

    Returns
    -------
    list of GridConditionals
        Positive, integrals one; straight between the values of the splines at the edges of the cells.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.densities.conditionals import NO_BOUNDS
    >>> from tensorly_smp.densities.smooth import background_share, log_spline_conditionals
    >>> from tensorly_smp.splines.basis import LINEAR, spline_basis
    >>> basis = spline_basis(40)
    >>> gaussian = basis.gaussian(np.exp(-0.5 * ((basis.centers - 0.5) / 0.1) ** 2)[:, None] / 37.1)
    >>> ends, share = np.array([[-5.0], [5.0]]), background_share(np.array([1000.0]))
    >>> (found,) = log_spline_conditionals(basis, gaussian[:, None], *ends, share, [NO_BOUNDS], [LINEAR])
    >>> found.quantile(np.array([0.16, 0.84]), 0).round(1).tolist()
    [-1.0, 1.0]
    """
    n_variables, rank = coefficients.shape[1:]
    size = max(1, COLUMNS_AT_ONCE // rank)
    found: list[GridConditionals] = []
    for start in range(0, n_variables, size):
        some = slice(start, start + size)
        grid = _grids(low[some], high[some], basis.n_cells, transforms[some])
        columns = coefficients[:, some].reshape(len(coefficients), -1)
        logs = basis.at_edges @ columns
        # What was fitted are the middles of the cells. Where far values are alone in the outermost cell, the spline may
        # rise by a hundred in the half cell beyond its middle, and the end would outweigh everything.
        most = basis.at_cells @ columns + MOST_RISE
        logs = np.minimum(logs, np.concatenate([most[:1], np.maximum(most[1:], most[:-1]), most[-1:]]))
        logs = logs.reshape(len(logs), -1, rank)
        origins, units, knots = grid
        for n, transform in enumerate(transforms[some]):
            if not transform.is_linear:  # per unit of the transformed variable so far
                logs[:, n] -= np.log(np.hypot(1.0, knots[:, n]))[:, None]
        values = np.exp(logs - logs.max(axis=0))
        inner = 0.5 * (values[1:] + values[:-1]) * np.diff(knots, axis=0)[:, :, None]
        mean, variance = bin_moments(knots, inner / inner.sum(axis=0))
        background = StudentBackground.matching(mean, BACKGROUND_SPREAD**2 * variance)
        found += GridConditionals.each_from_knots(origins, units, knots, values, background, share, bounds[some])
    return found


def _grids(
    low: np.ndarray, high: np.ndarray, n_cells: int, transforms: Sequence[ArcsinhTransform]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Origins and units (n_variables,), and knots (n_cells + 1, n_variables), of the edges of the cells."""
    origins = low.astype(np.float64)
    # The difference of the ends first, which is exact where they are close, unless it overflows.
    with np.errstate(over="ignore"):
        units = (high - low) / n_cells
        last = (high - low) / units  # where `high` is, to the last digit: a value at a bound is not beyond it
    is_finite = np.isfinite(units)
    units = np.where(is_finite, units, high / n_cells - low / n_cells)
    knots = np.tile(np.arange(n_cells + 1.0)[:, None], len(low))
    knots[-1, is_finite] = last[is_finite]
    for n, transform in enumerate(transforms):
        if not transform.is_linear:
            origins[n] = transform.center
            units[n] = transform.scale
            knots[:, n] = transform.knots(low[n], high[n], n_cells)
    return origins, units, knots


def smooth_conditionals(
    cells: Cells, mixture: Mixture, share: np.ndarray, bounds: Sequence[tuple[float, float]] | None = None
) -> tuple[ConditionalDensities, ...]:
    """Densities of all variables of a mixture on cells: log-splines, and probabilities of the values of discrete ones.

    Parameters
    ----------
    cells : Cells
    mixture : Mixture
    share : ndarray (rank,)
        Of the background of log-splines.
    bounds : sequence of (float, float), optional
        Of every variable, infinite where there are none.

    Returns
    -------
    tuple of ConditionalDensities
        One per variable.
    """
    bounds = [NO_BOUNDS] * len(cells.low) if bounds is None else bounds
    found: dict[int, ConditionalDensities] = {}
    smooth = list(cells.smooth)
    of_smooth = [bounds[n] for n in smooth], [cells.transforms[n] for n in smooth]
    splines = log_spline_conditionals(
        cells.basis, mixture.coefficients, cells.low[smooth], cells.high[smooth], share, *of_smooth
    )
    found.update(zip(smooth, splines, strict=True))
    tables = cells.split(np.exp(mixture.tables))
    for n, values, table in zip(cells.discrete, cells.values, tables, strict=True):
        found[n] = DiscreteConditionals(values, table)
    return tuple(found[n] for n in range(len(cells.low)))


def with_smooth_fit(
    dataset: xr.Dataset, fit: SmoothFit, bounds: np.ndarray
) -> tuple[xr.Dataset, dict[int, GridConditionals]]:
    """The Dataset of a fit, with what smoothed EM has made of it, and its smooth densities.

    Parameters
    ----------
    dataset : Dataset
        As of :func:`solution_to_dataset`, with edges.
    fit : SmoothFit
    bounds : ndarray (n_variables, 2)
        Lower and upper bounds of the variables; NaN where there is none.

    Returns
    -------
    dataset : Dataset
        Weights and factors are those of the refined mixture, by decreasing weight. New are ``spline`` (variable, basis,
        component), ``spline_center`` and ``spline_scale`` (variable), ``penalty`` (variable, component), ``background``
        (component), ``interval`` and ``bounds`` (variable, end), and ``log_likelihood`` and ``round`` (em_pass).
    conditionals : dict of GridConditionals
        Of the smooth variables, by position: tabulated from the Dataset, for :func:`spline_density`.
    """
    cells = fit.cells
    n_variables = dataset.sizes["variable"]
    order = np.argsort(-fit.mixture.log_weights, kind="stable")
    factors = np.full(dataset["factors"].shape, np.nan)
    for n, table in zip(cells.discrete, cells.split(np.exp(fit.mixture.tables[:, order])), strict=True):
        factors[n, : len(table)] = table / table.sum(axis=0)
    weights = np.exp(fit.mixture.log_weights[order])
    contents = {
        "weights": weights / weights.sum(),
        "factors": factors,  # those of smooth variables are filled in below
        **_spline_arrays(fit, order, n_variables),
        "bounds": bounds,
        "background": background_share(weights * fit.total_weight),
        "log_likelihood": fit.trace,
        "round": fit.rounds,
    }
    dataset = with_results(dataset, contents, {"end": ["low", "high"]})
    smooth = list(cells.smooth)
    conditionals = _spline_conditionals(dataset, smooth)
    if smooth:
        inner = dataset["edges"].values[smooth, 1:-1]
        is_bin = np.arange(factors.shape[1]) < dataset["n_bins"].values[smooth, None]
        below = GridConditionals.each_cdf([conditionals[n] for n in smooth], np.where(is_bin[:, 1:], inner, np.inf))
        factors[smooth] = np.where(is_bin[:, :, None], np.diff(below, axis=1, prepend=0.0, append=1.0), np.nan)
    dataset = dataset.assign_attrs(
        status=fit.status.name.lower(),
        status_explanation=fit.status.explanation,
        n_passes=fit.n_passes,
        total_log_likelihood=fit.log_likelihood,
        n_parameters=fit.n_parameters,
    )
    return dataset, conditionals


def _spline_arrays(fit: SmoothFit, order: np.ndarray, n_variables: int) -> dict[str, np.ndarray]:
    """Splines of a fit by name in the Dataset, components in this order; NaN of discrete variables."""
    cells = fit.cells
    smooth = list(cells.smooth)

    def of_all(values: np.ndarray) -> np.ndarray:
        found = np.full((n_variables, *values.shape[1:]), np.nan)
        found[smooth] = values
        return found

    transforms = [cells.transforms[n] for n in smooth]
    lines = [(np.nan, np.nan) if each.is_linear else (each.center, each.scale) for each in transforms]
    center, scale = np.reshape(lines, (-1, 2)).T
    return {
        "spline": of_all(fit.mixture.coefficients.transpose(1, 0, 2)[:, :, order]),
        "penalty": of_all(fit.penalty[:, order]),
        "spline_center": of_all(center),
        "spline_scale": of_all(scale),
        "interval": of_all(np.stack([cells.low, cells.high], axis=1)[smooth]),
    }


def spline_density(
    dataset: xr.Dataset, factors: MixtureFactors, smooth_conditionals: Mapping[int, ConditionalDensities] | None = None
) -> MixtureDensity:
    """The density of a Dataset of :func:`with_smooth_fit`, which has these factors and, if known, these densities."""
    binning = factors.binning
    if binning is None or "spline" not in dataset:
        raise InvalidInputError("The Dataset has no splines, or no bin edges; it is not of a refined model.")
    discrete = binning.discrete
    smooth = [n for n in range(factors.n_variables) if n not in discrete]
    if smooth_conditionals is None:
        smooth_conditionals = _spline_conditionals(dataset, smooth)
    conditionals = dict(smooth_conditionals)
    conditionals |= {n: DiscreteConditionals(values, factors.factors[n]) for n, values in discrete.items()}
    return MixtureDensity(
        factors.weights, tuple(conditionals[n] for n in range(factors.n_variables)), binning.variables
    )


def fine_probabilities(dataset: xr.Dataset, factors: MixtureFactors) -> list[np.ndarray] | None:
    """Probabilities of the cells that densities were fitted to, of a Dataset of :func:`with_smooth_fit`.

    Returns
    -------
    list of ndarray (n_cells, rank), or None
        One per variable, discrete ones by their values; None for other Datasets, which have fitted no more than bins.
    """
    if "spline" not in dataset:
        return None
    basis = spline_basis(dataset.sizes["basis"])
    splines = result_values(dataset, "spline")  # NaN of discrete variables
    columns = splines.transpose(1, 0, 2).reshape(splines.shape[1], -1)
    cells = np.exp(basis.log_probabilities(columns)).reshape(basis.n_cells, *splines.shape[::2])
    pairs = zip(dataset["discrete"].values, cells.transpose(1, 0, 2), factors.factors, strict=True)
    return [factor if discrete else own for discrete, own, factor in pairs]


def _spline_conditionals(dataset: xr.Dataset, smooth: Sequence[int]) -> dict[int, GridConditionals]:
    basis = spline_basis(dataset.sizes["basis"])
    chosen = list(smooth)
    columns = result_values(dataset, "spline")[chosen].transpose(1, 0, 2)
    low, high = result_values(dataset, "interval")[chosen].T
    share = dataset["background"].values
    all_bounds = variable_bounds(dataset)
    bounds = [all_bounds[n] for n in chosen]
    least, most = np.reshape(bounds, (-1, 2)).T
    is_inside = (least <= low) & (low < high) & (high <= most)
    if not (np.isfinite(columns).all() and is_inside.all() and ((share > 0) & (share < 1)).all()):
        raise InvalidInputError("Splines, their intervals or the background of the Dataset are out of range.")
    all_transforms = spline_transforms(dataset)
    transforms = [all_transforms[n] for n in chosen]
    found = log_spline_conditionals(basis, columns, low, high, share, bounds, transforms)
    return dict(zip(smooth, found, strict=True))


def spline_transforms(dataset: xr.Dataset) -> list[ArcsinhTransform]:
    """Transforms of the splines of all variables."""
    pairs = zip(dataset["spline_center"].values.tolist(), dataset["spline_scale"].values.tolist(), strict=True)
    return [LINEAR if np.isnan(scale) else ArcsinhTransform(center, scale) for center, scale in pairs]


def variable_bounds(dataset: xr.Dataset) -> list[tuple[float, float]]:
    """Bounds of every variable, infinite where there are none."""
    pairs = result_values(dataset, "bounds").tolist()
    return [(-np.inf if np.isnan(low) else low, np.inf if np.isnan(high) else high) for low, high in pairs]
