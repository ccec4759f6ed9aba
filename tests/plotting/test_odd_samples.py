"""Pictures of samples with entries that are missing or far away; warnings of NumPy and Matplotlib are errors here."""

import numpy as np
import pytest

import tensorly_smp as smp

pytest.importorskip("matplotlib.pyplot")


@pytest.mark.parametrize("kind", ["missing column and far values", "all missing"])
@pytest.mark.parametrize("draw", [smp.plotting.plot_conditionals, smp.plotting.plot_pairs])
def test_odd_samples_are_drawn(model, data, draw, kind):
    values = data.X.copy()
    values[0, 0], values[1, 0], values[2, 2] = 1.7e308, -1.7e308, 1e200
    values[:, slice(None) if kind == "all missing" else 1] = np.nan
    draw(model, values).flat[0].figure.draw_without_rendering()


def test_masked_entries_in_lists_are_missing_or_refused_without_a_word_of_numpy(model, data):
    rows = [[1.0, np.ma.masked, 2.0, 3.0], [np.ma.masked, 1.0, 2.0, 3.0]]
    expected = model.predict_proba(np.array([[1.0, np.nan, 2.0, 3.0], [np.nan, 1.0, 2.0, 3.0]]))
    np.testing.assert_array_equal(model.predict_proba(rows), expected)
    for action in (
        lambda: model.density_.pdf_1d([[1.0, np.ma.masked]], "x0"),
        lambda: model.score(data.X, sample_weight=[np.ma.masked] + [1.0] * 399),
        lambda: smp.kruskal_rank([[1.0, np.ma.masked], [0.0, 1.0]]),
    ):
        with pytest.raises(smp.exceptions.InvalidInputError):
            action()
