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

from tensorly_smp.factors.backend import as_tensor
from tensorly_smp.factors.blocks import LOSSES, ExplicitLoss, QuadraticBlock
from tensorly_smp.factors.coupled import couple_tensors
from tensorly_smp.factors.sweeps import Steps
from tensorly_smp.marginals.histograms import read_tensors, to_numpy

# --- losses


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


# --- block solvers


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
        modes, n_bins, blocks = EVEN_MODES, EVEN_BINS, range(-1, 1)
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
