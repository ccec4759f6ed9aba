"""From factors to a density: what is accepted, what is warned of, and that nothing is lost on the way."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorly_smp.codes.binning import Binning, choose_binning
from tensorly_smp.densities.reconstruct import reconstruct_density
from tensorly_smp.densities.sinc import sinc_conditionals
from tensorly_smp.exceptions import ClippedMassWarning, InvalidInputError, InvalidTypeError, NonUniformBinsError
from tensorly_smp.factors.mixture_factors import MixtureFactors

NO_WARNING = 10.0  # more than any mass that can be clipped in these tests


def random_factors(seed, n_bins=(5, 9, 14), rank=3, concentration=0.5):
    rng = np.random.default_rng(seed)
    factors = tuple(rng.dirichlet(np.full(size, concentration), rank).T for size in n_bins)
    edges = tuple(rng.uniform(-5, 5) + rng.uniform(0.1, 3) * np.arange(size + 1) for size in n_bins)
    return MixtureFactors(rng.dirichlet(np.ones(rank)), factors, Binning(edges, ("a", "b", "c")))


def smooth_factors(n_bins=12):
    column = np.exp(-0.5 * ((np.arange(n_bins) - 5) / 2.0) ** 2)
    binning = Binning((np.linspace(0, 6, n_bins + 1),) * 3, ("a", "b", "c"))
    return MixtureFactors(np.ones(1), ((column / column.sum())[:, None],) * 3, binning)


@pytest.mark.parametrize("method", ["sinc", "histogram"])
@given(seed=st.integers(0, 10**6), rank=st.integers(1, 4))
def test_keeps_the_bin_probabilities_roughly(method, seed, rank):
    factors = random_factors(seed, rank=rank, concentration=5.0)
    density = reconstruct_density(factors, method, clip_warning=NO_WARNING)
    np.testing.assert_allclose(density.weights, factors.weights)
    for name, edges, factor in zip("abc", factors.binning.edges, factors.factors, strict=True):
        mass = np.diff(density.cdf_1d(edges, name, "all"), axis=0)
        np.testing.assert_allclose(mass, factor, atol=0.01 if method == "histogram" else 0.1)


def test_clipped_mass_is_reported():
    factors = random_factors(0)
    density = reconstruct_density(factors, clip_warning=NO_WARNING)
    assert density.clipped_mass.shape == (3, 3)
    pairs = zip(factors.binning.edges, factors.factors, strict=True)
    np.testing.assert_allclose(density.clipped_mass, [sinc_conditionals(*pair)[1] for pair in pairs])
    np.testing.assert_array_equal(density.marginal(["c", "a"]).clipped_mass, density.clipped_mass[[2, 0]])
    assert reconstruct_density(factors, "histogram").clipped_mass is None


def test_warning_names_variables_and_components():
    factors = smooth_factors()
    reconstruct_density(factors)  # without a warning
    narrow = np.stack([factors.factors[0][:, 0], np.eye(12)[3]], axis=1)
    smooth = np.repeat(factors.factors[0], 2, axis=1)
    factors = MixtureFactors(np.array([0.5, 0.5]), (smooth, narrow, smooth), factors.binning)
    with pytest.warns(ClippedMassWarning, match=r"1 of 6 .*'b' component 1 \(\d\d%\)") as caught:
        reconstruct_density(factors)
    assert "'a'" not in str(caught[0].message)
    assert caught[0].filename == __file__
    with pytest.warns(ClippedMassWarning, match="6 of 6 .*component 1"):
        reconstruct_density(factors, clip_warning=1e-9)


def test_single_precision():
    factors = random_factors(1, concentration=3.0)
    single = MixtureFactors(
        factors.weights.astype(np.float32), tuple(a.astype(np.float32) for a in factors.factors), factors.binning
    )
    density = reconstruct_density(single, clip_warning=NO_WARNING)
    np.testing.assert_allclose(density.cdf_1d([-np.inf, 1e9], "a", "all"), [[0] * 3, [1] * 3], atol=1e-12)
    reference = reconstruct_density(factors, clip_warning=NO_WARNING)
    np.testing.assert_allclose(density.mean(), reference.mean(), rtol=1e-5, atol=1e-5)


def test_edges_from_the_argument_and_whatever_has_factors():
    factors = smooth_factors()
    bare = MixtureFactors(factors.weights, factors.factors)
    with pytest.raises(InvalidInputError, match="pass binning"):
        reconstruct_density(bare)
    other = Binning((np.linspace(0, 60, 13),) * 3, ("p", "q", "r"))
    density = reconstruct_density(SimpleNamespace(factors=factors), binning=other)
    assert density.variables == ("p", "q", "r")
    np.testing.assert_allclose(density.mean(), 10 * reconstruct_density(bare, binning=factors.binning).mean())
    with pytest.raises(InvalidInputError, match="bins"):
        reconstruct_density(factors, binning=Binning((np.arange(5.0),) * 3, ("p", "q", "r")))


def test_unequal_widths_are_for_histograms():
    factors = smooth_factors()
    edges = factors.binning.edges[0] ** 2
    squared = MixtureFactors(factors.weights, factors.factors, Binning((edges,) * 3, ("a", "b", "c")))
    with pytest.raises(NonUniformBinsError, match="histogram"):
        reconstruct_density(squared)
    density = reconstruct_density(squared, "histogram")
    np.testing.assert_allclose(np.diff(density.cdf_1d(edges, "a")), factors.factors[0][:, 0], atol=0.01)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        *(({"solution": wrong}, InvalidTypeError, "expected MixtureFactors") for wrong in (3, None, np.eye(3))),
        ({"solution": SimpleNamespace(factors=[np.eye(3)])}, InvalidTypeError, "expected MixtureFactors"),
        ({"binning": 5}, InvalidTypeError, "binning is int"),
        ({"clip_warning": None}, InvalidTypeError, "clip_warning is None"),
        ({"clip_warning": -0.1}, InvalidInputError, "clip_warning is -0.1; expected a number in"),
        ({"method": "kernel"}, InvalidInputError, "'sinc', 'histogram', 'logspline'"),
    ],
)
def test_refusals(options, error, message):
    with pytest.raises(error, match=message):
        reconstruct_density(**{"solution": smooth_factors(), **options})


def test_a_thousand_variables_fit_in_memory():
    rng = np.random.default_rng(0)
    columns = tuple(rng.dirichlet(np.full(15, 5.0), 10).T for _ in range(20))
    binning = Binning((np.linspace(0, 1, 16),) * 20, tuple(range(20)))
    density = reconstruct_density(MixtureFactors(np.full(10, 0.1), columns, binning), clip_warning=NO_WARNING)
    size = sum(each.left.base.nbytes + each._cumulative.nbytes for each in density.conditionals)
    assert size / 20 * 1000 < 100e6


def test_draws_from_log_splines_of_samples_with_a_discrete_variable():
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=400)
    X = np.column_stack([rng.normal(size=(400, 2)) + 4 * labels[:, None], np.array([0.0, 100.0])[labels]])
    factors = MixtureFactors(np.full(2, 0.5), [np.eye(2)] * 3, choose_binning(X, 2))
    density = reconstruct_density(factors, "logspline", samples=X, posterior=np.eye(2)[labels])
    drawn, _ = density.sample(500, random_state=0)
    assert np.unique(drawn[:, 2]).tolist() == [0.0, 100.0]
    np.testing.assert_allclose(density.impute(np.full((1, 3), np.nan))[0, 2], X[:, 2].mean(), rtol=0.02)
