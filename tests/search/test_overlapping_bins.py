import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata

from tensorly_smp.search.overlapping_bins import Fractions, mixture_of, overlapping_bins


def make_values(seed, n_samples=40, n_variables=4, missing=0.1, rounded=False):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_samples, n_variables))
    values = np.round(values, 1) if rounded else values
    values[rng.random(values.shape) < missing] = np.nan
    values[0] = 0.1
    return values, rng.integers(1, 4, n_samples).astype(float)


@given(st.integers(0, 10**9), st.booleans())
def test_fractions_are_middle_ranks_and_weights_are_repeats(seed, rounded):
    values, weights = make_values(seed, rounded=rounded)
    found = Fractions.of(values, (), weights).values
    counts = weights.astype(int)
    repeated = np.repeat(values, counts, axis=0)
    for n in range(values.shape[1]):
        column = repeated[:, n]
        expected = (rankdata(column[~np.isnan(column)]) - 0.5) / np.sum(~np.isnan(column))
        present = ~np.isnan(values[:, n])
        np.testing.assert_allclose(np.repeat(found[present, n], counts[present]), expected, atol=1e-12)
        assert np.isnan(found[~present, n]).all()


@given(st.integers(0, 10**9), st.integers(2, 20))
def test_shares_sum_to_one_and_have_the_fraction_as_their_mean(seed, n_intervals):
    values, weights = make_values(seed)
    fractions = Fractions.of(values, (), weights)
    samples = overlapping_bins(fractions, n_intervals)
    knots = np.tile(np.arange(n_intervals + 1) / n_intervals, 4)
    for n in range(4):
        own = slice(n * (n_intervals + 1), (n + 1) * (n_intervals + 1))
        shares = samples.membership.toarray()[:, own]
        present = ~np.isnan(values[:, n])
        np.testing.assert_allclose(shares.sum(axis=1), present, atol=1e-12)
        np.testing.assert_allclose((shares @ knots[own])[present], fractions.values[present, n], atol=1e-12)
        assert (np.count_nonzero(shares, axis=1) <= 2).all()


def test_a_discrete_variable_has_a_bin_for_each_value():
    values = np.array([[3.0, 0.1], [1.0, 0.2], [3.0, 0.3], [np.nan, 0.4], [7.0, 0.5]])
    samples = overlapping_bins(Fractions.of(values, (0,), np.ones(5)), 4)
    assert samples.cells.offsets.tolist() == [0, 3, 8]
    assert samples.membership.toarray()[:, :3].tolist() == [[0, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize("discrete", [(), (1,)])
def test_the_objective_never_falls_and_is_that_of_a_plain_loop(discrete):
    values, weights = make_values(3, n_samples=60, rounded=True)
    samples = overlapping_bins(Fractions.of(values, discrete, weights), 5)
    mixture = mixture_of(samples, np.random.default_rng(0).dirichlet(np.ones(3), 60))
    before = -np.inf
    for _ in range(20):
        expected, value = samples.expect(mixture, np.empty(0))
        joint = mixture.log_weights + samples.membership.toarray() @ mixture.tables
        by_hand = weights @ np.log(np.exp(joint).sum(axis=1)) + (samples.prior * mixture.tables).sum()
        assert value == pytest.approx(by_hand, rel=1e-12)
        assert value >= before - 1e-9
        before, mixture = value, samples.maximize(expected, mixture, np.empty(0))
