"""Among neighbors: scikit-learn's pipelines and searches, tensorly-viz."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from shared import DATA, FRAME, NAMES, X, estimator
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tensorly_smp as smp

WEIGHTS = np.random.default_rng(1).integers(0, 4, len(X))


@pytest.fixture(scope="module")
def model():
    return estimator().fit(X)


# scikit-learn


def test_clone(model):
    copy = clone(model)
    assert not hasattr(copy, "result_")
    np.testing.assert_array_equal(copy.fit(X).score_samples(X), model.score_samples(X))
    with_objects = estimator(binning=model.binning_, init=model.factors_, support={"x0": (None, 9.0)}, verbose=0)
    assert clone(with_objects).binning == model.binning_
    assert clone(with_objects).get_params().keys() == estimator().get_params().keys()


@pytest.mark.parametrize("where", ["transformer", "pipeline", "configuration"])
def test_names_go_through_set_output(where):
    # A step without `transform`, like this model or scikit-learn's own mixtures, is left alone.
    pipeline = make_pipeline(StandardScaler(), estimator())
    if where != "configuration":
        (pipeline[0] if where == "transformer" else pipeline).set_output(transform="pandas")
    with sklearn.config_context(transform_output="pandas" if where == "configuration" else "default"):
        pipeline.fit(FRAME)
    assert pipeline[-1].feature_names_in_.tolist() == NAMES
    assert pipeline[-1].result_["variable"].values.tolist() == NAMES
    with sklearn.config_context(transform_output="pandas"):
        probabilities = pipeline.predict_proba(FRAME)
        assert pipeline.predict(FRAME).index.equals(FRAME.index)
    assert isinstance(probabilities, pd.DataFrame)
    assert probabilities.index.equals(FRAME.index)


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.DependenceWarning")
def test_grid_search_through_a_pipeline():
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), estimator())
    grid = {"smoothproductmixture__n_components": [1, 2], "smoothproductmixture__refine": ["em", "smooth"]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(FRAME)
    assert search.best_params_["smoothproductmixture__n_components"] == 2
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert (search.predict(FRAME) == search.best_estimator_.predict(FRAME)).all()


def test_cross_validation_is_of_the_log_likelihood():
    halves = np.arange(len(X)) % 2 == 0
    by_hand = estimator().fit(X[halves]).score(X[~halves])
    (score,) = cross_val_score(estimator(), X, cv=[(np.flatnonzero(halves), np.flatnonzero(~halves))])
    assert score == pytest.approx(by_hand)
    assert abs(score - DATA.mixture.logpdf(X).mean()) < 0.5


def test_score_counts_weights(model):
    assert model.score(X, sample_weight=WEIGHTS) == pytest.approx(model.score(np.repeat(X, WEIGHTS, axis=0)))
    assert model.score(X, sample_weight=np.ones(len(X))) == pytest.approx(model.score(X))
    shuffled = pd.Series(WEIGHTS, FRAME.index).iloc[::-1]
    assert model.score(FRAME, sample_weight=shuffled) == pytest.approx(model.score(X, sample_weight=WEIGHTS))
    with pytest.raises(ValueError, match="non-negative"):
        model.score(X, sample_weight=-np.ones(len(X)))


def test_weights_are_routed():
    data, weights = FRAME, pd.Series(WEIGHTS, FRAME.index)
    direct = estimator().fit(data, sample_weight=weights)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = estimator().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), routed)
        pipeline.fit(data, sample_weight=weights)
        scaled = estimator().fit(StandardScaler().fit_transform(X), sample_weight=WEIGHTS)
        np.testing.assert_array_equal(pipeline[-1].weights_, scaled.weights_)
        folds = [(np.arange(400), np.arange(400, 500))]
        found = cross_validate(routed, data, cv=folds, params={"sample_weight": weights})
        search = GridSearchCV(routed, {"n_init": [1, 2]}, cv=2).fit(data, sample_weight=weights)
    part = estimator().fit(X[:400], sample_weight=WEIGHTS[:400])
    assert found["test_score"][0] == pytest.approx(part.score(X[400:], sample_weight=WEIGHTS[400:]))
    best = estimator(**search.best_params_).fit(data, sample_weight=weights)
    np.testing.assert_array_equal(search.best_estimator_.weights_, best.weights_)
    np.testing.assert_array_equal(direct.weights_, estimator().fit(X, sample_weight=WEIGHTS).weights_)


# tensorly-viz


@pytest.fixture(scope="module")
def solutions():
    marginals = smp.count_marginals(smp.encode_samples(FRAME, smp.choose_binning(FRAME, 8)))
    return [smp.coupled_simplex_parafac(marginals, 2, init="random", random_state=seed) for seed in (0, 1)]


def cosine(a, b):
    return (a * b).sum(axis=0) / np.sqrt((a**2).sum(axis=0) * (b**2).sum(axis=0))


def test_scores_of_tensorly_viz(solutions):
    tools = pytest.importorskip("tlviz.factor_tools")
    one, other = (solution.factors.sort() for solution in solutions)
    bare = tools.factor_match_score(one.to_cp_tensor(), other.to_cp_tensor(), consider_weights=False)
    cosines = np.prod([cosine(a, b) for a, b in zip(one.factors, other.factors, strict=True)], axis=0)
    assert bare == pytest.approx(cosines.mean())
    labelled = one.to_labelled_cp_tensor(), other.to_labelled_cp_tensor()
    assert tools.factor_match_score(*labelled, consider_weights=False) == pytest.approx(bare)
    score, order = tools.factor_match_score(
        one.to_cp_tensor(), one.permute([1, 0]).to_cp_tensor(), return_permutation=True
    )
    assert score == pytest.approx(1.0)
    assert list(order) == [1, 0]
    # Degeneracy score.
    tools = pytest.importorskip("tlviz.factor_tools")
    factors = solutions[0].factors
    expected = np.prod([cosine(a[:, 0], a[:, 1]) for a in factors.factors])
    assert tools.degeneracy_score(solutions[0].to_cp_tensor()) == pytest.approx(expected)
    assert tools.degeneracy_score(factors.to_labelled_cp_tensor()) == pytest.approx(expected)


def test_components_plot(solutions):
    pytest.importorskip("matplotlib.pyplot")
    visualisation = pytest.importorskip("tlviz.visualisation")
    factors = solutions[0].factors
    _, axes = visualisation.components_plot(factors.to_labelled_cp_tensor(), weight_behaviour="ignore")
    assert [ax.get_xlabel() for ax in axes] == NAMES
    for ax, edges, array in zip(axes, factors.binning.edges, factors.factors, strict=True):
        for line, column in zip(ax.get_lines(), array.T, strict=True):
            np.testing.assert_allclose(line.get_xdata(), (edges[:-1] + edges[1:]) / 2)
            np.testing.assert_allclose(line.get_ydata(), column)
    _, bare_axes = visualisation.components_plot(solutions[0].to_cp_tensor(), weight_behaviour="ignore")
    np.testing.assert_allclose(bare_axes[0].get_lines()[0].get_ydata(), factors.factors[0][:, 0])
