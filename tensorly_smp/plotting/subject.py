"""Everything that can be drawn (a fitted model, its Dataset, factors or a density), read into one form."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr
from sklearn.utils.validation import check_is_fitted

from tensorly_smp.codes.binning import Binning
from tensorly_smp.decomposition.solution import CoupledSolution, factors_from_dataset, factors_to_dataset
from tensorly_smp.densities.conditionals import DiscreteConditionals
from tensorly_smp.densities.mixture_density import MixtureDensity
from tensorly_smp.densities.reconstruct import CLIP_WARNING, reconstruct_density
from tensorly_smp.densities.smooth import spline_density
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.samples.codebook import ATTRIBUTE, ValueLabels, from_json, units_of
from tensorly_smp.samples.labels import variable_positions
from tensorly_smp.samples.reading import present_dim, read_samples

#: Units that say that there is none: "1" is that of the CF conventions.
NO_UNITS = ("1", "-", "dimensionless", "unitless")
#: What `read_subject` takes, in words.
MIXTURES = "a fitted model, its result_ (a Dataset), a solution, factors or a MixtureDensity"


@dataclass(frozen=True, eq=False)
class Subject:
    """A mixture to be drawn.

    Attributes
    ----------
    names : tuple of hashable
        Of the variables.
    weights : ndarray (rank,)
    dataset : Dataset or None
        None of a density alone.
    factors : MixtureFactors or None
        None of a density alone.
    own_density : MixtureDensity or None
    sample_dim : hashable, optional
        Of the samples in xarray objects, as the model has it.
    """

    names: tuple[Hashable, ...]
    weights: np.ndarray
    dataset: xr.Dataset | None
    factors: MixtureFactors | None
    own_density: MixtureDensity | None = None
    sample_dim: Hashable | None = None

    @property
    def rank(self) -> int:
        """Number of components."""
        return len(self.weights)

    @cached_property
    def density(self) -> MixtureDensity:
        """The density, made from the factors where there is none."""
        if self.own_density is not None:
            return self.own_density
        if self.dataset is None or self.factors is None or self.factors.binning is None:
            raise InvalidInputError("Densities need the bin edges, and the factors have none; plot_factors draws them.")
        binning: Binning = self.factors.binning
        fitted = self.dataset.attrs.get("density")
        method = str(fitted or ("sinc" if all(binning.is_uniform) else "histogram"))
        if method == "logspline" and "spline" in self.dataset:
            return spline_density(self.dataset, self.factors)
        # The fit has warned of what is clipped.
        limit = CLIP_WARNING if fitted is None else np.inf
        return reconstruct_density(self.factors, method=method, clip_warning=limit)

    @cached_property
    def discrete(self) -> np.ndarray:
        """Mask (n_variables,) of the discrete variables."""
        if self.dataset is None:
            return np.array([isinstance(each, DiscreteConditionals) for each in self.density.conditionals])
        if "discrete" not in self.dataset:
            return np.zeros(len(self.names), dtype=bool)
        return np.asarray(self.dataset["discrete"].values, dtype=bool)

    @cached_property
    def value_labels(self) -> Mapping[Hashable, ValueLabels]:
        """Labels of the codes of variables of text and categories."""
        if self.own_density is not None:
            return self.own_density.value_labels
        return {} if self.dataset is None else from_json(self.dataset.attrs.get(ATTRIBUTE), self.names)

    def edges(self, n: int) -> np.ndarray | None:
        """Bin edges (n_bins + 1,) of a variable, where they are known."""
        if self.factors is None or self.factors.binning is None:
            return getattr(self.density.conditionals[n], "edges", None)
        return self.factors.binning.edges[n]

    def positions(self, variables: Any) -> list[int]:
        """Positions of variables, given by name; of all of them for None."""
        if variables is None:
            return list(range(len(self.names)))
        return variable_positions(variables, self.names)

    def values(self, X: Any) -> np.ndarray | None:
        """Samples (n_samples, n_variables) in the order of the variables, NaN where an entry is missing."""
        if X is None:
            return None
        here = present_dim(X, self.sample_dim)
        return read_samples(X, self.names, here, self.value_labels).values

    def titles(self, X: Any) -> list[str]:
        """Names of the variables with their units."""
        named = zip(self.names, self.units(X), strict=True)
        return [f"{name} ({unit})" if unit else str(name) for name, unit in named]

    def units(self, X: Any) -> tuple[str, ...]:
        """Units of the variables, "" where there is none: those of X, else those that the Dataset has recorded."""
        for source in (X, self.dataset):
            found = units_of(source, self.names)
            if any(found):
                return tuple("" if unit.strip() in NO_UNITS else unit for unit in found)
        return ("",) * len(self.names)


def read_subject(subject: Any, expected: str = MIXTURES) -> Subject:
    """Read whatever can be drawn; `expected` are the words for it in an error.

    Raises
    ------
    InvalidTypeError
        Another kind of object.
    InvalidInputError
        A Dataset that is not of a mixture.
    sklearn.exceptions.NotFittedError
        A model that is not fitted.
    """
    if isinstance(subject, MixtureDensity):
        return Subject(subject.variables, subject.weights, None, None, subject)
    if isinstance(subject, xr.Dataset):
        return _of_dataset(subject)
    if not isinstance(subject, type) and hasattr(subject, "fit") and hasattr(subject, "score_samples"):
        check_is_fitted(subject)
        if not isinstance(getattr(subject, "result_", None), xr.Dataset):
            raise InvalidTypeError(f"{type(subject).__name__} is no model of this package; expected {expected}.")
        if not isinstance(subject.density_, MixtureDensity):
            raise InvalidTypeError(
                f"{type(subject).__name__} has densities of sources, not of the variables; expected {expected}. "
                "model.plot draws the sources."
            )
        factors = subject.factors_
        return Subject(
            subject.binning_.variables, subject.weights_, subject.result_, factors, subject.density_, subject.sample_dim
        )
    subject = getattr(subject, "solution_", subject)  # of CoupledSimplexCP
    if isinstance(subject, CoupledSolution):
        return _of_dataset(subject.to_dataset(), _names(subject.factors))
    if isinstance(subject, MixtureFactors):
        return _of_dataset(factors_to_dataset(subject), _names(subject))
    raise InvalidTypeError(f"Received {type(subject).__name__}; expected {expected}.")


def _names(factors: MixtureFactors) -> tuple[Hashable, ...] | None:
    """Names as they are, where a Dataset has them as strings."""
    return None if factors.binning is None else factors.binning.variables


def _of_dataset(dataset: xr.Dataset, names: tuple[Hashable, ...] | None = None) -> Subject:
    factors = factors_from_dataset(dataset, names)
    known = factors.binning.variables if factors.binning is not None else tuple(dataset["variable"].values.tolist())
    return Subject(known, np.asarray(factors.weights), dataset, factors)
