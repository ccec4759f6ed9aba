"""EM on bins: ascent, fixed points, weights, missing entries, symmetries, zeros, priors, endings, hostile input."""

import warnings
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import mixture_expectation
from rooms import arrays, assert_same

from tensorly_smp._support.iteration import StopReason
from tensorly_smp.codes.binning import Binning
from tensorly_smp.codes.encoding import Codes
from tensorly_smp.exceptions import ConvergenceWarning, EmptyComponentWarning, InvalidInputError, InvalidTypeError
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.likelihood.bins import refine_em
from tensorly_smp.metrics import factor_error

N_BINS = (4, 3, 5, 4, 3)


def make_factors(seed, rank=3, n_bins=N_BINS, concentration=1.0):
    rng = np.random.default_rng(seed)
    columns = [rng.dirichlet(np.full(size, concentration), rank).T for size in n_bins]
    return MixtureFactors(rng.dirichlet(np.full(rank, 5.0)), columns)


def make_codes(truth, n_samples=300, missing=0.0, seed=0):
    """Samples of the mixture; some rows lose all their entries where many are missing."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(truth.rank, n_samples, p=truth.weights)
    values = np.empty((n_samples, truth.n_variables), dtype=int)
    for n, a in enumerate(truth.factors):
        values[:, n] = (rng.random(n_samples)[:, None] > np.cumsum(a, axis=0).T[labels, :-1]).sum(axis=1)
    values[rng.random(values.shape) < missing] = -1
    return Codes.from_array(values, n_bins=truth.n_bins)


def refine(factors, codes, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", EmptyComponentWarning)
        return refine_em(factors, codes, **options)


def all_cells(truth):
    """Every cell as a sample, with its probability as weight: samples without sampling error."""
    values = np.stack(np.meshgrid(*(np.arange(size) for size in truth.n_bins), indexing="ij"), axis=-1)
    codes = Codes.from_array(values.reshape(-1, truth.n_variables), n_bins=truth.n_bins)
    return codes, np.exp(truth.log_joint(codes)).sum(axis=1)


def assert_on_the_simplex(factors):
    for array in arrays(factors):
        assert np.isfinite(array).all()
        assert (array > 0).all()
        np.testing.assert_allclose(array.sum(axis=0), 1.0, rtol=1e-12)


@given(
    seed=st.integers(0, 10_000),
    rank=st.integers(1, 6),
    missing=st.sampled_from([0.0, 0.3, 0.8]),
    smoothing=st.sampled_from([0.0, 0.1, 2.0]),
    is_weighted=st.booleans(),
)
def test_never_falls(seed, rank, missing, smoothing, is_weighted):
    codes = make_codes(make_factors(seed), 60, missing, seed)
    weights = np.random.default_rng(seed).exponential(size=60) if is_weighted else None
    start = make_factors(seed + 1, rank, concentration=0.2)
    solution = refine(start, codes, sample_weight=weights, smoothing=smoothing, tol=0, n_iter_max=150)
    trace = solution.trace
    assert (np.diff(trace.penalized) >= 0).all()
    assert (np.diff(trace.seconds) >= 0).all()
    assert trace.n_passes + 1 == len(trace.log_likelihood) == len(trace.penalized) == len(trace.seconds)
    assert_on_the_simplex(solution.factors)
    # The record is that of the factors.
    model = solution.factors
    value = mixture_expectation(codes.values, model.weights, model.factors, weights)[1]
    total = 60 if weights is None else weights.sum()
    np.testing.assert_allclose(solution.log_likelihood, value / total, rtol=1e-10, atol=1e-12)
    penalty = smoothing * sum(np.log(a).sum() for a in model.factors)
    np.testing.assert_allclose(trace.penalized[-1], (value + penalty) / total, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("extrapolate", [True, False])
def test_one_pass_is_the_step_of_em(extrapolate):
    truth, start = make_factors(0), make_factors(1)
    codes, weights = make_codes(truth, 80, 0.2), np.random.default_rng(0).exponential(size=80)
    options = {"sample_weight": weights, "smoothing": 0.4, "mixing": 0.0, "n_iter_max": 1, "extrapolate": extrapolate}
    with pytest.warns(ConvergenceWarning, match="after 1 passes"):
        found = refine_em(start, codes, **options).factors
    _, _, counts, component_counts = mixture_expectation(codes.values, start.weights, start.factors, weights)
    columns = [(c + 0.4) / (c + 0.4).sum(axis=0) for c in counts]
    assert_same(found, MixtureFactors(component_counts / weights.sum(), columns), atol=1e-12)


def test_truth_is_a_fixed_point_of_exact_data():
    truth = make_factors(2)
    codes, weights = all_cells(truth)
    solution = refine_em(truth, codes, sample_weight=weights, mixing=0.0, tol=1e-12)
    assert solution.status is StopReason.CONVERGED
    assert_same(solution.factors, truth, atol=1e-9)


def test_truth_is_reached_from_exact_zeros():
    truth = make_factors(3, concentration=3.0)
    codes, weights = all_cells(truth)
    columns = [np.where(a == a.min(axis=0), 0.0, a) for a in truth.factors]
    start = MixtureFactors(truth.weights, [a / a.sum(axis=0) for a in columns])
    found = refine_em(start, codes, sample_weight=weights, tol=1e-13, n_iter_max=5000).factors
    assert factor_error(found, truth) < 1e-4


def test_zeros_hold_without_mixing():
    truth = make_factors(3, concentration=3.0)
    codes, weights = all_cells(truth)
    columns = [a.copy() for a in truth.factors]
    columns[0][:, 0] = [0.0, 0.5, 0.25, 0.25]  # other components keep every sample possible
    start = MixtureFactors(truth.weights, columns)
    mixed, stuck = (refine_em(start, codes, sample_weight=weights, mixing=share, tol=1e-9) for share in (0.01, 0.0))
    assert stuck.factors.factors[0][0, 0] < 1e-20
    assert stuck.log_likelihood < mixed.log_likelihood


def test_weight_of_two_is_the_sample_twice_and_their_scale_that_of_the_smoothing():
    truth, start = make_factors(4), make_factors(5)
    codes = make_codes(truth, 100, 0.2)
    weights = np.random.default_rng(0).integers(0, 4, 100)
    repeated = Codes.from_array(np.repeat(codes.values, weights, axis=0), n_bins=N_BINS)
    one = refine_em(start, codes, sample_weight=weights, smoothing=0.1, tol=1e-7)
    other = refine_em(start, repeated, smoothing=0.1, tol=1e-7)
    np.testing.assert_allclose(one.trace.penalized, other.trace.penalized, rtol=1e-8)
    assert_same(one, other, atol=1e-6)
    for scale in (1e-300, 1e300):
        other = refine_em(start, codes, sample_weight=weights * scale, smoothing=0.1 * scale, tol=1e-7)
        assert_same(one, other, atol=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_maximum_is_that_of_plain_em(smoothing):
    truth = make_factors(6, concentration=0.5)
    codes = make_codes(truth, 500, 0.1)
    fast = refine_em(truth, codes, smoothing=smoothing, tol=1e-10, n_iter_max=5000)
    plain = refine_em(truth, codes, smoothing=smoothing, tol=1e-13, n_iter_max=20_000, extrapolate=False)
    assert fast.status is plain.status is StopReason.CONVERGED
    assert fast.trace.n_passes < plain.trace.n_passes / 2
    assert abs(fast.trace.penalized[-1] - plain.trace.penalized[-1]) < 1e-7
    assert_same(fast, plain, atol=1e-2)


def test_order_of_components_and_of_variables_changes_nothing():
    codes, start, order = make_codes(make_factors(7), 200, 0.2), make_factors(8), [3, 0, 4, 1, 2]
    shuffled = Codes.from_array(codes.values[:, order], n_bins=[N_BINS[n] for n in order])
    moved = start.permute([2, 0, 1])
    one = refine_em(start, codes).factors.permute([2, 0, 1])
    other = refine_em(MixtureFactors(moved.weights, [moved.factors[n] for n in order]), shuffled).factors
    assert_same(MixtureFactors(one.weights, [one.factors[n] for n in order]), other, atol=1e-6)


def test_samples_without_entries_leave_the_maximum_where_it_is():
    codes, start = make_codes(make_factors(9), 200), make_factors(10)
    empty = np.full((40, 5), -1)
    more = Codes.from_array(np.vstack([codes.values, empty]), n_bins=N_BINS)
    one, other = (refine_em(start, c, tol=1e-11, n_iter_max=5000) for c in (codes, more))
    assert abs(one.log_likelihood * 200 - other.log_likelihood * 240) < 1e-4
    # Without any entry the start stays.
    solution = refine_em(start, Codes.from_array(empty, n_bins=N_BINS), mixing=0.0)
    assert_same(solution, start, atol=1e-12)
    assert abs(solution.log_likelihood) < 1e-12


def test_empty_components_and_bins_and_constant_variables_stay_on_the_simplex():
    columns = [np.full((size, 2), 1 / size) for size in N_BINS]
    for a in columns:  # the second component has every sample in a bin that holds none
        a[:, 1] = np.eye(len(a))[-1]
    values = np.random.default_rng(0).integers(0, 2, (200, 5))
    codes = Codes.from_array(values, n_bins=N_BINS)
    with pytest.warns(EmptyComponentWarning, match="1 of 2 components is empty"):
        solution = refine_em(MixtureFactors([0.5, 0.5], columns), codes, mixing=0.0)
    assert_on_the_simplex(solution)
    assert solution.factors.weights[1] < 1e-50
    values[:, [0, 3]] = 2
    solution = refine(make_factors(12), Codes.from_array(values[:50], n_bins=N_BINS), tol=0)
    assert_on_the_simplex(solution)
    np.testing.assert_allclose(solution.factors.factors[0][2], 1.0)
    assert solution.factors.factors[3][[0, 1, 3]].max() <= 1.0001e-60


def test_smoothing_of_one_component_is_the_dirichlet_mode():
    codes = make_codes(make_factors(13), 40, 0.3)
    found = refine_em(make_factors(14, rank=1), codes, smoothing=0.5).factors
    for n, size in enumerate(N_BINS):
        counts = np.bincount(codes.values[codes.values[:, n] >= 0, n], minlength=size) + 0.5
        np.testing.assert_allclose(found.factors[n][:, 0], counts / counts.sum())


def test_start_is_recorded_mixed_and_not_modified():
    binning = Binning([np.linspace(0, 1, size + 1) for size in N_BINS])
    codes, start = Codes(make_codes(make_factors(16)).values, binning), make_factors(17)
    before = [a.copy() for a in start.factors]
    solution = refine(start, codes, mixing=0.0, n_iter_max=0)
    assert (solution.status, solution.trace.n_passes) == (StopReason.MAX_SWEEPS, 0)
    assert_same(solution, start, atol=1e-14)
    mixed = MixtureFactors(0.8 * start.weights + 0.2 / 3, [0.8 * a + 0.2 / len(a) for a in start.factors])
    assert_same(refine(start, codes, mixing=0.2, n_iter_max=0), mixed, atol=1e-12)
    assert refine_em(start, codes).factors.binning is binning
    assert all((a == b).all() for a, b in zip(start.factors, before, strict=True))


def test_callback_sees_every_pass_and_stops():
    codes, seen = make_codes(make_factors(20)), []

    def callback(factors, penalized):
        seen.append((factors, penalized))
        return len(seen) == 4

    solution = refine_em(make_factors(21), codes, smoothing=0.1, callback=callback)
    assert solution.status is StopReason.CALLBACK
    assert [value for _, value in seen] == solution.trace.penalized.tolist()
    assert_same(seen[-1][0], solution)


def test_interrupt_before_the_first_value_is_raised(monkeypatch):
    monkeypatch.setattr("tensorly_smp.likelihood.steps.expectation", mock.Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        refine_em(make_factors(21), make_codes(make_factors(20)))


BAD = {
    "codes are values": ((None, np.zeros((3, 5))), {}, InvalidTypeError, "codes is ndarray"),
    "factors are arrays": (([np.eye(3)], None), {}, InvalidTypeError, "factors is list"),
    "other bins": ((make_factors(0, n_bins=(4, 3, 5, 4, 2)), None), {}, InvalidInputError, "rows"),
    "fewer variables": ((make_factors(0, n_bins=(4, 3)), None), {}, InvalidInputError, "rows"),
    "smoothing negative": ((None, None), {"smoothing": -0.1}, InvalidInputError, "smoothing is -0.1"),
    "mixing above one": ((None, None), {"mixing": 1.5}, InvalidInputError, "mixing is 1.5"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    (factors, codes), options, error, message = BAD[case]
    truth = make_factors(0)
    with pytest.raises(error, match=message):
        refine_em(truth if factors is None else factors, make_codes(truth) if codes is None else codes, **options)
