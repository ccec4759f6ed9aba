"""Which cells suit a variable."""

import numpy as np
import pytest
from scipy import stats

from tensorly_smp.likelihood.cell_samples import CellSamples, on_best_cells
from tensorly_smp.likelihood.cells import choose_cells, curved_cells
from tensorly_smp.splines.penalties import effective_parameters
from tensorly_smp.splines.transforms import LINEAR

RANK = 2


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
    found, _, _ = laid.akaike_by_variable(expected, "aic")
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

    found, near = on_best_cells(
        assign_to_grid(cells), curved_cells(cells, values, RANK), assign_to_grid, posterior, "reml"
    )
    assert found.cells.transforms[0] is LINEAR
    assert not found.cells.transforms[1].is_linear
    assert found.cells.discrete == (2,)
    alone = assign_to_grid(cells)
    assert on_best_cells(alone, (), assign_to_grid, posterior, "reml")[0] is alone
    # What was found on the way is near what a search from the beginning finds.
    penalty, mixture = found.choose(found.counts_from_posterior(posterior), "reml")
    again, same = found.choose(found.counts_from_posterior(posterior), "reml", near)
    assert np.abs(np.log10(near[0] / penalty)).max() < 1.1
    np.testing.assert_allclose(np.log10(again / penalty), 0.0, atol=1.0)
    np.testing.assert_allclose(
        *(np.exp(found.log_tables(each)[: found.cells.first_value]) for each in (same, mixture)), atol=2e-3
    )
