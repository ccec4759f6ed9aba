"""Every backend and precision, for the tests that ask for them."""

import pytest
import tensorly as tl

MODULES = {"numpy": "numpy", "pytorch": "torch", "jax": "jax"}


@pytest.fixture(
    params=[pytest.param(name, marks=[pytest.mark.slow] if name == "jax" else []) for name in MODULES],
)
def backend(request):
    """Name of the active TensorLy backend; the one before is active again afterwards."""
    pytest.importorskip(MODULES[request.param], exc_type=ImportError)  # also where an installation was broken off
    before = tl.get_backend()
    tl.set_backend(request.param)
    yield request.param
    assert tl.get_backend() == request.param
    tl.set_backend(before)


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    """Name of a precision."""
    return request.param
