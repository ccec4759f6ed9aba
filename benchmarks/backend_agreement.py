"""Whether the coupled CPD is the same on NumPy, PyTorch and JAX, and how long a sweep takes on each.

First table: after the same number of sweeps from the same start, the relative difference of the loss from that of NumPy
in double precision, and the largest difference of a weight or factor entry. Explicit are counted histograms, implicit
are sums over samples (Frobenius on NumPy only); a fifth of the entries is missing and the samples have weights. In
single precision nothing can be closer than 1.2e-7; NumPy's own single precision shows what to expect.

Second table: seconds before the first sweep ends (on JAX most of it compiling) and then of the fastest sweep, and the
same for JAX with nothing compiled. Backends that are not installed are left out.

    OMP_NUM_THREADS=1 python benchmarks/backend_agreement.py [--device cuda] [--samples 5000] [--variables 8]
"""

from __future__ import annotations

import argparse
import importlib.util
import time
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import product
from typing import Any

import numpy as np
import tensorly as tl

import tensorly_smp as smp
from tensorly_smp.decomposition.problem import as_problem
from tensorly_smp.decomposition.solver import decompose

MODULES = {"numpy": "numpy", "pytorch": "torch", "jax": "jax"}
FORMS = [("kl", "counted"), ("frobenius", "counted"), ("frobenius", "implicit")]
NAMES = {"counted": "explicit", "implicit": "implicit"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", help="of PyTorch and JAX, such as cuda; by default their own choice")
    parser.add_argument("--samples", type=int, default=5000)
    parser.add_argument("--variables", type=int, default=8)
    parser.add_argument("--bins", type=int, default=10)
    parser.add_argument("--rank", type=int, default=5)
    parser.add_argument("--sweeps", type=int, default=20)
    options = parser.parse_args()
    warnings.simplefilter("ignore", smp.exceptions.ConvergenceWarning)
    codes, sample_weight = make_samples(options)
    size = f"{options.samples} samples, {options.variables} variables, {options.bins} bins, {options.rank} components"
    print(f"{size}, {options.sweeps} sweeps", flush=True)
    for part in (agreement, seconds):
        for line in part(codes, sample_weight, options):
            print(line, flush=True)


def make_samples(options: argparse.Namespace) -> tuple[smp.Codes, np.ndarray]:
    """Codes with a fifth of the entries missing, and weights of the samples."""
    data = smp.datasets.make_smooth_mixture(
        "gaussian", options.samples, options.variables, options.rank, random_state=0
    )
    codes = smp.encode_samples(data.X, smp.choose_binning(data.X, options.bins))
    rng = np.random.default_rng(1)
    hidden = rng.random(codes.values.shape) < 0.2
    return smp.Codes(np.where(hidden, -1, codes.values), codes.binning), rng.random(options.samples)


def solve(backend: str, codes: smp.Codes, sample_weight: np.ndarray, options: argparse.Namespace, **settings: Any):
    settings = {"n_iter_max": options.sweeps, **settings}
    names = [name for name in ("extrapolate", "dtype") if name in settings]
    device = None if backend == "numpy" else options.device
    solver = smp.SolverOptions(device=device, **{name: settings.pop(name) for name in names})
    kind = {name: settings.pop(name) for name in ("loss", "form")}
    with tl.backend_context(backend):
        problem = as_problem(codes, rank=options.rank, sample_weight=sample_weight, options=solver, **kind)
        return decompose(problem, init="random", random_state=0, tol=None, options=solver, **settings)


def installed(form: str) -> list[str]:
    """Backends that are here and know the form."""
    found = [name for name, module in MODULES.items() if importlib.util.find_spec(module)]
    return found if form == "counted" else ["numpy"]


# --- agreement


def agreement(codes: smp.Codes, sample_weight: np.ndarray, options: argparse.Namespace) -> Iterator[str]:
    yield f"\n{'':<39}{'without extrapolation':>23}{'with extrapolation':>23}"
    yield f"{'loss':<11}{'form':<10}{'dtype':<9}{'backend':<9}" + 2 * f"{'loss':>11}{'factors':>12}"
    for loss, form in FORMS:
        kinds = [{"loss": loss, "form": form, "extrapolate": extrapolate} for extrapolate in (False, True)]
        expected = [solve("numpy", codes, sample_weight, options, **kind) for kind in kinds]
        for dtype, backend in product(("float64", "float32"), installed(form)):
            if (dtype, backend) == ("float64", "numpy"):
                continue
            line = f"{loss:<11}{NAMES[form]:<10}{dtype:<9}{backend:<9}"
            for kind, other in zip(kinds, expected, strict=True):
                found = solve(backend, codes, sample_weight, options, dtype=dtype, **kind)
                off = abs(found.loss - other.loss) / abs(other.loss)
                line += f"{off:>11.1e}{largest_difference(found.factors, other.factors):>12.1e}"
            yield line


def largest_difference(one: smp.MixtureFactors, other: smp.MixtureFactors) -> float:
    pairs = zip((one.weights, *one.factors), (other.weights, *other.factors), strict=True)
    return max(float(np.abs(np.asarray(tl.to_numpy(a), dtype=float) - b).max()) for a, b in pairs)


# --- seconds


def seconds(codes: smp.Codes, sample_weight: np.ndarray, options: argparse.Namespace) -> Iterator[str]:
    yield f"\n{'loss':<11}{'form':<10}{'backend':<16}{'first sweep, s':>15}{'sweep, ms':>15}   (float64)"
    for loss, form in FORMS:
        for backend in installed(form):
            kinds = ["", " compiled", " uncompiled"] if backend == "jax" else [""]
            for kind in kinds[1:] or kinds:
                with not_compiled() if kind == " uncompiled" else nullcontext():
                    first, each = sweep_seconds(backend, codes, sample_weight, options, loss, form)
                yield f"{loss:<11}{NAMES[form]:<10}{backend + kind:<16}{first:>15.2f}{1e3 * each:>15.1f}"


def not_compiled() -> AbstractContextManager[None]:
    import jax

    return jax.disable_jit()


def sweep_seconds(
    backend: str, codes: smp.Codes, sample_weight: np.ndarray, options: argparse.Namespace, loss: str, form: str
) -> tuple[float, float]:
    """Seconds from the call to the end of the first sweep, and of the fastest later sweep."""
    if backend == "jax":
        import jax

        jax.clear_caches()  # what the first table has compiled
    ends = [time.perf_counter()]
    settings = {"loss": loss, "form": form, "n_iter_max": max(options.sweeps, 8)}
    solve(backend, codes, sample_weight, options, callback=lambda *_: ends.append(time.perf_counter()), **settings)
    # The first two are the call and the loss of the start; extrapolations are compiled in the third sweep.
    return ends[2] - ends[0], float(np.diff(ends)[4:].min())


if __name__ == "__main__":
    main()
