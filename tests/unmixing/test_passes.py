"""One EM of densities and matrix: its gradient, its monotone objective, where it ends, and what it leaves alone."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorly_smp as smp
from tensorly_smp.likelihood.cells import choose_cells
from tensorly_smp.unmixing.passes import MixedSamples, Point, UnmixingCandidate, UnmixingEM, follow, log_densities_of
from tensorly_smp.unmixing.starts import within_covariance

MIXING = np.array([[1.0, 0.8, 0.1], [-0.2, 1.0, 0.6], [0.4, 0.1, 1.0]])


def standardized(X, categories=None, values=()):
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    categories = np.empty((len(X), 0)) if categories is None else categories
    return MixedSamples(X, np.ones(len(X)), categories, values)


@pytest.fixture(scope="module")
def data():
    return smp.datasets.make_smooth_mixture("gmm", 900, 3, 2, random_state=0)


@pytest.fixture(scope="module")
def samples(data):
    return standardized(data.X @ MIXING.T)


@pytest.fixture(scope="module")
def begun(data):
    return UnmixingCandidate(0.9 * np.eye(2)[data.labels] + 0.05, "test", unmixing=np.eye(3))


@pytest.fixture(scope="module")
def ended(samples, begun):
    return follow(samples, begun, 200, 1e-6)


@pytest.mark.parametrize("turn", [0.0, 0.1])
def test_the_gradient_is_that_of_the_objective(samples, begun, turn, monkeypatch):
    # At the maximum over densities the centers of the components may move along or stay: both have the same slope,
    # but for what the penalty holds back and the width of a cell.
    start = replace(begun, unmixing=np.eye(3) + turn * MIXING)
    fixed = follow(samples, start, 300, 1e-7, is_fixed=True)
    em = UnmixingEM(samples, fixed.fit.cells)
    em.penalty = fixed.fit.total_penalty
    em.set_prior(fixed.unmixing, fixed.posterior)
    point = Point(fixed.unmixing, fixed.fit.mixture)
    seen = {}

    def record(gradient, curvature):
        seen["gradient"] = gradient
        assert (curvature * curvature.T >= 1.0 - 1e-9).all()  # at least as much as Gaussian sources have
        return gradient

    monkeypatch.setattr("tensorly_smp.unmixing.passes.relative_step", record)
    expected, _ = em.evaluate(point)
    em.relative_step(point, expected)
    h = 1e-4
    for i, j in ((0, 1), (1, 0), (2, 1)):
        direction = np.zeros((3, 3))
        direction[i, j] = 1.0
        near = [Point((np.eye(3) + sign * h * direction) @ point.unmixing, point.mixture) for sign in (1, -1)]
        up, down = (em.evaluate(each)[1] for each in near)
        slope = (up - down) / (2 * h) / samples.total_weight / (1.0 + em.share)
        assert seen["gradient"][i, j] == pytest.approx(slope, abs=0.03)


def test_passes_raise_the_objective(ended, samples):
    assert ended.status.is_converged
    assert np.diff(ended.trace.loss).max() <= 1e-9
    assert ended.trace.loss[0] > ended.trace.loss[-1] + 0.1
    reached = log_densities_of(samples, ended).sum()
    assert reached == pytest.approx(ended.criterion + ended.fit.n_parameters, abs=1e-6 * samples.total_weight)
    again = follow(samples, ended, 200, 1e-6)
    assert again.trace.loss[-1] < ended.trace.loss[-1] + 0.01


def test_the_end_unmixes_and_decorrelates(samples, ended):
    pooled = within_covariance(samples.values @ ended.unmixing.T, ended.posterior, samples.weights)
    scale = np.sqrt(np.diag(pooled))
    assert np.abs(pooled / scale / scale[:, None] - np.eye(3)).max() < 0.1
    fixed = follow(samples, replace(ended, posterior=ended.posterior), 100, 1e-5, is_fixed=True)
    np.testing.assert_allclose(fixed.unmixing, ended.unmixing / (ended.unmixing / fixed.unmixing)[:, :1])


def test_discrete_variables_count(data):
    rng = np.random.default_rng(1)
    category = (rng.random(len(data.X)) < np.where(data.labels, 0.9, 0.1)).astype(float)[:, None]
    category[:5] = np.nan
    samples = standardized(data.X, category, (np.array([0.0, 1.0]),))
    start = UnmixingCandidate(0.8 * np.eye(2)[data.labels] + 0.1, "test", unmixing=np.eye(3))
    found = follow(samples, start, 5, 1e-5)
    hidden = replace(samples, categories=np.full_like(category, np.nan))
    difference = log_densities_of(samples, found) - log_densities_of(hidden, found)
    np.testing.assert_allclose(difference[:5], 0.0, atol=1e-12)
    assert (difference[5:] < 0).all()
    assert np.ptp(difference[5:]) > 0.5


@given(st.integers(0, 2**32 - 1))
def test_rows_are_shared_by_the_two_nearest_cells(seed):
    rng = np.random.default_rng(seed)
    samples = standardized(rng.standard_normal((40, 2)))
    em = UnmixingEM(samples, choose_cells(samples.values, 1, {}, None, samples.weights))
    unmixing = np.eye(2) + 0.3 * rng.standard_normal((2, 2))
    em.at(np.eye(2))
    found = em.at(unmixing)
    basis = em.cells.basis
    membership = found.on_grid.membership
    np.testing.assert_allclose(membership.sum(axis=1), 2.0)
    # The mean position of the cells is that of the source, where it is on the grid.
    low = em.cells.low[:, None]
    centers = (low + (em.cells.high[:, None] - low) * basis.centers).ravel()
    for i in range(2):
        rows = slice(i * basis.n_cells, (i + 1) * basis.n_cells)
        inside = found.off_grid[:, i] == 0
        place = membership[:, rows] @ centers[rows]
        np.testing.assert_allclose(place[inside], (samples.values @ unmixing.T)[inside, i], atol=1e-9)


def test_a_step_that_overflows_is_worth_nothing():
    samples = standardized(np.random.default_rng(0).standard_normal((40, 2)))
    em = UnmixingEM(samples, choose_cells(samples.values, 1, {}, None, samples.weights))
    em.at(np.eye(2))
    for value in (np.nan, np.inf):
        with np.errstate(all="ignore"):
            found = em.at(np.full((2, 2), value))
        assert found.rows.min() >= 0
        assert found.rows.max() < em.cells.offsets[-1]
        assert not np.isfinite(found.on_grid.log_volume)
