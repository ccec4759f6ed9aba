"""Penalized log-splines: smooth densities on a grid of cells, many at a time, and the choice of their penalties.

The logarithm of a density is a cubic spline B beta on [0, 1]. With shares nu of the samples in the cells of a fine
grid, its coefficients maximize

    F(beta) = sum_g nu_g eta_g - sum_g exp(eta_g) - rho/2 |D beta|^2,    eta = B beta, D the third differences,

the Poisson form of the multinomial likelihood, per sample: at the maximum sum_g exp(eta_g) = 1 without any constraint
(Eilers and Marx 1996, "Flexible smoothing with B-splines and penalties"). What the penalty does not reach are quadratic
logarithms: under heavy smoothing the density is a Gaussian. With the shape "log-concave" the maximum is that among
concave logarithms, for which second differences of beta that are not positive suffice: kept exactly, by Newton steps
that hold them, not by an asymmetric penalty on positive ones (as Bollaerts, Eilers and Van Mechelen 2006), whose line
searches stall where it is stiff enough. Arrays have one column per density.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from tensorly_smp._support import kernels
from tensorly_smp._support.checks import checked_choice
from tensorly_smp._support.kernels import KernelError
from tensorly_smp.splines.basis import (
    DIFFERENCES,
    MARGIN,
    N_BASIS,
    SplineBasis,
    cholesky,
    inverse_bands,
    log_determinant,
    solve,
    spline_basis,
    trace_of_product,
)

_CHUNK = 128  # densities at a time: their matrices stay in the processor's cache
#: Of the line search: halvings of a step, share of the promised rise that is enough, rounding of F in nats per sample.
LINE_SEARCH = 30, 1e-4, 1e-13
#: Second differences that count as zero; what holds them there, in units of the Hessian; and systems that are solved
#: for a step at most, as some are held and others let go.
HOLDING = 1e-6, 1e5, 12


@dataclass(eq=False)
class LogSplineFit:
    """Coefficients beta of some densities, and what belongs to them, one column per density."""

    basis: SplineBasis
    data: np.ndarray  # B'nu (n_basis, n_densities)
    penalty: np.ndarray
    coefficients: np.ndarray
    third_differences: np.ndarray  # D beta
    expected: np.ndarray  # exp(eta) (n_cells, n_densities)
    likelihood: np.ndarray  # F without its penalty

    @classmethod
    def at(cls, basis: SplineBasis, data: np.ndarray, penalty: np.ndarray, coefficients: np.ndarray) -> LogSplineFit:
        """F and its parts at these coefficients."""
        # A step too far overflows, has the value -inf and is rejected.
        with np.errstate(over="ignore", invalid="ignore"):
            expected = basis.at_cells @ coefficients
            np.exp(expected, out=expected)
            likelihood = (data * coefficients).sum(axis=0) - expected.sum(axis=0)
        likelihood[~np.isfinite(likelihood)] = -np.inf
        return cls(basis, data, penalty, coefficients, basis.differences @ coefficients, expected, likelihood)

    @property
    def value(self) -> np.ndarray:
        """F (n_densities,)."""
        return np.asarray(self.likelihood - 0.5 * self.penalty * (self.third_differences**2).sum(axis=0))

    def moved(self, step: np.ndarray) -> LogSplineFit:
        """The fit with a step added to the coefficients."""
        return LogSplineFit.at(self.basis, self.data, self.penalty, self.basis.shaped(self.coefficients + step))

    @property
    def _found(self) -> tuple[np.ndarray, ...]:
        return self.coefficients, self.third_differences, self.expected, self.likelihood

    def take(self, columns: np.ndarray) -> LogSplineFit:
        """Some of the densities, copied."""
        found = (array[..., columns] for array in (self.data, self.penalty, *self._found))
        return LogSplineFit(self.basis, *found)

    def put(self, columns: np.ndarray, part: LogSplineFit) -> None:
        """Replace some of the densities."""
        for array, values in zip(self._found, part._found, strict=True):
            array[..., columns] = values

    def hessian(self) -> np.ndarray:
        """Bands of the negative Hessian, B'WB + rho D'D."""
        bands = self.basis.curvature(self.expected)
        bands += self.penalty[:, None, None] * self.basis.penalty_bands
        return bands

    def gradient(self) -> np.ndarray:
        """Gradient (n_basis, n_densities) of F."""
        fitted = self.basis.transposed @ self.expected
        return self.data - fitted - self.penalty * (self.basis.differences_transposed @ self.third_differences)

    def held(self) -> np.ndarray:
        """Second differences (n_basis - 2, n_densities) that the shape holds; none (0, n_densities) without one."""
        if self.basis.shape is None:
            return np.zeros((0, len(self.penalty)), dtype=bool)
        return np.asarray(self.basis.bends @ self.coefficients > -HOLDING[0])

    def held_hessian(self) -> np.ndarray:
        """Bands of the negative Hessian with what holds second differences at their bound."""
        bands = self.hessian()
        return bands if self.basis.shape is None else bands + self._hold(self.held())

    def _hold(self, held: np.ndarray) -> np.ndarray:
        """Bands (n_densities, n_basis, 4) of what holds second differences (n_basis - 2, n_densities) at zero."""
        bands = self.basis.bend_products @ (HOLDING[1] * held)
        return np.ascontiguousarray(bands.T).reshape(held.shape[1], self.basis.n_basis, -1)

    def newton_step(self) -> tuple[np.ndarray, np.ndarray]:
        """Newton's step (n_basis, n_densities), and the rise of F that it promises (n_densities,).

        Of log-concave densities it leads to the maximum of the quadratic approximation of F among concave logarithms:
        second differences that would be positive are held at zero, those that pull the other way are let go (active
        sets; Hintermüller, Ito and Kunisch 2002).
        """
        gradient = self.gradient()
        bands = self.hessian()
        if self.basis.shape is None:
            step = solve(cholesky(bands), gradient)
            return step, (gradient * step).sum(axis=0)
        straight, hold, n_rounds = HOLDING
        bends = self.basis.bends @ self.coefficients
        held = bends > -straight
        slope = np.zeros(bends.shape)
        if held.any():
            # Derivative of F by a second difference, where the peak and all others stay: next to what holding takes.
            before, after = self.basis.sides(self.coefficients)
            slope += after * np.cumsum(np.cumsum(gradient[:1:-1], axis=0), axis=0)[::-1]
            slope += before * np.cumsum(np.cumsum(gradient[:-2], axis=0), axis=0)
            held &= slope > 0.0
            slope[~held] = 0.0
        step = np.empty(gradient.shape)
        columns = np.arange(len(bands))
        for _ in range(n_rounds):
            now = held[:, columns]
            pull = now * (slope[:, columns] + hold * bends[:, columns])
            right = gradient[:, columns] - self.basis.bends_transposed @ pull
            step[:, columns] = solve(cholesky(bands[columns] + self._hold(now)), right)
            change = self.basis.bends @ step[:, columns]
            after = np.where(now, pull + hold * change > 0.0, bends[:, columns] + change > straight)
            held[:, columns] = after
            columns = columns[(after != now).any(axis=0)]
            if not len(columns):
                break
        return step, (gradient * step).sum(axis=0)


def _maximize(fit: LogSplineFit, n_steps: int, tol: np.ndarray) -> LogSplineFit:
    active = np.arange(len(tol))
    for _ in range(n_steps):
        part = fit.take(active)
        step, predicted_gain = part.newton_step()
        fit.put(active, _search(part, step, predicted_gain))
        active = active[predicted_gain > tol[active]]
        if not len(active):
            break
    return fit


def _search(fit: LogSplineFit, step: np.ndarray, predicted_gain: np.ndarray) -> LogSplineFit:
    """Newton's step, halved where F does not rise as it should: without that it may overshoot and drift."""
    most_halvings, share, rounding = LINE_SEARCH
    length = np.ones(len(predicted_gain))
    moved = fit.moved(step)
    for _ in range(most_halvings):
        short = np.flatnonzero(moved.value < fit.value + share * length * predicted_gain - rounding)
        if not len(short):
            return moved
        length[short] *= 0.5
        moved.put(short, fit.take(short).moved(length[short] * step[:, short]))
    moved.put(short, fit.take(short))
    return moved


def fit_log_splines(
    basis: SplineBasis,
    shares: np.ndarray,
    penalty: np.ndarray,
    start: np.ndarray | None = None,
    n_steps: int = 50,
    tol: float | np.ndarray = 1e-9,
) -> np.ndarray:
    """Coefficients of the penalized log-splines.

    Parameters
    ----------
    basis : SplineBasis
    shares : ndarray (n_cells, n_densities)
        Of the samples in every cell; columns sum to one.
    penalty : ndarray (n_densities,)
        rho, positive.
    start : ndarray (n_basis, n_densities), optional
        Coefficients to start from; Gaussians by default. F never ends lower than there.
    n_steps : int
        Newton steps at most.
    tol : float or ndarray (n_densities,)
        Stop when a Newton step promises less than this, in nats per sample.

    Returns
    -------
    ndarray (n_basis, n_densities)

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.splines.log_spline import fit_log_splines
    >>> from tensorly_smp.splines.basis import spline_basis
    >>> basis = spline_basis(40)
    >>> shares = np.exp(-0.5 * ((basis.centers - 0.4) / 0.1) ** 2)[:, None]
    >>> shares /= shares.sum()
    >>> coefficients = fit_log_splines(basis, shares, np.array([1e5]))
    >>> bool(np.abs(np.exp(basis.log_probabilities(coefficients)) - shares).max() < 1e-6)
    True
    """
    coefficients = np.array(basis.gaussian(shares) if start is None else basis.shaped(start))
    data = basis.transposed @ shares
    tolerances = np.full(penalty.shape, tol)
    coefficients, left = _by_kernel(basis, data, coefficients, penalty[None], tolerances, n_steps)
    for columns in _chunks(left):
        begun = basis.normalized(coefficients[:, columns])
        fit = LogSplineFit.at(basis, data[:, columns], penalty[columns], begun)
        coefficients[:, columns] = _maximize(fit, n_steps, tolerances[columns]).coefficients
    return coefficients


def _by_kernel(
    basis: SplineBasis,
    data: np.ndarray,
    coefficients: np.ndarray,
    penalties: np.ndarray,
    tol: np.ndarray,
    n_steps: int,
    *criterion: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients by the compiled kernel if there is enough to do, and the densities that are left to plain code.

    The criterion is one of several penalties: numbers of samples, prices of a parameter, and values, written to.
    """
    left = np.arange(len(tol))
    if (compiled := kernels.compiled(basis.n_cells * len(tol))) is None:
        return coefficients, left
    # Basis functions (4, 4) that are not zero in the cells between two knots, the same everywhere.
    known = basis.at_interval, basis.unit, basis.penalty_bands, (*LINE_SEARCH, basis.shape is not None, *HOLDING)
    criterion = criterion or (tol, tol, np.empty((0, len(tol))))
    by_density = np.array(coefficients.T, order="C")
    with suppress(KernelError):
        arrays = np.ascontiguousarray(data.T), by_density, penalties, tol
        left = np.flatnonzero(compiled.follow_penalties(known, *arrays, n_steps, *criterion, HOPELESS))
        return np.ascontiguousarray(by_density.T), left
    return coefficients, left


def _chunks(columns: np.ndarray) -> list[np.ndarray]:
    """Densities in parts whose matrices fit into the cache."""
    return [columns[start : start + _CHUNK] for start in range(0, len(columns), _CHUNK)]


# ---- choice of the penalties ----

#: Penalties rho that are compared; powers of ten, because a factor of ten between two is about as far as the criteria
#: tell apart.
PENALTIES = 10.0 ** np.arange(-7, 6)
#: Every other one, where it is cells that are compared, or samples are few.
FEW_PENALTIES = PENALTIES[::2]
#: Effective number of parameters of a cubic term of the logarithm at the largest penalty that is tried: a larger one
#: would change nothing, and lose digits.
LEAST_FREEDOM = 0.01
#: Smaller penalties are not tried once the criterion is this far, in nats, below its best. (In 3200 densities of the
#: paper's cases, 200 to 20 000 samples, it never fell by 2 and rose again above the best.)
HOPELESS = 2.0

#: What penalties are chosen by: see :func:`choose_penalties`.
CRITERIA = ("reml", "aic", "bic")

_PATH_STEPS, _PATH_TOL = 20, 0.01  # Newton steps per penalty at most, and what the last may promise, in nats


def effective_parameters(basis: SplineBasis, coefficients: np.ndarray, penalty: np.ndarray) -> np.ndarray:
    """Effective number of parameters (n_densities,): trace of (B'WB + rho D'D)^-1 B'WB, less one for the integral.

    From 2, a Gaussian, for a large penalty, up to n_basis - 1.
    """
    result = np.full(coefficients.shape[1], np.nan)
    none = np.zeros(len(result))
    _by_kernel(basis, coefficients, coefficients, penalty[None], none, 0, none, none - 1.0, result[None])
    for columns in _chunks(np.flatnonzero(np.isnan(result))):
        part = basis.normalized(coefficients[:, columns])
        result[columns] = _effective_df(LogSplineFit.at(basis, np.zeros(part.shape), penalty[columns], part))
    return result - 1.0


def choose_penalties(
    basis: SplineBasis,
    shares: np.ndarray,
    totals: np.ndarray,
    candidates: np.ndarray | None = None,
    criterion: str = "reml",
    start: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Choose the penalty of every density by a criterion, and return the coefficients that go with it.

    Parameters
    ----------
    basis : SplineBasis
    shares : ndarray (n_cells, n_densities)
        Share of the samples in every cell; columns sum to one.
    totals : ndarray (n_densities,)
        Number of samples behind the shares (sums of posterior probabilities).
    candidates : ndarray (n_candidates,) or (n_candidates, n_densities), optional
        Penalties rho, increasing; `PENALTIES` by default. Those beyond :func:`largest_penalties` are lowered to it.
    criterion : {"reml", "aic", "bic"}
        "reml": the marginal likelihood of the penalty, the coefficients integrated out with Laplace's approximation
        (Wood, Pya and Säfken 2016): near the better of the others in all cases below, which one that is varies. "aic"
        and "bic": log-likelihood less the effective number of parameters, or that times half the logarithm of the
        number of samples.
    start : ndarray (n_basis, n_densities), optional
        Coefficients to start from; Gaussians by default.

    Returns
    -------
    penalty : ndarray (n_densities,)
    coefficients : ndarray (n_basis, n_densities)

    Raises
    ------
    InvalidInputError
        Another criterion.

    Notes
    -----
    KL(true || learned), in nats per sample, of densities fitted to the true posteriors of the paper's cases by
    ``benchmarks/densities.py penalties``; five components, ten variables, mean of two truths:

    =======  =========  ========  =====  =====  =======
    samples  criterion  Gaussian  GMM    Gamma  Laplace
    =======  =========  ========  =====  =====  =======
    1000     reml       0.070     0.159  0.179  0.225
    1000     aic        0.102     0.176  0.196  0.212
    1000     bic        0.058     0.206  0.216  0.321
    5000     reml       0.019     0.047  0.049  0.063
    5000     aic        0.028     0.056  0.048  0.063
    5000     bic        0.017     0.071  0.071  0.092
    =======  =========  ========  =====  =====  =======
    """
    checked_choice(criterion, "criterion", CRITERIA)
    candidates = PENALTIES if candidates is None else candidates
    grid = np.minimum(candidates.reshape(len(candidates), -1), largest_penalties(basis, shares))
    values = np.full(grid.shape, -np.inf)
    coefficients = np.array(basis.gaussian(shares) if start is None else basis.shaped(start))
    data = basis.transposed @ shares
    # Of an effective parameter, in nats; the marginal likelihood counts none.
    prices = {"reml": np.nan, "aic": 1.0, "bic": 0.5 * np.log(np.maximum(totals, 1.0))}
    price = np.full(totals.shape, prices[criterion])
    tol = _PATH_TOL / totals
    coefficients, left = _by_kernel(basis, data, coefficients, grid, tol, _PATH_STEPS, totals, price, values)
    for columns in _chunks(left):
        begun = basis.normalized(coefficients[:, columns])
        fit = LogSplineFit.at(basis, data[:, columns], grid[-1, columns], begun)
        values[:, columns], coefficients[:, columns] = _criterion_along(
            fit, totals[columns], price[columns], grid[:, columns]
        )
    return np.exp(_peak(np.log(grid), values)), coefficients


def largest_penalties(basis: SplineBasis, shares: np.ndarray) -> np.ndarray:
    """Penalties (n_densities,) beyond which a density is as good as Gaussian.

    For a Gaussian of standard deviation s, the cubic term a He3 of the logarithm has the information 6 a^2 and, as its
    third derivative is 6 a / s^3 wherever there are samples, the penalty rho 40^-5 (6 a / s^3)^2 times about 6 s.
    """
    _, variance = basis.moments(shares)
    length = np.minimum(6.0 * np.sqrt(variance), 1.0)
    return variance**3 * 40.0**5 / (6.0 * LEAST_FREEDOM * length)


def _criterion_along(
    fit: LogSplineFit, totals: np.ndarray, price: np.ndarray, penalties: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Criterion (n_candidates, n_densities) of increasing penalties, from the largest down, and the best coefficients.

    It is minus infinity where a penalty was not tried.
    """
    values = np.full(penalties.shape, -np.inf)
    best = np.full(len(totals), -np.inf)
    coefficients = fit.coefficients.copy()
    going = np.ones(len(totals), dtype=bool)
    last = len(penalties) - 1
    for number in range(last, -1, -1):
        penalty = penalties[number]
        tried = np.flatnonzero(going & (penalty < penalties[number + 1])) if number < last else np.arange(len(totals))
        if not len(tried):
            continue
        part = _maximize(replace(fit.take(tried), penalty=penalty[tried]), _PATH_STEPS, _PATH_TOL / totals[tried])
        fit.put(tried, part)
        value = criterion_of(part, totals[tried], price[tried])
        values[number, tried] = value
        better = value > best[tried]
        best[tried[better]] = value[better]
        coefficients[:, tried[better]] = part.coefficients[:, better]
        going[tried] = value > best[tried] - HOPELESS
    return values, coefficients


def _peak(places: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Peak of the parabola through the three values around the best, no farther than halfway to the next.

    It changes continuously with the values, also where another place becomes the best. No farther than the outermost
    places; the best place itself where a neighbor is not known.

    Parameters
    ----------
    places : ndarray (n_places, n_columns)
        Not decreasing.
    values : ndarray (n_places, n_columns)
        Minus infinity where not known.
    """
    column = np.arange(values.shape[1])
    best = values.argmax(axis=0)
    found = places[best, column].copy()
    if len(values) < 3:
        return found
    middle = np.clip(best, 1, len(values) - 2)
    low, center, high = (places[middle + shift, column] for shift in (-1, 0, 1))
    around = np.stack([values[middle + shift, column] for shift in (-1, 0, 1)])
    known = (center > low) & (high > center) & np.isfinite(around).all(axis=0)
    below, at, above = np.where(known, around, 0.0)
    left = np.where(known, center - low, 1.0)
    right = np.where(known, high - center, 1.0)
    rise = (at - below) / left
    fall = (above - at) / right
    slope = (rise * right + fall * left) / (left + right)
    curvature = 2.0 * (fall - rise) / (left + right)
    is_peaked = known & (curvature < 0)
    peak = center - slope / np.where(is_peaked, curvature, 1.0)
    least = found - np.where(best == 0, 0.0, 0.5 * np.where(best > middle, right, left))
    most = found + np.where(best == len(values) - 1, 0.0, 0.5 * np.where(best < middle, left, right))
    return np.where(is_peaked, np.clip(peak, least, most), found)


def criterion_of(fit: LogSplineFit, totals: np.ndarray, price: np.ndarray) -> np.ndarray:
    """The criterion (n_densities,) of a fit: numbers of samples, and prices of a parameter, NaN for "reml"."""
    if np.isnan(price).any():
        return _restricted_likelihood(fit, totals)
    return totals * fit.likelihood - price * _effective_df(fit)


def _restricted_likelihood(fit: LogSplineFit, totals: np.ndarray) -> np.ndarray:
    """Logarithm of the marginal likelihood of the penalty, up to what does not depend on it.

    Coefficients are integrated out where the shape holds no second difference. By these, |D beta|^2 is the sum of the
    squares of their differences: m of them between two that are held have a determinant of m + 1, all of them together,
    none being held, and but for their mean, their number.
    """
    rank = fit.basis.n_basis - DIFFERENCES
    prior = rank * np.log(fit.penalty)
    if fit.basis.shape is not None:
        held = fit.held().T
        n_held = held.sum(axis=1)
        prior = (rank + 1 - np.maximum(n_held, 1)) * np.log(fit.penalty * fit.basis.unit**2)
        prior += n_held * np.log(HOLDING[1]) + np.where(n_held == 0, np.log(rank + 1.0), 0.0)
        density, place = np.nonzero(held)
        is_next = density[1:] == density[:-1]
        np.add.at(prior, density[1:][is_next], np.log(np.diff(place)[is_next]))
    return totals * fit.value + 0.5 * (prior - log_determinant(cholesky(fit.held_hessian())))


def _effective_df(fit: LogSplineFit) -> np.ndarray:
    """Trace of (B'WB + rho D'D)^-1 B'WB."""
    return trace_of_product(inverse_bands(cholesky(fit.held_hessian())), fit.basis.curvature(fit.expected))


_UNGROUPING_ROUNDS, _UNGROUPING_PASSES = 4, 10


def ungroup(
    edges: np.ndarray, probabilities: np.ndarray, n_samples: np.ndarray, criterion: str = "reml"
) -> tuple[SplineBasis, np.ndarray, float, float]:
    """Smooth densities of one variable whose bins have (about) these probabilities.

    The model of Eilers (2007, "Ill-posed problems with counts, the composite link model and penalized likelihood"):
    bins are sums of cells of a fine grid, on which the density is a penalized log-spline. It is fitted by EM: samples
    of a bin are shared among its cells as the density of the pass before has it.

    Parameters
    ----------
    edges : ndarray (n_bins + 1,)
        The outermost bins end where the values do: nothing is expected beyond them.
    probabilities : ndarray (n_bins, rank)
        Columns sum to one.
    n_samples : ndarray (rank,)
        Behind the probabilities: the more, the closer they are followed.
    criterion : {"reml", "aic", "bic"}

    Returns
    -------
    basis : SplineBasis
    coefficients : ndarray (n_basis, rank)
    low, high : float
        Where the splines live: the range of the edges, and a margin to fall off in.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.stats import norm
    >>> from tensorly_smp.splines.log_spline import ungroup
    >>> edges = np.linspace(-4.0, 4.0, 7)
    >>> probabilities = np.diff(norm.cdf([-np.inf, *edges[1:-1], np.inf]))[:, None]
    >>> basis, coefficients, low, high = ungroup(edges, probabilities, np.array([1e4]))
    >>> density = np.exp(basis.log_probabilities(coefficients)[:, 0]) * basis.n_cells / (high - low)
    >>> bool(np.abs(density - norm.pdf(low + (high - low) * basis.centers)).max() < 0.01)
    True
    """
    basis = spline_basis(N_BASIS)
    low = edges[0] - MARGIN * (edges[-1] - edges[0])
    high = edges[-1] + MARGIN * (edges[-1] - edges[0])
    overlap = _overlap(np.linspace(low, high, basis.n_cells + 1), edges)
    # Spread evenly at first, then blurred by the smoothest candidate: a Gaussian of the same moments.
    shares = overlap.T @ (probabilities / overlap.sum(axis=1)[:, None])
    coefficients = fit_log_splines(basis, shares, np.full(probabilities.shape[1], PENALTIES[-1]))
    penalty = np.full(probabilities.shape[1], PENALTIES[-1])
    for number in range(_UNGROUPING_ROUNDS):
        for _ in range(_UNGROUPING_PASSES):
            cells = np.exp(basis.log_probabilities(coefficients))
            shares = cells * (overlap.T @ (probabilities / np.maximum(overlap @ cells, 1e-300)))
            shares /= shares.sum(axis=0)
            coefficients = fit_log_splines(basis, shares, penalty, coefficients, n_steps=1)
        if number < _UNGROUPING_ROUNDS - 1:
            penalty, coefficients = choose_penalties(basis, shares, n_samples, criterion=criterion)
    return basis, coefficients, float(low), float(high)


def _overlap(cells: np.ndarray, bins: np.ndarray) -> np.ndarray:
    """Share (n_bins, n_cells) of every cell that lies in every bin."""
    start = np.maximum(bins[:-1, None], cells[None, :-1])
    end = np.minimum(bins[1:, None], cells[None, 1:])
    return np.clip(end - start, 0.0, None) / np.diff(cells)
