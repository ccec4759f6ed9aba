import numpy as np
import pytest

from tensorly_smp.initializers.gevd import _normal_product, _solve, _stacked, refine_cp


def compose(factors):
    return np.einsum("ir,jr,kr->kij", *factors)


def make_factors(seed, sizes=(4, 5, 3), rank=3):
    rng = np.random.default_rng(seed)
    return tuple(rng.standard_normal((size, rank)) for size in sizes)


def dense_jacobian(factors):
    """One entry at a time: the reconstruction is linear in every entry."""
    columns = []
    for mode, factor in enumerate(factors):
        for index in np.ndindex(factor.shape):
            changed = [np.array(other) for other in factors]
            changed[mode] = np.zeros_like(factor)
            changed[mode][index] = 1.0
            columns.append(compose(changed).ravel())
    return np.stack(columns, axis=1)


def flat(parts):
    return np.concatenate([part.ravel() for part in parts])


def unstacked(stacked, like):
    for place, part in zip(stacked, like, strict=True):
        assert not place[len(part) :].any()
    return [place[: len(part)] for place, part in zip(stacked, like, strict=True)]


def stacked_grams(factors):
    return np.stack([factor.T @ factor for factor in factors])


def test_normal_product_is_that_of_the_jacobian():
    factors, parts = make_factors(0), make_factors(1)
    grams = stacked_grams(factors)
    shift = 0.3
    blocks = np.stack([grams[1] * grams[2], grams[0] * grams[2], grams[0] * grams[1]]) + shift * np.eye(3)
    jacobian = dense_jacobian(factors)
    expected = jacobian.T @ (jacobian @ flat(parts)) + shift * flat(parts)
    product = _normal_product(_stacked(factors), grams, blocks, _stacked(parts))
    np.testing.assert_allclose(flat(unstacked(product, parts)), expected)


def test_step_solves_the_damped_normal_equations():
    factors, gradient = make_factors(2), make_factors(3)
    jacobian = dense_jacobian(factors)
    expected = np.linalg.solve(jacobian.T @ jacobian + 10 * np.eye(jacobian.shape[1]), flat(gradient))
    step = _solve(_stacked(factors), stacked_grams(factors), _stacked(gradient), 10.0, 1e-6)
    np.testing.assert_allclose(flat(unstacked(step, gradient)), expected, atol=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_converges_from_nearby_and_never_goes_up(seed):
    truth = make_factors(seed)
    noise = make_factors(seed + 100)
    start = tuple(a + 0.05 * b for a, b in zip(truth, noise, strict=True))
    target = compose(truth)
    residuals = [refine_cp(target, start, steps)[1] for steps in (0, 1, 3, 100)]
    assert residuals[0] == pytest.approx(np.linalg.norm(compose(start) - target) / np.linalg.norm(target))
    assert (np.diff(residuals) <= 0).all()
    assert residuals[-1] < 1e-6


def test_exact_start_takes_no_step():
    truth = make_factors(0)
    factors, residual, n_steps = refine_cp(compose(truth), truth, 50)
    assert n_steps == 0
    assert residual < 1e-14
    np.testing.assert_allclose(compose(factors), compose(truth))
    norms = [np.linalg.norm(factor, axis=0) for factor in factors]
    np.testing.assert_allclose(norms[0], norms[2])


def test_zero_component_stays_finite():
    factors = make_factors(0)
    factors[0][:, 1] = 0.0
    found, residual, _ = refine_cp(compose(make_factors(4)), factors, 5)
    assert np.isfinite(residual)
    assert all(np.isfinite(factor).all() for factor in found)
