"""Exact histograms of a known mixture: do random starts find its weights and factors again?

For 3 to 6 variables, both losses and every block solver: ten random starts of a few sweeps each, the lowest of them run
to its end, with the default tolerance. Prints the error of `metrics.factor_error`, the largest over the truths, beside
what is asked of the solver, and the sweeps and seconds of the slowest.
"""

import time
import warnings

import numpy as np

from tensorly_smp.decomposition.problem import SolverOptions
from tensorly_smp.decomposition.solver import coupled_simplex_parafac
from tensorly_smp.exceptions import ConvergenceWarning, EmptyComponentWarning
from tensorly_smp.factors.blocks import LOSSES
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.metrics import factor_error

#: Variables, bins, rank; all within the bounds of `max_identifiable_rank`.
SIZES = [(3, 4, 2), (3, 5, 4), (4, 4, 3), (5, 4, 4), (6, 5, 4)]
N_STARTS, N_SCREEN = 10, 30
#: Sweeps at most, truths and the error that is asked for.
DEFAULT, MIRROR = (5000, 2, 1e-4), (6000, 1, 1e-3)


def make_truth(n_variables, n_bins, rank, seed):
    rng = np.random.default_rng([n_variables, n_bins, rank, seed])
    columns = [rng.dirichlet(np.ones(n_bins), rank).T for _ in range(n_variables)]
    return MixtureFactors(rng.dirichlet(np.full(rank, 10.0)), columns)


def recover(truth, **options):
    """Error, sweeps, seconds and how it ended, of the best of the random starts."""
    marginals, n_iter_max = truth.to_marginals(), options.pop("n_iter_max")
    began = time.perf_counter()
    starts = coupled_simplex_parafac(
        marginals, truth.rank, init="random", n_init=N_STARTS, n_iter_max=N_SCREEN, random_state=0, **options
    )
    solution = coupled_simplex_parafac(marginals, truth.rank, init=starts.factors, n_iter_max=n_iter_max, **options)
    seconds = time.perf_counter() - began
    return factor_error(solution.factors, truth), solution.trace.n_sweeps, seconds, solution.status.name.lower()


def main():
    # Starts that are cut short after a few sweeps have not converged, and some have lost a component.
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", EmptyComponentWarning)
    print(f"{'N  I  R':<9}{'loss':<11}{'solver':<20}{'error':>8}{'asked':>8}{'':>5}{'sweeps':>8}{'seconds':>9}  ended")
    for size in SIZES:
        for loss, kind in LOSSES.items():
            for solver in (solver.name for solver in kind.solvers):
                n_iter_max, n_truths, asked = MIRROR if solver == "mirror" else DEFAULT
                truths = [make_truth(*size, seed) for seed in range(n_truths)]
                options = SolverOptions(solver=solver)
                runs = [recover(truth, loss=loss, options=options, n_iter_max=n_iter_max) for truth in truths]
                error, sweeps, seconds = (max(run[i] for run in runs) for i in range(3))
                ended = ", ".join(sorted({run[3] for run in runs}))
                verdict = "yes" if error <= asked else "NO"
                label = "  ".join(map(str, size))
                row = f"{label:<9}{loss:<11}{solver:<20}{error:8.0e}{asked:8.0e}{verdict:>5}{sweeps:8d}{seconds:9.1f}"
                print(f"{row}  {ended}", flush=True)


if __name__ == "__main__":
    main()
