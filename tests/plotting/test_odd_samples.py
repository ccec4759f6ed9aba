"""Pictures of samples with entries that are missing or far away; warnings of NumPy and Matplotlib are errors here."""

import numpy as np
import pytest

import tensorly_smp as smp

pyplot = pytest.importorskip("matplotlib.pyplot")
X = smp.datasets.make_smooth_mixture("gaussian", 150, 4, 2, random_state=0).X


@pytest.fixture(scope="module")
def model():
    return smp.SmoothProductMixture(2, n_init=1, random_state=0).fit(X)


def missing_column(values):
    values[:, 1] = np.nan


def all_missing(values):
    values[:] = np.nan


def far(values):
    values[0, 0], values[1, 0], values[2, 1] = 1.7e308, -1.7e308, 1e200


@pytest.mark.parametrize("change", [missing_column, all_missing, far], ids=lambda change: change.__name__)
@pytest.mark.parametrize("draw", [smp.plotting.plot_conditionals, smp.plotting.plot_pairs])
def test_odd_samples_are_drawn(model, draw, change):
    values = X.copy()
    change(values)
    axes = draw(model, values)
    axes.flat[0].figure.canvas.draw()
    pyplot.close("all")


def test_masked_entries_in_lists_are_missing_or_refused_without_a_word_of_numpy(model):
    rows = [[1.0, np.ma.masked, 2.0, 3.0], [np.ma.masked, 1.0, 2.0, 3.0]]
    expected = model.predict_proba(np.array([[1.0, np.nan, 2.0, 3.0], [np.nan, 1.0, 2.0, 3.0]]))
    np.testing.assert_array_equal(model.predict_proba(rows), expected)
    for action in (
        lambda: model.density_.pdf_1d([[1.0, np.ma.masked]], "x0"),
        lambda: model.score(X, sample_weight=[np.ma.masked] + [1.0] * 149),
        lambda: smp.kruskal_rank([[1.0, np.ma.masked], [0.0, 1.0]]),
    ):
        with pytest.raises(smp.exceptions.InvalidInputError):
            action()
