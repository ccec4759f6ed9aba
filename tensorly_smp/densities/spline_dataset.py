"""Smooth densities in the Dataset of a fit: their coefficients, and the density that is made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from tensorly_smp.densities.discrete import DiscreteConditionals
from tensorly_smp.densities.grid import ConditionalDensities
from tensorly_smp.densities.logspline import background_share, log_spline_conditionals
from tensorly_smp.densities.mixture_density import MixtureDensity
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.likelihood.em import SmoothFit
from tensorly_smp.splines.basis import spline_basis
from tensorly_smp.splines.transforms import LINEAR, ArcsinhTransform

_LONG_NAMES = {
    "spline": "coefficients of the cubic B-splines of the log density",
    "penalty": "of third differences of these, per sample of the component",
    "spline_center": "the splines are of arsinh((x - center) / scale) of the variable x; NaN where they are of x",
    "spline_scale": "see spline_center",
    "interval": "where the splines live, in the unit of the variable",
    "bounds": "of the variable, at the ends of the interval or beyond them; NaN where there is none",
    "background": "share of the component's densities that is spread wide, for what lies beyond all samples",
    "log_likelihood": "penalized log-likelihood per sample before the pass, in nats",
    "round": "penalties were chosen anew before each round",
}


def with_smooth_fit(
    dataset: xr.Dataset, fit: SmoothFit, bounds: np.ndarray
) -> tuple[xr.Dataset, dict[int, ConditionalDensities]]:
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
    conditionals : dict of ConditionalDensities
        Of the smooth variables, by position: tabulated from the Dataset, for :func:`spline_density`.
    """
    cells = fit.cells
    rank = fit.mixture.rank
    n_variables = dataset.sizes["variable"]
    order = np.argsort(-fit.mixture.log_weights, kind="stable")
    spline = np.full((n_variables, cells.basis.n_basis, rank), np.nan)
    penalty = np.full((n_variables, rank), np.nan)
    interval = np.full((n_variables, 2), np.nan)
    smooth = list(cells.smooth)
    spline[smooth] = fit.mixture.coefficients.transpose(1, 0, 2)[:, :, order]
    penalty[smooth] = fit.penalty[:, order]
    interval[smooth] = np.stack([cells.low, cells.high], axis=1)[smooth]
    curved = [n for n in smooth if not cells.transforms[n].is_linear]
    line = np.full((2, n_variables), np.nan)
    line[:, curved] = np.reshape([(cells.transforms[n].center, cells.transforms[n].scale) for n in curved], (-1, 2)).T
    factors = np.full(dataset["factors"].shape, np.nan)
    for n, table in zip(cells.discrete, cells.split(np.exp(fit.mixture.tables[:, order])), strict=True):
        factors[n, : len(table)] = table / table.sum(axis=0)
    weights = np.exp(fit.mixture.log_weights[order])
    contents = {
        "spline": (("variable", "basis", "component"), spline),
        "penalty": (("variable", "component"), penalty),
        "spline_center": ("variable", line[0]),
        "spline_scale": ("variable", line[1]),
        "interval": (("variable", "end"), interval),
        "bounds": (("variable", "end"), bounds),
        "background": ("component", background_share(weights * fit.total_weight)),
        "log_likelihood": ("em_pass", fit.trace),
        "round": ("em_pass", fit.rounds),
    }
    dataset = dataset.assign({name: (*content, {"long_name": _LONG_NAMES[name]}) for name, content in contents.items()})
    dataset = dataset.assign_coords(
        basis=np.arange(cells.basis.n_basis), end=["low", "high"], em_pass=np.arange(len(fit.trace))
    )
    dataset["weights"] = dataset["weights"].copy(data=weights / weights.sum())
    conditionals = _spline_conditionals(dataset, smooth)
    for n in smooth:
        edges = dataset["edges"].values[n, 1 : int(dataset["n_bins"].values[n])]
        below = conditionals[n].cdf(edges)
        factors[n, : len(edges) + 1] = np.diff(below, axis=0, prepend=0.0, append=1.0)
    dataset["factors"] = dataset["factors"].copy(data=factors)
    dataset = dataset.assign_attrs(
        status=fit.status.name.lower(),
        status_explanation=fit.status.explanation,
        n_passes=fit.n_passes,
        total_log_likelihood=fit.log_likelihood,
        n_parameters=fit.n_parameters,
    )
    return dataset, conditionals


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
    spline = dataset["spline"].transpose("variable", "basis", "component")
    pairs = zip(dataset["discrete"].values, spline.values, factors.factors, strict=True)
    return [factor if discrete else np.exp(basis.log_probabilities(beta)) for discrete, beta, factor in pairs]


def _spline_conditionals(dataset: xr.Dataset, smooth: Sequence[int]) -> dict[int, ConditionalDensities]:
    basis = spline_basis(dataset.sizes["basis"])
    spline = dataset["spline"].transpose("variable", "basis", "component").values
    interval = dataset["interval"].transpose("variable", "end").values.tolist()
    share = dataset["background"].values
    if not np.isfinite(spline[list(smooth)]).all() or not ((share > 0) & (share < 1)).all():
        raise InvalidInputError("Splines or background of the Dataset are out of range.")
    bounds = variable_bounds(dataset)
    transforms = spline_transforms(dataset)
    conditionals: dict[int, ConditionalDensities] = {}
    for n in smooth:
        low, high = interval[n]
        if not bounds[n][0] <= low < high <= bounds[n][1]:
            raise InvalidInputError(
                f"The splines of variable {n} live between {low} and {high}; expected an interval inside {bounds[n]}."
            )
        conditionals[n] = log_spline_conditionals(basis, spline[n], low, high, share, bounds[n], transforms[n])
    return conditionals


def spline_transforms(dataset: xr.Dataset) -> list[ArcsinhTransform]:
    """Transforms of the splines of all variables."""
    pairs = zip(dataset["spline_center"].values.tolist(), dataset["spline_scale"].values.tolist(), strict=True)
    found = [LINEAR if np.isnan(scale) else ArcsinhTransform(center, scale) for center, scale in pairs]
    if not all(each.is_linear or (np.isfinite(each.center) and each.scale > 0) for each in found):
        raise InvalidInputError("Coordinates of the splines of the Dataset are out of range.")
    return found


def variable_bounds(dataset: xr.Dataset) -> list[tuple[float, float]]:
    """Bounds of every variable, infinite where there are none."""
    pairs = dataset["bounds"].transpose("variable", "end").values.tolist()
    return [(-np.inf if np.isnan(low) else low, np.inf if np.isnan(high) else high) for low, high in pairs]
