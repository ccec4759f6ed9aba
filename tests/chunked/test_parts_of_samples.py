"""Samples in bins and in cells, in memory and in chunks: counts, marginals and E-steps against those of all samples."""

import numpy as np
import pytest

import tensorly_smp as smp
from tensorly_smp.exceptions import ConstantVariableWarning, SparseHistogramWarning
from tensorly_smp.fitting.fit_samples import ReadSamples
from tensorly_smp.likelihood import steps
from tensorly_smp.likelihood.cells import choose_cells
from tensorly_smp.likelihood.steps import CellPart, CellSamples, expectation, join_parts
from tensorly_smp.samples import values as thinning

da = pytest.importorskip("dask.array")


@pytest.fixture(autouse=True)
def many_samples_in_small_blocks(monkeypatch):
    monkeypatch.setattr(thinning, "MOST_ROWS", 20)
    monkeypatch.setattr(steps, "_BLOCK", 37)


def samples(n=1000, seed=0, missing=0.1):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, 5))
    values[rng.random(values.shape) < missing] = np.nan
    return values


def encoded(values, binning, weights=None, chunks=(100, 5)):
    X = values if chunks is None else da.from_array(values, chunks=chunks)
    return ReadSamples.of(X, weights).encode(binning)


def equal(a, b):
    same = np.array_equal(a.triples, b.triples) and np.array_equal(a.totals, b.totals)
    return same and a.n_samples == b.n_samples and all(map(np.array_equal, a.counts, b.counts))


@pytest.mark.parametrize(
    ("chunks", "weighted", "triples"),
    [
        (None, True, "all"),
        (((7, 600, 393), (2, 3)), False, 4),
        ((1000, 1), True, [(0, 1, 2), (2, 3, 4)]),
    ],
)
def test_marginals_are_those_of_all_samples_to_the_last_bit(chunks, weighted, triples):
    values = samples()
    weights = np.random.default_rng(1).integers(0, 4, 1000).astype(float) if weighted else None
    binning = smp.choose_binning(values, n_bins=[3, 4, 5, 6, 7])
    expected = smp.count_marginals(smp.encode_samples(values, binning), triples, weights, random_state=0)
    assert equal(encoded(values, binning, weights, chunks).count(triples, random_state=0), expected)


@pytest.mark.parametrize("chunks", [None, (30, 5)])
@pytest.mark.parametrize(("most", "step"), [(100, 1), (20, 5)])
def test_codes_for_the_algebra_are_those_of_samples_that_count(chunks, most, step, monkeypatch):
    monkeypatch.setattr(thinning, "MOST_ROWS", most)
    values = samples(100)
    weights = np.random.default_rng(1).integers(0, 2, 100).astype(float)
    binning = smp.choose_binning(values, n_bins=4)
    codes, kept = encoded(values, binning, weights, chunks).thinned()
    counts = weights[::step] > 0
    assert np.array_equal(codes.values, smp.encode_samples(values, binning).values[::step][counts])
    assert np.array_equal(kept, weights[::step][counts])


@pytest.mark.parametrize("chunks", [None, (100, 3)])
def test_warnings_are_of_all_samples_not_of_chunks(chunks):
    values = np.random.default_rng(0).normal(size=(300, 3))
    values[:100, 0] = np.nan
    values[100:, 1] = np.nan
    values[:, 2] = np.repeat([0.0, 1.0, 2.0], 100)  # constant in every chunk
    binning = smp.Binning((np.linspace(-4, 4, 5),) * 3)
    with pytest.warns(SparseHistogramWarning, match="1 of 1 triples") as caught:
        encoded(values, binning, chunks=chunks).count("all", None)
    assert not [warning for warning in caught if warning.category is ConstantVariableWarning]
    values[:, 2] = 0.5
    with pytest.warns(ConstantVariableWarning, match="'x2'"):
        encoded(np.nan_to_num(values), binning, chunks=chunks).count("all", None)


def mixed(rounded=False):
    x = samples(400, 3)[:, :4]
    x[:, 3] = np.random.default_rng(3).integers(3, size=400)  # looks discrete
    if rounded:
        x[:, 1] = np.round(x[:, 1] * 3) / 3
    x[7] = np.nan
    return x


def on_cells(x, cells, weights=None, chunks=(90, 4)):
    X = da.from_array(x, chunks=chunks)
    read = ReadSamples.of(X, weights)
    return read.encode(smp.choose_binning(read.subsample.values, 4)).assign_to_grid(cells)


def tables(n_rows, rank=2, seed=1):
    rng = np.random.default_rng(seed)
    return np.log(rng.dirichlet(np.ones(rank))), np.log(rng.uniform(0.1, 1, (n_rows, rank)))


@pytest.mark.parametrize(("rounded", "weighted"), [(False, True), (True, False)])
def test_samples_in_cells_are_those_in_memory(rounded, weighted):
    x = mixed(rounded)
    weights = np.random.default_rng(4).integers(0, 3, 400).astype(float) if weighted else None
    cells = choose_cells(x, 2, sample_weight=weights)
    assert cells.discrete == (3,)
    assert cells.resolution.any() == rounded
    expected = CellSamples.assign_to_grid(x, cells, weights)
    found = on_cells(x, cells, weights)
    assert len(found.parts.keys) > 1
    assert found.total_weight == expected.total_weight
    assert found.log_volume == pytest.approx(expected.log_volume, rel=1e-12)
    assert np.allclose(found.prior, expected.prior, rtol=1e-12)
    logs = tables(len(expected.prior))
    one = expectation(expected.membership, *logs, expected.sample_weight)
    other = found.e_step(*logs)
    assert other.log_likelihood == pytest.approx(one.log_likelihood, rel=1e-12)
    assert np.allclose(other.counts, one.counts, rtol=1e-12)
    assert np.allclose(other.component_counts, one.component_counts, rtol=1e-12)


def test_empty_parts_add_nothing_and_entries_take_a_byte_or_two():
    x = mixed()
    cells = choose_cells(x, 2)
    for step in (0.0, 1.0):
        cells.resolution[1] = step
        chunks = ((210, 190),)
        kept = da.from_array(x, chunks=(*chunks, 4))[da.from_array(np.arange(400) < 210, chunks=chunks)]
        read = ReadSamples.of(kept)
        codes = read.encode(smp.choose_binning(x, 4))
        assert [part.membership.shape[0] for part in codes.coded.gather()] == [210, 0]
        assert equal(codes.count("all", None), smp.count_marginals(smp.encode_samples(x[:210], codes.binning)))
        found = codes.assign_to_grid(cells)
        assert [part.membership.shape[0] for part in found.parts.gather()] == [210, 0]
        assert np.allclose(found.prior, CellSamples.assign_to_grid(x[:210], cells).prior)
        assert found.e_step(*tables(len(found.prior))).component_counts.sum() == pytest.approx(found.total_weight)
    # Codes take a byte an entry and cells two.
    x = mixed()
    codes = ReadSamples.of(da.from_array(x, chunks=(90, 4))).encode(smp.choose_binning(x))
    for samples, n_bytes in ((codes.coded, 1), (codes.assign_to_grid(choose_cells(x, 2)).parts, 2)):
        parts = samples.gather()
        assert sum(part.membership.values.nbytes for part in parts) == n_bytes * x.size
        assert all(
            part.__sizeof__() == part.membership.values.nbytes + (0 if part.weights is None else part.weights.nbytes)
            for part in parts
        )


@pytest.mark.parametrize("rounded", [False, True])
def test_joined_parts_are_one_below_the_other(rounded):
    x = np.delete(mixed(rounded), 7, axis=0)[:50]
    cells = choose_cells(x, 2)
    weights = np.arange(21.0, 51.0)
    whole = join_parts([CellPart.packed(x[:20], None, cells), CellPart.packed(x[20:], weights, cells)])
    membership = whole.membership if rounded else whole.membership.matrix
    assert np.array_equal(membership.toarray(), cells.membership(x).toarray())
    assert np.array_equal(whole.weights, np.concatenate([np.ones(20), weights]))
    assert join_parts([CellPart.packed(x[:20], None, cells)] * 2).weights is None
