"""Where the starts of a fit come from."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rooms import solved

from tensorly_smp._support.randomness import spawn_generators
from tensorly_smp.codes.binning import choose_binning
from tensorly_smp.codes.encoding import Codes, encode_samples
from tensorly_smp.datasets import make_smooth_mixture
from tensorly_smp.decomposition import starts as starts_module
from tensorly_smp.decomposition.solver import coupled_simplex_parafac
from tensorly_smp.decomposition.starts import BIN_NUMBERS, RANDOM_EVERY, gevd_starts, random_start
from tensorly_smp.exceptions import AlgebraicStartWarning, ConvergenceWarning, InvalidInputError, InvalidTypeError
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.initializers.coupled_gevd import GevdStart, coarse_sizes
from tensorly_smp.marginals.histograms import count_marginals
from tensorly_smp.metrics import clustering_accuracy, factor_error

RANK = 3
DATA = make_smooth_mixture("gaussian", 2000, 6, RANK, random_state=0)
CODES = encode_samples(DATA.X, choose_binning(DATA.X, 12))
MARGINALS = count_marginals(CODES)
SOURCES = pytest.mark.parametrize("data", [CODES, MARGINALS], ids=["codes", "histograms"])


def make_truth(n_variables=5, n_bins=4, rank=RANK, seed=0):
    rng = np.random.default_rng(seed)
    columns = [rng.dirichlet(np.ones(n_bins), rank).T for _ in range(n_variables)]
    return MixtureFactors(rng.dirichlet(np.full(rank, 10.0)), columns)


def make_starts(data, n_init, rank=RANK, seed=0):
    """The starts, and the random ones that they fall back on."""
    streams = spawn_generators(seed, n_init)
    moments = tuple(np.full(size, 1 / size) for size in data.n_bins)
    chance = [random_start(data.n_bins, rank, rng, moments) for rng in streams]
    return gevd_starts(data, rank, chance, streams), chance


def assert_same(one, other):
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        for x, y in zip((a.weights, *a.factors), (b.weights, *b.factors), strict=True):
            np.testing.assert_array_equal(x, y)


@SOURCES
def test_most_are_algebraic_and_some_are_random(data):
    n_init = 2 * RANDOM_EVERY + 1
    starts, chance = make_starts(data, n_init)
    for position, (start, fallback) in enumerate(zip(starts, chance, strict=True)):
        assert start.n_bins == data.n_bins
        if position % RANDOM_EVERY == RANDOM_EVERY - 1:
            assert start is fallback
        else:
            assert isinstance(start, GevdStart)
            assert start.start_bins == coarse_sizes(data, BIN_NUMBERS[position % len(BIN_NUMBERS)])
    algebraic = [start for start in starts if isinstance(start, GevdStart)]
    assert len({start.partition for start in algebraic}) > 1
    assert min(clustering_accuracy(DATA.labels, s.posterior(CODES).argmax(axis=1)) for s in algebraic) > 0.9


@SOURCES
def test_same_seed_same_starts_however_many(data):
    many, _ = make_starts(data, 6)
    again, _ = make_starts(data, 6)
    few, _ = make_starts(data, 2)
    other, _ = make_starts(data, 2, seed=1)
    assert_same(many, again)
    assert_same(many[:2], few)
    assert (other[0].weights != few[0].weights).any()


def test_exact_histograms_give_the_truth_every_time():
    truth = make_truth()
    starts, _ = make_starts(truth.to_marginals(), 3)
    assert all(factor_error(start, truth) < 1e-8 for start in starts)


def test_exact_histograms_with_zeros_leave_no_zero_to_get_stuck_in():
    truth = MixtureFactors([0.5, 0.5], [np.array([[0.5, 0.0], [0.5, 0.3], [0.0, 0.7]])] * 4)
    starts, _ = make_starts(truth.to_marginals(), 2, rank=2)
    for start in starts[:2]:
        assert isinstance(start, GevdStart)
        assert start.info()["gevd_bins"] == [3] * 4
        for a in (start.weights, *start.factors):
            assert a.min() > 0
            np.testing.assert_allclose(a.sum(axis=0), 1)


def test_failing_algebra_says_why_and_falls_back():
    truth = make_truth(rank=2)
    with pytest.warns(AlgebraicStartWarning, match=r"2 of 2 starts are random.*Singular values: number 4") as record:
        starts, chance = make_starts(truth.to_marginals(), 2, rank=4)
    assert len(record) == 1
    assert_same(starts, chance)


def test_rank_above_the_bound_says_so_at_the_caller():
    with (
        pytest.warns(AlgebraicStartWarning, match=r"40 components; .* allow at most") as record,
        pytest.warns(ConvergenceWarning),
    ):
        solution = coupled_simplex_parafac(MARGINALS, 40, n_iter_max=1, random_state=0)
    assert record[0].filename == __file__
    assert solution.factors.rank == 40
    assert solution.start_info == {}


def test_only_the_random_ones_are_counted_as_failed(monkeypatch):
    original, calls = starts_module.gevd_start, []

    def failing_at_first(*arguments, **options):
        calls.append(1)
        if len(calls) <= starts_module.MOST_ATTEMPTS:
            raise InvalidInputError("made up")
        return original(*arguments, **options)

    monkeypatch.setattr(starts_module, "gevd_start", failing_at_first)
    with pytest.warns(AlgebraicStartWarning, match="1 of 3 starts are random, because the algebra failed: made up"):
        starts, chance = make_starts(CODES, 3)
    assert starts[0] is chance[0]
    assert all(isinstance(start, GevdStart) for start in starts[1:])


def test_another_partition_is_tried_before_giving_up():
    # The constant cannot be a set of its own, and of four variables it is in every other partition.
    values = np.column_stack([CODES.values[:, :4], np.zeros(CODES.n_samples, dtype=int)])
    codes = Codes.from_array(values[:, [0, 1, 2, 4]], n_bins=12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        starts, _ = make_starts(codes, 3, rank=2)
    assert all(isinstance(start, GevdStart) for start in starts)
    for start in starts:
        assert (3,) not in start.partition.sets


def test_few_triples_are_enough_if_a_partition_has_all_its_blocks():
    truth = make_truth(4, 5)
    marginals = truth.to_marginals([(0, 1, 2), (1, 2, 3)])
    (start,), _ = make_starts(marginals, 1)
    assert {frozenset(group) for group in start.partition} == {frozenset({0, 3}), frozenset({1}), frozenset({2})}
    assert factor_error(start, truth) < 1e-8
    counted = count_marginals(Codes.from_array(CODES.values[:, :4], n_bins=12), [(0, 1, 2), (1, 2, 3)])
    (start,), _ = make_starts(counted, 1)
    assert isinstance(start, GevdStart)
    assert {0, 3} in map(set, start.partition)


def test_triples_that_no_partition_has_fall_back():
    marginals = make_truth(6).to_marginals([(0, 1, 2), (3, 4, 5)])
    with pytest.warns(AlgebraicStartWarning, match=r"blocks of the partition have not been counted.*Count all triples"):
        starts, chance = make_starts(marginals, 2)
    assert_same(starts, chance)


def test_codes_take_the_place_of_histograms_that_were_not_counted():
    some = count_marginals(CODES, [(0, 1, 2), (3, 4, 5)])
    with pytest.warns(AlgebraicStartWarning, match="have not been counted"):
        coupled_simplex_parafac(some, RANK, random_state=0)
    solution = solved(some, RANK, samples=CODES, random_state=0)
    assert solution.start_info["gevd_bins"] == list(coarse_sizes(CODES, BIN_NUMBERS[0]))


def test_integer_weights_are_repeated_samples():
    weights = np.random.default_rng(0).integers(0, 4, CODES.n_samples)
    repeated = Codes(np.repeat(CODES.values, weights, axis=0), CODES.binning)
    found = gevd_starts(CODES, RANK, *_chance(6), weights.astype(float))
    for one, other in zip(found, gevd_starts(repeated, RANK, *_chance(6)), strict=True):
        for x, y in zip((one.weights, *one.factors), (other.weights, *other.factors), strict=True):
            np.testing.assert_allclose(x, y, atol=1e-10)


def _chance(n_init):
    streams = spawn_generators(0, n_init)
    moments = [np.full(12, 1 / 12)] * 6
    return [random_start(CODES.n_bins, RANK, rng, moments) for rng in streams], streams


@pytest.mark.parametrize("options", [{"form": "implicit", "loss": "frobenius"}, {"triples": 8}])
def test_weights_are_those_of_the_samples_that_are_decomposed(options):
    weights = np.random.default_rng(0).integers(0, 4, CODES.n_samples)
    repeated = Codes(np.repeat(CODES.values, weights, axis=0), CODES.binning)
    options = {"random_state": 0, "n_iter_max": 0, **options}
    triples = options.pop("triples", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if triples is None:
            found = solved(CODES, RANK, sample_weight=weights, **options)
            expected = solved(repeated, RANK, **options)
        else:
            counted = count_marginals(CODES, triples, weights, random_state=0)
            found = solved(counted, RANK, samples=CODES, sample_weight=weights, **options)
            expected = solved(counted, RANK, samples=repeated, **options)
    assert found.start_info["gevd_partition"] == expected.start_info["gevd_partition"]
    np.testing.assert_allclose(found.factors.weights, expected.factors.weights, atol=1e-10)
    for x, y in zip(found.factors.factors, expected.factors.factors, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-10)


def test_weights_have_to_fit_the_codes():
    with pytest.raises(InvalidInputError, match=r"sample_weight has shape \(3,\)"):
        solved(MARGINALS, RANK, samples=CODES, sample_weight=np.ones(3))


@pytest.mark.parametrize("init", ["gevd", "random"])
def test_codes_have_to_fit_the_histograms(init):
    with pytest.raises(InvalidTypeError, match="samples is int"):
        solved(MARGINALS, RANK, init=init, samples=3)
    other = encode_samples(DATA.X, choose_binning(DATA.X, 8))
    with pytest.raises(InvalidInputError, match=r"samples have \(8, .* expected those of the histograms, \(12, "):
        solved(MARGINALS, RANK, init=init, samples=other)
    with pytest.raises(InvalidInputError, match="expected those of the histograms"):
        solved(MARGINALS, RANK, init=init, samples=Codes(CODES.values[:, :4], choose_binning(DATA.X[:, :4], 12)))


def test_tensors_of_a_user_are_decomposed_too():
    truth = make_truth(4, 4)
    order = [(0, 2, 1), (3, 0, 1), (2, 0, 3), (1, 2, 3)]
    tensors = [7.0 * np.einsum("r,ir,jr,kr->ijk", truth.weights, *(truth.factors[n] for n in mode)) for mode in order]
    solution = coupled_simplex_parafac(tensors, RANK, modes=order, random_state=0)
    assert factor_error(solution.factors, truth) < 1e-8
    assert solution.start_info["gevd_bins"] == [4] * 4


@given(st.data())
def test_any_samples_give_starts(data):
    """Noise, constants, few samples: algebraic or random, but never an exception."""
    n_bins = data.draw(st.lists(st.integers(2, 5), min_size=3, max_size=5))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    n_samples = data.draw(st.sampled_from([5, 100]))
    values = np.column_stack([rng.integers(0, size, n_samples) for size in n_bins])
    values[rng.random(values.shape) < data.draw(st.sampled_from([0, 0.9, 1]))] = 0
    codes = Codes.from_array(values, n_bins=n_bins)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", AlgebraicStartWarning)
        starts, _ = make_starts(codes, 3, rank=data.draw(st.integers(1, 5)))
    for start in starts:
        assert start.n_bins == codes.n_bins
        assert all(np.isfinite(a).all() and (a > 0).any(axis=0).all() for a in start.factors)
