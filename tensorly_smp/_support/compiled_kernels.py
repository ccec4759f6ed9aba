"""Loops compiled by Numba: one pass over the samples each, nothing of their size allocated.

Only :mod:`tensorly_smp._support.kernels` imports this module. Sums over samples are taken in chunks of a fixed size and
then added up, in double precision, so that they lose no more to rounding than those of the plain twins. All kernels are
in one file: in Numba's cache they are compiled anew when theirs changes, not when another one does that they call.
"""

from __future__ import annotations

from math import factorial, log
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
#: For exponentials: ln 2 in two parts, the first so short that small integers times it are exact (Cody and Waite 1980);
#: Taylor coefficients; what turns a small double into an integer in its last bits; and arguments at most.
LOG2_E, LN2_HIGH, LN2_LOW = 1.4426950408889634, 6.93147180369123816490e-01, 1.90821492927058770002e-10
TAYLOR = tuple(1.0 / factorial(k) for k in range(14))
TO_INTEGER, LARGEST_EXPONENT = 1.5 * 2.0**52, 600.0


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
    peaks, scratch = np.empty(MANY), np.empty(MANY * rank)
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
        for m in range(size):
            at[m] = indptr[start + m]
            peaks[m] = joint[m, 0]
            for r in range(1, rank):
                peaks[m] = max(peaks[m], joint[m, r])
            for r in range(rank):
                joint[m, r] -= peaks[m]
        _exponentials(joint.reshape(-1), scratch, size * rank)
        log_likelihood_of_block = 0.0
        of_block[:] = 0.0
        for m in range(size):
            total = 0.0
            for r in range(rank):
                total += joint[m, r]
            weight = sample_weight[start + m] if is_weighted else 1.0
            log_likelihood_of_block += weight * (peaks[m] + log(total))
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
def _exponentials(x, scratch, n):  # type: ignore[no-untyped-def]
    """Exponentials of the first n numbers, in place, to two units in the last place; between exp(-600) and exp(600).

    x = k ln 2 + r with an integer k, and the exponential of r by its series. Unlike a call of the library's function,
    such a loop is compiled to instructions for several numbers at a time.
    """
    t = TAYLOR
    for i in range(n):
        v = x[i] if x[i] > -LARGEST_EXPONENT else -LARGEST_EXPONENT
        v = v if v < LARGEST_EXPONENT else LARGEST_EXPONENT
        shifted = v * LOG2_E + TO_INTEGER
        k = shifted - TO_INTEGER
        r = (v - k * LN2_HIGH) - k * LN2_LOW
        tail = t[7] + r * (t[8] + r * (t[9] + r * (t[10] + r * (t[11] + r * (t[12] + r * t[13])))))
        x[i] = t[0] + r * (t[1] + r * (t[2] + r * (t[3] + r * (t[4] + r * (t[5] + r * (t[6] + r * tail))))))
        scratch[i] = shifted
    bits, shifts = x.view(np.int64), scratch.view(np.int64)
    for i in range(n):
        bits[i] += shifts[i] << 52  # times 2^k


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
def descend(linear, gram, x, curvature, n_inner, moved):  # type: ignore[no-untyped-def]
    """Accelerated projected gradient of :class:`tensorly_smp.factors.updates.ProjectedGradient`, for a factor.

    Parameters
    ----------
    linear, x : ndarray (n_bins, rank)
    gram : ndarray (rank, rank)
    curvature : ndarray (rank,)
    n_inner : int
        Steps.
    moved : ndarray (n_bins, rank)
        Written to.
    """
    n_bins, rank = x.shape
    slope, ahead, before = linear.T.copy(), x.T.copy(), np.empty((rank, n_bins), x.dtype)
    current, first = np.empty((rank, n_bins), x.dtype), np.empty((rank, n_bins), x.dtype)
    _descend_once(slope, gram, ahead, curvature, first)
    _copy(first, current)
    _copy(first, ahead)
    momentum = 1.0
    for _ in range(n_inner - 1):
        _copy(current, before)
        _descend_once(slope, gram, ahead, curvature, current)
        longer = (1.0 + (1.0 + 4.0 * momentum * momentum) ** 0.5) / 2.0
        further = x.dtype.type((momentum - 1.0) / longer)
        for r in range(rank):
            for i in range(n_bins):
                ahead[r, i] = current[r, i] + further * (current[r, i] - before[r, i])
        momentum = longer
    best = current if _quadratic(slope, gram, current) <= _quadratic(slope, gram, first) else first
    for r in range(rank):
        for i in range(n_bins):
            moved[i, r] = best[r, i]


@_compiled
def _copy(source, target):  # type: ignore[no-untyped-def]
    """Entry by entry: for an assignment of whole arrays Numba would compile the text of an error, for seconds."""
    for r in range(len(source)):
        for i in range(source.shape[1]):
            target[r, i] = source[r, i]


@_compiled
def _descend_once(linear, gram, x, curvature, moved):  # type: ignore[no-untyped-def]
    """One step from x, projected onto the simplex; all (rank, n_bins)."""
    rank, n_bins = x.shape
    for r in range(rank):
        line, length = moved[r], 2.0 / curvature[r]
        line[:] = 0.0
        for s in range(rank):
            weight, other = gram[s, r], x[s]
            for i in range(n_bins):
                line[i] += weight * other[i]
        for i in range(n_bins):
            line[i] = x[r, i] - length * (line[i] - linear[r, i])
        # Largest entry at zero; then the mean excess of those above the threshold, until these stay the same (Michelot
        # 1986): the entries above it can only become fewer.
        peak = line.max()
        threshold, n_above = x.dtype.type(-np.inf), -1
        while True:
            total, count = x.dtype.type(-1.0), 0
            for i in range(n_bins):
                if line[i] - peak > threshold:
                    total += line[i] - peak
                    count += 1
            if count in (0, n_above):  # 0: there is a NaN
                break
            threshold, n_above = total / count, count
        for i in range(n_bins):
            line[i] = max(line[i] - peak - threshold, x.dtype.type(0.0))


@_compiled
def _quadratic(linear, gram, x):  # type: ignore[no-untyped-def]
    """Trace of x' gram x - 2 x' linear; x and linear (rank, n_bins)."""
    value = 0.0
    for r in range(len(x)):
        for s in range(len(x)):
            for i in range(x.shape[1]):
                value += x[r, i] * gram[r, s] * x[s, i]
        for i in range(x.shape[1]):
            value -= 2.0 * x[r, i] * linear[r, i]
    return value


@_compiled
def climb(  # type: ignore[no-untyped-def]
    functions, unit, penalty_bands, data, penalty, coefficients, expected, likelihood, n_steps, tol, line_search
):
    """Newton's method of :func:`tensorly_smp.splines.log_spline.maximize`, one density after the other.

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
    products, by_band = _products(functions), penalty_bands.T.copy()
    gradient, moved, bends = np.empty(n_basis), np.empty(n_basis), np.zeros(n_basis + 3)
    mass, found, scratch = np.zeros((4, n_basis + 3)), np.zeros((4, n_basis + 3)), np.empty(n_basis)
    step, bands = np.zeros(n_basis + 3), np.zeros((4, n_basis + 3))
    for s in range(n_densities):
        nu, rho, beta = data[s], penalty[s], coefficients[s]
        value = likelihood[s] - 0.5 * rho * _roughness(unit, beta)
        _by_place(expected[s], mass)
        for _ in range(n_steps):
            _derive(functions, products, unit, by_band, nu, rho, beta, mass, bends, gradient, bands)
            is_left[s] = not _solve(bands, gradient, step)
            if is_left[s]:
                break
            promised, length = 0.0, 1.0
            for k in range(n_basis):
                promised += gradient[k] * step[k]
            for _ in range(most_halvings):
                for k in range(n_basis):
                    moved[k] = beta[k] + length * step[k]
                reached = _likelihood(functions, nu, moved, found, scratch)
                risen = reached - 0.5 * rho * _roughness(unit, moved)
                if risen >= value + share * length * promised - rounding:
                    likelihood[s], value = reached, risen
                    for k in range(n_basis):
                        beta[k] = moved[k]
                    mass, found = found, mass
                    break
                length *= 0.5
            if promised <= tol[s]:
                break
        for i in range(n_basis - 3):
            for j in range(4):
                expected[s, 4 * i + j] = mass[j, 3 + i]
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
    products, by_band = _products(functions), penalty_bands.T.copy()
    zeros, x, mass = np.zeros(n_basis), np.zeros(n_basis + 3), np.zeros((4, n_basis + 3))
    curvature, bands = np.zeros((4, n_basis + 3)), np.zeros((4, n_basis + 3))
    for s in range(len(penalty)):
        _by_place(expected[s], mass)
        curvature[:] = 0.0
        _add_curvature(products, mass, curvature)
        for d in range(4):
            for k in range(n_basis):
                bands[d, k] = curvature[d, k] + penalty[s] * by_band[d, k]
        if not _solve(bands, zeros, x):
            log_determinant[s] = freedom[s] = np.nan
            continue
        # The inverse Z follows upwards from its entries within the band (Takahashi, Fagan and Chin 1973).
        z11 = z21 = z31 = z22 = z32 = z33 = logarithm = trace = 0.0
        for k in range(n_basis - 1, -1, -1):
            first, second, third = bands[1, k], bands[2, k], bands[3, k]
            z1 = -(first * z11 + second * z21 + third * z31)
            z2 = -(first * z21 + second * z22 + third * z32)
            z3 = -(first * z31 + second * z32 + third * z33)
            z0 = bands[0, k] - (first * z1 + second * z2 + third * z3)
            logarithm -= log(bands[0, k])
            trace += z0 * curvature[0, k] + 2.0 * (z1 * curvature[1, k] + z2 * curvature[2, k] + z3 * curvature[3, k])
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
def _by_place(expected, mass):  # type: ignore[no-untyped-def]
    """Numbers of cells (n_cells,), by the place of the cell among the four between two knots: (4, n_basis + 3).

    Three zeros before and after those of a place spare the loops over basis functions a test for the ends.
    """
    for i in range(mass.shape[1] - 6):
        for j in range(4):
            mass[j, 3 + i] = expected[4 * i + j]


@_compiled
def _add_curvature(products, mass, bands):  # type: ignore[no-untyped-def]
    """Add B'WB, for W with the numbers of :func:`_by_place` on its diagonal, to bands (4, n_basis + 3)."""
    for d in range(4):
        band = bands[d]
        for a in range(4 - d):
            p0, p1, p2, p3 = (
                products[0, 4 * a + d],
                products[1, 4 * a + d],
                products[2, 4 * a + d],
                products[3, 4 * a + d],
            )
            m0, m1, m2, m3 = mass[0, 3 - a :], mass[1, 3 - a :], mass[2, 3 - a :], mass[3, 3 - a :]
            for k in range(len(band) - 3):
                band[k] += (m0[k] * p0 + m1[k] * p1) + (m2[k] * p2 + m3[k] * p3)


@_compiled
def _roughness(unit, beta):  # type: ignore[no-untyped-def]
    """|D beta|^2."""
    total = 0.0
    for k in range(len(beta) - 3):
        bend = unit * (beta[k + 3] - 3.0 * beta[k + 2] + 3.0 * beta[k + 1] - beta[k])
        total += bend * bend
    return total


@_compiled
def _likelihood(functions, data, beta, mass, scratch):  # type: ignore[no-untyped-def]
    """F without its penalty; exp(eta) is written to `mass`, as of :func:`_by_place`."""
    n = len(beta) - 3
    b0, b1, b2, b3 = beta[:n], beta[1:], beta[2:], beta[3:]
    for j in range(4):
        f0, f1, f2, f3, eta = functions[j, 0], functions[j, 1], functions[j, 2], functions[j, 3], mass[j, 3:]
        for i in range(n):
            eta[i] = (f0 * b0[i] + f1 * b1[i]) + (f2 * b2[i] + f3 * b3[i])
        _exponentials(eta, scratch, n)
    m0, m1, m2, m3 = mass[0, 3:], mass[1, 3:], mass[2, 3:], mass[3, 3:]
    t0 = t1 = t2 = t3 = total = 0.0  # sums that do not wait for each other
    for i in range(n):
        t0 += m0[i]
        t1 += m1[i]
        t2 += m2[i]
        t3 += m3[i]
    for k in range(len(beta)):
        total += data[k] * beta[k]
    return total - ((t0 + t1) + (t2 + t3))


@_compiled
def _derive(functions, products, unit, by_band, data, rho, beta, mass, bends, gradient, bands):  # type: ignore[no-untyped-def]
    """Gradient (n_basis,) of F and bands (4, n_basis + 3) of its negative Hessian."""
    n_basis = len(beta)
    b0, b1, b2, b3, inner = beta[: n_basis - 3], beta[1:], beta[2:], beta[3:], bends[3:]
    for i in range(n_basis - 3):
        inner[i] = rho * unit * unit * ((b3[i] - b0[i]) - 3.0 * (b2[i] - b1[i]))
    b0, b1, b2, b3 = bends[:n_basis], bends[1:], bends[2:], bends[3:]
    for k in range(n_basis):
        gradient[k] = data[k] + ((b3[k] - b0[k]) - 3.0 * (b2[k] - b1[k]))
    for a in range(4):
        f0, f1, f2, f3 = functions[0, a], functions[1, a], functions[2, a], functions[3, a]
        m0, m1, m2, m3 = mass[0, 3 - a :], mass[1, 3 - a :], mass[2, 3 - a :], mass[3, 3 - a :]
        for k in range(n_basis):
            gradient[k] -= (m0[k] * f0 + m1[k] * f1) + (m2[k] * f2 + m3[k] * f3)
    for d in range(4):
        for k in range(n_basis):
            bands[d, k] = rho * by_band[d, k]
        bands[d, n_basis:] = 0.0
    _add_curvature(products, mass, bands)


@_compiled
def _solve(bands, right, x):  # type: ignore[no-untyped-def]
    """Solution of a banded symmetric system, by L D L'; whether it is positive definite.

    Parameters
    ----------
    bands : ndarray (4, n + 3)
        Overwritten. Three columns of zeros at the end, as in `x`, spare the inner loops a test for the end.
    right : ndarray (n,)
    x : ndarray (n + 3,)
        Written to.
    """
    n = len(right)
    for k in range(n):
        x[k] = right[k]
    for k in range(n):
        if not bands[0, k] > 0.0:
            return False
        inverse = 1.0 / bands[0, k]
        first, second, third = bands[1, k], bands[2, k], bands[3, k]
        of_first, of_second, of_third = first * inverse, second * inverse, third * inverse
        bands[0, k + 1] -= of_first * first
        bands[1, k + 1] -= of_first * second
        bands[2, k + 1] -= of_first * third
        bands[0, k + 2] -= of_second * second
        bands[1, k + 2] -= of_second * third
        bands[0, k + 3] -= of_third * third
        x[k + 1] -= of_first * x[k]
        x[k + 2] -= of_second * x[k]
        x[k + 3] -= of_third * x[k]
        bands[0, k], bands[1, k], bands[2, k], bands[3, k] = inverse, of_first, of_second, of_third
    x[n:] = 0.0
    for k in range(n - 1, -1, -1):
        x[k] = bands[0, k] * x[k] - bands[1, k] * x[k + 1] - bands[2, k] * x[k + 2] - bands[3, k] * x[k + 3]
    return True
