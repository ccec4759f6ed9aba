"""Histograms at merged bins against the sums they are."""

import numpy as np

import tensorly_smp as smp
from tensorly_smp.initializers.coupled_gevd import coarse_bins, coarsen
from tensorly_smp.marginals.histograms import univariate_marginals


def test_merged_histograms_are_sums_over_runs_of_bins():
    rng = np.random.default_rng(0)
    codes = smp.Codes.from_array(rng.integers(0, [5, 7, 4, 3], (200, 4)), n_bins=[5, 7, 4, 3])
    marginals = smp.count_marginals(codes)
    groups = [coarse_bins(share, 3) for share in univariate_marginals(marginals)]
    merged = coarsen(marginals, groups)
    for (j, k, m), count, fine in zip(marginals.triples, merged.counts, marginals.counts, strict=True):
        expected = np.zeros(count.shape)
        for (a, b, c), number in np.ndenumerate(fine):
            expected[groups[j][a], groups[k][b], groups[m][c]] += number
        np.testing.assert_array_equal(count, expected)
    coarse = smp.Codes.from_array(
        np.stack([group[column] for group, column in zip(groups, codes.values.T, strict=True)], axis=1),
        n_bins=list(merged.n_bins),
    )
    for a, b in zip(merged.counts, smp.count_marginals(coarse).counts, strict=True):
        np.testing.assert_array_equal(a, b)


def test_all_samples_in_one_bin_leave_two_merged_bins():
    assert coarse_bins(np.array([0.0, 1.0, 0.0]), 2).tolist() == [0, 0, 1]
