"""The coupled decomposition of chunked samples, from histograms that are added up over the parts."""

from __future__ import annotations

from dataclasses import replace
from math import comb
from typing import Any

from tensorly_smp.chunked.encoding import ChunkedCodes, count_chunks
from tensorly_smp.decomposition.problem import as_problem
from tensorly_smp.decomposition.solution import CoupledSolution
from tensorly_smp.decomposition.solver import coupled_simplex_parafac, decompose
from tensorly_smp.exceptions import SizeLimitError
from tensorly_smp.fitting.coupled_stage import Decomposition
from tensorly_smp.marginals.histograms import MAX_BYTES, bytes_of_histograms


def decompose_chunks(decomposition: Decomposition, codes: ChunkedCodes) -> CoupledSolution:
    """Factorize the histograms of chunked samples: to the end, or as far as a refinement needs it.

    Raises
    ------
    SizeLimitError
        The histograms of all triples would be too large. Samples in memory need none with the Frobenius loss.
    """
    settings = decomposition.settings(codes.n_bins)
    rank = decomposition.rank
    is_large = decomposition.is_of_all_triples and decomposition.is_large(codes.n_bins)
    if is_large and decomposition.is_start:  # a part of many samples is as good a start, as in memory
        return coupled_simplex_parafac(codes.subsample, rank, sample_weight=codes.subsample_weights, **settings)
    if is_large:
        _require_fit(codes)
    marginals = count_chunks(codes, decomposition.triples, random_state=decomposition.random_state)
    if decomposition.is_of_all_triples and not is_large:
        return coupled_simplex_parafac(marginals, rank, **settings)
    # The algebraic start is of the samples: some triples make no block tensor, and that of all is large.
    some = dict[str, Any](samples=codes.subsample, sample_weight=codes.subsample_weights)
    problem = as_problem(marginals, rank=rank, loss=settings.pop("loss"), options=settings["options"], **some)
    solution = decompose(problem, **settings)
    is_complete = solution.triples is not None and len(solution.triples) == comb(codes.n_variables, 3)
    return replace(
        solution,
        start_info={**solution.start_info, "histograms": "counted"} if is_large else solution.start_info,
        triples=None if is_large and is_complete else solution.triples,
    )


def _require_fit(codes: ChunkedCodes) -> None:
    size = bytes_of_histograms(codes.n_bins)
    if size > MAX_BYTES:
        n_variables = codes.n_variables
        raise SizeLimitError(
            f"The histograms of all {comb(n_variables, 3)} triples of {n_variables} variables would take "
            f"{size / 1e9:.3g} GB, over the limit of {MAX_BYTES / 1e9:.3g} GB, and of samples in chunks they have to "
            f"be counted. Expected a number of triples, as triples={10 * n_variables}, which uses all variables "
            'evenly; fewer bins; refine="smooth", which needs no histograms of many variables; or samples in memory.'
        )
