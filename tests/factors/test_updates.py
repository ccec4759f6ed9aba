"""Every block solver keeps the simplex, never raises a block's value, and ends at its optimum: on every backend."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tensorly as tl
from backend_problems import EVERY_EXAMPLE, MODES, N_BINS, SOLVERS, tensor
from hypothesis import given
from hypothesis import strategies as st

from tensorly_smp.factors.backend import as_tensor
from tensorly_smp.factors.blocks import LOSSES, ExplicitLoss, QuadraticBlock
from tensorly_smp.factors.coupled import couple_tensors
from tensorly_smp.factors.sweeps import Steps
from tensorly_smp.marginals.histograms import read_tensors, to_numpy

RANK = 3
EVERY_SOLVER = pytest.mark.parametrize(
    ("loss_name", "solver_name"), [(loss, solver) for loss in SOLVERS for solver in SOLVERS[loss]]
)


@dataclass
class BlockAt:
    """A block of a loss with its current x, all in the backend's arrays; n is -1 for the weights."""

    loss: ExplicitLoss
    n: int
    factors: list[Any]
    weights: Any

    @property
    def x(self):
        return self.weights[None, :] if self.n < 0 else self.factors[self.n]

    @property
    def block(self):
        if self.n < 0:
            return self.loss.weight_block(self.factors)
        return self.loss.factor_block(self.n, self.factors, self.weights)

    def moved(self, solver, x, memory=None):
        """What the solver makes of the block at x, and what it remembers; compiled on JAX, as everywhere else."""
        steps, factors = Steps(self.loss, solver), list(self.factors)
        steps.memory[self.n] = memory
        if self.n < 0:
            moved = steps.begin(x[0], factors)[1]()[None, :]
        else:
            factors[self.n] = x
            moved = steps.improve(self.n, factors, self.weights)
        return moved, steps.memory[self.n]


def make_blocks(loss_name, seed, dtype, empty=()):
    """The blocks of a random problem; components in ``empty`` have no weight."""
    # On JAX, which compiles for every shape, of variables that are all alike, and so the first of them alone.
    modes, n_bins, blocks = [(0, 1, 2), (2, 0, 3), (3, 1, 0)], (3, 2, 4, 5), range(-1, 4)
    if tl.get_backend() == "jax":
        modes, n_bins, blocks = MODES, N_BINS, range(-1, 1)
    rng = np.random.default_rng(seed)
    tensors = [rng.random([n_bins[n] for n in mode]) for mode in modes]
    for array in tensors:
        array[np.add.outer(np.add.outer(*map(np.arange, array.shape[:2])), np.arange(array.shape[2])) % 3 == 1] = 0.0
        array[0, 0, 0] = 1.0
    loss = LOSSES[loss_name](couple_tensors(read_tensors([tensor(a, dtype) for a in tensors], modes), "count"))
    weights = rng.dirichlet(np.ones(RANK))
    weights[list(empty)] = 1e-17
    context = loss.tensors.context
    weights = as_tensor(weights / weights.sum(), context)
    factors = [as_tensor(rng.dirichlet(np.ones(size), RANK).T, context) for size in n_bins]
    return [BlockAt(loss, n, factors, weights) for n in blocks]


def skip_where_it_is_compiled(backend):
    if backend == "jax":
        pytest.skip("every number of inner steps would be compiled for itself")


def optimality_gap(block, x):
    """Bound of the value above the optimum: the block is convex, and the simplex the hull of its corners."""
    gradient, x = to_numpy(block.gradient(x)), to_numpy(x)
    return float(((gradient * x).sum(axis=block.axis) - gradient.min(axis=block.axis)).sum())


@EVERY_SOLVER
@EVERY_EXAMPLE
@given(seed=st.integers(0, 2**31))
def test_simplex_and_descent(backend, dtype, loss_name, solver_name, seed):
    solver = SOLVERS[loss_name][solver_name]()
    rounding = np.finfo(dtype).eps
    for at in make_blocks(loss_name, seed, dtype):
        block, x, memory = at.block, at.x, None
        before, value = to_numpy(x), float(block.value(x))
        for _ in range(3):
            moved, memory = at.moved(solver, x, memory)
            assert moved.dtype == getattr(tl.backend, dtype)
            assert moved.shape == x.shape
            assert (to_numpy(moved) >= 0).all()
            np.testing.assert_allclose(to_numpy(moved).sum(axis=block.axis), 1.0, rtol=20 * rounding)
            value_moved = float(block.value(moved))
            assert value_moved <= value + 20 * rounding * max(abs(value), 1.0)
            x, value = moved, value_moved
        assert (to_numpy(at.x) == before).all()


@EVERY_SOLVER
def test_repeated_steps_end_at_the_optimum_of_the_block(backend, dtype, loss_name, solver_name):
    solver = SOLVERS[loss_name][solver_name]()
    for at in make_blocks(loss_name, 0, dtype):
        block, x, memory = at.block, at.x, None
        start = optimality_gap(block, x)
        for _ in range(100):
            x, memory = at.moved(solver, x, memory)
        # In single precision the value soon no longer shows that a step leads downwards.
        assert optimality_gap(block, x) <= {"float32": 5e-2, "float64": 1e-2}[dtype] * start


@EVERY_SOLVER
def test_component_of_next_to_no_weight_stays_on_the_simplex(backend, dtype, loss_name, solver_name):
    # Its gradient is rounding, and a step scaled by its curvature enormous.
    solver = SOLVERS[loss_name][solver_name]()
    for at in make_blocks(loss_name, 0, dtype, empty=[1]):
        moved = to_numpy(at.moved(solver, at.x)[0])
        assert np.isfinite(moved).all()
        np.testing.assert_allclose(moved.sum(axis=at.block.axis), 1.0, rtol=1e-5)


@EVERY_SOLVER
def test_more_inner_steps_go_further(backend, dtype, loss_name, solver_name):
    skip_where_it_is_compiled(backend)
    few, many = SOLVERS[loss_name][solver_name](1), SOLVERS[loss_name][solver_name]()
    for at in make_blocks(loss_name, 0, dtype):
        values = [float(at.block.value(at.moved(solver, at.x)[0])) for solver in (few, many)]
        assert values[1] <= values[0] + 20 * np.finfo(dtype).eps * abs(values[0])


@pytest.mark.parametrize("loss_name", SOLVERS)
def test_mirror_starts_at_twice_the_last_step_that_was_accepted(backend, dtype, loss_name):
    skip_where_it_is_compiled(backend)
    solver = SOLVERS[loss_name]["mirror"](1)
    halvings = []
    for at in make_blocks(loss_name, 0, dtype):
        block, x = at.block, at.x
        moved, step = at.moved(solver, x)
        assert float(step) > 0
        # One that is short is accepted as it comes, one that is too long after as many halvings as it takes.
        short, remembered = at.moved(solver, x, step / 8)
        assert float(remembered) == float(step) / 4
        assert float(block.value(moved)) < float(block.value(short)) < float(block.value(x))
        far, last = at.moved(solver, x, step * 2**20)
        halvings.append(21 + np.log2(float(step) / float(last)))
        assert float(block.value(far)) < float(block.value(x))
    assert max(halvings) > 10
    assert (np.round(halvings) == halvings).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_mirror_doubles_its_step_within_bounds(dtype):
    # With one bin nothing moves, so that every step is accepted.
    block, x = QuadraticBlock(np.ones((1, 2), dtype), np.ones((2, 2), dtype)), np.ones((1, 2), dtype)
    step = None
    for _ in range(1100):
        x, step = SOLVERS["frobenius"]["mirror"](1)(block, x, step)
    assert x.tolist() == [[1.0, 1.0]]
    assert np.isfinite(step)


def test_mirror_goes_on_where_values_differ_by_their_rounding_only(backend, dtype):
    """Far fewer digits of the value are right than of the minimizer: the end of a step says whether it falls there."""
    solver = SOLVERS["frobenius"]["mirror"]()
    for at in make_blocks("frobenius", 1, dtype):
        x, memory = at.x, None
        for _ in range(400):
            x, memory = at.moved(solver, x, memory)
        slope = to_numpy(at.block.gradient(x))
        found = to_numpy(x)
        excess = slope - (slope * found).sum(axis=at.block.axis, keepdims=True)
        # The gradient of the Frobenius loss is of the size of one hundredth.
        assert np.abs(excess * found).max() < 1e-2 * {"float32": 3e-4, "float64": 1e-6}[dtype]


def test_mirror_returns_the_block_as_it_was_where_no_step_helps(backend, dtype):
    # At the optimum; a returned x and the value that a rejected step had would mislead the stopping rule.
    solver = SOLVERS["frobenius"]["mirror"]()
    for at in make_blocks("frobenius", 0, dtype):
        x, memory = at.x, None
        for _ in range(200):
            x, memory = at.moved(solver, x, memory)
        again, _ = at.moved(solver, x, memory)
        rounding = 20 * np.finfo(dtype).eps  # of values, by which steps are not told apart
        assert float(at.block.value(again)) <= float(at.block.value(x)) + rounding
