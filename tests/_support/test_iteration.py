import numpy as np
import pytest
from backend_problems import tensor

from tensorly_smp._support.iteration import Coordinates, MeanGain, SquaredExtrapolation, StopReason, iterate
from tensorly_smp.marginals.histograms import to_numpy

PLAIN = Coordinates(lambda x: x, lambda vector, _: vector)
RATES = np.array([0.99, 0.9, 0.5])


def climb(**options):
    """A linear iteration towards zero, the slowest entry by a hundredth a step, and minus the squared distance."""
    options = dict(rule=MeanGain(1e-12, 3000)) | options
    return iterate(np.ones(3), lambda x: (None, -float(x @ x)), lambda x, _: RATES * x, **options)


def test_the_objective_never_falls_and_extrapolation_saves_steps():
    plain, fast = climb(), climb(coordinates=PLAIN)
    for found in (plain, fast):
        assert found.status is StopReason.CONVERGED
        assert (np.diff(found.values) >= 0).all()
        assert len(found.values) == len(found.seconds) == found.n_steps + 1
        assert found.value == -float(found.position @ found.position)
    assert fast.n_steps < plain.n_steps / 4
    assert plain.position[0] == pytest.approx(0.99**plain.n_steps)


def test_an_extrapolation_that_would_lower_the_objective_is_not_taken():
    def far(vector, _):
        return vector + 100.0

    assert np.array_equal(climb(coordinates=Coordinates(lambda x: x, far)).values, climb().values)


def test_steps_that_gain_much_are_not_extrapolated():
    seen = []

    def record(vector, _):
        seen.append(vector)
        return vector

    climb(coordinates=Coordinates(lambda x: x, record), fast_gain=0.0)
    assert not seen
    climb(coordinates=Coordinates(lambda x: x, record), fast_gain=1e-3)
    assert seen


def test_a_callback_stops_and_sees_every_step():
    seen = []
    found = climb(callback=lambda x, detail, value: seen.append(value) or len(seen) == 4)
    assert found.status is StopReason.CALLBACK
    assert found.values.tolist() == seen


def test_an_interrupt_keeps_what_was_reached():
    def interrupt(x, detail, value):
        if value > -2.0:
            raise KeyboardInterrupt

    found = climb(callback=interrupt)
    assert found.status is StopReason.INTERRUPTED
    assert found.value > -2.0


def test_the_limit_of_steps():
    found = climb(rule=MeanGain(1e-12, 7))
    assert (found.status, found.n_steps) == (StopReason.MAX_SWEEPS, 7)
    assert climb(rule=MeanGain(1e-12, 0)).n_steps == 0


@pytest.mark.parametrize("step", [0, 3])
def test_a_value_that_is_not_a_number_ends_the_iteration(step):
    found = iterate(0, lambda k: (None, np.nan if k == step else float(k)), lambda k, _: k + 1, rule=MeanGain(0.0, 100))
    assert found.status is StopReason.NONFINITE
    assert found.n_steps == max(step - 1, 0)


def test_a_step_that_falls_by_rounding_has_converged():
    values = [0.0, 1.0, 1.0 - 1e-16]
    found = iterate(0, lambda k: (None, values[k]), lambda k, _: k + 1, rule=MeanGain(0.0, 100))
    assert (found.status, found.position) == (StopReason.CONVERGED, 1)


def test_plain_steps_may_fall_where_that_is_allowed():
    values = [0.0, 2.0, 1.0, 3.0, 3.0, 3.0]
    found = iterate(0, lambda k: (None, values[k]), lambda k, _: k + 1, rule=MeanGain(0.0, 100), may_fall=True)
    assert found.values.tolist() == values
    assert found.status is StopReason.CONVERGED


def test_a_lifted_position_goes_on():
    lifts = iter([100.0, None])
    found = iterate(
        0.0,
        lambda x: (None, x),
        lambda x, _: x + 2.0**-10 if x >= 100.0 else x / 2.0,
        rule=MeanGain(0.01, 50),
        lift=lambda x, value: next(lifts),
    )
    assert found.status is StopReason.CONVERGED
    assert found.values[3] == 100.0
    assert found.value == 100.0 + 2 * 2.0**-10


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_start_that_is_not_finite(value):
    found = iterate(0.0, lambda x: (None, value), lambda x, _: x, rule=MeanGain(0.0, 10))
    assert found.status is StopReason.NONFINITE
    assert found.n_steps == 0


def test_extrapolation_of_a_geometric_sequence_is_its_limit(backend, dtype):
    limit, off = np.array([1.0, -2.0]), np.array([0.3, 0.5])
    points = [tensor(limit + 0.9**k * off, dtype) for k in range(3)]
    extrapolation = SquaredExtrapolation(largest_step=100.0)
    assert extrapolation.propose(points[0], points[1]) is None
    # Of second differences of a hundredth of the points, whose rounding is made ten times larger.
    found = to_numpy(extrapolation.propose(points[1], points[2]))
    np.testing.assert_allclose(found, limit, rtol=1e3 * np.finfo(dtype).eps)


def test_extrapolation_is_limited_and_shortened(backend, dtype):
    extrapolation = SquaredExtrapolation()
    points = [tensor([0.99**k], dtype) for k in range(3)]

    def proposal():
        extrapolation.propose(points[0], points[1])
        return float(extrapolation.propose(points[1], points[2])[0])

    steps = [proposal() for _ in range(3)]
    assert 1 > steps[0] > steps[1] > steps[2] > 0  # longer and longer towards the limit, which is zero
    extrapolation.reject()
    assert steps[1] > proposal() == pytest.approx(steps[2], rel=1e3 * float(np.finfo(dtype).eps))
