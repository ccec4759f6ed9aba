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


def checks(estimator, are_expected_to_fail):
    """Parameters of a test: all checks, or those that are expected to fail for lack of variables only."""
    for each, check in estimator_checks_generator(estimator):
        reason = EXPECTED_FAILED_CHECKS.get(name_of(check))
        if "partial_fit" in name_of(check) and not hasattr(estimator, "partial_fit"):
            reason = None  # there is nothing to check
        if are_expected_to_fail:
            marks = [pytest.mark.xfail(reason=reason)] if reason else []
            yield pytest.param(each, check, id=name_of(check), marks=marks)
        elif reason:
            yield pytest.param(each, check, id=name_of(check))


@pytest.mark.parametrize(("estimator", "check"), list(checks(smp.SmoothProductMixture(**SMALL), True)))
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


# Without a refinement there is partial_fit too, and what is asked of it.
@pytest.mark.parametrize(("estimator", "check"), list(checks(smp.SmoothProductMixture(refine=None, **SMALL), True)))
def test_checks_of_a_model_without_refinement(estimator, check):
    check(estimator)


@pytest.mark.slow
def test_check_estimator():
    results = check_estimator(
        smp.SmoothProductMixture(), expected_failed_checks=EXPECTED_FAILED_CHECKS, on_skip=None, on_fail=None
    )
    assert {each["check_name"] for each in results if each["status"] == "failed"} == set()
    assert {each["check_name"] for each in results if each["status"] == "xfail"} <= set(EXPECTED_FAILED_CHECKS)
    assert sum(each["status"] == "passed" for each in results) >= 35


@pytest.mark.slow
def test_check_estimator_of_unmixed_models():
    results = check_estimator(
        smp.UnmixedProductMixture(1, max_iter=1, mixture=smp.SmoothProductMixture(max_iter=5), random_state=0),
        expected_failed_checks=EXPECTED_FAILED_CHECKS_OF_UNMIXED,
        on_skip=None,
        on_fail=None,
    )
    assert {each["check_name"] for each in results if each["status"] == "failed"} == set()
    assert sum(each["status"] == "passed" for each in results) >= 30


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


DOUBLED = [Doubled(**SMALL), Doubled(refine=None, **SMALL)]


@pytest.mark.parametrize(("estimator", "check"), [each for model in DOUBLED for each in checks(model, False)])
def test_they_pass_where_there_are_enough_variables(estimator, check):
    check(estimator)


def test_every_name_is_of_a_check():
    known = {name_of(check) for _, check in estimator_checks_generator(smp.SmoothProductMixture(refine=None))}
    assert set(EXPECTED_FAILED_CHECKS) <= known


def test_page_lists_the_same_checks():
    rows = re.findall(r"^\| `(check_\w+)` \| (.+?) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert dict(rows) == EXPECTED_FAILED_CHECKS
