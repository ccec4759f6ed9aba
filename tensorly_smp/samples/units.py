"""Units of variables, from the attributes of what they came in."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pandas as pd
import xarray as xr

from tensorly_smp._support.representations import shown


def units_of(source: Any, names: Sequence[Hashable]) -> tuple[str, ...]:
    """Units of variables, "" where there is none.

    Parameters
    ----------
    source : Dataset, DataArray, DataFrame, dask DataFrame or anything else
        A Dataset of samples has them as ``units`` of each variable, and that of a fit as its variable ``units``. A
        DataArray has a coordinate ``units`` along its variables, or an attribute ``units``: a mapping by name, or one
        string for all of them. A DataFrame has the attribute only, and a dask DataFrame that of the pandas one that it
        was made of.
    names : sequence of hashable

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> import pandas as pd
    >>> from tensorly_smp.samples.units import units_of
    >>> frame = pd.DataFrame({"length": [1.0], "mass": [2.0]})
    >>> frame.attrs["units"] = {"length": "mm"}
    >>> units_of(frame, ["mass", "length"])
    ('', 'mm')
    """
    known: Mapping[Any, Any] = {}
    source = _described(source)
    if isinstance(source, xr.Dataset) and "factors" in source:
        if "units" in source and source["units"].dims == ("variable",):
            known = dict(zip(names, source["units"].values.tolist(), strict=False))
    elif isinstance(source, xr.Dataset):
        known = {name: source[name].attrs.get("units", "") for name in names if name in source.data_vars}
    elif isinstance(source, xr.DataArray) and "units" in source.coords and source["units"].ndim == 1:
        (dim,) = source["units"].dims
        found = source.indexes[dim].tolist() if dim in source.indexes else names
        known = dict(zip(found, source["units"].values.tolist(), strict=False))
    elif isinstance(source, xr.DataArray | pd.DataFrame):
        given = source.attrs.get("units", "")
        known = given if isinstance(given, Mapping) else dict.fromkeys(names, given)
    return tuple(_text(known.get(name, "")) for name in names)


def _described(source: Any) -> Any:
    """Of a dask DataFrame, which has no attributes of its own, the empty DataFrame that describes it."""
    described = getattr(source, "_meta", None)
    return described if isinstance(described, pd.DataFrame) else source


def _text(unit: Any) -> str:
    return unit.strip() if isinstance(unit, str) else ""


def with_units(dataset: xr.Dataset, X: Any, names: Sequence[Hashable]) -> xr.Dataset:
    """The Dataset of a fit with the units (variable) of the samples that it was fitted to, if these have any."""
    units = units_of(X, names)
    if not any(units):
        return dataset
    return dataset.assign(units=("variable", list(units), {"long_name": "unit of the variable"}))


def differing_units(found: Any, dataset: xr.Dataset, names: Sequence[Hashable]) -> list[str]:
    """Variables whose unit in some samples is not that of the fit, in words; where one is not known, none.

    Parameters
    ----------
    found : Dataset, DataArray, DataFrame or anything else
        Samples.
    dataset : Dataset
        Of the fit.
    names : sequence of hashable

    Returns
    -------
    list of str

    Examples
    --------
    >>> import xarray as xr
    >>> from tensorly_smp.samples.units import differing_units
    >>> fitted = xr.Dataset({"factors": 0, "units": ("variable", ["mm", ""])})
    >>> differing_units(xr.Dataset({"a": ("x", [1], {"units": "m"})}), fitted, ["a", "b"])
    ["'a' (m, fitted in mm)"]
    """
    pairs = zip(names, units_of(found, names), units_of(dataset, names), strict=True)
    return [
        f"{shown(name)} ({here}, fitted in {there})" for name, here, there in pairs if here and there and here != there
    ]
