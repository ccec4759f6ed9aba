import pickle

import numpy as np
import pytest
import tensorly as tl

import tensorly_smp as smp
from tensorly_smp.chunked import decomposing, sweeping
from tensorly_smp.chunked.coding import encode_chunks
from tensorly_smp.chunked.decomposing import decompose_chunks
from tensorly_smp.chunked.reading import read_chunks
from tensorly_smp.chunked.sweeping import ChunkedLoss, couple_chunks
from tensorly_smp.decomposition import Decomposition
from tensorly_smp.exceptions import SparseHistogramWarning
from tensorly_smp.factors import triple_sample
from tensorly_smp.factors.implicit import ImplicitLoss, couple_codes
from tensorly_smp.initializers.random_start import random_start

da = pytest.importorskip("dask.array")


def both(n=400, n_variables=5, missing=0.15, weighted=True, seed=0):
    """The same samples in chunks and in memory, ready for the solver."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, n_variables))
    values[rng.random(values.shape) < missing] = np.nan
    weights = rng.uniform(0, 3, n) * (rng.random(n) < 0.9) if weighted else None
    binning = smp.choose_binning(values, n_bins=4)
    chunked = encode_chunks(read_chunks(da.from_array(values, chunks=(90, n_variables)), weights), binning)
    return couple_chunks(chunked), couple_codes(smp.encode_samples(values, binning), weights), chunked


def start(coupled, rank=3, seed=1):
    model = random_start(coupled.n_bins, rank, np.random.default_rng(seed), coupled.first_moments)
    return model.weights, list(model.factors)


def assert_same_block(found, expected):
    assert np.allclose(found.linear, expected.linear, rtol=1e-11, atol=1e-14)
    assert np.allclose(found.gram, expected.gram, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("missing", [0.0, 0.15, 0.6])
@pytest.mark.parametrize("weighted", [False, True])
def test_coupling_is_that_in_memory(missing, weighted):
    chunked, expected, _ = both(missing=missing, weighted=weighted)
    assert chunked.energy == pytest.approx(expected.energy, rel=1e-12)
    assert chunked.energy_error == expected.energy_error == 0.0
    assert chunked.n_samples == expected.n_samples
    assert chunked.triples is None
    assert all(map(np.allclose, chunked.first_moments, expected.first_moments))
    parts = chunked.parts.gather()
    assert len(parts) > 1
    assert sum(part.coupled.weights.sum() for part in parts) == pytest.approx(expected.weights.sum())


@pytest.mark.parametrize("missing", [0.0, 0.15])
def test_blocks_of_a_sweep_are_those_in_memory(missing):
    """Through sweeps in which the factors change one by one, all at once, and back."""
    chunked, expected, _ = both(missing=missing)
    mine, theirs = ChunkedLoss(chunked), ImplicitLoss(expected)
    weights, factors = start(expected)
    other = start(expected, seed=2)[1]
    for _ in range(6):
        block, row = mine.weight_block(factors), weights[None, :]
        known = theirs.weight_block(factors)
        assert_same_block(block, known)
        assert mine.total(block, row) == pytest.approx(theirs.total(known, row), rel=1e-11)
        for n in range(5):
            assert_same_block(mine.factor_block(n, factors, weights), theirs.factor_block(n, factors, weights))
            factors = [0.9 * a + 0.1 * b if k == n else a for k, (a, b) in enumerate(zip(factors, other, strict=True))]
        factors, other = other, factors


def test_part_that_has_lost_its_sums_computes_them_anew():
    """As after it was written to disk, or came to another worker."""
    chunked, expected, _ = both()
    mine, theirs = ChunkedLoss(chunked), ImplicitLoss(expected)
    weights, factors = start(expected)
    mine.weight_block(factors), theirs.weight_block(factors)
    for n in range(5):
        lost = sweeping.Parts.of(chunked.parts.map(lambda part: pickle.loads(pickle.dumps(part))).persist().pieces)
        mine.parts = lost if n % 2 else chunked.parts
        assert_same_block(mine.factor_block(n, factors, weights), theirs.factor_block(n, factors, weights))
        factors = [a[::-1].copy() if k == n else a for k, a in enumerate(factors)]
    assert_same_block(mine.weight_block(factors), theirs.weight_block(factors))


def test_starts_do_not_disturb_each_other():
    chunked, expected, _ = both()
    weights, factors = start(expected)
    first, second = ChunkedLoss(chunked), ChunkedLoss(chunked)
    first.weight_block(factors)
    others = start(expected, seed=5)[1]
    second.weight_block(others)
    assert_same_block(first.factor_block(0, factors, weights), ImplicitLoss(expected).factor_block(0, factors, weights))


def test_energy_of_some_triples_is_estimated_as_in_memory(monkeypatch):
    monkeypatch.setattr(triple_sample, "MOST_COUNTED", 5)
    monkeypatch.setattr(triple_sample, "N_DRAWN", 12)
    monkeypatch.setattr(triple_sample, "FEWEST_DRAWN", 12)
    monkeypatch.setattr(sweeping, "CELLS_AT_A_TIME", 200)
    chunked, expected, _ = both(n_variables=7)
    assert len(chunked.histograms) == 12
    assert chunked.energy == pytest.approx(expected.energy, rel=1e-12)
    assert chunked.energy_error == pytest.approx(expected.energy_error, rel=1e-10)
    model = random_start(expected.n_bins, 3, np.random.default_rng(3), expected.first_moments)
    chunked, expected = chunked.calibrated(model), expected.calibrated(model)
    assert chunked.energy == pytest.approx(expected.energy, rel=1e-10)
    assert chunked.energy_error == pytest.approx(expected.energy_error, rel=1e-10)


def test_parts_without_useful_samples_add_nothing():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(400, 4))
    values[:210, 1:] = np.nan
    binning = smp.choose_binning(values, n_bins=4)
    chunked = couple_chunks(encode_chunks(read_chunks(da.from_array(values, chunks=((210, 190), 4))), binning))
    expected = couple_codes(smp.encode_samples(values, binning))
    assert chunked.parts.gather()[0].coupled is None
    weights, factors = start(expected)
    mine, theirs = ChunkedLoss(chunked), ImplicitLoss(expected)
    assert_same_block(mine.weight_block(factors), theirs.weight_block(factors))
    assert_same_block(mine.factor_block(2, factors, weights), theirs.factor_block(2, factors, weights))


def test_triples_without_samples_are_named_as_in_memory():
    values = np.random.default_rng(0).normal(size=(300, 4))
    values[:150, 0], values[150:, 1] = np.nan, np.nan
    binning = smp.choose_binning(values, n_bins=3)
    codes = encode_chunks(read_chunks(da.from_array(values, chunks=(100, 4))), binning)
    with pytest.warns(SparseHistogramWarning, match="2 of 4 triples"):
        chunked = couple_chunks(codes)
    with pytest.warns(SparseHistogramWarning, match="2 of 4 triples"):
        expected = couple_codes(smp.encode_samples(values, binning))
    assert np.array_equal(chunked.triples, expected.triples)
    assert chunked.energy == pytest.approx(expected.energy, rel=1e-12)


@pytest.mark.parametrize(("limit", "form"), [(1.0, "implicit"), (1e9, "counted")])
def test_decomposition_of_many_variables_is_that_in_memory(limit, form, monkeypatch):
    monkeypatch.setattr(decomposing, "MOST_BYTES_OF_PARTS", limit)
    monkeypatch.setattr("tensorly_smp.decomposition.MOST_CELLS_FOR_KL", 10)
    X = smp.datasets.make_smooth_mixture("gaussian", 600, n_variables=6, n_components=3, random_state=0).X
    binning = smp.choose_binning(X, 6)
    options = dict(loss="auto", init="gevd", n_init=2, is_start=False, max_iter=6, tol=0.02)
    settings = dict(n_jobs=None, random_state=0, callback=None, verbose=0)
    decomposition = Decomposition(rank=3, triples="all", **options, **settings)
    expected = decomposition.solution(smp.encode_samples(X, binning), None)
    found = decompose_chunks(decomposition, encode_chunks(read_chunks(da.from_array(X, chunks=(150, 6))), binning))
    assert found.start_info["histograms"] == form
    assert found.triples is None
    assert np.allclose(found.start_losses, expected.start_losses, rtol=1e-9)
    assert all(map(np.allclose, found.factors.factors, expected.factors.factors))
    assert found.factors.binning == binning


def test_workers_use_numpy_whatever_the_backend():
    pytest.importorskip("torch")
    chunked, expected, _ = both()
    factors = start(expected)[1]
    theirs = ImplicitLoss(expected).weight_block(factors)
    with tl.backend_context("pytorch", local_threadsafe=True):
        chunked.context["dtype"] = tl.backend.float64
        tensors = [tl.tensor(a) for a in factors]
        block = ChunkedLoss(chunked).weight_block(tensors)
        assert tl.is_tensor(block.linear)
        found = tl.to_numpy(block.linear), tl.to_numpy(block.gram)
    assert np.allclose(found[0], theirs.linear)
    assert np.allclose(found[1], theirs.gram)
