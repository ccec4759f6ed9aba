"""Helpers for tests of code that uses this package, and of this package's manners among its neighbors."""

__all__ = ["EXPECTED_FAILED_CHECKS", "EXPECTED_FAILED_CHECKS_OF_UNMIXED"]

_TWO_VARIABLES = (
    "fits two variables; at least three are needed, because the factors of a mixture of fewer are not determined"
)

#: Checks of ``sklearn.utils.estimator_checks`` that :class:`tensorly_smp.SmoothProductMixture` fails, and why, as the
#: argument ``expected_failed_checks`` of scikit-learn's ``check_estimator``. All pass for an estimator that takes every
#: variable twice, so that two become four.
EXPECTED_FAILED_CHECKS: dict[str, str] = dict.fromkeys(
    (
        "check_clustering",
        "check_estimators_fit_returns_self",
        "check_estimators_overwrite_params",
        "check_estimators_partial_fit_n_features",
        "check_fit_check_is_fitted",
        "check_fit_idempotent",
        "check_n_features_in",
        "check_readonly_memmap_input",
        "check_sample_weights_not_an_array",
        "check_sample_weights_not_overwritten",
        "check_sample_weights_pandas_series",
        "check_sample_weights_shape",
    ),
    _TWO_VARIABLES,
)

_FEW_INTEGERS = "fits variables of few distinct integers, which are discrete: no linear map is of these"

#: Likewise of :class:`tensorly_smp.UnmixedProductMixture`.
EXPECTED_FAILED_CHECKS_OF_UNMIXED: dict[str, str] = EXPECTED_FAILED_CHECKS | dict.fromkeys(
    ("check_estimators_dtypes", "check_sample_weight_equivalence_on_dense_data"), _FEW_INTEGERS
)
