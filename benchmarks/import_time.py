"""Seconds to import the package, beside TensorLy alone and beside what it needs, in fresh processes.

    python benchmarks/import_time.py [--repeats 7]

Also which optional packages, of those that are installed, are imported with it: expected are none.
"""

import subprocess
import sys
from importlib.util import find_spec
from statistics import median

from common import options_of

STATEMENTS = {
    "tensorly": "import tensorly",
    "what it needs": "import tensorly, pandas, xarray, sklearn.base, joblib, threadpoolctl, "
    "scipy.sparse.linalg, scipy.interpolate, scipy.optimize",
    "tensorly_smp": "import tensorly_smp",
}
OPTIONAL = ("matplotlib", "tqdm", "zarr", "dask", "distributed", "numba", "torch", "jax", "tensorly_viz")


def output(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    seconds: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    # In turn, so that a busy minute hits all of them.
    for _ in range(options_of(__doc__, repeats=7).repeats):
        for name, statement in STATEMENTS.items():
            code = f"import time; before = time.process_time(); {statement}; print(time.process_time() - before)"
            seconds[name].append(float(output(code)))
    print("medians of processor time; the first of all runs may have read from the disk")
    for name, values in seconds.items():
        ratio = median(values) / median(seconds["what it needs"])
        print(f"{name:<14s} {median(values):6.2f} s   {ratio:5.2f} x what it needs")
    installed = [name for name in OPTIONAL if find_spec(name) is not None]
    loaded = output(
        f"import sys, tensorly_smp; print(*(name for name in {installed!r} if name in sys.modules))"
    ).split()
    print(f"optional and installed: {', '.join(installed)}; imported with the package: {', '.join(loaded) or 'none'}")
