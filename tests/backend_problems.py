"""Small problems for the tests of backends: of few shapes, since JAX compiles once for each."""

import warnings

import numpy as np
import tensorly as tl
from hypothesis import HealthCheck, settings
from rooms import solved

from tensorly_smp.codes.encoding import Codes
from tensorly_smp.exceptions import ConvergenceWarning
from tensorly_smp.factors.blocks import LOSSES
from tensorly_smp.factors.mixture_factors import MixtureFactors

# Every variable is in as many triples and has as many bins; there are fewer components.
MODES = [(0, 1, 2), (3, 0, 1), (0, 2, 3), (1, 2, 3)]
N_BINS = (4, 4, 4, 4)
#: Without extrapolation, which enlarges rounding.
FEW_SWEEPS = {"modes": None, "n_iter_max": 3, "extrapolate": False}
#: Losses, which are solved in ways of their own.
EVERY_LOSS = list(LOSSES)
#: Block solvers by loss and name, the default first.
SOLVERS = {name: {solver.name: solver for solver in loss.solvers} for name, loss in LOSSES.items()}

#: For tests that take examples of hypothesis and a backend, which is the same one for all of them.
EVERY_EXAMPLE = settings(
    max_examples=8, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


def tensor(array, dtype):
    return tl.tensor(np.asarray(array), dtype=getattr(tl.backend, dtype))


def make_arrays():
    rng = np.random.default_rng(0)
    return [rng.random([N_BINS[n] for n in mode]) for mode in MODES]


def make_init():
    rng = np.random.default_rng(1)
    return MixtureFactors(rng.dirichlet(np.ones(3)), [rng.dirichlet(np.ones(size), 3).T for size in N_BINS])


def solve(data, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return solved(data, 3, **{"modes": MODES, "init": "random", "random_state": 0, **options})


def make_codes(missing, weighted):
    """Codes of four variables in as many bins, and weights of the samples or None."""
    rng = np.random.default_rng(0)
    values = rng.binomial(3, 0.2 + 0.6 * rng.integers(0, 2, (200, 1)), (200, len(N_BINS)))
    values[rng.random(values.shape) < missing] = -1
    return Codes.from_array(values, n_bins=N_BINS), rng.random(200) if weighted else None


def parts(factors):
    return [factors.weights, *factors.factors]


def every_kind(device):
    """Data of the kinds that are solved in ways of their own."""
    codes, sample_weight = make_codes(0.4, True)
    more = {"modes": None, "device": device, "sample_weight": sample_weight, "n_iter_max": 5}
    for loss in EVERY_LOSS:
        yield codes, {"loss": loss, "form": "counted", **more}
