"""A worker is killed in the middle of a fit on a cluster of processes on this machine: what happens.

The same samples are fitted twice, the second time with one worker killed at every number of E-steps given. Printed are
seconds, how often a worker was killed, and the difference of the two models.

    OMP_NUM_THREADS=1 python benchmarks/dask_kill.py [--samples 400000] [--kill 1 3]
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from typing import Any

from dask_fit import arguments, cluster_of, difference, lazy_samples

import tensorly_smp as smp
from tensorly_smp.chunked.grid_counts import ChunkedCellSamples


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.set_defaults(samples=400_000, chunk=25_000)
    parser.add_argument("--kill", type=int, nargs="*", default=[1, 3], help="E-steps before which a worker is killed")
    options = parser.parse_args()
    X = lazy_samples(options.samples, options)[0]
    with cluster_of(options.workers, options.memory) as client:
        calm = timed_fit(X, options)
        killed = kill_at(client, options.kill)
        disturbed = timed_fit(X, options)
        print(f"workers killed: {len(killed)}; alive now: {len(client.run(os.getpid))}")
    passes = calm.result_.attrs["n_passes"], disturbed.result_.attrs["n_passes"]
    print(f"passes {passes[0]} and {passes[1]}, largest difference of a factor entry {difference(calm, disturbed):.1e}")


def timed_fit(X: Any, options: argparse.Namespace) -> Any:
    start = time.perf_counter()
    try:
        return smp.SmoothProductMixture(options.rank, random_state=0).fit(X)
    finally:
        print(f"fit: {time.perf_counter() - start:.1f} s", flush=True)


def kill_at(client: Any, numbers: list[int]) -> list[int]:
    """Kill a worker before E-steps of these numbers; process numbers of those killed so far."""
    e_step, killed, calls = ChunkedCellSamples.e_step, [], []

    def killing(self: ChunkedCellSamples, *logs: Any) -> Any:
        calls.append(1)
        if len(calls) in numbers:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[-1], signal.SIGKILL)
            print(f"killed process {killed[-1]} before E-step {len(calls)}", flush=True)
        return e_step(self, *logs)

    ChunkedCellSamples.e_step = killing
    return killed


if __name__ == "__main__":
    main()
