"""Pair plots: contours hold their shares, and panels the variables that they say."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.contour import ContourSet
from matplotlib.path import Path
from shared import overlap

import tensorly_smp as smp
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.plotting import plot_pairs
from tensorly_smp.plotting.pairs import most_telling, region_heights
from tensorly_smp.plotting.style import component_style
from tensorly_smp.plotting.subject import read_subject


def contours(ax):
    return [each for each in ax.collections if isinstance(each, ContourSet)]


def test_contours_hold_their_shares_of_their_component(model):
    ax = plot_pairs(model, variables=["x0", "x2"])[1, 0]
    drawn = contours(ax)
    assert len(drawn) == 3
    X, labels = model.density_.sample(20_000, random_state=0)
    X = np.asarray(X)
    for r, each in enumerate(drawn):
        outer, inner = each.get_paths()
        mine = X[labels == r][:, [0, 2]]
        shares = [_inside(path, mine).mean() for path in (outer, inner)]
        assert shares == pytest.approx([0.8, 0.4], abs=0.05)
        assert (each.get_edgecolor() == plt.matplotlib.colors.to_rgba(component_style(r)["color"])).all()


def _inside(path, points):
    """Whether points are inside an odd number of the closed lines of a path."""
    lines = [Path(vertices) for vertices in path.to_polygons(closed_only=False)]
    return np.sum([line.contains_points(points) for line in lines], axis=0) % 2 == 1


def test_regions_of_a_gaussian_have_known_heights():
    x = np.linspace(-5, 5, 301)
    surface = np.exp(-0.5 * (x[:, None] ** 2 + x**2))
    areas = np.full(surface.shape, (x[1] - x[0]) ** 2)
    # Outside the height h of its peak, a Gaussian of two dimensions has the share h.
    np.testing.assert_allclose(region_heights(surface, areas, (0.8, 0.4)), [0.2, 0.6], atol=0.01)
    assert region_heights(np.ones((3, 3)), np.ones((3, 3)), (0.8, 0.4)) == []


def test_samples_have_the_color_of_their_most_probable_component(model, data):
    ax = plot_pairs(model, data.X, variables=["x1", "x3"])[1, 0]
    scatters = [each for each in ax.collections if not isinstance(each, ContourSet)]
    labels = model.predict(data.X)
    assert len(scatters) == 3
    for r, points in enumerate(scatters):
        np.testing.assert_array_equal(points.get_offsets(), data.X[labels == r][:, [1, 3]])
        assert plt.matplotlib.colors.to_hex(points.get_facecolor()[0]).upper() == component_style(r)["color"].upper()


def test_names_and_what_is_visible(mixed, mixed_model):
    axes = plot_pairs(mixed_model, mixed)
    assert axes.shape == (4, 4)
    assert [ax.get_xlabel() for ax in axes[3]] == ["children", "smoker", "age (years)", "income (k€)"]
    assert [ax.get_ylabel() for ax in axes[1:, 0]] == ["smoker", "age (years)", "income (k€)"]
    np.testing.assert_array_equal(
        [[ax.get_visible() for ax in row] for row in axes], np.tril(np.ones((4, 4), dtype=bool))
    )
    axes[0, 0].figure.draw_without_rendering()
    (legend,) = axes[0, 0].figure.legends
    assert [text.get_text()[:2].strip() for text in legend.get_texts()] == ["0", "1", "da"]


def test_samples_of_discrete_variables_are_spread_around_their_value(mixed, mixed_model):
    axes = plot_pairs(mixed_model, mixed, ["age", "smoker"])
    assert [label.get_text() for label in axes[1, 1].get_xticklabels()] == ["0", "1"]
    assert axes[1, 0].get_yticks().tolist() == [0.0, 1.0]
    scatters = [each for each in axes[1, 0].collections if not isinstance(each, ContourSet)]
    x = np.concatenate([np.ma.filled(each.get_offsets()[:, 1], np.nan) for each in scatters])
    x = x[~np.isnan(x)]
    assert len(np.unique(x)) > 100
    assert (np.abs(x - np.round(x)) <= 0.3).all()


def test_variables_that_tell_most_are_shown():
    rng = np.random.default_rng(0)
    same = np.repeat(rng.dirichlet(np.ones(5))[:, None], 2, axis=1)
    apart = np.array([[0.5, 0.0], [0.5, 0.0], [0.0, 0.0], [0.0, 0.5], [0.0, 0.5]])
    binning = smp.Binning.from_n_bins([5] * 7)
    columns = [same, apart, same, apart, apart, same, apart]
    factors = smp.MixtureFactors(np.array([0.5, 0.5]), tuple(columns), binning)
    assert most_telling(read_subject(factors), 4) == [1, 3, 4, 6]
    density = smp.reconstruct_density(factors, method="histogram")
    assert most_telling(read_subject(density), 4) == [1, 3, 4, 6]


def test_a_note_says_what_is_shown(model, data):
    def note(axes):
        (text,) = axes[0, 0].texts
        return text.get_text().replace("\n", " ")

    assert note(plot_pairs(model, data.X)) == "Contours hold 40% and 80% of a component"
    columns = tuple(np.random.default_rng(0).dirichlet(np.ones(5), 8).T for _ in range(6))
    factors = smp.MixtureFactors(np.full(8, 1 / 8), columns, smp.Binning.from_n_bins([5] * 6))
    density = smp.reconstruct_density(factors, method="histogram")
    X = density.sample(2000, random_state=0)[0]
    said = note(plot_pairs(density, X))
    assert said.startswith("The 4 of 6 variables that tell the components apart best")
    assert "The contour holds 80% of a component" in said
    assert said.endswith("1500 of 2000 samples are drawn")
    assert "variables" not in note(plot_pairs(density, variables=["x0", "x1"]))


def test_many_components_have_one_contour_each_and_none_without_weight():
    rng = np.random.default_rng(0)
    columns = tuple(rng.dirichlet(np.ones(6), 8).T for _ in range(3))
    weights = np.array([0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1, 0.0])
    factors = smp.MixtureFactors(weights, columns, smp.Binning.from_n_bins([6] * 3))
    ax = plot_pairs(smp.reconstruct_density(factors, method="histogram"))[1, 0]
    assert [len(each.get_paths()) for each in contours(ax)] == [1] * 7


@pytest.mark.parametrize("variables", [["x0", "x1"], ["x0", "x1", "x2"]])
def test_legend_in_given_axes_lies_on_nothing(model, variables):
    side = len(variables)
    figure, axes = plt.subplots(side, side, figsize=(6, 6))
    plot_pairs(model, variables=variables, axes=axes)
    figure.draw_without_rendering()
    box = axes[0, 0].get_legend().get_window_extent()
    others = [*(ax for ax in axes.ravel() if ax.get_visible()), *axes[0, 0].texts]
    assert not any(overlap([box, other]) for other in others)


def test_bad_input(model, factors):
    for variables in (["x0"], "x0"):
        with pytest.raises(InvalidInputError, match=r"1 variable\(s\) for pairs; expected 2 to 8"):
            plot_pairs(model, variables=variables)
    with pytest.raises(InvalidInputError, match=r"9 variable\(s\) for pairs"):
        plot_pairs(factors, variables=factors.binning.variables[:9])
    _, axes = plt.subplots(2, 2)
    assert plot_pairs(model, variables=["x0", "x1"], axes=axes).tolist() == axes.tolist()
    with pytest.raises(InvalidInputError, match="axes are 4; expected at least 9"):
        plot_pairs(model, variables=["x0", "x1", "x2"], axes=axes)
