"""The E-step of a mixture of products of tables: posteriors, log-likelihood and expected counts in one pass.

The tables of all variables are stacked into one matrix (n_rows, rank), one row per bin, or per cell of a finer grid, of
a variable. ``hot`` (n_samples, n_rows), as of :func:`tensorly_smp.codes.one_hot.one_hot`, picks the row of every
observed entry; a missing entry picks none, which integrates it out. An entry may also be spread over several rows of
its variable, by shares that sum to one, as of :meth:`tensorly_smp.likelihood.cells.Cells.membership`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np
from scipy.sparse import csr_array

#: Samples at a time: intermediate arrays stay in the processor's cache, and small however many samples there are.
_BLOCK = 16384
#: Smallest probability in a table, as in the coupled solver: as good as impossible, yet its logarithm is finite, and
#: so is that of a product over any number of variables.
SMALLEST_PROBABILITY = 1e-60


@dataclass(frozen=True, eq=False)
class Expectation:
    """Result of :func:`expectation`.

    Attributes
    ----------
    posterior : ndarray (n_samples, rank)
        Pr(component | observed entries of the sample), rows sum to one.
    log_likelihood : float
        Weighted sum over samples of log Pr(observed entries), in nats.
    counts : ndarray (n_rows, rank)
        Expected weight of the samples with an entry in this row that belong to the component.
    component_counts : ndarray (rank,)
        Expected weight of the samples of the component.
    """

    posterior: np.ndarray
    log_likelihood: float
    counts: np.ndarray
    component_counts: np.ndarray


def log_floored(probabilities: np.ndarray) -> np.ndarray:
    """Logarithms, those of smaller numbers being that of SMALLEST_PROBABILITY, so that all are finite."""
    return np.log(np.maximum(probabilities, SMALLEST_PROBABILITY))


def log_joint(hot: csr_array, log_weights: np.ndarray, log_tables: np.ndarray) -> np.ndarray:
    """Logarithm of w_r Pr(observed entries of a sample | r).

    Parameters
    ----------
    hot : csr_array (n_samples, n_rows)
        Ones at the rows that the entries of a sample are in, or shares of an entry that sum to one.
    log_weights : ndarray (rank,)
    log_tables : ndarray (n_rows, rank)
        Finite: see :func:`log_floored`.

    Returns
    -------
    ndarray (n_samples, rank)
        The log weights where no entry is observed.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> from tensorly_smp.codes.one_hot import one_hot
    >>> from tensorly_smp.likelihood.expectation import log_joint
    >>> hot = one_hot(smp.Codes.from_array([[0, 1], [1, -1]]))
    >>> tables = np.array([[0.9, 0.5], [0.1, 0.5], [0.2, 0.5], [0.8, 0.5]])
    >>> np.exp(log_joint(hot, np.log([0.5, 0.5]), np.log(tables))).round(3)
    array([[0.36 , 0.125],
           [0.05 , 0.25 ]])
    """
    joint = hot @ log_tables
    joint += log_weights
    return joint


def expectation(
    hot: csr_array, log_weights: np.ndarray, log_tables: np.ndarray, sample_weight: np.ndarray | None = None
) -> Expectation:
    """Posteriors, log-likelihood and expected counts of a mixture (the E-step of Dempster, Laird and Rubin 1977).

    Parameters
    ----------
    hot : csr_array (n_samples, n_rows)
        As for :func:`log_joint`. A sample without entries has the weights for posterior and adds nothing to the
        log-likelihood.
    log_weights : ndarray (rank,)
        Exponentials sum to one.
    log_tables : ndarray (n_rows, rank)
        Finite: see :func:`log_floored`.
    sample_weight : ndarray (n_samples,), optional
        Non-negative; all one by default.

    Returns
    -------
    Expectation

    References
    ----------
    A. P. Dempster, N. M. Laird, D. B. Rubin, "Maximum likelihood from incomplete data via the EM algorithm", Journal
    of the Royal Statistical Society B 39, 1977.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> from tensorly_smp.codes.one_hot import one_hot
    >>> from tensorly_smp.likelihood.expectation import expectation
    >>> hot = one_hot(smp.Codes.from_array([[0, 1], [1, -1]]))
    >>> tables = np.array([[0.9, 0.5], [0.1, 0.5], [0.2, 0.5], [0.8, 0.5]])
    >>> result = expectation(hot, np.log([0.5, 0.5]), np.log(tables))
    >>> result.posterior.round(3)
    array([[0.742, 0.258],
           [0.167, 0.833]])
    >>> result.counts.round(3)
    array([[0.742, 0.258],
           [0.167, 0.833],
           [0.   , 0.   ],
           [0.742, 0.258]])
    """
    n_samples = hot.shape[0]
    posterior = np.empty((n_samples, len(log_weights)))
    counts = np.zeros(log_tables.shape)
    component_counts = np.zeros(len(log_weights))
    log_likelihood = 0.0
    for rows, block in _blocks(hot):
        joint = log_joint(block, log_weights, log_tables)
        # Column by column, NumPy's maximum is three times faster than along the short rows, and the product with ones
        # five times faster than their sum.
        peak = reduce(np.maximum, joint.T).copy()
        joint -= peak[:, None]
        np.exp(joint, out=joint)
        total = joint @ np.ones(joint.shape[1])
        np.multiply(joint, (1.0 / total)[:, None], out=posterior[rows])
        peak += np.log(total)
        if sample_weight is None:
            weighted = posterior[rows]
            log_likelihood = log_likelihood + float(peak.sum())
        else:
            weighted = np.multiply(posterior[rows], sample_weight[rows, None], out=joint)
            log_likelihood += float(sample_weight[rows] @ peak)
        counts += block.T @ weighted
        component_counts += weighted.sum(axis=0)
    return Expectation(posterior, log_likelihood, counts, component_counts)


def _blocks(hot: csr_array) -> Iterator[tuple[slice, csr_array]]:
    if hot.shape[0] <= _BLOCK:
        yield slice(0, hot.shape[0]), hot
        return
    for start in range(0, hot.shape[0], _BLOCK):
        rows = slice(start, start + _BLOCK)
        yield rows, hot[rows]
