"""Schema of the result of a fit: the variables of its Dataset, what they mean, who writes them, how files hold them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

#: Stage of the fit that writes a variable, name, dimensions, type in memory, meaning and unit.
_TABLE: dict[str, dict[str, tuple[str, ...]]] = {
    "factors": {
        "weights": ("component", "float64", "probability of the component"),
        "factors": ("variable bin component", "float64", "probability of the bin in the component"),
        "n_bins": ("variable", "int64", "number of bins"),
    },
    "binning": {
        "edges": ("variable edge", "float64", "bin edges, in the unit of the variable; NaN of discrete variables"),
        "discrete": ("variable", "int8", "whether the variable is discrete: its bins are its values"),
        "categories": ("variable bin", "float64", "values of a discrete variable; factors are their probabilities"),
    },
    # A sweep of the decomposition, or a round of the search.
    "starts": {
        "loss": ("sweep", "float64", "loss, summed over triples"),
        "change": ("sweep", "float64", "largest change of a weight or factor entry"),
        "seconds": ("sweep", "float64", "time since the start", "s"),
        "start_loss": ("start", "float64", "final loss of each start"),
        "start_status": ("start", "str", "why each start stopped"),
        "start_trace": ("start start_sweep", "float64", "loss of each start by sweep; NaN after its end"),
    },
    # Of a CoupledSolution only.
    "solution": {
        "start_weights": ("start component", "float64", "probability of the component, by start"),
        "start_factors": ("start variable bin component", "float64", "probability of the bin, by start"),
        "start_change": ("start start_sweep", "float64", "largest change of an entry, by start"),
        "start_seconds": ("start start_sweep", "float64", "time since the start", "s"),
    },
    "triples": {"triples": ("triple mode", "int64", "variables of the histograms that were factorized")},
    "samples": {
        "patterns": ("pattern variable", "int8", "variables that are observed together in some sample"),
        "units": ("variable", "str", "unit of the variable"),
        "long_names": ("variable", "str", "long name of the variable"),
    },
    "splines": {
        "spline": ("variable basis component", "float64", "coefficients of the cubic B-splines of the log density"),
        "penalty": ("variable component", "float64", "of third differences of these, per sample of the component"),
        "spline_center": ("variable", "float64", "splines are of arsinh((x - center) / scale); of x itself where NaN"),
        "spline_scale": ("variable", "float64", "see spline_center"),
        "interval": ("variable end", "float64", "where the splines live, in the unit of the variable"),
        "bounds": ("variable end", "float64", "of the variable, at or beyond the ends of the interval; NaN for none"),
        "background": ("component", "float64", "share of densities that is spread wide, beyond all samples"),
    },
    "passes": {
        "log_likelihood": ("em_pass", "float64", "penalized log-likelihood per sample before the pass, in nats"),
        "round": ("em_pass", "int64", "penalties were chosen anew before each round"),
    },
    "candidates": {
        "start_criterion": ("candidate", "float64", "log-likelihood less parameters, in nats, where it was left"),
        "candidate_agreement": ("candidate", "float64", "adjusted Rand index of clusters with those of the best"),
        "candidate_origin": ("candidate", "str", "how the candidate was found"),
    },
    "rivals": {
        "rival_criterion": ("rival", "float64", "criterion less that of this solution"),
        "rival_deviation": ("rival", "float64", "standard deviation of the difference"),
        "rival_agreement": ("rival", "float64", "adjusted Rand index of clusters"),
        "rival_candidate": ("rival", "int64", "number among the candidates"),
        "rival_description": ("rival", "str", "how near the rival is, and which components are one there, or two"),
        "rival_overlap": ("rival component rival_component", "float64", "share of the samples in a pair of clusters"),
    },
    # Attributes of a solution, of its rivals.
    "attributes of rivals": {
        "rival_total_log_likelihood": ("rival", "float64", "log-likelihood of all samples, in nats"),
        "rival_n_parameters": ("rival", "float64", "effective number of parameters"),
        "rival_n_passes": ("rival", "int64", "passes of EM"),
        "rival_n_sweeps": ("rival", "int64", "sweeps of the decomposition"),
        "rival_status": ("rival", "str", "why the iteration stopped"),
    },
    "unmixing": {
        "unmixing": ("source variable", "float64", "sources are these linear combinations of the variables"),
        "mixing": ("variable source", "float64", "variables are these linear combinations of the sources"),
        "mixed": ("variable", "int8", "whether the variable is mixed"),
        "rounding": ("variable", "float64", "step of a mixed variable whose values have probabilities; 0 for others"),
        "unmixing_log_likelihood": ("alternation", "float64", "penalized log-likelihood per sample by pass, in nats"),
        "unmixing_start_criterion": ("unmixing_start", "float64", "criterion per sample after the first passes"),
    },
}


class Entry(NamedTuple):
    """A variable of the result, by its row of the table."""

    writer: str
    dims: tuple[str, ...]
    dtype: str
    long_name: str
    units: str = ""


SCHEMA = {
    name: Entry(writer, tuple(dims.split()), dtype, *words)
    for writer, rows in _TABLE.items()
    for name, (dims, dtype, *words) in rows.items()
}
#: What a solution has of its own in a Dataset, as far as it has it; a rival's is called "rival_" and the name.
OWN_VARIABLES = ("weights", "factors", *(name for name in _TABLE["splines"] if name != "bounds"))
OWN_ATTRIBUTES = tuple(name.removeprefix("rival_") for name in _TABLE["attributes of rivals"])
for _name in OWN_VARIABLES:
    SCHEMA[f"rival_{_name}"] = SCHEMA[_name]._replace(writer="variables of rivals", dims=("rival", *SCHEMA[_name].dims))

#: Types of netCDF-3 for those in memory: it has no long integers. Text holds what does not fit.
STORED = {"float64": "float64", "float32": "float32", "int64": "int32", "int8": "int8", "bool": "int8"}
#: Dimensions without a coordinate; others are numbered, or have names.
_UNNUMBERED = ("triple", "mode", "pattern")


def with_results(
    dataset: xr.Dataset, contents: Mapping[str, Any], coords: Mapping[str, Any] | None = None
) -> xr.Dataset:
    """The Dataset with more variables of the schema, and coordinates of their dimensions.

    Parameters
    ----------
    dataset : Dataset
    contents : mapping from name to array_like
        In the order of the dimensions of the schema.
    coords : mapping from name to array_like, optional
        Of dimensions that are not just numbered.

    Examples
    --------
    >>> import xarray as xr
    >>> from tensorly_smp._support.result_schema import with_results
    >>> dataset = with_results(xr.Dataset(), {"weights": [0.5, 0.5]})
    >>> dataset.weights.dims, dataset.weights.long_name
    (('component',), 'probability of the component')
    """
    data = {name: dataset.variables[name] for name in dataset.data_vars}
    sizes = dict(dataset.sizes)
    for name, values in contents.items():
        entry = SCHEMA[name]
        notes = {"long_name": entry.long_name} | ({"units": entry.units} if entry.units else {})
        data[name] = xr.Variable(entry.dims, np.asarray(values), notes)
        sizes |= data[name].sizes
    known = {name: dataset.variables[name] for name in dataset.coords} | dict(coords or {})
    plain = {dim: np.arange(size) for dim, size in sizes.items() if dim not in known and dim not in _UNNUMBERED}
    # Made anew: to assign the variables, then their coordinates, would take three times as long.
    return xr.Dataset(data, known | plain, dataset.attrs)


def result_values(dataset: xr.Dataset, name: str) -> np.ndarray:
    """Values of a variable, in the order of the dimensions of the schema."""
    return np.asarray(dataset[name].transpose(*SCHEMA[name].dims).values)


def written_by(*writers: str) -> tuple[str, ...]:
    """Names of the variables that some stages write."""
    return tuple(name for name, entry in SCHEMA.items() if entry.writer in writers)


def check_result(dataset: xr.Dataset, *writers: str) -> None:
    """Refuse a Dataset that no fit makes, in words that say what it is.

    Parameters
    ----------
    dataset : Dataset
    *writers : str
        Stages whose variables it must have, beside those of every fit.

    Raises
    ------
    ValueError, KeyError
        A variable or an attribute is missing, or is not as in the schema.
    """
    attrs = dataset.attrs
    required = {*written_by("factors", "binning", "starts", *writers)}
    if attrs["density"] == "logspline":
        required |= {*written_by("splines")}
    if "rival" in dataset.dims:
        required |= {*written_by("rivals"), *(f"rival_{name}" for name in OWN_VARIABLES if name in required)}
    for name in (name for name in SCHEMA if name in required or name in dataset):
        _, dims, dtype, *_ = SCHEMA[name]
        held = dataset[name]
        if held.dims != dims or held.dtype.kind != np.dtype(dtype).kind:
            raise ValueError(f"{name} has dimensions {held.dims} and dtype {held.dtype}, expected {dims} and {dtype}")
    if 0 in dataset.sizes.values():
        raise ValueError(f"a dimension is empty: {dict(dataset.sizes)}")
