"""A fit of more samples than the workers' memory holds, on a cluster of processes on this machine.

Samples are drawn where they are needed, chunk by chunk, from a mixture that is known. Printed are seconds by stage, the
peak memory of every process, and how far the fit is from that of a sample that fits into memory: log-likelihood of new
samples, weights, clusters. The same sample is fitted in chunks too, which must give the same model.

    OMP_NUM_THREADS=1 python benchmarks/dask_fit.py [--samples 20000000] [--workers 2] [--memory 1GB]

The samples are read three times (ranges, codes, cells), everything else works on one to two bytes an entry.
"""

from __future__ import annotations

import argparse
import logging
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import tensorly_smp as smp

N_NEW = 20_000


def main() -> None:
    options = parsed()
    tell_stages()
    X, truth = lazy_samples(options.samples, options)
    size = X.nbytes / 1e9
    print(f"{options.samples} samples x {options.variables} variables, {size:.3g} GB in {X.numblocks[0]} chunks")
    with cluster_of(options.workers, options.memory) as client, watched(client) as peaks:
        start = time.perf_counter()
        model = smp.SmoothProductMixture(options.rank, random_state=0).fit(X)
        print(f"fit: {time.perf_counter() - start:.1f} s, {model.result_.attrs['n_passes']} passes")
        print(f"peak memory of the workers: {listed(worker_peaks(client))} GB of {options.memory} each")
        print(f"written to disk at most, all workers: {peaks['disk'] / 1e9:.3g} GB")
    print(f"peak memory of this process: {own_peak():.3g} GB")
    compare(model, truth, options)


def tell_stages() -> None:
    """Print the library's messages of every stage, and no other's."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("  %(message)s"))
    logging.getLogger("tensorly_smp").addHandler(handler)
    logging.getLogger("tensorly_smp").setLevel(logging.INFO)


def parsed() -> argparse.Namespace:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, default=200_000, help="size of the sample that is fitted in memory")
    return parser.parse_args()


def arguments(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--samples", type=int, default=20_000_000)
    parser.add_argument("--variables", type=int, default=10)
    parser.add_argument("--rank", type=int, default=5)
    parser.add_argument("--kind", default="gmm", choices=["gaussian", "gmm", "gamma", "laplace"])
    parser.add_argument("--chunk", type=int, default=200_000, help="samples per chunk")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", default="1GB", help="limit of every worker")
    return parser


def lazy_samples(n_samples: int, options: argparse.Namespace) -> tuple[Any, Any]:
    """A dask array of samples that are drawn when a chunk is asked for, the same every time; and their mixture."""
    import dask
    import dask.array as da

    truth = smp.datasets.make_smooth_mixture(options.kind, 1, options.variables, options.rank, random_state=0)[2]
    shared = dask.delayed(truth, traverse=False)
    sizes = [min(options.chunk, n_samples - first) for first in range(0, n_samples, options.chunk)]
    drawn = [dask.delayed(draw)(shared, size, seed) for seed, size in enumerate(sizes)]
    chunks = [
        da.from_delayed(block, (size, options.variables), float) for block, size in zip(drawn, sizes, strict=True)
    ]
    return da.concatenate(chunks), truth


def draw(truth: Any, size: int, seed: int) -> np.ndarray:
    return truth.sample(size, random_state=seed)[0]


@contextmanager
def cluster_of(n_workers: int, memory: str) -> Iterator[Any]:
    from distributed import Client, LocalCluster

    options = dict(threads_per_worker=1, memory_limit=memory, processes=True, dashboard_address=None)
    options["silence_logs"] = logging.CRITICAL  # of workers that are stopped
    with LocalCluster(n_workers=n_workers, **options) as cluster, Client(cluster) as client:
        yield client


@contextmanager
def watched(client: Any) -> Iterator[dict[str, float]]:
    """What all workers together have on disk, at most, looked at twice a second."""
    peaks, stop = {"disk": 0.0}, threading.Event()

    def look() -> None:
        while not stop.wait(0.5):
            workers = client.scheduler_info(n_workers=-1)["workers"].values()
            spilled = [worker.get("metrics", {}).get("spilled_bytes", {}) for worker in workers]
            peaks["disk"] = max(peaks["disk"], float(sum(each.get("disk", 0) for each in spilled)))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield peaks
    finally:
        stop.set()
        thread.join()


def own_peak() -> float:
    """Peak memory of this process, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def worker_peaks(client: Any) -> list[float]:
    """Peak memory of every worker process that is alive, in GB."""
    return list(client.run(own_peak).values())


def listed(numbers: list[float]) -> str:
    return ", ".join(f"{number:.2f}" for number in numbers)


def compare(model: Any, truth: Any, options: argparse.Namespace) -> None:
    """The fit beside one in memory, of a sample of the same mixture, and beside the truth."""
    X = lazy_samples(options.sample, options)[0]
    values = X.compute()
    start = time.perf_counter()
    small = smp.SmoothProductMixture(options.rank, random_state=0).fit(values)
    print(f"in memory, {options.sample} samples: {time.perf_counter() - start:.1f} s")
    same = smp.SmoothProductMixture(options.rank, random_state=0).fit(X)
    print(f"the same samples in chunks: largest difference of a factor entry {difference(same, small):.1e}")
    new, labels = truth.sample(N_NEW, random_state=10**6)
    for name, fit in (("all samples", model), (f"{options.sample} samples", small)):
        loss = float(np.mean(truth.logpdf(new) - fit.score_samples(new)))
        accuracy = 100 * smp.metrics.clustering_accuracy(labels, fit.predict(new))
        weights = np.abs(np.sort(fit.weights_) - np.sort(truth.weights)).max()
        print(
            f"fit of {name}: {loss:.5f} nats a sample below the truth, accuracy {accuracy:.2f} %, weights off by at "
            f"most {weights:.5f}"
        )


def difference(one: Any, other: Any) -> float:
    """Largest difference of a weight or factor entry."""
    pairs = zip(
        [one.factors_.weights, *one.factors_.factors], [other.factors_.weights, *other.factors_.factors], strict=True
    )
    return max(float(np.abs(a - b).max()) for a, b in pairs)


if __name__ == "__main__":
    main()
