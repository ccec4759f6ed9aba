"""The coupled decomposition of chunked samples: of histograms that are added up, or of sums over the parts."""

from __future__ import annotations

from dataclasses import replace
from math import comb
from typing import Any

from tensorly_smp.chunked.coding import ChunkedCodes, count_chunks
from tensorly_smp.chunked.sweeping import couple_chunks
from tensorly_smp.decomposition import Decomposition
from tensorly_smp.factors.forms import MOST_BYTES, bytes_of_histograms
from tensorly_smp.factors.solution import CoupledSolution
from tensorly_smp.factors.solver import coupled_simplex_parafac

#: Size of the histograms of all triples up to which they are counted, in bytes: every part has some of its own for a
#: moment, and several of them meet on a worker.
MOST_BYTES_OF_PARTS = 1e8


def decompose_chunks(decomposition: Decomposition, codes: ChunkedCodes) -> CoupledSolution:
    """The coupled CPD of chunked samples: to its end, or as far as a refinement needs it.

    As ``Decomposition.solution`` for samples in memory, but for which of the two forms of the Frobenius loss it takes,
    which changes the result by rounding only.
    """
    settings = decomposition.settings(codes.n_bins, codes.samples.total_weight)
    every = decomposition.is_of_all_triples
    rank, few = decomposition.rank, dict[str, Any](codes=codes.few, sample_weight=codes.few_weights)
    with decomposition.hushed():
        if not every or not decomposition.is_large(codes.n_bins):
            marginals = count_chunks(codes, decomposition.triples, random_state=decomposition.random_state)
            return coupled_simplex_parafac(marginals, rank, **({} if every else few), **settings)
        if decomposition.is_start:  # of which a part of many samples is as good, as in memory
            return coupled_simplex_parafac(codes.few, rank, sample_weight=codes.few_weights, **settings)
        if settings["loss"] == "frobenius" and bytes_of_histograms(codes.n_bins) > MOST_BYTES_OF_PARTS:
            # The parts keep the sums of one start at a time.
            settings["n_jobs"] = None
            form, coupled = "implicit", couple_chunks(codes)
            solution = coupled_simplex_parafac(coupled, rank, **few, **settings)
        else:
            form, marginals = "counted", count_chunks(codes, "all", max_bytes=MOST_BYTES)
            solution = coupled_simplex_parafac(marginals, rank, **few, **settings)
    is_complete = solution.triples is not None and len(solution.triples) == comb(codes.n_variables, 3)
    return replace(
        solution,
        start_info={**solution.start_info, "histograms": form},
        triples=None if is_complete else solution.triples,
    )
