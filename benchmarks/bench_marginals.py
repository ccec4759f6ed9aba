"""Counting all triples of 200 000 samples of 10 variables in 15 bins: seconds, and memory beside that of the result."""

import time
import tracemalloc

import numpy as np

from tensorly_smp.codes.encoding import Codes
from tensorly_smp.marginals.histograms import count_marginals
from tensorly_smp.marginals.triples import sample_triples

N_SAMPLES, N_VARIABLES, N_BINS, REPETITIONS = 200_000, 10, 15, 3


def seconds(function, *args, **kwargs):
    """Shortest of a few runs."""
    took = []
    for _ in range(REPETITIONS):
        began = time.perf_counter()
        function(*args, **kwargs)
        took.append(time.perf_counter() - began)
    return min(took)


def peak_bytes(function, *args, **kwargs):
    """Result, and what was allocated at most while it was computed, the result included."""
    tracemalloc.start()
    result = function(*args, **kwargs)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return result, peak


def main():
    rng = np.random.default_rng(0)
    values = rng.binomial(N_BINS - 1, rng.random(N_VARIABLES), size=(N_SAMPLES, N_VARIABLES))
    incomplete = np.where(rng.random(values.shape) < 0.3, -1, values)
    weights = rng.random(N_SAMPLES)
    print(f"{N_SAMPLES} samples, {N_VARIABLES} variables, {N_BINS} bins, all triples\n")
    print(f"{'':<24}{'seconds':>8}{'result MB':>11}{'peak MB':>9}{'peak / result':>15}")
    for name, array, sample_weight in [
        ("complete", values, None),
        ("30 % missing", incomplete, None),
        ("30 % missing, weighted", incomplete, weights),
    ]:
        codes = Codes.from_array(array, n_bins=N_BINS)
        marginals, peak = peak_bytes(count_marginals, codes, sample_weight=sample_weight)
        size = sum(counts.nbytes for counts in marginals.counts)
        took = seconds(count_marginals, codes, sample_weight=sample_weight)
        print(f"{name:<24}{took:8.2f}{size / 1e6:11.2f}{peak / 1e6:9.2f}{peak / size:15.2f}")
    print(f"\n10 000 even triples of 1000 variables: {seconds(sample_triples, 1000, 10_000, 0):.2f} s")


if __name__ == "__main__":
    main()
