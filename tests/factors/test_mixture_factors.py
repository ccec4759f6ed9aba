"""Checks, conversions, exact marginals and posteriors of the shared parameters."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import model_tensor
from rooms import assert_same, random_model
from tensorly.cp_tensor import CPTensor, cp_to_tensor

from tensorly_smp.codes.binning import Binning
from tensorly_smp.codes.encoding import Codes
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.factors.mixture_factors import MixtureFactors

N_BINS = (3, 2, 4)
SEEDS = st.integers(0, 2**31)


def test_sizes_and_repr():
    factors = random_model(N_BINS, 7, names="abc")
    assert (factors.rank, factors.n_variables, factors.n_bins) == (7, 3, N_BINS)
    assert factors.binning.n_bins == N_BINS
    assert isinstance(factors.factors, tuple)
    assert repr(factors).startswith("MixtureFactors(rank 7, 3 variables, 2 to 4 bins, weights 0.")
    assert repr(factors).endswith(" ...)")
    with pytest.raises(InvalidInputError, match="binning with"):
        MixtureFactors(factors.weights, factors.factors, Binning.from_n_bins((3, 2, 5)))
    with pytest.raises(InvalidInputError, match="bins and factors with"):
        factors.posterior(Codes.from_array(np.zeros((2, 3), dtype=int), n_bins=2))


@pytest.mark.parametrize(
    ("weights", "factors", "error", "message"),
    [
        ([0.5, 0.4], [np.eye(2)], InvalidInputError, "weights have columns that do not sum to one"),
        ([1.5, -0.5], [np.eye(2)], InvalidInputError, "weights have entries that are negative"),
        ([np.nan, 1.0], [np.eye(2)], InvalidInputError, "not finite"),
        ([0.5, 0.5], [np.eye(2), 2 * np.eye(2)], InvalidInputError, "Factor 1 has columns"),
        ([0.5, 0.5], [np.eye(2), np.full((2, 2), np.inf)], InvalidInputError, "Factor 1 .* not finite"),
        ([0.5, 0.5], [np.eye(3)], InvalidInputError, r"expected \(rank,\)"),
        ([0.5, 0.5], [np.ones(2) / 2], InvalidInputError, r"expected \(rank,\)"),
        ([1.0], [], InvalidInputError, r"expected \(rank,\)"),
        ([1.0], [np.zeros((0, 1))], InvalidInputError, "sum to one"),
        (["a", "b"], [np.eye(2)], InvalidTypeError, "arrays of numbers"),
        (None, None, InvalidTypeError, "arrays of numbers"),
    ],
)
def test_bad_parameters(weights, factors, error, message):
    with pytest.raises(error, match=message):
        MixtureFactors(weights, factors)


def test_to_numpy_is_exact_and_free_where_it_can_be():
    factors = random_model(N_BINS, 3)
    assert factors.to_numpy() is factors
    single = MixtureFactors(factors.weights.astype(np.float32), [a.astype(np.float32) for a in factors.factors])
    off_by_rounding = MixtureFactors(factors.weights * (1 + 5e-5), [a * (1 - 5e-5) for a in factors.factors])
    for converted in (single.to_numpy(), off_by_rounding.to_numpy()):
        for a in (converted.weights, *converted.factors):
            assert a.dtype == np.float64
            np.testing.assert_allclose(a.sum(axis=0), 1.0, rtol=1e-14)
        assert_same(converted, factors, rtol=1e-6)


@given(SEEDS)
def test_cp_tensor_there_and_back(seed):
    factors = random_model(N_BINS, 3, seed)
    cp = factors.to_cp_tensor()
    assert isinstance(cp, CPTensor)
    np.testing.assert_allclose(cp_to_tensor(cp), model_tensor(factors.weights, *factors.factors), atol=1e-15)
    assert_same(MixtureFactors.from_cp_tensor(cp), factors, rtol=1e-12)


@given(SEEDS, st.booleans())
def test_scale_of_a_cp_tensor_goes_into_the_weights(seed, has_weights):
    rng = np.random.default_rng(seed)
    raw = [rng.random((size, 2)) + 0.01 for size in N_BINS]
    weights = rng.random(2) + 0.01 if has_weights else None
    before = [a.copy() for a in raw]
    factors = MixtureFactors.from_cp_tensor((weights, raw))
    assert all((a == b).all() for a, b in zip(raw, before, strict=True))
    tensor = cp_to_tensor((weights, raw))
    np.testing.assert_allclose(model_tensor(factors.weights, *factors.factors), tensor / tensor.sum(), rtol=1e-9)


@pytest.mark.parametrize(
    ("cp_tensor", "error", "message"),
    [
        (3, InvalidTypeError, "int is not a CP tensor"),
        ((None, []), InvalidInputError, "expected matrices"),
        ((None, [np.ones((3, 2)), np.ones((3, 1))]), InvalidInputError, "expected matrices"),
        ((None, [np.full((3, 2), "a")]), InvalidTypeError, "of numbers"),
        ((np.ones(3), [np.ones((3, 2))] * 3), InvalidInputError, "expected 2 of them"),
        ((np.zeros(2), [np.ones((3, 2))] * 3), InvalidInputError, "not all zero"),
        ((None, [np.ones((3, 2)), -np.ones((3, 2))]), InvalidInputError, "the signs of the columns, are"),
    ],
)
def test_bad_cp_tensors(cp_tensor, error, message):
    with pytest.raises(error, match=message):
        MixtureFactors.from_cp_tensor(cp_tensor)


@given(SEEDS, st.permutations(range(3)))
def test_permuting_components_changes_no_probability(seed, order):
    factors = random_model(N_BINS, 3, seed)
    permuted = factors.permute(order)
    assert (permuted.weights == factors.weights[order]).all()
    for a, b in zip(permuted.to_marginals().counts, factors.to_marginals().counts, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-15)


@pytest.mark.parametrize("order", [[0, 0, 1], [0, 1], [0, 1, 3], "abc", [0.0, 1.0, 2.0]])
def test_bad_orders(order):
    with pytest.raises(InvalidInputError, match="permutation of 0 to 2"):
        random_model(N_BINS, 3).permute(order)


def test_smooth_mixes_with_the_uniform_column():
    factors = MixtureFactors([1.0], [[[1.0], [0.0]]] * 3)
    assert factors.smooth(0.5).factors[0].ravel().tolist() == [0.75, 0.25]
    assert_same(factors.smooth(0), factors)
    assert (factors.smooth().factors[0] > 0).all()
    mixed = factors.smooth(0, 0.5)
    np.testing.assert_allclose(mixed.weights, 0.5 * np.asarray(factors.weights) + 0.5 / factors.rank)
    assert_same(factors.smooth(0.5, 0).permute(range(factors.rank)), factors.smooth(0.5))
    for share in (-0.1, 1.1, np.nan, "a", None):
        with pytest.raises((InvalidInputError, InvalidTypeError), match="share"):
            factors.smooth(share)


@given(SEEDS)
def test_exact_marginals_are_those_of_a_loop(seed):
    factors = random_model((3, 2, 4, 2), 3, seed)
    marginals = factors.to_marginals()
    assert marginals.totals.tolist() == [1.0] * 4
    assert marginals.n_bins == factors.n_bins
    for position, triple in enumerate(marginals.triples):
        expected = model_tensor(factors.weights, *(factors.factors[n] for n in triple))
        np.testing.assert_allclose(marginals.histogram(position), expected, atol=1e-15)
    assert factors.to_marginals(triples=[(0, 1, 2), (1, 2, 3)]).n_triples == 2


@given(SEEDS)
def test_log_joint_and_posterior_are_those_of_a_loop(seed):
    rng = np.random.default_rng(seed)
    factors = random_model(N_BINS, 3, seed)
    values = np.column_stack([rng.integers(-1, size, 10) for size in N_BINS])
    codes = Codes.from_array(values, n_bins=N_BINS)
    expected = np.tile(factors.weights, (10, 1))
    for m, row in enumerate(values):
        for n, code in enumerate(row):
            if code >= 0:
                expected[m] *= factors.factors[n][code]
    np.testing.assert_allclose(np.exp(factors.log_joint(codes)), expected, rtol=1e-9)
    np.testing.assert_allclose(
        factors.posterior(codes), expected / expected.sum(axis=1, keepdims=True), rtol=1e-9, atol=1e-12
    )


def test_impossible_sample_empty_component_and_many_variables():
    factors = MixtureFactors([0.3, 0.7, 0.0], [[[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]] * 3)
    posterior = factors.posterior(Codes.from_array([[0, 1, 0], [0, 0, 0], [-1, -1, -1]], n_bins=2))
    np.testing.assert_allclose(posterior, [[0.3, 0.7, 0.0], [1.0, 0.0, 0.0], [0.3, 0.7, 0.0]], atol=1e-12)
    many = MixtureFactors([0.5, 0.5], [[[0.1, 0.2], [0.9, 0.8]]] * 2000)  # the product would underflow
    codes = Codes.from_array(np.random.default_rng(0).integers(0, 2, (4, 2000)), n_bins=2)
    np.testing.assert_allclose(many.posterior(codes).sum(axis=1), 1.0)


@pytest.mark.parametrize("scale", [1e-200, 1e308])
def test_scales_whose_product_leaves_the_range_of_floats(scale):
    rng = np.random.default_rng(0)
    raw = [rng.random((size, 2)) + 0.1 for size in (4, 3, 5, 2)]
    plain = MixtureFactors.from_cp_tensor((np.array([0.25, 0.75]), raw))
    scaled = MixtureFactors.from_cp_tensor((np.array([0.25, 0.75]), [a * scale for a in raw]))
    assert_same(scaled, plain, rtol=1e-9)
    heavy = MixtureFactors.from_cp_tensor((np.full(2, 1e308), raw))
    assert_same(heavy, MixtureFactors.from_cp_tensor((None, raw)), rtol=1e-9)
    one_empty = MixtureFactors.from_cp_tensor((np.array([0.0, 1e308]), raw))
    np.testing.assert_array_equal(one_empty.weights, [0.0, 1.0])


def test_labelled_cp_tensor():
    edges = [[0.0, 1.0, 4.0], [-1.0, 0.0, 1.0, 2.0]]
    rng = np.random.default_rng(0)
    arrays = [rng.dirichlet(np.ones(n), 2).T for n in (2, 3)]
    weights, frames = MixtureFactors([0.25, 0.75], arrays, Binning(edges, ("age", 7))).to_labelled_cp_tensor()
    np.testing.assert_array_equal(weights, [0.25, 0.75])
    assert [frame.index.tolist() for frame in frames] == [[0.5, 2.5], [-0.5, 0.5, 1.5]]
    assert [frame.index.name for frame in frames] == ["age", 7]
    for frame, array in zip(frames, arrays, strict=True):
        np.testing.assert_array_equal(frame.to_numpy(), array)
        assert frame.columns.tolist() == [0, 1]
    bare = MixtureFactors([0.25, 0.75], arrays).to_labelled_cp_tensor()[1]
    assert [frame.index.tolist() for frame in bare] == [[0, 1], [0, 1, 2]]
    assert [frame.index.name for frame in bare] == ["x0", "x1"]
