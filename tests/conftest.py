"""Settings that all tests share."""

import os
import signal
import sys
from importlib.util import find_spec

import pytest
import tensorly as tl
from hypothesis import HealthCheck, settings

#: TensorLy backend: what it needs installed.
BACKENDS = {"numpy": "numpy", "pytorch": "torch", "jax": "jax"}
INSTALLED = [name for name, module in BACKENDS.items() if find_spec(module)]

# No display is needed to draw.
os.environ.setdefault("MPLBACKEND", "Agg")

# Bounded and repeatable by default: a red run is red again. `pytest --hypothesis-profile=thorough` searches longer.
settings.register_profile(
    "bounded",
    max_examples=25,
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "thorough", max_examples=1000, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("bounded")


@pytest.fixture(autouse=True, scope="session")
def keyboard_interrupts():
    """Ctrl-C raises KeyboardInterrupt even where the tests were started in the background, with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def close_figures():
    """No figure outlives its test: matplotlib warns of too many."""
    yield
    if (pyplot := sys.modules.get("matplotlib.pyplot")) is not None:
        pyplot.close("all")


def pytest_report_header():
    """Say which backends the tests run on: there is no test, nor a skip, of one that is not installed."""
    return f"backends: {', '.join(INSTALLED)}"


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.slow] if name == "jax" else []) for name in INSTALLED])
def backend(request):
    """Name of the active TensorLy backend; the one before is active again afterwards."""
    pytest.importorskip(BACKENDS[request.param], exc_type=ImportError)  # also where an installation was broken off
    before = tl.get_backend()
    tl.set_backend(request.param)
    yield request.param
    assert tl.get_backend() == request.param
    tl.set_backend(before)


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    """Name of a precision."""
    return request.param
