"""Densities of the sources, fitted from posteriors: the one place where unmixing meets the smoothed EM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensorly_smp.dependence.unmixing import LogDensities, source_densities
from tensorly_smp.exceptions import InvalidInputError
from tensorly_smp.likelihood.cell_samples import CellSamples, SmoothMixture, on_best_cells
from tensorly_smp.likelihood.cells import Cells, choose_cells, combined_cells, curved_cells
from tensorly_smp.likelihood.smooth_em import SmoothFit, smooth_em

#: Gain of a pass, in nats per sample, below which EM stops between two updates of the matrix.
PASS_TOL = 1e-5


@dataclass(frozen=True, eq=False)
class SourceFit:
    """A product mixture of the sources.

    Attributes
    ----------
    posterior : ndarray (n_samples, rank)
    log_weights : ndarray (rank,)
    densities : list of LogDensities
        Log-densities of the sources.
    other : ndarray (n_samples, rank) or None
        Log-probabilities of the discrete variables of every sample in every component.
    log_likelihood : float
        Weighted sum over samples, of the sources.
    n_parameters : float
        Effective number, of weights and densities.
    cells : Cells
    mixture : SmoothMixture
    penalty : ndarray (n, rank)
        Per sample of the component.
    kinds : tuple of int (n,)
        Which of the coordinates to choose from every source has.
    """

    posterior: np.ndarray
    log_weights: np.ndarray
    densities: list[LogDensities]
    other: np.ndarray | None
    log_likelihood: float
    n_parameters: float
    cells: Cells
    mixture: SmoothMixture
    penalty: np.ndarray
    kinds: tuple[int, ...]

    def log_joint(self, sources: np.ndarray, categories: np.ndarray) -> np.ndarray:
        """Logarithm of w_r f(z | r), (n_samples, rank), of other samples."""
        joint = self.log_weights + sum(
            each.at(column)[0] for each, column in zip(self.densities, sources.T, strict=True)
        )
        other = _log_categories(self.cells, self.mixture, np.concatenate([sources, categories], axis=1))
        return np.asarray(joint if other is None else joint + other)


def fit_sources(
    sources: np.ndarray,
    categories: np.ndarray,
    edges: Sequence[np.ndarray],
    posterior: np.ndarray,
    weights: np.ndarray,
    criterion: str,
    n_passes: int,
    before: SourceFit | None = None,
) -> SourceFit:
    """Fit a product mixture of sources and discrete variables, from posteriors on.

    Parameters
    ----------
    sources : ndarray (n_samples, n)
    categories : ndarray (n_samples, n_discrete)
        Values of the discrete variables, NaN where missing.
    edges : sequence of ndarray (n_discrete,)
        Bins of the discrete variables.
    posterior : ndarray (n_samples, rank)
    weights : ndarray (n_samples,)
    criterion : {"reml", "aic", "bic"}
        Criterion by which penalties are chosen.
    n_passes : int
        Passes of EM, at most.
    before : SourceFit, optional
        Fit of nearly the same sources: its transforms are kept, and penalties are searched near its own.
    """
    values = np.concatenate([sources, categories], axis=1)
    rank = posterior.shape[1]
    n = sources.shape[1]
    # Sources keep no histogram, so that their bins are not looked at.
    bins = [np.array([0.0, 1.0])] * n + list(edges)
    cells = choose_cells(values, rank, bins, range(n, values.shape[1]), None, weights)
    _refuse_constant(cells, n)
    choices = [cells, *curved_cells(cells, values, rank, None, weights)]

    def on_cells(chosen: Cells) -> CellSamples:
        return CellSamples.assign_to_grid(values, chosen, weights)

    if before is None:
        samples, near = on_best_cells(on_cells(cells), choices[1:], on_cells, posterior, criterion)
        kinds = tuple(_kind(samples.cells, choices, i) for i in range(n))
    else:
        kinds = before.kinds
        samples = on_cells(combined_cells(choices, dict(enumerate(kinds))))
        near = None
        if samples.cells.basis is before.cells.basis:
            totals = samples.shares(samples.counts_from_posterior(posterior).counts)[1]
            near = (before.penalty.ravel() * totals, before.mixture)
    fit: SmoothFit = smooth_em(
        samples, posterior, criterion=criterion, near=near, n_rounds=1, n_iter_max=n_passes, tol=PASS_TOL
    )
    return SourceFit(
        posterior=fit.posterior,
        log_weights=fit.mixture.log_weights,
        densities=source_densities(fit.cells, fit.mixture),
        other=_log_categories(fit.cells, fit.mixture, values),
        log_likelihood=fit.log_likelihood,
        n_parameters=fit.n_parameters,
        cells=fit.cells,
        mixture=fit.mixture,
        penalty=fit.penalty,
        kinds=kinds,
    )


def _refuse_constant(cells: Cells, n_sources: int) -> None:
    if any(i < n_sources for i in cells.discrete):
        raise InvalidInputError(
            "A source has a single value, but for rounding: some variable has values too far from all others. Set them "
            "to NaN, or rescale them."
        )


def _kind(cells: Cells, choices: Sequence[Cells], source: int) -> int:
    """Number of the choice whose transform a source has."""
    transforms = [each.transforms[source] for each in choices]
    return transforms.index(cells.transforms[source])


def _log_categories(cells: Cells, mixture: SmoothMixture, values: np.ndarray) -> np.ndarray | None:
    """Log-probabilities (n_samples, rank) of the discrete variables, missing ones left out."""
    if not cells.discrete:
        return None
    total = np.zeros((len(values), mixture.rank))
    tables = cells.split(mixture.tables)
    for n, edges, table in zip(cells.discrete, cells.edges, tables, strict=True):
        present = ~np.isnan(values[:, n])
        total[present] += table[np.searchsorted(edges[1:-1], values[present, n], side="right")]
    return total
