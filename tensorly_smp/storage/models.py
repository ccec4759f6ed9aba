"""Fitted models as netCDF files and zarr stores; never pickle."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from tensorly_smp._support.checks import import_extra
from tensorly_smp.exceptions import FileFormatError, InvalidInputError
from tensorly_smp.storage.content import dataset_of_model, model_of_dataset
from tensorly_smp.storage.files import (
    as_path,
    interrupted_replacement,
    require_folder,
    require_regular,
    require_writable,
    written_whole,
)
from tensorly_smp.storage.probes import probe_netcdf, probe_zarr

#: A model is written as a zarr store if its path ends so, else as netCDF; a folder is read as a zarr store.
ZARR_SUFFIX = ".zarr"
#: A path that ends so promises another format.
_OTHER_SUFFIXES = frozenset(
    {".csv", ".json", ".joblib", ".npy", ".npz", ".parquet", ".pickle", ".pkl", ".xlsx"},
)


def save_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator: its ``result_`` and, as JSON, its parameters and the names of its variables.

    A path that ends in ".zarr" becomes a zarr store (a folder, of format 2), any other a netCDF-4 file; suffixes that
    promise another format, such as ".csv" and ".pkl", are refused. It is written beside the path, read back as
    :func:`load_model` does, and then renamed: what cannot be loaded is never saved.
    Attributes that were added to ``result_`` are kept. Parameters that only steer a fit and are objects
    (``callback``, ``init`` if it is factors, ``random_state`` if it is a generator) are left out: a loaded model
    has their defaults.

    Raises
    ------
    OSError
        The folder does not exist, or cannot be written to; the disk is full; there is a folder of that name that is no
        saved model. What was there is left as it was.
    InvalidInputError
        The path has the suffix of another format. A parameter, or the name of a variable, is something that a file
        cannot hold. ``result_`` was changed so that it is no longer that of a fit: variables, coordinates or dimensions
        were added.
    MissingDependencyError
        h5netcdf, or zarr, is not installed.
    """
    target = as_path(path)
    is_zarr = target.suffix == ZARR_SUFFIX
    _refuse_other_format(target)
    require_format(target)
    dataset = dataset_of_model(model)
    require_folder(target)
    _refuse_to_replace(target, is_zarr)
    require_writable(target, may_be_folder=is_zarr)
    kind = "zarr" if is_zarr else "netCDF"
    with written_whole(target) as written:
        try:
            _write_zarr(dataset, written) if is_zarr else _write_netcdf(dataset, written)
        except (OSError, MemoryError, Warning):
            raise
        except Exception as error:  # h5netcdf and zarr have kinds of their own
            raise InvalidInputError(f"The model cannot be written as {kind}: {str(error).rstrip('.')}.") from error
        try:
            _read(written, [type(model)])
        except FileFormatError as error:
            reason = str(error).replace(str(written), "the file")
            raise InvalidInputError(
                f"The model cannot be saved as {kind}, because it could not be loaded again: {reason} If result_ was "
                "changed after the fit, undo that; if not, please report it."
            ) from error


def load_model(path: str | os.PathLike[str], estimators: Sequence[Any]) -> Any:
    """The model of a file that :func:`save_model` wrote, of one of these estimator classes."""
    source = as_path(path)
    if not source.exists() and (earlier := interrupted_replacement(source)):
        source = earlier
    require_regular(source, "the file or the zarr store of a model")
    return _read(source, estimators)


def require_format(target: Path) -> None:
    """Raise MissingDependencyError if what writes this kind of file is not installed."""
    _require("zarr" if target.suffix == ZARR_SUFFIX else "h5netcdf")


def _refuse_other_format(target: Path) -> None:
    """Refuse a path whose suffix promises what is not written."""
    if target.suffix.lower() in _OTHER_SUFFIXES:
        raise InvalidInputError(
            f"path is {target}, but models are not saved as {target.suffix}; expected a path that ends in .nc (netCDF) "
            "or .zarr. predict, predict_proba and result_ give the clusters, posteriors and numbers to write elsewhere."
        )


def _read(source: Path, estimators: Sequence[Any]) -> Any:
    """The model of a file or a zarr store that exists."""
    is_zarr = source.is_dir()
    _require("zarr" if is_zarr else "h5netcdf")
    try:
        probe_zarr(source) if is_zarr else probe_netcdf(source)
        dataset = _plain_dataset(source, is_zarr)
    except (Warning, PermissionError, MemoryError):  # warnings of a program that turns them into errors
        raise
    except Exception as error:  # h5py and zarr raise many kinds for damaged files
        kind = "zarr store" if is_zarr else "netCDF-4 file"
        if isinstance(error, FileFormatError) and str(source) in str(error):
            raise
        reason = str(error).strip("'\".")
        raise FileFormatError(f"{source} is not a readable {kind} of a model: {reason}.") from error
    return model_of_dataset(dataset, str(source), estimators)


def _plain_dataset(source: Path, is_zarr: bool) -> xr.Dataset:
    """Content of a file, with nothing decoded but the mark of missing numbers, which is NaN.

    Not by ``xarray.open_dataset``, which adds a filter of warnings to those of the process.
    """
    from xarray.backends import H5NetCDFStore, ZarrStore

    store: Any
    if is_zarr:
        store = ZarrStore.open_group(str(source), mode="r", consolidated=False)
    else:
        store = H5NetCDFStore.open(str(source), mode="r")
    try:
        variables, attrs = store.load()
        held = {}
        for name, variable in variables.items():
            kept = {key: value for key, value in variable.attrs.items() if key != "_FillValue"}
            values = np.array(variable.values)
            held[name] = xr.Variable(variable.dims, values.astype(str) if values.dtype.kind in "OT" else values, kept)
    finally:
        store.close()
    coords = {name: variable for name, variable in held.items() if variable.dims == (name,)}
    return xr.Dataset({name: each for name, each in held.items() if name not in coords}, coords, dict(attrs))


def _write_netcdf(dataset: xr.Dataset, path: Path) -> None:
    """Made in memory, then written as bytes: on a full disk the HDF5 library would end the process at its exit."""
    import h5netcdf
    from xarray.backends import H5NetCDFStore

    buffer = io.BytesIO()
    with h5netcdf.File(buffer, "w") as file:
        dataset.dump_to_store(H5NetCDFStore(file))
    with path.open("wb") as written:
        written.write(buffer.getbuffer())
        written.flush()
        os.fsync(written.fileno())  # so that a full disk says so before the earlier file is replaced


def _write_zarr(dataset: xr.Dataset, folder: Path) -> None:
    """Made in memory too: after an error, zarr's threads would go on making files."""
    from zarr.storage import MemoryStore

    content: dict[str, Any] = {}
    # Without compression and with every chunk, so that a store holds all that it declares; see file_probes.
    plain = {name: {"compressors": None, "filters": None} for name in dataset.variables}
    options: dict[str, Any] = dict(zarr_format=2, consolidated=True, encoding=plain, write_empty_chunks=True)
    dataset.to_zarr(MemoryStore(content), mode="w-", **options)
    for name, held in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(held.to_bytes())


def _refuse_to_replace(target: Path, is_zarr: bool) -> None:
    """Folders are replaced only if they are saved models: someone's data may be in there."""
    if not target.is_dir():
        return
    if not is_zarr:
        raise IsADirectoryError(f"{target} is a folder; expected the path of a file.")
    try:
        probe_zarr(target)
    except Exception as error:
        raise FileExistsError(f"{target} is a folder, and no saved model that could be replaced: {error}") from error


def _require(package: str) -> None:
    if package == "zarr":
        import_extra(package, "zarr", "Reading and writing zarr stores")
    else:
        import_extra(package, "io", "Reading and writing files")
