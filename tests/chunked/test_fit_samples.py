"""Fits of chunked samples, from end to end, against those of the same samples in memory."""

import warnings

import numpy as np
import pandas as pd
import pytest

import tensorly_smp as smp
from tensorly_smp.exceptions import (
    ClippedMassWarning,
    ConvergenceWarning,
    InvalidInputError,
    SizeLimitError,
)

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

NAMES = list("abcde")


@pytest.fixture(scope="module", autouse=True)
def many_samples():
    """So that these are many: starts are compared on some, the passes over all are those of chunks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tensorly_smp.samples.values.MOST_ROWS", 500)
        yield


@pytest.fixture(scope="module")
def samples():
    X = smp.datasets.make_smooth_mixture("gmm", 1200, n_variables=5, n_components=3, random_state=0).X
    rng = np.random.default_rng(1)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[5] = np.nan
    return X, rng.integers(0, 3, 1200).astype(float)


def of_unknown_sizes(X):
    return da.from_array(X, chunks=(170, 2))[da.from_array(np.ones(len(X), dtype=bool), chunks=170)]


CHUNKED = {
    "uneven": lambda x: da.from_array(x, chunks=((1, len(x) - 501, 300, 200), (3, 2))),
    "unknown": of_unknown_sizes,
    "frame": lambda x: dd.from_pandas(pd.DataFrame(x, columns=NAMES), npartitions=7),
}
OPTIONS = {
    "cpd": dict(refine=None, max_iter=100),
    "em": dict(refine="em", max_iter=100),
    "smooth": dict(refine="smooth"),
    "triples": dict(refine=None, triples=5, loss="frobenius", max_iter=30),
    "quantile": dict(refine=None, binning="quantile", density="histogram", max_iter=30),
}


@pytest.fixture(scope="module")
def in_memory(samples):
    """Fits in memory, each made once."""
    fits = {}

    def fit(options, weighted):
        if (options, weighted) not in fits:
            fits[options, weighted] = fitted(samples[0], samples[1] if weighted else None, **OPTIONS[options])
        return fits[options, weighted]

    return fit


def fitted(X, sample_weight=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if options.get("refine", "smooth") != "smooth":
            warnings.simplefilter("ignore", ClippedMassWarning)  # bins of few samples
        return smp.SmoothProductMixture(3, random_state=0, **options).fit(X, sample_weight=sample_weight)


def assert_same(found, expected, tolerance=1e-7):
    """The same up to rounding, which passes of EM let grow."""
    first, second = found.result_, expected.result_
    assert set(first.variables) == set(second.variables)
    for name in first.variables:
        if name in ("seconds", "variable") or first[name].dtype.kind not in "fi":
            continue
        assert first[name].shape == second[name].shape, name
        scale = max(1.0, float(np.abs(np.nan_to_num(second[name].values)).max(initial=0.0)))
        if name in ("penalty", "spline"):  # at a flat optimum rounding moves a penalty, and what it smooths
            scale *= 1000.0
        assert np.allclose(first[name], second[name], rtol=0, atol=tolerance * scale, equal_nan=True), name
    same = {"status", "n_sweeps", "n_samples", "n_passes", "density", "refine", "best_start"} & set(second.attrs)
    assert {name: first.attrs[name] for name in same} == {name: second.attrs[name] for name in same}


@pytest.mark.parametrize(("options", "kind"), [("em", "uneven"), *(("smooth", kind) for kind in CHUNKED)])
def test_fit_is_that_in_memory_whatever_the_chunks(options, kind, samples, in_memory):
    X, weights = samples
    weighted = kind != "frame"
    found = fitted(CHUNKED[kind](X), weights if weighted else None, **OPTIONS[options])
    expected = in_memory(options, weighted)
    assert_same(found, expected)
    assert np.array_equal(found.labels_.compute(), expected.labels_)
    assert found.binning_.variables == (tuple(NAMES) if kind == "frame" else ("x0", "x1", "x2", "x3", "x4"))


@pytest.mark.parametrize("options", ["cpd", "triples", "quantile"])
def test_coupled_decomposition_is_that_in_memory(options, samples, in_memory):
    """To the last bit: without weights, the histograms are."""
    assert_same(fitted(CHUNKED["uneven"](samples[0]), **OPTIONS[options]), in_memory(options, False), 0.0)


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.RivalSolutionsWarning")  # of 150 samples
@pytest.mark.parametrize("options", ["cpd", "em", "smooth"])
def test_many_samples_are_thinned_alike(options, samples, monkeypatch):
    monkeypatch.setattr("tensorly_smp.samples.values.MOST_ROWS", 150)
    X, weights = samples[0][:600], samples[1][:600]
    expected = fitted(X, weights, **OPTIONS[options])
    assert_same(fitted(CHUNKED["uneven"](X), weights, **OPTIONS[options]), expected)


def test_few_samples_are_fitted_in_memory(samples, monkeypatch):
    monkeypatch.setattr("tensorly_smp.samples.values.MOST_ROWS", 1200)
    expected = fitted(samples[0])
    monkeypatch.setattr("tensorly_smp.likelihood.steps.CellPart.packed", None)
    assert_same(fitted(CHUNKED["uneven"](samples[0])), expected, tolerance=1e-12)


@pytest.mark.parametrize(("options", "n_variables"), [("smooth", 8), ("cpd", 5)])
def test_many_variables_are_fitted_as_in_memory(options, n_variables, monkeypatch):
    monkeypatch.setattr("tensorly_smp.fitting.stages.MOST_CELLS_FOR_KL", 10)
    monkeypatch.setattr("tensorly_smp.samples.values.MOST_ROWS", 400)
    monkeypatch.setattr("tensorly_smp.samples.parts.PART_ENTRIES", 4000)
    X = smp.datasets.make_smooth_mixture("gaussian", 1200, n_variables, 3, random_state=0).X
    settings = OPTIONS[options] | (dict(max_iter=5, n_init=1) if options == "cpd" else {})
    found, expected = fitted(da.from_array(X, chunks=(500, n_variables)), **settings), fitted(X, **settings)
    # In memory the sweeps are over the same histograms, or over the samples, to rounding.
    assert options == "smooth" or found.result_.attrs["histograms"] == "counted"
    assert_same(found, expected)


def test_histograms_that_are_too_large_name_the_number_of_triples(monkeypatch):
    monkeypatch.setattr("tensorly_smp.fitting.stages.MAX_BYTES", 1000.0)
    monkeypatch.setattr("tensorly_smp.fitting.stages.MOST_CELLS_FOR_KL", 10)
    X = smp.datasets.make_smooth_mixture("gaussian", 1200, 5, 3, random_state=0).X
    chunks = da.from_array(X, chunks=(500, 5))
    with pytest.raises(
        SizeLimitError, match=r"all 10 triples of 5 variables.*Expected a number of triples, as triples"
    ):
        fitted(chunks, refine=None)
    assert len(fitted(chunks, refine=None, triples=5, max_iter=5).result_["weights"]) == 3
    assert fitted(chunks, refine="smooth").result_.attrs["n_passes"] > 0


def test_long_tails(samples):
    X = np.exp(samples[0])
    X[:, ::2] = np.floor(1e4 * X[:, ::2])
    expected = fitted(X)
    assert np.isfinite(expected.result_["spline_scale"]).all()
    assert_same(fitted(CHUNKED["uneven"](X)), expected)


def test_rounded_and_discrete_variables(samples):
    X = np.delete(samples[0], 5, axis=0)  # the others are all different, and thinned alike
    X[:, 0] = np.round(2 * X[:, 0]) / 2
    X[:, 1] = np.where(X[:, 1] > 0, 1.0, 0.0)
    found, expected = fitted(CHUNKED["uneven"](X)), fitted(X)
    assert expected.result_.discrete.values.tolist() == [0, 1, 0, 0, 0]
    assert_same(found, expected)
    assert found.result_.categories[1, :2].values.tolist() == [0, 1]
    holes = np.where(np.arange(5) == 1, np.nan, X)
    for drawn in (found.sample(300, 0)[0], found.impute(CHUNKED["uneven"](holes), "draw", 0).compute()):
        assert np.unique(np.asarray(drawn)[:, 1]).tolist() == [0, 1]


def test_fitted_model_predicts_saves_and_clones(samples, tmp_path):
    model = fitted(CHUNKED["frame"](samples[0]), **OPTIONS["smooth"])
    frame = pd.DataFrame(samples[0], columns=NAMES)
    model.save(tmp_path / "model.nc")
    loaded = smp.load(tmp_path / "model.nc")
    assert np.array_equal(loaded.predict(frame), model.labels_.compute())
    assert isinstance(model.sample(5, random_state=0)[0], pd.DataFrame)
    assert model.score(CHUNKED["frame"](samples[0])) == pytest.approx(model.score(frame), rel=1e-12)
    # Given bins and support.
    X = samples[0]
    binning = smp.Binning(smp.choose_binning(X, 8).edges, tuple(NAMES))
    options = dict(binning=binning, refine="smooth", support={"b": (-50, None)}, discrete=["c"])
    frame = pd.DataFrame(X, columns=NAMES)
    assert_same(fitted(dd.from_pandas(frame[NAMES[::-1]], npartitions=3), **options), fitted(frame, **options))


def test_errors_and_warnings_are_those_in_memory(samples, monkeypatch):
    monkeypatch.setattr("tensorly_smp.samples.values.MOST_ROWS", 1200)
    X = samples[0]
    with pytest.raises(InvalidInputError, match="at least three"):
        smp.SmoothProductMixture(2).fit(da.from_array(X[:, :2], chunks=100))
    with pytest.raises(InvalidInputError, match="'x1'"):
        fitted(da.from_array(np.where(np.arange(5) == 1, np.nan, X), chunks=100))
    with pytest.raises(InvalidInputError, match="support of 'x0'"):
        fitted(CHUNKED["uneven"](X), support={"x0": (0, 1)})
    with pytest.warns(ConvergenceWarning, match="stopped after 2"):
        smp.SmoothProductMixture(3, refine="em", max_iter=2, random_state=0).fit(CHUNKED["uneven"](X))


def test_error_of_a_chunk_comes_through():
    def broken(block):
        if len(block):
            raise OSError("the disk is gone")
        return block

    X = da.zeros((100, 4), chunks=(10, 4)).map_blocks(broken, meta=np.empty((0, 0)))
    with pytest.raises(OSError, match="the disk is gone"):
        fitted(X)
