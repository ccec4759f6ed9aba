import numpy as np
import pandas as pd
import pytest
import xarray as xr

import tensorly_smp as smp
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.fitting import fit_samples
from tensorly_smp.fitting.fit_samples import ReadSamples
from tensorly_smp.samples import parts
from tensorly_smp.samples import values as thinning

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

NAMES = ["a", "b", "c", "d"]


def samples(n=1000, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, 4))
    values[rng.random(values.shape) < 0.1] = np.nan
    return values


def of_unknown_sizes(values, chunks):
    array = da.from_array(values, chunks=chunks)
    return array[da.from_array(np.ones(len(values), dtype=bool), chunks=(chunks[0],))]


def none_of(values):
    return da.from_array(values, chunks=(5, 4))[da.zeros(len(values), chunks=5, dtype=bool)]


CHUNKED = {
    "uneven": lambda x: da.from_array(x, chunks=((1, 499, 300, 200), (3, 1))),
    "one": lambda x: da.from_array(x, chunks=-1),
    "unknown": lambda x: of_unknown_sizes(x, (170, 2)),
    "frame": lambda x: dd.from_pandas(pd.DataFrame(x, columns=NAMES), npartitions=7),
    "dataarray": lambda x: xr.DataArray(x.T, {"variable": NAMES}, ("variable", "sample")).chunk({"sample": 130}),
    "dataset": lambda x: xr.Dataset({name: ("row", x[:, n]) for n, name in enumerate(NAMES)}).chunk({"row": 130}),
}


def collected(read):
    """Values and weights of all parts."""
    chunks = read.parts.gather()
    weights = None if chunks[0].weights is None else np.concatenate([chunk.weights for chunk in chunks])
    return np.concatenate([chunk.values for chunk in chunks]), weights


@pytest.mark.parametrize("kind", CHUNKED)
def test_samples_are_read_in_their_order(kind):
    values = samples()
    read = ReadSamples.of(CHUNKED[kind](values))
    assert np.array_equal(collected(read)[0], values, equal_nan=True)
    assert np.array_equal(read.subsample.values, values, equal_nan=True)
    assert read.n_samples == 1000
    assert read.total_weight == 1000.0
    assert read.variables == (
        ("a", "b", "c", "d") if kind in ("frame", "dataarray", "dataset") else ("x0", "x1", "x2", "x3")
    )
    assert read.container == {"frame": "dataframe", "dataarray": "dataarray", "dataset": "dataarray"}.get(kind, "array")
    assert kind == "one" or len(read.parts.keys) > 1


@pytest.mark.parametrize(
    ("kind", "of_weights"),
    [*((kind, "dask") for kind in CHUNKED), *(("uneven", kind) for kind in ("array", "list", "series"))],
)
def test_weights_go_with_their_samples(kind, of_weights):
    values, weights = samples(), np.random.default_rng(1).integers(0, 4, 1000).astype(float)
    X = CHUNKED[kind](values)
    given = {
        "array": lambda: weights,
        "list": weights.tolist,
        "dask": lambda: da.from_array(weights, chunks=90),
        "series": lambda: dd.from_pandas(pd.Series(weights), npartitions=7),
    }[of_weights]()
    read = ReadSamples.of(X, given)
    assert np.array_equal(collected(read)[1], weights)
    assert np.array_equal(read.subsample_weights, weights)
    assert read.total_weight == weights.sum()


@pytest.mark.parametrize(("kind", "weighted"), [("uneven", True), ("unknown", False), ("frame", True)])
def test_representatives_are_those_of_the_same_samples_in_memory(kind, weighted, monkeypatch):
    monkeypatch.setattr(thinning, "MOST_ROWS", 64)
    values = samples()
    weights = np.random.default_rng(1).integers(0, 2, 1000).astype(float) if weighted else None
    read = ReadSamples.of(CHUNKED[kind](values), weights)
    expected = thinning.representative(values, weights)
    assert np.array_equal(read.subsample.values, expected[0], equal_nan=True)
    assert (read.subsample_weights is None) if weights is None else np.array_equal(read.subsample_weights, expected[1])


def test_columns_are_matched_by_name():
    values = samples()
    frame = dd.from_pandas(pd.DataFrame(values, columns=NAMES)[["c", "a", "d", "b"]], npartitions=3)
    read = ReadSamples.of(frame, variables=NAMES)
    assert np.array_equal(collected(read)[0], values, equal_nan=True)
    with pytest.raises(InvalidInputError, match="missing 'e'"):
        ReadSamples.of(frame, variables=["a", "b", "c", "e"])
    # Empty chunks and missing kinds.
    frame = pd.DataFrame({"a": pd.array([1, None, 3, 4], dtype="Int64"), "b": [1.0, 2.0, np.nan, 0.0], "c": [True] * 4})
    chunked = dd.from_pandas(frame, npartitions=4)
    found = collected(ReadSamples.of(chunked[chunked["b"] != 2.0]))[0]
    assert np.array_equal(found, [[1, 1, 1], [3, np.nan, 1], [4, 0, 1]], equal_nan=True)
    array = da.from_array(samples(10), chunks=(5, 4))
    assert ReadSamples.of(array[da.from_array(np.arange(10) < 4, chunks=5)]).n_samples == 4


def test_small_chunks_are_put_together_and_large_ones_left(monkeypatch):
    monkeypatch.setattr(parts, "PART_ENTRIES", 400)
    read = ReadSamples.of(da.from_array(samples(), chunks=((30,) * 20 + (400,), 4)))
    assert [len(chunk.values) for chunk in read.parts.gather()] == [90] * 6 + [60, 400]
    assert read.sizes == (90,) * 6 + (60, 400)
    # Codes of few samples are put together, too.
    monkeypatch.setattr(parts, "PART_ENTRIES", 800)
    read = ReadSamples.of(da.from_array(samples(), chunks=((150, 400, 300, 50, 100), 4)))
    assert read.sizes == (150, 400, 300, 150)
    monkeypatch.setattr(fit_samples, "PART_ROWS", 500)
    assert read.groups == [[0, 1], [2, 3]]
    monkeypatch.setattr(fit_samples, "PART_ROWS", 1)
    assert read.groups == [[0], [1], [2], [3]]
    monkeypatch.setattr(fit_samples, "MOST_PARTS", 3)
    assert read.groups == [[0, 1], [2, 3]]


def test_caller_keeps_the_array():
    values = samples()
    before = values.copy()
    read = ReadSamples.of(da.from_array(values, chunks=(100, 4)))
    with pytest.raises(ValueError, match="read-only"):
        read.subsample.values[0, 0] = 1.0
    assert np.array_equal(values, before, equal_nan=True)


WRONG = {
    "one dimension": (lambda: da.zeros(5), InvalidInputError, "1 dimension"),
    "no samples": (lambda: da.zeros((0, 3)), InvalidInputError, "0 sample"),
    "all filtered away": (lambda: none_of(samples(10)), InvalidInputError, "0 sample"),
    "infinite": (lambda: da.from_array(np.array([[1.0, np.inf, 2.0]] * 4), chunks=1), InvalidInputError, "'x1'"),
    "text": (lambda: da.from_array(np.array([["a", "b", "c"]] * 4)), InvalidTypeError, "expected real numbers"),
    "text column": (
        lambda: dd.from_pandas(pd.DataFrame({"a": [1.0], "b": ["x"], "c": [2.0]}), npartitions=1),
        InvalidTypeError,
        "'b'",
    ),
    "series": (lambda: dd.from_pandas(pd.Series([1.0, 2.0]), npartitions=1), InvalidTypeError, "expected a dask"),
    "something else": (lambda: dask.delayed(3), InvalidTypeError, "expected a dask"),
}


@pytest.mark.parametrize("what", WRONG)
def test_unusable_samples_are_refused(what):
    make, error, words = WRONG[what]
    with pytest.raises(error, match=words):
        ReadSamples.of(make())


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.ones(9), "shape"),
        (da.ones(9, chunks=3), "shape"),
        (-np.ones(10), "non-negative"),
        (np.zeros(10), "not all zero"),
        (np.full(10, np.nan), "finite"),
        (da.ones((10, 1)), "shape"),
        (np.full(10, 1e308), "its sum too"),
    ],
)
def test_unusable_weights_are_refused(weights, words):
    with pytest.raises(InvalidInputError, match=words):
        ReadSamples.of(da.from_array(samples(10), chunks=(4, 4)), weights)
    with pytest.raises(InvalidTypeError, match="real numbers"):
        ReadSamples.of(da.from_array(samples(3), chunks=(2, 4)), ["a", "b", "c"])


def test_weights_in_other_chunks_of_unknown_size_are_put_together():
    X = of_unknown_sizes(samples(100), (50, 4))
    weights = of_unknown_sizes(np.arange(100.0)[:, None], (20, 1))[:, 0]
    assert np.array_equal(collected(ReadSamples.of(X, weights))[1], np.arange(100.0))


def test_words_of_columns_without_numbers_quote_values_of_their_own():
    values = [pd.Timestamp("2024-03-01")] * 40
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=list("abc")).assign(b=values)
    texts = []
    for X in (frame, dd.from_pandas(frame, npartitions=2)):
        with pytest.raises(InvalidTypeError, match="Variable\\(s\\) 'b' hold") as caught:
            smp.SmoothProductMixture(2).fit(X)
        texts.append(str(caught.value).partition("the first is ")[2])
    assert texts[0] == texts[1]
    assert texts[0].startswith(repr(values[0]))
