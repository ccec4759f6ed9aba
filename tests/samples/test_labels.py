import io

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from sklearn.base import clone

import tensorly_smp as smp
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.samples.labels import aligned
from tensorly_smp.samples.reading import read_samples

VALUES = np.array([[1.0, np.nan, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, np.nan], [10.0, 11.0, 12.0]])
NAMES = ("a", "b", "c")


def same(samples, values=VALUES, variables=NAMES):
    np.testing.assert_array_equal(samples.values, values)
    assert samples.values.dtype == np.float64
    assert samples.variables == variables


# Reading


@pytest.mark.parametrize(
    "X",
    [
        VALUES,
        VALUES.tolist(),
        np.asfortranarray(VALUES),
        VALUES.astype(np.float32),
        VALUES.astype(object),
        [[None if np.isnan(value) else value for value in row] for row in VALUES],
        np.ma.masked_invalid(VALUES),
        np.ma.masked_array(np.where(np.isnan(VALUES), np.inf, VALUES), np.isnan(VALUES)),
        np.ma.masked_array(np.where(np.isnan(VALUES), "?", VALUES.astype(object)), np.isnan(VALUES)),
        xr.DataArray(VALUES),
    ],
)
def test_unlabeled_input(X):
    same(read_samples(X), variables=("x0", "x1", "x2"))
    same(read_samples(X, variables=NAMES))


@pytest.mark.parametrize("dtype", ["float64", "Float64", "Float32", "Int64", "category", object])
def test_frame(dtype):
    frame = pd.DataFrame(VALUES, columns=list(NAMES)).astype(dtype)
    same(read_samples(frame))
    same(read_samples(frame[["c", "b", "a"]], variables=NAMES))


def test_frame_of_mixed_columns():
    frame = pd.DataFrame(
        {
            "int": [1, 2],
            "bool": [True, False],
            "nullable": pd.array([True, None], dtype="boolean"),
            "object": [pd.NA, np.float32(0.5)],
            "sparse": pd.arrays.SparseArray([0.0, 1.0]),
            "kinds": pd.Categorical([2, None], categories=[3, 2]),
            7: np.array([1, 2], dtype=np.uint8),
        }
    )
    samples = read_samples(frame)
    np.testing.assert_array_equal(samples.values, [[1, 1, 1, np.nan, 0, 2, 1], [2, 0, np.nan, 0.5, 1, np.nan, 2]])
    assert samples.variables == ("int", "bool", "nullable", "object", "sparse", "kinds", 7)


@pytest.mark.parametrize(
    "dims", ["sample variable", "Time gene", "row column", "patient Feature", "patient gene", "sample time"]
)
def test_dataarray_dims(dims):
    first, second = dims.split()
    X = xr.DataArray(VALUES, {second: list(NAMES)}, (first, second))
    for each in (X, X.T):
        same(read_samples(each))
        same(read_samples(each, sample_dim=first))


def test_a_guess_would_be_a_wrong_model():
    X = xr.DataArray(np.zeros((4, 3)), dims=("station", "gauge"))
    with pytest.raises(InvalidInputError, match="pass sample_dim"):
        read_samples(X)
    assert read_samples(X, sample_dim="gauge").values.shape == (3, 4)
    with pytest.raises(InvalidInputError, match="'patient'"):
        read_samples(X, sample_dim="patient")
    # Dates and known names tell the samples.
    dates = pd.date_range("2026-01-01", periods=len(VALUES))
    X = xr.DataArray(VALUES, {"a": dates, "b": [1, 2, 3]}, ("a", "b"))
    assert read_samples(X.T).labels.sample_dims == ("a",)
    both_worded = xr.DataArray(VALUES, {"a": [f"s{m}" for m in range(len(VALUES))], "b": list(NAMES)}, ("a", "b"))
    same(read_samples(both_worded.T, variables=NAMES))


def test_default_names_take_labelled_columns_by_position():
    frame = pd.DataFrame(VALUES, columns=list(NAMES))
    default = ("x0", "x1", "x2")
    same(read_samples(frame, variables=default), variables=default)
    with pytest.raises(InvalidInputError, match="missing 'x1', 'x2'; unknown 'b', 'c'"):
        read_samples(frame.rename(columns={"a": "x0"}), variables=default)
    # Too few columns are told what stands for the others.
    frame = pd.DataFrame(VALUES, columns=list(NAMES))
    with pytest.raises(InvalidInputError, match=r"missing 'b'; unknown none; .* columns of NaN, .*density_\.marginal"):
        read_samples(frame.drop(columns="b"), variables=NAMES)
    filled = read_samples(frame.drop(columns="b").reindex(columns=list(NAMES)), variables=NAMES)
    assert np.isnan(filled.values[:, 1]).all()


@pytest.mark.parametrize("index", [None, ["s", "t", "u"]])
def test_a_saved_index_is_recognized(index):
    frame = pd.DataFrame(VALUES[:3], columns=list(NAMES), index=index)
    read = pd.read_csv(io.StringIO(frame.to_csv()))
    variables = NAMES if index is None else None  # numbers are unknown to a fit, text to every one
    with pytest.raises(InvalidInputError if index is None else InvalidTypeError, match=r"'Unnamed: 0'.*index_col=0"):
        read_samples(read, variables=variables)


WRONG_TYPES = [
    (np.array([["2020-01-01"]], dtype="datetime64[D]"), "datetime64"),
    (np.array([[1, {}]], dtype=object), r"'x1' hold objects \(dict; the first is \{\} in row 0; an argument must"),
    (pd.DataFrame({"a": [1.0], "b": np.array(["x"], dtype=object)}), "'b'"),
    (pd.DataFrame({"a": [1.0], "b": pd.to_datetime(["2020-01-01"])}), "'b'"),
    (pd.DataFrame({"a": [1.0], "b": pd.Categorical(["x"])}), "'b'.*categories; the first is 'x'.*pandas.factorize"),
    (xr.DataArray([["x", "y"]], {"variable": ["a", "b"]}, ("sample", "variable")), "'a', 'b'"),
    (xr.Dataset({"a": ("t", [1.0]), "b": ("t", ["x"])}), "'b'"),
]
WRONG_VALUES = [
    (np.array([[1 + 1j, 2]]), "Complex data not supported: variable.s. 'x0', 'x1' hold complex128"),
    (pd.DataFrame({"a": [1.0], "b": [1j]}), "'b' hold complex128"),
    (xr.Dataset({"a": ("t", [1.0]), "b": ("t", [1j])}), "'b' hold complex128"),
    (np.empty((0, 3)), r"0 sample\(s\) \(shape=\(0, 3\)\)"),
    (np.empty((3, 0)), r"0 feature\(s\) \(shape=\(3, 0\)\)"),
    (xr.DataArray(np.zeros((2, 2)), dims=("component", "variable")), "rename"),
    (xr.Dataset({"a": ("t", [1.0]), "b": ("u", [1.0])}), "'b'"),
    (xr.Dataset({"a": 1.0}), "0 dimension"),
    (xr.Dataset({"a": ("t", [])}), "0 sample"),
    ([[1, np.inf]], "'x1'"),
    (np.array([[10**400]], dtype=object), "'x0'"),
    (pd.DataFrame({"a": [1.0], "b": [-np.inf]}), "'b'"),
    (pd.DataFrame([[1, 2]], columns=["a", "a"]), "'a' occur more than once"),
    (xr.DataArray(np.zeros((1, 2)), {"variable": ["a", "a"]}, ("sample", "variable")), "'a' occur"),
]


@pytest.mark.parametrize(
    ("X", "match", "error", "kind"),
    [
        *((*row, InvalidTypeError, TypeError) for row in WRONG_TYPES),
        *((*row, InvalidInputError, ValueError) for row in WRONG_VALUES),
    ],
)
def test_what_is_no_table_of_numbers(X, match, error, kind):
    with pytest.raises(error, match=match) as caught:
        read_samples(X)
    assert isinstance(caught.value, kind)


def test_callers_array_is_neither_modified_nor_locked():
    X = VALUES.copy()
    samples = read_samples(X)
    with pytest.raises(ValueError, match="read-only"):
        samples.values[0, 0] = 0
    X[0, 0] = 2  # still writable for its owner
    masked = np.ma.masked_invalid(VALUES.copy())
    read_samples(masked)
    assert np.ma.count_masked(masked) == 2


# Wrapping

INDICES = [
    pd.Index(["p", "q", "r", "s"], name="patient"),
    pd.date_range("2020-01-01", periods=4),
    pd.MultiIndex.from_product([["p", "q"], [1, 2]], names=["patient", "visit"]),
]


def test_wrap_arrays():
    labels = read_samples(VALUES).labels
    for wrapped in (labels.wrap(np.arange(4)), labels.wrap(VALUES), labels.wrap_variables(VALUES)):
        assert type(wrapped) is np.ndarray
    for wrap, shape in ((labels.wrap, (3,)), (labels.wrap_variables, (4, 2))):
        with pytest.raises(InvalidInputError, match="Values have shape"):
            wrap(np.zeros(shape))


@pytest.mark.parametrize("index", INDICES)
def test_wrap_frame(index):
    frame = pd.DataFrame(VALUES, index=index, columns=pd.Index(NAMES, name="gene"))
    labels = read_samples(frame[["c", "a", "b"]], variables=NAMES).labels
    pd.testing.assert_series_equal(labels.wrap(np.arange(4), name="label"), pd.Series(range(4), index, name="label"))
    components = labels.wrap(np.zeros((4, 2)))
    assert components.columns.tolist() == [0, 1]
    assert components.index.equals(index)
    pd.testing.assert_frame_equal(labels.wrap_variables(VALUES), frame[["c", "a", "b"]])


def time_coords(index):
    if index.nlevels > 1:
        return xr.Coordinates.from_pandas_multiindex(index, "time")
    return {"time": index.rename("time")}


def labelled_dataarray(index):
    coords = time_coords(index)
    X = xr.DataArray(VALUES, coords, ("time", "gene"), name="level", attrs={"unit": "mg"})
    return X.assign_coords(
        gene=list(NAMES),
        site=("time", list("wxyz")),
        length=("gene", [1, 2, 3]),
        batch=3,
        quality=(("time", "gene"), VALUES > 5),
    )


@pytest.mark.parametrize("index", INDICES)
def test_wrap_dataarray(index):
    X = labelled_dataarray(index).T
    labels = read_samples(X[{"gene": [2, 0, 1]}], variables=NAMES).labels
    wrapped = labels.wrap(np.arange(4), name="label")
    assert (wrapped.name, wrapped.dims) == ("label", ("time",))
    assert wrapped.indexes["time"].equals(index)
    assert {"site", "batch"} <= set(wrapped.coords)
    assert not {"gene", "length", "quality"} & set(wrapped.coords)
    components = labels.wrap(np.zeros((4, 2)))
    assert components.dims == ("time", "component")
    assert components["component"].values.tolist() == [0, 1]
    assert components.indexes["time"].equals(index)
    xr.testing.assert_identical(labels.wrap_variables(VALUES), X[{"gene": [2, 0, 1]}])


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.RivalSolutionsWarning")
def test_results_of_a_dataarray_become_dataframes():
    X = xr.DataArray(np.random.default_rng(0).normal(size=(60, 3)), dims=("sample", "variable"))
    model = smp.SmoothProductMixture(2, n_init=1, random_state=0).fit(X)
    for method, name in (("predict_proba", "posterior"), ("score_samples", "log_density"), ("predict", "label")):
        assert getattr(model, method)(X).to_dataframe().columns.tolist() == [name]
    assert model.density_.log_joint(X).name == "log_joint"
    assert model.density_.pdf(X).name == "density"


def test_all_columns_that_are_no_numbers_are_named():
    frame = pd.DataFrame(
        {"id": ["a", "b"], "x": [1.0, 2.0], "day": pd.to_datetime(["2024-01-01", None]), "kind": ["u", 3]}
    )
    with pytest.raises(InvalidTypeError, match=r"'id' hold text; the first is 'a'.*Likewise: 'day', 'kind'\.$"):
        read_samples(frame)


@pytest.mark.parametrize("index", INDICES)
def test_wrap_dataset(index):
    coords = time_coords(index)
    data = {name: ("time", VALUES[:, n], {"unit": name}) for n, name in enumerate(NAMES)}
    X = xr.Dataset(data, coords, attrs={"source": "made up"}).assign_coords(component=3)
    labels = read_samples(X[["c", "a", "b"]], variables=NAMES).labels
    wrapped = labels.wrap_variables(VALUES)
    xr.testing.assert_identical(wrapped, X[["c", "a", "b"]])
    assert list(wrapped.data_vars) == ["c", "a", "b"]
    assert labels.wrap(np.arange(4)).indexes["time"].equals(index)
    assert labels.wrap(np.zeros((4, 2))).dims == ("time", "component")


# One value per sample, by its index


def test_values_are_put_in_the_order_of_the_samples():
    frame = pd.DataFrame(VALUES, index=list("wxyz"))
    values = pd.Series([3, 2, 1, 0], index=list("zyxw"))
    assert aligned(values, frame).tolist() == [0, 1, 2, 3]
    assert aligned(values, frame[0]).tolist() == [0, 1, 2, 3]
    for same_order in (values.to_numpy(), [1, 2], None, values[::-1], values[:2]):
        assert aligned(same_order, frame) is same_order
    assert aligned(values, VALUES) is values


@pytest.mark.parametrize("index", [list("zyxq"), list("zyyw")])
def test_values_of_other_samples_are_refused(index):
    frame = pd.DataFrame(VALUES, index=list("wxyz"))
    with pytest.raises(InvalidInputError, match="labels is a Series whose index differs from that of probabilities"):
        aligned(pd.Series([3, 2, 1, 0], index=index), frame, "labels", "probabilities")


@pytest.mark.parametrize(
    ("kind", "dims"), [("dataarray", ("gas", "station", "time")), ("dataset", ("time", "station", "gas"))]
)
def test_samples_along_two_dimensions(kind, dims, tmp_path):
    """A station's hour is a sample: answers have both dimensions, and are those of the stacked samples."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(40, 5, 3)) + 5.0 * rng.integers(2, size=(40, 5, 1))
    values[3, 2, 1] = np.nan
    coords = {"time": np.arange(40), "station": list("pqrst"), "gas": list("abc"), "height": ("station", np.ones(5))}
    X = xr.DataArray(values, coords, ("time", "station", "gas"), name="level").transpose(*dims)
    X = X if kind == "dataarray" else X.to_dataset("gas")
    with pytest.raises(InvalidInputError, match=r"sample_dim=\('\w+', '\w+'\), or X\.stack\(sample="):
        smp.SmoothProductMixture(2).fit(X)
    smp.SmoothProductMixture(2, random_state=0, sample_dim=("time", "station")).fit(X).save(tmp_path / "model.nc")
    model = smp.load(tmp_path / "model.nc")
    flat = smp.SmoothProductMixture(2, random_state=0).fit(values.reshape(200, 3))
    for name in ("predict", "predict_proba", "score_samples"):
        found, expected = getattr(model, name)(X), getattr(flat, name)(values.reshape(200, 3))
        assert found.dims[:2] == ("time", "station")
        assert {"time", "station", "height"} <= set(found.coords)
        np.testing.assert_array_equal(found.values, expected.reshape(found.shape))
    filled = model.impute(X)
    as_given = xr.testing.assert_identical
    as_given(filled.fillna(0).where(X.notnull()), X)
    assert not filled.isnull().to_array().any() if kind == "dataset" else not filled.isnull().any()
    assert model.score(X) == flat.score(values.reshape(200, 3))
    as_given(model.predict(X.isel(station=2)), model.predict(X).isel(station=2))  # of one station, over the time
    area = xr.DataArray([1.0, 2.0, 3.0, 1.0, 0.0], {"station": list("tsrqp")}, ["station"])  # another order
    repeated = np.tile(area.values[::-1], 40)
    for weights in (area, area.broadcast_like(X.coords["time"])):
        assert model.bic(X, weights) == flat.bic(values.reshape(200, 3), repeated)
    weighted = clone(model).fit(X, sample_weight=area).weights_
    np.testing.assert_array_equal(weighted, clone(flat).fit(values.reshape(200, 3), sample_weight=repeated).weights_)
    found = model.predict(X)
    assert smp.metrics.clustering_accuracy(found.transpose("station", "time")[::-1], found) == 1.0
    with pytest.raises(InvalidInputError, match="sample_weight"):
        clone(model).fit(X, sample_weight=area.isel(station=[0, 1]))
    table = smp.select_n_components(X, [2], estimator=model, random_state=0)
    np.testing.assert_allclose(table.bic, flat.bic(values.reshape(200, 3)))
