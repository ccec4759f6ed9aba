import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorly_smp.initializers.gevd import joint_eigenvectors, relative_gap


def similar_slices(rng, n_slices, rank, noise=0.0):
    vectors = rng.standard_normal((rank, rank)) + 2 * np.eye(rank)
    values = rng.standard_normal((n_slices, rank))
    slices = np.einsum("ir,kr,rj->kij", vectors, values, np.linalg.inv(vectors))
    return slices + noise * rng.standard_normal(slices.shape), vectors, values


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 6), st.integers(1, 8), st.integers(0, 1000))
def test_exact_slices_become_diagonal(n_slices, rank, seed):
    slices, _, values = similar_slices(np.random.default_rng(seed), n_slices, rank)
    found = joint_eigenvectors(slices, random_state=0)
    np.testing.assert_allclose(np.linalg.norm(found.vectors, axis=0), 1.0)
    assert found.off_diagonal < 1e-6
    np.testing.assert_allclose(np.sort(found.values[0]), np.sort(values[0]), atol=1e-5)


def test_all_slices_together_leave_less_than_one_pencil():
    for seed in range(5):
        slices, *_ = similar_slices(np.random.default_rng(seed), 8, 5, noise=0.02)
        pencil, joint = (joint_eigenvectors(slices, n_sweeps_max=n, random_state=0) for n in (0, 100))
        assert joint.off_diagonal < 0.9 * pencil.off_diagonal
        assert joint.n_sweeps > 0


def test_rotation_has_a_complex_pair():
    found = joint_eigenvectors(np.array([[[0.0, -1.0], [1.0, 0.0]]]), random_state=0)
    assert found.complex_pair
    assert np.isfinite(found.vectors).all()


def test_relative_gap_by_hand():
    assert relative_gap(np.array([[3.0, 0.0], [0.0, 4.0]])) == pytest.approx(5 / 4)
    assert relative_gap(np.array([[1.0, 1.0]])) == 0
    assert relative_gap(np.array([[2.0]])) == 1
    assert relative_gap(np.zeros((2, 2))) == 0
