import numpy as np
import pytest

import tensorly_smp as smp
from tensorly_smp.chunked.encoding import count_chunks, encode_chunks
from tensorly_smp.chunked.reading import read_chunks
from tensorly_smp.codes import thinning
from tensorly_smp.exceptions import ConstantVariableWarning, SizeLimitError, SparseHistogramWarning

da = pytest.importorskip("dask.array")


def samples(n=1000, seed=0, missing=0.1):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, 5))
    values[rng.random(values.shape) < missing] = np.nan
    return values


def equal(a, b):
    same = np.array_equal(a.triples, b.triples) and np.array_equal(a.totals, b.totals)
    return same and a.n_samples == b.n_samples and all(map(np.array_equal, a.counts, b.counts))


@pytest.mark.parametrize("chunks", [(100, 5), ((7, 600, 393), (2, 3)), (1000, 1)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("triples", ["all", 4, [(0, 1, 2), (2, 3, 4)]])
def test_marginals_are_those_of_the_same_samples_in_memory_to_the_last_bit(chunks, weighted, triples):
    values = samples()
    weights = np.random.default_rng(1).integers(0, 4, 1000).astype(float) if weighted else None
    binning = smp.choose_binning(values, n_bins=[3, 4, 5, 6, 7])
    codes = encode_chunks(read_chunks(da.from_array(values, chunks=chunks), weights), binning)
    expected = smp.count_marginals(smp.encode_samples(values, binning), triples, weights, random_state=0)
    assert equal(count_chunks(codes, triples, random_state=0), expected)


def test_codes_for_the_algebra_are_those_of_samples_that_count(monkeypatch):
    values, weights = samples(100), np.random.default_rng(1).integers(0, 2, 100).astype(float)
    binning = smp.choose_binning(values, n_bins=4)
    expected = smp.encode_samples(values, binning).values
    read = read_chunks(da.from_array(values, chunks=(30, 5)), weights)
    assert np.array_equal(encode_chunks(read, binning).subsample.values, expected[weights > 0])
    monkeypatch.setattr(thinning, "MOST_ROWS", 20)
    codes = encode_chunks(read_chunks(da.from_array(values, chunks=(30, 5)), weights), binning)
    assert np.array_equal(codes.subsample.values, expected[::5][weights[::5] > 0])
    assert np.array_equal(codes.subsample_weights, weights[::5][weights[::5] > 0])


def test_codes_take_a_byte_an_entry():
    values = samples()
    codes = encode_chunks(read_chunks(da.from_array(values, chunks=(250, 5))), smp.choose_binning(values))
    parts = codes.parts.gather()
    assert sum(part.values.nbytes for part in parts) == values.size
    assert [part.__sizeof__() for part in parts] == [part.values.nbytes for part in parts]


def test_warnings_are_of_all_samples_not_of_chunks():
    values = np.random.default_rng(0).normal(size=(300, 3))
    values[:100, 0], values[100:, 1] = np.nan, np.nan
    values[:, 2] = np.repeat([0.0, 1.0, 2.0], 100)  # constant in every chunk
    binning = smp.Binning((np.linspace(-4, 4, 5),) * 3)
    codes = encode_chunks(read_chunks(da.from_array(values, chunks=(100, 3))), binning)
    with pytest.warns(SparseHistogramWarning, match="1 of 1 triples") as caught:
        count_chunks(codes)
    assert not [each for each in caught if each.category is ConstantVariableWarning]
    values[:, 2] = 0.5
    codes = encode_chunks(read_chunks(da.from_array(np.nan_to_num(values), chunks=(100, 3))), binning)
    with pytest.warns(ConstantVariableWarning, match="'x2'"):
        count_chunks(codes)


def test_size_is_refused_before_anything_is_counted():
    values = samples(50)
    codes = encode_chunks(read_chunks(da.from_array(values, chunks=(25, 5))), smp.choose_binning(values, n_bins=30))
    with pytest.raises(SizeLimitError):
        count_chunks(codes, max_bytes=1e5)


def test_empty_chunks_have_no_say():
    values = samples(60, missing=0.0)
    array = da.from_array(values, chunks=(20, 5))
    kept = np.arange(60) >= 20
    filtered = array[da.from_array(kept, chunks=20)]
    binning = smp.choose_binning(values, n_bins=3)
    found = count_chunks(encode_chunks(read_chunks(filtered), binning))
    assert equal(found, smp.count_marginals(smp.encode_samples(values[kept], binning)))
