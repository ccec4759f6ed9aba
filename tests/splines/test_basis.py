"""The basis against dense algebra, and its units."""

import numpy as np
import pytest
from oracles import dense_curvature, dense_penalty

from tensorly_smp.splines.basis import cholesky, inverse_bands, log_determinant, solve, spline_basis, trace_of_product

SMALL = spline_basis(12)


def test_basis_is_a_partition_of_unity_that_contains_quadratics():
    np.testing.assert_allclose(SMALL.at_cells.sum(axis=1), 1.0)
    powers = SMALL.centers[:, None] ** np.arange(3)
    np.testing.assert_allclose(SMALL.at_cells @ SMALL.quadratics, powers, atol=1e-12)
    np.testing.assert_allclose(SMALL.differences @ SMALL.quadratics, 0.0, atol=1e-10)


def test_bands_are_those_of_the_dense_matrices():
    coefficients = np.random.default_rng(0).standard_normal((12, 1))
    curvature = SMALL.curvature(np.exp(SMALL.at_cells @ coefficients))
    dense, penalty = dense_curvature(SMALL, coefficients[:, 0]), dense_penalty(SMALL)
    for d in range(4):
        np.testing.assert_allclose(curvature[0, : 12 - d, d], np.diag(dense, -d), atol=1e-14)
        np.testing.assert_allclose(SMALL.penalty_bands[: 12 - d, d], np.diag(penalty, -d), atol=1e-10)
        assert not curvature[0, 12 - d :, d].any()
        assert not SMALL.penalty_bands[12 - d :, d].any()
    assert np.abs(np.triu(penalty, 4)).max() < 1e-10


def test_rho_means_the_same_for_any_number_of_basis_functions():
    # A smooth logarithm has the same roughness in any basis that can follow it.
    def roughness(n_basis):
        basis = spline_basis(n_basis)
        wave = 2.0 * np.sin(4.0 * basis.centers)[:, None]
        design = basis.at_cells.toarray()
        return basis.roughness(np.linalg.lstsq(design, wave, rcond=None)[0])[0]

    assert roughness(40) == pytest.approx(roughness(80), rel=0.05)
    assert roughness(160) == pytest.approx(roughness(80), rel=0.05)


# Stacks of banded systems against dense algebra, one at a time.


def random_systems(n, width, n_systems, seed):
    """Dense positive definite matrices (n_systems, n, n) and their bands."""
    rng = np.random.default_rng(seed)
    lower = rng.standard_normal((n_systems, n, n))
    rows, columns = np.indices((n, n))
    lower[:, (rows < columns) | (rows - columns >= width)] = 0.0
    lower[:, rows == columns] = 1.0 + rng.random((n_systems, n))
    dense = lower @ lower.transpose(0, 2, 1)
    return dense, to_bands(dense, width)


def to_bands(dense, width):
    bands = np.zeros((len(dense), dense.shape[1], width))
    for d in range(min(width, dense.shape[1])):
        bands[:, : dense.shape[1] - d, d] = np.diagonal(dense, -d, 1, 2)
    return bands


@pytest.mark.parametrize(("n", "width"), [(1, 4), (3, 4), (9, 4), (7, 1), (6, 2)])
def test_agrees_with_dense_algebra(n, width):
    dense, bands = random_systems(n, width, 5, seed=n)
    before = bands.copy()
    right = np.random.default_rng(1).standard_normal((n, 5))
    factor = cholesky(bands)
    np.testing.assert_array_equal(bands, before)
    np.testing.assert_allclose(solve(factor, right).T, np.linalg.solve(dense, right.T[..., None])[..., 0], rtol=1e-8)
    np.testing.assert_allclose(log_determinant(factor), np.linalg.slogdet(dense)[1], atol=1e-10)
    inverse = to_bands(np.linalg.inv(dense), width)
    np.testing.assert_allclose(inverse_bands(factor), inverse, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(trace_of_product(inverse_bands(factor), bands), np.full(5, n), rtol=1e-8)


def test_one_system_that_is_not_positive_definite_leaves_the_others_alone():
    _, bands = random_systems(8, 4, 3, seed=0)
    expected = cholesky(bands)
    difference = np.diff(np.eye(8), 3, axis=0)
    bands[1] = to_bands((1e8 * difference.T @ difference)[None], 4)  # of rank 5
    bands[1, 4, 0] -= 1e-7
    factor = cholesky(bands)
    np.testing.assert_allclose(factor[[0, 2]], expected[[0, 2]], rtol=1e-13)
    assert np.isfinite(factor).all()
    step = solve(factor, np.ones((8, 3)))
    assert np.isfinite(step).all()
    assert (step.sum(axis=0) > 0).all()  # uphill
    empty = np.zeros((0, 5, 4))  # no system
    shapes = cholesky(empty).shape, solve(empty, np.zeros((5, 0))).shape, log_determinant(empty).shape
    assert shapes == ((0, 5, 4), (5, 0), (0,))
