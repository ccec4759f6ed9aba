"""Labels of samples (pandas, xarray), and how they are put back on results.

The numerical code knows bare arrays only. :func:`~tensorly_smp.samples.reading.read_samples` takes labels off,
:class:`SampleLabels` puts them back.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from tensorly_smp._support.checks import is_among, is_integer
from tensorly_smp._support.representations import listed, short_repr, shown
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.samples.arrow_frames import ARROW, POLARS, made_column, made_frame, with_index
from tensorly_smp.samples.value_labels import ValueLabels, decoded, pandas_frame

#: Name of the sample dimension where results need one of their own.
SAMPLE_DIM = "sample"
COMPONENT_DIM = "component"
#: Names of results as a DataArray or Series, without which xarray makes no DataFrame of them.
PROBABILITY, LOG_DENSITY = "probability", "log_density"


@dataclass(frozen=True, eq=False)
class SampleLabels:
    """Labels of the samples that were read, and the kind of object that they came in, which results are given back as.

    Attributes
    ----------
    n_samples : int
    positions : tuple of int
        Column ``n`` of the values that were read is column ``positions[n]`` of the input.
    kind : {"array", "dataframe", "polars", "pyarrow", "dataarray", "dataset"}
        The object; lists and the like are arrays.
    columns : pandas Index or tuple of str, optional
        Names of the columns of a frame.
    index : pandas Index or frame, optional
        Index of a DataFrame; or the columns of a table of pyarrow that hold the index of a DataFrame of pandas.
    template : DataArray or Dataset, optional
        The object of xarray with its names, coordinates and attributes, and none of its data; see :func:`empty_copy`.
    sample_dim : hashable, optional
        Dimension of the samples in the template.
    value_labels : tuple of (ValueLabels or None)
        Labels of codes, for every column of the input; empty if no column has any.
    """

    n_samples: int
    positions: tuple[int, ...]
    kind: str = "array"
    columns: Any = None
    index: Any = None
    template: Any = None
    sample_dim: Hashable | None = None
    value_labels: tuple[ValueLabels | None, ...] = ()

    __repr__ = short_repr

    @property
    def container(self) -> str:
        """Kind of object that samples of a model are drawn in: a DataArray after a Dataset."""
        return "dataarray" if self.kind == "dataset" else self.kind

    def wrap(self, values: np.ndarray, name: str | None = None) -> Any:
        """One value per sample, labelled like the input.

        Parameters
        ----------
        values : ndarray (n_samples,)
        name : str, optional
            Name of the returned Series or DataArray.

        Returns
        -------
        ndarray, Series or DataArray
            The last for a DataArray and for a Dataset; a column of the library of another frame.
        """
        values = self._checked(values, 1)
        if self.kind == "dataframe":
            return pd.Series(values, index=self.index, name=name)
        if self.kind in (POLARS, ARROW):
            return made_column(self.kind, values, name)
        if self.template is not None:
            return xr.DataArray(values, self._sample_coords().coords, [self.sample_dim], name=name)
        return values

    def wrap_components(self, values: np.ndarray, name: str | None = None) -> Any:
        """One value per sample and component, labelled like the input.

        Parameters
        ----------
        values : ndarray (n_samples, rank)
        name : str, optional
            Of a DataArray.

        Returns
        -------
        ndarray, DataFrame or DataArray
            Columns of the DataFrame, or the coordinate "component" of the DataArray, are the numbers 0 to rank - 1
            (text in frames of other libraries). A coordinate of that name along the samples is called "component_" in
            what is returned.
        """
        values = self._checked(values, 2)
        rank = values.shape[1]
        if self.kind == "dataframe":
            return pd.DataFrame(values, index=self.index, columns=pd.RangeIndex(rank, name=COMPONENT_DIM))
        if self.kind in (POLARS, ARROW):
            return made_frame(self.kind, [str(r) for r in range(rank)], values)
        if self.template is None:
            return values
        kept = self._sample_coords()
        renamed = COMPONENT_DIM
        while renamed in kept.coords:  # one of that name is along the samples, and the new dimension needs it
            renamed += "_"
        if COMPONENT_DIM in kept.coords:
            kept = kept.rename({COMPONENT_DIM: renamed})
        wrapped = xr.DataArray(values, kept.coords, [self.sample_dim, COMPONENT_DIM], name=name)
        return wrapped.assign_coords({COMPONENT_DIM: np.arange(rank)})

    def wrap_variables(self, values: np.ndarray) -> Any:
        """One value per sample and variable, as an object like the input: its column order, dimensions, attributes.

        Codes become labels again.

        Parameters
        ----------
        values : ndarray (n_samples, n_variables)
            Columns in the order in which the variables were read.

        Returns
        -------
        ndarray, DataFrame, DataArray or Dataset
        """
        values = self._checked(values, 2)
        if values.shape[1] != len(self.positions):
            raise InvalidInputError(f"Values have {values.shape[1]} columns; expected {len(self.positions)} variables.")
        ordered = values[:, np.argsort(self.positions)]
        if self.kind == "dataframe":
            return pandas_frame(ordered, self.index, self.columns, self.value_labels)
        if self.kind in (POLARS, ARROW):
            frame = made_frame(self.kind, list(self.columns), ordered, self.value_labels)
            return frame if self.index is None else with_index(frame, self.index)
        if self.kind == "dataset":
            columns = zip(self.template, ordered.T, self.value_labels, strict=True)
            data = {name: column if own is None else own.decode(column) for name, column, own in columns}
            return self.template.copy(deep=False, data=data)
        ordered = decoded(ordered, self.value_labels)
        if self.template is None:
            return ordered
        return self.template.copy(deep=False, data=ordered if self.template.dims[0] == self.sample_dim else ordered.T)

    def _checked(self, values: np.ndarray, ndim: int) -> np.ndarray:
        if not hasattr(values, "__dask_graph__"):  # which is not computed here
            values = np.asarray(values)
        if values.ndim != ndim or values.shape[0] != self.n_samples:
            raise InvalidInputError(
                f"Values have shape {values.shape}; expected {ndim} dimension(s), the first of {self.n_samples}."
            )
        return values

    def _sample_coords(self) -> xr.Dataset:
        kept: xr.Dataset = self.template.coords.to_dataset()
        return kept.drop_vars([name for name in kept.coords if not set(kept[name].dims) <= {self.sample_dim}])


def empty_copy(X: xr.DataArray | xr.Dataset) -> Any:
    """Names, coordinates and attributes of an object of xarray around zeros that take no memory."""
    if isinstance(X, xr.DataArray):
        return xr.DataArray(np.broadcast_to(False, X.shape), X.coords, X.dims, name=X.name, attrs=X.attrs)
    data = {name: (x.dims, np.broadcast_to(False, x.shape), x.attrs) for name, x in X.data_vars.items()}
    return X.coords.to_dataset().assign_attrs(X.attrs).assign(data)


def labelled_samples(
    X: np.ndarray,
    components: np.ndarray,
    variables: Sequence[Hashable],
    container: str,
    value_labels: Mapping[Hashable, ValueLabels],
) -> tuple[Any, Any]:
    """New samples and their components, in the kind of object that other samples came in.

    Parameters
    ----------
    X : ndarray (n_samples, n_variables)
    components : ndarray of int (n_samples,)
    variables : sequence of hashable
    container : {"array", "dataframe", "dataarray", "polars", "pyarrow"}
    value_labels : mapping from name to ValueLabels
        Of the variables whose values are codes.

    Returns
    -------
    X : ndarray, DataFrame or DataArray
    components : ndarray, Series or DataArray
    """
    own = [value_labels.get(name) for name in variables]
    if container in (POLARS, ARROW):
        made = made_frame(container, [str(name) for name in variables], X, own)
        return made, made_column(container, components, COMPONENT_DIM)
    if container == "dataframe":
        columns = pd.Index(list(variables), tupleize_cols=False)
        return pandas_frame(X, None, columns, own), pd.Series(components, name=COMPONENT_DIM)
    X = decoded(X, own)
    if container == "dataarray":
        coords = {"variable": _coordinate(variables)}
        dims = (SAMPLE_DIM, "variable")
        return xr.DataArray(X, coords, dims), xr.DataArray(components, dims=dims[:1], name=COMPONENT_DIM)
    return X, components


def labelled_points(x: Any, values: np.ndarray, name: str) -> Any:
    """Values at points of one variable, labelled as the points are.

    Parameters
    ----------
    x : array_like, Series or DataArray (...)
    values : ndarray (...) or (..., rank)
    name : str
        Of the Series or DataArray.

    Returns
    -------
    ndarray, Series, DataFrame or DataArray
        A DataArray for a DataArray, with the dimension "component" last if there is one; a Series for a Series, or a
        DataFrame of a column for each component; else the values.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from tensorly_smp.samples.labels import labelled_points
    >>> labelled_points(pd.Series([1.0, 2.0], ["a", "b"]), np.array([0.5, 0.25]), "density").loc["b"].item()
    0.25
    """
    if isinstance(x, xr.DataArray):
        is_wide = values.ndim > x.ndim
        kept = x.coords if not is_wide else {name: each for name, each in x.coords.items() if name != COMPONENT_DIM}
        dims = (*x.dims, COMPONENT_DIM) if is_wide else x.dims
        wrapped = xr.DataArray(values, kept, dims, name=name)
        return wrapped.assign_coords({COMPONENT_DIM: np.arange(values.shape[-1])}) if is_wide else wrapped
    if isinstance(x, pd.Series):
        if values.ndim == 1:
            return pd.Series(values, index=x.index, name=name)
        return pd.DataFrame(values, index=x.index, columns=pd.RangeIndex(values.shape[1], name=COMPONENT_DIM))
    return values


def labelled_moments(values: np.ndarray, variables: Sequence[Hashable], container: str, name: str) -> Any:
    """Numbers for every variable, in the kind of object that the samples of the fit came in.

    Parameters
    ----------
    values : ndarray (n_variables,) or (n_variables, rank)
    variables : sequence of hashable (n_variables,)
    container : {"array", "dataframe", "dataarray", "polars", "pyarrow"}
    name : str
        Of the Series or DataArray.

    Returns
    -------
    ndarray, Series, DataFrame or DataArray
        With the variables along the first axis, and the numbers of the components along the second.
    """
    second = {COMPONENT_DIM: range(values.shape[1])} if values.ndim == 2 else {}
    return labelled(values, {"variable": variables, **second}, container, name)


def labelled_matrix(values: np.ndarray, variables: Sequence[Hashable], container: str, name: str) -> Any:
    """Numbers for every two variables (n_variables, n_variables), labelled as those of `labelled_moments`."""
    return labelled(values, {"variable": variables, "other_variable": variables}, container, name)


def labelled(values: np.ndarray, names: Mapping[str, Sequence[Hashable]], container: str, name: str) -> Any:
    """Values with these names along their one or two dimensions; bare for other kinds of objects than these."""
    if container == "dataframe":
        indexes: list[Any] = [
            pd.RangeIndex(len(each), name=dim)
            if isinstance(each, range)
            else pd.Index(list(each), name=dim, tupleize_cols=False)
            for dim, each in names.items()
        ]
        return pd.Series(values, indexes[0], name=name) if len(indexes) == 1 else pd.DataFrame(values, *indexes)
    if container == "dataarray":
        coords = {dim: np.array(each) if isinstance(each, range) else _coordinate(each) for dim, each in names.items()}
        return xr.DataArray(values, coords, tuple(names), name=name)
    return values


def _coordinate(variables: Sequence[Hashable]) -> Any:
    """Names as a coordinate: text as it is, anything else as objects, tuples whole."""
    names = np.empty(len(variables), dtype=object)
    names[:] = variables
    return names.tolist() if all(isinstance(name, str) for name in variables) else names


def plain_names(names: Iterable[Hashable]) -> tuple[Hashable, ...]:
    """Names, with None for every kind of missing one: two NaN are not equal, so that they would not be found again.

    Examples
    --------
    >>> from tensorly_smp.samples.labels import plain_names
    >>> plain_names(["a", float("nan"), 1])
    ('a', None, 1)
    """
    missing = type(pd.NA), type(pd.NaT), float, np.floating, np.datetime64
    return tuple(None if isinstance(name, missing) and pd.isna(name) else name for name in names)


def default_names(n_variables: int) -> tuple[str, ...]:
    """Names of variables that came without: "x0", "x1", ..."""
    return tuple(f"x{n}" for n in range(n_variables))


def list_names(names: Iterable[Hashable], limit: int = 10) -> str:
    """Names for a message, the first `limit` of them; all if only one would be left."""
    return listed(names, limit)


def repeated_names(names: Sequence[Hashable]) -> list[Hashable]:
    """Names that occur more than once."""
    seen: set[Hashable] = set()
    return [name for name in names if name in seen or seen.add(name)]  # type: ignore[func-returns-value]


def variable_positions(variables: Any, names: Sequence[Hashable]) -> list[int]:
    """Positions of one variable or several, by name; by number too, where the names are the default ones.

    Parameters
    ----------
    variables : hashable or iterable of hashable
        A tuple is one name if there is a variable of that name.
    names : sequence of hashable (n_variables,)
        Of all variables.

    Raises
    ------
    InvalidInputError
        An unknown name, none at all, or one twice.

    Examples
    --------
    >>> from tensorly_smp.samples.labels import variable_positions
    >>> variable_positions("b", ["a", "b"]), variable_positions(["b", "a"], ["a", "b"])
    ([1], [1, 0])
    >>> variable_positions([1, "x0"], ["x0", "x1"])
    [1, 0]
    """
    is_one = isinstance(variables, str | bytes) or (isinstance(variables, tuple) and is_among(variables, names))
    try:
        chosen = [variables] if is_one else list(variables)
    except TypeError:  # one name of another kind, or an array of no dimension
        chosen = [variables]
    found = [variable_position(name, names) for name in chosen]
    if not found or len(set(found)) < len(found):
        named = list_names(names[n] for n in found)
        raise InvalidInputError(f"Variables are {named or 'none'}; expected at least one, none twice.")
    return found


def variable_position(variable: Any, names: Sequence[Hashable]) -> int:
    """Position of a variable, by name; by number too, where the names are the default ones.

    Raises
    ------
    InvalidInputError
        There is no such variable.
    """
    if is_among(variable, names):
        return list(names).index(variable)
    if is_integer(variable) and 0 <= variable < len(names) and tuple(names) == default_names(len(names)):
        return int(variable)
    raise InvalidInputError(f"Variable {shown(variable)} is unknown; expected one of {list_names(names)}.")


def aligned(values: Any, like: Any, what: str = "sample_weight", of: str = "X") -> Any:
    """One value per sample in the order of the samples, where both have an index.

    Parameters
    ----------
    values : Series or anything else
    like : DataFrame, Series or anything else
    what, of : str
        What the two are called in a message.

    Returns
    -------
    Series or anything else
        The values as they are where one of the two has no index, or where they are not as many, which is for others to
        refuse.

    Raises
    ------
    InvalidInputError
        As many, but not of the same samples.

    Examples
    --------
    >>> import pandas as pd
    >>> from tensorly_smp.samples.labels import aligned
    >>> aligned(pd.Series([1, 2], ["a", "b"]), pd.DataFrame({"x": [0.5, 0.7]}, ["b", "a"])).tolist()
    [2, 1]
    """
    if not isinstance(values, pd.Series) or not isinstance(like, pd.DataFrame | pd.Series):
        return values
    if values.index.equals(like.index) or len(values) != len(like):
        return values
    both_unique = values.index.is_unique and like.index.is_unique
    if not both_unique or set(values.index) != set(like.index):
        raise InvalidInputError(
            f"{what} is a Series whose index differs from that of {of}; expected the same samples. Pass an array to "
            "match by position."
        )
    return values.loc[like.index]
