"""Text and categories: codes in the fit, and the same labels in what comes out of it."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import tensorly_smp as smp
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.samples.codebook import ValueLabels, from_json, to_json
from tensorly_smp.samples.reading import read_samples

pytestmark = pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.TensorlySmpWarning")

RNG = np.random.default_rng(0)
GROUPS = RNG.random(400) < 0.4
ITEMS = (RNG.random((400, 4)) < np.where(GROUPS, 0.85, 0.15)[:, None]).astype(float)
LEVELS = np.minimum(2, (2 * RNG.random(400) + GROUPS).astype(int)).astype(float)
IS_MISSING = RNG.random((400, 5)) < 0.05
CODES = pd.DataFrame(np.where(IS_MISSING, np.nan, np.column_stack([ITEMS, LEVELS])), columns=list("abcde"))
SIZES = ["low", "mid", "high"]


def words(kind=None):
    """The codes as text, the last one as ordered categories."""
    items = CODES[list("abcd")].replace({0.0: "no", 1.0: "yes"}).astype(object)
    frame = items.where(CODES[list("abcd")].notna(), None)
    sizes = pd.Categorical.from_codes(CODES["e"].fillna(-1).astype(int), SIZES, ordered=True)
    return frame.astype(kind or object).assign(e=sizes)


@pytest.fixture(scope="module")
def by_codes():
    return smp.SmoothProductMixture(2, random_state=0).fit(CODES)


@pytest.fixture(scope="module")
def model():
    return smp.SmoothProductMixture(2, random_state=0).fit(words())


def as_frame(X):
    """Text of a frame of any library, missing entries as None."""
    frame = X if isinstance(X, pd.DataFrame) else X.to_pandas()
    return frame.astype(object).where(frame.notna(), None)


def polars_frame():
    polars = pytest.importorskip("polars")
    items = {name: words()[name].tolist() for name in "abc"}
    other = polars.Series(words()["d"].tolist(), dtype=polars.Categorical)
    sizes = polars.Series(
        words()["e"].astype(object).where(CODES["e"].notna(), None).tolist(), dtype=polars.Enum(SIZES)
    )
    return polars.DataFrame(items | {"d": other, "e": sizes})


def arrow_table():
    pyarrow = pytest.importorskip("pyarrow")
    return pyarrow.Table.from_pandas(words(), preserve_index=False)


FRAMES = {
    "objects": words,
    "string": lambda: words("string"),
    "categories": lambda: words("category"),
    "polars": polars_frame,
    "arrow": arrow_table,
}


def decoded(codes):
    """Labels of codes, as objects."""
    items = {name: codes[name].map({0: "no", 1: "yes"}).astype(object) for name in "abcd"}
    return pd.DataFrame(items).assign(e=codes["e"].map(dict(enumerate(SIZES))).astype(object))


@pytest.mark.parametrize("kind", FRAMES)
def test_text_is_the_fit_of_its_codes(kind, by_codes):
    X = FRAMES[kind]()
    model = smp.SmoothProductMixture(2, random_state=0).fit(X)
    np.testing.assert_array_equal(np.asarray(model.score_samples(X)), by_codes.score_samples(CODES))
    drawn, filled = model.sample(50, 0)[0], model.impute(X)
    pd.testing.assert_frame_equal(as_frame(drawn), decoded(by_codes.sample(50, 0)[0]))
    given = as_frame(X)
    assert (as_frame(filled) == given)[given.notna()].stack().all()
    assert as_frame(filled).notna().all(axis=None)
    for found in (drawn, filled):
        if isinstance(X, pd.DataFrame):
            expected = X.dtypes if kind == "categories" else words("str").dtypes
            assert found.dtypes.tolist() == expected.tolist()
        elif kind == "polars":
            assert found.schema == X.schema
        else:
            assert [str(each.type)[:6] for each in found.schema] == [str(each.type)[:6] for each in X.schema]
            assert found.schema.field("e").type.ordered


@pytest.mark.parametrize("kind", ["text", "rows", "masked", "dataarray", "dataset"])
def test_arrays_of_text(kind):
    objects = words()[list("abcd")].to_numpy(object)[:, :4]
    codes = CODES[list("abcd")].to_numpy()
    complete = ~np.isnan(codes).any(axis=1)
    if kind == "text":
        objects, codes = objects[complete].astype(str), codes[complete]
    X = {
        "rows": lambda: objects.tolist(),
        "masked": lambda: np.ma.masked_array(np.where(np.isnan(codes), "", objects).astype(str), np.isnan(codes)),
        "dataarray": lambda: xr.DataArray(objects, {"item": list("abcd")}, ("row", "item")),
        "dataset": lambda: xr.Dataset({name: ("row", objects[:, n]) for n, name in enumerate("abcd")}),
    }.get(kind, lambda: objects)()
    np.testing.assert_array_equal(read_samples(X, value_labels=None).values, codes)
    model = smp.SmoothProductMixture(2, n_init=1, random_state=0).fit(X)
    filled = model.impute(X)
    filled = np.asarray(filled.to_dataframe()) if kind == "dataset" else np.asarray(filled)
    observed = ~np.isnan(codes)
    np.testing.assert_array_equal(filled[observed], np.where(codes == 1, "yes", "no")[observed])
    assert set(np.unique(filled)) == set(np.unique(np.asarray(model.sample(50, 0)[0]))) == {"no", "yes"}


def test_numbers_beside_text_in_rows():
    read = read_samples([["u", 1, None], [None, 2.5, "w"], ["t", None, "w"]], value_labels=None)
    np.testing.assert_array_equal(read.values, [[1, 1, np.nan], [np.nan, 2.5, 0], [0, np.nan, 0]])
    assert {name: own.labels for name, own in read.value_labels.items()} == {"x0": ("t", "u"), "x2": ("w",)}


def test_new_samples_are_read_by_the_labels_of_the_fit(model):
    frame = words()
    expected = model.predict_proba(frame)
    other = frame.assign(
        a=pd.Categorical(frame["a"], ["never", "yes", "no"]),
        e=frame["e"].astype(object),
    )[list("edcba")]
    pd.testing.assert_frame_equal(model.predict_proba(other), expected)
    pd.testing.assert_frame_equal(model.predict_proba(CODES), expected)
    pd.testing.assert_frame_equal(model.predict_proba(frame[:1]), expected[:1])
    missing = frame.assign(a=None)
    pd.testing.assert_frame_equal(model.predict_proba(missing), model.predict_proba(CODES.assign(a=np.nan)))
    assert model.impute(missing)["a"].isin(["no", "yes"]).all()
    with pytest.raises(InvalidInputError, match="Variable 'b' holds 'maybe', 'si'; expected labels of the fit, 'no',"):
        model.predict(frame.assign(b=["maybe", "si"] * 200))
    with pytest.raises(InvalidInputError, match="'b' holds numbers; expected its labels, 'no', 'yes', or their codes"):
        model.predict(frame.assign(b=2))
    with pytest.raises(InvalidTypeError, match="'b' hold text; the first is 'no'"):
        smp.SmoothProductMixture(2, n_init=1, random_state=0).fit(CODES).predict(CODES.assign(b="no"))


def test_points_and_given_values_may_be_labels(model):
    density = model.density_
    found = density.pdf_1d(pd.Series(["yes", "no"], ["p", "q"]), "a")
    np.testing.assert_array_equal(found, density.pdf_1d([1.0, 0.0], "a"))
    assert found.index.tolist() == ["p", "q"]
    here = density.pdf_1d(xr.DataArray(["low", "high"], dims="size"), "e", "all")
    np.testing.assert_array_equal(here, density.pdf_1d([0.0, 2.0], "e", "all"))
    np.testing.assert_array_equal(
        density.conditional({"a": "yes", "e": "mid"}).weights, density.conditional({"a": 1, "e": 1}).weights
    )
    with pytest.raises(InvalidInputError, match="'maybe'"):
        density.pdf_1d(["maybe"], "a")


def test_the_most_probable_label_is_imputed_and_files_keep_labels(model, tmp_path):
    frame = words()[CODES["e"].isna()]
    shares = model.predict_proba(frame).to_numpy() @ model.density_.pdf_1d(SIZES, "e", "all").T
    assert model.impute(frame)["e"].tolist() == [SIZES[k] for k in shares.argmax(axis=1)]
    assert len(set(model.impute(frame, "draw", 0)["e"])) > 1
    # Files keep the labels.
    model.save(tmp_path / "model.nc")
    loaded = smp.load(tmp_path / "model.nc")
    pd.testing.assert_frame_equal(loaded.sample(20, 0)[0], model.sample(20, 0)[0])
    pd.testing.assert_frame_equal(loaded.impute(words()), model.impute(words()))


@pytest.mark.parametrize(
    ("column", "match"),
    [
        ([f"n{m}" for m in range(400)], "'f' hold text; the first is 'n0', of 400 values in 400 rows"),
        ([f"n{m % 101}" for m in range(400)], "of 101 values in 400 rows"),
        (["3", "4+"] * 200, r"text that may be numbers \('3'\).*pandas\.to_numeric"),
        (["a", 3.0] * 200, "objects .str; the first is 'a' in row 0"),
        (
            pd.Categorical.from_codes([0, 1] * 200, pd.to_datetime(["2024-01-01", "2025-01-01"])),
            r"'f' hold objects \(Timestamp",
        ),
    ],
)
def test_text_that_is_no_category_is_refused(column, match):
    with pytest.raises(InvalidTypeError, match=match):
        smp.SmoothProductMixture(2).fit(words().assign(f=column))


def test_rows_are_counted_with_their_weights():
    patterns = words()[list("abe")].dropna().drop_duplicates()
    counts = np.full(len(patterns), 10)
    model = smp.SmoothProductMixture(1, random_state=0).fit(
        patterns[:5].assign(e=list("uvwxy")), sample_weight=counts[:5]
    )
    assert model.sample(50, 0)[0]["e"].isin(list("uvwxy")).all()
    with pytest.raises(InvalidTypeError, match="'e' hold text; the first is 'u', of 5 values in 5 rows"):
        smp.SmoothProductMixture(1).fit(patterns[:5].assign(e=list("uvwxy")))


def test_categories_of_digits_and_functions_without_labels(by_codes):
    frame = CODES.astype("Int64").astype("str").where(CODES.notna(), None).astype("category")
    model = smp.SmoothProductMixture(2, random_state=0).fit(frame)
    np.testing.assert_array_equal(model.score_samples(frame), by_codes.score_samples(CODES))
    assert set(model.sample(50, 0)[0]["e"]) == {"0", "1", "2"}
    for refuses in (smp.choose_binning, smp.SmoothProductMixture(2, refine=None).partial_fit):
        with pytest.raises(InvalidTypeError, match="'a' hold categories; the first is '"):
            refuses(frame)


@pytest.mark.parametrize(
    "text", ["", "[]", "[1]", "{}", '[{"kind": "text", "labels": [1]}]', '[{"kind": "?", "labels": []}]']
)
def test_labels_of_a_damaged_file(text):
    own = {"a": ValueLabels(("\u00e9", "z"), "ordered")}
    assert from_json(to_json(own, ["a"]), ["a"]) == own
    with pytest.raises(InvalidInputError, match="value_labels"):
        from_json(text, ["a"])


def test_sources_and_text():
    X = words()[list("ab")].fillna("no").assign(u=RNG.normal(size=400), v=RNG.normal(size=400) + 4 * GROUPS)[:200]
    X["u"] += X["v"]
    model = smp.UnmixedProductMixture(2, random_state=0).fit(X)
    assert model.unmixing_["variable"].values.tolist() == ["u", "v"]
    np.testing.assert_array_equal(model.density_.pdf_1d(["yes"], "a"), model.density_.pdf_1d([1.0], "a"))
    for frame in (model.sample(50, 0)[0], model.unmix(X)):
        assert set(frame["a"]) == {"no", "yes"}
    assert smp.check_independence(model, X, random_state=0).n_dependent == 0
    assert model.bootstrap(X, 2, random_state=0).sizes["variable"] == 4


def test_dask(by_codes):
    dd = pytest.importorskip("dask.dataframe")
    frame = words("category")
    X = dd.from_pandas(frame, npartitions=3)
    model = smp.SmoothProductMixture(2, random_state=0).fit(X)
    np.testing.assert_allclose(model.score_samples(X).compute(), by_codes.score_samples(CODES), atol=1e-9)
    filled = model.impute(X)
    pd.testing.assert_frame_equal(filled.compute(), model.impute(frame), check_index_type=False)
    assert filled.dtypes.tolist() == frame.dtypes.tolist()
    text = dd.from_pandas(words("str"), npartitions=2)
    np.testing.assert_array_equal(model.predict(text).compute(), model.predict(frame))
    with pytest.raises(InvalidInputError, match="'never'"):
        model.predict(text.assign(a="never")).compute()
    with pytest.raises(InvalidTypeError, match=r"'a' hold text.*text in dask DataFrames, to categories"):
        smp.SmoothProductMixture(2).fit(text)
    with pytest.raises(InvalidTypeError, match=r"'a' hold categories that are not known yet \(call X\.categorize"):
        smp.SmoothProductMixture(2).fit(text.astype({"a": "category"}))
    assert smp.check_independence(model, X, random_state=0).n_dependent == 0


@pytest.mark.parametrize("refine", ["em", None])
def test_other_fits_take_text(refine):
    model = smp.SmoothProductMixture(2, refine=refine, random_state=0).fit(words())
    codes = smp.SmoothProductMixture(2, refine=refine, random_state=0).fit(CODES)
    np.testing.assert_array_equal(model.score_samples(words()), codes.score_samples(CODES))
    assert model.binning_.n_bins == (2, 2, 2, 2, 3)


def test_replicates_and_pictures_know_the_labels(model):
    replicates = model.bootstrap(words(), 2, random_state=0)
    assert from_json(replicates.attrs["value_labels"], list("abcde")) == dict(model.density_.value_labels)
    pytest.importorskip("matplotlib")
    axes = model.plot.conditionals(words(), bootstrap=replicates)
    assert [tick.get_text() for tick in axes[4].get_xticklabels()] == SIZES
    many = words().assign(e=[f"a long name of {m % 20:02}" for m in range(400)])
    ax = smp.SmoothProductMixture(1, random_state=0).fit(many).plot.conditionals(many)[4]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == [f"a long\nname of\n{m:02}" for m in range(0, 20, 4)]
