"""Densities of sources fitted from posteriors, and the unmixing matrix of highest likelihood given these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import BSpline
from scipy.optimize import minimize
from scipy.special import logsumexp

from tensorly_smp.codes.values import nearest
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.likelihood.cells import Cells, choose_cells, combined_cells, curved_cells
from tensorly_smp.likelihood.em import SmoothFit, smooth_em
from tensorly_smp.likelihood.steps import CellSamples, Mixture, on_best_cells
from tensorly_smp.splines.basis import ArcsinhTransform, SplineBasis

#: Steps of L-BFGS in one search for the matrix, between two updates of the densities.
N_STEPS = 15


@dataclass(frozen=True, eq=False)
class LogDensities:
    """Log-densities of one source in every component, and their derivatives, at any point.

    Cubic between the edges of the cells, as the log-splines are; straight beyond their ends.

    Attributes
    ----------
    low, high : float
        Ends of the cells, after the transform.
    transform : ArcsinhTransform
    values, slopes : ndarray (n_cells + 1, rank)
        At the edges; slopes are per cell.
    """

    low: float
    high: float
    transform: ArcsinhTransform
    values: np.ndarray
    slopes: np.ndarray

    @classmethod
    def of(
        cls, basis: SplineBasis, coefficients: np.ndarray, low: float, high: float, transform: ArcsinhTransform
    ) -> LogDensities:
        """Tabulate log-splines with coefficients (n_basis, rank) on an interval of the source."""
        ends = transform.forward(np.array([low, high]))
        edges = np.arange(basis.n_cells + 1) / basis.n_cells
        logs = basis.at_cells @ coefficients
        scale = np.log(basis.n_cells) - np.log(ends[1] - ends[0]) - logsumexp(logs, axis=0)
        slope = BSpline(basis.knots, coefficients, 3).derivative()(edges) / basis.n_cells
        slope[0] = np.maximum(slope[0], 0.0)
        slope[-1] = np.minimum(slope[-1], 0.0)
        return cls(float(ends[0]), float(ends[1]), transform, basis.at_edges @ coefficients + scale, slope)

    def at(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log-densities and their derivatives (n_points, rank) at points (n_points,)."""
        n_cells = len(self.values) - 1
        per_unit = n_cells / (self.high - self.low)
        position = (self.transform.forward(x) - self.low) * per_unit
        inside = np.clip(position, 0.0, n_cells)
        cell = np.minimum(inside.astype(np.int64), n_cells - 1)
        h = (inside - cell)[:, None]
        y0 = self.values[cell]
        y1 = self.values[cell + 1]
        d0 = self.slopes[cell]
        d1 = self.slopes[cell + 1]
        # Cubic Hermite: y0 + h (d0 + h (second + h third)).
        third = d0 + d1 - 2.0 * (y1 - y0)
        second = y1 - y0 - d0 - third
        value = y0 + h * (d0 + h * (second + h * third))
        slope = d0 + h * (2.0 * second + 3.0 * h * third)
        value += (position - inside)[:, None] * slope
        slope *= per_unit
        if not self.transform.is_linear:  # log f(x) = log f(u) + log du/dx
            standard = (x - self.transform.center) / self.transform.scale
            rate = 1.0 / (self.transform.scale * np.sqrt(1.0 + standard**2))
            value += np.log(rate)[:, None]
            slope *= rate[:, None]
            slope -= (standard / (self.transform.scale * (1.0 + standard**2)))[:, None]
        return value, slope


@dataclass(frozen=True, eq=False)
class Shrinkage:
    """Pseudo-samples whose variables are independent within components, which keep the matrix away from singular ones.

    Attributes
    ----------
    variances : ndarray (n,)
        Variances of the variables within components.
    n_samples : float
        Number of pseudo-samples. Their sources have variance w_n' diag(variances) w_n, and count with the Gaussian
        log-likelihood of the variance that the source has within components.
    ridge : float
        Precision of a Gaussian prior of every entry of the matrix off the diagonal, all variables and sources having
        unit scale.
    """

    variances: np.ndarray
    n_samples: float
    ridge: float

    def value_and_gradient(self, unmixing: np.ndarray, source_variances: np.ndarray) -> tuple[float, np.ndarray]:
        """Log-prior of a matrix (n, n), without the part of log|det|, and its gradient; source variances are (n,)."""
        pull = self.n_samples * unmixing * self.variances / source_variances[:, None]
        value = -0.5 * float((pull * unmixing).sum())
        off = unmixing * (1.0 - np.eye(len(unmixing)))
        weight = self.ridge * self.variances / source_variances[:, None]
        return value - 0.5 * float((weight * off**2).sum()), -pull - weight * off


def maximize_unmixing(
    values: np.ndarray,
    weights: np.ndarray,
    unmixing: np.ndarray,
    log_weights: np.ndarray,
    densities: list[LogDensities],
    source_variances: np.ndarray,
    shrinkage: Shrinkage,
    other: np.ndarray | None = None,
    n_steps: int = N_STEPS,
) -> tuple[np.ndarray, float]:
    """Raise the likelihood of an unmixing matrix by L-BFGS, the densities of the sources held.

    Parameters
    ----------
    values : ndarray (n_samples, n)
        Centered.
    weights : ndarray (n_samples,)
    unmixing : ndarray (n, n)
        Matrix to start from.
    log_weights : ndarray (rank,)
        Log-weights of the components.
    densities : list of LogDensities (n,)
    source_variances : ndarray (n,)
        Within components.
    shrinkage : Shrinkage
    other : ndarray (n_samples, rank), optional
        Log-likelihood of what else is known of a sample in every component, such as its discrete variables.
    n_steps : int

    Returns
    -------
    unmixing : ndarray (n, n)
    gain : float
        Gain of the penalized log-likelihood, per unit of sample weight.
    """
    total = float(weights.sum())
    n = len(unmixing)
    first = values @ unmixing.T
    base = log_weights + (0.0 if other is None else other)
    n_effective = total + shrinkage.n_samples

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        relative = np.eye(n) + scale * flat.reshape(n, n)
        sign, log_det = np.linalg.slogdet(relative)
        if sign <= 0:
            return np.inf, np.zeros(n * n)
        sources = first @ relative.T
        matrix = relative @ unmixing
        joint = np.broadcast_to(base, (len(values), len(log_weights))).copy()
        slopes = []
        for i, each in enumerate(densities):
            value, slope = each.at(sources[:, i])
            joint += value
            slopes.append(slope)
        peak = joint.max(axis=1, keepdims=True)
        joint = np.exp(joint - peak)
        sums = joint.sum(axis=1)
        joint *= (weights / sums)[:, None]
        scores = np.stack([(joint * slope).sum(axis=1) for slope in slopes], axis=1)
        prior, pull = shrinkage.value_and_gradient(matrix, source_variances)
        likelihood = float(weights @ (peak[:, 0] + np.log(sums))) + n_effective * log_det + prior
        gradient = scores.T @ first + n_effective * np.linalg.inv(relative).T + pull @ unmixing.T
        return -likelihood / total, -(scale * gradient).ravel() / total

    # In units of the curvature that independent sources would have: information of a source times the other's square.
    # Sources of unit variance within components: an information of one is that of a Gaussian.
    scale = np.sqrt(source_variances)[:, None] / np.sqrt(np.maximum((weights @ first**2) / total, 1e-300))[None, :]
    began, _ = objective(np.zeros(n * n))
    found = minimize(objective, np.zeros(n * n), jac=True, method="L-BFGS-B", options={"maxiter": n_steps})
    if not found.fun < began:
        return unmixing, 0.0
    return (np.eye(n) + scale * found.x.reshape(n, n)) @ unmixing, float(began - found.fun)


#: Gain of a pass, in nats per sample, below which EM stops between two updates of the matrix.
PASS_TOL = 1e-5


@dataclass(frozen=True, eq=False)
class SourceFit:
    """A product mixture of the sources.

    Attributes
    ----------
    posterior : ndarray (n_samples, rank)
    log_weights : ndarray (rank,)
    densities : list of LogDensities
        Log-densities of the sources.
    other : ndarray (n_samples, rank) or None
        Log-probabilities of the discrete variables of every sample in every component.
    log_likelihood : float
        Weighted sum over samples, of the sources.
    n_parameters : float
        Effective number, of weights and densities.
    cells : Cells
    mixture : Mixture
    penalty : ndarray (n, rank)
        Per sample of the component.
    kinds : tuple of int (n,)
        Which of the coordinates to choose from every source has.
    """

    posterior: np.ndarray
    log_weights: np.ndarray
    densities: list[LogDensities]
    other: np.ndarray | None
    log_likelihood: float
    n_parameters: float
    cells: Cells
    mixture: Mixture
    penalty: np.ndarray
    kinds: tuple[int, ...]

    def log_joint(self, sources: np.ndarray, categories: np.ndarray) -> np.ndarray:
        """Logarithm of w_r f(z | r), (n_samples, rank), of other samples."""
        joint = self.log_weights + sum(
            each.at(column)[0] for each, column in zip(self.densities, sources.T, strict=True)
        )
        other = _log_categories(self.cells, self.mixture, np.concatenate([sources, categories], axis=1))
        return np.asarray(joint if other is None else joint + other)


def fit_sources(
    sources: np.ndarray,
    categories: np.ndarray,
    category_values: Sequence[np.ndarray],
    posterior: np.ndarray,
    weights: np.ndarray,
    criterion: str,
    n_passes: int,
    before: SourceFit | None = None,
) -> SourceFit:
    """Fit a product mixture of sources and discrete variables, from posteriors on.

    Parameters
    ----------
    sources : ndarray (n_samples, n)
    categories : ndarray (n_samples, n_discrete)
        Values of the discrete variables, NaN where missing.
    category_values : sequence of ndarray (n_values,)
        Values of the discrete variables.
    posterior : ndarray (n_samples, rank)
    weights : ndarray (n_samples,)
    criterion : {"reml", "aic", "bic"}
        Criterion by which penalties are chosen.
    n_passes : int
        Passes of EM, at most.
    before : SourceFit, optional
        Fit of nearly the same sources: its transforms are kept, and penalties are searched near its own.
    """
    values = np.concatenate([sources, categories], axis=1)
    rank = posterior.shape[1]
    n = sources.shape[1]
    cells = choose_cells(values, rank, dict(enumerate(category_values, n)), None, weights)
    if any(i < n for i in cells.discrete):
        raise InvalidInputError(
            "A source has a single value, but for rounding: some variable has values too far from all others. Set them "
            "to NaN, or rescale them."
        )
    choices = [cells, *curved_cells(cells, values, rank, None, weights)]

    def on_cells(chosen: Cells) -> CellSamples:
        return CellSamples.assign_to_grid(values, chosen, weights)

    if before is None:
        samples, warm_start = on_best_cells(on_cells(cells), choices[1:], on_cells, posterior, criterion)
        transforms = samples.cells.transforms
        kinds = tuple([each.transforms[i] for each in choices].index(transforms[i]) for i in range(n))
    else:
        kinds = before.kinds
        samples = on_cells(combined_cells(choices, dict(enumerate(kinds))))
        warm_start = None
        if samples.cells.basis is before.cells.basis:
            totals = samples.shares(samples.counts_from_posterior(posterior).counts)[1]
            warm_start = (before.penalty.ravel() * totals, before.mixture)
    fit: SmoothFit = smooth_em(
        samples, posterior, criterion=criterion, warm_start=warm_start, n_rounds=1, n_iter_max=n_passes, tol=PASS_TOL
    )
    final = fit.cells
    densities = [
        LogDensities.of(final.basis, fit.mixture.coefficients[:, i], final.low[i], final.high[i], final.transforms[i])
        for i in range(n)
    ]
    return SourceFit(
        posterior=fit.posterior,
        log_weights=fit.mixture.log_weights,
        densities=densities,
        other=_log_categories(fit.cells, fit.mixture, values),
        log_likelihood=fit.log_likelihood,
        n_parameters=fit.n_parameters,
        cells=fit.cells,
        mixture=fit.mixture,
        penalty=fit.penalty,
        kinds=kinds,
    )


def _log_categories(cells: Cells, mixture: Mixture, values: np.ndarray) -> np.ndarray | None:
    """Log-probabilities (n_samples, rank) of the discrete variables, missing ones left out."""
    if not cells.discrete:
        return None
    total = np.zeros((len(values), mixture.rank))
    tables = cells.split(mixture.tables)
    for n, own, table in zip(cells.discrete, cells.values, tables, strict=True):
        present = ~np.isnan(values[:, n])
        total[present] += table[nearest(own, values[present, n])]
    return total
