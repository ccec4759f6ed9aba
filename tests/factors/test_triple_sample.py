"""Histograms of single triples against loops, and which triples are drawn."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import count_triple, model_tensor

from tensorly_smp.factors import triple_sample
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.factors.triple_sample import TripleSample

N_BINS = (3, 2, 4, 3)


def make_sample(seed, n_samples=9, n_bins=N_BINS):
    """The sample of triples, and the codes of loops."""
    rng = np.random.default_rng(seed)
    columns = np.array([rng.integers(0, size + 1, n_samples) for size in n_bins], dtype=np.uint16)
    values = np.where(columns == np.array(n_bins)[:, None], -1, columns.astype(int)).T
    return TripleSample.draw(columns, rng.random(n_samples) + 0.1, n_bins), values, rng


@given(st.integers(0, 2**31), st.booleans())
def test_totals_and_squared_distances_are_those_of_loops(seed, with_model):
    sample, values, rng = make_sample(seed)
    assert sample.is_all
    columns = [rng.dirichlet(np.ones(size), 2).T for size in N_BINS]
    model = MixtureFactors(rng.dirichlet(np.ones(2)), columns) if with_model else None
    counts = [count_triple(values, triple, N_BINS, sample.weights) for triple in sample.triples]
    totals = np.array([count.sum() for count in counts])
    np.testing.assert_allclose(sample.totals(), totals)
    expected = []
    for triple, count in zip(sample.triples, counts, strict=True):
        fitted = model_tensor(model.weights, *(columns[n] for n in triple)) if with_model else 0.0
        expected.append(count.sum() * ((count / max(count.sum(), 1e-300) - fitted) ** 2).sum())
    np.testing.assert_allclose(sample.squared_distances(model), expected, atol=1e-13)


def test_far_more_cells_than_samples():
    n_bins = (300, 2000, 4000)  # more cells than 32 bits hold
    sample, values, _ = make_sample(0, n_samples=20, n_bins=n_bins)
    complete = (values >= 0).all(axis=1)
    _, cell = np.unique(values[complete], axis=0, return_inverse=True)
    counts = np.bincount(cell.ravel(), sample.weights[complete])
    np.testing.assert_allclose(sample.squared_distances(), [(counts**2).sum() / counts.sum()])


def test_complete_samples_are_in_all_triples():
    sample, *_ = make_sample(0)
    complete = replace(sample, columns=np.zeros_like(sample.columns))
    np.testing.assert_allclose(complete.totals(), sample.weights.sum())


@pytest.mark.parametrize(("n_samples", "n_drawn"), [(9, 20), (1000, 12)])
def test_part_that_is_drawn(monkeypatch, n_samples, n_drawn):
    monkeypatch.setattr(triple_sample, "MOST_COUNTED", 100)
    monkeypatch.setattr(triple_sample, "N_DRAWN", 20)
    monkeypatch.setattr(triple_sample, "FEWEST_DRAWN", 6)
    monkeypatch.setattr(triple_sample, "MOST_ENTRIES", 12_000)
    first, second = (make_sample(seed, n_samples, (2,) * 12)[0] for seed in (0, 1))
    assert not first.is_all
    assert first.n_possible == 220
    assert len(first.triples) == n_drawn
    assert (first.triples == second.triples).all()  # whatever the samples
    uses = np.bincount(first.triples.ravel(), minlength=12)
    assert np.ptp(uses) <= 1
