"""Seconds to import the package, beside TensorLy alone and beside what it needs, in fresh processes.

    python benchmarks/import_time.py [--repeats 7]

Also which optional packages, of those that are installed, are imported with it: expected are none. All modules are
compiled to byte code by a first run that does not count, as an installed package is.
"""

import os
import subprocess
import sys
import tempfile
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


def output(code: str, env: dict[str, str] | None = None) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout


def measured(repeats: int) -> dict[str, list[float]]:
    """Seconds of every statement, all of which are in turn, so that a busy minute hits all of them."""
    with tempfile.TemporaryDirectory() as folder:
        env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        env["PYTHONPYCACHEPREFIX"] = folder
        seconds: dict[str, list[float]] = {name: [] for name in STATEMENTS}
        for _ in range(repeats + 1):
            for name, statement in STATEMENTS.items():
                code = f"import time; before = time.process_time(); {statement}; print(time.process_time() - before)"
                seconds[name].append(float(output(code, env)))
    return {name: values[1:] for name, values in seconds.items()}


if __name__ == "__main__":
    seconds = measured(options_of(__doc__, repeats=7).repeats)
    print("medians of processor time")
    for name, values in seconds.items():
        ratio = median(values) / median(seconds["what it needs"])
        print(f"{name:<14s} {median(values):6.2f} s   {ratio:5.2f} x what it needs")
    installed = [name for name in OPTIONAL if find_spec(name) is not None]
    loaded = output(
        f"import sys, tensorly_smp; print(*(name for name in {installed!r} if name in sys.modules))"
    ).split()
    print(f"optional and installed: {', '.join(installed)}; imported with the package: {', '.join(loaded) or 'none'}")
