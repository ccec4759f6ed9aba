"""Conditional densities: what the curves, bars, names and pages say."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.container import BarContainer
from shared import fit_quietly, lines, overlap

import tensorly_smp as smp
from tensorly_smp.densities.conditionals import DiscreteConditionals
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.plotting import plot_conditionals
from tensorly_smp.plotting.conditionals import data_edges
from tensorly_smp.plotting.style import component_style
from tensorly_smp.plotting.subject import VariableAxis, levels_of, read_subject, span


def stairs(ax, label):
    (found,) = [patch for patch in ax.patches if patch.get_label() == label]
    return found.get_data()


@pytest.mark.parametrize("kind", ["model", "em_model", "plain_model"])
def test_every_curve_is_a_density_and_their_mean_the_mixture(kind, request, data):
    model = request.getfixturevalue(kind)
    axes = plot_conditionals(model, data.X)
    assert axes.shape == (4,)
    for ax, name in zip(axes, model.binning_.variables, strict=True):
        drawn = lines(ax)
        assert set(drawn) == {"component 0", "component 1", "component 2", "mixture"}
        mixture = 0.0
        for r, weight in enumerate(model.weights_):
            x, y = drawn[f"component {r}"].get_data()
            assert np.trapezoid(y, x) == pytest.approx(1.0, abs=0.03)
            np.testing.assert_array_equal(y, model.density_.pdf_1d(x, name, r))
            mixture = mixture + weight * y
        np.testing.assert_allclose(drawn["mixture"].get_ydata(), mixture)


def test_colors_legend_data_and_numbers_of_the_axes(model, data):
    axes = plot_conditionals(model, data.X)
    for r in range(3):
        assert {lines(ax)[f"component {r}"].get_color() for ax in axes} == {component_style(r)["color"]}
    texts = [text.get_text() for text in axes[0].figure.legends[0].get_texts()]
    assert texts == [*(f"{r} ({weight:.2f})" for r, weight in enumerate(model.weights_)), "mixture", "data"]
    assert all(ax.get_legend() is None for ax in axes)
    for n, ax in enumerate(axes):
        low, high = ax.get_ylim()
        assert 3 <= np.sum((ax.get_yticks() >= low) & (ax.get_yticks() <= high)) <= 6
        heights, edges, _ = stairs(ax, "data")
        low, high = ax.get_xlim()
        inside = np.mean((data.X[:, n] >= edges[0]) & (data.X[:, n] <= edges[-1]))
        assert np.sum(heights * np.diff(edges)) == pytest.approx(inside)
        assert inside > 0.97
        assert low <= edges[0] < edges[-1] <= high
        top = ax.get_ylim()[1]
        assert heights.max() < top
        assert max(line.get_ydata().max() for line in ax.get_lines()) < top


def test_discrete_variables_are_bars_of_probability(mixed, mixed_model):
    axes = plot_conditionals(mixed_model, mixed)
    densities = ["density (per\nyears)", "density (per k€)"]
    assert [ax.get_ylabel() for ax in axes] == ["probability", "probability", *densities]
    assert [ax.get_xlabel() for ax in axes] == ["children", "smoker", "age (years)", "income (k€)"]
    assert [ax.get_title(loc="right") for ax in axes] == [f"{share:.0%} missing" for share in mixed.isna().mean()]
    assert [ax.get_title(loc="right") for ax in plot_conditionals(mixed_model)] == [""] * 4
    for ax, name in zip(axes[:2], ["children", "smoker"], strict=True):
        bars = {each.get_label(): each for each in ax.containers if isinstance(each, BarContainer)}
        assert set(bars) == {"component 0", "component 1", "data"}
        for r in range(2):
            heights = [bar.get_height() for bar in bars[f"component {r}"]]
            assert np.sum(heights) == pytest.approx(1.0, abs=0.01)
        shares = mixed[name].value_counts(normalize=True).sort_index()
        assert [bar.get_height() for bar in bars["data"]] == pytest.approx(shares.tolist())
        centers = [bar.get_x() + bar.get_width() / 2 for bar in bars["data"]]
        assert centers == pytest.approx(shares.index.tolist())
        assert not ax.get_lines()
        (mixture,) = [each for each in ax.collections if each.get_label() == "mixture"]
        table = mixed_model.result_.factors.sel(variable=name).dropna("bin").values @ mixed_model.weights_
        assert max(path.vertices[0, 1] for path in mixture.get_paths()) == pytest.approx(table.max())
    first = mixed_model.result_.factors.sel(variable="smoker", component=0).dropna("bin").values
    smoker = next(each for each in axes[1].containers if each.get_label() == "component 0")
    assert [bar.get_height() for bar in smoker] == pytest.approx([first[0], first[-1]], abs=1e-3)


def test_many_bars_are_steps():
    rng = np.random.default_rng(0)
    values = np.arange(20.0)
    binning = smp.Binning((None,) * 3, values={f"x{n}": values for n in range(3)})
    many = smp.MixtureFactors(np.full(5, 0.2), tuple(rng.dirichlet(np.ones(20), 5).T for _ in range(3)), binning)
    ax = plot_conditionals(many)[0]
    assert not ax.containers
    heights, found, _ = stairs(ax, "component 4")
    np.testing.assert_array_equal(found, np.arange(21.0) - 0.5)
    np.testing.assert_allclose(heights, many.factors[0][:, 4])


def test_thirty_variables_with_long_names_go_to_pages_without_overlap(factors):
    density = smp.reconstruct_density(factors, method="histogram")
    names, seen = factors.binning.variables, []
    for page in range(3):
        axes = plot_conditionals(density, page=page)
        figure = axes[0].figure
        seen += [ax.get_xlabel() for ax in axes]
        assert f"page={page}, the last is 2" in figure.get_suptitle()
    assert [int(text.replace("\n", " ").split("category ")[1][:2]) for text in seen] == list(range(len(names)))
    figure.draw_without_rendering()
    assert not overlap([*(ax.get_tightbbox() for ax in figure.axes), *figure.legends])
    with pytest.raises(InvalidInputError, match="page is 3; expected 0 to 2, for 30 variables"):
        plot_conditionals(density, page=3)


def test_long_tails_and_codes_are_cut_and_said_to_be(skewed, skewed_model):
    for ax, name in zip(plot_conditionals(skewed_model, skewed), skewed, strict=True):
        low, high = ax.get_xlim()
        lower, upper = np.quantile(skewed[name], [0.25, 0.75])
        assert high - low < 20 * (upper - lower), name
        outside = np.mean((skewed[name] < low) | (skewed[name] > high))
        assert outside < 0.1, name
        note = "" if name == "ordinary" else f"{outside:.0%} of the values lie outside"
        assert ax.get_title(loc="right") == note, name
    notes = [ax.get_title(loc="right") for ax in plot_conditionals(skewed_model)]
    assert [note.endswith("of the values lie outside") for note in notes] == [True, True, True, False]


def test_ordinary_values_are_not_cut_for_a_far_one():
    data = smp.datasets.make_smooth_mixture("gaussian", 800, n_variables=4, n_components=3, random_state=0)
    X = data.X.copy()
    X[0, :2] = 1e3
    model = fit_quietly(X, 3, n_init=1)
    subject = read_subject(model)
    for n, ax in enumerate(plot_conditionals(model, X)):
        low, high = ax.get_xlim()
        edges = subject.edges(n)
        if n < 2:  # those of the start, of the central samples only
            assert np.mean((X[:, n] < edges[0]) | (X[:, n] > edges[-1])) > 0.01
        assert np.mean((data.X[:, n] < low) | (data.X[:, n] > high)) < 0.003
        assert high - low < 1.3 * np.ptp(data.X[:, n])
        assert ax.get_title(loc="right") == ""
        # Every curve comes down to the axis.
        ends = model.density_.pdf_1d(np.array([low, high]), subject.names[n], "all")
        assert ends.max() < 0.01 * ax.get_ylim()[1]


def test_small_components_far_away_keep_both_sides_of_their_peak():
    data = smp.datasets.make_smooth_mixture("gaussian", 800, n_variables=4, n_components=3, random_state=0)
    X = data.X.copy()
    X[:4] = 40.0 + np.random.default_rng(0).normal(size=(4, 4))
    model = fit_quietly(X, 4, n_init=1)
    assert model.weights_[3] < 0.01
    for n, name in enumerate(model.binning_.variables):
        low, high = span(read_subject(model), n)
        below, above = model.density_.cdf_1d(np.array([low, high]), name, 3)
        assert below < 0.05 < 0.95 < above


def test_panels_end_at_bounds_and_below_towers():
    X = np.random.default_rng(0).gamma(1.0, size=(500, 3)) * [1.0, 1.0, -1.0]
    model = fit_quietly(X, 1, support={"x0": (0, None), "x2": (None, 0)})
    spans = [span(read_subject(model), n) for n in range(3)]
    assert spans[0][0] == spans[2][1] == 0.0
    assert spans[1][0] < 0.0
    # A towering component leaves the panel.
    binning = smp.Binning((np.linspace(0.0, 100.0, 101),) * 3)
    wide, narrow = np.full(100, 0.01), np.eye(100)[50]
    factor = np.stack([wide, narrow], axis=1)
    subject = smp.MixtureFactors(np.array([0.5, 0.5]), (factor,) * 3, binning)
    ax = plot_conditionals(smp.reconstruct_density(subject, method="histogram"))[0]
    assert ax.get_ylim()[1] < 0.1 < lines(ax)["component 1"].get_ydata().max()


@pytest.fixture(scope="module")
def crowded():
    """Twelve components; names and units of five lines."""
    rng = np.random.default_rng(0)
    names = tuple(f"mean annual income after taxes and transfers of household {n}" for n in range(4))
    binning = smp.Binning((np.linspace(0.0, 1.0, 16),) * 4, names)
    factors = tuple(rng.dirichlet(np.ones(15), 12).T for _ in names)
    return smp.reconstruct_density(smp.MixtureFactors(np.full(12, 1 / 12), factors, binning), method="histogram")


def test_many_components_and_long_units_leave_room_for_the_curves(crowded):
    X = pd.DataFrame(crowded.sample(50, random_state=0)[0], columns=crowded.variables)
    X.attrs["units"] = "constant euros of the year 2015 per household and year"
    for variables in (None, crowded.variables[0]):
        axes = plot_conditionals(crowded, X, variables)
        figure = axes[0].figure
        figure.draw_without_rendering()
        for ax in axes:
            assert ax.get_window_extent().height > 0.85 * figure.dpi  # inches
        boxes = [figure.get_tightbbox().x0, figure.get_tightbbox().y0]
        assert min(boxes) >= 0.0


def test_a_legend_of_many_components_stays_in_the_given_axes(crowded):
    _, axes = plt.subplots(2, 2, figsize=(6, 5), layout="constrained")
    legend = plot_conditionals(crowded, axes=axes)[0].get_legend()
    axes[0, 0].figure.draw_without_rendering()
    assert legend.get_window_extent().y0 > axes[0, 0].get_window_extent().y0
    assert [text.get_text() for text in legend.get_texts()] == [*(f"{r} (0.083)" for r in range(12)), "mixture"]


def test_bands_follow_the_curve_on_a_logarithmic_axis():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 600)
    X = np.exp(np.array([6.0, 11.0])[labels][:, None] + 0.5 * rng.normal(size=(600, 3)))
    model = smp.SmoothProductMixture(2, random_state=0).fit(X)
    ax = plot_conditionals(model, variables="x0", bootstrap=model.bootstrap(X, 3, random_state=0))[0]
    assert ax.get_xscale() == "log"
    peak = ax.get_ylim()[1]
    for r, band in enumerate(ax.collections):
        x, y = band.get_paths()[0].vertices.T
        curve = lines(ax)[f"component {r}"]
        assert (x > 0).all()
        assert np.abs(y - np.interp(x, *curve.get_data())).max() < 0.35 * peak  # the tails too, where points are few
        assert np.abs(y - np.interp(x, *curve.get_data()))[x < 100.0].max(initial=0.0) < 0.05 * peak


def test_only_narrow_components_far_from_all_others_are_cut():
    edges = np.concatenate([np.linspace(-1.0, 1.0, 21), np.linspace(2.0, 1000.0, 500)])
    rng = np.random.default_rng(0)
    narrow, far, wide = (np.zeros(len(edges) - 1) for _ in range(3))
    narrow[:20], far[-3:], wide[20:] = rng.dirichlet(np.full(20, 9.0)), 1 / 3, 1 / 500
    for other, is_cut in ((far, True), (wide, False)):
        factor = np.stack([narrow, other], axis=1)
        factors = smp.MixtureFactors(np.array([0.95, 0.05]), (factor,) * 3, smp.Binning((edges,) * 3))
        subject = read_subject(smp.reconstruct_density(factors, method="histogram"))
        assert (span(subject, 0)[1] < 20.0) == is_cut
        note = plot_conditionals(subject.density)[0].get_title(loc="right")
        assert (note == "5% of the values lie outside") == is_cut


def test_bars_of_rounded_data_are_whole_steps_wide():
    rounded = np.repeat(np.arange(60.0), 20)
    edges = data_edges(rounded, VariableAxis((-0.5, 59.5)))
    np.testing.assert_allclose(np.diff(edges) % 1.0, 0.0)
    counts, _ = np.histogram(rounded, edges)
    assert len(set(counts[:-1])) == 1
    smooth = np.random.default_rng(0).normal(size=1000)
    assert len(data_edges(smooth, VariableAxis((-3.0, 3.0)))) == 32


def levels_with(values, probabilities, samples=None):
    """Levels of a discrete variable of a single component."""
    item = DiscreteConditionals(np.array(values, dtype=float), np.array(probabilities)[:, None])
    return levels_of(read_subject(smp.MixtureDensity([1.0], (item,), ("x",))), 0, samples)


def test_levels_are_values_that_are_probable_or_near():
    one = levels_with([0.0, 1.0, 2.0], [0.0, 1.0, 0.0])
    assert (one.centers.tolist(), one.edges.tolist()) == ([1.0], [0.5, 1.5])
    some = levels_with([0.0, 1.0, 3.0], [0.5, 0.0, 0.5], np.array([[0.0], [1.0], [np.nan]]))
    assert (some.centers.tolist(), some.edges.tolist()) == ([0.0, 1.0, 3.0], [-0.5, 0.5, 2.0, 4.0])
    # Levels far away are cut.
    levels = levels_with([-999.0, -500.0, 0.0, 1.0, 2.0], [0.05, 0.0, 0.4, 0.3, 0.25])
    assert levels.centers.tolist() == [0.0, 1.0, 2.0]
    assert levels.edges[[0, -1]].tolist() == [-0.5, 2.5]  # not midway to what is left out
    assert levels_with(range(4), [0.97, 0.01, 0.01, 0.01]).centers.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_bad_input(model, data):
    with pytest.raises(InvalidInputError, match="unknown"):
        plot_conditionals(model, variables=["y"])
    with pytest.raises(InvalidInputError, match="X has 2 variables"):
        plot_conditionals(model, data.X[:, :2])
    with pytest.raises(InvalidInputError, match="do not match"):
        plot_conditionals(model, pd.DataFrame(data.X, columns=["a", "x1", "x2", "x3"]))
    with pytest.raises(InvalidTypeError, match="page is"):
        plot_conditionals(model, page="first")
    with pytest.raises(InvalidTypeError, match="matplotlib Axes"):
        plot_conditionals(model, axes=7)
    matrix = np.array([[0.7, 0.2], [0.3, 0.8]])
    with pytest.raises(InvalidInputError, match="plot_factors draws them"):
        plot_conditionals(smp.MixtureFactors(np.array([0.5, 0.5]), (matrix,) * 3))
    assert not plt.get_fignums()
