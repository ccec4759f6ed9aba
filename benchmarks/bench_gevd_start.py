"""How often a start leads to the optimum: algebra against chance.

For each of the paper's four cases, ranks, sample sizes and seeds, the coupled KL fit (15 uniform bins, all triples) is
started at the true factors, and from each kind of start. A fit counts as having reached the optimum when its loss ends
at most 0.002 nats per sample above that of the fit from the truth. The loss is a mean over samples, summed over the 120
triples; the first share takes it so, the second divides by the number of triples.

    python benchmarks/bench_gevd_start.py [--seeds 5] [--ranks 5 10] [--samples 1000 5000]
"""

import argparse
import time
import warnings

import numpy as np

import tensorly_smp as smp

CASES = ("gaussian", "gmm", "gamma", "laplace")
KINDS = {
    "1 algebraic": {"init": "gevd", "n_init": 1},
    "5 screened": {"init": "gevd", "n_init": 5},
    "10 screened": {"init": "gevd", "n_init": 10},
    "1 random": {"init": "random", "n_init": 1},
    "5 random": {"init": "random", "n_init": 5},
}
TOLERANCE = 0.002
N_TRIPLES = 120


def timed_fit(marginals, rank, **options):
    began = time.perf_counter()
    solution = smp.coupled_simplex_parafac(marginals, rank, random_state=0, **options)
    return solution, time.perf_counter() - began


def one_case(case, rank, n_samples, seed):
    """Loss above the fit from the truth and seconds, per kind of start."""
    data = smp.datasets.make_smooth_mixture(case, n_samples, 10, rank, random_state=seed)
    binning = smp.choose_binning(data.X, 15)
    codes = smp.encode_samples(data.X, binning)
    marginals = smp.count_marginals(codes)
    # A little of the uniform column, since a true probability below rounding could never grow again.
    truth, _ = timed_fit(marginals, rank, init=data.mixture.factors(binning).smooth(1e-3))
    rows = {}
    for kind, options in KINDS.items():
        solution, seconds = timed_fit(marginals, rank, **options)
        rows[kind] = (solution.loss - truth.loss, seconds)
    return rows


def cell(rows):
    """Shares at the optimum and median seconds."""
    above, seconds = np.array(rows).T
    shares = [np.mean(above <= TOLERANCE * n) for n in (1, N_TRIPLES)]
    return f"{shares[0]:7.0%} /{shares[1]:4.0%}{np.median(seconds):6.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--ranks", type=int, nargs="+", default=[5, 10])
    parser.add_argument("--samples", type=int, nargs="+", default=[1000, 5000])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"share at the optimum, loss summed / averaged over triples; median seconds; {arguments.seeds} truths each")
    print(f"{'case':<10}{'R':>3}{'M':>7}  " + "".join(f"{kind:>18}" for kind in KINDS))
    everything = {kind: [] for kind in KINDS}
    for rank in arguments.ranks:
        for n_samples in arguments.samples:
            for case in CASES:
                rows = [one_case(case, rank, n_samples, seed) for seed in range(arguments.seeds)]
                for kind, found in everything.items():
                    found += [row[kind] for row in rows]
                line = "".join(cell([row[kind] for row in rows]) for kind in KINDS)
                print(f"{case:<10}{rank:3d}{n_samples:7d}  {line}", flush=True)
    print(f"{'all':<22}" + "".join(cell(found) for found in everything.values()))


if __name__ == "__main__":
    main()
