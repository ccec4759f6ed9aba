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
def follow_penalties(basis, data, coefficients, penalties, tol, n_steps, totals, price, values, hopeless):  # type: ignore[no-untyped-def]
    """Fit log-splines with increasing penalties, from the largest down, by Newton's method; one density after another.

    Parameters
    ----------
    basis : tuple
        As of :func:`tensorly_smp.splines.log_spline._by_kernel`.
    data, coefficients : ndarray (n_densities, n_basis)
        B'nu, and where to start from; the latter become those of the penalty with the best criterion.
    penalties : ndarray (n_penalties, n_densities)
    tol : ndarray (n_densities,)
    n_steps : int
    totals, price : ndarray (n_densities,)
        Numbers of samples; nats that an effective parameter costs, NaN for the marginal likelihood.
    values : ndarray (n_penalties, n_densities)
        The criterion is written to it where a penalty is tried; (0, n_densities) if there is one penalty, which is none
        to be chosen.
    hopeless : float
        Nats below the best value at which smaller penalties are not tried.

    Returns
    -------
    ndarray of bool (n_densities,)
        Whether a Hessian was found that is not positive definite to rounding, where a density was left.
    """
    is_left = np.zeros(len(data), np.bool_)
    model, rooms = _prepare(basis)
    for s in range(len(data)):
        beta = coefficients[s].copy()
        likelihood = _normalize(model, data[s], beta, rooms)
        before = best = np.inf
        for number in range(len(penalties) - 1, -1, -1):
            rho = penalties[number, s]
            if rho >= before:
                continue
            likelihood = _climb(model, data[s], rho, beta, likelihood, n_steps, tol[s], rooms)
            value = likelihood
            if len(values):
                value = _criterion(model, rho, beta, likelihood, totals[s], price[s], rooms)
                values[number, s] = value
            if np.isnan(value):
                is_left[s] = True
                break
            if before == np.inf or value > best:
                best = value
                coefficients[s] = beta
            before = rho
            if value <= best - hopeless:
                break
    return is_left


@_compiled
def _prepare(basis):  # type: ignore[no-untyped-def]
    """Constants that all densities have in common, and arrays for those of one of them.

    Basis functions and their products in the cells between two knots; unit; bands of D'D; settings. exp(eta), see
    :func:`_expect`; gradient; third differences; Newton's step; bands of the Hessian, and of the system that is solved;
    what else a step needs; coefficients that are tried; and what else exponentials need.
    """
    functions, unit, penalty_bands, settings = basis
    n_basis = len(penalty_bands)
    mass = np.zeros((4, n_basis + 3))
    gradient = np.empty(n_basis)
    third_differences = np.zeros(n_basis + 3)
    step = np.zeros(n_basis + 3)
    bands = np.zeros((4, n_basis + 3))
    system = np.zeros((4, n_basis + 3))
    work = np.zeros((5, n_basis + 2))
    rooms = mass, gradient, third_differences, step, bands, system, work, np.empty(n_basis), np.empty(mass.size)
    return (functions, _products(functions), unit, penalty_bands.T.copy(), settings), rooms


@_compiled
def _normalize(model, data, beta, rooms):  # type: ignore[no-untyped-def]
    """Add a constant to `beta` with which exp(eta) sums to one, and find what :func:`_likelihood` does."""
    mass = rooms[0]
    beta -= beta.max()  # no exponential overflows
    total = _expect(model[0], beta, mass, rooms[-1])
    beta -= log(total)
    mass *= 1.0 / total
    return _product(data, beta) - 1.0


@_compiled
def _climb(model, data, rho, beta, likelihood, n_steps, tol, rooms):  # type: ignore[no-untyped-def]
    """Newton's method for one density, from where `beta`, F without its penalty and exp(eta) are; these are written to.

    Returns F without its penalty; NaN after a Hessian that is not positive definite to rounding.
    """
    functions, products, unit, by_band, settings = model
    mass, gradient, third_differences, step, bands, system, work = rooms[:7]
    for _ in range(n_steps):
        _derive(functions, products, unit, by_band, data, rho, beta, mass, third_differences, gradient, bands)
        if settings[3]:
            is_found = _held_step(beta, gradient, bands, settings, step, system, work)
        else:
            is_found = _solve(bands, gradient, step)
        if not is_found:
            return np.nan
        likelihood, predicted_gain = _search(model, data, rho, beta, likelihood, rooms)
        if predicted_gain <= tol:
            break
    return likelihood


@_compiled
def _search(model, data, rho, beta, likelihood, rooms):  # type: ignore[no-untyped-def]
    """Add Newton's step to `beta`, halved until F rises as it should; if it never does, `beta` stays.

    Returns F without its penalty, whose exp(eta) is in `mass`, and the rise that the whole step promised.
    """
    functions, _, unit, _, settings = model
    most_halvings, share, rounding, is_concave = settings[:4]
    mass, gradient, _, step, _, _, _, moved, scratch = rooms
    value = likelihood - 0.5 * rho * _roughness(unit, beta)
    predicted_gain = _product(gradient, step)
    length = 1.0
    for _ in range(most_halvings):
        for k in range(len(beta)):
            moved[k] = beta[k] + length * step[k]
        if is_concave:
            _turn_down(moved, scratch)
        reached = _likelihood(functions, data, moved, mass, scratch)
        risen = reached - 0.5 * rho * _roughness(unit, moved)
        if risen >= value + share * length * predicted_gain - rounding:
            beta[:] = moved
            return reached, predicted_gain
        length *= 0.5
    return _likelihood(functions, data, beta, mass, scratch), predicted_gain


@_compiled
def _criterion(model, rho, beta, likelihood, total, price, rooms):  # type: ignore[no-untyped-def]
    """Value of :func:`tensorly_smp.splines.log_spline.criterion_of` at a density whose exp(eta) is known.

    NaN where the negative Hessian H = B'WB + rho D'D is not positive definite to rounding. Where second differences of
    log-concave densities are held at zero, H is the matrix that holds them.
    """
    _, products, unit, by_band, settings = model
    is_concave, straight, hold = settings[3:6]
    mass, gradient, _, x, bands, curvature, work = rooms[:7]
    n_basis = len(beta)
    curvature[:] = 0.0
    _add_curvature(products, mass, curvature)
    for d in range(4):
        for k in range(n_basis):
            bands[d, k] = curvature[d, k] + rho * by_band[d, k]
    log_prior = (n_basis - 3) * log(rho)
    if is_concave:
        weights = work[4]
        n_held = last = 0
        log_gaps = 0.0
        for k in range(n_basis - 2):
            is_held = beta[k] - 2.0 * beta[k + 1] + beta[k + 2] > -straight
            weights[k + 2] = hold if is_held else 0.0
            if is_held:
                log_gaps += log(k - last) if n_held else 0.0
                n_held += 1
                last = k
        _add_hold(weights, bands)
        log_prior = (n_basis - 2 - max(n_held, 1)) * log(rho * unit * unit) + n_held * log(hold) + log_gaps
        log_prior += log(n_basis - 2.0) if n_held == 0 else 0.0
    gradient[:] = 0.0
    if not _solve(bands, gradient, x):
        return np.nan
    if np.isnan(price):
        log_determinant = 0.0
        for k in range(n_basis):
            log_determinant -= log(bands[0, k])
        return total * (likelihood - 0.5 * rho * _roughness(unit, beta)) + 0.5 * (log_prior - log_determinant)
    # The trace of H^-1 B'WB. The inverse Z follows upwards from its entries within the band (Takahashi, Fagan and Chin
    # 1973).
    z11 = z21 = z31 = z22 = z32 = z33 = trace = 0.0
    for k in range(n_basis - 1, -1, -1):
        first = bands[1, k]
        second = bands[2, k]
        third = bands[3, k]
        z1 = -(first * z11 + second * z21 + third * z31)
        z2 = -(first * z21 + second * z22 + third * z32)
        z3 = -(first * z31 + second * z32 + third * z33)
        z0 = bands[0, k] - (first * z1 + second * z2 + third * z3)
        trace += z0 * curvature[0, k] + 2.0 * (z1 * curvature[1, k] + z2 * curvature[2, k] + z3 * curvature[3, k])
        z11, z21, z31, z22, z32, z33 = z0, z1, z2, z11, z21, z22
    return total * likelihood - price * trace


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
def _add_curvature(products, mass, bands):  # type: ignore[no-untyped-def]
    """Add B'WB, for W with the numbers of :func:`_expect` on its diagonal, to bands (4, n_basis + 3)."""
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
def _expect(functions, beta, mass, scratch):  # type: ignore[no-untyped-def]
    """Write exp(eta) to `mass`, by the place of the cell among the four between two knots: (4, n_basis + 3); its sum.

    Three zeros before and after those of a place spare the loops over basis functions a test for the ends.
    """
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
    _exponentials(mass.reshape(-1), scratch, mass.size)
    mass[:, :3] = 0.0
    mass[:, n + 3 :] = 0.0
    m0 = mass[0, 3:]
    m1 = mass[1, 3:]
    m2 = mass[2, 3:]
    m3 = mass[3, 3:]
    t0 = t1 = t2 = t3 = 0.0  # sums that do not wait for each other
    for i in range(n):
        t0 += m0[i]
        t1 += m1[i]
        t2 += m2[i]
        t3 += m3[i]
    return (t0 + t1) + (t2 + t3)


@_compiled
def _product(a, b):  # type: ignore[no-untyped-def]
    """Sum of the products of the numbers of `a` and the first ones of `b`."""
    total = 0.0
    for k in range(len(a)):
        total += a[k] * b[k]
    return total


@_compiled
def _likelihood(functions, data, beta, mass, scratch):  # type: ignore[no-untyped-def]
    """F without its penalty; exp(eta) is written to `mass`, as of :func:`_expect`."""
    total = _expect(functions, beta, mass, scratch)
    return _product(data, beta) - total


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
def _held_step(beta, gradient, bands, settings, step, system, work):  # type: ignore[no-untyped-def]
    """Newton's step of a log-concave density, :meth:`tensorly_smp.splines.log_spline.LogSplineFit.newton_step`.

    Returns whether all matrices are positive definite to rounding.

    Parameters
    ----------
    beta, gradient : ndarray (n_basis,)
    bands : ndarray (4, n_basis + 3)
    settings : tuple
        As for :func:`newton_log_splines`.
    step : ndarray (n_basis + 3,)
        Written to.
    system : ndarray (4, n_basis + 3)
        Overwritten.
    work : ndarray (5, n_basis + 2)
        Overwritten; two zeros before and after the second differences.
    """
    straight, hold, n_rounds = settings[4:]
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
        Overwritten, by the inverses of D and the bands of L.
    right : ndarray (n,)
    x : ndarray (n + 3,)
        Written to.
    """
    n = len(right)
    # What columns before take from the next three: from the bands d, e and f, and of the right side.
    d0 = d1 = d2 = e0 = e1 = f0 = 0.0
    next1 = next2 = next3 = 0.0
    for k in range(n):
        pivot = bands[0, k] - d0
        if not pivot > 0.0:
            return False
        first = bands[1, k] - d1
        second = bands[2, k] - d2
        third = bands[3, k]
        inverse = 1.0 / pivot
        of_first = first * inverse
        of_second = second * inverse
        of_third = third * inverse
        d0 = e0 + of_first * first
        d1 = e1 + of_first * second
        d2 = of_first * third
        e0 = f0 + of_second * second
        e1 = of_second * third
        f0 = of_third * third
        own = right[k] - next1
        next1 = next2 + of_first * own
        next2 = next3 + of_second * own
        next3 = of_third * own
        x[k] = own
        bands[0, k], bands[1, k], bands[2, k], bands[3, k] = inverse, of_first, of_second, of_third
    next1 = next2 = next3 = 0.0
    for k in range(n - 1, -1, -1):
        own = ((bands[0, k] * x[k] - bands[3, k] * next3) - bands[2, k] * next2) - bands[1, k] * next1
        next1, next2, next3 = own, next1, next2
        x[k] = own
    return True
