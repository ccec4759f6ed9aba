"""Models as Datasets that have all of them, and as files: netCDF-3, written by SciPy; never pickle."""

from __future__ import annotations

import datetime as dt
import hashlib
import io
import json
import os
import secrets
import stat
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import xarray as xr
from xarray.backends import ScipyDataStore

from tensorly_smp._support.representations import shown
from tensorly_smp._support.result_schema import STORED
from tensorly_smp.exceptions import FileFormatError, InvalidInputError, InvalidTypeError

FORMAT_VERSION = 2
MODEL_SUFFIX = ".nc"
#: Attributes of the Dataset of a model beside those of its fit.
_HEAD = ("format", "format_version", "parameters", "variable_names", "sha256")
#: Attributes that xarray writes for itself.
_OF_ENCODING = ("_FillValue", "_Encoding", "coordinates")
#: Attributes that netCDF-3 cannot hold are JSON after this mark.
_JSON = "as JSON: "
#: Attribute of a variable of another dtype than the one in the file.
_DTYPE = "dtype_in_memory"
#: The classes whose Datasets are read, by name.
_CLASSES: dict[str, Any] = {}
_Class = TypeVar("_Class", bound=type)


def storable(cls: _Class) -> _Class:
    """Let :func:`load` read Datasets of a class: a decorator.

    The class has ``_from_dataset(dataset, names, parameters)``, the inverse of :func:`described`.
    """
    _CLASSES[f"tensorly_smp.{cls.__name__}"] = cls
    return cls


def described(dataset: xr.Dataset, cls: type, names: Sequence[Hashable], parameters: Mapping[str, Any]) -> xr.Dataset:
    """The Dataset of a model of a class, with what arrays do not tell: names of the variables and parameters.

    Raises
    ------
    InvalidInputError
        A parameter, a name or an attribute is neither text, number, time, nor made of these.
    """
    return dataset.assign_attrs(
        format=f"tensorly_smp.{cls.__name__}",
        format_version=FORMAT_VERSION,
        parameters=_to_json(parameters, "parameters"),
        variable_names=_to_json(names, "names of the variables"),
    )


def save(dataset: xr.Dataset, path: str | os.PathLike[str]) -> None:
    """Write the Dataset of a model to a netCDF-3 file, whole or not at all, after it has been read back in memory.

    Raises
    ------
    OSError
        The folder does not exist, or cannot be written to; the disk is full. What was there is left as it was.
    InvalidInputError
        The Dataset is not one that can be loaded again.
    """
    target = as_path(path)
    require_writable(target)
    with _errors_as(InvalidInputError, "The model cannot be written as netCDF"):
        content = _to_bytes(dataset)
        _from_bytes(content, "The model to be saved")
    write_whole(target, content)


def load(source: str | os.PathLike[str] | xr.Dataset) -> Any:
    """Make a model again, from the file that its method ``save`` wrote or from its ``to_dataset()``.

    Parameters
    ----------
    source : path-like or Dataset
        A file; or a Dataset that ``to_dataset()`` returned, whatever it was kept in since: any store of xarray's holds
        it, such as zarr, ``model.to_dataset().to_zarr(path)`` and ``smp.load(xarray.open_zarr(path))``.

    Returns
    -------
    SmoothProductMixture, UnmixedProductMixture or CoupledSolution
        What it was made of. A model is fitted, and its predictions equal those of the saved one to the last bit. It has
        no ``labels_``: these belong to the samples of the fit, so ask for ``predict(X)``. The arrays of a solution are
        those of NumPy.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    FileFormatError
        The file, or the Dataset, is damaged, was edited, is of another release or no model.
    OSError
        The file cannot be read, or is a device or a pipe.

    Notes
    -----
    Files of strangers are safe to read: nothing in them is executed, and reading takes no more memory than a small
    multiple of their size. A checksum guards against damage, not against forgery: who can write the file can write any
    model. Datasets have no checksum, unless they were read from a file of ``save``.

    Examples
    --------
    >>> import os, tempfile
    >>> import tensorly_smp as smp
    >>> data = smp.datasets.make_smooth_mixture("gaussian", 500, 4, 2, random_state=0)
    >>> model = smp.SmoothProductMixture(n_components=2, n_bins=8, random_state=0).fit(
    ...     data.X
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.nc")
    ...     model.save(path)
    ...     again = smp.load(path)
    >>> bool((again.predict(data.X) == model.predict(data.X)).all())
    True
    >>> smp.load(model.to_dataset()).n_components
    2
    """
    if isinstance(source, xr.Dataset):
        return _made(source, "The Dataset", is_signed="sha256" in source.attrs)
    path = as_path(source)
    require_regular(path, "the file of a model")
    return _from_bytes(path.read_bytes(), str(path))


# ---- a Dataset to bytes and back ----


def _to_bytes(dataset: xr.Dataset) -> bytes:
    """The content of a file: what netCDF-3 has no type for is held in another one, whose name tells."""
    dataset = _plain(dataset)
    dataset.attrs["sha256"] = _digest(dataset)
    held = {}
    for name, variable in dataset.variables.items():
        dtype = STORED.get(str(variable.dtype), "str")
        is_long = dtype == "int32" and np.any(np.abs(variable.values) >= 2**31)
        values = variable.values.astype("str" if is_long else dtype)
        attrs = {key: _held_attribute(value) for key, value in variable.attrs.items()}
        if values.dtype != variable.dtype and values.dtype.kind + variable.dtype.kind != "UU":
            attrs[_DTYPE] = str(variable.dtype)
        held[name] = (variable.dims, values, attrs)
    attrs = {name: _held_attribute(value) for name, value in dataset.attrs.items()}
    file = _with_coords(held, dataset.coords, attrs)
    return bytes(file.to_netcdf(engine="scipy", format="NETCDF3_64BIT"))  # type: ignore[arg-type]


def _held_attribute(value: Any) -> Any:
    """An attribute as netCDF-3 holds it: a number or text, JSON for others."""
    is_number = type(value) is float or (type(value) is int and -(2**31) <= value < 2**31)
    if is_number or (isinstance(value, str) and value):
        return value
    return _JSON + _to_json(value, "attributes")


def _from_bytes(content: bytes, source: str) -> Any:
    """The model in the content of a file."""
    if not content.startswith(b"CDF"):
        raise FileFormatError(f"{source} was not written by the method save of a model; expected a netCDF-3 file.")
    with _errors_as(FileFormatError, f"{source} is damaged"):
        dataset = _read(content)
    return _made(dataset, source, is_signed=True)


@contextmanager
def _errors_as(kind: type[InvalidInputError], words: str) -> Iterator[None]:
    """A block in which errors of others, of which xarray and SciPy raise many kinds, become errors of one kind."""
    try:
        yield
    except (kind, MemoryError, Warning):  # warnings of a program that turns them into errors
        raise
    except Exception as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise kind(f"{words}: {type(error).__name__}, {reason}.") from error


def _read(content: bytes) -> xr.Dataset:
    """The Dataset in a netCDF-3 file, not by ``xarray.open_dataset``, which adds a filter to those of all warnings."""
    variables, attrs = ScipyDataStore(io.BytesIO(content)).load()
    held = {}
    named = set(str(attrs.get("coordinates", "")).split())
    for name, variable in variables.items():
        values = np.array(variable.values)
        dims = variable.dims
        if values.dtype.kind == "S":  # characters along the last axis
            values = np.ascontiguousarray(values).view(f"S{values.shape[-1]}")[..., 0]
            dims = dims[:-1]
        named |= set(str(variable.attrs.get("coordinates", "")).split())
        kept = {key: value for key, value in variable.attrs.items() if key not in _OF_ENCODING}
        held[name] = (dims, values, kept)
    coords = [name for name, (dims, *_) in held.items() if dims == (name,) or name in named]
    return _with_coords(held, coords, {key: value for key, value in attrs.items() if key not in _OF_ENCODING})


def _made(dataset: xr.Dataset, source: str, is_signed: bool) -> Any:
    """The model of a Dataset.

    Raises
    ------
    FileFormatError
        The Dataset is of another version, not what was written, or no model.
    """
    cls = _CLASSES.get(str(dataset.attrs.get("format", "")))
    if cls is None:
        raise FileFormatError(f"{source} was not written by the method save, or to_dataset, of a model.")
    version = str(dataset.attrs.get("format_version"))[:20]
    if version != str(FORMAT_VERSION):
        expected = f"this release reads version {FORMAT_VERSION}. Take that release, or fit anew"
        raise FileFormatError(f"{source} has format version {version}; {expected}.")
    with _errors_as(FileFormatError, f"{source} is damaged or was edited"):
        dataset = _plain(dataset)
        if is_signed and _digest(dataset) != dataset.attrs["sha256"]:
            raise ValueError("its content is not what was written")
        head = {name: dataset.attrs.pop(name, None) for name in _HEAD}
        names = _decoded(json.loads(head["variable_names"]))
        parameters = _decoded(json.loads(head["parameters"]))
        with np.errstate(all="raise", under="ignore"):
            return cls._from_dataset(dataset, names, parameters)


def _plain(dataset: xr.Dataset) -> xr.Dataset:
    """A copy in memory, of values and attributes as a fit makes them, whatever store it is from."""
    made = {}
    for name, variable in dataset.variables.items():
        values = np.array(variable.values)
        attrs = {key: _plain_attribute(value) for key, value in variable.attrs.items()}
        if values.dtype.kind in "OST":
            text = [each.decode() if isinstance(each, bytes) else str(each) for each in values.ravel().tolist()]
            values = np.array(text, dtype=str).reshape(values.shape)
        made[name] = (variable.dims, values.astype(attrs.pop(_DTYPE, values.dtype)), attrs)
    return _with_coords(made, dataset.coords, {key: _plain_attribute(value) for key, value in dataset.attrs.items()})


def _with_coords(contents: Mapping[Any, Any], coords: xr.Coordinates | Any, attrs: Mapping[Any, Any]) -> xr.Dataset:
    data = {name: content for name, content in contents.items() if name not in coords}
    return xr.Dataset(data, {name: contents[name] for name in coords}, attrs)


def _plain_attribute(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_JSON):
        return _decoded(json.loads(value.removeprefix(_JSON)))
    return np.array(value) if isinstance(value, list) else value.item() if isinstance(value, np.generic) else value


def _digest(dataset: xr.Dataset) -> str:
    """Checksum of everything in a Dataset, by values: it does not depend on the dtypes that hold them in a file."""
    found = hashlib.sha256()
    for name, variable in sorted(dataset.variables.items(), key=lambda item: str(item[0])):
        values = variable.values
        if values.dtype.kind == "f":  # there are many NaN, and files return the usual one
            content = np.where(np.isnan(values), np.nan, values).astype("<f8").tobytes()
        elif values.dtype.kind in "iub":
            content = values.astype("<i8").tobytes()
        else:
            content = json.dumps(values.astype(str).ravel().tolist()).encode()
        head = [str(name), [str(dim) for dim in variable.dims], list(values.shape), _attributes(variable.attrs)]
        found.update(json.dumps(head).encode() + content)
    found.update(json.dumps(_attributes(dataset.attrs)).encode())
    return found.hexdigest()


def _attributes(attrs: Mapping[Any, Any]) -> list[list[str]]:
    return sorted([str(name), _to_json(value, "attributes")] for name, value in attrs.items() if name != "sha256")


# ---- values as JSON ----


#: Times, which may be names of columns: by class, what makes the text of one, and the time of that text.
_TIMES: dict[str, tuple[Callable[[Any], Sequence[Any]], Callable[..., Any]]] = {
    "Timestamp": (lambda t: (t.isoformat(), t.unit), lambda text, unit: pd.Timestamp(text).as_unit(unit)),
    "date": (lambda t: (t.isoformat(),), dt.date.fromisoformat),
    "datetime": (lambda t: (t.isoformat(),), dt.datetime.fromisoformat),
}


def _to_json(value: Any, what: str) -> str:
    try:
        return json.dumps(_encoded(value))
    except TypeError as error:
        raise InvalidInputError(f"The model cannot be saved, because of its {what}: {error}.") from error


def _encoded(value: Any) -> Any:
    """Value in a form for JSON in which tuples stay tuples, arrays arrays, and keys that are numbers numbers."""
    kind = type(value).__name__
    if kind in _TIMES and not pd.isna(value):
        return {"time": [kind, *_TIMES[kind][0](value)]}
    if isinstance(value, np.ndarray):
        return {"array": [_encoded(value.tolist()), str(value.dtype)]}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Mapping):
        return {"mapping": [[_encoded(key), _encoded(entry)] for key, entry in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [_encoded(entry) for entry in value]}
    if isinstance(value, list):
        return [_encoded(entry) for entry in value]
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"{shown(value)} is of type {kind}; expected text, numbers or times")


def _decoded(value: Any) -> Any:
    """Inverse of `_encoded`."""
    if isinstance(value, list):
        return [_decoded(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    if "time" in value:
        kind, *text = value["time"]
        return _TIMES[kind][1](*text)
    if "array" in value:
        return np.array(*value["array"])
    if "tuple" in value:
        return tuple(_decoded(value["tuple"]))
    return {_decoded(key): _decoded(entry) for key, entry in value["mapping"]}


# ---- files that are there whole or not at all ----


def as_path(path: Any, name: str = "path") -> Path:
    """The path, or an error that says what is wrong with it."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise InvalidTypeError(f"{name} is {type(path).__name__}; expected a string or a path object.")
    if not os.fspath(path) or "\0" in os.fspath(path):
        raise InvalidInputError(f"{name} is empty, or has a null character; expected the path of a file.")
    return Path(path)


def require_regular(source: Path, name: str) -> None:
    """Raise an OSError unless `source` is a readable file, or a folder; devices and pipes might never end."""
    if not source.exists():
        raise FileNotFoundError(f"There is no file {source}.")
    if _is_special(source):
        raise OSError(f"{source} is a device, a pipe or a socket; expected {name}.")


def require_writable(target: Path) -> None:
    """Raise an OSError if it is clear beforehand that no file `target` can be written."""
    real = Path(os.path.realpath(target))
    if not real.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {target.parent} to write {target.name} to.")
    if real.is_dir():
        raise IsADirectoryError(f"{target} is a folder; expected the path of a file.")
    places = [real] * real.exists() + [real.parent] * (not _is_special(real))
    if denied := [place for place in places if not os.access(place, os.W_OK)]:
        raise PermissionError(f"{target} cannot be written: {denied[0]} is read-only.")


def write_whole(target: Path, content: bytes) -> None:
    """Write a file beside the target and rename it, so that no reader sees half of it and an error changes nothing.

    An earlier file keeps its permissions, and a symbolic link stays one: what it points to is replaced. Into a device
    or a pipe, such as ``/dev/stdout``, the content is written.

    Raises
    ------
    OSError
        The folder does not exist, or cannot be written to, or the disk is full.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from tensorly_smp.storage import write_whole
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(Path(folder) / "table.csv", b"x,y")
    ...     (Path(folder) / "table.csv").read_text()
    'x,y'
    """
    require_writable(target)
    real = Path(os.path.realpath(target))
    if _is_special(real):
        real.write_bytes(content)
        return
    beside = real.with_name(f".{secrets.token_hex(8)}.part")  # not by tempfile: it gets the usual permissions
    try:
        with beside.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # so that a full disk says so before the earlier file is replaced
        if real.exists():
            beside.chmod(stat.S_IMODE(real.stat().st_mode))
        os.replace(beside, real)
    finally:
        beside.unlink(missing_ok=True)


def _is_special(path: Path) -> bool:
    """True for a device, a pipe or a socket."""
    return path.exists() and not path.is_file() and not path.is_dir()
