"""Rivals: other solutions that samples do not tell from the one of the fit."""

import re
import warnings

import numpy as np
import pytest
import xarray as xr
from shared import ambiguous_groups
from sklearn.metrics import adjusted_rand_score

import tensorly_smp as smp
from tensorly_smp.decomposition.solution import factors_to_dataset
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError, RivalSolutionsWarning
from tensorly_smp.fitting.results import n_rivals, telling_variables, with_rivals
from tensorly_smp.likelihood.comparison import Candidate

X, GROUPS = ambiguous_groups(600)
CLEAR = smp.datasets.make_smooth_mixture("gaussian", 600, 5, 3, random_state=0)
accuracy = smp.metrics.clustering_accuracy


def fit(values=X, n_components=3, sample_weight=None, **parameters):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = smp.SmoothProductMixture(n_components, **{"random_state": 0, **parameters})
        model.fit(values, sample_weight=sample_weight)
    return model, [each for each in caught if issubclass(each.category, RivalSolutionsWarning)]


def rivals(model):
    return [model.rivals(k) for k in range(n_rivals(model.result_))]


@pytest.fixture(scope="module")
def ambiguous():
    model, caught = fit()
    assert len(caught) == 1
    return model


@pytest.mark.parametrize("seed", [1, 2])
def test_the_right_answer_is_found_or_among_the_rivals(seed):
    model, caught = fit(random_state=seed)
    found = [accuracy(GROUPS, each.predict(X)) for each in (model, *rivals(model))]
    assert found[0] > 0.99 or (caught and max(found) > 0.99)
    if caught:
        assert "x2" in caught[0].message.variables
        assert "model.rivals(k)" in str(caught[0].message)


def test_clear_groups_have_none():
    model, caught = fit(CLEAR.X)
    assert not caught
    assert "rival" not in model.result_.dims
    assert "rival_description" not in model.result_
    for ask in (lambda: model.rivals(0), model.plot.rivals):
        with pytest.raises(InvalidInputError, match="no rivals"):
            ask()


def test_what_the_dataset_says_is_so(ambiguous):
    result = ambiguous.result_
    for k, model in enumerate(rivals(ambiguous)):
        labels, own = model.predict(X), ambiguous.predict(X)
        table = np.zeros((3, 3))
        np.add.at(table, (own, labels), 1 / 600)
        # Posteriors of the fit know nothing of the background, which moves two samples at most.
        np.testing.assert_allclose(result.rival_overlap[k], table, atol=0.004)
        assert float(result.rival_agreement[k]) == pytest.approx(adjusted_rand_score(own, labels), abs=0.02)
        assert float(result.rival_agreement[k]) < 0.9
        matched = np.trace(result.rival_overlap[k].values)
        assert all(np.trace(table[:, order]) <= matched + 0.01 for order in ([1, 0, 2], [2, 1, 0], [0, 2, 1]))
        np.testing.assert_array_equal(model.weights_, result.rival_weights[k])
        attrs = model.result_.attrs
        criterion = attrs["total_log_likelihood"] - attrs["n_parameters"]
        best = result.attrs["total_log_likelihood"] - result.attrs["n_parameters"]
        assert float(result.rival_criterion[k]) == pytest.approx(criterion - best)
        assert float(result.start_criterion[int(result.rival_candidate[k])]) == pytest.approx(criterion)
        # Of log-densities of the samples, cells and the background aside.
        difference = model.score_samples(X) - ambiguous.score_samples(X)
        assert float(result.rival_deviation[k]) == pytest.approx(difference.std() * np.sqrt(600), rel=0.1)
        assert -float(result.rival_criterion[k]) <= max(3.0, 1.96 * float(result.rival_deviation[k]))
    assert (np.diff(result.rival_criterion) <= 0).all()


def test_a_rival_is_a_model_and_has_a_number(ambiguous):
    model = ambiguous.rivals(1)
    assert type(model) is type(ambiguous)
    assert model.get_params() == ambiguous.get_params()
    assert n_rivals(model.result_) == 0
    stopped, caught = fit(callback=lambda *_: True)
    assert not caught
    assert n_rivals(stopped.result_) == 0
    assert not hasattr(model, "labels_")
    assert model.weights_.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert model.result_.attrs["total_log_likelihood"] == pytest.approx(600 * model.score(X), abs=3.0)
    assert model.result_.attrs["rival"] == 1
    for ask in (lambda: model.rivals(0), model.plot.rivals):
        with pytest.raises(InvalidInputError, match="it is rival 1 of another one"):
            ask()
    assert len(model.plot.loss()) >= 2
    drawn, components = model.sample(10, random_state=0)
    assert drawn.shape == (10, 5)
    assert components.max() < 3
    # Numbers beyond are refused.
    with pytest.raises(InvalidInputError, match="below"):
        ambiguous.rivals(n_rivals(ambiguous.result_))
    with pytest.raises(InvalidInputError, match="-1"):
        ambiguous.rivals(-1)
    with pytest.raises(InvalidTypeError, match="'first'"):
        ambiguous.rivals("first")


def test_they_are_in_the_file_unless_they_are_none(ambiguous, tmp_path):
    ambiguous.save(tmp_path / "model.nc")
    again = smp.load(tmp_path / "model.nc")
    for one, two in zip(rivals(ambiguous), rivals(again), strict=True):
        np.testing.assert_array_equal(one.score_samples(X), two.score_samples(X))
    ambiguous.rivals(0).save(tmp_path / "rival.nc")
    xr.testing.assert_identical(smp.load(tmp_path / "rival.nc").result_, ambiguous.rivals(0).result_)
    # A file with a rival that is none is refused.
    broken, _ = fit()
    broken.result_["rival_spline"] = broken.result_["rival_spline"] * np.nan
    with pytest.raises(InvalidInputError, match="to be saved is damaged or was edited"):
        broken.save(tmp_path / "model.nc")


def test_the_report_names_them(ambiguous):
    report = ambiguous.identifiability_
    assert report.n_rivals == n_rivals(ambiguous.result_) >= 1
    head, _, _ = repr(report).partition("\n\n")
    assert re.search(r"\nVerdict: .*\nRivals: \d+ other solutions? (is|are) nearly as likely", head)
    assert "nearly as likely" in report._repr_html_()
    notes = "\n".join(report.notes)
    for k in range(n_rivals(ambiguous.result_)):
        assert f"Rival {k} (" in notes
    # Of the two groups that differ in x2 only, the fit or a rival has one component.
    assert re.search(r"components? .* (is two|are one) \((here )?apart in x2\)", notes)


@pytest.mark.parametrize(("refine", "init"), [("em", "auto"), (None, "gevd")])
def test_of_bins_they_are_other_starts(refine, init):
    model, caught = fit(refine=refine, init=init, density="histogram")
    assert len(caught) == 1
    own = model.factors_.posterior(smp.encode_samples(X, model.binning_)).argmax(axis=1)
    for k, other in enumerate(rivals(model)):
        labels = other.factors_.posterior(smp.encode_samples(X, model.binning_)).argmax(axis=1)
        assert float(model.result_.rival_agreement[k]) == pytest.approx(adjusted_rand_score(own, labels), abs=0.02)
        assert other.n_iter_ > 0
        difference = other.score_samples(X) - model.score_samples(X)
        assert float(model.result_.rival_criterion[k]) == pytest.approx(difference.sum(), abs=6.0)
    assert not fit(CLEAR.X, refine=refine, init=init, density="histogram")[1]


def test_neither_the_order_of_samples_nor_weights_in_place_of_repeats_matter():
    some, weights = X[:300], np.random.default_rng(1).integers(0, 3, 300)
    repeated = np.repeat(some, weights, axis=0)
    plain = fit(repeated)[0].result_
    shuffled = fit(np.random.default_rng(2).permutation(repeated))[0].result_
    weighted = fit(some, sample_weight=weights)[0].result_
    for other in (shuffled, weighted):
        for name in ("rival_criterion", "rival_deviation", "rival_agreement", "rival_weights", "rival_overlap"):
            # As far as passes were followed: their last ones depend on rounding.
            tolerance = 0.2 if name in ("rival_criterion", "rival_deviation") else 0.02
            np.testing.assert_allclose(other[name], plain[name], atol=tolerance, err_msg=name)


def test_of_many_samples_rivals_are_compared_on_all(monkeypatch):
    monkeypatch.setattr("tensorly_smp.samples.values.MOST_ROWS", 300)
    model, caught = fit()
    assert len(caught) == 1
    best = model.result_.attrs["total_log_likelihood"] - model.result_.attrs["n_parameters"]
    assert model.result_.attrs["total_log_likelihood"] == pytest.approx(600 * model.score(X), abs=3.0)
    for k, other in enumerate(rivals(model)):
        attrs = other.result_.attrs
        assert attrs["total_log_likelihood"] == pytest.approx(600 * other.score(X), abs=3.0)
        criterion = attrs["total_log_likelihood"] - attrs["n_parameters"]
        assert criterion <= best
        assert float(model.result_.rival_criterion[k]) == pytest.approx(criterion - best)
        difference = other.score_samples(X) - model.score_samples(X)
        # Estimated on half of the samples, and the extremes.
        assert float(model.result_.rival_deviation[k]) == pytest.approx(difference.std() * np.sqrt(600), rel=0.6)


def test_of_unmixed_models_they_are_unmixed_models():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = smp.UnmixedProductMixture(6, random_state=0).fit(X)  # of three groups: which are several is open
    others = rivals(model)
    assert others
    for other in others:
        assert isinstance(other, smp.UnmixedProductMixture)
        xr.testing.assert_identical(other.unmixing_, model.unmixing_)
        np.testing.assert_allclose(other.mixture_.predict_proba(model.unmix(X)), other.predict_proba(X), atol=1e-9)


def test_pictures(ambiguous):
    axes = ambiguous.plot.rivals(X, 1)
    assert axes.shape == (2, 4)
    lines = {line.get_label(): line for line in axes[1, 0].get_lines()}
    name = axes[1, 0].get_xlabel()
    x, y = lines["component 1"].get_data()
    np.testing.assert_array_equal(y, ambiguous.rivals(1).density_.pdf_1d(x, name, 1))
    assert axes[0, 0].get_xlim() == axes[1, 0].get_xlim()
    assert smp.plotting.plot_rivals(ambiguous.result_, variables="x2").shape == (2, 1)
    with pytest.raises(InvalidInputError, match="unknown"):
        ambiguous.plot.rivals(variables=["y"])
    with pytest.raises(InvalidInputError, match="below"):
        ambiguous.plot.rivals(rival=9)


def test_words():
    """Two components of three are one, and the third is two."""
    tables = [np.array([[0.9, 0.1, 0.5], [0.1, 0.9, 0.5]]), np.array([[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]])]
    other = [np.full((2, 3), 0.5), np.array([[0.5, 0.9, 0.2], [0.5, 0.1, 0.8]])]
    flat, weights = np.full((2, 3), 0.5), np.array([0.3, 0.3, 0.4])
    here, there = (factors_to_dataset(smp.MixtureFactors(weights, [*each, flat])) for each in (tables, other))
    labels, labels_there = np.array([0] * 30 + [1] * 30 + [2] * 40), np.array([0] * 60 + [1] * 20 + [2] * 20)
    best = Candidate(np.eye(3)[labels], "given", criterion=0.0)
    rival = Candidate(np.eye(3)[labels_there], "given", criterion=-1.25, deviation=2.0, number=4)
    dataset = with_rivals(here.assign_coords(variable=["a", "b", "c"]), best, [rival], [there], None)
    assert dataset["rival_description"].item() == (
        "Rival 0 (1.2 nats below, adjusted Rand index 0.45): components 0 and 1 are one (here apart in a); "
        "component 2 is two (apart in b)."
    )
    assert telling_variables(dataset, 0)[:2] == [0, 1]
