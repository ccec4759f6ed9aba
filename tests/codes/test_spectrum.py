from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import erfc

from tensorly_smp.codes.binning import Binning, choose_binning
from tensorly_smp.codes.characteristic_function import EnergySpectrum, observed_values
from tensorly_smp.codes.spectrum import FEWEST_SAMPLES, HIGHEST, SHARE_THRESHOLD, SIGNIFICANCE, nyquist_issues
from tensorly_smp.exceptions import ConstantVariableWarning


def rng():
    return np.random.default_rng(0)


def band_limited(n_samples, generator):
    """Samples of (1 - cos x) / (pi x^2), whose characteristic function is the triangle 1 - |t| on [-1, 1]."""
    x = generator.standard_cauchy(4 * n_samples)
    # (1 - cos x)(1 + x^2)/x^2 is at most 2.6
    accepted = x[2.6 * generator.random(len(x)) < (1 - np.cos(x)) / x**2 * (1 + x**2)]
    assert len(accepted) >= n_samples
    return accepted[:n_samples]


def share_beyond(values, width, sample_weight=None):
    """Share of the spectrum beyond pi / width and its standard error, with as many bins as the values fill."""
    observed, weights = observed_values(np.asarray(values), sample_weight)
    with np.errstate(over="ignore"):
        n_steps = int(np.clip(np.ceil((observed.max() - observed.min()) / width), 16, 256))
    spectrum = EnergySpectrum.of(observed, weights, observed.min(), width, n_steps)
    return Share(*spectrum.share(n_steps, HIGHEST * n_steps))


class Share(NamedTuple):
    share: float
    standard_error: float

    def exceeds(self, threshold=SHARE_THRESHOLD):
        return self.share - SIGNIFICANCE * self.standard_error > threshold


# What the share should be, of the energy up to three times the limit.


def gaussian_share(limit):
    return (erfc(limit) - erfc(3 * limit)) / (1 - erfc(3 * limit))


def triangle_share(limit):
    return max(1 - limit, 0.0) ** 3 / (1 - max(1 - 3 * limit, 0.0) ** 3)


def laplace_share(limit):
    below, above = (0.5 * (t / (1 + t**2) + np.arctan(t)) for t in (limit, 3 * limit))
    return 1 - below / above


CASES = {
    "gaussian": (lambda size, generator: generator.normal(size=size), gaussian_share, (1.5, 2.0, 3.0)),
    "triangle": (band_limited, triangle_share, (0.9 * np.pi, 1.5 * np.pi, 2 * np.pi)),
    "laplace": (lambda size, generator: generator.laplace(size=size), laplace_share, (1.0, 2.0)),
}


# ---- the share ----


@pytest.mark.parametrize("kind", CASES)
def test_share_of_known_densities(kind):
    draw, share, widths = CASES[kind]
    values = draw(100_000, rng())
    for width in widths:
        found = share_beyond(values, width)
        # the trapezoid rule, where a spectrum is steep, is good to 0.0005
        assert abs(found.share - share(np.pi / width)) < 4 * found.standard_error + 5e-4
        assert found.standard_error < 0.005


@pytest.mark.parametrize(("kind", "width"), [("gaussian", 2.0), ("triangle", 2 * np.pi), ("laplace", 2.0)])
@pytest.mark.parametrize("n_samples", [50, 500])
def test_unbiased_and_errors_cover(kind, width, n_samples):
    draw, share, _ = CASES[kind]
    truth, generator = share(np.pi / width), rng()
    found = [share_beyond(draw(n_samples, generator), width) for _ in range(300)]
    shares, errors = np.array([(each.share, each.standard_error) for each in found]).T
    assert abs(shares.mean() - truth) < 4 * shares.std() / np.sqrt(300) + 0.1 * shares.std()
    assert shares.std() == pytest.approx(errors.mean(), rel=0.2)
    assert np.mean(np.abs(shares - truth) < 2 * errors) > 0.88
    assert np.mean(shares - truth > 3 * errors) < 0.015


def test_nothing_beyond_the_band_but_noise():
    draws = [band_limited(2000, np.random.default_rng(seed)) for seed in range(50)]
    found = [share_beyond(values, np.pi / 1.1) for values in draws]
    shares = np.array([each.share for each in found])
    assert abs(shares.mean()) < 4 * shares.std() / np.sqrt(50)
    assert not any(each.exceeds(0.0) for each in found)


@given(
    st.sampled_from([1e-12, 1e-3, 1.0, 7.0, 1e12, 1e200]), st.sampled_from([0.0, 1.0, -30.0]), st.integers(0, 2**32 - 1)
)
def test_scale_shift_and_order_do_not_matter(scale, shift, seed):
    values = np.random.default_rng(seed).laplace(size=300)
    other = scale * (values[::-1] + shift)
    plain, moved = share_beyond(values, 1.5), share_beyond(other, scale * 1.5)
    assert moved.share == pytest.approx(plain.share, abs=1e-3)  # a value on the edge of a cell may change sides
    assert moved.standard_error == pytest.approx(plain.standard_error, rel=0.05)


def test_reflection_and_permutation_are_exact():
    values = rng().integers(0, 1000, 500) / 64.0
    found = share_beyond(values, 1.0)
    other = share_beyond(rng().permutation(values), 1.0)
    assert other.share == pytest.approx(found.share, rel=1e-12)
    assert share_beyond(-values, 1.0).share == pytest.approx(found.share, rel=1e-9)


def test_missing_values_are_skipped():
    values = rng().normal(size=200)
    holed = np.insert(values, [0, 5, 5, 200], np.nan)
    assert share_beyond(holed, 1.0) == share_beyond(values, 1.0)


def test_weights():
    values = rng().normal(size=400)
    plain = share_beyond(values, 2.0)
    assert share_beyond(values, 2.0, np.full(400, 1e-300)).share == pytest.approx(plain.share)
    masked = share_beyond(np.append(values, 1e9), 2.0, np.append(np.ones(400), 0.0))
    assert masked.share == pytest.approx(plain.share)
    uneven = share_beyond(values, 2.0, np.where(np.arange(400) < 100, 1.0, 1e-6))
    assert uneven.share == pytest.approx(share_beyond(values[:100], 2.0).share, abs=1e-3)
    assert uneven.standard_error > 1.5 * plain.standard_error


def test_errors_cover_with_weights():
    generator, shares, errors = rng(), [], []
    for _ in range(300):
        found = share_beyond(generator.normal(size=400), 2.0, generator.gamma(0.5, size=400))
        shares.append(found.share)
        errors.append(found.standard_error)
    assert np.std(shares) == pytest.approx(np.mean(errors), rel=0.2)
    assert np.mean(shares) == pytest.approx(gaussian_share(np.pi / 2), abs=0.005)


@pytest.mark.parametrize("spacing", [1e-3, 0.05, 0.2])
def test_fine_rounding_is_no_matter(spacing):
    values = spacing * np.round(rng().normal(size=5000) / spacing)
    assert not share_beyond(values, 1.0).exceeds()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_an_atom_is_beyond_all_bins(share):
    values = rng().normal(size=5000)
    values[: int(share * 5000)] = 0.0
    assert share_beyond(values, 0.5).exceeds()


# ---- hostile input ----


@pytest.mark.parametrize(
    "values",
    [
        [0.0, 1e300],
        [-1.7e308, 1.7e308],
        [1e12, 1e12 + 1e-4],
        [5e-324, 0.0],
        [3.0] * 50,
        [0.0] * 49 + [1e200],
        [1e-300, 2e-300, 3e-300],
    ],
)
@pytest.mark.parametrize("width", [1e-300, 1e-12, 1.0, 1e300])
def test_all_numbers_are_finite(values, width):
    found = share_beyond(np.array(values), width)
    assert np.isfinite(found).all()
    assert found.standard_error >= 0


def test_one_sample_with_all_the_weight():
    found = share_beyond(np.array([0.0, 1.0, 2.0]), 1.0, np.array([1.0, 1e-200, 1e-200]))
    assert np.isfinite(found).all()
    X, binning = np.array([[0.0], [1.0], [2.0]]), Binning((np.linspace(0, 2, 4),))
    assert nyquist_issues(X, binning, np.array([1.0, 1e-200, 1e-200])) == []


def test_no_verdict_on_few_samples():
    binning = Binning((np.linspace(-0.5, 1.5, 3),))
    values = np.repeat([0.0, 1.0], FEWEST_SAMPLES)[:, None]
    assert nyquist_issues(values[1:-1:2], binning) == []
    assert len(nyquist_issues(values[::2], binning)) == 1


# ---- the concerns ----


@pytest.fixture(scope="module")
def mixed():
    generator = rng()
    columns = [
        generator.normal(size=5000),
        generator.laplace(size=5000),
        generator.poisson(2.0, 5000),
        np.full(5000, 3.0),
        generator.normal(size=5000),
    ]
    X = np.stack(columns, axis=1).astype(float)
    X[generator.random(X.shape) < 0.1] = np.nan
    return X


def binned(X, n_bins, names="abcde", **options):
    with pytest.warns(ConstantVariableWarning):
        binning = choose_binning(X, n_bins, **options)
    return Binning(binning.edges, tuple(names), binning.strategy)


def test_names_what_is_coarse_or_repeats_values(mixed):
    (message,) = nyquist_issues(mixed, binned(mixed, [12, 8, 12, 12, 3]))
    assert [name for name in "abcde" if f"'{name}' (" in message] == ["b", "c", "e"]
    assert "with 8 bins" in message
    assert "with 3 bins" in message
    assert "Where values repeat" in message


def test_share_that_is_named_is_that_of_the_spectrum(mixed):
    (message,) = nyquist_issues(mixed[:, :1], choose_binning(mixed[:, :1], 3))
    column = mixed[~np.isnan(mixed[:, 0]), 0]
    named = float(message.split("'x0' (")[1].split(" %")[0])
    assert named == pytest.approx(100 * share_beyond(column, np.ptp(column) / 3).share, abs=0.3)


def test_few_samples_and_bins_of_unequal_width_get_no_verdict(mixed):
    X = mixed[:, :2]
    assert nyquist_issues(X[:10], choose_binning(X, 2)) == []
    assert nyquist_issues(X, choose_binning(X, 3, "quantile")) == []
    assert len(nyquist_issues(X, choose_binning(X, 3))) == 1


def test_weights_choose_the_samples():
    generator = rng()
    X = np.concatenate([generator.normal(0, 3, 2000), generator.normal(0, 0.1, 2000)])[:, None]
    binning = choose_binning(X, 15)
    assert len(nyquist_issues(X, binning)) == 1
    assert nyquist_issues(X, binning, np.repeat([1.0, 0.0], 2000)) == []


@pytest.mark.parametrize("n_bins", [2, 3, 7, 15, 100, 1000])
def test_any_number_of_bins(n_bins):
    X = rng().normal(size=(2000, 1))
    assert bool(nyquist_issues(X, choose_binning(X, n_bins))) == (n_bins < 5)


def test_far_values_need_no_room():
    X = np.append(rng().normal(size=5000), [1e9, -1e300])[:, None]
    binning = choose_binning(X, 12, range=(-4, 4))
    assert nyquist_issues(X, binning) == []


def test_long_lists_are_cut():
    X = np.tile(rng().laplace(size=(2000, 1)), 30)
    (coarse,) = nyquist_issues(X, choose_binning(X, 6))
    assert "and 20 more. Take more bins" in coarse
