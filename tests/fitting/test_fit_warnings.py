"""What a fit says about weights, empty components and constant columns, or refuses."""

import numpy as np
import pytest

import tensorly_smp as smp
from tensorly_smp.exceptions import (
    ConstantVariableWarning,
    EmptyComponentWarning,
    InvalidInputError,
    SampleWeightWarning,
)
from tensorly_smp.factors import mixture_factors

X, LABELS, _ = smp.datasets.make_smooth_mixture("gaussian", 600, 5, 3, random_state=0)
UNEVEN = np.random.default_rng(0).uniform(5.0, 15.0, 600)


def model(n_components=3, **parameters):
    return smp.SmoothProductMixture(**{"n_components": n_components, "random_state": 0, **parameters})


@pytest.mark.parametrize("refine", ["smooth", "em", None])
def test_weights_that_stand_for_next_to_no_sample_are_refused(refine):
    for weights in (np.full(600, 1e-4), np.full(600, 1 / 600)):
        with pytest.raises(InvalidInputError, match=r"sums to .* w / w\.mean\(\)"):
            model(refine=refine).fit(X, sample_weight=weights)
    with pytest.raises(InvalidInputError, match="components with 1 samples"):
        model(refine=refine).fit(X, sample_weight=np.eye(600)[0])
    with pytest.raises(InvalidInputError, match="expected at least 2"):
        smp.select_n_components(X, [1, 2], sample_weight=np.full(600, 1e-4))
    dask = pytest.importorskip("dask.array")
    with pytest.raises(InvalidInputError, match="sums to"):
        model(refine=refine).fit(dask.from_array(X, chunks=200), sample_weight=np.full(600, 1e-4))


def test_weights_larger_than_numbers_of_samples_give_a_warning():
    with pytest.warns(SampleWeightWarning, match=r"10\.\d on average.*w / w\.mean\(\)"):
        model().fit(X, sample_weight=UNEVEN)
    with pytest.warns(SampleWeightWarning, match="All fits"):
        smp.select_n_components(X, [2, 3], sample_weight=UNEVEN, random_state=0)
    # What the message advises, and numbers of repetitions, are taken as they are.
    fitted = model().fit(X, sample_weight=np.random.default_rng(0).integers(0, 3, 600) * (np.arange(600) % 2))
    assert smp.metrics.clustering_accuracy(LABELS, fitted.predict(X)) > 0.9
    model().fit(X, sample_weight=UNEVEN / UNEVEN.mean())


@pytest.mark.parametrize("refine", ["smooth", "em", None])
def test_a_component_without_weight_is_named_by_every_fit(refine, monkeypatch):
    monkeypatch.setattr(mixture_factors, "EMPTY_WEIGHT", 0.3)
    with pytest.warns(EmptyComponentWarning, match="1 of 3 components is empty"):
        fitted = model(3, refine=refine, binning="uniform", density="auto").fit(X)
    assert (fitted.weights_ < 0.3).sum() == 1


def test_the_warning_of_empty_components():
    assert mixture_factors.empty_component_warning(np.array([0.5, 0.5]), "") is None
    warning = mixture_factors.empty_component_warning(np.array([1.0, 1e-12]), "Try fewer.")
    assert isinstance(warning, EmptyComponentWarning)
    assert str(warning) == (
        "1 of 2 components is empty (weight below 1e-06), so its densities are arbitrary. Try fewer."
    )


@pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.DependenceWarning")
@pytest.mark.parametrize(("refine", "value"), [("smooth", 1e6), ("em", -250.0), (None, 0.0)])
def test_a_constant_column_adds_nothing_to_the_score(refine, value):
    density = "auto" if refine == "smooth" else "histogram"
    options = dict(refine=refine, density=density, binning="uniform", init="random", n_init=1)
    with pytest.warns(ConstantVariableWarning):
        fitted = model(1, **options).fit(np.column_stack([X, np.full(600, value)]))
    row = np.full((1, 6), np.nan)
    row[0, -1] = value
    assert fitted.score(row) == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(
        fitted.score_samples(np.column_stack([X, np.full(600, value)])),
        model(1, **options).fit(X).score_samples(X),
        atol=1e-9,
    )
