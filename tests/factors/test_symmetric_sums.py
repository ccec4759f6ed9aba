"""Sums over pairs and triples against loops, in one part or many, with few patterns or many."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorly_smp.factors import implicit
from tensorly_smp.factors.implicit import PairSums, PatternGrams, pair_weights

SEEDS = st.integers(0, 2**31)
N_BINS, RANK = (3, 2, 4, 3), 2
CONTEXT = {"dtype": np.float64}


def make_factors(rng):
    return [rng.dirichlet(np.ones(size), RANK).T for size in N_BINS]


def e2(rows):
    return sum((a * b for a, b in combinations(rows, 2)), np.zeros_like(rows[0]))


def e3(rows):
    return sum((a * b * c for a, b, c in combinations(rows, 3)), np.zeros_like(rows[0]))


@pytest.mark.parametrize("cached", [1, 7, 10**6])
def test_pair_sums_are_those_of_loops_in_one_part_or_many(monkeypatch, cached):
    monkeypatch.setattr(implicit, "CACHED", cached)
    rng = np.random.default_rng(0)
    factors, weights = make_factors(rng), rng.random(11)
    columns = np.array([rng.integers(0, size + 1, 11) for size in N_BINS], dtype=np.uint8)  # the last is missing
    tables = [np.vstack([a, np.zeros(RANK)]) for a in factors]
    rows = [[table[code] for table, code in zip(tables, codes, strict=True)] for codes in columns.T]
    sums = PairSums(columns, weights, max(N_BINS), CONTEXT)
    third = sums.compute(factors)
    np.testing.assert_allclose(third, sum(w * e3(r) for w, r in zip(weights, rows, strict=True)))
    for n, size in enumerate(N_BINS):
        expected = np.zeros((size + 1, RANK))
        for w, r, code in zip(weights, rows, columns[n], strict=True):
            expected[code] += w * e2(r[:n] + r[n + 1 :])
        np.testing.assert_allclose(sums.remove(n, factors[n]), expected[:size], atol=1e-15)
        sums.insert(n, factors[n])
    assert len(sums.parts) == {1: 11, 7: 4, 10**6: 1}[cached]
    assert sum(part.part.stop - part.part.start for part in sums.parts) == 11


@given(SEEDS, st.integers(1, 9), st.booleans())
def test_pattern_grams_are_those_of_loops(seed, n_patterns, by_pairs):
    rng = np.random.default_rng(seed)
    patterns, weights = rng.random((len(N_BINS), n_patterns)) < 0.7, rng.random(n_patterns)
    pairs = (patterns * weights) @ patterns.T.astype(float) if by_pairs else None
    sums = PatternGrams(patterns, weights, pairs, CONTEXT)
    sums.compute(make_factors(rng))
    factors = make_factors(rng)
    for n, a in enumerate(factors):
        sums.exchange(n, a)
    grams = [a.T @ a for a in factors]

    def over_patterns(polynomial, n=None):
        total = np.zeros((RANK, RANK))
        for pattern, weight in zip(patterns.T, weights, strict=True):
            observed = [g for k, g in enumerate(grams) if pattern[k] and k != n]
            if observed and (n is None or pattern[n]):
                total += weight * polynomial(observed)
        return total

    np.testing.assert_allclose(sums.triples(), over_patterns(e3), atol=1e-13)
    for n in range(len(factors)):
        np.testing.assert_allclose(sums.pairs(n), over_patterns(e2, n), atol=1e-13)


def test_chunks_of_patterns_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    patterns, weights = rng.random((len(N_BINS), 9)) < 0.7, rng.random(9)
    factors = make_factors(rng)
    found = []
    for chunk in (2, 100):
        monkeypatch.setattr(implicit, "PATTERN_CHUNK", chunk)
        sums = PatternGrams(patterns, weights, pair_weights(patterns, weights), CONTEXT)
        sums.compute(factors)
        found.append([sums.triples(), sums.pairs(1)])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-13)


def test_pair_weights():
    rng = np.random.default_rng(0)
    patterns, weights = rng.random((3, 5)) < 0.7, rng.random(5)
    expected = [[weights[patterns[j] & patterns[k]].sum() for k in range(3)] for j in range(3)]
    np.testing.assert_allclose(pair_weights(patterns, weights), expected)
    assert pair_weights(patterns[:, :3], weights[:3]) is None
