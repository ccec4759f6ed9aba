"""The rooms of the decomposition one after the other, with all settings side by side; random models, and equal ones."""

from dataclasses import fields

import numpy as np
from hypothesis import strategies as st

from tensorly_smp._support.checks import to_numpy
from tensorly_smp.codes.binning import Binning
from tensorly_smp.decomposition.problem import SolverOptions, as_problem
from tensorly_smp.decomposition.solver import coupled_simplex_parafac
from tensorly_smp.densities.conditionals import NO_BOUNDS
from tensorly_smp.densities.smooth import log_spline_conditionals
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.splines.basis import LINEAR

OF_PROBLEM = ("modes", "variables", "loss", "weights", "sample_weight", "samples", "form")


def solved(data, rank, **settings):
    """The solution; settings are those of SolverOptions, as_problem and coupled_simplex_parafac."""
    names = [field.name for field in fields(SolverOptions)]
    options = SolverOptions(**{name: settings.pop(name) for name in names if name in settings})
    of_problem = {name: settings.pop(name) for name in OF_PROBLEM if name in settings}
    problem = as_problem(data, rank, options=options, **of_problem)
    return coupled_simplex_parafac(problem, rank, options=options, **settings)


def interrupting_after(n_calls):
    """A callback that raises KeyboardInterrupt at this call."""
    calls = []

    def callback(cp_tensor, loss):
        calls.append(loss)
        if len(calls) == n_calls:
            raise KeyboardInterrupt

    return callback


def random_model(n_bins, rank, seed=0, names=None):
    """Factors of any columns, with no component nearly empty."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(rank, 5.0))
    factors = [rng.dirichlet(np.ones(size), size=rank).T for size in n_bins]
    return MixtureFactors(weights, factors, None if names is None else Binning.from_n_bins(n_bins, names))


@st.composite
def models_of_all_kinds(draw, sizes, most_components):
    """Models that are degenerate in one way, in some of their variables, and those that are not."""
    n_bins, rank = draw(sizes), draw(st.integers(1, most_components))
    model = random_model(n_bins, rank, draw(st.integers(0, 99)))
    weights, factors = model.weights, [a.copy() for a in model.factors]
    kind = draw(st.sampled_from(["generic", "equal", "mean", "empty", "constant", "zeros"]))
    if kind == "empty" and rank > 1:
        weights = np.append(weights[1:] / weights[1:].sum(), 0.0)
    for n in draw(st.lists(st.integers(0, len(n_bins) - 1), unique=True)):
        if kind == "equal" and rank > 1:
            factors[n][:, 1] = factors[n][:, 0]
        elif kind == "mean" and rank > 2:
            factors[n][:, 2] = (factors[n][:, 0] + factors[n][:, 1]) / 2
        elif kind == "constant":
            factors[n][:] = factors[n][:, :1]
        elif kind == "zeros":
            factors[n][:] = np.eye(n_bins[n])[:, np.arange(rank) % n_bins[n]]
    return MixtureFactors(weights, factors)


def arrays(model):
    """Weights and factors of a model, or of the model of a solution, in NumPy."""
    model = model if isinstance(model, MixtureFactors) else model.factors
    return [to_numpy(a) for a in (model.weights, *model.factors)]


def assert_same(first, second, **tolerance):
    """Two models, or solutions, have the same weights and factors; to the last bit without a tolerance."""
    for a, b in zip(arrays(first), arrays(second), strict=True):
        np.testing.assert_allclose(a, b, **(tolerance or {"rtol": 0}))


def nearly_equal(model, first, second, variables, share=0.01):
    """The model in which a component has nearly the columns of another one, in some variables."""
    factors = [a.copy() for a in model.factors]
    for n in variables:
        factors[n][:, second] = (1 - share) * factors[n][:, first] + share * factors[n][:, second]
    return MixtureFactors(model.weights, factors)


def smooth_densities(basis, coefficients, low, high, share, bounds=NO_BOUNDS, transform=LINEAR):
    """Log-spline densities of one variable."""
    ends = np.array([[low], [high]])
    return log_spline_conditionals(basis, coefficients[:, None], *ends, share, [bounds], [transform])[0]
