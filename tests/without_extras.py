"""pytest plugin for an installation without extras: what needs one is skipped, all else is run as ever.

PYTHONPATH=tests python -m pytest -p without_extras
"""

import re
from importlib.util import find_spec

import pytest

#: What extras and the tests themselves bring; one that is installed is nobody's excuse.
OPTIONAL = ("matplotlib", "tqdm", "h5netcdf", "h5py", "netCDF4", "zarr", "dask", "distributed", "numba", "torch", "jax")
OPTIONAL += ("tlviz", "palmerpenguins", "build", "sphinx")
LACKING = frozenset(name for name in OPTIONAL if find_spec(name) is None)
#: What the package's own errors tell to install, and for which package. None tells of `fast`, `torch` or `jax`: NumPy
#: does without the first, and of the other two it is Python's or TensorLy's error that names them.
EXTRAS = {"plot": "matplotlib", "progress": "tqdm", "dask": "dask"}


def lacking_module(text):
    """Name of a package that is not installed and that the text of an error blames, or None."""
    names = re.findall(r"No module named '?(\w+)", text)
    names += [EXTRAS[extra] for extra in re.findall(r'pip install "tensorly_smp\[(\w+)\]"', text) if extra in EXTRAS]
    return next((name for name in names if name in LACKING), None)


def texts_of(error):
    """Messages of an error and of those that led to it."""
    while error is not None:
        yield f"{error}"
        error = error.__cause__ or error.__context__


def skipped(report, name):
    """The report of a test, or of a module, that needs the package."""
    report.outcome = "skipped"
    path, line = (report.location[0], report.location[1]) if hasattr(report, "location") else (report.nodeid, None)
    report.longrepr = (path, line, f"Skipped: needs {name}")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """A module that imports such a package."""
    report = yield
    name = lacking_module(str(report.longrepr)) if report.failed else None
    return skipped(report, name) if name else report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A test that uses one, by itself or as the command line, which prints its errors."""
    report = yield
    if report.failed and call.excinfo is not None:
        texts = [*texts_of(call.excinfo.value), *(text for title, text in report.sections if "stderr" in title)]
        name = next(filter(None, map(lacking_module, texts)), None)
        if name:
            return skipped(report, name)
    return report
