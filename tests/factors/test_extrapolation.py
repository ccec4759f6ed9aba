"""Squared extrapolation: exact on a geometric sequence, limited in length."""

import numpy as np
import pytest

from tensorly_smp.factors.extrapolation import SquaredExtrapolation


def test_extrapolation_of_a_geometric_sequence_is_its_limit():
    limit, off = np.array([1.0, -2.0]), np.array([0.3, 0.5])
    points = [limit + 0.9**k * off for k in range(3)]
    extrapolation = SquaredExtrapolation(largest_step=100.0)
    assert extrapolation.propose(points[0], points[1]) is None
    np.testing.assert_allclose(extrapolation.propose(points[1], points[2]), limit)


def test_extrapolation_is_limited_and_shortened():
    extrapolation = SquaredExtrapolation()
    points = [np.array([0.999**k]) for k in range(3)]

    def proposal():
        extrapolation.propose(points[0], points[1])
        return extrapolation.propose(points[1], points[2]).item()

    steps = [proposal() for _ in range(3)]
    assert 1 > steps[0] > steps[1] > steps[2] > 0  # longer and longer towards the limit, which is zero
    extrapolation.reject()
    assert steps[1] > proposal() == pytest.approx(steps[2])
