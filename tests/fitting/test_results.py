"""Fits as one labelled Dataset, and back."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorly_smp as smp
from tensorly_smp.decomposition.solution import factors_from_dataset, factors_to_dataset
from tensorly_smp.exceptions import InvalidInputError


def make_factors(n_bins=(3, 5, 4), rank=2, variables=("a", "b", "c"), seed=0):
    rng = np.random.default_rng(seed)
    edges = tuple(np.cumsum(rng.uniform(0.5, 1, size + 1)) for size in n_bins)
    factors = [rng.dirichlet(np.ones(size), rank).T for size in n_bins]
    binning = None if variables is None else smp.Binning(edges, variables)
    return smp.MixtureFactors(rng.dirichlet(np.ones(rank)), factors, binning)


def same_factors(one, other):
    np.testing.assert_array_equal(one.weights, other.weights)
    for a, b in zip(one.factors, other.factors, strict=True):
        np.testing.assert_array_equal(a, b)
    assert one.binning == other.binning


@pytest.fixture(scope="module")
def solution():
    X = smp.datasets.make_smooth_mixture("gaussian", 300, 4, 2, random_state=0).X
    codes = smp.encode_samples(X, smp.choose_binning(X, n_bins=[5, 6, 7, 5]))
    return smp.coupled_simplex_parafac(smp.count_marginals(codes), 2, n_init=3, random_state=0)


def test_layout():
    factors = make_factors()
    dataset = factors_to_dataset(factors)
    assert dict(dataset.sizes) == {"component": 2, "variable": 3, "bin": 5, "edge": 6}
    assert dataset.factors.dims == ("variable", "bin", "component")
    assert dataset.n_bins.values.tolist() == [3, 5, 4]
    np.testing.assert_array_equal(dataset.factors.sel(variable="b"), factors.factors[1])
    np.testing.assert_array_equal(dataset.edges.sel(variable="c")[:5], factors.binning.edges[2])
    assert dataset.attrs == {"binning_strategy": "given"}
    assert (dataset.factors.notnull() == (dataset.bin < dataset.n_bins)).all()  # padding is NaN
    assert (dataset.edges.notnull() == (dataset.edge <= dataset.n_bins)).all()
    same_factors(factors_from_dataset(dataset.transpose()), factors)


@settings(max_examples=8)
@given(st.lists(st.integers(2, 6), min_size=1, max_size=5), st.integers(1, 3), st.booleans())
def test_there_and_back(n_bins, rank, with_bins):
    names = tuple(f"v{n}" for n in range(len(n_bins))) if with_bins else None
    factors = make_factors(n_bins, rank, names)
    same_factors(factors_from_dataset(factors_to_dataset(factors)), factors)


def test_names_of_mixed_types_become_strings():
    factors = make_factors(variables=("a", 1, ("b", 2)))
    dataset = factors_to_dataset(factors)
    assert dataset["variable"].values.tolist() == ["a", "1", "('b', 2)"]
    # A number and its text are two names.
    same = make_factors(variables=("1", 1, 2))
    same_factors(factors_from_dataset(factors_to_dataset(same), same.binning.variables), same)


def test_copies_and_layout():
    factors = make_factors()
    transposed = smp.MixtureFactors(factors.weights, [np.asfortranarray(a) for a in factors.factors], factors.binning)
    dataset = factors_to_dataset(transposed)
    back = factors_from_dataset(dataset)
    dataset.factors[:] = 0
    dataset.weights[:] = 0
    same_factors(back, factors)
    # Sums depend on the layout in the last bit.
    assert all(a.flags.c_contiguous for a in back.factors)
    # A selected component is no mixture.
    with pytest.raises(InvalidInputError):
        factors_from_dataset(factors_to_dataset(make_factors()).isel(component=[0]))
    # Selected variables.
    factors = make_factors()
    part = factors_from_dataset(factors_to_dataset(factors).sel(variable=["c", "a"]))
    assert part.binning.variables == ("c", "a")
    np.testing.assert_array_equal(part.factors[0], factors.factors[2])


@pytest.mark.parametrize("name", ["weights", "factors", "n_bins"])
def test_missing_content(name):
    with pytest.raises(InvalidInputError, match=name):
        factors_from_dataset(factors_to_dataset(make_factors()).drop_vars(name))


def test_solution(solution):
    dataset = solution.to_dataset()
    assert all("long_name" in dataset[name].attrs for name in dataset.data_vars)
    same_factors(factors_from_dataset(dataset), solution.factors)
    np.testing.assert_array_equal(dataset.loss, solution.trace.loss)
    np.testing.assert_array_equal(dataset.change, solution.trace.change)
    np.testing.assert_array_equal(dataset.seconds, solution.trace.seconds)
    np.testing.assert_array_equal(dataset.start_loss, solution.start_losses)
    for start, trace in zip(dataset.start_trace.values, solution.start_traces, strict=True):
        np.testing.assert_array_equal(start[: len(trace.loss)], trace.loss)
        assert np.isnan(start[len(trace.loss) :]).all()
    np.testing.assert_array_equal(solution.start_losses, [trace.loss[-1] for trace in solution.start_traces])
    assert dataset.start_status.values.tolist() == [status.name.lower() for status in solution.start_statuses]
    assert dataset.sizes["sweep"] == solution.trace.n_sweeps + 1
    assert dataset.attrs["n_sweeps"] == solution.trace.n_sweeps
    assert smp.StopReason[dataset.attrs["status"].upper()] is solution.status
