"""The number of components: figures against their definitions, choices on easy data, failures, hostile input."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from shared import ambiguous_groups

import tensorly_smp as smp
from tensorly_smp._support.checks import warn
from tensorly_smp.exceptions import (
    ConvergenceWarning,
    DependenceWarning,
    InvalidInputError,
    InvalidTypeError,
    RivalSolutionsWarning,
    SizeLimitError,
)
from tensorly_smp.selection import fits, n_components
from tensorly_smp.selection.fits import CandidateFit

X = smp.datasets.make_smooth_mixture("gaussian", 300, 4, 2, random_state=1).X
QUICK = {"n_bins": 8, "n_init": 1}
FIGURES = ("criterion", "log_likelihood", "n_parameters", "entropy", "bic", "icl", "seconds")


def select(data=X, candidates=(1, 2, 3), criterion="bic", **arguments):
    return smp.select_n_components(data, candidates, criterion, **{"random_state": 0, **QUICK, **arguments})


def number_of_least(criterion):
    return int(criterion.n_components[int(np.argmin(criterion.values))])


def timeless(dataset):
    return dataset.drop_vars("seconds")


@pytest.fixture(scope="module")
def table():
    return select()


@pytest.fixture(scope="module")
def heldout():
    return select(criterion="cv", n_folds=2)


@pytest.fixture(scope="module")
def models():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RivalSolutionsWarning)  # three components of two groups
        warnings.simplefilter("ignore", DependenceWarning)  # of one component
        return {rank: smp.SmoothProductMixture(rank, random_state=0, **QUICK).fit(X) for rank in (1, 2, 3)}


def fail_at(monkeypatch, wrong, error):
    """Fits whose (number of components, number of samples) `wrong` accepts raise the error, and none helps another."""
    fit = smp.SmoothProductMixture._fit
    monkeypatch.setattr(smp.SmoothProductMixture, "_walk", None)

    def failing(self, X, *arguments):
        if wrong(self.n_components, len(X)):
            raise error
        return fit(self, X, *arguments)

    monkeypatch.setattr(smp.SmoothProductMixture, "_fit", failing)


# ---- figures ----


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.RivalSolutionsWarning")
@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.DependenceWarning")
@pytest.mark.parametrize("rank", [2, 3])
def test_figures_of_one_number_are_those_of_the_estimator(table, models, rank):
    one, model = select(candidates=[rank]).isel(n_components=0), models[rank]
    posterior = model.predict_proba(X)
    likelihood = model.score_samples(X).sum()
    entropy = -sum(p * np.log(p) for p in posterior.ravel() if p > 0)
    parameters = model.result_.attrs["n_parameters"]
    assert float(one.log_likelihood) == pytest.approx(likelihood, rel=1e-12)
    assert float(one.n_parameters) == parameters
    assert float(one.entropy) == pytest.approx(entropy, rel=1e-9, abs=1e-9)
    assert float(one.bic) == pytest.approx(-2 * likelihood + parameters * np.log(300), rel=1e-12)
    assert float(one.icl) == pytest.approx(float(one.bic) + 2 * entropy, rel=1e-12)
    assert float(one.aic3) == pytest.approx(-2 * likelihood + 3 * parameters, rel=1e-12)
    # Among several numbers the one that is chosen has the same; others come from its splits and merges.
    among = table.sel(n_components=rank)
    np.testing.assert_allclose(among.log_likelihood, likelihood, rtol=1e-12 if rank == 2 else 0.005)
    np.testing.assert_allclose(among.bic, -2 * among.log_likelihood + among.n_parameters * np.log(300))


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.RivalSolutionsWarning")  # three components of two groups
@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.DependenceWarning")
def test_held_out_likelihood_is_that_of_fits_without_the_fold(heldout, models):
    folds = fits.spread_over_folds(fits.read_job(X, None, None, 0, {}), 2).argmax(axis=0)
    assert np.bincount(folds).tolist() == [150, 150]
    for rank in (1, 2, 3):
        logs = np.full(len(X), np.nan)
        for fold in range(2):
            model = smp.SmoothProductMixture(rank, random_state=0, **QUICK, binning=models[rank].binning_)
            logs[folds == fold] = model.fit(X[folds != fold]).score_samples(X[folds == fold])
        by_fold = [logs[folds == fold].mean() for fold in range(2)]
        # A number alone to rounding. Where numbers help each other too, but for three components of two groups: other
        # optima are as good there.
        together = 1e-6 if rank < 3 else 0.05
        for found, tolerance in ((select(candidates=[rank], criterion="cv", n_folds=2), 1e-12), (heldout, together)):
            one = found.sel(n_components=rank)
            np.testing.assert_allclose(one.heldout_log_likelihood, by_fold, rtol=tolerance)
            assert float(one.heldout_mean) == pytest.approx(logs.mean(), rel=tolerance)
            assert float(one.criterion) == pytest.approx(-2 * 300 * float(one.heldout_mean), rel=1e-12)
            assert float(one.heldout_spread) == pytest.approx(
                np.std(one.heldout_log_likelihood.values, ddof=1), rel=1e-9
            )


def test_cross_validation_has_the_information_criteria_too_and_is_kept_in_files(table, heldout, tmp_path):
    for name in ("log_likelihood", "n_parameters", "entropy", "bic", "icl"):
        xr.testing.assert_identical(table[name], heldout[name])
    assert (heldout.seconds > 0).all()
    # Netcdf.
    heldout.to_netcdf(tmp_path / "table.nc", engine="scipy")
    with xr.open_dataset(tmp_path / "table.nc", engine="scipy") as read:
        xr.testing.assert_equal(read.load(), heldout)
        assert read.attrs == heldout.attrs
        assert smp.plotting.plot_selection(read).get_xlabel() == "number of components"


@pytest.mark.parametrize(("case", "rank", "missing"), [("gaussian", 2, 0.3), ("laplace", 3, 0.0)])
def test_right_number_on_easy_data(case, rank, missing):
    easy, labels, _ = smp.datasets.make_smooth_mixture(case, 500, 5, rank, missing=missing, random_state=3)
    # Clear clusters: the Laplace distributions of the paper overlap.
    table = select(easy + 6.0 * labels[:, None], range(1, 5), "cv", n_folds=2)
    assert table.attrs["best"] == rank
    assert table.attrs["n_above_noise"] == rank
    assert number_of_least(table.bic) == number_of_least(table.icl) == rank


def test_one_component_and_one_cluster():
    independent = np.random.default_rng(0).gamma(3.0, size=(400, 4))
    table = select(independent, [1, 2, 3])
    assert (table.attrs["best"], table.attrs["n_above_noise"]) == (1, 1)
    alone = select(independent, [1])
    assert alone.attrs["best"] == 1
    assert float(alone.entropy.item()) == 0.0
    assert float(alone.bic.item()) == float(table.bic.sel(n_components=1))
    # Overlapping components are one cluster.
    rng = np.random.default_rng(0)
    # Two components whose means differ by less than a standard deviation in each of five variables.
    overlapping = rng.normal(size=(1500, 5)) + 0.45 * rng.choice([-1.0, 1.0], size=(1500, 1))
    by_density, by_clusters = (select(overlapping, [1, 2], name) for name in ("bic", "icl"))
    assert (by_density.attrs["best"], by_clusters.attrs["best"]) == (2, 1)
    xr.testing.assert_equal(by_clusters.criterion, by_clusters.icl)


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.RivalSolutionsWarning")  # four, 5.4 nats below or more
def test_latent_classes():
    rng = np.random.default_rng(0)
    classes, shares = rng.integers(3, size=2000), rng.uniform(0.1, 0.9, size=(8, 3))
    coins = (rng.random((2000, 8)) < shares[:, classes].T).astype(float)
    table = select(coins, range(1, 5))
    assert table.attrs["best"] == 3
    # One probability of each variable in each class, and the weights: empty bins between 0 and 1 are no parameters.
    assert table.n_parameters.values.tolist() == [8.0, 17.0, 26.0, 35.0]


def test_the_paper_s_algorithm_counts_bin_probabilities():
    whole = np.column_stack([X, np.arange(300) % 2])  # a variable with two values uses two of its bins
    table = select(whole, [2], refine=None, density="histogram")
    model = smp.SmoothProductMixture(2, random_state=0, refine=None, density="histogram", **QUICK).fit(whole)
    used = [len(np.unique(column[column >= 0])) for column in smp.encode_samples(whole, model.binning_).values.T]
    assert used[-1] == 2
    assert table.n_parameters.item() == 1 + 2 * sum(size - 1 for size in used)
    assert table.log_likelihood.item() == pytest.approx(300 * model.score(whole), rel=1e-12)


# ---- the choice ----


@given(st.data())
def test_gaps(data):
    shape = data.draw(st.integers(1, 4)), data.draw(st.integers(2, 6))
    numbers = st.floats(-5, 5).map(lambda x: round(x, 3))
    logs = np.array(data.draw(st.lists(numbers, min_size=shape[0] * shape[1], max_size=shape[0] * shape[1])))
    logs = logs.reshape(shape)
    weights = np.array(data.draw(st.lists(st.integers(1, 3), min_size=shape[1], max_size=shape[1])), dtype=float)
    gap, error = fits._gaps(logs, weights)
    best = int(np.argmax([np.average(row, weights=weights) for row in logs]))
    for row, one_gap, one_error in zip(logs, gap, error, strict=True):
        difference = logs[best] - row
        mean = np.average(difference, weights=weights)
        assert one_gap == pytest.approx(mean, abs=1e-12)
        variance = sum(w * (d - mean) ** 2 for w, d in zip(weights, difference, strict=True)) / weights.sum() ** 2
        assert one_error == pytest.approx(variance**0.5, abs=1e-12)
    assert gap[best] == error[best] == 0.0


def held_out_table(gaps, errors):
    contents = {"criterion": gaps, "heldout_gap": gaps, "heldout_gap_error": errors}
    return xr.Dataset({k: ("n_components", v) for k, v in contents.items()}, {"n_components": [2, 3, 4]})


def test_cross_validation_takes_the_smallest_number_within_one_standard_error():
    assert n_components._decided(held_out_table([0.5, 0.01, 0.0], [0.1, 0.02, 0.0]), []).attrs["best"] == 3
    assert n_components._decided(held_out_table([0.5, 0.03, 0.0], [0.1, 0.02, 0.0]), []).attrs["best"] == 4
    assert n_components._decided(held_out_table([np.nan, 0.0, np.nan], [np.nan, 0.0, np.nan]), []).attrs["best"] == 3


def test_rivals_of_the_chosen_number_are_told():
    alike, _ = ambiguous_groups(600)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = smp.select_n_components(alike, [3, 4], random_state=0)
    assert table.attrs["best"] == 3
    assert "RivalSolutionsWarning" in table.warnings.sel(n_components=3).item()
    (told,) = [str(each.message) for each in caught if issubclass(each.category, RivalSolutionsWarning)]
    assert told.startswith("n_components = 3: ")


# ---- labels, files ----


def answers():
    """Codes of 400 rows of four items; a label occurs once, and 55 rows have no answer."""
    rng = np.random.default_rng(0)
    codes = (rng.random((400, 4)) < np.where(rng.random(400)[:, None] < 0.5, 0.8, 0.2)).astype(float)
    codes[7, 0] = 2
    codes[345:] = np.nan
    return codes


def test_folds_of_text_are_folds_of_its_codes():
    codes = answers()
    text = pd.DataFrame(np.where(np.isnan(codes), None, np.array(["a", "b", "z"])[np.nan_to_num(codes).astype(int)]))
    tables = [select(data, [1, 2], "cv") for data in (text, codes)]
    np.testing.assert_allclose(*(each.heldout_log_likelihood for each in tables), rtol=0, atol=1e-9)


def test_samples_without_entries_do_not_count():
    codes = answers()
    table = select(codes, [2])
    model = smp.SmoothProductMixture(2, random_state=0, **QUICK).fit(codes)
    assert table.attrs["n_samples"] == 345
    expected = -2 * model.score_samples(codes).sum() + np.log(345) * model.n_parameters_
    assert model.bic(codes) == pytest.approx(expected, abs=1e-9)
    assert table.bic.item() == pytest.approx(expected, abs=1e-6)
    weights = 1.0 + np.arange(400) % 2
    expected = -2 * weights @ model.score_samples(codes) + np.log(weights[:345].sum()) * model.n_parameters_
    assert model.bic(codes, weights) == pytest.approx(expected, abs=1e-9)
    da = pytest.importorskip("dask.array")
    assert model.bic(da.from_array(codes, chunks=(90, 4))) == pytest.approx(model.bic(codes), abs=1e-9)


def test_labels(table, heldout):
    assert table.attrs["best"] == number_of_least(table.criterion) == 2
    xr.testing.assert_equal(table.criterion, table.bic)
    aic3 = select(criterion="aic3")
    assert aic3.attrs["best"] == number_of_least(aic3.aic3)
    assert table.sizes == {"n_components": 3, "order": 6}
    assert table.n_components.values.tolist() == [1, 2, 3]
    assert table.order.values.tolist() == [1, 2, 3, 4, 5, 6]
    assert heldout.heldout_log_likelihood.dims == ("n_components", "fold")
    for dataset in (table, heldout):
        assert all(dataset[name].attrs["long_name"] for name in dataset.data_vars)
        assert all(type(value) in (int, float, str) for value in dataset.attrs.values())
        assert all(np.isfinite(dataset[name].values).all() for name in FIGURES)
    assert set(table.failure.values) == {""}
    assert table.warnings.values.tolist() == ["", "", ""]
    expected = {"criterion_name": "bic", "random_state": 0, "n_samples": 300, "total_weight": 300.0}
    assert {name: table.attrs[name] for name in expected} == expected
    assert heldout.attrs["n_folds"] == 2


# ---- weights and missing entries ----


def test_weights_count_samples_and_parameters_go_by_names():
    weights = np.tile([1.0, 2.0], 150)
    table = select(candidates=[2], sample_weight=weights)
    model = smp.SmoothProductMixture(2, random_state=0, **QUICK).fit(X, sample_weight=weights)
    likelihood = weights @ model.score_samples(X)
    assert table.log_likelihood.item() == pytest.approx(likelihood, rel=1e-12)
    penalty = table.n_parameters.item() * np.log(450)
    assert table.bic.item() == pytest.approx(-2 * likelihood + penalty, rel=1e-12)
    assert (table.attrs["n_samples"], table.attrs["total_weight"]) == (300, 450.0)
    # Parameters by the names of variables.
    frame = pd.DataFrame(X - X.min(axis=0), columns=list("abcd"))
    table = select(frame, [2], support={"b": (0, None)})
    model = smp.SmoothProductMixture(2, random_state=0, support={"b": (0, None)}, **QUICK).fit(frame)
    assert table.log_likelihood.item() == pytest.approx(300 * model.score(frame), rel=1e-12)
    assert table.log_likelihood.item() != select(frame, [2]).log_likelihood.item()


def test_folds_share_the_copies_of_a_pattern():
    patterns, counts = X[:4].round(), np.array([500.0, 300.0, 1.0, 0.0])
    held_out = fits.spread_over_folds(fits.read_job(patterns, counts, None, 0, {}), 4)
    assert held_out.sum(axis=0).tolist() == counts.tolist()
    assert np.ptp(held_out.sum(axis=1)) <= 1.0
    # Hypergeometric: 500 of 801 copies, a quarter of which is drawn, within four standard deviations.
    sd = np.sqrt(801 / 4 * (500 / 801) * (301 / 801) * (3 / 4))
    assert np.abs(held_out[:, 0] - 125.0).max() < 4 * sd


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.TensorlySmpWarning")
def test_patterns_with_counts_are_the_repeated_rows():
    rng = np.random.default_rng(0)
    likely = np.where(rng.random((300, 1)) < 0.4, 0.85, 0.15)
    rows = (rng.random((300, 5)) < likely).astype(float)
    patterns, counts = np.unique(rows, axis=0, return_counts=True)
    first = smp.select_n_components(patterns, [1, 2, 3], "cv", n_folds=3, sample_weight=counts, random_state=0)
    second = smp.select_n_components(np.repeat(patterns, counts, axis=0), [1, 2, 3], "cv", n_folds=3, random_state=0)
    assert first.attrs["best"] == second.attrs["best"] == 2
    assert (first.attrs.pop("n_samples"), second.attrs.pop("n_samples")) == (len(patterns), 300)
    xr.testing.assert_identical(timeless(first), timeless(second))


def test_discrete_variables_stay_discrete_in_every_fold():
    # Twenty values look discrete in 80 samples, but not in 40.
    data = np.column_stack([X[:80], np.arange(80) % 20])
    table = select(data, [2], "cv", n_folds=2)
    folds = fits.spread_over_folds(fits.read_job(data, None, None, 0, {}), 2).argmax(axis=0)
    model = smp.SmoothProductMixture(2, random_state=0, **QUICK)
    assert model.fit(data).result_.discrete.values.tolist() == [0, 0, 0, 0, 1]
    binning = model.binning_
    assert not model.fit(data[folds == 1]).result_.discrete.any()
    model.set_params(binning=binning)  # which lists the values
    expected = model.fit(data[folds == 1]).score(data[folds == 0])
    assert float(table.heldout_log_likelihood[0, 0]) == pytest.approx(expected, rel=1e-12)


# ---- seeds and jobs ----


def test_neither_the_order_of_the_candidates_nor_the_container_matters(table):
    xr.testing.assert_identical(timeless(select(candidates=np.array([3, 1, 2]))), timeless(table))
    xr.testing.assert_identical(timeless(select(candidates=3)), timeless(table))
    # Containers.
    frame = pd.DataFrame(X, columns=["a", "b", ("c", 1), "d"], index=np.arange(300)[::-1])
    array = xr.DataArray(X.T, dims=("sensor", "when"), coords={"sensor": list("abcd")})
    for data, arguments in ((frame, {}), (array, {"sample_dim": "when"})):
        xr.testing.assert_equal(select(data, [2], **arguments).bic, table.bic.sel(n_components=[2]))


def test_seed_is_reported_and_jobs_change_nothing(heldout):
    table = select(candidates=[2], random_state=np.random.RandomState(3))
    again = select(candidates=[2], random_state=table.attrs["random_state"])
    xr.testing.assert_identical(timeless(again), timeless(table))
    # Result does not depend on n jobs.
    table = select(criterion="cv", n_folds=2, n_jobs=2)
    for name in ("criterion", "heldout_log_likelihood", "icl", "failure", "warnings"):
        xr.testing.assert_identical(table[name], heldout[name])
    # Fits travel between processes.
    fit = CandidateFit(2, error=InvalidInputError("what"), caught=[(ConvergenceWarning, "why")])
    again = pickle.loads(pickle.dumps(fit))
    assert (again.failure, again.caught) == ("InvalidInputError: what", [(ConvergenceWarning, "why")])


# ---- failures and warnings ----


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.RivalSolutionsWarning")  # three components of two groups
@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.DependenceWarning")
def test_failed_candidate(monkeypatch, models):
    fail_at(monkeypatch, lambda rank, n_samples: rank == 2, np.linalg.LinAlgError("no convergence"))
    failed = select()
    assert failed.failure.values.tolist() == ["", "LinAlgError: no convergence", ""]
    for name in ("criterion", "log_likelihood", "n_parameters", "entropy", "bic", "icl"):
        assert np.isnan(failed[name].values).tolist() == [False, True, False]
    bic = [models[rank].bic(X) for rank in (1, 3)]
    np.testing.assert_allclose(failed.bic.values[[0, 2]], bic, rtol=1e-12)
    assert failed.attrs["best"] == (1 if bic[0] < bic[1] else 3)


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.RivalSolutionsWarning")  # three components of two groups
@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.DependenceWarning")
def test_failed_fold(monkeypatch, models):
    fail_at(monkeypatch, lambda rank, n_samples: rank == 2 and n_samples < 300, ValueError("too few"))
    failed = select(criterion="cv", n_folds=2)
    assert failed.failure.values.tolist() == ["", "Without fold 0: ValueError: too few", ""]
    assert np.isnan(failed.heldout_log_likelihood.values).sum(axis=1).tolist() == [0, 2, 0]
    assert np.isnan(failed.criterion.values).tolist() == [False, True, False]
    np.testing.assert_allclose(failed.bic, [models[rank].bic(X) for rank in (1, 2, 3)])  # of all samples, which worked
    assert failed.attrs["best"] == 3


def test_failed_fits_warnings_and_interrupts_are_told():
    table = select(X[:6], [1, 7])
    assert "7 components with 6 samples" in table.failure.values[1]
    assert table.attrs["best"] == 1
    # Warnings are given once.
    with pytest.warns(ConvergenceWarning) as given_warnings:
        table = select(candidates=[1, 2], max_iter=0)
    assert len(given_warnings) == 1
    assert str(given_warnings[0].message).startswith("All fits: ")
    assert given_warnings[0].filename.endswith("test_selection.py")
    assert table.warnings.values.tolist() == ["ConvergenceWarning", "ConvergenceWarning"]
    # Interrupt stops everything.
    ranks = []

    def interrupt(cp_tensor, loss):
        ranks.append(cp_tensor.rank)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        select(callback=interrupt)
    assert set(ranks) == {3}  # the first fit


def test_warnings_name_the_numbers_they_concern(monkeypatch):
    fit = smp.SmoothProductMixture._fit

    def warning(self, X, *arguments):
        if self.n_components > 1:
            warn(f"{self.n_components} are many")
        return fit(self, X, *arguments)

    monkeypatch.setattr(smp.SmoothProductMixture, "_walk", None)
    monkeypatch.setattr(smp.SmoothProductMixture, "_fit", warning)
    with pytest.warns(UserWarning, match="^n_components = 2, 3: 2 are many$") as given_warnings:
        select()
    assert len(given_warnings) == 1


def test_lost_singular_values_do_not_cost_the_fits_but_an_error_of_all_does(monkeypatch, table):
    def fail(*_):
        raise np.linalg.LinAlgError("SVD did not converge")

    monkeypatch.setattr(n_components, "pair_singular_values", fail)
    lost = select(candidates=[2])
    assert lost.bic.item() == table.bic.sel(n_components=2).item()
    assert np.isnan(lost.singular_values).all()
    assert lost.attrs["n_above_noise"] == 0
    # If all fail the error is raised.
    fail_at(monkeypatch, lambda *_: True, MemoryError("all of it"))
    with pytest.raises(MemoryError, match="all of it"):
        select(criterion="cv")


# ---- hostile input ----


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"candidates": []}, InvalidInputError, r"is \[\]; expected"),
        ({"candidates": [0, 1]}, InvalidInputError, "at least 1"),
        ({"candidates": [2, 1, 2]}, InvalidInputError, r"\[1, 2, 2\]; expected .* different integers"),
        ({"candidates": {1: 2}}, InvalidTypeError, "integer"),
        ({"candidates": [1.0, 2.0]}, InvalidTypeError, "integer"),
        ({"candidates": (n for n in (1, 2))}, InvalidTypeError, "generator"),
        ({"criterion": "aic"}, InvalidInputError, "'aic'; expected one of"),
        ({"criterion": "cv", "n_folds": 1}, InvalidInputError, "at least 2"),
        ({"criterion": "cv", "sample_weight": np.full(300, 1.5)}, InvalidInputError, r"is 1\.5; .* Round the weights"),
        ({"criterion": "cv", "sample_weight": np.full(300, 1e9)}, SizeLimitError, r"3e\+11 samples are too many"),
        ({"criterion": "cv", "n_folds": 200}, InvalidInputError, "too few for 200 folds"),
        ({"criterion": "cv", "data": X[:9]}, InvalidInputError, "9 samples .* too few for 5 folds"),
        ({"sample_weight": np.full(300, 1 / 300)}, InvalidInputError, "sum to 1; expected at least 2"),
        ({"n_binz": 3}, InvalidTypeError, "n_binz"),
        ({"data": X[:, :2]}, InvalidInputError, "at least three"),
        ({"data": np.full((9, 3), np.nan)}, InvalidInputError, "with entries, .* sum to 0; expected at least 2"),
        ({"data": np.where(np.arange(4) == 2, np.nan, X)}, InvalidInputError, "'x2' have no observed value"),
        ({"estimator": smp.CoupledSimplexCP(2)}, InvalidTypeError, "^estimator is .*expected an unfitted Smooth"),
        ({"estimator": smp.SmoothProductMixture}, InvalidTypeError, "^estimator is .*expected an unfitted Smooth"),
    ],
)
def test_unusable_arguments(arguments, error, words):
    with pytest.raises(error, match=words):
        select(**arguments)


# ---- other estimators ----


def test_an_estimator_is_fitted_with_its_parameters(table):
    mixture = smp.SmoothProductMixture(7, n_bins=8, random_state=9)
    found = select(estimator=mixture)
    assert np.array_equal(found.log_likelihood, select(n_bins=8).log_likelihood)
    assert mixture.n_components == 7
    assert not hasattr(mixture, "density_")
    found = select(estimator=smp.SmoothProductMixture(refine="em"), refine=None)  # set on a clone
    assert np.array_equal(found.log_likelihood, select(refine=None).log_likelihood)


def test_unmixed_models_count_the_map():
    truth = smp.datasets.make_smooth_mixture("gaussian", 400, 3, 2, random_state=0)
    mixed = truth.X @ np.array([[1.0, 0.6, 0.0], [0.2, 1.0, 0.3], [0.5, 0.0, 1.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = smp.select_n_components(mixed, [1, 2], estimator=smp.UnmixedProductMixture(max_iter=2), random_state=0)
        model = smp.UnmixedProductMixture(2, max_iter=2, random_state=0).fit(mixed)
    two = found.sel(n_components=2)
    np.testing.assert_allclose(two.log_likelihood, model.score(mixed) * len(mixed))
    np.testing.assert_allclose(two.n_parameters, model.n_parameters_)
    np.testing.assert_allclose(two.bic, model.bic(mixed))


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.TensorlySmpWarning")
@pytest.mark.parametrize("estimator", [smp.UnmixedProductMixture(max_iter=1), smp.SmoothProductMixture()])
def test_values_that_only_samples_held_out_have_are_in_the_list(estimator):
    X = np.random.default_rng(0).normal(size=(150, 4))
    X[:, 3] = np.arange(150) % 2
    X[0, 3] = 7.0
    found = smp.select_n_components(X, [1], "cv", n_folds=2, estimator=estimator, random_state=0)
    # With the value off the list, its fold would have -708 / 75 nats per sample more.
    assert float(found.heldout_gap.max()) == 0.0
    assert found.heldout_log_likelihood.min() > -8.0


def test_held_out_samples_without_log_splines():
    found = select(refine="em", density="histogram", criterion="cv", n_folds=2)
    assert (found.failure == "").all()
    assert np.isfinite(found.heldout_mean).all()
