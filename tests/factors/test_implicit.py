"""All triples from samples: sums and blocks against loops, runs against counted histograms, the estimated level."""

import tracemalloc
import warnings
from dataclasses import dataclass, replace
from unittest import mock

import numpy as np
import pytest
import tensorly as tl
from backend_problems import tensor
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import count_triple, coupled_loss, pair_sums, triple_sums
from rooms import assert_same, random_model, solved

from tensorly_smp._support.checks import to_numpy
from tensorly_smp._support.iteration import StopReason
from tensorly_smp.codes.encoding import Codes
from tensorly_smp.exceptions import (
    ConstantVariableWarning,
    ConvergenceWarning,
    EmptyComponentWarning,
    InvalidInputError,
    SparseHistogramWarning,
)
from tensorly_smp.factors import implicit
from tensorly_smp.factors.backend import checked_context
from tensorly_smp.factors.blocks import ProjectedGradient
from tensorly_smp.factors.coupled import couple_tensors
from tensorly_smp.factors.implicit import CACHED, MOST_UPDATES, ImplicitLoss, couple_codes, draw_triples
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.factors.sweeps import Steps
from tensorly_smp.marginals.histograms import count_marginals
from tensorly_smp.marginals.triples import resolve_triples

SEEDS = st.integers(0, 2**31)
N_BINS = (3, 5, 2, 4, 3, 6)
#: Missing entries and sample weights.
EVERY_KIND = pytest.mark.parametrize(
    ("missing", "weighted"), [(0.0, False), (0.0, True), (0.3, False), (0.3, True)], ids=str
)


def make_codes(rng, n_samples, n_bins, missing):
    """Codes of two groups of samples; entries missing one by one, and the rest of some rows."""
    labels = rng.integers(0, 2, n_samples)
    values = np.column_stack([rng.binomial(size - 1, 0.2 + 0.6 * labels) for size in n_bins])
    values[rng.random(values.shape) < missing] = -1
    if missing:
        values[rng.random(n_samples) < 0.2, 2:] = -1  # fewer than three entries: in no triple
    return values


def make_factors(rng, n_bins, rank=3):
    return rng.dirichlet(np.ones(rank)), [rng.dirichlet(np.ones(size), rank).T for size in n_bins]


def quiet(function, *arguments, **options):
    """The result, without a word about data that are made up, or runs that are cut short."""
    with warnings.catch_warnings():
        for category in (SparseHistogramWarning, ConstantVariableWarning, ConvergenceWarning, EmptyComponentWarning):
            warnings.simplefilter("ignore", category)
        return function(*arguments, **options)


def solve(codes, rank=3, **options):
    options = {"loss": "frobenius", "form": "implicit", "init": "random", "random_state": 0, **options}
    return quiet(solved, codes, rank, **options)


# --- blocks


@st.composite
def problems(draw):
    """Samples, their weights, and numbers of bins, with any pattern of missing entries in which a fit is possible."""
    n_bins = draw(st.lists(st.integers(2, 4), min_size=3, max_size=5))
    rng = np.random.default_rng(draw(SEEDS))
    n_samples = draw(st.integers(1, 24))
    values = np.column_stack([rng.integers(0, size, n_samples) for size in n_bins])
    values[rng.random(values.shape) < draw(st.sampled_from([0.0, 0.3, 0.6]))] = -1
    values[0] = 0  # complete, so that every variable is in a triple
    weights = rng.integers(0, 3, n_samples) + rng.random(n_samples) if draw(st.booleans()) else np.ones(n_samples)
    return values, weights, tuple(n_bins), rng


@dataclass(frozen=True)
class Onlooker:
    """A block solver that moves nothing and remembers the block."""

    def __call__(self, block, x, memory=None):
        return x, (block.linear, block.gram)


@settings(max_examples=40)
@given(problems(), st.sampled_from(["float32", "float64"]), st.sampled_from([1, 7, 10**6]))
def test_blocks_are_those_of_the_loops_in_one_part_or_many(problem, dtype, part):
    with mock.patch.multiple(implicit, CACHED=part, PATTERN_CHUNK=part):
        check_blocks(*problem, dtype)


def check_blocks(values, sample_weight, n_bins, rng, dtype):
    codes = Codes.from_array(values, n_bins=n_bins)
    steps = Steps(ImplicitLoss(quiet(couple_codes, codes, sample_weight, checked_context(dtype))), Onlooker())
    weights, factors = make_factors(rng, n_bins)
    tolerance = {"rtol": 1e-10, "atol": 1e-14} if dtype == "float64" else {"rtol": 1e-4, "atol": 1e-5}
    there = tensor(weights, dtype), [tensor(a, dtype) for a in factors]

    def assert_block(n, linear, gram):
        found = steps.memory[n]
        assert all(a.dtype == getattr(tl.backend, dtype) for a in found)
        np.testing.assert_allclose(to_numpy(found[0]), linear, **tolerance)
        np.testing.assert_allclose(to_numpy(found[1]), gram, **tolerance)

    linear, gram, total = triple_sums(values, sample_weight, factors)
    tensors = [count_triple(values, t, n_bins, sample_weight) for t in resolve_triples("all", len(n_bins))]
    mean = total / sum(t.sum() > 0 for t in tensors)
    steps.begin(*there)[1]()
    assert_block(-1, linear[None, :] / mean, gram / mean)
    for n in range(len(n_bins)):
        linear, gram = pair_sums(values, sample_weight, factors, n)
        steps.improve(n, there[1], there[0])
        assert_block(n, linear * weights / mean, gram * np.outer(weights, weights) / mean)


@given(problems(), st.sampled_from([1, 7, 10**6]))
def test_loss_is_that_of_the_loops(problem, part):
    values, sample_weight, n_bins, rng = problem
    coupled = quiet(couple_codes, Codes.from_array(values, n_bins=n_bins), sample_weight)
    weights, factors = make_factors(rng, n_bins)
    modes = resolve_triples("all", len(n_bins)).tolist()
    counts = {tuple(mode): count_triple(values, mode, n_bins, sample_weight) for mode in modes}
    counts = {mode: count for mode, count in counts.items() if count.sum() > 0}
    totals = np.array([count.sum() for count in counts.values()])
    shares, omega = [count / count.sum() for count in counts.values()], totals / totals.mean()
    expected = coupled_loss(shares, list(counts), omega, weights, factors, "frobenius")
    with mock.patch.object(implicit, "CACHED", part):
        loss = ImplicitLoss(coupled)
        found = loss.of_value(loss.weight_block(factors).value(weights[None, :]))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    # As it is of all triples one by one, which are no more than are counted where the level is estimated.
    np.testing.assert_allclose(coupled.estimated_loss(MixtureFactors(weights, factors)), (expected, 0.0), atol=1e-12)
    level = sum(o * (share**2).sum() for o, share in zip(omega, shares, strict=True))
    np.testing.assert_allclose(coupled.estimated_loss(None), (level, 0.0), atol=1e-12)


@given(problems(), st.lists(st.tuples(st.integers(-1, 4), st.sets(st.integers(0, 4), max_size=5)), max_size=12))
def test_sums_follow_whatever_factors_change_between_blocks(problem, steps):
    values, sample_weight, n_bins, rng = problem
    coupled = quiet(couple_codes, Codes.from_array(values, n_bins=n_bins), sample_weight)
    loss = ImplicitLoss(coupled)
    weights, factors = make_factors(rng, n_bins)
    for n, changes in steps:
        for k in changes:
            if k < len(n_bins):
                factors = [rng.dirichlet(np.ones(len(a)), 3).T if m == k else a for m, a in enumerate(factors)]
        fresh = ImplicitLoss(coupled)
        if n < 0:
            block, expected = loss.weight_block(factors), fresh.weight_block(factors)
        else:
            n = n % len(n_bins)
            block, expected = (one.factor_block(n, factors, weights) for one in (loss, fresh))
        np.testing.assert_allclose(block.linear, expected.linear, rtol=1e-9, atol=1e-13)
        np.testing.assert_allclose(block.gram, expected.gram, rtol=1e-9, atol=1e-13)


def test_rounding_does_not_pile_up():
    rng = np.random.default_rng(0)
    coupled = couple_codes(Codes.from_array(make_codes(rng, 300, N_BINS, 0.0), n_bins=N_BINS))
    loss = ImplicitLoss(coupled)
    weights, factors = make_factors(rng, N_BINS)
    for _ in range(20 * MOST_UPDATES):
        for n, a in enumerate(factors):
            loss.factor_block(n, factors, weights)
            factors = [*factors[:n], rng.dirichlet(np.ones(len(a)), 3).T, *factors[n + 1 :]]
        block = loss.weight_block(factors)
    expected = ImplicitLoss(coupled).weight_block(factors)
    np.testing.assert_allclose(block.linear, expected.linear, rtol=1e-13)
    np.testing.assert_allclose(block.gram, expected.gram, rtol=1e-13)


# --- whole runs


@EVERY_KIND
def test_twenty_sweeps_are_those_of_counted_histograms(missing, weighted):
    rng = np.random.default_rng(1)
    codes = Codes.from_array(make_codes(rng, 400, N_BINS, missing), n_bins=N_BINS)
    sample_weight = rng.random(400) * 3 if weighted else None
    solver = "mirror" if weighted == bool(missing) else "projected-gradient"
    options = {"init": random_model(N_BINS, 3, seed=2), "n_iter_max": 20, "tol": 0.0, "solver": solver}
    expected = solve(count_marginals(codes, "all", sample_weight), form="auto", **options)
    for form in ("implicit", "counted"):
        solution = solve(codes, form=form, sample_weight=sample_weight, **options)
        assert solution.start_info["histograms"] == form
        np.testing.assert_allclose(solution.trace.loss, expected.trace.loss, rtol=1e-10)
        np.testing.assert_allclose(solution.trace.change, expected.trace.change, atol=1e-9)
        assert_same(solution, expected, atol=1e-9)
        assert solution.factors.binning is codes.binning
        assert solution.triples is None


def test_patterns_without_a_sample_in_some_triples():
    # The first two variables are never seen together: as counted histograms, such triples take no part.
    values = make_codes(np.random.default_rng(0), 200, N_BINS, 0.0)
    values[::2, 0] = -1
    values[1::2, 1] = -1
    codes = Codes.from_array(values, n_bins=N_BINS)
    with pytest.warns(SparseHistogramWarning, match="4 of 20 triples have no complete sample"):
        coupled = couple_codes(codes)
    with pytest.warns(SparseHistogramWarning):
        expected = couple_tensors(count_marginals(codes), "count")
    np.testing.assert_allclose(coupled.squared_norm, expected.squared_norm, rtol=1e-12)
    assert coupled.triples.tolist() == expected.triples.tolist()
    assert solve(codes, n_iter_max=1).triples.tolist() == expected.triples.tolist()
    assert solve(codes, n_iter_max=1, form="counted").triples.tolist() == expected.triples.tolist()


@pytest.mark.parametrize("scale", [1e-250, 1e250])
def test_samples_of_weight_zero_do_not_matter_and_of_weight_two_count_twice(scale):
    values = make_codes(np.random.default_rng(0), 100, N_BINS, 0.2)
    sample_weight = np.random.default_rng(1).integers(0, 3, 100)
    options = {"init": random_model(N_BINS, 3, seed=3), "n_iter_max": 10, "tol": 0.0}
    weighted = solve(Codes.from_array(values, n_bins=N_BINS), sample_weight=scale * sample_weight, **options)
    repeated = solve(Codes.from_array(np.repeat(values, sample_weight, axis=0), n_bins=N_BINS), **options)
    np.testing.assert_allclose(weighted.trace.loss, repeated.trace.loss, rtol=1e-10)
    assert_same(weighted, repeated, atol=1e-9)


def test_many_variables_of_many_bins():
    # 162 000 triples of 20 to 40 bins: the histograms would take 35 GB.
    rng = np.random.default_rng(0)
    n_bins = tuple(rng.integers(20, 40, 100).tolist())
    labels = rng.integers(0, 2, 300)
    values = np.column_stack([rng.integers(0, size // 2, 300) + labels * (size // 4) for size in n_bins])
    values[rng.random(values.shape) < 0.1] = -1
    codes = Codes.from_array(values, n_bins=n_bins)
    solution = solve(codes, 2, n_iter_max=15, n_inner=2)
    assert solution.triples is None
    assert (np.diff(solution.trace.loss) <= 0).all()
    found = solution.factors.posterior(codes).argmax(axis=1)
    assert (found == labels).all() or (found == 1 - labels).all()


def test_a_sweep_takes_e1_and_e2_and_little_more():
    n_variables, n_samples, rank, n_bins = 12, 20_000, 10, 15
    rng = np.random.default_rng(0)
    values = rng.integers(0, n_bins, (n_samples, n_variables))
    coupled = couple_codes(Codes.from_array(values, n_bins=n_bins))
    _, factors = make_factors(rng, (n_bins,) * n_variables, rank)

    def sweep():
        loss, solver, moved = ImplicitLoss(coupled), ProjectedGradient(), list(factors)
        weights = solver(loss.weight_block(moved), np.full((1, rank), 1.0 / rank), None)[0][0]
        for n in range(n_variables):
            moved[n] = solver(loss.factor_block(n, moved, weights), moved[n], None)[0]

    sweep()
    tracemalloc.start()
    sweep()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Beyond the samples themselves: e1 and e2; two parts of a pass that stay in the cache; a weight and an index of
    # every sample, once more for what is made of them; and what is as large as the factors. In all, 2.6 times the codes
    # (one byte each) and a number for every sample and component. Another array of these, or one for every entry, would
    # be more.
    numbers = 2 * n_samples * rank + 2 * CACHED + 4 * n_samples + 10 * n_variables * n_bins * rank
    assert peak < 8 * numbers


# --- the level of the loss where it is estimated


@pytest.fixture
def few_triples_counted(monkeypatch):
    """As if six variables had too many triples."""
    monkeypatch.setattr(implicit, "MOST_COUNTED", 5)
    monkeypatch.setattr(implicit, "N_DRAWN", 12)
    monkeypatch.setattr(implicit, "FEWEST_DRAWN", 12)


@EVERY_KIND
def test_estimates_of_the_level_are_right_on_average(missing, weighted):
    rng = np.random.default_rng(2)
    codes = Codes.from_array(make_codes(rng, 200, N_BINS, missing), n_bins=N_BINS)
    exact = couple_codes(codes, rng.random(200) if weighted else None)
    model = random_model(N_BINS, 3)
    # All triples in every possible place of a part of seven.
    parts = [np.roll(exact.drawn, -i, axis=0)[:7] for i in range(len(exact.drawn))]
    estimates = [replace(exact, drawn=part).calibrated(model) for part in parts]
    np.testing.assert_allclose(np.mean([e.squared_norm for e in estimates]), exact.squared_norm, rtol=1e-10)
    assert all(e.squared_norm_error > 0 for e in estimates)
    deviation = np.std([e.squared_norm for e in estimates])
    assert 0.3 < np.mean([e.squared_norm_error for e in estimates]) / deviation < 3


def test_a_model_near_the_data_makes_the_estimate_better():
    rng = np.random.default_rng(2)
    codes = Codes.from_array(make_codes(rng, 2000, N_BINS, 0.0), n_bins=N_BINS)
    near = solve(codes, 2).factors
    coupled = replace(couple_codes(codes), drawn=couple_codes(codes).drawn[::2])
    errors = [coupled.calibrated(model).squared_norm_error for model in (random_model(N_BINS, 2), near)]
    assert errors[1] < errors[0] / 20
    assert abs(coupled.calibrated(near).squared_norm - couple_codes(codes).squared_norm) < 5 * errors[1]


def test_estimated_level_moves_all_losses_by_the_same_amount_and_leaves_the_sweeps(few_triples_counted):
    codes = Codes.from_array(make_codes(np.random.default_rng(1), 400, N_BINS, 0.2), n_bins=N_BINS)
    options = {"n_init": 3, "n_iter_max": 20, "tol": 0.0}
    implicit, counted = (solve(codes, form=form, **options) for form in ("implicit", "counted"))
    shift = implicit.loss - counted.loss
    assert shift != 0
    np.testing.assert_allclose(implicit.trace.loss - counted.trace.loss, shift, atol=1e-11)
    np.testing.assert_allclose(implicit.start_losses - counted.start_losses, shift, atol=1e-8)
    assert_same(implicit, counted, atol=1e-8)
    # The level is that of the triples drawn, at the factors that were found.
    expected, _ = couple_codes(codes).estimated_loss(implicit.factors)
    np.testing.assert_allclose(implicit.loss, expected, rtol=1e-9)


def test_a_level_below_zero_is_no_exact_fit(few_triples_counted):
    # A poor first model and samples with little noise: the level is off by more than the loss.
    values = make_codes(np.random.default_rng(1), 3000, N_BINS, 0.0)
    levels = []
    for seed in range(3):
        start, callback = random_model(N_BINS, 2, seed), lambda cp_tensor, loss: levels.append(loss)
        solution = solve(Codes.from_array(values, n_bins=N_BINS), 2, init=start, callback=callback)
        assert solution.status is StopReason.CONVERGED
        assert (solution.trace.loss > 0).all()
    assert min(levels) < 0


def test_share_of_triples_without_samples_is_estimated(few_triples_counted):
    values = make_codes(np.random.default_rng(0), 200, N_BINS, 0.0)
    values[::2, 0] = -1
    values[1::2, 1] = -1
    with pytest.warns(SparseHistogramWarning, match=r"About \d+\.\d% of all triples"):
        assert couple_codes(Codes.from_array(values, n_bins=N_BINS)).triples is None


# --- hostile input


@pytest.mark.parametrize("form", ["implicit", "counted"])
def test_samples_that_say_too_little(form):
    values = make_codes(np.random.default_rng(0), 50, N_BINS, 0.0)
    values[:, 3] = 1
    with pytest.warns(ConstantVariableWarning, match="'x3' are in one bin"):
        solved(Codes.from_array(values, n_bins=N_BINS), 1, loss="frobenius", form=form)
    values[:, 3] = -1
    values[0] = [0, -1, -1, 0, -1, -1]
    with pytest.raises(InvalidInputError, match=r"Variables \['x3'\] have no sample that is complete"):
        solve(Codes.from_array(values, n_bins=N_BINS), form=form)
    with pytest.raises(InvalidInputError, match="at least three are needed"):
        solve(Codes.from_array([[0, 1], [1, 0]]), form=form)
    with pytest.raises(InvalidInputError, match="11 components with 10 samples"):
        solve(Codes.from_array(make_codes(np.random.default_rng(0), 10, N_BINS, 0.0), n_bins=N_BINS), 11, form=form)


# --- histograms of single triples


def test_far_more_cells_than_samples():
    rng, n_bins = np.random.default_rng(0), (300, 2000, 4000)  # more cells than 32 bits hold
    values = np.column_stack([rng.integers(-1, size, 20) for size in n_bins])
    values[:3], weights = values[0].clip(0), rng.random(20)
    coupled = couple_codes(Codes.from_array(values, n_bins=n_bins), weights)
    complete = (values >= 0).all(axis=1)
    _, cell = np.unique(values[complete], axis=0, return_inverse=True)
    counts = np.bincount(cell.ravel(), weights[complete])
    np.testing.assert_allclose(coupled.squared_norm, (counts**2).sum() / counts.sum() ** 2)


@pytest.mark.parametrize(("n_samples", "n_drawn"), [(9, 20), (1000, 12)])
def test_part_that_is_drawn(monkeypatch, n_samples, n_drawn):
    monkeypatch.setattr(implicit, "MOST_COUNTED", 100)
    monkeypatch.setattr(implicit, "N_DRAWN", 20)
    monkeypatch.setattr(implicit, "FEWEST_DRAWN", 6)
    monkeypatch.setattr(implicit, "MOST_ENTRIES", 12_000)
    triples = draw_triples(12, n_samples)
    assert len(triples) == n_drawn
    assert (triples == draw_triples(12, n_samples)).all()
    assert np.ptp(np.bincount(triples.ravel(), minlength=12)) <= 1
    assert len(draw_triples(7, n_samples)) == 35
