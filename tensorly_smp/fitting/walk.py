"""Smoothed EM of several numbers of components, each from the fits of its neighbors: their splits and merges."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tensorly_smp._support.parallel import one_blas_thread
from tensorly_smp.fitting.fit_samples import FitSamples, Variables
from tensorly_smp.fitting.stages import CandidateRun, Refinement
from tensorly_smp.fitting.starts import MOST_VARIABLES_FOR_STARTS
from tensorly_smp.likelihood.cells import choose_cells, curved_cells, exact_values
from tensorly_smp.likelihood.comparison import Candidate, distinct_candidates
from tensorly_smp.search.coarse import SearchSamples
from tensorly_smp.search.moves import neighbors
from tensorly_smp.search.search import search


def walk(
    samples: FitSamples,
    variables: Variables,
    ranks: Sequence[int],
    refinement: Refinement,
) -> dict[int, Candidate]:
    """Fit mixtures of several numbers of components, each helped by its neighbors.

    Upwards, the fit of a number starts from the best splits of the next smaller one; downwards, the merges of nearest
    pairs of the next larger one are tried, and upwards the splits of what was better by them. So a number costs about
    one refinement, and no search; only for two components, and where a number is more than twice the next smaller one,
    there is a search.

    Parameters
    ----------
    samples : FitSamples
    variables : Variables
    ranks : sequence of int
        Numbers of components, increasing.
    refinement : Refinement
        With ``refine="smooth"``; settings of the estimator.

    Returns
    -------
    dict of {rank: Candidate}
        With fits to all samples; origins are "search", "split" and "merge".

    Raises
    ------
    KeyboardInterrupt
    """
    subsample = samples.subsample
    values = subsample.values
    weights = subsample.weights
    options = refinement.decomposition
    settings = dict(criterion=refinement.penalty, tol=10.0 * options.tol, callback=None)
    observed = exact_values(values, weights)
    runs: dict[int, CandidateRun] = {}

    def follow(rank: int, starts: Sequence[Candidate]) -> None:
        if rank in runs:
            runs[rank].try_also(starts)
        else:
            bounds = variables.support, weights, observed
            cells = choose_cells(values, rank, variables.values, *bounds, refinement.shape)
            is_narrow = values.shape[1] <= MOST_VARIABLES_FOR_STARTS
            others = curved_cells(cells, values, rank, *bounds) if is_narrow else ()
            runs[rank] = CandidateRun(subsample.assign_to_grid(cells), others, subsample, settings, options.max_iter)
            runs[rank].follow_all(distinct_candidates(starts, weights), is_draft=True)
        if runs[rank].is_interrupted:
            raise KeyboardInterrupt

    def near(known: int, rank: int) -> list[Candidate]:
        return neighbors(runs[known].samples, runs[known].best.fit, values, rank)

    with one_blas_thread():
        for below, rank in pairwise([0, *ranks]):
            if rank == 1:
                starts = [Candidate(np.ones((len(values), 1)), "search")]
            else:
                starts = near(below, rank) if rank <= 2 * below else []
                # To search for two is quick, and no way leads from one component to all pairs of groups.
                if rank == 2 or not starts:
                    some = SearchSamples(values, weights, variables.discrete, rank)
                    starts += search(some, rank, options.n_init, options.random_state, 1, 0)[0]
            follow(rank, starts)
        split = {rank: run.best for rank, run in runs.items()}
        for rank, above in reversed(list(pairwise(ranks))):
            if rank > 1 and above <= 2 * rank:
                follow(rank, near(above, rank))
        for below, rank in pairwise(ranks):
            if rank <= 2 * below and runs[below].best is not split[below]:
                follow(rank, near(below, rank))
        best = {rank: run.best for rank, run in runs.items()}
        return best if samples.is_complete else {rank: refinement.of_all(samples, each) for rank, each in best.items()}
