"""Seconds of a sweep over all triples of samples, on the processor and on a GPU, for many variables and samples.

The implicit form of the Frobenius loss, on codes drawn at random where they are needed; what is timed is whole sweeps,
after the first, which on JAX compiles. NumPy on the processor stands beside PyTorch or JAX on the GPU; without a GPU
beside the same backend on the processor. What does not fit the memory, or would take longer than is left of the budget
(as the smaller ones say), is left out and says so.

    python benchmarks/gpu.py [--backend jax] [--budget 240] [--variables 10 100 1000] [--samples 10000 1000000]
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorly as tl

from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.factors.arrays import as_tensor
from tensorly_smp.factors.contexts import checked_context
from tensorly_smp.factors.implicit import CoupledCodes
from tensorly_smp.factors.implicit_steps import ImplicitSteps
from tensorly_smp.factors.losses import Level
from tensorly_smp.factors.steps import Steps
from tensorly_smp.factors.tensor_sums import Samples
from tensorly_smp.factors.updates import ProjectedGradient

MODULES = {"pytorch": "torch", "jax": "jax"}
#: Share of the budget that the processor may take for one number of variables and samples.
SHARE_OF_PROCESSOR = 0.2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variables", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--samples", type=int, nargs="+", default=[10**4, 10**5, 10**6, 10**7])
    parser.add_argument("--bins", type=int, default=15)
    parser.add_argument("--rank", type=int, default=10)
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64"])
    parser.add_argument("--backend", default="pytorch", choices=list(MODULES))
    parser.add_argument("--device", help="by default cuda where there is one, else cpu")
    parser.add_argument("--budget", type=float, default=240.0, help="seconds, in all")
    parser.add_argument("--sweeps", type=int, default=3, help="timed, of which the fastest counts")
    options = parser.parse_args()
    share = SHARE_OF_PROCESSOR * options.budget
    sides = [Side("numpy", "cpu", share)]
    if importlib.util.find_spec(MODULES[options.backend]):
        device = options.device or default_device(options.backend)
        sides.append(Side(options.backend, device, share if device == "cpu" else options.budget))
    else:
        print(f"{options.backend} is not installed: the processor alone.")
    if not any(side.is_gpu for side in sides):
        print("There is no GPU: the processor alone.")
    table(sides, options)


def default_device(backend: str) -> str:
    with tl.backend_context(backend):
        try:
            checked_context(device="cuda")
        except InvalidInputError:
            return "cpu"
    return "cuda"


def table(sides: list[Side], options: argparse.Namespace) -> None:
    print(f"{options.bins} bins, {options.rank} components, {options.dtype}; seconds per sweep over all triples")
    names = "".join(f"{side.name:>18}" for side in sides)
    print(f"{'variables':>9}{'samples':>12}{names}{'ratio':>9}", flush=True)
    began = time.perf_counter()
    sizes = sorted(((n, m) for n in options.variables for m in options.samples), key=lambda size: size[0] * size[1])
    for size in sizes:
        left = options.budget - (time.perf_counter() - began)
        found = [side.measured(*size, left, options) for side in sides]
        cells = "".join(f"{value:>18.4f}" if isinstance(value, float) else f"{value:>18}" for value in found)
        numbers = [value for value in found if isinstance(value, float)]
        ratio = f"{numbers[0] / numbers[1]:>9.1f}" if len(numbers) == 2 else ""
        print(f"{size[0]:>9}{size[1]:>12}{cells}{ratio}", flush=True)
    print(f"{time.perf_counter() - began:.0f} s in all")


@dataclass
class Side:
    """A backend on a device, and what it has been found to need per entry and per variable."""

    backend: str
    device: str
    longest: float
    rates: list[tuple[int, float]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.backend} {self.device}"

    @property
    def is_gpu(self) -> bool:
        return self.device.partition(":")[0] != "cpu"

    def measured(self, n_variables: int, n_samples: int, left: float, options: argparse.Namespace) -> float | str:
        """Seconds of a sweep, or why there are none."""
        if self.n_bytes(n_variables, n_samples, options) > self.free_bytes():
            return "memory"
        # Sums of the start, a first sweep and those that are timed.
        if self.predicted(n_variables * n_samples) * (2 + options.sweeps) > min(left, self.longest):
            return "time"
        with tl.backend_context(self.backend):
            seconds = sweep_seconds(self.device, n_variables, n_samples, options)
        self.rates.append((n_variables * n_samples, seconds))
        return seconds

    def predicted(self, n_entries: int) -> float:
        """Seconds of a sweep, as long in proportion as the largest so far."""
        if not self.rates:
            return 0.0
        largest, seconds = self.rates[-1]
        return seconds * max(1.0, n_entries / largest)

    def n_bytes(self, n_variables: int, n_samples: int, options: argparse.Namespace) -> float:
        """What a sweep holds at its peak: codes, sums with what is made of them, the indicator matrix of a GPU."""
        numbers = 6 * options.rank + (2 * (options.bins + 1) if self.is_gpu else 0)
        return n_samples * (n_variables + numbers * np.dtype(options.dtype).itemsize)

    def free_bytes(self) -> float:
        if not self.is_gpu:
            return 0.8 * os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if self.backend == "pytorch":
            import torch

            torch.cuda.empty_cache()
            return 0.9 * torch.cuda.mem_get_info(self.device)[0]
        import jax

        statistics = jax.devices(self.device.partition(":")[0])[0].memory_stats()
        return 0.9 * (statistics["bytes_limit"] - statistics["bytes_in_use"])


def sweep_seconds(device: str, n_variables: int, n_samples: int, options: argparse.Namespace) -> float:
    """Seconds of the fastest of some sweeps, after one that is not timed."""
    context = checked_context(options.dtype, device)
    steps = make_steps(n_variables, n_samples, options, context)
    rng = np.random.default_rng(0)
    weights = as_tensor(np.full(options.rank, 1 / options.rank), context)
    columns = (rng.dirichlet(np.ones(options.bins), options.rank).T for _ in range(n_variables))
    factors = [as_tensor(column, context) for column in columns]
    _, improved = steps.begin(weights, factors)
    times = [time.perf_counter()]
    for _ in range(1 + options.sweeps):
        weights = improved()
        for n in range(n_variables):
            factors[n] = steps.improve(n, factors, weights)
        _, improved = steps.begin(weights, factors)  # the loss comes to the host: all that was asked for is done
        times.append(time.perf_counter())
    return float(np.diff(times)[1:].min())


def make_steps(n_variables: int, n_samples: int, options: argparse.Namespace, context: dict[str, Any]) -> Steps:
    """Steps over complete samples, drawn at random on the device. The level of the loss is of no interest here."""
    solver = ProjectedGradient()
    ones = np.full(n_samples, 1 / n_samples)
    pattern, weight = np.ones((n_variables, 1), dtype=bool), np.ones(1)
    if tl.get_backend() != "numpy":
        few = np.zeros((n_variables, 1), dtype=np.uint8)
        samples = Samples.of(few, ones, pattern, weight, None, options.bins, context)
        samples = samples._replace(columns=drawn(n_variables, n_samples, options.bins, context))
        return ImplicitSteps(samples, Level(1.0, 1.0), context, solver)
    columns = np.random.default_rng(0).integers(0, options.bins, (n_variables, n_samples), dtype=np.uint8)
    n_bins = (options.bins,) * n_variables
    moments, none = (np.full(options.bins, 1 / options.bins),) * n_variables, np.empty((0, 3), dtype=int)
    coupled = CoupledCodes(
        n_bins, columns, ones, pattern, weight, None, moments, 1.0, 0.0, context, n_samples, None, none
    )
    return coupled.steps(solver)


def drawn(n_variables: int, n_samples: int, n_bins: int, context: dict[str, Any]) -> Any:
    """Random codes (n_variables, n_samples) in bytes, made where they are needed."""
    if tl.get_backend() == "pytorch":
        import torch

        return torch.randint(n_bins, (n_variables, n_samples), dtype=torch.uint8, device=context["device"])
    import jax

    with jax.default_device(context["device"]):
        return jax.random.randint(jax.random.key(0), (n_variables, n_samples), 0, n_bins, dtype=np.uint8)


if __name__ == "__main__":
    main()
