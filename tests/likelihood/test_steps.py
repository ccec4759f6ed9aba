"""The E-step and its plain-loop twin, missing entries, blocks of samples, zeros; and which cells suit a variable."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import mixture_expectation
from scipy import stats

from tensorly_smp.codes.encoding import Codes, one_hot
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.likelihood import steps as module
from tensorly_smp.likelihood.cells import choose_cells, curved_cells
from tensorly_smp.likelihood.em import akaike_by_variable, on_best_cells
from tensorly_smp.likelihood.steps import SMALLEST_PROBABILITY, CellSamples, expectation, log_floored, log_joint
from tensorly_smp.splines.basis import LINEAR
from tensorly_smp.splines.log_spline import effective_parameters

RANK = 2


def make_problem(seed, rank=3, n_samples=30, missing=0.3, n_bins=(3, 2, 5, 4)):
    rng = np.random.default_rng(seed)
    values = np.column_stack([rng.integers(0, size, n_samples) for size in n_bins])
    values[rng.random(values.shape) < missing] = -1
    columns = [rng.dirichlet(np.ones(size), rank).T for size in n_bins]
    model = MixtureFactors(rng.dirichlet(np.ones(rank)), columns)
    return Codes.from_array(values, n_bins=n_bins), model, rng.exponential(size=n_samples)


def run(codes, model, sample_weight=None):
    return expectation(
        one_hot(codes), log_floored(model.weights), log_floored(np.concatenate(model.factors)), sample_weight
    )


@given(
    seed=st.integers(0, 10_000),
    rank=st.integers(1, 5),
    missing=st.sampled_from([0.0, 0.3, 0.9, 1.0]),
    is_weighted=st.booleans(),
)
def test_agrees_with_loops(seed, rank, missing, is_weighted):
    codes, model, weights = make_problem(seed, rank, missing=missing)
    weights = weights if is_weighted else None
    result = run(codes, model, weights)
    posterior, log_likelihood, counts, component_counts = mixture_expectation(
        codes.values, model.weights, model.factors, weights
    )
    np.testing.assert_allclose(result.posterior, posterior, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(result.log_likelihood, log_likelihood, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(result.counts, np.concatenate(counts), rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(result.component_counts, component_counts, rtol=1e-10)
    joint = log_joint(one_hot(codes), np.log(model.weights), np.log(np.concatenate(model.factors)))
    np.testing.assert_allclose(joint, model.log_joint(codes), rtol=1e-12)


def test_blocks_of_samples_change_nothing_and_arguments_are_left_alone(monkeypatch):
    codes, model, weights = make_problem(3)
    arguments = [one_hot(codes), np.log(model.weights), np.log(np.concatenate(model.factors)), weights]
    before = [array.copy() for array in arguments]
    whole, unweighted = expectation(*arguments), expectation(*arguments[:3])
    monkeypatch.setattr(module, "_BLOCK", 7)
    for expected, parts in ((whole, expectation(*arguments)), (unweighted, expectation(*arguments[:3]))):
        for name in ("posterior", "log_likelihood", "counts", "component_counts"):
            np.testing.assert_allclose(getattr(parts, name), getattr(expected, name), rtol=1e-12)
    assert all(abs(now - then).max() == 0 for now, then in zip(arguments, before, strict=True))


def test_impossible_samples_and_many_variables_stay_finite():
    # 2000 variables at the smallest probability: the product would be 1e-120000.
    tables = np.tile([[0.0, 0.0], [1.0, 1.0]], (2000, 1))
    codes = Codes.from_array(np.zeros((3, 2000), dtype=int), n_bins=2)
    result = expectation(one_hot(codes), np.log([0.25, 0.75]), log_floored(tables))
    np.testing.assert_allclose(result.log_likelihood, 3 * 2000 * np.log(SMALLEST_PROBABILITY))
    np.testing.assert_allclose(result.posterior, [[0.25, 0.75]] * 3, rtol=1e-9)


@pytest.fixture(scope="module")
def two_components():
    """A Gaussian, a Laplace and a discrete variable, and the true posteriors."""
    rng = np.random.default_rng(0)
    labels = np.arange(3000) % RANK
    values = np.column_stack(
        [rng.normal(size=3000) + 2.0 * labels, rng.laplace(size=3000) + 0.3 * labels, rng.integers(0, 3, 3000)]
    )
    logs = [stats.norm.logpdf(values[:, 0], 2.0 * r) + stats.laplace.logpdf(values[:, 1], 0.3 * r) for r in range(RANK)]
    posterior = np.exp(np.stack(logs, axis=1))
    cells = choose_cells(values, RANK)
    return values, posterior / posterior.sum(axis=1, keepdims=True), cells


def test_information_is_likelihood_less_effective_parameters(two_components):
    values, posterior, cells = two_components
    laid = CellSamples.assign_to_grid(values, cells)
    expected = laid.counts_from_posterior(posterior)
    found = akaike_by_variable([laid], posterior, "aic")[0][0]
    penalty, mixture = laid.choose(expected, "aic")
    rho = penalty / laid.shares(expected.counts)[1]
    table = laid.log_tables(mixture)
    for i in (0, 1):
        width = (cells.high[i] - cells.low[i]) / cells.basis.n_cells
        column = cells.positions(values)[:, i].astype(int) + cells.offsets[i]
        likelihood = sum(posterior[m] @ (table[column[m]] - np.log(width)) for m in range(len(values)))
        own = slice(i * RANK, (i + 1) * RANK)
        effective_df = effective_parameters(cells.basis, mixture.columns[:, own], rho[own]).sum()
        assert found[i] == pytest.approx(likelihood - effective_df, abs=3.0)  # with every other penalty only


def test_a_sharp_peak_with_tails_gets_another_coordinate_and_a_gaussian_keeps_its_own(two_components):
    values, posterior, cells = two_components

    def assign_to_grid(other):
        return CellSamples.assign_to_grid(values, other)

    found, warm_start = on_best_cells(
        assign_to_grid(cells), curved_cells(cells, values, RANK), assign_to_grid, posterior, "reml"
    )
    assert found.cells.transforms[0] is LINEAR
    assert not found.cells.transforms[1].is_linear
    assert found.cells.discrete == (2,)
    alone = assign_to_grid(cells)
    assert on_best_cells(alone, (), assign_to_grid, posterior, "reml")[0] is alone
    # What was found on the way is near what a search from the beginning finds.
    penalty, mixture = found.choose(found.counts_from_posterior(posterior), "reml")
    again, same = found.choose(found.counts_from_posterior(posterior), "reml", warm_start)
    assert np.abs(np.log10(warm_start[0] / penalty)).max() < 1.1
    np.testing.assert_allclose(np.log10(again / penalty), 0.0, atol=1.0)
    np.testing.assert_allclose(
        *(np.exp(found.log_tables(each)[: found.cells.first_value]) for each in (same, mixture)), atol=2e-3
    )
