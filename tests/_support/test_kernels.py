"""Compiled kernels against their plain twins, and when they are used."""

import importlib.util
import signal
import sys
import warnings
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import tensorly_smp as smp
from tensorly_smp._support import kernels
from tensorly_smp.codes.one_hot import one_hot
from tensorly_smp.exceptions import CompiledKernelWarning
from tensorly_smp.factors.losses import QuadraticBlock
from tensorly_smp.factors.symmetric_sums import PairSums
from tensorly_smp.factors.updates import ProjectedGradient
from tensorly_smp.likelihood.expectation import expectation
from tensorly_smp.splines.log_spline import LINE_SEARCH, LogSplineFit, fit_log_splines, maximize
from tensorly_smp.splines.penalties import CRITERIA, choose_penalties, effective_parameters
from tensorly_smp.splines.spline_basis import spline_basis

SEEDS = st.integers(0, 2**31)


def both(function):
    """Results of the plain code and of the kernels."""
    pytest.importorskip("numba")
    with kernels.used_from(inf):
        plain = function()
    with kernels.used_from(0.0):
        assert kernels.compiled(0.0) is not None
        return plain, function()


def assert_same_expectation(hot, rng, rank, weights):
    log_weights, log_tables = np.log(rng.dirichlet(np.ones(rank))), np.log(rng.random((hot.shape[1], rank)))
    plain, fast = both(lambda: expectation(hot, log_weights, log_tables, weights))
    np.testing.assert_allclose(fast.posterior, plain.posterior, rtol=1e-11, atol=1e-300)
    np.testing.assert_allclose(fast.counts, plain.counts, rtol=1e-11, atol=1e-300)
    np.testing.assert_allclose(fast.component_counts, plain.component_counts, rtol=1e-11)
    assert fast.log_likelihood == pytest.approx(plain.log_likelihood, rel=1e-12)


@settings(deadline=None)  # the first call compiles
@given(SEEDS, st.integers(1, 40), st.integers(1, 6), st.integers(1, 9), st.booleans())
def test_expectation_of_codes(seed, n_samples, n_variables, rank, is_weighted):
    rng = np.random.default_rng(seed)
    codes = smp.Codes.from_array(rng.integers(-1, 4, (n_samples, n_variables)), n_bins=4)
    assert_same_expectation(one_hot(codes), rng, rank, rng.random(n_samples) if is_weighted else None)


@settings(deadline=None)
@given(SEEDS, st.sampled_from([np.int32, np.int64]))
def test_expectation_of_shares(seed, index_type):
    rng = np.random.default_rng(seed)
    shares = csr_array(rng.random((9, 12)) * (rng.random((9, 12)) < 0.4))
    shares.indices, shares.indptr = shares.indices.astype(index_type), shares.indptr.astype(index_type)
    assert_same_expectation(shares, rng, 3, None)


def test_expectation_where_nearly_all_is_impossible():
    hot = one_hot(smp.Codes.from_array(np.array([[0, 1], [1, 0], [-1, -1]])))
    log_tables = np.array([[-1e3, 0.0], [-1e4, -1e5], [0.0, -138.0], [-50.0, 0.0]])
    plain, fast = both(lambda: expectation(hot, np.log([0.5, 0.5]), log_tables))
    assert np.isfinite(fast.log_likelihood)
    np.testing.assert_allclose(fast.posterior, plain.posterior, rtol=1e-12, atol=1e-260)  # they end at exp(-600)


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


def test_expectation_in_more_than_one_chunk():
    rng = np.random.default_rng(0)
    codes = smp.Codes.from_array(rng.integers(-1, 5, (20_001, 3)), n_bins=5)
    assert_same_expectation(one_hot(codes), rng, 4, rng.random(20_001))


@settings(deadline=None)
@given(
    SEEDS,
    st.integers(1, 300),
    st.lists(st.integers(2, 300), min_size=3, max_size=6),
    st.integers(1, 9),
    st.sampled_from([np.float64, np.float32]),
)
def test_pair_sums(seed, n_samples, n_bins, rank, dtype):
    rng = np.random.default_rng(seed)
    # The number of bins stands for a missing entry; in one or two bytes.
    columns = np.array([rng.integers(0, size + 1, n_samples) for size in n_bins])
    columns = columns.astype(np.min_scalar_type(max(n_bins)))
    weights = rng.random(n_samples)
    first, second = ([rng.dirichlet(np.ones(size), rank).T.astype(dtype) for size in n_bins] for _ in range(2))

    def sums():
        pairs = PairSums(columns, weights, max(n_bins), {"dtype": dtype})
        found = [pairs.compute(first)]
        # Two variables are exchanged; the last two lines put one in twice in a row, and begin anew.
        for n in (0, 2):
            found.append(pairs.remove(n, first[n]))
            pairs.insert(n, second[n])
        found += [pairs.remove(1, first[1]), pairs.remove(0, second[0])]
        pairs.insert(0, first[0])
        pairs.insert(1, second[1])
        return [*found, pairs.remove(0, first[0]), pairs.compute(second)]

    plain, fast = both(sums)
    # What was taken out leaves rounding errors of the size of the sums, one on average.
    tolerance = {np.float64: 1e-12, np.float32: 1e-4}[dtype] * max(weights.sum(), 1.0)
    for a, b in zip(plain, fast, strict=True):
        assert a.shape == b.shape
        assert b.dtype == dtype
        np.testing.assert_allclose(b, a, rtol=1e-3 if dtype is np.float32 else 1e-9, atol=tolerance)


def test_expectation_of_more_tables_than_the_cache_holds():
    compiled_kernels = pytest.importorskip("tensorly_smp._support.compiled_kernels")
    rng = np.random.default_rng(1)
    n_bins, rank = 500, 20
    codes = smp.Codes.from_array(rng.integers(-1, n_bins, (50, 13)), n_bins=n_bins)
    assert codes.n_variables * n_bins * rank > compiled_kernels.TABLE_ENTRIES
    hot = one_hot(codes)
    assert_same_expectation(hot, rng, rank, None)
    turned = csr_array(hot[:, ::-1])  # indices that fall within a sample
    turned.has_sorted_indices = True  # so that nobody sorts them
    assert (np.diff(turned.indices[: turned.indptr[1]]) < 0).any()
    assert_same_expectation(turned, rng, rank, None)


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="this system has no alarms")
def test_an_interrupt_within_the_e_step_is_an_interrupt():
    pytest.importorskip("numba")
    rng = np.random.default_rng(0)
    hot = one_hot(smp.Codes.from_array(rng.integers(0, 5, (400_000, 20)), n_bins=5))
    log_weights, log_tables = np.log(rng.dirichlet(np.ones(10))), np.log(rng.random((hot.shape[1], 10)))

    def repeated():
        for _ in range(1000):
            expectation(hot, log_weights, log_tables)

    with kernels.used_from(0.0):
        expectation(hot[:10], log_weights, log_tables)  # compiled
        usual = signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.15)
            with pytest.raises(KeyboardInterrupt):
                repeated()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, usual)


@settings(deadline=None)
@given(SEEDS, st.integers(1, 40), st.integers(1, 9), st.integers(1, 9), st.sampled_from([np.float64, np.float32]))
def test_projected_gradients(seed, n_bins, rank, n_inner, dtype):
    rng = np.random.default_rng(seed)
    root = rng.random((rank, rank)) * rng.choice([1e-3, 1.0, 1e3])
    parts = rng.standard_normal((n_bins, rank)) * rng.choice([1e-6, 1.0, 1e6]), root.T @ root
    linear, gram, x = (array.astype(dtype) for array in (*parts, rng.dirichlet(np.ones(n_bins), rank).T))
    compiled = pytest.importorskip("tensorly_smp._support.compiled_kernels")
    plain, fast = (
        ProjectedGradient(n_inner)(QuadraticBlock(linear, gram, compiled=kernel), x)[0] for kernel in (None, compiled)
    )
    assert fast.dtype == dtype
    rounding = float(np.finfo(dtype).eps)
    np.testing.assert_allclose(fast.sum(axis=0), 1.0, rtol=100 * rounding)
    np.testing.assert_allclose(fast, plain, atol=1e4 * rounding)


def histograms(seed, n_basis, n_densities, n_samples):
    rng = np.random.default_rng(seed)
    basis = spline_basis(n_basis)
    values = rng.gamma(rng.uniform(1, 5, n_densities), rng.uniform(0.02, 0.1, n_densities), (n_samples, n_densities))
    cells = np.minimum((values * basis.n_cells).astype(int), basis.n_cells - 1)
    counts = [np.bincount(column, minlength=basis.n_cells) for column in cells.T]
    return basis, np.transpose(counts) / n_samples


@settings(deadline=None)
@given(SEEDS, st.sampled_from([4, 5, 12, 40, 80]), st.integers(1, 150), st.integers(5, 500))
def test_log_splines(seed, n_basis, n_densities, n_samples):
    basis, shares = histograms(seed, n_basis, n_densities, n_samples)
    penalty = 10.0 ** np.random.default_rng(seed).uniform(-3, 3, n_densities)
    plain, fast = both(lambda: fit_log_splines(basis, shares, penalty))
    # Where there are no samples, F hardly depends on the densities.
    np.testing.assert_allclose(
        np.exp(basis.log_probabilities(fast)), np.exp(basis.log_probabilities(plain)), rtol=1e-5, atol=1e-7
    )


@pytest.mark.parametrize("criterion", CRITERIA)
def test_penalties(criterion):
    basis, shares = histograms(0, 80, 60, 400)
    totals = np.random.default_rng(1).uniform(50, 400, 60)
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


@pytest.mark.parametrize("criterion", CRITERIA)
def test_criteria_of_penalties_one_of_which_has_a_singular_hessian(criterion):
    fit, compiled = fit_with_a_singular_hessian(), pytest.importorskip("tensorly_smp._support.compiled_kernels")
    log_determinant, freedom = np.empty(3), np.empty(3)
    basis, expected = fit.basis, np.ascontiguousarray(fit.expected.T)
    compiled.measure(basis.at_interval, basis.penalty_bands, fit.penalty, expected, log_determinant, freedom)
    assert np.isnan(log_determinant).tolist() == np.isnan(freedom).tolist() == [False, True, False]
    totals, fit.penalty[1] = np.full(3, 100.0), 1e-300  # the logarithm of zero would be all that is compared
    plain, fast = (CRITERIA[criterion](fit, totals, kernel) for kernel in (None, compiled))
    np.testing.assert_allclose(fast, plain, rtol=1e-9)


def fit_with_a_singular_hessian():
    """Three densities; the second expects samples in one interval only, and has no penalty."""
    basis, shares = histograms(0, 12, 3, 100)
    shares[:, 1] = 0.0
    shares[16:20, 1] = 0.25
    start = basis.gaussian(shares)
    start[:, 1] = np.where(basis.at_cells[16:20].sum(axis=0) > 0, 0.0, -800.0)  # elsewhere expectations are zero
    start = basis.normalized(start)
    return LogSplineFit.at(basis, basis.transposed @ shares, np.array([0.1, 0.0, 0.1]), start)


def test_a_log_spline_whose_hessian_is_singular():
    fit, compiled = fit_with_a_singular_hessian(), pytest.importorskip("tensorly_smp._support.compiled_kernels")
    basis, data, start = fit.basis, fit.data, fit.coefficients
    plain, fast = (maximize(fit, 1, np.zeros(3), kernel) for kernel in (None, compiled))
    np.testing.assert_allclose(fast.coefficients, plain.coefficients, rtol=1e-9)
    np.testing.assert_allclose(fast.value, plain.value, rtol=1e-9)
    left = compiled.climb(
        *(basis.at_interval, basis.unit, basis.penalty_bands, data.T.copy(), fit.penalty, start.T.copy()),
        *(fit.expected.T.copy(), fit.likelihood.copy(), 1, np.zeros(3), LINE_SEARCH),
    )
    assert left.tolist() == [False, True, False]


def test_fit_is_the_same():
    X = smp.datasets.make_smooth_mixture("laplace", 500, 6, 2, random_state=0).X
    X[::7, 1] = np.nan
    options = dict(n_components=2, loss="frobenius", n_init=1, random_state=0)
    plain, fast = both(lambda: smp.SmoothProductMixture(**options).fit(X))
    assert fast.score(X) == pytest.approx(plain.score(X), rel=1e-8)


def test_small_problems_and_the_switch_use_plain_code(monkeypatch):
    assert kernels.compiled(kernels.LEAST_WORK / 2) is None
    with kernels.used_from(inf):
        assert kernels.compiled(1e300) is None
    monkeypatch.setenv("TENSORLY_SMP_FAST", "0")
    with kernels.used_from(0.0):
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
    "error",
    [EOFError("Ran out of input"), OSError("Cannot allocate memory")],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("broken", ["expect", "climb", "measure", "sum_all", "exchange", "descend"])
def test_a_kernel_that_cannot_be_compiled_is_replaced_by_plain_code(monkeypatch, broken, error):
    module = pytest.importorskip("tensorly_smp._support.compiled_kernels")
    X = smp.datasets.make_smooth_mixture("laplace", 300, 4, 2, random_state=0).X
    wide = smp.datasets.make_smooth_mixture("laplace", 200, 12, 2, random_state=0).X
    codes = smp.encode_samples(wide, smp.choose_binning(wide, n_bins=15))

    def fit():
        if broken in ("sum_all", "exchange", "descend"):
            found = smp.coupled_simplex_parafac(codes, 2, loss="frobenius", init="random", random_state=0)
            assert found.start_info["histograms"] == "implicit"
            return found.trace.loss[-1]
        return smp.SmoothProductMixture(2, n_init=1, random_state=0).fit(X).score(X)

    def fail(*_):
        raise error

    with kernels.used_from(inf):
        plain = fit()
    monkeypatch.setattr(module, broken, fail)
    with kernels.used_from(0.0), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert fit() == pytest.approx(plain, rel=1e-7)
        assert fit() == pytest.approx(plain, rel=1e-12)  # without any kernel
        assert kernels.compiled(0.0) is None
    assert [each.category for each in caught] == [CompiledKernelWarning]
    assert type(error).__name__ in str(caught[0].message)
    assert caught[0].filename == __file__
