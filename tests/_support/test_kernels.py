"""Compiled kernels against their plain twins, and when they are used."""

import importlib.util
import sys
import warnings
from math import inf
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorly_smp as smp
from tensorly_smp._support import kernels
from tensorly_smp.codes.encoding import PackedIndicators, indicator_matrix
from tensorly_smp.exceptions import CompiledKernelWarning
from tensorly_smp.splines.basis import SHAPES, spline_basis
from tensorly_smp.splines.log_spline import (
    CRITERIA,
    _by_kernel,
    choose_penalties,
    effective_parameters,
    fit_log_splines,
)

SEEDS = st.integers(0, 2**31)


def used_from(work):
    """Kernels from this much work on, in all threads: 0 for always, infinity for never."""
    return mock.patch.object(kernels, "LEAST_WORK", work)


def both(function):
    """Results of the plain code and of the kernels."""
    pytest.importorskip("numba")
    with used_from(inf):
        plain = function()
    with used_from(0.0):
        assert kernels.compiled(0.0) is not None
        return plain, function()


def test_exponentials():
    compiled = pytest.importorskip("tensorly_smp._support.compiled_kernels")
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-599.0, 599.0, 20_001), rng.standard_normal(20_000), [0.0, -0.0, 1e-300, -1e-20]])
    found = x.copy()
    compiled._exponentials(found, np.empty(len(x)), len(x) - 1)
    np.testing.assert_allclose(found[:-1], np.exp(x[:-1]), rtol=4e-16)
    assert found[-1] == x[-1]
    ends = np.array([-np.inf, -1e5, 1e5, np.inf])
    compiled._exponentials(ends, np.empty(4), 4)
    np.testing.assert_allclose(ends, np.exp([-600.0, -600.0, 600.0, 600.0]))


def histograms(seed, n_basis, n_densities, n_samples, shape=None):
    rng = np.random.default_rng(seed)
    basis = spline_basis(n_basis, shape)
    values = rng.gamma(rng.uniform(1, 5, n_densities), rng.uniform(0.02, 0.1, n_densities), (n_samples, n_densities))
    cells = np.minimum((values * basis.n_cells).astype(int), basis.n_cells - 1)
    counts = [np.bincount(column, minlength=basis.n_cells) for column in cells.T]
    return basis, np.transpose(counts) / n_samples


@settings(deadline=None)
@given(SEEDS, st.sampled_from([4, 5, 12, 40, 80]), st.integers(1, 20), st.integers(5, 500), st.sampled_from(SHAPES))
def test_log_splines(seed, n_basis, n_densities, n_samples, shape):
    basis, shares = histograms(seed, n_basis, n_densities, n_samples, shape)
    penalty = 10.0 ** np.random.default_rng(seed).uniform(-3, 3, n_densities)
    plain, fast = both(lambda: fit_log_splines(basis, shares, penalty))
    # Where there are no samples, F hardly depends on the densities; tails that are held straight least.
    np.testing.assert_allclose(
        np.exp(basis.log_probabilities(fast)),
        np.exp(basis.log_probabilities(plain)),
        **(dict(rtol=1e-5, atol=1e-7) if shape is None else dict(rtol=1e-3, atol=1e-5)),
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_penalties(criterion, shape):
    basis, shares = histograms(0, 80, 60, 400, shape)
    totals = np.random.default_rng(1).uniform(50, 400, 60)
    if shape is not None:  # some second differences are held
        assert (basis.bends @ fit_log_splines(basis, shares, np.ones(60)) > -1e-6).any(axis=0).sum() > 30
    plain, fast = both(lambda: choose_penalties(basis, shares, totals, criterion=criterion))
    # The criterion is flat at its peak, so that rounding moves the place of the peak.
    np.testing.assert_allclose(np.log(fast[0]), np.log(plain[0]), atol=0.05)
    np.testing.assert_allclose(
        np.exp(basis.log_probabilities(fast[1])), np.exp(basis.log_probabilities(plain[1])), rtol=1e-3, atol=1e-5
    )


@settings(deadline=None)
@given(SEEDS, st.sampled_from([4, 5, 12, 40, 80]), st.integers(1, 20))
def test_effective_parameters(seed, n_basis, n_densities):
    basis, shares = histograms(seed, n_basis, n_densities, 200)
    penalty = 10.0 ** np.random.default_rng(seed).uniform(-3, 3, n_densities)
    coefficients = fit_log_splines(basis, shares, penalty)
    plain, fast = both(lambda: effective_parameters(basis, coefficients, penalty))
    # With few basis functions and large penalties the matrices are singular to rounding.
    np.testing.assert_allclose(fast, plain, atol=1e-2)


def test_densities_without_a_positive_definite_hessian_are_left_to_plain_code():
    pytest.importorskip("numba")
    basis, shares = histograms(0, 12, 3, 100)
    penalty = np.array([0.1, -1e3, 0.1])
    data, start = basis.transposed @ shares, basis.gaussian(shares)
    ones = np.ones(3)
    for grid in (penalty[None], penalty * [[0.1], [1.0]]):
        for price in (ones, np.nan * ones):
            values = np.full(grid.shape, np.nan)
            with used_from(0.0):
                _, left = _by_kernel(basis, data, start, grid, ones, 5, 100.0 * ones, price, values)
            assert left.tolist() == [1]
            assert np.isfinite(values[-1, [0, 2]]).all()
    plain, fast = both(lambda: fit_log_splines(basis, shares, penalty, n_steps=1))
    np.testing.assert_allclose(fast, plain, rtol=1e-9)
    plain, fast = both(lambda: effective_parameters(basis, start, penalty))
    np.testing.assert_allclose(fast, plain, rtol=1e-9)


def test_fit_is_the_same():
    X = smp.datasets.make_smooth_mixture("laplace", 500, 6, 2, random_state=0).X
    X[::7, 1] = np.nan
    options = dict(n_components=2, loss="frobenius", n_init=1, random_state=0)
    plain, fast = both(lambda: smp.SmoothProductMixture(**options).fit(X))
    assert fast.score(X) == pytest.approx(plain.score(X), rel=1e-8)


def test_small_problems_and_the_switch_use_plain_code(monkeypatch):
    assert kernels.compiled(kernels.LEAST_WORK / 2) is None
    with used_from(inf):
        assert kernels.compiled(1e300) is None
    monkeypatch.setenv("TENSORLY_SMP_FAST", "0")
    with used_from(0.0):
        assert kernels.compiled(1e300) is None


def test_without_numba_the_plain_code_is_used(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "tensorly_smp._support.compiled_kernels", raising=False)
    kernels._kernels.cache_clear()
    try:
        assert kernels.compiled(1e300) is None
    finally:
        kernels._kernels.cache_clear()


@pytest.fixture
def fresh():
    """As in a new process."""
    kernels._kernels.cache_clear()
    yield
    kernels._kernels.cache_clear()


def imported(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_damaged_files_of_the_cache(tmp_path, suffix):
    pytest.importorskip("numba")
    path = tmp_path / "twice.py"
    path.write_text("from numba import njit\n\n@njit(cache=True)\ndef twice(x):\n    return 2.0 * x\n")
    assert kernels.Kernels(imported(path)).twice(1.5) == 3.0
    (file,) = tmp_path.rglob(f"*.{suffix}")
    file.write_bytes(file.read_bytes()[:60])
    found = kernels.Kernels(imported(path))
    with (
        pytest.warns(CompiledKernelWarning, match="EOFError|UnpicklingError") as said,
        pytest.raises(kernels.KernelError),
    ):
        found.twice(1.5)
    assert str(file.parent) in str(said[0].message)
    with pytest.raises(kernels.KernelError):  # and no second warning
        found.twice(1.5)
    for each in file.parent.glob("*.nb?"):  # as the warning says
        each.unlink()
    assert kernels.Kernels(imported(path)).twice(1.5) == 3.0


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(
    ("broken", "error"),
    [("follow_penalties", EOFError("no input")), ("follow_penalties", OSError("no memory"))],
    ids=["damaged", "no memory"],
)
def test_a_kernel_that_cannot_be_compiled_is_replaced_by_plain_code(monkeypatch, broken, error):
    module = pytest.importorskip("tensorly_smp._support.compiled_kernels")
    X = smp.datasets.make_smooth_mixture("laplace", 300, 4, 2, random_state=0).X

    def fit():
        return smp.SmoothProductMixture(2, n_init=1, random_state=0).fit(X).score(X)

    def fail(*_):
        raise error

    with used_from(inf):
        plain = fit()
    monkeypatch.setattr(module, broken, fail)
    with used_from(0.0), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert fit() == pytest.approx(plain, rel=1e-7)
        assert fit() == pytest.approx(plain, rel=1e-12)  # without any kernel
        assert kernels.compiled(0.0) is None
    assert [each.category for each in caught] == [CompiledKernelWarning]
    assert type(error).__name__ in str(caught[0].message)
    assert caught[0].filename == __file__


@settings(max_examples=20)
@given(SEEDS)
def test_products_of_packed_indicators(seed):
    rng = np.random.default_rng(seed)
    sizes = tuple(rng.integers(1, 200, rng.integers(1, 6)).tolist())
    values = np.stack([rng.integers(-1, size, 25) for size in sizes], axis=1)
    packed = PackedIndicators(values.astype(np.int16), sizes)
    tables = rng.standard_normal((sum(sizes), 3))
    posterior = rng.dirichlet(np.full(3, 0.1), len(values))
    posterior[rng.random(len(values)) < 0.5] = [0.0, 1.0, 0.0]
    posterior[:3] = 0.0
    dense = indicator_matrix(values, sizes).toarray()
    for function, expected in (
        (lambda: packed @ tables, dense @ tables),
        (lambda: packed @ tables[:, 0], dense @ tables[:, 0]),
        (lambda: packed.add_up(posterior), dense.T @ posterior),
        (lambda: packed[3:7].add_up(posterior[3:7]), dense[3:7].T @ posterior[3:7]),
    ):
        plain, compiled = both(function)
        np.testing.assert_allclose(plain, expected, atol=1e-12)
        np.testing.assert_allclose(compiled, expected, atol=1e-12)
