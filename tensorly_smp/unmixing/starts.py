"""Starts of the search for an unmixing matrix: local covariances, independent components, pooled covariances."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular
from scipy.special import logsumexp

#: Components of the full Gaussian mixture for every component wanted, at most; and samples for every variable of each.
LOCAL_PER_COMPONENT, SAMPLES_PER_VARIABLE = 8, 6
#: Passes of EM for that mixture, and the gain per sample, in nats, below which it has converged.
LOCAL_PASSES, LOCAL_TOL = 60, 1e-4
#: Rows of that mixture, of evenly spaced ones: its covariances are only a start.
LOCAL_ROWS = 10_000
_ICA_PASSES, _ICA_TOL = 200, 1e-5
_ROW_PASSES, _ROW_TOL = 100, 1e-8
#: Weight, in samples, of an identity matrix that every local covariance of whitened samples gets.
_PRIOR_SAMPLES = 1.0
#: Variables of unit scale whose covariance has a smaller eigenvalue are copies of each other, or sums.
_SINGULAR = 1e-12


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
    floor = max(float(values[-1]), np.finfo(float).tiny) * 1e-10
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
    totals = np.maximum(shares.sum(axis=0), np.finfo(float).tiny)
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


def n_local_components(n_components: int, n_samples: float, n_variables: int) -> int:
    """Components of the full Gaussian mixture whose covariances are diagonalized."""
    affordable = int(n_samples / (SAMPLES_PER_VARIABLE * n_variables))
    return max(min(LOCAL_PER_COMPONENT * n_components, affordable), n_components + 1, 2)


def gaussian_mixture(
    values: np.ndarray, weights: np.ndarray, n_local: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gaussian mixture with full covariance matrices, by EM from clusters of k-means.

    Parameters
    ----------
    values : ndarray (n_samples, n)
        Whitened: an identity matrix is a fair guess of every covariance.
    weights : ndarray (n_samples,)
    n_local : int
    rng : Generator
        For k-means.

    Returns
    -------
    shares : ndarray (n_local,)
        Sum to one.
    covariances : ndarray (n_local, n, n)
    posterior : ndarray (n_samples, n_local)
    """
    from sklearn.cluster import KMeans  # half a second that others need not wait for

    n_local = min(n_local, len(np.unique(values, axis=0)))
    kmeans = KMeans(n_local, n_init=1, max_iter=30, random_state=int(rng.integers(2**31)))
    labels = kmeans.fit(values, sample_weight=weights).labels_
    posterior = np.eye(n_local)[labels]
    n_variables = values.shape[1]
    before = -np.inf
    for _ in range(LOCAL_PASSES):
        shares = posterior * weights[:, None]
        totals = shares.sum(axis=0)
        means = shares.T @ values / np.maximum(totals, np.finfo(float).tiny)[:, None]
        joint = np.empty_like(posterior)
        covariances = np.empty((n_local, n_variables, n_variables))
        for r in range(n_local):
            centered = values - means[r]
            second = (centered * shares[:, r, None]).T @ centered
            second[np.diag_indices(n_variables)] += _PRIOR_SAMPLES * totals[r] / weights.sum()
            covariances[r] = second / max(totals[r] + _PRIOR_SAMPLES, np.finfo(float).tiny)
            # Weights of very different size leave values of very different size, and rounding of their squares.
            largest = float(np.diag(covariances[r]).max())
            covariances[r][np.diag_indices(n_variables)] += 1e-9 + 1e-12 * largest
            root = cholesky(covariances[r], lower=True)
            distance = (solve_triangular(root, centered.T, lower=True) ** 2).sum(axis=0)
            joint[:, r] = -0.5 * distance - np.log(np.diag(root)).sum()
        joint += np.log(np.maximum(totals / weights.sum(), np.finfo(float).tiny))
        log_density = logsumexp(joint, axis=1)
        posterior = np.exp(joint - log_density[:, None])
        reached = float(weights @ log_density / weights.sum())
        if reached - before < LOCAL_TOL:
            break
        before = reached
    return totals / totals.sum(), covariances, posterior


def some_rows(values: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Evenly spaced rows of many samples, and their weights."""
    if len(values) <= LOCAL_ROWS:
        return values, weights
    chosen = np.linspace(0, len(values) - 1, LOCAL_ROWS).astype(np.int64)
    return values[chosen], weights[chosen]


def joint_diagonalizer(covariances: np.ndarray, shares: np.ndarray, start: np.ndarray | None = None) -> np.ndarray:
    """Matrix W that makes all W S_r W' as diagonal as the Gaussian likelihood asks.

    Maximizes log|det W| - 1/2 sum_r shares_r sum_n log (W S_r W')_nn, row by row (Gales 1999): given the others, a row
    is proportional to its cofactors times the inverse of sum_r shares_r S_r / (w_n' S_r w_n).

    Parameters
    ----------
    covariances : ndarray (n_matrices, n, n)
        Positive definite.
    shares : ndarray (n_matrices,)
        Non-negative, sum to one.
    start : ndarray (n, n), optional
        By default the inverse square root of the mean covariance.

    Returns
    -------
    ndarray (n, n)
        Rows of mean variance one.

    References
    ----------
    M. J. F. Gales, "Semi-tied covariance matrices for hidden Markov models", IEEE Transactions on Speech and Audio
    Processing 7, 1999.

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
    mean = np.einsum("r,rij->ij", shares, covariances)
    unmixing = inverse_root(mean) if start is None else start.copy()
    for _ in range(_ROW_PASSES):
        before = unmixing.copy()
        for n in range(len(unmixing)):
            variances = np.einsum("i,rij,j->r", unmixing[n], covariances, unmixing[n])
            weighted = np.einsum("r,rij->ij", shares / variances, covariances)
            # The cofactors of a row are the column of the inverse, up to the determinant: its scale is set below.
            try:
                column = np.linalg.solve(unmixing, np.eye(len(unmixing))[n])
                row = cho_solve((cholesky(weighted, lower=True), True), column)
            except (LinAlgError, np.linalg.LinAlgError):
                continue
            unmixing[n] = row / np.sqrt(row @ mean @ row)
        if np.abs(np.abs(unmixing) - np.abs(before)).max() < _ROW_TOL * np.abs(unmixing).max():
            break
    return unmixing


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
        found = np.tanh(values @ unmixing.T)
        slopes = (shares * (1.0 - found**2)).sum(axis=0)
        left, _, right = np.linalg.svd((found * shares).T @ values - slopes[:, None] * unmixing)
        moved = left @ right  # the nearest orthogonal matrix
        change = np.abs(np.abs((moved * unmixing).sum(axis=1)) - 1.0).max()
        unmixing = moved
        if change < _ICA_TOL:
            break
    return unmixing
