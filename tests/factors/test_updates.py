"""Every block solver keeps the simplex, never raises the value of a block, and ends at the block's optimum."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorly_smp.factors.coupled import couple_tensors
from tensorly_smp.factors.losses import LOSSES, QuadraticBlock
from tensorly_smp.factors.updates import BLOCK_SOLVERS

MODES = [(0, 1, 2), (2, 0, 3), (3, 1, 0)]
N_BINS = (3, 2, 4, 5)
RANK = 3
EVERY_SOLVER = pytest.mark.parametrize(
    ("loss_name", "solver_name"), [(loss, solver) for loss in BLOCK_SOLVERS for solver in BLOCK_SOLVERS[loss]]
)


def make_blocks(loss_name, seed, dtype=np.float64, empty=()):
    """Every block of a random problem, its key, and its current x; components in ``empty`` have no weight."""
    rng = np.random.default_rng(seed)
    tensors = [rng.random([N_BINS[n] for n in mode]) for mode in MODES]
    tensors = [np.where(rng.random(t.shape) < 0.4, 0.0, t).astype(dtype) for t in tensors]
    for tensor in tensors:
        tensor[0, 0, 0] = 1.0
    loss = LOSSES[loss_name](couple_tensors(tensors, MODES, "count"))
    weights = rng.dirichlet(np.ones(RANK))
    weights[list(empty)] = 1e-17
    weights = (weights / weights.sum()).astype(dtype)
    factors = [rng.dirichlet(np.ones(size), RANK).T.astype(dtype) for size in N_BINS]
    yield loss.weight_block(factors), -1, weights[None, :]
    for n, a in enumerate(factors):
        yield loss.factor_block(n, factors, weights), n, a


def optimality_gap(block, x):
    """Bound of the value above the optimum: the block is convex, and the simplex the hull of its corners."""
    gradient = block.gradient(x)
    return float(((gradient * x).sum(axis=block.axis) - gradient.min(axis=block.axis)).sum())


@EVERY_SOLVER
@settings(max_examples=8)
@given(seed=st.integers(0, 2**31), dtype=st.sampled_from([np.float32, np.float64]))
def test_simplex_and_descent(loss_name, solver_name, seed, dtype):
    solver = BLOCK_SOLVERS[loss_name][solver_name]()
    rounding = np.finfo(dtype).eps
    for block, key, x in make_blocks(loss_name, seed, dtype):
        before, value, memory = x.copy(), block.value(x), None
        for _ in range(3):
            moved, memory = solver(block, x, memory)
            assert moved.dtype == dtype
            assert moved.shape == x.shape
            assert (moved >= 0).all()
            np.testing.assert_allclose(moved.sum(axis=block.axis), 1.0, rtol=20 * rounding)
            value_moved = block.value(moved)
            assert value_moved <= value + 20 * rounding * max(abs(value), 1.0)
            x, value = moved, value_moved
        assert (next(b for _, k, b in make_blocks(loss_name, seed, dtype) if k == key) == before).all()


@EVERY_SOLVER
@pytest.mark.parametrize("seed", range(2))
def test_repeated_steps_end_at_the_optimum_of_the_block(loss_name, solver_name, seed):
    solver = BLOCK_SOLVERS[loss_name][solver_name]()
    for block, _, x in make_blocks(loss_name, seed):
        start, memory = optimality_gap(block, x), None
        for _ in range(100):
            x, memory = solver(block, x, memory)
        assert optimality_gap(block, x) <= 1e-2 * start


@EVERY_SOLVER
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_component_of_next_to_no_weight_stays_on_the_simplex(loss_name, solver_name, dtype):
    # Its gradient is rounding, and a step scaled by its curvature enormous.
    solver = BLOCK_SOLVERS[loss_name][solver_name]()
    for block, _, x in make_blocks(loss_name, 0, dtype, empty=[1]):
        moved, _ = solver(block, x, None)
        assert np.isfinite(moved).all()
        np.testing.assert_allclose(moved.sum(axis=block.axis), 1.0, rtol=1e-5)


@EVERY_SOLVER
def test_more_inner_steps_go_further(loss_name, solver_name):
    for block, _, x in make_blocks(loss_name, 0):
        few, many = (BLOCK_SOLVERS[loss_name][solver_name](n)(block, x, None)[0] for n in (1, 20))
        assert block.value(many) <= block.value(few)


@pytest.mark.parametrize("loss_name", BLOCK_SOLVERS)
def test_mirror_starts_at_twice_the_last_step_that_was_accepted(loss_name):
    solver = BLOCK_SOLVERS[loss_name]["mirror"](1)
    for block, _, x in make_blocks(loss_name, 0):
        moved, step = solver(block, x, None)
        assert step > 0
        # A step that is too long by many halvings, and one that is short, are accepted as they come.
        short, remembered = solver(block, x, step / 8)
        assert remembered == step / 4
        assert block.value(moved) < block.value(short) < block.value(x)
        assert 0 < solver(block, x, step * 2**20)[1] < step * 2**21


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_mirror_doubles_its_step_within_bounds(dtype):
    # With one bin nothing moves, so that every step is accepted.
    block, x = QuadraticBlock(np.ones((1, 2), dtype), np.ones((2, 2), dtype)), np.ones((1, 2), dtype)
    step = None
    for _ in range(1100):
        x, step = BLOCK_SOLVERS["frobenius"]["mirror"](1)(block, x, step)
    assert x.tolist() == [[1.0, 1.0]]
    assert np.isfinite(step)


def test_mirror_returns_the_block_as_it_was_where_no_step_helps():
    # At the optimum; a returned x and the value that a rejected step had would mislead the stopping rule.
    solver = BLOCK_SOLVERS["frobenius"]["mirror"]()
    for block, _, x in make_blocks("frobenius", 0):
        memory = None
        for _ in range(200):
            x, memory = solver(block, x, memory)
        again, _ = solver(block, x, memory)
        assert block.value(again) <= block.value(x)
