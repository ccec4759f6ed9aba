"""Counting: against loops, additivity, missing entries, weights, memory, and what is said about useless variables."""

import tracemalloc
from functools import reduce
from itertools import combinations
from math import comb
from operator import add
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import count_triple

from tensorly_smp.codes.binning import Binning
from tensorly_smp.codes.encoding import Codes
from tensorly_smp.decomposition.solver import coupled_simplex_parafac
from tensorly_smp.exceptions import (
    ConstantVariableWarning,
    InvalidInputError,
    InvalidTypeError,
    SizeLimitError,
    SparseHistogramWarning,
)
from tensorly_smp.marginals import histograms
from tensorly_smp.marginals.histograms import count_marginals, univariate_marginals
from tensorly_smp.marginals.triples import resolve_triples, sample_triples


def use_counts(triples, n_variables):
    return np.bincount(triples.ravel(), minlength=n_variables)


def test_triples_all_or_given():
    for n_variables in (3, 4, 7):
        triples = resolve_triples("all", n_variables)
        assert triples.tolist() == [list(t) for t in combinations(range(n_variables), 3)]
        assert triples.dtype == np.intp
    # A list is sorted within triples and keeps its order.
    assert resolve_triples([(3, 0, 1), (2, 1, 0)], 4).tolist() == [[0, 1, 3], [0, 1, 2]]
    assert resolve_triples(iter([(0, 1, 2)]), 3).tolist() == [[0, 1, 2]]
    assert resolve_triples(np.array([[2, 1, 0]], dtype=np.uint8), 3).tolist() == [[0, 1, 2]]


@given(st.integers(3, 12), st.data())
def test_random_triples_are_distinct_ordered_and_even(n_variables, data):
    n_triples = data.draw(st.integers(0, comb(n_variables, 3)))
    triples = sample_triples(n_variables, n_triples, data.draw(st.integers(0, 5)))
    assert triples.shape == (n_triples, 3)
    assert (np.diff(triples, axis=1) > 0).all()
    assert len({tuple(t) for t in triples.tolist()}) == n_triples
    assert triples.tolist() == sorted(triples.tolist())
    # One apart, but where almost no triple is left to choose from: two.
    assert np.ptp(use_counts(triples, n_variables)) <= 2


@pytest.mark.parametrize(("n_variables", "n_triples"), [(10, 24), (24, 100), (24, 1012), (60, 20), (300, 600)])
def test_use_counts_differ_by_one_at_most_and_the_seed_decides(n_variables, n_triples):
    drawn = [sample_triples(n_variables, n_triples, seed) for seed in (0, 1, 2, 1)]
    assert max(np.ptp(use_counts(triples, n_variables)) for triples in drawn) <= 1
    np.testing.assert_array_equal(drawn[1], drawn[3])
    assert (drawn[1] != drawn[2]).any()


@given(st.integers(3, 30), st.integers(0, 5))
def test_as_few_triples_as_can_cover_do_cover(n_variables, seed):
    assert (use_counts(resolve_triples(-(-n_variables // 3), n_variables, seed), n_variables) > 0).all()


@pytest.mark.parametrize(
    ("triples", "error", "message"),
    [
        ("every", InvalidInputError, '"all"'),
        (2.0, InvalidTypeError, "an integer or a list"),
        (None, InvalidTypeError, "list of three"),
        (1, InvalidInputError, "expected 2"),
        (11, InvalidInputError, r"to 10 \(all\)"),
        ([], InvalidInputError, r"shape \(0,\); expected \(n, 3\), such as \[\(0, 1, 2\)\]"),
        ([(0, 1)], InvalidInputError, r"expected \(n, 3\)"),
        ([(0, 1, 2), (0, 1)], InvalidTypeError, "list of three"),
        ([(0, 1, 2.5)], InvalidTypeError, "integer variable indices"),
        ([(0, 1, -1)], InvalidInputError, "expected 0 to 4"),
        ([(0, 1, 1)], InvalidInputError, r"\(0, 1, 1\), which names a variable twice"),
        ([(0, 1, 2), (2, 1, 0), (0, 3, 4)], InvalidInputError, "given twice"),
        ([(0, 1, 2)], InvalidInputError, r"Variables \[3, 4\] are in no triple"),
    ],
)
def test_bad_triples_are_named(triples, error, message):
    with pytest.raises(error, match=message):
        resolve_triples(triples, 5)
    with pytest.raises(InvalidInputError, match="at least three"):
        resolve_triples(triples, 2)


N_BINS = (3, 5, 2, 4)


def make_codes(rng, n_samples=60, n_bins=N_BINS, missing=0.0):
    values = np.column_stack([rng.integers(0, size, n_samples) for size in n_bins])
    # The first samples are complete and take every bin, so that no warning depends on chance.
    values[: max(n_bins)] = np.arange(max(n_bins))[:, None] % np.array(n_bins)
    mask = rng.random(values.shape) < missing
    mask[: max(n_bins)] = False
    values[mask] = -1
    return Codes(values, Binning.from_n_bins(n_bins))


def assert_same(first, second, **tolerance):
    assert (first.triples == second.triples).all()
    assert first.n_samples == second.n_samples
    np.testing.assert_allclose(first.totals, second.totals, **tolerance)
    for a, b in zip(first.counts, second.counts, strict=True):
        np.testing.assert_allclose(a, b, **tolerance)


@given(st.integers(0, 2**31), st.sampled_from([0.0, 0.3, 0.9]), st.booleans(), st.sampled_from([7, 10**6]))
def test_counts_are_those_of_a_loop(seed, missing, weighted, chunk):
    rng = np.random.default_rng(seed)
    codes = make_codes(rng, missing=missing)
    weights = rng.random(codes.n_samples) if weighted else None
    with mock.patch.object(histograms, "CHUNK_SIZE", chunk):
        marginals = count_marginals(codes, sample_weight=weights)
    assert marginals.triples.tolist() == [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]]
    for counts, triple, total in zip(marginals.counts, marginals.triples, marginals.totals, strict=True):
        expected = count_triple(codes.values, triple, N_BINS, weights)
        np.testing.assert_allclose(counts, expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(total, expected.sum())


@given(st.integers(0, 2**31), st.lists(st.integers(6, 20), min_size=1, max_size=4))
def test_chunks_add_up(seed, sizes):
    rng = np.random.default_rng(seed)
    chunks = [make_codes(rng, n_samples=size, missing=0.2) for size in sizes]
    whole = Codes(np.vstack([c.values for c in chunks]), chunks[0].binning)
    assert_same(reduce(add, map(count_marginals, chunks)), count_marginals(whole), rtol=0)


def test_two_triples_agree_on_the_pair_they_share():
    marginals = count_marginals(make_codes(np.random.default_rng(0), n_bins=(3, 4, 5, 2, 3)))
    pairs = {}
    for counts, triple in zip(marginals.counts, marginals.triples.tolist(), strict=True):
        for axis in range(3):
            pair = tuple(n for position, n in enumerate(triple) if position != axis)
            assert (pairs.setdefault(pair, counts.sum(axis=axis)) == counts.sum(axis=axis)).all()
    assert len(pairs) == 10


def test_order_of_samples_and_of_variables_does_not_matter():
    rng = np.random.default_rng(0)
    codes = make_codes(rng, missing=0.2)
    before, expected = codes.values.copy(), count_marginals(codes)
    assert_same(count_marginals(Codes(rng.permutation(codes.values), codes.binning)), expected, rtol=0)
    backwards = Codes(codes.values[:, ::-1], Binning.from_n_bins(N_BINS[::-1]))
    counts = count_marginals(backwards, triples=[(0, 1, 2), (1, 2, 3)]).counts
    assert (counts[0].transpose() == expected.counts[3]).all()
    assert (counts[1].transpose() == expected.counts[0]).all()
    chosen = count_marginals(codes, triples=[(3, 1, 2), (0, 1, 2)])
    assert (chosen.counts[0] == expected.counts[3]).all()
    assert (chosen.counts[1] == expected.counts[0]).all()
    assert count_marginals(codes, triples=2, random_state=3).n_triples == 2
    for position in range(expected.n_triples):
        np.testing.assert_allclose(expected.histogram(position).sum(), 1.0)
    assert (codes.values == before).all()
    n_useful = ((before >= 0).sum(axis=1) >= 3).sum()
    assert repr(expected) == f"Marginals(4 triples of 4 variables, 2 to 5 bins, {n_useful} samples)"
    assert (expected.n_variables, expected.n_bins) == (4, N_BINS)


def test_variables_with_many_bins_do_not_overflow_the_index():
    # 4096^2 cells of the last two variables times a large negative number leave 64 bits.
    values = np.array([[-1, 4095, 4095], [1, 4095, -1], [1, 4095, 4095], [0, 7, 9]])
    marginals = count_marginals(Codes(values, Binning.from_n_bins((2, 4096, 4096))))
    assert marginals.totals.tolist() == [2.0]
    assert marginals.counts[0][1, 4095, 4095] == marginals.counts[0][0, 7, 9] == 1


@pytest.mark.parametrize(
    ("triples", "n_variables", "n_bins"),
    [("all", 3000, 2), (4_000_000, 300, 15), ([(0, 1, 2)], 3, 1000)],
    ids=["all", "a number", "a list"],
)
def test_size_is_checked_before_anything_is_allocated(triples, n_variables, n_bins):
    values = np.arange(10)[:, None] % 2 + np.zeros(n_variables, dtype=int)
    codes = Codes(values, Binning.from_n_bins([n_bins] * n_variables))
    tracemalloc.start()
    with pytest.raises(SizeLimitError, match=r"fewer bins, a number of triples .* larger max_bytes"):
        count_marginals(codes, triples=triples)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e6


def test_memory_is_less_than_twice_the_result():
    codes = make_codes(np.random.default_rng(0), n_samples=50_000, n_bins=(15,) * 10)
    tracemalloc.start()
    marginals = count_marginals(codes)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * sum(c.nbytes for c in marginals.counts)


def test_constant_lost_and_sparse_variables_are_named():
    complete = make_codes(np.random.default_rng(0))
    flat, sparse, lost = (complete.values.copy() for _ in range(3))
    binning = Binning.from_n_bins(N_BINS, variables=["a", "b", "c", "d"])
    flat[:, 2] = 1
    with pytest.warns(ConstantVariableWarning, match=r"samples of 'c' are") as record:
        count_marginals(Codes(flat, binning))
    assert record[0].filename == __file__
    sparse[::2, 0] = sparse[1::2, 1] = -1
    with pytest.warns(SparseHistogramWarning, match=r"2 of 4 triples .*\('a', 'b', 'c'\), \('a', 'b', 'd'\)") as record:
        marginals = count_marginals(Codes(sparse, binning))
    assert record[0].filename == __file__
    assert marginals.totals.tolist() == [0, 0, 30, 30]
    with pytest.raises(InvalidInputError, match=r"\['a', 'b', 'c'\]"):
        marginals.histogram(0)
    lost[:, 1] = -1
    with pytest.warns(SparseHistogramWarning, match="3 of 4 triples"):
        marginals = count_marginals(Codes(lost, binning))
    with pytest.raises(InvalidInputError, match=r"\['b'\] have no sample"):
        coupled_simplex_parafac(marginals, 2)
    # Another chunk may bring what this one lacks.
    assert ((marginals + count_marginals(Codes(complete.values, binning))).totals > 0).all()


def test_only_like_marginals_add_up():
    codes = make_codes(np.random.default_rng(0))
    marginals = count_marginals(codes)
    renamed = Codes(codes.values, Binning.from_n_bins(N_BINS, variables="abcd"))
    other_edges = Codes(codes.values, Binning.from_n_bins((3, 5, 3, 4)))
    with pytest.raises(InvalidInputError, match="different triples"):
        marginals + count_marginals(codes, triples=[(0, 1, 2), (1, 2, 3)])
    for different in (renamed, other_edges):
        with pytest.raises(InvalidInputError, match="different binnings"):
            marginals + count_marginals(different)
    with pytest.raises(TypeError):
        marginals + 1
    np.testing.assert_array_equal(sum([marginals, marginals]).counts[0], 2 * marginals.counts[0])
    with pytest.raises(InvalidInputError, match="expected 0 to 3"):
        marginals.histogram(99)
    with pytest.raises(InvalidTypeError, match="encode_samples"):
        count_marginals(codes.values)
    with pytest.raises(SizeLimitError):
        count_marginals(codes, max_bytes=1000)
    assert count_marginals(codes, max_bytes=1e4).n_triples == 4
    with pytest.raises(InvalidInputError, match=r"max_bytes is .*expected a number in \(0, inf\]"):
        count_marginals(codes, max_bytes=0)


def test_univariate_marginals_by_loops():
    rng = np.random.default_rng(0)
    values = rng.integers(-1, 3, (30, 3))
    values[0] = 2
    weights = rng.random(30)
    codes = Codes.from_array(values, n_bins=3)
    for n, share in enumerate(univariate_marginals(codes, weights)):
        expected = [sum(w for w, code in zip(weights, values[:, n], strict=True) if code == i) for i in range(3)]
        np.testing.assert_allclose(share, np.array(expected) / sum(expected))
    complete = (values >= 0).all(axis=1)
    of_triples = univariate_marginals(count_marginals(codes))
    for share, other in zip(of_triples, univariate_marginals(codes, complete.astype(float)), strict=True):
        np.testing.assert_allclose(share, other)
    with pytest.raises(InvalidInputError, match=r"'x1' have no observed value"):
        univariate_marginals(Codes.from_array([[0, -1, 1]], n_bins=2))
