"""Log-spline densities from the probabilities of wide bins: where in a bin its samples are is filled in by EM."""

from __future__ import annotations

import numpy as np

from tensorly_smp.splines.log_spline import fit_log_splines
from tensorly_smp.splines.penalties import PENALTIES, choose_penalties
from tensorly_smp.splines.spline_basis import MARGIN, N_BASIS, SplineBasis, spline_basis

N_ROUNDS = 4
N_PASSES = 10


def ungroup(
    edges: np.ndarray, probabilities: np.ndarray, n_samples: np.ndarray, criterion: str = "reml"
) -> tuple[SplineBasis, np.ndarray, float, float]:
    """Smooth densities of one variable whose bins have (about) these probabilities.

    The model of Eilers (2007, "Ill-posed problems with counts, the composite link model and penalized likelihood"):
    bins are sums of cells of a fine grid, on which the density is a penalized log-spline. It is fitted by EM: samples
    of a bin are shared among its cells as the density of the pass before has it.

    Parameters
    ----------
    edges : ndarray (n_bins + 1,)
        The outermost bins end where the values do: nothing is expected beyond them.
    probabilities : ndarray (n_bins, rank)
        Columns sum to one.
    n_samples : ndarray (rank,)
        Behind the probabilities: the more, the closer they are followed.
    criterion : {"reml", "aic", "bic"}

    Returns
    -------
    basis : SplineBasis
    coefficients : ndarray (n_basis, rank)
    low, high : float
        Where the splines live: the range of the edges, and a margin to fall off in.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.stats import norm
    >>> from tensorly_smp.splines.ungrouping import ungroup
    >>> edges = np.linspace(-4.0, 4.0, 7)
    >>> probabilities = np.diff(norm.cdf([-np.inf, *edges[1:-1], np.inf]))[:, None]
    >>> basis, coefficients, low, high = ungroup(edges, probabilities, np.array([1e4]))
    >>> density = np.exp(basis.log_probabilities(coefficients)[:, 0]) * basis.n_cells / (high - low)
    >>> bool(np.abs(density - norm.pdf(low + (high - low) * basis.centers)).max() < 0.01)
    True
    """
    basis = spline_basis(N_BASIS)
    low = edges[0] - MARGIN * (edges[-1] - edges[0])
    high = edges[-1] + MARGIN * (edges[-1] - edges[0])
    overlap = _overlap(np.linspace(low, high, basis.n_cells + 1), edges)
    # Spread evenly at first, then blurred by the smoothest candidate: a Gaussian of the same moments.
    shares = overlap.T @ (probabilities / overlap.sum(axis=1)[:, None])
    coefficients = fit_log_splines(basis, shares, np.full(probabilities.shape[1], PENALTIES[-1]))
    penalty = np.full(probabilities.shape[1], PENALTIES[-1])
    for number in range(N_ROUNDS):
        for _ in range(N_PASSES):
            cells = np.exp(basis.log_probabilities(coefficients))
            shares = cells * (overlap.T @ (probabilities / np.maximum(overlap @ cells, 1e-300)))
            shares /= shares.sum(axis=0)
            coefficients = fit_log_splines(basis, shares, penalty, coefficients, n_steps=1)
        if number < N_ROUNDS - 1:
            penalty, coefficients = choose_penalties(basis, shares, n_samples, criterion=criterion)
    return basis, coefficients, float(low), float(high)


def _overlap(cells: np.ndarray, bins: np.ndarray) -> np.ndarray:
    """Share (n_bins, n_cells) of every cell that lies in every bin."""
    start = np.maximum(bins[:-1, None], cells[None, :-1])
    end = np.minimum(bins[1:, None], cells[None, 1:])
    return np.clip(end - start, 0.0, None) / np.diff(cells)
