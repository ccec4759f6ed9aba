"""Axes of variables with long tails."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared import fit_quietly, lines

import tensorly_smp as smp
from tensorly_smp.plotting.subject import VariableAxis
from tensorly_smp.splines.basis import ArcsinhTransform


@pytest.fixture(scope="module")
def incomes():
    """Incomes of three groups, and the same as gains and losses."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, 900)
    income = np.exp(np.array([6.0, 9.0, 11.0])[group] + rng.normal(0, 0.5, 900))
    age = np.array([30.0, 50.0, 60.0])[group] + rng.normal(0, 8, 900)
    return pd.DataFrame({"income": income, "gain": income * rng.choice([-1.0, 1.0], 900), "age": age})


@pytest.fixture(scope="module")
def fitted(incomes):
    return fit_quietly(incomes, 3)  # an income depends on the same as a gain or loss


def test_long_tails_have_the_scale_of_the_fit(fitted, incomes):
    axes = fitted.plot(incomes)
    assert [ax.get_xscale() for ax in axes] == ["log", "function", "linear"]
    assert [ax.get_ylabel().split("\n")[-1] for ax in axes] == ["the logarithm", "the arsinh", "density"]
    # Where all values are positive, the axis has no others.
    assert axes[0].get_xlim()[0] > 0
    axes[0].figure.draw_without_rendering()
    assert not any("outside" in ax.get_title(loc="right") for ax in axes)
    # Pairs have the same axes.
    places = fitted.plot.pairs(incomes)
    assert [ax.get_xscale() for ax in places[2]] == ["log", "function", "linear"]
    assert places[1, 0].get_yscale() == "function"
    assert places[2, 0].get_xlim() == places[0, 0].get_xlim()
    places[0, 0].figure.draw_without_rendering()
    # Another scale afterwards works.
    for ax in fitted.plot(incomes, ["income", "age"]):
        ax.set_xscale("log")
        ax.figure.draw_without_rendering()
        assert ax.get_xlim()[0] > 0


def test_areas_of_the_picture_are_one(fitted):
    peaks = []
    for ax in fitted.plot()[:2]:
        transform = ax.xaxis.get_transform().transform
        factor = np.log(10.0) if ax.get_xscale() == "log" else 1.0
        for r in range(3):
            x, y = lines(ax)[f"component {r}"].get_data()
            area = np.trapezoid(y, factor * transform(x))
            assert area == pytest.approx(1.0, abs=0.06)  # tails are cut
            peaks.append(np.log(np.abs(x[y.argmax()])))
    np.testing.assert_allclose(sorted(peaks[:3]), [6.0, 9.0, 11.0], atol=0.3)  # where the groups are


def test_sinc_densities_and_light_tails_have_linear_axes(incomes):
    data = smp.datasets.make_smooth_mixture("gamma", 500, 4, 3, random_state=0)
    model = smp.SmoothProductMixture(3, random_state=0).fit(data.X)
    assert {ax.get_xscale() for ax in model.plot(data.X)} == {"linear"}
    factors = smp.MixtureFactors(
        np.ones(1), [np.full((4, 1), 0.25)] * 3, smp.Binning([np.array([1, 10, 1e2, 1e3, 1e4])] * 3)
    )
    assert {ax.get_xscale() for ax in smp.plotting.plot_conditionals(factors)} == {"linear"}


@given(st.booleans(), st.floats(-1e3, 1e3), st.floats(1e-3, 1e3), st.floats(0.0, 20.0))
def test_scales_are_inverted(is_log, center, width, u):
    axis = VariableAxis((1.0, 2.0), ArcsinhTransform(center, width), is_log)
    x = axis.value(np.array([u]))
    # Near the center of an arsinh the difference to it is rounded.
    assert axis.place(x) == pytest.approx(u, abs=1e-9 if is_log else 1e-6)
    step = 1e-5 * axis.slope(x)
    assert (axis.place(x + step) - axis.place(x - step)) == pytest.approx(2e-5, rel=1e-3)


def test_ticks_are_round_and_apart():
    _, ax = plt.subplots()
    axis = VariableAxis((-2e5, 9e5), ArcsinhTransform(300.0, 1000.0))
    axis.apply(ax, "x", 4)
    ticks = ax.get_xticks()
    assert 0.0 in ticks
    assert 3 <= len(ticks) <= 5
    assert all(float(f"{tick:.0e}") == tick for tick in ticks)
    assert np.diff(axis.place(ticks)).min() > 0.1 * np.ptp(axis.place(np.array(axis.limits)))
    assert ax.get_xlim() == axis.limits
