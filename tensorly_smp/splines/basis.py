"""Cubic B-splines on a grid of cells, which all log-splines of a fit have in common, and transforms to such a grid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.interpolate import BSpline
from scipy.linalg.lapack import dpbtrf, dpbtrs
from scipy.sparse import csr_array

#: Cells of the grid between two neighboring knots.
CELLS_PER_INTERVAL = 4
# KL(true || learned) with the true posteriors and 40, 80, 160 basis functions, by benchmarks/densities.py penalties:
#             Gaussian              GMM               Gamma              Laplace
#   1000   0.070 0.070 0.070  0.159 0.159 0.159  0.176 0.179 0.177  0.226 0.225 0.222
#   5000   0.019 0.019 0.019  0.047 0.047 0.047  0.051 0.049 0.049  0.066 0.063 0.062
#   20000  0.005 0.005 0.005  0.012 0.011 0.011  0.021 0.019 0.019  0.033 0.028 0.027
# The penalty smooths, not the number; it must only be large enough, and time is in proportion to it.
#: The cells reach this share of the range of the values beyond it, where the density has no bound.
MARGIN = 0.1
#: Basis functions, unless a density is narrow.
N_BASIS = 80
#: Third differences: the limit of heavy smoothing is a Gaussian.
DIFFERENCES = 3
_DEGREE = 3
_AT_ONCE = 512  # densities whose tables stay in the processor's cache
_WIDTH = _DEGREE + 1  # bands of B'WB and of the penalty
#: What all log-splines on a basis may be: of any shape, or concave, which leaves their densities one peak.
SHAPES = (None, "log-concave")


@dataclass(frozen=True, eq=False)
class SplineBasis:
    """Cubic B-splines with equally spaced knots on [0, 1], and the cells on which densities are tabulated.

    Attributes
    ----------
    n_basis : int
        Number of basis functions, at least 4.
    shape : {None, "log-concave"}
        One of `SHAPES`.
    """

    n_basis: int
    shape: str | None = None

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
    def at_edges(self) -> csr_array:
        """Basis functions (n_cells + 1, n_basis) at the edges of the cells."""
        return self.values(np.arange(self.n_cells + 1) / self.n_cells)

    @cached_property
    def transposed(self) -> csr_array:
        """B' (n_basis, n_cells)."""
        return csr_array(self.at_cells.T)

    @cached_property
    def at_interval(self) -> np.ndarray:
        """Basis functions (CELLS_PER_INTERVAL, 4) that are not zero between two knots: everywhere the same."""
        middle = (self.n_basis - _DEGREE) // 2 * CELLS_PER_INTERVAL
        return self.at_cells.data.reshape(-1, _WIDTH)[middle : middle + CELLS_PER_INTERVAL].copy()

    @cached_property
    def products(self) -> csr_array:
        """Matrix (4 n_basis, n_cells) from the diagonal of W to the entries of B'WB, four to a column of the band."""
        return _band_products(self.at_cells)

    @property
    def unit(self) -> float:
        """Factor of the differences."""
        return float(((self.n_basis - _DEGREE) / 40) ** (DIFFERENCES - 0.5))

    @cached_property
    def differences(self) -> csr_array:
        """D (n_basis - 3, n_basis), in a unit in which rho means the same for any number of basis functions.

        |D beta|^2 is 40^-5 times the integral of the squared third derivative.
        """
        return csr_array(self.unit * np.diff(np.eye(self.n_basis), DIFFERENCES, axis=0))

    @cached_property
    def differences_transposed(self) -> csr_array:
        """D' (n_basis, n_basis - 3)."""
        return csr_array(self.differences.T)

    @cached_property
    def penalty_bands(self) -> np.ndarray:
        """Bands (n_basis, 4) of D'D."""
        dense = (self.differences.T @ self.differences).toarray()
        return np.stack([np.pad(np.diag(dense, -d), (0, d)) for d in range(_WIDTH)], axis=1)

    @cached_property
    def bends(self) -> csr_array:
        """Second differences (n_basis - 2, n_basis): a cubic spline is concave where none of them is positive."""
        return csr_array(np.diff(np.eye(self.n_basis), 2, axis=0))

    @cached_property
    def bends_transposed(self) -> csr_array:
        """Transpose (n_basis, n_basis - 2) of the second differences."""
        return csr_array(self.bends.T)

    @cached_property
    def bend_products(self) -> csr_array:
        """Matrix (4 n_basis, n_basis - 2) from weights of the squared second differences to the bands of their sum."""
        return _band_products(self.bends)

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
        # The basis functions sum to one, so that a constant added to all coefficients is added to the function.
        return coefficients - _log_sum(self.at_cells @ coefficients)

    def shaped(self, coefficients: np.ndarray) -> np.ndarray:
        """Coefficients (n_basis, n_densities) of densities that have the shape.

        Of a concave logarithm, positive second differences become zero: the largest coefficient and the slope there
        stay, and all beyond the bend is turned down.
        """
        if self.shape is None:
            return coefficients
        excess = np.maximum(self.bends @ coefficients, 0.0)
        if not excess.any():
            return coefficients
        before, after = self.sides(coefficients)
        bent = coefficients.copy()
        bent[2:] -= np.cumsum(np.cumsum(after * excess, axis=0), axis=0)
        bent[-3::-1] -= np.cumsum(np.cumsum((before * excess)[::-1], axis=0), axis=0)
        return bent

    def sides(self, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Share (n_basis - 2, n_densities) of every second difference that lies before and after the largest one."""
        peak = np.clip(coefficients.argmax(axis=0), 1, self.n_basis - 2)
        after = 0.5 + 0.5 * np.sign(np.arange(1, self.n_basis - 1)[:, None] - peak)
        return 1.0 - after, after

    def log_probabilities(self, coefficients: np.ndarray) -> np.ndarray:
        """Logarithms (n_cells, n_densities) of the probabilities of the cells; columns of exponentials sum to one."""
        eta = self.at_cells @ coefficients
        eta -= _log_sum(eta)
        return eta

    def roughness(self, coefficients: np.ndarray) -> np.ndarray:
        """|D beta|^2 (n_densities,), what a penalty multiplies by rho/2."""
        return np.asarray(((self.differences @ coefficients) ** 2).sum(axis=0))

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
def spline_basis(n_basis: int, shape: str | None = None) -> SplineBasis:
    """The basis of that many functions for densities of that shape, made once."""
    return SplineBasis(n_basis, shape)


def _band_products(matrix: csr_array) -> csr_array:
    """Matrix (4 n, m) from the diagonal of W to the bands (n, 4) of A'WA, for a matrix A (m, n) of four bands."""
    m, n = matrix.shape
    dense = np.pad(matrix.toarray(), ((0, 0), (0, _DEGREE)))
    bands = [dense[:, :n] * dense[:, d : d + n] for d in range(_WIDTH)]
    return csr_array(np.stack(bands, axis=2).reshape(m, -1).T)


def _log_sum(eta: np.ndarray) -> np.ndarray:
    """Logarithms (n_densities,) of the sums of exp(eta)."""
    found = np.empty(eta.shape[1])
    for start in range(0, len(found), _AT_ONCE):
        some = eta[:, start : start + _AT_ONCE]
        peak = some.max(axis=0)
        found[start : start + _AT_ONCE] = peak + np.log(np.exp(some - peak).sum(axis=0))
    return found


# Many symmetric banded systems at a time: Cholesky factor, solution, determinant, bands of the inverse. A fit has one
# such system per variable and component. Here a stack of matrices of the same size is an array (n_systems, n,
# bandwidth + 1) with ``bands[s, k, d]`` holding the entry (k + d, k) of matrix s, and zeros where there is none. One
# below the other, they are the bands of one large block-diagonal matrix as LAPACK stores them, which factorizes and
# solves all of them in one call.

#: Added to the diagonal of a matrix that is not positive definite to working precision, relative to its largest entry;
#: ten times as much whenever that is not enough.
_JITTER = 1e-15


def cholesky(bands: np.ndarray) -> np.ndarray:
    """Lower Cholesky factors L, A = L L'.

    Parameters
    ----------
    bands : ndarray (n_systems, n, bandwidth + 1)
        Finite. Of matrices that are positive definite, or would be but for rounding errors: these are moved to the
        nearest multiple of the identity away that is.

    Returns
    -------
    ndarray (n_systems, n, bandwidth + 1)
        Bands of L.
    """
    if not len(bands):
        return bands.copy()
    factor, failed = dpbtrf(_stacked(bands), lower=1)
    if not failed:
        return np.asarray(factor.T).reshape(bands.shape)
    return np.stack([_shifted_cholesky(system) for system in bands])


def _shifted_cholesky(system: np.ndarray) -> np.ndarray:
    """Factor (n, bandwidth + 1) of one matrix, or of one with a larger diagonal."""
    factor, failed = dpbtrf(system.T, lower=1)
    shift = _JITTER * np.abs(system).max()
    while failed:
        shifted = system.copy()
        shifted[:, 0] += shift
        factor, failed = dpbtrf(shifted.T, lower=1)
        shift = max(10.0 * shift, np.finfo(np.float64).tiny)
    return np.asarray(factor.T)


def solve(factor: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solutions x (n, n_systems) of L L' x = right."""
    if not len(factor):
        return right.copy()
    x, _ = dpbtrs(_stacked(factor), right.T.reshape(-1, 1), lower=1)
    return np.asarray(x).reshape(len(factor), -1).T


def _stacked(bands: np.ndarray) -> np.ndarray:
    return bands.reshape(-1, bands.shape[2]).T


def log_determinant(factor: np.ndarray) -> np.ndarray:
    """Logarithms (n_systems,) of the determinants of L L'."""
    return 2.0 * np.log(factor[:, :, 0]).sum(axis=1)


def inverse_bands(factor: np.ndarray) -> np.ndarray:
    """Entries of the inverse of L L' within the bandwidth, as bands.

    With A = L L' and Z its inverse, L' Z = L^-1 is lower triangular, so that every column of Z follows upwards from
    entries of Z within the band (Takahashi, Fagan and Chin 1973).
    """
    lower = np.ascontiguousarray(factor.transpose(2, 1, 0))  # each step of the recurrence on contiguous numbers
    width, n = lower.shape[:2]
    inverse = np.zeros_like(lower)
    for k in range(n - 1, -1, -1):
        below = range(1, min(width, n - k))
        for j in below:
            # sum over i > k of L[i, k] Z[i, j], Z symmetric
            total = sum(lower[i, k] * inverse[abs(i - j), k + min(i, j)] for i in below)
            inverse[j, k] = -total / lower[0, k]
        total = sum(lower[i, k] * inverse[i, k] for i in below)
        inverse[0, k] = (1.0 / lower[0, k] - total) / lower[0, k]
    return inverse.transpose(2, 1, 0)


def trace_of_product(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Trace (n_systems,) of the products of symmetric matrices, one of which is zero outside the band."""
    product = first * second
    return 2.0 * product.sum(axis=(1, 2)) - product[:, :, 0].sum(axis=1)


# ---- transform of a variable after which its cells are equally wide: none, or one that draws far values in ----

# The hyperbolic sine of this is finite.
_FARTHEST = 709.0


@dataclass(frozen=True)
class ArcsinhTransform:
    """u(x) = arsinh((x - center) / scale): like x near the center, like its logarithm far away; or x itself.

    Equally wide cells in u are widest far out, in proportion to the distance from the center. With them a single grid
    follows a density that is narrow at one place and has values a million times as far as it is wide, as those of
    prices, of incomes, or with errors among them.

    Attributes
    ----------
    center, scale : float
        In the unit of the variable; `scale` is infinite for x itself.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.splines.basis import ArcsinhTransform
    >>> ArcsinhTransform(0.0, 1.0).forward(np.array([0.01, 1e3, 1e6])).round(2).tolist()
    [0.01, 7.6, 14.51]
    >>> ArcsinhTransform().forward(np.array([0.01, 1e3, 1e6])).tolist()
    [0.01, 1000.0, 1000000.0]
    """

    center: float = 0.0
    scale: float = np.inf

    @property
    def is_linear(self) -> bool:
        """True if u is x."""
        return not math.isfinite(self.scale)

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Transformed values u of values x."""
        if self.is_linear:
            return x
        with np.errstate(over="ignore"):  # beyond all floats, and in the outermost cell with that
            return np.asarray(np.clip(np.arcsinh((x - self.center) / self.scale), -_FARTHEST, _FARTHEST))

    def inverse(self, u: np.ndarray) -> np.ndarray:
        """Values x of transformed values u."""
        if self.is_linear:
            return u
        with np.errstate(over="ignore"):
            return np.asarray(self.center + self.scale * np.sinh(u))

    def knots(self, low: float, high: float, n_cells: int) -> np.ndarray:
        """Edges (n_cells + 1,) of equally wide cells of u from one value to another, as (x - center) / scale.

        Not for x itself, which has no scale to count in.
        """
        ends = self.forward(np.array([low, high]))
        knots = np.sinh(ends[0] + (ends[1] - ends[0]) / n_cells * np.arange(n_cells + 1.0))
        # The ends to the last digit: a value at a bound is not beyond it.
        if max(-ends[0], ends[1]) < _FARTHEST:
            knots[[0, -1]] = (low - self.center) / self.scale, (high - self.center) / self.scale
        return np.asarray(knots)


#: The variable itself.
LINEAR = ArcsinhTransform()
