"""The algebraic start for all variables: exact on exact histograms, alike from every source, good on samples."""

import warnings
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rooms import arrays, assert_same, random_model

import tensorly_smp as smp
from tensorly_smp.codes.binning import Binning, choose_binning
from tensorly_smp.codes.encoding import Codes, encode_samples
from tensorly_smp.datasets import make_smooth_mixture
from tensorly_smp.decomposition.problem import random_start
from tensorly_smp.exceptions import AlgebraicStartError, ConstantVariableWarning, InvalidInputError, InvalidTypeError
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.identifiability.bounds import max_identifiable_rank
from tensorly_smp.initializers import coupled_gevd
from tensorly_smp.initializers.coupled_gevd import (
    N_SHUFFLES,
    GevdStart,
    gevd_start,
    n_above_noise,
    pair_singular_values,
    start_partition,
)
from tensorly_smp.marginals.block_tensor import default_partition
from tensorly_smp.marginals.histograms import count_marginals, univariate_marginals
from tensorly_smp.metrics import clustering_accuracy, match_components

UNEQUAL = (3, 5, 4, 2, 6)


def largest_error(found, truth):
    """Largest difference of a weight or factor entry, components matched."""
    found = found.permute(match_components(found, truth))
    return max(float(np.abs(a - b).max()) for a, b in zip(arrays(found), arrays(truth), strict=True))


def make_data(n_samples=2000, n_variables=6, rank=3, n_bins=10, missing=0.0, case="gaussian"):
    """Codes of samples and their labels."""
    data = make_smooth_mixture(case, n_samples, n_variables, rank, random_state=0)
    X = np.where(np.random.default_rng(1).random(data.X.shape) < missing, np.nan, data.X)
    return encode_samples(X, choose_binning(X, n_bins)), data.labels


def accuracy(start, codes, labels):
    return clustering_accuracy(labels, start.posterior(codes).argmax(axis=1))


def assert_valid(start, data, rank):
    assert isinstance(start, GevdStart)
    assert (start.rank, start.n_bins) == (rank, data.n_bins)
    assert start.binning is data.binning
    for a in (start.weights, *start.factors):
        assert np.isfinite(a).all()
        assert (a >= 0).all()
        np.testing.assert_allclose(a.sum(axis=0), 1.0, rtol=1e-9)


# --- exact histograms: every rank up to the bound, and not one more


@pytest.mark.parametrize(
    ("n_variables", "n_bins"), [(3, 3), (3, 8), (4, 4), (5, 3), (6, 8), (7, 3), (8, 4), (9, 3), (10, 4)]
)
def test_exact_histograms_give_the_truth_back_up_to_the_bound(n_variables, n_bins):
    sizes = (n_bins,) * n_variables
    bound = max_identifiable_rank(n_variables, n_bins)
    for rank in sorted({1, (bound + 1) // 2, max(1, bound - 2), bound}):
        truth = random_model(sizes, rank)
        start = gevd_start(truth.to_marginals(), rank, random_state=0)
        assert largest_error(start, truth) < (1e-8 if rank <= bound - 2 else 1e-5), f"rank {rank} of {bound}"
    with pytest.raises(AlgebraicStartError, match=f"{bound + 1} components; .* allow at most {bound}"):
        gevd_start(random_model(sizes, bound + 1).to_marginals(), bound + 1, random_state=0)


@given(st.lists(st.integers(2, 6), min_size=3, max_size=6), st.data())
def test_unequal_bins_and_any_partition(n_bins, data):
    order = data.draw(st.permutations(range(len(n_bins))))
    first = data.draw(st.integers(1, len(n_bins) - 2))
    second = data.draw(st.integers(first + 1, len(n_bins) - 1))
    partition = (order[:first], order[first:second], order[second:])
    bound = max_identifiable_rank(len(n_bins), n_bins, "gevd", partition)
    rank = data.draw(st.integers(1, max(1, bound - 2)))
    truth = random_model(n_bins, rank)
    start = gevd_start(truth.to_marginals(), rank, partition, random_state=0)
    assert largest_error(start, truth) < 1e-7
    assert start.partition.sets == tuple(map(tuple, partition))
    assert start.start_bins == tuple(n_bins)


def test_only_the_blocks_of_the_partition_are_needed():
    truth = random_model(UNEQUAL, 3)
    partition = ((4, 1), (0, 2), (3,))
    blocks = [sorted((j, k, 3)) for j in partition[0] for k in partition[1]]
    for options in ({"partition": partition}, {}):  # which is found
        found = gevd_start(truth.to_marginals(blocks), 3, random_state=0, **options)
        assert largest_error(found, truth) < 1e-8
        assert set(map(frozenset, found.partition)) == set(map(frozenset, partition))
    with pytest.raises(InvalidInputError, match="have not been counted"):
        gevd_start(truth.to_marginals(blocks[1:]), 3, partition, random_state=0)


def test_rank_one_is_the_product_of_the_overall_histograms():
    codes, _ = make_data()
    shares = [np.bincount(c, minlength=10) / len(c) for c in codes.values.T]
    for data in (codes, count_marginals(codes)):
        start = gevd_start(data, 1, random_state=0)
        assert start.weights.tolist() == [1.0]
        for a, share in zip(start.factors, shares, strict=True):
            np.testing.assert_allclose(a[:, 0], share, atol=1e-5)


def test_components_alike_in_the_pencil_and_a_rank_above_that_of_the_data_are_named():
    truth = random_model((4,) * 5, 3)
    truth = MixtureFactors(truth.weights, [*truth.factors[:4], truth.factors[4][:, [0, 0, 2]]])
    marginals = truth.to_marginals()
    with pytest.raises(AlgebraicStartError, match="Eigenvalue gap"):
        gevd_start(marginals, 3, ((0, 1), (2, 3), (4,)), random_state=0)
    # With another variable as pencil it is no difficulty.
    assert largest_error(gevd_start(marginals, 3, ((4, 1), (2, 3), (0,)), random_state=0), truth) < 1e-8
    with pytest.raises(AlgebraicStartError, match="Singular values: number 4 of the pair block"):
        gevd_start(marginals, 4, random_state=0)


# --- symmetries


@given(st.permutations(range(4)), st.permutations(range(5)), st.integers(0, 2**16))
def test_order_of_components_variables_and_bins_does_not_matter(components, variables, seed):
    truth = random_model(UNEQUAL, 4).permute(components)
    rng = np.random.default_rng(seed)
    bins = [rng.permutation(size) for size in UNEQUAL]
    shuffled = MixtureFactors(truth.weights, [truth.factors[n][bins[n]] for n in variables])
    partition = ((0, 4), (1, 2), (3,))
    renumbered = tuple(tuple(variables.index(n) for n in group) for group in partition)
    plain = gevd_start(truth.to_marginals(), 4, partition, random_state=0)
    start = gevd_start(shuffled.to_marginals(), 4, renumbered, random_state=0)
    expected = MixtureFactors(plain.weights, [plain.factors[n][bins[n]] for n in variables])
    assert largest_error(start, expected) < 1e-8


# --- codes and histograms, dense and matrix-free


@pytest.mark.parametrize(("case", "n_bins"), [("gaussian", 3), ("laplace", None)])
def test_codes_and_their_histograms_give_the_same_start(case, n_bins):
    codes, _ = make_data(case=case)
    from_codes = gevd_start(codes, 3, n_bins=n_bins, random_state=0)
    from_counts = gevd_start(count_marginals(codes), 3, n_bins=n_bins, random_state=0)
    assert from_codes.partition == from_counts.partition
    assert from_codes.start_bins == from_counts.start_bins
    assert largest_error(from_codes, from_counts) < 1e-8
    for one, other in zip(from_codes.diagnostics.singular_values, from_counts.diagnostics.singular_values, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_without_matrices_it_is_the_same(monkeypatch, missing):
    codes, _ = make_data(missing=missing)
    dense = gevd_start(codes, 3, random_state=0)
    monkeypatch.setattr(coupled_gevd, "DENSE_PAIR", 2)
    free = gevd_start(codes, 3, random_state=0)
    assert_valid(free, codes, 3)
    assert largest_error(free, dense) < 1e-8
    n_values = len(free.diagnostics.singular_values[0])
    assert 3 <= n_values < len(dense.diagnostics.singular_values[0])
    np.testing.assert_allclose(
        free.diagnostics.singular_values[0], dense.diagnostics.singular_values[0][:n_values], atol=1e-12
    )


@pytest.mark.parametrize("n_first", [1, 2])
def test_without_matrices_a_small_set_is_no_difficulty(monkeypatch, n_first):
    # As many components as the first set has rows: more singular vectors than an iterative method can find.
    codes, _ = make_data(n_samples=3000, n_bins=4)
    partition = (range(n_first), range(n_first, 5), (5,))
    rank = n_first * 3 + 1
    dense = gevd_start(codes, rank, partition, n_bins=4, random_state=0)
    monkeypatch.setattr(coupled_gevd, "DENSE_PAIR", 2)
    free = gevd_start(codes, rank, partition, n_bins=4, random_state=0)
    np.testing.assert_allclose(
        free.diagnostics.singular_values[0][:rank], dense.diagnostics.singular_values[0][:rank], atol=1e-12
    )


def test_without_matrices_a_deficient_rank_is_still_seen(monkeypatch):
    monkeypatch.setattr(coupled_gevd, "DENSE_PAIR", 2)
    values = np.repeat(np.random.default_rng(0).integers(0, 2, (200, 1)), 6, axis=1)
    values[:, 3:] = 0
    with pytest.raises(AlgebraicStartError, match=r"Singular values|linear algebra"):
        gevd_start(Codes.from_array(values, n_bins=4), 3, ((0, 3), (1, 4), (2, 5)), random_state=0)


@pytest.mark.parametrize("source", [lambda codes: codes, count_marginals], ids=["codes", "histograms"])
def test_incomplete_samples(source):
    codes, labels = make_data(n_samples=4000, missing=0.3)
    start = gevd_start(source(codes), 3, random_state=0)
    assert_valid(start, codes, 3)
    complete, _ = make_data(n_samples=4000)
    assert accuracy(start, complete, labels) > 0.9


@pytest.mark.parametrize(("options", "missing", "dense"), [({}, 0.0, 600), ({}, 0.2, 0), ({"n_bins": 8}, 0.2, 600)])
def test_integer_weights_are_repeated_samples(options, missing, dense, monkeypatch):
    monkeypatch.setattr(coupled_gevd, "DENSE_PAIR", dense)
    codes, _ = make_data(missing=missing)
    weights = np.random.default_rng(0).integers(0, 3, codes.n_samples)
    repeated = gevd_start(Codes(np.repeat(codes.values, weights, axis=0), codes.binning), 3, random_state=0, **options)
    # By any factor the same; the largest sums would overflow.
    for scale in (1.0, 0.3, 1e304):
        weighted = gevd_start(codes, 3, sample_weight=scale * weights, random_state=0, **options)
        assert weighted.partition == repeated.partition
        assert largest_error(weighted, repeated) < 1e-10
    unweighted = gevd_start(codes, 3, random_state=0, **options)
    assert largest_error(unweighted, repeated) > 1e-3


# --- samples


@pytest.mark.parametrize("source", [lambda codes: codes, count_marginals], ids=["codes", "histograms"])
def test_labels_are_clearly_better_than_those_of_a_random_start(source):
    codes, labels = make_data(n_samples=5000, n_variables=10, rank=5, n_bins=15)
    starts = [gevd_start(source(codes), 5, random_state=seed) for seed in range(3)]
    chance = [random_start(codes.n_bins, 5, np.random.default_rng(seed)) for seed in range(3)]
    assert min(accuracy(start, codes, labels) for start in starts) > 0.97
    assert max(accuracy(start, codes, labels) for start in chance) < 0.7


def test_start_has_no_zeros_and_no_empty_component():
    # The multiplicative updates could never leave them.
    codes, _ = make_data(n_samples=300, rank=2, n_bins=15, case="laplace")
    start = gevd_start(codes, 6, random_state=0)
    assert_valid(start, codes, 6)
    assert start.weights.min() > 1e-3
    assert all((a > 0).all() for a in start.factors)


def test_same_seed_same_bits_whatever_the_order_of_samples():
    codes, _ = make_data()
    one, two, other = (gevd_start(codes, 3, random_state=seed) for seed in (0, 0, 1))
    shuffled = Codes(codes.values[np.random.default_rng(0).permutation(codes.n_samples)], codes.binning)
    assert largest_error(gevd_start(shuffled, 3, random_state=0), one) < 1e-8
    assert one.partition == two.partition != other.partition
    assert_same(one, two)


@given(st.integers(3, 40), st.integers(0, 3), st.integers(2, 10), st.integers(1, 30), st.integers(0, 3))
def test_random_partition_covers_all_and_leaves_room_for_the_rank(n_variables, n_single, n_bins, rank, seed):
    sizes = np.random.default_rng(seed).permutation([n_bins] * n_variables + [1] * n_single).tolist()
    partition = start_partition(sizes, rank, seed)
    assert partition == start_partition(sizes, rank, seed)
    assert sorted(sum(partition, ())) == list(range(n_variables + n_single))
    assert 0 <= len(partition.second) - len(partition.first) <= 1
    # The pencil takes no variable that the rank needs elsewhere, and a single bin is in no other set nor alone.
    smallest = min(partition.effective_sizes(sizes)[:2])
    assert smallest >= min(rank, min(default_partition(n_variables).effective_sizes([n_bins] * n_variables)[:2]))
    assert all(sizes[n] > 1 for n in (*partition.first, *partition.second, partition.third[0]))


@pytest.mark.parametrize("constant", range(4))
def test_a_constant_variable_is_not_alone_in_a_set(constant):
    sizes = [4] * 4
    sizes[constant] = 1
    truth = random_model(sizes, 3)
    assert largest_error(gevd_start(truth.to_marginals(), 3, random_state=0), truth) < 1e-8
    codes, labels = make_data(n_variables=3, rank=2, n_bins=6)
    codes = Codes(np.insert(codes.values, constant, 0, axis=1), Binning.from_n_bins([6] * 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantVariableWarning)
        sources = codes, count_marginals(codes)
    for data in sources:
        assert min(accuracy(gevd_start(data, 2, random_state=seed), codes, labels) for seed in range(5)) > 0.9


@pytest.mark.parametrize("rank", [1, 3])
def test_factors_of_variables_in_no_block_follow_by_least_squares(rank):
    modes = [(0, 1, 2), (1, 2, 3), (2, 3, 4), (0, 3, 4)]
    truth = random_model((4, 5, 6, 5, 4), rank)
    marginals = truth.to_marginals(modes)
    for options in ({}, {"partition": ((0,), (1,), (2,))}):
        assert largest_error(gevd_start(marginals, rank, random_state=0, **options), truth) < 1e-8
    assert largest_error(gevd_start(list(marginals.counts), rank, modes=modes, random_state=0), truth) < 1e-8
    # A block tensor is of the variables whose blocks there are.
    block = smp.block_tensor(marginals)
    assert len(set(block.coords["first_variable"].values)) == 2
    with pytest.raises(InvalidInputError, match=r"leaves variables \[3, 4, 5\] out, and no histogram has"):
        gevd_start(random_model((4,) * 6, 2).to_marginals([(0, 1, 2), (3, 4, 5)]), 2, random_state=0)


# --- merging of bins


@st.composite
def shares(draw):
    counts = draw(st.lists(st.integers(0, 50), min_size=2, max_size=20).filter(any))
    counts[draw(st.integers(0, len(counts) - 1))] *= draw(st.sampled_from([1, 1, 100]))
    return np.array(counts) / sum(counts) if sum(counts) else np.full(len(counts), 1 / len(counts))


@given(shares(), st.integers(2, 12), st.integers(0, 100))
def test_merged_bins_are_neighbors_nearly_as_many_as_asked_and_keep_their_sums_when_spread(share, n_bins, seed):
    group = coupled_gevd.coarse_bins(share, n_bins)
    assert group.shape == share.shape
    assert set(np.diff(group)) <= {0, 1}
    assert group[0] == 0
    n_filled = np.count_nonzero(share)
    assert min(2, n_filled) <= group.max() + 1 <= max(2, min(n_bins, n_filled))
    column = np.random.default_rng(seed).dirichlet(np.ones(group.max() + 1), 3).T
    spread = coupled_gevd.refine(column, share, group)
    assert (spread > 0).all()
    np.testing.assert_allclose(spread.sum(axis=0), 1.0, rtol=1e-12)
    for r in range(3):
        np.testing.assert_allclose(np.bincount(group, spread[:, r]), column[:, r], rtol=1e-12)
    # The overall histogram, merged and spread, is itself.
    again = coupled_gevd.refine(np.bincount(group, share)[:, None], share, group)[:, 0]
    np.testing.assert_allclose(again, share, atol=1e-4)


def test_merged_bins_by_hand():
    assert coupled_gevd.coarse_bins(np.array([0.0, 1.0, 0.0]), 2).tolist() == [0, 0, 0]
    assert coupled_gevd.coarse_bins(np.full(12, 1 / 12), 4).tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert coupled_gevd.coarse_bins(np.full(5, 0.2), 8).tolist() == [0, 1, 2, 3, 4]
    for position in (0, 3, 7):  # one full bin does not use the others up
        share = np.full(8, 0.1 / 7)
        share[position] = 0.9
        assert coupled_gevd.coarse_bins(share, 6).max() + 1 >= 5


def test_merged_histograms_are_sums_over_runs_of_bins():
    rng = np.random.default_rng(0)
    codes = Codes.from_array(rng.integers(0, [5, 7, 4, 3], (200, 4)), n_bins=[5, 7, 4, 3])
    marginals = count_marginals(codes)
    groups = [coupled_gevd.coarse_bins(share, 3) for share in univariate_marginals(marginals)]
    merged = coupled_gevd.coarsen(marginals, groups)
    for (j, k, m), count, fine in zip(marginals.triples, merged.counts, marginals.counts, strict=True):
        expected = np.zeros(count.shape)
        for (a, b, c), number in np.ndenumerate(fine):
            expected[groups[j][a], groups[k][b], groups[m][c]] += number
        np.testing.assert_array_equal(count, expected)


def test_bins_are_not_merged_where_the_rank_needs_them():
    codes, _ = make_data(n_variables=4, n_bins=12)
    partition = ((0,), (1, 2), (3,))
    assert max(gevd_start(codes, 2, partition, random_state=0).start_bins) < 12
    assert gevd_start(codes, 12, partition, random_state=0).start_bins == codes.n_bins
    assert gevd_start(codes, 12, partition, n_bins=4, random_state=0).start_bins == codes.n_bins


# --- what is kept on the start


def test_diagnostics_as_plain_values():
    codes, _ = make_data(n_variables=5)
    start = gevd_start(codes, 3, ((4, 0), (1, 2), (3,)), random_state=0)
    info = start.info()
    assert info["gevd_partition"] == "4 0; 1 2; 3"
    assert info["gevd_bins"] == list(start.start_bins)
    values = info["gevd_singular_values"]
    assert 3 <= len(values) <= 6
    assert values == sorted(values, reverse=True)
    assert values[0] == pytest.approx(1.0 * np.sqrt(2 * 2), rel=1e-6)  # sets of two variables, in one direction
    assert info["gevd_eigenvector_condition"] >= 1
    assert 0 < info["gevd_eigenvalue_gap"] < 2
    assert info["gevd_complex_pair"] in (0, 1)
    assert all(isinstance(value, str | int | float | list) for value in info.values())
    assert GevdStart(start.weights, start.factors).info() == {}


def test_start_survives_what_factors_are_put_through():
    codes, _ = make_data()
    start = gevd_start(codes, 3, random_state=0)
    for changed in (start.permute([2, 0, 1]), start.sort(), start.smooth(0.1), start.to_numpy()):
        assert_valid(changed, codes, 3)
        assert changed.diagnostics is start.diagnostics
        assert changed.info() == start.info()
    np.testing.assert_array_equal(start.permute([2, 0, 1]).weights, start.weights[[2, 0, 1]])
    assert (np.diff(start.sort().weights) <= 0).all()
    single = replace(start, weights=start.weights.astype("f4"), factors=tuple(a.astype("f4") for a in start.factors))
    assert isinstance(single.to_numpy(), MixtureFactors)
    assert single.to_numpy().weights.dtype == np.float64


# --- hostile input

EXACT = random_model((3,) * 5, 2).to_marginals()
SAMPLES = Codes.from_array(np.random.default_rng(0).integers(0, 3, (50, 5)))


@pytest.mark.parametrize("data", [EXACT, SAMPLES], ids=["histograms", "codes"])
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"rank": 99}, AlgebraicStartError, "99 components; .* allow at most"),
        ({"partition": ((0, 1), (2, 3), (5,))}, InvalidInputError, "names variable 5"),
        ({"n_bins": 1}, InvalidInputError, "n_bins is 1"),
    ],
)
def test_bad_arguments_are_named(data, options, error, message):
    with pytest.raises(error, match=message):
        gevd_start(data, **{"rank": 2, **options})


@pytest.mark.parametrize(
    ("data", "options", "error", "message"),
    [
        (None, {}, InvalidTypeError, "expected Marginals, Codes, a third-order tensor"),
        (random_model((3,) * 3, 2), {}, InvalidTypeError, "expected Marginals, Codes, a third-order tensor"),
        (np.zeros((5, 3)), {}, InvalidInputError, r"shape \(5, 3\); expected three"),
        (SAMPLES, {"modes": [(0, 1, 2)]}, InvalidInputError, "give modes with tensors only"),
        (SAMPLES, {"partition": ((0,), (1,), (2,))}, InvalidInputError, r"leaves variables \[3, 4\] out"),
        (Codes.from_array([[0, 1], [1, 0]]), {}, InvalidInputError, "at least 3"),
        (
            Codes(np.where(np.arange(5) == 3, -1, SAMPLES.values), SAMPLES.binning),
            {},
            InvalidInputError,
            "'x3' have no observed value",
        ),
        (
            replace(EXACT, counts=EXACT.counts[:1], triples=EXACT.triples[:1], totals=EXACT.totals[:1]),
            {},
            InvalidInputError,
            r"'x3', 'x4' have .* or are in no triple",
        ),
    ],
)
def test_data_of_another_kind(data, options, error, message):
    with pytest.raises(error, match=message):
        gevd_start(data, 2, **options)


def test_sets_that_are_never_observed_together_and_failures_of_linear_algebra(monkeypatch):
    values = SAMPLES.values.copy()
    values[:25, :2] = values[25:, 2:4] = -1
    with pytest.raises(AlgebraicStartError, match="Singular values"):
        gevd_start(Codes(values, SAMPLES.binning), 2, ((0, 1), (2, 3), (4,)), random_state=0)
    failure = mock.Mock(side_effect=np.linalg.LinAlgError("SVD did not converge"))
    monkeypatch.setattr(coupled_gevd, "decompose_core", failure)
    with pytest.raises(AlgebraicStartError, match="SVD did not converge"):
        gevd_start(SAMPLES, 2, random_state=0)


@given(st.data())
def test_any_codes_give_a_start_or_an_error_of_the_package(data):
    n_bins = data.draw(st.lists(st.integers(2, 6), min_size=3, max_size=5))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    n_samples = data.draw(st.sampled_from([1, 2, 5, 200]))
    values = np.column_stack([rng.integers(0, size, n_samples) for size in n_bins])
    values[rng.random(values.shape) < data.draw(st.sampled_from([0, 0.9]))] = 0
    values[rng.random(values.shape) < data.draw(st.sampled_from([0, 0.3]))] = -1
    codes, rank = Codes.from_array(values, n_bins=n_bins), data.draw(st.integers(1, 5))
    try:
        start = gevd_start(codes, rank, random_state=0)
    except InvalidInputError:
        return
    assert_valid(start, codes, rank)


def quantile_codes(X, n_bins=6):
    return smp.encode_samples(X, smp.choose_binning(X, n_bins, "quantile"))


def samples_of(rank, n_samples=2000, n_variables=6, missing=0.0):
    return smp.datasets.make_smooth_mixture("gaussian", n_samples, n_variables, rank, missing=missing, random_state=0).X


def loop_values(codes):
    """From the probabilities of all pairs of bins, counted one by one."""
    first, second, _ = smp.default_partition(codes.n_variables)
    blocks = []
    for j in first:
        row = []
        for k in second:
            pair = np.zeros((codes.n_bins[j], codes.n_bins[k]))
            for a, b in codes.values[:, [j, k]]:
                pair[a, b] += 1.0 / codes.n_samples
            row.append(pair / np.sqrt(np.outer(pair.sum(axis=1), pair.sum(axis=0))))
        blocks.append(row)
    return np.linalg.svd(np.block(blocks), compute_uv=False)


# Two stacked variables of 6 bins have 11 singular values, of 7 bins 13.
@pytest.mark.parametrize(("n_values", "n_bins"), [(3, 6), (11, 7), (12, 7), (13, 8)])
def test_singular_values_equal_plain_loops_in_as_many_bins_as_there_have_to_be(n_values, n_bins):
    X = samples_of(3, n_samples=300)
    found, _ = pair_singular_values(X, n_values)
    np.testing.assert_allclose(found, loop_values(quantile_codes(X, n_bins))[:n_values], atol=1e-12)
    assert (found > 1e-10).all()


def test_first_singular_value_is_trivial_and_few_variables_have_few():
    found, shuffled = pair_singular_values(samples_of(3, n_variables=8), 5)
    # Three variables in the first set, four in the second.
    assert found[0] == pytest.approx(np.sqrt(12.0))
    np.testing.assert_allclose(shuffled[:, 0], np.sqrt(12.0))
    X = np.random.default_rng(0).normal(size=(50, 3))
    # And no warning of the constant one, which would be an error.
    assert len(pair_singular_values(np.hstack([X, np.ones((50, 1))]), 3)[0]) == 3
    assert n_above_noise(np.ones(1), np.ones((1, 1))) == 1
    assert n_above_noise(np.full(2, np.nan), np.ones((1, 2))) == 0
    with pytest.raises(InvalidInputError, match="at least 3"):
        pair_singular_values(X[:, :2], 3)


@pytest.mark.parametrize(("rank", "missing"), [(1, 0.2), (2, 0.0), (3, 0.2), (4, 0.0)])
def test_number_of_components(rank, missing):
    assert n_above_noise(*pair_singular_values(samples_of(rank, 4000, 8, missing), 9)) == rank


def test_noise_falls_with_the_number_of_samples():
    rng = np.random.default_rng(0)
    levels = [pair_singular_values(rng.normal(size=(m, 7)), 4)[1][:, 1].max() for m in (400, 6400)]
    # Like the root of M; the largest of many singular values varies little.
    assert levels[0] / levels[1] == pytest.approx(4.0, rel=0.2)


def test_independent_variables_exceed_the_noise_in_one_case_of_twenty():
    rng = np.random.default_rng(1)
    above = [n_above_noise(*pair_singular_values(rng.normal(size=(200, 5)), 4)) > 1 for _ in range(12)]
    assert sum(above) <= 3  # of 12; more than that in one case of four hundred


def test_large_blocks_have_leading_values_of_one_shuffle():
    # 121 + 121 variables of six bins.
    found, shuffled = pair_singular_values(samples_of(3, 500, 243), 6)
    assert (found.shape, shuffled.shape, n_above_noise(found, shuffled)) == ((6,), (1, 6), 3)
    assert len(pair_singular_values(samples_of(3, 500, 9), 6)[1]) == N_SHUFFLES
