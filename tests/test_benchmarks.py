"""The pieces of the long benchmarks that can be wrong: other methods' fits and densities, splits, classes, resuming."""

import importlib
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.mixture import GaussianMixture

import tensorly_smp as smp

# Scripts that import each other by their bare names, as they do when one of them is run.
sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
peers, common, paper, real, real_data, backends, bench_jobs = map(
    importlib.import_module, ("peers", "common", "paper", "real", "real_data", "backends", "bench_jobs")
)


def two_clusters(seed=0, n_samples=300):
    """Two variables, two well separated clusters of Laplace distributions."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=n_samples)
    return np.array([[-4.0, 1.0], [4.0, -2.0]])[labels] + rng.laplace(size=(n_samples, 2)), labels


def grid_integral(values, points):
    """Of a density (n_points, n_points) over the plane."""
    return np.trapezoid(np.trapezoid(values, points), points)


def kernel_mixture(X, labels, floor=1e-5):
    posteriors = np.eye(2)[labels]
    return peers.KernelMixture(X, posteriors, posteriors.mean(axis=0), bandwidth=0.6, floor=floor)


MODELS = {
    "Laplace": lambda X, labels: peers.LaplaceMixture(2).fit(X),
    "kernels": kernel_mixture,
    "diag": lambda X, labels: GaussianMixture(2, covariance_type="diag", random_state=0).fit(X),
    "full": lambda X, labels: GaussianMixture(2, covariance_type="full", random_state=0).fit(X),
}


# ---- mixture of Laplace distributions ----


@given(x=st.lists(st.integers(-5, 5), min_size=1, max_size=12), data=st.data())
def test_weighted_median_minimizes_absolute_deviations(x, data):
    x = np.array(x, dtype=float)
    weights = np.array(data.draw(st.lists(st.integers(0, 4), min_size=len(x), max_size=len(x))), dtype=float)
    (median,) = peers.weighted_medians(x, weights[:, None], np.argsort(x))
    # A minimum lies at one of the points.
    costs = [(weights * np.abs(x - value)).sum() for value in x]
    assert (weights * np.abs(x - median)).sum() == pytest.approx(min(costs))


def test_laplace_mixtures_are_fitted():
    X, _ = two_clusters(n_samples=101)
    model = peers.LaplaceMixture(1).fit(X)
    medians = np.median(X, axis=0)
    np.testing.assert_allclose(model.loc_[:, 0], medians)
    np.testing.assert_allclose(model.scale_[:, 0], np.abs(X - medians).mean(axis=0))
    # Laplace likelihood never falls and the best start is kept.
    X, _, _ = smp.datasets.make_smooth_mixture("laplace", 300, 4, 3, random_state=0)
    model = peers.LaplaceMixture(3, n_init=1, tol=0.0, max_iter=60, random_state=0).fit(X)
    assert len(model.trace_) > 3
    assert np.diff(model.trace_).min() > -1e-12
    models = [peers.LaplaceMixture(3, n_init=n, random_state=0).fit(X) for n in (1, 2, 6)]
    ends = [each.trace_[-1] for each in models]
    assert ends == sorted(ends)
    assert models[-1].score_samples(X).mean() == pytest.approx(ends[-1])
    # Laplace mixture finds the truth.
    X, _, truth = smp.datasets.make_smooth_mixture("laplace", 3000, 6, 3, random_state=0)
    new, labels = truth.sample(2000, random_state=1)
    model = peers.LaplaceMixture(3).fit(X)
    below = smp.metrics.clustering_accuracy(labels, truth.predict(new))
    assert smp.metrics.clustering_accuracy(labels, model.predict(new)) > below - 0.01
    assert smp.metrics.kl_divergence_mc(truth, model, X=new).value < 0.03


# ---- normalization ----


@pytest.mark.parametrize("name", MODELS)
def test_joint_density_integrates_to_one_and_has_these_marginals(name):
    X, labels = two_clusters()
    model = MODELS[name](X, labels)
    points = np.linspace(-40.0, 40.0, 801)
    plane = np.stack(np.meshgrid(points, points, indexing="ij"), axis=-1).reshape(-1, 2)
    density = np.exp(model.score_samples(plane)).reshape(len(points), -1)
    assert grid_integral(density, points) == pytest.approx(1.0, abs=2e-3)
    marginal = np.exp(peers.marginal_logpdf(model, points, 0, 2))
    np.testing.assert_allclose(np.trapezoid(density, points, axis=1), marginal, rtol=5e-3)


@pytest.mark.parametrize("name", MODELS)
def test_measured_masses_are_one(name):
    X, labels = two_clusters()
    np.testing.assert_allclose(peers.marginal_masses(MODELS[name](X, labels), X), 1.0, atol=1e-4)
    if name != "kernels":
        X[labels == 0] = 0.3 + 1e-4 * X[labels == 0]  # a narrow component
        np.testing.assert_allclose(peers.marginal_masses(MODELS[name](X, labels), X), 1.0, atol=1e-4)


def test_measured_masses_and_kernels_are_as_they_should_be():
    class Doubled(peers.LaplaceMixture):
        def conditional_logpdf(self, x, variable):
            return super().conditional_logpdf(x, variable) + np.log(2.0)

    X, _ = two_clusters()
    np.testing.assert_allclose(peers.marginal_masses(Doubled(1).fit(X), X), 2.0, atol=1e-3)
    # Kernel mixture without floor is the kernel estimate.
    X, labels = two_clusters()
    x = X[labels == 1, 0]
    expected = stats.gaussian_kde(x, bw_method=0.6 / x.std(ddof=1))(X[:, 0])
    found = np.exp(kernel_mixture(X, labels, floor=0.0).conditional_logpdf(X[:, 0], 0))[:, 1]
    # Linear between grid points a tenth of the bandwidth apart.
    np.testing.assert_allclose(found, expected, rtol=3e-3, atol=1e-5)


# ---- mixtools ----


@pytest.fixture
def fresh_question():
    peers.has_mixtools.cache_clear()
    yield
    peers.has_mixtools.cache_clear()


def test_without_r_mixtools_is_said_to_be_missing(monkeypatch, fresh_question, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ModuleNotFoundError):
        peers.fit_peer("npEM", np.zeros((5, 3)), 2, 0)


@pytest.mark.skipif(os.name != "posix", reason="a shell script stands in for Rscript")
def test_what_r_writes_becomes_a_density(monkeypatch, fresh_question, tmp_path):
    X, labels = two_clusters()
    prepared = tmp_path / "prepared"
    prepared.mkdir()
    # As R prints matrices: padded, and in scientific notation.
    np.savetxt(prepared / "posteriors.csv", np.eye(2)[labels] * 0.98 + 0.01, delimiter=", ", fmt="%.16e")
    np.savetxt(prepared / "weights.csv", [0.4, 0.6])
    np.savetxt(prepared / "bandwidth.csv", [0.6])
    script = tmp_path / "Rscript"
    script.write_text(f'#!/bin/sh\n[ "$1" = -e ] && exit 0\necho "$2 $3 $4" > {tmp_path}/told\ncp {prepared}/* "$5"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    model = peers.fit_peer("npMSL", X, 2, seed=7)
    assert (tmp_path / "told").read_text().split() == ["npMSL", "2", "7"]
    np.testing.assert_allclose(model.weights_, [0.4, 0.6])
    np.testing.assert_allclose(peers.marginal_masses(model, X), 1.0, atol=1e-4)
    assert smp.metrics.clustering_accuracy(labels, model.predict(X)) > 0.98


# ---- the paper's experiments ----


def rows_of(cell, methods):
    return [common.row_of(paper.judge, paper.KEYS, (*cell, method)) for method in methods]


def test_a_fit_that_fails_gets_a_row_that_says_so(monkeypatch):
    def fails(*_):
        raise ValueError("no such thing")

    monkeypatch.setattr(peers, "fit_mixtools", fails)
    rows = rows_of(("gaussian", 2, 200, 0.0, 0, 500), ("GMM diag", "npEM", "k-means", "true model"))
    assert [row["status"] for row in rows] == ["ok", "failed: ValueError: no such thing", "ok", "ok"]
    assert rows[0]["kl"] > 0
    assert rows[0]["mass_error"] < 1e-4
    assert "kl" not in rows[2]
    assert rows[3]["below"] == 0
    assert rows[3]["accuracy"] >= 99


def test_no_imputation_is_better_than_the_conditional_mean():
    rows = rows_of(("gaussian", 2, 400, 0.3, 0, 500), ("least", "ours", "iterative", "nearest", "mean"))
    least, *others = [row["rmse"] for row in rows]
    assert min(others) > 0.99 * least
    assert others[-1] == pytest.approx(1, abs=0.1)
    assert rows[1]["mass_error"] < 1e-4


def test_paper_run_resumes(monkeypatch, tmp_path, capsys):
    arguments = ["--cases", "laplace", "--ranks", "2", "--samples", "150", "--truths", "1", "--output", str(tmp_path)]
    paper.main([*arguments, "--methods", "GMM diag", "true model"])
    monkeypatch.setattr(paper, "fit", lambda method, X, rank, seed: GaussianMixture(rank, random_state=0).fit(X))
    paper.main([*arguments, "--methods", "GMM diag", "EM Laplace", "true model"])
    fits = common.read_fits(tmp_path / "fits.csv", paper.KEYS, paper.FIGURES)
    # Had the first been fitted again, by the stand-in, both would have the same divergence.
    kl = fits.set_index("method")["kl"]
    assert set(kl.index) == {"GMM diag", "true model", "EM Laplace"}
    assert kl["GMM diag"] != kl["EM Laplace"]
    assert (tmp_path / "summary.txt").read_text() in capsys.readouterr().out
    assert {path.name for path in tmp_path.glob("*.png")} == {"fig06_kl_laplace.png", "fig10_accuracy_laplace.png"}


# ---- real data ----


@given(n_samples=st.integers(30, 2000), repeat=st.integers(0, 20))
def test_split_has_every_sample_once(n_samples, repeat):
    parts = real.split(n_samples, repeat)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(n_samples))
    for part, share in zip(parts, (0.7, 0.1, 0.2), strict=True):
        assert abs(len(part) - share * n_samples) <= 1.0
    assert not np.array_equal(parts[0], real.split(n_samples, repeat + 1)[0])


@pytest.mark.parametrize("name", real_data.DATA)
def test_real_data_are_usable(name):
    X, classes, _ = data = real_data.DATA[name]()
    assert len(X) == len(classes)
    assert X.shape[1] >= 3
    assert set(classes) == set(range(data.n_classes))
    assert np.isfinite(X.to_numpy()[X.notna()]).all()
    assert (X.isna().any(axis=1).any()) == name.startswith("penguins")
    # Continuous enough: no value is shared by half of the samples.
    assert max(column.value_counts(normalize=True).iloc[0] for _, column in X.items()) < 0.5


def test_densities_of_real_data_are_of_the_original_units_and_of_filled_entries():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(2000, 2)) @ [[3.0, 0.0], [40.0, 100.0]] + [5.0, -900.0])
    model = real.Standardized("GMM full", X, 1, 0)
    expected = stats.multivariate_normal(X.mean(), X.cov(ddof=0)).logpdf(X)
    np.testing.assert_allclose(model.score_samples(X), expected, rtol=1e-3)  # 1e-6 is added to the variances
    # Missing entries are means of the fitted samples.
    X = pd.DataFrame({"a": [1.0, 3.0, np.nan], "b": [0.0, 1.0, 5.0]})
    model = real.Standardized("GMM diag", X, 1, 0)
    assert model.score_samples(pd.DataFrame({"a": [np.nan, 2.0], "b": [1.0, 1.0]})).tolist() == pytest.approx(
        [model.score_samples(pd.DataFrame({"a": [2.0], "b": [1.0]}))[0]] * 2
    )


# ---- backends, and the table of jobs ----


def test_agreement_of_backends_is_that_of_the_same_problem(monkeypatch, capsys):
    monkeypatch.setattr(backends, "MODULES", {"numpy": "numpy"})
    backends.main(
        ["agreement", *["--samples", "200", "--variables", "4", "--bins", "3", "--rank", "2", "--sweeps", "3"]]
    )
    table = [line.split() for line in capsys.readouterr().out.splitlines() if "float32" in line]
    assert [row[:2] for row in table] == [["kl", "explicit"], ["frobenius", "explicit"], ["frobenius", "implicit"]]
    assert all(0 < float(figure) < 1e-4 for row in table for figure in row[4:6])


def test_a_line_of_the_table_of_jobs_has_the_ratios():
    line = str(bench_jobs.Line("name", 3.0, {"one": 2.0, "other": 12.0}, "note"))
    assert " ".join(line.split()) == "name 3.0000 one 2 (x 1.5); other 12 (x 0.25); note"
    assert str(bench_jobs.Line("name", 3.0)).split() == ["name", "3.0000"]


def test_seconds_are_those_of_the_works_in_turn():
    calls = []
    works = {"short": lambda: calls.append(0), "long": lambda: (calls.append(1), np.sort(np.arange(10**6)[::-1]))}
    seconds = bench_jobs.seconds_of(works, 3)
    assert 0 < seconds["short"] < seconds["long"]
    assert calls == [0, 1] * 3


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.TensorlySmpWarning")
def test_paper_form_counts_as_many_triples_as_it_says():
    names = [line.name.split(", ")[1:] for line in bench_jobs.paper(bench_jobs.Size(1, 60))]
    assert names == [[triples, loss] for triples in ("24 triples", "all triples") for loss in ("kl", "frobenius")]
