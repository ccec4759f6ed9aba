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
#: Entries of tables that stay in the cache while the samples of a pass, this many at a time, are looked up in them: in
#: the order of the samples alone, nearly every entry of a large table would come from memory.
TABLE_ENTRIES, MANY = 65536, 2048
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
def expect(  # type: ignore[no-untyped-def]
    indptr, indices, shares, log_weights, log_tables, sample_weight, posterior, counts, component_counts
):
    """E-step of :func:`tensorly_smp.likelihood.expectation.expectation`, whose arguments these are.

    Parameters
    ----------
    indptr, indices, shares : ndarray
        Of the CSR matrix; slower where the indices of a sample do not rise.
    log_weights : ndarray (rank,)
    log_tables : ndarray (n_rows, rank)
    sample_weight : ndarray (n_samples,)
        Of length 0 where all are one.
    posterior : ndarray (n_samples, rank)
        Written to.
    counts : ndarray (n_rows, rank)
        Zeros, written to: where a kernel returned several arrays, Numba would run Python code to put them together, in
        which an interrupt that had come meanwhile would end as a SystemError.
    component_counts : ndarray (rank,)
        Zeros, written to.

    Returns
    -------
    float
        Log-likelihood.
    """
    n_samples, rank = posterior.shape
    is_weighted = len(sample_weight) > 0
    log_likelihood = 0.0
    joint, at, of_block = np.empty((MANY, rank)), np.empty(MANY, np.intp), np.empty(rank)
    n_together = max(1, TABLE_ENTRIES // rank)
    for start in range(0, n_samples, MANY):
        size = min(MANY, n_samples - start)
        for m in range(size):
            at[m] = indptr[start + m]
            for r in range(rank):
                joint[m, r] = log_weights[r]
        for rows in range(0, len(log_tables), n_together):
            for m in range(size):
                p, last = at[m], indptr[start + m + 1]
                while p < last and indices[p] < rows + n_together:
                    row, share = np.uintp(indices[p]), shares[p]  # unsigned: no test for indices from the end
                    for r in range(rank):
                        joint[m, r] += share * log_tables[row, r]
                    p += 1
                at[m] = p
        log_likelihood_of_block = 0.0
        of_block[:] = 0.0
        for m in range(size):
            at[m] = indptr[start + m]
            peak, total = joint[m, 0], 0.0
            for r in range(1, rank):
                peak = max(peak, joint[m, r])
            for r in range(rank):
                joint[m, r] = exp(joint[m, r] - peak)
                total += joint[m, r]
            weight = sample_weight[start + m] if is_weighted else 1.0
            log_likelihood_of_block += weight * (peak + log(total))
            for r in range(rank):
                posterior[start + m, r] = joint[m, r] / total
                joint[m, r] = weight * posterior[start + m, r]
                of_block[r] += joint[m, r]
        for rows in range(0, len(log_tables), n_together):
            for m in range(size):
                p, last = at[m], indptr[start + m + 1]
                while p < last and indices[p] < rows + n_together:
                    row, share = np.uintp(indices[p]), shares[p]
                    for r in range(rank):
                        counts[row, r] += share * joint[m, r]
                    p += 1
                at[m] = p
        log_likelihood += log_likelihood_of_block
        component_counts += of_block
    return log_likelihood


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


@_compiled
def climb(  # type: ignore[no-untyped-def]
    functions, unit, penalty_bands, data, penalty, coefficients, expected, likelihood, n_steps, tol, line_search
):
    """Newton's method of :func:`tensorly_smp.likelihood.log_spline.maximize`, one density after the other.

    Parameters
    ----------
    functions : ndarray (4, 4)
        In the four cells between two knots, the four basis functions that are not zero there: everywhere the same.
    unit : float
        Of the third differences.
    penalty_bands : ndarray (n_basis, 4)
        Of D'D.
    data, coefficients : ndarray (n_densities, n_basis)
        B'nu, and where to start from; the latter are written to, as are the next two.
    expected : ndarray (n_densities, n_cells)
    penalty, likelihood, tol : ndarray (n_densities,)
    n_steps : int
    line_search : tuple of int, float, float
        Halvings of a step, share of the promised rise that is enough, rounding of F.

    Returns
    -------
    ndarray of bool (n_densities,)
        Whether a Hessian was found that is not positive definite to rounding, where the density is left as it is.
    """
    n_densities, n_basis = coefficients.shape
    most_halvings, share, rounding = line_search
    is_left = np.zeros(n_densities, np.bool_)
    products = _products(functions)
    gradient, moved, found = np.empty(n_basis), np.empty(n_basis), np.empty(expected.shape[1])
    step, bands = np.zeros(n_basis + 3), np.zeros((n_basis + 3, 4))
    for s in range(n_densities):
        nu, rho, beta, mass = data[s], penalty[s], coefficients[s], expected[s]
        value = likelihood[s] - 0.5 * rho * _roughness(unit, beta)
        for _ in range(n_steps):
            _derive(functions, products, unit, penalty_bands, nu, rho, beta, mass, gradient, bands)
            is_left[s] = not _solve(bands, gradient, step)
            if is_left[s]:
                break
            promised, length = 0.0, 1.0
            for k in range(n_basis):
                promised += gradient[k] * step[k]
            for _ in range(most_halvings):
                for k in range(n_basis):
                    moved[k] = beta[k] + length * step[k]
                reached = _likelihood(functions, nu, moved, found)
                risen = reached - 0.5 * rho * _roughness(unit, moved)
                if risen >= value + share * length * promised - rounding:
                    likelihood[s], value = reached, risen
                    for k in range(n_basis):
                        beta[k] = moved[k]
                    for g in range(len(mass)):
                        mass[g] = found[g]
                    break
                length *= 0.5
            if promised <= tol[s]:
                break
    return is_left


@_compiled
def measure(  # type: ignore[no-untyped-def]
    functions, penalty_bands, penalty, expected, log_determinant, freedom
):
    """Of the negative Hessians H = B'WB + rho D'D at fitted densities: determinants, and traces of H^-1 B'WB.

    Parameters
    ----------
    functions, penalty_bands : ndarray
        As for :func:`climb`.
    penalty : ndarray (n_densities,)
    expected : ndarray (n_densities, n_cells)
    log_determinant, freedom : ndarray (n_densities,)
        Written to; NaN where H is not positive definite to rounding.
    """
    n_basis = len(penalty_bands)
    products = _products(functions)
    zeros, x = np.zeros(n_basis), np.zeros(n_basis + 3)
    curvature, bands = np.zeros((n_basis + 3, 4)), np.zeros((n_basis + 3, 4))
    for s in range(len(penalty)):
        curvature[:] = 0.0
        flat = curvature.reshape(-1)
        for i in range(n_basis - 3):
            _add_cells(products, expected[s], i, flat)
        for k in range(n_basis):
            for d in range(4):
                bands[k, d] = curvature[k, d] + penalty[s] * penalty_bands[k, d]
        if not _solve(bands, zeros, x):
            log_determinant[s] = freedom[s] = np.nan
            continue
        # The inverse Z follows upwards from its entries within the band (Takahashi, Fagan and Chin 1973).
        z11 = z21 = z31 = z22 = z32 = z33 = logarithm = trace = 0.0
        for k in range(n_basis - 1, -1, -1):
            first, second, third = bands[k, 1], bands[k, 2], bands[k, 3]
            z1 = -(first * z11 + second * z21 + third * z31)
            z2 = -(first * z21 + second * z22 + third * z32)
            z3 = -(first * z31 + second * z32 + third * z33)
            z0 = bands[k, 0] - (first * z1 + second * z2 + third * z3)
            logarithm -= log(bands[k, 0])
            trace += z0 * curvature[k, 0] + 2.0 * (z1 * curvature[k, 1] + z2 * curvature[k, 2] + z3 * curvature[k, 3])
            z11, z21, z31, z22, z32, z33 = z0, z1, z2, z11, z21, z22
        log_determinant[s], freedom[s] = logarithm, trace


@_compiled
def _products(functions):  # type: ignore[no-untyped-def]
    """Products (4, 16) of the basis functions in a cell, to what it adds to four rows of the bands."""
    products = np.zeros((4, 16))
    for a in range(4):
        for d in range(4 - a):
            for j in range(4):
                products[j, 4 * a + d] = functions[j, a] * functions[j, a + d]
    return products


@_compiled
def _add_cells(products, expected, i, flat):  # type: ignore[no-untyped-def]
    """Add what the cells after knot i contribute to B'WB, to its bands in one row."""
    m0, m1, m2, m3 = expected[4 * i], expected[4 * i + 1], expected[4 * i + 2], expected[4 * i + 3]
    for q in range(16):
        flat[4 * i + q] += (m0 * products[0, q] + m1 * products[1, q]) + (m2 * products[2, q] + m3 * products[3, q])


@_compiled
def _roughness(unit, beta):  # type: ignore[no-untyped-def]
    """|D beta|^2."""
    total = 0.0
    for k in range(len(beta) - 3):
        bend = unit * (beta[k + 3] - 3.0 * beta[k + 2] + 3.0 * beta[k + 1] - beta[k])
        total += bend * bend
    return total


@_compiled
def _likelihood(functions, data, beta, expected):  # type: ignore[no-untyped-def]
    """F without its penalty; exp(eta) is written to `expected`."""
    total = 0.0
    for i in range(len(beta) - 3):
        for j in range(4):
            eta = functions[j, 0] * beta[i] + functions[j, 1] * beta[i + 1]
            eta += functions[j, 2] * beta[i + 2] + functions[j, 3] * beta[i + 3]
            expected[4 * i + j] = exp(eta)
            total -= expected[4 * i + j]
    for k in range(len(beta)):
        total += data[k] * beta[k]
    return total


@_compiled
def _derive(functions, products, unit, penalty_bands, data, rho, beta, expected, gradient, bands):  # type: ignore[no-untyped-def]
    """Gradient (n_basis,) of F and bands (n_basis, 4) of its negative Hessian."""
    flat = bands.reshape(-1)
    for k in range(len(beta)):
        gradient[k] = data[k]
        for d in range(4):
            bands[k, d] = rho * penalty_bands[k, d]
    for i in range(len(beta) - 3):
        bend = rho * unit * unit * (beta[i + 3] - 3.0 * beta[i + 2] + 3.0 * beta[i + 1] - beta[i])
        gradient[i] += bend
        gradient[i + 1] -= 3.0 * bend
        gradient[i + 2] += 3.0 * bend
        gradient[i + 3] -= bend
        m0, m1, m2, m3 = expected[4 * i], expected[4 * i + 1], expected[4 * i + 2], expected[4 * i + 3]
        for a in range(4):
            of_a = (m0 * functions[0, a] + m1 * functions[1, a]) + (m2 * functions[2, a] + m3 * functions[3, a])
            gradient[i + a] -= of_a
        _add_cells(products, expected, i, flat)


@_compiled
def _solve(bands, right, x):  # type: ignore[no-untyped-def]
    """Solution of a banded symmetric system, by L D L'; whether it is positive definite.

    Parameters
    ----------
    bands : ndarray (n + 3, 4)
        Overwritten. Three rows of zeros at the end, as in `x`, spare the inner loops a test for the end.
    right : ndarray (n,)
    x : ndarray (n + 3,)
        Written to.
    """
    n = len(right)
    for k in range(n):
        x[k] = right[k]
    for k in range(n):
        if not bands[k, 0] > 0.0:
            return False
        inverse = 1.0 / bands[k, 0]
        first, second, third = bands[k, 1], bands[k, 2], bands[k, 3]
        of_first, of_second, of_third = first * inverse, second * inverse, third * inverse
        bands[k + 1, 0] -= of_first * first
        bands[k + 1, 1] -= of_first * second
        bands[k + 1, 2] -= of_first * third
        bands[k + 2, 0] -= of_second * second
        bands[k + 2, 1] -= of_second * third
        bands[k + 3, 0] -= of_third * third
        x[k + 1] -= of_first * x[k]
        x[k + 2] -= of_second * x[k]
        x[k + 3] -= of_third * x[k]
        bands[k, 0], bands[k, 1], bands[k, 2], bands[k, 3] = inverse, of_first, of_second, of_third
    x[n:] = 0.0
    for k in range(n - 1, -1, -1):
        x[k] = bands[k, 0] * x[k] - bands[k, 1] * x[k + 1] - bands[k, 2] * x[k + 2] - bands[k, 3] * x[k + 3]
    return True
