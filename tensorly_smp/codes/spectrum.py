"""How much of a variable's spectrum bins of a given width lose: the Nyquist check of sinc reconstruction.

Proposition 1 of Kargas and Sidiropoulos (AISTATS 2019): a density whose characteristic function phi vanishes beyond
pi/T is recovered exactly from its distribution function sampled T apart. What lies beyond is lost, and folded back
into the rest. Its share of the energy, the integral of |phi|^2, is estimated here from the samples alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensorly_smp.codes.binning import Binning
from tensorly_smp.codes.energy import EnergySpectrum, bin_spectrum, observed_values, trapezoid, value_weights
from tensorly_smp.exceptions import InvalidInputError

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

# Frequencies count up to this multiple of pi/T. Noise grows with the square root of it; a spectrum that falls like
# t^-4 (Laplace, with its corner) has 4 % of its tail beyond, one with jumps (t^-2) a third.
_HIGHEST = 3
# Where a spectrum that does not decay is told, from 6 to 12 pi/T.
_FAR = 6
# Frequencies up to pi/T. Steps of pi/(range) suffice for the whole energy, 16 or more for where a share begins; and of
# more than 256 bins, neighbors differ by nothing.
_FEWEST_STEPS, _MOST_STEPS = 16, 256
# Bins searched for a number that would do: up to this multiple of the given one.
_MOST_TIMES = 4
_LEAST_SPREAD = 1e-6  # in widths; values closer together are a single one, around which the bins were put
_LEAST_TIES = 0.5 * SHARE_THRESHOLD  # share of the energy below which repeated values are an accident
_SHOWN = 10


@dataclass(frozen=True)
class SpectrumShare:
    """Share of a variable's energy at frequencies that its bins cannot carry.

    Attributes
    ----------
    share : float
        Integral of |phi|^2 over pi/T .. 3 pi/T, over that from 0 to 3 pi/T. Free of noise on average, therefore
        sometimes a little below zero.
    standard_error : float
        Of `share`, over repeated samples of the same size.
    n_effective : float
        Number of observed values; with weights (sum w)^2 / sum w^2.
    """

    share: float
    standard_error: float
    n_effective: float

    @classmethod
    def beyond(cls, spectrum: EnergySpectrum, n_steps: int) -> SpectrumShare:
        """Of a spectrum that has pi/T at `n_steps` steps."""
        last = _HIGHEST * n_steps
        return cls(spectrum.share(n_steps, last), spectrum.share_error(n_steps, last), 1.0 / spectrum.noise)

    def exceeds(self, threshold: float = SHARE_THRESHOLD) -> bool:
        """Whether the share is above the threshold by three standard errors, on at least 20 samples."""
        enough = self.n_effective * (1.0 + 1e-9) >= FEWEST_SAMPLES  # a sum of squares, rounded
        return enough and self.share - SIGNIFICANCE * self.standard_error > threshold


def nyquist_concerns(
    values: np.ndarray,
    binning: Binning,
    sample_weight: np.ndarray | None = None,
    threshold: float = SHARE_THRESHOLD,
) -> list[str]:
    """Variables whose bins are too coarse for sinc reconstruction, in words.

    Named are variables with a share of the spectrum beyond pi/T that is larger than the threshold, by three standard
    errors, on at least 20 samples. Variables of a single value, and those with bins of unequal width, which sinc
    reconstruction does not take, are passed over.

    What is observed is the characteristic function of the variable in the whole mixture, the weighted sum of those of
    the components, which may cancel each other; a single component usually has a larger share at high frequencies than
    the mixture. So a large share says that the bins are too coarse for at least one component, and a small one is
    necessary for all of them to be fine, but no proof.

    Parameters
    ----------
    values : ndarray (n_samples, n_variables)
        NaN = missing.
    binning : Binning
        Of as many variables.
    sample_weight : ndarray (n_samples,), optional
        Non-negative.
    threshold : float
        Share from which the bins are too coarse.

    Returns
    -------
    list of str
        Empty if there is nothing to say. Else one sentence on the variables that need more bins, with the number that
        would do, and one on those whose repeated values no number of bins makes smooth.

    Raises
    ------
    InvalidInputError
        Shapes that disagree, infinite values, weights that cannot be used.

    References
    ----------
    N. Kargas, N. D. Sidiropoulos, "Learning Mixtures of Smooth Product Distributions: Identifiability and Algorithm",
    AISTATS 2019, Proposition 1. The noise of the empirical characteristic function: S.-T. Chiu, "Bandwidth selection
    for kernel density estimation", Annals of Statistics 19 (1991) 1883-1905.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> from tensorly_smp.codes.spectrum import nyquist_concerns
    >>> X = np.random.default_rng(0).laplace(size=(20_000, 1))
    >>> print(*nyquist_concerns(X, smp.choose_binning(X, n_bins=8, coverage=0.999)))
    Bins are too coarse for sinc reconstruction, which loses what the spectrum has beyond pi / width: of variable(s) \
'x0' (5.7 % lost with 8 bins; 16 would do).
    >>> nyquist_concerns(X, smp.choose_binning(X, n_bins=30, coverage=0.999))
    []
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != binning.n_variables:
        raise InvalidInputError(
            f"Values have shape {values.shape}; expected (n_samples, {binning.n_variables}), as the binning has."
        )
    coarse, tied = [], []
    for column, name, edges, even in zip(values.T, binning.variables, binning.edges, binning.is_uniform, strict=True):
        observed, weights = observed_values(column, sample_weight)
        if not even or len(observed) < 2 or _spread(observed) < _LEAST_SPREAD * (edges[1] - edges[0]):
            continue
        lost = _loss(observed, weights, edges, threshold)
        if lost == "":
            tied.append(f"{name!r}")
        elif lost is not None:
            coarse.append(f"{name!r} ({lost})")
    return _sentences(coarse, tied)


def is_tied(spectrum: EnergySpectrum, n_steps: int, observed: np.ndarray, weights: np.ndarray) -> bool:
    """Whether the energy beyond `n_steps` is that of repeated values.

    These are discrete, or rounded no finer than the bins, or one value is shared by many samples: such a spectrum does
    not decay, and finer bins do not help.

    Two samples agree with probability tau. To this level the spectrum falls where single values are repeated, and stays
    there; and it is the mean of a spectrum that comes back, as that of a lattice does at every 2 pi / spacing. So the
    tail is due to repeated values if its level is about tau, and if it is still so where a shape has long died away; a
    finer lattice has not come back by then.
    """
    _, shares = value_weights(observed, weights)
    ties = float(shares @ shares - spectrum.noise) / (1.0 - spectrum.noise)
    last = _HIGHEST * n_steps
    level = ties * (last - n_steps)
    if level <= _LEAST_TIES * spectrum.total(last):
        return False
    tail = float(trapezoid(n_steps, last) @ spectrum.energies(last + 1))
    far = spectrum.energies(2 * _FAR * n_steps)[_FAR * n_steps :]
    return bool(0.25 * level <= tail <= 2.0 * level and far.mean() >= 0.5 * ties)


def _spread(observed: np.ndarray) -> float:
    with np.errstate(over="ignore"):  # infinity is large enough for all that is asked
        return float(observed.max() - observed.min())


def _loss(observed: np.ndarray, weights: np.ndarray, edges: np.ndarray, threshold: float) -> str | None:
    """What is lost with these bins, and how many would do; empty if repeated values are to blame, None if little is."""
    n_bins = len(edges) - 1
    n_steps = min(n_bins * -(-_FEWEST_STEPS // n_bins), _MOST_STEPS)
    spectrum = bin_spectrum(observed, weights, edges[0], (edges[-1] - edges[0]) / n_bins, n_steps)
    lost = SpectrumShare.beyond(spectrum, n_steps)
    if not lost.exceeds(threshold):
        return None
    # Repeated values are looked for (they must be sorted) only here, where there is something to explain; and once more
    # with the finest bins tried: rounding shows when the bins are as fine.
    if is_tied(spectrum, n_steps, observed, weights):
        return ""
    enough = _sufficient(spectrum, n_steps, n_bins, threshold)
    if enough is None and is_tied(spectrum, _MOST_TIMES * n_steps, observed, weights):
        return ""
    remedy = f"even {_MOST_TIMES * n_bins} would not do" if enough is None else f"{enough} would do"
    return f"{100 * lost.share:.1f} % lost with {n_bins} bins; {remedy}"


def _sufficient(spectrum: EnergySpectrum, n_steps: int, n_bins: int, threshold: float) -> int | None:
    """Smallest number of bins over the same range with a share up to the threshold, among up to four times as many."""
    for number in range(n_bins + 1, _MOST_TIMES * n_bins + 1):
        steps = round(number * n_steps / n_bins)
        if spectrum.share(steps, _HIGHEST * steps) <= threshold:
            return number
    return None


def _sentences(coarse: Sequence[str], tied: Sequence[str]) -> list[str]:
    found = []
    if coarse:
        found.append(
            "Bins are too coarse for sinc reconstruction, which loses what the spectrum has beyond pi / width: of "
            f"variable(s) {_listed(coarse)}."
        )
    if tied:
        found.append(
            f"Variable(s) {_listed(tied)} repeat values, as discrete or rounded numbers do, so that their spectrum "
            "does not decay and no number of bins makes sinc reconstruction exact; histogram densities take them as "
            "they are."
        )
    return found


def _listed(items: Sequence[str]) -> str:
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return ", ".join(items[:_SHOWN]) + more
