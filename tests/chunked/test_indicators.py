import numpy as np
import pytest

import tensorly_smp as smp
from tensorly_smp.chunked import indicators
from tensorly_smp.chunked.grid_counts import ChunkedCellSamples
from tensorly_smp.chunked.indicators import Indicators, SharedIndicators, expect_parts, join
from tensorly_smp.chunked.parts import Parts
from tensorly_smp.chunked.reading import read_chunks
from tensorly_smp.codes.encoding import one_hot
from tensorly_smp.likelihood.cells import choose_cells
from tensorly_smp.likelihood.steps import CellSamples, expectation

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(indicators, "BLOCK", 37)


def codes(n=300, missing=0.2, seed=0):
    rng = np.random.default_rng(seed)
    values = np.stack([rng.integers(size, size=n) for size in (3, 5, 2)], axis=1)
    values[rng.random(values.shape) < missing] = -1
    return smp.Codes.from_array(np.where(values < 0, np.nan, values), [3, 5, 2])


def tables(n_rows, rank=2, seed=1):
    rng = np.random.default_rng(seed)
    return np.log(rng.dirichlet(np.ones(rank))), np.log(rng.uniform(0.1, 1, (n_rows, rank)))


def parts_of(codes, weights=None, n_parts=4):
    split = np.array_split(np.arange(codes.n_samples), n_parts)
    each = [None if weights is None else weights[rows] for rows in split]
    pieces = [Indicators(codes.values[rows], codes.n_bins, own) for rows, own in zip(split, each, strict=True)]
    return Parts.of([dask.delayed(piece) for piece in pieces])


@pytest.mark.parametrize("missing", [0.0, 0.3, 1.0])
def test_matrix_is_the_one_hot_matrix(missing):
    c = codes(50, missing)
    made = Indicators(c.values, c.n_bins, None).hot(slice(10, 40))
    assert np.array_equal(made.toarray(), one_hot(c).toarray()[10:40])


@pytest.mark.parametrize("weighted", [False, True])
def test_expectation_is_that_of_all_samples(weighted):
    c = codes()
    weights = np.random.default_rng(2).uniform(0, 3, c.n_samples) if weighted else None
    logs = tables(10)
    expected = expectation(one_hot(c), *logs, weights)
    found = expect_parts(parts_of(c, weights), *logs)
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-12)
    assert np.allclose(found.counts, expected.counts, rtol=1e-12)
    assert np.allclose(found.component_counts, expected.component_counts, rtol=1e-12)


@pytest.mark.parametrize("weights", [[None, None], [None, np.arange(30.0)], [np.ones(20), np.arange(30.0)]])
def test_joined_parts_are_one_below_the_other(weights):
    c = codes(50)
    first, second = Indicators(c.values[:20], c.n_bins, weights[0]), Indicators(c.values[20:], c.n_bins, weights[1])
    whole = join([first, second])
    assert np.array_equal(whole.hot(slice(None)).toarray(), one_hot(c).toarray())
    expected = np.concatenate(
        [
            np.ones(len(w)) if own is None else own
            for w, own in zip((c.values[:20], c.values[20:]), weights, strict=True)
        ]
    )
    assert np.array_equal(np.ones(50) if whole.weights is None else whole.weights, expected)
    shared = [SharedIndicators(part.hot(slice(None)), part.weights) for part in (first, second)]
    assert np.array_equal(join(shared).hot(slice(None)).toarray(), one_hot(c).toarray())


def values(rounded):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(400, 4))
    x[:, 3] = rng.integers(3, size=400)  # looks discrete
    if rounded:
        x[:, 1] = np.round(x[:, 1] * 3) / 3
    x[rng.random(x.shape) < 0.1] = np.nan
    x[7] = np.nan
    return x


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_samples_in_cells_are_those_in_memory(rounded, weighted):
    x = values(rounded)
    weights = np.random.default_rng(4).integers(0, 3, 400).astype(float) if weighted else None
    cells = choose_cells(x, 2, sample_weight=weights)
    assert cells.discrete == (3,)
    assert cells.resolution.any() == rounded
    expected = CellSamples.assign_to_grid(x, cells, weights)
    found = ChunkedCellSamples.assign_to_grid(read_chunks(da.from_array(x, chunks=(90, 4)), weights), cells)
    assert {type(part) for part in found.parts.gather()} == {SharedIndicators if rounded else Indicators}
    assert found.total_weight == expected.total_weight
    assert found.log_volume == pytest.approx(expected.log_volume, rel=1e-12)
    assert np.allclose(found.prior, expected.prior, rtol=1e-12)
    logs = tables(len(expected.prior))
    one, other = expected.e_step(*logs), found.e_step(*logs)
    assert other.log_likelihood == pytest.approx(one.log_likelihood, rel=1e-12)
    assert np.allclose(other.counts, one.counts, rtol=1e-12)
    assert np.allclose(
        found.counts_from_posterior(other.posterior).counts,
        expected.counts_from_posterior(one.posterior).counts,
        rtol=1e-12,
    )


def test_blocks_cover_all_samples():
    assert [rows.stop - rows.start for rows in indicators.blocks(100)] == [37, 37, 26]


def test_empty_parts_add_nothing():
    x = values(False)
    cells = choose_cells(x, 2)
    for step in (0.0, 1.0):
        cells.resolution[1] = step
        array = da.from_array(x, chunks=((210, 190), 4))[da.from_array(np.arange(400) < 210, chunks=((210, 190),))]
        found = ChunkedCellSamples.assign_to_grid(read_chunks(array), cells)
        assert [part.n_samples for part in found.parts.gather()] == [210, 0]
        assert np.allclose(found.prior, CellSamples.assign_to_grid(x[:210], cells).prior)
        assert found.e_step(*tables(len(found.prior))).component_counts.sum() == pytest.approx(found.total_weight)


def test_cells_take_two_bytes_an_entry():
    x = values(False)
    cells = choose_cells(x, 2)
    parts = ChunkedCellSamples.assign_to_grid(read_chunks(da.from_array(x, chunks=(90, 4))), cells).parts.gather()
    assert sum(part.values.nbytes for part in parts) == 2 * x.size
