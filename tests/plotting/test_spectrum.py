"""Singular values of the pair block: of exact histograms they are those of the factors."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import tensorly_smp as smp
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.plotting import plot_singular_values
from tensorly_smp.plotting.spectrum import model_singular_values
from tensorly_smp.plotting.subject import read_subject


def mixture(rank, n_variables=6, n_bins=4, seed=0):
    rng = np.random.default_rng(seed)
    columns = tuple(rng.dirichlet(np.ones(n_bins), rank).T for _ in range(n_variables))
    return smp.MixtureFactors(rng.dirichlet(np.full(rank, 5.0)), columns)


@pytest.mark.parametrize("rank", [1, 2, 3, 7])
def test_values_are_those_of_the_pair_block_itself(rank):
    factors = mixture(rank)
    groups = smp.default_partition(6).sets
    first, second = (np.concatenate([factors.factors[n] for n in group]) for group in groups[:2])
    block = first @ np.diag(factors.weights) @ second.T
    scaled = block / np.sqrt(np.outer(first @ factors.weights, second @ factors.weights))
    expected = np.linalg.svd(scaled, compute_uv=False)
    found = model_singular_values(read_subject(factors))
    assert found[0] == pytest.approx(np.sqrt(len(groups[0]) * len(groups[1])))
    size = min(rank, len(expected))
    np.testing.assert_allclose(found[:size], expected[:size], atol=1e-12)
    np.testing.assert_allclose(found[size:], 0.0, atol=1e-12)


def test_a_component_too_many_has_a_zero():
    factors = mixture(2)
    repeated = smp.MixtureFactors(
        np.append(factors.weights * 0.7, 0.3), tuple(np.column_stack([a, a[:, 0]]) for a in factors.factors)
    )
    drawn = {line.get_label(): line for line in plot_singular_values(repeated).get_lines()}
    assert drawn["zero"].get_xdata().tolist() == [3]
    assert drawn["singular values of the fitted factors"].get_xdata().tolist() == [2]
    ax = plot_singular_values(mixture(2))
    assert ax.get_ylim()[0] == 0.0  # how near to zero is what there is to see
    assert "the harder it is to see" in ax.get_title()
    lines = {line.get_label(): line for line in ax.get_lines()}
    assert lines["number of components: 2"].get_xdata() == [2, 2]
    plot_singular_values(mixture(1)).figure.canvas.draw()


@pytest.mark.parametrize("rank", [2, 3, 5])
def test_legend_is_above_the_values_and_the_title_inside(rank):
    figure, ax = plt.subplots(figsize=(4, 3), layout="constrained")
    plot_singular_values(mixture(rank), ax)
    figure.canvas.draw()
    bottom = ax.transData.inverted().transform(ax.get_legend().get_window_extent().p0)[1]
    assert bottom > ax.get_lines()[0].get_ydata().max()
    title = ax.title.get_window_extent()
    assert figure.bbox.x0 <= title.x0 < title.x1 <= figure.bbox.x1


def test_of_samples_as_in_a_selection(model, data):
    ax = plot_singular_values(model, X=data.X)
    drawn = {line.get_label(): line for line in ax.get_lines()}
    assert drawn["singular values"].get_xdata().tolist() == [2, 3, 4, 5, 6]
    table = smp.select_n_components(data.X, [3], random_state=0, n_init=1, refine=None, n_bins=6)
    np.testing.assert_allclose(drawn["singular values"].get_ydata(), table["singular_values"][1:])
    np.testing.assert_allclose(drawn["shuffled samples"].get_ydata(), table["shuffled_singular_values"][1:])


def test_missing_entries(mixed, mixed_model):
    assert plot_singular_values(mixed_model, X=mixed).get_yscale() == "log"


def test_bad_input(model):
    with pytest.raises(InvalidTypeError, match="expected the Dataset of select_n_components, a fitted model"):
        plot_singular_values([1.0])
    with pytest.raises(InvalidInputError, match="MixtureDensity has no factors"):
        plot_singular_values(model.density_)
    matrix = np.array([[0.7, 0.2], [0.3, 0.8]])
    with pytest.raises(InvalidInputError, match="at least three"):
        plot_singular_values(smp.MixtureFactors(np.array([0.5, 0.5]), (matrix,) * 2))
    for X in (np.full((5, 4), np.nan), np.ones((1, 4))):
        with pytest.raises(InvalidInputError, match="fewer than two samples"):
            plot_singular_values(model, X=X)
