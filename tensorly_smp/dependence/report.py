"""Report on dependence within components: as a table, as HTML, as a Dataset."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import false_discovery_control

from tensorly_smp._support.checks import checked_integer
from tensorly_smp._support.representations import html_summary, joined
from tensorly_smp.densities.mixture_density import component_number
from tensorly_smp.dependence.pairs import PairTests

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

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

    @classmethod
    def of(
        cls,
        variables: tuple[Hashable, ...],
        tests: PairTests,
        level: float,
        weights: np.ndarray,
        n_samples: float,
        are_sources: bool,
    ) -> IndependenceReport:
        """Make a report from tests of all pairs."""
        rates = np.asarray(false_discovery_control(tests.p_value))  # Benjamini and Hochberg 1995
        return cls(variables, tests, rates, level, weights, n_samples, are_sources)

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
        rows = [_HEADER, *self._rows()]
        widths = [max(len(row[c]) for row in rows) for c in range(len(_HEADER))]
        text = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        text.insert(1, "  ".join("-" * width for width in widths))
        more = len(self.tests.pairs) - SHOWN
        return "\n".join([self._title(), f"{self.summary()}.", "", *text, *([f"and {more} more"] if more > 0 else [])])

    def _repr_html_(self) -> str:
        return html_summary(self._title(), [("Result", self.summary())], _HEADER, self._rows(), limit=SHOWN)

    def _title(self) -> str:
        rank = len(self.weights)
        what = "sources" if self.are_sources else "variables"
        of = f"{rank} component{'' if rank == 1 else 's'} of {len(self.variables)} {what}"
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
        keys = (-self.strongest, ~self.is_dependent)
        return [int(i) for i in np.lexsort(keys)]

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = []
        for i in self._order()[:SHOWN]:
            first, second = self._names(i)
            strength = np.nan_to_num(self.tests.strength[i])
            r = int(np.argmax(strength))
            rate = self.false_discovery_rate[i]
            shown = "< 1e-6" if rate < 1e-6 else f"{rate:.2g}"
            mark = " *" if self.is_dependent[i] else ""
            correlation = f"{np.nan_to_num(self.tests.correlation[i, r]):.2f}"
            rows.append((f"{first!s}, {second!s}", f"{strength[r]:.2f}", correlation, str(r), shown + mark))
        return rows
