"""The bins as the estimator asks for them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tensorly_smp.codes.bin_number import auto_n_bins
from tensorly_smp.codes.binning import Binning, choose_binning, stretched_range
from tensorly_smp.codes.categories import category_edges
from tensorly_smp.decomposition import counted
from tensorly_smp.exceptions import OutlierWarning
from tensorly_smp.likelihood.cells import distinct_values
from tensorly_smp.samples import Samples
from tensorly_smp.variables import Variables

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
        used = counted(samples.values, sample_weight)
        numbers = self._numbers(samples, used, self.binning, sample_weight)
        return choose_binning(self._frame(samples, used), numbers, self.binning, None, self.coverage)

    def bins_of_starts(self, samples: Samples, sample_weight: Any, variables: Variables) -> Binning:
        """Bins on which a refinement starts.

        The refinement has cells of its own, far values and all. Here such values must not leave a few bins to the
        others: uniform bins span the central values then. And discrete values must not share a bin.
        """
        if isinstance(self.binning, Binning):
            return self.binning
        used = counted(samples.values, sample_weight)
        ranges = {}
        if self.coverage is None and self.binning == "uniform":
            central = {n: stretched_range(used[:, n]) for n in range(used.shape[1]) if n not in variables.discrete}
            ranges = {samples.variables[n]: pair for n, pair in central.items() if pair is not None}
        numbers = self._numbers(samples, used, self.binning, sample_weight)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OutlierWarning)  # of discrete variables, whose bins change below
            chosen = choose_binning(self._frame(samples, used), numbers, self.binning, ranges, self.coverage)
        edges = list(chosen.edges)
        for n in variables.discrete:
            values = distinct_values(used[:, n])
            if 2 <= len(values) <= max(MOST_CATEGORIES, chosen.n_bins[n]):
                own = category_edges(values, *variables.support[n])
                if np.isfinite(own).all() and (np.diff(own) > 0).all():  # else they are too large, or too close
                    edges[n] = own
        is_same = all(mine is theirs for mine, theirs in zip(edges, chosen.edges, strict=True))
        return chosen if is_same else Binning(tuple(edges), chosen.variables)

    def _numbers(self, samples: Samples, used: np.ndarray, strategy: str, sample_weight: Any) -> Any:
        if not isinstance(self.n_bins, str):
            return self.n_bins
        with warnings.catch_warnings():  # the bins that are kept will warn
            warnings.simplefilter("ignore")
            # Refuses unusable values by the names of their variables.
            choose_binning(self._frame(samples, used), 2, strategy, None, self.coverage)
        return auto_n_bins(samples.values, self.rank, sample_weight, self.coverage)

    @staticmethod
    def _frame(samples: Samples, used: np.ndarray) -> pd.DataFrame:
        """With names for the messages, and for n_bins by name; as objects, or pandas would make columns of tuples."""
        return pd.DataFrame(used, columns=pd.Index(samples.variables, dtype=object, tupleize_cols=False))
