"""Nyquist check of sinc reconstruction: the share of a variable's spectrum that bins of a given width lose.

Proposition 1 of Kargas and Sidiropoulos (AISTATS 2019): a density whose characteristic function phi vanishes beyond
pi/T is recovered exactly from its distribution function sampled T apart. What lies beyond is lost, and folded back
into the rest. Its share of the energy, the integral of |phi|^2, is estimated here from the samples alone.
"""

from __future__ import annotations

import numpy as np

from tensorly_smp._support.representations import joined
from tensorly_smp.codes.binning import Binning
from tensorly_smp.codes.characteristic_function import EnergySpectrum, observed_values
from tensorly_smp.codes.weighted_values import effective_size

#: Share of the energy beyond pi/T from which bins are called too coarse. KL(f || sinc density) of a variable, from the
#: true bin probabilities (benchmarks/bin_numbers.py --shares), the paper's cases, 5 components, 5 to 30 bins:
#:   share     to 0.01 %  0.1 %  0.3 %    1 %    3 %   10 %
#:   Gaussian      0.001  0.010  0.030  0.059  0.070  0.122
#:   GMM           0.002  0.009  0.022  0.049  0.100  0.156
#:   Gamma         0.004  0.011  0.025  0.033  0.078  0.138
#:   Laplace           -  0.007  0.010  0.018  0.042  0.119
#: Learning 15 probabilities from the 200 samples of a component (M = 1000) costs 0.03: from about 1 % on, the width of
#: the bins is what hurts.
SHARE_THRESHOLD = 0.01
#: Standard errors by which a share must exceed the threshold: one false alarm in 700 variables that are on it.
SIGNIFICANCE = 3.0
#: Fewer samples (in effect, where they have weights) give no verdict.
FEWEST_SAMPLES = 20
#: Frequencies count up to this multiple of pi/T; a spectrum that falls like t^-4 (Laplace) has 4 % of its tail beyond.
HIGHEST = 3
# up to pi/T; of more, neighbors differ by nothing
_FEWEST_STEPS = 16
_MOST_STEPS = 256
_LEAST_SPREAD = 1e-6  # in widths; values closer together are a single one, around which the bins were put


def nyquist_issues(values: np.ndarray, binning: Binning, sample_weight: np.ndarray | None = None) -> list[str]:
    """Variables whose bins are too coarse for sinc reconstruction, in words; an empty list if there are none.

    Named are variables with more than 1 % of the spectrum beyond pi/T, by three standard errors, on at least 20
    samples; not those of a single value, or with bins of unequal width. What is seen is the spectrum of the whole
    mixture, whose components may cancel each other: a small share is no proof that the bins are fine for all of them.

    Parameters
    ----------
    values : ndarray (n_samples, n_variables)
        NaN = missing.
    binning : Binning
        Of as many variables.
    sample_weight : ndarray (n_samples,), optional

    Examples
    --------
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> from tensorly_smp.codes.spectrum import nyquist_issues
    >>> X = np.random.default_rng(0).laplace(size=(20_000, 1))
    >>> print(*nyquist_issues(X, smp.choose_binning(X, n_bins=8, coverage=0.999)))
    Bins are too coarse for sinc reconstruction, ... of variable(s) 'x0' (5.7 % with 8 bins). ...
    >>> nyquist_issues(X, smp.choose_binning(X, n_bins=30, coverage=0.999))
    []
    """
    coarse = []
    for column, name, edges, even in zip(values.T, binning.variables, binning.edges, binning.is_uniform, strict=True):
        if not even or name in binning.values:
            continue
        observed, weights = observed_values(column, sample_weight)
        is_enough = effective_size(weights) >= FEWEST_SAMPLES * (1.0 - 1e-9)  # of sums, rounded
        if not is_enough or observed.max() / 2 - observed.min() / 2 < _LEAST_SPREAD * (edges[1] - edges[0]):
            continue
        n_bins = len(edges) - 1
        n_steps = min(n_bins * -(-_FEWEST_STEPS // n_bins), _MOST_STEPS)
        spectrum = EnergySpectrum.of(observed, weights, edges[0], (edges[-1] - edges[0]) / n_bins, n_steps)
        share, error = spectrum.share(n_steps, HIGHEST * n_steps)
        if share - SIGNIFICANCE * error > SHARE_THRESHOLD:
            coarse.append(f"{name!r} ({100 * share:.1f} % with {n_bins} bins)")
    message = (
        "Bins are too coarse for sinc reconstruction, which loses what the spectrum has beyond pi / width: of "
        f'variable(s) {joined(coarse)}. Take more bins (n_bins="auto" looks for their number). Where values repeat, as '
        "discrete and rounded numbers do, no number is enough, and histogram densities take them as they are."
    )
    return [message] if coarse else []
