"""Results as labelled arrays: one xarray.Dataset per fit, and back."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import comb
from typing import Any

import numpy as np
import xarray as xr

from tensorly_smp.checks import is_integer
from tensorly_smp.codes.binning import Binning
from tensorly_smp.densities.grid import ConditionalDensities
from tensorly_smp.densities.histogram import histogram_conditionals
from tensorly_smp.densities.logspline import background_share, log_spline_conditionals
from tensorly_smp.densities.mixture_density import MixtureDensity
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.factors.solution import CoupledSolution
from tensorly_smp.identifiability.known import observed_patterns
from tensorly_smp.likelihood.coordinate import LINEAR, Coordinate
from tensorly_smp.likelihood.em import LikelihoodSolution
from tensorly_smp.likelihood.smooth_em import SmoothFit
from tensorly_smp.likelihood.spline_basis import spline_basis


def factors_to_dataset(factors: MixtureFactors) -> xr.Dataset:
    """Weights, factors and, where known, edges.

    Variables with fewer bins than others are padded with NaN: ``n_bins`` tells how many are real.

    Returns
    -------
    Dataset
        ``weights`` (component), ``factors`` (variable, bin, component), ``n_bins`` (variable) and ``edges``
        (variable, edge).
    """
    model = factors.to_numpy()
    most = max(model.n_bins)
    padded = np.full((model.n_variables, most, model.rank), np.nan)
    for n, a in enumerate(model.factors):
        padded[n, : len(a)] = a
    names = model.binning.variables if model.binning is not None else range(model.n_variables)
    data = {
        "weights": ("component", np.array(model.weights), {"long_name": "probability of the component"}),
        "factors": (("variable", "bin", "component"), padded, {"long_name": "probability of the bin in the component"}),
        "n_bins": ("variable", np.array(model.n_bins), {"long_name": "number of bins"}),
    }
    coords = {"variable": _plain_names(names), "bin": np.arange(most), "component": np.arange(model.rank)}
    if model.binning is not None:
        edges = _padded(model.binning.edges)
        data["edges"] = (("variable", "edge"), edges, {"long_name": "bin edges, in the unit of the variable"})
        coords["edge"] = np.arange(most + 1)
    dataset = xr.Dataset(data, coords)
    if model.binning is not None:
        dataset.attrs["binning_strategy"] = model.binning.strategy
    return dataset


def solution_to_dataset(solution: CoupledSolution) -> xr.Dataset:
    """Factors and the record of the fit.

    Returns
    -------
    Dataset
        As of :func:`factors_to_dataset`, with ``loss``, ``change`` and ``seconds`` (sweep), ``start_loss`` and
        ``start_status`` (start), ``start_trace`` (start, start_sweep), NaN after the end of a start, and attributes of
        plain types: loss_name, status, status_explanation, n_sweeps, best_start and what the initializer reported.
    """
    trace = solution.trace
    dataset = factors_to_dataset(solution.factors).assign(
        loss=("sweep", np.array(trace.loss), {"long_name": f"{solution.loss_name} loss, summed over triples"}),
        change=("sweep", np.array(trace.change), {"long_name": "largest change of a weight or factor entry"}),
        seconds=("sweep", np.array(trace.seconds), {"long_name": "time since the start", "units": "s"}),
        start_loss=("start", np.array(solution.start_losses), {"long_name": "final loss of each start"}),
        start_status=(
            "start",
            np.array([status.name.lower() for status in solution.start_statuses]),
            {"long_name": "why each start stopped"},
        ),
    )
    if solution.start_traces:
        padded = _padded([start.loss for start in solution.start_traces])
        note = {"long_name": "loss of each start by sweep; NaN after its end"}
        dataset["start_trace"] = (("start", "start_sweep"), padded, note)
        dataset = dataset.assign_coords(start_sweep=np.arange(padded.shape[1]))
    possible = comb(solution.factors.n_variables, 3)
    if solution.triples is not None and len(solution.triples) < possible:
        note = {"long_name": "variables of the histograms that were factorized"}
        dataset["triples"] = (("triple", "mode"), np.array(solution.triples), note)
    dataset = dataset.assign_coords(sweep=np.arange(len(trace.loss)), start=np.arange(len(solution.start_losses)))
    return dataset.assign_attrs(
        loss_name=solution.loss_name,
        status=solution.status.name.lower(),
        status_explanation=solution.status.explanation,
        n_sweeps=trace.n_sweeps,
        best_start=solution.best_start,
        **{name: _plain_attribute(value) for name, value in solution.start_info.items()},
    )


def factors_from_dataset(dataset: xr.Dataset, variables: Sequence[Hashable] | None = None) -> MixtureFactors:
    """Inverse of :func:`factors_to_dataset`.

    Parameters
    ----------
    dataset : Dataset
    variables : sequence of hashable, optional
        Names of the variables; by default those of the Dataset, which are all integers or all strings.

    Returns
    -------
    MixtureFactors
        Copies, in float64; with a binning if the Dataset has edges.

    Raises
    ------
    InvalidInputError
        A variable of the Dataset is missing, or its content is not a mixture.
    """
    missing = [name for name in ("weights", "factors", "n_bins") if name not in dataset]
    if missing:
        raise InvalidInputError(f"The Dataset lacks {missing}; expected one made by to_dataset() or fit.")
    padded = dataset["factors"].transpose("variable", "bin", "component").values
    n_bins = dataset["n_bins"].values.tolist()
    if any(not 1 <= size <= padded.shape[1] for size in n_bins):
        raise InvalidInputError(f"n_bins are {n_bins}; expected 1 to {padded.shape[1]}, the length of dimension bin.")
    binning = None
    if "edges" in dataset:
        edges = dataset["edges"].transpose("variable", "edge").values
        names = dataset["variable"].values.tolist() if variables is None else variables
        strategy = str(dataset.attrs.get("binning_strategy", "given"))
        binning = Binning(tuple(e[: i + 1] for e, i in zip(edges, n_bins, strict=True)), tuple(names), strategy)
    columns = tuple(np.array(a[:i], order="C") for a, i in zip(padded, n_bins, strict=True))
    return MixtureFactors(np.array(dataset["weights"].values), columns, binning)


def with_patterns(dataset: xr.Dataset, observed: np.ndarray) -> xr.Dataset:
    """The Dataset of a fit to samples none of which is complete, with ``patterns`` (pattern, variable) of 0 and 1.

    Parameters
    ----------
    dataset : Dataset
        As of :func:`factors_to_dataset`.
    observed : ndarray of bool (n_samples, n_variables)

    Returns
    -------
    Dataset
        The same one if a sample is complete. Patterns are those of :func:`observed_patterns`.
    """
    patterns = observed_patterns(observed)
    if patterns is None:
        return dataset
    note = {"long_name": "variables that are observed together in some sample"}
    return dataset.assign(patterns=(("pattern", "variable"), patterns.astype(np.int8), note))


def with_likelihood_trace(dataset: xr.Dataset, solution: LikelihoodSolution) -> xr.Dataset:
    """The Dataset of a fit whose factors EM has refined, with the record of EM: ``log_likelihood`` (em_pass)."""
    trace = solution.trace
    note = {"long_name": "penalized log-likelihood per sample, in nats, of bin probabilities"}
    dataset = dataset.assign(log_likelihood=("em_pass", trace.penalized, note))
    return dataset.assign_coords(em_pass=np.arange(len(trace.penalized))).assign_attrs(
        status=solution.status.name.lower(),
        status_explanation=solution.status.explanation,
        n_passes=trace.n_passes,
    )


def with_candidates(
    dataset: xr.Dataset, origins: Sequence[str], criteria: np.ndarray, agreement: np.ndarray, best: int
) -> xr.Dataset:
    """The Dataset of a fit with the record of the candidates (candidate) that it was chosen from."""
    names = {
        "start_criterion": "log-likelihood less effective parameters, in nats, as far as the candidate was followed",
        "candidate_agreement": "adjusted Rand index of the clusters with those of the best candidate",
        "candidate_origin": "how the candidate was found",
    }
    contents = {
        "start_criterion": criteria,
        "candidate_agreement": agreement,
        "candidate_origin": np.array(origins),
    }
    dataset = dataset.assign(
        {name: ("candidate", values, {"long_name": names[name]}) for name, values in contents.items()}
    )
    return dataset.assign_coords(candidate=np.arange(len(criteria))).assign_attrs(best_candidate=best)


def with_smooth_fit(dataset: xr.Dataset, fit: SmoothFit, bounds: np.ndarray) -> xr.Dataset:
    """The Dataset of a fit, with what smoothed EM has made of it.

    Parameters
    ----------
    dataset : Dataset
        As of :func:`solution_to_dataset`, with edges.
    fit : SmoothFit
    bounds : ndarray (n_variables, 2)
        Lower and upper bounds of the variables; NaN where there is none.

    Returns
    -------
    Dataset
        Weights and factors are those of the refined mixture, by decreasing weight. New are ``spline`` (variable, basis,
        component), ``spline_center`` and ``spline_scale`` (variable), ``penalty`` (variable, component), ``background``
        (component), ``interval`` and ``bounds`` (variable, end), ``discrete`` (variable), ``categories`` (variable,
        bin), and ``log_likelihood`` and ``round`` (em_pass).
    """
    cells, rank, n_variables = fit.cells, fit.mixture.rank, dataset.sizes["variable"]
    order = np.argsort(-fit.mixture.log_weights, kind="stable")
    spline = np.full((n_variables, cells.basis.n_basis, rank), np.nan)
    penalty, interval = np.full((n_variables, rank), np.nan), np.full((n_variables, 2), np.nan)
    smooth, discrete = list(cells.smooth), list(cells.discrete)
    spline[smooth] = fit.mixture.coefficients.transpose(1, 0, 2)[:, :, order]
    penalty[smooth] = fit.penalty[:, order]
    interval[smooth] = np.stack([cells.low, cells.high], axis=1)[smooth]
    curved = [n for n in smooth if not cells.coordinates[n].is_linear]
    line = np.full((2, n_variables), np.nan)
    line[:, curved] = np.reshape([(cells.coordinates[n].center, cells.coordinates[n].scale) for n in curved], (-1, 2)).T
    factors = np.full(dataset["factors"].shape, np.nan)
    categories = np.full(factors.shape[:2], np.nan)
    tables = cells.split(np.exp(fit.mixture.tables[:, order]))
    for n, table, values in zip(discrete, tables, cells.categories, strict=True):
        factors[n, : len(table)], categories[n, : len(table)] = table / table.sum(axis=0), values
    weights = np.exp(fit.mixture.log_weights[order])
    names = {
        "spline": "coefficients of the cubic B-splines of the log density",
        "penalty": "of third differences of these, per sample of the component",
        "spline_center": "the splines are of arsinh((x - center) / scale) of the variable x; NaN where they are of x",
        "spline_scale": "see spline_center",
        "interval": "where the splines live, in the unit of the variable",
        "bounds": "of the variable, at the ends of the interval or beyond them; NaN where there is none",
        "background": "share of the component's densities that is spread wide, for what lies beyond all samples",
        "discrete": "whether the variable keeps a histogram",
        "categories": "value of the bin of a discrete variable, the nearest if it holds none; NaN if several",
        "log_likelihood": "penalized log-likelihood per sample before the pass, in nats",
        "round": "penalties were chosen anew before each round",
    }
    contents = {
        "spline": (("variable", "basis", "component"), spline),
        "penalty": (("variable", "component"), penalty),
        "spline_center": ("variable", line[0]),
        "spline_scale": ("variable", line[1]),
        "interval": (("variable", "end"), interval),
        "bounds": (("variable", "end"), bounds),
        "background": ("component", background_share(weights * fit.total_weight)),
        "discrete": ("variable", np.isin(np.arange(n_variables), discrete).astype(np.int8)),
        "categories": (("variable", "bin"), categories),
        "log_likelihood": ("em_pass", fit.trace),
        "round": ("em_pass", fit.rounds),
    }
    dataset = dataset.assign({name: (*content, {"long_name": names[name]}) for name, content in contents.items()})
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
    return dataset.assign_attrs(
        status=fit.status.name.lower(),
        status_explanation=fit.status.explanation,
        n_passes=fit.n_passes,
        total_log_likelihood=fit.log_likelihood,
        n_parameters=fit.n_parameters,
    )


def spline_density(dataset: xr.Dataset, factors: MixtureFactors) -> MixtureDensity:
    """The density of a Dataset of :func:`with_smooth_fit`, whose factors these are."""
    binning = factors.binning
    if binning is None or "spline" not in dataset:
        raise InvalidInputError("The Dataset has no splines, or no bin edges; it is not of a refined model.")
    discrete = np.flatnonzero(dataset["discrete"].values).tolist()
    smooth = [n for n in range(factors.n_variables) if n not in discrete]
    conditionals = _spline_conditionals(dataset, smooth)
    bounds = variable_bounds(dataset)
    # Files of before there were categories are read as well: draws from them lie within the bins.
    values = dataset["categories"].transpose("variable", "bin").values if "categories" in dataset else None
    for n in discrete:
        categories = None if values is None else values[n, : factors.n_bins[n]]
        conditionals[n] = histogram_conditionals(binning.edges[n], factors.factors[n], bounds[n], categories)
    return MixtureDensity(
        factors.weights, tuple(conditionals[n] for n in range(factors.n_variables)), binning.variables
    )


def fine_probabilities(dataset: xr.Dataset, factors: MixtureFactors) -> list[np.ndarray] | None:
    """Probabilities of the cells that densities were fitted to, of a Dataset of :func:`with_smooth_fit`.

    Returns
    -------
    list of ndarray (n_cells, rank), or None
        One per variable, discrete ones by their bins; None for other Datasets, which have fitted no more than the bins.
    """
    if "spline" not in dataset:
        return None
    basis, spline = spline_basis(dataset.sizes["basis"]), dataset["spline"].transpose("variable", "basis", "component")
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
    coordinates = spline_coordinates(dataset)
    conditionals: dict[int, ConditionalDensities] = {}
    for n in smooth:
        low, high = interval[n]
        if not bounds[n][0] <= low < high <= bounds[n][1]:
            raise InvalidInputError(
                f"The splines of variable {n} live between {low} and {high}; expected an interval inside {bounds[n]}."
            )
        conditionals[n] = log_spline_conditionals(basis, spline[n], low, high, share, bounds[n], coordinates[n])
    return conditionals


def spline_coordinates(dataset: xr.Dataset) -> list[Coordinate]:
    """Coordinate of the splines of every variable; files of before there were others have the variables themselves."""
    if "spline_scale" not in dataset:
        return [LINEAR] * dataset.sizes["variable"]
    pairs = zip(dataset["spline_center"].values.tolist(), dataset["spline_scale"].values.tolist(), strict=True)
    found = [LINEAR if np.isnan(scale) else Coordinate(center, scale) for center, scale in pairs]
    if not all(each.is_linear or (np.isfinite(each.center) and each.scale > 0) for each in found):
        raise InvalidInputError("Coordinates of the splines of the Dataset are out of range.")
    return found


def variable_bounds(dataset: xr.Dataset) -> list[tuple[float, float]]:
    """Bounds of every variable, infinite where there are none."""
    pairs = dataset["bounds"].transpose("variable", "end").values.tolist()
    return [(-np.inf if np.isnan(low) else low, np.inf if np.isnan(high) else high) for low, high in pairs]


def _padded(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Rows of different lengths as one matrix, NaN after the end of each."""
    padded = np.full((len(rows), max(map(len, rows))), np.nan)
    for place, row in zip(padded, rows, strict=True):
        place[: len(row)] = row
    return padded


def _plain_attribute(value: Any) -> Any:
    """A value that netCDF attributes can hold: a number, a string, or an array of numbers."""
    if isinstance(value, list) and all(isinstance(number, int | float) for number in value):
        return np.array(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return int(value)
    return value if isinstance(value, int | float | str) else str(value)


def _plain_names(names: Sequence[Hashable]) -> np.ndarray:
    """Names as a coordinate that files can hold: integers if all are, else strings."""
    if all(is_integer(name) for name in names):
        return np.array([int(name) for name in names])  # type: ignore[call-overload]
    return np.array([str(name) for name in names])
