"""A fit in a few lines of text."""

import numpy as np
import pytest

import tensorly_smp as smp
from tensorly_smp.fitting.results import fit_summary

X = smp.datasets.make_smooth_mixture("gaussian", 300, n_variables=4, n_components=2, random_state=0).X
FACTORS = smp.SmoothProductMixture(2, n_bins=6, refine=None, density="histogram", random_state=0).fit(X).factors_


@pytest.mark.parametrize(
    ("parameters", "method"),
    [
        ({}, "smoothed EM from a split-and-merge search, one start"),
        ({"init": FACTORS}, "smoothed EM from given factors, one start"),
        ({"init": "gevd", "n_init": 2}, "smoothed EM from coupled decompositions, kl loss, best of 2 starts"),
        (
            {"refine": "em", "init": "gevd", "n_init": 2},
            "EM of the bins from the coupled decomposition, kl loss, best of 2 starts",
        ),
        ({"refine": None, "n_init": 1}, "coupled decomposition of the histograms, kl loss, one start"),
    ],
)
def test_the_method_is_the_one_that_was_used(parameters, method):
    binning = FACTORS.binning
    options = parameters | ({} if parameters.get("refine", "smooth") == "smooth" else {"density": "histogram"})
    model = smp.SmoothProductMixture(2, binning=binning, random_state=0, **options).fit(X)
    assert dict(fit_summary(model.result_))["method"] == method
    np.testing.assert_allclose(model.weights_.sum(), 1.0)
