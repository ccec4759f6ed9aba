"""The record of a fit, drawn as it is."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from shared import fit_quietly, lines

import tensorly_smp as smp
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.plotting import plot_loss


@pytest.mark.parametrize(
    ("kind", "panels"),
    [("plain_model", ["sweep", "start"]), ("em_model", ["sweep", "start", "pass of the refinement"])],
)
def test_panels_are_what_the_fit_has(kind, panels, data):
    refine = {"plain_model": None, "em_model": "em"}[kind]
    model = fit_quietly(data.X, 3, n_bins=8, n_init=2, init="gevd", refine=refine)
    axes = plot_loss(model)
    assert [ax.get_xlabel() for ax in axes] == panels
    np.testing.assert_array_equal(lines(axes[0])["lowest start"].get_ydata(), model.result_["loss"])
    assert axes[0].get_ylabel() == "KL loss"
    best = model.result_.attrs["best_start"]
    assert lines(axes[1])["chosen"].get_xdata() == [best]
    assert lines(axes[1])["chosen"].get_ydata() == [model.result_["start_loss"][best]]
    if "log_likelihood" in model.result_:
        np.testing.assert_array_equal(lines(axes[-1])["log-likelihood"].get_ydata(), model.result_["log_likelihood"])
    axes[0].figure.draw_without_rendering()


def test_panels_of_searches_and_candidates(model):
    axes = plot_loss(model)
    assert [ax.get_xlabel() for ax in axes][:2] == ["round of the search", "start"]
    assert axes[0].get_ylabel().startswith("negative objective")
    np.testing.assert_array_equal(lines(axes[0])["lowest start"].get_ydata(), model.result_["loss"])
    several = model.result_.isel(candidate=[0, 0, 0]).assign(start_criterion=("candidate", [-9.0, -7.0, -8.0]))
    panel = plot_loss(several.assign_attrs(best_candidate=1))[2]
    assert panel.get_xlabel() == "candidate"
    assert lines(panel)["chosen"].get_xdata() == [1]


def test_dataset_and_solution(plain_model, data):
    np.testing.assert_array_equal(
        lines(plot_loss(plain_model.result_)[0])["lowest start"].get_ydata(), plain_model.result_["loss"]
    )
    codes = smp.encode_samples(data.X, smp.choose_binning(data.X, 5))
    solution = smp.coupled_simplex_parafac(
        codes, rank=2, loss="frobenius", n_init=2, n_iter_max=3, tol=0.1, random_state=0
    )
    axes = plot_loss(solution)
    assert axes[1].get_ylabel() == "final Frobenius loss"
    np.testing.assert_array_equal(lines(axes[0])["lowest start"].get_ydata(), solution.trace.loss)


def test_sweeps_of_all_starts(data):
    dataset = fit_quietly(data.X, 2, n_bins=5, refine=None, init="gevd", n_init=4).result_
    drawn = plot_loss(dataset)[0].get_lines()
    traces = dataset["start_trace"].values
    lowest = int(np.argmin(dataset["start_loss"].values))
    assert len(drawn) == 4
    for line, trace in zip(drawn, [*np.delete(traces, lowest, axis=0), traces[lowest]], strict=True):
        np.testing.assert_array_equal(line.get_ydata(), trace[: len(line.get_ydata())])
        assert np.isnan(trace[len(line.get_ydata()) :]).all()
    # Files of before there was such a record.
    assert len(plot_loss(dataset.drop_vars("start_trace"))[0].get_lines()) == 1


def test_starts_that_have_not_converged_are_hollow(model):
    dataset = (
        model.result_.drop_vars("start_criterion")
        .isel(start=[0, 0, 0, 0], candidate=[0])
        .assign(
            start_loss=("start", [1.0, 2.0, 3.0, 4.0]),
            start_status=("start", ["converged", "max_sweeps", "callback", "screened"]),
            start_criterion=("candidate", [-5.0]),
        )
    )
    axes = plot_loss(dataset.assign_attrs(best_start=2))
    drawn = lines(axes[1])
    assert drawn["cut short"].get_xdata().tolist() == [0, 1, 3]
    assert drawn["not converged"].get_xdata().tolist() == [2]
    assert drawn["not converged"].get_markerfacecolor() == "white"
    assert axes[1].get_title().startswith("cut short on purpose")
    assert drawn["chosen"].get_xdata() == [2]
    # Without a likelihood to choose by, they have not converged.
    plain = plot_loss(dataset.drop_vars("start_criterion"))[1]
    assert lines(plain)["not converged"].get_xdata().tolist() == [1, 2, 3]
    assert plain.get_title() == ""


@pytest.fixture(scope="module")
def plain_model(data):
    return fit_quietly(data.X, 3, n_bins=8, n_init=2, init="gevd", refine=None)


def test_scale_follows_the_values(plain_model):
    converged = plain_model.result_.assign(start_status=("start", ["converged"] * plain_model.result_.sizes["start"]))
    legend = plot_loss(converged)[1].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["converged", "chosen"]  # the ring is always explained
    wide = plain_model.result_.assign(start_loss=("start", [1e-6, 1.0]))
    assert plot_loss(wide)[1].get_yscale() == "log"
    same = plain_model.result_.assign(start_loss=("start", [1.0, 1.0 + 1e-9]))
    low, high = plot_loss(same)[1].get_ylim()
    assert high - low >= 1e-3


def test_no_record_no_picture(model, factors):
    for subject in (factors, model.density_):
        with pytest.raises(InvalidInputError, match=r"no record of a fit \(it lacks loss, start_loss, start_status\)"):
            plot_loss(subject)
    _, ax = plt.subplots()
    with pytest.raises(InvalidInputError, match="axes are 1; expected at least"):
        plot_loss(model, axes=ax)
