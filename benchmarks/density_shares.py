"""KL(true || learned) of sinc densities: measurements behind the constants of densities/grid.py and band_limited.py.

Bin probabilities come from the true posteriors, so that the densities are all that is learned. Ten variables, five
components, 15 uniform bins over the range of the samples. Takes some minutes: ``python benchmarks/density_shares.py``
(or with the numbers of samples as arguments).
"""

import sys

import numpy as np

from tensorly_smp.codes.binning import Binning
from tensorly_smp.datasets import make_smooth_mixture
from tensorly_smp.densities.band_limited import POLYGON_SHARE, sinc_conditionals
from tensorly_smp.densities.grid import BACKGROUND_SHARE
from tensorly_smp.densities.histogram import histogram_conditionals
from tensorly_smp.densities.mixture_density import MixtureDensity

KINDS = ("gaussian", "gmm", "gamma", "laplace")
N_BINS, N_TRUTHS, N_TEST = 15, 2, 10_000
# (share of the polygon, share of the background); None: histogram
SHARES = [(share, BACKGROUND_SHARE) for share in (0.0, 0.3, 0.5, POLYGON_SHARE, 0.9)]
SHARES += [(POLYGON_SHARE, share) for share in (0.001, 0.05)] + [(None, BACKGROUND_SHARE)]


def bin_probabilities(values, edges, posterior):
    """Share of every bin given each component (n_bins, rank), samples weighted by their true posterior."""
    codes = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    counts = np.stack([np.bincount(codes, column, len(edges) - 1) for column in posterior.T], axis=1)
    return counts / counts.sum(axis=0)


def measure(kind, n_samples, seed):
    """KL for every entry of SHARES, and the clipped masses (n_variables, rank)."""
    X, _, mixture = make_smooth_mixture(kind, n_samples, 10, 5, random_state=seed)
    test, _ = mixture.sample(N_TEST, random_state=seed + 1000)
    posterior, truth = mixture.posterior(X), mixture.logpdf(test)
    edges = [np.linspace(column.min(), column.max(), N_BINS + 1) for column in X.T]
    factors = [bin_probabilities(*pair, posterior) for pair in zip(X.T, edges, strict=True)]
    names = Binning(tuple(edges)).variables
    losses = []
    for polygon, background in SHARES:
        if polygon is None:
            conditionals = tuple(map(histogram_conditionals, edges, factors))
        else:
            made = [sinc_conditionals(*pair, polygon, background) for pair in zip(edges, factors, strict=True)]
            conditionals, clipped = (tuple(part) for part in zip(*made, strict=True))
        density = MixtureDensity(posterior.mean(axis=0), conditionals, names)
        losses.append(np.mean(truth - density.logpdf(test)))
        if polygon == POLYGON_SHARE:
            masses = np.stack(clipped)
    return np.array(losses), masses


def main(sizes):
    for n_samples in sizes:
        results = {kind: [measure(kind, n_samples, seed) for seed in range(N_TRUTHS)] for kind in KINDS}
        print(f"\n{n_samples} samples\npolygon background " + " ".join(f"{kind:>9}" for kind in KINDS))
        losses = np.stack([np.mean([loss for loss, _ in results[kind]], axis=0) for kind in KINDS], axis=1)
        for (polygon, background), row in zip(SHARES, losses, strict=True):
            label = "histogram" if polygon is None else f"{polygon:9.1f}"
            print(f"{label} {background:8.3f} " + " ".join(f"{value:9.3f}" for value in row))
        masses = {kind: np.stack([mass for _, mass in results[kind]]) for kind in KINDS}
        for name, summary in (("mean", np.mean), ("95 %", lambda mass: np.quantile(mass, 0.95)), ("most", np.max)):
            print(f"clipped mass, {name} " + " ".join(f"{summary(masses[kind]):9.3f}" for kind in KINDS))


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [200, 1000, 5000, 50_000])
