import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorly_smp.codes.bin_number import FEWEST_BINS, MOST_BINS, auto_n_bins
from tensorly_smp.codes.binning import choose_binning
from tensorly_smp.codes.characteristic_function import EnergySpectrum, observed_values
from tensorly_smp.codes.spectrum import nyquist_issues
from tensorly_smp.datasets import make_smooth_mixture


def rng():
    return np.random.default_rng(0)


def one(values, n_components=5, **options):
    (number,) = auto_n_bins(np.asarray(values, dtype=float)[:, None], n_components, **options)
    return number


@pytest.mark.parametrize("kind", ["gaussian", "gmm", "gamma", "laplace"])
def test_passes_the_nyquist_check_and_grows_with_the_samples(kind):
    means = []
    for n_samples in (200, 1000, 5000):
        X, _, _ = make_smooth_mixture(kind, n_samples, 10, 5, random_state=0)
        numbers = auto_n_bins(X, 5)
        assert nyquist_issues(X, choose_binning(X, numbers)) == []
        assert all(FEWEST_BINS <= number <= MOST_BINS for number in numbers)
        means.append(np.mean(numbers))
    assert means[0] < means[1] < means[2]


def test_sharp_densities_get_more_bins():
    numbers = [
        one(values)
        for values in (
            rng().normal(size=5000),
            rng().laplace(size=5000),
            np.repeat([0, 1], 2500) + 0.01 * rng().normal(size=5000),
        )
    ]
    assert numbers[0] < numbers[1] <= numbers[2]


def test_more_components_get_fewer_bins():
    X = np.tile(rng().normal(size=(5000, 1)), 9)
    assert auto_n_bins(X, 20) < auto_n_bins(X, 5) < auto_n_bins(X, 1)


def test_rule_by_loops():
    values = rng().gamma(2.0, size=500)
    observed, weights = observed_values(values, None)
    energies = EnergySpectrum.of(observed, weights, 0.0, np.ptp(values) / MOST_BINS, MOST_BINS).energies(MOST_BINS + 1)
    best, chosen = -np.inf, 0
    for n_bins in range(FEWEST_BINS, MOST_BINS + 1):
        net = [energies[k] - 2.0 * (1 / 500 + 1 / 500**2) for k in range(n_bins + 1)]
        gained = sum((net[k] + net[k + 1]) / 2 for k in range(n_bins))
        if gained > best:
            best, chosen = gained, n_bins
    assert FEWEST_BINS < chosen < MOST_BINS
    for rank in (1, 5):
        assert one(values, rank) == round(np.sqrt(chosen * 3.2 * (500 / rank) ** 0.25))


def test_atoms_do_not_count_as_sharpness():
    values = rng().normal(size=5000)
    assert one(np.where(rng().random(5000) < 0.2, 0.0, values)) <= one(values) + 2


@given(st.sampled_from([1e-300, 1e-12, 1e12, 1e300]), st.integers(0, 2**32 - 1))
def test_scale_and_order_do_not_matter(scale, seed):
    values = np.random.default_rng(seed).laplace(size=300)
    assert abs(one(scale * values[::-1]) - one(values)) <= 1  # rounding to cells may tip the balance
    assert one(np.random.default_rng(1).permutation(values)) == one(values)


def test_variables_do_not_depend_on_each_other():
    X = rng().gamma(2.0, size=(300, 4)) ** np.arange(1, 5)
    together = auto_n_bins(X, 3)
    assert together == tuple(one(column, 3) for column in X.T)
    assert auto_n_bins(X[:, ::-1], 3) == together[::-1]


# ---- missing entries and weights ----


def test_missing_entries_are_skipped():
    values = rng().normal(size=1000)
    assert one(np.insert(values, [3, 500], np.nan)) == one(values)


def test_weights():
    generator = rng()
    values = np.concatenate([generator.normal(size=2000), generator.normal(30.0, 0.01, 2000)])
    assert one(values, sample_weight=np.repeat([1.0, 0.0], 2000)) == one(values[:2000])
    counts = generator.integers(0, 4, 4000)
    assert one(values, sample_weight=counts.astype(float)) == one(np.repeat(values, counts))
    # few samples with most of the weight are few samples
    normal = values[:2000]
    assert one(normal, sample_weight=np.where(np.arange(2000) < 50, 1.0, 1e-6)) < one(normal)


def test_coverage():
    values = np.append(rng().normal(size=5000), [1e6, -1e6])
    inner = np.quantile(values, [0.005, 0.995])
    assert one(values) > 20
    assert one(values, coverage=0.99) == pytest.approx(one(values[(values > inner[0]) & (values < inner[1])]), abs=2)


# ---- few values, few samples ----


@pytest.mark.parametrize(
    ("choices", "expected"), [([0, 1], 2), ([0, 1, 2], 3), ([-2, 0, 2, 4], 4), ([0, 1, 10], 11), ([5], 2)]
)
def test_few_different_values_get_a_bin_each(choices, expected):
    values = rng().choice(choices, 2000)
    assert one(values) == expected
    if len(choices) > 1:
        binning = choose_binning(values[:, None].astype(float), one(values))
        codes = np.searchsorted(binning.edges[0][1:-1], choices, side="right")
        assert len(set(codes)) == len(choices)


@pytest.mark.parametrize(
    "values",
    [
        [1.0],
        [1.0, 2.0],
        [3.0] * 100,
        [0.0, 1e-323],
        [-8e307, 8e307],
        [1e12, 1e12 + 0.001, 1e12 + 0.002],
        [0.0] * 99 + [1e300],
    ],
)
def test_extreme_values_give_a_number(values):
    assert 2 <= one(values) <= MOST_BINS


def test_enough_bins_for_the_components():
    X = rng().normal(size=(100, 3))
    assert min(auto_n_bins(X, 12)) >= 12
    assert max(auto_n_bins(X, 1000)) == MOST_BINS
    assert max(auto_n_bins(rng().normal(size=(100, 25)), 12)) < 12
