"""Fitted models as netCDF files; never pickle."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xarray as xr

from tensorly_smp.exceptions import FileFormatError, InvalidInputError, MissingDependencyError
from tensorly_smp.results import factors_from_dataset

if TYPE_CHECKING:
    from tensorly_smp.estimator import SmoothProductMixture

FORMAT = "tensorly_smp.SmoothProductMixture"
FORMAT_VERSION = 1


def save_model(model: SmoothProductMixture, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator: its ``result_`` and, as JSON, its parameters."""
    _require_h5netcdf()
    dataset = model.result_.assign_attrs(
        format=FORMAT, format_version=FORMAT_VERSION, parameters=json.dumps(_plain_parameters(model))
    )
    target = Path(path)
    # Written beside the target and renamed, so that no reader ever sees half a file.
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    os.close(handle)
    try:
        dataset.to_netcdf(temporary, engine="h5netcdf")
        os.replace(temporary, target)
    finally:
        Path(temporary).unlink(missing_ok=True)


def load(path: str | os.PathLike[str]) -> SmoothProductMixture:
    """Read a model that :meth:`SmoothProductMixture.save` wrote.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    SmoothProductMixture
        Fitted; predictions equal those of the saved model to the last bit.

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
    _require_h5netcdf()
    source = Path(path)
    if not source.exists():
        raise FileNotFoundError(f"There is no file {source}.")
    try:
        with xr.open_dataset(source, engine="h5netcdf") as opened:
            dataset = opened.load()
    except Exception as error:  # h5py raises many kinds for damaged files
        raise FileFormatError(f"{source} is not a readable netCDF-4 file: {error}.") from error
    return _model_from_dataset(dataset, str(source))


def _model_from_dataset(dataset: xr.Dataset, source: str) -> SmoothProductMixture:
    from tensorly_smp.estimator import SmoothProductMixture

    if dataset.attrs.get("format") != FORMAT:
        raise FileFormatError(f"{source} was not written by SmoothProductMixture.save.")
    version = dataset.attrs.get("format_version")
    if version != FORMAT_VERSION:
        raise FileFormatError(f"{source} has format version {version}; this release reads version {FORMAT_VERSION}.")
    try:
        parameters = json.loads(dataset.attrs["parameters"])
        model = SmoothProductMixture(**parameters)
        if parameters.get("binning") == "given":
            model.set_params(binning=factors_from_dataset(dataset).binning)
        for name in ("format", "format_version", "parameters"):
            del dataset.attrs[name]
        model._set_fitted(dataset, factors_from_dataset(dataset))
        return model
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise FileFormatError(f"{source} is damaged: {error}.") from error


def _plain_parameters(model: SmoothProductMixture) -> dict[str, Any]:
    """Constructor parameters that JSON can hold; objects that only steer a fit are left out."""
    parameters = model.get_params(deep=False)
    if not isinstance(parameters["binning"], str):
        parameters["binning"] = "given"
    for name in ("callback", "init", "random_state", "triples"):
        if not isinstance(parameters[name], str | int | None):
            del parameters[name]
    try:
        return json.loads(json.dumps(parameters, default=_plain))
    except TypeError as error:
        raise InvalidInputError(f"The model cannot be saved: {error}.") from error


def _plain(value: Any) -> Any:
    """NumPy numbers and arrays for JSON."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a parameter is of type {type(value).__name__}, expected numbers, strings or mappings of them")


def _require_h5netcdf() -> None:
    try:
        import h5netcdf  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(
            'Reading and writing files needs h5netcdf: install the extra, pip install "tensorly_smp[io]".'
        ) from error
