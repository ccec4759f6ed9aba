"""dtype and device as asked for, or as the tensors have them; everything is made there."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorly as tl
from backend_problems import every_kind, make_arrays, parts, solve, tensor

from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.factors.backend import checked_context


def assert_of_backend(factors, dtype):
    assert all(a.dtype == getattr(tl.backend, dtype) for a in parts(factors))


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
    with pytest.raises(InvalidInputError, match=rf"device is '{device}'.*(?i:{backend}).*Expected \"cpu\""):
        solve([tensor(a, "float64") for a in make_arrays()], device=device)


def test_device_of_another_kind_is_refused(backend):
    with pytest.raises(InvalidTypeError, match=r"device is \['cpu'\]; expected a name"):
        solve([tensor(a, "float64") for a in make_arrays()], device=["cpu"])


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
