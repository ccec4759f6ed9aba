"""Sums by which samples are known again."""

import cmath
import math

import numpy as np
import pytest

from tensorly_smp.codes import sample_sums as module
from tensorly_smp.codes.sample_sums import difference_of_samples, sample_sums

RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=(50, 3)) * [1, 10, 0.1] + [0, 100, 5]
VALUES[RNG.random(VALUES.shape) < 0.2] = np.nan
WEIGHTS = RNG.uniform(0, 3, 50)
EDGES = [np.linspace(np.nanmin(column), np.nanmax(column), 5 + n) for n, column in enumerate(VALUES.T)]


def one_by_one(values, weights, edges):
    total, entries, wave, size, doubles = 0.0, 0.0, 0.0, 0.0, 0
    for row, weight in zip(values, weights, strict=True):
        angle, square = 0.0, 0.0
        for n, x in enumerate(row):
            if not math.isnan(x):
                place = (x - edges[n][0]) / (edges[n][-1] - edges[n][0])
                factor = 0.5 + math.fmod((n + 1) * (math.sqrt(5) - 1) / 2, 1.0)
                factor *= 2 * math.pi / math.sqrt(len(row))
                angle += factor * (place - 0.5)
                square += (factor * x / (edges[n][-1] - edges[n][0])) ** 2
                entries += weight
                doubles += weight > 0 and float(np.float32(x)) != x
        total += weight
        wave += weight * cmath.exp(1j * angle)
        size += weight * math.sqrt(square)
    return [total, entries, wave.real, wave.imag, size, doubles]


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_sums_are_the_characteristic_function(weights, monkeypatch):
    expected = one_by_one(VALUES, np.ones(50) if weights is None else weights, EDGES)
    np.testing.assert_allclose(sample_sums(VALUES, weights, EDGES), expected, rtol=1e-12)
    monkeypatch.setattr(module, "BLOCK_ENTRIES", 20)
    np.testing.assert_allclose(sample_sums(VALUES, weights, EDGES), expected, rtol=1e-12)
    parts = [sample_sums(VALUES[i], None if weights is None else weights[i], EDGES) for i in np.split(np.arange(50), 2)]
    np.testing.assert_allclose(np.sum(parts, axis=0), expected, rtol=1e-12)


def difference(recorded, values, weights, edges):
    return difference_of_samples(sample_sums(values, weights, edges), recorded)


def test_values_as_large_as_floats_have_sums():
    edges = [np.array([-1.7e308, 0.0, 1.7e308])] * 2
    values = np.array([[1.7e308, -1.7e308], [0.0, np.nan]])
    recorded = sample_sums(values, None, edges)
    np.testing.assert_allclose(recorded[:5], one_by_one(values / 1e300, np.ones(2), [e / 1e300 for e in edges])[:5])
    assert difference(recorded, values, None, edges) is None
    narrow = [np.array([0.0, 1e-300])] * 2  # bins of most of the values leave the others beyond
    assert np.isfinite(sample_sums(values, None, narrow)).all()
    assert np.isfinite(sample_sums(values, None, edges, values, np.full((2, 2), 1e300))).all()


@pytest.mark.parametrize("n_variables", [3, 1000])
def test_single_precision_is_no_difference_but_another_row_is(n_variables):
    values = np.random.default_rng(1).normal(5, 1, size=(2000, n_variables)).round(1)
    edges = [np.linspace(0, 10, 8)] * n_variables
    recorded = sample_sums(values, None, edges)
    single = values.astype(np.float32).astype(float)
    assert difference(recorded, single, None, edges) is None
    assert difference(sample_sums(single, None, edges), values, None, edges) is None
    assert difference(recorded, np.where(np.arange(n_variables) == 1, single, values), None, edges) is None
    assert difference(recorded, values[::-1], None, edges) is None
    other = values.copy()
    other[0] += 1.0
    assert "values are others" in difference(recorded, other, None, edges)
    assert "values are others" in difference(recorded, values + 1e6, None, edges)
    assert "weights of samples sum to 4000" in difference(recorded, values, np.full(2000, 2.0), edges)
    other[0, 0] = np.nan
    assert "entries are observed" in difference(recorded, other, None, edges)


def test_a_variable_far_from_zero_hides_no_difference():
    """Single precision would leave nothing of it, so that it is not asked where neither has been in that."""
    values = np.random.default_rng(1).normal(size=(500, 3)) * [1, 1e-8, 1] + [0, 1e3, 0]
    edges = [np.linspace(column.min(), column.max(), 8) for column in values.T]
    recorded = sample_sums(values, None, edges)
    assert difference(recorded, values.astype(np.float32).astype(float), None, edges) is None
    assert difference(recorded, values[::-1], None, edges) is None
    assert "values are others" in difference(recorded, np.random.default_rng(2).permuted(values, axis=0), None, edges)
