"""Values against the loop twin, gradients against differences, curvature as a bound."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import coupled_loss

from tensorly_smp.factors.coupled import couple_tensors
from tensorly_smp.factors.losses import LOSSES

MODES = [(0, 1, 2), (2, 0, 3), (3, 1, 0)]
N_BINS = (3, 2, 4, 5)
RANK = 3
SEEDS = st.integers(0, 2**31)
EVERY_LOSS = pytest.mark.parametrize("name", LOSSES)


def make_problem(name, seed, weights="count"):
    """Loss, a random point, and the loop's value as a function of weights and factors."""
    rng = np.random.default_rng(seed)
    tensors = [rng.random([N_BINS[n] for n in mode]) for mode in MODES]
    tensors = [np.where(rng.random(t.shape) < 0.4, 0.0, t) for t in tensors]
    for tensor in tensors:
        tensor[0, 0, 0] = 1.0
    totals = np.array([t.sum() for t in tensors])
    omega = totals / totals.mean() if weights == "count" else np.ones(len(tensors))
    shares = [t / t.sum() for t in tensors]
    point = rng.dirichlet(np.ones(RANK)), [rng.dirichlet(np.ones(size), RANK).T for size in N_BINS]

    def by_loops(weights, factors):
        return coupled_loss(shares, MODES, omega, weights, factors, name)

    return LOSSES[name](couple_tensors(tensors, MODES, weights)), point, by_loops


def blocks(loss, weights, factors):
    """Every block with its current x."""
    yield loss.weight_block(factors), weights[None, :]
    for n, a in enumerate(factors):
        yield loss.factor_block(n, factors, weights), a


@EVERY_LOSS
@given(seed=SEEDS, weights=st.sampled_from(["count", "uniform"]))
def test_total_is_that_of_the_loops(name, seed, weights):
    loss, (w, factors), by_loops = make_problem(name, seed, weights)
    np.testing.assert_allclose(
        loss.total(loss.weight_block(factors), w[None, :]), by_loops(w, factors), rtol=1e-9, atol=1e-13
    )


@EVERY_LOSS
@given(seed=SEEDS)
def test_block_values_differ_like_the_loss(name, seed):
    loss, (w, factors), by_loops = make_problem(name, seed)
    rng = np.random.default_rng(seed + 1)
    current = by_loops(w, factors)
    other = rng.dirichlet(np.ones(RANK))
    block = loss.weight_block(factors)
    difference = block.value(other[None, :]) - block.value(w[None, :])
    np.testing.assert_allclose(difference, by_loops(other, factors) - current, atol=1e-12)
    for n, size in enumerate(N_BINS):
        other = rng.dirichlet(np.ones(size), RANK).T
        block = loss.factor_block(n, factors, w)
        changed = [other if m == n else a for m, a in enumerate(factors)]
        difference = block.value(other) - block.value(factors[n])
        np.testing.assert_allclose(difference, by_loops(w, changed) - current, atol=1e-12)


@EVERY_LOSS
@given(seed=SEEDS)
def test_gradient_is_that_of_differences(name, seed):
    loss, point, _ = make_problem(name, seed)
    rng = np.random.default_rng(seed + 1)
    for block, x in blocks(loss, *point):
        gradient = block.gradient(x)
        assert gradient.shape == x.shape
        x = x + 0.05  # away from zero, where logarithms bend too much for differences
        direction = rng.normal(size=x.shape)
        step = 1e-5
        difference = (block.value(x + step * direction) - block.value(x - step * direction)) / (2 * step)
        np.testing.assert_allclose((block.gradient(x) * direction).sum(), difference, rtol=1e-5, atol=1e-6)


@EVERY_LOSS
@given(seed=SEEDS)
def test_blocks_are_convex(name, seed):
    loss, point, _ = make_problem(name, seed)
    rng = np.random.default_rng(seed + 1)
    for block, x in blocks(loss, *point):
        line = x.shape[block.axis]
        other = np.moveaxis(rng.dirichlet(np.ones(line), x.shape[1 - block.axis]), -1, block.axis)
        assert block.value((x + other) / 2) <= (block.value(x) + block.value(other)) / 2 + 1e-12


def test_gradient_after_the_value_of_the_same_weights_is_the_same():
    loss, (w, factors), _ = make_problem("kl", 0)
    row, block = w[None, :], loss.weight_block(factors)
    value = block.value(row)
    # The first gradient uses what the value left behind, the others start anew.
    for _ in range(2):
        np.testing.assert_array_equal(block.gradient(row), loss.weight_block(factors).gradient(row))
    assert block.value(row) == value


@given(seed=SEEDS)
def test_curvature_bounds_the_growth_of_the_gradient(seed):
    loss, point, _ = make_problem("frobenius", seed)
    rng = np.random.default_rng(seed + 1)
    for block, x in blocks(loss, *point):
        step = rng.normal(size=x.shape)
        second_order = block.value(x + step) - block.value(x) - (block.gradient(x) * step).sum()
        assert second_order <= (block.curvature * step * step).sum() / 2 + 1e-9


@EVERY_LOSS
def test_loss_of_the_exact_model_is_within_its_resolution(name):
    rng = np.random.default_rng(0)
    w, factors = rng.dirichlet(np.ones(RANK)), [rng.dirichlet(np.ones(size), RANK).T for size in N_BINS]
    tensors = [np.einsum("r,ir,jr,kr->ijk", w, *(factors[n] for n in mode)) for mode in MODES]
    loss = LOSSES[name](couple_tensors(tensors, MODES, "count"))
    assert abs(loss.total(loss.weight_block(factors), w[None, :])) <= 4 * np.finfo(float).eps * loss.level.resolution


@EVERY_LOSS
def test_nothing_is_modified(name):
    loss, (w, factors), _ = make_problem(name, 0)
    before = [a.copy() for a in (w, *factors)]
    for block, x in blocks(loss, w, factors):
        first = block.value(x), block.gradient(x)
        again = block.value(x), block.gradient(x)
        assert first[0] == again[0]
        assert (first[1] == again[1]).all()
    assert all((a == b).all() for a, b in zip((w, *factors), before, strict=True))
