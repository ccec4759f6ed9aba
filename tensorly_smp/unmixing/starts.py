"""Starts of the search for an unmixing matrix: Gaussian and Student mixtures whose covariances share one matrix."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

#: Added to the covariances of a Gaussian mixture, relative to the variances of all samples.
LEAST_VARIANCE = 1e-9
#: Degrees of freedom of a Student distribution that is Gaussian, to rounding.
GAUSSIAN = 1e8
#: Smallest eigenvalue of the curvature of two entries of a step: sources that are Gaussian with proportional variances
#: leave a rotation open.
LEAST_CURVATURE = 1e-2
#: Largest entry of a relative step, and halvings of a step that does not rise.
LARGEST_STEP, N_HALVINGS = 0.5, 6
LARGEST_ENTRY = 1e100
#: Products of the variables of some samples that are in memory together.
MOST_MONOMIALS = 4_000_000
#: Variables of unit scale whose covariance has a smaller eigenvalue are copies of each other, or sums.
_SINGULAR = 1e-12
_TINY = np.finfo(float).tiny


def copies(values: np.ndarray) -> list[int]:
    """Positions of variables of samples (n_samples, n) that determine each other but for rounding; empty if none do.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.unmixing.starts import copies
    >>> copies(np.array([[0.0, 1.0, 2.0], [3.0, 2.0, 4.0], [2.0, 5.0, 10.0], [7.0, 0.0, 0.0]]))
    [1, 2]
    """
    spread = values.std(axis=0)
    if not (spread > 0).all():
        return np.flatnonzero(spread == 0).tolist()
    scaled = (values - values.mean(axis=0)) / spread
    lengths, directions = np.linalg.eigh(scaled.T @ scaled / len(scaled))
    return np.flatnonzero(np.abs(directions[:, 0]) > 0.1).tolist() if lengths[0] < _SINGULAR else []


def inverse_root(covariance: np.ndarray) -> np.ndarray:
    """Symmetric inverse square roots (..., n, n) of covariance matrices, finite even if a matrix is singular.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.unmixing.starts import inverse_root
    >>> inverse_root(np.diag([4.0, 0.25])).tolist()
    [[0.5, 0.0], [0.0, 2.0]]
    """
    values, vectors = np.linalg.eigh(covariance)
    floor = np.maximum(values[..., -1:], _TINY) * 1e-10
    return np.asarray((vectors / np.sqrt(np.maximum(values, floor))[..., None, :]) @ vectors.swapaxes(-1, -2))


def within_covariance(values: np.ndarray, posterior: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Pooled covariance (n, n) of samples (n_samples, n) about the means of their components.

    Parameters
    ----------
    values : ndarray (n_samples, n)
    posterior : ndarray (n_samples, rank)
    weights : ndarray (n_samples,)
        Sample weights.
    """
    shares = posterior * weights[:, None]
    totals = np.maximum(shares.sum(axis=0), _TINY)
    means = shares.T @ values / totals[:, None]
    # sum_r p_mr (x - mu_r)(x - mu_r)' = x x' - sum_r total_r mu_r mu_r', in whitened samples without much cancellation.
    second = (values * weights[:, None]).T @ values - (means.T * totals) @ means
    return np.asarray(second / weights.sum())


def shrinkage_to_diagonal(values: np.ndarray, weights: np.ndarray) -> float:
    """Share of the diagonal in the best linear shrinkage of the correlations of samples (n_samples, n).

    The estimate of Schaefer and Strimmer (2005): the variances of the correlations over their squares. Close to zero
    for many samples, one where no correlation stands out.

    References
    ----------
    J. Schaefer, K. Strimmer, "A shrinkage approach to large-scale covariance matrix estimation and implications for
    functional genomics", Statistical Applications in Genetics and Molecular Biology 4, 2005.
    """
    total = weights.sum()
    centered = values - weights @ values / total
    scale = np.sqrt(weights @ centered**2 / total)
    standard = centered / np.where(scale > 0, scale, 1.0)
    # Each r_jk is a mean of products; its variance is that of the products over the number of samples.
    correlation = (standard * weights[:, None]).T @ standard / total
    squares = (standard**2 * weights[:, None]).T @ standard**2 / total
    noise = np.maximum(squares - correlation**2, 0.0) / max(total - 1.0, 1.0)
    off = ~np.eye(values.shape[1], dtype=bool)
    signal = float((correlation[off] ** 2).sum())
    return 1.0 if signal <= 0 else float(np.clip(noise[off].sum() / signal, 0.0, 1.0))


def relative_step(gradient: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    """Quasi-Newton step E from W to (I + E) W, without the scales of the sources.

    The Hessian of a likelihood of independent sources falls into blocks of two entries (Pham and Garat 1997; Palmer and
    others 2008; Ablin, Cardoso and Gramfort 2018): E maximizes the sum over pairs of g_ij e_ij + g_ji e_ji -
    (h_ij e_ij^2 + h_ji e_ji^2) / 2 - e_ij e_ji.

    Parameters
    ----------
    gradient : ndarray (..., n, n)
        g, relative: of the objective with respect to E, per sample.
    curvature : ndarray (..., n, n)
        h: information about the location of source i times the variance of source j.

    Returns
    -------
    ndarray (..., n, n)
        No entry is beyond `LARGEST_STEP`; zeros on the diagonal.

    References
    ----------
    P. Ablin, J.-F. Cardoso, A. Gramfort, "Faster independent component analysis by preconditioning with Hessian
    approximations", IEEE Transactions on Signal Processing 66, 2018. J. A. Palmer, S. Makeig, K. Kreutz-Delgado, B. D.
    Rao, "Newton method for the ICA mixture model", ICASSP 2008.
    """
    # Of next to no samples, or of sources next to a constant, either may be beyond what has a square.
    gradient = np.clip(np.nan_to_num(gradient), -LARGEST_ENTRY, LARGEST_ENTRY)
    curvature = np.clip(np.nan_to_num(curvature), 0.0, LARGEST_ENTRY)
    turned = curvature.swapaxes(-1, -2)
    spread = np.sqrt((curvature - turned) ** 2 + 4.0)
    own = curvature + np.maximum(LEAST_CURVATURE - 0.5 * (curvature + turned - spread), 0.0)
    turned = own.swapaxes(-1, -2)
    step = (turned * gradient - gradient.swapaxes(-1, -2)) / (own * turned - 1.0)
    step *= 1.0 - np.eye(step.shape[-1])
    largest = np.abs(step).max(axis=(-1, -2), keepdims=True)
    return np.asarray(step * np.minimum(1.0, LARGEST_STEP / np.maximum(largest, _TINY)))


def diagonalizing_step(covariances: np.ndarray, shares: np.ndarray, unmixing: np.ndarray) -> np.ndarray:
    """Step of a matrix W to one that makes all W S_r W' as diagonal as the Gaussian likelihood asks.

    Raises log|det W| - 1/2 sum_r shares_r sum_n log (W S_r W')_nn by a relative step (Pham 2001), shortened until it
    rises: the likelihood of semi-tied covariances (Gales 1999). Leading axes are problems of their own.

    Parameters
    ----------
    covariances : ndarray (..., n_matrices, n, n)
        Positive definite.
    shares : ndarray (..., n_matrices)
        Non-negative, sum to one.
    unmixing : ndarray (..., n, n)

    Returns
    -------
    ndarray (..., n, n)

    References
    ----------
    M. J. F. Gales, "Semi-tied covariance matrices for hidden Markov models", IEEE Transactions on Speech and Audio
    Processing 7, 1999. D. T. Pham, "Joint approximate diagonalization of positive definite Hermitian matrices", SIAM
    Journal on Matrix Analysis and Applications 22, 2001.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.unmixing.starts import diagonalizing_step
    >>> mixing = np.array([[1.0, 0.5], [0.2, 1.0]])
    >>> covariances = np.stack([mixing @ np.diag(d) @ mixing.T for d in ([1.0, 4.0], [3.0, 1.0])])
    >>> unmixing = np.eye(2)
    >>> for _ in range(10):
    ...     unmixing = diagonalizing_step(covariances, np.array([0.5, 0.5]), unmixing)
    >>> bool((np.sort(np.abs(unmixing @ mixing), axis=1)[:, 0] < 1e-6).all())
    True
    """

    def at(matrices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        each = matrices[..., None, :, :]
        turned = each @ covariances @ each.swapaxes(-1, -2)
        variances = np.maximum(np.diagonal(turned, axis1=-2, axis2=-1), _TINY)
        value = np.linalg.slogdet(matrices)[1] - 0.5 * (shares * np.log(variances).sum(axis=-1)).sum(axis=-1)
        return value, turned, variances

    value, turned, variances = at(unmixing)
    precisions = shares[..., None] / variances
    gradient = np.eye(unmixing.shape[-1]) - (precisions[..., None] * turned).sum(axis=-3)
    step = relative_step(gradient, precisions.swapaxes(-1, -2) @ variances)
    taken = np.ones(value.shape)
    for factor in (*[0.5] * N_HALVINGS, 0.0, 0.0):
        moved = unmixing + taken[..., None, None] * step @ unmixing
        rises = at(moved)[0] >= value
        if rises.all():
            break
        taken = np.where(rises, taken, factor * taken)
    return moved


class Quadratics:
    """Moments of samples in groups, and squared distances from their centers, as products with all monomials."""

    def __init__(self, values: np.ndarray) -> None:
        n = values.shape[1]
        self.values = values
        self.upper = np.triu_indices(n)
        self.pair = np.empty((n, n), dtype=np.intp)
        self.pair[self.upper] = self.pair.T[self.upper] = np.arange(len(self.upper[0]))
        size = max(1, MOST_MONOMIALS // (1 + n + len(self.upper[0])))
        self.blocks = [slice(first, first + size) for first in range(0, len(values), size)]

    def _monomials(self, block: slice) -> np.ndarray:
        some = self.values[block]
        return np.concatenate([np.ones((len(some), 1)), some, some[:, self.upper[0]] * some[:, self.upper[1]]], axis=1)

    def moments(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means (n_groups, n), and sums of products of deviations (n_groups, n, n), of counts (n_samples, n_groups)."""
        n = self.values.shape[1]
        sums = np.sum([self._monomials(block).T @ counts[block] for block in self.blocks], axis=0).T
        totals = np.maximum(sums[:, 0], _TINY)
        means = sums[:, 1 : n + 1] / totals[:, None]
        return means, sums[:, n + 1 :][:, self.pair] - totals[:, None, None] * means[:, :, None] * means[:, None, :]

    def distances(self, means: np.ndarray, precisions: np.ndarray) -> np.ndarray:
        """Squared distances (n_samples, n_groups) from means (n_groups, n), by matrices (n_groups, n, n)."""
        linear = (precisions @ means[:, :, None])[:, :, 0]
        constant = (linear * means).sum(axis=1, keepdims=True)
        quadratic = precisions[:, self.upper[0], self.upper[1]] * np.where(self.upper[0] == self.upper[1], 1.0, 2.0)
        factors = np.concatenate([constant, -2.0 * linear, quadratic], axis=1).T
        return np.maximum(np.concatenate([self._monomials(block) @ factors for block in self.blocks]), 0.0)


def student_mixtures(
    values: np.ndarray, weights: np.ndarray, posteriors: np.ndarray, degrees: np.ndarray, n_passes: int, tol: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mixtures of Student distributions with semi-tied scales, A D_r A' with one A for all components, by EM together.

    Every component has as a prior pseudo-samples with the pooled covariance, as many as Fraley and Raftery have degrees
    of freedom: no component of few samples is narrow for its likelihood alone.

    Parameters
    ----------
    values : ndarray (n_samples, n)
        Of about unit scale, centered.
    weights : ndarray (n_samples,)
    posteriors : ndarray (n_mixtures, n_samples, rank)
        Every mixture starts from these.
    degrees : ndarray (n_mixtures,)
        Degrees of freedom; with `GAUSSIAN` of them, mixtures are Gaussian.
    n_passes : int
    tol : float
        Change by a pass, in nats per sample, below which EM ends, if no mixture changes more.

    Returns
    -------
    log_posteriors : ndarray (n_mixtures,)
        Log-likelihoods and log-priors per sample, up to the constant of a Gaussian.
    posteriors : ndarray (n_mixtures, n_samples, rank)
    unmixing : ndarray (n_mixtures, n, n)
        Inverses of A.

    References
    ----------
    C. Fraley, A. E. Raftery, "Bayesian regularization for normal mixture estimation and model-based clustering",
    Journal of Classification 24, 2007. D. Peel, G. J. McLachlan, "Robust mixture modelling using the t distribution",
    Statistics and Computing 10, 2000.
    """
    total = float(weights.sum())
    n = values.shape[1]
    n_prior = n + 2.0
    floor = np.diag(np.maximum(LEAST_VARIANCE * (weights @ (values - weights @ values / total) ** 2) / total, _TINY))
    quadratics = Quadratics(values)
    # m sample, r component, s mixture: sums over the components are over slices
    posteriors = posteriors.transpose(1, 2, 0)
    n_groups = posteriors.shape[1:]
    log_constant = gammaln(0.5 * (degrees + n)) - gammaln(0.5 * degrees) - 0.5 * n * np.log(0.5 * degrees)
    nearness = np.ones(posteriors.shape)
    unmixing = None
    reached = np.full(len(degrees), -np.inf)
    for _ in range(n_passes):
        counts = posteriors * weights[:, None, None]
        totals = np.maximum(counts.sum(axis=0), _TINY)
        means, second = quadratics.moments((counts * nearness).reshape(len(values), -1))
        second = second.reshape(*n_groups, n, n)
        # Not singular even if every component is a single sample.
        pooled = second.sum(axis=0) / total + floor
        covariances = (second + n_prior * pooled) / (totals + n_prior)[..., None, None]
        shares = totals / totals.sum(axis=0)
        if unmixing is None:
            unmixing = inverse_root((shares[..., None, None] * covariances).sum(axis=0))
        unmixing = diagonalizing_step(covariances.swapaxes(0, 1), shares.T, unmixing)
        variances = np.diagonal(unmixing @ covariances @ unmixing.swapaxes(1, 2), axis1=2, axis2=3)
        variances = np.maximum(variances, _TINY)
        precisions = (unmixing / variances[..., None]).swapaxes(2, 3) @ unmixing
        squares = quadratics.distances(means, precisions.reshape(-1, n, n)).reshape(posteriors.shape)
        nearness = (degrees + n) / (degrees + squares)
        log_joint = log_constant + np.linalg.slogdet(unmixing)[1] + np.log(shares) - 0.5 * np.log(variances).sum(axis=2)
        log_joint = log_joint - 0.5 * (degrees + n) * np.log1p(squares / degrees)
        largest = log_joint.max(axis=1, keepdims=True)
        posteriors = np.exp(log_joint - largest)
        density = posteriors.sum(axis=1, keepdims=True)
        posteriors /= density
        ratios = np.diagonal(unmixing @ pooled @ unmixing.swapaxes(1, 2), axis1=1, axis2=2) / variances
        log_prior = -0.5 * n_prior * (ratios - np.log(ratios) - 1.0).sum(axis=(0, 2))
        before = reached
        reached = (weights @ (np.log(density) + largest)[:, 0] + log_prior) / total
        if np.abs(reached - before).max() < tol:
            break
    return reached, posteriors.transpose(2, 0, 1), np.asarray(unmixing)
