"""Codebook of variables: units, long names, and labels of the codes of text and categories."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from tensorly_smp._support.representations import listed, shown
from tensorly_smp._support.result_schema import with_results
from tensorly_smp.exceptions import InvalidInputError

#: Attribute of the Dataset of a fit: JSON, a list with null or {"kind", "labels"} for every variable.
ATTRIBUTE = "value_labels"
#: Text, categories, and categories in an order: str, Categorical and ordered Categorical of pandas; String, Categorical
#: and Enum of polars; string, dictionary and ordered dictionary of pyarrow.
TEXT, CATEGORY, ORDERED = "text", "category", "ordered"


@dataclass(frozen=True)
class ValueLabels:
    """Labels of the codes of a variable.

    Attributes
    ----------
    labels : tuple of str
        Code k stands for ``labels[k]``: in the order of the categories, text in alphabetical order.
    kind : {"text", "category", "ordered"}
        Kind of column that they came in.

    Examples
    --------
    >>> import pandas as pd
    >>> import tensorly_smp as smp
    >>> X = smp.datasets.make_smooth_mixture("gaussian", 300, 3, 2, random_state=0).X
    >>> frame = pd.DataFrame(X).assign(smoker=["no", "yes", "no"] * 100)
    >>> model = smp.SmoothProductMixture(2, random_state=0).fit(frame)
    >>> labels = model.density_.value_labels["smoker"]
    >>> labels
    ValueLabels(labels=('no', 'yes'), kind='text')
    >>> labels.decode([1.0, 0.0])
    array(['yes', 'no'], dtype=object)
    """

    labels: tuple[str, ...]
    kind: str = TEXT

    @classmethod
    def of_text(cls, column: Any) -> tuple[np.ndarray, ValueLabels]:
        """Codes (n_samples,) of text, NaN where it is missing, and the labels that occur, sorted."""
        codes, labels = pd.factorize(np.asarray(column, dtype=object), sort=True)
        return missing_codes(codes), cls(tuple(map(str, labels)))

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Labels of codes (n_samples,), an array of objects with None for NaN."""
        padded = np.array([*self.labels, None], dtype=object)
        return np.asarray(padded[np.where(np.isnan(codes), len(self.labels), codes).astype(np.intp)])

    def recode(self, codes: np.ndarray, given: ValueLabels, name: Hashable) -> np.ndarray:
        """Codes by these labels of codes (n_samples,) by the `given` ones.

        Raises
        ------
        InvalidInputError
            A label that occurs is not among these.
        """
        own = pd.Index(self.labels, dtype=object).get_indexer(pd.Index(given.labels, dtype=object))
        present = ~np.isnan(codes)
        used = codes[present].astype(int)
        if unknown := [given.labels[code] for code in np.unique(used[own[used] < 0])]:
            expected = f"expected labels of the fit, {listed(self.labels)}, or a missing entry (None)"
            raise InvalidInputError(f"Variable {shown(name)} holds {listed(unknown, 5)}; {expected}.")
        found = np.array(codes)
        found[present] = own[used]
        return found

    def points(self, x: Any, name: Hashable) -> Any:
        """Points of this variable with labels as codes; an object like `x`, which is returned if it has numbers."""
        array = np.asarray(x)
        if array.dtype.kind not in "OUT" or not all(isinstance(label, str) for label in array.ravel().tolist()):
            return x
        codes = self.recode(*ValueLabels.of_text(array.ravel()), name).reshape(array.shape)
        if isinstance(x, xr.DataArray):
            return x.copy(data=codes)
        return pd.Series(codes, x.index) if isinstance(x, pd.Series) else codes


def missing_codes(codes: np.ndarray) -> np.ndarray:
    """Codes as float64, -1 as NaN."""
    return np.where(codes < 0, np.nan, codes)


def decoded(values: np.ndarray, value_labels: Sequence[ValueLabels | None]) -> np.ndarray:
    """Values (n_samples, n_variables) with labels for codes, as objects then; as they are where no variable has any."""
    if not any(value_labels):
        return values
    mixed = values.astype(object)
    for n, own in enumerate(value_labels):
        if own:
            mixed[:, n] = own.decode(values[:, n])
    return mixed


def pandas_frame(
    values: np.ndarray, index: pd.Index | None, columns: pd.Index, value_labels: Sequence[ValueLabels | None]
) -> pd.DataFrame:
    """Values (n_samples, n_variables) as a DataFrame, codes as columns of the kind that their labels came in."""
    frame = pd.DataFrame(values, index=index, columns=columns)
    for n, own in enumerate(value_labels):
        if own:
            column: Any = own.decode(values[:, n])
            if own.kind != TEXT:
                column = pd.Categorical(column, list(own.labels), ordered=own.kind == ORDERED)
            frame.isetitem(n, column)
    return frame


def to_json(value_labels: Mapping[Hashable, ValueLabels], variables: Sequence[Hashable]) -> str:
    """Labels of the variables that have any, as the attribute of a Dataset."""
    entries = [value_labels.get(name) for name in variables]
    return json.dumps([own and {"kind": own.kind, "labels": list(own.labels)} for own in entries])


def from_json(text: Any, variables: Sequence[Hashable]) -> dict[Hashable, ValueLabels]:
    """Labels by variable, from the attribute of a Dataset; None has none.

    Raises
    ------
    InvalidInputError
        Another text than of :func:`to_json`.
    """
    if text is None:
        return {}
    try:
        entries = json.loads(text)
        found = {
            name: ValueLabels(tuple(entry["labels"]), entry["kind"])
            for name, entry in zip(variables, entries, strict=True)
            if entry is not None
        }
        for own in found.values():
            is_text = all(isinstance(label, str) for label in own.labels) and len(set(own.labels)) == len(own.labels)
            if not is_text or not own.labels or own.kind not in (TEXT, CATEGORY, ORDERED):
                raise ValueError("they are no labels")
    except (TypeError, ValueError, KeyError) as error:
        raise InvalidInputError(f"The Dataset has {ATTRIBUTE} that cannot be read: {shown(text)}.") from error
    return found


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
    >>> from tensorly_smp.samples.codebook import units_of
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
    for stored, attribute in (("units", "units"), ("long_names", "long_name")):
        if any(texts := _descriptions(X, names, attribute, stored)):
            dataset = with_results(dataset, {stored: texts})
    return dataset.assign_attrs(_attributes(X))


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
    >>> from tensorly_smp.samples.codebook import differing_units
    >>> fitted = xr.Dataset({"factors": 0, "units": ("variable", ["mm", ""])})
    >>> differing_units(xr.Dataset({"a": ("x", [1], {"units": "m"})}), fitted, ["a", "b"])
    ["'a' (m, fitted in mm)"]
    """
    pairs = zip(names, units_of(found, names), units_of(dataset, names), strict=True)
    return [
        f"{shown(name)} ({here}, fitted in {there})" for name, here, there in pairs if here and there and here != there
    ]
