"""Counted or implicit: which form is taken when, and what is refused."""

import numpy as np
import pytest
from rooms import solved

from tensorly_smp.codes.encoding import Codes
from tensorly_smp.decomposition import problem
from tensorly_smp.decomposition.problem import as_problem
from tensorly_smp.decomposition.solver import coupled_simplex_parafac
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError, SizeLimitError
from tensorly_smp.factors.coupled import CoupledTensors
from tensorly_smp.factors.implicit import CoupledCodes
from tensorly_smp.marginals.histograms import BYTES_PER_TRIPLE, bytes_of_histograms, count_marginals


def make_codes(n_samples=500, n_variables=5, n_bins=4, missing=0.0, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, n_bins, (n_samples, n_variables))
    values[rng.random(values.shape) < missing] = -1
    return Codes.from_array(values, n_bins=n_bins)


def form_of(codes, loss="frobenius", weights="count", form="auto", rank=3):
    found = as_problem(codes, rank=rank, loss=loss, weights=weights, form=form)
    assert isinstance(found.tensors, CoupledCodes if found.form == "implicit" else CoupledTensors)
    return found.form


def test_few_triples_of_many_samples_are_counted_and_many_of_few_are_not():
    assert form_of(make_codes(n_samples=5000, n_variables=4)) == "counted"
    assert form_of(make_codes(n_samples=300, n_variables=30, n_bins=6)) == "implicit"
    assert form_of(make_codes(n_samples=300, n_variables=30, n_bins=6), loss="kl") == "counted"


def test_many_patterns_of_missing_entries_speak_for_counting():
    options = {"n_samples": 300, "n_variables": 12, "n_bins": 6}
    assert form_of(make_codes(**options), rank=12) == "implicit"
    assert form_of(make_codes(missing=0.3, **options), rank=12) == "counted"


def test_histograms_over_the_limit_are_never_counted(monkeypatch):
    codes = make_codes(n_samples=5000, n_variables=4)
    monkeypatch.setattr(problem, "MAX_BYTES", 1000.0)
    assert form_of(codes) == "implicit"
    for loss, message in (("kl", 'loss="frobenius", which needs none'), ("frobenius", 'histograms="implicit"')):
        with pytest.raises(SizeLimitError, match=rf"all 4 triples.*{message}.*count_marginals\(codes, triples=1000\)"):
            form_of(codes, loss=loss, form="counted")
    with pytest.raises(SizeLimitError):
        form_of(codes, loss="kl")


def test_size_is_that_of_the_histograms():
    codes = Codes.from_array(np.zeros((3, 4), dtype=int), n_bins=[2, 3, 4, 5])
    with pytest.warns(UserWarning, match="in one bin"):
        marginals = count_marginals(codes)
    n_bytes = sum(count.nbytes for count in marginals.counts) + 4 * BYTES_PER_TRIPLE
    assert bytes_of_histograms(codes.n_bins) == n_bytes


def test_uniform_weights():
    complete, incomplete = make_codes(), make_codes(missing=0.2)
    assert form_of(complete, weights="uniform", form="implicit") == "implicit"
    assert form_of(incomplete, weights="uniform") == "counted"
    with pytest.raises(InvalidInputError, match='weights is "uniform" with missing entries'):
        form_of(incomplete, weights="uniform", form="implicit")
    options = {"loss": "frobenius", "init": "random", "random_state": 0, "weights": "uniform", "tol": 1e-4}
    losses = [solved(complete, 2, form=form, **options).loss for form in ("implicit", "counted")]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-9)


def test_kl_counts_and_is_that_of_the_histograms():
    codes = make_codes(missing=0.1)
    sample_weight = np.random.default_rng(0).random(codes.n_samples)
    options = {"init": "random", "random_state": 0, "tol": 1e-4}
    solution = coupled_simplex_parafac(codes, 2, sample_weight=sample_weight, **options)
    expected = coupled_simplex_parafac(count_marginals(codes, "all", sample_weight), 2, **options)
    assert (solution.trace.loss == expected.trace.loss).all()
    assert solution.start_info["histograms"] == "counted"
    assert "histograms" not in expected.start_info
    assert solution.triples is None


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"form": "none"}, InvalidInputError, "form is 'none'; expected one of"),
        ({"form": None}, InvalidInputError, "form is None"),
        ({"form": "implicit", "loss": "kl"}, InvalidInputError, 'expected loss="frobenius"'),
        ({"weights": "counts"}, InvalidInputError, "weights is 'counts'"),
        ({"weights": 1}, InvalidInputError, "weights is 1"),
        ({"modes": [(0, 1, 2)]}, InvalidInputError, "data is Codes, which has its variables"),
        ({"variables": ["a"] * 5}, InvalidInputError, "data is Codes, which has its variables"),
        ({"data": [np.ones((2, 2, 2))], "modes": [(0, 1, 2)], "sample_weight": [1.0]}, InvalidInputError, "for Codes"),
        ({"data": count_marginals(make_codes()), "sample_weight": np.ones(500)}, InvalidInputError, "count_marginals"),
        ({"data": 5}, InvalidTypeError, "expected Marginals, Codes, a third-order tensor"),
    ],
)
def test_bad_arguments_are_named(options, error, message):
    options = {"data": make_codes(), "loss": "frobenius", **options}
    with pytest.raises(error, match=message):
        solved(options.pop("data"), 2, **options)
