"""Settings that all tests share."""

import os
import signal
import sys

import pytest
from hypothesis import HealthCheck, settings

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
