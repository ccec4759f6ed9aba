"""A model fitted again to other weights of its samples, or to other samples, from where the first fit ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import xarray as xr
from scipy.sparse import csr_array
from scipy.special import softmax

from tensorly_smp._support.checks import collected_warnings
from tensorly_smp._support.iteration import StopReason
from tensorly_smp.codes.encoding import Codes, encode_samples
from tensorly_smp.codes.one_hot import one_hot
from tensorly_smp.densities.grid import ConditionalDensities
from tensorly_smp.densities.logspline import background_share, smooth_conditionals
from tensorly_smp.densities.reconstruct import reconstruct_density
from tensorly_smp.densities.spline_dataset import spline_transforms, variable_bounds
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.fitting.coupled_stage import Decomposition
from tensorly_smp.fitting.fit_samples import EM_SMOOTHING
from tensorly_smp.likelihood.cells import Cells, cells_along
from tensorly_smp.likelihood.em import refine_on_bins, samples_in_bins, smooth_em
from tensorly_smp.likelihood.steps import CellSamples, SmoothMixture, log_floored, log_joint
from tensorly_smp.splines.basis import spline_basis
from tensorly_smp.uncertainty.flatness import FlattestDirection, flattest_direction

#: Nats that a replicate may still gain, by the rate of EM, where it ends: a displacement of 0.14 standard errors.
LEFT = 0.01
#: ... as if the samples had these shares of the information at least, the second where the likelihood is flat.
LEAST_INFORMATION, OF_FLAT = 0.02, 0.1


@dataclass(frozen=True, eq=False)
class Refitted:
    """Result of a refit.

    Attributes
    ----------
    weights : ndarray (rank,)
    conditionals : tuple of ConditionalDensities
        One per variable.
    posterior : ndarray (n_samples, rank)
        Of the samples it was fitted to.
    status : StopReason
    """

    weights: np.ndarray
    conditionals: tuple[ConditionalDensities, ...]
    posterior: np.ndarray
    status: StopReason


class Refit(Protocol):
    """A way to fit a model again to other samples."""

    def assign_to_grid(self, values: np.ndarray) -> Any:
        """Samples (n_samples, n_variables) in the bins or cells of the first fit."""

    def posterior(self, on_grid: Any) -> np.ndarray:
        """Posteriors (n_samples, rank) under the first fit."""

    def flattest(self, on_grid: Any, weights: np.ndarray, posterior: np.ndarray) -> FlattestDirection | None:
        """The direction in which samples determine the first fit least, where its likelihood is known."""

    def refit(
        self,
        on_grid: Any,
        weights: np.ndarray,
        posterior: np.ndarray,
        flattest: FlattestDirection | None,
        rng: np.random.Generator,
    ) -> Refitted:
        """The fit to weighted samples, from the posteriors of the first one."""


@dataclass(frozen=True, eq=False)
class SmoothRefit:
    """Smoothed EM on the cells of the first fit: the splines keep their knots and coordinates.

    Penalties are chosen once more, within a factor of ten of the first ones.

    Attributes
    ----------
    cells : Cells
    mixture : SmoothMixture
    penalty : ndarray (n_smooth, rank)
        Per sample of the component.
    bounds : sequence of (float, float)
    options : dict
        ``criterion``, ``n_iter_max`` and ``tol`` of smoothed EM.
    """

    cells: Cells
    mixture: SmoothMixture
    penalty: np.ndarray
    bounds: Sequence[tuple[float, float]]
    options: dict[str, Any]

    @classmethod
    def of(cls, dataset: xr.Dataset, factors: MixtureFactors, values: np.ndarray, **options: Any) -> SmoothRefit:
        """From the Dataset of the first fit, and its samples (n_samples, n_variables)."""
        assert factors.binning is not None
        discrete = factors.binning.discrete
        smooth = [n for n in range(factors.n_variables) if n not in discrete]
        interval = np.nan_to_num(dataset["interval"].transpose("variable", "end").values, nan=0.0)
        cells = cells_along(
            spline_basis(dataset.sizes["basis"]),
            interval[:, 0],
            np.where(np.isin(np.arange(factors.n_variables), list(discrete)), 1.0, interval[:, 1]),
            tuple(spline_transforms(dataset)),
            discrete,
            values,
        )
        spline = dataset["spline"].transpose("variable", "basis", "component").values
        tables = [log_floored(factors.factors[n]) for n in discrete]
        mixture = SmoothMixture(
            log_weights=log_floored(factors.weights),
            coefficients=np.ascontiguousarray(spline[smooth].transpose(1, 0, 2)),
            tables=np.concatenate(tables) if tables else np.zeros((0, factors.rank)),
        )
        penalty = dataset["penalty"].transpose("variable", "component").values[smooth]
        return cls(cells, mixture, penalty, variable_bounds(dataset), options)

    def assign_to_grid(self, values: np.ndarray) -> CellSamples:
        """Samples in the cells."""
        return CellSamples.assign_to_grid(values, self.cells)

    def posterior(self, on_grid: CellSamples) -> np.ndarray:
        """Posteriors under the first fit."""
        return on_grid.expect(self.mixture, np.zeros(self.penalty.size))[0].posterior

    def _penalty(self, samples: CellSamples, posterior: np.ndarray) -> np.ndarray:
        """Penalties (n_smooth * rank,), not per sample."""
        totals = samples.shares(samples.counts_from_posterior(posterior).counts)[1]
        return self.penalty.ravel() * totals

    def flattest(self, on_grid: CellSamples, weights: np.ndarray, posterior: np.ndarray) -> FlattestDirection:
        """The direction in which samples determine the first fit least."""
        samples = on_grid.reweighted(weights)
        return flattest_direction(samples, posterior, self.mixture, self._penalty(samples, posterior))

    def refit(
        self,
        on_grid: CellSamples,
        weights: np.ndarray,
        posterior: np.ndarray,
        flattest: FlattestDirection | None,
        rng: np.random.Generator,
    ) -> Refitted:
        """Smoothed EM from the posteriors of the first fit, or, where it is flat, of a mixture that is as likely."""
        samples = on_grid.reweighted(weights)
        options = self.options
        if flattest is not None:
            # With a share e of the information, passes after one that gains g gain g / 2e together. Where the
            # likelihood is flat, it is the starts that spread the replicates.
            least = OF_FLAT if flattest.is_flat else LEAST_INFORMATION
            left = 2.0 * LEFT * max(flattest.information, least) / samples.total_weight
            options = options | dict(tol=min(options["tol"], left))
            if flattest.is_flat:
                posterior = samples.expect(flattest.start(rng), np.zeros(self.penalty.size))[0].posterior
        near = (self._penalty(samples, posterior), self.mixture)
        fit = smooth_em(samples, posterior, near=near, n_rounds=1, **options)
        shares = np.exp(fit.mixture.log_weights)
        share = background_share(shares * fit.total_weight)
        conditionals = smooth_conditionals(self.cells, fit.mixture, share, self.bounds)
        return Refitted(shares, conditionals, fit.posterior, fit.status)


@dataclass(frozen=True, eq=False)
class BinRefit:
    """The coupled decomposition, or EM on the bins, from the factors of the first fit.

    Attributes
    ----------
    factors : MixtureFactors
    density : str
        Of the bins.
    decomposition : Decomposition or None
        None for EM.
    options : dict
        ``n_iter_max`` and ``tol`` of EM.
    """

    factors: MixtureFactors
    density: str
    decomposition: Decomposition | None
    options: dict[str, Any]

    def assign_to_grid(self, values: np.ndarray) -> tuple[Codes, csr_array]:
        """Samples in the bins."""
        assert self.factors.binning is not None
        codes = encode_samples(values, self.factors.binning)
        return codes, one_hot(codes)

    def posterior(self, on_grid: tuple[Codes, csr_array]) -> np.ndarray:
        """Posteriors under the first fit."""
        return _posterior(on_grid[1], self.factors)

    def flattest(self, on_grid: tuple[Codes, csr_array], weights: np.ndarray, posterior: np.ndarray) -> None:
        """Nothing: the likelihood of bins is not looked at."""

    def refit(
        self,
        on_grid: tuple[Codes, csr_array],
        weights: np.ndarray,
        posterior: np.ndarray,
        flattest: FlattestDirection | None,
        rng: np.random.Generator,
    ) -> Refitted:
        """The decomposition, or EM, of weighted samples."""
        codes, hot = on_grid
        binning = self.factors.binning
        assert binning is not None
        if self.decomposition is None:
            samples = samples_in_bins(codes, weights, EM_SMOOTHING)
            refined = refine_on_bins(samples, self.factors, binning, mixing=0.0, warns=False, **self.options)
            factors = refined.factors
            status = refined.status
        else:
            if (n_drawn := np.count_nonzero(weights)) < self.factors.rank:
                raise InvalidInputError(
                    f"A replicate has {n_drawn} different samples, too few for {self.factors.rank} components; "
                    'expected one for each. Use method="parametric", or a model of fewer components.'
                )
            with collected_warnings():  # those of the fit say it all
                solution = replace(self.decomposition, init=self.factors).solution(codes, weights)
            factors = solution.factors.to_numpy()
            status = solution.status
        factors = replace(factors, binning=binning)
        density = reconstruct_density(factors, method=self.density, clip_warning=np.inf)
        return Refitted(factors.weights, density.conditionals, _posterior(hot, factors), status)


def _posterior(hot: csr_array, factors: MixtureFactors) -> np.ndarray:
    """Posteriors (n_samples, rank) of codes."""
    return softmax(log_joint(hot, log_floored(factors.weights), log_floored(np.concatenate(factors.factors))), axis=1)
