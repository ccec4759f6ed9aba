"""Smoothed EM of several numbers of components, each from the fits of its neighbors: their splits and merges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorly_smp._support.parallel import one_blas_thread
from tensorly_smp.fitting.candidates import CandidateRun
from tensorly_smp.fitting.fit_samples import FitSamples, Variables
from tensorly_smp.fitting.stages import Refinement, other_cells
from tensorly_smp.likelihood.cells import choose_cells, exact_values
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

    Upwards, a number starts from the best splits of the fit with one component less; downwards, the merges of nearest
    pairs of the fit with one more are tried, and upwards the splits of what was better by them. So a number costs about
    one refinement, and no search; only for two components, and where the number before is missing, there is a search.

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
            support = variables.support
            cells = choose_cells(values, rank, variables.values, support, weights, observed, refinement.shape)
            others = other_cells(cells, subsample, variables, rank, observed)
            runs[rank] = CandidateRun(subsample.assign_to_grid(cells), others, subsample, settings, options.max_iter)
            runs[rank].follow_all(distinct_candidates(starts, weights), is_draft=True)
        if runs[rank].is_interrupted:
            raise KeyboardInterrupt

    def near(known: int, rank: int) -> list[Candidate]:
        return neighbors(runs[known].samples, runs[known].best.fit, values, rank)

    with one_blas_thread():
        for rank in ranks:
            starts = near(rank - 1, rank) if rank - 1 in runs else []
            if rank == 1:
                starts = [Candidate(np.ones((len(values), 1)), "search")]
            elif rank == 2 or not starts:
                # To search for two is quick, and no way leads from one component to all pairs of groups.
                some = SearchSamples(values, weights, variables.discrete, rank)
                searches = search(some, rank, options.n_init, options.random_state, 1, 0)
                starts += [each for found in searches for each in found]
            follow(rank, starts)
        split = {rank: run.best for rank, run in runs.items()}
        for rank in reversed(ranks):
            if rank > 1 and rank + 1 in runs:
                follow(rank, near(rank + 1, rank))
        for rank in ranks:
            if rank - 1 in runs and runs[rank - 1].best is not split[rank - 1]:
                follow(rank, near(rank - 1, rank))
        best = {rank: run.best for rank, run in runs.items()}
        return best if samples.is_complete else {rank: refinement.of_all(samples, each) for rank, each in best.items()}
