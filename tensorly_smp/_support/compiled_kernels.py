"""Loops over log-splines, and over the entries of samples, compiled by Numba.

Nothing of the size of all densities is allocated.

Only :mod:`tensorly_smp._support.kernels` imports this module. All kernels are in one file: in Numba's cache they are
compiled anew when theirs changes, not when another one does that they call.
"""

from __future__ import annotations

from math import factorial, log
from typing import Any

import numpy as np
from numba import njit

#: For exponentials: ln 2 in two parts, the first so short that small integers times it are exact (Cody and Waite 1980);
#: Taylor coefficients; what turns a small double into an integer in its last bits; and arguments at most.
LOG2_E, LN2_HIGH, LN2_LOW = 1.4426950408889634, 6.93147180369123816490e-01, 1.90821492927058770002e-10
TAYLOR = tuple(1.0 / factorial(k) for k in range(14))
TO_INTEGER = 1.5 * 2.0**52
LARGEST_EXPONENT = 600.0


def _compiled(function: Any) -> Any:
    # Contraction to fused multiply-add is the only liberty: sums keep their order, infinities their meaning.
    options: dict[str, Any] = {"nogil": True, "fastmath": {"contract"}}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # nowhere to write the cache: compiled anew in every process
        return njit(**options)(function)


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
    bits = x.view(np.int64)
    shifts = scratch.view(np.int64)
    for i in range(n):
        bits[i] += shifts[i] << 52  # times 2^k


@_compiled
def newton_log_splines(  # type: ignore[no-untyped-def]
    functions,
    unit,
    penalty_bands,
    data,
    penalty,
    coefficients,
    expected,
    likelihood,
    n_steps,
    tol,
    line_search,
    is_concave,
    holding,
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
    is_concave : bool
        Whether the densities are log-concave; the coefficients are when they come.
    holding : tuple of float, float, int
        Second differences that count as zero, what holds them there, systems to be solved for a step at most.

    Returns
    -------
    ndarray of bool (n_densities,)
        Whether a Hessian was found that is not positive definite to rounding, where the density is left as it is.
    """
    n_densities, n_basis = coefficients.shape
    is_left = np.zeros(n_densities, np.bool_)
    products = _products(functions)
    by_band = penalty_bands.T.copy()
    gradient = np.empty(n_basis)
    third_differences = np.zeros(n_basis + 3)
    mass = np.zeros((4, n_basis + 3))
    found = np.zeros((4, n_basis + 3))
    scratch = np.empty((2, n_basis))
    step = np.zeros(n_basis + 3)
    bands = np.zeros((4, n_basis + 3))
    system = np.zeros((4, n_basis + 3))
    work = np.zeros((5, n_basis + 2))
    for s in range(n_densities):
        nu = data[s]
        rho = penalty[s]
        beta = coefficients[s]
        _by_place(expected[s], mass)
        for _ in range(n_steps):
            _derive(functions, products, unit, by_band, nu, rho, beta, mass, third_differences, gradient, bands)
            if is_concave:
                is_left[s] = not _held_step(beta, gradient, bands, holding, step, system, work)
            else:
                is_left[s] = not _solve(bands, gradient, step)
            if is_left[s]:
                break
            value = likelihood[s] - 0.5 * rho * _roughness(unit, beta)
            reached, predicted_gain = _search(
                functions, unit, nu, rho, beta, value, gradient, step, line_search, is_concave, found, scratch
            )
            if reached > -np.inf:
                likelihood[s] = reached
                mass, found = found, mass
            if predicted_gain <= tol[s]:
                break
        expected[s] = mass[:, 3:n_basis].T.copy().ravel()
    return is_left


@_compiled
def _search(functions, unit, data, rho, beta, value, gradient, step, line_search, is_concave, mass, scratch):  # type: ignore[no-untyped-def]
    """Add Newton's step to `beta`, halved until F rises from `value` as it should.

    Returns F without its penalty, whose exp(eta) is in `mass`, and the rise that the whole step promised. If F never
    rises, it returns minus infinity, and `beta` stays.
    """
    most_halvings, share, rounding = line_search
    predicted_gain = 0.0
    for k in range(len(beta)):
        predicted_gain += gradient[k] * step[k]
    moved = scratch[0]
    length = 1.0
    for _ in range(most_halvings):
        for k in range(len(beta)):
            moved[k] = beta[k] + length * step[k]
        if is_concave:
            _turn_down(moved, scratch[1])
        reached = _likelihood(functions, data, moved, mass, scratch[1])
        risen = reached - 0.5 * rho * _roughness(unit, moved)
        if risen >= value + share * length * predicted_gain - rounding:
            beta[:] = moved
            return reached, predicted_gain
        length *= 0.5
    return -np.inf, predicted_gain


@_compiled
def determinants_and_df(  # type: ignore[no-untyped-def]
    functions, penalty_bands, penalty, expected, held, hold, log_determinant, effective_df
):
    """Log determinants of the negative Hessians H = B'WB + rho D'D of fitted densities, and traces of H^-1 B'WB.

    Where second differences of log-concave densities are held at zero, H is the matrix that holds them.

    Parameters
    ----------
    functions, penalty_bands : ndarray
        As for :func:`newton_log_splines`.
    penalty : ndarray (n_densities,)
    expected : ndarray (n_densities, n_cells)
    held : ndarray of bool (n_densities, n_basis - 2)
        Second differences that are held; (n_densities, 0) if none ever is.
    hold : float
        What holds them.
    log_determinant, effective_df : ndarray (n_densities,)
        Written to; NaN where H is not positive definite to rounding.
    """
    n_basis = len(penalty_bands)
    products = _products(functions)
    by_band = penalty_bands.T.copy()
    zeros = np.zeros(n_basis)
    x = np.zeros(n_basis + 3)
    mass = np.zeros((4, n_basis + 3))
    curvature = np.zeros((4, n_basis + 3))
    bands = np.zeros((4, n_basis + 3))
    weights = np.zeros(n_basis + 2)
    for s in range(len(penalty)):
        _by_place(expected[s], mass)
        curvature[:] = 0.0
        _add_curvature(products, mass, curvature)
        for d in range(4):
            for k in range(n_basis):
                bands[d, k] = curvature[d, k] + penalty[s] * by_band[d, k]
        for k in range(held.shape[1]):
            weights[k + 2] = hold if held[s, k] else 0.0
        _add_hold(weights, bands)
        if not _solve(bands, zeros, x):
            log_determinant[s] = effective_df[s] = np.nan
            continue
        # The inverse Z follows upwards from its entries within the band (Takahashi, Fagan and Chin 1973).
        z11 = z21 = z31 = z22 = z32 = z33 = logarithm = trace = 0.0
        for k in range(n_basis - 1, -1, -1):
            first = bands[1, k]
            second = bands[2, k]
            third = bands[3, k]
            z1 = -(first * z11 + second * z21 + third * z31)
            z2 = -(first * z21 + second * z22 + third * z32)
            z3 = -(first * z31 + second * z32 + third * z33)
            z0 = bands[0, k] - (first * z1 + second * z2 + third * z3)
            logarithm -= log(bands[0, k])
            trace += z0 * curvature[0, k] + 2.0 * (z1 * curvature[1, k] + z2 * curvature[2, k] + z3 * curvature[3, k])
            z11, z21, z31, z22, z32, z33 = z0, z1, z2, z11, z21, z22
        log_determinant[s], effective_df[s] = logarithm, trace


@_compiled
def add_picked_rows(rows, starts, tables, found):  # type: ignore[no-untyped-def]
    """Add to every sample the rows of the tables that its entries pick.

    Parameters
    ----------
    rows : ndarray of int (n_tables, n_samples)
        Row in the table, negative where the entry is missing.
    starts : ndarray of int (n_tables,)
        First row of every table.
    tables : ndarray (n_rows, n_columns)
        One below the other.
    found : ndarray (n_samples, n_columns)
        Added to.
    """
    n_samples, n_columns = found.shape
    for n in range(len(rows)):
        table = tables[starts[n] :]
        for m in range(n_samples):
            row = rows[n, m]
            if row >= 0:
                for r in range(n_columns):
                    found[m, r] += table[row, r]


@_compiled
def add_to_picked_rows(rows, starts, values, found):  # type: ignore[no-untyped-def]
    """Add the values of every sample to the rows that its entries pick; zeros, as most posteriors are, take no time.

    Parameters
    ----------
    rows, starts : ndarray
        As for :func:`add_picked_rows`.
    values : ndarray (n_samples, n_columns)
    found : ndarray (n_rows, n_columns)
        Tables one below the other, added to.
    """
    n_samples, n_columns = values.shape
    several = n_columns
    only = np.full(n_samples, -1)  # column that is not zero
    for m in range(n_samples):
        for r in range(n_columns):
            if values[m, r] != 0.0:
                only[m] = r if only[m] < 0 else several
    for n in range(len(rows)):
        table = found[starts[n] :]
        for m in range(n_samples):
            row = rows[n, m]
            if row < 0 or only[m] < 0:
                continue
            if only[m] < several:
                table[row, only[m]] += values[m, only[m]]
            else:
                for r in range(n_columns):
                    table[row, r] += values[m, r]


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
            p0 = products[0, 4 * a + d]
            p1 = products[1, 4 * a + d]
            p2 = products[2, 4 * a + d]
            p3 = products[3, 4 * a + d]
            m0 = mass[0, 3 - a :]
            m1 = mass[1, 3 - a :]
            m2 = mass[2, 3 - a :]
            m3 = mass[3, 3 - a :]
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
    b0 = beta[:n]
    b1 = beta[1:]
    b2 = beta[2:]
    b3 = beta[3:]
    for j in range(4):
        f0 = functions[j, 0]
        f1 = functions[j, 1]
        f2 = functions[j, 2]
        f3 = functions[j, 3]
        eta = mass[j, 3:]
        for i in range(n):
            eta[i] = (f0 * b0[i] + f1 * b1[i]) + (f2 * b2[i] + f3 * b3[i])
        _exponentials(eta, scratch, n)
    m0 = mass[0, 3:]
    m1 = mass[1, 3:]
    m2 = mass[2, 3:]
    m3 = mass[3, 3:]
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
def _derive(functions, products, unit, by_band, data, rho, beta, mass, third_differences, gradient, bands):  # type: ignore[no-untyped-def]
    """Gradient (n_basis,) of F and bands (4, n_basis + 3) of its negative Hessian."""
    n_basis = len(beta)
    b0 = beta[: n_basis - 3]
    b1 = beta[1:]
    b2 = beta[2:]
    b3 = beta[3:]
    inner = third_differences[3:]
    for i in range(n_basis - 3):
        inner[i] = rho * unit * unit * ((b3[i] - b0[i]) - 3.0 * (b2[i] - b1[i]))
    b0 = third_differences[:n_basis]
    b1 = third_differences[1:]
    b2 = third_differences[2:]
    b3 = third_differences[3:]
    for k in range(n_basis):
        gradient[k] = data[k] + ((b3[k] - b0[k]) - 3.0 * (b2[k] - b1[k]))
    for a in range(4):
        f0 = functions[0, a]
        f1 = functions[1, a]
        f2 = functions[2, a]
        f3 = functions[3, a]
        m0 = mass[0, 3 - a :]
        m1 = mass[1, 3 - a :]
        m2 = mass[2, 3 - a :]
        m3 = mass[3, 3 - a :]
        for k in range(n_basis):
            gradient[k] -= (m0[k] * f0 + m1[k] * f1) + (m2[k] * f2 + m3[k] * f3)
    for d in range(4):
        for k in range(n_basis):
            bands[d, k] = rho * by_band[d, k]
        bands[d, n_basis:] = 0.0
    _add_curvature(products, mass, bands)


@_compiled
def _peak_of(beta):  # type: ignore[no-untyped-def]
    """Place of the largest coefficient, not the first or the last."""
    peak = 0
    for k in range(len(beta)):
        if beta[k] > beta[peak]:
            peak = k
    return min(max(peak, 1), len(beta) - 2)


@_compiled
def _turn_down(beta, scratch):  # type: ignore[no-untyped-def]
    """Make the logarithm concave, in place: :meth:`tensorly_smp.splines.basis.SplineBasis.shaped`."""
    n_bends = len(beta) - 2
    excess = scratch[:n_bends]
    largest = 0.0
    for k in range(n_bends):
        bend = beta[k] - 2.0 * beta[k + 1] + beta[k + 2]
        excess[k] = bend if bend > 0.0 else 0.0
        largest = max(largest, excess[k])
    if largest == 0.0:
        return
    center = _peak_of(beta) - 1
    slope = fall = 0.0
    for k in range(center, n_bends):
        slope += excess[k] if k > center else 0.5 * excess[k]
        fall += slope
        beta[k + 2] -= fall
    slope = fall = 0.0
    for k in range(center, -1, -1):
        slope += excess[k] if k < center else 0.5 * excess[k]
        fall += slope
        beta[k] -= fall


@_compiled
def _add_hold(weights, bands):  # type: ignore[no-untyped-def]
    """Add the squares of second differences to bands (4, n_basis + 3).

    Their weights (n_basis + 2,) have two zeros before and after them, which spare the loops a test for the ends.
    """
    last = weights[: bands.shape[1] - 3]
    middle = weights[1:]
    first = weights[2:]
    for k in range(len(last)):
        bands[0, k] += (first[k] + last[k]) + 4.0 * middle[k]
        bands[1, k] -= 2.0 * (first[k] + middle[k])
        bands[2, k] += first[k]


@_compiled
def _held_step(beta, gradient, bands, holding, step, system, work):  # type: ignore[no-untyped-def]
    """Newton's step of a log-concave density, :meth:`tensorly_smp.splines.log_spline.LogSplineFit.newton_step`.

    Returns whether all matrices are positive definite to rounding.

    Parameters
    ----------
    beta, gradient : ndarray (n_basis,)
    bands : ndarray (4, n_basis + 3)
    holding : tuple of float, float, int
        As for :func:`newton_log_splines`.
    step : ndarray (n_basis + 3,)
        Written to.
    system : ndarray (4, n_basis + 3)
        Overwritten.
    work : ndarray (5, n_basis + 2)
        Overwritten; two zeros before and after the second differences.
    """
    straight, hold, n_rounds = holding
    n_basis = len(beta)
    last = n_basis - 2  # one past the last second difference
    right = work[0]
    bends = work[1, 2:]
    slopes = work[2, 2:]
    pulls = work[3]
    weights = work[4]
    for k in range(last):
        bends[k] = beta[k] - 2.0 * beta[k + 1] + beta[k + 2]
    center = _peak_of(beta) - 1
    slope = total = 0.0
    for k in range(center + 1):
        slope += gradient[k]
        total += slope
        slopes[k] = total if k < center else 0.5 * total
    slope = total = 0.0
    for k in range(last - 1, center - 1, -1):
        slope += gradient[k + 2]
        total += slope
        slopes[k] = total if k > center else slopes[k] + 0.5 * total
    for k in range(last):
        is_held = bends[k] > -straight and slopes[k] > 0.0
        weights[k + 2] = hold if is_held else 0.0
        slopes[k] = slopes[k] if is_held else 0.0
    for _ in range(n_rounds):
        for k in range(last):
            pulls[k + 2] = slopes[k] + hold * bends[k] if weights[k + 2] > 0.0 else 0.0
        for k in range(n_basis):
            right[k] = gradient[k] - ((pulls[k + 2] + pulls[k]) - 2.0 * pulls[k + 1])
        system[:] = bands
        _add_hold(weights, system)
        if not _solve(system, right[:n_basis], step):
            return False
        n_changed = 0
        for k in range(last):
            change = step[k] - 2.0 * step[k + 1] + step[k + 2]
            was_held = weights[k + 2] > 0.0
            is_held = pulls[k + 2] + hold * change > 0.0 if was_held else bends[k] + change > straight
            weights[k + 2] = hold if is_held else 0.0
            n_changed += is_held != was_held
        if n_changed == 0:
            break
    return True


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
        first = bands[1, k]
        second = bands[2, k]
        third = bands[3, k]
        of_first = first * inverse
        of_second = second * inverse
        of_third = third * inverse
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
