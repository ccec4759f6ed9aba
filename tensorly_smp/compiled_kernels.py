"""Loops compiled by Numba: one pass over the samples each, nothing of their size allocated.

Only :mod:`tensorly_smp.kernels` imports this module. Sums over samples are taken in chunks of a fixed size and then
added up, in double precision, so that they lose no more to rounding than those of the plain twins.
"""

from __future__ import annotations

from math import exp, log
from typing import Any

import numpy as np
from numba import njit

#: Samples whose sums are taken together.
CHUNK = 8192
#: Samples whose e1 and e2 stay in the processor's nearest cache while all variables are added.
BLOCK = 128


def _compiled(function: Any) -> Any:
    # Contraction to fused multiply-add is the only liberty: sums keep their order, infinities their meaning.
    options: dict[str, Any] = {"nogil": True, "fastmath": {"contract"}}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # nowhere to write the cache: compiled anew in every process
        return njit(**options)(function)


@_compiled
def expect(indptr, indices, shares, log_weights, log_tables, sample_weight, posterior):  # type: ignore[no-untyped-def]
    """E-step of :func:`tensorly_smp.likelihood.expectation.expectation`, whose arguments these are.

    Parameters
    ----------
    indptr, indices, shares : ndarray
        Of the CSR matrix.
    log_weights : ndarray (rank,)
    log_tables : ndarray (n_rows, rank)
    sample_weight : ndarray (n_samples,)
        Of length 0 where all are one.
    posterior : ndarray (n_samples, rank)
        Written to.

    Returns
    -------
    log_likelihood : float
    counts : ndarray (n_rows, rank)
    component_counts : ndarray (rank,)
    """
    n_samples, rank = posterior.shape
    is_weighted = len(sample_weight) > 0
    counts, component_counts, log_likelihood = np.zeros(log_tables.shape), np.zeros(rank), 0.0
    joint, of_chunk = np.empty(rank), np.empty(rank)
    for start in range(0, n_samples, CHUNK):
        log_likelihood_of_chunk = 0.0
        of_chunk[:] = 0.0
        for m in range(start, min(start + CHUNK, n_samples)):
            first, last = indptr[m], indptr[m + 1]
            joint[:] = log_weights
            for p in range(first, last):
                row, share = np.uintp(indices[p]), shares[p]  # unsigned: no test for indices from the end
                for r in range(rank):
                    joint[r] += share * log_tables[row, r]
            peak, total = joint.max(), 0.0
            for r in range(rank):
                joint[r] = exp(joint[r] - peak)
                total += joint[r]
            weight = sample_weight[m] if is_weighted else 1.0
            log_likelihood_of_chunk += weight * (peak + log(total))
            for r in range(rank):
                posterior[m, r] = joint[r] / total
                joint[r] = weight * posterior[m, r]
                of_chunk[r] += joint[r]
            for p in range(first, last):
                row, share = np.uintp(indices[p]), shares[p]
                for r in range(rank):
                    counts[row, r] += share * joint[r]
        log_likelihood += log_likelihood_of_chunk
        component_counts += of_chunk
    return log_likelihood, counts, component_counts


@_compiled
def sum_all(first, second, weights, codes, tables):  # type: ignore[no-untyped-def]
    """e1 and e2 of all variables of every sample.

    Parameters
    ----------
    first, second : ndarray (n_samples, rank)
        e1 and e2, written to.
    weights : ndarray (n_samples,)
    codes : ndarray of int (n_variables, n_samples)
    tables : ndarray (n_variables, n_rows, rank)
        The factors, a row of zeros for missing entries below each.

    Returns
    -------
    ndarray (rank,)
        Weighted sum over the samples of e3.
    """
    n_samples, rank = first.shape
    third = np.zeros(rank)
    for start in range(0, n_samples, BLOCK):
        end = min(start + BLOCK, n_samples)
        of_block = np.zeros(rank)
        first[start:end] = 0.0
        second[start:end] = 0.0
        for n in range(len(codes)):
            for m in range(start, end):
                row, weight = np.uintp(codes[n, m]), weights[m]
                for r in range(rank):
                    entry = tables[n, row, r]
                    of_block[r] += weight * (entry * second[m, r])
                    second[m, r] += entry * first[m, r]
                    first[m, r] += entry
        third += of_block
    return third


@_compiled
def exchange(first, second, weights, codes_in, table_in, codes_out, table_out):  # type: ignore[no-untyped-def]
    """Put one variable into e1 and e2 and take another one out, in a single pass.

    Parameters
    ----------
    first, second : ndarray (n_samples, rank)
        e1 and e2, written to.
    weights : ndarray (n_samples,)
    codes_in, codes_out : ndarray of int (n_samples,)
    table_in, table_out : ndarray (n_rows, rank)

    Returns
    -------
    ndarray (n_rows, rank)
        Weighted sum of e2, after both, over the samples in each bin of the variable that is out.
    """
    n_samples, rank = first.shape
    total = np.zeros(table_out.shape)
    for start in range(0, n_samples, CHUNK):
        of_chunk = np.zeros(table_out.shape)
        for m in range(start, min(start + CHUNK, n_samples)):
            row_in, row_out, weight = np.uintp(codes_in[m]), np.uintp(codes_out[m]), weights[m]
            for r in range(rank):
                entering, leaving = table_in[row_in, r], table_out[row_out, r]
                e2 = second[m, r] + entering * first[m, r]
                e1 = first[m, r] + entering - leaving
                e2 -= leaving * e1
                first[m, r] = e1
                second[m, r] = e2
                of_chunk[row_out, r] += weight * e2
        total += of_chunk
    return total
