"""Columns of text or categories as codes 0, 1, ..., and the labels of these codes."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from tensorly_smp._support.representations import listed, shown
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
            raise InvalidInputError(
                f"Variable {shown(name)} holds {listed(unknown, 5)}; expected labels of the fit, "
                f"{listed(self.labels, 10)}, or a missing entry (None)."
            )
        found = np.array(codes)
        found[present] = own[used]
        return found

    def check_codes(self, codes: np.ndarray, name: Hashable) -> None:
        """Refuse numbers (n_samples,) that are no codes."""
        present = codes[~np.isnan(codes)]
        if not np.isin(present, np.arange(len(self.labels))).all():
            raise InvalidInputError(
                f"Variable {shown(name)} holds numbers; expected its labels, {listed(self.labels, 10)}, or their codes "
                f"0 to {len(self.labels) - 1}."
            )

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
    except (TypeError, ValueError, KeyError) as error:
        raise InvalidInputError(f"The Dataset has {ATTRIBUTE} that cannot be read: {shown(text)}.") from error
    for own in found.values():
        is_text = all(isinstance(label, str) for label in own.labels) and len(set(own.labels)) == len(own.labels)
        if not is_text or not own.labels or own.kind not in (TEXT, CATEGORY, ORDERED):
            raise InvalidInputError(f"The Dataset has {ATTRIBUTE} that are none: {shown(text)}.")
    return found
