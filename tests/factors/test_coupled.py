"""Unfoldings: weights, constants, precision, and the checks of lists of tensors. Their cells: test_blocks.py."""

import numpy as np
import pytest

import tensorly_smp as smp
from tensorly_smp.codes.encoding import Codes
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.factors.coupled import couple_tensors
from tensorly_smp.marginals.histograms import count_marginals, read_tensors

MODES = [(0, 1, 2), (2, 0, 3), (3, 1, 0)]
N_BINS = (3, 2, 4, 5)


def couple(tensors, modes, weights):
    return couple_tensors(read_tensors(tensors, modes), weights)


def make_tensors(rng, modes=MODES, n_bins=N_BINS, zeros=0.0):
    tensors = [rng.random([n_bins[n] for n in mode]) for mode in modes]
    return [np.where(rng.random(t.shape) < zeros, 0.0, t) + 0.0 for t in tensors]


def test_cover_holds_every_triple_once_and_constants_are_those_of_the_losses():
    tensors = make_tensors(np.random.default_rng(0), zeros=0.4)
    coupled = couple(tensors, MODES, "count")
    triples = [sorted((u.variable, a, b)) for u in coupled.cover for a, b in zip(u.pairs_a, u.pairs_b, strict=True)]
    assert sorted(triples) == sorted(sorted(mode) for mode in MODES)
    np.testing.assert_allclose(sum(u.values.sum() for u in coupled.cover), coupled.omega.sum())
    for part in coupled.cover:  # no second copy
        assert np.shares_memory(part.values, coupled.blocks[part.variable].values)
    totals, shares = np.array([t.sum() for t in tensors]), [t / t.sum() for t in tensors]
    omega = totals / totals.mean()
    np.testing.assert_allclose(coupled.omega, omega)
    np.testing.assert_allclose(coupled.squared_norm, sum(o * (x**2).sum() for o, x in zip(omega, shares, strict=True)))
    logs = sum(o * (x[x > 0] * np.log(x[x > 0])).sum() for o, x in zip(omega, shares, strict=True))
    np.testing.assert_allclose(coupled.negative_entropy, logs)


def test_weights_are_one_on_average_and_by_count_and_empty_triples_have_none():
    values = np.random.default_rng(0).integers(0, 3, (200, 4))
    coupled = couple_tensors(count_marginals(Codes.from_array(values, n_bins=3)), "count")
    for n, moment in enumerate(coupled.univariate_marginals):
        np.testing.assert_allclose(moment, np.bincount(values[:, n], minlength=3) / 200)
    assert coupled.n_samples == 200
    values[:100, 0] = -1
    marginals = count_marginals(Codes.from_array(values, n_bins=3))
    block = couple_tensors(marginals, "count").blocks[3]
    found = {(int(a), int(b)): omega for a, b, omega in zip(block.pairs_a, block.pairs_b, block.omega, strict=True)}
    assert found == pytest.approx({(0, 1): 0.8, (0, 2): 0.8, (1, 2): 1.6})
    assert couple_tensors(marginals, "uniform").blocks[3].omega.tolist() == [1.0, 1.0, 1.0]
    values[:100, 0], values[100:, 1] = -1, -1
    with pytest.warns(UserWarning, match="no complete sample"):
        marginals = count_marginals(Codes.from_array(values, n_bins=3))
    assert couple_tensors(marginals, "count").omega.sum() == 2.0


def test_dtype_is_kept_and_other_numbers_become_float64():
    tensors = make_tensors(np.random.default_rng(0))
    for context in (np.float32, np.float64):
        coupled = couple([t.astype(context) for t in tensors], MODES, "count")
        assert {u.values.dtype for u in coupled.blocks + coupled.cover} == {np.dtype(context)}
    for convert in (lambda t: (9 * t).astype(int) + 1, lambda t: t > 0.1, np.ndarray.tolist):
        assert couple([convert(t) for t in tensors], MODES, "count").blocks[0].values.dtype == np.float64
    # A triple that counts for nothing keeps a weight.
    coupled = couple([np.full((2, 2, 2), 1e300), np.full((2, 2, 2), 1e-300)], [(0, 1, 2), (0, 1, 3)], "count")
    assert np.isfinite(coupled.univariate_marginals[3]).all()


def test_tensors_with_missing_entries_or_a_single_one_along_a_mode():
    tensor = np.ones((3, 3, 3))
    tensor[0, 1, 2] = np.nan
    with pytest.raises(InvalidInputError, match=r"has NaN entries.*count_marginals"):
        smp.coupled_simplex_parafac([tensor], 2, modes=[(0, 1, 2)])
    with pytest.raises(InvalidInputError, match=r'single entry along mode\(s\) \[1\].*init="random"'):
        smp.coupled_simplex_parafac([np.ones((3, 1, 3))], 1, modes=[(0, 1, 2)])
    found = smp.coupled_simplex_parafac([np.ones((3, 1, 3))], 1, modes=[(0, 1, 2)], init="random", random_state=0)
    np.testing.assert_allclose(found.factors.factors[1], 1.0)
    with pytest.raises(InvalidInputError, match="holds NaN or infinity"):
        smp.gevd_parafac(tensor, 2)
