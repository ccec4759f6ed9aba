"""Penalized log-splines: smooth densities on a grid of cells, fitted to shares of samples, many at a time.

The logarithm of a density is a cubic spline B beta on [0, 1]. With shares nu of the samples in the cells of a fine
grid, its coefficients maximize

    F(beta) = sum_g nu_g eta_g - sum_g exp(eta_g) - rho/2 |D beta|^2,    eta = B beta, D the third differences,

the Poisson form of the multinomial likelihood, per sample: at the maximum sum_g exp(eta_g) = 1 without any constraint
(Eilers and Marx 1996, "Flexible smoothing with B-splines and penalties"). What the penalty does not reach are quadratic
logarithms: under heavy smoothing the density is a Gaussian. Arrays have one column per density.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from scipy.interpolate import BSpline
from scipy.sparse import csr_array

from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.likelihood.banded import cholesky, inverse_bands, log_determinant, solve, trace_of_product

#: Cells of the grid between two neighboring knots.
CELLS_PER_INTERVAL = 4
# KL(true || learned) with the true posteriors and 40, 80, 160 basis functions, by benchmarks/penalty_criteria.py:
#             Gaussian              GMM               Gamma              Laplace
#   1000   0.070 0.070 0.070  0.159 0.159 0.159  0.176 0.179 0.177  0.226 0.225 0.222
#   5000   0.019 0.019 0.019  0.047 0.047 0.047  0.051 0.049 0.049  0.066 0.063 0.062
#   20000  0.005 0.005 0.005  0.012 0.011 0.011  0.021 0.019 0.019  0.033 0.028 0.027
# The penalty smooths, not the number; it must only be large enough, and time is in proportion to it.
#: Basis functions, unless a density is narrow.
N_BASIS = 80
#: Third differences: the limit of heavy smoothing is a Gaussian.
DIFFERENCES = 3
#: Penalties rho that are compared; powers of ten, because a factor of ten between two is about as far as the criteria
#: tell apart.
PENALTIES = 10.0 ** np.arange(-7, 6)
#: A penalty under which a cubic term of the logarithm has this much of a parameter is as good as any larger one, and
#: these are hard on the arithmetic.
LEAST_FREEDOM = 0.01
#: Smaller penalties are not tried once the criterion is this far, in nats, below its best. (In 3200 densities of the
#: paper's cases, 200 to 20 000 samples, it never fell by 2 and rose again above the best.)
HOPELESS = 5.0

_DEGREE = 3
_WIDTH = _DEGREE + 1  # bands of B'WB and of the penalty
_CHUNK = 128  # densities at a time: their matrices stay in the processor's cache
_MOST_HALVINGS = 30
_PATH_STEPS, _PATH_TOL = 20, 0.03  # Newton steps per penalty at most, and what the last may promise, in nats
_ROUNDING = 1e-13  # of F, in nats per sample
_ARMIJO_SHARE = 1e-4


@dataclass(frozen=True, eq=False)
class SplineBasis:
    """Cubic B-splines with equally spaced knots on [0, 1], and the cells on which densities are tabulated.

    Attributes
    ----------
    n_basis : int
        Number of basis functions, at least 4.
    """

    n_basis: int

    @property
    def n_cells(self) -> int:
        """Number of cells, all of width 1/n_cells."""
        return (self.n_basis - _DEGREE) * CELLS_PER_INTERVAL

    @cached_property
    def knots(self) -> np.ndarray:
        """Knots (n_basis + 4,), three of them beyond either end."""
        n_intervals = self.n_basis - _DEGREE
        return np.arange(-_DEGREE, n_intervals + _DEGREE + 1) / n_intervals

    @cached_property
    def centers(self) -> np.ndarray:
        """Midpoints (n_cells,) of the cells."""
        return (np.arange(self.n_cells) + 0.5) / self.n_cells

    def values(self, t: np.ndarray) -> csr_array:
        """Basis functions (n_points, n_basis) at points t (n_points,) in [0, 1]."""
        return csr_array(BSpline.design_matrix(t, self.knots, _DEGREE))

    @cached_property
    def at_cells(self) -> csr_array:
        """B: basis functions (n_cells, n_basis) at the midpoints of the cells."""
        return self.values(self.centers)

    @cached_property
    def transposed(self) -> csr_array:
        """B' (n_basis, n_cells)."""
        return csr_array(self.at_cells.T)

    @cached_property
    def products(self) -> csr_array:
        """Matrix (4 n_basis, n_cells) from the diagonal of W to the entries of B'WB, four to a column of the band."""
        dense = np.pad(self.at_cells.toarray(), ((0, 0), (0, _DEGREE)))
        bands = [dense[:, : self.n_basis] * dense[:, d : d + self.n_basis] for d in range(_WIDTH)]
        return csr_array(np.stack(bands, axis=2).reshape(self.n_cells, -1).T)

    @cached_property
    def differences(self) -> csr_array:
        """D (n_basis - 3, n_basis), in a unit in which rho means the same for any number of basis functions.

        |D beta|^2 is 40^-5 times the integral of the squared third derivative.
        """
        unit = ((self.n_basis - _DEGREE) / 40) ** (DIFFERENCES - 0.5)
        return csr_array(unit * np.diff(np.eye(self.n_basis), DIFFERENCES, axis=0))

    @cached_property
    def penalty_bands(self) -> np.ndarray:
        """Bands (n_basis, 4) of D'D."""
        dense = (self.differences.T @ self.differences).toarray()
        return np.stack([np.pad(np.diag(dense, -d), (0, d)) for d in range(_WIDTH)], axis=1)

    @cached_property
    def quadratics(self) -> np.ndarray:
        """Coefficients (n_basis, 3) of the functions 1, t and t^2, which cubic splines contain.

        A coefficient of a polynomial is its polar form at the three inner knots of the basis function.
        """
        a, b, c = (self.knots[k : k + self.n_basis] for k in (1, 2, 3))
        return np.stack([np.ones(self.n_basis), (a + b + c) / 3.0, (a * b + a * c + b * c) / 3.0], axis=1)

    def curvature(self, expected: np.ndarray) -> np.ndarray:
        """Bands (n_densities, n_basis, 4) of B'WB for W = diag(expected) (n_cells, n_densities)."""
        return np.ascontiguousarray((self.products @ expected).T).reshape(-1, self.n_basis, _WIDTH)

    def normalized(self, coefficients: np.ndarray) -> np.ndarray:
        """Coefficients (n_basis, n_densities) of the same densities with exponentials that sum to one.

        No other constant has a higher F.
        """
        eta = self.at_cells @ coefficients
        peak = eta.max(axis=0)
        # The basis functions sum to one, so that a constant added to all coefficients is added to the function.
        return coefficients - (peak + np.log(np.exp(eta - peak).sum(axis=0)))

    def moments(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances (n_densities,) of the shares, no standard deviation below the width of a cell."""
        mean = self.centers @ shares
        spread = (self.centers[:, None] - mean) ** 2
        return mean, (spread * shares).sum(axis=0) + 1.0 / self.n_cells**2

    def gaussian(self, shares: np.ndarray) -> np.ndarray:
        """Coefficients (n_basis, n_densities) of the Gaussians with the moments of the shares."""
        mean, variance = self.moments(shares)
        constant = -np.log(self.n_cells) - 0.5 * (np.log(2.0 * np.pi * variance) + mean**2 / variance)
        return self.quadratics @ np.stack([constant, mean / variance, -0.5 / variance])


@lru_cache(maxsize=8)
def spline_basis(n_basis: int) -> SplineBasis:
    """The basis of that many functions, made once."""
    return SplineBasis(n_basis)


@dataclass(eq=False)
class _Fit:
    """Coefficients beta of some densities, and what belongs to them, one column per density."""

    basis: SplineBasis
    data: np.ndarray  # B'nu (n_basis, n_densities)
    penalty: np.ndarray
    coefficients: np.ndarray
    bends: np.ndarray  # D beta
    expected: np.ndarray  # exp(eta) (n_cells, n_densities)
    likelihood: np.ndarray  # F without its penalty

    @classmethod
    def at(cls, basis: SplineBasis, data: np.ndarray, penalty: np.ndarray, coefficients: np.ndarray) -> _Fit:
        # A step too far overflows, has the value -inf and is rejected.
        with np.errstate(over="ignore", invalid="ignore"):
            expected = basis.at_cells @ coefficients
            np.exp(expected, out=expected)
            likelihood = (data * coefficients).sum(axis=0) - expected.sum(axis=0)
        likelihood[~np.isfinite(likelihood)] = -np.inf
        return cls(basis, data, penalty, coefficients, basis.differences @ coefficients, expected, likelihood)

    @property
    def rough(self) -> np.ndarray:
        """|D beta|^2 (n_densities,)."""
        return np.asarray((self.bends**2).sum(axis=0))

    @property
    def value(self) -> np.ndarray:
        """F (n_densities,)."""
        return self.likelihood - 0.5 * self.penalty * self.rough

    def moved(self, step: np.ndarray) -> _Fit:
        return _Fit.at(self.basis, self.data, self.penalty, self.coefficients + step)

    @property
    def _found(self) -> tuple[np.ndarray, ...]:
        return self.coefficients, self.bends, self.expected, self.likelihood

    def take(self, columns: np.ndarray) -> _Fit:
        found = (array[..., columns] for array in self._found)
        return _Fit(self.basis, self.data[:, columns], self.penalty[columns], *found)

    def put(self, columns: np.ndarray, part: _Fit) -> None:
        for array, values in zip(self._found, part._found, strict=True):
            array[..., columns] = values

    def hessian(self) -> np.ndarray:
        """Bands of the negative Hessian, B'WB + rho D'D."""
        bands = self.basis.curvature(self.expected)
        bands += self.penalty[:, None, None] * self.basis.penalty_bands
        return bands

    def gradient(self) -> np.ndarray:
        fitted = self.basis.transposed @ self.expected
        return self.data - fitted - self.penalty * (self.basis.differences.T @ self.bends)


def _maximize(fit: _Fit, n_steps: int, tol: np.ndarray) -> _Fit:
    """Newton's method until a step promises less than tol (n_densities,)."""
    active = np.arange(len(tol))
    for _ in range(n_steps):
        part = fit.take(active) if len(active) < len(tol) else fit
        gradient = part.gradient()
        step = solve(cholesky(part.hessian()), gradient)
        promised = (gradient * step).sum(axis=0)
        part = _search(part, step, promised)
        if len(active) < len(tol):
            fit.put(active, part)
        else:
            fit = part
        active = active[promised > tol[active]]
        if not len(active):
            break
    return fit


def _search(fit: _Fit, step: np.ndarray, promised: np.ndarray) -> _Fit:
    """Newton's step, halved where F does not rise as it should: without that it may overshoot and drift."""
    length = np.ones(len(promised))
    moved = fit.moved(step)
    for _ in range(_MOST_HALVINGS):
        short = np.flatnonzero(moved.value < fit.value + _ARMIJO_SHARE * length * promised - _ROUNDING)
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
    tol: float = 1e-9,
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
    tol : float
        Stop when a Newton step promises less than this, in nats per sample.

    Returns
    -------
    ndarray (n_basis, n_densities)

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.likelihood.log_spline import fit_log_splines, log_probabilities, spline_basis
    >>> basis = spline_basis(40)
    >>> shares = np.exp(-0.5 * ((basis.centers - 0.4) / 0.1) ** 2)[:, None]
    >>> shares /= shares.sum()
    >>> coefficients = fit_log_splines(basis, shares, np.array([1e5]))
    >>> bool(np.abs(np.exp(log_probabilities(basis, coefficients)) - shares).max() < 1e-6)
    True
    """
    start = basis.normalized(basis.gaussian(shares) if start is None else start)
    data = basis.transposed @ shares
    for columns in _chunks(shares.shape[1]):
        fit = _Fit.at(basis, data[:, columns], penalty[columns], start[:, columns])
        start[:, columns] = _maximize(fit, n_steps, np.full(len(fit.penalty), tol)).coefficients
    return start


def log_probabilities(basis: SplineBasis, coefficients: np.ndarray) -> np.ndarray:
    """Logarithms (n_cells, n_densities) of the probabilities of the cells; columns of exponentials sum to one."""
    eta = basis.at_cells @ coefficients
    eta -= eta.max(axis=0)
    eta -= np.log(np.exp(eta).sum(axis=0))
    return eta


def roughness(basis: SplineBasis, coefficients: np.ndarray) -> np.ndarray:
    """|D beta|^2 (n_densities,), what the penalty multiplies by rho/2."""
    return np.asarray(((basis.differences @ coefficients) ** 2).sum(axis=0))


def effective_parameters(basis: SplineBasis, coefficients: np.ndarray, penalty: np.ndarray) -> np.ndarray:
    """Effective number of parameters (n_densities,): trace of (B'WB + rho D'D)^-1 B'WB, less one for the integral.

    From 2, a Gaussian, for a large penalty, up to n_basis - 1.
    """
    result = np.empty(coefficients.shape[1])
    for columns in _chunks(len(result)):
        part = basis.normalized(coefficients[:, columns])
        result[columns] = _freedom(_Fit.at(basis, np.zeros(part.shape), penalty[columns], part)) - 1.0
    return result


def choose_penalties(
    basis: SplineBasis,
    shares: np.ndarray,
    totals: np.ndarray,
    candidates: np.ndarray | None = None,
    criterion: str = "reml",
    start: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The penalty of every density that a criterion likes best, and the coefficients with it.

    Parameters
    ----------
    basis : SplineBasis
    shares : ndarray (n_cells, n_densities)
        Of the samples in every cell; columns sum to one.
    totals : ndarray (n_densities,)
        Number of samples behind the shares (sums of posterior probabilities).
    candidates : ndarray (n_candidates,) or (n_candidates, n_densities), optional
        Penalties rho, increasing; `PENALTIES` by default. Of those beyond :func:`largest_penalties` none is tried.
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
    ``benchmarks/penalty_criteria.py``; five components, ten variables, mean of two truths:

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
    if criterion not in CRITERIA:
        raise InvalidInputError(f"criterion is {criterion!r}; expected one of {', '.join(CRITERIA)}.")
    n_densities = shares.shape[1]
    candidates = PENALTIES if candidates is None else candidates
    grid = np.minimum(candidates.reshape(len(candidates), -1), largest_penalties(basis, shares))
    chosen, coefficients = np.empty(n_densities), basis.normalized(basis.gaussian(shares) if start is None else start)
    data = basis.transposed @ shares
    for columns in _chunks(n_densities):
        fit = _Fit.at(basis, data[:, columns], grid[-1, columns], coefficients[:, columns])
        chosen[columns], coefficients[:, columns] = _best_of_path(
            fit, totals[columns], grid[::-1, columns], CRITERIA[criterion]
        )
    return chosen, coefficients


def largest_penalties(basis: SplineBasis, shares: np.ndarray) -> np.ndarray:
    """Penalties (n_densities,) beyond which a density is as good as Gaussian.

    For a Gaussian of standard deviation s, the cubic term a He3 of the logarithm has the information 6 a^2 and, as its
    third derivative is 6 a / s^3 wherever there are samples, the penalty rho 40^-5 (6 a / s^3)^2 times about 6 s.
    """
    _, variance = basis.moments(shares)
    length = np.minimum(6.0 * np.sqrt(variance), 1.0)
    return variance**3 * 40.0**5 / (6.0 * LEAST_FREEDOM * length)


def _best_of_path(
    fit: _Fit, totals: np.ndarray, penalties: np.ndarray, criterion_of: Criterion
) -> tuple[np.ndarray, np.ndarray]:
    """Best of decreasing penalties (n_candidates, n_densities), and coefficients: from next to a Gaussian on."""
    chosen, best, coefficients = penalties[0].copy(), np.full(len(totals), -np.inf), fit.coefficients.copy()
    going = np.ones(len(totals), dtype=bool)
    for number, penalty in enumerate(penalties):
        tried = np.flatnonzero(going & (penalty < penalties[number - 1])) if number else np.arange(len(totals))
        if not len(tried):
            continue
        part = _maximize(replace(fit.take(tried), penalty=penalty[tried]), _PATH_STEPS, _PATH_TOL / totals[tried])
        fit.put(tried, part)
        value = criterion_of(part, totals[tried])
        better = value > best[tried]
        best[tried[better]], chosen[tried[better]] = value[better], penalty[tried[better]]
        coefficients[:, tried[better]] = part.coefficients[:, better]
        going[tried] = value > best[tried] - HOPELESS
    return chosen, coefficients


def _restricted_likelihood(fit: _Fit, totals: np.ndarray) -> np.ndarray:
    """Logarithm of the marginal likelihood of the penalty, up to what does not depend on it."""
    rank = fit.basis.n_basis - DIFFERENCES
    return totals * fit.value + 0.5 * (rank * np.log(fit.penalty) - log_determinant(cholesky(fit.hessian())))


def _freedom(fit: _Fit) -> np.ndarray:
    """Trace of (B'WB + rho D'D)^-1 B'WB."""
    return trace_of_product(inverse_bands(cholesky(fit.hessian())), fit.basis.curvature(fit.expected))


def _akaike(fit: _Fit, totals: np.ndarray) -> np.ndarray:
    return totals * fit.likelihood - _freedom(fit)


def _schwarz(fit: _Fit, totals: np.ndarray) -> np.ndarray:
    return totals * fit.likelihood - 0.5 * np.log(np.maximum(totals, 1.0)) * _freedom(fit)


#: What `choose_penalties` maximizes, of a fit and the number of samples behind it.
Criterion = Callable[[_Fit, np.ndarray], np.ndarray]
#: By name.
CRITERIA: dict[str, Criterion] = {"reml": _restricted_likelihood, "aic": _akaike, "bic": _schwarz}


def _chunks(n_densities: int) -> list[slice]:
    return [slice(start, start + _CHUNK) for start in range(0, n_densities, _CHUNK)]
