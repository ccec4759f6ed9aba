"""Results as labelled arrays: one xarray.Dataset per fit, and back."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import comb
from typing import Any

import numpy as np
import xarray as xr

from tensorly_smp.codes.binning import Binning
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.factors.solution import CoupledSolution


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
        edges = np.full((model.n_variables, most + 1), np.nan)
        for n, e in enumerate(model.binning.edges):
            edges[n, : len(e)] = e
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
        ``start_status`` (start), and attributes of plain types: loss_name, status, status_explanation, n_sweeps,
        best_start and what the initializer reported.
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
    if all(isinstance(name, int | np.integer) and not isinstance(name, bool) for name in names):
        return np.array([int(name) for name in names])  # type: ignore[call-overload]
    return np.array([str(name) for name in names])
