"""The paper's four synthetic mixtures: parameters as printed, a truth that only the seed decides, missing entries."""

import numpy as np
import pytest
from scipy import stats

from tensorly_smp.datasets import make_smooth_mixture
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError

KINDS = ["gaussian", "gmm", "gamma", "laplace"]
# Smallest and largest mean and variance of one conditional density, from the ranges of the parameters.
RANGES = {
    "gaussian": ((-5, 5), (1, 2)),
    # Halves mu1 and mu2: the mean of both, and mean variance plus ((mu1 - mu2) / 2)^2.
    "gmm": ((-3.5, 3.5), (1, 4 + 49)),
    "gamma": ((-5 + 5 * 0.1, 5 * 0.5), (5 * 0.1**2, 5 * 0.5**2)),
    "laplace": ((-5, 5), (5, 10)),
}


def truth(kind, n_variables=4, n_components=3, seed=0):
    return make_smooth_mixture(kind, 1, n_variables, n_components, random_state=seed).mixture


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_and_unpacking(kind):
    sample = make_smooth_mixture(kind, n_samples=50, n_variables=4, n_components=3, random_state=0)
    X, labels, mixture = sample
    assert X is sample.X
    assert X.shape == (50, 4)
    assert labels.shape == (50,)
    assert set(labels) <= {0, 1, 2}
    assert (mixture.n_variables, mixture.rank) == (4, 3)
    assert np.isfinite(X).all()
    default = make_smooth_mixture(random_state=0)  # the paper's sizes
    assert (default.X.shape, default.mixture.rank) == ((5000, 10), 5)


@pytest.mark.parametrize("kind", KINDS)
def test_truth_depends_on_the_seed_and_the_sizes_of_the_model_only(kind):
    few = make_smooth_mixture(kind, n_samples=3, random_state=5)
    many = make_smooth_mixture(kind, n_samples=400, missing=0.3, random_state=5)
    other = make_smooth_mixture(kind, n_samples=3, random_state=6)
    for name in ("weights", "loc", "scale"):
        np.testing.assert_array_equal(getattr(few.mixture, name), getattr(many.mixture, name))
        assert (getattr(few.mixture, name) != getattr(other.mixture, name)).all()


def test_missing_entries_leave_the_other_values_as_they_are():
    complete = make_smooth_mixture("gmm", 500, random_state=5)
    partial = make_smooth_mixture("gmm", 500, missing=0.3, random_state=5)
    observed = ~np.isnan(partial.X)
    np.testing.assert_array_equal(partial.X[observed], complete.X[observed])
    np.testing.assert_array_equal(partial.labels, complete.labels)
    # Same seed same samples and a generator advances.
    a, b = (make_smooth_mixture("gmm", 20, random_state=5, missing=0.2) for _ in range(2))
    np.testing.assert_array_equal(a.X, b.X)
    generator = np.random.default_rng(5)
    a, b = (make_smooth_mixture("gmm", 20, random_state=generator) for _ in range(2))
    assert (a.X != b.X).all()


@pytest.mark.parametrize(("share", "n_variables"), [(0.0, 10), (0.3, 10), (0.9, 3), (0.5, 1)])
def test_share_of_missing_entries_and_no_empty_row(share, n_variables):
    X = make_smooth_mixture("gaussian", 20_000, n_variables, 2, missing=share, random_state=1).X
    missing = np.isnan(X)
    assert not missing.all(axis=1).any()
    # A row that would lose everything, with probability share^N, gets one entry back.
    expected = share - share**n_variables / n_variables
    assert abs(missing.mean() - expected) < 5 * np.sqrt(0.25 / X.size)
    # No variable is favored.
    assert np.ptp(missing.mean(axis=0)) < 0.03


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_lie_in_the_printed_ranges_and_fill_them(kind):
    mixture = truth(kind, n_variables=60, n_components=20)
    mean = mixture.loc + mixture.scale * mixture.standard.mean()
    variance = mixture.scale**2 * mixture.standard.var()
    total_mean = mean.mean(axis=2)
    total_variance = variance.mean(axis=2) + mean.var(axis=2)
    for values, (low, high) in zip((total_mean, total_variance), RANGES[kind], strict=True):
        assert low <= values.min()
        assert values.max() <= high
        assert np.ptp(values) > 0.8 * (high - low) or kind == "gmm"
    if kind == "gmm":
        assert ((mean[..., 0] > 0) & (mean[..., 0] < 7) & (mean[..., 1] < 0) & (mean[..., 1] > -7)).all()
        assert np.ptp(mean[..., 0]) > 6.9
        assert variance.min() >= 1
        assert variance.max() <= 4
        assert np.ptp(variance) > 2.9


def test_weights_are_dirichlet_10():
    weights = np.array([truth("gaussian", 1, 4, seed).weights for seed in range(300)])
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-12)
    exact = stats.dirichlet(np.full(4, 10.0))
    np.testing.assert_allclose(weights.mean(axis=0), exact.mean(), atol=0.02)
    np.testing.assert_allclose(weights.var(axis=0), exact.var(), rtol=0.35)


@pytest.mark.parametrize("name", ["n_samples", "n_variables", "n_components"])
def test_wrong_sizes(name):
    with pytest.raises(InvalidInputError, match=f"{name} is 0"):
        make_smooth_mixture("gaussian", **{name: 0})
    for value in (2.0, True, "3"):
        with pytest.raises(InvalidTypeError, match=f"{name} is"):
            make_smooth_mixture("gaussian", **{name: value})


def test_wrong_kinds_and_shares():
    for kind in ("weibull", "", None, 3):
        with pytest.raises(InvalidInputError, match="kind is"):
            make_smooth_mixture(kind)
    for missing in (-0.1, 1.0, 2, np.nan, "half", None):
        with pytest.raises((InvalidInputError, InvalidTypeError), match="missing is"):
            make_smooth_mixture("gaussian", 5, missing=missing)
    # Names as the paper writes them.
    for name in ("Gaussian", "GMM", "shifted Gamma", " Laplace "):
        kind = name.strip().lower().removeprefix("shifted ")
        np.testing.assert_array_equal(truth(name).loc, truth(kind).loc)
