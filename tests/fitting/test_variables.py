"""The bins on which a refinement starts: far values, and discrete variables."""

import numpy as np
import pandas as pd
import pytest

import tensorly_smp as smp
from tensorly_smp.exceptions import ConstantVariableWarning, InvalidInputError, InvalidTypeError, OutlierWarning
from tensorly_smp.fitting.fit_samples import Variables, choose_bins
from tensorly_smp.likelihood.steps import CellSamples
from tensorly_smp.samples.reading import read_samples

RNG = np.random.default_rng(0)
NORMAL = RNG.normal(size=(400, 3))


def bins_of_starts(X, n_bins=15, binning="uniform", support=None, discrete=None, sample_weight=None):
    samples = read_samples(X)
    variables = Variables.of(samples, support, discrete, sample_weight, binning=binning)
    return choose_bins(samples, sample_weight, variables, n_bins, binning, is_start=True)


# ---- bins ----


def test_bins_are_those_of_choose_binning_but_for_far_values_many_values_and_constants():
    found, plain = bins_of_starts(NORMAL), smp.choose_binning(NORMAL)
    assert found.strategy == "uniform"
    for mine, theirs in zip(found.edges, plain.edges, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    # Far values do not stretch the bins.
    X = NORMAL.copy()
    X[3, 1] = 1e6
    with pytest.warns(OutlierWarning):
        smp.choose_binning(X)
    edges = bins_of_starts(X).edges  # and no warning: nothing is wrong
    assert edges[1][-1] < 5.0
    for n in (0, 2):
        np.testing.assert_array_equal(edges[n], smp.choose_binning(NORMAL).edges[n])
    # Declared variables have a bin for each of many values.
    X = NORMAL.copy()
    X[:, 0] = np.arange(400) % 50
    X[0, 0] = 1e6
    assert bins_of_starts(X, discrete=["x0"]).n_bins == (51, 15, 15)
    # A constant has a single value.
    X = NORMAL.copy()
    X[:, 1] = 2.5
    with pytest.warns(ConstantVariableWarning):
        found = bins_of_starts(X, discrete=[])
    assert {name: each.tolist() for name, each in found.values.items()} == {"x1": [2.5]}


@pytest.mark.parametrize("binning", ["uniform", "quantile"])
@pytest.mark.parametrize("coded", [[0.0, 1.0, 2.0], [0.0, 1.0, 1e6], [-3.5, 0.0, 0.25]])
def test_discrete_variables_have_a_bin_for_each_value(binning, coded):
    X = NORMAL.copy()
    X[:, 2] = np.array(coded)[RNG.integers(0, 3, 400)]
    found = bins_of_starts(X, binning=binning)
    assert found.n_bins[2] == 3
    codes = smp.encode_samples(X, found).values[:, 2]
    np.testing.assert_array_equal(found.values["x2"][codes], X[:, 2])
    assert found.strategy == binning


def test_bins_that_are_given_may_list_values_that_no_sample_has():
    X = NORMAL.copy()
    X[:, 0] = np.arange(400) % 2
    X[:, 1] = np.arange(400) % 3
    given = smp.Binning((None, [-1, 0.5, 3], [-9, 0, 9]), values={"x0": [0, 1, 2]})
    found = bins_of_starts(X, binning=given)
    assert {name: each.tolist() for name, each in found.values.items()} == {"x0": [0, 1, 2], "x1": [0, 1, 2]}
    assert found.edges[2].tolist() == [-9, 0, 9]


# ---- what is known of the variables ----


@pytest.mark.parametrize("far", [1e12, 9.97e36])
def test_many_far_values_do_not_make_the_others_equal(far):
    X = NORMAL.copy()
    X[:20, 0] = far
    assert Variables.of(read_samples(X), None, None, None).discrete == ()


@pytest.mark.parametrize("offset", [0.0, 1e9, -1e12])
def test_categories_far_apart_stay_distinct(offset):
    X = NORMAL.copy()
    X[:, 1] = offset + np.array([0.0, 1.0, 1e10])[np.arange(400) % 3]
    X[:, 2] = np.array([0.3, 0.1 + 0.2, 0.5])[np.arange(400) % 3]  # two of which differ by rounding
    assert bins_of_starts(X).n_bins == (15, 3, 2)


def test_variables_by_name_and_by_look():
    frame = pd.DataFrame(NORMAL, columns=["a", "b", "c"]).assign(c=np.arange(400) % 4)
    samples = read_samples(frame)
    found = Variables.of(samples, {"a": (-10, None)}, None, None)
    assert (found.support, found.discrete) == (((-10.0, None), (None, None), (None, None)), (2,))
    for declared in (["b"], ("b",), np.array(["b"]), {"b"}, pd.Index(["b"])):
        assert Variables.of(samples, None, declared, None).discrete == (1,)
    assert Variables.of(samples, None, [], None).discrete == ()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"support": {"a": (5, 6)}}, InvalidInputError, "values reach from"),
        ({"support": {"z": (0, None)}}, InvalidInputError, "names 'z'"),
        ({"support": {"a": 3}}, InvalidTypeError, "each a number or None"),
        ({"support": [(0, 1)]}, InvalidTypeError, "expected a mapping"),
        ({"discrete": "a"}, InvalidTypeError, "list of names"),
        ({"discrete": ["z"]}, InvalidInputError, "names 'z'"),
        ({"discrete": {"z": [0, 1]}}, InvalidInputError, "names 'z'"),
        ({"discrete": {"a": [1, 0]}}, InvalidInputError, "increasing order"),
        ({"refine": "em", "support": {"a": (-9, None)}}, InvalidInputError, 'expected refine="smooth"'),
        ({"refine": None, "shape": "log-concave"}, InvalidInputError, 'expected refine="smooth"'),
    ],
)
def test_refused_before_anything_is_fitted(options, error, message):
    frame = pd.DataFrame(NORMAL, columns=["a", "b", "c"])

    def never(*_):
        raise AssertionError("a sweep was made")

    with pytest.raises(error, match=message):
        smp.SmoothProductMixture(2, callback=never, **options).fit(frame)


@pytest.mark.parametrize("refine", ["em", None])
def test_discrete_variables_of_fits_on_bins(refine):
    X = NORMAL.copy()
    X[:, 0] = np.array([0.0, 1.0, 10.0])[np.arange(400) % 3]
    model = smp.SmoothProductMixture(1, refine=refine, random_state=0).fit(X)  # sinc, of the others
    assert model.result_.discrete.values.tolist() == [1, 0, 0]
    np.testing.assert_allclose(
        model.density_.pdf_1d([0, 0.5, 1, 10], "x0"), [134 / 400, 0, 133 / 400, 133 / 400], atol=1e-3
    )
    bins = smp.choose_binning(X, 5)
    options = dict(refine=refine, density="histogram", random_state=0)
    assert smp.SmoothProductMixture(1, binning=bins, **options).fit(X).binning_ == bins
    declared = smp.SmoothProductMixture(1, binning=bins, discrete=["x0"], **options).fit(X)
    assert declared.binning_.n_bins == (3, 5, 5)


# ---- what comes out ----


@pytest.mark.filterwarnings("ignore:Samples share one value")  # 1e6 looks like a code for something else
def test_codes_of_categories_do_not_matter():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 800)
    tables = rng.dirichlet(np.full(6, 0.5), (8, 3))
    drawn = np.stack([[rng.choice(6, p=tables[n, z]) for z in labels] for n in range(8)], axis=1)
    plain = smp.SmoothProductMixture(3, random_state=0).fit(drawn.astype(float))
    other = smp.SmoothProductMixture(3, random_state=0).fit(np.array([0, 1, 2, 3, 998, 1e6])[drawn])
    np.testing.assert_allclose(other.factors_.factors[0], plain.factors_.factors[0], atol=1e-9)
    # Not to the last label: every density has some background, which is as wide as the codes are apart.
    assert np.mean(other.labels_ == plain.labels_) > 0.995


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interrupt_of_smoothed_em_keeps_the_fit(monkeypatch, n_jobs):
    X = smp.datasets.make_smooth_mixture("gmm", 500, 4, 3, random_state=0).X

    calls, maximize = [], CellSamples.maximize

    def interrupting(self, *args):
        calls.extend(self.cells.smooth[:1])  # none of them in the search
        if len(calls) == 5:
            raise KeyboardInterrupt
        return maximize(self, *args)

    monkeypatch.setattr(CellSamples, "maximize", interrupting)
    model = smp.SmoothProductMixture(3, random_state=0, n_jobs=n_jobs).fit(X)
    assert model.result_.attrs["status"] == "interrupted"
    assert np.isfinite(model.score(X))


@pytest.mark.parametrize("refine", [None, "em"])
def test_status_after_an_interrupt_of_a_later_start(refine):
    X = smp.datasets.make_smooth_mixture("gaussian", 400, 4, 3, random_state=0).X
    starts = []

    def interrupt_the_second(cp_tensor, loss):
        starts.append(cp_tensor)
        if (refine is None and len(starts) == 40) or (refine is not None and len(starts) == 15):
            raise KeyboardInterrupt

    options = {"n_init": 3, "init": "random", "random_state": 0, "callback": interrupt_the_second}
    model = smp.SmoothProductMixture(3, refine=refine, **options).fit(X)
    assert "interrupted" in model.result_.start_status.values.tolist()
    assert model.result_.attrs["status"] == "interrupted"
    assert not model.converged_
