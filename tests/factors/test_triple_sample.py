"""Sums over histograms of single triples against loops, and which triples are drawn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import count_triple, model_tensor

from tensorly_smp.codes.encoding import Codes
from tensorly_smp.factors import implicit
from tensorly_smp.factors.implicit import couple_codes, draw_triples
from tensorly_smp.factors.mixture_factors import MixtureFactors

N_BINS = (3, 2, 4, 3)


def make_coupled(seed, n_samples=9, n_bins=N_BINS):
    """Samples of which some entries are missing, ready for the solver, and their codes and weights."""
    rng = np.random.default_rng(seed)
    values = np.column_stack([rng.integers(-1, size, n_samples) for size in n_bins])
    values[0] = 0  # complete
    weights = rng.random(n_samples) + 0.1
    return couple_codes(Codes.from_array(values, n_bins=n_bins), weights), values, weights, rng


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.SparseHistogramWarning")
@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.ConstantVariableWarning")
@given(st.integers(0, 2**31), st.booleans())
def test_sum_of_squared_distances_is_that_of_loops(seed, with_model):
    coupled, values, weights, rng = make_coupled(seed)
    columns = [rng.dirichlet(np.ones(size), 2).T for size in N_BINS]
    model = MixtureFactors(rng.dirichlet(np.ones(2)), columns) if with_model else None
    counts = {triple: count_triple(values, triple, N_BINS, weights) for triple in map(tuple, coupled.drawn)}
    mean_total = np.mean([count.sum() for count in counts.values() if count.sum() > 0])
    expected = 0.0
    for triple, count in counts.items():
        total = count.sum()
        fitted = model_tensor(model.weights, *(columns[n] for n in triple)) if with_model else 0.0
        expected += total / mean_total * ((count / max(total, 1e-300) - fitted) ** 2).sum()
    found, error = coupled.estimated_loss(model)
    assert error == 0
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_far_more_cells_than_samples():
    n_bins = (300, 2000, 4000)  # more cells than 32 bits hold
    coupled, values, weights, _ = make_coupled(0, n_samples=20, n_bins=n_bins)
    complete = (values >= 0).all(axis=1)
    _, cell = np.unique(values[complete], axis=0, return_inverse=True)
    counts = np.bincount(cell.ravel(), weights[complete])
    np.testing.assert_allclose(coupled.squared_norm, (counts**2).sum() / counts.sum() ** 2)


@pytest.mark.parametrize(("n_samples", "n_drawn"), [(9, 20), (1000, 12)])
def test_part_that_is_drawn(monkeypatch, n_samples, n_drawn):
    monkeypatch.setattr(implicit, "MOST_COUNTED", 100)
    monkeypatch.setattr(implicit, "N_DRAWN", 20)
    monkeypatch.setattr(implicit, "FEWEST_DRAWN", 6)
    monkeypatch.setattr(implicit, "MOST_ENTRIES", 12_000)
    triples = draw_triples(12, n_samples)
    assert len(triples) == n_drawn
    assert (triples == draw_triples(12, n_samples)).all()
    assert np.ptp(np.bincount(triples.ravel(), minlength=12)) <= 1
    assert len(draw_triples(7, n_samples)) == 35
