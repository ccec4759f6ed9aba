"""Which of two models is nearer to the truth? How far samples can tell, if neither contains the other."""

from __future__ import annotations

import numpy as np


def deviation_of_difference(first: np.ndarray, second: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """Standard deviation of the difference of two log-likelihoods, from sample to sample.

    The difference is a sum over samples. If both models are equally near to the truth, it is zero on average and
    nearly normal with this standard deviation; a smaller one says nothing about which is nearer.

    Parameters
    ----------
    first, second : ndarray (n_samples,)
        Log-densities of the samples under the two models.
    sample_weight : ndarray (n_samples,), optional
        Numbers of samples.

    Returns
    -------
    float
        In nats.

    References
    ----------
    Q. H. Vuong, "Likelihood ratio tests for model selection and non-nested hypotheses", Econometrica 57, 1989.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.likelihood.nonnested import deviation_of_difference
    >>> deviation_of_difference(np.array([-1.0, -2.0, -1.0, -2.0]), np.array([-2.0, -1.0, -2.0, -1.0]))
    2.0
    """
    difference = first - second
    weights = np.ones(len(difference)) if sample_weight is None else sample_weight
    total = float(weights.sum())
    if total <= 0.0:
        return 0.0
    mean = float(weights @ difference) / total
    return float(np.sqrt(weights @ (difference - mean) ** 2))
