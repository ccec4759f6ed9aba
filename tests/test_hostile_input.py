"""Input that cannot be used: the package's own error, which is a ValueError or TypeError too, and never NaN."""

import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from shared import estimator

import tensorly_smp as smp
from tensorly_smp.exceptions import (
    ConstantVariableWarning,
    InvalidInputError,
    InvalidTypeError,
    NonUniformBinsError,
    SparseHistogramWarning,
    TensorlySmpError,
)

X, LABELS, _ = smp.datasets.make_smooth_mixture("gaussian", 300, 4, 2, random_state=1)
X.setflags(write=False)


@pytest.fixture(scope="module")
def model():
    return estimator().fit(X)


def refused(call, *args, match=".", **kwargs):
    """The error that a call raises: of the package, of a built-in kind, with a message."""
    with pytest.raises(TensorlySmpError) as caught:
        call(*args, **kwargs)
    assert isinstance(caught.value, ValueError | TypeError)
    assert len(str(caught.value)) > 15
    assert re.search(match, str(caught.value)), str(caught.value)
    return caught.value


def replaced(value, rows=slice(0, 1), column=1, dtype=float):
    data = X.astype(dtype)
    data[rows, column] = value
    return data


def short_name(value):
    """Name of a test's parameter that is the same in every run: the text of functions has an address in it."""
    return (
        type(value).__name__ if callable(value) or not isinstance(value, str | int | float | list) else repr(value)[:25]
    )


# What no fit and no prediction can use, and a part of what the error says.
UNREADABLE = {
    "empty list": ([], "1 dimension"),
    "one dimension": (np.arange(10.0), "1 dimension"),
    "a number": (5.0, "float"),
    "None": (None, "NoneType"),
    "text": ("samples.csv", "str"),
    "ragged rows": ([[1, 2, 3, 4], [1, 2]], "equal length"),
    "infinite": (replaced(np.inf), "'x1' hold infinite"),
    "strings": (X.astype(str), "pandas.to_numeric"),
    "sparse": (scipy.sparse.csr_array(np.eye(4)), "toarray"),
    "a generator": ((row for row in [[1.0, 2.0]]), "generator"),
    "a frame without rows": (pd.DataFrame(columns=list("abcd"), dtype=float), "0 sample"),
    "a frame of text": (pd.DataFrame({name: ["u", "v", "w"] for name in "abcd"}), "'a' hold"),
    "an empty Dataset": (xr.Dataset(), "without data variables"),
    "a Dataset of matrices": (
        xr.Dataset({"a": (("s", "t"), np.zeros((3, 3)))}),
        r"one-dimensional variables.*sample_dim=\('s', 't'\)",
    ),
}


@pytest.mark.parametrize(("data", "match"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_unreadable_samples(data, match, model):
    refused(estimator().fit, data, match=match)
    for method in ("predict", "predict_proba", "score_samples", "score", "impute"):
        refused(getattr(model, method), data)
    refused(smp.choose_binning, data)
    refused(smp.encode_samples, data, model.binning_)


UNLEARNABLE = {
    "one sample": (X[:1], "1 sample"),
    "one variable": (X[:, :1], r"1 feature\(s\); expected at least three"),
    "two variables": (X[:, :2], r"2 feature\(s\); expected at least three"),
    "a column that is NaN": (replaced(np.nan, slice(None)), "'x1' have no observed value"),
    "a column that is None": (replaced(None, slice(None), dtype=object), "'x1' have no observed value"),
    "a masked column": (np.ma.masked_array(X, np.arange(4) == 1 + np.zeros((300, 1))), "'x1' have no observed value"),
    "all NaN": (np.full((5, 4), np.nan), "no observed value"),
    "values too far apart": (replaced([1e308, -1e308], slice(0, 2)), "too wide"),
    "no sample with three values": (
        np.where(
            (np.arange(300)[:, None] % 4 == np.arange(4)) | (np.arange(300)[:, None] % 2 == np.arange(4)), X, np.nan
        ),
        "no sample that is complete",
    ),
}


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.SparseHistogramWarning")
@pytest.mark.parametrize(("data", "match"), UNLEARNABLE.values(), ids=UNLEARNABLE.keys())
def test_samples_that_teach_nothing(data, match):
    fitted = estimator(init="gevd")
    refused(fitted.fit, data, match=match)
    assert not hasattr(fitted, "density_")


PARAMETERS = {
    "n_components": ([0, -1, 301, 10**9, 2.0, "2", None, True, [2], np.nan], "n_components|components with"),
    "n_bins": (
        [0, 1, -3, 10**12, 8.0, "8", None, True, [8, 8], [8, 8, 8, 1], [8, 8, 8, 8.5], {"x0": 8}, {8}, np.eye(4)],
        "n_bins",
    ),
    "binning": (["kmeans", "", None, 5, [[0, 1, 2]] * 4, np.zeros((4, 3))], "binning|strategy"),
    "triples": (["some", 0, 5, 2.5, None, True, [], [(0, 1)], [(0, 1, 4)], [(0, 1, 2.5)], ["abc"]], "[Tt]riple"),
    "loss": (["mse", "", "KL", None, 5, ["kl"], np.ones(2)], "loss"),
    "init": (["kmeans", "", None, 5, np.zeros((2, 2)), ([1.0], []), {"a": 1}, np.ones], "init|CP tensor|factors"),
    "n_init": ([0, -1, 2.0, "2", None, True, [2]], "n_init"),
    "density": (["gaussian", "spline", "", "SINC", None, 5, ["sinc"], np.ones(2)], "density"),
    "refine": (["EM", "", "sinc", 5, True, ["em"], np.ones(2)], "refine"),
    "penalty": (["cv", "", None, 5, ["reml"]], "penalty"),
    "support": (
        [
            {"x9": (0, None)},
            {"x0": (0, 1e-3)},
            {"x0": 5},
            {"x0": (1, 2, 3)},
            {"x0": ("a", None)},
            {"x0": (np.nan, None)},
            {"x0": (-np.inf, None)},
            {"x0": (1e3, -1e3)},
            [(0, None)] * 4,
            "x0",
            5,
        ],
        "support",
    ),
    "shape": (["unimodal", "", "log_concave", 5, True, ["log-concave"], np.ones(2)], "shape"),
    "verbose": ([-1, 1.5, "yes", None], "verbose"),
    "discrete": ([["x9"], "x0", 5, [["x0"]], {"x0": True}, [0]], "discrete"),
    "max_iter": ([-1, 2.0, "2", None, True, np.inf], "max_iter"),
    "tol": ([-1e-3, 1, np.nan, np.inf, "1e-3", None, True, [0.1]], "tol"),
    "n_jobs": ([0, 1.5, "2", True, [1]], "n_jobs"),
    "random_state": ([-1, 1.5, "0", [0], np.random], "random_state"),
    "callback": (["print", 5, True, [print]], "callback"),
    "sample_dim": ([], ""),  # of xarray input only, see test_labels.py
}


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [(name, value, match) for name, (values, match) in PARAMETERS.items() for value in values],
    ids=short_name,
)
def test_parameters(name, value, match):
    fitted = estimator(**{name: value})
    refused(fitted.fit, X, match=match)
    assert not hasattr(fitted, "density_")


def test_every_parameter_is_tested():
    assert set(PARAMETERS) == set(estimator().get_params())


def test_starts_and_predictions_of_other_sizes(model):
    refused(estimator(init=model.factors_, n_components=3).fit, X, match="2 components.*expected 3 components")
    refused(estimator(init=model.factors_, n_bins=9).fit, X, match="bins")
    refused(estimator(init=model.factors_).fit, X[:, :3], match="bins")
    # Predictions from other variables.
    for method in ("predict", "predict_proba", "score_samples", "score", "impute"):
        refused(getattr(model, method), X[:, :3], match="X has 3 features.*expecting 4")
        refused(getattr(model, method), X[:, :3].tolist(), match="3 variables; expected 4")
        refused(getattr(model, method), X[0], match="Reshape")


def test_bins_of_other_variables(model):
    refused(estimator(binning=model.binning_).fit, X[:, :3], match="3 variables; expected 4")
    frame = pd.DataFrame(X, columns=list("abcd"))
    named = smp.choose_binning(frame, 8)
    refused(estimator(binning=named).fit, frame.rename(columns={"d": "e"}), match="missing 'd'")
    uneven = smp.Binning([[0, 1, 3, 9]] * 4)
    assert isinstance(
        refused(estimator(binning=uneven, refine=None).fit, X, match='density="histogram"'), NonUniformBinsError
    )


def test_sample_weights():
    for weight in (np.ones(3), "ones", [None] * 300):
        refused(estimator().fit, X, sample_weight=weight, match="sample_weight")
    masked = np.ma.masked_array(np.ones(300), np.arange(300) == 3)  # what is below the mask is no weight
    for call in (estimator().fit, smp.choose_binning, lambda X, **w: smp.select_n_components(X, [1], **w)):
        refused(call, X, sample_weight=masked, match="sample_weight has masked entries")


def test_numbers_of_samples_drawn_and_ways_of_imputation(model):
    for n_samples in (0, -1, 2.0, "2", None, True):
        refused(model.sample, n_samples, match="n_samples")
    for method in ("median", None, 5, ["mean"]):
        refused(model.impute, X, method, match="method")


# What is odd but can be used


def test_constant_column():
    data = replaced(1e-300, slice(None))
    with pytest.warns(ConstantVariableWarning, match="x1"):
        fitted = estimator(density="histogram").fit(data)
    for result in (fitted.predict_proba(data), fitted.score_samples(data), fitted.impute(data), fitted.weights_):
        assert np.isfinite(result).all()
    result = fitted.result_
    assert np.isfinite(result.weights).all()
    assert np.isfinite(result.loss).all()
    # The constant has one row of factors, and no edges; the others have eight bins.
    assert np.isfinite(result.factors).all("component").sum("bin").values.tolist() == [8, 1, 8, 8]
    assert np.isfinite(result.edges).sum("edge").values.tolist() == [9, 0, 9, 9]


def test_triples_without_samples():
    data = X.copy()
    data[::2, 0] = np.nan
    data[1::2, 1] = np.nan
    with pytest.warns(SparseHistogramWarning, match="no complete sample"):
        fitted = estimator(init="gevd").fit(data)
    assert np.isfinite(fitted.score_samples(X)).all()


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.TensorlySmpWarning")
@pytest.mark.parametrize(("n_samples", "density"), [(2, "sinc"), (3, "histogram"), (5, "sinc")])
def test_few_samples(n_samples, density):
    fitted = estimator(density=density, n_components=n_samples).fit(X[:n_samples])
    assert np.isfinite(fitted.score_samples(X)).all()
    assert np.isfinite(fitted.predict_proba(X)).all()


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.TensorlySmpWarning")
@pytest.mark.parametrize("data", [X > 0, X.astype(np.int8), X.astype(np.float16), (X * 1e300), (X * 1e-300), X + 1e9])
def test_kinds_and_scales_of_numbers(data):
    fitted = estimator(density="histogram").fit(data)
    assert np.isfinite(fitted.score_samples(data)).all()
    assert np.isfinite(fitted.predict_proba(data)).all()


@settings(max_examples=30)
@given(
    hnp.arrays(
        float,
        st.tuples(st.integers(0, 6), st.integers(0, 5)),
        elements=st.one_of(st.floats(-3, 3), st.floats(), st.sampled_from([np.nan, np.inf, 0.0, 1e308])),
    )
)
@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.TensorlySmpWarning")
def test_any_matrix_is_refused_or_learned(data):
    fitted = estimator(n_components=1, n_bins=3, density="histogram")
    try:
        fitted.fit(data)
    except InvalidInputError:
        return
    assert np.isfinite(fitted.score_samples(data)).all()
    assert np.isfinite(fitted.predict_proba(data)).all()
    assert np.isfinite(fitted.impute(data)).all()


# Bins and codes


@pytest.mark.parametrize("wrong", [None, X, "codes", 5])
def test_stages_in_the_wrong_order(wrong, model):
    assert isinstance(refused(smp.count_marginals, wrong, match="codes"), InvalidTypeError)
    refused(smp.coupled_simplex_parafac, wrong, 2)
    refused(smp.encode_samples, X, wrong, match="binning")
    refused(smp.reconstruct_density, wrong, match="MixtureFactors")


# Tensors of the user's own


def tensors(*shapes):
    rng = np.random.default_rng(0)
    return [rng.random(shape) for shape in shapes]


MODES = [(0, 1, 2), (0, 1, 3)]
GOOD = tensors((3, 4, 5), (3, 4, 2))


def spoiled(value):
    bad = GOOD[1].copy()
    bad[0, 0, 0] = value
    return [GOOD[0], bad]


BAD_TENSORS = {
    "unequal sizes": (tensors((3, 4, 5), (3, 5, 2)), MODES, "Tensor 1 has 5 entries along variable 1"),
    "negative": (spoiled(-0.1), MODES, "Tensor 1 .*negative"),
    "NaN": (spoiled(np.nan), MODES, "Tensor 1 .*(NaN|infinite)"),
    "infinite": (spoiled(np.inf), MODES, "Tensor 1 .*(NaN|infinite)"),
    "all zero": ([GOOD[0], GOOD[1] * 0], MODES, "Tensor 1 is all zero"),
    "a sum beyond all numbers": ([GOOD[0], 0 * GOOD[1] + 1e308], MODES, "more than the largest number"),
    "masked": ([GOOD[0], np.ma.masked_less(GOOD[1], 0.5)], MODES, "masked"),
    "ragged": ([GOOD[0], [[[1.0], [1.0, 2.0]]]], MODES, "cannot be read as real numbers"),
    "matrices": (tensors((3, 4), (3, 4)), MODES, "three non-empty modes"),
    "empty": (tensors((3, 4, 0), (3, 4, 2)), MODES, "three non-empty modes"),
    "text": ([GOOD[0], "tensor"], MODES, "Tensor 1 is str"),
    "arrays of text": ([GOOD[0], GOOD[1].astype(str).astype(object).astype("U3")], MODES, "Tensor 1"),
    "complex": ([GOOD[0], GOOD[1] * 1j], MODES, "Tensor 1"),
    "None among them": ([GOOD[0], None], MODES, "Tensor 1 is NoneType"),
    "none": ([], [], "modes|tensor"),
    "a repeated variable": (GOOD, [(0, 1, 2), (0, 0, 3)], "names a variable twice"),
    "a left-out variable": (GOOD, [(0, 1, 2), (0, 1, 4)], r"\[3\]"),
    "a negative variable": (GOOD, [(0, 1, 2), (0, 1, -1)], "from -1 to 2"),
    "a variable far away": (GOOD, [(0, 1, 2), (0, 1, 10**12)], "without gaps"),
    "modes of other number": (GOOD, MODES[:1], "modes has 1 rows; expected one for each tensor: 2"),
    "pairs as modes": (GOOD, [(0, 1), (0, 2)], "modes has shape"),
    "ragged modes": (GOOD, [(0, 1, 2), (0, 1)], "modes"),
    "no modes": (GOOD, None, "needs modes"),
    "modes that are a number": (GOOD, 5, "modes"),
}


@pytest.mark.parametrize(("data", "modes", "match"), BAD_TENSORS.values(), ids=BAD_TENSORS.keys())
def test_tensors(data, modes, match):
    refused(smp.coupled_simplex_parafac, data, 2, modes=modes, match=match)


def test_rare_options_of_the_solver(model):
    for option, value in (("n_inner", 0), ("n_screen", "x"), ("n_jobs", 0)):
        refused(smp.SolverOptions, match=option, **{option: value})
    refused(
        smp.coupled_simplex_parafac, GOOD, 2, modes=MODES, options=smp.SolverOptions(solver="newton"), match="solver"
    )
    # No limit of memory.
    counted = smp.count_marginals(smp.encode_samples(X, model.binning_), max_bytes=10**400)
    assert counted.n_samples == len(X)


SPAN = np.timedelta64(3, "s")  # which NumPy calls a signed integer
WRONG_KINDS = {
    "a tolerance": lambda model: estimator(tol=SPAN).fit(X),
    "a share": lambda model: model.factors_.smooth(SPAN),
    "a number of bins": lambda model: smp.max_identifiable_rank(4, SPAN),
    "a size of memory": lambda model: smp.count_marginals(smp.encode_samples(X, model.binning_), max_bytes=SPAN),
    "a number of triples": lambda model: model.factors_.to_marginals(SPAN),
    "a long number of triples": lambda model: model.factors_.to_marginals(10**5000),
    "a variable": lambda model: model.density_.pdf_1d(0.0, SPAN),
    "a component": lambda model: model.density_.pdf_1d(0.0, "x0", SPAN),
    "clipping": lambda model: smp.reconstruct_density(model.factors_, "histogram", clip_warning=SPAN),
    "names": lambda model: smp.Codes.from_array(np.zeros((3, 2), int), 3, 5),
    "a name for names": lambda model: smp.Codes.from_array(np.zeros((3, 2), int), 3, "ab"),
    "discrete": lambda model: estimator(discrete=scipy.sparse.eye(3)).fit(X),
    "complex factors": lambda model: smp.MixtureFactors([1.0], [np.ones((1, 1), complex)] * 3),
    "a flag": lambda model: smp.refine_em(model.factors_, smp.encode_samples(X, model.binning_), extrapolate=X),
    "another flag": lambda model: smp.SolverOptions(warn="no"),
    "constant variables": lambda model: smp.Binning(([0, 1, 2],), constant=["y"]),
}


@pytest.mark.parametrize("name", WRONG_KINDS)
def test_arguments_of_other_kinds(name, model):
    refused(WRONG_KINDS[name], model)


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.TensorlySmpWarning")
@pytest.mark.parametrize("size", [1e100, 1e154])
def test_moments_of_far_values_are_finite(size):
    far = replaced(size)[:60]
    fitted = estimator(binning=smp.choose_binning(far, [4, 5, 6, 7], coverage=0.99)).fit(far)
    for component in (None, "all"):
        assert np.isfinite(fitted.density_.mean(component)).all()
        assert (fitted.density_.var(component) > 0).all()
        assert np.isfinite(fitted.density_.var(component)).all()


COUNTS = np.random.default_rng(0).poisson(2.0, 300).astype(float)
ODD_COLUMNS = {
    **{f"counts and {far:.3g}": np.where(np.arange(300) == 3, far, COUNTS) for far in (-(2.0**63), -3.4e38, -1e17)},
    "denormal": np.where(np.arange(300) % 3 == 0, 5e-324, 0.0),
    "at an offset": 1e15 + COUNTS,
    "one far value": np.where(np.arange(300) == 3, -1e150, X[:, 0]),
}


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.DependenceWarning")  # of a column and its copy
@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.ConstantVariableWarning")
@pytest.mark.parametrize(("name", "discrete"), [*((name, None) for name in ODD_COLUMNS), ("counts and -1e+17", ["x4"])])
def test_a_column_of_odd_values_spoils_neither_the_fit_nor_its_file(name, discrete, tmp_path):
    data = np.column_stack([X, ODD_COLUMNS[name]])
    fitted = smp.SmoothProductMixture(2, discrete=discrete, random_state=0).fit(data)
    assert smp.metrics.clustering_accuracy(LABELS, fitted.predict(data)) > 0.95
    assert np.isfinite(fitted.score_samples(data)).all()
    assert np.isfinite(fitted.predict_proba(data)).all()
    fitted.save(tmp_path / "model.nc")
    np.testing.assert_array_equal(smp.load(tmp_path / "model.nc").predict_proba(data), fitted.predict_proba(data))


def test_columns_at_an_offset_and_mirrored_long_tails():
    data = np.column_stack([X, 1e15 + COUNTS])
    fitted = smp.SmoothProductMixture(2, random_state=0).fit(data)  # where warnings are errors
    np.testing.assert_array_equal(fitted.binning_.values["x4"], 1e15 + np.unique(COUNTS))
    with pytest.warns(ConstantVariableWarning, match="differ by too little for bins between them, in float64"):
        smp.choose_binning(data)
    data[:, -1] = 1e15 + np.arange(300)
    smp.SmoothProductMixture(2, random_state=0).fit(data)  # where warnings are errors
    # Mirrored and rearranged samples of long tails have the same density.
    rng, n_samples = np.random.default_rng(0), 300
    data = rng.standard_t(2, (n_samples, 4)) + 6.0 * rng.integers(0, 2, n_samples)[:, None]
    order = rng.permutation(4)
    plain = smp.SmoothProductMixture(2, random_state=0).fit(data).score_samples(data)
    for other in (-data, data[:, order]):
        found = smp.SmoothProductMixture(2, random_state=0).fit(other).score_samples(other)
        np.testing.assert_allclose(found, plain, atol=1e-3)


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.TensorlySmpWarning")
def test_sinc_densities_of_long_tails_need_no_other_bins():
    data = np.exp(X)
    fitted = smp.SmoothProductMixture(2, density="sinc", random_state=0).fit(data)
    assert np.isfinite(fitted.score(data))
