"""The coupled CPD on NumPy, PyTorch and JAX: is it the same, and how long does a sweep take?

    OMP_NUM_THREADS=1 python benchmarks/backends.py agreement [--device cuda] [--samples 5000] [--variables 8]
    OMP_NUM_THREADS=1 python benchmarks/backends.py seconds
    python benchmarks/backends.py gpu [--backend jax] [--device cuda] [--variables 10 20 40] [--dtype float32]

`agreement`: after the same number of sweeps from the same start, the relative difference of the loss from that of NumPy
in double precision, and the largest difference of a weight or factor entry. Explicit are counted histograms, implicit
are sums over samples (Frobenius on NumPy only); a fifth of the entries is missing and the samples have weights. In
single precision nothing can be closer than 1.2e-7; NumPy's own single precision shows what to expect. `seconds`: until
the first sweep ends (on JAX most of it compiling) and of the fastest sweep, the same for JAX with nothing compiled.
Backends that are not installed are left out. `gpu`: whole sweeps over the histograms of all triples of a random mixture
after the first, NumPy on the processor beside another backend on `--device`.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
import warnings
from contextlib import nullcontext
from itertools import product
from typing import Any

import numpy as np
import tensorly as tl
from common import largest_difference, options_of

import tensorly_smp as smp
from tensorly_smp.decomposition.problem import as_problem
from tensorly_smp.decomposition.solver import coupled_simplex_parafac

MODULES = {"numpy": "numpy", "pytorch": "torch", "jax": "jax"}
FORMS = [("kl", "explicit"), ("frobenius", "explicit"), ("frobenius", "implicit")]


def make_samples(options: argparse.Namespace) -> tuple[smp.Codes, np.ndarray]:
    """Codes with a fifth of the entries missing, and weights of the samples."""
    size = options.samples, options.variables[0], options.rank
    X = smp.datasets.make_smooth_mixture("gaussian", *size, random_state=0).X
    codes = smp.encode_samples(X, smp.choose_binning(X, options.bins))
    rng = np.random.default_rng(1)
    hidden = rng.random(codes.values.shape) < 0.2
    print(f"{options.samples} samples, {size[1]} variables, {options.bins} bins, {options.rank} components, ", end="")
    print(f"{options.sweeps} sweeps")
    return smp.Codes(np.where(hidden, -1, codes.values), codes.binning), rng.random(options.samples)


def solve(
    backend: str, samples: tuple, options: argparse.Namespace, loss: str, form: str, callback: Any = None, **solver: Any
) -> smp.CoupledSolution:
    solver_options = smp.SolverOptions(device=None if backend == "numpy" else options.device, **solver)
    with tl.backend_context(backend):
        codes, sample_weight = samples
        kind = {"loss": loss, "form": form.replace("explicit", "counted"), "options": solver_options}
        problem = as_problem(codes, rank=options.rank, sample_weight=sample_weight, **kind)
        how = {"n_iter_max": options.sweeps, "callback": callback, "options": solver_options}
        return coupled_simplex_parafac(problem, options.rank, init="random", random_state=0, tol=None, **how)


def installed(form: str) -> list[str]:
    """Backends that are here and know the form."""
    backends = [name for name, module in MODULES.items() if importlib.util.find_spec(module)]
    return backends if form == "explicit" else ["numpy"]


def agreement(options: argparse.Namespace) -> None:
    samples = make_samples(options)
    print(f"\n{'':<39}{'without extrapolation':>23}{'with extrapolation':>23}")
    print(f"{'loss':<11}{'form':<10}{'dtype':<9}{'backend':<9}" + 2 * f"{'loss':>11}{'factors':>12}")
    for loss, form in FORMS:
        expected = [solve("numpy", samples, options, loss, form, extrapolate=fast) for fast in (False, True)]
        for dtype, backend in product(("float64", "float32"), installed(form)):
            if (dtype, backend) == ("float64", "numpy"):
                continue
            line = f"{loss:<11}{form:<10}{dtype:<9}{backend:<9}"
            for fast, other in zip((False, True), expected, strict=True):
                solution = solve(backend, samples, options, loss, form, extrapolate=fast, dtype=dtype)
                with tl.backend_context(backend):
                    factors = [tl.to_numpy(array) for array in (solution.factors.weights, *solution.factors.factors)]
                off = abs(solution.loss - other.loss) / abs(other.loss)
                differences = largest_difference(smp.MixtureFactors(factors[0], factors[1:]), other.factors)
                line += f"{off:>11.1e}{differences:>12.1e}"
            print(line, flush=True)


def seconds(options: argparse.Namespace) -> None:
    samples = make_samples(options)
    options.sweeps = max(options.sweeps, 8)
    print(f"\n{'loss':<11}{'form':<10}{'backend':<16}{'first sweep, s':>15}{'sweep, ms':>15}   (float64)")
    for loss, form in FORMS:
        for backend in installed(form):
            for kind in ("compiled", "uncompiled") if backend == "jax" else ("",):
                context = nullcontext()
                if backend == "jax":
                    import jax

                    jax.clear_caches()
                    context = jax.disable_jit() if kind == "uncompiled" else context
                ends = [time.perf_counter()]
                with context:
                    solve(backend, samples, options, loss, form, lambda *_, e=ends: e.append(time.perf_counter()))
                # The first two are the call and the loss of the start; extrapolations are compiled in the third sweep.
                first, fastest = ends[2] - ends[0], 1e3 * float(np.diff(ends)[4:].min())
                print(f"{loss:<11}{form:<10}{f'{backend} {kind}':<16}{first:>15.2f}{fastest:>15.1f}", flush=True)


def gpu(options: argparse.Namespace) -> None:
    is_installed = importlib.util.find_spec(MODULES[options.backend]) is not None
    sides = [("numpy", None), *([(options.backend, options.device)] if is_installed else [])]
    print(f"{options.bins} bins, {options.rank} components, {options.dtype}; milliseconds per sweep over all triples")
    print(f"{'loss':<11}{'variables':>9}" + "".join(f"{f'{b} {d or str()}':>18}" for b, d in sides) + f"{'ratio':>9}")
    rng = np.random.default_rng(0)
    for loss in ("kl", "frobenius"):
        for n_variables in options.variables:
            columns = [rng.dirichlet(np.ones(options.bins), options.rank).T for _ in range(n_variables)]
            marginals = smp.MixtureFactors(rng.dirichlet(np.ones(options.rank)), columns).to_marginals()
            fastest = []
            for backend, device in sides:
                times: list[float] = []
                with tl.backend_context(backend):
                    # The loss has come to the host when the callback is called: all that was asked for is done.
                    smp.coupled_simplex_parafac(
                        marginals, options.rank, loss=loss, init="random", random_state=0, tol=None,
                        n_iter_max=1 + options.sweeps, callback=lambda *_, t=times: t.append(time.perf_counter()),
                        options=smp.SolverOptions(extrapolate=False, dtype=options.dtype, device=device),
                    )  # fmt: skip
                fastest.append(1e3 * float(np.diff(times)[1:].min()))
            cells = "".join(f"{each:>18.2f}" for each in fastest)
            print(f"{loss:<11}{n_variables:>9}{cells}{fastest[0] / fastest[-1]:>9.1f}", flush=True)


PARTS = {"agreement": agreement, "seconds": seconds, "gpu": gpu}


def main(arguments: list[str] | None = None) -> None:
    options = options_of(__doc__, arguments, PARTS, device=None, samples=5000, variables=(0,), bins=0, rank=0,
                         sweeps=20, backend="pytorch", dtype="float32")  # fmt: skip
    is_gpu = options.part == "gpu"
    options.variables = [n for n in options.variables if n] or ([10, 20, 40] if is_gpu else [8])
    options.bins, options.rank = options.bins or (15 if is_gpu else 10), options.rank or (10 if is_gpu else 5)
    warnings.simplefilter("ignore", smp.exceptions.ConvergenceWarning)
    PARTS[options.part](options)


if __name__ == "__main__":
    main()
