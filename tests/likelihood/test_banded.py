import numpy as np
import pytest

from tensorly_smp.likelihood.banded import cholesky, inverse_bands, log_determinant, solve, trace_of_product


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
    bands = np.full((width, dense.shape[1], len(dense)), np.nan)  # what is not read may be anything
    for d in range(width):
        bands[d, : dense.shape[1] - d] = np.diagonal(dense, -d, 1, 2).T
    return bands


@pytest.mark.parametrize(("n", "width"), [(1, 4), (3, 4), (9, 4), (7, 1), (6, 2)])
def test_agrees_with_dense_algebra(n, width):
    dense, bands = random_systems(n, width, 5, seed=n)
    right = np.random.default_rng(1).standard_normal((n, 5))
    factor = cholesky(bands)
    np.testing.assert_allclose(solve(factor, right).T, np.linalg.solve(dense, right.T[..., None])[..., 0], rtol=1e-8)
    np.testing.assert_allclose(log_determinant(factor), np.linalg.slogdet(dense)[1], atol=1e-10)
    inverse = np.linalg.inv(dense)
    expected = to_bands(inverse, width)
    within = ~np.isnan(expected)
    np.testing.assert_allclose(inverse_bands(factor)[within], expected[within], rtol=1e-7, atol=1e-9)
    zeroed = np.nan_to_num(bands)
    np.testing.assert_allclose(trace_of_product(inverse_bands(factor), zeroed), np.full(5, n), rtol=1e-8)
