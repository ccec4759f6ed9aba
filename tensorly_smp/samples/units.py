"""Units and long names of variables, and attributes of all samples, from what they came in."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pandas as pd
import xarray as xr

from tensorly_smp._support.representations import shown

#: Of the names of attributes that were those of the samples.
OWN_ATTRIBUTES = "samples_"


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
    return _descriptions(source, names, "units", "units")


def _described(source: Any) -> Any:
    """The object that has the attributes: for a dask DataFrame the empty DataFrame that describes it."""
    described = getattr(source, "_meta", None)
    return described if isinstance(described, pd.DataFrame) else source


def with_units(dataset: xr.Dataset, X: Any, names: Sequence[Hashable]) -> xr.Dataset:
    """The Dataset of a fit with what the samples that it was fitted to say of themselves, if they do.

    Their units and long names become the variables ``units`` and ``long_names`` (variable), their own attributes, such
    as a title or a source, attributes with ``samples_`` before the name: text and numbers only, which files can hold.
    """
    units = units_of(X, names)
    if any(units):
        dataset = dataset.assign(units=("variable", list(units), {"long_name": "unit of the variable"}))
    long_names = _descriptions(X, names, "long_name", "long_names")
    if any(long_names):
        dataset = dataset.assign(long_names=("variable", list(long_names), {"long_name": "long name of the variable"}))
    attributes = _attributes(X)
    return dataset.assign_attrs(attributes) if attributes else dataset


def _descriptions(source: Any, names: Sequence[Hashable], attribute: str, stored: str) -> tuple[str, ...]:
    """Texts that describe variables: of samples an attribute, in the Dataset of a fit the variable `stored`."""
    known: Mapping[Any, Any] = {}
    source = _described(source)
    if isinstance(source, xr.Dataset) and "factors" in source:
        if stored in source and source[stored].dims == ("variable",):
            known = dict(zip(names, source[stored].values.tolist(), strict=False))
    elif isinstance(source, xr.Dataset):
        known = {name: source[name].attrs.get(attribute, "") for name in names if name in source.data_vars}
    elif isinstance(source, xr.DataArray) and attribute in source.coords and source[attribute].ndim == 1:
        (dim,) = source[attribute].dims
        found = source.indexes[dim].tolist() if dim in source.indexes else names
        known = dict(zip(found, source[attribute].values.tolist(), strict=False))
    elif isinstance(source, xr.DataArray | pd.DataFrame):
        described = source.attrs.get(attribute, "")
        if isinstance(described, Mapping):
            known = described
        elif attribute == "units":  # one for all; a long name is that of the whole table
            known = dict.fromkeys(names, described)
    texts = [known.get(name) for name in names]
    return tuple(text.strip() if isinstance(text, str) else "" for text in texts)


def _attributes(X: Any) -> dict[str, Any]:
    """Attributes of all samples that are text or numbers, under names of their own."""
    source = _described(X)
    if not isinstance(source, xr.Dataset | xr.DataArray | pd.DataFrame):
        return {}
    if isinstance(source, xr.Dataset) and "factors" in source:  # of an earlier fit
        return {name: value for name, value in source.attrs.items() if str(name).startswith(OWN_ATTRIBUTES)}
    return {
        f"{OWN_ATTRIBUTES}{name}": value
        for name, value in source.attrs.items()
        if isinstance(name, str) and name not in ("units", "long_name")
        if isinstance(value, str | int | float) and not isinstance(value, bool)
    }


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
