"""scikit-learn's own checks of estimators, and the table of those that cannot hold."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator
from sklearn.utils.metaestimators import available_if

import tensorly_smp as smp
from tensorly_smp.samples.reading import read_samples
from tensorly_smp.testing import EXPECTED_FAILED_CHECKS, EXPECTED_FAILED_CHECKS_OF_UNMIXED

SMALL = {"n_bins": 5, "n_init": 1, "max_iter": 30}
PAGE = Path(__file__).parents[1] / "docs" / "neighbors.md"

pytestmark = pytest.mark.filterwarnings("ignore::tensorly_smp.exceptions.TensorlySmpWarning")


def name_of(check):
    return getattr(check, "func", check).__name__


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (smp.SmoothProductMixture(), EXPECTED_FAILED_CHECKS),
        # There is partial_fit too, and what is asked of it.
        (smp.SmoothProductMixture(refine=None, **SMALL), EXPECTED_FAILED_CHECKS),
        pytest.param(
            smp.UnmixedProductMixture(1, max_iter=1, mixture=smp.SmoothProductMixture(max_iter=5), random_state=0),
            EXPECTED_FAILED_CHECKS_OF_UNMIXED,
            marks=pytest.mark.slow,
        ),
    ],
    ids=["smooth", "bins", "unmixed"],
)
def test_checks_of_scikit_learn(estimator, expected):
    results = check_estimator(estimator, expected_failed_checks=expected, on_skip=None, on_fail=None)
    failed, expectedly, passed = (
        {each["check_name"] for each in results if each["status"] == status} for status in ("failed", "xfail", "passed")
    )
    assert failed == set()
    assert expectedly <= set(expected)
    assert sum(each["status"] == "passed" for each in results) >= 30
    if estimator.__class__ is smp.SmoothProductMixture:
        # Without partial_fit there is nothing to check.
        assert passed & set(expected) <= ({"check_estimators_partial_fit_n_features"} if estimator.refine else set())


class Doubled(smp.SmoothProductMixture):
    """Every variable twice, so that the checks on two variables have four."""

    def fit(self, X, y=None, sample_weight=None):
        super().fit(self._doubled(X), y, sample_weight)
        self.n_features_in_ //= 2
        return self

    @available_if(lambda self: self.refine is None)
    def partial_fit(self, X, y=None, sample_weight=None):
        super().partial_fit(self._doubled(X), y, sample_weight)
        self.n_features_in_ //= 2
        return self

    def _read(self, X):
        return read_samples(self._doubled(X))

    def _doubled(self, X):
        return np.hstack([read_samples(X).values] * 2)


DOUBLED = [
    pytest.param(estimator, check, id=name_of(check))
    for model in (Doubled(**SMALL), Doubled(refine=None, **SMALL))
    for estimator, check in estimator_checks_generator(model)
    if name_of(check) in EXPECTED_FAILED_CHECKS
]


@pytest.mark.parametrize(("estimator", "check"), DOUBLED)
def test_they_pass_where_there_are_enough_variables(estimator, check):
    check(estimator)


def test_expected_names_are_of_checks_and_on_the_page():
    known = {name_of(check) for _, check in estimator_checks_generator(smp.SmoothProductMixture(refine=None))}
    assert set(EXPECTED_FAILED_CHECKS) <= known
    # Page lists the same checks.
    rows = re.findall(r"^\| `(check_\w+)` \| (.+?) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert dict(rows) == EXPECTED_FAILED_CHECKS
