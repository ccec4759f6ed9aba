"""Pictures: what is drawn is what the Dataset says."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from shared import lines

import tensorly_smp as smp
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError


def table(criterion="bic", failed=False):
    """A Dataset as of select_n_components; the numbers are made up."""
    bic = np.array([900.0, 400.0, 412.0, 500.0])
    if failed:
        bic[3] = np.nan
    contents = {
        "bic": ("n_components", bic),
        "icl": ("n_components", bic + np.array([0, 5, 90, 200])),
        "failure": ("n_components", np.array(["", "", "", "ValueError: no" if failed else ""])),
    }
    attrs = {"best": 2, "criterion_name": criterion, "total_weight": 100.0}
    if criterion == "cv":
        contents["criterion"] = ("n_components", bic - 50.0)
        contents["heldout_gap_error"] = ("n_components", np.array([0.5, 0.0, 0.4, 0.2]))
    else:
        contents["criterion"] = contents[criterion]
    return xr.Dataset(contents, {"n_components": [1, 2, 3, 4]}, attrs)


@pytest.mark.parametrize(("criterion", "name"), [("bic", "BIC"), ("icl", "ICL"), ("cv", "held-out samples")])
def test_criterion_above_its_least_value(criterion, name):
    dataset = table(criterion)
    drawn = lines(smp.plotting.plot_selection(dataset))
    np.testing.assert_array_equal(drawn[name].get_xdata(), [1, 2, 3, 4])
    np.testing.assert_array_equal(drawn[name].get_ydata(), dataset.criterion - dataset.criterion.min())
    np.testing.assert_array_equal(drawn["BIC"].get_ydata(), [500.0, 0.0, 12.0, 100.0])
    assert "ICL" in drawn
    chosen = drawn["chosen: 2"]
    assert (chosen.get_xdata()[0], chosen.get_ydata()[0]) == (2, 0.0)


def test_bars_are_two_standard_errors_on_the_scale_of_the_criterion():
    _, given = plt.subplots()
    ax = smp.plotting.plot_selection(table("cv"), given)
    assert ax is given
    (bars,) = ax.collections
    heights = [float(np.ptp(path.vertices[:, 1])) for path in bars.get_paths()]
    # -2 log-likelihood of 100 samples; two standard errors up, and two down.
    np.testing.assert_allclose(heights, 2 * 2 * (2 * 100 * np.array([0.5, 0.0, 0.4, 0.2])))
    low, high = ax.get_ylim()
    ends = np.concatenate([path.vertices[:, 1] for path in ax.collections[0].get_paths()])
    assert low < ends.min() < -100
    assert ends.max() < high
    assert "linear up to 10, logarithmic above" in ax.get_ylabel()
    without = smp.plotting.plot_selection(table())
    assert not without.collections
    assert without.get_ylim()[0] == -1.0


def test_failed_fits_are_marked_and_other_datasets_refused():
    drawn = lines(smp.plotting.plot_selection(table(failed=True)))
    assert drawn["failed"].get_xdata().tolist() == [4]
    assert np.isnan(drawn["BIC"].get_ydata()[3])
    assert "failed" not in lines(smp.plotting.plot_selection(table()))
    # Wrong datasets.
    with pytest.raises(InvalidTypeError, match="dict; expected the Dataset of select_n_components"):
        smp.plotting.plot_selection({})
    for wrong in (xr.Dataset(), table().drop_attrs()):
        with pytest.raises(InvalidInputError, match="lacks"):
            smp.plotting.plot_selection(wrong)


@pytest.mark.parametrize("value", [np.nan, -np.inf, 1.7e308])
def test_values_that_cannot_be_drawn_are_left_out(value):
    # Warnings are errors here, Matplotlib's and NumPy's too.
    for which in (slice(None), slice(1)):
        edited = table("cv")
        for name in ("criterion", "bic", "icl", "heldout_gap_error"):
            edited[name] = edited[name].copy()  # which share their numbers
            edited[name][which] = value
        smp.plotting.plot_selection(edited).figure.draw_without_rendering()
