"""Independence within components, as a user asks for it."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from tensorly_smp._support.checks import checked_integer, checked_sample_weight, is_real
from tensorly_smp._support.randomness import RandomState, as_generator
from tensorly_smp._support.representations import shown
from tensorly_smp.chunked.reading import is_chunked, read_chunks
from tensorly_smp.densities.mixture_density import MixtureDensity
from tensorly_smp.dependence.check import pair_tests, some_samples
from tensorly_smp.dependence.report import IndependenceReport
from tensorly_smp.dependence.unmixed_density import UnmixedDensity
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.samples.labels import aligned
from tensorly_smp.samples.reading import present_dim, read_samples


def check_independence(
    model: Any,
    X: Any,
    *,
    sample_weight: Any = None,
    n_replicates: int = 20,
    level: float = 0.01,
    random_state: RandomState = None,
) -> IndependenceReport:
    """Tell which variables depend on each other within the components of a fitted model.

    A product mixture takes variables for independent once the component is known. Where they are not, components are
    parts of groups, or several groups in one, posteriors are too sure, and the likelihood is lower than it could be.

    Parameters
    ----------
    model : SmoothProductMixture, UnmixedProductMixture or MixtureDensity
        Fitted. Of an unmixed model the sources are tested, under the names of the variables that they are nearest to.
    X : array_like, DataFrame, DataArray or Dataset (n_samples, n_variables)
        Samples, best those of the fit. A pair is tested on the samples that have both variables. Of samples in chunks,
        and of more than a hundred thousand, evenly spaced ones are used.
    sample_weight : array_like (n_samples,), optional
        Counts: a sample of weight 2 is two samples.
    n_replicates : int, default 20
        Sets of samples, of as many as there are but 2500 at most, that are drawn from the model for the distribution of
        the scores under independence; with 0 an upper bound of their variance takes its place.
    level : float, default 0.01
        False discovery rate: the share of pairs called dependent that are not, on average.
    random_state : None, int, Generator or RandomState
        For the draws.

    Returns
    -------
    IndependenceReport

    Raises
    ------
    InvalidInputError, InvalidTypeError
        Samples of other variables, a level that is no share, another kind of model.

    Notes
    -----
    For every pair, component and two polynomials g_a, g_b of degree 1 and 2 of the ranks, the score
    sum_m p_mr g_a g_b has mean zero under independence: with a = b = 1 it is a rank correlation, the others see
    dependence that bends, such as a circle. Scores of one component, and their sums over all, are tested together by
    a quadratic form, the rank correlations also by themselves, and the p-values of a pair are combined (Liu and Xie
    2020). That weights and densities, and so the posteriors, were fitted is taken into account to first order by taking
    off what their own scores explain, with moments from draws of the model, so that no fit is repeated.

    A fit that merges two groups, or splits one, has dependent components too: the report is about the fitted model, not
    about the groups that there may be. The test knows of pairs only, and of low degrees.

    References
    ----------
    Y. Liu, J. Xie, "Cauchy combination test: a powerful test with analytic p-value calculation under arbitrary
    dependency structures", Journal of the American Statistical Association 115, 2020. Y. Benjamini, Y. Hochberg,
    "Controlling the false discovery rate: a practical and powerful approach to multiple testing", Journal of the Royal
    Statistical Society B 57, 1995.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> X = smp.datasets.make_smooth_mixture("gamma", 1000, 4, 2, random_state=0).X
    >>> model = smp.SmoothProductMixture(2, random_state=0).fit(X)
    >>> smp.check_independence(model, X, random_state=0).n_dependent
    0
    """
    n_replicates = checked_integer(n_replicates, "n_replicates", 0)
    level = _checked_level(level)
    sample_dim = None
    if not isinstance(model, MixtureDensity | UnmixedDensity):
        if not hasattr(model, "sample_dim"):
            raise InvalidTypeError(f"model is {type(model).__name__}; expected a fitted SmoothProductMixture.")
        check_is_fitted(model)
        sample_dim = model.sample_dim
        model = model.density_
    here = present_dim(X, sample_dim)
    if is_chunked(X):
        data = read_chunks(X, sample_weight, model.variables, here)
        values = data.subsample.values
        weights = data.subsample_weights
    else:
        samples = read_samples(X, model.variables, here)
        values = samples.values
        weights = checked_sample_weight(aligned(sample_weight, X), len(samples.values))
    values, counts = some_samples(values, weights, len(model.weights))
    are_sources = isinstance(model, UnmixedDensity)
    density = model
    if isinstance(model, UnmixedDensity):
        values = model.to_sources(values)
        density = model.sources
    tests = pair_tests(density, values, counts, n_replicates, as_generator(random_state))
    return IndependenceReport.of(tuple(model.variables), tests, level, model.weights, float(counts.sum()), are_sources)


def _checked_level(level: Any) -> float:
    if not is_real(level) or not 0 < level < 1:
        raise InvalidInputError(f"level is {shown(level)}; expected a share between 0 and 1.")
    return float(level)
