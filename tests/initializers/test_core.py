import numpy as np
import pytest

from tensorly_smp.exceptions import AlgebraicStartError
from tensorly_smp.initializers.gevd import decompose_core


def random_core(n_slices, rank, seed=0):
    rng = np.random.default_rng(seed)
    left, right = rng.standard_normal((2, rank, rank))
    third = rng.random((n_slices, rank))
    return np.einsum("ir,jr,kr->kij", left, right, third)


@pytest.mark.parametrize("n_slices", [2, 3, 40])
@pytest.mark.parametrize("base", [False, True])
def test_slices_are_reproduced(n_slices, base):
    slices = random_core(n_slices, 4)
    found = decompose_core(slices, base=np.ones(n_slices) if base else None, random_state=0)
    assert found.third.shape == (n_slices, 4)
    rebuilt = np.einsum("ir,jr,kr->kij", found.left, found.right, found.third)
    np.testing.assert_allclose(rebuilt, slices, atol=1e-10)
    assert found.diagnostics.residual < 1e-12


def test_refinement_only_lowers_the_residual():
    slices = random_core(6, 5) + 0.05 * np.random.default_rng(1).standard_normal((6, 5, 5))
    residuals = [
        decompose_core(slices, n_refinements_max=steps, complex_pairs="keep", random_state=0).diagnostics.residual
        for steps in (0, 1, 2, 5, 50)
    ]
    assert (np.diff(residuals) <= 0).all()
    assert residuals[-1] < residuals[0]


def test_singular_base_is_named():
    with pytest.raises(AlgebraicStartError, match="Singular values"):
        decompose_core(random_core(3, 3), base=np.zeros(3))
