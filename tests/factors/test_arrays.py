"""The simplex projection against a loop and its optimality conditions; what the small helpers promise."""

import numpy as np
import pytest
import tensorly as tl
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from tensorly_smp.factors import implicit
from tensorly_smp.factors.backend import (
    divide,
    floor,
    index_tensor,
    normalize,
    project_simplex,
    take,
    tiny,
)
from tensorly_smp.factors.implicit import ScatterAdd, add_outer, weighted_squares
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.marginals.histograms import to_numpy


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
def test_projection_is_that_of_a_loop(matrix, axis):
    expected = np.apply_along_axis(project_line, axis, matrix)
    np.testing.assert_allclose(project_simplex(matrix, axis), expected, atol=1e-12)


@given(MATRICES)
def test_projection_is_the_nearest_point(matrix):
    # <v - p, q - p> <= 0 for every q in the simplex: enough to see at its corners.
    projected = project_simplex(matrix, 0)
    residual = matrix - projected
    assert (residual - (residual * projected).sum(axis=0) <= 1e-12).all()


@given(MATRICES, st.floats(-1e3, 1e3))
def test_projection_ignores_a_constant_and_keeps_the_simplex(matrix, shift):
    projected = project_simplex(matrix, 0)
    np.testing.assert_allclose(project_simplex(matrix + shift, 0), projected, atol=1e-9)
    np.testing.assert_allclose(project_simplex(projected, 0), projected, atol=1e-14)


def test_negative_entries_are_not_just_set_to_zero():
    assert project_simplex(np.array([[-1.0, 0.5]]), 1).tolist() == [[0.0, 1.0]]
    assert project_simplex(np.array([[-1.0], [0.5]]), 0).tolist() == [[0.0], [1.0]]
    assert project_simplex(np.array([-1.0, 0.5]), 0).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1e6, 1e17, 1e30])
def test_huge_entries_still_give_a_point_of_the_simplex(size, dtype):
    # A gradient step of a component with next to no weight is that long.
    projected = project_simplex(np.array([[size, -size], [3.0, 1.0], [-size, size]], dtype=dtype), 0)
    assert projected.tolist() == [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]
    assert projected.dtype == dtype


def test_projection_leaves_its_argument_alone():
    matrix = np.array([[0.3, 2.0], [0.1, -1.0]])
    before = matrix.copy()
    project_simplex(matrix, 0)
    assert (matrix == before).all()


def test_normalize():
    matrix = np.array([[1.0, 3.0], [1.0, 1.0]])
    assert normalize(matrix, 0).tolist() == [[0.5, 0.75], [0.5, 0.25]]
    assert normalize(matrix, 1).tolist() == [[0.25, 0.75], [0.5, 0.5]]


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


def test_take_picks_rows():
    matrix = np.arange(6.0).reshape(3, 2)
    index = index_tensor(np.array([2, 0, 2]), tl.context(matrix))
    assert take(matrix, index).tolist() == [[4.0, 5.0], [0.0, 1.0], [4.0, 5.0]]


def test_scatter_add_is_a_loop():
    rng = np.random.default_rng(0)
    values, weights = rng.random((20, 3)), rng.random(20)
    scatter_add = ScatterAdd(weights, 5)
    for _ in range(2):  # the second call must not see the first
        index = rng.integers(0, 4, 20).astype(np.uint8)
        expected = np.zeros((5, 3))
        for m in range(20):
            expected[index[m]] += weights[m] * values[m]
        np.testing.assert_allclose(scatter_add(values, index), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 3), (4, 3)])
def test_add_outer_overwrites_its_matrix(shape, dtype):
    rng = np.random.default_rng(0)
    matrix, column, row = (rng.random(size).astype(dtype) for size in (shape, *shape))
    expected = matrix + np.outer(column, row)
    changed = add_outer(matrix, column, row)
    np.testing.assert_allclose(changed, expected, rtol=4 * np.finfo(dtype).eps)
    assert changed.dtype == dtype
    assert np.shares_memory(changed, matrix)
    again = expected + np.outer(column, row)
    np.testing.assert_allclose(add_outer(changed, column, row), again, rtol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("cached", [1, 7, 1000])
def test_weighted_squares_in_pieces(monkeypatch, cached):
    monkeypatch.setattr(implicit, "CACHED", cached)
    rng = np.random.default_rng(0)
    weights, matrix = rng.random(10), rng.random((10, 3))
    np.testing.assert_allclose(weighted_squares(weights, matrix), weights @ matrix**2)


def test_divide():
    numerator = np.array([1.0, 4.0])
    assert divide(numerator, np.array([2.0, 8.0])).tolist() == [0.5, 0.5]
    assert numerator.tolist() == [1.0, 4.0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_numbers_are_normal_and_their_uses_finite(dtype):
    one, smallest = np.ones(1, dtype=dtype), np.finfo(dtype).tiny
    assert dtype(floor(one)) ** 3 >= smallest
    assert np.isfinite(dtype(1) / dtype(tiny(one)))
    assert tiny(one) >= smallest
