"""The whole estimator on a thousand variables: start, all 166 million triples, refinement, densities.

Ten components, 10 000 samples, 15 bins, default settings of SmoothProductMixture, and how time grows with the numbers
of variables and samples. Seconds are of the processor, one thread with OMP_NUM_THREADS=1; memory is the peak of the
process, samples included.

    python benchmarks/bench_thousand.py [--kind gaussian] [--exponents]
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

import tensorly_smp as smp

RANK, N_NEW = 10, 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", default="gaussian", choices=["gaussian", "gmm", "gamma", "laplace"])
    parser.add_argument("--exponents", action="store_true", help="also smaller problems, and the fitted exponents")
    options = parser.parse_args()
    if options.exponents:
        for name, sizes in (
            ("variables", [(n, 10_000) for n in (125, 250, 500)]),
            ("samples", [(200, m) for m in (5000, 10_000, 20_000, 40_000)]),
        ):
            seconds = [fit(options.kind, *size)[0] for size in sizes]
            grown = [size[0 if name == "variables" else 1] for size in sizes]
            print(f"seconds grow with the number of {name} to the power {slope(grown, seconds):.2f}")
    fit(options.kind, 1000, 10_000)
    print(f"peak memory of the process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


def fit(kind: str, n_variables: int, n_samples: int) -> tuple[float, float]:
    """Processor seconds of one fit, and its accuracy on new samples in percent."""
    X, _, truth = smp.datasets.make_smooth_mixture(kind, n_samples, n_variables, RANK, random_state=0)
    new, labels = truth.sample(N_NEW, random_state=1)
    start, wall = time.process_time(), time.perf_counter()
    model = smp.SmoothProductMixture(RANK, random_state=0).fit(X)
    seconds, elapsed = time.process_time() - start, time.perf_counter() - wall
    accuracy = 100.0 * smp.metrics.clustering_accuracy(labels, model.predict(new))
    print(
        f"{kind}, {n_variables} variables, {n_samples} samples: {seconds:.1f} s of the processor, {elapsed:.1f} s in "
        f"all, {model.n_iter_} sweeps, {model.result_.attrs['n_passes']} passes, accuracy {accuracy:.1f} %",
        flush=True,
    )
    return seconds, accuracy


def slope(sizes: list[int], seconds: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


if __name__ == "__main__":
    main()
