"""The bins as the estimator asks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensorly_smp._support.checks import warn
from tensorly_smp.codes.binning import Binning, binning_of_values
from tensorly_smp.codes.edges import are_crowded, quantile_edges, stretched_range
from tensorly_smp.codes.values import drop_zero_weight
from tensorly_smp.exceptions import MergedBinsWarning, OutlierWarning, TensorlySmpWarning
from tensorly_smp.fitting.variables import Variables
from tensorly_smp.samples.reading import Samples


@dataclass(frozen=True)
class Discretization:
    """Parameters of the estimator."""

    n_bins: int | Sequence[int] | Mapping[Any, int]
    binning: str | Binning

    def bins(self, samples: Samples, sample_weight: Any, variables: Variables | None = None) -> Binning:
        """Bins of all variables, in the order of the samples; values of discrete ones, where these are known."""
        if isinstance(self.binning, Binning):
            return self.binning if variables is None else self._given(variables)
        used, weights = drop_zero_weight(samples.values, sample_weight)
        values = {samples.variables[n]: each for n, each in variables.values.items()} if variables else {}
        options = (self.n_bins, self.binning, None, None, weights, values)
        return _warned(*binning_of_values(used, samples.variables, *options))

    def bins_of_starts(
        self,
        samples: Samples,
        sample_weight: Any,
        variables: Variables,
        must_be_uniform: bool = False,
    ) -> Binning:
        """Bins on which a refinement starts.

        The refinement has cells of its own, which reach to far values. Bins of a start need not: with far values,
        uniform bins span the central ones only, and where nearly all values would share a few bins even so, bins are
        quantiles. Where bins must be uniform, because densities are made of them, they are.
        """
        if isinstance(self.binning, Binning):
            return self._given(variables)
        used, weights = drop_zero_weight(samples.values, sample_weight)
        values = {samples.variables[n]: each for n, each in variables.values.items()}
        ranges = {}
        if self.binning == "uniform":
            central = {name: stretched_range(used[:, n], weights) for n, name in enumerate(samples.variables)}
            ranges = {name: pair for name, pair in central.items() if pair is not None and name not in values}
        options = (self.n_bins, self.binning, ranges, None, weights, values)
        chosen, found = binning_of_values(used, samples.variables, *options)
        # Far values have cells of their own, and of how many bins starts are made is no concern of the user.
        _warned(chosen, [each for each in found if not isinstance(each, OutlierWarning | MergedBinsWarning)])
        own = {}
        for n, edges in enumerate(chosen.edges):
            if must_be_uniform or self.binning != "uniform":
                break
            if n not in variables.values and are_crowded(used[:, n], edges, weights):
                present = ~np.isnan(used[:, n])
                observed = used[present, n]
                own_weights = None if weights is None else weights[present]
                ends = float(observed.min()), float(observed.max())
                own[n] = quantile_edges(observed, *ends, len(edges) - 1, own_weights)
        if not own:
            return chosen
        mixed = tuple(own.get(n, edges) for n, edges in enumerate(chosen.edges))
        return replace(chosen, edges=mixed, strategy="given")

    def _given(self, variables: Variables) -> Binning:
        """Bins of the user, but the values of discrete variables."""
        assert isinstance(self.binning, Binning)
        names = self.binning.variables
        return replace(self.binning, values={names[n]: each for n, each in variables.values.items()})


def _warned(binning: Binning, found: Sequence[TensorlySmpWarning]) -> Binning:
    """The bins, after their warnings have been given."""
    for each in found:
        warn(each)
    return binning
