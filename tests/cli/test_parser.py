"""The command line, as a user types it."""

import io
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from shared import ambiguous_groups

import tensorly_smp as smp
from tensorly_smp.cli.parser import main
from tensorly_smp.exceptions import ClippedMassWarning

DATA = smp.datasets.make_smooth_mixture("gaussian", 500, 4, 2, random_state=1, missing=0.05)
NAMES = ["length", "depth", "mass", "age"]
TABLE = (
    pd.DataFrame(DATA.X, columns=NAMES)
    .assign(kind=np.array(["A", "B"])[DATA.labels], name=range(100, 600))
    .to_csv(index=False)
)
FRAME = pd.read_csv(io.StringIO(TABLE))  # as pandas reads it: older versions are off in the last digit
WAYS = ["--id-column", "name", "--labels-column", "kind"]
NOTHING_WRITTEN = "note: Nothing was written; --out FILE keeps the model."
FIT = ["--components", "2", "--bins", "8", "--refine", "none"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text(TABLE)
    return tmp_path


@pytest.fixture(scope="module")
def fitted():
    return smp.SmoothProductMixture(2, n_bins=8, refine=None, random_state=0).fit(FRAME[NAMES])


def run(capsys, *arguments):
    """Exit status, standard output and standard error of a command."""
    try:
        status = main([str(argument) for argument in arguments])
    except SystemExit as ended:  # argparse
        status = ended.code
    return status, *capsys.readouterr()


# ---- fit ----


def test_fit_writes_what_the_library_gives(capsys, fitted):
    status, out, err = run(capsys, "fit", "data.csv", *FIT, *WAYS, "--out", "fit.nc", "--labels", "labels.csv")
    assert (status, err) == (0, "")
    loaded = smp.load("fit.nc")
    np.testing.assert_array_equal(loaded.predict_proba(FRAME[NAMES]), fitted.predict_proba(FRAME[NAMES]))
    expected = pd.DataFrame({"name": FRAME["name"], "component": fitted.predict(FRAME[NAMES])})
    pd.testing.assert_frame_equal(pd.read_csv("labels.csv"), expected)
    lines = dict(re.split(r"  +", line, maxsplit=1) for line in out.splitlines())
    assert lines["samples"] == "500"
    assert lines["variables"] == "4: 'length', 'depth', 'mass', 'age'"
    assert lines["components"].startswith(f"2, with weights {fitted.weights_[0]:.3g} ")
    assert lines["outcome"].startswith("converged: ")
    assert lines["missing"] == f"{np.isnan(DATA.X).mean():.1%} of the entries"
    accuracy = smp.metrics.clustering_accuracy(DATA.labels, fitted.predict(FRAME[NAMES]))
    assert lines["accuracy"] == f"{accuracy:.1%} of 500 samples are in the component of their class in 'kind'"
    assert lines["written"] == "fit.nc, labels.csv"


def test_fit_by_default_is_the_estimators_default(capsys):
    status, out, _ = run(capsys, "fit", "data.csv", "--components", "2", *WAYS, "--out", "fit.nc", "--seed", "3")
    assert status == 0
    assert "log-splines; " in out
    model = smp.SmoothProductMixture(2, random_state=3).fit(FRAME[NAMES])
    np.testing.assert_array_equal(smp.load("fit.nc").predict_proba(FRAME[NAMES]), model.predict_proba(FRAME[NAMES]))


def test_fit_chooses_the_number_of_components(capsys):
    status, out, err = run(capsys, "fit", "data.csv", "--select", "1:3", *FIT[2:], *WAYS)
    assert status == 0
    assert err.splitlines()[-1] == NOTHING_WRITTEN
    assert re.search(r"^ +2  [\d.]+  <- chosen$", out, re.MULTILINE)
    assert out.count("chosen") == 1
    assert re.search(r"^components  2, with weights", out, re.MULTILINE)


def test_what_a_selection_and_its_fit_warn_of_is_said_once(capsys):
    table = FRAME[NAMES].fillna(0).assign(always=7)
    table.to_csv("constant.csv", index=False)
    _, _, err = run(capsys, "fit", "constant.csv", "--select", "1:2", *FIT[2:])
    assert err.count("'always' take a single value") == 1
    assert "in one bin" not in err
    _, _, alone = run(capsys, "fit", "constant.csv", *FIT)
    assert err == alone


def test_many_variables_are_drawn_on_pages(capsys, folder):
    plt = pytest.importorskip("matplotlib.pyplot")
    wide = smp.datasets.make_smooth_mixture("gaussian", 150, 13, 2, random_state=0).X
    pd.DataFrame(wide).add_prefix("v").to_csv("wide.csv", index=False)
    status, _, err = run(capsys, "fit", "wide.csv", *FIT, "--figure", "fit.pdf")
    assert (status, err) == (0, "")
    content = (folder / "fit.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert b"/Count 2" in content
    _, out, err = run(capsys, "fit", "wide.csv", *FIT, "--figure", "fit.svg")
    assert err == "note: fit.svg shows the first 12 of 13 variables; a .pdf has them all.\n"
    assert out.endswith("fit.svg\n")
    assert (folder / "fit.svg").read_bytes().startswith(b"<?xml")
    assert not plt.get_fignums()


def test_a_fit_that_is_questionable(capsys):
    FRAME.iloc[:60].to_csv("data.csv", index=False)
    status, out, err = run(capsys, "fit", "data.csv", "--components", "12", *FIT[2:], *WAYS, "--out", "fit.nc")
    assert status == 1
    assert "components  12" in out
    lines = err.splitlines()
    assert lines
    assert all(line.startswith("warning: ") for line in lines)
    assert len(set(lines)) == len(lines)
    small = re.fullmatch(
        r"warning: Of 12 components these have fewer than 5 samples: ([\d, ]+)\. "
        r"Fewer components, or --select 1:(\d+)\.",
        lines[-1],
    )
    with pytest.warns(ClippedMassWarning):
        model = smp.load("fit.nc")
    assert model.n_components == 12
    few = [r for r in range(12) if model.weights_[r] * 60 < 5]
    assert [int(r) for r in small[1].split(", ")] == few
    assert int(small[2]) == 12 - len(few)


def test_columns_of_text(capsys):
    table = FRAME[NAMES].assign(smoker=np.where(DATA.labels == 1, "yes", "no"))
    table.to_csv("smokers.csv", index=False)
    status, _, err = run(capsys, "fit", "smokers.csv", "--components", "2", "--out", "fit.nc")
    assert status == 0
    assert "note: Text, taken for discrete variables: 'smoker'" in err
    table.assign(smoker="no").iloc[:2].to_csv("new.csv", index=False)
    status, out, err = run(capsys, "predict", "fit.nc", "new.csv")
    assert (status, err) == (0, "")
    expected = smp.load("fit.nc").predict(table.assign(smoker="no").iloc[:2])
    assert [int(line.split(",")[1]) for line in out.splitlines()[1:]] == expected.tolist()
    table.assign(smoker=[f"name {m}" for m in range(500)]).to_csv("names.csv", index=False)
    status, _, err = run(capsys, "fit", "names.csv", "--components", "2")
    assert status == 2
    assert re.search("error: .*'smoker'.* On the command line: --drop NAME, or --only-numbers.", err)


def test_flags_that_say_how_a_table_is_written(capsys, folder):
    text = FRAME[NAMES].to_csv(index=False, sep=";", decimal=",")
    (folder / "german.csv").write_text(f"of today\n{text.replace('length', 'länge')}% end", encoding="latin-1")
    ways = ["--decimal", ",", "--thousands", "'", "--skip-rows", 1, "--comment", "%", "--encoding", "latin-1"]
    assert run(capsys, "fit", "german.csv", *FIT, *ways, "--out", "fit.NC")[0] == 0
    assert smp.load("fit.NC").feature_names_in_.tolist() == ["länge", *NAMES[1:]]
    status, out, _ = run(capsys, "predict", "fit.NC", "german.csv", *ways)
    assert (status, out.count("\n")) == (0, 501)


# ---- check ----


@pytest.mark.parametrize(
    ("sizes", "status", "verdict"),
    [
        (["--variables", 10, "--bins", 15, "--components", 5], 0, "unique for almost every model"),
        (["--bins", 5, 6, 7, "--components", 2], 0, "unique for almost every model"),
        (["--variables", 3, "--bins", 2, "--components", 3], 1, "not identifiable: 4 free directions"),
    ],
)
def test_check_sizes(capsys, sizes, status, verdict):
    found, out, err = run(capsys, "check", *sizes)
    assert (found, err) == (status, "")
    assert f"Verdict: {verdict}\n" in out


def test_check_a_number_of_components_and_a_file(capsys, fitted):
    status, out, _ = run(capsys, "check", "--variables", 10, "--bins", 15)
    assert status == 0
    numbers = [line.split()[0] for line in out.splitlines()[1:]]
    assert numbers[:3] == [str(smp.max_identifiable_rank(10, 15, name)) for name in ("gevd", "kruskal", "generic")]
    assert float(numbers[3]) == pytest.approx(smp.max_identifiable_rank(10, 15, "joint"), rel=0.01)
    # Check a file.
    fitted.save("fit.nc")
    status, out, err = run(capsys, "check", "fit.nc")
    report = fitted.identifiability_
    assert err == ""
    assert out == f"{report!r}\n"
    assert status == (0 if fitted.identifiability_.is_generically_unique else 1)


# ---- predict ----


def test_predict(capsys, fitted, folder):
    fitted.save("fit.nc")
    arguments = ["fit.nc", "data.csv", *WAYS, "--probabilities", "--densities"]
    status, out, err = run(capsys, "predict", *arguments)
    assert status == 0
    assert re.fullmatch(r"accuracy: [\d.]+% of 500 samples .*\n", err)
    assert run(capsys, "predict", *arguments, "--out", "out.csv")[:2] == (0, "")
    assert (folder / "out.csv").read_text() == out
    found = pd.read_csv("out.csv")
    assert list(found.columns) == ["name", "component", "probability_0", "probability_1", "log_density"]
    np.testing.assert_array_equal(found["component"], fitted.predict(FRAME[NAMES]))
    np.testing.assert_allclose(found.iloc[:, 2:4], fitted.predict_proba(FRAME[NAMES]))
    np.testing.assert_allclose(found["log_density"], fitted.score_samples(FRAME[NAMES]))


def test_predict_matches_columns_by_name(capsys, fitted):
    fitted.save("fit.nc")
    FRAME[[*NAMES[::-1], "kind"]].to_csv("turned.csv", index=False)
    status, out, err = run(capsys, "predict", "fit.nc", "turned.csv")
    assert status == 0
    assert err == "note: Left out, as the model has no such variables: 'kind'.\n"
    components = [int(line.split(",")[1]) for line in out.splitlines()[1:]]
    np.testing.assert_array_equal(components, fitted.predict(FRAME[NAMES]))


def test_fit_with_discrete_variables(capsys, folder):
    table = FRAME[NAMES].assign(visits=np.arange(500) % 30, grade=np.arange(500) % 3)
    table.to_csv(folder / "visits.csv", index=False)
    for given, expected in (([], ["grade"]), (["visits", "grade"], ["visits", "grade"])):
        options = [word for name in given for word in ("--discrete", name)]
        assert (
            run(capsys, "fit", "visits.csv", "--components", "2", "--bins", "30", *options, "--out", "fit.nc")[0] == 0
        )
        discrete = smp.load("fit.nc").result_["discrete"]
        assert discrete["variable"].values[discrete.values == 1].tolist() == expected
    assert "'depths'" in run(capsys, "fit", "visits.csv", "--components", "2", "--discrete", "depths")[2]


def test_predict_knows_the_signs_of_missing_entries(capsys, folder):
    (folder / "signs.csv").write_text(
        FRAME[NAMES].assign(age=FRAME["age"].fillna(-999.0)).to_csv(index=False, na_rep="?")
    )
    signs = ["--missing=-999.0", "--missing", "?", "--missing=a\u2028b"]
    assert run(capsys, "fit", "signs.csv", *FIT, *signs, "--out", "fit.nc")[0] == 0
    status, out, err = run(capsys, "predict", "fit.nc", "signs.csv", "--densities")
    assert (status, err) == (0, "")
    # Old versions of pandas write and read the last digit wrong.
    found = pd.read_csv(io.StringIO(out))["log_density"]
    np.testing.assert_allclose(found, smp.load("fit.nc").score_samples(FRAME[NAMES]), rtol=1e-14)
    assert run(capsys, "fit", "data.csv", *FIT, *WAYS, "--out", "plain.nc")[0] == 0
    assert run(capsys, "predict", "plain.nc", "signs.csv")[0] == 2  # "?" is no number
    assert run(capsys, "predict", "plain.nc", "signs.csv", *signs)[1].count("\n") == 501
    text = (folder / "signs.csv").read_text()
    (folder / "signs.csv").write_text(text.replace("?", "a\u2028b"), encoding="utf-8")
    assert run(capsys, "predict", "fit.nc", "signs.csv", "--densities") == (0, out, "")


def test_predict_reads_tables_as_the_fit_did(capsys, folder, fitted, monkeypatch):
    FRAME[NAMES].to_csv("german.csv", index=False, sep=":", decimal=",")
    assert run(capsys, "fit", "german.csv", *FIT, "--sep", ":", "--decimal", ",", "--out", "fit.nc")[0] == 0
    status, out, err = run(capsys, "predict", "fit.nc", "german.csv", "--out", "-")
    assert (status, err) == (0, "")
    np.testing.assert_array_equal(pd.read_csv(io.StringIO(out)).component, fitted.predict(FRAME[NAMES]))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((folder / "german.csv").read_bytes())))
    assert run(capsys, "predict", "fit.nc", "-") == (0, out, "")
    assert run(capsys, "predict", "fit.nc", "data.csv", "--sep", ",", "--decimal", ".")[0] == 0
    assert run(capsys, "fit", "german.csv", *FIT, "--labels", "-")[0] == 2


def test_impute_fills_in_what_is_missing_and_nothing_else(capsys, fitted):
    fitted.save("fit.nc")
    assert run(capsys, "impute", "fit.nc", "data.csv", "--out", "full.csv")[0] == 0
    full = pd.read_csv("full.csv")
    assert list(full.columns) == list(FRAME.columns)
    np.testing.assert_allclose(full[NAMES], fitted.impute(FRAME[NAMES]))
    pd.testing.assert_frame_equal(full[["kind", "name"]], FRAME[["kind", "name"]])
    drawn = pd.read_csv(io.StringIO(run(capsys, "impute", "fit.nc", "data.csv", "--method", "draw", "--seed", 3)[1]))
    np.testing.assert_allclose(drawn[NAMES], fitted.impute(FRAME[NAMES], "draw", 3))


def test_components(capsys):
    table = FRAME[NAMES].assign(kind=np.array(["A", "B"])[DATA.labels])
    model = smp.SmoothProductMixture(2, random_state=0).fit(table)
    model.save("fit.nc")
    status, out, err = run(capsys, "components", "fit.nc", "--out", "components.csv")
    assert (status, err) == (0, "")
    rows = pd.read_csv("components.csv").pivot(index="variable", columns="component")
    np.testing.assert_allclose(rows["share"].loc["age"], model.weights_)
    means = [np.average(FRAME.age.dropna(), weights=model.predict_proba(table)[r][FRAME.age.notna()]) for r in (0, 1)]
    np.testing.assert_allclose(rows["mean"].loc["age"], means, atol=0.05)
    np.testing.assert_allclose(rows["spread"].loc[NAMES] ** 2, model.density_.var("all").loc[NAMES])
    assert set(rows["value"].loc["kind"]) == {"A", "B"}
    assert (rows["probability"].loc["kind"] > 0.9).all()
    cells = next(re.split(r"  +", line.strip()) for line in out.splitlines() if "age" in line)
    assert cells[-1].startswith(f"{rows['mean'].loc['age', 1]:.4g} (")
    assert re.search(r"kind +[AB] \(\d+%\) +[AB] \(\d+%\)", out)


# ---- dependent variables ----

DEPENDENT = ["--components", "2", "--id-column", "name", "--labels-column", "kind"]


@pytest.fixture
def dependent(folder):
    """Two groups that are long and narrow, and a variable that neither depends on a group nor on another variable."""
    rng = np.random.default_rng(0)
    kinds, size = rng.integers(2, size=200), rng.normal(size=(200, 1))
    X = size + 0.4 * rng.normal(size=(200, 3)) + 1.5 * np.outer(kinds, [1, -1, 1])
    frame = pd.DataFrame(np.column_stack([X, rng.normal(size=200)]), columns=NAMES)
    frame.assign(kind=np.array(["A", "B"])[kinds], name=range(200)).to_csv(folder / "dependent.csv", index=False)
    return frame


def test_a_fit_with_rivals_is_questionable(capsys, folder):
    X, _ = ambiguous_groups(300)
    pd.DataFrame(X).add_prefix("v").to_csv("rivals.csv", index=False)
    status, _, err = run(capsys, "fit", "rivals.csv", "--components", 3, "--seed", 0)
    assert (status, err.count("so near to this one")) == (1, 1)
    assert "model.rivals" not in err  # which is Python


def test_compare_prints_the_table_and_the_advice(capsys):
    some = FRAME.iloc[:150]
    some.to_csv("some.csv", index=False)
    status, out, err = run(capsys, "compare", "some.csv", "--components", 2, "--folds", 2, *WAYS, "--out", "models.csv")
    assert (status, err) == (1, "")  # entries are missing, which the unmixed model refuses
    found = smp.compare_models(some[NAMES], 2, n_folds=2, random_state=0)
    lines = out.splitlines()
    assert lines[0].split() == ["model", "heldout_mean", "heldout_error", "bic", "entropy", "n_dependent", "seconds"]
    for line, name in zip(lines[1:4], ("product", "log-concave", "unmixed"), strict=True):
        assert line.split()[:2] == [name, f"{float(found.heldout_mean.sel(model=name)):.4g}"]
    assert re.fullmatch(r"unmixed: \d+ of \d+ samples have missing entries; .* most of the correlations\.", lines[4])
    assert lines[-1] == found.attrs["advice"].replace("`failure` says why", "see above")
    assert pd.read_csv("models.csv").model.tolist() == ["product", "log-concave", "unmixed"]


def test_fit_says_that_variables_depend_on_each_other(capsys, dependent):
    status, out, err = run(capsys, "fit", "dependent.csv", *DEPENDENT, "--out", "fit.nc")
    assert status == 0
    assert "unmixing" not in out
    assert re.fullmatch("warning: Variables are strongly dependent within .* tensorly-smp independence names .*\n", err)
    ways = DEPENDENT[2:]
    status, out, err = run(capsys, "independence", "fit.nc", "dependent.csv", *ways, "--out", "pairs.csv")
    report = smp.check_independence(smp.load("fit.nc"), dependent, random_state=0)
    assert (status, err) == (1, "")
    table, _, advice = out.partition("\n\nTry ")
    assert repr(report).startswith(table)
    assert advice.startswith("fit --unmix, which")
    assert "tensorly-smp compare says" in advice
    assert "(" not in advice
    assert report.n_dependent >= 3
    pairs = pd.read_csv("pairs.csv")
    assert len(pairs) == 6
    assert list(zip(pairs.variable, pairs.other_variable, strict=True))[: report.n_dependent] == report.dependent
    assert pairs.is_dependent.sum() == report.n_dependent
    status, out, _ = run(
        capsys, "independence", "fit.nc", "dependent.csv", *ways, "--level", 1e-12, "--replicates", 0, "--seed", 1
    )
    assert status == 1
    assert out.startswith("Independence within 2 components of 4 variables, 200 samples\n")


def test_fit_with_a_linear_map(capsys, dependent):
    pytest.importorskip("matplotlib")
    options = ["--unmix", "--bins", 10, "--discrete", "age", "--jobs", 1, "--seed", 3]
    outputs = ["--out", "fit.nc", "--labels", "labels.csv", "--figure", "fit.png"]
    status, out, err = run(capsys, "fit", "dependent.csv", *DEPENDENT, *options, *outputs)
    assert (status, err) == (0, "")
    lines = dict(re.split(r"  +", line, maxsplit=1) for line in out.splitlines())
    assert re.fullmatch(r"3 of 4 variables are combined; start: .*; \d+ passes, converged", lines["unmixing"])
    assert "10 to 200 bins per variable" in lines["densities"]  # every value of age is one
    assert float(lines["accuracy"].partition("%")[0]) > 95
    loaded = smp.load("fit.nc")
    assert isinstance(loaded, smp.UnmixedProductMixture)
    np.testing.assert_array_equal(loaded.predict(dependent), pd.read_csv("labels.csv").component)
    status, out, _ = run(capsys, "independence", "fit.nc", "dependent.csv", *DEPENDENT[2:])
    assert status == 0
    assert "None of 6 pairs of sources is dependent" in out
    status, out, _ = run(capsys, "predict", "fit.nc", "dependent.csv", *DEPENDENT[2:], "--densities")
    assert status == 0
    assert out.startswith("name,component,log_density\n")
    assert run(capsys, "check", "fit.nc")[0] in (0, 1)


# ---- what goes wrong ----

UNUSABLE = {
    "no command": ([], "arguments are required: command"),
    "an unknown command": (["train"], "invalid choice"),
    "no number of components": (["fit", "data.csv"], "--components --select is required"),
    "two numbers of components": (["fit", "data.csv", "--components", 2, "--select", "1:2"], "not allowed with"),
    "a range that is none": (["fit", "data.csv", "--select", "3:1"], "no range of numbers such as 1:10"),
    "a long separator": (["fit", "data.csv", *FIT, "--sep", "::"], "not a single character"),
    "a short option": (["fit", "data.csv", "--comp", 2], "required|unrecognized"),
    "a comma for the point": (
        ["fit", "data.csv", *FIT, "--decimal", ","],
        "Column .length. has .* text: .*--drop",
    ),
    "an unknown column": (["fit", "data.csv", *FIT, "--drop", "weight"], "error: data.csv has no column 'weight'; it"),
    "a picture of unknown kind": (["fit", "data.csv", *FIT, "--figure", "fit.doc"], r"expected a name that ends in \."),
    "a map without smooth densities": (["fit", "data.csv", *FIT, "--unmix"], "--unmix with --refine none; it needs"),
    "a map of incomplete samples": (
        ["fit", "data.csv", "--components", 2, *WAYS, "--unmix"],
        "error: .* samples have missing entries.*; expected complete samples",
    ),
    "a table without a model": (["independence", "data.csv"], "arguments are required: data"),
    "independence of a table": (["independence", "data.csv", "x.csv"], "data.csv was not written by.*MODEL DATA"),
    "nothing to check": (["check"], "error: Give a model, or sizes: --variables 10"),
    "no number of variables": (["check", "--bins", 5, "--components", 2], "--bins with one number for each variable"),
    "too many to check": (["check", "data.csv", "--bins", 5], "error: A model has its own sizes"),
    "a model that is none": (
        ["check", "data.csv"],
        "error: data.csv was not written by .* Expected a file that fit --out",
    ),
    "a table before the model": (
        ["predict", "data.csv", "fit.nc"],
        "data.csv was not written by .*: predict MODEL DATA",
    ),
    "a model named like a table": (["fit", "data.csv", *FIT, "--out", "x.csv"], r"ends in \.nc\. .*--labels x\.csv"),
    "a model of unknown kind": (["fit", "data.csv", *FIT, "--out", "fit"], r"--out is fit, .*ends in \.nc\.$"),
    "lines before the first": (["fit", "data.csv", *FIT, "--skip-rows", -1], "--skip-rows is -1; expected at least 0"),
    "rows after the last": (["fit", "data.csv", *FIT, "--skip-footer", -1], "--skip-footer is -1; expected at least 0"),
    "an unknown encoding": (
        ["fit", "data.csv", *FIT, "--encoding", "latin-99"],
        "unknown encoding: latin-99",
    ),
    "a model that is not there": (["predict", "none.nc", "data.csv"], "error: There is no file none.nc."),
}


@pytest.mark.parametrize(("arguments", "message"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_what_cannot_be_used(capsys, folder, arguments, message):
    if "--figure" in arguments:
        pytest.importorskip("matplotlib")
    status, out, err = run(capsys, *arguments)
    assert status == 2
    assert out == ""
    assert re.search(message, err)
    assert "Traceback" not in err
    assert [path.name for path in folder.iterdir()] == ["data.csv"]


def test_keyboard_interrupt(capsys, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("tensorly_smp.cli.commands.read_table", interrupt)
    assert run(capsys, "fit", "data.csv", *FIT) == (130, "", "interrupted\n")


def test_help_version_and_the_module_as_a_process(capsys, folder):
    for command in ([], ["fit"], ["check"], ["predict"], ["impute"], ["independence"], ["components"], ["compare"]):
        status, out, _ = run(capsys, *command, "--help")
        assert status == 0
        assert out.startswith("usage: tensorly-smp")
    assert run(capsys, "--version")[:2] == (0, f"tensorly-smp {smp.__version__}\n")
    # As a process.
    command = [sys.executable, "-m", "tensorly_smp", "check", "--bins", "5", "6", "7", "--components", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Verdict: unique for almost every model\n" in done.stdout
