"""Departure from independence within components, of every pair of variables, and the warning of a fit."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc, eval_sh_legendre

from tensorly_smp._support.checks import RandomState, as_generator
from tensorly_smp.densities.mixture_density import SampleDensity
from tensorly_smp.exceptions import DependenceWarning
from tensorly_smp.samples.values import at_most, effective_size

#: Polynomials of a rank, for the dependence of two variables: the first of each is a rank correlation, the second sees
#: what bends or spreads.
DEGREE = 2
#: Polynomials, of every density, whose estimation the null distribution knows of.
NUISANCE_DEGREE = 4
#: The densities of the other variables are left out of this where there would be more such functions.
MOST_NUISANCE = 400
#: Components of fewer samples than this (sum of posteriors) are not tested by themselves.
LEAST_SAMPLES = 30.0
_LEAST_VARIANCE = 1e-6
#: Dependence is gross where the strength, over all components, is at least this, and a p-value, times the number of
#: pairs, below the second number.
GROSS_STRENGTH, GROSS_P = 0.25, 1e-3
#: Rows and variables that the quick check looks at, at most, and entries times components.
QUICK_ROWS, QUICK_VARIABLES, QUICK_ENTRIES = 2000, 30, 100_000
_LEAST_ROWS = 300


@dataclass(frozen=True, eq=False)
class PairTests:
    """Tests of pairs of variables.

    Attributes
    ----------
    pairs : ndarray of int (n_pairs, 2)
    correlation : ndarray (n_pairs, rank)
        Rank correlation within every component, weighted by posteriors; NaN where a component has too few samples.
    strength : ndarray (n_pairs, rank)
        Root of the sum of the squared correlations of all polynomials, less what chance adds to it: of a Gaussian
        about its correlation.
    statistic : ndarray (n_pairs, rank + 1)
        Test statistics by component, and for all together in the last column; chi-squared under independence.
    p_component : ndarray (n_pairs, rank + 1)
        P-values of `statistic`; one where there is nothing to test.
    p_value : ndarray (n_pairs,)
        Combined p-value of the pair.
    n_samples : ndarray (n_pairs,)
        Weight of the samples that have both variables.
    """

    pairs: np.ndarray
    correlation: np.ndarray
    strength: np.ndarray
    statistic: np.ndarray
    p_component: np.ndarray
    p_value: np.ndarray
    n_samples: np.ndarray


def weighted_ranks(values: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Mid-ranks (n_samples, rank), from 0 to 1, of values (n_samples,) in components that samples belong to by shares.

    Equal values have equal ranks; missing ones (NaN) have 1/2.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.dependence.pairs import weighted_ranks
    >>> weighted_ranks(np.array([3.0, 1.0, 1.0]), np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])).T.tolist()
    [[0.75, 0.25, 0.25], [1.0, 0.5, 0.5]]
    """
    found = np.full(shares.shape, 0.5)
    present = ~np.isnan(values)
    _, group = np.unique(values[present], return_inverse=True)
    masses = np.zeros((group.max(initial=-1) + 1, shares.shape[1]))
    if len(masses) == len(group):  # no ties, the usual case
        masses[group] = shares[present]
    else:
        np.add.at(masses, group, shares[present])
    below = np.cumsum(masses, axis=0)
    total = np.maximum(below[-1:], np.finfo(float).tiny) if len(below) else 1.0
    found[present] = ((below - 0.5 * masses) / total)[group]
    return found


def legendre(u: np.ndarray, degree: int) -> np.ndarray:
    """Orthonormal polynomials (..., degree) of degree 1, 2, ... of uniform variables u (...) on [0, 1]."""
    return np.stack([np.sqrt(2 * k + 1.0) * eval_sh_legendre(k, u) for k in range(1, degree + 1)], axis=-1)


def orthonormal(functions: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Functions (n_samples, rank, degree) made orthonormal, and of mean zero, in every component of the samples.

    A function that the lower ones explain becomes zero: a variable of two values keeps its first function only.
    """
    found = np.empty_like(functions)
    totals = np.maximum(shares.sum(axis=0), np.finfo(float).tiny)
    for a in range(functions.shape[2]):
        column = functions[:, :, a] - (shares * functions[:, :, a]).sum(axis=0) / totals
        for b in range(a):
            column = column - (shares * column * found[:, :, b]).sum(axis=0) / totals * found[:, :, b]
        variance = (shares * column**2).sum(axis=0) / totals
        found[:, :, a] = column * np.where(variance > _LEAST_VARIANCE, 1.0 / np.sqrt(np.maximum(variance, 1e-300)), 0.0)
    return found


def rank_functions(values: np.ndarray, posterior: np.ndarray, weights: np.ndarray, degree: int) -> np.ndarray:
    """Polynomials of the ranks of every variable in every component, zero where the variable is missing.

    Parameters
    ----------
    values : ndarray (n_samples, n_variables)
        NaN = missing.
    posterior : ndarray (n_samples, rank)
    weights : ndarray (n_samples,)
    degree : int

    Returns
    -------
    ndarray (n_variables, n_samples, rank, degree)
        Orthonormal, and of mean zero, in every component.
    """
    found = np.zeros((values.shape[1], len(values), posterior.shape[1], degree))
    for n, column in enumerate(values.T):
        present = ~np.isnan(column)
        shares = posterior * (weights * present)[:, None]
        found[n] = orthonormal(legendre(weighted_ranks(column, shares), degree), shares)
        found[n, ~present] = 0.0
    return found


@dataclass(frozen=True, eq=False)
class PairScores:
    """Scores of dependence of every pair of variables in every component.

    For component r and polynomials g_a, g_b of the ranks of two variables the score of the alternative
    f_r = f_jr f_kr (1 + theta g_a g_b) is sum_m p_mr g_a(u_mj) g_b(u_mk), which has mean zero under independence.

    Attributes
    ----------
    pairs : ndarray of int (n_pairs, 2)
    sums : ndarray (n_pairs, rank, DEGREE^2)
    sizes : ndarray (n_pairs, rank)
        Samples of every component that have both variables.
    squares : ndarray (n_pairs, rank)
        Weighted sums of p_mr^2 over these samples.
    """

    pairs: np.ndarray
    sums: np.ndarray
    sizes: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, posterior: np.ndarray, weights: np.ndarray) -> PairScores:
        """Compute the scores of all pairs from samples (n_samples, n_variables), NaN = missing."""
        n_samples, n_variables = values.shape
        pairs = np.stack(np.triu_indices(n_variables, 1), axis=1)
        rank = posterior.shape[1]
        j, k = pairs.T
        functions = rank_functions(values, posterior, weights, DEGREE)
        present = (~np.isnan(values)).astype(np.float64)
        sums = np.empty((len(pairs), rank, DEGREE**2))
        sizes = np.empty((len(pairs), rank))
        squares = np.empty((len(pairs), rank))
        for r in range(rank):
            share = (weights * posterior[:, r])[:, None]
            # One product of matrices for all pairs: rows and columns are variables, and the polynomials of each.
            each = functions[:, :, r].transpose(1, 0, 2).reshape(n_samples, -1)
            table = ((each * share).T @ each).reshape(n_variables, DEGREE, n_variables, DEGREE)
            sums[:, r] = table[j, :, k].reshape(len(pairs), DEGREE**2)
            sizes[:, r] = ((present * share).T @ present)[j, k]
            squares[:, r] = ((present * share * posterior[:, r, None]).T @ present)[j, k]
        return cls(pairs, sums, sizes, squares)


def shares_nuisance(rank: int, n_variables: int) -> bool:
    """Decide whether the densities of all variables, or those of the pair only, count as parameters of a pair."""
    return rank - 1 + n_variables * rank * NUISANCE_DEGREE <= MOST_NUISANCE


@dataclass(eq=False)
class NullScores:
    """Covariances of the scores for samples of a model whose posteriors are fitted, gathered from draws of that model.

    That weights and densities are estimated is taken into account to first order: what their own scores explain of a
    sample's score of dependence is taken off it (Neyman's C(alpha) test), so that no fit is repeated. Moments of draws
    take the place of those of the samples, which are off by a factor of two or more where a component has a hundred
    samples and there are a hundred parameters.

    Parameters
    ----------
    pairs : ndarray of int (n_pairs, 2)
    rank, n_variables : int
    is_shared : bool
        True to take the densities of all variables into account, not only those of the pair; see
        :func:`shares_nuisance`.
    """

    pairs: np.ndarray
    rank: int
    n_variables: int
    is_shared: bool = True

    def __post_init__(self) -> None:
        per_variable = self.rank * NUISANCE_DEGREE
        n_scores = self.rank * DEGREE**2
        n_nuisance = self.rank - 1 + (self.n_variables if self.is_shared else 2) * per_variable
        n_grams = 1 if self.is_shared else len(self.pairs)
        self.total = 0.0
        self._gram = np.zeros((n_grams, n_nuisance, n_nuisance))
        self._cross = np.zeros((len(self.pairs), n_nuisance, n_scores))
        self._second = np.zeros((len(self.pairs), n_scores, n_scores))

    def add(self, values: np.ndarray, posterior: np.ndarray) -> None:
        """Add draws (n_draws, n_variables), NaN = missing, with the model's posteriors (n_draws, rank)."""
        n_draws = len(posterior)
        functions = rank_functions(values, posterior, np.ones(n_draws), max(DEGREE, NUISANCE_DEGREE))
        shares = posterior[:, :-1] - posterior[:, :-1].mean(axis=0)
        of_variable = [
            (each[:, :, :NUISANCE_DEGREE] * posterior[:, :, None]).reshape(n_draws, -1) for each in functions
        ]
        if self.is_shared:
            every = np.concatenate([shares, *of_variable], axis=1)
            self._gram[0] += every.T @ every
        for i, (j, k) in enumerate(self.pairs.tolist()):
            products = np.einsum(
                "mr,mra,mrb->mrab", posterior, functions[j, :, :, :DEGREE], functions[k, :, :, :DEGREE]
            )
            scores = products.reshape(n_draws, -1)
            if not self.is_shared:
                every = np.concatenate([shares, of_variable[j], of_variable[k]], axis=1)
                self._gram[i] += every.T @ every
            self._cross[i] += every.T @ scores
            self._second[i] += scores.T @ scores
        self.total += n_draws

    def covariances(self, total_weight: float) -> np.ndarray:
        """Covariances (n_pairs, rank, DEGREE^2, rank, DEGREE^2) of the sums over samples of this total weight.

        Draws have missing entries where samples have, so that pairs that few samples have are as rare there.
        """
        found = np.empty_like(self._second)
        for i, second in enumerate(self._second):
            gram = self._gram[0 if self.is_shared else i]
            if i == 0 or not self.is_shared:
                values, vectors = np.linalg.eigh(gram)
                kept = values > 1e-7 * max(float(values.max(initial=0.0)), 1e-300)
                root = vectors[:, kept] / np.sqrt(values[kept])
            explained = root.T @ self._cross[i]
            found[i] = second - explained.T @ explained
        shape = (len(self.pairs), self.rank, DEGREE**2, self.rank, DEGREE**2)
        return (found * (total_weight / self.total)).reshape(shape)


def judge_pairs(scores: PairScores, covariances: Mapping[int, np.ndarray] | None = None) -> PairTests:
    """Tests of every pair, in every component and in all together, by the quadratic form of its scores.

    Parameters
    ----------
    scores : PairScores
    covariances : mapping from pair to ndarray (rank, DEGREE^2, rank, DEGREE^2), optional
        Covariances of the sums of some pairs under independence. By default those for known, sharp posteriors: since
        the polynomials are orthonormal, the scores of a component are uncorrelated then and have the variance
        sum_m p_mr^2, which is an upper bound, as a rule, where the posteriors were fitted.
    """
    rank = scores.sums.shape[1]
    tested = scores.sizes >= LEAST_SAMPLES
    variances = np.where(tested, scores.squares, 0.0)
    sums = np.where(tested[:, :, None], scores.sums, 0.0)
    # Of a variable of two values some polynomials vanish, and so do their scores.
    n_free = np.count_nonzero(sums, axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.column_stack(
            [(sums**2).sum(axis=2) / variances, (sums.sum(axis=1) ** 2).sum(axis=1) / variances.sum(axis=1)]
        )
        correlation = np.where(tested, sums[:, :, 0] / scores.sizes, np.nan)
        beyond = np.maximum((sums**2).sum(axis=2) - n_free * variances, 0.0)
        strength = np.where(tested, np.sqrt(beyond) / scores.sizes, np.nan)
    statistic = np.nan_to_num(statistic, posinf=0.0)
    free = np.column_stack([n_free, n_free.max(axis=1, initial=0)])
    p_component = np.where(free > 0, chdtrc(np.maximum(free, 1), statistic), 1.0)
    # The first score of each is that of the rank correlation.
    first = np.column_stack([sums[:, :, 0], sums[:, :, 0].sum(axis=1)])
    first_variance = np.column_stack([variances, variances.sum(axis=1)])
    for i, covariance in (covariances or {}).items():
        which = np.flatnonzero(tested[i])
        for r in which.tolist():
            statistic[i, r], p_component[i, r] = _quadratic(sums[i, r], covariance[r, :, r])
            first_variance[i, r] = covariance[r, 0, r, 0]
        together = covariance[which][:, :, which].sum(axis=(0, 2))
        statistic[i, rank], p_component[i, rank] = _quadratic(sums[i].sum(axis=0), together)
        first_variance[i, rank] = together[0, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        p_correlation = np.where(first_variance > 0, chdtrc(1, first**2 / first_variance), 1.0)
    # One component only is tested once.
    used = np.column_stack([tested, tested.sum(axis=1) > 1])
    return PairTests(
        pairs=scores.pairs,
        correlation=correlation,
        strength=strength,
        statistic=statistic,
        p_component=p_component,
        p_value=_combined(np.hstack([p_component, p_correlation]), np.hstack([used, used])),
        n_samples=scores.sizes.sum(axis=1),
    )


def _quadratic(sums: np.ndarray, covariance: np.ndarray) -> tuple[float, float]:
    """Quadratic form of sums (n_scores,) in the inverse of their covariance, and its p-value."""
    values, vectors = np.linalg.eigh(covariance)
    kept = values > 1e-6 * max(float(values.max(initial=0.0)), 1e-300)
    if not kept.any() or not float(values.max()) > 0.0:
        return 0.0, 1.0
    form = float(((vectors[:, kept].T @ sums) ** 2 / values[kept]).sum())
    return form, float(chdtrc(int(kept.sum()), form))


def _combined(p_values: np.ndarray, used: np.ndarray) -> np.ndarray:
    """One p-value (n_pairs,) of several (n_pairs, n_tests) that depend on each other; one where none is used.

    The Cauchy combination of Liu and Xie (2020).
    """
    clipped = np.clip(p_values, 1e-300, 1.0 - 1e-9)
    # tan((1/2 - p) pi) is 1/(p pi) for small p, without the cancellation.
    terms = np.where(clipped < 1e-10, 1.0 / (clipped * np.pi), np.tan((0.5 - clipped) * np.pi))
    number = used.sum(axis=1)
    mean = np.where(used, terms, 0.0).sum(axis=1) / np.maximum(number, 1)
    small = 1.0 / (np.maximum(mean, 1.0) * np.pi)
    combined = np.where(mean > 1e10, small, 0.5 - np.arctan(mean) / np.pi)
    return np.asarray(np.where(number > 0, combined, 1.0))


def dependence_warning(
    values: np.ndarray,
    posterior: np.ndarray | SampleDensity,
    weights: np.ndarray | None,
    discrete: Sequence[int],
    names: Sequence[Hashable],
    random_state: RandomState = 0,
    are_sources: bool = False,
) -> DependenceWarning | None:
    """A warning where variables depend on each other grossly within components, or None.

    Parameters
    ----------
    values : ndarray (n_samples, n_variables)
        Samples of the fit, NaN = missing; 2000 evenly spaced ones at most are looked at, fewer where variables and
        components are many.
    posterior : ndarray (n_samples, rank), or the density that gives it
    weights : ndarray (n_samples,) or None
    discrete : sequence of int
        Positions of the discrete variables.
    names : sequence of hashable (n_variables,)
    random_state : RandomState
        Chooses among many variables; a number by default, so that a fit draws no other random numbers for it.
    are_sources : bool
        True if the variables are sources of a linear map already, so that the advice names no such map.

    Notes
    -----
    One to ten milliseconds: no draws from the model, but an upper bound of the variances in their place.
    """
    n_variables = values.shape[1]
    chosen = np.arange(n_variables)
    if n_variables > QUICK_VARIABLES:
        chosen = np.sort(as_generator(random_state).choice(n_variables, QUICK_VARIABLES, replace=False))
    rank = posterior.shape[1] if isinstance(posterior, np.ndarray) else len(posterior.weights)
    affordable = QUICK_ENTRIES // (len(chosen) * rank)
    rows = at_most(len(values), int(np.clip(affordable, _LEAST_ROWS, QUICK_ROWS)))
    used = np.ones(len(rows)) if weights is None else np.asarray(weights, dtype=np.float64)[rows]
    if not used.sum() > 0.0:
        return None
    # Counts are evidence of as many samples; of other weights, a sample is evidence of no more than one.
    used = used * (effective_size(used) / used.sum())
    some = posterior[rows] if isinstance(posterior, np.ndarray) else posterior.posterior(values[rows])
    scores = PairScores.of(values[np.ix_(rows, chosen)], some, used)
    tests = judge_pairs(scores)
    sizes = np.where(np.isnan(tests.strength), 0.0, scores.sizes)
    shares = sizes / np.maximum(sizes.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    strength = np.sqrt((shares * np.nan_to_num(tests.strength) ** 2).sum(axis=1))
    gross = (strength >= GROSS_STRENGTH) & (tests.p_value * len(tests.p_value) < GROSS_P)
    if not gross.any():
        return None
    order = [i for i in np.argsort(-strength, kind="stable").tolist() if gross[i]]
    pairs = [(names[j], names[k]) for j, k in chosen[tests.pairs[order]].tolist()]
    return DependenceWarning(
        f"{'Sources' if are_sources else 'Variables'} are strongly dependent within components, where the model takes "
        "them for independent: groups may be split or merged. check_independence(model, X) names the pairs and says "
        "what to try.",
        variables=dict.fromkeys(name for pair in pairs for name in pair),
        pairs=pairs,
        advice=advice_on(tests, order, chosen, discrete, values, are_sources),
    )


def advice_on(
    tests: PairTests,
    dependent: Sequence[int] | np.ndarray,
    tested: np.ndarray,
    discrete: Sequence[int],
    values: np.ndarray,
    are_sources: bool,
) -> str:
    """Name what to try if some pairs of variables depend on each other.

    Parameters
    ----------
    tests : PairTests
    dependent : sequence of int
        Numbers of these pairs.
    tested : ndarray of int
        Positions of the variables that the pairs are of.
    discrete : sequence of int
        Positions of the discrete variables, which no linear map can unmix.
    values : ndarray (n_samples, n_variables)
        NaN = missing.
    are_sources : bool
        True if the variables are sources of a linear map already.
    """
    strength = np.nan_to_num(tests.strength[dependent])
    worst = strength.argmax(axis=1)[:, None]
    # The dependence has a direction where the rank correlation is at least half of its strength.
    correlation = np.abs(np.nan_to_num(np.take_along_axis(tests.correlation[dependent], worst, axis=1)))
    has_direction = (correlation >= 0.5 * np.take_along_axis(strength, worst, axis=1))[:, 0]
    is_smooth = ~np.isin(tested[tests.pairs[dependent]], discrete).any(axis=1)
    others = "more components, or fewer variables that say the same"
    if are_sources or not (has_direction & is_smooth).any():
        return f"Try {others}."
    rows = ""
    if np.isnan(np.delete(values, list(discrete), axis=1)).any():
        rows = " and needs complete rows (X has missing entries: leave incomplete rows out, or impute them first)"
    return (
        f"Try UnmixedProductMixture, which allows for linear dependence{rows}, or {others}; compare_models(X, "
        "n_components) says which model is better."
    )
