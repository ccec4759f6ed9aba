"""polars and pyarrow: columns are matched by name, and answers are of the same kind."""

import decimal

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import tensorly_smp as smp
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError, UnitsWarning
from tensorly_smp.samples.reading import read_samples

DATA = smp.datasets.make_smooth_mixture("gaussian", 400, 4, 2, random_state=1)
NAMES = ["a", "b", "c", "d"]


def fit(X, **parameters):
    return smp.SmoothProductMixture(**{"n_components": 2, "n_init": 1, "random_state": 0} | parameters).fit(X)


@pytest.fixture(params=["polars", "pyarrow"])
def library(request):
    return pytest.importorskip(request.param)


def made(library, columns):
    return library.DataFrame(columns) if hasattr(library, "DataFrame") else library.table(columns)


def test_columns_are_matched_by_name(library):
    columns = dict(zip(NAMES, DATA.X.T, strict=True))
    frame, reordered = made(library, columns), made(library, {name: columns[name] for name in "dbca"})
    model = fit(frame)
    assert model.feature_names_in_.tolist() == NAMES
    plain = fit(pd.DataFrame(columns))
    for X in (frame, reordered, pd.DataFrame(columns)[list("cdab")]):
        np.testing.assert_array_equal(np.asarray(model.predict(X)), plain.predict(pd.DataFrame(columns)))
    assert smp.metrics.clustering_accuracy(DATA.labels, np.asarray(model.predict(reordered))) > 0.95
    with pytest.raises(InvalidInputError, match="do not match"):
        model.predict(made(library, {name.upper(): column for name, column in columns.items()}))


def test_answers_are_of_the_same_kind(library, tmp_path):
    X = DATA.X.copy()
    X[::7, 1] = np.nan
    frame = made(library, {name: X[:, n] for n, name in enumerate(NAMES)})
    model = fit(frame)
    model.save(tmp_path / "model.nc")
    for each in (model, smp.load(tmp_path / "model.nc")):
        drawn, components = each.sample(5, 0)
        for found, columns in ((each.impute(frame), NAMES), (each.predict_proba(frame), ["0", "1"]), (drawn, NAMES)):
            assert type(found) is type(frame)
            assert list(getattr(found, "column_names", found.columns)) == columns
        for found in (each.predict(frame), each.score_samples(frame), components):
            assert type(found).__module__.startswith(library.__name__)
    filled = np.stack([np.asarray(model.impute(frame)[name]) for name in NAMES], axis=1)
    np.testing.assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])
    assert np.isfinite(filled).all()


def test_missing_entries_booleans_decimals_and_what_is_none(library):
    columns = {
        "whole": [1, None, 3],
        "flag": [True, False, None],
        "money": [decimal.Decimal("1.5"), None, decimal.Decimal(2)],
    }
    expected = [[1, 1, 1.5], [np.nan, 0, np.nan], [3, np.nan, 2]]
    np.testing.assert_array_equal(read_samples(made(library, columns)).values, expected)
    with pytest.raises(InvalidTypeError, match=r"'text' .*Likewise: 'other'"):
        read_samples(made(library, columns | {"text": ["a", "b", "c"], "other": ["a", "b", "c"]}))


def test_lazy_frames_other_tables_and_trees():
    polars = pytest.importorskip("polars")
    if hasattr(xr, "DataTree"):
        with pytest.raises(InvalidTypeError, match=r"DataTree.*\.to_dataset\(\)"):
            read_samples(xr.DataTree(xr.Dataset({"a": ("x", [1.0])})))
    for column in (
        polars.Series([[1.0, 2.0]], dtype=polars.Array(polars.Float64, 2)),
        polars.Series([{"x": 1.0}]),
        polars.Series([[1.0], None][:1]),
    ):
        with pytest.raises(InvalidTypeError, match="'a' hold"):
            read_samples(polars.DataFrame({"a": column}))
    wide = polars.Series([2**100, None], dtype=polars.Int128)
    np.testing.assert_array_equal(read_samples(polars.DataFrame({"a": wide})).values[:, 0], [2.0**100, np.nan])
    with pytest.raises(InvalidTypeError, match="collect"):
        read_samples(polars.LazyFrame({"a": [1.0]}))

    class Foreign:
        def __dataframe__(self):
            raise NotImplementedError

    with pytest.raises(InvalidTypeError, match="to_pandas"):
        read_samples(Foreign())


def test_a_pipeline_that_hands_frames_on():
    pytest.importorskip("polars")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    pipeline = make_pipeline(StandardScaler(), smp.SmoothProductMixture(2, n_init=1, random_state=0))
    pipeline.set_output(transform="polars")
    frame = pd.DataFrame(DATA.X, columns=NAMES)
    assert type(pipeline.fit(frame).predict(frame)).__module__.startswith("polars")
    assert pipeline[-1].feature_names_in_.tolist() == NAMES


@pytest.mark.parametrize(
    "column",
    [
        [decimal.Decimal("1.5"), None, decimal.Decimal("NaN")],
        pd.array([1.5, None, None], dtype="Float32"),
        pd.Categorical([decimal.Decimal("1.5"), None, None]),
    ],
    ids=["decimals", "nullable", "categories"],
)
def test_columns_that_scikit_learn_takes(column):
    np.testing.assert_array_equal(read_samples(pd.DataFrame({"a": column})).values[:, 0], [1.5, np.nan, np.nan])


def test_columns_of_arrow_in_pandas():
    pyarrow = pytest.importorskip("pyarrow")
    for values, kind in (([True, None], pyarrow.bool_()), ([1.0, None], pyarrow.decimal128(5, 2))):
        column = pd.Series([values[0] if isinstance(values[0], bool) else decimal.Decimal(1), None])
        frame = pd.DataFrame({"a": column.astype(pd.ArrowDtype(kind))})
        np.testing.assert_array_equal(read_samples(frame).values[:, 0], [1.0, np.nan])
    # Types of arrow in a table that pandas made.
    pyarrow = pytest.importorskip("pyarrow")
    kind = pd.ArrowDtype(pyarrow.dictionary(pyarrow.int8(), pyarrow.string()))
    frame = pd.DataFrame({"a": [1.5, 2.0], "b": pd.Series(["v", "u"], dtype=kind)})
    read = read_samples(pyarrow.Table.from_pandas(frame), value_labels=None)
    np.testing.assert_array_equal(read.values[:, 0], [1.5, 2.0])
    assert [read.value_labels["b"].labels[int(code)] for code in read.values[:, 1]] == ["v", "u"]


def test_columns_without_any_entry_are_missing_whatever_their_type():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": pd.Series([None, None], dtype="string"), "c": [pd.NaT, pd.NaT]})
    np.testing.assert_array_equal(read_samples(frame).values, [[1, np.nan, np.nan], [2, np.nan, np.nan]])


@pytest.mark.parametrize("name", [None, pd.NaT])
def test_a_column_without_a_name(name, tmp_path):
    frame = pd.DataFrame(DATA.X, columns=pd.Index([name, "b", "c", "d"], dtype=object))
    model = fit(frame)
    model.save(tmp_path / "model.nc")
    for each in (model, smp.load(tmp_path / "model.nc")):
        np.testing.assert_array_equal(each.predict(frame[frame.columns[::-1]]), model.predict(frame))
    assert model.impute(frame).columns.equals(frame.columns)


INDEXES = {
    "dates": pd.date_range("2020-01-01", periods=400, name="day"),
    "levels": pd.MultiIndex.from_product([list("uv"), range(200)]),
    "none": pd.RangeIndex(0, 800, 2),
}


@pytest.mark.parametrize("kind", INDEXES)
def test_an_index_of_pandas_in_a_table_of_arrow_is_no_variable(kind):
    pyarrow = pytest.importorskip("pyarrow")
    frame = pd.DataFrame(DATA.X, INDEXES[kind], NAMES)
    frame.iloc[::7, 1] = np.nan
    table = pyarrow.Table.from_pandas(frame)
    model = fit(table)
    assert model.binning_.variables == tuple(NAMES)
    np.testing.assert_array_equal(model.predict(table), model.predict(frame))
    pd.testing.assert_frame_equal(model.impute(table).to_pandas(), model.impute(frame), check_freq=False)
    batch = pyarrow.RecordBatch.from_pandas(frame)
    np.testing.assert_array_equal(model.predict_proba(batch).to_pandas(), model.predict_proba(frame))


# Labels of xarray


@pytest.mark.parametrize("kind", ["dataarray", "dataset"])
def test_a_coordinate_called_component_is_kept(kind):
    X = xr.DataArray(DATA.X, {"variable": NAMES, "component": ("sample", DATA.labels)}, ("sample", "variable"))
    X = X if kind == "dataarray" else X.to_dataset("variable")
    found = fit(X).predict_proba(X)
    assert found.component.values.tolist() == [0, 1]
    np.testing.assert_array_equal(found.component_.values, DATA.labels)
    assert found.component_.dims == ("sample",)


@pytest.mark.parametrize("is_lazy", [False, True])
def test_other_units_than_those_of_the_fit(is_lazy):
    X = xr.Dataset({name: ("sample", DATA.X[:, n], {"units": "mm"}) for n, name in enumerate(NAMES)})
    model = fit(X)
    other = X.assign(b=X.b.assign_attrs(units="m"), c=X.c.assign_attrs(units=""))
    if is_lazy:
        pytest.importorskip("dask.array")
        other = other.chunk({"sample": 100})
    for method in (model.predict, model.predict_proba, model.score_samples, model.impute):
        with pytest.warns(UnitsWarning, match=r"variable\(s\) 'b' \(m, fitted in mm\)\."):
            method(other)
        method(X)


def test_a_dataset_of_dask_arrays_stays_lazy():
    dask = pytest.importorskip("dask.array")
    X = xr.Dataset({name: ("row", DATA.X[:, n], {"note": name}) for n, name in enumerate(NAMES)}, attrs={"of": "all"})
    X["b"][::5] = np.nan
    X = X.assign_coords(row=np.arange(400) * 2, variable=("row", DATA.labels))
    lazy, model = X.chunk({"row": 130}), fit(X)

    def read(block):
        raise AssertionError("computed")

    unread = lazy.copy(data={name: lazy[name].data.map_blocks(read, dtype=float) for name in NAMES})
    for method in ("predict", "predict_proba", "score_samples", "impute"):
        getattr(model, method)(unread)
        found = getattr(model, method)(lazy)
        (xr.testing.assert_allclose if method == "impute" else xr.testing.assert_identical)(
            found.compute(), getattr(model, method)(X)
        )
    assert all(isinstance(array.data, dask.Array) for array in model.impute(lazy).data_vars.values())
    assert smp.metrics.clustering_accuracy(DATA.labels, fit(lazy).labels_.compute()) > 0.95
    with pytest.raises(InvalidInputError, match="one-dimensional"):
        fit(lazy.assign(e=(("row", "more"), dask.zeros((400, 2)))))
    with pytest.raises(InvalidTypeError, match="'e'"):
        fit(lazy.assign(e=("row", np.array(["x"] * 400))))
