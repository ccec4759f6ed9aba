"""The bins as the estimator asks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorly_smp._support.checks import warn
from tensorly_smp.codes.bin_number import auto_n_bins
from tensorly_smp.codes.binning import Binning, binning_of_values, resolve_n_bins
from tensorly_smp.codes.categories import category_edges
from tensorly_smp.codes.edges import are_crowded, have_equal_widths, quantile_edges, stretched_range
from tensorly_smp.codes.thinning import of_positive_weight
from tensorly_smp.exceptions import MergedBinsWarning, OutlierWarning, TensorlySmpWarning
from tensorly_smp.fitting.variables import Variables
from tensorly_smp.likelihood.observed import Observed, Support
from tensorly_smp.samples.reading import Samples

#: Discrete variables with at most this many values, or as many as bins were asked for, get a bin for each value.
MOST_CATEGORIES = 20


@dataclass(frozen=True)
class Discretization:
    """Parameters of the estimator, and the number of components, by which "auto" goes."""

    n_bins: int | str | Sequence[int] | Mapping[Any, int]
    binning: str | Binning
    coverage: float | None
    rank: int

    def bins(self, samples: Samples, sample_weight: Any) -> Binning:
        """Bins of all variables, in the order of the samples."""
        if isinstance(self.binning, Binning):
            return self.binning
        used, weights = of_positive_weight(samples.values, sample_weight)
        numbers = self._numbers(samples, used, self.binning, sample_weight)
        options = (numbers, self.binning, None, self.coverage, weights)
        return _warned(*binning_of_values(used, samples.variables, *options))

    def bins_of_starts(
        self,
        samples: Samples,
        sample_weight: Any,
        variables: Variables,
        must_be_uniform: bool = False,
        warns: bool = True,
    ) -> Binning:
        """Bins on which a refinement starts.

        The refinement has cells of its own, which reach to far values. Bins of a start need not: with far values,
        uniform bins span the central ones only, and where nearly all values would share a few bins even so, bins are
        quantiles. The values of a discrete variable get a bin each, unless they are too many. Where bins must be
        uniform, because densities are made of them, they are.
        """
        if isinstance(self.binning, Binning):
            return self.binning
        used, weights = of_positive_weight(samples.values, sample_weight)
        numbers = self._numbers(samples, used, self.binning, sample_weight)
        most = [max(MOST_CATEGORIES, count) for count in resolve_n_bins(numbers, samples.variables)]
        categories = {n: _category_edges(used[:, n], most[n], variables.support[n]) for n in variables.discrete}
        own = {n: edges for n, edges in categories.items() if edges is not None}
        if must_be_uniform:
            own = {n: edges for n, edges in own.items() if have_equal_widths(edges)}
        ranges = {}
        if self.coverage is None and self.binning == "uniform":
            central = {n: stretched_range(used[:, n], weights) for n in range(used.shape[1]) if n not in own}
            ranges = {samples.variables[n]: pair for n, pair in central.items() if pair is not None}
        options = (numbers, self.binning, ranges, self.coverage, weights)
        chosen, found = binning_of_values(used, samples.variables, *options)
        # Far values have cells of their own, and of how many bins starts are made is no concern of the user.
        if warns:
            _warned(chosen, [each for each in found if not isinstance(each, OutlierWarning | MergedBinsWarning)])
        for n, edges in enumerate(chosen.edges):
            if must_be_uniform:
                break
            if self.binning == "uniform" and n not in own and are_crowded(used[:, n], edges, weights):
                present = ~np.isnan(used[:, n])
                observed = used[present, n]
                own_weights = None if weights is None else weights[present]
                ends = (observed.min(), observed.max()) if self.coverage is None else edges[[0, -1]]
                own[n] = quantile_edges(observed, float(ends[0]), float(ends[1]), len(edges) - 1, own_weights)
        if not own:
            return chosen
        mixed = tuple(own.get(n, edges) for n, edges in enumerate(chosen.edges))
        strategy = "uniform" if must_be_uniform and self.binning == "uniform" else "given"
        return Binning(mixed, chosen.variables, strategy, chosen.constant)

    def _numbers(self, samples: Samples, used: np.ndarray, strategy: str, sample_weight: Any) -> Any:
        if not isinstance(self.n_bins, str):
            return self.n_bins
        # Refuses unusable values by the names of their variables; the bins that are kept will warn.
        binning_of_values(used, samples.variables, 2, strategy, None, self.coverage)
        return auto_n_bins(samples.values, self.rank, sample_weight, self.coverage)


def _warned(binning: Binning, found: Sequence[TensorlySmpWarning]) -> Binning:
    """The bins, after their warnings have been given."""
    for each in found:
        warn(each)
    return binning


def _category_edges(values: np.ndarray, most: int, support: Support) -> np.ndarray | None:
    """Edges of one bin for each value; None if these are more than `most`, or one, or too large or close for that."""
    distinct = Observed.of(values, None).distinct
    if not 2 <= len(distinct) <= most:
        return None
    edges = category_edges(distinct, *support)
    return edges if np.isfinite(edges).all() and (np.diff(edges) > 0).all() else None
