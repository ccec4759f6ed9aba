"""Starts of the search for an unmixing matrix: each finds the matrix where its own assumption holds exactly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorly_smp.unmixing.starts import (
    gaussian_mixture,
    independent_components,
    inverse_root,
    joint_diagonalizer,
    relative_step,
    shrinkage_to_diagonal,
    within_covariance,
)

SEEDS = st.integers(0, 2**32 - 1)


def off_diagonal(product):
    """Largest entry of the rows beside the largest of each."""
    sizes = np.sort(np.abs(product) / np.abs(product).max(axis=1, keepdims=True), axis=1)
    return sizes[:, :-1].max()


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


def test_independent_components():
    rng = np.random.default_rng(0)
    sources = rng.uniform(-1.0, 1.0, (4000, 4)) * np.sqrt(3.0)
    turned = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    found = independent_components(sources @ turned.T, np.ones(4000), rng)
    np.testing.assert_allclose(found @ found.T, np.eye(4), atol=1e-10)
    assert off_diagonal(found @ turned) < 0.1


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


@pytest.mark.parametrize("share", [None, 0.0, 0.1])
def test_gaussian_mixture_finds_groups(share):
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=1000)
    mixing = np.array([[1.0, 0.6], [0.0, 1.0]])
    values = rng.standard_normal((1000, 2)) * np.where(labels, 1.0, 0.3)[:, None] + 6.0 * labels[:, None]
    values = values @ mixing.T
    start = np.eye(2)[(values[:, 0] > 1.0).astype(int)]
    reached, shares, covariances, posterior, unmixing = gaussian_mixture(values, np.ones(1000), start, 50, 1e-6, share)
    np.testing.assert_allclose(shares, 0.5, atol=0.05)
    np.testing.assert_allclose(sorted(covariances[:, 1, 1]), [0.09, 1.0], rtol=0.2)
    clusters = posterior.argmax(axis=1)
    assert max((clusters == labels).mean(), (clusters != labels).mean()) > 0.99
    # With the variances of both groups proportional, any map that decorrelates them is as good.
    if share == 0.0:
        full, *_ = gaussian_mixture(values, np.ones(1000), start, 50, 1e-6)
        assert reached == pytest.approx(full, abs=0.01)
        within = np.einsum("ij,rjk,lk->ril", unmixing, covariances, unmixing)
        assert np.abs(within[:, 0, 1]).max() < 0.1 * np.abs(within[:, 0, 0]).max()


@pytest.mark.parametrize("share", [None, 0.5])
def test_gaussian_mixture_of_few_samples_is_finite(share):
    values = np.random.default_rng(0).standard_normal((6, 8))
    reached, _, covariances, posterior, unmixing = gaussian_mixture(values, np.ones(6), np.eye(6), 20, 1e-4, share)
    assert np.isfinite([reached, covariances.sum(), unmixing.sum()]).all()
    np.testing.assert_allclose(posterior.sum(axis=1), 1.0)
