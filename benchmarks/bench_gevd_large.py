"""Algebraic start for a thousand variables, from codes, without the block tensor: seconds and memory.

The limits are a minute and 1 GB, of the whole process, for 10 000 samples, 8 bins and 10 components.

    python benchmarks/bench_gevd_large.py [--variables 1000] [--samples 10000]
"""

import argparse
import resource
import sys
import time

import tensorly_smp as smp


def peak_megabytes():
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variables", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=10_000)
    arguments = parser.parse_args()
    print(f"{'case':<10}{'seconds':>9}{'peak MB before':>16}{'after':>8}{'labels right':>14}")
    for case in ("gaussian", "laplace"):
        data = smp.datasets.make_smooth_mixture(case, arguments.samples, arguments.variables, 10, random_state=0)
        codes = smp.encode_samples(data.X, smp.choose_binning(data.X, 8))
        labels = data.labels
        del data
        before, began = peak_megabytes(), time.perf_counter()
        start = smp.gevd_start(codes, 10, random_state=0)
        seconds, after = time.perf_counter() - began, peak_megabytes()
        right = smp.metrics.clustering_accuracy(labels, start.posterior(codes).argmax(axis=1))
        print(f"{case:<10}{seconds:9.1f}{before:16.0f}{after:8.0f}{right:14.1%}", flush=True)


if __name__ == "__main__":
    main()
