"""Smoothed EM: ascent, identities, symmetries, difficult variables, hostile input."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorly_smp as smp
from tensorly_smp._support.iteration import StopReason
from tensorly_smp.likelihood.cells import choose_cells
from tensorly_smp.likelihood.em import smooth_em, smooth_em_together
from tensorly_smp.likelihood.steps import CellSamples


def fit(values, posterior, sample_weight=None, shape=None, **options):
    cells = choose_cells(values, posterior.shape[1], sample_weight=sample_weight, shape=shape)
    return smooth_em(CellSamples.assign_to_grid(values, cells, sample_weight), posterior, **options)


def check(result):
    """What holds of every result."""
    for number in np.unique(result.rounds):
        trace = result.trace[result.rounds == number]
        assert (np.diff(trace) >= -1e-11 * np.abs(trace[1:])).all()
    mixture = result.mixture
    assert np.exp(mixture.log_weights).sum() == pytest.approx(1.0)
    for part in (mixture.coefficients, mixture.tables, result.penalty, result.posterior, result.trace):
        assert np.isfinite(part).all()
    np.testing.assert_allclose(result.posterior.sum(axis=1), 1.0)
    assert np.isfinite([result.log_likelihood, result.n_parameters]).all()


def mixed_values(rng, n_samples):
    """Smooth, rounded, binary and integer variables of two clusters."""
    shift = np.repeat([0.0, 3.0], [n_samples // 2, n_samples - n_samples // 2])
    columns = [
        rng.normal(shift),
        np.round(rng.normal(-shift, 2.0), 0),
        (rng.random(n_samples) < 0.2 + 0.2 * shift).astype(float),
        rng.exponential(1.0 + shift),
    ]
    return np.column_stack(columns)


@given(st.integers(0, 10**6), st.integers(1, 5), st.booleans(), st.sampled_from([None, "log-concave"]))
@settings(max_examples=25, deadline=None)
def test_penalized_likelihood_never_falls(seed, rank, weighted, shape):
    rng = np.random.default_rng(seed)
    values = mixed_values(rng, 60)
    values[rng.random(values.shape) < 0.2] = np.nan
    weights = rng.uniform(0, 3, 60) if weighted else None
    result = fit(values, rng.dirichlet(np.ones(rank), 60), weights, shape)
    check(result)
    if shape:
        assert np.diff(result.mixture.coefficients, 2, axis=0).max() < 1e-9 * np.abs(result.mixture.coefficients).max()


@pytest.mark.parametrize("kind", ["gaussian", "gamma", "laplace"])
def test_stays_near_the_truth(kind):
    X, _, truth = smp.datasets.make_smooth_mixture(kind, 1000, 5, 3, random_state=0)
    result = fit(X, truth.posterior(X))
    check(result)
    assert result.status is StopReason.CONVERGED
    agreement = (result.posterior.argmax(axis=1) == truth.predict(X)).mean()
    assert agreement > 0.9
    np.testing.assert_allclose(np.exp(result.mixture.log_weights), truth.weights, atol=0.08)


def test_a_sample_of_weight_two_is_the_sample_twice():
    rng = np.random.default_rng(1)
    values, posterior = mixed_values(rng, 80), rng.dirichlet([1, 1], 80)
    weights = rng.integers(0, 4, 80)
    one = fit(values, posterior, weights.astype(float))
    other = fit(np.repeat(values, weights, axis=0), np.repeat(posterior, weights, axis=0))
    np.testing.assert_allclose(one.mixture.coefficients, other.mixture.coefficients, rtol=1e-5, atol=1e-6)
    assert one.log_likelihood == pytest.approx(other.log_likelihood, rel=1e-8)


def test_order_of_components_and_samples_changes_nothing():
    rng = np.random.default_rng(2)
    values, posterior = mixed_values(rng, 100), rng.dirichlet([2, 1, 1], 100)
    order, rows = [2, 0, 1], rng.permutation(100)
    # To the end: what rounding does to an iteration that stops early is as large as its tolerance.
    one = fit(values, posterior, tol=1e-11, n_iter_max=5000)
    other = fit(values[rows], posterior[rows][:, order], tol=1e-11, n_iter_max=5000)
    np.testing.assert_allclose(other.mixture.log_weights, one.mixture.log_weights[order], atol=1e-5)
    # Of 400 nats; the optimum is flat, and old releases of NumPy add in another order.
    assert other.log_likelihood == pytest.approx(one.log_likelihood, abs=5e-5)


def test_samples_without_entries_say_nothing():
    rng = np.random.default_rng(3)
    values, posterior = mixed_values(rng, 60), rng.dirichlet([1, 1], 60)
    one = fit(values, posterior)
    cells = choose_cells(values, 2)
    samples = CellSamples.assign_to_grid(np.vstack([values, np.full((5, 4), np.nan)]), cells)
    more = smooth_em(samples, np.vstack([posterior, np.full((5, 2), 0.5)]))
    np.testing.assert_allclose(more.mixture.log_weights, one.mixture.log_weights, atol=1e-9)
    assert more.log_likelihood == pytest.approx(one.log_likelihood)
    np.testing.assert_allclose(more.posterior[60:], np.exp(more.mixture.log_weights)[None].repeat(5, 0))


def test_component_of_three_samples_and_of_none():
    rng = np.random.default_rng(5)
    values = rng.normal(size=(100, 3))
    values[:3] = 40.0 + rng.normal(size=(3, 3))
    posterior = np.zeros((100, 3))
    posterior[:3, 0] = 1.0
    posterior[3:, 1] = 1.0
    result = fit(values, posterior)
    check(result)
    assert result.posterior[:3, 0].min() > 0.99
    equal = np.where(np.arange(100)[:, None] < 3, 40.0, values)
    check(fit(equal, posterior))


def test_few_samples_few_passes_and_interrupts_that_keep_what_was_reached():
    rng = np.random.default_rng(6)
    check(fit(rng.normal(size=(4, 3)), rng.dirichlet([1, 1], 4)))
    values, posterior = rng.normal(size=(100, 3)), rng.dirichlet([1, 1], 100)
    for n_passes in (0, 1, 4):
        short = fit(values, posterior, n_iter_max=n_passes, tol=0.0)
        check(short)
        assert (short.status, short.n_passes) == (StopReason.MAX_SWEEPS, n_passes)
        assert len(short.trace) == n_passes + 1
        interrupt = mock.Mock(side_effect=[None] * n_passes + [KeyboardInterrupt])
        stopped = fit(values, posterior, callback=interrupt, tol=0.0)
        assert stopped.status is StopReason.INTERRUPTED
        np.testing.assert_array_equal(stopped.posterior, short.posterior)
        np.testing.assert_array_equal(stopped.trace, short.trace)


def test_one_component_is_the_density_of_all_samples():
    values = np.random.default_rng(7).normal(size=(1000, 3))
    result, other = fit(values, np.ones((1000, 1))), fit(1e3 * values, np.ones((1000, 1)))
    cells = result.cells
    p = np.exp(cells.basis.log_probabilities(result.mixture.coefficients[:, 0]))[:, 0]
    centers = cells.low[0] + cells.basis.centers * (cells.high[0] - cells.low[0])
    assert p @ centers == pytest.approx(values[:, 0].mean(), abs=1e-3)
    assert p @ centers**2 == pytest.approx((values[:, 0] ** 2).mean(), rel=0.01)
    assert 6.0 - 1e-6 <= result.n_parameters < 12.0
    # The likelihood is of densities: on other cells, and in other units, up to the change of units.
    assert other.log_likelihood == pytest.approx(result.log_likelihood - 3000 * np.log(1e3), rel=1e-9)
    assert result.log_likelihood == pytest.approx(3000 * (-0.5 * np.log(2 * np.pi * np.e)), rel=0.03)


@given(st.integers(0, 10**6), st.floats(0.0, 3.0), st.booleans())
def test_every_m_step_climbs(seed, distance, weighted):
    # From any mixture, also one that no M-step has made: the guard in the passes is for rounding errors only.
    rng = np.random.default_rng(seed)
    values = mixed_values(rng, 60)
    values[rng.random(values.shape) < 0.2] = np.nan
    samples = CellSamples.assign_to_grid(values, choose_cells(values, 3), rng.uniform(0, 3, 60) if weighted else None)
    penalty, mixture = samples.choose(samples.counts_from_posterior(rng.dirichlet(np.ones(3), 60)), "reml")
    vector = mixture.pack()
    mixture = samples.feasible(vector + distance * rng.standard_normal(vector.shape), mixture)
    for _ in range(4):
        expected, before = samples.expect(mixture, penalty)
        mixture = samples.maximize(expected, mixture, penalty)
        assert samples.expect(mixture, penalty)[1] >= before - 1e-9 * abs(before)


def test_an_extrapolated_mixture_is_one():
    rng = np.random.default_rng(10)
    values = mixed_values(rng, 60)
    samples = CellSamples.assign_to_grid(values, choose_cells(values, 2))
    _, mixture = samples.choose(samples.counts_from_posterior(rng.dirichlet(np.ones(2), 60)), "reml")
    vector = mixture.pack()
    again = mixture.unpack(vector)
    for name in ("log_weights", "coefficients", "tables"):
        np.testing.assert_allclose(getattr(again, name), getattr(mixture, name), atol=1e-12)
    moved = samples.feasible(vector + rng.standard_normal(vector.shape), mixture)
    offsets, tables = samples.cells.offsets, np.exp(samples.log_tables(moved))
    np.testing.assert_allclose(np.add.reduceat(tables, offsets[:-1], axis=0), 1.0)
    assert np.exp(moved.log_weights).sum() == pytest.approx(1.0)


def test_extrapolated_passes_end_where_plain_ones_do():
    rng = np.random.default_rng(11)
    values = np.concatenate([rng.normal(size=(200, 3)), rng.normal([1.5, 1.5, -1.5], size=(200, 3))])
    posterior = np.repeat([[0.7, 0.3], [0.3, 0.7]], 200, axis=0)
    result = fit(values, posterior, n_rounds=1, n_iter_max=2000, tol=1e-10)
    samples = CellSamples.assign_to_grid(values, result.cells)
    penalty, mixture = samples.choose(samples.counts_from_posterior(posterior), "reml")
    plain = []
    while len(plain) < 2 or plain[-1] - plain[-2] > 1e-10 * 400:
        expected, value = samples.expect(mixture, penalty)
        plain.append(value)
        mixture = samples.maximize(expected, mixture, penalty)
    assert len(result.trace) < len(plain)
    assert result.trace[-1] == pytest.approx((plain[-1] - samples.log_volume) / 400, abs=1e-6)


def test_fits_together_end_as_they_do_in_turn():
    rng = np.random.default_rng(16)
    values = mixed_values(rng, 200)
    samples = CellSamples.assign_to_grid(values, choose_cells(values, 3), rng.integers(0, 3, 200).astype(float))
    starts = [rng.dirichlet(np.ones(rank), 200) for rank in (2, 3, 1, 3)]
    options = dict(tol=1e-7, n_iter_max=60)
    warm = smooth_em(samples, starts[1], n_rounds=1, **options)
    warm_starts = [None, (warm.total_penalty, warm.mixture), None, None]
    together = smooth_em_together(samples, starts, warm_starts=warm_starts, **options)
    for start, known, found in zip(starts, warm_starts, together, strict=True):
        alone = smooth_em(samples, start, warm_start=known, **options)
        assert found.status is alone.status
        assert found.akaike == pytest.approx(alone.akaike, rel=1e-7)
        np.testing.assert_allclose(found.posterior, alone.posterior, atol=1e-4)


HOSTILE = {
    "normal": lambda z, rng: z,
    "rounded": lambda z, rng: np.round(z, 1),
    "constant": lambda z, rng: np.full(len(z), 3.7),
    "binary": lambda z, rng: np.round(rng.random(len(z))),
    "far apart": lambda z, rng: 1e12 * np.round(rng.random(len(z))) + z,
    "close": lambda z, rng: 1.0 + 1e-12 * z,
    "half equal": lambda z, rng: np.where(rng.random(len(z)) < 0.5, 0.0, z),
    "many equal": lambda z, rng: np.where(rng.random(len(z)) < 0.9, 0.0, 1e9 * z),
    "heavy": lambda z, rng: rng.standard_cauchy(len(z)),
    "huge": lambda z, rng: 8e307 * np.tanh(z),
    "tiny": lambda z, rng: 1e-320 * np.round(100 * z),
    "cliff": lambda z, rng: rng.gamma(0.2, size=len(z)),
}


@given(
    kinds=st.lists(st.sampled_from(list(HOSTILE)), min_size=1, max_size=4),
    n_samples=st.sampled_from([2, 3, 5, 40, 150]),
    rank=st.sampled_from([1, 2, 8]),
    missing=st.sampled_from([0.0, 0.3, 0.8]),
    weighted=st.booleans(),
    criterion=st.sampled_from(["reml", "aic", "bic"]),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=30)
def test_hostile_input(kinds, n_samples, rank, missing, weighted, criterion, seed):
    rng = np.random.default_rng(seed)
    values = np.column_stack([HOSTILE[kind](rng.normal(size=n_samples), rng) for kind in kinds])
    lost = rng.random(values.shape) < missing
    lost[rng.integers(n_samples), lost.all(axis=0)] = False  # every variable has a value
    values[lost] = np.nan
    weights = rng.integers(0, 3, n_samples).astype(float) if weighted else None
    if weighted:
        weights[~lost.all(axis=1)] += 0.1
    posterior = rng.dirichlet(np.full(rank, 0.1), n_samples)
    cells = choose_cells(values, rank, sample_weight=weights)
    result = smooth_em(
        CellSamples.assign_to_grid(values, cells, weights), posterior, criterion=criterion, n_iter_max=20
    )
    check(result)
    n_smooth, n_values = len(cells.smooth), sum(map(len, cells.values))
    least, most = 2 * n_smooth, (cells.basis.n_basis - 1) * n_smooth + n_values
    assert rank * least - 1e-3 <= result.n_parameters - (rank - 1) <= rank * most


def test_parameters_of_discrete_variables_are_free_probabilities():
    values = np.column_stack([np.repeat([0.0, 4.0], 30), np.repeat([1.0, 2.0, 3.0], 20), np.full(60, 2.0)])
    cells = choose_cells(values, 2)
    result = smooth_em(CellSamples.assign_to_grid(values, cells), np.random.default_rng(13).dirichlet([1, 1], 60))
    assert result.n_parameters == 1 + 2 * (1 + 2)
    assert result.mixture.coefficients.size == 0
    check(result)


def test_a_variable_that_only_samples_of_no_weight_have():
    rng = np.random.default_rng(14)
    values, weights = rng.normal(size=(50, 2)), np.repeat([1.0, 0.0], 25)
    values[:25, 1] = np.nan
    cells = choose_cells(values, 2, sample_weight=weights)
    check(smooth_em(CellSamples.assign_to_grid(values, cells, weights), rng.dirichlet([1, 1], 50)))
