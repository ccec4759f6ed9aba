"""The pages of the gallery: each runs without a warning, and shows what it says."""

import ast
import re
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
PAGES = sorted(path.stem for path in EXAMPLES.glob("plot_*.py"))
NEEDED = {"plot_10_tensorly": ("tlviz",), "plot_11_dask": ("dask",)}


def first_steps(page):
    assert len(page["accuracy"]) == 3
    assert page["smp"].metrics.clustering_accuracy(page["kinds"], page["clusters"]) > 0.95
    assert page["clusters"].index.equals(page["X"].index)
    hidden, X = page["hidden"], page["X"]
    assert (page["guessed"] - X[hidden]).abs().mean() < 0.8 * (X[hidden].mean() - X[hidden]).abs().mean()


def toy_example(page):
    errors = {name: np.array(values) for name, values in page["errors"].items()}
    assert (np.diff(errors["sinc"])[:4] < 0).all()
    assert errors["sinc"][-1] < 0.02 < 0.1 < errors["histogram"][-1]
    assert page["found"].min() > 0


def gaussian_mixture_fails(page):
    accuracy, divergence = page["table"]["accuracy"], page["table"]["divergence"]
    assert accuracy["smooth product mixture"] > accuracy["the true mixture"] - 0.02
    others = [name for name in accuracy.index if name.startswith("Gaussian")]
    assert len(others) == 3
    assert accuracy[others].max() < 0.6
    assert divergence["smooth product mixture"] < 0.3 < 1.5 < divergence[others].min()


def diagnostic_tests(page):
    assert np.abs(page["found"] - page["TESTS"]).max().max() < 0.06
    assert abs(page["prevalence"] - page["ill"].mean()) < 0.02
    assert page["covered"].sum() >= 6
    assert (page["low"] < page["high"]).all()
    assert np.mean((page["probability"] > 0.5) == page["ill"]) > 0.95
    reports = page["reports"]
    assert [reports[n, 2].is_generically_unique for n in (3, 4, 5)] == [True] * 3
    assert [reports[n, 3].is_generically_unique for n in (3, 4, 5)] == [False, False, True]
    assert reports[4, 3].n_free_directions == 1


def missing_data(page):
    for row in page["rows"]:
        assert abs(row["accuracy of the model"] - row["of the true mixture"]) < 0.01
    assert page["rows"][-1]["complete samples"] < 0.01
    (error, spread) = np.array([list(page["compare"](each).values()) for each in page["results"].values()]).T
    assert error.argmin() == 0
    assert error[0] < 0.8 * error[2:].min()
    assert abs(spread[1] - 1) < 0.1 < 1 - spread[0] < 1 - spread[2]
    np.testing.assert_array_equal(page["filled"].values[~page["missing"]], page["complete"][~page["missing"]])
    truth, learned, left = (page["means"][name] for name in ("true", "with the model", "of what is there"))
    for pattern, least in (("where x1 is large", 10), ("where x0 is large", 3)):
        assert least * abs(learned[pattern] - truth[pattern]) < abs(left[pattern] - truth[pattern])


def components_and_bins(page):
    assert page["table"].attrs["best"] == page["table"].attrs["n_above_noise"] == 4
    paper, default = (np.array([fits[n][1] for n in page["N_BINS"]]) for fits in (page["paper"], page["default"]))
    assert np.ptp(default) < 0.02
    assert default.max() < 0.5 * paper.min()
    assert paper[-1] < 0.5 * paper[0]
    assert "ClippedMassWarning" in page["paper"][page["N_BINS"][0]][2]


def identifiability(page):
    assert page["ranks"][0].tolist() == page["N_BINS"]
    assert page["design"].is_generically_unique
    assert page["questions"].verdict == "not guaranteed"
    assert page["questions"].is_locally_unique
    assert page["reports"][3].is_unique
    assert page["reports"][2].n_free_directions > 0


def thousand_variables(page):
    assert page["model"].result_.attrs["loss_name"] == "search"
    learned, best = np.array(page["learned"]), np.array(page["best"])
    assert learned[0] < 0.6 < 0.99 < learned[-1]
    assert np.abs(learned - best).max() < 0.06
    np.testing.assert_allclose(page["model"].weights_, page["truth"].weights, atol=0.06)


def xarray_workflow(page):
    first, again, model = page["first"], page["again"], page["model"]
    assert again.predict_proba(first).identical(model.predict_proba(first))
    assert page["by_month"].dims == ("month", "component")
    assert page["by_month"].sel(month=7).values.argmax() == 0
    assert page["years"].weights.dims == ("year", "component")
    assert page["years"].weights.diff("year").sel(component=0) < 0
    assert page["moved"].sel(variable="temperature").min() > 0.1
    means = [fit.density_.mean("all").sel(variable="temperature").values for fit in (model, page["other"])]
    np.testing.assert_allclose(means[1][page["order"]] - means[0], 2.0, atol=0.8)


def tensorly_workflow(page):
    score = page["factor_match_score"]
    of_truth, of_found = page["of_three"]
    assert score(of_truth, of_found, consider_weights=False) > score(of_truth, page["alone"], consider_weights=False)
    assert score(page["truth"], page["found"], consider_weights=False) > 0.97
    assert type(page["cp_tensor"].weights).__module__ == ("torch" if find_spec("torch") else "numpy")
    wrong = [np.abs(page[name] - page["exact"]).sum() / 2 for name in ("joint", "independent")]
    assert wrong[0] < 0.3 * wrong[1]


def samples_in_chunks(page):
    assert page["difference"] < 1e-8
    posterior = page["posterior"]
    assert type(posterior).__module__.startswith("dask")
    assert posterior.numblocks == (page["N_CHUNKS"], 1)
    np.testing.assert_allclose(page["model"].weights_, np.sort(page["truth"].weights)[::-1], atol=0.02)
    assert np.argsort(page["scores"])[:2].tolist() == [6, 3]


def dependent_variables(page):
    rows = pd.DataFrame(page["rows"])
    for name, right in (("two peaks", "product"), ("heaps", "log-concave"), ("animals", "unmixed")):
        assert rows.loc[["for densities", "for groups"], name].tolist() == [right, right]
        assert rows.loc[right, name] == rows.loc[list(page["models"]), name].max() > 0.97
    assert rows.loc["product", "heaps"] < 0.7
    assert rows.loc["log-concave", "animals"] < 0.8
    assert page["report"].n_dependent >= 2
    assert page["left"].n_dependent <= 1
    table = page["table"]
    assert table.loc["unmixed", "accuracy"] > table.loc["product", "accuracy"] - 0.02
    assert table.loc["unmixed", "BIC"] < table.loc["product", "BIC"]
    assert [set(pair) for pair in page["said"][0].pairs] == [{"x0", "x1"}]


SHOWN = {
    "plot_01_first_steps": first_steps,
    "plot_02_toy_example": toy_example,
    "plot_03_gaussian_mixture_fails": gaussian_mixture_fails,
    "plot_04_diagnostic_tests": diagnostic_tests,
    "plot_05_missing_data": missing_data,
    "plot_06_components_and_bins": components_and_bins,
    "plot_07_identifiability": identifiability,
    "plot_08_thousand_variables": thousand_variables,
    "plot_09_xarray": xarray_workflow,
    "plot_10_tensorly": tensorly_workflow,
    "plot_11_dask": samples_in_chunks,
    "plot_12_dependent_variables": dependent_variables,
}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a page in a folder that is thrown away, and returns its variables."""
    monkeypatch.chdir(tmp_path)

    def page(name):
        for package in NEEDED.get(name, ()):
            pytest.importorskip(package)
        return runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")

    return page


def test_every_page_is_checked():
    assert sorted(SHOWN) == PAGES


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_page_shows_what_it_says(name, run):
    page = run(name)
    assert plt.get_fignums()
    SHOWN[name](page)


@pytest.mark.slow
def test_first_steps_without_the_penguins(monkeypatch, run):
    monkeypatch.setitem(sys.modules, "palmerpenguins", None)
    page = run("plot_01_first_steps")
    assert page["X"].shape == (178, 13)
    first_steps(page)


@pytest.mark.parametrize("name", PAGES)
def test_page_has_a_title_cells_of_text_and_no_value_printed_by_mistake(name):
    source = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    title, line, blank, text = ast.get_docstring(ast.parse(source)).split("\n")[:4]
    assert set(line) == {"="}
    assert len(line) >= len(title)
    assert not blank
    assert text
    lines = source.split("\n")
    cells = [n for n, text in enumerate(lines) if text.startswith("# %%")]
    assert len(cells) >= 3
    # A marker is a line by itself: text behind it would be a title, of which the pages have none.
    assert all(lines[n] == "# %%" for n in cells)
    # The gallery shows the value of a cell's last expression: a report or an array, by its name, is meant; Axes, which
    # nobody wants to read, are what a call returns.
    ends = [statements[-1] for cell in source.split("\n# %%\n") if (statements := ast.parse(cell).body)]
    shown = [end.value for end in ends if isinstance(end, ast.Expr)]
    values = [ast.unparse(value) for value in shown if not isinstance(value, ast.Name | ast.Subscript)]
    assert [value for value in values if not re.match(r"print\(|[^(]*\.(set_visible|tick_params)\(", value)] == []
