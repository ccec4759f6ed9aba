"""Singular values of the pair block, and how large they get by chance: the number of components without any fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorly_smp._support.checks import checked_integer
from tensorly_smp.codes.binning import binning_of_values
from tensorly_smp.codes.encoding import Codes, encode_samples
from tensorly_smp.initializers.coupled_gevd import DENSE_PAIR, compress_codes
from tensorly_smp.marginals.partition import Partition, default_partition

#: How often samples are shuffled: 19 times, so that chance exceeds all of them in one case of twenty; once where only
#: the leading singular values are computed, since those of a large block hardly vary.
N_SHUFFLES = 19
N_SHUFFLES_LARGE = 1
#: Bins per variable, of about equally many samples: the fewer, the less noise in the singular values.
PAIR_BINS = 6


@dataclass(frozen=True, eq=False)
class PairValues:
    """Result of :func:`pair_singular_values`.

    Attributes
    ----------
    found : ndarray (n_values,)
        Of the samples, decreasing.
    shuffled : ndarray (n_values,)
        The largest of each order of the shuffled samples.
    n_shuffles : int
    """

    found: np.ndarray
    shuffled: np.ndarray
    n_shuffles: int

    @property
    def n_above_noise(self) -> int:
        """Singular values above the second of shuffled samples; at least the trivial one, 0 if they are not known.

        The same level for all orders: beyond those of the components noise is a little lower than that, as shuffling
        makes noise of the components' variance, too, so that the number is rather too small than too large.
        """
        noise = self.shuffled[1] if len(self.shuffled) > 1 else np.inf
        return 0 if np.isnan(self.found).any() else max(int((self.found > noise).sum()), 1)


def pair_singular_values(codes: Codes, n_values: int) -> PairValues:
    """Leading singular values of the pair block of the default partition, of samples and of shuffled samples.

    The pair block holds the probabilities of all pairs of a bin of the first set of variables and one of the second,
    divided by the root of the product of the probabilities of the two, as in correspondence analysis. Given the
    component the two sets are independent, so that without noise it has at most as many positive singular values as
    there are components; the first is the root of the product of the numbers of variables, whatever the data. If the
    second set is taken from other samples than the first, only that one is left, and noise.

    Parameters
    ----------
    codes : Codes
        Of few bins of about equally many samples: more bins are noisier.
    n_values : int
        As many as there are at most.

    Returns
    -------
    PairValues

    Raises
    ------
    InvalidInputError
        Fewer than three variables.

    Notes
    -----
    Shuffling is parallel analysis: J. L. Horn, "A rationale and test for the number of factors in factor analysis",
    Psychometrika 30, 1965.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> from tensorly_smp.initializers.pair_values import pair_singular_values
    >>> X = smp.datasets.make_smooth_mixture("gaussian", 1000, 6, 3, random_state=0).X
    >>> codes = smp.encode_samples(X, smp.choose_binning(X, 6, "quantile"))
    >>> pair_singular_values(codes, 5).n_above_noise
    3
    """
    n_values = checked_integer(n_values, "n_values", 1)
    partition = default_partition(codes.n_variables)
    sizes = [sum(codes.n_bins[n] for n in group) for group in partition.sets[:2]]
    n_values = min(n_values, *sizes)
    n_shuffles = N_SHUFFLES if max(sizes) <= DENSE_PAIR else N_SHUFFLES_LARGE
    shuffled = [_values(_shuffled(codes, partition, seed), partition, n_values) for seed in range(n_shuffles)]
    return PairValues(_values(codes, partition, n_values), np.max(shuffled, axis=0), n_shuffles)


def pair_values_of(values: np.ndarray, n_values: int) -> PairValues:
    """Singular values of samples without bins: they are put in six, or as many as so many values need.

    Parameters
    ----------
    values : ndarray (n_samples, n_variables)
        NaN = missing. Nothing is said about samples that are strange.
    n_values : int

    Returns
    -------
    PairValues

    Raises
    ------
    InvalidInputError
        Fewer than three variables, or samples that cannot be put in bins.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> from tensorly_smp.initializers.pair_values import pair_values_of
    >>> X = smp.datasets.make_smooth_mixture("gaussian", 1000, 4, 3, random_state=0).X
    >>> len(pair_values_of(X, 5).found), len(pair_values_of(X, 9).found)
    (5, 9)
    """
    # n stacked variables of I bins have rank n (I - 1) + 1.
    stacked = len(default_partition(values.shape[1]).first)
    n_bins = max(PAIR_BINS, -(-n_values // stacked) + 1)
    binning, _ = binning_of_values(values, range(values.shape[1]), n_bins, "quantile")
    return pair_singular_values(encode_samples(values, binning), n_values)


def _values(codes: Codes, partition: Partition, n_values: int) -> np.ndarray:
    return compress_codes(codes, partition, n_values).singular_values[:n_values]


def _shuffled(codes: Codes, partition: Partition, seed: int) -> Codes:
    """Codes whose second set of variables is of other samples than the first."""
    mixed = codes.values.copy()
    second = list(partition.second)
    order = np.random.default_rng(seed).permutation(len(mixed))
    mixed[:, second] = mixed[order][:, second]
    return Codes(mixed, codes.binning)
