"""Squared extrapolation: exact on a geometric sequence, limited in length; on every backend."""

import numpy as np
import pytest
from backend_problems import tensor

from tensorly_smp._support.extrapolation import SquaredExtrapolation
from tensorly_smp.marginals.tensors import to_numpy


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
