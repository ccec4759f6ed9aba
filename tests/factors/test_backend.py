"""Arrays, compiled loops, dtype, device, and fits on NumPy, PyTorch and JAX, in single and double precision."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import tensorly as tl
from backend_problems import (
    EVERY_LOSS,
    FEW_SWEEPS,
    N_BINS,
    SOLVERS,
    every_kind,
    make_arrays,
    make_codes,
    make_init,
    parts,
    solve,
    tensor,
)
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from rooms import assert_same

from tensorly_smp._support.checks import to_numpy
from tensorly_smp.codes.encoding import Codes
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError, SizeLimitError
from tensorly_smp.factors.backend import (
    checked_context,
    choose,
    compiled,
    divide,
    floor,
    index_tensor,
    normalize,
    project_simplex,
    repeat,
    take,
    tiny,
    while_loop,
)
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.marginals.histograms import count_marginals

# --- array operations


def project_line(values):
    """Projection by bisection on the shift theta at which max(v - theta, 0) sums to one."""
    low, high = values.min() - 1.0, values.max()
    for _ in range(200):
        theta = (low + high) / 2
        if np.maximum(values - theta, 0).sum() > 1:
            low = theta
        else:
            high = theta
    return np.maximum(values - high, 0)


MATRICES = arrays(float, array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.floats(-5, 5, width=32))


@given(MATRICES, st.sampled_from([0, 1, -1]))
def test_projection_is_that_of_a_loop_and_the_nearest_point(matrix, axis):
    projected = project_simplex(matrix, axis)
    np.testing.assert_allclose(projected, np.apply_along_axis(project_line, axis, matrix), atol=1e-12)
    # <v - p, q - p> <= 0 for every q in the simplex: enough to see at its corners.
    residual = matrix - projected
    assert (residual - (residual * projected).sum(axis=axis, keepdims=True) <= 1e-12).all()


@pytest.mark.parametrize(("size", "dtype"), [(1e6, np.float32), (1e17, np.float64), (1e30, np.float32)])
def test_huge_entries_still_give_a_point_of_the_simplex(size, dtype):
    # A gradient step of a component with next to no weight is that long.
    projected = project_simplex(np.array([[size, -size], [3.0, 1.0], [-size, size]], dtype=dtype), 0)
    assert projected.tolist() == [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]
    assert projected.dtype == dtype


def test_to_numpy_is_a_float64_copy():
    for array in (np.ones(3, dtype=np.float32), np.ones(3), [1, 1, 1]):
        copy = to_numpy(array)
        copy[0] = 7
        assert copy.dtype == np.float64
        assert array[0] == 1


def test_tensors_of_pytorch_are_read_outside_its_context():
    torch = pytest.importorskip("torch")
    columns = torch.tensor([[0.25, 1.0], [0.75, 0.0]], dtype=torch.float32, requires_grad=True)
    assert tl.get_backend() == "numpy"
    copy = to_numpy(columns)  # where warnings are errors
    assert copy.dtype == np.float64
    np.testing.assert_array_equal(copy, [[0.25, 1.0], [0.75, 0.0]])
    copy[:] = 7.0
    assert columns[0, 0] == 0.25
    with tl.backend_context("pytorch"):
        factors = MixtureFactors(columns[0] / columns[0].sum(), [columns] * 3)
        inside = factors.to_numpy()
    assert "rank 2" in repr(factors)
    np.testing.assert_array_equal(factors.to_numpy().factors[2], inside.factors[2])


def test_take_picks_rows_and_divide_leaves_its_numerator(backend, dtype):
    matrix = tensor(np.arange(6.0).reshape(3, 2), dtype)
    index = index_tensor(np.array([2, 0, 2]), tl.context(matrix))
    assert to_numpy(take(matrix, index)).tolist() == [[4.0, 5.0], [0.0, 1.0], [4.0, 5.0]]
    numerator = tensor([1.0, 4.0], dtype)
    assert to_numpy(divide(numerator, tensor([2.0, 8.0], dtype))).tolist() == [0.5, 0.5]
    assert to_numpy(numerator).tolist() == [1.0, 4.0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_numbers_are_normal_and_their_uses_finite(dtype):
    one, smallest = np.ones(1, dtype=dtype), np.finfo(dtype).tiny
    assert dtype(floor(one)) ** 3 >= smallest
    assert np.isfinite(dtype(1) / dtype(tiny(one)))
    assert tiny(one) >= smallest


# --- compiled functions and loops


class Pair(NamedTuple):
    one: object
    other: object


@compiled(static=(0,))
def scaled_total(power, vectors, pair):
    """Of tuples of tensors, plain and named, with None among them."""
    one = sum(vector**power for vector in vectors) + pair.one
    return Pair(one, None if pair.other is None else 2.0 * pair.other)


def test_compiled_functions_take_and_return_tuples(backend, dtype):
    vectors = tuple(tensor([1.0, float(n)], dtype) for n in range(3))
    for power, other in [(1, None), (2, None), (2, tensor([4.0], dtype))]:
        found = scaled_total(power, vectors, Pair(tensor([0.5, 0.5], dtype), other))
        assert found.one.dtype == getattr(tl.backend, dtype)
        assert tl.to_numpy(found.one).tolist() == [3.5, {1: 3.5, 2: 5.5}[power]]
        assert found.other is None if other is None else tl.to_numpy(found.other).tolist() == [8.0]


def test_function_runs_once_per_static_argument_and_shape(backend):
    calls = []

    @compiled(static=(0,))
    def doubled(name, vector):
        calls.append(name)
        return 2.0 * vector

    for name, size in [("a", 2), ("a", 2), ("b", 2), ("a", 3), ("a", 2)]:
        assert tl.to_numpy(doubled(name, tensor(np.ones(size), "float64"))).tolist() == [2.0] * size
    assert calls == (["a", "b", "a"] if backend == "jax" else ["a", "a", "b", "a", "a"])


@pytest.mark.parametrize("is_compiled", [False, True])
def test_loops_are_those_of_python(backend, dtype, is_compiled):
    def halved_until_small(start):
        last = while_loop(lambda pair: pair.one > 1.0, lambda pair: Pair(pair.one / 2.0, pair.other + 1.0), start)
        tripled = repeat(3, lambda x: 3.0 * x, last.one)
        return last.one, last.other, tripled, choose(last.other > 2.0, tripled, last.one)

    run = compiled()(halved_until_small) if is_compiled else halved_until_small
    for start, expected in [(10.0, [0.625, 4.0, 16.875, 16.875]), (0.5, [0.5, 0.0, 13.5, 0.5])]:
        found = run(Pair(tensor(start, dtype), tensor(0.0, dtype)))
        assert [float(value) for value in found] == expected


def count_copies(monkeypatch, backend):
    """Sizes of what is read from tensors, in a list that may be emptied."""
    sizes = []

    def watch(kind, name):
        original = getattr(kind, name)

        def watched(self, *arguments, **options):
            sizes.append(int(np.prod(self.shape)))
            return original(self, *arguments, **options)

        monkeypatch.setattr(kind, name, watched)

    kind = type(tl.tensor(np.ones(2)))
    for name in ("__array__", "__float__", "__bool__", "__int__", "item", "tolist"):
        watch(kind, name)
    if backend == "pytorch":
        for name in ("numpy", "cpu"):
            watch(kind, name)
    original = tl.to_numpy
    monkeypatch.setattr(tl, "to_numpy", lambda array: sizes.append(int(np.prod(array.shape))) or original(array))
    return sizes


@pytest.mark.parametrize("loss", EVERY_LOSS)
def test_scalars_alone_come_to_the_host_in_a_sweep(backend, monkeypatch, loss):
    if backend == "numpy":
        pytest.skip("NumPy arrays are on the host")
    codes, sample_weight = make_codes(0.4, True)
    sizes, found = count_copies(monkeypatch, backend), []
    assert tl.to_numpy(tl.tensor(np.ones(3))).tolist() == [1.0, 1.0, 1.0]
    assert float(tl.sum(tl.tensor(np.ones(3)))) == 3.0
    assert 3 in sizes
    assert 1 in sizes

    def callback(*_):
        found.append(list(sizes))
        sizes.clear()
        return len(found) == 8

    options = {"modes": None, "loss": loss, "form": "counted", "sample_weight": sample_weight, "tol": 0.0}
    solve(codes, callback=callback, **options)
    assert len(found) == 8
    assert set(chain(*found[1:])) == {1}
    # The loss, the change, and for the extrapolation two lengths; twice where one is taken back.
    assert max(map(len, found[1:])) <= 12


@pytest.mark.slow
@pytest.mark.parametrize("loss", EVERY_LOSS)
def test_jax_compiles_a_step_once_for_all_variables_sweeps_and_starts(monkeypatch, loss):
    pytest.importorskip("jax")
    solver = next(iter(SOLVERS[loss].values()))
    original, shapes = solver.__call__, []

    def counted(self, block, x, memory=None):
        shapes.append(tuple(x.shape))
        return original(self, block, x, memory)

    monkeypatch.setattr(solver, "__call__", counted)
    codes, _ = make_codes(0.0, False)
    with tl.backend_context("jax"):
        for _ in range(2):
            solution = solve(codes, modes=None, loss=loss, form="counted", n_init=3, n_iter_max=6, tol=0.0, n_inner=3)
            assert solution.trace.n_sweeps == 6
    # Python code runs while it is compiled, and then no more: the weights, the factors. (No other test has n_inner=3.)
    assert sorted(shapes) == [(1, 3), (4, 3)]


# --- dtype and device


def test_dtype_may_be_that_of_the_backend_and_overrides_that_of_the_tensors(backend):
    data = [tensor(a, "float64") for a in make_arrays()]
    for dtype in ("float32", np.float32, np.dtype("float32"), tl.backend.float32):
        assert_of_backend(solve(data, n_iter_max=0, dtype=dtype).factors, "float32")
    assert_of_backend(solve(data, n_iter_max=0).factors, "float64")
    for dtype in ("int64", "float16", "anything", 3):
        with pytest.raises(InvalidInputError, match=r"expected one of \['float32', 'float64'\]"):
            solve(data, dtype=dtype)


@pytest.mark.parametrize("device", ["nowhere", "cuda:99", "meta"])
def test_device_that_is_not_there_is_named(backend, device):
    data = [tensor(a, "float64") for a in make_arrays()]
    with pytest.raises(InvalidInputError, match=rf"device is '{device}'.*(?i:{backend}).*Expected \"cpu\""):
        solve(data, device=device)
    with pytest.raises(InvalidTypeError, match=r"device is \['cpu'\]; expected a name"):
        solve(data, device=["cpu"])


def test_processor_by_name_and_by_object(backend):
    devices = ["cpu"]
    if backend == "pytorch":
        devices.append(tl.tensor([1.0]).device)
    elif backend == "jax":
        devices.append(next(iter(tl.tensor([1.0]).devices())))
    for device in devices:
        solution = solve([tensor(a, "float64") for a in make_arrays()], n_iter_max=1, device=device)
        assert_of_backend(solution.factors, "float64")


def test_everything_is_made_on_the_device_in_pytorch():
    torch = pytest.importorskip("torch")
    # An array that was not told where to be would be on the default device, this one, which holds no numbers.
    with tl.backend_context("pytorch"), torch.device("meta"):
        for data, options in every_kind("cpu"):
            assert {a.device.type for a in parts(solve(data, **options).factors)} == {"cpu"}
        data = [torch.tensor(a, device="cpu") for a in make_arrays()]
        assert {a.device.type for a in parts(solve(data, n_iter_max=5).factors)} == {"cpu"}


@pytest.mark.slow
def test_everything_is_made_on_the_device_in_jax():
    pytest.importorskip("jax")
    # JAX takes one processor for two devices only where it is told to before it starts. The second is not its default.
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
import jax, numpy as np, tensorly as tl
from backend_problems import every_kind, make_arrays, parts, solve
tl.set_backend("jax")
second = jax.devices()[1]
cases = [*every_kind("cpu:1"), *every_kind(second), ([jax.device_put(a, second) for a in make_arrays()], {{}})]
for data, options in cases:
    assert all(a.devices() == {{second}} for a in parts(solve(data, **options).factors)), options
print(len(cases))
"""
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["5"], done.stderr


def test_context_says_no_more_than_is_known(backend):
    assert checked_context() == {"dtype": tl.backend.float64}
    assert checked_context(like=[1, 2]) == {"dtype": tl.backend.float64}
    assert checked_context(like=tl.tensor([1, 2], dtype=tl.backend.int32))["dtype"] == tl.backend.float64
    like = tensor(np.ones(2), "float32")
    assert checked_context(like=like)["dtype"] == tl.backend.float32
    assert ("device" in checked_context(like=like)) == (backend != "numpy")


# --- the same results as NumPy in double precision


EVERY_SOLVER = pytest.mark.parametrize(
    ("loss", "solver"), [(loss, solver) for loss in SOLVERS for solver in SOLVERS[loss]]
)


def assert_same_sweeps(solution, expected, dtype):
    """The same losses and factors but for rounding, without extrapolation, which enlarges it."""
    eps = np.finfo(dtype).eps
    # The KL loss is a difference of terms of size ten.
    np.testing.assert_allclose(solution.trace.loss, expected.trace.loss, rtol=1e3 * eps, atol=100 * eps)
    assert_same(solution, expected, atol=100 * eps)


def assert_of_backend(factors, dtype):
    for a in parts(factors):
        assert tl.is_tensor(a)
        assert a.dtype == getattr(tl.backend, dtype)


@EVERY_SOLVER
def test_all_sweeps_end_at_the_same_loss(backend, dtype, loss, solver):
    options = {"loss": loss, "solver": solver, "n_iter_max": 12, "tol": 1e-4}
    solution = solve([tensor(a, dtype) for a in make_arrays()], **options)
    with tl.backend_context("numpy"):
        expected = solve(make_arrays(), **options)
    np.testing.assert_allclose(solution.loss, expected.loss, rtol=2e-2)
    scale = 10.0 if loss == "kl" else 1.0  # the loss is a difference of terms of this size
    assert (np.diff(solution.trace.loss) <= 20 * np.finfo(dtype).eps * scale).all()


def test_init_of_any_backend_is_taken_and_left_alone(backend, dtype):
    init = make_init()
    own = MixtureFactors(tensor(init.weights, dtype), [tensor(a, dtype) for a in init.factors])
    before = [np.array(tl.to_numpy(a)) for a in parts(own)]
    data = [tensor(a, dtype) for a in make_arrays()]
    losses = [solve(data, init=start, n_iter_max=2).loss for start in (init, own, own.to_cp_tensor())]
    np.testing.assert_allclose(losses, losses[0], rtol=1e-3 if dtype == "float32" else 1e-9)
    assert all((tl.to_numpy(a) == b).all() for a, b in zip(parts(own), before, strict=True))


def test_backend_of_this_thread_only(backend):
    # TensorLy may be told to use a backend in one thread; the threads of the starts have to follow.
    def work():
        with tl.backend_context(backend, local_threadsafe=True):
            solution = solve([tensor(a, "float64") for a in make_arrays()], n_init=2, n_iter_max=2, n_jobs=2)
            assert_of_backend(solution.factors, "float64")
        return True

    with tl.backend_context("numpy"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(work).result()


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
    monkeypatch.setattr("tensorly_smp.decomposition.problem.MAX_BYTES", 1000.0)
    with pytest.raises(SizeLimitError, match='loss="frobenius" with NumPy needs none'):
        solve(codes, **options)


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
        assert_same(changed, expected, **tolerance)
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
