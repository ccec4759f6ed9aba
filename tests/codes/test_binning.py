import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tensorly_smp as smp
from tensorly_smp.codes.binning import Binning, choose_binning, quantile_edges, stretched_ranges
from tensorly_smp.exceptions import (
    ConstantVariableWarning,
    InvalidInputError,
    InvalidTypeError,
    MergedBinsWarning,
    NonUniformBinsError,
    OutlierWarning,
    TensorlySmpError,
)


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(200, 3)) * [1, 10, 100]


# Binning


def test_binning_properties():
    binning = Binning(([0, 1, 3], [0.0, 1.0, 2.0, 3.0]))
    assert binning.variables == ("x0", "x1")
    assert binning.n_variables == 2
    assert binning.n_bins == (2, 3)
    assert binning.is_uniform == (False, True)
    np.testing.assert_array_equal(binning.widths[0], [1, 2])
    np.testing.assert_array_equal(binning.centers[0], [0.5, 2])
    Binning(([0, 1, 2], 1e12 + np.linspace(0, 1, 16)), ("a", "b")).require_uniform()
    with pytest.raises(NonUniformBinsError, match=r"'x0'.*method=\"histogram\".*strategy=\"uniform\""):
        binning.require_uniform()


def test_equality_and_copies():
    binning = Binning(([0, 1, 2],), ("a",))
    assert binning == Binning(([0, 1, 2],), ("a",), "uniform")
    assert hash(binning) == hash(Binning(([0, 1, 2],), ("a",)))
    assert binning != Binning(([0, 1, 3],), ("a",))
    assert binning != Binning(([0, 1, 2],), ("b",))
    assert binning != "a"
    assert pickle.loads(pickle.dumps(binning)) == copy.deepcopy(binning) == binning
    edges = np.array([0.0, 1.0, 2.0])
    own = Binning((edges,)).edges[0]
    edges[0] = -5
    assert own[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        own[0] = 1


@pytest.mark.parametrize(
    ("edges", "error", "match"),
    [
        *(
            (edges, InvalidInputError, "'v' are .*; expected at least 3 finite numbers in increasing order")
            for edges in ([0, 1], [0, 1, 1], [2, 1, 0], 5, [0, 1, np.inf], [[0, 1, 2]])
        ),
        *((edges, InvalidTypeError, "'v' .*number") for edges in (["a", "b", "c"], [0, 1j, 2], [[0], [1, 2]])),
        ([-1.7e308, 0, 1.7e308], InvalidInputError, "too wide"),
        ([0, 1e-310, 1], InvalidInputError, "narrower"),
    ],
)
def test_invalid_edges(edges, error, match):
    with pytest.raises(error, match=match):
        Binning((edges,), ("v",))


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ((([0, 1, 2],) * 2, ("a", "a")), InvalidInputError, "'a' occur more than once"),
        ((([0, 1, 2],), ("a", "b")), InvalidInputError, "1 sets of edges for 2"),
        (((), ()), InvalidInputError, "0 sets of edges"),
        ((([0, 1, 2],), ("a",), "given", (), np.eye(3)), InvalidTypeError, "expected a mapping from names"),
        ((([0, 1, 2],), ("a",), "kmeans"), InvalidInputError, "strategy"),
        *(((edges, ()), InvalidTypeError, "expected a sequence") for edges in (3, None)),
        *(((([0, 1, 2],), names), InvalidTypeError, "expected a sequence") for names in ((["a"],), None)),
    ],
)
def test_invalid_binning(arguments, error, match):
    with pytest.raises(error, match=match):
        Binning(*arguments)


def test_from_n_bins():
    binning = Binning.from_n_bins([2, 3])
    np.testing.assert_array_equal(binning.edges[1], [0, 1, 2, 3])
    assert Binning.from_n_bins([2, 3], ("x0", "x1")) == binning
    assert Binning.from_n_bins({"a": 2, "b": 3}).variables == ("a", "b")
    assert Binning.from_n_bins(4, ("a", "b")).n_bins == (4, 4)
    with pytest.raises(InvalidInputError):
        Binning.from_n_bins([2, 3], ("a",))
    lines = repr(Binning.from_n_bins([5] * 100)).splitlines()
    assert lines[:2] == ["Binning(100 variables, strategy='given')", "  'x0'   5 bins  0 .. 5"]
    assert lines[-1] == "  and 88 more"
    assert repr(Binning.from_n_bins([5])).startswith("Binning(1 variable, ")


# choose_binning


def test_uniform_bins_span_the_data_and_quantile_bins_hold_equal_counts(X):
    binning = choose_binning(X)
    assert binning.n_bins == (15, 15, 15)
    assert all(binning.is_uniform)
    for edges, column in zip(binning.edges, X.T, strict=True):
        assert (edges[0], edges[-1]) == (column.min(), column.max())
    binning = choose_binning(X, n_bins=8, strategy="quantile")
    assert binning.strategy == "quantile"
    for edges, column in zip(binning.edges, X.T, strict=True):
        assert np.histogram(column, edges)[0].tolist() == [25] * 8
    for n_bins in ([2, 3, 4], np.array([2, 3, 4]), {"c": 4, "a": 2, "b": 3}):
        assert choose_binning(pd.DataFrame(X, columns=list("abc")), n_bins).n_bins == (2, 3, 4)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_range(X, strategy):
    frame = pd.DataFrame(X, columns=list("abc"))

    def ends(given):
        return [(edges[0], edges[-1]) for edges in choose_binning(frame, 5, strategy, given).edges]

    data = list(zip(X.min(axis=0), X.max(axis=0), strict=True))
    assert ends((-1, 1)) == [(-1, 1)] * 3
    assert ends((None, None)) == ends(None) == data
    assert ends([(-1, 1), None, (-300, None)]) == [(-1, 1), data[1], (-300, data[2][1])]
    assert ends(np.array([[-1, 1], [-2, 2], [-3, 3]])) == [(-1, 1), (-2, 2), (-3, 3)]
    assert ends({"b": (None, 7)}) == [data[0], (data[1][0], 7), data[2]]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ((1, 1), InvalidInputError),
        ((0, np.inf), InvalidInputError),
        ((1e6, None), InvalidInputError),
        ([(0, 1)], InvalidInputError),
        ({"z": (0, 1)}, InvalidInputError),
        ({"a": "01"}, InvalidTypeError),
        (3, InvalidTypeError),
    ],
)
def test_invalid_range(X, given, error):
    with pytest.raises(error, match="range"):
        choose_binning(pd.DataFrame(X, columns=list("abc")), range=given)


REFUSED = {
    "one bin": ({"n_bins": 1}, "expected at least 2"),
    "one bin of a variable": ({"n_bins": [2, 1, 2]}, "'b' is 1"),
    "two numbers for three": ({"n_bins": [5, 5]}, "2 entries"),
    "a lacking name": ({"n_bins": {"a": 5}}, "'b', 'c'"),
    "an unknown name": ({"n_bins": {"a": 5, "b": 5, "c": 5, "d": 5}}, "'d'"),
    "an unknown strategy": ({"strategy": "kmeans"}, "strategy is 'kmeans'"),
    "coverage of one value": ({"coverage": 0.9}, "'c' is the single value 0; use a larger coverage"),
    "no weight where there are values": ({"sample_weight": [0.0] * 195 + [1.0] * 5}, "'b' have no observed value"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_options(X, name):
    options, message = REFUSED[name]
    X[-5:, 1] = np.nan
    X[:, 2] = np.arange(200) == 3
    with pytest.raises(InvalidInputError, match=message):
        choose_binning(pd.DataFrame(X, columns=list("abc")), **options)


def test_one_sample_unknown_dimensions_and_missing_entries(X):
    with pytest.raises(InvalidInputError, match="1 sample"):
        choose_binning([[1.0, 2.0]])
    with pytest.warns(ConstantVariableWarning):
        assert choose_binning([[1.0, 2.0]], range=(0, 3)).n_bins == (15, 15)
    with pytest.raises(InvalidInputError, match="'nope'"):
        choose_binning(xr.DataArray(X), sample_dim="nope")
    X[0] = 1e9
    masked = np.ma.masked_array(X, mask=np.arange(200)[:, None] == [0, 0, 0])
    assert choose_binning(masked) == choose_binning(X[1:])
    X[:, 1:] = np.nan
    with pytest.raises(InvalidInputError, match="'x1', 'x2' have no observed value"):
        choose_binning(X)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_coverage_resists_outliers(strategy):
    x = np.append(np.linspace(0, 1, 1001), 1e6)[:, np.newaxis]
    edges = choose_binning(x, 10, strategy, coverage=0.9).edges[0]
    np.testing.assert_allclose(edges[[0, -1]], np.quantile(x, [0.05, 0.95]))
    assert np.diff(edges).max() < 0.1
    assert choose_binning(x, 10, strategy, coverage=0.9, range=(0, None)).edges[0][0] == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutlierWarning)
        assert choose_binning(x, 10, strategy, coverage=1) == choose_binning(x, 10, strategy)


def test_far_values_are_named_and_weights_tell_what_is_far(X):
    x = np.random.default_rng(0).normal(size=(400, 3))
    x[0, 1] = -99
    with pytest.warns(OutlierWarning, match=r"variable\(s\) 'x1'.* coverage=0\.99"):
        choose_binning(x, 10)
    # Nothing to say where the range is meant, or the bins do not depend on it.
    choose_binning(x, 10, range=(-100, 5))
    choose_binning(x, 10, coverage=0.99)
    choose_binning(x, 10, "quantile")
    X = np.vstack([X, [[1e3, 0.0, 0.0]]])
    assert choose_binning(X, sample_weight=np.append(np.ones(200), 0.0)) == choose_binning(X[:-1])
    with pytest.warns(OutlierWarning):
        choose_binning(X, sample_weight=np.append(np.full(200, 2.0), 1.0))
    assert stretched_ranges(X[:, :1], np.append(np.ones(200), 2.0))
    assert not stretched_ranges(X[:, :1], np.append(np.ones(200), 20.0))  # a tenth of all is not few
    assert not stretched_ranges(X[:, :1], np.full(201, 0.2))  # of 40 samples nothing is said


def test_quantile_ties_make_fewer_bins():
    binary = np.repeat([0.0, 1.0], [30, 70])
    mostly_zero = np.append(np.zeros(90), np.arange(1, 11.0))
    rounded = np.random.default_rng(0).integers(0, 6, 100).astype(float)
    with pytest.warns(MergedBinsWarning, match=r"'x0' \(2 bins\), 'x1' \(\d+ bins\), 'x2' \(6 bins\)") as record:
        binning = choose_binning(np.stack([binary, mostly_zero, rounded], axis=1), 15, "quantile")
    assert record[0].message.variables == ("x0", "x1", "x2")
    assert record[0].filename == __file__
    np.testing.assert_array_equal(binning.edges[0], [0, 0.5, 1])
    assert binning.edges[1][1] == 0.5
    assert 2 <= binning.n_bins[1] < 15
    np.testing.assert_array_equal(binning.edges[2], [0, 0.5, 1.5, 2.5, 3.5, 4.5, 5])


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_constant_variable(X, strategy):
    for value in (0.0, 5.0, -1e300, 1.7e308, 5e-324):
        X[:, 1] = value
        with pytest.warns(ConstantVariableWarning, match=r"'x1' take"):
            edges = choose_binning(X, strategy=strategy).edges[1]
        assert edges[0] < value < edges[-1]


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_a_constant_column_gives_one_warning(X, strategy):
    X[:, 1] = 3.0
    with pytest.warns(ConstantVariableWarning) as record:
        smp.count_marginals(smp.encode_samples(X, choose_binning(X, 6, strategy)))
    assert len(record) == 1
    for refine in ("smooth", "em", None):
        density = "auto" if refine == "smooth" else "histogram"
        model = smp.SmoothProductMixture(1, binning=strategy, refine=refine, density=density, random_state=0)
        with pytest.warns(smp.exceptions.TensorlySmpWarning) as record:
            model.fit(X)
        assert [each.category for each in record].count(ConstantVariableWarning) == 1


@given(x=hnp.arrays(np.float64, st.integers(4, 60), elements=st.integers(-9, 9).map(float)), n_bins=st.integers(2, 9))
def test_quantile_bins_of_mirrored_values(x, n_bins):
    edges = quantile_edges(x, -9.0, 9.0, n_bins)
    mirrored = -quantile_edges(-x, -9.0, 9.0, n_bins)[::-1]
    if n_bins % 2:  # else the middle edge may lie between two that are as near
        np.testing.assert_allclose(edges, mirrored)


def test_constant_to_rounding_and_within_a_range(X):
    far = X.copy()
    far[:, 1] = 1e15 + np.arange(len(X)) % 2
    with pytest.warns(ConstantVariableWarning, match="'x1' differ by too little") as record:
        choose_binning(far)
    assert "single" not in str(record[0].message)
    X[:, 1] = 0.3
    X[::2, 1] = 0.1 + 0.2
    with pytest.warns(ConstantVariableWarning, match="'x1'"):
        assert choose_binning(X).n_bins[1] == 15
    with pytest.warns(ConstantVariableWarning, match="'x1'"):
        binning = choose_binning(X, range=[None, (0, 1), None])
    assert (binning.edges[1][0], binning.edges[1][-1]) == (0, 1)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_extreme_scales_and_beyond_float64(X, strategy):
    for offset, scale in ((1e12, 1), (1, 1e-12), (0, 1e300), (0, 1e-300)):
        binning = choose_binning(offset + scale * X, strategy=strategy)
        assert binning.n_bins == (15, 15, 15)
        assert all(binning.is_uniform) is (strategy == "uniform")
    X[:, 2] = np.linspace(-1.7, 1.7, 200) * 1e308
    with pytest.raises(InvalidInputError, match="'x2' spans"):
        choose_binning(X, strategy=strategy)
    with pytest.raises(InvalidInputError, match="'x2' spans"):
        choose_binning(X, strategy=strategy, coverage=0.9)
    assert choose_binning(X, strategy=strategy, range=(-1, 1)).n_bins[0] == 15


def test_subnormal_range_and_one_far_value():
    x = np.linspace(0, 1e-310, 100)[:, np.newaxis]
    with pytest.raises(InvalidInputError, match="rescale"):
        choose_binning(x)
    # One value lost in underflow does not stop the others.
    assert choose_binning(np.append(np.linspace(0, 1, 100), 5e-324)[:, np.newaxis], 5, "quantile").n_bins == (5,)
    x = np.random.default_rng(0).normal(size=(300, 3))
    x[0] = 1e16
    assert choose_binning(x, 15, "quantile").n_bins == (15, 15, 15)


@given(
    x=hnp.arrays(
        np.float64, st.integers(2, 40), elements=st.floats(allow_infinity=False) | st.integers(-3, 3).map(float)
    ),
    n_bins=st.integers(2, 20),
    strategy=st.sampled_from(["uniform", "quantile"]),
    coverage=st.sampled_from([None, 0.5, 0.99]),
)
@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.ConstantVariableWarning")
@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.MergedBinsWarning")
def test_any_data_gives_valid_edges_or_an_error_of_ours(x, n_bins, strategy, coverage):
    try:
        binning = choose_binning(x[:, np.newaxis], n_bins, strategy, coverage=coverage)
    except TensorlySmpError:
        return
    (edges,) = binning.edges
    assert 2 <= binning.n_bins[0] <= n_bins
    assert np.isfinite(edges).all()
    assert (np.diff(edges) > 0).all()
    assert np.isfinite(1 / np.diff(edges)).all()
    if strategy == "uniform":
        binning.require_uniform()
        assert binning.n_bins == (n_bins,)
    if coverage is None:
        assert edges[0] <= np.nanmin(x)
        assert np.nanmax(x) <= edges[-1]


# Weights


@pytest.mark.parametrize(
    "options", [{}, {"strategy": "quantile"}, {"coverage": 0.9}, {"strategy": "quantile", "coverage": 0.8}]
)
def test_integer_weights_are_repeated_samples(options):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=300), rng.integers(0, 9, 300), rng.exponential(size=300)])
    X[rng.random(X.shape) < 0.1] = np.nan
    weights = rng.integers(0, 4, 300)
    found = choose_binning(X, 6, **options, sample_weight=weights)
    assert found == choose_binning(np.repeat(X, weights, axis=0), 6, **options)
    if options:
        assert found != choose_binning(X[weights > 0], 6, **options)
    frame = pd.DataFrame(X, columns=list("abc"))
    shuffled = pd.Series(weights).iloc[::-1]
    renamed = Binning(found.edges, tuple("abc"), found.strategy)
    assert choose_binning(frame, 6, **options, sample_weight=shuffled) == renamed
