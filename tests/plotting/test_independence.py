"""Dependence and unmixing, drawn: every number in the picture is one of the report or of the map."""

import numpy as np
import pytest

import tensorly_smp as smp
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.plotting import plot_independence, plot_unmixing

#: Columns whose values are permuted have no groups.
pytestmark = pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.RivalSolutionsWarning")


@pytest.fixture(scope="module")
def X():
    X = smp.datasets.make_smooth_mixture("gmm", 400, 4, 2, random_state=0).X.copy()
    X[:, 1] += 0.8 * X[:, 0]
    return X


@pytest.fixture(scope="module")
def report(X):
    density = smp.SmoothProductMixture(2, random_state=0).fit(np.random.default_rng(0).permuted(X, axis=0)).density_
    return smp.check_independence(density, X, random_state=0)


@pytest.fixture(scope="module")
def unmixed(X):
    return smp.UnmixedProductMixture(2, random_state=0).fit(X)


def test_numbers_of_the_report_and_what_is_no_report(report):
    ax = plot_independence(report)
    shown = ax.images[0].get_array()
    dataset = report.to_dataset()
    worst = int(np.nanargmax(dataset.strength.values[0, 1]))
    assert shown[1, 0] == pytest.approx(dataset.rank_correlation.values[0, 1, worst])
    assert shown[0, 1] == pytest.approx(np.nanmax(dataset.strength.values[0, 1]))
    assert np.isnan(np.ma.filled(np.diag(shown), np.nan)).all()
    assert len(ax.patches) == 2 * report.n_dependent
    assert len(ax.texts) == 12
    assert ax.get_title().startswith(f"{report.n_dependent} of 6 pairs of variables")
    # Other objects are refused.
    with pytest.raises(InvalidTypeError, match="dataset is int"):
        plot_independence(3)
    with pytest.raises(InvalidInputError, match="lacks"):
        plot_independence(report.to_dataset().drop_vars("strength"))
    with pytest.raises(InvalidTypeError, match="expected a fitted UnmixedProductMixture"):
        plot_unmixing(3)


def test_pairs_that_are_not_dependent_are_pale(report):
    dataset = report.to_dataset()
    dataset.is_dependent[0, 3] = dataset.is_dependent[3, 0] = 0
    image = plot_independence(dataset).images[0]
    np.testing.assert_array_equal(image.get_array(), plot_independence(report).images[0].get_array())
    opacity = np.asarray(image.get_alpha())
    is_dependent = dataset.is_dependent.values > 0
    assert (opacity[is_dependent] == 1.0).all()
    assert (opacity[~is_dependent] < 0.5).all()


def test_map(unmixed):
    ax = plot_unmixing(unmixed)
    shown = np.asarray(ax.images[0].get_array())
    np.testing.assert_allclose(np.abs(shown).max(axis=1), 1.0)
    np.testing.assert_array_equal(np.sign(shown), np.sign(unmixed.unmixing_.values))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["x0", "x1", "x2", "x3"]


def test_pictures_of_an_unmixed_model_are_of_its_sources(unmixed, X):
    plots = unmixed.plot
    assert plots(X).shape == (4,)
    assert plots.pairs(X, variables=["x0", "x1"]).size
    assert plots.unmixing().get_xlabel() == "variable"
    assert plots.independence(X).get_title().endswith("pairs of sources dependent")
    assert plots.factors().shape == (2,)
    assert "unmixing" in repr(plots)
