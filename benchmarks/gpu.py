"""Seconds of a sweep over the histograms of all triples, on the processor and on a GPU.

The histograms are those of a random mixture, as many as there are triples; what is timed is whole sweeps, after the
first, which on JAX compiles. NumPy on the processor stands beside PyTorch or JAX on the GPU; without a GPU beside the
same backend on the processor.

    python benchmarks/gpu.py [--backend jax] [--variables 10 20 40] [--loss kl frobenius] [--dtype float32]
"""

from __future__ import annotations

import argparse
import importlib.util
import time

import numpy as np
import tensorly as tl

import tensorly_smp as smp
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.factors.backend import checked_context

MODULES = {"pytorch": "torch", "jax": "jax"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variables", type=int, nargs="+", default=[10, 20, 40])
    parser.add_argument("--loss", nargs="+", default=["kl", "frobenius"], choices=["kl", "frobenius"])
    parser.add_argument("--bins", type=int, default=15)
    parser.add_argument("--rank", type=int, default=10)
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64"])
    parser.add_argument("--backend", default="pytorch", choices=list(MODULES))
    parser.add_argument("--device", help="by default cuda where there is one, else cpu")
    parser.add_argument("--sweeps", type=int, default=5, help="timed, of which the fastest counts")
    options = parser.parse_args()
    sides = [("numpy", "cpu")]
    if importlib.util.find_spec(MODULES[options.backend]):
        sides.append((options.backend, options.device or default_device(options.backend)))
    else:
        print(f"{options.backend} is not installed: the processor alone.")
    print(f"{options.bins} bins, {options.rank} components, {options.dtype}; milliseconds per sweep over all triples")
    names = "".join(f"{' '.join(side):>18}" for side in sides)
    print(f"{'loss':<11}{'variables':>9}{names}{'ratio':>9}", flush=True)
    for loss in options.loss:
        for n_variables in options.variables:
            marginals = random_marginals(n_variables, options.bins, options.rank)
            found = [sweep_seconds(marginals, loss, *side, options) for side in sides]
            cells = "".join(f"{1e3 * seconds:>18.2f}" for seconds in found)
            print(f"{loss:<11}{n_variables:>9}{cells}{found[0] / found[-1]:>9.1f}", flush=True)


def default_device(backend: str) -> str:
    with tl.backend_context(backend):
        try:
            checked_context(device="cuda")
        except InvalidInputError:
            return "cpu"
    return "cuda"


def random_marginals(n_variables: int, n_bins: int, rank: int) -> smp.Marginals:
    rng = np.random.default_rng(0)
    factors = [rng.dirichlet(np.ones(n_bins), rank).T for _ in range(n_variables)]
    return smp.MixtureFactors(rng.dirichlet(np.ones(rank)), factors).to_marginals()


def sweep_seconds(marginals: smp.Marginals, loss: str, backend: str, device: str, options: argparse.Namespace) -> float:
    """Seconds of the fastest of some sweeps, after one that is not timed."""
    times: list[float] = []
    settings = dict(init="random", random_state=0, tol=None, n_iter_max=1 + options.sweeps)
    where = None if backend == "numpy" else device
    with tl.backend_context(backend):
        # The loss has come to the host when the callback is called: all that was asked for is done.
        smp.coupled_simplex_parafac(
            marginals,
            options.rank,
            loss=loss,
            options=smp.SolverOptions(extrapolate=False, dtype=options.dtype, device=where),
            callback=lambda *_: times.append(time.perf_counter()),
            **settings,
        )
    return float(np.diff(times)[1:].min())


if __name__ == "__main__":
    main()
