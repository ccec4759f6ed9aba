"""KL(true || learned) of penalized log-splines by criterion of the penalty, number of basis functions and background.

Measurements behind the docstring of choose_penalties, N_BASIS in likelihood and the background in densities. The
densities are fitted
to the true posteriors of the paper's four cases, so that they are all that is learned: ten variables, five components,
in nats per sample on 2000 new points, mean of two truths. Takes two minutes: ``python
benchmarks/penalty_criteria.py`` (or with the numbers of samples as arguments).
"""

import sys
import time
from dataclasses import replace

import numpy as np

from tensorly_smp.datasets import make_smooth_mixture
from tensorly_smp.densities import logspline
from tensorly_smp.densities.mixture_density import MixtureDensity
from tensorly_smp.likelihood.cells import choose_cells
from tensorly_smp.likelihood.steps import CellSamples
from tensorly_smp.splines.basis import spline_basis

KINDS = ("gaussian", "gmm", "gamma", "laplace")
N_VARIABLES, RANK, N_TRUTHS, N_NEW = 10, 5, 2, 2000
# (criterion, number of basis functions); None: as choose_cells chooses it
SETTINGS = [("reml", None), ("aic", None), ("bic", None), ("reml", 40), ("reml", 80), ("reml", 160)]
# (samples, spread) of the background
BACKGROUNDS = [(1e-4, 1.0), (0.5, 2.0), (0.5, 3.0), (1.0, 3.0), (2.0, 3.0)]


def densities(values, cells, posterior, criterion):
    """Density of all variables, one M-step from the posteriors with the penalties that the criterion chooses."""
    samples = CellSamples.assign_to_grid(values, cells)
    _, mixture = samples.choose(samples.counts_from_posterior(posterior), criterion)
    share = logspline.background_share(posterior.sum(axis=0))
    conditionals = logspline.smooth_conditionals(cells, mixture, share)
    return MixtureDensity(np.exp(mixture.log_weights), conditionals, tuple(range(values.shape[1])))


def measure(kind, n_samples, seed, settings):
    """KL and seconds of every one of the settings."""
    X, _, mixture = make_smooth_mixture(kind, n_samples, N_VARIABLES, RANK, random_state=seed)
    new, _ = mixture.sample(N_NEW, random_state=seed + 1000)
    posterior, truth = mixture.posterior(X), mixture.logpdf(new)
    on_grid = choose_cells(X, RANK)
    results = []
    for criterion, n_basis in settings:
        cells = on_grid if n_basis is None else replace(on_grid, basis=spline_basis(n_basis))
        start = time.perf_counter()
        density = densities(X, cells, posterior, criterion)
        results.append((np.mean(truth - density.logpdf(new)), time.perf_counter() - start))
    return results


def main(sizes):
    usual = logspline.BACKGROUND_SAMPLES, logspline.BACKGROUND_SPREAD
    for n_samples in sizes:
        results = measured(n_samples, SETTINGS)
        print(f"\n{n_samples} samples\ncriterion  basis " + " ".join(f"{kind:>9}" for kind in KINDS) + "   seconds")
        for (criterion, n_basis), row in zip(SETTINGS, results, strict=True):
            columns = " ".join(f"{value:9.3f}" for value in row[0])
            print(f"{criterion:9} {n_basis or 'on_grid':>6} {columns} {row[1].mean():9.2f}")
        print("background, samples x spread")
        for logspline.BACKGROUND_SAMPLES, logspline.BACKGROUND_SPREAD in BACKGROUNDS:
            columns = " ".join(f"{value:9.4f}" for value in measured(n_samples, SETTINGS[:1])[0, 0])
            print(f"{logspline.BACKGROUND_SAMPLES:8g} x {logspline.BACKGROUND_SPREAD:g}    {columns}")
        logspline.BACKGROUND_SAMPLES, logspline.BACKGROUND_SPREAD = usual


def measured(n_samples, settings):
    """Means over truths (n_settings, 2, n_kinds) of KL and seconds."""
    results = [[measure(kind, n_samples, seed, settings) for seed in range(N_TRUTHS)] for kind in KINDS]
    return np.mean(results, axis=1).transpose(1, 2, 0)


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [1000, 5000])
