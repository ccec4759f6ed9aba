"""The flattest direction of a likelihood: against its information matrix, cell by cell, and cases known to be flat."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import tensorly_smp as smp
from tensorly_smp.exceptions import IdentifiabilityWarning

WEIGHTS = np.array([0.4, 0.6])
CLEAR = np.array([[0.85, 0.2], [0.8, 0.15], [0.9, 0.3], [0.75, 0.1], [0.8, 0.25]])
#: Two informative items and one of noise: weights and probabilities lie on a curve of models of the same distribution.
FLAT = np.array([[0.9, 0.2], [0.8, 0.1], [0.5, 0.5]])


def draw(probabilities, n_samples, seed):
    rng = np.random.default_rng(seed)
    classes = rng.choice(2, size=n_samples, p=WEIGHTS)
    return (rng.random((n_samples, len(probabilities))) < probabilities[:, classes].T).astype(float)


def fit_flat(X):
    """A fit that may say so itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentifiabilityWarning)
        return smp.SmoothProductMixture(2, random_state=0).fit(X)


def flattest(model, X):
    refit = model._refit(X)
    samples = refit.assign_to_grid(X)
    return refit.flattest(samples, refit.posterior(samples))


def information(weights, probabilities, X):
    """Fisher's information of items and of items with classes, in log odds; sums over the samples, one by one."""
    n_items = len(probabilities)
    observed, complete = np.zeros((2, 1 + 2 * n_items, 1 + 2 * n_items))
    for x in X:
        scores = np.zeros((2, 1 + 2 * n_items))
        joint = weights.copy()
        for r in range(2):
            scores[r, 0] = (1 - r) - weights[0]
            for n, p in enumerate(probabilities[:, r]):
                scores[r, 1 + 2 * n + r] = x[n] - p
                joint[r] *= p if x[n] else 1 - p
        posterior = joint / joint.sum()
        mean = posterior @ scores
        observed += np.outer(mean, mean)
        complete += sum(p * np.outer(score, score) for p, score in zip(posterior, scores, strict=True))
    return observed, complete


def test_its_information_is_the_smallest_eigenvalue():
    """EM leaves of an error what is missing of the information (Dempster, Laird and Rubin 1977)."""
    X = draw(CLEAR, 2000, 0)
    model = smp.SmoothProductMixture(2, tol=1e-9, random_state=0).fit(X)
    found = flattest(model, X)
    weights, tables = model.weights_, np.stack([factor[1] for factor in model.factors_.factors])
    observed, complete = information(weights, tables, X)
    roots = np.linalg.inv(np.linalg.cholesky(complete))
    smallest = np.linalg.eigvalsh(roots @ observed @ roots.T)[0]
    assert found.information == pytest.approx(smallest, rel=0.05)  # of scores, where that of EM has second derivatives
    assert found.deviation == pytest.approx((2000 * found.information) ** -0.5)
    assert not found.is_flat


@pytest.mark.parametrize("seed", [0, 1])
def test_a_flat_likelihood_is_reported_and_replicates_spread_along_it(seed):
    """Seed 0 ends where an item's probabilities are 0 and 1: a border, where the fit alone looks determined."""
    X = draw(FLAT, 3000, seed)
    model = fit_flat(X)
    with pytest.warns(IdentifiabilityWarning, match=r"next to flat.*fewer components, or measure more variables"):
        found = model.bootstrap(X, 40, random_state=0)
    assert (found.weights.std("replicate") > 0.05).all()  # with classes known: .009


def test_replicates_from_along_the_direction_end_as_high():
    X = draw(FLAT, 3000, 1)
    refit = fit_flat(X)._refit(X)
    samples = refit.assign_to_grid(X)
    posterior = refit.posterior(samples)
    flat = refit.flattest(samples, posterior)
    assert "component(s) 0, 1," in str(flat.warning())

    def end(direction, seed):
        mixture, _, _ = refit.again(samples, X, posterior, direction, np.random.default_rng(seed))
        return np.exp(mixture.log_weights[0]), samples.expect(mixture, np.zeros(0))[1][0]

    _, highest = end(replace(flat, information=0.1), 0)  # as if it were not flat: from where the fit ended
    weights, values = np.transpose([end(flat, seed) for seed in range(10)])
    assert values.min() > highest - 1.0
    assert np.ptp(weights) > 0.1
