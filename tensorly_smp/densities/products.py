"""Products of conditional densities over whole samples: numbers without labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tensorly_smp.densities.grid import ConditionalDensities
from tensorly_smp.factors.mixture_factors import joint_to_posterior

# Samples are evaluated in chunks of so many values per variable: 2 MB of float64, times a handful of temporaries.
_CHUNK_CELLS = 2**18


def log_joint(conditionals: Sequence[ConditionalDensities], weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Logarithm of w_r prod_n f_n(x_n | r), the product over the observed entries.

    Parameters
    ----------
    conditionals : sequence of ConditionalDensities
        One per variable.
    weights : ndarray (rank,)
    values : ndarray (n_samples, n_variables)
        NaN = missing.

    Returns
    -------
    ndarray (n_samples, rank)
        -inf for components of weight zero, else finite.
    """
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    joint = np.empty((len(values), len(weights)))
    for rows in _chunks(*joint.shape):
        block = joint[rows]
        block[:] = log_weights
        for each, column in zip(conditionals, values[rows].T, strict=True):
            observed = ~np.isnan(column)
            if observed.all():
                block += each.logpdf(column)
            elif observed.any():
                block[observed] += each.logpdf(column[observed])
    return joint


def mix_cdf(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Distribution function (...) of a mixture from those of its components (..., rank); never above one.

    Added up in the same order for every point, which a matrix product does not promise, so that rounding keeps the
    order of two points.
    """
    total = np.zeros(values.shape[:-1])
    for r, weight in enumerate(weights):
        total += weight * values[..., r]
    return np.minimum(total, 1.0)


def impute(
    conditionals: Sequence[ConditionalDensities],
    weights: np.ndarray,
    values: np.ndarray,
    rng: np.random.Generator | None,
    sizes: Mapping[int, int],
) -> np.ndarray:
    """Copy of samples with missing entries filled in: by means of draws, or by draws from a generator if given.

    Codes have no means: of a variable in `sizes`, whose values are so many codes, the most probable one is taken.

    Given the observed entries, the missing ones follow the same mixture with the posterior as its weights. A draw takes
    one component per sample first, so that its missing entries belong together.

    Parameters as for :func:`log_joint`.
    """
    filled = np.array(values)
    missing = np.isnan(filled)
    rows = np.flatnonzero(missing.any(axis=1))
    shares = joint_to_posterior(log_joint(conditionals, weights, filled[rows]), weights)
    components = None if rng is None else _draw_rows(shares, rng)
    for n, each in enumerate(conditionals):
        here = missing[rows, n]
        if not here.any():
            continue
        if rng is None or components is None:
            if n in sizes:
                filled[rows[here], n] = (shares[here] @ each.pdf(np.arange(float(sizes[n]))).T).argmax(axis=1)
                continue
            filled[rows[here], n] = shares[here] @ each.mean()
        else:
            filled[rows[here], n] = draw_values(each, components[here], rng)
    return filled


def draw_values(conditionals: ConditionalDensities, components: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One value of a variable for every component asked for (n_samples,), by inversion."""
    shares = rng.random(len(components))
    values = np.empty(len(components))
    for r in np.unique(components):
        chosen = components == r
        values[chosen] = conditionals.quantile(shares[chosen], int(r))
    return values


def _draw_rows(probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One component (n_samples,) per row of probabilities (n_samples, rank)."""
    cumulative = probabilities.cumsum(axis=1)
    threshold = rng.random(len(probabilities)) * cumulative[:, -1]
    return np.minimum((cumulative <= threshold[:, None]).sum(axis=1), probabilities.shape[1] - 1)


def _chunks(n_samples: int, rank: int) -> Iterator[slice]:
    size = max(1, _CHUNK_CELLS // rank)
    return (slice(start, min(start + size, n_samples)) for start in range(0, n_samples, size))
