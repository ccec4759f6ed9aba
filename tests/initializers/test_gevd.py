"""The algebra of one tensor: joint eigenvectors, square slices, least-squares steps, and the decomposition."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import tensorly as tl
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from tensorly.decomposition import parafac

from tensorly_smp.exceptions import AlgebraicStartError, InvalidInputError, InvalidTypeError, NearDegenerateWarning
from tensorly_smp.initializers.gevd import gevd_decomposition, gevd_parafac
from tensorly_smp.initializers.joint_diagonalization import (
    _off_diagonal,
    _similar,
    _solve,
    _stacked,
    decompose_core,
    joint_eigenvectors,
    refine_cp,
    relative_gap,
)


def compose(*factors, weights=1.0):
    return np.einsum("ir,jr,kr->ijk", factors[0] * weights, *factors[1:])


def decomposed(tensor, rank, *arguments, **options):
    weights, factors, diagnostics = gevd_decomposition(tensor, rank, *arguments, **options)
    return SimpleNamespace(weights=weights, factors=factors, diagnostics=diagnostics)


def random_factors(shape, rank, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((size, rank)) for size in shape]


def column_error(truth, found):
    """Largest distance of unit columns, components matched, signs aligned."""
    units = [(a / np.linalg.norm(a, axis=0), b / np.linalg.norm(b, axis=0)) for a, b in zip(truth, found, strict=True)]
    cosines = np.array([a.T @ b for a, b in units])
    rows, columns = linear_sum_assignment(-np.abs(cosines.prod(axis=0)))
    return max(
        np.abs(a[:, rows] - b[:, columns] * np.sign(cosine[rows, columns])).max()
        for (a, b), cosine in zip(units, cosines, strict=True)
    )


@settings(deadline=None, max_examples=60)
@given(st.tuples(*[st.integers(2, 30)] * 3), st.integers(0, 2), st.data())
def test_exact_tensors_are_recovered_to_rounding(shape, pencil_mode, data):
    limit = min(size for mode, size in enumerate(shape) if mode != pencil_mode)
    rank = data.draw(st.integers(1, limit))
    factors = random_factors(shape, rank, data.draw(st.integers(0, 2**16)))
    # The accuracy of the answer is bounded by the condition of the question.
    conditions = [np.linalg.cond(factor) for mode, factor in enumerate(factors) if mode != pencil_mode]
    assume(max(conditions) < 1e3)
    found = decomposed(compose(*factors), rank, pencil_mode, random_state=0)
    assume(found.diagnostics.eigenvalue_gap > 1e-4)
    assert column_error(factors, found.factors) < 1e-8
    assert not found.diagnostics.complex_pair


@pytest.mark.parametrize(("shape", "rank"), [((30, 30, 30), 30), ((30, 30, 2), 30), ((12, 20, 3), 12), ((2, 2, 2), 2)])
def test_as_many_components_as_rows(shape, rank):
    factors = random_factors(shape, rank)
    assert column_error(factors, gevd_parafac(compose(*factors), rank, random_state=0).factors) < 1e-8


def test_least_squares_under_noise_leave_parafac_nothing_to_do():
    rng = np.random.default_rng(3)
    tensor = compose(*random_factors((8, 8, 6), 4))
    noisy = tensor + 1e-2 * rng.standard_normal(tensor.shape)
    cp = gevd_parafac(noisy, 4, random_state=0)
    before = np.linalg.norm(noisy - cp.to_tensor()) / np.linalg.norm(noisy)
    _, errors = parafac(noisy, 4, init=cp.cp_copy(), n_iter_max=100, tol=1e-12, return_errors=True)
    # Only what the truncated compression left is to be gained.
    assert before - errors[-1] < 5e-3 * before


def test_convention_of_scale_sign_and_order_and_the_drop_after_the_rank():
    found = decomposed(compose(*random_factors((6, 5, 4), 4, seed=1)), 4, random_state=0)
    assert (np.diff(found.weights) <= 0).all()
    assert (found.weights > 0).all()
    for factor in found.factors:
        np.testing.assert_allclose(np.linalg.norm(factor, axis=0), 1.0)
    for factor in found.factors[:2]:
        assert (np.take_along_axis(factor, np.abs(factor).argmax(axis=0)[None], 0) > 0).all()
    for values in found.diagnostics.singular_values:
        assert values[4] < 1e-12 * values[0] < values[3]
    assert found.diagnostics.residual < 1e-13
    assert found.diagnostics.eigenvalue_gap > 0
    assert found.diagnostics.eigenvector_condition >= 1


@given(st.permutations(range(3)), st.integers(0, 100))
@settings(deadline=None, max_examples=20)
def test_order_of_modes_and_rows_changes_nothing_but_the_order(order, seed):
    rng = np.random.default_rng(seed)
    factors = random_factors((5, 6, 3), 4, seed)
    shuffled = [factor[rng.permutation(len(factor))] for factor in factors]
    tensor = compose(*shuffled).transpose(order)
    found = decomposed(tensor, 4, pencil_mode=order.index(2), random_state=0)
    assert column_error([shuffled[mode] for mode in order], found.factors) < 1e-8


def test_scale_of_the_data_does_not_matter_its_dtype_is_kept_and_the_same_seed_gives_the_same():
    factors = random_factors((5, 5, 4), 3)
    tensor = compose(*factors)
    for scale in (1e-200, 1e200):
        assert column_error(factors, decomposed(scale * tensor, 3, random_state=0).factors) < 1e-8
    cp = gevd_parafac(tl.tensor(tensor, dtype=tl.float32), 3, random_state=0)
    assert {array.dtype for array in (cp.weights, *cp.factors)} == {np.dtype("float32")}
    assert gevd_parafac(np.ones((2, 2, 2), dtype=int), 1).weights.dtype == np.float64
    noisy = tensor + 0.1 * np.random.default_rng(0).standard_normal(tensor.shape)
    copy = noisy.copy()
    first, second = (decomposed(noisy, 3, random_state=5) for _ in range(2))
    np.testing.assert_array_equal(first.weights, second.weights)
    np.testing.assert_array_equal(noisy, copy)


def test_columns_that_depend_on_each_other_are_named():
    first, second, third = random_factors((6, 6, 4), 4)
    equal = third[:, [0, 1, 2, 2]] * [1.0, 1.0, 1.0, 2.0]
    with pytest.raises(AlgebraicStartError, match="Eigenvalue gap"):
        gevd_parafac(compose(first, second, equal), 4, random_state=0)
    first[:, 3] = first[:, :3].sum(axis=1)
    with pytest.raises(AlgebraicStartError, match=r"Singular values: number 4 of mode 0"):
        gevd_parafac(compose(first, second, third), 4, random_state=0)
    with pytest.raises(AlgebraicStartError, match="single slice"):
        gevd_parafac(np.ones((3, 3, 1)), 2)
    with pytest.raises(AlgebraicStartError, match="Singular values"):
        decompose_core(random_core(3, 3), base=np.zeros(3))


def test_tensor_without_real_decomposition_is_named():
    # Identity and a quarter turn: the eigenvalues are +i and -i, and the real rank is three.
    slices = np.stack([np.eye(2), [[0.0, -1.0], [1.0, 0.0]]])
    with pytest.raises(AlgebraicStartError, match="Complex pair"):
        gevd_parafac(slices.transpose(1, 2, 0), 2, random_state=0)
    vectors, values = joint_eigenvectors(slices[1:], np.random.default_rng(0))
    assert np.iscomplex(values).all()
    factors, diagnostics = decompose_core(slices, keeps_complex=True, random_state=0)
    assert diagnostics.complex_pair
    assert all(np.isfinite(array).all() for array in (vectors, *factors))


def test_noise_that_makes_pairs_complex_is_mended():
    truth = random_factors((30, 30, 30), 30)
    tensor = compose(*truth)
    noise = np.random.default_rng(1).standard_normal(tensor.shape)
    noisy = tensor + noise * np.linalg.norm(tensor) / np.linalg.norm(noise) * 10**-1.5
    found = decomposed(noisy, 30, random_state=0)
    assert found.diagnostics.complex_pair
    assert column_error(truth, found.factors) < 0.05


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_degenerate_input_gives_an_error_or_finite_numbers(rank):
    for tensor in (np.zeros((3, 3, 3)), np.ones((3, 3, 3)), np.eye(3)[:, :, None] * np.ones(3)):
        try:
            found = decomposed(tensor, rank, random_state=0)
        except AlgebraicStartError:
            continue
        assert all(np.isfinite(array).all() for array in (found.weights, *found.factors))


@pytest.mark.parametrize(
    ("tensor", "options", "error", "message"),
    [
        (np.ones((2, 2)), {}, InvalidInputError, "three non-empty modes"),
        (np.ones((2, 2, 0)), {}, InvalidInputError, "three non-empty modes"),
        (np.full((2, 2, 2), np.nan), {}, InvalidInputError, "NaN or infinity"),
        (np.ones((2, 2, 2)) * 1j, {}, InvalidTypeError, "real numbers"),
        (np.ones((2, 2, 2)), {"rank": 3}, InvalidInputError, "expected 1 to 2"),
        (np.ones((2, 2, 2)), {"pencil_mode": 3}, InvalidInputError, "at most 2"),
        (np.ma.masked_less(np.arange(8.0).reshape(2, 2, 2), 1), {}, InvalidInputError, "masked"),
    ],
)
def test_bad_input(tensor, options, error, message):
    with pytest.raises(error, match=message):
        gevd_parafac(tensor, **{"rank": 2, **options})


def test_weights_beyond_the_range_are_refused():
    with pytest.raises(InvalidInputError, match="Weights exceed the largest float64"):
        gevd_parafac(np.ones((3, 3, 3)) * 1e308, 1)
    with pytest.raises(InvalidInputError, match="Weights exceed the largest float32"):
        gevd_parafac(np.full((3, 3, 3), 1e38, dtype=np.float32), 1)
    large = gevd_parafac(np.full((3, 3, 3), 1e307), 1)
    np.testing.assert_allclose(large[0], [np.sqrt(27) * 1e307])
    np.testing.assert_allclose(gevd_parafac(np.ma.ones((3, 3, 3)), 1)[0], [np.sqrt(27)])


def test_components_that_nearly_cancel_are_named():
    n_warned = 0
    for seed in range(8, 24):  # 20 ends with a complex pair
        tensor = np.random.default_rng(seed).standard_normal((3, 3, 3))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                cp = gevd_parafac(tensor, 3, random_state=0)
            except AlgebraicStartError:
                continue
        cosines = np.prod([factor.T @ factor for factor in cp.factors], axis=0)
        assert bool(caught) == (cosines.min() < -0.85)
        if caught:
            n_warned += 1
            first, second = sorted(np.unravel_index(cosines.argmin(), (3, 3)))
            assert caught[0].category is NearDegenerateWarning
            assert f"Components {first} and {second} nearly cancel" in str(caught[0].message)
            assert caught[0].filename == __file__
    assert n_warned > 2


# --- joint eigenvectors


def similar_slices(rng, n_slices, rank, noise=0.0):
    vectors = rng.standard_normal((rank, rank)) + 2 * np.eye(rank)
    values = rng.standard_normal((n_slices, rank))
    slices = np.einsum("ir,kr,rj->kij", vectors, values, np.linalg.inv(vectors))
    return slices + noise * rng.standard_normal(slices.shape), values


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 6), st.integers(1, 8), st.integers(0, 1000))
def test_exact_slices_become_diagonal(n_slices, rank, seed):
    slices, values = similar_slices(np.random.default_rng(seed), n_slices, rank)
    vectors, _ = joint_eigenvectors(slices, np.random.default_rng(0))
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=0), 1.0)
    rotated = np.linalg.solve(vectors, slices @ vectors)
    diagonals = np.einsum("kii->ki", rotated)
    assert np.linalg.norm(rotated - diagonals[:, None, :] * np.eye(rank)) < 1e-6 * np.linalg.norm(slices)
    np.testing.assert_allclose(np.sort(diagonals[0]), np.sort(values[0]), atol=1e-5)


def test_all_slices_together_leave_less_than_one_pencil():
    for seed in range(5):
        slices, _ = similar_slices(np.random.default_rng(seed), 8, 5, noise=0.02)
        left = [
            _off_diagonal(_similar(slices, joint_eigenvectors(slices, np.random.default_rng(0), n)[0]))
            for n in (0, 100)
        ]
        assert left[1] < 0.81 * left[0]  # of sums of squares


def test_relative_gap_by_hand():
    assert relative_gap(np.array([[3.0, 0.0], [0.0, 4.0]])) == pytest.approx(5 / 4)
    assert relative_gap(np.array([[1.0, 1.0]])) == 0
    assert relative_gap(np.array([[2.0]])) == 1
    assert relative_gap(np.zeros((2, 2))) == 0


# --- square slices


def random_core(n_slices, rank, seed=0):
    rng = np.random.default_rng(seed)
    left, right = rng.standard_normal((2, rank, rank))
    return np.einsum("ir,jr,kr->kij", left, right, rng.random((n_slices, rank)))


@pytest.mark.parametrize(("n_slices", "base"), [(2, False), (3, True), (40, True)])
def test_slices_are_reproduced(n_slices, base):
    slices = random_core(n_slices, 4)
    factors, diagnostics = decompose_core(slices, np.ones(n_slices) if base else None, random_state=0)
    assert factors[2].shape == (n_slices, 4)
    np.testing.assert_allclose(np.einsum("ir,jr,kr->kij", *factors), slices, atol=1e-10)
    assert diagnostics.residual < 1e-12


# --- least-squares steps


def slices_of(factors):
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
            columns.append(slices_of(changed).ravel())
    return np.stack(columns, axis=1)


def flat(parts):
    return np.concatenate([part.ravel() for part in parts])


def unstacked(stacked, like):
    for place, part in zip(stacked, like, strict=True):
        assert not place[len(part) :].any()
    return [place[: len(part)] for place, part in zip(stacked, like, strict=True)]


def stacked_grams(factors):
    return np.stack([factor.T @ factor for factor in factors])


def test_step_solves_the_damped_normal_equations():
    factors, gradient = make_factors(2), make_factors(3)
    jacobian = dense_jacobian(factors)
    expected = np.linalg.solve(jacobian.T @ jacobian + 10 * np.eye(jacobian.shape[1]), flat(gradient))
    step = _solve(_stacked(factors), stacked_grams(factors), _stacked(gradient), 10.0, 1e-6)
    np.testing.assert_allclose(flat(unstacked(step, gradient)), expected, atol=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_converges_from_nearby_and_never_goes_up(seed):
    truth = make_factors(seed)
    noise = make_factors(seed + 100)
    start = tuple(a + 0.05 * b for a, b in zip(truth, noise, strict=True))
    target = slices_of(truth)
    residuals = [refine_cp(target, start, steps)[1] for steps in (0, 1, 3, 100)]
    assert residuals[0] == pytest.approx(np.linalg.norm(slices_of(start) - target) / np.linalg.norm(target))
    assert (np.diff(residuals) <= 0).all()
    assert residuals[-1] < 1e-6


def test_exact_start_stays_with_columns_of_equal_norms_and_a_zero_component_stays_finite():
    truth = make_factors(0)
    factors, residual = refine_cp(slices_of(truth), truth, 50)
    assert residual < 1e-14
    np.testing.assert_allclose(slices_of(factors), slices_of(truth))
    norms = [np.linalg.norm(factor, axis=0) for factor in factors]
    np.testing.assert_allclose(norms[0], norms[2])
    truth[0][:, 1] = 0.0
    found, residual = refine_cp(slices_of(make_factors(4)), truth, 5)
    assert all(np.isfinite(part).all() for part in (residual, *found))
