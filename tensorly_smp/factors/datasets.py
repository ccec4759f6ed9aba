"""Mixture factors as a labelled Dataset, and back."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import xarray as xr

from tensorly_smp._support.checks import is_integer
from tensorly_smp.codes.binning import Binning
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.factors.mixture_factors import MixtureFactors


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
    coords = {"variable": plain_coordinate(names), "bin": np.arange(most), "component": np.arange(model.rank)}
    if model.binning is not None:
        edges = padded_rows(model.binning.edges)
        data["edges"] = (("variable", "edge"), edges, {"long_name": "bin edges, in the unit of the variable"})
        coords["edge"] = np.arange(most + 1)
    dataset = xr.Dataset(data, coords)
    if model.binning is not None:
        dataset.attrs["binning_strategy"] = model.binning.strategy
    return dataset


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


def padded_rows(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Rows of different lengths as one matrix, NaN after the end of each."""
    padded = np.full((len(rows), max(map(len, rows))), np.nan)
    for place, row in zip(padded, rows, strict=True):
        place[: len(row)] = row
    return padded


def plain_coordinate(names: Sequence[Hashable]) -> np.ndarray:
    """Names as a coordinate that files can hold: integers if all are, else strings."""
    if all(is_integer(name) for name in names):
        return np.array([int(name) for name in names])  # type: ignore[call-overload]
    return np.array([str(name) for name in names])
