import warnings

import numpy as np
import pytest
import tensorly as tl
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from tensorly.decomposition import parafac

from tensorly_smp.exceptions import AlgebraicStartError, InvalidInputError, InvalidTypeError, NearDegenerateWarning
from tensorly_smp.initializers.gevd import gevd_decomposition, gevd_parafac
from tensorly_smp.marginals.partition import default_partition


def compose(*factors, weights=1.0):
    return np.einsum("ir,jr,kr->ijk", factors[0] * weights, *factors[1:])


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
    found = gevd_decomposition(compose(*factors), rank, pencil_mode, random_state=0)
    assume(found.diagnostics.eigenvalue_gap > 1e-4)
    assert column_error(factors, found.factors) < 1e-8
    assert not found.diagnostics.complex_pair


@pytest.mark.parametrize(("shape", "rank"), [((30, 30, 30), 30), ((30, 30, 2), 30), ((12, 20, 3), 12), ((2, 2, 2), 2)])
def test_as_many_components_as_rows(shape, rank):
    factors = random_factors(shape, rank)
    assert column_error(factors, gevd_parafac(compose(*factors), rank, random_state=0).factors) < 1e-8


@pytest.mark.parametrize(("n_variables", "n_bins"), [(3, 4), (6, 3), (10, 4), (9, 8)])
def test_block_tensors_up_to_the_bound_and_not_beyond(n_variables, n_bins):
    partition = default_partition(n_variables)
    bound = min(partition.effective_sizes([n_bins] * n_variables)[:2])
    for rank, works in ((bound - 2, True), (bound, True), (bound + 1, False)):
        rng = np.random.default_rng(rank)
        columns = [rng.dirichlet(np.ones(n_bins), size=rank).T for _ in range(n_variables)]
        weights = 0.5 * rng.dirichlet(np.ones(rank)) + 0.5 / rank
        stacked = [np.concatenate([columns[n] for n in group]) for group in partition]
        tensor = compose(*stacked, weights=weights)
        if works:
            found = gevd_decomposition(tensor, rank, random_state=0)
            assert column_error(stacked, found.factors) < 1e-8
            totals = found.weights * np.prod([factor.sum(axis=0) for factor in found.factors], axis=0)
            sizes = np.prod([len(group) for group in partition])
            np.testing.assert_allclose(np.sort(totals / sizes), np.sort(weights), atol=1e-8)
        else:
            with pytest.raises((AlgebraicStartError, InvalidInputError), match=r"Singular values|rank is"):
                gevd_decomposition(tensor, rank, random_state=0)


def test_parafac_started_from_it_finds_nothing_better():
    tensor = compose(*random_factors((8, 7, 6), 5))
    cp = gevd_parafac(tensor, 5, random_state=0)
    before = np.linalg.norm(tensor - cp.to_tensor()) / np.linalg.norm(tensor)
    _, errors = parafac(tensor, 5, init=cp.cp_copy(), n_iter_max=10, return_errors=True)
    assert before < 1e-13
    assert min(errors) > before - 1e-13


def test_least_squares_under_noise_leave_parafac_nothing_to_do():
    rng = np.random.default_rng(3)
    tensor = compose(*random_factors((8, 8, 6), 4))
    noisy = tensor + 1e-2 * rng.standard_normal(tensor.shape)
    cp = gevd_parafac(noisy, 4, random_state=0)
    before = np.linalg.norm(noisy - cp.to_tensor()) / np.linalg.norm(noisy)
    _, errors = parafac(noisy, 4, init=cp.cp_copy(), n_iter_max=100, tol=1e-12, return_errors=True)
    # Only what the truncated compression left is to be gained.
    assert before - errors[-1] < 5e-3 * before


def test_convention_of_scale_sign_and_order():
    found = gevd_decomposition(compose(*random_factors((6, 5, 4), 4, seed=1)), 4, random_state=0)
    assert (np.diff(found.weights) <= 0).all()
    assert (found.weights > 0).all()
    for factor in found.factors:
        np.testing.assert_allclose(np.linalg.norm(factor, axis=0), 1.0)
    for factor in found.factors[:2]:
        assert (np.take_along_axis(factor, np.abs(factor).argmax(axis=0)[None], 0) > 0).all()


@given(st.permutations(range(3)), st.integers(0, 100))
@settings(deadline=None, max_examples=20)
def test_order_of_modes_and_rows_changes_nothing_but_the_order(order, seed):
    rng = np.random.default_rng(seed)
    factors = random_factors((5, 6, 3), 4, seed)
    shuffled = [factor[rng.permutation(len(factor))] for factor in factors]
    tensor = compose(*shuffled).transpose(order)
    found = gevd_decomposition(tensor, 4, pencil_mode=order.index(2), random_state=0)
    assert column_error([shuffled[mode] for mode in order], found.factors) < 1e-8


def test_nonnegative_truth_comes_back_nonnegative():
    factors = [np.abs(factor) for factor in random_factors((6, 6, 3), 4)]
    found = gevd_decomposition(compose(*factors), 4, random_state=0)
    assert min(factor.min() for factor in found.factors) > -1e-10


def test_same_seed_same_result_and_input_untouched():
    tensor = compose(*random_factors((5, 5, 4), 3))
    noisy = tensor + 0.1 * np.random.default_rng(0).standard_normal(tensor.shape)
    copy = noisy.copy()
    first, second = (gevd_decomposition(noisy, 3, random_state=5) for _ in range(2))
    np.testing.assert_array_equal(first.weights, second.weights)
    np.testing.assert_array_equal(noisy, copy)


def test_scale_of_the_data_does_not_matter():
    factors = random_factors((5, 5, 4), 3)
    for scale in (1e-200, 1e200):
        found = gevd_decomposition(scale * compose(*factors), 3, random_state=0)
        assert column_error(factors, found.factors) < 1e-8


def test_dtype_of_the_input_is_kept():
    tensor = compose(*random_factors((5, 5, 4), 3))
    cp = gevd_parafac(tl.tensor(tensor, dtype=tl.float32), 3, random_state=0)
    assert {array.dtype for array in (cp.weights, *cp.factors)} == {np.dtype("float32")}
    assert gevd_parafac(np.ones((2, 2, 2), dtype=int), 1).weights.dtype == np.float64


def test_rank_one():
    factors = random_factors((4, 3, 1), 1)
    assert column_error(factors, gevd_parafac(compose(*factors), 1).factors) < 1e-12


def test_diagnostics_show_the_drop_after_the_rank():
    factors = random_factors((6, 7, 4), 3)
    diagnostics = gevd_decomposition(compose(*factors), 3, random_state=0).diagnostics
    for values in diagnostics.singular_values:
        assert values[3] < 1e-12 * values[0] < values[2]
    assert diagnostics.residual < 1e-13
    assert diagnostics.eigenvalue_gap > 0
    assert diagnostics.eigenvector_condition >= 1


def test_too_few_independent_columns_are_named():
    first, second, third = random_factors((6, 6, 4), 4)
    first[:, 3] = first[:, :3].sum(axis=1)
    with pytest.raises(AlgebraicStartError, match=r"Singular values: number 4 of mode 0"):
        gevd_parafac(compose(first, second, third), 4, random_state=0)


def test_equal_columns_in_the_pencil_mode_are_named():
    first, second, third = random_factors((6, 6, 4), 4)
    third[:, 3] = 2 * third[:, 2]
    with pytest.raises(AlgebraicStartError, match="Eigenvalue gap"):
        gevd_parafac(compose(first, second, third), 4, random_state=0)
    with pytest.raises(AlgebraicStartError, match="single slice"):
        gevd_parafac(np.ones((3, 3, 1)), 2)


def rotation_tensor():
    """Identity and a quarter turn: the eigenvalues are +i and -i, and the real rank is three."""
    return np.stack([np.eye(2), [[0.0, -1.0], [1.0, 0.0]]], axis=2)


def test_tensor_without_real_decomposition_is_named():
    for choice in ("refine", "raise"):
        with pytest.raises(AlgebraicStartError, match="Complex pair"):
            gevd_parafac(rotation_tensor(), 2, complex_pairs=choice, random_state=0)
    found = gevd_decomposition(rotation_tensor(), 2, complex_pairs="keep", random_state=0)
    assert found.diagnostics.complex_pair
    assert all(np.isfinite(factor).all() for factor in found.factors)


def test_noise_that_makes_pairs_complex_is_mended():
    truth = random_factors((30, 30, 30), 30)
    tensor = compose(*truth)
    noise = np.random.default_rng(1).standard_normal(tensor.shape)
    noisy = tensor + noise * np.linalg.norm(tensor) / np.linalg.norm(noise) * 10**-1.5
    found = gevd_decomposition(noisy, 30, random_state=0)
    assert found.diagnostics.complex_pair
    assert column_error(truth, found.factors) < 0.05


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_degenerate_input_gives_an_error_or_finite_numbers(rank):
    for tensor in (np.zeros((3, 3, 3)), np.ones((3, 3, 3)), np.eye(3)[:, :, None] * np.ones(3)):
        try:
            found = gevd_decomposition(tensor, rank, random_state=0)
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
        (np.ones((2, 2, 2)), {"rank": 0}, InvalidInputError, "expected 1 to 2"),
        (np.ones((2, 2, 2)), {"rank": 1.0}, InvalidTypeError, "integer"),
        (np.ones((2, 2, 2)), {"pencil_mode": 3}, InvalidInputError, "0, 1 or 2"),
        (compose(*random_factors((2, 2, 2), 2)), {"complex_pairs": "drop"}, InvalidInputError, "complex_pairs"),
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


def test_masked_entries_are_refused():
    tensor = np.ma.ones((3, 3, 3))
    np.testing.assert_allclose(gevd_parafac(tensor, 1)[0], [np.sqrt(27)])
    tensor[0, 0, 0] = np.ma.masked
    with pytest.raises(InvalidInputError, match="masked"):
        gevd_parafac(tensor, 1)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"n_pencils": 1.5}, InvalidTypeError),
        ({"n_pencils": None}, InvalidTypeError),
        ({"n_pencils": 0}, InvalidInputError),
        ({"n_refinements_max": "a"}, InvalidTypeError),
        ({"n_refinements_max": -1}, InvalidInputError),
        ({"pencil_mode": np.array([0, 1])}, InvalidTypeError),
        ({"pencil_mode": 1.0}, InvalidTypeError),
    ],
)
def test_options_of_another_kind(options, error):
    with pytest.raises(error, match=next(iter(options))):
        gevd_parafac(np.ones((3, 3, 3)), 1, **options)


def test_components_that_nearly_cancel_are_named():
    n_warned = 0
    for seed in range(40):
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
    assert n_warned > 5


def test_nothing_is_said_of_tensors_that_have_the_rank():
    for seed in range(10):
        gevd_parafac(compose(*random_factors((4, 4, 3), 3, seed)), 3, random_state=0)
