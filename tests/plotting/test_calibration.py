"""Reliability diagram: matching, points and their errors."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError, SizeLimitError
from tensorly_smp.metrics import clustering_accuracy
from tensorly_smp.plotting import plot_calibration
from tensorly_smp.plotting.calibration import match_classes
from tensorly_smp.plotting.style import component_style


def pooled(ax):
    (line,) = [line for line in ax.get_lines() if line.get_label() == "all classes"]
    x, y = line.get_data()
    return x[~np.isnan(x)], y[~np.isnan(y)]  # NaN where the line breaks off


def calibrated(n_samples, seed=0):
    """Probabilities of three components, and labels that are drawn from them."""
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.full(3, 0.5), n_samples)
    return probabilities, np.array([rng.choice(3, p=p) for p in probabilities])


def test_calibrated_probabilities_are_on_the_diagonal():
    probabilities, labels = calibrated(4000)
    x, y = pooled(plot_calibration(probabilities, labels))
    assert len(x) == 10
    np.testing.assert_allclose(x, y, atol=0.06)
    sharp = probabilities**3 / (probabilities**3).sum(axis=1, keepdims=True)
    x, y = pooled(plot_calibration(sharp, labels))
    assert (y[:3] > x[:3]).all()
    assert (y[-3:] < x[-3:] - 0.05).all()


def test_points_are_those_of_a_plain_loop():
    probabilities, labels = calibrated(300)
    x, y = pooled(plot_calibration(probabilities, labels, n_bins=4))
    for b in range(4):
        pairs = [
            (p, labels[m] == r)
            for m, row in enumerate(probabilities)
            for r, p in enumerate(row)
            if b / 4 <= p < (b + 1) / 4 or (b == 3 and p == 1.0)
        ]
        assert x[b] == pytest.approx(np.mean([p for p, _ in pairs]))
        assert y[b] == pytest.approx(np.mean([is_right for _, is_right in pairs]))


def test_order_of_components_and_names_of_classes_do_not_matter():
    probabilities, labels = calibrated(300)
    x, y = pooled(plot_calibration(probabilities, labels))
    names = np.array(["_hidden", "b$", "c$"], dtype=object)[labels]
    ax = plot_calibration(pd.DataFrame(probabilities[:, [2, 0, 1]]), pd.Series(names))
    np.testing.assert_allclose(pooled(ax), (x, y))
    backwards = plot_calibration(pd.DataFrame(probabilities), pd.Series(labels).iloc[::-1])
    np.testing.assert_allclose(pooled(backwards), (x, y))
    by_label = {line.get_label(): line for line in ax.get_lines()}
    assert by_label["class _hidden (component 1)"].get_color() == component_style(1)["color"]
    assert by_label[r"class b\$ (component 2)"].get_color() == component_style(2)["color"]
    ax.figure.canvas.draw()


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**31))
def test_matching_is_one_to_one_as_far_as_there_are_as_many(rank, n_classes, seed):
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, 20)])
    posterior = rng.dirichlet(np.ones(rank), len(codes))
    matching = match_classes(posterior, codes, n_classes)
    assert len(set(matching)) == min(rank, n_classes)
    hard = np.eye(rank)[rng.integers(0, rank, len(codes))]
    found = match_classes(hard, codes, n_classes)
    if rank <= n_classes:
        accuracy = np.mean(found[hard.argmax(axis=1)] == codes)
        assert accuracy == pytest.approx(clustering_accuracy(codes, hard.argmax(axis=1)))


def test_components_left_over_are_added_to_their_class():
    probabilities, labels = calibrated(500)
    split = np.column_stack([probabilities[:, 0] * 0.5, probabilities, probabilities[:, 0] * 0.0])
    split[:, 1] -= split[:, 0]
    np.testing.assert_allclose(pooled(plot_calibration(split, labels)), pooled(plot_calibration(probabilities, labels)))


def test_classes_without_component_count_as_wrong():
    labels = np.array([0] * 50 + [1] * 50)
    x, y = pooled(plot_calibration(np.ones((100, 1)), labels))
    assert (x.tolist(), y.tolist()) == ([0.0, 1.0], [0.5, 0.5])


def test_axes_names_and_legend():
    probabilities, labels = calibrated(300)
    _, ax = plt.subplots()
    assert plot_calibration(probabilities, labels, ax=ax) is ax
    assert ax.get_legend() is not None
    assert ax.get_ylabel() == "share of samples that are of it"
    new = plot_calibration(probabilities, labels)
    texts = [text.get_text() for text in new.figure.legends[0].get_texts()]
    assert "all classes" in texts
    assert sum(text.startswith("class ") for text in texts) == 3
    # Twenty classes: only the line of all.
    many = np.full((400, 20), 0.05)
    assert (
        len(plot_calibration(many, np.arange(400) % 20).get_lines())
        == len(plot_calibration(many, np.zeros(400)).get_lines()) - 1
    )


def test_a_line_joins_neighboring_bins_only():
    probabilities = np.repeat([0.95, 0.85, 0.55, 0.45, 0.15, 0.05], 20)
    probabilities = np.stack([probabilities, 1.0 - probabilities], axis=1)
    ax = plot_calibration(probabilities, np.arange(120) % 2)
    (line,) = [line for line in ax.get_lines() if line.get_label() == "all classes"]
    np.testing.assert_allclose(line.get_xdata(), [0.05, 0.15, np.nan, 0.45, 0.55, np.nan, 0.85, 0.95])


def test_bad_input():
    probabilities, labels = calibrated(20)
    for wrong, match in (
        (probabilities[:, 0], "shape"),
        (probabilities * 2, "sum to one"),
        (-probabilities, "negative"),
        (np.where(probabilities < 0.5, np.nan, probabilities), "missing"),
    ):
        with pytest.raises(InvalidInputError, match=match):
            plot_calibration(wrong, labels)
    with pytest.raises(InvalidTypeError, match="must be numbers"):
        plot_calibration([["a", "b"]], ["a"])
    with pytest.raises(InvalidInputError, match="one for each sample"):
        plot_calibration(probabilities, labels[:-1])
    for missing in ([None, *labels[1:]], np.where(labels == 0, np.nan, labels), np.ma.masked_equal(labels, 0)):
        with pytest.raises(InvalidInputError, match="missing labels; expected one"):
            plot_calibration(probabilities, missing)
    with pytest.raises(InvalidTypeError, match="hashable"):
        plot_calibration(probabilities, pd.Series([[1]] * 20))
    with pytest.raises(InvalidInputError, match="index differs"):
        plot_calibration(pd.DataFrame(probabilities), pd.Series(labels, index=range(1, 21)))
    with pytest.raises(SizeLimitError, match="6000 distinct values"):
        plot_calibration(np.ones((6000, 1)), np.arange(6000))
    with pytest.raises(InvalidInputError, match="n_bins is 1"):
        plot_calibration(probabilities, labels, n_bins=1)
    assert not plt.get_fignums()


def test_bins_of_few_predictions_are_points_beside_the_curve():
    posterior = np.repeat([[1.0, 0.0], [0.0, 1.0], [0.55, 0.45]], [20, 20, 1], axis=0)
    ax = plot_calibration(posterior, np.repeat([0, 1, 0], [20, 20, 1]))
    x, y = pooled(ax)
    assert (x.tolist(), y.tolist()) == ([0.0, 1.0], [0.0, 1.0])
    hollow = [line for line in ax.get_lines() if line.get_label() == "_few"]
    assert {line.get_linestyle() for line in hollow} == {"None"}
    assert sorted(hollow[-1].get_xdata().tolist()) == [0.45, 0.55]
