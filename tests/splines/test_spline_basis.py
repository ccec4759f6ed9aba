"""The basis against dense algebra, and its units."""

import numpy as np
import pytest
from oracles import dense_curvature, dense_penalty

from tensorly_smp.splines.spline_basis import spline_basis

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
