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
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.interpolate import BSpline
from scipy.sparse import csr_array

from tensorly_smp.likelihood.banded import cholesky, inverse_bands, log_determinant, solve, trace_of_product

#: Cells of the grid between two neighboring knots.
CELLS_PER_INTERVAL = 4
#: Basis functions, unless a density is narrow.
N_BASIS = 80
#: Third differences: the limit of heavy smoothing is a Gaussian.
DIFFERENCES = 3
#: Penalties rho that are compared, for `N_BASIS` functions; powers of ten, because a factor of ten between two is about
#: as far as the criteria tell apart.
PENALTIES = 10.0 ** np.arange(-5, 6)

_DEGREE = 3
_WIDTH = _DEGREE + 1  # bands of B'WB and of the penalty
_CHUNK = 512  # densities at a time: their matrices stay in the processor's cache
_RIDGE = 1e-10  # of the largest entry of the Hessian, against rounding where no sample fell
_MOST_HALVINGS = 30
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
    def products(self) -> tuple[csr_array, ...]:
        """Matrix d of these times W gives the d-th band of B'WB."""
        dense = self.at_cells.toarray()
        return tuple(csr_array((dense[:, : self.n_basis - d] * dense[:, d:]).T) for d in range(_WIDTH))

    @cached_property
    def differences(self) -> csr_array:
        """D (n_basis - 3, n_basis), in a unit in which rho means the same for any number of basis functions."""
        unit = (self.n_basis / 40) ** (DIFFERENCES - 0.5)
        return csr_array(unit * np.diff(np.eye(self.n_basis), DIFFERENCES, axis=0))

    @cached_property
    def penalty_bands(self) -> np.ndarray:
        """Bands (4, n_basis, 1) of D'D."""
        dense = (self.differences.T @ self.differences).toarray()
        return np.stack([np.pad(np.diag(dense, -d), (0, d)) for d in range(_WIDTH)])[:, :, None]

    @cached_property
    def penalty_log_determinant(self) -> float:
        """Logarithm of the product of the positive eigenvalues of D'D, which are those of DD'."""
        return float(np.linalg.slogdet((self.differences @ self.differences.T).toarray())[1])

    @cached_property
    def quadratics(self) -> np.ndarray:
        """Coefficients (n_basis, 3) of the functions 1, t and t^2; cubic splines contain them."""
        powers = self.centers[:, None] ** np.arange(3)
        return np.linalg.lstsq(self.at_cells.toarray(), powers, rcond=None)[0]

    def curvature(self, expected: np.ndarray) -> np.ndarray:
        """Bands (4, n_basis, n_densities) of B'WB for W = diag(expected) (n_cells, n_densities)."""
        bands = np.zeros((_WIDTH, self.n_basis, expected.shape[1]))
        for d, product in enumerate(self.products):
            bands[d, : self.n_basis - d] = product @ expected
        return bands

    def gaussian(self, shares: np.ndarray) -> np.ndarray:
        """Coefficients (n_basis, n_densities) of the Gaussians with the moments of the shares."""
        mean = self.centers @ shares
        spread = (self.centers[:, None] - mean) ** 2
        variance = (spread * shares).sum(axis=0) + 1.0 / self.n_cells**2
        constant = -np.log(self.n_cells) - 0.5 * (np.log(2.0 * np.pi * variance) + mean**2 / variance)
        return self.quadratics @ np.stack([constant, mean / variance, -0.5 / variance])


@lru_cache(maxsize=8)
def spline_basis(n_basis: int) -> SplineBasis:
    """The basis of that many functions, made once."""
    return SplineBasis(n_basis)


@dataclass(eq=False)
class _Fit:
    """Coefficients beta, and what belongs to them."""

    basis: SplineBasis
    shares: np.ndarray
    penalty: np.ndarray
    coefficients: np.ndarray

    def __post_init__(self) -> None:
        # A step too far overflows, has the value -inf and is rejected.
        with np.errstate(over="ignore", invalid="ignore"):
            eta = self.basis.at_cells @ self.coefficients
            self.expected = np.exp(eta)
            self.value = (self.shares * eta).sum(axis=0) - self.expected.sum(axis=0) - 0.5 * self.penalty * self.rough
        self.value[~np.isfinite(self.value)] = -np.inf

    @property
    def rough(self) -> np.ndarray:
        """|D beta|^2 (n_densities,)."""
        return np.asarray(((self.basis.differences @ self.coefficients) ** 2).sum(axis=0))

    def moved(self, step: np.ndarray) -> _Fit:
        return _Fit(self.basis, self.shares, self.penalty, self.coefficients + step)

    def hessian(self) -> tuple[np.ndarray, np.ndarray]:
        """Bands of B'WB, and of the negative Hessian, which adds the penalty."""
        curvature = self.basis.curvature(self.expected)
        bands = curvature + self.penalty * self.basis.penalty_bands
        bands[0] += _RIDGE * bands[0].max(axis=0)
        return curvature, bands

    def gradient(self) -> np.ndarray:
        bent = self.basis.differences.T @ (self.basis.differences @ self.coefficients)
        return self.basis.transposed @ (self.shares - self.expected) - self.penalty * bent


def _maximize(fit: _Fit, n_steps: int, tol: float) -> _Fit:
    """Newton's method with a line search: without one it may overshoot and drift."""
    for _ in range(n_steps):
        gradient = fit.gradient()
        step = solve(cholesky(fit.hessian()[1]), gradient)
        promised = (gradient * step).sum(axis=0)
        length = np.where(promised > _ROUNDING, 1.0, 0.0)  # converged ones stay
        for _ in range(_MOST_HALVINGS):
            moved = fit.moved(length * step)
            short = moved.value < fit.value + _ARMIJO_SHARE * length * promised - _ROUNDING
            if not short.any():
                break
            length[short] *= 0.5
        else:
            length[short] = 0.0
            moved = fit.moved(length * step)
        fit = moved
        if (promised < tol).all():
            break
    return fit


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
    start = basis.gaussian(shares) if start is None else start
    result = np.empty_like(start)
    for columns in _chunks(shares.shape[1]):
        fit = _Fit(basis, shares[:, columns], penalty[columns], start[:, columns])
        result[:, columns] = _maximize(fit, n_steps, tol).coefficients
    return result


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
        part = coefficients[:, columns]
        fit = _Fit(basis, np.exp(log_probabilities(basis, part)), penalty[columns], part)
        curvature, bands = fit.hessian()
        result[columns] = trace_of_product(inverse_bands(cholesky(bands)), curvature) - 1.0
    return np.maximum(result, 0.0)


def choose_penalties(
    basis: SplineBasis,
    shares: np.ndarray,
    totals: np.ndarray,
    candidates: np.ndarray = PENALTIES,
    criterion: str = "reml",
) -> tuple[np.ndarray, np.ndarray]:
    """The penalty of every density that a criterion likes best, and the coefficients with it.

    Parameters
    ----------
    basis : SplineBasis
    shares : ndarray (n_cells, n_densities)
        Of the samples in every cell; columns sum to one.
    totals : ndarray (n_densities,)
        Number of samples behind the shares (sums of posterior probabilities).
    candidates : ndarray (n_candidates,) or (n_candidates, n_densities)
        Penalties rho, increasing.
    criterion : {"reml", "aic", "bic"}
        "reml": the marginal likelihood of the penalty, the coefficients integrated out with Laplace's approximation
        (Wood, Pya and Säfken 2016): never far from the best of the others, and the Gaussian when the data are. "aic"
        and "bic": log-likelihood less the effective number of parameters, or that times half the logarithm of the
        number of samples.

    Returns
    -------
    penalty : ndarray (n_densities,)
    coefficients : ndarray (n_basis, n_densities)
    """
    criterion_of = CRITERIA[criterion]
    n_densities = shares.shape[1]
    grid = np.broadcast_to(
        candidates if np.ndim(candidates) == 2 else candidates[:, None], (len(candidates), n_densities)
    )
    chosen, coefficients = np.empty(n_densities), np.empty((basis.n_basis, n_densities))
    for columns in _chunks(n_densities):
        part, counts = shares[:, columns], totals[columns]
        start = basis.gaussian(part)
        best = np.full(len(counts), -np.inf)
        # From the smoothest, which is next to the Gaussian start, to the roughest.
        for penalty in grid[::-1, columns]:
            fit = _maximize(_Fit(basis, part, penalty, start), 10, 1e-5)
            start = fit.coefficients
            value = criterion_of(fit, counts)
            better = value > best
            best[better] = value[better]
            chosen[columns][better] = penalty[better]
            coefficients[:, columns][:, better] = start[:, better]
    return chosen, coefficients


def _restricted_likelihood(fit: _Fit, totals: np.ndarray) -> np.ndarray:
    """Logarithm of the marginal likelihood of the penalty, up to what does not depend on it."""
    rank = fit.basis.n_basis - DIFFERENCES
    determinant = log_determinant(cholesky(fit.hessian()[1]))
    return totals * fit.value + 0.5 * (rank * np.log(fit.penalty) - determinant)


def _log_likelihood(fit: _Fit) -> np.ndarray:
    """Per sample."""
    return np.asarray(fit.value + 0.5 * fit.penalty * fit.rough)


def _freedom(fit: _Fit) -> np.ndarray:
    curvature, bands = fit.hessian()
    return trace_of_product(inverse_bands(cholesky(bands)), curvature)


def _akaike(fit: _Fit, totals: np.ndarray) -> np.ndarray:
    return totals * _log_likelihood(fit) - _freedom(fit)


def _schwarz(fit: _Fit, totals: np.ndarray) -> np.ndarray:
    return totals * _log_likelihood(fit) - 0.5 * np.log(np.maximum(totals, 1.0)) * _freedom(fit)


#: What `choose_penalties` maximizes, by name.
CRITERIA: dict[str, Callable[[_Fit, np.ndarray], np.ndarray]] = {
    "reml": _restricted_likelihood,
    "aic": _akaike,
    "bic": _schwarz,
}


def _chunks(n_densities: int) -> list[slice]:
    return [slice(start, start + _CHUNK) for start in range(0, n_densities, _CHUNK)]
