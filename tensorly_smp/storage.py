"""Fitted models as netCDF files and zarr stores; never pickle."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xarray as xr

from tensorly_smp.checks import import_extra
from tensorly_smp.exceptions import FileFormatError, InvalidInputError
from tensorly_smp.file_content import dataset_of_model, model_of_dataset
from tensorly_smp.file_probes import probe_netcdf, probe_zarr
from tensorly_smp.files import as_path, require_folder, written_whole

if TYPE_CHECKING:
    from tensorly_smp.file_content import AnyMixture

ZARR_SUFFIX = ".zarr"


def save_model(model: AnyMixture, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator: its ``result_`` and, as JSON, its parameters and the names of its variables.

    A path that ends in ".zarr" becomes a zarr store (a folder, of format 2), any other a netCDF-4 file. It is written
    beside the path and then renamed. Parameters that only steer a fit and are objects (``callback``, ``init`` if it is
    factors, ``random_state`` if it is a generator) are left out: a loaded model has their defaults.

    Raises
    ------
    OSError
        The folder does not exist, or cannot be written to; there is a folder of that name that is no saved model. What
        was there is left as it was.
    InvalidInputError
        A parameter, or the name of a variable, is something that a file cannot hold.
    MissingDependencyError
        h5netcdf, or zarr, is not installed.
    """
    target = as_path(path)
    is_zarr = target.suffix == ZARR_SUFFIX
    require_format(target)
    dataset = dataset_of_model(model)
    require_folder(target)
    _refuse_to_replace(target, is_zarr)
    with written_whole(target) as written:
        try:
            _write_zarr(dataset, written) if is_zarr else dataset.to_netcdf(written, engine="h5netcdf")
        except (TypeError, ValueError) as error:
            kind = "zarr" if is_zarr else "netCDF"
            raise InvalidInputError(f"The model cannot be written as {kind}: {error}.") from error


def load(path: str | os.PathLike[str]) -> AnyMixture:
    """Read a model that its method ``save`` wrote.

    Parameters
    ----------
    path : path-like
        Of a netCDF file, or of a zarr store (a folder), whatever its name.

    Returns
    -------
    SmoothProductMixture or UnmixedProductMixture
        Fitted; predictions equal those of the saved model to the last bit. It has no ``labels_``: these belong to the
        samples of the fit, so ask for ``predict(X)``.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    FileFormatError
        The file is damaged, or was not written by this package.
    MissingDependencyError
        h5netcdf, or zarr, is not installed.

    Notes
    -----
    Files of strangers are safe to read: nothing in them is executed, and reading takes no more memory than a small
    multiple of their size. A checksum guards against damage, not against forgery: who can write the file can write any
    model.

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
    source = as_path(path)
    if not source.exists():
        raise FileNotFoundError(f"There is no file {source}.")
    is_zarr = source.is_dir()
    options: dict[str, Any] = {"engine": "zarr", "consolidated": False} if is_zarr else {"engine": "h5netcdf"}
    _require("zarr" if is_zarr else "h5netcdf")
    try:
        probe_zarr(source) if is_zarr else probe_netcdf(source)
        with xr.open_dataset(source, decode_times=False, **options) as opened:
            dataset = opened.load()
    except Warning:  # of a program that turns them into errors
        raise
    except Exception as error:  # h5py and zarr raise many kinds for damaged files
        kind = "zarr store" if is_zarr else "netCDF-4 file"
        if isinstance(error, FileFormatError) and str(source) in str(error):
            raise
        reason = str(error).strip("'\".")
        raise FileFormatError(f"{source} is not a readable {kind} of a model: {reason}.") from error
    return model_of_dataset(dataset, str(source))


def require_format(target: Path) -> None:
    """Raise MissingDependencyError if what writes this kind of file is not installed."""
    _require("zarr" if target.suffix == ZARR_SUFFIX else "h5netcdf")


def _write_zarr(dataset: xr.Dataset, folder: Path) -> None:
    # Without compression and with every chunk, so that a store holds all that it declares; see file_probes.
    plain = {name: {"compressors": None, "filters": None} for name in dataset.variables}
    dataset.to_zarr(folder, mode="w-", zarr_format=2, consolidated=True, encoding=plain, write_empty_chunks=True)


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
