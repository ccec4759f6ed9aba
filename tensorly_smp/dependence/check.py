"""The report on dependence within the components of a fitted model: all pairs, against draws of the model."""

from __future__ import annotations

import textwrap
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tensorly_smp._support.checks import RandomState, as_generator, checked_integer, checked_real
from tensorly_smp._support.parallel import OnePart
from tensorly_smp._support.representations import counted, html_summary, joined, text_table
from tensorly_smp.densities.conditionals import DiscreteConditionals
from tensorly_smp.densities.mixture_density import SampleDensity, component_number
from tensorly_smp.dependence.pairs import NullScores, PairScores, PairTests, advice_on, judge_pairs, shares_nuisance
from tensorly_smp.exceptions import InvalidTypeError
from tensorly_smp.fitting.fit_samples import ReadSamples
from tensorly_smp.samples.reading import present_dim
from tensorly_smp.samples.values import at_most, effective_size, evenly_weighted, merge_equal_rows, subsample_evenly

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

#: Rows of every replicate, at most.
MOST_DRAWS = 2500
#: Pairs with a p-value above this by the simple bound are not looked at again.
SURELY_INDEPENDENT = 0.2
#: ... and of the others these many with the smallest; entries times components that scores are computed of at a time.
MOST_DOUBTFUL, MOST_ENTRIES = 400, 20_000_000
_LEAST_ROWS = 300
#: Pairs that the table shows, strongest first.
SHOWN = 10
_HEADER = ("Pair", "Strength", "Rank correlation", "Component", "False discovery rate")


@dataclass(frozen=True, eq=False, repr=False)
class IndependenceReport:
    """Tests of independence within components of every pair of variables; prints as a table.

    Attributes
    ----------
    variables : tuple of hashable
        Names.
    tests : PairTests
        Rank correlation and strength of every pair by component, with statistics and p-values.
    false_discovery_rate : ndarray (n_pairs,)
        Share of false discoveries to be expected among pairs up to this one (Benjamini and Hochberg 1995).
    level : float
        Rate at which a pair is called dependent.
    weights : ndarray (rank,)
        Weights of the components.
    n_samples : float
        Samples that were tested (sum of their weights); ``tests.n_samples`` has those with both variables of a pair.
    are_sources : bool
        True if the variables are sources of an unmixed model, which bear the names of variables.
    advice : str
        What to try; empty if no pair is called dependent.

    Examples
    --------
    >>> import warnings
    >>> import tensorly_smp as smp
    >>> X = smp.datasets.make_smooth_mixture("gaussian", 1000, 4, 2, random_state=4).X
    >>> X[:, 1] += 0.5 * X[:, 0]
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", smp.exceptions.DependenceWarning)
    ...     model = smp.SmoothProductMixture(2, random_state=0).fit(X)
    >>> report = smp.check_independence(model, X, random_state=0)
    >>> report.dependent
    [('x0', 'x1')]
    >>> print(report.summary())
    1 of 6 pairs of variables is dependent within components: 'x0' and 'x1'
    """

    variables: tuple[Hashable, ...]
    tests: PairTests
    false_discovery_rate: np.ndarray
    level: float
    weights: np.ndarray
    n_samples: float
    are_sources: bool
    advice: str = ""

    @property
    def is_dependent(self) -> np.ndarray:
        """Flags (n_pairs,) of the pairs that are called dependent."""
        return np.asarray(self.false_discovery_rate < self.level)

    @property
    def n_dependent(self) -> int:
        """Number of pairs that are called dependent."""
        return int(self.is_dependent.sum())

    @property
    def dependent(self) -> list[tuple[Hashable, Hashable]]:
        """Names of the pairs that are called dependent, strongest first."""
        return [self._names(i) for i in self._order() if self.is_dependent[i]]

    @property
    def strongest(self) -> np.ndarray:
        """Strength (n_pairs,) in the component where it is largest; zero where none was tested."""
        return np.asarray(np.nan_to_num(self.tests.strength).max(axis=1, initial=0.0))

    def worst(self, component: int, n_pairs: int = 5) -> list[tuple[Hashable, Hashable, float]]:
        """The pairs of one component that depend on each other most, with their strength."""
        strength = np.nan_to_num(self.tests.strength[:, component_number(component, len(self.weights))])
        order = np.argsort(-strength, kind="stable")[: checked_integer(n_pairs, "n_pairs", 0)]
        return [(*self._names(i), float(strength[i])) for i in order.tolist()]

    def summary(self) -> str:
        """One sentence, without a full stop."""
        what = "sources" if self.are_sources else "variables"
        n_pairs = len(self.tests.pairs)
        if not self.n_dependent:
            return f"None of {n_pairs} pairs of {what} is dependent within components, as far as {self._size()} tell"
        named = joined([f"{a!r} and {b!r}" for a, b in self.dependent], 3)
        verb = "is" if self.n_dependent == 1 else "are"
        return f"{self.n_dependent} of {n_pairs} pairs of {what} {verb} dependent within components: {named}"

    def to_dataset(self) -> xr.Dataset:
        """The report as an xarray.Dataset of plain types, which files can hold.

        Returns
        -------
        Dataset
            ``rank_correlation`` and ``strength`` (variable, other_variable, component), ``p_value``,
            ``false_discovery_rate`` and ``is_dependent`` (variable, other_variable); NaN, or 0, on the diagonal and
            where nothing was tested. Attributes: n_dependent, level, summary, n_samples, are_sources.
        """
        import xarray as xr

        n = len(self.variables)
        rank = len(self.weights)
        j, k = self.tests.pairs.T

        def square(values: np.ndarray) -> np.ndarray:
            found = np.full((n, n, *values.shape[1:]), np.nan)
            found[j, k] = found[k, j] = values
            return found

        both = ("variable", "other_variable")
        names = np.array([str(name) for name in self.variables])
        return xr.Dataset(
            {
                "rank_correlation": ((*both, "component"), square(self.tests.correlation)),
                "strength": ((*both, "component"), square(self.tests.strength)),
                "p_value": (both, square(self.tests.p_value)),
                "false_discovery_rate": (both, square(self.false_discovery_rate)),
                "is_dependent": (both, np.nan_to_num(square(self.is_dependent.astype(float))).astype(np.int8)),
            },
            {"variable": names, "other_variable": names, "component": np.arange(rank)},
            {
                "n_dependent": self.n_dependent,
                "level": self.level,
                "summary": self.summary(),
                "n_samples": self.n_samples,
                "are_sources": int(self.are_sources),
            },
        )

    def to_dataframe(self) -> pd.DataFrame:
        """All pairs as a table, dependent ones first and the stronger before the weaker.

        Returns
        -------
        DataFrame
            Columns ``variable``, ``other_variable``, ``strength`` and ``rank_correlation`` in the ``component`` where
            the strength is largest, ``p_value``, ``false_discovery_rate`` and ``is_dependent``. A pair of which no
            component has enough samples has NaN for its strength and correlation.

        Examples
        --------
        >>> import tensorly_smp as smp
        >>> X = smp.datasets.make_smooth_mixture("gamma", 1000, 4, 2, random_state=0).X
        >>> model = smp.SmoothProductMixture(2, random_state=0).fit(X)
        >>> table = smp.check_independence(model, X, random_state=0).to_dataframe()
        >>> table.shape, bool(table.is_dependent.any())
        ((6, 8), False)
        """
        import pandas as pd

        order = self._order()
        strength = self.tests.strength[order]
        correlation = self.tests.correlation[order]
        component = np.nan_to_num(strength).argmax(axis=1)
        rows = np.arange(len(order))
        return pd.DataFrame(
            {
                "variable": [self._names(i)[0] for i in order],
                "other_variable": [self._names(i)[1] for i in order],
                "strength": strength[rows, component],
                "rank_correlation": correlation[rows, component],
                "component": component,
                "p_value": self.tests.p_value[order],
                "false_discovery_rate": self.false_discovery_rate[order],
                "is_dependent": self.is_dependent[order],
            }
        )

    def __repr__(self) -> str:
        more = len(self.tests.pairs) - SHOWN
        rest = [f"and {more} more"] if more > 0 else []
        advice = ["", *textwrap.wrap(self.advice, 100)] if self.advice else []
        table = text_table(_HEADER, self._rows())
        return "\n".join([self._title(), f"{self.summary()}.", "", *table, *rest, *advice])

    def _repr_html_(self) -> str:
        facts = [("Result", self.summary()), *([("Advice", self.advice)] if self.advice else [])]
        return html_summary(self._title(), facts, _HEADER, self._rows(), limit=SHOWN)

    def _title(self) -> str:
        what = "sources" if self.are_sources else "variables"
        of = f"{counted(len(self.weights), 'component')} of {len(self.variables)} {what}"
        return f"Independence within {of}, {self._size()}"

    def _size(self) -> str:
        most = float(self.tests.n_samples.max(initial=0.0))  # sums of posteriors, which are rounded
        of_pair = f" (at most {most:.6g} for a pair)" if most < self.n_samples * (1 - 1e-9) else ""
        return f"{self.n_samples:.6g} samples{of_pair}"

    def _names(self, i: int) -> tuple[Hashable, Hashable]:
        j, k = self.tests.pairs[i].tolist()
        return self.variables[j], self.variables[k]

    def _order(self) -> list[int]:
        """Pairs: dependent ones first, and the stronger before the weaker."""
        return [int(i) for i in np.lexsort((-self.strongest, ~self.is_dependent))]

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = []
        for row in self.to_dataframe().head(SHOWN).to_dict("records"):
            rate = row["false_discovery_rate"]
            strength, correlation = (f"{np.nan_to_num(row[name]):.2f}" for name in ("strength", "rank_correlation"))
            shown = ("< 1e-6" if rate < 1e-6 else f"{rate:.2g}") + " *" * int(row["is_dependent"])
            rows.append(
                (f"{row['variable']!s}, {row['other_variable']!s}", strength, correlation, str(row["component"]), shown)
            )
        return rows


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
    level = checked_real(level, "level", 0.0, 1.0, "()")
    sample_dim = None
    if not isinstance(model, SampleDensity):
        if not hasattr(model, "sample_dim"):
            raise InvalidTypeError(f"model is {type(model).__name__}; expected a fitted SmoothProductMixture.")
        check_is_fitted(model)
        sample_dim = model.sample_dim
        model = model.density_
    data = ReadSamples.of(X, sample_weight, model.variables, present_dim(X, sample_dim), model.value_labels)
    if isinstance(data.different, OnePart):
        merged = data.different.piece.values, data.different.piece.weights
    else:
        merged = merge_equal_rows(data.subsample.values, data.subsample_weights)
    values, weights = subsample_evenly(*merged)
    # Fewer samples where variables and components are many.
    rows = at_most(len(values), max(MOST_ENTRIES // (len(model.weights) * values.shape[1]), _LEAST_ROWS))
    values = values[rows]
    counts = np.ones(len(rows)) if weights is None else weights[rows]
    are_sources = hasattr(model, "to_sources")  # a density with an unmixing matrix
    density = model.sources if are_sources else model
    if are_sources:
        values = model.to_sources(values)
    tests = pair_tests(density, values, counts, n_replicates, as_generator(random_state))
    from scipy.stats import false_discovery_control  # slow to import

    rates = np.asarray(false_discovery_control(tests.p_value))  # Benjamini and Hochberg 1995
    discrete = [n for n, each in enumerate(density.conditionals) if isinstance(each, DiscreteConditionals)]
    dependent = np.flatnonzero(rates < level)
    advice = advice_on(tests, dependent, np.arange(values.shape[1]), discrete, values, are_sources)
    return IndependenceReport(
        tuple(model.variables),
        tests,
        rates,
        level,
        model.weights,
        float(counts.sum()),
        are_sources,
        advice if len(dependent) else "",
    )


def pair_tests(
    density: Any, values: np.ndarray, weights: np.ndarray, n_replicates: int, rng: np.random.Generator
) -> PairTests:
    """Tests of all pairs of variables of a mixture of products, against draws from it.

    Parameters
    ----------
    density : MixtureDensity
        For the posteriors, and to draw from.
    values : ndarray (n_samples, n_variables)
        NaN = missing.
    weights : ndarray (n_samples,)
    n_replicates : int
        Sets of draws.
    rng : Generator
    """
    rank = len(density.weights)
    n_variables = values.shape[1]
    posterior = density.posterior(values)
    scores = PairScores.of(values, posterior, weights)
    tests = judge_pairs(scores)
    doubtful = np.argsort(tests.p_value, kind="stable")[:MOST_DOUBTFUL]
    doubtful = np.sort(doubtful[tests.p_value[doubtful] < SURELY_INDEPENDENT])
    if not len(doubtful) or not n_replicates:
        return tests
    pairs = scores.pairs[doubtful]
    columns = np.arange(n_variables)
    is_shared = shares_nuisance(rank, n_variables)
    if not is_shared:  # then only the variables of these pairs are needed
        columns, places = np.unique(pairs, return_inverse=True)
        pairs = places.reshape(pairs.shape)
    null = NullScores(pairs, rank, len(columns), is_shared)
    missing = np.isnan(values)
    n_copies = int(np.clip(round(effective_size(weights)), 1, max(len(values), MOST_DRAWS)))
    copies = np.repeat(*evenly_weighted(weights, n_copies))
    n_draws = min(n_copies, MOST_DRAWS)
    for _ in range(n_replicates):
        draws, _labels = density.sample(n_draws, rng)
        if missing.any():
            draws[missing[copies[rng.choice(n_copies, n_draws)]]] = np.nan
        null.add(draws[:, columns], density.posterior(draws))
    found = null.covariances(float(weights.sum()))
    return judge_pairs(scores, dict(zip(doubtful.tolist(), found, strict=True)))
