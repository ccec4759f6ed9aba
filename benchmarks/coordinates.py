"""The coordinate of the splines: KL(true || learned) with the variables themselves, and with the choice of each.

Densities are fitted once, to the true posteriors of the paper's cases with ten variables, and judged on 2000 new
samples; means of two mixtures. In brackets, how many variables are given another coordinate.

    python benchmarks/coordinates.py
"""

from __future__ import annotations

import numpy as np

from tensorly_smp.datasets import make_smooth_mixture
from tensorly_smp.densities.logspline import background_share, smooth_conditionals
from tensorly_smp.densities.mixture_density import MixtureDensity
from tensorly_smp.likelihood.cells import Cells, choose_cells, curved_cells
from tensorly_smp.likelihood.steps import CellSamples, CellStatistics, on_best_cells

KINDS = ("gaussian", "gmm", "gamma", "laplace")
N_VARIABLES, N_NEW, N_TRUTHS = 10, 2000, 2


def density(on_grid: CellStatistics, posterior: np.ndarray) -> MixtureDensity:
    """Of one M-step from the posteriors, penalties by restricted likelihood."""
    _, mixture = on_grid.choose(on_grid.counts_from_posterior(posterior), "reml")
    conditionals = smooth_conditionals(on_grid.cells, mixture, background_share(posterior.sum(axis=0)))
    return MixtureDensity(np.exp(mixture.log_weights), conditionals, tuple(range(N_VARIABLES)))


def measure(kind: str, rank: int, n_samples: int, seed: int) -> tuple[float, float, int]:
    """KL with the variables themselves and with the choice, and the number of other coordinates."""
    X, _, truth = make_smooth_mixture(kind, n_samples, N_VARIABLES, rank, random_state=seed)
    new, _ = truth.sample(N_NEW, random_state=1000 + seed)
    posterior, expected = truth.posterior(X), truth.logpdf(new)
    cells = choose_cells(X, rank)

    def on_other(chosen: Cells) -> CellSamples:
        return CellSamples.assign_to_grid(X, chosen)

    plain = on_other(cells)
    best, _ = on_best_cells(plain, curved_cells(cells, X, rank), on_other, posterior, "reml")
    before, after = (float(np.mean(expected - density(each, posterior).logpdf(new))) for each in (plain, best))
    return before, after, sum(not each.is_linear for each in best.cells.transforms)


def main() -> None:
    print("| components, samples | " + " | ".join(KINDS) + " |\n|" + "---|" * (1 + len(KINDS)))
    for rank in (5, 10):
        for n_samples in (1000, 5000):
            found = [np.mean([measure(k, rank, n_samples, s) for s in range(N_TRUTHS)], axis=0) for k in KINDS]
            row = " | ".join(f"{before:.3f}, {after:.3f} ({number:.1f})" for before, after, number in found)
            print(f"| {rank}, {n_samples} | {row} |", flush=True)


if __name__ == "__main__":
    main()
