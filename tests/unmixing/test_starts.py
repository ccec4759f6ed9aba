"""Starts of the search for an unmixing matrix: each finds the matrix where its own assumption holds exactly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorly_smp.unmixing.starts import (
    GAUSSIAN,
    Quadratics,
    diagonalizing_step,
    inverse_root,
    relative_step,
    shrinkage_to_diagonal,
    student_mixtures,
    within_covariance,
)

SEEDS = st.integers(0, 2**32 - 1)
DEGREES = np.full(2, GAUSSIAN)


@given(SEEDS)
def test_inverse_root(seed):
    factor = np.random.default_rng(seed).standard_normal((4, 9))
    covariance = factor @ factor.T
    root = inverse_root(covariance)
    np.testing.assert_allclose(root, root.T)
    np.testing.assert_allclose(root @ covariance @ root, np.eye(4), atol=1e-8)


def test_inverse_root_of_a_singular_matrix_is_finite():
    assert np.isfinite(inverse_root(np.ones((3, 3)))).all()
    assert np.isfinite(inverse_root(np.zeros((3, 3)))).all()


@given(SEEDS)
def test_within_covariance_is_that_of_the_residuals(seed):
    rng = np.random.default_rng(seed)
    values, weights = rng.standard_normal((30, 3)), rng.uniform(0.1, 2.0, 30)
    labels = rng.integers(2, size=30)
    means = np.stack([np.average(values[labels == r], axis=0, weights=weights[labels == r]) for r in range(2)])
    residuals = values - means[labels]
    expected = (residuals * weights[:, None]).T @ residuals / weights.sum()
    np.testing.assert_allclose(within_covariance(values, np.eye(2)[labels], weights), expected, atol=1e-12)


def test_shrinkage_by_the_number_of_samples():
    rng = np.random.default_rng(0)
    mixed = rng.standard_normal((5000, 5)) @ rng.standard_normal((5, 5))
    assert shrinkage_to_diagonal(mixed, np.ones(5000)) < 0.01
    assert 0.02 < shrinkage_to_diagonal(mixed[:20], np.ones(20)) < 1.0
    assert shrinkage_to_diagonal(rng.standard_normal((200, 5)), np.ones(200)) > 0.5
    # A weight of two is two samples.
    twice = shrinkage_to_diagonal(np.repeat(mixed[:20], 2, axis=0), np.ones(40))
    assert shrinkage_to_diagonal(mixed[:20], np.full(20, 2.0)) == pytest.approx(twice)


def joint_diagonalizer(covariances, shares):
    unmixing = np.broadcast_to(np.eye(covariances.shape[-1]), (*covariances.shape[:-3], *covariances.shape[-2:]))
    for _ in range(100):
        unmixing = diagonalizing_step(covariances, shares, unmixing)
    return unmixing


@given(SEEDS)
def test_joint_diagonalizer_of_matrices_that_share_one(seed):
    rng = np.random.default_rng(seed)
    mixing = np.linalg.qr(rng.standard_normal((4, 4)))[0] * np.array([1.0, 2.0, 3.0, 4.0])
    spectra = np.exp(rng.uniform(-1.5, 1.5, (6, 4)))
    covariances = np.einsum("ij,rj,kj->rik", mixing, spectra, mixing)
    found = joint_diagonalizer(covariances, np.full(6, 1 / 6))
    transformed = np.einsum("ij,rjk,lk->ril", found, covariances, found)
    diagonal = np.einsum("rii->ri", transformed)
    normalized = transformed / np.sqrt(diagonal[:, :, None] * diagonal[:, None, :])
    normalized[:, range(4), range(4)] = 0.0
    # Spectra of two sources may be nearly proportional, and then the search takes longer than it is given.
    assert np.abs(normalized).max() < 0.05


@given(SEEDS)
def test_moments_and_distances_of_groups(seed):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((30, 3))
    counts = rng.uniform(0.1, 1.0, (30, 2))
    factors = rng.standard_normal((2, 3, 3))
    quadratics = Quadratics(values)
    quadratics.blocks = [slice(0, 7), slice(7, 30)]
    means, second = quadratics.moments(counts)
    for r, (mean, own) in enumerate(zip(means, second, strict=True)):
        np.testing.assert_allclose(mean, np.average(values, axis=0, weights=counts[:, r]))
        expected = counts[:, r].sum() * np.cov(values.T, aweights=counts[:, r], ddof=0)
        np.testing.assert_allclose(own, expected, atol=1e-10)
    distances = quadratics.distances(means, factors.swapaxes(1, 2) @ factors)
    for own, mean, factor in zip(distances.T, means, factors, strict=True):
        np.testing.assert_allclose(own, (((values - mean) @ factor.T) ** 2).sum(axis=1), atol=1e-10)


@given(SEEDS)
def test_relative_step_is_that_of_the_quadratic_model(seed):
    rng = np.random.default_rng(seed)
    gradient = rng.standard_normal((3, 3)) * 0.01
    curvature = np.exp(rng.uniform(0.3, 1.5, (3, 3)))
    step = relative_step(gradient, curvature)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        hessian = np.array([[curvature[i, j], 1.0], [1.0, curvature[j, i]]])
        expected = np.linalg.solve(hessian, [gradient[i, j], gradient[j, i]])
        np.testing.assert_allclose([step[i, j], step[j, i]], expected)
    np.testing.assert_array_equal(np.diag(step), 0.0)
    # Curvatures of Gaussian sources with equal variances leave a rotation open.
    assert np.isfinite(relative_step(gradient, np.ones((3, 3)))).all()


def test_joint_diagonalizers_of_leading_axes_are_those_alone():
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((3, 4, 5, 9))
    covariances = factors @ factors.swapaxes(-1, -2)
    shares = rng.dirichlet(np.ones(4), 3)
    together = joint_diagonalizer(covariances, shares)
    for own, *problem in zip(together, covariances, shares, strict=True):
        np.testing.assert_allclose(own, joint_diagonalizer(*problem), atol=1e-5)


def test_gaussian_mixtures_find_groups():
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=1000)
    mixing = np.array([[1.0, 0.6], [0.0, 1.0]])
    values = rng.standard_normal((1000, 2)) * np.where(labels, 1.0, 0.3)[:, None] + 6.0 * labels[:, None]
    values = values @ mixing.T
    start = np.eye(2)[(values[:, 0] > 1.0).astype(int)]
    other = np.eye(2)[rng.integers(2, size=1000)]
    found = student_mixtures(values, np.ones(1000), np.stack([start, other]), DEGREES, 50, 1e-6)
    alone = student_mixtures(values, np.ones(1000), start[None], DEGREES[:1], 50, 1e-6)
    assert found[0][0] >= found[0][1] - 1e-3
    assert found[0][0] == pytest.approx(alone[0][0], abs=1e-4)
    posterior, unmixing = found[1][0], found[2][0]
    np.testing.assert_allclose(posterior.mean(axis=0), 0.5, atol=0.05)
    clusters = posterior.argmax(axis=1)
    assert max((clusters == labels).mean(), (clusters != labels).mean()) > 0.99
    within = unmixing @ np.stack([np.cov(values[labels == r].T) for r in (0, 1)]) @ unmixing.T
    np.testing.assert_allclose(within[:, 0, 1], 0.0, atol=0.1 * within[:, 0, 0].max())


def test_gaussian_mixtures_prefer_no_component_of_a_few_samples():
    rng = np.random.default_rng(0)
    groups = np.concatenate([rng.standard_normal((40, 4)), rng.standard_normal((40, 4)) + 3.0])
    values = np.concatenate([groups, 1.0 + 1e-3 * rng.standard_normal((4, 4))])
    starts = np.stack([np.arange(84) < 40, np.arange(84) < 80]).astype(float)
    found = student_mixtures(values, np.ones(84), np.stack([starts, 1.0 - starts], axis=2), DEGREES, 1, 0.0)
    assert found[0][0] > found[0][1]


def test_heavy_tails_keep_far_samples_in_their_group():
    rng = np.random.default_rng(0)
    labels = np.arange(400) % 2
    values = rng.standard_t(2.0, (400, 3)) + 5.0 * labels[:, None]
    start = np.eye(2)[labels][None]
    (gaussian, heavy), posteriors, _ = student_mixtures(
        values, np.ones(400), np.repeat(start, 2, axis=0), np.array([GAUSSIAN, 5.0]), 50, 1e-6
    )
    right = (posteriors.argmax(axis=2) == labels).mean(axis=1)
    assert heavy > gaussian + 0.1
    assert right[1] > right[0]


def test_gaussian_mixtures_of_few_samples_are_finite():
    values = np.random.default_rng(0).standard_normal((6, 8))
    for found in student_mixtures(values, np.ones(6), np.eye(6)[None], DEGREES[:1], 20, 1e-4):
        assert np.isfinite(found).all()
