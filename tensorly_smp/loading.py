"""Saved models are read again, whichever estimator they are of."""

from __future__ import annotations

import os

from tensorly_smp.estimator import SmoothProductMixture
from tensorly_smp.storage.models import load_model
from tensorly_smp.unmixed import UnmixedProductMixture


def load(path: str | os.PathLike[str]) -> SmoothProductMixture | UnmixedProductMixture:
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
    OSError
        The file cannot be read, or is a device or a pipe.
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
    >>> model = smp.SmoothProductMixture(n_components=2, n_bins=8, random_state=0).fit(
    ...     data.X
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.nc")
    ...     model.save(path)
    ...     again = smp.load(path)
    >>> bool((again.predict(data.X) == model.predict(data.X)).all())
    True
    """
    model: SmoothProductMixture | UnmixedProductMixture = load_model(
        path, (SmoothProductMixture, UnmixedProductMixture)
    )
    return model
