"""Starts of the search for an unmixing matrix: Gaussian mixtures, independent components, joint diagonalization."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

#: Pseudo-samples with the pooled covariance that every component of a Gaussian mixture gets.
PRIOR_SAMPLES = 1.0
#: Added to these covariances, relative to the variances of all samples.
LEAST_VARIANCE = 1e-9
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
    """Symmetric inverse square root (n, n) of a covariance matrix, finite even if the matrix is singular.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.unmixing.starts import inverse_root
    >>> inverse_root(np.diag([4.0, 0.25])).tolist()
    [[0.5, 0.0], [0.0, 2.0]]
    """
    values, vectors = np.linalg.eigh(covariance)
    floor = max(float(values[-1]), _TINY) * 1e-10
    return np.asarray((vectors / np.sqrt(np.maximum(values, floor))) @ vectors.T)


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
    gradient : ndarray (n, n)
        g, relative: of the objective with respect to E, per sample.
    curvature : ndarray (n, n)
        h: information about the location of source i times the variance of source j.

    Returns
    -------
    ndarray (n, n)
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
    spread = np.sqrt((curvature - curvature.T) ** 2 + 4.0)
    raised = np.maximum(LEAST_CURVATURE - 0.5 * (curvature + curvature.T - spread), 0.0)
    own = curvature + raised
    step = (own.T * gradient - gradient.T) / (own * own.T - 1.0)
    np.fill_diagonal(step, 0.0)
    return np.asarray(step * min(1.0, LARGEST_STEP / max(float(np.abs(step).max()), _TINY)))


def joint_diagonalizer(
    covariances: np.ndarray, shares: np.ndarray, start: np.ndarray | None = None, n_steps: int = DIAGONALIZING_STEPS
) -> np.ndarray:
    """Matrix W that makes all W S_r W' as diagonal as the Gaussian likelihood asks.

    Raises log|det W| - 1/2 sum_r shares_r sum_n log (W S_r W')_nn by relative steps (Pham 2001), the likelihood of
    semi-tied covariances (Gales 1999).

    Parameters
    ----------
    covariances : ndarray (n_matrices, n, n)
        Positive definite.
    shares : ndarray (n_matrices,)
        Non-negative, sum to one.
    start : ndarray (n, n), optional
        By default the inverse square root of the mean covariance.
    n_steps : int

    Returns
    -------
    ndarray (n, n)

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

    def at(unmixing: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        turned = unmixing @ covariances @ unmixing.T
        variances = np.maximum(np.einsum("rii->ri", turned), _TINY)
        value = np.linalg.slogdet(unmixing)[1] - 0.5 * shares @ np.log(variances).sum(axis=1)
        return float(value), turned, variances

    unmixing = inverse_root(np.einsum("r,rij->ij", shares, covariances)) if start is None else start
    value, turned, variances = at(unmixing)
    for _ in range(n_steps):
        gradient = np.eye(len(unmixing)) - np.einsum("r,rij->ij", shares, turned / variances[:, :, None])
        step = relative_step(gradient, np.einsum("r,ri,rj->ij", shares, 1.0 / variances, variances))
        for halving in range(N_HALVINGS):
            moved = unmixing + 0.5**halving * step @ unmixing
            reached = at(moved)
            if reached[0] > value:
                break
        else:
            break
        gain = reached[0] - value
        unmixing = moved
        value, turned, variances = reached
        if gain < 1e-12:
            break
    return unmixing


def gaussian_mixture(
    values: np.ndarray,
    weights: np.ndarray,
    posterior: np.ndarray,
    n_passes: int,
    tol: float,
    share: float | None = None,
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Gaussian mixture with full or with semi-tied covariance matrices, by EM from posteriors.

    Parameters
    ----------
    values : ndarray (n_samples, n)
    weights : ndarray (n_samples,)
    posterior : ndarray (n_samples, rank)
    n_passes : int
    tol : float
        Gain of a pass, in nats per sample, below which EM ends.
    share : float, optional
        If given, covariances are semi-tied, A D_r A' with one A for all, after this share of every covariance is
        replaced by its diagonal.

    Returns
    -------
    log_likelihood : float
        Per sample, up to the constant of a Gaussian.
    shares : ndarray (rank,)
        Sum to one.
    covariances : ndarray (rank, n, n)
        Within the components.
    posterior : ndarray (n_samples, rank)
    unmixing : ndarray (n, n)
        Inverse of A, if semi-tied; else an identity matrix.
    """
    total = float(weights.sum())
    unmixing = np.eye(values.shape[1])
    variances_of_all = weights @ (values - weights @ values / total) ** 2 / total
    reached = -np.inf
    for number in range(n_passes):
        counts = posterior * weights[:, None]
        totals = np.maximum(counts.sum(axis=0), _TINY)
        means = counts.T @ values / totals[:, None]
        centered = [values - mean for mean in means]
        second = np.stack([(c * count[:, None]).T @ c for c, count in zip(centered, counts.T, strict=True)])
        # Not singular even if every component is a single sample.
        pooled = second.sum(axis=0) / total + np.diag(np.maximum(LEAST_VARIANCE * variances_of_all, _TINY))
        covariances = (second + PRIOR_SAMPLES * pooled) / (totals + PRIOR_SAMPLES)[:, None, None]
        shares = totals / totals.sum()
        if share is None:
            roots = np.stack([inverse_root(covariance) for covariance in covariances])
        else:
            covariances = covariances * (1.0 - share * (1.0 - np.eye(len(unmixing))))
            start = None if number == 0 else unmixing
            unmixing = joint_diagonalizer(covariances, shares, start, DIAGONALIZING_STEPS if number == 0 else 2)
            variances = np.einsum("ij,rjk,ik->ri", unmixing, covariances, unmixing)
            roots = unmixing / np.sqrt(np.maximum(variances, _TINY))[:, :, None]
        joint = [-0.5 * ((c @ root.T) ** 2).sum(axis=1) for c, root in zip(centered, roots, strict=True)]
        log_joint = np.stack(joint, axis=1) + np.linalg.slogdet(roots)[1] + np.log(shares)
        log_density = logsumexp(log_joint, axis=1)
        posterior = np.exp(log_joint - log_density[:, None])
        before = reached
        reached = float(weights @ log_density / total)
        if reached - before < tol:
            break
    return reached, shares, covariances, posterior, unmixing


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
