"""Metrics against brute force over all permutations, and against closed forms."""

from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity

from tensorly_smp.codes.binning import Binning
from tensorly_smp.datasets import TrueMixture, make_smooth_mixture
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError, SizeLimitError
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.metrics import clustering_accuracy, factor_error, kl_divergence_mc, match_components

# Sums in another order round differently.
EXACT = 1e-14


def random_factors(rng, rank, n_bins=(4, 3, 5), binning=None):
    factors = tuple(rng.dirichlet(np.ones(size), rank).T for size in n_bins)
    return MixtureFactors(rng.dirichlet(np.ones(rank)), factors, binning)


def reorder(mixture, order):
    """Components in another order, or some of them, which then make a mixture by themselves."""
    weights, *factors = pick(mixture, order)
    return MixtureFactors(weights / weights.sum(), tuple(factors))


def pick(mixture, order):
    return [array[..., list(order)] for array in (mixture.weights, *mixture.factors)]


def squared_distance(picked, mixture):
    pairs = zip(picked, (mixture.weights, *mixture.factors), strict=True)
    return sum(float(np.sum((x - y) ** 2)) for x, y in pairs)


# --- clustering accuracy ---


def accuracy_by_brute_force(true, predicted):
    """The best of all one-to-one renamings, in a plain loop."""
    true, predicted = list(true), list(predicted)
    names = sorted(set(true)) + [None] * len(set(predicted))  # None: a cluster without a partner
    best = 0
    for images in permutations(names, len(set(predicted))):
        renaming = dict(zip(sorted(set(predicted)), images, strict=True))
        best = max(best, sum(renaming[p] == t for t, p in zip(true, predicted, strict=True)))
    return best / len(true)


@given(pairs=st.lists(st.tuples(st.integers(0, 2), st.integers(5, 8)), min_size=1, max_size=15))
def test_accuracy_by_brute_force(pairs):
    true, predicted = zip(*pairs, strict=True)
    assert clustering_accuracy(true, predicted) == pytest.approx(accuracy_by_brute_force(true, predicted), rel=1e-12)


@given(labels=st.lists(st.integers(0, 4), min_size=1, max_size=30), seed=st.integers(0, 100))
def test_renaming_clusters_changes_nothing(labels, seed):
    names = np.random.default_rng(seed).permutation(5)
    assert clustering_accuracy(labels, names[labels]) == 1
    assert isinstance(clustering_accuracy(labels, names[labels]), float)


def test_different_numbers_of_clusters():
    assert clustering_accuracy([0, 0, 1, 1], [0, 0, 0, 0]) == 0.5
    assert clustering_accuracy([0, 0, 0, 0], [0, 0, 1, 2]) == 0.5
    # A number and its text are two labels.
    assert clustering_accuracy([0, 1], [1, "1"]) == 1
    # Series are matched by index.
    truth = pd.Series(["a", "a", "b", "b"], index=[10, 11, 12, 13])
    found = pd.Series([0, 0, 1, 1], index=truth.index)
    assert clustering_accuracy(truth.iloc[[2, 0, 3, 1]], found) == 1.0
    assert clustering_accuracy(truth, found.iloc[::-1]) == 1.0
    with pytest.raises(InvalidInputError, match="index differs"):
        clustering_accuracy(truth, found.set_axis([0, 1, 2, 3]))


@pytest.mark.parametrize(
    "labels",
    [
        ["a", "b", "a"],
        ("a", 1, "a"),
        [True, False, True],
        [1.5, 2.5, 1.5],
        np.array(["a", "b", "a"], dtype=object),
        pd.Series(["a", "b", "a"]),
        pd.Series(["a", "b", "a"], dtype="category"),
        pd.Series([1, 2, 1], dtype="Int64"),
        np.array(["2020-01-01", "2020-01-02", "2020-01-01"], dtype="datetime64[D]"),
    ],
    ids=str,
)
def test_labels_of_any_kind(labels):
    assert clustering_accuracy(labels, [7, 3, 7]) == 1
    assert clustering_accuracy([7, 7, 3], labels) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    "labels",
    [
        [0, None],
        [0, np.nan],
        np.array([0, np.nan]),
        pd.Series([0, None], dtype="Int64"),
        pd.Series(["a", None]),
        np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"),
        np.ma.array([0, 1], mask=[True, False]),
        np.ma.array([0, 1], mask=[True, False]).astype(object),
        [np.ma.masked, 1],
    ],
    ids=str,
)
def test_missing_labels(labels):
    with pytest.raises(InvalidInputError, match="labels_pred has missing labels"):
        clustering_accuracy([0, 1], labels)
    assert clustering_accuracy(np.ma.array([0, 1], mask=[False, False]), [1, 0]) == 1.0


def test_wrong_labels():
    with pytest.raises(InvalidInputError, match="labels_true has 2 and labels_pred 3"):
        clustering_accuracy([0, 1], [0, 1, 2])
    for wrong in ([], np.zeros((2, 2))):
        with pytest.raises(InvalidInputError, match="shape"):
            clustering_accuracy(wrong, [])
    with pytest.raises(InvalidTypeError, match="hashable"):
        clustering_accuracy([{}, {1: 2}], [0, 1])
    values = np.random.default_rng(0).random(6000)
    with pytest.raises(SizeLimitError, match="distinct labels"):
        clustering_accuracy(values, values)


# --- components and factors ---


@given(seed=st.integers(0, 10**6), rank=st.integers(1, 4), more=st.integers(0, 2))
def test_matching_by_brute_force(seed, rank, more):
    rng = np.random.default_rng(seed)
    true, estimated = random_factors(rng, rank), random_factors(rng, rank + more)
    permutation = match_components(estimated, true)
    best = min(squared_distance(pick(estimated, p), true) for p in permutations(range(rank + more), rank))
    assert squared_distance(pick(estimated, permutation), true) == pytest.approx(best, rel=1e-12)


@given(seed=st.integers(0, 10**6), rank=st.integers(1, 4))
def test_factor_error_by_brute_force(seed, rank):
    rng = np.random.default_rng(seed)
    true, estimated = random_factors(rng, rank), random_factors(rng, rank)
    best = min(squared_distance(pick(estimated, p), true) for p in permutations(range(rank)))
    size = sum(np.sum(array**2) for array in (true.weights, *true.factors))
    assert factor_error(estimated, true) == pytest.approx(np.sqrt(best / size), rel=1e-12)


@given(seed=st.integers(0, 10**6), order=st.permutations(range(5)))
def test_a_permutation_is_found_and_undone(seed, order):
    true = random_factors(np.random.default_rng(seed), 5)
    shuffled = reorder(true, order)
    permutation = match_components(shuffled, true)
    np.testing.assert_array_equal(permutation, np.argsort(order))
    np.testing.assert_allclose(shuffled.weights[permutation], true.weights, rtol=1e-12)
    assert factor_error(shuffled, true) < EXACT


def test_weights_count_and_components_may_be_left_over():
    matrix = np.eye(2)
    a = MixtureFactors(np.array([0.4, 0.6]), (matrix,) * 3)
    b = MixtureFactors(np.array([0.3, 0.7]), (matrix,) * 3)
    assert factor_error(b, a) == pytest.approx(np.sqrt(0.02 / (0.16 + 0.36 + 6)))
    # Weights decide between equal columns.
    matrix = np.full((2, 2), 0.5)
    a = MixtureFactors(np.array([0.3, 0.7]), (matrix,) * 3)
    b = MixtureFactors(np.array([0.7, 0.3]), (matrix,) * 3)
    np.testing.assert_array_equal(match_components(a, b), [1, 0])
    # Fewer estimated components leave true ones alone.
    true = MixtureFactors(np.full(4, 0.25), random_factors(np.random.default_rng(0), 4).factors)
    estimated = reorder(true, [3, 1])
    np.testing.assert_array_equal(match_components(estimated, true), [-1, 1, -1, 0])


def test_true_mixture_is_discretized_with_the_binning_of_the_other():
    mixture = make_smooth_mixture("gmm", 1, 3, 4, random_state=0).mixture
    binning = Binning((np.linspace(-8, 8, 9),) * 3, ("a", "b", "c"))
    order = [2, 0, 3, 1]
    exact = mixture.factors(binning)
    estimated = MixtureFactors(exact.weights[order], tuple(factor[:, order] for factor in exact.factors), binning)
    np.testing.assert_array_equal(match_components(estimated, mixture), np.argsort(order))
    np.testing.assert_array_equal(match_components(mixture, estimated), order)
    solution = SimpleNamespace(factors=estimated)  # which is taken by its factors
    assert factor_error(solution, mixture) < EXACT
    for other in (reorder(estimated, order), mixture):
        with pytest.raises(InvalidTypeError, match="know their binning"):
            factor_error(other, mixture)


def test_wrong_factors():
    rng = np.random.default_rng(0)
    a = random_factors(rng, 3)
    for other in (random_factors(rng, 3, (4, 3)), random_factors(rng, 3, (4, 3, 6))):
        with pytest.raises(InvalidInputError, match="same variables and bins"):
            match_components(a, other)
    with pytest.raises(InvalidInputError, match="estimated has 3 components and true has 2"):
        factor_error(a, random_factors(rng, 2))
    for wrong in (None, a.weights, (a.weights, a.factors)):
        with pytest.raises(InvalidTypeError, match="true is"):
            match_components(a, wrong)
        with pytest.raises(InvalidTypeError, match="estimated is"):
            factor_error(wrong, a)


# --- Kullback-Leibler divergence ---


def gaussian(mean, variance):
    """One-component mixture with a diagonal covariance."""
    mean, variance = np.atleast_1d(mean), np.atleast_1d(variance)
    return TrueMixture([1.0], stats.norm(), mean[:, None, None], np.sqrt(variance)[:, None, None])


@given(
    means=st.lists(st.floats(-2, 2), min_size=2, max_size=2),
    variances=st.lists(st.floats(0.5, 2), min_size=2, max_size=2),
)
def test_kl_of_two_gaussians(means, variances):
    p, q = gaussian(means, variances), gaussian([0.0, 0.0], [1.0, 1.0])
    exact = 0.5 * sum(v + m**2 - 1 - np.log(v) for m, v in zip(means, variances, strict=True))
    value, standard_error, n_samples = kl_divergence_mc(p, q, 4000, random_state=0)
    assert n_samples == 4000
    assert abs(value - exact) <= 5 * standard_error + 1e-12


def test_standard_error_is_the_spread_of_estimates():
    p, q = gaussian(0.0, 1.0), gaussian(1.0, 2.0)
    estimates = [kl_divergence_mc(p, q, 200, random_state=seed) for seed in range(300)]
    spread = np.std([estimate.value for estimate in estimates])
    assert spread == pytest.approx(np.mean([estimate.standard_error for estimate in estimates]), rel=0.15)
    # Kl of a density to itself is zero.
    mixture = make_smooth_mixture("gamma", 1, random_state=0).mixture
    assert kl_divergence_mc(mixture, mixture, 100, random_state=0) == (0, 0, 100)


def test_kl_is_repeatable_and_takes_samples():
    X, _, mixture = make_smooth_mixture("gmm", 300, 3, 2, random_state=0)
    learned = GaussianMixture(2, covariance_type="diag", random_state=0).fit(X)
    assert kl_divergence_mc(mixture, learned, 500, random_state=1) == kl_divergence_mc(
        mixture, learned, 500, random_state=1
    )
    drawn, _ = mixture.sample(500, random_state=1)
    assert kl_divergence_mc(mixture, learned, 500, random_state=1) == kl_divergence_mc(mixture, learned, X=drawn)
    given_samples = kl_divergence_mc(mixture, learned, X=X)
    differences = mixture.logpdf(X) - learned.score_samples(X)
    assert given_samples.value == pytest.approx(differences.mean())
    assert given_samples.standard_error == pytest.approx(differences.std(ddof=1) / np.sqrt(300))
    assert given_samples.n_samples == 300


def test_densities_of_other_libraries_can_be_the_true_one():
    X = np.random.default_rng(0).normal(size=(200, 2))
    fitted = GaussianMixture(1, covariance_type="diag", random_state=0).fit(X)
    same = gaussian(fitted.means_[0], fitted.covariances_[0])
    assert kl_divergence_mc(fitted, same, 50).value == pytest.approx(0, abs=1e-12)
    frozen = stats.multivariate_normal(fitted.means_[0], np.diag(fitted.covariances_[0]))
    assert kl_divergence_mc(frozen, same, 50, random_state=0).value == pytest.approx(0, abs=1e-12)
    kernels = KernelDensity(bandwidth=0.3).fit(X)
    assert kl_divergence_mc(kernels, same, 500, random_state=0).value > 0


def test_zero_of_the_learned_density_is_an_error_not_infinity():
    p = gaussian(0.0, 1.0)
    q = TrueMixture([1.0], stats.uniform(), np.full((1, 1, 1), -1.0), np.full((1, 1, 1), 2.0))
    with pytest.raises(InvalidInputError, match=r"learned density is zero at \d+ of 1000 samples"):
        kl_divergence_mc(p, q, 1000, random_state=0)
    assert kl_divergence_mc(q, p, 1000, random_state=0).value > 0
    with pytest.raises(InvalidInputError, match="true density is zero at 1 of 2 samples"):
        kl_divergence_mc(q, p, X=[[0.0], [5.0]])


def test_wrong_densities():
    p = gaussian(0.0, 1.0)
    with pytest.raises(InvalidTypeError, match="learned is int"):
        kl_divergence_mc(p, 3)
    for X in (None, [[0.0], [1.0]]):
        with pytest.raises(InvalidTypeError, match="true is int; expected an object with logpdf"):
            kl_divergence_mc(3, p, X=X)
    for wrong in (1, 2.0, None):
        with pytest.raises((InvalidInputError, InvalidTypeError), match="n_samples is"):
            kl_divergence_mc(p, p, wrong)
    with pytest.raises(InvalidInputError, match="at least two samples"):
        kl_divergence_mc(p, p, X=[[0.0]])
    with pytest.raises(InvalidInputError, match="is no number; expected finite"):
        kl_divergence_mc(p, SimpleNamespace(logpdf=lambda X: np.full(len(X), np.nan)), 10)
    with pytest.raises(InvalidInputError, match="shapes"):
        kl_divergence_mc(p, SimpleNamespace(logpdf=lambda X: np.zeros(3)), 10)
