"""Moves to rivals: a pair of components as one, another one as two."""

import numpy as np
import pytest
from shared import ambiguous_groups

import tensorly_smp as smp
from tensorly_smp.likelihood.cells import choose_cells
from tensorly_smp.likelihood.em import smooth_em
from tensorly_smp.likelihood.steps import CellSamples
from tensorly_smp.search.moves import _mergeable, _valley, rival_moves

X, GROUPS = ambiguous_groups(600)


#: The two groups that are alike as one, and the third in halves.
WRONG = np.zeros((600, 3))
WRONG[GROUPS < 2, 0] = 1.0
WRONG[GROUPS == 2, 1 + (np.arange(200) % 2)] = 1.0


def fit_from(posterior, values=X):
    cells = choose_cells(values, posterior.shape[1], {})
    samples = CellSamples.assign_to_grid(values, cells)
    return samples, smooth_em(samples, posterior, n_iter_max=20)


def test_the_loss_of_a_merge_is_that_of_the_merged_mixture():
    samples, fit = fit_from(np.eye(3)[GROUPS])
    tables = samples.log_tables(fit.mixture)
    ((pair, loss),) = _mergeable(samples, fit, tables, fit.n_parameters / 3)
    assert pair in ((0, 1), (1, 0))
    weights = np.exp(fit.mixture.log_weights)
    merged = np.exp(tables[:, :2]) @ weights[:2] / weights[:2].sum()
    columns = np.column_stack([merged, np.exp(tables[:, 2])])
    after = samples.e_step(np.log([weights[:2].sum(), weights[2]]), np.log(columns)).log_likelihood
    before = samples.expect(fit.mixture, np.zeros(fit.penalty.size))[0].log_likelihood
    assert loss == pytest.approx(before - after, rel=1e-6)
    assert -1.0 < loss < fit.n_parameters / 3  # fewer nats than parameters: the two differ in one variable


def test_from_the_right_answer_another_group_is_two():
    samples, fit = fit_from(np.eye(3)[GROUPS])
    moves = rival_moves(samples, fit, X)
    assert moves
    for move in moves:
        assert move.origin == "move"
        np.testing.assert_allclose(move.posterior.sum(axis=1), 1.0)
        np.testing.assert_allclose(move.posterior[:, 0], fit.posterior[:, :2].sum(axis=1))
        np.testing.assert_allclose(move.posterior[:, 1:].sum(axis=1), fit.posterior[:, 2])


def test_from_the_wrong_answer_the_group_with_two_peaks_is_two():
    samples, fit = fit_from(WRONG)
    found = [smp.metrics.clustering_accuracy(GROUPS, move.clusters) for move in rival_moves(samples, fit, X)]
    assert max(found) > 0.99


def test_missing_entries_share_the_sides_of_a_valley():
    holes = X.copy()
    holes[::7, 2] = np.nan
    samples, fit = fit_from(WRONG, holes)
    moves = [
        move
        for move in rival_moves(samples, fit, holes)  # the last two as one, in halves of the first
        if np.allclose(move.posterior[:, 1], fit.posterior[:, 1:].sum(axis=1))
    ]
    assert moves
    missing = np.isnan(holes[:, 2]) & (GROUPS < 2)
    halves = moves[0].posterior[missing][:, [0, 2]]
    np.testing.assert_allclose(halves.std(axis=0), 0.0, atol=0.05)


def test_clear_groups_have_no_moves_and_two_components_may_be_one_that_is_two_in_another_way():
    data = smp.datasets.make_smooth_mixture("gaussian", 600, 5, 3, random_state=0)
    assert rival_moves(*fit_from(np.eye(3)[data.labels], data.X), data.X) == []
    assert rival_moves(*fit_from(np.ones((600, 1))), X) == []
    values, groups = X[GROUPS < 2], GROUPS[GROUPS < 2]
    moves = rival_moves(*fit_from(np.eye(2)[groups], values), values)
    assert moves
    for move in moves:
        np.testing.assert_allclose(move.posterior.sum(axis=1), 1.0)


@pytest.mark.parametrize(
    ("density", "expected"),
    [
        ([1, 3, 5, 3, 1], None),
        ([2, 6, 2, 1, 3, 5, 2], 3),
        ([5, 9, 8, 7, 8, 9, 5], None),  # not deep
        ([40, 50, 40, 1, 2], None),  # next to nothing on the right
    ],
)
def test_valleys(density, expected):
    assert _valley(np.array(density) / np.sum(density)) == expected
