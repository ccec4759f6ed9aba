"""Samples of the replicates: rows drawn again, or samples drawn from the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorly_smp.densities.mixture_density import MixtureDensity

#: A replicate: samples in cells or bins, their weights, and their posteriors under the first fit.
Replicate = tuple[Any, np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of the samples, each as often as a multinomial draw says.

    Attributes
    ----------
    on_grid : object
        The samples in cells or bins.
    posterior : ndarray (n_samples, rank)
        Under the first fit.
    weights : ndarray (n_samples,)
        Numbers of samples.
    """

    on_grid: Any
    posterior: np.ndarray
    weights: np.ndarray

    def draw(self, rng: np.random.Generator) -> Replicate:
        """One replicate."""
        total = self.weights.sum()
        counts = rng.multinomial(max(round(float(total)), 1), self.weights / total)
        return self.on_grid, counts.astype(np.float64), self.posterior


@dataclass(frozen=True, eq=False)
class Drawn:
    """Samples of the model, with the entries missing that are missing in the rows.

    Attributes
    ----------
    density : MixtureDensity
    missing : ndarray of bool (n_samples, n_variables)
    weights : ndarray (n_samples,)
        Numbers of samples with these entries missing.
    assign_to_grid : callable
        Puts samples in cells or bins.
    posterior : callable
        Their posteriors under the first fit.
    """

    density: MixtureDensity
    missing: np.ndarray
    weights: np.ndarray
    assign_to_grid: Callable[[np.ndarray], Any]
    posterior: Callable[[Any], np.ndarray]

    def draw(self, rng: np.random.Generator) -> Replicate:
        """One replicate."""
        counts = np.round(self.weights).astype(np.int64)
        if not np.array_equal(counts, self.weights):
            total = self.weights.sum()
            counts = rng.multinomial(max(round(float(total)), 1), self.weights / total)
        missing = np.repeat(self.missing, counts, axis=0)
        values, _ = self.density.sample(len(missing), rng)
        values[missing] = np.nan
        on_grid = self.assign_to_grid(values)
        return on_grid, np.ones(len(values)), self.posterior(on_grid)
