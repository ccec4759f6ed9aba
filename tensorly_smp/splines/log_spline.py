"""Penalized log-splines: smooth densities on a grid of cells, fitted to shares of samples, many at a time.

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

from dataclasses import dataclass, replace

import numpy as np

from tensorly_smp._support import kernels
from tensorly_smp._support.kernels import KernelError, Kernels
from tensorly_smp.splines.basis import SplineBasis, cholesky, solve

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
    def roughness(self) -> np.ndarray:
        """|D beta|^2 (n_densities,)."""
        return np.asarray((self.third_differences**2).sum(axis=0))

    @property
    def value(self) -> np.ndarray:
        """F (n_densities,)."""
        return self.likelihood - 0.5 * self.penalty * self.roughness

    def moved(self, step: np.ndarray) -> LogSplineFit:
        """The fit with a step added to the coefficients."""
        return LogSplineFit.at(self.basis, self.data, self.penalty, self.basis.shaped(self.coefficients + step))

    @property
    def _found(self) -> tuple[np.ndarray, ...]:
        return self.coefficients, self.third_differences, self.expected, self.likelihood

    def take(self, columns: np.ndarray) -> LogSplineFit:
        """Some of the densities, copied."""
        found = (array[..., columns] for array in self._found)
        return LogSplineFit(self.basis, self.data[:, columns], self.penalty[columns], *found)

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


def maximize(fit: LogSplineFit, n_steps: int, tol: np.ndarray, compiled: Kernels | None = None) -> LogSplineFit:
    """Newton's method until a step promises less than tol (n_densities,); with compiled kernels if they are given."""
    if compiled is None:
        return _maximize(fit, n_steps, tol)
    basis = fit.basis
    data, coefficients, expected = (
        np.array(array.T, order="C") for array in (fit.data, fit.coefficients, fit.expected)
    )
    likelihood = fit.likelihood.copy()
    try:
        is_left = compiled.newton_log_splines(
            *(basis.at_interval, basis.unit, basis.penalty_bands, data, fit.penalty, coefficients, expected),
            *(likelihood, n_steps, tol, LINE_SEARCH, basis.shape is not None, HOLDING),
        )
    except KernelError:
        return _maximize(fit, n_steps, tol)
    reached = replace(
        fit,
        coefficients=np.ascontiguousarray(coefficients.T),
        third_differences=basis.differences @ coefficients.T,
        expected=np.ascontiguousarray(expected.T),
        likelihood=likelihood,
    )
    if is_left.any():
        left = np.flatnonzero(is_left)
        reached.put(left, _maximize(reached.take(left), n_steps, tol[left]))
    return reached


def compiled_for(basis: SplineBasis, n_densities: int) -> Kernels | None:
    """The compiled kernels, if there are densities enough."""
    return kernels.compiled(basis.n_cells * n_densities)


def _maximize(fit: LogSplineFit, n_steps: int, tol: np.ndarray) -> LogSplineFit:
    active = np.arange(len(tol))
    for _ in range(n_steps):
        part = fit.take(active) if len(active) < len(tol) else fit
        step, predicted_gain = part.newton_step()
        part = _search(part, step, predicted_gain)
        if len(active) < len(tol):
            fit.put(active, part)
        else:
            fit = part
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
    >>> from tensorly_smp.splines.log_spline import fit_log_splines
    >>> from tensorly_smp.splines.basis import spline_basis
    >>> basis = spline_basis(40)
    >>> shares = np.exp(-0.5 * ((basis.centers - 0.4) / 0.1) ** 2)[:, None]
    >>> shares /= shares.sum()
    >>> coefficients = fit_log_splines(basis, shares, np.array([1e5]))
    >>> bool(np.abs(np.exp(basis.log_probabilities(coefficients)) - shares).max() < 1e-6)
    True
    """
    start = basis.normalized(basis.gaussian(shares) if start is None else basis.shaped(start))
    data = basis.transposed @ shares
    compiled = compiled_for(basis, len(penalty))
    for columns in chunks(shares.shape[1]):
        fit = LogSplineFit.at(basis, data[:, columns], penalty[columns], start[:, columns])
        start[:, columns] = maximize(fit, n_steps, np.full(len(fit.penalty), tol), compiled).coefficients
    return start


def chunks(n_densities: int) -> list[slice]:
    """Densities in parts whose matrices fit into the cache."""
    return [slice(start, start + _CHUNK) for start in range(0, n_densities, _CHUNK)]
