"""Values against the loop twin, gradients against differences, curvature as a bound: on every backend."""

import numpy as np
import pytest
import tensorly as tl
from backend_problems import EVERY_EXAMPLE, tensor
from hypothesis import given
from hypothesis import strategies as st
from oracles import coupled_loss

from tensorly_smp.factors.blocks import LOSSES
from tensorly_smp.factors.coupled import couple_tensors
from tensorly_smp.marginals.histograms import read_tensors, to_numpy

MODES = [(0, 1, 2), (2, 0, 3), (3, 1, 0)]
RANK = 3
SEEDS = st.integers(0, 2**31)
EVERY_LOSS = pytest.mark.parametrize("name", LOSSES)


def numbers_of_bins():
    """Of four variables; the same on JAX, which compiles anew for every shape."""
    return (4, 4, 4, 4) if tl.get_backend() == "jax" else (3, 2, 4, 5)


def random_point(rng):
    """Weights and factors."""
    return rng.dirichlet(np.ones(RANK)), [rng.dirichlet(np.ones(size), RANK).T for size in numbers_of_bins()]


def make_problem(name, seed, dtype, weights="count"):
    """Loss, a random point in NumPy, and the loop's value as a function of weights and factors."""
    rng = np.random.default_rng(seed)
    tensors = [rng.random([numbers_of_bins()[n] for n in mode]) for mode in MODES]
    for array in tensors:
        # In always the same cells, and columns, for each number of which JAX compiles anew.
        array[np.add.outer(np.add.outer(*map(np.arange, array.shape[:2])), np.arange(array.shape[2])) % 3 == 1] = 0.0
        array[:, -1, -1] = array[-1, :, -1] = array[-1, -1, :] = 0.0
    totals = np.array([t.sum() for t in tensors])
    omega = totals / totals.mean() if weights == "count" else np.ones(len(tensors))
    shares = [t / t.sum() for t in tensors]

    def by_loops(weights, factors):
        return coupled_loss(shares, MODES, omega, weights, factors, name)

    return (
        LOSSES[name](couple_tensors(read_tensors([tensor(t, dtype) for t in tensors], MODES), weights)),
        random_point(rng),
        by_loops,
    )


def on_backend(weights, factors, dtype):
    return tensor(weights, dtype), [tensor(a, dtype) for a in factors]


def blocks(loss, weights, factors, dtype):
    """Every block, its current x in NumPy, and its value and gradient as functions of NumPy's arrays."""
    weights_there, factors_there = on_backend(weights, factors, dtype)
    for block, x in [
        (loss.weight_block(factors_there), weights[None, :]),
        *((loss.factor_block(n, factors_there, weights_there), a) for n, a in enumerate(factors)),
    ]:

        def value(x, block=block):
            found = block.value(tensor(x, dtype))
            assert found.dtype == getattr(tl.backend, dtype)
            return float(found)

        def gradient(x, block=block):
            found = block.gradient(tensor(x, dtype))
            assert found.dtype == getattr(tl.backend, dtype)
            return to_numpy(found)

        yield block, x, value, gradient


def total(loss, weights, factors, dtype):
    weights, factors = on_backend(weights, factors, dtype)
    return loss.of_value(loss.weight_block(factors).value(weights[None, :]))


@EVERY_LOSS
@EVERY_EXAMPLE
@given(seed=SEEDS, weights=st.sampled_from(["count", "uniform"]))
def test_total_is_that_of_the_loops(backend, dtype, name, seed, weights):
    loss, point, by_loops = make_problem(name, seed, dtype, weights)
    rounding = np.finfo(dtype).eps * loss.resolution
    np.testing.assert_allclose(total(loss, *point, dtype), by_loops(*point), rtol=1e-9, atol=20 * rounding)


@EVERY_LOSS
@EVERY_EXAMPLE
@given(seed=SEEDS)
def test_block_values_differ_like_the_loss(backend, dtype, name, seed):
    loss, (w, factors), by_loops = make_problem(name, seed, dtype)
    rng = np.random.default_rng(seed + 1)
    current, tolerance = by_loops(w, factors), {"atol": 40 * np.finfo(dtype).eps * loss.resolution}
    (_, x, value, _), *others = blocks(loss, w, factors, dtype)
    other = rng.dirichlet(np.ones(RANK))
    np.testing.assert_allclose(value(other[None, :]) - value(x), by_loops(other, factors) - current, **tolerance)
    for n, (_, x, value, _) in enumerate(others):
        other = rng.dirichlet(np.ones(len(x)), RANK).T
        changed = [other if m == n else a for m, a in enumerate(factors)]
        np.testing.assert_allclose(value(other) - value(x), by_loops(w, changed) - current, **tolerance)


@EVERY_LOSS
@EVERY_EXAMPLE
@given(seed=SEEDS)
def test_gradient_is_that_of_differences(backend, dtype, name, seed):
    loss, point, _ = make_problem(name, seed, dtype)
    rng = np.random.default_rng(seed + 1)
    eps = np.finfo(dtype).eps
    for _, x, value, gradient in blocks(loss, *point, dtype):
        assert gradient(x).shape == x.shape
        x = x + 0.5  # away from zero, where logarithms bend too much for differences
        direction = rng.normal(size=x.shape)
        step = eps ** (1 / 3)  # rounding over it is as much as its square
        difference = (value(x + step * direction) - value(x - step * direction)) / (2 * step)
        np.testing.assert_allclose((gradient(x) * direction).sum(), difference, atol=100 * eps ** (2 / 3))


@EVERY_LOSS
@EVERY_EXAMPLE
@given(seed=SEEDS)
def test_blocks_are_convex(backend, dtype, name, seed):
    loss, point, _ = make_problem(name, seed, dtype)
    rng = np.random.default_rng(seed + 1)
    for block, x, value, _ in blocks(loss, *point, dtype):
        line = x.shape[block.axis]
        other = np.moveaxis(rng.dirichlet(np.ones(line), x.shape[1 - block.axis]), -1, block.axis)
        rounding = np.finfo(dtype).eps * loss.resolution
        assert value((x + other) / 2) <= (value(x) + value(other)) / 2 + 20 * rounding


def test_gradient_after_the_value_of_the_same_weights_is_the_same(backend, dtype):
    loss, point, _ = make_problem("kl", 0, dtype)
    w, factors = on_backend(*point, dtype)
    row, block = w[None, :], loss.weight_block(factors)
    value = block.value(row)
    # The first gradient uses what the value left behind, the others start anew.
    for _ in range(2):
        again = loss.weight_block(factors).gradient(row)
        np.testing.assert_array_equal(tl.to_numpy(block.gradient(row)), tl.to_numpy(again))
    assert block.value(row) == value


@EVERY_EXAMPLE
@given(seed=SEEDS)
def test_curvature_bounds_the_growth_of_the_gradient(backend, dtype, seed):
    loss, point, _ = make_problem("frobenius", seed, dtype)
    rng = np.random.default_rng(seed + 1)
    for block, x, value, gradient in blocks(loss, *point, dtype):
        step = rng.normal(size=x.shape)
        second_order = value(x + step) - value(x) - (gradient(x) * step).sum()
        rounding = np.finfo(dtype).eps * (abs(value(x + step)) + abs(value(x)))
        assert second_order <= (to_numpy(block.curvature) * step * step).sum() / 2 + 100 * rounding


@EVERY_LOSS
def test_loss_of_the_exact_model_is_within_its_resolution(backend, dtype, name):
    w, factors = random_point(np.random.default_rng(0))
    tensors = [np.einsum("r,ir,jr,kr->ijk", w, *(factors[n] for n in mode)) for mode in MODES]
    loss = LOSSES[name](couple_tensors(read_tensors([tensor(t, dtype) for t in tensors], MODES), "count"))
    assert abs(total(loss, w, factors, dtype)) <= 4 * np.finfo(dtype).eps * loss.resolution


@EVERY_LOSS
def test_nothing_is_modified(backend, dtype, name):
    loss, point, _ = make_problem(name, 0, dtype)
    w, factors = on_backend(*point, dtype)
    before = [to_numpy(a) for a in (w, *factors)]
    for block, x in [
        (loss.weight_block(factors), w[None, :]),
        *((loss.factor_block(n, factors, w), a) for n, a in enumerate(factors)),
    ]:
        first, again = ((float(block.value(x)), to_numpy(block.gradient(x))) for _ in range(2))
        assert first[0] == again[0]
        assert (first[1] == again[1]).all()
    assert all((to_numpy(a) == b).all() for a, b in zip((w, *factors), before, strict=True))
