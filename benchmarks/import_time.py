"""Seconds to import the package, beside TensorLy alone and beside what it needs, in fresh processes.

    python benchmarks/import_time.py [--repeats 7]

Also which optional packages, of those that are installed, are imported with it: expected are none.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib.util import find_spec
from statistics import median

STATEMENTS = {
    "tensorly": "import tensorly",
    "what it needs": "import tensorly, pandas, xarray, sklearn.base, joblib, threadpoolctl, "
    "scipy.sparse.linalg, scipy.interpolate, scipy.optimize",
    "tensorly_smp": "import tensorly_smp",
}
OPTIONAL = (
    *("matplotlib", "tqdm", "h5netcdf", "h5py", "netCDF4", "zarr", "dask", "distributed"),
    *("numba", "torch", "jax", "tensorly_viz"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    seconds = {name: [] for name in STATEMENTS}
    # In turn, so that a busy minute hits all of them.
    for _ in range(options.repeats):
        for name, statement in STATEMENTS.items():
            seconds[name].append(import_seconds(statement))
    needed = median(seconds["what it needs"])
    print("medians of processor time; the first of all runs may have read from the disk")
    for name, values in seconds.items():
        print(f"{name:<14s} {median(values):6.2f} s   {median(values) / needed:5.2f} x what it needs")
    installed = [name for name in OPTIONAL if find_spec(name) is not None]
    code = f"import sys, tensorly_smp; print(*(name for name in {installed!r} if name in sys.modules))"
    loaded = output(code).split()
    print(f"optional and installed: {', '.join(installed)}")
    print(f"of these, imported with the package: {', '.join(loaded) or 'none'}")


def import_seconds(statement: str) -> float:
    """Processor time of a statement in a new interpreter."""
    return float(output(f"import time; before = time.process_time(); {statement}; print(time.process_time() - before)"))


def output(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
