"""Conditional distributions of one discrete variable: a probability for each of its values."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tensorly_smp._support.representations import short_repr
from tensorly_smp.codes.values import SINGLE, distance_of_equals, nearest

_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class DiscreteConditionals:
    """Probabilities of the values of one variable given each component.

    They are densities with respect to the counting measure. A point counts as a value if it differs from it by the
    rounding of single precision. Any other point has probability zero; the logarithm of that is given as -708.4, the
    logarithm of the smallest normal float, so that a sum of logarithms stays finite.

    Attributes
    ----------
    values : ndarray (n_values,)
        Strictly increasing.
    probabilities : ndarray (n_values, rank)
        Non-negative; columns are made to sum to one.

    Examples
    --------
    >>> import numpy as np
    >>> item = DiscreteConditionals(np.array([0.0, 1.0, 10.0]), np.array([[0.2], [0.6], [0.2]]))
    >>> item.pdf(np.array([1.0, 5.0])).tolist(), item.cdf(np.array([5.0])).round(1).tolist()
    ([[0.6], [0.0]], [[0.8]])
    >>> item.mean().round(1).tolist(), item.quantile(np.array([0.1, 0.9]), 0).tolist()
    ([2.6], [0.0, 10.0])
    """

    values: np.ndarray
    probabilities: np.ndarray
    _cumulative: np.ndarray = field(init=False, repr=False)

    __repr__ = short_repr

    def __post_init__(self) -> None:
        probabilities = self.probabilities / self.probabilities.sum(axis=0)
        cumulative = np.cumsum(np.pad(probabilities, ((1, 0), (0, 0))), axis=0)
        cumulative[-1] = 1.0
        object.__setattr__(self, "probabilities", probabilities)
        object.__setattr__(self, "_cumulative", np.minimum(cumulative, 1.0))

    @property
    def rank(self) -> int:
        """Number of components."""
        return self.probabilities.shape[1]

    def pdf(self, x: np.ndarray) -> np.ndarray:
        """Probabilities (..., rank) of the points x (...), zero for those that are no value."""
        position, is_value = self._locate(x)
        return np.where(is_value[..., None], self.probabilities[position], 0.0)

    def logpdf(self, x: np.ndarray) -> np.ndarray:
        """Logarithms of the probabilities (..., rank), -708.4 for a probability of zero."""
        return np.log(np.maximum(self.pdf(x), _TINY))

    def cdf(self, x: np.ndarray) -> np.ndarray:
        """Distribution functions (..., rank): steps at the values; x may be infinite."""
        position, is_value = self._locate(x)
        return self._cumulative[np.where(is_value, position + 1, np.searchsorted(self.values, x, side="right"))]

    def quantile(self, q: np.ndarray, component: int) -> np.ndarray:
        """Smallest value (...) of one component up to which a share q (...) lies, 0 < q < 1."""
        return self.values[np.searchsorted(self._cumulative[1:, component], q)]

    def mean(self) -> np.ndarray:
        """Means (rank,)."""
        return self.values @ self.probabilities

    def variance(self) -> np.ndarray:
        """Variances (rank,)."""
        return np.asarray(((self.values[:, None] - self.mean()) ** 2 * self.probabilities).sum(axis=0))

    def mixed(self, weights: np.ndarray) -> DiscreteConditionals:
        """Distribution of the mixture with these weights (rank,), as a single component."""
        return DiscreteConditionals(self.values, (self.probabilities @ weights)[:, None])

    def _locate(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Position (...) of the nearest value, and whether a point is that value."""
        x = np.asarray(x, dtype=np.float64)
        position = nearest(self.values, x)
        least_gap = np.diff(self.values).min(initial=np.inf)
        tolerance = min(SINGLE * float(np.abs(self.values).max()), 0.25 * float(least_gap))
        # Lists of parts of the samples are merged once more, so that a sample may be twice as far from its value.
        tolerance = max(tolerance, 2.5 * distance_of_equals(self.values))
        return position, np.abs(x - self.values[position]) <= tolerance
