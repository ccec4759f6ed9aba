"""Discrete variables have probabilities of their values: what latent class analysis says of them."""

import importlib
import sys
from itertools import product
from pathlib import Path

import numpy as np
import oracles
import pytest

import tensorly_smp as smp
from tensorly_smp.fitting.fit_samples import ReadSamples, Variables

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
latent_class = importlib.import_module("latent_class")
CODES = [
    np.array([0, 1, 5, 6, 20]),
    np.array([-3, 0, 1, 2, 9, 10]),
    np.arange(5),
    np.array([1, 2, 4, 8, 16]),
    3 * np.arange(6),
]

pytestmark = pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.TensorlySmpWarning")


def rows(name):
    patterns, counts = latent_class.patterns(name)
    return np.repeat(patterns.to_numpy(float), counts, axis=0)


def fit(X, n_components, **parameters):
    return smp.SmoothProductMixture(n_components, random_state=0, **parameters).fit(X)


def items(n_samples):
    rng = np.random.default_rng(0)
    p = np.where(rng.random(n_samples)[:, None] < 0.4, 0.8, 0.15)
    return (rng.random((n_samples, 6)) < p).astype(float)


@pytest.fixture(scope="module")
def of_items():
    return fit(items(1000), 2)


def mixed_samples():
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=1000)
    return np.column_stack(
        [
            rng.normal(size=1000) + 5 * z,
            rng.normal(size=1000) + 5 * z,
            rng.choice([0.0, 1.0, 10.0], size=1000, p=[0.2, 0.6, 0.2]),
        ]
    )


@pytest.fixture(scope="module")
def of_mixed():
    return fit(mixed_samples(), 2)


@pytest.mark.parametrize(("name", "n_classes"), latent_class.PUBLISHED)
def test_published_fits(name, n_classes):
    X = rows(name)
    model = fit(X, n_classes)
    published, bic, weights = latent_class.PUBLISHED[name, n_classes]
    total = model.score_samples(X).sum()
    assert published is None or total == pytest.approx(published, abs=0.1)
    assert model.result_.attrs["total_log_likelihood"] == pytest.approx(total, abs=1e-6)
    assert bic is None or model.bic(X) == pytest.approx(bic, abs=1)
    if weights:
        np.testing.assert_allclose(model.weights_, weights, atol=0.005)
    if n_classes < 4:  # of four classes the likelihood is flat
        shares, tables, likelihood = oracles.plain_latent_class(X, model.predict_proba(X), 100)
        assert likelihood == pytest.approx(total, abs=0.01)
        np.testing.assert_allclose(model.weights_, shares, atol=0.005)
        for n, r in product(range(X.shape[1]), range(n_classes)):
            values = list(tables[n][r])
            found = model.density_.pdf_1d(values, f"x{n}", r)
            np.testing.assert_allclose(found, list(tables[n][r].values()), atol=0.005)
    patterns, counts = latent_class.patterns(name)
    by_counts = latent_class.fit(name, n_classes)
    assert by_counts.score(patterns, sample_weight=counts) * counts.sum() == pytest.approx(total, abs=1e-6)
    np.testing.assert_allclose(by_counts.weights_, model.weights_, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["carcinoma", "cheating"])
def test_bins_of_values_end_at_the_same_fit(name):
    X = rows(name)
    model = fit(X, 2)
    by_bins = fit(X, 2, refine="em")
    np.testing.assert_allclose(by_bins.score_samples(X).sum(), model.score_samples(X).sum(), atol=0.01)
    cells = np.unique(X, axis=0)
    factors = fit(X, 2, refine=None)
    assert np.exp(factors.score_samples(cells)).sum() <= 1.0 + 1e-12
    assert factors.score_samples(X).sum() <= model.score_samples(X).sum() + 0.1  # of the largest likelihood


def test_densities_of_values_sum_to_one_and_have_their_moments(of_items, of_mixed):
    cells = np.array(list(product([0.0, 1.0], repeat=6)))
    assert np.exp(of_items.score_samples(cells)).sum() == pytest.approx(1.0, abs=1e-12)
    inside = of_items.score_samples(cells).min()
    cells[:, 0] = 0.5  # no value
    outside = of_items.score_samples(cells)
    assert np.isfinite(outside).all()
    assert outside.max() < inside - 600
    # Moments are those of the values.
    X = mixed_samples()
    assert of_mixed.density_.mean()[2] == pytest.approx(X[:, 2].mean(), abs=0.01)
    assert of_mixed.density_.var()[2] == pytest.approx(X[:, 2].var(), rel=0.01)
    p = items(1000)[:, 0].mean()
    assert of_items.density_.var()[0] == pytest.approx(p * (1 - p), abs=1e-3)
    assert of_items.density_.pdf_1d([-1.0, 0.5], "x0").tolist() == [0.0, 0.0]
    # A mixed density integrates and sums to one.
    x = np.linspace(-60.0, 70.0, 200_001)
    total = 0.0
    for value in (0.0, 1.0, 10.0):
        of_value = of_mixed.density_.marginal(["x0", "x2"])
        total += np.trapezoid(of_value.pdf(np.column_stack([x, np.full(len(x), value)])), x)
    assert total == pytest.approx(1.0, abs=1e-5)


def test_parameters_and_criteria_are_those_of_a_latent_class_model():
    rng = np.random.default_rng(0)
    z = rng.integers(3, size=2000)
    shares = [rng.dirichlet(np.ones(len(codes)), 3) for codes in CODES]
    places = np.stack([[rng.choice(len(p[0]), p=p[k]) for k in z] for p in shares], axis=1)
    X = np.stack([codes[place] for codes, place in zip(CODES, places.T, strict=True)], axis=1).astype(float)
    model = fit(X, 3)
    assert model.n_parameters_ == 2 + 3 * sum(len(codes) - 1 for codes in CODES) == 68
    _, _, likelihood = oracles.plain_latent_class(X, model.predict_proba(X), 3)
    assert model.bic(X) == pytest.approx(-2 * likelihood + 68 * np.log(2000), abs=0.1)
    assert model.aic(X) == pytest.approx(-2 * likelihood + 2 * 68, abs=0.1)
    # Codes are names: others of the same order give the same fit.
    np.testing.assert_allclose(fit(places.astype(float), 3).bic(places.astype(float)), model.bic(X), rtol=1e-9)


def test_standard_error_of_an_item_is_at_least_that_with_known_labels():
    rng = np.random.default_rng(0)
    z = rng.random(1000) < 0.4
    X = (rng.random((1000, 5)) < np.where(z[:, None], 0.9, 0.1)).astype(float)
    model = fit(X, 2)
    replicates = model.bootstrap(X, 100, random_state=0)
    p = model.density_.cdf_1d(0.0, "x0", "all")
    binomial = np.sqrt(p * (1 - p) / (1000 * model.weights_))
    found = replicates.cdf.values[:, 0, 0].std(axis=0)
    # A standard deviation of 100 replicates is known to 7 %; labels that are not known add to it.
    assert (found > 0.8 * binomial).all()
    assert (found < 1.6 * binomial).all()


def test_the_list_is_that_of_all_samples():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(200_000, 2)), rng.integers(0, 3, 200_000)])
    X[77_777, 2] = 1.5
    data = ReadSamples.of(X, None, None, None, None)
    assert not (data.subsample.values[:, 2] == 1.5).any()
    variables = Variables.of(data.subsample, distinct_values=data.distinct_values)
    assert variables.values[2].tolist() == [0, 1, 1.5, 2]
    X[:, 2] += np.where(np.arange(200_000) % 7_777 == 1, rng.random(200_000), 0.0)  # many values
    data = ReadSamples.of(X, None, None, None, None)
    assert Variables.of(data.subsample, distinct_values=data.distinct_values).values == {}


def test_rounding_noise_and_equal_rows():
    rng = np.random.default_rng(0)
    clean = rng.integers(0, 4, (300, 4)) / 10
    terms = 1e3 * rng.random(clean.shape)
    noisy = (clean + terms) - terms
    model = fit(noisy, 2)
    assert [len(values) for values in model.binning_.values.values()] == [4] * 4
    expected = fit(clean, 2).score(clean)
    assert model.score(noisy) == pytest.approx(expected, abs=1e-3)
    assert model.score(clean) == pytest.approx(expected, abs=1e-3)
    # Equal rows are constants.
    row = np.array([[1.0, 2.0, 3.0]])
    for X, counts in ((np.repeat(row, 50, axis=0), None), (row, [50])):
        with pytest.warns(smp.exceptions.ConstantVariableWarning, match="'x0', 'x1', 'x2' take a single value"):
            model = smp.SmoothProductMixture(2, random_state=0).fit(X, sample_weight=counts)
        assert model.score(X) == pytest.approx(0.0, abs=1e-12)
