"""How many bins a variable gets, from the number of its samples and the width of its spectrum.

Too few bins blur a density, too many leave each of them to a handful of samples. Two simple answers are blended, their
geometric mean is better than either (benchmarks/bin_numbers.py):

- What the samples say. A band-limited density estimate with limit B = pi/T has an integrated squared error of
  (1/pi) [integral of |phi|^2 beyond B, + B/M], so that B is best where the noise overtakes the signal. It is found as
  the minimum of the error's unbiased estimate, with the noise counted twice, against late chance minima. A component
  has M/R samples and hence R times the noise; but R components of unlike phase have a mean of |phi|^2 / R in the
  mixture, so that the mixture's spectrum sinks into its noise about where those of its components sink into theirs.
- What their number says, 3.2 (M/R)^(1/4). The estimate above is noisy where it matters, with few samples.

Measured by benchmarks/bin_numbers.py --full (sinc densities, the paper's four cases, M from 200 to 50 000, R from 2 to
10, 48 fits a row): KL(true || learned) above that of the best of 5, 8, 10, 12, 15, 20 and 25 bins, which nobody knows
beforehand, and points of accuracy below the true model:

    bins      M = 200    1000    5000  50 000    mean   worst   points
    8           0.089   0.152   0.405   0.716   0.341    1.58      3.2
    12          0.567   0.056   0.091   0.215   0.233    1.35      3.4
    15          0.978   0.086   0.043   0.106   0.303    2.22      3.5
    rule        0.023   0.008   0.001  -0.012   0.005    0.25      2.6
"""

from __future__ import annotations

import numpy as np

from tensorly_smp.checks import checked_integer
from tensorly_smp.codes.energy import EnergySpectrum, bin_spectrum, observed_values, value_weights
from tensorly_smp.exceptions import InvalidInputError

#: Bins that the rule chooses from.
FEWEST_BINS, MOST_BINS = 4, 30

_FACTOR, _EXPONENT = 3.2, 0.25
_NOISE_WEIGHT = 2.0


def auto_n_bins(
    values: np.ndarray,
    n_components: int,
    sample_weight: np.ndarray | None = None,
    coverage: float | None = None,
) -> tuple[int, ...]:
    """Number of uniform bins for every variable: the rule behind ``n_bins="auto"``.

    From 4 to 30, less only for variables with fewer different values: as many bins as these have places. Never so few
    that `n_components` of generic variables could not be told apart.

    The rule aims at densities from sinc interpolation, and needs no fit; where log-spline densities follow, the number
    hardly matters. The paper chose between 5 and 10 bins by the log-likelihood of held-out samples instead; for that,
    search over ``n_bins`` with scikit-learn's ``GridSearchCV``, as the estimator's ``score`` is the mean log density:
    ``GridSearchCV(model, {"n_bins": [5, 10, "auto"]})``.

    Parameters
    ----------
    values : ndarray (n_samples, n_variables)
        NaN = missing; every variable has at least one value.
    n_components : int
        Number of mixture components, R.
    sample_weight : ndarray (n_samples,), optional
        Non-negative; the number of samples is then (sum w)^2 / sum w^2.
    coverage : float in (0, 1], optional
        Central share of the values that the bins will span, as in :func:`choose_binning`; by default all of them.

    Returns
    -------
    tuple of int (n_variables,)

    Raises
    ------
    InvalidInputError
        Values are not two-dimensional, infinite, or a variable has none; weights that cannot be used.
    InvalidTypeError
        `n_components` is no integer.

    References
    ----------
    S.-T. Chiu, "Bandwidth selection for kernel density estimation", Annals of Statistics 19 (1991) 1883-1905.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.codes.bin_number import auto_n_bins
    >>> rng = np.random.default_rng(0)
    >>> smooth, sharp, coin = rng.normal(size=5000), rng.laplace(size=5000), rng.integers(2, size=5000)
    >>> auto_n_bins(np.stack([smooth, sharp, coin], axis=1), n_components=5)
    (10, 23, 2)
    """
    n_components = checked_integer(n_components, "n_components", 1)
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 2 or 0 in values.shape:
        raise InvalidInputError(f"Values have shape {values.shape}; expected (n_samples, n_variables).")
    share = 1.0 if coverage is None else coverage
    if not 0 < share <= 1:
        raise InvalidInputError(f"coverage is {coverage}; expected a share in (0, 1], say 0.99, or None.")
    # Columns of probabilities sum to one, so that n stacked factors of I bins have rank n (I - 1) + 1.
    stacked = (values.shape[1] - 1) // 2
    fewest = min(max(FEWEST_BINS, 1 - (1 - n_components) // stacked), MOST_BINS) if stacked else FEWEST_BINS
    columns = [observed_values(column, sample_weight) for column in values.T]
    if empty := [n for n, (observed, _) in enumerate(columns) if not len(observed)]:
        raise InvalidInputError(
            f"Column(s) {empty} (from 0) have no observed value of positive weight; leave them out."
        )
    return tuple(_n_bins(*column, n_components, share, fewest) for column in columns)


def count_rule(n_samples: float, n_components: int) -> float:
    """Number of bins, not rounded, that so many samples support: 3.2 (M/R)^(1/4).

    Parameters
    ----------
    n_samples : float
    n_components : int

    Returns
    -------
    float

    Examples
    --------
    >>> from tensorly_smp.codes.bin_number import count_rule
    >>> [round(count_rule(n_samples, 5)) for n_samples in (200, 1000, 5000, 50_000)]
    [8, 12, 18, 32]
    """
    return float(_FACTOR * (n_samples / n_components) ** _EXPONENT)


def spectrum_rule(spectrum: EnergySpectrum, n_steps: int, heaviest: float) -> int:
    """Number of bins, 4 to 30, whose pi/T is where the noise of the spectrum overtakes it.

    Parameters
    ----------
    spectrum : EnergySpectrum
        pi/T of `MOST_BINS` bins lies at `n_steps` steps.
    n_steps : int
        A multiple of `MOST_BINS`.
    heaviest : float
        Share of the most frequent value, 1/M if all differ. The spectrum of an atom stays at its square for ever: a
        level that no bins follow, as that of the noise.

    Returns
    -------
    int
    """
    energies = spectrum.energies(n_steps + 1)
    level = _NOISE_WEIGHT * (spectrum.noise + heaviest**2)
    gained = np.cumsum(energies - level) - 0.5 * (energies - level)  # trapezoid rule, from zero
    limits = np.arange(FEWEST_BINS, MOST_BINS + 1)
    return int(limits[np.argmax(gained[limits * (n_steps // MOST_BINS)])])


def _n_bins(observed: np.ndarray, weights: np.ndarray, n_components: int, coverage: float, fewest: int) -> int:
    low, high = np.quantile(observed, [(1 - coverage) / 2, (1 + coverage) / 2])
    distinct, shares = value_weights(observed, weights)
    width = high / MOST_BINS - low / MOST_BINS  # the range itself may overflow
    if not width > 0:  # constant, or as good as
        return min(fewest, max(2, len(distinct)))
    spectrum = bin_spectrum(observed, weights, low, width, MOST_BINS)
    by_spectrum = spectrum_rule(spectrum, MOST_BINS, float(shares.max()))
    blend = np.sqrt(by_spectrum * count_rule(1.0 / spectrum.noise, n_components))
    return int(min(np.clip(round(blend), fewest, MOST_BINS), _places(distinct)))


def _places(distinct: np.ndarray) -> float:
    """Places on the lattice of a few different values, infinity where there are many."""
    if len(distinct) > MOST_BINS:
        return np.inf
    return float(max(2, np.rint((distinct[-1] - distinct[0]) / np.diff(distinct).min()) + 1))
