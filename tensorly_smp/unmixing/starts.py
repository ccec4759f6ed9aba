"""Starts of the search for an unmixing matrix: Gaussian mixtures, independent components, joint diagonalization."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, logsumexp

#: Added to the covariances of a Gaussian mixture, relative to the variances of all samples.
LEAST_VARIANCE = 1e-9
#: Degrees of freedom of a Student distribution that is Gaussian, to rounding.
GAUSSIAN = 1e8
#: Smallest eigenvalue of the curvature of two entries of a step: sources that are Gaussian with proportional variances
#: leave a rotation open.
LEAST_CURVATURE = 1e-2
#: Largest entry of a relative step, halvings of a step that does not rise, steps of a joint diagonalization.
LARGEST_STEP, N_HALVINGS, DIAGONALIZING_STEPS = 0.5, 6, 100
LARGEST_ENTRY = 1e100
_ICA_PASSES, _ICA_TOL = 200, 1e-5
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


def joint_diagonalizer(
    covariances: np.ndarray, shares: np.ndarray, start: np.ndarray | None = None, n_steps: int = DIAGONALIZING_STEPS
) -> np.ndarray:
    """Matrix W that makes all W S_r W' as diagonal as the Gaussian likelihood asks.

    Raises log|det W| - 1/2 sum_r shares_r sum_n log (W S_r W')_nn by relative steps (Pham 2001), the likelihood of
    semi-tied covariances (Gales 1999). Leading axes are problems of their own.

    Parameters
    ----------
    covariances : ndarray (..., n_matrices, n, n)
        Positive definite.
    shares : ndarray (..., n_matrices)
        Non-negative, sum to one.
    start : ndarray (..., n, n), optional
        By default the inverse square root of the mean covariance.
    n_steps : int

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
    >>> from tensorly_smp.unmixing.starts import joint_diagonalizer
    >>> mixing = np.array([[1.0, 0.5], [0.2, 1.0]])
    >>> covariances = np.stack([mixing @ np.diag(d) @ mixing.T for d in ([1.0, 4.0], [3.0, 1.0])])
    >>> product = joint_diagonalizer(covariances, np.array([0.5, 0.5])) @ mixing
    >>> bool((np.sort(np.abs(product), axis=1)[:, 0] < 1e-6).all())
    True
    """

    def at(unmixing: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        each = unmixing[..., None, :, :]
        turned = each @ covariances @ each.swapaxes(-1, -2)
        variances = np.maximum(np.einsum("...ii->...i", turned), _TINY)
        value = np.linalg.slogdet(unmixing)[1] - 0.5 * (shares * np.log(variances).sum(axis=-1)).sum(axis=-1)
        return value, turned, variances

    unmixing = inverse_root(np.einsum("...r,...rij->...ij", shares, covariances)) if start is None else start
    value, turned, variances = at(unmixing)
    for _ in range(n_steps):
        gradient = np.eye(unmixing.shape[-1]) - np.einsum("...r,...rij->...ij", shares, turned / variances[..., None])
        step = relative_step(gradient, np.einsum("...r,...ri,...rj->...ij", shares, 1.0 / variances, variances))
        taken = np.ones(value.shape)
        for factor in (*[0.5] * N_HALVINGS, 0.0, 0.0):
            moved = unmixing + taken[..., None, None] * step @ unmixing
            reached = at(moved)
            rises = reached[0] >= value
            if rises.all():
                break
            taken = np.where(rises, taken, factor * taken)
        gain = reached[0] - value
        unmixing = moved
        value, turned, variances = reached
        if gain.max() < 1e-12:
            break
    return unmixing


def student_mixtures(
    values: np.ndarray, weights: np.ndarray, posteriors: np.ndarray, degrees: np.ndarray, n_passes: int, tol: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mixtures of Student distributions with semi-tied scales, A D_r A' with one A for all components, by EM together.

    Every component has as a prior pseudo-samples with the pooled covariance, as many as Fraley and Raftery have degrees
    of freedom: no component of few samples is narrow for its likelihood alone.

    Parameters
    ----------
    values : ndarray (n_samples, n)
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
    degrees = degrees[:, None, None]
    log_constant = gammaln(0.5 * (degrees + n)) - gammaln(0.5 * degrees) - 0.5 * n * np.log(0.5 * degrees)
    nearness = np.ones(posteriors.shape)
    unmixing = None
    reached = np.full(len(posteriors), -np.inf)
    for _ in range(n_passes):
        counts = posteriors * weights[:, None]
        totals = np.maximum(counts.sum(axis=1), _TINY)
        counts = counts * nearness
        means = counts.swapaxes(1, 2) @ values / np.maximum(counts.sum(axis=1), _TINY)[..., None]
        second = np.empty((*means.shape, n))
        for r in range(means.shape[1]):
            centered = values - means[:, None, r]
            second[:, r] = (centered * counts[..., r, None]).swapaxes(1, 2) @ centered
        # Not singular even if every component is a single sample.
        pooled = second.sum(axis=1) / total + floor
        covariances = (second + n_prior * pooled[:, None]) / (totals + n_prior)[..., None, None]
        shares = totals / totals.sum(axis=1, keepdims=True)
        unmixing = joint_diagonalizer(covariances, shares, unmixing, DIAGONALIZING_STEPS if unmixing is None else 2)
        # s mixture, r component, i source
        variances = np.maximum(np.einsum("sij,srjk,sik->sri", unmixing, covariances, unmixing, optimize=True), _TINY)
        sources = values @ unmixing.swapaxes(1, 2)
        locations = means @ unmixing.swapaxes(1, 2)
        log_det = np.linalg.slogdet(unmixing)[1]
        precise = (locations / variances).swapaxes(1, 2)
        squares = sources**2 @ (1.0 / variances).swapaxes(1, 2) - 2.0 * sources @ precise
        squares = np.maximum(squares + (locations**2 / variances).sum(axis=2)[:, None], 0.0)
        nearness = (degrees + n) / (degrees + squares)
        log_joint = log_constant - 0.5 * (degrees + n) * np.log1p(squares / degrees) + log_det[:, None, None]
        log_joint += (np.log(shares) - 0.5 * np.log(variances).sum(axis=2))[:, None]
        log_density = logsumexp(log_joint, axis=2)
        posteriors = np.exp(log_joint - log_density[..., None])
        ratios = np.einsum("sij,sjk,sik->si", unmixing, pooled, unmixing, optimize=True)[:, None] / variances
        log_prior = -0.5 * n_prior * (ratios - np.log(ratios) - 1.0).sum(axis=(1, 2))
        before = reached
        reached = (log_density @ weights + log_prior) / total
        if np.abs(reached - before).max() < tol:
            break
    return reached, posteriors, np.asarray(unmixing)


def independent_components(values: np.ndarray, weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Orthogonal matrix (n, n) to the least Gaussian directions of whitened samples (symmetric FastICA, tanh).

    References
    ----------
    A. Hyvarinen, "Fast and robust fixed-point algorithms for independent component analysis", IEEE Transactions on
    Neural Networks 10, 1999.
    """
    n_variables = values.shape[1]
    unmixing = np.linalg.qr(rng.standard_normal((n_variables, n_variables)))[0]
    shares = (weights / weights.sum())[:, None]
    for _ in range(_ICA_PASSES):
        bent = np.tanh(values @ unmixing.T)
        slopes = (shares * (1.0 - bent**2)).sum(axis=0)
        left, _, right = np.linalg.svd((bent * shares).T @ values - slopes[:, None] * unmixing)
        moved = left @ right  # the nearest orthogonal matrix
        change = np.abs(np.abs((moved * unmixing).sum(axis=1)) - 1.0).max()
        unmixing = moved
        if change < _ICA_TOL:
            break
    return unmixing
