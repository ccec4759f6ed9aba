"""Singular values of the pair block: against plain loops, and as a count of components."""

import numpy as np
import pytest

import tensorly_smp as smp
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.initializers.pair_values import N_SHUFFLES, PairValues, pair_singular_values, pair_values_of


def quantile_codes(X, n_bins=6):
    return smp.encode_samples(X, smp.choose_binning(X, n_bins, "quantile"))


def sample_codes(rank, n_samples=2000, n_variables=6, missing=0.0, seed=0):
    data = smp.datasets.make_smooth_mixture(
        "gaussian", n_samples, n_variables, rank, missing=missing, random_state=seed
    )
    return quantile_codes(data.X)


def loop_values(codes):
    """From the probabilities of all pairs of bins, counted one by one."""
    first, second, _ = smp.default_partition(codes.n_variables)
    blocks = []
    for j in first:
        row = []
        for k in second:
            pair = np.zeros((codes.n_bins[j], codes.n_bins[k]))
            for a, b in codes.values[:, [j, k]]:
                pair[a, b] += 1.0 / codes.n_samples
            row.append(pair / np.sqrt(np.outer(pair.sum(axis=1), pair.sum(axis=0))))
        blocks.append(row)
    return np.linalg.svd(np.block(blocks), compute_uv=False)


def test_equals_plain_loops():
    codes = sample_codes(3, n_samples=300)
    expected = loop_values(codes)
    np.testing.assert_allclose(pair_singular_values(codes, 100).found, expected, atol=1e-12)
    np.testing.assert_allclose(pair_singular_values(codes, 4).found, expected[:4], atol=1e-12)


def test_first_is_trivial():
    pair = pair_singular_values(sample_codes(3, n_variables=8), 5)
    # Three variables in the first set, four in the second.
    assert pair.found[0] == pytest.approx(np.sqrt(12.0))
    assert pair.shuffled[0] == pytest.approx(np.sqrt(12.0))


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_number_of_components(rank, missing):
    assert pair_singular_values(sample_codes(rank, 4000, 8, missing), 9).n_above_noise == rank


def test_noise_falls_with_the_number_of_samples():
    rng = np.random.default_rng(0)
    levels = [pair_singular_values(quantile_codes(rng.normal(size=(m, 7))), 4).shuffled[1] for m in (400, 6400)]
    # Like the root of M; the largest of many singular values varies little.
    assert levels[0] / levels[1] == pytest.approx(4.0, rel=0.2)


def test_independent_variables_exceed_the_noise_in_one_case_of_twenty():
    rng = np.random.default_rng(1)
    above = [pair_singular_values(quantile_codes(rng.normal(size=(200, 5))), 4).n_above_noise > 1 for _ in range(20)]
    assert sum(above) <= 4  # of 20; more than that in one case of four hundred


def test_large_blocks():
    # 121 + 121 variables of six bins: only leading values, of one shuffle.
    large = sample_codes(3, 500, 243)
    pair = pair_singular_values(large, 6)
    assert (len(pair.found), pair.n_shuffles, pair.n_above_noise) == (6, 1, 3)
    small = pair_singular_values(sample_codes(3, 500, 9), 6)
    assert small.n_shuffles == N_SHUFFLES


def test_few_bins_have_few_values():
    codes = quantile_codes(np.random.default_rng(0).integers(2, size=(50, 3)).astype(float), 2)
    pair = pair_singular_values(codes, 10)
    assert len(pair.found) == len(pair.shuffled) == 2
    assert PairValues(np.array([1.0]), np.array([1.0]), 1).n_above_noise == 1


def test_samples_get_as_many_bins_as_there_have_to_be():
    X = smp.datasets.make_smooth_mixture("gaussian", 300, 6, 2, random_state=0).X
    # Two stacked variables of 6 bins have 11 singular values, of 7 bins 13.
    for n_values, n_bins in [(3, 6), (11, 7), (12, 7), (13, 8)]:
        found, expected = pair_values_of(X, n_values), pair_singular_values(quantile_codes(X, n_bins), n_values)
        np.testing.assert_array_equal(found.found, expected.found)
        assert (found.found > 1e-10).all()
    pair_values_of(np.hstack([X, np.ones((300, 1))]), 3)  # and no warning of the constant one, which would be an error


def test_two_variables():
    with pytest.raises(InvalidInputError, match="at least 3"):
        pair_values_of(np.zeros((50, 2)), 3)
    with pytest.raises(InvalidInputError, match="at least 3"):
        pair_singular_values(quantile_codes(np.random.default_rng(0).normal(size=(50, 2))), 3)
