"""Labels of samples (pandas, xarray), and how they are put back on results.

The numerical code knows bare arrays only. :func:`~tensorly_smp.samples.reading.read_samples` takes labels off,
:class:`SampleLabels` puts them back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from tensorly_smp._support.checks import is_among, is_integer
from tensorly_smp._support.representations import listed, short_repr, shown
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.samples.codebook import CATEGORY, ORDERED, TEXT, ValueLabels, decoded, pandas_frame

#: Name of the sample dimension where results need one of their own.
SAMPLE_DIM = "sample"
COMPONENT_DIM = "component"
#: Names of results as a DataArray or Series, without which xarray makes no DataFrame of them.
LABEL, POSTERIOR = "label", "posterior"  # no name of a dimension: xarray.merge([samples, labels, posteriors])
PROBABILITY, LOG_DENSITY = "probability", "log_density"
#: Libraries of frames other than pandas; neither is imported here before there is one.
POLARS, ARROW = "polars", "pyarrow"


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
    columns : pandas Index, optional
        Names of the columns of a frame.
    index : pandas Index, optional
        Index of a DataFrame, also of one that a table of pyarrow was made of.
    template : DataArray or Dataset, optional
        The object of xarray with its names, coordinates and attributes, and none of its data; see :func:`empty_copy`.
    sample_dims : tuple of hashable
        Dimension of the samples in the template; of several, every combination is a sample.
    value_labels : tuple of (ValueLabels or None)
        Labels of codes, for every column of the input; empty if no column has any.
    """

    n_samples: int
    positions: tuple[int, ...]
    kind: str = "array"
    columns: Any = None
    index: Any = None
    template: Any = None
    sample_dims: tuple[Hashable, ...] = (SAMPLE_DIM,)
    value_labels: tuple[ValueLabels | None, ...] = ()

    __repr__ = short_repr

    @property
    def container(self) -> str:
        """Kind of object that samples of a model are drawn in: a DataArray after a Dataset."""
        return "dataarray" if self.kind == "dataset" else self.kind

    def wrap(self, values: np.ndarray, name: str | None = None) -> Any:
        """One value per sample, or one per sample and component, labelled like the input.

        Parameters
        ----------
        values : ndarray (n_samples,) or (n_samples, rank)
        name : str, optional
            Name of the returned Series or DataArray.

        Returns
        -------
        ndarray, Series, DataFrame or DataArray
            A DataArray for a DataArray and for a Dataset; a column or frame of the library of another frame. Columns of
            a DataFrame, or the coordinate "component" of a DataArray, are the numbers 0 to rank - 1 (text in frames of
            other libraries). A coordinate of that name along the samples is called "component_" in what is returned.
        """
        values = self._checked(values)
        components = range(values.shape[1]) if values.ndim == 2 else None
        if self.kind in (POLARS, ARROW):
            if components is not None:
                return made_frame(self.kind, [str(r) for r in components], values)
            library = import_module(self.kind)
            return library.array(values) if self.kind == ARROW else library.Series(name or "", values)
        second: dict[Hashable, Any] = {} if components is None else {COMPONENT_DIM: components}
        if self.template is None:
            return labelled(values, {SAMPLE_DIM: self.index, **second}, self.kind, name)
        kept = self.template.coords.to_dataset()
        kept = kept.drop_vars([each for each in kept.coords if not set(kept[each].dims) <= set(self.sample_dims)])
        renamed = COMPONENT_DIM
        while second and renamed in kept.coords:  # one of that name is along the samples, and the dimension needs it
            renamed += "_"
        if renamed != COMPONENT_DIM:
            kept = kept.rename({COMPONENT_DIM: renamed})
        axes: dict[Hashable, Any] = {**dict.fromkeys(self.sample_dims), **second}
        return labelled(self._unstacked(values), axes, "dataarray", name, kept.coords)

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
        values = self._checked(values)
        if values.shape[1:] != (len(self.positions),):
            raise InvalidInputError(f"Values have shape {values.shape}; expected {len(self.positions)} variables.")
        ordered = values[:, np.argsort(self.positions)]
        if self.columns is not None:
            return made_frame(self.kind, self.columns, ordered, self.value_labels, self.index)
        if self.kind == "dataset":
            data = {}
            for name, column, own in zip(self.template, ordered.T, self.value_labels, strict=True):
                entries = self._unstacked(column if own is None else own.decode(column))
                data[name] = entries.transpose([self.sample_dims.index(dim) for dim in self.template[name].dims])
            return self.template.copy(deep=False, data=data)
        ordered = decoded(ordered, self.value_labels)
        if self.template is None:
            return ordered
        last = len(self.sample_dims)
        order = [self.sample_dims.index(dim) if dim in self.sample_dims else last for dim in self.template.dims]
        return self.template.copy(deep=False, data=self._unstacked(ordered).transpose(order))

    def _unstacked(self, values: np.ndarray) -> np.ndarray:
        """Values (n_samples, ...) along all dimensions of the samples."""
        return values.reshape(*(self.template.sizes[dim] for dim in self.sample_dims), *values.shape[1:])

    def _checked(self, values: np.ndarray) -> np.ndarray:
        if not hasattr(values, "__dask_graph__"):  # which is not computed here
            values = np.asarray(values)
        if values.ndim not in (1, 2) or values.shape[0] != self.n_samples:
            raise InvalidInputError(f"Values have shape {values.shape}; expected {self.n_samples}, one for a sample.")
        return values


def empty_copy(X: xr.DataArray | xr.Dataset) -> Any:
    """Names, coordinates and attributes of an object of xarray around zeros that take no memory."""
    if isinstance(X, xr.DataArray):
        return xr.DataArray(np.broadcast_to(False, X.shape), X.coords, X.dims, name=X.name, attrs=X.attrs)
    data = {name: (x.dims, np.broadcast_to(False, x.shape), x.attrs) for name, x in X.data_vars.items()}
    return X.coords.to_dataset().assign_attrs(X.attrs).assign(data)


def made_frame(
    kind: str, names: Any, values: np.ndarray, value_labels: Sequence[ValueLabels | None] = (), index: Any = None
) -> Any:
    """A frame of this library with these columns, from an array (n_samples, n_columns); codes become labels.

    A table of pyarrow keeps the index of a DataFrame of pandas, if it has one, as pandas writes it.
    """
    if kind == "dataframe":
        return pandas_frame(values, index, names, value_labels)
    library = import_module(kind)
    texts = [str(name) for name in names]
    if kind == ARROW:
        made = pandas_frame(values, index, pd.Index(texts), value_labels)
        table = library.Table.from_pandas(made, preserve_index=False if index is None else None)
        plain = {library.large_string(): library.string()}
        fields = [field.with_type(plain.get(field.type, field.type)) for field in table.schema]
        return table.cast(library.schema(fields, table.schema.metadata))
    columns: dict[str, Any] = dict(zip(texts, np.array(values.T, order="C"), strict=True))
    kinds = {TEXT: lambda _: library.String, CATEGORY: lambda _: library.Categorical, ORDERED: library.Enum}
    for name, own in zip(texts, value_labels, strict=False):
        if own is not None:
            columns[name] = library.Series(name, own.decode(columns[name]).tolist(), dtype=kinds[own.kind](own.labels))
    return library.DataFrame(columns)


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
    template = columns = None
    if container == "dataarray":
        dims = (SAMPLE_DIM, "variable")
        template = xr.DataArray(np.broadcast_to(False, X.shape), {"variable": _coordinate(variables)}, dims)
    elif container != "array":
        columns = pd.Index(list(variables), tupleize_cols=False)
    own = tuple(value_labels.get(name) for name in variables)
    labels = SampleLabels(len(X), tuple(range(len(own))), container, columns, None, template, value_labels=own)
    return labels.wrap_variables(X), labels.wrap(components, COMPONENT_DIM)


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
    second = {COMPONENT_DIM: range(values.shape[-1])} if values.ndim > np.ndim(x) else {}
    if isinstance(x, pd.Series):
        return labelled(values, {SAMPLE_DIM: x.index, **second}, "dataframe", name)
    if isinstance(x, xr.DataArray):
        coords = x.drop_vars(COMPONENT_DIM, errors="ignore").coords if second else x.coords
        return labelled(values, {**dict.fromkeys(x.dims), **second}, "dataarray", name, coords)
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


def labelled(
    values: np.ndarray, axes: Mapping[Any, Any], container: str, name: str | None = None, coords: Any = None
) -> Any:
    """Values with names along their dimensions; bare for other kinds of objects than these.

    Parameters
    ----------
    values : ndarray
    axes : mapping from dimension to names
        An Index as it is; None where there are none, or where `coords` have them.
    container : {"dataframe", "dataarray"} or another
        One or two dimensions of a DataFrame.
    name : str, optional
        Of the Series or DataArray.
    coords : coordinates of xarray, optional
        Others of the DataArray.
    """
    if container == "dataframe":
        indexes: list[Any] = [
            names if names is None or isinstance(names, pd.Index) else pd.Index(names, name=dim, tupleize_cols=False)
            for dim, names in axes.items()
        ]
        return pd.Series(values, indexes[0], name=name) if len(indexes) == 1 else pd.DataFrame(values, *indexes)
    if container == "dataarray":
        own = {dim: _coordinate(names) for dim, names in axes.items() if names is not None}
        return xr.DataArray(values, coords, tuple(axes), name=name).assign_coords(own)
    return values


def _coordinate(names: Sequence[Hashable]) -> Any:
    """Names as a coordinate: numbers and text as they are, anything else as objects, tuples whole."""
    if isinstance(names, range):
        return np.array(names)
    objects = np.empty(len(names), dtype=object)
    objects[:] = names
    return objects.tolist() if all(isinstance(name, str) for name in names) else objects


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


def refuse_repeated(names: Sequence[Hashable]) -> None:
    """Refuse names of variables that occur more than once."""
    if repeated := [name for name, n_times in Counter(names).items() if n_times > 1]:
        raise InvalidInputError(f"Variable name(s) {listed(repeated)} occur more than once; rename the columns.")


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
        named = listed(names[n] for n in found)
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
    raise InvalidInputError(f"Variable {shown(variable)} is unknown; expected one of {listed(names)}.")


def aligned(values: Any, like: Any, what: str = "sample_weight", of: str = "X") -> Any:
    """One value per sample in the order of the samples, where both have an index or dimensions.

    Parameters
    ----------
    values : Series, DataArray or anything else
        A DataArray may lack some dimensions of `like`, along which its values are repeated.
    like : DataFrame, Series, DataArray or anything else
    what, of : str
        What the two are called in a message.

    Returns
    -------
    Series, ndarray or anything else
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
    differs = f"{what} is a {type(values).__name__} whose index differs from that of {of}; expected the same samples."
    if isinstance(values, xr.DataArray) and isinstance(like, xr.DataArray) and set(values.dims) <= set(like.dims):
        try:
            return xr.align(like, values, join="left")[1].broadcast_like(like).transpose(*like.dims).values.ravel()
        except ValueError as error:
            raise InvalidInputError(f"{differs} Pass an array to match by position.") from error
    if not isinstance(values, pd.Series) or not isinstance(like, pd.DataFrame | pd.Series):
        return values
    if values.index.equals(like.index) or len(values) != len(like):
        return values
    both_unique = values.index.is_unique and like.index.is_unique
    if not both_unique or set(values.index) != set(like.index):
        raise InvalidInputError(f"{differs} Pass an array to match by position.")
    return values.loc[like.index]
