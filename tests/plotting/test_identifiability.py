"""The report, drawn: every number in the picture is one of the report."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from shared import overlap

import tensorly_smp as smp
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.plotting import plot_identifiability
from tensorly_smp.plotting.identifiability import LIGHT_BLUE
from tensorly_smp.plotting.style import BLUE, ORANGE


@pytest.fixture(scope="module")
def bad():
    return smp.check_identifiability(n_variables=3, n_bins=2, rank=3)


def colors(ax):
    return [plt.matplotlib.colors.to_hex(bar.get_facecolor()).upper() for bar in ax.patches]


def test_bounds_and_what_they_are_compared_with(bad):
    report = smp.check_identifiability(n_variables=10, n_bins=15, rank=60)
    ax = plot_identifiability(report)[0]
    assert [bar.get_width() for bar in ax.patches] == list(report.max_ranks.values())
    reached = {name: most >= 60 for name, most in report.max_ranks.items() if not name.startswith("paper")}
    assert colors(ax)[: len(reached)] == [
        (BLUE if is_reached else LIGHT_BLUE).upper() for is_reached in reached.values()
    ]
    assert set(reached.values()) == {True, False}
    assert report.is_generically_unique
    assert "one criterion that reaches the line is enough" in ax.get_xlabel()
    assert ax.get_lines()[0].get_xdata() == [60, 60]
    assert {text.get_text() for text in ax.texts} >= {"components: 60", *map(str, report.max_ranks.values())}
    assert set(colors(plot_identifiability(bad)[0])[:3]) == {ORANGE}


def test_stacked_factors(bad):
    ax = plot_identifiability(bad)[1]
    ranks, k_ranks = ([bar.get_height() for bar in container] for container in ax.containers)
    assert ranks == [stack.rank for stack in bad.stacked]
    assert k_ranks == [int(stack.k_rank) for stack in bad.stacked]
    assert [text.get_text() for text in ax.texts] == ["dependent\ncolumns"] * 3
    assert {text.get_color() for text in ax.texts} == {ORANGE}
    assert ax.get_xlabel() == "dependent columns: fewer independent ones than components"
    assert [label.get_text() for label in ax.get_xticklabels()] == [f"set {s}\n(1 variable)" for s in (1, 2, 3)]
    # Free directions are marked.
    ax = plot_identifiability(bad)[2]
    seen, free = ax.get_lines()
    np.testing.assert_array_equal(seen.get_ydata(), bad.local.singular_values[:7])
    assert free.get_xdata().tolist() == [8, 9, 10, 11]
    assert free.get_label() == "4 free directions"
    assert (free.get_ydata() > 0).all()
    # Given axes.
    figure, axes = plt.subplots(2, 2)
    assert plot_identifiability(bad, axes=axes).tolist() == axes.ravel()[:3].tolist()
    assert figure.get_suptitle() == ""
    with pytest.raises(InvalidInputError, match="axes are 1; expected at least 3"):
        plot_identifiability(bad, axes=axes[0, 0])


def test_what_does_not_stand_against_the_verdict_is_not_orange():
    report = smp.check_identifiability(n_variables=5, n_bins=3, rank=5)
    ax = plot_identifiability(report)[1]
    assert report.is_generically_unique
    assert [text.get_text() for text in ax.texts][2] == "dependent\ncolumns"
    assert ORANGE not in {text.get_color() for text in ax.texts}
    assert ax.get_xlabel().startswith("dependent columns: the others make up for it")


def test_parallel_components_are_counted():
    columns = np.array([[0.6, 0.6, 0.1], [0.3, 0.3, 0.2], [0.1, 0.1, 0.7]])
    other = np.array([[0.6, 0.2, 0.1], [0.3, 0.7, 0.2], [0.1, 0.1, 0.7]])
    report = smp.check_identifiability(smp.MixtureFactors(np.full(3, 1 / 3), (columns, columns, other, other)))
    ax = plot_identifiability(report)[3]
    (image,) = ax.get_images()
    counts = image.get_array()
    assert counts[0, 1] == counts[1, 0] == 2
    assert counts.mask.diagonal().all()
    assert [text.get_text() for text in ax.texts] == ["2", "2"]  # zeros are the color of the background


def test_report_dataset_model_and_solution_are_drawn_alike(model, tmp_path):
    widths = [
        [bar.get_width() for bar in plot_identifiability(each)[0].patches]
        for each in (model.identifiability_, model.identifiability_.to_dataset(), model, model.result_)
    ]
    assert all(each == widths[0] for each in widths)
    figure = plot_identifiability(model)[0].figure
    assert figure.get_suptitle() == f"3 components: {model.identifiability_.verdict}"
    figure.draw_without_rendering()


@pytest.mark.parametrize(("n_variables", "is_new"), [(30, False), (1000, True)])
def test_names_of_the_sets_do_not_overlap(n_variables, is_new):
    report = smp.check_identifiability(n_variables=n_variables, n_bins=6, rank=5, max_parameters=10)
    axes = None if is_new else plt.subplots(2, 2, figsize=(7, 6), layout="constrained")[1]
    assert len(plot_identifiability(report, axes=axes)) == 2  # a report without a Jacobian
    ax = plot_identifiability(report, axes=axes)[1]
    ax.figure.draw_without_rendering()
    labels = ax.get_xticklabels()
    sizes = [int(label.get_text().split("(")[1].split()[0]) for label in labels]
    assert sum(sizes) == n_variables
    assert not overlap(labels)


def test_bad_input_and_reports_of_whole_samples(model, bad):
    with pytest.raises(InvalidTypeError, match="expected an IdentifiabilityReport"):
        plot_identifiability("report")
    with pytest.raises(InvalidTypeError, match="MixtureDensity has no factors"):
        plot_identifiability(model.density_)
    with pytest.raises(InvalidInputError, match=r"lacks \['k_rank', 'verdict'\]"):
        plot_identifiability(bad.to_dataset().drop_vars("k_rank").drop_attrs().assign_attrs(rank=3))
    # Groups of whole samples are groups and the paper is last.
    ax, stacks = plot_identifiability(smp.check_identifiability(9, 2, 1, known="samples"))[:2]
    assert [label.get_text() for label in ax.get_yticklabels()][-2:] == ["paper: algebra", "paper: generic"]
    assert ax.figure.get_suptitle().startswith("1 component: ")
    if stacks.get_xticklabels():
        assert all(label.get_text().startswith("group") for label in stacks.get_xticklabels())
