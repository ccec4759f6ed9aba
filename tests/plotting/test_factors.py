"""Heat maps show the factors themselves."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from shared import overlap

import tensorly_smp as smp
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.plotting import plot_factors
from tensorly_smp.plotting.style import component_style


def test_every_cell_is_the_probability_of_a_bin(model):
    axes = plot_factors(model)
    assert axes.shape == (3,)
    for r, ax in enumerate(axes):
        (image,) = ax.get_images()
        table = np.ma.filled(image.get_array(), np.nan)
        np.testing.assert_array_equal(table, model.result_["factors"].sel(component=r).values)
        np.testing.assert_allclose(np.nansum(table, axis=1), 1.0)
        assert ax.get_title() == f"component {r} ({model.weights_[r]:.2f})"
        assert ax.title.get_color() == component_style(r)["color"]
        assert ax.get_xlabel() == "bin"
    assert len({ax.get_images()[0].norm.vmax for ax in axes}) == 1
    assert [label.get_text() for label in axes[0].get_yticklabels()] == ["x0", "x1", "x2", "x3"]


def test_no_edges_are_needed():
    matrix = np.array([[0.7, 0.2], [0.3, 0.8]])
    axes = plot_factors(smp.MixtureFactors(np.array([0.5, 0.5]), (matrix,) * 3), variables=[2, 0])
    assert [label.get_text() for label in axes[0].get_yticklabels()] == ["2", "0"]
    # Rows of panels are about equally long.
    factors = tuple(np.random.default_rng(0).dirichlet(np.ones(4), 12).T for _ in range(3))
    axes = plot_factors(smp.MixtureFactors(np.full(12, 1 / 12), factors))
    assert axes[0].get_subplotspec().get_gridspec().get_geometry() == (3, 4)


def test_pages_of_thirty_and_what_has_no_factors(model):
    rng = np.random.default_rng(0)
    many = smp.MixtureFactors(np.array([0.5, 0.5]), tuple(rng.dirichlet(np.ones(3), 2).T for _ in range(70)))
    (image,) = plot_factors(many, page=2)[0].get_images()
    np.testing.assert_array_equal(image.get_array(), np.stack([factor[:, 0] for factor in many.factors[60:]]))
    with pytest.raises(InvalidInputError, match="page is 3"):
        plot_factors(many, page=3)
    # Bad input.
    with pytest.raises(InvalidInputError, match="MixtureDensity has no factors"):
        plot_factors(model.density_)
    _, axes = plt.subplots(1, 2)
    with pytest.raises(InvalidInputError, match="axes are 2; expected at least 3"):
        plot_factors(model, axes=axes)


def test_long_names_do_not_overlap(factors):
    axes = plot_factors(factors)
    axes[0].figure.draw_without_rendering()
    assert not overlap(axes[0].get_yticklabels())
    assert axes[0].get_tightbbox().x0 >= 0
    for row, factor in zip(axes[1].get_images()[0].get_array(), factors.factors, strict=True):
        np.testing.assert_array_equal(row.compressed(), factor[:, 1])  # shorter rows are empty at their end
