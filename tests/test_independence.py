"""Which variables depend on each other within components: asked of models and samples of all kinds, and in a fit."""

import textwrap
import warnings

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from shared import circle, fit_quietly

import tensorly_smp as smp
from tensorly_smp.dependence import check
from tensorly_smp.dependence.check import pair_tests
from tensorly_smp.dependence.pairs import PairScores, dependence_warning, judge_pairs, shares_nuisance
from tensorly_smp.exceptions import DependenceWarning, InvalidInputError, InvalidTypeError


@pytest.fixture(scope="module")
def data():
    return smp.datasets.make_smooth_mixture("gaussian", 1000, 4, 2, random_state=4)


@pytest.fixture(scope="module")
def dependent(data):
    """The second variable goes with the first, in both components."""
    X = data.X.copy()
    X[:, 1] += 0.6 * X[:, 0]
    return pd.DataFrame(X, columns=["a", "b", "c", "d"])


@pytest.fixture(scope="module")
def model(dependent):
    return fit_quietly(dependent, 2)


@pytest.fixture(scope="module")
def report(model, dependent):
    return smp.check_independence(model, dependent, random_state=0)


def test_independent_samples_are_called_so_and_discrete_variables_have_a_say(data):
    report = smp.check_independence(fit_quietly(data.X, 2), data.X, random_state=0)
    assert report.n_dependent == 0
    assert report.dependent == []
    assert report.advice == ""
    assert (
        report.summary() == "None of 6 pairs of variables is dependent within components, as far as 1000 samples tell"
    )
    # Discrete variables.
    rng = np.random.default_rng(0)
    first = (rng.random(1000) < np.where(data.labels, 0.8, 0.2)).astype(float)
    second = np.where(rng.random(1000) < 0.4, first, rng.integers(2, size=1000))
    X = np.column_stack([data.X, first, second])
    model = fit_quietly(X, 2)
    assert model.result_.discrete.values.tolist() == [0, 0, 0, 0, 1, 1]
    assert smp.check_independence(model, X, random_state=0).dependent == [("x4", "x5")]


def test_the_pair_that_depends_is_found(report, model, dependent):
    assert report.dependent == [("a", "b")]
    assert report.n_dependent == 1
    assert report.strongest.argmax() == 0
    assert report.tests.correlation[0].min() > 0.3
    first, second, strength = report.worst(0, 1)[0]
    assert (first, second) == ("a", "b")
    assert strength > 0.3
    # Without draws variances are bounds.
    assert smp.check_independence(model, dependent, n_replicates=0).dependent == [("a", "b")]


def test_report_in_words_and_as_a_dataset(report, tmp_path):
    text = repr(report)
    assert text.startswith("Independence within 2 components of 4 variables, 1000 samples\n1 of 6 pairs of variables")
    assert "a, b" in text.split("\n")[5]
    assert text.split("\n")[5].endswith("< 1e-6 *")
    assert text.endswith("\n\n" + "\n".join(textwrap.wrap(report.advice, 100)))
    assert report.advice.startswith("Try UnmixedProductMixture, which allows for linear dependence, or more components")
    html = report._repr_html_()
    assert "<table>" in html
    assert "a, b" in html
    # Report as a dataset.
    dataset = report.to_dataset()
    assert dataset.strength.dims == ("variable", "other_variable", "component")
    np.testing.assert_array_equal(
        dataset.strength, dataset.strength.transpose("other_variable", "variable", "component")
    )
    assert dataset.is_dependent.sum() == 2
    assert int(dataset.is_dependent.sel(variable="a", other_variable="b")) == 1
    assert dataset.attrs["n_dependent"] == 1
    assert dataset.attrs["summary"] == report.summary()
    frame = report.to_dataframe()
    assert frame.columns[:2].tolist() == ["variable", "other_variable"]
    assert frame.loc[0, ["variable", "other_variable"]].tolist() == ["a", "b"]
    assert frame.is_dependent.tolist() == [True] + 5 * [False]
    for _, row in frame.iterrows():
        pair = dataset.strength.sel(variable=row.variable, other_variable=row.other_variable)
        assert row.strength == pair.max() == pair.sel(component=row.component)
    dataset.to_netcdf(tmp_path / "report.nc", engine="scipy")
    with xr.open_dataset(tmp_path / "report.nc", engine="scipy") as again:
        xr.testing.assert_equal(again.load(), dataset)


def test_order_of_rows_and_columns_does_not_matter_and_weights_count(model, dependent, report):
    shuffled = dependent.sample(frac=1.0, random_state=0)[["d", "a", "c", "b"]]
    again = smp.check_independence(model, shuffled, n_replicates=0)
    first = smp.check_independence(model, dependent, n_replicates=0)
    np.testing.assert_allclose(again.tests.statistic, first.tests.statistic, rtol=1e-8)
    # Weights are counts.
    counts = np.random.default_rng(0).integers(0, 3, len(dependent))
    weighted = smp.check_independence(model, dependent, sample_weight=counts, n_replicates=0)
    repeated = smp.check_independence(model, dependent.loc[np.repeat(dependent.index, counts)], n_replicates=0)
    np.testing.assert_allclose(weighted.tests.p_value, repeated.tests.p_value, rtol=1e-6)
    assert weighted.n_samples == pytest.approx(counts.sum())


def test_missing_entries_count_by_pairs(model, dependent):
    hidden = dependent.copy()
    hidden.loc[:599, "a"] = np.nan
    report = smp.check_independence(model, hidden, random_state=0)
    assert report.dependent == [("a", "b")]
    assert report.tests.n_samples.round().tolist() == [400, 400, 400, 1000, 1000, 1000]
    assert report.n_samples == 1000
    assert "at most" not in repr(report)
    # The report has the number of samples and of those of a pair.
    hidden = dependent.copy()
    for n, name in enumerate("abcd"):  # all pairs have 1000 - 200 samples
        hidden.loc[100 * n : 100 * n + 99, name] = np.nan
    report = smp.check_independence(model, hidden, n_replicates=0)
    assert report.n_samples == report.to_dataset().attrs["n_samples"] == 1000
    assert repr(report).startswith(
        "Independence within 2 components of 4 variables, 1000 samples (at most 800 for a pair)\n"
    )


def test_of_very_many_entries_some_samples_are_used(model, dependent, monkeypatch):
    monkeypatch.setattr(check, "MOST_ENTRIES", 8 * 500)  # of two components and four variables
    report = smp.check_independence(model, dependent, n_replicates=0)
    assert report.n_samples == pytest.approx(500)
    np.testing.assert_allclose(report.tests.n_samples, 500)


def test_samples_in_chunks_densities_alone_and_one_variable(model, dependent, report):
    frames = pytest.importorskip("dask.dataframe")
    lazy = frames.from_pandas(dependent, npartitions=3)
    report = smp.check_independence(model, lazy, random_state=0)
    assert report.dependent == [("a", "b")]
    # Densities alone and the same seed.
    of_density = smp.check_independence(model.density_, dependent, random_state=0)
    np.testing.assert_array_equal(of_density.tests.p_value, report.tests.p_value)
    # One variable has no pairs.
    report = smp.check_independence(model.density_.marginal("a"), dependent[["a"]])
    assert report.n_dependent == 0
    assert report.to_dataset().sizes["variable"] == 1
    assert "0 pairs" in repr(report)


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.RivalSolutionsWarning")
def test_sources_of_an_unmixed_model(dependent):
    some = dependent.iloc[:500]
    model = smp.UnmixedProductMixture(2, random_state=0).fit(some)
    report = smp.check_independence(model, some, n_replicates=5, random_state=0)
    assert report.are_sources
    assert report.n_dependent == 0
    assert repr(report).startswith("Independence within 2 components of 4 sources")


def test_false_alarms_are_rare():
    alarms = 0
    for seed in range(4):
        data = smp.datasets.make_smooth_mixture("gamma", 600, 5, 2, random_state=seed)
        alarms += smp.check_independence(fit_quietly(data.X, 2), data.X, n_replicates=5, random_state=0).n_dependent > 0
    assert alarms <= 1


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"level": 0.0}, InvalidInputError, "level is 0.0"),
        ({"level": "small"}, InvalidTypeError, "level is 'small'"),
        ({"n_replicates": -1}, InvalidInputError, "n_replicates"),
        ({"sample_weight": [1.0]}, InvalidInputError, "sample_weight has shape"),
    ],
)
def test_arguments_that_cannot_be_used(model, dependent, arguments, error, words):
    with pytest.raises(error, match=words):
        smp.check_independence(model, dependent, **arguments)
    with pytest.raises(InvalidTypeError, match="model is int"):
        smp.check_independence(3, dependent)


def test_quick_check_sees_what_is_gross(model, dependent, data):
    names = tuple("abcd")
    X, posterior = dependent.to_numpy(), model.predict_proba(dependent).to_numpy()
    warning = dependence_warning(X, posterior, None, (), names)
    assert str(warning).startswith("Variables are strongly dependent within components")
    assert len(str(warning)) <= 200
    assert "UnmixedProductMixture" in warning.advice
    assert (warning.variables, warning.pairs) == (("a", "b"), (("a", "b"),))
    assert "complete rows" not in warning.advice
    hidden = X.copy()
    hidden[0, 2] = np.nan
    assert "needs complete rows (X has missing entries" in dependence_warning(hidden, posterior, None, (), names).advice
    # Discrete variables are not mixed, and need not be complete.
    assert "complete rows" not in dependence_warning(hidden, posterior, None, (2,), names).advice
    assert "UnmixedProductMixture" not in dependence_warning(X, posterior, None, (0, 1, 2, 3), names).advice
    independent = fit_quietly(data.X, 2)
    assert dependence_warning(data.X, independent.predict_proba(data.X), None, (), names) is None


def test_quick_check_of_many_rows_variables_of_nothing_and_of_what_bends():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 60))
    X[:, 1:] += X[:, :1]
    posterior = np.ones((5000, 1))
    names = tuple(range(60))
    warning = dependence_warning(X, posterior, np.ones(5000), (), names)
    assert (len(warning.variables), len(warning.pairs)) == (30, 435)
    assert len(str(warning)) <= 200
    assert dependence_warning(X, posterior, np.zeros(5000), (), names) is None
    assert dependence_warning(X[:10], posterior[:10], None, (), names) is None
    # Quick check of what bends.
    warning = dependence_warning(circle(), np.ones((800, 1)), None, (), "abc")
    assert warning.pairs == (("a", "b"),)
    assert "linear" not in warning.advice


def test_many_variables():
    data = smp.datasets.make_smooth_mixture("gaussian", 600, 60, 2, random_state=0)
    X = data.X.copy()
    X[:, 7] += 0.5 * X[:, 3]
    posterior = np.eye(2)[data.labels]
    assert not shares_nuisance(2, 60)
    density = smp.reconstruct_density(
        smp.MixtureFactors(
            np.array([0.5, 0.5]),
            [np.random.default_rng(n).dirichlet(np.full(8, 5.0), 2).T for n in range(60)],
            smp.choose_binning(X, n_bins=8),
        ),
        method="histogram",
    )
    scores = PairScores.of(X, posterior, np.ones(600))
    assert scores.pairs[judge_pairs(scores).p_value.argmin()].tolist() == [3, 7]
    tests = pair_tests(density, X, np.ones(600), 1, np.random.default_rng(0))
    assert np.isfinite(tests.p_value).all()


def test_a_fit_says_that_variables_depend_on_each_other(data, dependent):
    with pytest.warns(DependenceWarning, match="strongly dependent") as given:
        fitted = smp.SmoothProductMixture(2, random_state=0).fit(dependent)
    assert given[0].filename == __file__
    assert given[0].message.pairs == (("a", "b"),)
    # It draws no random numbers that the fit would miss, and changes nothing.
    np.testing.assert_array_equal(fitted.labels_, fitted.predict(dependent))
    with pytest.warns(DependenceWarning):
        smp.SmoothProductMixture(2, refine="em", density="histogram", random_state=0).fit(dependent)
    with pytest.warns(DependenceWarning):
        smp.SmoothProductMixture(2, random_state=0).fit(dependent, sample_weight=np.arange(1000) % 2)
    smp.SmoothProductMixture(2, random_state=0).fit(data.X)  # where warnings are errors
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for n_components in (1, 2):  # many fits from one line say it once
            smp.SmoothProductMixture(n_components, random_state=0).fit(dependent[:: n_components + 1])
    assert len([each for each in caught if each.category is DependenceWarning]) == 1
    dask = pytest.importorskip("dask.array")
    with pytest.warns(DependenceWarning):
        smp.SmoothProductMixture(2, random_state=0).fit(dask.from_array(dependent.to_numpy(), chunks=(300, 4)))


@pytest.mark.parametrize("kind", ["gmm", "laplace"])
def test_fits_to_independent_samples_do_not(kind):
    data = smp.datasets.make_smooth_mixture(kind, 300, 6, 3, random_state=500)
    posterior = fit_quietly(data.X, 3).predict_proba(data.X)
    for factor in (1.0, 9.5):
        assert dependence_warning(data.X, posterior, np.full(300, factor), (), tuple(range(6))) is None
