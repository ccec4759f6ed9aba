"""Fitted models as netCDF files; never pickle."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from tensorly_smp.exceptions import FileFormatError, InvalidInputError, InvalidTypeError, MissingDependencyError

if TYPE_CHECKING:
    from tensorly_smp.estimator import SmoothProductMixture

FORMAT = "tensorly_smp.SmoothProductMixture"
FORMAT_VERSION = 1

#: Attributes that the file has and ``result_`` has not.
_FILE_ATTRIBUTES = ("format", "format_version", "parameters", "variable_names", "sha256")


def save_model(model: SmoothProductMixture, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator: its ``result_`` and, as JSON, its parameters and the names of its variables.

    Parameters that only steer a fit and are objects (``callback``, ``init`` if it is factors, ``random_state`` if it
    is a generator) are left out: a loaded model has their defaults.

    Raises
    ------
    OSError
        The folder does not exist, or cannot be written to; an earlier file of that name is left as it was.
    InvalidInputError
        A parameter, or the name of a variable, is something that a file cannot hold.
    MissingDependencyError
        h5netcdf is not installed.
    """
    target = _as_path(path)
    _require_h5netcdf()
    dataset = model.result_.assign_attrs(
        format=FORMAT,
        format_version=FORMAT_VERSION,
        parameters=_to_json(_saved_parameters(model), "parameters"),
        variable_names=_to_json(model.binning_.variables, "names of the variables"),
    )
    dataset.attrs["sha256"] = _digest(dataset)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {target.parent} to write {target.name} to.")
    # Written beside the target and renamed, so that no reader ever sees half a file. In a folder of its own, so that
    # the file gets the usual permissions (a temporary file is for its owner only).
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
        written = Path(folder) / "model.nc"
        try:
            dataset.to_netcdf(written, engine="h5netcdf")
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"The model cannot be written as netCDF: {error}.") from error
        os.replace(written, target)


def load(path: str | os.PathLike[str]) -> SmoothProductMixture:
    """Read a model that :meth:`SmoothProductMixture.save` wrote.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    SmoothProductMixture
        Fitted; predictions equal those of the saved model to the last bit. It has no ``labels_``: these belong to the
        samples of the fit, so ask for ``predict(X)``.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    FileFormatError
        The file is damaged, or was not written by this package.
    MissingDependencyError
        h5netcdf is not installed.

    Examples
    --------
    >>> import os, tempfile
    >>> import tensorly_smp as smp
    >>> data = smp.datasets.make_smooth_mixture("gaussian", 500, 4, 2, random_state=0)
    >>> model = smp.SmoothProductMixture(n_components=2, n_bins=8, random_state=0).fit(data.X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.nc")
    ...     model.save(path)
    ...     again = smp.load(path)
    >>> bool((again.predict(data.X) == model.predict(data.X)).all())
    True
    """
    source = _as_path(path)
    _require_h5netcdf()
    if not source.exists():
        raise FileNotFoundError(f"There is no file {source}.")
    try:
        _probe(source)
        with xr.open_dataset(source, engine="h5netcdf") as opened:
            dataset = opened.load()
    except FileFormatError:
        raise
    except Exception as error:  # h5py raises many kinds for damaged files
        raise FileFormatError(f"{source} is not a readable netCDF-4 file: {error}.") from error
    return _model_from_dataset(dataset, str(source))


def _probe(source: Path) -> None:
    """Walk through the file, and see that it is one of ours.

    Ahead of h5netcdf, whose half-made objects print errors of their own when they are collected.
    """
    import h5py

    with h5py.File(source, "r") as file:
        file.visititems(lambda _, item: list(item.attrs) and None)
        if str(file.attrs.get("format")) != FORMAT:
            raise FileFormatError(f"{source} was not written by SmoothProductMixture.save.")


def _model_from_dataset(dataset: xr.Dataset, source: str) -> SmoothProductMixture:
    from tensorly_smp.estimator import SmoothProductMixture

    version = dataset.attrs.get("format_version")
    if str(version) != str(FORMAT_VERSION):
        raise FileFormatError(f"{source} has format version {version}; this release reads version {FORMAT_VERSION}.")
    try:
        if _digest(dataset) != dataset.attrs["sha256"]:
            raise ValueError("its content is not what was written")
        parameters = _decoded(json.loads(dataset.attrs["parameters"]))
        names = _decoded(json.loads(dataset.attrs["variable_names"]))
        for name in _FILE_ATTRIBUTES:
            del dataset.attrs[name]
        model = SmoothProductMixture(**parameters)
        model._set_fitted(dataset, names)
        if model.binning == "given":
            model.set_params(binning=model.binning_)
        return model
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RecursionError) as error:
        raise FileFormatError(f"{source} is damaged or was edited: {type(error).__name__}, {error}.") from error


def _digest(dataset: xr.Dataset) -> str:
    """Checksum of everything in a Dataset: HDF5 guards its own structure, but neither numbers nor strings."""
    digest = hashlib.sha256()
    for name, variable in sorted(dataset.variables.items(), key=str):
        values = variable.values
        if values.dtype.kind in "if":
            content = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).tobytes()
        else:
            content = "\0".join(map(str, values.ravel().tolist())).encode()
        attributes = sorted(f"{key}={value}" for key, value in variable.attrs.items())
        digest.update(f"{name} {variable.dims} {values.shape} {attributes}".encode() + content)
    digest.update(str(sorted(f"{key}={value}" for key, value in dataset.attrs.items() if key != "sha256")).encode())
    return digest.hexdigest()


def _saved_parameters(model: SmoothProductMixture) -> dict[str, Any]:
    """Constructor parameters, without objects that only steer a fit."""
    parameters = model.get_params(deep=False)
    if not isinstance(parameters["binning"], str):
        parameters["binning"] = "given"
    if not isinstance(parameters["init"], str):
        del parameters["init"]
    if not isinstance(parameters["random_state"], int | np.integer | None):
        del parameters["random_state"]
    del parameters["callback"]
    return parameters


def _to_json(value: Any, what: str) -> str:
    try:
        return json.dumps(_encoded(value))
    except TypeError as error:
        raise InvalidInputError(f"The model cannot be saved, because of its {what}: {error}.") from error


def _encoded(value: Any) -> Any:
    """What JSON can hold; unlike in plain JSON, tuples stay tuples, and keys of mappings that are numbers, numbers."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {"mapping": [[_encoded(key), _encoded(each)] for key, each in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [_encoded(each) for each in value]}
    if isinstance(value, list):
        return [_encoded(each) for each in value]
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"{value!r} is of type {type(value).__name__}; expected strings or numbers")


def _decoded(value: Any) -> Any:
    """Inverse of `_encoded`."""
    if isinstance(value, list):
        return [_decoded(each) for each in value]
    if not isinstance(value, dict):
        return value
    if "tuple" in value:
        return tuple(_decoded(value["tuple"]))
    return {_decoded(key): _decoded(each) for key, each in value["mapping"]}


def _as_path(path: Any) -> Path:
    try:
        return Path(path)
    except TypeError as error:
        raise InvalidTypeError(f"path is {type(path).__name__}; expected a string or a path object.") from error


def _require_h5netcdf() -> None:
    try:
        import h5netcdf  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(
            'Reading and writing files needs h5netcdf: install the extra, pip install "tensorly_smp[io]".'
        ) from error
