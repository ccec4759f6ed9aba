"""Number of bins of a variable, from the number of its samples and the width of its spectrum: ``n_bins="auto"``.

The rule is the geometric mean of two simple answers, better than either: where the spectrum sinks into its noise (the
minimum of an unbiased estimate of the integrated squared error, with the noise counted twice; Chiu, Annals of
Statistics 19, 1991), and 3.2 (M/R)^(1/4).

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

from tensorly_smp.codes.characteristic_function import EnergySpectrum, observed_values
from tensorly_smp.codes.weighted_values import counted_values

#: Bins that the rule chooses from.
FEWEST_BINS = 4
MOST_BINS = 30


def auto_n_bins(
    values: np.ndarray, n_components: int, sample_weight: np.ndarray | None = None, coverage: float | None = None
) -> tuple[int, ...]:
    """Number of uniform bins for every variable, for sinc densities.

    From 4 to 30, less only for variables with fewer different values. Never so few that `n_components` of generic
    variables could not be told apart: columns sum to one, so that n stacked factors of I bins have rank n (I - 1) + 1.

    Parameters
    ----------
    values : ndarray (n_samples, n_variables)
        NaN = missing; every variable has at least one value.
    n_components : int
    sample_weight : ndarray (n_samples,), optional
        Their number is then that of :func:`tensorly_smp.codes.weighted_values.effective_size`.
    coverage : float in (0, 1], optional
        Central share of the values that the bins will span; by default all of them.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.codes.bin_number import auto_n_bins
    >>> rng = np.random.default_rng(0)
    >>> smooth, sharp, coin = rng.normal(size=5000), rng.laplace(size=5000), rng.integers(2, size=5000)
    >>> auto_n_bins(np.stack([smooth, sharp, coin], axis=1), n_components=5)
    (10, 23, 2)
    """
    stacked = (values.shape[1] - 1) // 2
    fewest = min(max(FEWEST_BINS, 1 - (1 - n_components) // stacked), MOST_BINS) if stacked else FEWEST_BINS
    tail = 0.0 if coverage is None else (1.0 - coverage) / 2.0
    columns = [observed_values(column, sample_weight) for column in values.T]
    return tuple(_n_bins(*column, n_components, tail, fewest) for column in columns)


def _n_bins(observed: np.ndarray, weights: np.ndarray, n_components: int, tail: float, fewest: int) -> int:
    low, high = np.quantile(observed, [tail, 1.0 - tail])
    distinct, counts = counted_values(observed, weights)
    width = high / MOST_BINS - low / MOST_BINS  # the range itself may overflow
    if not width > 0:  # constant, or as good as
        return min(fewest, max(2, len(distinct)))
    spectrum = EnergySpectrum.of(observed, weights, low, width, MOST_BINS)
    # A component has R times the noise of the mixture, and the mixture, of unlike phases, 1/R of its energy. The
    # spectrum of an atom stays at its square for ever: a level that no bins follow, as that of the noise.
    excess = spectrum.energies(MOST_BINS + 1) - 2.0 * (spectrum.noise + float(counts.max() / counts.sum()) ** 2)
    gained = np.cumsum(excess) - 0.5 * excess  # trapezoid rule, from zero
    by_spectrum = FEWEST_BINS + int(np.argmax(gained[FEWEST_BINS:]))
    by_count = 3.2 * (1.0 / spectrum.noise / n_components) ** 0.25
    # A few different values lie on a lattice, whose places are enough.
    places = np.inf if len(distinct) > MOST_BINS else np.rint(float(np.ptp(distinct)) / np.diff(distinct).min()) + 1.0
    return int(min(np.clip(round(np.sqrt(by_spectrum * by_count)), fewest, MOST_BINS), max(2.0, places)))
