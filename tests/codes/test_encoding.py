import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tensorly_smp.codes.binning import Binning, choose_binning
from tensorly_smp.codes.encoding import Codes, encode_samples, one_hot
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError, TensorlySmpError


def plain_codes(x, edges):
    """Bin of every value, by definition: the number of inner edges that do not lie above it."""
    return [sum(edge <= value for edge in edges[1:-1]) for value in x]


def codes_of(values, edges):
    return encode_samples(values[:, None], Binning((edges,))).values[:, 0]


@given(
    low=st.floats(-1e6, 1e6),
    width=st.floats(1e-12, 1e6),
    n_bins=st.integers(2, 40),
    x=hnp.arrays(np.float64, st.integers(0, 30), elements=st.floats(-2, 3)),
)
def test_codes_equal_the_definition(low, width, n_bins, x):
    edges = np.linspace(low, low + width, n_bins + 1)
    assume((edges[1:] > edges[:-1]).all())
    values = np.concatenate([low + width * x, edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)])
    np.testing.assert_array_equal(codes_of(values, edges), plain_codes(values, edges))
    # Extreme values and uneven edges.
    values = np.array([-1.7e308, -1, 0, 0.5, 1, 1.7e308])
    np.testing.assert_array_equal(codes_of(values, np.array([0, 0.1, 0.2, 1])), [0, 0, 0, 2, 2, 2])
    np.testing.assert_array_equal(codes_of(values, np.array([-1.0, 0, 1])), [0, 0, 1, 1, 1, 1])


def test_right_edge_missing_labels_and_smallest_type():
    X = pd.DataFrame([[0, 0], [1, np.nan], [2, 10], [-5, 11]], index=list("stuv"), columns=["x0", "x1"])
    binning = Binning(([0, 1, 2], [0, 1, 10]))
    codes = encode_samples(X, binning)
    np.testing.assert_array_equal(codes.values, [[0, 0], [1, -1], [1, 1], [0, 1]])
    assert codes.values.dtype == np.int8
    assert (codes.n_samples, codes.n_variables, codes.n_bins) == (4, 2, (2, 2))
    assert codes.samples.wrap(np.arange(4)).index.tolist() == list("stuv")
    missing = encode_samples(X, binning, out_of_range="missing").values
    np.testing.assert_array_equal(missing, [[0, 0], [1, -1], [1, 1], [-1, -1]])
    with pytest.raises(ValueError, match="read-only"):
        codes.values[0, 0] = 1
    x = np.linspace(0, 1, 50)[:, np.newaxis]
    for n_bins, dtype in ((128, np.int8), (129, np.int16), (10_000, np.int16)):
        found = encode_samples(x, choose_binning(x, n_bins)).values
        assert (found.dtype, found.max()) == (dtype, n_bins - 1)


def test_columns_are_matched_by_name():
    X = np.random.default_rng(0).normal(size=(20, 3))
    frame = pd.DataFrame(X, columns=list("abc"))
    binning = choose_binning(frame)
    expected = encode_samples(X, binning).values
    np.testing.assert_array_equal(encode_samples(frame[["c", "a", "b"]], binning).values, expected)
    array = xr.DataArray(X[:, ::-1].T, {"variable": ["c", "b", "a"]}, ("variable", "time"))
    np.testing.assert_array_equal(encode_samples(array, binning).values, expected)
    with pytest.raises(InvalidInputError, match="missing 'c'; unknown 'd'"):
        encode_samples(frame.rename(columns={"c": "d"}), binning)
    with pytest.raises(InvalidInputError, match="missing 'c'"):
        encode_samples(frame[["a", "b"]], binning)
    with pytest.raises(InvalidInputError, match="2 variables; expected 3"):
        encode_samples(X[:, :2], binning)


def test_invalid_options():
    binning = Binning.from_n_bins([2])
    with pytest.raises(InvalidTypeError, match="expected a Binning"):
        encode_samples([[1.0]], [0, 1, 2])
    with pytest.raises(InvalidInputError, match="out_of_range"):
        encode_samples([[1.0]], binning, out_of_range="drop")
    with pytest.raises(InvalidInputError, match="infinite"):
        encode_samples([[np.inf]], binning)


def test_from_array():
    codes = Codes.from_array([[0, 2], [1, -1], [None, 1]], variables=("a", "b"))
    np.testing.assert_array_equal(codes.values, [[0, 2], [1, -1], [-1, 1]])
    assert codes.binning == Binning.from_n_bins([2, 3], ("a", "b"))
    assert Codes.from_array(np.zeros((4, 2), dtype=int)).n_bins == (2, 2)
    assert Codes.from_array(pd.DataFrame({"a": [0, 4]}), n_bins={"a": 9}).n_bins == (9,)
    assert Codes.from_array([[-1], [-1]], n_bins=3).n_bins == (3,)
    for value, n_bins in ((0.5, None), (-2, None), (1e300, None), (5, 5), (-1, None), (np.inf, None), (1, 1)):
        with pytest.raises(InvalidInputError, match="x0"):
            Codes.from_array([[value]], n_bins)
    floats, too_few, too_large = np.zeros((3, 2)), np.zeros((3, 1), dtype=int), np.full((3, 2), 9)
    for values in (floats, too_few, too_large, np.zeros((0, 2), dtype=int), "a"):
        with pytest.raises(TensorlySmpError):
            Codes(values, Binning.from_n_bins([2, 2]))


@given(st.integers(0, 2**32 - 1))
def test_products_gather_and_add_up(seed):
    rng = np.random.default_rng(seed)
    n_bins = rng.integers(2, 5, size=rng.integers(1, 5))
    values = np.stack([rng.integers(-1, size, size=7) for size in n_bins], axis=1)
    codes = Codes.from_array(values, n_bins.tolist())
    tables = [rng.random((size, 3)) for size in n_bins]
    added = rng.random((7, 3))
    gathered = np.zeros((7, 3))
    sums = [np.zeros((size, 3)) for size in n_bins]
    for m, row in enumerate(values):
        for n, code in enumerate(row):
            if code >= 0:
                gathered[m] += tables[n][code]
                sums[n][code] += added[m]
    matrix = one_hot(codes)
    np.testing.assert_allclose(matrix @ np.concatenate(tables), gathered)
    np.testing.assert_allclose(matrix.T @ added, np.concatenate(sums), atol=1e-12)
