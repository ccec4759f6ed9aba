"""What is compiled is compiled once, and nothing but scalars comes to the host while it runs; the loops are loops."""

from itertools import chain
from typing import NamedTuple

import numpy as np
import pytest
import tensorly as tl
from backend_problems import EVERY_LOSS, SOLVERS, make_codes, solve, tensor

from tensorly_smp.factors.backend import choose, compiled, repeat, while_loop


class Pair(NamedTuple):
    one: object
    other: object


@compiled(static=(0,))
def scaled_total(power, vectors, pair):
    """Of tuples of tensors, plain and named, with None among them."""
    one = sum(vector**power for vector in vectors) + pair.one
    return Pair(one, None if pair.other is None else 2.0 * pair.other)


def test_compiled_functions_take_and_return_tuples(backend, dtype):
    vectors = tuple(tensor([1.0, float(n)], dtype) for n in range(3))
    for power, other in [(1, None), (2, None), (2, tensor([4.0], dtype))]:
        found = scaled_total(power, vectors, Pair(tensor([0.5, 0.5], dtype), other))
        assert found.one.dtype == getattr(tl.backend, dtype)
        assert tl.to_numpy(found.one).tolist() == [3.5, {1: 3.5, 2: 5.5}[power]]
        assert found.other is None if other is None else tl.to_numpy(found.other).tolist() == [8.0]


def test_function_runs_once_per_static_argument_and_shape(backend):
    calls = []

    @compiled(static=(0,))
    def doubled(name, vector):
        calls.append(name)
        return 2.0 * vector

    for name, size in [("a", 2), ("a", 2), ("b", 2), ("a", 3), ("a", 2)]:
        assert tl.to_numpy(doubled(name, tensor(np.ones(size), "float64"))).tolist() == [2.0] * size
    assert calls == (["a", "b", "a"] if backend == "jax" else ["a", "a", "b", "a", "a"])


@pytest.mark.parametrize("is_compiled", [False, True])
def test_loops_are_those_of_python(backend, dtype, is_compiled):
    def halved_until_small(start):
        last = while_loop(lambda pair: pair.one > 1.0, lambda pair: Pair(pair.one / 2.0, pair.other + 1.0), start)
        tripled = repeat(3, lambda x: 3.0 * x, last.one)
        return last.one, last.other, tripled, choose(last.other > 2.0, tripled, last.one)

    run = compiled()(halved_until_small) if is_compiled else halved_until_small
    for start, expected in [(10.0, [0.625, 4.0, 16.875, 16.875]), (0.5, [0.5, 0.0, 13.5, 0.5])]:
        found = run(Pair(tensor(start, dtype), tensor(0.0, dtype)))
        assert [float(value) for value in found] == expected


def count_copies(monkeypatch, backend):
    """Sizes of what is read from tensors, in a list that may be emptied."""
    sizes = []

    def watch(kind, name):
        original = getattr(kind, name)

        def watched(self, *arguments, **options):
            sizes.append(int(np.prod(self.shape)))
            return original(self, *arguments, **options)

        monkeypatch.setattr(kind, name, watched)

    kind = type(tl.tensor(np.ones(2)))
    for name in ("__array__", "__float__", "__bool__", "__int__", "item", "tolist"):
        watch(kind, name)
    if backend == "pytorch":
        for name in ("numpy", "cpu"):
            watch(kind, name)
    original = tl.to_numpy
    monkeypatch.setattr(tl, "to_numpy", lambda array: sizes.append(int(np.prod(array.shape))) or original(array))
    return sizes


@pytest.mark.parametrize("loss", EVERY_LOSS)
def test_scalars_alone_come_to_the_host_in_a_sweep(backend, monkeypatch, loss):
    if backend == "numpy":
        pytest.skip("NumPy arrays are on the host")
    codes, sample_weight = make_codes(0.4, True)
    sizes, found = count_copies(monkeypatch, backend), []
    assert tl.to_numpy(tl.tensor(np.ones(3))).tolist() == [1.0, 1.0, 1.0]
    assert float(tl.sum(tl.tensor(np.ones(3)))) == 3.0
    assert 3 in sizes
    assert 1 in sizes

    def callback(*_):
        found.append(list(sizes))
        sizes.clear()
        return len(found) == 8

    options = {"modes": None, "loss": loss, "form": "counted", "sample_weight": sample_weight, "tol": 0.0}
    solve(codes, callback=callback, **options)
    assert len(found) == 8
    assert set(chain(*found[1:])) == {1}
    # The loss, the change, and for the extrapolation two lengths; twice where one is taken back.
    assert max(map(len, found[1:])) <= 12


@pytest.mark.slow
@pytest.mark.parametrize("loss", EVERY_LOSS)
def test_jax_compiles_a_step_once_for_all_variables_sweeps_and_starts(monkeypatch, loss):
    pytest.importorskip("jax")
    solver = next(iter(SOLVERS[loss].values()))
    original, shapes = solver.__call__, []

    def counted(self, block, x, memory=None):
        shapes.append(tuple(x.shape))
        return original(self, block, x, memory)

    monkeypatch.setattr(solver, "__call__", counted)
    codes, _ = make_codes(0.0, False)
    with tl.backend_context("jax"):
        for _ in range(2):
            solution = solve(codes, modes=None, loss=loss, form="counted", n_init=3, n_iter_max=6, tol=0.0, n_inner=3)
            assert solution.trace.n_sweeps == 6
    # Python code runs while it is compiled, and then no more: the weights, the factors. (No other test has n_inner=3.)
    assert sorted(shapes) == [(1, 3), (4, 3)]
