"""The class in TensorLy's manner is the function, with its parameters kept."""

import inspect

import numpy as np
import pytest
from tensorly.cp_tensor import CPTensor
from tensorly.decomposition import non_negative_parafac
from tensorly.testing import assert_class_wrapper_correctly_passes_arguments

from tensorly_smp.decomposition.solver import CoupledSimplexCP, coupled_simplex_parafac
from tensorly_smp.exceptions import ConvergenceWarning, InvalidInputError

MODES = [(0, 1, 2), (0, 1, 3)]


def make_tensors():
    rng = np.random.default_rng(0)
    return [rng.random((3, 4, 5)), rng.random((3, 4, 2))]


def test_parameters_and_defaults_are_those_of_the_function():
    function = dict(inspect.signature(coupled_simplex_parafac).parameters)
    function.pop("data")
    assert inspect.signature(CoupledSimplexCP).parameters == function


def test_same_result_as_the_function():
    decomposition = CoupledSimplexCP(2, modes=MODES, loss="frobenius", n_init=2, init="random", random_state=0)
    cp = decomposition.fit_transform(make_tensors())
    solution = coupled_simplex_parafac(
        make_tensors(), 2, modes=MODES, loss="frobenius", n_init=2, init="random", random_state=0
    )
    assert isinstance(cp, CPTensor)
    assert cp is decomposition.decomposition_
    assert (decomposition.solution_.trace.loss == solution.trace.loss).all()
    for a, b in zip((cp.weights, *cp.factors), (solution.factors.weights, *solution.factors.factors), strict=True):
        assert (a == b).all()
    assert "rank 2" in repr(decomposition)


def test_fit_again_and_fit_are_the_same():
    decomposition = CoupledSimplexCP(2, modes=MODES, init="random", random_state=0)
    first = decomposition.fit_transform(make_tensors())
    assert decomposition.fit(make_tensors()) is decomposition
    assert (decomposition.decomposition_.weights == first.weights).all()


def test_errors_and_warnings_come_through():
    with pytest.raises(InvalidInputError, match="rank is 0"):
        CoupledSimplexCP(0, modes=MODES).fit_transform(make_tensors())
    with pytest.warns(ConvergenceWarning):
        CoupledSimplexCP(2, modes=MODES, n_iter_max=1, init="random", random_state=0).fit_transform(make_tensors())


def test_class_wrapper_assertion_of_tensorly(monkeypatch):
    assert_class_wrapper_correctly_passes_arguments(monkeypatch, coupled_simplex_parafac, CoupledSimplexCP, rank=3)


def test_decomposition_of_a_new_fit_is_new():
    decomposition = CoupledSimplexCP(2, modes=MODES, init="random", random_state=0)
    with pytest.raises(AttributeError, match="solution_"):
        decomposition.decomposition_  # noqa: B018
    first = decomposition.fit_transform(make_tensors())
    other = decomposition.fit_transform([2 - tensor for tensor in make_tensors()])
    assert other is decomposition.decomposition_
    assert not np.allclose(other.weights, first.weights)


def test_cp_tensor_in_cp_tensor_out():
    tensor = np.random.default_rng(0).random((4, 5, 6))
    start = non_negative_parafac(tensor, 2, random_state=0)
    before = [a.copy() for a in start.factors]
    decomposition = CoupledSimplexCP(2, modes=[(0, 1, 2)], loss="frobenius", init=start, n_iter_max=500)
    found = decomposition.fit_transform([tensor])
    assert isinstance(found, CPTensor)
    for a, b in zip(start.factors, before, strict=True):
        np.testing.assert_array_equal(a, b)
    # The end of one is the start of another, which has nothing left to do.
    again = CoupledSimplexCP(2, modes=[(0, 1, 2)], loss="frobenius", init=found).fit([tensor])
    assert again.solution_.trace.n_sweeps <= 3
    np.testing.assert_allclose(again.solution_.loss, decomposition.solution_.loss, rtol=1e-4)
