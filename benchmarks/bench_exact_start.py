"""Exact histograms: does the algebraic start give weights and factors back, at every rank up to the bound?

For each number of variables N and of bins I, every rank R from 1 to the corrected bound c1 (I - 1) + 1 of the balanced
partition, and one more. Columns of the factors are uniform on the simplex; of a few such models per rank the one whose
stacked factors have the smallest condition number is taken, since near the bound some draws are all but singular.

* below: largest error of any weight or factor entry, over the ranks more than two below the bound; asked: 1e-8
* near: the same for the last two ranks below the bound and the bound itself; asked: 1e-5
* one above: what happens at one more than the bound; asked: AlgebraicStartError
* paper: the paper's bound (floor((N - 1) / 2) - 1) I, the corrected one for its partition, and what happens at the
  former; asked: AlgebraicStartError where it is above the latter

    python benchmarks/bench_exact_start.py
"""

import time

import numpy as np

import tensorly_smp as smp
from tensorly_smp.exceptions import AlgebraicStartError

VARIABLES, BINS = range(3, 11), (3, 4, 8)
N_DRAWS = 3


def draw(sizes, rank, seed):
    rng = np.random.default_rng([*sizes, rank, seed])
    columns = [rng.dirichlet(np.ones(size), rank).T for size in sizes]
    return smp.MixtureFactors(rng.dirichlet(np.full(rank, 10.0)), columns)


def condition(truth, partition):
    return max(
        np.linalg.cond(np.concatenate([truth.factors[n] for n in group]))
        for group in (partition.first, partition.second)
    )


def best_conditioned(sizes, rank, partition):
    return min((draw(sizes, rank, seed) for seed in range(N_DRAWS)), key=lambda truth: condition(truth, partition))


def error(sizes, rank, partition):
    """Largest error of an entry; None where the start says that it cannot be done."""
    truth = best_conditioned(sizes, rank, partition)
    try:
        found = smp.gevd_start(truth.to_marginals(), rank, partition, random_state=0)
    except AlgebraicStartError:
        return None
    found = found.permute(smp.metrics.match_components(found, truth))
    pairs = zip((found.weights, *found.factors), (truth.weights, *truth.factors), strict=True)
    return max(float(np.abs(a - b).max()) for a, b in pairs)


def shown(found):
    return "own error" if found is None else f"{found:.0e}"


def at_the_bound_of_the_paper(n_variables, n_bins):
    if n_variables < 5:
        return "no partition", True
    partition = smp.paper_partition(n_variables)
    printed = smp.max_identifiable_rank(n_variables, n_bins, "paper-gevd")
    corrected = smp.max_identifiable_rank(n_variables, n_bins, "gevd", partition)
    found = error((n_bins,) * n_variables, printed, partition)
    holds = found is None if printed > corrected else found is not None and found < 1e-5
    return f"{printed:3d} (corrected {corrected:2d}): {shown(found)}", holds


def main():
    began, worst, n_ranks, everything = time.perf_counter(), [0.0, 0.0], 0, True
    print(f"{'N':>3}{'I':>3}{'bound':>7}{'below':>8}{'near':>8}  {'one above':<11}{'paper':<32}holds")
    for n_variables in VARIABLES:
        partition = smp.default_partition(n_variables)
        for n_bins in BINS:
            sizes, bound = (n_bins,) * n_variables, smp.max_identifiable_rank(n_variables, n_bins)
            errors = [error(sizes, rank, partition) for rank in range(1, bound + 1)]
            failed = [rank for rank, found in enumerate(errors, 1) if found is None]
            largest = [np.inf if found is None else found for found in errors]
            below, near = max(largest[:-3], default=0.0), max(largest[-3:])
            above = error(sizes, bound + 1, partition)
            paper, paper_holds = at_the_bound_of_the_paper(n_variables, n_bins)
            holds = below < 1e-8 and near < 1e-5 and above is None and paper_holds
            worst, n_ranks = [max(worst[0], below), max(worst[1], near)], n_ranks + bound
            everything &= holds
            print(
                f"{n_variables:3d}{n_bins:3d}{bound:7d}{below:8.0e}{near:8.0e}  {shown(above):<11}{paper:<32}"
                f"{'yes' if holds else 'NO'}{f'  failed at ranks {failed}' if failed else ''}",
                flush=True,
            )
    print(
        f"{n_ranks} ranks: worst {worst[0]:.0e} below, {worst[1]:.0e} near the bound; everything holds: "
        f"{'yes' if everything else 'NO'}; {time.perf_counter() - began:.0f} s"
    )


if __name__ == "__main__":
    main()
