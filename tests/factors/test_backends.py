"""NumPy, PyTorch and JAX, single and double precision: the same results as NumPy float64, in their own arrays."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorly as tl
from backend_problems import FEW_SWEEPS, N_BINS, SOLVERS, make_arrays, make_codes, make_init, parts, solve, tensor

from tensorly_smp.codes.encoding import Codes
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError, SizeLimitError
from tensorly_smp.factors.backend import normalize, project_simplex
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.marginals.histograms import count_marginals

EVERY_SOLVER = pytest.mark.parametrize(
    ("loss", "solver"), [(loss, solver) for loss in SOLVERS for solver in SOLVERS[loss]]
)


def assert_same_sweeps(solution, expected, dtype, may_branch=False):
    """The same losses and factors but for rounding, without extrapolation, which enlarges it.

    Where a line search may accept another step because of rounding, nearly the same.
    """
    eps = np.finfo(dtype).eps if not may_branch else 1e-4
    # The KL loss is a difference of terms of size ten.
    np.testing.assert_allclose(solution.trace.loss, expected.trace.loss, rtol=1e3 * eps, atol=100 * eps)
    for a, b in zip(parts(solution.factors.to_numpy()), parts(expected.factors), strict=True):
        np.testing.assert_allclose(a, b, atol=100 * eps)


def assert_of_backend(factors, dtype):
    for a in parts(factors):
        assert tl.is_tensor(a)
        assert a.dtype == getattr(tl.backend, dtype)


@EVERY_SOLVER
def test_a_few_sweeps_are_those_of_numpy_in_double_precision(backend, dtype, loss, solver):
    options = {"loss": loss, "solver": solver, "n_iter_max": 3, "extrapolate": False}
    solution = solve([tensor(a, dtype) for a in make_arrays()], **options)
    with tl.backend_context("numpy"):
        expected = solve(make_arrays(), **options)
    assert_of_backend(solution.factors, dtype)
    assert_same_sweeps(solution, expected, dtype, may_branch=solver == "mirror" and dtype == "float32")


@EVERY_SOLVER
def test_all_sweeps_end_at_the_same_loss(backend, dtype, loss, solver):
    options = {"loss": loss, "solver": solver, "n_iter_max": 12, "tol": 1e-4}
    solution = solve([tensor(a, dtype) for a in make_arrays()], **options)
    with tl.backend_context("numpy"):
        expected = solve(make_arrays(), **options)
    assert_of_backend(solution.factors, dtype)
    assert isinstance(solution.trace.loss, np.ndarray)
    assert solution.trace.loss.dtype == np.float64
    np.testing.assert_allclose(solution.loss, expected.loss, rtol=2e-2)
    eps = float(tl.finfo(solution.factors.weights.dtype).eps)
    scale = 10.0 if loss == "kl" else 1.0  # the loss is a difference of terms of this size
    assert (np.diff(solution.trace.loss) <= 20 * eps * scale).all()
    for a in parts(solution.factors):
        sums = tl.to_numpy(tl.sum(a, axis=0))
        np.testing.assert_allclose(sums, 1.0, rtol=20 * eps)


def test_init_of_any_backend_is_taken_and_left_alone(backend, dtype):
    init = make_init()
    own = MixtureFactors(tensor(init.weights, dtype), [tensor(a, dtype) for a in init.factors])
    before = [np.array(tl.to_numpy(a)) for a in parts(own)]
    data = [tensor(a, dtype) for a in make_arrays()]
    losses = [solve(data, init=start, n_iter_max=2).loss for start in (init, own, own.to_cp_tensor())]
    np.testing.assert_allclose(losses, losses[0], rtol=1e-3 if dtype == "float32" else 1e-9)
    assert all((tl.to_numpy(a) == b).all() for a, b in zip(parts(own), before, strict=True))


def test_several_starts_in_threads(backend):
    data = [tensor(a, "float64") for a in make_arrays()]
    one, two = (solve(data, n_init=3, n_iter_max=6, n_jobs=jobs) for jobs in (1, 2))
    assert (one.start_losses == two.start_losses).all()
    assert_of_backend(two.factors, "float64")


def test_backend_of_this_thread_only(backend):
    # TensorLy may be told to use a backend in one thread; the threads of the starts have to follow.
    def work():
        with tl.backend_context(backend, local_threadsafe=True):
            solution = solve([tensor(a, "float64") for a in make_arrays()], n_init=2, n_iter_max=2, n_jobs=2)
            assert_of_backend(solution.factors, "float64")
        return True

    with tl.backend_context("numpy"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(work).result()


def test_marginals_give_factors_of_the_backend(backend):
    values = np.random.default_rng(0).integers(0, 3, (100, 4))
    solution = solve(count_marginals(Codes.from_array(values)), modes=None, n_iter_max=3)
    assert_of_backend(solution.factors, "float64")
    assert solution.to_cp_tensor().weights is solution.factors.weights


@pytest.mark.parametrize(("missing", "weighted"), [(0.0, False), (0.05, True), (0.4, True)])
def test_codes_without_histograms(dtype, missing, weighted):
    codes, sample_weight = make_codes(missing, weighted)
    options = {"loss": "frobenius", "form": "implicit", "sample_weight": sample_weight, **FEW_SWEEPS}
    solution = solve(codes, dtype=dtype, **options)
    expected = solve(codes, **options)
    counted = solve(codes, **{**options, "form": "counted"})
    assert solution.start_info["histograms"] == "implicit"
    assert_of_backend(solution.factors, dtype)
    assert_same_sweeps(solution, expected, dtype)
    assert_same_sweeps(solution, counted, dtype)


@pytest.mark.parametrize(
    ("solver", "dtype"), [("auto", "float32"), ("auto", "float64"), ("mirror", "float64")], ids=str
)
def test_codes_without_histograms_to_the_end(dtype, solver):
    codes, sample_weight = make_codes(0.4, True)
    options = {"loss": "frobenius", "form": "implicit", "sample_weight": sample_weight, "solver": solver}
    options |= {"modes": None, "n_iter_max": 12, "tol": 1e-4}  # extrapolated, sums computed anew
    solution = solve(codes, dtype=dtype, **options)
    expected = solve(codes, **options)
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(solution.loss, expected.loss, rtol=2e-2)
    assert (np.diff(solution.trace.loss) <= 20 * eps).all()
    for a in parts(solution.factors.to_numpy()):
        np.testing.assert_allclose(a.sum(axis=0), 1.0, rtol=20 * eps)


@pytest.mark.parametrize("loss", SOLVERS)
def test_marginals_and_codes_in_single_precision(backend, loss):
    codes, _ = make_codes(0.05, False)
    options = {"loss": loss, **FEW_SWEEPS}
    for data, more in [(count_marginals(codes), {}), (codes, {"form": "counted"})]:
        solution = solve(data, dtype="float32", **options, **more)
        with tl.backend_context("numpy"):
            expected = solve(data, **options, **more)
        assert_of_backend(solution.factors, "float32")
        assert_same_sweeps(solution, expected, "float32")


def test_codes_are_counted_on_other_backends(backend, monkeypatch):
    codes, _ = make_codes(0.05, False)
    options = {"modes": None, "loss": "frobenius", "n_iter_max": 3}
    monkeypatch.setattr("tensorly_smp.decomposition.problem._is_better_implicit", lambda *_: True)
    expected = "implicit" if backend == "numpy" else "counted"
    assert solve(codes, **options).start_info["histograms"] == expected
    if backend == "numpy":
        return
    with pytest.raises(InvalidInputError, match=rf'backend "{backend}".*Expected histograms="counted"'):
        solve(codes, form="implicit", **options)
    monkeypatch.setattr("tensorly_smp.decomposition.problem.MAX_BYTES", 1000.0)
    with pytest.raises(SizeLimitError, match=r'histograms="implicit" with tensorly.set_backend\("numpy"\)'):
        solve(codes, **options)


def test_callback_gets_the_arrays_of_the_backend(backend, dtype):
    def callback(cp_tensor, loss):
        assert tl.is_tensor(cp_tensor.weights)
        assert isinstance(loss, float)
        return True

    assert solve([tensor(a, dtype) for a in make_arrays()], callback=callback).status.name == "CALLBACK"


def test_methods_of_mixture_factors(backend, dtype):
    init = make_init()
    factors = MixtureFactors(tensor(init.weights, dtype), [tensor(a, dtype) for a in init.factors])
    codes = Codes.from_array(np.random.default_rng(0).integers(-1, 2, (20, 4)), n_bins=N_BINS)
    tolerance = {"rtol": 1e-5 if dtype == "float32" else 1e-12}
    for changed, expected in [
        (factors.permute([2, 0, 1]), init.permute([2, 0, 1])),
        (factors.sort(), init.sort()),
        (factors.smooth(0.1), init.smooth(0.1)),
        (MixtureFactors.from_cp_tensor(factors.to_cp_tensor()), init),
    ]:
        assert_of_backend(changed, dtype)
        for a, b in zip(parts(changed.to_numpy()), parts(expected), strict=True):
            np.testing.assert_allclose(a, b, **tolerance)
    np.testing.assert_allclose(factors.posterior(codes), init.posterior(codes), **tolerance)
    np.testing.assert_allclose(factors.to_marginals().counts[0], init.to_marginals().counts[0], **tolerance)
    assert repr(factors) == repr(init)


@pytest.mark.parametrize("axis", [0, 1])
def test_projection_and_normalization(backend, dtype, axis):
    array = np.random.default_rng(0).normal(size=(4, 3))
    tolerance = {"atol": 1e-6 if dtype == "float32" else 1e-14}
    projected, normalized = (f(tensor(array**2, dtype), axis) for f in (project_simplex, normalize))
    assert projected.dtype == normalized.dtype == getattr(tl.backend, dtype)
    with tl.backend_context("numpy"):
        expected = project_simplex(array**2, axis), normalize(array**2, axis)
    np.testing.assert_allclose(tl.to_numpy(projected), expected[0], **tolerance)
    np.testing.assert_allclose(tl.to_numpy(normalized), expected[1], **tolerance)


def test_tensors_of_another_backend_are_refused(backend):
    if backend == "numpy":
        pytest.skip("NumPy arrays are taken by every backend")
    data = [tensor(a, "float64") for a in make_arrays()]
    with tl.backend_context("numpy"), pytest.raises(InvalidTypeError, match=r'active TensorLy backend .*"numpy"'):
        solve(data)
