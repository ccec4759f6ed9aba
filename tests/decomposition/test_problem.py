"""Whatever users hand in becomes one problem: tensors, samples counted or implicit, options."""

import inspect
import warnings
from dataclasses import fields, replace

import numpy as np
import pytest
import scipy.sparse
import tensorly as tl
import xarray as xr
from backend_problems import tensor
from hypothesis import given, settings
from hypothesis import strategies as st
from rooms import assert_same, random_model, solved
from tensorly.cp_tensor import CPTensor
from tensorly.decomposition import constrained_parafac, non_negative_parafac_hals, parafac
from tensorly.metrics.factors import congruence_coefficient

import tensorly_smp as smp
from tensorly_smp._support.checks import to_numpy
from tensorly_smp.codes.binning import choose_binning
from tensorly_smp.codes.encoding import Codes, encode_samples
from tensorly_smp.datasets import make_smooth_mixture
from tensorly_smp.decomposition import problem
from tensorly_smp.decomposition.problem import BIN_NUMBERS, RANDOM_EVERY, SolverOptions, as_problem
from tensorly_smp.decomposition.solver import coupled_simplex_parafac
from tensorly_smp.exceptions import (
    AlgebraicStartWarning,
    ConstantVariableWarning,
    ConvergenceWarning,
    InvalidInputError,
    InvalidTypeError,
    SizeLimitError,
)
from tensorly_smp.factors.coupled import CoupledTensors
from tensorly_smp.factors.implicit import CoupledCodes
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.initializers.coupled_gevd import GevdStart
from tensorly_smp.marginals.histograms import BYTES_PER_TRIPLE, bytes_of_histograms, count_marginals
from tensorly_smp.metrics import clustering_accuracy, factor_error

MODES = [(0, 1, 2), (0, 1, 3)]


def single(seed=0):
    return np.random.default_rng(seed).random((4, 5, 3))


def pair():
    """Two tensors of two components, and a little noise."""
    rng = np.random.default_rng(0)
    factors = [rng.dirichlet(np.full(size, 0.5), 2).T for size in (3, 4, 5, 2)]
    models = [np.einsum("ir,jr,kr->ijk", *(factors[n] for n in mode)) for mode in MODES]
    return [(t + 1) * model + 0.01 * rng.random(model.shape) for t, model in enumerate(models)]


def factorize(data, rank=2, **options):
    return smp.coupled_simplex_parafac(data, rank, **{"random_state": 0, "tol": 1e-4, **options})


# --- options


def test_options_are_frozen_and_checked():
    with pytest.raises(AttributeError):
        SolverOptions().n_jobs = 2
    for wrong, error in (({"n_inner": 0}, InvalidInputError), ({"n_screen": 1.5}, InvalidTypeError)):
        with pytest.raises(error, match=next(iter(wrong))):
            SolverOptions(**wrong)
    with pytest.raises(InvalidTypeError, match="options is dict; expected SolverOptions"):
        factorize(single(), options={"n_jobs": 2})
    names = {field.name for field in fields(SolverOptions)}
    assert names == {"solver", "n_inner", "extrapolate", "n_screen", "n_jobs", "dtype", "device", "warn"}
    assert len(inspect.signature(smp.coupled_simplex_parafac).parameters) == 15


# --- tensors


def test_a_single_tensor_needs_no_modes(backend):
    array = single()
    one = factorize(tensor(array, "float64"))
    other = factorize([tensor(array, "float64")], modes=[(0, 1, 2)])
    np.testing.assert_array_equal(to_numpy(one.factors.weights), to_numpy(other.factors.weights))
    assert one.factors.n_bins == (4, 5, 3)


def test_solutions_are_unpacked_as_cp_tensors_are():
    solution = factorize(single())
    weights, factors = solution
    assert isinstance(solution, CPTensor)
    assert len(solution) == 2
    own, cp = solution.factors, solution.to_cp_tensor()
    for a, b in zip((weights, *factors, solution[0]), (own.weights, *own.factors, solution.weights), strict=True):
        np.testing.assert_array_equal(a, b)
    assert (solution.shape, solution.rank) == ((4, 5, 3), 2)
    factors[0][:] = 7.0
    assert factors[0] is not solution[1][0]
    assert (solution[1][0] < 1).all()
    assert congruence_coefficient(solution[1], cp[1])[0] == pytest.approx(1.0)
    assert isinstance(solution.cp_copy(), CPTensor)
    np.testing.assert_allclose(solution.to_tensor(), cp.to_tensor())
    np.testing.assert_allclose(tl.norm(solution.normalize().factors[1], axis=0), 1.0)


FUNCTIONS = {
    name: function
    for name, function in inspect.getmembers(tl.cp_tensor, inspect.isfunction)
    if function.__module__ == tl.cp_tensor.__name__
    and not name.startswith("_")
    and "cp_tensor" in next(iter(inspect.signature(function).parameters))
}


def test_every_function_of_tensorly_for_cp_tensors_takes_a_solution(backend):
    solution = factorize(tensor(single(), "float64"))
    other = factorize(tensor(single(1), "float64"))
    matrix, vector = tensor(np.eye(6)[:, :4], "float64"), tensor(np.ones(5), "float64")
    calls = {
        "cp_lstsq_grad": [(tensor(single(2), "float64"),)],
        "cp_mode_dot": [(matrix, 0), (vector, 1), (matrix, 0, False, True), (vector, 1, False, True)],
        "cp_permute_factors": [(other,), ([other.to_cp_tensor()],)],
        "cp_to_unfolded": [(1,)],
    }

    def dense(result):
        if isinstance(result, tuple | list):
            return dense(result[0])
        return to_numpy(tl.cp_to_tensor(result) if isinstance(result, CPTensor) else result)

    kept = [to_numpy(a) for a in solution.factors]
    for name, function in FUNCTIONS.items():
        for arguments in calls.get(name, [()]):
            expected = dense(function(solution.factors.to_cp_tensor().cp_copy(), *arguments))
            found = function(replace(solution), *arguments)
            np.testing.assert_allclose(dense(found), expected, rtol=1e-7, atol=1e-12, err_msg=name)
            assert tuple(getattr(found, "shape", ())) in ((), expected.shape), name
        for a, b in zip(solution.factors, kept, strict=True):
            np.testing.assert_array_equal(to_numpy(a), b)


@pytest.mark.parametrize("method", [parafac, non_negative_parafac_hals, constrained_parafac])
def test_decompositions_of_tensorly_start_from_a_solution(method):
    solution = factorize(single())
    options = {"n_iter_max": 5, **({"non_negative": True} if method is constrained_parafac else {})}
    found = method(single(1), 2, init=solution, **options)
    expected = method(single(1), 2, init=solution.to_cp_tensor().cp_copy(), **options)
    np.testing.assert_array_equal(tl.cp_to_tensor(found), tl.cp_to_tensor(expected))
    assert (solution[0] == solution.factors.weights).all()


# --- names


@pytest.mark.parametrize("labelled", [True, False])
def test_dimensions_and_names_are_variables(labelled):
    names = [("a", "b", "c"), ("d", "b", "a")]
    arrays = [single(), np.random.default_rng(1).random((2, 5, 4))]
    expected = factorize(arrays, modes=[(0, 1, 2), (3, 1, 0)], variables=["a", "b", "c", "d"])
    data, modes = arrays, names
    if labelled:
        data, modes = [xr.DataArray(array, dims=dims) for array, dims in zip(arrays, names, strict=True)], None
    xr.testing.assert_equal(
        factorize(data, modes=modes).to_dataset()[["factors", "weights"]], expected.to_dataset()[["factors", "weights"]]
    )
    reordered = factorize(data, modes=modes, variables=["d", "c", "b", "a"])
    assert reordered.shape == (2, 3, 5, 4)
    assert smp.Marginals.from_tensors(data, modes).binning.variables == ("a", "b", "c", "d")
    assert smp.gevd_start(data, 2, modes=modes, random_state=0).binning.variables == ("a", "b", "c", "d")
    assert set(smp.block_tensor(data, modes=modes).coords["third_variable"].values) <= set("abcd")
    one = xr.DataArray(arrays[0], dims=names[0]) if labelled else arrays[0]
    assert factorize(one, modes=None if labelled else names[:1]).factors.binning.variables == ("a", "b", "c")


@pytest.mark.parametrize(
    ("modes", "error", "message"),
    [
        (["abc", "abq"], InvalidInputError, "modes must name three variables per tensor: 'q' is not in list"),
        ([("a", [], "c"), "abd"], InvalidInputError, "modes must name three variables"),
        ([(0.0, 1.0, 2.0), (0.0, 1.0, 3.0)], InvalidTypeError, "modes are of type float64"),
        (["abb", "abd"], InvalidInputError, "names a variable twice"),
        ((0, 1, 2), InvalidInputError, r"modes has shape \(3,\); expected \(n, 3\), such as \[\(0, 1, 2\)\]"),
        (7, InvalidTypeError, "modes must be a list of three variable indices each"),
        (scipy.sparse.dia_matrix(np.eye(3)), InvalidTypeError, "modes must be a list of three variable indices each"),
    ],
)
def test_bad_names_are_refused(modes, error, message):
    with pytest.raises(error, match=message):
        factorize(pair(), modes=modes, variables=["a", "b", "c", "d"])
    with pytest.raises(InvalidInputError, match="expected one for each"):
        factorize(pair(), modes=MODES, variables=["a"])


@pytest.mark.parametrize("kind", ["torch.Tensor", "jaxlib"])
def test_arrays_of_a_backend_that_is_not_active_name_set_backend(kind):
    library = pytest.importorskip(kind.partition(".")[0].removesuffix("lib"), exc_type=ImportError)
    array = (library.ones if kind == "torch.Tensor" else library.numpy.ones)((2, 3, 4))
    for data in (array, [array]):
        with pytest.raises(InvalidTypeError, match=rf"Tensor 0 is {kind}.*tl.set_backend\(\"pytorch\"\)"):
            factorize(data, modes=[(0, 1, 2)])


# --- starts that are given


def test_a_start_may_have_columns_of_either_sign():
    rng = np.random.default_rng(0)
    factors = [rng.random((size, 2)) for size in (4, 5, 3)]
    signs = np.array([[-1, -1], [-1, 1], [1, -1]])
    moved = [a * sign for a, sign in zip(factors, signs, strict=True)]
    expected = factorize(single(), init=(np.array([1.0, 2.0]), factors), n_iter_max=3, tol=None)
    for weights, columns in (([1.0, 2.0], moved), ([-1.0, 2.0], [-moved[0] * [1, -1], *moved[1:]])):
        found = factorize(single(), init=(np.array(weights), columns), n_iter_max=3, tol=None)
        np.testing.assert_array_equal(found.trace.loss, expected.trace.loss)
    with pytest.raises(InvalidInputError, match=r"with the signs of the columns, are \[-1.  2.\]"):
        factorize(single(), init=(np.array([-1.0, 2.0]), factors))
    with pytest.raises(InvalidInputError, match=r"Factor 0 has a column .* of mixed signs; expected none"):
        factorize(single(), init=(None, [factors[0] - 0.5, *factors[1:]]))


def test_matrices_of_a_start_without_its_weights_are_refused():
    truth = random_model((4,) * 3, RANK).to_marginals()
    start = smp.gevd_start(truth, RANK, random_state=0)
    assert factorize(truth, RANK, init=start).trace.n_sweeps == 0
    with pytest.raises(InvalidTypeError, match="as gevd_start returns: the start itself, not the matrices"):
        factorize(single(), init=start.factors)
    assert factor_error(start, start) == 0
    with pytest.raises(InvalidTypeError, match="of a GevdStart its start"):
        factor_error(start.factors, start)


def test_no_tolerance_makes_all_sweeps_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert factorize(single(), tol=None, n_iter_max=30).trace.n_sweeps == 30


def test_errors_are_those_of_tensorly():
    rng = np.random.default_rng(0)
    low_rank = np.einsum("ir,jr,kr->ijk", *(rng.random((size, 3)) for size in (6, 7, 8)))
    noisy = low_rank + 0.2 * rng.random(low_rank.shape)
    solution = factorize(noisy, 3, loss="frobenius", tol=1e-9, n_init=4)
    assert solution.errors.shape == (solution.trace.n_sweeps + 1,)
    model = tl.cp_to_tensor(solution.to_cp_tensor(scale=True))
    assert solution.errors[-1] == pytest.approx(np.linalg.norm(noisy - model) / np.linalg.norm(noisy), rel=1e-6)
    _, errors = non_negative_parafac_hals(noisy, 3, n_iter_max=500, tol=1e-10, return_errors=True, random_state=0)
    # The scale of the model is that of the tensor here, which costs next to nothing.
    assert solution.errors[-1] == pytest.approx(float(errors[-1]), rel=0.02)
    kl = factorize(noisy, 3)
    np.testing.assert_array_equal(kl.errors, kl.trace.loss)


def test_scale_gives_the_counts_back():
    counts = np.random.default_rng(0).integers(1, 20, (3, 4, 2))
    solution = factorize(counts, 24, loss="kl", init="random", n_iter_max=3, tol=None)
    assert tl.cp_to_tensor(solution.to_cp_tensor(scale=True)).sum() == pytest.approx(counts.sum())
    assert solution.totals.tolist() == [counts.sum()]
    with pytest.raises(InvalidInputError, match=r"sum to .* expected the same sum"):
        factorize(pair(), modes=MODES).to_cp_tensor(scale=True)
    codes = smp.Codes.from_array(np.random.default_rng(0).integers(0, 3, (50, 4)))
    with tl.backend_context("numpy"):
        solution = solved(codes, 1, loss="frobenius", form="implicit", tol=0.1)
    with pytest.raises(InvalidInputError, match="without histograms"):
        solution.to_cp_tensor(scale=True)


def test_tensors_become_marginals():
    tensors = [np.arange(24.0).reshape(2, 3, 4), np.ones((4, 3, 2)), np.ones((3, 2, 5))]
    marginals = smp.Marginals.from_tensors(tensors, [(0, 1, 2), (2, 1, 0), (1, 0, 3)])
    assert marginals.triples.tolist() == [[0, 1, 2], [0, 1, 3]]
    np.testing.assert_array_equal(marginals.counts[0], tensors[0] + 1.0)
    np.testing.assert_array_equal(marginals.counts[1], np.ones((2, 3, 5)))
    assert marginals.totals.tolist() == [24 * 23 / 2 + 24, 30.0]
    assert marginals.n_samples == 0
    block = smp.block_tensor(tensors[0])
    np.testing.assert_allclose(block.values, tensors[0].transpose(0, 1, 2) / tensors[0].sum())
    with pytest.raises(InvalidInputError, match="give modes with tensors only"):
        smp.block_tensor(marginals, modes=[(0, 1, 2)])


def test_tensors_come_to_the_host_for_the_algebra_only(backend, monkeypatch):
    if backend == "numpy":
        pytest.skip("NumPy arrays are on the host")
    copies = []
    original = tl.to_numpy
    monkeypatch.setattr(tl, "to_numpy", lambda array: copies.append(int(np.prod(array.shape))) or original(array))
    kind = type(tl.tensor(np.ones(2)))
    if backend == "pytorch":
        method = kind.numpy
        monkeypatch.setattr(kind, "numpy", lambda self: copies.append(int(np.prod(self.shape))) or method(self))
    data = [tensor(array, "float64") for array in pair()]
    factorize(data, modes=MODES, init="random", n_init=3)
    assert 60 not in copies
    assert 24 not in copies
    factorize(data, modes=MODES, n_init=3)
    assert 60 in copies


# --- counted or implicit


def make_codes(n_samples=500, n_variables=5, n_bins=4, missing=0.0, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, n_bins, (n_samples, n_variables))
    values[rng.random(values.shape) < missing] = -1
    return Codes.from_array(values, n_bins=n_bins)


def form_of(codes, loss="frobenius", weights="count", form="auto", rank=3):
    found = as_problem(codes, rank=rank, loss=loss, weights=weights, form=form)
    assert isinstance(found.tensors, CoupledCodes if found.form == "implicit" else CoupledTensors)
    return found.form


def test_few_triples_of_many_samples_are_counted_and_many_of_few_are_not():
    assert form_of(make_codes(n_samples=5000, n_variables=4)) == "counted"
    assert form_of(make_codes(n_samples=300, n_variables=20, n_bins=6)) == "implicit"
    assert form_of(make_codes(n_samples=300, n_variables=20, n_bins=6), loss="kl") == "counted"
    # Many patterns of missing entries speak for counting.
    options = {"n_samples": 300, "n_variables": 12, "n_bins": 6}
    assert form_of(make_codes(**options), rank=12) == "implicit"
    assert form_of(make_codes(missing=0.3, **options), rank=12) == "counted"


def test_histograms_over_the_limit_are_never_counted(monkeypatch):
    codes = make_codes(n_samples=5000, n_variables=4)
    monkeypatch.setattr(problem, "MAX_BYTES", 1000.0)
    assert form_of(codes) == "implicit"
    with pytest.raises(SizeLimitError, match=r"triples=10 or more.*frobenius"):
        form_of(codes, loss="kl")


def test_size_is_that_of_the_histograms():
    codes = Codes.from_array(np.zeros((3, 4), dtype=int), n_bins=[2, 3, 4, 5])
    with pytest.warns(UserWarning, match="in one bin"):
        marginals = count_marginals(codes)
    n_bytes = sum(count.nbytes for count in marginals.counts) + 4 * BYTES_PER_TRIPLE
    assert bytes_of_histograms(codes.n_bins) == n_bytes


def test_uniform_weights():
    complete, incomplete = make_codes(), make_codes(missing=0.2)
    assert form_of(complete, weights="uniform", form="implicit") == "implicit"
    assert form_of(incomplete, weights="uniform") == "counted"
    options = {"loss": "frobenius", "init": "random", "random_state": 0, "weights": "uniform", "tol": 1e-4}
    losses = [solved(complete, 2, form=form, **options).loss for form in ("implicit", "counted")]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-9)


def test_kl_counts_and_is_that_of_the_histograms():
    codes = make_codes(missing=0.1)
    sample_weight = np.random.default_rng(0).random(codes.n_samples)
    options = {"init": "random", "random_state": 0, "tol": 1e-4}
    solution = coupled_simplex_parafac(codes, 2, sample_weight=sample_weight, **options)
    expected = coupled_simplex_parafac(count_marginals(codes, "all", sample_weight), 2, **options)
    assert (solution.trace.loss == expected.trace.loss).all()
    assert solution.start_info["histograms"] == "counted"
    assert "histograms" not in expected.start_info
    assert solution.triples is None


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"modes": [(0, 1, 2)]}, InvalidInputError, "data is Codes, which has its variables"),
        ({"variables": ["a"] * 5}, InvalidInputError, "data is Codes, which has its variables"),
        ({"data": [np.ones((2, 2, 2))], "modes": [(0, 1, 2)], "sample_weight": [1.0]}, InvalidInputError, "for Codes"),
        ({"data": count_marginals(make_codes()), "sample_weight": np.ones(500)}, InvalidInputError, "count_marginals"),
        ({"data": 5}, InvalidTypeError, "expected Marginals, Codes, a third-order tensor"),
    ],
)
def test_bad_arguments_are_named(options, error, message):
    options = {"data": make_codes(), "loss": "frobenius", **options}
    with pytest.raises(error, match=message):
        solved(options.pop("data"), 2, **options)


RANK = 3
DATA = make_smooth_mixture("gaussian", 2000, 6, RANK, random_state=0)
CODES = encode_samples(DATA.X, choose_binning(DATA.X, 12))
MARGINALS = count_marginals(CODES)
SOURCES = pytest.mark.parametrize("data", [CODES, MARGINALS], ids=["codes", "histograms"])


def make_starts(data, n_init, rank=RANK, seed=0, **options):
    """The starts, and the random ones that they fall back on."""
    read = as_problem(data, rank=rank, **options)
    return problem.make_starts(read, "gevd", n_init, seed), problem.make_starts(read, "random", n_init, seed)


def assert_same_starts(one, other, **tolerance):
    for a, b in zip(one, other, strict=True):
        assert_same(a, b, **tolerance)


@SOURCES
def test_most_are_algebraic_and_some_are_random(data):
    n_init = 2 * RANDOM_EVERY + 1
    starts, chance = make_starts(data, n_init)
    for position, (start, fallback) in enumerate(zip(starts, chance, strict=True)):
        assert start.n_bins == data.n_bins
        if position % RANDOM_EVERY == RANDOM_EVERY - 1:
            assert_same(start, fallback)
        else:
            assert isinstance(start, GevdStart)
            assert max(start.start_bins) == BIN_NUMBERS[position % len(BIN_NUMBERS)]
    algebraic = [start for start in starts if isinstance(start, GevdStart)]
    assert len({start.partition for start in algebraic}) > 1
    assert min(clustering_accuracy(DATA.labels, s.posterior(CODES).argmax(axis=1)) for s in algebraic) > 0.9


def test_same_seed_same_starts_however_many():
    data = CODES
    many, _ = make_starts(data, 6)
    again, _ = make_starts(data, 6)
    few, _ = make_starts(data, 2)
    other, _ = make_starts(data, 2, seed=1)
    assert_same_starts(many, again)
    assert_same_starts(many[:2], few)
    assert (other[0].weights != few[0].weights).any()


@pytest.mark.parametrize("loss", ["kl", "frobenius"])
@pytest.mark.parametrize("rank", [1, 3])
def test_exact_tensors_with_zeros_and_empty_slices_need_no_sweep(loss, rank):
    truth = random_model((5,) * 3, rank)
    columns = [np.where(a < 0.05, 0.0, a) for a in truth.factors]
    model = np.einsum("r,ir,jr,kr->ijk", truth.weights, *columns)
    tensor = np.zeros((7, 5, 6))
    tensor[np.ix_([0, 1, 3, 4, 6], range(5), range(1, 6))] = model
    solution = coupled_simplex_parafac(tensor, rank, loss=loss, random_state=0)
    assert (solution.status.name, solution.trace.n_sweeps) == ("EXACT", 0)
    np.testing.assert_allclose(tl.cp_to_tensor(solution.to_cp_tensor(scale=True)), tensor, atol=1e-12)


def test_zeros_of_histograms_that_are_not_exact_leave_no_zero_to_get_stuck_in():
    truth = MixtureFactors([0.5, 0.5], [np.array([[0.5, 0.0], [0.5, 0.3], [0.0, 0.7]])] * 4)
    tensors = [count + 0.01 * np.random.default_rng(0).random(count.shape) for count in truth.to_marginals().counts]
    starts, _ = make_starts(tensors, 2, rank=2, modes=truth.to_marginals().triples)
    for start in starts:
        assert isinstance(start, GevdStart)
        assert start.info()["gevd_bins"] == [3] * 4
        for a in (start.weights, *start.factors):
            assert a.min() > 0
            np.testing.assert_allclose(a.sum(axis=0), 1)


@pytest.mark.parametrize(
    ("marginals", "rank", "reason"),
    [
        (random_model((4,) * 5, 2).to_marginals(), 4, "Singular values: number 4"),
        (
            random_model((4,) * 6, RANK).to_marginals([(0, 1, 2), (3, 4, 5)]),
            RANK,
            "leaves variables .* no histogram has one of them with two others",
        ),
    ],
)
def test_failing_algebra_says_why_and_falls_back(marginals, rank, reason):
    with pytest.warns(AlgebraicStartWarning, match=f"2 of 2 starts are random.*{reason}") as record:
        starts, chance = make_starts(marginals, 2, rank=rank)
    assert len(record) == 1
    assert_same_starts(starts, chance)


def test_rank_above_the_bound_says_so_at_the_caller():
    with (
        pytest.warns(AlgebraicStartWarning, match=r"40 components; .* allow at most") as record,
        pytest.warns(ConvergenceWarning),
    ):
        solution = coupled_simplex_parafac(MARGINALS, 40, n_iter_max=1, random_state=0)
    assert record[0].filename == __file__
    assert solution.factors.rank == 40
    assert solution.start_info == {}


def test_only_the_random_ones_are_counted_as_failed(monkeypatch):
    original, calls = problem.gevd_start, []

    def failing_at_first(*arguments, **options):
        calls.append(1)
        if len(calls) <= problem.MOST_ATTEMPTS:
            raise InvalidInputError("made up")
        return original(*arguments, **options)

    monkeypatch.setattr(problem, "gevd_start", failing_at_first)
    with pytest.warns(AlgebraicStartWarning, match="1 of 3 starts are random, because the algebra failed: made up"):
        starts, chance = make_starts(CODES, 3)
    assert_same(starts[0], chance[0])
    assert all(isinstance(start, GevdStart) for start in starts[1:])


def test_another_partition_is_tried_before_giving_up():
    # Noise that is alone in a set tells no components apart, and of four variables it is in every other partition.
    noise = np.random.default_rng(0).integers(12, size=CODES.n_samples)
    codes = Codes.from_array(np.column_stack([CODES.values[:, :3], noise]), n_bins=12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        starts, _ = make_starts(codes, 3, rank=2)
    assert all(isinstance(start, GevdStart) for start in starts)


def test_codes_take_the_place_of_histograms_that_were_not_counted():
    some = count_marginals(CODES, [(0, 1, 2), (3, 4, 5)])
    with pytest.warns(AlgebraicStartWarning, match="no histogram has one of them"):
        coupled_simplex_parafac(some, RANK, random_state=0)
    solution = solved(some, RANK, samples=CODES, random_state=0)
    assert max(solution.start_info["gevd_bins"]) == BIN_NUMBERS[0]


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.ConvergenceWarning")
def test_integer_weights_are_repeated_samples():
    weights = np.random.default_rng(0).integers(0, 4, CODES.n_samples)
    repeated = Codes(np.repeat(CODES.values, weights, axis=0), CODES.binning)
    found, _ = make_starts(CODES, 6, sample_weight=weights.astype(float))
    assert_same_starts(found, make_starts(repeated, 6)[0], atol=1e-10)
    # So are those of the samples that are decomposed, or that the start is made of.
    counted = count_marginals(CODES, 8, weights, random_state=0)
    for data, options in ((None, {"form": "implicit", "loss": "frobenius"}), (counted, {})):
        options |= {"random_state": 0, "n_iter_max": 0}
        if data is None:
            found = solved(CODES, RANK, sample_weight=weights, **options)
            expected = solved(repeated, RANK, **options)
        else:
            found = solved(data, RANK, samples=CODES, sample_weight=weights, **options)
            expected = solved(data, RANK, samples=repeated, **options)
        assert found.start_info["gevd_partition"] == expected.start_info["gevd_partition"]
        assert_same(found, expected, atol=1e-10)


def test_exact_tensors_in_any_order_give_the_truth():
    truth = random_model((4,) * 4, RANK)
    order = [(0, 2, 1), (3, 0, 1), (2, 0, 3), (1, 2, 3)]
    tensors = [7.0 * np.einsum("r,ir,jr,kr->ijk", truth.weights, *(truth.factors[n] for n in mode)) for mode in order]
    solution = coupled_simplex_parafac(tensors, RANK, modes=order, random_state=0)
    assert factor_error(solution.factors, truth) < 1e-8
    assert solution.start_info["gevd_bins"] == [4] * 4


@settings(max_examples=12)
@given(st.data())
def test_any_samples_give_starts(data):
    """Noise, constants, few samples: algebraic or random, but never an exception."""
    n_bins = data.draw(st.lists(st.integers(2, 5), min_size=3, max_size=5))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    n_samples = data.draw(st.sampled_from([5, 100]))
    values = np.column_stack([rng.integers(0, size, n_samples) for size in n_bins])
    values[rng.random(values.shape) < data.draw(st.sampled_from([0, 0.9, 1]))] = 0
    codes = Codes.from_array(values, n_bins=n_bins)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for category in (AlgebraicStartWarning, ConstantVariableWarning):
            warnings.simplefilter("ignore", category)
        starts, _ = make_starts(codes, 3, rank=data.draw(st.integers(1, 5)))
    for start in starts:
        assert start.n_bins == codes.n_bins
        assert all(np.isfinite(a).all() and (a > 0).any(axis=0).all() for a in start.factors)
