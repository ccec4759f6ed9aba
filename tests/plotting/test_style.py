"""What pictures share: pages, axes, colors."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from shared import overlap

from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.plotting import style


@given(st.integers(1, 60), st.integers(1, 15))
def test_pages_are_a_partition(n_items, per_page):
    items = list(range(n_items))
    n_pages = -(-n_items // per_page)
    pages = [style.page_of(items, page, per_page)[0] for page in range(n_pages)]
    assert [item for each in pages for item in each] == items
    assert all(1 <= len(page) <= per_page for page in pages)
    with pytest.raises(InvalidInputError, match=f"page is {n_pages}; expected 0 to {n_pages - 1}"):
        style.page_of(items, n_pages, per_page)


def test_components_differ_in_color_or_line():
    styles = [style.component_style(r) for r in range(28)]
    assert len({str(each) for each in styles}) == 28
    assert [each["linestyle"] for each in styles[:7]] == ["-"] * 7
    assert [style.component_style(r, is_point=True)["color"] for r in range(28)] == [each["color"] for each in styles]


@given(st.text(max_size=40), st.integers(12, 40))
def test_names_fit_and_nothing_of_them_is_lost(name, width):
    lines = style.wrapped(name, width).split("\n")
    assert all(0 < len(line) <= width for line in lines)
    if name.strip():
        assert "".join("".join(lines).split()) == "".join(name.split())


def test_names_are_broken_where_a_reader_would():
    assert style.wrapped("concentration of carbon (mg m-2)", 28) == "concentration of carbon (mg\nm-2)"
    assert style.wrapped("air_temperature_of_the_morning", 20) == "air_temperature_\nof_the_morning"
    assert style.wrapped(("a", 1), 12) == "('a', 1)"
    assert style.wrapped("word " * 1000, 12).count("\n") == style.MOST_LINES - 1


@pytest.mark.parametrize("n_panels", [1, 7])
def test_new_panels_do_not_overlap(n_panels):
    places = style.panels(None, n_panels)
    places[0].figure.draw_without_rendering()
    assert places.shape == (n_panels,)
    assert not overlap([ax.get_tightbbox() for ax in places])


def test_given_axes_are_used_unless_they_are_none():
    _, axes = plt.subplots(2, 2)
    places = style.panels(axes, 3)
    assert places.tolist() == axes.ravel()[:3].tolist()
    assert [ax.axison for ax in axes.ravel()] == [True, True, True, False]
    assert style.panels(axes[0, 0], 1).tolist() == [axes[0, 0]]
    assert style.panels(axes.ravel().tolist(), 1).tolist() == [axes[0, 0]]
    # Axes that are none.
    _, ax = plt.subplots()
    with pytest.raises(InvalidInputError, match="axes are 1; expected at least 2"):
        style.panels(ax, 2)
    for wrong in ("axes", 3, {"a": ax}, [], [ax, "b"], [xr.Dataset({"a": ("b", [1.0])})]):
        with pytest.raises(InvalidTypeError, match="expected matplotlib Axes"):
            style.panels(wrong, 1)
    with pytest.raises(InvalidTypeError, match="expected matplotlib Axes"):
        style.single_axes(ax.figure)


@pytest.mark.parametrize("n_labels", [1, 25])
def test_legend_fits_the_figure(n_labels):
    fig, ax = plt.subplots(figsize=(5, 4), layout="constrained")
    for r in range(n_labels):
        ax.plot([0, 1], [r, r], label=f"component {r}")
    labels = [f"{r} (of {n_labels})" for r in range(n_labels)]
    style.component_legend(np.array([ax]), labels, "title", is_new=True)
    fig.draw_without_rendering()
    (legend,) = fig.legends
    assert [text.get_text() for text in legend.get_texts()] == labels
    assert legend.get_window_extent().width <= fig.bbox.width


@pytest.mark.parametrize("values", [[1.0], [1.0, 200.0], [1e-16, 1.0]])
def test_logarithmic_ticks_are_few(values):
    fig, ax = plt.subplots()
    values = np.array(values)
    ax.plot(values, ".")
    style.log_ticks(ax.yaxis, values)
    fig.draw_without_rendering()
    assert ax.get_yscale() == "log"
    low, high = ax.get_ylim()
    labels = [*ax.get_yticklabels(), *ax.get_yticklabels(minor=True)]
    seen = {label.get_text() for label in labels if low <= label.get_position()[1] <= high} - {""}
    assert 1 <= len(seen) <= 24
    _, ax = plt.subplots()
    style.log_ticks(ax.yaxis, np.array([np.nan, 0.0, -1.0]))
    assert ax.get_yscale() == "linear"


def test_figsize_is_of_new_figures_and_methods_take_it(model, data):
    size = (4.5, 3.5)
    drawn = [
        model.plot(data.X, figsize=size)[0],
        model.plot.factors(figsize=size)[0],
        model.plot.loss(figsize=size)[0],
        model.plot.pairs(figsize=size)[0, 0],
        model.plot.identifiability(figsize=size)[0],
        model.plot.independence(data.X, figsize=size),
    ]
    assert [tuple(ax.figure.get_size_inches()) for ax in drawn] == [size] * len(drawn)
    for wrong in (3.0, (1.0, 2.0, 3.0), (0.0, 4.0), (np.nan, 4.0), (4.0, 1e9)):
        with pytest.raises(InvalidInputError, match="figsize"):
            model.plot.factors(figsize=wrong)
    with pytest.raises(InvalidTypeError):
        model.plot.loss(figsize="big")
