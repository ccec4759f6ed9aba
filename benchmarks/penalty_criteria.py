"""KL(true || learned) of penalized log-splines by criterion of the penalty and by number of basis functions.

Measurements behind the docstring of choose_penalties and N_BASIS in likelihood. The densities are fitted
to the true posteriors of the paper's four cases, so that they are all that is learned: ten variables, five components,
in nats per sample on 2000 new points, mean of two truths. Takes under two minutes: ``python
benchmarks/penalty_criteria.py`` (or with the numbers of samples as arguments).
"""

import sys
import time
from dataclasses import replace

import numpy as np

from tensorly_smp.codes.binning import choose_binning
from tensorly_smp.datasets import make_smooth_mixture
from tensorly_smp.densities.logspline import background_share, smooth_conditionals
from tensorly_smp.densities.mixture_density import MixtureDensity
from tensorly_smp.likelihood.cell_samples import CellSamples
from tensorly_smp.likelihood.cells import lay_cells
from tensorly_smp.likelihood.spline_basis import spline_basis

KINDS = ("gaussian", "gmm", "gamma", "laplace")
N_VARIABLES, RANK, N_TRUTHS, N_NEW = 10, 5, 2, 2000
# (criterion, number of basis functions); None: as lay_cells chooses it
SETTINGS = [("reml", None), ("aic", None), ("bic", None), ("reml", 40), ("reml", 80), ("reml", 160)]


def densities(values, cells, posterior, criterion):
    """Density of all variables, one M-step from the posteriors with the penalties that the criterion chooses."""
    samples = CellSamples.lay(values, cells)
    _, mixture = samples.choose(samples.given(posterior), criterion)
    conditionals = smooth_conditionals(cells, mixture, background_share(posterior.sum(axis=0)))
    return MixtureDensity(np.exp(mixture.log_weights), conditionals, tuple(range(values.shape[1])))


def measure(kind, n_samples, seed):
    """KL and seconds of every entry of SETTINGS."""
    X, _, mixture = make_smooth_mixture(kind, n_samples, N_VARIABLES, RANK, random_state=seed)
    new, _ = mixture.sample(N_NEW, random_state=seed + 1000)
    posterior, truth = mixture.posterior(X), mixture.logpdf(new)
    laid = lay_cells(X, RANK, choose_binning(X).edges)
    results = []
    for criterion, n_basis in SETTINGS:
        cells = laid if n_basis is None else replace(laid, basis=spline_basis(n_basis))
        start = time.perf_counter()
        density = densities(X, cells, posterior, criterion)
        results.append((np.mean(truth - density.logpdf(new)), time.perf_counter() - start))
    return results


def main(sizes):
    for n_samples in sizes:
        results = np.array([[measure(kind, n_samples, seed) for seed in range(N_TRUTHS)] for kind in KINDS])
        print(f"\n{n_samples} samples\ncriterion  basis " + " ".join(f"{kind:>9}" for kind in KINDS) + "   seconds")
        for (criterion, n_basis), row in zip(SETTINGS, results.mean(axis=1).transpose(1, 2, 0), strict=True):
            columns = " ".join(f"{value:9.3f}" for value in row[0])
            print(f"{criterion:9} {n_basis or 'laid':>6} {columns} {row[1].mean():9.2f}")


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [1000, 5000])
