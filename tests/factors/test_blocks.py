"""Losses against the loop twin, gradients against differences; block solvers end at the optimum, on the simplex."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tensorly as tl
from backend_problems import EVERY_EXAMPLE, SOLVERS, tensor
from backend_problems import MODES as EVEN_MODES
from backend_problems import N_BINS as EVEN_BINS
from hypothesis import given
from hypothesis import strategies as st
from oracles import coupled_loss

from tensorly_smp._support.checks import to_numpy
from tensorly_smp.factors.blocks import LOSSES, Block, ExplicitLoss, QuadraticBlock
from tensorly_smp.factors.coupled import couple_tensors
from tensorly_smp.factors.sweeps import Steps
from tensorly_smp.marginals.histograms import read_tensors

RANK = 3
SEEDS = st.integers(0, 2**31)
EVERY_LOSS = pytest.mark.parametrize("name", LOSSES)
EVERY_SOLVER = pytest.mark.parametrize(
    ("name", "solver_name"), [(loss, solver) for loss in SOLVERS for solver in SOLVERS[loss]]
)


@dataclass
class BlockAt:
    """A block of a loss; n is -1 for the weights."""

    loss: ExplicitLoss
    n: int
    factors: list[Any]
    weights: Any
    block: Block

    @property
    def x(self):
        """Current x, in the backend's arrays."""
        return self.weights[None, :] if self.n < 0 else self.factors[self.n]

    def value(self, x):
        """Value at an x of NumPy."""
        found = self.block.value(tl.tensor(x, dtype=self.weights.dtype))
        assert found.dtype == self.weights.dtype
        return float(found)

    def gradient(self, x):
        """Gradient at an x of NumPy, in NumPy."""
        found = self.block.gradient(tl.tensor(x, dtype=self.weights.dtype))
        assert found.dtype == self.weights.dtype
        return to_numpy(found)

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


def make_problem(name, seed, dtype, omega="count", empty=()):
    """The loss of a random problem, a random point in NumPy, the loop's loss there, and the blocks.

    Components in `empty` have no weight.
    """
    # On JAX, which compiles for every shape, of variables that are all alike, and so the first of them alone.
    modes, n_bins, blocks = [(0, 1, 2), (2, 0, 3), (3, 1, 0)], (3, 2, 4, 5), range(4)
    if tl.get_backend() == "jax":
        modes, n_bins, blocks = EVEN_MODES, EVEN_BINS, range(1)
    rng = np.random.default_rng(seed)
    tensors = [rng.random([n_bins[n] for n in mode]) for mode in modes]
    for array in tensors:
        # In always the same cells, and columns, for each number of which JAX compiles anew.
        array[np.add.outer(np.add.outer(*map(np.arange, array.shape[:2])), np.arange(array.shape[2])) % 3 == 1] = 0.0
        array[:, -1, -1] = array[-1, :, -1] = array[-1, -1, :] = 0.0
    totals = np.array([t.sum() for t in tensors])
    shares = [t / t.sum() for t in tensors]

    def by_loops(weights, factors):
        share = totals / totals.mean() if omega == "count" else np.ones(len(tensors))
        return coupled_loss(shares, modes, share, weights, factors, name)

    weights, factors = rng.dirichlet(np.ones(RANK)), [rng.dirichlet(np.ones(size), RANK).T for size in n_bins]
    weights[list(empty)] = 1e-17
    weights /= weights.sum()
    loss = LOSSES[name](couple_tensors(read_tensors([tensor(t, dtype) for t in tensors], modes), omega))
    w, there = tensor(weights, dtype), [tensor(a, dtype) for a in factors]
    of_factors = [BlockAt(loss, n, there, w, loss.factor_block(n, there, w)) for n in blocks]
    return (weights, factors), by_loops, [BlockAt(loss, -1, there, w, loss.weight_block(there)), *of_factors]


# --- losses


@EVERY_LOSS
@EVERY_EXAMPLE
@given(seed=SEEDS, omega=st.sampled_from(["count", "uniform"]))
def test_values_of_blocks_are_the_loss_of_the_loops_and_convex(backend, dtype, name, seed, omega):
    (weights, factors), by_loops, blocks = make_problem(name, seed, dtype, omega)
    rng = np.random.default_rng(seed + 1)
    current, loss = by_loops(weights, factors), blocks[0].loss
    rounding = np.finfo(dtype).eps * loss.resolution
    found = loss.of_value(blocks[0].value(weights[None, :]))
    np.testing.assert_allclose(found, current, rtol=1e-9, atol=20 * rounding)
    for at in blocks:
        if at.n < 0:
            x, other = weights[None, :], rng.dirichlet(np.ones(RANK))[None, :]
            there = by_loops(other[0], factors)
        else:
            x, other = factors[at.n], rng.dirichlet(np.ones(len(factors[at.n])), RANK).T
            there = by_loops(weights, [other if m == at.n else a for m, a in enumerate(factors)])
        np.testing.assert_allclose(at.value(other) - at.value(x), there - current, atol=40 * rounding)
        assert at.value((x + other) / 2) <= (at.value(x) + at.value(other)) / 2 + 20 * rounding


@EVERY_LOSS
@EVERY_EXAMPLE
@given(seed=SEEDS)
def test_gradient_is_that_of_differences_and_grows_as_the_curvature_allows(backend, dtype, name, seed):
    rng = np.random.default_rng(seed + 1)
    eps = np.finfo(dtype).eps
    for at in make_problem(name, seed, dtype)[2]:
        x = to_numpy(at.x) + 0.5  # away from zero, where logarithms bend too much for differences
        direction = rng.normal(size=x.shape)
        step = eps ** (1 / 3)  # rounding over it is as much as its square
        difference = (at.value(x + step * direction) - at.value(x - step * direction)) / (2 * step)
        gradient = at.gradient(x)
        assert gradient.shape == x.shape
        np.testing.assert_allclose((gradient * direction).sum(), difference, atol=100 * eps ** (2 / 3))
        if isinstance(at.block, QuadraticBlock):
            second_order = at.value(x + direction) - at.value(x) - (gradient * direction).sum()
            rounding = eps * (abs(at.value(x + direction)) + abs(at.value(x)))
            assert second_order <= (to_numpy(at.block.curvature) * direction**2).sum() / 2 + 100 * rounding


@EVERY_LOSS
def test_blocks_give_the_same_again_and_modify_nothing(backend, dtype, name):
    (weights, factors), _, blocks = make_problem(name, 0, dtype)
    for at, fresh in zip(blocks, make_problem(name, 0, dtype)[2], strict=True):
        # The first gradient may use what the value left behind, the others start anew.
        first, again = ((float(at.block.value(at.x)), to_numpy(at.block.gradient(at.x))) for _ in range(2))
        assert first[0] == again[0]
        for gradient in (again[1], to_numpy(at.block.gradient(at.x)), to_numpy(fresh.block.gradient(fresh.x))):
            np.testing.assert_array_equal(gradient, first[1])
    for a, before in zip((blocks[0].weights, *blocks[0].factors), (weights, *factors), strict=True):
        np.testing.assert_array_equal(to_numpy(a), np.asarray(before, dtype=dtype))


# --- block solvers


def optimality_gap(block, x):
    """Bound of the value above the optimum: the block is convex, and the simplex the hull of its corners."""
    gradient, x = to_numpy(block.gradient(x)), to_numpy(x)
    return float(((gradient * x).sum(axis=block.axis) - gradient.min(axis=block.axis)).sum())


@EVERY_SOLVER
@EVERY_EXAMPLE
@given(seed=st.integers(0, 2**31))
def test_simplex_and_descent(backend, dtype, name, solver_name, seed):
    solver = SOLVERS[name][solver_name]()
    rounding = np.finfo(dtype).eps
    for at in make_problem(name, seed, dtype)[2]:
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
def test_repeated_steps_end_at_the_optimum_of_the_block(backend, dtype, name, solver_name):
    solver = SOLVERS[name][solver_name]()
    for at in make_problem(name, 0, dtype)[2][:3]:
        block, x, memory = at.block, at.x, None
        start = optimality_gap(block, x)
        for _ in range(100):
            x, memory = at.moved(solver, x, memory)
        # In single precision the value soon no longer shows that a step leads downwards.
        assert optimality_gap(block, x) <= {"float32": 5e-2, "float64": 1e-2}[dtype] * start


@EVERY_SOLVER
def test_component_of_next_to_no_weight_stays_on_the_simplex(backend, dtype, name, solver_name):
    # Its gradient is rounding, and a step scaled by its curvature enormous.
    solver = SOLVERS[name][solver_name]()
    for at in make_problem(name, 0, dtype, empty=[1])[2]:
        moved = to_numpy(at.moved(solver, at.x)[0])
        assert np.isfinite(moved).all()
        np.testing.assert_allclose(moved.sum(axis=at.block.axis), 1.0, rtol=1e-5)


@EVERY_LOSS
def test_mirror_starts_at_twice_the_last_step_that_was_accepted(backend, dtype, name):
    if backend == "jax":
        pytest.skip("every number of inner steps would be compiled for itself")
    solver = SOLVERS[name]["mirror"](1)
    halvings = []
    for at in make_problem(name, 0, dtype)[2]:
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
    # Of ten problems one for which so many steps are enough, with more than a digit to spare.
    for at in make_problem("frobenius", 6, dtype)[2][:2]:
        x, memory = at.x, None
        for _ in range(400):
            x, memory = at.moved(solver, x, memory)
        slope = to_numpy(at.block.gradient(x))
        found = to_numpy(x)
        excess = slope - (slope * found).sum(axis=at.block.axis, keepdims=True)
        # The gradient of the Frobenius loss is of the size of one hundredth.
        assert np.abs(excess * found).max() < 1e-2 * {"float32": 3e-4, "float64": 1e-6}[dtype]
